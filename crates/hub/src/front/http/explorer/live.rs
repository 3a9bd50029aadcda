//! Responses that go on until the client leaves or the service stops.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::{mpsc, watch};
use tokio::time::Instant;

use super::overview::Overview;
use super::reply::{self, Reply};

/// The overview, again and again.
pub(super) fn overview(overview: Arc<Overview>, stop: watch::Receiver<bool>) -> Reply {
    let (events, reply) = reply::events();
    run(stop, async move {
        loop {
            let started = Instant::now();
            let text = overview.get().await;
            let took = started.elapsed();
            let event = [&b"event: overview\ndata: "[..], &text[..], b"\n\n"].concat();
            if events.send(event.into()).await.is_err() {
                return;
            }
            // However large the namespace is, its overview takes at most a hundredth of a core.
            if !pause(&events, OVERVIEW_PERIOD.max(took * 100)).await {
                return;
            }
        }
    });
    reply
}

/// Runs `work` until it ends or the service stops.
pub(super) fn run(mut stop: watch::Receiver<bool>, work: impl Future<Output = ()> + Send + 'static) {
    tokio::spawn(async move {
        tokio::select! {
            () = work => {}
            _ = stop.wait_for(|stop| *stop) => {}
        }
    });
}

/// Waits, unless the client leaves meanwhile. Whether it is still there.
pub(super) async fn pause(events: &mpsc::Sender<Bytes>, duration: Duration) -> bool {
    tokio::select! {
        () = tokio::time::sleep(duration) => true,
        () = events.closed() => false,
    }
}

/// The shortest time between two overviews.
const OVERVIEW_PERIOD: Duration = Duration::from_secs(1);
