//! `/metrics` and `/health` of a relay that runs on its own.

use std::future::Future;

use axum::Router;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use tokio::net::TcpListener;

use super::{MetricsHandle, prometheus};

/// Serves the metrics over HTTP until `shutdown` is ready.
///
/// # Errors
/// When the listener fails.
pub async fn serve(
    listener: TcpListener,
    handle: MetricsHandle,
    shutdown: impl Future<Output = ()> + Send + 'static,
) -> std::io::Result<()> {
    let router = Router::new()
        .route("/metrics", get(metrics))
        .route("/health", get(health))
        .with_state(handle);
    axum::serve(listener, router)
        .with_graceful_shutdown(shutdown)
        .await
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

const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";
