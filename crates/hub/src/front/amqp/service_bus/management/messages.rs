//! Messages that are looked at, and those that were put aside.

use amqp::Value;

use super::super::outgoing::Outgoing;
use super::arguments::{Arguments, mistyped};
use super::{Answer, LockedSession, Outcome, Request, nothing, refusal, single};
use crate::clock::ClientClock;
use queue_store::{Deliveries, Delivery, QueueError, ReceiveMode, ReceiveRequest};

impl Request<'_> {
    pub(super) fn peek(&self, arguments: &Arguments) -> Outcome {
        let queue = self.listened_queue()?;
        // Clients begin below the first number there is.
        let from = arguments.integer("from-sequence-number")?.max(0).cast_unsigned();
        let count = arguments.count("message-count")?.min(MESSAGES_MAX);
        let session = arguments.optional_text("session-id")?;
        let mut deliveries = Deliveries::new();
        queue.peek(self.unix_time(), from, count, BYTES_MAX, session, &mut deliveries);
        if deliveries.is_empty() {
            return Ok(nothing());
        }
        let clock = self.client_clock();
        let messages = deliveries.iter().map(|message| {
            let encoded = Outgoing::new(&message, clock).encode();
            single("message", Value::Binary(encoded))
        });
        let body = single("messages", Value::List(messages.collect()));
        Ok(Answer::granted(200, body))
    }

    /// `link` is the one that the client would have received them through. It tells the session where the arguments do
    /// not, as those of the Go client.
    pub(super) fn receive_deferred(&self, arguments: &Arguments, link: Option<&str>) -> Outcome {
        let queue = self.listened_queue()?;
        let numbers = arguments.sequence_numbers()?;
        let mode = match arguments.integer("receiver-settle-mode")? {
            0 => ReceiveMode::ReceiveAndDelete,
            1 => ReceiveMode::PeekLock,
            _ => return Err(mistyped("receiver-settle-mode", "0 or 1")),
        };
        let session = match arguments.optional_text("session-id")? {
            Some(session) => {
                let lock = (self.session_lock)(queue, LockedSession::Id(session));
                Some(lock.ok_or_else(|| refusal(&QueueError::SessionLockLost))?)
            }
            None => link.and_then(|link| (self.session_lock)(queue, LockedSession::Link(link))),
        };
        let request = ReceiveRequest {
            mode,
            session: session.as_ref(),
            messages: numbers.len(),
            bytes: DEFERRED_BYTES_MAX,
        };
        let mut deliveries = Deliveries::new();
        let commit = queue
            .receive_deferred(self.unix_time(), &numbers, &request, &mut deliveries)
            .map_err(|error| refusal(&error))?;
        let clock = self.client_clock();
        let messages = deliveries.iter().map(|message| deferred(&message, clock));
        let body = single("messages", Value::List(messages.collect()));
        Ok(Answer::granted(200, body).after(commit))
    }
}

/// A message with its lock, told twice: clients differ in where they look.
fn deferred(message: &Delivery<'_>, clock: ClientClock) -> Value {
    let encoded = Outgoing::new(message, clock).encode();
    let mut entries = vec![(Value::from("message"), Value::Binary(encoded))];
    if let Some(lock) = &message.lock {
        let token = Value::Uuid(lock.token.to_bytes());
        entries.push((Value::from("lock-token"), token));
    }
    Value::Map(entries)
}

/// Most messages that are told at once; clients ask for the rest from the last one on.
const MESSAGES_MAX: usize = 1_000;

/// Most bytes of deferred messages that are given at once, unless a single one is longer: a client gets those it asks for,
/// all of them, and a queue may hold a thousand times as many.
const DEFERRED_BYTES_MAX: usize = 4 * 1024 * 1024;

/// About how many bytes are told at once.
const BYTES_MAX: usize = 256 * 1024;
