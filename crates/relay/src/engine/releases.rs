//! Partitions that are given back in good order: nothing more is taken up, what is under way is finished and written, and then
//! they are given back. So a graceful stop does with all of them, and a relay with those that are to be another's.
//!
//! The one who asks them back decides how long that may take. A store that has waited long enough lists them no more, a relay
//! steals them, and they are lost.

use connect::checkpoint::Ownership;
use connect::event::PartitionId;

use super::Relay;
use super::partition::State;
use crate::metrics::Closing;

impl Relay {
    /// Takes up nothing more of a partition that is asked back, by another relay or by the store.
    pub(super) fn begin_release(&mut self, partition: PartitionId, asked_by: Option<String>) {
        let Some(sharing) = &mut self.sharing else {
            return;
        };
        if !sharing.held.contains_key(&partition) || sharing.releasing.contains_key(&partition) {
            return;
        }
        tracing::info!(
            partition = partition.0,
            asked_by,
            "another one is to own the partition; what is under way is finished"
        );
        sharing.releasing.insert(partition, asked_by);
        let index = self.indices[&partition];
        if self.partitions[index].state.takes_batches() {
            self.source.close(partition);
            self.release_parked(index);
            self.cut(index);
            self.partitions[index].state = State::Ending;
            self.metrics.count_closing(Closing::Loss);
        } else if self.partitions[index].state != State::Ending {
            self.partitions[index].state = State::Closed;
        }
        self.write_soon(index);
    }

    /// Partitions that can be given back now: all that are finished if the relay stops, else those that are asked back.
    pub(super) fn finished(&self, stopping: bool) -> Vec<PartitionId> {
        let Some(sharing) = &self.sharing else {
            return Vec::new();
        };
        let is_finished = |partition: &PartitionId| {
            let partition = &self.partitions[self.indices[partition]];
            partition.in_flight.is_empty() && partition.progress.is_settled() && partition.is_stored()
        };
        match stopping {
            true => sharing.held.keys().copied().filter(is_finished).collect(),
            false => sharing.releasing.keys().copied().filter(is_finished).collect(),
        }
    }

    /// Forgets partitions that are finished. Returns the claims that give them back.
    pub(super) fn forget_finished(&mut self, finished: &[PartitionId], stopping: bool) -> Vec<Ownership> {
        let mut returns = Vec::with_capacity(finished.len());
        let now = self.now;
        for &partition in finished {
            let Some(sharing) = &mut self.sharing else {
                break;
            };
            returns.extend(sharing.give_back(partition));
            sharing.held.remove(&partition);
            sharing.releasing.remove(&partition);
            sharing.look_at_leases();
            if !stopping {
                self.troubles.forget(partition, now);
                let index = self.indices[&partition];
                self.forget_unstored(index);
                self.partitions[index].forget(State::Unowned);
            }
        }
        returns
    }
}
