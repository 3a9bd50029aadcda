//! The REST interface of a hub, queue or topic: a connection with one request under way at a time, made again when it broke.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http::header::{AUTHORIZATION, CONTENT_TYPE, HOST};
use http::{HeaderName, HeaderValue, Request};
use http_body_util::Full;
use tokio::time::Instant;

use crate::http::{BATCH_TYPE, EVENT_TYPE, HttpConnection, HttpFailure, Token};
use crate::producer::lane::{Place, Run};
use crate::producer::rest;
use crate::service::error::{LOST, TIMEOUT};
use crate::service::{ClientOptions, Endpoint, ServiceError};
use crate::sink::{ErrorClass, SendError, SendOutcome, SendToken, SinkBusy};

/// See the module.
pub(crate) struct HttpOutlet {
    requests: Arc<Requests>,
    token: Token,
    state: State,
    outcomes: Vec<SendOutcome>,
    outage: Option<ServiceError>,
    failures: u32,
    /// When the next connection may be made.
    not_before: Option<Instant>,
}

enum State {
    /// The connection, unless there is none.
    Idle(Option<HttpConnection>),
    Busy(SendToken, Exchange),
}

type Exchange = Pin<Box<dyn Future<Output = Exchanged> + Send>>;
type Exchanged = (Option<HttpConnection>, Result<(), HttpFailure>);

/// What requests to one entity have in common.
#[derive(Debug)]
pub(crate) struct Requests {
    pub(crate) endpoint: Arc<Endpoint>,
    host: HeaderValue,
    entity: String,
}

impl Requests {
    pub(crate) fn to(options: ClientOptions) -> Result<Arc<Self>, ServiceError> {
        let endpoint = Endpoint::for_http(options)?;
        let invalid =
            |what| ServiceError::fatal("connection:address", format!("{what} can't be in a request"));
        let (host, port) = (&endpoint.address.host, endpoint.address.port);
        let host = if host.contains(':') { format!("[{host}]:{port}") } else { format!("{host}:{port}") };
        let host = HeaderValue::from_str(&host).map_err(|_| invalid("the host"))?;
        let entity = percent_encoding::utf8_percent_encode(&endpoint.options.entity, PATH).to_string();
        Ok(Arc::new(Self { endpoint, host, entity }))
    }

    fn request(&self, token: &mut Token, place: &Place, content_type: HeaderValue) -> http::request::Builder {
        let path = match place {
            Place::Partition(partition) => format!("/{}/partitions/{partition}/messages", self.entity),
            Place::Entity | Place::Key(_) => format!("/{}/messages", self.entity),
        };
        Request::post(format!("{path}?timeout=60&api-version=2014-01"))
            .header(HOST, self.host.clone())
            .header(AUTHORIZATION, token.header(&self.endpoint))
            .header(CONTENT_TYPE, content_type)
    }

    /// A request with one event.
    pub(crate) fn of_event(&self, token: &mut Token, place: &Place, encoded: &[u8]) -> Request<Full<Bytes>> {
        let (headers, body) = rest::alone(encoded);
        let mut request = self.request(token, place, HeaderValue::from_static(EVENT_TYPE));
        if let Some(given) = request.headers_mut() {
            for (name, value) in headers {
                // They were seen to be headers when the event was encoded.
                let header =
                    HeaderName::from_bytes(name.as_bytes()).ok().zip(HeaderValue::from_str(value).ok());
                if let Some((name, value)) = header {
                    given.insert(name, value);
                }
            }
        }
        request.body(Full::new(Bytes::copy_from_slice(body))).expect("all parts of it are valid")
    }

    fn of_batch(&self, token: &mut Token, run: &Run) -> Request<Full<Bytes>> {
        let mut body = Vec::with_capacity(run.bytes().len() + run.remaining() + 2);
        for event in run.events() {
            body.push(if body.is_empty() { b'[' } else { b',' });
            body.extend_from_slice(event);
        }
        body.push(b']');
        let request = self.request(token, &run.place, HeaderValue::from_static(BATCH_TYPE));
        request.body(Full::new(body.into())).expect("all parts of it are valid")
    }
}

impl HttpOutlet {
    pub(super) async fn connect(options: ClientOptions) -> Result<Self, ServiceError> {
        let requests = Requests::to(options)?;
        let limit = requests.endpoint.options.connect_timeout;
        let connection = open(&requests.endpoint, limit).await?;
        Ok(Self {
            requests,
            token: Token::default(),
            state: State::Idle(Some(connection)),
            outcomes: Vec::new(),
            outage: None,
            failures: 0,
            not_before: None,
        })
    }

    pub(super) const fn max_bytes(&self) -> usize {
        BODY_BYTES_MAX
    }

    pub(super) fn send_event(&mut self, token: SendToken, run: &Run) -> Result<(), SinkBusy> {
        let connection = self.take_idle()?;
        let request = self.requests.of_event(&mut self.token, &run.place, run.first());
        self.exchange(token, connection, request);
        Ok(())
    }

    pub(super) fn send_batch(&mut self, token: SendToken, run: &Run) -> Result<(), SinkBusy> {
        let connection = self.take_idle()?;
        let request = self.requests.of_batch(&mut self.token, run);
        self.exchange(token, connection, request);
        Ok(())
    }

    fn take_idle(&mut self) -> Result<Option<HttpConnection>, SinkBusy> {
        match &mut self.state {
            State::Idle(connection) => Ok(connection.take().filter(|connection| !connection.is_over())),
            State::Busy(..) => Err(SinkBusy),
        }
    }

    fn exchange(
        &mut self,
        token: SendToken,
        connection: Option<HttpConnection>,
        request: Request<Full<Bytes>>,
    ) {
        let requests = Arc::clone(&self.requests);
        let not_before = self.not_before.take();
        let exchange = async move { exchange(&requests.endpoint, not_before, connection, request).await };
        self.state = State::Busy(token, Box::pin(exchange));
    }

    pub(super) fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), ServiceError>> {
        self.drive(context);
        match self.state {
            State::Idle(_) => Poll::Ready(Ok(())),
            State::Busy(..) => Poll::Pending,
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

    fn drive(&mut self, context: &mut Context<'_>) {
        let State::Busy(token, exchange) = &mut self.state else { return };
        let Poll::Ready((connection, result)) = exchange.as_mut().poll(context) else { return };
        let token = *token;
        let is_connected = connection.is_some();
        self.state = State::Idle(connection);
        match &result {
            Err(failure) if !is_connected && !failure.is_refused => {
                self.failures = self.failures.saturating_add(1);
                let policy = &self.requests.endpoint.options.reconnect;
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

/// Sends a request over the connection that there is, or a new one. One that the service had closed in the meantime is replaced, if the
/// request is certain not to have left.
async fn exchange(
    endpoint: &Endpoint,
    not_before: Option<Instant>,
    connection: Option<HttpConnection>,
    request: Request<Full<Bytes>>,
) -> Exchanged {
    let limit = endpoint.options.connect_timeout;
    if let Some(mut connection) = connection {
        match within(connection.send(request.clone())).await {
            Err(failure) if !failure.is_sent => {}
            sent => return (Some(connection).filter(|connection| is_usable(connection, &sent)), sent),
        }
    }
    if let Some(instant) = not_before {
        tokio::time::sleep_until(instant).await;
    }
    match open(endpoint, limit).await {
        Err(error) => (None, Err(HttpFailure { error, is_refused: false, is_sent: false })),
        Ok(mut connection) => {
            let sent = within(connection.send(request)).await;
            (Some(connection).filter(|connection| is_usable(connection, &sent)), sent)
        }
    }
}

/// Whether the next request can go over the connection: the answer to this one has been read.
fn is_usable(connection: &HttpConnection, sent: &Result<(), HttpFailure>) -> bool {
    !connection.is_over() && sent.as_ref().map_or_else(|failure| failure.is_refused, |()| true)
}

/// An answer that does not come is not waited for for ever.
async fn within(sending: impl Future<Output = Result<(), HttpFailure>>) -> Result<(), HttpFailure> {
    tokio::time::timeout(ANSWER_PATIENCE, sending).await.unwrap_or_else(|_elapsed| {
        let error =
            ServiceError::of_connection(TIMEOUT, format!("there was no answer within {ANSWER_PATIENCE:?}"));
        Err(HttpFailure { error, is_refused: false, is_sent: true })
    })
}

async fn open(endpoint: &Endpoint, limit: Duration) -> Result<HttpConnection, ServiceError> {
    let opening = async { HttpConnection::over(endpoint.dial().await?).await };
    tokio::time::timeout(limit, opening).await.unwrap_or_else(|_elapsed| {
        Err(ServiceError::of_connection(LOST, format!("there was no connection within {limit:?}")))
    })
}

impl fmt::Debug for HttpOutlet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HttpOutlet").field("outage", &self.outage).finish_non_exhaustive()
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
