//! SaslHandshake, 0 and 1, and SaslAuthenticate, 0 to 2: which mechanism, and what it has to say.

use crate::ErrorCode;
use crate::read::{Malformed, Reader};
use crate::write::Writer;

/// Reads which mechanism a client wants.
pub fn read_handshake<'a>(mut reader: Reader<'a>) -> Result<&'a str, Malformed> {
    reader.string("mechanism")
}

/// Writes which mechanism a client wants.
pub fn write_handshake_request(writer: &mut Writer, mechanism: &str) {
    writer.string(mechanism);
}

/// Whether a client can have the mechanism that it wants.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SaslHandshakeResponse<'a> {
    /// Why not.
    pub error: ErrorCode,
    /// The mechanisms that there are.
    pub mechanisms: Vec<&'a str>,
}

impl<'a> SaslHandshakeResponse<'a> {
    /// Reads the body of a response, which is the same in both versions.
    pub fn read(mut reader: Reader<'a>) -> Result<Self, Malformed> {
        let error = ErrorCode::of(reader.i16("error")?);
        let mut mechanisms = Vec::new();
        for _ in 0..reader.array_length("mechanisms")? {
            mechanisms.push(reader.string("mechanism")?);
        }
        Ok(Self { error, mechanisms })
    }
}

/// Writes whether it can have it, and which there are.
pub fn write_handshake(writer: &mut Writer, error: ErrorCode, mechanisms: &[&str]) {
    writer.error(error, "");
    writer.array_length(mechanisms.len());
    mechanisms.iter().for_each(|mechanism| writer.string(mechanism));
}

/// Reads what a client has to say in its mechanism.
pub fn read_authenticate<'a>(mut reader: Reader<'a>) -> Result<&'a [u8], Malformed> {
    let bytes = reader.nullable_bytes("SASL bytes")?.ok_or(Malformed("SASL bytes"))?;
    reader.skip_tagged_fields("request")?;
    Ok(bytes)
}

/// Writes what a client has to say in its mechanism.
pub fn write_authenticate_request(writer: &mut Writer, bytes: &[u8]) {
    writer.nullable_bytes(Some(bytes));
    writer.tagged_fields_end();
}

/// What came of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SaslAuthenticateResponse<'a> {
    /// Why the client is not let in.
    pub error: ErrorCode,
    /// The same for people.
    pub message: Option<&'a str>,
    /// What the mechanism answers.
    pub bytes: &'a [u8],
    /// After how many milliseconds the client has to do it again; 0 is never.
    pub lifetime_ms: i64,
}

impl<'a> SaslAuthenticateResponse<'a> {
    /// Reads the body of the response to a request of `version`.
    pub fn read(mut reader: Reader<'a>, version: i16) -> Result<Self, Malformed> {
        let error = ErrorCode::of(reader.i16("error")?);
        let message = reader.nullable_string("error message")?;
        let bytes = reader.nullable_bytes("SASL bytes")?.unwrap_or_default();
        let lifetime_ms = if version >= 1 { reader.i64("session lifetime")? } else { 0 };
        reader.skip_tagged_fields("response")?;
        Ok(Self { error, message, bytes, lifetime_ms })
    }
}

/// Writes what came of it: an error with its reason, or what the mechanism answers. `lifetime_ms` is after how many milliseconds
/// the client has to do it again; 0 is never.
pub fn write_authenticate(
    writer: &mut Writer,
    version: i16,
    result: Result<&[u8], (ErrorCode, &str)>,
    lifetime_ms: i64,
) {
    let (error, message, bytes) = match result {
        Ok(bytes) => (ErrorCode::None, None, bytes),
        Err((error, message)) => (error, Some(message), &[][..]),
    };
    writer.error(error, "");
    writer.nullable_string(message);
    writer.nullable_bytes(Some(bytes));
    if version >= 1 {
        writer.i64(lifetime_ms);
    }
    writer.tagged_fields_end();
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use kafka_protocol::messages::{
        SaslAuthenticateRequest, SaslAuthenticateResponse as ReferenceAuthenticated, SaslHandshakeRequest,
        SaslHandshakeResponse as ReferenceShaken,
    };
    use kafka_protocol::protocol::StrBytes;

    use super::*;
    use crate::ApiKey;
    use crate::messages::reference;

    #[test]
    fn another_implementation_reads_and_writes_the_same_in_every_version() {
        for version in 0..=1 {
            let request = SaslHandshakeRequest::default().with_mechanism(StrBytes::from_static_str("PLAIN"));
            let read = |reader: Reader<'_>| read_handshake(reader).map(str::to_owned);
            reference::read_message(ApiKey::SaslHandshake, version, &request, read, |it| {
                assert_eq!(it, "PLAIN")
            });
            let response: ReferenceShaken = reference::message(ApiKey::SaslHandshake, version, |writer| {
                write_handshake(writer, ErrorCode::UnsupportedSaslMechanism, &["PLAIN"]);
            });
            assert_eq!((response.error_code, response.mechanisms[0].as_str()), (33, "PLAIN"));
            let read = |reader: Reader<'_>| {
                let response = SaslHandshakeResponse::read(reader)?;
                assert_eq!(response.error, ErrorCode::UnsupportedSaslMechanism);
                assert_eq!(response.mechanisms, ["PLAIN"]);
                Ok(())
            };
            reference::read_message(ApiKey::SaslHandshake, version, &response, read, |()| {});
            let request: SaslHandshakeRequest =
                reference::message(ApiKey::SaslHandshake, version, |writer| {
                    write_handshake_request(writer, "PLAIN");
                });
            assert_eq!(request.mechanism.as_str(), "PLAIN");
        }
        for version in 0..=2 {
            let request =
                SaslAuthenticateRequest::default().with_auth_bytes(Bytes::from_static(b"\0user\0key"));
            let read = |reader: Reader<'_>| read_authenticate(reader).map(<[u8]>::to_vec);
            reference::read_message(ApiKey::SaslAuthenticate, version, &request, read, |it| {
                assert_eq!(it, b"\0user\0key");
            });
            let response: ReferenceAuthenticated =
                reference::message(ApiKey::SaslAuthenticate, version, |writer| {
                    write_authenticate(writer, version, Err((ErrorCode::SaslAuthenticationFailed, "why")), 9);
                });
            assert_eq!((response.error_code, response.error_message.as_deref()), (58, Some("why")));
            let lifetime_ms = if version >= 1 { 9 } else { 0 };
            assert_eq!(response.session_lifetime_ms, lifetime_ms);
            let read = |reader: Reader<'_>| {
                let expected = SaslAuthenticateResponse {
                    error: ErrorCode::SaslAuthenticationFailed,
                    message: Some("why"),
                    bytes: &[],
                    lifetime_ms,
                };
                SaslAuthenticateResponse::read(reader, version).map(|it| assert_eq!(it, expected))
            };
            reference::read_message(ApiKey::SaslAuthenticate, version, &response, read, |()| {});
            let response = response.with_auth_bytes(Bytes::from_static(b"answer"));
            let read = |reader: Reader<'_>| {
                SaslAuthenticateResponse::read(reader, version).map(|it| it.bytes == b"answer")
            };
            reference::read_message(ApiKey::SaslAuthenticate, version, &response, read, |it| assert!(it));
            let request: SaslAuthenticateRequest =
                reference::message(ApiKey::SaslAuthenticate, version, |writer| {
                    write_authenticate_request(writer, b"\0user\0key");
                });
            assert_eq!(&request.auth_bytes[..], b"\0user\0key");
        }
    }
}
