//! A source that stands still once: it takes what it is sent, and neither keeps nor answers it until it goes on.

use std::time::Duration;

use bytes::Bytes;
use connect::event::PartitionId;
use tokio::time::Instant;

use super::MemoryHub;
use crate::clock::RunTime;

/// When a source stands still, and for how long.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stall {
    /// The send of a worker with which it begins, counted from 1.
    pub at_send: u64,
    /// For how long.
    pub length: Duration,
}

/// How a source stood still.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stalled {
    /// When it took the first message that it did not keep at once.
    pub began: RunTime,
    /// When it kept that.
    pub ended: RunTime,
    /// Messages that it had taken by then.
    pub caught: u64,
}

/// A stall that has begun.
#[derive(Debug)]
pub(super) struct Standstill {
    began: RunTime,
    /// When it is over.
    pub(super) until: Instant,
    taken: Vec<(PartitionId, Bytes)>,
}

impl Standstill {
    pub(super) fn beginning_now(hub: &MemoryHub, length: Duration) -> Self {
        Self { began: hub.clock.now(), until: Instant::now() + length, taken: Vec::new() }
    }

    /// Takes a message that will be kept when it is over.
    pub(super) fn take(&mut self, partition: PartitionId, message: &[u8]) {
        self.taken.push((partition, Bytes::copy_from_slice(message)));
    }

    /// It is over: what was taken is kept.
    pub(super) fn end(self, hub: &MemoryHub) -> Stalled {
        let ended = hub.clock.now();
        for (partition, message) in &self.taken {
            hub.append(*partition, message);
        }
        Stalled { began: self.began, ended, caught: self.taken.len() as u64 }
    }
}
