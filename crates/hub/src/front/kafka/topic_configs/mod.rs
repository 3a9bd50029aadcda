//! Configurations: what a hub has of what a topic can have, and what can be changed of it.
//!
//! A hub has bounds: how long events are kept, how many bytes, and what happens when there is no more room. Everything else that
//! a topic of Kafka has is about files and replicas, which are the service's own business here: such values are taken where a
//! topic is created, since tools set them without asking, and make no difference.
//!
//! **Compaction.** Nothing is compacted. A topic with `cleanup.policy=compact` keeps all that is sent to it instead, of which a
//! compacted one would keep a part, and refuses more when it is full.

use std::collections::HashSet;
use std::time::Duration;

use access::Right;
use kafka::ErrorCode;
use kafka::fetch::TopicRef;
use kafka::messages::configs::{
    AlterConfigsRequest, BROKER as BROKER_RESOURCE, ConfigChange, ConfigEntry, ConfigSource, ConfigType,
    DELETE, DescribeConfigsRequest, DescribedConfigs, Resource, SET, TOPIC,
};
use partition_log::{LogLimits, WhenFull};
use units::ByteSize;

use super::admin::{Refusal, refusal};
use super::connection::LARGEST_REQUEST;
use super::produce::LARGEST_BATCH;
use super::session::Session;
use super::{BROKER, topics};
use crate::namespace::{DEFAULT_PARTITIONS, Namespace};

/// What becomes of values that make no difference here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Strictness {
    /// They are taken: tools send them with everything else.
    Lenient,
    /// They are refused: someone wants just these to be changed.
    Strict,
}

/// The configurations that a request asks for.
pub(super) fn describe<'r>(
    namespace: &Namespace,
    session: &Session,
    request: &DescribeConfigsRequest<'r>,
) -> Vec<DescribedConfigs<'r>> {
    let describe = |(resource, names): &(Resource<'r>, Option<Vec<&str>>)| {
        let wanted = |entry: &ConfigEntry| names.as_ref().is_none_or(|names| names.contains(&entry.name));
        let result =
            entries(namespace, session, resource).map(|entries| entries.into_iter().filter(wanted).collect());
        DescribedConfigs { resource: *resource, result }
    };
    // As in Kafka, each is described once, however often it is named.
    let mut seen = HashSet::new();
    request.resources.iter().filter(|(resource, _)| seen.insert(*resource)).map(describe).collect()
}

fn entries(
    namespace: &Namespace,
    session: &Session,
    resource: &Resource<'_>,
) -> Result<Vec<ConfigEntry>, Refusal> {
    match resource.kind {
        TOPIC if !session.knows(resource.name) => Err(no_right()),
        TOPIC => {
            let hub = topics::named(namespace, resource.name).ok_or_else(no_topic)?;
            Ok(of_topic(&hub.limits()))
        }
        BROKER_RESOURCE => match resource.name {
            // Without a name it is what all brokers have in common.
            "" => Ok(of_broker(namespace)),
            name if name.parse() == Ok(BROKER) => Ok(of_broker(namespace)),
            name => Err((ErrorCode::InvalidRequest, format!("there is no broker {name:?}, only {BROKER}"))),
        },
        kind => {
            Err((ErrorCode::InvalidRequest, format!("resources of the kind {kind} have no configuration")))
        }
    }
}

/// Changes what a request wants to be changed: each resource completely, or not at all.
pub(super) fn alter(
    namespace: &Namespace,
    session: &Session,
    request: &AlterConfigsRequest<'_>,
) -> Vec<Result<(), Refusal>> {
    let alter = |(resource, changes): &(Resource<'_>, Vec<ConfigChange<'_>>)| match resource.kind {
        TOPIC => alter_topic(namespace, session, resource.name, changes, request),
        kind => Err((ErrorCode::InvalidRequest, format!("nothing of the kind {kind} can be configured"))),
    };
    request.resources.iter().map(alter).collect()
}

fn alter_topic(
    namespace: &Namespace,
    session: &Session,
    name: &str,
    changes: &[ConfigChange<'_>],
    request: &AlterConfigsRequest<'_>,
) -> Result<(), Refusal> {
    let found = topics::find(namespace, session, TopicRef::Name(name), Right::Manage);
    let hub = found.map_err(|error| match error {
        ErrorCode::TopicAuthorizationFailed => no_right(),
        _ => no_topic(),
    })?;
    let (base, strictness) = match request.resets_others {
        true => (LogLimits::default(), Strictness::Lenient),
        false => (hub.limits(), Strictness::Strict),
    };
    let mut settings = Vec::with_capacity(changes.len());
    for change in changes {
        match (change.operation, change.value) {
            (SET, Some(value)) => settings.push((change.name, Some(value))),
            (DELETE, _) => settings.push((change.name, None)),
            (SET, None) => {
                return Err((ErrorCode::InvalidRequest, format!("{} has no value", change.name)));
            }
            (2 | 3, _) => {
                let message = format!("nothing can be added to {} or taken from it; set it", change.name);
                return Err((ErrorCode::InvalidConfig, message));
            }
            (operation, _) => {
                return Err((ErrorCode::InvalidRequest, format!("there is no operation {operation}")));
            }
        }
    }
    let limits = changed(base, settings.into_iter(), strictness)?;
    if request.validate_only {
        return Ok(());
    }
    namespace.set_limits(hub.name(), limits).map_err(refusal)?;
    tracing::info!(hub = hub.name(), ?limits, "the limits of a hub were changed");
    Ok(())
}

/// Limits with changes by names and values, or by names of what is to have its default.
pub(super) fn changed<'a>(
    base: LogLimits,
    changes: impl Iterator<Item = (&'a str, Option<&'a str>)>,
    strictness: Strictness,
) -> Result<LogLimits, Refusal> {
    let (mut limits, mut bytes) = (base, None);
    for (name, value) in changes {
        match name {
            RETENTION_MS => limits.retention = value.map_or(Ok(None), |value| retention(name, value))?,
            RETENTION_BYTES => {
                let value = value.map_or(Ok(-1), |value| number(name, value))?;
                bytes = Some(match u64::try_from(value) {
                    Ok(bytes) => ByteSize::from_bytes(bytes),
                    // There is always a bound here.
                    Err(_) if value == -1 => LogLimits::default().bytes,
                    Err(_) => return Err(invalid(name, &value, "a number of bytes, or -1")),
                });
            }
            CLEANUP_POLICY => limits.when_full = cleanup(value.unwrap_or(DELETE_POLICY))?,
            name => check_fixed(name, value, strictness)?,
        }
    }
    limits.bytes = match (bytes, base.when_full, limits.when_full) {
        (Some(bytes), ..) => bytes,
        // What is refused when it is full should not be full soon.
        (None, WhenFull::Retention, WhenFull::Throttle) => base.bytes.max(COMPACTED_BYTES),
        (None, ..) => base.bytes,
    };
    Namespace::check_limits(&limits).map_err(|error| (ErrorCode::InvalidConfig, error.to_string()))?;
    Ok(limits)
}

fn retention(name: &str, value: &str) -> Result<Option<Duration>, Refusal> {
    match number(name, value)? {
        -1 => Ok(None),
        milliseconds => match u64::try_from(milliseconds) {
            // More than anyone will live to see, and than dates can be computed with.
            Ok(milliseconds) if milliseconds > RETENTION_MAX_MS => Ok(None),
            Ok(milliseconds) => Ok(Some(Duration::from_millis(milliseconds))),
            Err(_) => Err(invalid(name, &milliseconds, "a number of milliseconds, or -1")),
        },
    }
}

fn cleanup(value: &str) -> Result<WhenFull, Refusal> {
    let mut policies: Vec<&str> = value.split(',').map(str::trim).collect();
    policies.sort_unstable();
    match policies.as_slice() {
        [DELETE_POLICY] => Ok(WhenFull::Retention),
        [COMPACT_POLICY] | [COMPACT_POLICY, DELETE_POLICY] => Ok(WhenFull::Throttle),
        _ => Err(invalid(CLEANUP_POLICY, &value, "delete, compact, or both")),
    }
}

/// Whether something that a hub can't change may be set to a value, or be left to its default.
fn check_fixed(name: &str, value: Option<&str>, strictness: Strictness) -> Result<(), Refusal> {
    let Some(value) = value else {
        return match is_known(name) {
            true => Ok(()),
            false => Err(unknown(name)),
        };
    };
    match name {
        MAX_MESSAGE_BYTES => {
            let value = number(name, value)?;
            match usize::try_from(value).is_ok_and(|value| value <= LARGEST_BATCH) {
                true => Ok(()),
                false => Err(invalid(name, &value, &format!("at most {LARGEST_BATCH}"))),
            }
        }
        _ => match FIXED.iter().find(|(fixed, _)| *fixed == name) {
            Some((_, fixed)) if *fixed == value => Ok(()),
            Some((_, fixed)) => Err(invalid(name, &value, &format!("{fixed}, which can't be changed"))),
            None if !is_known(name) => Err(unknown(name)),
            None if strictness == Strictness::Lenient => Ok(()),
            None => {
                Err((ErrorCode::InvalidConfig, format!("{name} can't be changed: it has no effect here")))
            }
        },
    }
}

fn is_known(name: &str) -> bool {
    name == MAX_MESSAGE_BYTES
        || FIXED.iter().any(|(fixed, _)| *fixed == name)
        || WITHOUT_EFFECT.contains(&name)
}

/// The configuration of a topic whose logs have these limits.
pub(super) fn of_topic(limits: &LogLimits) -> Vec<ConfigEntry> {
    let default = LogLimits::default();
    let source = |is_default| if is_default { ConfigSource::Default } else { ConfigSource::Topic };
    let policy = match (limits.when_full, limits.retention) {
        (WhenFull::Retention, _) => DELETE_POLICY,
        (WhenFull::Throttle, None) => COMPACT_POLICY,
        (WhenFull::Throttle, Some(_)) => COMPACT_AND_DELETE,
    };
    let retention =
        limits.retention.map_or(-1, |retention| retention.as_millis().try_into().unwrap_or(i64::MAX));
    let changeable = |name, value: String, is_default, kind, documentation| ConfigEntry {
        name,
        value: value.into(),
        is_read_only: false,
        source: source(is_default),
        kind,
        documentation,
    };
    vec![
        changeable(
            CLEANUP_POLICY,
            policy.to_owned(),
            limits.when_full == default.when_full,
            ConfigType::List,
            "delete: the oldest records make room. compact: nothing is dropped, and what does not fit is refused",
        ),
        fixed(
            "compression.type",
            PRODUCER.to_owned(),
            ConfigType::String,
            "batches are kept as they were sent",
        ),
        fixed(MAX_MESSAGE_BYTES, LARGEST_BATCH.to_string(), ConfigType::Int, "the largest batch"),
        fixed(
            "message.timestamp.type",
            CREATE_TIME.to_owned(),
            ConfigType::String,
            "records have the timestamps of their producers",
        ),
        fixed("min.insync.replicas", "1".to_owned(), ConfigType::Int, "there is one broker"),
        changeable(
            RETENTION_BYTES,
            limits.bytes.bytes().to_string(),
            limits.bytes == default.bytes,
            ConfigType::Long,
            "bytes that a partition keeps; there is always a bound",
        ),
        changeable(
            RETENTION_MS,
            retention.to_string(),
            limits.retention == default.retention,
            ConfigType::Long,
            "how long records are kept; -1: until there is no more room",
        ),
        fixed(
            "segment.bytes",
            limits.largest_block().to_string(),
            ConfigType::Int,
            "what is dropped at once; it follows from retention.bytes",
        ),
    ]
}

fn of_broker(namespace: &Namespace) -> Vec<ConfigEntry> {
    let limits = LogLimits::default();
    let entry = |name, value: String, kind| fixed(name, value, kind, "");
    vec![
        ConfigEntry {
            source: ConfigSource::StaticBroker,
            ..entry("auto.create.topics.enable", namespace.creates_topics().to_string(), ConfigType::Boolean)
        },
        entry("default.replication.factor", "1".to_owned(), ConfigType::Int),
        entry("delete.topic.enable", "true".to_owned(), ConfigType::Boolean),
        entry("log.cleanup.policy", DELETE_POLICY.to_owned(), ConfigType::List),
        entry("log.retention.bytes", limits.bytes.bytes().to_string(), ConfigType::Long),
        entry("log.retention.ms", "-1".to_owned(), ConfigType::Long),
        entry("message.max.bytes", LARGEST_BATCH.to_string(), ConfigType::Int),
        entry("min.insync.replicas", "1".to_owned(), ConfigType::Int),
        entry("num.partitions", DEFAULT_PARTITIONS.to_string(), ConfigType::Int),
        entry("socket.request.max.bytes", LARGEST_REQUEST.to_string(), ConfigType::Int),
    ]
}

fn fixed(name: &'static str, value: String, kind: ConfigType, documentation: &'static str) -> ConfigEntry {
    let (is_read_only, source) = (true, ConfigSource::Default);
    ConfigEntry { name, value: value.into(), is_read_only, source, kind, documentation }
}

fn number(name: &str, value: &str) -> Result<i64, Refusal> {
    value.trim().parse().map_err(|_not_a_number| invalid(name, &value, "a number"))
}

fn invalid(name: &str, value: &dyn std::fmt::Display, allowed: &str) -> Refusal {
    (ErrorCode::InvalidConfig, format!("{name} can't be {value}; allowed is {allowed}"))
}

fn unknown(name: &str) -> Refusal {
    (ErrorCode::InvalidConfig, format!("there is no configuration {name:?} of topics"))
}

fn no_topic() -> Refusal {
    (ErrorCode::UnknownTopicOrPartition, "there is no such topic".to_owned())
}

fn no_right() -> Refusal {
    (ErrorCode::TopicAuthorizationFailed, "the key has no right for that on the topic".to_owned())
}

const CLEANUP_POLICY: &str = "cleanup.policy";
const MAX_MESSAGE_BYTES: &str = "max.message.bytes";
const RETENTION_BYTES: &str = "retention.bytes";
const RETENTION_MS: &str = "retention.ms";

const DELETE_POLICY: &str = "delete";
const COMPACT_POLICY: &str = "compact";
const COMPACT_AND_DELETE: &str = "compact,delete";
const PRODUCER: &str = "producer";
const CREATE_TIME: &str = "CreateTime";

/// What has one value here.
const FIXED: [(&str, &str); 3] =
    [("compression.type", PRODUCER), ("message.timestamp.type", CREATE_TIME), ("min.insync.replicas", "1")];

/// The other configurations that a topic of Kafka has (`org.apache.kafka.common.config.TopicConfig`).
const WITHOUT_EFFECT: [&str; 30] = [
    "compression.gzip.level",
    "compression.lz4.level",
    "compression.zstd.level",
    "delete.retention.ms",
    "file.delete.delay.ms",
    "flush.messages",
    "flush.ms",
    "follower.replication.throttled.replicas",
    "index.interval.bytes",
    "internal.segment.bytes",
    "leader.replication.throttled.replicas",
    "local.retention.bytes",
    "local.retention.ms",
    "max.compaction.lag.ms",
    "message.downconversion.enable",
    "message.format.version",
    "message.timestamp.after.max.ms",
    "message.timestamp.before.max.ms",
    "message.timestamp.difference.max.ms",
    "min.cleanable.dirty.ratio",
    "min.compaction.lag.ms",
    "preallocate",
    "remote.log.copy.disable",
    "remote.log.delete.on.disable",
    "remote.storage.enable",
    "segment.bytes",
    "segment.index.bytes",
    "segment.jitter.ms",
    "segment.ms",
    "unclean.leader.election.enable",
];

/// What a partition keeps that drops nothing, unless more or less is asked for.
const COMPACTED_BYTES: ByteSize = ByteSize::from_mebibytes(1024);

/// A thousand years.
const RETENTION_MAX_MS: u64 = 1_000 * 366 * 24 * 60 * 60 * 1_000;

#[cfg(test)]
mod tests {
    use super::*;

    fn change(
        base: LogLimits,
        changes: &[(&str, Option<&str>)],
        strictness: Strictness,
    ) -> Result<LogLimits, ErrorCode> {
        changed(base, changes.iter().copied(), strictness).map_err(|(error, _)| error)
    }

    #[test]
    fn what_a_log_can_take_is_taken_and_what_has_no_effect_only_from_tools() {
        let default = LogLimits::default();
        let lenient = |name, value| change(default, &[(name, Some(value))], Strictness::Lenient);
        let retained = LogLimits { retention: Some(Duration::from_secs(7)), ..default };
        assert_eq!(lenient("retention.ms", "7000"), Ok(retained));
        assert_eq!(lenient("retention.ms", "9223372036854775807"), Ok(default));
        assert_eq!(lenient("retention.bytes", "-1"), Ok(default));
        let small = LogLimits { bytes: ByteSize::from_mebibytes(2), ..default };
        assert_eq!(lenient("retention.bytes", "2097152"), Ok(small));
        let kept = LogLimits { bytes: COMPACTED_BYTES, when_full: WhenFull::Throttle, retention: None };
        for policy in ["compact", "compact, delete", "delete,compact"] {
            assert_eq!(lenient("cleanup.policy", policy), Ok(kept));
        }
        for (name, value) in [
            ("cleanup.policy", "delete"),
            ("max.message.bytes", "1000"),
            ("compression.type", "producer"),
            ("segment.bytes", "1"),
        ] {
            assert_eq!(lenient(name, value), Ok(default), "{name}");
        }
        for (name, value) in [
            ("retention.ms", "a day"),
            ("retention.ms", "-2"),
            ("retention.bytes", "1000"),
            ("retention.bytes", "-2"),
            ("cleanup.policy", "burn"),
            ("max.message.bytes", "2000000"),
            ("compression.type", "gzip"),
            ("message.timestamp.type", "LogAppendTime"),
            ("min.insync.replicas", "2"),
            ("retention.hours", "7"),
        ] {
            assert_eq!(lenient(name, value), Err(ErrorCode::InvalidConfig), "{name} {value}");
        }
        let strict = |name, value| change(retained, &[(name, value)], Strictness::Strict);
        assert_eq!(strict("segment.bytes", Some("1")), Err(ErrorCode::InvalidConfig));
        assert_eq!(strict("segment.bytes", None), Ok(retained));
        assert_eq!(strict("retention.ms", None), Ok(default));
    }

    #[test]
    fn what_is_described_can_be_sent_back() {
        let default = LogLimits::default();
        let limits =
            LogLimits { bytes: ByteSize::from_mebibytes(3), retention: Some(Duration::ZERO), ..default };
        for limits in [default, limits, LogLimits { when_full: WhenFull::Throttle, ..limits }] {
            let entries = of_topic(&limits);
            let changes: Vec<_> = entries.iter().map(|entry| (entry.name, Some(&*entry.value))).collect();
            assert_eq!(change(default, &changes, Strictness::Lenient), Ok(limits));
        }
    }
}
