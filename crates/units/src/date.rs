//! Points in time as HTTP headers, shared access signatures, results and people write them.

use std::str::FromStr;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use time::{Date, Month, OffsetDateTime, PrimitiveDateTime, Time};

/// An instant as HTTP headers have it, cut to the second: `Fri, 20 Nov 2026 22:17:43 GMT`. What is before 1970 or after
/// 9999 is written as the nearest instant between.
#[must_use]
pub fn http_date(instant: SystemTime) -> String {
    httpdate::fmt_http_date(between_1970_and_9999(instant))
}

/// Reads the forms that HTTP allows for the date in a header. `None` for anything else.
#[must_use]
pub fn parse_http_date(text: &str) -> Option<SystemTime> {
    httpdate::parse_http_date(text).ok()
}

/// Reads the forms of ISO 8601 that shared access signatures may have, all in UTC: `2026-11-20`, `2026-11-20T23:21Z`,
/// `2026-11-20T23:21:07Z`, and with a fraction of a second, which is cut off. `None` for anything else.
#[must_use]
pub fn parse_iso_date(text: &str) -> Option<SystemTime> {
    let (date, time) = match text.split_once('T') {
        Some((date, time)) => (date, Some(time.strip_suffix('Z')?)),
        None => (text, None),
    };
    let [year, month, day] = date.split('-').collect::<Vec<_>>()[..] else {
        return None;
    };
    let month = Month::try_from(digits::<u8>(month, 2)?).ok()?;
    let date = Date::from_calendar_date(digits(year, 4)?, month, digits(day, 2)?).ok()?;
    let [hour, minute, second] = match time {
        None => [0; 3],
        Some(time) => match time.split(':').collect::<Vec<_>>()[..] {
            [hour, minute] => [digits(hour, 2)?, digits(minute, 2)?, 0],
            [hour, minute, second] => {
                let (second, fraction) = second.split_once('.').unwrap_or((second, "0"));
                let is_number =
                    |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
                if !is_number(fraction) {
                    return None;
                }
                [digits(hour, 2)?, digits(minute, 2)?, digits(second, 2)?]
            }
            _ => return None,
        },
    };
    let instant = PrimitiveDateTime::new(date, Time::from_hms(hour, minute, second).ok()?);
    (date.year() >= 1970).then(|| instant.assume_utc().into())
}

/// Reads the same forms, and keeps the fraction of a second, to the nanosecond.
#[must_use]
pub fn parse_iso_instant(text: &str) -> Option<SystemTime> {
    let second = parse_iso_date(text)?;
    let fraction = text.split_once('.').map_or("", |(_, fraction)| fraction.trim_end_matches('Z'));
    let digits = fraction.bytes().chain(std::iter::repeat(b'0')).take(9);
    let nanoseconds = digits.fold(0, |number, digit| number * 10 + u64::from(digit - b'0'));
    Some(second + Duration::from_nanos(nanoseconds))
}

/// An instant as RFC 3339 in UTC, cut to the millisecond: `2026-11-20T23:21:07.125Z`. What is before 1970 or after 9999 is written as
/// the nearest instant between.
#[must_use]
pub fn iso_instant(instant: SystemTime) -> String {
    let instant = between_1970_and_9999(instant);
    let millisecond = instant.duration_since(UNIX_EPOCH).unwrap_or_default().subsec_millis();
    let second = iso_date(instant);
    format!("{}.{millisecond:03}Z", second.trim_end_matches('Z'))
}

/// An instant as XML Schema has it, in UTC, cut to the millisecond, without zeros at the end of the fraction:
/// `2026-11-20T23:21:07.12Z`, `2026-11-20T23:21:07Z`. What is before 1970 or after 9999 is written as the nearest instant between.
#[must_use]
pub fn xml_date_time(instant: SystemTime) -> String {
    let text = iso_instant(instant);
    let digits = text.trim_end_matches('Z').trim_end_matches('0').trim_end_matches('.');
    format!("{digits}Z")
}

/// An instant as RFC 3339 in UTC, cut to the second: `2026-11-20T23:21:07Z`. What is before 1970 or after 9999 is written as
/// the nearest instant between.
#[must_use]
pub fn iso_date(instant: SystemTime) -> String {
    let instant = OffsetDateTime::from(between_1970_and_9999(instant));
    let (year, month, day) = instant.to_calendar_date();
    let (hour, minute, second) = instant.to_hms();
    format!("{year:04}-{:02}-{day:02}T{hour:02}:{minute:02}:{second:02}Z", u8::from(month))
}

/// The parts of an instant in UTC, as calendars and clocks have them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CivilTime {
    /// 1970 to 9999.
    pub year: u16,
    /// From 1.
    pub month: u8,
    /// From 1.
    pub day: u8,
    /// 0 to 23.
    pub hour: u8,
    /// 0 to 59.
    pub minute: u8,
    /// 0 to 59.
    pub second: u8,
    /// 0 to 999.
    pub millisecond: u16,
}

impl CivilTime {
    /// An instant in milliseconds since 1970. What is before that or after 9999 is the nearest instant between.
    #[must_use]
    pub fn of_unix_ms(unix_ms: i64) -> Self {
        let last = LAST_SECOND.as_secs().cast_signed() * 1_000 + 999;
        let unix_ms = unix_ms.clamp(0, last);
        let instant =
            OffsetDateTime::from_unix_timestamp(unix_ms / 1_000).unwrap_or(OffsetDateTime::UNIX_EPOCH);
        let (year, month, day) = instant.to_calendar_date();
        let (hour, minute, second) = instant.to_hms();
        // Years up to 9999 and milliseconds of a second.
        let (year, millisecond) = (year as u16, (unix_ms % 1_000) as u16);
        Self { year, month: month.into(), day, hour, minute, second, millisecond }
    }
}

/// Exactly so many digits.
fn digits<N: FromStr>(text: &str, count: usize) -> Option<N> {
    (text.len() == count && text.bytes().all(|byte| byte.is_ascii_digit())).then(|| text.parse().ok())?
}

fn between_1970_and_9999(instant: SystemTime) -> SystemTime {
    instant.clamp(UNIX_EPOCH, UNIX_EPOCH + LAST_SECOND)
}

/// 9999-12-31T23:59:59Z.
const LAST_SECOND: Duration = Duration::from_secs(253_402_300_799);

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn at(seconds: u64) -> SystemTime {
        UNIX_EPOCH + Duration::from_secs(seconds)
    }

    #[test]
    fn known_dates_are_written_and_read() {
        for (seconds, text) in [
            (0, "Thu, 01 Jan 1970 00:00:00 GMT"),
            (951_782_400, "Tue, 29 Feb 2000 00:00:00 GMT"),
            (1_795_213_063, "Fri, 20 Nov 2026 22:17:43 GMT"),
            (4_107_542_399, "Sun, 28 Feb 2100 23:59:59 GMT"),
        ] {
            assert_eq!(http_date(at(seconds)), text);
            assert_eq!(parse_http_date(text), Some(at(seconds)));
        }
        for (text, seconds) in [
            ("2026-11-20", 1_795_132_800),
            ("2026-11-20T22:17Z", 1_795_213_020),
            ("2026-11-20T22:17:43Z", 1_795_213_063),
            ("2026-11-20T22:17:43.1234567Z", 1_795_213_063),
        ] {
            assert_eq!(parse_iso_date(text), Some(at(seconds)), "{text}");
        }
    }

    #[test]
    fn known_instants_are_written_as_the_calendar_has_them() {
        for (milliseconds, text) in [(0, "1970-01-01T00:00:00Z"), (10_120, "1970-01-01T00:00:10.12Z")] {
            assert_eq!(xml_date_time(UNIX_EPOCH + Duration::from_millis(milliseconds)), text);
        }
        for (seconds, text) in [
            (0, "1970-01-01T00:00:00Z"),
            (951_782_399, "2000-02-28T23:59:59Z"),
            (951_782_400, "2000-02-29T00:00:00Z"),
            (1_709_210_096, "2024-02-29T12:34:56Z"),
            (1_735_689_599, "2024-12-31T23:59:59Z"),
            (4_107_542_400, "2100-03-01T00:00:00Z"),
            (32_503_680_000, "3000-01-01T00:00:00Z"),
        ] {
            assert_eq!(iso_date(at(seconds)), text);
        }
    }

    #[test]
    fn an_instant_has_the_parts_that_a_calendar_gives_it() {
        let of = |unix_ms| {
            let CivilTime { year, month, day, hour, minute, second, millisecond } =
                CivilTime::of_unix_ms(unix_ms);
            format!("{year}-{month}-{day} {hour}:{minute}:{second}.{millisecond}")
        };
        assert_eq!(of(1_709_210_096_007), "2024-2-29 12:34:56.7");
        assert_eq!(of(-1), "1970-1-1 0:0:0.0");
        assert_eq!(of(i64::MAX), "9999-12-31 23:59:59.999");
    }

    #[test]
    fn what_is_no_date_is_none() {
        for text in [
            "",
            "Fri, 20 Nov 2026",
            "Fri, 31 Feb 2026 00:00:00 GMT",
            "Fri, 20 Nov 2026 24:00:00 GMT",
            "Fri, 20 Nov 2026 22:17:43 CET",
            "Fri, 20 nov 2026 22:17:43 GMT",
            "Fri, +2 Nov 2026 22:17:43 GMT",
            "Fri, 20 Nov 1969 22:17:43 GMT",
        ] {
            assert_eq!(parse_http_date(text), None, "{text}");
        }
        for text in [
            "2026-11-20T22:17:43",
            "2026-13-01",
            "2026-00-01",
            "2026-11-00",
            "2026-11-20T22Z",
            "2026-11-20T22:17:43.Z",
            "99999-11-20",
        ] {
            assert_eq!(parse_iso_date(text), None, "{text}");
        }
    }

    proptest! {
        #[test]
        fn every_second_comes_back(seconds in 0_u64..253_402_300_799) {
            prop_assert_eq!(parse_http_date(&http_date(at(seconds))), Some(at(seconds)));
            prop_assert_eq!(parse_iso_date(&iso_date(at(seconds))), Some(at(seconds)));
        }

        #[test]
        fn every_millisecond_comes_back(milliseconds in 0_u64..253_402_300_799_000) {
            let instant = UNIX_EPOCH + Duration::from_millis(milliseconds);
            prop_assert_eq!(parse_iso_instant(&iso_instant(instant)), Some(instant));
            prop_assert_eq!(parse_iso_instant(&xml_date_time(instant)), Some(instant));
        }

        #[test]
        fn whatever_is_read_as_an_instant_is_a_date(text: String) {
            prop_assert_eq!(parse_iso_instant(&text).is_some(), parse_iso_date(&text).is_some());
        }

        #[test]
        fn no_text_panics(text in "\\PC{0,40}", date in "[0-9TZ:.-]{0,24}") {
            let _ = (parse_http_date(&text), parse_iso_date(&text), parse_iso_date(&date));
        }
    }
}
