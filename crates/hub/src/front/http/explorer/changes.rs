//! What a person does to messages that wait: remove them, all of them, or send dead letters again.

use std::future::poll_fn;
use std::task::{Poll, ready};

use partition_log::disk::{CommitNumber, CommitState};
use serde::Deserialize;
use serde_json::json;

use super::ExplorerFront;
use super::reply::{self, Refusal, Reply};
use crate::front::pending::OUTCOME_UNKNOWN;

/// Messages of a queue.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Chosen {
    entity: String,
    sequence_numbers: Choice,
}

/// Which.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Choice {
    /// All that are there now.
    All,
    /// Those of these numbers.
    #[serde(untagged)]
    Of(Vec<u64>),
}

/// A queue that is to be emptied.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Emptied {
    entity: String,
}

impl ExplorerFront {
    /// Sends dead letters to where they came from.
    ///
    /// # Errors
    /// These are no dead letters, or their entity does not take them. What was sent before that stays sent.
    pub(super) async fn resubmit(&self, chosen: Chosen) -> Result<Reply, Refusal> {
        let queue = self.find_queue(&chosen.entity)?.queue;
        let numbers = match chosen.sequence_numbers {
            Choice::Of(numbers) => numbers,
            Choice::All => queue.numbers(),
        };
        let (mut count, mut refused) = (0, 0);
        let mut commit = CommitNumber::DONE;
        for step in numbers.chunks(STEP) {
            let sent = match queue.resubmit(self.now(), step) {
                Ok(sent) => sent,
                Err(error) if count > 0 => {
                    let refusal = Refusal::from(error);
                    return Err(Refusal::new(409, format!("{refusal}; {count} were sent again before")));
                }
                Err(error) => return Err(error.into()),
            };
            count += sent.count;
            refused += sent.refused.len();
            commit = commit.max(sent.commit);
            tokio::task::yield_now().await;
        }
        self.committed(commit).await?;
        Ok(reply::json(&json!({"count": count, "refused": refused})))
    }

    /// Removes messages.
    ///
    /// # Errors
    /// There is no such queue, or nothing of it can be changed at present.
    pub(super) async fn remove(&self, chosen: Chosen) -> Result<Reply, Refusal> {
        let Choice::Of(numbers) = chosen.sequence_numbers else {
            return self.purge(Emptied { entity: chosen.entity }).await;
        };
        let queue = self.find_queue(&chosen.entity)?.queue;
        let removed = queue.remove(self.now(), &numbers)?;
        self.committed(removed.commit).await?;
        Ok(reply::json(&json!({"count": removed.count, "refused": removed.refused.len()})))
    }

    /// Removes all messages that are there now, apart from those that receivers have locked.
    ///
    /// # Errors
    /// There is no such queue, or nothing of it can be changed at present.
    pub(super) async fn purge(&self, emptied: Emptied) -> Result<Reply, Refusal> {
        let queue = self.find_queue(&emptied.entity)?.queue;
        let counts = queue.counts();
        let held = counts.active + counts.deferred + counts.scheduled;
        let Some(last) = held.checked_sub(1).and_then(|index| queue.number_at(index)) else {
            return Ok(reply::json(&json!({"count": 0, "refused": 0})));
        };
        let (mut count, mut locked, mut from) = (0, 0, Some(0));
        let mut commit = CommitNumber::DONE;
        while let Some(first) = from {
            let purged = queue.purge(self.now(), first, last + 1, STEP)?;
            count += purged.count;
            locked += purged.locked;
            commit = commit.max(purged.commit);
            from = purged.next;
            tokio::task::yield_now().await;
        }
        self.committed(commit).await?;
        Ok(reply::json(&json!({"count": count, "refused": locked})))
    }

    /// Waits for a commit.
    ///
    /// # Errors
    /// It has failed.
    pub(super) async fn committed(&self, commit: CommitNumber) -> Result<(), Refusal> {
        if commit.is_done() {
            return Ok(());
        }
        let Some(mut commits) = self.namespace.watch_commits() else {
            return Ok(());
        };
        let state = poll_fn(|context| {
            loop {
                match commits.state_of(commit) {
                    CommitState::Waiting => ready!(commits.poll_committed(context)),
                    state => return Poll::Ready(state),
                }
            }
        })
        .await;
        match state {
            CommitState::Failed => Err(Refusal::new(504, OUTCOME_UNKNOWN)),
            CommitState::Done | CommitState::Waiting => Ok(()),
        }
    }
}

/// Messages that are worked on at once, before others have their turn.
const STEP: usize = 256;
