//! From transfers to a queue or a topic. Hot path.
//!
//! The transfers that one burst of input brings for a link are parsed where they lie and stored in one call, so under
//! one lock. Where the store refuses the lot, they are stored one after the other, so that each gets the outcome that is
//! its own; the messages of a batch share theirs in any case.

use std::cell::RefCell;
use std::sync::Arc;

use super::conditions;
use super::incoming::{IncomingMessage, MessageError, MessageIds, each_message};
use crate::aside::send_to_topic;
use crate::front::amqp::links::node::Stored;
use partition_log::disk::CommitNumber;
use partition_log::{Subscriber, UnixTime};
use queue_store::{Enqueued, Entity, NewMessage, QueueError, Waiter};
use units::recycled::{bounded, emptied};

/// A link through which a client sends.
#[derive(Debug)]
pub(crate) struct SendLink {
    entity: Entity,
    /// The entity that the client sends through, if it names one: in transactions it stands for the other.
    via: Option<String>,
    /// Reports the end of the entity, where somebody wants to hear of it.
    _waiter: Option<Waiter>,
}

/// What is needed to take in a burst. One for all connections of a thread: a connection at rest is to hold little.
#[derive(Debug)]
struct Burst {
    ids: MessageIds,
    messages: Vec<IncomingMessage<'static>>,
    pieces: Vec<[&'static [u8]; 2]>,
    new: Vec<NewMessage<'static>>,
    /// The place in the run of each transfer that could be read, and where its messages end.
    ends: Vec<(usize, usize)>,
}

impl SendLink {
    pub(crate) const fn new(entity: Entity) -> Self {
        Self { entity, via: None, _waiter: None }
    }

    /// The same for what is sent through the entity `via`, if one is named; and `key` is reported to `subscriber` when the entity is
    /// deleted.
    pub(crate) fn watching(
        entity: Entity,
        via: Option<String>,
        subscriber: &Arc<Subscriber>,
        key: u64,
    ) -> Self {
        let waiter = match &entity {
            Entity::Queue(queue) => queue.waiter(subscriber, key),
            Entity::Topic(topic) => topic.waiter(subscriber, key),
        };
        Self { entity, via, _waiter: Some(waiter) }
    }

    /// Whether the entity was deleted.
    pub(crate) fn is_deleted(&self) -> bool {
        self.entity.is_deleted()
    }

    /// What it sends to.
    pub(super) const fn entity(&self) -> &Entity {
        &self.entity
    }

    /// The name of the entity that transactions take it for.
    pub(crate) fn transaction_entity(&self) -> &str {
        self.via.as_deref().unwrap_or_else(|| self.entity.name())
    }

    /// The name of what it sends to.
    pub(crate) fn entity_name(&self) -> &str {
        self.entity.name()
    }

    /// Stores a run of transfers, each given by its format and its bytes. `stored` gets what became of each.
    pub(crate) fn store<'a>(
        &self,
        transfers: impl Iterator<Item = (u32, &'a [u8])>,
        now: UnixTime,
        stored: &mut Stored,
    ) {
        stored.commits.clear();
        stored.refused.clear();
        BURST.with_borrow_mut(|burst| self.store_burst(transfers, now, burst, stored));
    }

    fn store_burst<'a>(
        &self,
        transfers: impl Iterator<Item = (u32, &'a [u8])>,
        now: UnixTime,
        burst: &mut Burst,
        stored: &mut Stored,
    ) {
        let mut messages: Vec<IncomingMessage<'a>> = emptied(std::mem::take(&mut burst.messages));
        burst.ends.clear();
        for (place, (format, transfer)) in transfers.enumerate() {
            stored.commits.push(CommitNumber::DONE);
            let start = messages.len();
            let parsed = each_message(format, transfer, |message| {
                messages.push(IncomingMessage::parse(message, &mut burst.ids)?);
                Ok::<(), MessageError>(())
            });
            match parsed {
                Ok(()) => burst.ends.push((place, messages.len())),
                Err(error) => {
                    messages.truncate(start);
                    stored.refused.push((place, conditions::malformed(&error)));
                }
            }
        }
        {
            let mut pieces = emptied(std::mem::take(&mut burst.pieces));
            pieces.extend(messages.iter().map(IncomingMessage::kept));
            let mut new = emptied(std::mem::take(&mut burst.new));
            let pairs = messages.iter().zip(&pieces);
            new.extend(pairs.map(|(message, pieces)| message.to_new(pieces)));
            self.store_all(&new, &burst.ends, now, stored);
            burst.new = bounded(emptied(new), KEPT_MESSAGES);
            burst.pieces = bounded(emptied(pieces), KEPT_MESSAGES);
        }
        burst.messages = bounded(emptied(messages), KEPT_MESSAGES);
    }

    fn store_all(
        &self,
        messages: &[NewMessage<'_>],
        ends: &[(usize, usize)],
        now: UnixTime,
        stored: &mut Stored,
    ) {
        if messages.is_empty() {
            return;
        }
        match self.enqueue(now, messages) {
            Ok(enqueued) => stored.commits.fill(enqueued.commit),
            Err(error) if ends.len() == 1 => {
                stored.refused.push((ends[0].0, conditions::rejected(&error)));
            }
            Err(_) => self.store_each(messages, ends, now, stored),
        }
        // Those that could not even be read came first.
        stored.refused.sort_unstable_by_key(|(place, _)| *place);
    }

    #[cold]
    fn store_each(
        &self,
        messages: &[NewMessage<'_>],
        ends: &[(usize, usize)],
        now: UnixTime,
        stored: &mut Stored,
    ) {
        let mut start = 0;
        for (place, end) in ends {
            match self.enqueue(now, &messages[start..*end]) {
                Ok(enqueued) => stored.commits[*place] = enqueued.commit,
                Err(error) => stored.refused.push((*place, conditions::rejected(&error))),
            }
            start = *end;
        }
    }

    fn enqueue(&self, now: UnixTime, messages: &[NewMessage<'_>]) -> Result<Enqueued, QueueError> {
        match &self.entity {
            Entity::Queue(queue) => queue.enqueue(now, messages),
            Entity::Topic(topic) => send_to_topic(topic, messages.len(), || topic.enqueue(now, messages)),
        }
    }
}

impl Default for Burst {
    fn default() -> Self {
        Self {
            ids: MessageIds::new(),
            messages: Vec::new(),
            pieces: Vec::new(),
            new: Vec::new(),
            ends: Vec::new(),
        }
    }
}

thread_local! {
    static BURST: RefCell<Burst> = RefCell::default();
}

/// Number of messages of a batch for which memory is retained. Larger batches release theirs.
const KEPT_MESSAGES: usize = 8_192;
