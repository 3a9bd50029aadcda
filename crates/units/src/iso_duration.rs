//! Durations as ISO 8601 writes them: `PT1M`, `P1DT12H`. A month counts 30 days and a year 365, as in .NET.

use std::fmt::Write as _;
use std::time::Duration;

/// Reads a duration; `None` where the text is none, or is longer than can be counted.
#[must_use]
pub fn parse(text: &str) -> Option<Duration> {
    let text = text.strip_prefix('P')?;
    let (date, time) = match text.split_once('T') {
        Some((date, time)) if !time.is_empty() => (date, time),
        Some(_) => return None,
        None => (text, ""),
    };
    if date.is_empty() && time.is_empty() {
        return None;
    }
    let date = seconds(date, &[('Y', 365 * DAY), ('M', 30 * DAY), ('D', DAY)])?;
    let time = seconds(time, &[('H', 3600), ('M', 60), ('S', 1)])?;
    date.checked_add(time)
}

/// Writes a duration, as short as it can be said in days, hours, minutes and seconds.
#[must_use]
pub fn text(duration: Duration) -> String {
    let total = duration.as_secs();
    let (days, hours, minutes) = (total / DAY, total / 3_600 % 24, total / 60 % 60);
    let (seconds, nanoseconds) = (total % 60, duration.subsec_nanos());
    let mut text = String::from("P");
    let put = |text: &mut String, number: u64, unit: char| {
        if number > 0 {
            let _ = write!(text, "{number}{unit}");
        }
    };
    put(&mut text, days, 'D');
    if !total.is_multiple_of(DAY) || nanoseconds > 0 || days == 0 {
        text.push('T');
    }
    put(&mut text, hours, 'H');
    put(&mut text, minutes, 'M');
    if nanoseconds > 0 {
        let fraction = format!("{nanoseconds:09}");
        let _ = write!(text, "{seconds}.{}S", fraction.trim_end_matches('0'));
    } else if seconds > 0 || total == 0 {
        let _ = write!(text, "{seconds}S");
    }
    text
}

/// Numbers with units, each at most once and in this order. Only seconds have a fraction.
fn seconds(mut text: &str, units: &[(char, u64)]) -> Option<Duration> {
    let mut total = Duration::ZERO;
    for &(unit, seconds) in units {
        let Some((number, rest)) = text.split_once(unit) else {
            continue;
        };
        let (whole, fraction) = match number.split_once('.') {
            Some((whole, fraction)) if unit == 'S' => (whole, fraction),
            Some(_) => return None,
            None => (number, ""),
        };
        let is_number = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
        if whole.is_empty() || !is_number(whole) || !is_number(fraction) || fraction.len() > 9 {
            return None;
        }
        let nanoseconds: u64 = format!("{fraction:0<9}").parse().ok()?;
        let amount = Duration::from_secs(whole.parse::<u64>().ok()?.checked_mul(seconds)?);
        total = total.checked_add(amount)?.checked_add(Duration::from_nanos(nanoseconds))?;
        text = rest;
    }
    text.is_empty().then_some(total)
}

/// In seconds.
const DAY: u64 = 24 * 3600;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn durations_have_units_in_their_order() {
        for (text, expected) in [
            ("PT1M", Duration::from_secs(60)),
            ("PT1H", Duration::from_secs(3600)),
            ("PT20S", Duration::from_secs(20)),
            ("PT0.25S", Duration::from_millis(250)),
            ("PT1H2M3S", Duration::from_secs(3723)),
            ("P1D", Duration::from_secs(86_400)),
            ("P1Y2M3DT4H", Duration::from_secs(((365 + 60 + 3) * 24 + 4) * 3600)),
            ("P1M", Duration::from_secs(30 * 86_400)),
        ] {
            assert_eq!(parse(text), Some(expected), "{text}");
        }
        for text in [
            "",
            "P",
            "PT",
            "P1DT",
            "1M",
            "PT1",
            "PT1X",
            "PTM",
            "PT1S1M",
            "PT-1S",
            "PT1.5M",
            "PT+1S",
            "P99999999999999999999D",
            "PT18446744073709551615H",
            "01:00:00",
        ] {
            assert_eq!(parse(text), None, "{text}");
        }
    }

    #[test]
    fn durations_are_written_without_what_is_zero() {
        for (seconds, expected) in [
            (0.0, "PT0S"),
            (60.0, "PT1M"),
            (86_400.0, "P1D"),
            (90_061.5, "P1DT1H1M1.5S"),
            (0.25, "PT0.25S"),
            (3_605.0, "PT1H5S"),
        ] {
            assert_eq!(text(Duration::from_secs_f64(seconds)), expected);
        }
        let longest = "P10675199DT2H48M5.4775807S";
        assert_eq!(text(parse(longest).unwrap()), longest);
    }

    proptest! {
        #[test]
        fn what_is_written_reads_back(seconds in 0..=1_u64 << 50, nanoseconds in 0..1_000_000_000_u32) {
            let duration = Duration::new(seconds, nanoseconds);
            prop_assert_eq!(parse(&text(duration)), Some(duration));
        }
    }
}
