//! What has arrived of one partition: from an answer to Fetch to events.
//!
//! ```text
//!   answer ──▶ batches: whole, intact, not behind us, not aborted ──▶ records, unpacked ──▶ events, as far as there is credit
//! ```
//!
//! Records stay in the frame that they arrived in. What is found of each is where its key and its tail are; values and headers
//! are only looked at where they become messages of AMQP. A compressed batch is unpacked when the records before it have become
//! events: a frame of small batches can stand for gigabytes.
//!
//! Records that can't be read are handed over in place of the events that they would be ([`Unreadable`](crate::event::Unreadable)),
//! from the first of a batch that can't be read to the end of that batch. A checksum that does not match may be the fault of the
//! connection, so that batch is fetched a second time before.

mod batch;

use std::collections::VecDeque;
use std::time::Instant;

use bytes::Bytes;
use kafka::control_batch::{TransactionEnd, TransactionMarker};
use kafka::fetch::AbortedTransaction;
use kafka::record_batch::{BatchError, RecordBatch};

use crate::batch_builder::BatchBuilder;
use crate::event::{Encoding, PartitionId};
use batch::{Batch, Defect, Pushed, Pushing};

/// The records of one partition that have arrived and are not yet events.
#[derive(Debug)]
pub(super) struct Fetched {
    batches: VecDeque<Batch>,
    /// Bytes that the batches take.
    bytes: usize,
    /// Records that they have.
    records: usize,
    /// Maximum size of the records of one batch when they are unpacked.
    max_unpacked_bytes: usize,
    /// The offset of the batch whose checksum did not match when it was fetched last.
    doubted: Option<i64>,
}

/// The records of a partition in an answer to Fetch.
#[derive(Debug)]
pub(super) struct Arrived<'a> {
    pub(super) records: &'a Bytes,
    /// The offset that was asked for.
    pub(super) offset: i64,
    /// The offset after the last record that the broker gives to clients.
    pub(super) high_watermark: i64,
    /// Transactions whose records are left out; empty for clients that read what is not committed.
    pub(super) aborted: Vec<AbortedTransaction>,
}

/// Damage that ends what is taken of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Damage {
    /// The checksum of the next batch does not match, for the first time.
    Checksum,
    /// The bytes that follow are no batch of a known format.
    Format(BatchError),
}

impl Fetched {
    /// Nothing has arrived.
    pub(super) const fn new(max_unpacked_bytes: usize) -> Self {
        Self { batches: VecDeque::new(), bytes: 0, records: 0, max_unpacked_bytes, doubted: None }
    }

    /// Bytes that have arrived and are not yet events, of all that is not handed over in full, as they are in memory.
    pub(super) const fn bytes(&self) -> usize {
        self.bytes
    }

    /// Records, likewise.
    pub(super) const fn records(&self) -> usize {
        self.records
    }

    /// Takes the batches that a broker sent. Returns the offset to go on with, and the damage before which that lies, if any.
    pub(super) fn take(&mut self, arrived: Arrived<'_>) -> (i64, Result<(), Damage>) {
        let Arrived { records, mut offset, high_watermark, mut aborted } = arrived;
        aborted.sort_unstable_by_key(|transaction| transaction.first_offset);
        let mut aborted = aborted.into_iter().peekable();
        let mut left_out = Vec::new();
        let mut rest = &records[..];
        while !rest.is_empty() {
            let batch = match RecordBatch::read(rest) {
                Ok(batch) => batch,
                // Brokers may cut the last one off where they reach what was asked for.
                Err(BatchError::Incomplete { .. }) => break,
                Err(error) => return (offset, Err(Damage::Format(error))),
            };
            rest = &rest[batch.bytes().len()..];
            let next = batch.next_offset();
            if !batch.is_intact() {
                if self.doubted.replace(offset) != Some(offset) {
                    return (offset, Err(Damage::Checksum));
                }
                let end = end_of_damaged(&batch, rest, offset, high_watermark);
                self.push(Batch::new(records, &batch, offset..end, Err(Defect::Checksum)));
                offset = end;
                continue;
            }
            if next <= offset {
                continue;
            }
            while let Some(transaction) = aborted.next_if(|it| it.first_offset < next) {
                left_out.push(transaction.producer_id);
            }
            let producer = batch.producer().map_or(-1, |producer| producer.id);
            if batch.is_control() {
                if TransactionMarker::read(&batch).is_some_and(|marker| marker.end == TransactionEnd::Abort) {
                    left_out.retain(|id| *id != producer);
                }
            } else if !(batch.is_transactional() && left_out.contains(&producer)) {
                let compression = match batch.compression() {
                    _ if batch.record_count() == 0 => Err(Defect::Count),
                    Ok(compression) => Ok(compression),
                    Err(code) => Err(Defect::Compression(code)),
                };
                // A log that is compacted keeps batches of which no record is left.
                if batch.record_count() > 0 || !batch.records().is_empty() {
                    self.push(Batch::new(records, &batch, batch.base_offset()..next, compression));
                }
            }
            offset = next;
        }
        (offset, Ok(()))
    }

    fn push(&mut self, batch: Batch) {
        self.bytes += batch.remaining();
        self.records += batch.records();
        self.batches.push_back(batch);
    }

    /// Makes events of at most `limit` records, from `next` on, which goes behind the last one. Records that can't be read make one
    /// event, whatever their number. Returns the number of events and the bytes of their messages. Hot path.
    pub(super) fn deliver(
        &mut self,
        builder: &mut BatchBuilder,
        now: Instant,
        partition: PartitionId,
        encoding: Encoding,
        next: &mut i64,
        limit: usize,
    ) -> (usize, usize) {
        let (mut events, mut bytes) = (0, 0);
        let mut pushing = Pushing { builder, now, partition };
        while events < limit
            && let Some(batch) = self.batches.front_mut()
        {
            let (bytes_before, records_before) = (batch.remaining(), batch.records());
            let mut pushed = match (batch.unpack(self.max_unpacked_bytes), encoding) {
                (Err(defect), _) => Pushed { defect: Some(defect), ..Pushed::default() },
                (Ok(()), Encoding::Amqp) => batch.push_messages(&mut pushing, next, limit - events),
                (Ok(()), Encoding::Kafka | Encoding::Opaque) => {
                    batch.push_tails(&mut pushing, next, limit - events)
                }
            };
            events += pushed.events;
            bytes += pushed.bytes;
            self.bytes -= bytes_before;
            self.records -= records_before;
            if let Some(defect) = pushed.defect.take() {
                let unreadable = batch.push_unreadable(&mut pushing, next, &defect);
                events += unreadable.events;
                bytes += unreadable.bytes;
                self.batches.pop_front();
            } else if batch.remaining() == 0 {
                self.batches.pop_front();
            } else {
                self.bytes += batch.remaining();
                self.records += batch.records();
            }
        }
        (events, bytes)
    }
}

/// The offset after the records of a batch whose header can't be relied on: where an intact batch begins that follows it, or else
/// what the header says, as far as the log reaches.
fn end_of_damaged(batch: &RecordBatch<'_>, rest: &[u8], offset: i64, high_watermark: i64) -> i64 {
    let following = RecordBatch::read(rest).ok().filter(RecordBatch::is_intact);
    let end = following.map_or_else(|| batch.next_offset(), |following| following.base_offset());
    end.min(high_watermark).max(offset.saturating_add(1))
}

#[cfg(test)]
mod tests;
