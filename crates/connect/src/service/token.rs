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

/// What is to be put on a connection, for each entity that it is used for.
#[derive(Debug)]
pub(crate) struct Claim {
    /// A token each, that of the endpoint's own entity first.
    pub(crate) requests: Vec<Request<'static>>,
    /// When the next ones are to be put; never, where none can be renewed.
    pub(crate) renew_at: Option<Instant>,
    /// What is put for an identity.
    pub(crate) bearer: Option<BearerToken>,
}

/// Fresh tokens. A connection string that brings a ready token has always the same one to put.
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

/// Tokens by keys or signatures, for which nobody is to be asked; `None` where any is an identity's.
pub(super) fn signed(endpoint: &Endpoint) -> Option<Claim> {
    let needs_identity = credentials(endpoint).any(|(_, credential)| *credential == Credential::Identity);
    (!needs_identity).then(|| all(endpoint, None))
}

/// The token of an identity, beside what is signed by a key.
pub(super) fn borne(endpoint: &Endpoint, token: BearerToken) -> Claim {
    all(endpoint, Some(token))
}

/// The entities that the connection is used for, and what proves the right to use them.
fn credentials(endpoint: &Endpoint) -> impl Iterator<Item = (&str, &Credential)> {
    let options = &endpoint.options;
    let own = (options.entity.as_str(), &options.connection_string.credential);
    let others = endpoint.other_claims.iter().map(|claim| (claim.entity.as_str(), &claim.credential));
    std::iter::once(own).chain(others)
}

fn all(endpoint: &Endpoint, bearer: Option<BearerToken>) -> Claim {
    let life = endpoint.options.token_life;
    let mut renew_at = bearer.as_ref().map(BearerToken::renew_at);
    let requests = credentials(endpoint).map(|(entity, credential)| {
        let audience = endpoint.audience_of(entity);
        match (credential, &bearer) {
            (Credential::Key(key), _) => {
                let expires_at = SystemTime::now() + life;
                let due = Instant::now() + life.mul_f64(RENEWED_AT);
                renew_at = Some(renew_at.map_or(due, |earlier| earlier.min(due)));
                put_token(&audience, SHARED_ACCESS, key.sign(&audience, expires_at), Some(expires_at))
            }
            (Credential::Signature(token), _) => {
                put_token(&audience, SHARED_ACCESS, token.reveal().to_owned(), None)
            }
            (Credential::Identity, bearer) => {
                let (token, expires_at) = match bearer {
                    Some(token) => (token.reveal().to_owned(), Some(token.expires_at())),
                    // The service refuses it and says why.
                    None => (String::new(), None),
                };
                put_token(&audience, BEARER, token, expires_at)
            }
        }
    });
    let requests = requests.collect();
    Claim { requests, renew_at, bearer }
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
