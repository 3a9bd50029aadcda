//! `/metrics` and `/health` of a relay that runs on its own.

use std::future::Future;
use std::sync::Arc;

use axum::Router;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use listen::{Acceptor, serve_http};
use tokio::net::TcpListener;

use super::{MetricsHandle, prometheus};

/// Serves the metrics over HTTP until `shutdown` is ready.
pub async fn serve(
    listener: TcpListener,
    handle: MetricsHandle,
    shutdown: impl Future<Output = ()> + Send + 'static,
) {
    let router = Router::new()
        .route("/metrics", get(metrics))
        .route("/health", get(health))
        .with_state(handle);
    let acceptor = Acceptor::new(listener, "metrics", Arc::default());
    serve_http(acceptor, router, CONNECTIONS_MAX, shutdown).await;
}

async fn metrics(State(handle): State<MetricsHandle>) -> Response {
    match handle.metrics().await {
        Some(metrics) => (
            [(header::CONTENT_TYPE, OPEN_METRICS)],
            prometheus::render(metrics),
        )
            .into_response(),
        None => ended(),
    }
}

/// Healthy is a relay whose loop answers.
async fn health(State(handle): State<MetricsHandle>) -> Response {
    match handle.metrics().await {
        Some(metrics) => {
            format!("ok, {} partitions open\n", metrics.open_partitions).into_response()
        }
        None => ended(),
    }
}

fn ended() -> Response {
    (StatusCode::SERVICE_UNAVAILABLE, "the relay has ended\n").into_response()
}

/// Connections at once; a new one takes the place of the oldest.
const CONNECTIONS_MAX: u64 = 32;

const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::net::TcpStream;
    use tokio::sync::oneshot;

    use super::*;
    use crate::metrics::{Metrics, MetricsRequests};

    async fn asked(listener: &std::net::SocketAddr, path: &str) -> String {
        let mut stream = TcpStream::connect(listener)
            .await
            .expect("somebody listens");
        let request =
            format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
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
        let metrics = asked(&address, "/metrics").await;
        assert!(metrics.starts_with("HTTP/1.1 200"), "{metrics}");
        assert!(
            metrics.contains("content-type: application/openmetrics-text"),
            "{metrics}"
        );
        assert!(
            metrics.contains("parshall_relay_received_events_total 0"),
            "{metrics}"
        );
        let health = asked(&address, "/health").await;
        assert!(
            health.starts_with("HTTP/1.1 200") && health.ends_with("ok, 0 partitions open\n"),
            "{health}"
        );
        relay.await.expect("both were answered");
        assert!(asked(&address, "/health").await.starts_with("HTTP/1.1 503"));
        stop.send(()).expect("the server waits for it");
        server.await.expect("no panic");
    }
}
