//! Events that are about to be sent, and how each protocol writes them.
//!
//! An event is borrowed from whoever sends it and written once, straight into the memory that its batch is sent from:
//!
//! | | key | ids, type, subject, session | properties | body |
//! |---|---|---|---|---|
//! | AMQP | annotation `x-opt-partition-key` | properties section | application properties, typed | one Data section |
//! | Kafka | key of the record | headers of those names | headers, as text | value |
//! | HTTP | `BrokerProperties` | `BrokerProperties`, `Content-Type` | headers, or `UserProperties` of a batch | body, see `rest` |

use std::fmt;

use amqp::Value;
use amqp::codec::write;
use amqp::message::{MessageView, SectionKind, Sections, encode};
use amqp::performative::descriptor;
use convert::text::ReadEvent;
use convert::{HeaderForm, Message, annotations};

use super::failure::SendFailure;
use super::rest;
use crate::service::partition_key_annotation;

/// An event to send. What is left out is not sent.
#[derive(Clone, Copy, Debug, Default)]
pub struct NewEvent<'a> {
    /// The payload.
    pub body: &'a [u8],
    /// What the service chooses the partition by, so that equal keys stay in order: at most 128 characters.
    pub key: Option<&'a str>,
    /// The partition, where the sender chooses it. Kafka takes a key beside it, Event Hubs does not.
    pub partition: Option<u32>,
    /// The sender's own name for the event.
    pub message_id: Option<&'a str>,
    /// The name of what it answers, or belongs to.
    pub correlation_id: Option<&'a str>,
    /// The media type of the body.
    pub content_type: Option<&'a str>,
    /// What it is about, in a word.
    pub subject: Option<&'a str>,
    /// The session of a queue that it belongs to.
    pub session: Option<&'a str>,
    /// What else is said of it.
    pub properties: &'a [(&'a str, PropertyValue<'a>)],
    /// What it is, in the place of everything but key and partition.
    pub encoded: Option<&'a ReadEvent>,
}

/// The value of a property.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum PropertyValue<'a> {
    /// Text.
    Text(&'a str),
    /// A whole number.
    Integer(i64),
    /// Any other number.
    Float(f64),
    /// Yes or no.
    Boolean(bool),
}

/// What is spoken, as far as it decides how an event is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wire {
    /// AMQP, to a hub.
    EventHubs,
    /// AMQP, to a queue or topic, which has no partitions to choose.
    ServiceBus,
    /// Records of Kafka.
    Kafka,
    /// REST, an event for each request.
    Http,
    /// REST, events in batches.
    HttpBatch,
}

impl<'a> NewEvent<'a> {
    /// An event that is nothing but its body.
    #[must_use]
    pub fn new(body: &'a [u8]) -> Self {
        Self { body, ..Self::default() }
    }
}

impl Wire {
    /// Appends the event.
    ///
    /// # Errors
    /// When the service does not take such an event. Nothing was appended then.
    pub(super) fn encode(self, event: &NewEvent<'_>, out: &mut Vec<u8>) -> Result<(), SendFailure> {
        self.check(event)?;
        match (self, event.encoded) {
            (Self::EventHubs | Self::ServiceBus, Some(encoded)) => put_message(event.key, encoded, out),
            (Self::Kafka, Some(encoded)) => put_record(event.key, encoded, out),
            (Self::Http | Self::HttpBatch, Some(encoded)) => {
                return with_parts(event, encoded, |event| self.encode(event, out));
            }
            (_, None) => self.encode_parts(event, out)?,
        }
        Ok(())
    }

    fn encode_parts(self, event: &NewEvent<'_>, out: &mut Vec<u8>) -> Result<(), SendFailure> {
        match self {
            Self::EventHubs | Self::ServiceBus => encode_amqp(event, out),
            Self::Kafka => encode_kafka(event, out),
            Self::Http => rest::encode_alone(event, out)?,
            Self::HttpBatch => rest::encode_in_batch(event, out),
        }
        Ok(())
    }

    /// The same for events of batches.
    pub(super) const fn in_batches(self) -> Self {
        match self {
            Self::Http => Self::HttpBatch,
            other => other,
        }
    }

    fn check(self, event: &NewEvent<'_>) -> Result<(), SendFailure> {
        let encoded = event.encoded.map_or(0, |encoded| encoded.sections.len() + encoded.annotations.len());
        if u32::try_from(event.body.len().max(encoded)).is_err() {
            return Err(SendFailure::invalid("the body is longer than 4 GiB"));
        }
        if event.key.is_some_and(|key| key.len() > KEY_BYTES_MAX) {
            return Err(SendFailure::invalid(format!("the key is longer than {KEY_BYTES_MAX} bytes")));
        }
        match (self, event.partition, event.key) {
            (Self::EventHubs | Self::Http | Self::HttpBatch, Some(_), Some(_)) => {
                Err(SendFailure::invalid("a hub takes a key or a partition, not both"))
            }
            (Self::ServiceBus, Some(_), _) => {
                Err(SendFailure::invalid("a queue or topic has no partitions to choose"))
            }
            _ => Ok(()),
        }
    }
}

/// Appends a message that is encoded, with this partition key.
fn put_message(key: Option<&str>, encoded: &ReadEvent, out: &mut Vec<u8>) {
    out.extend_from_slice(&encoded.header);
    let mut entries = Vec::new();
    if let Some(key) = key {
        write::symbol(&mut entries, "x-opt-partition-key");
        write::string(&mut entries, key);
    }
    entries.extend_from_slice(&encoded.annotations);
    let count = encoded.annotation_count.saturating_add(key.is_some().into());
    if count > 0 {
        annotations::section(out, count, &entries);
    }
    out.extend_from_slice(&encoded.sections);
}

/// Appends the record that a message is.
fn put_record(key: Option<&str>, encoded: &ReadEvent, out: &mut Vec<u8>) {
    let message = Message {
        key: key.map(str::as_bytes),
        annotation_count: encoded.annotation_count,
        annotations: &encoded.annotations,
        sections: &encoded.sections,
        header_form: HeaderForm::Text,
    };
    let parts = message.record_parts();
    kafka::record::encode_tail(out, parts.key, parts.value.as_deref(), parts.headers());
}

/// Gives `send` what the REST interface has of a message.
fn with_parts(
    event: &NewEvent<'_>,
    encoded: &ReadEvent,
    send: impl FnOnce(&NewEvent<'_>) -> Result<(), SendFailure>,
) -> Result<(), SendFailure> {
    let refused = |what: &str| SendFailure::invalid(format!("{what} can't be sent over HTTP"));
    let unreadable = |_| SendFailure::invalid("it is no message of AMQP");
    let mut kinds = Sections::new(&encoded.sections).map(|section| section.map(|section| section.kind));
    let is_other = |kind| {
        !matches!(kind, SectionKind::Properties | SectionKind::ApplicationProperties | SectionKind::Data)
    };
    if kinds.any(|kind| kind.is_ok_and(is_other)) {
        return Err(refused("a body that is no bytes, or a footer,"));
    }
    if !encoded.header.is_empty() || encoded.annotation_count > 0 {
        return Err(refused(
            "durability, priority, time to live, the time of a scheduled message, or what is of a record of Kafka,",
        ));
    }
    let view = MessageView::parse(&encoded.sections).map_err(unreadable)?;
    let standard = view.properties().map_err(unreadable)?.unwrap_or_default();
    let id = |id: &Option<Value>| match id {
        None => Ok(None),
        Some(Value::String(text)) => Ok(Some(text.clone())),
        Some(_) => Err(refused("an id that is no text")),
    };
    let (message_id, correlation_id) = (id(&standard.message_id)?, id(&standard.correlation_id)?);
    let sent = amqp::message::Properties {
        message_id: standard.message_id.clone(),
        correlation_id: standard.correlation_id.clone(),
        content_type: standard.content_type.clone(),
        subject: standard.subject.clone(),
        group_id: standard.group_id.clone(),
        ..Default::default()
    };
    if sent != standard {
        return Err(refused("a property of AMQP besides ids, content type, subject and session"));
    }
    let entries = view.application_properties().map_err(unreadable)?.entries().map_err(unreadable)?;
    let mut properties = Vec::with_capacity(entries.len());
    for (name, value) in &entries {
        let value = match value {
            Value::String(text) => PropertyValue::Text(text),
            Value::Long(number) => PropertyValue::Integer(*number),
            Value::Double(number) => PropertyValue::Float(*number),
            Value::Boolean(is) => PropertyValue::Boolean(*is),
            _ => return Err(refused(&format!("the property `{}`, because of its type,", name.as_str()))),
        };
        properties.push((name.as_str(), value));
    }
    send(&NewEvent {
        body: view.data().map_err(unreadable)?.unwrap_or_default(),
        message_id: message_id.as_deref(),
        correlation_id: correlation_id.as_deref(),
        content_type: standard.content_type.as_ref().map(amqp::Symbol::as_str),
        subject: standard.subject.as_deref(),
        session: standard.group_id.as_deref(),
        properties: &properties,
        encoded: None,
        ..*event
    })
}

fn encode_amqp(event: &NewEvent<'_>, out: &mut Vec<u8>) {
    if let Some(key) = event.key {
        partition_key_annotation(out, key);
    }
    let NewEvent { message_id, correlation_id, content_type, subject, session, .. } = *event;
    if message_id.or(correlation_id).or(content_type).or(subject).or(session).is_some() {
        write::descriptor(out, descriptor::PROPERTIES);
        let last = if session.is_some() { 11 } else { 7 };
        write::list(out, last, |out| {
            write::option(out, message_id, write::string);
            write::null(out); // user-id
            write::null(out); // to
            write::option(out, subject, write::string);
            write::null(out); // reply-to
            write::option(out, correlation_id, write::string);
            write::option(out, content_type, write::symbol);
            if session.is_some() {
                write::null(out); // content-encoding
                write::null(out); // absolute-expiry-time
                write::null(out); // creation-time
                write::option(out, session, write::string);
            }
        });
    }
    if !event.properties.is_empty() {
        write::descriptor(out, descriptor::APPLICATION_PROPERTIES);
        // More than fit into memory would be needed for a larger number.
        write::map(out, event.properties.len() as u32, |out| {
            for (name, value) in event.properties {
                write::string(out, name);
                match *value {
                    PropertyValue::Text(text) => write::string(out, text),
                    PropertyValue::Integer(number) => write::long(out, number),
                    PropertyValue::Float(number) => write::value(out, &amqp::Value::Double(number)),
                    PropertyValue::Boolean(is) => write::boolean(out, is),
                }
            }
        });
    }
    encode::data(out, event.body);
}

fn encode_kafka(event: &NewEvent<'_>, out: &mut Vec<u8>) {
    let named = [
        ("message-id", event.message_id),
        ("correlation-id", event.correlation_id),
        ("content-type", event.content_type),
        ("subject", event.subject),
        ("group-id", event.session),
    ];
    // Numbers have no bytes of their own to borrow.
    let texts: Vec<String> = event
        .properties
        .iter()
        .filter(|(_, value)| !value.is_text())
        .map(|(_, value)| value.to_string())
        .collect();
    let mut written = texts.iter();
    let properties: Vec<(&str, &str)> = event
        .properties
        .iter()
        .map(|(name, value)| match value {
            PropertyValue::Text(text) => (*name, *text),
            _ => (*name, written.next().map_or("", String::as_str)),
        })
        .collect();
    let ids = named.iter().filter_map(|(name, value)| value.map(|value| (*name, value)));
    let headers = ids.chain(properties.iter().copied());
    let headers = headers.map(|(name, value)| (name.as_bytes(), Some(value.as_bytes())));
    kafka::record::encode_tail(out, event.key.map(str::as_bytes), Some(event.body), headers);
}

impl PropertyValue<'_> {
    const fn is_text(&self) -> bool {
        matches!(self, Self::Text(_))
    }
}

impl fmt::Display for PropertyValue<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Text(text) => f.write_str(text),
            Self::Integer(number) => write!(f, "{number}"),
            Self::Float(number) => write!(f, "{number}"),
            Self::Boolean(is) => write!(f, "{is}"),
        }
    }
}

/// No service takes longer keys: 128 characters, of at most four bytes each.
const KEY_BYTES_MAX: usize = 512;

#[cfg(test)]
mod tests {
    use amqp::Value;
    use amqp::message::MessageView;
    use kafka::record_tail::RecordTail;

    use super::*;

    const PROPERTIES: &[(&str, PropertyValue<'static>)] = &[
        ("text", PropertyValue::Text("words")),
        ("whole", PropertyValue::Integer(-7)),
        ("half", PropertyValue::Float(0.5)),
        ("is", PropertyValue::Boolean(true)),
    ];

    const FULL: NewEvent<'static> = NewEvent {
        body: b"body",
        key: Some("key"),
        partition: None,
        message_id: Some("id"),
        correlation_id: Some("other"),
        content_type: Some("text/plain"),
        subject: Some("news"),
        session: Some("session"),
        properties: PROPERTIES,
        encoded: None,
    };

    fn encoded(wire: Wire, event: &NewEvent<'_>) -> Vec<u8> {
        let mut out = Vec::new();
        wire.encode(event, &mut out).unwrap();
        out
    }

    #[test]
    fn a_message_has_everything_in_its_place() {
        let message = encoded(Wire::ServiceBus, &FULL);
        let view = MessageView::parse(&message).unwrap();
        let properties = view.properties().unwrap().unwrap();
        assert_eq!(properties.message_id, Some(Value::from("id")));
        assert_eq!(properties.correlation_id, Some(Value::from("other")));
        assert_eq!(properties.content_type.unwrap().as_str(), "text/plain");
        assert_eq!(properties.subject.as_deref(), Some("news"));
        assert_eq!(properties.group_id.as_deref(), Some("session"));
        let application = view.application_properties().unwrap();
        for (name, value) in [
            ("text", Value::from("words")),
            ("whole", Value::Long(-7)),
            ("half", Value::Double(0.5)),
            ("is", Value::Boolean(true)),
        ] {
            assert_eq!(application.find(name).unwrap(), Some(value), "{name}");
        }
        let key = view.message_annotations().unwrap().find("x-opt-partition-key").unwrap();
        assert_eq!(key.unwrap().as_text(), Some("key"));
    }

    #[test]
    fn an_event_that_is_nothing_but_its_body_is_one_section() {
        let mut expected = Vec::new();
        encode::data(&mut expected, b"body");
        assert_eq!(encoded(Wire::EventHubs, &NewEvent::new(b"body")), expected);
    }

    #[test]
    fn a_record_has_ids_and_properties_as_headers() {
        let record = encoded(Wire::Kafka, &FULL);
        let tail = RecordTail::read(&record).unwrap();
        assert_eq!((tail.key, tail.value), (Some(&b"key"[..]), Some(&b"body"[..])));
        let headers: Vec<_> = tail.headers.iter().map(|(name, value)| (name, value.unwrap())).collect();
        let expected: [(&str, &[u8]); 9] = [
            ("message-id", b"id"),
            ("correlation-id", b"other"),
            ("content-type", b"text/plain"),
            ("subject", b"news"),
            ("group-id", b"session"),
            ("text", b"words"),
            ("whole", b"-7"),
            ("half", b"0.5"),
            ("is", b"true"),
        ];
        assert_eq!(headers, expected);
    }

    #[test]
    fn what_a_service_does_not_take_is_refused_before_anything_is_written() {
        let both = NewEvent { partition: Some(1), key: Some("a"), ..NewEvent::default() };
        let partition = NewEvent { partition: Some(1), ..NewEvent::default() };
        let long = "k".repeat(KEY_BYTES_MAX + 1);
        let long = NewEvent { key: Some(&long), ..NewEvent::default() };
        for (wire, event) in [(Wire::EventHubs, both), (Wire::ServiceBus, partition), (Wire::Kafka, long)] {
            let mut out = Vec::new();
            assert!(wire.encode(&event, &mut out).is_err(), "{event:?}");
            assert!(out.is_empty());
        }
        assert!(Wire::Kafka.encode(&both, &mut Vec::new()).is_ok());
    }
}
