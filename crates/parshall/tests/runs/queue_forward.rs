//! `parshall run queue-forward` with tiny figures, through real processes: the load's messages in one queue, a relay that
//! settles each, a sink that checks what comes out of the other. How fast that is is nobody's matter here.

use std::process::Command;

use serde_json::Value;

/// Runs the case of a concurrency of 8 for a moment, with `set` besides, and gives it as the results tell of it.
fn run(set: &[&str]) -> Value {
    let mut results = results(&["--only", "concurrency=8"], set);
    results["cases"][0].take()
}

/// Runs what `arguments` choose for a moment, with `set` besides.
fn results(arguments: &[&str], set: &[&str]) -> Value {
    let folder = tempfile::tempdir().unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_parshall"));
    command
        .args(["run", "queue-forward", "--quick", "--format", "json"])
        .args(arguments)
        .current_dir(folder.path())
        .env_clear();
    let short = ["phases.warm_up=100 ms", "phases.measure=500 ms", "load.max_lag=2000", "limits.relay={}"];
    for argument in short.iter().chain(set) {
        command.args(["--set", argument]);
    }
    let output = command.output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{errors}");
    serde_json::from_slice(&output.stdout).unwrap()
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
fn the_quick_study_passes_as_a_whole() {
    let results = results(&[], &["phases.measure=300 ms"]);
    let cases = results["cases"].as_array().unwrap();
    let names: Vec<&Value> = cases.iter().map(|case| &case["name"]).collect();
    let concurrency = [8, 96, 128, 256].map(|places| format!("concurrency={places}"));
    assert_eq!(names, concurrency.each_ref());
    cases.iter().for_each(assert_intact);
}

#[test]
fn a_message_whose_send_fails_is_abandoned_and_comes_again() {
    let case = run(&["relay.failure_ratio=0.05"]);
    assert_intact(&case);
    let relay = &case["trials"][0]["relay"]["sends"];
    assert!(relay["failed_on_purpose"].as_u64().unwrap() > 0, "{relay}");
    let delivery = &case["delivery"];
    assert!(delivery["redelivered"].as_u64().unwrap() > 0, "{delivery}");
    assert_eq!(delivery["dead_lettered"], 0);
}

#[test]
fn a_message_that_fails_too_often_is_distinguished_from_a_lost_one() {
    let case = run(&["relay.failure_ratio=0.9", "queues.maximum_delivery_count=2", "load.max_lag=300"]);
    assert_intact(&case);
    let delivery = &case["delivery"];
    let of = |count: &str| delivery[count].as_u64().unwrap();
    assert!(of("dead_lettered") > 0, "{delivery}");
    assert_eq!(
        of("received") + of("dead_lettered"),
        of("sent"),
        "each is in one of the two queues: {delivery}"
    );
    assert!(of("redelivered") >= of("dead_lettered"), "each was delivered twice: {delivery}");
    let findings = case["findings"].as_array().unwrap();
    let told = findings.iter().find(|finding| finding["kind"] == "events-dead-lettered");
    assert_eq!(told.unwrap()["severity"], "warning");
}

#[test]
fn queues_on_a_disk_lose_nothing_either() {
    let case = run(&["embedded.durable=true"]);
    assert_intact(&case);
    assert!(case["latency_us"]["p50"].as_u64().unwrap() > 0);
}

#[test]
fn places_over_the_measured_time_of_each_message_is_what_passes() {
    let case = run(&["embedded.profile.round_trip=2 ms", "phases.measure=1 s"]);
    assert_intact(&case);
    let mean = |stage: &str| case["stages"][stage]["mean"].as_f64().unwrap();
    let before_sends = mean("process") - mean("batch_send");
    let each_us = mean("queue") + before_sends + mean("send") + mean("settle") + mean("vacant");
    assert!(each_us > 6_000.0, "a round trip for each of three parts: {each_us}");
    let expected = 8.0 / each_us * 1e6;
    let measured = case["received_per_s"]["median"].as_f64().unwrap();
    assert!((measured / expected - 1.0).abs() < 0.1, "{measured} instead of {expected}: {}", case["stages"]);
}

#[test]
fn our_relay_reaches_the_queues_over_tls_as_old_sdks_have_to() {
    assert_intact(&run(&["sut=parshall-tls", "relay.prefetch=100"]));
}
