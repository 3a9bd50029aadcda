//! How a content that a client sends is protected, and what the reply tells it of that.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hyper::HeaderMap;

use super::http_error::HttpError;
use super::operation::{SOURCE_CRC64, SOURCE_MD5};
use super::reply::{self, md5_text};
use super::request::Request;
use blob_store::crc64;
use blob_store::structured::{STRUCTURED_BODY, is_structured_body};
use units::md5::md5;

/// What a request tells of its content.
#[derive(Clone, Debug, Default)]
pub(super) struct Expected {
    md5: Option<String>,
    crc64: Option<u64>,
    /// How much content there is in a structured message.
    pub(super) structured: Option<u64>,
}

/// What was computed of a content.
#[derive(Clone, Debug)]
pub(super) struct Checksums {
    /// In base64, where it is wanted.
    pub(super) md5: Option<String>,
    crc64: u64,
    is_structured: bool,
}

/// When the MD5 of a content is computed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Md5 {
    /// With every content: it is kept.
    Always,
    /// With one that comes with its own.
    WhenGiven,
}

impl Expected {
    /// What `request` tells.
    ///
    /// # Errors
    /// It can't be understood, or is too much: the service takes one kind of protection at a time.
    pub(super) fn of(request: &Request) -> Result<Self, HttpError> {
        let crc64 = match request.header(CRC64) {
            None => None,
            Some(text) => Some(read_crc64(text).ok_or(HttpError::header(CRC64))?),
        };
        let expected = Self {
            md5: request.header("content-md5").map(str::to_owned),
            crc64,
            structured: structured_length(request)?,
        };
        match expected {
            Self { crc64: Some(_), md5: Some(_), .. } | Self { crc64: Some(_), structured: Some(_), .. } => {
                Err(HttpError::header(CRC64))
            }
            Self { md5: Some(_), structured: Some(_), .. } => Err(HttpError::header(STRUCTURED)),
            expected => Ok(expected),
        }
    }

    /// Returns the checksums that `request` gives for the content of another blob.
    ///
    /// # Errors
    /// It can't be understood, or is too much.
    pub(super) fn of_source(request: &Request) -> Result<Self, HttpError> {
        let crc64 = match request.header(SOURCE_CRC64) {
            None => None,
            Some(text) => Some(read_crc64(text).ok_or(HttpError::header(SOURCE_CRC64))?),
        };
        let md5 = request.header(SOURCE_MD5).map(str::to_owned);
        match crc64.is_some() && md5.is_some() {
            true => Err(HttpError::header(SOURCE_CRC64)),
            false => Ok(Self { md5, crc64, structured: None }),
        }
    }

    /// Whether a content has the checksums that it should have. It takes a while if the content is large. `decoded` is the
    /// CRC-64 of one that was verified as it came.
    ///
    /// # Errors
    /// It has others.
    pub(super) fn verify(
        &self,
        content: &[u8],
        decoded: Option<u64>,
        wanted: Md5,
    ) -> Result<Checksums, HttpError> {
        let is_wanted = wanted == Md5::Always || self.md5.is_some();
        let computed = is_wanted.then(|| md5_text(md5(content)));
        if self.md5.is_some() && self.md5 != computed {
            return Err(HttpError::Checksum);
        }
        let computed_crc64 = decoded.unwrap_or_else(|| crc64(content));
        if self.crc64.is_some_and(|expected| expected != computed_crc64) {
            return Err(HttpError::Crc64);
        }
        Ok(Checksums { md5: computed, crc64: computed_crc64, is_structured: self.structured.is_some() })
    }
}

impl Checksums {
    /// Tells them in a reply.
    pub(super) fn set(&self, headers: &mut HeaderMap) {
        if let Some(md5) = &self.md5 {
            reply::set(headers, "content-md5", md5);
        }
        reply::set(headers, CRC64, &crc64_text(self.crc64));
        if self.is_structured {
            reply::set(headers, STRUCTURED, STRUCTURED_BODY);
        }
    }
}

/// Whether the reply is to be a structured message.
///
/// # Errors
/// It is to be one that is not known.
pub(super) fn wants_structured_body(request: &Request) -> Result<bool, HttpError> {
    match request.header(STRUCTURED) {
        None => Ok(false),
        Some(value) if is_structured_body(value) => Ok(true),
        Some(_) => Err(HttpError::header(STRUCTURED)),
    }
}

/// Says that the body of a reply is a structured message with so much content.
pub(super) fn set_structured_body(headers: &mut HeaderMap, content_length: u64) {
    reply::set(headers, STRUCTURED, STRUCTURED_BODY);
    reply::set(headers, STRUCTURED_LENGTH, &content_length.to_string());
}

fn structured_length(request: &Request) -> Result<Option<u64>, HttpError> {
    let length = request.number(STRUCTURED_LENGTH)?;
    match (wants_structured_body(request)?, length) {
        (true, Some(length)) => Ok(Some(length)),
        (true, None) => Err(HttpError::MissingHeader { name: STRUCTURED_LENGTH }),
        (false, None) => Ok(None),
        (false, Some(_)) => Err(HttpError::header(STRUCTURED_LENGTH)),
    }
}

/// A checksum as headers have it: the bytes from the lowest on, in base64.
pub(super) fn crc64_text(crc64: u64) -> String {
    STANDARD.encode(crc64.to_le_bytes())
}

fn read_crc64(text: &str) -> Option<u64> {
    let bytes = STANDARD.decode(text).ok()?;
    Some(u64::from_le_bytes(bytes.try_into().ok()?))
}

pub(super) const CRC64: &str = "x-ms-content-crc64";
pub(super) const STRUCTURED: &str = "x-ms-structured-body";
const STRUCTURED_LENGTH: &str = "x-ms-structured-content-length";
