//! Batches as a producer writes them: record behind record, and the header once it is known what it has to say.
//!
//! ```text
//! ├─ header, 61 bytes ─┬─ record ─┬─ record ─┬─ …
//!                      ├─ length ─┬─ attributes 0 ─┬─ timestamp delta ─┬─ offset delta ─┬─ tail: key, value, headers ─┤
//! ```
//!
//! The *tail* of a record does not depend on where the record stands, so that one is copied from a batch into another as it is.

use crate::compression::{Compression, PackError};
use crate::record;
use crate::record_batch::{self, MadeBatch, ProducerNumbers, RecordBatch};
use crate::write;

/// A batch that is being filled.
#[derive(Clone, Debug, Default)]
pub struct ProducerBatch {
    /// Room for the header, and the records; nothing at all as long as there are none.
    bytes: Vec<u8>,
    count: u32,
    base_timestamp: i64,
    max_timestamp: i64,
}

impl ProducerBatch {
    /// An empty batch that is written into this memory, whose content is forgotten.
    #[must_use]
    pub fn in_memory(mut memory: Vec<u8>) -> Self {
        memory.clear();
        Self { bytes: memory, ..Self::default() }
    }

    /// How many records it has.
    #[must_use]
    pub const fn record_count(&self) -> u32 {
        self.count
    }

    /// Whether it has none.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// How many bytes it is without compression.
    #[must_use]
    pub const fn length(&self) -> usize {
        self.bytes.len()
    }

    /// Makes room for what is about to be appended, so that it is not made piece by piece.
    pub fn reserve(&mut self, bytes: usize) {
        self.bytes.reserve(bytes + RecordBatch::HEADER_LENGTH);
    }

    /// Appends a record of which the tail is given. `timestamp` is in milliseconds since 1970. Hot path.
    #[inline]
    pub fn push_tail(&mut self, timestamp: i64, tail: &[u8]) {
        self.push_head(timestamp, tail.len());
        write::short_bytes(&mut self.bytes, tail);
    }

    /// Appends a record.
    pub fn push<'h>(
        &mut self,
        timestamp: i64,
        key: Option<&[u8]>,
        value: Option<&[u8]>,
        headers: impl Iterator<Item = record::Header<'h>> + Clone,
    ) {
        self.push_head(timestamp, record::tail_length(key, value, headers.clone()));
        record::encode_tail(&mut self.bytes, key, value, headers);
    }

    /// What stands before the tail of a record.
    #[inline]
    fn push_head(&mut self, timestamp: i64, tail_length: usize) {
        if self.count == 0 {
            self.bytes.resize(RecordBatch::HEADER_LENGTH, 0);
            (self.base_timestamp, self.max_timestamp) = (timestamp, timestamp);
        }
        self.max_timestamp = self.max_timestamp.max(timestamp);
        let timestamp_delta = timestamp.wrapping_sub(self.base_timestamp);
        let offset_delta = self.count.cast_signed();
        let length =
            1 + write::varlong_length(timestamp_delta) + write::varint_length(offset_delta) + tail_length;
        let mut head = write::Head::default();
        head.varint(i32::try_from(length).unwrap_or(i32::MAX));
        head.byte(0);
        head.varlong(timestamp_delta);
        head.varint(offset_delta);
        head.append_to(&mut self.bytes);
        self.count += 1;
    }

    /// Completes it: packs the records if they are to be compressed and writes the header. What is left is an empty batch.
    ///
    /// # Errors
    /// The records could not be packed.
    ///
    /// # Panics
    /// If it has no records.
    pub fn complete(
        &mut self,
        compression: Compression,
        producer: Option<ProducerNumbers>,
        is_transactional: bool,
    ) -> Result<Vec<u8>, PackError> {
        let filled = std::mem::take(self);
        let mut bytes = filled.bytes;
        if compression != Compression::None {
            let mut packed = Vec::with_capacity(RecordBatch::HEADER_LENGTH + bytes.len() / 2);
            packed.resize(RecordBatch::HEADER_LENGTH, 0);
            compression.pack(&bytes[RecordBatch::HEADER_LENGTH..], &mut packed)?;
            bytes = packed;
        }
        let mut attributes = compression.code();
        if is_transactional {
            attributes |= record_batch::TRANSACTIONAL;
        }
        let made = MadeBatch {
            attributes,
            base_offset: 0,
            leader_epoch: -1,
            record_count: filled.count,
            base_timestamp: filled.base_timestamp,
            max_timestamp: filled.max_timestamp,
            producer,
        };
        made.complete(&mut bytes);
        Ok(bytes)
    }
}

/// What a record adds to a batch at most beyond its tail: a length, attributes, two deltas.
pub const RECORD_HEAD_MAX: usize = 5 + 1 + 10 + 5;

#[cfg(test)]
mod tests {
    use kafka_protocol::records::RecordBatchDecoder;
    use proptest::prelude::*;

    use super::*;
    use crate::record::Records;
    use crate::record_batch::renumber;

    const NUMBERS: ProducerNumbers = ProducerNumbers { id: 77, epoch: 3, base_sequence: 40 };

    fn tail(value: &[u8]) -> Vec<u8> {
        let mut tail = Vec::new();
        record::encode_tail(
            &mut tail,
            Some(b"key"),
            Some(value),
            [(&b"name"[..], Some(&b"header"[..]))].into_iter(),
        );
        tail
    }

    #[test]
    fn every_compression_is_read_by_another_implementation() {
        let values: Vec<Vec<u8>> = (0..300_u32).map(|number| number.to_le_bytes().repeat(50)).collect();
        for code in 0..5 {
            let compression = Compression::of(code).unwrap();
            let mut batch = ProducerBatch::default();
            for (at, value) in (0..).zip(&values) {
                batch.push_tail(1_700_000_000_000 + at % 7, &tail(value));
            }
            let bytes = batch.complete(compression, Some(NUMBERS), true).unwrap();
            assert!(batch.is_empty() && batch.length() == 0);
            let checked = RecordBatch::check(&bytes).unwrap();
            assert_eq!((checked.record_count(), checked.compression()), (300, Ok(compression)));
            assert_eq!((checked.producer(), checked.is_transactional()), (Some(NUMBERS), true));
            assert_eq!(
                (checked.base_timestamp(), checked.max_timestamp()),
                (1_700_000_000_000, 1_700_000_000_006)
            );
            let unpacked = checked.unpacked(1 << 20).unwrap();
            assert_eq!(record::check(&unpacked, 300), Ok(()));
            if compression == Compression::None {
                let decoded = RecordBatchDecoder::decode(&mut bytes::Bytes::from(bytes.clone())).unwrap();
                for ((record, value), at) in decoded.records.iter().zip(&values).zip(0..) {
                    assert_eq!(record.value.as_deref(), Some(value.as_slice()));
                    assert_eq!(record.timestamp, 1_700_000_000_000 + at % 7);
                    assert_eq!((record.sequence, record.producer_id), (40 + at as i32, 77));
                }
            }
        }
    }

    #[test]
    fn a_batch_is_numbered_anew_without_its_records_being_touched() {
        let mut batch = ProducerBatch::default();
        batch.push_tail(5, &tail(b"value"));
        let mut bytes = batch.complete(Compression::None, Some(NUMBERS), false).unwrap();
        let anew = ProducerNumbers { id: 78, epoch: 0, base_sequence: 0 };
        renumber(&mut bytes, anew);
        assert_eq!(RecordBatch::check(&bytes).unwrap().producer(), Some(anew));
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(
            records in proptest::collection::vec(
                (any::<i64>(), proptest::option::of(any::<Vec<u8>>()), proptest::collection::vec(any::<u8>(), 0..100)), 1..80,
            ),
        ) {
            let mut batch = ProducerBatch::in_memory(vec![7; 100]);
            let mut bound = RecordBatch::HEADER_LENGTH;
            for (timestamp, key, value) in &records {
                batch.push(*timestamp, key.as_deref(), Some(value), std::iter::empty());
                bound += record::tail_length(key.as_deref(), Some(value), std::iter::empty()) + RECORD_HEAD_MAX;
            }
            prop_assert!(batch.length() <= bound);
            let bytes = batch.complete(Compression::None, None, false).unwrap();
            let read = RecordBatch::check(&bytes).unwrap();
            prop_assert_eq!(read.producer(), None);
            for (record, (timestamp, key, value)) in Records::of(read.records()).zip(&records) {
                let record = record.unwrap();
                prop_assert_eq!((record.key, record.value), (key.as_deref(), Some(value.as_slice())));
                prop_assert_eq!(read.base_timestamp().wrapping_add(record.timestamp_delta), *timestamp);
            }
        }
    }
}
