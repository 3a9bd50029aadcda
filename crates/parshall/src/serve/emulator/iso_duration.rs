//! Durations in the emulator's files, as ISO 8601 writes them.

use std::fmt;
use std::time::Duration;

use serde::de::{Deserialize, Deserializer, Visitor};

/// A duration in a file of the emulator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct IsoDuration(pub(super) Duration);

impl<'de> Deserialize<'de> for IsoDuration {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_str(IsoDurationVisitor)
    }
}

struct IsoDurationVisitor;

impl Visitor<'_> for IsoDurationVisitor {
    type Value = IsoDuration;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("an ISO 8601 duration, such as PT1M")
    }

    fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<IsoDuration, E> {
        units::iso_duration::parse(text)
            .map(IsoDuration)
            .ok_or_else(|| E::custom(format!("{text:?} is not an ISO 8601 duration, such as PT1M")))
    }
}
