//! What a producer has done, and what it has lost.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use super::failure::{Fate, SendFailure};

/// What a producer has done so far.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ProducerStatistics {
    /// Events that the service has acknowledged.
    pub acknowledged: u64,
    /// Bytes of them, as they were encoded.
    pub acknowledged_bytes: u64,
    /// Sends that carried them: transfers, requests, groups of records.
    pub sends: u64,
    /// Sends that were made again.
    pub retries: u64,
    /// Connections that were opened for a single call.
    pub isolated_connections: u64,
    /// Events that were given up without anybody waiting for them, by reason; those of the same reason together.
    pub lost: Vec<Loss>,
}

/// Events that were given up for the same reason.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Loss {
    /// Whether the service may have them all the same.
    pub fate: Fate,
    /// The reason's name.
    pub condition: String,
    /// The words of the first of them.
    pub description: String,
    /// How many they are.
    pub events: u64,
}

/// The same while it grows.
#[derive(Debug, Default)]
pub(super) struct Counters {
    acknowledged: AtomicU64,
    acknowledged_bytes: AtomicU64,
    sends: AtomicU64,
    retries: AtomicU64,
    isolated: AtomicU64,
    lost: Mutex<Vec<Loss>>,
}

impl ProducerStatistics {
    /// Events that were given up without anybody waiting for them.
    #[must_use]
    pub fn lost_events(&self) -> u64 {
        self.lost.iter().map(|loss| loss.events).sum()
    }
}

impl Counters {
    /// Sends were acknowledged, with so many events of so many bytes in all.
    pub(super) fn acknowledge(&self, sends: u64, events: u64, bytes: u64) {
        self.sends.fetch_add(sends, Ordering::Relaxed);
        self.acknowledged.fetch_add(events, Ordering::Relaxed);
        self.acknowledged_bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    pub(super) fn retry(&self) {
        self.retries.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn open_isolated(&self) {
        self.isolated.fetch_add(1, Ordering::Relaxed);
    }

    /// Events are given up that nobody waits for.
    pub(super) fn lose(&self, events: u64, failure: &SendFailure) {
        // Nobody panics who holds it.
        let mut lost = self.lost.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let same = |loss: &Loss| loss.fate == failure.fate && loss.condition == failure.condition;
        // Reasons are an open set, and the last of so many stands for those after it.
        let last = (lost.len() >= LOSSES_MAX).then_some(LOSSES_MAX - 1);
        match lost.iter().position(same).or(last) {
            Some(known) => lost[known].events += events,
            None => lost.push(Loss {
                fate: failure.fate,
                condition: failure.condition.clone(),
                description: failure.description.clone(),
                events,
            }),
        }
    }

    pub(super) fn read(&self) -> ProducerStatistics {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        ProducerStatistics {
            acknowledged: read(&self.acknowledged),
            acknowledged_bytes: read(&self.acknowledged_bytes),
            sends: read(&self.sends),
            retries: read(&self.retries),
            isolated_connections: read(&self.isolated),
            lost: self.lost.lock().unwrap_or_else(std::sync::PoisonError::into_inner).clone(),
        }
    }
}

/// Reasons that are told apart.
const LOSSES_MAX: usize = 64;
