//! A consumer group: a name under which readers of a hub belong together, and whether it is still there.

use std::sync::atomic::{AtomicBool, Ordering};

/// One consumer group of a hub.
///
/// Links hold it by `Arc` for as long as they read; one that finds it [deleted](Self::is_deleted) has to go.
#[derive(Debug)]
pub struct ConsumerGroup {
    name: String,
    is_deleted: AtomicBool,
}

impl ConsumerGroup {
    pub(super) fn new(name: impl Into<String>) -> Self {
        Self { name: name.into(), is_deleted: AtomicBool::new(false) }
    }

    /// The name, in the letter case in which it was given.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Whether it was deleted, alone or with its hub.
    #[must_use]
    pub fn is_deleted(&self) -> bool {
        self.is_deleted.load(Ordering::Acquire)
    }

    pub(super) fn mark_deleted(&self) {
        self.is_deleted.store(true, Ordering::Release);
    }
}

/// The consumer group that every hub has.
pub const DEFAULT_CONSUMER_GROUP: &str = "$Default";
