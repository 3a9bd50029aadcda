//! Requests to the address that a running process has for health, metrics and its time (`serve --http`, `metrics:` of a pipeline).

use std::error::Error;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::{Request, StatusCode, Uri};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use thiserror::Error;

use crate::exit::with_causes;

/// Error of a request that was not answered.
#[derive(Debug, Error)]
pub(crate) enum AskError {
    /// The process can't be reached.
    #[error("{0}")]
    Unreachable(String),
    /// The answer is longer than [`ANSWER_MAX`], ends early or is no text.
    #[error("the answer with status {0} can't be read")]
    Unreadable(StatusCode),
}

/// Sends a request and returns status and text of the answer. A connection is established within `connect_timeout`.
///
/// # Errors
/// The process can't be reached, or its answer can't be read.
pub(crate) async fn ask(
    request: Request<Full<Bytes>>,
    connect_timeout: Duration,
) -> Result<(StatusCode, String), AskError> {
    let mut connector = HttpConnector::new();
    connector.set_connect_timeout(Some(connect_timeout));
    let client: Client<_, Full<Bytes>> = Client::builder(TokioExecutor::new()).build(connector);
    let unreachable = |error: &dyn Error| AskError::Unreachable(with_causes(error));
    let response = client.request(request).await.map_err(|error| unreachable(&error))?;
    let status = response.status();
    let unreadable = || AskError::Unreadable(status);
    let body =
        Limited::new(response.into_body(), ANSWER_MAX).collect().await.map_err(|_error| unreadable())?;
    let text = String::from_utf8(body.to_bytes().into()).map_err(|_error| unreadable())?;
    Ok((status, text))
}

/// Parses a URL of HTTP with a host. Such an address has no TLS.
pub(crate) fn parse_url(text: &str) -> Option<Uri> {
    let url = text.parse::<Uri>().ok()?;
    (url.scheme_str() == Some("http") && url.host().is_some()).then_some(url)
}

/// Address of `parshall serve` without arguments.
pub(crate) const SERVICE_URL: &str = "http://127.0.0.1:5300";

/// Maximum size of an answer, in bytes.
const ANSWER_MAX: usize = 64 * 1024;
