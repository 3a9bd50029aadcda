//! A queue, a subscription, or the dead letters of either: how it stands, and what is in it.

use std::sync::Arc;

use queue_store::{Deliveries, Delivery, Entity, MessageState, Queue, Subscription};
use serde::Serialize;
use serde_json::{Map, Value as Json, json};

use super::ExplorerFront;
use super::message::{self, Message};
use super::overview::QueueGlance;
use super::query::Query;
use super::reply::{self, Refusal, Reply};
use super::rules::RuleDetails;
use crate::front::amqp::{EntityAddress, Part};

/// What a path names.
pub(super) struct Found {
    pub(super) queue: Arc<Queue>,
    /// The subscription whose queue it is.
    pub(super) subscription: Option<Arc<Subscription>>,
}

#[derive(Debug, Serialize)]
struct SessionDetails {
    id: String,
    messages: u64,
    available: u64,
    locked_until_ms: Option<i64>,
    state_bytes: Option<usize>,
}

impl ExplorerFront {
    /// A queue as it stands.
    ///
    /// # Errors
    /// There is none at that path.
    pub(super) fn queue(&self, query: &Query<'_>) -> Result<Reply, Refusal> {
        let found = self.find_queue(&query.required("entity")?)?;
        let queue = &found.queue;
        let rules: Option<Vec<RuleDetails>> = found
            .subscription
            .as_ref()
            .map(|it| it.rules_by_name().iter().map(|rule| RuleDetails::of(rule)).collect());
        Ok(reply::json(&json!({
            "queue": QueueGlance::of(queue, queue.name()),
            "options": *queue.options(),
            "rules": rules,
        })))
    }

    /// Messages in the order of their numbers: `top` of them after the first `skip`, or from one number on.
    ///
    /// # Errors
    /// There is no queue at that path.
    pub(super) fn messages(&self, query: &Query<'_>) -> Result<Reply, Refusal> {
        let found = self.find_queue(&query.required("entity")?)?;
        let queue = &found.queue;
        let top = query.number("top")?.unwrap_or(PAGE).min(PAGE_MAX);
        let from = match query.number("from")? {
            Some(from) => Some(from),
            None => queue.number_at(query.number("skip")?.unwrap_or(0)),
        };
        let mut deliveries = Deliveries::new();
        if let Some(from) = from {
            queue.peek(self.now(), from, top, PAGE_BYTES, None, &mut deliveries);
        }
        let locks = queue.locks(deliveries.iter().map(|delivery| delivery.sequence_number));
        let rows: Vec<Json> = deliveries
            .iter()
            .zip(locks)
            .map(|(delivery, lock)| {
                let mut row = message_of(&delivery).row();
                add_delivery(&mut row, &delivery);
                if let Some(until) = lock {
                    row.insert("locked_until_ms".to_owned(), until.queue_time().milliseconds().into());
                }
                if queue.dead_letters().is_none()
                    && let Some(reason) = message_of(&delivery).property("DeadLetterReason")
                {
                    row.insert("reason".to_owned(), reason.into());
                }
                row.into()
            })
            .collect();
        let glance = QueueGlance::of(queue, queue.name());
        let total = glance.active + glance.deferred + glance.scheduled;
        Ok(reply::json(&json!({"total": total, "messages": rows})))
    }

    /// Everything that there is to say of one message.
    ///
    /// # Errors
    /// There is none of that number, or not any longer.
    pub(super) fn message(&self, query: &Query<'_>) -> Result<Reply, Refusal> {
        let found = self.find_queue(&query.required("entity")?)?;
        let number: u64 =
            query.number("sequence_number")?.ok_or_else(|| Refusal::bad("sequence_number is missing"))?;
        let deliveries = self.one_message(&found.queue, number)?;
        let Some(delivery) = deliveries.iter().next() else {
            return Err(gone(number));
        };
        let mut details = message_of(&delivery).details();
        add_delivery(&mut details, &delivery);
        details.insert("enqueue_sequence_number".to_owned(), delivery.enqueue_sequence_number.into());
        let until = found.queue.locks([number]).pop().flatten();
        details.insert(
            "locked_until_ms".to_owned(),
            until.map(|until| until.queue_time().milliseconds()).into(),
        );
        if let Some(time_to_live) = delivery.time_to_live {
            details.insert("time_to_live_ms".to_owned(), message::milliseconds(time_to_live).into());
        }
        if let Some(source) = delivery.dead_letter_source {
            details.insert("dead_letter_source".to_owned(), source.into());
        }
        Ok(reply::json(&details))
    }

    /// The sessions of a queue, by their names.
    ///
    /// # Errors
    /// There is no queue at that path.
    pub(super) fn sessions(&self, query: &Query<'_>) -> Result<Reply, Refusal> {
        let found = self.find_queue(&query.required("entity")?)?;
        let top = query.number("top")?.unwrap_or(PAGE).min(PAGE_MAX);
        let skip = query.number("skip")?.unwrap_or(0);
        let mut sessions = found.queue.describe_sessions(skip, top + 1);
        let has_more = sessions.len() > top;
        sessions.truncate(top);
        let sessions: Vec<SessionDetails> = sessions
            .into_iter()
            .map(|it| SessionDetails {
                id: it.id,
                messages: it.messages,
                available: it.available,
                locked_until_ms: it.locked_until.map(|until| until.queue_time().milliseconds()),
                state_bytes: it.state_bytes,
            })
            .collect();
        Ok(reply::json(&json!({"sessions": sessions, "has_more": has_more})))
    }

    /// A message as it is.
    ///
    /// # Errors
    /// There is none of that number.
    pub(super) fn one_message(&self, queue: &Queue, number: u64) -> Result<Deliveries, Refusal> {
        let mut deliveries = Deliveries::new();
        queue.peek(self.now(), number, 1, usize::MAX, None, &mut deliveries);
        let is_there = deliveries.iter().next().is_some_and(|delivery| delivery.sequence_number == number);
        match is_there {
            true => Ok(deliveries),
            false => Err(gone(number)),
        }
    }

    /// What a path names.
    ///
    /// # Errors
    /// It names nothing that messages wait in.
    pub(super) fn find_queue(&self, path: &str) -> Result<Found, Refusal> {
        let found = || {
            let address = EntityAddress::parse(path).filter(|address| !address.is_management)?;
            let entity = self.namespace.queue_or_topic(address.name)?;
            let (queue, subscription) = match (entity, address.subscription) {
                (Entity::Queue(queue), None) => (queue, None),
                (Entity::Topic(topic), Some(name)) => {
                    let subscription = topic.subscription(name)?;
                    (Arc::clone(subscription.queue()), Some(subscription))
                }
                _ => return None,
            };
            let queue = match address.part {
                Part::Main => queue,
                Part::DeadLetters => Arc::clone(queue.dead_letters()?),
                Part::TransferDeadLetters => Arc::clone(queue.transfer_dead_letters()?),
            };
            Some(Found { queue, subscription })
        };
        found().ok_or_else(|| Refusal::not_found(format!("there is no queue or subscription {path}")))
    }
}

pub(super) fn message_of<'a>(delivery: &Delivery<'a>) -> Message<'a> {
    Message {
        sections: delivery.sections,
        annotations: delivery.annotations,
        annotation_count: delivery.annotation_count.into(),
    }
}

fn add_delivery(object: &mut Map<String, Json>, delivery: &Delivery<'_>) {
    let state = match delivery.state {
        MessageState::Active => "active",
        MessageState::Deferred => "deferred",
        MessageState::Scheduled => "scheduled",
    };
    for (name, value) in [
        ("sequence_number", Json::from(delivery.sequence_number)),
        ("enqueued_ms", delivery.enqueued_time.milliseconds().into()),
        ("delivery_count", delivery.delivery_count.into()),
        ("state", state.into()),
    ] {
        object.insert(name.to_owned(), value);
    }
}

fn gone(number: u64) -> Refusal {
    Refusal::not_found(format!("there is no message {number}, or not any longer"))
}

/// Messages, or sessions, of an answer.
const PAGE: usize = 100;
const PAGE_MAX: usize = 500;

/// Bytes of messages that are looked at for an answer.
const PAGE_BYTES: usize = 4 * 1024 * 1024;
