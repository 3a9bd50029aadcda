//! Sending to a queue or topic: what is refused, what is a duplicate, and which subscriptions get what.

use super::changes::Evicted;
use super::entity::{DEAD_LETTERS, EntityState, QUEUES_OF_ONE};
use super::error::QueueError;
use super::history::{ENTRY_BYTES, digest};
use super::ledger::{DESCRIPTION, REASON};
use super::message::NewMessage;
use super::options::MESSAGE_OVERHEAD;
use super::page::{LONGEST_SHORT, Payload, Slot};
use super::properties::with_properties;
use super::rules::MessageProperties;
use amqp::codec::Value;
use bytes::Bytes;
use partition_log::UnixTime;
use partition_log::batch::MAXIMUM_BATCH_LENGTH;
use std::collections::HashMap;
use std::time::Duration;
use units::ByteSize;

/// What became of a batch.
#[derive(Debug, Default)]
pub(super) struct Sent {
    pub(super) count: usize,
    pub(super) duplicates: usize,
}

/// Handling of the sequence numbers of sent messages.
pub(super) enum Numbers<'a> {
    /// Assigned, and not returned.
    Unwanted,
    /// Assigned, and appended to these.
    Told(&'a mut Vec<u64>),
    /// Reserved before.
    Reserved(&'a [u64]),
}

/// A batch that may be sent, if there is room for it.
#[derive(Debug, Default)]
pub(super) struct Admitted {
    /// Those messages whose identifiers were seen before, with the numbers from then.
    duplicates: HashMap<usize, u64>,
    copies: Vec<Copy>,
    /// What it counts towards the size limit.
    pub(super) bytes: u64,
}

/// A message that a subscription gets.
#[derive(Debug)]
struct Copy {
    /// Which message of the batch.
    message: usize,
    /// The place of the subscription's queue.
    queue: usize,
    /// Its sections, if rules have changed them.
    sections: Option<Vec<u8>>,
}

/// Copies of the messages of a batch for subscriptions.
struct Plan {
    /// In the order of the messages. Those for which there is no room are missing, so that a batch which is refused takes little memory.
    copies: Vec<Copy>,
    /// Bytes that all of them count towards the size limit.
    bytes: u64,
}

impl Plan {
    /// Adds a copy of `message`, if there is `room` for it and all before.
    #[inline]
    fn add(&mut self, copy: Copy, message: &NewMessage<'_>, room: u64) {
        self.bytes += match &copy.sections {
            None => size(message),
            Some(sections) => sections.len() as u64 + MESSAGE_OVERHEAD,
        };
        if self.bytes <= room {
            self.copies.push(copy);
        }
    }
}

impl EntityState {
    /// Sends a batch: all of it, or nothing if there is an error.
    pub(super) fn send(
        &mut self,
        now: i64,
        messages: &[NewMessage<'_>],
        numbers: Numbers<'_>,
    ) -> Result<Sent, QueueError> {
        let admitted = self.admit(now, messages)?;
        self.check_room(admitted.bytes)?;
        Ok(self.send_admitted(now, messages, admitted, numbers))
    }

    /// Reserves sequence numbers for the messages of a batch, after the checks of sending them. A duplicate gets the number of the message
    /// before it.
    pub(super) fn reserve(&mut self, now: i64, messages: &[NewMessage<'_>]) -> Result<Vec<u64>, QueueError> {
        let admitted = self.admit(now, messages)?;
        self.check_room(admitted.bytes)?;
        let pages = &mut self.queues[0].pages;
        let mut next = pages.next_sequence_number();
        let number = |index| {
            admitted.duplicates.get(&index).copied().unwrap_or_else(|| {
                next += 1;
                next - 1
            })
        };
        let numbers = (0..messages.len()).map(number).collect();
        pages.skip_to(next);
        Ok(numbers)
    }

    /// Decides which messages of a batch go where, and changes nothing. There may be no room for it.
    #[inline]
    pub(super) fn admit(&self, now: i64, messages: &[NewMessage<'_>]) -> Result<Admitted, QueueError> {
        let size_of_all = messages.iter().map(size).sum::<u64>();
        if size_of_all > LARGEST_BATCH {
            return Err(QueueError::TooLong);
        }
        let duplicates = self.duplicates(messages);
        let is_new = |index: usize| !duplicates.contains_key(&index);
        if self.queues[0].ledger.policy.requires_session {
            let missing = messages.iter().position(|message| message.session_id.is_none());
            if let Some(index) = missing {
                return Err(QueueError::SessionIdMissing { index });
            }
        }
        let mut bytes = self.identifier_bytes(messages);
        let copies = match self.is_topic {
            true => {
                let plan = self.plan(now, messages, is_new);
                bytes += plan.bytes;
                plan.copies
            }
            false => Vec::new(),
        };
        // What is scheduled in a topic waits in it.
        let waits = |message: &NewMessage<'_>| !self.is_topic || is_scheduled(message, now);
        bytes += match self.is_topic || !duplicates.is_empty() {
            false => size_of_all,
            true => messages
                .iter()
                .enumerate()
                .filter(|(index, message)| is_new(*index) && waits(message))
                .map(|(_, message)| size(message) * self.copies())
                .sum(),
        };
        Ok(Admitted { duplicates, copies, bytes })
    }

    /// Sends a batch that was admitted, with nothing in between.
    #[inline]
    pub(super) fn send_admitted(
        &mut self,
        now: i64,
        messages: &[NewMessage<'_>],
        admitted: Admitted,
        mut numbers: Numbers<'_>,
    ) -> Sent {
        let Admitted { duplicates, copies, .. } = admitted;
        let mut sent = Sent::default();
        let mut copies = copies.into_iter().peekable();
        for (index, message) in messages.iter().enumerate() {
            let known = duplicates.get(&index).copied();
            let known = known.or_else(|| self.known(message));
            let number = match known {
                Some(number) => {
                    sent.duplicates += 1;
                    while copies.next_if(|copy| copy.message == index).is_some() {}
                    number
                }
                None => {
                    sent.count += 1;
                    let reserved = match &numbers {
                        Numbers::Reserved(numbers) => numbers.get(index).copied(),
                        Numbers::Unwanted | Numbers::Told(_) => None,
                    };
                    let number = self.send_one(now, (message, index), reserved, &mut copies);
                    if let Some(id) = message.message_id
                        && self.queues[0].ledger.history.is_some()
                    {
                        self.queues[0].note_identifier(now, digest(id), number, &mut self.effects);
                    }
                    number
                }
            };
            if let Numbers::Told(numbers) = &mut numbers {
                numbers.push(number);
            }
        }
        // A duplicate is as safe as the message before it.
        self.relies_on_earlier |= sent.duplicates > 0;
        sent
    }

    #[inline]
    fn send_one(
        &mut self,
        now: i64,
        (message, index): (&NewMessage<'_>, usize),
        reserved: Option<u64>,
        copies: &mut std::iter::Peekable<impl Iterator<Item = Copy>>,
    ) -> u64 {
        let queue = &mut self.queues[0];
        if !self.is_topic || is_scheduled(message, now) {
            let Some(number) = reserved else {
                return queue.enqueue(now, message, payload(message), &mut self.effects);
            };
            queue.enqueue_reserved(now, number, message, payload(message), &mut self.effects);
            return number;
        }
        // The topic itself keeps nothing, but the number is used up.
        let number = reserved.unwrap_or_else(|| {
            let next = queue.pages.next_sequence_number();
            queue.pages.skip_to(next + 1);
            next
        });
        self.effects.changes.removed(0, number);
        let is_long = payload(message).length() > LONGEST_SHORT;
        let shared = is_long.then(|| payload(message).share());
        while let Some(copy) = copies.next_if(|copy| copy.message == index) {
            self.deliver(now, message, number, &copy, shared.as_ref());
        }
        number
    }

    /// Gives a subscription its copy.
    fn deliver(
        &mut self,
        now: i64,
        message: &NewMessage<'_>,
        number: u64,
        copy: &Copy,
        shared: Option<&Bytes>,
    ) {
        let sections = copy.sections.as_deref().map(|sections| [sections]);
        let payload = match (&sections, shared) {
            (Some(sections), _) => Payload::Pieces(annotations(message), sections),
            (None, Some(bytes)) => Payload::Whole(bytes),
            (None, None) => payload(message),
        };
        let topic_limit = self.queues[0].ledger.policy.time_to_live;
        let time_to_live = topic_limit
            .try_into()
            .ok()
            .filter(|_| topic_limit != super::page::NEVER)
            .map(Duration::from_millis);
        let message = NewMessage {
            time_to_live: [message.time_to_live, time_to_live].into_iter().flatten().min(),
            scheduled_enqueue_time: None,
            ..*message
        };
        let queue = &mut self.queues[copy.queue];
        if queue.ledger.policy.requires_session && message.session_id.is_none() {
            queue.ledger.counters.dead_lettered += 1;
            let mut slot = Slot::new(now, number);
            if let Some(forwarded) = message.forwarded {
                slot.hops = forwarded.hops;
                slot.enqueue_sequence_number = forwarded.enqueue_sequence_number;
            }
            let annotations_length = annotations(&message).len() as u16;
            slot.annotations_length = annotations_length;
            slot.annotation_count = message.annotation_count;
            let text = |text: &str| Value::String(text.to_owned());
            let (reason, description) = (text(NO_SESSION_ID.0), text(NO_SESSION_ID.1));
            let properties = [(REASON, &reason), (DESCRIPTION, &description)];
            let bytes = with_properties(&payload.share(), annotations_length, &properties);
            self.effects.dead_letters.push(Evicted {
                queue: copy.queue as u32,
                to: (copy.queue + DEAD_LETTERS) as u32,
                slot,
                bytes,
                session_id: None,
            });
            return;
        }
        queue.enqueue_copy(now, &message, payload, number, &mut self.effects);
    }

    /// A scheduled message of a topic is due.
    pub(super) fn distribute_due(&mut self, now: i64, evicted: &Evicted) {
        let slot = &evicted.slot;
        let (annotations, sections) = evicted.bytes.split_at(slot.annotations_length.into());
        let sections = [sections];
        let left = slot.expires_at.saturating_sub(slot.until);
        let message = NewMessage {
            sections: &sections,
            annotation_count: slot.annotation_count,
            annotations,
            message_id: None,
            session_id: evicted.session_id.as_deref(),
            time_to_live: (slot.expires_at != super::page::NEVER)
                .then(|| Duration::from_millis(left.max(0) as u64)),
            scheduled_enqueue_time: None,
            forwarded: None,
        };
        let plan = self.plan(now, &[message], |_| true);
        if self.check_room(plan.bytes).is_err() {
            self.put_off(now, evicted);
            return;
        }
        self.queues[0].ledger.counters.scheduled_due += 1;
        self.send_one(now, (&message, 0), None, &mut plan.copies.into_iter().peekable());
    }

    /// Rules make more of a scheduled message than there is room for: it stays for some time more.
    #[cold]
    fn put_off(&mut self, now: i64, evicted: &Evicted) {
        let mut slot = evicted.slot;
        let left = slot.expires_at.saturating_sub(slot.until);
        slot.until = now.saturating_add(PUT_OFF_MS);
        if slot.expires_at != super::page::NEVER {
            slot.expires_at = slot.until.saturating_add(left);
        }
        let bytes = Payload::Whole(&evicted.bytes);
        self.queues[0].add(slot, bytes, &mut self.effects);
    }

    /// Plans the copies that subscriptions get, in the order of the messages.
    fn plan(&self, now: i64, messages: &[NewMessage<'_>], is_new: impl Fn(usize) -> bool) -> Plan {
        let expected = (messages.len() * self.rules.len()).min(1_024);
        let mut plan = Plan { copies: Vec::with_capacity(expected), bytes: 0 };
        let room = self.size_limit.saturating_sub(self.bytes());
        let queue_of = |rules: usize| (rules + 1) * QUEUES_OF_ONE;
        let mut next_number = self.queues[0].pages.next_sequence_number();
        for (index, message) in messages.iter().enumerate() {
            if !is_new(index) {
                continue;
            }
            let number = next_number;
            next_number += 1;
            if is_scheduled(message, now) {
                continue;
            }
            let mut decoded = None;
            for (subscription, rules) in self.rules.iter().enumerate() {
                let queue = queue_of(subscription);
                let as_sent = Copy { message: index, queue, sections: None };
                match rules.set().constant() {
                    Some(true) => plan.add(as_sent, message, room),
                    Some(false) => {}
                    None => {
                        let decoded = decoded.get_or_insert_with(|| decode(now, number, message));
                        // What can't be decoded has no properties, and matches accordingly.
                        let (properties, sections) = &*decoded;
                        let copies = rules.set().copies(properties);
                        if copies.as_sent {
                            plan.add(as_sent, message, room);
                        }
                        for changed in &copies.changed {
                            if let Ok(sections) = changed.rewrite(sections) {
                                let copy = Copy { message: index, queue, sections: Some(sections) };
                                plan.add(copy, message, room);
                            }
                        }
                    }
                }
            }
        }
        plan
    }

    /// Those messages whose identifiers were seen before this batch, with the numbers from then.
    fn duplicates(&self, messages: &[NewMessage<'_>]) -> HashMap<usize, u64> {
        if self.queues[0].ledger.history.is_none() {
            // No allocation.
            return HashMap::new();
        }
        let known = |(index, message)| Some((index, self.known(message)?));
        messages.iter().enumerate().filter_map(known).collect()
    }

    /// The number of the message that was sent before with the identifier of this one.
    #[inline]
    fn known(&self, message: &NewMessage<'_>) -> Option<u64> {
        self.queues[0].ledger.history.as_ref()?;
        self.queues[0].duplicate(&digest(message.message_id?))
    }

    fn identifier_bytes(&self, messages: &[NewMessage<'_>]) -> u64 {
        match self.queues[0].ledger.history {
            None => 0,
            Some(_) => messages.len() as u64 * ENTRY_BYTES,
        }
    }

    /// Whether so many bytes more may wait.
    pub(super) fn check_room(&self, bytes: u64) -> Result<(), QueueError> {
        let held = self.bytes();
        match held + bytes > self.size_limit {
            false => Ok(()),
            true => Err(QueueError::Full {
                held: ByteSize::from_bytes(held),
                batch: ByteSize::from_bytes(bytes),
                bound: ByteSize::from_bytes(self.size_limit),
            }),
        }
    }
}

impl super::state::QueueState {
    fn enqueue_copy(
        &mut self,
        now: i64,
        message: &NewMessage<'_>,
        payload: Payload<'_>,
        enqueue_sequence_number: u64,
        effects: &mut super::changes::Effects,
    ) {
        let mut slot = self.slot_of(now, message);
        if message.forwarded.is_none() {
            slot.enqueue_sequence_number = enqueue_sequence_number;
        }
        self.add(slot, payload, effects);
    }
}

/// The annotations of a message, as far as they count.
pub(super) fn annotations<'a>(message: &NewMessage<'a>) -> &'a [u8] {
    match u16::try_from(message.annotations.len()) {
        Ok(_) => message.annotations,
        Err(_) => &[],
    }
}

fn payload<'a>(message: &NewMessage<'a>) -> Payload<'a> {
    Payload::Pieces(annotations(message), message.sections)
}

/// What it counts towards the size limit.
#[inline]
fn size(message: &NewMessage<'_>) -> u64 {
    payload(message).length() as u64 + MESSAGE_OVERHEAD
}

#[inline]
fn is_scheduled(message: &NewMessage<'_>, now: i64) -> bool {
    message.scheduled_enqueue_time.is_some_and(|time| time.milliseconds() > now)
}

/// A message as rules see it, and its sections in one.
fn decode(now: i64, number: u64, message: &NewMessage<'_>) -> (MessageProperties, Vec<u8>) {
    let sections = message.sections.concat();
    let mut whole = annotations_section(message);
    whole.extend_from_slice(&sections);
    let mut properties = MessageProperties::decode(&whole).unwrap_or_default();
    let broker = &mut properties.broker;
    broker.enqueued_time = Some(UnixTime::from_milliseconds(now));
    broker.sequence_number = i64::try_from(number).ok();
    broker.time_to_live = message.time_to_live;
    broker.scheduled_enqueue_time = message.scheduled_enqueue_time;
    (properties, sections)
}

/// The annotations as a section of their own.
fn annotations_section(message: &NewMessage<'_>) -> Vec<u8> {
    let annotations = annotations(message);
    if annotations.is_empty() {
        return Vec::new();
    }
    let mut section = Vec::with_capacity(annotations.len() + 16);
    amqp::codec::write::descriptor(&mut section, MESSAGE_ANNOTATIONS);
    amqp::codec::write::map(&mut section, message.annotation_count.into(), |out| {
        out.extend_from_slice(annotations);
    });
    section
}

/// Half of what the journal can take at once.
pub(super) const LARGEST_BATCH: u64 = MAXIMUM_BATCH_LENGTH as u64 / 2;

/// When a scheduled message is looked at again whose copies had no room.
const PUT_OFF_MS: i64 = 10_000;

/// The descriptor of the section of message annotations.
const MESSAGE_ANNOTATIONS: u64 = 0x72;

/// Why a message without session is a dead letter where sessions are required: reason and description.
pub(super) const NO_SESSION_ID: (&str, &str) = (
    "Session ID is null",
    "Session enabled entity doesn't allow a message whose session identifier is null.",
);
