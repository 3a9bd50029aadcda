//! Configurations of topics: requests to describe and to change them.
//!
//! A setting is stored as it was given, and describes as such; `table` has them all. What settings mean together is the
//! namespace's matter ([`TopicSettings`]).

mod table;

use std::collections::HashSet;

use access::Right;
use kafka::ErrorCode;
use kafka::fetch::TopicRef;
use kafka::messages::configs::{
    APPEND, AlterConfigsRequest, BROKER as BROKER_RESOURCE, ConfigChange, ConfigEntry, ConfigSource,
    ConfigType, DELETE, DescribeConfigsRequest, DescribedConfigs, Resource, SET, SUBTRACT, TOPIC,
};
use partition_log::{LogLimits, WhenFull};

use super::admin::{Refusal, refusal, repeated};
use super::connection::LARGEST_REQUEST;
use super::session::Session;
use super::{BROKER, topics};
use crate::convert::UNPACKED_MAX;
use crate::front::time_slice::map_in_slices;
use crate::namespace::{Bound, EntityError, Hub, Namespace, TopicSettings};
use table::{Effect, SETTINGS, Setting, bytes_text, elements, time_text};

/// A change of one setting.
#[derive(Clone, Copy, Debug)]
pub(super) enum Change<'a> {
    Set(&'a str),
    /// The default applies.
    Reset,
    /// Elements are added to a list.
    Append(&'a str),
    /// Elements are removed from a list.
    Subtract(&'a str),
}

/// The limits of a topic without settings, and their source.
#[derive(Clone, Copy, Debug)]
pub(super) struct Base {
    limits: LogLimits,
    source: ConfigSource,
}

/// The error of a change.
enum ChangeError {
    Refused(Refusal),
    Entity(EntityError),
}

impl Base {
    fn of(hub: &Hub) -> Self {
        match hub.has_default_limits() {
            true => Self::default_of(hub.base_limits()),
            false => Self { limits: hub.base_limits(), source: ConfigSource::Topic },
        }
    }

    /// The base of topics that declare no limits.
    pub(super) const fn default_of(limits: LogLimits) -> Self {
        Self { limits, source: ConfigSource::StaticBroker }
    }

    /// Returns the value of a setting that was not given.
    fn value(&self, setting: &Setting) -> (String, ConfigSource) {
        let Self { limits, source } = self;
        let builtin = LogLimits::default();
        let (value, is_builtin) = match setting.effect {
            // A declared log that refuses instead of dropping. Compaction could not change more of it.
            Effect::CleanupPolicy if limits.when_full == WhenFull::Throttle => ("compact".to_owned(), false),
            Effect::RetentionBytes => (bytes_of(limits), limits.bytes == builtin.bytes),
            Effect::RetentionTime => (time_of(limits), limits.retention == builtin.retention),
            _ => (setting.default.to_owned(), true),
        };
        (value, if is_builtin { ConfigSource::Default } else { *source })
    }
}

impl From<EntityError> for ChangeError {
    fn from(error: EntityError) -> Self {
        Self::Entity(error)
    }
}

/// Returns the configurations that a request asks for.
pub(super) async fn describe<'r>(
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
    let distinct = request.resources.iter().filter(|(resource, _)| seen.insert(*resource));
    let resources: Vec<_> = distinct.collect();
    map_in_slices(resources, describe).await
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
            Ok(of_topic(&hub.settings(), &Base::of(&hub)))
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

/// Changes the configurations that a request names: each resource completely, or not at all.
pub(super) async fn alter(
    namespace: &Namespace,
    session: &Session,
    request: &AlterConfigsRequest<'_>,
) -> Vec<Result<(), Refusal>> {
    let alter = |(resource, changes): &(Resource<'_>, Vec<ConfigChange<'_>>)| match resource.kind {
        TOPIC => alter_topic(namespace, session, resource.name, changes, request),
        kind => Err((ErrorCode::InvalidRequest, format!("nothing of the kind {kind} can be configured"))),
    };
    map_in_slices(&request.resources, alter).await
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
    if !repeated(changes.iter().map(|change| change.name)).is_empty() {
        return Err((ErrorCode::InvalidRequest, "Error due to duplicate config keys".to_owned()));
    }
    let changes = changes.iter().map(read_change).collect::<Result<Vec<_>, _>>()?;
    let base = Base::of(&hub);
    let change = |before: &TopicSettings| {
        let before = match request.resets_others {
            true => &TopicSettings::default(),
            false => before,
        };
        changed(before, &base, changes.iter().copied())
    };
    if request.validate_only {
        let settings = change(&hub.settings())?;
        let checked = Namespace::check_limits(&settings.limits(hub.base_limits()));
        return checked.map_err(|error| refusal(EntityError::Invalid(error)));
    }
    let altered =
        namespace.change_settings(hub.name(), |before| change(before).map_err(ChangeError::Refused));
    altered.map_err(|error| match error {
        ChangeError::Refused(refused) => refused,
        ChangeError::Entity(error) => refusal(error),
    })?;
    tracing::info!(hub = hub.name(), settings = ?hub.settings(), "the settings of a hub were changed");
    Ok(())
}

fn read_change<'a>(change: &ConfigChange<'a>) -> Result<(&'a str, Change<'a>), Refusal> {
    let change_of = match (change.operation, change.value) {
        (DELETE, _) => Change::Reset,
        (SET, Some(value)) => Change::Set(value),
        (APPEND, Some(value)) => Change::Append(value),
        (SUBTRACT, Some(value)) => Change::Subtract(value),
        (SET | APPEND | SUBTRACT, None) => {
            return Err((
                ErrorCode::InvalidRequest,
                format!("Null value not supported for : {}", change.name),
            ));
        }
        (operation, _) => {
            return Err((ErrorCode::InvalidRequest, format!("there is no operation {operation}")));
        }
    };
    Ok((change.name, change_of))
}

/// Returns settings with changes by name: for requests to create, to alter, and to alter incrementally alike.
pub(super) fn changed<'a>(
    before: &TopicSettings,
    base: &Base,
    changes: impl Iterator<Item = (&'a str, Change<'a>)>,
) -> Result<TopicSettings, Refusal> {
    let mut settings = before.clone();
    for (name, change) in changes {
        let setting = Setting::named(name).ok_or_else(|| unknown(name))?;
        match change {
            Change::Set(value) => set(setting, &mut settings, value)?,
            Change::Reset => setting.reset(&mut settings),
            Change::Append(added) => {
                let list = list_of(setting, "APPEND", &settings, base)?;
                let mut list: Vec<&str> = elements(&list).collect();
                for element in elements(added) {
                    if !list.contains(&element) {
                        list.push(element);
                    }
                }
                set(setting, &mut settings, &list.join(","))?;
            }
            Change::Subtract(removed) => {
                let list = list_of(setting, "SUBTRACT", &settings, base)?;
                let removed: HashSet<&str> = elements(removed).collect();
                let list: Vec<&str> = elements(&list).filter(|element| !removed.contains(element)).collect();
                set(setting, &mut settings, &list.join(","))?;
            }
        }
    }
    Ok(settings)
}

fn set(setting: &Setting, settings: &mut TopicSettings, value: &str) -> Result<(), Refusal> {
    setting.set(settings, value).map_err(|reason| {
        let message = format!("Invalid value {value} for configuration {}: {reason}", setting.name);
        (ErrorCode::InvalidConfig, message)
    })
}

/// Returns the present elements of a list, for an operation on one.
fn list_of(
    setting: &Setting,
    operation: &str,
    settings: &TopicSettings,
    base: &Base,
) -> Result<String, Refusal> {
    match setting.kind() {
        ConfigType::List => Ok(setting.value(settings).unwrap_or_else(|| base.value(setting).0)),
        _ => {
            let message = format!("Can't {operation} to key {} because its type is not LIST.", setting.name);
            Err((ErrorCode::InvalidConfig, message))
        }
    }
}

/// Returns the configuration of a topic.
pub(super) fn of_topic(settings: &TopicSettings, base: &Base) -> Vec<ConfigEntry> {
    let entry = |setting: &Setting| {
        let (value, source) = match setting.value(settings) {
            Some(value) => (value, ConfigSource::Topic),
            None => base.value(setting),
        };
        ConfigEntry {
            name: setting.name,
            value: value.into(),
            is_read_only: false,
            source,
            kind: setting.kind(),
            documentation: setting.documentation,
        }
    };
    SETTINGS.iter().map(entry).collect()
}

fn of_broker(namespace: &Namespace) -> Vec<ConfigEntry> {
    let limits = namespace.default_log();
    let base = Base::default_of(limits);
    let entry = |name, value: String, kind, source| ConfigEntry {
        name,
        value: value.into(),
        is_read_only: true,
        source,
        kind,
        documentation: "",
    };
    let fixed = |name, value: String, kind| entry(name, value, kind, ConfigSource::Default);
    let like_topic = |name, topic_name: &str| {
        let setting = Setting::named(topic_name);
        setting.map(|setting| {
            let (value, source) = base.value(setting);
            entry(name, value, setting.kind(), source)
        })
    };
    let entries = [
        Some(entry(
            "auto.create.topics.enable",
            namespace.creates_topics().to_string(),
            ConfigType::Boolean,
            ConfigSource::StaticBroker,
        )),
        like_topic("compression.type", "compression.type"),
        Some(fixed("default.replication.factor", "1".to_owned(), ConfigType::Int)),
        Some(fixed("delete.topic.enable", "true".to_owned(), ConfigType::Boolean)),
        like_topic("log.cleanup.policy", "cleanup.policy"),
        like_topic("log.message.timestamp.type", "message.timestamp.type"),
        like_topic("log.retention.bytes", "retention.bytes"),
        like_topic("log.retention.ms", "retention.ms"),
        like_topic("message.max.bytes", "max.message.bytes"),
        like_topic("min.insync.replicas", "min.insync.replicas"),
        Some(fixed("num.partitions", namespace.topic_partitions().to_string(), ConfigType::Int)),
        Some(fixed("socket.request.max.bytes", LARGEST_REQUEST.to_string(), ConfigType::Int)),
    ];
    entries.into_iter().flatten().collect()
}

fn bytes_of(limits: &LogLimits) -> String {
    bytes_text(match limits.bytes {
        LogLimits::UNLIMITED => Bound::Unlimited,
        bytes => Bound::At(bytes),
    })
}

fn time_of(limits: &LogLimits) -> String {
    time_text(limits.retention.map_or(Bound::Unlimited, Bound::At))
}

fn unknown(name: &str) -> Refusal {
    (ErrorCode::InvalidConfig, format!("Unknown topic config name: {name}"))
}

fn no_topic() -> Refusal {
    (ErrorCode::UnknownTopicOrPartition, "there is no such topic".to_owned())
}

fn no_right() -> Refusal {
    (ErrorCode::TopicAuthorizationFailed, "the key has no right for that on the topic".to_owned())
}

/// The largest `max.message.bytes`. No batch may take more when it is unpacked.
const LARGEST_BATCH_MAX: usize = UNPACKED_MAX;

#[cfg(test)]
mod tests {
    use units::ByteSize;

    use super::*;

    fn change(before: &TopicSettings, name: &str, change: Change<'_>) -> Result<TopicSettings, ErrorCode> {
        let base = Base::default_of(LogLimits::default());
        changed(before, &base, [(name, change)].into_iter()).map_err(|(error, _)| error)
    }

    fn policy_of(settings: &TopicSettings) -> Option<&'static str> {
        settings.cleanup_policy.map(|policy| policy.name())
    }

    #[test]
    fn elements_are_added_to_and_removed_from_lists_alone() {
        let none = TopicSettings::default();
        let both = change(&none, "cleanup.policy", Change::Append("compact")).unwrap();
        assert_eq!(policy_of(&both), Some("delete,compact"), "the default is delete");
        let again = change(&both, "cleanup.policy", Change::Append("compact, delete")).unwrap();
        assert_eq!(again, both);
        let compact = change(&both, "cleanup.policy", Change::Subtract("delete")).unwrap();
        assert_eq!(policy_of(&compact), Some("compact"));
        let emptied = change(&compact, "cleanup.policy", Change::Subtract("compact"));
        assert_eq!(emptied, Err(ErrorCode::InvalidConfig));
        for operation in [Change::Append("1"), Change::Subtract("1")] {
            assert_eq!(change(&none, "retention.ms", operation), Err(ErrorCode::InvalidConfig));
        }
        assert_eq!(change(&none, "no.such", Change::Reset), Err(ErrorCode::InvalidConfig));
    }

    #[test]
    fn described_settings_can_be_sent_back() {
        let limits = LogLimits { bytes: ByteSize::from_mebibytes(3), ..LogLimits::default() };
        for base in [Base::default_of(LogLimits::default()), Base { limits, source: ConfigSource::Topic }] {
            let entries = of_topic(&TopicSettings::default(), &base);
            let changes = entries.iter().map(|entry| (entry.name, Change::Set(&entry.value)));
            let settings = changed(&TopicSettings::default(), &base, changes).unwrap();
            assert_eq!(settings.limits(LogLimits::default()), base.limits);
            let described = of_topic(&settings, &base);
            assert!(described.iter().all(|entry| entry.source == ConfigSource::Topic));
            let values = |entries: &[ConfigEntry]| {
                entries.iter().map(|entry| (entry.name, entry.value.clone())).collect::<Vec<_>>()
            };
            assert_eq!(values(&described), values(&entries));
        }
    }
}
