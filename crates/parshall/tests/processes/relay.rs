//! `parshall relay` as a process: what it says of a pipeline, how it ends, and what it says when it can't begin.
//!
//! Every address is port 0 or one that the test itself holds, and waiting is for a line of output or for the end of
//! the process, never for a time. What it carries is the matter of `relay_crash`.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use hub::namespace::{HubConfig, NamespaceConfig};
use hub::service::{Service, ServiceConfig};
use rustix::process::{Pid, Signal, kill_process};

use crate::stop_signals::stop_signals;

fn parshall(directory: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_parshall"));
    command.arg("relay").args(arguments).current_dir(directory).env_clear();
    command
}

/// Runs to the end and gives exit status, standard output and standard error as one text.
fn run(mut command: Command) -> String {
    let output = command.output().unwrap();
    let status = output.status.code().map_or_else(|| "none".to_owned(), |code| code.to_string());
    let [stdout, stderr] = [output.stdout, output.stderr].map(|bytes| String::from_utf8(bytes).unwrap());
    format!("exit status: {status}\n--- standard output\n{stdout}--- standard error\n{stderr}")
}

fn repository() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."))
}

/// A service with the hubs `source` and `destination` of two partitions each, and a folder for pipelines.
struct Served {
    runtime: tokio::runtime::Runtime,
    service: Option<Service>,
    folder: tempfile::TempDir,
}

impl Served {
    fn start() -> Self {
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let hubs = ["source", "destination"].map(|name| HubConfig::new(name, 2));
        let config = ServiceConfig::loopback(NamespaceConfig::with_hubs(hubs.into()));
        let service = runtime.block_on(Service::start(config)).unwrap();
        Self { runtime, service: Some(service), folder: tempfile::tempdir().unwrap() }
    }

    fn connection_string(&self) -> String {
        self.service.as_ref().unwrap().connection_string(None).reveal()
    }

    /// The command for a pipeline from `source` to `destination` with more lines.
    fn pipeline(&self, connection_string: &str, source: &str, more: &str) -> Command {
        let text = format!(
            "source:\n  event_hubs:\n    connection_string: {connection_string}\n    hub: source\n{source}\
             sink:\n  event_hubs:\n    connection_string: {connection_string}\n    hub: destination\n\
             checkpoint: {{store: {{files: ./checkpoints}}}}\n{more}"
        );
        std::fs::write(self.folder.path().join("mine.yaml"), text).unwrap();
        parshall(self.folder.path(), &["mine.yaml"])
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        if let Some(service) = self.service.take() {
            self.runtime.block_on(service.stop());
        }
    }
}

/// A running relay, with what it printed before it was running.
struct Running {
    child: Child,
    told: String,
}

impl Running {
    fn start(mut command: Command) -> Self {
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut told = String::new();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap);
        while !told.ends_with("Running.\n") {
            let Some(line) = lines.next() else { panic!("it ended before it was running: {told}") };
            told.push_str(&line);
            told.push('\n');
        }
        Self { child, told }
    }

    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn the_example_pipeline_is_valid_and_shown_without_its_secrets() {
    let command = parshall(repository(), &["pipelines/fan-out.yaml", "--check"]);
    insta::assert_snapshot!("check_example", run(command));
    let mut command = parshall(repository(), &["pipelines/fan-out.yaml", "--check"]);
    let cloud =
        "Endpoint=sb://example.servicebus.windows.net/;SharedAccessKeyName=relay;SharedAccessKey=c2VjcmV0";
    command.env("SINK_CONNECTION_STRING", cloud);
    let told = run(command);
    assert!(told.contains("destination at example.servicebus.windows.net:5671\n"), "{told}");
    assert!(!told.contains("c2VjcmV0") && !told.contains("SAS_KEY_VALUE"), "{told}");
}

#[test]
fn the_example_between_queues_is_in_order_and_what_is_about_checkpoints_is_refused_there() {
    let command = parshall(repository(), &["pipelines/queue-forward.yaml", "--check"]);
    insta::assert_snapshot!("check_queue_example", run(command));
    let folder = tempfile::tempdir().unwrap();
    let example = repository().join("pipelines/queue-forward.yaml");
    let text = std::fs::read_to_string(example).unwrap() + "in_flight: 4\n";
    std::fs::write(folder.path().join("mine.yaml"), text).unwrap();
    let refused = run(parshall(folder.path(), &["mine.yaml", "--check"]));
    assert!(refused.starts_with("exit status: 2"), "{refused}");
    assert!(refused.contains("`source.service_bus.concurrency`"), "{refused}");
}

#[test]
fn the_example_of_a_mirror_is_valid_and_shows_its_pattern() {
    let command = parshall(repository(), &["pipelines/mirror.yaml", "--check"]);
    insta::assert_snapshot!("check_mirror_example", run(command));
}

#[test]
fn the_example_that_delivers_exactly_once_is_in_order_and_says_by_which_id() {
    let command = parshall(repository(), &["pipelines/exactly-once.yaml", "--check"]);
    insta::assert_snapshot!("check_exactly_once", run(command));
}

#[test]
fn a_check_connects_to_nothing_and_makes_no_folder() {
    let folder = tempfile::tempdir().unwrap();
    let example = std::fs::read_to_string(repository().join("pipelines/fan-out.yaml")).unwrap();
    std::fs::write(folder.path().join("mine.yaml"), example).unwrap();
    let told = run(parshall(folder.path(), &["mine.yaml", "--check"]));
    assert!(told.starts_with("exit status: 0\n"), "{told}");
    assert!(!folder.path().join("checkpoints").exists());
}

#[test]
fn how_partitions_are_shared_is_shown_and_what_can_not_work_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let text = std::fs::read_to_string(repository().join("pipelines/fan-out.yaml")).unwrap();
    let told = |ownership: &str| {
        let pipeline = format!("{text}\nownership: {ownership}\n");
        std::fs::write(folder.path().join("mine.yaml"), pipeline).unwrap();
        run(parshall(folder.path(), &["mine.yaml", "--check"]))
    };
    let shared = told("{mode: balanced, renew: 5 s}");
    let line = "ownership    balanced, renewed every 5 s, expires after 1 min\n";
    assert!(shared.contains(line), "{shared}");
    let impossible = told("{mode: greedy, renew: 30 s}");
    assert!(impossible.starts_with("exit status: 2"), "{impossible}");
    assert!(impossible.contains("ownership.expire"), "{impossible}");
}

#[test]
fn a_wrong_pipeline_is_refused_with_the_line_that_is_wrong() {
    let wrong = |from: &str, to: &str| {
        let folder = tempfile::tempdir().unwrap();
        let example = std::fs::read_to_string(repository().join("pipelines/fan-out.yaml")).unwrap();
        assert!(example.contains(from), "{from}");
        std::fs::write(folder.path().join("mine.yaml"), example.replace(from, to)).unwrap();
        run(parshall(folder.path(), &["mine.yaml"]))
    };
    insta::assert_snapshot!("pipeline_unknown_key", wrong("route: random", "rout: random"));
    insta::assert_snapshot!("pipeline_wrong_choice", wrong("route: random", "route: rondom"));
    insta::assert_snapshot!("pipeline_wrong_type", wrong("in_flight: 1 ", "in_flight: one "));
    insta::assert_snapshot!("pipeline_out_of_range", wrong("in_flight: 1 ", "in_flight: 0 "));
    insta::assert_snapshot!("pipeline_missing_key", wrong("  store: {files: ./checkpoints}\n", ""));
    let variable = wrong("{SINK_CONNECTION_STRING:-", "{SINK_CONNECTION_STRING:?paste it from the portal}");
    insta::assert_snapshot!("pipeline_missing_variable", variable);
    insta::assert_snapshot!("pipeline_no_file", run(parshall(repository(), &["none.yaml"])));
}

#[test]
fn it_serves_health_and_metrics_and_ends_in_good_order_on_every_stop_signal() {
    let served = Served::start();
    for signal in stop_signals() {
        let command = served.pipeline(&served.connection_string(), "", "metrics: 127.0.0.1:0\n");
        let mut running = Running::start(command);
        let line = running.told.lines().find(|line| line.starts_with("metrics ")).unwrap();
        let address = line.rsplit_once("http://").unwrap().1.trim_end_matches("/metrics");
        for (path, content) in [("health", "ok, "), ("metrics", "parshall_relay_received_events_total 0\n")] {
            let mut socket = TcpStream::connect(address).unwrap();
            let request = format!("GET /{path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
            socket.write_all(request.as_bytes()).unwrap();
            let mut answer = String::new();
            socket.read_to_string(&mut answer).unwrap();
            assert!(answer.starts_with("HTTP/1.1 200 OK\r\n"), "{answer}");
            assert!(answer.contains(content), "{answer}");
        }
        running.signal(signal);
        let mut said = String::new();
        running.child.stderr.take().unwrap().read_to_string(&mut said).unwrap();
        assert_eq!(running.child.wait().unwrap().code(), Some(0), "{said}");
        assert!(said.contains("Stopped gracefully.\nreceived     0 events"), "{said}");
    }
}

#[test]
fn what_the_hubs_do_not_have_is_refused_at_its_place_in_the_file() {
    let served = Served::start();
    let connection_string = served.connection_string();
    insta::assert_snapshot!("pipeline_fan_out", run(served.pipeline(&connection_string, "", "fan_out: 3\n")));
    let partitions = "    partitions: [1, 2]\n";
    insta::assert_snapshot!("pipeline_partitions", run(served.pipeline(&connection_string, partitions, "")));
}

#[test]
fn a_service_that_is_not_there_or_refuses_is_one_clear_line_and_status_3() {
    let served = Served::start();
    let connection_string = served.connection_string();
    let unavailable = |command: Command, expected: &str| {
        let said = run(command);
        let message = said.strip_prefix("exit status: 3\n--- standard output\n--- standard error\n  x ");
        let lines = message.unwrap_or_else(|| panic!("{said}"));
        assert!(lines.starts_with(expected), "{said}");
        let (_reason, advice) = lines.split_once('\n').unwrap();
        assert!(advice.lines().all(|line| line.starts_with("  help: the s")), "{said}");
        assert!(advice.lines().count() <= 1, "{said}");
    };
    let checkpoints = served.folder.path().join("checkpoints");
    std::fs::write(&checkpoints, "a file").unwrap();
    unavailable(served.pipeline(&connection_string, "", ""), "checkpoints can't be stored");
    std::fs::remove_file(&checkpoints).unwrap();
    let wrong_key = connection_string.replace("SAS_KEY_VALUE", "another");
    unavailable(served.pipeline(&wrong_key, "", ""), "the source can't be used: amqp:unauthorized-access");
    let closed = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let address = served.service.as_ref().unwrap().amqp_address().port();
    let elsewhere = connection_string.replace(&address.to_string(), &closed.to_string());
    unavailable(served.pipeline(&elsewhere, "", ""), "the source can't be used: connection:unreachable");
    let holder = TcpListener::bind("127.0.0.1:0").unwrap();
    let taken = holder.local_addr().unwrap();
    let said = run(served.pipeline(&connection_string, "", &format!("metrics: {taken}\n")));
    let expected =
        format!("  x the metrics can't be served on {taken}: Address already in use (os error 98)\n");
    assert!(said.contains(&expected), "{said}");
    let advice = format!("process {} (", std::process::id());
    assert!(said.contains(&advice) && said.contains("`metrics: 127.0.0.1:0` takes any free port"), "{said}");
}
