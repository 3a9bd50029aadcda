//! What a log knows of the producers that number their records, so that a retried batch is stored once.
//!
//! Such a producer has an id, an epoch, and a running number per record and partition, its sequence. Each of its batches
//! carries a [`ProducerStamp`], which is checked before the batch is appended:
//!
//! | the batch | what becomes of it |
//! |---|---|
//! | of an unknown producer | stored, whatever its sequence |
//! | the first of one that was given its id by [a claim](Producers::claim) | stored if it starts at 0, or at 1, as clients do that count from the 0 of nothing |
//! | of an older epoch | refused: another instance has taken over |
//! | of a newer epoch | stored if it starts at 0, or where [a claim](Producers::claim) says |
//! | with the first and last sequence of one of the latest five | a duplicate: not stored again |
//! | that continues the last one | stored |
//! | any other | refused: records before it are missing, or were sent twice in another batch |
//!
//! These are the rules of Kafka. Sequences run from 0 to 2³¹ − 1 and start over at 0.
//!
//! What is known is bounded by count and by age. A producer that was dropped counts as unknown from then on: its batches are
//! stored, and a retry of an earlier one is not recognised. Dropped producers are counted.

mod snapshot;
#[cfg(test)]
mod tests;

pub(crate) use snapshot::ProducerSnapshot;

use crate::UnixTime;
use kafka::control_batch::{TransactionEnd, TransactionMarker};
use std::collections::HashMap;
use std::time::Duration;

/// Which producer a batch is from, and the sequence of its first record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProducerStamp {
    id: i64,
    epoch: i16,
    first_sequence: i32,
}

/// What a log answers a producer that claims its numbering.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProducerPosition {
    /// The epoch that holds from now on.
    pub epoch: i16,
    /// The sequence of the last record that is stored; -1 of a producer of which none is.
    pub last_sequence: i32,
}

/// Why a producer's batch is not stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ProducerError {
    /// The batch does not continue the last one.
    #[error("the batch starts with sequence {found} instead of {expected}")]
    OutOfOrder {
        /// The sequence after that of the last record.
        expected: i32,
        /// That of the batch.
        found: i32,
    },
    /// Another instance of the producer has taken over.
    #[error("the producer's epoch is {current}, not {found}")]
    OlderEpoch {
        /// The epoch that holds.
        current: i16,
        /// That of the batch.
        found: i16,
    },
    /// The producer has a transaction open here, and the batch does not belong to one.
    #[error("the producer has a transaction open, and the batch does not belong to it")]
    InTransaction,
    /// As many transactions are open here as may be; some have to end first.
    #[error("{maximum} transactions are open in the partition already")]
    TooManyTransactions {
        /// How many may be open.
        maximum: usize,
    },
}

/// A producer that a log knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KnownProducer {
    /// The producer's id.
    pub id: i64,
    /// The epoch that holds.
    pub epoch: i16,
    /// The sequence of the last record; -1 if none of this epoch is stored.
    pub last_sequence: i32,
    /// When it was active last.
    pub last_timestamp: UnixTime,
    /// The number of the first record of the transaction that it has open.
    pub transaction_start: Option<u64>,
    /// The epoch of the coordinator that ended its last transaction; -1 if none has since the log was opened.
    pub coordinator_epoch: i32,
}

/// How many producers a log knows, and how many it has dropped since it was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ProducerStats {
    /// Producers that are known.
    pub known: u64,
    /// Producers dropped because they had stored nothing for too long.
    pub expired: u64,
    /// Producers dropped because there were too many.
    pub evicted: u64,
}

/// How many producers are known, and for how long.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ProducerLimits {
    pub(crate) maximum: usize,
    /// A producer that stores nothing for longer is dropped.
    pub(crate) idle: Duration,
}

/// The producers of one log.
#[derive(Debug)]
pub(crate) struct Producers {
    known: HashMap<i64, Producer>,
    limits: ProducerLimits,
    /// Increases with each batch or claim; orders producers by their last activity.
    turn: u64,
    expired: u64,
    evicted: u64,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Producer {
    epoch: i16,
    /// [`UNKNOWN`] of one of which nothing but the epoch is known, [`NEW`] of one that has stored nothing.
    last_sequence: i32,
    /// When it stored or claimed something last.
    active_at: UnixTime,
    /// The value of [`Producers::turn`] at that time.
    turn: u64,
    latest: LatestBatches,
    /// That of the last marker; -1 if there was none. Not kept on disk: it is only told to those who ask.
    coordinator_epoch: i32,
}

/// The latest batches of a producer, oldest first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct LatestBatches {
    batches: [StoredBatch; LATEST_BATCHES],
    count: usize,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct StoredBatch {
    first_sequence: i32,
    last_sequence: i32,
    first_sequence_number: u64,
}

impl ProducerStamp {
    /// The stamp of a batch; `None` if one of the numbers is negative.
    #[must_use]
    pub const fn new(id: i64, epoch: i16, first_sequence: i32) -> Option<Self> {
        match id >= 0 && epoch >= 0 && first_sequence >= 0 {
            true => Some(Self { id, epoch, first_sequence }),
            false => None,
        }
    }

    /// The producer's id.
    #[must_use]
    pub const fn id(&self) -> i64 {
        self.id
    }

    /// The producer's epoch.
    #[must_use]
    pub const fn epoch(&self) -> i16 {
        self.epoch
    }

    /// The sequence of the batch's first record.
    #[must_use]
    pub const fn first_sequence(&self) -> i32 {
        self.first_sequence
    }

    /// The sequence of the last of `record_count` records.
    fn last_sequence(&self, record_count: u32) -> i32 {
        sequence_after(self.first_sequence, record_count.saturating_sub(1))
    }
}

/// The sequence that comes `count` records after `sequence`.
#[must_use]
pub const fn sequence_after(sequence: i32, count: u32) -> i32 {
    (sequence.cast_unsigned().wrapping_add(count) & i32::MAX.cast_unsigned()).cast_signed()
}

impl Producers {
    /// No producer is known.
    pub(crate) fn new(limits: ProducerLimits) -> Self {
        Self { known: HashMap::new(), limits, turn: 0, expired: 0, evicted: 0 }
    }

    /// Whether a batch of `record_count` records is to be stored: `Some` is the number that its first record got when it
    /// was stored before.
    pub(crate) fn check(
        &self,
        stamp: &ProducerStamp,
        record_count: u32,
        now: UnixTime,
    ) -> Result<Option<u64>, ProducerError> {
        let Some(known) = self.find(stamp.id, now) else {
            return Ok(None);
        };
        if stamp.epoch < known.epoch {
            return Err(ProducerError::OlderEpoch { current: known.epoch, found: stamp.epoch });
        }
        let expected = match stamp.epoch == known.epoch {
            true if known.last_sequence == UNKNOWN => return Ok(None),
            true if known.last_sequence == NEW && matches!(stamp.first_sequence, 0 | 1) => return Ok(None),
            true if known.last_sequence == NEW => 0,
            true => sequence_after(known.last_sequence, 1),
            false => 0,
        };
        if stamp.epoch == known.epoch
            && let Some(stored) = known.latest.find(stamp.first_sequence, stamp.last_sequence(record_count))
        {
            return Ok(Some(stored.first_sequence_number));
        }
        match stamp.first_sequence == expected {
            true => Ok(None),
            false => Err(ProducerError::OutOfOrder { expected, found: stamp.first_sequence }),
        }
    }

    /// Remembers a batch that was stored.
    pub(crate) fn record(
        &mut self,
        stamp: &ProducerStamp,
        record_count: u32,
        first_sequence_number: u64,
        time: UnixTime,
    ) {
        let last_sequence = stamp.last_sequence(record_count);
        let producer = self.touch(stamp.id, time);
        // Batches before a break in the numbering could be taken for those that come after it.
        if producer.epoch != stamp.epoch || stamp.first_sequence != sequence_after(producer.last_sequence, 1)
        {
            producer.latest = LatestBatches::default();
        }
        producer.epoch = stamp.epoch;
        producer.last_sequence = last_sequence;
        producer.latest.push(StoredBatch {
            first_sequence: stamp.first_sequence,
            last_sequence,
            first_sequence_number,
        });
    }

    /// A producer continues its numbering, or takes over from an earlier instance by a newer epoch: after `last_sequence`,
    /// where it names one that the log can't know. What it leaves open is answered from what is known; if nothing is, with
    /// the epoch 0 and the sequence -1, after which 0 is next.
    ///
    /// A claim is kept in memory, and on disk from the end of the segment on. A crash before loses it; the epoch holds
    /// for good from the first batch that is stored.
    pub(crate) fn claim(
        &mut self,
        id: i64,
        epoch: Option<i16>,
        last_sequence: Option<i32>,
        now: UnixTime,
    ) -> Result<ProducerPosition, ProducerError> {
        let known = self.find(id, now).map(|known| (known.epoch, known.last_sequence));
        let current = known.map_or(0, |(current, _)| current);
        let epoch = epoch.unwrap_or(current);
        let stored = known.map_or(NEW, |(_, last)| last);
        let last_sequence = last_sequence.unwrap_or(stored).max(-1);
        let answer = ProducerPosition { epoch, last_sequence };
        match known {
            Some(_) if epoch < current => return Err(ProducerError::OlderEpoch { current, found: epoch }),
            // What the log has stored takes precedence. A client that did not get the last answer retries what it sent.
            Some(_) if epoch == current => {}
            _ => {
                let producer = self.touch(id, now);
                producer.epoch = epoch;
                producer.last_sequence = if last_sequence < 0 { NEW } else { last_sequence };
                producer.latest = LatestBatches::default();
            }
        }
        Ok(answer)
    }

    /// The coordinator has ended a transaction of a producer. A newer epoch takes over, and begins with the sequence 0.
    ///
    /// Of a producer that is not known this makes one of a known epoch, if the transaction is aborted: late batches of an older one
    /// are to be refused. A producer that commits has no late batches.
    pub(crate) fn end_transaction(&mut self, marker: &TransactionMarker, now: UnixTime) {
        let known = self.find(marker.producer_id, now).map(|known| known.epoch);
        match known {
            Some(epoch) if marker.producer_epoch < epoch => return,
            None if marker.end == TransactionEnd::Commit => return,
            Some(_) | None => {}
        }
        let producer = self.touch(marker.producer_id, now);
        if known != Some(marker.producer_epoch) {
            producer.epoch = marker.producer_epoch;
            producer.last_sequence = if known.is_some() { BEFORE_THE_FIRST } else { UNKNOWN };
            producer.latest = LatestBatches::default();
        }
        producer.coordinator_epoch = marker.coordinator_epoch;
    }

    /// All that are known. `transaction_start` finds the first record of the transaction that a producer has open.
    pub(crate) fn describe(
        &self,
        transaction_start: impl Fn(i64) -> Option<u64>,
    ) -> impl Iterator<Item = KnownProducer> {
        self.known.iter().map(move |(&id, producer)| KnownProducer {
            id,
            epoch: producer.epoch,
            last_sequence: match producer.latest.count {
                0 => -1,
                _ => producer.last_sequence,
            },
            last_timestamp: producer.active_at,
            transaction_start: transaction_start(id),
            coordinator_epoch: producer.coordinator_epoch,
        })
    }

    /// Drops producers that have stored nothing for too long.
    pub(crate) fn expire(&mut self, now: UnixTime) {
        let before = self.known.len();
        let idle = self.limits.idle;
        self.known.retain(|_, producer| !producer.is_expired(now, idle));
        self.expired += (before - self.known.len()) as u64;
    }

    pub(crate) fn stats(&self) -> ProducerStats {
        ProducerStats { known: self.known.len() as u64, expired: self.expired, evicted: self.evicted }
    }

    fn find(&self, id: i64, now: UnixTime) -> Option<&Producer> {
        self.known.get(&id).filter(|producer| !producer.is_expired(now, self.limits.idle))
    }

    /// The producer of this id, as the one that was active last. It is made if it is not known.
    fn touch(&mut self, id: i64, now: UnixTime) -> &mut Producer {
        if !self.known.contains_key(&id) {
            self.make_room(now);
        }
        self.turn += 1;
        let producer = self.known.entry(id).or_insert_with(|| Producer {
            epoch: 0,
            last_sequence: 0,
            active_at: now,
            turn: 0,
            latest: LatestBatches::default(),
            coordinator_epoch: -1,
        });
        producer.active_at = now;
        producer.turn = self.turn;
        producer
    }

    /// Makes room for one more: an eighth at a time, so that a crowd of new producers does not cost a search for each.
    fn make_room(&mut self, now: UnixTime) {
        if self.known.len() < self.limits.maximum {
            return;
        }
        self.expire(now);
        if self.known.len() < self.limits.maximum {
            return;
        }
        let mut turns: Vec<u64> = self.known.values().map(|producer| producer.turn).collect();
        let (_, &mut last, _) = turns.select_nth_unstable(self.limits.maximum / 8);
        let before = self.known.len();
        self.known.retain(|_, producer| producer.turn > last);
        self.evicted += (before - self.known.len()) as u64;
    }
}

impl Default for Producers {
    fn default() -> Self {
        Self::new(ProducerLimits::default())
    }
}

impl Default for ProducerLimits {
    fn default() -> Self {
        Self { maximum: MAXIMUM_PRODUCERS, idle: LONGEST_IDLE }
    }
}

impl Producer {
    fn is_expired(&self, now: UnixTime, idle: Duration) -> bool {
        self.active_at < now.saturating_sub(idle)
    }
}

impl LatestBatches {
    fn as_slice(&self) -> &[StoredBatch] {
        &self.batches[..self.count]
    }

    fn find(&self, first_sequence: i32, last_sequence: i32) -> Option<&StoredBatch> {
        let is_it = |batch: &&StoredBatch| {
            batch.first_sequence == first_sequence && batch.last_sequence == last_sequence
        };
        self.as_slice().iter().find(is_it)
    }

    fn push(&mut self, batch: StoredBatch) {
        if self.count == LATEST_BATCHES {
            self.batches.copy_within(1.., 0);
            self.count -= 1;
        }
        self.batches[self.count] = batch;
        self.count += 1;
    }
}

/// In place of a sequence: any may come next. Not kept on disk, where such a producer can be left out.
const UNKNOWN: i32 = -1;

/// In place of a sequence: 0 is the first, or 1. Not kept on disk either.
const NEW: i32 = -2;

/// The sequence before 0.
const BEFORE_THE_FIRST: i32 = i32::MAX;

/// As many batches as a client of Kafka may have on the way.
const LATEST_BATCHES: usize = 5;

/// Producers that a log knows. Each takes about 130 bytes, and as many at the end of each segment on disk.
pub(crate) const MAXIMUM_PRODUCERS: usize = 4096;

/// As Kafka has it: `producer.id.expiration.ms`.
const LONGEST_IDLE: Duration = Duration::from_secs(24 * 60 * 60);
