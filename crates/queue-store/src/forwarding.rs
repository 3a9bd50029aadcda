//! Messages that go on to another queue or topic by themselves.
//!
//! A forwarder is a receiver like any other: it locks messages, sends them on, and completes them once the other entity has
//! them for good. So a crash between the two leaves a message in both places, and never in none. What the other
//! entity does not take at present waits where it is, and is tried again. What it never will take goes to the dead-letter
//! queue for that, and so does what was forwarded four times: in a circle it would go round for ever.

use super::entity::EntityState;
use super::error::QueueError;
use super::ledger::DEAD_LETTER_SOURCE;
use super::lock_token::LockToken;
use super::message::{Deliveries, Delivery, Forwarded, NewMessage};
use super::page::NEVER;
use super::queue::{Enqueued, Queue};
use super::queue_store::{Entity, QueueStore};
use super::requests::{ReceiveMode, Settlement};
use super::sending::NO_SESSION_ID;
use super::state::Wanted;
use amqp::codec::write;
use amqp::message::MessageView;
use partition_log::UnixTime;
use partition_log::disk::{CommitNumber, CommitState, Committer};
use std::borrow::Cow;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// What takes messages from one queue to another entity.
#[derive(Debug)]
pub(super) struct Forwarder {
    /// The queue, or its dead letters.
    source: Arc<Queue>,
    /// Whose options say where they go.
    owner: Arc<Queue>,
    /// Sent on, and not yet known to be safe there.
    under_way: Vec<(Vec<LockToken>, CommitNumber)>,
    /// How many messages are sent on at once: fewer after they were refused.
    batch: usize,
    deliveries: Deliveries,
}

impl Forwarder {
    /// The forwarders of a queue and of its dead letters.
    pub(super) fn of(queue: &Arc<Queue>) -> impl Iterator<Item = Self> {
        let dead_letters = queue.dead_letters().cloned();
        let forwarders = [Some(Arc::clone(queue)), dead_letters].into_iter().flatten().map(|source| Self {
            source,
            owner: Arc::clone(queue),
            under_way: Vec::new(),
            batch: BATCH,
            deliveries: Deliveries::new(),
        });
        forwarders.filter(|forwarder| forwarder.target().is_some())
    }

    /// Whether it takes messages from the same queue.
    pub(super) fn has_source_of(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.source, &other.source)
    }

    /// Whether there is something for it to do, now or later.
    pub(super) fn is_needed(&self) -> bool {
        !self.source.is_deleted() && (!self.under_way.is_empty() || self.target().is_some())
    }

    /// Where messages go now.
    fn target(&self) -> Option<String> {
        let options = self.owner.options();
        match Arc::ptr_eq(&self.source, &self.owner) {
            true => options.forward_to.clone(),
            false => options.forward_dead_lettered_messages_to.clone(),
        }
    }

    /// Forwards all messages that can be forwarded. Returns when to try again, in milliseconds.
    pub(super) fn run(&mut self, store: &QueueStore, committer: Option<&Committer>, now: UnixTime) -> i64 {
        let again = now.milliseconds();
        self.complete(committer, now);
        let Some(target) = self.target() else {
            return match self.under_way.is_empty() {
                true => NEVER,
                false => again.saturating_add(RECHECK_MS),
            };
        };
        let source = Arc::clone(&self.source);
        let notifies = &source.entity.notifies_forwarder;
        notifies.store(false, Ordering::Relaxed);
        loop {
            match self.forward(store, &target, committer, now) {
                Ok(0) => break,
                Ok(_) => {}
                Err(_refused) => return again.saturating_add(RETRY_MS),
            }
        }
        notifies.store(true, Ordering::Relaxed);
        // No notification came for a message that arrived just before.
        match source.has_ready() || !self.under_way.is_empty() {
            true => again.saturating_add(RECHECK_MS),
            false => NEVER,
        }
    }

    /// Forwards some messages. Returns how many.
    fn forward(
        &mut self,
        store: &QueueStore,
        target: &str,
        committer: Option<&Committer>,
        now: UnixTime,
    ) -> Result<usize, QueueError> {
        let mut deliveries = std::mem::take(&mut self.deliveries);
        deliveries.clear();
        let wanted = Wanted { mode: ReceiveMode::PeekLock, messages: self.batch, bytes: BATCH_BYTES };
        let place = self.source.place;
        self.source.operate(now, |state, now| {
            state.queues[place].receive(now, wanted, &mut deliveries, &mut state.effects);
            Ok(())
        })?;
        let count = deliveries.len();
        let (mut tokens, mut far) = (Vec::with_capacity(count), Vec::new());
        for (head, delivery) in deliveries.heads.iter().zip(deliveries.iter()) {
            let token = delivery.lock.map(|lock| lock.token);
            match head.hops < MAXIMUM_HOPS {
                true => tokens.extend(token),
                false => far.extend(token),
            }
        }
        if !far.is_empty() {
            self.give_up(now, &far, TOO_MANY_HOPS)?;
        }
        if tokens.is_empty() {
            self.deliveries = deliveries;
            return Ok(count);
        }
        let sent = send(store, target, now, &deliveries);
        self.deliveries = deliveries;
        match sent {
            Ok(enqueued) => {
                self.batch = BATCH;
                self.under_way.push((tokens, enqueued.commit));
                self.complete(committer, now);
                Ok(count)
            }
            Err(QueueError::SessionIdMissing { .. }) if tokens.len() == 1 => {
                self.give_up(now, &tokens, NO_SESSION_ID)?;
                Ok(count)
            }
            Err(refused) => {
                self.source.settle(now, &tokens, &Settlement::Release)?;
                if tokens.len() == 1 {
                    return Err(refused);
                }
                // Some of them may fit.
                self.batch = (tokens.len() / 4).max(1);
                Ok(count)
            }
        }
    }

    /// Moves messages to where those are that can't be forwarded.
    fn give_up(&self, now: UnixTime, tokens: &[LockToken], texts: (&str, &str)) -> Result<(), QueueError> {
        let place = self.source.place;
        let ((), _commit) = self.source.operate(now, |state, now| {
            let EntityState { queues, effects, .. } = state;
            queues[place].refuse_forwarding(now, tokens, texts, effects);
            Ok(())
        })?;
        Ok(())
    }

    /// Completes here what is safe there.
    fn complete(&mut self, committer: Option<&Committer>, now: UnixTime) {
        let source = &self.source;
        self.under_way.retain(|(tokens, commit)| {
            let state = match committer {
                _ if commit.is_done() => CommitState::Done,
                Some(committer) => committer.state_of(*commit),
                None => CommitState::Done,
            };
            let settlement = match state {
                CommitState::Waiting => return true,
                CommitState::Done => Settlement::Complete,
                CommitState::Failed => Settlement::Release,
            };
            // A lock that is lost meanwhile means that it is sent on twice.
            let _ = source.settle(now, tokens, &settlement);
            false
        });
    }
}

/// Sends messages on to the entity of this name.
fn send(
    store: &QueueStore,
    target: &str,
    now: UnixTime,
    deliveries: &Deliveries,
) -> Result<Enqueued, QueueError> {
    let target = store.entity(target).ok_or(QueueError::SendingNotAllowed)?;
    let going: Vec<(u8, Delivery<'_>)> = deliveries
        .heads
        .iter()
        .map(|head| head.hops)
        .zip(deliveries.iter())
        .filter(|(hops, _)| *hops < MAXIMUM_HOPS)
        .collect();
    let identities: Vec<Identity> = going.iter().map(|(_, delivery)| identity(*delivery)).collect();
    let kept: Vec<Kept<'_>> = going.iter().map(|(_, delivery)| Kept::of(delivery)).collect();
    let sections: Vec<[&[u8]; 1]> = going.iter().map(|(_, delivery)| [delivery.sections]).collect();
    let messages: Vec<NewMessage<'_>> = going
        .iter()
        .zip(&identities)
        .zip(&sections)
        .zip(&kept)
        .map(|((((hops, delivery), identity), sections), kept)| NewMessage {
            sections,
            annotation_count: kept.count,
            annotations: &kept.annotations,
            message_id: identity.message_id.as_deref(),
            session_id: identity.session_id.as_deref(),
            time_to_live: delivery.time_to_live.map(|time| left(delivery, time, now)),
            scheduled_enqueue_time: None,
            forwarded: Some(Forwarded {
                enqueue_sequence_number: delivery.enqueue_sequence_number,
                hops: hops + 1,
            }),
        })
        .collect();
    match target {
        Entity::Queue(queue) => queue.enqueue(now, &messages),
        Entity::Topic(topic) => topic.enqueue(now, &messages),
    }
}

/// Annotations of a forwarded message.
struct Kept<'a> {
    annotations: Cow<'a, [u8]>,
    count: u16,
}

impl<'a> Kept<'a> {
    /// Returns the annotations of a message, and for a dead letter the one that names its source as well.
    fn of(delivery: &Delivery<'a>) -> Self {
        let as_it_is =
            Self { annotations: Cow::Borrowed(delivery.annotations), count: delivery.annotation_count };
        let Some(source) = delivery.dead_letter_source else {
            return as_it_is;
        };
        let mut annotations = delivery.annotations.to_vec();
        write::symbol(&mut annotations, DEAD_LETTER_SOURCE);
        write::string(&mut annotations, source);
        match u16::try_from(annotations.len()) {
            Ok(_) => Self { annotations: Cow::Owned(annotations), count: delivery.annotation_count + 1 },
            // Longer ones would be left out altogether.
            Err(_) => as_it_is,
        }
    }
}

/// What the properties of a message say about what it is and belongs to.
struct Identity {
    message_id: Option<Vec<u8>>,
    session_id: Option<String>,
}

fn identity(delivery: Delivery<'_>) -> Identity {
    let view = MessageView::parse(delivery.sections);
    let properties = view.and_then(|view| view.properties()).ok().flatten();
    let properties = properties.unwrap_or_default();
    Identity {
        message_id: properties.message_id.map(|message_id| {
            let mut bytes = Vec::new();
            write::value(&mut bytes, &message_id);
            bytes
        }),
        session_id: properties.group_id,
    }
}

/// What is left of a time to live.
fn left(delivery: &Delivery<'_>, time: Duration, now: UnixTime) -> Duration {
    let waited = now.milliseconds() - delivery.enqueued_time.milliseconds();
    time.saturating_sub(Duration::from_millis(waited.max(0) as u64))
}

/// How often a message is forwarded at most, as in the service.
const MAXIMUM_HOPS: u8 = 4;

/// Why it is not forwarded once more: reason and description.
const TOO_MANY_HOPS: (&str, &str) = (
    "MaxTransferHopCountExceeded",
    "The maximum number of allowed hops when forwarding between queues has been exceeded. This value is set to 4.",
);

/// Messages, and about their bytes, that are sent on at once.
const BATCH: usize = 256;
const BATCH_BYTES: usize = 1024 * 1024;

/// When what was refused is sent again.
const RETRY_MS: i64 = 1_000;

/// When it is looked again whether what was sent is safe.
const RECHECK_MS: i64 = 5;
