//! One member on its way from what it holds to what it is to hold.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::time::Duration;

use kafka::ErrorCode;
use kafka::messages::consumer_group::{
    ConsumerGroupHeartbeatRequest, DescribedConsumer, LEAVE_FOR_A_WHILE, TopicPartitions,
};
use regex_lite::{Regex, RegexBuilder};
use tokio::time::Instant;

use super::assignment::{Assignor, PartitionSet, TopicPartition};
use super::{Refusal, SESSION_TIMEOUT, Topics, partitions_of};
use crate::groups::group::{self, Client, MEMBER_BYTES};
use crate::journal::{ConsumerMemberRecord, MemberProgress};

/// See the module.
#[derive(Debug)]
pub(super) struct Member {
    pub(super) instance_id: Option<String>,
    rack_id: Option<String>,
    client_id: String,
    host: String,
    /// The epoch of the target that it is on its way to, or has reached.
    pub(super) epoch: i32,
    /// The one before, for a member that has not heard of this one.
    previous_epoch: i32,
    progress: Progress,
    topic_names: BTreeSet<String>,
    pattern: Option<Pattern>,
    pub(super) assignor: Option<Assignor>,
    rebalance_timeout: Duration,
    /// What it may hold.
    pub(super) assigned: PartitionSet,
    /// What it has to give back.
    revoked: PartitionSet,
    /// The epoch in which it got each partition that it holds.
    assignment_epochs: BTreeMap<TopicPartition, i32>,
    /// When it is taken for gone.
    gone_at: Instant,
}

/// What a request asks for that may make no sense.
#[derive(Debug)]
pub(super) struct Asked {
    assignor: Option<Assignor>,
    pattern: Option<Pattern>,
}

/// Topics that a member wants, as a pattern of their names.
#[derive(Debug)]
struct Pattern {
    source: String,
    regex: Regex,
    matching: BTreeSet<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Progress {
    /// It has reached the target of its epoch.
    Stable,
    /// It has to give partitions back, until then.
    Unrevoked { until: Instant },
    /// It waits for what others give back.
    Unreleased,
}

/// What a member's next step depends on.
#[derive(Debug)]
pub(super) struct Reconciliation<'a> {
    pub(super) target: &'a PartitionSet,
    pub(super) target_epoch: i32,
    /// What the member says that it holds, if it says so.
    pub(super) owned: Option<&'a PartitionSet>,
    pub(super) held_by_others: &'a HashSet<TopicPartition>,
}

impl Member {
    pub(super) fn new(now: Instant, request: &ConsumerGroupHeartbeatRequest<'_>) -> Self {
        Self {
            instance_id: request.instance_id.map(str::to_owned),
            rack_id: None,
            client_id: String::new(),
            host: String::new(),
            epoch: 0,
            previous_epoch: -1,
            progress: Progress::Stable,
            topic_names: BTreeSet::new(),
            pattern: None,
            assignor: None,
            rebalance_timeout: Duration::ZERO,
            assigned: PartitionSet::new(),
            revoked: PartitionSet::new(),
            assignment_epochs: BTreeMap::new(),
            gone_at: now + SESSION_TIMEOUT,
        }
    }

    /// Restores a member; `None` if its pattern or assignor is none. Its session begins at `now`.
    pub(super) fn of_record(now: Instant, record: &ConsumerMemberRecord<'_>) -> Option<Self> {
        let pattern = record.pattern.map(Pattern::compile).transpose().ok()?;
        let assignor = match record.assignor {
            None => None,
            Some(name) => Some(Assignor::named(name)?),
        };
        let rebalance_timeout = Duration::from_millis(record.rebalance_timeout_ms.unsigned_abs().into());
        let epochs = record.assignment_epochs.iter();
        Some(Self {
            instance_id: record.instance_id.map(str::to_owned),
            rack_id: record.rack_id.map(str::to_owned),
            client_id: record.client_id.to_owned(),
            host: record.host.to_owned(),
            epoch: record.epoch,
            previous_epoch: record.previous_epoch,
            progress: match record.progress {
                MemberProgress::Stable => Progress::Stable,
                MemberProgress::Unrevoked => Progress::Unrevoked { until: now + rebalance_timeout },
                MemberProgress::Unreleased => Progress::Unreleased,
            },
            topic_names: record.topics.iter().map(|name| (*name).to_owned()).collect(),
            pattern,
            assignor,
            rebalance_timeout,
            assigned: record.assigned.iter().copied().collect(),
            revoked: record.revoked.iter().copied().collect(),
            assignment_epochs: epochs.map(|(topic, index, epoch)| ((*topic, *index), *epoch)).collect(),
            gone_at: now + SESSION_TIMEOUT,
        })
    }

    /// Returns the record of this member, but for its target.
    pub(super) fn record<'a>(&'a self, group: &'a str, member_id: &'a str) -> ConsumerMemberRecord<'a> {
        let epochs = self.assignment_epochs.iter();
        ConsumerMemberRecord {
            group,
            member_id,
            instance_id: self.instance_id.as_deref(),
            rack_id: self.rack_id.as_deref(),
            client_id: &self.client_id,
            host: &self.host,
            epoch: self.epoch,
            previous_epoch: self.previous_epoch,
            progress: self.position().1,
            rebalance_timeout_ms: i32::try_from(self.rebalance_timeout.as_millis()).unwrap_or(i32::MAX),
            assignor: self.assignor.map(Assignor::name),
            pattern: self.pattern.as_ref().map(|pattern| pattern.source.as_str()),
            topics: self.topic_names.iter().map(String::as_str).collect(),
            assigned: self.assigned.iter().copied().collect(),
            revoked: self.revoked.iter().copied().collect(),
            target: Vec::new(),
            assignment_epochs: epochs.map(|((topic, index), epoch)| (*topic, *index, *epoch)).collect(),
        }
    }

    /// Returns the epoch and the progress of the member.
    pub(super) const fn position(&self) -> (i32, MemberProgress) {
        let progress = match self.progress {
            Progress::Stable => MemberProgress::Stable,
            Progress::Unrevoked { .. } => MemberProgress::Unrevoked,
            Progress::Unreleased => MemberProgress::Unreleased,
        };
        (self.epoch, progress)
    }

    /// Finds the topics among these that the pattern matches, until the next heartbeat does.
    pub(super) fn match_topics<'t>(&mut self, names: impl Iterator<Item = &'t String>) {
        if let Some(Pattern { regex, matching, .. }) = &mut self.pattern {
            *matching = names.filter(|name| regex.is_match(name)).cloned().collect();
        }
    }

    /// Has the session begin at `now`, and with it the time to give partitions back.
    pub(super) fn renew_session(&mut self, now: Instant) {
        self.gone_at = now + SESSION_TIMEOUT;
        if let Progress::Unrevoked { until } = &mut self.progress {
            *until = now + self.rebalance_timeout;
        }
    }

    /// Returns the memory of what the member says of itself, in bytes.
    pub(super) fn metadata_bytes(&self) -> usize {
        let optional = [&self.instance_id, &self.rack_id].into_iter().flatten();
        let values = self.topic_names.iter().chain(optional).chain([&self.client_id]);
        group::metadata_bytes(values.map(String::len))
    }

    /// Returns all of its memory, in bytes.
    pub(super) fn bytes(&self) -> usize {
        let matching = self.pattern.iter().flat_map(|pattern| &pattern.matching).map(String::len);
        let partitions = self.assigned.len() + self.revoked.len() + self.assignment_epochs.len();
        MEMBER_BYTES
            + self.metadata_bytes()
            + group::metadata_bytes(matching)
            + partitions * PARTITION_BYTES
            + self.pattern.as_ref().map_or(0, |_| COMPILED_MAX)
    }

    /// It shows that it is there.
    pub(super) fn seen(&mut self, now: Instant, client: Client<'_>) {
        self.gone_at = now + SESSION_TIMEOUT;
        client.id.clone_into(&mut self.client_id);
        client.host.clone_into(&mut self.host);
    }

    /// Takes what the member says of itself. Whether it wants something else now.
    pub(super) fn subscribe(
        &mut self,
        request: &ConsumerGroupHeartbeatRequest<'_>,
        asked: Asked,
        topics: &impl Topics,
    ) -> bool {
        let Asked { assignor, pattern } = asked;
        if let Some(rack) = request.rack_id {
            self.rack_id = Some(rack.to_owned());
        }
        if let Some(timeout) = request.rebalance_timeout_ms {
            self.rebalance_timeout = Duration::from_millis(timeout.unsigned_abs().into());
        }
        let says_nothing =
            request.topic_names.is_none() && request.topic_regex.is_none() && assignor.is_none();
        if says_nothing && self.pattern.is_none() {
            return false;
        }
        let before = (self.assignor, self.topic_names().map(str::to_owned).collect::<BTreeSet<_>>());
        self.assignor = assignor.or(self.assignor);
        if let Some(names) = &request.topic_names {
            self.topic_names = names.iter().map(|name| (*name).to_owned()).collect();
        }
        match request.topic_regex {
            Some("") => self.pattern = None,
            _ => self.pattern = pattern.or_else(|| self.pattern.take()),
        }
        if let Some(Pattern { regex, matching, .. }) = &mut self.pattern {
            *matching = topics.names().into_iter().filter(|name| regex.is_match(name)).collect();
        }
        let is_same = before.0 == self.assignor && before.1.iter().map(String::as_str).eq(self.topic_names());
        !is_same
    }

    /// The topics that it wants, each once and in order.
    pub(super) fn topic_names(&self) -> impl Iterator<Item = &str> {
        static NONE: BTreeSet<String> = BTreeSet::new();
        let matching = self.pattern.as_ref().map_or(&NONE, |pattern| &pattern.matching);
        self.topic_names.union(matching).map(String::as_str)
    }

    /// Whether a request that says so much is of this member as it is now, or as it was before an answer that it has not got.
    pub(super) fn is_in(&self, epoch: i32, owned: Option<&[TopicPartitions]>) -> bool {
        let holds_no_more = || owned.is_some_and(|owned| partitions_of(owned).is_subset(&self.assigned));
        !self.is_away() && (epoch == self.epoch || (epoch == self.previous_epoch && holds_no_more()))
    }

    /// Whether its next step is to be taken: the target is another, it has given back what it had to, or something that it
    /// waits for may have become free.
    pub(super) fn may_move(&self, target_epoch: i32, owned: Option<&PartitionSet>) -> bool {
        match self.progress {
            Progress::Stable => self.epoch != target_epoch,
            Progress::Unrevoked { .. } => owned.is_some_and(|owned| owned.is_disjoint(&self.revoked)),
            Progress::Unreleased => true,
        }
    }

    /// Takes its next step. Whether it may hold something else then.
    pub(super) fn go_on(&mut self, now: Instant, to: Reconciliation<'_>) -> bool {
        let Reconciliation { target, target_epoch, owned, held_by_others } = to;
        let kept = &self.assigned & target;
        let revoked = &self.assigned - target;
        let has_revoked = matches!(self.progress, Progress::Unrevoked { .. });
        // Who does not say what it holds may hold everything that it was given.
        let holds_them = owned.is_none_or(|owned| !owned.is_disjoint(&revoked));
        if !revoked.is_empty() && holds_them {
            if has_revoked {
                self.enter(self.epoch + 1);
            }
            self.progress = Progress::Unrevoked { until: now + self.rebalance_timeout };
            self.revoked = revoked;
            self.assigned = kept;
            return true;
        }
        let (taken, free): (PartitionSet, PartitionSet) =
            (target - &kept).into_iter().partition(|partition| held_by_others.contains(partition));
        self.progress = match taken.is_empty() {
            true => Progress::Stable,
            false => Progress::Unreleased,
        };
        self.enter(target_epoch);
        self.revoked.clear();
        let assigned = &kept | &free;
        let is_new = assigned != self.assigned;
        self.assignment_epochs.retain(|partition, _| kept.contains(partition));
        self.assignment_epochs.extend(free.into_iter().map(|partition| (partition, target_epoch)));
        self.assigned = assigned;
        is_new
    }

    /// Returns whether a commit of `partitions` in this epoch is the member's. An answer that raises its epoch may be on its way: until
    /// then it commits in an earlier epoch what it has held since (KIP-1251).
    pub(super) fn may_commit(
        &self,
        epoch: i32,
        mut partitions: impl Iterator<Item = TopicPartition>,
    ) -> bool {
        let has_held =
            |partition| self.assignment_epochs.get(&partition).is_some_and(|since| *since <= epoch);
        epoch == self.epoch || (epoch < self.epoch && partitions.all(has_held))
    }

    fn enter(&mut self, epoch: i32) {
        if epoch != self.epoch {
            self.previous_epoch = self.epoch;
            self.epoch = epoch;
        }
    }

    /// What it may hold, and what it has not given back.
    pub(super) fn held(&self) -> impl Iterator<Item = &TopicPartition> {
        self.assigned.iter().chain(&self.revoked)
    }

    /// A static member leaves. What it may hold is kept for when it is back; what it had to give back is free, and returned.
    pub(super) fn leave_for_a_while(&mut self, now: Instant) -> PartitionSet {
        self.enter(LEAVE_FOR_A_WHILE);
        self.gone_at = now + SESSION_TIMEOUT;
        self.progress = Progress::Stable;
        std::mem::take(&mut self.revoked)
    }

    /// Whether it has left for a while.
    pub(super) const fn is_away(&self) -> bool {
        self.epoch == LEAVE_FOR_A_WHILE
    }

    /// It is back, and on its way to the target from the beginning.
    pub(super) const fn come_back(&mut self) {
        self.epoch = 0;
        self.previous_epoch = -1;
    }

    /// Whether it has been silent for too long, or has not given back in time what it must.
    pub(super) fn is_gone(&self, now: Instant) -> bool {
        self.deadline() <= now
    }

    /// When it is taken for gone, unless it is heard of.
    pub(super) fn deadline(&self) -> Instant {
        match self.progress {
            Progress::Unrevoked { until } => until.min(self.gone_at),
            Progress::Stable | Progress::Unreleased => self.gone_at,
        }
    }

    /// Whether it has reached the target of this epoch.
    pub(super) fn is_settled(&self, target_epoch: i32) -> bool {
        self.progress == Progress::Stable && self.epoch == target_epoch
    }

    /// What there is to say of it, but for its partitions.
    pub(super) fn describe(&self) -> DescribedConsumer {
        DescribedConsumer {
            instance_id: self.instance_id.clone(),
            rack_id: self.rack_id.clone(),
            member_epoch: self.epoch,
            client_id: self.client_id.clone(),
            host: self.host.clone(),
            topic_names: self.topic_names.iter().cloned().collect(),
            topic_regex: self.pattern.as_ref().map(|pattern| pattern.source.clone()),
            ..DescribedConsumer::default()
        }
    }
}

impl Asked {
    pub(super) fn of(request: &ConsumerGroupHeartbeatRequest<'_>) -> Result<Self, Refusal> {
        let assignor = request.assignor.map(|name| {
            Assignor::named(name).ok_or_else(|| {
                let text = format!("there is no assignor {name}; there are uniform and range");
                (ErrorCode::UnsupportedAssignor, text)
            })
        });
        let pattern = request.topic_regex.filter(|source| !source.is_empty()).map(Pattern::compile);
        Ok(Self { assignor: assignor.transpose()?, pattern: pattern.transpose()? })
    }
}

impl Pattern {
    fn compile(source: &str) -> Result<Self, Refusal> {
        let refused = |text: String| (ErrorCode::InvalidRegularExpression, text);
        if source.len() > PATTERN_MAX {
            return Err(refused(format!("a pattern has at most {PATTERN_MAX} bytes")));
        }
        // By itself first: `a)|(b` would make sense between the anchors.
        let build = |pattern: &str| RegexBuilder::new(pattern).size_limit(COMPILED_MAX).build();
        build(source).map_err(|error| refused(error.to_string()))?;
        // A pattern matches a whole name.
        let regex = build(&format!("^(?:{source})$")).map_err(|error| refused(error.to_string()))?;
        Ok(Self { source: source.to_owned(), regex, matching: BTreeSet::new() })
    }
}

/// Memory of a partition in a set, in bytes.
pub(super) const PARTITION_BYTES: usize = 48;

/// The longest pattern, in bytes.
const PATTERN_MAX: usize = 1_024;

/// The most memory that a pattern may take, in bytes.
const COMPILED_MAX: usize = 64 * 1024;
