//! The memory of an account: everything that is held is charged for, and nothing is held beyond the limit.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use units::ByteSize;

use super::error::BlobError;

/// What may be held, and what is.
#[derive(Debug)]
pub(super) struct Budget {
    limit: ByteSize,
    used: AtomicU64,
}

/// Some of a budget, given back when this is dropped.
#[derive(Debug)]
pub(super) struct Charge {
    budget: Arc<Budget>,
    bytes: u64,
}

impl Budget {
    pub(super) fn new(limit: ByteSize) -> Arc<Self> {
        Arc::new(Self { limit, used: AtomicU64::new(0) })
    }

    pub(super) fn used(&self) -> u64 {
        self.used.load(Ordering::Relaxed)
    }

    /// Takes some of it.
    ///
    /// # Errors
    /// There is not so much left.
    pub(super) fn charge(self: &Arc<Self>, bytes: u64) -> Result<Charge, BlobError> {
        let limit = self.limit.bytes();
        let taken = self.used.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |used| {
            used.checked_add(bytes).filter(|sum| *sum <= limit)
        });
        match taken {
            Ok(_) => Ok(Charge { budget: Arc::clone(self), bytes }),
            Err(_) => Err(BlobError::OutOfMemory { limit: self.limit }),
        }
    }
}

impl Drop for Charge {
    fn drop(&mut self) {
        self.budget.used.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_charged_is_given_back() {
        let budget = Budget::new(ByteSize::from_bytes(10));
        let seven = budget.charge(7).unwrap();
        let limit = ByteSize::from_bytes(10);
        assert_eq!(budget.charge(4).unwrap_err(), BlobError::OutOfMemory { limit });
        assert!(budget.charge(u64::MAX).is_err());
        let three = budget.charge(3).unwrap();
        assert_eq!(budget.used(), 10);
        drop((seven, three));
        assert_eq!(budget.used(), 0);
    }
}
