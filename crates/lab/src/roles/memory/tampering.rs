//! Damage to single events on their way, with a tally of what was done.
//!
//! What happens to an event follows from the seed and from its place in the source alone, so that a test can tell
//! afterwards what must have been found.

use units::{mix, pick};

/// How much of what is done. The shares are drawn against one number per event, so no event suffers two things.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Tampering {
    /// Everything follows from it.
    pub seed: u64,
    /// The share of events that are forgotten.
    pub loss: f64,
    /// The share that is sent twice.
    pub duplicates: f64,
    /// The share that changes places with the next one of its stream and destination (as far as there is one in the
    /// same batch that suffers nothing).
    pub swaps: f64,
    /// The share of which one bit is flipped.
    pub flips: f64,
}

/// What was done.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Tally {
    /// Events that were forgotten, by source partition and sequence number.
    pub lost: Vec<(u32, i64)>,
    /// Events that were sent twice.
    pub duplicated: u64,
    /// Pairs that changed places.
    pub swapped: u64,
    /// Bits that were flipped.
    pub flipped: Vec<FlippedBit>,
}

/// A bit that is not what it was.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FlippedBit {
    /// The source partition of the event.
    pub partition: u32,
    /// Its sequence number there.
    pub sequence_number: i64,
    /// Which bit of its payload, the first being the highest of the first byte.
    pub bit: u32,
}

/// What happens to one event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Deed {
    Nothing,
    Lose,
    Duplicate,
    Swap,
    Flip { bit: u32 },
}

impl Tampering {
    /// What happens to an event with a payload of so many bytes.
    pub(super) fn deed(&self, partition: u32, sequence_number: i64, payload_len: usize) -> Deed {
        let place = (u64::from(partition), sequence_number as u64);
        let drawn = mix(self.seed, place.0, place.1);
        let share = (drawn >> 11) as f64 / (1_u64 << 53) as f64;
        let mut end = 0.0;
        let mut is_below = |part: f64| {
            end += part;
            share < end
        };
        if is_below(self.loss) {
            Deed::Lose
        } else if is_below(self.duplicates) {
            Deed::Duplicate
        } else if is_below(self.swaps) {
            Deed::Swap
        } else if is_below(self.flips) {
            let bits = u32::try_from(payload_len * 8).unwrap_or(u32::MAX);
            let bit = pick(mix(!self.seed, place.0, place.1), bits);
            Deed::Flip { bit }
        } else {
            Deed::Nothing
        }
    }
}
