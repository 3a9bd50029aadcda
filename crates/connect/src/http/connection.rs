//! One connection, and one request over it.

use std::fmt;
use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::task::{Context, Poll};
use std::time::Duration;

use amqp::performative::ErrorCondition;
use amqp_tokio::Stream;
use bytes::Bytes;
use http::header::RETRY_AFTER;
use http::{HeaderMap, Request, StatusCode};
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::body::Incoming;
use hyper::client::conn::http1::{self, Connection, SendRequest};
use hyper_util::rt::TokioIo;

use crate::service::ServiceError;
use crate::service::error::{LOST, PROTOCOL};
use crate::sink::ErrorClass;

/// A connection that is open, as far as is known.
pub(crate) struct HttpConnection {
    requests: SendRequest<Full<Bytes>>,
    connection: Pin<Box<Connection<TokioIo<Stream>, Full<Bytes>>>>,
    is_over: bool,
}

/// Why a request was not granted.
#[derive(Debug)]
pub(crate) struct HttpFailure {
    pub(crate) error: ServiceError,
    /// Whether the service has answered, and has refused.
    pub(crate) is_refused: bool,
    /// Whether the request may have left.
    pub(crate) is_sent: bool,
}

impl HttpConnection {
    /// Speaks HTTP over a stream.
    ///
    /// # Errors
    /// When the stream has ended.
    pub(crate) async fn over(stream: Stream) -> Result<Self, ServiceError> {
        let (requests, connection) = http1::Builder::new()
            .max_buf_size(HEAD_BYTES_MAX)
            .handshake(TokioIo::new(stream))
            .await
            .map_err(|error| ServiceError::of_connection(LOST, error.to_string()))?;
        Ok(Self { requests, connection: Box::pin(connection), is_over: false })
    }

    /// Whether it is of no use any more.
    pub(crate) fn is_over(&self) -> bool {
        self.is_over || self.requests.is_closed()
    }

    /// Sends a request, and waits until it is granted.
    ///
    /// # Errors
    /// When the connection ends, or the service refuses it.
    pub(crate) async fn send(&mut self, request: Request<Full<Bytes>>) -> Result<(), HttpFailure> {
        // What the service has said since the last request: most often that it closes.
        let ready = poll_fn(|context| {
            self.drive(context);
            self.requests.poll_ready(context)
        });
        ready.await.map_err(|error| HttpFailure::of(&error, false))?;
        let mut response = pin!(self.requests.send_request(request));
        let response = poll_fn(|context| {
            if !self.is_over {
                self.is_over = self.connection.as_mut().poll(context).is_ready();
            }
            response.as_mut().poll(context)
        });
        let response = response.await.map_err(|error| HttpFailure::of(&error, !error.is_canceled()))?;
        let (head, body) = response.into_parts();
        let body = self.read(body).await;
        if head.status.is_success() {
            return body.map(drop);
        }
        let detail = body.map(|body| detail(&body)).unwrap_or_default();
        Err(HttpFailure {
            error: refusal(head.status, &head.headers, &detail),
            is_refused: true,
            is_sent: true,
        })
    }

    /// Reads what is short, so that the connection can be used again.
    async fn read(&mut self, body: Incoming) -> Result<Bytes, HttpFailure> {
        let mut collected = pin!(Limited::new(body, BODY_BYTES_MAX).collect());
        let collected = poll_fn(|context| {
            if !self.is_over {
                self.is_over = self.connection.as_mut().poll(context).is_ready();
            }
            collected.as_mut().poll(context)
        });
        match collected.await {
            Ok(collected) => Ok(collected.to_bytes()),
            Err(error) => {
                self.is_over = true;
                let error =
                    ServiceError::of_connection(PROTOCOL, format!("the answer can't be read: {error}"));
                Err(HttpFailure { error, is_refused: false, is_sent: true })
            }
        }
    }

    fn drive(&mut self, context: &mut Context<'_>) {
        if !self.is_over
            && let Poll::Ready(_ended) = self.connection.as_mut().poll(context)
        {
            self.is_over = true;
        }
    }
}

impl HttpFailure {
    fn of(error: &hyper::Error, is_sent: bool) -> Self {
        let error = ServiceError::of_connection(LOST, format!("the connection broke: {error}"));
        Self { error, is_refused: false, is_sent }
    }
}

impl fmt::Debug for HttpConnection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HttpConnection").field("is_over", &self.is_over).finish_non_exhaustive()
    }
}

/// What a status stands for.
fn refusal(status: StatusCode, headers: &HeaderMap, detail: &str) -> ServiceError {
    let description = match detail {
        "" => status.canonical_reason().unwrap_or("without a reason"),
        detail => detail,
    };
    let condition = match status {
        StatusCode::PAYLOAD_TOO_LARGE => Some(ErrorCondition::MESSAGE_SIZE_EXCEEDED.to_string()),
        StatusCode::FORBIDDEN => Some(ErrorCondition::RESOURCE_LIMIT_EXCEEDED.to_string()),
        _ => None,
    };
    let mut error = ServiceError::of_status(i64::from(status.as_u16()), condition, description);
    let asked = headers.get(RETRY_AFTER).and_then(|value| value.to_str().ok()?.trim().parse().ok());
    if let (ErrorClass::Throttled { retry_after }, Some(seconds)) = (&mut error.class, asked) {
        *retry_after = Duration::from_secs(seconds).min(RETRY_AFTER_MAX);
    }
    error
}

/// The service's words in the body of an error.
fn detail(body: &[u8]) -> String {
    let text = String::from_utf8_lossy(body);
    let detail = text.split_once("<Detail>").and_then(|(_, rest)| rest.split_once("</Detail>"));
    detail.map_or_else(String::new, |(detail, _)| detail.trim().to_owned())
}

/// What a response's head may be, in bytes.
const HEAD_BYTES_MAX: usize = 64 * 1024;

/// What a response's body may be, in bytes: it is empty, or says why.
const BODY_BYTES_MAX: usize = 64 * 1024;

/// No service is left alone for longer, whatever it says.
const RETRY_AFTER_MAX: Duration = Duration::from_secs(60);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_status_says_what_can_be_done() {
        let class = |status: u16| {
            let mut headers = HeaderMap::new();
            headers.insert(RETRY_AFTER, "2".parse().unwrap());
            refusal(StatusCode::from_u16(status).unwrap(), &headers, "why").class
        };
        assert_eq!(class(401), ErrorClass::Fatal);
        assert_eq!(class(404), ErrorClass::Fatal);
        assert_eq!(class(413), ErrorClass::TooLarge);
        assert_eq!(class(500), ErrorClass::Retryable);
        assert_eq!(class(503), ErrorClass::Throttled { retry_after: Duration::from_secs(2) });
    }

    #[test]
    fn the_reason_is_the_detail_of_the_error() {
        let body = b"<Error><Code>401</Code><Detail>MalformedToken: why. TrackingId:1</Detail></Error>";
        assert_eq!(detail(body), "MalformedToken: why. TrackingId:1");
        assert_eq!(detail(b"\xff<Detail>"), "");
    }
}
