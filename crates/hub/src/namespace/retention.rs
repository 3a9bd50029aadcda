//! Retention of events: what the limits of each log do not allow, and what all logs together have no room for.
//!
//! Events that go before a reader got them, and events that a full log refuses, are reported in the log of the service and
//! counted in its metrics.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::Arc;

use partition_log::{LogBudget, UnixTime};

use super::{Hub, Namespace, Partition};

/// Numbers of one partition that were reported before.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Reported {
    unread: u64,
    refused: u64,
}

impl Namespace {
    /// Drops the events that no log may retain any longer at `now`, and the oldest of all logs if these have no more room
    /// together. To be called regularly: logs that are appended to look after themselves only.
    pub fn enforce_retention(&self, now: UnixTime) {
        let hubs = self.hubs();
        for hub in hubs.iter() {
            for partition in hub.partitions() {
                partition.log().enforce_retention(now);
            }
        }
        if let Some(budget) = &self.log_budget {
            make_room(budget, hubs.iter());
        }
        self.report_losses();
    }

    /// The budget that all logs share; `None` without a limit.
    #[must_use]
    pub const fn log_budget(&self) -> Option<&Arc<LogBudget>> {
        self.log_budget.as_ref()
    }

    /// Logs what was dropped unread, and what was refused, since the last report.
    pub(super) fn report_losses(&self) {
        for hub in self.hubs().iter() {
            for partition in hub.partitions() {
                report(hub, partition);
            }
        }
    }
}

/// Drops the oldest segments of all logs that may drop some, until there is room.
fn make_room<'a>(budget: &LogBudget, hubs: impl Iterator<Item = &'a Arc<Hub>>) {
    let mut excess = budget.excess();
    if excess == 0 {
        return;
    }
    let partitions: Vec<&Partition> =
        hubs.flat_map(|hub| hub.partitions().iter().map(|partition| &**partition)).collect();
    let oldest = |place: usize| Some(Reverse((partitions[place].log().droppable_since()?, place)));
    let mut by_age: BinaryHeap<_> = (0..partitions.len()).filter_map(oldest).collect();
    while excess > 0
        && let Some(Reverse((_, place))) = by_age.pop()
    {
        let dropped = partitions[place].log().drop_oldest_segment();
        excess = excess.saturating_sub(dropped);
        if dropped > 0 {
            by_age.extend(oldest(place));
        }
    }
}

fn report(hub: &Hub, partition: &Partition) {
    let (dropped, refused) = (partition.log().dropped(), partition.counters().values().batches_refused);
    let before = partition.replace_reported(Reported { unread: dropped.unread, refused });
    let unread = dropped.unread.saturating_sub(before.unread);
    if unread > 0 {
        tracing::warn!(
            hub = hub.name(),
            partition = partition.id(),
            events = unread,
            "retention dropped events that no reader had received since the service started; raise retention.ms, retention.bytes or \
             the limits of the service (--retention-time, --retention-bytes, --retention-total)"
        );
    }
    let refused = refused.saturating_sub(before.refused);
    if refused > 0 {
        let reason = match (hub.settings().cleanup_policy.map(super::CleanupPolicy::name), hub.limits().bytes)
        {
            (Some("compact"), _) => {
                "cleanup.policy=compact retains every event, since nothing is compacted, and all partitions together have no more room"
            }
            (_, partition_log::LogLimits::UNLIMITED) => {
                "events are retained without a limit, and all partitions together have no more room"
            }
            _ => "the partition is full, or its disk takes nothing",
        };
        tracing::warn!(
            hub = hub.name(),
            partition = partition.id(),
            batches = refused,
            reason,
            "batches were refused"
        );
    }
}
