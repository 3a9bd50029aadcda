//! What queues and topics have in common: some queues behind one lock, one size limit, one journal.
//!
//! ```text
//!  queue   0: its messages     1: dead letters   2: transfer dead letters
//!  topic   0: what is scheduled               1, 2: nothing
//!          3: first subscription   4: its dead letters   5: its transfer dead letters
//!          6: second subscription  …
//! ```
//!
//! One lock is what makes a batch go to all subscriptions or to none, and a message be either in its queue or in the
//! dead-letter queue. Each operation first does what is due, then its own work, then moves dead letters and scheduled
//! messages to where they belong, and is written to the journal as one batch.

use super::changes::Effects;
use super::deadlines::Deadlines;
use super::error::QueueError;
use super::history::History;
use super::journal::Journal;
use super::ledger::Policy;
use super::options::{EntityStatus, QueueOptions};
use super::page::{NEVER, Stage};
use super::state::{QueueState, milliseconds};
use super::subscription_rules::SubscriptionRules;
use partition_log::UnixTime;
use partition_log::disk::{CommitNumber, Unavailable};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// A queue or a topic with everything in it.
#[derive(Debug)]
pub(super) struct Entity {
    state: Mutex<EntityState>,
    deadlines: Arc<Deadlines>,
    pub(super) status: EntityStatus,
    /// Whether the forwarder is waiting for notifications.
    pub(super) notifies_forwarder: AtomicBool,
}

/// What the lock of an entity guards.
#[derive(Debug)]
pub(super) struct EntityState {
    pub(super) queues: Vec<QueueState>,
    /// The rules of a topic's subscriptions.
    pub(super) rules: Vec<SubscriptionRules>,
    pub(super) is_topic: bool,
    pub(super) size_limit: u64,
    pub(super) effects: Effects,
    /// What makes it durable, if anything does.
    pub(super) journal: Option<Journal>,
    /// What is answered now is true only if what was written before is.
    pub(super) relies_on_earlier: bool,
    /// The latest time that was given.
    now: i64,
    next_deadline: i64,
}

impl Entity {
    pub(super) fn new(state: EntityState, status: EntityStatus, deadlines: Arc<Deadlines>) -> Arc<Self> {
        Arc::new(Self {
            state: Mutex::new(state),
            deadlines,
            status,
            notifies_forwarder: AtomicBool::new(true),
        })
    }

    /// Does what is due, then `work`, and makes it whole. The commit is that of all of it.
    pub(super) fn operate<R>(
        &self,
        now: UnixTime,
        work: impl FnOnce(&mut EntityState, i64) -> Result<R, QueueError>,
    ) -> Result<(R, CommitNumber), QueueError> {
        let mut guard = self.lock();
        let state = &mut *guard;
        let now = state.begin(now);
        if let Some(reason) = state.unavailable() {
            return Err(reason.into());
        }
        if state.next_deadline <= now {
            state.sweep(now, &mut { SWEEP_BUDGET });
            state.place_evicted(now);
        }
        let result = work(state, now);
        state.complete(now);
        let commit = state.write(now);
        let wakers = std::mem::take(&mut state.effects.wakers);
        let mut next_deadline = state.next_deadline;
        if state.has_something_to_forward() && self.notifies_forwarder.load(Ordering::Relaxed) {
            next_deadline = now;
        }
        drop(guard);
        wakers.wake();
        self.deadlines.note(next_deadline);
        Ok((result?, commit?))
    }

    /// Does what is due, all of it. When something is due next.
    pub(super) fn advance(&self, now: UnixTime) -> i64 {
        loop {
            let mut guard = self.lock();
            let state = &mut *guard;
            let now = state.begin(now);
            if state.unavailable().is_some() {
                return now.saturating_add(RETRY_MS);
            }
            let is_due = state.next_deadline <= now;
            if is_due {
                state.sweep(now, &mut { ADVANCE_BUDGET });
                state.complete(now);
                // What can't be written now is written with what comes next.
                let _ = state.write(now);
            }
            let wakers = std::mem::take(&mut state.effects.wakers);
            let next_deadline = state.next_deadline;
            drop(guard);
            wakers.wake();
            if !is_due || next_deadline > now {
                return next_deadline;
            }
        }
    }

    /// The state as it is, for looking.
    pub(super) fn lock(&self) -> MutexGuard<'_, EntityState> {
        // Nothing of a caller's runs in locked sections.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl EntityState {
    /// An entity with the queues of these options, and what belongs to each of them. A topic has the rules of its
    /// subscriptions, a queue none.
    pub(super) fn new(
        queues: Vec<(QueueOptions, Arc<str>)>,
        is_topic: bool,
        rules: Vec<SubscriptionRules>,
        size_limit: u64,
    ) -> Self {
        let mut states = Vec::with_capacity(queues.len() * QUEUES_OF_ONE);
        for (options, name) in &queues {
            let mut add = |policy: Policy, window: Option<i64>| {
                let queue = states.len() as u32;
                let history = window.map(History::new);
                states.push(QueueState::new(queue, policy, history));
            };
            let policy = Policy::of(options);
            add(policy, options.duplicate_detection.map(milliseconds));
            let forwards = options.forward_dead_lettered_messages_to.is_some();
            add(Policy::of_dead_letters(options, name, forwards), None);
            add(Policy::of_dead_letters(options, name, false), None);
        }
        Self {
            queues: states,
            rules,
            is_topic,
            size_limit,
            effects: Effects::new(false),
            journal: None,
            relies_on_earlier: false,
            now: i64::MIN,
            next_deadline: NEVER,
        }
    }

    /// What all messages count towards the size limit. What is scheduled in a topic counts as the copies that are to be.
    pub(super) fn bytes(&self) -> u64 {
        let there: u64 = self.queues.iter().map(|queue| queue.ledger.bytes()).sum();
        there + self.queues[0].ledger.message_bytes() * (self.copies() - 1)
    }

    /// How many copies there will be of a message that waits in here, if each subscription takes one.
    pub(super) fn copies(&self) -> u64 {
        (self.rules.len() as u64).max(1)
    }

    /// Makes it durable, from now on.
    pub(super) fn keep_in(&mut self, journal: Journal) {
        self.journal = Some(journal);
        self.effects = Effects::new(true);
        self.next_deadline = self.queues.iter().map(QueueState::next_deadline).min().unwrap_or(NEVER);
    }

    /// Why nothing can be done at present, if it can't.
    fn unavailable(&self) -> Option<Unavailable> {
        self.journal.as_ref()?.unavailable()
    }

    /// Writes what was done to the journal, if there is one.
    fn write(&mut self, now: i64) -> Result<CommitNumber, QueueError> {
        let relies_on_earlier = std::mem::take(&mut self.relies_on_earlier);
        let Some(journal) = &mut self.journal else {
            return Ok(CommitNumber::DONE);
        };
        let commit = journal.write(now, &mut self.queues, &self.rules, &mut self.effects.changes)?;
        if journal.is_untidy() {
            self.next_deadline = self.next_deadline.min(now.saturating_add(TIDY_MS));
        }
        Ok(match relies_on_earlier {
            true => journal.last_commit(),
            false => commit,
        })
    }

    /// Whether messages wait that go on to another entity.
    fn has_something_to_forward(&self) -> bool {
        self.queues.iter().any(|queue| queue.ledger.policy.forwards && queue.ledger.count(Stage::Ready) > 0)
    }

    /// When something is due next.
    pub(super) fn next_deadline(&self) -> i64 {
        self.next_deadline
    }

    /// Time does not go back.
    fn begin(&mut self, now: UnixTime) -> i64 {
        self.now = self.now.max(now.milliseconds());
        self.now
    }

    fn sweep(&mut self, now: i64, budget: &mut usize) {
        for queue in &mut self.queues {
            queue.sweep(now, budget, &mut self.effects);
        }
    }

    /// Moves what has left its queue to where it belongs.
    fn place_evicted(&mut self, now: i64) {
        if !self.effects.due.is_empty() {
            let mut due = std::mem::take(&mut self.effects.due);
            for evicted in due.drain(..) {
                match self.is_topic {
                    true => self.distribute_due(now, &evicted),
                    false => {
                        let queue = &mut self.queues[evicted.queue as usize];
                        queue.add_due(now, &evicted, &mut self.effects);
                    }
                }
            }
            self.effects.due = due;
        }
        if !self.effects.dead_letters.is_empty() {
            let mut dead_letters = std::mem::take(&mut self.effects.dead_letters);
            for evicted in dead_letters.drain(..) {
                let queue = &mut self.queues[evicted.to as usize];
                queue.add_dead_letter(&evicted, &mut self.effects);
            }
            self.effects.dead_letters = dead_letters;
        }
    }

    /// Makes what was done whole, and tells who waits.
    fn complete(&mut self, now: i64) {
        self.place_evicted(now);
        self.next_deadline = NEVER;
        for queue in &mut self.queues {
            queue.ledger.wake_waiters(&mut self.effects);
            self.next_deadline = self.next_deadline.min(queue.next_deadline());
        }
    }
}

impl Policy {
    fn of(options: &QueueOptions) -> Self {
        Self {
            lock_duration: milliseconds(options.lock_duration),
            maximum_delivery_count: options.maximum_delivery_count,
            time_to_live: options.default_time_to_live.map_or(NEVER, milliseconds),
            dead_letters_expired: options.dead_lettering_on_expiration,
            requires_session: options.requires_session,
            dead_letter_source: None,
            forwards: options.forward_to.is_some(),
        }
    }

    /// Dead letters stay until somebody settles them.
    fn of_dead_letters(options: &QueueOptions, source: &Arc<str>, forwards: bool) -> Self {
        Self {
            lock_duration: milliseconds(options.lock_duration),
            maximum_delivery_count: u32::MAX,
            time_to_live: NEVER,
            dead_letters_expired: false,
            requires_session: false,
            dead_letter_source: Some(Arc::clone(source)),
            forwards,
        }
    }
}

/// A queue, its dead letters, its transfer dead letters.
pub(super) const QUEUES_OF_ONE: usize = 3;

/// Where the dead letters of a queue are, from its own place on.
pub(super) const DEAD_LETTERS: usize = 1;

/// Where those of its messages are that could not be forwarded.
pub(super) const TRANSFER_DEAD_LETTERS: usize = 2;

/// Pages that an operation looks at because something in them may be due: some ten microseconds.
const SWEEP_BUDGET: usize = 16;

/// Pages that are looked at between two operations of others.
const ADVANCE_BUDGET: usize = 256;

/// When an entity is looked at again whose journal can be made shorter soon.
const TIDY_MS: i64 = 1_000;

/// When an entity is looked at again whose disk does not take what is written.
const RETRY_MS: i64 = 1_000;
