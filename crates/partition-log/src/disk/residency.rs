//! How much of what is on disk is kept in memory as well.
//!
//! Segments are let go of in the order in which they came, the ones just completed and the ones just loaded alike:
//! readers go forwards, so what came first has been read. The newest one always stays, or a reader that waits for it would never
//! get it.

use crate::partition_log::PartitionLog;
use std::collections::VecDeque;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

/// The memory of all segments that are on disk, of all logs of a service.
pub(crate) struct Residency {
    bound: u64,
    bytes: Arc<AtomicU64>,
    oldest_first: Mutex<VecDeque<Resident>>,
}

/// A segment's part of that memory, for as long as this exists.
pub(crate) struct ResidentShare {
    total: Arc<AtomicU64>,
    bytes: u64,
}

struct Resident {
    log: Weak<PartitionLog>,
    segment: u64,
    /// Gone, if the segment was dropped.
    share: Weak<ResidentShare>,
}

impl Residency {
    pub(super) fn new(bound: u64) -> Arc<Self> {
        Arc::new(Self { bound, bytes: Arc::default(), oldest_first: Mutex::default() })
    }

    /// Counts a segment of `bytes` bytes.
    pub(super) fn admit(&self, log: Weak<PartitionLog>, segment: u64, bytes: u64) -> Arc<ResidentShare> {
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
        let share = Arc::new(ResidentShare { total: Arc::clone(&self.bytes), bytes });
        let mut segments = self.lock();
        if segments.len() == segments.capacity() {
            segments.retain(|resident| resident.share.strong_count() > 0);
        }
        segments.push_back(Resident { log, segment, share: Arc::downgrade(&share) });
        share
    }

    /// Lets go of the oldest segments until the bound holds. No lock of a log may be held.
    pub(super) fn enforce(&self) {
        while self.bytes.load(Ordering::Relaxed) > self.bound {
            let oldest = {
                let mut segments = self.lock();
                match segments.len() {
                    0 | 1 => return,
                    _ => segments.pop_front(),
                }
            };
            if let Some(oldest) = oldest
                && oldest.share.strong_count() > 0
                && let Some(log) = oldest.log.upgrade()
            {
                log.evict(oldest.segment);
            }
        }
    }

    /// Bytes held at present.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    fn lock(&self) -> MutexGuard<'_, VecDeque<Resident>> {
        // Locked sections only push, pop and retain.
        self.oldest_first.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for ResidentShare {
    fn drop(&mut self) {
        self.total.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

impl fmt::Debug for Residency {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Residency")
            .field("bound", &self.bound)
            .field("bytes", &self.bytes)
            .finish_non_exhaustive()
    }
}
