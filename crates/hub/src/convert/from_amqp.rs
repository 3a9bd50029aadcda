//! AMQP messages as records of Kafka.

use std::borrow::Cow;

use amqp::DecodeError;
use amqp::codec::{Map, Reader, Value};
use amqp::message::{MessageView, Properties, SectionKind, Sections, is_data_section};
use kafka::record;
use kafka::record_batch::{self, RecordBatch};
use partition_log::{LEADER_EPOCH, LogChunk, Record};

use super::{KAFKA_KEY, PARTITION_KEY};

/// What a message is in Kafka.
#[derive(Debug, Default)]
struct Converted<'a> {
    key: Option<&'a [u8]>,
    value: Cow<'a, [u8]>,
    headers: Vec<(Cow<'a, str>, Cow<'a, [u8]>)>,
}

/// Appends the batches of `chunk`, which is of AMQP, as record batches to `out`, one for each: whole, so that the first may begin
/// before the record that the reader wants.
pub(crate) fn record_batches(chunk: &LogChunk, out: &mut Vec<u8>) {
    for batch in chunk.batches() {
        let start = out.len();
        out.resize(start + RecordBatch::HEADER_LENGTH, 0);
        for (delta, message) in (0..).zip(batch.records()) {
            push(out, delta, &message);
        }
        let (number, time) = (batch.first_sequence_number.cast_signed(), batch.append_time.milliseconds());
        record_batch::complete(&mut out[start..], number, LEADER_EPOCH, batch.record_count, time);
    }
}

fn push(out: &mut Vec<u8>, delta: u32, message: &Record<'_>) {
    if message.annotation_count == 0
        && is_data_section(message.sections)
        && let Some(Ok(section)) = Sections::new(message.sections).next()
        && let Ok(value) = section.data()
    {
        return record::encode(out, delta, None, Some(value), std::iter::empty());
    }
    // What is stored was read before. Should it be unreadable all the same, it is a record of its bytes: numbers must not
    // move.
    let converted = convert(message)
        .unwrap_or_else(|_unreadable| Converted { value: message.sections.into(), ..Converted::default() });
    let headers = converted.headers.iter().map(|(name, value)| (&**name, &**value));
    record::encode(out, delta, converted.key, Some(&converted.value), headers);
}

fn convert<'a>(message: &Record<'a>) -> Result<Converted<'a>, DecodeError> {
    let mut converted = Converted::default();
    let mut annotations = Reader::new(message.annotations);
    for _ in 0..message.annotation_count {
        match annotations.text()? {
            Some(KAFKA_KEY) => converted.key = annotations.binary()?,
            Some(PARTITION_KEY) => {
                let key = annotations.text()?.unwrap_or_default();
                converted.headers.push((PARTITION_KEY.into(), key.as_bytes().into()));
            }
            _ => annotations.skip()?,
        }
    }
    let mut has_body = false;
    for section in Sections::new(message.sections) {
        let section = section?;
        match section.kind {
            SectionKind::Properties => {
                let properties = MessageView::parse(section.encoded)?.properties()?;
                properties.iter().for_each(|properties| push_properties(&mut converted.headers, properties));
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

fn push_application_properties<'a>(
    headers: &mut Vec<(Cow<'a, str>, Cow<'a, [u8]>)>,
    mut map: Map<'a>,
) -> Result<(), DecodeError> {
    while let Some(reader) = map.entry() {
        let name = reader.text()?.unwrap_or_default();
        headers.push((name.into(), reader.raw()?.into()));
    }
    Ok(())
}

fn push_properties(headers: &mut Vec<(Cow<'_, str>, Cow<'_, [u8]>)>, properties: &Properties) {
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
