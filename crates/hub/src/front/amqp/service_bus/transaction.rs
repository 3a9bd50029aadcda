//! What a client does in a transaction: kept here until it is committed, when the store does all of it or nothing.
//!
//! What is refused is told at once where it can be known: a message that is none, a lock that is over, an entity that can't take
//! part. Clients may not look at that (the official one for Java does not look at sends), so a transaction of which something was refused
//! can't be committed. The rest is looked at when it is committed. Nothing is locked or stored for a transaction, so there is nothing to
//! undo: messages stay locked as long as their locks last.
//!
//! # Which entities take part
//!
//! As in the service: one, with its dead letters and, if it is a topic, its subscriptions. Messages to others can be sent
//! through it (*send via*): a link says so by a property, and all links of the coordinator's own session do so by themselves,
//! which is how clients enable transactions across entities.

use std::sync::Arc;

use amqp::performative::{DeliveryState, Error, ErrorCondition};
use bytes::Bytes;

use super::address::EntityAddress;
use super::conditions;
use super::enqueue::SendLink;
use super::incoming::{IncomingMessage, MessageError, MessageIds, each_message};
use super::settle::{Decision, answer_to, each_run, lock_lost};
use crate::front::amqp::links::outcomes::{OutcomeAnswer, Proposal};
use partition_log::UnixTime;
use partition_log::disk::CommitNumber;
use queue_store::{Entity, LockToken, NewMessage, Queue, QueueError, QueueStore, Work};

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct TransactionWork {
    sends: Vec<PendingSend>,
    settlements: Vec<PendingSettlement>,
    /// The entity that takes part, by its name.
    entity: Option<String>,
    messages: usize,
    settled: usize,
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
        if self.messages + messages > MESSAGES_MAX {
            let text = format!("Cannot send more than {MESSAGES_MAX} messages in a single transaction.");
            return Err(rejected(Error::new(ErrorCondition::RESOURCE_LIMIT_EXCEEDED, text)));
        }
        if enlisting == Enlisting::FromAnother {
            self.enlist(link.transaction_entity()).map_err(rejected)?;
        }
        self.messages += messages;
        self.bytes += transfer.len() + ITEM_BYTES;
        let transfer = Bytes::copy_from_slice(transfer);
        self.sends.push(PendingSend { entity: link.entity().clone(), format, transfer });
        Ok(())
    }

    /// Takes in what becomes of messages, and gives the locks that are over already.
    ///
    /// # Errors
    /// Why none of it is part of the transaction. If so, or if any lock is over, it can't be committed.
    pub(super) fn settle(
        &mut self,
        queue: &Arc<Queue>,
        now: UnixTime,
        decision: Decision,
        tokens: &[LockToken],
    ) -> Result<Vec<LockToken>, Error> {
        let taken = self.take_settlement(queue, now, decision, tokens);
        match &taken {
            Err(error) => self.refuse(error),
            Ok(lost) if !lost.is_empty() => {
                if let DeliveryState::Rejected(Some(error)) = lock_lost(queue) {
                    self.refuse(&error);
                }
            }
            Ok(_) => {}
        }
        taken
    }

    fn take_settlement(
        &mut self,
        queue: &Arc<Queue>,
        now: UnixTime,
        decision: Decision,
        tokens: &[LockToken],
    ) -> Result<Vec<LockToken>, Error> {
        if self.settled + tokens.len() > SETTLED_MAX {
            let text = format!("Cannot settle more than {SETTLED_MAX} messages in a single transaction.");
            return Err(Error::new(ErrorCondition::RESOURCE_LIMIT_EXCEEDED, text));
        }
        self.enlist(EntityAddress::parse(queue.name()).map_or_else(|| queue.name(), |address| address.name))?;
        let lost = queue.lost_locks(now, tokens);
        let held: Vec<LockToken> = tokens.iter().filter(|token| !lost.contains(token)).copied().collect();
        if !held.is_empty() {
            self.settled += held.len();
            self.bytes += decision.bytes() + held.len() * size_of::<LockToken>() + ITEM_BYTES;
            self.settlements.push(PendingSettlement { queue: Arc::clone(queue), tokens: held, decision });
        }
        Ok(lost)
    }

    /// The same for outcomes of deliveries, each by its id, ascending, and its token. `answer` gets the answers to the receiver, if
    /// it waits for any.
    pub(crate) fn settle_deliveries(
        &mut self,
        queue: &Arc<Queue>,
        now: UnixTime,
        proposal: &Proposal,
        deliveries: &[(u32, LockToken)],
        mut answer: impl FnMut(OutcomeAnswer),
    ) {
        let tokens: Vec<LockToken> = deliveries.iter().map(|(_, token)| *token).collect();
        let settled = self.settle(queue, now, Decision::of(&proposal.state), &tokens);
        if !proposal.wants_answer {
            return;
        }
        let commit = CommitNumber::DONE;
        let ids = deliveries.iter();
        match settled {
            Ok(lost) => {
                each_run(ids.map(|(id, token)| (*id, lost.contains(token))), |first, last, is_lost| {
                    let state = match is_lost {
                        false => answer_to(&proposal.state),
                        true => lock_lost(queue),
                    };
                    answer(OutcomeAnswer { first, last, state, commit });
                })
            }
            Err(error) => each_run(ids.map(|(id, _)| (*id, ())), |first, last, ()| {
                let state = DeliveryState::Rejected(Some(error.clone()));
                answer(OutcomeAnswer { first, last, state, commit });
            }),
        }
    }

    /// Has the store do all of it.
    ///
    /// # Errors
    /// Why nothing of it was done.
    pub(crate) fn commit(self, store: &QueueStore, now: UnixTime) -> Result<CommitNumber, Error> {
        if let Some(error) = self.refused {
            return Err(error);
        }
        let mut ids = MessageIds::new();
        let mut messages: Vec<IncomingMessage<'_>> = Vec::with_capacity(self.messages);
        // Where the messages of each transfer end.
        let mut ends = Vec::with_capacity(self.sends.len());
        for send in &self.sends {
            each_message(send.format, &send.transfer, |message| {
                messages.push(IncomingMessage::parse(message, &mut ids)?);
                Ok::<(), MessageError>(())
            })
            .map_err(|error| Error::new(conditions::message_condition(&error), format!("{error}.")))?;
            ends.push(messages.len());
        }
        let pieces: Vec<[&[u8]; 2]> = messages.iter().map(IncomingMessage::kept).collect();
        let new: Vec<NewMessage<'_>> =
            messages.iter().zip(&pieces).map(|(message, pieces)| message.to_new(pieces)).collect();
        let mut work = Vec::with_capacity(self.sends.len() + self.settlements.len());
        let mut start = 0;
        for (send, end) in self.sends.iter().zip(ends) {
            work.push(Work::Send { entity: &send.entity, messages: &new[start..end] });
            start = end;
        }
        work.extend(self.settlements.iter().map(|pending| Work::Settle {
            queue: &pending.queue,
            tokens: &pending.tokens,
            settlement: pending.decision.settlement(),
        }));
        store.commit(now, &work).map_err(|error: QueueError| conditions::error_of(&error))
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

/// Most messages that a transaction sends, as in the service.
const MESSAGES_MAX: usize = 100;

/// Most messages that it settles. The service states no limit.
const SETTLED_MAX: usize = 4_096;

/// What an operation takes beside its bytes, about.
const ITEM_BYTES: usize = 128;

/// In the service's words.
const SEVERAL_ENTITIES: &str =
    "Local transactions cannot span multiple top-level entities such as queue or topic.";
