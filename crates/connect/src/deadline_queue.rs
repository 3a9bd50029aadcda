//! Deadlines that all lie equally far ahead when they are set, and so expire in the order in which they were set.
//!
//! Timeouts of sends and waits of batches are such. A list through an array of nodes then does what a timer wheel would:
//! setting, cancelling and finding the earliest take constant time, and there is no stale entry to sweep.

use std::time::Instant;

/// A first-in first-out queue of deadlines, each known by a small index of the user's choosing.
#[derive(Debug, Default)]
pub struct DeadlineQueue {
    nodes: Vec<Node>,
    first: Option<u32>,
    last: Option<u32>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Node {
    /// None while the index is not in the queue.
    deadline: Option<Instant>,
    previous: Option<u32>,
    next: Option<u32>,
}

impl DeadlineQueue {
    /// An empty queue.
    #[must_use]
    pub const fn new() -> Self {
        Self { nodes: Vec::new(), first: None, last: None }
    }

    /// Sets the deadline of `index`, which must not have one. Memory grows with the largest index used.
    ///
    /// # Panics
    /// When `index` has a deadline already.
    pub fn push(&mut self, index: u32, deadline: Instant) {
        let position = index as usize;
        if position >= self.nodes.len() {
            self.nodes.resize(position + 1, Node::default());
        }
        assert!(self.nodes[position].deadline.is_none(), "index {index} has a deadline already");
        let previous = self.last.replace(index);
        self.nodes[position] = Node { deadline: Some(deadline), previous, next: None };
        match previous {
            Some(previous) => self.nodes[previous as usize].next = Some(index),
            None => self.first = Some(index),
        }
    }

    /// Takes the deadline of `index` away; does nothing if it has none.
    pub fn remove(&mut self, index: u32) {
        let Some(node) = self.nodes.get_mut(index as usize) else {
            return;
        };
        let Node { deadline: Some(_), previous, next } = std::mem::take(node) else {
            return;
        };
        match previous {
            Some(previous) => self.nodes[previous as usize].next = next,
            None => self.first = next,
        }
        match next {
            Some(next) => self.nodes[next as usize].previous = previous,
            None => self.last = previous,
        }
    }

    /// The deadline of `index`, if it has one.
    #[must_use]
    pub fn deadline(&self, index: u32) -> Option<Instant> {
        self.nodes.get(index as usize)?.deadline
    }

    /// The earliest deadline.
    #[must_use]
    pub fn next_deadline(&self) -> Option<Instant> {
        self.nodes[self.first? as usize].deadline
    }

    /// Takes the earliest deadline out if it is due at `now`, and says whose it was.
    pub fn pop_due(&mut self, now: Instant) -> Option<u32> {
        let first = self.first?;
        if self.nodes[first as usize].deadline? > now {
            return None;
        }
        self.remove(first);
        Some(first)
    }

    /// Whether no deadline is set.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.first.is_none()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;
    use std::time::Duration;

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_deadline_is_due_at_its_instant_and_not_before() {
        let start = Instant::now();
        let mut queue = DeadlineQueue::new();
        queue.push(4, start + Duration::from_millis(5));
        assert_eq!(queue.deadline(4), Some(start + Duration::from_millis(5)));
        assert_eq!(queue.pop_due(start + Duration::from_micros(4_999)), None);
        assert_eq!(queue.pop_due(start + Duration::from_millis(5)), Some(4));
        assert_eq!((queue.deadline(4), queue.deadline(99)), (None, None));
        assert!(queue.is_empty());
    }

    #[test]
    #[should_panic(expected = "has a deadline already")]
    fn an_index_has_one_deadline() {
        let mut queue = DeadlineQueue::new();
        queue.push(0, Instant::now());
        queue.push(0, Instant::now());
    }

    proptest! {
        #[test]
        fn it_behaves_as_a_plain_queue_with_removal(operations in prop::collection::vec((0_u8..3, 0_u32..8), 0..200)) {
            let start = Instant::now();
            let mut queue = DeadlineQueue::new();
            let mut model: VecDeque<(u32, Instant)> = VecDeque::new();
            for (step, (operation, index)) in operations.into_iter().enumerate() {
                let now = start + Duration::from_millis(step as u64);
                match operation {
                    0 if model.iter().all(|&(other, _)| other != index) => {
                        queue.push(index, now + Duration::from_millis(10));
                        model.push_back((index, now + Duration::from_millis(10)));
                    }
                    1 => {
                        queue.remove(index);
                        model.retain(|&(other, _)| other != index);
                    }
                    _ => {
                        let due = model.pop_front_if(|&mut (_, deadline)| deadline <= now).map(|(index, _)| index);
                        prop_assert_eq!(queue.pop_due(now), due);
                    }
                }
                prop_assert_eq!(queue.next_deadline(), model.front().map(|&(_, deadline)| deadline));
                prop_assert_eq!(queue.is_empty(), model.is_empty());
            }
        }
    }
}
