//! Event Hubs over the Kafka protocol, as Kafka's clients speak it: topics are hubs.
//!
//! One task per connection reads requests, does them in their order, and answers in their order. Requests to produce may
//! follow one another before the first is answered; a request to fetch may wait for events, and everything behind it waits
//! with it, as in Kafka.
//!
//! * `connection` is that task: frames in, answers out.
//! * `requests` says which requests there are, in which versions, and who may ask them.
//! * `session` is who the client is, and `shaping` what the service profile makes of what it sends.
//! * `operations` are what a client may do, in Kafka's words, and `refused` what it was refused.
//! * `kept_answer` is an answer that waits until what it tells is on disk.
//! * `output` is what leaves: bytes of ours and, between them, batches in the memory of the log.
//! * `group_requests` are what members and operators of consumer groups ask, `transaction_requests` what producers with
//!   transactions do.
//! * `admin` is what operators ask of topics, `topic_configs` how they are configured, and `topic_names` what they can be called.
//! * `partition_requests` are what is asked of partitions beside that: epochs, producers, deletion.
//! * `produce` and `fetch` carry records; `fetch_sessions` is what is remembered between fetches; `offsets` finds places in logs;
//!   `topics` are hubs.

mod admin;
mod connection;
mod coordinator_metrics;
mod fetch;
mod fetch_sessions;
mod group_reader;
mod group_requests;
mod kept_answer;
mod metrics;
mod offsets;
mod operations;
mod output;
mod partition_requests;
mod produce;
mod refused;
mod requests;
mod session;
mod shaping;
mod topic_configs;
mod topic_names;
mod topics;
mod transaction_requests;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use listen::AcceptFailures;

pub(crate) use metrics::KafkaMetrics;

use super::listener::{self, Front, Gate, WhenFull};
use crate::namespace::Namespace;
use crate::profile::Traffic;
use crate::refusals::Refusals;
use crate::service::Coordinators;
use connection::ConnectionTask;
use fetch_sessions::SessionTotals;

/// The front end of one namespace.
#[derive(Debug)]
pub(crate) struct KafkaFront {
    namespace: Arc<Namespace>,
    gate: Gate,
    coordinators: Coordinators,
    counters: Counters,
    refusals: Refusals,
}

/// What went through.
#[derive(Debug, Default)]
struct Counters {
    accepted: AtomicU64,
    requests: AtomicU64,
    malformed: AtomicU64,
    /// Connections whose client did not log in in time.
    unproven: AtomicU64,
    refused_logins: AtomicU64,
    fetch_sessions: SessionTotals,
    /// Topics that were created because a client asked for them.
    created_topics: AtomicU64,
    /// Connections whose client did not read its answers.
    stalled: AtomicU64,
}

/// The number of the one broker.
const BROKER: i32 = 0;

impl KafkaFront {
    /// A front end with at most this many `connections`, for which clients wait if need be: the protocol has no way to refuse
    /// one. Failures to accept are counted in `accept_failures`.
    pub(crate) fn new(
        namespace: Arc<Namespace>,
        coordinators: Coordinators,
        connections: u64,
        accept_failures: Arc<AcceptFailures>,
    ) -> Arc<Self> {
        let gate = Gate::new(connections, WhenFull::Wait, accept_failures)
            .shaped(Arc::clone(namespace.profile()), Traffic::Messaging);
        let (counters, refusals) = (Counters::default(), Refusals::default());
        Arc::new(Self { namespace, gate, coordinators, counters, refusals })
    }
}

impl Front for KafkaFront {
    fn gate(&self) -> &Gate {
        &self.gate
    }

    async fn serve_connection(&self, connection: listener::Connection) {
        self.counters.accepted.fetch_add(1, Ordering::Relaxed);
        ConnectionTask::new(self, connection).run().await;
    }
}
