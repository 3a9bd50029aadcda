//! Control batches: what a broker writes between the records of producers to say how a transaction ended.
//!
//! ```text
//!  header  attributes 0x30 (transactional, control), one record, base sequence -1, id and epoch of the producer
//!  key     ├─ version 0, i16 ─┬─ 0 abort, 1 commit, i16 ─┤
//!  value   ├─ version 0, i16 ─┬─ epoch of the transaction coordinator, i32 ─┤
//! ```
//!
//! Such a batch takes an offset, and no application ever sees it.

use crate::record::{self, Records};
use crate::record_batch::{self, MadeBatch, ProducerNumbers, RecordBatch};

/// How a transaction ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TransactionEnd {
    /// Its records are to be read.
    Commit,
    /// Its records count as never written.
    Abort,
}

/// The end of a transaction in one partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TransactionMarker {
    /// The producer whose transaction it is.
    pub producer_id: i64,
    /// The producer's epoch. One that is newer than that of the records fences whoever wrote them.
    pub producer_epoch: i16,
    /// How it ends.
    pub end: TransactionEnd,
    /// The epoch of the coordinator that decided so.
    pub coordinator_epoch: i32,
}

impl TransactionMarker {
    /// What a batch that was stored says of the end of a transaction; `None` if it says something else.
    #[must_use]
    pub fn read(batch: &RecordBatch<'_>) -> Option<Self> {
        if !batch.is_control() {
            return None;
        }
        let producer = batch.producer()?;
        let record = Records::of(batch.records()).next()?.ok()?;
        let (_version, key) = record.key?.split_first_chunk::<2>()?;
        let (kind, _) = key.split_first_chunk()?;
        let end = match i16::from_be_bytes(*kind) {
            ABORT => TransactionEnd::Abort,
            COMMIT => TransactionEnd::Commit,
            _ => return None,
        };
        let (_version, value) = record.value?.split_first_chunk::<2>()?;
        let (coordinator_epoch, _) = value.split_first_chunk()?;
        let coordinator_epoch = i32::from_be_bytes(*coordinator_epoch);
        Some(Self { producer_id: producer.id, producer_epoch: producer.epoch, end, coordinator_epoch })
    }

    /// The control batch that says so, still without a number in its partition. `time` is in milliseconds since 1970.
    #[must_use]
    pub fn encode(&self, time: i64) -> Vec<u8> {
        let kind = match self.end {
            TransactionEnd::Abort => ABORT,
            TransactionEnd::Commit => COMMIT,
        };
        let mut key = [0; 4];
        key[2..].copy_from_slice(&kind.to_be_bytes());
        let mut value = [0; 6];
        value[2..].copy_from_slice(&self.coordinator_epoch.to_be_bytes());
        let mut batch = vec![0; RecordBatch::HEADER_LENGTH];
        record::encode(&mut batch, 0, Some(&key), Some(&value), std::iter::empty());
        let made = MadeBatch {
            attributes: record_batch::TRANSACTIONAL | record_batch::CONTROL,
            base_offset: 0,
            leader_epoch: -1,
            record_count: 1,
            base_timestamp: time,
            max_timestamp: time,
            producer: Some(ProducerNumbers {
                id: self.producer_id,
                epoch: self.producer_epoch,
                base_sequence: -1,
            }),
        };
        made.complete(&mut batch);
        batch
    }
}

const ABORT: i16 = 0;
const COMMIT: i16 = 1;

#[cfg(test)]
mod tests {
    use kafka_protocol::records::RecordBatchDecoder;
    use proptest::prelude::*;

    use super::*;

    const MARKER: TransactionMarker = TransactionMarker {
        producer_id: 258,
        producer_epoch: 3,
        end: TransactionEnd::Commit,
        coordinator_epoch: 7,
    };

    /// [`MARKER`] at one second after 1970. The checksum is that of another implementation: see the test that reads it.
    #[rustfmt::skip]
    const VECTOR: [u8; 78] = [
        0, 0, 0, 0, 0, 0, 0, 0,             // base offset
        0, 0, 0, 66,                        // length of what follows
        0xff, 0xff, 0xff, 0xff,             // leader epoch
        2,                                  // magic
        0, 0, 0, 0,                         // crc-32c, left out here
        0, 0x30,                            // attributes: transactional, control
        0, 0, 0, 0,                         // last offset delta
        0, 0, 0, 0, 0, 0, 0x03, 0xe8,       // base timestamp
        0, 0, 0, 0, 0, 0, 0x03, 0xe8,       // max timestamp
        0, 0, 0, 0, 0, 0, 1, 2,             // producer id
        0, 3,                               // producer epoch
        0xff, 0xff, 0xff, 0xff,             // base sequence
        0, 0, 0, 1,                         // records
        32,                                 // length of the record: 16
        0, 0, 0,                            // attributes, timestamp delta, offset delta
        8, 0, 0, 0, 1,                      // key: version 0, commit
        12, 0, 0, 0, 0, 0, 7,               // value: version 0, coordinator epoch
        0,                                  // headers
    ];

    #[test]
    fn a_marker_has_the_bytes_that_it_is_drawn_with() {
        let mut bytes = MARKER.encode(1000);
        bytes[17..21].fill(0);
        assert_eq!(bytes, VECTOR);
        let abort = TransactionMarker { end: TransactionEnd::Abort, ..MARKER }.encode(1000);
        assert_eq!(abort[68..70], [0, 0], "the type in the key");
    }

    #[test]
    fn another_implementation_reads_a_marker() {
        let mut bytes = MARKER.encode(1000);
        record_batch::number(&mut bytes, 41, 0);
        // It checks the checksum.
        let records = RecordBatchDecoder::decode(&mut bytes::Bytes::from(bytes)).unwrap().records;
        let [record] = &records[..] else { panic!("{records:?}") };
        assert!(record.transactional && record.control);
        assert_eq!((record.offset, record.timestamp), (41, 1000));
        assert_eq!((record.producer_id, record.producer_epoch, record.sequence), (258, 3, -1));
        assert_eq!(record.key.as_deref(), Some(&[0, 0, 0, 1][..]));
        assert_eq!(record.value.as_deref(), Some(&[0, 0, 0, 0, 0, 7][..]));
    }

    #[test]
    fn no_producer_can_send_one() {
        RecordBatch::check(&MARKER.encode(1000)).unwrap_err();
    }

    #[test]
    fn other_batches_are_no_markers() {
        let with = |at: usize, value: &[u8]| {
            let mut bytes = MARKER.encode(1000);
            bytes[at..at + value.len()].copy_from_slice(value);
            TransactionMarker::read(&RecordBatch::read(&bytes).unwrap())
        };
        assert_eq!(with(22, &[0x30]), Some(MARKER));
        assert_eq!(with(22, &[0x10]), None, "no control batch");
        assert_eq!(with(43, &[0xff]), None, "no producer");
        assert_eq!(with(68, &[0, 2]), None, "a leader's change");
        assert_eq!(with(65, &[1]), None, "no key");
    }

    proptest! {
        #[test]
        fn a_marker_reads_back(
            producer_id in 0..i64::MAX, producer_epoch in 0..i16::MAX, commit: bool, coordinator_epoch: i32, time: i64,
        ) {
            let end = if commit { TransactionEnd::Commit } else { TransactionEnd::Abort };
            let marker = TransactionMarker { producer_id, producer_epoch, end, coordinator_epoch };
            let bytes = marker.encode(time);
            let batch = RecordBatch::read(&bytes).unwrap();
            prop_assert_eq!(TransactionMarker::read(&batch), Some(marker));
            prop_assert_eq!((batch.bytes().len(), batch.max_timestamp()), (bytes.len(), time));
            prop_assert!(batch.is_control() && batch.is_transactional());
        }

        #[test]
        fn any_control_batch_is_read_or_is_none(records: Vec<u8>) {
            let mut bytes = MARKER.encode(1000);
            bytes.truncate(RecordBatch::HEADER_LENGTH);
            bytes.extend(records);
            let length = (bytes.len() - 12) as u32;
            bytes[8..12].copy_from_slice(&length.to_be_bytes());
            let _ = TransactionMarker::read(&RecordBatch::read(&bytes).unwrap());
        }
    }
}
