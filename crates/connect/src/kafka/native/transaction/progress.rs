//! How far each partition of the source has come: what the transaction has of it, and what has committed.
//!
//! A partition has one send here at a time, and each begins behind the one that committed before it. Whatever would break that is
//! refused, since it would commit an event twice, or an offset in front of an event that is not there.
//!
//! ```text
//!   committed          ├── given: one send ──┤
//!   … 117 118 119 │120 121 122 … 139 140│      next: 120, or 141 once the transaction has committed
//! ```

use std::collections::HashMap;

use crate::event::PartitionId;
use crate::sink::SendToken;

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Progress {
    partitions: HashMap<PartitionId, Reached>,
    /// Which partition a send is of that has no outcome.
    of_sends: HashMap<SendToken, PartitionId>,
    /// Partitions of which the brokers have the send.
    acknowledged: Vec<PartitionId>,
}

#[derive(Debug, Default)]
struct Reached {
    /// The first offset that has not committed, as far as it is known here.
    next: i64,
    given: Option<Given>,
}

#[derive(Clone, Copy, Debug)]
struct Given {
    token: SendToken,
    /// One more than the offset of its last event.
    end: i64,
}

/// Why a send is not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum OutOfTurn {
    /// The transaction has a send of the same partition.
    #[error(
        "offset {first} of partition {partition} comes while the transaction has other events of the partition"
    )]
    Early {
        /// Of the source.
        partition: PartitionId,
        /// Of the first event.
        first: i64,
    },
    /// It has committed.
    #[error(
        "offset {first} of partition {partition} comes again, although all before {next} have committed; if the topic of the source \
         was created anew, start the relay again"
    )]
    Again {
        /// Of the source.
        partition: PartitionId,
        /// Of the first event.
        first: i64,
        /// The first one that has not.
        next: i64,
    },
}

impl Progress {
    /// Whether a send may be taken whose events have offsets from `first` on.
    pub(super) fn check(&self, partition: PartitionId, first: i64) -> Result<(), OutOfTurn> {
        match self.partitions.get(&partition) {
            Some(Reached { given: Some(_), .. }) => Err(OutOfTurn::Early { partition, first }),
            Some(&Reached { next, given: None }) if first < next => {
                Err(OutOfTurn::Again { partition, first, next })
            }
            Some(_) | None => Ok(()),
        }
    }

    /// A send was taken, up to this offset.
    pub(super) fn give(&mut self, token: SendToken, partition: PartitionId, last: i64) {
        let given = Given { token, end: last.saturating_add(1) };
        self.partitions.entry(partition).or_default().given = Some(given);
        self.of_sends.insert(token, partition);
    }

    /// The brokers have a send.
    pub(super) fn acknowledge(&mut self, token: SendToken) {
        self.acknowledged.extend(self.of_sends.get(&token));
    }

    /// Whether there is something that could commit.
    pub(super) fn has_acknowledged(&self) -> bool {
        !self.acknowledged.is_empty()
    }

    /// What goes with the transaction: each partition, and the offset that is next in it.
    pub(super) fn offsets(&self) -> Vec<(PartitionId, i64)> {
        let end = |partition: &PartitionId| Some((*partition, self.partitions.get(partition)?.given?.end));
        let mut offsets: Vec<_> = self.acknowledged.iter().filter_map(end).collect();
        offsets.sort_unstable();
        offsets
    }

    /// The transaction has committed. Gives its sends.
    pub(super) fn commit(&mut self) -> Vec<SendToken> {
        let mut committed = Vec::with_capacity(self.acknowledged.len());
        for partition in std::mem::take(&mut self.acknowledged) {
            let reached = self.partitions.entry(partition).or_default();
            if let Some(Given { token, end }) = reached.given.take() {
                reached.next = end;
                self.of_sends.remove(&token);
                committed.push(token);
            }
        }
        committed
    }

    /// The transaction was aborted, and what waited behind it is given up. Gives all sends.
    pub(super) fn abort(&mut self) -> Vec<SendToken> {
        self.acknowledged.clear();
        self.partitions.values_mut().for_each(|reached| reached.given = None);
        let mut aborted: Vec<_> = self.of_sends.drain().collect();
        aborted.sort_unstable_by_key(|(token, partition)| (*partition, token.0));
        aborted.into_iter().map(|(token, _)| token).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: PartitionId = PartitionId(1);
    const TWO: PartitionId = PartitionId(2);

    fn give(progress: &mut Progress, token: u64, partition: PartitionId, first: i64, last: i64) {
        assert_eq!(progress.check(partition, first), Ok(()));
        progress.give(SendToken(token), partition, last);
    }

    #[test]
    fn what_the_brokers_have_commits_and_the_rest_stays() {
        let mut progress = Progress::default();
        give(&mut progress, 7, TWO, 5, 9);
        give(&mut progress, 8, ONE, 0, 3);
        assert!(!progress.has_acknowledged());
        progress.acknowledge(SendToken(7));
        assert_eq!(progress.offsets(), [(TWO, 10)]);
        assert_eq!(progress.commit(), [SendToken(7)]);
        assert!(!progress.has_acknowledged());
        progress.acknowledge(SendToken(8));
        give(&mut progress, 9, TWO, 10, 10);
        assert_eq!(progress.offsets(), [(ONE, 4)]);
        assert_eq!(progress.abort(), [SendToken(8), SendToken(9)]);
    }

    #[test]
    fn nothing_commits_twice_and_nothing_is_overtaken() {
        let mut progress = Progress::default();
        give(&mut progress, 1, ONE, 0, 9);
        assert_eq!(progress.check(ONE, 10), Err(OutOfTurn::Early { partition: ONE, first: 10 }));
        progress.acknowledge(SendToken(1));
        assert_eq!(progress.check(ONE, 10), Err(OutOfTurn::Early { partition: ONE, first: 10 }));
        progress.commit();
        assert_eq!(progress.check(ONE, 9), Err(OutOfTurn::Again { partition: ONE, first: 9, next: 10 }));
        // A gap is no mistake: retention, compaction and markers make them.
        give(&mut progress, 2, ONE, 12, 20);
    }

    #[test]
    fn what_was_aborted_may_come_again() {
        let mut progress = Progress::default();
        give(&mut progress, 1, ONE, 0, 9);
        progress.acknowledge(SendToken(1));
        progress.commit();
        give(&mut progress, 2, ONE, 10, 19);
        progress.acknowledge(SendToken(2));
        assert_eq!(progress.abort(), [SendToken(2)]);
        assert!(progress.offsets().is_empty());
        assert!(progress.check(ONE, 9).is_err());
        give(&mut progress, 3, ONE, 10, 14);
    }

    #[test]
    fn a_send_that_is_not_known_changes_nothing() {
        let mut progress = Progress::default();
        progress.acknowledge(SendToken(99));
        assert!(!progress.has_acknowledged());
        assert!(progress.commit().is_empty() && progress.abort().is_empty());
    }
}
