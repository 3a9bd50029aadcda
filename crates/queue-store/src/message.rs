//! Messages on their way in and on their way out.

use super::lock_end::LockEnd;
use super::lock_token::LockToken;
use bytes::Bytes;
use partition_log::UnixTime;
use std::sync::Arc;
use std::time::Duration;

/// A message to enqueue, borrowed from wherever it arrived.
#[derive(Clone, Copy, Debug, Default)]
pub struct NewMessage<'a> {
    /// Header and delivery annotations if a receiver is to get them, then the sections from properties to footer, in as
    /// many pieces as they have; they are stored as one.
    pub sections: &'a [&'a [u8]],
    /// How many key-value pairs `annotations` holds.
    pub annotation_count: u16,
    /// The encoded keys and values of those message annotations that receivers get as they are (partition key,
    /// scheduled enqueue time, …), one after the other, without a map header. At most 65,535 bytes count, and more
    /// are left out altogether.
    pub annotations: &'a [u8],
    /// The encoded message identifier, of whatever type, by which duplicates are detected.
    pub message_id: Option<&'a [u8]>,
    /// The session that it belongs to. Ignored where sessions are not required.
    pub session_id: Option<&'a str>,
    /// How long it may wait.
    pub time_to_live: Option<Duration>,
    /// When it becomes available. A time that has come already means at once.
    pub scheduled_enqueue_time: Option<UnixTime>,
    /// Where it was before, if another entity forwards it.
    pub forwarded: Option<Forwarded>,
}

/// What a forwarded message brings along.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Forwarded {
    /// The number that it had where it was enqueued first.
    pub enqueue_sequence_number: u64,
    /// How often it was forwarded, this time included.
    pub hops: u8,
}

/// How a message stands, as its annotation `x-opt-message-state` tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum MessageState {
    /// Waiting for a receiver, or locked by one.
    Active,
    /// Put aside; received by its number only.
    Deferred,
    /// Not available before its time.
    Scheduled,
}

impl MessageState {
    /// The value of the annotation.
    #[must_use]
    pub const fn code(self) -> i32 {
        match self {
            Self::Active => 0,
            Self::Deferred => 1,
            Self::Scheduled => 2,
        }
    }
}

/// What receiving or peeking gave. Use it again and again: it keeps its memory.
#[derive(Clone, Debug, Default)]
pub struct Deliveries {
    pub(super) heads: Vec<DeliveryHead>,
    /// Annotations and sections of short messages, one message after the other.
    pub(super) short: Vec<u8>,
    /// Those of long ones, shared with the queue.
    pub(super) long: Vec<Bytes>,
    pub(super) dead_letter_source: Option<Arc<str>>,
}

/// One message, borrowed from [`Deliveries`].
#[derive(Clone, Copy, Debug)]
pub struct Delivery<'a> {
    /// Its number in this queue.
    pub sequence_number: u64,
    /// The number that it had where it was enqueued first.
    pub enqueue_sequence_number: u64,
    /// When that was; of a scheduled message, when it became available.
    pub enqueued_time: UnixTime,
    /// How long it may wait from then on, if it has an end.
    pub time_to_live: Option<Duration>,
    /// Deliveries that failed: 0 the first time.
    pub delivery_count: u32,
    /// How it stands.
    pub state: MessageState,
    /// The lock, if it was received with one.
    pub lock: Option<Lock>,
    /// The queue or subscription that it was dead-lettered in, if this is a dead-letter queue.
    pub dead_letter_source: Option<&'a str>,
    /// How many key-value pairs `annotations` holds.
    pub annotation_count: u16,
    /// The annotations that came with it, encoded, without a map header.
    pub annotations: &'a [u8],
    /// The sections that it was enqueued with.
    pub sections: &'a [u8],
}

/// What a receiver has of a message that it may settle.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lock {
    /// What settles it.
    pub token: LockToken,
    /// Until when.
    pub until: LockEnd,
}

/// The fixed part of a delivery.
#[derive(Clone, Copy, Debug)]
pub(super) struct DeliveryHead {
    pub(super) sequence_number: u64,
    pub(super) enqueue_sequence_number: u64,
    pub(super) enqueued_time: i64,
    /// `i64::MAX` if it does not expire.
    pub(super) expires_at: i64,
    /// 0 if there is no lock.
    pub(super) nonce: u64,
    pub(super) locked_until: i64,
    pub(super) delivery_count: u32,
    /// Bytes of annotations and sections.
    pub(super) length: u32,
    pub(super) annotations_length: u16,
    pub(super) annotation_count: u16,
    pub(super) state: MessageState,
    /// How often it was forwarded.
    pub(super) hops: u8,
    /// In `long`, not in `short`.
    pub(super) is_long: bool,
}

impl Deliveries {
    /// No messages yet.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// How many messages there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.heads.len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.heads.is_empty()
    }

    /// Lets go of the messages. Their locks stay.
    pub fn clear(&mut self) {
        self.heads.clear();
        self.short.clear();
        self.short.shrink_to(KEPT_BYTES);
        self.long.clear();
        self.dead_letter_source = None;
    }

    /// The messages, in order.
    pub fn iter(&self) -> impl Iterator<Item = Delivery<'_>> {
        let mut short = &self.short[..];
        let mut long = self.long.iter();
        self.heads.iter().map(move |head| {
            let bytes = match head.is_long {
                false => {
                    let (bytes, rest) = short.split_at(head.length as usize);
                    short = rest;
                    bytes
                }
                true => long.next().expect("each long message has its bytes"),
            };
            let (annotations, sections) = bytes.split_at(head.annotations_length.into());
            Delivery {
                sequence_number: head.sequence_number,
                enqueue_sequence_number: head.enqueue_sequence_number,
                enqueued_time: UnixTime::from_milliseconds(head.enqueued_time),
                time_to_live: head.time_to_live(),
                delivery_count: head.delivery_count,
                state: head.state,
                lock: head.lock(),
                dead_letter_source: self.dead_letter_source.as_deref(),
                annotation_count: head.annotation_count,
                annotations,
                sections,
            }
        })
    }
}

impl DeliveryHead {
    fn time_to_live(&self) -> Option<Duration> {
        let left = self.expires_at.saturating_sub(self.enqueued_time).max(0);
        (self.expires_at != i64::MAX).then(|| Duration::from_millis(left as u64))
    }

    fn lock(&self) -> Option<Lock> {
        (self.nonce != 0).then_some(Lock {
            token: LockToken { sequence_number: self.sequence_number, nonce: self.nonce },
            until: LockEnd::from_milliseconds(self.locked_until),
        })
    }
}

/// What an emptied buffer keeps for the next time.
const KEPT_BYTES: usize = 256 * 1024;
