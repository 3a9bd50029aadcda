//! Writing a batch straight into the log's memory.

use super::batch::{
    BatchHeader, MAXIMUM_BATCH_LENGTH, MAXIMUM_RECORD_HEAD_LENGTH, RecordFormat, put_varint, varint_length,
};
use super::block::BlockWriter;
use super::block_pool::BlockPool;
use super::chunk::{Protocol, latest_timestamp};
use crate::UnixTime;
use crate::producers::ProducerStamp;
use kafka::record_batch::{self, RecordBatch};
use std::fmt;
use std::sync::Arc;

/// Bytes in front of a short section without annotations.
const SHORT_HEAD_LENGTH: usize = 3;

/// The longest section whose record's length takes one byte.
const SHORT_SECTION_MAX: usize = 0x7f - (SHORT_HEAD_LENGTH - 1);

/// One event to append, borrowed from wherever it arrived.
#[derive(Clone, Copy, Debug)]
pub struct NewRecord<'a> {
    /// How many key-value pairs `annotations` holds.
    pub annotation_count: u32,
    /// The encoded keys and values of the client's annotations, one after the other, without a map header.
    pub annotations: &'a [u8],
    /// The rest of the message, in as many pieces as it has; they are stored as one.
    pub sections: &'a [&'a [u8]],
}

/// Takes the records of one batch. They are written behind what readers see, and become visible all at once when
/// the append succeeds, or never.
pub struct BatchEncoder<'log> {
    /// The block being filled, until a batch outgrows it.
    current: &'log mut BlockWriter,
    /// The block that the batch moved to when it outgrew `current`.
    replacement: Option<BlockWriter>,
    pool: &'log Arc<BlockPool>,
    next_capacity: usize,
    record_count: u32,
    /// Bytes of the batch so far; goes beyond the limit if records were left out.
    length: usize,
    format: RecordFormat,
    /// Greatest timestamp of the records, if they have timestamps.
    latest_timestamp: Option<UnixTime>,
}

/// A batch that was encoded completely.
pub(super) struct EncodedBatch {
    pub(super) record_count: u32,
    pub(super) length: usize,
    /// Greatest timestamp of the records: that of the append where they have none.
    pub(super) latest_timestamp: UnixTime,
    /// The block that holds the batch, if it is a new one.
    pub(super) replacement: Option<BlockWriter>,
}

impl<'log> BatchEncoder<'log> {
    /// Starts a batch behind what `current` holds; it moves to a new block of `next_capacity` bytes, or more if it
    /// must, when it does not fit. Records as AMQP has them bear the stamp of their `producer`, if that numbers them.
    pub(super) fn new(
        current: &'log mut BlockWriter,
        pool: &'log Arc<BlockPool>,
        next_capacity: usize,
        protocol: Protocol,
        producer: Option<&ProducerStamp>,
    ) -> Self {
        // An append that panicked may have left something behind.
        current.discard();
        let format = match (protocol, producer) {
            (Protocol::Amqp, None) => RecordFormat::Amqp,
            (Protocol::Amqp, Some(_)) => RecordFormat::AmqpOfProducer,
            (Protocol::Kafka, _) => RecordFormat::Kafka,
        };
        let length = BatchHeader::LENGTH + format.stamp_length();
        let mut encoder = Self {
            current,
            replacement: None,
            pool,
            next_capacity,
            record_count: 0,
            length,
            format,
            latest_timestamp: None,
        };
        encoder.make_room(length);
        encoder.target().write(&[0; BatchHeader::LENGTH]);
        if let Some(producer) = producer.filter(|_| format == RecordFormat::AmqpOfProducer) {
            encoder.target().write(&producer.encode());
        }
        encoder
    }

    /// Makes the batch what it is in Kafka: a record batch that has been checked, to be numbered when it is complete.
    pub(super) fn put_record_batch(&mut self, batch: &RecordBatch<'_>) {
        debug_assert!(
            self.format == RecordFormat::Kafka && self.record_count == 0,
            "one batch makes one batch"
        );
        let length = self.length.saturating_add(batch.bytes().len());
        self.length = length;
        if length > MAXIMUM_BATCH_LENGTH as usize {
            return;
        }
        self.make_room(batch.bytes().len());
        self.target().write(batch.bytes());
        self.record_count = batch.record_count();
        self.latest_timestamp = Some(latest_timestamp(batch));
    }

    /// Adds a record. No allocation, unless the block is full.
    #[inline]
    pub fn push(&mut self, record: &NewRecord<'_>) {
        self.push_pieces(record.annotation_count, record.annotations, record.sections.iter().copied());
    }

    /// Adds a record whose parts are those of a [`NewRecord`], with the sections from wherever they are.
    #[inline]
    pub fn push_pieces<'a>(
        &mut self,
        annotation_count: u32,
        annotations: &[u8],
        sections: impl Iterator<Item = &'a [u8]> + Clone,
    ) {
        let sections_length =
            sections.clone().fold(0_usize, |sum, section| sum.saturating_add(section.len()));
        let payload_length = annotations.len().saturating_add(sections_length);
        self.length = self.length.saturating_add(payload_length).saturating_add(MAXIMUM_RECORD_HEAD_LENGTH);
        if self.length > MAXIMUM_BATCH_LENGTH as usize {
            // Remembered in `length`; `finish` refuses the batch.
            return;
        }
        // All of these are below the limit, which fits 32 bits.
        let annotation_length = annotations.len() as u32;
        let record_length =
            varint_length(annotation_length) + varint_length(annotation_count) + payload_length;
        let mut head = [0; 16];
        let end = put_varint(&mut head, 0, record_length as u32);
        let end = put_varint(&mut head, end, annotation_length);
        let end = put_varint(&mut head, end, annotation_count);
        self.length -= MAXIMUM_RECORD_HEAD_LENGTH - end;
        self.make_room(end + payload_length);
        let target = self.target();
        target.write_few(&head, end);
        if annotation_length > 0 {
            target.write(annotations);
        }
        for section in sections {
            target.write(section);
        }
        self.record_count += 1;
    }

    /// Adds a record that is a single section, without annotations.
    #[inline]
    pub fn push_section(&mut self, section: &[u8]) {
        let length = SHORT_HEAD_LENGTH + section.len();
        if section.len() > SHORT_SECTION_MAX || self.length + length > MAXIMUM_BATCH_LENGTH as usize {
            return self.push_pieces(0, &[], std::iter::once(section));
        }
        self.length += length;
        self.make_room(length);
        let target = self.target();
        // Length of the record, no annotation bytes, no annotations: one byte each, as varints.
        let mut head = [0; 16];
        head[0] = (length - 1) as u8;
        target.write_few(&head, SHORT_HEAD_LENGTH);
        target.write(section);
        self.record_count += 1;
    }

    /// How many records the batch has so far.
    #[must_use]
    pub fn record_count(&self) -> u32 {
        self.record_count
    }

    /// Completes the header of what was pushed, still unpublished. `None` if the batch is longer than any may be.
    pub(super) fn finish(
        mut self,
        first_sequence_number: u64,
        append_time: UnixTime,
    ) -> Option<EncodedBatch> {
        if self.length > MAXIMUM_BATCH_LENGTH as usize {
            return None;
        }
        let (record_count, format) = (self.record_count, self.format);
        let batch = self.target().unpublished();
        BatchHeader::complete(batch, first_sequence_number, append_time, record_count, format);
        if format == RecordFormat::Kafka {
            record_batch::number(&mut batch[BatchHeader::LENGTH..], first_sequence_number, LEADER_EPOCH);
        }
        Some(EncodedBatch {
            record_count,
            length: self.length,
            latest_timestamp: self.latest_timestamp.unwrap_or(append_time),
            replacement: self.replacement,
        })
    }

    #[inline]
    fn target(&mut self) -> &mut BlockWriter {
        match &mut self.replacement {
            Some(replacement) => replacement,
            None => self.current,
        }
    }

    #[inline]
    fn make_room(&mut self, length: usize) {
        if self.target().remaining() < length {
            self.move_to_larger_block(length);
        }
    }

    /// Continues the batch, as far as it is written, in a block that has room for `length` bytes more.
    #[cold]
    fn move_to_larger_block(&mut self, length: usize) {
        let written = self.target().unpublished().len();
        // Twice what is needed now keeps a batch of many records from moving again and again.
        let needed = (written + length).next_power_of_two();
        let capacity = match self.replacement {
            None => self.next_capacity.max(needed),
            Some(_) => self.next_capacity.max(needed.saturating_mul(2)),
        };
        let mut larger = self.pool.take(capacity);
        larger.write(self.target().unpublished());
        self.target().discard();
        self.replacement = Some(larger);
    }
}

impl fmt::Debug for BatchEncoder<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BatchEncoder")
            .field("record_count", &self.record_count)
            .field("length", &self.length)
            .finish_non_exhaustive()
    }
}

/// The epoch of a partition's leader, as Kafka counts them: it has the same one for ever, and never loses what it acknowledged.
pub const LEADER_EPOCH: i32 = 0;
