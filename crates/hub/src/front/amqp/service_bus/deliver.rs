//! From a queue to transfers. Hot path.
//!
//! Messages are received from the store in bursts, as many as credit, window and a share of the output allow, and
//! written straight into the output. The tag of a locked message is its lock token; which token belongs to which
//! delivery is remembered until its outcome has come.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::sync::Arc;

use amqp::Connection;
use amqp::codec::write;
use amqp::connection::{LinkId, NewDelivery, SessionId, TransferRun};
use amqp::performative::Error;

use super::conditions;
use super::outgoing::{self, Outgoing, USUAL_HEAD_LENGTH, put_usual_head};
use crate::clock::ClientClock;
use crate::front::amqp::links::node::{Delivered, Stopped};
use crate::front::amqp::links::outcomes::{AwaitedOutcomes, LockedDelivery};
use partition_log::UnixTime;
use queue_store::{
    Awaited, Deliveries, Delivery, Found, LockToken, Queue, QueueError, ReceiveMode, ReceiveRequest,
    SessionLock, Settlement, Waiter,
};

/// A link through which a client receives.
#[derive(Debug)]
pub(crate) struct ReceiveLink {
    link: LinkId,
    session: SessionId,
    waiter: Waiter,
    mode: ReceiveMode,
    /// The session that it has locked, where the queue has sessions.
    lock: Option<SessionLock>,
    /// Why it has to end.
    ended: Option<QueueError>,
    /// Messages that are received and deleted already and wait for the session window, encoded.
    unsent: VecDeque<Vec<u8>>,
    /// What was sent since it was last asked for.
    delivered: Delivered,
    /// Whether the client waits to be told that there is nothing more.
    pub(crate) is_draining: bool,
    /// Whether it stands in the queue of those that may have something to send.
    pub(crate) queued: bool,
}

/// What is needed to deliver a burst. One for all connections of a thread: a connection at rest is to hold little.
#[derive(Debug, Default)]
struct Burst {
    deliveries: Deliveries,
    tokens: Vec<LockToken>,
}

thread_local! {
    static BURST: RefCell<Burst> = RefCell::default();
}

impl ReceiveLink {
    pub(crate) fn new(
        link: LinkId,
        session: SessionId,
        waiter: Waiter,
        mode: ReceiveMode,
        lock: Option<SessionLock>,
    ) -> Self {
        Self {
            link,
            session,
            waiter,
            mode,
            lock,
            ended: None,
            unsent: VecDeque::new(),
            delivered: Delivered { events: 0, bytes: 0 },
            is_draining: false,
            queued: false,
        }
    }

    /// The queue that it receives from.
    pub(crate) fn queue(&self) -> &Arc<Queue> {
        self.waiter.queue()
    }

    /// The session that it has locked.
    pub(crate) const fn session_lock(&self) -> Option<&SessionLock> {
        self.lock.as_ref()
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
        (now, clock): (UnixTime, ClientClock),
        awaited: &mut AwaitedOutcomes,
    ) -> Stopped {
        self.queued = false;
        let stopped =
            BURST.with_borrow_mut(|burst| self.deliver_bursts(connection, (now, clock), awaited, burst));
        // The answer to a client that drains does not wait for credit or the window.
        if self.is_draining
            && stopped != Stopped::ShareToWrite
            && let Some(mut sender) = connection.sender(self.link)
        {
            self.is_draining = false;
            sender.drained();
        }
        stopped
    }

    fn deliver_bursts(
        &mut self,
        connection: &mut Connection,
        (now, clock): (UnixTime, ClientClock),
        awaited: &mut AwaitedOutcomes,
        burst: &mut Burst,
    ) -> Stopped {
        let limit = connection.output_len() + SHARE;
        if !self.unsent.is_empty() && !self.send_unsent(connection) {
            return Stopped::Blocked;
        }
        loop {
            let credit = connection.credit(self.link);
            let window = connection.remote_window(self.session);
            let messages = credit.min(window) as usize;
            if messages == 0 {
                if self.queue().is_deleted() {
                    self.ended = Some(QueueError::Deleted);
                    return Stopped::Over;
                }
                // A client without credit has to hear all the same that its session is lost.
                return match self.arm_for_loss(now) {
                    true => Stopped::Over,
                    false => Stopped::Blocked,
                };
            }
            let room = limit.saturating_sub(connection.output_len());
            let request = ReceiveRequest {
                mode: self.mode,
                session: self.lock.as_ref(),
                messages: messages.min(room / HEAD_BYTES + 1),
                bytes: room,
            };
            burst.deliveries.clear();
            let received = self.waiter.queue().receive(now, &request, &mut burst.deliveries);
            if let Err(error) = received {
                self.ended = Some(error);
                return Stopped::Over;
            }
            if burst.deliveries.is_empty() {
                let wanted = match &self.lock {
                    Some(lock) => Awaited::InSession(lock),
                    None => Awaited::Message,
                };
                match self.waiter.arm(now, wanted) {
                    Found::Something => continue,
                    Found::Nothing => return Stopped::AtEnd,
                }
            }
            if !self.send(connection, (now, clock), awaited, burst) {
                return Stopped::Blocked;
            }
            if connection.output_len() >= limit {
                return Stopped::ShareToWrite;
            }
        }
    }

    /// Whether the session is lost; otherwise the loss will be reported.
    fn arm_for_loss(&mut self, now: UnixTime) -> bool {
        let Some(lock) = &self.lock else {
            return false;
        };
        // Messages that come mean nothing without credit, of which the client would tell.
        match self.waiter.arm(now, Awaited::LossOfSession(lock)) {
            Found::Nothing => false,
            Found::Something => {
                self.ended = Some(self.why_session_is_lost(now, lock));
                true
            }
        }
    }

    /// The error for whoever receives under this lock.
    #[cold]
    fn why_session_is_lost(&self, now: UnixTime, lock: &SessionLock) -> QueueError {
        let request = ReceiveRequest { mode: self.mode, session: Some(lock), messages: 0, bytes: 0 };
        let received = self.queue().receive(now, &request, &mut Deliveries::new());
        received.err().unwrap_or(QueueError::SessionLockLost)
    }

    /// Sends what was received, and gives back what does not go out. Says whether all went.
    fn send(
        &mut self,
        connection: &mut Connection,
        (now, clock): (UnixTime, ClientClock),
        awaited: &mut AwaitedOutcomes,
        burst: &mut Burst,
    ) -> bool {
        let Burst { deliveries, tokens } = burst;
        let locked = awaited.of(self.session);
        let link = self.link.index() as u32;
        let mut messages = deliveries.iter();
        let unsent = loop {
            let mut other = None;
            match self.run(connection) {
                Some(mut run) => {
                    for message in messages.by_ref() {
                        let length = USUAL_HEAD_LENGTH + message.sections.len();
                        let Some(lock) = Outgoing::usual_lock(&message).filter(|_| run.takes(length)) else {
                            other = Some(message);
                            break;
                        };
                        locked.push(run.next_id(), LockedDelivery { link, token: lock.token });
                        run.send(outgoing::delivery_tag(lock.token), |output| {
                            put_usual_head(&message, lock, clock, output);
                            write::bytes(output, message.sections);
                        });
                        self.delivered.events += 1;
                        self.delivered.bytes += message.sections.len() as u64;
                    }
                }
                None => other = messages.next(),
            }
            let Some(message) = other else {
                break None;
            };
            let Some(id) = self.send_one(connection, &message, clock) else {
                break Some(message);
            };
            self.delivered.events += 1;
            self.delivered.bytes += message.sections.len() as u64;
            if let Some(lock) = &message.lock {
                locked.push(id, LockedDelivery { link, token: lock.token });
            }
        };
        let Some(first) = unsent else {
            return true;
        };
        // A long message took more of the window than was foreseen.
        let left = std::iter::once(first).chain(messages);
        if self.mode == ReceiveMode::ReceiveAndDelete {
            self.unsent.extend(left.map(|message| Outgoing::new(&message, clock).encode()));
            return false;
        }
        tokens.clear();
        tokens.extend(left.filter_map(|message| message.lock.map(|lock| lock.token)));
        if let Err(error) = self.queue().settle(now, tokens, &Settlement::Release) {
            tracing::debug!(%error, "messages that could not be sent remain locked");
        }
        false
    }

    /// Sends what waits for the window, and says whether all went.
    #[cold]
    fn send_unsent(&mut self, connection: &mut Connection) -> bool {
        while let Some(message) = self.unsent.front() {
            let delivery = NewDelivery { tag: &[0], format: amqp::message::FORMAT_AMQP, settled: true };
            let sent = connection.sender(self.link).map(|mut sender| sender.send(&delivery, &[message]));
            if !matches!(sent, Some(Ok(_))) {
                return false;
            }
            self.unsent.pop_front();
        }
        true
    }

    /// A run of locked messages, if some can be sent now.
    #[inline]
    fn run<'a>(&self, connection: &'a mut Connection) -> Option<TransferRun<'a, 16>> {
        match self.mode {
            ReceiveMode::PeekLock => connection.transfer_run(self.link, amqp::message::FORMAT_AMQP, false),
            ReceiveMode::ReceiveAndDelete => None,
        }
    }

    /// Sends a message; gives its delivery id, or `None` if it can't be sent now.
    #[inline]
    fn send_one(
        &self,
        connection: &mut Connection,
        message: &Delivery<'_>,
        clock: ClientClock,
    ) -> Option<u32> {
        let tag = match &message.lock {
            Some(lock) => outgoing::delivery_tag(lock.token),
            // Nobody settles it, but tags are to differ.
            None => u128::from(message.sequence_number).to_be_bytes(),
        };
        let delivery =
            NewDelivery { tag: &tag, format: amqp::message::FORMAT_AMQP, settled: message.lock.is_none() };
        let mut sender = connection.sender(self.link)?;
        let mut writer = sender.begin(&delivery).ok()?;
        let outgoing = Outgoing::new(message, clock);
        writer.put_encoded(outgoing.head_length_max(), |output| {
            outgoing.put_head(output);
        });
        writer.put(outgoing.sections());
        Some(writer.finish())
    }
}

impl Drop for ReceiveLink {
    /// A session is let go with its link; single messages stay locked, as in the service.
    fn drop(&mut self) {
        if let Some(lock) = &self.lock {
            // Not earlier for the queue than what it has seen of its service's clock: time does not go back there.
            let now = UnixTime::from(std::time::SystemTime::now());
            self.waiter.queue().release_session(now, lock);
        }
    }
}

/// Output of one turn, in bytes, which is written at once: the client works on these messages while the next are received for
/// it, and it can have so few at a time that nothing else would keep both sides busy.
const SHARE: usize = 32 * 1024;

/// What the head of a message and its transfer take at least, in bytes: bounds how many short messages fill a share.
const HEAD_BYTES: usize = 200;
