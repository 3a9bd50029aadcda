//! One consumer group, as a state machine: requests and the time in, replies out. It knows no socket and no clock.
//!
//! ```text
//!            first member joins          all are back, or the time is over         the leader has assigned
//!  Empty ─────────────────────▶ Preparing ─────────────────────────▶ Completing ─────────────────────────▶ Stable
//!    ▲                           ▲   ▲ a member comes, goes or changes │ the same                             │ the same
//!    └── no member is left ──────┘   └─────────────────────────────────┴──────────────────────────────────────┘
//! ```
//!
//! Each time around is a generation. A request that has to wait is given a ticket by the caller, and its [`Reply`] comes out
//! under that ticket, later or at once. Sources: Kafka's protocol guide, KIP-62 (rebalance timeout), KIP-345 (static members),
//! KIP-394 (member ids).

mod member;
mod storing;

use std::collections::{BTreeMap, HashMap, HashSet};
use std::time::Duration;

use kafka::ErrorCode;
use kafka::messages::group::MemberRef;
use kafka::messages::group_admin::{DescribedGroup, DescribedMember};
use kafka::messages::join_group::{JoinGroupRequest, JoinGroupResponse, JoinedMember};
use kafka::messages::sync_group::{SyncGroupRequest, SyncGroupResponse};
use tokio::time::Instant;

use super::group::{Client, MEMBER_BYTES, MEMBERS_MAX, METADATA_BYTES_MAX, Ticket};
use member::{Member, milliseconds};
use storing::Stored;

/// A group of consumers who share the partitions of topics.
#[derive(Debug)]
pub(super) struct ClassicGroup {
    state: State,
    generation: i32,
    protocol_type: String,
    /// The way of assignment that was chosen.
    protocol: String,
    members: BTreeMap<String, Member>,
    /// The ids of members by the names that they keep.
    instances: HashMap<String, String>,
    /// Ids that were given out and have not joined yet, each until when it may.
    pending: BTreeMap<String, Instant>,
    leader: Option<String>,
    /// How many have joined so far: the first of those who are there leads.
    joined: u64,
    /// Since when it has no member.
    emptied_at: Instant,
    stored: Stored,
    replies: Vec<(Ticket, Reply)>,
}

/// What a request that had to wait is answered.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Reply {
    Join(ErrorCode, JoinGroupResponse),
    Sync(ErrorCode, SyncGroupResponse),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Empty,
    /// Members come, or come back, until then. A group that was empty waits until then in any case: more may be about to come.
    Preparing {
        until: Instant,
        waits: bool,
    },
    /// The leader assigns, and the members fetch their parts, until then.
    Completing {
        until: Instant,
    },
    Stable,
}

impl ClassicGroup {
    pub(super) fn new(now: Instant) -> Self {
        Self {
            state: State::Empty,
            generation: 0,
            protocol_type: String::new(),
            protocol: String::new(),
            members: BTreeMap::new(),
            instances: HashMap::new(),
            pending: BTreeMap::new(),
            leader: None,
            joined: 0,
            emptied_at: now,
            stored: Stored::Never,
            replies: Vec::new(),
        }
    }

    /// A group without members that was of this kind.
    pub(super) fn restored(now: Instant, protocol_type: String) -> Self {
        Self { protocol_type, ..Self::new(now) }
    }

    /// The replies that are due.
    pub(super) fn take_replies(&mut self) -> Vec<(Ticket, Reply)> {
        std::mem::take(&mut self.replies)
    }

    /// Someone joins, or comes back. `new_id` is the id of a new member.
    pub(super) fn join(
        &mut self,
        now: Instant,
        ticket: Ticket,
        request: &JoinGroupRequest<'_>,
        client: Client<'_>,
        new_id: impl FnOnce() -> String,
    ) {
        if let Err(error) = self.check_join(request, client) {
            return self.refuse_join(ticket, error, request.member_id);
        }
        let instance = request.instance_id.and_then(|instance| self.instances.get(instance).cloned());
        match (request.member_id, request.instance_id, instance) {
            ("", Some(_), Some(known)) => self.replace(now, ticket, request, client, &known, new_id()),
            ("", None, _) if client.version >= FIRST_WITH_PENDING => {
                let id = new_id();
                let timeout = milliseconds(request.session_timeout_ms).min(PENDING_MAX);
                self.pending.insert(id.clone(), now + timeout);
                self.refuse_join(ticket, ErrorCode::MemberIdRequired, &id);
            }
            ("", ..) => self.add(now, ticket, request, client, new_id()),
            (id, Some(_), Some(known)) if known != id => {
                self.refuse_join(ticket, ErrorCode::FencedInstanceId, id);
            }
            (id, ..) if self.pending.remove(id).is_some() => {
                self.add(now, ticket, request, client, id.to_owned());
            }
            (id, ..) if self.members.contains_key(id) => self.rejoin(now, ticket, request, client, id),
            (id, ..) => self.refuse_join(ticket, ErrorCode::UnknownMemberId, id),
        }
    }

    /// Returns the memory of its members, in bytes.
    pub(super) fn bytes(&self) -> usize {
        let members = self.members.values();
        let members: usize =
            members.map(|member| MEMBER_BYTES + member.metadata_bytes() + member.assignment.len()).sum();
        members + self.pending.len() * MEMBER_BYTES
    }

    /// Returns the bytes by which a member that joins adds to the memory of the group.
    pub(super) fn growth_by(&self, request: &JoinGroupRequest<'_>, client: Client<'_>) -> usize {
        let before = self.members.get(request.member_id);
        let before = before.map_or(0, |member| MEMBER_BYTES + member.metadata_bytes());
        (MEMBER_BYTES + member::metadata_bytes(request, client)).saturating_sub(before)
    }

    /// Whether it may be a member of this group at all.
    fn check_join(&self, request: &JoinGroupRequest<'_>, client: Client<'_>) -> Result<(), ErrorCode> {
        if !SESSION_TIMEOUTS.contains(&request.session_timeout_ms) {
            return Err(ErrorCode::InvalidSessionTimeout);
        }
        if !(1..=PROTOCOLS_MAX).contains(&request.protocols.len()) || request.protocol_type.is_empty() {
            return Err(ErrorCode::InconsistentGroupProtocol);
        }
        if self.members.len() + self.pending.len() >= MEMBERS_MAX {
            return Err(ErrorCode::GroupMaxSizeReached);
        }
        let others = || self.members.iter().filter(|(id, _)| *id != request.member_id).map(|(_, it)| it);
        let metadata_bytes: usize = others().map(Member::metadata_bytes).sum();
        if metadata_bytes.saturating_add(member::metadata_bytes(request, client)) > METADATA_BYTES_MAX {
            return Err(ErrorCode::GroupMaxSizeReached);
        }
        let others = others();
        if others.clone().next().is_none() {
            return Ok(());
        }
        let common = common_protocols(others);
        let is_common = |(name, _): &(&str, &[u8])| common.contains(name);
        match request.protocol_type == self.protocol_type && request.protocols.iter().any(is_common) {
            true => Ok(()),
            false => Err(ErrorCode::InconsistentGroupProtocol),
        }
    }

    fn refuse_join(&mut self, ticket: Ticket, error: ErrorCode, member_id: &str) {
        let member_id = member_id.to_owned();
        let response = JoinGroupResponse { generation: -1, member_id, ..JoinGroupResponse::default() };
        self.replies.push((ticket, Reply::Join(error, response)));
    }

    /// A new member.
    fn add(
        &mut self,
        now: Instant,
        ticket: Ticket,
        request: &JoinGroupRequest<'_>,
        client: Client<'_>,
        id: String,
    ) {
        self.joined += 1;
        let member = Member::new(now, ticket, request, client, self.joined);
        if let Some(instance) = &member.instance_id {
            self.instances.insert(instance.clone(), id.clone());
        }
        self.protocol_type = request.protocol_type.to_owned();
        self.members.insert(id, member);
        self.prepare(now);
    }

    /// A member that is known comes back.
    fn rejoin(
        &mut self,
        now: Instant,
        ticket: Ticket,
        request: &JoinGroupRequest<'_>,
        client: Client<'_>,
        id: &str,
    ) {
        let is_leader = self.leader.as_deref() == Some(id);
        let Some(member) = self.members.get_mut(id) else {
            return;
        };
        let is_as_before = member.protocols_are(request);
        member.update(now, ticket, request, client);
        match self.state {
            State::Stable if is_as_before && !is_leader => self.answer_join(id),
            // It has not heard of the generation that has begun without it.
            State::Completing { .. } if is_as_before => self.answer_join(id),
            _ => self.prepare(now),
        }
    }

    /// A static member has started again: it takes the place of what it was before.
    fn replace(
        &mut self,
        now: Instant,
        ticket: Ticket,
        request: &JoinGroupRequest<'_>,
        client: Client<'_>,
        old: &str,
        id: String,
    ) {
        let Some(mut member) = self.members.remove(old) else {
            return self.add(now, ticket, request, client, id);
        };
        self.refuse_waiting(&mut member, old, ErrorCode::FencedInstanceId);
        member.update(now, ticket, request, client);
        self.members.insert(id.clone(), member);
        self.instances.extend(request.instance_id.map(|instance| (instance.to_owned(), id.clone())));
        let was_leader = self.leader.as_deref() == Some(old);
        if was_leader {
            self.leader = Some(id.clone());
        }
        match self.state {
            // As in Kafka, whatever else it says: one that has come from an earlier generation said which, and one that starts does not.
            State::Stable if self.chosen_protocol() == self.protocol => {
                self.stored = Stored::Outdated;
                self.answer_join(&id);
                // A leader of an older version would assign anew. The reply names another leader.
                if was_leader
                    && let Some((_, Reply::Join(_, response))) = self.replies.last_mut()
                    && !response.skip_assignment
                {
                    response.leader = old.to_owned();
                    response.members.clear();
                }
            }
            _ => self.prepare(now),
        }
    }

    /// The group has to be made anew, or is being made anew already.
    fn prepare(&mut self, now: Instant) {
        if matches!(self.state, State::Preparing { .. }) {
            return self.complete_if_all_are_back(now);
        }
        for member in self.members.values_mut() {
            if let Some(sync) = member.sync.take() {
                self.replies.push((sync, refused_sync(ErrorCode::RebalanceInProgress)));
            }
        }
        self.state = match self.state {
            State::Empty => State::Preparing { until: now + FIRST_WAIT, waits: true },
            _ => State::Preparing { until: now + self.longest_rebalance(), waits: false },
        };
        self.complete_if_all_are_back(now);
    }

    fn longest_rebalance(&self) -> Duration {
        self.members.values().map(|member| member.rebalance_timeout).max().unwrap_or_default()
    }

    fn complete_if_all_are_back(&mut self, now: Instant) {
        let are_back = self.pending.is_empty() && self.members.values().all(|member| member.join.is_some());
        if are_back && matches!(self.state, State::Preparing { waits: false, .. }) {
            self.complete(now);
        }
    }

    /// Begins a generation with those who are back.
    fn complete(&mut self, now: Instant) {
        // Static members may be starting again; they are gone when their session is.
        let gone: Vec<String> = self
            .members
            .iter()
            .filter(|(_, member)| member.join.is_none() && member.instance_id.is_none())
            .map(|(id, _)| id.clone())
            .collect();
        gone.iter().for_each(|id| self.remove(id));
        if self.members.is_empty() {
            return self.empty(now);
        }
        if self.members.values().all(|member| member.join.is_none()) {
            self.state = State::Preparing { until: now + self.longest_rebalance(), waits: false };
            return;
        }
        self.generation = self.generation.checked_add(1).unwrap_or(1);
        self.protocol = self.chosen_protocol();
        let leads = |id: &String| self.members.get(id).is_some_and(|member| member.join.is_some());
        if !self.leader.as_ref().is_some_and(leads) {
            let back = self.members.iter().filter(|(_, member)| member.join.is_some());
            self.leader = back.min_by_key(|(_, member)| member.order).map(|(id, _)| id.clone());
        }
        self.state = State::Completing { until: now + self.longest_rebalance() };
        let back: Vec<String> = self.members.keys().cloned().collect();
        for id in back {
            if let Some(member) = self.members.get_mut(&id) {
                member.assignment.clear();
                member.gone_at = now + member.session_timeout;
            }
            self.answer_join(&id);
        }
    }

    /// The way that all know and most like best.
    fn chosen_protocol(&self) -> String {
        let common = common_protocols(self.members.values());
        let mut votes: BTreeMap<&str, usize> = BTreeMap::new();
        for member in self.members.values() {
            let is_common = |(name, _): &&(String, Vec<u8>)| common.contains(name.as_str());
            if let Some((name, _)) = member.protocols.iter().find(is_common) {
                *votes.entry(name).or_default() += 1;
            }
        }
        votes
            .into_iter()
            .max_by_key(|(_, votes)| *votes)
            .map_or_else(String::new, |(name, _)| name.to_owned())
    }

    /// Tells a member that waits what it belongs to.
    fn answer_join(&mut self, id: &str) {
        let is_leader = self.leader.as_deref() == Some(id);
        let is_stable = self.state == State::Stable;
        let Some(member) = self.members.get_mut(id) else {
            return;
        };
        let Some(ticket) = member.join.take() else {
            return;
        };
        let skip_assignment = is_leader && is_stable && member.may_skip;
        let members = match is_leader {
            false => Vec::new(),
            true => self
                .members
                .iter()
                .map(|(id, member)| JoinedMember {
                    member_id: id.clone(),
                    instance_id: member.instance_id.clone(),
                    metadata: member.metadata(&self.protocol).unwrap_or_default().to_vec(),
                })
                .collect(),
        };
        let response = JoinGroupResponse {
            generation: self.generation,
            protocol_type: Some(self.protocol_type.clone()),
            protocol: Some(self.protocol.clone()),
            leader: self.leader.clone().unwrap_or_default(),
            skip_assignment,
            member_id: id.to_owned(),
            members,
        };
        self.replies.push((ticket, Reply::Join(ErrorCode::None, response)));
    }

    /// A member brings the assignment, or fetches its part.
    pub(super) fn sync(&mut self, now: Instant, ticket: Ticket, request: &SyncGroupRequest<'_>) {
        let is_other = |asked: Option<&str>, own: &str| asked.is_some_and(|asked| asked != own);
        let error = match self.check_member(now, &request.member) {
            Err(error) => Some(error),
            Ok(()) if is_other(request.protocol_type, &self.protocol_type) => {
                Some(ErrorCode::InconsistentGroupProtocol)
            }
            Ok(()) if is_other(request.protocol, &self.protocol) => {
                Some(ErrorCode::InconsistentGroupProtocol)
            }
            Ok(()) if matches!(self.state, State::Preparing { .. }) => Some(ErrorCode::RebalanceInProgress),
            Ok(()) => None,
        };
        if let Some(error) = error {
            self.replies.push((ticket, refused_sync(error)));
            return;
        }
        let id = request.member.member_id;
        if let Some(member) = self.members.get_mut(id) {
            member.sync = Some(ticket);
        }
        if matches!(self.state, State::Completing { .. }) && self.leader.as_deref() == Some(id) {
            for (id, assignment) in &request.assignments {
                if let Some(member) = self.members.get_mut(*id) {
                    member.assignment = assignment.to_vec();
                }
            }
            self.state = State::Stable;
            self.stored = Stored::Outdated;
        }
        if self.state == State::Stable {
            self.answer_syncs(now);
        }
    }

    fn answer_syncs(&mut self, now: Instant) {
        for member in self.members.values_mut() {
            if let Some(ticket) = member.sync.take() {
                member.gone_at = now + member.session_timeout;
                let response = SyncGroupResponse {
                    protocol_type: Some(self.protocol_type.clone()),
                    protocol: Some(self.protocol.clone()),
                    assignment: member.assignment.clone(),
                };
                self.replies.push((ticket, Reply::Sync(ErrorCode::None, response)));
            }
        }
    }

    /// A member shows that it is there.
    pub(super) fn heartbeat(&mut self, now: Instant, member: &MemberRef<'_>) -> ErrorCode {
        match self.check_member(now, member) {
            Err(error) => error,
            Ok(()) if matches!(self.state, State::Preparing { .. }) => ErrorCode::RebalanceInProgress,
            Ok(()) => ErrorCode::None,
        }
    }

    /// Whether someone may commit offsets: a member of this generation, or, where there is no member, anyone who says that it is none.
    pub(super) fn check_commit(&mut self, now: Instant, member: &MemberRef<'_>) -> Result<(), ErrorCode> {
        if member.generation < 0 && self.state == State::Empty {
            return Ok(());
        }
        self.check_member(now, member)?;
        match self.state {
            State::Completing { .. } => Err(ErrorCode::RebalanceInProgress),
            State::Empty | State::Preparing { .. } | State::Stable => Ok(()),
        }
    }

    /// Whether a member has subscribed to this topic. What a member says that can't be read may mean any topic.
    pub(super) fn is_subscribed_to(&self, topic: &str) -> bool {
        self.members.values().any(|member| member.may_want(topic))
    }

    /// The topics of each member; `None` if they can't be read.
    pub(super) fn subscriptions(&self) -> impl Iterator<Item = Option<Vec<&str>>> {
        self.members.values().map(Member::topics)
    }

    /// Whether it is a member of this generation. It is there for another session then.
    pub(super) fn check_member(&mut self, now: Instant, asked: &MemberRef<'_>) -> Result<(), ErrorCode> {
        if let Some(instance) = asked.instance_id {
            match self.instances.get(instance) {
                Some(known) if known != asked.member_id => return Err(ErrorCode::FencedInstanceId),
                Some(_) => {}
                None => return Err(ErrorCode::UnknownMemberId),
            }
        }
        let member = self.members.get_mut(asked.member_id).ok_or(ErrorCode::UnknownMemberId)?;
        if asked.generation != self.generation {
            return Err(ErrorCode::IllegalGeneration);
        }
        member.gone_at = now + member.session_timeout;
        Ok(())
    }

    /// A member leaves, named by its id, or by the name that it keeps.
    pub(super) fn leave(&mut self, now: Instant, member_id: &str, instance_id: Option<&str>) -> ErrorCode {
        let id = match instance_id.map(|instance| self.instances.get(instance).cloned()) {
            Some(None) => return ErrorCode::UnknownMemberId,
            Some(Some(known)) if !member_id.is_empty() && known != member_id => {
                return ErrorCode::FencedInstanceId;
            }
            Some(Some(known)) => known,
            None => member_id.to_owned(),
        };
        if self.pending.remove(&id).is_some() {
            self.complete_if_all_are_back(now);
            return ErrorCode::None;
        }
        if !self.members.contains_key(&id) {
            return ErrorCode::UnknownMemberId;
        }
        self.remove(&id);
        self.go_on_without(now);
        ErrorCode::None
    }

    /// Does what is due by `now`.
    pub(super) fn expire(&mut self, now: Instant) {
        let before = (self.pending.len(), self.members.len());
        self.pending.retain(|_id, until| *until > now);
        let gone: Vec<String> = self
            .members
            .iter()
            .filter(|(_, member)| !member.is_waiting() && member.gone_at <= now)
            .map(|(id, _)| id.clone())
            .collect();
        gone.iter().for_each(|id| self.remove(id));
        match self.state {
            State::Preparing { until, .. } if until <= now => self.complete(now),
            State::Completing { until } if until <= now => {
                let late = self.members.iter().filter(|(_, member)| member.sync.is_none());
                let late: Vec<String> = late.map(|(id, _)| id.clone()).collect();
                late.iter().for_each(|id| self.remove(id));
                self.go_on_without(now);
            }
            _ if before != (self.pending.len(), self.members.len()) => self.go_on_without(now),
            _ => {}
        }
    }

    /// When there is something to be done next.
    pub(super) fn next_deadline(&self) -> Option<Instant> {
        let sessions = self.members.values().filter(|it| !it.is_waiting()).map(|member| member.gone_at);
        let state = match self.state {
            State::Preparing { until, .. } | State::Completing { until } => Some(until),
            State::Empty | State::Stable => None,
        };
        self.pending.values().copied().chain(sessions).chain(state).min()
    }

    /// Members have gone.
    fn go_on_without(&mut self, now: Instant) {
        match self.members.is_empty() && !matches!(self.state, State::Preparing { .. }) {
            true => self.empty(now),
            false => self.prepare(now),
        }
    }

    fn remove(&mut self, id: &str) {
        let Some(mut member) = self.members.remove(id) else {
            return;
        };
        if let Some(instance) = &member.instance_id {
            self.instances.remove(instance);
        }
        if self.leader.as_deref() == Some(id) {
            self.leader = None;
        }
        self.refuse_waiting(&mut member, id, ErrorCode::UnknownMemberId);
    }

    /// What a member still waits for does not come.
    fn refuse_waiting(&mut self, member: &mut Member, id: &str, error: ErrorCode) {
        if let Some(ticket) = member.join.take() {
            self.refuse_join(ticket, error, id);
        }
        if let Some(ticket) = member.sync.take() {
            self.replies.push((ticket, refused_sync(error)));
        }
    }

    fn empty(&mut self, now: Instant) {
        if self.state != State::Empty {
            self.generation = self.generation.checked_add(1).unwrap_or(1);
        }
        self.state = State::Empty;
        if self.stored != Stored::Never {
            self.stored = Stored::Outdated;
        }
        self.protocol.clear();
        self.leader = None;
        self.emptied_at = now;
    }

    /// Since when it has no member, and no one is about to become one.
    pub(super) fn empty_since(&self) -> Option<Instant> {
        (self.state == State::Empty && self.pending.is_empty()).then_some(self.emptied_at)
    }

    /// Whether the members have their assignments.
    pub(super) fn is_stable(&self) -> bool {
        self.state == State::Stable
    }

    /// What operators call its state.
    pub(super) const fn state_name(&self) -> &'static str {
        match self.state {
            State::Empty => "Empty",
            State::Preparing { .. } => "PreparingRebalance",
            State::Completing { .. } => "CompletingRebalance",
            State::Stable => "Stable",
        }
    }

    /// What kind of group it is; empty if it never had a member.
    pub(super) fn protocol_type(&self) -> &str {
        &self.protocol_type
    }

    /// How many members it has.
    pub(super) fn member_count(&self) -> usize {
        self.members.len()
    }

    pub(super) fn describe(&self, group_id: &str) -> DescribedGroup {
        let member = |(id, member): (&String, &Member)| DescribedMember {
            member_id: id.clone(),
            instance_id: member.instance_id.clone(),
            client_id: member.client_id.clone(),
            host: member.host.clone(),
            metadata: member.metadata(&self.protocol).unwrap_or_default().to_vec(),
            assignment: member.assignment.clone(),
        };
        DescribedGroup {
            group_id: group_id.to_owned(),
            state: self.state_name(),
            protocol_type: self.protocol_type.clone(),
            protocol: self.protocol.clone(),
            members: self.members.iter().map(member).collect(),
        }
    }
}

/// Returns the protocols that all members know.
fn common_protocols<'a>(members: impl Iterator<Item = &'a Member>) -> HashSet<&'a str> {
    let names = |member: &'a Member| member.protocols.iter().map(|(name, _)| name.as_str());
    members
        .map(|member| names(member).collect())
        .reduce(|common: HashSet<&str>, own| &common & &own)
        .unwrap_or_default()
}

fn refused_sync(error: ErrorCode) -> Reply {
    Reply::Sync(error, SyncGroupResponse::default())
}

/// Maximum number of protocols that a member may name. Clients name up to five.
const PROTOCOLS_MAX: usize = 100;

/// The session timeouts that Kafka allows, in milliseconds.
const SESSION_TIMEOUTS: std::ops::RangeInclusive<i32> = 6_000..=1_800_000;

/// How long a group waits for more members when the first has come. Kafka waits for three seconds, in a cluster where
/// members start one after the other.
const FIRST_WAIT: Duration = Duration::from_millis(20);

/// Longest time between a client's first request to join, which gives it an id, and its second one.
const PENDING_MAX: Duration = Duration::from_secs(60);

/// From this version of JoinGroup on a member is given its id before it joins.
const FIRST_WITH_PENDING: i16 = 4;
