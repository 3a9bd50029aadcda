//! The records of one batch, and the events that are made of them.
//!
//! Every record is checked as it is read, against the one before it and the header of the batch. A batch of which a record is not as
//! it must be is unreadable from that record on.

use std::ops::Range;
use std::time::Instant;

use bytes::Bytes;
use kafka::Malformed;
use kafka::compression::{Compression, UnpackError};
use kafka::record::{RecordPlaces, Records};
use kafka::record_batch::{RecordBatch, TimestampType};

use crate::batch_builder::BatchBuilder;
use crate::event::{EnqueuedTime, EventParts, PartitionId, Unreadable};
use crate::kafka::settings::UNPACKED_BATCH;

/// Records of one batch.
#[derive(Debug)]
pub(super) struct Batch {
    /// The batch as it arrived.
    whole: Bytes,
    /// Its records.
    bytes: Bytes,
    /// The compression of `bytes`, or the reason why it makes no sense to look at them.
    compression: Result<Compression, Defect>,
    /// Where the next record begins.
    at: usize,
    sequence: Sequence,
    base_offset: i64,
    /// The offsets that its records may have, of those that were asked for.
    numbers: Range<i64>,
    base_timestamp: i64,
    /// The timestamp of all records, where it is the broker's.
    append_time: Option<i64>,
    max_timestamp: i64,
}

/// The reason why records can't be read.
#[derive(Debug, thiserror::Error)]
pub(super) enum Defect {
    #[error("the checksum of their batch does not match")]
    Checksum,
    #[error("compression {0} is not defined")]
    Compression(u8),
    #[error("they have more than {maximum} bytes when unpacked ({})", UNPACKED_BATCH)]
    TooLong { maximum: usize },
    #[error("they can't be unpacked: {0}")]
    Packed(std::io::Error),
    #[error("{0}")]
    Malformed(#[from] Malformed),
    #[error("an offset does not follow the one before it, or is beyond the end of the batch")]
    Offset,
    #[error("their number is not that in the header of the batch")]
    Count,
}

/// Where events go.
pub(super) struct Pushing<'a> {
    pub(super) builder: &'a mut BatchBuilder,
    pub(super) now: Instant,
    pub(super) partition: PartitionId,
}

/// Events that were pushed.
#[derive(Debug, Default)]
pub(super) struct Pushed {
    pub(super) events: usize,
    /// The bytes of their messages.
    pub(super) bytes: usize,
    /// The reason why the records after them can't be read.
    pub(super) defect: Option<Defect>,
}

/// What the next record of a batch has to be.
#[derive(Clone, Copy, Debug)]
struct Sequence {
    /// Records that were not read, as the header counts them.
    left: u32,
    /// The offset delta of the record before, or -1.
    last_delta: i32,
    /// One more than the greatest offset delta.
    deltas: i64,
}

impl Sequence {
    /// Checks a record that is followed by this many bytes. Hot path.
    #[inline]
    fn step(&mut self, offset_delta: i32, remaining: usize) -> Result<(), Defect> {
        if offset_delta <= self.last_delta || i64::from(offset_delta) >= self.deltas {
            return Err(Defect::Offset);
        }
        if (remaining == 0) != (self.left == 1) {
            return Err(Defect::Count);
        }
        self.last_delta = offset_delta;
        self.left -= 1;
        Ok(())
    }

    /// Checks that records may end here.
    const fn end(&self) -> Result<(), Defect> {
        match self.left {
            0 => Ok(()),
            _ => Err(Defect::Count),
        }
    }
}

impl Pushing<'_> {
    /// The numbers from the next event's to `offset` are those of no record.
    #[cold]
    fn skip(&mut self, next: &mut i64, offset: i64) {
        self.builder.skip(self.partition, *next..offset);
        *next = offset;
    }

    /// Events whose parts lie in `out`. Both are empty after it.
    fn push(&mut self, out: &mut Vec<u8>, parts: &mut Vec<EventParts>) {
        let chunk = Bytes::from(std::mem::take(out));
        self.builder.extend(self.now, self.partition, &chunk, parts.drain(..));
    }
}

impl Batch {
    /// A batch in a frame, whose records have these offsets, unless it is known that they can't be read.
    pub(super) fn new(
        frame: &Bytes,
        batch: &RecordBatch<'_>,
        numbers: Range<i64>,
        compression: Result<Compression, Defect>,
    ) -> Self {
        let append_time = match batch.timestamp_type() {
            TimestampType::CreateTime => None,
            TimestampType::LogAppendTime => Some(batch.max_timestamp()),
        };
        let base_offset = batch.base_offset();
        Self {
            whole: frame.slice_ref(batch.bytes()),
            bytes: frame.slice_ref(batch.records()),
            compression,
            at: 0,
            // A compacted batch has fewer records than its offsets span.
            sequence: Sequence {
                left: batch.record_count(),
                last_delta: -1,
                deltas: numbers.end.saturating_sub(base_offset),
            },
            base_offset,
            numbers,
            base_timestamp: batch.base_timestamp(),
            append_time,
            max_timestamp: batch.max_timestamp(),
        }
    }

    /// The bytes of the records that are not events.
    pub(super) fn remaining(&self) -> usize {
        self.bytes.len() - self.at
    }

    /// The number of records that are not events; 1 for those that can't be read.
    pub(super) const fn records(&self) -> usize {
        match self.compression {
            Ok(_) => self.sequence.left as usize,
            Err(_) => 1,
        }
    }

    /// Unpacks the records.
    ///
    /// # Errors
    /// They can't be unpacked, or have more than `maximum` bytes.
    #[inline]
    pub(super) fn unpack(&mut self, maximum: usize) -> Result<(), Defect> {
        match self.compression {
            Ok(Compression::None) => Ok(()),
            _ => self.unpack_packed(maximum),
        }
    }

    #[cold]
    fn unpack_packed(&mut self, maximum: usize) -> Result<(), Defect> {
        let compression = std::mem::replace(&mut self.compression, Ok(Compression::None))?;
        let unpacked = compression.unpack(&self.bytes, maximum).map_err(|error| match error {
            UnpackError::TooLong { maximum } => Defect::TooLong { maximum },
            UnpackError::Undefined(code) => Defect::Compression(code),
            UnpackError::Damaged(error) => Defect::Packed(error),
        });
        self.bytes = unpacked?.into();
        Ok(())
    }

    #[inline]
    fn time(&self, delta: i64) -> EnqueuedTime {
        let time = self.append_time.unwrap_or_else(|| self.base_timestamp.saturating_add(delta));
        EnqueuedTime::from_unix_ms(time)
    }

    /// Pushes events whose messages are the tails of records, where they are. Hot path.
    pub(super) fn push_tails(&mut self, to: &mut Pushing<'_>, next: &mut i64, limit: usize) -> Pushed {
        let mut places = RecordPlaces::from(&self.bytes, self.at);
        let mut sequence = self.sequence;
        let (mut events, mut bytes) = (0, 0);
        // A record that does not follow the one before, until the numbers between them are skipped.
        let mut apart = None;
        let mut defect = None;
        let mut next_place = || -> Result<_, Defect> {
            let place = places.next_place()?;
            match &place {
                Some(place) => sequence.step(place.offset_delta, places.remaining())?,
                None => sequence.end()?,
            }
            Ok(place)
        };
        loop {
            let parts = std::iter::from_fn(|| {
                loop {
                    let place = match apart.take().map_or_else(&mut next_place, |place| Ok(Some(place))) {
                        Ok(place) => place?,
                        Err(error) => {
                            defect = Some(error);
                            return None;
                        }
                    };
                    let offset = self.base_offset.saturating_add(place.offset_delta.into());
                    if offset > *next {
                        apart = Some(place);
                        return None;
                    }
                    if offset == *next {
                        *next = offset.saturating_add(1);
                        bytes += place.tail.len();
                        return Some(EventParts {
                            message: place.tail,
                            partition_key: place.key,
                            offset: 0..0,
                            sequence_number: offset,
                            enqueued_time: self.time(place.timestamp_delta),
                        });
                    }
                }
            });
            events += to.builder.extend(to.now, to.partition, &self.bytes, parts.take(limit - events));
            match &apart {
                Some(place) => to.skip(next, self.base_offset.saturating_add(place.offset_delta.into())),
                None => break,
            }
        }
        self.at = self.bytes.len() - places.remaining();
        self.sequence = sequence;
        Pushed { events, bytes, defect }
    }

    /// Pushes events whose messages are of AMQP: what records are as such, behind one another in memory of its own.
    pub(super) fn push_messages(&mut self, to: &mut Pushing<'_>, next: &mut i64, limit: usize) -> Pushed {
        let mut out = Vec::new();
        let mut parts = Vec::new();
        let (mut events, mut bytes) = (0, 0);
        let mut records = Records::of(&self.bytes[self.at..]);
        let mut sequence = self.sequence;
        let mut defect = None;
        while events < limit {
            let read = match records.next().transpose() {
                Ok(Some(record)) => {
                    sequence.step(record.offset_delta, records.rest().len()).map(|()| Some(record))
                }
                Ok(None) => sequence.end().map(|()| None),
                Err(error) => Err(error.into()),
            };
            let record = match read {
                Ok(Some(record)) => record,
                Ok(None) => break,
                Err(error) => {
                    defect = Some(error);
                    break;
                }
            };
            let offset = self.base_offset.saturating_add(record.offset_delta.into());
            if offset < *next {
                continue;
            }
            if offset > *next {
                // What is skipped goes with the events that follow.
                to.push(&mut out, &mut parts);
                to.skip(next, offset);
            }
            *next = offset.saturating_add(1);
            let key_at = out.len() as u32;
            out.extend_from_slice(record.key.unwrap_or_default());
            let message_at = out.len() as u32;
            convert::message(&mut out, &record);
            // What was unpacked is bounded far below 4 GiB.
            parts.push(EventParts {
                message: message_at..out.len() as u32,
                partition_key: key_at..message_at,
                offset: 0..0,
                sequence_number: offset,
                enqueued_time: self.time(record.timestamp_delta),
            });
            events += 1;
            bytes += out.len() - message_at as usize;
        }
        to.push(&mut out, &mut parts);
        self.at = self.bytes.len() - records.rest().len();
        self.sequence = sequence;
        Pushed { events, bytes, defect }
    }

    /// Pushes what can't be read as one event: everything from `next` on, which goes behind the batch.
    #[cold]
    pub(super) fn push_unreadable(&self, to: &mut Pushing<'_>, next: &mut i64, defect: &Defect) -> Pushed {
        let Range { start, end } = self.numbers;
        let numbers = start.max(*next)..end;
        let Ok(most @ 1..) = u64::try_from(numbers.end.saturating_sub(numbers.start)) else {
            return Pushed::default();
        };
        let records = u64::from(self.sequence.left).clamp(1, most);
        let reason = format!("the records from offset {} on can't be read: {defect}", numbers.start);
        let time = match defect {
            Defect::Checksum => EnqueuedTime::default(),
            _ => EnqueuedTime::from_unix_ms(self.max_timestamp),
        };
        let skipped = *next..numbers.start;
        *next = end;
        let unreadable = Unreadable { numbers, records, reason };
        to.builder.push_unreadable(to.partition, skipped, &self.whole, unreadable, time);
        Pushed { events: 1, bytes: self.whole.len(), defect: None }
    }
}
