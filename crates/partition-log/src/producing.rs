//! Appending for producers that number their records.

use super::chunk::Protocol;
use super::disk::CommitNumber;
use super::encoder::BatchEncoder;
use super::partition_log::{AppendError, Appended, Author, PartitionLog};
use super::producers::{ProducerError, ProducerPosition, ProducerStamp, ProducerStats};
use crate::UnixTime;
use kafka::record_batch::RecordBatch;
use std::convert::Infallible;

/// What became of a producer's batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Produced {
    /// It was appended.
    Stored(Appended),
    /// It was appended before, and is acknowledged as it was then.
    Duplicate {
        /// The number that its first record has.
        first_sequence_number: u64,
        /// What an acknowledgement has to wait for.
        commit: CommitNumber,
    },
}

/// Why a producer's batch was not appended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ProduceError<E = Infallible> {
    /// It does not fit what the log knows of the producer.
    #[error(transparent)]
    Producer(#[from] ProducerError),
    /// Any batch would have been refused.
    #[error(transparent)]
    Append(AppendError<E>),
}

impl PartitionLog {
    /// Appends a batch of `record_count` records, which `encode` pushes, if it continues what the producer has stored. Otherwise
    /// this is as [`append`](Self::append).
    ///
    /// # Errors
    /// The batch does not continue what is stored, or can't be appended.
    pub fn append_produced<E>(
        &self,
        now: UnixTime,
        stamp: &ProducerStamp,
        record_count: u32,
        encode: impl FnOnce(&mut BatchEncoder<'_>) -> Result<(), E>,
    ) -> Result<Produced, ProduceError<E>> {
        self.append_unless_stored(now, Protocol::Amqp, Author::Producer(stamp), record_count, encode)
    }

    /// Appends a record batch of Kafka as it is, with the partition's numbers. If its producer numbers records, it has to
    /// continue what that has stored. The first batch of a transaction opens it here, until [its
    /// end](Self::end_transaction); whether the producer may do so is for the caller to know.
    ///
    /// # Errors
    /// The batch does not continue what is stored, or can't be appended.
    pub fn append_record_batch(
        &self,
        now: UnixTime,
        batch: &RecordBatch<'_>,
    ) -> Result<Produced, ProduceError> {
        let stamp = batch
            .producer()
            .and_then(|numbers| ProducerStamp::new(numbers.id, numbers.epoch, numbers.base_sequence));
        let author = match &stamp {
            None => Author::Anyone,
            Some(stamp) if batch.is_transactional() => Author::Transaction(stamp),
            Some(stamp) => Author::Producer(stamp),
        };
        self.append_unless_stored(now, Protocol::Kafka, author, batch.record_count(), |encoder| {
            encoder.put_record_batch(batch);
            Ok(())
        })
    }

    #[inline]
    fn append_unless_stored<E>(
        &self,
        now: UnixTime,
        protocol: Protocol,
        author: Author<'_>,
        record_count: u32,
        encode: impl FnOnce(&mut BatchEncoder<'_>) -> Result<(), E>,
    ) -> Result<Produced, ProduceError<E>> {
        let mut state = self.lock();
        if let Some(reason) = state.unavailable() {
            return Err(ProduceError::Append(AppendError::Unavailable(reason)));
        }
        if let Author::Producer(stamp) | Author::Transaction(stamp) = author {
            if let Some(producers) = &state.producers
                && let Some(first_sequence_number) = producers.check(stamp, record_count, now)?
            {
                let commit = state.commit_before(first_sequence_number + u64::from(record_count));
                return Ok(Produced::Duplicate { first_sequence_number, commit });
            }
            state.check_transaction(stamp, matches!(author, Author::Transaction(_)))?;
        }
        let appended = self.append_to(state, now, protocol, author, encode);
        appended.map(Produced::Stored).map_err(ProduceError::Append)
    }

    /// A producer continues its numbering here, or takes over from an earlier instance by a newer `epoch`. What it does not
    /// know is answered from what the log knows; if that is nothing, with the epoch 0 and the sequence -1. `last_sequence` is believed of a new epoch
    /// and of a producer that the log does not know.
    ///
    /// The epoch holds at once, and for good from the first batch that is stored: a crash before that loses the claim.
    ///
    /// # Errors
    /// A newer epoch holds.
    pub fn claim_producer(
        &self,
        now: UnixTime,
        id: i64,
        epoch: Option<i16>,
        last_sequence: Option<i32>,
    ) -> Result<ProducerPosition, ProducerError> {
        self.lock().producers.get_or_insert_default().claim(id, epoch, last_sequence, now)
    }

    /// How many producers the log knows, and how many it has dropped.
    #[must_use]
    pub fn producer_stats(&self) -> ProducerStats {
        self.lock().producers.as_ref().map(|producers| producers.stats()).unwrap_or_default()
    }
}
