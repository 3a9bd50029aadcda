//! Events and batches of them.
//!
//! An [`Event`] is five ranges and two numbers, 40 bytes, copied freely. The bytes that it speaks of are in its
//! [`EventBatch`]: those of a short event were copied into it, those of a long one are in a chunk that it keeps alive, the very
//! buffer that the socket was read into:
//!
//! ```text
//!   batch.copied   |offset|sections of event 0|offset|sections of event 1|
//!   batch.chunks   [ chunk 1: ..|annotations|key|..|sections of event 2 |..|sections of event 3|.. ] [ chunk 2: .. ]
//!                                            ^^^    ^^^^^^^^^^^^^^^^^^^      ^^^^^^^^^^^^^^^^^^^
//!   batch.events   {chunk: 0, message} {chunk: 0, message} {chunk: 1, partition key, message} {chunk: 1, message} ..
//! ```
//!
//! What arrives with a short event is several times as long as what is forwarded of it. If batches kept that, the receive
//! buffers in use would not fit into the processor's cache, and each would be read and written through main memory.
//!
//! Batches are recycled through a [`BatchPool`], so that a steady stream allocates nothing.

use std::fmt;
use std::ops::Range;

use amqp::codec::write;
use amqp::connection::{SHARED_MIN, TransferWriter};
use bytes::Bytes;

/// The number of a partition within its hub or topic, from 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PartitionId(pub u32);

/// How messages are encoded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Encoding {
    /// The sections of an AMQP message, without what a service adds.
    #[default]
    Amqp,
    /// The tail of a record of Kafka, as it stands in batches of version 2: key, value and headers, each behind its length.
    /// The key is the event's partition key as well, the offset its sequence number, and the timestamp its enqueued time.
    Kafka,
    /// Bytes that only those who wrote them understand, such as the fakes' users.
    Opaque,
}

/// When the service appended an event, in whole milliseconds as services report it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct EnqueuedTime {
    unix_ms: i64,
}

/// Where one event's parts lie in its batch, and what the service says about it.
///
/// Made by [`EventBatch::push`]; read through the accessors of the batch that it belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event {
    /// [`COPIED`], or one more than the place of its chunk.
    chunk: u32,
    message_start: u32,
    message_end: u32,
    partition_key_start: u32,
    offset_start: u32,
    partition_key_len: u16,
    offset_len: u16,
    /// The event's number in its partition, as the service counts.
    pub sequence_number: i64,
    /// When the service appended the event.
    pub enqueued_time: EnqueuedTime,
}

/// The parts of an event that is about to be pushed, as ranges in the chunk pushed with it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EventParts {
    /// What a sink forwards. For AMQP: the encoded sections of the message without what the service had added.
    pub message: Range<u32>,
    /// The partition key's bytes; empty when the event has none. Beyond 65,535 bytes a key is cut (services refuse
    /// keys of more than 128 characters).
    pub partition_key: Range<u32>,
    /// The service's opaque offset as text; empty where the service has none. Beyond 65,535 bytes it is dropped.
    pub offset: Range<u32>,
    /// The event's number in its partition.
    pub sequence_number: i64,
    /// When the service appended the event.
    pub enqueued_time: EnqueuedTime,
}

/// What a source knows a batch by. It means nothing to anybody else, and nothing at all for sources that do not settle.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Receipt(pub u64);

/// Consecutive events of one partition, in order.
#[derive(Clone, Default)]
pub struct EventBatch {
    partition: PartitionId,
    receipt: Receipt,
    redelivered: u32,
    encoding: Encoding,
    events: Vec<Event>,
    copied: Vec<u8>,
    chunks: Vec<Bytes>,
    vacant: Vec<Range<i64>>,
    unreadable: Option<Box<Unreadable>>,
    message_bytes: usize,
    largest_message: usize,
    /// By how much the messages are longer than those that were pushed.
    grown_by: isize,
}

/// Records of a log that can't be read, in place of the events that they would be. They are a batch of their own, with one event: its
/// message is the bytes as the log has them, and its sequence number the last one of `numbers`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unreadable {
    /// The sequence numbers of the records.
    pub numbers: Range<i64>,
    /// How many records these are, as far as the log says.
    pub records: u64,
    /// Why they can't be read.
    pub reason: String,
}

/// The bytes to forward of one event, and what keeps them, if that is known: then a long message can be sent without being
/// copied.
#[derive(Clone, Copy, Debug)]
pub struct Message<'a> {
    bytes: &'a [u8],
    chunk: Option<&'a Bytes>,
}

/// Empty batches that wait to be filled again.
#[derive(Debug)]
pub struct BatchPool {
    free: Vec<EventBatch>,
    capacity: usize,
}

impl EnqueuedTime {
    /// An instant given in milliseconds since the Unix epoch (negative before it).
    #[must_use]
    pub const fn from_unix_ms(unix_ms: i64) -> Self {
        Self { unix_ms }
    }

    /// Milliseconds since the Unix epoch.
    #[must_use]
    pub const fn unix_ms(self) -> i64 {
        self.unix_ms
    }
}

impl Event {
    /// How many bytes a sink would forward.
    #[must_use]
    pub const fn message_len(&self) -> usize {
        (self.message_end - self.message_start) as usize
    }
}

impl EventParts {
    /// From the first byte that is wanted of it to the last.
    #[inline]
    fn span(&self) -> Range<u32> {
        let mut span = self.message.clone();
        for part in [&self.offset, &self.partition_key] {
            if !part.is_empty() {
                span = span.start.min(part.start)..span.end.max(part.end);
            }
        }
        span
    }
}

impl EventBatch {
    /// An empty batch of `partition` with room for `events` events.
    #[must_use]
    pub fn with_capacity(partition: PartitionId, events: usize) -> Self {
        Self { partition, events: Vec::with_capacity(events), ..Self::default() }
    }

    /// Appends an event whose parts lie in `chunk`. They are copied if they are short and lie together; else the chunk is kept,
    /// once for all consecutive events.
    ///
    /// # Panics
    /// When a range of `parts` does not lie in `chunk`, which is an error of the source, not of its peer.
    #[inline]
    pub fn push(&mut self, chunk: &Bytes, parts: &EventParts) {
        self.extend(chunk, std::iter::once(parts.clone()));
    }

    /// Appends events whose parts lie in `chunk`, which is kept if one of them is long.
    ///
    /// # Panics
    /// As with [`push`](Self::push).
    #[inline]
    pub fn extend(&mut self, chunk: &Bytes, events: impl Iterator<Item = EventParts>) {
        let len = chunk.len();
        // The batch keeps the last chunk alive, so equal addresses mean the same chunk and not a reused allocation.
        let is_new =
            self.chunks.last().is_none_or(|last| last.as_ptr() != chunk.as_ptr() || last.len() != len);
        // A batch of more than 2^32 chunks would need more than 2^32 events; see `in_chunk` for the ranges.
        let index = (self.chunks.len() - usize::from(!is_new)) as u32 + 1;
        let mut is_kept = false;
        let (mut message_bytes, mut largest) = (self.message_bytes, self.largest_message);
        for parts in events {
            // The message leaves the parts out: to show them they would have to be in memory for every event.
            assert!(
                in_chunk(&parts.message, len)
                    && in_chunk(&parts.partition_key, len)
                    && in_chunk(&parts.offset, len),
                "the parts of an event must lie in its chunk"
            );
            let message_len = (parts.message.end - parts.message.start) as usize;
            let span = parts.span();
            // What is subtracted from a place in the chunk gives the place in what the event refers to.
            let (chunk_index, shift) = match span.len() <= COPIED_MAX && self.copied.len() < COPIED_BYTES_MAX
            {
                true => {
                    let copied_at = self.copied.len() as u32;
                    write::bytes(&mut self.copied, &chunk[span.start as usize..span.end as usize]);
                    (COPIED, span.start.wrapping_sub(copied_at))
                }
                false => {
                    is_kept = true;
                    (index, 0)
                }
            };
            let partition_key_len = parts.partition_key.end - parts.partition_key.start;
            let offset_len = parts.offset.end - parts.offset.start;
            self.events.push(Event {
                chunk: chunk_index,
                message_start: parts.message.start.wrapping_sub(shift),
                message_end: parts.message.end.wrapping_sub(shift),
                partition_key_start: parts.partition_key.start.wrapping_sub(shift),
                offset_start: parts.offset.start.wrapping_sub(shift),
                partition_key_len: u16::try_from(partition_key_len).unwrap_or(u16::MAX),
                offset_len: u16::try_from(offset_len).unwrap_or(0),
                sequence_number: parts.sequence_number,
                enqueued_time: parts.enqueued_time,
            });
            message_bytes += message_len;
            largest = largest.max(message_len);
        }
        (self.message_bytes, self.largest_message) = (message_bytes, largest);
        if is_new && is_kept {
            self.chunks.push(chunk.clone());
        }
    }

    /// Appends an event that is nothing but its message bytes, which are copied.
    ///
    /// # Panics
    /// When the batch would hold 4 GiB of them.
    pub(crate) fn push_copied(&mut self, message: &[u8], sequence_number: i64, enqueued_time: EnqueuedTime) {
        let place = |length: usize| u32::try_from(length).expect("a batch is smaller than 4 GiB");
        let start = place(self.copied.len());
        self.copied.extend_from_slice(message);
        self.events.push(Event {
            chunk: COPIED,
            message_start: start,
            message_end: place(self.copied.len()),
            partition_key_start: start,
            offset_start: start,
            partition_key_len: 0,
            offset_len: 0,
            sequence_number,
            enqueued_time,
        });
        self.message_bytes += message.len();
        self.largest_message = self.largest_message.max(message.len());
    }

    /// Appends an event that is nothing but its message bytes, the whole of `message`.
    pub fn push_message(&mut self, message: &Bytes, sequence_number: i64) {
        let end = u32::try_from(message.len()).expect("a message is smaller than 4 GiB");
        let parts = EventParts {
            message: 0..end,
            partition_key: 0..0,
            offset: 0..0,
            sequence_number,
            enqueued_time: EnqueuedTime::default(),
        };
        self.push(message, &parts);
    }

    /// Says that numbers which follow those of the events so far belong to no event: a log gave them to something else, such as
    /// the markers of transactions, or has compacted what had them. Whoever looks for missing events leaves them out.
    pub fn skip(&mut self, numbers: Range<i64>) {
        match self.vacant.last_mut().filter(|last| last.end == numbers.start) {
            Some(last) => last.end = numbers.end,
            None if numbers.is_empty() => {}
            None => self.vacant.push(numbers),
        }
    }

    /// Numbers before, between or after those of the events that belong to no event, in order.
    #[must_use]
    pub fn vacant_numbers(&self) -> &[Range<i64>] {
        &self.vacant
    }

    /// Appends the one event of a batch that stands for records which can't be read; `bytes` are those of the log. The numbers before
    /// the event's belong to no event.
    ///
    /// # Panics
    /// When the batch has events, `unreadable` has no numbers, or there are 4 GiB of bytes.
    pub fn push_unreadable(&mut self, bytes: &Bytes, unreadable: Unreadable, enqueued_time: EnqueuedTime) {
        assert!(self.is_empty() && !unreadable.numbers.is_empty(), "it is a batch of its own");
        let last = unreadable.numbers.end - 1;
        self.skip(unreadable.numbers.start..last);
        let end = u32::try_from(bytes.len()).expect("a batch is smaller than 4 GiB");
        let parts = EventParts {
            message: 0..end,
            partition_key: 0..0,
            offset: 0..0,
            sequence_number: last,
            enqueued_time,
        };
        self.push(bytes, &parts);
        self.unreadable = Some(Box::new(unreadable));
    }

    /// The records that the one event of the batch stands for, if they can't be read: it must not be forwarded.
    #[inline]
    #[must_use]
    pub fn unreadable(&self) -> Option<&Unreadable> {
        self.unreadable.as_deref()
    }

    /// The partition that all of the events come from.
    #[must_use]
    pub const fn partition(&self) -> PartitionId {
        self.partition
    }

    /// What the source knows the batch by.
    #[must_use]
    pub const fn receipt(&self) -> Receipt {
        self.receipt
    }

    /// Says what the source knows the batch by, and how many of its events the service has delivered before.
    pub fn set_receipt(&mut self, receipt: Receipt, redelivered: u32) {
        self.receipt = receipt;
        self.redelivered = redelivered;
    }

    /// How many of the events the service says that it has delivered before.
    #[must_use]
    pub const fn redelivered(&self) -> u32 {
        self.redelivered
    }

    /// How the messages are encoded, for sinks that take more than one encoding. Where nobody has said, they are AMQP's.
    #[must_use]
    pub const fn encoding(&self) -> Encoding {
        self.encoding
    }

    /// Says how the messages are encoded.
    pub const fn set_encoding(&mut self, encoding: Encoding) {
        self.encoding = encoding;
    }

    /// The events in the order of the partition.
    #[must_use]
    pub fn events(&self) -> &[Event] {
        &self.events
    }

    /// How many events there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.events.len()
    }

    /// Whether there is memory for any event: a batch that was taken away leaves one without.
    pub(crate) const fn has_memory(&self) -> bool {
        self.events.capacity() > 0
    }

    /// Whether there is no event.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.events.is_empty()
    }

    /// The bytes to forward of an event of this batch.
    #[inline]
    #[must_use]
    pub fn message(&self, event: &Event) -> &[u8] {
        self.slice(event.chunk, event.message_start, event.message_end - event.message_start)
    }

    /// The same, for a sink that may hold on to them.
    #[inline]
    #[must_use]
    pub fn shared_message(&self, event: &Event) -> Message<'_> {
        let chunk = (event.chunk as usize).checked_sub(1).and_then(|index| self.chunks.get(index));
        Message { bytes: self.message(event), chunk }
    }

    /// The partition key of an event of this batch, where it has one.
    #[inline]
    #[must_use]
    pub fn partition_key(&self, event: &Event) -> Option<&[u8]> {
        if event.partition_key_len == 0 {
            return None;
        }
        Some(self.slice(event.chunk, event.partition_key_start, u32::from(event.partition_key_len)))
    }

    /// What keeps events together: the partition key, or the key that the event has as a record of Kafka.
    #[inline]
    #[must_use]
    pub fn key(&self, event: &Event) -> Option<&[u8]> {
        match self.partition_key(event) {
            None if self.encoding == Encoding::Amqp => convert::annotations::key_of(self.message(event)),
            key => key,
        }
    }

    /// The service's opaque offset of an event of this batch, where the service has such.
    #[must_use]
    pub fn offset(&self, event: &Event) -> Option<&[u8]> {
        if event.offset_len == 0 {
            return None;
        }
        Some(self.slice(event.chunk, event.offset_start, u32::from(event.offset_len)))
    }

    /// The sequence number of the first event.
    #[must_use]
    pub fn first_sequence_number(&self) -> Option<i64> {
        self.events.first().map(|event| event.sequence_number)
    }

    /// The sequence number of the last event.
    #[must_use]
    pub fn last_sequence_number(&self) -> Option<i64> {
        self.events.last().map(|event| event.sequence_number)
    }

    /// The sum of all message bytes.
    #[must_use]
    pub const fn message_bytes(&self) -> usize {
        self.message_bytes
    }

    /// The sum of all message bytes as they were pushed, whatever was [rewritten](Self::rewrite) since.
    #[must_use]
    pub const fn pushed_bytes(&self) -> usize {
        self.message_bytes.saturating_add_signed(-self.grown_by)
    }

    /// Gives events other messages. `change` is asked for each event, with its index, and appends the new message to `out`, which is
    /// empty, if it says that there is one. Everything else of an event stays. Hot path.
    ///
    /// The batch that `change` sees has no list of events while this lasts.
    pub fn rewrite(
        &mut self,
        out: &mut Vec<u8>,
        mut change: impl FnMut(&Self, u32, &Event, &mut Vec<u8>) -> bool,
    ) {
        let mut events = std::mem::take(&mut self.events);
        let (mut bytes, mut largest) = (0, 0);
        for (index, event) in (0..).zip(&mut events) {
            out.clear();
            if change(self, index, event, out) {
                *event = self.replaced(event, out);
            }
            bytes += event.message_len();
            largest = largest.max(event.message_len());
        }
        self.events = events;
        self.grown_by += bytes.wrapping_sub(self.message_bytes).cast_signed();
        (self.message_bytes, self.largest_message) = (bytes, largest);
    }

    /// An event with another message, whose bytes the batch keeps.
    fn replaced(&mut self, event: &Event, message: &[u8]) -> Event {
        let is_copied = event.chunk == COPIED;
        let fits = message.len() < SHARED_MIN && self.copied.len() < COPIED_BYTES_MAX;
        // Lengths of messages are counted in 32 bits, and a copied part lies within the bytes that are copied.
        let length = message.len() as u32;
        if is_copied && fits {
            let start = self.copied.len() as u32;
            write::bytes(&mut self.copied, message);
            return Event { message_start: start, message_end: start + length, ..*event };
        }
        // Its other parts move with it.
        let (key, offset) = (u32::from(event.partition_key_len), u32::from(event.offset_len));
        let (chunk, start) = match fits {
            true => {
                let start = self.copied.len() as u32;
                let of = &self.chunks[event.chunk as usize - 1];
                for (part, length) in [(event.partition_key_start, key), (event.offset_start, offset)] {
                    if length > 0 {
                        self.copied.extend_from_slice(&of[part as usize..][..length as usize]);
                    }
                }
                self.copied.extend_from_slice(message);
                (COPIED, start)
            }
            false => {
                let key = self.partition_key(event).unwrap_or_default();
                let offset = self.offset(event).unwrap_or_default();
                let parts = Bytes::from([key, offset, message].concat());
                self.chunks.push(parts);
                (self.chunks.len() as u32, 0)
            }
        };
        Event {
            chunk,
            partition_key_start: start,
            offset_start: start + key,
            message_start: start + key + offset,
            message_end: start + key + offset + length,
            ..*event
        }
    }

    /// The length of the largest message, so that a bound for any selection of the events needs no look at them.
    #[must_use]
    pub const fn largest_message(&self) -> usize {
        self.largest_message
    }

    /// Whether all messages are equally long, so that a sum over any selection of them needs no look at them.
    #[inline]
    #[must_use]
    pub const fn has_equal_lengths(&self) -> bool {
        self.largest_message * self.events.len() == self.message_bytes
    }

    /// The chunks that the batch keeps alive. A chunk may be shared with other batches.
    #[must_use]
    pub fn chunks(&self) -> &[Bytes] {
        &self.chunks
    }

    /// Drops events and chunks, keeps the capacity, and makes it an empty batch of `partition`.
    pub fn clear(&mut self, partition: PartitionId) {
        self.partition = partition;
        self.receipt = Receipt::default();
        self.redelivered = 0;
        self.encoding = Encoding::default();
        self.events.clear();
        self.copied.clear();
        self.chunks.clear();
        self.vacant.clear();
        self.unreadable = None;
        self.message_bytes = 0;
        self.largest_message = 0;
        self.grown_by = 0;
    }

    #[inline]
    fn slice(&self, chunk: u32, start: u32, len: u32) -> &[u8] {
        let bytes = match chunk {
            COPIED => &self.copied[..],
            kept => &self.chunks[kept as usize - 1],
        };
        &bytes[start as usize..][..len as usize]
    }
}

impl Message<'_> {
    /// What follows its first `count` bytes.
    #[inline]
    pub(crate) fn without_first(self, count: usize) -> Self {
        Self { bytes: &self.bytes[count..], ..self }
    }

    /// Appends it to a transfer: without a copy if it is long and its memory can be held until it is sent.
    #[inline]
    pub(crate) fn put(&self, writer: &mut TransferWriter<'_>) {
        match self.chunk {
            Some(chunk) if self.bytes.len() >= SHARED_MIN => writer.put_shared(chunk.slice_ref(self.bytes)),
            _ => writer.put(self.bytes),
        }
    }
}

impl<'a> From<&'a [u8]> for Message<'a> {
    fn from(bytes: &'a [u8]) -> Self {
        Self { bytes, chunk: None }
    }
}

impl AsRef<[u8]> for Message<'_> {
    #[inline]
    fn as_ref(&self) -> &[u8] {
        self.bytes
    }
}

impl BatchPool {
    /// A pool that keeps at most `capacity` empty batches.
    #[must_use]
    pub const fn new(capacity: usize) -> Self {
        Self { free: Vec::new(), capacity }
    }

    /// An empty batch of `partition`: a recycled one if there is any, else a new one with room for `events` events.
    pub fn take(&mut self, partition: PartitionId, events: usize) -> EventBatch {
        match self.free.pop() {
            Some(mut batch) => {
                batch.clear(partition);
                batch
            }
            None => EventBatch::with_capacity(partition, events),
        }
    }

    /// Takes a batch back. Its chunks are let go at once; beyond the capacity the batch itself is dropped, and so is one without memory,
    /// which is what is left where a batch was taken away.
    pub fn give(&mut self, mut batch: EventBatch) {
        if self.free.len() < self.capacity && batch.has_memory() {
            batch.clear(PartitionId::default());
            self.free.push(batch);
        }
    }
}

impl fmt::Display for Encoding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Amqp => "AMQP messages",
            Self::Kafka => "records of Kafka",
            Self::Opaque => "opaque bytes",
        })
    }
}

impl fmt::Display for PartitionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Debug for EventBatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EventBatch")
            .field("partition", &self.partition)
            .field("events", &self.events.len())
            .field("first_sequence_number", &self.first_sequence_number())
            .field("last_sequence_number", &self.last_sequence_number())
            .field("message_bytes", &self.message_bytes)
            .field("chunks", &self.chunks.len())
            .finish_non_exhaustive()
    }
}

#[inline]
fn in_chunk(range: &Range<u32>, chunk_len: usize) -> bool {
    range.start <= range.end && range.end as usize <= chunk_len
}

const _: () = assert!(size_of::<Event>() <= 40, "an event is copied and kept by the million");

/// The place of what was copied into the batch, where others have a chunk.
const COPIED: u32 = 0;

/// Most bytes that are copied of an event: from its first part to its last, which are close together in what services send.
const COPIED_MAX: usize = 256;

/// What a batch copies at most, so that places in it have 32 bits.
const COPIED_BYTES_MAX: usize = 64 * 1024 * 1024;

#[cfg(test)]
mod tests {
    use super::*;

    fn parts(
        message: Range<u32>,
        partition_key: Range<u32>,
        offset: Range<u32>,
        sequence_number: i64,
    ) -> EventParts {
        EventParts {
            message,
            partition_key,
            offset,
            sequence_number,
            enqueued_time: EnqueuedTime::from_unix_ms(1_700_000_000_000),
        }
    }

    #[test]
    fn an_event_gives_back_its_message_key_and_offset() {
        let chunk = Bytes::from_static(b"key-9|message one|41");
        let mut batch = EventBatch::with_capacity(PartitionId(3), 4);
        batch.push(&chunk, &parts(6..17, 0..5, 18..20, 7));
        batch.push(&chunk, &parts(6..13, 0..0, 0..0, 8));
        let [first, second] = batch.events() else { panic!("two events") };
        assert_eq!(batch.message(first), b"message one");
        assert_eq!(batch.partition_key(first), Some(&b"key-9"[..]));
        assert_eq!(batch.offset(first), Some(&b"41"[..]));
        assert_eq!(batch.message(second), b"message");
        assert_eq!(batch.partition_key(second), None);
        assert_eq!(batch.offset(second), None);
        assert_eq!((batch.first_sequence_number(), batch.last_sequence_number()), (Some(7), Some(8)));
        assert_eq!((batch.message_bytes(), batch.largest_message()), (18, 11));
        assert_eq!(second.enqueued_time.unix_ms(), 1_700_000_000_000);
    }

    #[test]
    fn the_parts_of_short_and_long_events_are_found_wherever_they_lie() {
        let chunk: Bytes = (0..4_000).map(|at| (at % 253) as u8).collect();
        let lengths = [0, 1, 15, 16, 17, 32, 33, 64, 65, 255, 256, 257, 1_000];
        let mut batch = EventBatch::default();
        let mut pushed = Vec::new();
        for (number, length) in lengths.into_iter().enumerate() {
            let message = 100..100 + length;
            let after = message.end + 3..message.end + 5;
            for (key, offset) in [(0..0, 0..0), (90..99, 0..0), (after.clone(), 92..95), (0..4, 3_000..3_001)]
            {
                let parts = parts(message.clone(), key, offset, number as i64);
                batch.push(&chunk, &parts);
                pushed.push(parts);
            }
        }
        let bytes = |range: &Range<u32>| &chunk[range.start as usize..range.end as usize];
        for (event, parts) in batch.events().iter().zip(&pushed) {
            assert_eq!(batch.message(event), bytes(&parts.message));
            assert_eq!(batch.shared_message(event).as_ref(), bytes(&parts.message));
            assert_eq!(batch.partition_key(event).unwrap_or_default(), bytes(&parts.partition_key));
            assert_eq!(batch.offset(event).unwrap_or_default(), bytes(&parts.offset));
        }
    }

    #[test]
    fn short_events_keep_nothing_of_what_they_arrived_in() {
        let chunk = Bytes::from(vec![7; 1_000]);
        let mut batch = EventBatch::default();
        batch.push(&chunk, &parts(10..200, 0..0, 5..9, 0));
        assert!(batch.chunks().is_empty() && chunk.is_unique());
    }

    #[test]
    fn consecutive_events_of_a_chunk_share_its_entry() {
        let length = COPIED_MAX as u32 + 1;
        let (one, two) = (Bytes::from(vec![1; length as usize]), Bytes::from(vec![2; length as usize]));
        let mut batch = EventBatch::default();
        for chunk in [&one, &one, &two, &two, &one] {
            batch.push(chunk, &parts(0..length, 0..0, 0..0, 0));
        }
        assert_eq!(batch.chunks().len(), 3);
        let firsts: Vec<u8> = batch.events().iter().map(|event| batch.message(event)[0]).collect();
        assert_eq!(firsts, [1, 1, 2, 2, 1]);
    }

    #[test]
    fn a_prefix_of_a_chunk_at_the_same_address_is_another_chunk() {
        let half = COPIED_MAX as u32 + 1;
        let whole = Bytes::from(vec![5; 2 * half as usize]);
        let prefix = whole.slice(..half as usize);
        let mut batch = EventBatch::default();
        batch.push(&prefix, &parts(0..half, 0..0, 0..0, 0));
        batch.push(&whole, &parts(half..2 * half, 0..0, 0..0, 1));
        assert_eq!(batch.message(&batch.events()[1]), vec![5; half as usize]);
    }

    #[test]
    #[should_panic(expected = "must lie in its chunk")]
    fn a_range_beyond_the_chunk_is_refused_where_it_is_pushed() {
        EventBatch::default().push(&Bytes::from_static(b"four"), &parts(0..5, 0..0, 0..0, 0));
    }

    #[test]
    fn a_key_beyond_65535_bytes_is_cut_and_such_an_offset_is_dropped() {
        let chunk = Bytes::from(vec![b'k'; 70_000]);
        let mut batch = EventBatch::default();
        batch.push(&chunk, &parts(0..1, 0..65_535, 0..65_535, 0));
        batch.push(&chunk, &parts(0..1, 0..65_536, 0..65_536, 1));
        let [at_limit, beyond] = batch.events() else { panic!("two events") };
        assert_eq!(batch.partition_key(at_limit).map(<[u8]>::len), Some(65_535));
        assert_eq!(batch.offset(at_limit).map(<[u8]>::len), Some(65_535));
        assert_eq!(batch.partition_key(beyond).map(<[u8]>::len), Some(65_535));
        assert_eq!(batch.offset(beyond), None);
    }

    #[test]
    fn an_event_with_another_message_keeps_all_else() {
        let chunk: Bytes = (0..20_000).map(|at| (at % 253) as u8).collect();
        let mut batch = EventBatch::default();
        let lengths = [10, 200, 255, 300, 5_000];
        for (number, length) in (0..).zip(lengths) {
            batch.push(&chunk, &parts(20..20 + length, 0..4, 10..12, number));
        }
        let before: Vec<_> = batch
            .events()
            .iter()
            .map(|event| {
                (batch.partition_key(event).unwrap().to_vec(), batch.offset(event).unwrap().to_vec())
            })
            .collect();
        let pushed = batch.message_bytes();
        for length in [1, 40, 300, 4_000, 9_000] {
            batch.rewrite(&mut Vec::new(), |batch, index, event, out| {
                assert!(!batch.message(event).is_empty());
                out.resize(length, index as u8);
                index != 1
            });
            for (index, event) in batch.events().iter().enumerate() {
                let (key, offset) = &before[index];
                assert_eq!(
                    (batch.partition_key(event), batch.offset(event)),
                    (Some(&key[..]), Some(&offset[..]))
                );
                let expected = if index == 1 { chunk[20..220].to_vec() } else { vec![index as u8; length] };
                assert_eq!(batch.message(event), expected);
                assert_eq!(batch.shared_message(event).as_ref(), expected);
                assert_eq!(event.sequence_number, index as i64);
            }
            assert_eq!(batch.message_bytes(), 4 * length + 200);
            assert_eq!(batch.largest_message(), length.max(200));
            assert_eq!(batch.pushed_bytes(), pushed);
        }
    }

    #[test]
    fn a_recycled_batch_is_empty_and_holds_no_chunk() {
        let mut pool = BatchPool::new(1);
        let chunk = Bytes::from(vec![0; 1_000]);
        let mut batch = pool.take(PartitionId(1), 8);
        batch.push(&chunk, &parts(0..1_000, 0..0, 0..0, 5));
        assert!(!chunk.is_unique());
        pool.give(batch);
        assert!(chunk.is_unique(), "the pool let the chunk go");
        let batch = pool.take(PartitionId(2), 8);
        assert_eq!((batch.partition(), batch.len(), batch.message_bytes()), (PartitionId(2), 0, 0));
        assert_eq!(batch.largest_message(), 0);
    }

    #[test]
    fn a_pool_keeps_no_more_than_its_capacity() {
        let mut pool = BatchPool::new(1);
        let (one, two) = (pool.take(PartitionId(0), 1), pool.take(PartitionId(0), 1));
        pool.give(one);
        pool.give(two);
        assert_eq!(pool.free.len(), 1);
    }
}
