//! Accepting through failures.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::net::{TcpListener, TcpStream};

/// Accepts the connections of one listener.
#[derive(Debug)]
pub struct Acceptor {
    listener: TcpListener,
    /// What is spoken there, for the log.
    protocol: &'static str,
    failures: Arc<AcceptFailures>,
    /// How long to wait after the failure that lasts; `None` while there is none.
    pause: Option<Duration>,
}

/// Failures to accept, counted over any number of listeners.
#[derive(Debug, Default)]
pub struct AcceptFailures {
    count: AtomicU64,
    /// Listeners whose last attempt failed.
    failing: AtomicU64,
}

impl AcceptFailures {
    /// Attempts that failed since the start.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.count.load(Ordering::Relaxed)
    }

    /// Whether some listener cannot accept connections now.
    #[must_use]
    pub fn is_failing(&self) -> bool {
        self.failing.load(Ordering::Relaxed) > 0
    }
}

impl Acceptor {
    /// Accepts what connects to `listener`, where `protocol` is spoken.
    #[must_use]
    pub const fn new(listener: TcpListener, protocol: &'static str, failures: Arc<AcceptFailures>) -> Self {
        Self { listener, protocol, failures, pause: None }
    }

    /// The next connection. Failures are logged when they begin and when they are over, and waited out in between.
    ///
    /// May be dropped and called again: no connection is lost by that.
    pub async fn accept(&mut self) -> (TcpStream, SocketAddr) {
        loop {
            match self.listener.accept().await {
                Ok(accepted) => {
                    self.succeeded();
                    return accepted;
                }
                // The client went away before its turn came.
                Err(error) if error.kind() == io::ErrorKind::ConnectionAborted => {}
                Err(error) => {
                    let pause = self.failed(&error);
                    tokio::time::sleep(pause).await;
                }
            }
        }
    }

    fn failed(&mut self, error: &io::Error) -> Duration {
        self.failures.count.fetch_add(1, Ordering::Relaxed);
        let pause = match self.pause {
            None => {
                self.failures.failing.fetch_add(1, Ordering::Relaxed);
                tracing::warn!(
                    protocol = self.protocol,
                    %error,
                    "connections can't be accepted; open ones continue"
                );
                FIRST_PAUSE
            }
            Some(pause) => (pause * 2).min(LONGEST_PAUSE),
        };
        self.pause = Some(pause);
        pause
    }

    fn succeeded(&mut self) {
        if self.pause.take().is_some() {
            self.failures.failing.fetch_sub(1, Ordering::Relaxed);
            tracing::info!(protocol = self.protocol, "connections are accepted again");
        }
    }
}

impl Drop for Acceptor {
    fn drop(&mut self) {
        if self.pause.is_some() {
            self.failures.failing.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

/// After the first failure; twice as long after each further one.
const FIRST_PAUSE: Duration = Duration::from_millis(50);

/// Descriptors that are free again are noticed after this time at most.
const LONGEST_PAUSE: Duration = Duration::from_secs(1);
