//! A connection that is made again when it broke.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::time::{Instant, Sleep};
use units::mix;

use super::connection::ServiceConnection;
use super::endpoint::Endpoint;
use super::error::{LOST, ServiceError};

/// A connection, or the way to one. Nothing happens without being polled.
pub(crate) struct Reconnecting {
    endpoint: Arc<Endpoint>,
    state: State,
    /// Attempts in a row that failed. A connection that broke counts as one, and where it had not lasted it does not end
    /// the row: one that breaks at once is not made again without a pause that grows.
    failures: u32,
    /// When the connection came up last.
    up_since: Instant,
    /// Why there is no connection.
    outage: Option<ServiceError>,
    /// What the jitter of this connection is drawn from, so that clients that lost theirs together come back one by one.
    jitter: u64,
}

enum State {
    Up(Box<ServiceConnection>),
    Down,
    BackingOff(Pin<Box<Sleep>>),
    Connecting(Connecting),
}

type Connecting = Pin<Box<dyn Future<Output = Result<ServiceConnection, ServiceError>> + Send>>;

impl Reconnecting {
    /// Starts with a connection that is up.
    pub(crate) fn new(endpoint: Arc<Endpoint>, connection: ServiceConnection) -> Self {
        let name = endpoint.container_id.bytes();
        Self {
            jitter: name.fold(0, |hash, byte| mix(hash, u64::from(byte), 0)),
            endpoint,
            state: State::Up(Box::new(connection)),
            failures: 0,
            up_since: Instant::now(),
            outage: None,
        }
    }

    /// The connection, while there is one.
    #[inline]
    pub(crate) fn up(&mut self) -> Option<&mut ServiceConnection> {
        match &mut self.state {
            State::Up(connection) => Some(connection),
            State::Down | State::BackingOff(_) | State::Connecting(_) => None,
        }
    }

    pub(crate) fn endpoint(&self) -> &Endpoint {
        &self.endpoint
    }

    /// Returns the error that keeps the service from being reached, if there is one.
    #[inline]
    pub(crate) fn outage(&self) -> Option<&ServiceError> {
        match &self.state {
            State::Up(connection) => connection.silence(),
            State::Down | State::BackingOff(_) | State::Connecting(_) => self.outage.as_ref(),
        }
    }

    /// The connection is of no more use, or could not be made.
    pub(crate) fn lost(&mut self, error: &ServiceError) {
        if matches!(self.state, State::Up(_)) {
            self.state = State::Down;
            self.failures = match self.up_since.elapsed() >= LASTING {
                true => 1,
                false => self.failures.saturating_add(1),
            };
        }
        self.outage = Some(error.clone());
    }

    /// Ready once the connection is up: at once if it is, else after the delay that is due and an attempt. After a failed
    /// attempt, of which the error tells, the next call begins the next.
    ///
    /// # Errors
    /// When an attempt failed. The last one that the options allow is fatal, and so is one that is not authorised.
    pub(crate) fn poll_up(&mut self, context: &mut Context<'_>) -> Poll<Result<(), ServiceError>> {
        loop {
            match &mut self.state {
                State::Up(_) => return Poll::Ready(Ok(())),
                State::Down if self.failures == 0 => self.connect(),
                State::Down => {
                    let policy = &self.endpoint.options.reconnect;
                    let Some(delay) = policy.delay_after(self.failures, self.jitter) else {
                        let attempts = self.failures;
                        self.failures = 0;
                        return Poll::Ready(Err(ServiceError::fatal(
                            LOST,
                            format!("reconnecting failed {attempts} times in a row"),
                        )));
                    };
                    self.state = State::BackingOff(Box::pin(tokio::time::sleep(delay)));
                }
                State::BackingOff(sleep) => {
                    ready!(sleep.as_mut().poll(context));
                    self.connect();
                }
                State::Connecting(attempt) => match ready!(attempt.as_mut().poll(context)) {
                    Ok(connection) => {
                        self.up_since = Instant::now();
                        self.outage = None;
                        self.state = State::Up(Box::new(connection));
                    }
                    Err(error) => {
                        self.failures = self.failures.saturating_add(1);
                        self.state = State::Down;
                        return Poll::Ready(Err(error.of_working_client()));
                    }
                },
            }
        }
    }

    /// The connection, to be closed in good order, if there is one.
    pub(crate) fn into_connection(self) -> Option<ServiceConnection> {
        match self.state {
            State::Up(connection) => Some(*connection),
            State::Down | State::BackingOff(_) | State::Connecting(_) => None,
        }
    }

    fn connect(&mut self) {
        let endpoint = Arc::clone(&self.endpoint);
        self.state = State::Connecting(Box::pin(ServiceConnection::open(endpoint)));
    }
}

/// A connection that was up for so long had worked.
const LASTING: Duration = Duration::from_secs(10);

impl fmt::Debug for Reconnecting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = match self.state {
            State::Up(_) => "up",
            State::Down => "down",
            State::BackingOff(_) => "backing off",
            State::Connecting(_) => "connecting",
        };
        f.debug_struct("Reconnecting")
            .field("state", &state)
            .field("failures", &self.failures)
            .finish_non_exhaustive()
    }
}
