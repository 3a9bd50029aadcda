//! The operations of a transaction, kept in memory until it is committed, when the store applies all or none of them.
//!
//! Errors that can be known early are reported at once: an invalid message, an expired lock, an entity that can't take
//! part. Clients may not look at that (the official one for Java does not look at sends), so a transaction of which something was refused
//! can't be committed. The rest is looked at when it is committed. Nothing is stored for a transaction, so there is nothing to
//! undo: messages stay locked as long as their locks last. A delivery whose outcome is part of a transaction is settled when that
//! is committed; until then, and after a rollback, it is as live as before (specification section 4.4.2).
//!
//! Requests to `$management` within a transaction are in `requests`.
//!
//! # Which entities take part
//!
//! As in the service: one, with its dead letters and, if it is a topic, its subscriptions. Messages to others can be sent
//! through it (*send via*): a link says so by a property, and all links of the coordinator's own session do so by themselves,
//! which is how clients enable transactions across entities.

mod requests;

use std::collections::HashSet;
use std::sync::Arc;

use amqp::connection::{LinkId, SessionId};
use amqp::performative::{DeliveryState, Error, ErrorCondition};
use bytes::Bytes;

use super::address::EntityAddress;
use super::conditions;
use super::enqueue::SendLink;
use super::incoming::{IncomingMessage, MessageError, MessageIds, each_message};
use super::settle::{Decision, answer_to, each_run};
use crate::front::amqp::links::outcomes::{OutcomeAnswer, Proposal};
use partition_log::UnixTime;
use partition_log::disk::CommitNumber;
use queue_store::{Entity, LockToken, NewMessage, Queue, QueueError, QueueStore, SessionLock, Work};
use requests::{Cancellation, Deletion, HeldMessages, PendingSchedule, PendingSessionState};

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct TransactionWork {
    sends: Vec<PendingSend>,
    schedules: Vec<PendingSchedule>,
    cancellations: Vec<Cancellation>,
    deletions: Vec<Deletion>,
    session_states: Vec<PendingSessionState>,
    settlements: Vec<PendingSettlement>,
    /// Their lock tokens.
    settled_locks: HashSet<LockToken>,
    /// Outcomes whose deliveries are settled when it is committed.
    taken: Vec<TakenOutcome>,
    /// Locked messages that the client has received already, and that are deleted when it is committed.
    held: Vec<HeldMessages>,
    /// The entity that takes part, by its name.
    entity: Option<String>,
    messages: usize,
    bytes: usize,
    /// Why something that belongs to it was refused.
    refused: Option<Error>,
}

/// How an operation comes into a transaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Enlisting {
    /// By a link of the session that the coordinator's link belongs to.
    InItsSession,
    /// By a link of another one.
    FromAnother,
}

/// A transfer that was accepted.
#[derive(Debug)]
struct PendingSend {
    entity: Entity,
    format: u32,
    transfer: Bytes,
}

/// An accepted outcome of a range of deliveries, as it is reported to the client.
#[derive(Debug)]
pub(crate) struct TakenOutcome {
    pub(crate) link: LinkId,
    pub(crate) session: SessionId,
    pub(crate) first: u32,
    pub(crate) last: u32,
    pub(crate) state: DeliveryState,
}

/// Outcomes that were accepted.
#[derive(Debug)]
struct PendingSettlement {
    queue: Arc<Queue>,
    tokens: Vec<LockToken>,
    decision: Decision,
}

impl TransactionWork {
    /// How much memory it holds, in bytes.
    pub(crate) const fn bytes(&self) -> usize {
        self.bytes
    }

    /// Takes in a transfer, unless it is clear that it can't be sent.
    ///
    /// # Errors
    /// Why it is not part of the transaction, which can't be committed then.
    pub(crate) fn send(
        &mut self,
        link: &SendLink,
        enlisting: Enlisting,
        format: u32,
        transfer: &[u8],
    ) -> Result<(), DeliveryState> {
        let taken = self.take_transfer(link, enlisting, format, transfer);
        if let Err(DeliveryState::Rejected(Some(error))) = &taken {
            self.refuse(error);
        }
        taken
    }

    fn take_transfer(
        &mut self,
        link: &SendLink,
        enlisting: Enlisting,
        format: u32,
        transfer: &[u8],
    ) -> Result<(), DeliveryState> {
        let mut ids = MessageIds::new();
        let mut messages = 0;
        each_message(format, transfer, |message| {
            messages += 1;
            IncomingMessage::parse(message, &mut ids).map(|_| ())
        })
        .map_err(|error: MessageError| conditions::malformed(&error))?;
        let rejected = |error| DeliveryState::Rejected(Some(error));
        self.check_messages(messages).map_err(rejected)?;
        if enlisting == Enlisting::FromAnother {
            self.enlist(link.transaction_entity()).map_err(rejected)?;
        }
        self.messages += messages;
        self.bytes += transfer.len() + ITEM_BYTES;
        let transfer = Bytes::copy_from_slice(transfer);
        self.sends.push(PendingSend { entity: link.entity().clone(), format, transfer });
        Ok(())
    }

    /// Adds settlements, of the holder of this session lock if it is given. Returns the locks that are lost already, with their errors. The
    /// last outcome of a message counts.
    ///
    /// # Errors
    /// None of them is part of the transaction. After an error or a lost lock, it can't be committed.
    pub(super) fn settle(
        &mut self,
        queue: &Arc<Queue>,
        session: Option<&SessionLock>,
        now: UnixTime,
        decision: Decision,
        tokens: &[LockToken],
    ) -> Result<Vec<(LockToken, QueueError)>, Error> {
        let taken = self.take_settlement(queue, now, decision, tokens);
        let lost = taken.inspect_err(|error| self.refuse(error))?;
        let lost: Vec<(LockToken, QueueError)> =
            lost.into_iter().map(|token| (token, queue.why_lost(now, &token, session))).collect();
        if let Some((_, why)) = lost.first() {
            self.refuse(&conditions::error_of(why));
        }
        Ok(lost)
    }

    fn take_settlement(
        &mut self,
        queue: &Arc<Queue>,
        now: UnixTime,
        decision: Decision,
        tokens: &[LockToken],
    ) -> Result<Vec<LockToken>, Error> {
        if self.settled_locks.len() + tokens.len() > SETTLED_MAX {
            let text = format!("Cannot settle more than {SETTLED_MAX} messages in a single transaction.");
            return Err(Error::new(ErrorCondition::RESOURCE_LIMIT_EXCEEDED, text));
        }
        self.enlist(entity_of(queue))?;
        let lost = queue.lost_locks(now, tokens);
        let held: Vec<LockToken> = tokens.iter().filter(|token| !lost.contains(token)).copied().collect();
        if held.iter().any(|token| self.settled_locks.contains(token)) {
            let again: HashSet<&LockToken> = held.iter().collect();
            for pending in self.settlements.iter_mut().filter(|pending| Arc::ptr_eq(&pending.queue, queue)) {
                pending.tokens.retain(|token| !again.contains(token));
            }
        }
        if !held.is_empty() {
            self.settled_locks.extend(&held);
            self.bytes += decision.bytes() + held.len() * size_of::<LockToken>() + ITEM_BYTES;
            self.settlements.push(PendingSettlement { queue: Arc::clone(queue), tokens: held, decision });
        }
        Ok(lost)
    }

    /// The same for outcomes of deliveries, each by its id, ascending, and its token. `answer` gets the answers to the receiver, if
    /// it waits for any.
    pub(crate) fn settle_deliveries(
        &mut self,
        (queue, session): (&Arc<Queue>, Option<&SessionLock>),
        now: UnixTime,
        proposal: &Proposal,
        deliveries: &[(u32, LockToken)],
        mut answer: impl FnMut(OutcomeAnswer),
    ) {
        let tokens: Vec<LockToken> = deliveries.iter().map(|(_, token)| *token).collect();
        let settled = self.settle(queue, session, now, Decision::of(&proposal.state), &tokens);
        if !proposal.wants_answer {
            return;
        }
        let commit = CommitNumber::DONE;
        let ids = deliveries.iter();
        match settled {
            Ok(lost) => {
                let why = |token| lost.iter().find(|(lost, _)| lost == token).map(|(_, why)| *why);
                each_run(ids.map(|(id, token)| (*id, why(token))), |first, last, why| {
                    let state = match &why {
                        None => answer_to(&proposal.state),
                        Some(why) => conditions::rejected(why),
                    };
                    if why.is_none() {
                        let Proposal { link, session, .. } = *proposal;
                        self.taken.push(TakenOutcome { link, session, first, last, state: state.clone() });
                        self.bytes += ITEM_BYTES;
                    }
                    answer(OutcomeAnswer { first, last, state, commit, is_settled: why.is_some() });
                })
            }
            Err(error) => each_run(ids.map(|(id, _)| (*id, ())), |first, last, ()| {
                let state = DeliveryState::Rejected(Some(error.clone()));
                answer(OutcomeAnswer { first, last, state, commit, is_settled: true });
            }),
        }
    }

    /// Removes and returns the outcomes to settle when it is committed.
    pub(crate) fn take_outcomes(&mut self) -> Vec<TakenOutcome> {
        std::mem::take(&mut self.taken)
    }

    /// Has the store do all of it.
    ///
    /// # Errors
    /// Why nothing of it was done.
    pub(crate) fn commit(mut self, store: &QueueStore, now: UnixTime) -> Result<CommitNumber, Error> {
        if let Some(error) = self.refused {
            return Err(error);
        }
        let mut ids = MessageIds::new();
        let mut messages: Vec<IncomingMessage<'_>> = Vec::with_capacity(self.messages);
        let mut parse = |message| {
            messages.push(IncomingMessage::parse(message, &mut ids)?);
            Ok::<usize, MessageError>(messages.len())
        };
        // Where the messages of each transfer, or of each request, end.
        let mut ends = Vec::with_capacity(self.sends.len() + self.schedules.len());
        for send in &self.sends {
            let mut end = 0;
            each_message(send.format, &send.transfer, |message| parse(message).map(|after| end = after))
                .map_err(malformed)?;
            ends.push(end);
        }
        for schedule in &self.schedules {
            let mut end = ends.last().copied().unwrap_or_default();
            for message in &schedule.messages {
                end = parse(&message[..]).map_err(malformed)?;
            }
            ends.push(end);
        }
        let pieces: Vec<[&[u8]; 2]> = messages.iter().map(IncomingMessage::kept).collect();
        let new: Vec<NewMessage<'_>> =
            messages.iter().zip(&pieces).map(|(message, pieces)| message.to_new(pieces)).collect();
        let mut start = 0;
        let mut batches = ends.into_iter().map(|end| &new[std::mem::replace(&mut start, end)..end]);
        let mut work = Vec::with_capacity(self.sends.len() + self.settlements.len());
        for (send, messages) in self.sends.iter().zip(&mut batches) {
            work.push(Work::Send { entity: &send.entity, messages });
        }
        for (schedule, messages) in self.schedules.iter().zip(&mut batches) {
            work.push(schedule.work(messages));
        }
        work.extend(self.cancellations.iter().map(Cancellation::work));
        work.extend(self.deletions.iter().map(Deletion::work));
        work.extend(self.session_states.iter().map(PendingSessionState::work));
        work.extend(self.settlements.iter().map(|pending| Work::Settle {
            queue: &pending.queue,
            tokens: &pending.tokens,
            settlement: pending.decision.settlement(),
        }));
        let committed = store.commit(now, &work).map_err(|error: QueueError| conditions::error_of(&error))?;
        self.held.drain(..).for_each(HeldMessages::keep);
        Ok(committed)
    }

    /// Checks that `more` messages fit into the transaction.
    fn check_messages(&self, more: usize) -> Result<(), Error> {
        match self.messages + more > MESSAGES_MAX {
            false => Ok(()),
            true => {
                let text = format!("Cannot send more than {MESSAGES_MAX} messages in a single transaction.");
                Err(Error::new(ErrorCondition::RESOURCE_LIMIT_EXCEEDED, text))
            }
        }
    }

    fn refuse(&mut self, error: &Error) {
        self.refused.get_or_insert_with(|| error.clone());
    }

    /// Notes that an entity takes part, which is the only one.
    fn enlist(&mut self, entity: &str) -> Result<(), Error> {
        match &self.entity {
            Some(own) if !own.eq_ignore_ascii_case(entity) => {
                Err(Error::new(ErrorCondition::NOT_ALLOWED, SEVERAL_ENTITIES))
            }
            Some(_) => Ok(()),
            None => {
                self.entity = Some(entity.to_owned());
                Ok(())
            }
        }
    }
}

/// Returns the name of the queue or the topic that a queue belongs to.
pub(crate) fn entity_of(queue: &Queue) -> &str {
    EntityAddress::parse(queue.name()).map_or_else(|| queue.name(), |address| address.name)
}

fn malformed(error: MessageError) -> Error {
    Error::new(conditions::message_condition(&error), format!("{error}."))
}

/// Most messages that a transaction sends, as in the service.
const MESSAGES_MAX: usize = 100;

/// Most messages that it settles. The service states no limit.
const SETTLED_MAX: usize = 4_096;

/// What an operation takes beside its bytes, about.
const ITEM_BYTES: usize = 128;

/// In the service's words.
const SEVERAL_ENTITIES: &str =
    "Local transactions cannot span multiple top-level entities such as queue or topic.";
