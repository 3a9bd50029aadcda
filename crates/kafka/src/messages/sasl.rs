//! SaslHandshake, 0 and 1, and SaslAuthenticate, 0 to 2: which mechanism, and what it has to say.

use crate::ErrorCode;
use crate::read::{Malformed, Reader};
use crate::write::Writer;

/// Reads which mechanism a client wants.
pub fn read_handshake<'a>(mut reader: Reader<'a>) -> Result<&'a str, Malformed> {
    reader.string("mechanism")
}

/// Writes whether it can have it, and which there are.
pub fn write_handshake(writer: &mut Writer, error: ErrorCode, mechanisms: &[&str]) {
    writer.i16(error.code());
    writer.array_length(mechanisms.len());
    mechanisms.iter().for_each(|mechanism| writer.string(mechanism));
}

/// Reads what a client has to say in its mechanism.
pub fn read_authenticate<'a>(mut reader: Reader<'a>) -> Result<&'a [u8], Malformed> {
    let bytes = reader.nullable_bytes("SASL bytes")?.ok_or(Malformed("SASL bytes"))?;
    reader.skip_tagged_fields("request")?;
    Ok(bytes)
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
    writer.i16(error.code());
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
        SaslAuthenticateRequest, SaslAuthenticateResponse, SaslHandshakeRequest, SaslHandshakeResponse,
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
            reference::read_request(ApiKey::SaslHandshake, version, &request, read, |it| {
                assert_eq!(it, "PLAIN")
            });
            let response: SaslHandshakeResponse =
                reference::response(ApiKey::SaslHandshake, version, |writer| {
                    write_handshake(writer, ErrorCode::UnsupportedSaslMechanism, &["PLAIN"]);
                });
            assert_eq!((response.error_code, response.mechanisms[0].as_str()), (33, "PLAIN"));
        }
        for version in 0..=2 {
            let request =
                SaslAuthenticateRequest::default().with_auth_bytes(Bytes::from_static(b"\0user\0key"));
            let read = |reader: Reader<'_>| read_authenticate(reader).map(<[u8]>::to_vec);
            reference::read_request(ApiKey::SaslAuthenticate, version, &request, read, |it| {
                assert_eq!(it, b"\0user\0key");
            });
            let response: SaslAuthenticateResponse =
                reference::response(ApiKey::SaslAuthenticate, version, |writer| {
                    write_authenticate(writer, version, Err((ErrorCode::SaslAuthenticationFailed, "why")), 9);
                });
            assert_eq!((response.error_code, response.error_message.as_deref()), (58, Some("why")));
            assert_eq!(response.session_lifetime_ms, if version >= 1 { 9 } else { 0 });
        }
    }
}
