//! The deliveries of a session that await an outcome.
//!
//! A session numbers its deliveries consecutively, so the map from id to state is a ring: the oldest id that still
//! waits, and a slot for each id after it. A range disposition is then a walk over neighbouring slots.
//!
//! ```text
//!  stragglers        ring, one slot per id
//!  {3, 17}           │ 40  ·  42 43  ·  ·  46 │
//! ```
//!
//! A delivery that waits for long would keep a slot for every one after it, so what falls too far behind becomes a
//! *straggler* in a tree. What is held is thus a small multiple of what waits, however long the session lives. A range
//! finds its stragglers without a look at the others, which may be as many as the peer lets wait.

use std::collections::{BTreeMap, VecDeque};
use std::ops::RangeInclusive;

/// What is to be remembered of each delivery that awaits an outcome, by its id on the session.
///
/// Also for applications that keep something of their own for each delivery that they sent.
#[derive(Debug)]
pub struct Unsettled<T> {
    /// Id of the front slot.
    first: u32,
    /// What waits, by id; nothing where it is settled.
    slots: VecDeque<Option<T>>,
    stragglers: BTreeMap<u32, T>,
}

impl<T> Default for Unsettled<T> {
    fn default() -> Self {
        Self { first: 0, slots: VecDeque::new(), stragglers: BTreeMap::new() }
    }
}

impl<T: Copy> Unsettled<T> {
    /// Adds the delivery `id`. Ids only ever grow; those left out were sent settled.
    #[inline]
    pub fn push(&mut self, id: u32, delivery: T) {
        if self.slots.is_empty() {
            self.first = id;
        }
        let gap = id.wrapping_sub(self.first) as usize - self.slots.len();
        if gap > 0 || self.slots.len() >= RING_MAX {
            self.make_room(id, gap);
        }
        self.slots.push_back(Some(delivery));
    }

    /// Adds deliveries with consecutive ids, the first of which is `first`.
    #[inline]
    pub fn extend(&mut self, first: u32, deliveries: impl ExactSizeIterator<Item = T>) {
        let follows = self.slots.is_empty() || first.wrapping_sub(self.first) as usize == self.slots.len();
        if follows && self.slots.len() + deliveries.len() <= RING_MAX {
            if self.slots.is_empty() {
                self.first = first;
            }
            return self.slots.extend(deliveries.map(Some));
        }
        for (place, delivery) in (0_u32..).zip(deliveries) {
            self.push(first.wrapping_add(place), delivery);
        }
    }

    /// Takes what waits from `first` to `last`, in the order of the ids. Ids that are not waiting, as a hostile range
    /// may have billions of, cost nothing.
    #[inline]
    pub fn take(&mut self, first: u32, last: u32, each: impl FnMut(u32, T)) {
        self.take_some(first, last, u32::MAX, each);
    }

    /// As [`take`](Self::take), but no more than `count`, which is not 0. Returns the id to go on from if there may be more.
    #[inline]
    pub fn take_some(
        &mut self,
        first: u32,
        last: u32,
        count: u32,
        mut each: impl FnMut(u32, T),
    ) -> Option<u32> {
        let mut left = count;
        if !self.stragglers.is_empty()
            && let Some(next) = self.take_stragglers(first, last, &mut left, &mut each)
        {
            return Some(next);
        }
        let length = self.slots.len() as i64;
        let from = i64::from(first.wrapping_sub(self.first).cast_signed()).max(0);
        let end = i64::from(last.wrapping_sub(self.first).cast_signed()).min(length - 1);
        let to = end.min(from + i64::from(left) - 1);
        let next = (to < end).then(|| self.first.wrapping_add(to as u32 + 1));
        if from == 0 && to >= 0 {
            // The oldest ones, as nearly always: they leave as they are taken.
            let first = self.first;
            self.first = first.wrapping_add(to as u32 + 1);
            for (place, slot) in (0_u32..).zip(self.slots.drain(..=to as usize)) {
                if let Some(delivery) = slot {
                    each(first.wrapping_add(place), delivery);
                }
            }
            self.drop_settled_front();
            return next;
        }
        for index in from..=to {
            if let Some(delivery) = self.slots[index as usize].take() {
                each(self.first.wrapping_add(index as u32), delivery);
            }
        }
        self.drop_settled_front();
        next
    }

    /// Calls `each` with the unsettled deliveries from `first` to `last`, in ascending order.
    pub fn look_at(&self, first: u32, last: u32, mut each: impl FnMut(u32, T)) {
        if last.wrapping_sub(first).cast_signed() < 0 {
            return;
        }
        let mut stragglers = |ids: RangeInclusive<u32>| {
            self.stragglers.range(ids).for_each(|(id, delivery)| each(*id, *delivery));
        };
        match first <= last {
            true => stragglers(first..=last),
            // Ids go on at 0 after the greatest one.
            false => {
                stragglers(first..=u32::MAX);
                stragglers(0..=last);
            }
        }
        let from = i64::from(first.wrapping_sub(self.first).cast_signed()).max(0);
        let to = i64::from(last.wrapping_sub(self.first).cast_signed()).min(self.slots.len() as i64 - 1);
        for index in from..=to {
            if let Some(delivery) = self.slots[index as usize] {
                each(self.first.wrapping_add(index as u32), delivery);
            }
        }
    }

    /// Reinserts a delivery that was taken out.
    pub fn put_back(&mut self, id: u32, delivery: T) {
        match self.slots.get_mut(id.wrapping_sub(self.first) as usize) {
            Some(slot) => *slot = Some(delivery),
            None => {
                self.stragglers.insert(id, delivery);
            }
        }
    }

    /// Forgets the deliveries that are not `wanted`: of a link that is gone.
    pub fn retain(&mut self, wanted: impl Fn(&T) -> bool) {
        for slot in &mut self.slots {
            slot.take_if(|delivery| !wanted(delivery));
        }
        self.stragglers.retain(|_id, delivery| wanted(delivery));
        self.drop_settled_front();
    }

    /// Gives back the memory that nothing needs now. The tree of the stragglers keeps none.
    pub fn shrink(&mut self) {
        self.slots.shrink_to_fit();
    }

    /// How many ids are kept a place for, whether they still wait or not.
    pub fn span(&self) -> usize {
        self.slots.len() + self.stragglers.len()
    }

    /// Fills the gap before `id`, and moves what is too far behind it to the stragglers.
    #[cold]
    fn make_room(&mut self, id: u32, gap: usize) {
        if self.slots.len() + gap >= RING_MAX {
            while let Some(slot) = self.slots.pop_front() {
                if let Some(delivery) = slot {
                    self.stragglers.insert(self.first, delivery);
                }
                self.first = self.first.wrapping_add(1);
                if self.slots.len() + gap <= RING_MAX / 2 {
                    break;
                }
            }
            self.drop_settled_front();
        }
        if self.slots.is_empty() {
            self.first = id;
            return;
        }
        let gap = id.wrapping_sub(self.first) as usize - self.slots.len();
        self.slots.extend(std::iter::repeat_n(None, gap));
    }

    /// Takes at most as many as are `left`, of which there is at least one. Returns the id to go on from if no more may be taken.
    #[cold]
    fn take_stragglers(
        &mut self,
        first: u32,
        last: u32,
        left: &mut u32,
        each: &mut impl FnMut(u32, T),
    ) -> Option<u32> {
        if last.wrapping_sub(first).cast_signed() < 0 {
            return None;
        }
        let mut latest = first;
        let mut take = |ids: RangeInclusive<u32>| {
            let taken = take_range(&mut self.stragglers, ids, *left, &mut |id, delivery| {
                latest = id;
                each(id, delivery);
            });
            *left -= taken;
        };
        match first <= last {
            true => take(first..=last),
            // Ids go on at 0 after the greatest one.
            false => {
                take(first..=u32::MAX);
                take(0..=last);
            }
        }
        (*left == 0 && latest != last).then(|| latest.wrapping_add(1))
    }

    #[inline]
    fn drop_settled_front(&mut self) {
        while let Some(None) = self.slots.front() {
            self.slots.pop_front();
            self.first = self.first.wrapping_add(1);
        }
    }
}

/// Takes up to `count` of what has an id of `ids`, in their order, and returns how many. What has others costs no more than the
/// way past it, down the tree.
fn take_range<Id: Ord, T>(
    stragglers: &mut BTreeMap<Id, T>,
    ids: RangeInclusive<Id>,
    count: u32,
    each: &mut impl FnMut(Id, T),
) -> u32 {
    let mut taken = 0;
    for (id, delivery) in stragglers.extract_if(ids, |_id, _delivery| true).take(count as usize) {
        each(id, delivery);
        taken += 1;
    }
    taken
}

/// Most slots of the ring: as many as come in some tenths of a second of the fastest session.
const RING_MAX: usize = 65_536;

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::cmp::Ordering;

    use proptest::prelude::*;

    use super::*;

    fn settle(unsettled: &mut Unsettled<u32>, first: u32, last: u32) -> Vec<u32> {
        let mut ids = Vec::new();
        unsettled.take(first, last, |id, _| ids.push(id));
        ids
    }

    #[test]
    fn a_range_settles_what_waits_in_it_and_nothing_twice() {
        let mut unsettled = Unsettled::default();
        for id in [10, 11, 13, 14] {
            unsettled.push(id, 0);
        }
        assert_eq!(settle(&mut unsettled, 11, 13), [11, 13]);
        assert_eq!(settle(&mut unsettled, 0, 100), [10, 14]);
        assert_eq!(settle(&mut unsettled, 0, 100), [0; 0]);
        assert_eq!(unsettled.span(), 0);
    }

    #[test]
    fn ids_wrap_around() {
        let mut unsettled = Unsettled::default();
        for id in [u32::MAX - 1, u32::MAX, 0, 1] {
            unsettled.push(id, 0);
        }
        assert_eq!(settle(&mut unsettled, u32::MAX, 0), [u32::MAX, 0]);
        assert_eq!(settle(&mut unsettled, u32::MAX - 1, 1), [u32::MAX - 1, 1]);
    }

    #[test]
    fn a_huge_range_costs_no_more_than_what_waits() {
        let mut unsettled = Unsettled::default();
        unsettled.push(5, 0);
        assert_eq!(settle(&mut unsettled, 6, 5u32.wrapping_sub(1)), [0; 0]);
        assert_eq!(settle(&mut unsettled, 0, i32::MAX.cast_unsigned()), [5]);
    }

    #[test]
    fn the_deliveries_of_a_detached_link_are_forgotten() {
        let mut unsettled = Unsettled::default();
        unsettled.push(0, 7);
        unsettled.push(1, 8);
        unsettled.push(2, 7);
        unsettled.retain(|link| *link != 7);
        assert_eq!(settle(&mut unsettled, 0, 2), [1]);
    }

    #[test]
    fn what_waits_for_long_keeps_no_place_for_all_that_came_after_it() {
        let mut unsettled = Unsettled::default();
        let start = u32::MAX - 10;
        unsettled.push(start, 9);
        for number in 1..10 * RING_MAX as u32 {
            let id = start.wrapping_add(number);
            unsettled.push(id, 0);
            assert_eq!(settle(&mut unsettled, id, id), [id]);
        }
        assert_eq!(unsettled.span(), 1);
        let later = start.wrapping_add(20 * RING_MAX as u32);
        unsettled.push(later, 9);
        assert_eq!(settle(&mut unsettled, start, later), [start, later]);
        assert_eq!(unsettled.span(), 0);
    }

    thread_local! {
        static COMPARISONS: Cell<usize> = const { Cell::new(0) };
    }

    /// An id that counts how often ids are compared.
    #[derive(Debug, PartialEq, Eq)]
    struct Counted(u32);

    impl Ord for Counted {
        fn cmp(&self, other: &Self) -> Ordering {
            COMPARISONS.set(COMPARISONS.get() + 1);
            self.0.cmp(&other.0)
        }
    }

    impl PartialOrd for Counted {
        fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
            Some(self.cmp(other))
        }
    }

    #[test]
    fn a_range_looks_at_no_stragglers_but_its_own() {
        let mut stragglers: BTreeMap<Counted, u32> =
            (0..100_000_u32).map(|number| (Counted(2 * number), number)).collect();
        // Two ways down a tree of at most six levels, with at most eleven ids in a node, and some to spare.
        let way = 2 * 6 * 11 + 10;
        for (first, last, count) in [
            (100_000, 100_008, 5),
            (100_000, 100_008, 0),
            (50_001, 50_001, 0),
            (0, 0, 1),
            (200_000, u32::MAX, 0),
        ] {
            COMPARISONS.set(0);
            let mut taken = 0;
            take_range(&mut stragglers, Counted(first)..=Counted(last), u32::MAX, &mut |_id, _number| {
                taken += 1
            });
            assert_eq!(taken, count);
            let comparisons = COMPARISONS.get();
            assert!(comparisons <= way + 2 * count, "{comparisons} comparisons for {first} to {last}");
        }
    }

    #[test]
    fn a_range_that_wraps_takes_its_stragglers_in_the_order_of_the_ids() {
        let mut unsettled = Unsettled::default();
        let start = u32::MAX - 2;
        for number in 0..6 {
            unsettled.push(start.wrapping_add(number), number);
        }
        unsettled.push(start.wrapping_add(3 * RING_MAX as u32), 6);
        assert_eq!(unsettled.stragglers.len(), 6);
        // It would end before it begins.
        assert_eq!(settle(&mut unsettled, 1, u32::MAX), [0; 0]);
        assert_eq!(settle(&mut unsettled, u32::MAX - 1, 1), [u32::MAX - 1, u32::MAX, 0, 1]);
        assert_eq!(settle(&mut unsettled, start, 2), [start, 2]);
        assert_eq!(unsettled.span(), 1);
    }

    /// What the ring stands for: a map from id to link, ids counted without wrapping.
    #[derive(Debug, Default)]
    struct Model {
        waiting: std::collections::BTreeMap<u64, u32>,
    }

    #[derive(Debug, Clone)]
    enum Operation {
        Push { gap: u64, link: u32 },
        Extend { gap: u64, count: u64, link: u32 },
        Burst { count: u64 },
        Settle { back: u64, count: u64, at_once: u32 },
        TakeAndPutBack { back: u64, count: u64 },
        Forget { link: u32 },
    }

    fn operation() -> impl Strategy<Value = Operation> {
        prop_oneof![
            4 => (prop_oneof![Just(0u64), 0u64..5], 0u32..3)
                .prop_map(|(gap, link)| Operation::Push { gap, link }),
            2 => (prop_oneof![Just(0u64), 0u64..5], 0u64..5, 0u32..3)
                .prop_map(|(gap, count, link)| Operation::Extend { gap, count, link }),
            1 => Just(Operation::Extend { gap: 0, count: 200, link: 0 }),
            1 => Just(Operation::Burst { count: RING_MAX as u64 / 3 }),
            2 => (0u64..60, 0u64..60, prop_oneof![Just(u32::MAX), 1u32..20])
                .prop_map(|(back, count, at_once)| Operation::Settle { back, count, at_once }),
            1 => (0u64..300_000, 0u64..100_000, prop_oneof![Just(u32::MAX), 100u32..10_000])
                .prop_map(|(back, count, at_once)| Operation::Settle { back, count, at_once }),
            1 => (0u64..60, 0u64..60).prop_map(|(back, count)| Operation::TakeAndPutBack { back, count }),
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
            let (mut ring, mut model, mut next) = (Unsettled::<u32>::default(), Model::default(), 0u64);
            for operation in operations {
                match operation {
                    Operation::Push { gap, link } => {
                        next += gap;
                        ring.push(wrapped(next), link);
                        model.waiting.insert(next, link);
                        next += 1;
                    }
                    Operation::Extend { gap, count, link } => {
                        next += gap;
                        ring.extend(wrapped(next), std::iter::repeat_n(link, count as usize));
                        model.waiting.extend((next..next + count).map(|id| (id, link)));
                        next += count;
                    }
                    // Deliveries that are settled as they come, so that what waits falls behind.
                    Operation::Burst { count } => {
                        ring.push(wrapped(next + count), 3);
                        ring.take(wrapped(next + count), wrapped(next + count), |_, _| {});
                        next += count + 1;
                    }
                    Operation::Settle { back, count, at_once } => {
                        let first = next.saturating_sub(back);
                        let last = first + count;
                        let mut settled = Vec::new();
                        let mut from = Some(wrapped(first));
                        while let Some(first) = from {
                            let before = settled.len();
                            from = ring.take_some(first, wrapped(last), at_once, |id, link| settled.push((id, link)));
                            prop_assert!(settled.len() - before <= at_once as usize);
                        }
                        let expected: Vec<_> =
                            model.waiting.range(first..=last).map(|(id, link)| (wrapped(*id), *link)).collect();
                        prop_assert_eq!(settled, expected);
                        model.waiting.retain(|id, _| !(first..=last).contains(id));
                    }
                    Operation::TakeAndPutBack { back, count } => {
                        let first = next.saturating_sub(back);
                        let (first, last) = (wrapped(first), wrapped(first + count));
                        let (mut seen, mut taken) = (Vec::new(), Vec::new());
                        ring.look_at(first, last, |id, link| seen.push((id, link)));
                        ring.take(first, last, |id, link| taken.push((id, link)));
                        prop_assert_eq!(&seen, &taken);
                        taken.iter().for_each(|(id, link)| ring.put_back(*id, *link));
                    }
                    Operation::Forget { link } => {
                        ring.retain(|found| *found != link);
                        model.waiting.retain(|_, found| *found != link);
                    }
                }
                let waiting = model.waiting.len();
                prop_assert!(ring.span() <= RING_MAX + waiting, "what is held is bounded by what waits");
                prop_assert_eq!(ring.span() == 0, waiting == 0, "nothing is kept for nothing");
            }
        }

        /// Many stragglers, across the end of the ids or not, are taken as if each of them were looked at.
        #[test]
        fn stragglers_are_those_whose_ids_lie_in_the_range(
            start in prop_oneof![any::<u32>(), (u32::MAX - 2_000)..u32::MAX],
            gaps in proptest::collection::vec(1u32..5, 1..500),
            ranges in proptest::collection::vec((0u32..2_500, 0u32..400), 1..40),
            at_once in prop_oneof![Just(u32::MAX), 1u32..50],
        ) {
            let mut unsettled = Unsettled::<u32>::default();
            let mut waiting: Vec<u32> = Vec::new();
            let mut id = start;
            for gap in gaps {
                id = id.wrapping_add(gap);
                unsettled.push(id, id ^ 1);
                waiting.push(id);
            }
            let far = id.wrapping_add(2 * RING_MAX as u32);
            unsettled.push(far, far ^ 1);
            waiting.push(far);
            prop_assert_eq!(unsettled.stragglers.len(), waiting.len() - 1);
            let ranges = ranges.into_iter().map(|(offset, count)| {
                let first = start.wrapping_add(offset);
                (first, first.wrapping_add(count))
            });
            // At last one that ends before it begins, and a huge one of all that is left.
            let ends = [(far.wrapping_add(1), start), (start.wrapping_sub(1 << 30), far)];
            for (first, last) in ranges.chain(ends) {
                let length = last.wrapping_sub(first);
                let is_meant = |id: &mut u32| length.cast_signed() >= 0 && id.wrapping_sub(first) <= length;
                let expected: Vec<_> = waiting.extract_if(.., is_meant).map(|id| (id, id ^ 1)).collect();
                let mut taken = Vec::new();
                let mut from = Some(first);
                while let Some(first) = from {
                    let before = taken.len();
                    from = unsettled.take_some(first, last, at_once, |id, delivery| taken.push((id, delivery)));
                    prop_assert!(taken.len() - before <= at_once as usize);
                }
                prop_assert_eq!(taken, expected);
            }
            prop_assert_eq!(unsettled.span(), 0);
        }
    }
}
