//! AMQP messages as records of Kafka.

use std::borrow::Cow;

use amqp::DecodeError;
use amqp::codec::{Map, Reader, Value};
use amqp::message::{MessageView, Properties, SectionKind, Sections, is_data_section};

use crate::{KAFKA_KEY, PARTITION_KEY};

/// A message of AMQP, with what is known of it beside its sections.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Message<'a> {
    /// The key of the record; that of the annotations, if `None`.
    pub key: Option<&'a [u8]>,
    /// How many annotations there are.
    pub annotation_count: u32,
    /// Name and value of each annotation.
    pub annotations: &'a [u8],
    /// All sections but annotations.
    pub sections: &'a [u8],
}

/// What a message is in Kafka: a record without its place in a batch.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RecordParts<'a> {
    /// The key, if it has one.
    pub key: Option<&'a [u8]>,
    /// The value.
    pub value: Cow<'a, [u8]>,
    headers: Vec<Header<'a>>,
}

type Header<'a> = (Cow<'a, str>, Cow<'a, [u8]>);

impl<'a> Message<'a> {
    /// A message that is nothing but its sections.
    #[must_use]
    pub const fn of(sections: &'a [u8]) -> Self {
        Self { key: None, annotation_count: 0, annotations: &[], sections }
    }

    /// What it is in Kafka.
    ///
    /// A message that can't be read is a record of its bytes: what a log or a peer has once taken must not move the offsets of
    /// what comes after it.
    #[must_use]
    pub fn record_parts(&self) -> RecordParts<'a> {
        if let Some(value) = self.plain_value() {
            return RecordParts { key: self.key, value: value.into(), headers: Vec::new() };
        }
        self.convert().unwrap_or_else(|_unreadable| RecordParts {
            key: self.key,
            value: self.sections.into(),
            headers: Vec::new(),
        })
    }

    /// The value of the record, if the message is one Data section without annotations. Then the record has no headers, and no key
    /// but the one that is given.
    #[inline]
    #[must_use]
    pub fn plain_value(&self) -> Option<&'a [u8]> {
        if self.annotation_count > 0 || !is_data_section(self.sections) {
            return None;
        }
        Sections::new(self.sections).next()?.ok()?.data().ok()
    }

    fn convert(&self) -> Result<RecordParts<'a>, DecodeError> {
        let mut converted = RecordParts::default();
        let mut annotations = Reader::new(self.annotations);
        for _ in 0..self.annotation_count {
            match annotations.text()? {
                Some(KAFKA_KEY) => converted.key = annotations.binary()?,
                Some(PARTITION_KEY) => {
                    let key = annotations.text()?.unwrap_or_default();
                    converted.headers.push((PARTITION_KEY.into(), key.as_bytes().into()));
                }
                _ => annotations.skip()?,
            }
        }
        converted.key = self.key.or(converted.key);
        let mut has_body = false;
        for section in Sections::new(self.sections) {
            let section = section?;
            match section.kind {
                SectionKind::Properties => {
                    let properties = MessageView::parse(section.encoded)?.properties()?;
                    properties
                        .iter()
                        .for_each(|properties| push_properties(&mut converted.headers, properties));
                }
                SectionKind::ApplicationProperties => {
                    if let Some(map) = Reader::new(section.value).map()? {
                        push_application_properties(&mut converted.headers, map)?;
                    }
                }
                SectionKind::Data if !has_body => {
                    (converted.value, has_body) = (section.data()?.into(), true);
                }
                SectionKind::Data => converted.value.to_mut().extend_from_slice(section.data()?),
                SectionKind::Sequence | SectionKind::Value => converted.value = section.value.into(),
                SectionKind::Header
                | SectionKind::DeliveryAnnotations
                | SectionKind::MessageAnnotations
                | SectionKind::Footer => {}
            }
        }
        Ok(converted)
    }
}

impl RecordParts<'_> {
    /// Name and value of each header.
    pub fn headers(&self) -> impl Iterator<Item = (&str, &[u8])> + Clone {
        self.headers.iter().map(|(name, value)| (&**name, &**value))
    }
}

fn push_application_properties<'a>(
    headers: &mut Vec<Header<'a>>,
    mut map: Map<'a>,
) -> Result<(), DecodeError> {
    while let Some(reader) = map.entry() {
        let name = reader.text()?.unwrap_or_default();
        headers.push((name.into(), reader.raw()?.into()));
    }
    Ok(())
}

fn push_properties(headers: &mut Vec<Header<'_>>, properties: &Properties) {
    let mut push = |name: &'static str, value: Option<Vec<u8>>| {
        headers.extend(value.map(|value| (name.into(), value.into())));
    };
    let text = |text: &String| text.clone().into_bytes();
    push("message-id", properties.message_id.as_ref().map(id));
    push("user-id", properties.user_id.clone());
    push("to", properties.to.as_ref().map(text));
    push("subject", properties.subject.as_ref().map(text));
    push("reply-to", properties.reply_to.as_ref().map(text));
    push("correlation-id", properties.correlation_id.as_ref().map(id));
    push("content-type", properties.content_type.as_ref().map(|text| text.as_str().into()));
    push("content-encoding", properties.content_encoding.as_ref().map(|text| text.as_str().into()));
    let number = |number: i64| number.to_string().into_bytes();
    push("absolute-expiry-time", properties.absolute_expiry_time.map(number));
    push("creation-time", properties.creation_time.map(number));
    push("group-id", properties.group_id.as_ref().map(text));
    push("group-sequence", properties.group_sequence.map(|place| number(place.into())));
    push("reply-to-group-id", properties.reply_to_group_id.as_ref().map(text));
}

/// A message id as text, or as the bytes that it is.
fn id(id: &Value) -> Vec<u8> {
    match id {
        Value::Binary(bytes) => bytes.to_vec(),
        Value::String(text) => text.clone().into_bytes(),
        Value::Ulong(number) => number.to_string().into_bytes(),
        other => format!("{other:?}").into_bytes(),
    }
}

#[cfg(test)]
mod tests {
    use amqp::codec::{Symbol, write};
    use amqp::message::encode;
    use kafka::record::{self, Records};
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_data_section_is_the_value() {
        let mut sections = Vec::new();
        encode::data(&mut sections, b"value");
        let message = Message { key: Some(b"key"), ..Message::of(&sections) };
        assert_eq!(message.plain_value(), Some(&b"value"[..]));
        let parts = message.record_parts();
        assert_eq!((parts.key, &*parts.value), (Some(&b"key"[..]), &b"value"[..]));
        assert_eq!(parts.headers().count(), 0);
    }

    #[test]
    fn properties_and_the_partition_key_are_headers() {
        let mut annotations = Vec::new();
        crate::key_annotation(&mut annotations, b"key of the record");
        write::symbol(&mut annotations, PARTITION_KEY);
        write::string(&mut annotations, "key of the partition");
        write::symbol(&mut annotations, "x-own");
        write::string(&mut annotations, "is not for Kafka");
        let mut sections = Vec::new();
        let properties = Properties {
            message_id: Some(Value::from("id 1")),
            content_type: Some(Symbol::from_static("application/json")),
            creation_time: Some(1_650_000_000_000),
            ..Properties::default()
        };
        properties.encode(&mut sections);
        encode::application_properties(
            &mut sections,
            &[("text", Value::from("a")), ("number", Value::Int(54))],
        );
        encode::data(&mut sections, b"first ");
        encode::data(&mut sections, b"second");
        let message =
            Message { key: None, annotation_count: 3, annotations: &annotations, sections: &sections };
        assert_eq!(message.plain_value(), None);
        let parts = message.record_parts();
        let own = Message { key: Some(b"own"), ..message }.record_parts();
        assert_eq!((parts.key, own.key), (Some(&b"key of the record"[..]), Some(&b"own"[..])));
        assert_eq!(&*parts.value, b"first second");
        let headers: Vec<_> = parts.headers().collect();
        assert_eq!(
            headers,
            [
                (PARTITION_KEY, &b"key of the partition"[..]),
                ("message-id", b"id 1"),
                ("content-type", b"application/json"),
                ("creation-time", b"1650000000000"),
                ("text", b"\xa1\x01a"),
                ("number", b"\x54\x36"),
            ]
        );
        assert_eq!((own.value, own.headers), (parts.value, parts.headers));
    }

    #[test]
    fn bodies_that_are_not_bytes_are_their_encoding_and_what_is_unreadable_is_its_bytes() {
        let mut value = Vec::new();
        encode::value(&mut value, &Value::from("text"));
        assert_eq!(&*Message::of(&value).record_parts().value, b"\xa1\x04text");
        let unreadable = Message { key: Some(b"key"), ..Message::of(b"no sections") }.record_parts();
        assert_eq!((unreadable.key, &*unreadable.value), (Some(&b"key"[..]), &b"no sections"[..]));
    }

    proptest! {
        #[test]
        fn records_come_back_over_amqp(
            key in proptest::option::of(proptest::collection::vec(any::<u8>(), 0..20)),
            value in proptest::collection::vec(any::<u8>(), 0..400),
        ) {
            let mut bytes = Vec::new();
            record::encode(&mut bytes, 0, key.as_deref(), Some(&value), std::iter::empty());
            let mut sections = Vec::new();
            crate::message(&mut sections, &Records::of(&bytes).next().unwrap().unwrap());
            let mut annotations = Vec::new();
            key.iter().for_each(|key| crate::key_annotation(&mut annotations, key));
            let annotation_count = u32::from(key.is_some());
            let message = Message { key: None, annotation_count, annotations: &annotations, sections: &sections };
            let parts = message.record_parts();
            prop_assert_eq!((parts.key, &*parts.value), (key.as_deref(), &value[..]));
            prop_assert_eq!(parts.headers().count(), 0);
        }

        #[test]
        fn any_bytes_are_a_record(
            annotation_count in 0_u32..3,
            annotations: Vec<u8>,
            sections: Vec<u8>,
            key in proptest::option::of(proptest::collection::vec(any::<u8>(), 0..9)),
        ) {
            let message = Message { key: key.as_deref(), annotation_count, annotations: &annotations, sections: &sections };
            let parts = message.record_parts();
            let mut out = Vec::new();
            record::encode(&mut out, 0, parts.key, Some(&parts.value), parts.headers());
            prop_assert_eq!(record::check(&out, 1), Ok(()));
        }
    }
}
