//! How long something takes: always the same, or at random after one of three laws.
//!
//! Written as `2 ms`, or as a map whose keys tell the law:
//!
//! | written | law |
//! |---|---|
//! | `2 ms` | always 2 ms |
//! | `{from: 1 ms, to: 3 ms}` | uniform: anything between the two is equally likely |
//! | `{mean: 2 ms}` | exponential: waiting for something that does not remember how long one has waited |
//! | `{median: 2 ms, p99: 20 ms}` | log-normal: what latencies of services look like, most near the median, few far above |

use std::fmt;
use std::time::Duration;

use serde::de::value::MapAccessDeserializer;
use serde::de::{self, MapAccess, Visitor};
use serde::ser::SerializeMap as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use units::Random;

/// The law after which a duration is drawn. All of its durations are at most [`Distribution::LONGEST`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Distribution {
    /// Always the same.
    Constant(Duration),
    /// Anything between the two is equally likely.
    Uniform {
        /// The shortest.
        from: Duration,
        /// The longest.
        to: Duration,
    },
    /// Exponential.
    Exponential {
        /// The mean.
        mean: Duration,
    },
    /// Log-normal.
    LogNormal {
        /// Half are shorter.
        median: Duration,
        /// 99 of 100 are shorter.
        p99: Duration,
    },
}

/// Why durations make no distribution.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DistributionError {
    /// The end of the interval comes before its beginning.
    #[error("`to` must not be shorter than `from`")]
    Reversed,
    /// A tail that is not above the middle, or a middle that no factor leads away from.
    #[error("`median` must be above zero, and `p99` not shorter than `median`")]
    Tail,
    /// Longer than anything that a service does.
    #[error("a duration of the service profile is at most 1 min")]
    TooLong,
    /// Keys that belong to no law, or to several.
    #[error(
        "write a duration such as `2 ms`, or `{{median: …, p99: …}}`, `{{mean: …}}` or `{{from: …, to: …}}`"
    )]
    Keys,
}

impl Distribution {
    /// The longest duration that can be written.
    pub const LONGEST: Duration = Duration::from_mins(1);

    /// Checks the durations against each other and against [`Self::LONGEST`].
    ///
    /// # Errors
    /// [`DistributionError`] says which rule is broken.
    pub fn checked(self) -> Result<Self, DistributionError> {
        let longest = match self {
            Self::Constant(duration) => duration,
            Self::Exponential { mean } => mean,
            Self::Uniform { from, to } if from > to => return Err(DistributionError::Reversed),
            Self::Uniform { to, .. } => to,
            Self::LogNormal { median, p99 } if median > p99 || median.is_zero() => {
                return Err(DistributionError::Tail);
            }
            Self::LogNormal { p99, .. } => p99,
        };
        if longest > Self::LONGEST {
            return Err(DistributionError::TooLong);
        }
        Ok(self)
    }

    /// Whether every sample is zero.
    #[must_use]
    pub fn is_zero(&self) -> bool {
        match self {
            Self::Constant(longest)
            | Self::Exponential { mean: longest }
            | Self::Uniform { to: longest, .. }
            | Self::LogNormal { p99: longest, .. } => longest.is_zero(),
        }
    }

    /// The mean of the law, tails included.
    #[must_use]
    pub fn mean(&self) -> Duration {
        let seconds = match *self {
            Self::Constant(duration) | Self::Exponential { mean: duration } => return duration,
            Self::Uniform { from, to } => return (from + to) / 2,
            Self::LogNormal { median, p99 } => {
                let (median, p99) = (median.as_secs_f64(), p99.as_secs_f64());
                let sigma = (p99 / median).ln() / NORMAL_P99;
                median * (sigma * sigma / 2.0).exp()
            }
        };
        Duration::try_from_secs_f64(seconds).map_or(LONGEST_SAMPLE, |it| it.min(LONGEST_SAMPLE))
    }

    /// The next duration. Tails without end stop at ten minutes, which they reach about never.
    #[must_use]
    pub fn sample(&self, random: &mut Random) -> Duration {
        let seconds = match *self {
            Self::Constant(duration) => return duration,
            Self::Uniform { from, to } => {
                let width = (to - from).as_secs_f64();
                from.as_secs_f64() + width * random.unit()
            }
            Self::Exponential { mean } => random.exponential(mean.as_secs_f64()),
            Self::LogNormal { median, p99 } => {
                let (median, p99) = (median.as_secs_f64(), p99.as_secs_f64());
                let sigma = (p99 / median).ln() / NORMAL_P99;
                median * (sigma * normal(random)).exp()
            }
        };
        Duration::try_from_secs_f64(seconds).map_or(LONGEST_SAMPLE, |it| it.min(LONGEST_SAMPLE))
    }
}

impl Serialize for Distribution {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let entries: &[(&str, Duration)] = match *self {
            Self::Constant(duration) => return units::duration::serialize(&duration, serializer),
            Self::Uniform { from, to } => &[("from", from), ("to", to)],
            Self::Exponential { mean } => &[("mean", mean)],
            Self::LogNormal { median, p99 } => &[("median", median), ("p99", p99)],
        };
        let mut map = serializer.serialize_map(Some(entries.len()))?;
        for (key, duration) in entries {
            map.serialize_entry(key, &units::duration::text(*duration))?;
        }
        map.end()
    }
}

impl<'de> Deserialize<'de> for Distribution {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Either;

        impl<'de> Visitor<'de> for Either {
            type Value = Distribution;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a duration such as `2 ms`, or a map such as `{median: 2 ms, p99: 20 ms}`")
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<Distribution, E> {
                let duration = units::duration::parse(text).map_err(E::custom)?;
                Distribution::Constant(duration).checked().map_err(E::custom)
            }

            fn visit_u64<E: de::Error>(self, number: u64) -> Result<Distribution, E> {
                self.visit_str(&number.to_string())
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Distribution, A::Error> {
                let keys = Keys::deserialize(MapAccessDeserializer::new(map))?;
                keys.distribution().map_err(de::Error::custom)
            }
        }

        deserializer.deserialize_any(Either)
    }
}

/// All keys that a map may have, whatever the law.
#[derive(Deserialize)]
#[serde(deny_unknown_fields, default)]
#[derive(Default)]
struct Keys {
    #[serde(with = "units::duration::optional")]
    from: Option<Duration>,
    #[serde(with = "units::duration::optional")]
    to: Option<Duration>,
    #[serde(with = "units::duration::optional")]
    mean: Option<Duration>,
    #[serde(with = "units::duration::optional")]
    median: Option<Duration>,
    #[serde(with = "units::duration::optional")]
    p99: Option<Duration>,
}

impl Keys {
    fn distribution(self) -> Result<Distribution, DistributionError> {
        let Self { from, to, mean, median, p99 } = self;
        let distribution = match (from, to, mean, median, p99) {
            (Some(from), Some(to), None, None, None) => Distribution::Uniform { from, to },
            (None, None, Some(mean), None, None) => Distribution::Exponential { mean },
            (None, None, None, Some(median), Some(p99)) => Distribution::LogNormal { median, p99 },
            _ => return Err(DistributionError::Keys),
        };
        distribution.checked()
    }
}

/// A standard normal number (Box and Muller; the second of the pair is not kept, so that every sample takes two draws).
fn normal(random: &mut Random) -> f64 {
    // 1 - unit is in (0, 1], where the logarithm is finite.
    let radius = (-2.0 * (1.0 - random.unit()).ln()).sqrt();
    radius * (std::f64::consts::TAU * random.unit()).cos()
}

/// Where 99 % of a standard normal distribution lie below.
const NORMAL_P99: f64 = 2.326_347_874_040_841;

/// The longest sample: beyond it every client has given up, and sums of instants stay far from their end.
pub(super) const LONGEST_SAMPLE: Duration = Duration::from_mins(10);

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Distribution, String> {
        serde_json::from_str(text).map_err(|error| error.to_string())
    }

    /// The share of samples at or below `bound`.
    fn share(distribution: Distribution, bound: Duration) -> f64 {
        let mut random = Random::from_seed(11);
        let below = (0..100_000).filter(|_| distribution.sample(&mut random) <= bound);
        below.count() as f64 / 100_000.0
    }

    const fn ms(milliseconds: u64) -> Duration {
        Duration::from_millis(milliseconds)
    }

    #[test]
    fn each_law_is_read_from_its_keys_and_written_back() {
        for (text, expected) in [
            (r#""1500 us""#, Distribution::Constant(ms(3) / 2)),
            (r#"{"from":"1 ms","to":"3 ms"}"#, Distribution::Uniform { from: ms(1), to: ms(3) }),
            (r#"{"mean":"2 ms"}"#, Distribution::Exponential { mean: ms(2) }),
            (r#"{"median":"2 ms","p99":"20 ms"}"#, Distribution::LogNormal { median: ms(2), p99: ms(20) }),
        ] {
            assert_eq!(read(text), Ok(expected), "{text}");
            assert_eq!(serde_json::to_string(&expected).unwrap(), text);
        }
    }

    #[test]
    fn what_is_no_distribution_is_refused_with_the_reason() {
        for (text, reason) in [
            (r#""5""#, "lacks its unit"),
            (r#""2 min""#, "at most 1 min"),
            (r#"{"from": "3 ms", "to": "1 ms"}"#, "`to` must not be shorter"),
            (r#"{"median": "3 ms", "p99": "1 ms"}"#, "`p99` not shorter"),
            (r#"{"median": "0 s", "p99": "1 ms"}"#, "must be above zero"),
            (r#"{"median": "3 ms"}"#, "write a duration such as"),
            (r#"{"mean": "3 ms", "p99": "4 ms"}"#, "write a duration such as"),
            (r#"{}"#, "write a duration such as"),
            (r#"{"average": "3 ms"}"#, "unknown field `average`"),
            ("true", "expected a duration"),
        ] {
            let error = read(text).unwrap_err();
            assert!(error.contains(reason), "{text}: {error}");
        }
    }

    #[test]
    fn samples_follow_the_law_that_was_written() {
        let log_normal = Distribution::LogNormal { median: ms(2), p99: ms(20) };
        assert!((share(log_normal, ms(2)) - 0.5).abs() < 0.01);
        assert!((share(log_normal, ms(20)) - 0.99).abs() < 0.002);
        let exponential = Distribution::Exponential { mean: ms(2) };
        assert!((share(exponential, ms(2)) - (1.0 - (-1.0_f64).exp())).abs() < 0.01);
        let uniform = Distribution::Uniform { from: ms(1), to: ms(3) };
        assert!((share(uniform, ms(2)) - 0.5).abs() < 0.01);
        assert!(share(uniform, ms(1)) < 0.001 && share(uniform, ms(3)) > 0.999);
        assert!(share(Distribution::Constant(ms(2)), ms(2)) > 0.999);
    }

    #[test]
    fn samples_have_the_mean_that_the_law_has() {
        for distribution in [
            Distribution::Constant(ms(7)),
            Distribution::Uniform { from: ms(1), to: ms(3) },
            Distribution::Exponential { mean: ms(2) },
            Distribution::LogNormal { median: ms(14), p99: ms(75) },
        ] {
            let mut random = Random::from_seed(5);
            let sum: Duration = (0..100_000).map(|_| distribution.sample(&mut random)).sum();
            let (mean, expected) = (sum.as_secs_f64() / 100_000.0, distribution.mean().as_secs_f64());
            assert!((mean / expected - 1.0).abs() < 0.02, "{distribution:?}: {mean} instead of {expected}");
        }
    }

    #[test]
    fn the_wildest_tail_has_an_end() {
        let wild = Distribution::LogNormal { median: Duration::from_nanos(1), p99: Distribution::LONGEST };
        let mut random = Random::from_seed(3);
        assert!((0..100_000).all(|_| wild.sample(&mut random) <= LONGEST_SAMPLE));
    }
}
