//! A connection for which there is no room: it is opened, told why, and closed.
//!
//! Closing the socket at once would be cheaper, but a client could not tell that from a network that fails, and would
//! come again at once. So the handshake is finished, within a bounded time and for a bounded number of clients.

use std::time::Duration;

use amqp::connection::Event;
use amqp::performative::{Error, ErrorCondition};
use amqp_tokio::Driver;

/// Tells the client that there are `maximum` connections already, and closes.
pub(crate) async fn refuse(mut driver: Driver, maximum: u64) {
    let opened = async {
        loop {
            match driver.next_event().await {
                Ok(Event::Opened(_)) => return true,
                Ok(Event::Closed(_)) | Err(_) => return false,
                Ok(_) => {}
            }
        }
    };
    if !matches!(tokio::time::timeout(PATIENCE, opened).await, Ok(true)) {
        return;
    }
    let reason = Error::new(
        ErrorCondition::RESOURCE_LIMIT_EXCEEDED,
        format!("The namespace has reached its maximum number of connections: {maximum}."),
    );
    driver.connection().close(Some(reason));
    driver.shut_down(FAREWELL).await;
}

/// Clients that are being told at once. Further ones find their socket closed.
pub(crate) const REFUSALS_MAX: u64 = 64;

/// How long a client may take to open the connection that it will not have.
const PATIENCE: Duration = Duration::from_secs(5);

/// How long it may take to read why.
const FAREWELL: Duration = Duration::from_secs(1);
