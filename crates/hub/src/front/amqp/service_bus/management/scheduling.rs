//! Messages that are to become visible later.

use access::Right;
use amqp::Value;

use super::super::conditions;
use super::super::incoming::{BATCH_MESSAGES_MAX, IncomingMessage, MessageIds};
use super::arguments::{Arguments, invalid, mistyped};
use super::{Answer, ManagedEntity, Outcome, Request, done, refusal, single};
use crate::aside::send_to_topic;
use queue_store::{NewMessage, QueueError};

impl Request<'_> {
    pub(super) fn schedule(&self, arguments: &Arguments) -> Outcome {
        self.authorize(&[Right::Send])?;
        let entries = arguments.elements("messages")?;
        if entries.len() > BATCH_MESSAGES_MAX {
            let text = format!("'messages' has more than {BATCH_MESSAGES_MAX} messages.");
            return Err(invalid(text));
        }
        let mut ids = MessageIds::new();
        let mut messages = Vec::with_capacity(entries.len());
        for entry in entries {
            let Some(Value::Binary(encoded)) = entry.get("message") else {
                return Err(mistyped("messages", "a list of maps, each with a 'message'"));
            };
            let message = IncomingMessage::parse(encoded, &mut ids).map_err(|error| {
                let condition = conditions::message_condition(&error);
                Answer::failed(400, condition, format!("{error}."))
            })?;
            messages.push(message);
        }
        let pieces: Vec<[&[u8]; 2]> = messages.iter().map(IncomingMessage::kept).collect();
        let new: Vec<NewMessage<'_>> =
            messages.iter().zip(&pieces).map(|(message, pieces)| message.to_new(pieces)).collect();
        let now = self.unix_time();
        let scheduled = match self.entity {
            ManagedEntity::Queue(queue) => queue.schedule(now, &new),
            ManagedEntity::Topic(topic) => send_to_topic(topic, new.len(), || topic.schedule(now, &new)),
            ManagedEntity::Subscription(_) => Err(QueueError::SendingNotAllowed),
        };
        let scheduled = scheduled.map_err(|error| refusal(&error))?;
        let numbers = scheduled.sequence_numbers.iter();
        let numbers = numbers.map(|number| Value::Long(number.cast_signed()));
        let body = single("sequence-numbers", Value::Array(numbers.collect()));
        Ok(Answer::granted(200, body).after(scheduled.commit))
    }

    pub(super) fn cancel_scheduled(&self, arguments: &Arguments) -> Outcome {
        self.authorize(&[Right::Send])?;
        let numbers = arguments.sequence_numbers()?;
        let now = self.unix_time();
        let cancelled = match self.entity {
            ManagedEntity::Queue(queue) => queue.cancel_scheduled(now, &numbers),
            ManagedEntity::Topic(topic) => topic.cancel_scheduled(now, &numbers),
            ManagedEntity::Subscription(_) => Err(QueueError::SendingNotAllowed),
        };
        let commit = cancelled.map_err(|error| refusal(&error))?;
        Ok(done().after(commit))
    }
}
