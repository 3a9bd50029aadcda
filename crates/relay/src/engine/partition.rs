//! One partition of the source, as the relay sees it.
//!
//! ```text
//!   Unplaced → Loading → Open → Resting → Settling → Unplaced → …      a failed batch, then the next start
//!                          ↓
//!                        Ending → Closed                              a graceful stop, or it is asked back
//!
//!   Unowned → Unplaced → Loading → Fencing → Open → …                   shared with other relays: a claim was won
//!      ↑_____________________________________│                        … and lost, from any state
//! ```

use std::collections::VecDeque;
use std::time::Instant;

use connect::checkpoint::{Checkpoint, ConsumerGroup, ETag};
use connect::event::{EventBatch, PartitionId};

use super::accepted::Accepted;
use super::gaps::Continuity;
use super::storage::Storage;
use crate::health::Position;
use crate::metrics::Opening;
use crate::watermark::Watermark;

#[derive(Debug)]
pub(super) struct Partition {
    pub(super) id: PartitionId,
    pub(super) state: State,
    pub(super) completion: Completes,
    pub(super) watermark: Watermark,
    batches_under_way: usize,
    /// Whether a batch begins only when the checkpoint that covers those before is written.
    pub(super) awaits_checkpoint: bool,
    /// Slots of its batches under way, oldest first.
    pub(super) in_flight: Vec<u32>,
    /// Batches that wait for their turn. Bounded, since unreleased events are credit not given back.
    pub(super) parked: VecDeque<Parked>,
    /// Whether it stands in the queue of those whose parked batches may start.
    pub(super) queued: bool,
    /// Whether its source keeps batches that are not full.
    pub(super) held: bool,
    pub(super) progress: Progress,
    pub(super) continuity: Continuity,
    /// What destinations have of batches that failed.
    pub(super) accepted: Accepted,
    /// What sinks have stored that store later.
    pub(super) storage: Storage,
    /// The last event that was refused for good.
    pub(super) poison: Option<i64>,
    /// The newest writing of its checkpoint, if it is shared: the next one replaces that and no other.
    pub(super) etag: Option<ETag>,
    /// Counts how often it was lost: what was begun before is of no account.
    pub(super) tenure: u64,
    /// Why it is opened the next time.
    pub(super) opening: Opening,
    /// How often in a row it had to rest, without the watermark moving in between.
    pub(super) rests: u32,
    /// Where it was opened, as long as no batch is done.
    pub(super) placed: Position,
    /// When the watermark moved last, or the partition was opened for the first time.
    pub(super) moved_at: Option<Instant>,
    /// Identity of the log that it was opened in, if the source has one.
    pub(super) log_id: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    /// Other relays may have it.
    Unowned,
    /// Needs a start position; the next listing of checkpoints will tell.
    Unplaced,
    /// The listing that will tell is under way.
    Loading,
    /// Its checkpoint is being replaced by itself, so that no earlier owner can write it any more. Batches come and wait.
    Fencing,
    /// Batches come and are sent.
    Open,
    /// A batch failed; nothing happens for a while.
    Resting,
    /// Has rested, but its last checkpoint is still being written.
    Settling,
    /// No batch is taken up any more; those under way go on.
    Ending,
    /// Over for good.
    Closed,
}

/// How events are told to be done: what the type of the source says, as a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Completes {
    ByCheckpoint,
    BySettlement,
}

/// A batch that waits for its turn.
#[derive(Debug)]
pub(super) struct Parked {
    pub(super) batch: EventBatch,
    pub(super) received_at: Instant,
}

/// What is written of the watermark.
#[derive(Debug, Default)]
pub(super) struct Progress {
    /// The watermark has moved since the last writing began.
    pub(super) dirty: bool,
    /// When the writing under way began.
    pub(super) writing_since: Option<Instant>,
    /// Whether it stands in the queue of those whose watermark is to be written.
    pub(super) queued: bool,
    /// Whether a writing that failed waits to be tried again.
    pub(super) waiting: bool,
    /// Writings that failed one after the other.
    pub(super) failures: u32,
    /// When the first of them began.
    pub(super) failing_since: Option<Instant>,
    /// The highest sequence number that the watermark ever had; `None` before it had any.
    pub(super) furthest: Option<i64>,
}

impl Partition {
    /// A partition of which so many batches may be under way at once.
    pub(super) fn new(
        id: PartitionId,
        state: State,
        completion: Completes,
        batches_under_way: usize,
    ) -> Self {
        Self {
            id,
            state,
            completion,
            watermark: Watermark::new(batches_under_way),
            batches_under_way,
            awaits_checkpoint: false,
            in_flight: Vec::new(),
            parked: VecDeque::new(),
            queued: false,
            held: false,
            progress: Progress::default(),
            continuity: Continuity::default(),
            accepted: Accepted::default(),
            storage: Storage::default(),
            poison: None,
            etag: None,
            tenure: 0,
            opening: Opening::Start,
            rests: 0,
            placed: Position::Unknown,
            moved_at: None,
            log_id: None,
        }
    }

    /// Whether another batch may begin. Messages that are settled are counted by the source instead.
    pub(super) fn may_begin(&self) -> bool {
        self.state == State::Open
            && match self.completion {
                Completes::ByCheckpoint if self.awaits_checkpoint => {
                    self.in_flight.is_empty() && self.progress.is_settled()
                }
                Completes::ByCheckpoint => self.watermark.has_room(),
                Completes::BySettlement => true,
            }
    }

    /// Whether this batch may begin. One that can't be read waits for those before it, which must not be given up because of it.
    pub(super) fn may_begin_with(&self, batch: &EventBatch) -> bool {
        self.may_begin() && (batch.unreadable().is_none() || self.in_flight.is_empty())
    }

    /// Forgets how far it got: from now on that is for another relay to say.
    pub(super) fn forget(&mut self, state: State) {
        self.state = state;
        self.watermark = Watermark::new(self.batches_under_way);
        self.progress = Progress::default();
        self.continuity = Continuity::default();
        self.accepted.clear();
        self.storage.clear();
        self.poison = None;
        self.etag = None;
        self.tenure += 1;
        self.rests = 0;
        self.placed = Position::Unknown;
        self.moved_at = None;
        self.log_id = None;
    }

    /// Its events are numbered anew: nothing of the old numbers is written any more, or left out.
    pub(super) fn renumber(&mut self) {
        self.watermark = Watermark::new(self.batches_under_way);
        self.progress.dirty = false;
        self.progress.furthest = None;
        self.accepted.clear();
        self.poison = None;
    }

    /// How many events the watermark has passed for the first time, now that the batch which begins with `first` has
    /// moved it. Events that the source no longer had are not among them.
    pub(super) fn count_completed(&mut self, first: Option<i64>) -> u64 {
        let (Some(position), Some(first)) = (self.watermark.position(), first) else {
            return 0;
        };
        let furthest = self.progress.furthest.get_or_insert(first - 1);
        let passed = position.sequence_number - *furthest;
        if passed <= 0 {
            return 0;
        }
        let missing = self.continuity.pass(*furthest, position.sequence_number);
        *furthest = position.sequence_number;
        (passed - missing).max(0).cast_unsigned()
    }

    /// The checkpoint at the watermark, as far as that is stored.
    pub(super) fn checkpoint(&self, group: &ConsumerGroup) -> Option<Checkpoint> {
        let position = self.stored()?;
        Some(Checkpoint {
            group: group.clone(),
            partition: self.id,
            sequence_number: Some(position.sequence_number),
            offset: Some(&position.offset).filter(|offset| !offset.is_empty()).cloned(),
            log_id: self.log_id.clone(),
            etag: self.etag.clone(),
        })
    }
}

impl State {
    /// Whether its checkpoint is being read, or fenced.
    pub(super) const fn is_being_placed(self) -> bool {
        matches!(self, Self::Unplaced | Self::Loading | Self::Fencing)
    }

    /// Whether batches come.
    pub(super) fn takes_batches(self) -> bool {
        matches!(self, Self::Open | Self::Fencing)
    }
}

impl Progress {
    /// Whether everything is written, or given up.
    pub(super) fn is_settled(&self) -> bool {
        !self.dirty && self.writing_since.is_none()
    }
}
