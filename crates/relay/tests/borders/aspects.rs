//! The parts of an event that can be told apart, and what they are worth.

use std::collections::BTreeMap;

use amqp::Value;
use amqp::message::{Header, MessageView, SectionKind, Sections};
use convert::annotations;
use kafka::record_tail::RecordTail;

/// Each part that an event has, by its name: its value, or values, for comparison.
pub(super) type Aspects = BTreeMap<&'static str, Vec<String>>;

/// What kind of events a place has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Amqp,
    Kafka,
}

/// Which event it is: each has its number in the body, whatever becomes of the rest.
pub(super) const NUMBER: &str = "number";

pub(super) const BODY: &str = "body of bytes";
pub(super) const OTHER_BODY: &str = "body that is a value, a sequence, or in several pieces";
pub(super) const PROPERTIES: &str = "properties: ids, content type, subject, session, to, reply to, …";
pub(super) const BYTES: &str = "application properties that are bytes or null";
pub(super) const TYPED: &str = "application properties of other types";
pub(super) const FOOTER: &str = "footer";
pub(super) const PARTITION_KEY: &str = "partition key";
pub(super) const OF_RECORD: &str = "what is of a record of Kafka: key, tombstone, repeated headers";
pub(super) const HEADER: &str = "durable, priority, time to live";

/// The rows of events of AMQP.
pub(super) const AMQP: [&str; 9] =
    [BODY, OTHER_BODY, PROPERTIES, BYTES, TYPED, FOOTER, PARTITION_KEY, OF_RECORD, HEADER];

/// Parts that nothing else of an event becomes.
pub(super) const INDEPENDENT: [&str; 4] = [PROPERTIES, PARTITION_KEY, OF_RECORD, HEADER];

pub(super) const KEY: &str = "key, also empty or binary";
pub(super) const VALUE: &str = "value";
pub(super) const TOMBSTONE: &str = "no value (tombstone)";
pub(super) const HEADERS: &str = "headers, in order, also repeated, null, or with names that are no text";
pub(super) const TIMESTAMP: &str = "timestamp";

/// The rows of records of Kafka.
pub(super) const KAFKA: [&str; 5] = [KEY, VALUE, TOMBSTONE, HEADERS, TIMESTAMP];

/// The digits that each body, or key of a record, ends with.
fn number_in(bytes: &[u8]) -> String {
    let digits = bytes.rsplit(|byte| *byte == b'#').next().unwrap_or_default();
    String::from_utf8_lossy(&digits[..digits.len().min(6)]).into_owned()
}

/// The parts of a message.
pub(super) fn of_message(partition_key: Option<&[u8]>, sections: &[u8]) -> Aspects {
    let mut aspects = Aspects::new();
    let mut put = |name: &'static str, value: String| aspects.entry(name).or_default().push(value);
    let mut bodies = Vec::new();
    let mut kinds = Vec::new();
    for section in Sections::new(sections).map(Result::unwrap) {
        let view = MessageView::parse(section.encoded).unwrap();
        match section.kind {
            SectionKind::Header => {
                let Header { durable, priority, time_to_live_ms, .. } =
                    Header::decode(section.value).unwrap();
                if durable.is_some() || priority.is_some() || time_to_live_ms.is_some() {
                    put(HEADER, format!("{durable:?} {priority:?} {time_to_live_ms:?}"));
                }
            }
            SectionKind::Properties => {
                put(PROPERTIES, format!("{:?}", view.properties().unwrap().unwrap()));
            }
            SectionKind::ApplicationProperties => {
                let mut entries = view.application_properties().unwrap().entries().unwrap();
                entries.sort_by(|one, other| one.0.as_str().cmp(other.0.as_str()));
                let (bytes, typed): (Vec<_>, Vec<_>) = entries
                    .into_iter()
                    .filter(|(name, _)| name.as_str().starts_with("own"))
                    .partition(|(_, value)| matches!(value, Value::Binary(_) | Value::Null));
                for (name, entries) in [(BYTES, bytes), (TYPED, typed)] {
                    entries.iter().for_each(|entry| put(name, format!("{entry:?}")));
                }
            }
            SectionKind::Footer => put(FOOTER, format!("{:?}", section.encoded)),
            SectionKind::Data | SectionKind::Sequence | SectionKind::Value => {
                kinds.push(section.kind);
                bodies.push(section.value.to_vec());
            }
            SectionKind::MessageAnnotations => {
                let found = annotations::of_message(section.encoded).unwrap();
                if found != annotations::RecordAnnotations::default() {
                    put(OF_RECORD, format!("{found:?}"));
                }
            }
            SectionKind::DeliveryAnnotations => {}
        }
    }
    let sections = format!("{kinds:?} {bodies:?}");
    put(NUMBER, number_in(&bodies.concat()));
    put(if kinds == [SectionKind::Data] { BODY } else { OTHER_BODY }, sections);
    if let Some(key) = partition_key {
        put(PARTITION_KEY, format!("{key:?}"));
    }
    aspects
}

/// The parts of a record.
pub(super) fn of_record(timestamp_ms: i64, tail: &[u8]) -> Aspects {
    let RecordTail { key, value, headers } = RecordTail::read(tail).unwrap();
    let mut aspects = Aspects::new();
    let mut put = |name: &'static str, value: String| aspects.entry(name).or_default().push(value);
    // A tombstone has its number in the key.
    put(NUMBER, value.map_or_else(|| number_in(key.unwrap_or_default()), number_in));
    if let Some(key) = key {
        put(KEY, format!("{key:?}"));
    }
    match value {
        Some(value) => put(VALUE, format!("{value:?}")),
        None => put(TOMBSTONE, String::new()),
    }
    if headers.total() > 0 {
        put(HEADERS, format!("{:?}", headers.all().collect::<Vec<_>>()));
    }
    put(TIMESTAMP, timestamp_ms.to_string());
    aspects
}
