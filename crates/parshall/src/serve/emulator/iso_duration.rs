//! Durations as ISO 8601 writes them: `PT1M`, `P1DT12H`. A month counts 30 days and a year 365, as in .NET.

use std::fmt;
use std::time::Duration;

use serde::de::{Deserialize, Deserializer, Visitor};

/// A duration in a file of the emulator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct IsoDuration(pub(super) Duration);

impl IsoDuration {
    /// Reads a duration; `None` where the text is none, or is longer than can be counted.
    fn parse(text: &str) -> Option<Self> {
        let text = text.strip_prefix('P')?;
        let (date, time) = match text.split_once('T') {
            Some((date, time)) if !time.is_empty() => (date, time),
            Some(_) => return None,
            None => (text, ""),
        };
        if date.is_empty() && time.is_empty() {
            return None;
        }
        let day = 24 * 3600;
        let date = seconds(date, &[('Y', 365 * day), ('M', 30 * day), ('D', day)])?;
        let time = seconds(time, &[('H', 3600), ('M', 60), ('S', 1)])?;
        date.checked_add(time).map(Self)
    }
}

impl<'de> Deserialize<'de> for IsoDuration {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_str(IsoDurationVisitor)
    }
}

struct IsoDurationVisitor;

impl Visitor<'_> for IsoDurationVisitor {
    type Value = IsoDuration;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("an ISO 8601 duration, such as PT1M")
    }

    fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<IsoDuration, E> {
        IsoDuration::parse(text)
            .ok_or_else(|| E::custom(format!("{text:?} is not an ISO 8601 duration, such as PT1M")))
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_have_units_in_their_order() {
        let parsed = |text| IsoDuration::parse(text).map(|IsoDuration(duration)| duration);
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
            assert_eq!(parsed(text), Some(expected), "{text}");
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
            assert_eq!(parsed(text), None, "{text}");
        }
    }
}
