//! The figures of what carries events: its own, or what can be known of it from the outside.
//!
//! A command in the relay's place tells nothing. What the service handed out of the source is what it *received*, what
//! the service accepted into the destination is what it *forwarded*. A service that is not ours tells nothing either;
//! then what reached the sink is all there is, and what was received stays unknown. How far a command has come is what
//! the sink saw of different events, since it may deliver one more than once. Where nothing is between load and sink,
//! the sink is all that can be ahead or behind. Of a consumer that forwards nothing, an event arrives at the sink when the
//! consumer has done it; of one that completes messages, the service counts those.

use super::{
    monitor::{rate_between, reading_sinks, relay_counters, service_counters, sink_counters, sinks_counters},
    plan::TrialPlan,
    supervisor::Supervisor,
};
use crate::{
    results::Role,
    roles::protocol::{Counted, Counters, RelayCounters},
    scenario::{Done, Topology},
};

/// Where the figures of the measured pipeline come from in a trial.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Pipeline {
    /// Our relay reports them. Its sends are those to all destinations together, so that what it forwarded is their mean.
    Ours {
        /// How many there are.
        destinations: u64,
    },
    /// A command between two entities of the embedded service, which tells them.
    Between(Ends),
    /// A command between two entities of a service that is not ours: the sink tells some of them.
    Unobserved,
    /// A consumer of a log that forwards nothing: the sink tells what it has done.
    Consumer,
    /// A consumer that completes messages and forwards nothing: the embedded service tells, under this address.
    Settling(String),
    /// There is none: the sink receives what the load sends.
    Absent,
}

/// The names of the entities of the embedded service between which a command is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Ends {
    source: String,
    destination: String,
}

impl Pipeline {
    pub(super) fn of(plan: &TrialPlan<'_>) -> Self {
        let ends = Ends::of(&plan.topology);
        if let (Some(done), Some(pipeline)) = (plan.done(), &plan.topology.pipeline) {
            return match done {
                Done::Settlement => Self::Settling(plan.topology.address(&pipeline.from)),
                Done::Checkpoint | Done::Line => Self::Consumer,
            };
        }
        match (ends, plan.is_external(), plan.is_embedded()) {
            (None, _, _) => Self::Absent,
            (Some(_), false, _) => Self::Ours { destinations: plan.topology.destinations().count() as u64 },
            (Some(ends), true, true) => Self::Between(ends),
            (Some(_), true, false) => Self::Unobserved,
        }
    }

    /// What it has done so far, as told last.
    pub(super) fn counters(&self, supervisor: &Supervisor) -> RelayCounters {
        let sink = sink_counters(supervisor);
        let (received, forwarded) = match self {
            Self::Ours { destinations } => {
                let relay = relay_counters(supervisor);
                let completed = match supervisor.has_killed(Role::Relay) {
                    false => relay.completed,
                    // What one of them had done at last, it did not tell any more. What has arrived is done.
                    true => reading_sinks(supervisor).map(|sink| sink.distinct).min().unwrap_or(0),
                };
                return RelayCounters { forwarded: relay.forwarded / destinations, completed, ..relay };
            }
            Self::Between(ends) => {
                let counters = service_counters(supervisor);
                let of = |name: &str| counters.get(name).copied().unwrap_or_default();
                (of(&ends.source).outgoing_events, of(&ends.destination).incoming_events)
            }
            Self::Settling(address) => {
                let counted = service_counters(supervisor).get(address).copied().unwrap_or_default();
                let (completed, missed) =
                    (counted.completed.unwrap_or(0), counted.dead_lettered.unwrap_or(0));
                let (received, forwarded) = (completed, completed);
                return RelayCounters { received, forwarded, completed, missed, ..RelayCounters::default() };
            }
            Self::Unobserved | Self::Consumer | Self::Absent => (sink.events.received, sink.events.received),
        };
        RelayCounters { received, forwarded, completed: sink.distinct, ..RelayCounters::default() }
    }

    /// Events received per second in the measured phase.
    pub(super) fn received_per_s(&self, supervisor: &Supervisor) -> Option<f64> {
        match self {
            Self::Ours { .. } => rate(supervisor, Role::Relay, |told| Some(told.relay()?.received)),
            Self::Between(ends) => rate(supervisor, Role::Service, |told| {
                Some(told.service()?.get(&ends.source)?.outgoing_events)
            }),
            Self::Unobserved | Self::Consumer | Self::Settling(_) | Self::Absent => None,
        }
    }

    /// Whether there is something that forwards events. What comes through is consumed otherwise.
    pub(super) const fn forwards(&self) -> bool {
        match self {
            Self::Ours { .. } | Self::Between(_) | Self::Unobserved => true,
            Self::Consumer | Self::Settling(_) | Self::Absent => false,
        }
    }

    /// Events that came through per second in the measured phase.
    pub(super) fn carried_per_s(&self, supervisor: &Supervisor) -> Option<f64> {
        rate(supervisor, self.teller(), |told| self.carried_in(told))
    }

    /// How many of so many acknowledged events have not come through yet, as soon as that is known.
    pub(super) fn missing(&self, supervisor: &Supervisor, acknowledged: u64) -> Option<u64> {
        match self {
            Self::Settling(_) => Some(acknowledged.saturating_sub(self.counters(supervisor).done())),
            _ => sinks_counters(supervisor).into_iter().map(|sink| sink.missing).sum(),
        }
    }

    /// Events that came through in the measured phase.
    pub(super) fn carried(&self, supervisor: &Supervisor) -> u64 {
        let of = |counted: &Counted| self.carried_in(&counted.counters).unwrap_or(0);
        let grown = headline_edges(supervisor, self.teller())
            .map(|(began, ended)| of(ended).saturating_sub(of(began)));
        grown.sum()
    }

    /// Who tells what came through.
    const fn teller(&self) -> Role {
        match self {
            Self::Ours { .. } => Role::Relay,
            Self::Between(_) | Self::Settling(_) => Role::Service,
            Self::Unobserved | Self::Consumer | Self::Absent => Role::Sink,
        }
    }

    /// What came through, of what that role tells: forwarded, or received by the sink, or done where nothing forwards it.
    fn carried_in(&self, told: &Counters) -> Option<u64> {
        Some(match self {
            Self::Ours { destinations } => told.relay()?.forwarded / destinations,
            Self::Between(ends) => told.service()?.get(&ends.destination)?.incoming_events,
            Self::Settling(address) => told.service()?.get(address)?.completed?,
            Self::Unobserved | Self::Consumer | Self::Absent => told.sink()?.events.received,
        })
    }
}

impl Ends {
    fn of(topology: &Topology) -> Option<Self> {
        let pipeline = topology.pipeline.as_ref()?;
        let written = topology.written_at(pipeline.to.first()?);
        Some(Self { source: topology.address(&pipeline.from), destination: written })
    }
}

/// The counters at both edges of the measured phase of a role's members whose figures are those of the case: all of
/// them, but the first sink alone.
fn headline_edges(supervisor: &Supervisor, role: Role) -> impl Iterator<Item = (&Counted, &Counted)> {
    supervisor.edges(role).take(if role == Role::Sink { 1 } else { usize::MAX })
}

/// How much a figure of a role grew per second in the measured phase, over all of its members together; of sinks it is
/// the first.
pub(super) fn rate(
    supervisor: &Supervisor,
    role: Role,
    figure: impl Fn(&Counters) -> Option<u64>,
) -> Option<f64> {
    let mut rates =
        headline_edges(supervisor, role).filter_map(|(began, ended)| rate_between(began, ended, &figure));
    let first = rates.next()?;
    Some(rates.fold(first, |sum, rate| sum + rate))
}
