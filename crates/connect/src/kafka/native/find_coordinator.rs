//! The broker that coordinates a group, or the transactions of a producer: which it is, and a connection to it.

use std::sync::Arc;

use kafka::messages::find_coordinator::{FindCoordinatorRequest, FindCoordinatorResponse};
use kafka::{ApiKey, ErrorCode, Malformed};

use super::cluster::connect_any;
use super::connection::Connection;
use super::endpoint::Endpoint;
use super::error::malformed;
use super::login;
use crate::service::ServiceError;

/// Why there is no connection to a coordinator.
pub(super) enum NotFound {
    /// Brokers were asked, and named none.
    Refused(ErrorCode),
    /// A broker can't be reached, or refuses the login.
    Error(ServiceError),
}

/// Asks the brokers that are named for the coordinator of a key of this kind, and connects to it.
pub(super) async fn connect(
    endpoint: &Arc<Endpoint>,
    key: &str,
    key_type: i8,
) -> Result<Connection<()>, NotFound> {
    let mut any = connect_any(endpoint, &endpoint.settings.bootstrap).await?;
    let version = any.version(ApiKey::FindCoordinator, 0, 4)?;
    let request = FindCoordinatorRequest { keys: vec![key], key_type };
    let answer = any.ask(ApiKey::FindCoordinator, version, |writer| request.write(writer, version)).await?;
    let mut response = FindCoordinatorResponse::read(answer.reader(), version).map_err(malformed)?;
    let found = response.coordinators.pop();
    let found = found.ok_or_else(|| malformed(Malformed("coordinators: there is none")))?;
    match found.broker {
        Ok(broker) => Ok(login::connect(Arc::clone(endpoint), broker.host, broker.port).await?),
        Err((code, _message)) => Err(NotFound::Refused(code)),
    }
}

impl From<ServiceError> for NotFound {
    fn from(error: ServiceError) -> Self {
        Self::Error(error)
    }
}
