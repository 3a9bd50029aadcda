//! What becomes of events that a destination refuses for good, as a pipeline file says it: `hold`, `stop`,
//! `{dead_letter: FILE}` or `{dead_letter: {service_bus: {...}}}`, with any sink.

use std::fmt;
use std::path::PathBuf;

use serde::de::value::MapAccessDeserializer;
use serde::{Deserialize, Deserializer, de};

use super::SinkConfig;
use super::file::Sink;

/// What becomes of them.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum PoisonEvents {
    /// Their partition waits.
    #[default]
    Hold,
    /// The relay stops.
    Stop,
    /// They are put aside.
    DeadLetter(DeadLetter),
}

/// Where they are put.
#[derive(Debug)]
pub(super) enum DeadLetter {
    File(PathBuf),
    Sink(Box<Sink>),
}

impl PoisonEvents {
    /// What the engine is told; it is given the sink by itself.
    pub(super) fn policy(&self) -> relay::PoisonEvents {
        match self {
            Self::Hold | Self::DeadLetter(DeadLetter::Sink(_)) => relay::PoisonEvents::Hold,
            Self::Stop => relay::PoisonEvents::Stop,
            Self::DeadLetter(DeadLetter::File(path)) => relay::PoisonEvents::DeadLetter(path.clone()),
        }
    }

    /// The sink of dead letters, with its place in the file.
    pub(super) fn sink(&self) -> Option<(&'static str, &Sink)> {
        match self {
            Self::DeadLetter(DeadLetter::Sink(sink)) => Some(("poison_events.dead_letter", sink)),
            Self::Hold | Self::Stop | Self::DeadLetter(DeadLetter::File(_)) => None,
        }
    }

    pub(super) fn into_sink(self) -> Option<SinkConfig> {
        match self {
            Self::DeadLetter(DeadLetter::Sink(sink)) => Some(sink.into_config()),
            Self::Hold | Self::Stop | Self::DeadLetter(DeadLetter::File(_)) => None,
        }
    }
}

impl<'de> Deserialize<'de> for DeadLetter {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visitor;

        impl<'de> de::Visitor<'de> for Visitor {
            type Value = DeadLetter;

            fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str("a file or a sink, such as `{service_bus: {...}}`")
            }

            fn visit_str<E: de::Error>(self, path: &str) -> Result<DeadLetter, E> {
                Ok(DeadLetter::File(PathBuf::from(path)))
            }

            fn visit_map<A: de::MapAccess<'de>>(self, map: A) -> Result<DeadLetter, A::Error> {
                let sink = Sink::deserialize(MapAccessDeserializer::new(map))?;
                Ok(DeadLetter::Sink(Box::new(sink)))
            }
        }

        deserializer.deserialize_any(Visitor)
    }
}
