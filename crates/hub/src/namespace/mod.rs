//! What the service has: hubs, their partitions and consumer groups, queues and topics, and the keys that open them.
//!
//! All front ends share one [`Namespace`]. It is built from a [`NamespaceConfig`]; hubs and consumer groups come and
//! go while it serves, keys stay. Links hold the hubs and partitions themselves, so nothing is looked up per message.
//! [`Claims`] hold what one connection has proven to be allowed.

mod administration;
mod authorization;
mod capture;
mod cluster_id;
mod config;
mod consumer_group;
mod entities;
mod error;
mod facts;
mod hub;
mod hubs;
mod metrics;
mod principal;
mod queue_config;
mod queue_metrics;
mod queues;
mod receivers;
mod record_times;
mod retention;
mod storage;
mod topic_settings;
mod transaction_counters;
mod watchers;

pub use administration::AdministrationError;
pub use authorization::{AuthorizationError, Claim, Claims};
pub use capture::CaptureConfig;
pub use config::{DEFAULT_PARTITIONS, HubConfig, NamespaceConfig, RightConfig, RuleConfig, SignaturePolicy};
pub use consumer_group::{ConsumerGroup, DEFAULT_CONSUMER_GROUP};
pub(crate) use entities::DeletionObserver;
pub use entities::EntityError;
pub use error::NamespaceError;
pub use facts::{EntityFacts, KeptKey, Wishes};
pub use hub::{Hub, HubError, MAXIMUM_PARTITIONS, Partition};
pub use hubs::Hubs;
pub(crate) use metrics::NamespaceMetrics;
pub use principal::Principal;
pub use queue_config::{QueueConfig, QueueConfigError, SubscriptionConfig, TopicConfig};
pub use receivers::{
    Displacement, MAXIMUM_RECEIVERS, NewReceiver, Receiver, ReceiverDescription, ReceiverRefused, Receivers,
};
pub use record_times::{RecordTimes, SummedTimes};
pub use storage::{DataDirectoryError, StorageConfig, verify as verify_data_directory};
pub use topic_settings::{Bound, CleanupPolicy, TimestampType, TopicSettings};
pub(crate) use transaction_counters::TransactionEnd;
pub use transaction_counters::{TransactionCounterValues, TransactionCounters};
pub use watchers::{Watch, Watchers};

use crate::clock::ServiceClock;
use crate::counters::CounterValues;
use crate::identity::{DevelopmentIssuer, Identity};
use crate::memory::Memory;
use crate::profile::ProfileSwitch;
use access::{AuthorizationRule, DEVELOPMENT_KEY_VALUE, SharedAccessKey};
use entities::Entities;
use facts::Facts;
use hub::Creation;
use partition_log::disk::{CloseError, CommitWatch, Committer, StorageCounters};
use partition_log::{BlockPool, LogBudget, LogLimits, UnixTime};
use queue_store::{Entity, QueueStore};
use queues::MakeError;
use std::collections::{HashMap, HashSet};
use std::ops::RangeInclusive;
use std::sync::Arc;
use std::time::Duration;
use storage::{CoordinatorLog, Storage};
use tokio::sync::Notify;

/// The entities and keys of one service.
#[derive(Debug)]
pub struct Namespace {
    host: String,
    signatures: SignaturePolicy,
    rules: Vec<AuthorizationRule>,
    /// `None` where no bearer tokens are accepted.
    identity: Option<Arc<Identity>>,
    entities: Entities,
    queues: Arc<QueueStore>,
    transaction_counters: Arc<TransactionCounters>,
    memory: Arc<Memory>,
    facts: Facts,
    /// Something has come that is deleted when nobody uses it.
    idle_news: Notify,
    queue_configs: Vec<QueueConfig>,
    topic_configs: Vec<TopicConfig>,
    largest_message: u64,
    pool: Arc<BlockPool>,
    maximum_connections: u64,
    /// What brings events to the disk, if anything does.
    committer: Option<Arc<Committer>>,
    idle_timeout: Duration,
    profile: Arc<ProfileSwitch>,
    creates_topics: bool,
    topic_partitions: u16,
    cluster_id: String,
    default_log: LogLimits,
    log_budget: Option<Arc<LogBudget>>,
    clock: Arc<ServiceClock>,
    created_at: UnixTime,
}

impl Namespace {
    /// The namespace that `config` describes. Hubs that are not kept from before are created at `now`, and empty.
    ///
    /// # Errors
    /// The configuration makes no sense, or the data directory can't be used. Nothing was created then.
    pub fn new(config: &NamespaceConfig, now: UnixTime) -> Result<Self, NamespaceError> {
        Self::made_at(config, now, Arc::default())
    }

    /// As [`new`](Self::new), at the present of a clock that everything in it then goes by.
    ///
    /// # Errors
    /// As those of [`new`](Self::new).
    pub fn on_clock(config: &NamespaceConfig, clock: Arc<ServiceClock>) -> Result<Self, NamespaceError> {
        Self::made_at(config, clock.unix_time(), clock)
    }

    fn made_at(
        config: &NamespaceConfig,
        now: UnixTime,
        clock: Arc<ServiceClock>,
    ) -> Result<Self, NamespaceError> {
        let host_is_valid = |host: &str| {
            !host.is_empty()
                && host.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-._:".contains(&byte))
        };
        if !host_is_valid(&config.host) {
            return Err(NamespaceError::Host { host: config.host.clone() });
        }
        if !IDLE_TIMEOUTS.contains(&config.idle_timeout) {
            return Err(NamespaceError::IdleTimeout { idle_timeout: config.idle_timeout });
        }
        if !LARGEST_MESSAGES.contains(&config.largest_message.bytes()) {
            return Err(NamespaceError::LargestMessage { largest_message: config.largest_message });
        }
        let topic_partitions = config.topic_partitions;
        if !(1..=MAXIMUM_PARTITIONS).contains(&topic_partitions) {
            return Err(NamespaceError::TopicPartitions { topic_partitions });
        }
        let rules = rules(config)?;
        let account = config.blob.check()?;
        let identity = Identity::new(&config.token_issuers, &config.host, account.account())?;
        let profile = ProfileSwitch::new(&config.profile)?;
        let mut names = HashSet::with_capacity(config.hubs.len());
        for (index, hub) in config.hubs.iter().enumerate() {
            if !names.insert(hub.name.to_ascii_lowercase()) {
                return Err(NamespaceError::RepeatedHub { index, name: hub.name.clone() });
            }
        }
        let hub_names = || config.hubs.iter().map(|hub| hub.name.as_str());
        if config.storage.as_ref().is_none_or(StorageConfig::is_new) {
            queue_config::check(hub_names(), &config.queues, &config.topics)?;
            let names = entity_names(&config.queues, &config.topics);
            queue_config::check_forwarding(names, &config.queues, &config.topics)?;
        }
        let default_log = config.default_log.unwrap_or_default();
        Hub::check_limits(&default_log).map_err(|cause| NamespaceError::DefaultLog { cause })?;
        let pool = BlockPool::new(config.idle_blocks);
        let (mut queue_configs, mut topic_configs) = (config.queues.clone(), config.topics.clone());
        let (made, storage) = match &config.storage {
            Some(storage) => {
                let mut storage = Storage::open(storage, default_log)
                    .map_err(|cause| NamespaceError::DataDirectory { index: None, cause })?;
                (queue_configs, topic_configs) = storage.merged_queues(&config.queues, &config.topics);
                let hub_names = hub_names().chain(storage.hub_names());
                queue_config::check(hub_names, &queue_configs, &topic_configs)
                    .map_err(|error| config.blame(error, &queue_configs, &topic_configs))?;
                let names = entity_names(&queue_configs, &topic_configs);
                queue_config::check_forwarding(names, &config.queues, &config.topics)?;
                let queues = (&queue_configs[..], &topic_configs[..]);
                let hubs = storage.open_hubs(&config.hubs, queues, &pool, now)?;
                (hubs, Some(storage))
            }
            None => (hubs_in_memory(config, &pool, now)?, None),
        };
        let mut hubs = Hubs::default();
        let log_budget = config.log_total.map(LogBudget::new);
        for hub in made {
            hub.join(log_budget.as_ref(), 0);
            hubs.insert(hub).expect("neither what is kept nor what is declared has a name twice");
        }
        let queues = match &storage {
            None => QueueStore::in_memory(),
            Some(storage) => storage
                .open_queues(&pool)
                .map_err(|cause| NamespaceError::DataDirectory { index: None, cause })?,
        };
        queues::make(&queues, &queue_configs, &topic_configs).map_err(|error| match error {
            MakeError::Config(error) => config.blame(error, &queue_configs, &topic_configs),
            MakeError::Journal(reason) => NamespaceError::DataDirectory {
                index: None,
                cause: DataDirectoryError::Unusable { path: config.storage_directory(), reason },
            },
        })?;
        let facts = match &storage {
            Some(storage) => storage.facts(),
            None => facts_in_memory(&queue_configs, &topic_configs, now),
        };
        let kept_id = storage.as_ref().and_then(Storage::cluster_id);
        let cluster_id = kept_id.map_or_else(cluster_id::random, str::to_owned);
        let committer = storage.as_ref().map(|storage| Arc::clone(storage.committer()));
        Ok(Self {
            host: config.host.clone(),
            signatures: config.signatures,
            rules,
            identity: identity.map(Arc::new),
            entities: Entities::new(hubs, storage),
            queues,
            transaction_counters: Arc::default(),
            memory: Arc::new(Memory::new(Arc::clone(&pool))),
            facts: Facts::new(facts),
            idle_news: Notify::new(),
            queue_configs,
            topic_configs,
            largest_message: config.largest_message.bytes(),
            pool,
            maximum_connections: config.maximum_connections.get().into(),
            committer,
            idle_timeout: config.idle_timeout,
            profile,
            creates_topics: config.creates_topics,
            topic_partitions,
            cluster_id,
            default_log,
            log_budget,
            clock,
            created_at: now,
        })
    }

    /// The host under which clients know this namespace.
    #[must_use]
    pub fn host(&self) -> &str {
        &self.host
    }

    /// Whether what clients present is verified.
    #[must_use]
    pub fn signatures(&self) -> SignaturePolicy {
        self.signatures
    }

    /// What verifies bearer tokens; `None` where none are accepted.
    #[must_use]
    pub fn identity(&self) -> Option<&Arc<Identity>> {
        self.identity.as_ref()
    }

    /// Accepts the tokens of `issuer` as well, for this namespace and the storage account `account`. To be called before
    /// anything is served.
    pub(crate) fn accept_tokens_of(&mut self, issuer: &DevelopmentIssuer, account: &str) {
        let identity = self.identity.take().and_then(Arc::into_inner);
        let identity = Identity::and_development(identity, issuer, &self.host, account);
        self.identity = Some(Arc::new(identity));
    }

    /// How long clients are told that a connection may be silent.
    #[must_use]
    pub fn idle_timeout(&self) -> Duration {
        self.idle_timeout
    }

    /// When it began to be served.
    #[must_use]
    pub const fn created_at(&self) -> UnixTime {
        self.created_at
    }

    /// The clock that everything in it goes by.
    #[must_use]
    pub const fn clock(&self) -> &Arc<ServiceClock> {
        &self.clock
    }

    /// The budgets that all connections share.
    pub(crate) const fn memory(&self) -> &Arc<Memory> {
        &self.memory
    }

    /// What has become of transactions of queues and topics.
    #[must_use]
    pub const fn transaction_counters(&self) -> &Arc<TransactionCounters> {
        &self.transaction_counters
    }

    /// How many clients may be connected at once.
    #[must_use]
    pub fn maximum_connections(&self) -> u64 {
        self.maximum_connections
    }

    /// What shapes it like the real service; `None` where nothing does.
    #[must_use]
    pub const fn profile(&self) -> &Arc<ProfileSwitch> {
        &self.profile
    }

    /// The keys.
    #[must_use]
    pub fn rules(&self) -> &[AuthorizationRule] {
        &self.rules
    }

    /// Whether someone who knows nothing but public documentation could get in: the service must then not listen
    /// beyond loopback.
    #[must_use]
    pub fn is_open_to_anyone(&self) -> bool {
        self.signatures == SignaturePolicy::AcceptAny
            || self.rules.iter().any(|rule| rule.key.has_value(DEVELOPMENT_KEY_VALUE))
    }

    /// Lets logs hold [batches of producers](Partition::append_produced). Older programs refuse the data directory from
    /// then on.
    ///
    /// # Errors
    /// The data directory does not take the change.
    pub fn admit_producers(&self) -> Result<(), EntityError> {
        self.entities.admit_producers()
    }

    /// Lets logs hold [record batches of Kafka](Partition::append_record_batch). Older programs refuse the data directory from
    /// then on.
    ///
    /// # Errors
    /// The data directory does not take the change.
    pub fn admit_record_batches(&self) -> Result<(), EntityError> {
        self.entities.admit_record_batches()
    }

    /// Lets logs hold the transactions of Kafka's producers, and start behind
    /// [deleted](partition_log::PartitionLog::delete_before) records. Older programs refuse the data directory from then on.
    ///
    /// # Errors
    /// The data directory does not take the change.
    pub fn admit_transactions(&self) -> Result<(), EntityError> {
        self.entities.admit_transactions()
    }

    /// The log of the journal of Kafka's coordinators; `None` where nothing is kept on disk.
    pub(crate) fn open_coordinator_log(&self) -> Result<Option<CoordinatorLog>, NamespaceError> {
        self.entities
            .open_coordinator_log(&self.pool)
            .map_err(|cause| NamespaceError::DataDirectory { index: None, cause })
    }

    /// Whether Kafka's coordinators have a journal from before.
    pub(crate) fn has_coordinator_log(&self) -> bool {
        self.entities.has_coordinator_log()
    }

    /// Lets there be a journal of Kafka's coordinators. Older programs refuse the data directory from then on.
    pub(crate) fn admit_coordinators(&self) -> Result<(), EntityError> {
        self.entities.admit_coordinators()
    }

    /// The journal of Kafka's coordinators can't be used.
    pub(crate) fn refuse_coordinator_log(&self, error: &dyn std::fmt::Display) -> NamespaceError {
        let cause = self.entities.unusable("the journal of Kafka's coordinators", error);
        NamespaceError::DataDirectory { index: None, cause }
    }

    /// From now on `observer` hears of hubs that are deleted. There is one at most.
    pub(crate) fn observe_deletions(&self, observer: Arc<dyn DeletionObserver>) {
        self.entities.observe_deletions(observer);
    }

    /// All hubs as they are now: first those of the configuration in its order, then those created since.
    #[must_use]
    pub fn hubs(&self) -> Arc<Hubs> {
        self.entities.snapshot()
    }

    /// The hub of this name, whatever the letter case.
    #[must_use]
    pub fn hub(&self, name: &str) -> Option<Arc<Hub>> {
        self.hubs().find(name).cloned()
    }

    /// The hub whose name is `path`, or the beginning of it up to a slash. Since a name may have slashes itself, the
    /// longest one counts.
    #[must_use]
    pub fn hub_above(&self, path: &str) -> Option<Arc<Hub>> {
        let hubs = self.hubs();
        possible_names(path).filter_map(|name| hubs.find(name).cloned()).last()
    }

    /// Whether `path` names a hub, a queue or a topic, or something beneath one.
    #[must_use]
    pub fn has_entity_above(&self, path: &str) -> bool {
        self.hub_above(path).is_some() || possible_names(path).any(|name| self.queue_or_topic(name).is_some())
    }

    /// The queues and topics.
    #[must_use]
    pub const fn queues(&self) -> &Arc<QueueStore> {
        &self.queues
    }

    /// The queues of the start, with their options: those of the configuration in its order, then those that were kept besides.
    #[must_use]
    pub fn queue_configs(&self) -> &[QueueConfig] {
        &self.queue_configs
    }

    /// The topics in the same order.
    #[must_use]
    pub fn topic_configs(&self) -> &[TopicConfig] {
        &self.topic_configs
    }

    /// The queue or the topic of this name, whatever the letter case.
    #[must_use]
    pub fn queue_or_topic(&self, name: &str) -> Option<Entity> {
        self.queues.entity(name)
    }

    /// Largest message or batch that queues and topics take, in bytes.
    #[must_use]
    pub const fn largest_message(&self) -> u64 {
        self.largest_message
    }

    /// Creates a hub at `now`, which clients can use at once.
    ///
    /// # Errors
    /// There is one of that name, or it is none that the service takes. Nothing has changed then.
    pub fn create_hub(&self, config: &HubConfig, now: UnixTime) -> Result<Arc<Hub>, EntityError> {
        self.entities.create_hub(
            config,
            self.default_log,
            &self.pool,
            self.log_budget.as_ref(),
            now,
            |name| self.queue_or_topic(name).is_some(),
        )
    }

    /// Whether such a hub could be created.
    ///
    /// # Errors
    /// As [`create_hub`](Self::create_hub).
    pub fn check_hub(&self, config: &HubConfig) -> Result<(), EntityError> {
        self.check_name(&config.name)?;
        self.entities.check_hub(config)
    }

    fn check_name(&self, name: &str) -> Result<(), EntityError> {
        match self.queue_or_topic(name) {
            Some(_) => Err(EntityError::NameTaken { name: name.to_owned() }),
            None => Ok(()),
        }
    }

    /// Gives a hub more partitions, so that it has `count` in all. Keys are spread over all of them from then on.
    ///
    /// # Errors
    /// There is no such hub, it has as many already, or there can't be so many. Nothing has changed then.
    pub fn grow_hub(&self, name: &str, count: u16) -> Result<Arc<Hub>, EntityError> {
        self.entities.grow_hub(name, count, &self.pool, self.log_budget.as_ref())
    }

    /// Whether a hub could get more partitions, so that it had `count` in all.
    ///
    /// # Errors
    /// As [`grow_hub`](Self::grow_hub).
    pub fn check_growth(&self, name: &str, count: u16) -> Result<(), EntityError> {
        self.entities.check_growth(name, count)
    }

    /// Replaces the settings that clients have given to a hub by those that `change` makes of them. No other change of the hub
    /// happens in between.
    ///
    /// # Errors
    /// There is no such hub, no log can have the limits, the change can't be stored, or the error of `change`. Nothing has changed
    /// then.
    pub fn change_settings<E: From<EntityError>>(
        &self,
        name: &str,
        change: impl FnOnce(&TopicSettings) -> Result<TopicSettings, E>,
    ) -> Result<(), E> {
        self.entities.change_settings(name, change)
    }

    /// Checks limits of logs.
    ///
    /// # Errors
    /// A log could not hold a single batch of the largest size.
    pub fn check_limits(limits: &LogLimits) -> Result<(), HubError> {
        Hub::check_limits(limits)
    }

    /// The limits of each log of hubs that declare none.
    #[must_use]
    pub const fn default_log(&self) -> LogLimits {
        self.default_log
    }

    /// How many partitions a topic gets that Kafka's clients create without saying how many.
    #[must_use]
    pub const fn topic_partitions(&self) -> u16 {
        self.topic_partitions
    }

    /// What it is called as a cluster of Kafka: the base64url form of a UUID, which a data directory keeps.
    #[must_use]
    pub fn cluster_id(&self) -> &str {
        &self.cluster_id
    }

    /// Whether topics that Kafka's clients ask for are created.
    #[must_use]
    pub const fn creates_topics(&self) -> bool {
        self.creates_topics
    }

    /// Deletes a hub with all its events. Links that lead to it are ended by whoever holds them:
    /// [`Partition::is_deleted`].
    ///
    /// # Errors
    /// There is none of that name.
    pub fn delete_hub(&self, name: &str) -> Result<(), EntityError> {
        self.entities.delete_hub(name)
    }

    /// Creates a consumer group of the hub.
    ///
    /// # Errors
    /// There is one of that name, or it is none that the service takes, or there is no such hub.
    pub fn create_consumer_group(&self, hub: &str, name: &str) -> Result<Arc<ConsumerGroup>, EntityError> {
        self.entities.create_consumer_group(hub, name)
    }

    /// Deletes a consumer group of the hub. Links that read with it are ended by whoever holds them:
    /// [`ConsumerGroup::is_deleted`].
    ///
    /// # Errors
    /// There is none of that name, no such hub, or it is the one that every hub has.
    pub fn delete_consumer_group(&self, hub: &str, name: &str) -> Result<(), EntityError> {
        self.entities.delete_consumer_group(hub, name)
    }

    /// Takes the memory for all that the logs may hold beforehand, as far as [`NamespaceConfig::idle_blocks`] allows,
    /// and touches it, so that appending to empty logs is as fast as it will be later.
    pub fn preallocate(&self) {
        for hub in self.hubs().iter() {
            let Some(partition) = hub.partitions().first() else {
                continue;
            };
            let limits = partition.log().limits();
            let bytes = limits.bytes.bytes().saturating_mul(hub.partitions().len() as u64);
            self.pool.fill(units::ByteSize::from_bytes(bytes), limits.largest_block());
        }
    }

    /// Whether anything is kept on disk.
    #[must_use]
    pub const fn is_durable(&self) -> bool {
        self.committer.is_some()
    }

    /// The progress of durable logs, which acknowledgements wait for; `None` where logs are in memory.
    #[must_use]
    pub fn watch_commits(&self) -> Option<CommitWatch> {
        self.committer.as_ref().map(|committer| committer.subscribe())
    }

    /// What was done to keep events on the disk, since the start; `None` where they are in memory alone.
    #[must_use]
    pub fn storage_counters(&self) -> Option<StorageCounters> {
        self.committer.as_ref().map(|committer| committer.counters())
    }

    /// Brings everything to the disk and takes no event any longer. To be called once, at the end; it blocks.
    ///
    /// # Errors
    /// What could not be brought there.
    pub fn close(&self) -> Result<(), CloseError> {
        self.report_losses();
        self.entities.change(|mut storage| storage.as_mut().map(Storage::write_manifest));
        match &self.committer {
            Some(committer) => committer.close(),
            None => Ok(()),
        }
    }

    /// The counters of all hubs together.
    #[must_use]
    pub fn counters(&self) -> CounterValues {
        self.hubs().iter().map(|hub| hub.counters()).sum()
    }

    /// The memory that dropped segments left.
    #[must_use]
    pub fn pool(&self) -> &Arc<BlockPool> {
        &self.pool
    }
}

/// The names of queues and topics.
fn entity_names<'a>(queues: &'a [QueueConfig], topics: &'a [TopicConfig]) -> impl Iterator<Item = &'a str> {
    let queues = queues.iter().map(|queue| queue.name.as_str());
    queues.chain(topics.iter().map(|topic| topic.name.as_str()))
}

/// Those of queues, topics and subscriptions that are made at `now`, by their paths in lower case.
fn facts_in_memory(
    queues: &[QueueConfig],
    topics: &[TopicConfig],
    now: UnixTime,
) -> HashMap<String, EntityFacts> {
    let subscriptions = topics.iter().flat_map(|topic| {
        topic.subscriptions.iter().map(|each| facts::subscription_path(&topic.name, &each.name))
    });
    let paths = entity_names(queues, topics).map(str::to_owned).chain(subscriptions);
    paths.map(|path| (path.to_ascii_lowercase(), EntityFacts::of(now))).collect()
}

fn hubs_in_memory(
    config: &NamespaceConfig,
    pool: &Arc<BlockPool>,
    now: UnixTime,
) -> Result<Vec<Arc<Hub>>, NamespaceError> {
    let hub = |(index, hub)| {
        let creation = Creation { number: index as u64 + 1, at: now };
        let made = Hub::new(hub, config.default_log.unwrap_or_default(), pool, creation);
        made.map(Arc::new).map_err(|cause| NamespaceError::Hub { index, cause })
    };
    config.hubs.iter().enumerate().map(hub).collect()
}

fn rules(config: &NamespaceConfig) -> Result<Vec<AuthorizationRule>, NamespaceError> {
    if config.authorization_rules.is_empty() && config.signatures == SignaturePolicy::Verify {
        return Err(NamespaceError::NoRule);
    }
    let rule = |(index, rule): (usize, &RuleConfig)| {
        let fields = [
            ("name", rule.name.is_empty()),
            ("key", rule.key.reveal().is_empty()),
            ("rights", rule.rights.is_empty()),
        ];
        match fields.into_iter().find(|(_, is_empty)| *is_empty) {
            Some((field, _)) => Err(NamespaceError::EmptyRule { index, field }),
            None => Ok(AuthorizationRule {
                key: SharedAccessKey::new(rule.name.clone(), rule.key.clone()),
                rights: rule.rights.iter().copied().map(Into::into).collect(),
            }),
        }
    };
    config.authorization_rules.iter().enumerate().map(rule).collect()
}

/// On the wire it is a number of milliseconds of 32 bits, and twice it has to be waited for.
const IDLE_TIMEOUTS: RangeInclusive<Duration> = Duration::from_millis(10)..=Duration::from_secs(24 * 3600);

/// In bytes. Less than the smallest would cut off what clients put beside a payload.
const LARGEST_MESSAGES: RangeInclusive<u64> = 64 * 1024..=100 * 1024 * 1024;

/// `path` and its beginnings up to a slash, shortest first, as far as they are not too long for a name.
fn possible_names(path: &str) -> impl Iterator<Item = &str> {
    let slashes = path.match_indices('/').map(|(slash, _)| slash);
    slashes.chain([path.len()]).take_while(|end| *end <= LONGEST_NAME).map(|end| &path[..end])
}

/// The longest name that anything has, in bytes: those of queues and topics. Nothing longer is looked up, since a client
/// may send addresses of tens of thousands of slashes.
const LONGEST_NAME: usize = 260;

#[cfg(test)]
mod tests;
