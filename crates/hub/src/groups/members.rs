//! Members of groups in the journal: they are written before replies that depend on them are sent.

use partition_log::UnixTime;
use partition_log::disk::{CommitState, CommitWatch};
use tokio::time::Instant;

use super::group::Group;
use crate::journal::{Journal, Refused};

/// Writes the members of a group, as far as the journal lacks them.
///
/// # Errors
/// They can't be written. Members of a classic group that wait for their assignment are refused, and all have to join again.
pub(super) fn store(
    journal: &Journal,
    commits: Option<&CommitWatch>,
    group_id: &str,
    group: &mut Group,
    (now, wall): (Instant, UnixTime),
) -> Result<(), Refused> {
    let last = group.members_commit;
    if commits.is_some_and(|commits| commits.state_of(last) == CommitState::Failed) {
        group.note_lost();
    }
    let records = group.unstored(group_id);
    if records.is_empty() {
        return Ok(());
    }
    match journal.append(wall, &records) {
        Ok(commit) => {
            group.note_stored(commit);
            Ok(())
        }
        Err(refused) => {
            tracing::warn!(%refused, group = group_id, "the members of a consumer group can't be stored");
            group.refuse_unstored(now);
            Err(refused)
        }
    }
}
