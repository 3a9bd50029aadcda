//! What an operation has changed, for the journal; and what else it leads to.

use super::history::MessageIdDigest;
use super::journal::Queues;
use super::page::{Slot, Stage};
use super::subscription_rules::RulesDigest;
use bytes::Bytes;
use partition_log::Wakers;
use std::sync::Arc;

/// What one operation on an entity leads to, collected until it is complete.
#[derive(Debug)]
pub(super) struct Effects {
    pub(super) changes: Changes,
    /// Messages that have left their queue and come to one for dead letters.
    pub(super) dead_letters: Vec<Evicted>,
    /// Scheduled messages whose time has come; they have left their queue, and come to its end.
    pub(super) due: Vec<Evicted>,
    /// To be called when the lock is released.
    pub(super) wakers: Wakers,
}

/// A message that was removed from its queue and is to be added to another one, or to its end.
#[derive(Debug)]
pub(super) struct Evicted {
    /// The queue that it has left, within the entity.
    pub(super) queue: u32,
    /// The queue that it comes to, there too.
    pub(super) to: u32,
    pub(super) slot: Slot,
    pub(super) bytes: Bytes,
    pub(super) session_id: Option<Arc<str>>,
}

/// Changes in their order. Nothing is kept where there is no journal.
#[derive(Debug, Default)]
pub(super) struct Changes {
    pub(super) are_kept: bool,
    /// They belong together, however many they are: they are written as one batch.
    pub(super) are_one: bool,
    pub(super) list: Vec<Change>,
}

/// One change. `queue` is its place within the entity; ranges are inclusive.
#[derive(Debug)]
pub(super) enum Change {
    /// These messages are new, or have other bytes.
    Put { queue: u32, first: u64, last: u64 },
    /// These are gone.
    Removed { queue: u32, first: u64, last: u64 },
    /// These stand otherwise.
    Changed { queue: u32, sequence_number: u64, stage: Stage, delivery_count: u32 },
    /// A session has this state.
    SessionState { queue: u32, id: Arc<str>, state: Option<Box<[u8]>>, set_at: i64 },
    /// This identifier was seen.
    Seen { queue: u32, time: i64, digest: MessageIdDigest, sequence_number: u64 },
    /// No number before this one is given again.
    NextNumber { queue: u32, sequence_number: u64 },
    /// Clients have changed the rules of a subscription, for which the configuration says what has this digest; or what they
    /// have changed counts no longer.
    RulesKept { queue: u32, configured: Option<RulesDigest> },
    /// A subscription has this rule, encoded.
    RulePut { queue: u32, rule: Box<[u8]> },
    /// It has none of this name any longer.
    RuleRemoved { queue: u32, name: String },
    /// Which queues there are.
    Queues(Queues),
    /// What the transactions up to this number do is among what comes before and after this.
    Applied { transaction: u64 },
}

impl Effects {
    pub(super) fn new(are_changes_kept: bool) -> Self {
        Self {
            changes: Changes { are_kept: are_changes_kept, ..Changes::default() },
            dead_letters: Vec::new(),
            due: Vec::new(),
            wakers: Wakers::default(),
        }
    }
}

impl Changes {
    #[inline]
    pub(super) fn put(&mut self, queue: u32, sequence_number: u64) {
        if !self.are_kept {
            return;
        }
        if let Some(Change::Put { queue: of, last, .. }) = self.list.last_mut()
            && *of == queue
            && *last + 1 == sequence_number
        {
            *last = sequence_number;
            return;
        }
        self.list.push(Change::Put { queue, first: sequence_number, last: sequence_number });
    }

    #[inline]
    pub(super) fn removed(&mut self, queue: u32, sequence_number: u64) {
        if !self.are_kept {
            return;
        }
        if let Some(Change::Removed { queue: of, last, .. }) = self.list.last_mut()
            && *of == queue
            && *last + 1 == sequence_number
        {
            *last = sequence_number;
            return;
        }
        self.list.push(Change::Removed { queue, first: sequence_number, last: sequence_number });
    }

    #[inline]
    pub(super) fn push(&mut self, change: Change) {
        if self.are_kept {
            self.list.push(change);
        }
    }
}
