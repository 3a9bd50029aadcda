//! Checkpoints as committed offsets of a consumer group, where all tools of Kafka look for a group's progress and lag.
//!
//! A checkpoint says which record was done last, a committed offset which one is next: the store commits one more than the sequence
//! number, and gives one less back. Nothing else of a checkpoint is kept, and neither is who wrote it: Kafka has no condition under which
//! an offset is committed, so that whoever is late overwrites who took over from him. Partitions can't be shared over this store, and
//! what would need that is refused ([`StoreError::NoCondition`]). Nor has the group members while it is written to: Kafka refuses the
//! commits of one who is none as long as there are some.
//!
//! Commits that are asked for while one is under way go together in the next, however many partitions they are of.

use std::sync::Arc;
use std::time::Duration;

use kafka::ErrorCode;
use kafka::messages::offset_commit::CommittedOffset;
use tokio::sync::{mpsc, oneshot};

use super::native::{Coordinator, Endpoint, refused};
use super::options::KafkaOptions;
use super::properties::{Properties, PropertyError};
use super::settings::Settings;
use crate::checkpoint::{
    Checkpoint, CheckpointStore, ConsumerGroup, ETag, Ownership, StoreError, StoreFuture,
};
use crate::event::PartitionId;
use crate::service::ServiceError;
use crate::sink::ErrorClass;

/// The committed offsets of one consumer group. The hub of a [`ConsumerGroup`] is the topic; its namespace is of no account, since a
/// store is of one cluster.
#[derive(Debug)]
pub struct GroupOffsetStore {
    group_id: Arc<str>,
    asks: mpsc::Sender<Ask>,
}

/// What the task that has the connection is asked.
#[derive(Debug)]
enum Ask {
    List { topic: Arc<str>, answer: Answer<Vec<(PartitionId, i64)>> },
    Commit(Commit),
}

#[derive(Debug)]
struct Commit {
    topic: Arc<str>,
    index: i32,
    /// Of the next record.
    offset: i64,
    answer: Answer<()>,
}

type Answer<T> = oneshot::Sender<Result<T, StoreError>>;

impl GroupOffsetStore {
    /// Connects to the coordinator of a group. The properties of `options` that are about connections count; its topic and its client
    /// do not. Made within a tokio runtime with time and I/O.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`] when no broker can be reached, [`StoreError::Refused`] when the login or the group is refused, or a
    /// property is wrong.
    pub async fn open(options: &KafkaOptions, group_id: &str) -> Result<Self, StoreError> {
        if group_id.is_empty() {
            return Err(StoreError::Refused { reason: "a consumer group has a name".to_owned() });
        }
        let settings = settings(options).map_err(|error| store_error(&error.into()))?;
        let endpoint = Endpoint::new(settings, &options.topic).map_err(|error| store_error(&error))?;
        let mut coordinator = Coordinator::of(endpoint, group_id);
        coordinator.connect().await.map_err(|error| store_error(&error))?;
        let (asks, asked) = mpsc::channel(AT_ONCE);
        // A task: nobody else's progress depends on whether the one is polled whose question is under way.
        tokio::spawn(answer(coordinator, asked));
        Ok(Self { group_id: group_id.into(), asks })
    }

    /// Whether a store can be set up so. Nothing is connected.
    ///
    /// # Errors
    /// The first mistake in the properties that are about connections.
    pub fn check(options: &KafkaOptions) -> Result<(), PropertyError> {
        settings(options).map(drop)
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
}

impl CheckpointStore for GroupOffsetStore {
    fn list_checkpoints(&self, group: &ConsumerGroup) -> StoreFuture<Vec<Checkpoint>> {
        let topic = Arc::clone(&group.hub);
        let offsets = self.ask(group, |answer| Ok(Ask::List { topic, answer }));
        let group = group.clone();
        Box::pin(async move {
            let checkpoint = |(partition, offset): (PartitionId, i64)| Checkpoint {
                group: group.clone(),
                partition,
                sequence_number: Some(offset - 1),
                offset: None,
                etag: Some(ETag(offset.to_string())),
            };
            Ok(offsets.await?.into_iter().map(checkpoint).collect())
        })
    }

    fn update_checkpoint(&self, checkpoint: Checkpoint) -> StoreFuture<()> {
        let Checkpoint { group, partition, sequence_number, .. } = checkpoint;
        let topic = Arc::clone(&group.hub);
        self.ask(&group, |answer| {
            let offset =
                sequence_number.and_then(|number| number.checked_add(1)).filter(|offset| *offset >= 0);
            let place = i32::try_from(partition.0).ok().zip(offset);
            let (index, offset) = place.ok_or_else(|| StoreError::Refused {
                reason: format!("partition {partition} has no sequence number that could be committed"),
            })?;
            Ok(Ask::Commit(Commit { topic, index, offset, answer }))
        })
    }

    fn replace_checkpoint(&self, _: Checkpoint) -> StoreFuture<ETag> {
        unconditional()
    }

    fn list_ownership(&self, _: &ConsumerGroup) -> StoreFuture<Vec<Ownership>> {
        unconditional()
    }

    fn claim_ownership(&self, _: Vec<Ownership>) -> StoreFuture<Vec<Ownership>> {
        unconditional()
    }

    fn pace(&self) -> Duration {
        PACE
    }
}

fn unconditional<T: Send + 'static>() -> StoreFuture<T> {
    Box::pin(std::future::ready(Err(StoreError::NoCondition)))
}

/// Answers what is asked until nobody can ask any more.
async fn answer(mut coordinator: Coordinator, mut asked: mpsc::Receiver<Ask>) {
    let mut asks = Vec::new();
    while asked.recv_many(&mut asks, AT_ONCE).await > 0 {
        let mut commits = Vec::new();
        for ask in asks.drain(..) {
            match ask {
                Ask::Commit(commit) => commits.push(commit),
                Ask::List { topic, answer } => {
                    // Who asks begins again from there: what was committed before is to be seen.
                    commit(&mut coordinator, std::mem::take(&mut commits)).await;
                    // Who does not wait any longer does not want to know.
                    let _gone = answer.send(list(&mut coordinator, &topic).await);
                }
            }
        }
        commit(&mut coordinator, commits).await;
    }
}

async fn list(coordinator: &mut Coordinator, topic: &str) -> Result<Vec<(PartitionId, i64)>, StoreError> {
    let offsets = coordinator.offsets(topic).await.map_err(|error| store_error(&error))?;
    let mut listed: Vec<_> = offsets
        .into_iter()
        .filter_map(|next| Some((PartitionId(u32::try_from(next.index).ok()?), next.offset)))
        .collect();
    listed.sort_unstable();
    Ok(listed)
}

/// Commits all in one request. Of several of one partition the last one counts.
async fn commit(coordinator: &mut Coordinator, mut commits: Vec<Commit>) {
    if commits.is_empty() {
        return;
    }
    commits.sort_by(|a, b| (&a.topic, a.index).cmp(&(&b.topic, b.index)));
    let mut offsets: Vec<CommittedOffset<'_>> = Vec::with_capacity(commits.len());
    let mut places = Vec::with_capacity(commits.len());
    for Commit { topic, index, offset, .. } in &commits {
        let (index, offset) = (*index, *offset);
        match offsets.last_mut() {
            Some(last) if last.topic == &**topic && last.index == index => last.offset = offset,
            _ => offsets.push(CommittedOffset { topic, index, offset, leader_epoch: -1, metadata: "" }),
        }
        places.push(offsets.len() - 1);
    }
    let outcome = coordinator.commit(&offsets).await;
    for (commit, place) in commits.into_iter().zip(places) {
        let result = match &outcome {
            Ok(codes) => committed(codes[place], coordinator.group_id(), &commit),
            Err(error) => Err(store_error(error)),
        };
        let _gone = commit.answer.send(result);
    }
}

/// What became of one commit.
fn committed(code: ErrorCode, group_id: &str, commit: &Commit) -> Result<(), StoreError> {
    match code {
        ErrorCode::None => Ok(()),
        ErrorCode::UnknownMemberId
        | ErrorCode::IllegalGeneration
        | ErrorCode::RebalanceInProgress
        | ErrorCode::FencedInstanceId
        | ErrorCode::FencedMemberEpoch
        | ErrorCode::StaleMemberEpoch => {
            let reason = format!(
                "the consumer group {group_id} has members, who alone commit its offsets: stop them, or name a group \
                 that nobody else uses ({code})"
            );
            Err(StoreError::Refused { reason })
        }
        code => {
            let what = format!("the offset of {}/{} can't be committed", commit.topic, commit.index);
            Err(store_error(&refused(code, what)))
        }
    }
}

/// The properties that connections need: others are another client's, or another end's.
fn settings(options: &KafkaOptions) -> Result<Settings, PropertyError> {
    let of_connections = options.properties.iter().filter(|(name, _)| OF_CONNECTIONS.contains(name));
    Settings::read(&of_connections.collect::<Properties>())
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

/// Names of the properties that say how to connect.
const OF_CONNECTIONS: [&str; 10] = [
    "bootstrap.servers",
    "security.protocol",
    "sasl.mechanism",
    "sasl.mechanisms",
    "sasl.username",
    "sasl.password",
    "ssl.ca.location",
    "client.id",
    "socket.connection.setup.timeout.ms",
    "request.timeout.ms",
];

/// More than there are partitions, which commit one offset at a time each.
const AT_ONCE: usize = 4_096;

/// A request is some tens of microseconds of this process's time, and of the broker's: at most 500 of them per second, of all partitions
/// together, cost a relay next to nothing.
const PACE: Duration = Duration::from_millis(2);
