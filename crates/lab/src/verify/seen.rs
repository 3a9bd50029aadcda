//! Which sequence numbers of one stream have been seen: one bit each, in blocks that exist only where
//! something was seen.
//!
//! The memory is bounded by the plausible end of the stream (a bit per sequence number), and one
//! forged number costs one block, not everything below it.

use std::ops::Range;

/// The sequence numbers seen so far.
#[derive(Debug, Clone, Default)]
pub(super) struct Seen {
    blocks: Vec<Option<Box<Block>>>,
    count: u64,
}

impl Seen {
    /// Notes `sequence`. Returns whether it is seen for the first time.
    #[inline]
    pub(super) fn insert(&mut self, sequence: u32) -> bool {
        let index = sequence as usize / BLOCK_BITS;
        let Some(Some(block)) = self.blocks.get_mut(index) else {
            self.insert_into_new_block(sequence);
            return true;
        };
        let word = &mut block[sequence as usize % BLOCK_BITS / 64];
        let bit = 1 << (sequence % 64);
        let is_new = *word & bit == 0;
        *word |= bit;
        self.count += u64::from(is_new);
        is_new
    }

    /// How many different numbers have been seen.
    pub(super) const fn count(&self) -> u64 {
        self.count
    }

    pub(super) fn contains(&self, sequence: u32) -> bool {
        self.word(sequence as usize / 64) >> (sequence % 64) & 1 == 1
    }

    /// How many numbers of `range` have been seen.
    pub(super) fn count_in(&self, range: Range<u32>) -> u64 {
        let mut count = 0;
        for word in words_of(&range) {
            count += u64::from((self.word(word) & mask(word, &range)).count_ones());
        }
        count
    }

    /// Appends the numbers of `range` that have not been seen, as ranges, until `limit` of them are
    /// in `missing`.
    pub(super) fn missing_in(&self, range: Range<u32>, limit: usize, missing: &mut Vec<Range<u32>>) {
        let mut open: Option<u32> = None;
        for word in words_of(&range) {
            let wanted = mask(word, &range);
            let absent = !self.word(word) & wanted;
            if absent == 0 && open.is_none() {
                continue;
            }
            for bit in (0..64).filter(|bit| wanted >> bit & 1 == 1) {
                let sequence = (word * 64 + bit) as u32;
                match (absent >> bit & 1 == 1, open) {
                    (true, None) if missing.len() >= limit => return,
                    (true, None) => open = Some(sequence),
                    (false, Some(start)) => {
                        missing.push(start..sequence);
                        open = None;
                    }
                    _ => {}
                }
            }
        }
        if let Some(start) = open {
            missing.push(start..range.end);
        }
    }

    /// Adds everything that `other` has seen. Returns how many numbers both had seen.
    pub(super) fn merge(&mut self, other: Self) -> u64 {
        let mut in_both = 0;
        if self.blocks.len() < other.blocks.len() {
            self.blocks.resize_with(other.blocks.len(), || None);
        }
        for (own, others) in self.blocks.iter_mut().zip(other.blocks) {
            let Some(others) = others else { continue };
            match own {
                None => *own = Some(others),
                Some(own) => {
                    for (word, others) in own.iter_mut().zip(others.iter()) {
                        in_both += u64::from((*word & others).count_ones());
                        *word |= others;
                    }
                }
            }
        }
        self.count += other.count - in_both;
        in_both
    }

    #[cold]
    fn insert_into_new_block(&mut self, sequence: u32) {
        let index = sequence as usize / BLOCK_BITS;
        if self.blocks.len() <= index {
            self.blocks.resize_with(index + 1, || None);
        }
        let mut block = Box::new([0; BLOCK_BITS / 64]);
        block[sequence as usize % BLOCK_BITS / 64] = 1 << (sequence % 64);
        self.blocks[index] = Some(block);
        self.count += 1;
    }

    fn word(&self, word: usize) -> u64 {
        const WORDS: usize = BLOCK_BITS / 64;
        match self.blocks.get(word / WORDS) {
            Some(Some(block)) => block[word % WORDS],
            _ => 0,
        }
    }
}

type Block = [u64; BLOCK_BITS / 64];

/// 4 KiB per block: one page, and 32 streams' present blocks fit into the second-level cache.
const BLOCK_BITS: usize = 32_768;

fn words_of(range: &Range<u32>) -> Range<usize> {
    if range.is_empty() {
        return 0..0;
    }
    range.start as usize / 64..(range.end as usize).div_ceil(64)
}

/// The bits of `word` that belong to `range`.
fn mask(word: usize, range: &Range<u32>) -> u64 {
    let first = word as u64 * 64;
    let from = u64::from(range.start).saturating_sub(first).min(64);
    let to = u64::from(range.end).saturating_sub(first).min(64);
    let below = |bits: u64| {
        if bits == 64 { u64::MAX } else { (1 << bits) - 1 }
    };
    below(to) & !below(from)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn counts_and_gaps_are_those_of_a_plain_set(
            sequences in proptest::collection::vec(prop_oneof![0_u32..300, 32_700_u32..32_900], 0..300),
            others in proptest::collection::vec(0_u32..300, 0..100),
            start in 0_u32..320, length in 0_u32..400,
        ) {
            let mut seen = Seen::default();
            let mut model = BTreeSet::new();
            for &sequence in &sequences {
                prop_assert_eq!(seen.insert(sequence), model.insert(sequence));
            }
            let mut other = Seen::default();
            let mut other_model = BTreeSet::new();
            for &sequence in &others {
                prop_assert_eq!(other.insert(sequence), other_model.insert(sequence));
            }
            let in_both = model.intersection(&other_model).count() as u64;
            prop_assert_eq!(seen.merge(other), in_both);
            model.extend(other_model);
            prop_assert_eq!(seen.count(), model.len() as u64);

            let range = start..start + length;
            prop_assert_eq!(seen.count_in(range.clone()), model.range(range.clone()).count() as u64);
            prop_assert!(range.clone().all(|number| seen.contains(number) == model.contains(&number)));
            let mut missing = Vec::new();
            seen.missing_in(range.clone(), usize::MAX, &mut missing);
            let expected: Vec<_> = range.clone().filter(|number| !model.contains(number)).collect();
            prop_assert_eq!(missing.clone().into_iter().flatten().collect::<Vec<_>>(), expected);
            let mut first = Vec::new();
            seen.missing_in(range, 2, &mut first);
            prop_assert_eq!(&first[..], &missing[..missing.len().min(2)]);
        }
    }

    #[test]
    fn one_far_number_costs_one_block() {
        let mut seen = Seen::default();
        assert!(seen.insert(u32::MAX - 1));
        assert_eq!(seen.blocks.iter().flatten().count(), 1);
        assert_eq!(seen.count_in(0..u32::MAX), 1);
    }
}
