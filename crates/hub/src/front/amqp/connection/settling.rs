//! The outcomes that a client gives to what it received, and the links that wait to be answered.

use std::future::Future as _;
use std::pin::Pin;
use std::task::Context;

use amqp::connection::{LinkId, SessionId};
use amqp::performative::DeliveryState;
use tokio::time::Sleep;

use super::answers::{ClientAnswer, Direction, Outcome};
use super::{ConnectionTask, Unhandled};
use crate::front::amqp::links::LinkEntry;
use crate::front::amqp::links::node::{Node, Resumed, TakenOutcome};
use crate::front::amqp::links::outcomes::{AwaitedOutcomes, LockedDelivery, OutcomeAnswer, Proposal, Token};
use crate::front::pending::Until;

/// What a connection has to do for deliveries that need an outcome, and for links that wait, beside what is in its links.
#[derive(Debug, Default)]
pub(super) struct Settlements {
    /// The deliveries whose outcome has not come.
    pub(super) awaited_outcomes: AwaitedOutcomes,
    gathered: Gathered,
    /// Deliveries that an outcome is about; emptied at once.
    taken: Vec<(u32, LockedDelivery)>,
    /// When the next link that waits for a session has waited long enough.
    held_deadline: Option<Pin<Box<Sleep>>>,
}

/// An outcome that the client gave for the deliveries of a session from one id to another.
#[derive(Debug)]
pub(super) struct GivenOutcome {
    pub(super) session: SessionId,
    pub(super) first: u32,
    pub(super) last: u32,
    pub(super) state: DeliveryState,
    /// Whether the client waits for an answer.
    pub(super) wants_answer: bool,
}

/// Outcomes that are alike and of one link, to be settled together.
#[derive(Debug, Default)]
struct Gathered {
    proposal: Option<Proposal>,
    /// Delivery ids and what they settle.
    deliveries: Vec<(u32, Token)>,
}

impl Gathered {
    /// Whether the gathered outcomes belong to a transaction and this one differs from them or belongs to another.
    #[inline]
    fn is_of_other_transaction(&self, state: &DeliveryState) -> bool {
        self.proposal.as_ref().is_some_and(|gathered| {
            matches!(gathered.state, DeliveryState::Transactional { .. }) && gathered.state != *state
        })
    }

    /// Whether outcomes like this can be settled together with those that are gathered.
    #[inline]
    fn goes_with(&self, link: LinkId, session: SessionId, state: &DeliveryState, wants_answer: bool) -> bool {
        self.proposal.as_ref().is_none_or(|gathered| {
            gathered.link == link
                && gathered.session == session
                && gathered.wants_answer == wants_answer
                && gathered.state == *state
        })
    }
}

impl ConnectionTask {
    /// Gathers an outcome that the client gave for deliveries that wait for one, or part of it: the rest stays unhandled.
    pub(super) fn on_outcome(&mut self, outcome: GivenOutcome) {
        let GivenOutcome { session, first, last, ref state, wants_answer } = outcome;
        // What is part of a transaction goes on waiting for its outcome, and may get another one.
        if self.settlements.gathered.is_of_other_transaction(state) {
            self.settle_gathered();
        }
        let mut taken = std::mem::take(&mut self.settlements.taken);
        let awaited = &mut self.settlements.awaited_outcomes;
        let rest = awaited.take(session, first, last, SETTLED_AT_ONCE, |id, delivery| {
            taken.push((id, delivery));
        });
        let mut of_link = None;
        for (id, delivery) in taken.drain(..) {
            if of_link != Some(delivery.link) {
                // Ids that wait for an outcome and belong to no queue answer a request, whose outcome is not used.
                let Some(link) = self.link_at(delivery.link) else {
                    continue;
                };
                if !self.settlements.gathered.goes_with(link, session, state, wants_answer) {
                    self.settle_gathered();
                }
                of_link = Some(delivery.link);
                let proposal = &mut self.settlements.gathered.proposal;
                proposal.get_or_insert_with(|| Proposal {
                    link,
                    session,
                    state: state.clone(),
                    wants_answer,
                });
            }
            self.settlements.gathered.deliveries.push((id, delivery.token));
        }
        self.settlements.taken = taken;
        if self.settlements.gathered.deliveries.len() >= SETTLED_AT_ONCE as usize {
            self.settle_gathered();
        }
        if let Some(first) = rest {
            self.unhandled = Some(Unhandled::Outcome(GivenOutcome { first, ..outcome }));
        }
    }

    /// Answers an outcome for deliveries that wait for none.
    #[cold]
    pub(super) fn on_unknown_outcome(&mut self, session: SessionId, first: u32, last: u32) {
        let links = self.links.iter().flatten().filter(|entry| entry.session == session);
        if let Some(state) = links.map(|entry| &entry.node).find_map(Node::unknown_outcome) {
            self.driver.connection().answer_outcome(session, first, last, state);
        }
    }

    /// Settles the outcomes that were gathered.
    pub(super) fn settle_gathered(&mut self) {
        let Gathered { proposal, deliveries } = &mut self.settlements.gathered;
        let Some(proposal) = proposal.take() else {
            return;
        };
        let Proposal { link, session, .. } = proposal;
        if let Some(Some(entry)) = self.links.get(link.index()) {
            let (connection, pending) = (self.driver.connection(), &mut self.pending);
            let now = self.namespace.clock().now();
            let instant = self.shaper.as_mut().and_then(|shaper| shaper.settle(entry.node.entity_name()));
            // Ids of one session that are reported together are close to each other, so they compare as they are. Where they
            // wrap around, there are two ranges instead of one.
            deliveries.sort_unstable_by_key(|(id, _)| *id);
            let mut tell = |answer: OutcomeAnswer, direction: Direction| {
                let OutcomeAnswer { first, last, state, commit, .. } = answer;
                let until = Until { commit, instant };
                if until.is_over() {
                    direction.tell(connection, session, (first, last), state);
                } else {
                    let outcome = Outcome { link, session, first, last, state, direction };
                    pending.push(ClientAnswer::Outcome(outcome), until);
                }
            };
            match proposal.state.transaction() {
                None => {
                    let answer = |answer| tell(answer, Direction::Sent);
                    entry.node.settle(&proposal, deliveries, now.into(), answer);
                }
                Some(transaction) => {
                    let work = Self::transaction_work(&mut self.transactions, transaction, session, now, 0);
                    let work = work.map(|(work, _)| work);
                    let awaited = &mut self.settlements.awaited_outcomes;
                    let deliveries = &*deliveries;
                    entry.node.settle_in(work, &proposal, deliveries, now.into(), |answer| {
                        if answer.is_settled {
                            return tell(answer, Direction::OfTransaction);
                        }
                        let from = deliveries.partition_point(|(id, _)| *id < answer.first);
                        let these = deliveries[from..].iter().take_while(|(id, _)| *id <= answer.last);
                        for &(id, token) in these {
                            let link = link.index() as u32;
                            awaited.put_back(session, id, LockedDelivery { link, token });
                        }
                        tell(answer, Direction::Taken);
                    });
                }
            }
        }
        deliveries.clear();
    }

    /// Settles the deliveries of a committed transaction that are still unsettled.
    pub(super) fn settle_committed(&mut self, outcomes: Vec<TakenOutcome>, until: Until) {
        // The last outcome of a delivery is the one that counts.
        for TakenOutcome { link, session, first, last, state } in outcomes.into_iter().rev() {
            // What a link had received is forgotten with it.
            if !matches!(self.links.get(link.index()), Some(Some(entry)) if entry.id == link) {
                continue;
            }
            let awaited = &mut self.settlements.awaited_outcomes;
            awaited.take(session, first, last, u32::MAX, |_id, _delivery| {});
            let direction = Direction::OfTransaction;
            if until.is_over() {
                direction.tell(self.driver.connection(), session, (first, last), state);
            } else {
                let outcome = Outcome { link, session, first, last, state, direction };
                self.pending.push(ClientAnswer::Outcome(outcome), until);
            }
        }
    }

    /// Looks whether a link that waits can be answered.
    pub(super) fn resume_held(&mut self, index: usize) {
        let clock = self.namespace.clock();
        if clock.stands() {
            // All are looked at once it goes on.
            return;
        }
        let is_held = |entry: &mut LinkEntry| entry.node.is_held();
        let taken = self.links.get_mut(index).and_then(|entry| entry.take_if(is_held));
        let Some(LinkEntry { id, session, node, permit, .. }) = taken else {
            return;
        };
        let connection = self.driver.connection();
        let node = match node.resume(id, session, clock) {
            Resumed::Waiting { node, until } => {
                if self.settlements.held_deadline.as_ref().is_none_or(|sleep| until < sleep.deadline()) {
                    self.settlements.held_deadline = Some(Box::pin(tokio::time::sleep_until(until)));
                }
                node
            }
            Resumed::Granted { node, acceptance } => {
                connection.accept_link(id, *acceptance);
                node
            }
            Resumed::Refused(error) => return connection.refuse_link(id, error),
        };
        if let Some(entity) = node.transaction_entity() {
            self.transactions.used(session, entity);
        }
        self.links[index] = Some(LinkEntry { id, session, permit, node, waiting_outcomes: 0 });
        self.enqueue(index);
    }

    /// Looks at the links that wait when one of them has waited long enough.
    pub(super) fn check_held(&mut self, cx: &mut Context<'_>) {
        while let Some(sleep) = &mut self.settlements.held_deadline
            && sleep.as_mut().poll(cx).is_ready()
        {
            self.settlements.held_deadline = None;
            // Each link that is still waiting sets the deadline again.
            self.resume_all_held();
        }
    }

    /// Looks whether links that wait can be answered.
    pub(super) fn resume_all_held(&mut self) {
        for index in 0..self.links.len() {
            if self.links[index].as_ref().is_some_and(|entry| entry.node.is_held()) {
                self.resume_held(index);
            }
        }
    }

    fn link_at(&self, index: u32) -> Option<LinkId> {
        let entry = self.links.get(index as usize)?.as_ref()?;
        Some(entry.id)
    }
}

/// Number of deliveries settled under one lock, if there are so many. It takes about a millisecond; a client may give one outcome for
/// hundreds of thousands.
const SETTLED_AT_ONCE: u32 = 4_096;
