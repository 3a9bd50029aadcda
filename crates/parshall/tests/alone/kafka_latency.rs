//! `parshall run kafka-latency`, and what it says of a record's way.

use std::process::Command;

use serde_json::Value;

use crate::machine;

/// Two clients of the lab's own, and the embedded service between them.
const OPEN: &str = "\
scenario: records
topology:
  entities: {in: {hub: records, partitions: 2}}
  load: {to: in, protocol: kafka}
  sink: {from: in, protocol: kafka}
  measure: service
embedded: {log_per_hub: 64 MiB}
load: {mode: open, rate: 500/s, payload: 1 KiB, batch: 1, in_flight: 100}
phases: {warm_up: 500 ms, measure: 3 s, drain: 30 s}
trials: 1
";

/// The results of a run in a folder that has the scenario of the tests.
fn run(arguments: &[&str]) -> Value {
    let _machine = machine();
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("records.yaml"), OPEN).unwrap();
    let output = Command::new(env!("CARGO_BIN_EXE_parshall"))
        .arg("run")
        .args(arguments)
        .args(["--format", "json"])
        .current_dir(folder.path())
        .env_clear()
        .output()
        .unwrap();
    let messages = String::from_utf8(output.stderr).unwrap();
    // A machine that has other work to do makes a generator late; that shows in the status, and no figure here depends on it.
    assert!(matches!(output.status.code(), Some(0 | 1)), "{messages}");
    serde_json::from_slice(&output.stdout).unwrap()
}

/// Every record arrived, once, in order and whole.
fn assert_whole(case: &Value) {
    let delivery = &case["delivery"];
    for count in ["lost", "duplicated", "reordered", "corrupted", "unknown"] {
        assert_eq!(delivery[count], 0, "{count} of {delivery}");
    }
    assert!(delivery["sent"].as_u64() > Some(500), "{delivery}");
}

fn mean(summary: &Value) -> f64 {
    summary["mean"].as_f64().unwrap_or_else(|| panic!("a mean in {summary}"))
}

#[test]
fn the_stages_of_a_record_add_up_to_its_latency() {
    for set in ["load.mode=open", "load.mode=burst"] {
        let results = run(&["./records.yaml", "--set", set]);
        let case = &results["cases"][0];
        assert_whole(case);
        let stages = ["waiting", "produce", "publish", "commit", "catch_up", "fetch"];
        let parts: f64 = stages.iter().map(|stage| mean(&case["stages"][stage])).sum();
        let whole = mean(&case["latency_us"]);
        assert!((parts / whole - 1.0).abs() <= 0.02, "{set}: {parts} µs of {whole} µs");
        // Without what was waited for before the send, it is the figure that forgives the generator.
        let from_send = mean(&case["uncorrected_latency_us"]);
        let parts = parts - mean(&case["stages"]["waiting"]);
        assert!((parts / from_send - 1.0).abs() <= 0.02, "{set}: {parts} µs of {from_send} µs");
        let counts = stages.iter().map(|stage| &case["stages"][stage]["count"]);
        assert!(
            counts.clone().all(|count| *count == case["latency_us"]["count"]),
            "{:?}",
            counts.collect::<Vec<_>>()
        );
    }
}

#[test]
fn a_service_that_keeps_records_on_a_disk_takes_time_to_commit_them() {
    let case =
        run(&["./records.yaml", "--set", "embedded.durable=true", "--set", "embedded.sync=always"])["cases"]
            [0]
        .take();
    assert_whole(&case);
    assert!(mean(&case["stages"]["commit"]) > 0.0, "{}", case["stages"]);
}
