//! Memory that the connections of a service share: one budget for each purpose, whichever of them uses it.
//!
//! A bound for one connection bounds nothing for thousands of them. So whatever a client can make the service hold is held as a
//! [`Share`] of the budget of its [`Purpose`]. A share that can't grow is refused; what the client sees then is said with each
//! purpose, here and in `docs/invariants.md`, which a test compares.
//!
//! Events that a log has removed have no share, since readers got them while they were in the log. The pool of the logs counts their
//! memory, and readers give it up when it becomes scarce.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use partition_log::BlockPool;
use units::ByteSize;

/// A use of memory that has a budget.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// Requests of Kafka clients that have not logged in. At the bound the connection is closed.
    KafkaLogins,
    /// Requests of other Kafka clients while they arrive. At the bound the connection is closed.
    KafkaRequests,
    /// Answers to Kafka clients that are not written, without events in the memory of a log. At the bound the connection is closed.
    KafkaAnswers,
    /// Partitions of fetches of Kafka clients that wait, and of fetch sessions. At the bound the connection is closed.
    KafkaFetches,
    /// Events that only readers keep in memory: retention has removed them since, or they were converted. When it is scarce, the Kafka
    /// connections that take longest to read an answer are closed, and AMQP links convert events again that they can't send at once.
    ReaderEvents,
    /// Members of Kafka's groups, and their offsets. At the bound those who would add something are refused.
    KafkaGroups,
    /// Replies to AMQP clients that have shown no token, while they wait for credit or a window. At the bound the connection is closed.
    AmqpLogins,
    /// Replies to other AMQP clients that wait for credit, a window or the disk. At the bound the connection is closed.
    AmqpReplies,
    /// Output of AMQP connections beyond what is free for each, while their clients do not take it. At the bound a connection with more
    /// than that reads and sends nothing new.
    AmqpOutput,
    /// Bodies of requests over HTTP for hubs and queues while they arrive, beyond what is free for each. At the bound the request is refused.
    RestBodies,
    /// Messages of transactions of Service Bus that are not discharged. At the bound a message is rejected.
    QueueTransactions,
}

impl Purpose {
    /// All of them.
    pub(crate) const ALL: [Self; 11] = [
        Self::KafkaLogins,
        Self::KafkaRequests,
        Self::KafkaAnswers,
        Self::KafkaFetches,
        Self::ReaderEvents,
        Self::KafkaGroups,
        Self::AmqpLogins,
        Self::AmqpReplies,
        Self::AmqpOutput,
        Self::RestBodies,
        Self::QueueTransactions,
    ];

    /// Name in metrics and documents.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::KafkaLogins => "kafka-logins",
            Self::KafkaRequests => "kafka-requests",
            Self::KafkaAnswers => "kafka-answers",
            Self::KafkaFetches => "kafka-fetches",
            Self::ReaderEvents => "reader-events",
            Self::KafkaGroups => "kafka-groups",
            Self::AmqpLogins => "amqp-logins",
            Self::AmqpReplies => "amqp-replies",
            Self::AmqpOutput => "amqp-output",
            Self::RestBodies => "rest-bodies",
            Self::QueueTransactions => "queue-transactions",
        }
    }

    /// Budget of all connections together, in bytes.
    pub(crate) const fn limit(self) -> u64 {
        match self {
            Self::KafkaLogins => 16 << 20,
            Self::AmqpLogins => 8 << 20,
            // A quarter of a million partitions; hundreds of clients that are far behind.
            Self::KafkaFetches | Self::AmqpOutput => 64 << 20,
            Self::KafkaRequests
            | Self::KafkaAnswers
            | Self::ReaderEvents
            | Self::KafkaGroups
            | Self::AmqpReplies
            | Self::RestBodies
            | Self::QueueTransactions => 256 << 20,
        }
    }
}

/// Whether `used` bytes are more than half of the budget of `purpose`.
const fn is_scarce(purpose: Purpose, used: u64) -> bool {
    used > purpose.limit() / 2
}

/// Budgets of one service.
#[derive(Debug)]
pub(crate) struct Memory {
    /// By [`Purpose::ALL`].
    budgets: [Budget; Purpose::ALL.len()],
    /// Source of the usage for [`Purpose::ReaderEvents`].
    pool: Arc<BlockPool>,
}

#[derive(Debug, Default)]
struct Budget {
    used: AtomicU64,
    /// Shares that could not grow, and readers that had to give up events.
    refused: AtomicU64,
}

impl Memory {
    /// Budgets of a service whose logs take their memory from `pool`.
    pub(crate) fn new(pool: Arc<BlockPool>) -> Self {
        Self { budgets: Default::default(), pool }
    }

    /// Returns the bytes in use, and the number of refusals.
    pub(crate) fn usage(&self, purpose: Purpose) -> (u64, u64) {
        let Budget { used, refused } = self.budget(purpose);
        let used = match purpose {
            Purpose::ReaderEvents => self.pool.left_to_readers().bytes(),
            _ => used.load(Ordering::Relaxed),
        };
        (used, refused.load(Ordering::Relaxed))
    }

    /// Whether more than half of a budget is used.
    pub(crate) fn is_scarce(&self, purpose: Purpose) -> bool {
        is_scarce(purpose, self.usage(purpose).0)
    }

    /// Returns the time that clients have to read events; `None` while they are not scarce. It falls from `longest` at half of the budget
    /// to zero at the limit, so that the slowest clients are closed first.
    pub(crate) fn read_timeout(&self, longest: Duration) -> Option<Duration> {
        let limit = Purpose::ReaderEvents.limit();
        let left = limit.saturating_sub(self.usage(Purpose::ReaderEvents).0);
        (left < limit / 2).then(|| longest.mul_f64(left as f64 / (limit / 2) as f64))
    }

    /// Counts a refusal.
    pub(crate) fn count_refusal(&self, purpose: Purpose) {
        self.budget(purpose).refused.fetch_add(1, Ordering::Relaxed);
    }

    const fn budget(&self, purpose: Purpose) -> &Budget {
        &self.budgets[purpose as usize]
    }
}

impl Default for Memory {
    /// Budgets of a service without logs.
    fn default() -> Self {
        Self::new(BlockPool::new(ByteSize::ZERO))
    }
}

/// Whether the events that only readers keep are scarce in `pool`.
pub(crate) fn is_pool_scarce(pool: &BlockPool) -> bool {
    is_scarce(Purpose::ReaderEvents, pool.left_to_readers().bytes())
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
            Err(_) => self.memory.count_refusal(self.purpose),
        }
        grown.is_ok()
    }

    /// Whether it can grow by `more` bytes. Counts a refusal if not.
    pub(crate) fn fits(&self, more: usize) -> bool {
        let left = self.purpose.limit().saturating_sub(self.memory.usage(self.purpose).0);
        let fits = more as u64 <= left;
        if !fits {
            self.memory.count_refusal(self.purpose);
        }
        fits
    }

    /// Changes the size to `bytes`, beyond the budget if need be: for memory that is in use and can't be refused.
    pub(crate) fn set(&mut self, bytes: usize) {
        self.shrink_to(bytes);
        self.memory.budget(self.purpose).used.fetch_add(bytes as u64 - self.held, Ordering::Relaxed);
        self.held = bytes as u64;
    }

    /// Bytes that it has.
    pub(crate) const fn held(&self) -> usize {
        self.held as usize
    }

    /// Whether more than half of the budget is used.
    pub(crate) fn is_scarce(&self) -> bool {
        self.memory.is_scarce(self.purpose)
    }

    /// Gives back what exceeds `bytes`.
    pub(crate) fn shrink_to(&mut self, bytes: usize) {
        let excess = self.held.saturating_sub(bytes as u64);
        if excess > 0 {
            self.memory.budget(self.purpose).used.fetch_sub(excess, Ordering::Relaxed);
            self.held -= excess;
        }
    }

    /// Gives `bytes` back.
    pub(crate) fn shrink_by(&mut self, bytes: usize) {
        self.shrink_to(self.held().saturating_sub(bytes));
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
    fn read_timeout_shrinks_with_the_budget_that_is_left() {
        let pool = BlockPool::new(ByteSize::ZERO);
        let memory = Memory::new(Arc::clone(&pool));
        let longest = Duration::from_secs(60);
        let quarter = vec![0; Purpose::ReaderEvents.limit() as usize / 4];
        let mut kept = Vec::new();
        let mut timeouts = Vec::new();
        for _ in 0..5 {
            timeouts.push(memory.read_timeout(longest));
            kept.push(pool.copy(&quarter));
        }
        let half_a_minute = Duration::from_secs(30);
        assert_eq!(timeouts, [None, None, None, Some(half_a_minute), Some(Duration::ZERO)]);
        assert!(memory.is_scarce(Purpose::ReaderEvents) && is_pool_scarce(&pool));
        drop(kept);
        assert_eq!(memory.read_timeout(longest), None);
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
