//! All queues and topics of a service, and the passing of time for them.

use super::deadlines::Deadlines;
use super::entity::{Entity as Inner, EntityState, QUEUES_OF_ONE};
use super::forwarding::Forwarder;
use super::journal::{Journal, JournalPlace};
use super::options::{QueueOptions, TopicOptions};
use super::page::NEVER;
use super::queue::{Queue, Role};
use super::rules::RuleSet;
use super::subscription_rules::SubscriptionRules;
use super::topic::{Subscription, Topic};
use partition_log::BlockPool;
use partition_log::UnixTime;
use partition_log::disk::{Committer, Presence};
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
    /// The journals that were there at the start.
    present: HashSet<OsString>,
    committer: Arc<Committer>,
    pool: Arc<BlockPool>,
    slack: ByteSize,
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
}

impl QueueStore {
    /// An empty store in memory.
    #[must_use]
    pub fn in_memory() -> Arc<Self> {
        Arc::default()
    }

    /// The store that is kept in the directory at `path`, which is made if it is not there; its parent must exist.
    /// Entities find what they held when they are made again under their names. `committer` is that of the service, and
    /// what it promises is promised here: see [`disk`](partition_log::disk).
    ///
    /// # Errors
    /// The directory can't be made or listed.
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
        let files = committer.files();
        files.create_directory(path)?;
        let disk = Disk {
            path: path.to_owned(),
            present: files.list(path)?.into_iter().collect(),
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
            let entity = Inner::new(state, options.status, Arc::clone(&self.deadlines));
            let queue = Queue::new(&entity, 0, name, options.clone(), Role::Queue);
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
            check_name(&subscription.name)?;
            check_options(&subscription.options)?;
            let is_same = |other: &NewSubscription| other.name.eq_ignore_ascii_case(&subscription.name);
            if subscriptions[..index].iter().any(is_same) {
                return Err(CreateError::Exists { name: subscription.name.clone() });
            }
        }
        let own = QueueOptions {
            default_time_to_live: options.default_time_to_live,
            duplicate_detection: options.duplicate_detection,
            size_limit: options.size_limit,
            status: options.status,
            ..QueueOptions::default()
        };
        check_options(&own)?;
        let path = |subscription: &str| format!("{name}/Subscriptions/{subscription}");
        self.create(name, || {
            let first = [(own.clone(), name.into())];
            let further = subscriptions.iter().map(|subscription| {
                let options = QueueOptions { duplicate_detection: None, ..subscription.options.clone() };
                (options, path(&subscription.name).into())
            });
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
            let entity = Inner::new(state, options.status, Arc::clone(&self.deadlines));
            let made = subscriptions.iter().enumerate().map(|(place, subscription)| {
                let queue = Queue::new(
                    &entity,
                    (place + 1) * QUEUES_OF_ONE,
                    &path(&subscription.name),
                    subscription.options.clone(),
                    Role::Subscription,
                );
                Arc::new(Subscription { name: subscription.name.clone(), queue, place })
            });
            let topic = Arc::new(Topic {
                subscriptions: made.collect(),
                queue: Queue::new(&entity, 0, name, own.clone(), Role::Queue),
                entity,
                name: name.into(),
                options: options.clone(),
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
        let queues: Vec<Arc<Queue>> = match &entity {
            Entity::Queue(queue) => vec![Arc::clone(queue)],
            Entity::Topic(topic) => {
                let subscriptions = topic.subscriptions.iter();
                subscriptions.map(|each| Arc::clone(&each.queue)).collect()
            }
        };
        self.forwarders().extend(queues.iter().flat_map(Forwarder::of));
        let deadline = entity.inner().lock().next_deadline();
        entities.insert(key, entity);
        self.deadlines.note(deadline);
        Ok(created)
    }

    /// Opens the journal of an entity, where there are journals, and puts into it what that tells.
    fn keep(&self, name: &str, names: &[String], state: &mut EntityState) -> Result<(), CreateError> {
        let Some(disk) = &self.disk else {
            return Ok(());
        };
        let folder = Self::folder(name);
        let presence = match disk.present.contains(OsStr::new(&folder)) {
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
        let EntityState { queues, rules, .. } = state;
        let opened = Journal::open(place, names, is_topic, queues, rules);
        let (journal, report) = opened.map_err(|error| match error.is_contradiction() {
            true => CreateError::Contradiction(Box::new(error)),
            false => CreateError::Journal(Box::new(error)),
        })?;
        if !report.torn.is_empty() || !report.damaged.is_empty() {
            tracing::warn!(entity = name, "{report}");
        }
        state.keep_in(journal);
        Ok(())
    }

    /// The name of the folder in which an entity is kept.
    #[must_use]
    pub fn folder(name: &str) -> String {
        // No name of an entity has a tilde.
        name.to_ascii_lowercase().replace('/', "~")
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
        for entity in self.entities() {
            self.deadlines.plan(entity.inner().advance(now));
        }
        let committer = self.disk.as_ref().map(|disk| &*disk.committer);
        for forwarder in &mut *self.forwarders() {
            self.deadlines.plan(forwarder.run(self, committer, now));
        }
        match self.deadlines.planned() {
            NEVER => None,
            planned => Some(UnixTime::from_milliseconds(planned)),
        }
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

    fn inner(&self) -> &Arc<Inner> {
        match self {
            Self::Queue(queue) => &queue.entity,
            Self::Topic(topic) => &topic.entity,
        }
    }
}

fn check_name(name: &str) -> Result<(), CreateError> {
    let is_name = !name.is_empty()
        && name.len() <= LONGEST_NAME
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_.-/".contains(&byte))
        && name.starts_with(|first: char| first.is_ascii_alphanumeric())
        && name.ends_with(|last: char| last.is_ascii_alphanumeric());
    match is_name {
        true => Ok(()),
        false => Err(CreateError::Name { name: name.to_owned() }),
    }
}

fn check_options(options: &QueueOptions) -> Result<(), CreateError> {
    let checks = [
        (!options.lock_duration.is_zero(), "lock_duration", "longer than 0"),
        (options.maximum_delivery_count > 0, "maximum_delivery_count", "at least 1"),
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

/// How much longer than twice of what is alive a journal may be: two of the log's largest segments.
const JOURNAL_SLACK: ByteSize = ByteSize::from_mebibytes(8);
