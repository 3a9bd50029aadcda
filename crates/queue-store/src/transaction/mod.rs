//! Work on several queues and topics that is done as a whole, or not at all.
//!
//! ```text
//!  commit ──► lock all entities ──► check everything ──► do all of it ──► journal of transactions ──► journal of each entity
//!                                        │ refused                              │ where there are several     │
//!                                        ▼                                      ▼                             ▼
//!                                   nothing was done                   one batch, written ahead         one batch each
//! ```
//!
//! Nobody sees a part of it: the locks of all entities are held until all is done, in the order of their addresses. What is
//! checked before can't fail afterwards.
//!
//! The work on one entity is one batch of its journal, as any operation is. Of work on several, the records that all their
//! journals get are first written to a journal of transactions (`journal.rs`), which the committer writes ahead of all others. So
//! whatever a journal of an entity has of a transaction after a crash, all of its records are there, and those that an entity lacks
//! are added at the start. Each entity's batch has the number of the transaction, so nothing is added twice; and as the records
//! are the same, so are the numbers of messages that later transactions speak of.

mod journal;

pub(super) use journal::TransactionJournal;

use journal::WrittenPart;

use super::entity::{Entity as Inner, EntityState};
use super::error::QueueError;
use super::lock_token::LockToken;
use super::message::NewMessage;
use super::page::Stage;
use super::queue::Queue;
use super::queue_store::{Entity, QueueStore};
use super::requests::Settlement;
use super::sending::{Admitted, LARGEST_BATCH, Numbers};
use partition_log::UnixTime;
use partition_log::disk::CommitNumber;
use std::collections::HashSet;
use std::sync::{Arc, MutexGuard};

/// A piece of work within a transaction.
#[derive(Clone, Copy, Debug)]
pub enum Work<'a> {
    /// Send messages.
    Send {
        /// Destination.
        entity: &'a Entity,
        /// The messages.
        messages: &'a [NewMessage<'a>],
    },
    /// Send messages under numbers that were [reserved](Entity::reserve) for them.
    Schedule {
        /// Destination.
        entity: &'a Entity,
        /// The messages.
        messages: &'a [NewMessage<'a>],
        /// Their reserved sequence numbers, one per message.
        sequence_numbers: &'a [u64],
    },
    /// Remove scheduled messages.
    CancelScheduled {
        /// Entity in which they are scheduled.
        entity: &'a Entity,
        /// Their sequence numbers.
        sequence_numbers: &'a [u64],
    },
    /// Remove messages that are available.
    Delete {
        /// Queue that has them.
        queue: &'a Queue,
        /// Their sequence numbers.
        sequence_numbers: &'a [u64],
    },
    /// Set the state of a session that is locked, or remove it.
    SetSessionState {
        /// The queue of the session.
        queue: &'a Queue,
        /// The session.
        session_id: &'a str,
        /// Its state.
        session_state: Option<&'a [u8]>,
    },
    /// Settle messages that are locked.
    Settle {
        /// Where they were received from.
        queue: &'a Queue,
        /// Their locks.
        tokens: &'a [LockToken],
        /// What becomes of them.
        settlement: Settlement<'a>,
    },
}

/// What a transaction does to one entity.
#[derive(Debug)]
struct Part<'a> {
    entity: &'a Arc<Inner>,
    /// Where the messages are sent, if any are: the entity's own queue.
    sends_to: Option<&'a Queue>,
    messages: Vec<NewMessage<'a>>,
    /// Messages with reserved sequence numbers.
    scheduled: Vec<NewMessage<'a>>,
    reserved: Vec<u64>,
    removals: Vec<Removal<'a>>,
    session_states: Vec<SessionState<'a>>,
    settlements: Vec<Settling<'a>>,
}

/// Messages of one queue of an entity that are removed.
#[derive(Debug)]
struct Removal<'a> {
    queue: &'a Queue,
    sequence_numbers: &'a [u64],
    /// Stage in which they must be.
    stage: Stage,
}

/// The state that a session of one queue of an entity gets.
#[derive(Debug)]
struct SessionState<'a> {
    queue: &'a Queue,
    session_id: &'a str,
    session_state: Option<&'a [u8]>,
}

/// Messages of one queue of an entity that are settled alike.
#[derive(Debug)]
struct Settling<'a> {
    queue: &'a Queue,
    tokens: &'a [LockToken],
    settlement: Settlement<'a>,
}

/// Admission of the sent messages, without and with reserved sequence numbers.
#[derive(Debug, Default)]
struct Sending {
    messages: Admitted,
    scheduled: Admitted,
}

/// An entity whose part is about to be done.
struct Locked<'a> {
    part: &'a Part<'a>,
    state: MutexGuard<'a, EntityState>,
    /// The time there.
    now: i64,
}

impl QueueStore {
    /// Applies all of `work`, or nothing if there is an error. Messages that go to one entity are one batch. The commit is that
    /// of all of it.
    ///
    /// # Errors
    /// [`MessageLockLost`](QueueError::MessageLockLost) or [`SessionLockLost`](QueueError::SessionLockLost): a lock is over;
    /// [`MessageNotFound`](QueueError::MessageNotFound): a message to remove is missing or in another stage;
    /// [`TooLong`](QueueError::TooLong): it is more than any journal can take at once; and those of [`Queue::enqueue`] and
    /// [`Queue::settle`].
    pub fn commit(&self, now: UnixTime, work: &[Work<'_>]) -> Result<CommitNumber, QueueError> {
        let parts = parts_of(work);
        let mut locked = Vec::with_capacity(parts.len());
        for part in &parts {
            let mut state = part.entity.lock();
            // What is due is written by itself, so that what follows is one batch.
            let now = state.start(now).and_then(|now| state.write(now).map(|_| now));
            match now {
                Ok(now) => locked.push(Locked { part, state, now }),
                Err(error) => {
                    drop(state);
                    finish(locked);
                    return Err(error);
                }
            }
        }
        let done = self.do_all(&mut locked);
        let finished = finish(locked);
        match done? {
            // What was written ahead is completed after a crash, so nothing else has to be waited for.
            Some(commit) => {
                if let Some(mut transactions) = self.transactions() {
                    transactions.note_parts(finished.parts);
                }
                Ok(commit)
            }
            // Of one, or of several in memory: there is one commit to wait for at most.
            None => Ok(finished.commit),
        }
    }

    /// Checks everything, then does it. The commit of what was written ahead, if anything was.
    fn do_all(&self, locked: &mut [Locked<'_>]) -> Result<Option<CommitNumber>, QueueError> {
        let mut sendings = Vec::with_capacity(locked.len());
        let mut bytes = 0;
        for entity in &*locked {
            sendings.push(entity.part.check(&entity.state, entity.now, &mut bytes)?);
        }
        if bytes > LARGEST_BATCH {
            return Err(QueueError::TooLong);
        }
        let is_durable = locked.iter().all(|entity| entity.state.journal.is_some());
        match self.transactions() {
            Some(mut transactions) if is_durable && locked.len() > 1 => {
                transactions.write(locked, |locked, transaction| apply_all(locked, sendings, transaction))
            }
            _ => {
                apply_all(locked, sendings, None);
                Ok(None)
            }
        }
    }
}

/// Does what was checked, as the transaction of this number if it has one.
fn apply_all(locked: &mut [Locked<'_>], sendings: Vec<Sending>, transaction: Option<u64>) {
    for (entity, sending) in locked.iter_mut().zip(sendings) {
        let Locked { part, state, now } = entity;
        state.effects.changes.are_one = true;
        if let Some(transaction) = transaction {
            state.note_applied(transaction);
        }
        part.apply(state, *now, sending);
        state.complete(*now);
    }
}

/// Makes whole and writes what was done, frees the entities, and tells everyone who waits.
fn finish(locked: Vec<Locked<'_>>) -> Finished {
    let mut news = Vec::with_capacity(locked.len());
    let mut finished = Finished { commit: CommitNumber::DONE, parts: Vec::new() };
    let mut states = Vec::with_capacity(locked.len());
    for Locked { part, mut state, now } in locked {
        let (commit, of_entity) = part.entity.finish(&mut state, now);
        news.push((part.entity, of_entity));
        finished.parts.extend(
            state.journal.as_ref().map(|journal| WrittenPart::new(journal, commit != CommitNumber::FAILED)),
        );
        finished.commit = finished.commit.max(commit);
        states.push(state);
    }
    // All of them at once: nobody is to see the work on one and not that on another.
    drop(states);
    for (entity, news) in news {
        entity.report(news);
    }
    finished
}

/// What has become of the work on all entities.
struct Finished {
    commit: CommitNumber,
    parts: Vec<WrittenPart>,
}

/// The work by entity, in the order in which entities are locked.
fn parts_of<'a>(work: &'a [Work<'a>]) -> Vec<Part<'a>> {
    let mut parts: Vec<Part<'a>> = Vec::new();
    for work in work {
        match work {
            Work::Send { entity, messages } => {
                let part = part_of(&mut parts, entity.inner());
                part.sends_to = Some(entity.own_queue());
                part.messages.extend_from_slice(messages);
            }
            Work::Schedule { entity, messages, sequence_numbers } => {
                let part = part_of(&mut parts, entity.inner());
                part.sends_to = Some(entity.own_queue());
                part.scheduled.extend_from_slice(messages);
                part.reserved.extend_from_slice(sequence_numbers);
            }
            Work::CancelScheduled { entity, sequence_numbers } => {
                let removal =
                    Removal { queue: entity.own_queue(), sequence_numbers, stage: Stage::Scheduled };
                part_of(&mut parts, entity.inner()).removals.push(removal);
            }
            Work::Delete { queue, sequence_numbers } => {
                let removal = Removal { queue, sequence_numbers, stage: Stage::Ready };
                part_of(&mut parts, &queue.entity).removals.push(removal);
            }
            Work::SetSessionState { queue, session_id, session_state } => {
                let state = SessionState { queue, session_id, session_state: *session_state };
                part_of(&mut parts, &queue.entity).session_states.push(state);
            }
            Work::Settle { queue, tokens, settlement } => {
                let settling = Settling { queue, tokens, settlement: *settlement };
                part_of(&mut parts, &queue.entity).settlements.push(settling);
            }
        }
    }
    parts.sort_unstable_by_key(|part| Arc::as_ptr(part.entity));
    parts
}

/// The part of an entity, which may be a new one.
fn part_of<'a, 'b>(parts: &'b mut Vec<Part<'a>>, entity: &'a Arc<Inner>) -> &'b mut Part<'a> {
    let known = parts.iter().position(|part| Arc::ptr_eq(part.entity, entity));
    let at = known.unwrap_or(parts.len());
    if known.is_none() {
        parts.push(Part::of(entity));
    }
    &mut parts[at]
}

impl<'a> Part<'a> {
    /// Creates an empty one.
    const fn of(entity: &'a Arc<Inner>) -> Self {
        Self {
            entity,
            sends_to: None,
            messages: Vec::new(),
            scheduled: Vec::new(),
            reserved: Vec::new(),
            removals: Vec::new(),
            session_states: Vec::new(),
            settlements: Vec::new(),
        }
    }

    /// Whether all of it can be done now. Adds what it stores to `bytes`.
    fn check(&self, state: &EntityState, now: i64, bytes: &mut u64) -> Result<Sending, QueueError> {
        let mut seen = HashSet::new();
        let mut growth = 0;
        for Removal { queue, sequence_numbers, stage } in &self.removals {
            queue.check_there()?;
            state.queues[queue.place].check_stage(sequence_numbers, *stage)?;
            for &sequence_number in *sequence_numbers {
                if !seen.insert((queue.place, sequence_number)) {
                    return Err(QueueError::MessageNotFound { sequence_number });
                }
            }
        }
        for SessionState { queue, session_id, session_state } in &self.session_states {
            queue.check_there()?;
            growth += state.queues[queue.place].check_session_state(now, session_id, *session_state)?;
        }
        for Settling { queue, tokens, settlement } in &self.settlements {
            queue.check_there()?;
            let settled = &state.queues[queue.place];
            settled.check_held(now, tokens)?;
            let is_again = |token: &&LockToken| !seen.insert((queue.place, token.sequence_number));
            if let Some(token) = tokens.iter().find(is_again) {
                return Err(settled.why_lost(now, token, None));
            }
            if !matches!(settlement, Settlement::Complete) {
                *bytes += settled.bytes_of(tokens);
            }
            if settlement.adds_much() {
                growth += settled.growth(tokens, settlement)?;
            }
        }
        let sending = match self.sends_to {
            None => Sending::default(),
            Some(queue) => {
                queue.check_there()?;
                queue.check_sending(state)?;
                Sending {
                    messages: state.admit(now, &self.messages)?,
                    scheduled: state.admit(now, &self.scheduled)?,
                }
            }
        };
        let more = sending.messages.bytes + sending.scheduled.bytes + growth;
        *bytes += more;
        if more > 0 {
            state.check_room(more)?;
        }
        Ok(sending)
    }

    /// Does what was checked.
    fn apply(&self, state: &mut EntityState, now: i64, sending: Sending) {
        for Removal { queue, sequence_numbers, .. } in &self.removals {
            let EntityState { queues, effects, .. } = state;
            queues[queue.place].used_at = now;
            queues[queue.place].remove_all(sequence_numbers, effects);
        }
        for SessionState { queue, session_id, session_state } in &self.session_states {
            let EntityState { queues, effects, .. } = state;
            queues[queue.place].used_at = now;
            queues[queue.place].set_session_state(now, session_id, *session_state, effects);
        }
        for Settling { queue, tokens, settlement } in &self.settlements {
            let mut refused = Vec::new();
            let EntityState { queues, effects, .. } = state;
            queues[queue.place].used_at = now;
            queues[queue.place].settle(now, tokens, settlement, effects, &mut refused);
            debug_assert!(refused.is_empty(), "the locks were looked at");
        }
        if let Some(queue) = self.sends_to {
            state.queues[queue.place].used_at = now;
            state.send_admitted(now, &self.messages, sending.messages, Numbers::Unwanted);
            let numbers = Numbers::Reserved(&self.reserved);
            state.send_admitted(now, &self.scheduled, sending.scheduled, numbers);
        }
    }
}

impl EntityState {
    /// Notes that what follows is the part of this transaction.
    fn note_applied(&mut self, transaction: u64) {
        if let Some(journal) = &mut self.journal {
            journal.apply(transaction, &mut self.effects.changes);
        }
    }
}
