//! Memory that the connections of a service share: one budget for each purpose, whichever of them uses it.
//!
//! A bound for one connection bounds nothing for thousands of them. So whatever a client can make the service hold is held as a
//! [`Share`] of the budget of its [`Purpose`]. A share that can't grow is refused; what the client sees then is said with each
//! purpose, here and in `docs/invariants.md`, which a test compares.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// A use of memory that has a budget.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// Requests of Kafka clients that have not logged in. At the bound the connection is closed.
    KafkaLogins,
    /// Requests of other Kafka clients while they arrive. At the bound the connection is closed.
    KafkaRequests,
    /// Answers to Kafka clients that are not written, without events in the memory of a log. At the bound the connection is closed.
    KafkaAnswers,
    /// Messages of transactions of Service Bus that are not discharged. At the bound a message is rejected.
    QueueTransactions,
}

impl Purpose {
    /// All of them.
    pub(crate) const ALL: [Self; 4] =
        [Self::KafkaLogins, Self::KafkaRequests, Self::KafkaAnswers, Self::QueueTransactions];

    /// Name in metrics and documents.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::KafkaLogins => "kafka-logins",
            Self::KafkaRequests => "kafka-requests",
            Self::KafkaAnswers => "kafka-answers",
            Self::QueueTransactions => "queue-transactions",
        }
    }

    /// Budget of all connections together, in bytes.
    pub(crate) const fn limit(self) -> u64 {
        match self {
            Self::KafkaLogins => 16 << 20,
            Self::KafkaRequests | Self::KafkaAnswers | Self::QueueTransactions => 256 << 20,
        }
    }
}

/// Budgets of one service.
#[derive(Debug, Default)]
pub(crate) struct Memory {
    /// By [`Purpose::ALL`].
    budgets: [Budget; Purpose::ALL.len()],
}

#[derive(Debug, Default)]
struct Budget {
    used: AtomicU64,
    /// Shares that could not grow.
    refused: AtomicU64,
}

impl Memory {
    /// Bytes in use, and how often a share could not grow.
    pub(crate) fn usage(&self, purpose: Purpose) -> (u64, u64) {
        let Budget { used, refused } = self.budget(purpose);
        (used.load(Ordering::Relaxed), refused.load(Ordering::Relaxed))
    }

    const fn budget(&self, purpose: Purpose) -> &Budget {
        &self.budgets[purpose as usize]
    }
}

/// Memory of one connection for one purpose. It returns to the budget when the share is dropped.
#[derive(Debug)]
pub(crate) struct Share {
    memory: Arc<Memory>,
    purpose: Purpose,
    held: u64,
}

impl Share {
    /// An empty share.
    pub(crate) fn new(memory: &Arc<Memory>, purpose: Purpose) -> Self {
        Self { memory: Arc::clone(memory), purpose, held: 0 }
    }

    /// Changes the size to `bytes`. Returns false, and changes nothing, if it would grow beyond the budget.
    #[must_use]
    pub(crate) fn resize(&mut self, bytes: usize) -> bool {
        self.shrink_to(bytes);
        let bytes = bytes as u64;
        let more = bytes - self.held;
        if more == 0 {
            return true;
        }
        let budget = self.memory.budget(self.purpose);
        let limit = self.purpose.limit();
        let grown = budget.used.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |used| {
            used.checked_add(more).filter(|used| *used <= limit)
        });
        match grown {
            Ok(_) => self.held = bytes,
            Err(_) => _ = budget.refused.fetch_add(1, Ordering::Relaxed),
        }
        grown.is_ok()
    }

    /// Bytes that it has.
    pub(crate) const fn held(&self) -> usize {
        self.held as usize
    }

    /// Whether more than half of the budget is used.
    pub(crate) fn is_scarce(&self) -> bool {
        self.memory.usage(self.purpose).0 > self.purpose.limit() / 2
    }

    /// Gives back what exceeds `bytes`.
    pub(crate) fn shrink_to(&mut self, bytes: usize) {
        let excess = self.held.saturating_sub(bytes as u64);
        if excess > 0 {
            self.memory.budget(self.purpose).used.fetch_sub(excess, Ordering::Relaxed);
            self.held -= excess;
        }
    }

    /// Gives all of it back.
    pub(crate) fn release(&mut self) {
        self.shrink_to(0);
    }

    /// Gives all of it back, and is one for another purpose from now on.
    pub(crate) fn reassign(&mut self, purpose: Purpose) {
        if self.purpose != purpose {
            self.release();
            self.purpose = purpose;
        }
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        self.release();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_grow_up_to_the_budget_of_all_and_give_it_back() {
        let memory = Arc::<Memory>::default();
        let limit = Purpose::KafkaLogins.limit() as usize;
        let [mut one, mut other] = [(); 2].map(|()| Share::new(&memory, Purpose::KafkaLogins));
        assert!(one.resize(limit - 10) && other.resize(10));
        assert!(!other.resize(11), "nothing is left");
        assert_eq!(memory.usage(Purpose::KafkaLogins), (limit as u64, 1));
        assert!(one.resize(5) && other.resize(11));
        other.reassign(Purpose::KafkaRequests);
        assert!(other.resize(7));
        assert_eq!(memory.usage(Purpose::KafkaLogins), (5, 1));
        drop((one, other));
        assert!(Purpose::ALL.iter().all(|purpose| memory.usage(*purpose).0 == 0));
    }

    #[test]
    fn purposes_are_those_of_the_table_in_the_documents() {
        let document = include_str!("../../../docs/invariants.md");
        let (_, table) = document.split_once("## Budgets").expect("the section");
        let rows: Vec<&str> = table.lines().filter(|line| line.starts_with("| `")).collect();
        assert_eq!(rows.len(), Purpose::ALL.len(), "{rows:#?}");
        for (purpose, row) in Purpose::ALL.iter().zip(rows) {
            let start = format!("| `{}` | {} MiB |", purpose.name(), purpose.limit() >> 20);
            assert!(row.starts_with(&start), "{row} does not begin with {start}");
        }
    }
}
