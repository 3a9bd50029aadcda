//! What a log may hold, and what happens beyond that.

use serde::{Deserialize, Serialize};
use std::time::Duration;
use units::{ByteSize, duration};

/// The bounds of one partition's log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct LogLimits {
    /// How many bytes of batches the log may hold. With [`WhenFull::Retention`] it may hold one segment more
    /// (an eighth of this, and never more than 4 MiB), because whole segments are dropped and never the one that
    /// is being written.
    pub bytes: ByteSize,
    /// What an append that would go beyond `bytes` gets.
    pub when_full: WhenFull,
    /// How long records are kept; for ever, if `None`. They go by whole segments, so later rather than sooner.
    #[serde(with = "duration::optional", skip_serializing_if = "Option::is_none")]
    pub retention: Option<Duration>,
}

/// What a full log does with an append.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum WhenFull {
    /// Drops the oldest segments to make room. A reader who was still there learns how much it missed.
    Retention,
    /// Refuses the append, until retention by time has made room.
    Throttle,
}

impl LogLimits {
    /// The `bytes` of a log that has no limit of its own.
    pub const UNLIMITED: ByteSize = ByteSize::from_bytes(u64::MAX);

    /// The largest ordinary block of a log with these limits: a power of two, at most an eighth of the bound so
    /// that dropping one segment drops little, and at most [`LARGEST_BLOCK`].
    pub fn largest_block(&self) -> usize {
        let eighth = (self.bytes.bytes() / 8).min(LARGEST_BLOCK as u64);
        // At most LARGEST_BLOCK, so it fits; rounded down to a power of two.
        let eighth = eighth as usize;
        match eighth.checked_ilog2() {
            Some(exponent) => (1 << exponent).max(SMALLEST_BLOCK),
            None => SMALLEST_BLOCK,
        }
    }
}

impl Default for LogLimits {
    /// 64 MiB per partition, the oldest records making room, no bound in time.
    fn default() -> Self {
        Self { bytes: ByteSize::from_mebibytes(64), when_full: WhenFull::Retention, retention: None }
    }
}

/// A log's first block: small, because a namespace may have thousands of partitions with a few events each.
/// Each next one is twice as large.
pub(crate) const SMALLEST_BLOCK: usize = 64 * 1024;

/// Two huge pages. Larger blocks would save nothing and make retention coarse.
pub(crate) const LARGEST_BLOCK: usize = 4 * 1024 * 1024;

const _: () = assert!(SMALLEST_BLOCK.is_power_of_two() && LARGEST_BLOCK.is_power_of_two());

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_are_powers_of_two_within_an_eighth_of_the_bound() {
        let largest =
            |bytes| LogLimits { bytes: ByteSize::from_bytes(bytes), ..LogLimits::default() }.largest_block();
        assert_eq!(largest(0), SMALLEST_BLOCK);
        assert_eq!(largest(u64::MAX), LARGEST_BLOCK);
        assert_eq!(largest(10 << 20), 1 << 20);
    }
}
