//! A bound on the memory that long requests take, over all connections.

use std::sync::atomic::{AtomicU64, Ordering};

/// What long requests take of the memory that there is for all of them.
#[derive(Debug)]
pub(super) struct Large<'f> {
    total: &'f AtomicU64,
    held: u64,
}

impl<'f> Large<'f> {
    /// Nothing yet, of what is counted in `total`.
    pub(super) const fn new(total: &'f AtomicU64) -> Self {
        Self { total, held: 0 }
    }
}

impl Large<'_> {
    /// Holds so much in all. False if there is not so much.
    pub(super) fn hold(&mut self, bytes: u64) -> bool {
        let more = bytes.saturating_sub(self.held);
        let held = self.total.fetch_add(more, Ordering::Relaxed);
        self.held += more;
        held + more <= LARGE_TOTAL
    }

    pub(super) fn release(&mut self) {
        self.total.fetch_sub(std::mem::take(&mut self.held), Ordering::Relaxed);
    }
}

impl Drop for Large<'_> {
    fn drop(&mut self) {
        self.release();
    }
}

/// Bytes of long requests that all clients together may have under way.
pub(super) const LARGE_TOTAL: u64 = 256 * 1024 * 1024;
