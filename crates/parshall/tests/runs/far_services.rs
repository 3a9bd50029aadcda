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

/// The one case of the scenario with a setting changed.
fn run(set: &str) -> Value {
    let _machine = machine();
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("far.yaml"), FAR).unwrap();
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
fn a_relay_that_waits_for_far_sends_is_to_fetch_more_ahead_and_is_faster_then() {
    let near_sighted = run("relay.prefetch=128");
    let findings = near_sighted["findings"].as_array().unwrap();
    let of_kind = |kind: &str| findings.iter().find(|finding| finding["kind"] == kind);
    let hint = of_kind("low-utilisation").unwrap()["hint"].as_str().unwrap();
    // Where other processes use the machine up, the report says that instead.
    let is_shared = of_kind("machine-shared").is_some();
    assert!(
        hint.starts_with("raise `relay.prefetch` (128)") || is_shared && hint.starts_with("free up cores"),
        "{findings:?}"
    );
    let far_sighted = run("relay.prefetch=2048");
    let (before, after) = (forwarded_per_s(&near_sighted), forwarded_per_s(&far_sighted));
    assert!(after > before, "{before} events/s, then {after}");
    let adaptive = run("relay.prefetch=adaptive");
    let adapted = forwarded_per_s(&adaptive);
    assert!(adapted > before, "{before} events/s, then {adapted}");
    for case in [near_sighted, far_sighted, adaptive] {
        let delivery = &case["delivery"];
        assert_eq!((&delivery["lost"], &delivery["reordered"]), (&0.into(), &0.into()));
    }
}
