//! A hub: partitions to append to and read from, and the consumer groups that read.
//!
//! A hub can be deleted while links hold it. It is marked then, with all that belongs to it, and every subscriber of
//! its logs is reported, so that whoever holds a link looks at [`Partition::is_deleted`] and ends it.
//!
//! A hub that gets more partitions is a new [`Hub`], which shares with the one before it everything that this has: links to
//! partitions notice nothing, and links to the hub as a whole find the new one behind the one they hold.

use super::capture::CaptureConfig;
use super::config::HubConfig;
use super::consumer_group::{ConsumerGroup, DEFAULT_CONSUMER_GROUP};
use super::receivers::Receivers;
use super::record_times::RecordTimes;
use super::retention::Reported;
use super::topic_settings::TopicSettings;
use super::watchers::Watchers;
use crate::counters::{CounterValues, Counters};
use access::{EntityNameError, NamedEntity};
use kafka::record_batch::RecordBatch;
use partition_log::UnixTime;
use partition_log::{
    AppendError, Appended, BatchEncoder, BlockPool, LogBudget, LogLimits, PartitionLog, ProduceError,
    Produced, ProducerStamp,
};
use std::collections::BTreeMap;

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};
use units::md5::md5;
use units::partition_key::Partitioner;

/// A named set of partitions.
#[derive(Debug)]
pub struct Hub {
    name: String,
    id: [u8; 16],
    created_at: UnixTime,
    partitions: Vec<Arc<Partition>>,
    consumer_groups: Arc<ConsumerGroups>,
    base: BaseLimits,
    /// Shared with the hub that it grows into.
    settings: Arc<RwLock<Arc<TopicSettings>>>,
    /// Whose turn it is among the partitions; grows for ever and wraps.
    turn: AtomicUsize,
    /// The same hub with more partitions, once it has got them.
    grown: OnceLock<Arc<Self>>,
}

/// The limits of each log of a hub before the settings that clients have given.
#[derive(Clone, Copy, Debug)]
struct BaseLimits {
    limits: LogLimits,
    /// Whether they are the service's default.
    are_default: bool,
}

/// What tells a hub from any other that had its name: a clock alone does not, since a hub can be deleted and made again
/// within its tick, or after it was set back.
#[derive(Clone, Copy, Debug)]
pub(super) struct Creation {
    /// The how manieth hub it is of its namespace, those that are deleted included.
    pub(super) number: u64,
    pub(super) at: UnixTime,
}

/// The consumer groups of a hub, by their names in lower case.
type ConsumerGroups = RwLock<BTreeMap<String, Arc<ConsumerGroup>>>;

/// One partition: its log and its counters.
#[derive(Debug)]
pub struct Partition {
    id: u16,
    log: Arc<PartitionLog>,
    counters: Counters,
    receivers: Arc<Receivers>,
    publishers: Arc<Watchers>,
    is_deleted: AtomicBool,
    /// Whether each event needs a key.
    requires_keys: AtomicBool,
    /// Set if someone measures them.
    times: OnceLock<RecordTimes>,
    /// Losses that were reported in the log of the service.
    reported: Mutex<Reported>,
}

/// Why a hub can't be made.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HubError {
    /// The name is not one that the service takes.
    #[error("name: {0}")]
    Name(EntityNameError),
    /// None, or more than there can be.
    #[error("partitions: {count} is not from 1 to {MAXIMUM_PARTITIONS}")]
    PartitionCount {
        /// What was given.
        count: u16,
    },
    /// The name of a consumer group is not one that the service takes.
    #[error("consumer_groups: {0}")]
    ConsumerGroup(EntityNameError),
    /// A consumer group is there twice, or is the one that is there anyway.
    #[error("consumer_groups: {name:?} exists already; {DEFAULT_CONSUMER_GROUP} need not be listed")]
    RepeatedConsumerGroup {
        /// Its name.
        name: String,
    },
    /// The log could not even hold a single batch of the largest size.
    #[error("log.bytes: a partition needs at least {minimum}")]
    LogBytes {
        /// The least that makes sense.
        minimum: units::ByteSize,
    },
    /// It can't be captured like this.
    #[error("capture.{field}: {reason}")]
    Capture {
        /// What of it.
        field: &'static str,
        /// What is wrong with it.
        reason: String,
    },
}

impl Hub {
    /// Creates an empty hub in memory, whose logs take it from `pool`. `defaults` apply if it declares no limits.
    pub(super) fn new(
        config: &HubConfig,
        defaults: LogLimits,
        pool: &Arc<BlockPool>,
        creation: Creation,
    ) -> Result<Self, HubError> {
        Self::check(config)?;
        let limits = config.limits(defaults);
        let log = |_id| Arc::new(PartitionLog::new(limits, Arc::clone(pool)));
        let logs = (0..config.partitions).map(log).collect();
        Self::with_logs(config, defaults, logs, creation)
    }

    /// Whether there can be such a hub.
    pub(super) fn check(config: &HubConfig) -> Result<(), HubError> {
        let HubConfig { name, partitions, consumer_groups, log, settings: _, capture } = config;
        NamedEntity::Hub.check_name(name).map_err(HubError::Name)?;
        Self::check_partitions(*partitions)?;
        log.as_ref().map_or(Ok(()), Self::check_limits)?;
        Self::check_limits(&config.limits(LogLimits::default()))?;
        named_consumer_groups(consumer_groups)?;
        capture.as_ref().map_or(Ok(()), CaptureConfig::check)
    }

    /// Creates the hub that `config` describes, with a log for each of its partitions.
    pub(super) fn with_logs(
        config: &HubConfig,
        defaults: LogLimits,
        logs: Vec<Arc<PartitionLog>>,
        creation: Creation,
    ) -> Result<Self, HubError> {
        let settings = &config.settings;
        let partition = |(id, log)| Partition::new(id, log, settings);
        Ok(Self {
            name: config.name.clone(),
            id: creation.id_of(&config.name),
            created_at: creation.at,
            partitions: (0..config.partitions).zip(logs).map(partition).collect(),
            consumer_groups: Arc::new(RwLock::new(named_consumer_groups(&config.consumer_groups)?)),
            base: BaseLimits { limits: config.log.unwrap_or(defaults), are_default: config.log.is_none() },
            settings: Arc::new(RwLock::new(Arc::new(settings.clone()))),
            turn: AtomicUsize::new(0),
            grown: OnceLock::new(),
        })
    }

    /// The same hub with a partition more for each of `logs`. Whoever holds the one before finds it by
    /// [`latest`](Self::latest), once it has taken its [place](Self::grow_into).
    pub(super) fn grown(&self, logs: Vec<Arc<PartitionLog>>) -> Self {
        let first = u16::try_from(self.partitions.len()).unwrap_or(u16::MAX);
        let settings = self.settings();
        let added = (first..MAXIMUM_PARTITIONS).zip(logs).map(|(id, log)| Partition::new(id, log, &settings));
        Self {
            name: self.name.clone(),
            id: self.id,
            created_at: self.created_at,
            partitions: self.partitions.iter().cloned().chain(added).collect(),
            consumer_groups: Arc::clone(&self.consumer_groups),
            base: self.base,
            settings: Arc::clone(&self.settings),
            turn: AtomicUsize::new(self.turn.load(Ordering::Relaxed)),
            grown: OnceLock::new(),
        }
    }

    /// Charges the logs of its partitions from `first` on to a budget, if there is one.
    pub(super) fn join(&self, budget: Option<&Arc<LogBudget>>, first: usize) {
        if let Some(budget) = budget {
            self.partitions.iter().skip(first).for_each(|partition| partition.log.join(budget));
        }
    }

    /// From now on `hub` is this hub.
    pub(super) fn grow_into(&self, hub: Arc<Self>) {
        // A hub grows once: the next time it is its successor that does.
        let _ = self.grown.set(hub);
    }

    /// This hub with all the partitions that it has by now.
    #[must_use]
    pub fn latest(&self) -> &Self {
        let mut latest = self;
        while let Some(grown) = latest.grown.get() {
            latest = grown;
        }
        latest
    }

    /// Whether there can be a hub of this one's name with so many partitions.
    pub(super) const fn check_partitions(count: u16) -> Result<(), HubError> {
        match count {
            1..=MAXIMUM_PARTITIONS => Ok(()),
            _ => Err(HubError::PartitionCount { count }),
        }
    }

    /// Whether logs can have these limits.
    pub(super) fn check_limits(limits: &LogLimits) -> Result<(), HubError> {
        match limits.bytes < MINIMUM_LOG_BYTES {
            true => Err(HubError::LogBytes { minimum: MINIMUM_LOG_BYTES }),
            false => Ok(()),
        }
    }

    /// The name, in the letter case in which it was given.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// An id (UUID) that it has for as long as it exists. If it is deleted and made again, it has another one.
    #[must_use]
    pub fn id(&self) -> [u8; 16] {
        self.id
    }

    /// When the hub was made.
    #[must_use]
    pub fn created_at(&self) -> UnixTime {
        self.created_at
    }

    /// All partitions; each one's place is its id.
    #[must_use]
    pub fn partitions(&self) -> &[Arc<Partition>] {
        &self.partitions
    }

    /// The partition that an address names: its id in decimal, without sign or leading zeros.
    #[must_use]
    pub fn partition(&self, id: &str) -> Option<&Arc<Partition>> {
        let is_plain = id.bytes().all(|byte| byte.is_ascii_digit()) && (id == "0" || !id.starts_with('0'));
        let place: usize = is_plain.then(|| id.parse().ok())??;
        self.partitions.get(place)
    }

    /// The partition of all events with `key`.
    #[must_use]
    pub fn partition_for_key(&self, key: &str) -> &Arc<Partition> {
        // At most MAXIMUM_PARTITIONS, so the count fits and each remainder has its partition.
        &self.partitions
            [Partitioner::EventHubs.partition_of(key.as_bytes(), self.partitions.len() as u32) as usize]
    }

    /// The partition whose turn it is to get what names neither a partition nor a key.
    #[must_use]
    pub fn next_partition(&self) -> &Arc<Partition> {
        &self.partitions[self.turn.fetch_add(1, Ordering::Relaxed) % self.partitions.len()]
    }

    /// The consumer group of this name, whatever the letter case.
    #[must_use]
    pub fn consumer_group(&self, name: &str) -> Option<Arc<ConsumerGroup>> {
        self.read_consumer_groups().get(&name.to_ascii_lowercase()).cloned()
    }

    /// All consumer groups as of now, in the order of their names in lower case.
    #[must_use]
    pub fn consumer_groups(&self) -> Vec<Arc<ConsumerGroup>> {
        self.read_consumer_groups().values().cloned().collect()
    }

    /// Whether the hub was deleted from its namespace. Nothing may be published to it or read from it any longer.
    #[must_use]
    pub fn is_deleted(&self) -> bool {
        // All partitions are marked at once, and there is one at least.
        self.partitions.iter().any(|partition| partition.is_deleted())
    }

    /// Adds a consumer group. Whether it is there or not must not change in the meantime, which is the caller's care.
    /// Checks whether [`create_consumer_group`](Self::create_consumer_group) would create one of this name.
    ///
    /// # Errors
    /// The name is invalid or taken.
    pub(super) fn check_consumer_group(&self, name: &str) -> Result<(), HubError> {
        check_consumer_group(&self.consumer_groups.read().unwrap_or_else(PoisonError::into_inner), name)
    }

    pub(super) fn create_consumer_group(&self, name: &str) -> Result<Arc<ConsumerGroup>, HubError> {
        insert_consumer_group(&mut self.write_consumer_groups(), name)
    }

    /// Takes a consumer group away and has everyone look who reads from the hub.
    pub(super) fn delete_consumer_group(&self, name: &str) -> Option<Arc<ConsumerGroup>> {
        let group = self.write_consumer_groups().remove(&name.to_ascii_lowercase())?;
        group.mark_deleted();
        self.wake_subscribers();
        Some(group)
    }

    /// Marks the hub as deleted, with its partitions and consumer groups, and has everyone look who holds them. Nothing
    /// is written to its files any longer.
    pub(super) fn mark_deleted(&self) {
        for partition in &self.partitions {
            partition.is_deleted.store(true, Ordering::Release);
            partition.log.retire();
        }
        for group in self.consumer_groups() {
            group.mark_deleted();
        }
        self.wake_subscribers();
    }

    fn wake_subscribers(&self) {
        for partition in &self.partitions {
            partition.log.wake_subscribers();
            partition.publishers.report_all();
        }
    }

    fn read_consumer_groups(&self) -> RwLockReadGuard<'_, BTreeMap<String, Arc<ConsumerGroup>>> {
        // Locked sections insert or remove one entry; what is there is whole.
        self.consumer_groups.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write_consumer_groups(&self) -> RwLockWriteGuard<'_, BTreeMap<String, Arc<ConsumerGroup>>> {
        self.consumer_groups.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// What each of its logs may hold.
    #[must_use]
    pub fn limits(&self) -> LogLimits {
        // They are all the same, and there is one at least.
        self.partitions.first().map(|partition| partition.log.limits()).unwrap_or_default()
    }

    /// The limits of each of its logs before the settings that clients have given.
    #[must_use]
    pub fn base_limits(&self) -> LogLimits {
        self.base.limits
    }

    /// Whether it declares no limits, so that the service's default applies.
    #[must_use]
    pub fn has_default_limits(&self) -> bool {
        self.base.are_default
    }

    /// The settings that clients have given.
    #[must_use]
    pub fn settings(&self) -> Arc<TopicSettings> {
        // Locked sections replace one reference.
        Arc::clone(&self.settings.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Replaces the settings that clients have given. They apply at once.
    pub(super) fn set_settings(&self, settings: TopicSettings) {
        let limits = settings.limits(self.base.limits);
        for partition in &self.partitions {
            partition.log.set_limits(limits);
            partition.requires_keys.store(settings.requires_keys(), Ordering::Relaxed);
        }
        *self.settings.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(settings);
    }

    /// The counters of all partitions together.
    #[must_use]
    pub fn counters(&self) -> CounterValues {
        self.partitions.iter().map(|partition| partition.counters.values()).sum()
    }
}

impl Partition {
    fn new(id: u16, log: Arc<PartitionLog>, settings: &TopicSettings) -> Arc<Self> {
        Arc::new(Self {
            id,
            log,
            counters: Counters::default(),
            receivers: Arc::default(),
            publishers: Arc::default(),
            is_deleted: AtomicBool::new(false),
            requires_keys: AtomicBool::new(settings.requires_keys()),
            times: OnceLock::new(),
            reported: Mutex::default(),
        })
    }

    /// Its number in the hub.
    #[must_use]
    pub fn id(&self) -> u16 {
        self.id
    }

    /// Its log, to read from. What is appended goes through [`append`](Self::append), which counts it.
    #[must_use]
    pub fn log(&self) -> &Arc<PartitionLog> {
        &self.log
    }

    /// Replaces the losses that were reported, and returns those before.
    pub(super) fn replace_reported(&self, reported: Reported) -> Reported {
        // Locked sections copy a value.
        std::mem::replace(&mut *self.reported.lock().unwrap_or_else(PoisonError::into_inner), reported)
    }

    /// Counts events of `bytes` bytes in all that a reader got, the last one of which comes before the number `end`.
    pub fn delivered(&self, events: u64, bytes: u64, end: u64) {
        self.counters.delivered(events, bytes);
        self.log.note_read(end);
    }

    /// Its counters. Readers tell what they delivered; appends are counted already.
    #[must_use]
    pub fn counters(&self) -> &Counters {
        &self.counters
    }

    /// Who receives from it.
    #[must_use]
    pub fn receivers(&self) -> &Arc<Receivers> {
        &self.receivers
    }

    /// The links that publish to it, or to the hub as a whole: they hear of the hub's end through this.
    #[must_use]
    pub fn publishers(&self) -> &Arc<Watchers> {
        &self.publishers
    }

    /// From now on the times of so many batches are remembered, and of as many answers. Noted are the requests of Kafka's clients.
    pub fn watch_times(&self, capacity: usize) {
        // Who asks first says how many.
        let _ = self.times.get_or_init(|| RecordTimes::new(capacity));
    }

    /// The times of its records, if they are watched.
    #[inline]
    #[must_use]
    pub fn times(&self) -> Option<&RecordTimes> {
        self.times.get()
    }

    /// Whether its hub was deleted. Whoever holds a link to it has to end it, and nothing may be appended any longer.
    ///
    /// When this becomes true, the keys of all [subscriptions](PartitionLog::subscribe) to the log are reported, armed
    /// or not, and those of all [publishers](Self::publishers).
    #[must_use]
    pub fn is_deleted(&self) -> bool {
        self.is_deleted.load(Ordering::Acquire)
    }

    /// Whether each event needs a key, because the latest one of each key is to stay.
    #[inline]
    #[must_use]
    pub fn requires_keys(&self) -> bool {
        self.requires_keys.load(Ordering::Relaxed)
    }

    /// Appends a batch to the log, as [`PartitionLog::append`] does, and counts it.
    pub fn append<E>(
        &self,
        now: UnixTime,
        encode: impl FnOnce(&mut BatchEncoder<'_>) -> Result<(), E>,
    ) -> Result<Appended, AppendError<E>> {
        let result = self.append_together(now, 1, encode);
        if let Err(
            AppendError::Full { .. } | AppendError::TotalReached { .. } | AppendError::Unavailable(_),
        ) = &result
        {
            self.counters.refused();
        }
        result
    }

    /// Appends what came in `batches` batches as one to the log. Counts them, unless they are refused: then each is to be
    /// tried by itself.
    pub(crate) fn append_together<E>(
        &self,
        now: UnixTime,
        batches: u64,
        encode: impl FnOnce(&mut BatchEncoder<'_>) -> Result<(), E>,
    ) -> Result<Appended, AppendError<E>> {
        let result = self.log.append(now, encode);
        if let Ok(appended) = &result {
            self.count(batches, appended);
        }
        result
    }

    /// Appends a producer's batch of `record_count` events to the log, as [`PartitionLog::append_produced`] does, and counts it.
    /// The namespace has [admitted producers](super::Namespace::admit_producers).
    pub fn append_produced<E>(
        &self,
        now: UnixTime,
        stamp: &ProducerStamp,
        record_count: u32,
        encode: impl FnOnce(&mut BatchEncoder<'_>) -> Result<(), E>,
    ) -> Result<Produced, ProduceError<E>> {
        let result = self.log.append_produced(now, stamp, record_count, encode);
        self.count_produced(&result, record_count);
        result
    }

    /// Appends a record batch of Kafka to the log, as [`PartitionLog::append_record_batch`] does, and counts it. The namespace has
    /// [admitted record batches](super::Namespace::admit_record_batches).
    pub fn append_record_batch(
        &self,
        now: UnixTime,
        batch: &RecordBatch<'_>,
    ) -> Result<Produced, ProduceError> {
        let result = self.log.append_record_batch(now, batch);
        self.count_produced(&result, batch.record_count());
        result
    }

    fn count_produced<E>(&self, result: &Result<Produced, ProduceError<E>>, record_count: u32) {
        match result {
            Ok(Produced::Stored(appended)) => self.count(1, appended),
            Ok(Produced::Duplicate { .. }) => self.counters.duplicate(u64::from(record_count)),
            Err(ProduceError::Producer(error)) => self.counters.rejected(error),
            Err(ProduceError::Append(
                AppendError::Full { .. } | AppendError::TotalReached { .. } | AppendError::Unavailable(_),
            )) => {
                self.counters.refused();
            }
            Err(ProduceError::Append(_)) => {}
        }
    }

    #[inline]
    fn count(&self, batches: u64, appended: &Appended) {
        if appended.record_count > 0 {
            self.counters.appended(batches, u64::from(appended.record_count), appended.bytes as u64);
        }
    }
}

impl Creation {
    fn id_of(self, name: &str) -> [u8; 16] {
        let mut bytes = self.at.milliseconds().to_be_bytes().to_vec();
        bytes.extend_from_slice(&self.number.to_be_bytes());
        bytes.extend_from_slice(name.as_bytes());
        let mut id = md5(&bytes);
        // A version of RFC 9562 for what vendors compute as they like: it also is not zero.
        id[6] = id[6] & 0x0f | 0x80;
        id[8] = id[8] & 0x3f | 0x80;
        id
    }
}

/// The consumer groups of a hub, by their names in lower case.
fn named_consumer_groups(names: &[String]) -> Result<BTreeMap<String, Arc<ConsumerGroup>>, HubError> {
    let mut groups = BTreeMap::from([(
        DEFAULT_CONSUMER_GROUP.to_ascii_lowercase(),
        Arc::new(ConsumerGroup::new(DEFAULT_CONSUMER_GROUP)),
    )]);
    for name in names {
        insert_consumer_group(&mut groups, name)?;
    }
    Ok(groups)
}

/// Adds a group to those of a hub, unless its name is none or is taken.
fn insert_consumer_group(
    groups: &mut BTreeMap<String, Arc<ConsumerGroup>>,
    name: &str,
) -> Result<Arc<ConsumerGroup>, HubError> {
    check_consumer_group(groups, name)?;
    let group = Arc::new(ConsumerGroup::new(name));
    groups.insert(name.to_ascii_lowercase(), Arc::clone(&group));
    Ok(group)
}

fn check_consumer_group(groups: &BTreeMap<String, Arc<ConsumerGroup>>, name: &str) -> Result<(), HubError> {
    let is_default = name.eq_ignore_ascii_case(DEFAULT_CONSUMER_GROUP);
    if !is_default {
        NamedEntity::ConsumerGroup.check_name(name).map_err(HubError::ConsumerGroup)?;
    }
    match groups.contains_key(&name.to_ascii_lowercase()) {
        true => Err(HubError::RepeatedConsumerGroup { name: name.into() }),
        false => Ok(()),
    }
}

/// The hash of a partition key has 15 bits beside its sign: further partitions would get no keys.
pub const MAXIMUM_PARTITIONS: u16 = 32_768;

/// Room for the largest publication that the service takes, and for a second one while the first is read.
const MINIMUM_LOG_BYTES: units::ByteSize = units::ByteSize::from_mebibytes(2);

#[cfg(test)]
mod tests {
    use super::*;
    use partition_log::{NewRecord, WhenFull};
    use std::convert::Infallible;
    use units::ByteSize;

    fn hub(config: &HubConfig) -> Result<Hub, HubError> {
        let creation = Creation { number: 1, at: UnixTime::from_milliseconds(5) };
        Hub::new(config, LogLimits::default(), &BlockPool::new(ByteSize::ZERO), creation)
    }

    fn append(partition: &Partition, sections: &[u8]) -> Result<Appended, AppendError<Infallible>> {
        let record = NewRecord { annotation_count: 0, annotations: &[], sections: &[sections] };
        partition.append(UnixTime::from_milliseconds(6), |encoder| {
            encoder.push(&record);
            Ok(())
        })
    }

    #[test]
    fn partitions_are_found_by_their_plain_decimal_id_only() {
        let hub = hub(&HubConfig::new("hub", 11)).unwrap();
        assert_eq!(hub.partition("0").unwrap().id(), 0);
        assert_eq!(hub.partition("10").unwrap().id(), 10);
        for id in ["", "11", "-1", "+1", "01", "00", " 1", "1 ", "0x1", "99999999999999999999"] {
            assert!(hub.partition(id).is_none(), "{id:?}");
        }
    }

    #[test]
    fn a_key_always_gets_its_partition_and_no_key_gets_them_in_turn() {
        let hub = hub(&HubConfig::new("hub", 4)).unwrap();
        assert_eq!(hub.partition_for_key("abcdefghijklm").id(), 3);
        let turns: Vec<u16> = (0..6).map(|_| hub.next_partition().id()).collect();
        assert_eq!(turns, [0, 1, 2, 3, 0, 1]);
    }

    #[test]
    fn consumer_groups_are_found_whatever_the_case_and_the_default_one_is_always_there() {
        let config = HubConfig { consumer_groups: vec!["Readers".into()], ..HubConfig::new("hub", 1) };
        let hub = hub(&config).unwrap();
        assert_eq!(hub.consumer_group("$DEFAULT").unwrap().name(), "$Default");
        assert_eq!(hub.consumer_group("readers").unwrap().name(), "Readers");
        assert!(hub.consumer_group("others").is_none());
        assert_eq!(hub.consumer_groups().len(), 2);
    }

    #[test]
    fn names_and_limits_that_the_service_would_not_take_are_refused() {
        for name in ["", "a b", "a//b", "a/Partitions/0", &"x".repeat(257)] {
            let refused = hub(&HubConfig::new(name, 1)).unwrap_err();
            let expected = EntityNameError { name: name.to_owned(), kind: NamedEntity::Hub };
            assert_eq!(refused, HubError::Name(expected));
        }
        for name in ["a", "a.b_c-d/e", "_schemas", "-a.", "Orders/Placed--", &"x".repeat(256)] {
            assert!(hub(&HubConfig::new(name, 1)).is_ok(), "{name}");
        }
        assert!(hub(&HubConfig::new("a", MAXIMUM_PARTITIONS)).is_ok());
        let count = MAXIMUM_PARTITIONS + 1;
        assert_eq!(hub(&HubConfig::new("a", count)).unwrap_err(), HubError::PartitionCount { count });
        let with_groups = |groups: &[&str]| {
            let consumer_groups = groups.iter().copied().map(str::to_owned).collect();
            hub(&HubConfig { consumer_groups, ..HubConfig::new("a", 1) })
        };
        for name in ["$default", "$Default"] {
            assert_eq!(
                with_groups(&[name]).unwrap_err(),
                HubError::RepeatedConsumerGroup { name: name.into() }
            );
        }
        assert_eq!(
            with_groups(&["b", "B"]).unwrap_err(),
            HubError::RepeatedConsumerGroup { name: "B".into() }
        );
        let expected = EntityNameError { name: "b/c".into(), kind: NamedEntity::ConsumerGroup };
        assert_eq!(with_groups(&["b/c"]).unwrap_err(), HubError::ConsumerGroup(expected));
        assert!(with_groups(&["_b-", "B__"]).is_ok());
        let log = LogLimits { bytes: ByteSize::from_bytes((2 << 20) - 1), ..LogLimits::default() };
        let small = hub(&HubConfig { log: Some(log), ..HubConfig::new("a", 1) });
        assert_eq!(small.unwrap_err(), HubError::LogBytes { minimum: MINIMUM_LOG_BYTES });
    }

    #[test]
    fn a_hub_that_grows_is_the_same_hub_with_more_partitions() {
        let pool = BlockPool::new(ByteSize::ZERO);
        let first = hub(&HubConfig::new("hub", 2)).unwrap();
        let logs = (0..2).map(|_| Arc::new(PartitionLog::new(first.limits(), Arc::clone(&pool)))).collect();
        let grown = Arc::new(first.grown(logs));
        assert_eq!(first.latest().partitions().len(), 2, "not before it has taken its place");
        first.grow_into(Arc::clone(&grown));
        assert_eq!((first.partitions().len(), first.latest().partitions().len()), (2, 4));
        assert_eq!((grown.id(), grown.partition("3").unwrap().id()), (first.id(), 3));
        assert!(Arc::ptr_eq(&first.partitions()[1], &grown.partitions()[1]));
        first.create_consumer_group("late").unwrap();
        assert!(grown.consumer_group("late").is_some());
        grown.mark_deleted();
        assert!(first.is_deleted());
    }

    #[test]
    fn appends_and_refusals_are_counted() {
        let log =
            LogLimits { bytes: ByteSize::from_mebibytes(2), when_full: WhenFull::Throttle, retention: None };
        let hub = hub(&HubConfig { log: Some(log), ..HubConfig::new("a", 2) }).unwrap();
        let event = vec![7; 1 << 20];
        let bytes = append(&hub.partitions()[1], &event).unwrap().bytes as u64;
        assert!(matches!(append(&hub.partitions()[1], &event), Err(AppendError::Full { .. })));
        append(&hub.partitions()[0], &[]).unwrap();
        let own = hub.partitions()[1].counters().values();
        assert_eq!((own.events_in, own.batches_in, own.bytes_in, own.batches_refused), (1, 1, bytes, 1));
        let all = hub.counters();
        assert_eq!((all.events_in, all.batches_in, all.batches_refused), (2, 2, 1));
    }
}
