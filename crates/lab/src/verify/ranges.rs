//! A set of sequence numbers as ranges: what was acknowledged, in a handful of numbers.
//!
//! The acknowledgements of a stream arrive nearly in order, so the set is one range almost always and
//! grows at its end in constant time.

use std::ops::Range;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error as _};

/// Sequence numbers as sorted, disjoint, non-adjacent half-open ranges. As JSON:
/// `[[0, 128], [256, 300]]`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RangeSet {
    ranges: Vec<Range<u32>>,
}

impl RangeSet {
    /// The set without any number.
    #[must_use]
    pub const fn new() -> Self {
        Self { ranges: Vec::new() }
    }

    /// The ranges in ascending order; between any two of them at least one number is missing.
    pub fn iter(&self) -> impl Iterator<Item = Range<u32>> {
        self.ranges.iter().cloned()
    }

    /// How many numbers the set holds.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.ranges.iter().map(|range| u64::from(range.end - range.start)).sum()
    }

    /// How many numbers from 0 on are in the set without a gap.
    #[must_use]
    pub fn prefix(&self) -> u32 {
        match self.ranges.first() {
            Some(first) if first.start == 0 => first.end,
            _ => 0,
        }
    }

    /// Whether `number` is in the set.
    #[must_use]
    pub fn contains(&self, number: u32) -> bool {
        let following = self.ranges.partition_point(|range| range.end <= number);
        self.ranges.get(following).is_some_and(|range| range.start <= number)
    }

    /// Adds all numbers of `added`, some of which may be in the set already.
    pub fn insert(&mut self, added: Range<u32>) {
        if added.is_empty() {
            return;
        }
        if let Some(last) = self.ranges.last_mut()
            && last.end == added.start
        {
            last.end = added.end;
            return;
        }
        // Everything that overlaps or touches `added` melts into it.
        let first = self.ranges.partition_point(|range| range.end < added.start);
        let past = self.ranges.partition_point(|range| range.start <= added.end);
        let merged = match self.ranges.get(first..past) {
            Some([left, .., right]) => left.start.min(added.start)..right.end.max(added.end),
            Some([only]) => only.start.min(added.start)..only.end.max(added.end),
            _ => added,
        };
        self.ranges.splice(first..past, [merged]);
    }

    /// What is missing from the set below `end`, in ascending order.
    #[must_use]
    pub fn gaps_below(&self, end: u32) -> Vec<Range<u32>> {
        let mut gaps = Vec::new();
        let mut reached = 0;
        for range in &self.ranges {
            if range.start >= end {
                break;
            }
            if range.start > reached {
                gaps.push(reached..range.start);
            }
            reached = range.end;
        }
        if reached < end {
            gaps.push(reached..end);
        }
        gaps
    }
}

impl Serialize for RangeSet {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.ranges.iter().map(|range| (range.start, range.end)))
    }
}

impl<'de> Deserialize<'de> for RangeSet {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let pairs = Vec::<(u32, u32)>::deserialize(deserializer)?;
        let mut set = Self::new();
        for (start, end) in pairs {
            if start >= end || set.ranges.last().is_some_and(|last| last.end >= start) {
                return Err(D::Error::custom("ranges must be ascending, disjoint and not empty"));
            }
            set.ranges.push(start..end);
        }
        Ok(set)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn behaves_like_a_plain_set(
            inserts in proptest::collection::vec((0_u32..120, 0_u32..20), 0..40), end in 0_u32..160,
        ) {
            let mut set = RangeSet::new();
            let mut model = BTreeSet::new();
            for (start, length) in inserts {
                set.insert(start..start + length);
                model.extend(start..start + length);
            }
            prop_assert_eq!(set.iter().flatten().collect::<Vec<_>>(), model.iter().copied().collect::<Vec<_>>());
            prop_assert_eq!(set.count(), model.len() as u64);
            prop_assert_eq!(set.prefix(), (0..).find(|number| !model.contains(number)).unwrap_or(0));
            for number in 0..150 {
                prop_assert_eq!(set.contains(number), model.contains(&number));
            }
            let missing: Vec<_> = (0..end).filter(|number| !model.contains(number)).collect();
            prop_assert_eq!(set.gaps_below(end).into_iter().flatten().collect::<Vec<_>>(), missing);
            // Neighbours that touch are one range.
            let ranges: Vec<_> = set.iter().collect();
            prop_assert!(ranges.windows(2).all(|pair| pair[0].end < pair[1].start));
            let line = serde_json::to_string(&set).expect("serialises");
            prop_assert_eq!(serde_json::from_str::<RangeSet>(&line).expect("is read back"), set);
        }
    }

    #[test]
    fn ranges_out_of_order_are_refused() {
        for line in ["[[5,5]]", "[[5,4]]", "[[0,4],[4,5]]", "[[8,9],[0,4]]"] {
            assert!(serde_json::from_str::<RangeSet>(line).is_err(), "{line}");
        }
    }
}
