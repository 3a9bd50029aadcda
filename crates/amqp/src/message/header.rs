//! The header section (specification section 3.2.1).

use crate::codec::{DecodeError, Reader, code};
use crate::performative::descriptor;

/// How a message is to be transferred. A field that is `None` is null on the wire.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Header {
    /// Whether the message must not be lost.
    pub durable: Option<bool>,
    /// Relative importance; 4 is usual.
    pub priority: Option<u8>,
    /// How long the message may wait, in milliseconds.
    pub time_to_live_ms: Option<u32>,
    /// Whether nobody else has acquired the message before.
    pub first_acquirer: Option<bool>,
    /// Deliveries that failed.
    pub delivery_count: Option<u32>,
}

/// An encoded header section.
#[derive(Debug, Clone, Copy)]
pub struct EncodedHeader {
    bytes: [u8; Self::LENGTH_MAX],
    length: u8,
}

impl Header {
    /// Reads the value of a header section.
    ///
    /// # Errors
    /// It is no list of the fields that the specification names.
    #[inline]
    pub fn decode(value: &[u8]) -> Result<Self, DecodeError> {
        let Some(mut fields) = Reader::new(value).list()? else {
            return Ok(Self::default());
        };
        Ok(Self {
            durable: fields.field(Reader::boolean)?,
            priority: fields.field(Reader::ubyte)?,
            time_to_live_ms: fields.field(Reader::uint)?,
            first_acquirer: fields.field(Reader::boolean)?,
            delivery_count: fields.field(Reader::uint)?,
        })
    }

    /// The whole section, with all its fields.
    #[inline]
    pub fn encode(&self) -> EncodedHeader {
        let mut encoded = EncodedHeader { bytes: [0; EncodedHeader::LENGTH_MAX], length: 0 };
        encoded.put(&[code::DESCRIBED, code::SMALL_ULONG, descriptor::HEADER as u8, code::LIST_8, 0, 5]);
        encoded.put_boolean(self.durable);
        match self.priority {
            Some(priority) => encoded.put(&[code::UBYTE, priority]),
            None => encoded.put(&[code::NULL]),
        }
        encoded.put_uint(self.time_to_live_ms);
        encoded.put_boolean(self.first_acquirer);
        encoded.put_uint(self.delivery_count);
        // The size counts what follows it.
        encoded.bytes[4] = encoded.length - 5;
        encoded
    }
}

impl EncodedHeader {
    /// Descriptor, head of the list, and the longest form of each field.
    pub const LENGTH_MAX: usize = 6 + 1 + 2 + 5 + 1 + 5;

    /// The bytes of the section.
    #[inline]
    pub fn as_slice(&self) -> &[u8] {
        &self.bytes[..usize::from(self.length)]
    }

    #[inline]
    fn put(&mut self, bytes: &[u8]) {
        let start = usize::from(self.length);
        self.bytes[start..start + bytes.len()].copy_from_slice(bytes);
        self.length += bytes.len() as u8;
    }

    #[inline]
    fn put_boolean(&mut self, value: Option<bool>) {
        self.put(&[match value {
            Some(true) => code::TRUE,
            Some(false) => code::FALSE,
            None => code::NULL,
        }]);
    }

    #[inline]
    fn put_uint(&mut self, value: Option<u32>) {
        match value.map(|number| (number, u8::try_from(number))) {
            None => self.put(&[code::NULL]),
            Some((_, Ok(0))) => self.put(&[code::UINT_0]),
            Some((_, Ok(small))) => self.put(&[code::SMALL_UINT, small]),
            Some((number, Err(_))) => {
                self.put(&[code::UINT]);
                self.put(&number.to_be_bytes());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_encoded_reads_back() {
        let full = Header {
            durable: Some(true),
            priority: Some(255),
            time_to_live_ms: Some(u32::MAX),
            first_acquirer: Some(false),
            delivery_count: Some(u32::MAX),
        };
        let some = Header { time_to_live_ms: Some(200), delivery_count: Some(0), ..Header::default() };
        assert_eq!(full.encode().as_slice().len(), EncodedHeader::LENGTH_MAX);
        for header in [Header::default(), some, full] {
            let encoded = header.encode();
            let mut reader = Reader::new(encoded.as_slice());
            assert_eq!(reader.descriptor().unwrap(), descriptor::HEADER);
            assert_eq!(Header::decode(reader.raw().unwrap()).unwrap(), header);
            assert!(reader.is_empty());
        }
    }

    #[test]
    fn fields_may_be_missing_and_must_have_their_types() {
        // No list, an empty one, and one that ends early.
        for value in [&[0x40][..], &[0x45], &[0xc0, 0x01, 0x00]] {
            assert_eq!(Header::decode(value).unwrap(), Header::default());
        }
        let durable = Header::decode(&[0xc0, 0x02, 0x01, 0x41]).unwrap();
        assert_eq!(durable.durable, Some(true));
        // A priority that is an int.
        assert!(Header::decode(&[0xc0, 0x04, 0x02, 0x41, 0x54, 0x05]).is_err());
        assert!(Header::decode(&[0xa1, 0x00]).is_err());
    }
}
