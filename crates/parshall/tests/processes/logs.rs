//! What processes write to their logs: JSON where that is asked for, every line of it, and never what is secret.

use std::fs::File;
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::serving::{Serving, outcome, parshall, serve};

/// What clients send, which is nobody's to read.
const PAYLOAD: &str = "a-payload-that-nobody-may-read";
const KEY: &str = "a-partition-key-that-nobody-may-read";
const PROPERTY: &str = "a-property-that-nobody-may-read";

/// What the development key is, and what every token has in it.
const SECRETS: [&str; 3] = ["SAS_KEY_VALUE", "SharedAccessSignature sr=", "Eby8vdM02xNOcqFl"];

/// A command that logs everything as JSON into a file of this name.
fn traced(mut command: Command, folder: &Path, name: &str) -> Command {
    let log = File::create(folder.join(name)).unwrap();
    command.env("PARSHALL_LOG", "trace").env("PARSHALL_LOG_FORMAT", "json").stderr(Stdio::from(log));
    command
}

fn send(serving: &Serving, folder: &Path, protocol: &str) {
    let arguments = ["send", "orders", "--protocol", protocol, "--format=lines", "--key", KEY, "--json"];
    let mut command = parshall(&[&arguments[..], &["--property", &format!("of={PROPERTY}")]].concat());
    command.env("EVENT_HUBS_CONNECTION_STRING", serving.announced("namespace"));
    command.env("PARSHALL_KAFKA_BOOTSTRAP_SERVERS", serving.announced("Kafka "));
    let mut command = traced(command, folder, &format!("send-{protocol}.log"));
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(PAYLOAD.as_bytes()).unwrap();
    assert!(child.wait().unwrap().success(), "{protocol}");
}

/// A relay from one hub to the other that keeps its checkpoints in blobs.
fn relay(serving: &Serving, folder: &Path) -> Child {
    let storage = serving.announcement.lines().find(|line| line.contains("BlobEndpoint=")).unwrap();
    let pipeline = format!(
        "source:\n  event_hubs: {{connection_string: '{0}', hub: orders}}\n\
         sink:\n  event_hubs: {{connection_string: '{0}', hub: copies}}\n\
         checkpoint: {{store: {{blob: {{connection_string: '{1}', container: kept, create: true}}}}}}\n\
         ownership: {{mode: greedy}}\n",
        serving.announced("namespace"),
        storage.trim(),
    );
    std::fs::write(folder.join("mine.yaml"), pipeline).unwrap();
    let mut command = traced(parshall(&["relay", "mine.yaml"]), folder, "relay.log");
    command.current_dir(folder).stdout(Stdio::piped()).spawn().unwrap()
}

#[test]
fn no_payload_and_no_key_is_in_any_log_however_much_is_logged() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let addresses = ["--amqp", "127.0.0.1:0", "--http", "127.0.0.1:0", "--kafka", "127.0.0.1:0"];
    let others = ["--blob", "127.0.0.1:0", "--hub", "orders:2", "--hub", "copies:1"];
    let command = traced(serve(&[&addresses[..], &others].concat()), folder, "service.log");
    let serving = Serving::of(command);
    for protocol in ["amqp", "kafka", "http"] {
        send(&serving, folder, protocol);
    }
    let mut relaying = relay(&serving, folder);
    let told = BufReader::new(relaying.stdout.take().unwrap()).lines().map(Result::unwrap);
    assert!(told.into_iter().any(|line| line == "Running."), "it runs");
    let mut tail = parshall(&["tail", "copies", "--from", "first", "--count", "3", "--follow"]);
    tail.env("EVENT_HUBS_CONNECTION_STRING", serving.announced("namespace"));
    let (status, stdout, stderr) = outcome(&mut tail);
    assert_eq!((status, stdout.matches(PAYLOAD).count()), (Some(0), 3), "{stdout}{stderr}");
    kill_process(Pid::from_child(&relaying), Signal::TERM).unwrap();
    assert!(relaying.wait().unwrap().success());
    assert_eq!(serving.end(Signal::TERM), Some(0));

    let mut lines = 0;
    for log in std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
        if log.extension().is_none_or(|extension| extension != "log") {
            continue;
        }
        let text = std::fs::read_to_string(&log).unwrap();
        for secret in [PAYLOAD, KEY, PROPERTY].into_iter().chain(SECRETS) {
            let line = text.lines().find(|line| line.contains(secret));
            assert_eq!(line, None, "{secret} is in {}", log.display());
        }
        for line in text.lines() {
            lines += 1;
            let event: Value = serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"));
            for field in ["timestamp", "level", "message", "target"] {
                assert!(event[field].is_string(), "{field} is not in {line}");
            }
        }
    }
    assert!(lines > 5, "they did log");
}

#[test]
fn an_error_is_a_line_of_json_where_the_log_is() {
    let (status, stdout, stderr) = outcome(&mut parshall(&["--log-format", "json", "relay", "nowhere.yaml"]));
    assert_eq!((status, stdout.as_str()), (Some(2), ""));
    let event: Value = serde_json::from_str(&stderr).unwrap();
    assert_eq!(event["level"], "ERROR");
    assert!(event["message"].as_str().unwrap().contains("nowhere.yaml"), "{stderr}");
}

#[test]
fn options_come_from_the_environment_unless_the_command_line_has_them() {
    let mut command = serve(&["--amqp", "127.0.0.1:0"]);
    command.env("PARSHALL_SERVE_HUB", "orders:3").env("PARSHALL_SERVE_HTTP", "127.0.0.1:0");
    command.env("PARSHALL_SERVE_AMQP", "nonsense").env("PARSHALL_QUIET", "1");
    let serving = Serving::of(command);
    assert_eq!(serving.hubs(), ["orders (3 partitions)"]);
    assert_eq!(serving.end(Signal::TERM), Some(0));

    let mut wrong = serve(&[]);
    wrong.env("PARSHALL_SERVE_AMQP", "a-secret-by-mistake");
    let (status, _, stderr) = outcome(&mut wrong);
    assert_eq!(status, Some(2));
    assert!(stderr.contains("--amqp"), "{stderr}");
    let mut flag = parshall(&["list"]);
    flag.env("PARSHALL_QUIET", "perhaps");
    assert_eq!(outcome(&mut flag).0, Some(2));
}
