//! What was known at the end of a segment of those who write to the log.

use super::batch::{BatchHeader, RecordFormat};
use super::producers::{ProducerSnapshot, Producers};
use super::transactions::{TransactionSnapshot, Transactions};
use kafka::control_batch::TransactionMarker;
use kafka::record_batch::RecordBatch;

/// What a sidecar keeps beside what the segment itself is, so that the batches need not be read for it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Knowledge {
    /// The producers that number their records, if there were any.
    pub(crate) producers: Option<ProducerSnapshot>,
    /// The transactions that were open, and those that were aborted in the segment, if there were any.
    pub(crate) transactions: Option<TransactionSnapshot>,
}

/// Learns from a batch that was found in a segment what its append taught.
pub(crate) fn learn(
    producers: &mut Producers,
    transactions: &mut Transactions,
    header: &BatchHeader,
    batch: &[u8],
) {
    let BatchHeader { record_count, first_sequence_number, append_time, .. } = *header;
    if let Some(stamp) = header.producer(batch) {
        producers.record(&stamp, record_count, first_sequence_number, append_time);
        if is_transactional(header, batch) {
            transactions.record(&stamp, first_sequence_number, append_time);
        }
    } else if let Some(marker) = marker(header, batch) {
        producers.end_transaction(&marker, append_time);
        transactions.end(&marker, first_sequence_number);
        transactions.settle(header.next_sequence_number());
    }
}

fn is_transactional(header: &BatchHeader, batch: &[u8]) -> bool {
    record_batch(header, batch).is_some_and(|batch| batch.is_transactional() && !batch.is_control())
}

fn marker(header: &BatchHeader, batch: &[u8]) -> Option<TransactionMarker> {
    TransactionMarker::read(&record_batch(header, batch)?)
}

fn record_batch<'a>(header: &BatchHeader, batch: &'a [u8]) -> Option<RecordBatch<'a>> {
    match header.format {
        RecordFormat::Kafka => RecordBatch::read(batch.get(BatchHeader::LENGTH..)?).ok(),
        RecordFormat::Amqp | RecordFormat::AmqpOfProducer => None,
    }
}
