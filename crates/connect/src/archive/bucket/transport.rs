//! HTTP for `object_store`: hyper, and what a request was answered with beside what that crate's errors say of it.
//!
//! Its errors have neither the service's code nor `Retry-After`. So a request can carry an [`Answer`] among its extensions, where the transport
//! writes down how it failed.

use std::io;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use http_body_util::{BodyExt as _, Limited};
use object_store::ClientOptions;
use object_store::client::{
    HttpClient, HttpConnector, HttpError, HttpErrorKind, HttpRequest, HttpRequestBody, HttpResponse,
    HttpResponseBody, HttpService,
};
use rustls::ClientConfig;

use super::refusal;
use crate::http::Refusal;
use crate::hyper_client::{HyperClient, causes, hyper_client};
use crate::service::ServiceError;
use crate::service::error::UNREACHABLE;

/// Makes clients for `object_store`: one for objects, and one for credentials where these are asked for.
#[derive(Debug)]
pub(super) struct HyperConnector {
    pub(super) tls: Arc<ClientConfig>,
    /// How long a request may take that has no content to speak of.
    pub(super) timeout: Duration,
}

impl HttpConnector for HyperConnector {
    fn connect(&self, _options: &ClientOptions) -> object_store::Result<HttpClient> {
        let client = hyper_client(&self.tls, CONNECT_TIMEOUT.min(self.timeout));
        Ok(HttpClient::new(HyperService { client, timeout: self.timeout }))
    }
}

#[derive(Debug)]
struct HyperService {
    client: HyperClient<HttpRequestBody>,
    timeout: Duration,
}

/// How a request failed, if it did.
#[derive(Clone, Debug, Default)]
pub(super) struct Answer(Arc<Mutex<Option<Failure>>>);

/// Why a request failed.
#[derive(Clone, Debug)]
pub(super) struct Failure {
    /// The status that it was refused with; none where no answer came.
    pub(super) status: Option<u16>,
    pub(super) error: ServiceError,
}

impl Answer {
    pub(super) fn take(&self) -> Option<Failure> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    fn set(&self, failure: Failure) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(failure);
    }
}

#[async_trait]
impl HttpService for HyperService {
    async fn call(&self, request: HttpRequest) -> Result<HttpResponse, HttpError> {
        let answer = request.extensions().get::<Answer>().cloned();
        let timeout = self.timeout + time_to_send(request.body().content_length());
        let exchanged = match tokio::time::timeout(timeout, self.exchange(request)).await {
            Ok(exchanged) => exchanged,
            Err(_) => {
                let late = io::Error::new(io::ErrorKind::TimedOut, format!("no reply within {timeout:?}"));
                Err(HttpError::new(HttpErrorKind::Timeout, late))
            }
        };
        if let Some(answer) = answer
            && let Some(failure) = failure(&exchanged)
        {
            answer.set(failure);
        }
        exchanged.map(|response| response.map(HttpResponseBody::from))
    }
}

impl HyperService {
    async fn exchange(&self, request: HttpRequest) -> Result<http::Response<Bytes>, HttpError> {
        let response = self.client.request(request).await.map_err(|error| {
            let kind = match error.is_connect() {
                true => HttpErrorKind::Connect,
                false => HttpErrorKind::Request,
            };
            HttpError::new(kind, error)
        })?;
        let (head, body) = response.into_parts();
        let body = Limited::new(body, LONGEST_REPLY).collect().await;
        let body = body.map_err(|error| HttpError::new_boxed(HttpErrorKind::Decode, error))?;
        Ok(http::Response::from_parts(head, body.to_bytes()))
    }
}

fn failure(exchanged: &Result<http::Response<Bytes>, HttpError>) -> Option<Failure> {
    match exchanged {
        Ok(response) if response.status().is_success() => None,
        Ok(response) => {
            let retry_after = response.headers().get(http::header::RETRY_AFTER);
            let retry_after = retry_after.and_then(|value| value.to_str().ok()?.trim().parse().ok());
            let status = response.status().as_u16();
            let refusal = Refusal {
                status,
                retry_after: retry_after.map(Duration::from_secs),
                code: None,
                body: response.body(),
            };
            Some(Failure { status: Some(status), error: refusal::judge(&refusal) })
        }
        Err(error) => {
            let error = ServiceError::of_connection(UNREACHABLE, causes(error));
            Some(Failure { status: None, error })
        }
    }
}

/// What a request has beside its usual time: a second for each mebibyte that it carries.
fn time_to_send(bytes: usize) -> Duration {
    Duration::from_secs((bytes >> 20) as u64)
}

/// Where there is no service of credentials, nothing answers; who starts a relay waits for no more than this.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// Answers are short: refusals, tokens.
const LONGEST_REPLY: usize = 1 << 20;
