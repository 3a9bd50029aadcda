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
    /// The sink that they go to.
    pub sink: u32,
    /// Its destination that they go to.
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

    /// Appends the indices of the events to `order`, by destination and within it as they came, and to `groups` one range
    /// of it for each destination of `sink` that has any.
    ///
    /// # Panics
    /// When a destination is not below the fan-out.
    pub fn group(&mut self, destinations: &[u32], sink: u32, order: &mut Vec<u32>, groups: &mut Vec<Group>) {
        self.cursors.fill(0);
        for &destination in destinations {
            self.cursors[destination as usize] += 1;
        }
        // Sinks times events of a batch, which are counted in 32 bits.
        let mut start = order.len() as u32;
        for (destination, cursor) in (0..).zip(&mut self.cursors) {
            let count = std::mem::replace(cursor, start);
            if count > 0 {
                groups.push(Group { sink, destination, start, end: start + count });
                start += count;
            }
        }
        order.resize(start as usize, 0);
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
        let (mut order, mut groups) = (Vec::new(), Vec::new());
        Regroup::new(fan_out).group(destinations, 0, &mut order, &mut groups);
        (order, groups)
    }

    #[test]
    fn events_come_together_by_destination_in_their_order() {
        let (order, groups) = group(4, &[2, 0, 2, 2, 0]);
        assert_eq!(order, [1, 4, 0, 2, 3]);
        let group = |destination, start, end| Group { sink: 0, destination, start, end };
        assert_eq!(groups, [group(0, 0, 2), group(2, 2, 5)]);
    }

    #[test]
    fn the_groups_of_another_sink_come_after_those_of_the_first() {
        let (mut order, mut groups) = (Vec::new(), Vec::new());
        Regroup::new(2).group(&[1, 0, 1], 0, &mut order, &mut groups);
        Regroup::new(3).group(&[2, 2, 0], 1, &mut order, &mut groups);
        assert_eq!(order, [1, 0, 2, 2, 0, 1]);
        let group = |sink, destination, start, end| Group { sink, destination, start, end };
        assert_eq!(groups, [group(0, 0, 0, 1), group(0, 1, 1, 3), group(1, 0, 3, 4), group(1, 2, 4, 6)]);
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
