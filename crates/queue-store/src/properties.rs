//! Setting application properties of an encoded message.

use amqp::codec::{DecodeError, Reader, Value, write};
use amqp::message::{MessageView, SectionKind, Sections, encode};
use bytes::Bytes;
use std::collections::HashSet;

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

/// Returns annotations and sections of a message without the annotation `name`, and the new length of the annotations; `None`
/// if there is no such annotation. `bytes` begins with `annotations_length` bytes of annotations.
pub(super) fn without_annotation(bytes: &Bytes, annotations_length: u16, name: &str) -> Option<(Bytes, u16)> {
    let (annotations, sections) = bytes.split_at(annotations_length.into());
    let mut reader = Reader::new(annotations);
    loop {
        let start = annotations.len() - reader.rest().len();
        if start == annotations.len() {
            return None;
        }
        let is_meant = reader.text().ok()? == Some(name);
        reader.skip().ok()?;
        if is_meant {
            let end = annotations.len() - reader.rest().len();
            let kept = [&annotations[..start], &annotations[end..], sections].concat();
            return Some((Bytes::from(kept), annotations_length - (end - start) as u16));
        }
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
    let (_annotations, sections) = bytes.split_at(annotations_length.into());
    // Those that are replaced take no more room.
    let all: Vec<(&str, &Value)> = properties.iter().map(|(name, value)| (name.as_str(), value)).collect();
    let changed = match all.is_empty() {
        true => None,
        false => changed_section(sections, &all).ok(),
    };
    match changed {
        Some(section) => section.len() <= PROPERTIES_MAX,
        // They stay as they are.
        None => property_sections(sections).all(|section| section.len() <= PROPERTIES_MAX),
    }
}

fn rewritten(
    annotations: &[u8],
    sections: &[u8],
    properties: &[(&str, &Value)],
) -> Result<Vec<u8>, DecodeError> {
    let changed = changed_section(sections, properties)?;
    let replaced: usize = property_sections(sections).map(<[u8]>::len).sum();
    let mut out = Vec::with_capacity(annotations.len() + sections.len() - replaced + changed.len());
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
            out.extend_from_slice(&changed);
            is_written = true;
        }
        if section.kind != SectionKind::ApplicationProperties {
            out.extend_from_slice(section.encoded);
        }
    }
    if !is_written {
        out.extend_from_slice(&changed);
    }
    Ok(out)
}

/// The section of the application properties of a message in which these are set. An error if it is no message.
fn changed_section(sections: &[u8], properties: &[(&str, &Value)]) -> Result<Vec<u8>, DecodeError> {
    let present = MessageView::parse(sections)?.application_properties()?.entries()?;
    // Both may be thousands, of a sender's and of a receiver's choice.
    let names: HashSet<&str> = properties.iter().map(|(name, _)| *name).collect();
    let kept = present
        .iter()
        .filter(|(key, _)| !names.contains(key.as_str()))
        .map(|(key, value)| (key.as_str(), value.clone()));
    let set = properties.iter().map(|(name, value)| (*name, (*value).clone()));
    let all: Vec<(&str, Value)> = kept.chain(set).collect();
    let mut section = Vec::with_capacity(ROOM);
    encode::application_properties(&mut section, &all);
    Ok(section)
}

/// The sections of application properties, encoded, up to what is no section.
fn property_sections(sections: &[u8]) -> impl Iterator<Item = &[u8]> {
    Sections::new(sections)
        .filter_map(Result::ok)
        .filter(|section| section.kind == SectionKind::ApplicationProperties)
        .map(|section| section.encoded)
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
    use proptest::prelude::*;

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

    /// Sets properties by a look at all that are set for each one that is present. Returns `None` for no message.
    fn naively_set(bytes: &[u8], annotations_length: usize, set: &[(String, Value)]) -> Option<Vec<u8>> {
        let (annotations, sections) = bytes.split_at(annotations_length);
        let present = MessageView::parse(sections).ok()?.application_properties().ok()?.entries().ok()?;
        let kept = present.iter().filter(|(key, _)| !set.iter().any(|(name, _)| name == key.as_str()));
        let mut all: Vec<(&str, Value)> = kept.map(|(key, value)| (key.as_str(), value.clone())).collect();
        all.extend(set.iter().map(|(name, value)| (name.as_str(), value.clone())));
        let mut changed = Vec::new();
        encode::application_properties(&mut changed, &all);
        let (mut before, mut after, mut is_behind) = (Vec::new(), Vec::new(), false);
        for section in Sections::new(sections) {
            let section = section.ok()?;
            is_behind |= section.kind != SectionKind::Properties;
            match (section.kind, is_behind) {
                (SectionKind::ApplicationProperties, _) => {}
                (_, false) => before.extend_from_slice(section.encoded),
                (_, true) => after.extend_from_slice(section.encoded),
            }
        }
        Some([annotations, &before, &changed, &after].concat())
    }

    /// Whether the properties that a message has, or would have, are not too long.
    fn naively_fit(bytes: &[u8], annotations_length: usize, set: &[(String, Value)]) -> bool {
        let changed = match set.is_empty() {
            true => None,
            false => naively_set(bytes, annotations_length, set),
        };
        let bytes = changed.as_deref().unwrap_or(bytes);
        let is_short = |section: amqp::message::Section<'_>| {
            section.kind != SectionKind::ApplicationProperties || section.encoded.len() <= PROPERTIES_MAX
        };
        Sections::new(&bytes[annotations_length..]).filter_map(Result::ok).all(is_short)
    }

    fn entries() -> impl Strategy<Value = Vec<(String, Value)>> {
        let name = (0_u32..40).prop_map(|number| format!("name {number}"));
        let value = prop_oneof![
            20 => any::<i32>().prop_map(Value::Int),
            10 => any::<bool>().prop_map(Value::Boolean),
            1 => (0_usize..70_000).prop_map(|length| Value::String("x".repeat(length))),
        ];
        proptest::collection::vec((name, value), 0..30)
    }

    fn section() -> impl Strategy<Value = Vec<u8>> {
        let application = entries().prop_map(|entries| {
            let entries: Vec<_> =
                entries.iter().map(|(name, value)| (name.as_str(), value.clone())).collect();
            let mut section = Vec::new();
            encode::application_properties(&mut section, &entries);
            section
        });
        let data = (0_usize..70_000).prop_map(|length| {
            let mut section = Vec::new();
            encode::data(&mut section, &vec![7_u8; length]);
            section
        });
        prop_oneof![
            8 => application,
            2 => data,
            2 => Just(message(&[])),
            1 => Just(b"no message".to_vec()),
        ]
    }

    proptest! {
        /// Whatever sections there are, in whatever order.
        #[test]
        fn setting_gives_what_a_look_at_each_name_gives(
            sections in proptest::collection::vec(section(), 0..4),
            annotations_length in 0_u16..5,
            set in entries(),
        ) {
            let annotations = vec![1_u8; annotations_length.into()];
            let bytes = Bytes::from([annotations, sections.concat()].concat());
            let changed = match set.is_empty() {
                true => None,
                false => naively_set(&bytes, annotations_length.into(), &set),
            };
            let expected = changed.unwrap_or_else(|| bytes.to_vec());
            let all: Vec<_> = set.iter().map(|(name, value)| (name.as_str(), value)).collect();
            let found = with_properties(&bytes, annotations_length, &all);
            // Not both in full, should they differ: they may be long.
            prop_assert!(found == expected, "{} bytes, not {}", found.len(), expected.len());
            let added = length(&set);
            let fits = bytes.len() + added <= PROPERTIES_MAX
                || naively_fit(&bytes, annotations_length.into(), &set);
            prop_assert_eq!(fit(&bytes, annotations_length, &set, added), fits);
        }
    }
}
