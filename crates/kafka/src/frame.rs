//! Frames, and what stands in front of each request and of each response.
//!
//! ```text
//! frame     ├─ size, i32 ─┬─ header ─┬─ body ─┤
//! request   ├─ api key, i16 ─┬─ version, i16 ─┬─ correlation id, i32 ─┬─ client id, string ─┬─ tagged fields, if flexible ─┤
//! response  ├─ correlation id, i32 ─┬─ tagged fields, if flexible ─┤
//! ```

use crate::ApiKey;
use crate::read::{Malformed, Reader};
use crate::write::Writer;

/// What stands in front of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RequestHeader<'a> {
    /// The number of the request.
    pub api_key: i16,
    /// The version of its body.
    pub version: i16,
    /// What the response has to repeat.
    pub correlation_id: i32,
    /// What the client calls itself.
    pub client_id: Option<&'a str>,
}

/// A frame that can't be one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FrameError {
    /// The size is negative.
    #[error("a frame can't have {0} bytes")]
    Negative(
        /// The size.
        i32,
    ),
    /// The size is above the bound. Nothing has been made of it.
    #[error("a frame of {size} bytes is longer than the {maximum} bytes that are accepted")]
    TooLong {
        /// The size.
        size: usize,
        /// The bound.
        maximum: usize,
    },
}

/// How long the frame at the start of `bytes` is without its size: `None` if the size has not arrived.
pub fn length(bytes: &[u8], maximum: usize) -> Result<Option<usize>, FrameError> {
    let Some(size) = bytes.first_chunk::<SIZE_LENGTH>() else {
        return Ok(None);
    };
    let size = i32::from_be_bytes(*size);
    let size = usize::try_from(size).map_err(|_negative| FrameError::Negative(size))?;
    match size > maximum {
        true => Err(FrameError::TooLong { size, maximum }),
        false => Ok(Some(size)),
    }
}

impl<'a> RequestHeader<'a> {
    /// Reads the header of the request in a frame without its size, and gives it with the request's body. Tagged fields are
    /// passed over where the request is known; of an unknown one nothing is known but the numbers.
    pub fn read(frame: &'a [u8]) -> Result<(Self, Reader<'a>), Malformed> {
        // The client id is the one string that never is compact: a broker must be able to read it in any version.
        let mut reader = Reader::new(frame, false);
        let header = Self {
            api_key: reader.i16("api key")?,
            version: reader.i16("api version")?,
            correlation_id: reader.i32("correlation id")?,
            client_id: reader.nullable_string("client id")?,
        };
        let is_flexible = ApiKey::of(header.api_key).is_some_and(|key| key.is_flexible(header.version));
        let mut body = Reader::new(reader.rest(), is_flexible);
        body.skip_tagged_fields("tagged fields of the header")?;
        Ok((header, body))
    }
}

/// Begins a frame with a request: its size is filled in by [`end`].
#[must_use]
pub fn begin_request(
    mut out: Vec<u8>,
    key: ApiKey,
    version: i16,
    correlation_id: i32,
    client_id: Option<&str>,
) -> Writer {
    out.extend_from_slice(&[0; SIZE_LENGTH]);
    // As in `RequestHeader::read`: nothing of it is compact.
    let mut header = Writer::new(out, false);
    header.i16(key.number());
    header.i16(version);
    header.i32(correlation_id);
    header.nullable_string(client_id);
    let mut writer = Writer::new(header.finish(), key.is_flexible(version));
    writer.tagged_fields_end();
    writer
}

/// Reads the header of a response in a frame without its size, and gives the correlation id with the response's body. A broker
/// answers the requests of a connection in their order, so the client knows which one is answered: one of `key` and `version`.
pub fn read_response(frame: &[u8], key: ApiKey, version: i16) -> Result<(i32, Reader<'_>), Malformed> {
    let mut reader = Reader::new(frame, key.has_flexible_response_header(version));
    let correlation_id = reader.i32("correlation id")?;
    reader.skip_tagged_fields("tagged fields of the header")?;
    Ok((correlation_id, Reader::new(reader.rest(), key.is_flexible(version))))
}

/// Begins a frame with a response: its size is filled in by [`end`].
#[must_use]
pub fn begin_response(mut out: Vec<u8>, key: ApiKey, version: i16, correlation_id: i32) -> Writer {
    out.extend_from_slice(&[0; SIZE_LENGTH]);
    out.extend_from_slice(&correlation_id.to_be_bytes());
    if key.has_flexible_response_header(version) {
        out.push(0);
    }
    Writer::new(out, key.is_flexible(version))
}

/// Fills in the size of the frame that began at `start` of `out`, of which `elsewhere` bytes are not in `out`.
pub fn end(out: &mut [u8], start: usize, elsewhere: usize) {
    let size = (out.len() - start - SIZE_LENGTH).saturating_add(elsewhere);
    let size = i32::try_from(size).unwrap_or(i32::MAX);
    out[start..start + SIZE_LENGTH].copy_from_slice(&size.to_be_bytes());
}

/// Bytes of the size in front of a frame.
pub const SIZE_LENGTH: usize = 4;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_size_is_judged_before_anything_is_made_of_it() {
        assert_eq!(length(&[0, 0, 1], 300), Ok(None));
        assert_eq!(length(&[0, 0, 1, 0], 300), Ok(Some(256)));
        assert_eq!(length(&[0, 0, 1, 0], 255), Err(FrameError::TooLong { size: 256, maximum: 255 }));
        assert_eq!(length(&[0xff; 4], 300), Err(FrameError::Negative(-1)));
    }

    #[test]
    fn the_header_of_a_flexible_request_has_a_client_id_that_is_not() {
        // ApiVersions 3, correlation id 7, "abc", one tagged field of two bytes, then the body.
        let bytes = b"\0\x12\0\x03\0\0\0\x07\0\x03abc\x01\x05\x02xybody";
        let (header, body) = RequestHeader::read(bytes).unwrap();
        let expected = RequestHeader { api_key: 18, version: 3, correlation_id: 7, client_id: Some("abc") };
        assert_eq!((header, body.rest()), (expected, &b"body"[..]));
        for length in 0..bytes.len() - 4 {
            assert!(RequestHeader::read(&bytes[..length]).is_err(), "{length}");
        }
    }

    #[test]
    fn responses_repeat_the_correlation_id_and_have_their_size() {
        for (version, expected) in [(8, &b"\0\0\0\x05\0\0\0\x09\x01"[..]), (9, b"\0\0\0\x06\0\0\0\x09\0\x01")]
        {
            let mut writer = begin_response(b"before".to_vec(), ApiKey::Produce, version, 9);
            writer.bool(true);
            let mut out = writer.finish();
            end(&mut out, 6, 0);
            assert_eq!(&out[6..], expected);
            let (correlation_id, body) =
                read_response(&out[6 + SIZE_LENGTH..], ApiKey::Produce, version).unwrap();
            assert_eq!((correlation_id, body.rest()), (9, &b"\x01"[..]));
            let header = expected.len() - SIZE_LENGTH - 1;
            for length in 0..header {
                assert!(read_response(&expected[SIZE_LENGTH..][..length], ApiKey::Produce, version).is_err());
            }
        }
    }

    #[test]
    fn requests_are_read_as_they_were_written() {
        for (key, version) in [(ApiKey::ApiVersions, 3), (ApiKey::Metadata, 8), (ApiKey::SaslHandshake, 1)] {
            for client_id in [Some("relay"), None] {
                let mut writer = begin_request(b"before".to_vec(), key, version, 9, client_id);
                writer.bool(true);
                let mut out = writer.finish();
                end(&mut out, 6, 0);
                let frame = &out[6 + SIZE_LENGTH..];
                assert_eq!(length(&out[6..], 100), Ok(Some(frame.len())));
                let (header, body) = RequestHeader::read(frame).unwrap();
                let expected = RequestHeader { api_key: key.number(), version, correlation_id: 9, client_id };
                assert_eq!((header, body.rest()), (expected, &b"\x01"[..]));
            }
        }
    }
}
