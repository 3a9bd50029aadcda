//! Our relay between topics of Kafka and hubs, in each pair: every event arrives, and what is reported of it is true.

use std::time::Duration;

use rustix::process::{Signal, kill_process};
use serde_json::Value;

use super::run::{Bench, intact_cases};
use crate::running::{Run, pause};

/// Events come by the protocol that the relay reads, and are read by the one that it writes, unless a case says otherwise.
const PAIRS: &str = "\
scenario: pairs
topology:
  entities: {in: {hub: in, partitions: 4}, out: {hub: out, partitions: 8}}
  load: {to: in, protocol: kafka}
  pipeline: {from: {entity: in, protocol: kafka}, to: {entity: out, protocol: kafka}}
  sink: {from: out, protocol: kafka}
embedded: {log_per_hub: 64 MiB}
load: {mode: open, rate: 2000/s, payload: 64 B, batch: 20}
relay: {fan_out: 8, batch: {events: 64, wait: 2 ms}, checkpoint_store: group}
phases: {warm_up: 200 ms, measure: 1 s, drain: 20 s}
trials: 1
sweeps:
  pair:
    load.seed:
      name: pair
      values:
        - {value: 1, name: kafka-to-kafka}
        - {value: 2, name: kafka-to-hub, topology.pipeline.to.protocol: amqp, topology.sink.protocol: amqp}
        - value: 3
          name: hub-to-kafka
          topology.load.protocol: amqp
          topology.pipeline.from.protocol: amqp
          relay.checkpoint_store: file
        # What one protocol sends and the other reads, the service converts.
        - {value: 4, name: converted, topology.load.protocol: amqp, topology.sink.protocol: amqp}
        - value: 5
          name: librdkafka
          topology.pipeline.from.client: librdkafka
          topology.pipeline.to.client: librdkafka
        - {value: 6, name: shared, relay.instances: 2, relay.ownership: greedy, relay.checkpoint_store: blob}
        - {value: 7, name: failing, relay.failure_ratio: 0.02, relay.restart_after: 10 ms}
";

fn of(case: &Value, figure: &str) -> f64 {
    case[figure]["median"].as_f64().unwrap_or_else(|| panic!("no {figure} in {case:#}"))
}

#[test]
fn every_event_arrives_between_each_pair_of_protocols() {
    let bench = Bench::new();
    bench.file("pairs.yaml", PAIRS);
    let finished = bench.run(&["./pairs.yaml"]);
    // A machine that has other work to do makes a generator late; that shows in the status.
    assert!(matches!(finished.status, Some(0 | 1)), "{}", finished.stderr);
    let results = bench.results();
    let cases = intact_cases(&results);
    let transports = ["kafka", "kafka to tcp", "tcp to kafka", "kafka", "kafka", "kafka", "kafka"];
    assert_eq!(cases.len(), transports.len());
    for ((name, case), transport) in cases.into_iter().zip(transports) {
        assert_eq!(case["system"]["transport"], transport, "{name}");
        for figure in ["received_per_s", "forwarded_per_s", "cpu_percent"] {
            assert!(of(case, figure) > 0.0, "{name}: {figure}");
        }
        let cost = &case["cost"]["roles"]["relay"];
        assert!(cost["core_seconds"].as_f64() > Some(0.0), "{name}: {cost}");
        // The service's counters and those of the clients agree, or there would be a finding.
        let findings = case["findings"].as_array().unwrap();
        assert!(!findings.iter().any(|finding| finding["kind"] == "counters-disagree"), "{findings:#?}");
        let stages = &case["stages"];
        for stage in ["queue", "process", "send"] {
            assert!(stages[stage]["count"].as_u64() > Some(0), "{name}: {stage} of {stages:#}");
        }
        // A record has the date of its producer, so that nobody knows how long it has lain in the topic.
        let is_dated = ["hub-to-kafka", "converted"].iter().any(|dated| name.ends_with(dated));
        assert_eq!(stages.get("in_hub").is_some(), is_dated, "{name}: {stages:#}");
        let is_whole = case["latency_us"]["count"].as_u64() > Some(1_000);
        assert!(is_whole, "{name}: {:#}", case["latency_us"]);
        // A partition that begins anew after a failure may repeat what was sent, and leaves nothing out.
        let failed = case["relay"]["sends"]["failed_on_purpose"].as_u64().unwrap();
        assert_eq!(failed > 0, name.ends_with("failing"), "{name}: {:#}", case["relay"]);
    }
}

#[test]
fn replayed_lines_keep_their_header_across_protocols() {
    let bench = Bench::new();
    let lines = bench.file("lines.ndjson", "{\"one\": 1}\n{\"two\": 2}\n");
    bench.file("pairs.yaml", PAIRS);
    let replay = format!("load.payload={{replay: {}}}", lines.display());
    for only in ["pair=kafka-to-hub", "pair=hub-to-kafka", "pair=converted"] {
        let finished = bench.run(&["./pairs.yaml", "--set", &replay, "--only", only]);
        assert!(matches!(finished.status, Some(0 | 1)), "{}", finished.stderr);
        intact_cases(&bench.results());
    }
}

#[test]
fn the_fan_out_study_speaks_kafka_at_every_end() {
    let bench = Bench::new();
    let short = ["phases.warm_up=200 ms", "phases.measure=1 s", "load.max_lag=20000"];
    let set: Vec<&str> = short.iter().flat_map(|set| ["--set", set]).collect();
    let finished = bench.run(&[&["fan-out", "--quick", "--sweep", "protocol"], &set[..]].concat());
    assert!(matches!(finished.status, Some(0 | 1)), "{}", finished.stderr);
    let results = bench.results();
    let cases = intact_cases(&results);
    assert_eq!(cases.iter().map(|(name, _)| *name).collect::<Vec<_>>(), ["protocol=amqp", "protocol=kafka"]);
    assert!(cases.iter().all(|(_, case)| of(case, "forwarded_per_s") > 0.0));
}

const STALL: &str = "\
scenario: stall
hubs: {source: {partitions: 4}, destination: {partitions: 4}, protocol: kafka}
load: {mode: open, rate: 1000/s, payload: 32 B, batch: 20}
relay: {fan_out: 4, batch: {events: 64, wait: 2 ms}}
phases: {warm_up: 500 ms, measure: 3 s, drain: 30 s}
trials: 1
";

#[test]
fn a_relay_that_stands_still_between_topics_shows_all_of_it() {
    let mut run = Run::start(STALL);
    run.until(": measuring");
    let pause = pause(run.role("relay"), Duration::from_millis(1_500));
    let finished = run.finish();
    let case = finished.case();
    let longest = case["latency_us"]["max"].as_f64().unwrap() / 1e6;
    assert!(longest * 1.001 >= pause.least.as_secs_f64() - 0.001, "{longest} s of {pause:?}");
    let delivery = &case["delivery"];
    assert_eq!((&delivery["lost"], &delivery["duplicated"]), (&0.into(), &0.into()), "{case:#}");
}

#[test]
fn a_relay_between_topics_that_is_killed_is_named_with_its_signal() {
    let mut run = Run::start(STALL);
    run.until(": measuring");
    kill_process(run.role("relay"), Signal::KILL).unwrap();
    let finished = run.finish();
    assert_eq!(finished.status, Some(1), "{}", finished.said);
    let findings = finished.findings("role-failed");
    assert!(findings.len() == 1 && findings[0].contains("SIGKILL"), "{findings:?}");
}
