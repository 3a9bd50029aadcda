//! The sections of a pipeline file that are about Service Bus, and their rules.

use std::path::PathBuf;
use std::time::Duration;

use access::ConnectionString;
use connect::service_bus::{Entity, ReceiveOptions};
use connect::sink::SendUnit;
use serde::Deserialize;
use settings::{Document, SettingsError};

use super::file::{Transport, connection_string};
use super::vocabulary::{RetryKeys, Settlement};
use super::{ServiceBusSinkConfig, ServiceBusSourceConfig};

/// A queue or subscription to receive from.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ServiceBusSource {
    #[serde(alias = "fully_qualified_namespace", deserialize_with = "connection_string")]
    pub(super) connection_string: ConnectionString,
    pub(super) queue: Option<String>,
    pub(super) topic: Option<String>,
    pub(super) subscription: Option<String>,
    /// Messages in work at once.
    #[serde(default = "concurrency")]
    pub(super) concurrency: u32,
    /// Messages that are locked ahead of their turn.
    #[serde(default)]
    pub(super) prefetch: u32,
    /// For how long locks are renewed; `0 s` for not at all.
    #[serde(default = "lock_renewal", with = "units::duration")]
    pub(super) lock_renewal: Duration,
    #[serde(default)]
    pub(super) transport: Transport,
    pub(super) certificate_authority: Option<PathBuf>,
}

/// A queue or topic to send to.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ServiceBusSink {
    #[serde(alias = "fully_qualified_namespace", deserialize_with = "connection_string")]
    pub(super) connection_string: ConnectionString,
    pub(super) queue: Option<String>,
    pub(super) topic: Option<String>,
    #[serde(default)]
    pub(super) send: Send,
    /// Tries of a send to it, where they are others than the pipeline's.
    pub(super) retry: Option<RetryKeys>,
    /// Only events for which this is true go there.
    pub(super) when: Option<String>,
    #[serde(default)]
    pub(super) transport: Transport,
    pub(super) certificate_authority: Option<PathBuf>,
}

/// What one send is.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Send {
    #[default]
    Single,
    Batch,
}

/// The names in a section, of which one or two are given.
struct Names<'a> {
    connection_string: &'a ConnectionString,
    queue: Option<&'a str>,
    topic: Option<&'a str>,
    subscription: Option<&'a str>,
}

impl ServiceBusSource {
    /// What is received from; `None` if the names do not say it.
    pub(super) fn entity(&self) -> Option<Entity> {
        match self.names().entity()? {
            Entity::Topic(_) => None,
            entity => Some(entity),
        }
    }

    pub(super) fn check(&self, document: &Document) -> Result<(), SettingsError> {
        let section = "source.service_bus";
        self.names().check(document, section)?;
        if self.entity().is_none() {
            let (reason, advice) = match &self.topic {
                Some(_) => (
                    "messages can't be received from a topic without a subscription",
                    "add `subscription: <name>`",
                ),
                None => (
                    "no queue or subscription is given",
                    "add `queue: <name>`, or `topic` and `subscription`",
                ),
            };
            return Err(document.mistake(section, reason, advice));
        }
        let within = |key: &str, value: u32, least: u32, most: u32| match (least..=most).contains(&value) {
            true => Ok(()),
            false => Err(document.mistake(
                &format!("{section}.{key}"),
                format!("{value} is out of range"),
                format!("allowed is {least} to {most}"),
            )),
        };
        within("concurrency", self.concurrency, 1, CONCURRENCY_MAX)?;
        within("prefetch", self.prefetch, 0, PREFETCH_MAX)?;
        if self.lock_renewal > LOCK_RENEWAL_MAX {
            return Err(document.mistake(
                &format!("{section}.lock_renewal"),
                format!("{} is too long", units::duration::text(self.lock_renewal)),
                format!("allowed is {} or less", units::duration::text(LOCK_RENEWAL_MAX)),
            ));
        }
        Ok(())
    }

    /// # Panics
    /// When it was not [checked](Self::check).
    pub(super) fn into_config(self, settlement: Settlement) -> ServiceBusSourceConfig {
        ServiceBusSourceConfig {
            entity: self.entity().expect("the names were checked"),
            receive: ReceiveOptions {
                concurrency: self.concurrency,
                prefetch: self.prefetch,
                lock_renewal: self.lock_renewal,
            },
            settlement,
            connection_string: self.connection_string,
            transport: self.transport.into(),
            certificate_authority: self.certificate_authority,
        }
    }

    fn names(&self) -> Names<'_> {
        Names {
            connection_string: &self.connection_string,
            queue: self.queue.as_deref(),
            topic: self.topic.as_deref(),
            subscription: self.subscription.as_deref(),
        }
    }
}

impl ServiceBusSink {
    /// What is sent to; `None` if the names do not say it.
    pub(super) fn entity(&self) -> Option<Entity> {
        self.names().entity()
    }

    /// Checks what stands at `section` of the document.
    pub(super) fn check(&self, document: &Document, section: &str) -> Result<(), SettingsError> {
        self.names().check(document, section)?;
        match self.entity() {
            Some(_) => Ok(()),
            None => Err(document.mistake(
                section,
                "no queue or topic is given",
                "add `queue: <name>` or `topic: <name>`",
            )),
        }
    }

    /// # Panics
    /// When it was not [checked](Self::check).
    pub(super) fn into_config(self) -> ServiceBusSinkConfig {
        ServiceBusSinkConfig {
            entity: self.entity().expect("the names were checked"),
            unit: match self.send {
                Send::Single => SendUnit::Event,
                Send::Batch => SendUnit::Batch,
            },
            connection_string: self.connection_string,
            transport: self.transport.into(),
            certificate_authority: self.certificate_authority,
        }
    }

    fn names(&self) -> Names<'_> {
        Names {
            connection_string: &self.connection_string,
            queue: self.queue.as_deref(),
            topic: self.topic.as_deref(),
            subscription: None,
        }
    }
}

impl Names<'_> {
    /// What is named; an `EntityPath` of the connection string alone is a queue.
    fn entity(&self) -> Option<Entity> {
        let owned = str::to_owned;
        match (self.queue, self.topic, self.subscription) {
            (Some(queue), None, None) => Some(Entity::Queue(owned(queue))),
            (None, Some(topic), None) => Some(Entity::Topic(owned(topic))),
            (None, Some(topic), Some(name)) => {
                Some(Entity::Subscription { topic: owned(topic), name: owned(name) })
            }
            (None, None, None) => self.connection_string.entity_path.clone().map(Entity::Queue),
            _ => None,
        }
    }

    fn check(&self, document: &Document, section: &str) -> Result<(), SettingsError> {
        let mistake = |key: &str, reason: String, advice: &str| {
            Err(document.mistake(&format!("{section}.{key}"), reason, advice))
        };
        let named = [("queue", self.queue), ("topic", self.topic), ("subscription", self.subscription)];
        if let Some((key, _)) = named.iter().find(|(_, name)| name.is_some_and(str::is_empty)) {
            return mistake(key, "the name is empty".to_owned(), "");
        }
        if self.queue.is_some() && self.topic.is_some() {
            let reason = "`queue` is given, too".to_owned();
            return mistake("topic", reason, "name one of them");
        }
        if self.subscription.is_some() && self.topic.is_none() {
            let reason = "a subscription needs a `topic`".to_owned();
            return mistake("subscription", reason, "add `topic: <name>`");
        }
        let path = self.connection_string.entity_path.as_deref();
        match (self.entity(), path) {
            (Some(entity), Some(path)) if !entity.path().eq_ignore_ascii_case(path) => {
                let key = if self.queue.is_some() { "queue" } else { "topic" };
                let reason = format!("the connection string is for `{path}`");
                mistake(key, reason, "use a connection string of the namespace")
            }
            _ => Ok(()),
        }
    }
}

/// Keys that say nothing about a source whose messages are settled, and what stands for them.
pub(super) const KEYS_OF_CHECKPOINTS: [(&str, &str); 11] = [
    ("checkpoint", "each message is settled once the destination has accepted it: leave it out"),
    ("start", "a queue is read from its front: leave it out"),
    ("poison_events", "failed messages are abandoned, and the service dead-letters them: leave it out"),
    ("missed_events", "sequence numbers of a queue have gaps: leave it out"),
    ("ownership", "receivers of a queue share it without claims: leave it out"),
    ("batch", "messages are forwarded as they arrive: leave it out"),
    ("prefetch", "put it into `source.service_bus`"),
    ("in_flight", "use `source.service_bus.concurrency`"),
    ("held", "use `source.service_bus.concurrency`"),
    ("dispatch.events", "use `source.service_bus.concurrency`"),
    ("restart_after", "failed messages are redelivered: leave it out"),
];

fn concurrency() -> u32 {
    ReceiveOptions::default().concurrency
}

fn lock_renewal() -> Duration {
    ReceiveOptions::default().lock_renewal
}

/// Each message in work takes some hundred bytes of our own, beside what it is.
const CONCURRENCY_MAX: u32 = 5_000;

const PREFETCH_MAX: u32 = 100_000;

const LOCK_RENEWAL_MAX: Duration = Duration::from_secs(86_400);
