//! Requests to a collector: one after the other, over a connection that stays open.

use std::fmt;
use std::io::Write as _;
use std::time::Duration;

use bytes::Bytes;
use flate2::Compression;
use flate2::write::GzEncoder;
use http::header::{CONTENT_ENCODING, CONTENT_TYPE, HeaderMap, HeaderValue, RETRY_AFTER, USER_AGENT};
use http::{Method, Request, StatusCode};
use http_body_util::{BodyExt as _, Full, Limited};
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::{TokioExecutor, TokioTimer};

use crate::options::Collector;
use crate::otlp;

/// Sends to one place.
#[derive(Debug)]
pub(crate) struct CollectorClient {
    collector: Collector,
    client: Client<HttpsConnector<HttpConnector>, Full<Bytes>>,
}

/// Why a request came to nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ExportError {
    /// Whether the same again can succeed, and how long the collector asks to be left alone before that.
    pub(crate) retry: Option<Duration>,
    reason: String,
}

impl ExportError {
    /// The process ends, and does not wait for an answer.
    pub(crate) fn out_of_time() -> Self {
        passing("there was no time left".to_owned())
    }
}

impl fmt::Display for ExportError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.reason)
    }
}

impl CollectorClient {
    /// A client for a collector. Nothing is connected yet.
    ///
    /// # Errors
    /// The certificates that are to be trusted can't be read.
    pub(crate) fn new(collector: Collector) -> Result<Self, String> {
        // Certificates are read only where they are needed.
        let authorities = match collector.url.scheme_str() {
            Some("https") => trust::client_config(collector.certificate_authority.as_deref())?,
            _ => trust::without_authorities()?,
        };
        let mut tcp = HttpConnector::new();
        tcp.enforce_http(false);
        tcp.set_nodelay(true);
        tcp.set_connect_timeout(Some(collector.timeout));
        let connector = HttpsConnectorBuilder::new()
            .with_tls_config((*authorities).clone())
            .https_or_http()
            .enable_http1()
            .wrap_connector(tcp);
        let client = Client::builder(TokioExecutor::new())
            .pool_timer(TokioTimer::new())
            .pool_idle_timeout(IDLE)
            .pool_max_idle_per_host(1)
            .build(connector);
        Ok(Self { collector, client })
    }

    /// Where it sends to.
    pub(crate) fn place(&self) -> String {
        self.collector.place()
    }

    /// Exports a request. Says how much of it the collector did not take, and why, if that was not all.
    pub(crate) async fn export(&self, request: Vec<u8>) -> Result<Option<(u64, String)>, ExportError> {
        match tokio::time::timeout(self.collector.timeout, self.exchange(request)).await {
            Ok(outcome) => outcome,
            Err(_) => Err(passing(format!("no answer within {:?}", self.collector.timeout))),
        }
    }

    async fn exchange(&self, body: Vec<u8>) -> Result<Option<(u64, String)>, ExportError> {
        let mut request = Request::new(Full::default());
        *request.method_mut() = Method::POST;
        request.uri_mut().clone_from(&self.collector.url);
        let headers = request.headers_mut();
        headers.clone_from(&self.collector.headers);
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/x-protobuf"));
        headers.insert(USER_AGENT, HeaderValue::from_static(PROGRAM));
        let body = match self.collector.gzip {
            true => {
                headers.insert(CONTENT_ENCODING, HeaderValue::from_static("gzip"));
                gzipped(&body)
            }
            false => body,
        };
        *request.body_mut() = Full::new(body.into());
        let response = self.client.request(request).await.map_err(|error| passing(causes(&error)))?;
        let (head, body) = response.into_parts();
        let body = Limited::new(body, LONGEST_ANSWER).collect().await;
        match head.status {
            status if status.is_success() => {
                // What was accepted stays so, whatever comes of the rest of the answer.
                Ok(body.ok().and_then(|body| otlp::rejected(&body.to_bytes())))
            }
            status => Err(ExportError {
                retry: is_passing(status).then(|| asked_for(&head.headers)),
                reason: format!("it answered {status}"),
            }),
        }
    }
}

/// What may be over soon.
fn passing(reason: String) -> ExportError {
    ExportError { retry: Some(Duration::ZERO), reason }
}

/// Statuses after which a request may be made again, as OTLP has it.
fn is_passing(status: StatusCode) -> bool {
    matches!(
        status,
        StatusCode::TOO_MANY_REQUESTS
            | StatusCode::BAD_GATEWAY
            | StatusCode::SERVICE_UNAVAILABLE
            | StatusCode::GATEWAY_TIMEOUT
    )
}

/// How long the collector asks to be left alone, if it does so in seconds.
fn asked_for(headers: &HeaderMap) -> Duration {
    let seconds = headers.get(RETRY_AFTER).and_then(|seconds| seconds.to_str().ok()?.trim().parse().ok());
    Duration::from_secs(seconds.unwrap_or(0)).min(LONGEST_PAUSE)
}

/// An error with what it is due to.
fn causes(error: &dyn std::error::Error) -> String {
    let causes = std::iter::successors(Some(error), |error| error.source());
    causes.map(ToString::to_string).collect::<Vec<_>>().join(": ")
}

fn gzipped(body: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::with_capacity(body.len() / 4), Compression::fast());
    encoder.write_all(body).and_then(|()| encoder.finish()).expect("memory takes everything")
}

const PROGRAM: &str = concat!("parshall/", env!("CARGO_PKG_VERSION"));

/// Connections are kept for the next export of metrics, if those come once a minute.
const IDLE: Duration = Duration::from_secs(90);

/// Answers are short; nobody needs more of one.
const LONGEST_ANSWER: usize = 64 << 10;

/// No collector may ask for more.
const LONGEST_PAUSE: Duration = Duration::from_secs(60);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_collector_says_when_to_come_again() {
        let mut headers = HeaderMap::new();
        assert_eq!(asked_for(&headers), Duration::ZERO);
        for (text, seconds) in [("7", 7), ("86400", 60), ("soon", 0)] {
            headers.insert(RETRY_AFTER, HeaderValue::from_static(text));
            assert_eq!(asked_for(&headers), Duration::from_secs(seconds), "{text}");
        }
    }

    #[test]
    fn nothing_secret_is_in_the_name_of_the_place() {
        let collector = Collector {
            url: http::Uri::from_static("http://collector:1/v1/traces?key=secret"),
            ..Collector::default()
        };
        let client = CollectorClient::new(collector).expect("no certificates are needed");
        assert_eq!(client.place(), "http://collector:1/v1/traces");
    }
}
