//! A source whose retention takes events before the relay has read them: the trial says so, and waits for none of them.

use std::time::Duration;

use crate::running::{Finished, Run, pause};

/// More than the log holds once each event has its header in it: what the load sends first is gone before the relay starts.
const BACKLOG: &str = "\
scenario: backlog
hubs: {source: {partitions: 1}, destination: {partitions: 1}}
embedded: {log_per_hub: 2 MiB}
load: {mode: backlog, backlog: 100000, payload: 16 B, batch: 500}
relay: {fan_out: 1, batch: {events: 128, wait: 10 ms}}
phases: {drain: 10 min}
trials: 1
";

/// Twice as much as the source holds comes in a second.
const OPEN: &str = "\
scenario: open
hubs: {source: {partitions: 4}, destination: {partitions: 1}}
embedded: {log_per_hub: 8 MiB}
load: {mode: open, rate: 16000/s, payload: 1 KiB, batch: 50}
relay: {fan_out: 1, batch: {events: 128, wait: 10 ms}}
phases: {warm_up: 200 ms, measure: 4 s, drain: 10 min}
trials: 1
";

/// How many events retention took, by what the relay counted.
fn assert_missed(finished: &Finished) -> u64 {
    let case = finished.case();
    assert_eq!((finished.status, &case["status"]), (Some(1), &"failed".into()), "{case:#}");
    let trial = &case["trials"][0];
    assert!(trial.get("interrupted").is_none(), "{case:#}");
    let missed = trial["relay"]["whole_trial"]["missed_events"].as_u64().unwrap();
    assert!(missed > 0, "{case:#}");
    assert_eq!(finished.findings("events-missed").len(), 1, "{case:#}");
    assert!(finished.relay_log.contains("events are missing"));
    assert!(
        finished.hints().iter().any(|hint| hint.contains("embedded.log_per_hub")),
        "{:?}",
        finished.hints()
    );
    // All of them, and no others, never arrived.
    assert_eq!(case["delivery"]["lost"], missed, "{case:#}");
    assert!(finished.findings("counters-disagree").is_empty(), "{case:#}");
    missed
}

#[test]
fn a_backlog_that_the_log_does_not_hold_is_drained_as_far_as_it_is_there() {
    let finished = Run::start(BACKLOG).finish();
    let missed = assert_missed(&finished);
    let delivery = &finished.case()["delivery"];
    assert_eq!(delivery["sent"], 100_000, "{delivery}");
    assert_eq!(delivery["received"], 100_000 - missed, "{delivery}");
}

#[test]
fn a_relay_that_stands_still_for_longer_than_the_log_lasts_misses_events_and_the_trial_ends() {
    let mut run = Run::start(OPEN);
    run.until(": measuring");
    pause(run.role("relay"), Duration::from_secs(2));
    assert_missed(&run.finish());
}

#[test]
fn what_the_sink_comes_too_late_for_is_laid_to_the_sink() {
    // A partition of the destination has a sixteenth of what the source's one has.
    let scenario = OPEN
        .replace("source: {partitions: 4}", "source: {partitions: 1}")
        .replace("destination: {partitions: 1}", "destination: {partitions: 16}")
        .replace("log_per_hub: 8 MiB", "log_per_hub: 64 MiB")
        .replace("rate: 16000/s", "rate: 8000/s");
    let mut run = Run::start(&scenario);
    run.until(": measuring");
    pause(run.role("sink"), Duration::from_secs(2));
    let finished = run.finish();
    let case = finished.case();
    let trial = &case["trials"][0];
    assert!(trial.get("interrupted").is_none(), "{case:#}");
    assert_eq!(trial["relay"]["whole_trial"]["missed_events"], 0);
    let lost = case["delivery"]["lost"].as_u64().unwrap();
    assert!(lost > 0, "{case:#}");
    let findings = finished.findings("sink-overloaded");
    let expected = "from the destination before the sink read";
    assert!(findings.iter().any(|message| message.contains(expected)), "{findings:?}");
    assert!(finished.findings("counters-disagree").is_empty(), "{case:#}");
}
