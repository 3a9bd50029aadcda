//! The token that authorises a connection, and when it is due to be renewed.

use std::time::SystemTime;

use access::Credential;
use amqp::Value;
use tokio::time::Instant;

use super::endpoint::Endpoint;
use super::error::ServiceError;
use super::request::Request;
use crate::identity::BearerToken;
use crate::sink::ErrorClass;

/// A token that is to be put on a connection.
#[derive(Debug)]
pub(crate) struct Claim {
    pub(crate) request: Request<'static>,
    /// When the next one is to be put; never, for one that can't be renewed.
    pub(crate) renew_at: Option<Instant>,
    /// What is put for an identity.
    pub(crate) bearer: Option<BearerToken>,
}

/// A fresh token. A connection string that brings a ready token has always the same one to put.
///
/// # Errors
/// The identity has none.
pub(crate) async fn claim(endpoint: &Endpoint) -> Result<Claim, ServiceError> {
    match signed(endpoint) {
        Some(claim) => Ok(claim),
        None => {
            let options = &endpoint.options;
            let token = options.identity.token(options.token_scope).await?;
            Ok(borne(endpoint, token))
        }
    }
}

/// A token by a key or a signature, for which nobody is to be asked; `None` where it is an identity's.
pub(super) fn signed(endpoint: &Endpoint) -> Option<Claim> {
    let audience = endpoint.audience();
    let options = &endpoint.options;
    let (token, life) = match &options.connection_string.credential {
        Credential::Key(key) => {
            let expires_at = SystemTime::now() + options.token_life;
            (key.sign(&audience, expires_at), Some((expires_at, options.token_life.mul_f64(RENEWED_AT))))
        }
        Credential::Signature(token) => (token.reveal().to_owned(), None),
        Credential::Identity => return None,
    };
    Some(Claim {
        request: put_token(&audience, SHARED_ACCESS, token, life.map(|(expires_at, _)| expires_at)),
        renew_at: life.map(|(_, serves)| Instant::now() + serves),
        bearer: None,
    })
}

/// The token of an identity.
pub(super) fn borne(endpoint: &Endpoint, token: BearerToken) -> Claim {
    let text = token.reveal().to_owned();
    Claim {
        request: put_token(&endpoint.audience(), BEARER, text, Some(token.expires_at())),
        renew_at: Some(token.renew_at()),
        bearer: Some(token),
    }
}

/// What the service has against a token that was put. One that it takes for expired is asked for anew by the next connection: its clock goes
/// before ours, or the token was on its way for long.
pub(super) fn refused(
    endpoint: &Endpoint,
    bearer: Option<&BearerToken>,
    error: ServiceError,
) -> ServiceError {
    match bearer {
        Some(token) if error.is_unauthorized() && error.description.starts_with(EXPIRED) => {
            let options = &endpoint.options;
            options.identity.discard(options.token_scope, token);
            ServiceError { class: ErrorClass::Retryable, ..error }
        }
        _ => error,
    }
}

fn put_token(
    audience: &str,
    kind: &'static str,
    token: String,
    expires_at: Option<SystemTime>,
) -> Request<'static> {
    let mut properties = vec![
        ("operation", Value::from("put-token")),
        ("type", Value::from(kind)),
        ("name", Value::from(audience)),
    ];
    let expiry_ms = expires_at
        .and_then(|instant| instant.duration_since(SystemTime::UNIX_EPOCH).ok())
        .and_then(|since| i64::try_from(since.as_millis()).ok());
    if let Some(expiry_ms) = expiry_ms {
        properties.push(("expiration", Value::Timestamp(expiry_ms)));
    }
    Request { properties, body: Some(Value::String(token)) }
}

/// How the service's words begin for a token that is over.
const EXPIRED: &str = "ExpiredToken";

/// The kinds of token.
const SHARED_ACCESS: &str = "servicebus.windows.net:sastoken";
const BEARER: &str = "jwt";

/// The part of a signed token's life after which the next one is put, so that a renewal may fail for a while.
const RENEWED_AT: f64 = 0.75;
