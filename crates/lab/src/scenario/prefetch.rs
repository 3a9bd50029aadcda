//! How far ahead of its work a relay fetches.

use std::fmt;

use connect::source::SourceOptions;
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

/// Events per partition that the source may have on the way before they are asked for. Written as a number or as
/// `adaptive`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Prefetch {
    /// So many.
    Events(u32),
    /// As many as the distance to the service asks for, within what a relay may hold: the default of `parshall relay`.
    Adaptive,
}

impl Prefetch {
    /// The number, where one is set.
    #[must_use]
    pub const fn events(self) -> Option<u32> {
        match self {
            Self::Events(events) => Some(events),
            Self::Adaptive => None,
        }
    }

    /// What a source fetches ahead to begin with.
    #[must_use]
    pub fn initial(self) -> usize {
        self.events().map_or_else(|| SourceOptions::default().prefetch, |events| events as usize)
    }
}

/// As it is written in a scenario.
impl fmt::Display for Prefetch {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Events(events) => write!(formatter, "{events}"),
            Self::Adaptive => formatter.write_str(ADAPTIVE),
        }
    }
}

impl Serialize for Prefetch {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match *self {
            Self::Events(events) => serializer.serialize_u32(events),
            Self::Adaptive => serializer.serialize_str(ADAPTIVE),
        }
    }
}

impl<'de> Deserialize<'de> for Prefetch {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visitor;

        impl de::Visitor<'_> for Visitor {
            type Value = Prefetch;

            fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str("a number of events or `adaptive`")
            }

            fn visit_u64<E: de::Error>(self, number: u64) -> Result<Prefetch, E> {
                u32::try_from(number)
                    .map(Prefetch::Events)
                    .map_err(|_| E::invalid_value(de::Unexpected::Unsigned(number), &self))
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<Prefetch, E> {
                match text {
                    ADAPTIVE => Ok(Prefetch::Adaptive),
                    _ => Err(E::invalid_value(de::Unexpected::Str(text), &self)),
                }
            }
        }

        deserializer.deserialize_any(Visitor)
    }
}

const ADAPTIVE: &str = "adaptive";
