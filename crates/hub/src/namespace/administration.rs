//! Queues, topics and subscriptions that clients create, change and delete while the service runs.
//!
//! Changes are made one at a time, under the same lock as those of hubs, so that no name is given twice. Where there is a data
//! directory it is changed first, and memory only once it has the change: what is answered with an error was not done. After a crash
//! in between an entity is there and empty, or gone permanently. While a creation waits for the device, the new name is reserved and
//! the lock free, so that concurrent creations wait together.

use std::io;
use std::sync::{Arc, MutexGuard};
use std::time::Duration;

use access::{EntityNameError, NamedEntity};
use partition_log::UnixTime;
use queue_store::{
    CreateError, Entity, NewSubscription, Queue, QueueError, QueueOptions, QueueStore, RuleChangeError,
    Subscription, Topic, TopicOptions,
};

use super::facts::subscription_path;
use super::queue_config;
use super::storage::{Kept, Storage};
use super::{
    DataDirectoryError, EntityFacts, Namespace, QueueConfig, QueueConfigError, SubscriptionConfig,
    TopicConfig,
};

/// Why a queue, topic, subscription or rule was not created, changed or deleted.
#[derive(Debug, thiserror::Error)]
pub enum AdministrationError {
    /// There is something of that name; letter case makes no difference.
    #[error("The messaging entity '{name}' already exists")]
    Exists {
        /// Its name, as it was given when it was made.
        name: String,
    },
    /// There is nothing at this path.
    #[error("The messaging entity '{path}' could not be found")]
    NotFound {
        /// What was asked for.
        path: String,
    },
    /// It can't be so.
    #[error("{0}")]
    Invalid(String),
    /// There are as many as there can be.
    #[error("There are {maximum} {what} already, the maximum")]
    TooMany {
        /// Name of the kind, in the plural.
        what: &'static str,
        /// Maximum number.
        maximum: usize,
    },
    /// The store does not take it.
    #[error(transparent)]
    Store(CreateError),
    /// A rule can't be added, changed or removed.
    #[error(transparent)]
    Rule(#[from] RuleChangeError),
    /// Nothing of the entity can be changed at present.
    #[error(transparent)]
    Queue(#[from] QueueError),
    /// The data directory does not take the change.
    #[error("The change can't be stored: {0}")]
    Storage(#[from] DataDirectoryError),
}

type Result<T> = std::result::Result<T, AdministrationError>;

impl Namespace {
    /// What is known of the entity at this path besides its options.
    #[must_use]
    pub fn facts(&self, path: &str) -> EntityFacts {
        self.facts.find(path).unwrap_or_default()
    }

    /// Creates a queue, which clients can use at once.
    ///
    /// # Errors
    /// The name is taken or none, or an option makes no sense. Nothing has changed then.
    pub fn create_queue(&self, config: &QueueConfig, facts: EntityFacts) -> Result<Arc<Queue>> {
        self.entities.change(|mut storage| {
            self.check_new(storage.as_ref(), &config.name, NamedEntity::Queue)?;
            self.check_options(&config.name, &config.options)?;
            let kept = storage.as_mut().map(|storage| storage.keep_queue(config, &facts)).transpose()?;
            self.make(storage, kept, || {
                let made = self.queues.create_queue(&config.name, config.options.clone())?;
                self.know(&config.name, facts);
                Ok(made)
            })
        })
    }

    /// Creates a topic, with the subscriptions that the configuration has.
    ///
    /// # Errors
    /// The name is taken or none, or an option makes no sense. Nothing has changed then.
    pub fn create_topic(&self, config: &TopicConfig, facts: EntityFacts) -> Result<Arc<Topic>> {
        self.entities.change(|mut storage| {
            self.check_new(storage.as_ref(), &config.name, NamedEntity::Topic)?;
            let mut subscriptions = Vec::with_capacity(config.subscriptions.len());
            for subscription in &config.subscriptions {
                subscriptions.push(self.new_subscription(&config.name, subscription)?);
            }
            let kept = storage.as_mut().map(|storage| storage.keep_topic(config, &facts)).transpose()?;
            self.make(storage, kept, || {
                let made = self.queues.create_topic(&config.name, config.options.clone(), subscriptions)?;
                for subscription in &config.subscriptions {
                    let path = subscription_path(&config.name, &subscription.name);
                    self.know(&path, EntityFacts::of(facts.created_at()));
                }
                self.know(&config.name, facts);
                Ok(made)
            })
        })
    }

    /// Creates a subscription of a topic, for the messages that are sent from now on.
    ///
    /// # Errors
    /// There is no such topic, the name is taken or none, or an option makes no sense. Nothing has changed then.
    pub fn create_subscription(
        &self,
        topic: &str,
        config: &SubscriptionConfig,
        facts: EntityFacts,
        now: UnixTime,
    ) -> Result<Arc<Subscription>> {
        self.entities.change(|mut storage| {
            let topic = self.topic(topic)?;
            if let Some(there) = topic.subscription(&config.name) {
                return Err(AdministrationError::Exists { name: there.queue().name().to_owned() });
            }
            let path = subscription_path(topic.name(), &config.name);
            if storage.as_ref().is_some_and(|storage| storage.is_reserved(&path)) {
                return Err(AdministrationError::Exists { name: path });
            }
            check_count("subscriptions of the topic", topic.subscriptions().len(), MAXIMUM_SUBSCRIPTIONS)?;
            let subscription = self.new_subscription(topic.name(), config)?;
            let kept = storage
                .as_mut()
                .map(|storage| storage.keep_subscription(topic.name(), config, &facts))
                .transpose()?;
            self.make(storage, kept, || {
                let made = self.queues.create_subscription(&topic, subscription, now)?;
                self.know(made.queue().name(), facts);
                Ok(made)
            })
        })
    }

    /// Makes what is new, once it is kept if anything is.
    fn make<T>(
        &self,
        storage: MutexGuard<'_, Option<Storage>>,
        kept: Option<Kept>,
        make: impl FnOnce() -> Result<T>,
    ) -> Result<T> {
        // Without a data directory the lock is held all the time.
        let Some(kept) = kept else {
            return make();
        };
        drop(storage);
        let waited: io::Result<()> = kept.wait();
        self.entities.change(|mut storage| {
            let storage = storage.as_mut().expect("what was kept was kept in a data directory");
            let made = waited.map_err(|error| storage.unkept(&error).into()).and_then(|()| make());
            match &made {
                Ok(_) => storage.is_there(kept),
                Err(_) => storage.give_up(kept),
            }
            made
        })
    }

    /// Changes a queue. The options hold at once.
    ///
    /// # Errors
    /// There is no such queue, or an option makes no sense or can't be changed. Nothing has changed then.
    pub fn update_queue(
        &self,
        name: &str,
        options: QueueOptions,
        facts: EntityFacts,
        now: UnixTime,
    ) -> Result<Arc<Queue>> {
        self.entities.change(|mut storage| {
            let Some(Entity::Queue(queue)) = self.queue_or_topic(name) else {
                return Err(not_found(name));
            };
            self.check_options(queue.name(), &options)?;
            let checked = QueueStore::check_update(&queue, options.clone())?;
            let facts = touched(facts, now);
            if let Some(storage) = &mut *storage {
                let config = QueueConfig { name: queue.name().to_owned(), options };
                storage.keep_queue_options(config, &facts)?;
            }
            self.queues.update_queue(&queue, checked, now);
            self.know(queue.name(), facts);
            Ok(queue)
        })
    }

    /// Changes a topic.
    ///
    /// # Errors
    /// As those of [`update_queue`](Self::update_queue).
    pub fn update_topic(
        &self,
        name: &str,
        options: &TopicOptions,
        facts: EntityFacts,
        now: UnixTime,
    ) -> Result<Arc<Topic>> {
        self.entities.change(|mut storage| {
            let topic = self.topic(name)?;
            let checked = QueueStore::check_topic_update(&topic, options)?;
            let facts = touched(facts, now);
            if let Some(storage) = &mut *storage {
                storage.keep_topic_options(topic.name(), options, &facts)?;
            }
            self.queues.update_topic(&topic, checked, now);
            self.know(topic.name(), facts);
            Ok(topic)
        })
    }

    /// Changes a subscription; its rules stay as they are.
    ///
    /// # Errors
    /// As those of [`update_queue`](Self::update_queue).
    pub fn update_subscription(
        &self,
        topic: &str,
        name: &str,
        options: QueueOptions,
        facts: EntityFacts,
        now: UnixTime,
    ) -> Result<Arc<Subscription>> {
        self.entities.change(|mut storage| {
            let (topic, subscription) = self.subscription(topic, name)?;
            let queue = subscription.queue();
            self.check_options(queue.name(), &options)?;
            let checked = QueueStore::check_update(queue, options.clone())?;
            let facts = touched(facts, now);
            if let Some(storage) = &mut *storage {
                storage.keep_subscription_options(topic.name(), subscription.name(), &options, &facts)?;
            }
            self.queues.update_queue(queue, checked, now);
            self.know(queue.name(), facts);
            Ok(subscription)
        })
    }

    /// Deletes a queue or a topic with all that is in it. Links that lead to it are ended by whoever holds them.
    ///
    /// # Errors
    /// There is none of that name.
    pub fn delete_queue_or_topic(&self, name: &str) -> Result<()> {
        self.entities.change(|mut storage| {
            let entity = self.queue_or_topic(name).ok_or_else(|| not_found(name))?;
            if let Some(storage) = &mut *storage {
                storage.forget_queue_or_topic(entity.name())?;
            }
            self.queues.delete(entity.name());
            let subscriptions = match &entity {
                Entity::Queue(_) => Vec::new(),
                Entity::Topic(topic) => {
                    topic.subscriptions().iter().map(|each| each.queue().name().to_owned()).collect()
                }
            };
            self.facts.forget(entity.name(), subscriptions.into_iter());
            if let Some(storage) = &mut *storage {
                storage.remove_queue_files(entity.name());
            }
            Ok(())
        })
    }

    /// Deletes a subscription of a topic with all that is in it.
    ///
    /// # Errors
    /// There is none of that name.
    pub fn delete_subscription(&self, topic: &str, name: &str, now: UnixTime) -> Result<()> {
        self.entities.change(|mut storage| {
            let (topic, subscription) = self.subscription(topic, name)?;
            if let Some(storage) = &mut *storage {
                storage.forget_subscription(topic.name(), subscription.name())?;
            }
            self.queues.delete_subscription(&topic, subscription.name(), now);
            self.facts.forget(subscription.queue().name(), std::iter::empty());
            Ok(())
        })
    }

    /// The topic of this name.
    ///
    /// # Errors
    /// There is none.
    pub fn topic(&self, name: &str) -> Result<Arc<Topic>> {
        match self.queue_or_topic(name) {
            Some(Entity::Topic(topic)) => Ok(topic),
            Some(Entity::Queue(_)) | None => Err(not_found(name)),
        }
    }

    /// A topic and its subscription of this name.
    ///
    /// # Errors
    /// There is no such topic, or none of its subscriptions has the name.
    pub fn subscription(&self, topic: &str, name: &str) -> Result<(Arc<Topic>, Arc<Subscription>)> {
        let topic = self.topic(topic)?;
        let found = topic.subscription(name);
        let found = found.ok_or_else(|| not_found(&subscription_path(topic.name(), name)))?;
        Ok((topic, found))
    }

    /// Deletes what nobody has used for as long as its owner allows. Returns when to look again, if there is anything to look at.
    pub fn delete_idle(&self, now: UnixTime) -> Option<UnixTime> {
        let mut next: Option<UnixTime> = None;
        for (path, limit, changed_at) in self.facts.idle_limits() {
            // What was done before the start is not known.
            let since = changed_at.max(self.created_at);
            let (topic, subscription) = path.split_once("/subscriptions/").unwrap_or((path.as_str(), ""));
            let used_at = match (self.queue_or_topic(topic), subscription) {
                (Some(Entity::Queue(queue)), "") => queue.used_at(now),
                (Some(Entity::Topic(topic)), "") => topic.used_at(now),
                (Some(Entity::Topic(topic)), name) => match topic.subscription(name) {
                    Some(subscription) => subscription.queue().used_at(now),
                    None => continue,
                },
                _ => continue,
            };
            let due = later(used_at.map_or(since, |used_at| used_at.max(since)), limit);
            if due > now {
                next = Some(next.map_or(due, |next| next.min(due)));
                continue;
            }
            let deleted = match subscription {
                "" => self.delete_queue_or_topic(topic),
                name => self.delete_subscription(topic, name, now),
            };
            match deleted {
                Ok(()) => {
                    let idle = units::duration::text(limit);
                    tracing::info!(entity = path, idle, "deleted after it was idle for so long");
                }
                Err(error) => {
                    tracing::warn!(entity = path, %error, "an idle entity can't be deleted; it is tried again");
                    let again = later(now, RETRY);
                    next = Some(next.map_or(again, |next| next.min(again)));
                }
            }
        }
        next
    }

    /// Waits until something has come that may be deleted when it is idle.
    pub(crate) async fn idle_news(&self) {
        self.idle_news.notified().await;
    }

    fn know(&self, path: &str, facts: EntityFacts) {
        let is_limited = facts.auto_delete_on_idle.is_some();
        self.facts.set(path, facts);
        if is_limited {
            self.idle_news.notify_one();
        }
    }

    /// Whether something new can have this name.
    fn check_new(&self, storage: Option<&Storage>, name: &str, kind: NamedEntity) -> Result<()> {
        if storage.is_some_and(|storage| storage.is_reserved(name)) {
            return Err(AdministrationError::Exists { name: name.to_owned() });
        }
        if let Some(there) = self.queue_or_topic(name) {
            return Err(AdministrationError::Exists { name: there.name().to_owned() });
        }
        if let Some(there) = self.hub(name) {
            return Err(AdministrationError::Exists { name: there.name().to_owned() });
        }
        check_count("queues and topics", self.queues.entity_count(), MAXIMUM_ENTITIES)?;
        Ok(kind.check_name(name)?)
    }

    fn new_subscription(&self, topic: &str, config: &SubscriptionConfig) -> Result<NewSubscription> {
        NamedEntity::Subscription.check_name(&config.name)?;
        self.check_options(&subscription_path(topic, &config.name), &config.options)?;
        let rules = config.rule_set().map_err(|(_, error)| AdministrationError::Rule(error.into()))?;
        Ok(NewSubscription { name: config.name.clone(), options: config.options.clone(), rules })
    }

    /// Whether a queue at `path` can have these options. What it forwards may come back to it: after some hops it goes to the
    /// dead letters for that.
    fn check_options(&self, path: &str, options: &QueueOptions) -> Result<()> {
        queue_config::check_values(path, options)?;
        let targets = [&options.forward_to, &options.forward_dead_lettered_messages_to];
        let mut targets = targets.into_iter().flatten();
        // A new one may forward to itself.
        let is_missing =
            |target: &&String| !target.eq_ignore_ascii_case(path) && self.queue_or_topic(target).is_none();
        match targets.find(is_missing) {
            None => Ok(()),
            Some(target) => Err(AdministrationError::Invalid(format!(
                "The messaging entity '{target}' could not be found, and '{path}' can't forward to it"
            ))),
        }
    }
}

impl From<CreateError> for AdministrationError {
    fn from(error: CreateError) -> Self {
        match error {
            CreateError::Exists { name } => Self::Exists { name },
            CreateError::Unavailable(error) => Self::Queue(error),
            error => Self::Store(error),
        }
    }
}

impl From<EntityNameError> for AdministrationError {
    fn from(error: EntityNameError) -> Self {
        Self::Invalid(error.to_string())
    }
}

impl From<QueueConfigError> for AdministrationError {
    fn from(error: QueueConfigError) -> Self {
        Self::Invalid(format!("{}: {}", error.path, error.reason))
    }
}

fn touched(mut facts: EntityFacts, now: UnixTime) -> EntityFacts {
    facts.touch(now);
    facts
}

fn check_count(what: &'static str, count: usize, maximum: usize) -> Result<()> {
    match count >= maximum {
        true => Err(AdministrationError::TooMany { what, maximum }),
        false => Ok(()),
    }
}

/// Maximum number of queues and topics of a namespace, beyond which clients create none, as in Azure.
const MAXIMUM_ENTITIES: usize = 10_000;

/// Maximum number of subscriptions of a topic, as in Azure. Each message of it is looked at for each of them.
const MAXIMUM_SUBSCRIPTIONS: usize = 2_000;

fn not_found(path: &str) -> AdministrationError {
    AdministrationError::NotFound { path: path.to_owned() }
}

fn later(time: UnixTime, duration: Duration) -> UnixTime {
    let milliseconds = i64::try_from(duration.as_millis()).unwrap_or(i64::MAX);
    UnixTime::from_milliseconds(time.milliseconds().saturating_add(milliseconds))
}

/// When it is tried again to delete what could not be deleted.
const RETRY: Duration = Duration::from_secs(60);
