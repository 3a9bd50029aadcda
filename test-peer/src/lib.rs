//! AMQP peers for tests: what a test connects to the code that it is about.
//!
//! * [`Client`] keeps to the protocol, waits for every answer under a deadline, and keeps what arrives meanwhile.
//! * [`QueueClient`](queue_client::QueueClient) is one of queues, which receives with peek-lock.
//! * [`RawClient`] has the socket in its own hands and writes any bytes.
//! * [`service`] is the other side: what a scripted service needs to accept connections and links and to answer requests.
//!
//! Everything panics where a test should fail.
#![expect(clippy::unwrap_used, reason = "what panics in a test fails it, and says where")]

mod client;
pub mod queue_client;
mod raw_client;
mod received;
pub mod service;

use std::future::Future;
use std::time::Duration;

pub use client::{Client, status_and_description};
pub use raw_client::{RawClient, frame};
pub use received::{Received, payload};

/// What `future` gives, which must come within [`PATIENCE`].
///
/// # Panics
/// When it does not come; `what` says what is missing.
pub async fn within<T>(what: &str, future: impl Future<Output = T>) -> T {
    tokio::time::timeout(PATIENCE, future).await.unwrap_or_else(|_elapsed| panic!("{what} did not come"))
}

/// How long a test waits before it gives up, on however slow a machine.
pub const PATIENCE: Duration = Duration::from_secs(20);
