//! A connection to one broker: requests go out one behind the other, and are answered in that order.
//!
//! ```text
//!   submit ──▶ output: pieces, none of them copied ──▶ socket
//!   tag    ──▶ under way ◀── answers, by their order ── receive buffer ◀── socket
//! ```
//!
//! Whoever asks gives a tag of its own with the request and gets it back with the answer. Nothing happens without being polled:
//! there is no task, channel or lock.

use std::collections::VecDeque;
use std::fmt;
use std::future::poll_fn;
use std::io::{self, IoSlice};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use amqp_tokio::{Spoken, Stream};
use bytes::{Buf as _, Bytes};
use kafka::ApiKey;
use kafka::frame;
use kafka::messages::api_versions::ApiVersionsResponse;
use kafka::messages::sasl;
use kafka::read::Reader;
use kafka::write::Writer;
use tokio::io::{AsyncReadExt as _, AsyncWrite as _};
use tokio::time::{Instant, Sleep};

use super::endpoint::Endpoint;
use super::error::malformed;
use super::login;
use super::receive_buffer::ReceiveBuffer;
use crate::identity::{BearerToken, FollowedToken};
use crate::service::ServiceError;
use crate::service::error::{LOST, NEEDS_TLS, NO_ANSWER, PROTOCOL, TIMEOUT};

/// A connection on which requests of a client with tags `T` are under way.
pub(super) struct Connection<T> {
    endpoint: Arc<Endpoint>,
    stream: Stream,
    input: ReceiveBuffer,
    output: VecDeque<Bytes>,
    /// Bytes in the output.
    output_length: usize,
    /// All bytes that were ever put into it.
    submitted: u64,
    flush_due: bool,
    under_way: VecDeque<Request<T>>,
    next_correlation_id: i32,
    pub(super) supported: ApiVersionsResponse,
    /// The tokens of the identity that has logged in.
    bearer: Option<FollowedToken>,
    has_answered: bool,
    timer: Pin<Box<Sleep>>,
    /// What the timer is set to, until it has fired.
    armed: Option<Instant>,
}

struct Request<T> {
    correlation_id: i32,
    key: ApiKey,
    version: i16,
    /// When it has to be over.
    deadline: Instant,
    end: End,
    /// None for the requests by which the connection logs in again.
    tag: Option<T>,
}

/// What ends a request.
#[derive(Clone, Copy)]
enum End {
    /// Its answer.
    Answered,
    /// That so many bytes have been written, if no answer follows.
    Written { through: u64 },
}

/// A request that is over.
#[derive(Debug)]
pub(super) enum Done<T> {
    /// The broker has answered.
    Answered(T, Answer),
    /// It is written, and no answer follows.
    Written(T),
}

/// What a broker has answered.
#[derive(Debug)]
pub(super) struct Answer {
    pub(super) key: ApiKey,
    pub(super) version: i16,
    /// The frame without its size.
    pub(super) frame: Bytes,
    /// Where the body begins in it.
    body: usize,
}

impl Answer {
    /// The body.
    pub(super) fn reader(&self) -> Reader<'_> {
        Reader::new(&self.frame[self.body..], self.key.is_flexible(self.version))
    }
}

impl<T> Connection<T> {
    /// A connection on a stream, on which nothing was said yet.
    pub(super) fn new(endpoint: Arc<Endpoint>, stream: Stream) -> Self {
        Self {
            endpoint,
            stream,
            input: ReceiveBuffer::default(),
            output: VecDeque::new(),
            output_length: 0,
            submitted: 0,
            flush_due: false,
            under_way: VecDeque::new(),
            next_correlation_id: 0,
            supported: ApiVersionsResponse {
                error: kafka::ErrorCode::None,
                supported: Vec::new(),
                throttle_time_ms: 0,
            },
            bearer: None,
            has_answered: false,
            timer: Box::pin(tokio::time::sleep(Duration::ZERO)),
            armed: None,
        }
    }

    /// The same connection for requests with other tags.
    ///
    /// # Panics
    /// When requests are under way.
    pub(super) fn retagged<U>(self) -> Connection<U> {
        assert!(self.under_way.is_empty(), "no request is under way");
        Connection {
            endpoint: self.endpoint,
            stream: self.stream,
            input: self.input,
            output: self.output,
            output_length: self.output_length,
            submitted: self.submitted,
            flush_due: self.flush_due,
            under_way: VecDeque::new(),
            next_correlation_id: self.next_correlation_id,
            supported: self.supported,
            bearer: self.bearer,
            has_answered: self.has_answered,
            timer: self.timer,
            armed: self.armed,
        }
    }

    /// The newest version of a request that the broker takes, of those from `oldest` to `newest`.
    ///
    /// # Errors
    /// There is none.
    pub(super) fn version(&self, key: ApiKey, oldest: i16, newest: i16) -> Result<i16, ServiceError> {
        self.supported.newest(key, &(oldest..=newest)).ok_or_else(|| {
            let what = format!("the broker does not take {key:?} in the versions {oldest} to {newest}");
            ServiceError::fatal(UNSUPPORTED, what)
        })
    }

    /// From now on the connection logs in again whenever there is a newer token.
    pub(super) fn keep_logged_in(&mut self, bearer: FollowedToken) {
        self.bearer = Some(bearer);
    }

    /// Logs in again if there is a newer token: the broker ends the connection with the one before (KIP-368).
    #[inline]
    fn log_in_again(&mut self) {
        if let Some(bearer) = &mut self.bearer
            && let Some(token) = bearer.changed()
        {
            self.submit_login(&token);
        }
    }

    #[cold]
    fn submit_login(&mut self, token: &BearerToken) {
        let message = login::bearer_message(token);
        let newest = self.version(ApiKey::SaslAuthenticate, 0, login::AUTHENTICATE_NEWEST);
        // It has logged in before, so the broker knows a version.
        let Ok(version) = newest else { return };
        self.submit_own(ApiKey::SaslHandshake, 1, |writer| {
            sasl::write_handshake_request(writer, login::BEARER);
        });
        self.submit_own(ApiKey::SaslAuthenticate, version, |writer| {
            sasl::write_authenticate_request(writer, message.as_bytes());
        });
    }

    /// How many requests are under way.
    pub(super) fn under_way(&self) -> usize {
        self.under_way.len()
    }

    /// Returns the time at which the oldest request is late, long before it is given up; `None` if nothing is under way.
    pub(super) fn late_at(&self) -> Option<Instant> {
        // What the broker may wait by itself comes on top of the time for an answer.
        let timeout = self.patience();
        self.under_way.front().map(|request| request.deadline - timeout + timeout / 3)
    }

    /// How many bytes wait for the socket.
    pub(super) const fn output_length(&self) -> usize {
        self.output_length
    }

    /// Begins a request: its header, behind which the body is to be written. [`submit`](Self::submit) ends it.
    pub(super) fn begin(&mut self, memory: Vec<u8>, key: ApiKey, version: i16) -> Writer {
        self.log_in_again();
        self.begin_next(memory, key, version)
    }

    fn begin_next(&self, memory: Vec<u8>, key: ApiKey, version: i16) -> Writer {
        let client_id = Some(self.endpoint.settings.client_id.as_str());
        frame::begin_request(memory, key, version, self.next_correlation_id, client_id)
    }

    /// Submits a request of the connection itself.
    fn submit_own(&mut self, key: ApiKey, version: i16, body: impl FnOnce(&mut Writer)) {
        let mut writer = self.begin_next(Vec::new(), key, version);
        body(&mut writer);
        let mut bytes = writer.finish();
        frame::end(&mut bytes, 0, 0);
        let patience = self.patience();
        self.enqueue(key, version, Some(patience), None, [Bytes::from(bytes)]);
    }

    /// Submits a request in one piece, to be answered within `patience`.
    pub(super) fn submit_whole(
        &mut self,
        key: ApiKey,
        version: i16,
        patience: Duration,
        tag: T,
        body: impl FnOnce(&mut Writer),
    ) {
        let mut writer = self.begin(Vec::new(), key, version);
        body(&mut writer);
        let mut bytes = writer.finish();
        frame::end(&mut bytes, 0, 0);
        self.submit(key, version, Some(patience), tag, [Bytes::from(bytes)]);
    }

    /// Submits the request that was begun last, in pieces, the first of which begins with its size. Without `patience`, no
    /// answer follows.
    pub(super) fn submit(
        &mut self,
        key: ApiKey,
        version: i16,
        patience: Option<Duration>,
        tag: T,
        pieces: impl IntoIterator<Item = Bytes>,
    ) {
        self.enqueue(key, version, patience, Some(tag), pieces);
    }

    fn enqueue(
        &mut self,
        key: ApiKey,
        version: i16,
        patience: Option<Duration>,
        tag: Option<T>,
        pieces: impl IntoIterator<Item = Bytes>,
    ) {
        for piece in pieces {
            self.output_length += piece.len();
            self.submitted += piece.len() as u64;
            self.output.push_back(piece);
        }
        let deadline = Instant::now() + patience.unwrap_or_else(|| self.patience());
        let end = match patience {
            Some(_) => End::Answered,
            None => End::Written { through: self.submitted },
        };
        let correlation_id = self.next_correlation_id;
        self.next_correlation_id = correlation_id.wrapping_add(1);
        self.under_way.push_back(Request { correlation_id, key, version, deadline, end, tag });
    }

    /// Writes what there is, and reads until a request is over.
    ///
    /// # Errors
    /// The connection is of no more use.
    pub(super) fn poll_done(&mut self, context: &mut Context<'_>) -> Poll<Result<Done<T>, ServiceError>> {
        loop {
            let written = self.poll_write(context);
            if let Poll::Ready(Err(error)) = written {
                return Poll::Ready(Err(self.broken(&error)));
            }
            if let Some(Request { end: End::Written { through }, .. }) = self.under_way.front()
                && *through <= self.submitted - self.output_length as u64
                && let Some(Request { tag: Some(tag), .. }) = self.under_way.pop_front()
            {
                return Poll::Ready(Ok(Done::Written(tag)));
            }
            if let Some(frame) = self.next_frame()? {
                match self.answer(frame)? {
                    (Some(tag), answer) => return Poll::Ready(Ok(Done::Answered(tag, answer))),
                    (None, answer) => login::check_again(&answer)?,
                }
                continue;
            }
            let read = self.stream.read_buf(self.input.with_room());
            match pin!(read).poll(context) {
                Poll::Ready(Ok(0)) => return Poll::Ready(Err(self.closed())),
                Poll::Ready(Ok(_)) => {}
                Poll::Ready(Err(error)) => return Poll::Ready(Err(self.broken(&error))),
                Poll::Pending => {
                    ready!(self.poll_deadline(context));
                    let what = match self.output.is_empty() {
                        true => format!("a broker did not answer within {:?}", self.patience()),
                        false => format!("a broker did not read within {:?}", self.patience()),
                    };
                    return Poll::Ready(Err(ServiceError::of_connection(TIMEOUT, what)));
                }
            }
        }
    }

    /// The tags of what is under way, in order, for a connection that is of no more use.
    pub(super) fn into_tags(self) -> impl Iterator<Item = T> {
        self.under_way.into_iter().filter_map(|request| request.tag)
    }

    fn patience(&self) -> Duration {
        self.endpoint.settings.request_timeout
    }

    fn next_frame(&mut self) -> Result<Option<Bytes>, ServiceError> {
        self.input.next_frame().map_err(|error| match Spoken::of(self.input.unfinished()) {
            // It has spoken Kafka before: this is damage, whatever it looks like.
            _ if self.has_answered => ServiceError::of_connection(PROTOCOL, error.to_string()),
            Some(Spoken::Tls) => {
                ServiceError::fatal(NEEDS_TLS, "the broker answers with TLS, not with Kafka")
            }
            Some(spoken @ (Spoken::Amqp | Spoken::Http)) => {
                let what = format!("there is no broker: the answer is {spoken}, not Kafka");
                ServiceError::fatal(PROTOCOL, what)
            }
            Some(Spoken::Kafka) | None => ServiceError::of_connection(PROTOCOL, error.to_string()),
        })
    }

    fn answer(&mut self, frame: Bytes) -> Result<(Option<T>, Answer), ServiceError> {
        // Some brokers answer even requests that expect no answer. The request stays under way until its answer is known to be one:
        // a connection that breaks here gives back its tag with the others.
        let waits = |request: &&Request<T>| matches!(request.end, End::Answered);
        let Some(request) = self.under_way.front().filter(waits) else {
            return Err(ServiceError::of_connection(PROTOCOL, "the broker answers what was not asked"));
        };
        let (key, version) = (request.key, request.version);
        let (correlation_id, body) = frame::read_response(&frame, key, version).map_err(malformed)?;
        if correlation_id != request.correlation_id {
            return Err(ServiceError::of_connection(PROTOCOL, "the broker answers out of order"));
        }
        let tag = self.under_way.pop_front().and_then(|request| request.tag);
        let body = frame.len() - body.rest().len();
        self.has_answered = true;
        Ok((tag, Answer { key, version, frame, body }))
    }

    fn broken(&self, error: &io::Error) -> ServiceError {
        match self.has_answered {
            true => ServiceError::of_connection(LOST, format!("the connection broke: {error}")),
            false => self.closed(),
        }
    }

    fn closed(&self) -> ServiceError {
        if self.has_answered {
            return ServiceError::of_connection(LOST, "the broker closed the connection");
        }
        let what = "the broker closed the connection without an answer; it may expect TLS or a login (security.protocol)";
        ServiceError::of_connection(NO_ANSWER, what)
    }

    /// Ready when the request that is due first is overdue.
    fn poll_deadline(&mut self, context: &mut Context<'_>) -> Poll<()> {
        let Some(Request { deadline, .. }) = self.under_way.front() else {
            return Poll::Pending;
        };
        loop {
            // Each answer moves the deadline on; the timer is only moved when it fires too early.
            if self.armed.is_none_or(|armed| *deadline < armed) {
                self.armed = Some(*deadline);
                self.timer.as_mut().reset(*deadline);
            }
            ready!(self.timer.as_mut().poll(context));
            self.armed = None;
            if *deadline <= Instant::now() {
                return Poll::Ready(());
            }
        }
    }

    fn poll_write(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        while !self.output.is_empty() {
            let mut slices = [IoSlice::new(&[]); PIECES_MAX];
            let count = self.output.len().min(PIECES_MAX);
            for (slice, piece) in slices.iter_mut().zip(&self.output) {
                *slice = IoSlice::new(piece);
            }
            let stream = Pin::new(&mut self.stream);
            let length = ready!(match count {
                1 => stream.poll_write(context, &self.output[0]),
                _ => stream.poll_write_vectored(context, &slices[..count]),
            })?;
            if length == 0 {
                return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
            }
            self.consume(length);
            self.flush_due = true;
        }
        if self.flush_due {
            ready!(Pin::new(&mut self.stream).poll_flush(context))?;
            self.flush_due = false;
        }
        Poll::Ready(Ok(()))
    }

    fn consume(&mut self, mut length: usize) {
        self.output_length -= length;
        while let Some(first) = self.output.front_mut() {
            if length < first.len() {
                first.advance(length);
                return;
            }
            length -= first.len();
            self.output.pop_front();
        }
    }
}

impl Connection<()> {
    /// Asks, and waits for the answer, with nothing else under way.
    ///
    /// # Errors
    /// There is none, or the connection ends.
    pub(super) async fn ask(
        &mut self,
        key: ApiKey,
        version: i16,
        body: impl FnOnce(&mut Writer),
    ) -> Result<Answer, ServiceError> {
        self.ask_within(key, version, self.patience(), body).await
    }

    /// The same, for an answer that may take so long.
    ///
    /// # Errors
    /// As with [`ask`](Self::ask).
    pub(super) async fn ask_within(
        &mut self,
        key: ApiKey,
        version: i16,
        patience: Duration,
        body: impl FnOnce(&mut Writer),
    ) -> Result<Answer, ServiceError> {
        self.submit_whole(key, version, patience, (), body);
        match poll_fn(|context| self.poll_done(context)).await? {
            Done::Answered((), answer) => Ok(answer),
            Done::Written(()) => Err(ServiceError::of_connection(PROTOCOL, "a request without an answer")),
        }
    }
}

impl<T> fmt::Debug for Connection<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Connection")
            .field("under_way", &self.under_way.len())
            .field("output_length", &self.output_length)
            .finish_non_exhaustive()
    }
}

/// The broker has no version of a request that the client has.
const UNSUPPORTED: &str = "UNSUPPORTED_VERSION";

/// Pieces of output that are written by one call.
const PIECES_MAX: usize = 64;

#[cfg(test)]
mod tests;
