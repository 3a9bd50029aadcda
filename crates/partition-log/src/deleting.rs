//! Deleting records from the beginning of a log, up to any one of them.
//!
//! From then on the log begins there. Segments go when all of their records are deleted; what is left of the first one stays where
//! it is, unread. A durable log remembers where it begins.

use super::disk::write_start;
use super::durable_file::ReplaceError;
use super::partition_log::PartitionLog;

/// Why nothing was deleted.
#[derive(Debug, thiserror::Error)]
pub enum DeleteError {
    /// The number has not been given to any record yet, or its record is not committed.
    #[error("the log ends before {end}, so that nothing before {requested} can be deleted")]
    BeyondEnd {
        /// What was asked for.
        requested: u64,
        /// The number after the last record.
        end: u64,
    },
    /// The new beginning could not be stored.
    #[error(transparent)]
    Storage(#[from] ReplaceError),
}

impl PartitionLog {
    /// Deletes the records before this number, and returns the one that the log begins with: a later one, if more was gone
    /// already. For a durable log this writes and syncs a file, so a runtime's threads should not wait for it.
    ///
    /// # Errors
    /// The log ends before, or the new beginning could not be stored.
    pub fn delete_before(&self, sequence_number: u64) -> Result<u64, DeleteError> {
        // One after the other: an earlier number must not replace a later one in the file.
        let files = self.disk.as_ref().map(|disk| (disk, disk.lock()));
        let state = self.lock();
        let (begin, end) = (state.begin_sequence_number(), state.committed_before());
        drop(state);
        if sequence_number > end {
            return Err(DeleteError::BeyondEnd { requested: sequence_number, end });
        }
        if sequence_number <= begin {
            return Ok(begin);
        }
        if let Some((disk, _)) = &files {
            write_start(disk.path(), sequence_number)?;
        }
        drop(files);
        let mut state = self.lock();
        state.deleted_before = state.deleted_before.max(sequence_number);
        drop(state);
        self.drop_deleted();
        Ok(self.lock().begin_sequence_number())
    }

    /// Drops the segments whose records are all deleted.
    pub(super) fn drop_deleted(&self) {
        let state = self.lock();
        if state.oldest_is_deleted() {
            self.drop_while(state, |state| state.oldest_is_deleted());
        }
    }
}
