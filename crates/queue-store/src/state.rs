//! One queue: its messages and what is known of them. Adding, receiving and looking; settling is in `settle.rs`, what time
//! does in `sweep.rs`, sessions are in `session_state.rs`.

use super::changes::{Change, Effects, Evicted};
use super::error::QueueError;
use super::history::{History, MessageIdDigest};
use super::ledger::{Ledger, Place, Policy};
use super::lock_end::LockEnd;
use super::message::{Deliveries, DeliveryHead, MessageState, NewMessage};
use super::options::QueueOptions;
use super::page::{NEVER, NO_SESSION, Page, Payload, Slot, Stage, Stored};
use super::pages::{Pages, join, split};
use super::requests::{ReceiveMode, ReceiveRequest};
use amqp::codec::write;
use std::collections::HashSet;
use std::sync::Arc;
use units::ByteSize;

/// See the module.
#[derive(Debug)]
pub(super) struct QueueState {
    pub(super) pages: Pages,
    pub(super) ledger: Ledger,
    /// What its owner has chosen.
    pub(super) options: Arc<QueueOptions>,
    /// When it was last sent to, received from or looked at by a client; [`NEVER_USED`] before.
    pub(super) used_at: i64,
}

/// How much to receive, and what becomes of it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Wanted {
    pub(super) mode: ReceiveMode,
    pub(super) messages: usize,
    pub(super) bytes: usize,
}

impl Wanted {
    pub(super) const fn of(request: &ReceiveRequest<'_>) -> Self {
        Self { mode: request.mode, messages: request.messages, bytes: request.bytes }
    }
}

/// What a receiver takes in one call.
struct Taking<'a> {
    now: i64,
    wanted: Wanted,
    nonce: u64,
    until: i64,
    taken: usize,
    deliveries: &'a mut Deliveries,
}

impl QueueState {
    /// The queue at this place within its entity.
    pub(super) fn new(
        queue: u32,
        policy: Policy,
        history: Option<History>,
        options: Arc<QueueOptions>,
    ) -> Self {
        Self {
            pages: Pages::new(FIRST_SEQUENCE_NUMBER),
            ledger: Ledger::new(queue, policy, history),
            options,
            used_at: NEVER_USED,
        }
    }

    /// Adds a message that a client sends.
    #[inline]
    pub(super) fn enqueue(
        &mut self,
        now: i64,
        message: &NewMessage<'_>,
        payload: Payload<'_>,
        effects: &mut Effects,
    ) -> u64 {
        let slot = self.slot_of(now, message);
        self.add(slot, payload, effects)
    }

    /// What a new message begins with.
    #[inline]
    pub(super) fn slot_of(&mut self, now: i64, message: &NewMessage<'_>) -> Slot {
        let mut slot = Slot::new(now, self.pages.next_sequence_number());
        if let Ok(length) = u16::try_from(message.annotations.len()) {
            slot.annotations_length = length;
            slot.annotation_count = message.annotation_count;
        }
        let start = match message.scheduled_enqueue_time {
            Some(time) if time.milliseconds() > now => {
                slot.stage = Stage::Scheduled;
                slot.until = time.milliseconds();
                slot.until
            }
            _ => now,
        };
        let limit = self.ledger.policy.time_to_live;
        let time_to_live =
            message.time_to_live.map_or(limit, |time_to_live| milliseconds(time_to_live).min(limit));
        slot.expires_at = start.saturating_add(time_to_live);
        if self.ledger.policy.requires_session
            && let Some(id) = message.session_id
        {
            slot.session = self.ledger.sessions.place_of(id);
        }
        if let Some(forwarded) = message.forwarded {
            slot.hops = forwarded.hops;
            slot.enqueue_sequence_number = forwarded.enqueue_sequence_number;
        }
        slot
    }

    /// Adds a message at the end.
    #[inline]
    pub(super) fn add(&mut self, slot: Slot, payload: Payload<'_>, effects: &mut Effects) -> u64 {
        let (stage, session) = (slot.stage, slot.session);
        let is_ready = stage == Stage::Ready && session == NO_SESSION;
        let size = payload.length() as u64 + super::options::MESSAGE_OVERHEAD;
        let sequence_number = self.pages.push(slot, payload, is_ready);
        self.note_added((stage, session, size), sequence_number, effects);
        sequence_number
    }

    /// Adds a message under the sequence number reserved for it.
    #[cold]
    pub(super) fn enqueue_reserved(
        &mut self,
        now: i64,
        sequence_number: u64,
        message: &NewMessage<'_>,
        payload: Payload<'_>,
        effects: &mut Effects,
    ) {
        let slot = Slot { enqueue_sequence_number: sequence_number, ..self.slot_of(now, message) };
        let (stage, session) = (slot.stage, slot.session);
        let is_ready = stage == Stage::Ready && session == NO_SESSION;
        let size = payload.length() as u64 + super::options::MESSAGE_OVERHEAD;
        self.pages.insert(sequence_number, slot, payload, is_ready);
        self.note_added((stage, session, size), sequence_number, effects);
    }

    /// Counts and indexes a message that was added to its page.
    #[inline]
    fn note_added(
        &mut self,
        (stage, session, size): (Stage, u32, u64),
        sequence_number: u64,
        effects: &mut Effects,
    ) {
        self.ledger.added(stage, size);
        self.ledger.counters.enqueued += u64::from(stage != Stage::Scheduled);
        if session != NO_SESSION {
            self.ledger.added_to_session(session, stage, sequence_number, effects);
        }
        effects.changes.put(self.ledger.queue, sequence_number);
    }

    /// Adds a message that was scheduled and is due.
    pub(super) fn add_due(&mut self, now: i64, evicted: &Evicted, effects: &mut Effects) {
        let mut slot = evicted.slot;
        if slot.expires_at != NEVER {
            slot.expires_at = now.saturating_add(slot.expires_at.saturating_sub(slot.until));
        }
        slot.stage = Stage::Ready;
        slot.enqueued_time = now;
        self.ledger.counters.scheduled_due += 1;
        if let Some(id) = &evicted.session_id {
            slot.session = self.ledger.sessions.place_of(id);
        }
        self.add(slot, Payload::Whole(&evicted.bytes), effects);
    }

    /// Adds a message that another queue gave up.
    pub(super) fn add_dead_letter(&mut self, evicted: &Evicted, effects: &mut Effects) {
        let slot = Slot {
            until: NEVER,
            expires_at: NEVER,
            nonce: 0,
            session: NO_SESSION,
            stage: Stage::Ready,
            ..evicted.slot
        };
        self.add(slot, Payload::Whole(&evicted.bytes), effects);
    }

    /// The number of the message that was sent under this identifier within the window.
    pub(super) fn duplicate(&self, digest: &MessageIdDigest) -> Option<u64> {
        self.ledger.history.as_ref()?.number(digest)
    }

    /// Notes the identifier of a message.
    pub(super) fn note_identifier(
        &mut self,
        now: i64,
        digest: MessageIdDigest,
        sequence_number: u64,
        effects: &mut Effects,
    ) {
        if let Some(history) = &mut self.ledger.history {
            history.note(now, digest, sequence_number);
            effects.changes.push(Change::Seen {
                queue: self.ledger.queue,
                time: now,
                digest,
                sequence_number,
            });
        }
    }

    /// Gives available messages to a receiver, oldest first.
    pub(super) fn receive(
        &mut self,
        now: i64,
        wanted: Wanted,
        deliveries: &mut Deliveries,
        effects: &mut Effects,
    ) {
        let mut taking = self.taking(now, wanted, deliveries);
        while taking.taken < wanted.messages
            && let Some(number) = self.pages.first_ready()
        {
            let ledger = &mut self.ledger;
            let goes_on = self.pages.change(number, |page| {
                while page.ready != 0 && taking.taken < wanted.messages {
                    let position = page.ready.trailing_zeros();
                    let place = Place { position, sequence_number: join(number, position) };
                    if !taking.take(ledger, page, place, effects) {
                        return false;
                    }
                }
                true
            });
            if goes_on != Some(true) {
                break;
            }
        }
    }

    /// Gives available messages of a session to the receiver that has locked it.
    pub(super) fn receive_in_session(
        &mut self,
        now: i64,
        session: u32,
        wanted: Wanted,
        deliveries: &mut Deliveries,
        effects: &mut Effects,
    ) {
        let mut taking = self.taking(now, wanted, deliveries);
        while taking.taken < wanted.messages {
            let Some(found) = self.ledger.sessions.get(session) else {
                break;
            };
            let Some(sequence_number) = found.ready.first().copied() else {
                break;
            };
            let (number, position) = split(sequence_number);
            let place = Place { position, sequence_number };
            let ledger = &mut self.ledger;
            let goes_on = self.pages.change(number, |page| {
                let goes_on = taking.take(ledger, page, place, effects);
                lock_in_session(ledger, page, place, effects);
                goes_on
            });
            if goes_on != Some(true) {
                break;
            }
        }
    }

    /// Gives deferred messages to a receiver.
    pub(super) fn receive_deferred(
        &mut self,
        now: i64,
        session: Option<u32>,
        sequence_numbers: &[u64],
        wanted: Wanted,
        deliveries: &mut Deliveries,
        effects: &mut Effects,
    ) -> Result<(), QueueError> {
        // The length of a message, if it can be had.
        let length = |pages: &Pages, sequence_number: u64| {
            let (number, position) = split(sequence_number);
            let page = pages.page(number).filter(|page| page.holds(position))?;
            let slot = page.slot(position);
            let is_of_session = slot.session == session.unwrap_or(NO_SESSION);
            let is_there = slot.stage == Stage::Deferred && slot.expires_at > now && is_of_session;
            is_there.then_some(slot.length as usize)
        };
        let mut seen = HashSet::with_capacity(sequence_numbers.len());
        let mut bytes = 0;
        for &sequence_number in sequence_numbers {
            bytes += length(&self.pages, sequence_number)
                .filter(|_| seen.insert(sequence_number))
                .ok_or(QueueError::MessageNotFound { sequence_number })?;
        }
        if bytes > wanted.bytes && seen.len() > 1 {
            let most = ByteSize::from_bytes(wanted.bytes as u64);
            return Err(QueueError::AnswerTooLong(most));
        }
        let wanted = Wanted { messages: usize::MAX, bytes: usize::MAX, ..wanted };
        let mut taking = self.taking(now, wanted, deliveries);
        for &sequence_number in sequence_numbers {
            let (number, position) = split(sequence_number);
            let place = Place { position, sequence_number };
            let ledger = &mut self.ledger;
            self.pages.change(number, |page| {
                taking.take(ledger, page, place, effects);
                lock_in_session(ledger, page, place, effects);
            });
        }
        Ok(())
    }

    fn taking<'a>(&mut self, now: i64, wanted: Wanted, deliveries: &'a mut Deliveries) -> Taking<'a> {
        deliveries.dead_letter_source = self.ledger.policy.dead_letter_source.clone();
        Taking {
            now,
            wanted,
            nonce: self.ledger.nonce(),
            until: now.saturating_add(self.ledger.policy.lock_duration),
            taken: 0,
            deliveries,
        }
    }

    /// Removes scheduled messages: all of them, or none.
    pub(super) fn cancel_scheduled(
        &mut self,
        sequence_numbers: &[u64],
        effects: &mut Effects,
    ) -> Result<(), QueueError> {
        self.check_stage(sequence_numbers, Stage::Scheduled)?;
        self.remove_all(sequence_numbers, effects);
        Ok(())
    }

    /// Checks that each of these messages exists in this stage and none is named twice.
    pub(super) fn check_stage(&self, sequence_numbers: &[u64], stage: Stage) -> Result<(), QueueError> {
        let mut seen = HashSet::with_capacity(sequence_numbers.len());
        for &sequence_number in sequence_numbers {
            let (number, position) = split(sequence_number);
            let page = self.pages.page(number).filter(|page| page.holds(position));
            let stands_so = page.is_some_and(|page| page.slot(position).stage == stage);
            if !stands_so || !seen.insert(sequence_number) {
                return Err(QueueError::MessageNotFound { sequence_number });
            }
        }
        Ok(())
    }

    /// Removes messages that are there.
    pub(super) fn remove_all(&mut self, sequence_numbers: &[u64], effects: &mut Effects) {
        for &sequence_number in sequence_numbers {
            let (number, position) = split(sequence_number);
            let place = Place { position, sequence_number };
            let ledger = &mut self.ledger;
            self.pages.change(number, |page| ledger.remove(page, place, effects));
        }
    }

    /// Whether there is a message whose number is at least this.
    pub(super) fn has_from(&self, first: u64) -> bool {
        let mut pages = self.pages.from(split(first).0);
        pages.any(|(number, page)| page.positions().any(|position| join(number, position) >= first))
    }

    /// Shows messages as they are.
    pub(super) fn peek(
        &self,
        from: u64,
        messages: usize,
        bytes: usize,
        session_id: Option<&str>,
        deliveries: &mut Deliveries,
    ) {
        let session = match session_id {
            None => None,
            Some(id) => match self.ledger.sessions.find(id) {
                Some(place) => Some(place),
                None => return,
            },
        };
        deliveries.dead_letter_source = self.ledger.policy.dead_letter_source.clone();
        let (mut shown, mut length) = (0, 0_usize);
        for (number, page) in self.pages.from(split(from).0) {
            for position in page.positions() {
                let slot = page.slot(position);
                let sequence_number = join(number, position);
                if sequence_number < from || session.is_some_and(|place| slot.session != place) {
                    continue;
                }
                length = length.saturating_add(slot.length as usize);
                if shown == messages || (shown > 0 && length > bytes) {
                    return;
                }
                shown += 1;
                deliveries.push(sequence_number, slot, page.bytes(slot), None);
            }
        }
    }
}

impl Taking<'_> {
    /// Gives one message to the receiver, or lets it expire if it is time for that. Whether there may be more: not if
    /// this one would have been too many bytes.
    #[inline]
    fn take(&mut self, ledger: &mut Ledger, page: &mut Page, place: Place, effects: &mut Effects) -> bool {
        let slot = page.slot(place.position);
        if slot.expires_at <= self.now {
            ledger.expire(page, place, effects);
            return true;
        }
        let length = slot.length as usize;
        if self.taken > 0 && length > self.wanted.bytes {
            return false;
        }
        self.wanted.bytes = self.wanted.bytes.saturating_sub(length);
        self.taken += 1;
        ledger.counters.delivered += 1;
        let number = place.sequence_number;
        match self.wanted.mode {
            ReceiveMode::PeekLock => {
                let (told, until) = match slot.session {
                    NO_SESSION => (self.until, self.until),
                    // It ends with that of the session.
                    _ => (LockEnd::WITH_ITS_SESSION.queue_time().milliseconds(), NEVER),
                };
                self.deliveries.push(number, slot, page.bytes(slot), Some((self.nonce, told)));
                ledger.lock(page, place, self.nonce, until);
            }
            ReceiveMode::ReceiveAndDelete => {
                self.deliveries.push(number, slot, page.bytes(slot), None);
                ledger.remove(page, place, effects);
            }
        }
        true
    }
}

/// Notes for the session that a message of it is locked, if it is.
fn lock_in_session(ledger: &mut Ledger, page: &Page, place: Place, effects: &mut Effects) {
    if !page.holds(place.position) || !page.slot(place.position).stage.is_locked() {
        return;
    }
    let session = page.slot(place.position).session;
    if session != NO_SESSION {
        ledger.change_session(session, effects, |session| {
            session.ready.remove(&place.sequence_number);
            session.locked.insert(place.sequence_number);
        });
    }
}

impl Deliveries {
    #[inline]
    fn push(&mut self, sequence_number: u64, slot: &Slot, bytes: Stored<'_>, lock: Option<(u64, i64)>) {
        let (nonce, locked_until) = lock.unwrap_or_default();
        let is_long = match bytes {
            Stored::Short(bytes) => {
                write::bytes(&mut self.short, bytes);
                false
            }
            Stored::Long(bytes) => {
                self.long.push(bytes.clone());
                true
            }
        };
        self.heads.push(DeliveryHead {
            sequence_number,
            enqueue_sequence_number: slot.enqueue_sequence_number,
            enqueued_time: slot.enqueued_time,
            expires_at: slot.expires_at,
            nonce,
            locked_until,
            delivery_count: slot.delivery_count,
            length: slot.length,
            annotations_length: slot.annotations_length,
            annotation_count: slot.annotation_count,
            state: match slot.stage {
                Stage::Ready | Stage::Locked => MessageState::Active,
                Stage::Deferred | Stage::DeferredLocked => MessageState::Deferred,
                Stage::Scheduled => MessageState::Scheduled,
            },
            hops: slot.hops,
            is_long,
        });
    }
}

/// A duration as the slots have it.
pub(super) fn milliseconds(duration: std::time::Duration) -> i64 {
    i64::try_from(duration.as_millis()).unwrap_or(NEVER)
}

/// Before any time.
pub(super) const NEVER_USED: i64 = i64::MIN;

/// Numbers begin with 1, so that 0 can stand for "from the first one on".
const FIRST_SEQUENCE_NUMBER: u64 = 1;
