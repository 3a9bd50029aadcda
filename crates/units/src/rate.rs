//! How often something happens.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

/// A number of events per second, more than zero. Written as `10000/s`; a bare number counts per second, too.
#[derive(Clone, Copy, Debug, PartialEq, PartialOrd)]
pub struct Rate(f64);

/// Why a text or a number is no [`Rate`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RateError {
    text: String,
}

impl Rate {
    /// The rate of `per_second` events per second.
    ///
    /// # Errors
    /// [`RateError`] unless the number is positive and at most one event per nanosecond.
    pub fn per_second(per_second: f64) -> Result<Self, RateError> {
        if per_second > 0.0 && per_second <= HIGHEST {
            Ok(Self(per_second))
        } else {
            Err(RateError { text: per_second.to_string() })
        }
    }

    /// Events per second.
    #[must_use]
    pub const fn events_per_second(self) -> f64 {
        self.0
    }

    /// The mean time from one event to the next.
    #[must_use]
    pub fn interval(self) -> Duration {
        Duration::try_from_secs_f64(1.0 / self.0).unwrap_or(Duration::MAX)
    }

    /// How many whole events fall into `duration` at this rate.
    #[must_use]
    pub fn events_in(self, duration: Duration) -> u64 {
        // The cast saturates, which is the right answer for a duration without end.
        (self.0 * duration.as_secs_f64()) as u64
    }

    /// The rate of one of `count` equal shares.
    #[must_use]
    pub fn share(self, count: std::num::NonZeroU32) -> Self {
        Self(self.0 / f64::from(count.get()))
    }
}

impl fmt::Display for Rate {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}/s", self.0)
    }
}

impl FromStr for Rate {
    type Err = RateError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let number = text.trim().strip_suffix("/s").unwrap_or(text).trim().replace('_', "");
        let refused = || RateError { text: text.to_owned() };
        if !number.starts_with(|first: char| first.is_ascii_digit()) {
            return Err(refused());
        }
        number.parse().ok().and_then(|per_second| Self::per_second(per_second).ok()).ok_or_else(refused)
    }
}

impl Serialize for Rate {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Rate {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visitor;

        impl de::Visitor<'_> for Visitor {
            type Value = Rate;

            fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str("a rate such as `10000/s`")
            }

            fn visit_u64<E: de::Error>(self, per_second: u64) -> Result<Rate, E> {
                self.visit_f64(per_second as f64)
            }

            fn visit_f64<E: de::Error>(self, per_second: f64) -> Result<Rate, E> {
                Rate::per_second(per_second).map_err(E::custom)
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<Rate, E> {
                text.parse().map_err(E::custom)
            }
        }

        deserializer.deserialize_any(Visitor)
    }
}

impl fmt::Display for RateError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            formatter,
            "`{}` is not a rate; write events per second above 0 up to 1e9, such as `10000/s`",
            self.text
        )
    }
}

impl std::error::Error for RateError {}

/// One event per nanosecond: beyond the resolution of every clock that could pace it.
const HIGHEST: f64 = 1e9;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn rates_are_read_as_people_write_them() {
        for (text, per_second) in
            [("10000/s", 10_000.0), ("10_000 /s", 10_000.0), ("0.5/s", 0.5), ("250", 250.0)]
        {
            assert_eq!(text.parse::<Rate>().unwrap().events_per_second(), per_second, "{text:?}");
        }
    }

    #[test]
    fn what_is_no_positive_finite_rate_is_refused() {
        for text in ["", "/s", "0", "-1/s", "inf", "nan", "1e10/s", "10 /m", "fast"] {
            assert!(text.parse::<Rate>().is_err(), "{text:?}");
        }
    }

    #[test]
    fn a_rate_gives_intervals_and_counts() {
        let rate: Rate = "4000/s".parse().unwrap();
        assert_eq!(rate.interval(), Duration::from_micros(250));
        assert_eq!(rate.events_in(Duration::from_millis(1500)), 6000);
        let quarter = rate.share(std::num::NonZeroU32::new(4).unwrap());
        assert_eq!(quarter.to_string(), "1000/s");
    }

    proptest! {
        #[test]
        fn every_rate_reads_back_as_it_was_printed(per_second in 1e-6_f64..1e9) {
            let rate = Rate::per_second(per_second).unwrap();
            prop_assert_eq!(rate.to_string().parse(), Ok(rate));
        }

        #[test]
        fn no_text_panics(text in ".{0,40}") {
            let _ = text.parse::<Rate>();
        }
    }
}
