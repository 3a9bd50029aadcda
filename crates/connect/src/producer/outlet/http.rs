//! The REST interface of a hub, queue or topic: a connection with one request under way at a time, made again when it broke.

use std::fmt;
use std::io::Write as _;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::time::Instant;

use crate::alarm::Alarm;
use crate::http::{BATCH_TYPE, HttpConnection, HttpFailure, Token};
use crate::producer::lane::{Place, Run};
use crate::producer::rest;
use crate::service::error::{LOST, TIMEOUT};
use crate::service::{ClientOptions, Endpoint, ServiceError};
use crate::sink::{ErrorClass, SendError, SendOutcome, SendToken, SinkBusy};

/// See the module.
pub(crate) struct HttpOutlet {
    requests: Requests,
    /// The request that is under way, in memory that is used again.
    request: Vec<u8>,
    state: State,
    outcomes: Vec<SendOutcome>,
    outage: Option<ServiceError>,
    failures: u32,
    /// When the next connection may be made.
    not_before: Option<Instant>,
    alarm: Alarm,
}

enum State {
    /// The connection, unless there is none.
    Idle(Option<HttpConnection>),
    /// A connection is being made for the request.
    Connecting(SendToken, Opening),
    Busy(Exchange),
}

type Opening = Pin<Box<dyn Future<Output = Result<HttpConnection, ServiceError>> + Send>>;

struct Exchange {
    token: SendToken,
    connection: HttpConnection,
    /// Whether the connection was made for this request.
    is_fresh: bool,
    /// Until when the answer is waited for.
    deadline: Instant,
}

/// Requests to one entity.
#[derive(Clone)]
pub(crate) struct Requests {
    destination: Arc<Destination>,
    token: Token,
    /// What they begin with: to the entity itself, and to the partition that was last sent to.
    to_entity: Vec<u8>,
    to_partition: Option<(u32, Vec<u8>)>,
}

/// Where requests go.
#[derive(Debug)]
struct Destination {
    endpoint: Arc<Endpoint>,
    host: String,
    entity: String,
}

impl Requests {
    pub(crate) fn to(options: ClientOptions) -> Result<Self, ServiceError> {
        let endpoint = Endpoint::for_http(options)?;
        let (host, port) = (&endpoint.address.host, endpoint.address.port);
        if !host.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err(ServiceError::fatal("connection:address", "the host can't be in a request"));
        }
        let host = if host.contains(':') { format!("[{host}]:{port}") } else { format!("{host}:{port}") };
        let entity = percent_encoding::utf8_percent_encode(&endpoint.options.entity, PATH).to_string();
        Ok(Self {
            destination: Arc::new(Destination { endpoint, host, entity }),
            token: Token::default(),
            to_entity: Vec::new(),
            to_partition: None,
        })
    }

    /// Sees to it that there is a valid token, where one is to be asked for.
    ///
    /// # Errors
    /// There is none.
    pub(crate) async fn ask_for_token(&mut self) -> Result<(), ServiceError> {
        self.token.ask(&self.destination.endpoint).await
    }

    pub(crate) fn endpoint(&self) -> &Arc<Endpoint> {
        &self.destination.endpoint
    }

    /// Writes a request with one event.
    pub(crate) fn write_event(&mut self, out: &mut Vec<u8>, place: &Place, encoded: &[u8]) {
        let (fields, body) = rest::alone(encoded);
        self.begin(out, place);
        out.extend_from_slice(fields);
        end_head(out, body.len());
        out.extend_from_slice(body);
    }

    /// Writes a request with several.
    fn write_batch(&mut self, out: &mut Vec<u8>, run: &Run) {
        self.begin(out, &run.place);
        out.extend_from_slice(b"Content-Type: ");
        out.extend_from_slice(BATCH_TYPE.as_bytes());
        out.extend_from_slice(b"\r\n");
        // Each event has a bracket or comma before it, and the last one a bracket behind it.
        let length: usize = run.events().map(|event| event.len() + 1).sum();
        end_head(out, length + 1);
        let mut separator = b'[';
        for event in run.events() {
            out.push(separator);
            separator = b',';
            out.extend_from_slice(event);
        }
        out.push(b']');
    }

    /// Writes the lines that all requests to a place have in common.
    fn begin(&mut self, out: &mut Vec<u8>, place: &Place) {
        if self.token.renew(&self.destination.endpoint) {
            self.to_entity.clear();
            self.to_partition = None;
        }
        out.clear();
        let lines = match place {
            Place::Entity | Place::Key(_) => {
                if self.to_entity.is_empty() {
                    self.to_entity = self.destination.lines(&self.token, None);
                }
                &self.to_entity
            }
            Place::Partition(partition) => {
                let known = self.to_partition.take().filter(|(known, _)| known == partition);
                let lines = known
                    .unwrap_or_else(|| (*partition, self.destination.lines(&self.token, Some(*partition))));
                &self.to_partition.insert(lines).1
            }
        };
        out.extend_from_slice(lines);
    }
}

impl Destination {
    fn lines(&self, token: &Token, partition: Option<u32>) -> Vec<u8> {
        let Self { host, entity, .. } = self;
        let partition = partition.map_or_else(String::new, |partition| format!("/partitions/{partition}"));
        format!(
            "POST /{entity}{partition}/messages?timeout=60&api-version=2014-01 HTTP/1.1\r\nHost: {host}\r\n\
             Authorization: {}\r\n",
            token.text()
        )
        .into()
    }
}

fn end_head(out: &mut Vec<u8>, length: usize) {
    // Memory takes everything.
    let _ = write!(out, "Content-Length: {length}\r\n\r\n");
}

impl HttpOutlet {
    pub(super) async fn connect(options: ClientOptions) -> Result<Self, ServiceError> {
        let mut requests = Requests::to(options)?;
        requests.token.follow(&requests.destination.endpoint).await?;
        let connection = open(requests.endpoint(), None).await?;
        Ok(Self {
            requests,
            request: Vec::new(),
            state: State::Idle(Some(connection)),
            outcomes: Vec::new(),
            outage: None,
            failures: 0,
            not_before: None,
            alarm: Alarm::new(),
        })
    }

    pub(super) const fn max_bytes(&self) -> usize {
        BODY_BYTES_MAX
    }

    /// Sends the first event of a run. Hot path.
    pub(super) fn send_event(&mut self, token: SendToken, run: &Run) -> Result<(), SinkBusy> {
        let connection = self.take_idle()?;
        self.requests.write_event(&mut self.request, &run.place, run.first());
        self.exchange(token, connection);
        Ok(())
    }

    pub(super) fn send_batch(&mut self, token: SendToken, run: &Run) -> Result<(), SinkBusy> {
        let connection = self.take_idle()?;
        self.requests.write_batch(&mut self.request, run);
        self.exchange(token, connection);
        Ok(())
    }

    fn take_idle(&mut self) -> Result<Option<HttpConnection>, SinkBusy> {
        match &mut self.state {
            State::Idle(connection) => Ok(connection.take().filter(|connection| !connection.is_over())),
            State::Connecting(..) | State::Busy(_) => Err(SinkBusy),
        }
    }

    fn exchange(&mut self, token: SendToken, connection: Option<HttpConnection>) {
        self.state = match connection {
            Some(connection) => State::Busy(Exchange::begin(token, connection, false)),
            None => State::Connecting(token, self.open()),
        };
    }

    fn open(&mut self) -> Opening {
        let (endpoint, not_before) = (Arc::clone(self.requests.endpoint()), self.not_before.take());
        Box::pin(async move { open(&endpoint, not_before).await })
    }

    pub(super) fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), ServiceError>> {
        self.drive(context);
        match self.state {
            State::Idle(_) => Poll::Ready(Ok(())),
            State::Connecting(..) | State::Busy(_) => Poll::Pending,
        }
    }

    pub(super) fn poll_outcomes(
        &mut self,
        context: &mut Context<'_>,
        outcomes: &mut Vec<SendOutcome>,
    ) -> Poll<Result<(), ServiceError>> {
        self.drive(context);
        crate::sink::hand_over(&mut self.outcomes, outcomes).map(Ok)
    }

    /// Goes on with the request that is under way.
    fn drive(&mut self, context: &mut Context<'_>) {
        loop {
            match &mut self.state {
                State::Idle(_) => return,
                State::Connecting(token, opening) => {
                    let token = *token;
                    match opening.as_mut().poll(context) {
                        Poll::Pending => return,
                        Poll::Ready(Ok(connection)) => {
                            self.state = State::Busy(Exchange::begin(token, connection, true));
                        }
                        Poll::Ready(Err(error)) => {
                            let failure = HttpFailure { error, is_refused: false, is_sent: false };
                            return self.end(token, None, Err(failure));
                        }
                    }
                }
                State::Busy(exchange) => {
                    let Poll::Ready(result) = exchange.poll(context, &self.request, &mut self.alarm) else {
                        return;
                    };
                    let (token, is_fresh) = (exchange.token, exchange.is_fresh);
                    let State::Busy(exchange) = std::mem::replace(&mut self.state, State::Idle(None)) else {
                        return;
                    };
                    // One that the service had closed in the meantime is replaced, since nothing has left.
                    if !is_fresh && result.as_ref().is_err_and(|failure| !failure.is_sent) {
                        self.state = State::Connecting(token, self.open());
                        continue;
                    }
                    let connection = Some(exchange.connection).filter(|connection| !connection.is_over());
                    return self.end(token, connection, result);
                }
            }
        }
    }

    fn end(&mut self, token: SendToken, connection: Option<HttpConnection>, result: Result<(), HttpFailure>) {
        let is_connected = connection.is_some();
        self.state = State::Idle(connection);
        match &result {
            Err(failure) if !is_connected && !failure.is_refused => {
                self.failures = self.failures.saturating_add(1);
                let policy = &self.requests.endpoint().options.reconnect;
                let delay = policy.delay_after(self.failures, token.0).unwrap_or(policy.max_delay);
                self.not_before = Some(Instant::now() + delay);
                self.outage = Some(failure.error.clone());
            }
            _ => (self.failures, self.outage) = (0, None),
        }
        let result = result.map_err(|HttpFailure { error, is_refused, is_sent }| {
            let error = match (is_refused, is_sent) {
                (true, _) | (false, true) => error,
                (false, false) => ServiceError { class: NOT_SENT, ..error },
            };
            Box::new(SendError::from(error))
        });
        self.outcomes.push(SendOutcome { token, result });
    }

    pub(super) const fn outage(&self) -> Option<&ServiceError> {
        self.outage.as_ref()
    }
}

impl Exchange {
    fn begin(token: SendToken, connection: HttpConnection, is_fresh: bool) -> Self {
        Self { token, connection, is_fresh, deadline: Instant::now() + ANSWER_PATIENCE }
    }

    fn poll(
        &mut self,
        context: &mut Context<'_>,
        request: &[u8],
        alarm: &mut Alarm,
    ) -> Poll<Result<(), HttpFailure>> {
        if let ready @ Poll::Ready(_) = self.connection.poll_exchange(context, request) {
            return ready;
        }
        while Instant::now() < self.deadline {
            ready!(alarm.poll(context, Some(self.deadline)));
        }
        self.connection.give_up();
        let what = format!("there was no answer within {ANSWER_PATIENCE:?}");
        let error = ServiceError::of_connection(TIMEOUT, what);
        Poll::Ready(Err(HttpFailure { error, is_refused: false, is_sent: true }))
    }
}

async fn open(endpoint: &Endpoint, not_before: Option<Instant>) -> Result<HttpConnection, ServiceError> {
    if let Some(instant) = not_before {
        tokio::time::sleep_until(instant).await;
    }
    let limit = endpoint.options.connect_timeout;
    let opened = tokio::time::timeout(limit, endpoint.dial()).await.unwrap_or_else(|_elapsed| {
        Err(ServiceError::of_connection(LOST, format!("there was no connection within {limit:?}")))
    });
    opened.map(HttpConnection::over)
}

impl fmt::Debug for HttpOutlet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HttpOutlet").field("outage", &self.outage).finish_non_exhaustive()
    }
}

impl fmt::Debug for Requests {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Requests").field("destination", &self.destination).finish_non_exhaustive()
    }
}

/// What did not leave: it can go again without a wait, and the service does not have it.
const NOT_SENT: ErrorClass = ErrorClass::Throttled { retry_after: Duration::ZERO };

/// What the service takes in one request, in bytes, less what it counts for the event around the body.
const BODY_BYTES_MAX: usize = 1024 * 1024 - 4 * 1024;

/// As long as requests ask the service to take at most.
const ANSWER_PATIENCE: Duration = Duration::from_secs(60);

/// What is escaped in the path of a request: all but what is usual in names of entities, and the slashes between them.
const PATH: &percent_encoding::AsciiSet = &percent_encoding::NON_ALPHANUMERIC
    .remove(b'/')
    .remove(b'-')
    .remove(b'_')
    .remove(b'.')
    .remove(b'~')
    .remove(b'$');
