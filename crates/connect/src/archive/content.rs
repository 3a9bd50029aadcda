//! What an event is in a file of its own: its name and its content.

use std::borrow::Cow;

use amqp::DecodeError;
use amqp::codec::{Reader, Value};
use amqp::message::{SectionKind, Sections};

use super::NAME;
use super::json;
use super::name::{Named, Naming};
use super::options::EventFormat;
use crate::event::{Event, EventBatch};
use crate::sink::{ErrorClass, SendError};

/// Makes names and contents, in memory that is used again.
#[derive(Debug)]
pub(super) struct Contents {
    naming: Naming,
    format: EventFormat,
    name: String,
    content: Vec<u8>,
}

impl Contents {
    pub(super) const fn new(naming: Naming, format: EventFormat) -> Self {
        Self { naming, format, name: String::new(), content: Vec::new() }
    }

    /// The name and the content of the file of an event.
    ///
    /// # Errors
    /// When it can't be read, or would have an impossible name.
    pub(super) fn of<'a>(
        &'a mut self,
        batch: &'a EventBatch,
        event: &Event,
    ) -> Result<(&'a str, &'a [u8]), Box<SendError>> {
        let named = Named {
            partition: batch.partition(),
            sequence_number: event.sequence_number,
            enqueued_time: event.enqueued_time,
            partition_key: batch.partition_key(event),
        };
        self.naming.write(&mut self.name, &named);
        if self.name.len() > NAME_BYTES_MAX || self.name.matches('/').count() >= SEGMENTS_MAX {
            return Err(refused(
                NAME,
                format!(
                    "the name of the event would have more than {NAME_BYTES_MAX} bytes: {:.100}…",
                    self.name
                ),
            ));
        }
        let content = match self.format {
            EventFormat::Body => body(batch.message(event), &mut self.content),
            EventFormat::Json => {
                self.content.clear();
                json::put_event(&mut self.content, &self.naming.hub, batch, event)
                    .map(|()| self.content.as_slice())
            }
        };
        content
            .map(|content| (self.name.as_str(), content))
            .map_err(|error| refused("amqp:decode-error", format!("the event can't be read: {error}")))
    }

    /// The content type of the files.
    pub(super) const fn content_type(&self) -> &'static str {
        match self.format {
            EventFormat::Body => "application/octet-stream",
            EventFormat::Json => "application/json",
        }
    }
}

/// An event that can't be archived.
#[cold]
fn refused(condition: &str, description: String) -> Box<SendError> {
    Box::new(SendError { class: ErrorClass::Fatal, condition: condition.to_owned(), description })
}

/// The body of an encoded message: the bytes of its Data sections, or of a value that is bytes or text. Any other value is as it is
/// encoded. `scratch` holds it where it is in several pieces.
///
/// # Errors
/// The message can't be read.
pub(super) fn body<'a>(message: &'a [u8], scratch: &'a mut Vec<u8>) -> Result<&'a [u8], DecodeError> {
    let mut sections = Sections::new(message);
    // Most events are one short piece of data and nothing else.
    if let Some(payload) = sections.next_short_data()
        && sections.is_empty()
    {
        return Ok(payload);
    }
    let mut only: Option<&'a [u8]> = None;
    scratch.clear();
    for section in Sections::new(message) {
        let section = section?;
        let piece: Cow<'a, [u8]> = match section.kind {
            SectionKind::Data => section.data()?.into(),
            SectionKind::Value => match Reader::new(section.value).value()? {
                Value::String(text) => text.into_bytes().into(),
                Value::Binary(bytes) => bytes.into(),
                _ => section.value.into(),
            },
            SectionKind::Sequence => section.value.into(),
            _ => continue,
        };
        match (only.take(), piece) {
            (None, Cow::Borrowed(piece)) if scratch.is_empty() => only = Some(piece),
            (before, piece) => {
                scratch.extend_from_slice(before.unwrap_or_default());
                scratch.extend_from_slice(&piece);
            }
        }
    }
    Ok(match only {
        Some(piece) => piece,
        None => scratch,
    })
}

/// As long as names of blobs and of objects may be.
const NAME_BYTES_MAX: usize = 1_024;

/// As many segments as names of blobs may have.
const SEGMENTS_MAX: usize = 254;

#[cfg(test)]
mod tests {
    use amqp::message::encode;

    use super::*;

    fn body_of(message: &[u8]) -> Vec<u8> {
        body(message, &mut b"what was there".to_vec()).unwrap().to_vec()
    }

    #[test]
    fn a_body_is_its_bytes_in_however_many_pieces() {
        let mut message = Vec::new();
        assert_eq!(body_of(&message), b"");
        encode::data(&mut message, b"one");
        assert_eq!(body_of(&message), b"one");
        encode::data(&mut message, b" two");
        encode::data(&mut message, &[b'x'; 300]);
        assert_eq!(body_of(&message), [&b"one two"[..], &[b'x'; 300]].concat());
        let mut with_properties = Vec::new();
        encode::application_properties(&mut with_properties, &[("a", Value::Int(1))]);
        encode::data(&mut with_properties, b"body");
        assert_eq!(body_of(&with_properties), b"body");
    }

    #[test]
    fn a_value_is_its_bytes_its_text_or_its_encoding() {
        for (value, expected) in [
            (Value::String("text".to_owned()), &b"text"[..]),
            (Value::Binary(b"bytes".to_vec()), b"bytes"),
            (Value::Boolean(true), b"\x41"),
        ] {
            let mut message = Vec::new();
            encode::value(&mut message, &value);
            assert_eq!(body_of(&message), expected);
        }
    }

    #[test]
    fn what_is_no_message_is_an_error() {
        for message in [&b"\x00\x53\x75\xa0\x05cut"[..], b"text", b"\x00\x53\x75\xa1\x01a"] {
            assert!(body(message, &mut Vec::new()).is_err());
        }
    }
}
