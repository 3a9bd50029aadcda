//! Each symptom is found in numbers that show it, and not in numbers that are only just in order.

mod limits;
mod outside;
mod ownership;
mod utilisation;
mod work;

use std::collections::BTreeMap;

use super::*;
use crate::results::fixture::{SECONDS, intervals, usage};
use crate::results::{
    BatchCounts, CheckpointCounts, CpuSampling, Delivery, EntityCounters, GeneratorHealth, LatencySummary,
    OwnershipActivity, RelayActivity, Role, RoleUsage, SendCounts, Shape, Size, SizeSummary, Stage, Trial,
    WaitingTimes, WholeTrial,
};

fn shape() -> Shape {
    Shape {
        pipeline: Some(PipelineShape {
            source: SourceShape::Log {
                partitions: 32,
                batch_events: 128,
                batch_wait_us: 10_000,
                in_flight: 1,
            },
            prefetch: Some(512),
            try_timeout_us: Some(60_000_000),
            fails_on_purpose: false,
            exactly_once: false,
            archiving: None,
        }),
        ..Shape::default()
    }
}

/// A role without a limit, on a machine of four cores.
fn unlimited(cores_used: f64) -> RoleUsage {
    RoleUsage {
        cpu_percent: cores_used / 4.0 * 100.0,
        cpu_seconds: cores_used * SECONDS as f64,
        limit: None,
        ..usage(0.0)
    }
}

fn times(count: u64, p50: u64, p99: u64) -> LatencySummary {
    LatencySummary {
        count,
        min: Some(1),
        mean: Some(p50 as f64),
        p50: Some(p50),
        p75: None,
        p95: None,
        p99: Some(p99),
        p999: None,
        max: Some(p99 * 2),
        negative: None,
        precision: None,
        direction: None,
    }
}

fn sizes(count: u64, mean: f64) -> BTreeMap<Size, SizeSummary> {
    let summary = SizeSummary { count, min: 1, mean, p50: None, p95: None, p99: None, max: 128 };
    BTreeMap::from([(Size::BatchEvents, summary)])
}

/// A trial in which nothing stands out: a relay at its core's limit with full batches.
fn healthy() -> Trial {
    Trial {
        number: 1,
        duration_s: SECONDS as f64,
        offered_per_s: Some(1_000_000.0),
        forwarded_per_s: Some(999_000.0),
        roles: BTreeMap::from([
            (Role::Relay, usage(97.0)),
            (Role::Service, unlimited(1.2)),
            (Role::Load, unlimited(0.3)),
        ]),
        stages: BTreeMap::from([
            (Stage::Send, times(10_000, 900, 4_000)),
            (Stage::BatchSend, times(1_000, 1_000, 5_000)),
            (Stage::Checkpoint, times(1_000, 200, 2_000)),
            (Stage::Ownership, times(1, 2_000, 2_000)),
        ]),
        delivery: Some(Delivery { sent: 10_000_000, received: Some(10_000_000), ..Delivery::default() }),
        hub: BTreeMap::from([(
            "source".to_owned(),
            EntityCounters { throttled: Some(0), ..EntityCounters::default() },
        )]),
        relay: Some(RelayActivity {
            instances: 1,
            watched_us: SECONDS * 1_000_000,
            batches: BatchCounts { received: 78_125, completed: 78_125, failed: 0 },
            sends: SendCounts { made: 2_500_000, ..SendCounts::default() },
            checkpoints: CheckpointCounts { written: 1_000, ..CheckpointCounts::default() },
            ownership: Some(OwnershipActivity {
                renew_us: 10_000_000,
                expire_us: 60_000_000,
                ..OwnershipActivity::default()
            }),
            sizes: sizes(78_125, 126.0),
            ..RelayActivity::default()
        }),
        generator: Some(GeneratorHealth { healthy: true, ..GeneratorHealth::default() }),
        intervals: intervals(2_000),
        ..Trial::default()
    }
}

fn relay(trial: &mut Trial) -> &mut RelayActivity {
    trial.relay.as_mut().expect("a trial of our own relay")
}

fn found(trial: &Trial) -> Vec<Symptom> {
    examine(&shape(), &MeasuredComponent::Relay, Role::Relay, trial, false)
}

/// The only symptom of a trial that was healthy before the change.
fn only(change: impl FnOnce(&mut Trial)) -> Symptom {
    let mut trial = healthy();
    change(&mut trial);
    let mut symptoms = found(&trial);
    assert_eq!(symptoms.len(), 1, "{symptoms:?}");
    symptoms.remove(0)
}

/// All roles together use up the four cores.
fn use_up_machine(trial: &mut Trial) {
    trial.roles.insert(Role::Service, unlimited(2.0));
    trial.roles.insert(Role::Load, unlimited(1.3));
}

fn nothing(change: impl FnOnce(&mut Trial)) {
    let mut trial = healthy();
    change(&mut trial);
    assert_eq!(found(&trial), []);
}

#[test]
fn nothing_stands_out_in_a_trial_that_is_in_order() {
    nothing(|_| {});
}

#[test]
fn sentences_and_advice_take_the_noun_of_what_is_carried() {
    let symptom = only(|trial| {
        relay(trial).sizes = sizes(500, 2.0);
        trial.intervals = intervals(1_000_000);
    });
    let finding = symptom.finding(Noun::Messages);
    assert_eq!(finding.message, "batches held 2.0 of 128 messages on average (1.6 % full)");
    assert!(finding.hint.is_some_and(|hint| hint.starts_with("messages were waiting: ")));
}

#[test]
fn an_interrupted_trial_has_no_figures_to_read() {
    nothing(|trial| {
        trial.interrupted = true;
        trial.roles.insert(Role::Relay, usage(1.0));
    });
}

#[test]
fn every_symptom_has_a_kind_of_its_own_and_an_advice() {
    let symptoms = [
        only(|trial| relay(trial).sizes = sizes(500, 2.0)),
        only(|trial| drop(trial.roles.insert(Role::Relay, usage(9.0)))),
        only(|trial| relay(trial).checkpoints.failed = 500),
    ];
    for symptom in symptoms {
        let advice = symptom.advice(Noun::Events);
        let finding = symptom.finding(Noun::Events);
        assert_eq!((finding.kind, finding.hint), (symptom.kind(), Some(advice)));
        assert!(!finding.message.ends_with('.'), "{}", finding.message);
    }
}
