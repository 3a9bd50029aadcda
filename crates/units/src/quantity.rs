//! The shape that all quantities share: a decimal number, perhaps a space, a unit.
//!
//! Numbers are kept as decimal digits and a scale, never as floating point, so that `0.1 s` is exactly
//! 100 000 000 ns and an amount that is not a whole number of base units is noticed instead of rounded.

/// A non-negative decimal number: `digits` divided by ten to the power of `scale`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Decimal {
    digits: u128,
    scale: u32,
}

impl Decimal {
    /// The number of base units in `self` units of `unit` base units each; `None` where that is no whole number or
    /// exceeds 64 bits.
    pub(crate) fn times(self, unit: u64) -> Option<u64> {
        let scaled = self.digits.checked_mul(u128::from(unit))?;
        let divisor = 10_u128.checked_pow(self.scale)?;
        if !scaled.is_multiple_of(divisor) {
            return None;
        }
        u64::try_from(scaled / divisor).ok()
    }
}

/// Splits `text` into its number and its unit, which is empty where none is written. Digits may be grouped by `_`.
pub(crate) fn split(text: &str) -> Option<(Decimal, &str)> {
    let text = text.trim();
    let end = text.find(|c: char| !(c.is_ascii_digit() || c == '.' || c == '_')).unwrap_or(text.len());
    let (number, unit) = text.split_at(end);
    let (whole, fraction) = number.split_once('.').unwrap_or((number, "0"));
    if !starts_and_ends_with_digit(whole) || !starts_and_ends_with_digit(fraction) {
        return None;
    }
    let mut decimal = Decimal { digits: 0, scale: 0 };
    for (part, scale) in [(whole, 0), (fraction, 1)] {
        for digit in part.bytes().filter(u8::is_ascii_digit) {
            decimal.digits = decimal.digits.checked_mul(10)?.checked_add(u128::from(digit - b'0'))?;
            decimal.scale += scale;
        }
    }
    Some((decimal, unit.trim_start()))
}

fn starts_and_ends_with_digit(part: &str) -> bool {
    let bytes = part.as_bytes();
    bytes.first().is_some_and(u8::is_ascii_digit)
        && bytes.last().is_some_and(u8::is_ascii_digit)
        && !part.contains('.')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_is_split_from_its_unit_with_and_without_a_space() {
        for text in ["12KiB", "12 KiB", " 12  KiB "] {
            let (number, unit) = split(text).unwrap();
            assert_eq!((number.times(1), unit), (Some(12), "KiB"), "{text:?}");
        }
    }

    #[test]
    fn decimals_are_exact() {
        assert_eq!(split("0.1").unwrap().0.times(1_000_000_000), Some(100_000_000));
        assert_eq!(split("1.5").unwrap().0.times(1024), Some(1536));
        assert_eq!(split("1.0001").unwrap().0.times(1024), None);
        assert_eq!(split("10_000").unwrap().0.times(1), Some(10_000));
    }

    #[test]
    fn what_is_no_number_is_refused() {
        for text in ["", "KiB", ".5", "5.", "1..2", "1.2.3", "_1", "1_", "-1", "+1", "1_.5"] {
            assert_eq!(split(text), None, "{text:?}");
        }
    }

    #[test]
    fn numbers_too_large_for_the_type_are_refused_without_overflow() {
        assert_eq!(split(&"9".repeat(100)), None);
        assert_eq!(split("18446744073709551616").unwrap().0.times(1), None);
        assert_eq!(split("18446744073709551615").unwrap().0.times(1), Some(u64::MAX));
    }
}
