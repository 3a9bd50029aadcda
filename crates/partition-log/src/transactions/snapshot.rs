//! What was known of transactions at the end of a segment, as it is kept beside it.
//!
//! ```text
//!  ├─ open, u32 ─┬─ aborted, u32 ─┬─ open transaction … ─┬─ aborted transaction … ─┤
//!  open     ├─ producer id, i64 ─┬─ first number, u64 ─┬─ since, ms, i64 ─┬─ epoch, i16 ─┬─ 0, 6 bytes ─┤
//!  aborted  ├─ producer id, i64 ─┬─ first number, u64 ─┬─ marker, u64 ─┬─ stable end with the marker, u64 ─┤
//! ```
//!
//! Numbers are little-endian. All transactions are there that were open then, by their first number, and those that were
//! aborted by a marker in the segment, by that. A snapshot of nothing does not exist.

use super::{Aborted, MAXIMUM_OPEN, Open, Transactions};
use crate::UnixTime;
use crate::batch::MAXIMUM_BATCH_LENGTH;
use std::collections::HashSet;
use std::fmt;
use std::sync::Arc;

/// The bytes of a snapshot, whose form was checked.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct TransactionSnapshot(Arc<[u8]>);

impl TransactionSnapshot {
    /// The most bytes that a snapshot has.
    pub(crate) const MAXIMUM_LENGTH: usize = 8 + ENTRY_LENGTH * (MAXIMUM_OPEN + MAXIMUM_ABORTED);

    /// Takes bytes that were read; `None` if they are no snapshot.
    pub(crate) fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let mut open: HashSet<i64> = HashSet::new();
        let (mut last_first, mut last_marker) = (None, None);
        let (mut is_sound, mut is_empty) = (true, true);
        read(bytes, |entry| {
            is_empty = false;
            is_sound &= match entry {
                Entry::Open(id, transaction) => {
                    open.insert(id) && last_first.replace(transaction.first) < Some(transaction.first)
                }
                Entry::Aborted(aborted) => last_marker.replace(aborted.marker) < Some(aborted.marker),
            };
        })?;
        (is_sound && !is_empty).then(|| Self(bytes.into()))
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        &self.0
    }
}

impl fmt::Debug for TransactionSnapshot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TransactionSnapshot").field("length", &self.0.len()).finish()
    }
}

impl Transactions {
    /// What is known at the end of the segment that begins with this number; `None` if that is nothing.
    pub(crate) fn snapshot(&self, first_sequence_number: u64) -> Option<TransactionSnapshot> {
        let before = self.aborted.partition_point(|aborted| aborted.marker < first_sequence_number);
        if self.open.is_empty() && before == self.aborted.len() {
            return None;
        }
        let aborted = self.aborted.len() - before;
        let mut bytes = Vec::with_capacity(8 + ENTRY_LENGTH * (self.open.len() + aborted));
        bytes.extend_from_slice(&(self.open.len() as u32).to_le_bytes());
        bytes.extend_from_slice(&(aborted as u32).to_le_bytes());
        for open in self.open() {
            bytes.extend_from_slice(&open.producer_id.to_le_bytes());
            bytes.extend_from_slice(&open.first_sequence_number.to_le_bytes());
            bytes.extend_from_slice(&open.since.milliseconds().to_le_bytes());
            bytes.extend_from_slice(&open.producer_epoch.to_le_bytes());
            bytes.extend_from_slice(&[0; 6]);
        }
        for aborted in self.aborted.range(before..) {
            bytes.extend_from_slice(&aborted.producer_id.to_le_bytes());
            bytes.extend_from_slice(&aborted.first.to_le_bytes());
            bytes.extend_from_slice(&aborted.marker.to_le_bytes());
            bytes.extend_from_slice(&aborted.stable.to_le_bytes());
        }
        Some(TransactionSnapshot(bytes.into()))
    }

    /// Knows what `snapshot` says of the segment that begins with this number and of its end, and of the segments before what
    /// was known.
    pub(crate) fn restore(&mut self, first_sequence_number: u64, snapshot: Option<&TransactionSnapshot>) {
        self.open.clear();
        self.undecided.clear();
        self.ending.clear();
        let before = self.aborted.partition_point(|aborted| aborted.marker < first_sequence_number);
        self.aborted.truncate(before);
        let Some(TransactionSnapshot(bytes)) = snapshot else {
            return;
        };
        let Self { open, undecided, aborted, .. } = self;
        read(bytes, |entry| match entry {
            Entry::Open(id, transaction) => {
                undecided.insert(transaction.first);
                open.insert(id, transaction);
            }
            Entry::Aborted(transaction) => aborted.push_back(transaction),
        });
    }
}

/// A transaction in a snapshot.
enum Entry {
    /// With the producer's id.
    Open(i64, Open),
    Aborted(Aborted),
}

/// Gives `each` the transactions in `bytes`; `None` if something else stands there.
fn read(bytes: &[u8], mut each: impl FnMut(Entry)) -> Option<()> {
    let (open_count, rest) = bytes.split_first_chunk()?;
    let (aborted_count, rest) = rest.split_first_chunk()?;
    let open_count = u32::from_le_bytes(*open_count) as usize;
    let aborted_count = u32::from_le_bytes(*aborted_count) as usize;
    let (entries, rest) = rest.as_chunks::<ENTRY_LENGTH>();
    if open_count > MAXIMUM_OPEN
        || open_count.checked_add(aborted_count)? != entries.len()
        || !rest.is_empty()
    {
        return None;
    }
    for (index, entry) in entries.iter().enumerate() {
        let (fields, _) = entry.as_chunks::<8>();
        let [id, first, third, fourth] = fields else { return None };
        let (id, first) = (i64::from_le_bytes(*id), u64::from_le_bytes(*first));
        if id < 0 {
            return None;
        }
        if index < open_count {
            let [low, high, zeros @ ..] = fourth;
            let epoch = i16::from_le_bytes([*low, *high]);
            if epoch < 0 || *zeros != [0; 6] {
                return None;
            }
            let since = UnixTime::from_milliseconds(i64::from_le_bytes(*third));
            each(Entry::Open(id, Open { first, epoch, since }));
            continue;
        }
        let (marker, stable) = (u64::from_le_bytes(*third), u64::from_le_bytes(*fourth));
        if first > marker || stable > marker.saturating_add(1) {
            return None;
        }
        each(Entry::Aborted(Aborted { producer_id: id, first, marker, stable }));
    }
    Some(())
}

/// Bytes of a transaction.
const ENTRY_LENGTH: usize = 32;

/// More markers do not fit a segment, which is at most twice as long as the longest batch.
const MAXIMUM_ABORTED: usize = 2 * MAXIMUM_BATCH_LENGTH as usize / SHORTEST_MARKER;

/// A batch of a marker has more bytes: its own header, and that of Kafka's batch.
const SHORTEST_MARKER: usize = 64;
