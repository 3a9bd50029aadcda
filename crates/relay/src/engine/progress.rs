//! Checkpoints: written after acceptance, one at a time per partition, and read where a partition starts.
//!
//! While a checkpoint of a partition is being written, its watermark may move any number of times: the next writing
//! takes it where it then is. So a slow store costs nothing but events that come twice after a crash. A store whose writings
//! cost this process time says at what pace it wants them; then partitions take turns.
//!
//! While the store is not to be had, a shared partition goes on for as long as its claim could: what it does in that time
//! comes twice if the claim is lost, and not at all if the store comes back. A partition that is nobody else's stops after
//! the tries of the retry policy, since nothing else would end it.

use std::collections::HashMap;
use std::task::{Context, Poll};
use std::time::Duration;

use connect::checkpoint::{Checkpoint, ETag, StoreError};
use connect::event::PartitionId;
use connect::source::StartPosition;

use super::Relay;
use super::partition::State;
use super::timers::Due;
use crate::health::{Place, Position};
use crate::metrics::{Closing, Loss, record_duration};
use crate::options::CheckpointPolicy;

impl Relay {
    /// The watermark of a partition is to be written, if it has moved.
    pub(super) fn write_soon(&mut self, index: usize) {
        let partition = &mut self.partitions[index];
        let progress = &mut partition.progress;
        if progress.dirty && progress.writing_since.is_none() && !progress.waiting && !progress.queued {
            progress.queued = true;
            match partition.state {
                State::Open => self.unwritten.push_back(index),
                // Somebody waits for it.
                _ => self.unwritten.push_front(index),
            }
        }
    }

    /// The next partition whose watermark is to be written now.
    fn next_unwritten(&mut self) -> Option<usize> {
        let &index = self.unwritten.front()?;
        let is_awaited = self.stop_by.is_some()
            || self.options.await_checkpoint
            || self.partitions[index].state != State::Open;
        if !is_awaited && !self.pacer.allows(self.now) {
            return None;
        }
        self.partitions[index].progress.queued = false;
        self.unwritten.pop_front()
    }

    /// The interval of writing is over.
    pub(super) fn write_all(&mut self) {
        (0..self.partitions.len()).for_each(|index| self.write_soon(index));
        if let CheckpointPolicy::Every(interval) = self.options.checkpoint {
            // Never in zero time, which would keep the loop busy.
            self.timers.set(self.now + interval.max(Duration::from_millis(1)), Due::WriteAll);
        }
    }

    /// A writing that failed has waited for its next try.
    pub(super) fn write_again(&mut self, index: usize) {
        self.partitions[index].progress.waiting = false;
        self.write_soon(index);
    }

    /// Begins and ends writings, and the listing that tells where partitions start.
    pub(super) fn poll_progress(&mut self, context: &mut Context<'_>) -> bool {
        let mut progress = false;
        while let Poll::Ready(Some(joined)) = self.writes.poll_join_next(context) {
            progress = true;
            match joined {
                Ok(written) => self.written(written),
                Err(error) => {
                    // Nobody cancels a writing; it can only have panicked, and that is passed on.
                    if let Ok(panic) = error.try_into_panic() {
                        std::panic::resume_unwind(panic);
                    }
                }
            }
        }
        while let Some(index) = self.next_unwritten() {
            progress = true;
            self.write(index, context);
        }
        progress | self.poll_listing(context)
    }

    fn write(&mut self, index: usize, context: &mut Context<'_>) {
        let partition = &mut self.partitions[index];
        if partition.progress.is_settled() || partition.progress.writing_since.is_some() {
            return;
        }
        if partition.state.is_being_placed() {
            // What sinks have stored in the meantime is written as soon as it is open.
            return;
        }
        let Some(checkpoint) = partition.checkpoint(&self.options.group) else {
            return;
        };
        if !self.may_write(index) {
            return;
        }
        self.begin_writing(index, checkpoint, context);
    }

    /// Whether a partition is still ours. If it is not, it is lost by now.
    fn may_write(&mut self, index: usize) -> bool {
        let id = self.partitions[index].id;
        match &self.sharing {
            Some(sharing) if !sharing.may_write(id) => {
                self.lose(id, Loss::Expired, &"its claim was not renewed in time");
                false
            }
            _ => true,
        }
    }

    fn begin_writing(&mut self, index: usize, checkpoint: Checkpoint, context: &mut Context<'_>) {
        let partition = &mut self.partitions[index];
        self.traces.begin_checkpoint(index, partition.tenure, checkpoint.sequence_number);
        // A fence writes what was read, and not what is covered by now.
        partition.progress.dirty &= partition.state == State::Fencing;
        partition.progress.writing_since = Some(tokio::time::Instant::now().into_std());
        let tenure = partition.tenure;
        let written = move |result| Written { index, tenure, result };
        // A store of this machine is done at once; only others are worth a task.
        if self.sharing.is_some() {
            let mut writing = self.store.replace_checkpoint(checkpoint);
            match writing.as_mut().poll(context) {
                Poll::Ready(result) => self.written(written(result.map(Some))),
                Poll::Pending => {
                    self.writes.spawn(async move { written(writing.await.map(Some)) });
                }
            }
        } else {
            let mut writing = self.store.update_checkpoint(checkpoint);
            match writing.as_mut().poll(context) {
                Poll::Ready(result) => self.written(written(result.map(|()| None))),
                Poll::Pending => {
                    self.writes.spawn(async move { written(writing.await.map(|()| None)) });
                }
            }
        }
    }

    fn written(&mut self, written: Written) {
        let Written { index, tenure, result } = written;
        let now = tokio::time::Instant::now().into_std();
        let partition = &mut self.partitions[index];
        if partition.tenure != tenure {
            // Lost in the meantime. The store has refused it, or it was in time and the next owner has seen it.
            return;
        }
        let progress = &mut partition.progress;
        let elapsed = progress.writing_since.take().map_or_else(Default::default, |since| now - since);
        self.trace_checkpoint(index, now, elapsed, result.as_ref().err());
        let partition = &mut self.partitions[index];
        let progress = &mut partition.progress;
        if partition.state == State::Fencing {
            self.fenced(index, result, elapsed);
            return;
        }
        match result {
            Ok(etag) => {
                partition.etag = etag;
                self.metrics.checkpoints += 1;
                self.metrics.last_checkpoint_at = Some(now);
                record_duration(&mut self.metrics.checkpoint_us, elapsed);
                progress.failures = 0;
                progress.failing_since = None;
                if !self.troubles.is_empty() {
                    self.troubles.heals(Place::Checkpoints, partition.id, now);
                }
                let eager =
                    self.options.checkpoint == CheckpointPolicy::EachBatch || partition.state != State::Open;
                if eager {
                    self.write_soon(index);
                }
            }
            Err(error @ StoreError::NotOwner { .. }) if self.sharing.is_some() => {
                self.metrics.refused_checkpoints += 1;
                self.lose(self.partitions[index].id, Loss::Taken, &error);
            }
            // The fence of a partition that was closed in the meantime: there is nothing to be written again.
            Err(error) if partition.watermark.position().is_none() => {
                self.metrics.failed_checkpoints += 1;
                record_duration(&mut self.metrics.failed_checkpoint_us, elapsed);
                self.troubles.occurs(Place::Checkpoints, &error, now);
            }
            Err(error) => {
                self.metrics.failed_checkpoints += 1;
                record_duration(&mut self.metrics.failed_checkpoint_us, elapsed);
                progress.dirty = true;
                progress.failures += 1;
                let failing_since = *progress.failing_since.get_or_insert(now - elapsed);
                self.troubles.holds(Place::Checkpoints, partition.id, &error, now);
                let retry = &self.options.retry;
                let next = retry.delay_after(progress.failures, index as u64);
                // The claim is no better off: it ends when that cannot be renewed either.
                let patience = match (&self.options.ownership, &error) {
                    (Some(ownership), StoreError::Unavailable { .. }) => ownership.expire,
                    _ => Duration::ZERO,
                };
                let last = retry.delay_after(retry.attempts.saturating_sub(1).max(1), index as u64);
                match next.or_else(|| last.filter(|_| now - failing_since < patience)) {
                    Some(delay) => {
                        progress.waiting = true;
                        self.timers.set(now + delay, Due::WriteAgain(index));
                    }
                    None => {
                        // Without a checkpoint every further batch is one more that would come twice.
                        progress.failures = 0;
                        progress.failing_since = None;
                        progress.dirty = false;
                        self.stop_partition(index, Closing::Checkpoint, &error);
                    }
                }
            }
        }
        let partition = &mut self.partitions[index];
        if partition.state == State::Settling && partition.progress.is_settled() {
            self.place(index);
        }
        if self.options.await_checkpoint {
            self.run_soon(index);
            self.update_hold(index);
        }
    }

    /// The checkpoint of a partition that was won is written by nobody else any more, or somebody was faster.
    fn fenced(&mut self, index: usize, result: Result<Option<ETag>, StoreError>, elapsed: Duration) {
        let partition = &mut self.partitions[index];
        match result {
            Ok(etag) => {
                partition.etag = etag;
                partition.state = State::Open;
                self.run_soon(index);
                self.write_soon(index);
            }
            Err(StoreError::NotOwner { .. }) => {
                // The owner before us has written once more; what it wrote is where we begin.
                self.metrics.refused_checkpoints += 1;
                self.source.close(partition.id);
                self.metrics.count_closing(Closing::Fence);
                self.release_parked(index);
                self.place(index);
            }
            Err(error) => {
                self.metrics.failed_checkpoints += 1;
                record_duration(&mut self.metrics.failed_checkpoint_us, elapsed);
                self.stop_partition(index, Closing::Checkpoint, &error);
            }
        }
    }

    /// A partition has rested: it starts again as soon as its last checkpoint is written.
    pub(super) fn reopen(&mut self, index: usize) {
        let partition = &mut self.partitions[index];
        if partition.state != State::Resting {
            return;
        }
        if partition.progress.is_settled() {
            self.place(index);
        } else {
            partition.state = State::Settling;
            self.write_soon(index);
        }
    }

    /// Asks for the start position of a partition. A listing that is under way may have missed its last checkpoint.
    pub(super) fn place(&mut self, index: usize) {
        self.partitions[index].state = State::Unplaced;
        self.listing_wanted = true;
    }

    fn poll_listing(&mut self, context: &mut Context<'_>) -> bool {
        let mut progress = false;
        loop {
            if self.listing.is_none() && self.listing_wanted && self.stop_by.is_none() {
                self.listing_wanted = false;
                for partition in
                    self.partitions.iter_mut().filter(|partition| partition.state == State::Unplaced)
                {
                    partition.state = State::Loading;
                }
                self.listing = Some(self.store.list_checkpoints(&self.options.group));
            }
            let Some(listing) = &mut self.listing else {
                return progress;
            };
            let Poll::Ready(listed) = listing.as_mut().poll(context) else {
                return progress;
            };
            progress = true;
            self.listing = None;
            match listed {
                Ok(checkpoints) => {
                    self.listed = true;
                    self.troubles.outage(Place::Checkpoints, None, self.now);
                    self.open_partitions(checkpoints, context);
                }
                // Before anything was carried, nothing is lost by giving up.
                Err(error) if !self.listed => self.fail(error.into()),
                Err(error) => {
                    self.troubles.outage(Place::Checkpoints, Some(&error), self.now);
                    for index in 0..self.partitions.len() {
                        if self.partitions[index].state == State::Loading {
                            self.partitions[index].state = State::Resting;
                            self.timers.set(self.now + self.options.restart_after, Due::Reopen(index));
                        }
                    }
                }
            }
        }
    }

    fn open_partitions(&mut self, checkpoints: Vec<Checkpoint>, context: &mut Context<'_>) {
        let mut checkpoints: HashMap<PartitionId, Checkpoint> =
            checkpoints.into_iter().map(|checkpoint| (checkpoint.partition, checkpoint)).collect();
        for index in 0..self.partitions.len() {
            let partition = &self.partitions[index];
            if partition.state != State::Loading {
                continue;
            }
            let id = partition.id;
            let checkpoint = checkpoints.remove(&id);
            if !self.follow_log(index, checkpoint.as_ref()) {
                return;
            }
            let partition = &mut self.partitions[index];
            let position = partition.continuity.open(
                checkpoint.as_ref(),
                &self.options.start_position,
                partition.stored().is_some(),
            );
            partition.placed = placed(checkpoint.as_ref(), &position);
            let valid = checkpoint.as_ref().filter(|_| !partition.continuity.is_restarted());
            if partition.storage.is_behind(valid) {
                // Another one had the partition in the meantime.
                self.forget_unstored(index);
            }
            let partition = &mut self.partitions[index];
            partition.progress.dirty |= partition.storage.open(valid);
            partition.moved_at.get_or_insert(self.now);
            if self.sharing.is_none() {
                partition.state = State::Open;
            } else if self.may_write(index) {
                self.partitions[index].state = State::Fencing;
                let nowhere = || Checkpoint {
                    group: self.options.group.clone(),
                    partition: id,
                    sequence_number: None,
                    offset: None,
                    log_id: None,
                    etag: None,
                };
                let checkpoint = checkpoint.unwrap_or_else(nowhere);
                // Opened at the same time: that takes the link from an owner who does not know yet.
                self.source.open(id, position);
                self.metrics.count_opening(self.partitions[index].opening);
                self.begin_writing(index, checkpoint, context);
                continue;
            } else {
                continue;
            }
            self.metrics.count_opening(self.partitions[index].opening);
            self.source.open(id, position);
            self.write_soon(index);
        }
    }
}

/// What a partition that is opened there has done.
fn placed(checkpoint: Option<&Checkpoint>, position: &StartPosition) -> Position {
    let number = checkpoint.and_then(|checkpoint| checkpoint.sequence_number);
    match (number, position) {
        (Some(number), _) => Position::After(number),
        (None, StartPosition::AfterSequenceNumber(number)) => Position::After(*number),
        (None, StartPosition::AtSequenceNumber(number)) => Position::After(number.saturating_sub(1)),
        (None, StartPosition::Earliest) => Position::Beginning,
        (None, StartPosition::Latest | StartPosition::AfterOffset(_) | StartPosition::AtEnqueuedTime(_)) => {
            Position::Unknown
        }
    }
}

/// A checkpoint was written, or could not be.
#[derive(Debug)]
pub(super) struct Written {
    index: usize,
    /// The tenure in which it was begun.
    tenure: u64,
    /// With the new ETag, where the checkpoint was replaced.
    result: Result<Option<ETag>, StoreError>,
}
