//! The checkpoint store, and calls to it that take their time.

use std::collections::BTreeMap;
use std::task::{Context, Poll, Waker};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use connect::checkpoint::{Checkpoint, ETag, Ownership, StoreError};
use connect::event::PartitionId;

use super::{Event, World};
use crate::config::between;
use crate::defect::Defect;
use crate::source::offset_of;
use crate::trace::What;

/// What the store holds, by partition, and the calls that are under way.
#[derive(Debug, Default)]
pub(super) struct Store {
    checkpoints: BTreeMap<u32, Checkpoint>,
    ownership: BTreeMap<u32, Ownership>,
    writings: u64,
    calls: BTreeMap<u64, Call>,
}

#[derive(Debug)]
struct Call {
    process: u32,
    request: Request,
    answer: Option<Result<Answer, StoreError>>,
    /// Whether the answer has reached the process.
    answered: bool,
    waker: Option<Waker>,
}

/// What a process asks of the store.
#[derive(Clone, Debug)]
pub(crate) enum Request {
    ListCheckpoints,
    /// Under a condition, or whatever is there.
    Write {
        checkpoint: Checkpoint,
        fenced: bool,
    },
    ListOwnership,
    Claim(Vec<Ownership>),
}

/// What the store answers.
#[derive(Clone, Debug)]
pub(crate) enum Answer {
    Checkpoints(Vec<Checkpoint>),
    Written(ETag),
    Ownership(Vec<Ownership>),
}

impl World {
    /// A process calls the store. Returns the number of the call; none if the process is dead.
    pub(crate) fn call_store(&mut self, process: u32, mut request: Request) -> Option<u64> {
        if !self.call(process) {
            return None;
        }
        let number = self.number();
        if let Request::Write { checkpoint, .. } = &mut request {
            self.damage_checkpoint(process, checkpoint);
            let now = self.now_ms();
            let (partition, sequence_number) = key_of(checkpoint);
            self.note(Some(process), What::Writing { call: number, partition, sequence_number });
            let checked = self.audit.begin_write(process, partition, sequence_number, now);
            self.check(checked);
        }
        let what = match &request {
            Request::ListCheckpoints => Some("lists the checkpoints"),
            Request::ListOwnership => Some("lists the claims"),
            Request::Claim(_) => Some("claims"),
            Request::Write { .. } => None,
        };
        if let Some(what) = what {
            self.note(Some(process), What::Asking { call: number, what });
        }
        let call = Call { process, request, answer: None, answered: false, waker: None };
        self.store.calls.insert(number, call);
        let delay = self.store_ms();
        self.after(delay, Event::CallArrives { call: number });
        Some(number)
    }

    /// The answer to a call, once it is there and the process is able to look.
    pub(crate) fn poll_answer(
        &mut self,
        number: u64,
        context: &mut Context<'_>,
    ) -> Poll<Result<Answer, StoreError>> {
        let Some(call) = self.store.calls.get_mut(&number) else {
            return Poll::Pending;
        };
        let process = call.process;
        if !self.processes[process as usize].alive {
            return Poll::Pending;
        }
        if self.processes[process as usize].paused {
            self.processes[process as usize].resume_wakers.push(context.waker().clone());
            return Poll::Pending;
        }
        if !call.answered {
            call.waker = Some(context.waker().clone());
            return Poll::Pending;
        }
        let Some(Call { answer: Some(answer), request, .. }) = self.store.calls.remove(&number) else {
            return Poll::Pending;
        };
        self.note(Some(process), What::Answered { call: number, ok: answer.is_ok() });
        match (&answer, &request) {
            (Ok(Answer::Checkpoints(checkpoints)), _) => self.tell_checkpoints(process, checkpoints),
            (Ok(Answer::Written(_)), Request::Write { checkpoint, .. }) => {
                let (partition, sequence_number) = key_of(checkpoint);
                let checked = self.audit.confirm(process, partition, sequence_number);
                self.check(checked);
            }
            _ => {}
        }
        Poll::Ready(answer)
    }

    /// The store's clock, as a process sees it.
    pub(crate) fn store_time(&self, process: Option<u32>) -> SystemTime {
        let skew_ms = process.map_or(0, |process| self.process(process).skew_ms);
        let now_ms = EPOCH_MS.saturating_add(self.now_ms()).saturating_add_signed(skew_ms);
        UNIX_EPOCH + Duration::from_millis(now_ms)
    }

    /// A process that has its store to itself has died: what it was writing is there by now, or never will be. A store
    /// that is shared is a service, which carries out what is on its way.
    pub(super) fn end_calls_of(&mut self, process: u32) {
        if self.config.is_shared() {
            return;
        }
        let of_process = |(&number, call): (&u64, &Call)| {
            (call.process == process && call.answer.is_none()).then_some(number)
        };
        let calls: Vec<_> = self.store.calls.iter().filter_map(of_process).collect();
        for number in calls {
            if self.random.store.chance(0.5) {
                self.call_arrives(number);
            }
            self.store.calls.remove(&number);
        }
    }

    /// A call reaches the store.
    pub(super) fn call_arrives(&mut self, number: u64) {
        let Some(call) = self.store.calls.get(&number) else {
            return;
        };
        if call.answer.is_some() {
            return;
        }
        let (process, request) = (call.process, call.request.clone());
        let faults = self.config.faults.clone();
        let failed = self.goes_wrong(|random| &mut random.store, faults.store_failed);
        let lost = self.goes_wrong(|random| &mut random.store, faults.store_answer_lost);
        let answer = if failed {
            Err(unavailable("the store does nothing"))
        } else {
            self.carry_out(process, number, request)
        };
        let answer = if lost { Err(unavailable("the answer was lost")) } else { answer };
        if let Some(call) = self.store.calls.get_mut(&number) {
            call.answer = Some(answer);
        }
        let delay = self.store_ms();
        self.after(delay, Event::CallAnswered { call: number });
    }

    /// An answer reaches the process.
    pub(super) fn call_answered(&mut self, number: u64) {
        if let Some(call) = self.store.calls.get_mut(&number) {
            call.answered = true;
            if let Some(waker) = call.waker.take() {
                waker.wake();
            }
        }
    }

    fn carry_out(&mut self, process: u32, number: u64, request: Request) -> Result<Answer, StoreError> {
        match request {
            Request::ListCheckpoints => {
                let checkpoints = self.store.checkpoints.values().cloned().collect();
                Ok(Answer::Checkpoints(checkpoints))
            }
            Request::ListOwnership => {
                let ownership = self.store.ownership.values().cloned().collect();
                Ok(Answer::Ownership(ownership))
            }
            Request::Claim(claims) => {
                let now = self.store_time(None);
                let mut won = Vec::with_capacity(claims.len());
                for claim in claims {
                    let is_request = self.store.is_request(&claim);
                    let Some(ownership) = self.store.claim(claim, now) else { continue };
                    won.push(ownership.clone());
                    if is_request {
                        let partition = ownership.partition.0;
                        self.note(Some(process), What::Requested { call: number, partition });
                        continue;
                    }
                    let what = What::Claimed {
                        call: number,
                        partition: ownership.partition.0,
                        returned: ownership.owner_id.is_empty(),
                    };
                    self.note(Some(process), what);
                    let now = self.now_ms();
                    self.audit.claim(process, ownership.partition.0, now);
                }
                Ok(Answer::Ownership(won))
            }
            Request::Write { checkpoint, fenced } => self.write(process, number, checkpoint, fenced),
        }
    }

    fn write(
        &mut self,
        process: u32,
        number: u64,
        checkpoint: Checkpoint,
        fenced: bool,
    ) -> Result<Answer, StoreError> {
        let (partition, sequence_number) = key_of(&checkpoint);
        let stored = self.store.checkpoints.get(&partition).cloned();
        let etag = stored.as_ref().and_then(|stored| stored.etag.as_ref());
        let fenced = fenced && !self.has_defect(Defect::StoreIgnoresFences);
        if fenced && etag != checkpoint.etag.as_ref() {
            self.refused_writes += 1;
            return Err(StoreError::NotOwner { partition: PartitionId(partition) });
        }
        if self.has_defect(Defect::StoreAnswersEarly) && self.random.store.chance(0.2) {
            return Ok(Answer::Written(self.store.next_etag()));
        }
        self.note(Some(process), What::Written { call: number, partition, sequence_number });
        let checked = self.audit.apply(process, partition, sequence_number);
        self.check(checked);
        let etag = self.store.next_etag();
        self.store.checkpoints.insert(partition, Checkpoint { etag: Some(etag.clone()), ..checkpoint });
        if self.has_defect(Defect::StoreReordersWrites)
            && let Some(stored) = stored
        {
            let (partition, sequence_number) = key_of(&stored);
            let checked = self.audit.apply(process, partition, sequence_number);
            self.check(checked);
            self.store.checkpoints.insert(partition, stored);
        }
        Ok(Answer::Written(etag))
    }

    fn tell_checkpoints(&mut self, process: u32, checkpoints: &[Checkpoint]) {
        for partition in 0..self.config.partitions {
            let told = checkpoints.iter().find(|checkpoint| checkpoint.partition.0 == partition);
            let sequence_number = told.map_or(-1, |checkpoint| key_of(checkpoint).1);
            self.note(Some(process), What::Listed { partition, sequence_number });
            self.audit.list(process, partition, sequence_number);
        }
    }

    /// Defects of what a relay could write.
    fn damage_checkpoint(&self, process: u32, checkpoint: &mut Checkpoint) {
        let (partition, sequence_number) = key_of(checkpoint);
        let damaged = match self.config.defect {
            Some(Defect::CheckpointBeyond) => Some(sequence_number + 1),
            Some(Defect::CheckpointPassesGaps) => self.audit.newest_acknowledged(process, partition),
            Some(Defect::CheckpointEarly) => self.audit.newest_handed_over(process, partition),
            _ => None,
        };
        if let Some(damaged) = damaged {
            checkpoint.sequence_number = Some(damaged);
            checkpoint.offset = Some(offset_of(damaged));
        }
    }

    /// How long a call to the store, or its answer, is on the way.
    fn store_ms(&mut self) -> u64 {
        let faults = self.config.faults.clone();
        let usual = between(&mut self.random.store, 0, faults.store_ms);
        let slow_ms = between(&mut self.random.store, 0, faults.store_slow_ms);
        if self.goes_wrong(|random| &mut random.store, faults.store_slow) { usual + slow_ms } else { usual }
    }
}

impl Store {
    /// Whether a call is under way that was made before that number was given.
    pub(super) fn is_slow(&self, number: u64) -> bool {
        self.calls.range(..number).any(|(_, call)| !call.answered)
    }

    /// Whether a claim is its owner's as before, and asks for the partition.
    fn is_request(&self, claim: &Ownership) -> bool {
        let before = self.ownership.get(&claim.partition.0).and_then(|before| before.asked_by.as_ref());
        claim.asked_by.is_some() && claim.asked_by.as_ref() != before
    }

    fn claim(&mut self, claim: Ownership, now: SystemTime) -> Option<Ownership> {
        let current = self.ownership.get(&claim.partition.0);
        if claim.etag.as_ref() != current.and_then(|current| current.etag.as_ref()) {
            return None;
        }
        let written = Ownership { etag: Some(self.next_etag()), last_modified: Some(now), ..claim };
        self.ownership.insert(written.partition.0, written.clone());
        Some(written)
    }

    fn next_etag(&mut self) -> ETag {
        self.writings += 1;
        ETag(format!("0x{:X}", self.writings))
    }
}

/// Partition and sequence number; -1 where nothing is done yet.
fn key_of(checkpoint: &Checkpoint) -> (u32, i64) {
    (checkpoint.partition.0, checkpoint.sequence_number.unwrap_or(-1))
}

fn unavailable(reason: &str) -> StoreError {
    StoreError::Unavailable { reason: reason.to_owned() }
}

/// When histories begin, by the store's clock: long after 1970, so that no skew goes before it.
const EPOCH_MS: u64 = 1_700_000_000_000;
