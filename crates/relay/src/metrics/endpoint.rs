//! `/metrics`, `/health` and `/ready` of a relay that runs on its own.
//!
//! `/health` is about the process: it is 200 while the relay's loop answers, whatever its services do, since starting it anew
//! would not help. `/ready` is about its work: 503 with the reasons while events can't be carried.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use hyper::StatusCode;
use hyper::header::{ACCEPT, HeaderMap};
use hyper::http::request::Parts;
use listen::Acceptor;
use listen::http::{Page, serve_pages};
use tokio::net::TcpListener;

use super::{Metrics, MetricsHandle, prometheus};

/// Serves the metrics over HTTP until `shutdown` is ready.
pub async fn serve(
    listener: TcpListener,
    handle: MetricsHandle,
    shutdown: impl Future<Output = ()> + Send + 'static,
) {
    let page = move |head: Parts| {
        let handle = handle.clone();
        async move {
            match head.uri.path() {
                "/metrics" => Some(metrics(&handle).await),
                "/health" => Some(health(&handle).await),
                "/ready" => Some(ready(&handle, &head.headers).await),
                _ => None,
            }
        }
    };
    let acceptor = Acceptor::new(listener, "metrics", Arc::default());
    serve_pages(acceptor, page, CONNECTIONS_MAX, shutdown).await;
}

async fn metrics(handle: &MetricsHandle) -> Page {
    asked(handle).await.map_or_else(ended, |metrics| Page::metrics(prometheus::render(metrics)))
}

/// A relay is healthy if its loop answers.
async fn health(handle: &MetricsHandle) -> Page {
    let healthy =
        |metrics: Metrics| Page::plain(format!("ok, {} partitions open\n", metrics.open_partitions));
    asked(handle).await.map_or_else(ended, healthy)
}

/// A relay is ready if it carries events, as far as there are any.
async fn ready(handle: &MetricsHandle, headers: &HeaderMap) -> Page {
    let Some(Metrics { health, .. }) = asked(handle).await else {
        return ended();
    };
    let status = match health.is_ready() {
        true => StatusCode::OK,
        false => StatusCode::SERVICE_UNAVAILABLE,
    };
    let accepts = headers.get(ACCEPT).and_then(|accepts| accepts.to_str().ok());
    let page = match accepts.is_some_and(|accepts| accepts.contains("application/json")) {
        true => Page::json(super::health::json(&health)),
        false => Page::plain(super::health::text(&health)),
    };
    page.with_status(status)
}

/// The metrics, unless the relay has ended or its loop stands still.
async fn asked(handle: &MetricsHandle) -> Option<Metrics> {
    tokio::time::timeout(PATIENCE, handle.metrics()).await.ok().flatten()
}

fn ended() -> Page {
    Page::plain("the relay has exited or does not answer\n").with_status(StatusCode::SERVICE_UNAVAILABLE)
}

/// A loop that does not answer for so long stands still.
const PATIENCE: Duration = Duration::from_secs(10);

/// Connections at once; a new one takes the place of the oldest.
const CONNECTIONS_MAX: u64 = 32;

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::net::TcpStream;
    use tokio::sync::oneshot;

    use super::*;
    use crate::metrics::MetricsRequests;

    async fn fetched(listener: &std::net::SocketAddr, path: &str) -> String {
        let mut stream = TcpStream::connect(listener).await.expect("somebody listens");
        let request = format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).await.expect("sent");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.expect("answered");
        answer
    }

    #[tokio::test]
    async fn metrics_and_health_are_served_while_the_relay_answers_and_not_after() {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let address = listener.local_addr().expect("bound");
        let mut requests = MetricsRequests::new();
        let (stop, stopped) = oneshot::channel::<()>();
        let shutdown = async { _ = stopped.await };
        let server = tokio::spawn(serve(listener, requests.handle(), shutdown));
        let relay = tokio::spawn(async move {
            for _ in 0..2 {
                let request = requests.receiver.recv().await.expect("a reader asks");
                _ = request.send(Metrics::new());
            }
        });
        let metrics = fetched(&address, "/metrics").await;
        assert!(metrics.starts_with("HTTP/1.1 200"), "{metrics}");
        assert!(metrics.contains("content-type: application/openmetrics-text"), "{metrics}");
        assert!(metrics.contains("parshall_relay_received_events_total 0"), "{metrics}");
        let health = fetched(&address, "/health").await;
        assert!(
            health.starts_with("HTTP/1.1 200") && health.ends_with("ok, 0 partitions open\n"),
            "{health}"
        );
        relay.await.expect("both were answered");
        assert!(fetched(&address, "/health").await.starts_with("HTTP/1.1 503"));
        stop.send(()).expect("the server waits for it");
        server.await.expect("no panic");
    }
}
