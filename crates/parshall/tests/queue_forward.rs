//! `parshall run queue-forward` with tiny figures, through real processes: the load's messages in one queue, a relay that
//! settles each, a sink that checks what comes out of the other. How fast that is is nobody's matter here.

#![expect(
    clippy::unwrap_used,
    reason = "what panics in a test fails it, and says where"
)]

use std::process::Command;

use serde_json::Value;

/// Runs the case of a concurrency of 8 for a moment, with `set` besides, and gives it as the results tell of it.
fn run(set: &[&str]) -> Value {
    let folder = tempfile::tempdir().unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_parshall"));
    command
        .args(["run", "queue-forward", "--quick", "--format", "json"])
        .args(["--only", "concurrency=8"])
        .current_dir(folder.path())
        .env_clear();
    let short = [
        "phases.warm_up=100 ms",
        "phases.measure=500 ms",
        "load.max_lag=2000",
        "limits.relay={}",
    ];
    for argument in short.iter().chain(set) {
        command.args(["--set", argument]);
    }
    let output = command.output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{errors}");
    let mut results: Value = serde_json::from_slice(&output.stdout).unwrap();
    results["cases"][0].take()
}

/// Every message of twelve bytes arrived unharmed, and the service's counters and the clients' agree.
fn assert_intact(case: &Value) {
    let delivery = &case["delivery"];
    assert!(delivery["sent"].as_u64().unwrap() > 0, "{delivery}");
    for kind in ["lost", "corrupted", "unexpected", "unknown"] {
        assert_eq!(delivery[kind], 0, "{delivery}");
    }
    assert_eq!(case["status"], "passed", "{}", case["findings"]);
}

#[test]
fn every_message_is_forwarded_once_and_completed() {
    let case = run(&[]);
    assert_intact(&case);
    assert_eq!(case["delivery"]["duplicated"], 0);
    assert_eq!(case["params"]["queues.source.name"], "queue1");
    assert_eq!(case["params"]["relay.prefetch"], 0);
    assert_eq!(case["published"]["forwarded_per_s"], 120.0);
}

#[test]
fn a_message_whose_send_fails_is_abandoned_and_comes_again() {
    let case = run(&["relay.failure_ratio=0.05"]);
    assert_intact(&case);
    let relay = &case["trials"][0]["relay"]["sends"];
    assert!(relay["failed_on_purpose"].as_u64().unwrap() > 0, "{relay}");
}

#[test]
fn our_relay_reaches_the_queues_over_tls_as_old_sdks_have_to() {
    assert_intact(&run(&["sut=parshall-tls", "relay.prefetch=100"]));
}
