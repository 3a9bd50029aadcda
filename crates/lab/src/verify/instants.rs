//! Whether events say the instants that the plan of an open load has for them.
//!
//! The plan is a pure function of seed, rate and streams; only its start is not known to a sink. It follows from the first event
//! that arrives, and every other event has to agree with it. So an intended instant that was changed on the way is found even
//! where the payload has no room for a checksum, and no latency is counted from it.

use std::collections::VecDeque;

use crate::clock::RunTime;
use crate::load::{LoadPlan, StreamPlan};
use crate::payload::Header;

/// The plan of an open load, as far as arrivals have shown its start.
#[derive(Debug, Clone)]
pub(super) struct PlannedInstants {
    plan: LoadPlan,
    /// Where the plan begins; None before the first event.
    start: Option<RunTime>,
    streams: Vec<Option<Follower>>,
}

/// The instants of one stream around those that arrive: the plan is followed in its order, and events come nearly in that.
#[derive(Debug, Clone)]
struct Follower {
    /// Yields the instant after the last of `recent`.
    ahead: StreamPlan,
    /// The latest instants, in microseconds.
    recent: VecDeque<u64>,
}

impl PlannedInstants {
    /// The schedule of `plan`; None for a load that has none.
    pub(super) fn of(plan: &LoadPlan) -> Option<Self> {
        StreamPlan::new(plan, 0, RunTime::EPOCH)?;
        Some(Self { plan: *plan, start: None, streams: vec![None; usize::from(plan.streams)] })
    }

    /// Whether the plan has this instant for the event. An event so far behind others of its stream that its instant is forgotten
    /// is believed.
    pub(super) fn has(&mut self, header: Header) -> bool {
        let intended = header.intended.as_micros();
        let stream = usize::from(header.stream);
        let Self { plan, start, streams } = self;
        let start = *start.get_or_insert_with(|| {
            let from_zero = StreamPlan::new(plan, header.stream, RunTime::EPOCH);
            let since_start = from_zero.map_or(0, |plan| instant_of(&plan, header.sequence));
            RunTime::from_micros(intended.saturating_sub(since_start))
        });
        let Some(slot) = streams.get_mut(stream) else {
            return true;
        };
        if slot.is_none() {
            *slot = Follower::new(plan, header.stream, start);
        }
        slot.as_mut().is_none_or(|follower| follower.has(header.sequence, intended))
    }
}

impl Follower {
    fn new(plan: &LoadPlan, stream: u16, start: RunTime) -> Option<Self> {
        Some(Self { ahead: StreamPlan::new(plan, stream, start)?, recent: VecDeque::new() })
    }

    fn has(&mut self, sequence: u32, intended_us: u64) -> bool {
        let agrees = |planned: u64| planned.abs_diff(intended_us) <= ROUNDING_US;
        if let Some(planned) = self.ahead.intended_of(sequence) {
            return agrees(planned.as_micros());
        }
        let Some(back) = self.ahead.sequence().checked_sub(sequence).filter(|back| *back > 0) else {
            // Only an event that the plan has leads on: a forged number would make all that are before it forgotten.
            let is_planned = agrees(instant_of(&self.ahead, sequence));
            if is_planned {
                self.follow_to(sequence);
            }
            return is_planned;
        };
        let index = self.recent.len().checked_sub(back as usize);
        index.and_then(|index| self.recent.get(index)).is_none_or(|planned| agrees(*planned))
    }

    fn follow_to(&mut self, sequence: u32) {
        while self.ahead.sequence() <= sequence {
            if self.recent.len() == REMEMBERED {
                self.recent.pop_front();
            }
            self.recent.push_back(self.ahead.intended().as_micros());
            self.ahead.advance();
        }
    }
}

/// The instant of an event that is not before the next one of the plan, in microseconds.
fn instant_of(plan: &StreamPlan, sequence: u32) -> u64 {
    if let Some(instant) = plan.intended_of(sequence) {
        return instant.as_micros();
    }
    let mut plan = plan.clone();
    while plan.sequence() < sequence {
        plan.advance();
    }
    plan.intended().as_micros()
}

/// Instants are whole microseconds, and their start is inferred from one of them.
const ROUNDING_US: u64 = 2;

/// Instants of a stream that are kept: events of several batches may overtake one another.
const REMEMBERED: usize = 8_192;

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use units::Rate;

    use super::*;
    use crate::load::{Arrivals, Lead, Pace};

    fn plan(arrivals: Arrivals) -> LoadPlan {
        let rate = |rate| Rate::per_second(rate).unwrap();
        // It ends between the first and the last of the events below.
        let lead = Some(Lead { rate: rate(70_000.0), length: Duration::from_millis(50) });
        let pace = Pace::Open { rate: rate(30_000.0), arrivals, lead };
        LoadPlan { seed: 5, streams: 4, batch: 10, in_flight: 1, pace }
    }

    /// The headers of some events of each stream, in an order in which they could arrive.
    fn headers(plan: &LoadPlan, start: u64) -> Vec<Header> {
        let stream = |stream: u16| {
            let mut events = StreamPlan::new(plan, stream, RunTime::from_micros(start)).unwrap();
            let header = move |_| {
                let header =
                    Header { run: 1, stream, sequence: events.sequence(), intended: events.intended() };
                events.advance();
                header
            };
            (0..5_000).map(header).collect::<Vec<_>>()
        };
        let mut all: Vec<Header> = (0..4).flat_map(stream).collect();
        all.sort_by_key(|header| (header.sequence / 300, header.stream, header.sequence % 7));
        all
    }

    #[test]
    fn the_plans_own_instants_agree_whenever_it_started_and_in_whatever_order_they_arrive() {
        for arrivals in [Arrivals::Constant, Arrivals::Poisson] {
            for start in [0, 1_234_567, 900_000_000_001] {
                let plan = plan(arrivals);
                let mut instants = PlannedInstants::of(&plan).unwrap();
                let wrong = headers(&plan, start).into_iter().filter(|header| !instants.has(*header)).count();
                assert_eq!(wrong, 0, "{arrivals:?} from {start}");
            }
        }
    }

    #[test]
    fn an_instant_that_was_changed_does_not() {
        for arrivals in [Arrivals::Constant, Arrivals::Poisson] {
            let plan = plan(arrivals);
            let mut instants = PlannedInstants::of(&plan).unwrap();
            for (index, header) in headers(&plan, 5_000_000).into_iter().enumerate() {
                let bit = 1 << (2 + index % 20);
                let changed = RunTime::from_micros(header.intended.as_micros() ^ bit);
                assert!(instants.has(header), "{arrivals:?}");
                assert!(!instants.has(Header { intended: changed, ..header }), "{arrivals:?}: bit {bit}");
            }
        }
    }

    #[test]
    fn a_load_without_a_schedule_has_none() {
        assert!(PlannedInstants::of(&LoadPlan { pace: Pace::Closed, ..plan(Arrivals::Constant) }).is_none());
    }
}
