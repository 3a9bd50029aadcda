//! Settings that clients have given to a hub, each as it was given.
//!
//! A setting that was not given is `None`; the hub's declaration or the service's default applies then. No setting changes
//! another: what they mean together is derived in one place, [`TopicSettings::limits`].

use std::collections::BTreeMap;
use std::time::Duration;

use partition_log::{LogLimits, WhenFull};
use serde::{Deserialize, Serialize};
use units::ByteSize;

/// The settings that clients have given to one hub.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct TopicSettings {
    /// What happens to old events.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cleanup_policy: Option<CleanupPolicy>,
    /// How long events are retained.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retention_time: Option<Bound<Duration>>,
    /// Bytes that each partition retains.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retention_bytes: Option<Bound<ByteSize>>,
    /// The largest batch that a client of Kafka may send.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub largest_batch: Option<ByteSize>,
    /// Where the timestamps of records come from that clients of Kafka send.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timestamp_type: Option<TimestampType>,
    /// Settings that are stored and described without an effect on the service: names and values.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub without_effect: BTreeMap<String, String>,
}

/// What happens to events that are older or more than retention allows, in the order in which a client named it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum CleanupPolicy {
    /// Retention deletes them.
    #[serde(rename = "delete")]
    Delete,
    /// The latest event of each key stays. Retention by time and bytes does not apply.
    #[serde(rename = "compact")]
    Compact,
    /// Both.
    #[serde(rename = "compact,delete")]
    CompactDelete,
    /// Both, named in the other order.
    #[serde(rename = "delete,compact")]
    DeleteCompact,
}

/// Where the timestamps of records come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum TimestampType {
    /// From their producers.
    CreateTime,
    /// From the service, when it appends them.
    LogAppendTime,
}

/// A limit that can be absent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Bound<T> {
    /// There is none.
    Unlimited,
    /// This much.
    At(T),
}

impl CleanupPolicy {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Delete, Self::Compact, Self::CompactDelete, Self::DeleteCompact];

    /// Whether the latest event of each key stays, so that each event needs a key.
    #[must_use]
    pub const fn compacts(self) -> bool {
        !matches!(self, Self::Delete)
    }

    /// Its name in Kafka.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Delete => "delete",
            Self::Compact => "compact",
            Self::CompactDelete => "compact,delete",
            Self::DeleteCompact => "delete,compact",
        }
    }
}

impl TimestampType {
    /// Both of them.
    pub const ALL: [Self; 2] = [Self::CreateTime, Self::LogAppendTime];

    /// Its name in Kafka.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::CreateTime => "CreateTime",
            Self::LogAppendTime => "LogAppendTime",
        }
    }
}

impl TopicSettings {
    /// Returns the limits of each log of a hub with these settings, where `base` are those of its declaration or the service's
    /// default.
    ///
    /// Nothing is compacted, so that `compact` retains everything: retention does not apply, and an append that does not fit is
    /// refused. The same holds for bytes that a client wants to be unlimited: they are never dropped to make room.
    #[must_use]
    pub fn limits(&self, base: LogLimits) -> LogLimits {
        if self.cleanup_policy == Some(CleanupPolicy::Compact) {
            return LogLimits { bytes: LogLimits::UNLIMITED, when_full: WhenFull::Throttle, retention: None };
        }
        let retention = match self.retention_time {
            None => base.retention,
            Some(Bound::Unlimited) => None,
            Some(Bound::At(time)) => Some(time),
        };
        let when_full = match self.cleanup_policy {
            None => base.when_full,
            Some(_) => WhenFull::Retention,
        };
        let (bytes, when_full) = match self.retention_bytes {
            None => (base.bytes, when_full),
            Some(Bound::Unlimited) => (LogLimits::UNLIMITED, WhenFull::Throttle),
            Some(Bound::At(bytes)) => (bytes, when_full),
        };
        LogLimits { bytes, when_full, retention }
    }

    /// Whether each event needs a key.
    #[must_use]
    pub fn requires_keys(&self) -> bool {
        self.cleanup_policy.is_some_and(CleanupPolicy::compacts)
    }

    /// Whether nothing was given.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Forgets what was given of limits: the declaration of the hub has changed.
    pub(super) fn forget_limits(&mut self) {
        (self.cleanup_policy, self.retention_time, self.retention_bytes) = (None, None, None);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MEBIBYTE: ByteSize = ByteSize::from_mebibytes(1);
    const MINUTE: Duration = Duration::from_secs(60);

    fn settings(cleanup_policy: CleanupPolicy) -> TopicSettings {
        TopicSettings {
            cleanup_policy: Some(cleanup_policy),
            retention_time: Some(Bound::At(MINUTE)),
            retention_bytes: Some(Bound::At(MEBIBYTE)),
            ..TopicSettings::default()
        }
    }

    #[test]
    fn compact_retains_everything_and_hides_no_other_setting() {
        let base = LogLimits::default();
        let everything =
            LogLimits { bytes: LogLimits::UNLIMITED, when_full: WhenFull::Throttle, retention: None };
        let mut settings = settings(CleanupPolicy::Compact);
        assert_eq!(settings.limits(base), everything);
        let retained = LogLimits { bytes: MEBIBYTE, when_full: WhenFull::Retention, retention: Some(MINUTE) };
        for policy in [CleanupPolicy::CompactDelete, CleanupPolicy::DeleteCompact, CleanupPolicy::Delete] {
            settings.cleanup_policy = Some(policy);
            assert_eq!(settings.limits(base), retained, "{policy:?}");
        }
        settings.cleanup_policy = None;
        assert_eq!(settings.limits(base), retained);
    }

    #[test]
    fn unlimited_bytes_are_never_dropped_for_room_and_time_still_applies() {
        let settings = TopicSettings {
            retention_bytes: Some(Bound::Unlimited),
            retention_time: Some(Bound::At(MINUTE)),
            ..TopicSettings::default()
        };
        let limits = settings.limits(LogLimits::default());
        let expected =
            LogLimits { bytes: LogLimits::UNLIMITED, when_full: WhenFull::Throttle, retention: Some(MINUTE) };
        assert_eq!(limits, expected);
        let unbounded = TopicSettings { retention_time: Some(Bound::Unlimited), ..TopicSettings::default() };
        let base = LogLimits { retention: Some(MINUTE), ..LogLimits::default() };
        assert_eq!(
            (unbounded.limits(base), TopicSettings::default().limits(base)),
            (LogLimits::default(), base)
        );
    }

    #[test]
    fn settings_are_read_as_they_were_written() {
        let mut settings = settings(CleanupPolicy::DeleteCompact);
        settings.retention_time = Some(Bound::At(Duration::from_millis(i64::MAX.cast_unsigned())));
        settings.without_effect.insert("segment.ms".to_owned(), "600000".to_owned());
        let text = serde_json::to_string(&settings).unwrap();
        assert_eq!(serde_json::from_str::<TopicSettings>(&text).unwrap(), settings);
        assert_eq!(serde_json::to_string(&TopicSettings::default()).unwrap(), "{}");
        for policy in CleanupPolicy::ALL {
            assert_eq!(serde_json::to_value(policy).unwrap(), policy.name());
        }
    }
}
