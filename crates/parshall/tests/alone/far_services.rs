//! `parshall run` against a service that is a round trip away: what the report says of it, and that following it helps.

use std::process::Command;

use serde_json::Value;

use crate::machine;

const FAR: &str = "\
scenario: far
hubs: {source: {partitions: 2}, destination: {partitions: 2}}
embedded: {log_per_hub: 64 MiB, profile: {round_trip: 20 ms}}
load: {mode: backlog, backlog: 20000, batch: 500}
relay: {fan_out: 2, batch: {events: 128, wait: 10 ms}, prefetch: 128}
phases: {drain: 60 s}
";

/// The one case of a scenario with a setting changed.
fn run(scenario: &str, set: &str) -> Value {
    let _machine = machine();
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("far.yaml"), scenario).unwrap();
    let output = Command::new(env!("CARGO_BIN_EXE_parshall"))
        .args(["run", "./far.yaml", "--format", "json", "--set", set])
        .current_dir(folder.path())
        .env_clear()
        .output()
        .unwrap();
    let messages = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(0), "{messages}");
    let mut results: Value = serde_json::from_slice(&output.stdout).unwrap();
    results["cases"][0].take()
}

fn forwarded_per_s(case: &Value) -> f64 {
    case["forwarded_per_s"]["median"].as_f64().unwrap()
}

#[test]
#[ignore = "long tier: rates of three runs are compared"]
fn a_relay_that_waits_for_far_sends_is_to_fetch_more_ahead_and_is_faster_then() {
    let near_sighted = run(FAR, "relay.prefetch=128");
    let findings = near_sighted["findings"].as_array().unwrap();
    let of_kind = |kind: &str| findings.iter().find(|finding| finding["kind"] == kind);
    let hint = of_kind("low-utilisation").unwrap()["hint"].as_str().unwrap();
    // Where other processes use the machine up, the report says that instead.
    let is_shared = of_kind("machine-shared").is_some();
    assert!(
        hint.starts_with("raise `relay.prefetch` (128)") || is_shared && hint.starts_with("free up cores"),
        "{findings:?}"
    );
    let far_sighted = run(FAR, "relay.prefetch=2048");
    let (before, after) = (forwarded_per_s(&near_sighted), forwarded_per_s(&far_sighted));
    assert!(after > before, "{before} events/s, then {after}");
    let adaptive = run(FAR, "relay.prefetch=adaptive");
    let adapted = forwarded_per_s(&adaptive);
    assert!(adapted > before, "{before} events/s, then {adapted}");
    for case in [near_sighted, far_sighted, adaptive] {
        let delivery = &case["delivery"];
        assert_eq!((&delivery["lost"], &delivery["reordered"]), (&0.into(), &0.into()));
    }
}

/// Neither the machine's speed nor the verdict on the generator matters here: the figures are held against one another.
#[test]
fn stages_in_one_direction_add_up_and_round_trips_are_told_apart() {
    const OPEN: &str = "\
scenario: far
hubs: {source: {partitions: 2}, destination: {partitions: 2}}
embedded: {log_per_hub: 64 MiB, profile: {round_trip: 20 ms}}
load: {mode: closed, payload: 100 B}
relay: {fan_out: 2, batch: {events: 32, wait: 5 ms}}
phases: {warm_up: 1 s, measure: 2 s}
";
    let case = run(OPEN, "load.workers=8");
    let stage = |name: &str| &case["stages"][name];
    let mean = |summary: &Value| summary["mean"].as_f64().unwrap();
    let whole = mean(&case["latency_us"]);
    let parts = mean(stage("to_destination")) + mean(stage("delivery"));
    // Dates of appends are rounded down to the millisecond, the buckets of histograms are 0.1 % wide.
    assert!((parts - whole).abs() < 1_000.0 + whole * 0.002, "{parts} µs of {whole} µs");
    for name in ["to_destination", "delivery"] {
        assert_eq!(stage(name)["count"], case["latency_us"]["count"], "{name}");
    }
    // Each way takes 10 ms: the answer that a load waits for two of them, an event that is delivered one.
    assert!(stage("acknowledge")["min"].as_u64().unwrap() >= 20_000, "{case}");
    assert!(stage("delivery")["min"].as_u64().unwrap() >= 10_000, "{case}");
    assert!(stage("to_destination")["min"].as_u64().unwrap() >= 3 * 10_000 - 1_000, "{case}");
    for name in ["to_destination", "delivery", "in_hub", "queue"] {
        assert_eq!(stage(name)["direction"], "one_way", "{name}");
    }
    for name in ["acknowledge", "process", "batch_send", "send", "checkpoint"] {
        assert_eq!(stage(name)["direction"], "round_trip", "{name}");
    }
    let nested = mean(stage("in_hub")) + mean(stage("queue"));
    assert!(nested < mean(stage("to_destination")), "{case}");
}
