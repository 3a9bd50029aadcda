//! From the log to transfers. Hot path.
//!
//! A record is delivered as one settled transfer: the service's three annotations and the client's own, then the
//! stored sections as they are. Without annotations of the client that section always has one shape, so a template is
//! patched per event. In front of it are the header and the delivery annotations of the few events that have them; a
//! link that asked for run-time metrics gets those there.
//!
//! Of transactions that clients of Kafka write, readers over AMQP see what is committed: they wait at the stable end, and pass over
//! aborted records and over the ends of transactions. The sequence numbers of those are missing then.
//!
//! ```text
//! 00 53 72  c1 size 06
//!   a3 15 "x-opt-sequence-number"  81 …8 bytes…
//!   a3 13 "x-opt-enqueued-time"    83 …8 bytes…
//!   a3 0c "x-opt-offset"           a1 n …n decimal digits…
//! ```

use std::sync::Arc;

use amqp::Connection;
use amqp::codec::{code, write};
use amqp::connection::{LinkId, NewDelivery, SHARED_MIN, TransferWriter};
use amqp::performative::{Error, ErrorCondition};
use bytes::Bytes;

use super::conditions;
use super::runtime_metrics::{METRICS, RuntimeMetrics};
use crate::front::amqp::leading::{Leading, merge_delivery_annotations};
use crate::front::amqp::links::node::{Delivered, EndReason, Stopped};
use crate::front::event_reader::{EventReader, Next};
use crate::namespace::{ConsumerGroup, Displacement, Partition, Receiver};
use partition_log::{LogChunk, Readiness, Record, Subscription, UnixTime};

/// A link through which a consumer group reads a partition.
#[derive(Debug)]
pub(crate) struct DeliverLink {
    link: LinkId,
    reading: Reading,
    template: AnnotationTemplate,
    /// What the client wants to be told of the partition with each event.
    metrics: Option<Box<RuntimeMetrics>>,
    /// What was sent since it was last asked for.
    delivered: Delivered,
    /// What it met instead of the next event.
    failure: Option<String>,
    /// Whether it stands in the queue of those that may have something to send.
    pub(crate) queued: bool,
}

/// Who reads what, and from where.
#[derive(Debug)]
pub(crate) struct Reading {
    pub(crate) partition: Arc<Partition>,
    pub(crate) consumer_group: Arc<ConsumerGroup>,
    /// Its place among those who read the same.
    pub(crate) receiver: Receiver,
    pub(crate) events: EventReader,
    pub(crate) subscription: Subscription,
}

impl DeliverLink {
    pub(crate) fn new(link: LinkId, reading: Reading, metrics: Option<Box<RuntimeMetrics>>) -> Self {
        Self {
            link,
            reading,
            template: AnnotationTemplate::new(),
            metrics,
            delivered: Delivered::default(),
            failure: None,
            queued: false,
        }
    }

    /// What was sent since the last call.
    pub(crate) fn take_delivered(&mut self) -> Delivered {
        std::mem::take(&mut self.delivered)
    }

    /// Why it has to end, if it has.
    pub(crate) fn end_reason(&self) -> Option<EndReason> {
        if let Some(displacement) = self.displacement() {
            return Some(EndReason::Error(conditions::displaced(displacement)));
        }
        if let Some(failure) = &self.failure {
            let text = format!("The partition can't be read any further: {failure}.");
            return Some(EndReason::Error(Error::new(ErrorCondition::INTERNAL_ERROR, text)));
        }
        self.is_deleted().then_some(EndReason::Deleted)
    }

    /// Who has taken over, if anyone.
    fn displacement(&self) -> Option<&Displacement> {
        self.reading.receiver.displacement()
    }

    /// Whether the hub or the consumer group was deleted.
    fn is_deleted(&self) -> bool {
        self.reading.partition.is_deleted() || self.reading.consumer_group.is_deleted()
    }

    /// Sends as much as credit, window and a share of the output allow.
    pub(crate) fn deliver(&mut self, connection: &mut Connection, now: impl Fn() -> UnixTime) -> Stopped {
        self.queued = false;
        let stopped = self.deliver_share(connection, now);
        self.reading.receiver.advance(self.reading.events.cursor().next_sequence_number());
        if stopped == Stopped::Blocked {
            self.reading.events.discard_if_scarce();
        }
        // Tells a client that drains that there is no more.
        if stopped == Stopped::AtEnd
            && let Some(mut sender) = connection.sender(self.link)
        {
            sender.drained();
        }
        stopped
    }

    fn deliver_share(&mut self, connection: &mut Connection, now: impl Fn() -> UnixTime) -> Stopped {
        if self.displacement().is_some() || self.is_deleted() {
            return Stopped::Over;
        }
        let limit = connection.output_len() + SHARE;
        loop {
            if connection.credit(self.link) == 0 {
                return Stopped::Blocked;
            }
            let reading = &mut self.reading;
            let next = match reading.events.next(READ_BYTES) {
                Ok(next) => next,
                Err(failure) => {
                    self.failure = Some(failure);
                    return Stopped::Over;
                }
            };
            let chunk = match next {
                Next::Chunk(chunk) => chunk,
                Next::Later => return Stopped::ShareUsed,
                Next::Nothing => match reading.subscription.arm(reading.events.cursor()) {
                    Readiness::Ready => continue,
                    Readiness::Waiting => return Stopped::AtEnd,
                    Readiness::Damaged(damage) => {
                        self.failure = Some(damage.to_string());
                        return Stopped::Over;
                    }
                },
            };
            if chunk.skipped() > 0 {
                tracing::info!(
                    partition = reading.partition.id(),
                    skipped = chunk.skipped(),
                    "retention overtook a reader, which continues at the oldest event"
                );
            }
            if let Some(metrics) = &mut self.metrics {
                metrics.refresh(&reading.partition.log().committed_stats(), now());
            }
            if let Some(stopped) = self.deliver_chunk(connection, &chunk, limit) {
                return stopped;
            }
        }
    }

    /// Sends the records of a chunk. `None` when all went; otherwise the cursor stands before the first that did not.
    fn deliver_chunk(
        &mut self,
        connection: &mut Connection,
        chunk: &LogChunk,
        limit: usize,
    ) -> Option<Stopped> {
        let (mut events, mut bytes) = (0, 0);
        let mut records = chunk.records();
        let first = records.cursor().next_sequence_number();
        let end = first + chunk.record_count();
        let mut number = first;
        let mut stopped = None;
        let mut shared = SharedChunk { chunk, bytes: None };
        while number < end {
            let Some(mut run) = connection.transfer_run(self.link, amqp::message::FORMAT_AMQP, true) else {
                stopped = Some(Stopped::Blocked);
                break;
            };
            let mut unusual = None;
            // The iterator is asked for a record that can be sent only: it then stands where the link has to go on, and need
            // not be copied for each event in case it has to go back.
            while number < end && run.takes(0) && run.output_len() < limit {
                let Some(record) = records.next() else {
                    number = end;
                    break;
                };
                number += 1;
                events += 1;
                bytes += record.sections.len() as u64;
                let length = TEMPLATE_LENGTH + record.sections.len();
                let is_usual = record.annotation_count == 0
                    && AnnotationTemplate::fits(&record)
                    && self.metrics.is_none()
                    && Leading::of(record.sections).is_none();
                if !is_usual || !run.takes(length) {
                    unusual = Some(record);
                    break;
                }
                let tag = (record.sequence_number as u32).to_be_bytes();
                let template = &mut self.template;
                if is_shared(&record, run.output_len()) {
                    let sections = shared.slice(record.sections);
                    run.send_shared(tag, |out| template.append(&record, out), sections);
                    continue;
                }
                run.send(tag, |out| {
                    template.append(&record, out);
                    write::bytes(out, record.sections);
                });
            }
            drop(run);
            if let Some(record) = unusual {
                self.deliver_unusual(connection, &record, &mut shared);
            }
            if connection.output_len() >= limit && number < end {
                stopped = Some(Stopped::ShareUsed);
                break;
            }
        }
        if stopped.is_some() {
            self.reading.events.go_on_at(records.cursor());
        }
        if events > 0 {
            self.reading.partition.delivered(events, bytes, records.cursor().next_sequence_number());
            self.delivered.events += events;
            self.delivered.bytes += bytes;
        }
        stopped
    }

    /// Sends a record that has more than sections, or is too long for one frame. A run has just had room for it.
    fn deliver_unusual(
        &mut self,
        connection: &mut Connection,
        record: &Record<'_>,
        shared: &mut SharedChunk<'_>,
    ) {
        let is_shared = is_shared(record, connection.output_len());
        let tag = (record.sequence_number as u32).to_be_bytes();
        let delivery = NewDelivery { tag: &tag, format: amqp::message::FORMAT_AMQP, settled: true };
        let mut sender = connection.sender(self.link);
        if let Some(Ok(mut writer)) = sender.as_mut().map(|sender| sender.begin(&delivery)) {
            let sections = self.write_before(&mut writer, record);
            match is_shared {
                true => writer.put_shared(shared.slice(sections)),
                false => writer.put(sections),
            }
            writer.finish();
        } else {
            debug_assert!(false, "a run had room for one more message");
        }
    }

    /// Writes what stands in front of the sections of a record, and returns those.
    fn write_before<'r>(&mut self, writer: &mut TransferWriter<'_>, record: &Record<'r>) -> &'r [u8] {
        let leading = Leading::of(record.sections);
        let sections = match leading {
            Some(leading) => {
                self.write_leading(writer, &leading);
                leading.rest
            }
            None => {
                if let Some(metrics) = &self.metrics {
                    writer.put(metrics.section());
                }
                record.sections
            }
        };
        if record.annotation_count == 0 && AnnotationTemplate::fits(record) {
            writer.put_encoded(TEMPLATE_LENGTH, |out| self.template.append(record, out));
        } else {
            let own = entries_of(record);
            writer.put(&wide_map_header(own.len() + record.annotations.len(), 3 + record.annotation_count));
            writer.put(&own);
            writer.put(record.annotations);
        }
        sections
    }

    #[cold]
    fn write_leading(&self, writer: &mut TransferWriter<'_>, leading: &Leading<'_>) {
        writer.put(leading.header.unwrap_or_default());
        match (&self.metrics, leading.delivery_annotations) {
            (Some(metrics), Some(client)) => {
                let mut merged = Vec::new();
                merge_delivery_annotations(metrics.entries(), client, &METRICS, &mut merged);
                writer.put(&merged);
            }
            (Some(metrics), None) => writer.put(metrics.section()),
            (None, client) => writer.put(client.unwrap_or_default()),
        }
    }
}

/// A chunk whose records can be sent without being copied.
struct SharedChunk<'a> {
    chunk: &'a LogChunk,
    /// Made when it is needed first.
    bytes: Option<Bytes>,
}

impl SharedChunk<'_> {
    /// A share in bytes of the chunk.
    fn slice(&mut self, part: &[u8]) -> Bytes {
        self.bytes.get_or_insert_with(|| Bytes::from_owner(self.chunk.clone())).slice_ref(part)
    }
}

/// Whether the sections of a record are sent from the log's memory instead of being copied, behind so much output.
#[inline]
const fn is_shared(record: &Record<'_>, waiting: usize) -> bool {
    record.sections.len() >= SHARED_MIN && waiting < SHARED_WAITING_MAX
}

/// The service's annotations for one record after the other: a template, into whose copy what differs is written.
///
/// The digits of the offset are kept as a number, not as bytes in the template: a wide load of bytes that a narrow store has
/// just written has to wait until that has left the processor's store buffer.
#[derive(Debug)]
struct AnnotationTemplate {
    bytes: [u8; TEMPLATE_LENGTH],
    /// The sequence number that the digits stand for.
    number: u64,
    /// How many digits there are, at most [`DIGITS_MAX`].
    digits: usize,
    /// The digits as text, the first one in the most significant byte.
    text: u128,
    /// The last digit's place in it.
    shift: u32,
}

impl AnnotationTemplate {
    fn new() -> Self {
        let mut bytes = [0; TEMPLATE_LENGTH];
        let mut at = 0;
        let mut put = |part: &[u8]| {
            bytes[at..at + part.len()].copy_from_slice(part);
            at += part.len();
        };
        put(&[0x00, 0x53, 0x72, 0xc1, 0, 6]);
        put(b"\xa3\x15x-opt-sequence-number\x81");
        put(&[0; 8]);
        put(b"\xa3\x13x-opt-enqueued-time\x83");
        put(&[0; 8]);
        put(b"\xa3\x0cx-opt-offset\xa1");
        let mut template = Self { bytes, number: 0, digits: 0, text: 0, shift: 0 };
        template.write_digits(0);
        template
    }

    /// Whether the number of a record has few enough digits for the template.
    #[inline]
    const fn fits(record: &Record<'_>) -> bool {
        record.sequence_number < NUMBERS_END
    }

    /// Appends the whole section for a record that [fits](Self::fits) and has no annotations of the client.
    #[inline]
    fn append(&mut self, record: &Record<'_>, out: &mut Vec<u8>) {
        let number = record.sequence_number;
        if number == self.number + 1 {
            self.count_up();
        } else if number != self.number {
            self.write_digits(number);
        }
        let start = out.len();
        out.extend_from_slice(&self.bytes);
        if let Some(copy) = out.get_mut(start..).and_then(<[u8]>::first_chunk_mut::<TEMPLATE_LENGTH>) {
            copy[SEQUENCE_AT..SEQUENCE_AT + 8].copy_from_slice(&number.to_be_bytes());
            copy[TIME_AT..TIME_AT + 8].copy_from_slice(&record.append_time.milliseconds().to_be_bytes());
            copy[DIGITS_AT..DIGITS_AT + DIGITS_MAX].copy_from_slice(&self.text.to_be_bytes());
        }
        out.truncate(start + DIGITS_AT + self.digits);
    }

    /// Adds one to the digits in place: a division per digit is what makes printing a number slow.
    #[inline]
    fn count_up(&mut self) {
        self.number += 1;
        self.text += 1 << self.shift;
        if (self.text >> self.shift) as u8 > b'9' {
            self.write_digits(self.number);
        }
    }

    #[cold]
    fn write_digits(&mut self, number: u64) {
        self.number = number;
        (self.text, self.digits) = (0, 0);
        let mut rest = number;
        while self.digits < DIGITS_MAX {
            self.text = self.text >> 8 | u128::from(b'0' + (rest % 10) as u8) << 120;
            self.digits += 1;
            rest /= 10;
            if rest == 0 {
                break;
            }
        }
        self.shift = (DIGITS_MAX - self.digits) as u32 * 8;
        self.bytes[DIGITS_AT - 1] = self.digits as u8;
        // The size counts what follows it: the count byte and the entries.
        self.bytes[4] = (DIGITS_AT + self.digits - 5) as u8;
    }
}

/// The service's three entries for any record, without a map header.
fn entries_of(record: &Record<'_>) -> Vec<u8> {
    let mut entries = Vec::with_capacity(TEMPLATE_LENGTH);
    write::symbol(&mut entries, "x-opt-sequence-number");
    entries.push(code::LONG);
    entries.extend_from_slice(&record.sequence_number.to_be_bytes());
    write::symbol(&mut entries, "x-opt-enqueued-time");
    entries.push(code::TIMESTAMP);
    entries.extend_from_slice(&record.append_time.milliseconds().to_be_bytes());
    write::symbol(&mut entries, "x-opt-offset");
    write::string(&mut entries, &record.sequence_number.to_string());
    entries
}

/// The header of an annotations section of `entries_length` bytes and `entries` entries, in the form for any size.
fn wide_map_header(entries_length: usize, entries: u32) -> [u8; 12] {
    let mut header = [0x00, 0x53, 0x72, 0xd1, 0, 0, 0, 0, 0, 0, 0, 0];
    header[4..8].copy_from_slice(&(entries_length as u32 + 4).to_be_bytes());
    header[8..12].copy_from_slice(&(entries * 2).to_be_bytes());
    header
}

const SEQUENCE_AT: usize = 6 + 2 + 21 + 1;
const TIME_AT: usize = SEQUENCE_AT + 8 + 2 + 19 + 1;
const DIGITS_AT: usize = TIME_AT + 8 + 2 + 12 + 2;
const DIGITS_MAX: usize = 16;
const TEMPLATE_LENGTH: usize = DIGITS_AT + DIGITS_MAX;

/// The least number that has more digits.
const NUMBERS_END: u64 = 10_u64.pow(DIGITS_MAX as u32);
const _: () = assert!(TEMPLATE_LENGTH - 5 < 256, "the one-byte size of the map must hold the longest number");

/// Output that one reader may add before the next has its turn, in bytes.
const SHARE: usize = 64 * 1024;

/// Output behind which nothing is shared any more, in bytes: a client that does not read would hold memory of the log that
/// retention has given up.
const SHARED_WAITING_MAX: usize = 256 * 1024;

/// Log bytes looked at per read: enough that a read's lock does not show.
const READ_BYTES: usize = 64 * 1024;

#[cfg(test)]
mod tests {
    use super::*;
    use amqp::Value;
    use amqp::message::MessageView;

    #[test]
    fn the_template_says_what_each_record_is() {
        let mut template = AnnotationTemplate::new();
        let few = [0, 1, 9, 10, 11, 99, 100, 12_345, 12_346, 7, u64::from(u32::MAX)];
        let many = [NUMBERS_END - 2, NUMBERS_END - 1, NUMBERS_END, i64::MAX.cast_unsigned()];
        for number in few.into_iter().chain(998..=1_001).chain(many) {
            let record = Record {
                sequence_number: number,
                append_time: UnixTime::from_milliseconds(1_700_000_000_000 + 3),
                annotation_count: 0,
                annotations: &[],
                sections: &[],
            };
            let mut bytes = Vec::new();
            let own = entries_of(&record);
            match AnnotationTemplate::fits(&record) {
                true => template.append(&record, &mut bytes),
                false => bytes.extend(wide_map_header(own.len(), 3).iter().chain(&own)),
            }
            assert_eq!(bytes[bytes.len() - own.len()..], own, "both ways are one");
            let annotations = MessageView::parse(&bytes).unwrap().message_annotations().unwrap();
            assert_eq!(annotations.find("x-opt-offset").unwrap(), Some(Value::String(number.to_string())));
            assert_eq!(
                annotations.find("x-opt-sequence-number").unwrap(),
                Some(Value::Long(number.cast_signed()))
            );
            assert_eq!(
                annotations.find("x-opt-enqueued-time").unwrap(),
                Some(Value::Timestamp(1_700_000_000_003))
            );
        }
    }
}
