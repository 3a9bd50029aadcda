//! One connection, and one request over it.
//!
//! Hot path: a request that is answered at once takes one write and one read, and allocates nothing.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use amqp::performative::ErrorCondition;
use amqp_tokio::Stream;
use rest::chunked;
use rest::head::FIELDS_MAX;
use rest::response::{EMPTY_FIELD, Framing, ResponseHead};
use tokio::io::{AsyncRead as _, AsyncWrite as _, ReadBuf};

use crate::service::ServiceError;
use crate::service::error::{LOST, PROTOCOL};

/// A connection that is open, as far as is known.
#[derive(Debug)]
pub(crate) struct HttpConnection {
    stream: Stream,
    /// How much of the request has left, and whether all of it was pushed out.
    written: usize,
    is_flushed: bool,
    /// What has been read and not yet understood, in memory that is used again.
    input: Vec<u8>,
    filled: usize,
    response: Option<Response>,
    body: Vec<u8>,
    body_max: usize,
    is_over: bool,
    /// What a refusal stands for.
    judge: fn(&Refusal<'_>) -> ServiceError,
}

/// What a service says when it refuses a request.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Refusal<'a> {
    pub(crate) status: u16,
    /// For how long it asks to be left alone.
    pub(crate) retry_after: Option<Duration>,
    /// The service's own name for it, where it has one in the head (`x-ms-error-code`).
    pub(crate) code: Option<&'a str>,
    pub(crate) body: &'a [u8],
}

/// A response of which the head has been read.
#[derive(Debug)]
struct Response {
    status: u16,
    /// For how long the service asks to be left alone.
    retry_after: Option<Duration>,
    /// The service's name for a refusal.
    code: Option<Box<str>>,
    rest: Rest,
    keeps_alive: bool,
}

/// What is to come of a body.
#[derive(Debug)]
enum Rest {
    Bytes(u64),
    Chunks(chunked::Decoder),
    UntilTheEnd,
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
    /// Speaks HTTP over a stream to the REST interface of Event Hubs or Service Bus.
    pub(crate) fn over(stream: Stream) -> Self {
        Self::with_refusals(stream, refusal)
    }

    /// The same to another service, whose refusals stand for what `judge` makes of them.
    pub(crate) fn with_refusals(stream: Stream, judge: fn(&Refusal<'_>) -> ServiceError) -> Self {
        Self {
            stream,
            written: 0,
            is_flushed: false,
            input: vec![0; INPUT_BYTES],
            filled: 0,
            response: None,
            body: Vec::new(),
            body_max: BODY_BYTES_MAX,
            is_over: false,
            judge,
        }
    }

    /// The same where the bodies of responses may be longer.
    #[must_use]
    pub(crate) fn with_longest_body(self, bytes: usize) -> Self {
        Self { body_max: bytes, ..self }
    }

    /// The body of the last response.
    pub(crate) fn body(&self) -> &[u8] {
        &self.body
    }

    /// Whether it is of no use for a further request.
    pub(crate) const fn is_over(&self) -> bool {
        self.is_over
    }

    /// Nothing more is expected of it.
    pub(crate) const fn give_up(&mut self) {
        self.is_over = true;
    }

    /// Sends a request, and is ready when it was granted. The caller polls with the same request until then.
    ///
    /// # Errors
    /// When the connection ends, or the service refuses the request.
    pub(crate) fn poll_exchange(
        &mut self,
        context: &mut Context<'_>,
        request: &[u8],
    ) -> Poll<Result<(), HttpFailure>> {
        if self.written == 0 && self.response.is_none() {
            // What the service has said since the last request: most often that it closes.
            let unasked = self.poll_read(context);
            if let Poll::Ready(read) = unasked {
                let error = match read {
                    Ok(0) => "the service has closed it".to_owned(),
                    Ok(_) => "the service has answered before it was asked".to_owned(),
                    Err(error) => error.to_string(),
                };
                return Poll::Ready(Err(self.broken(&error)));
            }
        }
        let writing = self.poll_write(context, request);
        // The service may answer before it has all of a request, and close.
        let answered = match self.poll_response(context) {
            Poll::Ready(answered) => answered,
            Poll::Pending => {
                return match writing {
                    Poll::Ready(Err(error)) => Poll::Ready(Err(self.broken(&error.to_string()))),
                    _ => Poll::Pending,
                };
            }
        };
        self.is_over |= !matches!(writing, Poll::Ready(Ok(())));
        let granted = answered.map_err(|answer| match writing {
            Poll::Ready(Err(error)) => self.broken(&error.to_string()),
            _ => answer,
        });
        (self.written, self.is_flushed) = (0, false);
        Poll::Ready(granted)
    }

    fn poll_write(&mut self, context: &mut Context<'_>, request: &[u8]) -> Poll<io::Result<()>> {
        while self.written < request.len() {
            let written = ready!(Pin::new(&mut self.stream).poll_write(context, &request[self.written..]))?;
            if written == 0 {
                return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
            }
            self.written += written;
        }
        if !self.is_flushed {
            ready!(Pin::new(&mut self.stream).poll_flush(context))?;
            self.is_flushed = true;
        }
        Poll::Ready(Ok(()))
    }

    /// Reads on: how many bytes have come, none at the end.
    fn poll_read(&mut self, context: &mut Context<'_>) -> Poll<io::Result<usize>> {
        let mut room = ReadBuf::new(&mut self.input[self.filled..]);
        ready!(Pin::new(&mut self.stream).poll_read(context, &mut room))?;
        let read = room.filled().len();
        self.filled += read;
        Poll::Ready(Ok(read))
    }

    /// Reads the response: whether it grants the request.
    fn poll_response(&mut self, context: &mut Context<'_>) -> Poll<Result<(), HttpFailure>> {
        loop {
            match self.understand() {
                Ok(Some(response)) => return Poll::Ready(self.judge(&response)),
                Ok(None) => {}
                Err(what) => {
                    self.is_over = true;
                    let error =
                        ServiceError::of_connection(PROTOCOL, format!("the answer can't be read: {what}"));
                    return Poll::Ready(Err(HttpFailure { error, is_refused: false, is_sent: true }));
                }
            }
            match ready!(self.poll_read(context)) {
                Ok(1..) => {}
                Ok(0) if matches!(&self.response, Some(Response { rest: Rest::UntilTheEnd, .. })) => {
                    self.is_over = true;
                    if let Some(response) = self.response.take() {
                        return Poll::Ready(self.judge(&response));
                    }
                }
                Ok(_) => return Poll::Ready(Err(self.broken("the service has closed it"))),
                Err(error) => return Poll::Ready(Err(self.broken(&error.to_string()))),
            }
        }
    }

    /// Takes apart what has been read: the response, once it is complete.
    fn understand(&mut self) -> Result<Option<Response>, String> {
        while self.response.is_none() {
            if self.filled == 0 {
                return Ok(None);
            }
            let mut fields = [EMPTY_FIELD; FIELDS_MAX];
            let input = &self.input[..self.filled];
            let head = ResponseHead::parse(input, &mut fields).map_err(|error| error.to_string())?;
            let Some(head) = head else {
                return self.make_room().map(|()| None);
            };
            let length = head.length;
            // An interim response says nothing that matters here.
            let is_interim = head.status < 200;
            if !is_interim {
                let retry_after = head.text("retry-after").and_then(|text| text.trim().parse().ok());
                let code = head.text("x-ms-error-code").filter(|_| head.status >= 300);
                self.response = Some(Response {
                    status: head.status,
                    retry_after: retry_after.map(Duration::from_secs),
                    code: code.map(Box::from),
                    rest: match head.framing {
                        Some(Framing::Length(length)) => Rest::Bytes(length),
                        Some(Framing::Chunked) => Rest::Chunks(chunked::Decoder::new(self.body_max)),
                        None => Rest::UntilTheEnd,
                    },
                    keeps_alive: head.keeps_alive,
                });
                self.body.clear();
            }
            self.take(length);
        }
        let input = &self.input[..self.filled];
        let (used, is_done) = match self.response.as_mut().map(|response| &mut response.rest) {
            None => (0, false),
            Some(Rest::Bytes(left)) => {
                let here = usize::try_from(*left).unwrap_or(usize::MAX).min(input.len());
                self.body.extend_from_slice(&input[..here]);
                *left -= here as u64;
                (here, *left == 0)
            }
            Some(Rest::Chunks(decoder)) => {
                let used = decoder.read(input, &mut self.body).map_err(|error| error.to_string())?;
                (used, decoder.is_done())
            }
            Some(Rest::UntilTheEnd) => {
                self.body.extend_from_slice(input);
                (input.len(), false)
            }
        };
        if self.body.len() > self.body_max {
            return Err(format!("it is longer than {} bytes", self.body_max));
        }
        self.take(used);
        Ok(if is_done { self.response.take() } else { None })
    }

    /// Forgets so many bytes at the beginning of what has been read.
    fn take(&mut self, length: usize) {
        self.input.copy_within(length..self.filled, 0);
        self.filled -= length;
    }

    /// Makes room for more of a head.
    fn make_room(&mut self) -> Result<(), String> {
        if self.filled == self.input.len() {
            if self.filled >= HEAD_BYTES_MAX {
                return Err(format!("its head is longer than {HEAD_BYTES_MAX} bytes"));
            }
            self.input.resize(2 * self.filled, 0);
        }
        Ok(())
    }

    fn judge(&mut self, response: &Response) -> Result<(), HttpFailure> {
        // What comes behind a response belongs to no request.
        self.is_over |= !response.keeps_alive || self.filled > 0;
        if (200..300).contains(&response.status) {
            return Ok(());
        }
        let &Response { status, retry_after, ref code, .. } = response;
        let error = (self.judge)(&Refusal { status, retry_after, code: code.as_deref(), body: &self.body });
        Err(HttpFailure { error, is_refused: true, is_sent: true })
    }

    fn broken(&mut self, why: &str) -> HttpFailure {
        self.is_over = true;
        let error = ServiceError::of_connection(LOST, format!("the connection broke: {why}"));
        HttpFailure { error, is_refused: false, is_sent: self.written > 0 }
    }
}

/// What a refusal of the REST interface stands for.
fn refusal(refusal: &Refusal<'_>) -> ServiceError {
    let &Refusal { status, retry_after: asked, body, .. } = refusal;
    let reason = || http::StatusCode::from_u16(status).ok().and_then(|status| status.canonical_reason());
    let detail = detail(body);
    let description = match detail.as_str() {
        "" => reason().unwrap_or("without a reason"),
        detail => detail,
    };
    let condition = match status {
        413 => Some(ErrorCondition::MESSAGE_SIZE_EXCEEDED.to_string()),
        403 => Some(ErrorCondition::RESOURCE_LIMIT_EXCEEDED.to_string()),
        _ => None,
    };
    let mut error = ServiceError::of_status(i64::from(status), condition, description);
    error.wait_as_asked(asked);
    error
}

/// The service's words in the body of an error.
fn detail(body: &[u8]) -> String {
    let text = String::from_utf8_lossy(body);
    let detail = text.split_once("<Detail>").and_then(|(_, rest)| rest.split_once("</Detail>"));
    detail.map_or_else(String::new, |(detail, _)| detail.trim().to_owned())
}

/// What is read at a time at least, in bytes: most responses are a tenth of it.
const INPUT_BYTES: usize = 4 * 1024;

/// What a response's head may be, in bytes.
const HEAD_BYTES_MAX: usize = 64 * 1024;

/// What a response's body may be, in bytes, where it is empty or says why.
const BODY_BYTES_MAX: usize = 64 * 1024;

#[cfg(test)]
mod tests {
    use std::future::poll_fn;

    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, DuplexStream, duplex};

    use super::*;
    use crate::sink::ErrorClass;

    fn pair() -> (HttpConnection, DuplexStream) {
        let (near, far) = duplex(64);
        (HttpConnection::over(Stream::Other(Box::new(near))), far)
    }

    async fn exchange(connection: &mut HttpConnection, request: &[u8]) -> Result<(), HttpFailure> {
        poll_fn(|context| connection.poll_exchange(context, request)).await
    }

    /// Exchanges a request for these bytes, of which so many come at a time; they are the last of the connection if nothing more is said.
    async fn answered_with(response: &'static [u8], step: usize) -> (Result<(), HttpFailure>, bool) {
        let (mut connection, mut far) = pair();
        let request = [b'x'; 200];
        let service = async {
            far.read_exact(&mut [0; 200]).await.unwrap();
            for piece in response.chunks(step) {
                far.write_all(piece).await.unwrap();
            }
            drop(far);
        };
        let (result, ()) = tokio::join!(exchange(&mut connection, &request), service);
        (result, connection.is_over())
    }

    #[tokio::test]
    async fn an_answer_is_read_however_it_is_cut_and_framed() {
        const DETAIL: &[u8] = b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 503 Busy\r\nRetry-After: 2\r\n\
            Content-Length: 24\r\n\r\n<Detail>why it is</Detail>";
        for step in [1, 7, 500] {
            for (response, is_over) in [
                (&b"HTTP/1.1 201 Created\r\nContent-Length: 0\r\n\r\n"[..], false),
                (b"HTTP/1.1 201 Created\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n", false),
                (b"HTTP/1.1 201 Created\r\n\r\nall of it", true),
                (b"HTTP/1.1 201 Created\r\nConnection: close\r\nContent-Length: 2\r\n\r\nok", true),
            ] {
                let (result, over) = answered_with(response, step).await;
                assert!(result.is_ok(), "{result:?}");
                assert_eq!(over, is_over, "{}", String::from_utf8_lossy(response));
            }
            let (result, _) = answered_with(DETAIL, step).await;
            let failure = result.unwrap_err();
            assert!(failure.is_refused && failure.is_sent);
            assert_eq!(failure.error.class, ErrorClass::Throttled { retry_after: Duration::from_secs(2) });
        }
    }

    #[tokio::test]
    async fn what_is_no_answer_or_ends_within_one_may_have_been_granted() {
        for response in [
            &b""[..],
            b"HTTP/1.1 201 Cre",
            b"HTTP/1.1 201 Created\r\nContent-Length: 2\r\n\r\n1",
            b"AMQP\x00\x01\x00\x00",
        ] {
            let (result, is_over) = answered_with(response, 500).await;
            let failure = result.unwrap_err();
            assert!(is_over && failure.is_sent && !failure.is_refused, "{failure:?}");
        }
    }

    #[tokio::test]
    async fn a_connection_that_was_closed_between_two_requests_has_sent_nothing_of_the_second() {
        let (mut connection, mut far) = pair();
        let request = [b'x'; 10];
        let service = async {
            far.read_exact(&mut [0; 10]).await.unwrap();
            far.write_all(b"HTTP/1.1 201 Created\r\nContent-Length: 0\r\n\r\n").await.unwrap();
            far
        };
        let (first, far) = tokio::join!(exchange(&mut connection, &request), service);
        assert!(first.is_ok() && !connection.is_over());
        drop(far);
        let second = exchange(&mut connection, &request).await.unwrap_err();
        assert!(!second.is_sent && connection.is_over(), "{second:?}");
    }

    #[tokio::test]
    async fn a_refusal_counts_though_the_service_did_not_read_all_of_the_request() {
        let (mut connection, mut far) = pair();
        let service = async {
            far.read_exact(&mut [0; 10]).await.unwrap();
            far.write_all(b"HTTP/1.1 413 Too large\r\nContent-Length: 0\r\n\r\n").await.unwrap();
            far
        };
        let (result, _far) = tokio::join!(exchange(&mut connection, &[b'x'; 10_000]), service);
        let failure = result.unwrap_err();
        assert!(failure.is_refused && connection.is_over());
        assert_eq!(failure.error.class, ErrorClass::TooLarge);
    }

    #[test]
    fn a_status_says_what_can_be_done() {
        let class = |status| {
            let retry_after = Some(Duration::from_secs(2));
            refusal(&Refusal { status, retry_after, code: None, body: b"why" }).class
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
