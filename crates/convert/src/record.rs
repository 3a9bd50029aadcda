//! AMQP messages as records of Kafka.

use std::borrow::Cow;
use std::collections::HashMap;

use amqp::DecodeError;
use amqp::codec::{Map, Reader, Value, code};
use amqp::message::{MessageView, Properties, SectionKind, Sections, is_data_section};
use kafka::record::Header;

use crate::PARTITION_KEY;
use crate::annotations::RecordAnnotations;

/// A message of AMQP, with what is known of it beside its sections.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Message<'a> {
    /// The key of the record if the annotations have none.
    pub key: Option<&'a [u8]>,
    /// How many annotations there are beside those of the sections.
    pub annotation_count: u32,
    /// Name and value of each of these.
    pub annotations: &'a [u8],
    /// The sections.
    pub sections: &'a [u8],
    /// What application properties become.
    pub header_form: HeaderForm,
}

/// The encoding of application properties as header values.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum HeaderForm {
    /// The AMQP encoding of each, as Event Hubs has it.
    #[default]
    Encoded,
    /// Bytes as they are, nothing for null, and the AMQP encoding of all else: headers that became properties are headers again.
    Bytes,
    /// The same, with texts, numbers and truths as text.
    Text,
}

/// What a message is in Kafka: a record without its place in a batch.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RecordParts<'a> {
    /// The key, if it has one.
    pub key: Option<&'a [u8]>,
    /// The value; none of a tombstone.
    pub value: Option<Cow<'a, [u8]>>,
    headers: Vec<OwnHeader<'a>>,
}

/// Name and value of what an application property becomes.
type Property<'a> = (&'a [u8], Option<Cow<'a, [u8]>>);

type OwnHeader<'a> = (Cow<'a, [u8]>, Option<Cow<'a, [u8]>>);

impl<'a> Message<'a> {
    /// A message that is nothing but its sections.
    #[must_use]
    pub const fn of(sections: &'a [u8]) -> Self {
        Self { key: None, annotation_count: 0, annotations: &[], sections, header_form: HeaderForm::Encoded }
    }

    /// What it is in Kafka.
    ///
    /// A message that can't be read is a record of its bytes: what a log or a peer has once taken must not move the offsets of
    /// what comes after it.
    #[must_use]
    pub fn record_parts(&self) -> RecordParts<'a> {
        let plain =
            |value: &'a [u8]| RecordParts { key: self.key, value: Some(value.into()), headers: Vec::new() };
        match self.plain_value() {
            Some(value) => plain(value),
            None => self.convert().unwrap_or_else(|_unreadable| plain(self.sections)),
        }
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
        let mut headers = Vec::new();
        let mut of_record = RecordAnnotations::default();
        let mut annotations = Reader::new(self.annotations);
        for _ in 0..self.annotation_count {
            take_annotation(&mut annotations, &mut of_record, &mut headers)?;
        }
        let mut value = Cow::default();
        let mut has_body = false;
        let mut properties = Vec::new();
        for section in Sections::new(self.sections) {
            let section = section?;
            match section.kind {
                SectionKind::MessageAnnotations => {
                    let Some(mut map) = Reader::new(section.value).map()? else { continue };
                    while let Some(reader) = map.entry() {
                        take_annotation(reader, &mut of_record, &mut headers)?;
                    }
                }
                SectionKind::Properties => {
                    let properties = MessageView::parse(section.encoded)?.properties()?;
                    properties.iter().for_each(|properties| push_properties(&mut headers, properties));
                }
                SectionKind::ApplicationProperties => {
                    if let Some(map) = Reader::new(section.value).map()? {
                        self.header_form.read_properties(&mut properties, map)?;
                    }
                }
                SectionKind::Data if !has_body => (value, has_body) = (section.data()?.into(), true),
                SectionKind::Data => value.to_mut().extend_from_slice(section.data()?),
                SectionKind::Sequence | SectionKind::Value => value = section.value.into(),
                SectionKind::Header | SectionKind::DeliveryAnnotations | SectionKind::Footer => {}
            }
        }
        push_application_properties(&mut headers, properties, &of_record.headers);
        let is_tombstone = of_record.is_tombstone && value.is_empty();
        Ok(RecordParts { key: of_record.key.or(self.key), value: (!is_tombstone).then_some(value), headers })
    }
}

impl RecordParts<'_> {
    /// The headers.
    pub fn headers(&self) -> impl Iterator<Item = Header<'_>> + Clone {
        self.headers.iter().map(|(name, value)| (&**name, value.as_deref()))
    }
}

/// Takes an annotation, at which `reader` is.
fn take_annotation<'a>(
    reader: &mut Reader<'a>,
    of_record: &mut RecordAnnotations<'a>,
    headers: &mut Vec<OwnHeader<'a>>,
) -> Result<(), DecodeError> {
    match reader.text()?.unwrap_or_default() {
        PARTITION_KEY => {
            let key = reader.text()?.unwrap_or_default();
            headers.push((PARTITION_KEY.as_bytes().into(), Some(key.as_bytes().into())));
            Ok(())
        }
        name => of_record.take(name, reader),
    }
}

impl HeaderForm {
    /// Reads what becomes of application properties.
    fn read_properties<'a>(self, out: &mut Vec<Property<'a>>, mut map: Map<'a>) -> Result<(), DecodeError> {
        while let Some(reader) = map.entry() {
            let name = reader.text()?.unwrap_or_default();
            let value = match (self, reader.peek()?) {
                (Self::Encoded, _) => Some(reader.raw()?.into()),
                (_, code::BINARY_8 | code::BINARY_32 | code::NULL) => reader.binary()?.map(Cow::Borrowed),
                (Self::Bytes, _) => Some(reader.raw()?.into()),
                (Self::Text, _) => {
                    let raw = reader.raw()?;
                    let text = text_of(&Reader::new(raw).value()?);
                    Some(text.map_or_else(|| raw.into(), |text| text.into_bytes().into()))
                }
            };
            out.push((name.as_bytes(), value));
        }
        Ok(())
    }
}

/// A text, number or truth as text; `None` for anything else.
fn text_of(value: &Value) -> Option<String> {
    match value {
        Value::Boolean(value) => Some(value.to_string()),
        Value::Float(value) => Some(value.to_string()),
        Value::Double(value) => Some(value.to_string()),
        Value::Ulong(value) => Some(value.to_string()),
        Value::Timestamp(_) => None,
        value => match value.as_text() {
            Some(text) => Some(text.to_owned()),
            None => value.as_integer().map(|number| number.to_string()),
        },
    }
}

/// Appends application properties as headers. Where the record had more headers than there are properties, each has its place, and the last
/// one of a name has the value of the property: a name that is no property any longer is left out.
fn push_application_properties<'a>(
    headers: &mut Vec<OwnHeader<'a>>,
    mut properties: Vec<Property<'a>>,
    of_record: &[Header<'a>],
) {
    if !of_record.is_empty() {
        let by_name: HashMap<&[u8], Option<Cow<'a, [u8]>>> = properties.iter().cloned().collect();
        let last: HashMap<&[u8], usize> =
            of_record.iter().enumerate().map(|(at, (name, _))| (*name, at)).collect();
        for (at, (name, value)) in of_record.iter().enumerate() {
            let own = value.map(Cow::Borrowed);
            match by_name.get(name) {
                Some(property) if last[name] == at => headers.push(((*name).into(), property.clone())),
                Some(_) => headers.push(((*name).into(), own)),
                None if str::from_utf8(name).is_err() => headers.push(((*name).into(), own)),
                None => {}
            }
        }
        properties.retain(|(name, _)| !last.contains_key(name));
    }
    headers.extend(properties.into_iter().map(|(name, value)| (name.into(), value)));
}

fn push_properties(headers: &mut Vec<OwnHeader<'_>>, properties: &Properties) {
    let mut push = |name: &'static str, value: Option<Vec<u8>>| {
        headers.extend(value.map(|value| (name.as_bytes().into(), Some(value.into()))));
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
    use crate::annotations;

    #[test]
    fn a_data_section_is_the_value() {
        let mut sections = Vec::new();
        encode::data(&mut sections, b"value");
        let message = Message { key: Some(b"key"), ..Message::of(&sections) };
        assert_eq!(message.plain_value(), Some(&b"value"[..]));
        let parts = message.record_parts();
        assert_eq!((parts.key, parts.value.as_deref()), (Some(&b"key"[..]), Some(&b"value"[..])));
        assert_eq!(parts.headers().count(), 0);
    }

    /// The entry of the annotations that has this key.
    fn key_annotation(out: &mut Vec<u8>, key: &[u8]) {
        write::symbol(out, "x-opt-kafka-key");
        write::binary(out, key);
    }

    #[test]
    fn properties_and_the_partition_key_are_headers() {
        let mut annotations = Vec::new();
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
            &[
                ("text", Value::from("a")),
                ("number", Value::Int(54)),
                ("bytes", Value::Binary(b"b".to_vec())),
                ("none", Value::Null),
            ],
        );
        encode::data(&mut sections, b"first ");
        encode::data(&mut sections, b"second");
        let without_key = Message {
            key: Some(b"key of the partition"),
            annotation_count: 2,
            annotations: &annotations,
            sections: &sections,
            header_form: HeaderForm::Encoded,
        };
        assert_eq!(without_key.plain_value(), None);
        assert_eq!(without_key.record_parts().key, Some(&b"key of the partition"[..]));
        let mut with_key = annotations.clone();
        key_annotation(&mut with_key, b"key of the record");
        let message = Message { annotation_count: 3, annotations: &with_key, ..without_key };
        let parts = message.record_parts();
        assert_eq!(parts.key, Some(&b"key of the record"[..]));
        assert_eq!(parts.value.as_deref(), Some(&b"first second"[..]));
        let mut expected: Vec<Header<'_>> = vec![
            (PARTITION_KEY.as_bytes(), Some(b"key of the partition")),
            (b"message-id", Some(b"id 1")),
            (b"content-type", Some(b"application/json")),
            (b"creation-time", Some(b"1650000000000")),
            (b"text", Some(b"\xa1\x01a")),
            (b"number", Some(b"\x54\x36")),
            (b"bytes", Some(b"\xa0\x01b")),
            (b"none", Some(b"\x40")),
        ];
        assert_eq!(parts.headers().collect::<Vec<_>>(), expected);
        let own = Message { header_form: HeaderForm::Bytes, ..message }.record_parts();
        expected[6].1 = Some(b"b");
        expected[7].1 = None;
        assert_eq!(own.headers().collect::<Vec<_>>(), expected);
        // The same where the annotations are among the sections.
        let mut whole = Vec::new();
        annotations::section(&mut whole, 3, &with_key);
        whole.extend_from_slice(&sections);
        assert_eq!(Message::of(&whole).record_parts(), parts);
    }

    #[test]
    fn bodies_that_are_not_bytes_are_their_encoding_and_what_is_unreadable_is_its_bytes() {
        let mut value = Vec::new();
        encode::value(&mut value, &Value::from("text"));
        assert_eq!(Message::of(&value).record_parts().value.as_deref(), Some(&b"\xa1\x04text"[..]));
        let unreadable = Message { key: Some(b"key"), ..Message::of(b"no sections") }.record_parts();
        assert_eq!(
            (unreadable.key, unreadable.value.as_deref()),
            (Some(&b"key"[..]), Some(&b"no sections"[..]))
        );
    }

    #[test]
    fn headers_that_were_changed_as_properties_are_changed_where_they_were() {
        let headers: [Header<'_>; 5] =
            [(b"a", Some(b"1")), (b"b", None), (b"a", Some(b"2")), (b"\xff", Some(b"3")), (b"c", Some(b"4"))];
        let properties: Vec<Property<'_>> =
            vec![(b"c", Some(b"4".into())), (b"a", Some(b"changed".into())), (b"new", None)];
        let mut out = Vec::new();
        push_application_properties(&mut out, properties, &headers);
        let out: Vec<Header<'_>> = out.iter().map(|(name, value)| (&**name, value.as_deref())).collect();
        let expected: Vec<Header<'_>> = vec![
            (b"a", Some(b"1")),
            (b"a", Some(b"changed")),
            (b"\xff", Some(b"3")),
            (b"c", Some(b"4")),
            (b"new", None),
        ];
        assert_eq!(out, expected);
    }

    fn bytes() -> impl Strategy<Value = Vec<u8>> {
        proptest::collection::vec(any::<u8>(), 0..20)
    }

    proptest! {
        #[test]
        fn records_come_back_over_amqp(
            key in proptest::option::of(bytes()),
            value in proptest::option::of(proptest::collection::vec(any::<u8>(), 0..400)),
            headers in proptest::collection::vec(("[ab\u{e9}]{0,2}", proptest::option::of(bytes())), 0..5),
            own_name in proptest::option::of(bytes()),
        ) {
            let mut headers: Vec<(Vec<u8>, Option<Vec<u8>>)> =
                headers.into_iter().map(|(name, value)| (name.into_bytes(), value)).collect();
            headers.extend(own_name.map(|name| (name, None)));
            let written: Vec<Header<'_>> = headers.iter().map(|(name, value)| (&name[..], value.as_deref())).collect();
            let mut bytes = Vec::new();
            record::encode(&mut bytes, 0, key.as_deref(), value.as_deref(), written.iter().copied());
            let mut sections = Vec::new();
            crate::message(&mut sections, &Records::of(&bytes).next().unwrap().unwrap());
            let message = Message { header_form: HeaderForm::Bytes, ..Message::of(&sections) };
            let parts = message.record_parts();
            prop_assert_eq!((parts.key, parts.value.as_deref()), (key.as_deref(), value.as_deref()));
            prop_assert_eq!(parts.headers().collect::<Vec<_>>(), written);
        }

        #[test]
        fn any_bytes_are_a_record(
            annotation_count in 0_u32..3,
            annotations: Vec<u8>,
            sections: Vec<u8>,
            key in proptest::option::of(bytes()),
            has_bytes: bool,
        ) {
            let header_form = if has_bytes { HeaderForm::Bytes } else { HeaderForm::Encoded };
            let message =
                Message { key: key.as_deref(), annotation_count, annotations: &annotations, sections: &sections, header_form };
            let parts = message.record_parts();
            let mut out = Vec::new();
            record::encode(&mut out, 0, parts.key, parts.value.as_deref(), parts.headers());
            prop_assert_eq!(record::check(&out, 1), Ok(()));
        }
    }
}
