//! Checkpoints as committed offsets of a consumer group, where all tools of Kafka look for a group's progress and lag.
//!
//! A checkpoint says which record was done last, a committed offset which one is next: the store commits one more than the sequence
//! number, and gives one less back. Nothing else of a checkpoint is kept.
//!
//! | | who commits | partitions |
//! |---|---|---|
//! | [`open`](GroupOffsetStore::open) | nobody in particular: whoever is late overwrites who took over from him, and the group may have no members meanwhile | can't be shared: what would need a condition is refused ([`StoreError::NoCondition`]) |
//! | [`open_as_member`](GroupOffsetStore::open_as_member) | a member of the group, in its generation: those of a member that was thrown out are refused | are shared as the coordinator of the group says; claims have no say |
//!
//! The ownership of a member is what it was assigned, under an ETag of its own for each time. Only what is its own is listed: what
//! others have, only the member knows that leads the group. Its checkpoints bear the ETag of the ownership, so that what was listed in
//! one is not written in another.
//!
//! Commits that are asked for while one is under way go together in the next, however many partitions they are of.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{mpsc, oneshot, watch};

use super::group::Membership;
use super::native::{Coordinator, Endpoint};
use super::options::KafkaOptions;
use super::properties::PropertyError;
use super::settings::Settings;
use crate::checkpoint::{
    Checkpoint, CheckpointStore, Claimed, ConsumerGroup, ETag, Ownership, StoreError, StoreFuture,
};
use crate::event::PartitionId;
use crate::service::ServiceError;
use crate::sink::ErrorClass;

mod task;

use task::{Answer, Ask, Commit};

/// The committed offsets of one consumer group. The hub of a [`ConsumerGroup`] is the topic; its namespace is of no account, since a
/// store is of one cluster.
#[derive(Debug)]
pub struct GroupOffsetStore {
    group_id: Arc<str>,
    asks: mpsc::Sender<Ask>,
    /// None of a store that is no member.
    membership: Option<Arc<Membership>>,
}

/// How often a member shows that it is there, and after how long a silence it is taken for gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SessionTimes {
    /// `heartbeat.interval.ms`.
    pub heartbeat: Duration,
    /// `session.timeout.ms`.
    pub session: Duration,
}

impl GroupOffsetStore {
    /// Connects to the coordinator of a group. The properties of `options` that are about connections count; its topic and its client
    /// do not. Made within a tokio runtime with time and I/O.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`] when no broker can be reached, [`StoreError::Refused`] when the login or the group is refused, or a
    /// property is wrong.
    pub async fn open(options: &KafkaOptions, group_id: &str) -> Result<Self, StoreError> {
        let settings = settings(options).map_err(|error| store_error(&error.into()))?;
        Self::connect(settings, &options.topic, group_id, false).await
    }

    /// The same, for a member of the group, which is assigned partitions of the topic of `options`. It joins when ownership is listed
    /// for the first time.
    ///
    /// # Errors
    /// As with [`open`](Self::open).
    pub async fn open_as_member(options: &KafkaOptions, group_id: &str) -> Result<Self, StoreError> {
        let settings = settings(options).map_err(|error| store_error(&error.into()))?;
        Self::connect(settings, &options.topic, group_id, true).await
    }

    async fn connect(
        settings: Settings,
        topic: &str,
        group_id: &str,
        is_member: bool,
    ) -> Result<Self, StoreError> {
        if group_id.is_empty() {
            return Err(StoreError::Refused { reason: "a consumer group has a name".to_owned() });
        }
        let member = is_member.then(|| settings.member.options(topic));
        let endpoint = Endpoint::new(settings, topic).map_err(|error| store_error(&error))?;
        let mut coordinator = Coordinator::of(Arc::clone(&endpoint), group_id);
        coordinator.connect().await.map_err(|error| store_error(&error))?;
        let membership =
            member.map(|options| Arc::new(Membership::new(options, Coordinator::of(endpoint, group_id))));
        let (asks, asked) = mpsc::channel(AT_ONCE);
        // A task: nobody else's progress depends on whether the one is polled whose question is under way.
        tokio::spawn(task::answer(coordinator, membership.clone(), asked));
        Ok(Self { group_id: group_id.into(), asks, membership })
    }

    /// Whether a store can be set up so. Nothing is connected.
    ///
    /// # Errors
    /// The first mistake in the properties that are about connections and members.
    pub fn check(options: &KafkaOptions) -> Result<SessionTimes, PropertyError> {
        let member = settings(options)?.member;
        Ok(SessionTimes { heartbeat: member.heartbeat_interval, session: member.session_timeout })
    }

    /// Whether a property is about members of a group alone.
    #[must_use]
    pub fn is_of_members(name: &str) -> bool {
        OF_MEMBERS.contains(&name)
    }

    fn ask<T: Send + 'static>(
        &self,
        group: &ConsumerGroup,
        ask: impl FnOnce(Answer<T>) -> Result<Ask, StoreError>,
    ) -> StoreFuture<T> {
        let (answer, answered) = oneshot::channel();
        let ask = match *group.name == *self.group_id {
            true => ask(answer),
            false => {
                let reason =
                    format!("these are the offsets of the group {}, not of {}", self.group_id, group.name);
                Err(StoreError::Refused { reason })
            }
        };
        let asks = self.asks.clone();
        Box::pin(async move {
            asks.send(ask?).await.map_err(|_ended| ended())?;
            answered.await.map_err(|_ended| ended())?
        })
    }

    fn commit(&self, checkpoint: &Checkpoint, having: Option<u64>) -> StoreFuture<()> {
        let &Checkpoint { ref group, partition, sequence_number, .. } = checkpoint;
        let topic = Arc::clone(&group.hub);
        self.ask(group, |answer| {
            let offset =
                sequence_number.and_then(|number| number.checked_add(1)).filter(|offset| *offset >= 0);
            let place = i32::try_from(partition.0).ok().zip(offset);
            let (index, offset) = place.ok_or_else(|| StoreError::Refused {
                reason: format!("partition {partition} has no sequence number that could be committed"),
            })?;
            Ok(Ask::Commit(Commit { topic, index, offset, having, answer }))
        })
    }
}

impl CheckpointStore for GroupOffsetStore {
    fn list_checkpoints(&self, group: &ConsumerGroup) -> StoreFuture<Vec<Checkpoint>> {
        let topic = Arc::clone(&group.hub);
        // As they were before the offsets were asked for: whatever is written later is refused if they have changed.
        let havings: Option<Vec<_>> =
            self.membership.as_ref().map(|membership| membership.standing().held_of(&group.hub).collect());
        let offsets = self.ask(group, |answer| Ok(Ask::List { topic, answer }));
        let group = group.clone();
        Box::pin(async move {
            let checkpoint = |partition, offset: Option<i64>, etag| Checkpoint {
                group: group.clone(),
                partition,
                sequence_number: offset.map(|offset| offset - 1),
                offset: None,
                log_id: None,
                etag: Some(etag),
            };
            let offsets = offsets.await?;
            let Some(havings) = havings else {
                let all = offsets.into_iter();
                let etag = |offset: i64| ETag(offset.to_string());
                return Ok(all.map(|(id, offset)| checkpoint(id, Some(offset), etag(offset))).collect());
            };
            let own = havings.into_iter().filter_map(|(index, held)| {
                let id = PartitionId(u32::try_from(index).ok()?);
                let offset = offsets.iter().find(|(of, _)| *of == id).map(|(_, offset)| *offset);
                Some(checkpoint(id, offset, etag_of(held.having)))
            });
            Ok(own.collect())
        })
    }

    fn update_checkpoint(&self, checkpoint: Checkpoint) -> StoreFuture<()> {
        self.commit(&checkpoint, None)
    }

    fn replace_checkpoint(&self, checkpoint: Checkpoint) -> StoreFuture<ETag> {
        let Some(membership) = &self.membership else {
            return unconditional();
        };
        let partition = checkpoint.partition;
        let held = i32::try_from(partition.0)
            .ok()
            .and_then(|index| membership.standing().held(&checkpoint.group.hub, index));
        let having = held.map(|held| held.having).filter(|having| checkpoint.etag == Some(etag_of(*having)));
        let Some(having) = having else {
            return Box::pin(std::future::ready(Err(StoreError::NotOwner { partition })));
        };
        let etag = etag_of(having);
        if checkpoint.sequence_number.is_none() {
            // Nothing was done yet, and the coordinator fences others by itself.
            return Box::pin(std::future::ready(Ok(etag)));
        }
        let committed = self.commit(&checkpoint, Some(having));
        Box::pin(async move { committed.await.map(|()| etag) })
    }

    fn list_ownership(&self, group: &ConsumerGroup) -> StoreFuture<Vec<Ownership>> {
        let Some(membership) = &self.membership else {
            return unconditional();
        };
        let begun = membership.begin();
        let group = group.clone();
        Box::pin(async move {
            let standing = begun.await.ok_or_else(ended)?;
            if let Some(failure) = standing.failure() {
                let group_id = group.name.to_string();
                return Err(StoreError::Membership { group_id, reason: failure.to_string() });
            }
            let own = standing.held_of(&group.hub).filter_map(|(index, held)| {
                let partition = PartitionId(u32::try_from(index).ok()?);
                let owner_id = match held.is_asked_back {
                    true => String::new(),
                    false => standing.member_id.clone(),
                };
                let etag = Some(etag_of(held.having));
                Some(Ownership { etag, ..Ownership::new(group.clone(), partition, owner_id) })
            });
            Ok(own.collect())
        })
    }

    fn claim_ownership(&self, claims: Vec<Ownership>, _: Duration) -> StoreFuture<Claimed> {
        let Some(membership) = &self.membership else {
            return unconditional();
        };
        let mut released = Vec::new();
        let mut written = Vec::new();
        {
            let standing = membership.standing();
            if let Some(trouble) = &standing.trouble {
                // Everything is lost by now, which the list has told.
                let reason =
                    format!("the consumer group {} can't be taken part in: {trouble}", self.group_id);
                return Box::pin(std::future::ready(Err(StoreError::Unavailable { reason })));
            }
            for claim in claims {
                let Ok(index) = i32::try_from(claim.partition.0) else { continue };
                let held = standing.held(&claim.group.hub, index);
                let Some(held) = held.filter(|held| claim.etag == Some(etag_of(held.having))) else {
                    continue;
                };
                if claim.owner_id.is_empty() {
                    released.push(((Arc::clone(&claim.group.hub), index), held.having));
                }
                written.push(claim);
            }
        }
        let release = membership.release(released);
        Box::pin(async move {
            release.await;
            Ok(written.into())
        })
    }

    fn ownership_changes(&self) -> Option<watch::Receiver<u64>> {
        self.membership.as_ref().map(|membership| membership.changes())
    }

    fn generations(&self) -> u64 {
        self.membership.as_ref().map_or(0, |membership| membership.standing().generations)
    }

    fn leave(&self) -> StoreFuture<()> {
        let left = self.membership.as_ref().map(|membership| membership.leave());
        Box::pin(async move {
            if let Some(left) = left {
                left.await;
            }
            Ok(())
        })
    }

    fn pace(&self) -> Duration {
        PACE
    }
}

/// The mark of what was listed or written while a partition was had in this way.
fn etag_of(having: u64) -> ETag {
    ETag(format!("having {having}"))
}

fn unconditional<T: Send + 'static>() -> StoreFuture<T> {
    Box::pin(std::future::ready(Err(StoreError::NoCondition)))
}

/// The properties that connections and members need: others are another client's, or another end's.
fn settings(options: &KafkaOptions) -> Result<Settings, PropertyError> {
    Settings::of_connections(&options.properties, &OF_MEMBERS)
}

fn store_error(error: &ServiceError) -> StoreError {
    let reason = error.to_string();
    match error.class {
        ErrorClass::Fatal | ErrorClass::TooLarge => StoreError::Refused { reason },
        ErrorClass::Retryable | ErrorClass::Throttled { .. } => StoreError::Unavailable { reason },
    }
}

fn ended() -> StoreError {
    StoreError::Unavailable { reason: "the runtime of the store has ended".to_owned() }
}

/// Names of the properties that say how to be a member.
const OF_MEMBERS: [&str; 5] = [
    "group.instance.id",
    "session.timeout.ms",
    "heartbeat.interval.ms",
    "max.poll.interval.ms",
    "partition.assignment.strategy",
];

/// More than there are partitions, which commit one offset at a time each.
const AT_ONCE: usize = 4_096;

/// A request is some tens of microseconds of this process's time, and of the broker's: at most 500 of them per second, of all partitions
/// together, cost a relay next to nothing.
const PACE: Duration = Duration::from_millis(2);
