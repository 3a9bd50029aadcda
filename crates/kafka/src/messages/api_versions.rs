//! ApiVersions, 0 to 4: which requests a broker takes, in which versions.
//!
//! A client asks before it knows anything. If its version is too new, it gets the error in a response of version 0, and
//! the versions of this request in it, so that it can ask again.

use std::ops::RangeInclusive;

use crate::read::{Malformed, Reader};
use crate::write::Writer;
use crate::{ApiKey, ErrorCode};

/// What a broker takes.
pub type Supported = [(ApiKey, RangeInclusive<i16>)];

/// What a client says of itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ApiVersionsRequest<'a> {
    /// What it is: letters, digits, dashes and dots.
    pub client_software_name: &'a str,
    /// Which version of it, likewise.
    pub client_software_version: &'a str,
}

/// What a client learns.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ApiVersionsResponse {
    /// The error; with [`ErrorCode::UnsupportedVersion`] there are versions all the same, of this request at least.
    pub error: ErrorCode,
    /// The requests that are known here and that the broker takes.
    pub supported: Vec<(ApiKey, RangeInclusive<i16>)>,
    /// How many milliseconds to wait before the next request.
    pub throttle_time_ms: i32,
}

impl ApiVersionsRequest<'_> {
    /// Writes the body of a request of `version`. Nothing is said before version 3.
    pub fn write(&self, writer: &mut Writer, version: i16) {
        if version >= 3 {
            writer.string(self.client_software_name);
            writer.string(self.client_software_version);
        }
        writer.tagged_fields_end();
    }
}

impl ApiVersionsResponse {
    /// Reads the body of the response to a request of `version`: one of version 0, if the broker does not take `version`.
    pub fn read(mut reader: Reader<'_>, version: i16) -> Result<Self, Malformed> {
        let error = ErrorCode::of(reader.i16("error")?);
        if error == ErrorCode::UnsupportedVersion {
            let supported = read_versions(&mut Reader::new(reader.rest(), false))?;
            return Ok(Self { error, supported, throttle_time_ms: 0 });
        }
        let supported = read_versions(&mut reader)?;
        let throttle_time_ms = if version >= 1 { reader.i32("throttle time")? } else { 0 };
        reader.skip_tagged_fields("response")?;
        Ok(Self { error, supported, throttle_time_ms })
    }

    /// The newest version of a request that the broker takes and that is one of `ours`.
    #[must_use]
    pub fn newest(&self, key: ApiKey, ours: &RangeInclusive<i16>) -> Option<i16> {
        let (_, theirs) = self.supported.iter().find(|(known, _)| *known == key)?;
        let newest = *theirs.end().min(ours.end());
        (newest >= *theirs.start().max(ours.start())).then_some(newest)
    }
}

fn read_versions(reader: &mut Reader<'_>) -> Result<Vec<(ApiKey, RangeInclusive<i16>)>, Malformed> {
    let mut supported = Vec::new();
    for _ in 0..reader.array_length("requests")? {
        let key = ApiKey::of(reader.i16("api key")?);
        let versions = reader.i16("oldest version")?..=reader.i16("newest version")?;
        reader.skip_tagged_fields("request")?;
        supported.extend(key.map(|key| (key, versions)));
    }
    Ok(supported)
}

/// Writes the response to a request of `version`.
pub fn write_response(writer: &mut Writer, version: i16, supported: &Supported, throttle_time_ms: i32) {
    writer.i16(ErrorCode::None.code());
    write_versions(writer, supported);
    if version >= 1 {
        writer.i32(throttle_time_ms);
    }
    writer.tagged_fields_end();
}

/// Writes the response to a request of a version that the broker does not take: it is one of version 0.
pub fn write_unsupported(writer: &mut Writer, supported: &Supported) {
    writer.i16(ErrorCode::UnsupportedVersion.code());
    write_versions(writer, supported);
}

fn write_versions(writer: &mut Writer, supported: &Supported) {
    writer.array_length(supported.len());
    for (key, versions) in supported {
        writer.i16(key.number());
        writer.i16(*versions.start());
        writer.i16(*versions.end());
        writer.tagged_fields_end();
    }
}

#[cfg(test)]
mod tests {
    use kafka_protocol::messages::api_versions_response::ApiVersion;
    use kafka_protocol::messages::{
        ApiVersionsRequest as Reference, ApiVersionsResponse as ReferenceResponse,
    };

    use super::*;
    use crate::messages::reference;

    const KEY: ApiKey = ApiKey::ApiVersions;

    const SUPPORTED: [(ApiKey, RangeInclusive<i16>); 2] =
        [(ApiKey::Produce, 0..=11), (ApiKey::ApiVersions, 0..=4)];

    #[test]
    fn requests_are_read_by_another_implementation_in_every_version() {
        let request = ApiVersionsRequest { client_software_name: "parshall", client_software_version: "1.0" };
        for version in 0..=4 {
            let read: Reference = reference::message(KEY, version, |writer| request.write(writer, version));
            let expected = if version >= 3 { ("parshall", "1.0") } else { ("", "") };
            assert_eq!((read.client_software_name.as_str(), read.client_software_version.as_str()), expected);
        }
    }

    #[test]
    fn responses_are_read_here_and_by_another_implementation_in_every_version() {
        for version in 0..=4 {
            let throttle_time_ms = if version >= 1 { 7 } else { 0 };
            let write = |writer: &mut Writer| write_response(writer, version, &SUPPORTED, 7);
            let response: ReferenceResponse = reference::message(KEY, version, write);
            let found: Vec<_> =
                response.api_keys.iter().map(|it| (it.api_key, it.min_version, it.max_version)).collect();
            assert_eq!(found, [(0, 0, 11), (18, 0, 4)]);
            assert_eq!((response.error_code, response.throttle_time_ms), (0, throttle_time_ms));
            let expected = ApiVersionsResponse {
                error: ErrorCode::None,
                supported: SUPPORTED.to_vec(),
                throttle_time_ms,
            };
            let body = reference::body(KEY, version, write);
            let own = ApiVersionsResponse::read(reference::reader(KEY, version, &body), version);
            assert_eq!(own, Ok(expected.clone()));

            let unknown = ApiVersion::default().with_api_key(7).with_max_version(3);
            let mut response = response;
            response.api_keys.insert(0, unknown);
            let read = |reader: Reader<'_>| ApiVersionsResponse::read(reader, version);
            reference::read_message(KEY, version, &response, read, |it| assert_eq!(it, expected));
        }
    }

    #[test]
    fn a_version_that_is_too_new_is_answered_in_the_oldest() {
        let write = |writer: &mut Writer| write_unsupported(writer, &SUPPORTED);
        let response: ReferenceResponse = reference::message(KEY, 0, write);
        assert_eq!((response.error_code, response.api_keys.len()), (35, 2));
        let body = reference::body(KEY, 0, write);
        // The client takes it for one of the version that it asked with.
        let own = ApiVersionsResponse::read(reference::reader(KEY, 4, &body), 4).unwrap();
        assert_eq!((own.error, &own.supported[..]), (ErrorCode::UnsupportedVersion, &SUPPORTED[..]));
        assert_eq!(own.newest(KEY, &(0..=9)), Some(4));
    }

    #[test]
    fn the_newest_version_is_one_that_both_have() {
        let supported = vec![(ApiKey::Metadata, 3..=8)];
        let response = ApiVersionsResponse { error: ErrorCode::None, supported, throttle_time_ms: 0 };
        let newest = |ours: RangeInclusive<i16>| response.newest(ApiKey::Metadata, &ours);
        assert_eq!([newest(0..=12), newest(0..=5), newest(8..=9)], [Some(8), Some(5), Some(8)]);
        assert_eq!([newest(0..=2), newest(9..=12)], [None, None]);
        assert_eq!(response.newest(ApiKey::Fetch, &(0..=12)), None);
    }
}
