//! `parshall run` as a user meets it: whole runs with tiny figures.

use std::io::{BufRead as _, BufReader, Read as _};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::running::{NAMING_PHASES, results_folder, results_in};

/// `parshall run` in a directory of its own.
pub(super) struct Bench {
    pub(super) folder: tempfile::TempDir,
}

/// What a run came to.
pub(super) struct Finished {
    pub(super) status: Option<i32>,
    pub(super) stdout: String,
    pub(super) stderr: String,
}

impl Bench {
    pub(super) fn new() -> Self {
        Self { folder: tempfile::tempdir().unwrap() }
    }

    /// Writes a file and gives its path.
    pub(super) fn file(&self, name: &str, content: &str) -> PathBuf {
        let path = self.folder.path().join(name);
        std::fs::write(&path, content).unwrap();
        path
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_parshall"));
        command.arg("run").args(arguments).current_dir(self.folder.path()).env_clear();
        command
    }

    pub(super) fn run(&self, arguments: &[&str]) -> Finished {
        finish(self.command(arguments))
    }

    /// The file `results.json`, which is in order by its schema.
    pub(super) fn results(&self) -> Value {
        results_in(self.folder.path())
    }
}

fn finish(mut command: Command) -> Finished {
    let output = command.output().unwrap();
    Finished {
        status: output.status.code(),
        stdout: String::from_utf8(output.stdout).unwrap(),
        stderr: String::from_utf8(output.stderr).unwrap(),
    }
}

/// The cases of results by name; of each it is asserted that every event arrived unharmed.
pub(super) fn intact_cases(results: &Value) -> Vec<(&str, &Value)> {
    let cases = results["cases"].as_array().unwrap();
    for case in cases {
        let delivery = &case["delivery"];
        assert!(delivery["sent"].as_u64().unwrap() > 0, "{delivery}");
        for kind in ["lost", "corrupted", "reordered", "unexpected", "unknown"] {
            assert_eq!(delivery[kind], 0, "{}: {delivery}", case["name"]);
        }
        assert_eq!(delivery["sent"], delivery["acknowledged"], "{delivery}");
    }
    cases.iter().map(|case| (case["name"].as_str().unwrap(), case)).collect()
}

#[test]
fn a_quick_run_leaves_whole_and_valid_results_of_intact_events() {
    let bench = Bench::new();
    let finished = bench.run(&[
        "fan-out",
        "--quick",
        "--format",
        "json",
        "--set",
        "phases.warm_up=200 ms",
        "--set",
        "phases.measure=2 s",
        "--set",
        "load.max_lag=20000",
        "--set",
        "relay.fan_out=[1, 4]",
    ]);
    assert_eq!(finished.status, Some(0), "{}", finished.stderr);
    let results = bench.results();
    assert_eq!(
        serde_json::from_str::<Value>(&finished.stdout).unwrap(),
        results,
        "standard output is the content of results.json"
    );
    assert_eq!(results["complete"], true);
    let cases = intact_cases(&results);
    let names: Vec<&str> = cases.iter().map(|(name, _)| *name).collect();
    assert_eq!(names, ["fan_out=1", "fan_out=4"]);
    for (name, case) in cases {
        assert_eq!(case["passed"], true, "{name}");
        for figure in ["received_per_s", "forwarded_per_s"] {
            assert!(case[figure]["median"].as_f64().unwrap() > 0.0, "{name}: {figure}");
        }
        assert!(case["memory_peak_bytes"]["median"].as_f64().unwrap() > 1e6, "{name}");
        assert!(case["latency_us"]["p50"].as_f64().unwrap() > 0.0, "{name}");
    }

    let folder = results_folder(bench.folder.path());
    let read = |name: &str| std::fs::read_to_string(folder.join(name)).unwrap();
    assert_eq!(read("results.csv").lines().count(), 1 + 2 + 2, "a head, and a row per case and per trial");
    assert!(read("latency.hlog").lines().count() > 4);
    for case in ["fan_out=1.1", "fan_out=4.1"] {
        let logs = folder.join("logs").join(case);
        for role in ["hub", "load", "relay", "sink"] {
            assert!(logs.join(role).with_extension("log").exists(), "{case}: {role}");
        }
        assert!(!logs.join("checkpoints").exists(), "{case}: progress of a run is of no use after it");
    }
    let report = read("report.html");
    assert!(report.contains("<svg") && report.contains("fan_out=4"));
    for outside in ["src=\"", "href=\"http", "href=\"//", "url(", "@import", "<link", "<iframe"] {
        let found = report.find(outside).map(|at| &report[at..report.len().min(at + 80)]);
        assert_eq!(found, None, "the report needs nothing but itself");
    }
}

#[test]
fn a_topology_without_a_pipeline_measures_the_load_and_starts_no_relay() {
    for (entity, noun) in [("{hub: events, partitions: 4}", "events"), ("{queue: orders}", "messages")] {
        let bench = Bench::new();
        let scenario = format!(
            "scenario: ingest
topology: {{entities: {{in: {entity}}}, load: in, sink: in, measure: load}}
embedded: {{log_per_hub: 64 MiB}}
load: {{max_lag: 10000, batch: 50}}
phases: {{warm_up: 200 ms, measure: 1 s, drain: 20 s}}
published:
  - {{case: ingest, produced_per_s: 1000/s, latency_us.p99: 51 ms}}
"
        );
        bench.file("ingest.yaml", &scenario);
        let finished = bench.run(&["./ingest.yaml"]);
        assert_eq!(finished.status, Some(0), "{}{}", finished.stdout, finished.stderr);
        let results = bench.results();
        let (_, case) = intact_cases(&results)[0];
        assert_eq!((&case["measured_role"], &case["passed"]), (&"load".into(), &true.into()), "{case:#}");
        for figure in ["produced_per_s", "consumed_per_s", "cpu_percent", "memory_peak_bytes"] {
            assert!(case[figure]["median"].as_f64().unwrap() > 0.0, "{figure}");
        }
        assert!(case.get("forwarded_per_s").is_none() && case.get("relay").is_none(), "{case:#}");
        assert!(case["trials"][0]["roles"].get("relay").is_none());
        assert!(!results_folder(bench.folder.path()).join("logs/ingest.1/relay.log").exists());
        for part in ["produced/s", "consumed/s", "published", "51.0 ms", noun] {
            assert!(finished.stdout.contains(part), "{part}\n{}", finished.stdout);
        }
    }
}

#[test]
fn a_million_events_have_a_cost_in_resources_and_with_prices_in_money() {
    let bench = Bench::new();
    bench.file("mine.yaml", &tiny("target: embedded\n", "100 B", "[closed]"));
    bench.file("prices.yaml", "{currency: EUR, core_hour: 3600, gib_hour: 3600, throughput_unit_hour: 0.03}");
    let finished = bench.run(&["mine.yaml"]);
    assert!(!finished.stdout.contains("cost of"), "{}", finished.stdout);
    let results = bench.results();
    let cost = &results["cases"][0]["cost"];
    for role in ["hub", "load", "relay", "sink"] {
        let used = &cost["roles"][role];
        assert!(used["gib_seconds"].as_f64().unwrap() > 0.0 && used.get("price").is_none(), "{cost:#}");
    }
    assert!(cost["service"]["throughput_unit_seconds"].as_f64().unwrap() > 0.0, "{cost:#}");
    let operations = cost["service"]["operations"].as_f64().unwrap();
    // The destination alone makes a million. How many came into the source meanwhile depends on its backlog.
    assert!(operations > 1_000_000.0, "each event is accepted by two hubs: {operations}");
    assert!(results.get("prices").is_none() && cost.get("total").is_none());

    let finished = bench.run(&["mine.yaml", "--prices", "prices.yaml"]);
    for part in ["cost of", "a million", " EUR"] {
        assert!(finished.stdout.contains(part), "{part}\n{}", finished.stdout);
    }
    let results = bench.results();
    let (cost, relay) = (&results["cases"][0]["cost"], &results["cases"][0]["cost"]["roles"]["relay"]);
    let of = |figure: &Value| figure.as_f64().unwrap();
    // At 3600 an hour a second costs 1.
    assert!((of(&relay["price"]) - of(&relay["core_seconds"]) - of(&relay["gib_seconds"])).abs() < 1e-9);
    assert!(
        (of(&cost["total"]) - of(&relay["price"]) - of(&cost["service"]["price"])).abs() < 1e-9,
        "{cost:#}"
    );
    let refused = bench.run(&["mine.yaml", "--prices", "mine.yaml"]);
    assert_eq!(refused.status, Some(2), "{}", refused.stderr);
}

#[test]
fn each_role_reaches_a_topic_in_its_own_way_and_every_message_is_accounted_for() {
    let bench = Bench::new();
    let scenario = "scenario: topics
topology:
  entities:
    in: {topic: orders, subscriptions: [work]}
    out: {topic: done, subscriptions: [verify, spare]}
  load: {to: in, transport: web-socket}
  pipeline: {from: in/work, to: out, tls: true}
  sink: {from: out/verify, tls: true, transport: web-socket}
load: {mode: open, rate: 400/s, batch: 4}
relay: {prefetch: 0, concurrency: 32}
phases: {warm_up: 200 ms, measure: 1 s, drain: 20 s}
";
    bench.file("topics.yaml", scenario);
    let finished = bench.run(&["./topics.yaml"]);
    let results = bench.results();
    let case = &results["cases"][0];
    let delivery = &case["delivery"];
    assert!(delivery["sent"].as_u64().unwrap() > 300, "{delivery}\n{}", finished.stderr);
    for kind in ["lost", "duplicated", "corrupted", "unexpected", "unknown"] {
        assert_eq!(delivery[kind], 0, "{delivery}");
    }
    assert_eq!(case["system"]["transport"], "tls", "{case:#}");
    let findings = case["findings"].as_array().map_or(&[][..], Vec::as_slice);
    assert!(findings.iter().all(|finding| finding["severity"] != "failure"), "{findings:#?}");
    let sent = &delivery["sent"];
    let counted = &case["trials"][0]["hub"];
    for place in ["orders/Subscriptions/work", "done/Subscriptions/verify", "done/Subscriptions/spare"] {
        let counters = counted[place].as_object().unwrap_or_else(|| panic!("{place}: {counted:#}"));
        assert!(counters["incoming_events"].as_u64().unwrap() <= sent.as_u64().unwrap());
    }
    assert_eq!(counted["done/Subscriptions/spare"]["outgoing_events"], 0);
}

#[test]
fn a_relay_to_several_destinations_is_verified_at_each_of_them() {
    let hubs = "{hub: events, partitions: 2}, out: {hub: out, partitions: 2}, audit: {queue: audit}";
    let queues = "{queue: orders}, out: {queue: out}, audit: {queue: audit}";
    // Sends to one of them take long, and one in thirty sends fails: what is sent again goes where it was not accepted.
    let slow = "profile: {service_time: {entities: {audit: {send: 3 ms}}}}";
    for (entities, relay, faults) in [
        (hubs, "fan_out: 2, restart_after: 10 ms", slow),
        (queues, "prefetch: 0, concurrency: 16", slow),
        (hubs, "fan_out: 2, restart_after: 10 ms, failure_ratio: 0.03, dispatch: {sinks: 1}", ""),
    ] {
        let bench = Bench::new();
        let scenario = format!(
            "scenario: both
topology:
  entities: {{in: {entities}}}
  load: in
  pipeline: {{from: in, to: [out, audit]}}
  sinks: [out, audit]
embedded: {{log_per_hub: 64 MiB, {faults}}}
load: {{mode: open, rate: 300/s, batch: 3}}
relay: {{{relay}}}
phases: {{warm_up: 200 ms, measure: 2 s, drain: 20 s}}
"
        );
        bench.file("both.yaml", &scenario);
        let finished = bench.run(&["./both.yaml"]);
        let results = bench.results();
        let case = &results["cases"][0];
        let sent = case["delivery"]["sent"].as_u64().unwrap();
        assert!(sent > 400, "{case:#}\n{}", finished.stderr);
        assert_eq!(case["destinations"]["out"]["delivery"], case["delivery"], "the headline is the first's");
        for name in ["out", "audit"] {
            let destination = &case["destinations"][name];
            let delivery = &destination["delivery"];
            for kind in ["lost", "corrupted", "unexpected", "unknown"] {
                assert_eq!(delivery[kind], 0, "{name}: {delivery}");
            }
            let duplicated = delivery["duplicated"].as_u64().unwrap();
            assert_eq!(delivery["received"].as_u64().unwrap(), sent + duplicated, "{name}: {delivery}");
            assert!(destination["consumed_per_s"]["median"].as_f64().unwrap() > 0.0, "{name}");
            assert!(destination["latency_us"]["p50"].as_f64().unwrap() > 0.0, "{name}");
            assert!(finished.stdout.lines().any(|line| line.starts_with(name)), "{}", finished.stdout);
        }
        let findings = case["findings"].as_array().map_or(&[][..], Vec::as_slice);
        assert!(
            findings.iter().all(|finding| finding["severity"] != "failure"),
            "{relay}: {findings:#?}\n{:#}\n{:#}",
            case["relay"],
            case["destinations"]
        );
        let failed = case["relay"]["batches"]["failed"].as_u64().unwrap();
        assert_eq!(failed > 0, faults.is_empty(), "{:#}", case["relay"]);
        let log = results_folder(bench.folder.path()).join("logs/both.1/sink-2.log");
        assert!(log.exists(), "each sink is a process of its own");
    }
}

#[test]
fn a_command_can_be_the_service_that_is_measured() {
    let bench = Bench::new();
    let program = env!("CARGO_BIN_EXE_parshall");
    let scenario = format!(
        "scenario: other
target:
  command: [{program}, serve, --amqp, '127.0.0.1:{{port}}', --http, '127.0.0.1:0', --hub, 'events:4']
  connection_string: Endpoint=sb://127.0.0.1:{{port}};SharedAccessKeyName=RootManageSharedAccessKey;\
                     SharedAccessKey=SAS_KEY_VALUE;UseDevelopmentEmulator=true
  ready: {{line: AMQP}}
topology: {{entities: {{in: {{hub: events, partitions: 4}}}}, load: in, sink: in, measure: service}}
load: {{mode: open, rate: 5000/s, batch: 50}}
limits: {{hub: {{memory: 512 MiB}}}}
phases: {{warm_up: 200 ms, measure: 1 s, drain: 20 s}}
"
    );
    bench.file("other.yaml", &scenario);
    let finished = bench.run(&["./other.yaml"]);
    assert!(finished.status.is_some(), "{}", finished.stderr);
    let results = bench.results();
    let (_, case) = intact_cases(&results)[0];
    assert_eq!(case["measured_role"], "hub");
    assert!(case["consumed_per_s"]["median"].as_f64().unwrap() > 0.0, "{case:#}");
    let usage = &case["trials"][0]["roles"]["hub"];
    assert!(usage["cpu_seconds"].as_f64().unwrap() > 0.0, "the processes below the role are measured");
    assert!(case["trials"][0].get("hub").is_none(), "such a service reports no counters");
    let shown = case["params"]["target"].as_str().unwrap();
    assert!(shown.starts_with("command: ") && !shown.contains("SAS_KEY_VALUE"), "{shown}");
    assert_eq!(results["environment"]["target"], "parshall");
    let log =
        std::fs::read_to_string(results_folder(bench.folder.path()).join("logs/other.1/hub.log")).unwrap();
    assert!(log.contains("AMQP"), "what the command writes is the role's log: {log}");

    let silent = bench.run(&[
        "./other.yaml",
        "--set",
        "target.ready={line: never}",
        "--set",
        "target.ready_within=1 s",
    ]);
    assert_eq!(silent.status, Some(1), "{}", silent.stderr);
    assert!(silent.stdout.contains("`parshall` wrote no line with `never` within 1 s"), "{}", silent.stdout);
}

#[test]
fn an_interrupted_run_leaves_valid_partial_results_and_nothing_that_runs() {
    let bench = Bench::new();
    let LongRun { mut child, mut stderr, mut said, children, groups } = LongRun::start(&bench);
    kill_process(Pid::from_child(&child), Signal::INT).unwrap();
    stderr.read_to_string(&mut said).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(130), "{said}");

    assert_eq!(children.iter().filter(|id| is_alive(**id)).count(), 0);
    for group in groups {
        assert!(!group.exists(), "{}", group.display());
    }
    let results = bench.results();
    assert_eq!(results["complete"], false);
    assert_eq!(results["missing"], serde_json::json!(["measure=200 ms"]));
    let cases = results["cases"].as_array().unwrap();
    assert_eq!((&cases[0]["name"], &cases[0]["passed"]), (&"measure=300 ms".into(), &true.into()));
    assert_eq!((&cases[1]["name"], &cases[1]["passed"]), (&"measure=1 min".into(), &false.into()));
    let report = std::fs::read_to_string(results_folder(bench.folder.path()).join("report.html"));
    assert!(report.unwrap().contains("measure=300 ms"));
}

#[test]
fn roles_do_not_outlive_a_run_that_is_killed() {
    let bench = Bench::new();
    let mut run = LongRun::start(&bench);
    run.child.kill().unwrap();
    run.child.wait().unwrap();
    // Nobody ends them: they notice that there is nobody to tell.
    while run.children.iter().any(|id| is_alive(*id)) {
        std::thread::yield_now();
    }
    // Nobody was left to remove their control groups either, so the next run does.
    bench.file("mine.yaml", &tiny("target: embedded\n", "16 B", "[closed]"));
    let finished = bench.run(&["mine.yaml"]);
    assert_eq!(finished.status, Some(0), "{}", finished.stderr);
    for group in run.groups {
        assert!(!group.exists(), "{}", group.display());
    }
}

#[test]
fn every_mode_of_load_carries_the_smallest_payload_intact() {
    let bench = Bench::new();
    bench.file("mine.yaml", &tiny("target: embedded\n", "12 B", "[open, closed, backlog]"));
    let finished = bench.run(&["mine.yaml"]);
    let results = bench.results();
    let cases = intact_cases(&results);
    assert_eq!(cases.len(), 3);
    let mut passed = true;
    for (name, case) in cases {
        // An open load that the machine did not keep up with is invalid, and nobody's fault.
        let allowed: &[&str] = if name == "mode=open" { &["passed", "invalid"] } else { &["passed"] };
        assert!(allowed.contains(&case["status"].as_str().unwrap()), "{case:#}");
        passed &= case["passed"] == true;
    }
    assert_eq!(finished.status, Some(i32::from(!passed)), "{}", finished.stderr);
}

#[test]
fn a_durable_service_is_measured_and_leaves_no_data_behind() {
    let bench = Bench::new();
    bench.file(
        "mine.yaml",
        &tiny("target: embedded\nembedded: {durable: true, sync: always}\n", "16 B", "[backlog]"),
    );
    let finished = bench.run(&["mine.yaml"]);
    assert_eq!(finished.status, Some(0), "{}", finished.stderr);
    let results = bench.results();
    let cases = intact_cases(&results);
    let params = &cases[0].1["params"];
    assert_eq!(params["embedded.durable"], true, "{params}");
    assert_eq!(params["embedded.sync"], "always", "{params}");
    let logs = results_folder(bench.folder.path()).join("logs");
    for trial in std::fs::read_dir(logs).unwrap() {
        let trial = trial.unwrap().path();
        assert!(!trial.join("data").exists(), "{}", trial.display());
    }
}

#[test]
fn a_file_is_replayed_as_it_is() {
    let bench = Bench::new();
    let lines: Vec<String> = (0..100)
        .map(|order| format!("{{\"order\":{order},\"note\":\"{}\"}}", "x".repeat(order * 7)))
        .collect();
    bench.file("events.ndjson", &lines.join("\n"));
    bench.file("mine.yaml", &tiny("target: embedded\n", "{replay: events.ndjson}", "[closed]"));
    let finished = bench.run(&["mine.yaml", "--format", "markdown"]);
    assert_eq!(finished.status, Some(0), "{}", finished.stderr);
    assert!(finished.stdout.contains("mode=closed"), "{}", finished.stdout);
    assert_eq!(intact_cases(&bench.results()).len(), 1);
}

#[test]
fn a_service_that_runs_already_is_measured_over_tls() {
    let bench = Bench::new();
    let served = Served::start(bench.folder.path());
    let target = format!(
        "target:\n  connection_string: ${{EVENT_HUBS_CONNECTION_STRING}}\n  certificate_authority: {}\n",
        served.announced("Trusted authority")
    );
    // The second case begins with what the first one left in both hubs.
    bench.file("mine.yaml", &tiny(&target, "100 B", "[closed, saturate]"));
    let mut command = bench.command(&["mine.yaml"]);
    command.env("EVENT_HUBS_CONNECTION_STRING", served.connection_string("Connection strings for TLS"));
    let finished = finish(command);
    assert_eq!(finished.status, Some(0), "{}", finished.stderr);
    let results = bench.results();
    for (name, case) in intact_cases(&results) {
        assert_eq!(case["passed"], true, "{name}");
    }
    let told = serde_json::to_string(&results).unwrap() + &finished.stdout + &finished.stderr;
    assert!(!told.contains("SAS_KEY_VALUE"), "the key is told to nobody");
}

#[test]
fn a_service_that_runs_already_is_measured_with_tokens_that_end_meanwhile() {
    let bench = Bench::new();
    let served = Served::start_with(bench.folder.path(), &["--dev-identity", "--dev-token-lifetime", "3 s"]);
    let text = tiny("", "100 B", "[open]").replace("measure: 500 ms", "measure: 5 s");
    bench.file("mine.yaml", &text);
    let address = served.announced("AMQP ");
    let mut command = bench.command(&["mine.yaml", "--target", "namespace"]);
    command
        .envs(served.variables().filter(|(name, _)| name.starts_with("IDENTITY_")))
        .env("EVENT_HUBS_FULLY_QUALIFIED_NAMESPACE", format!("{address};UseDevelopmentEmulator=true"));
    let finished = finish(command);
    assert!(finished.stderr.contains("ManagedIdentityCredential"), "{}", finished.stderr);
    let results = bench.results();
    let (_, case) = intact_cases(&results)[0];
    // A generator that the machine made late invalidates the run. A token that was refused would fail it.
    assert_ne!(case["status"], "failed", "{case:#}");
    assert_eq!(finished.status, Some(i32::from(case["passed"] != true)), "{}", finished.stderr);
}

#[test]
fn a_namespace_has_its_own_partitions_and_its_owner_learns_what_a_run_does_to_it() {
    let bench = Bench::new();
    let served = Served::start(bench.folder.path());
    let connection_string = served.connection_string("Connection strings");
    bench.file(
        "mine.yaml",
        "scenario: mine
hubs: {source: {partitions: 32}}
load: {mode: open, rate: 1000/s, payload: 32 B, batch: 5}
phases: {warm_up: 100 ms, measure: 900 ms, drain: 20 s}
sweeps: {fan_out: {relay.fan_out: [2, 8]}}
",
    );
    let run = |more: &[&str]| {
        let mut command = bench.command(&[&["mine.yaml", "--target", "namespace"], more].concat());
        command.env("EVENT_HUBS_CONNECTION_STRING", &connection_string);
        finish(command)
    };
    let refused = run(&[]);
    assert_eq!((refused.status, refused.stdout.as_str()), (Some(2), ""), "{}", refused.stderr);
    let reason = "a fan-out of 8 needs more partitions than the 4 of the destination";
    assert!(refused.stderr.contains(reason) && refused.stderr.contains("--only"), "{}", refused.stderr);

    let finished = run(&["--only", "fan_out=2"]);
    let (announcement, progress) = finished.stderr.split_once("[1/1]").unwrap();
    assert!(progress.contains("starting"), "it is said before anything starts");
    for part in [
        "This run uses a service that exists: localhost\n",
        "hub source (4 partitions), hub destination (4 partitions)",
        "fan_out=2: 1,000 events/s of 32 B for 1 s: 1,000 events, 31.2 KiB",
    ] {
        assert!(announcement.contains(part), "{part}\n{announcement}");
    }
    let results = bench.results();
    let (_, case) = intact_cases(&results)[0];
    for hub in ["source", "destination"] {
        assert_eq!(case["params"][format!("hubs.{hub}.partitions")], 4, "{:#}", case["params"]);
    }
}

#[test]
fn a_target_that_is_not_there_or_refuses_is_one_clear_line_and_status_3() {
    let bench = Bench::new();
    let served = Served::start(bench.folder.path());
    bench.file("mine.yaml", &tiny("target: embedded\n", "16 B", "[closed]"));
    let plain = served.connection_string("Connection strings");
    let tls = served.connection_string("Connection strings for TLS");
    let closed = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string();
    let elsewhere = plain
        .replace(served.announced("AMQP ").rsplit(':').next().unwrap(), closed.rsplit(':').next().unwrap());
    let wrong_key = plain.replace("SAS_KEY_VALUE", "another");
    for (connection_string, expected) in [
        (&elsewhere, "connection:unreachable"),
        (&wrong_key, "amqp:unauthorized-access"),
        // Nobody said that its certificate is to be trusted.
        (&tls, "connection:"),
    ] {
        let mut command = bench.command(&["mine.yaml", "--target", "namespace"]);
        command.env("EVENT_HUBS_CONNECTION_STRING", connection_string);
        let Finished { status, stdout, stderr } = finish(command);
        assert_eq!((status, stdout.as_str()), (Some(3), ""), "{stderr}");
        // A second line, where there is one, says what to change.
        let advice = stderr.lines().skip(1).find(|line| !line.trim().is_empty());
        assert!(advice.is_none_or(|advice| advice.trim_start().starts_with("help: ")), "{stderr}");
        let beginning = "  x the hub source of the target can't be used: ";
        let reason = stderr.strip_prefix(beginning).unwrap_or_else(|| panic!("{stderr}"));
        assert!(reason.starts_with(expected), "{stderr}");
        assert!(!bench.folder.path().join("results").exists(), "nothing was begun");
    }
    let mut command =
        bench.command(&["mine.yaml", "--target", "namespace", "--set", "hubs.source.partitions=3"]);
    command.env("EVENT_HUBS_CONNECTION_STRING", &plain);
    let Finished { status, stderr, .. } = finish(command);
    assert_eq!(status, Some(2), "{stderr}");
    assert!(stderr.contains("the hub source of the target has 4 partitions, not 3"), "{stderr}");
}

/// A run whose first case is over and whose second is in the middle of its work.
struct LongRun {
    child: Child,
    stderr: BufReader<std::process::ChildStderr>,
    /// What it wrote to standard error so far.
    said: String,
    /// Its roles' processes.
    children: Vec<u32>,
    /// Its roles' control groups.
    groups: Vec<PathBuf>,
}

impl LongRun {
    fn start(bench: &Bench) -> Self {
        bench.file(
            "mine.yaml",
            "scenario: mine\nhubs: {source: {partitions: 4}}\nload: {max_lag: 5000, batch: 50}\nrelay: {fan_out: 2}\n\
             limits: {relay: {cores: 0.5, memory: 256 MiB}}\nphases: {warm_up: 0 s}\ntrials: 1\n\
             sweeps: {measure: {phases.measure: [300 ms, 1 min, 200 ms]}}\n",
        );
        let mut child = bench
            .command(&["mine.yaml"])
            .envs(NAMING_PHASES)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut stderr = BufReader::new(child.stderr.take().unwrap());
        let mut said = String::new();
        while !said.lines().any(|line| line.contains("measure=1 min: measuring")) {
            assert_ne!(stderr.read_line(&mut said).unwrap(), 0, "it ended: {said}");
        }
        let children = children_of(child.id());
        assert_eq!(children.len(), 4, "hub, load, relay, sink");
        let groups = groups_of(child.id());
        Self { child, stderr, said, children, groups }
    }
}

/// A scenario that is over in a moment, with a case for each mode.
fn tiny(target: &str, payload: &str, modes: &str) -> String {
    format!(
        "scenario: tiny\n{target}\
         hubs: {{source: {{name: source, partitions: 4}}, destination: {{name: destination, partitions: 4}}}}\n\
         load: {{payload: {payload}, batch: 20, rate: 2000/s, backlog: 5000, max_lag: 3000}}\n\
         relay: {{fan_out: 4, batch: {{events: 16, wait: 2 ms}}}}\n\
         phases: {{warm_up: 100 ms, measure: 500 ms, drain: 20 s}}\ntrials: 1\n\
         sweeps: {{mode: {{load.mode: {modes}}}}}\n"
    )
}

/// A separate `parshall serve` with both hubs, over plain TCP and TLS, on free ports.
struct Served {
    child: Child,
    announcement: String,
}

impl Served {
    fn start(folder: &Path) -> Self {
        Self::start_with(folder, &[])
    }

    fn start_with(folder: &Path, arguments: &[&str]) -> Self {
        let mut child = Command::new(env!("CARGO_BIN_EXE_parshall"))
            .args(["serve", "--hub", "source:4", "--hub", "destination:4"])
            .args(["--amqp", "127.0.0.1:0", "--amqps", "127.0.0.1:0", "--http", "127.0.0.1:0"])
            .args(["--tls-directory", "tls"])
            .args(arguments)
            .current_dir(folder)
            .env_clear()
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut output = BufReader::new(child.stdout.take().unwrap());
        let mut announcement = String::new();
        while !announcement.ends_with("Ready.\n") {
            assert_ne!(output.read_line(&mut announcement).unwrap(), 0, "{announcement}");
        }
        Self { child, announcement }
    }

    /// The last word of the line that begins with `label`.
    fn announced(&self, label: &str) -> &str {
        let line = self.announcement.lines().find(|line| line.starts_with(label));
        line.and_then(|line| line.rsplit(' ').next()).unwrap()
    }

    /// The variables that are printed one to a line.
    fn variables(&self) -> impl Iterator<Item = (&str, &str)> {
        self.announcement.lines().filter_map(|line| line.strip_prefix("  ")?.split_once('='))
    }

    /// The connection string of all hubs under a heading.
    fn connection_string(&self, heading: &str) -> String {
        let mut lines = self.announcement.lines().skip_while(|line| *line != heading);
        let line = lines.find(|line| line.trim_start().starts_with("namespace ")).unwrap();
        line.rsplit(' ').next().unwrap().to_owned()
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The processes that `parent` has started and that still run.
fn children_of(parent: u32) -> Vec<u32> {
    let processes = std::fs::read_dir("/proc").unwrap();
    let ids = processes.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
    ids.filter(|id| stat(*id).is_some_and(|(state, of)| of == parent && state != "Z")).collect()
}

fn is_alive(id: u32) -> bool {
    stat(id).is_some_and(|(state, _)| state != "Z")
}

/// State and parent of a process, if there is one with this id.
fn stat(id: u32) -> Option<(String, u32)> {
    let stat = std::fs::read_to_string(format!("/proc/{id}/stat")).ok()?;
    // The name before them may hold anything, but ends with the last parenthesis.
    let mut fields = stat.rsplit_once(')')?.1.split_whitespace();
    Some((fields.next()?.to_owned(), fields.next()?.parse().ok()?))
}

/// The control groups of a lab, as far as the machine permits any.
fn groups_of(lab: u32) -> Vec<PathBuf> {
    let name = format!("parshall-{lab}");
    let mut found = Vec::new();
    let mut folders = vec![PathBuf::from("/sys/fs/cgroup")];
    while let Some(folder) = folders.pop() {
        let entries = std::fs::read_dir(folder).into_iter().flatten().filter_map(Result::ok);
        for entry in entries {
            if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                if entry.file_name() == *name {
                    found.push(entry.path());
                }
                folders.push(entry.path());
            }
        }
    }
    found
}
