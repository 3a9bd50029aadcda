//! What operators ask of topics: to create and delete them, to give them more partitions, and what they are like.
//!
//! Topics are hubs, created and deleted by whoever has the right `Manage`, here or over AMQP, and seen by all at once. There
//! is one broker, so that each partition has one replica, which it has.

use std::collections::HashSet;
use std::hash::Hash;
use std::sync::Arc;

use access::Right;
use kafka::ErrorCode;
use kafka::fetch::TopicRef;
use kafka::frame::RequestHeader;
use kafka::messages::configs::{AlterConfigsRequest, DescribeConfigsRequest};
use kafka::messages::create_partitions::{self, CreatePartitionsRequest, Growth};
use kafka::messages::create_topics::{self, CreateTopicsRequest, CreatedTopic, NewTopic, TopicShape};
use kafka::messages::delete_topics::{self, DeletedTopic};
use kafka::messages::describe_topic_partitions::{self, DescribeTopicPartitionsRequest, TopicPage};
use kafka::messages::{log_dirs, security};
use kafka::read::{Reader, Uuid};
use kafka::{ApiKey, Malformed};

use super::group_reader::WHOLE_NAMESPACE;
use super::output::Output;
use super::requests::AdministrationTask;
use super::session::Session;
use super::topic_configs::{self, Base, Change};
use super::topics::{self, Found};
use super::{BROKER, topic_names};
use crate::front::time_slice::map_in_slices;
use crate::namespace::{EntityError, Hub, HubConfig, HubError, Namespace, TopicSettings};

/// What it takes to answer.
#[derive(Debug)]
pub(super) struct AdminRequests<'a> {
    pub(super) namespace: &'a Namespace,
    pub(super) session: &'a Session,
}

/// Why something was not done, in words for whoever asked for it.
pub(super) type Refusal = (ErrorCode, String);

impl AdminRequests<'_> {
    /// Answers a request.
    pub(super) async fn answer(
        &self,
        header: &RequestHeader<'_>,
        (key, task): (ApiKey, AdministrationTask),
        body: Reader<'_>,
        output: &mut Output,
    ) -> Result<(), Malformed> {
        let version = header.version;
        let mut write = |write: &mut (dyn FnMut(&mut kafka::write::Writer) + Send)| {
            output.answer(key, version, header.correlation_id, |writer| write(writer));
        };
        match task {
            AdministrationTask::CreateTopics => {
                let request = CreateTopicsRequest::read(body, version)?;
                let created = self.create(&request).await;
                write(&mut |writer| create_topics::write_response(writer, version, &created, 0));
            }
            AdministrationTask::DeleteTopics => {
                let topics = delete_topics::read(body, version)?;
                let deleted = map_in_slices(topics, |topic| self.delete(topic)).await;
                write(&mut |writer| delete_topics::write_response(writer, version, &deleted, 0));
            }
            AdministrationTask::CreatePartitions => {
                let request = CreatePartitionsRequest::read(body)?;
                let results = self.create_partitions(&request).await;
                write(&mut |writer| create_partitions::write_response(writer, &results, 0));
            }
            AdministrationTask::DescribeConfigs => {
                let request = DescribeConfigsRequest::read(body, version)?;
                let described = topic_configs::describe(self.namespace, self.session, &request).await;
                write(&mut |writer| request.write_response(writer, version, &described, 0));
            }
            AdministrationTask::AlterConfigs => {
                let request = AlterConfigsRequest::read(body)?;
                let results = topic_configs::alter(self.namespace, self.session, &request).await;
                write(&mut |writer| request.write_response(writer, &results, 0));
            }
            AdministrationTask::IncrementalAlterConfigs => {
                let request = AlterConfigsRequest::read_incremental(body)?;
                let results = topic_configs::alter(self.namespace, self.session, &request).await;
                write(&mut |writer| request.write_response(writer, &results, 0));
            }
            AdministrationTask::DescribeLogDirs => {
                let sizes = self.sizes(log_dirs::read(body)?.as_deref());
                let log_dir = if self.namespace.watch_commits().is_some() { "data" } else { "memory" };
                write(&mut |writer| log_dirs::write_response(writer, version, log_dir, Ok(&sizes), 0));
            }
            AdministrationTask::DescribeAcls => {
                security::read_describe_acls(body, version)?;
                let error = ErrorCode::SecurityDisabled;
                write(&mut |writer| {
                    security::write_describe_acls_response(writer, error, NO_ACLS, 0);
                });
            }
            AdministrationTask::CreateAcls => {
                let count = security::read_create_acls(body, version)?;
                let (error, message) = self.acl_refusal();
                write(&mut |writer| {
                    security::write_create_acls_response(writer, count, error, message, 0);
                });
            }
            AdministrationTask::DeleteAcls => {
                let count = security::read_delete_acls(body, version)?;
                let (error, message) = self.acl_refusal();
                write(&mut |writer| {
                    security::write_delete_acls_response(writer, count, error, message, 0);
                });
            }
            AdministrationTask::DescribeClientQuotas => {
                security::read_describe_client_quotas(body)?;
                write(&mut |writer| security::write_describe_client_quotas_response(writer, 0));
            }
            AdministrationTask::DescribeUserScramCredentials => {
                let users = security::read_describe_scram_credentials(body)?;
                write(&mut |writer| {
                    security::write_describe_scram_credentials_response(writer, &users, 0);
                });
            }
            AdministrationTask::DescribeTopicPartitions => {
                let request = DescribeTopicPartitionsRequest::read(body)?;
                let (found, next) = self.page(&request).await;
                let next = next.as_ref().map(|(topic, index)| (topic.as_str(), *index));
                let pages: Vec<_> = found.iter().map(|page| self.described(page)).collect();
                write(&mut |writer| {
                    describe_topic_partitions::write_response(writer, BROKER, &pages, next, 0);
                });
            }
        }
        Ok(())
    }

    async fn create<'r>(&self, request: &CreateTopicsRequest<'r>) -> Vec<CreatedTopic<'r>> {
        let repeated = repeated(request.topics.iter().map(|topic| topic.name));
        let create = |topic: &NewTopic<'r>| {
            let result = match repeated.contains(&topic.name) {
                true => Err((ErrorCode::InvalidRequest, REPEATED.to_owned())),
                false => self.create_topic(topic, request.validate_only),
            };
            let result = result.map_err(|(error, message)| (error, Some(message)));
            CreatedTopic { name: topic.name, result }
        };
        map_in_slices(&request.topics, create).await
    }

    fn create_topic(&self, topic: &NewTopic<'_>, validate_only: bool) -> Result<TopicShape, Refusal> {
        self.may_manage(topic.name)?;
        topic_names::check(topic.name)?;
        let partitions = count_of(topic, self.namespace.topic_partitions())?;
        let base = Base::default_of(self.namespace.default_log());
        let settings = given_settings(topic, &base)?;
        let config = HubConfig { settings, ..HubConfig::new(topic.name, partitions) };
        let id = match validate_only {
            true => {
                self.namespace.check_hub(&config).map_err(refusal)?;
                Uuid::default()
            }
            false => {
                let hub = self
                    .namespace
                    .create_hub(&config, self.namespace.clock().unix_time())
                    .map_err(refusal)?;
                tracing::info!(hub = hub.name(), partitions, "hub created, as a topic of Kafka");
                hub.id()
            }
        };
        Ok(TopicShape {
            id,
            partitions: partitions.into(),
            replication_factor: 1,
            configs: topic_configs::of_topic(&config.settings, &base),
        })
    }

    fn delete(&self, topic: TopicRef<'_>) -> DeletedTopic {
        let name = match topic {
            TopicRef::Name(name) => Some(name.to_owned()),
            TopicRef::Id(_) => None,
        };
        let id = match topic {
            TopicRef::Name(_) => Uuid::default(),
            TopicRef::Id(id) => id,
        };
        let found = topics::find(self.namespace, self.session, topic, Right::Manage);
        let deleted = found.map_err(|error| (error, None)).and_then(|hub| {
            let deleted = self.namespace.delete_hub(hub.name());
            deleted.map(|()| hub).map_err(|error| {
                let (error, message) = refusal(error);
                (error, Some(message))
            })
        });
        match deleted {
            Ok(hub) => {
                tracing::info!(hub = hub.name(), "hub deleted, as a topic of Kafka");
                let (name, id) = (Some(hub.name().to_owned()), hub.id());
                DeletedTopic { name, id, error: ErrorCode::None, message: None }
            }
            Err((error, message)) => DeletedTopic { name, id, error, message },
        }
    }

    async fn create_partitions<'r>(
        &self,
        request: &CreatePartitionsRequest<'r>,
    ) -> Vec<(&'r str, ErrorCode, Option<String>)> {
        let repeated = repeated(request.topics.iter().map(|topic| topic.name));
        let grow = |topic: &Growth<'r>| {
            let result = match repeated.contains(&topic.name) {
                true => Err((ErrorCode::InvalidRequest, REPEATED.to_owned())),
                false => self.grow(topic, request.validate_only),
            };
            match result {
                Ok(()) => (topic.name, ErrorCode::None, None),
                Err((error, message)) => (topic.name, error, Some(message)),
            }
        };
        map_in_slices(&request.topics, grow).await
    }

    fn grow(&self, topic: &Growth<'_>, validate_only: bool) -> Result<(), Refusal> {
        self.may_manage(topic.name)?;
        let found = topics::find(self.namespace, self.session, TopicRef::Name(topic.name), Right::Manage);
        let hub = found.map_err(|error| (error, "there is no such topic".to_owned()))?;
        let count = u16::try_from(topic.count).map_err(|_beyond| no_such_count(topic.count))?;
        let added = usize::from(count).saturating_sub(hub.partitions().len());
        if let Some(assignments) = topic.assignments.as_ref().filter(|_| added > 0) {
            check_assignments(assignments.len() == added, assignments.iter().map(Vec::as_slice))?;
        }
        if validate_only {
            return self.namespace.check_growth(hub.name(), count).map_err(refusal);
        }
        self.namespace.grow_hub(hub.name(), count).map_err(refusal)?;
        tracing::info!(hub = hub.name(), partitions = count, "hub has more partitions");
        Ok(())
    }

    /// The bytes in the partitions that are asked for, or in all, as far as the client may know of them.
    fn sizes(&self, asked: Option<&[(&str, Vec<i32>)]>) -> Vec<log_dirs::TopicSizes> {
        let size = |hub: &Hub, index: usize| {
            let bytes = hub.partitions().get(index)?.log().stats().bytes;
            Some((i32::try_from(index).ok()?, i64::try_from(bytes).ok()?))
        };
        let whole = |hub: &Arc<Hub>| {
            let sizes = (0..hub.partitions().len()).filter_map(|index| size(hub, index));
            (hub.name().to_owned(), sizes.collect())
        };
        let Some(asked) = asked else {
            let hubs = self.namespace.hubs();
            return hubs.iter().filter(|hub| self.session.knows(hub.name())).map(whole).collect();
        };
        let known = asked.iter().filter(|(topic, _)| self.session.knows(topic));
        let named = known.filter_map(|(topic, indices)| {
            let hub = topics::named(self.namespace, topic)?;
            let indices = indices.iter().filter_map(|index| usize::try_from(*index).ok());
            Some(((*topic).to_owned(), indices.filter_map(|index| size(&hub, index)).collect()))
        });
        named.collect()
    }

    /// The topics and partitions that are asked for, as many as a page has, and what the next one begins with.
    async fn page<'r>(
        &self,
        request: &DescribeTopicPartitionsRequest<'r>,
    ) -> (Vec<Page<'r>>, Option<(String, i32)>) {
        let wanted = (!request.topics.is_empty())
            .then(|| request.topics.iter().map(|name| TopicRef::Name(name)).collect::<Vec<_>>());
        let mut found = topics::listed(self.namespace, self.session, wanted.as_deref()).await;
        found.sort_unstable_by(|a, b| a.name().cmp(&b.name()));
        let (start, from) = request.cursor.unwrap_or_default();
        let mut room = usize::try_from(request.partition_limit).unwrap_or(0).clamp(1, PAGE_MAX);
        let mut pages = Vec::new();
        for topic in found.into_iter().filter(|topic| topic.name().unwrap_or_default() >= start) {
            let partitions = topic.metadata().partitions;
            let first = match topic.name() == Some(start) {
                true => u32::try_from(from).unwrap_or(0).min(partitions),
                false => 0,
            };
            let end = partitions.min(first.saturating_add(u32::try_from(room).unwrap_or(u32::MAX)));
            if room == 0 && partitions > 0 {
                return (pages, topic.name().map(|name| (name.to_owned(), 0)));
            }
            room -= (end - first) as usize;
            let next = (end < partitions).then(|| (topic.name().unwrap_or_default().to_owned(), end as i32));
            pages.push(Page { topic, first, end });
            if next.is_some() {
                return (pages, next);
            }
        }
        (pages, None)
    }

    /// Describes a page: with what the client may do, which this request always asks for.
    fn described<'p>(&self, page: &'p Page<'_>) -> TopicPage<'p> {
        let topic = page.topic.metadata_with_operations(self.namespace, self.session);
        TopicPage { topic, first: page.first, end: page.end }
    }

    /// Returns the error for a change of ACLs.
    fn acl_refusal(&self) -> (ErrorCode, &'static str) {
        match self.session.allows(WHOLE_NAMESPACE, Right::Manage) {
            true => (ErrorCode::SecurityDisabled, NO_ACLS),
            false => (ErrorCode::ClusterAuthorizationFailed, "the key has no right Manage on the namespace"),
        }
    }

    fn may_manage(&self, name: &str) -> Result<(), Refusal> {
        match self.session.allows(name, Right::Manage) {
            true => Ok(()),
            false => {
                Err((ErrorCode::TopicAuthorizationFailed, "the key has no right Manage on it".to_owned()))
            }
        }
    }
}

/// Those partitions of a topic that are on a page.
struct Page<'r> {
    topic: Found<'r>,
    first: u32,
    end: u32,
}

/// Returns the settings that a request gives to a new topic.
fn given_settings(topic: &NewTopic<'_>, base: &Base) -> Result<TopicSettings, Refusal> {
    let mut changes = Vec::with_capacity(topic.configs.len());
    for (name, value) in &topic.configs {
        match value {
            Some(value) => changes.push((*name, Change::Set(value))),
            None => {
                let message = format!("Null value not supported for topic configs: {name}");
                return Err((ErrorCode::InvalidConfig, message));
            }
        }
    }
    topic_configs::changed(&TopicSettings::default(), base, changes.into_iter())
}

/// How many partitions a topic is to have: `default`, if the client does not say.
fn count_of(topic: &NewTopic<'_>, default: u16) -> Result<u16, Refusal> {
    let NewTopic { partitions, replication_factor, assignments, .. } = topic;
    // There is one broker. Tools that are made for several ask for more replicas, and are answered that there is one.
    if !matches!(replication_factor, -1 | 1..) {
        let message = format!("there can't be {replication_factor} replicas");
        return Err((ErrorCode::InvalidReplicationFactor, message));
    }
    if assignments.is_empty() {
        return match *partitions {
            -1 => Ok(default),
            count => u16::try_from(count).map_err(|_beyond| no_such_count(count)),
        };
    }
    if (*partitions, *replication_factor) != (-1, -1) {
        let message = "what is assigned says how many partitions and replicas there are: both must be -1";
        return Err((ErrorCode::InvalidRequest, message.to_owned()));
    }
    let mut indices: Vec<i32> = assignments.iter().map(|(index, _)| *index).collect();
    indices.sort_unstable();
    let is_complete = indices.iter().zip(0..).all(|(index, expected)| *index == expected);
    check_assignments(is_complete, assignments.iter().map(|(_, brokers)| brokers.as_slice()))?;
    u16::try_from(assignments.len()).map_err(|_beyond| no_such_count(i32::MAX))
}

/// Partitions may be assigned to the one broker that there is.
fn check_assignments<'a>(
    is_complete: bool,
    mut brokers: impl Iterator<Item = &'a [i32]>,
) -> Result<(), Refusal> {
    if is_complete && brokers.all(|brokers| brokers == [BROKER]) {
        return Ok(());
    }
    let message = format!("each partition has to be assigned once, to the broker {BROKER}");
    Err((ErrorCode::InvalidReplicaAssignment, message))
}

fn no_such_count(count: i32) -> Refusal {
    (ErrorCode::InvalidPartitions, format!("there can't be {count} partitions"))
}

/// What a client is told of an entity that is not created, deleted or changed.
pub(super) fn refusal(error: EntityError) -> Refusal {
    let code = match &error {
        EntityError::HubExists { .. } | EntityError::NameTaken { .. } => ErrorCode::TopicAlreadyExists,
        EntityError::NoHub { .. } => ErrorCode::UnknownTopicOrPartition,
        EntityError::PartitionCount { .. } => ErrorCode::InvalidPartitions,
        EntityError::TotalPartitions { .. } => ErrorCode::PolicyViolation,
        EntityError::Invalid(HubError::Name { .. }) => ErrorCode::InvalidTopicException,
        EntityError::Invalid(HubError::PartitionCount { .. }) => ErrorCode::InvalidPartitions,
        EntityError::Invalid(HubError::LogBytes { .. } | HubError::Capture { .. }) => {
            ErrorCode::InvalidConfig
        }
        EntityError::Invalid(HubError::ConsumerGroup { .. } | HubError::RepeatedConsumerGroup { .. })
        | EntityError::ConsumerGroupExists { .. }
        | EntityError::NoConsumerGroup { .. }
        | EntityError::DefaultConsumerGroup => ErrorCode::InvalidRequest,
        EntityError::Storage(_) => ErrorCode::KafkaStorageError,
    };
    (code, error.to_string())
}

/// Returns the items that are there more than once.
pub(super) fn repeated<T: Copy + Eq + Hash>(items: impl Iterator<Item = T>) -> HashSet<T> {
    let mut seen = HashSet::new();
    items.filter(|item| !seen.insert(*item)).collect()
}

const NO_ACLS: &str = "there are no ACLs: keys have rights";

const REPEATED: &str = "the topic is there more than once";

/// Partitions on a page, whatever the client asks for, as Kafka has it (`max.request.partition.size.limit`).
const PAGE_MAX: usize = 2_000;
