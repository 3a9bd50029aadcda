//! What holds the batches of a producer with transactions back: a partition gets none before it is part of the transaction, and none
//! while that ends.

use std::sync::Arc;

/// See the module.
#[derive(Debug)]
pub(in crate::kafka::native) struct Gate {
    /// Whose transactions they are.
    pub(in crate::kafka::native) transactional_id: Arc<str>,
    /// Whether anything may leave at present.
    is_open: bool,
    partitions: Vec<Admission>,
    /// Partitions that have something to send, and are not part of the transaction.
    wanting: Vec<usize>,
}

/// How it stands with a partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Admission {
    Outside,
    /// It is to become part of the transaction.
    Asked,
    Inside,
}

impl Gate {
    /// For a topic with so many partitions. No transaction has begun.
    pub(super) fn new(transactional_id: Arc<str>, partitions: usize) -> Self {
        let partitions = vec![Admission::Outside; partitions];
        Self { transactional_id, is_open: true, partitions, wanting: Vec::new() }
    }

    /// Whether a batch may leave for a partition. If that has to become part of the transaction first, it is noted.
    #[inline]
    pub(in crate::kafka::native) fn lets_through(&mut self, partition: usize) -> bool {
        match self.partitions[partition] {
            Admission::Inside => self.is_open,
            Admission::Outside if self.is_open => {
                self.partitions[partition] = Admission::Asked;
                self.wanting.push(partition);
                false
            }
            Admission::Outside | Admission::Asked => false,
        }
    }

    /// The partitions that have to become part of the transaction.
    pub(super) fn take_wanting(&mut self) -> Vec<usize> {
        std::mem::take(&mut self.wanting)
    }

    /// These are part of the transaction.
    pub(super) fn admit(&mut self, partitions: &[usize]) {
        partitions.iter().for_each(|partition| self.partitions[*partition] = Admission::Inside);
    }

    /// Nothing leaves any more until the next transaction.
    pub(super) const fn close(&mut self) {
        self.is_open = false;
    }

    /// The transaction is over, and the next may begin.
    pub(super) fn begin_anew(&mut self) {
        self.is_open = true;
        self.partitions.fill(Admission::Outside);
        self.wanting.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_batch_leaves_once_its_partition_is_part_of_the_transaction_and_until_that_ends() {
        let mut gate = Gate::new("mover".into(), 3);
        assert!(!gate.lets_through(1) && !gate.lets_through(1) && !gate.lets_through(2));
        assert_eq!(gate.take_wanting(), [1, 2], "each is asked for once");
        gate.admit(&[1]);
        assert!(gate.lets_through(1) && !gate.lets_through(2));
        gate.close();
        assert!(!gate.lets_through(1) && !gate.lets_through(0));
        assert!(gate.take_wanting().is_empty(), "nothing becomes part of a transaction that ends");
        gate.begin_anew();
        assert!(!gate.lets_through(1), "the next transaction has no partitions yet");
        assert_eq!(gate.take_wanting(), [1]);
    }
}
