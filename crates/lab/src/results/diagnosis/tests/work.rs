//! Batches and sends: how full, how slow, how often in vain.

use super::*;

#[test]
fn batches_that_are_far_from_full_are_named_with_the_setting_that_ends_them() {
    let symptom = only(|trial| relay(trial).sizes = sizes(78_125, 31.0));
    assert_eq!(symptom.sentence(Noun::Events), "batches held 31.0 of 128 events on average (24.2 % full)");
    assert!(symptom.advice(Noun::Events).contains("`relay.batch.wait` (10 ms)"));
    let symptom = only(|trial| {
        relay(trial).sizes = sizes(78_125, 31.0);
        trial.intervals = intervals(1_000_000);
    });
    assert!(symptom.advice(Noun::Events).contains("relay.prefetch"));
    nothing(|trial| relay(trial).sizes = sizes(78_125, 64.0));
    nothing(|trial| relay(trial).sizes = sizes(99, 3.0));
}

#[test]
fn a_long_tail_of_sends_is_one_that_chance_does_not_explain() {
    let symptom = only(|trial| {
        trial.stages.insert(Stage::Send, times(10_000, 900, 400_000));
    });
    assert_eq!(symptom.sentence(Noun::Events), "send p99 is 400 ms, 444 times the median of 900 µs");
    assert!(symptom.advice(Noun::Events).contains("`relay.try_timeout` (1 min)"));
    nothing(|trial| {
        trial.stages.insert(Stage::Send, times(10_000, 900, 8_900));
    });
    // Ten times, and still within what the system's scheduler makes.
    nothing(|trial| {
        trial.stages.insert(Stage::Send, times(10_000, 90, 4_900));
    });
}

#[test]
fn sends_that_fail_are_a_symptom_from_one_in_a_hundred_on() {
    let failing = |failed| {
        move |trial: &mut Trial| {
            relay(trial).sends = SendCounts { made: 10_000, failed, timed_out: 3, ..SendCounts::default() };
        }
    };
    assert_eq!(
        only(failing(100)).sentence(Noun::Events),
        "100 of 10,000 sends failed (1.0 %), 3 of them by time-out"
    );
    nothing(failing(99));
}

#[test]
fn batches_that_failed_are_a_symptom_unless_that_was_the_purpose() {
    let failing = |failed_on_purpose| {
        move |trial: &mut Trial| {
            relay(trial).batches.failed = 5;
            relay(trial).opened.rest = 5;
            relay(trial).sends.failed_on_purpose = failed_on_purpose;
        }
    };
    assert_eq!(
        only(failing(0)).sentence(Noun::Events),
        "5 of 78,130 batches failed; partitions were restarted 5 times"
    );
    nothing(failing(5));
}
