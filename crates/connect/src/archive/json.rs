//! All that is known of an event, as an object of JSON.
//!
//! ```text
//!   {"hub":"orders","partition":3,"sequence_number":41,"offset":"1024","enqueued_time":"2026-11-20T22:17:43.007Z",
//!    "partition_key":"k","system":{"message_id":"7"},"properties":{"colour":"red"},"body":"text"}
//! ```
//!
//! A body that is no text is `body_base64` instead. Offsets are texts, as the service has them. The rest is the text form that
//! `convert` has for messages, so that what was archived can be sent again as it was.

use amqp::DecodeError;
use amqp::message::{MessageView, is_data_section};
use convert::text::{BodyForm, Layout, MessageText, put_members, put_text, put_time, put_value};

use super::content::body;
use crate::event::{Event, EventBatch};

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
        put_text(out, &String::from_utf8_lossy(offset));
    }
    out.extend_from_slice(b",\"enqueued_time\":");
    put_time(out, event.enqueued_time.unix_ms());
    // The key of a record that is no text is among what is said of the record.
    if let Some(key) = batch.partition_key(event).and_then(|key| str::from_utf8(key).ok()) {
        out.extend_from_slice(b",\"partition_key\":");
        put_text(out, key);
    }
    if is_data_section(message)
        && let Ok(text) = str::from_utf8(body(message, &mut Vec::new())?)
    {
        out.extend_from_slice(b",\"body\":");
        put_text(out, text);
    } else {
        let text = MessageText::read(message)?;
        text.put(Layout::Nested, out);
        text.put_body(BodyForm::TextOrBase64, out);
        text.put_exact(out);
    }
    out.push(b'}');
    Ok(())
}

/// Appends the properties of the application alone, as an object of their own.
pub(super) fn put_application_properties(out: &mut Vec<u8>, message: &[u8]) -> Result<(), DecodeError> {
    if is_data_section(message) {
        out.extend_from_slice(b"{}");
        return Ok(());
    }
    let entries = MessageView::parse(message)?.application_properties()?.entries()?;
    put_members(out, entries.iter().map(|(name, value)| (name.as_str(), value)), put_value);
    Ok(())
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
    use amqp::Value;
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
             \"enqueued_time\":\"2024-02-29T12:34:56.007Z\",\"partition_key\":\"key\",\"system\":{\"message_id\":7,\"types\":{\"message_id\":\"ulong\"}},\
             \"properties\":{\"text\":\"red\",\"number\":-9223372036854775808,\"ratio\":1e300,\"none\":\"NaN\",\
             \"at\":\"1970-01-01T00:00:00.000Z\"},\"property_types\":{\"none\":\"double\",\"at\":\"timestamp\"},\
             \"body_base64\":\"/wA=\"}"
        );
    }
}
