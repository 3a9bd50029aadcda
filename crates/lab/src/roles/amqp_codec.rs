//! Payloads in AMQP messages, whichever service carries them.

use amqp::codec::{Reader, code};
use amqp::message::{SectionKind, Sections, encode};
use amqp::performative::descriptor;
use bytes::BytesMut;
use connect::event::Encoding;

use super::backend::{DecodedMessage, MessageCodec};
use super::kafka_codec::as_written;
use crate::payload::HEADER_PROPERTY;

/// AMQP messages: the payload in a Data section, the header, if it travels beside it, in an application property.
#[derive(Debug, Clone, Copy)]
pub struct AmqpCodec;

impl MessageCodec for AmqpCodec {
    fn encoding(&self) -> Encoding {
        Encoding::Amqp
    }

    #[inline]
    fn encode(&self, header: Option<&[u8]>, payload: &[u8], message: &mut BytesMut) {
        if let Some(header) = header {
            put_property(header, message);
        }
        let length = u32::try_from(payload.len()).expect("a payload is far below 4 GiB");
        let (prefix, size) = encode::data_prefix_bytes(length);
        message.extend_from_slice(&prefix[..size]);
        message.extend_from_slice(payload);
    }

    #[inline]
    fn decode<'a>(&self, message: &'a [u8]) -> Option<DecodedMessage<'a>> {
        let (mut header, mut payload) = (None, None);
        for section in Sections::new(message) {
            let section = section.ok()?;
            match section.kind {
                SectionKind::Data => payload = Some(section.data().ok()?),
                SectionKind::ApplicationProperties => header = property(section.value),
                _ => {}
            }
        }
        Some(DecodedMessage { header, payload: payload? })
    }
}

/// Appends application properties that are the header alone.
fn put_property(header: &[u8], message: &mut BytesMut) {
    const NAME: &[u8] = HEADER_PROPERTY.as_bytes();
    let length = u8::try_from(header.len()).expect("a header is far below 256 bytes");
    // The number of keys and values, and each with its constructor and length.
    let size = 1 + 2 + NAME.len() as u8 + 2 + length;
    let section = [code::DESCRIBED, code::SMALL_ULONG, descriptor::APPLICATION_PROPERTIES as u8];
    message.extend_from_slice(&section);
    message.extend_from_slice(&[code::MAP_8, size, 2, code::STRING_8, NAME.len() as u8]);
    message.extend_from_slice(NAME);
    message.extend_from_slice(&[code::BINARY_8, length]);
    message.extend_from_slice(header);
}

/// The header among the application properties.
#[cold]
fn property(map: &[u8]) -> Option<&[u8]> {
    let mut entries = Reader::new(map).map().ok()??;
    while let Some(reader) = entries.entry() {
        if reader.text().ok()? == Some(HEADER_PROPERTY) {
            // Who sends over HTTP has texts alone.
            return match reader.peek().ok()? {
                code::STRING_8 => reader.string().ok()?.map(str::as_bytes),
                _ => reader.binary().ok()?.map(as_written),
            };
        }
        reader.skip().ok()?;
    }
    None
}

#[cfg(test)]
mod tests {
    use amqp::Value;

    use super::*;
    use crate::payload::Header;

    #[test]
    fn the_header_beside_a_payload_is_one_application_property_as_binary_or_as_text() {
        let header = [7; Header::DETACHED_LENGTH];
        let mut message = BytesMut::new();
        AmqpCodec.encode(Some(&header), b"payload", &mut message);
        let property = |value: Value| {
            let mut expected = Vec::new();
            encode::application_properties(&mut expected, &[(HEADER_PROPERTY, value)]);
            encode::data(&mut expected, b"payload");
            expected
        };
        let expected = property(Value::Binary(header.to_vec()));
        let decoded = DecodedMessage { header: Some(&header), payload: b"payload" };
        assert_eq!(AmqpCodec.decode(&expected), Some(decoded));
        assert_eq!(AmqpCodec.decode(&message), Some(decoded));
        let text = Header::text_of_detached(&header);
        let message = property(Value::from(str::from_utf8(&text).unwrap()));
        assert_eq!(AmqpCodec.decode(&message), Some(DecodedMessage { header: Some(&text), ..decoded }));
    }
}
