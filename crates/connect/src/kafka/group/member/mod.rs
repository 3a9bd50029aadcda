//! A member of a consumer group: what it asks of the coordinator next, and what it has by the answers. No clock, no network.
//!
//! ```text
//!            ┌──────────────────────────── the group changes, or something was given up ────────────────────────────┐
//!            ▼                                                                                                      │
//!   wait until what is asked back is given up, so long at most ─► Join ─► (who leads: Count, divide) ─► Sync ─► Heartbeat …
//!            ▲                                                     ▲
//!            └─ `range`: everything is, before each Join           └─ unknown, of an old generation, silent for too long:
//!                                                                     everything is lost at once
//! ```
//!
//! With `cooperative-sticky` a member goes on with what it has, and is told in Sync what of it is to be another's. That is given
//! up when it is finished, and a second round gives it away. What is not finished in time is lost: its next owner may begin.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use kafka::messages::consumer_protocol::{Assignment, Subscription};
use kafka::messages::join_group::JoinGroupResult;
use kafka::messages::sync_group::SyncGroupResult;
use kafka::{ErrorCode, Malformed};
use tokio::time::Instant;

use super::assignor::{Assignor, Candidate, TopicPartition};
use super::standing::{Held, Standing};

/// How one is a member.
#[derive(Clone, Debug)]
pub(crate) struct MemberOptions {
    /// A name that is kept over restarts, which others do not notice then.
    pub(crate) instance_id: Option<String>,
    /// What it reads.
    pub(crate) topics: Vec<Arc<str>>,
    /// Those that it knows, the one that it likes most first.
    pub(crate) assignors: Vec<Assignor>,
    /// After so long a silence it is taken for gone.
    pub(crate) session_timeout: Duration,
    /// How long the group waits for it while it changes over.
    pub(crate) rebalance_timeout: Duration,
    pub(crate) heartbeat_interval: Duration,
}

/// See the module.
#[derive(Debug)]
pub(super) struct Member {
    options: MemberOptions,
    /// Empty until the coordinator gives one.
    member_id: String,
    /// -1 while it is in none.
    generation: i32,
    /// How many it has been in.
    generations: u64,
    phase: Phase,
    /// What it has, and which having of it this is.
    held: BTreeMap<TopicPartition, u64>,
    /// What of it is to be given up.
    asked_back: BTreeSet<TopicPartition>,
    /// When that is lost.
    give_up_by: Instant,
    /// The generation in which it got what it has.
    held_since: i32,
    havings: u64,
    /// Whether it joins once nothing is asked back any more.
    rejoins: bool,
    /// When its session began the last time.
    heard_at: Instant,
    beat_at: Instant,
    is_known: bool,
    failure: Option<Failure>,
}

#[derive(Debug)]
enum Phase {
    /// Nothing but heartbeats are due, unless it joins.
    Settled,
    /// It leads, and has to know how many partitions there are.
    Leading { assignor: Assignor, members: Vec<Candidate> },
    /// It fetches its part, and brings those of the others if it leads.
    Syncing { assignor: Assignor, assignments: Vec<(String, Vec<u8>)> },
}

/// Why it can't be a member, now and later.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Failure {
    /// The coordinator says so.
    #[error("{code}{}", advice(*code))]
    Refused { code: ErrorCode },
    /// There is no way to the coordinator.
    #[error("{0}")]
    Unreachable(String),
    /// The group divides partitions in a way that is not known here.
    #[error("its members divide partitions by `{0}`, which is not known here")]
    UnknownAssignor(String),
    /// What the leader gave can't be read.
    #[error("the member that leads it gave an assignment that can't be read: malformed {0}")]
    Assignment(&'static str),
}

/// What to do about it.
const fn advice(code: ErrorCode) -> &'static str {
    match code {
        ErrorCode::InconsistentGroupProtocol => {
            ": its members divide partitions in another way; give the property partition.assignment.strategy one that all of \
             them know, `range` perhaps"
        }
        ErrorCode::FencedInstanceId => ": another member has the same group.instance.id",
        ErrorCode::InvalidSessionTimeout => {
            ": the broker does not allow this session.timeout.ms (group.min.session.timeout.ms to \
             group.max.session.timeout.ms)"
        }
        ErrorCode::GroupAuthorizationFailed => ": the login must have the right to read from the group",
        _ => "",
    }
}

/// What to do now.
#[derive(Debug)]
pub(super) enum Step {
    Ask(Question),
    /// Nothing, until then.
    Wait(Instant),
}

/// What is asked of the coordinator.
#[derive(Debug)]
pub(super) enum Question {
    Join {
        member_id: String,
        protocols: Vec<(&'static str, Vec<u8>)>,
    },
    /// How many partitions these topics have. Any broker knows.
    Count(Vec<Arc<str>>),
    Sync {
        member_id: String,
        generation: i32,
        protocol: &'static str,
        assignments: Vec<(String, Vec<u8>)>,
    },
    Heartbeat {
        member_id: String,
        generation: i32,
    },
}

/// What it answers.
#[derive(Debug)]
pub(super) enum Answer {
    Joined(JoinGroupResult),
    Counted(BTreeMap<Arc<str>, i32>),
    Synced(SyncGroupResult),
    Beaten(ErrorCode),
}

impl Member {
    pub(super) fn new(options: MemberOptions, now: Instant) -> Self {
        Self {
            options,
            member_id: String::new(),
            generation: -1,
            generations: 0,
            phase: Phase::Settled,
            held: BTreeMap::new(),
            asked_back: BTreeSet::new(),
            give_up_by: now,
            held_since: -1,
            havings: 0,
            rejoins: true,
            heard_at: now,
            beat_at: now,
            is_known: false,
            failure: None,
        }
    }

    /// What others are told.
    pub(super) fn standing(&self) -> Standing {
        let mut held: BTreeMap<Arc<str>, BTreeMap<i32, Held>> = BTreeMap::new();
        for (partition, &having) in &self.held {
            let is_asked_back = self.asked_back.contains(partition);
            let of_topic = held.entry(Arc::clone(&partition.0)).or_default();
            of_topic.insert(partition.1, Held { having, is_asked_back });
        }
        Standing {
            member_id: self.member_id.clone(),
            generation: self.generation,
            generations: self.generations,
            is_settled: matches!(self.phase, Phase::Settled) && self.generation >= 0,
            is_known: self.is_known,
            held,
            trouble: None,
            failure: self.failure.clone(),
        }
    }

    /// Its id; empty if it has none.
    pub(super) fn member_id(&self) -> &str {
        &self.member_id
    }

    /// Whether it can't be a member, now and later.
    pub(super) const fn has_failed(&self) -> bool {
        self.failure.is_some()
    }

    /// Whether the coordinator has ever let it in, or was about to.
    pub(super) const fn is_known(&self) -> bool {
        self.is_known
    }

    /// Whether it has heard nothing of the coordinator for as long as a session lasts.
    pub(super) fn is_out_of_time(&self, now: Instant) -> bool {
        now >= self.heard_at + self.options.session_timeout
    }

    /// What to do now. What is asked is answered by [`take`](Self::take) before this is called again, or was in vain.
    pub(super) fn poll(&mut self, now: Instant) -> Step {
        if self.generation >= 0 && now >= self.heard_at + self.options.session_timeout {
            // By now the coordinator has given it to others.
            self.fall_out();
        }
        match &self.phase {
            Phase::Settled => self.poll_settled(now),
            Phase::Leading { members, .. } => {
                let topics: BTreeSet<_> = members.iter().flat_map(|member| &member.topics).collect();
                Step::Ask(Question::Count(topics.into_iter().cloned().collect()))
            }
            Phase::Syncing { assignor, assignments } => Step::Ask(Question::Sync {
                member_id: self.member_id.clone(),
                generation: self.generation,
                protocol: assignor.name(),
                assignments: assignments.clone(),
            }),
        }
    }

    fn poll_settled(&mut self, now: Instant) -> Step {
        if self.rejoins && (self.asked_back.is_empty() || now >= self.give_up_by) {
            for partition in std::mem::take(&mut self.asked_back) {
                self.held.remove(&partition);
            }
            return Step::Ask(Question::Join {
                member_id: self.member_id.clone(),
                protocols: self.protocols(),
            });
        }
        if self.generation >= 0 && now >= self.beat_at {
            return Step::Ask(Question::Heartbeat {
                member_id: self.member_id.clone(),
                generation: self.generation,
            });
        }
        match self.rejoins {
            true => Step::Wait(self.beat_at.min(self.give_up_by)),
            false => Step::Wait(self.beat_at),
        }
    }

    fn protocols(&self) -> Vec<(&'static str, Vec<u8>)> {
        let generation = self.held_since.to_be_bytes();
        let subscription = Subscription {
            topics: self.options.topics.iter().map(|topic| &**topic).collect(),
            // Where leaders look for it that know older versions alone.
            user_data: Some(&generation),
            owned: self.held.keys().map(|(topic, index)| (&**topic, *index)).collect(),
            generation: self.held_since,
            rack_id: None,
        };
        let metadata = subscription.encode(Vec::new(), SUBSCRIPTION_VERSION);
        self.options.assignors.iter().map(|assignor| (assignor.name(), metadata.clone())).collect()
    }

    /// Takes the answer to what was asked at `asked_at`.
    ///
    /// # Errors
    /// An error that may be gone after a while: the same is asked again then.
    pub(super) fn take(&mut self, now: Instant, asked_at: Instant, answer: Answer) -> Result<(), ErrorCode> {
        let error = match &answer {
            Answer::Joined(joined) => joined.error,
            Answer::Synced(synced) => synced.error,
            Answer::Beaten(error) => *error,
            Answer::Counted(_) => ErrorCode::None,
        };
        if error == ErrorCode::None {
            // Some answers are long in coming, and the session begins with them.
            match answer {
                Answer::Joined(_) | Answer::Synced(_) => self.heard_at = now,
                Answer::Beaten(_) => self.heard_at = asked_at,
                // Any broker says that.
                Answer::Counted(_) => {}
            }
            self.is_known = true;
        }
        match (answer, error) {
            (Answer::Joined(joined), ErrorCode::None) => self.join(joined),
            (Answer::Joined(joined), ErrorCode::MemberIdRequired) => {
                self.member_id = joined.response.member_id;
                self.is_known = true;
            }
            (Answer::Counted(counts), _) => self.divide(&counts),
            (Answer::Synced(synced), ErrorCode::None) => self.take_part(now, &synced.response.assignment),
            (Answer::Beaten(_), ErrorCode::None) => self.beat_at = now + self.options.heartbeat_interval,
            (answer, error) => return self.take_error(now, &answer, error),
        }
        Ok(())
    }

    fn take_error(&mut self, now: Instant, answer: &Answer, error: ErrorCode) -> Result<(), ErrorCode> {
        match error {
            ErrorCode::RebalanceInProgress => {
                self.phase = Phase::Settled;
                self.beat_at = now + self.options.heartbeat_interval;
                self.change_over(now);
                match answer {
                    // Not at once, or they would ask each other without a pause.
                    Answer::Joined(_) => Err(error),
                    _ => Ok(()),
                }
            }
            ErrorCode::UnknownMemberId => {
                self.member_id.clear();
                self.fall_out();
                Ok(())
            }
            ErrorCode::IllegalGeneration => {
                self.fall_out();
                Ok(())
            }
            ErrorCode::FencedInstanceId
            | ErrorCode::InconsistentGroupProtocol
            | ErrorCode::InvalidSessionTimeout
            | ErrorCode::InvalidGroupId
            | ErrorCode::GroupAuthorizationFailed
            | ErrorCode::TopicAuthorizationFailed
            | ErrorCode::InvalidRequest
            | ErrorCode::UnsupportedVersion => {
                self.fail(Failure::Refused { code: error });
                Ok(())
            }
            error => Err(error),
        }
    }

    /// Gives up a partition, if it still is the same having. Whether or not it was asked back.
    pub(super) fn release(&mut self, partition: &TopicPartition, having: u64) {
        if self.held.get(partition) == Some(&having) {
            self.held.remove(partition);
            self.asked_back.remove(partition);
        }
    }

    /// There is a reason to doubt that it still is a member: it asks now.
    pub(super) fn doubt(&mut self, now: Instant) {
        self.beat_at = now;
    }

    /// The group changes: it joins anew, with what it may keep.
    fn change_over(&mut self, now: Instant) {
        if self.rejoins {
            return;
        }
        self.rejoins = true;
        if !self.is_cooperative() {
            self.asked_back = self.held.keys().cloned().collect();
        }
        self.give_up_by = now + self.patience();
    }

    /// As in Java's client: only who knows no other way keeps what it has while the group changes over.
    fn is_cooperative(&self) -> bool {
        self.options.assignors.iter().all(|assignor| assignor.is_cooperative())
    }

    /// How long what is under way may take to be finished: others wait for it.
    fn patience(&self) -> Duration {
        (self.options.rebalance_timeout / 2).min(PATIENCE_MAX)
    }

    /// A generation has begun.
    fn join(&mut self, joined: JoinGroupResult) {
        let response = joined.response;
        self.member_id = response.member_id;
        self.generation = response.generation;
        self.generations += 1;
        self.rejoins = false;
        let protocol = response.protocol.unwrap_or_default();
        let Some(assignor) = Assignor::of(&protocol) else {
            self.fail(Failure::UnknownAssignor(protocol));
            return;
        };
        if response.leader != self.member_id || response.skip_assignment || response.members.is_empty() {
            self.phase = Phase::Syncing { assignor, assignments: Vec::new() };
            return;
        }
        let mut names: BTreeSet<Arc<str>> = self.options.topics.iter().cloned().collect();
        let members = response.members.into_iter().map(|member| {
            let subscription = Subscription::read(&member.metadata).unwrap_or_else(|Malformed(what)| {
                tracing::warn!(
                    member.member_id,
                    what,
                    "a member of the group gets nothing: what it wants can't be read"
                );
                Subscription::to(Vec::new())
            });
            Candidate::read(member.member_id.clone(), member.instance_id.clone(), &subscription, &mut names)
        });
        self.phase = Phase::Leading { assignor, members: members.collect() };
    }

    /// Divides the partitions among all members.
    fn divide(&mut self, counts: &BTreeMap<Arc<str>, i32>) {
        let Phase::Leading { assignor, members } = &self.phase else {
            return;
        };
        let parts = assignor.assign(members, counts);
        let assignments = members.iter().zip(&parts).map(|(member, part)| {
            let partitions = part.iter().map(|(topic, index)| (&**topic, *index)).collect();
            let assignment = Assignment { partitions, user_data: None };
            (member.member_id.clone(), assignment.encode(Vec::new(), ASSIGNMENT_VERSION))
        });
        self.phase = Phase::Syncing { assignor: *assignor, assignments: assignments.collect() };
    }

    /// Takes what the leader gives.
    fn take_part(&mut self, now: Instant, assignment: &[u8]) {
        let given = match Assignment::read(assignment) {
            Ok(assignment) => assignment.partitions,
            Err(Malformed(what)) => return self.fail(Failure::Assignment(what)),
        };
        self.phase = Phase::Settled;
        self.beat_at = now + self.options.heartbeat_interval;
        self.held_since = self.generation;
        let own = |topic: &str| self.options.topics.iter().find(|own| ***own == *topic).cloned();
        let given: BTreeSet<TopicPartition> =
            given.into_iter().filter_map(|(topic, index)| Some((own(topic)?, index))).collect();
        self.asked_back = self.held.keys().filter(|partition| !given.contains(*partition)).cloned().collect();
        for partition in given {
            let havings = &mut self.havings;
            self.held.entry(partition).or_insert_with(|| {
                *havings += 1;
                *havings
            });
        }
        if !self.asked_back.is_empty() {
            self.rejoins = true;
            self.give_up_by = now + self.patience();
        }
    }

    /// It is in no generation any more: what it had is others'.
    fn fall_out(&mut self) {
        self.generation = -1;
        self.held_since = -1;
        self.phase = Phase::Settled;
        self.held.clear();
        self.asked_back.clear();
        self.rejoins = true;
    }

    /// It can't be a member, now and later.
    pub(super) fn fail(&mut self, failure: Failure) {
        self.fall_out();
        self.failure = Some(failure);
    }
}

/// The newest that there is.
const SUBSCRIPTION_VERSION: i16 = 3;

/// What every member can read: versions of an assignment do not differ.
const ASSIGNMENT_VERSION: i16 = 0;

/// What could not be finished in this time will hardly be in more, and somebody waits for it.
const PATIENCE_MAX: Duration = Duration::from_secs(30);

#[cfg(test)]
mod tests;
