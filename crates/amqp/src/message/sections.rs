//! Walking the sections of an encoded message.

use crate::codec::{DecodeError, Reader, code};
use crate::performative::descriptor;

/// What a section is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SectionKind {
    /// Durability, priority, time to live.
    Header,
    /// Annotations for the next hop.
    DeliveryAnnotations,
    /// Annotations that stay with the message.
    MessageAnnotations,
    /// The standard properties.
    Properties,
    /// The application's properties.
    ApplicationProperties,
    /// Binary body.
    Data,
    /// List body.
    Sequence,
    /// Single-value body.
    Value,
    /// What follows the body.
    Footer,
}

impl SectionKind {
    fn of(code: u64) -> Option<Self> {
        Some(match code {
            descriptor::HEADER => Self::Header,
            descriptor::DELIVERY_ANNOTATIONS => Self::DeliveryAnnotations,
            descriptor::MESSAGE_ANNOTATIONS => Self::MessageAnnotations,
            descriptor::PROPERTIES => Self::Properties,
            descriptor::APPLICATION_PROPERTIES => Self::ApplicationProperties,
            descriptor::DATA => Self::Data,
            descriptor::AMQP_SEQUENCE => Self::Sequence,
            descriptor::AMQP_VALUE => Self::Value,
            descriptor::FOOTER => Self::Footer,
            _ => return None,
        })
    }
}

/// One section.
#[derive(Debug, Clone, Copy)]
pub struct Section<'a> {
    /// What it is.
    pub kind: SectionKind,
    /// All of it, with its descriptor: what to copy to pass it on as it is.
    pub encoded: &'a [u8],
    /// The described value.
    pub value: &'a [u8],
}

impl<'a> Section<'a> {
    /// The payload of a Data section.
    #[inline]
    pub fn data(&self) -> Result<&'a [u8], DecodeError> {
        Reader::new(self.value)
            .binary()?
            .ok_or(DecodeError::MissingField("data"))
    }
}

/// The sections of a message, in the order in which they come.
#[derive(Debug, Clone, Copy)]
pub struct Sections<'a> {
    rest: &'a [u8],
}

impl<'a> Sections<'a> {
    /// The sections of `message`.
    pub const fn new(message: &'a [u8]) -> Self {
        Self { rest: message }
    }

    #[inline]
    fn section(&mut self) -> Result<Section<'a>, DecodeError> {
        let start = self.rest;
        // The shape that nearly all events have: a short Data section.
        if let [
            code::DESCRIBED,
            code::SMALL_ULONG,
            0x75,
            code::BINARY_8,
            length,
            ..,
        ] = *start
        {
            let end = 5 + usize::from(length);
            let encoded = start.get(..end).ok_or(DecodeError::Truncated)?;
            self.rest = &start[end..];
            return Ok(Section {
                kind: SectionKind::Data,
                encoded,
                value: &encoded[3..],
            });
        }
        let mut reader = Reader::new(start);
        let code = reader.descriptor()?;
        let kind = SectionKind::of(code).ok_or(DecodeError::UnexpectedDescriptor(code))?;
        let value = reader.raw()?;
        self.rest = reader.rest();
        Ok(Section {
            kind,
            encoded: &start[..start.len() - self.rest.len()],
            value,
        })
    }
}

impl<'a> Iterator for Sections<'a> {
    type Item = Result<Section<'a>, DecodeError>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        if self.rest.is_empty() {
            return None;
        }
        let section = self.section();
        if section.is_err() {
            self.rest = &[];
        }
        Some(section)
    }
}
