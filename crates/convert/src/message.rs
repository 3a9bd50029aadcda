//! Records of Kafka as AMQP messages.

use std::collections::BTreeMap;

use amqp::codec::write;
use amqp::message::encode;
use amqp::performative::descriptor;
use kafka::record::{Headers, Record};

use crate::KAFKA_KEY;

/// Appends the sections of the message that a record is: its headers and its value. The key is not in them, because it is an
/// annotation: see [`key_annotation`].
pub fn message(out: &mut Vec<u8>, record: &Record<'_>) {
    message_head(out, record);
    out.extend_from_slice(record.value.unwrap_or_default());
}

/// The same up to the bytes of the value, for those who take them from where they are: application properties, if there are
/// headers, and what a Data section begins with.
pub fn message_head(out: &mut Vec<u8>, record: &Record<'_>) {
    if record.headers.count() > 0 {
        application_properties(out, &record.headers);
    }
    let length = record.value.map_or(0, <[u8]>::len);
    encode::data_prefix(out, u32::try_from(length).unwrap_or(u32::MAX));
}

/// Appends the annotation that has the key of a record: its name and its value, an entry of the map of annotations.
pub fn key_annotation(out: &mut Vec<u8>, key: &[u8]) {
    write::symbol(out, KAFKA_KEY);
    write::binary(out, key);
}

fn application_properties(out: &mut Vec<u8>, headers: &Headers<'_>) {
    // A map has each key once.
    let headers: BTreeMap<&str, Option<&[u8]>> = headers.iter().collect();
    write::descriptor(out, descriptor::APPLICATION_PROPERTIES);
    write::map(out, headers.len() as u32, |out| {
        for (name, value) in headers {
            write::string(out, name);
            write::option(out, value, write::binary);
        }
    });
}

#[cfg(test)]
mod tests {
    use amqp::Value;
    use amqp::message::MessageView;
    use kafka::record::{self, Records};

    use super::*;

    fn message_of(key: Option<&[u8]>, value: Option<&[u8]>, headers: &[(&str, &[u8])]) -> Vec<u8> {
        let mut bytes = Vec::new();
        record::encode(&mut bytes, 0, key, value, headers.iter().copied());
        let mut out = b"before".to_vec();
        message(&mut out, &Records::of(&bytes).next().unwrap().unwrap());
        out.split_off(6)
    }

    #[test]
    fn the_value_is_one_data_section() {
        for value in [&b"value"[..], &[], &[7; 300]] {
            let message = message_of(Some(b"key"), Some(value), &[]);
            let mut expected = Vec::new();
            encode::data(&mut expected, value);
            assert_eq!(message, expected);
        }
        assert_eq!(message_of(None, None, &[]), message_of(None, Some(b""), &[]), "a tombstone");
    }

    #[test]
    fn headers_are_application_properties_and_the_last_of_a_name_counts() {
        let headers = [("trace", &b"first"[..]), ("other", b"\x00\xff"), ("trace", b"last")];
        let message = message_of(None, Some(b"value"), &headers);
        let message = MessageView::parse(&message).unwrap();
        assert_eq!(message.data().unwrap(), Some(&b"value"[..]));
        let properties = message.application_properties().unwrap();
        assert_eq!(properties.entries().unwrap().len(), 2);
        assert_eq!(properties.find("trace").unwrap(), Some(Value::Binary(b"last".to_vec())));
        assert_eq!(properties.find("other").unwrap(), Some(Value::Binary(b"\x00\xff".to_vec())));
    }
}
