//! ApiVersions, 0 to 4: which requests a broker takes, in which versions.
//!
//! A client asks before it knows anything. If its version is too new, it gets the error in a response of version 0, and
//! the versions of this request in it, so that it can ask again.

use std::ops::RangeInclusive;

use crate::write::Writer;
use crate::{ApiKey, ErrorCode};

/// What a broker takes.
pub type Supported = [(ApiKey, RangeInclusive<i16>)];

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
    use kafka_protocol::messages::ApiVersionsResponse;

    use super::*;
    use crate::messages::reference;

    const SUPPORTED: [(ApiKey, RangeInclusive<i16>); 2] =
        [(ApiKey::Produce, 0..=11), (ApiKey::ApiVersions, 0..=4)];

    #[test]
    fn responses_are_read_by_another_implementation_in_every_version() {
        for version in 0..=4 {
            let response: ApiVersionsResponse = reference::response(ApiKey::ApiVersions, version, |writer| {
                write_response(writer, version, &SUPPORTED, 7);
            });
            let found: Vec<_> =
                response.api_keys.iter().map(|it| (it.api_key, it.min_version, it.max_version)).collect();
            assert_eq!(found, [(0, 0, 11), (18, 0, 4)]);
            assert_eq!(
                (response.error_code, response.throttle_time_ms),
                (0, if version >= 1 { 7 } else { 0 })
            );
        }
    }

    #[test]
    fn a_version_that_is_too_new_is_answered_in_the_oldest() {
        let response: ApiVersionsResponse =
            reference::response(ApiKey::ApiVersions, 0, |writer| write_unsupported(writer, &SUPPORTED));
        assert_eq!((response.error_code, response.api_keys.len()), (35, 2));
    }
}
