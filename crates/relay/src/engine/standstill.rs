//! Partitions that stand still although there is something to carry.
//!
//! Whatever is wrong at an end is reported as such once it is noticed. A peer that keeps a connection open and does not do what it is
//! asked, or an error of the relay itself, may go unnoticed. What shows it is that nothing moves:
//!
//! ```text
//!   work   a batch that was taken up, or events behind the position, as the service says
//!   since  the later one of: there is work; the position moved last
//! ```

use std::time::{Duration, Instant};

use connect::event::PartitionId;

use super::Relay;
use super::partition::{Completes, Partition, State};
use crate::health::{Partitions, Place, Reason};

impl Relay {
    /// Returns the reason that partitions stand still without anything else being known to be wrong with them, if any do.
    pub(super) fn standstill(&self) -> Option<Reason> {
        if self.stop_by.is_some() || self.source.outage().is_some() || self.outlets.outage().is_some() {
            return None;
        }
        let limit = NO_PROGRESS.max(self.options.retry.try_timeout);
        let places = [Place::Source, Place::Sink, Place::Checkpoints, Place::Ownership, Place::Relay];
        let held = places.map(|place| self.troubles.held(place));
        let open = self.partitions.iter().enumerate().filter(|(_, it)| it.state == State::Open);
        let free = open.filter(|(_, it)| !held.iter().any(|held| held.contains(&it.id)));
        let standing = free.filter_map(|(index, partition)| {
            let since = self.stands_since(index, partition)?;
            let lasted = self.now.saturating_duration_since(since);
            (lasted >= limit).then_some((lasted, partition.id))
        });
        let (lasted, partitions): (Vec<Duration>, Vec<PartitionId>) = standing.unzip();
        Some(Reason {
            place: Place::Relay,
            condition: CONDITION.to_owned(),
            description: format!("no event was carried for {limit:?} although there are some"),
            lasted: lasted.into_iter().max()?,
            partitions,
        })
    }

    /// Returns the time since when a partition has work and has not moved.
    fn stands_since(&self, index: usize, partition: &Partition) -> Option<Instant> {
        let started = match partition.completion {
            Completes::ByCheckpoint => {
                partition.in_flight.first().map(|&slot| self.slots.in_flight(slot).started_at)
            }
            Completes::BySettlement => {
                let under_way = self.slots.under_way().filter(|in_flight| in_flight.partition == index);
                under_way.map(|in_flight| in_flight.started_at).min()
            }
        };
        let waiting = partition.parked.front().map(|parked| parked.received_at);
        // Where the source does not say, the last numbers of a log may be those of no event.
        let behind = self.source.accounts_for_all_numbers().then(|| {
            let position = self.progress_of(partition).position;
            self.requests.ends.behind_since(partition.id, position).map(tokio::time::Instant::into_std)
        });
        let behind = behind.flatten();
        let work = started.into_iter().chain(waiting).chain(behind).min()?;
        Some(partition.moved_at.map_or(work, |moved| moved.max(work)))
    }

    /// Logs that partitions have begun to stand still, or that none does any more.
    pub(super) fn report_standstill(&mut self) {
        let standstill = self.standstill();
        match (&standstill, self.stands_still) {
            (Some(reason), false) => {
                let partitions = Partitions(&reason.partitions);
                tracing::warn!(place = %reason.place, condition = CONDITION, %partitions, "{}", reason.description);
            }
            (None, true) => tracing::info!(condition = CONDITION, "over"),
            _ => {}
        }
        self.stands_still = standstill.is_some();
    }
}

/// The condition of such a reason.
const CONDITION: &str = "no-progress";

/// A partition with work that has not moved for so long stands still, unless a single send may take longer.
const NO_PROGRESS: Duration = Duration::from_secs(60);
