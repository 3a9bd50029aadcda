//! The records of a journal, as bytes.
//!
//! ```text
//!  message         1 │ queue u32 │ number u64 │ hops u4, stage u4 │ delivery count u32 │ enqueued i64 │ expires i64 │ until i64
//!                    │ first number u64 │ annotations length u16 │ annotation count u16 │ session      and its bytes
//!  removed         2 │ queue u32 │ first number u64 │ last number u64
//!  changed         3 │ queue u32 │ number u64 │ stage u8 │ delivery count u32
//!  session state   4 │ queue u32 │ session │ is there u8                                             and its bytes
//!  identifier      5 │ queue u32 │ seen i64 │ digest, 16 bytes │ number u64
//!  next number     6 │ queue u32 │ number u64
//!  queues          7 │ is topic u8 │ next id u32 │ count u32 │ { id u32 │ name }…
//!  rules kept      8 │ queue u32 │ still u8 │ digest of the configured ones, 16 bytes, if still
//!  rule            9 │ queue u32                                                        and its JSON
//!  rule removed   10 │ queue u32 │ name
//!  applied        12 │ number u64
//! ```
//!
//! Numbers are little-endian, texts are their length as u32 and their bytes. What is drawn here is what the log calls
//! annotations of a record; the bytes of messages and states are its sections. `queue` is an id that stays with the
//! queue's name whatever else is declared beside it. Reading is total: any bytes give a record or `None`.

use crate::history::MessageIdDigest;
use crate::page::{NO_SESSION, Slot, Stage};
use crate::subscription_rules::RulesDigest;

/// One record, borrowed from the log. The bytes of a message or state are beside it.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Record<'a> {
    /// A message as it stands.
    Message { queue: u32, sequence_number: u64, head: MessageHead, session: Option<&'a str> },
    /// Messages of these numbers, the last one included, are gone, or never were.
    Removed { queue: u32, first: u64, last: u64 },
    /// A message stands otherwise.
    Changed { queue: u32, sequence_number: u64, stage: Stage, delivery_count: u32 },
    /// The state of a session is set, or removed.
    SessionState {
        queue: u32,
        session: &'a str,
        is_there: bool,
        /// 0 in records of versions that did not keep it.
        set_at: i64,
    },
    /// An identifier was seen.
    Identifier { queue: u32, seen: i64, digest: MessageIdDigest, sequence_number: u64 },
    /// No number before this one is given again.
    NextNumber { queue: u32, sequence_number: u64 },
    /// The rules of a subscription are kept from here on, or not any longer.
    RulesKept { queue: u32, configured: Option<RulesDigest> },
    /// A subscription has a rule.
    RulePut { queue: u32 },
    /// It has none of this name any longer.
    RuleRemoved { queue: u32, name: &'a str },
    /// Which queues there are.
    Queues(Queues),
    /// What the transactions up to this number do to the entity is in what comes before, and in this batch.
    Applied { transaction: u64 },
}

/// The ids of the queues of an entity.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub(crate) struct Queues {
    pub(super) is_topic: bool,
    pub(super) next_id: u32,
    pub(super) ids: Vec<(u32, String)>,
}

/// What a slot has that outlives the process.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct MessageHead {
    pub(super) stage: Stage,
    /// At most 15.
    pub(super) hops: u8,
    pub(super) delivery_count: u32,
    pub(super) enqueued_time: i64,
    pub(super) expires_at: i64,
    pub(super) until: i64,
    pub(super) enqueue_sequence_number: u64,
    pub(super) annotations_length: u16,
    pub(super) annotation_count: u16,
}

impl Record<'_> {
    /// Adds the bytes of this record to `out`.
    pub(super) fn encode(&self, out: &mut Vec<u8>) {
        match self {
            Self::Message { queue, sequence_number, head, session } => {
                let mut fixed = [0; MESSAGE_LENGTH];
                let mut rest = &mut fixed[..];
                let mut put = |bytes: &[u8]| {
                    let (start, end) = std::mem::take(&mut rest).split_at_mut(bytes.len());
                    start.copy_from_slice(bytes);
                    rest = end;
                };
                put(&[MESSAGE]);
                put(&queue.to_le_bytes());
                put(&sequence_number.to_le_bytes());
                put(&[head.hops << 4 | head.stage as u8]);
                put(&head.delivery_count.to_le_bytes());
                put(&head.enqueued_time.to_le_bytes());
                put(&head.expires_at.to_le_bytes());
                put(&head.until.to_le_bytes());
                put(&head.enqueue_sequence_number.to_le_bytes());
                put(&head.annotations_length.to_le_bytes());
                put(&head.annotation_count.to_le_bytes());
                put(&[u8::from(session.is_some())]);
                out.extend_from_slice(&fixed);
                if let Some(session) = session {
                    put_text(out, session);
                }
            }
            Self::Removed { queue, first, last } => {
                out.push(REMOVED);
                out.extend_from_slice(&queue.to_le_bytes());
                out.extend_from_slice(&first.to_le_bytes());
                out.extend_from_slice(&last.to_le_bytes());
            }
            Self::Changed { queue, sequence_number, stage, delivery_count } => {
                out.push(CHANGED);
                out.extend_from_slice(&queue.to_le_bytes());
                out.extend_from_slice(&sequence_number.to_le_bytes());
                out.push(*stage as u8);
                out.extend_from_slice(&delivery_count.to_le_bytes());
            }
            Self::SessionState { queue, session, is_there, set_at } => {
                out.push(SESSION_STATE_SET);
                out.extend_from_slice(&queue.to_le_bytes());
                put_text(out, session);
                out.push(u8::from(*is_there));
                out.extend_from_slice(&set_at.to_le_bytes());
            }
            Self::Identifier { queue, seen, digest, sequence_number } => {
                out.push(IDENTIFIER);
                out.extend_from_slice(&queue.to_le_bytes());
                out.extend_from_slice(&seen.to_le_bytes());
                out.extend_from_slice(digest);
                out.extend_from_slice(&sequence_number.to_le_bytes());
            }
            Self::NextNumber { queue, sequence_number } => {
                out.push(NEXT_NUMBER);
                out.extend_from_slice(&queue.to_le_bytes());
                out.extend_from_slice(&sequence_number.to_le_bytes());
            }
            Self::RulesKept { queue, configured } => {
                out.push(RULES_KEPT);
                out.extend_from_slice(&queue.to_le_bytes());
                out.push(u8::from(configured.is_some()));
                out.extend_from_slice(configured.as_ref().map_or(&[], |digest| &digest[..]));
            }
            Self::RulePut { queue } => {
                out.push(RULE_PUT);
                out.extend_from_slice(&queue.to_le_bytes());
            }
            Self::RuleRemoved { queue, name } => {
                out.push(RULE_REMOVED);
                out.extend_from_slice(&queue.to_le_bytes());
                put_text(out, name);
            }
            Self::Queues(queues) => {
                out.push(QUEUES);
                out.push(u8::from(queues.is_topic));
                out.extend_from_slice(&queues.next_id.to_le_bytes());
                out.extend_from_slice(&(queues.ids.len() as u32).to_le_bytes());
                for (id, name) in &queues.ids {
                    out.extend_from_slice(&id.to_le_bytes());
                    put_text(out, name);
                }
            }
            Self::Applied { transaction } => {
                out.push(APPLIED);
                out.extend_from_slice(&transaction.to_le_bytes());
            }
        }
    }
}

impl<'a> Record<'a> {
    /// The record that has these bytes.
    pub(super) fn decode(bytes: &'a [u8]) -> Option<Self> {
        let mut reader = Reader(bytes);
        let record = match reader.byte()? {
            MESSAGE => {
                let (queue, sequence_number) = (reader.u32()?, reader.u64()?);
                let stage = reader.byte()?;
                let head = MessageHead {
                    stage: Stage::of(stage & 15)?,
                    hops: stage >> 4,
                    delivery_count: reader.u32()?,
                    enqueued_time: reader.i64()?,
                    expires_at: reader.i64()?,
                    until: reader.i64()?,
                    enqueue_sequence_number: reader.u64()?,
                    annotations_length: u16::from_le_bytes(reader.take()?),
                    annotation_count: u16::from_le_bytes(reader.take()?),
                };
                let session = match reader.flag()? {
                    true => Some(reader.text()?),
                    false => None,
                };
                Self::Message { queue, sequence_number, head, session }
            }
            REMOVED => Self::Removed { queue: reader.u32()?, first: reader.u64()?, last: reader.u64()? },
            CHANGED => Self::Changed {
                queue: reader.u32()?,
                sequence_number: reader.u64()?,
                stage: Stage::of(reader.byte()?)?,
                delivery_count: reader.u32()?,
            },
            SESSION_STATE => Self::SessionState {
                queue: reader.u32()?,
                session: reader.text()?,
                is_there: reader.flag()?,
                set_at: 0,
            },
            SESSION_STATE_SET => Self::SessionState {
                queue: reader.u32()?,
                session: reader.text()?,
                is_there: reader.flag()?,
                set_at: reader.i64()?,
            },
            IDENTIFIER => Self::Identifier {
                queue: reader.u32()?,
                seen: reader.i64()?,
                digest: reader.take()?,
                sequence_number: reader.u64()?,
            },
            NEXT_NUMBER => Self::NextNumber { queue: reader.u32()?, sequence_number: reader.u64()? },
            RULES_KEPT => Self::RulesKept {
                queue: reader.u32()?,
                configured: match reader.flag()? {
                    true => Some(reader.take()?),
                    false => None,
                },
            },
            RULE_PUT => Self::RulePut { queue: reader.u32()? },
            RULE_REMOVED => Self::RuleRemoved { queue: reader.u32()?, name: reader.text()? },
            QUEUES => {
                let is_topic = reader.flag()?;
                let next_id = reader.u32()?;
                let mut ids = Vec::new();
                for _ in 0..reader.u32()? {
                    ids.push((reader.u32()?, reader.text()?.to_owned()));
                }
                Self::Queues(Queues { is_topic, next_id, ids })
            }
            APPLIED => Self::Applied { transaction: reader.u64()? },
            _ => return None,
        };
        reader.0.is_empty().then_some(record)
    }
}

impl MessageHead {
    /// Of a message as it would stand without its lock.
    pub(super) fn of(slot: &Slot) -> Self {
        Self {
            stage: slot.stage.unlocked(),
            hops: slot.hops,
            delivery_count: slot.delivery_count,
            enqueued_time: slot.enqueued_time,
            expires_at: slot.expires_at,
            until: slot.until,
            enqueue_sequence_number: slot.enqueue_sequence_number,
            annotations_length: slot.annotations_length,
            annotation_count: slot.annotation_count,
        }
    }

    /// The slot, without session, lock and bytes so far.
    pub(super) fn slot(&self) -> Slot {
        Slot {
            stage: self.stage,
            hops: self.hops,
            delivery_count: self.delivery_count,
            expires_at: self.expires_at,
            until: self.until,
            annotations_length: self.annotations_length,
            annotation_count: self.annotation_count,
            session: NO_SESSION,
            ..Slot::new(self.enqueued_time, self.enqueue_sequence_number)
        }
    }
}

/// What is left of a record.
pub(crate) struct Reader<'a>(pub(crate) &'a [u8]);

impl<'a> Reader<'a> {
    pub(crate) fn take<const LENGTH: usize>(&mut self) -> Option<[u8; LENGTH]> {
        let (bytes, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(*bytes)
    }

    pub(crate) fn byte(&mut self) -> Option<u8> {
        self.take().map(|[byte]| byte)
    }

    pub(crate) fn flag(&mut self) -> Option<bool> {
        self.byte().map(|byte| byte != 0)
    }

    pub(crate) fn u32(&mut self) -> Option<u32> {
        self.take().map(u32::from_le_bytes)
    }

    pub(crate) fn u64(&mut self) -> Option<u64> {
        self.take().map(u64::from_le_bytes)
    }

    pub(crate) fn i64(&mut self) -> Option<i64> {
        self.take().map(i64::from_le_bytes)
    }

    pub(crate) fn text(&mut self) -> Option<&'a str> {
        let length = self.u32()?;
        let (text, rest) = self.0.split_at_checked(length as usize)?;
        self.0 = rest;
        std::str::from_utf8(text).ok()
    }
}

pub(crate) fn put_text(out: &mut Vec<u8>, text: &str) {
    out.extend_from_slice(&(text.len() as u32).to_le_bytes());
    out.extend_from_slice(text.as_bytes());
}

const MESSAGE: u8 = 1;
const REMOVED: u8 = 2;
const CHANGED: u8 = 3;
/// Of versions that did not keep when a state was set.
const SESSION_STATE: u8 = 4;
const IDENTIFIER: u8 = 5;
const NEXT_NUMBER: u8 = 6;
const QUEUES: u8 = 7;
const RULES_KEPT: u8 = 8;
const RULE_PUT: u8 = 9;
const RULE_REMOVED: u8 = 10;
const SESSION_STATE_SET: u8 = 11;
const APPLIED: u8 = 12;

/// Bytes of a message's record before its session.
const MESSAGE_LENGTH: usize = 55;

#[cfg(test)]
mod tests {
    use super::*;

    fn all() -> Vec<Record<'static>> {
        let head = MessageHead {
            stage: Stage::Scheduled,
            hops: 4,
            delivery_count: 3,
            enqueued_time: -4,
            expires_at: i64::MAX,
            until: 5,
            enqueue_sequence_number: 6,
            annotations_length: 7,
            annotation_count: 8,
        };
        let message = |session| Record::Message { queue: 1, sequence_number: 2, head, session };
        vec![
            message(None),
            message(Some("")),
            message(Some("session")),
            Record::Removed { queue: 1, first: 2, last: 3 },
            Record::Changed { queue: 1, sequence_number: 2, stage: Stage::Deferred, delivery_count: 9 },
            Record::SessionState { queue: 1, session: "s", is_there: true, set_at: -2 },
            Record::Identifier { queue: 1, seen: -1, digest: [7; 16], sequence_number: 8 },
            Record::NextNumber { queue: 1, sequence_number: 2 },
            Record::RulesKept { queue: 1, configured: None },
            Record::RulesKept { queue: 1, configured: Some([7; 16]) },
            Record::RulePut { queue: 1 },
            Record::RuleRemoved { queue: 1, name: "$Default" },
            Record::Queues(Queues {
                is_topic: true,
                next_id: 4,
                ids: vec![(0, String::new()), (3, "s".to_owned())],
            }),
            Record::Applied { transaction: u64::MAX },
        ]
    }

    #[test]
    fn records_read_back_as_they_were_written() {
        for record in all() {
            let mut bytes = Vec::new();
            record.encode(&mut bytes);
            assert_eq!(Record::decode(&bytes), Some(record));
        }
    }

    #[test]
    fn records_that_are_cut_or_go_on_are_none() {
        for record in all() {
            let mut bytes = Vec::new();
            record.encode(&mut bytes);
            for length in 0..bytes.len() {
                assert_eq!(Record::decode(&bytes[..length]), None, "{record:?} at {length}");
            }
            bytes.push(0);
            assert_eq!(Record::decode(&bytes), None, "{record:?}");
        }
        assert_eq!(Record::decode(&[99]), None);
        let old = [SESSION_STATE, 1, 0, 0, 0, 1, 0, 0, 0, b's', 1];
        let state = Record::SessionState { queue: 1, session: "s", is_there: true, set_at: 0 };
        assert_eq!(Record::decode(&old), Some(state));
        // A count that nothing follows reserves nothing.
        let endless = [QUEUES, 0, 0, 0, 0, 0, 0xff, 0xff, 0xff, 0xff];
        assert_eq!(Record::decode(&endless), None);
    }
}
