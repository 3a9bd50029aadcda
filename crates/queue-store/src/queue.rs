//! A queue as its users have it: send, receive, settle, peek.

use super::counters::QueueCounters;
use super::entity::{DEAD_LETTERS, Entity, EntityState, QUEUES_OF_ONE, TRANSFER_DEAD_LETTERS};
use super::error::QueueError;
use super::lock_end::LockEnd;
use super::lock_token::LockToken;
use super::message::{Deliveries, NewMessage};
use super::options::QueueOptions;
use super::page::Stage;
use super::requests::{ReceiveRequest, Settlement};
use super::sending::Numbers;
use super::session_lock::SessionLock;
use super::state::{NEVER_USED, Wanted};
use super::waiter::Waiter;
use super::waiters::Waiters;
use partition_log::Subscriber;
use partition_log::UnixTime;
use partition_log::disk::CommitNumber;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// A queue, the queue of a subscription, or the dead-letter queue of either.
///
/// * Send: [`enqueue`](Self::enqueue), [`schedule`](Self::schedule), [`cancel_scheduled`](Self::cancel_scheduled).
/// * Receive: [`receive`](Self::receive), [`receive_deferred`](Self::receive_deferred); a [`waiter`](Self::waiter) is
///   told when there is something.
/// * Settle: [`settle`](Self::settle), [`renew_locks`](Self::renew_locks).
/// * Sessions: [`accept_session`](Self::accept_session) and what follows it.
/// * Look: [`peek`](Self::peek), [`counts`](Self::counts).
///
/// `now` is the present time; time that goes back counts as standing still. Where a [`CommitNumber`] is returned, the
/// peer may be told of success as soon as that is done.
#[derive(Debug)]
pub struct Queue {
    pub(super) entity: Arc<Entity>,
    /// Its place within the entity.
    pub(super) place: usize,
    pub(super) name: Arc<str>,
    pub(super) role: Role,
    /// It is no more. Set under the lock of the entity, so that what is done under it is exact.
    is_deleted: AtomicBool,
    pub(super) dead_letters: Option<Arc<Self>>,
    pub(super) transfer_dead_letters: Option<Arc<Self>>,
}

/// What a queue is there for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Role {
    /// Messages are sent to it.
    Queue,
    /// It gets messages from a topic.
    Subscription,
    /// It gets what another one gives up.
    DeadLetters,
}

/// What sending achieved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Enqueued {
    /// Messages that wait now.
    pub count: usize,
    /// Messages that were sent before, and were dropped.
    pub duplicates: usize,
    /// What the sender's acknowledgement has to wait for.
    pub commit: CommitNumber,
}

/// What scheduling achieved.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Scheduled {
    /// A number for each message, in their order, by which it can be cancelled.
    pub sequence_numbers: Vec<u64>,
    /// What the answer has to wait for.
    pub commit: CommitNumber,
}

/// What settling achieved.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settled {
    /// How many messages were settled.
    pub count: usize,
    /// The others, in the order of the call: their locks are over, or never were.
    pub refused: Vec<LockToken>,
    /// What the answer for those that were settled has to wait for.
    pub commit: CommitNumber,
}

/// How many messages there are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct QueueCounts {
    /// Available or locked.
    pub active: u64,
    /// Those of the active ones that are locked by a receiver.
    pub locked: u64,
    /// Put aside.
    pub deferred: u64,
    /// Not available before their time.
    pub scheduled: u64,
    /// In the dead-letter queue.
    pub dead_letters: u64,
    /// In the dead-letter queue for what can't be forwarded.
    pub transfer_dead_letters: u64,
    /// What they all count towards the size limit, dead letters and states of sessions included; of a subscription,
    /// without the topic's other subscriptions.
    pub bytes: u64,
}

impl Queue {
    /// Its name: `orders`, `topic/Subscriptions/name`, `orders/$DeadLetterQueue`.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its options; a dead-letter queue has those of its queue as far as they apply to it.
    #[must_use]
    pub fn options(&self) -> Arc<QueueOptions> {
        Arc::clone(&self.entity.lock().queues[self.place].options)
    }

    /// Whether it was deleted. Whoever holds it gets [`Deleted`](QueueError::Deleted) from then on.
    #[must_use]
    pub fn is_deleted(&self) -> bool {
        self.is_deleted.load(Ordering::Relaxed)
    }

    /// When a client last sent to it, received from it or looked at its messages; `None` if none ever did. Somebody who waits for a
    /// message uses it now.
    #[must_use]
    pub fn used_at(&self, now: UnixTime) -> Option<UnixTime> {
        self.look(|state| {
            let queues = &state.queues[self.place..];
            let own = &queues[..queues.len().min(QUEUES_OF_ONE)];
            if own.iter().any(|queue| queue.ledger.waiters.is_anyone_waiting()) {
                return Some(now);
            }
            let used_at = own.iter().map(|queue| queue.used_at).max();
            used_at.filter(|at| *at != NEVER_USED).map(UnixTime::from_milliseconds)
        })
    }

    /// Where its dead letters are; `None` if it is a dead-letter queue itself.
    #[must_use]
    pub fn dead_letters(&self) -> Option<&Arc<Self>> {
        self.dead_letters.as_ref()
    }

    /// Where messages are that never can be forwarded; those that can't be at present wait where they are.
    #[must_use]
    pub fn transfer_dead_letters(&self) -> Option<&Arc<Self>> {
        self.transfer_dead_letters.as_ref()
    }

    /// Sends messages: all of them, or none if there is an error. Those whose scheduled time lies ahead are scheduled.
    ///
    /// # Errors
    /// [`Full`](QueueError::Full), [`TooLong`](QueueError::TooLong),
    /// [`SessionIdMissing`](QueueError::SessionIdMissing), [`SendingNotAllowed`](QueueError::SendingNotAllowed),
    /// [`Disabled`](QueueError::Disabled) or [`Unavailable`](QueueError::Unavailable).
    pub fn enqueue(&self, now: UnixTime, messages: &[NewMessage<'_>]) -> Result<Enqueued, QueueError> {
        let (sent, commit) = self.operate(now, |state, now| {
            self.check_sending(state)?;
            state.send(now, messages, Numbers::Unwanted)
        })?;
        Ok(Enqueued { count: sent.count, duplicates: sent.duplicates, commit })
    }

    /// As [`enqueue`](Self::enqueue), and tells the numbers. A duplicate gets the number of the message before it.
    ///
    /// # Errors
    /// As [`enqueue`](Self::enqueue).
    pub fn schedule(&self, now: UnixTime, messages: &[NewMessage<'_>]) -> Result<Scheduled, QueueError> {
        let mut sequence_numbers = Vec::with_capacity(messages.len());
        let (_sent, commit) = self.operate(now, |state, now| {
            self.check_sending(state)?;
            state.send(now, messages, Numbers::Told(&mut sequence_numbers))
        })?;
        Ok(Scheduled { sequence_numbers, commit })
    }

    /// Reserves sequence numbers for messages that a transaction [schedules](super::Work::Schedule). Numbers of messages that are never
    /// scheduled stay unused.
    ///
    /// # Errors
    /// As [`enqueue`](Self::enqueue).
    pub fn reserve(&self, now: UnixTime, messages: &[NewMessage<'_>]) -> Result<Vec<u64>, QueueError> {
        let (numbers, _commit) = self.operate(now, |state, now| {
            self.check_sending(state)?;
            state.reserve(now, messages)
        })?;
        Ok(numbers)
    }

    /// Checks that all of these messages are scheduled and none is named twice.
    ///
    /// # Errors
    /// [`MessageNotFound`](QueueError::MessageNotFound).
    pub fn check_scheduled(&self, now: UnixTime, sequence_numbers: &[u64]) -> Result<(), QueueError> {
        let ((), _commit) = self.operate(now, |state, _now| {
            state.queues[self.place].check_stage(sequence_numbers, Stage::Scheduled)
        })?;
        Ok(())
    }

    /// Removes scheduled messages: all of them, or none if there is an error.
    ///
    /// # Errors
    /// [`MessageNotFound`](QueueError::MessageNotFound): one of them is not scheduled (any more).
    pub fn cancel_scheduled(
        &self,
        now: UnixTime,
        sequence_numbers: &[u64],
    ) -> Result<CommitNumber, QueueError> {
        let ((), commit) = self.operate(now, |state, _now| {
            state.queues[self.place].cancel_scheduled(sequence_numbers, &mut state.effects)
        })?;
        Ok(commit)
    }

    /// Adds available messages to `deliveries`, oldest first. The commit is that of removing them, if they are received
    /// and deleted.
    ///
    /// # Errors
    /// [`SessionRequired`](QueueError::SessionRequired), [`NoSessions`](QueueError::NoSessions),
    /// [`SessionLockLost`](QueueError::SessionLockLost), [`ReceivingNotAllowed`](QueueError::ReceivingNotAllowed),
    /// [`Disabled`](QueueError::Disabled) or [`Unavailable`](QueueError::Unavailable).
    pub fn receive(
        &self,
        now: UnixTime,
        request: &ReceiveRequest<'_>,
        deliveries: &mut Deliveries,
    ) -> Result<CommitNumber, QueueError> {
        let wanted = Wanted::of(request);
        let ((), commit) = self.operate(now, |state, now| {
            self.check_receiving(state)?;
            let session = self.session(state, now, request)?;
            let EntityState { queues, effects, .. } = state;
            let queue = &mut queues[self.place];
            match session {
                None => queue.receive(now, wanted, deliveries, effects),
                Some(session) => {
                    queue.receive_in_session(now, session, wanted, deliveries, effects);
                }
            }
            Ok(())
        })?;
        Ok(commit)
    }

    /// Adds deferred messages to `deliveries`: all of these, or none if there is an error.
    ///
    /// # Errors
    /// [`MessageNotFound`](QueueError::MessageNotFound): one of them is not deferred, or locked, or not of the session;
    /// [`AnswerTooLong`](QueueError::AnswerTooLong): they are more than one, and more bytes than `request` allows; and
    /// as [`receive`](Self::receive).
    pub fn receive_deferred(
        &self,
        now: UnixTime,
        sequence_numbers: &[u64],
        request: &ReceiveRequest<'_>,
        deliveries: &mut Deliveries,
    ) -> Result<CommitNumber, QueueError> {
        let wanted = Wanted::of(request);
        let ((), commit) = self.operate(now, |state, now| {
            self.check_receiving(state)?;
            let session = self.session(state, now, request)?;
            let EntityState { queues, effects, .. } = state;
            queues[self.place].receive_deferred(now, session, sequence_numbers, wanted, deliveries, effects)
        })?;
        Ok(commit)
    }

    /// Settles locked messages, each by itself: a lock that is lost makes no difference to the others. Tokens in
    /// ascending order of their numbers cost least. [`why_lost`](Self::why_lost) returns the error of a lost lock.
    ///
    /// # Errors
    /// Nothing was settled: [`Unavailable`](QueueError::Unavailable), or the properties that were to be set are too much,
    /// [`PropertiesTooLong`](QueueError::PropertiesTooLong) for a message or [`Full`](QueueError::Full) for the entity.
    pub fn settle(
        &self,
        now: UnixTime,
        tokens: &[LockToken],
        settlement: &Settlement<'_>,
    ) -> Result<Settled, QueueError> {
        let mut refused = Vec::new();
        let (count, commit) = self.operate(now, |state, now| {
            if settlement.adds_much() {
                state.check_room(state.queues[self.place].growth(tokens, settlement)?)?;
            }
            let EntityState { queues, effects, .. } = state;
            Ok(queues[self.place].settle(now, tokens, settlement, effects, &mut refused))
        })?;
        Ok(Settled { count, refused, commit })
    }

    /// Those of `tokens` that lock no message: their locks are over, or never were.
    #[must_use]
    pub fn lost_locks(&self, now: UnixTime, tokens: &[LockToken]) -> Vec<LockToken> {
        let checked = self.operate(now, |state, now| {
            let queue = &state.queues[self.place];
            let is_lost = |token: &&LockToken| queue.check_held(now, std::slice::from_ref(*token)).is_err();
            Ok(tokens.iter().filter(is_lost).copied().collect())
        });
        // Without the disk nothing can be settled at present.
        checked.map_or_else(|_| tokens.to_vec(), |(lost, _commit)| lost)
    }

    /// Returns the error of a token that locks no message (any more), for the holder of this session lock if it is given:
    /// [`MessageLockLost`](QueueError::MessageLockLost), or [`SessionLockLost`](QueueError::SessionLockLost) if the session
    /// is lost as well.
    #[must_use]
    pub fn why_lost(&self, now: UnixTime, token: &LockToken, session: Option<&SessionLock>) -> QueueError {
        let checked =
            self.operate(now, |state, now| Ok(state.queues[self.place].why_lost(now, token, session)));
        checked.map_or_else(|error| error, |(why, _commit)| why)
    }

    /// Checks that this state may be set for a session, apart from the size of the entity.
    ///
    /// # Errors
    /// As [`set_session_state`](Self::set_session_state).
    pub fn check_session_state(
        &self,
        now: UnixTime,
        session_id: &str,
        session_state: Option<&[u8]>,
    ) -> Result<(), QueueError> {
        let (_growth, _commit) = self.operate(now, |state, now| {
            state.queues[self.place].check_session_state(now, session_id, session_state)
        })?;
        Ok(())
    }

    /// Locks messages for another lock duration from now: until when, for each token in its place, or its error.
    /// Messages of sessions are locked as long as their session is.
    pub fn renew_locks(&self, now: UnixTime, tokens: &[LockToken]) -> Vec<Result<LockEnd, QueueError>> {
        let renewed = self.operate(now, |state, now| Ok(state.queues[self.place].renew(now, tokens)));
        match renewed {
            Ok((renewed, _commit)) => renewed,
            Err(error) => vec![Err(error); tokens.len()],
        }
    }

    /// Locks a session: the one of this name, whether it has messages or not, or the next one that has some available
    /// and is not locked. `None` if there is no such next one: arm a waiter for it.
    ///
    /// # Errors
    /// [`SessionCannotBeLocked`](QueueError::SessionCannotBeLocked), [`NoSessions`](QueueError::NoSessions),
    /// [`ReceivingNotAllowed`](QueueError::ReceivingNotAllowed) or [`Disabled`](QueueError::Disabled).
    pub fn accept_session(
        &self,
        now: UnixTime,
        session_id: Option<&str>,
    ) -> Result<Option<SessionLock>, QueueError> {
        let (lock, _commit) = self.operate(now, |state, now| {
            self.check_receiving(state)?;
            state.queues[self.place].accept_session(now, session_id, &mut state.effects)
        })?;
        Ok(lock)
    }

    /// Lets go of a session, and of the messages locked with it, which counts as no failed delivery.
    pub fn release_session(&self, now: UnixTime, lock: &SessionLock) {
        // Without the disk it ends by itself, later.
        let _ = self.operate(now, |state, _now| {
            state.queues[self.place].release_session(lock, &mut state.effects);
            Ok(())
        });
    }

    /// Locks a session that is locked for another lock duration from now: until when.
    ///
    /// # Errors
    /// [`SessionLockLost`](QueueError::SessionLockLost): nobody has locked it.
    pub fn renew_session_lock(&self, now: UnixTime, session_id: &str) -> Result<LockEnd, QueueError> {
        let (until, _commit) = self.operate(now, |state, now| {
            state.queues[self.place].renew_session(now, session_id, &mut state.effects)
        })?;
        Ok(until)
    }

    /// The state that was set for a session that is locked; `None` if none was.
    ///
    /// # Errors
    /// [`SessionLockLost`](QueueError::SessionLockLost): nobody has locked it.
    pub fn session_state(&self, now: UnixTime, session_id: &str) -> Result<Option<Vec<u8>>, QueueError> {
        let (session_state, _commit) =
            self.operate(now, |state, now| state.queues[self.place].session_state(now, session_id))?;
        Ok(session_state)
    }

    /// Sets the state of a session that is locked, or removes it.
    ///
    /// # Errors
    /// [`SessionLockLost`](QueueError::SessionLockLost): nobody has locked it; [`Full`](QueueError::Full).
    pub fn set_session_state(
        &self,
        now: UnixTime,
        session_id: &str,
        session_state: Option<&[u8]>,
    ) -> Result<CommitNumber, QueueError> {
        let ((), commit) = self.operate(now, |state, now| {
            let growth = state.queues[self.place].check_session_state(now, session_id, session_state)?;
            if growth > 0 {
                state.check_room(growth)?;
            }
            let EntityState { queues, effects, .. } = state;
            queues[self.place].set_session_state(now, session_id, session_state, effects);
            Ok(())
        })?;
        Ok(commit)
    }

    /// The sessions that have messages or a state, in the order of their names: `top` of them after the first `skip`.
    #[must_use]
    pub fn sessions(&self, skip: usize, top: usize) -> Vec<String> {
        self.look(|state| state.queues[self.place].session_names(skip, top))
    }

    /// The sessions that have a state which was set after `after`, in the order of their names: `top` of them after the
    /// first `skip`.
    #[must_use]
    pub fn sessions_by_state(&self, after: UnixTime, skip: usize, top: usize) -> Vec<String> {
        let after = after.milliseconds();
        self.look(|state| state.queues[self.place].names_by_state(after, skip, top))
    }

    /// Adds messages to `deliveries` as they are, whatever their state, in the order of their numbers: up to `messages`
    /// of them and about `bytes`, beginning with the first whose number is at least `from`. Those of one session, if one
    /// is named.
    pub fn peek(
        &self,
        now: UnixTime,
        from: u64,
        messages: usize,
        bytes: usize,
        session_id: Option<&str>,
        deliveries: &mut Deliveries,
    ) {
        // The disk does not matter for looking, so neither does whether it takes what was due.
        let _ = self.operate(now, |_state, _now| Ok(()));
        self.look(|state| state.queues[self.place].peek(from, messages, bytes, session_id, deliveries));
    }

    /// How many messages there are.
    #[must_use]
    pub fn counts(&self) -> QueueCounts {
        self.look(|state| self.counts_of(state))
    }

    fn counts_of(&self, state: &EntityState) -> QueueCounts {
        let ledger = &state.queues[self.place].ledger;
        let locked = ledger.count(Stage::Locked);
        let own = QueueCounts {
            active: ledger.count(Stage::Ready) + locked,
            locked,
            deferred: ledger.count(Stage::Deferred) + ledger.count(Stage::DeferredLocked),
            scheduled: ledger.count(Stage::Scheduled),
            dead_letters: 0,
            transfer_dead_letters: 0,
            bytes: ledger.bytes(),
        };
        if self.role == Role::DeadLetters {
            return own;
        }
        let dead_letters = &state.queues[self.place + DEAD_LETTERS].ledger;
        let transfer = &state.queues[self.place + TRANSFER_DEAD_LETTERS].ledger;
        QueueCounts {
            dead_letters: dead_letters.messages(),
            transfer_dead_letters: transfer.messages(),
            bytes: own.bytes + dead_letters.bytes() + transfer.bytes(),
            ..own
        }
    }

    /// What has become of its messages since the start.
    #[must_use]
    pub fn lifecycle_counters(&self) -> QueueCounters {
        self.look(|state| state.queues[self.place].ledger.counters)
    }

    /// Registers a receiver, which gets `key` reported when what it waits for has come.
    #[must_use]
    pub fn waiter(self: &Arc<Self>, subscriber: &Arc<Subscriber>, key: u64) -> Waiter {
        let slot = self.registered(|waiters| waiters.add(Arc::clone(subscriber), key));
        Waiter::new(Arc::clone(self), slot)
    }

    /// Replaces its options with others that were checked. Does nothing if it was deleted.
    pub(super) fn set_options(&self, now: UnixTime, options: QueueOptions) {
        self.entity.administer(now, |state| {
            if !self.is_deleted() {
                state.set_options(self.place, options);
            }
        });
    }

    /// Marks it and its dead-letter queues as deleted. The lock of the entity is held.
    pub(super) fn mark_deleted(&self) {
        let beside = [&self.dead_letters, &self.transfer_dead_letters];
        for queue in beside.into_iter().flatten().map(|queue| &**queue).chain([self]) {
            queue.is_deleted.store(true, Ordering::Relaxed);
        }
    }

    /// The queue of an entity at `place`, with its dead-letter queues.
    pub(super) fn new(entity: &Arc<Entity>, place: usize, name: &str, role: Role) -> Arc<Self> {
        let beside = |suffix: &str, beside: usize| {
            Some(Arc::new(Self {
                entity: Arc::clone(entity),
                place: place + beside,
                name: format!("{name}{suffix}").into(),
                role: Role::DeadLetters,
                is_deleted: AtomicBool::new(false),
                dead_letters: None,
                transfer_dead_letters: None,
            }))
        };
        Arc::new(Self {
            entity: Arc::clone(entity),
            place,
            name: name.into(),
            dead_letters: beside("/$DeadLetterQueue", DEAD_LETTERS),
            transfer_dead_letters: beside("/$Transfer/$DeadLetterQueue", TRANSFER_DEAD_LETTERS),
            role,
            is_deleted: AtomicBool::new(false),
        })
    }

    /// As [`Entity::operate`], unless it was deleted.
    pub(super) fn operate<R>(
        &self,
        now: UnixTime,
        work: impl FnOnce(&mut EntityState, i64) -> Result<R, QueueError>,
    ) -> Result<(R, CommitNumber), QueueError> {
        self.entity.operate(now, |state, now| {
            self.check_there()?;
            state.queues[self.place].used_at = now;
            work(state, now)
        })
    }

    /// Whether it is still there, which the lock of the entity keeps as it is. If not, its place may be another one's by now.
    ///
    /// # Errors
    /// It was deleted.
    pub(super) fn check_there(&self) -> Result<(), QueueError> {
        match self.is_deleted() {
            true => Err(QueueError::Deleted),
            false => Ok(()),
        }
    }

    /// Looks at the state as it is; at nothing, if it was deleted.
    pub(super) fn look<R: Default>(&self, look: impl FnOnce(&EntityState) -> R) -> R {
        let state = self.entity.lock();
        match self.is_deleted() {
            true => R::default(),
            false => look(&state),
        }
    }

    /// Changes the registered waiters, unless it was deleted.
    pub(super) fn registered<R>(&self, change: impl FnOnce(&mut Waiters) -> R) -> Option<R> {
        let mut state = self.entity.lock();
        (!self.is_deleted()).then(|| change(&mut state.queues[self.place].ledger.waiters))
    }

    /// Whether something is available.
    pub(super) fn has_ready(&self) -> bool {
        self.look(|state| state.queues[self.place].ledger.count(Stage::Ready) > 0)
    }

    pub(super) fn check_sending(&self, state: &EntityState) -> Result<(), QueueError> {
        let status = state.status();
        match self.role {
            Role::Subscription | Role::DeadLetters => Err(QueueError::SendingNotAllowed),
            Role::Queue if !status.may_send() => Err(QueueError::Disabled(status)),
            Role::Queue => Ok(()),
        }
    }

    pub(super) fn check_receiving(&self, state: &EntityState) -> Result<(), QueueError> {
        let policy = &state.queues[self.place].ledger.policy;
        for status in [policy.status, state.status()] {
            if !status.may_receive() {
                return Err(QueueError::Disabled(status));
            }
        }
        // Dead letters that go on can be received as long as they are there.
        match policy.forwards && self.role != Role::DeadLetters {
            true => Err(QueueError::ReceivingNotAllowed),
            false => Ok(()),
        }
    }

    /// The session that is received from, where there are some.
    fn session(
        &self,
        state: &EntityState,
        now: i64,
        request: &ReceiveRequest<'_>,
    ) -> Result<Option<u32>, QueueError> {
        let queue = &state.queues[self.place];
        match (queue.ledger.policy.requires_session, request.session) {
            (false, None) => Ok(None),
            (true, Some(lock)) => queue.session_of(now, lock).map(Some),
            (true, None) => Err(QueueError::SessionRequired),
            (false, Some(_)) => Err(QueueError::NoSessions),
        }
    }
}
