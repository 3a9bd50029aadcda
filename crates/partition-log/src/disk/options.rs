//! How durable logs are kept.

use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;
use std::time::Duration;
use units::{ByteSize, duration};

/// Settings of all durable logs of a service.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct StorageOptions {
    /// When written events are made safe against a power cut.
    pub sync: SyncPolicy,
    /// How many bytes of segments that are completely on disk are kept in memory as well, over all partitions. The
    /// segments being written come on top of it.
    pub resident: ByteSize,
}

/// When the operating system is told to bring written events to the device. In YAML `always`, `os` or
/// `{interval: 50 ms}`. The module's table says what each promises.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SyncPolicy {
    /// Before every acknowledgement; whatever arrives during one sync shares the next.
    Always,
    /// At most this long after they were written, and a sync takes its time.
    Interval(#[serde(with = "duration")] Duration),
    /// Whenever it likes.
    Os,
}

/// A text that names no policy.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{text:?} is not one of always, interval, os, or a duration such as 50 ms")]
pub struct SyncPolicyError {
    text: String,
}

impl SyncPolicy {
    /// The interval where none is named.
    pub const DEFAULT_INTERVAL: Duration = Duration::from_millis(50);
}

impl Default for StorageOptions {
    /// Synced every 50 ms, 256 MiB kept in memory.
    fn default() -> Self {
        Self { sync: SyncPolicy::default(), resident: ByteSize::from_mebibytes(256) }
    }
}

impl Default for SyncPolicy {
    fn default() -> Self {
        Self::Interval(Self::DEFAULT_INTERVAL)
    }
}

/// Reads what a command line has: `always`, `os`, `interval` for the default one, or the interval itself (`20 ms`).
impl FromStr for SyncPolicy {
    type Err = SyncPolicyError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "always" => Ok(Self::Always),
            "os" => Ok(Self::Os),
            "interval" => Ok(Self::default()),
            _ => match duration::parse(text) {
                Ok(interval) if !interval.is_zero() => Ok(Self::Interval(interval)),
                Ok(_) | Err(_) => Err(SyncPolicyError { text: text.to_owned() }),
            },
        }
    }
}

impl fmt::Display for SyncPolicy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Always => f.write_str("always"),
            Self::Interval(interval) => f.write_str(&duration::text(*interval)),
            Self::Os => f.write_str("os"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_policy_reads_what_it_prints() {
        for policy in [SyncPolicy::Always, SyncPolicy::default(), SyncPolicy::Os] {
            assert_eq!(policy.to_string().parse(), Ok(policy));
        }
        assert_eq!("interval".parse(), Ok(SyncPolicy::default()));
        for text in ["", "never", "0 ms", "50"] {
            assert!(text.parse::<SyncPolicy>().is_err(), "{text:?}");
        }
    }

    #[test]
    fn options_read_the_documented_form_and_nothing_else() {
        let read = |text: &str| serde_json::from_str::<StorageOptions>(text);
        assert_eq!(read("{}").unwrap(), StorageOptions::default());
        let options = read(r#"{"sync": {"interval": "20 ms"}, "resident": "1 MiB"}"#).unwrap();
        assert_eq!(
            options,
            StorageOptions {
                sync: SyncPolicy::Interval(Duration::from_millis(20)),
                resident: ByteSize::from_mebibytes(1),
            }
        );
        assert_eq!(read(r#"{"sync": "always"}"#).unwrap().sync, SyncPolicy::Always);
        assert_eq!(read(r#"{"sync": "os"}"#).unwrap().sync, SyncPolicy::Os);
        assert!(read(r#"{"sync": "never"}"#).is_err());
        assert!(read(r#"{"fsync": "os"}"#).is_err());
    }
}
