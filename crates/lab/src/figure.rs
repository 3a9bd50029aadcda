//! Figures as people read them. Findings, progress and every report format through these functions, so that
//! one value looks the same wherever it stands.

/// A whole number with thousands separators: `1,234,567`.
#[must_use]
pub fn count(value: u64) -> String {
    let digits = value.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// Events per second: whole from 100 on, with one decimal below.
#[must_use]
pub fn rate(value: f64) -> String {
    if value < 99.95 { format!("{value:.1}") } else { count(value.round() as u64) }
}

/// A share in percent, without its sign: `97.3`.
#[must_use]
pub fn percent(value: f64) -> String {
    format!("{value:.1}")
}

/// Bytes with a binary prefix and three significant digits: `41.2 MiB`.
#[must_use]
pub fn bytes(value: f64) -> String {
    scaled(value, 1024.0, &["B", "KiB", "MiB", "GiB", "TiB"])
}

/// A time in microseconds with the unit that fits and three significant digits: `850 µs`, `1.24 ms`, `12.3 s`.
#[must_use]
pub fn duration_us(value: f64) -> String {
    scaled(value, 1000.0, &["µs", "ms", "s"])
}

/// A measured figure over a published one: `177×`, `1.45×`.
#[must_use]
pub fn ratio(value: f64) -> String {
    if value >= 99.95 {
        format!("{}×", count(value.round() as u64))
    } else if value >= 9.995 {
        format!("{value:.1}×")
    } else {
        format!("{value:.2}×")
    }
}

/// A short number for an axis: `2.5 M`, `300 k`, `12`.
#[must_use]
pub fn compact(value: f64) -> String {
    let (value, suffix) = match value.abs() {
        size if size >= 1e9 => (value / 1e9, " G"),
        size if size >= 1e6 => (value / 1e6, " M"),
        size if size >= 1e3 => (value / 1e3, " k"),
        _ => (value, ""),
    };
    format!("{}{suffix}", short(value))
}

/// A time in microseconds for an axis, without needless decimals: `500 µs`, `1 ms`.
#[must_use]
pub fn compact_duration_us(value: f64) -> String {
    let (value, unit) = scale(value, 1000.0, &["µs", "ms", "s"]);
    format!("{} {unit}", short(value))
}

/// An amount of money with three significant digits: `0.00123`, `12.3`.
#[must_use]
pub fn price(value: f64) -> String {
    significant(value)
}

/// A number with three significant digits: `0.00123`, `12.3`, `1234`.
#[must_use]
pub fn significant(value: f64) -> String {
    if value == 0.0 {
        return "0".to_owned();
    }
    let digits = (2 - value.abs().log10().floor() as i32).clamp(0, 12);
    format!("{value:.*}", digits.unsigned_abs() as usize)
}

/// `1 event`, `2 events`: a count with its noun.
#[must_use]
pub fn counted(value: u64, singular: &str, plural: &str) -> String {
    let noun = if value == 1 { singular } else { plural };
    format!("{} {noun}", count(value))
}

fn scaled(value: f64, factor: f64, units: &[&str]) -> String {
    let (value, unit) = scale(value, factor, units);
    // The smallest unit is a whole number as measured, or a mean of such.
    let decimals = match value.abs() {
        _ if unit == units[0] && (value.fract() == 0.0 || value >= 99.5) => 0,
        size if size >= 99.95 => 0,
        size if size >= 9.995 => 1,
        _ => 2,
    };
    format!("{value:.decimals$} {unit}")
}

fn scale<'a>(value: f64, factor: f64, units: &[&'a str]) -> (f64, &'a str) {
    let mut value = value;
    let mut unit = units[0];
    for larger in &units[1..] {
        // 999.6 would print as 1000 of the smaller unit.
        if value.abs() < factor - 0.5 {
            break;
        }
        value /= factor;
        unit = larger;
    }
    (value, unit)
}

/// Up to two decimals, without trailing zeros.
fn short(value: f64) -> String {
    let text = format!("{value:.2}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prices_have_three_significant_digits_however_small() {
        let texts = [0.0, 0.001_234_5, 0.012, 1.05, 12.345, 1234.5].map(price);
        assert_eq!(texts, ["0", "0.00123", "0.0120", "1.05", "12.3", "1234"]);
    }

    #[test]
    fn thousands_are_separated() {
        assert_eq!([0, 12, 999, 1_000, 1_234_567].map(count), ["0", "12", "999", "1,000", "1,234,567"]);
        assert_eq!(count(u64::MAX), "18,446,744,073,709,551,615");
    }

    #[test]
    fn rates_have_a_decimal_only_while_they_are_small() {
        assert_eq!([0.0, 3.25, 99.94, 99.96, 11_859.4].map(rate), ["0.0", "3.2", "99.9", "100", "11,859"]);
    }

    #[test]
    fn sizes_and_times_take_the_unit_that_fits() {
        assert_eq!([0.0, 512.0, 1024.0, 43_201_331.0].map(bytes), ["0 B", "512 B", "1.00 KiB", "41.2 MiB"]);
        assert_eq!(bytes(1_073_741_824.0), "1.00 GiB");
        assert_eq!(
            [7.0, 12.345, 850.0, 999.6, 1_240.0, 12_300_000.0].map(duration_us),
            ["7 µs", "12.3 µs", "850 µs", "1.00 ms", "1.24 ms", "12.3 s"]
        );
        assert_eq!(duration_us(4_000_000_000.0), "4000 s");
    }

    #[test]
    fn ratios_keep_three_digits() {
        assert_eq!(
            [0.031, 1.449, 14.51, 177.4, 1_204.0].map(ratio),
            ["0.03×", "1.45×", "14.5×", "177×", "1,204×"]
        );
    }

    #[test]
    fn axes_get_short_numbers() {
        assert_eq!([0.0, 12.0, 2_500_000.0, 300_000.0].map(compact), ["0", "12", "2.5 M", "300 k"]);
        assert_eq!(compact_duration_us(500.0), "500 µs");
    }
}
