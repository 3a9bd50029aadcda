//! What the lab found, held against what must have happened.

use std::time::Duration;

use super::saboteur::{EVERY, Fault, Tally};
use super::{Check, Subject};
use crate::figure::{count, duration_us};
use crate::results::{Case, Delivery, FindingKind, Role, Status};

/// The damage that was counted is the damage that was done, and nothing else was found.
pub(super) fn fault(fault: Fault, tally: Option<Tally>, case: &Case) -> Check {
    let name = Subject::Fault(fault).name();
    let (Some(tally), Some(delivery)) = (tally, &case.delivery) else {
        return Check {
            name,
            expected: "an account of the damage".to_owned(),
            observed: failure(case),
            passed: false,
        };
    };
    let expected = Damage::done(fault, tally);
    let observed = Damage::found(delivery);
    let is_noticed = match fault {
        Fault::None => case.status != Status::Failed,
        Fault::OnePartition => case.status == Status::Failed && case.has(FindingKind::FewPartitions),
        // Delivery is at least once, and a command promises no order.
        Fault::Duplicate => case.has(FindingKind::EventsDuplicated),
        Fault::Swap => case.has(FindingKind::EventsReordered),
        Fault::Drop | Fault::Flip | Fault::Foreign | Fault::WrongPartition => case.status == Status::Failed,
    };
    // A saboteur that never got an event of that number would prove nothing.
    let has_happened = tally.received >= EVERY && (tally.done > 0 || fault == Fault::None);
    Check {
        name,
        expected: format!("{}, {}", expected.text(), verdict(fault)),
        observed: format!("{}, {}", observed.text(), case.status.name()),
        passed: expected == observed && is_noticed && has_happened,
    }
}

const fn verdict(fault: Fault) -> &'static str {
    match fault {
        Fault::None => "passed",
        Fault::Duplicate => "passed with a warning",
        Fault::Swap => "passed with a note",
        Fault::Drop | Fault::Flip | Fault::Foreign | Fault::WrongPartition => "failed",
        Fault::OnePartition => "failed: 1 of 4 partitions",
    }
}

/// Of `r` events per second, those that were due `t` into a pause `P` arrive at least `P - t` later: in a phase of `3 P` a quarter
/// of all events takes longer than `P / 4`.
pub(super) fn stopped(role: Role, pause: Option<Duration>, case: &Case) -> Check {
    let name = Subject::Stopped(role).name();
    let latency = case.latency_us.as_ref();
    let (Some(pause), Some(latency), Some(delivery)) = (pause, latency, &case.delivery) else {
        return Check {
            name,
            expected: "latencies of a pause".to_owned(),
            observed: failure(case),
            passed: false,
        };
    };
    let pause_us = pause.as_secs_f64() * 1e6;
    let (longest, quarter) = (pause_us * (1.0 - TOLERANCE), pause_us / 4.0 * (1.0 - 2.0 * TOLERANCE));
    let is_late = |figure: Option<u64>, least: f64| figure.is_some_and(|figure| figure as f64 >= least);
    // Pauses of service and pipeline are what is measured; those of the lab's own ends are its fault.
    let status = match role {
        Role::Load | Role::Sink => Status::Invalid,
        Role::Service | Role::Relay => Status::Passed,
    };
    // A generator that has to share the machine is late for another reason.
    let is_shared = case.has(FindingKind::MachineShared);
    let text =
        |figure: Option<u64>| figure.map_or_else(|| "none".to_owned(), |figure| duration_us(figure as f64));
    Check {
        name,
        expected: format!(
            "max at least {}, p75 at least {}, 0 lost, {}",
            duration_us(longest),
            duration_us(quarter),
            status.name()
        ),
        observed: format!(
            "max {}, p75 {}, {} lost, {}",
            text(latency.max),
            text(latency.p75),
            count(delivery.lost),
            case.status.name()
        ),
        passed: is_late(latency.max, longest)
            && is_late(latency.p75, quarter)
            && delivery.lost == 0
            && (case.status == status || (case.status == Status::Invalid && is_shared)),
    }
}

/// What the case says in place of figures.
fn failure(case: &Case) -> String {
    let first = case.findings.first().map(|finding| finding.message.clone());
    format!("{}: {}", case.status.name(), first.unwrap_or_else(|| "no figures".to_owned()))
}

/// Counts of damage.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Damage {
    lost: u64,
    corrupted: u64,
    duplicated: u64,
    reordered: u64,
    foreign: u64,
    misplaced: u64,
    unexpected: u64,
}

impl Damage {
    fn done(fault: Fault, tally: Tally) -> Self {
        let done = tally.done;
        match fault {
            Fault::None => Self::default(),
            Fault::WrongPartition | Fault::OnePartition => Self { misplaced: done, ..Self::default() },
            Fault::Drop => Self { lost: done, ..Self::default() },
            Fault::Duplicate => Self { duplicated: done, ..Self::default() },
            // Which event a corrupted one was is unknown, so that one is missing as well.
            Fault::Flip => Self { corrupted: done, lost: done, ..Self::default() },
            Fault::Swap => Self { reordered: done, ..Self::default() },
            Fault::Foreign => Self { foreign: done, ..Self::default() },
        }
    }

    fn found(delivery: &Delivery) -> Self {
        Self {
            lost: delivery.lost,
            corrupted: delivery.corrupted.unwrap_or(0),
            duplicated: delivery.duplicated.unwrap_or(0),
            reordered: delivery.reordered.unwrap_or(0),
            foreign: delivery.foreign.unwrap_or(0),
            misplaced: delivery.misplaced.unwrap_or(0),
            unexpected: delivery.unexpected.unwrap_or(0),
        }
    }

    fn text(self) -> String {
        let all = [
            (self.lost, "lost"),
            (self.corrupted, "corrupted"),
            (self.duplicated, "duplicated"),
            (self.reordered, "reordered"),
            (self.foreign, "foreign"),
            (self.misplaced, "misplaced"),
            (self.unexpected, "unexpected"),
        ];
        let some: Vec<String> = all
            .iter()
            .filter(|(found, _)| *found > 0)
            .map(|(found, kind)| format!("{} {kind}", count(*found)))
            .collect();
        if some.is_empty() { "no damage".to_owned() } else { some.join(", ") }
    }
}

/// The phase begins and ends a little earlier or later than half a pause before and after, and histograms have buckets.
const TOLERANCE: f64 = 0.05;
