//! What went through, by what was asked for and how it was answered.

use std::sync::atomic::{AtomicU64, Ordering};

/// What a request asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Operation {
    /// To store events or messages.
    Send,
    /// To give a message out, locked.
    PeekLock,
    /// To give a message out for good.
    ReceiveAndDelete,
    /// To settle a message.
    Complete,
    /// To give it back.
    Abandon,
    /// To lock it for longer.
    RenewLock,
    /// To tell what there is.
    Read,
    /// To create or change an entity.
    Put,
    /// To delete one.
    Delete,
    /// Nothing that is served.
    Other,
}

impl Operation {
    pub(crate) const ALL: [Self; 10] = [
        Self::Send,
        Self::PeekLock,
        Self::ReceiveAndDelete,
        Self::Complete,
        Self::Abandon,
        Self::RenewLock,
        Self::Read,
        Self::Put,
        Self::Delete,
        Self::Other,
    ];

    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Send => "send",
            Self::PeekLock => "peek-lock",
            Self::ReceiveAndDelete => "receive-and-delete",
            Self::Complete => "complete",
            Self::Abandon => "abandon",
            Self::RenewLock => "renew-lock",
            Self::Read => "read",
            Self::Put => "put",
            Self::Delete => "delete",
            Self::Other => "other",
        }
    }
}

/// The running counters.
#[derive(Debug, Default)]
pub(crate) struct RestCounters {
    open: AtomicU64,
    accepted: AtomicU64,
    bytes_in: AtomicU64,
    bytes_out: AtomicU64,
    requests: [[AtomicU64; STATUSES.len() + 1]; Operation::ALL.len()],
}

/// Counts a connection as long as it lives.
#[derive(Debug)]
pub(crate) struct Open<'a>(&'a AtomicU64);

impl RestCounters {
    pub(super) fn opened(&self) -> Open<'_> {
        self.accepted.fetch_add(1, Ordering::Relaxed);
        self.open.fetch_add(1, Ordering::Relaxed);
        Open(&self.open)
    }

    #[inline]
    pub(super) fn answered(&self, operation: Operation, status: u16, bytes_in: usize, bytes_out: usize) {
        let place = STATUSES.iter().position(|known| *known == status).unwrap_or(STATUSES.len());
        self.requests[operation as usize][place].fetch_add(1, Ordering::Relaxed);
        self.bytes_in.fetch_add(bytes_in as u64, Ordering::Relaxed);
        self.bytes_out.fetch_add(bytes_out as u64, Ordering::Relaxed);
    }

    /// Connections that are open now, and all since the start.
    pub(crate) fn connections(&self) -> (u64, u64) {
        (self.open.load(Ordering::Relaxed), self.accepted.load(Ordering::Relaxed))
    }

    /// Bytes of bodies of requests, and of replies.
    pub(crate) fn bytes(&self) -> (u64, u64) {
        (self.bytes_in.load(Ordering::Relaxed), self.bytes_out.load(Ordering::Relaxed))
    }

    /// How many requests there were of each kind, by the status of the reply: those that there were.
    pub(crate) fn requests(&self) -> impl Iterator<Item = (Operation, &'static str, u64)> {
        Operation::ALL.into_iter().flat_map(|operation| {
            let counts = self.requests[operation as usize].iter().map(|count| count.load(Ordering::Relaxed));
            let names = NAMES.into_iter().chain(["other"]);
            names
                .zip(counts)
                .filter(|(_, count)| *count > 0)
                .map(move |(name, count)| (operation, name, count))
        })
    }
}

impl Drop for Open<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// The statuses that there are, those of what is stored first.
const STATUSES: [u16; 16] = [201, 200, 204, 400, 401, 403, 404, 405, 408, 409, 410, 413, 415, 431, 500, 503];

/// The same as text.
const NAMES: [&str; 16] = [
    "201", "200", "204", "400", "401", "403", "404", "405", "408", "409", "410", "413", "415", "431", "500",
    "503",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_counted_by_operation_and_status() {
        let counters = RestCounters::default();
        counters.answered(Operation::Send, 201, 5, 0);
        counters.answered(Operation::Send, 201, 5, 0);
        counters.answered(Operation::Read, 418, 0, 7);
        let counted: Vec<_> = counters.requests().collect();
        assert_eq!(counted, [(Operation::Send, "201", 2), (Operation::Read, "other", 1)]);
        assert_eq!(counters.bytes(), (10, 7));
        assert!(STATUSES.iter().zip(NAMES).all(|(status, name)| status.to_string() == name));
        assert!(Operation::ALL.iter().enumerate().all(|(place, operation)| *operation as usize == place));
    }
}
