//! Sizes of sends, counted on the hot path.
//!
//! A histogram takes some 75 instructions to record a value, and there are two of them for every send. A table takes
//! about 20; it is poured into the histograms when somebody asks.

use hdrhistogram::Histogram;

/// A table of counts by value, exact up to 255 and with 128 slots for each power of two above.
///
/// ```text
///   slot    0 … 255   256 … 383   384 … 511   …
///   value   0 … 255   256 … 511   512 … 1023  …
///   width      1          2           4
/// ```
#[derive(Debug)]
pub(crate) struct Tally {
    counts: Box<[u64; SLOTS]>,
}

impl Tally {
    pub(crate) fn new() -> Self {
        Self {
            counts: Box::new([0; SLOTS]),
        }
    }

    /// Counts one value; whatever is beyond 32 bits counts as the largest of them.
    #[inline]
    pub(crate) fn count(&mut self, value: usize) {
        self.counts[slot(value)] += 1;
    }

    /// Moves all counts into a histogram.
    pub(crate) fn pour_into(&mut self, histogram: &mut Histogram<u64>) {
        for (slot, count) in self.counts.iter_mut().enumerate() {
            if *count > 0 {
                histogram
                    .record_n(middle_of(slot), std::mem::take(count))
                    .expect("a histogram that may grow takes every value");
            }
        }
    }
}

#[inline]
fn slot(value: usize) -> usize {
    let value = u32::try_from(value).unwrap_or(u32::MAX);
    let shift = EXACT_BITS.abs_diff(u32::BITS - (value | EXACT_MAX).leading_zeros());
    ((shift as usize) << (EXACT_BITS - 1)) + (value >> shift) as usize
}

/// A value that a slot stands for: none in it is further away than half of its width.
fn middle_of(slot: usize) -> u64 {
    let shift = (slot >> (EXACT_BITS - 1)).saturating_sub(1);
    let first = (slot - (shift << (EXACT_BITS - 1))) << shift;
    (first + ((1 << shift) >> 1)) as u64
}

/// Values of so many bits have a slot each.
const EXACT_BITS: u32 = 8;
const EXACT_MAX: u32 = (1 << EXACT_BITS) - 1;

/// As many as the largest value of 32 bits needs.
const SLOTS: usize = ((u32::BITS - EXACT_BITS) as usize + 2) << (EXACT_BITS - 1);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_value_has_a_slot_that_stands_for_it_within_one_percent() {
        let powers = (0..=32).map(|bits| 1_u64 << bits);
        let values = powers.flat_map(|power| [power - 1, power, power + power / 3]);
        for value in values.map(|value| value.min(u64::from(u32::MAX))) {
            let slot = slot(value as usize);
            assert!(slot < SLOTS, "{value}");
            let error = middle_of(slot).abs_diff(value);
            assert!(error * 100 <= value, "{value}: {}", middle_of(slot));
            assert!(value > 255 || error == 0, "{value}");
        }
        assert_eq!(slot(usize::MAX), SLOTS - 1);
    }

    #[test]
    fn neighbours_have_the_same_slot_or_the_next() {
        let slots: Vec<usize> = (0..70_000).map(slot).collect();
        assert!(slots.windows(2).all(|pair| pair[1] - pair[0] <= 1));
    }

    #[test]
    fn what_is_counted_is_poured_once() {
        let mut tally = Tally::new();
        for value in [3, 3, 1_000] {
            tally.count(value);
        }
        let mut histogram = Histogram::new(2).expect("two digits");
        tally.pour_into(&mut histogram);
        tally.pour_into(&mut histogram);
        assert_eq!((histogram.len(), histogram.count_at(3)), (3, 2));
        assert!((990..=1_010).contains(&histogram.max()));
    }
}
