//! Links that browse: a client asks for copies (`distribution-mode: copy`), as JMS queue browsers do.
//!
//! It gets the messages as they are, whatever their state, each once and in the order of their numbers, settled: nothing
//! is locked, removed or counted as a delivery, as with peeking. What comes later follows as long as the link is there.

use std::sync::Arc;

use amqp::Connection;
use amqp::connection::{LinkId, NewDelivery, SessionId};
use amqp::performative::Error;

use super::conditions;
use super::outgoing::Outgoing;
use crate::clock::ClientClock;
use crate::front::amqp::links::node::{Delivered, Stopped};
use partition_log::UnixTime;
use queue_store::{Awaited, Deliveries, Delivery, Found, QueueError, Waiter};

/// A link through which a client looks at messages.
#[derive(Debug)]
pub(crate) struct BrowseLink {
    link: LinkId,
    session: SessionId,
    waiter: Waiter,
    /// The least number of the next message.
    next: u64,
    /// Why it has to end.
    ended: Option<QueueError>,
    /// What was sent since it was last asked for.
    delivered: Delivered,
    /// Whether the client waits to be told that there is nothing more.
    pub(crate) is_draining: bool,
    /// Whether it stands in the queue of those that may have something to send.
    pub(crate) queued: bool,
}

impl BrowseLink {
    pub(crate) fn new(link: LinkId, session: SessionId, waiter: Waiter) -> Self {
        Self {
            link,
            session,
            waiter,
            next: 0,
            ended: None,
            delivered: Delivered::default(),
            is_draining: false,
            queued: false,
        }
    }

    /// Why it has to end, if it has.
    pub(crate) fn end_reason(&self) -> Option<Error> {
        self.ended.as_ref().map(conditions::error_of)
    }

    /// What was sent since the last call.
    pub(crate) fn take_delivered(&mut self) -> Delivered {
        std::mem::take(&mut self.delivered)
    }

    /// Sends as much as credit, window and a share of the output allow.
    pub(crate) fn deliver(
        &mut self,
        connection: &mut Connection,
        now: UnixTime,
        clock: ClientClock,
    ) -> Stopped {
        self.queued = false;
        let stopped = self.deliver_share(connection, now, clock);
        if self.is_draining
            && stopped != Stopped::ShareToWrite
            && let Some(mut sender) = connection.sender(self.link)
        {
            self.is_draining = false;
            sender.drained();
        }
        stopped
    }

    fn deliver_share(&mut self, connection: &mut Connection, now: UnixTime, clock: ClientClock) -> Stopped {
        let limit = connection.output_len() + SHARE;
        let mut deliveries = Deliveries::new();
        let mut has_looked_again = false;
        loop {
            let queue = Arc::clone(self.waiter.queue());
            if queue.is_deleted() {
                self.ended = Some(QueueError::Deleted);
                return Stopped::Over;
            }
            let messages = connection.credit(self.link).min(connection.remote_window(self.session)) as usize;
            if messages == 0 {
                return Stopped::Blocked;
            }
            let room = limit.saturating_sub(connection.output_len());
            deliveries.clear();
            let messages = messages.min(MESSAGES_AT_ONCE);
            queue.peek(now, self.next, messages, room, None, &mut deliveries);
            if deliveries.is_empty() {
                match self.waiter.arm(now, Awaited::NumberFrom(self.next)) {
                    // It came this moment. A queue that can't be changed any more says the same for ever.
                    Found::Something if !has_looked_again => has_looked_again = true,
                    Found::Something | Found::Nothing => return Stopped::AtEnd,
                }
                continue;
            }
            has_looked_again = false;
            for message in deliveries.iter() {
                if !self.send(connection, &message, clock) {
                    return Stopped::Blocked;
                }
                self.next = message.sequence_number + 1;
                self.delivered.events += 1;
                self.delivered.bytes += message.sections.len() as u64;
            }
            if connection.output_len() >= limit {
                return Stopped::ShareToWrite;
            }
        }
    }

    /// Sends a message, if it can be sent now.
    fn send(&self, connection: &mut Connection, message: &Delivery<'_>, clock: ClientClock) -> bool {
        let tag = u128::from(message.sequence_number).to_be_bytes();
        let delivery = NewDelivery { tag: &tag, format: amqp::message::FORMAT_AMQP, settled: true };
        let Some(mut sender) = connection.sender(self.link) else {
            return false;
        };
        let Ok(mut writer) = sender.begin(&delivery) else {
            return false;
        };
        let outgoing = Outgoing::new(message, clock);
        writer.put_encoded(outgoing.head_length_max(), |output| {
            outgoing.put_head(output);
        });
        writer.put(outgoing.sections());
        writer.finish();
        true
    }
}

/// Output of one turn, in bytes.
const SHARE: usize = 32 * 1024;

/// Most messages that are looked at under one lock.
const MESSAGES_AT_ONCE: usize = 256;
