//! Members of classic groups in the journal: they are written before replies that depend on them are sent.

use partition_log::UnixTime;
use partition_log::disk::{CommitState, CommitWatch};
use tokio::time::Instant;

use super::group::Group;
use crate::journal::{Journal, Record};

/// Writes the members of a group if the journal lacks them. If they can't be written, the group has its members join again, and
/// those that wait for their assignment are refused.
pub(super) fn store(
    journal: &Journal,
    commits: Option<&CommitWatch>,
    group_id: &str,
    group: &mut Group,
    (now, wall): (Instant, UnixTime),
) {
    let last = group.members_commit;
    let is_lost = commits.is_some_and(|commits| commits.state_of(last) == CommitState::Failed);
    let Some(classic) = group.known_classic() else {
        return;
    };
    if is_lost {
        classic.note_lost();
    }
    let Some(record) = classic.unstored(group_id) else {
        return;
    };
    match journal.append(wall, &[Record::Generation(record)]) {
        Ok(commit) => {
            classic.note_stored();
            group.members_commit = commit;
        }
        Err(refused) => {
            tracing::warn!(%refused, group = group_id, "the members of a consumer group can't be stored");
            classic.refuse_unstored(now);
        }
    }
}
