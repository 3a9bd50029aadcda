//! Instants as people and JSON write them.

use std::time::{SystemTime, UNIX_EPOCH};

/// An instant as RFC 3339 in UTC with whole seconds, as in `2024-02-29T12:34:56Z`. Instants before 1970 are
/// written as its beginning.
#[must_use]
pub fn utc_timestamp(instant: SystemTime) -> String {
    let seconds = instant
        .duration_since(UNIX_EPOCH)
        .map_or(0, |since| since.as_secs());
    let (year, month, day) = civil_date(seconds / SECONDS_PER_DAY);
    let of_day = seconds % SECONDS_PER_DAY;
    let (hour, minute, second) = (of_day / 3600, of_day / 60 % 60, of_day % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}Z")
}

/// Year, month and day of the Gregorian calendar, from the number of days since 1970-01-01.
fn civil_date(days_since_1970: u64) -> (u64, u64, u64) {
    let mut year = 1970 + days_since_1970 / DAYS_PER_400_YEARS * 400;
    let mut day = days_since_1970 % DAYS_PER_400_YEARS;
    while day >= days_of_year(year) {
        day -= days_of_year(year);
        year += 1;
    }
    let mut month = 1;
    while day >= days_of_month(year, month) {
        day -= days_of_month(year, month);
        month += 1;
    }
    (year, month, day + 1)
}

fn is_leap_year(year: u64) -> bool {
    year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400))
}

fn days_of_year(year: u64) -> u64 {
    365 + u64::from(is_leap_year(year))
}

fn days_of_month(year: u64, month: u64) -> u64 {
    match month {
        2 => 28 + u64::from(is_leap_year(year)),
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

const SECONDS_PER_DAY: u64 = 86_400;
/// The calendar repeats after this many days, whatever the year it starts from.
const DAYS_PER_400_YEARS: u64 = 146_097;

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

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
            assert_eq!(
                utc_timestamp(UNIX_EPOCH + Duration::from_secs(seconds)),
                text
            );
        }
    }
}
