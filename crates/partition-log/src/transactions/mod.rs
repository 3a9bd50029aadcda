//! What a log knows of transactions: which are open here, and which of its records were aborted.
//!
//! ```text
//!        7 opens here     9 opens here       7 is aborted         stable end           9 commits: stable end = log end
//!  ─ … ──┬── 7 ── 7 ──────┬── 9 ── plain ────┬ marker ─ plain ─┐
//!        └────────────────│──────────────────┘                 │
//!                         └───────────────────────────────── … ┘
//!                         the stable end is here until 9 has ended
//! ```
//!
//! A transaction is open in a partition from the first record that its producer has written there until the coordinator's
//! marker. Readers of committed records only stop at the stable end, which is the first record of the oldest open transaction,
//! and pass over the records of those that were aborted: they learn which these are from here, not from the records.
//!
//! A marker counts once it is committed to the disk, if the log has one. Until then readers wait for its transaction.
//!
//! What was aborted is remembered as long as its records are in the log. Each takes 32 bytes, and several times as much of the
//! log. How many transactions may be open is bounded.

mod snapshot;
#[cfg(test)]
mod tests;

pub(crate) use snapshot::TransactionSnapshot;

use crate::UnixTime;
use crate::producers::ProducerStamp;
use kafka::control_batch::{TransactionEnd, TransactionMarker};
use std::collections::{BTreeSet, HashMap, VecDeque};
use std::ops::Range;

/// A transaction that is open in a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OpenTransaction {
    /// The producer whose transaction it is.
    pub producer_id: i64,
    /// The producer's epoch.
    pub producer_epoch: i16,
    /// The number of its first record here.
    pub first_sequence_number: u64,
    /// When that was appended.
    pub since: UnixTime,
}

/// A transaction whose records in a log count as never written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AbortedTransaction {
    /// The producer whose transaction it was. Its records up to the marker are those of the transaction.
    pub producer_id: i64,
    /// The number of its first record here.
    pub first_sequence_number: u64,
    /// The number of the marker that ended it.
    pub marker_sequence_number: u64,
}

/// The transactions of one log.
#[derive(Debug, Default)]
pub(crate) struct Transactions {
    /// By the producer's id.
    open: HashMap<i64, Open>,
    /// The first numbers of the transactions that readers wait for: those that are open, and those that are ending.
    undecided: BTreeSet<u64>,
    /// Those whose marker is written and not committed, in the order of the markers.
    ending: VecDeque<Ending>,
    /// In the order of the markers.
    aborted: VecDeque<Aborted>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Open {
    first: u64,
    epoch: i16,
    since: UnixTime,
}

#[derive(Clone, Copy, Debug)]
struct Ending {
    producer_id: i64,
    first: u64,
    marker: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Aborted {
    producer_id: i64,
    first: u64,
    marker: u64,
    /// The stable end with this marker. Whatever is aborted later begins there at the earliest, so that a search ends here.
    stable: u64,
}

/// What the log has to do about a marker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ends {
    /// Write it: it ends a transaction.
    Open,
    /// Wait for the commit of an earlier one, which has this number.
    Ended(u64),
    /// Nothing.
    Nothing,
}

impl Transactions {
    /// The number before which everything is decided; `None` if that is all there is.
    #[inline]
    pub(crate) fn first_undecided(&self) -> Option<u64> {
        self.undecided.first().copied()
    }

    /// Whether the producer has a transaction open.
    pub(crate) fn is_open(&self, producer_id: i64) -> bool {
        self.open.contains_key(&producer_id)
    }

    /// Whether no more may be open.
    pub(crate) fn are_many(&self) -> bool {
        self.open.len() >= MAXIMUM_OPEN
    }

    /// A batch of a transaction was stored.
    pub(crate) fn record(&mut self, stamp: &ProducerStamp, first_sequence_number: u64, time: UnixTime) {
        let open = self.open.entry(stamp.id()).or_insert_with(|| {
            self.undecided.insert(first_sequence_number);
            Open { first: first_sequence_number, epoch: stamp.epoch(), since: time }
        });
        open.epoch = open.epoch.max(stamp.epoch());
    }

    /// What `marker` ends. One of an older epoch than the transaction's is late, and ends nothing.
    pub(crate) fn ends(&self, marker: &TransactionMarker) -> Ends {
        match self.open.get(&marker.producer_id) {
            Some(open) if open.epoch <= marker.producer_epoch => Ends::Open,
            Some(_) => Ends::Nothing,
            None => {
                let ending = self.ending.iter().rev().find(|it| it.producer_id == marker.producer_id);
                ending.map_or(Ends::Nothing, |ending| Ends::Ended(ending.marker))
            }
        }
    }

    /// The marker of this number was written.
    pub(crate) fn end(&mut self, marker: &TransactionMarker, sequence_number: u64) {
        let Some(Open { first, .. }) = self.open.remove(&marker.producer_id) else {
            return;
        };
        if marker.end == TransactionEnd::Abort {
            let producer_id = marker.producer_id;
            self.add_aborted(producer_id, first, sequence_number);
        }
        self.ending.push_back(Ending { producer_id: marker.producer_id, first, marker: sequence_number });
    }

    fn add_aborted(&mut self, producer_id: i64, first: u64, marker: u64) {
        let others = self.open.values().map(|open| open.first).min();
        let stable = others.unwrap_or(u64::MAX).min(marker.saturating_add(1));
        self.aborted.push_back(Aborted { producer_id, first, marker, stable });
    }

    /// Everything before this number is committed.
    pub(crate) fn settle(&mut self, next_sequence_number: u64) {
        while let Some(ended) = self.ending.pop_front_if(|ended| ended.marker < next_sequence_number) {
            self.undecided.remove(&ended.first);
        }
    }

    /// Records before this number are not in the log any more.
    pub(crate) fn forget_before(&mut self, begin_sequence_number: u64) {
        while self.aborted.pop_front_if(|aborted| aborted.marker < begin_sequence_number).is_some() {}
    }

    /// Whether the record of a transaction of this producer was aborted.
    pub(crate) fn is_aborted(&self, producer_id: i64, sequence_number: u64) -> bool {
        self.overlapping(sequence_number..sequence_number.saturating_add(1))
            .any(|aborted| aborted.producer_id == producer_id)
    }

    /// The aborted transactions that have records or their marker in this range, in order of their first records.
    pub(crate) fn aborted(&self, range: Range<u64>) -> Vec<AbortedTransaction> {
        let mut aborted: Vec<_> = self.overlapping(range).map(Aborted::describe).collect();
        aborted.sort_unstable_by_key(|aborted| aborted.first_sequence_number);
        aborted
    }

    fn overlapping(&self, range: Range<u64>) -> impl Iterator<Item = &Aborted> {
        let first = self.aborted.partition_point(|aborted| aborted.marker < range.start);
        let mut is_over = range.is_empty();
        let until_end = self.aborted.range(first..).take_while(move |aborted| {
            let ends_here = aborted.stable >= range.end;
            !std::mem::replace(&mut is_over, ends_here)
        });
        until_end.filter(move |aborted| aborted.first < range.end)
    }

    /// What is open, oldest first.
    pub(crate) fn open(&self) -> Vec<OpenTransaction> {
        let mut open: Vec<_> = self.open.iter().map(|(id, open)| open.describe(*id)).collect();
        open.sort_unstable_by_key(|open| open.first_sequence_number);
        open
    }

    /// The number of the first record of the transaction that the producer has open.
    pub(crate) fn first_of(&self, producer_id: i64) -> Option<u64> {
        self.open.get(&producer_id).map(|open| open.first)
    }

    /// Whether nothing is known.
    pub(crate) fn is_empty(&self) -> bool {
        self.open.is_empty() && self.ending.is_empty() && self.aborted.is_empty()
    }

    /// Damage has taken what came before this number: markers may be among it. What was open counts as aborted, since no one may
    /// know it any more and readers would wait for ever.
    pub(crate) fn give_up(&mut self, next_sequence_number: u64) {
        let marker = next_sequence_number.saturating_sub(1);
        let oldest = self.open.values().map(|open| open.first).min().unwrap_or(u64::MAX);
        let given_up = self.open.drain().map(|(producer_id, Open { first, .. })| Aborted {
            producer_id,
            first,
            marker,
            stable: oldest,
        });
        self.aborted.extend(given_up);
        self.undecided.clear();
        self.ending.clear();
    }
}

impl Open {
    const fn describe(self, producer_id: i64) -> OpenTransaction {
        OpenTransaction {
            producer_id,
            producer_epoch: self.epoch,
            first_sequence_number: self.first,
            since: self.since,
        }
    }
}

impl Aborted {
    const fn describe(&self) -> AbortedTransaction {
        AbortedTransaction {
            producer_id: self.producer_id,
            first_sequence_number: self.first,
            marker_sequence_number: self.marker,
        }
    }
}

/// Transactions that may be open in a log. As many producers are known, too.
pub(crate) const MAXIMUM_OPEN: usize = 4096;
