//! The token that authorises a connection, and when it is due to be renewed.

use std::time::SystemTime;

use access::Credential;
use amqp::Value;

use super::endpoint::Endpoint;
use super::request::Request;

/// The request that puts a fresh token on a connection. A connection string that brings a ready token has always the same
/// one to put.
pub(crate) fn put_token(endpoint: &Endpoint) -> Request<'static> {
    let options = &endpoint.options;
    put_token_for(endpoint, &options.entity, &options.connection_string.credential)
}

/// The same for each entity that the connection is used for, the endpoint's own first.
pub(super) fn put_tokens(endpoint: &Endpoint) -> impl Iterator<Item = Request<'static>> + use<'_> {
    let others = endpoint.other_claims.iter();
    let others = others.map(|claim| put_token_for(endpoint, &claim.entity, &claim.credential));
    std::iter::once_with(|| put_token(endpoint)).chain(others)
}

fn put_token_for(endpoint: &Endpoint, entity: &str, credential: &Credential) -> Request<'static> {
    let audience = endpoint.audience_of(entity);
    let (token, expires_at) = match credential {
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

/// How long tokens that were just put serve; `None` where none can be renewed.
pub(crate) fn renew_after(endpoint: &Endpoint) -> Option<std::time::Duration> {
    let others = endpoint.other_claims.iter().map(|claim| &claim.credential);
    let mut credentials = std::iter::once(&endpoint.options.connection_string.credential).chain(others);
    let any_key = credentials.any(|credential| matches!(credential, Credential::Key(_)));
    any_key.then(|| endpoint.options.token_life.mul_f64(RENEWED_AT))
}

/// The part of a token's life after which the next one is put, so that a renewal may fail for a while.
const RENEWED_AT: f64 = 0.75;
