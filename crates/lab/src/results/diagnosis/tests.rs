//! Each symptom is found in numbers that show it, and not in numbers that are only just in order.

use std::collections::BTreeMap;

use serde_json::json;

use super::*;
use crate::results::{
    BatchCounts, CheckpointCounts, ClosingCounts, Delivery, GeneratorHealth, HubCounters, Interval,
    LatencySummary, Limit, LimitMechanism, OpeningCounts, OwnershipActivity, RelayActivity, Role,
    RoleUsage, SendCounts, Size, SizeSummary, Stage, Trial, WaitingTimes, WholeTrial,
};

const SECONDS: u64 = 10;

fn settings() -> Settings {
    Settings::of(&BTreeMap::from([
        ("load.mode".to_owned(), json!("saturate")),
        ("relay.batch.events".to_owned(), json!(128)),
        ("relay.batch.wait".to_owned(), json!("10 ms")),
        ("relay.prefetch".to_owned(), json!(512)),
        ("relay.in_flight".to_owned(), json!(1)),
        ("relay.try_timeout".to_owned(), json!("60 s")),
        ("hubs.source.partitions".to_owned(), json!(32)),
    ]))
}

fn usage(cpu_percent: f64) -> RoleUsage {
    RoleUsage {
        cpu_percent,
        cpu_seconds: cpu_percent / 100.0 * SECONDS as f64,
        memory_peak_bytes: 100 << 20,
        memory_average_bytes: None,
        per_million_events: None,
        limit: Some(Limit {
            mechanism: LimitMechanism::CgroupV2,
            cores: Some(1.0),
            memory_bytes: Some(1 << 30),
            note: None,
        }),
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
    }
}

fn sizes(count: u64, mean: f64) -> BTreeMap<Size, SizeSummary> {
    let summary = SizeSummary {
        count,
        min: 1,
        mean,
        p50: None,
        p95: None,
        p99: None,
        max: 128,
    };
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
            (Role::Hub, unlimited(1.2)),
            (Role::Load, unlimited(0.3)),
        ]),
        stages: BTreeMap::from([
            (Stage::Send, times(10_000, 900, 4_000)),
            (Stage::BatchSend, times(1_000, 1_000, 5_000)),
            (Stage::Checkpoint, times(1_000, 200, 2_000)),
            (Stage::Ownership, times(1, 2_000, 2_000)),
        ]),
        delivery: Some(Delivery {
            sent: 10_000_000,
            received: 10_000_000,
            ..Delivery::default()
        }),
        hub: BTreeMap::from([(
            "source".to_owned(),
            HubCounters {
                throttled: Some(0),
                ..HubCounters::default()
            },
        )]),
        relay: Some(RelayActivity {
            instances: 1,
            watched_us: SECONDS * 1_000_000,
            batches: BatchCounts {
                received: 78_125,
                completed: 78_125,
                failed: 0,
            },
            sends: SendCounts {
                made: 2_500_000,
                ..SendCounts::default()
            },
            checkpoints: CheckpointCounts {
                written: 1_000,
                ..CheckpointCounts::default()
            },
            ownership: Some(OwnershipActivity {
                renew_us: 10_000_000,
                expire_us: 60_000_000,
                ..OwnershipActivity::default()
            }),
            sizes: sizes(78_125, 126.0),
            ..RelayActivity::default()
        }),
        generator: Some(GeneratorHealth {
            healthy: true,
            late_events: None,
            never_sent_events: None,
            lateness_us: None,
            sink_lag_peak_events: None,
        }),
        intervals: intervals(2_000),
        ..Trial::default()
    }
}

fn intervals(lag_events: u64) -> Vec<Interval> {
    let interval = |second| Interval {
        at_s: second as f64,
        lag_events: Some(lag_events),
        ..Interval::default()
    };
    (1..=SECONDS).map(interval).collect()
}

fn relay(trial: &mut Trial) -> &mut RelayActivity {
    trial.relay.as_mut().expect("a trial of our own relay")
}

fn found(trial: &Trial) -> Vec<Symptom> {
    examine(&settings(), Role::Relay, trial)
}

/// The only symptom of a trial that was healthy before the change.
fn only(change: impl FnOnce(&mut Trial)) -> Symptom {
    let mut trial = healthy();
    change(&mut trial);
    let mut symptoms = found(&trial);
    assert_eq!(symptoms.len(), 1, "{symptoms:?}");
    symptoms.remove(0)
}

fn nothing(change: impl FnOnce(&mut Trial)) {
    let mut trial = healthy();
    change(&mut trial);
    assert_eq!(found(&trial), []);
}

/// A relay that used 40 % of its core and slept for 60 % of the time.
fn idle(trial: &mut Trial, waiting_us: WaitingTimes) {
    trial.roles.insert(Role::Relay, usage(40.0));
    relay(trial).waiting_us = waiting_us;
}

fn what_is_waited_for(change: impl FnOnce(&mut Trial)) -> WaitingFor {
    match only(change) {
        Symptom::LowUtilisation { waiting_for, .. } => waiting_for,
        other => panic!("{other:?}"),
    }
}

const SLEPT_US: u64 = 6_000_000;

#[test]
fn nothing_stands_out_in_a_trial_that_is_in_order() {
    nothing(|_| {});
}

#[test]
fn spare_cpu_is_a_symptom_only_while_there_is_more_to_carry() {
    let sends = WaitingTimes {
        sends: SLEPT_US,
        ..WaitingTimes::default()
    };
    let symptom = only(|trial| idle(trial, sends));
    assert_eq!(
        symptom.sentence(),
        "the relay used 40.0 % of its CPU and forwarded 999,000 events/s, with more to be carried: for 60.0 % of the time \
         it waited for sends, which take 1.00 ms per batch with at most 32 batches under way"
    );
    assert!(symptom.advice().starts_with("raise relay.in_flight"));
    nothing(|trial| {
        idle(trial, sends);
        trial.roles.insert(Role::Relay, usage(LOW_ENOUGH));
    });
    // An open load that is carried whole leaves CPU over, as it should.
    let mut open = healthy();
    idle(&mut open, sends);
    let settings = Settings {
        load_mode: Some("open".to_owned()),
        ..settings()
    };
    assert_eq!(examine(&settings, Role::Relay, &open), []);
    open.forwarded_per_s = Some(900_000.0);
    assert_eq!(examine(&settings, Role::Relay, &open).len(), 1);
}

/// The threshold itself is in order.
const LOW_ENOUGH: f64 = super::thresholds::LOW_CPU_PERCENT;

#[test]
fn what_a_relay_with_spare_cpu_waits_for_follows_from_how_it_slept() {
    let source = WaitingTimes {
        source: SLEPT_US,
        ..WaitingTimes::default()
    };
    assert_eq!(
        what_is_waited_for(|trial| idle(trial, source)),
        WaitingFor::Generator {
            percent: 60.0,
            lag_events: 2_000
        }
    );
    assert_eq!(
        what_is_waited_for(|trial| {
            idle(trial, source);
            trial.intervals = intervals(1_000_000);
        }),
        WaitingFor::Credit {
            percent: 60.0,
            lag_events: 1_000_000,
            prefetch: Some(512)
        }
    );
    assert_eq!(
        what_is_waited_for(|trial| {
            let destination = SLEPT_US;
            idle(
                trial,
                WaitingTimes {
                    destination,
                    ..WaitingTimes::default()
                },
            );
        }),
        WaitingFor::Destination { percent: 60.0 }
    );
    assert_eq!(
        what_is_waited_for(|trial| {
            let memory = SLEPT_US;
            idle(
                trial,
                WaitingTimes {
                    memory,
                    ..WaitingTimes::default()
                },
            );
        }),
        WaitingFor::Memory { percent: 60.0 }
    );
    let partitions = WaitingTimes {
        partitions: SLEPT_US,
        ..WaitingTimes::default()
    };
    assert_eq!(
        what_is_waited_for(|trial| {
            idle(trial, partitions);
            relay(trial).opened = OpeningCounts {
                start: 0,
                rest: 7,
                claim: 0,
            };
        }),
        WaitingFor::Partitions {
            percent: 60.0,
            restarts: 7
        }
    );
    assert_eq!(
        what_is_waited_for(|trial| {
            idle(trial, partitions);
            relay(trial).closed = ClosingCounts {
                checkpoint: 3,
                ..ClosingCounts::default()
            };
        }),
        WaitingFor::Checkpoints {
            percent: 60.0,
            closings: 3
        }
    );
}

#[test]
fn a_relay_that_did_not_sleep_and_got_little_cpu_waited_for_a_core() {
    let waiting_for = what_is_waited_for(|trial| {
        let sends = 1_000_000;
        idle(
            trial,
            WaitingTimes {
                sends,
                ..WaitingTimes::default()
            },
        );
    });
    assert_eq!(
        waiting_for,
        WaitingFor::Core {
            runnable_percent: 90.0
        }
    );
}

#[test]
fn a_machine_or_a_service_that_is_used_up_is_what_the_relay_waits_for() {
    let sends = WaitingTimes {
        sends: SLEPT_US,
        ..WaitingTimes::default()
    };
    let waiting_for = what_is_waited_for(|trial| {
        idle(trial, sends);
        trial.roles.insert(Role::Hub, unlimited(2.0));
        trial.roles.insert(Role::Load, unlimited(1.3));
    });
    assert!(
        matches!(waiting_for, WaitingFor::Machine { cores: 4.0, .. }),
        "{waiting_for:?}"
    );
    let waiting_for = what_is_waited_for(|trial| {
        idle(trial, sends);
        trial.roles.insert(Role::Hub, usage(99.0));
    });
    assert_eq!(waiting_for, WaitingFor::Service { cpu_percent: 99.0 });
}

#[test]
fn a_generator_that_never_got_ahead_explains_spare_cpu_only_of_a_relay_that_waited_for_it() {
    let limited = |trial: &mut Trial, waiting_us| {
        idle(trial, waiting_us);
        let kind = FindingKind::LimitedByGenerator;
        let finding = Finding::new(Severity::Warning, kind, "more could have been carried");
        trial.findings.push(finding);
    };
    nothing(|trial| {
        let source = SLEPT_US;
        limited(
            trial,
            WaitingTimes {
                source,
                ..WaitingTimes::default()
            },
        );
    });
    let waiting_for = what_is_waited_for(|trial| {
        let sends = SLEPT_US;
        limited(
            trial,
            WaitingTimes {
                sends,
                ..WaitingTimes::default()
            },
        );
    });
    assert!(matches!(waiting_for, WaitingFor::Sends { .. }));
}

#[test]
fn a_quota_is_named_with_its_figures_and_explains_spare_cpu() {
    let symptom = only(|trial| {
        idle(trial, WaitingTimes::default());
        let throttled = Some(1_200);
        let source = HubCounters {
            throttled,
            ..HubCounters::default()
        };
        trial.hub.insert("source".to_owned(), source);
        trial.hub.insert("other".to_owned(), HubCounters::default());
    });
    assert_eq!(
        symptom.sentence(),
        "the service throttled 1,200 sends in 10 s (source: 1,200): its quota limits the figures"
    );
}

#[test]
fn batches_that_are_far_from_full_are_named_with_the_setting_that_ends_them() {
    let symptom = only(|trial| relay(trial).sizes = sizes(78_125, 31.0));
    assert_eq!(
        symptom.sentence(),
        "batches had 31.0 of 128 events on average (24.2 % full)"
    );
    assert!(symptom.advice().contains("relay.batch.wait (10 ms)"));
    let symptom = only(|trial| {
        relay(trial).sizes = sizes(78_125, 31.0);
        trial.intervals = intervals(1_000_000);
    });
    assert!(symptom.advice().contains("relay.prefetch"));
    nothing(|trial| relay(trial).sizes = sizes(78_125, 64.0));
    nothing(|trial| relay(trial).sizes = sizes(99, 3.0));
}

#[test]
fn a_long_tail_of_sends_is_one_that_chance_does_not_explain() {
    let symptom = only(|trial| {
        trial
            .stages
            .insert(Stage::Send, times(10_000, 900, 400_000));
    });
    assert_eq!(
        symptom.sentence(),
        "one send in a hundred took 400 ms or more, 444 times as long as the median of 900 µs"
    );
    assert!(symptom.advice().contains("relay.try_timeout (60 s)"));
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
            relay(trial).sends = SendCounts {
                made: 10_000,
                failed,
                timed_out: 3,
                ..SendCounts::default()
            };
        }
    };
    assert_eq!(
        only(failing(100)).sentence(),
        "100 of 10,000 sends failed (1.0 %), 3 of them without an outcome in time"
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
        only(failing(0)).sentence(),
        "5 of 78,130 batches failed, and partitions stood still until they were opened again 5 times"
    );
    nothing(failing(5));
}

#[test]
fn checkpoints_are_slow_against_the_renewal_of_claims_at_the_same_store() {
    let symptom = only(|trial| {
        trial
            .stages
            .insert(Stage::Checkpoint, times(1_000, 100_000, 2_500_000));
    });
    assert_eq!(
        symptom.sentence(),
        "one request in a hundred to the checkpoint store took 2.50 s or more, and claims are renewed there every 10.0 s \
         and expire after 60.0 s"
    );
    nothing(|trial| {
        trial
            .stages
            .insert(Stage::Checkpoint, times(1_000, 100_000, 2_499_999));
    });
    only(|trial| {
        trial
            .stages
            .insert(Stage::Ownership, times(6, 1_000_000, 5_000_000));
    });
    // Nobody shares the partitions, so nothing is to be renewed.
    nothing(|trial| {
        relay(trial).ownership = None;
        trial
            .stages
            .insert(Stage::Checkpoint, times(1_000, 100_000, 2_500_000));
    });
}

#[test]
fn checkpoints_that_fail_are_a_symptom_from_one_in_a_hundred_on() {
    let failing = |failed| {
        move |trial: &mut Trial| {
            let written = 1_000 - failed;
            relay(trial).checkpoints = CheckpointCounts {
                written,
                failed,
                refused: 0,
            };
        }
    };
    assert_eq!(
        only(failing(10)).sentence(),
        "10 of 1,000 checkpoints could not be written (1.0 %)"
    );
    nothing(failing(9));
}

#[test]
fn memory_is_near_its_limit_from_nine_tenths_on() {
    let holding = |peak: u64| {
        move |trial: &mut Trial| {
            let usage = trial.roles.get_mut(&Role::Relay).expect("it is measured");
            usage.memory_peak_bytes = peak;
        }
    };
    assert_eq!(
        only(holding(1_000 << 20)).sentence(),
        "memory reached 1000 MiB of 1.00 GiB (97.7 %)"
    );
    nothing(holding(900 << 20));
    nothing(|trial| {
        let usage = trial.roles.get_mut(&Role::Relay).expect("it is measured");
        usage.memory_peak_bytes = 8 << 30;
        usage.limit = None;
    });
}

#[test]
fn duplicates_are_laid_to_a_loss_of_ownership_only_if_there_was_one() {
    let duplicated = |lost_partitions| {
        move |trial: &mut Trial| {
            let delivery = trial.delivery.as_mut().expect("events were counted");
            delivery.duplicated = 384;
            relay(trial).whole_trial = WholeTrial {
                lost_partitions,
                ..WholeTrial::default()
            };
        }
    };
    assert_eq!(
        only(duplicated(3)).sentence(),
        "384 events came more than once, and 3 partitions changed hands while their batches were under way"
    );
    nothing(duplicated(0));
    nothing(|trial| relay(trial).whole_trial.lost_partitions = 3);
}

#[test]
fn a_generator_that_fell_behind_makes_the_figures_void() {
    let unhealthy = |trial: &mut Trial| {
        let health = trial.generator.as_mut().expect("there was one");
        (health.healthy, health.late_events) = (false, Some(48_113));
    };
    let symptom = only(unhealthy);
    assert_eq!(symptom.severity(), Severity::Invalid);
    assert!(symptom.sentence().contains("48,113 events too late"));
    // The runner has said so, with its reason.
    nothing(|trial| {
        unhealthy(trial);
        let finding = Finding::new(Severity::Invalid, FindingKind::GeneratorOverloaded, "late");
        trial.findings.push(finding);
    });
}

#[test]
fn of_a_system_that_is_seen_only_from_the_outside_nothing_is_guessed() {
    let outside = |trial: &mut Trial| {
        trial.relay = None;
        trial.stages.clear();
        trial.intervals.clear();
    };
    nothing(outside);
    let waiting_for = what_is_waited_for(|trial| {
        outside(trial);
        trial.roles.insert(Role::Relay, usage(40.0));
    });
    assert_eq!(waiting_for, WaitingFor::Unknown);
    // Duplicates without a cause that is known.
    nothing(|trial| {
        outside(trial);
        trial
            .delivery
            .as_mut()
            .expect("events were counted")
            .duplicated = 99;
    });
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
        only(|trial| {
            trial
                .roles
                .insert(Role::Relay, usage(9.0))
                .map_or((), |_| ())
        }),
        only(|trial| relay(trial).checkpoints.failed = 500),
    ];
    for symptom in symptoms {
        let advice = symptom.advice();
        let finding = Finding::from(symptom.clone());
        assert_eq!((finding.kind, finding.hint), (symptom.kind(), Some(advice)));
        assert!(!finding.message.ends_with('.'), "{}", finding.message);
    }
}
