//! Queues and topics: messages that a client sends to them, outcomes of those that it received, and links that wait for
//! a session.

use std::future::Future as _;
use std::ops::RangeInclusive;
use std::pin::Pin;
use std::task::Context;
use std::time::SystemTime;

use amqp::connection::{Deliveries, LinkId, SessionId};
use amqp::performative::DeliveryState;
use tokio::time::{Instant, Sleep};

use super::answers::{ClientAnswer, Direction, Outcome};
use super::conditions::server_busy;
use super::links::LinkEntry;
use super::node::Node;
use super::shaped::{Breakage, Told, shaped};
use super::{ConnectionTask, TOO_FAST, WAITING_OUTCOMES_MAX, tell, top_up_credit};
use crate::front::amqp::service_bus::{
    AwaitedOutcomes, Held, LockedDelivery, Proposal, ReceiveLink, SettlementAnswer, Settling, Stored,
    unknown_delivery,
};
use crate::front::pending::Until;
use partition_log::UnixTime;
use partition_log::disk::CommitNumber;

/// What a connection has to do for queues and topics, beside what is in its links.
#[derive(Debug, Default)]
pub(super) struct QueueWork {
    /// The deliveries whose outcome has not come.
    pub(super) awaited_outcomes: AwaitedOutcomes,
    settling: Settling,
    /// Deliveries that an outcome is about; emptied at once.
    taken: Vec<(u32, LockedDelivery)>,
    /// When the next link that waits for a session has waited long enough.
    held_deadline: Option<Pin<Box<Sleep>>>,
}

impl ConnectionTask {
    /// Stores a run of messages that came on one link, and tells or keeps their outcomes.
    pub(super) fn on_messages(
        &mut self,
        deliveries: &Deliveries,
        run: RangeInclusive<usize>,
        now: SystemTime,
        answer_at: Option<Instant>,
    ) {
        let items = &deliveries.items()[run];
        let Some(first) = items.first() else {
            return;
        };
        let Some(Some(entry)) = self.links.get_mut(first.link.index()) else {
            return;
        };
        let Node::Send(link) = &entry.node else {
            return;
        };
        let connection = self.driver.connection();
        if entry.waiting_outcomes >= WAITING_OUTCOMES_MAX {
            for delivery in items.iter().filter(|delivery| !delivery.settled) {
                let busy = server_busy(TOO_FAST);
                connection.settle(entry.session, delivery.id, delivery.id, busy);
            }
            return;
        }
        let transfers = items.iter().map(|delivery| (delivery.format, deliveries.message(delivery)));
        let now = UnixTime::from(now);
        let mut ready_at = None;
        let stored = match &mut self.shaper {
            None => link.store(transfers, now),
            Some(shaper) => {
                // Under a profile each message comes by itself.
                let message = deliveries.message(first);
                let store = || {
                    let stored = link.store(transfers, now);
                    match stored.refused.into_iter().next() {
                        Some((_, refusal)) => Err(refusal),
                        None => Ok(stored.commit.unwrap_or(CommitNumber::DONE)),
                    }
                };
                let place = (self.namespace.host(), link.entity_name());
                match shaped(shaper, place, || {}, first.format, message, store) {
                    Ok(told) => {
                        ready_at = told.until.instant;
                        Stored::of(told.state, told.until.commit)
                    }
                    Err(Breakage::Link(error)) => return self.detach(first.link, error),
                    Err(Breakage::Connection) => {
                        self.broken = true;
                        return;
                    }
                }
            }
        };
        let commit = stored.commit.unwrap_or(CommitNumber::DONE);
        let is_prompt = commit.is_done() && answer_at.is_none() && ready_at.is_none();
        let mut refused = stored.refused.into_iter().peekable();
        let mut accepted: Option<(u32, u32)> = None;
        for (place, delivery) in items.iter().enumerate() {
            let refusal = refused.next_if(|(refused, _)| *refused == place);
            if delivery.settled {
                continue;
            }
            match refusal {
                // The usual way, past what is not needed on it.
                None if is_prompt => match &mut accepted {
                    Some((_, last)) if last.wrapping_add(1) == delivery.id => *last = delivery.id,
                    _ => {
                        if let Some((first, last)) = accepted.replace((delivery.id, delivery.id)) {
                            connection.settle(entry.session, first, last, DeliveryState::Accepted);
                        }
                    }
                },
                refusal => {
                    let told = match refusal {
                        Some((_, refusal)) => Told::now(refusal),
                        None => Told::stored(Ok(commit)),
                    };
                    let told = told.not_before(answer_at).not_before(ready_at);
                    tell(connection, &mut self.pending, entry, delivery.id, told);
                }
            }
        }
        if let Some((first, last)) = accepted {
            connection.settle(entry.session, first, last, DeliveryState::Accepted);
        }
        top_up_credit(connection, entry);
    }

    /// Gathers an outcome that the client gave for deliveries that wait for one.
    pub(super) fn on_outcome(
        &mut self,
        session: SessionId,
        first: u32,
        last: u32,
        state: &DeliveryState,
        wants_answer: bool,
    ) {
        let mut taken = std::mem::take(&mut self.queue_work.taken);
        self.queue_work.awaited_outcomes.take(session, first, last, |id, delivery| {
            taken.push((id, delivery));
        });
        let mut of_link = None;
        for (id, delivery) in taken.drain(..) {
            if of_link != Some(delivery.link) {
                // Ids that wait for an outcome and belong to no queue are an answer to a request, which nobody waits for.
                let Some(link) = self.link_at(delivery.link) else {
                    continue;
                };
                if !self.queue_work.settling.goes_with(link, session, state, wants_answer) {
                    self.settle_gathered();
                }
                of_link = Some(delivery.link);
                self.queue_work.settling.begin(|| Proposal {
                    link,
                    session,
                    state: state.clone(),
                    wants_answer,
                });
            }
            self.queue_work.settling.push(id, delivery.token);
        }
        self.queue_work.taken = taken;
    }

    /// Answers an outcome for deliveries that wait for none.
    #[cold]
    pub(super) fn on_unknown_outcome(&mut self, session: SessionId, first: u32, last: u32) {
        // Events of hubs come settled; a client that gives them an outcome all the same expects no answer.
        let is_receiver =
            |entry: &LinkEntry| entry.session == session && matches!(entry.node, Node::Receive(_));
        if self.links.iter().flatten().any(is_receiver) {
            self.driver.connection().answer_outcome(session, first, last, unknown_delivery());
        }
    }

    /// Settles the outcomes that were gathered.
    pub(super) fn settle_gathered(&mut self) {
        let Some(link) = self.queue_work.settling.link() else {
            return;
        };
        let Some(Some(LinkEntry { node: Node::Receive(receiver), .. })) = self.links.get(link.index()) else {
            return;
        };
        let (connection, pending) = (self.driver.connection(), &mut self.pending);
        let now = self.namespace.clock().now().into();
        let queue = receiver.queue();
        let instant = self.shaper.as_mut().and_then(|shaper| shaper.settle(queue.name()));
        self.queue_work.settling.settle(queue, now, |proposal, answer| {
            let SettlementAnswer { first, last, state, commit } = answer;
            let until = Until { commit, instant };
            if until.is_over() {
                connection.answer_outcome(proposal.session, first, last, state);
            } else {
                let session = proposal.session;
                let outcome = Outcome { link, session, first, last, state, direction: Direction::Sent };
                pending.push(ClientAnswer::Outcome(outcome), until);
            }
        });
    }

    /// Looks for a session for a link that waits for one.
    pub(super) fn look_for_session(&mut self, index: usize) {
        let is_held = |entry: &mut LinkEntry| entry.node.is_held();
        let taken = self.links.get_mut(index).and_then(|entry| entry.take_if(is_held));
        let Some(LinkEntry { id, session, node: Node::Held(held), permit, .. }) = taken else {
            return;
        };
        let connection = self.driver.connection();
        let node = match held.look(self.namespace.clock().now().into()) {
            Held::Waiting(held) => {
                let deadline = held.deadline();
                if self.queue_work.held_deadline.as_ref().is_none_or(|alarm| deadline < alarm.deadline()) {
                    self.queue_work.held_deadline = Some(Box::pin(tokio::time::sleep_until(deadline)));
                }
                Node::Held(Box::new(held))
            }
            Held::Granted { waiter, mode, lock, acceptance } => {
                connection.accept_link(id, acceptance);
                Node::Receive(Box::new(ReceiveLink::new(id, session, waiter, mode, Some(lock))))
            }
            Held::Refused(error) => return connection.refuse_link(id, error),
        };
        self.links[index] = Some(LinkEntry { id, session, permit, node, waiting_outcomes: 0 });
        self.enqueue(index);
    }

    /// Refuses the links that have waited for a session long enough.
    pub(super) fn check_held(&mut self, cx: &mut Context<'_>) {
        while let Some(alarm) = &mut self.queue_work.held_deadline
            && alarm.as_mut().poll(cx).is_ready()
        {
            self.queue_work.held_deadline = None;
            // Each that goes on waiting sets the alarm anew.
            for index in 0..self.links.len() {
                if self.links[index].as_ref().is_some_and(|entry| entry.node.is_held()) {
                    self.look_for_session(index);
                }
            }
        }
    }

    fn link_at(&self, index: u32) -> Option<LinkId> {
        let entry = self.links.get(index as usize)?.as_ref()?;
        Some(entry.id)
    }
}
