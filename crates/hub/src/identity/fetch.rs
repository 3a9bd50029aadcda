//! A set of keys over HTTP: one request, bounded in time and size.

use std::error::Error as _;
use std::time::Duration;

use access::token::KeySet;
use bytes::Bytes;
use http_body_util::{BodyExt as _, Empty, Limited};
use hyper::{Request, Uri};
use hyper_rustls::HttpsConnectorBuilder;
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;

use super::config::MAXIMUM_DOCUMENT;

/// The keys that are published at `url`.
///
/// # Errors
/// The issuer can't be reached, or answers something else.
pub(super) async fn fetch(url: &Uri) -> Result<KeySet, String> {
    match tokio::time::timeout(PATIENCE, exchange(url)).await {
        Ok(fetched) => fetched,
        Err(_) => Err(format!("no answer within {PATIENCE:?}")),
    }
}

async fn exchange(url: &Uri) -> Result<KeySet, String> {
    let mut tcp = HttpConnector::new();
    tcp.enforce_http(false);
    let connector = HttpsConnectorBuilder::new()
        .with_tls_config((*trust::client_config(None)?).clone())
        .https_or_http()
        .enable_http1()
        .wrap_connector(tcp);
    // Once an hour: no connection is kept.
    let client = Client::builder(TokioExecutor::new()).pool_max_idle_per_host(0).build(connector);
    let mut request = Request::new(Empty::<Bytes>::new());
    request.uri_mut().clone_from(url);
    let response = client.request(request).await.map_err(|error| match error.source() {
        Some(cause) => format!("{error}: {cause}"),
        None => error.to_string(),
    })?;
    if !response.status().is_success() {
        return Err(format!("the issuer answered {}", response.status()));
    }
    let body = Limited::new(response.into_body(), MAXIMUM_DOCUMENT).collect().await;
    let body = body.map_err(|error| format!("the issuer's answer can't be read: {error}"))?;
    KeySet::parse(&body.to_bytes()).map_err(|error| error.to_string())
}

const PATIENCE: Duration = Duration::from_secs(10);
