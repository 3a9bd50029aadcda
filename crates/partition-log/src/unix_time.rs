//! Instants as the wire and the log store them.

use std::fmt;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// An instant in whole milliseconds since 1970, which is the resolution of an AMQP timestamp.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct UnixTime {
    milliseconds: i64,
}

impl UnixTime {
    /// Earlier than everything.
    pub const MIN: Self = Self { milliseconds: i64::MIN };
    /// Later than everything.
    pub const MAX: Self = Self { milliseconds: i64::MAX };

    /// The instant that is this many milliseconds after the start of 1970.
    #[must_use]
    pub const fn from_milliseconds(milliseconds: i64) -> Self {
        Self { milliseconds }
    }

    /// Milliseconds since the start of 1970.
    #[must_use]
    pub const fn milliseconds(self) -> i64 {
        self.milliseconds
    }

    /// The instant `duration` earlier, or the earliest one.
    #[must_use]
    pub fn saturating_sub(self, duration: Duration) -> Self {
        let milliseconds = i64::try_from(duration.as_millis()).unwrap_or(i64::MAX);
        Self { milliseconds: self.milliseconds.saturating_sub(milliseconds) }
    }
}

impl From<SystemTime> for UnixTime {
    fn from(time: SystemTime) -> Self {
        let milliseconds = match time.duration_since(UNIX_EPOCH) {
            Ok(after) => i64::try_from(after.as_millis()).unwrap_or(i64::MAX),
            Err(before) => {
                i64::try_from(before.duration().as_millis()).map_or(i64::MIN, |milliseconds| -milliseconds)
            }
        };
        Self { milliseconds }
    }
}

impl fmt::Display for UnixTime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ms", self.milliseconds)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn system_time_is_rounded_to_milliseconds_on_both_sides_of_the_epoch() {
        assert_eq!(UnixTime::from(UNIX_EPOCH + Duration::from_micros(1_999)).milliseconds(), 1);
        assert_eq!(UnixTime::from(UNIX_EPOCH - Duration::from_millis(3)).milliseconds(), -3);
    }

    #[test]
    fn subtraction_stops_at_the_earliest_instant() {
        assert_eq!(
            UnixTime::from_milliseconds(5).saturating_sub(Duration::from_millis(7)).milliseconds(),
            -2
        );
        assert_eq!(UnixTime::MIN.saturating_sub(Duration::MAX), UnixTime::MIN);
    }
}
