//! The proof that every event arrived: once, in order, unharmed.
//!
//! The load writes streams. Every stream goes to one source partition and its events carry
//! consecutive sequence numbers. The sink shows each event that it receives to a [`StreamVerifier`],
//! which keeps one bit per event and one number per stream and destination partition. At the end
//! the load's acknowledgements ([`StreamSends`]) are compared with what was seen:
//!
//! | finding | meaning |
//! |---|---|
//! | lost | the service acknowledged it, the sink never saw it |
//! | unknown | sent, never acknowledged; whether it arrives proves nothing |
//! | duplicated | seen again |
//! | reordered | first seen at a destination partition after a later one of its stream |
//! | corrupted | no believable header, or a stream, sequence or instant that the run can't have |
//! | foreign | a whole header of another run |
//! | unexpected | seen, though the load says that it never sent it |
//! | misplaced | seen at a partition that it was not to go to, where that is known |
//!
//! An event that is delivered again goes back in its stream by nature, so a repetition counts as
//! duplicated, never as reordered.

mod instants;
mod ranges;
mod seen;

pub use ranges::RangeSet;

use serde::{Deserialize, Serialize};

use self::instants::PlannedInstants;
use self::seen::Seen;
use crate::load::LoadPlan;
use crate::payload::{Corrupted, Header};

/// What a run can contain: everything else is corrupted or foreign.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Expectation {
    /// The run whose events count.
    pub run: u8,
    /// How many streams the load writes.
    pub streams: u16,
    /// How many partitions the destination has.
    pub destinations: u16,
    /// The first sequence number that no stream can reach. Bounds the verifier's memory: one bit per
    /// stream and sequence number.
    pub sequence_end: u32,
    /// To which of the destination's partitions events are to go.
    #[serde(default)]
    pub placement: Placement,
}

/// To which partitions of the destination the events of a stream are to go.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Placement {
    /// To any: the pipeline decides.
    #[default]
    Anywhere,
    /// To the first so many.
    First(u16),
    /// To the one with the number of the source's partition, modulo `fan_out`. Stream `s` is in source partition
    /// `s mod sources`.
    Same {
        /// Partitions of the source.
        sources: u16,
        /// Partitions that are written.
        fan_out: u16,
    },
}

impl Placement {
    #[inline]
    const fn allows(self, stream: u16, destination: u16) -> bool {
        match self {
            Self::Anywhere => true,
            Self::First(fan_out) => destination < fan_out,
            Self::Same { sources, fan_out } => stream % sources % fan_out == destination,
        }
    }
}

/// What the load knows about one stream at its end.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StreamSends {
    /// Sequence numbers below this one were handed to the service's client.
    pub sent: u32,
    /// Those that the service acknowledged.
    pub acknowledged: RangeSet,
}

/// Watches the events of one run as a sink receives them.
#[derive(Debug, Clone)]
pub struct StreamVerifier {
    expectation: Expectation,
    streams: Vec<Seen>,
    /// Per stream and destination: one more than the highest sequence number seen there, 0 for none.
    reached: Vec<u32>,
    counts: Counts,
    /// The instants of an open load.
    instants: Option<PlannedInstants>,
}

/// What can be said while events still arrive.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Counts {
    /// Events of this run, repetitions included.
    pub received: u64,
    /// Repetitions.
    pub duplicated: u64,
    /// First sights behind a later event of the same stream.
    pub reordered: u64,
    /// Payloads without a believable header.
    pub corrupted: u64,
    /// Those of `corrupted` that have none at all.
    #[serde(default)]
    pub unidentified: u64,
    /// Events of another run.
    pub foreign: u64,
    /// Events at a partition that they were not to go to.
    #[serde(default)]
    pub misplaced: u64,
}

/// The verdict on a run.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Delivery {
    /// Events that the load handed to its client.
    pub sent: u64,
    /// Events that the service acknowledged to the load.
    pub acknowledged: u64,
    /// What the sink counted.
    pub counts: Counts,
    /// Different events that the sink saw.
    pub distinct: u64,
    /// Acknowledged and never seen.
    pub lost: u64,
    /// Sent and never acknowledged.
    pub unknown: u64,
    /// Those of `unknown` that were seen nevertheless.
    pub unknown_seen: u64,
    /// Seen, though never sent.
    pub unexpected: u64,
    /// Different events that are in the dead-letter queue of the source, where the sink looks into it. They are not lost.
    #[serde(default)]
    pub dead_lettered: u64,
    /// Repetitions that no worker of the sink could know: another one had seen the event.
    #[serde(default)]
    pub duplicated_between_workers: u64,
    /// Partitions of the destination at which events were seen for the first time.
    #[serde(default)]
    pub reached: u16,
    /// Where the first losses are; at most [`LOSS_EXAMPLES`].
    pub lost_examples: Vec<LostRange>,
}

impl std::ops::AddAssign for Counts {
    fn add_assign(&mut self, other: Self) {
        self.received += other.received;
        self.duplicated += other.duplicated;
        self.reordered += other.reordered;
        self.corrupted += other.corrupted;
        self.unidentified += other.unidentified;
        self.foreign += other.foreign;
        self.misplaced += other.misplaced;
    }
}

impl Delivery {
    /// Whether nothing was lost, reordered, corrupted or invented. Duplicates are allowed: delivery
    /// is at least once.
    #[must_use]
    pub const fn is_intact(&self) -> bool {
        self.lost == 0 && self.unexpected == 0 && self.counts.reordered == 0 && self.counts.corrupted == 0
    }
}

/// Neighbouring events of one stream that were lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LostRange {
    /// The stream.
    pub stream: u16,
    /// The first lost sequence number.
    pub first: u32,
    /// How many are lost from there on.
    pub count: u32,
}

impl StreamVerifier {
    /// A verifier that has seen nothing.
    #[must_use]
    pub fn new(expectation: Expectation) -> Self {
        let streams = usize::from(expectation.streams);
        Self {
            expectation,
            streams: vec![Seen::default(); streams],
            reached: vec![0; streams * usize::from(expectation.destinations)],
            counts: Counts::default(),
            instants: None,
        }
    }

    /// The same, which also holds each event's intended instant against the plan of the load, if that has a schedule.
    #[must_use]
    pub fn with_plan(self, plan: &LoadPlan) -> Self {
        Self { instants: PlannedInstants::of(plan), ..self }
    }

    /// Notes one event that was received from the destination partition `destination`: what parsing
    /// its payload gave. Returns its header when it is an event of this run that is seen for the first time, for the
    /// latency record: an event has one latency, however often it is delivered.
    ///
    /// # Panics
    /// When `destination` is not below the expected number: partitions are ours, not the peer's.
    #[inline]
    pub fn observe(&mut self, parsed: Result<Header, Corrupted>, destination: u16) -> Option<Header> {
        assert!(destination < self.expectation.destinations, "a partition of the destination");
        let header = match parsed {
            Ok(header) => header,
            Err(reason) => {
                self.counts.corrupted += 1;
                self.counts.unidentified += u64::from(reason.lacks_header());
                return None;
            }
        };
        if header.run != self.expectation.run {
            self.counts.foreign += 1;
            return None;
        }
        if header.stream >= self.expectation.streams || header.sequence >= self.expectation.sequence_end {
            self.counts.corrupted += 1;
            return None;
        }
        if self.instants.as_mut().is_some_and(|instants| !instants.has(header)) {
            self.counts.corrupted += 1;
            return None;
        }
        self.counts.received += 1;
        let is_placed = self.expectation.placement.allows(header.stream, destination);
        self.counts.misplaced += u64::from(!is_placed);
        let stream = usize::from(header.stream);
        if self.streams[stream].insert(header.sequence) {
            let reached = &mut self.reached
                [stream * usize::from(self.expectation.destinations) + usize::from(destination)];
            if header.sequence < *reached {
                self.counts.reordered += 1;
            } else {
                // Below the sequence's end, so one more still fits.
                *reached = header.sequence + 1;
            }
            Some(header)
        } else {
            self.counts.duplicated += 1;
            None
        }
    }

    /// Notes that it is known where an event is, though it was not received here: it does not count as lost any more.
    pub fn account_for(&mut self, stream: u16, sequence: u32) {
        if sequence < self.expectation.sequence_end
            && let Some(seen) = self.streams.get_mut(usize::from(stream))
        {
            seen.insert(sequence);
        }
    }

    /// The counts so far.
    #[must_use]
    pub const fn counts(&self) -> Counts {
        self.counts
    }

    /// How many different events have been seen.
    #[must_use]
    pub fn distinct(&self) -> u64 {
        self.streams.iter().map(Seen::count).sum()
    }

    /// Whether this event has been seen.
    #[must_use]
    pub fn has_seen(&self, stream: u16, sequence: u32) -> bool {
        self.streams.get(usize::from(stream)).is_some_and(|seen| seen.contains(sequence))
    }

    /// Adds what another sink of the same run saw. An event that both saw is a duplicate. Order is
    /// judged per destination partition, so each partition must belong to one of the two.
    ///
    /// # Panics
    /// When the two expect different things.
    pub fn merge(&mut self, other: Self) {
        assert_eq!(self.expectation, other.expectation, "both watch the same run");
        for (own, others) in self.streams.iter_mut().zip(other.streams) {
            self.counts.duplicated += own.merge(others);
        }
        for (own, others) in self.reached.iter_mut().zip(other.reached) {
            *own = (*own).max(others);
        }
        self.counts += other.counts;
    }

    /// How many acknowledged events have not been seen yet: 0 when the pipeline has drained.
    #[must_use]
    pub fn missing(&self, sends: &[StreamSends]) -> u64 {
        let acknowledged: u64 = sends.iter().map(|stream| stream.acknowledged.count()).sum();
        acknowledged - self.acknowledged_seen(sends)
    }

    /// How many acknowledged events have been seen. The figures of several sinks with partitions of their own add
    /// up.
    #[must_use]
    pub fn acknowledged_seen(&self, sends: &[StreamSends]) -> u64 {
        self.streams
            .iter()
            .zip(sends)
            .flat_map(|(seen, stream)| stream.acknowledged.iter().map(|range| seen.count_in(range)))
            .sum()
    }

    /// The verdict, given what the load did. `sends` holds one entry per stream, in their order;
    /// streams without an entry sent nothing.
    #[must_use]
    pub fn conclude(&self, sends: &[StreamSends]) -> Delivery {
        let sent: u64 = sends.iter().map(|stream| u64::from(stream.sent)).sum();
        let acknowledged: u64 = sends.iter().map(|stream| stream.acknowledged.count()).sum();
        let acknowledged_seen = self.acknowledged_seen(sends);
        let sent_seen: u64 =
            self.streams.iter().zip(sends).map(|(seen, stream)| seen.count_in(0..stream.sent)).sum();
        let distinct = self.distinct();
        Delivery {
            sent,
            acknowledged,
            counts: self.counts,
            distinct,
            lost: acknowledged - acknowledged_seen,
            unknown: sent.saturating_sub(acknowledged),
            unknown_seen: sent_seen.saturating_sub(acknowledged_seen),
            unexpected: distinct.saturating_sub(sent_seen),
            dead_lettered: 0,
            duplicated_between_workers: 0,
            reached: self.reached(),
            lost_examples: self.lost_examples(sends),
        }
    }

    fn reached(&self) -> u16 {
        let destinations = self.expectation.destinations;
        let streams = || self.reached.chunks(usize::from(destinations.max(1)));
        let is_reached = |at: &u16| streams().any(|stream| stream[usize::from(*at)] > 0);
        (0..destinations).filter(is_reached).count() as u16
    }

    fn lost_examples(&self, sends: &[StreamSends]) -> Vec<LostRange> {
        let mut examples = Vec::new();
        let mut missing = Vec::new();
        for (stream, (seen, sends)) in self.streams.iter().zip(sends).enumerate() {
            for acknowledged in sends.acknowledged.iter() {
                let left = LOSS_EXAMPLES - examples.len();
                seen.missing_in(acknowledged, left, &mut missing);
                examples.extend(missing.drain(..).map(|range| LostRange {
                    stream: stream as u16,
                    first: range.start,
                    count: range.end - range.start,
                }));
                if examples.len() >= LOSS_EXAMPLES {
                    return examples;
                }
            }
        }
        examples
    }
}

/// How many lost ranges a verdict names: enough to recognise a pattern, few enough to read.
pub const LOSS_EXAMPLES: usize = 16;

#[cfg(test)]
mod tests;
