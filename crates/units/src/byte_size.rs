//! Amounts of bytes: payloads, buffers, memory limits.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

use crate::quantity;

/// A number of bytes. Written as `16 B`, `64KiB` or `1.5 GB`; a bare whole number counts bytes.
///
/// Units are binary (`KiB`, `MiB`, `GiB`, `TiB`: powers of 1024) or decimal (`kB`, `MB`, `GB`, `TB`: powers of 1000).
///
/// ```
/// # use units::ByteSize;
/// let limit: ByteSize = "64KiB".parse()?;
/// assert_eq!(limit.bytes(), 65_536);
/// assert_eq!(limit.to_string(), "64 KiB");
/// # Ok::<(), units::ByteSizeError>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ByteSize(u64);

/// Why a text is no [`ByteSize`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ByteSizeError {
    /// The text does not have the shape of a number and a known unit.
    Malformed {
        /// The text as given.
        text: String,
    },
    /// The amount is not a whole number of bytes, or is 2^64 bytes or more.
    NotRepresentable {
        /// The text as given.
        text: String,
    },
}

impl ByteSize {
    /// No bytes at all.
    pub const ZERO: Self = Self(0);

    /// The size of `bytes` bytes.
    #[must_use]
    pub const fn from_bytes(bytes: u64) -> Self {
        Self(bytes)
    }

    /// The size of `kibibytes` times 1024 bytes; `u64::MAX` bytes where that is more than fits.
    #[must_use]
    pub const fn from_kibibytes(kibibytes: u64) -> Self {
        Self(kibibytes.saturating_mul(1 << 10))
    }

    /// The size of `mebibytes` times 1024² bytes; `u64::MAX` bytes where that is more than fits.
    #[must_use]
    pub const fn from_mebibytes(mebibytes: u64) -> Self {
        Self(mebibytes.saturating_mul(1 << 20))
    }

    /// The number of bytes.
    #[must_use]
    pub const fn bytes(self) -> u64 {
        self.0
    }

    /// The number of bytes as a length in memory; `usize::MAX` where the address space is smaller.
    #[must_use]
    pub fn as_usize(self) -> usize {
        usize::try_from(self.0).unwrap_or(usize::MAX)
    }

    /// Both sizes together, or `None` where that overflows.
    #[must_use]
    pub fn checked_add(self, other: Self) -> Option<Self> {
        self.0.checked_add(other.0).map(Self)
    }

    /// `count` times this size, or `None` where that overflows.
    #[must_use]
    pub fn checked_mul(self, count: u64) -> Option<Self> {
        self.0.checked_mul(count).map(Self)
    }

    /// The size to about three digits in a binary unit, for a table that is read by people: `117.7 MiB`.
    #[must_use]
    pub fn approximate(self) -> String {
        let Some(&(name, unit)) = BINARY.iter().find(|(_, unit)| self.0 >= *unit) else {
            return self.to_string();
        };
        format!("{:.1} {name}", self.0 as f64 / unit as f64)
    }
}

impl fmt::Display for ByteSize {
    /// The exact amount, in the unit that needs the smallest number; binary units win a tie.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let exact = |units: &[(&'static str, u64)]| {
            units.iter().find(|(_, unit)| self.0 >= *unit && self.0.is_multiple_of(*unit)).copied()
        };
        let (name, unit) = match (exact(&BINARY), exact(&DECIMAL)) {
            (Some(binary), Some(decimal)) if decimal.1 > binary.1 => decimal,
            (Some(binary), _) => binary,
            (None, Some(decimal)) => decimal,
            (None, None) => ("B", 1),
        };
        write!(formatter, "{} {name}", self.0 / unit)
    }
}

impl FromStr for ByteSize {
    type Err = ByteSizeError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let malformed = || ByteSizeError::Malformed { text: text.to_owned() };
        let (number, unit) = quantity::split(text).ok_or_else(malformed)?;
        let unit = match unit {
            "" | "B" => 1,
            // Both spellings of the decimal kilobyte are common; the standard's is with a small k.
            "KB" => 1000,
            name => BINARY
                .iter()
                .chain(&DECIMAL)
                .find(|(known, _)| *known == name)
                .map(|(_, unit)| *unit)
                .ok_or_else(malformed)?,
        };
        number.times(unit).map(Self).ok_or_else(|| ByteSizeError::NotRepresentable { text: text.to_owned() })
    }
}

impl Serialize for ByteSize {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for ByteSize {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visitor;

        impl de::Visitor<'_> for Visitor {
            type Value = ByteSize;

            fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str("a size such as `16 B`, `64 KiB` or `1 GB`")
            }

            fn visit_u64<E: de::Error>(self, bytes: u64) -> Result<ByteSize, E> {
                Ok(ByteSize(bytes))
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<ByteSize, E> {
                text.parse().map_err(E::custom)
            }
        }

        deserializer.deserialize_any(Visitor)
    }
}

impl fmt::Display for ByteSizeError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Malformed { text } => {
                write!(
                    formatter,
                    "`{text}` is not a size; write a number and a unit, such as `16 B`, `64 KiB` or `1 GB`"
                )
            }
            Self::NotRepresentable { text } => {
                write!(formatter, "`{text}` is not a whole number of bytes below 2^64")
            }
        }
    }
}

impl std::error::Error for ByteSizeError {}

/// Largest first, so that the first that fits is the one to print.
const BINARY: [(&str, u64); 4] = [("TiB", 1 << 40), ("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)];
const DECIMAL: [(&str, u64); 4] =
    [("TB", 1_000_000_000_000), ("GB", 1_000_000_000), ("MB", 1_000_000), ("kB", 1000)];

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn bytes(text: &str) -> u64 {
        text.parse::<ByteSize>().unwrap().bytes()
    }

    #[test]
    fn sizes_are_read_as_people_write_them() {
        assert_eq!(bytes("16 B"), 16);
        assert_eq!(bytes("1 KiB"), 1024);
        assert_eq!(bytes("64KiB"), 65_536);
        assert_eq!(bytes("1 MB"), 1_000_000);
        assert_eq!(bytes("1.5 GiB"), 1_610_612_736);
        assert_eq!(bytes("128"), 128);
        assert_eq!(bytes("8 KB"), bytes("8 kB"));
    }

    #[test]
    fn sizes_print_exactly_in_the_shortest_unit() {
        for text in ["0 B", "12 B", "1 KiB", "1536 B", "1 GB", "1 GiB", "16 GB", "1000 KiB"] {
            assert_eq!(text.parse::<ByteSize>().unwrap().to_string(), text);
        }
    }

    #[test]
    fn approximate_sizes_are_for_tables() {
        assert_eq!(ByteSize::from_bytes(123_456_789).approximate(), "117.7 MiB");
        assert_eq!(ByteSize::from_bytes(12).approximate(), "12 B");
    }

    #[test]
    fn what_is_no_size_is_refused_with_its_reason() {
        for text in ["", "KiB", "1 kib", "1 XB", "-1 B", "1 KiB/s"] {
            assert!(matches!(text.parse::<ByteSize>(), Err(ByteSizeError::Malformed { .. })), "{text:?}");
        }
        for text in ["0.5 B", "16777216 TiB", "1.0001 KiB"] {
            assert!(
                matches!(text.parse::<ByteSize>(), Err(ByteSizeError::NotRepresentable { .. })),
                "{text:?}"
            );
        }
    }

    proptest! {
        #[test]
        fn every_size_reads_back_as_it_was_printed(amount: u64) {
            let size = ByteSize::from_bytes(amount);
            prop_assert_eq!(size.to_string().parse(), Ok(size));
        }

        #[test]
        fn no_text_panics(text in ".{0,40}") {
            let _ = text.parse::<ByteSize>();
        }
    }
}
