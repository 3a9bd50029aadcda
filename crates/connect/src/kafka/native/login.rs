//! From a socket to a connection that may be used: which versions there are, and who the client is.

use std::sync::Arc;
use std::time::Duration;

use kafka::messages::api_versions::{ApiVersionsRequest, ApiVersionsResponse};
use kafka::messages::sasl::{self, SaslAuthenticateResponse, SaslHandshakeResponse};
use kafka::{ApiKey, ErrorCode};

use super::super::settings::Login;
use super::connection::{Answer, Connection};
use super::endpoint::Endpoint;
use super::error::{malformed, refused_for_good};
use crate::identity::BearerToken;
use crate::service::ServiceError;
use crate::service::error::{LOST, TIMEOUT};

/// Connects to a broker.
///
/// # Errors
/// It can't be reached, refuses the login, or does not get so far in time.
pub(super) async fn connect(
    endpoint: Arc<Endpoint>,
    host: &str,
    port: u16,
) -> Result<Connection<()>, ServiceError> {
    let limit = endpoint.settings.connect_timeout;
    tokio::time::timeout(limit, connect_in_time(endpoint, host, port))
        .await
        .unwrap_or_else(|_elapsed| Err(timed_out(host, port, limit)))
}

async fn connect_in_time(
    endpoint: Arc<Endpoint>,
    host: &str,
    port: u16,
) -> Result<Connection<()>, ServiceError> {
    let stream = endpoint.dial(host, port).await?;
    let mut connection = Connection::new(Arc::clone(&endpoint), stream);
    connection.supported = versions(&mut connection).await?;
    match &endpoint.settings.login {
        None => {}
        Some(Login::Plain { username, password }) => {
            let message = ["", username, password].join("\0");
            log_in(&mut connection, PLAIN, username, message.as_bytes()).await?;
        }
        Some(Login::Bearer { scope }) => {
            if !endpoint.is_protected(host) {
                let what = format!("the broker {host}:{port} would be sent bearer tokens without TLS");
                return Err(ServiceError::fatal("connection:address", what));
            }
            let mut bearer = endpoint.bearer(scope).await?;
            let message = bearer_message(&bearer.current());
            log_in(&mut connection, BEARER, "the identity", message.as_bytes()).await?;
            connection.keep_logged_in(bearer);
        }
    }
    Ok(connection)
}

/// Asks for the versions that the broker takes, once more if it does not take the one that the question is in.
async fn versions(connection: &mut Connection<()>) -> Result<ApiVersionsResponse, ServiceError> {
    let request = ApiVersionsRequest {
        client_software_name: "parshall",
        client_software_version: env!("CARGO_PKG_VERSION"),
    };
    let mut version = VERSIONS_NEWEST;
    loop {
        let answer =
            connection.ask(ApiKey::ApiVersions, version, |writer| request.write(writer, version)).await?;
        let response = ApiVersionsResponse::read(answer.reader(), version).map_err(malformed)?;
        match response.error {
            ErrorCode::None => return Ok(response),
            ErrorCode::UnsupportedVersion if version > 0 => {
                let ours = 0..=version - 1;
                version = response.newest(ApiKey::ApiVersions, &ours).unwrap_or(0);
            }
            error => return Err(refused_for_good(error, "the broker does not say which versions it takes")),
        }
    }
}

async fn log_in(
    connection: &mut Connection<()>,
    mechanism: &'static str,
    who: &str,
    message: &[u8],
) -> Result<(), ServiceError> {
    let version = connection.version(ApiKey::SaslHandshake, 1, 1)?;
    let answer = connection
        .ask(ApiKey::SaslHandshake, version, |writer| sasl::write_handshake_request(writer, mechanism))
        .await?;
    let response = SaslHandshakeResponse::read(answer.reader()).map_err(malformed)?;
    if response.error != ErrorCode::None {
        let offered = response.mechanisms.join(", ");
        let what = format!("the broker takes no login by {mechanism}, but by {offered}");
        return Err(refused_for_good(response.error, what));
    }
    let version = connection.version(ApiKey::SaslAuthenticate, 0, AUTHENTICATE_NEWEST)?;
    let mut message = message;
    loop {
        let write = |writer: &mut kafka::write::Writer| sasl::write_authenticate_request(writer, message);
        let answer = connection.ask(ApiKey::SaslAuthenticate, version, write).await?;
        let response = SaslAuthenticateResponse::read(answer.reader(), version).map_err(malformed)?;
        match response.error {
            ErrorCode::None
                if mechanism == BEARER && !response.bytes.is_empty() && message != ACKNOWLEDGED =>
            {
                // Why the token is refused, which is to be acknowledged; the error comes then.
                message = ACKNOWLEDGED;
            }
            ErrorCode::None => return Ok(()),
            error => {
                let reason = response.message.unwrap_or("without a reason");
                let what = format!("the broker refuses the login of {who}: {reason}");
                return Err(refused_for_good(error, what));
            }
        }
    }
}

/// What a client says first in OAUTHBEARER (RFC 7628).
pub(super) fn bearer_message(token: &BearerToken) -> String {
    format!("n,,\x01auth=Bearer {}\x01\x01", token.reveal())
}

/// Whether a connection that was logged in already is so again, by the answer to either request of a login.
///
/// # Errors
/// It is not. A new connection tells why.
pub(super) fn check_again(answer: &Answer) -> Result<(), ServiceError> {
    let (error, reason) = match answer.key {
        ApiKey::SaslHandshake => {
            (SaslHandshakeResponse::read(answer.reader()).map_err(malformed)?.error, None)
        }
        _ => {
            let response =
                SaslAuthenticateResponse::read(answer.reader(), answer.version).map_err(malformed)?;
            let refusal = (!response.bytes.is_empty()).then_some(ErrorCode::SaslAuthenticationFailed);
            let error = if response.error == ErrorCode::None { refusal } else { Some(response.error) };
            (error.unwrap_or(ErrorCode::None), response.message)
        }
    };
    match error {
        ErrorCode::None => Ok(()),
        error => {
            let reason = reason.unwrap_or("without a reason");
            let what = format!("the broker refuses the new token of a connection: {error:?}: {reason}");
            Err(ServiceError::of_connection(LOST, what))
        }
    }
}

fn timed_out(host: &str, port: u16, limit: Duration) -> ServiceError {
    ServiceError::of_connection(TIMEOUT, format!("{host}:{port} was not ready within {limit:?}"))
}

const PLAIN: &str = "PLAIN";
pub(super) const BEARER: &str = "OAUTHBEARER";

/// What a client has to say to the reason why its token is refused.
const ACKNOWLEDGED: &[u8] = b"\x01";

/// The newest version of the request with what a mechanism has to say.
pub(super) const AUTHENTICATE_NEWEST: i16 = 2;

/// Later versions are answered by Event Hubs with the end of the connection.
const VERSIONS_NEWEST: i16 = 3;
