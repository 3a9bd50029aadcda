//! What one queue knows besides its pages, and the steps that a message takes in it.
//!
//! Each step changes the message in its page and all that has to agree with it: how many messages of each stage there
//! are, the session, the journal's changes, whom to wake.

use super::changes::{Change, Effects, Evicted};
use super::counters::QueueCounters;
use super::entity::{DEAD_LETTERS, QUEUES_OF_ONE, TRANSFER_DEAD_LETTERS};
use super::history::History;
use super::options::EntityStatus;
use super::page::{NO_SESSION, Page, Slot, Stage};
use super::properties::{with_properties, without_annotation};
use super::sessions::Sessions;
use super::waiters::Waiters;
use amqp::codec::Value;
use bytes::Bytes;
use std::hash::{BuildHasher as _, RandomState};
use std::sync::Arc;

/// See the module.
#[derive(Debug)]
pub(super) struct Ledger {
    /// The queue's place within its entity.
    pub(super) queue: u32,
    pub(super) policy: Policy,
    pub(super) sessions: Sessions,
    /// What was sent lately, where duplicates are detected.
    pub(super) history: Option<History>,
    pub(super) waiters: Waiters,
    pub(super) counters: QueueCounters,
    /// How many messages of each stage there are.
    counts: [u64; 5],
    /// What messages and states of sessions count towards the size limit.
    bytes: u64,
    /// A message without session has become available since the waiters were told.
    has_news: bool,
    nonces: Nonces,
}

/// The options of a queue as the steps need them. Times are in milliseconds.
#[derive(Clone, Debug)]
pub(super) struct Policy {
    pub(super) lock_duration: i64,
    pub(super) maximum_delivery_count: u32,
    /// [`NEVER`](super::page::NEVER) if messages don't expire by themselves.
    pub(super) time_to_live: i64,
    pub(super) dead_letters_expired: bool,
    pub(super) requires_session: bool,
    /// What it holds the dead letters of, if it is a dead-letter queue.
    pub(super) dead_letter_source: Option<Arc<str>>,
    /// Its messages go on to another entity.
    pub(super) forwards: bool,
    /// What may be done at present.
    pub(super) status: EntityStatus,
}

/// Where a message is: its page, its position in that, its number.
#[derive(Clone, Copy, Debug)]
pub(super) struct Place {
    pub(super) position: u32,
    pub(super) sequence_number: u64,
}

/// Whether the end of a lock counts as a failed delivery.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Delivered {
    Failed,
    NotAtAll,
}

/// Secrets of locks: a keyed hash of consecutive numbers.
#[derive(Debug, Default)]
struct Nonces {
    key: RandomState,
    last: u64,
}

impl Ledger {
    pub(super) fn new(queue: u32, policy: Policy, history: Option<History>) -> Self {
        Self {
            queue,
            policy,
            sessions: Sessions::default(),
            history,
            waiters: Waiters::default(),
            counters: QueueCounters::default(),
            counts: [0; 5],
            bytes: 0,
            has_news: false,
            nonces: Nonces::default(),
        }
    }

    /// How many messages of this stage there are.
    pub(super) fn count(&self, stage: Stage) -> u64 {
        self.counts[stage as usize]
    }

    /// How many messages there are.
    pub(super) fn messages(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// What of that are messages and states of sessions.
    pub(super) fn message_bytes(&self) -> u64 {
        self.bytes
    }

    /// What counts towards the size limit.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes + self.history.as_ref().map_or(0, History::size)
    }

    /// A secret for the locks of one call.
    pub(super) fn nonce(&mut self) -> u64 {
        loop {
            self.nonces.last += 1;
            let nonce = self.nonces.key.hash_one(self.nonces.last);
            if nonce != 0 {
                return nonce;
            }
        }
    }

    /// Notes a message that was added to a page.
    #[inline]
    pub(super) fn added(&mut self, stage: Stage, size: u64) {
        self.counts[stage as usize] += 1;
        self.bytes += size;
        self.has_news |= stage == Stage::Ready;
    }

    /// Notes the messages that were added to their sessions.
    pub(super) fn added_to_session(
        &mut self,
        session: u32,
        stage: Stage,
        sequence_number: u64,
        effects: &mut Effects,
    ) {
        self.change_session(session, effects, |session| {
            session.messages += 1;
            if stage == Stage::Ready {
                session.ready.insert(sequence_number);
            }
        });
    }

    /// A message is to be received: it gets a lock. In a session it is as long as that of the session.
    #[inline]
    pub(super) fn lock(&mut self, page: &mut Page, place: Place, nonce: u64, until: i64) {
        let slot = page.slot_mut(place.position);
        let locked = match slot.stage {
            Stage::Deferred => Stage::DeferredLocked,
            _ => Stage::Locked,
        };
        let before = std::mem::replace(&mut slot.stage, locked);
        slot.nonce = nonce;
        slot.until = until;
        page.ready &= !(1 << place.position);
        page.look_at(until);
        self.counts[before as usize] -= 1;
        self.counts[locked as usize] += 1;
    }

    /// The lock of a message is over. It is available again or deferred as before, or a dead letter if this was one
    /// failure too many.
    pub(super) fn unlock(
        &mut self,
        page: &mut Page,
        place: Place,
        delivered: Delivered,
        effects: &mut Effects,
    ) {
        let slot = page.slot_mut(place.position);
        // Nothing comes of the failures of a dead letter, so they are not counted, as in the service.
        let counts = delivered == Delivered::Failed && self.policy.dead_letter_source.is_none();
        if counts {
            slot.delivery_count = slot.delivery_count.saturating_add(1);
            if slot.delivery_count >= self.policy.maximum_delivery_count {
                let count = slot.delivery_count;
                let description = format!("Message could not be consumed after {count} delivery attempts.");
                let reason = (MAXIMUM_DELIVERY_COUNT_EXCEEDED, &*description);
                self.dead_letter(page, place, reason, &[], effects);
                return;
            }
        }
        let stage = slot.stage.unlocked();
        self.restage(page, place, stage, effects);
        if counts {
            self.note_change(page, place, effects);
        }
    }

    /// Puts a message that is locked aside.
    pub(super) fn defer(&mut self, page: &mut Page, place: Place, effects: &mut Effects) {
        self.restage(page, place, Stage::Deferred, effects);
        self.note_change(page, place, effects);
    }

    /// Ends a lock: the message has this stage now.
    fn restage(&mut self, page: &mut Page, place: Place, stage: Stage, effects: &mut Effects) {
        let slot = page.slot_mut(place.position);
        let before = std::mem::replace(&mut slot.stage, stage);
        slot.nonce = 0;
        let (session, deadline) = (slot.session, slot.deadline());
        page.look_at(deadline);
        self.counts[before as usize] -= 1;
        self.counts[stage as usize] += 1;
        let is_ready = stage == Stage::Ready;
        if session == NO_SESSION {
            page.ready |= u128::from(is_ready) << place.position;
            self.has_news |= is_ready;
            return;
        }
        self.change_session(session, effects, |session| {
            session.locked.remove(&place.sequence_number);
            if is_ready {
                session.ready.insert(place.sequence_number);
            }
        });
    }

    fn note_change(&mut self, page: &Page, place: Place, effects: &mut Effects) {
        let slot = page.slot(place.position);
        effects.changes.push(Change::Changed {
            queue: self.queue,
            sequence_number: place.sequence_number,
            stage: slot.stage,
            delivery_count: slot.delivery_count,
        });
    }

    /// Removes a message.
    #[inline]
    pub(super) fn remove(&mut self, page: &mut Page, place: Place, effects: &mut Effects) -> Slot {
        let slot = page.remove(place.position);
        self.counts[slot.stage as usize] -= 1;
        self.bytes -= slot.size();
        if slot.session != NO_SESSION {
            self.change_session(slot.session, effects, |session| {
                session.messages -= 1;
                session.ready.remove(&place.sequence_number);
                session.locked.remove(&place.sequence_number);
            });
        }
        effects.changes.removed(self.queue, place.sequence_number);
        slot
    }

    /// Removes a message and returns it.
    pub(super) fn take(&mut self, page: &mut Page, place: Place, effects: &mut Effects) -> Evicted {
        let slot = *page.slot(place.position);
        let bytes = page.bytes(&slot).share();
        let session = self.sessions.get(slot.session);
        let session_id = session.map(|session| Arc::clone(&session.id));
        Evicted {
            queue: self.queue,
            to: self.queue,
            slot: self.remove(page, place, effects),
            bytes,
            session_id,
        }
    }

    /// The time to live of a message is over.
    pub(super) fn expire(&mut self, page: &mut Page, place: Place, effects: &mut Effects) {
        self.counters.expired += 1;
        match self.policy.dead_letters_expired {
            true => {
                let reason = (TIME_TO_LIVE_EXPIRED, TIME_TO_LIVE_EXPIRED_DESCRIPTION);
                self.dead_letter(page, place, reason, &[], effects);
            }
            false => {
                self.remove(page, place, effects);
            }
        }
    }

    /// Moves a message to the dead-letter queue, with reason, description and further properties.
    pub(super) fn dead_letter(
        &mut self,
        page: &mut Page,
        place: Place,
        texts: (&str, &str),
        properties: &[(String, Value)],
        effects: &mut Effects,
    ) {
        let to = self.queue + DEAD_LETTERS as u32;
        self.move_to(page, place, to, texts, properties, effects);
    }

    /// Moves a message of a queue, or of its dead letters, to those that can't be forwarded.
    pub(super) fn refuse_forwarding(
        &mut self,
        page: &mut Page,
        place: Place,
        texts: (&str, &str),
        effects: &mut Effects,
    ) {
        const QUEUES: u32 = QUEUES_OF_ONE as u32;
        let to = self.queue / QUEUES * QUEUES + TRANSFER_DEAD_LETTERS as u32;
        self.move_to(page, place, to, texts, &[], effects);
    }

    fn move_to(
        &mut self,
        page: &mut Page,
        place: Place,
        to: u32,
        (reason, description): (&str, &str),
        properties: &[(String, Value)],
        effects: &mut Effects,
    ) {
        self.counters.dead_lettered += 1;
        let mut evicted = self.take(page, place, effects);
        evicted.to = to;
        let text = |text: &str| {
            let end = text.char_indices().nth(REASON_MAX).map_or(text.len(), |(end, _)| end);
            Value::String(text[..end].to_owned())
        };
        let own = [(REASON, text(reason)), (DESCRIPTION, text(description))];
        let own =
            own.iter().filter(|(_, value)| value.as_text() != Some("")).map(|(name, value)| (*name, value));
        // One that is no text is among the properties.
        let others = properties.iter().map(|(name, value)| (name.as_str(), value));
        let others = others.filter(|(name, _)| own.clone().all(|(own, _)| own != *name));
        let all: Vec<(&str, &Value)> = others.chain(own.clone()).collect();
        let annotations_length = evicted.slot.annotations_length;
        evicted.bytes = with_properties(&evicted.bytes, annotations_length, &all);
        if annotations_length > 0 {
            // It may have been a dead letter elsewhere before.
            let slot = &mut evicted.slot;
            let without = without_annotation(&evicted.bytes, annotations_length, DEAD_LETTER_SOURCE);
            if let Some((bytes, length)) = without {
                (evicted.bytes, slot.annotations_length) = (bytes, length);
                slot.annotation_count = slot.annotation_count.saturating_sub(1);
            }
        }
        effects.dead_letters.push(evicted);
    }

    /// Sets application properties of a message that is held.
    pub(super) fn set_properties(
        &mut self,
        page: &mut Page,
        place: Place,
        properties: &[(String, Value)],
        effects: &mut Effects,
    ) {
        if properties.is_empty() {
            return;
        }
        let slot = *page.slot(place.position);
        let bytes = page.bytes(&slot).share();
        let all: Vec<(&str, &Value)> =
            properties.iter().map(|(name, value)| (name.as_str(), value)).collect();
        let bytes: Bytes = with_properties(&bytes, slot.annotations_length, &all);
        page.replace_bytes(place.position, slot.annotations_length, bytes);
        self.bytes = self.bytes - slot.size() + page.slot(place.position).size();
        effects.changes.put(self.queue, place.sequence_number);
    }

    /// Changes a session, and wakes those who wait for what has become of it.
    pub(super) fn change_session(
        &mut self,
        place: u32,
        effects: &mut Effects,
        change: impl FnOnce(&mut super::sessions::Session),
    ) {
        let had = self.sessions.get(place).map_or(0, |session| session.ready.len());
        let has_become_acceptable = self.sessions.change(place, change);
        if has_become_acceptable {
            self.waiters.session_acceptable(&mut effects.wakers);
        }
        if let Some(session) = self.sessions.get(place)
            && session.ready.len() > had
            && let Some(waiter) = session.waiter
        {
            self.waiters.session_changed(waiter, &mut effects.wakers);
        }
    }

    /// Sets the state of a session.
    pub(super) fn set_session_state(
        &mut self,
        place: u32,
        state: Option<Box<[u8]>>,
        set_at: i64,
        effects: &mut Effects,
    ) {
        let size = |sessions: &Sessions| {
            let session = sessions.get(place);
            session.map_or(0, super::sessions::Session::state_size)
        };
        let Some(id) = self.sessions.get(place).map(|session| Arc::clone(&session.id)) else {
            return;
        };
        let before = size(&self.sessions);
        let set = state.clone();
        self.change_session(place, effects, |session| {
            session.state = set;
            session.state_set_at = set_at;
        });
        self.bytes = self.bytes - before + size(&self.sessions);
        effects.changes.push(Change::SessionState { queue: self.queue, id, state, set_at });
    }

    /// Wakes waiters if messages have arrived since the last call.
    #[inline]
    pub(super) fn wake_waiters(&mut self, effects: &mut Effects) {
        if std::mem::take(&mut self.has_news) && self.count(Stage::Ready) > 0 {
            self.waiters.message_available(&mut effects.wakers);
        }
    }
}

/// Application properties of dead letters, and reasons that are the service's own.
pub(super) const REASON: &str = "DeadLetterReason";
pub(super) const DESCRIPTION: &str = "DeadLetterErrorDescription";
/// Annotation that names the entity in which a message was dead-lettered.
pub(super) const DEAD_LETTER_SOURCE: &str = "x-opt-deadletter-source";
/// Longest of both, in characters, as in the service.
const REASON_MAX: usize = 4_096;
const MAXIMUM_DELIVERY_COUNT_EXCEEDED: &str = "MaxDeliveryCountExceeded";
const TIME_TO_LIVE_EXPIRED: &str = "TTLExpiredException";
const TIME_TO_LIVE_EXPIRED_DESCRIPTION: &str = "The message expired and was dead lettered.";
