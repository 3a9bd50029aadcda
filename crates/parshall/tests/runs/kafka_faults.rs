//! Kafka when something goes wrong: the service is killed in mid-run, a quota is used up, or there is nothing to reach.

use std::time::{Duration, Instant};

use rustix::process::Signal;
use serde_json::Value;

use super::run::Bench;
use crate::running::{Finished, Run};
use crate::serving::Serving;

const CLIENTS: [&str; 2] = ["native", "librdkafka"];

/// A topic on a disk, at `address`.
fn serve(directory: &str, address: &str) -> Serving {
    Serving::start(&["--data-dir", directory, "--hub", "events:2", "--kafka", address])
}

fn address(serving: &Serving) -> String {
    serving.announced("bootstrap.servers=").trim_start_matches("bootstrap.servers=").to_owned()
}

/// A run against a service that is killed in its measured phase and started again at once.
fn run_over_a_restart(client: &str, acks: &str) -> Finished {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().display().to_string();
    let serving = serve(&path, "127.0.0.1:0");
    let address = address(&serving);
    let mut run = Run::start(&format!(
        "scenario: restart
target: {{kafka: {{bootstrap: '{address}'}}}}
topology:
  entities: {{in: {{hub: events, partitions: 2}}}}
  load: {{to: in, protocol: kafka, client: {client}, properties: {{linger.ms: 0, acks: {acks}}}}}
  sink: {{from: in, protocol: kafka, client: {client}, properties: {{fetch.wait.max.ms: 100}}}}
  measure: load
load: {{mode: open, rate: 2000/s, payload: 64 B, batch: 1, in_flight: 500}}
phases: {{warm_up: 500 ms, measure: 4 s, drain: 30 s}}
trials: 1
"
    ));
    run.until(": measuring");
    serving.end(Signal::KILL);
    let serving = serve(&path, &address);
    let finished = run.finish();
    drop(serving);
    finished
}

fn count(finished: &Finished, what: &str) -> u64 {
    finished.case()["delivery"][what].as_u64().unwrap_or_else(|| panic!("{what} of {:#}", finished.case()))
}

#[test]
fn what_was_acknowledged_survives_a_killed_service() {
    for client in CLIENTS {
        let finished = run_over_a_restart(client, "1");
        let delivery = &finished.case()["delivery"];
        assert_eq!((count(&finished, "lost"), count(&finished, "corrupted")), (0, 0), "{client}: {delivery}");
        // The run went on: most of it came after the restart.
        assert!(count(&finished, "acknowledged") > 4_000, "{client}: {delivery}");
        assert_eq!(finished.findings("role-failed"), Vec::<&str>::new(), "{client}");
    }
}

#[test]
fn without_acknowledgements_what_is_lost_is_counted_and_said() {
    for client in CLIENTS {
        let finished = run_over_a_restart(client, "0");
        let delivery = &finished.case()["delivery"];
        let (sent, lost) = (count(&finished, "sent"), count(&finished, "lost"));
        assert!(lost < sent / 2 && count(&finished, "acknowledged") > 4_000, "{client}: {delivery}");
        // Whether something was under way is a matter of luck, and what is said of it is not.
        let said = finished.findings("events-lost");
        assert_eq!(said.len(), usize::from(lost > 0), "{client}: {said:?} of {delivery}");
        assert_eq!(finished.findings("role-failed"), Vec::<&str>::new(), "{client}");
    }
}

/// What exceeds 1,000 events per second waits, after a first thousand.
const QUOTA: &str = "\
scenario: quota
topology:
  entities: {in: {hub: events, partitions: 1}}
  load: {to: in, protocol: kafka}
  sink: {from: in, protocol: kafka}
  measure: service
embedded: {log_per_hub: 64 MiB, profile: {quota: {ingress_events_per_s: 1000}}}
load: {mode: saturate, batch: 50, in_flight: 2, max_lag: 2000}
phases: {warm_up: 500 ms, measure: 2 s, drain: 1 min}
trials: 1
";

#[test]
fn a_client_that_is_slowed_down_goes_on_and_the_report_names_the_quota() {
    let finished = Run::start(QUOTA).finish();
    let case = finished.case();
    let delivery = &case["delivery"];
    for kind in ["lost", "corrupted", "reordered", "duplicated", "unknown"] {
        assert_eq!(delivery[kind], 0, "nothing was refused: {delivery}");
    }
    let load = &case["trials"][0]["refusals"]["load"];
    assert!(load["throttled"].as_u64() > Some(0), "{:#}", case["trials"][0]["refusals"]);
    assert_eq!(load["refused"], 0, "{load}");
    assert!(case["trials"][0]["hub"]["events"]["throttled"].as_u64() > Some(0), "{case:#}");
    assert_eq!(finished.findings("limited-by-quota").len(), 1, "{case:#}");
    let rate = case["produced_per_s"]["median"].as_f64().unwrap();
    assert!(rate < 1_500.0, "{rate}");
}

#[test]
fn a_quota_of_a_cluster_that_is_not_ours_is_named_whichever_client_meets_it() {
    let folder = tempfile::tempdir().unwrap();
    let config = folder.path().join("service.yaml");
    let quota = "profile: {quota: {ingress_events_per_s: 1000}}";
    std::fs::write(&config, format!("hubs: [{{name: events, partitions: 1}}]\n{quota}\n")).unwrap();
    let config = config.display().to_string();
    let serving = Serving::start(&["--config", &config, "--kafka", "127.0.0.1:0"]);
    let scenario = format!(
        "scenario: quota
target: {{kafka: {{bootstrap: '{}'}}}}
topology:
  entities: {{in: {{hub: events, partitions: 1}}}}
  load: {{to: in, protocol: kafka}}
  sink: {{from: in, protocol: kafka}}
  measure: load
load: {{mode: saturate, batch: 50, in_flight: 2, max_lag: 2000}}
phases: {{warm_up: 500 ms, measure: 2 s, drain: 1 min}}
trials: 1
sweeps: {{client: {{topology.load.client: [native, librdkafka]}}}}
",
        address(&serving)
    );
    let finished = Run::start(&scenario).finish();
    let cases = finished.results["cases"].as_array().unwrap();
    assert_eq!(cases.len(), 2, "{}", finished.said);
    for case in cases {
        let load = &case["trials"][0]["refusals"]["load"];
        assert!(load["throttled"].as_u64() > Some(0), "{case:#}");
        assert_eq!(load["refused"], 0, "{case:#}");
        let findings = case["findings"].as_array().unwrap();
        assert!(findings.iter().any(|finding| finding["kind"] == "limited-by-quota"), "{findings:#?}");
    }
}

/// Ends of this client, at a cluster that is reached so.
fn of_cluster(client: &str, cluster: &str) -> String {
    format!(
        "scenario: unreachable
target: {{kafka: {cluster}}}
topology:
  entities: {{in: {{hub: events}}}}
  load: {{to: in, protocol: kafka, client: {client}}}
  sink: {{from: in, protocol: kafka, client: {client}}}
  measure: load
load: {{mode: open, rate: 100/s}}
phases: {{warm_up: 100 ms, measure: 200 ms, drain: 10 s}}
"
    )
}

#[test]
fn what_can_not_be_reached_ends_the_run_at_once_with_the_clients_reason() {
    let config = "hubs: [{name: events, partitions: 1}]\nauthorization_rules: [{name: all, key: right, rights: [manage]}]\n";
    let bench = Bench::new();
    let config = bench.file("service.yaml", config).display().to_string();
    let closed = Serving::start(&["--config", &config, "--kafka", "127.0.0.1:0"]);
    let open = Serving::start(&["--hub", "other:1", "--kafka", "127.0.0.1:0", "--kafka-auto-create", "off"]);
    let login = "security.protocol: sasl_plaintext, sasl.mechanisms: PLAIN, sasl.username: all";
    let within = "socket.connection.setup.timeout.ms: 5000";
    let cases = [
        (format!("{{bootstrap: '127.0.0.1:1', properties: {{{within}}}}}"), "127.0.0.1:1"),
        (
            format!(
                "{{bootstrap: '{}', properties: {{{login}, sasl.password: wrong, {within}}}}}",
                address(&closed)
            ),
            "SASL_AUTHENTICATION_FAILED",
        ),
        (
            format!("{{bootstrap: '{}', properties: {{{within}}}}}", address(&open)),
            "UNKNOWN_TOPIC_OR_PARTITION",
        ),
    ];
    for client in CLIENTS {
        for (cluster, reason) in &cases {
            // Whichever takes the properties is the client that looks for the topic.
            let own = if client == "librdkafka" { "socket.nagle.disable: true, " } else { "" };
            let cluster = &cluster.replace("properties: {", &format!("properties: {{{own}"));
            bench.file("mine.yaml", &of_cluster(client, cluster));
            let began = Instant::now();
            let finished = bench.run(&["./mine.yaml"]);
            assert_eq!(finished.status, Some(3), "{client}, {cluster}: {}", finished.stderr);
            assert!(
                finished.stderr.contains("the topic events of the target can't be used"),
                "{}",
                finished.stderr
            );
            assert!(finished.stderr.contains(reason), "{client}: {}", finished.stderr);
            assert!(began.elapsed() < Duration::from_secs(30), "{client}, {cluster}");
            assert!(!bench.folder.path().join("results").exists(), "nothing was begun");
        }
    }
}

/// A client that is a program says its reason, too.
#[test]
fn a_program_that_can_not_be_the_client_fails_the_case_with_its_reason() {
    let bench = Bench::new();
    let scenario = "scenario: programs
clients: {mine: {command: [/bin/sh, -c, 'echo error no such topic; cat']}}
topology:
  entities: {in: {hub: events, partitions: 1}}
  load: {to: in, protocol: kafka, client: mine}
  sink: {from: in, protocol: kafka}
  measure: service
phases: {warm_up: 100 ms, measure: 200 ms, drain: 1 s}
trials: 1
";
    bench.file("programs.yaml", scenario);
    let finished = bench.run(&["./programs.yaml"]);
    assert_eq!(finished.status, Some(1), "{}", finished.stderr);
    let results = bench.results();
    let findings = &results["cases"][0]["findings"];
    let reason = "the client `mine` can't go on: no such topic";
    let is_said = |finding: &Value| finding["message"].as_str().unwrap().contains(reason);
    assert!(findings.as_array().unwrap().iter().any(is_said), "{findings:#}");
    assert_eq!(results["cases"][0]["params"]["topology.load.client"], "mine");
}
