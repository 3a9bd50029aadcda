//! A message as rules see it: its properties as typed values, and nothing of its body.

use super::application::ApplicationProperties;
use amqp::codec::{DecodeError, Value};
use amqp::message::{MessageView, Properties, SectionKind, Sections, encode};
use std::time::Duration;

use partition_log::UnixTime;

/// The properties of one message.
#[derive(Clone, Debug, PartialEq, Default)]
pub struct MessageProperties {
    /// The standard properties. SQL calls them `sys.MessageId`, `sys.Label` and so on.
    pub standard: Properties,
    /// Application properties.
    pub application: ApplicationProperties,
    /// What else `sys` has.
    pub broker: BrokerProperties,
}

/// What a message has besides its properties: from its header and annotations, and what the topic gave it.
#[derive(Clone, Debug, PartialEq, Default)]
pub struct BrokerProperties {
    /// When the topic took it. Not part of the message: set it after [`MessageProperties::decode`].
    pub enqueued_time: Option<UnixTime>,
    /// Its number within the topic. Not part of the message: set it after [`MessageProperties::decode`].
    pub sequence_number: Option<i64>,
    /// When it is to become visible.
    pub scheduled_enqueue_time: Option<UnixTime>,
    /// How long it may wait.
    pub time_to_live: Option<Duration>,
    /// What belongs together.
    pub partition_key: Option<String>,
}

impl MessageProperties {
    /// The properties of an encoded `message`, or of the part of one that has them. Sections that are not there are
    /// empty.
    ///
    /// # Errors
    /// The bytes are no message, or more than its limits allow.
    pub fn decode(message: &[u8]) -> Result<Self, DecodeError> {
        let view = MessageView::parse(message)?;
        let application = view.application_properties()?.entries()?;
        let annotations = view.message_annotations()?;
        let timestamp = |key| -> Result<Option<UnixTime>, DecodeError> {
            let value = annotations.find(key)?;
            Ok(value.and_then(|value| value.as_integer()).map(UnixTime::from_milliseconds))
        };
        Ok(Self {
            standard: view.properties()?.unwrap_or_default(),
            application: application
                .into_iter()
                .map(|(name, value)| (name.as_str().to_owned(), value))
                .collect(),
            broker: BrokerProperties {
                enqueued_time: None,
                sequence_number: None,
                scheduled_enqueue_time: timestamp(SCHEDULED_ENQUEUE_TIME)?,
                time_to_live: view
                    .header()?
                    .and_then(|header| header.time_to_live_ms)
                    .map(|milliseconds| Duration::from_millis(milliseconds.into())),
                partition_key: annotations
                    .find(PARTITION_KEY)?
                    .and_then(|value| value.as_text().map(str::to_owned)),
            },
        })
    }

    /// As [`ApplicationProperties::find`].
    #[must_use]
    pub fn find(&self, name: &str) -> Option<&Value> {
        self.application.find(name)
    }

    /// As [`ApplicationProperties::set`].
    pub fn set(&mut self, name: &str, value: Value) {
        self.application.set(name, value);
    }

    /// As [`ApplicationProperties::remove`].
    pub fn remove(&mut self, name: &str) {
        self.application.remove(name);
    }

    /// `message` with these properties and application properties in the place of its own; all other sections stay as
    /// they are, in the order that the specification gives them.
    ///
    /// # Errors
    /// The bytes are no message.
    pub fn rewrite(&self, message: &[u8]) -> Result<Vec<u8>, DecodeError> {
        let mut out = Vec::with_capacity(message.len() + ROOM);
        let mut rest = Vec::new();
        for section in Sections::new(message) {
            let section = section?;
            match section.kind {
                SectionKind::Properties | SectionKind::ApplicationProperties => {}
                SectionKind::Header | SectionKind::DeliveryAnnotations | SectionKind::MessageAnnotations => {
                    out.extend_from_slice(section.encoded)
                }
                SectionKind::Data | SectionKind::Sequence | SectionKind::Value | SectionKind::Footer => {
                    rest.push(section.encoded)
                }
            }
        }
        self.standard.encode(&mut out);
        if !self.application.is_empty() {
            let entries: Vec<(&str, Value)> =
                self.application.iter().map(|(name, value)| (name.as_str(), value.clone())).collect();
            encode::application_properties(&mut out, &entries);
        }
        for section in rest {
            out.extend_from_slice(section);
        }
        Ok(out)
    }
}

const SCHEDULED_ENQUEUE_TIME: &str = "x-opt-scheduled-enqueue-time";
const PARTITION_KEY: &str = "x-opt-partition-key";
/// What properties may grow by without a second allocation.
const ROOM: usize = 128;

#[cfg(test)]
mod tests {
    use super::*;
    use amqp::codec::Symbol;

    fn message() -> Vec<u8> {
        let mut bytes = Vec::new();
        encode::message_annotations(
            &mut bytes,
            &[
                (PARTITION_KEY.into(), "p".into()),
                (SCHEDULED_ENQUEUE_TIME.into(), Value::Timestamp(1_700_000_000_000)),
            ],
        );
        let standard = Properties {
            message_id: Some("m".into()),
            content_type: Some(Symbol::from_static("text/plain")),
            ..Properties::default()
        };
        standard.encode(&mut bytes);
        encode::application_properties(&mut bytes, &[("color", "red".into()), ("Quantity", Value::Int(7))]);
        encode::data(&mut bytes, b"payload");
        bytes
    }

    #[test]
    fn annotations_count_as_system_properties() {
        let properties = MessageProperties::decode(&message()).unwrap();
        assert_eq!(properties.broker.partition_key.as_deref(), Some("p"));
        assert_eq!(
            properties.broker.scheduled_enqueue_time,
            Some(UnixTime::from_milliseconds(1_700_000_000_000))
        );
    }

    #[test]
    fn the_time_to_live_is_read_from_the_header() {
        // list8 of three fields: durable true, priority null, ttl 60,000 ms.
        let header = [0x00, 0x53, 0x70, 0xc0, 0x08, 0x03, 0x41, 0x40, 0x70, 0, 0, 0xea, 0x60];
        let bytes = [&header[..], &message()].concat();
        let properties = MessageProperties::decode(&bytes).unwrap();
        assert_eq!(properties.broker.time_to_live, Some(Duration::from_secs(60)));
        assert_eq!(MessageProperties::decode(&message()).unwrap().broker.time_to_live, None);
    }

    #[test]
    fn rewriting_changes_the_properties_and_nothing_else() {
        let original = message();
        let mut properties = MessageProperties::decode(&original).unwrap();
        assert_eq!(properties.rewrite(&original).unwrap(), original);
        properties.set("QUANTITY", Value::Int(3));
        properties.remove("color");
        properties.set("new", Value::Boolean(true));
        properties.standard.correlation_id = Some("c".into());
        let bytes = properties.rewrite(&original).unwrap();
        assert_eq!(MessageProperties::decode(&bytes).unwrap(), properties);
        assert_eq!(
            properties.application[..],
            [("Quantity".to_owned(), Value::Int(3)), ("new".to_owned(), Value::Boolean(true))]
        );
        let view = MessageView::parse(&bytes).unwrap();
        assert_eq!(view.data().unwrap(), Some(&b"payload"[..]));
    }
}
