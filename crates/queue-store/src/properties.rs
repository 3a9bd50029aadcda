//! Setting application properties of an encoded message.

use amqp::codec::{DecodeError, Value, write};
use amqp::message::{MessageView, SectionKind, Sections, encode};
use bytes::Bytes;

/// Annotations and sections of a message, with these application properties set. `bytes` begins with
/// `annotations_length` bytes of annotations. Where the sections are no message, or there is nothing to set, nothing
/// changes.
pub(super) fn with_properties(
    bytes: &Bytes,
    annotations_length: u16,
    properties: &[(&str, &Value)],
) -> Bytes {
    let (annotations, sections) = bytes.split_at(annotations_length.into());
    if properties.is_empty() {
        return Bytes::clone(bytes);
    }
    match rewritten(annotations, sections, properties) {
        Ok(bytes) => Bytes::from(bytes),
        Err(_no_message) => Bytes::clone(bytes),
    }
}

/// How many bytes setting these adds at most.
pub(super) fn length(properties: &[(String, Value)]) -> usize {
    let mut bytes = Vec::new();
    for (name, value) in properties {
        write::string(&mut bytes, name);
        write::value(&mut bytes, value);
    }
    bytes.len()
}

/// Whether a message may have these set, which are `length` bytes: its application properties stay within
/// [`PROPERTIES_MAX`].
pub(super) fn fit(
    bytes: &Bytes,
    annotations_length: u16,
    properties: &[(String, Value)],
    length: usize,
) -> bool {
    if bytes.len() + length <= PROPERTIES_MAX {
        return true;
    }
    // Those that are replaced take no more room.
    let all: Vec<(&str, &Value)> = properties.iter().map(|(name, value)| (name.as_str(), value)).collect();
    let set = with_properties(bytes, annotations_length, &all);
    Sections::new(&set[annotations_length.into()..])
        .filter_map(Result::ok)
        .filter(|section| section.kind == SectionKind::ApplicationProperties)
        .all(|section| section.encoded.len() <= PROPERTIES_MAX)
}

fn rewritten(
    annotations: &[u8],
    sections: &[u8],
    properties: &[(&str, &Value)],
) -> Result<Vec<u8>, DecodeError> {
    let present = MessageView::parse(sections)?.application_properties()?.entries()?;
    let is_set = |key: &str| properties.iter().any(|(name, _)| *name == key);
    let kept = present
        .iter()
        .filter(|(key, _)| !is_set(key.as_str()))
        .map(|(key, value)| (key.as_str(), value.clone()));
    let set = properties.iter().map(|(name, value)| (*name, (*value).clone()));
    let all: Vec<(&str, Value)> = kept.chain(set).collect();
    let mut out = Vec::with_capacity(annotations.len() + sections.len() + ROOM);
    out.extend_from_slice(annotations);
    let mut is_written = false;
    for section in Sections::new(sections) {
        let section = section?;
        let is_before = matches!(
            section.kind,
            SectionKind::Header
                | SectionKind::DeliveryAnnotations
                | SectionKind::MessageAnnotations
                | SectionKind::Properties
        );
        if !is_before && !is_written {
            encode::application_properties(&mut out, &all);
            is_written = true;
        }
        if section.kind != SectionKind::ApplicationProperties {
            out.extend_from_slice(section.encoded);
        }
    }
    if !is_written {
        encode::application_properties(&mut out, &all);
    }
    Ok(out)
}

/// Longest application properties that a message can get by being settled, in bytes, as in the service. Without a bound, one
/// that is abandoned again and again would grow each time.
pub(super) const PROPERTIES_MAX: usize = 64 * 1024;

/// What properties usually take.
const ROOM: usize = 256;

#[cfg(test)]
mod tests {
    use super::*;
    use amqp::message::Properties;

    fn message(application: &[(&str, Value)]) -> Vec<u8> {
        let mut bytes = Vec::new();
        Properties { message_id: Some("m".into()), ..Properties::default() }.encode(&mut bytes);
        if !application.is_empty() {
            encode::application_properties(&mut bytes, application);
        }
        encode::data(&mut bytes, b"body");
        bytes
    }

    #[test]
    fn properties_are_set_and_all_else_stays() {
        let annotations = b"12345";
        let sections = message(&[("a", Value::Int(1)), ("b", Value::Int(2))]);
        let bytes = Bytes::from([&annotations[..], &sections].concat());
        let set = with_properties(&bytes, 5, &[("b", &Value::Int(3)), ("c", &Value::Boolean(true))]);
        let expected = message(&[("a", Value::Int(1)), ("b", Value::Int(3)), ("c", Value::Boolean(true))]);
        assert_eq!(set, [&annotations[..], &expected].concat());
    }

    #[test]
    fn a_message_without_properties_gets_them_before_its_body() {
        let bytes = Bytes::from(message(&[]));
        let set = with_properties(&bytes, 0, &[("a", &"x".into())]);
        assert_eq!(set, message(&[("a", "x".into())]));
    }

    #[test]
    fn bytes_that_are_no_message_stay_as_they_are() {
        let bytes = Bytes::from_static(b"no message");
        assert_eq!(with_properties(&bytes, 2, &[("a", &"x".into())]), bytes);
    }
}
