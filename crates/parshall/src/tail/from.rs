//! Where to begin.

use std::str::FromStr;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use connect::event::EnqueuedTime;
use connect::source::StartPosition;
use units::date::parse_iso_date;

/// Where to begin, as a person writes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum From {
    /// At the oldest.
    First,
    /// Behind the newest.
    End,
    /// At this sequence number, or offset of Kafka.
    Number(i64),
    /// At this instant, in milliseconds since the Unix epoch.
    Time(i64),
}

impl FromStr for From {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let unix_ms = |instant: SystemTime| {
            instant.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as i64)
        };
        Ok(match text {
            "first" => Self::First,
            "end" => Self::End,
            _ => match (text.parse(), parse_iso_date(text), ago(text)) {
                (Ok(number), ..) if number >= 0 => Self::Number(number),
                (_, Some(instant), _) => Self::Time(unix_ms(instant)),
                (.., Some(ago)) => {
                    Self::Time(unix_ms(SystemTime::now().checked_sub(ago).unwrap_or(UNIX_EPOCH)))
                }
                _ => {
                    return Err("it is none of `first`, `end`, a sequence number, an instant such as \
                                2026-11-23T14:00:00Z, or a time ago such as `5 min`"
                        .to_owned());
                }
            },
        })
    }
}

fn ago(text: &str) -> Option<Duration> {
    units::duration::parse(text).ok()
}

impl From {
    /// The same for a log; `end` is where it ended when that was asked.
    pub(super) fn position(self, end: i64) -> StartPosition {
        match self {
            Self::First => StartPosition::Earliest,
            // Not "latest": what comes while a connection is made again would be left out.
            Self::End => StartPosition::AfterSequenceNumber(end),
            Self::Number(number) => StartPosition::AtSequenceNumber(number),
            Self::Time(unix_ms) => StartPosition::AtEnqueuedTime(EnqueuedTime::from_unix_ms(unix_ms)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_beginning_is_a_word_a_number_or_a_time() {
        assert_eq!("first".parse(), Ok(From::First));
        assert_eq!("end".parse(), Ok(From::End));
        assert_eq!("42".parse(), Ok(From::Number(42)));
        assert_eq!("2023-11-14T22:13:20Z".parse(), Ok(From::Time(1_700_000_000_000)));
        assert!(matches!("5 min".parse(), Ok(From::Time(time)) if time > 1_700_000_000_000));
        for wrong in ["-1", "yesterday", ""] {
            assert!(wrong.parse::<From>().is_err(), "{wrong}");
        }
    }
}
