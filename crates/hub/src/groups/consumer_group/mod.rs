//! A group whose partitions the broker assigns (KIP-848), as a state machine: heartbeats and the time in, answers out. It knows
//! no socket and no clock.
//!
//! Three epochs say who has come how far. The *group epoch* rises with each change of members, subscriptions or topics. The
//! *target* is what every member is to hold in the end; its epoch is the group epoch for which it was computed. Each *member* has
//! the epoch of the target that it is on its way to, or has reached. Members move one by one:
//!
//! ```text
//!              the target takes partitions from it              it no longer holds them
//!    Stable ────────────────────────────────────────► Unrevoked ─────────────────────┐
//!      ▲ ▲                                                                           │
//!      │ └──────────── what it gets is free ◄────────────────────────────────────────┤
//!      │                                                                             ▼
//!      └─────────────── the others have given it back ◄───────────────────────── Unreleased
//! ```
//!
//! A partition is *held* by the one member that may have it, or that has been told to give it back and has not said so. Nobody
//! else gets it meanwhile: no two members ever read one partition.

mod assignment;
mod member;
mod storing;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::time::Duration;

use kafka::ErrorCode;
use kafka::messages::consumer_group::{
    ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse, DescribedConsumer, DescribedConsumerGroup,
    JOIN, LEAVE, LEAVE_FOR_A_WHILE, NamedPartitions, TopicPartitions,
};
use kafka::messages::group::MemberRef;
use kafka::read::Uuid;
use tokio::time::Instant;

use super::group::{self, Client, MEMBER_BYTES, MEMBERS_MAX, METADATA_BYTES_MAX};
use assignment::{Assignor, PartitionSet, Subscriber, TopicPartition};
use member::{Asked, Member, PARTITION_BYTES, Reconciliation};
pub(super) use storing::StoredConsumers;
use storing::Unstored;

/// See the module.
#[derive(Debug)]
pub(super) struct ConsumerGroup {
    epoch: i32,
    target_epoch: i32,
    members: BTreeMap<String, Member>,
    /// The members that keep a name, by it.
    instances: HashMap<String, String>,
    /// What each member is to hold in the end.
    target: HashMap<String, PartitionSet>,
    /// What members may hold, or have not given back.
    held: HashSet<TopicPartition>,
    /// The topics that members want and that exist.
    topics: BTreeMap<String, Topic>,
    assignor: Assignor,
    /// Since when it has no member.
    emptied_at: Instant,
    unstored: Unstored,
}

/// A topic, as groups see it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Topic {
    pub(crate) id: Uuid,
    pub(crate) partitions: u32,
}

/// The topics that there are.
pub(crate) trait Topics {
    /// The one of this name.
    fn find(&self, name: &str) -> Option<Topic>;

    /// The names of those that the member who asks may read.
    fn names(&self) -> Vec<String>;
}

/// Why a request is refused; the client shows the text.
pub(super) type Refusal = (ErrorCode, String);

impl ConsumerGroup {
    pub(super) fn new(now: Instant) -> Self {
        Self {
            epoch: 0,
            target_epoch: 0,
            members: BTreeMap::new(),
            instances: HashMap::new(),
            target: HashMap::new(),
            held: HashSet::new(),
            topics: BTreeMap::new(),
            assignor: Assignor::default(),
            emptied_at: now,
            unstored: Unstored::default(),
        }
    }

    /// A member comes, shows that it is there, or leaves. `new_id` is the id of a new one.
    pub(super) fn heartbeat(
        &mut self,
        now: Instant,
        request: &ConsumerGroupHeartbeatRequest<'_>,
        client: Client<'_>,
        topics: &impl Topics,
        new_id: impl FnOnce() -> String,
    ) -> Result<ConsumerGroupHeartbeatResponse, Refusal> {
        check_form(request, client.version)?;
        if request.member_epoch < JOIN {
            return self.leave(now, request);
        }
        let asked = Asked::of(request)?;
        self.check_size(request, client)?;
        let before = (self.epoch, self.target_epoch);
        let members = self.members.len();
        let id = match request.member_epoch {
            JOIN => self.admit(now, request, new_id)?,
            _ => self.recognize(request)?,
        };
        let is_new = self.members.len() > members;
        let member = self.members.get_mut(&id).ok_or_else(|| unknown_member(&id))?;
        member.seen(now, client);
        let wants_other = member.subscribe(request, asked, topics);
        if is_new || wants_other || request.member_epoch == JOIN {
            self.unstored.mark(&id);
        }
        self.epoch += i32::from(is_new | wants_other | self.refresh_topics(topics));
        if self.epoch > self.target_epoch {
            self.assign();
        }
        let is_whole = request.member_epoch == JOIN || is_full(request);
        let may_hold_other = self.reconcile(now, &id, request);
        if (self.epoch, self.target_epoch) != before {
            self.unstored.mark_group();
        }
        let member = &self.members[&id];
        Ok(ConsumerGroupHeartbeatResponse {
            member_id: id,
            member_epoch: member.epoch,
            heartbeat_interval_ms: HEARTBEAT_INTERVAL_MS,
            assignment: (is_whole || may_hold_other).then(|| by_topic(&member.assigned)),
        })
    }

    /// Checks that what members say of themselves together is within its bound.
    fn check_size(
        &self,
        request: &ConsumerGroupHeartbeatRequest<'_>,
        client: Client<'_>,
    ) -> Result<(), Refusal> {
        if request.topic_names.is_none() {
            return Ok(());
        }
        let others = self.members.iter().filter(|(id, _)| *id != request.member_id);
        let others: usize = others.map(|(_, member)| member.metadata_bytes()).sum();
        match others + metadata_bytes(request, client) > METADATA_BYTES_MAX {
            true => Err((ErrorCode::GroupMaxSizeReached, "the members want too many topics".to_owned())),
            false => Ok(()),
        }
    }

    /// Returns the memory of its members, in bytes.
    pub(super) fn bytes(&self) -> usize {
        let targets = self.target.values().map(PartitionSet::len).sum::<usize>();
        let members: usize = self.members.values().map(Member::bytes).sum();
        members + (targets + self.held.len()) * PARTITION_BYTES
    }

    /// Returns the bytes by which a member that comes, or wants other topics, adds to the memory of the group, but for partitions.
    pub(super) fn growth_by(&self, request: &ConsumerGroupHeartbeatRequest<'_>, client: Client<'_>) -> usize {
        let says_something = request.topic_names.is_some() || request.topic_regex.is_some();
        if request.member_epoch < JOIN || !says_something {
            return 0;
        }
        let before = self.members.get(request.member_id);
        let before = before.map_or(0, |member| MEMBER_BYTES + member.metadata_bytes());
        (MEMBER_BYTES + metadata_bytes(request, client)).saturating_sub(before)
    }

    /// The member that joins: one that is known already, or a new one.
    fn admit(
        &mut self,
        now: Instant,
        request: &ConsumerGroupHeartbeatRequest<'_>,
        new_id: impl FnOnce() -> String,
    ) -> Result<String, Refusal> {
        let id = match request.member_id {
            "" => new_id(),
            id => id.to_owned(),
        };
        let known = request.instance_id.and_then(|instance| self.instances.get(instance)).cloned();
        match known {
            Some(known) if known == id => {}
            Some(known) => {
                let has_left = self.members.get(&known).is_some_and(Member::is_away);
                if !has_left {
                    let text = format!("the instance is the member {known}, which has not left");
                    return Err((ErrorCode::UnreleasedInstanceId, text));
                }
                self.replace(&known, &id);
            }
            None if self.members.contains_key(&id) => {}
            None if self.members.len() >= MEMBERS_MAX => {
                return Err((ErrorCode::GroupMaxSizeReached, format!("the group has {MEMBERS_MAX} members")));
            }
            None => {
                self.members.insert(id.clone(), Member::new(now, request));
            }
        }
        if let Some(instance) = request.instance_id {
            self.instances.insert(instance.to_owned(), id.clone());
        }
        if let Some(member) = self.members.get_mut(&id).filter(|member| member.is_away()) {
            member.come_back();
        }
        Ok(id)
    }

    /// A static member has started again: it takes the place of what it was before.
    fn replace(&mut self, old: &str, new: &str) {
        if let Some(member) = self.members.remove(old) {
            self.members.insert(new.to_owned(), member);
        }
        self.unstored.mark(old);
        self.unstored.mark(new);
        if let Some(target) = self.target.remove(old) {
            self.target.insert(new.to_owned(), target);
        }
    }

    /// The member that asks, if it is in the epoch that it says.
    fn recognize(&self, request: &ConsumerGroupHeartbeatRequest<'_>) -> Result<String, Refusal> {
        self.check_instance(request.instance_id, request.member_id)?;
        let id = request.member_id;
        let member = self.members.get(id).ok_or_else(|| unknown_member(id))?;
        match member.is_in(request.member_epoch, request.owned.as_deref()) {
            true => Ok(id.to_owned()),
            false => Err((
                ErrorCode::FencedMemberEpoch,
                format!("the member is in epoch {}, not {}", member.epoch, request.member_epoch),
            )),
        }
    }

    fn check_instance(&self, instance_id: Option<&str>, member_id: &str) -> Result<(), Refusal> {
        match instance_id.map(|instance| (instance, self.instances.get(instance))) {
            None => Ok(()),
            Some((_, Some(known))) if known == member_id => Ok(()),
            Some((instance, Some(_))) => Err((
                ErrorCode::FencedInstanceId,
                format!("the instance {instance} is another member by now"),
            )),
            Some((instance, None)) => {
                Err((ErrorCode::UnknownMemberId, format!("there is no instance {instance}")))
            }
        }
    }

    fn leave(
        &mut self,
        now: Instant,
        request: &ConsumerGroupHeartbeatRequest<'_>,
    ) -> Result<ConsumerGroupHeartbeatResponse, Refusal> {
        self.check_instance(request.instance_id, request.member_id)?;
        let id = request.member_id;
        let member = self.members.get_mut(id).ok_or_else(|| unknown_member(id))?;
        match request.member_epoch {
            LEAVE_FOR_A_WHILE => {
                self.unstored.mark(id);
                for partition in member.leave_for_a_while(now) {
                    self.held.remove(&partition);
                }
            }
            _ => self.remove(now, id),
        }
        Ok(ConsumerGroupHeartbeatResponse {
            member_id: id.to_owned(),
            member_epoch: request.member_epoch,
            heartbeat_interval_ms: 0,
            assignment: None,
        })
    }

    fn remove(&mut self, now: Instant, id: &str) {
        let Some(member) = self.members.remove(id) else {
            return;
        };
        self.release(&member);
        self.target.remove(id);
        if let Some(instance) = &member.instance_id {
            self.instances.remove(instance);
        }
        self.epoch += 1;
        self.unstored.mark(id);
        self.unstored.mark_group();
        if self.members.is_empty() {
            self.emptied_at = now;
            self.topics.clear();
        }
    }

    fn release(&mut self, member: &Member) {
        for partition in member.held() {
            self.held.remove(partition);
        }
    }

    /// Learns what has become of the topics that members want. Whether that changes anything.
    fn refresh_topics(&mut self, topics: &impl Topics) -> bool {
        let wanted: BTreeSet<&str> = self.members.values().flat_map(Member::topic_names).collect();
        let is_known = |(name, topic): (&String, &Topic)| {
            wanted.contains(name.as_str()) && topics.find(name) == Some(*topic)
        };
        let is_new = |name: &&str| !self.topics.contains_key(*name) && topics.find(name).is_some();
        if self.topics.iter().all(is_known) && !wanted.iter().any(is_new) {
            return false;
        }
        let found = wanted.into_iter().filter_map(|name| Some((name.to_owned(), topics.find(name)?)));
        self.topics = found.collect();
        true
    }

    /// Computes the target for the members and topics as they are now.
    fn assign(&mut self) {
        self.assignor = self.preferred_assignor();
        let none = PartitionSet::new();
        let subscribers: Vec<Subscriber<'_>> = self
            .members
            .iter()
            .map(|(id, member)| Subscriber {
                name: member.instance_id.as_deref().unwrap_or(id),
                topics: member
                    .topic_names()
                    .filter_map(|name| self.topics.get(name))
                    .map(|topic| topic.id)
                    .collect(),
                before: self.target.get(id).unwrap_or(&none),
            })
            .collect();
        let topics = self.topics.values().map(|topic| (topic.id, topic.partitions)).collect();
        let assigned = self.assignor.assign(&subscribers, &topics);
        let target: HashMap<String, PartitionSet> = self.members.keys().cloned().zip(assigned).collect();
        for (id, partitions) in &target {
            if self.target.get(id) != Some(partitions) {
                self.unstored.mark(id);
            }
        }
        self.target = target;
        self.target_epoch = self.epoch;
    }

    /// What most members prefer; of several, the first of the list.
    fn preferred_assignor(&self) -> Assignor {
        let mut votes: BTreeMap<Assignor, usize> = BTreeMap::new();
        for assignor in self.members.values().filter_map(|member| member.assignor) {
            *votes.entry(assignor).or_default() += 1;
        }
        let most = votes.values().max().copied().unwrap_or(0);
        votes.into_iter().find(|(_, votes)| *votes == most).map(|(assignor, _)| assignor).unwrap_or_default()
    }

    /// Brings a member nearer to its target. Whether it may hold something else now.
    fn reconcile(&mut self, now: Instant, id: &str, request: &ConsumerGroupHeartbeatRequest<'_>) -> bool {
        let (Some(member), Some(target)) = (self.members.get_mut(id), self.target.get(id)) else {
            return false;
        };
        let owned = match request.member_epoch {
            JOIN => Some(PartitionSet::new()),
            _ => request.owned.as_deref().map(partitions_of),
        };
        if !member.may_move(self.target_epoch, owned.as_ref()) {
            return false;
        }
        for partition in member.held() {
            self.held.remove(partition);
        }
        let before = member.position();
        let is_new = member.go_on(
            now,
            Reconciliation {
                target,
                target_epoch: self.target_epoch,
                owned: owned.as_ref(),
                held_by_others: &self.held,
            },
        );
        self.held.extend(member.held());
        if is_new || member.position() != before {
            self.unstored.mark(id);
        }
        is_new
    }

    /// Removes members that have been silent for too long, or have not given back what they must.
    pub(super) fn expire(&mut self, now: Instant) {
        let gone = self.members.iter().filter(|(_, member)| member.is_gone(now));
        let gone: Vec<String> = gone.map(|(id, _)| id.clone()).collect();
        gone.iter().for_each(|id| self.remove(now, id));
    }

    /// When there is something to be done next.
    pub(super) fn next_deadline(&self) -> Option<Instant> {
        self.members.values().map(Member::deadline).min()
    }

    /// Checks who commits offsets of these partitions: a member in the epoch that it names, or in an earlier one in which it held all
    /// of them, or, where there is no member, any client that says that it is none.
    pub(super) fn check_commit<'p>(
        &self,
        member: &MemberRef<'_>,
        partitions: impl Iterator<Item = (&'p str, i32)>,
    ) -> Result<(), ErrorCode> {
        if member.generation < 0 && self.members.is_empty() {
            return Ok(());
        }
        self.check_instance(member.instance_id, member.member_id).map_err(|(error, _)| error)?;
        let known = self.members.get(member.member_id).ok_or(ErrorCode::UnknownMemberId)?;
        let partitions = partitions.map(|(topic, index)| {
            let id = self.topics.get(topic).map_or_else(Uuid::default, |topic| topic.id);
            (id, index)
        });
        match known.may_commit(member.generation, partitions) {
            true => Ok(()),
            false => Err(ErrorCode::StaleMemberEpoch),
        }
    }

    /// The topics that members want, some of them several times.
    pub(super) fn topic_names(&self) -> impl Iterator<Item = &str> {
        self.members.values().flat_map(|member| member.topic_names())
    }

    /// Whether a member wants this topic.
    pub(super) fn is_subscribed_to(&self, topic: &str) -> bool {
        self.topic_names().any(|name| name == topic)
    }

    /// Since when it has no member.
    pub(super) fn empty_since(&self) -> Option<Instant> {
        self.members.is_empty().then_some(self.emptied_at)
    }

    /// How many members it has.
    pub(super) fn member_count(&self) -> usize {
        self.members.len()
    }

    /// What operators call its state.
    pub(super) fn state_name(&self) -> &'static str {
        if self.members.is_empty() {
            return "Empty";
        }
        if self.epoch > self.target_epoch {
            return "Assigning";
        }
        match self.members.values().all(|member| member.is_settled(self.target_epoch)) {
            true => "Stable",
            false => "Reconciling",
        }
    }

    pub(super) fn describe(&self, group_id: &str) -> DescribedConsumerGroup {
        let names: HashMap<Uuid, &str> =
            self.topics.iter().map(|(name, topic)| (topic.id, name.as_str())).collect();
        let named = |partitions: &PartitionSet| -> Vec<NamedPartitions> {
            let named = by_topic(partitions).into_iter().map(|topic| NamedPartitions {
                topic_id: topic.topic_id,
                name: names.get(&topic.topic_id).copied().unwrap_or_default().to_owned(),
                partitions: topic.partitions,
            });
            named.collect()
        };
        let member = |(id, member): (&String, &Member)| DescribedConsumer {
            member_id: id.clone(),
            assignment: named(&member.assigned),
            target: self.target.get(id).map(named).unwrap_or_default(),
            ..member.describe()
        };
        DescribedConsumerGroup {
            group_id: group_id.to_owned(),
            state: self.state_name(),
            group_epoch: self.epoch,
            assignment_epoch: self.target_epoch,
            assignor: self.assignor.name().to_owned(),
            members: self.members.iter().map(member).collect(),
        }
    }
}

/// Whether a request makes sense by itself.
fn check_form(request: &ConsumerGroupHeartbeatRequest<'_>, version: i16) -> Result<(), Refusal> {
    let invalid = |text: &str| Err((ErrorCode::InvalidRequest, text.to_owned()));
    let may_be_unnamed = version == 0 && request.member_epoch == JOIN;
    if request.member_id.is_empty() && !may_be_unnamed {
        return invalid("a member has an id");
    }
    match request.member_epoch {
        ..LEAVE_FOR_A_WHILE => invalid("there is no such epoch"),
        LEAVE_FOR_A_WHILE if request.instance_id.is_none() => {
            invalid("only a static member leaves for a while")
        }
        LEAVE_FOR_A_WHILE | LEAVE => Ok(()),
        _ if request.instance_id.is_some_and(str::is_empty) => invalid("an instance has a name"),
        JOIN if request.rebalance_timeout_ms.is_none() => invalid("who joins says how long it may take"),
        JOIN if request.topic_names.is_none() && request.topic_regex.is_none() => {
            invalid("who joins says which topics it wants")
        }
        JOIN if request.owned.as_ref().is_some_and(|owned| !owned.is_empty()) => {
            invalid("who joins holds no partition")
        }
        _ => Ok(()),
    }
}

/// Returns the memory of what a request says of its member, in bytes.
fn metadata_bytes(request: &ConsumerGroupHeartbeatRequest<'_>, client: Client<'_>) -> usize {
    let names = request.topic_names.iter().flatten().copied();
    let optional = [request.instance_id, request.rack_id].into_iter().flatten();
    group::metadata_bytes(names.chain(optional).chain([client.id]).map(str::len))
}

/// Whether a member says everything anew, because it may have missed an answer.
fn is_full(request: &ConsumerGroupHeartbeatRequest<'_>) -> bool {
    let names_topics = request.topic_names.is_some() || request.topic_regex.is_some();
    request.rebalance_timeout_ms.is_some() && names_topics && request.owned.is_some()
}

fn unknown_member(id: &str) -> Refusal {
    (ErrorCode::UnknownMemberId, format!("the group has no member {id}"))
}

fn partitions_of(topics: &[TopicPartitions]) -> PartitionSet {
    let partitions =
        topics.iter().flat_map(|topic| topic.partitions.iter().map(|index| (topic.topic_id, *index)));
    partitions.collect()
}

fn by_topic(partitions: &PartitionSet) -> Vec<TopicPartitions> {
    let mut topics: Vec<TopicPartitions> = Vec::new();
    for (topic_id, index) in partitions {
        match topics.last_mut().filter(|last| last.topic_id == *topic_id) {
            Some(last) => last.partitions.push(*index),
            None => topics.push(TopicPartitions { topic_id: *topic_id, partitions: vec![*index] }),
        }
    }
    topics
}

/// How often members are expected. Kafka says five seconds. What a change of members needs is two or three heartbeats, and
/// tests should not have to wait for so long.
const HEARTBEAT_INTERVAL_MS: i32 = 1_000;

/// A member that is silent for longer is gone, as in Kafka (`group.consumer.session.timeout.ms`).
const SESSION_TIMEOUT: Duration = Duration::from_secs(45);
