//! The task of a store: has the connection for offsets, and answers what the store is asked.

use std::sync::Arc;
use std::time::Duration;

use kafka::ErrorCode;
use kafka::messages::offset_commit::CommittedOffset;
use tokio::sync::{mpsc, oneshot};
use tokio::time::Instant;

use super::{AT_ONCE, store_error};
use crate::checkpoint::StoreError;
use crate::event::PartitionId;
use crate::kafka::group::{Membership, Standing};
use crate::kafka::native::{Committer, Coordinator, refused};
use crate::service::ServiceError;

/// What the task is asked.
#[derive(Debug)]
pub(super) enum Ask {
    List { topic: Arc<str>, answer: Answer<Vec<(PartitionId, i64)>> },
    Commit(Commit),
}

#[derive(Debug)]
pub(super) struct Commit {
    pub(super) topic: Arc<str>,
    pub(super) index: i32,
    /// Of the next record.
    pub(super) offset: i64,
    /// For a member: which having of the partition it is of.
    pub(super) having: Option<u64>,
    pub(super) answer: Answer<()>,
}

pub(super) type Answer<T> = oneshot::Sender<Result<T, StoreError>>;

/// Answers what is asked until nobody can ask any more.
pub(super) async fn answer(
    mut coordinator: Coordinator,
    membership: Option<Arc<Membership>>,
    mut asked: mpsc::Receiver<Ask>,
) {
    let mut asks = Vec::new();
    while asked.recv_many(&mut asks, AT_ONCE).await > 0 {
        let mut commits = Vec::new();
        for ask in asks.drain(..) {
            match ask {
                Ask::Commit(commit) => commits.push(commit),
                Ask::List { topic, answer } => {
                    // Who asks begins again from there: what was committed before is to be seen.
                    let commits = std::mem::take(&mut commits);
                    commit_all(&mut coordinator, membership.as_deref(), commits).await;
                    // Who does not wait any longer does not want to know.
                    let _gone = answer.send(list(&mut coordinator, &topic).await);
                }
            }
        }
        commit_all(&mut coordinator, membership.as_deref(), commits).await;
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

async fn commit_all(
    coordinator: &mut Coordinator,
    membership: Option<&Membership>,
    mut commits: Vec<Commit>,
) {
    if commits.is_empty() {
        return;
    }
    commits.sort_by(|a, b| (&a.topic, a.index).cmp(&(&b.topic, b.index)));
    match membership {
        None => commit_as_nobody(coordinator, commits).await,
        Some(membership) => commit_as_member(coordinator, membership, commits).await,
    }
}

async fn commit_as_nobody(coordinator: &mut Coordinator, commits: Vec<Commit>) {
    let outcomes = commit(coordinator, Committer::NOBODY, &commits).await;
    for (commit, outcome) in commits.into_iter().zip(outcomes) {
        let result = match outcome {
            Ok(code) if is_about_members(code) => {
                let reason = format!(
                    "the consumer group {} has members, who alone commit its offsets: stop them, be one of them \
                     (`ownership: {{mode: group}}`), or name a group that nobody else uses ({code})",
                    coordinator.group_id()
                );
                Err(StoreError::Refused { reason })
            }
            outcome => commit.result(outcome),
        };
        let _gone = commit.answer.send(result);
    }
}

/// Commits in the generation that the member is in. If that has gone by, what the member still has is committed in the next.
async fn commit_as_member(coordinator: &mut Coordinator, membership: &Membership, mut commits: Vec<Commit>) {
    let mut standing = membership.watch();
    let give_up_at = Instant::now() + PATIENCE;
    loop {
        let now = standing.borrow_and_update().clone();
        commits = commits.into_iter().filter_map(|commit| commit.if_held(&now)).collect();
        if commits.is_empty() {
            return;
        }
        if now.is_settled {
            let committer = Committer {
                generation: now.generation,
                member_id: &now.member_id,
                instance_id: membership.instance_id(),
            };
            let outcomes = commit(coordinator, committer, &commits).await;
            let mut left = Vec::new();
            for (commit, outcome) in commits.into_iter().zip(outcomes) {
                match outcome {
                    Ok(code) if is_about_members(code) => left.push(commit),
                    outcome => {
                        let result = commit.result(outcome);
                        let _gone = commit.answer.send(result);
                    }
                }
            }
            if left.is_empty() {
                return;
            }
            commits = left;
            membership.doubt();
        }
        let changed = tokio::time::timeout_at(give_up_at, standing.changed()).await;
        if !matches!(changed, Ok(Ok(()))) {
            for commit in commits {
                let reason = "the consumer group is being made anew".to_owned();
                let _gone = commit.answer.send(Err(StoreError::Unavailable { reason }));
            }
            return;
        }
    }
}

/// Commits all in one request. Of several of one partition, which stand together, the last one counts. Says what became of each.
async fn commit(
    coordinator: &mut Coordinator,
    committer: Committer<'_>,
    commits: &[Commit],
) -> Vec<Result<ErrorCode, ServiceError>> {
    let mut offsets: Vec<CommittedOffset<'_>> = Vec::with_capacity(commits.len());
    let mut places = Vec::with_capacity(commits.len());
    for Commit { topic, index, offset, .. } in commits {
        let (index, offset) = (*index, *offset);
        match offsets.last_mut() {
            Some(last) if last.topic == &**topic && last.index == index => last.offset = offset,
            _ => offsets.push(CommittedOffset { topic, index, offset, leader_epoch: -1, metadata: "" }),
        }
        places.push(offsets.len() - 1);
    }
    let outcome = coordinator.commit(committer, &offsets).await;
    let of = |place: usize| outcome.as_ref().map(|codes| codes[place]).map_err(Clone::clone);
    places.into_iter().map(of).collect()
}

impl Commit {
    /// This, unless the partition is another's by now, which is answered.
    fn if_held(self, standing: &Standing) -> Option<Self> {
        let held = standing.held(&self.topic, self.index).map(|held| held.having);
        if held.is_some() && held == self.having {
            return Some(self);
        }
        let partition = PartitionId(self.index.cast_unsigned());
        let _gone = self.answer.send(Err(StoreError::NotOwner { partition }));
        None
    }

    fn result(&self, outcome: Result<ErrorCode, ServiceError>) -> Result<(), StoreError> {
        match outcome {
            Ok(ErrorCode::None) => Ok(()),
            Ok(code) => {
                let what = format!("the offset of {}/{} can't be committed", self.topic, self.index);
                Err(store_error(&refused(code, what)))
            }
            Err(error) => Err(store_error(&error)),
        }
    }
}

/// Whether it is about who commits, not about what.
const fn is_about_members(code: ErrorCode) -> bool {
    matches!(
        code,
        ErrorCode::UnknownMemberId
            | ErrorCode::IllegalGeneration
            | ErrorCode::RebalanceInProgress
            | ErrorCode::FencedInstanceId
            | ErrorCode::FencedMemberEpoch
            | ErrorCode::StaleMemberEpoch
    )
}

/// How long commits wait for the group to be made anew. Whoever wants them asks again.
const PATIENCE: Duration = Duration::from_secs(30);
