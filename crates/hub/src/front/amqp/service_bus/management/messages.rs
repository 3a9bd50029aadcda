//! Requests that peek, receive deferred, or batch-delete messages.

use amqp::Value;
use amqp::performative::ErrorCondition;

use super::super::outgoing::Outgoing;
use super::arguments::{Arguments, mistyped};
use super::{
    Answer, LockedSession, ManagedEntity, Outcome, Request, not_in_transaction, nothing, refusal, single,
};
use crate::clock::ClientClock;
use partition_log::UnixTime;
use partition_log::disk::CommitNumber;
use queue_store::{DeleteRequest, Deliveries, Delivery, ReceiveMode, ReceiveRequest};

impl Request<'_> {
    pub(super) fn peek(&self, arguments: &Arguments) -> Outcome {
        // Clients begin below the first number there is.
        let from = arguments.integer("from-sequence-number")?.max(0).cast_unsigned();
        let count = arguments.count("message-count")?.min(MESSAGES_MAX);
        let session = arguments.optional_text("session-id")?;
        let now = self.unix_time();
        let mut deliveries = Deliveries::new();
        let requires_session = match self.entity {
            // What is scheduled in it.
            ManagedEntity::Topic(topic) => {
                topic.peek(now, from, count, BYTES_MAX, session, &mut deliveries);
                false
            }
            ManagedEntity::Queue(_) | ManagedEntity::Subscription(_) => {
                let queue = self.entity.queue()?;
                queue.peek(now, from, count, BYTES_MAX, session, &mut deliveries);
                queue.options().requires_session
            }
        };
        if deliveries.is_empty() {
            return Ok(nothing());
        }
        let messages = deliveries.iter().map(|message| {
            let encoded = Outgoing::peeked(&message, requires_session).encode();
            single("message", Value::Binary(encoded))
        });
        let body = single("messages", Value::List(messages.collect()));
        Ok(Answer::granted(200, body))
    }

    pub(super) fn delete(&self, arguments: &Arguments) -> Outcome {
        let queue = self.entity.queue()?;
        let messages = arguments.count("message-count")?;
        if !(1..=DELETED_MAX).contains(&messages) {
            let text = format!("'message-count' is not between 1 and {DELETED_MAX}.");
            return Err(Answer::failed(400, ErrorCondition::ARGUMENT_OUT_OF_RANGE, text));
        }
        let enqueued_before = match arguments.find(ENQUEUED_BEFORE) {
            None => UnixTime::from_milliseconds(i64::MAX),
            Some(Value::Timestamp(before)) => UnixTime::from_milliseconds(*before),
            Some(_) => return Err(mistyped(ENQUEUED_BEFORE, "a timestamp")),
        };
        let session = match arguments.optional_text("session-id")? {
            Some(id) => Some(self.held_session(queue, id)?),
            None => None,
        };
        let request = DeleteRequest { enqueued_before, session: session.as_ref(), messages };
        let (deleted, commit) = match self.work() {
            Some((mut work, _)) => {
                let deleted = work.delete(queue, self.unix_time(), &request).map_err(not_in_transaction)?;
                (deleted, CommitNumber::DONE)
            }
            None => queue.delete(self.unix_time(), &request).map_err(|error| refusal(&error))?,
        };
        if deleted == 0 {
            return Ok(nothing());
        }
        let deleted = i32::try_from(deleted).unwrap_or(i32::MAX);
        Ok(Answer::granted(200, single("message-count", Value::Int(deleted))).after(commit))
    }

    /// `link` is the one that the client would have received them through. It tells the session where the arguments do
    /// not, as those of the Go client.
    pub(super) fn receive_deferred(&self, arguments: &Arguments, link: Option<&str>) -> Outcome {
        let queue = self.entity.queue()?;
        let numbers = arguments.sequence_numbers()?;
        let mode = match arguments.integer("receiver-settle-mode")? {
            0 => ReceiveMode::ReceiveAndDelete,
            1 => ReceiveMode::PeekLock,
            _ => return Err(mistyped("receiver-settle-mode", "0 or 1")),
        };
        let session = match arguments.optional_text("session-id")? {
            Some(session) => Some(self.held_session(queue, session)?),
            None => link.and_then(|link| (self.session_lock)(queue, LockedSession::Link(link))),
        };
        let work = self.work();
        let request = ReceiveRequest {
            mode: match work {
                // They are deleted when it is committed.
                Some(_) => ReceiveMode::PeekLock,
                None => mode,
            },
            session: session.as_ref(),
            messages: numbers.len(),
            bytes: DEFERRED_BYTES_MAX,
        };
        let mut work = match work {
            Some((mut work, _)) => {
                work.enlist_receiving(queue, numbers.len()).map_err(not_in_transaction)?;
                Some(work)
            }
            None => None,
        };
        let mut deliveries = Deliveries::new();
        let commit = queue
            .receive_deferred(self.unix_time(), &numbers, &request, &mut deliveries)
            .map_err(|error| refusal(&error))?;
        if mode == ReceiveMode::ReceiveAndDelete
            && let Some(work) = &mut work
        {
            let tokens = deliveries.iter().filter_map(|message| message.lock.map(|lock| lock.token));
            work.delete_received(queue, tokens.collect());
        }
        let clock = self.client_clock();
        let messages = deliveries.iter().map(|message| {
            // Of what is deleted there is no lock to tell of.
            let lock = message.lock.filter(|_| mode == ReceiveMode::PeekLock);
            deferred(&Delivery { lock, ..message }, clock)
        });
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

/// Argument: only messages enqueued before this instant are deleted. All, if it is missing.
const ENQUEUED_BEFORE: &str = "enqueued-time-utc";

/// Maximum number of messages of one batch-delete request, as in the service.
const DELETED_MAX: usize = 4_000;

/// Most messages that are told at once; clients ask for the rest from the last one on.
const MESSAGES_MAX: usize = 1_000;

/// Most bytes of deferred messages that are given at once, unless a single one is longer: a client gets those it asks for,
/// all of them, and a queue may hold a thousand times as many.
const DEFERRED_BYTES_MAX: usize = 4 * 1024 * 1024;

/// About how many bytes are told at once.
const BYTES_MAX: usize = 256 * 1024;
