//! Messages out: contents of any length, in chunks of any size.

use std::collections::VecDeque;

use bytes::{BufMut as _, Bytes, BytesMut};

use super::{CHECKSUM_BYTES, CHECKSUMS, HEADER_BYTES, SEGMENT_HEADER_BYTES, VERSION};
use crate::crc64::Crc64;

/// Makes a message of a content whose length is known.
#[derive(Debug)]
pub struct Encoder {
    content_length: u64,
    segment_length: u64,
    segments: u16,
    segment: u16,
    /// What is still to come of the segment's content.
    segment_rest: u64,
    encoded: u64,
    segment_checksum: Crc64,
    content_checksum: Crc64,
}

impl Encoder {
    /// An encoder for `content_length` bytes.
    #[must_use]
    pub fn new(content_length: u64) -> Self {
        Self::with_segments(content_length, SEGMENT_BYTES)
    }

    /// The same, with segments of so many bytes, or more where there would be too many.
    #[must_use]
    pub(super) fn with_segments(content_length: u64, bytes: u64) -> Self {
        let segment_length = bytes.max(content_length.div_ceil(u64::from(u16::MAX)));
        let segments = content_length.div_ceil(segment_length).max(1);
        Self {
            content_length,
            segment_length,
            segments: u16::try_from(segments).unwrap_or(u16::MAX),
            segment: 0,
            segment_rest: 0,
            encoded: 0,
            segment_checksum: Crc64::default(),
            content_checksum: Crc64::default(),
        }
    }

    /// Bytes of the message.
    #[must_use]
    pub fn message_length(&self) -> u64 {
        let framing = (SEGMENT_HEADER_BYTES + CHECKSUM_BYTES) as u64;
        (HEADER_BYTES + CHECKSUM_BYTES) as u64 + u64::from(self.segments) * framing + self.content_length
    }

    /// Adds what comes before the content to `message`; for an empty content, that is the whole message.
    pub fn start(&mut self, message: &mut VecDeque<Bytes>) {
        let mut header = BytesMut::with_capacity(HEADER_BYTES + SEGMENT_HEADER_BYTES);
        header.put_u8(VERSION);
        header.put_u64_le(self.message_length());
        header.put_u16_le(CHECKSUMS);
        header.put_u16_le(self.segments);
        self.start_segment(&mut header);
        if self.segment_rest == 0 {
            self.end_segment(&mut header);
        }
        message.push_back(header.freeze());
    }

    /// Adds the next chunk of the content to `message`, with everything that comes before and after it.
    pub fn encode(&mut self, mut chunk: Bytes, message: &mut VecDeque<Bytes>) {
        while !chunk.is_empty() && self.segment_rest > 0 {
            let bytes = usize::try_from(self.segment_rest).unwrap_or(usize::MAX);
            let own = chunk.split_to(bytes.min(chunk.len()));
            self.segment_checksum.update(&own);
            self.content_checksum.update(&own);
            self.segment_rest -= own.len() as u64;
            self.encoded += own.len() as u64;
            message.push_back(own);
            if self.segment_rest == 0 {
                let mut framing = BytesMut::new();
                self.end_segment(&mut framing);
                message.push_back(framing.freeze());
            }
        }
    }

    fn start_segment(&mut self, framing: &mut BytesMut) {
        self.segment += 1;
        self.segment_rest = self.segment_length.min(self.content_length - self.encoded);
        self.segment_checksum = Crc64::default();
        framing.put_u16_le(self.segment);
        framing.put_u64_le(self.segment_rest);
    }

    /// The end of a segment, and the beginning of the next one or the end of the message.
    fn end_segment(&mut self, framing: &mut BytesMut) {
        framing.put_u64_le(self.segment_checksum.value());
        match self.segment == self.segments {
            true => framing.put_u64_le(self.content_checksum.value()),
            false => self.start_segment(framing),
        }
    }
}

/// As the official clients and the service do.
const SEGMENT_BYTES: u64 = 4 << 20;
