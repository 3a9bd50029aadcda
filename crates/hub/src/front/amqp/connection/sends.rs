//! What a client sends: stored in runs, and acknowledged in ranges.

use std::ops::RangeInclusive;

use amqp::Connection;
use amqp::connection::{Deliveries, Delivery, LinkId, SessionId};
use amqp::performative::DeliveryState;
use tokio::time::Instant;

use super::answers::{ClientAnswer, Direction, Outcome};
use super::shaped::{Breakage, Told, shaped};
use super::{ConnectionTask, WAITING_OUTCOMES_MAX, tell, top_up_credit};
use crate::front::amqp::links::LinkEntry;
use crate::front::amqp::links::node::{Node, Stored};
use crate::front::pending::{Pending, Until};
use partition_log::UnixTime;
use partition_log::disk::CommitNumber;

impl ConnectionTask {
    /// How many deliveries at the beginning of `others` can be stored in one run with `first`: those whose nodes store together,
    /// and whose links have not too many outcomes that wait.
    #[inline]
    pub(super) fn run_beyond(&self, first: &Delivery, others: &[Delivery]) -> usize {
        // Under a profile each comes by itself.
        let Some(Some(entry)) = self.links.get(first.link.index()).filter(|_| self.shaper.is_none()) else {
            return 0;
        };
        let joins = |delivery: &&Delivery| match self.links.get(delivery.link.index()) {
            Some(Some(LinkEntry { id, node, waiting_outcomes, .. })) => {
                *id == delivery.link
                    && *waiting_outcomes < WAITING_OUTCOMES_MAX
                    && node.stores_with(&entry.node)
            }
            _ => false,
        };
        others.iter().take_while(joins).count()
    }

    /// Stores a run of deliveries whose nodes store together, and settles them or remembers to.
    pub(super) fn on_run(
        &mut self,
        deliveries: &Deliveries,
        run: RangeInclusive<usize>,
        now: UnixTime,
        answer_at: Option<Instant>,
    ) {
        let items = &deliveries.items()[run];
        if let Some(first) = items.first()
            && let Some(Some(LinkEntry { session, node: Node::Send(link), .. })) =
                self.links.get(first.link.index())
        {
            self.transactions.used(*session, link.transaction_entity());
        }
        Stored::with(|stored| match self.shaper {
            Some(_) => items.iter().for_each(|delivery| {
                let message = deliveries.message(delivery);
                self.on_shaped(stored, delivery, message, now, answer_at);
            }),
            None => {
                let transfers = items.iter().filter_map(|delivery| {
                    let LinkEntry { node, .. } = self.links.get(delivery.link.index())?.as_ref()?;
                    Some((node, delivery.format, deliveries.message(delivery)))
                });
                Node::store(transfers, now, stored);
                self.settle_stored(stored, items, answer_at);
            }
        });
    }

    /// Settles the deliveries of a run, or remembers to.
    fn settle_stored(&mut self, stored: &mut Stored, items: &[Delivery], answer_at: Option<Instant>) {
        if items.len() < self.links.len() {
            self.settle_each(stored, items, answer_at);
            let connection = self.driver.connection();
            let links = items.iter().filter_map(|delivery| self.links.get(delivery.link.index())?.as_ref());
            return links.for_each(|entry| top_up_credit(connection, entry));
        }
        // To look at each link once takes less than to look at that of each delivery.
        match self.session_of_senders() {
            Some(session) if answer_at.is_none() && stored.are_all_accepted() => {
                let mut acceptances = Acceptances { pending: &mut self.pending, run: None };
                let connection = self.driver.connection();
                for delivery in items.iter().filter(|delivery| !delivery.settled) {
                    acceptances.add(connection, (delivery.link, session), delivery.id, Until::NOW);
                }
                acceptances.settle(connection);
            }
            _ => self.settle_each(stored, items, answer_at),
        }
        let connection = self.driver.connection();
        let links = self.links.iter().flatten().filter(|entry| entry.node.stores());
        links.for_each(|entry| top_up_credit(connection, entry));
    }

    fn settle_each(&mut self, stored: &mut Stored, items: &[Delivery], answer_at: Option<Instant>) {
        let connection = self.driver.connection();
        let mut refused = stored.refused.drain(..).peekable();
        let mut acceptances = Acceptances { pending: &mut self.pending, run: None };
        for (place, (delivery, &commit)) in items.iter().zip(&stored.commits).enumerate() {
            let refusal = refused.next_if(|(refused, _)| *refused == place);
            let Some(Some(entry)) = self.links.get_mut(delivery.link.index()) else {
                continue;
            };
            if let Some((_, refusal)) = &refusal {
                self.rejections.note_outcome(entry.node.entity_name(), refusal);
            }
            if delivery.settled {
                continue;
            }
            if let Some((_, refusal)) = refusal {
                let told = Told::now(refusal).not_before(answer_at);
                tell(connection, acceptances.pending, entry, delivery.id, told);
                continue;
            }
            let until = Until { commit, instant: answer_at };
            if !until.is_over() {
                entry.waiting_outcomes += 1;
            }
            acceptances.add(connection, (entry.id, entry.session), delivery.id, until);
        }
        acceptances.settle(connection);
    }

    /// The session of all links on which the client sends what is stored, if they have the same.
    fn session_of_senders(&self) -> Option<SessionId> {
        let senders = self.links.iter().flatten().filter(|entry| entry.node.stores());
        let mut sessions = senders.map(|entry| entry.session);
        let first = sessions.next()?;
        sessions.all(|session| session == first).then_some(first)
    }

    /// Stores a message as a service profile has it.
    #[cold]
    fn on_shaped(
        &mut self,
        stored: &mut Stored,
        delivery: &Delivery,
        message: &[u8],
        now: UnixTime,
        answer_at: Option<Instant>,
    ) {
        let (Some(Some(entry)), Some(shaper)) = (self.links.get_mut(delivery.link.index()), &mut self.shaper)
        else {
            return;
        };
        let (node, rejections) = (&entry.node, &self.rejections);
        let store = || {
            Node::store(std::iter::once((node, delivery.format, message)), now, stored);
            match stored.refused.pop() {
                Some((_, refusal)) => {
                    rejections.note_outcome(node.entity_name(), &refusal);
                    Err(refusal)
                }
                None => Ok(stored.commits.first().copied().unwrap_or(CommitNumber::DONE)),
            }
        };
        let place = (&*self.host, node.entity_name());
        let count = || node.count_throttled();
        match shaped(shaper, place, count, delivery.format, message, store) {
            Ok(told) => {
                let connection = self.driver.connection();
                if !delivery.settled {
                    let told = told.not_before(answer_at);
                    tell(connection, &mut self.pending, entry, delivery.id, told);
                }
                top_up_credit(connection, entry);
            }
            Err(Breakage::Link(error)) => self.detach(delivery.link, error),
            Err(Breakage::Connection) => self.broken = true,
        }
    }
}

/// Deliveries that are stored, gathered into ranges that are settled together.
struct Acceptances<'a> {
    pending: &'a mut Pending<ClientAnswer>,
    run: Option<Acceptance>,
}

struct Acceptance {
    link: LinkId,
    session: SessionId,
    first: u32,
    last: u32,
    until: Until,
}

impl Acceptances<'_> {
    #[inline]
    fn add(
        &mut self,
        connection: &mut Connection,
        (link, session): (LinkId, SessionId),
        delivery: u32,
        until: Until,
    ) {
        match &mut self.run {
            // What waits counts against the credit of its link, so a range that waits is of one link.
            Some(run)
                if run.last.wrapping_add(1) == delivery
                    && run.session == session
                    && run.until == until
                    && (run.link == link || until.is_over()) =>
            {
                run.last = delivery;
            }
            _ => {
                self.settle(connection);
                self.run = Some(Acceptance { link, session, first: delivery, last: delivery, until });
            }
        }
    }

    /// Settles what was gathered, or remembers to.
    fn settle(&mut self, connection: &mut Connection) {
        let Some(Acceptance { link, session, first, last, until }) = self.run.take() else {
            return;
        };
        let state = DeliveryState::Accepted;
        if until.is_over() {
            return connection.settle(session, first, last, state);
        }
        let outcome = Outcome { link, session, first, last, state, direction: Direction::Received };
        self.pending.push(ClientAnswer::Outcome(outcome), until);
    }
}
