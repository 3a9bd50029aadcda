//! A request with one event or message, as sections of AMQP.
//!
//! ```text
//! [header] [message annotations] [properties] [application properties] Data
//! └ of messages ──────────────┘                                          └ its head; the body follows as it came
//! ```

use std::borrow::Cow;

use amqp::codec::write;
use amqp::message::{Header, encode};
use amqp::performative::descriptor;

use crate::broker_properties::{BrokerProperties, PropertiesError};
use crate::head::{FIELDS_MAX, Field};
use crate::property;

/// Appends the sections of an event up to its body, of which `body` bytes follow: its content type, and the header fields that are
/// properties.
pub fn event_head(out: &mut Vec<u8>, content_type: Option<&[u8]>, fields: &[Field<'_>], body: usize) {
    if let Some(content_type) = content_type {
        properties(out, &BrokerProperties::default(), Some(&property::text(content_type)));
    }
    custom_properties(out, fields);
    data_head(out, body);
}

/// Appends the annotation with the partition key of an event: its key and its value.
pub fn partition_key_annotation(out: &mut Vec<u8>, key: &str) {
    write::symbol(out, PARTITION_KEY);
    write::string(out, key);
}

/// Appends the sections of a message up to its body, of which `body` bytes follow.
///
/// # Errors
/// A property makes no sense.
pub fn message_head(
    out: &mut Vec<u8>,
    broker: &BrokerProperties<'_>,
    content_type: Option<&[u8]>,
    custom: impl FnOnce(&mut Vec<u8>),
    body: usize,
) -> Result<(), PropertiesError> {
    if let Some(time_to_live_ms) = broker.time_to_live_ms()? {
        let header = Header { time_to_live_ms: Some(time_to_live_ms), ..Header::default() };
        out.extend_from_slice(header.encode().as_slice());
    }
    annotations(out, broker)?;
    let content_type = content_type.map(property::text);
    if content_type.is_some() || *broker != BrokerProperties::default() {
        properties(out, broker, content_type.as_deref());
    }
    custom(out);
    data_head(out, body);
    Ok(())
}

/// Appends header fields that are properties as application properties; nothing if there are none.
pub fn custom_properties(out: &mut Vec<u8>, fields: &[Field<'_>]) {
    let is_custom = |places: u64, (place, field): (usize, &Field<'_>)| {
        places | u64::from(property::is_custom(field.name)) << place
    };
    let custom = fields.iter().take(FIELDS_MAX).enumerate().fold(0, is_custom);
    if custom != 0 {
        write::descriptor(out, descriptor::APPLICATION_PROPERTIES);
        write::map(out, custom.count_ones(), |out| {
            for (_, field) in
                fields.iter().enumerate().filter(|(place, _)| *place < FIELDS_MAX && custom >> place & 1 == 1)
            {
                write::string(out, field.name);
                property::write_guessed(out, &property::text(field.value));
            }
        });
    }
}

/// Appends entries that are encoded already as application properties; nothing if there are none.
pub fn application_properties(out: &mut Vec<u8>, count: u32, entries: &[u8]) {
    if count > 0 {
        write::descriptor(out, descriptor::APPLICATION_PROPERTIES);
        write::map(out, count, |out| out.extend_from_slice(entries));
    }
}

/// Appends the head of the body.
pub fn data_head(out: &mut Vec<u8>, body: usize) {
    encode::data_prefix(out, u32::try_from(body).expect("bodies are bounded"));
}

fn annotations(out: &mut Vec<u8>, broker: &BrokerProperties<'_>) -> Result<(), PropertiesError> {
    let scheduled = broker.scheduled_enqueue_time()?;
    let keys = [(PARTITION_KEY, broker.partition_key()), (VIA_PARTITION_KEY, broker.via_partition_key())];
    let count = keys.iter().filter(|(_, key)| key.is_some()).count() as u32 + u32::from(scheduled.is_some());
    if count > 0 {
        write::descriptor(out, descriptor::MESSAGE_ANNOTATIONS);
        write::map(out, count, |out| {
            for (name, key) in &keys {
                if let Some(key) = key {
                    write::symbol(out, name);
                    write::string(out, key);
                }
            }
            if let Some(scheduled) = scheduled {
                write::symbol(out, SCHEDULED_ENQUEUE_TIME);
                write::timestamp(out, scheduled);
            }
        });
    }
    Ok(())
}

fn properties(out: &mut Vec<u8>, broker: &BrokerProperties<'_>, content_type: Option<&str>) {
    let string = |out: &mut Vec<u8>, text: Option<Cow<'_, str>>| {
        write::option(out, text, |out, text| write::string(out, &text));
    };
    let (group, reply_group) = (broker.session_id(), broker.reply_to_session_id());
    // Fields at the end that are null are left out.
    let count = match (&group, &reply_group) {
        (_, Some(_)) => 13,
        (Some(_), None) => 11,
        (None, None) => 7,
    };
    write::descriptor(out, descriptor::PROPERTIES);
    write::list(out, count, |out| {
        string(out, broker.message_id());
        write::null(out);
        string(out, broker.to());
        string(out, broker.label());
        string(out, broker.reply_to());
        string(out, broker.correlation_id());
        // A symbol is ASCII.
        let content_type = content_type.filter(|text| property::is_field_value(text));
        write::option(out, content_type, write::symbol);
        if count > 7 {
            // Encoding and two times.
            (0..3).for_each(|_| write::null(out));
            string(out, group);
        }
        if count > 11 {
            write::null(out);
            string(out, reply_group);
        }
    });
}

// A bit for each field.
const _: () = assert!(FIELDS_MAX <= 64);

/// Annotation by which the partition is picked.
pub const PARTITION_KEY: &str = "x-opt-partition-key";

const VIA_PARTITION_KEY: &str = "x-opt-via-partition-key";
const SCHEDULED_ENQUEUE_TIME: &str = "x-opt-scheduled-enqueue-time";

#[cfg(test)]
mod tests {
    use amqp::Value;
    use amqp::message::MessageView;

    use super::*;

    #[test]
    fn an_event_has_its_content_type_and_its_custom_fields() {
        let fields = [
            Field { name: "Host", value: b"here" },
            Field { name: "Priority", value: b"High" },
            Field { name: "Attempt", value: b"2" },
        ];
        let mut event = Vec::new();
        event_head(&mut event, Some(b"application/json"), &fields, 4);
        event.extend_from_slice(b"body");
        let view = MessageView::parse(&event).unwrap();
        assert_eq!(view.data().unwrap(), Some(&b"body"[..]));
        let content_type = view.properties().unwrap().unwrap().content_type.unwrap();
        assert_eq!(content_type.as_str(), "application/json");
        let custom = view.application_properties().unwrap();
        assert_eq!(custom.entries().unwrap().len(), 2);
        assert_eq!(custom.find("Priority").unwrap(), Some(Value::from("High")));
        assert_eq!(custom.find("Attempt").unwrap(), Some(Value::Int(2)));
    }

    #[test]
    fn a_message_has_everything_that_its_broker_properties_say() {
        let broker = r#"{"MessageId": "m", "CorrelationId": "c", "SessionId": "s", "Label": "l", "ReplyTo": "r", "To": "t",
            "ReplyToSessionId": "rs", "PartitionKey": "s", "TimeToLive": 3,
            "ScheduledEnqueueTimeUtc": "Wed, 09 Jul 2014 21:20:00 GMT"}"#;
        let broker = BrokerProperties::parse(broker.as_bytes()).unwrap();
        let mut message = Vec::new();
        message_head(&mut message, &broker, Some(b"text/plain"), |_| {}, 2).unwrap();
        message.extend_from_slice(b"hi");
        let view = MessageView::parse(&message).unwrap();
        assert_eq!(view.header().unwrap().unwrap().time_to_live_ms, Some(3_000));
        let annotations = view.message_annotations().unwrap();
        assert_eq!(annotations.find(PARTITION_KEY).unwrap(), Some(Value::from("s")));
        let scheduled = Some(Value::Timestamp(1_404_940_800_000));
        assert_eq!(annotations.find(SCHEDULED_ENQUEUE_TIME).unwrap(), scheduled);
        let properties = view.properties().unwrap().unwrap();
        assert_eq!(properties.message_id, Some(Value::from("m")));
        assert_eq!(properties.correlation_id, Some(Value::from("c")));
        assert_eq!(properties.subject.as_deref(), Some("l"));
        assert_eq!(properties.reply_to.as_deref(), Some("r"));
        assert_eq!(properties.to.as_deref(), Some("t"));
        assert_eq!(properties.group_id.as_deref(), Some("s"));
        assert_eq!(properties.reply_to_group_id.as_deref(), Some("rs"));
        assert_eq!(view.data().unwrap(), Some(&b"hi"[..]));
        let mut plain = Vec::new();
        message_head(&mut plain, &BrokerProperties::default(), None, |_| {}, 0).unwrap();
        assert_eq!(plain, b"\x00\x53\x75\xa0\x00");
    }
}
