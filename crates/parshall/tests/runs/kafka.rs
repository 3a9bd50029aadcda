//! Runs whose ends speak Kafka: through both clients, over TLS, with another program as the service.

use super::run::{Bench, intact_cases};
use crate::running::results_folder;

const COURSE: &str = "load: {mode: open, rate: 2000/s, batch: 20}
embedded: {log_per_hub: 64 MiB}
phases: {warm_up: 200 ms, measure: 1 s, drain: 20 s}
";

/// Runs the scenario, in which every event must arrive, with these arguments.
fn runs(scenario: &str, arguments: &[&str]) -> (Bench, serde_json::Value) {
    let bench = Bench::new();
    bench.file("kafka.yaml", &format!("scenario: kafka\n{scenario}{COURSE}"));
    let finished = bench.run(&[&["./kafka.yaml"][..], arguments].concat());
    assert!(finished.status.is_some(), "{}", finished.stderr);
    let results = bench.results();
    let cases = intact_cases(&results);
    assert!(!cases.is_empty());
    for (name, case) in cases {
        for figure in ["produced_per_s", "consumed_per_s"] {
            assert!(case[figure]["median"].as_f64().unwrap() > 0.0, "{name}: {figure}\n{}", finished.stdout);
        }
    }
    (bench, results)
}

#[test]
fn every_event_arrives_through_either_client() {
    let scenario = "topology:
  entities: {in: {hub: events, partitions: 4}}
  load: {to: in, protocol: kafka, properties: {linger.ms: 0, acks: 1}}
  sink: {from: in, protocol: kafka, properties: {fetch.wait.max.ms: 100}}
  measure: service
sweeps:
  clients: {topology.load.client: [native, librdkafka], topology.sink.client: {name: sink, values: [native, librdkafka]}}
";
    let (_bench, results) = runs(scenario, &[]);
    assert_eq!(results["cases"].as_array().unwrap().len(), 4);
    let case = &results["cases"][0];
    assert_eq!(case["measured_role"], "hub");
    assert!(case.get("latency_us").is_some(), "{case:#}");
}

#[test]
fn over_tls_and_with_replayed_lines_nothing_is_lost_either() {
    let scenario = "topology:
  entities: {in: {hub: events, partitions: 2}}
  load: {to: in, protocol: kafka, tls: true}
  sink: {from: in, protocol: kafka, tls: true}
  measure: load
";
    runs(scenario, &[]);
    let lines = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(lines.path(), "{\"one\": 1}\n{\"two\": 2}\n").unwrap();
    let replay = format!("load.payload={{replay: {}}}", lines.path().display());
    let librdkafka = ["topology.load.client=librdkafka", "topology.sink.client=librdkafka"];
    let plain = ["topology.load.tls=false", "topology.sink.tls=false"];
    let set = [replay.as_str(), librdkafka[0], librdkafka[1], plain[0], plain[1]];
    let arguments: Vec<&str> = set.into_iter().flat_map(|argument| ["--set", argument]).collect();
    runs(scenario, &arguments);
}

#[test]
fn a_command_that_speaks_kafka_can_be_the_service() {
    let program = env!("CARGO_BIN_EXE_parshall");
    let scenario = format!(
        "topology:
  entities: {{in: {{hub: events, partitions: 4}}}}
  load: {{to: in, protocol: kafka, client: librdkafka}}
  sink: {{from: in, protocol: kafka}}
  measure: service
targets:
  other:
    command: [{program}, serve, --amqp, '127.0.0.1:0', --http, '127.0.0.1:0', --kafka, '127.0.0.1:{{port}}', --hub, 'events:4']
    kafka: {{bootstrap: '127.0.0.1:{{port}}'}}
    ready: {{line: Ready}}
target: other
"
    );
    let (bench, results) = runs(&scenario, &[]);
    let case = &results["cases"][0];
    assert!(case["trials"][0]["roles"]["hub"]["cpu_seconds"].as_f64().unwrap() > 0.0, "{case:#}");
    assert_eq!(results["environment"]["target"], "parshall");
    assert!(results_folder(bench.folder.path()).join("logs/kafka.1/hub.log").exists());
}

#[test]
fn a_cluster_that_is_not_there_ends_the_run_before_it_begins() {
    let bench = Bench::new();
    let scenario = "scenario: kafka
target: {kafka: {bootstrap: '127.0.0.1:1', properties: {socket.connection.setup.timeout.ms: 5000}}}
topology:
  entities: {in: {hub: events}}
  load: {to: in, protocol: kafka}
  sink: {from: in, protocol: kafka}
  measure: load
";
    bench.file("kafka.yaml", scenario);
    let finished = bench.run(&["./kafka.yaml"]);
    assert_eq!(finished.status, Some(3), "{}", finished.stderr);
    assert!(finished.stderr.contains("the topic events of the target can't be used"), "{}", finished.stderr);
}
