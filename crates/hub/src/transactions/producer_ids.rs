//! The ids of producers that number their records.
//!
//! An id must never be given out twice, not even by a service that was killed and started again. So ids are drawn from a clock
//! that no restart turns back: microseconds since 1970 when the service started, and counted up from there. A service would
//! have to give out a million ids each second to overtake itself. Where a clock was turned back all the same, the ids that
//! the journal knows are not given again.

use std::sync::atomic::{AtomicI64, Ordering};
use std::time::SystemTime;

use super::transaction::Producer;

/// Gives out ids.
#[derive(Debug)]
pub(super) struct ProducerIds {
    next: AtomicI64,
}

impl ProducerIds {
    /// Ids after the one that is `known`.
    pub(super) fn after(known: Option<i64>) -> Self {
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let now = i64::try_from(now.as_micros()).unwrap_or(0);
        let next = known.map_or(now, |known| now.max(known.saturating_add(1)));
        Self { next: AtomicI64::new(next) }
    }

    /// An id for a producer that has none.
    pub(super) fn next(&self) -> i64 {
        self.next.fetch_add(1, Ordering::Relaxed)
    }

    /// Id and epoch for a producer without transactions. One that has both already gets the next epoch, and a new id when there is
    /// none left.
    pub(super) fn without_transactions(&self, claimed: Producer) -> Producer {
        match (claimed.id, claimed.epoch.checked_add(1)) {
            (id @ 0.., Some(epoch @ 0..)) => Producer { id, epoch },
            _ => Producer { id: self.next(), epoch: 0 },
        }
    }
}
