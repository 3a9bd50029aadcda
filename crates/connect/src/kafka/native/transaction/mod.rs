//! Exactly once, from topic to topic: what is sent, and how far the source was read for it, commit together.
//!
//! ```text
//!   send ─▶ gate ─▶ batches ─▶ acknowledged ─▶ offsets ─▶ end ─▶ outcomes: all of them, or none
//!           │  ▲                                  │        │
//!           ▼  │ partition becomes part           ▼        ▼
//!      coordinator of the transactional id   coordinator   coordinator of the transactional id
//!                                            of the group
//! ```
//!
//! * [`TransactionalSink`] is a sink whose sends have no outcome before their transaction has. What comes while one ends is gathered for
//!   the next.
//! * `gate` holds batches back, `progress` knows what the transaction has of each partition of the source, `coordinators` asks.
//!
//! A transaction begins with the first batch that is to leave. It ends as soon as all that was given is acknowledged and nothing more
//! waits, and takes nothing more up once it has been open for a while. Its end is asked for until it is answered, however long that takes.
//! What can't be sent aborts all of it; the producer goes on in the next epoch then, in which nothing of the old one can be late.

mod coordinators;
mod gate;
mod progress;
mod sink;

use std::time::Duration;

pub(super) use gate::Gate;
pub(crate) use sink::TransactionalSink;

/// What goes with the records of a sink that delivers exactly once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TransactionOptions {
    /// Whose transactions they are. Of two sinks with the same one, the younger one alone goes on.
    pub id: String,
    /// The consumer group whose offsets go with the transactions, in the cluster of the sink.
    pub group: String,
    /// The topic that the offsets are of.
    pub topic: String,
    /// How many partitions that has.
    pub partitions: u32,
    /// How long a transaction takes up what is sent.
    pub interval: Duration,
}

impl TransactionOptions {
    /// As Kafka Streams has it for exactly once (`commit.interval.ms`).
    pub const INTERVAL: Duration = Duration::from_millis(100);
}
