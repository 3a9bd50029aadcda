//! Events that a destination refuses for good, as messages for a place of their own: what they were, and in their application
//! properties where they come from and why they are here.
//!
//! | application property | |
//! |---|---|
//! | `DeadLetterReason`, `DeadLetterErrorDescription` | the condition and the words of the refusal, under the names that Service Bus gives them |
//! | `parshall-source`, `parshall-partition` | the hub or topic, and its partition |
//! | `parshall-sequence-number`, `parshall-offset` | the event's place in it |
//! | `parshall-sink`, `parshall-destination` | the sink that refused it, by its position, and the destination of that |
//! | `parshall-attempts` | how often it was sent there |
//! | `parshall-time` | when it was put aside |
//!
//! A message that can't be read becomes the body of one that can, and so do records that a log has and nobody can read: of these
//! `parshall-last-sequence-number` is the last one, and `parshall-records` their number as far as the log says. Where their bytes are left
//! out because the place takes none as long, `parshall-message-bytes` is their length.

use std::time::{SystemTime, UNIX_EPOCH};

use amqp::codec::Value;
use amqp::message::{MessageView, SectionKind, Sections, encode};
use bytes::Bytes;

use crate::event::{Event, EventBatch, EventParts, Unreadable};
use crate::sink::SendError;

/// Why an event is put aside, and where it comes from.
#[derive(Clone, Copy, Debug)]
pub struct Refusal<'a> {
    /// The hub or topic that it was read from.
    pub source: &'a str,
    /// The position of the sink that refuses it.
    pub sink: u32,
    /// The destination of that sink.
    pub destination: u32,
    /// What the destination says.
    pub error: &'a SendError,
    /// How often the event was sent there.
    pub attempts: u32,
    /// When it was put aside.
    pub at: SystemTime,
}

/// A batch of one event, the dead letter. It keeps partition, sequence number and partition key.
#[must_use]
pub fn dead_letter(batch: &EventBatch, event: &Event, refusal: &Refusal<'_>) -> EventBatch {
    letter(batch, event, |out| append(out, batch, event, refusal))
}

/// The same without what the event was, for a place that does not take it because of its length.
#[must_use]
pub fn dead_letter_without_message(batch: &EventBatch, event: &Event, refusal: &Refusal<'_>) -> EventBatch {
    letter(batch, event, |out| {
        let mut own = properties(batch, event, refusal);
        let length = i64::try_from(event.message_len()).unwrap_or(i64::MAX);
        own.push(("parshall-message-bytes", Value::Long(length)));
        encode::application_properties(out, &own);
        encode::data(out, &[]);
    })
}

fn letter(batch: &EventBatch, event: &Event, write: impl FnOnce(&mut Vec<u8>)) -> EventBatch {
    let key = batch.partition_key(event).unwrap_or_default();
    let mut chunk = key.to_vec();
    write(&mut chunk);
    // Both are shorter than the chunk that they were in, but for some hundred bytes of properties.
    let (start, end) = (key.len() as u32, chunk.len() as u32);
    let parts = EventParts {
        message: start..end,
        partition_key: 0..start,
        offset: 0..0,
        sequence_number: event.sequence_number,
        enqueued_time: event.enqueued_time,
    };
    let mut letter = EventBatch::with_capacity(batch.partition(), 1);
    letter.push(&Bytes::from(chunk), &parts);
    letter
}

fn append(out: &mut Vec<u8>, batch: &EventBatch, event: &Event, refusal: &Refusal<'_>) {
    let message = batch.message(event);
    let own = properties(batch, event, refusal);
    let theirs = match batch.unreadable() {
        None => application_properties(message),
        Some(_) => None,
    };
    let Some(theirs) = theirs else {
        encode::application_properties(out, &own);
        encode::data(out, message);
        return;
    };
    let mut entries: Vec<(&str, Value)> =
        theirs.iter().map(|(key, value)| (key.as_str(), value.clone())).collect();
    entries.retain(|(key, _)| own.iter().all(|(name, _)| name != key));
    entries.extend(own);
    let sections = || Sections::new(message).flatten();
    let precedes = |kind: SectionKind| {
        matches!(
            kind,
            SectionKind::Header
                | SectionKind::DeliveryAnnotations
                | SectionKind::MessageAnnotations
                | SectionKind::Properties
        )
    };
    for section in sections().filter(|section| precedes(section.kind)) {
        out.extend_from_slice(section.encoded);
    }
    encode::application_properties(out, &entries);
    let follows = |kind| !precedes(kind) && kind != SectionKind::ApplicationProperties;
    for section in sections().filter(|section| follows(section.kind)) {
        out.extend_from_slice(section.encoded);
    }
}

/// Those of a message in which every section can be read.
fn application_properties(message: &[u8]) -> Option<Vec<(String, Value)>> {
    Sections::new(message).try_for_each(|section| section?.validate()).ok()?;
    let entries = MessageView::parse(message).ok()?.application_properties().ok()?.entries().ok()?;
    Some(entries.into_iter().map(|(key, value)| (key.to_string(), value)).collect())
}

fn properties(batch: &EventBatch, event: &Event, refusal: &Refusal<'_>) -> Vec<(&'static str, Value)> {
    let text = |text: &str| Value::String(text.to_owned());
    let since_epoch = refusal.at.duration_since(UNIX_EPOCH).unwrap_or_default();
    let milliseconds = i64::try_from(since_epoch.as_millis()).unwrap_or(i64::MAX);
    let mut properties = vec![
        ("DeadLetterReason", text(&refusal.error.condition)),
        ("DeadLetterErrorDescription", text(&refusal.error.description)),
        ("parshall-source", text(refusal.source)),
        ("parshall-partition", Value::Long(batch.partition().0.into())),
        ("parshall-time", Value::Timestamp(milliseconds)),
    ];
    match batch.unreadable() {
        None => properties.extend([
            ("parshall-sequence-number", Value::Long(event.sequence_number)),
            ("parshall-sink", Value::Long(refusal.sink.into())),
            ("parshall-destination", Value::Long(refusal.destination.into())),
            ("parshall-attempts", Value::Long(refusal.attempts.into())),
        ]),
        Some(Unreadable { numbers, records, .. }) => properties.extend([
            ("parshall-sequence-number", Value::Long(numbers.start)),
            ("parshall-last-sequence-number", Value::Long(numbers.end - 1)),
            ("parshall-records", Value::Long(i64::try_from(*records).unwrap_or(i64::MAX))),
        ]),
    }
    let offset = batch.offset(event).and_then(|offset| std::str::from_utf8(offset).ok());
    properties.extend(offset.map(|offset| ("parshall-offset", text(offset))));
    properties
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::event::{EnqueuedTime, PartitionId};
    use crate::sink::ErrorClass;

    /// The letter of a message with this key in partition 3, sequence number 8, offset 80.
    fn letter_of(message: &[u8], key: &str) -> EventBatch {
        let chunk = Bytes::from([key.as_bytes(), b"80", message].concat());
        let end = |length: usize| length as u32;
        let parts = EventParts {
            message: end(key.len() + 2)..end(chunk.len()),
            partition_key: 0..end(key.len()),
            offset: end(key.len())..end(key.len() + 2),
            sequence_number: 8,
            enqueued_time: EnqueuedTime::default(),
        };
        let mut batch = EventBatch::with_capacity(PartitionId(3), 1);
        batch.push(&chunk, &parts);
        let error = SendError {
            class: ErrorClass::Fatal,
            condition: "amqp:decode-error".to_owned(),
            description: "no such thing".to_owned(),
        };
        let at = UNIX_EPOCH + Duration::from_secs(7);
        let refusal = Refusal { source: "orders", sink: 1, destination: 4, error: &error, attempts: 3, at };
        dead_letter(&batch, &batch.events()[0], &refusal)
    }

    #[test]
    fn a_letter_says_where_it_comes_from_and_why_and_keeps_what_it_was() {
        let mut message = Vec::new();
        let entries = [("colour", Value::String("red".to_owned())), ("DeadLetterReason", Value::Null)];
        encode::application_properties(&mut message, &entries);
        encode::data(&mut message, b"body");
        let letter = letter_of(&message, "device");
        let event = &letter.events()[0];
        assert_eq!((letter.partition(), event.sequence_number), (PartitionId(3), 8));
        assert_eq!(letter.partition_key(event), Some(&b"device"[..]));
        let bytes = letter.message(event);
        Sections::new(bytes).try_for_each(|section| section?.validate()).unwrap();
        let view = MessageView::parse(bytes).unwrap();
        assert_eq!(view.data().unwrap(), Some(&b"body"[..]));
        let properties = view.application_properties().unwrap();
        for (key, value) in [
            ("colour", Value::String("red".to_owned())),
            ("DeadLetterReason", Value::String("amqp:decode-error".to_owned())),
            ("DeadLetterErrorDescription", Value::String("no such thing".to_owned())),
            ("parshall-source", Value::String("orders".to_owned())),
            ("parshall-partition", Value::Long(3)),
            ("parshall-sequence-number", Value::Long(8)),
            ("parshall-offset", Value::String("80".to_owned())),
            ("parshall-sink", Value::Long(1)),
            ("parshall-destination", Value::Long(4)),
            ("parshall-attempts", Value::Long(3)),
            ("parshall-time", Value::Timestamp(7_000)),
        ] {
            assert_eq!(properties.find(key).unwrap(), Some(value), "{key}");
        }
        assert_eq!(properties.entries().unwrap().len(), 11, "each name once");
    }

    #[test]
    fn records_that_can_not_be_read_are_the_body_with_their_numbers_beside_or_left_out() {
        // It could be taken for a message.
        let mut bytes = Vec::new();
        encode::data(&mut bytes, b"body");
        let unreadable = Unreadable { numbers: 5..9, records: 3, reason: "it is damaged".to_owned() };
        let mut batch = EventBatch::with_capacity(PartitionId(3), 1);
        batch.push_unreadable(&Bytes::from(bytes.clone()), unreadable, EnqueuedTime::default());
        let error = SendError {
            class: ErrorClass::Fatal,
            condition: "parshall:unreadable-records".to_owned(),
            description: "it is damaged".to_owned(),
        };
        let refusal =
            Refusal { source: "orders", sink: 0, destination: 0, error: &error, attempts: 1, at: UNIX_EPOCH };
        let whole = dead_letter(&batch, &batch.events()[0], &refusal);
        let short = dead_letter_without_message(&batch, &batch.events()[0], &refusal);
        for (letter, body, left_out) in [(&whole, &bytes[..], None), (&short, b"", Some(Value::Long(9)))] {
            assert_eq!(letter.last_sequence_number(), Some(8), "what the relay knows the batch by");
            let view = MessageView::parse(letter.message(&letter.events()[0])).unwrap();
            assert_eq!(view.data().unwrap(), Some(body));
            let properties = view.application_properties().unwrap();
            assert_eq!(properties.find("parshall-message-bytes").unwrap(), left_out);
            for (key, value) in [
                ("DeadLetterErrorDescription", Value::String("it is damaged".to_owned())),
                ("parshall-sequence-number", Value::Long(5)),
                ("parshall-last-sequence-number", Value::Long(8)),
                ("parshall-records", Value::Long(3)),
            ] {
                assert_eq!(properties.find(key).unwrap(), Some(value), "{key}");
            }
            assert_eq!(properties.find("parshall-attempts").unwrap(), None, "it was sent nowhere");
        }
    }

    #[test]
    fn what_can_not_be_read_becomes_the_body() {
        let mut whole = Vec::new();
        encode::data(&mut whole, b"body");
        for message in [&b"no sections"[..], &[0x00, 0x53, 0x74, 0xc1, 0xff], &whole[..whole.len() - 1], b""]
        {
            let letter = letter_of(message, "");
            let event = &letter.events()[0];
            let view = MessageView::parse(letter.message(event)).unwrap();
            let properties = view.application_properties().unwrap();
            assert_eq!(properties.find("parshall-partition").unwrap(), Some(Value::Long(3)));
            let body = view.data().unwrap();
            assert!(body == Some(message) || message.is_empty(), "{message:?}");
            assert_eq!(letter.partition_key(event), None);
        }
    }
}
