//! The record of a classic group's generation, as bytes: its members, and the assignment of each.
//!
//! ```text
//!  generation            9 │ group │ length u32 │ state u8 │ generation i32 │ protocol type │ protocol │ leader, or empty
//!                          │ count u32 │ { member id │ flag u8 │ instance id │ client id │ host │ session timeout i32
//!                          │ rebalance timeout i32 │ count u32 │ { protocol │ metadata }… │ assignment }…
//! ```
//!
//! The length covers what follows it, so that a record whose content can't be read still names its group.

use super::record::{Reader, put_bytes, put_count, put_text};

/// One generation of a classic group. It replaces the group's last one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct GenerationRecord<'a> {
    pub(crate) group: &'a str,
    pub(crate) state: GenerationState,
    pub(crate) generation: i32,
    pub(crate) protocol_type: &'a str,
    /// The name of the chosen assignor; empty without members.
    pub(crate) protocol: &'a str,
    pub(crate) leader: Option<&'a str>,
    /// The members, in the order in which they joined.
    pub(crate) members: Vec<MemberRecord<'a>>,
}

/// State in which a group is restored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum GenerationState {
    /// It has no members.
    Empty,
    /// The members have their assignments.
    Stable,
    /// The members have to join again.
    Rebalancing,
}

/// One member of a generation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct MemberRecord<'a> {
    pub(crate) member_id: &'a str,
    pub(crate) instance_id: Option<&'a str>,
    pub(crate) client_id: &'a str,
    pub(crate) host: &'a str,
    pub(crate) session_timeout_ms: i32,
    pub(crate) rebalance_timeout_ms: i32,
    /// The assignors that the member supports, each with its metadata.
    pub(crate) protocols: Vec<(&'a str, &'a [u8])>,
    pub(crate) assignment: &'a [u8],
}

impl<'a> GenerationRecord<'a> {
    /// Appends what follows the group's name.
    pub(super) fn encode(&self, out: &mut Vec<u8>) {
        let mut content = Vec::with_capacity(256);
        content.push(self.state.number());
        content.extend_from_slice(&self.generation.to_le_bytes());
        put_text(&mut content, self.protocol_type);
        put_text(&mut content, self.protocol);
        put_text(&mut content, self.leader.unwrap_or_default());
        put_count(&mut content, self.members.len());
        self.members.iter().for_each(|member| member.encode(&mut content));
        put_bytes(out, &content);
    }

    /// Reads the content of a record.
    pub(super) fn decode(group: &'a str, content: &'a [u8]) -> Option<Self> {
        let mut reader = Reader(content);
        let mut record = Self {
            group,
            state: GenerationState::of(reader.byte()?)?,
            generation: reader.i32()?,
            protocol_type: reader.text()?,
            protocol: reader.text()?,
            leader: Some(reader.text()?).filter(|leader| !leader.is_empty()),
            members: Vec::new(),
        };
        for _ in 0..reader.u32()? {
            record.members.push(MemberRecord::decode(&mut reader)?);
        }
        reader.0.is_empty().then_some(record)
    }
}

impl<'a> MemberRecord<'a> {
    fn encode(&self, out: &mut Vec<u8>) {
        put_text(out, self.member_id);
        out.push(u8::from(self.instance_id.is_some()));
        put_text(out, self.instance_id.unwrap_or_default());
        put_text(out, self.client_id);
        put_text(out, self.host);
        out.extend_from_slice(&self.session_timeout_ms.to_le_bytes());
        out.extend_from_slice(&self.rebalance_timeout_ms.to_le_bytes());
        put_count(out, self.protocols.len());
        for (name, metadata) in &self.protocols {
            put_text(out, name);
            put_bytes(out, metadata);
        }
        put_bytes(out, self.assignment);
    }

    fn decode(reader: &mut Reader<'a>) -> Option<Self> {
        let member_id = reader.text()?;
        let is_static = match reader.byte()? {
            0 => false,
            1 => true,
            _ => return None,
        };
        let mut member = Self {
            member_id,
            instance_id: Some(reader.text()?).filter(|_| is_static),
            client_id: reader.text()?,
            host: reader.text()?,
            session_timeout_ms: reader.i32()?,
            rebalance_timeout_ms: reader.i32()?,
            protocols: Vec::new(),
            assignment: &[],
        };
        for _ in 0..reader.u32()? {
            member.protocols.push((reader.text()?, reader.bytes()?));
        }
        member.assignment = reader.bytes()?;
        Some(member)
    }
}

impl GenerationState {
    const ALL: [Self; 3] = [Self::Empty, Self::Stable, Self::Rebalancing];

    const fn number(self) -> u8 {
        match self {
            Self::Empty => 0,
            Self::Stable => 1,
            Self::Rebalancing => 2,
        }
    }

    fn of(number: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|state| state.number() == number)
    }
}
