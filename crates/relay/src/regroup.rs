//! The events of a batch, brought together by destination without moving one of them.
//!
//! ```text
//!   destinations of the events   2 0 2 2 0
//!   order (indices of events)    1 4 | 0 2 3       a stable counting sort
//!   groups                       {destination 0: 0..2} {destination 2: 2..5}
//! ```

/// Events of one batch that go to the same destination: a range of the order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Group {
    /// Where they go.
    pub destination: u32,
    /// The first position in the order.
    pub start: u32,
    /// One past the last position in the order.
    pub end: u32,
}

/// Regroups batches for a fixed number of destinations; keeps its scratch memory from batch to batch.
#[derive(Clone, Debug)]
pub struct Regroup {
    /// Per destination: the number of its events, then the position of its next one.
    cursors: Vec<u32>,
}

impl Regroup {
    /// For destinations below `fan_out`.
    #[must_use]
    pub fn new(fan_out: u32) -> Self {
        Self { cursors: vec![0; fan_out as usize] }
    }

    /// Sets `order` to the indices of the events, by destination and within it as they came, and `groups` to one range of
    /// it for each destination that has any.
    ///
    /// # Panics
    /// When a destination is not below the fan-out.
    pub fn group(&mut self, destinations: &[u32], order: &mut Vec<u32>, groups: &mut Vec<Group>) {
        order.clear();
        groups.clear();
        self.cursors.fill(0);
        for &destination in destinations {
            self.cursors[destination as usize] += 1;
        }
        let mut start = 0;
        for (destination, cursor) in (0..).zip(&mut self.cursors) {
            let count = std::mem::replace(cursor, start);
            if count > 0 {
                groups.push(Group { destination, start, end: start + count });
                start += count;
            }
        }
        order.resize(destinations.len(), 0);
        for (index, &destination) in (0..).zip(destinations) {
            let cursor = &mut self.cursors[destination as usize];
            order[*cursor as usize] = index;
            *cursor += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn group(fan_out: u32, destinations: &[u32]) -> (Vec<u32>, Vec<Group>) {
        let (mut order, mut groups) = (vec![77], vec![Group { destination: 7, start: 7, end: 7 }]);
        Regroup::new(fan_out).group(destinations, &mut order, &mut groups);
        (order, groups)
    }

    #[test]
    fn events_come_together_by_destination_in_their_order() {
        let (order, groups) = group(4, &[2, 0, 2, 2, 0]);
        assert_eq!(order, [1, 4, 0, 2, 3]);
        let group = |destination, start, end| Group { destination, start, end };
        assert_eq!(groups, [group(0, 0, 2), group(2, 2, 5)]);
    }

    #[test]
    fn no_events_make_no_groups() {
        assert_eq!(group(4, &[]), (vec![], vec![]));
    }

    proptest! {
        #[test]
        fn it_is_a_stable_sort(destinations in prop::collection::vec(0_u32..20, 0..300)) {
            let (order, groups) = group(20, &destinations);
            let mut expected: Vec<u32> = (0..destinations.len() as u32).collect();
            expected.sort_by_key(|&index| destinations[index as usize]);
            prop_assert_eq!(&order, &expected);
            let regrouped = groups.iter().flat_map(|group| {
                order[group.start as usize..group.end as usize].iter().map(|&index| (group.destination, index))
            });
            let expected = expected.iter().map(|&index| (destinations[index as usize], index));
            prop_assert_eq!(regrouped.collect::<Vec<_>>(), expected.collect::<Vec<_>>());
            prop_assert!(groups.iter().all(|group| group.start < group.end));
        }
    }
}
