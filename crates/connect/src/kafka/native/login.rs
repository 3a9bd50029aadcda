//! From a socket to a connection that may be used: which versions there are, and who the client is.

use std::sync::Arc;
use std::time::Duration;

use kafka::messages::api_versions::{ApiVersionsRequest, ApiVersionsResponse};
use kafka::messages::sasl::{self, SaslAuthenticateResponse, SaslHandshakeResponse};
use kafka::{ApiKey, ErrorCode};

use super::super::settings::Login;
use super::connection::Connection;
use super::endpoint::Endpoint;
use super::error::{malformed, refused_for_good};
use crate::service::ServiceError;
use crate::service::error::TIMEOUT;

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
    if let Some(login) = &endpoint.settings.login {
        log_in(&mut connection, login).await?;
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

async fn log_in(connection: &mut Connection<()>, login: &Login) -> Result<(), ServiceError> {
    let version = connection.version(ApiKey::SaslHandshake, 1, 1)?;
    let answer = connection
        .ask(ApiKey::SaslHandshake, version, |writer| sasl::write_handshake_request(writer, PLAIN))
        .await?;
    let response = SaslHandshakeResponse::read(answer.reader()).map_err(malformed)?;
    if response.error != ErrorCode::None {
        let offered = response.mechanisms.join(", ");
        let what = format!("the broker takes no login by {PLAIN}, but by {offered}");
        return Err(refused_for_good(response.error, what));
    }
    let version = connection.version(ApiKey::SaslAuthenticate, 0, 2)?;
    let message = ["", &login.username, &login.password].join("\0");
    let write =
        |writer: &mut kafka::write::Writer| sasl::write_authenticate_request(writer, message.as_bytes());
    let answer = connection.ask(ApiKey::SaslAuthenticate, version, write).await?;
    let response = SaslAuthenticateResponse::read(answer.reader(), version).map_err(malformed)?;
    match response.error {
        ErrorCode::None => Ok(()),
        error => {
            let reason = response.message.unwrap_or("without a reason");
            let what = format!("the broker refuses the login of {}: {reason}", login.username);
            Err(refused_for_good(error, what))
        }
    }
}

fn timed_out(host: &str, port: u16, limit: Duration) -> ServiceError {
    ServiceError::of_connection(TIMEOUT, format!("{host}:{port} was not ready within {limit:?}"))
}

const PLAIN: &str = "PLAIN";

/// Later versions are answered by Event Hubs with the end of the connection.
const VERSIONS_NEWEST: i16 = 3;
