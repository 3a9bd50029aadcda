//! A queue as its users have it: send, receive, settle, peek.

use super::error::QueueError;
use super::lock_token::LockToken;
use super::message::{Deliveries, NewMessage};
use super::options::QueueOptions;
use super::requests::{ReceiveRequest, Settlement};
use super::session_lock::SessionLock;
use super::waiter::Waiter;
use crate::log::Subscriber;
use crate::log::disk::CommitNumber;
use crate::unix_time::UnixTime;
use std::sync::Arc;

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
    todo: (),
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
    /// What they all count towards the size limit, dead letters and states of sessions included; of a subscription,
    /// without the topic's other subscriptions.
    pub bytes: u64,
}

impl Queue {
    /// Its name: `orders`, `topic/Subscriptions/name`, `orders/$DeadLetterQueue`.
    #[must_use]
    pub fn name(&self) -> &str {
        todo!()
    }

    /// Its options; a dead-letter queue has those of its queue as far as they apply to it.
    #[must_use]
    pub fn options(&self) -> &QueueOptions {
        todo!()
    }

    /// Where its dead letters are; `None` if it is a dead-letter queue itself.
    #[must_use]
    pub fn dead_letters(&self) -> Option<&Arc<Self>> {
        todo!()
    }

    /// Where messages are that could not be forwarded: always empty, because those wait where they are.
    #[must_use]
    pub fn transfer_dead_letters(&self) -> Option<&Arc<Self>> {
        todo!()
    }

    /// Sends messages: all of them, or none if there is an error. Those whose scheduled time lies ahead are scheduled.
    ///
    /// # Errors
    /// [`Full`](QueueError::Full), [`TooLong`](QueueError::TooLong),
    /// [`SessionIdMissing`](QueueError::SessionIdMissing), [`SendingNotAllowed`](QueueError::SendingNotAllowed),
    /// [`Disabled`](QueueError::Disabled) or [`Unavailable`](QueueError::Unavailable).
    pub fn enqueue(
        &self,
        now: UnixTime,
        messages: &[NewMessage<'_>],
    ) -> Result<Enqueued, QueueError> {
        todo!("{now} {messages:?}")
    }

    /// As [`enqueue`](Self::enqueue), and tells the numbers. A duplicate gets the number of the message before it.
    ///
    /// # Errors
    /// As [`enqueue`](Self::enqueue).
    pub fn schedule(
        &self,
        now: UnixTime,
        messages: &[NewMessage<'_>],
    ) -> Result<Scheduled, QueueError> {
        todo!("{now} {messages:?}")
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
        todo!("{now} {sequence_numbers:?}")
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
        todo!("{now} {request:?} {deliveries:?}")
    }

    /// Adds deferred messages to `deliveries`: all of these, or none if there is an error. The limits of `request` don't
    /// matter.
    ///
    /// # Errors
    /// [`MessageNotFound`](QueueError::MessageNotFound): one of them is not deferred, or locked, or not of the
    /// session; and as [`receive`](Self::receive).
    pub fn receive_deferred(
        &self,
        now: UnixTime,
        sequence_numbers: &[u64],
        request: &ReceiveRequest<'_>,
        deliveries: &mut Deliveries,
    ) -> Result<CommitNumber, QueueError> {
        todo!("{now} {sequence_numbers:?} {request:?} {deliveries:?}")
    }

    /// Settles locked messages, each by itself: a lock that is lost makes no difference to the others. Tokens in
    /// ascending order of their numbers cost least. A lost lock is [`MessageLockLost`](QueueError::MessageLockLost), or
    /// [`SessionLockLost`](QueueError::SessionLockLost) where sessions are required.
    ///
    /// # Errors
    /// [`Unavailable`](QueueError::Unavailable): nothing was settled.
    pub fn settle(
        &self,
        now: UnixTime,
        tokens: &[LockToken],
        settlement: &Settlement<'_>,
    ) -> Result<Settled, QueueError> {
        todo!("{now} {tokens:?} {settlement:?}")
    }

    /// Locks messages for another lock duration from now: until when, for each token in its place, or its error.
    /// Messages of sessions are locked as long as their session is.
    pub fn renew_locks(
        &self,
        now: UnixTime,
        tokens: &[LockToken],
    ) -> Vec<Result<UnixTime, QueueError>> {
        todo!("{now} {tokens:?}")
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
        todo!("{now} {session_id:?}")
    }

    /// Lets go of a session, and of the messages locked with it, which counts as no failed delivery.
    pub fn release_session(&self, now: UnixTime, lock: &SessionLock) {
        todo!("{now} {lock:?}")
    }

    /// Locks a session that is locked for another lock duration from now: until when.
    ///
    /// # Errors
    /// [`SessionLockLost`](QueueError::SessionLockLost): nobody has locked it.
    pub fn renew_session_lock(
        &self,
        now: UnixTime,
        session_id: &str,
    ) -> Result<UnixTime, QueueError> {
        todo!("{now} {session_id:?}")
    }

    /// The state that was set for a session that is locked; `None` if none was.
    ///
    /// # Errors
    /// [`SessionLockLost`](QueueError::SessionLockLost): nobody has locked it.
    pub fn session_state(
        &self,
        now: UnixTime,
        session_id: &str,
    ) -> Result<Option<Vec<u8>>, QueueError> {
        todo!("{now} {session_id:?}")
    }

    /// Sets the state of a session that is locked, or removes it.
    ///
    /// # Errors
    /// [`SessionLockLost`](QueueError::SessionLockLost): nobody has locked it; [`Full`](QueueError::Full).
    pub fn set_session_state(
        &self,
        now: UnixTime,
        session_id: &str,
        state: Option<&[u8]>,
    ) -> Result<CommitNumber, QueueError> {
        todo!("{now} {session_id:?} {state:?}")
    }

    /// The sessions that have messages or a state, in the order of their names: `top` of them after the first `skip`.
    #[must_use]
    pub fn sessions(&self, skip: usize, top: usize) -> Vec<String> {
        todo!("{skip} {top}")
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
        todo!("{now} {from} {messages} {bytes} {session_id:?} {deliveries:?}")
    }

    /// How many messages there are.
    #[must_use]
    pub fn counts(&self) -> QueueCounts {
        todo!()
    }

    /// Registers a receiver, which gets `key` reported when what it waits for has come.
    #[must_use]
    pub fn waiter(self: &Arc<Self>, subscriber: &Arc<Subscriber>, key: u64) -> Waiter {
        todo!("{subscriber:?} {key}")
    }
}
