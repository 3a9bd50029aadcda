//! Messages that are to become visible later.

use std::sync::Arc;

use amqp::Value;

use super::super::conditions;
use super::super::incoming::{IncomingMessage, MessageIds};
use super::arguments::{Arguments, mistyped};
use super::{Answer, ManagedEntity, Outcome, Request, done, not_in_transaction, refusal, single};
use crate::aside::send_to_topic;
use partition_log::disk::CommitNumber;
use queue_store::{Entity, NewMessage, QueueError};

impl Request<'_> {
    pub(super) fn schedule(&self, arguments: &Arguments) -> Outcome {
        let entries = arguments.elements("messages")?;
        let mut ids = MessageIds::new();
        let mut messages = Vec::with_capacity(entries.len());
        let mut all_encoded = Vec::with_capacity(entries.len());
        for entry in entries {
            let Some(Value::Binary(encoded)) = entry.get("message") else {
                return Err(mistyped("messages", "a list of maps, each with a 'message'"));
            };
            let message = IncomingMessage::parse(encoded, &mut ids).map_err(|error| {
                let condition = conditions::message_condition(&error);
                Answer::failed(400, condition, format!("{error}."))
            })?;
            messages.push(message);
            all_encoded.push(&encoded[..]);
        }
        let pieces: Vec<[&[u8]; 2]> = messages.iter().map(IncomingMessage::kept).collect();
        let new: Vec<NewMessage<'_>> =
            messages.iter().zip(&pieces).map(|(message, pieces)| message.to_new(pieces)).collect();
        let now = self.unix_time();
        let entity = self.sent_entity()?;
        let (sequence_numbers, commit) = match self.work() {
            Some((mut work, enlisting)) => {
                let numbers = work.schedule(&entity, enlisting, now, (&new, &all_encoded));
                (numbers.map_err(not_in_transaction)?, CommitNumber::DONE)
            }
            None => {
                let scheduled = match &entity {
                    Entity::Queue(queue) => queue.schedule(now, &new),
                    Entity::Topic(topic) => send_to_topic(topic, new.len(), || topic.schedule(now, &new)),
                };
                let scheduled = scheduled.map_err(|error| refusal(&error))?;
                (scheduled.sequence_numbers, scheduled.commit)
            }
        };
        let numbers = sequence_numbers.iter().map(|number| Value::Long(number.cast_signed()));
        let body = single("sequence-numbers", Value::Array(numbers.collect()));
        Ok(Answer::granted(200, body).after(commit))
    }

    pub(super) fn cancel_scheduled(&self, arguments: &Arguments) -> Outcome {
        let numbers = arguments.sequence_numbers()?;
        let now = self.unix_time();
        let entity = self.sent_entity()?;
        if let Some((mut work, enlisting)) = self.work() {
            work.cancel(&entity, enlisting, now, &numbers).map_err(not_in_transaction)?;
            return Ok(done());
        }
        let cancelled = match &entity {
            Entity::Queue(queue) => queue.cancel_scheduled(now, &numbers),
            Entity::Topic(topic) => topic.cancel_scheduled(now, &numbers),
        };
        let commit = cancelled.map_err(|error| refusal(&error))?;
        Ok(done().after(commit))
    }

    /// Returns the queue or topic that messages are scheduled in. Subscriptions are refused.
    fn sent_entity(&self) -> Result<Entity, Answer> {
        match self.entity {
            ManagedEntity::Queue(queue) => Ok(Entity::Queue(Arc::clone(queue))),
            ManagedEntity::Topic(topic) => Ok(Entity::Topic(Arc::clone(topic))),
            ManagedEntity::Subscription(_) => Err(refusal(&QueueError::SendingNotAllowed)),
        }
    }
}
