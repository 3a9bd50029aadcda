//! The records of the journal, as bytes.
//!
//! ```text
//!  group                 1 │ group │ protocol type │ emptied at i64, or -1
//!  group removed         2 │ group
//!  offset                3 │ group │ topic │ partition i32 │ offset i64 │ leader epoch i32 │ committed at i64 │ metadata
//!  offset removed        4 │ group │ topic │ partition i32
//!  topic removed         5 │ topic
//!  transaction           6 │ id │ producer id i64 │ epoch i16 │ last producer id i64 │ last epoch i16 │ timeout i32 │ state u8
//!                          │ started at i64 │ updated at i64 │ count u32 │ { topic │ partition i32 }… │ count u32 │ { group }…
//!  transaction removed   7 │ id
//!  pending offset        8 │ id, and what an offset has from its group on
//!  generation            9 │ group │ members of a classic group: see `generation`
//!  consumer group, its members, and one that is gone: 10, 11 and 12, see `consumer_group`
//! ```
//!
//! Numbers are little-endian, texts are their length as u32 and their bytes, times milliseconds since 1970. Each record stands
//! for itself: what it says replaces what was said before of the same thing, so that a record may be told twice, and the journal
//! read from any of them on to the end. Reading is total: any bytes give a record or `None`.

use super::consumer_group::{ConsumerGroupRecord, ConsumerMemberRecord};
use super::generation::GenerationRecord;
use crate::transactions::TransactionState;

/// One record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Record<'a> {
    /// There is a group.
    Group {
        group: &'a str,
        protocol_type: &'a str,
        /// Since when it has no member; `None` if it has some.
        emptied_at: Option<i64>,
    },
    /// There is none of this name any longer, and it has no offsets.
    GroupRemoved { group: &'a str },
    /// A group has come so far.
    Offset(OffsetRecord<'a>),
    /// It has not come anywhere there.
    OffsetRemoved { group: &'a str, topic: &'a str, index: i32 },
    /// A topic was deleted: no group has offsets of it.
    TopicRemoved { topic: &'a str },
    /// How it stands with a transactional id. Where that is complete, it has no pending offsets any longer.
    Transaction(TransactionRecord<'a>),
    /// There is no such id any longer.
    TransactionRemoved { id: &'a str },
    /// An offset that the transaction of an id brings with it.
    PendingOffset { id: &'a str, offset: OffsetRecord<'a> },
    /// The members of a classic group, and their assignments.
    Generation(GenerationRecord<'a>),
    /// The state of a group whose partitions the broker assigns.
    ConsumerGroup(ConsumerGroupRecord<'a>),
    /// A member of such a group.
    ConsumerMember(ConsumerMemberRecord<'a>),
    /// Such a member is gone.
    ConsumerMemberRemoved { group: &'a str, member_id: &'a str },
    /// A record of a group's members whose content can't be read, with its kind.
    UnreadableMembers { kind: u8, group: &'a str, content: &'a [u8] },
}

/// How far a group has come in one partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct OffsetRecord<'a> {
    pub(crate) group: &'a str,
    pub(crate) topic: &'a str,
    pub(crate) index: i32,
    pub(crate) offset: i64,
    pub(crate) leader_epoch: i32,
    pub(crate) committed_at: i64,
    pub(crate) metadata: &'a str,
}

/// How it stands with a transactional id.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TransactionRecord<'a> {
    pub(crate) id: &'a str,
    pub(crate) producer_id: i64,
    pub(crate) producer_epoch: i16,
    /// What the producer had before, and may still say that it has.
    pub(crate) last_producer_id: i64,
    pub(crate) last_producer_epoch: i16,
    pub(crate) timeout_ms: i32,
    pub(crate) state: TransactionState,
    pub(crate) started_at: i64,
    pub(crate) updated_at: i64,
    pub(crate) partitions: Vec<(&'a str, i32)>,
    pub(crate) groups: Vec<&'a str>,
}

impl<'a> Record<'a> {
    /// Adds the bytes of this record to `out`.
    pub(super) fn encode(&self, out: &mut Vec<u8>) {
        match self {
            Self::Group { group, protocol_type, emptied_at } => {
                out.push(GROUP);
                put_text(out, group);
                put_text(out, protocol_type);
                out.extend_from_slice(&emptied_at.unwrap_or(-1).to_le_bytes());
            }
            Self::GroupRemoved { group } => {
                out.push(GROUP_REMOVED);
                put_text(out, group);
            }
            Self::Offset(offset) => {
                out.push(OFFSET);
                offset.encode(out);
            }
            Self::OffsetRemoved { group, topic, index } => {
                out.push(OFFSET_REMOVED);
                put_text(out, group);
                put_text(out, topic);
                out.extend_from_slice(&index.to_le_bytes());
            }
            Self::TopicRemoved { topic } => {
                out.push(TOPIC_REMOVED);
                put_text(out, topic);
            }
            Self::Transaction(transaction) => {
                out.push(TRANSACTION);
                transaction.encode(out);
            }
            Self::TransactionRemoved { id } => {
                out.push(TRANSACTION_REMOVED);
                put_text(out, id);
            }
            Self::PendingOffset { id, offset } => {
                out.push(PENDING_OFFSET);
                put_text(out, id);
                offset.encode(out);
            }
            Self::Generation(generation) => {
                out.push(GENERATION);
                put_text(out, generation.group);
                generation.encode(out);
            }
            Self::ConsumerGroup(record) => {
                out.push(CONSUMER_GROUP);
                put_text(out, record.group);
                record.encode(out);
            }
            Self::ConsumerMember(record) => {
                out.push(CONSUMER_MEMBER);
                put_text(out, record.group);
                record.encode(out);
            }
            Self::ConsumerMemberRemoved { group, member_id } => {
                out.push(CONSUMER_MEMBER_REMOVED);
                put_text(out, group);
                put_text(out, member_id);
            }
            Self::UnreadableMembers { kind, group, content } => {
                out.push(*kind);
                put_text(out, group);
                put_bytes(out, content);
            }
        }
    }

    /// The record that these bytes are, to the last one.
    pub(super) fn decode(bytes: &'a [u8]) -> Option<Self> {
        let mut reader = Reader(bytes);
        let record = match reader.byte()? {
            GROUP => Self::Group {
                group: reader.text()?,
                protocol_type: reader.text()?,
                emptied_at: Some(reader.i64()?).filter(|at| *at >= 0),
            },
            GROUP_REMOVED => Self::GroupRemoved { group: reader.text()? },
            OFFSET => Self::Offset(OffsetRecord::decode(&mut reader)?),
            OFFSET_REMOVED => {
                Self::OffsetRemoved { group: reader.text()?, topic: reader.text()?, index: reader.i32()? }
            }
            TOPIC_REMOVED => Self::TopicRemoved { topic: reader.text()? },
            TRANSACTION => Self::Transaction(TransactionRecord::decode(&mut reader)?),
            TRANSACTION_REMOVED => Self::TransactionRemoved { id: reader.text()? },
            PENDING_OFFSET => {
                Self::PendingOffset { id: reader.text()?, offset: OffsetRecord::decode(&mut reader)? }
            }
            kind @ (GENERATION | CONSUMER_GROUP | CONSUMER_MEMBER) => {
                let (group, content) = (reader.text()?, reader.bytes()?);
                let record = match kind {
                    GENERATION => GenerationRecord::decode(group, content).map(Self::Generation),
                    CONSUMER_GROUP => ConsumerGroupRecord::decode(group, content).map(Self::ConsumerGroup),
                    _ => ConsumerMemberRecord::decode(group, content).map(Self::ConsumerMember),
                };
                record.unwrap_or(Self::UnreadableMembers { kind, group, content })
            }
            CONSUMER_MEMBER_REMOVED => {
                Self::ConsumerMemberRemoved { group: reader.text()?, member_id: reader.text()? }
            }
            _ => return None,
        };
        reader.0.is_empty().then_some(record)
    }
}

#[cfg(test)]
impl<'a> Record<'a> {
    /// Returns the bytes of this record.
    pub(crate) fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        self.encode(&mut bytes);
        bytes
    }

    /// Returns the record of these bytes.
    pub(crate) fn of_bytes(bytes: &'a [u8]) -> Option<Self> {
        Self::decode(bytes)
    }
}

impl<'a> OffsetRecord<'a> {
    fn encode(&self, out: &mut Vec<u8>) {
        put_text(out, self.group);
        put_text(out, self.topic);
        out.extend_from_slice(&self.index.to_le_bytes());
        out.extend_from_slice(&self.offset.to_le_bytes());
        out.extend_from_slice(&self.leader_epoch.to_le_bytes());
        out.extend_from_slice(&self.committed_at.to_le_bytes());
        put_text(out, self.metadata);
    }

    fn decode(reader: &mut Reader<'a>) -> Option<Self> {
        Some(Self {
            group: reader.text()?,
            topic: reader.text()?,
            index: reader.i32()?,
            offset: reader.i64()?,
            leader_epoch: reader.i32()?,
            committed_at: reader.i64()?,
            metadata: reader.text()?,
        })
    }
}

impl<'a> TransactionRecord<'a> {
    fn encode(&self, out: &mut Vec<u8>) {
        put_text(out, self.id);
        out.extend_from_slice(&self.producer_id.to_le_bytes());
        out.extend_from_slice(&self.producer_epoch.to_le_bytes());
        out.extend_from_slice(&self.last_producer_id.to_le_bytes());
        out.extend_from_slice(&self.last_producer_epoch.to_le_bytes());
        out.extend_from_slice(&self.timeout_ms.to_le_bytes());
        out.push(self.state.number());
        out.extend_from_slice(&self.started_at.to_le_bytes());
        out.extend_from_slice(&self.updated_at.to_le_bytes());
        put_count(out, self.partitions.len());
        for (topic, index) in &self.partitions {
            put_text(out, topic);
            out.extend_from_slice(&index.to_le_bytes());
        }
        put_count(out, self.groups.len());
        self.groups.iter().for_each(|group| put_text(out, group));
    }

    fn decode(reader: &mut Reader<'a>) -> Option<Self> {
        let mut record = Self {
            id: reader.text()?,
            producer_id: reader.i64()?,
            producer_epoch: reader.i16()?,
            last_producer_id: reader.i64()?,
            last_producer_epoch: reader.i16()?,
            timeout_ms: reader.i32()?,
            state: TransactionState::of(reader.byte()?)?,
            started_at: reader.i64()?,
            updated_at: reader.i64()?,
            partitions: Vec::new(),
            groups: Vec::new(),
        };
        for _ in 0..reader.u32()? {
            record.partitions.push((reader.text()?, reader.i32()?));
        }
        for _ in 0..reader.u32()? {
            record.groups.push(reader.text()?);
        }
        Some(record)
    }
}

/// What is left of a record.
pub(super) struct Reader<'a>(pub(super) &'a [u8]);

impl<'a> Reader<'a> {
    pub(super) fn take<const LENGTH: usize>(&mut self) -> Option<[u8; LENGTH]> {
        let (bytes, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(*bytes)
    }

    pub(super) fn byte(&mut self) -> Option<u8> {
        self.take().map(|[byte]| byte)
    }

    fn i16(&mut self) -> Option<i16> {
        self.take().map(i16::from_le_bytes)
    }

    pub(super) fn i32(&mut self) -> Option<i32> {
        self.take().map(i32::from_le_bytes)
    }

    pub(super) fn u32(&mut self) -> Option<u32> {
        self.take().map(u32::from_le_bytes)
    }

    fn i64(&mut self) -> Option<i64> {
        self.take().map(i64::from_le_bytes)
    }

    pub(super) fn bytes(&mut self) -> Option<&'a [u8]> {
        let length = self.u32()?;
        let (bytes, rest) = self.0.split_at_checked(length as usize)?;
        self.0 = rest;
        Some(bytes)
    }

    pub(super) fn text(&mut self) -> Option<&'a str> {
        str::from_utf8(self.bytes()?).ok()
    }
}

pub(super) fn put_text(out: &mut Vec<u8>, text: &str) {
    put_bytes(out, text.as_bytes());
}

pub(super) fn put_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    put_count(out, bytes.len());
    out.extend_from_slice(bytes);
}

pub(super) fn put_count(out: &mut Vec<u8>, count: usize) {
    let count = u32::try_from(count).expect("texts and lists come in requests, which are shorter");
    out.extend_from_slice(&count.to_le_bytes());
}

const GROUP: u8 = 1;
const GROUP_REMOVED: u8 = 2;
const OFFSET: u8 = 3;
const OFFSET_REMOVED: u8 = 4;
const TOPIC_REMOVED: u8 = 5;
const TRANSACTION: u8 = 6;
const TRANSACTION_REMOVED: u8 = 7;
const PENDING_OFFSET: u8 = 8;
const GENERATION: u8 = 9;
const CONSUMER_GROUP: u8 = 10;
const CONSUMER_MEMBER: u8 = 11;
const CONSUMER_MEMBER_REMOVED: u8 = 12;

#[cfg(test)]
mod tests {
    use super::super::consumer_group::MemberProgress;
    use super::super::generation::{GenerationState, MemberRecord};
    use super::*;

    fn generation(state: GenerationState, members: Vec<MemberRecord<'static>>) -> Record<'static> {
        let leader = members.first().map(|member| member.member_id);
        Record::Generation(GenerationRecord {
            group: "group",
            state,
            generation: 7,
            protocol_type: "consumer",
            protocol: "range",
            leader,
            members,
        })
    }

    fn all() -> Vec<Record<'static>> {
        let offset = OffsetRecord {
            group: "group",
            topic: "topic",
            index: 3,
            offset: i64::MAX,
            leader_epoch: -1,
            committed_at: 1_700_000_000_000,
            metadata: "é",
        };
        let transaction = TransactionRecord {
            id: "id",
            producer_id: 7,
            producer_epoch: 8,
            last_producer_id: -1,
            last_producer_epoch: -1,
            timeout_ms: 60_000,
            state: TransactionState::PrepareAbort,
            started_at: -1,
            updated_at: 5,
            partitions: vec![("topic", 0), ("", -1)],
            groups: vec!["group", ""],
        };
        let member = MemberRecord {
            member_id: "member",
            instance_id: None,
            client_id: "client",
            host: "/127.0.0.1",
            session_timeout_ms: 6_000,
            rebalance_timeout_ms: -1,
            protocols: vec![("range", b"topics"), ("sticky", b"")],
            assignment: b"partitions",
        };
        let consumer = ConsumerMemberRecord {
            group: "group",
            member_id: "member",
            instance_id: Some("instance"),
            rack_id: None,
            client_id: "client",
            host: "/127.0.0.1",
            epoch: -2,
            previous_epoch: 1,
            progress: MemberProgress::Unreleased,
            rebalance_timeout_ms: 10_000,
            assignor: Some("range"),
            pattern: Some("orders.*"),
            topics: vec!["a", ""],
            assigned: vec![([1; 16], 0), ([2; 16], 7)],
            revoked: vec![([1; 16], 1)],
            target: vec![([2; 16], 7)],
            assignment_epochs: vec![([2; 16], 7, 1)],
        };
        let unnamed = MemberRecord { instance_id: Some(""), protocols: vec![], ..member.clone() };
        vec![
            Record::Group { group: "group", protocol_type: "consumer", emptied_at: None },
            Record::Group { group: "group", protocol_type: "", emptied_at: Some(0) },
            Record::GroupRemoved { group: "" },
            Record::Offset(offset),
            Record::OffsetRemoved { group: "group", topic: "topic", index: 9 },
            Record::TopicRemoved { topic: "topic" },
            Record::Transaction(TransactionRecord { partitions: vec![], ..transaction.clone() }),
            Record::Transaction(transaction),
            Record::TransactionRemoved { id: "id" },
            Record::PendingOffset { id: "id", offset },
            generation(GenerationState::Empty, vec![]),
            generation(GenerationState::Stable, vec![member.clone(), unnamed]),
            generation(GenerationState::Rebalancing, vec![member]),
            Record::ConsumerGroup(ConsumerGroupRecord {
                group: "group",
                epoch: 3,
                target_epoch: 2,
                assignor: "uniform",
                topics: vec![("topic", [1; 16], 4)],
            }),
            Record::ConsumerMember(consumer.clone()),
            Record::ConsumerMember(ConsumerMemberRecord {
                instance_id: None,
                pattern: None,
                topics: vec![],
                assigned: vec![],
                ..consumer
            }),
            Record::ConsumerMemberRemoved { group: "group", member_id: "member" },
            Record::UnreadableMembers { kind: GENERATION, group: "group", content: &[3] },
            Record::UnreadableMembers { kind: CONSUMER_MEMBER, group: "group", content: &[] },
        ]
    }

    #[test]
    fn records_are_read_as_they_were_written_and_no_other_way() {
        for record in all() {
            let mut bytes = Vec::new();
            record.encode(&mut bytes);
            assert_eq!(Record::decode(&bytes), Some(record.clone()));
            for length in 0..bytes.len() {
                assert_eq!(Record::decode(&bytes[..length]), None, "{length} bytes of {record:?}");
            }
            bytes.push(0);
            assert_eq!(Record::decode(&bytes), None, "one byte more");
        }
        assert_eq!(Record::decode(&[0]), None);
        assert_eq!(Record::decode(&[13, 0, 0, 0, 0]), None, "of a version to come");
        assert_eq!(Record::decode(&[GROUP_REMOVED, 0xff, 0xff, 0xff, 0xff]), None);
    }

    proptest::proptest! {
        #[test]
        fn any_bytes_are_a_record_or_none(bytes: Vec<u8>, kind in 0_u8..16) {
            let _ = Record::decode(&[&[kind][..], &bytes].concat());
        }
    }
}
