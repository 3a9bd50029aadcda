//! A generator that is asked for more than it can do says so, and its run counts for nothing.

use crate::running::Run;

/// Far more than one worker can encode, whatever the machine.
const SCENARIO: &str = "\
scenario: overload
hubs: {source: {partitions: 4}, destination: {partitions: 4}}
load: {mode: open, rate: 50_000_000/s, payload: 1 KiB, batch: 100, in_flight: 2}
relay: {fan_out: 4, prefetch: 2000}
sink: {prefetch: 2000}
phases: {warm_up: 100 ms, measure: 500 ms, drain: 2 min}
trials: 1
";

#[test]
fn an_overloaded_generator_makes_the_run_invalid_with_the_reason() {
    let finished = Run::start(SCENARIO).finish();
    let case = finished.case();
    assert_eq!((finished.status, &case["status"]), (Some(1), &"invalid".into()), "{case:#}");
    assert_eq!(case["passed"], false);
    let findings = finished.findings("generator-overloaded");
    assert!(
        findings.iter().any(|message| message.contains("the load generator fell behind its schedule")),
        "{findings:?}"
    );
    let generator = &case["trials"][0]["generator"];
    assert_eq!(generator["healthy"], false);
    let count = |name: &str| generator[name].as_u64().unwrap();
    // What left was meant for the warm-up, and what was meant for the phase did not leave.
    let sent = case["delivery"]["sent"].as_u64().unwrap();
    assert!(count("never_sent_events") > sent, "{generator}");
    assert_eq!(finished.findings("load-held-back"), [""; 0], "it was never ahead of the service");
    assert_eq!(case["delivery"]["lost"], 0, "the pipeline is not to blame: {case}");
    assert!(finished.report.contains("fell behind its schedule"));
}
