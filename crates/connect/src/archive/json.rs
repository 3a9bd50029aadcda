//! All that is known of an event, as an object of JSON.
//!
//! ```text
//!   {"hub":"orders","partition":3,"sequence_number":41,"offset":"1024","enqueued_time":"2026-11-20T22:17:43.007Z",
//!    "partition_key":"k","system":{"message_id":"7"},"properties":{"colour":"red"},"body":"text"}
//! ```
//!
//! A body that is no text is `body_base64` instead. Offsets are texts, as the service has them.

use amqp::DecodeError;
use amqp::codec::Value;
use amqp::message::{MessageView, is_data_section};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use units::date::CivilTime;

use super::content::body;
use crate::event::{Event, EventBatch};
use crate::json::put_text;

/// Appends an event.
///
/// # Errors
/// When its message can't be read.
pub(super) fn put_event(
    out: &mut Vec<u8>,
    hub: &str,
    batch: &EventBatch,
    event: &Event,
) -> Result<(), DecodeError> {
    let message = batch.message(event);
    out.extend_from_slice(b"{\"hub\":");
    put_text(out, hub);
    out.extend_from_slice(b",\"partition\":");
    put_integer(out, i64::from(batch.partition().0));
    out.extend_from_slice(b",\"sequence_number\":");
    put_integer(out, event.sequence_number);
    if let Some(offset) = batch.offset(event) {
        out.extend_from_slice(b",\"offset\":");
        put_bytes_as_text(out, offset);
    }
    out.extend_from_slice(b",\"enqueued_time\":");
    put_time(out, event.enqueued_time.unix_ms());
    if let Some(key) = batch.partition_key(event) {
        out.extend_from_slice(b",\"partition_key\":");
        put_bytes_as_text(out, key);
    }
    if !is_data_section(message) {
        put_properties(out, message)?;
    }
    let mut scratch = Vec::new();
    let body = body(message, &mut scratch)?;
    match std::str::from_utf8(body) {
        Ok(text) => {
            out.extend_from_slice(b",\"body\":");
            put_text(out, text);
        }
        Err(_) => {
            out.extend_from_slice(b",\"body_base64\":");
            put_base64(out, body);
        }
    }
    out.push(b'}');
    Ok(())
}

/// Appends the properties of a message: those that the protocol knows, and those of the application.
fn put_properties(out: &mut Vec<u8>, message: &[u8]) -> Result<(), DecodeError> {
    let view = MessageView::parse(message)?;
    if let Some(properties) = view.properties()? {
        let text = |value: Option<String>| value.map(Value::String);
        let symbol = |value: Option<amqp::Symbol>| value.map(Value::Symbol);
        let members = [
            ("message_id", properties.message_id),
            ("correlation_id", properties.correlation_id),
            ("content_type", symbol(properties.content_type)),
            ("content_encoding", symbol(properties.content_encoding)),
            ("subject", text(properties.subject)),
            ("to", text(properties.to)),
            ("reply_to", text(properties.reply_to)),
            ("session_id", text(properties.group_id)),
            ("reply_to_session_id", text(properties.reply_to_group_id)),
            ("user_id", properties.user_id.map(Value::Binary)),
        ];
        let members = members.into_iter().filter_map(|(name, value)| Some((name, value?)));
        put_members(out, b",\"system\":", members);
    }
    let properties = view.application_properties()?.entries()?;
    let properties = properties.iter().map(|(name, value)| (name.as_str(), value.clone()));
    put_members(out, b",\"properties\":", properties);
    Ok(())
}

/// Appends the properties of the application alone, as an object of their own.
pub(super) fn put_application_properties(out: &mut Vec<u8>, message: &[u8]) -> Result<(), DecodeError> {
    let begin = out.len();
    if !is_data_section(message) {
        let properties = MessageView::parse(message)?.application_properties()?.entries()?;
        let properties = properties.iter().map(|(name, value)| (name.as_str(), value.clone()));
        put_members(out, b"", properties);
    }
    if out.len() == begin {
        out.extend_from_slice(b"{}");
    }
    Ok(())
}

fn put_members<'a>(out: &mut Vec<u8>, before: &[u8], members: impl Iterator<Item = (&'a str, Value)>) {
    let begin = out.len();
    out.extend_from_slice(before);
    let mut separator = b'{';
    for (name, value) in members {
        out.push(separator);
        separator = b',';
        put_text(out, name);
        out.push(b':');
        put_value(out, &value);
    }
    match separator {
        b'{' => out.truncate(begin),
        _ => out.push(b'}'),
    }
}

/// Appends a value of AMQP as what JSON has for it: numbers as numbers, times and identifiers as text, bytes in base64.
pub(super) fn put_value(out: &mut Vec<u8>, value: &Value) {
    let put = |out: &mut Vec<u8>, text: String| out.extend_from_slice(text.as_bytes());
    match value {
        Value::Null => out.extend_from_slice(b"null"),
        Value::Boolean(value) => put(out, value.to_string()),
        Value::Ubyte(value) => put(out, value.to_string()),
        Value::Ushort(value) => put(out, value.to_string()),
        Value::Uint(value) => put(out, value.to_string()),
        Value::Ulong(value) => put(out, value.to_string()),
        Value::Byte(value) => put(out, value.to_string()),
        Value::Short(value) => put(out, value.to_string()),
        Value::Int(value) => put(out, value.to_string()),
        Value::Long(value) => put(out, value.to_string()),
        // JSON has no infinity and no NaN.
        Value::Float(value) if value.is_finite() => put(out, format!("{value:?}")),
        Value::Double(value) if value.is_finite() => put(out, format!("{value:?}")),
        Value::Float(value) => put_text(out, &value.to_string()),
        Value::Double(value) => put_text(out, &value.to_string()),
        Value::Char(value) => put_text(out, &char::from_u32(*value).unwrap_or('\u{fffd}').to_string()),
        Value::Timestamp(unix_ms) => put_time(out, *unix_ms),
        Value::Uuid(bytes) => put_text(out, &rest::target::uuid_text(*bytes)),
        Value::Binary(bytes) => put_base64(out, bytes),
        Value::Decimal32(bytes) => put_base64(out, bytes),
        Value::Decimal64(bytes) => put_base64(out, bytes),
        Value::Decimal128(bytes) => put_base64(out, bytes),
        Value::String(text) => put_text(out, text),
        Value::Symbol(text) => put_text(out, text.as_str()),
        Value::List(values) | Value::Array(values) => {
            out.push(b'[');
            for (index, value) in values.iter().enumerate() {
                if index > 0 {
                    out.push(b',');
                }
                put_value(out, value);
            }
            out.push(b']');
        }
        Value::Map(entries) => {
            out.push(b'{');
            for (index, (key, value)) in entries.iter().enumerate() {
                if index > 0 {
                    out.push(b',');
                }
                match key.as_text() {
                    Some(text) => put_text(out, text),
                    None => {
                        let mut key_text = Vec::new();
                        put_value(&mut key_text, key);
                        put_bytes_as_text(out, &key_text);
                    }
                }
                out.push(b':');
                put_value(out, value);
            }
            out.push(b'}');
        }
        // A type of the application's own, such as a span of time of .NET: what it is made of.
        Value::Described(described) => put_value(out, &described.1),
    }
}

/// Appends bytes that are text, as far as anybody knows.
fn put_bytes_as_text(out: &mut Vec<u8>, bytes: &[u8]) {
    put_text(out, &String::from_utf8_lossy(bytes));
}

fn put_base64(out: &mut Vec<u8>, bytes: &[u8]) {
    out.push(b'"');
    out.extend_from_slice(STANDARD.encode(bytes).as_bytes());
    out.push(b'"');
}

/// Appends an instant as RFC 3339 has it, with milliseconds.
fn put_time(out: &mut Vec<u8>, unix_ms: i64) {
    let time = CivilTime::of_unix_ms(unix_ms);
    let mut text = *b"\"0000-00-00T00:00:00.000Z\"";
    let mut put = |place: usize, digits: usize, value: u16| {
        let mut value = value;
        for digit in (place..place + digits).rev() {
            text[digit] = b'0' + (value % 10) as u8;
            value /= 10;
        }
    };
    put(1, 4, time.year);
    put(6, 2, time.month.into());
    put(9, 2, time.day.into());
    put(12, 2, time.hour.into());
    put(15, 2, time.minute.into());
    put(18, 2, time.second.into());
    put(21, 3, time.millisecond);
    out.extend_from_slice(&text);
}

/// Appends a number without asking for memory.
pub(super) fn put_integer(out: &mut Vec<u8>, value: i64) {
    let mut digits = [0; 20];
    let mut place = digits.len();
    let mut rest = value.unsigned_abs();
    loop {
        place -= 1;
        digits[place] = b'0' + (rest % 10) as u8;
        rest /= 10;
        if rest == 0 {
            break;
        }
    }
    if value < 0 {
        out.push(b'-');
    }
    out.extend_from_slice(&digits[place..]);
}

#[cfg(test)]
mod tests {
    use amqp::message::{Properties, encode};
    use bytes::Bytes;

    use super::*;
    use crate::event::{EnqueuedTime, EventParts, PartitionId};

    fn event(message: &[u8], key: &[u8], offset: &[u8]) -> String {
        let mut chunk = key.to_vec();
        chunk.extend_from_slice(offset);
        chunk.extend_from_slice(message);
        let place = |from: usize, length: usize| from as u32..(from + length) as u32;
        let parts = EventParts {
            message: place(key.len() + offset.len(), message.len()),
            partition_key: place(0, key.len()),
            offset: place(key.len(), offset.len()),
            sequence_number: 41,
            enqueued_time: EnqueuedTime::from_unix_ms(1_709_210_096_007),
        };
        let mut batch = EventBatch::with_capacity(PartitionId(3), 1);
        batch.push(&Bytes::from(chunk), &parts);
        let mut out = Vec::new();
        put_event(&mut out, "orders", &batch, &batch.events()[0]).unwrap();
        let text = String::from_utf8(out).unwrap();
        serde_json::from_str::<serde_json::Value>(&text).expect("it is JSON");
        text
    }

    #[test]
    fn an_event_is_an_object_with_what_is_known_of_it() {
        let mut message = Vec::new();
        encode::data(&mut message, b"a \"text\"\n");
        assert_eq!(
            event(&message, b"", b""),
            "{\"hub\":\"orders\",\"partition\":3,\"sequence_number\":41,\"enqueued_time\":\"2024-02-29T12:34:56.007Z\",\
             \"body\":\"a \\\"text\\\"\\n\"}"
        );
        let mut message = Vec::new();
        let properties = Properties { message_id: Some(Value::Ulong(7)), ..Properties::default() };
        properties.encode(&mut message);
        let own = [
            ("text", Value::String("red".to_owned())),
            ("number", Value::Long(i64::MIN)),
            ("ratio", Value::Double(1e300)),
            ("none", Value::Double(f64::NAN)),
            ("at", Value::Timestamp(0)),
        ];
        encode::application_properties(&mut message, &own);
        encode::data(&mut message, b"\xff\x00");
        assert_eq!(
            event(&message, b"key", b"1024"),
            "{\"hub\":\"orders\",\"partition\":3,\"sequence_number\":41,\"offset\":\"1024\",\
             \"enqueued_time\":\"2024-02-29T12:34:56.007Z\",\"partition_key\":\"key\",\"system\":{\"message_id\":7},\
             \"properties\":{\"text\":\"red\",\"number\":-9223372036854775808,\"ratio\":1e300,\"none\":\"NaN\",\
             \"at\":\"1970-01-01T00:00:00.000Z\"},\"body_base64\":\"/wA=\"}"
        );
    }

    #[test]
    fn values_that_json_does_not_know_are_what_comes_closest() {
        let text = |value: Value| {
            let mut out = Vec::new();
            put_value(&mut out, &value);
            String::from_utf8(out).unwrap()
        };
        assert_eq!(text(Value::List(vec![Value::Null, Value::Boolean(true)])), "[null,true]");
        assert_eq!(text(Value::Map(vec![(Value::Int(1), Value::Char(0x61))])), "{\"1\":\"a\"}");
        assert_eq!(text(Value::Described(Box::new((Value::Null, Value::Long(5))))), "5");
        assert_eq!(text(Value::Uuid([0; 16])), "\"00000000-0000-0000-0000-000000000000\"");
    }
}
