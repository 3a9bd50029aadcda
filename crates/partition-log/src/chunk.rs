//! What a reader gets: a piece of a segment, and the records in it.

use super::batch::{BatchHeader, Batches, RecordFormat, split_record, split_record_bytes};
use super::block::BlockSlice;
use super::block_pool::BlockPool;
use super::encoder::BatchEncoder;
use super::limits::SMALLEST_BLOCK;
use super::position::{Cursor, Isolation, Place};
use crate::UnixTime;
use kafka::record_batch::RecordBatch;
use std::iter::FusedIterator;
use std::ops::Range;
use std::sync::Arc;

/// Whole batches of one segment and of one protocol, shared with the log's memory.
///
/// Holding it keeps the memory of a whole segment; encode what it has and let go of it.
#[derive(Clone, Debug)]
pub struct LogChunk {
    bytes: BlockSlice,
    /// Where the first record that the reader wants is. `bytes` begins with its batch.
    first: Place,
    /// Whether the bytes are those of the log, where places count.
    is_copy: bool,
    first_sequence_number: u64,
    next_sequence_number: u64,
    skipped: u64,
    /// That of the cursor.
    isolation: Isolation,
}

/// Why a batch can't be had in another form.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CopyError<E> {
    /// Its records can't be encoded.
    #[error(transparent)]
    Encoding(E),
    /// Other than as many records as the batch has.
    #[error("the batch does not have as many records as it says")]
    Count,
    /// The records are longer than a batch may be.
    #[error("the records are longer than a batch may be")]
    TooLong,
}

/// Numbers, time and isolation that copies of the records of a batch have in common with it. It does not keep the memory of the log.
#[derive(Clone, Debug)]
pub struct Origin {
    first: Place,
    /// Sequence numbers of the records that are to be read.
    sequence_numbers: Range<u64>,
    append_time: UnixTime,
    /// Records that the reader has missed before these.
    skipped: u64,
    isolation: Isolation,
}

/// Whose form the records of a batch have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protocol {
    /// That of AMQP messages.
    Amqp,
    /// That of Kafka's record batches.
    Kafka,
}

/// One event, borrowed from a chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record<'a> {
    /// Its number in the partition, and in decimal its offset.
    pub sequence_number: u64,
    /// When its batch was appended.
    pub append_time: UnixTime,
    /// How many key-value pairs `annotations` holds.
    pub annotation_count: u32,
    /// The encoded keys and values of the client's annotations, without a map header.
    pub annotations: &'a [u8],
    /// The rest of the message, verbatim.
    pub sections: &'a [u8],
}

/// One batch, borrowed from a chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Batch<'a> {
    /// In which form its records are.
    pub format: RecordFormat,
    /// The number of its first record.
    pub first_sequence_number: u64,
    /// How many records it has.
    pub record_count: u32,
    /// When it was appended.
    pub append_time: UnixTime,
    /// Its records, as they are stored.
    pub bytes: &'a [u8],
}

/// The records of a chunk, in order. Stop wherever you like: [`cursor`](Self::cursor) is where to go on.
#[derive(Clone, Debug)]
pub struct Records<'a> {
    /// What is left of the present batch.
    batch: &'a [u8],
    /// What follows the present batch.
    after: &'a [u8],
    /// Where the present batch begins in the segment, and how many bytes it has.
    batch_position: usize,
    batch_length: usize,
    append_time: UnixTime,
    next_sequence_number: u64,
    end_sequence_number: u64,
    segment: u64,
    is_copy: bool,
    isolation: Isolation,
}

/// What there is to read, as a cursor finds it.
pub(super) struct Available {
    /// Batches of one segment, the first with the record that the cursor stands before.
    pub(super) bytes: BlockSlice,
    /// Where that record is.
    pub(super) first: Place,
    /// From that record to the end of what may be read; batches may follow.
    pub(super) sequence_numbers: Range<u64>,
    /// Records that the reader has missed.
    pub(super) skipped: u64,
    /// Whether there may be batches of several protocols.
    pub(super) is_mixed: bool,
    /// Whether there may be batches behind the end.
    pub(super) is_cut: bool,
    /// That of the cursor.
    pub(super) isolation: Isolation,
}

impl LogChunk {
    /// Cuts what is `available` after the last batch that ends within `max_bytes`; at least one batch stays. It is cut where the
    /// protocol changes, too, and where what may be read ends.
    pub(super) fn new(available: Available, max_bytes: usize) -> Self {
        let Available { bytes, first, sequence_numbers, skipped, isolation, .. } = available;
        let mut length = bytes.len();
        let mut next_sequence_number = sequence_numbers.end;
        if length > max_bytes || available.is_mixed || available.is_cut {
            length = 0;
            let mut protocol = None;
            for (header, batch) in Batches::of(&bytes) {
                let end = length + batch.len();
                let own = header.format.protocol();
                let is_other = *protocol.get_or_insert(own) != own;
                let is_beyond = header.first_sequence_number >= sequence_numbers.end;
                if is_other || is_beyond || (end > max_bytes && length > 0) {
                    break;
                }
                length = end;
                next_sequence_number = header.next_sequence_number();
            }
        }
        Self {
            bytes: bytes.truncated(length),
            first,
            is_copy: false,
            first_sequence_number: sequence_numbers.start,
            next_sequence_number,
            skipped,
            isolation,
        }
    }

    /// The first batch in the form of AMQP, with records that `encode` pushes: as many as the batch has. It is read like what is
    /// in the log, and a cursor in it is one of the log.
    ///
    /// # Errors
    /// `encode` failed, or did not push as many.
    pub fn as_amqp<E>(
        &self,
        pool: &Arc<BlockPool>,
        encode: impl FnOnce(&Batch<'_>, &mut BatchEncoder<'_>) -> Result<(), E>,
    ) -> Result<Self, CopyError<E>> {
        let batch = self.batches().next().ok_or(CopyError::Count)?;
        let origin = self.origin(&batch);
        let capacity = batch.bytes.len();
        let encode = |encoder: &mut BatchEncoder<'_>| {
            encode(&batch, encoder).map_err(CopyError::Encoding)?;
            match encoder.record_count() == batch.record_count {
                true => Ok(()),
                false => Err(CopyError::Count),
            }
        };
        origin.copy_records(pool, capacity, batch.first_sequence_number, encode)
    }

    /// Returns what copies of the records of `batch`, one of its batches, keep of this chunk.
    #[must_use]
    pub fn origin(&self, batch: &Batch<'_>) -> Origin {
        let end = batch.first_sequence_number + u64::from(batch.record_count);
        Origin {
            first: Place { record: None, ..self.first },
            sequence_numbers: self.first_sequence_number..end.min(self.next_sequence_number),
            append_time: batch.append_time,
            skipped: self.skipped,
            isolation: self.isolation,
        }
    }

    /// The same from the record of this number on; `None` if that is not in it.
    #[must_use]
    pub fn starting_at(&self, sequence_number: u64) -> Option<Self> {
        let range = self.first_sequence_number..self.next_sequence_number;
        let first = Place { record: None, ..self.first };
        range.contains(&sequence_number).then(|| Self {
            first,
            first_sequence_number: sequence_number,
            skipped: 0,
            ..self.clone()
        })
    }

    /// The batches, whole: the first one may begin before the record that the cursor stood before.
    pub fn batches(&self) -> impl Iterator<Item = Batch<'_>> {
        Batches::of(&self.bytes).map(|(header, batch)| Batch::of(&header, batch))
    }

    /// Which protocol the batches are of.
    #[must_use]
    pub fn protocol(&self) -> Protocol {
        BatchHeader::read(&self.bytes).map_or(Protocol::Amqp, |header| header.format.protocol())
    }

    /// The records, from the one that the cursor stood before. A chunk of Kafka's batches has none here: they may be compressed.
    #[must_use]
    pub fn records(&self) -> Records<'_> {
        let mut records = Records {
            batch: &[],
            after: &self.bytes,
            batch_position: self.first.batch,
            batch_length: 0,
            append_time: UnixTime::MIN,
            next_sequence_number: self.first_sequence_number,
            end_sequence_number: self.next_sequence_number,
            segment: self.first.segment,
            is_copy: self.is_copy,
            isolation: self.isolation,
        };
        records.enter_first_batch(self.first.record);
        records
    }

    /// How many records [`records`](Self::records) has.
    #[must_use]
    pub fn record_count(&self) -> u64 {
        self.next_sequence_number - self.first_sequence_number
    }

    /// How many records the reader missed before this chunk, because retention had dropped them.
    #[must_use]
    pub fn skipped(&self) -> u64 {
        self.skipped
    }

    /// The batches as they are stored.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// The cursor before a batch of it.
    #[must_use]
    pub fn cursor_before(&self, batch: &Batch<'_>) -> Cursor {
        Cursor { isolation: self.isolation, ..Cursor::before(batch.first_sequence_number) }
    }

    /// The cursor before the first record.
    #[must_use]
    pub fn start(&self) -> Cursor {
        let place = (!self.is_copy).then_some(self.first);
        Cursor { place, isolation: self.isolation, ..Cursor::before(self.first_sequence_number) }
    }

    /// The cursor after the last record.
    #[must_use]
    pub fn end(&self) -> Cursor {
        let cursor = Cursor { isolation: self.isolation, ..Cursor::before(self.next_sequence_number) };
        if self.is_copy {
            return cursor;
        }
        let place =
            Place { segment: self.first.segment, batch: self.first.batch + self.bytes.len(), record: None };
        Cursor { place: Some(place), ..cursor }
    }
}

impl<'a> Batch<'a> {
    /// The batch that `header` begins.
    pub(super) fn of(header: &BatchHeader, batch: &'a [u8]) -> Self {
        Self {
            format: header.format,
            first_sequence_number: header.first_sequence_number,
            record_count: header.record_count,
            append_time: header.append_time,
            bytes: &batch[header.records_start()..],
        }
    }

    /// Its record batch, if it has the form of Kafka.
    #[must_use]
    pub fn record_batch(&self) -> Option<RecordBatch<'a>> {
        match self.format.protocol() {
            Protocol::Kafka => RecordBatch::read(self.bytes).ok(),
            Protocol::Amqp => None,
        }
    }

    /// Returns the greatest timestamp of its records as Kafka's clients see them: that of the append where records have none. The
    /// records are not unpacked. A marker of a transaction has none, since no client reads it, and returns [`UnixTime::MIN`].
    #[must_use]
    pub fn latest_timestamp(&self) -> UnixTime {
        self.record_batch().as_ref().map_or(self.append_time, latest_timestamp)
    }
}

/// Returns the greatest timestamp of the records of a batch, by its header; [`UnixTime::MIN`] for a marker of a transaction.
pub(super) fn latest_timestamp(batch: &RecordBatch<'_>) -> UnixTime {
    match batch.is_control() {
        true => UnixTime::MIN,
        false => UnixTime::from_milliseconds(batch.max_timestamp()),
    }
}

impl Origin {
    /// Returns the records that `encode` pushes in the form of AMQP, in a block of `capacity` bytes or more. The first has the number
    /// `first`. The result is read like what is in the log, and a cursor in it is one of the log.
    ///
    /// # Errors
    /// `encode` failed, or pushed no records or too many bytes.
    pub fn copy_records<E>(
        &self,
        pool: &Arc<BlockPool>,
        capacity: usize,
        first: u64,
        encode: impl FnOnce(&mut BatchEncoder<'_>) -> Result<(), CopyError<E>>,
    ) -> Result<LogChunk, CopyError<E>> {
        let mut writer = pool.take(capacity.next_power_of_two());
        let mut encoder = BatchEncoder::new(&mut writer, pool, SMALLEST_BLOCK, Protocol::Amqp, None);
        encode(&mut encoder)?;
        if encoder.record_count() == 0 {
            return Err(CopyError::Count);
        }
        let encoded = encoder.finish(first, self.append_time).ok_or(CopyError::TooLong)?;
        let mut writer = encoded.replacement.unwrap_or(writer);
        writer.publish();
        let end = first + u64::from(encoded.record_count);
        let wanted = first.max(self.sequence_numbers.start)..end.min(self.sequence_numbers.end);
        Ok(LogChunk {
            bytes: writer.slice(0..writer.published_length()),
            first: self.first,
            is_copy: true,
            first_sequence_number: wanted.start,
            next_sequence_number: wanted.end,
            skipped: if first <= self.sequence_numbers.start { self.skipped } else { 0 },
            isolation: self.isolation,
        })
    }
}

impl<'a> Batch<'a> {
    /// Its records. A batch of Kafka's has none here.
    pub fn records(&self) -> impl Iterator<Item = Record<'a>> + use<'a> {
        let Self { format, first_sequence_number, append_time, .. } = *self;
        let mut rest = if format.protocol() == Protocol::Amqp { self.bytes } else { &[] };
        (first_sequence_number..).map_while(move |sequence_number| {
            let (parts, after) = split_record(rest)?;
            rest = after;
            Some(Record {
                sequence_number,
                append_time,
                annotation_count: parts.annotation_count,
                annotations: parts.annotations,
                sections: parts.sections,
            })
        })
    }
}

impl AsRef<[u8]> for LogChunk {
    /// The batches as they are stored.
    fn as_ref(&self) -> &[u8] {
        self.bytes()
    }
}

impl Records<'_> {
    /// The cursor before the next record that this iterator would give.
    #[must_use]
    pub fn cursor(&self) -> Cursor {
        let cursor = Cursor { isolation: self.isolation, ..Cursor::before(self.next_sequence_number) };
        if self.is_copy {
            return cursor;
        }
        let batch_end = self.batch_position + self.batch_length;
        let (batch, record) = match self.batch.is_empty() {
            true => (batch_end, None),
            false => (self.batch_position, Some(batch_end - self.batch.len())),
        };
        let place = Place { segment: self.segment, batch, record };
        Cursor { place: Some(place), ..cursor }
    }

    /// Enters the batch of the first wanted record and passes over the records before it: at once if the record's
    /// place in the segment is known, one length after the other if not.
    fn enter_first_batch(&mut self, record: Option<usize>) {
        let Some(header) = self.enter_batch() else {
            return;
        };
        if let Some(position) = record {
            let offset = position.saturating_sub(self.batch_position + header.records_start());
            self.batch = self.batch.get(offset..).unwrap_or_default();
            return;
        }
        for _ in header.first_sequence_number..self.next_sequence_number {
            let Some((_record, rest)) = split_record_bytes(self.batch) else {
                return;
            };
            self.batch = rest;
        }
    }

    #[inline]
    fn enter_batch(&mut self) -> Option<BatchHeader> {
        let header = BatchHeader::read(self.after).ok()?;
        if header.format.protocol() != Protocol::Amqp {
            self.next_sequence_number = self.end_sequence_number;
            return None;
        }
        self.batch_position += self.batch_length;
        self.batch_length = header.length as usize;
        let (batch, after) = self.after.split_at(self.batch_length);
        self.batch = &batch[header.records_start()..];
        self.after = after;
        self.append_time = header.append_time;
        Some(header)
    }
}

impl<'a> Iterator for Records<'a> {
    type Item = Record<'a>;

    #[inline]
    fn next(&mut self) -> Option<Record<'a>> {
        if self.batch.is_empty() {
            self.enter_batch()?;
        }
        let (parts, rest) = split_record(self.batch)?;
        self.batch = rest;
        let sequence_number = self.next_sequence_number;
        self.next_sequence_number += 1;
        Some(Record {
            sequence_number,
            append_time: self.append_time,
            annotation_count: parts.annotation_count,
            annotations: parts.annotations,
            sections: parts.sections,
        })
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        // Records take memory, so their number fits.
        let remaining = (self.end_sequence_number - self.next_sequence_number) as usize;
        (remaining, Some(remaining))
    }
}

impl ExactSizeIterator for Records<'_> {}
impl FusedIterator for Records<'_> {}
