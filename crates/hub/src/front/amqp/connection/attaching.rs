//! Links of a connection as they come and go: asked for by the client, ended by either side, or without a claim any
//! longer.

use std::future::Future as _;
use std::pin::Pin;
use std::task::Context;
use std::time::{Duration, SystemTime};

use amqp::Value;
use amqp::codec::Symbol;
use amqp::connection::{LinkAcceptance, LinkId, SessionId};
use amqp::performative::{Attach, Error, Role};
use tokio::time::Sleep;

use super::{ConnectionTask, full_credit};
use crate::clock::TokenNow;
use crate::front::amqp::links::node::Node;
use crate::front::amqp::links::terminus::FilterKind;
use crate::front::amqp::links::{Admission, Admitted, LinkEntry};

/// The next instant at which a claim expires.
#[derive(Debug)]
pub(super) struct Expiry {
    /// By the time of day.
    pub(super) at: SystemTime,
    /// Rings at that instant at the latest, as long as the time of day does not jump.
    alarm: Pin<Box<Sleep>>,
}

impl ConnectionTask {
    pub(super) fn on_link_requested(&mut self, link: LinkId, session: SessionId, attach: &Attach) {
        self.remove_stolen();
        let admission = Admission {
            namespace: &self.namespace,
            host: &self.host,
            claims: &self.claims,
            subscriber: &self.subscriber,
            open: &self.links,
            bound_to: self.transactions.bound_to(session),
            now: self.namespace.clock().now(),
        };
        match admission.admit(link, session, attach) {
            Ok(Admitted { node, permit, acceptance }) => {
                self.note_filters(attach, acceptance.as_ref());
                let connection = self.driver.connection();
                if let Some(acceptance) = acceptance {
                    connection.accept_link(link, acceptance);
                }
                if node.is_sender() {
                    connection.set_credit(link, full_credit(&node));
                }
                match &node {
                    Node::Coordinator => {
                        let mut of_session =
                            self.links.iter().flatten().filter(|entry| entry.session == session);
                        let receives_from = of_session.find_map(|entry| {
                            entry.node.transaction_entity().filter(|_| entry.node.is_receiver())
                        });
                        self.transactions.bind(session, receives_from);
                    }
                    Node::Receive(_) => {
                        let entity = node.transaction_entity().unwrap_or_default();
                        self.transactions.used(session, entity);
                    }
                    _ => {}
                }
                let index = link.index();
                if self.links.len() <= index {
                    self.links.resize_with(index + 1, || None);
                }
                self.links[index] = Some(LinkEntry { id: link, session, permit, node, waiting_outcomes: 0 });
                // What it leads to may have been deleted a moment ago.
                self.on_reported(index);
            }
            Err(error) => {
                tracing::debug!(%error, "link refused");
                self.driver.connection().refuse_link(link, error);
            }
        }
    }

    /// Reports the filters of a receiver that are not applied. One that waits for a session gets that filter.
    fn note_filters(&self, attach: &Attach, acceptance: Option<&LinkAcceptance>) {
        let Some(asked) = attach.source.as_ref().filter(|_| attach.role == Role::Receiver) else {
            return;
        };
        let is_applied = |(key, value): &(Symbol, Value)| match acceptance.and_then(|it| it.source.as_ref()) {
            Some(source) => source.filter.iter().any(|(applied, _)| applied == key),
            None => FilterKind::of(key, value) == Some(FilterKind::Session),
        };
        let unapplied = asked.filter.iter().filter(|filter| !is_applied(filter));
        let unapplied: Vec<&str> = unapplied.map(|(key, _)| key.as_str()).collect();
        if !unapplied.is_empty() {
            self.rejections.note_filters(asked.address.as_deref().unwrap_or_default(), &unapplied);
        }
    }

    /// Lets go of links whose name a request has just taken over: what they had locked is for the new one. The client may
    /// answer their detach much later.
    fn remove_stolen(&mut self) {
        for index in 0..self.links.len() {
            if let Some(entry) = &self.links[index]
                && !entry.node.is_held()
                && let id = entry.id
                && !self.driver.connection().is_attached(id)
            {
                self.remove(id);
            }
        }
    }

    pub(super) fn remove(&mut self, link: LinkId) {
        self.settle_gathered();
        if let Some(entry) = self.links.get_mut(link.index())
            && let Some(removed) = entry.take_if(|entry| entry.id == link)
        {
            if removed.waiting_outcomes > 0 {
                self.pending.retain(|answer| answer.is_wanted(|outcome| outcome.link != link));
            }
            self.settlements.awaited_outcomes.forget_link(removed.session, link);
            self.transactions.forget_link(link);
            self.forget_replies(&removed);
        }
    }

    /// Ends a link on our own account.
    pub(super) fn detach(&mut self, link: LinkId, error: Error) {
        self.remove(link);
        self.driver.connection().detach_link(link, Some(error));
    }

    /// Sets the alarm for the next claim that expires.
    pub(super) fn set_expiry(&mut self, now: TokenNow) {
        let next = self.claims.next_expiry(now);
        if let Some(timed) = &self.timed {
            timed.note_claim_end(next);
        }
        self.expiry = next.map(|at| {
            let left = at.duration_since(now.time()).unwrap_or_default();
            Expiry { at, alarm: Box::pin(tokio::time::sleep(left.min(LONGEST_ALARM))) }
        });
    }

    /// Detaches the links whose claim has expired, if it is time to look.
    pub(super) fn check_expiry(&mut self, cx: &mut Context<'_>) {
        if let Some(expiry) = &mut self.expiry
            && expiry.alarm.as_mut().poll(cx).is_ready()
        {
            self.end_expired();
            // The next alarm wants to be polled too.
            cx.waker().wake_by_ref();
        }
    }

    /// Detaches the links whose claim has expired.
    pub(super) fn end_expired(&mut self) {
        let now = self.namespace.clock().token_now();
        // What came before it, in good time.
        self.settle_gathered();
        let mut ended = 0;
        for slot in &mut self.links {
            let expired = slot.take_if(|entry| {
                entry
                    .permit
                    .as_ref()
                    .is_some_and(|permit| !self.claims.allows(&permit.address, permit.right, now))
            });
            if let Some(LinkEntry { id, session, permit: Some(permit), .. }) = expired {
                self.settlements.awaited_outcomes.forget_link(session, id);
                let error = permit.missing(&self.host);
                self.driver.connection().detach_link(id, Some(error));
                ended += 1;
            }
        }
        self.namespace.clock().count_ended_links(ended);
        self.set_expiry(now);
    }
}

/// Timers do not follow the small adjustments of the time of day, which add up.
const LONGEST_ALARM: Duration = Duration::from_secs(60);
