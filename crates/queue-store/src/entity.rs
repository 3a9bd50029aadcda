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
use super::journal::{Journal, TIDY_MS};
use super::ledger::Policy;
use super::options::{EntityStatus, QueueOptions};
use super::page::{NEVER, Stage};
use super::state::{QueueState, milliseconds};
use super::subscription_rules::SubscriptionRules;
use partition_log::disk::{CommitNumber, Unavailable};
use partition_log::{UnixTime, Wakers};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// A queue or a topic with everything in it.
#[derive(Debug)]
pub(super) struct Entity {
    state: Mutex<EntityState>,
    deadlines: Arc<Deadlines>,
    /// Whether the forwarder is waiting for notifications.
    pub(super) notifies_forwarder: AtomicBool,
}

/// What an operation leaves to be told once the lock is released.
#[derive(Debug)]
#[must_use = "the tasks sleep until they are woken"]
pub(super) struct News {
    wakers: Wakers,
    next_deadline: i64,
}

/// What the lock of an entity guards.
#[derive(Debug)]
pub(super) struct EntityState {
    pub(super) queues: Vec<QueueState>,
    /// The rules of a topic's subscriptions, vacant where one was deleted.
    pub(super) rules: Vec<SubscriptionRules>,
    /// How many subscriptions there are.
    subscriptions: u64,
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
    pub(super) fn new(state: EntityState, deadlines: Arc<Deadlines>) -> Arc<Self> {
        Arc::new(Self { state: Mutex::new(state), deadlines, notifies_forwarder: AtomicBool::new(true) })
    }

    /// Does what is due, then `work`, and completes it. An error means that nothing was done. Whether what was done is stored
    /// is for the commit to say.
    pub(super) fn operate<R>(
        &self,
        now: UnixTime,
        work: impl FnOnce(&mut EntityState, i64) -> Result<R, QueueError>,
    ) -> Result<(R, CommitNumber), QueueError> {
        let mut guard = self.lock();
        let state = &mut *guard;
        let now = state.start(now)?;
        let result = work(state, now);
        let (commit, news) = self.finish(state, now);
        drop(guard);
        self.report(news);
        Ok((result?, commit))
    }

    /// Does `work` even if the disk takes nothing at present: what it changes is stored elsewhere already.
    pub(super) fn administer(&self, now: UnixTime, work: impl FnOnce(&mut EntityState)) {
        let mut guard = self.lock();
        let state = &mut *guard;
        let now = state.begin(now);
        work(state);
        let (_commit, news) = self.finish(state, now);
        drop(guard);
        self.report(news);
    }

    /// Makes whole and writes what was done to the state, which is this entity's.
    #[inline]
    pub(super) fn finish(&self, state: &mut EntityState, now: i64) -> (CommitNumber, News) {
        state.complete(now);
        // What the disk does not take now is written with the next change.
        let commit = state.write(now).unwrap_or(CommitNumber::FAILED);
        let wakers = std::mem::take(&mut state.effects.wakers);
        let mut next_deadline = state.next_deadline;
        if state.has_something_to_forward() && self.notifies_forwarder.load(Ordering::Relaxed) {
            next_deadline = now;
        }
        (commit, News { wakers, next_deadline })
    }

    /// Tells everyone who waits, once the state is free again.
    #[inline]
    pub(super) fn report(&self, news: News) {
        news.wakers.wake();
        self.deadlines.note(news.next_deadline);
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
            states.extend(queues_of_one(states.len(), options, name));
        }
        Self {
            queues: states,
            subscriptions: rules.len() as u64,
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
        self.subscriptions.max(1)
    }

    /// Makes it durable, from now on.
    pub(super) fn keep_in(&mut self, journal: Journal) {
        self.journal = Some(journal);
        self.effects = Effects::new(true);
        self.next_deadline = self.queues.iter().map(QueueState::next_deadline).min().unwrap_or(NEVER);
    }

    /// Whether messages may be sent, and whether they may be received, as far as it is about the entity as a whole.
    pub(super) fn status(&self) -> EntityStatus {
        self.queues[0].ledger.policy.status
    }

    /// Adds a subscription, whose path is `path` and for which the journal has `name`. The place of its rules.
    pub(super) fn add_subscription(
        &mut self,
        options: &QueueOptions,
        (path, name): (&Arc<str>, String),
        rules: SubscriptionRules,
    ) -> usize {
        // What is still to be written of the queue that was there must not be taken for news of the one to come.
        let may_reuse = self.effects.changes.list.is_empty();
        let vacant = self.rules.iter().position(SubscriptionRules::is_vacant).filter(|_| may_reuse);
        let place = vacant.unwrap_or(self.rules.len());
        let first = (place + 1) * QUEUES_OF_ONE;
        let states = queues_of_one(first, options, path);
        match vacant {
            Some(place) => {
                self.rules[place] = rules;
                for (vacant, state) in self.queues[first..].iter_mut().zip(states) {
                    *vacant = state;
                }
            }
            None => {
                self.rules.push(rules);
                self.queues.extend(states);
            }
        }
        self.subscriptions += 1;
        if let Some(journal) = &mut self.journal {
            journal.add_subscription(first, name, &mut self.effects.changes);
        }
        place
    }

    /// Removes the subscription whose rules are at `place`, with its messages.
    pub(super) fn remove_subscription(&mut self, place: usize, name: &str) {
        self.rules[place] = SubscriptionRules::vacant();
        self.subscriptions -= 1;
        let first = (place + 1) * QUEUES_OF_ONE;
        for queue in &mut self.queues[first..first + QUEUES_OF_ONE] {
            queue.vacate(&mut self.effects);
        }
        if let Some(journal) = &mut self.journal {
            journal.remove_subscription(name, &mut self.effects.changes);
        }
    }

    /// Removes everything that is in it.
    pub(super) fn retire(&mut self) {
        if let Some(journal) = self.journal.take() {
            journal.retire();
        }
        for queue in &mut self.queues {
            queue.vacate(&mut self.effects);
        }
        self.effects.changes = super::changes::Changes::default();
    }

    /// Gives the queue at `place` and its dead letters these options, and has everyone look who waits there.
    pub(super) fn set_options(&mut self, place: usize, options: QueueOptions) {
        let options = Arc::new(options);
        for beside in 0..QUEUES_OF_ONE {
            let queue = &mut self.queues[place + beside];
            let source = queue.ledger.policy.dead_letter_source.take();
            queue.ledger.policy = Policy::beside(beside, &options, source);
            queue.options = options_beside(beside, &options);
            queue.ledger.waiters.wake_everyone(&mut self.effects.wakers);
        }
        let window = options.duplicate_detection.map(milliseconds);
        if let (Some(history), Some(window)) = (&mut self.queues[place].ledger.history, window) {
            history.set_window(window);
        }
        if place == 0 {
            self.size_limit = options.size_limit.bytes();
            // What holds for a topic holds for its subscriptions.
            for queue in &mut self.queues[QUEUES_OF_ONE..] {
                queue.ledger.waiters.wake_everyone(&mut self.effects.wakers);
            }
        }
    }

    /// What comes before the work of any operation: time does not go back, and what is due is done.
    ///
    /// # Errors
    /// Nothing can be done at present.
    #[inline]
    pub(super) fn start(&mut self, now: UnixTime) -> Result<i64, QueueError> {
        let now = self.begin(now);
        if let Some(reason) = self.unavailable() {
            return Err(reason.into());
        }
        if self.next_deadline <= now {
            self.sweep(now, &mut { SWEEP_BUDGET });
            self.place_evicted(now);
        }
        Ok(now)
    }

    /// Why nothing can be done at present, if it can't.
    fn unavailable(&self) -> Option<Unavailable> {
        self.journal.as_ref()?.unavailable()
    }

    /// Writes what was done to the journal, if there is one.
    pub(super) fn write(&mut self, now: i64) -> Result<CommitNumber, QueueError> {
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
    pub(super) fn complete(&mut self, now: i64) {
        self.place_evicted(now);
        self.next_deadline = NEVER;
        for queue in &mut self.queues {
            queue.ledger.wake_waiters(&mut self.effects);
            self.next_deadline = self.next_deadline.min(queue.next_deadline());
        }
    }
}

/// A queue that is the first of its three at `first`, its dead letters, and those that can't be forwarded.
fn queues_of_one(first: usize, options: &QueueOptions, name: &Arc<str>) -> [QueueState; QUEUES_OF_ONE] {
    let options = Arc::new(options.clone());
    std::array::from_fn(|beside| {
        let window = options.duplicate_detection.filter(|_| beside == 0);
        let source = (beside > 0).then(|| Arc::clone(name));
        QueueState::new(
            (first + beside) as u32,
            Policy::beside(beside, &options, source),
            window.map(milliseconds).map(History::new),
            options_beside(beside, &options),
        )
    })
}

/// What of these options applies to the queue, or to a dead-letter queue of it.
fn options_beside(beside: usize, options: &Arc<QueueOptions>) -> Arc<QueueOptions> {
    if beside == 0 {
        return Arc::clone(options);
    }
    Arc::new(QueueOptions {
        maximum_delivery_count: u32::MAX,
        default_time_to_live: None,
        dead_lettering_on_expiration: false,
        requires_session: false,
        duplicate_detection: None,
        forward_to: None,
        forward_dead_lettered_messages_to: None,
        ..QueueOptions::clone(options)
    })
}

impl QueueState {
    /// Drops what is in it, and has everyone look who waits there.
    fn vacate(&mut self, effects: &mut Effects) {
        self.ledger.waiters.wake_everyone(&mut effects.wakers);
        let policy = Policy { forwards: false, ..self.ledger.policy.clone() };
        *self = Self::new(self.ledger.queue, policy, None, Arc::clone(&self.options));
    }
}

impl Policy {
    /// That of a queue with these options, or of its dead letters, whose source is `source`.
    fn beside(beside: usize, options: &QueueOptions, source: Option<Arc<str>>) -> Self {
        let forwards = beside == DEAD_LETTERS && options.forward_dead_lettered_messages_to.is_some();
        match source {
            None => Self::of(options),
            Some(source) => Self::of_dead_letters(options, source, forwards),
        }
    }

    fn of(options: &QueueOptions) -> Self {
        Self {
            status: options.status,
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
    fn of_dead_letters(options: &QueueOptions, source: Arc<str>, forwards: bool) -> Self {
        Self {
            status: options.status,
            lock_duration: milliseconds(options.lock_duration),
            maximum_delivery_count: u32::MAX,
            time_to_live: NEVER,
            dead_letters_expired: false,
            requires_session: false,
            dead_letter_source: Some(source),
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

/// When an entity is looked at again whose disk does not take what is written.
const RETRY_MS: i64 = 1_000;
