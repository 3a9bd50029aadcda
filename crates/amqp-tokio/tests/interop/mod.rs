//! Our driver against `fe2o3-amqp`, an independent implementation, at either end; and against itself over TLS.

mod our_client;
mod our_server;
mod pieces;
mod tls;

use std::future::Future;
use std::time::Duration;

/// Waits for something that must not take long. A deadline only: nothing depends on how long it takes.
async fn soon<F: Future>(future: F) -> F::Output {
    tokio::time::timeout(Duration::from_secs(20), future).await.expect("it does not hang")
}

/// A message body that no frame holds whole.
fn large() -> Vec<u8> {
    (0..300_000u32).map(|index| (index.wrapping_mul(2_654_435_761) >> 13) as u8).collect()
}
