//! What has happened in a queue since the service started.

/// Counters of one queue, of the queue of a subscription, or of a dead-letter queue.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct QueueCounters {
    /// Messages that became available: sent, due after having been scheduled, copied by a topic, forwarded, or given up by
    /// another queue.
    pub enqueued: u64,
    /// Deliveries to receivers, each delivery of a message counted.
    pub delivered: u64,
    /// Messages completed. Those that were received and deleted are only delivered.
    pub completed: u64,
    /// Deliveries that receivers abandoned.
    pub abandoned: u64,
    /// Times that a receiver put a message aside.
    pub deferred: u64,
    /// Messages that became dead letters, for whatever reason.
    pub dead_lettered: u64,
    /// Messages whose time to live was over, dropped or dead letters.
    pub expired: u64,
    /// Locks of messages that ended by themselves, those of a session with it.
    pub lock_expirations: u64,
    /// Locks of sessions that ended by themselves.
    pub session_lock_expirations: u64,
    /// Scheduled messages that became due.
    pub scheduled_due: u64,
}
