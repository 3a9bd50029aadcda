//! The bytes of a batch, in memory and on disk.
//!
//! ```text
//!  offset  0         4          8                 16               24        28      29     30  32
//!          ├─────────┼──────────┼─────────────────┼────────────────┼─────────┼───────┼──────┼───┼─ records …
//!          │ length  │ checksum │ first sequence  │ append time    │ records │version│format│ 0 │
//!          │ u32     │ crc-32c  │ number, u64     │ ms, i64        │ u32     │ u8    │ u8   │u16│
//!
//!  record  ├─ length, varint ─┬─ annotation length, varint ─┬─ annotation count, varint ─┬─ annotations ─┬─ sections ─┤
//!                             └──────────────────── `length` counts from here to the end ────────────────────────────┘
//! ```
//!
//! * Numbers are little-endian. `length` counts the whole batch, itself included; the checksum covers everything
//!   after itself. It is zero in memory: only files are checked, so it is filled in on the way there ([`sealed_header`]).
//! * The format says what follows the header: 0 is the form drawn here, 1 is one record batch of Kafka (version 2), and 2 is a
//!   [producer's stamp](ProducerStamp) and then records as drawn here. Programs before the format was checked took
//!   every batch for one of format 0, so the version of the data directory is raised
//!   before the first batch of another format is written.
//! * A record batch of Kafka is stored as the producer sent it, compressed as it may be, but for the base offset, which is the
//!   first sequence number, and the epoch of the leader. It has a checksum of its own and, if its producer numbers
//!   records, the producer's id, epoch and sequence.
//!
//! ```text
//!  stamp   ├─ producer id, i64 ─┬─ first sequence, i32 ─┬─ epoch, i16 ─┬─ 0, u16 ─┤
//! ```
//!
//! * A record has no number of its own: it is the batch's first sequence number plus its place in the batch.
//! * A varint is an unsigned LEB128 number of at most 32 bits, so 16-byte events cost three bytes of lengths.
//! * The annotations are the encoded entries of the client's annotation map, without the map's own header, and the
//!   count is that of pairs. The sections are the rest of the message, verbatim.
//!
//! Reading is total: any bytes whatever give a value or an error, without panicking and without allocating.

use crate::UnixTime;
use crate::chunk::Protocol;
use crate::producers::ProducerStamp;
use kafka::record_batch::RecordBatch;

/// The fields of a batch's header, apart from the checksum.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BatchHeader {
    /// Bytes of the batch, header included.
    pub length: u32,
    /// The sequence number of the first record.
    pub first_sequence_number: u64,
    /// When the batch was appended.
    pub append_time: UnixTime,
    /// How many records it has.
    pub record_count: u32,
    /// In which form they are.
    pub format: RecordFormat,
}

/// In which form the records of a batch are stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RecordFormat {
    /// Annotations and sections of AMQP messages, as [`split_record`] reads them. Journals keep their operations so, too.
    Amqp,
    /// The same, after the stamp of the producer that numbers them.
    AmqpOfProducer,
    /// One record batch of Kafka.
    Kafka,
}

/// The batches at the start of some bytes, with their headers. Ends at the first bytes that are not one.
#[derive(Clone, Debug)]
pub(crate) struct Batches<'a> {
    rest: &'a [u8],
}

/// The parts of one record, borrowed from the bytes of its batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecordParts<'a> {
    /// How many key-value pairs `annotations` holds.
    pub annotation_count: u32,
    /// The encoded keys and values, one after the other.
    pub annotations: &'a [u8],
    /// Everything else of the message.
    pub sections: &'a [u8],
}

/// Why bytes are not a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BatchError {
    /// Fewer bytes than the header, or than the header says.
    #[error("the bytes end within a batch: {available} of {needed} are there")]
    Incomplete {
        /// What the batch needs: its length, or that of a header.
        needed: usize,
        /// What there is.
        available: usize,
    },
    /// A length that no batch has. Zeroed space at the end of a file looks like this.
    #[error("a batch can't have {length} bytes")]
    Length {
        /// What the header says.
        length: u32,
    },
    /// A version of another program.
    #[error("batches of version {version} are not supported")]
    Version {
        /// What the header says.
        version: u8,
    },
    /// Records of a form that this program can't read.
    #[error("records of format {format} are not supported")]
    Format {
        /// What the header says.
        format: u8,
    },
    /// The bytes are not those that were written.
    #[error("the checksum does not match")]
    Checksum,
    /// The checksum matches, yet the records don't add up to the batch.
    #[error("the records don't fit their batch")]
    Records,
    /// The checksum matches, but the producer's stamp is invalid.
    #[error("the batch has an invalid producer stamp")]
    Producer,
}

impl BatchHeader {
    /// Bytes of a header.
    pub const LENGTH: usize = 32;

    /// Reads the header at the start of `bytes`, which may go on after the batch. The checksum is not looked at.
    #[inline]
    pub fn read(bytes: &[u8]) -> Result<Self, BatchError> {
        let header: &[u8; Self::LENGTH] = bytes
            .first_chunk()
            .ok_or(BatchError::Incomplete { needed: Self::LENGTH, available: bytes.len() })?;
        let length = u32::from_le_bytes(part(header, 0));
        if length < Self::LENGTH as u32 || length > MAXIMUM_BATCH_LENGTH {
            return Err(BatchError::Length { length });
        }
        if length as usize > bytes.len() {
            return Err(BatchError::Incomplete { needed: length as usize, available: bytes.len() });
        }
        let [version, format] = part(header, 28);
        if version != VERSION {
            return Err(BatchError::Version { version });
        }
        let format = RecordFormat::from_byte(format).ok_or(BatchError::Format { format })?;
        if (length as usize) < Self::LENGTH + format.stamp_length() {
            return Err(BatchError::Length { length });
        }
        Ok(Self {
            length,
            first_sequence_number: u64::from_le_bytes(part(header, 8)),
            append_time: UnixTime::from_milliseconds(i64::from_le_bytes(part(header, 16))),
            record_count: u32::from_le_bytes(part(header, 24)),
            format,
        })
    }

    /// Where in the batch its first record begins.
    #[inline]
    #[must_use]
    pub const fn records_start(&self) -> usize {
        Self::LENGTH + self.format.stamp_length()
    }

    /// The stamp of the producer that numbers the records of `batch`, which this is the header of; `None` if none does.
    #[inline]
    pub(crate) fn producer(&self, batch: &[u8]) -> Option<ProducerStamp> {
        match self.format {
            RecordFormat::Amqp => None,
            RecordFormat::AmqpOfProducer => ProducerStamp::decode(batch.get(Self::LENGTH..)?.first_chunk()?),
            RecordFormat::Kafka => {
                let numbers = RecordBatch::read(batch.get(Self::LENGTH..)?).ok()?.producer()?;
                ProducerStamp::new(numbers.id, numbers.epoch, numbers.base_sequence)
            }
        }
    }

    /// The sequence number after that of the last record.
    #[must_use]
    pub fn next_sequence_number(&self) -> u64 {
        self.first_sequence_number.saturating_add(u64::from(self.record_count))
    }

    /// Writes the header over the first bytes of `batch`, whose records are complete, with a checksum of zero.
    ///
    /// # Panics
    /// If `batch` has no room for a header: the encoder leaves it.
    pub(crate) fn complete(
        batch: &mut [u8],
        first_sequence_number: u64,
        append_time: UnixTime,
        record_count: u32,
        format: RecordFormat,
    ) {
        let length = batch.len() as u32;
        let header: &mut [u8; Self::LENGTH] =
            batch.first_chunk_mut().expect("the encoder left room for a header");
        header[0..4].copy_from_slice(&length.to_le_bytes());
        header[4..8].fill(0);
        header[8..16].copy_from_slice(&first_sequence_number.to_le_bytes());
        header[16..24].copy_from_slice(&append_time.milliseconds().to_le_bytes());
        header[24..28].copy_from_slice(&record_count.to_le_bytes());
        header[28..32].copy_from_slice(&[VERSION, format.byte(), 0, 0]);
    }
}

impl RecordFormat {
    const fn from_byte(format: u8) -> Option<Self> {
        match format {
            AMQP => Some(Self::Amqp),
            KAFKA => Some(Self::Kafka),
            AMQP_OF_PRODUCER => Some(Self::AmqpOfProducer),
            _ => None,
        }
    }

    const fn byte(self) -> u8 {
        match self {
            Self::Amqp => AMQP,
            Self::AmqpOfProducer => AMQP_OF_PRODUCER,
            Self::Kafka => KAFKA,
        }
    }

    /// Whose form it is.
    #[inline]
    #[must_use]
    pub const fn protocol(self) -> Protocol {
        match self {
            Self::Amqp | Self::AmqpOfProducer => Protocol::Amqp,
            Self::Kafka => Protocol::Kafka,
        }
    }

    /// Bytes of the stamp between header and records.
    #[inline]
    pub(crate) const fn stamp_length(self) -> usize {
        match self {
            Self::Amqp | Self::Kafka => 0,
            Self::AmqpOfProducer => STAMP_LENGTH,
        }
    }
}

impl ProducerStamp {
    /// The bytes that stand in a batch.
    pub(crate) fn encode(&self) -> [u8; STAMP_LENGTH] {
        let mut bytes = [0; STAMP_LENGTH];
        bytes[..8].copy_from_slice(&self.id().to_le_bytes());
        bytes[8..12].copy_from_slice(&self.first_sequence().to_le_bytes());
        bytes[12..14].copy_from_slice(&self.epoch().to_le_bytes());
        bytes
    }

    fn decode(bytes: &[u8; STAMP_LENGTH]) -> Option<Self> {
        let (id, rest) = bytes.split_first_chunk()?;
        let (first_sequence, rest) = rest.split_first_chunk()?;
        let (epoch, rest) = rest.split_first_chunk()?;
        let stamp = Self::new(
            i64::from_le_bytes(*id),
            i16::from_le_bytes(*epoch),
            i32::from_le_bytes(*first_sequence),
        );
        stamp.filter(|_| rest == [0; 2])
    }
}

impl<'a> Batches<'a> {
    /// The batches at the start of `bytes`.
    pub(crate) const fn of(bytes: &'a [u8]) -> Self {
        Self { rest: bytes }
    }
}

impl<'a> Iterator for Batches<'a> {
    type Item = (BatchHeader, &'a [u8]);

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        let header = BatchHeader::read(self.rest).ok()?;
        let (batch, rest) = self.rest.split_at(header.length as usize);
        self.rest = rest;
        Some((header, batch))
    }
}

/// The header of a batch with the checksum that it has in a file.
///
/// # Panics
/// If `batch` is shorter than a header.
pub(crate) fn sealed_header(batch: &[u8]) -> [u8; BatchHeader::LENGTH] {
    let mut header = *batch.first_chunk().expect("a batch begins with its header");
    header[4..8].copy_from_slice(&checksum(batch).to_le_bytes());
    header
}

/// The checksum of everything in a batch that follows its checksum.
fn checksum(batch: &[u8]) -> u32 {
    crc32c::crc32c(&batch[8..])
}

/// Reads the batch at the start of `bytes` and checks all of it: header, checksum and every record.
pub fn check(bytes: &[u8]) -> Result<BatchHeader, BatchError> {
    let header = BatchHeader::read(bytes)?;
    let batch = &bytes[..header.length as usize];
    let written = u32::from_le_bytes(part(batch.first_chunk().ok_or(BatchError::Records)?, 4));
    if checksum(batch) != written {
        return Err(BatchError::Checksum);
    }
    if header.format == RecordFormat::AmqpOfProducer && header.producer(batch).is_none() {
        return Err(BatchError::Producer);
    }
    let mut rest = &batch[header.records_start()..];
    match header.format {
        RecordFormat::Amqp | RecordFormat::AmqpOfProducer => {
            for _ in 0..header.record_count {
                // Every record takes at least a byte, so a false count ends with the bytes.
                (_, rest) = split_record(rest).ok_or(BatchError::Records)?;
            }
        }
        RecordFormat::Kafka => {
            let stored = RecordBatch::read(rest).map_err(|_invalid| BatchError::Records)?;
            let is_numbered = u64::try_from(stored.base_offset()) == Ok(header.first_sequence_number);
            if !is_numbered || stored.record_count() != header.record_count {
                return Err(BatchError::Records);
            }
            rest = &rest[stored.bytes().len()..];
        }
    }
    let numbers_fit = header.first_sequence_number.checked_add(u64::from(header.record_count)).is_some();
    match rest.is_empty() && header.record_count > 0 && numbers_fit {
        true => Ok(header),
        false => Err(BatchError::Records),
    }
}

/// Whether `bytes` begin with as many bytes as they say, under the right checksum: true of batches of every version and
/// format.
pub(crate) fn has_intact_checksum(bytes: &[u8]) -> bool {
    let Some(header) = bytes.first_chunk::<{ BatchHeader::LENGTH }>() else {
        return false;
    };
    let length = u32::from_le_bytes(part(header, 0)) as usize;
    let checksum = u32::from_le_bytes(part(header, 4));
    bytes.get(8..length).is_some_and(|covered| crc32c::crc32c(covered) == checksum)
}

/// The record at the start of `bytes`, and the bytes after it.
#[inline]
#[must_use]
pub fn split_record(bytes: &[u8]) -> Option<(RecordParts<'_>, &[u8])> {
    let (record, rest) = split_record_bytes(bytes)?;
    let (annotation_length, record) = split_varint(record)?;
    let (annotation_count, record) = split_varint(record)?;
    let (annotations, sections) = record.split_at_checked(annotation_length as usize)?;
    Some((RecordParts { annotation_count, annotations, sections }, rest))
}

/// The record at the start of `bytes` without its own length, and the bytes after it. This is all that passing over
/// a record takes.
#[inline]
pub(crate) fn split_record_bytes(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let (length, rest) = split_varint(bytes)?;
    rest.split_at_checked(length as usize)
}

#[inline]
fn split_varint(bytes: &[u8]) -> Option<(u32, &[u8])> {
    match bytes.split_first()? {
        (&first, rest) if first < 0x80 => Some((u32::from(first), rest)),
        _ => split_long_varint(bytes),
    }
}

/// Apart, so that the usual short number stays small where it is inlined.
fn split_long_varint(bytes: &[u8]) -> Option<(u32, &[u8])> {
    let mut value = 0_u32;
    for (index, &byte) in bytes.iter().take(MAXIMUM_VARINT_LENGTH).enumerate() {
        let bits = u32::from(byte & 0x7f);
        let shift = 7 * index as u32;
        // The fifth byte has room for four bits.
        if bits.leading_zeros() < shift {
            return None;
        }
        value |= bits << shift;
        if byte < 0x80 {
            return Some((value, &bytes[index + 1..]));
        }
    }
    None
}

/// Puts `value` at `bytes[at..]` and returns where it ends.
#[inline]
pub(crate) fn put_varint(bytes: &mut [u8; 16], mut at: usize, mut value: u32) -> usize {
    while value >= 0x80 {
        bytes[at] = value as u8 | 0x80;
        value >>= 7;
        at += 1;
    }
    bytes[at] = value as u8;
    at + 1
}

/// How many bytes [`put_varint`] takes for `value`.
#[inline]
pub(crate) fn varint_length(value: u32) -> usize {
    (u32::BITS - (value | 1).leading_zeros()).div_ceil(7) as usize
}

#[inline]
fn part<const LENGTH: usize>(header: &[u8; BatchHeader::LENGTH], offset: usize) -> [u8; LENGTH] {
    let mut bytes = [0; LENGTH];
    bytes.copy_from_slice(&header[offset..offset + LENGTH]);
    bytes
}

/// Three 32-bit varints lead a record; this many bytes are enough for them.
pub(crate) const MAXIMUM_RECORD_HEAD_LENGTH: usize = 3 * MAXIMUM_VARINT_LENGTH;

/// Far above any message size that a service allows; a larger length can only be damage.
pub const MAXIMUM_BATCH_LENGTH: u32 = 64 * 1024 * 1024;

const MAXIMUM_VARINT_LENGTH: usize = 5;
const VERSION: u8 = 1;

/// [`RecordFormat::Amqp`] in a header.
const AMQP: u8 = 0;

/// [`RecordFormat::Kafka`] in a header.
const KAFKA: u8 = 1;

/// [`RecordFormat::AmqpOfProducer`] in a header.
const AMQP_OF_PRODUCER: u8 = 2;

const STAMP_LENGTH: usize = 16;

const _: () = assert!(MAXIMUM_RECORD_HEAD_LENGTH < 16, "a record's head fits the array that write_few takes");

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Completes `batch` as it is in a file.
    pub(crate) fn complete_sealed(
        batch: &mut [u8],
        first_sequence_number: u64,
        append_time: UnixTime,
        record_count: u32,
    ) {
        BatchHeader::complete(batch, first_sequence_number, append_time, record_count, RecordFormat::Amqp);
        let header = sealed_header(batch);
        batch[..BatchHeader::LENGTH].copy_from_slice(&header);
    }

    /// One batch as it is stored: first number 7, time 1000 ms, two records, the first with one annotation pair.
    #[rustfmt::skip]
    const VECTOR: [u8; 45] = [
        45, 0, 0, 0,                    // length
        0x00, 0x00, 0x00, 0x00,         // crc-32c of what follows; see the test
        7, 0, 0, 0, 0, 0, 0, 0,         // first sequence number
        0xe8, 3, 0, 0, 0, 0, 0, 0,      // append time
        2, 0, 0, 0,                     // records
        1, 0, 0, 0,                     // version, format, 0
        7, 2, 1, b'k', b'v', b'a', b'b', b'c', // record: 7 bytes; 2 bytes of annotations, 1 pair; sections "abc"
        4, 0, 0, b'd', b'e',            // record: 4 bytes; no annotations; sections "de"
    ];

    #[test]
    fn the_stored_form_is_the_drawn_one() {
        let mut batch = VECTOR;
        complete_sealed(&mut batch, 7, UnixTime::from_milliseconds(1000), 2);
        assert_eq!(batch[..4], VECTOR[..4]);
        assert_eq!(batch[8..], VECTOR[8..]);
        // Computed with a bitwise implementation in Python.
        assert_eq!(batch[4..8], VECTOR_CHECKSUM);
        let header = check(&batch).unwrap();
        let expected = BatchHeader {
            length: 45,
            first_sequence_number: 7,
            append_time: UnixTime::from_milliseconds(1000),
            record_count: 2,
            format: RecordFormat::Amqp,
        };
        assert_eq!(header, expected);
        assert_eq!(header.next_sequence_number(), 9);
        let (first, rest) = split_record(&batch[BatchHeader::LENGTH..]).unwrap();
        assert_eq!(first, RecordParts { annotation_count: 1, annotations: b"kv", sections: b"abc" });
        let (second, rest) = split_record(rest).unwrap();
        assert_eq!(second, RecordParts { annotation_count: 0, annotations: b"", sections: b"de" });
        assert!(rest.is_empty());
    }

    const VECTOR_CHECKSUM: [u8; 4] = [37, 77, 89, 82];

    fn stored_vector() -> [u8; 45] {
        let mut batch = VECTOR;
        batch[4..8].copy_from_slice(&VECTOR_CHECKSUM);
        batch
    }

    #[test]
    fn a_batch_cut_at_any_byte_is_incomplete() {
        let batch = stored_vector();
        for length in 0..batch.len() {
            assert!(matches!(check(&batch[..length]), Err(BatchError::Incomplete { .. })), "cut at {length}");
        }
    }

    #[test]
    fn a_batch_with_any_bit_flipped_is_refused() {
        let batch = stored_vector();
        for bit in 0..batch.len() * 8 {
            let mut damaged = batch;
            damaged[bit / 8] ^= 1 << (bit % 8);
            assert!(check(&damaged).is_err(), "bit {bit}");
        }
    }

    #[test]
    fn a_batch_whose_records_dont_add_up_is_refused_though_its_checksum_matches() {
        for (record_count, tail) in
            [(3, &[4, 0, 0, b'd', b'e'][..]), (1, &[]), (0, &[]), (2, &[5, 0, 0, b'd', b'e'])]
        {
            let mut batch = VECTOR;
            batch[VECTOR.len() - tail.len()..].copy_from_slice(tail);
            complete_sealed(&mut batch, 7, UnixTime::default(), record_count);
            assert_eq!(check(&batch), Err(BatchError::Records), "{record_count} {tail:?}");
        }
        let mut batch = VECTOR;
        complete_sealed(&mut batch, u64::MAX - 1, UnixTime::default(), 2);
        assert_eq!(check(&batch), Err(BatchError::Records));
    }

    #[test]
    fn every_format_but_ours_is_refused_by_its_number() {
        for format in (0..=u8::MAX).filter(|format| RecordFormat::from_byte(*format).is_none()) {
            let mut batch = VECTOR;
            batch[29] = format;
            let header = sealed_header(&batch);
            batch[..BatchHeader::LENGTH].copy_from_slice(&header);
            assert_eq!(BatchHeader::read(&batch), Err(BatchError::Format { format }));
            assert_eq!(check(&batch), Err(BatchError::Format { format }));
            assert!(has_intact_checksum(&batch));
        }
        assert_eq!(BatchError::Format { format: 3 }.to_string(), "records of format 3 are not supported");
    }

    /// [`VECTOR`] with the stamp of producer 258, epoch 3, first sequence 4.
    #[rustfmt::skip]
    const STAMP: [u8; 16] = [
        2, 1, 0, 0, 0, 0, 0, 0,         // producer id
        4, 0, 0, 0,                     // first sequence
        3, 0, 0, 0,                     // epoch, 0
    ];

    fn stamped(stamp: &[u8; 16]) -> Vec<u8> {
        let mut batch = [&VECTOR[..BatchHeader::LENGTH], stamp, &VECTOR[BatchHeader::LENGTH..]].concat();
        let time = UnixTime::from_milliseconds(1000);
        BatchHeader::complete(&mut batch, 7, time, 2, RecordFormat::AmqpOfProducer);
        let header = sealed_header(&batch);
        batch[..BatchHeader::LENGTH].copy_from_slice(&header);
        batch
    }

    #[test]
    fn a_producers_stamp_stands_before_the_records() {
        let stamp = ProducerStamp::new(258, 3, 4).unwrap();
        assert_eq!(stamp.encode(), STAMP);
        let batch = stamped(&STAMP);
        let header = check(&batch).unwrap();
        assert_eq!((header.format, header.record_count), (RecordFormat::AmqpOfProducer, 2));
        assert_eq!(header.producer(&batch), Some(stamp));
        let (first, _rest) = split_record(&batch[header.records_start()..]).unwrap();
        assert_eq!(first, RecordParts { annotation_count: 1, annotations: b"kv", sections: b"abc" });
        assert_eq!(BatchHeader::read(&stored_vector()).unwrap().producer(&stored_vector()), None);
    }

    #[test]
    fn a_stamp_that_no_producer_has_is_refused_though_the_checksum_matches() {
        for (at, value) in [(7, 0x80), (11, 0x80), (13, 0x80), (14, 1), (15, 1)] {
            let mut stamp = STAMP;
            stamp[at] = value;
            assert_eq!(check(&stamped(&stamp)), Err(BatchError::Producer), "byte {at}");
        }
        let mut short = stamped(&STAMP);
        short[..4].copy_from_slice(&47_u32.to_le_bytes());
        assert_eq!(BatchHeader::read(&short), Err(BatchError::Length { length: 47 }));
    }

    #[test]
    fn lengths_beyond_the_limit_and_zeroed_space_are_refused() {
        let with_length = |length: u32| {
            let mut batch = stored_vector();
            batch[..4].copy_from_slice(&length.to_le_bytes());
            check(&batch).unwrap_err()
        };
        assert_eq!(
            with_length(MAXIMUM_BATCH_LENGTH + 1),
            BatchError::Length { length: MAXIMUM_BATCH_LENGTH + 1 }
        );
        let needed = MAXIMUM_BATCH_LENGTH as usize;
        assert_eq!(with_length(MAXIMUM_BATCH_LENGTH), BatchError::Incomplete { needed, available: 45 });
        assert_eq!(with_length(31), BatchError::Length { length: 31 });
        assert_eq!(check(&[0; 4096]), Err(BatchError::Length { length: 0 }));
    }

    #[test]
    fn a_varint_of_more_than_32_bits_or_without_end_is_refused() {
        assert_eq!(split_varint(&[0xff, 0xff, 0xff, 0xff, 0x0f, 9]), Some((u32::MAX, &[9][..])));
        assert_eq!(split_varint(&[0xff, 0xff, 0xff, 0xff, 0x1f]), None);
        assert_eq!(split_varint(&[0x80, 0x80, 0x80, 0x80, 0x80, 0x00]), None);
        assert_eq!(split_varint(&[0x80]), None);
        assert_eq!(split_varint(&[]), None);
    }

    proptest! {
        #[test]
        fn a_varint_reads_back_in_the_announced_length(value: u32) {
            for value in [value, value >> 7, value >> 14, value >> 21, value >> 28] {
                let mut bytes = [0; 16];
                let end = put_varint(&mut bytes, 0, value);
                prop_assert_eq!(end, varint_length(value));
                prop_assert_eq!(split_varint(&bytes[..end]), Some((value, &[][..])));
            }
        }
    }
}
