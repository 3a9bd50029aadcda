//! Requests to `$management` within a transaction.
//!
//! | request | at once | when it is committed |
//! |---|---|---|
//! | schedule | the messages get their numbers | they are scheduled |
//! | cancel; delete | whether the messages are there | they are removed |
//! | set the state of a session | whether it is locked | it is set |
//! | receive deferred, and delete | the messages are locked, and given to the client | they are deleted; after a rollback they are free |
//! | receive deferred, and lock; renew locks | as without a transaction: locks are not part of it | |
//!
//! Requests that only read are answered as without a transaction.

use std::sync::Arc;
use std::time::SystemTime;

use amqp::performative::{Error, ErrorCondition};
use bytes::Bytes;

use super::super::conditions;
use super::super::settle::Decision;
use super::{Enlisting, ITEM_BYTES, PendingSettlement, SETTLED_MAX, TransactionWork, entity_of};
use partition_log::UnixTime;
use queue_store::{DeleteRequest, Entity, LockToken, NewMessage, Queue, QueueError, Settlement, Work};

/// Messages that are scheduled.
#[derive(Debug)]
pub(super) struct PendingSchedule {
    entity: Entity,
    /// As the client encoded them.
    pub(super) messages: Vec<Bytes>,
    sequence_numbers: Vec<u64>,
}

/// Scheduled messages that are cancelled.
#[derive(Debug)]
pub(super) struct Cancellation {
    entity: Entity,
    sequence_numbers: Vec<u64>,
}

/// Available messages that are deleted.
#[derive(Debug)]
pub(super) struct Deletion {
    queue: Arc<Queue>,
    sequence_numbers: Vec<u64>,
}

/// The state that a session gets.
#[derive(Debug)]
pub(super) struct PendingSessionState {
    queue: Arc<Queue>,
    session_id: String,
    session_state: Option<Vec<u8>>,
}

/// Messages locked for a transaction, and released if it is rolled back.
#[derive(Debug)]
pub(super) struct HeldMessages {
    queue: Arc<Queue>,
    tokens: Vec<LockToken>,
}

impl TransactionWork {
    /// Adds messages to schedule, each beside its bytes, and returns their sequence numbers.
    ///
    /// # Errors
    /// They can't be part of the transaction, which can't be committed then.
    pub(in super::super) fn schedule(
        &mut self,
        entity: &Entity,
        enlisting: Enlisting,
        now: UnixTime,
        (messages, encoded): (&[NewMessage<'_>], &[&[u8]]),
    ) -> Result<Vec<u64>, Error> {
        let taken = self.check_messages(messages.len()).and_then(|()| {
            self.enlist_sending(entity.name(), enlisting)?;
            entity.reserve(now, messages).map_err(|error| conditions::error_of(&error))
        });
        let sequence_numbers = taken.inspect_err(|error| self.refuse(error))?;
        self.messages += messages.len();
        self.bytes += encoded.iter().map(|message| message.len() + ITEM_BYTES).sum::<usize>();
        self.schedules.push(PendingSchedule {
            entity: entity.clone(),
            messages: encoded.iter().map(|message| Bytes::copy_from_slice(message)).collect(),
            sequence_numbers: sequence_numbers.clone(),
        });
        Ok(sequence_numbers)
    }

    /// Adds the cancellation of scheduled messages. Those that the transaction itself schedules are left out of it.
    ///
    /// # Errors
    /// As [`schedule`](Self::schedule).
    pub(in super::super) fn cancel(
        &mut self,
        entity: &Entity,
        enlisting: Enlisting,
        now: UnixTime,
        sequence_numbers: &[u64],
    ) -> Result<(), Error> {
        let taken = self.enlist_sending(entity.name(), enlisting).and_then(|()| {
            let check = self.take_cancellation(entity, now, sequence_numbers);
            check.map_err(|error| conditions::error_of(&error))
        });
        taken.inspect_err(|error| self.refuse(error))
    }

    fn take_cancellation(
        &mut self,
        entity: &Entity,
        now: UnixTime,
        sequence_numbers: &[u64],
    ) -> Result<(), QueueError> {
        let is_same = |other: &Entity| other.name() == entity.name();
        let own = |number: &u64| {
            let mut schedules = self.schedules.iter().filter(|schedule| is_same(&schedule.entity));
            schedules.any(|schedule| schedule.sequence_numbers.contains(number))
        };
        let (own, others): (Vec<u64>, Vec<u64>) = sequence_numbers.iter().copied().partition(own);
        entity.check_scheduled(now, &others)?;
        let cancelled = self.cancellations.iter().filter(|cancelled| is_same(&cancelled.entity));
        for cancelled in cancelled {
            let again = others.iter().find(|number| cancelled.sequence_numbers.contains(number));
            if let Some(&sequence_number) = again {
                return Err(QueueError::MessageNotFound { sequence_number });
            }
        }
        for schedule in self.schedules.iter_mut().filter(|schedule| is_same(&schedule.entity)) {
            schedule.forget(&own);
        }
        if !others.is_empty() {
            self.bytes += others.len() * size_of::<u64>() + ITEM_BYTES;
            self.cancellations.push(Cancellation { entity: entity.clone(), sequence_numbers: others });
        }
        Ok(())
    }

    /// Adds the deletion of available messages, and returns their number.
    ///
    /// # Errors
    /// As [`schedule`](Self::schedule).
    pub(in super::super) fn delete(
        &mut self,
        queue: &Arc<Queue>,
        now: UnixTime,
        request: &DeleteRequest<'_>,
    ) -> Result<usize, Error> {
        let before: Vec<u64> = self
            .deletions
            .iter()
            .filter(|deletion| Arc::ptr_eq(&deletion.queue, queue))
            .flat_map(|deletion| deletion.sequence_numbers.iter().copied())
            .collect();
        let request = DeleteRequest { messages: request.messages.saturating_add(before.len()), ..*request };
        let taken = self
            .enlist(entity_of(queue))
            .and_then(|()| queue.deletable(now, &request).map_err(|error| conditions::error_of(&error)));
        let mut sequence_numbers = taken.inspect_err(|error| self.refuse(error))?;
        sequence_numbers.retain(|number| !before.contains(number));
        let count = sequence_numbers.len();
        self.bytes += count * size_of::<u64>() + ITEM_BYTES;
        self.deletions.push(Deletion { queue: Arc::clone(queue), sequence_numbers });
        Ok(count)
    }

    /// Adds a new state of a session.
    ///
    /// # Errors
    /// As [`schedule`](Self::schedule).
    pub(in super::super) fn set_session_state(
        &mut self,
        queue: &Arc<Queue>,
        now: UnixTime,
        session_id: &str,
        session_state: Option<&[u8]>,
    ) -> Result<(), Error> {
        let taken = self.enlist(entity_of(queue)).and_then(|()| {
            let check = queue.check_session_state(now, session_id, session_state);
            check.map_err(|error| conditions::error_of(&error))
        });
        taken.inspect_err(|error| self.refuse(error))?;
        self.bytes += session_id.len() + session_state.map_or(0, <[u8]>::len) + ITEM_BYTES;
        self.session_states.retain(|pending| !pending.is_of(queue, session_id));
        self.session_states.push(PendingSessionState {
            queue: Arc::clone(queue),
            session_id: session_id.to_owned(),
            session_state: session_state.map(<[u8]>::to_vec),
        });
        Ok(())
    }

    /// Returns the state that the transaction sets for a session, or `None` if it sets none.
    pub(in super::super) fn session_state(
        &self,
        queue: &Arc<Queue>,
        session_id: &str,
    ) -> Option<Option<&[u8]>> {
        let pending = self.session_states.iter().find(|pending| pending.is_of(queue, session_id));
        pending.map(|pending| pending.session_state.as_deref())
    }

    /// Enlists the entity of a queue from which messages are received.
    ///
    /// # Errors
    /// As [`schedule`](Self::schedule).
    pub(in super::super) fn enlist_receiving(&mut self, queue: &Queue, messages: usize) -> Result<(), Error> {
        let taken = match self.settled_locks.len() + messages > SETTLED_MAX {
            true => {
                let text = format!("Cannot settle more than {SETTLED_MAX} messages in a single transaction.");
                Err(Error::new(ErrorCondition::RESOURCE_LIMIT_EXCEEDED, text))
            }
            false => self.enlist(entity_of(queue)),
        };
        taken.inspect_err(|error| self.refuse(error))
    }

    /// Adds the deletion of messages that were locked for the transaction and returned to the client.
    pub(in super::super) fn delete_received(&mut self, queue: &Arc<Queue>, tokens: Vec<LockToken>) {
        if tokens.is_empty() {
            return;
        }
        self.bytes += 2 * tokens.len() * size_of::<LockToken>() + ITEM_BYTES;
        self.settled_locks.extend(&tokens);
        self.settlements.push(PendingSettlement {
            queue: Arc::clone(queue),
            tokens: tokens.clone(),
            decision: Decision::Complete,
        });
        self.held.push(HeldMessages { queue: Arc::clone(queue), tokens });
    }

    /// Enlists an entity to send to. On the coordinator's own session, any entity is sent to through the one that takes part.
    fn enlist_sending(&mut self, entity: &str, enlisting: Enlisting) -> Result<(), Error> {
        match enlisting {
            Enlisting::InItsSession => Ok(()),
            Enlisting::FromAnother => self.enlist(entity),
        }
    }
}

impl PendingSchedule {
    pub(super) fn work<'a>(&'a self, messages: &'a [NewMessage<'a>]) -> Work<'a> {
        Work::Schedule { entity: &self.entity, messages, sequence_numbers: &self.sequence_numbers }
    }

    /// Removes the messages with these sequence numbers.
    fn forget(&mut self, sequence_numbers: &[u64]) {
        let is_kept = |number: &u64| !sequence_numbers.contains(number);
        let mut kept = self.sequence_numbers.iter().map(is_kept);
        self.messages.retain(|_| kept.next() == Some(true));
        self.sequence_numbers.retain(is_kept);
    }
}

impl Cancellation {
    pub(super) fn work(&self) -> Work<'_> {
        Work::CancelScheduled { entity: &self.entity, sequence_numbers: &self.sequence_numbers }
    }
}

impl Deletion {
    pub(super) fn work(&self) -> Work<'_> {
        Work::Delete { queue: &self.queue, sequence_numbers: &self.sequence_numbers }
    }
}

impl PendingSessionState {
    fn is_of(&self, queue: &Arc<Queue>, session_id: &str) -> bool {
        Arc::ptr_eq(&self.queue, queue) && self.session_id == session_id
    }

    pub(super) fn work(&self) -> Work<'_> {
        Work::SetSessionState {
            queue: &self.queue,
            session_id: &self.session_id,
            session_state: self.session_state.as_deref(),
        }
    }
}

impl HeldMessages {
    /// Drops them without releasing the locks: the messages are deleted.
    pub(super) fn keep(mut self) {
        self.tokens.clear();
    }
}

impl Drop for HeldMessages {
    fn drop(&mut self) {
        if self.tokens.is_empty() {
            return;
        }
        // Not earlier for the queue than what it has seen of its service's clock: time does not go back there.
        let now = UnixTime::from(SystemTime::now());
        if let Err(error) = self.queue.settle(now, &self.tokens, &Settlement::Release) {
            tracing::debug!(%error, "messages of a transaction that came to nothing remain locked");
        }
    }
}
