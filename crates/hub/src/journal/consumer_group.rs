//! The records of groups whose partitions the broker assigns (KIP-848), as bytes.
//!
//! ```text
//!  consumer group       10 │ group │ length u32 │ epoch i32 │ target epoch i32 │ assignor │ count u32 │ { topic │ id │ partitions u32 }…
//!  consumer member      11 │ group │ length u32 │ member id │ optional: instance id, rack id │ client id │ host │ epoch i32
//!                          │ previous epoch i32 │ progress u8 │ rebalance timeout i32 │ optional: assignor, pattern
//!                          │ count u32 │ { topic }… │ assigned │ revoked │ target
//!                          │ count u32 │ { topic id │ partition i32 │ since epoch i32 }…
//!  consumer member removed  12 │ group │ member id
//! ```
//!
//! An optional text has a flag u8 before it; partitions are `count u32 │ { topic id │ partition i32 }…`. The length covers what
//! follows it, so that a record whose content can't be read still names its group.

use kafka::read::Uuid;

use super::record::{Reader, put_bytes, put_count, put_text};

/// The state of such a group besides its members. It replaces the group's last one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ConsumerGroupRecord<'a> {
    pub(crate) group: &'a str,
    pub(crate) epoch: i32,
    pub(crate) target_epoch: i32,
    pub(crate) assignor: &'a str,
    /// The topics that members want, each with its id and the number of its partitions.
    pub(crate) topics: Vec<(&'a str, Uuid, u32)>,
}

/// One member of such a group. It replaces the last one of this id.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ConsumerMemberRecord<'a> {
    pub(crate) group: &'a str,
    pub(crate) member_id: &'a str,
    pub(crate) instance_id: Option<&'a str>,
    pub(crate) rack_id: Option<&'a str>,
    pub(crate) client_id: &'a str,
    pub(crate) host: &'a str,
    pub(crate) epoch: i32,
    pub(crate) previous_epoch: i32,
    pub(crate) progress: MemberProgress,
    pub(crate) rebalance_timeout_ms: i32,
    pub(crate) assignor: Option<&'a str>,
    pub(crate) pattern: Option<&'a str>,
    pub(crate) topics: Vec<&'a str>,
    pub(crate) assigned: Vec<(Uuid, i32)>,
    pub(crate) revoked: Vec<(Uuid, i32)>,
    pub(crate) target: Vec<(Uuid, i32)>,
    /// The epoch in which the member got each partition.
    pub(crate) assignment_epochs: Vec<(Uuid, i32, i32)>,
}

/// Progress of a member towards its target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MemberProgress {
    Stable,
    Unrevoked,
    Unreleased,
}

impl<'a> ConsumerGroupRecord<'a> {
    pub(super) fn encode(&self, out: &mut Vec<u8>) {
        let mut content = Vec::with_capacity(128);
        content.extend_from_slice(&self.epoch.to_le_bytes());
        content.extend_from_slice(&self.target_epoch.to_le_bytes());
        put_text(&mut content, self.assignor);
        put_count(&mut content, self.topics.len());
        for (name, id, partitions) in &self.topics {
            put_text(&mut content, name);
            content.extend_from_slice(id);
            content.extend_from_slice(&partitions.to_le_bytes());
        }
        put_bytes(out, &content);
    }

    pub(super) fn decode(group: &'a str, content: &'a [u8]) -> Option<Self> {
        let mut reader = Reader(content);
        let (epoch, target_epoch, assignor) = (reader.i32()?, reader.i32()?, reader.text()?);
        let topics = list(&mut reader, |reader| Some((reader.text()?, reader.take()?, reader.u32()?)))?;
        reader.0.is_empty().then_some(Self { group, epoch, target_epoch, assignor, topics })
    }
}

impl<'a> ConsumerMemberRecord<'a> {
    pub(super) fn encode(&self, out: &mut Vec<u8>) {
        let mut content = Vec::with_capacity(256);
        put_text(&mut content, self.member_id);
        put_optional(&mut content, self.instance_id);
        put_optional(&mut content, self.rack_id);
        put_text(&mut content, self.client_id);
        put_text(&mut content, self.host);
        content.extend_from_slice(&self.epoch.to_le_bytes());
        content.extend_from_slice(&self.previous_epoch.to_le_bytes());
        content.push(self.progress.number());
        content.extend_from_slice(&self.rebalance_timeout_ms.to_le_bytes());
        put_optional(&mut content, self.assignor);
        put_optional(&mut content, self.pattern);
        put_count(&mut content, self.topics.len());
        self.topics.iter().for_each(|name| put_text(&mut content, name));
        for partitions in [&self.assigned, &self.revoked, &self.target] {
            put_count(&mut content, partitions.len());
            for (topic, index) in partitions {
                content.extend_from_slice(topic);
                content.extend_from_slice(&index.to_le_bytes());
            }
        }
        put_count(&mut content, self.assignment_epochs.len());
        for (topic, index, epoch) in &self.assignment_epochs {
            content.extend_from_slice(topic);
            content.extend_from_slice(&index.to_le_bytes());
            content.extend_from_slice(&epoch.to_le_bytes());
        }
        put_bytes(out, &content);
    }

    pub(super) fn decode(group: &'a str, content: &'a [u8]) -> Option<Self> {
        let mut reader = Reader(content);
        let partitions = |reader: &mut Reader<'a>| list(reader, |it| Some((it.take()?, it.i32()?)));
        let record = Self {
            group,
            member_id: reader.text()?,
            instance_id: optional(&mut reader)?,
            rack_id: optional(&mut reader)?,
            client_id: reader.text()?,
            host: reader.text()?,
            epoch: reader.i32()?,
            previous_epoch: reader.i32()?,
            progress: MemberProgress::of(reader.byte()?)?,
            rebalance_timeout_ms: reader.i32()?,
            assignor: optional(&mut reader)?,
            pattern: optional(&mut reader)?,
            topics: list(&mut reader, Reader::text)?,
            assigned: partitions(&mut reader)?,
            revoked: partitions(&mut reader)?,
            target: partitions(&mut reader)?,
            assignment_epochs: list(&mut reader, |it| Some((it.take()?, it.i32()?, it.i32()?)))?,
        };
        reader.0.is_empty().then_some(record)
    }
}

impl MemberProgress {
    const ALL: [Self; 3] = [Self::Stable, Self::Unrevoked, Self::Unreleased];

    const fn number(self) -> u8 {
        match self {
            Self::Stable => 0,
            Self::Unrevoked => 1,
            Self::Unreleased => 2,
        }
    }

    fn of(number: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|progress| progress.number() == number)
    }
}

/// Reads a list. It takes no more memory than the elements that are there.
fn list<'a, T>(
    reader: &mut Reader<'a>,
    mut element: impl FnMut(&mut Reader<'a>) -> Option<T>,
) -> Option<Vec<T>> {
    let count = reader.u32()?;
    let mut elements = Vec::new();
    for _ in 0..count {
        elements.push(element(reader)?);
    }
    Some(elements)
}

fn put_optional(out: &mut Vec<u8>, text: Option<&str>) {
    out.push(u8::from(text.is_some()));
    put_text(out, text.unwrap_or_default());
}

fn optional<'a>(reader: &mut Reader<'a>) -> Option<Option<&'a str>> {
    let is_there = match reader.byte()? {
        0 => false,
        1 => true,
        _ => return None,
    };
    Some(Some(reader.text()?).filter(|_| is_there))
}
