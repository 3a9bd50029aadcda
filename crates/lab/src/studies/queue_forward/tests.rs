//! Between queues: whether places for messages are what bounds the rate.

use std::collections::BTreeMap;

use super::occupancy::tests::{shape, stages};
use super::*;
use crate::results::fixture::{SECONDS, intervals, usage};
use crate::results::{Delivery, MeasuredComponent, RelayActivity, Role, Stage, Trial, WaitingTimes};

/// Eight places, each taken for 6 ms: 1,333 messages/s can pass. Four cores, of which the relay uses a twentieth of one.
fn trial(received_per_s: f64) -> Trial {
    let waiting_us = WaitingTimes { source: SECONDS * 950_000, ..WaitingTimes::default() };
    Trial {
        duration_s: SECONDS as f64,
        machine_cores: Some(4),
        roles: BTreeMap::from([(Role::Relay, usage(5.0))]),
        stages: stages(&[
            (Stage::Process, 2_000.0),
            (Stage::BatchSend, 2_000.0),
            (Stage::Send, 2_000.0),
            (Stage::Settle, 2_000.0),
            (Stage::Vacant, 2_000.0),
        ]),
        relay: Some(RelayActivity {
            instances: 1,
            watched_us: SECONDS * 1_000_000,
            waiting_us,
            ..RelayActivity::default()
        }),
        received_per_s: Some(received_per_s),
        forwarded_per_s: Some(received_per_s),
        intervals: intervals(2_000),
        ..Trial::default()
    }
}

fn bound(threads: u64, measured: &MeasuredComponent, trial: &Trial) -> Option<Finding> {
    let shape = shape(8, Some(threads));
    QueueForward.bound(&Observation { shape: &shape, measured, measured_role: Role::Relay, trial })
}

#[test]
fn places_that_account_for_what_passed_are_the_bound() {
    let found = bound(20, &MeasuredComponent::Relay, &trial(1_300.0)).expect("they do");
    assert_eq!(
        found.message,
        "concurrency-bound: the relay works on 8 messages at once, 6.00 ms each (2.00 ms until forwarded, 2.00 ms until its \
         completion was confirmed, 2.00 ms until the next one arrived); by Little's law 8 / 6.00 ms = 1,333 messages/s \
         expected, 1,300 measured (2.5 % off)"
    );
    assert!(found.hint.is_some_and(|hint| hint.contains("relay.concurrency")));
}

#[test]
fn a_core_a_machine_or_a_lack_of_messages_is_a_bound_of_its_own() {
    let is_bound = |change: fn(&mut Trial)| {
        let mut trial = trial(1_300.0);
        change(&mut trial);
        bound(20, &MeasuredComponent::Relay, &trial).is_some()
    };
    assert!(is_bound(|_| {}));
    assert!(!is_bound(|trial| drop(trial.roles.insert(Role::Relay, usage(96.0)))));
    assert!(!is_bound(|trial| trial.other_cpu_seconds = Some(39.0)), "others use the machine up");
    assert!(!is_bound(|trial| trial.intervals = intervals(3)), "fewer messages than places");
    assert!(!is_bound(|trial| trial.received_per_s = Some(1_000.0)), "it does not add up");
}

#[test]
fn of_another_system_it_is_only_said_what_would_follow() {
    let mine = MeasuredComponent::Other("mine".to_owned());
    let mut idle = trial(250.0);
    idle.relay = None;
    let found = bound(4, &mine, &idle).expect("it may be");
    assert_eq!(
        found.message,
        "possibly concurrency-bound: mine used 5.0 % of its CPU; if 4 threads for 8 messages are always busy, by Little's law \
         4 / 250 messages/s = 16.0 ms for each"
    );
    assert_eq!(found.hint.as_deref(), Some("raise `relay.threads` above `relay.concurrency`"));
    idle.roles.insert(Role::Relay, usage(75.0));
    assert_eq!(bound(4, &mine, &idle), None);
}

#[test]
fn a_dead_letter_fails_the_case_unless_sends_were_to_fail() {
    let mut trial = trial(1_300.0);
    trial.delivery = Some(Delivery { sent: 1_000, dead_lettered: Some(1), ..Delivery::default() });
    let mut shape = shape(8, None);
    let found = |shape: &Shape, trial: &Trial| {
        let observation =
            Observation { shape, measured: &MeasuredComponent::Relay, measured_role: Role::Relay, trial };
        QueueForward.findings(&observation)
    };
    assert_eq!(
        found(&shape, &trial)[0].message,
        "1 message of 1,000 sent went to the dead-letter queue (not lost), each after 10 failed deliveries \
         (`queues.maximum_delivery_count`)"
    );
    assert_eq!(found(&shape, &trial)[0].severity, Severity::Failure);
    shape.pipeline.as_mut().expect("there is one").fails_on_purpose = true;
    assert_eq!(found(&shape, &trial)[0].severity, Severity::Warning);
    trial.delivery = Some(Delivery::default());
    assert_eq!(found(&shape, &trial), []);
}
