//! What a connection may hold before it has proven itself, and how long it may take for that.
//!
//! Anyone can open a connection. Until it shows a token or a key it gets little, since there may be thousands of such
//! connections and all that they hold has to be paid for by those who belong here. Where nothing is verified, every
//! connection that opens belongs here.

use std::future::Future as _;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, ready};

use amqp::connection::PartialBytes;
use amqp::performative::{Error, ErrorCondition};
use amqp_tokio::Driver;
use listen::Place;
use tokio::time::Sleep;

use crate::front::listener::PROOF_PATIENCE;

/// The bounds on unfinished messages of all connections.
#[derive(Debug)]
pub(crate) struct PartialLimits {
    /// For all connections that have proven nothing.
    pub(crate) unproven: Arc<PartialBytes>,
    /// For all others.
    pub(crate) proven: Arc<PartialBytes>,
    /// For each of these.
    proven_each: usize,
}

/// Whether a connection has proven itself, and what depends on that.
#[derive(Debug)]
pub(crate) struct Proof {
    place: Place,
    limits: Arc<PartialLimits>,
    /// When it must have come; `None` once it has.
    deadline: Option<Pin<Box<Sleep>>>,
    /// Connections whose proof has not come in time.
    overdue: Arc<AtomicU64>,
}

impl PartialLimits {
    /// Bounds for messages of up to `largest_message` bytes.
    pub(crate) fn new(largest_message: usize) -> Self {
        let proven_each = PROVEN_EACH.max(largest_message.saturating_mul(2));
        Self {
            unproven: PartialBytes::new(UNPROVEN_TOTAL),
            proven: PartialBytes::new(PROVEN_TOTAL.max(proven_each.saturating_mul(4))),
            proven_each,
        }
    }
}

impl Proof {
    /// A connection in `place` that has proven nothing yet.
    pub(crate) fn new(place: Place, limits: Arc<PartialLimits>, overdue: Arc<AtomicU64>) -> Self {
        Self { place, limits, overdue, deadline: Some(Box::pin(tokio::time::sleep(PROOF_PATIENCE))) }
    }

    /// The connection belongs here: it may hold what a client needs, for as long as it likes.
    pub(super) fn show(&mut self, driver: &mut Driver) {
        if self.deadline.take().is_none() {
            return;
        }
        self.place.prove();
        let shared = Arc::clone(&self.limits.proven);
        driver.connection().set_partial_bytes(self.limits.proven_each, Some(shared));
        driver.set_output_high_water(None);
    }

    /// Ready with what the client is told when the proof has not come in time.
    pub(super) fn poll_overdue(&mut self, cx: &mut Context<'_>) -> Poll<Error> {
        let Some(deadline) = &mut self.deadline else {
            return Poll::Pending;
        };
        ready!(deadline.as_mut().poll(cx));
        self.overdue.fetch_add(1, Ordering::Relaxed);
        let text = format!(
            "Unauthorized access. The connection has presented no token within {} milliseconds.",
            PROOF_PATIENCE.as_millis()
        );
        Poll::Ready(Error::new(ErrorCondition::CONNECTION_FORCED, text))
    }

    /// Whether there was none yet.
    pub(super) const fn is_missing(&self) -> bool {
        self.deadline.is_some()
    }

    /// Bytes of replies that may wait before the client's requests do.
    pub(super) const fn replies_bytes(&self) -> usize {
        match self.deadline {
            Some(_) => UNPROVEN_REPLIES,
            None => PROVEN_REPLIES,
        }
    }

    /// Bytes of replies that may wait before the connection is closed: the client has sent requests without credit, or many at once that
    /// have long replies.
    pub(super) fn replies_bytes_max(&self) -> usize {
        match self.deadline {
            Some(_) => UNPROVEN_EACH,
            None => self.limits.proven_each,
        }
    }
}

/// What a connection holds of unfinished messages before its proof: a request of the largest size, twice.
pub(crate) const UNPROVEN_EACH: usize = 128 * 1024;

/// All such connections together.
const UNPROVEN_TOTAL: usize = 16 * 1024 * 1024;

/// Output that may wait for a connection that has proven nothing before its input is left alone.
pub(crate) const UNPROVEN_OUTPUT: usize = 64 * 1024;

/// What a connection holds of unfinished messages after its proof: sixteen events of the largest size.
const PROVEN_EACH: usize = 16 * 1024 * 1024;

/// All such connections together: hundreds of events on their way over slow lines.
const PROVEN_TOTAL: usize = 256 * 1024 * 1024;

/// Replies that may wait for a client, over all its links, before its requests get no credit.
const PROVEN_REPLIES: usize = 256 * 1024;

/// The same before its proof.
const UNPROVEN_REPLIES: usize = 64 * 1024;
