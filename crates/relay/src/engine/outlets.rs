//! The sinks of a relay. Every event goes to one destination of each sink, and is done with once all have accepted it.
//!
//! The destinations of all sinks are numbered through for the lanes. What a sink never changes is asked once, so that no
//! event costs a call.

use std::collections::VecDeque;
use std::ops::Range;

use connect::event::{Encoding, EventBatch};
use connect::service::ServiceError;
use connect::sink::{SendToken, SendUnit, Sink};

use super::RelayError;
use crate::options::RelayOptions;
use crate::regroup::{Group, Regroup};
use crate::route::Router;

/// All sinks of a relay, at least one.
#[derive(Debug)]
pub(super) struct Outlets {
    all: Vec<Outlet>,
    /// Whether every sink gives each send its outcome, so that none is given up here.
    end_sends: bool,
    /// Those that store later than they accept.
    late: Vec<u32>,
}

/// One of the sinks.
#[derive(Debug)]
pub(super) struct Outlet {
    pub(super) sink: Box<dyn Sink>,
    router: Router,
    regroup: Regroup,
    /// The number of its first destination among those of all sinks.
    pub(super) first_destination: u32,
    pub(super) unit: SendUnit,
    pub(super) by_key: bool,
    /// Sends that it was too busy for, in order.
    pub(super) blocked: VecDeque<SendToken>,
    /// Whether it failed as a whole.
    pub(super) failed: bool,
}

impl Outlets {
    pub(super) fn new(
        sinks: Vec<Box<dyn Sink>>,
        encoding: Encoding,
        options: &RelayOptions,
    ) -> Result<Self, RelayError> {
        if let Some(index) = sinks.iter().position(|sink| !sink.takes(encoding)) {
            return Err(RelayError::Encoding { index, encoding });
        }
        let most = sinks.iter().map(|sink| sink.destinations()).max().unwrap_or(0);
        if !(1..=most).contains(&options.fan_out) {
            return Err(RelayError::FanOut { fan_out: options.fan_out, destinations: most });
        }
        let mut first_destination = 0;
        let outlet = |sink: Box<dyn Sink>| {
            let fan_out = options.fan_out.min(sink.destinations());
            let outlet = Outlet {
                router: Router {
                    route: options.route,
                    fan_out,
                    seed: options.seed,
                    partitioner: sink.partitioner(),
                },
                regroup: Regroup::new(fan_out),
                first_destination,
                unit: sink.send_unit(),
                by_key: sink.sends_by_key(),
                blocked: VecDeque::new(),
                failed: false,
                sink,
            };
            first_destination += fan_out;
            outlet
        };
        let end_sends = sinks.iter().all(|sink| sink.ends_sends());
        let late =
            (0..).zip(&sinks).filter(|(_, sink)| sink.stores_later()).map(|(index, _)| index).collect();
        Ok(Self { all: sinks.into_iter().map(outlet).collect(), end_sends, late })
    }

    /// How many sinks there are.
    pub(super) fn len(&self) -> usize {
        self.all.len()
    }

    /// Whether every sink gives each send its outcome, however long that takes.
    pub(super) const fn end_sends(&self) -> bool {
        self.end_sends
    }

    /// The sinks that store later than they accept.
    pub(super) fn late(&self) -> &[u32] {
        &self.late
    }

    /// Whether a sink is one of those.
    #[inline]
    pub(super) fn is_late(&self, sink: u32) -> bool {
        self.late.contains(&sink)
    }

    /// The place of a sink where an event goes from one to the other: those that store later come first, since they get the events of a
    /// partition in order, whichever of them the others have accepted first.
    pub(super) fn turn(&self, sink: u32) -> u32 {
        let late_before = self.late.partition_point(|&late| late < sink) as u32;
        match self.is_late(sink) {
            true => late_before,
            // As many of them as come behind it are before it now.
            false => sink + self.late.len() as u32 - late_before,
        }
    }

    /// How many destinations events go to, those of all sinks together.
    pub(super) fn destinations(&self) -> u32 {
        self.all.iter().map(|outlet| outlet.router.fan_out).sum()
    }

    /// Whether any sink takes events of one key at a time.
    pub(super) fn any_by_key(&self) -> bool {
        self.all.iter().any(|outlet| outlet.by_key)
    }

    /// What one send is to be, for the sink that takes the least.
    pub(super) fn least_unit(&self) -> SendUnit {
        let by_event = self.all.iter().any(|outlet| outlet.unit == SendUnit::Event);
        if by_event { SendUnit::Event } else { SendUnit::Batch }
    }

    /// Whether sends wait for a sink that was too busy. No other is made before they are: each event needs all sinks, so
    /// the slowest sets the pace.
    pub(super) fn is_blocked(&self) -> bool {
        self.all.iter().any(|outlet| !outlet.blocked.is_empty())
    }

    /// Why one of the sinks can't send at present.
    pub(super) fn outage(&self) -> Option<&ServiceError> {
        self.all.iter().find_map(|outlet| outlet.sink.outage())
    }

    pub(super) fn get(&self, sink: u32) -> &Outlet {
        &self.all[sink as usize]
    }

    pub(super) fn get_mut(&mut self, sink: u32) -> &mut Outlet {
        &mut self.all[sink as usize]
    }

    /// Each with its number.
    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = (u32, &mut Outlet)> {
        (0..).zip(&mut self.all)
    }

    /// Those that have not failed.
    pub(super) fn into_healthy_sinks(self) -> impl Iterator<Item = Box<dyn Sink>> {
        self.all.into_iter().filter(|outlet| !outlet.failed).map(|outlet| outlet.sink)
    }
}

impl Outlet {
    /// The numbers of its destinations among those of all sinks.
    pub(super) fn destinations(&self) -> Range<u32> {
        self.first_destination..self.first_destination + self.router.fan_out
    }

    /// Adds the groups of a batch for this sink to those of the others. `destinations` is scratch.
    pub(super) fn group(
        &mut self,
        sink: u32,
        batch: &EventBatch,
        destinations: &mut Vec<u32>,
        order: &mut Vec<u32>,
        groups: &mut Vec<Group>,
    ) {
        self.router.assign(batch, destinations);
        self.regroup.group(destinations, sink, order, groups);
    }
}
