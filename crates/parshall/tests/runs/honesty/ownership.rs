//! Instances of the relay that share the partitions of the source by claims in blobs, one of which is stopped for longer
//! than its claims last.

use std::time::Duration;

use crate::running::{Run, pause};

/// Requests for blobs that take so long that four of them outlast the interval of renewal, and claims that outlast two
/// rounds of it.
const SCENARIO: &str = "scenario: shared\n\
    embedded: {profile: {service_time: {blob: 60 ms}}}\n\
    hubs: {source: {partitions: 8}, destination: {partitions: 4}}\n\
    load: {mode: saturate, payload: 16 B, batch: 50, max_lag: 20000}\n\
    relay:\n\
    \x20 instances: 2\n\
    \x20 fan_out: 4\n\
    \x20 checkpoint_store: blob\n\
    \x20 ownership: {mode: greedy, renew: 200 ms, expire: 1 s}\n\
    phases: {warm_up: 100 ms, measure: 6 s, drain: 30 s}\n";

#[test]
fn an_instance_that_was_stopped_loses_its_partitions_and_no_event() {
    let mut run = Run::start(SCENARIO);
    run.until("measuring");
    // Blobs tell whole seconds, and the next one may have begun.
    pause(run.role("relay"), Duration::from_secs(3));
    let finished = run.finish();
    assert_eq!(finished.status, Some(0), "{}", finished.said);

    let case = finished.case();
    assert_eq!(case["passed"], true, "{case}");
    for kind in ["lost", "corrupted", "unexpected"] {
        assert_eq!(case["delivery"][kind], 0, "{case}");
    }
    let figure = |pointer: &str| {
        let figure = case.pointer(pointer).and_then(serde_json::Value::as_u64);
        figure.unwrap_or_else(|| panic!("{pointer} in {case}"))
    };
    let trial = |path: &str| figure(&format!("/trials/0/relay/{path}"));
    assert_eq!(trial("instances"), 2);
    // Half of the partitions were its own.
    assert!(trial("ownership/gained/expired") >= 4, "{case}");
    assert!(trial("whole_trial/lost_partitions") >= 4, "{case}");
    assert!(trial("opened/claim") >= 4, "{case}");
    assert!(trial("closed/loss") >= 4, "{case}");
    assert!(trial("checkpoints/written") > 0, "{case}");
    assert!(figure("/stages/checkpoint/min") >= 60_000, "each is a blob");
    // A round that renews is two in a row, but who waits for what it has asked for only lists.
    assert!(figure("/stages/ownership/min") >= 60_000, "a round is one at least");

    for kind in ["slow-checkpoints", "duplicates-after-loss"] {
        let findings = finished.findings(kind);
        assert_eq!(findings.len(), 1, "{kind}: {case}");
        assert!(finished.report.contains(findings[0]), "{kind}");
    }
}
