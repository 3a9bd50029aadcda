//! What the service profile did to clients.

use std::sync::atomic::{AtomicU64, Ordering};

use super::fate::{Fate, Throttled};

/// The running counters of one service.
#[derive(Debug, Default)]
pub(super) struct ProfileCounters {
    pub(super) throttled_sends: AtomicU64,
    pub(super) throttled_events: AtomicU64,
    pub(super) throttled_bytes: AtomicU64,
    pub(super) delivery_pauses: AtomicU64,
    pub(super) queued_operations: AtomicU64,
    pub(super) failed_sends: AtomicU64,
    pub(super) unacknowledged_sends: AtomicU64,
    pub(super) detached_links: AtomicU64,
    pub(super) disconnects: AtomicU64,
}

/// Counters as they stood at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ProfileCounterValues {
    /// Sends that were refused because the quota was used up. Any means: limited by quota.
    pub throttled_sends: u64,
    /// Events of those sends.
    pub throttled_events: u64,
    /// Bytes of those sends.
    pub throttled_bytes: u64,
    /// Times that a connection's readers had to wait because the quota was used up. Any means: limited by quota.
    pub delivery_pauses: u64,
    /// Sends and requests for blobs that waited because as many as their entity or container carries out at once were under
    /// way. Any means: limited by capacity.
    pub queued_operations: u64,
    /// Sends that failed by injection and were not stored.
    pub failed_sends: u64,
    /// Sends that were stored, and answered with an error on purpose.
    pub unacknowledged_sends: u64,
    /// Links that were detached on purpose.
    pub detached_links: u64,
    /// Connections that were broken on purpose.
    pub disconnects: u64,
}

impl ProfileCounters {
    pub(super) fn values(&self) -> ProfileCounterValues {
        let load = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        ProfileCounterValues {
            throttled_sends: load(&self.throttled_sends),
            throttled_events: load(&self.throttled_events),
            throttled_bytes: load(&self.throttled_bytes),
            delivery_pauses: load(&self.delivery_pauses),
            queued_operations: load(&self.queued_operations),
            failed_sends: load(&self.failed_sends),
            unacknowledged_sends: load(&self.unacknowledged_sends),
            detached_links: load(&self.detached_links),
            disconnects: load(&self.disconnects),
        }
    }

    /// Counts what became of a send.
    pub(super) fn count(&self, fate: &Fate) {
        match fate {
            Fate::Succeeds => {}
            Fate::Fails => Self::add(&self.failed_sends, 1),
            Fate::Throttled(Throttled { events, bytes, .. }) => {
                Self::add(&self.throttled_sends, 1);
                Self::add(&self.throttled_events, *events);
                Self::add(&self.throttled_bytes, *bytes);
            }
            Fate::Unacknowledged => Self::add(&self.unacknowledged_sends, 1),
            Fate::Detached => Self::add(&self.detached_links, 1),
            Fate::Disconnected => Self::add(&self.disconnects, 1),
        }
    }

    pub(super) fn add(counter: &AtomicU64, amount: u64) {
        counter.fetch_add(amount, Ordering::Relaxed);
    }
}
