//! The consumer groups of Kafka's clients: who belongs to them, and how far they have come.
//!
//! They have nothing to do with the consumer groups of hubs. They are there as soon as someone names them, and span all topics
//! of the namespace.
//!
//! * `group` is one group, which is a state machine of one of two kinds: `classic_group` or `consumer_group`.
//! * `access` says who may see and use a group; `creators` limits the number of groups.
//! * `offsets` are what it has committed, `keeping` is the part that outlives the process, and `members` stores its members.
//! * [`Groups`] are all of them: it gives each request its turn, has the machines do what is due, and wakes requests that wait.

mod access;
mod classic_group;
mod consumer_group;
mod creators;
mod group;
mod keeping;
mod members;
mod offsets;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use kafka::ErrorCode;
use kafka::messages::consumer_group::{
    ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse, DescribedConsumerGroup, JOIN,
};
use kafka::messages::group::{LeaveGroupRequest, MemberRef};
use kafka::messages::group_admin::{DescribedGroup, ListGroupsRequest, ListedGroup};
use kafka::messages::join_group::JoinGroupRequest;
use kafka::messages::offset_fetch::{AskedGroup, FetchedOffset};
use kafka::messages::sync_group::SyncGroupRequest;
use partition_log::disk::{CommitNumber, CommitState, CommitWatch};
use tokio::sync::{Notify, oneshot, watch};
use tokio::time::Instant;
use units::Random;

pub(crate) use access::Reader;
pub(crate) use classic_group::Reply;
pub(crate) use consumer_group::{Topic, Topics};
pub(crate) use group::Client;
pub(crate) use keeping::{Changed, KeptGroups};
pub(crate) use offsets::check as check_offset;

use crate::clock::ServiceClock;
use crate::journal::{Journal, Refused};
use crate::memory::{Memory, Purpose, Share};
use crate::namespace::Principal;
use creators::Creators;
use group::{Group, Ticket};

/// All groups of a namespace.
#[derive(Debug)]
pub(crate) struct Groups {
    registry: Mutex<Registry>,
    journal: Arc<Journal>,
    /// How far the journal is on disk; `None` if it is in memory.
    commits: Option<CommitWatch>,
    /// Times that outlive the process are those of the service. Whether members are there shows by the machine's timers: so do they.
    clock: Arc<ServiceClock>,
    /// A deadline may have come nearer.
    changed: Notify,
}

#[derive(Debug)]
struct Registry {
    groups: BTreeMap<String, Group>,
    /// Memory of all groups.
    memory: Share,
    creators: Creators,
    /// The earliest deadline that [`Groups::drive`] waits for.
    next_action: Instant,
    waiting: HashMap<Ticket, oneshot::Sender<Changed<Reply>>>,
    next_ticket: Ticket,
    ids: Random,
    clock: Arc<ServiceClock>,
}

/// How many groups there are, and how many members in them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct GroupCounts {
    pub(crate) groups: u64,
    pub(crate) members: u64,
    /// Requests refused because they would create more groups than there may be.
    pub(crate) refused: u64,
}

/// How far a group has come.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct GroupProgress {
    pub(crate) group_id: String,
    /// What operators call its state.
    pub(crate) state: &'static str,
    pub(crate) members: usize,
    /// Topic, partition, and the offset of the record that is next.
    pub(crate) offsets: Vec<(String, i32, i64)>,
}

impl Groups {
    /// Those that are kept from before, with what they have of topics that `exists`. Member ids follow from `seed`, which has to
    /// differ from one start to the next.
    pub(crate) fn new(
        seed: u64,
        journal: Arc<Journal>,
        commits: Option<CommitWatch>,
        clock: Arc<ServiceClock>,
        kept: KeptGroups,
        memory: &Arc<Memory>,
        exists: impl Fn(&str) -> bool,
    ) -> Arc<Self> {
        let mut registry = Registry {
            groups: kept.restored(exists),
            memory: Share::new(memory, Purpose::KafkaGroups),
            next_action: Instant::now(),
            creators: Creators::default(),
            waiting: HashMap::new(),
            next_ticket: 0,
            ids: Random::from_seed(seed),
            clock: Arc::clone(&clock),
        };
        for group in registry.groups.values_mut() {
            group.count_members();
            charge(&mut registry.memory, group);
        }
        Arc::new(Self { registry: Mutex::new(registry), journal, commits, clock, changed: Notify::new() })
    }

    /// Has the groups do what is due, until `stop` becomes true.
    pub(crate) async fn drive(self: Arc<Self>, mut stop: watch::Receiver<bool>) {
        loop {
            let now = Instant::now();
            let next = self.act();
            let next = next.unwrap_or(now + FORGETTING_PERIOD).min(now + FORGETTING_PERIOD);
            tokio::select! {
                () = tokio::time::sleep_until(next) => {}
                () = self.changed.notified() => {}
                _ = stop.wait_for(|stop| *stop) => return,
            }
        }
    }

    /// Does what is due, and says when a member is missed next.
    pub(crate) fn act(&self) -> Option<Instant> {
        self.lock().expire(Instant::now(), &self.journal, self.commits.as_ref())
    }

    /// Someone joins a group. The reply comes when the group is complete.
    pub(crate) fn join(
        &self,
        request: &JoinGroupRequest<'_>,
        client: Client<'_>,
        principal: &Principal,
    ) -> oneshot::Receiver<Changed<Reply>> {
        let now = Instant::now();
        let mut registry = self.lock();
        let (ticket, receiver) = registry.ticket();
        if !is_group_id(request.group_id) || !registry.ensure(request.group_id, principal, now) {
            let error = match is_group_id(request.group_id) {
                true => ErrorCode::CoordinatorNotAvailable,
                false => ErrorCode::InvalidGroupId,
            };
            registry.answer(ticket, at_once(Reply::Join(error, Default::default())));
            return receiver;
        }
        let Registry { groups, ids, memory, .. } = &mut *registry;
        let Some(group) = groups.get_mut(request.group_id) else {
            return receiver;
        };
        let prefix = request.instance_id.unwrap_or(client.id);
        let new_id = || format!("{prefix}-{:016x}{:016x}", ids.next_u64(), ids.next_u64());
        match group.classic(now) {
            Some(group) if !memory.fits(group.growth_by(request, client)) => {
                let reply = Reply::Join(ErrorCode::CoordinatorNotAvailable, Default::default());
                registry.answer(ticket, at_once(reply));
            }
            Some(group) => group.join(now, ticket, request, client, new_id),
            None => {
                let reply = Reply::Join(ErrorCode::InconsistentGroupProtocol, Default::default());
                registry.answer(ticket, at_once(reply));
            }
        }
        // Replies that depend on it are refused as well.
        let _stored = self.settle(registry, request.group_id);
        receiver
    }

    /// A member brings the assignment, or fetches its part. The reply comes when the leader has assigned.
    pub(crate) fn sync(&self, request: &SyncGroupRequest<'_>) -> oneshot::Receiver<Changed<Reply>> {
        let admitted = self.journal.admit();
        let mut registry = self.lock();
        let (ticket, receiver) = registry.ticket();
        if let Err(refused) = admitted {
            tracing::error!(%refused, "members of consumer groups can't be stored");
            let reply = Reply::Sync(ErrorCode::CoordinatorNotAvailable, Default::default());
            registry.answer(ticket, at_once(reply));
            return receiver;
        }
        let assigned: usize = request.assignments.iter().map(|(_, assignment)| assignment.len()).sum();
        let Registry { groups, memory, .. } = &mut *registry;
        match groups.get_mut(request.member.group_id).and_then(Group::known_classic) {
            Some(_) if !memory.fits(assigned) => {
                let reply = Reply::Sync(ErrorCode::CoordinatorNotAvailable, Default::default());
                registry.answer(ticket, at_once(reply));
            }
            Some(group) => group.sync(Instant::now(), ticket, request),
            None => {
                let reply = Reply::Sync(ErrorCode::UnknownMemberId, Default::default());
                registry.answer(ticket, at_once(reply));
            }
        }
        let _stored = self.settle(registry, request.member.group_id);
        receiver
    }

    /// A member shows that it is there.
    pub(crate) fn heartbeat(&self, member: &MemberRef<'_>) -> ErrorCode {
        let mut registry = self.lock();
        let group = registry.groups.get_mut(member.group_id).and_then(Group::known_classic);
        group.map_or(ErrorCode::UnknownMemberId, |group| group.heartbeat(Instant::now(), member))
    }

    /// A member of a group whose partitions the broker assigns comes, shows that it is there, or leaves.
    pub(crate) fn consumer_heartbeat(
        &self,
        request: &ConsumerGroupHeartbeatRequest<'_>,
        client: Client<'_>,
        principal: &Principal,
        topics: &impl Topics,
    ) -> Changed<Result<ConsumerGroupHeartbeatResponse, (ErrorCode, String)>> {
        let now = Instant::now();
        let refused = |error, text: &str| Changed {
            results: Err((error, text.to_owned())),
            commit: CommitNumber::DONE,
        };
        if let Err(refusal) = self.journal.admit() {
            tracing::error!(refused = %refusal, "members of consumer groups can't be stored");
            return refused(ErrorCode::CoordinatorNotAvailable, NOT_STORED);
        }
        let mut registry = self.lock();
        if !is_group_id(request.group_id) {
            return refused(ErrorCode::InvalidGroupId, "a group has a name of up to 256 bytes");
        }
        if request.member_epoch != JOIN && !registry.groups.contains_key(request.group_id) {
            return refused(ErrorCode::UnknownMemberId, "there is no such group");
        }
        if !registry.ensure(request.group_id, principal, now) {
            return refused(ErrorCode::CoordinatorNotAvailable, "there are as many groups as there may be");
        }
        let Registry { groups, ids, memory, .. } = &mut *registry;
        let Some(group) = groups.get_mut(request.group_id).and_then(|group| group.consumer(now)) else {
            return refused(ErrorCode::GroupIdNotFound, "the group has members of the classic protocol");
        };
        if !memory.fits(group.growth_by(request, client)) {
            return refused(ErrorCode::CoordinatorNotAvailable, "no memory is left for members of groups");
        }
        let new_id = || format!("{:016x}{:016x}", ids.next_u64(), ids.next_u64());
        let result = group.heartbeat(now, request, client, topics, new_id);
        let stored = self.settle(registry, request.group_id);
        match (result, stored) {
            (Ok(_), Err(_)) => refused(ErrorCode::CoordinatorNotAvailable, NOT_STORED),
            (Ok(response), Ok(commit)) => Changed { results: Ok(response), commit },
            (Err((error, text)), _) => refused(error, &text),
        }
    }

    /// What there is to say of groups whose partitions the broker assigns.
    pub(crate) fn describe_consumers(&self, group_ids: &[&str]) -> Vec<(ErrorCode, DescribedConsumerGroup)> {
        let registry = self.lock();
        let describe = |group_id: &&str| match registry.groups.get(*group_id).and_then(Group::known_consumer)
        {
            Some(group) => (ErrorCode::None, group.describe(group_id)),
            None => {
                let group_id = (*group_id).to_owned();
                let missing =
                    DescribedConsumerGroup { group_id, state: "Dead", ..DescribedConsumerGroup::default() };
                (ErrorCode::GroupIdNotFound, missing)
            }
        };
        group_ids.iter().map(describe).collect()
    }

    /// Members leave.
    pub(crate) fn leave(&self, request: &LeaveGroupRequest<'_>) -> Vec<ErrorCode> {
        let now = Instant::now();
        let mut registry = self.lock();
        let group = registry.groups.get_mut(request.group_id).and_then(Group::known_classic);
        let Some(group) = group else {
            return vec![ErrorCode::UnknownMemberId; request.members.len()];
        };
        let errors = request.members.iter().map(|(id, instance)| group.leave(now, id, *instance)).collect();
        // Replies that depend on it are refused as well.
        let _stored = self.settle(registry, request.group_id);
        errors
    }

    /// How far a group has come. What `is_pending` is not told.
    pub(crate) fn fetch(
        &self,
        asked: &AskedGroup<'_>,
        is_pending: impl Fn(&str, i32) -> bool,
    ) -> Vec<FetchedOffset> {
        let registry = self.lock();
        match registry.groups.get(asked.group_id) {
            Some(group) => group.offsets.fetch(asked, is_pending),
            None => offsets::Offsets::default().fetch(asked, is_pending),
        }
    }

    /// What there is to say of groups. A group that is not there is `Dead`.
    pub(crate) fn describe(&self, group_ids: &[&str]) -> Vec<DescribedGroup> {
        let registry = self.lock();
        let known = |group_id: &str| registry.groups.get(group_id)?.describe(group_id);
        let describe = |group_id: &&str| match known(group_id) {
            Some(described) => described,
            None => DescribedGroup {
                group_id: (*group_id).to_owned(),
                state: "Dead",
                ..DescribedGroup::default()
            },
        };
        group_ids.iter().map(describe).collect()
    }

    /// The groups that are for this client, in one of the states and of one of the types that are asked for.
    pub(crate) fn list(&self, request: &ListGroupsRequest<'_>, reader: &impl Reader) -> Vec<ListedGroup> {
        let has = |asked: &[&str], own: &str| {
            asked.is_empty() || asked.iter().any(|asked| asked.eq_ignore_ascii_case(own))
        };
        let (reads_all, reads_some) = (reader.reads_all(), reader.reads_some());
        let registry = self.lock();
        let own = registry.groups.iter().filter(|(_, group)| reads_all || reads_some && group.is_for(reader));
        let listed = own.map(|(group_id, group)| ListedGroup {
            group_id: group_id.clone(),
            protocol_type: group.protocol_type().to_owned(),
            state: group.state_name(),
            group_type: group.type_name(),
        });
        listed.filter(|it| has(&request.states, it.state) && has(&request.types, it.group_type)).collect()
    }

    /// How far each group has come in the topics that it has committed offsets of.
    pub(crate) fn progress(&self) -> Vec<GroupProgress> {
        let registry = self.lock();
        let progress = registry.groups.iter().map(|(group_id, group)| GroupProgress {
            group_id: group_id.clone(),
            state: group.state_name(),
            members: group.member_count(),
            offsets: group
                .offsets
                .records(group_id)
                .map(|it| (it.topic.to_owned(), it.index, it.offset))
                .collect(),
        });
        progress.collect()
    }

    pub(crate) fn counts(&self) -> GroupCounts {
        let registry = self.lock();
        let members = registry.groups.values().map(|group| group.member_count() as u64).sum();
        GroupCounts { groups: registry.groups.len() as u64, members, refused: registry.creators.refused }
    }

    /// Stores and hands out what a group has decided. Returns the commit that answers have to wait for.
    fn settle(
        &self,
        mut registry: MutexGuard<'_, Registry>,
        group_id: &str,
    ) -> Result<CommitNumber, Refused> {
        let times = (Instant::now(), self.clock.unix_time());
        let commits = self.commits.as_ref();
        let Registry { groups, memory, .. } = &mut *registry;
        if let Some(group) = groups.get_mut(group_id).filter(|group| group.may_have_changed()) {
            group.count_members();
            charge(memory, group);
        }
        let stored = match groups.get_mut(group_id) {
            None => Ok(CommitNumber::DONE),
            Some(group) => members::store(&self.journal, commits, group_id, group, times).map(|()| {
                let last = group.members_commit;
                let is_done = commits.is_none_or(|commits| commits.state_of(last) == CommitState::Done);
                if is_done { CommitNumber::DONE } else { last }
            }),
        };
        let replies = registry.groups.get_mut(group_id).map(Group::take_replies).unwrap_or_default();
        replies.into_iter().for_each(|(ticket, reply)| registry.answer(ticket, reply));
        registry.note(&self.journal, group_id);
        let deadline = registry.groups.get(group_id).and_then(Group::next_deadline);
        let is_earlier = deadline.is_some_and(|deadline| deadline < registry.next_action);
        drop(registry);
        if is_earlier {
            self.changed.notify_one();
        }
        stored
    }

    fn lock(&self) -> MutexGuard<'_, Registry> {
        // What a panic leaves behind is at worst a group in which a member waits until its session is over.
        self.registry.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Registry {
    fn ticket(&mut self) -> (Ticket, oneshot::Receiver<Changed<Reply>>) {
        let (sender, receiver) = oneshot::channel();
        let ticket = self.next_ticket;
        self.next_ticket += 1;
        self.waiting.insert(ticket, sender);
        (ticket, receiver)
    }

    fn answer(&mut self, ticket: Ticket, reply: Changed<Reply>) {
        if let Some(sender) = self.waiting.remove(&ticket) {
            // Who has gone hears nothing, and is missed when its session is over.
            let _ = sender.send(reply);
        }
    }

    /// Returns whether there is this group, or there may be.
    fn has_room_for(&mut self, group_id: &str, principal: &Principal) -> bool {
        self.groups.contains_key(group_id) || self.creators.has_room(self.groups.len(), principal)
    }

    /// Creates a group unless it is there. Returns false if there is no room for it.
    fn ensure(&mut self, group_id: &str, principal: &Principal, now: Instant) -> bool {
        let has_room = self.has_room_for(group_id, principal);
        if has_room {
            self.get_or_create(group_id, Some(principal), now);
        }
        has_room
    }

    fn get_or_create(&mut self, group_id: &str, creator: Option<&Principal>, now: Instant) -> &mut Group {
        let Self { groups, creators, .. } = self;
        groups.entry(group_id.to_owned()).or_insert_with(|| {
            if let Some(creator) = creator {
                creators.add(creator);
            }
            let mut group = Group::new(now);
            group.creator = creator.cloned();
            group
        })
    }

    fn remove(&mut self, group_id: &str) {
        let Some(group) = self.groups.remove(group_id) else {
            return;
        };
        self.memory.set(self.memory.held() - group.charged);
        if let Some(creator) = group.creator {
            self.creators.remove(&creator);
        }
    }

    /// Does what is due, and says when there is more.
    fn expire(&mut self, now: Instant, journal: &Journal, commits: Option<&CommitWatch>) -> Option<Instant> {
        let mut replies = Vec::new();
        let wall = self.clock.unix_time();
        for (group_id, group) in &mut self.groups {
            let members = group.member_count();
            group.expire(now);
            if group.member_count() != members {
                group.count_members();
                charge(&mut self.memory, group);
            }
            let _tried_again = members::store(journal, commits, group_id, group, (now, wall));
            replies.append(&mut group.take_replies());
        }
        replies.into_iter().for_each(|(ticket, reply)| self.answer(ticket, reply));
        self.note_all(journal, now);
        let next = self.groups.values().filter_map(Group::next_deadline).min();
        self.next_action = next.unwrap_or(now + FORGETTING_PERIOD).min(now + FORGETTING_PERIOD);
        next
    }
}

/// Charges the memory of a group to the budget of all groups.
fn charge(memory: &mut Share, group: &mut Group) {
    let bytes = group.bytes();
    memory.set(memory.held() - group.charged + bytes);
    group.charged = bytes;
}

const NOT_STORED: &str = "the members of the group can't be stored";

/// A reply that depends on nothing.
const fn at_once(reply: Reply) -> Changed<Reply> {
    Changed { results: reply, commit: CommitNumber::DONE }
}

/// Whether a group can be called that.
fn is_group_id(group_id: &str) -> bool {
    (1..=GROUP_ID_MAX).contains(&group_id.len())
}

/// The longest name of a group, as the service has it.
const GROUP_ID_MAX: usize = 256;

/// How often it is looked for groups that are to be forgotten.
const FORGETTING_PERIOD: Duration = Duration::from_secs(60);
