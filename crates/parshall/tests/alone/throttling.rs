//! A service that refuses sends because its quota is used up, or because a log is full: the case does not pass, and the
//! report names the bound and advises to raise nothing.

use crate::machine;
use crate::running::{Finished, Run};

/// Load and relay together are allowed 1,000 events per second, after a first thousand.
const QUOTA: &str = "\
scenario: quota
hubs: {source: {partitions: 2}, destination: {partitions: 2}}
embedded: {log_per_hub: 64 MiB, profile: {quota: {ingress_events_per_s: 1000}}}
load: {mode: saturate, batch: 50, max_lag: 2000}
relay: {fan_out: 2, batch: {events: 64, wait: 10 ms}}
phases: {warm_up: 500 ms, measure: 2 s, drain: 1 min}
trials: 1
";

/// A partition of the destination holds 2 MiB, and what the load sends in a second is more.
const FULL_DESTINATION: &str = "\
scenario: full
hubs: {source: {partitions: 1}, destination: {partitions: 16}}
embedded: {log_per_hub: 32 MiB, when_full: throttle}
load: {mode: open, rate: 4000/s, payload: 1 KiB, batch: 50}
relay: {fan_out: 1, batch: {events: 64, wait: 10 ms}}
phases: {warm_up: 100 ms, measure: 2 s, drain: 100 ms}
trials: 1
";

fn throttled(finished: &Finished, role: &str) -> u64 {
    let refusals = &finished.case()["trials"][0]["refusals"][role];
    refusals["throttled"].as_u64().unwrap_or(0)
}

fn assert_throttled(finished: &Finished) {
    let case = finished.case();
    assert_eq!((finished.status, &case["status"]), (Some(1), &"failed".into()), "{case:#}");
    assert_eq!(finished.findings("limited-by-quota").len(), 1, "{case:#}");
    assert!(finished.findings("limited-by-generator").is_empty(), "{case:#}");
    let hints = finished.hints();
    // A machine that does much else makes the load late, which has an advice of its own.
    let mut of_quota = hints.iter().filter(|hint| !hint.contains("load.in_flight"));
    assert!(of_quota.all(|hint| !hint.contains("raise")), "{hints:?}");
    assert!(throttled(finished, "relay") > 0, "{case:#}");
    let log = &finished.relay_log;
    assert_eq!(log.matches("WARN").count(), 1, "one line for one cause: {log}");
    assert!(log.contains("com.microsoft:server-busy"), "{log}");
}

#[test]
fn a_quota_below_the_load_fails_the_case_and_is_what_the_report_names() {
    let _machine = machine();
    let finished = Run::start(QUOTA).finish();
    assert_throttled(&finished);
    assert!(throttled(&finished, "load") > 0, "{:#}", finished.case());
    let delivery = &finished.case()["delivery"];
    let count = |name: &str| delivery[name].as_u64().unwrap();
    assert_eq!(count("lost"), 0, "{delivery}");
    assert!(count("unknown") * 10 > count("sent"), "{delivery}");
    assert_eq!(finished.findings("outcome-unknown").len(), 1);
    // What was refused is not in the source, so the load is not ahead of the relay by it and goes on.
    assert!(count("sent") > count("acknowledged") + 2_000, "the load stood still: {delivery}");
    // Eight sends at once, and a pause of 10 ms when they were refused.
    let seconds = finished.case()["trials"][0]["duration_s"].as_f64().unwrap();
    let most = 800.0 * (seconds + 5.0);
    let refused = throttled(&finished, "load") as f64;
    assert!(refused <= most, "the load floods the service: {refused}");
}

#[test]
fn a_sink_that_takes_no_more_fails_the_case_though_the_load_was_refused_nothing() {
    let _machine = machine();
    let finished = Run::start(FULL_DESTINATION).finish();
    assert_throttled(&finished);
    assert_eq!(throttled(&finished, "load"), 0, "{:#}", finished.case());
    let quota = finished.findings("limited-by-quota")[0];
    assert!(quota.contains("destination: "), "{quota}");
    assert!(
        finished.hints().iter().any(|hint| hint.contains("embedded.log_per_hub")),
        "a full log is no quota: {:?}",
        finished.hints()
    );
}

/// Load and relay together are allowed 1,000 events per second, so that 500 events per second pass through both, after a
/// first thousand, which carries 570/s for seven seconds: longer than any probe is asked to last.
#[test]
#[ignore = "long tier: a generator that is late finds no capacity"]
fn the_burst_credit_of_a_quota_is_not_capacity() {
    let _machine = machine();
    const CAPACITY: f64 = 500.0;
    let scenario = "\
scenario: credit
hubs: {source: {partitions: 2}, destination: {partitions: 2}}
embedded: {log_per_hub: 64 MiB, profile: {quota: {ingress_events_per_s: 1000}}}
load:
  mode: capacity
  batch: 4
  capacity: {start: 570/s, highest: 855/s, bound: 2 s, precision: 50 %, probe: 2 s, hold: 2 s, repeat: 1}
relay: {fan_out: 2, batch: {events: 8, wait: 1 ms}}
phases: {warm_up: 200 ms, drain: 1 s}
";
    let finished = Run::start(scenario).finish();
    let capacity = &finished.case()["capacity"];
    let rate = |name: &str| capacity[name].as_f64().unwrap_or_else(|| panic!("{capacity:#}"));
    let (held, failed) = (rate("highest_passed_per_s"), rate("lowest_failed_per_s"));
    assert!(held <= CAPACITY && CAPACITY < failed, "{capacity:#}");
    let probes = capacity["probes"].as_array().unwrap();
    assert_eq!((&probes[0]["rate_per_s"], &probes[0]["outcome"]), (&570.0.into(), &"passed".into()));
    let again = probes[1..].iter().find(|probe| probe["rate_per_s"] == 570.0).unwrap();
    assert_eq!((&again["lead"]["rate_per_s"], &again["outcome"]), (&855.0.into(), &"failed".into()));
    for probe in probes.iter().filter(|probe| probe["throttled"].as_u64().unwrap_or(0) > 0) {
        assert_eq!(probe["outcome"], "failed", "{probe:#}");
        let reason = probe["reasons"][0].as_str().unwrap();
        assert!(reason.starts_with("the service throttled"), "a quota is called a quota: {probe:#}");
    }
    let hold = probes.last().unwrap();
    assert_eq!((&hold["purpose"], &hold["outcome"]), (&"hold".into(), &"passed".into()), "{capacity:#}");
    // How much of the credit may be left is a question of time: the lab lasts longer than the scenario says, if need be.
    assert!(hold["above_quota_percent"].as_f64().unwrap() <= 10.0, "{hold:#}");
    assert!(finished.report.contains("after 855/s"), "the report shows the lead");
}
