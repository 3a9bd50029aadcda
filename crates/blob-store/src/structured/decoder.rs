//! Messages in: parts of any size, as they arrive.

use super::{CHECKSUM_BYTES, CHECKSUMS, HEADER_BYTES, SEGMENT_HEADER_BYTES, VERSION};
use crate::crc64::Crc64;

/// Takes a message apart. It holds a few bytes of it at a time, and gives no more content than was announced.
#[derive(Debug)]
pub struct Decoder {
    message_length: u64,
    content_length: u64,
    region: Region,
    /// What has come of a header or checksum.
    partial: [u8; HEADER_BYTES],
    partial_bytes: usize,
    segments: u16,
    segment: u16,
    /// What is still to come of the segment's content.
    segment_rest: u64,
    segment_checksum: Crc64,
    content_checksum: Crc64,
    decoded: u64,
}

/// What comes next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Region {
    Header,
    SegmentHeader,
    Content,
    SegmentChecksum,
    Checksum,
    End,
}

/// Why bytes are not the message that they should be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StructuredError {
    /// Another version of the framing.
    #[error("structured messages have version 1, not {version}")]
    Version {
        /// What the message says.
        version: u8,
    },
    /// The message is not as long as it says.
    #[error("the structured message has {actual} bytes, but declares {told}")]
    MessageLength {
        /// What it says.
        told: u64,
        /// What the request announces.
        actual: u64,
    },
    /// Other properties than checksums, or none.
    #[error("a structured message must have the property crc64 and no other, not {properties:#06x}")]
    Properties {
        /// What the message says.
        properties: u16,
    },
    /// A segment has another number than the one that comes next.
    #[error("segment {expected} of the structured message has the number {found}")]
    SegmentNumber {
        /// Which one comes next.
        expected: u16,
        /// Which one came.
        found: u16,
    },
    /// The segments have more or less content than was announced.
    #[error(
        "the structured message does not have the {expected} bytes of content of x-ms-structured-content-length"
    )]
    ContentLength {
        /// What was announced.
        expected: u64,
    },
    /// The content of a segment does not have its checksum.
    #[error("the content of segment {segment} does not match its CRC-64")]
    SegmentChecksum {
        /// Number of the segment, from 1.
        segment: u16,
    },
    /// The content does not have its checksum.
    #[error("the content does not match the CRC-64 at the end of the structured message")]
    Checksum,
    /// Something follows the message.
    #[error("the structured message continues after its end")]
    Trailing,
    /// The end is missing.
    #[error("the structured message is truncated")]
    Incomplete,
}

impl StructuredError {
    /// Whether the framing is right and the content is not.
    #[must_use]
    pub const fn is_mismatch(self) -> bool {
        matches!(self, Self::SegmentChecksum { .. } | Self::Checksum)
    }
}

impl Decoder {
    /// A decoder for a message of `message_length` bytes that is to have `content_length` bytes of content.
    #[must_use]
    pub fn new(message_length: u64, content_length: u64) -> Self {
        Self {
            message_length,
            content_length,
            region: Region::Header,
            partial: [0; HEADER_BYTES],
            partial_bytes: 0,
            segments: 0,
            segment: 0,
            segment_rest: 0,
            segment_checksum: Crc64::default(),
            content_checksum: Crc64::default(),
            decoded: 0,
        }
    }

    /// Takes the next bytes of the message, and adds what is content to `content`.
    ///
    /// # Errors
    /// They are no part of such a message. What was added to `content` is worth nothing then.
    pub fn push(&mut self, mut input: &[u8], content: &mut Vec<u8>) -> Result<(), StructuredError> {
        while !input.is_empty() {
            match self.region {
                Region::Content => {
                    let bytes = usize::try_from(self.segment_rest).unwrap_or(usize::MAX);
                    let (own, rest) = input.split_at(bytes.min(input.len()));
                    content.extend_from_slice(own);
                    self.segment_checksum.update(own);
                    self.content_checksum.update(own);
                    self.segment_rest -= own.len() as u64;
                    self.decoded += own.len() as u64;
                    input = rest;
                    if self.segment_rest == 0 {
                        self.region = Region::SegmentChecksum;
                    }
                }
                Region::End => return Err(StructuredError::Trailing),
                Region::Header | Region::SegmentHeader | Region::SegmentChecksum | Region::Checksum => {
                    let needed = self.region.bytes();
                    let missing = needed - self.partial_bytes;
                    let (own, rest) = input.split_at(missing.min(input.len()));
                    self.partial[self.partial_bytes..][..own.len()].copy_from_slice(own);
                    self.partial_bytes += own.len();
                    input = rest;
                    if self.partial_bytes == needed {
                        self.partial_bytes = 0;
                        self.region = self.next_region()?;
                    }
                }
            }
        }
        Ok(())
    }

    /// The checksum of the content, once the whole message has come.
    ///
    /// # Errors
    /// It has not.
    pub fn finish(self) -> Result<u64, StructuredError> {
        match self.region {
            Region::End => Ok(self.content_checksum.value()),
            _ => Err(StructuredError::Incomplete),
        }
    }

    /// Reads the header or checksum that is complete.
    fn next_region(&mut self) -> Result<Region, StructuredError> {
        match self.region {
            Region::Header => self.header(),
            Region::SegmentHeader => self.segment_header(),
            Region::SegmentChecksum => {
                let segment = self.segment;
                match self.number(0) == self.segment_checksum.value() {
                    true => Ok(self.after_segment()),
                    false => Err(StructuredError::SegmentChecksum { segment }),
                }
            }
            Region::Checksum if self.decoded != self.content_length => Err(self.wrong_content_length()),
            Region::Checksum => match self.number(0) == self.content_checksum.value() {
                true => Ok(Region::End),
                false => Err(StructuredError::Checksum),
            },
            Region::Content | Region::End => Ok(self.region),
        }
    }

    fn header(&mut self) -> Result<Region, StructuredError> {
        let version = self.partial[0];
        if version != VERSION {
            return Err(StructuredError::Version { version });
        }
        let (told, actual) = (self.number(1), self.message_length);
        if told != actual {
            return Err(StructuredError::MessageLength { told, actual });
        }
        let properties = self.short(9);
        if properties != CHECKSUMS {
            return Err(StructuredError::Properties { properties });
        }
        self.segments = self.short(11);
        Ok(self.after_segment())
    }

    fn segment_header(&mut self) -> Result<Region, StructuredError> {
        let (expected, found) = (self.segment + 1, self.short(0));
        if expected != found {
            return Err(StructuredError::SegmentNumber { expected, found });
        }
        self.segment = found;
        self.segment_rest = self.number(2);
        self.segment_checksum = Crc64::default();
        if self.segment_rest > self.content_length - self.decoded {
            return Err(self.wrong_content_length());
        }
        Ok(match self.segment_rest {
            0 => Region::SegmentChecksum,
            _ => Region::Content,
        })
    }

    const fn after_segment(&self) -> Region {
        match self.segment == self.segments {
            true => Region::Checksum,
            false => Region::SegmentHeader,
        }
    }

    const fn wrong_content_length(&self) -> StructuredError {
        StructuredError::ContentLength { expected: self.content_length }
    }

    fn number(&self, at: usize) -> u64 {
        let bytes = self.partial.iter().skip(at).take(8);
        bytes.rev().fold(0, |sum, byte| sum << 8 | u64::from(*byte))
    }

    fn short(&self, at: usize) -> u16 {
        u16::from_le_bytes([self.partial[at], self.partial[at + 1]])
    }
}

impl Region {
    /// How many bytes a header or checksum has.
    const fn bytes(self) -> usize {
        match self {
            Self::Header => HEADER_BYTES,
            Self::SegmentHeader => SEGMENT_HEADER_BYTES,
            Self::SegmentChecksum | Self::Checksum => CHECKSUM_BYTES,
            Self::Content | Self::End => 0,
        }
    }
}
