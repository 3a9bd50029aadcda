//! Bytes that several logs hold together, and the total that they may hold.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use units::ByteSize;

/// The total of several logs.
#[derive(Debug)]
pub struct LogBudget {
    total: u64,
    used: AtomicU64,
}

impl LogBudget {
    /// A budget of `total`, of which nothing is used.
    #[must_use]
    pub fn new(total: ByteSize) -> Arc<Self> {
        Arc::new(Self { total: total.bytes(), used: AtomicU64::new(0) })
    }

    /// Maximum size of all logs together.
    #[must_use]
    pub const fn total(&self) -> ByteSize {
        ByteSize::from_bytes(self.total)
    }

    /// Returns the size of all logs together.
    #[must_use]
    pub fn used(&self) -> ByteSize {
        ByteSize::from_bytes(self.used.load(Ordering::Relaxed))
    }

    /// Returns the bytes that have to go so that appends do not reach the total: down to seven eighths of it, once there are more
    /// than fifteen sixteenths.
    #[must_use]
    pub fn excess(&self) -> u64 {
        let used = self.used.load(Ordering::Relaxed);
        match used > self.total - self.total / 16 {
            true => used - (self.total - self.total / 8),
            false => 0,
        }
    }

    /// Whether so little is left that each log makes room for what it takes, before anything else does.
    #[inline]
    pub(crate) fn is_tight(&self) -> bool {
        self.used.load(Ordering::Relaxed) > self.total - self.total / 32
    }

    /// Whether `bytes` more fit.
    #[inline]
    pub(crate) fn has_room_for(&self, bytes: u64) -> bool {
        self.used.load(Ordering::Relaxed).saturating_add(bytes) <= self.total
    }

    #[inline]
    pub(crate) fn charge(&self, bytes: u64) {
        self.used.fetch_add(bytes, Ordering::Relaxed);
    }

    pub(crate) fn release(&self, bytes: u64) {
        self.used.fetch_sub(bytes, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn excess_begins_before_the_total_and_leaves_an_eighth() {
        let budget = LogBudget::new(ByteSize::from_bytes(160));
        budget.charge(150);
        assert_eq!((budget.excess(), budget.has_room_for(10), budget.has_room_for(11)), (0, true, false));
        budget.charge(5);
        assert_eq!(budget.excess(), 15);
        budget.release(15);
        assert_eq!((budget.excess(), budget.used().bytes()), (0, 140));
    }
}
