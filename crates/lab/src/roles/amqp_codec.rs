//! Payloads in AMQP messages, whichever service carries them.

use amqp::Value;
use amqp::codec::Reader;
use amqp::message::{SectionKind, Sections, encode};
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
            let mut section = Vec::with_capacity(64);
            encode::application_properties(
                &mut section,
                &[(HEADER_PROPERTY, Value::Binary(header.to_vec()))],
            );
            message.extend_from_slice(&section);
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

/// The header among the application properties.
#[cold]
fn property(map: &[u8]) -> Option<&[u8]> {
    let mut entries = Reader::new(map).map().ok()??;
    while let Some(reader) = entries.entry() {
        if reader.text().ok()? == Some(HEADER_PROPERTY) {
            return reader.binary().ok()?.map(as_written);
        }
        reader.skip().ok()?;
    }
    None
}
