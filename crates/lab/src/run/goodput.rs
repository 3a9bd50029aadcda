//! Which part of what was carried is different events: one that is sent twice has come through once.
//!
//! The service and the pipeline count what they handle, repetitions included. Only the sink knows an event when it sees
//! it again. Its share of first arrivals, applied to their rates, makes the throughput.

use super::supervisor::{Running, Supervisor};
use crate::{
    results::Role,
    roles::protocol::{Edge, Outcome},
    verify::Delivery,
};

/// The share of first arrivals among those at the sinks with this instance, or at all of them: in the measured phase, or
/// in the whole trial if a sink was idle in that phase.
pub(super) fn first_arrivals(supervisor: &Supervisor, instance: Option<u32>) -> f64 {
    let sinks = supervisor.of(Role::Sink);
    let sinks = sinks.filter(|(member, _)| instance.is_none_or(|instance| instance == member.instance));
    let (mut phase, mut between_workers) = (Arrivals::default(), Arrivals::default());
    for (_, running) in sinks {
        let verdict = match &running.finished {
            Some(Outcome::Sink { delivery, .. }) => delivery.as_ref(),
            _ => None,
        };
        phase.add(Arrivals::of_phase(running).or_else(|| Some(Arrivals::of_trial(verdict?))));
        between_workers.add(verdict.map(Arrivals::between_workers));
    }
    phase.share_of_first() * between_workers.share_of_first()
}

/// Events that arrived.
#[derive(Debug, Clone, Copy, Default)]
struct Arrivals {
    all: u64,
    repeated: u64,
}

impl Arrivals {
    fn of_phase(running: &Running) -> Option<Self> {
        let counts = |edge| Some(running.marks.get(&edge)?.counters.sink()?.events);
        let (began, ended) = (counts(Edge::Begin)?, counts(Edge::End)?);
        Some(Self {
            all: ended.received.saturating_sub(began.received),
            repeated: ended.duplicated.saturating_sub(began.duplicated),
        })
    }

    const fn of_trial(verdict: &Delivery) -> Self {
        let own = verdict.counts.duplicated.saturating_sub(verdict.duplicated_between_workers);
        Self { all: verdict.counts.received, repeated: own }
    }

    /// What a worker of a sink took for new, and another one had seen. It shows only at the end, so that it is of the
    /// whole trial.
    const fn between_workers(verdict: &Delivery) -> Self {
        let Self { all, repeated } = Self::of_trial(verdict);
        Self { all: all.saturating_sub(repeated), repeated: verdict.duplicated_between_workers }
    }

    fn add(&mut self, other: Option<Self>) {
        let Self { all, repeated } = other.unwrap_or_default();
        self.all += all;
        self.repeated += repeated;
    }

    fn share_of_first(self) -> f64 {
        if self.repeated == 0 { 1.0 } else { self.all.saturating_sub(self.repeated) as f64 / self.all as f64 }
    }
}
