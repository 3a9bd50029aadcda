//! CPU that is left over, and what it was that kept the relay from using it.

use super::*;
use crate::results::diagnosis::thresholds::LOW_CPU_PERCENT;
use crate::scenario::LoadMode;

/// A relay that used 40 % of its core.
fn idle(trial: &mut Trial, waiting_us: WaitingTimes) {
    trial.roles.insert(Role::Relay, usage(40.0));
    relay(trial).waiting_us = waiting_us;
}

/// For 60 % of the time because of one cause.
fn slept(cause: fn(&mut WaitingTimes) -> &mut u64) -> WaitingTimes {
    let mut waits = WaitingTimes::default();
    *cause(&mut waits) = 6_000_000;
    waits
}

fn what_is_waited_for(change: impl FnOnce(&mut Trial)) -> WaitingFor {
    match only(change) {
        Symptom::LowUtilisation { waiting_for, .. } => waiting_for,
        other => panic!("{other:?}"),
    }
}

#[test]
fn spare_cpu_is_a_symptom_only_while_there_is_more_to_carry() {
    let sends = slept(|waits| &mut waits.sends);
    let symptom = only(|trial| idle(trial, sends));
    assert_eq!(
        symptom.sentence(Noun::Events),
        "the relay used only 40.0 % of its CPU at 999,000 events/s; send-bound 60.0 % of the time: 512 events in flight per \
         partition, 1.00 ms per batch"
    );
    assert!(symptom.advice(Noun::Events).starts_with("raise `relay.prefetch` (512)"));
    let mut adaptive = shape();
    adaptive.pipeline.as_mut().expect("there is one").prefetch = None;
    let mut far = healthy();
    idle(&mut far, sends);
    let symptoms = examine(&adaptive, &MeasuredComponent::Relay, Role::Relay, &far, false);
    assert_eq!(symptoms[0].advice(Noun::Events), "add source or destination partitions");
    nothing(|trial| {
        idle(trial, sends);
        trial.roles.insert(Role::Relay, usage(LOW_CPU_PERCENT));
    });
    // An open load that is carried whole leaves CPU over, as it should.
    let mut open = healthy();
    idle(&mut open, sends);
    let shape = Shape { load: LoadMode::Open, ..shape() };
    let symptoms = |trial: &Trial| examine(&shape, &MeasuredComponent::Relay, Role::Relay, trial, false);
    assert_eq!(symptoms(&open), []);
    open.forwarded_per_s = Some(900_000.0);
    assert_eq!(symptoms(&open).len(), 1);
}

#[test]
fn what_a_relay_with_spare_cpu_waits_for_follows_from_how_it_slept() {
    let percent = 60.0;
    let source = slept(|waits| &mut waits.source);
    let lag_events = 2_000;
    assert_eq!(
        what_is_waited_for(|trial| idle(trial, source)),
        WaitingFor::Generator { percent, lag_events }
    );
    let lag_events = 1_000_000;
    assert_eq!(
        what_is_waited_for(|trial| {
            idle(trial, source);
            trial.intervals = intervals(lag_events);
        }),
        WaitingFor::Credit { percent, lag_events, ahead: Ahead::Events(512) }
    );
    let destination = slept(|waits| &mut waits.destination);
    assert_eq!(what_is_waited_for(|trial| idle(trial, destination)), WaitingFor::Destination { percent });
    let memory = slept(|waits| &mut waits.memory);
    assert_eq!(what_is_waited_for(|trial| idle(trial, memory)), WaitingFor::Memory { percent });
    let partitions = slept(|waits| &mut waits.partitions);
    assert_eq!(
        what_is_waited_for(|trial| {
            idle(trial, partitions);
            relay(trial).opened.rest = 7;
        }),
        WaitingFor::Partitions { percent, restarts: 7 }
    );
    assert_eq!(
        what_is_waited_for(|trial| {
            idle(trial, partitions);
            relay(trial).closed.checkpoint = 3;
        }),
        WaitingFor::Checkpoints { percent, closings: 3 }
    );
}

#[test]
fn a_relay_that_did_not_sleep_and_got_little_cpu_waited_for_a_core() {
    let sends = WaitingTimes { sends: 1_000_000, ..WaitingTimes::default() };
    assert_eq!(what_is_waited_for(|trial| idle(trial, sends)), WaitingFor::Core { runnable_percent: 90.0 });
}

#[test]
fn a_machine_or_a_service_that_is_used_up_is_what_the_relay_waits_for() {
    let sends = slept(|waits| &mut waits.sends);
    let waiting_for = what_is_waited_for(|trial| {
        idle(trial, sends);
        use_up_machine(trial);
    });
    assert!(matches!(waiting_for, WaitingFor::Machine { cores: 4.0, .. }), "{waiting_for:?}");
    let waiting_for = what_is_waited_for(|trial| {
        idle(trial, sends);
        trial.roles.insert(Role::Service, usage(99.0));
    });
    assert_eq!(waiting_for, WaitingFor::Service { cpu_percent: 99.0 });
}

#[test]
fn a_generator_that_never_got_ahead_explains_spare_cpu_only_of_a_relay_that_waited_for_it() {
    let limited = |trial: &mut Trial, waits| {
        idle(trial, waits);
        let kind = FindingKind::LimitedByGenerator;
        let finding = Finding::new(Severity::Warning, kind, "more could have been carried");
        trial.findings.push(finding);
    };
    nothing(|trial| limited(trial, slept(|waits| &mut waits.source)));
    let waiting_for = what_is_waited_for(|trial| limited(trial, slept(|waits| &mut waits.sends)));
    assert!(matches!(waiting_for, WaitingFor::Sends { .. }));
}
