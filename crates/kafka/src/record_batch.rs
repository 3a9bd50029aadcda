//! Batches of records, version 2: checked as they come from a producer, and numbered in place.
//!
//! ```text
//! offset  0             8        12             16       17      21           23            27              35
//!         ├─────────────┼────────┼──────────────┼────────┼───────┼────────────┼─────────────┼───────────────┼─ …
//!         │ base offset │ length │ leader epoch │ magic 2│ crc32c│ attributes │ last delta  │ base timestamp│
//!         … ─┼───────────────┼─────────────┼────────────────┼───────────────┼──────────────┼─ records …
//!           35 max timestamp 43 producer id 51 producer epoch 53 base sequence 57 count     61
//! ```
//!
//! The checksum covers what follows it. Base offset and leader epoch stand before it, so that a broker changes them without
//! touching anything else: what is stored and what is sent to consumers are the bytes of the producer.

use std::borrow::Cow;

use crate::compression::{Compression, UnpackError};
use crate::{Malformed, record};

/// One batch: bytes that have been [checked](RecordBatch::check).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecordBatch<'a> {
    bytes: &'a [u8],
}

/// What numbers the records of a batch, if anything does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProducerNumbers {
    /// The producer's id.
    pub id: i64,
    /// The producer's epoch.
    pub epoch: i16,
    /// The sequence of the first record.
    pub base_sequence: i32,
}

impl ProducerNumbers {
    /// What stands in a batch that nothing numbers.
    const NONE: Self = Self { id: -1, epoch: -1, base_sequence: -1 };
}

/// Where the timestamps of a batch come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TimestampType {
    /// From the producer.
    CreateTime,
    /// From the broker, when it appended the batch.
    LogAppendTime,
}

/// Why bytes are not a batch that can be stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BatchError {
    /// The bytes end within the batch.
    #[error("the bytes end within a batch: {available} of {needed} are there")]
    Incomplete {
        /// What the batch needs: its length, or that of a header.
        needed: usize,
        /// What there is.
        available: usize,
    },
    /// Bytes follow the batch.
    #[error("{extra} bytes follow the batch; a partition takes one batch per request")]
    MoreThanOne {
        /// How many.
        extra: usize,
    },
    /// A format that Kafka had before version 0.11.
    #[error("message format {magic} is not supported; the client has to be 0.11 or newer")]
    Magic {
        /// What the batch says.
        magic: i8,
    },
    /// The bytes are not those that the producer wrote.
    #[error("the checksum does not match")]
    Checksum,
    /// A compression that is not defined.
    #[error("compression {0} is not defined")]
    Compression(
        /// What the batch says.
        u8,
    ),
    /// The records take more bytes than they may when they are unpacked.
    #[error("the records have more than {maximum} bytes when unpacked")]
    Unpacked {
        /// The bound.
        maximum: usize,
    },
    /// The records are not those that the header announces.
    #[error("invalid records: {0}")]
    Record(#[from] Malformed),
    /// The fields contradict one another.
    #[error("invalid batch: {0}")]
    Invalid(
        /// What is wrong.
        &'static str,
    ),
}

impl<'a> RecordBatch<'a> {
    /// Bytes of everything before the records.
    pub const HEADER_LENGTH: usize = 61;

    /// Checks the batch that `bytes` are, as a producer sends it: length, checksum, counts, and each record unless they are compressed
    /// ([`check_compressed`](crate::check_compressed)). A batch that is not what its header says would stop every reader.
    pub fn check(bytes: &'a [u8]) -> Result<Self, BatchError> {
        let batch = Self::read(bytes)?;
        if batch.bytes.len() < bytes.len() {
            return Err(BatchError::MoreThanOne { extra: bytes.len() - batch.bytes.len() });
        }
        if !batch.is_intact() {
            return Err(BatchError::Checksum);
        }
        let invalid =
            |is_invalid: bool, what| if is_invalid { Err(BatchError::Invalid(what)) } else { Ok(()) };
        invalid(batch.base_offset() != 0, "the base offset is not 0")?;
        invalid(batch.is_control(), "only a broker writes control batches")?;
        let count = batch.i32_at(COUNT_AT);
        invalid(count <= 0, "it has no records")?;
        invalid(batch.i32_at(LAST_DELTA_AT) != count - 1, "the last offset is not that of the last record")?;
        let producer = batch.producer();
        invalid(producer.is_some_and(|producer| producer.epoch < 0), "a producer without an epoch")?;
        invalid(
            producer.is_some_and(|producer| producer.base_sequence < 0),
            "a producer without a sequence",
        )?;
        invalid(batch.is_transactional() && producer.is_none(), "a transaction without a producer")?;
        match batch.compression() {
            Err(code) => Err(BatchError::Compression(code)),
            Ok(Compression::None) => {
                record::check(batch.records(), count).map(|()| batch).map_err(BatchError::from)
            }
            Ok(_) => Ok(batch),
        }
    }

    /// Returns the bytes of the same batch with another greatest timestamp in its header, as Kafka corrects it.
    #[must_use]
    pub fn with_max_timestamp(&self, timestamp: i64) -> Vec<u8> {
        let mut bytes = self.bytes.to_vec();
        bytes[MAX_TIMESTAMP_AT..PRODUCER_ID_AT].copy_from_slice(&timestamp.to_be_bytes());
        write_checksum(&mut bytes);
        bytes
    }

    /// Returns the bytes of the same batch as one whose records have the time of their append, in milliseconds since 1970.
    #[must_use]
    pub fn with_append_time(&self, append_time: i64) -> Vec<u8> {
        let mut bytes = self.bytes.to_vec();
        let attributes = self.attributes() | LOG_APPEND_TIME;
        bytes[ATTRIBUTES_AT..LAST_DELTA_AT].copy_from_slice(&attributes.to_be_bytes());
        bytes[MAX_TIMESTAMP_AT..PRODUCER_ID_AT].copy_from_slice(&append_time.to_be_bytes());
        write_checksum(&mut bytes);
        bytes
    }

    /// The batch at the start of `bytes`, whose length and format alone are looked at: for batches that have been checked.
    pub fn read(bytes: &'a [u8]) -> Result<Self, BatchError> {
        let incomplete = |needed| BatchError::Incomplete { needed, available: bytes.len() };
        if bytes.len() < Self::HEADER_LENGTH {
            return Err(incomplete(Self::HEADER_LENGTH));
        }
        let magic = bytes[MAGIC_AT].cast_signed();
        if magic != MAGIC {
            return Err(BatchError::Magic { magic });
        }
        let length = i32::from_be_bytes(part(bytes, LENGTH_AT));
        let length = usize::try_from(length).ok().and_then(|length| length.checked_add(LENGTH_END));
        let length = length
            .filter(|length| *length >= Self::HEADER_LENGTH)
            .ok_or(BatchError::Invalid("the length is less than that of a header"))?;
        Ok(Self { bytes: bytes.get(..length).ok_or_else(|| incomplete(length))? })
    }

    /// All of it.
    #[must_use]
    pub const fn bytes(&self) -> &'a [u8] {
        self.bytes
    }

    /// The offset of the first record.
    #[must_use]
    pub fn base_offset(&self) -> i64 {
        i64::from_be_bytes(part(self.bytes, 0))
    }

    /// The offset after the last record that it had when it was written: a log that is compacted may have removed some.
    #[must_use]
    pub fn next_offset(&self) -> i64 {
        let records = i64::from(self.i32_at(LAST_DELTA_AT).max(0)) + 1;
        self.base_offset().saturating_add(records)
    }

    /// Whether the bytes are those that were written, by their checksum: for those that read what a broker sends.
    #[must_use]
    pub fn is_intact(&self) -> bool {
        crc32c::crc32c(&self.bytes[ATTRIBUTES_AT..]) == u32::from_be_bytes(part(self.bytes, CRC_AT))
    }

    /// How many records it has.
    #[must_use]
    pub fn record_count(&self) -> u32 {
        self.i32_at(COUNT_AT).max(0).cast_unsigned()
    }

    /// How the records are compressed; the code, if it is not defined.
    pub fn compression(&self) -> Result<Compression, u8> {
        let code = self.attributes() as u8 & 0b111;
        Compression::of(code).ok_or(code)
    }

    /// Where the timestamps come from.
    #[must_use]
    pub fn timestamp_type(&self) -> TimestampType {
        match self.attributes() & LOG_APPEND_TIME {
            0 => TimestampType::CreateTime,
            _ => TimestampType::LogAppendTime,
        }
    }

    /// Whether it belongs to a transaction.
    #[must_use]
    pub fn is_transactional(&self) -> bool {
        self.attributes() & TRANSACTIONAL != 0
    }

    /// Whether it is a marker of the broker, and not for applications.
    #[must_use]
    pub fn is_control(&self) -> bool {
        self.attributes() & CONTROL != 0
    }

    /// What the timestamps of the records count from, in milliseconds since 1970.
    #[must_use]
    pub fn base_timestamp(&self) -> i64 {
        i64::from_be_bytes(part(self.bytes, BASE_TIMESTAMP_AT))
    }

    /// The latest timestamp, in milliseconds since 1970.
    #[must_use]
    pub fn max_timestamp(&self) -> i64 {
        i64::from_be_bytes(part(self.bytes, MAX_TIMESTAMP_AT))
    }

    /// What numbers its records, if anything does.
    #[must_use]
    pub fn producer(&self) -> Option<ProducerNumbers> {
        let numbers = ProducerNumbers {
            id: i64::from_be_bytes(part(self.bytes, PRODUCER_ID_AT)),
            epoch: i16::from_be_bytes(part(self.bytes, PRODUCER_EPOCH_AT)),
            base_sequence: self.i32_at(BASE_SEQUENCE_AT),
        };
        (numbers.id >= 0).then_some(numbers)
    }

    /// The records, compressed as they may be.
    #[must_use]
    pub fn records(&self) -> &'a [u8] {
        &self.bytes[Self::HEADER_LENGTH..]
    }

    /// The records as they are without compression.
    ///
    /// # Errors
    /// They can't be unpacked, or take more than `maximum` bytes then.
    pub fn unpacked(&self, maximum: usize) -> Result<Cow<'a, [u8]>, UnpackError> {
        match self.compression() {
            Ok(Compression::None) => Ok(Cow::Borrowed(self.records())),
            Ok(compression) => compression.unpack(self.records(), maximum).map(Cow::Owned),
            Err(code) => Err(UnpackError::Undefined(code)),
        }
    }

    fn attributes(&self) -> i16 {
        i16::from_be_bytes(part(self.bytes, ATTRIBUTES_AT))
    }

    fn i32_at(&self, at: usize) -> i32 {
        i32::from_be_bytes(part(self.bytes, at))
    }
}

/// Gives a copy of a batch that was [checked](RecordBatch::check) its number in the partition, and the epoch of the
/// partition's leader. Everything else stays as it is.
///
/// # Panics
/// If `batch` is shorter than a header.
pub fn number(batch: &mut [u8], base_offset: u64, leader_epoch: i32) {
    batch[..8].copy_from_slice(&base_offset.to_be_bytes());
    batch[LEADER_EPOCH_AT..MAGIC_AT].copy_from_slice(&leader_epoch.to_be_bytes());
}

/// Writes the header of a batch that a broker makes, over the first bytes of `batch`, whose records are complete and not
/// compressed. The timestamps are those of the broker.
///
/// # Panics
/// If `batch` has no room for a header.
pub fn complete(batch: &mut [u8], base_offset: i64, leader_epoch: i32, record_count: u32, append_time: i64) {
    let attributes = LOG_APPEND_TIME;
    let made = MadeBatch {
        attributes,
        base_offset,
        leader_epoch,
        record_count,
        base_timestamp: append_time,
        max_timestamp: append_time,
        producer: None,
    };
    made.complete(batch);
}

/// What the header of a batch says that is made here.
pub(crate) struct MadeBatch {
    pub(crate) attributes: i16,
    pub(crate) base_offset: i64,
    pub(crate) leader_epoch: i32,
    pub(crate) record_count: u32,
    pub(crate) base_timestamp: i64,
    pub(crate) max_timestamp: i64,
    /// The producer that it is of, or about.
    pub(crate) producer: Option<ProducerNumbers>,
}

impl MadeBatch {
    /// Writes the header over the first bytes of `batch`, whose records are complete.
    pub(crate) fn complete(&self, batch: &mut [u8]) {
        let length = i32::try_from(batch.len() - LENGTH_END).unwrap_or(i32::MAX);
        let last_delta = self.record_count.saturating_sub(1).cast_signed();
        let producer = self.producer.unwrap_or(ProducerNumbers::NONE);
        let mut put = |at: usize, bytes: &[u8]| batch[at..at + bytes.len()].copy_from_slice(bytes);
        put(0, &self.base_offset.to_be_bytes());
        put(LENGTH_AT, &length.to_be_bytes());
        put(LEADER_EPOCH_AT, &self.leader_epoch.to_be_bytes());
        put(MAGIC_AT, &[MAGIC.cast_unsigned()]);
        put(ATTRIBUTES_AT, &self.attributes.to_be_bytes());
        put(LAST_DELTA_AT, &last_delta.to_be_bytes());
        put(BASE_TIMESTAMP_AT, &self.base_timestamp.to_be_bytes());
        put(MAX_TIMESTAMP_AT, &self.max_timestamp.to_be_bytes());
        put(COUNT_AT, &self.record_count.to_be_bytes());
        renumber(batch, producer);
    }
}

/// Gives a batch that is complete, but has not been sent, the numbers of its producer, and the checksum that goes with them.
///
/// # Panics
/// If `batch` is shorter than a header.
pub fn renumber(batch: &mut [u8], producer: ProducerNumbers) {
    let mut put = |at: usize, bytes: &[u8]| batch[at..at + bytes.len()].copy_from_slice(bytes);
    put(PRODUCER_ID_AT, &producer.id.to_be_bytes());
    put(PRODUCER_EPOCH_AT, &producer.epoch.to_be_bytes());
    put(BASE_SEQUENCE_AT, &producer.base_sequence.to_be_bytes());
    write_checksum(batch);
}

fn write_checksum(batch: &mut [u8]) {
    let checksum = crc32c::crc32c(&batch[ATTRIBUTES_AT..]);
    batch[CRC_AT..ATTRIBUTES_AT].copy_from_slice(&checksum.to_be_bytes());
}

#[inline]
fn part<const LENGTH: usize>(bytes: &[u8], at: usize) -> [u8; LENGTH] {
    let found = bytes.get(at..).and_then(|rest| rest.first_chunk());
    *found.expect("a batch has a whole header")
}

const LENGTH_AT: usize = 8;
const LENGTH_END: usize = 12;
const LEADER_EPOCH_AT: usize = 12;
const MAGIC_AT: usize = 16;
const CRC_AT: usize = 17;
const ATTRIBUTES_AT: usize = 21;
const LAST_DELTA_AT: usize = 23;
const BASE_TIMESTAMP_AT: usize = 27;
const MAX_TIMESTAMP_AT: usize = 35;
const PRODUCER_ID_AT: usize = 43;
const PRODUCER_EPOCH_AT: usize = 51;
const BASE_SEQUENCE_AT: usize = 53;
const COUNT_AT: usize = 57;

const MAGIC: i8 = 2;

/// The bit of the attributes that says where the timestamps come from.
const LOG_APPEND_TIME: i16 = 0b1000;

/// The bit of the attributes of a batch that belongs to a transaction.
pub(crate) const TRANSACTIONAL: i16 = 0b1_0000;

/// The bit of the attributes of a batch that is a broker's.
pub(crate) const CONTROL: i16 = 0b10_0000;

#[cfg(test)]
mod tests {
    use bytes::BytesMut;
    use kafka_protocol::indexmap::IndexMap;
    use kafka_protocol::records::{
        Compression as Reference, Record, RecordBatchDecoder, RecordBatchEncoder, RecordEncodeOptions,
        TimestampType,
    };
    use proptest::prelude::*;

    use super::*;

    fn reference(count: i64, value: &[u8]) -> Vec<u8> {
        let record = |offset| Record {
            transactional: false,
            control: false,
            delete_horizon: false,
            partition_leader_epoch: -1,
            producer_id: 77,
            producer_epoch: 3,
            timestamp_type: TimestampType::Creation,
            offset,
            sequence: 40 + offset as i32,
            timestamp: 1_700_000_000_000 + offset,
            key: Some("key".into()),
            value: Some(value.to_vec().into()),
            headers: IndexMap::from([("name".into(), Some("header".into()))]),
        };
        let records: Vec<_> = (0..count).map(record).collect();
        let mut out = BytesMut::new();
        let options = RecordEncodeOptions { version: 2, compression: Reference::None };
        RecordBatchEncoder::encode(&mut out, &records, &options).unwrap();
        out.to_vec()
    }

    #[test]
    fn a_batch_of_another_implementation_is_read() {
        let bytes = reference(5, b"value");
        let batch = RecordBatch::check(&bytes).unwrap();
        assert_eq!(
            (batch.record_count(), batch.base_offset(), batch.compression()),
            (5, 0, Ok(Compression::None))
        );
        assert_eq!((batch.base_timestamp(), batch.max_timestamp()), (1_700_000_000_000, 1_700_000_000_004));
        assert_eq!(batch.producer(), Some(ProducerNumbers { id: 77, epoch: 3, base_sequence: 40 }));
        assert!(!batch.is_transactional() && !batch.is_control());
    }

    #[test]
    fn a_numbered_batch_is_what_another_implementation_reads() {
        let mut bytes = reference(3, &[7; 300]);
        number(&mut bytes, 1_000_000, 4);
        let records = RecordBatchDecoder::decode(&mut bytes::Bytes::from(bytes)).unwrap().records;
        let offsets: Vec<_> = records.iter().map(|record| record.offset).collect();
        assert_eq!(offsets, [1_000_000, 1_000_001, 1_000_002]);
    }

    #[test]
    fn every_flipped_bit_behind_the_changeable_head_is_noticed() {
        let bytes = reference(2, b"value");
        for at in MAGIC_AT..bytes.len() {
            for bit in 0..8 {
                let mut damaged = bytes.clone();
                damaged[at] ^= 1 << bit;
                assert!(RecordBatch::check(&damaged).is_err(), "byte {at}, bit {bit}");
            }
        }
        assert!(matches!(RecordBatch::check(&bytes[..bytes.len() - 1]), Err(BatchError::Incomplete { .. })));
        assert_eq!(
            RecordBatch::check(&[&bytes[..], b"more"].concat()),
            Err(BatchError::MoreThanOne { extra: 4 })
        );
    }

    #[test]
    fn counts_that_lie_under_a_good_checksum_are_noticed() {
        let changed = |at: usize, value: &[u8]| {
            let mut bytes = reference(2, b"value");
            bytes[at..at + value.len()].copy_from_slice(value);
            write_checksum(&mut bytes);
            bytes
        };
        let lies: [(usize, &[u8]); 8] = [
            (COUNT_AT, &3_i32.to_be_bytes()),
            (COUNT_AT, &0_i32.to_be_bytes()),
            (COUNT_AT, &i32::MIN.to_be_bytes()),
            (LAST_DELTA_AT, &5_i32.to_be_bytes()),
            (ATTRIBUTES_AT, &0b10_0000_i16.to_be_bytes()),
            (ATTRIBUTES_AT, &0b111_i16.to_be_bytes()),
            (PRODUCER_EPOCH_AT, &(-1_i16).to_be_bytes()),
            (BASE_SEQUENCE_AT, &(-1_i32).to_be_bytes()),
        ];
        for (at, value) in lies {
            let error = RecordBatch::check(&changed(at, value)).unwrap_err();
            assert!(!matches!(error, BatchError::Checksum), "{at}: {error}");
        }
        // Count and last offset agree with each other, but not with the records.
        let mut bytes = changed(COUNT_AT, &3_i32.to_be_bytes());
        bytes[LAST_DELTA_AT..LAST_DELTA_AT + 4].copy_from_slice(&2_i32.to_be_bytes());
        write_checksum(&mut bytes);
        let error = RecordBatch::check(&bytes).unwrap_err();
        assert_eq!(error, BatchError::Record(Malformed("length of a record")));
        let later = RecordBatch::read(&bytes).unwrap().with_max_timestamp(5);
        let later = RecordBatch::read(&later).unwrap();
        assert!(later.is_intact() && later.max_timestamp() == 5);
        let appended = RecordBatch::check(&reference(2, b"value")).unwrap().with_append_time(77);
        let appended = RecordBatch::check(&appended).unwrap();
        assert_eq!(
            (appended.timestamp_type(), appended.max_timestamp()),
            (super::TimestampType::LogAppendTime, 77)
        );
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_or_refused(bytes: Vec<u8>, like_a_batch: bool, at in 0_usize..61, value: u8) {
            let mut bytes = bytes;
            if like_a_batch {
                bytes = reference(2, &bytes);
                bytes[at] = value;
                write_checksum(&mut bytes);
            }
            if let Ok(batch) = RecordBatch::check(&bytes) {
                prop_assert_eq!(batch.bytes().len(), bytes.len());
                prop_assert!(batch.record_count() > 0);
            }
        }
    }
}
