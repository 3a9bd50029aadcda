//! The settings of topics: one row each, which requests to create, alter and describe topics all read.

use std::ops::RangeInclusive;
use std::time::Duration;

use kafka::messages::configs::ConfigType;
use units::ByteSize;

use super::LARGEST_BATCH_MAX;
use crate::namespace::{Bound, CleanupPolicy, TimestampType, TopicSettings};

/// One setting of a topic.
#[derive(Debug)]
pub(super) struct Setting {
    /// Its name in Kafka.
    pub(super) name: &'static str,
    values: Values,
    /// The value where nothing else was given.
    pub(super) default: &'static str,
    pub(super) effect: Effect,
    /// Its description for clients.
    pub(super) documentation: &'static str,
}

/// The values that a setting can have.
#[derive(Debug)]
enum Values {
    Boolean,
    /// An integer of 32 bits.
    Int(RangeInclusive<i64>),
    Long(RangeInclusive<i64>),
    /// A number from 0 to 1.
    Ratio,
    Choice(&'static [&'static str]),
    /// Cleanup policies.
    Policies,
    /// Replicas, as `partition:broker`, or `*` for all.
    Replicas,
    Text,
    /// `false`, since there is no remote storage.
    NoRemoteStorage,
}

/// The field of the hub's settings that a setting is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Effect {
    CleanupPolicy,
    RetentionTime,
    RetentionBytes,
    LargestBatch,
    TimestampType,
    /// None: it is stored and described.
    None,
}

impl Setting {
    /// Returns the setting of this name.
    pub(super) fn named(name: &str) -> Option<&'static Self> {
        SETTINGS.iter().find(|setting| setting.name == name)
    }

    pub(super) const fn kind(&self) -> ConfigType {
        match &self.values {
            Values::Boolean | Values::NoRemoteStorage => ConfigType::Boolean,
            Values::Int(_) => ConfigType::Int,
            Values::Long(_) => ConfigType::Long,
            Values::Ratio => ConfigType::Double,
            Values::Choice(_) | Values::Text => ConfigType::String,
            Values::Policies | Values::Replicas => ConfigType::List,
        }
    }

    /// Returns the value that was given, if one was.
    pub(super) fn value(&self, settings: &TopicSettings) -> Option<String> {
        match self.effect {
            Effect::CleanupPolicy => settings.cleanup_policy.map(|policy| policy.name().to_owned()),
            Effect::RetentionTime => settings.retention_time.map(time_text),
            Effect::RetentionBytes => settings.retention_bytes.map(bytes_text),
            Effect::LargestBatch => settings.largest_batch.map(|size| size.bytes().to_string()),
            Effect::TimestampType => settings.timestamp_type.map(|it| it.name().to_owned()),
            Effect::None => settings.without_effect.get(self.name).cloned(),
        }
    }

    /// Sets the value.
    ///
    /// # Errors
    /// It is none that the setting can have: the reason, in the words of Kafka (`org.apache.kafka.common.config.ConfigDef`).
    pub(super) fn set(&self, settings: &mut TopicSettings, value: &str) -> Result<(), String> {
        let value = self.values.read(value)?;
        match self.effect {
            Effect::CleanupPolicy => settings.cleanup_policy = Some(policy(&value)?),
            Effect::RetentionTime => {
                let time = u64::try_from(number(&value)?).map(Duration::from_millis);
                settings.retention_time = Some(time.map_or(Bound::Unlimited, Bound::At));
            }
            Effect::RetentionBytes => {
                let bytes = u64::try_from(number(&value)?).map(ByteSize::from_bytes);
                settings.retention_bytes = Some(bytes.map_or(Bound::Unlimited, Bound::At));
            }
            Effect::LargestBatch => {
                let bytes = u64::try_from(number(&value)?).unwrap_or_default();
                settings.largest_batch = Some(ByteSize::from_bytes(bytes));
            }
            Effect::TimestampType => {
                let found = TimestampType::ALL.into_iter().find(|it| it.name() == value);
                settings.timestamp_type = found;
            }
            Effect::None => drop(settings.without_effect.insert(self.name.to_owned(), value)),
        }
        Ok(())
    }

    /// Forgets the value that was given, so that the default applies.
    pub(super) fn reset(&self, settings: &mut TopicSettings) {
        match self.effect {
            Effect::CleanupPolicy => settings.cleanup_policy = None,
            Effect::RetentionTime => settings.retention_time = None,
            Effect::RetentionBytes => settings.retention_bytes = None,
            Effect::LargestBatch => settings.largest_batch = None,
            Effect::TimestampType => settings.timestamp_type = None,
            Effect::None => drop(settings.without_effect.remove(self.name)),
        }
    }
}

impl Values {
    /// Returns the value as it is described.
    ///
    /// # Errors
    /// The value is not allowed: the reason.
    fn read(&self, text: &str) -> Result<String, String> {
        let text = text.trim();
        let reason = match self {
            Self::Boolean => match ["true", "false"].into_iter().find(|it| text.eq_ignore_ascii_case(it)) {
                Some(value) => return Ok(value.to_owned()),
                None => "Expected value to be either true or false".to_owned(),
            },
            Self::Int(range) => match text.parse::<i32>() {
                Ok(number) if range.contains(&number.into()) => return Ok(number.to_string()),
                Ok(number) => beyond(i64::from(number), range),
                Err(_not_one) => "Not a number of type INT".to_owned(),
            },
            Self::Long(range) => match text.parse::<i64>() {
                Ok(number) if range.contains(&number) => return Ok(number.to_string()),
                Ok(number) => beyond(number, range),
                Err(_not_one) => "Not a number of type LONG".to_owned(),
            },
            Self::Ratio => match text.parse::<f64>() {
                Ok(number) if (0.0..=1.0).contains(&number) => return Ok(text.to_owned()),
                Ok(number) if number > 1.0 => "Value must be no more than 1".to_owned(),
                Ok(_) => "Value must be at least 0".to_owned(),
                Err(_not_one) => "Not a number of type DOUBLE".to_owned(),
            },
            Self::Choice(choices) => match choices.contains(&text) {
                true => return Ok(text.to_owned()),
                false => format!("String must be one of: {}", choices.join(", ")),
            },
            Self::Policies => return policy(text).map(|policy| policy.name().to_owned()),
            Self::Replicas => match is_replicas(text) {
                true => return Ok(text.to_owned()),
                false => "Must be the literal '*' or a list of replicas in the form [partitionId]:[brokerId]"
                    .to_owned(),
            },
            Self::Text => match text.len() <= TEXT_MAX {
                true => return Ok(text.to_owned()),
                false => format!("Value must have at most {TEXT_MAX} bytes"),
            },
            Self::NoRemoteStorage => match text.to_ascii_lowercase().parse() {
                Ok(false) => return Ok("false".to_owned()),
                Ok(true) => {
                    "Tiered Storage functionality is disabled in the broker. Topic cannot be configured with \
                             remote log storage."
                        .to_owned()
                }
                Err(_neither) => "Expected value to be either true or false".to_owned(),
            },
        };
        Err(reason)
    }
}

/// Why a number is not in a range.
fn beyond(number: i64, range: &RangeInclusive<i64>) -> String {
    match number < *range.start() {
        true => format!("Value must be at least {}", range.start()),
        false => format!("Value must be no more than {}", range.end()),
    }
}

/// Returns the elements of a list.
pub(super) fn elements(list: &str) -> impl Iterator<Item = &str> {
    list.split(',').map(str::trim).filter(|element| !element.is_empty())
}

fn policy(text: &str) -> Result<CleanupPolicy, String> {
    let mut names: Vec<&str> = Vec::new();
    for name in elements(text) {
        if !names.contains(&name) {
            names.push(name);
        }
    }
    let name = names.join(",");
    let found = CleanupPolicy::ALL.into_iter().find(|policy| policy.name() == name);
    found.ok_or_else(|| "String must be one of: compact, delete".to_owned())
}

fn is_replicas(text: &str) -> bool {
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let is_replica = |element: &str| {
        element.split_once(':').is_some_and(|(partition, broker)| is_number(partition) && is_number(broker))
    };
    text.len() <= TEXT_MAX && (text == "*" || elements(text).all(is_replica))
}

fn number(text: &str) -> Result<i64, String> {
    text.parse().map_err(|_not_a_number| "Not a number of type LONG".to_owned())
}

/// Returns a retention time in milliseconds, -1 for none.
pub(super) fn time_text(bound: Bound<Duration>) -> String {
    match bound {
        Bound::Unlimited => "-1".to_owned(),
        Bound::At(time) => i64::try_from(time.as_millis()).unwrap_or(i64::MAX).to_string(),
    }
}

/// Returns a number of bytes, -1 for no limit.
pub(super) fn bytes_text(bound: Bound<ByteSize>) -> String {
    match bound {
        Bound::Unlimited => "-1".to_owned(),
        Bound::At(size) => size.bytes().to_string(),
    }
}

const fn setting(
    name: &'static str,
    values: Values,
    default: &'static str,
    effect: Effect,
    documentation: &'static str,
) -> Setting {
    Setting { name, values, default, effect, documentation }
}

/// A setting about files, replicas or compaction, none of which make a difference to the service.
const fn inert(name: &'static str, values: Values, default: &'static str) -> Setting {
    setting(name, values, default, Effect::None, "no effect on this service")
}

const NOT_NEGATIVE: RangeInclusive<i64> = 0..=i64::MAX;
const POSITIVE: RangeInclusive<i64> = 1..=i64::MAX;
const INT_MAX: i64 = i32::MAX as i64;
const NEVER: &str = "9223372036854775807";

/// The longest text of a setting, in bytes.
const TEXT_MAX: usize = 4_096;

/// All settings of topics (`org.apache.kafka.common.config.TopicConfig`), by name.
pub(super) const SETTINGS: [Setting; 36] = [
    setting(
        "cleanup.policy",
        Values::Policies,
        "delete",
        Effect::CleanupPolicy,
        "delete: retention deletes the oldest records. compact: every record is retained, since nothing is compacted; each \
         needs a key, and a record that does not fit is refused",
    ),
    inert("compression.gzip.level", Values::Int(-1..=9), "-1"),
    inert("compression.lz4.level", Values::Int(1..=17), "9"),
    setting(
        "compression.type",
        Values::Choice(&["producer", "uncompressed", "gzip", "snappy", "lz4", "zstd"]),
        "producer",
        Effect::None,
        "no effect: batches are stored as they were sent",
    ),
    inert("compression.zstd.level", Values::Int(-131_072..=22), "3"),
    inert("delete.retention.ms", Values::Long(NOT_NEGATIVE), "86400000"),
    inert("file.delete.delay.ms", Values::Long(NOT_NEGATIVE), "60000"),
    setting(
        "flush.messages",
        Values::Long(POSITIVE),
        NEVER,
        Effect::None,
        "no effect: records are synced as the service is configured (--sync)",
    ),
    setting(
        "flush.ms",
        Values::Long(NOT_NEGATIVE),
        NEVER,
        Effect::None,
        "no effect: records are synced as the service is configured (--sync)",
    ),
    inert("follower.replication.throttled.replicas", Values::Replicas, ""),
    inert("index.interval.bytes", Values::Int(0..=INT_MAX), "4096"),
    inert("leader.replication.throttled.replicas", Values::Replicas, ""),
    inert("local.retention.bytes", Values::Long(-2..=i64::MAX), "-2"),
    inert("local.retention.ms", Values::Long(-2..=i64::MAX), "-2"),
    inert("max.compaction.lag.ms", Values::Long(POSITIVE), NEVER),
    setting(
        "max.message.bytes",
        Values::Int(0..=LARGEST_BATCH_MAX as i64),
        "1048588",
        Effect::LargestBatch,
        "the largest batch, in bytes",
    ),
    inert("message.downconversion.enable", Values::Boolean, "true"),
    inert("message.format.version", Values::Text, "3.0-IV1"),
    not_checked("message.timestamp.after.max.ms"),
    not_checked("message.timestamp.before.max.ms"),
    not_checked("message.timestamp.difference.max.ms"),
    setting(
        "message.timestamp.type",
        Values::Choice(&["CreateTime", "LogAppendTime"]),
        "CreateTime",
        Effect::TimestampType,
        "CreateTime: records have the timestamps of their producers. LogAppendTime: they have the time of their append",
    ),
    inert("min.cleanable.dirty.ratio", Values::Ratio, "0.5"),
    inert("min.compaction.lag.ms", Values::Long(NOT_NEGATIVE), "0"),
    setting(
        "min.insync.replicas",
        Values::Int(1..=INT_MAX),
        "1",
        Effect::None,
        "no effect: there is one broker, whose acknowledgement is that of all replicas",
    ),
    inert("preallocate", Values::Boolean, "false"),
    inert("remote.log.copy.disable", Values::Boolean, "false"),
    inert("remote.log.delete.on.disable", Values::Boolean, "false"),
    setting(
        "remote.storage.enable",
        Values::NoRemoteStorage,
        "false",
        Effect::None,
        "there is no remote storage",
    ),
    setting(
        "retention.bytes",
        Values::Long(-1..=i64::MAX),
        "-1",
        Effect::RetentionBytes,
        "bytes that each partition retains. -1: all, and a record that does not fit into the service is refused",
    ),
    setting(
        "retention.ms",
        Values::Long(-1..=i64::MAX),
        "-1",
        Effect::RetentionTime,
        "time for which records are retained. -1: unlimited",
    ),
    inert("segment.bytes", Values::Int(14..=INT_MAX), "1073741824"),
    inert("segment.index.bytes", Values::Int(4..=INT_MAX), "10485760"),
    inert("segment.jitter.ms", Values::Long(NOT_NEGATIVE), "0"),
    inert("segment.ms", Values::Long(POSITIVE), "604800000"),
    inert("unclean.leader.election.enable", Values::Boolean, "false"),
];

/// A limit of timestamps, which are not limited.
const fn not_checked(name: &'static str) -> Setting {
    setting(name, Values::Long(NOT_NEGATIVE), NEVER, Effect::None, "no effect: timestamps are not limited")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_are_listed_by_name_and_take_their_defaults() {
        assert!(SETTINGS.is_sorted_by_key(|setting| setting.name));
        for setting in &SETTINGS {
            let mut settings = TopicSettings::default();
            setting.set(&mut settings, setting.default).unwrap();
            assert_eq!(setting.value(&settings).as_deref(), Some(setting.default), "{}", setting.name);
            setting.reset(&mut settings);
            assert!(settings.is_empty(), "{}", setting.name);
        }
    }

    #[test]
    fn value_is_described_as_it_was_given() {
        for (name, given, described) in [
            ("cleanup.policy", "delete, compact", "delete,compact"),
            ("cleanup.policy", "compact,delete,compact", "compact,delete"),
            ("retention.ms", "9223372036854775807", NEVER),
            ("retention.bytes", "-1", "-1"),
            ("segment.ms", " 0600 ", "600"),
            ("min.cleanable.dirty.ratio", "0.10", "0.10"),
            ("preallocate", "TRUE", "true"),
            ("leader.replication.throttled.replicas", "0:0,1:0", "0:0,1:0"),
            ("max.message.bytes", "33554432", "33554432"),
            ("message.timestamp.after.max.ms", "3600000", "3600000"),
        ] {
            let setting = Setting::named(name).unwrap();
            let mut settings = TopicSettings::default();
            setting.set(&mut settings, given).unwrap();
            assert_eq!(setting.value(&settings).as_deref(), Some(described), "{name}");
        }
    }

    #[test]
    fn value_beyond_the_limits_is_refused() {
        for (name, value) in [
            ("cleanup.policy", "burn"),
            ("cleanup.policy", ""),
            ("retention.ms", "a day"),
            ("retention.ms", "-2"),
            ("retention.bytes", "9223372036854775808"),
            ("max.message.bytes", "33554433"),
            ("max.message.bytes", "-1"),
            ("compression.type", "brotli"),
            ("message.timestamp.type", "logappendtime"),
            ("message.timestamp.after.max.ms", "-1"),
            ("min.insync.replicas", "0"),
            ("min.cleanable.dirty.ratio", "NaN"),
            ("segment.bytes", "2147483648"),
            ("remote.storage.enable", "true"),
            ("follower.replication.throttled.replicas", "0"),
            ("message.format.version", &"x".repeat(TEXT_MAX + 1)),
        ] {
            let mut settings = TopicSettings::default();
            assert!(Setting::named(name).unwrap().set(&mut settings, value).is_err(), "{name} {value}");
            assert!(settings.is_empty());
        }
        assert!(Setting::named("no.such").is_none());
    }
}
