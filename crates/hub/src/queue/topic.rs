//! A topic as its users have it: send, and the subscriptions.

use super::error::QueueError;
use super::message::NewMessage;
use super::options::TopicOptions;
use super::queue::{Enqueued, Queue, Scheduled};
use crate::log::disk::CommitNumber;
use crate::unix_time::UnixTime;
use std::sync::Arc;

/// A topic: what is sent to it is copied to each subscription whose rules say so.
///
/// All subscriptions get a batch, or none does. A scheduled message waits in the topic, and is copied at its time.
#[derive(Debug)]
pub struct Topic {
    todo: (),
}

/// A subscription of a topic: rules, and a queue of what they let through.
#[derive(Debug)]
pub struct Subscription {
    todo: (),
}

impl Topic {
    /// Its name.
    #[must_use]
    pub fn name(&self) -> &str {
        todo!()
    }

    /// Its options.
    #[must_use]
    pub fn options(&self) -> &TopicOptions {
        todo!()
    }

    /// The subscription of this name, whatever the letter case.
    #[must_use]
    pub fn subscription(&self, name: &str) -> Option<Arc<Subscription>> {
        todo!("{name}")
    }

    /// All subscriptions, in the order of their creation.
    #[must_use]
    pub fn subscriptions(&self) -> Vec<Arc<Subscription>> {
        todo!()
    }

    /// As [`Queue::enqueue`]; the count is that of the messages sent, however many subscriptions take them.
    ///
    /// # Errors
    /// As [`Queue::enqueue`].
    pub fn enqueue(
        &self,
        now: UnixTime,
        messages: &[NewMessage<'_>],
    ) -> Result<Enqueued, QueueError> {
        todo!("{now} {messages:?}")
    }

    /// As [`Queue::schedule`].
    ///
    /// # Errors
    /// As [`Queue::schedule`].
    pub fn schedule(
        &self,
        now: UnixTime,
        messages: &[NewMessage<'_>],
    ) -> Result<Scheduled, QueueError> {
        todo!("{now} {messages:?}")
    }

    /// As [`Queue::cancel_scheduled`].
    ///
    /// # Errors
    /// As [`Queue::cancel_scheduled`].
    pub fn cancel_scheduled(
        &self,
        now: UnixTime,
        sequence_numbers: &[u64],
    ) -> Result<CommitNumber, QueueError> {
        todo!("{now} {sequence_numbers:?}")
    }
}

impl Subscription {
    /// Its own name, without that of the topic.
    #[must_use]
    pub fn name(&self) -> &str {
        todo!()
    }

    /// What it holds.
    #[must_use]
    pub fn queue(&self) -> &Arc<Queue> {
        todo!()
    }
}
