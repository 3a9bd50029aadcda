//! A message that was received, as a response: header fields and a body.

use std::borrow::Cow;

use amqp::DecodeError;
use amqp::codec::{Reader, Value};
use amqp::message::{SectionKind, Sections};

use crate::broker_properties::ReceivedProperties;
use crate::property;

/// What a response tells of a message besides what the service knows of it.
#[derive(Debug, Default)]
pub struct Content<'a> {
    /// The type of the body, if the sender named one.
    pub content_type: Option<String>,
    /// Names and values of its own properties, as far as header fields can have them.
    pub fields: Vec<(String, String)>,
    /// The body: of Data sections their bytes, of another one its value as it is encoded, or its text.
    pub body: Cow<'a, [u8]>,
}

/// Takes a message apart, and fills in what `received` has from it.
///
/// # Errors
/// It can't be read.
pub fn content<'a>(
    sections: &'a [u8],
    received: &mut ReceivedProperties,
) -> Result<Content<'a>, DecodeError> {
    let mut content = Content::default();
    let mut bodies = 0;
    for section in Sections::new(sections) {
        let section = section?;
        match section.kind {
            SectionKind::Properties => read_properties(section.value, &mut content, received)?,
            SectionKind::ApplicationProperties => read_own(section.value, &mut content)?,
            SectionKind::Data | SectionKind::Sequence | SectionKind::Value => {
                let body = match section.kind {
                    SectionKind::Data => Cow::Borrowed(section.data()?),
                    _ => match Reader::new(section.value).value()? {
                        Value::String(text) => Cow::Owned(text.into()),
                        Value::Binary(bytes) => Cow::Owned(bytes),
                        _ => Cow::Borrowed(section.value),
                    },
                };
                match bodies {
                    0 => content.body = body,
                    _ => content.body.to_mut().extend_from_slice(&body),
                }
                bodies += 1;
            }
            _ => {}
        }
    }
    Ok(content)
}

/// The partition key among annotations: `count` keys and values, one after the other.
///
/// # Errors
/// They can't be read.
pub fn partition_key(annotations: &[u8], count: u16) -> Result<Option<String>, DecodeError> {
    let mut reader = Reader::new(annotations);
    for _ in 0..count {
        if reader.text()? == Some(crate::message::PARTITION_KEY) {
            return Ok(reader.value()?.as_text().map(str::to_owned));
        }
        reader.skip()?;
    }
    Ok(None)
}

fn read_properties(
    value: &[u8],
    content: &mut Content<'_>,
    received: &mut ReceivedProperties,
) -> Result<(), DecodeError> {
    let Some(mut fields) = Reader::new(value).list()? else {
        return Ok(());
    };
    received.message_id = id_text(fields.value()?);
    fields.skip()?;
    received.to = fields.field(Reader::string)?.map(str::to_owned);
    received.label = fields.field(Reader::string)?.map(str::to_owned);
    received.reply_to = fields.field(Reader::string)?.map(str::to_owned);
    received.correlation_id = id_text(fields.value()?);
    let content_type = fields.field(Reader::text)?.filter(|text| property::is_field_value(text));
    content.content_type = content_type.map(str::to_owned);
    // Encoding, and two times.
    for _ in 0..3 {
        fields.skip()?;
    }
    received.session_id = fields.field(Reader::string)?.map(str::to_owned);
    fields.skip()?;
    received.reply_to_session_id = fields.field(Reader::string)?.map(str::to_owned);
    Ok(())
}

fn read_own(value: &[u8], content: &mut Content<'_>) -> Result<(), DecodeError> {
    let Some(mut entries) = Reader::new(value).map()? else {
        return Ok(());
    };
    while let Some(reader) = entries.entry() {
        let name = reader.value()?;
        let value = reader.value()?;
        let Some(name) = name.as_text().filter(|name| property::is_field_name(name)) else {
            continue;
        };
        // Nobody's property becomes a field that means something to HTTP.
        if let Some(text) = property::field_text(&value).filter(|_| property::is_custom(name)) {
            content.fields.push((name.to_owned(), text));
        }
    }
    Ok(())
}

fn id_text(id: Value) -> Option<String> {
    match id {
        Value::Null => None,
        Value::String(text) => Some(text),
        Value::Uuid(bytes) => Some(crate::target::uuid_text(bytes)),
        Value::Ulong(number) => Some(number.to_string()),
        Value::Binary(bytes) => Some(String::from_utf8_lossy(&bytes).into_owned()),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use amqp::codec::Symbol;
    use amqp::message::{Properties, encode};

    use super::*;

    #[test]
    fn a_message_is_a_body_with_header_fields() {
        let mut message = Vec::new();
        Properties {
            message_id: Some(Value::Uuid([0; 16])),
            subject: Some("label".into()),
            content_type: Some(Symbol::from_static("text/plain")),
            group_id: Some("session".into()),
            ..Properties::default()
        }
        .encode(&mut message);
        let own = [
            ("number", Value::Int(5)),
            ("text", Value::from("a")),
            ("not a name", Value::from("a")),
            ("line", Value::from("a\nb")),
            ("Content-Length", Value::Int(0)),
        ];
        encode::application_properties(&mut message, &own);
        encode::data(&mut message, b"first ");
        encode::data(&mut message, b"second");
        let mut received = ReceivedProperties::default();
        let content = content(&message, &mut received).unwrap();
        assert_eq!(&*content.body, b"first second");
        assert_eq!(content.content_type.as_deref(), Some("text/plain"));
        let fields = [("number", "5"), ("text", "\"a\"")].map(|(name, text)| (name.into(), text.into()));
        assert_eq!(content.fields, fields);
        assert_eq!(received.label.as_deref(), Some("label"));
        assert_eq!(received.session_id.as_deref(), Some("session"));
        assert_eq!(received.message_id.as_deref(), Some("00000000-0000-0000-0000-000000000000"));
    }

    #[test]
    fn a_body_that_is_a_value_is_its_text_and_a_message_may_have_none() {
        let mut message = Vec::new();
        encode::value(&mut message, &Value::from("text"));
        let body = |message| content(message, &mut ReceivedProperties::default()).unwrap().body.into_owned();
        assert_eq!(body(&message), b"text");
        assert_eq!(body(&[]), b"");
        let mut annotations = Vec::new();
        crate::message::partition_key_annotation(&mut annotations, "key");
        assert_eq!(partition_key(&annotations, 1).unwrap().as_deref(), Some("key"));
        assert!(content(b"\x00\x53\x75\xa0\x05abc", &mut ReceivedProperties::default()).is_err());
    }
}
