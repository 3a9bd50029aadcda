//! Points in time as HTTP headers, shared access signatures, results and people write them.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// An instant as HTTP headers have it, cut to the second: `Fri, 20 Nov 2026 22:17:43 GMT`. Before 1970 it is 1970.
#[must_use]
pub fn http_date(instant: SystemTime) -> String {
    let seconds = instant.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
    let (days, of_day) = (seconds / DAY_S, seconds % DAY_S);
    let (year, month, day) = civil(days);
    let weekday = WEEKDAYS[(days % 7) as usize];
    format!(
        "{weekday}, {day:02} {} {year:04} {:02}:{:02}:{:02} GMT",
        MONTHS[month as usize - 1],
        of_day / 3600,
        of_day / 60 % 60,
        of_day % 60
    )
}

/// Reads what [`http_date`] writes; of the weekday only the form counts. `None` for anything else.
#[must_use]
pub fn parse_http_date(text: &str) -> Option<SystemTime> {
    let (_, rest) = text.trim().split_once(", ")?;
    let [day, month, year, time, "GMT"] = rest.split(' ').collect::<Vec<_>>()[..] else {
        return None;
    };
    let month = MONTHS.iter().position(|name| *name == month)? as u64 + 1;
    let [hour, minute, second] = time.split(':').collect::<Vec<_>>()[..] else {
        return None;
    };
    instant(
        [digits(year, 4)?, month, digits(day, 2)?],
        [digits(hour, 2)?, digits(minute, 2)?, digits(second, 2)?],
    )
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
    let date = [digits(year, 4)?, digits(month, 2)?, digits(day, 2)?];
    let time = match time {
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
    instant(date, time)
}

/// An instant as RFC 3339 in UTC, cut to the second: `2026-11-20T23:21:07Z`. Before 1970 it is 1970.
#[must_use]
pub fn iso_date(instant: SystemTime) -> String {
    let seconds = instant.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
    let (year, month, day) = civil(seconds / DAY_S);
    let of_day = seconds % DAY_S;
    format!("{year:04}-{month:02}-{day:02}T{:02}:{:02}:{:02}Z", of_day / 3600, of_day / 60 % 60, of_day % 60)
}

/// Exactly so many digits.
fn digits(text: &str, count: usize) -> Option<u64> {
    (text.len() == count && text.bytes().all(|byte| byte.is_ascii_digit())).then(|| text.parse().ok())?
}

fn instant([year, month, day]: [u64; 3], [hour, minute, second]: [u64; 3]) -> Option<SystemTime> {
    if hour > 23 || minute > 59 || second > 60 || !(1970..=9999).contains(&year) {
        return None;
    }
    let days = days_since_1970(year, month, day);
    // What the calendar does not have comes back as another day.
    if civil(days) != (year, month, day) {
        return None;
    }
    let seconds = days * DAY_S + hour * 3600 + minute * 60 + second;
    UNIX_EPOCH.checked_add(Duration::from_secs(seconds))
}

/// Days from 1970 on; `month` and `day` count from 1. The year begins in March here, so that the leap day is its last.
fn days_since_1970(year: u64, month: u64, day: u64) -> u64 {
    let year = if month <= 2 { year - 1 } else { year };
    let month_from_march = (month + 9) % 12;
    let day_of_year = (153 * month_from_march + 2) / 5 + day;
    (365 * year + year / 4 - year / 100 + year / 400 + day_of_year).saturating_sub(DAYS_TO_1970 + 1)
}

/// Year, month and day of the day so many days after 1970-01-01.
fn civil(days: u64) -> (u64, u64, u64) {
    let days = days + DAYS_TO_1970;
    let era = days / 146_097;
    let of_era = days % 146_097;
    let year_of_era = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * of_year + 2) / 153;
    let day = of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
    let year = era * 400 + year_of_era + u64::from(month <= 2);
    (year, month, day)
}

const DAY_S: u64 = 24 * 3600;

/// From 0000-03-01 to 1970-01-01.
const DAYS_TO_1970: u64 = 719_468;

/// 1970 began with a Thursday.
const WEEKDAYS: [&str; 7] = ["Thu", "Fri", "Sat", "Sun", "Mon", "Tue", "Wed"];

const MONTHS: [&str; 12] =
    ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];

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
        fn no_text_panics(text in "\\PC{0,40}", date in "[0-9TZ:.-]{0,24}") {
            let _ = (parse_http_date(&text), parse_iso_date(&text), parse_iso_date(&date));
        }
    }
}
