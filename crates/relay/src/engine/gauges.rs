//! What the relay tells of its state while it runs: gauges, what its loop waits for, and metrics for those who ask.

use std::task::{Context, Poll};

use tokio::sync::oneshot;

use super::Relay;
use super::partition::State;
use crate::metrics::Wait;

impl Relay {
    /// What keeps the loop from doing more: the nearest cause, seen from the events.
    pub(super) fn waits_for(&self) -> Wait {
        let taking = self.metrics.taking_partitions() as usize;
        // A source that settles has one batch for whatever is in work.
        let settles = self.source.settles();
        if self.outlets.is_blocked() {
            Wait::Destination
        } else if self.held_bytes >= self.options.max_held_bytes.max(1) {
            Wait::Memory
        } else if taking == 0 {
            Wait::Partitions
        } else if self.parked > 0
            || self.dispatch.as_ref().is_some_and(|dispatch| dispatch.is_open())
            || self.source.is_exhausted()
            || (settles && self.slots.len() >= taking)
        {
            Wait::Sends
        } else {
            Wait::Source
        }
    }

    /// Ready once the relay carries events, or would if there were any. An error says that it ended before.
    pub fn begun(&mut self) -> oneshot::Receiver<()> {
        let (begun, receiver) = oneshot::channel();
        self.begun = Some(begun);
        receiver
    }

    /// Reports that the relay has begun, if that is waited for.
    pub(super) fn announce_begin(&mut self) {
        if self.begun.is_some()
            && (self.metrics.received_events > 0 || self.reasons().is_empty())
            && let Some(begun) = self.begun.take()
        {
            // Whoever asked may have gone.
            let _ = begun.send(());
        }
    }

    pub(super) fn answer_requests(&mut self, context: &mut Context<'_>) {
        while let Poll::Ready(Some(request)) = self.requests.receiver.poll_recv(context) {
            self.now = tokio::time::Instant::now().into_std();
            self.report_standstill();
            self.update_gauges();
            // Who asked may have gone.
            let _ = request.send(self.metrics.clone());
        }
    }

    pub(super) fn update_gauges(&mut self) {
        self.metrics.batches_in_flight = self.slots.len() as u64;
        let limit = self.dispatch.as_ref().map_or(self.options.events_at_once, |dispatch| dispatch.limit());
        self.metrics.events_limit = if limit == usize::MAX { 0 } else { limit as u64 };
        self.metrics.held_bytes = self.held_bytes as u64;
        self.metrics.held_bytes_maximum = self.options.max_held_bytes as u64;
        self.metrics.source_partitions = self.partitions.len() as u64;
        self.metrics.open_partitions =
            self.partitions.iter().filter(|partition| partition.state == State::Open).count() as u64;
        self.metrics.owned_partitions = match &self.sharing {
            Some(sharing) => sharing.owned(),
            None => self.partitions.len(),
        } as u64;
        self.metrics.uncarried_partitions = self.uncarried.into();
        self.metrics.group_generations = self.store.generations();
        self.metrics.health = self.health();
    }
}
