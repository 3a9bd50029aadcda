//! How the load's events get to the service where they are sent as a program sends its own: by a producer, which callers
//! share, instead of by the lab's own sender, which writes whole batches.
//!
//! ```yaml
//! load: {to: in, producer: {connections: pooled, pool: 16, buffering: safe, max_events: 50, delay: 100 ms}}
//! ```

use std::fmt;
use std::num::NonZeroU32;
use std::time::Duration;

use connect::producer::{self, BatchDelay, Batching};
use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

use super::end::is_usual;

/// The section `topology.load.producer`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Producer {
    /// Which connections carry the events.
    pub connections: Connections,
    /// `pooled`: how many connections there are.
    pub pool: u32,
    /// Whether events wait for one another, and what a call waits for.
    pub buffering: Buffering,
    /// `safe`, `unsafe`: a batch with so many events leaves at once.
    pub max_events: u32,
    /// `safe`, `unsafe`: when a batch leaves that is not full.
    pub delay: Delay,
    /// `unsafe`: a call that finds so many events without an answer looks again after 20 ms. The producer's own bound holds in any case.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_pending: Option<u32>,
    /// `per-event`: the events of a call are sent one after the other over its connection, instead of as one batch.
    #[serde(skip_serializing_if = "is_usual")]
    pub one_by_one: bool,
    /// What the client of an older program would take for itself.
    #[serde(skip_serializing_if = "is_usual")]
    pub client_time: ClientTime,
}

/// How long the one core of a program is busy for its client. Whatever needs it waits for its turn. It holds where each call is a
/// send: of events that gather, nobody knows when they are sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ClientTime {
    /// For each send.
    #[serde(with = "units::duration")]
    pub send: Duration,
    /// For each connection that is made for a call.
    #[serde(with = "units::duration")]
    pub connection: Duration,
}

/// Which connections carry the events.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Connections {
    /// A new one for each call, closed after it.
    PerEvent,
    /// Several, used in turn.
    Pooled,
    /// One.
    #[default]
    Single,
}

/// Whether events wait for one another, and what a call waits for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Buffering {
    /// Each event is a send; a call waits for its acknowledgement.
    #[default]
    None,
    /// Events become batches; a call waits for the acknowledgement of the batch with its event.
    Safe,
    /// Events become batches; a call waits for nothing.
    Unsafe,
}

/// When a batch leaves that is not full: `adaptive`, when the one before it was answered, or after a duration.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Delay {
    /// When the batch before it was answered; at once if none is under way.
    #[default]
    Adaptive,
    /// When its first event has waited for so long.
    After(Duration),
}

impl Producer {
    /// The same as options of the producer; each send is tried once, so that what the service does is seen.
    #[must_use]
    pub fn options(&self) -> producer::ProducerOptions {
        let batching = Batching {
            max_events: self.max_events,
            delay: match self.delay {
                Delay::Adaptive => BatchDelay::Adaptive,
                Delay::After(delay) => BatchDelay::After(delay),
            },
            ..Batching::default()
        };
        let usual = producer::ProducerOptions::default();
        producer::ProducerOptions {
            connections: match self.connections {
                Connections::PerEvent => producer::Connections::PerEvent,
                Connections::Pooled => {
                    producer::Connections::Pooled(NonZeroU32::new(self.pool).unwrap_or(NonZeroU32::MIN))
                }
                Connections::Single => producer::Connections::Single,
            },
            buffering: match self.buffering {
                Buffering::None => producer::Buffering::None,
                Buffering::Safe => producer::Buffering::Safe(batching),
                Buffering::Unsafe => producer::Buffering::Unsafe(batching),
            },
            retry: connect::retry::RetryPolicy { attempts: 1, ..usual.retry },
            ..usual
        }
    }
}

impl Default for Producer {
    fn default() -> Self {
        Self {
            connections: Connections::default(),
            pool: 16,
            buffering: Buffering::default(),
            max_events: 50,
            delay: Delay::default(),
            max_pending: None,
            one_by_one: false,
            client_time: ClientTime::default(),
        }
    }
}

impl Serialize for Delay {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Adaptive => serializer.serialize_str(ADAPTIVE),
            Self::After(delay) => units::duration::serialize(delay, serializer),
        }
    }
}

impl<'de> Deserialize<'de> for Delay {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visitor;

        impl de::Visitor<'_> for Visitor {
            type Value = Delay;

            fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(formatter, "`{ADAPTIVE}`, or a duration such as `100 ms`")
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<Delay, E> {
                match text {
                    ADAPTIVE => Ok(Delay::Adaptive),
                    text => {
                        units::duration::deserialize(de::value::StrDeserializer::new(text)).map(Delay::After)
                    }
                }
            }
        }

        deserializer.deserialize_str(Visitor)
    }
}

const ADAPTIVE: &str = "adaptive";
