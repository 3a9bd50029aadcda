//! What is received from or sent to, and how much of it at once.

use std::fmt;
use std::time::Duration;

/// Something that messages can be received from or sent to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Entity {
    /// A queue: messages go in and come out.
    Queue(String),
    /// A topic: messages go in.
    Topic(String),
    /// A subscription: messages that went into its topic come out.
    Subscription {
        /// The topic.
        topic: String,
        /// The subscription.
        name: String,
    },
}

/// How a source receives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReceiveOptions {
    /// How many messages may be in work at once, which means handed over and not confirmed to be settled; at least 1.
    /// The official processors call it the number of concurrent calls.
    pub concurrency: u32,
    /// How many messages more may be fetched and locked before it is their turn. With 0 a message is asked for when
    /// there is room for it in work.
    pub prefetch: u32,
    /// For how long after its delivery the lock of a message is renewed; zero never renews.
    pub lock_renewal: Duration,
}

impl Entity {
    /// Its address in the namespace.
    #[must_use]
    pub fn address(&self) -> String {
        match self {
            Self::Queue(name) | Self::Topic(name) => name.clone(),
            Self::Subscription { topic, name } => format!("{topic}/Subscriptions/{name}"),
        }
    }

    /// The name that a connection string's `EntityPath` would have to have.
    #[must_use]
    pub fn path(&self) -> &str {
        match self {
            Self::Queue(name) | Self::Topic(name) => name,
            Self::Subscription { topic, .. } => topic,
        }
    }
}

impl fmt::Display for Entity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Queue(name) => write!(f, "queue {name}"),
            Self::Topic(name) => write!(f, "topic {name}"),
            Self::Subscription { topic, name } => write!(f, "subscription {name} of topic {topic}"),
        }
    }
}

impl Default for ReceiveOptions {
    /// As with the official processors, but for the concurrency.
    fn default() -> Self {
        Self { concurrency: 256, prefetch: 0, lock_renewal: Duration::from_secs(5 * 60) }
    }
}
