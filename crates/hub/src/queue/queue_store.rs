//! All queues and topics of a service, and the passing of time for them.

use super::options::{QueueOptions, TopicOptions};
use super::queue::Queue;
use super::topic::Topic;
use crate::log::disk::Unavailable;
use crate::unix_time::UnixTime;
use std::sync::Arc;
use std::task::{Context, Poll};

/// Queues and topics by name. Letter case makes no difference to names.
///
/// Somebody has to drive it: call [`advance`](Self::advance), sleep until the time that it returns or until
/// [`poll_earlier`](Self::poll_earlier) is ready, and again.
#[derive(Debug)]
pub struct QueueStore {
    todo: (),
}

/// An entity of a store.
#[derive(Clone, Debug)]
pub enum Entity {
    /// A queue.
    Queue(Arc<Queue>),
    /// A topic.
    Topic(Arc<Topic>),
}

/// Why an entity was not created.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CreateError {
    /// There is one of that name.
    #[error("there is an entity with the name {name:?} already")]
    Exists {
        /// The name.
        name: String,
    },
    /// There is no topic for the subscription.
    #[error("there is no topic with the name {name:?}")]
    NoTopic {
        /// The name of the topic.
        name: String,
    },
    /// The name is none.
    #[error(
        "{name:?} is no name: it has from 1 to 260 letters, digits, and . - _ /, and begins and ends with a letter or digit"
    )]
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
    /// The disk does not take it.
    #[error(transparent)]
    Unavailable(#[from] Unavailable),
}

impl QueueStore {
    /// An empty store in memory.
    #[must_use]
    pub fn in_memory() -> Arc<Self> {
        todo!()
    }

    /// Makes a queue. In a store that is kept on disk it finds again what it held.
    ///
    /// # Errors
    /// The name is taken or none, an option makes no sense, or what is on disk can't be read.
    pub fn create_queue(
        self: &Arc<Self>,
        name: &str,
        options: QueueOptions,
        now: UnixTime,
    ) -> Result<Arc<Queue>, CreateError> {
        todo!("{name} {options:?} {now}")
    }

    /// Makes a topic, with its subscriptions: their names and options.
    ///
    /// # Errors
    /// As [`create_queue`](Self::create_queue).
    pub fn create_topic(
        self: &Arc<Self>,
        name: &str,
        options: TopicOptions,
        subscriptions: Vec<(String, QueueOptions)>,
        now: UnixTime,
    ) -> Result<Arc<Topic>, CreateError> {
        todo!("{name} {options:?} {subscriptions:?} {now}")
    }

    /// The queue or topic of this name.
    #[must_use]
    pub fn entity(&self, name: &str) -> Option<Entity> {
        todo!("{name}")
    }

    /// All of them, in the order of their names.
    #[must_use]
    pub fn entities(&self) -> Vec<Entity> {
        todo!()
    }

    /// Lets everything happen that is due: locks and times to live end, scheduled messages become available, messages are
    /// forwarded. Returns when something is due next, if anything is.
    pub fn advance(&self, now: UnixTime) -> Option<UnixTime> {
        todo!("{now}")
    }

    /// Ready when something has become due before the time that [`advance`](Self::advance) returned last.
    pub fn poll_earlier(&self, context: &mut Context<'_>) -> Poll<()> {
        todo!("{context:?}")
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
}
