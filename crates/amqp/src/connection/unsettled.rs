//! The deliveries of a session that await an outcome.
//!
//! A session numbers its deliveries consecutively, so the map from id to state is
//! a ring: the oldest id that still waits, and a slot for each id after it. A
//! range disposition is then a walk over neighbouring slots.

use std::collections::VecDeque;

/// Slot of a delivery that is settled.
const VACANT: u32 = u32::MAX;

/// Which link each unsettled delivery belongs to.
#[derive(Debug, Default)]
pub(super) struct Unsettled {
    /// Id of the front slot.
    first: u32,
    /// Link index by id, [`VACANT`] where settled.
    slots: VecDeque<u32>,
}

impl Unsettled {
    /// Adds the delivery `id` of link `link`. Ids only ever grow; those left out were sent settled.
    #[inline]
    pub(super) fn push(&mut self, id: u32, link: u32) {
        if self.slots.is_empty() {
            self.first = id;
        }
        let gap = id.wrapping_sub(self.first) as usize - self.slots.len();
        if gap > 0 {
            self.slots.extend(std::iter::repeat_n(VACANT, gap));
        }
        self.slots.push_back(link);
    }

    /// Settles what is unsettled from `first` to `last`, and reports it as runs of consecutive ids.
    /// Ids that are not waiting, as a hostile range may have billions of, cost nothing.
    pub(super) fn settle(&mut self, first: u32, last: u32, mut run: impl FnMut(u32, u32)) {
        let length = self.slots.len() as i64;
        let from = i64::from(first.wrapping_sub(self.first).cast_signed()).max(0);
        let to = i64::from(last.wrapping_sub(self.first).cast_signed()).min(length - 1);
        let mut start = None;
        for index in from..=to {
            let slot = &mut self.slots[index as usize];
            if *slot == VACANT {
                if let Some(start) = start.take() {
                    run(
                        self.first.wrapping_add(start),
                        self.first.wrapping_add(index as u32 - 1),
                    );
                }
            } else {
                *slot = VACANT;
                start.get_or_insert(index as u32);
            }
        }
        if let Some(start) = start {
            run(
                self.first.wrapping_add(start),
                self.first.wrapping_add(to as u32),
            );
        }
        self.drop_settled_front();
    }

    /// Forgets the deliveries of a link that is gone.
    pub(super) fn forget(&mut self, link: u32) {
        for slot in &mut self.slots {
            if *slot == link {
                *slot = VACANT;
            }
        }
        self.drop_settled_front();
    }

    /// How many ids lie between the oldest and the newest unsettled delivery.
    pub(super) fn span(&self) -> usize {
        self.slots.len()
    }

    fn drop_settled_front(&mut self) {
        while self.slots.front() == Some(&VACANT) {
            self.slots.pop_front();
            self.first = self.first.wrapping_add(1);
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn settle(unsettled: &mut Unsettled, first: u32, last: u32) -> Vec<(u32, u32)> {
        let mut runs = Vec::new();
        unsettled.settle(first, last, |first, last| runs.push((first, last)));
        runs
    }

    #[test]
    fn a_range_settles_what_waits_in_it_and_nothing_twice() {
        let mut unsettled = Unsettled::default();
        for id in [10, 11, 13, 14] {
            unsettled.push(id, 0);
        }
        assert_eq!(settle(&mut unsettled, 11, 13), [(11, 11), (13, 13)]);
        assert_eq!(settle(&mut unsettled, 0, 100), [(10, 10), (14, 14)]);
        assert_eq!(settle(&mut unsettled, 0, 100), []);
        assert_eq!(unsettled.span(), 0);
    }

    #[test]
    fn ids_wrap_around() {
        let mut unsettled = Unsettled::default();
        for id in [u32::MAX - 1, u32::MAX, 0, 1] {
            unsettled.push(id, 0);
        }
        assert_eq!(settle(&mut unsettled, u32::MAX, 0), [(u32::MAX, 0)]);
        assert_eq!(
            settle(&mut unsettled, u32::MAX - 1, 1),
            [(u32::MAX - 1, u32::MAX - 1), (1, 1)]
        );
    }

    #[test]
    fn a_huge_range_costs_no_more_than_what_waits() {
        let mut unsettled = Unsettled::default();
        unsettled.push(5, 0);
        assert_eq!(settle(&mut unsettled, 6, 5u32.wrapping_sub(1)), []);
        assert_eq!(
            settle(&mut unsettled, 0, i32::MAX.cast_unsigned()),
            [(5, 5)]
        );
    }

    #[test]
    fn the_deliveries_of_a_detached_link_are_forgotten() {
        let mut unsettled = Unsettled::default();
        unsettled.push(0, 7);
        unsettled.push(1, 8);
        unsettled.push(2, 7);
        unsettled.forget(7);
        assert_eq!(settle(&mut unsettled, 0, 2), [(1, 1)]);
    }

    /// What the ring stands for: a map from id to link, ids counted without wrapping.
    #[derive(Debug, Default)]
    struct Model {
        waiting: std::collections::BTreeMap<u64, u32>,
    }

    #[derive(Debug, Clone)]
    enum Operation {
        Push { gap: u64, link: u32 },
        Settle { back: u64, count: u64 },
        Forget { link: u32 },
    }

    fn operation() -> impl Strategy<Value = Operation> {
        prop_oneof![
            4 => (prop_oneof![Just(0u64), 0u64..5], 0u32..3)
                .prop_map(|(gap, link)| Operation::Push { gap, link }),
            2 => (0u64..60, 0u64..60).prop_map(|(back, count)| Operation::Settle { back, count }),
            1 => (0u32..3).prop_map(|link| Operation::Forget { link }),
        ]
    }

    proptest! {
        #[test]
        fn the_ring_does_what_a_map_does(
            start in prop_oneof![Just(0u32), any::<u32>(), (u32::MAX - 100)..u32::MAX],
            operations in proptest::collection::vec(operation(), 0..120),
        ) {
            let wrapped = |id: u64| start.wrapping_add(id as u32);
            let (mut ring, mut model, mut next) = (Unsettled::default(), Model::default(), 0u64);
            for operation in operations {
                match operation {
                    Operation::Push { gap, link } => {
                        next += gap;
                        ring.push(wrapped(next), link);
                        model.waiting.insert(next, link);
                        next += 1;
                    }
                    Operation::Settle { back, count } => {
                        let first = next.saturating_sub(back);
                        let last = first + count;
                        let mut settled = Vec::new();
                        ring.settle(wrapped(first), wrapped(last), |first, last| {
                            let length = last.wrapping_sub(first);
                            settled.extend((0..=length).map(|offset| first.wrapping_add(offset)));
                        });
                        let expected: Vec<_> =
                            model.waiting.range(first..=last).map(|(id, _)| wrapped(*id)).collect();
                        prop_assert_eq!(settled, expected);
                        model.waiting.retain(|id, _| !(first..=last).contains(id));
                    }
                    Operation::Forget { link } => {
                        ring.forget(link);
                        model.waiting.retain(|_, found| *found != link);
                    }
                }
                let span = match (model.waiting.keys().next(), model.waiting.keys().next_back()) {
                    (Some(first), Some(last)) => (last - first + 1) as usize,
                    _ => 0,
                };
                prop_assert!(ring.span() >= span, "the span covers what waits");
                prop_assert_eq!(ring.span() == 0, span == 0, "nothing is kept for nothing");
            }
        }
    }
}
