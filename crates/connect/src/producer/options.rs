//! How a producer sends: through which connections, gathered in which way, and how patiently.

use std::num::NonZeroU32;
use std::time::Duration;

use crate::event_hubs::EventHubsOptions;
use crate::kafka::KafkaOptions;
use crate::retry::RetryPolicy;
use crate::service::ClientOptions;

/// Where a producer sends.
#[derive(Clone, Debug)]
pub enum ProducerTarget {
    /// A hub, over AMQP.
    EventHubs(EventHubsOptions),
    /// A queue or topic, over AMQP.
    ServiceBus(ClientOptions),
    /// A topic, over Kafka's protocol.
    Kafka(KafkaOptions),
    /// A hub, queue or topic, over the REST interface. A connection has one request under way at a time.
    Http(ClientOptions),
}

/// How a producer sends.
#[derive(Clone, Debug, PartialEq)]
pub struct ProducerOptions {
    /// Which connections carry the events.
    pub connections: Connections,
    /// Whether events wait for one another, and what a call waits for.
    pub buffering: Buffering,
    /// Bytes of events that may wait or be under way on one connection. A call waits for room.
    pub max_waiting_bytes: usize,
    /// How long an event may take from the call to its acknowledgement, all tries together.
    pub timeout: Duration,
    /// How often, and after what delay, a send is tried again that failed in passing. An event whose acknowledgement was
    /// lost is sent again, and may be there twice then; with one try it is reported as unknown instead. The policy's
    /// time-out for a single try does not matter.
    pub retry: RetryPolicy,
}

/// Which connections carry the events.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Connections {
    /// A new one for each call, closed after it. Nothing is buffered then.
    PerEvent,
    /// So many, opened at the start and used in turn; events with the same key or partition go through the same one.
    Pooled(NonZeroU32),
    /// One.
    #[default]
    Single,
}

/// Whether events wait for one another to become batches, and what a call waits for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Buffering {
    /// Each event is a send of its own, which is acknowledged by itself. Sends do not wait for one another, and those that
    /// are made at the same time leave in one write.
    #[default]
    None,
    /// Events become batches, and a call returns when the batch with its event was acknowledged.
    Safe(Batching),
    /// Events become batches, and a call returns at once, or as soon as there is room. What is lost is counted by its
    /// reason.
    Unsafe(Batching),
}

/// What a batch is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Batching {
    /// A batch with so many events leaves at once.
    pub max_events: u32,
    /// A batch of so many encoded bytes leaves at once; never more than the service takes.
    pub max_bytes: usize,
    /// When a batch leaves that is not full.
    pub delay: BatchDelay,
}

/// When a batch leaves that is not full.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum BatchDelay {
    /// When the batch before it was answered; at once if none is under way. No timer is involved: the time that the service
    /// takes is the time in which events gather.
    #[default]
    Adaptive,
    /// When its first event has waited for so long.
    After(Duration),
}

impl Default for ProducerOptions {
    fn default() -> Self {
        Self {
            connections: Connections::default(),
            buffering: Buffering::default(),
            max_waiting_bytes: 8 * 1024 * 1024,
            timeout: Duration::from_secs(60),
            retry: RetryPolicy::default(),
        }
    }
}

impl Default for Batching {
    fn default() -> Self {
        Self { max_events: 1_000, max_bytes: 256 * 1024, delay: BatchDelay::default() }
    }
}

impl Buffering {
    /// What the batches are, if there are any.
    #[must_use]
    pub const fn batching(&self) -> Option<&Batching> {
        match self {
            Self::None => None,
            Self::Safe(batching) | Self::Unsafe(batching) => Some(batching),
        }
    }

    /// Whether a call returns before its event was acknowledged.
    #[must_use]
    pub const fn is_unsafe(&self) -> bool {
        matches!(self, Self::Unsafe(_))
    }
}

impl Connections {
    /// How many are kept open.
    #[must_use]
    pub const fn kept(self) -> u32 {
        match self {
            Self::PerEvent => 0,
            Self::Single => 1,
            Self::Pooled(size) => size.get(),
        }
    }
}
