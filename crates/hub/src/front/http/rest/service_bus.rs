//! Messages of queues, topics and subscriptions: sent, received one at a time, and settled by the URL that came with them.

use std::future::poll_fn;
use std::iter;
use std::sync::Arc;
use std::time::Duration;

use ::rest::answer;
use ::rest::batch::Batch;
use ::rest::broker_properties::{BrokerProperties, ReceivedProperties};
use ::rest::message;
use ::rest::property::{self, http_date};
use ::rest::target::{Target, uuid_text};
use amqp::message::{FORMAT_AMQP, FORMAT_BATCH, encode};
use amqp::performative::{DeliveryState, ErrorCondition};
use partition_log::disk::CommitNumber;
use partition_log::{Subscriber, UnixTime};
use queue_store::{
    Awaited, Deliveries, Delivery, Found, LockToken, Queue, QueueError, ReceiveMode, ReceiveRequest,
    Settlement,
};
use tokio::time::Instant;

use super::counters::Operation;
use super::event_hubs::{is_batch, malformed, refused};
use super::refusal::Refusal;
use super::reply::Reply;
use super::session::{Session, after};
use super::{Request, Step};
use crate::clock::ClientClock;
use crate::front::amqp::{SendLink, Stored};
use crate::front::pending::Until;

/// A request that waits for a message.
#[derive(Debug)]
pub(super) struct Receiving {
    queue: Arc<Queue>,
    mode: ReceiveMode,
    until: Instant,
    path: String,
    /// Where its messages are for the client.
    url: String,
}

impl Session {
    /// Stores the message of a request, or its messages: all of them or none.
    ///
    /// # Errors
    /// Nothing is stored.
    pub(super) fn send_messages(
        &self,
        link: &SendLink,
        request: &Request<'_>,
        body: &[u8],
        now: UnixTime,
    ) -> Result<Step, Refusal> {
        let most = usize::try_from(self.front.namespace.largest_message()).unwrap_or(usize::MAX);
        let mut transfer = Vec::new();
        let (format, count) = match is_batch(request)? {
            true => (FORMAT_BATCH, put_batch(&mut transfer, body, most)?),
            false => {
                put_message(&mut transfer, request, body)?;
                (FORMAT_AMQP, 1)
            }
        };
        if transfer.len() > most {
            return Err(too_large(most));
        }
        self.store(
            link.entity_name(),
            (transfer.len(), count),
            || {},
            || {
                Stored::with(|stored| {
                    link.store(iter::once((format, &transfer[..])), now, stored);
                    match stored.refused.pop() {
                        Some((_, outcome)) => Err(rejected(outcome)),
                        None => Ok(stored.commits.first().copied().unwrap_or(CommitNumber::DONE)),
                    }
                })
            },
        )
    }

    /// Gets ready to give out the next message of a queue.
    ///
    /// # Errors
    /// The queue has sessions, or the time to wait is none.
    pub(super) fn receive(
        &self,
        request: &Request<'_>,
        queue: Arc<Queue>,
        path: String,
        deletes: bool,
    ) -> Result<Step, Refusal> {
        if queue.options().requires_session {
            return Err(Refusal::queue(&QueueError::SessionRequired));
        }
        let target = Target::parse(request.target);
        let timeout = match target.as_ref().and_then(|target| target.parameter("timeout")) {
            None => DEFAULT_WAIT,
            Some(seconds) => seconds.parse().map(Duration::from_secs).map_err(|_| {
                Refusal::new(400, format!("timeout is not a number of seconds: '{seconds}'."))
            })?,
        };
        Ok(Step::Receive(Box::new(Receiving {
            queue,
            mode: if deletes { ReceiveMode::ReceiveAndDelete } else { ReceiveMode::PeekLock },
            until: Instant::now() + timeout.min(LONGEST_WAIT),
            url: self.url(request, &path),
            path,
        })))
    }

    /// Completes a message, gives it back, or locks it for longer.
    ///
    /// # Errors
    /// The lock is over.
    pub(super) fn settle(
        &self,
        operation: Operation,
        queue: &Arc<Queue>,
        token: LockToken,
        now: UnixTime,
    ) -> Result<Step, Refusal> {
        let instant = self.settle_at(queue.name());
        let settled = |settlement: Settlement<'_>| {
            let settled = queue.settle(now, &[token], &settlement).map_err(|error| Refusal::queue(&error))?;
            match settled.refused.is_empty() {
                true => Ok(settled.commit),
                false => Err(lock_lost(&QueueError::MessageLockLost)),
            }
        };
        let commit = match operation {
            Operation::Complete => settled(Settlement::Complete)?,
            Operation::Abandon => settled(Settlement::Abandon { properties: &[] })?,
            _ => match queue.renew_locks(now, &[token]).pop() {
                Some(Err(error)) => return Err(lock_lost(&error)),
                Some(Ok(_)) | None => CommitNumber::DONE,
            },
        };
        Ok(after(Reply::empty(200), Until { commit, instant }))
    }
}

impl Receiving {
    /// Waits for a message and gives it out; nothing is locked for whoever does not wait any longer.
    pub(super) async fn receive(&self, session: &Session) -> Reply {
        let subscriber = Subscriber::new();
        let mut waiter = None;
        loop {
            session.until_delivery().await;
            session.front.namespace.clock().goes().await;
            let now = session.front.namespace.clock().now().into();
            let mut deliveries = Deliveries::new();
            let request = ReceiveRequest { mode: self.mode, session: None, messages: 1, bytes: usize::MAX };
            let commit = match self.queue.receive(now, &request, &mut deliveries) {
                Ok(commit) => commit,
                Err(error) => return session.refused_at(&self.path, Refusal::queue(&error)),
            };
            if let Some(message) = deliveries.iter().next() {
                let reply = self.reply(&message, session.front.namespace.clock().of_clients());
                session.delivered(message.sections.len());
                return match session.committed(commit).await {
                    Ok(()) => reply,
                    Err(refusal) => session.refused_at(&self.path, refusal),
                };
            }
            let waiter = waiter.get_or_insert_with(|| self.queue.waiter(&subscriber, 0));
            if waiter.arm(now, Awaited::Message) == Found::Something {
                continue;
            }
            let mut keys = Vec::new();
            let reported = poll_fn(|cx| subscriber.poll_ready(cx, &mut keys));
            if tokio::time::timeout_at(self.until, reported).await.is_err() {
                return Reply::empty(204);
            }
        }
    }

    fn reply(&self, message: &Delivery<'_>, clock: ClientClock) -> Reply {
        let mut received = ReceivedProperties {
            delivery_count: u64::from(message.delivery_count) + 1,
            enqueued_sequence_number: message.enqueue_sequence_number,
            enqueued_time_utc: http_date(message.enqueued_time.milliseconds()),
            sequence_number: message.sequence_number,
            state: "Active",
            time_to_live: message.time_to_live.map(|time| time.as_secs_f64()),
            ..ReceivedProperties::default()
        };
        let key = answer::partition_key(message.annotations, message.annotation_count);
        received.partition_key = key.ok().flatten();
        // What was stored could be read; a body that could not would be sent as it is.
        let content = answer::content(message.sections, &mut received).unwrap_or_else(|_| answer::Content {
            body: message.sections.into(),
            ..answer::Content::default()
        });
        let mut reply = Reply::empty(200);
        if let Some(lock) = &message.lock {
            let token = uuid_text(lock.token.to_bytes());
            received.locked_until_utc = Some(http_date(clock.lock_end(lock.until).milliseconds()));
            let location = format!("{}/messages/{}/{token}", self.url, message.sequence_number);
            if property::is_field_value(&location) {
                reply.fields.push(("Location".into(), location));
            }
            received.lock_token = Some(token);
            reply.status = 201;
        }
        reply.fields.push(("BrokerProperties".into(), received.to_field()));
        reply.fields.extend(content.fields.into_iter().map(|(name, value)| (name.into(), value)));
        reply.content_type = content.content_type.map(Into::into);
        reply.body = content.body.into_owned().into();
        reply
    }
}

fn put_message(transfer: &mut Vec<u8>, request: &Request<'_>, body: &[u8]) -> Result<(), Refusal> {
    let broker = match request.field("brokerproperties") {
        Some(text) => BrokerProperties::parse(text).map_err(malformed)?,
        None => BrokerProperties::default(),
    };
    let custom = |out: &mut Vec<u8>| message::custom_properties(out, request.fields);
    let content_type = request.field("content-type");
    message::message_head(transfer, &broker, content_type, custom, body.len()).map_err(malformed)?;
    transfer.extend_from_slice(body);
    Ok(())
}

/// Writes a batch as AMQP has it, and says how many messages it holds.
fn put_batch(transfer: &mut Vec<u8>, body: &[u8], most: usize) -> Result<usize, Refusal> {
    let mut batch = Batch::default();
    batch.parse(body, most).map_err(|error| match error {
        ::rest::batch::BatchError::TooLarge { most } => too_large(most),
        error => refused(&error),
    })?;
    let (none, mut encoded) = (BrokerProperties::default(), Vec::new());
    for element in batch.elements() {
        encoded.clear();
        let custom = |out: &mut Vec<u8>| {
            message::application_properties(out, element.property_count, element.properties);
        };
        let broker = element.broker.unwrap_or(&none);
        message::message_head(&mut encoded, broker, None, custom, element.body.len()).map_err(malformed)?;
        encoded.extend_from_slice(element.body);
        encode::data(transfer, &encoded);
    }
    Ok(batch.len())
}

/// The refusal that stands for the outcome of a message that is not stored.
#[cold]
fn rejected(outcome: DeliveryState) -> Refusal {
    let DeliveryState::Rejected(Some(error)) = outcome else {
        return Refusal::new(500, "The message was not stored.");
    };
    let is = |conditions: &[ErrorCondition]| conditions.contains(&error.condition);
    let status = if is(&[ErrorCondition::SERVER_BUSY]) {
        503
    } else if is(&[ErrorCondition::NOT_FOUND]) {
        404
    } else if is(&FULL_OR_OFF) {
        403
    } else {
        400
    };
    Refusal::new(status, error.description)
}

/// Too large a message is answered like a full queue.
fn too_large(most: usize) -> Refusal {
    Refusal { status: 403, ..Refusal::too_large(most) }
}

/// A lock that is over is a message that is not there.
fn lock_lost(error: &QueueError) -> Refusal {
    Refusal { status: 404, ..Refusal::queue(error) }
}

/// What is answered as a quota that is used up.
const FULL_OR_OFF: [ErrorCondition; 3] = [
    ErrorCondition::RESOURCE_LIMIT_EXCEEDED,
    ErrorCondition::MESSAGE_SIZE_EXCEEDED,
    ErrorCondition::ENTITY_DISABLED,
];

/// How long a request waits for a message that says nothing of it.
const DEFAULT_WAIT: Duration = Duration::from_secs(60);

/// How long one waits at most: less than a connection may be silent.
const LONGEST_WAIT: Duration = Duration::from_secs(240);
