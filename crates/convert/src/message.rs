//! Records of Kafka as AMQP messages.

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use amqp::codec::write;
use amqp::message::encode;
use amqp::performative::descriptor;
use kafka::record::{Headers, Record};

use crate::annotations;

/// Appends a record as a message: annotations, if it has any, application properties and body.
pub fn message(out: &mut Vec<u8>, record: &Record<'_>) {
    annotations::put_section(out, record);
    message_head(out, record);
    out.extend_from_slice(record.value.unwrap_or_default());
}

/// Appends the sections between the annotations and the bytes of the value: application properties, if there are headers, and the prefix of
/// the Data section. The caller appends the value.
pub fn message_head(out: &mut Vec<u8>, record: &Record<'_>) {
    if record.headers.count() > 0 {
        application_properties(out, &record.headers);
    }
    let length = record.value.map_or(0, <[u8]>::len);
    encode::data_prefix(out, u32::try_from(length).unwrap_or(u32::MAX));
}

/// Appends the headers in their order. Of headers with one name the map has the last value, in the position of the first.
fn application_properties(out: &mut Vec<u8>, headers: &Headers<'_>) {
    let mut entries: Vec<(&str, Option<&[u8]>)> = Vec::new();
    let mut places: HashMap<&str, usize> = HashMap::new();
    for (name, value) in headers.iter() {
        match places.entry(name) {
            Entry::Occupied(place) => entries[*place.get()].1 = value,
            Entry::Vacant(place) => {
                place.insert(entries.len());
                entries.push((name, value));
            }
        }
    }
    write::descriptor(out, descriptor::APPLICATION_PROPERTIES);
    write::map(out, entries.len() as u32, |out| {
        for (name, value) in entries {
            write::string(out, name);
            write::option(out, value, write::binary);
        }
    });
}

#[cfg(test)]
mod tests {
    use amqp::Value;
    use amqp::message::MessageView;
    use kafka::record::{self, Header, Records};

    use super::*;

    fn message_of(key: Option<&[u8]>, value: Option<&[u8]>, headers: &[Header<'_>]) -> Vec<u8> {
        let mut bytes = Vec::new();
        record::encode(&mut bytes, 0, key, value, headers.iter().copied());
        let mut out = b"before".to_vec();
        message(&mut out, &Records::of(&bytes).next().unwrap().unwrap());
        out.split_off(6)
    }

    #[test]
    fn the_value_is_one_data_section() {
        for value in [&b"value"[..], &[], &[7; 300]] {
            let mut expected = Vec::new();
            encode::data(&mut expected, value);
            assert_eq!(message_of(None, Some(value), &[]), expected);
        }
    }

    #[test]
    fn key_and_tombstone_are_annotations() {
        let message = message_of(Some(b"\x00\xff"), None, &[]);
        let view = MessageView::parse(&message).unwrap();
        let annotations = view.message_annotations().unwrap();
        assert_eq!(annotations.find("x-opt-kafka-key").unwrap(), Some(Value::Binary(b"\x00\xff".to_vec())));
        assert_eq!(annotations.find("x-opt-kafka-tombstone").unwrap(), Some(Value::Boolean(true)));
        assert_eq!(annotations.entries().unwrap().len(), 2);
        assert_eq!(view.data().unwrap(), Some(&b""[..]));
    }

    #[test]
    fn headers_are_application_properties_and_the_last_of_a_name_counts() {
        let headers: [Header<'_>; 4] = [
            (b"trace", Some(b"first")),
            (b"other", Some(b"\x00\xff")),
            (b"trace", Some(b"last")),
            (b"\xff", None),
        ];
        let message = message_of(None, Some(b"value"), &headers);
        let message = MessageView::parse(&message).unwrap();
        assert_eq!(message.data().unwrap(), Some(&b"value"[..]));
        let properties = message.application_properties().unwrap();
        assert_eq!(properties.entries().unwrap().len(), 2);
        assert_eq!(properties.find("trace").unwrap(), Some(Value::Binary(b"last".to_vec())));
        assert_eq!(properties.find("other").unwrap(), Some(Value::Binary(b"\x00\xff".to_vec())));
        let all = message.message_annotations().unwrap().find("x-opt-kafka-headers").unwrap();
        assert!(matches!(all, Some(Value::List(fields)) if fields.len() == 8));
    }
}
