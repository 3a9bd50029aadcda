//! Walking the sections of an encoded message.

use crate::codec::{DecodeError, List, Reader, code};
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
        Reader::new(self.value).binary()?.ok_or(DecodeError::MissingField("data"))
    }
}

impl Section<'_> {
    /// Checks that the section can be decoded by whoever receives it: that its value has the type that the specification
    /// gives it, and each field and entry in it. Allocates nothing.
    ///
    /// # Errors
    /// What cannot be decoded.
    #[inline]
    pub fn validate(&self) -> Result<(), DecodeError> {
        match self.kind {
            SectionKind::Data => Reader::new(self.value).binary().map(drop),
            _ => self.validate_structured(),
        }
    }

    fn validate_structured(&self) -> Result<(), DecodeError> {
        let mut reader = Reader::new(self.value);
        match self.kind {
            SectionKind::Header => {
                let mut fields = reader.list()?.unwrap_or(List::EMPTY);
                fields.field(Reader::boolean)?;
                fields.field(Reader::ubyte)?;
                fields.field(Reader::uint)?;
                fields.field(Reader::boolean)?;
                fields.field(Reader::uint)?;
                Ok(())
            }
            SectionKind::DeliveryAnnotations | SectionKind::MessageAnnotations | SectionKind::Footer => {
                validate_entries(&mut reader, |reader| {
                    match reader.peek()? {
                        // Reserved for keys of the specification.
                        code::ULONG_0 | code::SMALL_ULONG | code::ULONG => drop(reader.ulong()?),
                        _ => drop(key(reader.text()?)?),
                    }
                    reader.validate()
                })
            }
            SectionKind::Properties => validate_properties(&mut reader),
            SectionKind::ApplicationProperties => validate_entries(&mut reader, |reader| {
                key(reader.string()?)?;
                reader.validate_simple()
            }),
            SectionKind::Data => reader.binary().map(drop),
            SectionKind::Sequence => match reader.peek()? {
                code::LIST_0 | code::LIST_8 | code::LIST_32 => reader.validate(),
                _ => reader.list().map(drop),
            },
            SectionKind::Value => reader.validate(),
        }
    }
}

fn validate_entries<'a>(
    reader: &mut Reader<'a>,
    mut entry: impl FnMut(&mut Reader<'a>) -> Result<(), DecodeError>,
) -> Result<(), DecodeError> {
    let Some(mut entries) = reader.map()? else {
        return Ok(());
    };
    while let Some(reader) = entries.entry() {
        entry(reader)?;
    }
    Ok(())
}

fn key(text: Option<&str>) -> Result<&str, DecodeError> {
    text.ok_or(DecodeError::MissingField("map key"))
}

/// The fields of section 3.2.4, whose addresses and identifiers may be of several types.
fn validate_properties(reader: &mut Reader<'_>) -> Result<(), DecodeError> {
    let mut fields = reader.list()?.unwrap_or(List::EMPTY);
    let simple = |reader: &mut Reader<'_>| reader.validate_simple().map(Some);
    fields.field(simple)?; // message-id
    fields.field(Reader::binary)?; // user-id
    fields.field(simple)?; // to
    fields.field(Reader::string)?; // subject
    fields.field(simple)?; // reply-to
    fields.field(simple)?; // correlation-id
    fields.field(Reader::text)?; // content-type
    fields.field(Reader::text)?; // content-encoding
    fields.field(Reader::timestamp)?; // absolute-expiry-time
    fields.field(Reader::timestamp)?; // creation-time
    fields.field(Reader::string)?; // group-id
    fields.field(Reader::uint)?; // group-sequence
    fields.field(Reader::string)?; // reply-to-group-id
    Ok(())
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

    /// The payload of the next section, if that is a Data section of the short form, as most are; otherwise nothing is taken.
    #[inline]
    pub fn next_short_data(&mut self) -> Option<&'a [u8]> {
        let [code::DESCRIBED, code::SMALL_ULONG, 0x75, code::BINARY_8, length, payload @ ..] = self.rest
        else {
            return None;
        };
        let (payload, rest) = payload.split_at_checked(usize::from(*length))?;
        self.rest = rest;
        Some(payload)
    }

    /// Whether there are no more.
    #[inline]
    pub const fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    #[inline]
    fn section(&mut self) -> Result<Section<'a>, DecodeError> {
        let start = self.rest;
        // The shape that nearly all events have: a short Data section.
        if let [code::DESCRIBED, code::SMALL_ULONG, 0x75, code::BINARY_8, length, ..] = *start {
            let end = 5 + usize::from(length);
            let encoded = start.get(..end).ok_or(DecodeError::Truncated)?;
            self.rest = &start[end..];
            return Ok(Section { kind: SectionKind::Data, encoded, value: &encoded[3..] });
        }
        let mut reader = Reader::new(start);
        let code = reader.descriptor()?;
        let kind = SectionKind::of(code).ok_or(DecodeError::UnexpectedDescriptor(code))?;
        let value = reader.raw()?;
        self.rest = reader.rest();
        Ok(Section { kind, encoded: &start[..start.len() - self.rest.len()], value })
    }
}

/// Whether `sections` is one Data section and nothing else, as most bodies are: a comparison with what it begins with.
#[inline]
pub fn is_data_section(sections: &[u8]) -> bool {
    match *sections {
        [code::DESCRIBED, code::SMALL_ULONG, 0x75, code::BINARY_8, length, ref payload @ ..] => {
            usize::from(length) == payload.len()
        }
        [code::DESCRIBED, code::SMALL_ULONG, 0x75, code::BINARY_32, a, b, c, d, ref payload @ ..] => {
            u32::from_be_bytes([a, b, c, d]) as usize == payload.len()
        }
        _ => false,
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

#[cfg(test)]
mod tests {
    use super::*;

    fn validate(message: &[u8]) -> Result<(), DecodeError> {
        Sections::new(message).try_for_each(|section| section?.validate())
    }

    #[test]
    fn each_kind_of_section_is_held_to_its_type() {
        for (what, section) in [
            ("a header with a text for a priority", &b"\x00\x53\x70\xc0\x05\x02\x41\xa1\x01a"[..]),
            ("a header that is a map", b"\x00\x53\x70\xc1\x01\x00"),
            ("annotations under a number", b"\x00\x53\x72\xc1\x05\x02\x54\x01\x54\x01"),
            ("annotations with a list that ends early", b"\x00\x53\x72\xc1\x07\x02\xa3\x01a\xc0\x01\x01"),
            ("properties with a number for a subject", b"\x00\x53\x73\xc0\x06\x04\x40\x40\x40\x54\x01"),
            ("properties with a list for an identifier", b"\x00\x53\x73\xc0\x02\x01\x45"),
            ("application properties that are a list", b"\x00\x53\x74\xc0\x02\x01\x40"),
            ("application properties under a symbol", b"\x00\x53\x74\xc1\x05\x02\xa3\x01a\x41"),
            ("application properties under null", b"\x00\x53\x74\xc1\x03\x02\x40\x41"),
            ("application properties with a map", b"\x00\x53\x74\xc1\x07\x02\xa1\x01a\xc1\x01\x00"),
            ("application properties that end early", b"\x00\x53\x74\xc1\x05\x02\xa1\x01a\xa1"),
            ("application properties with a wrong text", b"\x00\x53\x74\xc1\x07\x02\xa1\x01a\xa1\x01\xff"),
            ("data that is a text", b"\x00\x53\x75\xa1\x01a"),
            ("a sequence that is a map", b"\x00\x53\x76\xc1\x01\x00"),
            ("a value with a wrong text in a list", b"\x00\x53\x77\xc0\x04\x01\xa1\x01\xff"),
            ("a footer that is a text", b"\x00\x53\x78\xa1\x01a"),
        ] {
            assert!(validate(section).is_err(), "{what}");
        }
    }

    #[test]
    fn short_data_sections_are_taken_one_by_one() {
        let mut sections = Sections::new(b"\x00\x53\x75\xa0\x01a\x00\x53\x75\xa0\x00\x00\x53\x77\x40");
        assert_eq!(sections.next_short_data(), Some(&b"a"[..]));
        assert_eq!(sections.next_short_data(), Some(&b""[..]));
        assert_eq!(sections.next_short_data(), None);
        assert_eq!(sections.next().unwrap().unwrap().kind, SectionKind::Value);
        assert!(sections.is_empty());
        let mut cut = Sections::new(b"\x00\x53\x75\xa0\x02a");
        assert_eq!(cut.next_short_data(), None);
        assert!(cut.next().unwrap().is_err());
    }

    #[test]
    fn a_body_alone_is_one_data_section_of_either_width() {
        for whole in
            [&b"\x00\x53\x75\xa0\x00"[..], b"\x00\x53\x75\xa0\x02ab", b"\x00\x53\x75\xb0\x00\x00\x00\x02ab"]
        {
            assert!(is_data_section(whole));
            assert!((0..whole.len()).all(|cut| !is_data_section(&whole[..cut])));
            assert!(!is_data_section(&[whole, b"\x40"].concat()));
            assert_eq!(
                Sections::new(whole).map(|section| section.unwrap().kind).collect::<Vec<_>>(),
                [SectionKind::Data]
            );
        }
        assert!(!is_data_section(b"\x00\x53\x77\xa0\x02ab"));
    }

    #[test]
    fn what_clients_write_is_valid() {
        for (what, section) in [
            ("a header", &b"\x00\x53\x70\xc0\x08\x03\x41\x40\x70\x00\x00\xea\x60"[..]),
            ("an absent map as an empty list", b"\x00\x53\x74\x45"),
            ("a map that is null", b"\x00\x53\x72\x40"),
            ("annotations under a text", b"\x00\x53\x72\xc1\x05\x02\xa1\x01a\x41"),
            ("annotations with an array", b"\x00\x53\x72\xc1\x0a\x02\xa3\x01a\xe0\x04\x02\x50\x01\x02"),
            ("properties without fields", b"\x00\x53\x73\x45"),
            ("a span of time, as .NET has it", b"\x00\x53\x74\xc1\x0a\x02\xa1\x01a\x00\xa3\x01t\x55\x01"),
            ("a value that is null", b"\x00\x53\x77\x40"),
            ("a sequence", b"\x00\x53\x76\xc0\x02\x01\x41"),
            ("an empty footer", b"\x00\x53\x78\xc1\x01\x00"),
        ] {
            assert_eq!(validate(section), Ok(()), "{what}");
        }
    }
}
