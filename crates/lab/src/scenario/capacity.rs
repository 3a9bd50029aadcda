//! What a search for the highest sustainable rate looks for, and how closely.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use units::Rate;

/// The section `load.capacity`, which the mode `capacity` reads.
///
/// The search tries rates, each with processes of their own and an open load. A rate passes if the latency bound holds,
/// the lag does not grow, nothing is lost and nothing is throttled. Phases apply, except that [`Capacity::probe`] and
/// [`Capacity::hold`] take the place of `phases.measure`, and that `repeat` takes the place of `trials`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Capacity {
    /// The percentile of the end-to-end latency that has to be within the bound, in percent.
    pub percentile: f64,
    /// The bound, counted from each event's intended instant to the sink.
    #[serde(with = "units::duration")]
    pub bound: Duration,
    /// The first rate to try; the search doubles it while it passes and halves it while it does not.
    pub start: Rate,
    /// No higher rate is tried.
    pub highest: Rate,
    /// How far the lowest rate that failed may be above the highest that passed when the search ends.
    pub precision: Percent,
    /// How long a rate is measured while it is searched for.
    #[serde(with = "units::duration")]
    pub probe: Duration,
    /// How long the rate that was found is measured.
    #[serde(with = "units::duration")]
    pub hold: Duration,
    /// How often it has to pass that in a row.
    pub repeat: u32,
    /// Whether sends fail on purpose meanwhile.
    pub failures: PurposefulFailures,
}

/// What becomes of `relay.failure_ratio` during a search.
///
/// Each failure rests a partition for `relay.restart_after`. Where that is longer than the latency bound, the percentile
/// says how often the dice fell and not what the pipeline can carry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PurposefulFailures {
    /// No send fails on purpose.
    None,
    /// As `relay.failure_ratio` says.
    AsConfigured,
}

/// A share, written as `5 %`.
#[derive(Clone, Copy, Debug, PartialEq, PartialOrd)]
pub struct Percent(f64);

/// Why a text is no [`Percent`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{text}` is not a percentage; write it as `5 %`")]
pub struct PercentError {
    text: String,
}

impl Percent {
    /// `percent` of a hundred.
    #[must_use]
    pub const fn new(percent: f64) -> Self {
        Self(percent)
    }

    /// The number before the sign.
    #[must_use]
    pub const fn percent(self) -> f64 {
        self.0
    }

    /// The share of one.
    #[must_use]
    pub fn share(self) -> f64 {
        self.0 / 100.0
    }
}

impl Default for Capacity {
    fn default() -> Self {
        let rate = |per_second| {
            Rate::per_second(per_second).expect("a positive rate below one event per nanosecond")
        };
        Self {
            percentile: 99.0,
            bound: Duration::from_millis(100),
            start: rate(10_000.0),
            highest: rate(100_000_000.0),
            precision: Percent(5.0),
            probe: Duration::from_secs(10),
            hold: Duration::from_secs(30),
            repeat: 2,
            failures: PurposefulFailures::None,
        }
    }
}

impl fmt::Display for Percent {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{} %", self.0)
    }
}

impl FromStr for Percent {
    type Err = PercentError;

    fn from_str(text: &str) -> Result<Self, PercentError> {
        let number = text.trim().strip_suffix('%').map(str::trim_end);
        number
            .filter(|number| number.starts_with(|first: char| first.is_ascii_digit()))
            .and_then(|number| number.parse().ok())
            .filter(|percent: &f64| percent.is_finite())
            .map(Self)
            .ok_or_else(|| PercentError { text: text.to_owned() })
    }
}

impl Serialize for Percent {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Percent {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visitor;

        impl de::Visitor<'_> for Visitor {
            type Value = Percent;

            fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str("a percentage such as `5 %`")
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<Percent, E> {
                text.parse().map_err(E::custom)
            }
        }

        deserializer.deserialize_any(Visitor)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentages_are_read_as_they_are_written() {
        for (text, percent) in [("5 %", 5.0), ("0.5%", 0.5), (" 12.5 % ", 12.5)] {
            assert_eq!(text.parse(), Ok(Percent(percent)), "{text}");
        }
        assert_eq!(Percent(2.5).to_string().parse(), Ok(Percent(2.5)));
        for text in ["5", "%", "-5 %", "inf %", "five %", "5 % %"] {
            assert!(text.parse::<Percent>().is_err(), "{text}");
        }
    }
}
