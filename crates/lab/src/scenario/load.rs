//! What the load generator sends: how much, how fast, and what it waits for.

use std::path::PathBuf;
use std::time::Duration;

use schemars::JsonSchema;
use serde::de::value::MapAccessDeserializer;
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use units::{ByteSize, Rate};

use super::{Capacity, Percent};
use crate::payload::{NOTHING, PERSON_LENGTH};

/// The section `load`.
///
/// Every mode reads its own keys and leaves the others alone, so that a scenario can be switched from one mode to
/// another by `--set load.mode=…` alone.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Load {
    /// What decides when the next event is sent.
    pub mode: LoadMode,
    /// `open`, `burst`: the offered load of all workers together. Required in these modes, unused in the others.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rate: Option<Rate>,
    /// `open`: how the intended instants lie in time.
    pub arrivals: Arrivals,
    /// `burst`: events of one burst of all workers together; as many as are due in a second, if it is not given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub burst: Option<u32>,
    /// Senders that work side by side, each on a connection of its own; they share the streams among them.
    pub workers: u32,
    /// `closed`: sends that each worker makes side by side, each again when it was answered.
    pub callers: u32,
    /// What one event carries.
    pub payload: Payload,
    /// Events per send; in `burst` always one. Of replayed events, as many of them as the service takes in one send.
    pub batch: u32,
    /// Sends that one worker has outstanding at most. `closed` works with one for each of its callers, `burst` with all of a burst.
    pub in_flight: u32,
    /// `backlog`: the number of events that lie in the source before the relay starts.
    pub backlog: u64,
    /// `saturate`: how many events the generator may be ahead of the relay at most. Enough to keep the relay busy,
    /// few enough to stay in the log; [`Parameters::lag_limit`](super::Parameters::lag_limit) takes both into account.
    pub max_lag: u64,
    /// `saturate`, `backlog`: the share of the rate found at which one more, open trial measures the latency. Without it, there
    /// is no such trial: the latency of a saturating load follows from [`Self::max_lag`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub latency_at: Option<Percent>,
    /// `capacity`: what is looked for.
    pub capacity: Capacity,
    /// The seed of arrivals, filler and stream order. Equal seeds offer equal loads.
    pub seed: u64,
}

/// What decides when the next event is sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum LoadMode {
    /// A plan in time, whatever the service does: event n has its intended instant.
    Open,
    /// A loop, as programs that measure a latency often have it: each worker sends a burst event by event, waits for all
    /// answers, and then until the next burst is due. One that is held up delays those after it, so that latencies which
    /// count from the send leave out what a stall does to everything that was not sent meanwhile.
    Burst,
    /// Each of [`Load::callers`] sends again when its last send is acknowledged.
    Closed,
    /// As fast as the service takes events, up to [`Load::max_lag`] ahead of the relay.
    #[default]
    Saturate,
    /// All of [`Load::backlog`] first; the relay starts when it is there. Isolates the relay.
    Backlog,
    /// A search for the highest rate that is sustained: one open load after another, each at the rate that the search
    /// asks for.
    Capacity,
}

/// How the intended instants of an open load lie in time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Arrivals {
    /// At equal distances.
    Constant,
    /// At exponentially distributed distances, as from many senders who do not know of each other.
    Poisson,
}

/// What one event carries. Written as a size (`16 B`), as `{replay: file.ndjson}`, or by a name.
#[derive(Clone, Debug, PartialEq)]
pub enum Payload {
    /// A stamped payload of exactly this size: at least [`SMALLEST_PAYLOAD`], checksummed from 16 B on.
    Size(ByteSize),
    /// The lines of a file, over and over.
    Replay {
        /// Newline-delimited JSON, one event per line; relative to the working directory.
        replay: PathBuf,
    },
    /// `person`: a person in JSON, as the published study of ingestion sends it.
    Person,
    /// `nothing`: the word `null`, which is what becomes of a payload that was never given to a serialiser of JSON.
    Nothing,
}

impl Payload {
    /// The size of each, where all are of one.
    #[must_use]
    pub const fn size(&self) -> Option<ByteSize> {
        match self {
            Self::Size(size) => Some(*size),
            Self::Replay { .. } => None,
            Self::Person => Some(ByteSize::from_bytes(PERSON_LENGTH as u64)),
            Self::Nothing => Some(ByteSize::from_bytes(NOTHING.len() as u64)),
        }
    }

    /// Whether the identity of an event travels beside it, in a property, because the payload has no room for it.
    #[must_use]
    pub const fn is_identified_beside(&self) -> bool {
        match self {
            Self::Size(_) => false,
            Self::Replay { .. } | Self::Person | Self::Nothing => true,
        }
    }
}

impl Serialize for Payload {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Size(size) => size.serialize(serializer),
            Self::Replay { replay } => serializer.collect_map([("replay", replay)]),
            Self::Person => serializer.serialize_str(PERSON),
            Self::Nothing => serializer.serialize_str(NOTHING_NAME),
        }
    }
}

impl LoadMode {
    /// Whether every event has an intended instant of its own.
    #[must_use]
    pub const fn has_plan(self) -> bool {
        matches!(self, Self::Open | Self::Burst)
    }
}

impl Load {
    /// Events of one burst.
    #[must_use]
    pub fn burst_events(&self) -> u32 {
        let of_a_second = self.rate.map_or(1, |rate| rate.events_in(Duration::from_secs(1)));
        self.burst.unwrap_or_else(|| u32::try_from(of_a_second).unwrap_or(u32::MAX)).max(1)
    }
}

impl Default for Load {
    fn default() -> Self {
        Self {
            mode: LoadMode::Saturate,
            rate: None,
            arrivals: Arrivals::Constant,
            burst: None,
            workers: 1,
            callers: 1,
            payload: Payload::Size(ByteSize::from_bytes(16)),
            batch: 128,
            in_flight: 8,
            backlog: 1_000_000,
            max_lag: 500_000,
            latency_at: None,
            capacity: Capacity::default(),
            seed: 1,
        }
    }
}

impl<'de> Deserialize<'de> for Payload {
    // By hand, because serde's untagged enums forget where in the file the mistake is.
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(deny_unknown_fields)]
        struct Replayed {
            replay: PathBuf,
        }

        struct Visitor;

        impl<'de> de::Visitor<'de> for Visitor {
            type Value = Payload;

            fn expecting(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                write!(
                    formatter,
                    "a size such as `16 B`, `{PERSON}`, `{NOTHING_NAME}`, or `{{replay: events.ndjson}}`"
                )
            }

            fn visit_u64<E: de::Error>(self, bytes: u64) -> Result<Payload, E> {
                Ok(Payload::Size(ByteSize::from_bytes(bytes)))
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<Payload, E> {
                match text {
                    PERSON => Ok(Payload::Person),
                    NOTHING_NAME => Ok(Payload::Nothing),
                    size => size.parse().map(Payload::Size).map_err(E::custom),
                }
            }

            fn visit_map<A: de::MapAccess<'de>>(self, map: A) -> Result<Payload, A::Error> {
                let Replayed { replay } = Replayed::deserialize(MapAccessDeserializer::new(map))?;
                Ok(Payload::Replay { replay })
            }
        }

        deserializer.deserialize_any(Visitor)
    }
}

const PERSON: &str = "person";

const NOTHING_NAME: &str = "nothing";

/// Run, stream, sequence number and intended instant take this much.
pub const SMALLEST_PAYLOAD: ByteSize = ByteSize::from_bytes(12);
