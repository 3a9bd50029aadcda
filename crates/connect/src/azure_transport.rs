//! HTTP for the official clients of blobs and of identities: hyper, and the rustls that everything else here uses.
//!
//! The clients' own transport would bring a second HTTP client with its own choice of cryptography. What checkpoint stores and
//! credentials need is little: short requests, short replies, connections that stay open, and an end to waiting.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use azure_core::error::{Error, ErrorKind};
use azure_core::http::headers::{HeaderName, HeaderValue, Headers};
use azure_core::http::{AsyncRawResponse, Body, HttpClient, Request, StatusCode};
use bytes::Bytes;
use http::header::DATE;
use http_body_util::{BodyExt as _, Full, Limited};
use rustls::ClientConfig;
use units::date::parse_http_date;

use crate::hyper_client::{HyperClient, hyper_client};
use crate::server_clock::ServerClock;

/// Sends requests over connections that it keeps.
#[derive(Clone, Debug)]
pub(crate) struct HyperTransport {
    client: HyperClient<Full<Bytes>>,
    timeout: Duration,
    /// Learns the server's time from each reply.
    clock: Option<Arc<ServerClock>>,
}

impl HyperTransport {
    /// A transport whose requests take no longer than `timeout`. Certificates are read only where TLS is used.
    pub(crate) fn new(
        tls: bool,
        certificate_authority: Option<&Path>,
        timeout: Duration,
    ) -> Result<Self, String> {
        let tls = match tls {
            true => trust::client_config(certificate_authority)?,
            false => trust::without_authorities()?,
        };
        Ok(Self::trusting(&tls, timeout))
    }

    /// A transport that trusts these authorities.
    pub(crate) fn trusting(tls: &ClientConfig, timeout: Duration) -> Self {
        Self { client: hyper_client(tls, timeout), timeout, clock: None }
    }

    /// Returns the transport that also tells `clock` the date of each reply.
    pub(crate) fn with_clock(self, clock: Arc<ServerClock>) -> Self {
        Self { clock: Some(clock), ..self }
    }

    async fn exchange(&self, request: &Request) -> Result<AsyncRawResponse, Error> {
        let response = self.client.request(to_http(request)?).await.map_err(|error| {
            let kind = match error.is_connect() {
                true => ErrorKind::Connection,
                false => ErrorKind::Io,
            };
            Error::with_error(kind, error, "the request could not be made")
        })?;
        let (head, body) = response.into_parts();
        if let Some(clock) = &self.clock
            && let Some(date) = head.headers.get(DATE).and_then(|date| parse_http_date(date.to_str().ok()?))
        {
            clock.note(date, request.url().host_str().unwrap_or_default());
        }
        let mut headers = Headers::new();
        for (name, value) in &head.headers {
            // Nothing that a store needs is beyond ASCII.
            if let Ok(value) = value.to_str() {
                headers
                    .insert(HeaderName::from(name.as_str().to_owned()), HeaderValue::from(value.to_owned()));
            }
        }
        let body = Limited::new(body, LONGEST_REPLY).collect().await;
        let body =
            body.map_err(|error| Error::with_error(ErrorKind::Io, error, "the reply could not be read"))?;
        let status = StatusCode::from(head.status.as_u16());
        Ok(AsyncRawResponse::from_bytes(status, headers, body.to_bytes()))
    }
}

#[async_trait]
impl HttpClient for HyperTransport {
    async fn execute_request(&self, request: &Request) -> Result<AsyncRawResponse, Error> {
        match tokio::time::timeout(self.timeout, self.exchange(request)).await {
            Ok(outcome) => outcome,
            Err(_) => Err(Error::with_message(ErrorKind::Io, format!("no reply within {:?}", self.timeout))),
        }
    }
}

fn to_http(request: &Request) -> Result<http::Request<Full<Bytes>>, Error> {
    let Body::Bytes(body) = request.body().clone() else {
        return Err(Error::with_message(ErrorKind::Other, "bodies of unknown length are not supported"));
    };
    let mut builder = http::Request::builder().method(request.method().as_ref()).uri(request.url().as_str());
    for (name, value) in request.headers().iter() {
        builder = builder.header(name.as_str(), value.as_str());
    }
    builder
        .body(Full::new(body))
        .map_err(|error| Error::with_error(ErrorKind::Other, error, "the request can't be written"))
}

/// A page of a listing has at most 5,000 blobs, of some 700 bytes each.
const LONGEST_REPLY: usize = 16 << 20;
