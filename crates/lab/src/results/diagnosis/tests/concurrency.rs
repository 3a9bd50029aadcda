//! Between queues: whether places for messages are what bounds the rate.

use super::*;
use crate::results::occupancy::tests::{settings, stages};

fn between_queues(threads: u64) -> Settings {
    settings(&[
        ("load.mode", json!("saturate")),
        ("queues.source.name", json!("in")),
        ("relay.concurrency", json!(8)),
        ("relay.threads", json!(threads)),
        ("relay.prefetch", json!(0)),
    ])
}

/// Eight places, each taken for 6 ms: 1,333 messages/s can pass.
fn trial(received_per_s: f64) -> Trial {
    let mut trial = healthy();
    trial.roles.insert(Role::Relay, usage(5.0));
    trial.stages = stages(&[
        (Stage::Process, 2_000.0),
        (Stage::BatchSend, 2_000.0),
        (Stage::Send, 2_000.0),
        (Stage::Settle, 2_000.0),
        (Stage::Vacant, 2_000.0),
    ]);
    relay(&mut trial).waiting_us.source = SECONDS * 950_000;
    trial.received_per_s = Some(received_per_s);
    trial.forwarded_per_s = Some(received_per_s);
    trial
}

fn kinds(threads: u64, subject: &Subject, trial: &Trial) -> Vec<FindingKind> {
    let found = examine(&between_queues(threads), subject, Role::Relay, trial);
    found.iter().map(Symptom::kind).collect()
}

#[test]
fn places_that_account_for_what_passed_are_the_bound_and_nothing_else_is_said() {
    let trial = trial(1_300.0);
    let found = examine(&between_queues(20), &Subject::Relay, Role::Relay, &trial);
    assert_eq!(found.len(), 1, "{found:?}");
    assert_eq!(
        found[0].sentence(),
        "concurrency is the bound: the relay works on 8 messages at once, and each takes its place for 6.00 ms (2.00 ms until \
         its forwarding was accepted, 2.00 ms until its completion was confirmed, 2.00 ms until the next one was there); by \
         Little's law 8 / 6.00 ms = 1,333 messages/s expected, 1,300 measured (2.5 % off)"
    );
    assert!(found[0].advice().contains("relay.concurrency"));
}

#[test]
fn a_core_a_machine_or_a_lack_of_messages_is_a_bound_of_its_own() {
    let bound = |change: fn(&mut Trial)| {
        let mut trial = trial(1_300.0);
        change(&mut trial);
        let kinds = kinds(20, &Subject::Relay, &trial);
        kinds.contains(&FindingKind::LimitedByConcurrency)
    };
    assert!(bound(|_| {}));
    assert!(!bound(|trial| drop(trial.roles.insert(Role::Relay, usage(96.0)))));
    assert!(!bound(|trial| trial.other_cpu_seconds = Some(30.0)), "others use the machine up");
    assert!(!bound(|trial| trial.intervals = intervals(3)), "fewer messages than places");
    assert!(!bound(|trial| trial.received_per_s = Some(1_000.0)), "it does not add up");
}

#[test]
fn of_another_system_it_is_only_said_what_would_follow() {
    let mine = Subject::Other("mine".to_owned());
    let mut idle = trial(250.0);
    idle.relay = None;
    let found = examine(&between_queues(4), &mine, Role::Relay, &idle);
    assert_eq!(
        found[0].sentence(),
        "concurrency may be the bound: mine used 5.0 % of its CPU; if it has 4 threads for 8 messages at once all the time, by \
         Little's law 4 / 250 messages/s = 16.0 ms for each"
    );
    assert_eq!(found[0].advice(), "raise relay.threads above relay.concurrency");
    idle.roles.insert(Role::Relay, usage(75.0));
    assert_eq!(kinds(4, &mine, &idle), []);
}
