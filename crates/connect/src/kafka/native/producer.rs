//! Who numbers what is sent: the id that a broker gives to a producer.

use std::pin::Pin;
use std::sync::Arc;

use kafka::messages::producer_id::{InitProducerIdRequest, InitProducerIdResponse};
use kafka::{ApiKey, ErrorCode};
use tokio::time::Instant;

use super::cluster;
use super::endpoint::Endpoint;
use super::error::{malformed, refused};
use crate::service::ServiceError;
use crate::sink::ErrorClass;

/// Who numbers what is sent.
pub(super) enum Producer {
    /// Nobody.
    None,
    Known((i64, i16)),
    Asking(Asking),
}

pub(super) type Asking = Pin<Box<dyn Future<Output = Result<(i64, i16), ServiceError>> + Send>>;

impl Producer {
    /// Asks for another id, as often as need be.
    pub(super) fn asking(endpoint: Arc<Endpoint>) -> Self {
        Self::Asking(Box::pin(async move {
            loop {
                match new_producer(&endpoint).await {
                    Err(error) if error.class != ErrorClass::Fatal => {
                        tokio::time::sleep(endpoint.reconnect.delay).await;
                    }
                    answered => return answered,
                }
            }
        }))
    }
}

/// Asks for an id that nobody has. A broker that has just started gives none yet: it is asked again for as long as a connection may take.
///
/// # Errors
/// No broker can be reached, or they give none.
pub(super) async fn first_producer(endpoint: &Arc<Endpoint>) -> Result<(i64, i16), ServiceError> {
    let is_starting = |error: &ServiceError| {
        let codes = [ErrorCode::CoordinatorLoadInProgress, ErrorCode::CoordinatorNotAvailable];
        codes.iter().any(|code| error.condition == code.name())
    };
    let give_up = Instant::now() + endpoint.settings.connect_timeout;
    loop {
        match new_producer(endpoint).await {
            Err(error) if is_starting(&error) && Instant::now() + endpoint.reconnect.delay < give_up => {
                tokio::time::sleep(endpoint.reconnect.delay).await;
            }
            answered => return answered,
        }
    }
}

/// Asks for an id that nobody has.
///
/// # Errors
/// No broker can be reached, or they give none.
async fn new_producer(endpoint: &Arc<Endpoint>) -> Result<(i64, i16), ServiceError> {
    let mut connection = cluster::connect_any(endpoint, &endpoint.settings.bootstrap).await?;
    let version = connection.version(ApiKey::InitProducerId, 0, 4)?;
    let request = InitProducerIdRequest {
        transactional_id: None,
        transaction_timeout_ms: i32::MAX,
        producer_id: -1,
        producer_epoch: -1,
    };
    let answer =
        connection.ask(ApiKey::InitProducerId, version, |writer| request.write(writer, version)).await?;
    let response = InitProducerIdResponse::read(answer.reader()).map_err(malformed)?;
    response.producer.map_err(|code| refused(code, "the broker gives no producer id"))
}
