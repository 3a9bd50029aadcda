//! Durations as text: `250us`, `10 ms`, `5 s`, `1 min`.
//!
//! The value itself is [`std::time::Duration`]; this module only reads and prints it. A number without a unit is
//! refused, since nobody can tell seconds from milliseconds by looking at it.
//!
//! In a type that serde reads, `#[serde(with = "units::duration")]` stands on a `Duration` and
//! `#[serde(with = "units::duration::optional")]` on an `Option<Duration>`.

use std::fmt;
use std::time::Duration;

use serde::{Deserializer, Serializer, de};

use crate::quantity;

/// Why a text is no duration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DurationError {
    /// The text does not have the shape of a number and a known unit.
    Malformed {
        /// The text as given.
        text: String,
    },
    /// The number has no unit.
    WithoutUnit {
        /// The text as given.
        text: String,
    },
    /// The amount is not a whole number of nanoseconds, or is longer than 584 years.
    NotRepresentable {
        /// The text as given.
        text: String,
    },
}

/// Reads a duration such as `10 ms`. Units: `ns`, `us` or `µs`, `ms`, `s`, `m` or `min`, `h`, `d`.
///
/// # Errors
/// [`DurationError`] says what the text lacks.
pub fn parse(text: &str) -> Result<Duration, DurationError> {
    let malformed = || DurationError::Malformed { text: text.to_owned() };
    let (number, unit) = quantity::split(text).ok_or_else(malformed)?;
    let nanoseconds = match unit {
        "" if number.times(1) == Some(0) => 1,
        "" => {
            return Err(DurationError::WithoutUnit { text: text.to_owned() });
        }
        "µs" => 1_000,
        "m" => 60 * SECOND,
        "d" => 24 * 3600 * SECOND,
        name => {
            UNITS.iter().find(|(known, _)| *known == name).map(|(_, unit)| *unit).ok_or_else(malformed)?
        }
    };
    number
        .times(nanoseconds)
        .map(Duration::from_nanos)
        .ok_or_else(|| DurationError::NotRepresentable { text: text.to_owned() })
}

/// Prints the exact duration in the largest unit that divides it; [`parse`] reads it back.
///
/// Durations beyond 584 years print as that bound.
#[must_use]
pub fn text(duration: Duration) -> String {
    let nanoseconds = u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX);
    if nanoseconds == 0 {
        return "0 s".to_owned();
    }
    let (name, unit) = UNITS
        .iter()
        .find(|(_, unit)| nanoseconds.is_multiple_of(*unit))
        .copied()
        .expect("every whole number is a multiple of one nanosecond");
    format!("{} {name}", nanoseconds / unit)
}

/// Writes a duration as its text.
///
/// # Errors
/// Only those of the serializer.
pub fn serialize<S: Serializer>(duration: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&text(*duration))
}

/// Reads a duration from its text.
///
/// # Errors
/// Those of [`parse`], as the deserializer's error.
pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Duration, D::Error> {
    deserializer.deserialize_any(Visitor)
}

/// The same for an optional duration, absent where nothing is written.
pub mod optional {
    use super::{Deserializer, Duration, Serializer, de, fmt};

    /// Writes the duration's text, or nothing.
    ///
    /// # Errors
    /// Only those of the serializer.
    pub fn serialize<S: Serializer>(duration: &Option<Duration>, serializer: S) -> Result<S::Ok, S::Error> {
        match duration {
            Some(duration) => super::serialize(duration, serializer),
            None => serializer.serialize_none(),
        }
    }

    /// Reads a duration from its text, or nothing.
    ///
    /// # Errors
    /// Those of [`super::parse`], as the deserializer's error.
    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Duration>, D::Error> {
        struct Optional;

        impl<'de> de::Visitor<'de> for Optional {
            type Value = Option<Duration>;

            fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                super::Visitor.expecting(formatter)
            }

            fn visit_none<E: de::Error>(self) -> Result<Self::Value, E> {
                Ok(None)
            }

            fn visit_unit<E: de::Error>(self) -> Result<Self::Value, E> {
                Ok(None)
            }

            fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
                super::deserialize(deserializer).map(Some)
            }
        }

        deserializer.deserialize_option(Optional)
    }
}

impl fmt::Display for DurationError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Malformed { text } => write!(
                formatter,
                "`{text}` is not a duration; write a number and a unit, such as `250 us`, `10 ms`, `5 s` or `1 min`"
            ),
            Self::WithoutUnit { text } => {
                write!(formatter, "`{text}` lacks its unit; write `{text} ms`, `{text} s` or the like")
            }
            Self::NotRepresentable { text } => {
                write!(formatter, "`{text}` is not a whole number of nanoseconds below 2^64")
            }
        }
    }
}

impl std::error::Error for DurationError {}

struct Visitor;

impl de::Visitor<'_> for Visitor {
    type Value = Duration;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a duration such as `250 us`, `10 ms`, `5 s` or `1 min`")
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<Duration, E> {
        parse(text).map_err(E::custom)
    }

    fn visit_u64<E: de::Error>(self, number: u64) -> Result<Duration, E> {
        parse(&number.to_string()).map_err(E::custom)
    }
}

const SECOND: u64 = 1_000_000_000;

/// Largest first, in nanoseconds.
const UNITS: [(&str, u64); 6] =
    [("h", 3600 * SECOND), ("min", 60 * SECOND), ("s", SECOND), ("ms", 1_000_000), ("us", 1_000), ("ns", 1)];

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn durations_are_read_as_people_write_them() {
        for (written, expected) in [
            ("10 ms", Duration::from_millis(10)),
            ("5s", Duration::from_secs(5)),
            ("1m", Duration::from_secs(60)),
            ("1 min", Duration::from_secs(60)),
            ("250us", Duration::from_micros(250)),
            ("250 µs", Duration::from_micros(250)),
            ("0.1 s", Duration::from_millis(100)),
            ("2 h", Duration::from_secs(7200)),
            ("7 d", Duration::from_hours(7 * 24)),
            ("0", Duration::ZERO),
        ] {
            assert_eq!(parse(written), Ok(expected), "{written:?}");
        }
    }

    #[test]
    fn a_number_without_a_unit_is_refused_with_a_proposal() {
        let error = parse("10").unwrap_err();
        assert_eq!(error.to_string(), "`10` lacks its unit; write `10 ms`, `10 s` or the like");
    }

    #[test]
    fn what_is_no_duration_is_refused() {
        for written in ["", "ms", "10 sec onds", "-1 s", "1 month"] {
            assert!(matches!(parse(written), Err(DurationError::Malformed { .. })), "{written:?}");
        }
        for written in ["0.5 ns", "6000000 h"] {
            assert!(matches!(parse(written), Err(DurationError::NotRepresentable { .. })), "{written:?}");
        }
    }

    #[test]
    fn durations_print_in_their_largest_exact_unit() {
        for written in ["0 s", "10 ms", "90 s", "1 min", "2 h", "1500 us", "1 ns"] {
            assert_eq!(text(parse(written).unwrap()), written);
        }
    }

    proptest! {
        #[test]
        fn every_duration_reads_back_as_it_was_printed(nanoseconds: u64) {
            let duration = Duration::from_nanos(nanoseconds);
            prop_assert_eq!(parse(&text(duration)), Ok(duration));
        }

        #[test]
        fn no_text_panics(written in ".{0,40}") {
            let _ = parse(&written);
        }
    }
}
