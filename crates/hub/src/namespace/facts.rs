//! What is known of queues, topics and subscriptions besides their options: when they were made, and what their owners noted.

use std::collections::HashMap;
use std::sync::{PoisonError, RwLock, RwLockReadGuard};
use std::time::Duration;

use access::Secret;
use partition_log::UnixTime;
use serde::{Deserialize, Serialize};

use super::config::{reveal, secret};

/// See the module. None of it makes a difference to messages.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct EntityFacts {
    created_at_unix_ms: i64,
    updated_at_unix_ms: i64,
    /// It is deleted after it has been idle for so long.
    #[serde(with = "units::duration::optional", skip_serializing_if = "Option::is_none")]
    pub auto_delete_on_idle: Option<Duration>,
    /// What its owner notes about it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub user_metadata: Option<String>,
    /// Keys that its owner wants it to have. They are kept for clients that read them again, and open nothing.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub keys: Vec<KeptKey>,
    /// Wishes that are kept for clients which read them again. The service is what it is either way.
    pub wishes: Wishes,
}

/// A key of an entity, as its owner has it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeptKey {
    /// Its name.
    pub name: String,
    /// What it may do, as clients name it.
    pub rights: Vec<String>,
    /// Its value.
    #[serde(serialize_with = "reveal", deserialize_with = "secret")]
    pub primary: Secret,
    /// The value that it has beside that.
    #[serde(serialize_with = "reveal", deserialize_with = "secret")]
    pub secondary: Secret,
}

/// Options of the service that this one takes, and does nothing about.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Wishes {
    /// Several operations may be written at once.
    pub enable_batched_operations: bool,
    /// Messages may be spread over several stores.
    pub enable_partitioning: bool,
    /// Messages may be in memory alone for a while.
    pub enable_express: bool,
    /// Messages keep their order, which they always do.
    pub support_ordering: bool,
    /// A message for which a filter can't be evaluated becomes a dead letter. Here it just does not match.
    pub dead_lettering_on_filter_exceptions: bool,
    /// How long identifiers would be known, where duplicates are not looked for.
    #[serde(with = "units::duration::optional", skip_serializing_if = "Option::is_none")]
    pub duplicate_detection_window: Option<Duration>,
    /// Where messages would go on to, where they belong to sessions and go nowhere.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub forward_to: Option<String>,
    /// The places that messages go on to were named by URLs with `https`, and are told so.
    pub forwards_by_https: bool,
}

impl Default for EntityFacts {
    fn default() -> Self {
        Self::of(UnixTime::default())
    }
}

impl Default for Wishes {
    fn default() -> Self {
        Self {
            enable_batched_operations: true,
            enable_partitioning: false,
            enable_express: false,
            support_ordering: true,
            dead_lettering_on_filter_exceptions: true,
            duplicate_detection_window: None,
            forward_to: None,
            forwards_by_https: false,
        }
    }
}

impl EntityFacts {
    /// Those of an entity that is made at `now`.
    #[must_use]
    pub fn of(now: UnixTime) -> Self {
        Self {
            created_at_unix_ms: now.milliseconds(),
            updated_at_unix_ms: now.milliseconds(),
            auto_delete_on_idle: None,
            user_metadata: None,
            keys: Vec::new(),
            wishes: Wishes::default(),
        }
    }

    /// When it was made.
    #[must_use]
    pub const fn created_at(&self) -> UnixTime {
        UnixTime::from_milliseconds(self.created_at_unix_ms)
    }

    /// When it was last changed.
    #[must_use]
    pub const fn updated_at(&self) -> UnixTime {
        UnixTime::from_milliseconds(self.updated_at_unix_ms)
    }

    /// It is changed at `now`.
    pub(super) fn touch(&mut self, now: UnixTime) {
        self.updated_at_unix_ms = now.milliseconds();
    }
}

/// The facts of all entities, by their paths in lower case.
#[derive(Debug, Default)]
pub(super) struct Facts(RwLock<HashMap<String, EntityFacts>>);

/// The path of a subscription.
pub(super) fn subscription_path(topic: &str, subscription: &str) -> String {
    format!("{topic}/Subscriptions/{subscription}")
}

impl Facts {
    pub(super) fn new(all: HashMap<String, EntityFacts>) -> Self {
        Self(RwLock::new(all))
    }

    pub(super) fn find(&self, path: &str) -> Option<EntityFacts> {
        self.read().get(&path.to_ascii_lowercase()).cloned()
    }

    pub(super) fn set(&self, path: &str, facts: EntityFacts) {
        let mut all = self.0.write().unwrap_or_else(PoisonError::into_inner);
        all.insert(path.to_ascii_lowercase(), facts);
    }

    /// Forgets an entity, and its subscriptions.
    pub(super) fn forget(&self, path: &str, subscriptions: impl Iterator<Item = String>) {
        let mut all = self.0.write().unwrap_or_else(PoisonError::into_inner);
        all.remove(&path.to_ascii_lowercase());
        for subscription in subscriptions {
            all.remove(&subscription.to_ascii_lowercase());
        }
    }

    /// Those that are deleted when nobody uses them, with how long that takes.
    pub(super) fn idle_limits(&self) -> Vec<(String, Duration, UnixTime)> {
        let all = self.read();
        let limited = all
            .iter()
            .filter_map(|(path, facts)| Some((path.clone(), facts.auto_delete_on_idle?, facts.updated_at())));
        limited.collect()
    }

    fn read(&self) -> RwLockReadGuard<'_, HashMap<String, EntityFacts>> {
        // Locked sections insert or remove one entry at a time; what is there is whole.
        self.0.read().unwrap_or_else(PoisonError::into_inner)
    }
}
