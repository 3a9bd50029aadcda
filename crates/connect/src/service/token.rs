//! The token that authorises a connection, and when it is due to be renewed.

use std::time::SystemTime;

use access::Credential;
use amqp::Value;

use super::endpoint::Endpoint;
use super::request::Request;

/// The request that puts a fresh token on a connection. A connection string that brings a ready token has always the same
/// one to put.
pub(crate) fn put_token(endpoint: &Endpoint) -> Request<'static> {
    let audience = endpoint.audience();
    let (token, expires_at) = match &endpoint.options.connection_string.credential {
        Credential::Key(key) => {
            let expires_at = SystemTime::now() + endpoint.options.token_life;
            (key.sign(&audience, expires_at), Some(expires_at))
        }
        Credential::Signature(token) => (token.reveal().to_owned(), None),
    };
    let mut properties = vec![
        ("operation", Value::from("put-token")),
        ("type", Value::from("servicebus.windows.net:sastoken")),
        ("name", Value::from(audience.as_str())),
    ];
    let expiry_ms = expires_at
        .and_then(|instant| instant.duration_since(SystemTime::UNIX_EPOCH).ok())
        .and_then(|since| i64::try_from(since.as_millis()).ok());
    if let Some(expiry_ms) = expiry_ms {
        properties.push(("expiration", Value::Timestamp(expiry_ms)));
    }
    Request { properties, body: Some(Value::String(token)) }
}

/// How long a token that was just put serves; `None` for one that cannot be renewed.
pub(crate) fn renew_after(endpoint: &Endpoint) -> Option<std::time::Duration> {
    match endpoint.options.connection_string.credential {
        Credential::Key(_) => Some(endpoint.options.token_life.mul_f64(RENEWED_AT)),
        Credential::Signature(_) => None,
    }
}

/// The part of a token's life after which the next one is put, so that a renewal may fail for a while.
const RENEWED_AT: f64 = 0.75;
