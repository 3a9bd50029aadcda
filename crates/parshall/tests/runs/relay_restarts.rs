//! An instance of our relay that ends in mid-run and comes back: the run goes on, nothing is lost, and the report says what came again.

use std::collections::BTreeMap;

use serde_json::Value;

use super::run::{Bench, intact_cases};
use crate::serving::Serving;

/// A member that was killed keeps its place in the group for the shortest session that brokers allow.
const RESTARTS: &str = "\
scenario: restarts
topology:
  entities: {in: {hub: in, partitions: 8}, out: {hub: out, partitions: 8}}
  load: {to: in, protocol: kafka}
  pipeline: {from: {entity: in}, to: out, protocol: kafka}
  sink: {from: out, protocol: kafka}
embedded: {log_per_hub: 64 MiB}
load: {mode: open, rate: 2000/s, payload: 64 B, batch: 20}
relay:
  instances: 2
  fan_out: 8
  route: same-partition
  batch: {events: 64, wait: 2 ms}
  restart: {after: 600 ms, down: 300 ms}
phases: {warm_up: 200 ms, measure: 4 s, drain: 30 s}
trials: 1
sweeps:
  end:
    load.seed:
      name: end
      values:
        - value: 1
          name: member-killed
          relay.ownership: group
          relay.checkpoint_store: group
          topology.pipeline.from.properties.session.timeout.ms: 6000
          topology.pipeline.from.properties.heartbeat.interval.ms: 300
          phases.measure: 8 s
        - value: 2
          name: member-stopped
          relay.ownership: group
          relay.checkpoint_store: group
          relay.restart.by: stop
          topology.pipeline.from.properties.heartbeat.interval.ms: 300
        - {value: 3, name: exactly-once, relay.delivery: exactly-once}
        - {value: 4, name: claims, relay.ownership: greedy, relay.checkpoint_store: blob}
        - {value: 5, name: alone, relay.instances: 1}
";

/// What is said of the instance that ended.
fn said(case: &Value) -> &str {
    let findings = case["findings"].as_array().unwrap();
    let mut found = findings.iter().filter(|finding| finding["kind"] == "relay-restarted");
    let message = found.next().unwrap_or_else(|| panic!("{findings:#?}"))["message"].as_str().unwrap();
    assert_eq!(found.next(), None);
    message
}

#[test]
fn whichever_instance_ends_the_run_goes_on_and_nothing_is_lost() {
    let bench = Bench::new();
    bench.file("restarts.yaml", RESTARTS);
    let finished = bench.run(&["./restarts.yaml"]);
    // A machine that has other work to do makes a generator late; that shows in the status.
    assert!(matches!(finished.status, Some(0 | 1)), "{}", finished.stderr);
    let results = bench.results();
    let cases: BTreeMap<&str, &Value> = intact_cases(&results).into_iter().collect();
    assert_eq!(cases.len(), 5);
    for (name, case) in &cases {
        let trial = &case["trials"][0];
        let restart = &trial["restart"];
        let [ended, back] = ["ended_s", "back_s"].map(|key| restart[key].as_f64().unwrap());
        assert!(ended >= 0.6 && back >= ended + 0.3, "{name}: {restart}");
        let by = if *name == "end=member-stopped" { "stop" } else { "kill" };
        assert_eq!(restart["by"], by, "{name}");
        assert!(said(case).contains(" on purpose "), "{name}: {}", said(case));
        let rates = ["produced_per_s", "forwarded_per_s"].map(|figure| case[figure]["median"].as_f64());
        assert!(rates[1] > Some(0.0), "{name}: {rates:?}");
        let findings = case["findings"].as_array().unwrap();
        let is_of = |kind: &str| findings.iter().any(|finding| finding["kind"] == kind);
        assert!(!is_of("counters-disagree") && !is_of("role-failed"), "{name}: {findings:#?}");
        // It was there before and after: whoever is back has memory again.
        let intervals = trial["intervals"].as_array().unwrap();
        let has_memory = |interval: &Value| interval["memory_bytes"]["relay"].as_u64() > Some(0);
        let is_after = |interval: &&Value| interval["at_s"].as_f64() > Some(back);
        assert!(intervals.iter().filter(is_after).any(has_memory), "{name}: {intervals:#?}");
    }
    let delivery = |name: &str, what: &str| cases[name]["delivery"][what].as_u64().unwrap();
    assert_eq!(delivery("end=exactly-once", "duplicated"), 0);
    assert_eq!(delivery("end=member-stopped", "duplicated"), 0, "it gave back what it had finished");
    // Who leaves says so, and the group changes twice. Who was killed is taken for gone while its successor waits to be let in.
    for (name, changes) in [("end=member-killed", 1), ("end=member-stopped", 2)] {
        let relay = &cases[name]["trials"][0]["relay"];
        let ownership = &relay["ownership"];
        assert!(ownership["rebalances"].as_u64() >= Some(changes), "{name}: {ownership}");
        assert!(ownership["gained"]["assigned"].as_u64() > Some(0), "{name}: {ownership}");
        assert!(said(cases[name]).contains("its consumer group changed "), "{}", said(cases[name]));
    }
}

/// A cluster that was there before and has records of others, and of earlier trials.
#[test]
fn on_a_cluster_that_is_not_the_runs_own_what_lay_there_is_passed_over_once() {
    let serving = Serving::start(&["--hub", "in:4", "--hub", "out:4", "--kafka", "127.0.0.1:0"]);
    let bootstrap =
        serving.announced("bootstrap.servers=").trim_start_matches("bootstrap.servers=").to_owned();
    let bench = Bench::new();
    let scenario = format!(
        "scenario: elsewhere
target: {{kafka: {{bootstrap: '{bootstrap}'}}}}
topology:
  entities: {{in: {{hub: in, partitions: 4}}, out: {{hub: out, partitions: 4}}}}
  load: {{to: in, protocol: kafka}}
  pipeline: {{from: {{entity: in}}, to: out, protocol: kafka}}
  sink: {{from: out, protocol: kafka}}
load: {{mode: open, rate: 1000/s, payload: 64 B, batch: 20}}
relay:
  instances: 2
  fan_out: 4
  route: same-partition
  batch: {{events: 64, wait: 2 ms}}
  restart: {{after: 300 ms, down: 100 ms}}
phases: {{warm_up: 100 ms, measure: 1500 ms, drain: 30 s}}
trials: 2
sweeps:
  end:
    load.seed:
      name: end
      values:
        - value: 1
          name: member
          relay.ownership: group
          relay.checkpoint_store: group
          relay.restart.by: stop
          topology.pipeline.from.properties.heartbeat.interval.ms: 300
        - {{value: 2, name: exactly-once, relay.delivery: exactly-once}}
        - {{value: 3, name: files}}
"
    );
    bench.file("elsewhere.yaml", &scenario);
    let finished = bench.run(&["./elsewhere.yaml"]);
    assert!(matches!(finished.status, Some(0 | 1)), "{}", finished.stderr);
    let results = bench.results();
    let cases = intact_cases(&results);
    assert_eq!(cases.len(), 3);
    for (name, case) in cases {
        assert_eq!(case["trials"].as_array().unwrap().len(), 2, "{name}");
        let delivery = &case["delivery"];
        assert_eq!(delivery["foreign"], 0, "{name}: {delivery}");
        let is_repeated = delivery["duplicated"].as_u64() > Some(0);
        assert!(!is_repeated || name == "end=files", "{name}: {delivery}");
    }
}
