//! All queues and topics of a service, and the passing of time for them.

use super::deadlines::Deadlines;
use super::entity::{Entity as Inner, EntityState, QUEUES_OF_ONE};
use super::error::QueueError;
use super::forwarding::Forwarder;
use super::journal::{Journal, JournalPlace, parked};
use super::message::NewMessage;
use super::options::{MAXIMUM_DELIVERY_COUNT, QueueOptions, TopicOptions};
use super::page::NEVER;
use super::queue::{Queue, Role};
use super::rules::RuleSet;
use super::subscription_rules::SubscriptionRules;
use super::topic::{Subscription, Topic};
use super::transaction::TransactionJournal;
use partition_log::BlockPool;
use partition_log::UnixTime;
use partition_log::disk::{CommitNumber, CommitState, Committer, Presence, Unavailable};
use std::collections::{BTreeMap, HashSet};
use std::ffi::{OsStr, OsString};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};
use std::task::{Context, Poll};
use units::ByteSize;

/// Queues and topics by name. Letter case makes no difference to names.
///
/// Somebody has to drive it: call [`advance`](Self::advance), sleep until the time that it returns or until
/// [`poll_earlier`](Self::poll_earlier) is ready, and again.
#[derive(Debug, Default)]
pub struct QueueStore {
    /// By their names in lower case.
    entities: RwLock<BTreeMap<String, Entity>>,
    deadlines: Arc<Deadlines>,
    forwarders: Mutex<Vec<Forwarder>>,
    /// Where everything is kept, unless in memory.
    disk: Option<Disk>,
}

/// The directory of a store.
#[derive(Debug)]
struct Disk {
    path: PathBuf,
    /// The folders in which there was something at the start.
    present: Mutex<HashSet<OsString>>,
    committer: Arc<Committer>,
    pool: Arc<BlockPool>,
    slack: ByteSize,
    transactions: Mutex<TransactionJournal>,
}

/// An entity of a store.
#[derive(Clone, Debug)]
pub enum Entity {
    /// A queue.
    Queue(Arc<Queue>),
    /// A topic.
    Topic(Arc<Topic>),
}

/// A subscription to be made.
#[derive(Clone, Debug)]
pub struct NewSubscription {
    /// Its own name.
    pub name: String,
    /// The options of its queue.
    pub options: QueueOptions,
    /// What it gets.
    pub rules: RuleSet,
}

/// Options that a queue, topic or subscription can have in place of those that it has.
#[derive(Clone, Debug)]
pub struct CheckedOptions(QueueOptions);

/// Why an entity was not created.
#[derive(Debug, thiserror::Error)]
pub enum CreateError {
    /// There is one of that name.
    #[error("there is an entity with the name {name:?} already")]
    Exists {
        /// The name.
        name: String,
    },
    /// The name is none.
    #[error("{name:?} is not a valid name for an entity")]
    Name {
        /// What was given.
        name: String,
    },
    /// An option makes no sense.
    #[error("{option} must be {allowed}")]
    Option {
        /// Which.
        option: &'static str,
        /// What it can be.
        allowed: &'static str,
    },
    /// What is kept of it can't be used.
    #[error("{0}")]
    Journal(Box<dyn std::error::Error + Send + Sync>),
    /// What is kept of it is not what is to be made.
    #[error("{0}")]
    Contradiction(Box<dyn std::error::Error + Send + Sync>),
    /// What it is to belong to, or what is to be changed, takes no change.
    #[error(transparent)]
    Unavailable(#[from] QueueError),
}

impl QueueStore {
    /// An empty store in memory.
    #[must_use]
    pub fn in_memory() -> Arc<Self> {
        Arc::default()
    }

    /// The store that is kept in the directory at `path`, which is made with the first entity; its parent must exist.
    /// Entities find what they held when they are made again under their names. `committer` is that of the service, and
    /// what it promises is promised here: see [`disk`](partition_log::disk).
    ///
    /// # Errors
    /// The directory can't be listed.
    pub fn open(path: &Path, committer: Arc<Committer>, pool: Arc<BlockPool>) -> io::Result<Arc<Self>> {
        Self::open_with(path, committer, pool, JOURNAL_SLACK)
    }

    /// As [`open`](Self::open), with journals that are cleaned when they are so much longer than twice of what is alive.
    pub(super) fn open_with(
        path: &Path,
        committer: Arc<Committer>,
        pool: Arc<BlockPool>,
        slack: ByteSize,
    ) -> io::Result<Arc<Self>> {
        let present = match committer.files().list(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
            listed => listed?,
        };
        // An entity's folder may be there before anything is kept in it. What can't be listed is told by whoever needs it.
        let is_empty =
            |name: &OsString| committer.files().list(&path.join(name)).is_ok_and(|within| within.is_empty());
        let present: HashSet<OsString> = present.into_iter().filter(|name| !is_empty(name)).collect();
        let transactions =
            TransactionJournal::open(path, &present, &committer, &pool).map_err(io::Error::other)?;
        let disk = Disk {
            path: path.to_owned(),
            present: Mutex::new(present),
            transactions: Mutex::new(transactions),
            committer: Arc::clone(&committer),
            pool,
            slack,
        };
        Ok(Arc::new(Self { disk: Some(disk), ..Self::default() }))
    }

    /// Makes a queue.
    ///
    /// # Errors
    /// The name is taken or none, or an option makes no sense.
    pub fn create_queue(&self, name: &str, options: QueueOptions) -> Result<Arc<Queue>, CreateError> {
        check_name(name)?;
        check_options(&options)?;
        self.create(name, || {
            let queues = vec![(options.clone(), name.into())];
            let size_limit = options.size_limit.bytes();
            let mut state = EntityState::new(queues, false, Vec::new(), size_limit);
            self.keep(name, &[String::new()], &mut state)?;
            let entity = Inner::new(state, Arc::clone(&self.deadlines));
            let queue = Queue::new(&entity, 0, name, Role::Queue);
            Ok((Entity::Queue(Arc::clone(&queue)), queue))
        })
    }

    /// Makes a topic with its subscriptions.
    ///
    /// # Errors
    /// A name is taken or none, or an option makes no sense.
    pub fn create_topic(
        &self,
        name: &str,
        options: TopicOptions,
        subscriptions: Vec<NewSubscription>,
    ) -> Result<Arc<Topic>, CreateError> {
        check_name(name)?;
        for (index, subscription) in subscriptions.iter().enumerate() {
            subscription.check()?;
            let is_same = |other: &NewSubscription| other.name.eq_ignore_ascii_case(&subscription.name);
            if subscriptions[..index].iter().any(is_same) {
                return Err(CreateError::Exists { name: subscription.name.clone() });
            }
        }
        let own = own_options(&options);
        check_options(&own)?;
        self.create(name, || {
            let first = [(own.clone(), name.into())];
            let further = subscriptions
                .iter()
                .map(|subscription| (subscription.options(), subscription.path(name).into()));
            let queues = first.into_iter().chain(further).collect();
            let size_limit = options.size_limit.bytes();
            let rules = subscriptions
                .iter()
                .map(|subscription| SubscriptionRules::configured(subscription.rules.clone()))
                .collect();
            let mut state = EntityState::new(queues, true, rules, size_limit);
            let own_name = [String::new()].into_iter();
            let names = subscriptions.iter().map(|subscription| subscription.name.to_ascii_lowercase());
            let names: Vec<String> = own_name.chain(names).collect();
            self.keep(name, &names, &mut state)?;
            let entity = Inner::new(state, Arc::clone(&self.deadlines));
            let made = subscriptions.iter().enumerate();
            let made = made.map(|(place, subscription)| subscription.made(&entity, name, place)).collect();
            let topic = Arc::new(Topic {
                subscriptions: RwLock::new(Arc::new(made)),
                queue: Queue::new(&entity, 0, name, Role::Queue),
                entity,
                name: name.into(),
            });
            Ok((Entity::Topic(Arc::clone(&topic)), topic))
        })
    }

    fn create<R>(
        &self,
        name: &str,
        create: impl FnOnce() -> Result<(Entity, R), CreateError>,
    ) -> Result<R, CreateError> {
        let mut entities = self.entities.write().unwrap_or_else(PoisonError::into_inner);
        let key = name.to_ascii_lowercase();
        if entities.contains_key(&key) {
            return Err(CreateError::Exists { name: name.to_owned() });
        }
        let (entity, created) = create()?;
        let queues = entity.queues();
        let deadline = entity.inner().lock().next_deadline();
        entities.insert(key, entity);
        drop(entities);
        queues.iter().for_each(|queue| self.forward_from(queue));
        self.deadlines.note(deadline);
        Ok(created)
    }

    /// Adds a subscription to a topic, for the messages that are sent from now on.
    ///
    /// # Errors
    /// The name is taken or none, an option makes no sense, or the topic was deleted.
    pub fn create_subscription(
        &self,
        topic: &Topic,
        subscription: NewSubscription,
        now: UnixTime,
    ) -> Result<Arc<Subscription>, CreateError> {
        subscription.check()?;
        let mut subscriptions = topic.subscriptions.write().unwrap_or_else(PoisonError::into_inner);
        let is_same = |there: &Arc<Subscription>| there.name.eq_ignore_ascii_case(&subscription.name);
        if let Some(there) = subscriptions.iter().find(|there| is_same(there)) {
            return Err(CreateError::Exists { name: there.name.clone() });
        }
        let path = subscription.path(&topic.name).into();
        let rules = SubscriptionRules::configured(subscription.rules.clone());
        let name = subscription.name.to_ascii_lowercase();
        let (place, _commit) = topic.queue.operate(now, |state, _now| {
            Ok(state.add_subscription(&subscription.options(), (&path, name), rules))
        })?;
        let made = subscription.made(&topic.entity, &topic.name, place);
        Arc::make_mut(&mut subscriptions).push(Arc::clone(&made));
        drop(subscriptions);
        self.forward_from(&made.queue);
        Ok(made)
    }

    /// Removes a subscription from a topic, with its messages. Its receivers get [`Deleted`](QueueError::Deleted). Returns `None`
    /// if there is none of that name, whatever the letter case. Whether the disk takes writes makes no difference: the caller has
    /// stored the deletion.
    pub fn delete_subscription(&self, topic: &Topic, name: &str, now: UnixTime) -> Option<Arc<Subscription>> {
        let mut subscriptions = topic.subscriptions.write().unwrap_or_else(PoisonError::into_inner);
        let place = subscriptions.iter().position(|each| each.name.eq_ignore_ascii_case(name))?;
        let found = Arc::make_mut(&mut subscriptions).remove(place);
        let name = found.name.to_ascii_lowercase();
        topic.queue.entity.administer(now, |state| {
            found.queue.mark_deleted();
            state.remove_subscription(found.place, &name);
        });
        Some(found)
    }

    /// Checks whether a queue, or that of a subscription, can have other options, and changes nothing.
    ///
    /// # Errors
    /// An option makes no sense, or can't be changed.
    pub fn check_update(queue: &Queue, options: QueueOptions) -> Result<CheckedOptions, CreateError> {
        check_options(&options)?;
        check_change(&queue.options(), &options)?;
        Ok(CheckedOptions(options))
    }

    /// The same for a topic.
    ///
    /// # Errors
    /// As those of [`check_update`](Self::check_update).
    pub fn check_topic_update(topic: &Topic, options: &TopicOptions) -> Result<CheckedOptions, CreateError> {
        Self::check_update(&topic.queue, own_options(options))
    }

    /// Replaces the options of a queue, or of that of a subscription. They apply at once, and waiting receivers look again. What
    /// is locked or waits keeps its end. Whether the disk takes writes makes no difference: the caller has stored the options.
    pub fn update_queue(&self, queue: &Arc<Queue>, options: CheckedOptions, now: UnixTime) {
        queue.set_options(now, options.0);
        self.forward_from(queue);
    }

    /// The same for a topic.
    pub fn update_topic(&self, topic: &Topic, options: CheckedOptions, now: UnixTime) {
        self.update_queue(&topic.queue, options, now);
    }

    /// Removes the entity of this name, whatever the letter case, with its messages; `None` if there is none. Whoever holds it gets
    /// [`Deleted`](QueueError::Deleted). Its folder is still there, and must be gone before the name is used again.
    pub fn delete(&self, name: &str) -> Option<Entity> {
        let mut entities = self.entities.write().unwrap_or_else(PoisonError::into_inner);
        let entity = entities.remove(&name.to_ascii_lowercase())?;
        drop(entities);
        // No subscription comes in between.
        let subscriptions = match &entity {
            Entity::Queue(_) => None,
            Entity::Topic(topic) => Some(topic.subscriptions.write().unwrap_or_else(PoisonError::into_inner)),
        };
        let mut state = entity.inner().lock();
        match &entity {
            Entity::Queue(queue) => queue.mark_deleted(),
            Entity::Topic(topic) => topic.queue.mark_deleted(),
        }
        for subscription in subscriptions.iter().flat_map(|subscriptions| subscriptions.iter()) {
            subscription.queue.mark_deleted();
        }
        state.retire();
        let wakers = std::mem::take(&mut state.effects.wakers);
        drop((state, subscriptions));
        wakers.wake();
        if let Some(disk) = &self.disk {
            let folder = Self::folder(name);
            disk.present().remove(OsStr::new(&folder));
            disk.forget_transactions_of(&folder);
        }
        Some(entity)
    }

    /// Lets messages of a queue and of its dead letters be forwarded, if they are to be.
    fn forward_from(&self, queue: &Arc<Queue>) {
        let mut forwarders = self.forwarders();
        for forwarder in Forwarder::of(queue) {
            if !forwarders.iter().any(|there| there.has_source_of(&forwarder)) {
                forwarders.push(forwarder);
            }
        }
    }

    /// Opens the journal of an entity, where there are journals, and puts into it what that tells.
    fn keep(&self, name: &str, names: &[String], state: &mut EntityState) -> Result<(), CreateError> {
        let Some(disk) = &self.disk else {
            return Ok(());
        };
        let made = disk.committer.files().create_directory(&disk.path);
        made.map_err(|error| CreateError::Journal(Box::new(error)))?;
        let folder = Self::folder(name);
        let presence = match disk.present().contains(OsStr::new(&folder)) {
            true => Presence::Present,
            false => Presence::Absent,
        };
        let place = JournalPlace {
            path: disk.path.join(folder),
            presence,
            committer: Arc::clone(&disk.committer),
            pool: Arc::clone(&disk.pool),
            slack: disk.slack,
        };
        let is_topic = state.is_topic;
        let is_new = presence == Presence::Absent;
        let EntityState { queues, rules, .. } = state;
        let past = disk.transactions().claim(&place.name());
        let opened = Journal::open(place, names, is_topic, &past, queues, rules);
        let (journal, report) = opened.map_err(|error| match error.is_contradiction() {
            true => CreateError::Contradiction(Box::new(error)),
            false => CreateError::Journal(Box::new(error)),
        })?;
        if !report.torn.is_empty() || !report.damaged.is_empty() {
            tracing::warn!(entity = name, "{report}");
        }
        disk.transactions()
            .opened(&journal, is_new && past.is_empty())
            .map_err(|error| CreateError::Journal(Box::new(error)))?;
        state.keep_in(journal);
        Ok(())
    }

    /// The journal of transactions, where there is one.
    pub(super) fn transactions(&self) -> Option<MutexGuard<'_, TransactionJournal>> {
        self.disk.as_ref().map(Disk::transactions)
    }

    /// The name of the folder, among those of entities, in which transactions are kept that span several of them. It is made
    /// with the first one.
    pub const TRANSACTIONS_FOLDER: &str = "~transactions";

    /// Prefix of the folders of deleted entities, until they are removed.
    pub const DELETED: &str = "_deleted-";

    /// Returns the name of the folder in which an entity is kept: its own in lower case, since some file systems know no other
    /// difference, with `~` for a slash. No two names of up to 255 characters have one folder, and no folder begins as [`DELETED`].
    ///
    /// ```text
    /// a/b   a~b        ~a   +a        _a   =a        260 characters   the first 200=16 hexadecimal digits
    /// ```
    ///
    /// [`DELETED`]: Self::DELETED
    #[must_use]
    pub fn folder(name: &str) -> String {
        let name = name.to_ascii_lowercase();
        let mut folder = name.replace('~', "+").replace('/', "~");
        if folder.starts_with('_') {
            folder.replace_range(..1, "=");
        }
        if folder.len() > LONGEST_FOLDER {
            folder.truncate(FOLDER_FRONT);
            folder.push_str(&format!("={:016x}", hash(name.as_bytes())));
        }
        folder
    }

    fn forwarders(&self) -> MutexGuard<'_, Vec<Forwarder>> {
        self.forwarders.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The queue or topic of this name.
    #[must_use]
    pub fn entity(&self, name: &str) -> Option<Entity> {
        let entities = self.entities.read().unwrap_or_else(PoisonError::into_inner);
        entities.get(&name.to_ascii_lowercase()).cloned()
    }

    /// Returns the number of queues and topics.
    #[must_use]
    pub fn entity_count(&self) -> usize {
        self.entities.read().unwrap_or_else(PoisonError::into_inner).len()
    }

    /// All of them, in the order of their names.
    #[must_use]
    pub fn entities(&self) -> Vec<Entity> {
        let entities = self.entities.read().unwrap_or_else(PoisonError::into_inner);
        entities.values().cloned().collect()
    }

    /// Lets everything happen that is due: locks and times to live end, scheduled messages become available, messages are
    /// forwarded. Returns when something is due next, if anything is.
    pub fn advance(&self, now: UnixTime) -> Option<UnixTime> {
        self.deadlines.restart();
        if let Some(mut transactions) = self.transactions() {
            transactions.forget_unclaimed(now);
        }
        for entity in self.entities() {
            self.deadlines.plan(entity.inner().advance(now));
        }
        let committer = self.disk.as_ref().map(|disk| &*disk.committer);
        let mut forwarders = self.forwarders();
        forwarders.retain(Forwarder::is_needed);
        for forwarder in &mut *forwarders {
            self.deadlines.plan(forwarder.run(self, committer, now));
        }
        drop(forwarders);
        match self.deadlines.planned() {
            NEVER => None,
            planned => Some(UnixTime::from_milliseconds(planned)),
        }
    }

    /// When a lock, a time to live, a schedule or a window of duplicates ends next, if any does. What waits for room elsewhere, and is tried
    /// again from time to time, is not part of it.
    #[must_use]
    pub fn next_due(&self) -> Option<UnixTime> {
        let deadlines = self.entities().into_iter().map(|entity| entity.inner().lock().next_deadline());
        let next = deadlines.min().filter(|deadline| *deadline != NEVER);
        next.map(UnixTime::from_milliseconds)
    }

    /// Ready when something has become due before the time that [`advance`](Self::advance) returned last.
    pub fn poll_earlier(&self, context: &mut Context<'_>) -> Poll<()> {
        self.deadlines.poll_earlier(context)
    }
}

impl Entity {
    /// Its name.
    #[must_use]
    pub fn name(&self) -> &str {
        match self {
            Self::Queue(queue) => queue.name(),
            Self::Topic(topic) => topic.name(),
        }
    }

    /// Whether it was deleted.
    #[must_use]
    pub fn is_deleted(&self) -> bool {
        match self {
            Self::Queue(queue) => queue.is_deleted(),
            Self::Topic(topic) => topic.is_deleted(),
        }
    }

    /// Its queue, or those of its subscriptions.
    fn queues(&self) -> Vec<Arc<Queue>> {
        match self {
            Self::Queue(queue) => vec![Arc::clone(queue)],
            Self::Topic(topic) => topic.subscriptions().iter().map(|each| Arc::clone(&each.queue)).collect(),
        }
    }

    /// Returns the queue that stores its messages: its own, or that of the scheduled messages of a topic.
    pub(super) fn own_queue(&self) -> &Queue {
        match self {
            Self::Queue(queue) => queue,
            Self::Topic(topic) => &topic.queue,
        }
    }

    /// As [`Queue::reserve`].
    ///
    /// # Errors
    /// As [`Queue::reserve`].
    pub fn reserve(&self, now: UnixTime, messages: &[NewMessage<'_>]) -> Result<Vec<u64>, QueueError> {
        self.own_queue().reserve(now, messages)
    }

    /// As [`Queue::check_scheduled`].
    ///
    /// # Errors
    /// As [`Queue::check_scheduled`].
    pub fn check_scheduled(&self, now: UnixTime, sequence_numbers: &[u64]) -> Result<(), QueueError> {
        self.own_queue().check_scheduled(now, sequence_numbers)
    }

    pub(super) fn inner(&self) -> &Arc<Inner> {
        match self {
            Self::Queue(queue) => &queue.entity,
            Self::Topic(topic) => &topic.entity,
        }
    }
}

impl NewSubscription {
    fn check(&self) -> Result<(), CreateError> {
        check_name(&self.name)?;
        check_options(&self.options)
    }

    /// The options of its queue: the topic detects duplicates.
    fn options(&self) -> QueueOptions {
        QueueOptions { duplicate_detection: None, ..self.options.clone() }
    }

    fn path(&self, topic: &str) -> String {
        format!("{topic}/Subscriptions/{}", self.name)
    }

    /// The subscription whose rules are at `place` within the entity.
    fn made(&self, entity: &Arc<Inner>, topic: &str, place: usize) -> Arc<Subscription> {
        let first = (place + 1) * QUEUES_OF_ONE;
        let queue = Queue::new(entity, first, &self.path(topic), Role::Subscription);
        Arc::new(Subscription { name: self.name.clone(), queue, place })
    }
}

impl Disk {
    fn present(&self) -> MutexGuard<'_, HashSet<OsString>> {
        // Locked sections look, or remove one name.
        self.present.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Has whatever transactions did to a deleted entity forgotten, and waits for it: otherwise the next one of its name might get
    /// that after a crash.
    fn forget_transactions_of(&self, folder: &str) {
        let commit = self.transactions().forget_deleted(folder);
        if let Err(reason) = commit.and_then(|commit| self.wait(commit)) {
            // The next entity of this name says it again.
            tracing::warn!(entity = folder, %reason, "the journal of transactions can't be written");
        }
    }

    /// Waits until a commit is done.
    fn wait(&self, commit: CommitNumber) -> Result<(), Unavailable> {
        if commit.is_done() {
            return Ok(());
        }
        let mut watch = self.committer.subscribe();
        loop {
            match watch.state_of(commit) {
                CommitState::Done => return Ok(()),
                CommitState::Failed => return Err(Unavailable::Failed(io::ErrorKind::Other)),
                CommitState::Waiting => parked(|context| watch.poll_committed(context)),
            }
        }
    }

    fn transactions(&self) -> MutexGuard<'_, TransactionJournal> {
        // A transaction is noted after it was written.
        self.transactions.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What a topic has of its own, as the options of a queue.
fn own_options(options: &TopicOptions) -> QueueOptions {
    QueueOptions {
        default_time_to_live: options.default_time_to_live,
        duplicate_detection: options.duplicate_detection,
        size_limit: options.size_limit,
        status: options.status,
        ..QueueOptions::default()
    }
}

/// Whether a queue with the options `before` can have others. Its messages belong to sessions or they don't, and identifiers were
/// noted or they weren't.
fn check_change(before: &QueueOptions, options: &QueueOptions) -> Result<(), CreateError> {
    let checks = [
        (before.requires_session == options.requires_session, "requires_session"),
        (
            before.duplicate_detection.is_some() == options.duplicate_detection.is_some(),
            "duplicate_detection",
        ),
    ];
    match checks.into_iter().find(|(holds, _)| !holds) {
        None => Ok(()),
        Some((_, option)) => Err(CreateError::Option { option, allowed: "as it was when it was created" }),
    }
}

/// Checks that a folder can stand for a name. Which names entities may have is for the namespace to say.
fn check_name(name: &str) -> Result<(), CreateError> {
    let is_name = !name.is_empty()
        && name.len() <= LONGEST_NAME
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_.-/~".contains(&byte))
        && !name.starts_with('/')
        && !matches!(name, "." | "..");
    match is_name {
        true => Ok(()),
        false => Err(CreateError::Name { name: name.to_owned() }),
    }
}

/// The hash FNV-1a of 64 bits.
fn hash(bytes: &[u8]) -> u64 {
    let step = |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3);
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, step)
}

fn check_options(options: &QueueOptions) -> Result<(), CreateError> {
    let checks = [
        (!options.lock_duration.is_zero(), "lock_duration", "longer than 0"),
        (
            (1..=MAXIMUM_DELIVERY_COUNT).contains(&options.maximum_delivery_count),
            "maximum_delivery_count",
            "1 to 2147483647",
        ),
        (
            options.default_time_to_live.is_none_or(|time| !time.is_zero()),
            "default_time_to_live",
            "longer than 0",
        ),
        (
            options.duplicate_detection.is_none_or(|time| !time.is_zero()),
            "duplicate_detection",
            "longer than 0",
        ),
        (options.size_limit > ByteSize::ZERO, "size_limit", "more than 0"),
        (
            options.forward_to.is_none() || !options.requires_session,
            "forward_to",
            "absent where sessions are required",
        ),
    ];
    match checks.into_iter().find(|(holds, ..)| !holds) {
        None => Ok(()),
        Some((_, option, allowed)) => Err(CreateError::Option { option, allowed }),
    }
}

/// What the service allows.
const LONGEST_NAME: usize = 260;

/// Maximum length of the name of a folder, in bytes, of common file systems.
const LONGEST_FOLDER: usize = 255;

/// Length of the front that is kept of a longer name, in bytes.
const FOLDER_FRONT: usize = 200;

/// How much longer than twice of what is alive a journal may be: two of the log's largest segments.
const JOURNAL_SLACK: ByteSize = ByteSize::from_mebibytes(8);
