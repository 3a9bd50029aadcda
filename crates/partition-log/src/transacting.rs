//! The ends of transactions, and what there is to know of them.
//!
//! A transaction begins in a log with the first batch of it that is [appended](PartitionLog::append_record_batch). The
//! coordinator of all logs decides how it ends, and tells each by a marker.

use super::chunk::Protocol;
use super::partition_log::{AppendError, Appended, Author, PartitionLog};
use super::producers::KnownProducer;
use super::transactions::{AbortedTransaction, Ends, OpenTransaction};
use crate::UnixTime;
use kafka::control_batch::TransactionMarker;
use kafka::record_batch::RecordBatch;
use std::ops::Range;

impl PartitionLog {
    /// Ends the transaction that the producer has open here. `None`: it has none here, and nothing was written. Readers see
    /// the end when the marker is committed; if it was written before and is not committed yet, that one is waited for.
    ///
    /// A marker with a newer epoch fences the producer: its batches are refused from then on, whether it had a transaction open
    /// here or not. One with an older epoch than the transaction's is late, and ends nothing. A marker is taken even if the log
    /// is full.
    ///
    /// # Errors
    /// The marker can't be appended; try again later.
    pub fn end_transaction(
        &self,
        now: UnixTime,
        marker: &TransactionMarker,
    ) -> Result<Option<Appended>, AppendError> {
        let mut state = self.lock();
        if let Some(reason) = state.unavailable() {
            return Err(AppendError::Unavailable(reason));
        }
        let ends =
            state.transactions.as_ref().map_or(Ends::Nothing, |transactions| transactions.ends(marker));
        match ends {
            Ends::Open => {}
            Ends::Ended(number) => {
                let commit = state.commit_before(number + 1);
                return Ok(Some(Appended {
                    first_sequence_number: number,
                    record_count: 1,
                    bytes: 0,
                    append_time: state.last_append_time.unwrap_or(now),
                    commit,
                }));
            }
            Ends::Nothing => {
                // A batch of the fenced producer that is on its way would open a transaction that nobody ends.
                state.producers.get_or_insert_default().end_transaction(marker, now);
                return Ok(None);
            }
        }
        let bytes = marker.encode(now.milliseconds());
        let Ok(batch) = RecordBatch::read(&bytes) else {
            return Ok(None);
        };
        let appended = self.append_to(state, now, Protocol::Kafka, Author::Coordinator(marker), |encoder| {
            encoder.put_record_batch(&batch);
            Ok(())
        });
        appended.map(Some)
    }

    /// The producers with an open transaction, and the number at which each began, the oldest first.
    #[must_use]
    pub fn open_transactions(&self) -> Vec<OpenTransaction> {
        self.lock().transactions.as_ref().map(|transactions| transactions.open()).unwrap_or_default()
    }

    /// The aborted transactions that overlap these numbers, in the order of their first ones. Those that end before the log begins
    /// are not known any more.
    #[must_use]
    pub fn aborted_transactions(&self, numbers: Range<u64>) -> Vec<AbortedTransaction> {
        self.lock()
            .transactions
            .as_ref()
            .map(|transactions| transactions.aborted(numbers))
            .unwrap_or_default()
    }

    /// Whether the record of this number belongs to a transaction of this producer that was aborted. Of a record that is not in the
    /// log any more it is not known, so that a reader who still holds it must not use it: it counts as aborted, too.
    #[must_use]
    pub fn is_aborted(&self, producer_id: i64, sequence_number: u64) -> bool {
        let state = self.lock();
        let Some(transactions) = &state.transactions else {
            return false;
        };
        sequence_number < state.begin_sequence_number()
            || transactions.is_aborted(producer_id, sequence_number)
    }

    /// The producers that number their records, in the order of their ids.
    #[must_use]
    pub fn producers(&self) -> Vec<KnownProducer> {
        let state = self.lock();
        let Some(producers) = &state.producers else {
            return Vec::new();
        };
        let first = |id| state.transactions.as_ref().and_then(|transactions| transactions.first_of(id));
        let mut known: Vec<_> = producers.describe(first).collect();
        drop(state);
        known.sort_unstable_by_key(|producer| producer.id);
        known
    }
}
