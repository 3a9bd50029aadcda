//! The record of a group in the journal, and the group that a record restores.
//!
//! As in Kafka, a group is written when its leader has assigned, when a static member takes its own place, and when the last
//! member is gone. A restart in between restores the last of these states: members of a rebalance that had not ended join again.

use std::collections::{BTreeMap, HashMap};

use tokio::time::Instant;

use super::member::Member;
use super::{ClassicGroup, MEMBERS_MAX, METADATA_BYTES_MAX, Reply, SESSION_TIMEOUTS, State};
use crate::journal::{GenerationRecord, GenerationState};
use kafka::ErrorCode;

/// Relation of a group to the journal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stored {
    /// The journal has no members of it.
    Never,
    /// The journal has its last state that is to be stored.
    Current,
    /// The journal has an earlier state, or none.
    Outdated,
}

impl ClassicGroup {
    /// Returns the record to write before replies are sent, if there is one.
    pub(in crate::groups) fn unstored<'a>(&'a self, group: &'a str) -> Option<GenerationRecord<'a>> {
        let is_settled = matches!(self.state, State::Empty | State::Stable);
        (self.stored == Stored::Outdated && is_settled).then(|| self.record(group))
    }

    /// Returns the record of the group as it is now, if the journal has one of it. During a rebalance it asks members to join again.
    pub(in crate::groups) fn account<'a>(&'a self, group: &'a str) -> Option<GenerationRecord<'a>> {
        self.is_stored().then(|| self.record(group))
    }

    /// Whether the journal has, or is to have, members of this group or their number.
    pub(in crate::groups) fn is_stored(&self) -> bool {
        self.stored != Stored::Never
    }

    /// Notes that the record is written.
    pub(in crate::groups) const fn note_stored(&mut self) {
        self.stored = Stored::Current;
    }

    /// Notes that what was written did not reach the disk.
    pub(in crate::groups) fn note_lost(&mut self) {
        if self.stored == Stored::Current {
            self.stored = Stored::Outdated;
        }
    }

    /// Takes back replies that depend on a record that could not be written, and has the members join again.
    pub(in crate::groups) fn refuse_unstored(&mut self, now: Instant) {
        for (_, reply) in &mut self.replies {
            reply.refuse(ErrorCode::CoordinatorNotAvailable);
        }
        if self.state == State::Stable {
            self.prepare(now);
        }
    }

    /// Has the sessions of all members begin at `now`.
    pub(in crate::groups) fn renew_sessions(&mut self, now: Instant) {
        for member in self.members.values_mut() {
            member.gone_at = now + member.session_timeout;
        }
        if let State::Preparing { until, .. } = &mut self.state {
            *until = now + self.members.values().map(|it| it.rebalance_timeout).max().unwrap_or_default();
        }
        self.emptied_at = now;
    }

    fn record<'a>(&'a self, group: &'a str) -> GenerationRecord<'a> {
        let mut members: Vec<(&String, &Member)> = self.members.iter().collect();
        members.sort_unstable_by_key(|(_, member)| member.order);
        GenerationRecord {
            group,
            state: match self.state {
                State::Empty => GenerationState::Empty,
                State::Stable => GenerationState::Stable,
                State::Preparing { .. } | State::Completing { .. } => GenerationState::Rebalancing,
            },
            generation: self.generation,
            protocol_type: &self.protocol_type,
            protocol: &self.protocol,
            leader: self.leader.as_deref(),
            members: members.into_iter().map(|(id, member)| member.record(id)).collect(),
        }
    }

    /// Returns the group that a record describes; `None` if it breaks a rule of groups. Sessions begin at `now`.
    pub(in crate::groups) fn of_record(now: Instant, record: &GenerationRecord<'_>) -> Option<Self> {
        let mut group = Self {
            generation: record.generation,
            protocol_type: record.protocol_type.to_owned(),
            protocol: record.protocol.to_owned(),
            leader: record.leader.map(str::to_owned),
            stored: Stored::Current,
            ..Self::new(now)
        };
        let members: BTreeMap<String, Member> = (1..)
            .zip(&record.members)
            .map(|(order, member)| (member.member_id.to_owned(), Member::of_record(now, member, order)))
            .collect();
        let instances: HashMap<String, String> = members
            .iter()
            .filter_map(|(id, member)| Some((member.instance_id.clone()?, id.clone())))
            .collect();
        let static_count = members.values().filter(|member| member.instance_id.is_some()).count();
        let is_sound = members.len() == record.members.len()
            && members.len() <= MEMBERS_MAX
            && members.values().map(Member::metadata_bytes).sum::<usize>() <= METADATA_BYTES_MAX
            && instances.len() == static_count
            && record.generation >= 0
            && record.members.iter().all(|member| {
                !member.member_id.is_empty()
                    && !member.protocols.is_empty()
                    && SESSION_TIMEOUTS.contains(&member.session_timeout_ms)
            })
            && group.leader.as_ref().is_none_or(|leader| members.contains_key(leader))
            && members.is_empty() == (record.state == GenerationState::Empty);
        if !is_sound {
            return None;
        }
        group.joined = members.len() as u64;
        (group.members, group.instances) = (members, instances);
        group.state = match record.state {
            GenerationState::Empty => State::Empty,
            GenerationState::Stable => State::Stable,
            GenerationState::Rebalancing => {
                State::Preparing { until: now + group.longest_rebalance(), waits: false }
            }
        };
        Some(group)
    }
}

impl Reply {
    /// Turns success into this error.
    pub(crate) fn refuse(&mut self, error: ErrorCode) {
        match self {
            Self::Join(known @ ErrorCode::None, response) => {
                *known = error;
                response.generation = -1;
                response.members.clear();
            }
            Self::Sync(known @ ErrorCode::None, response) => {
                *known = error;
                response.assignment.clear();
            }
            Self::Join(..) | Self::Sync(..) => {}
        }
    }
}
