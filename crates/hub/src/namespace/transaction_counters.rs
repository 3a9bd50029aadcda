//! How many transactions of Service Bus there have been, and how they ended.

use std::sync::atomic::{AtomicU64, Ordering};

/// The running counters of a namespace.
#[derive(Debug, Default)]
pub struct TransactionCounters {
    declared: AtomicU64,
    committed: AtomicU64,
    rolled_back: AtomicU64,
    expired: AtomicU64,
}

/// How a transaction ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TransactionEnd {
    Committed,
    /// As its client wished, or since it could not be carried out, or because its link had ended.
    RolledBack,
    /// It was open for too long, which rolls it back as well.
    Expired,
}

/// Counters as they stood at one moment. What was declared and has not ended is open.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TransactionCounterValues {
    /// Transactions that clients have opened.
    pub declared: u64,
    /// Those that were carried out.
    pub committed: u64,
    /// Those of which nothing was carried out, without those that expired.
    pub rolled_back: u64,
    /// Those that were rolled back since they had been open for too long.
    pub expired: u64,
}

impl TransactionCounters {
    pub(crate) fn declared(&self) {
        self.declared.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn ended(&self, end: TransactionEnd, transactions: u64) {
        let counter = match end {
            TransactionEnd::Committed => &self.committed,
            TransactionEnd::RolledBack => &self.rolled_back,
            TransactionEnd::Expired => &self.expired,
        };
        counter.fetch_add(transactions, Ordering::Relaxed);
    }

    /// The present values.
    #[must_use]
    pub fn values(&self) -> TransactionCounterValues {
        TransactionCounterValues {
            declared: self.declared.load(Ordering::Relaxed),
            committed: self.committed.load(Ordering::Relaxed),
            rolled_back: self.rolled_back.load(Ordering::Relaxed),
            expired: self.expired.load(Ordering::Relaxed),
        }
    }
}
