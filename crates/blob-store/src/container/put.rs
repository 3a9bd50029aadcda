//! Whole blobs: written, described anew, deleted.

use bytes::Bytes;

use super::{Absent, Container, DeletedSnapshots, NewBlob, StagedBlocks, write};
use crate::conditions::{Conditions, Version};
use crate::content::Block;
use crate::error::BlobError;
use crate::now::Now;
use crate::properties::{BlobForm, Description, Metadata};
use crate::tags::Tags;

/// Whether what is there may be replaced by whoever asks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Replacing {
    /// It may.
    #[default]
    Allowed,
    /// Only what is not there yet may be written.
    Forbidden,
}

/// A blob to be written as a whole.
#[derive(Clone, Debug)]
pub struct PutRequest {
    /// The content, which also determines the kind.
    pub content: PutContent,
    /// Its headers and metadata.
    pub description: Description,
    /// Upon which conditions.
    pub conditions: Conditions,
    /// Whether it may take another one's place.
    pub replacing: Replacing,
}

/// The content of a new blob.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PutContent {
    /// These bytes, as a block blob.
    Block(Bytes),
    /// Nothing yet, as an append blob.
    Append,
    /// Zeros, as a page blob.
    Page {
        /// Length in bytes, a multiple of [`PAGE_BYTES`](super::PAGE_BYTES).
        length: u64,
        /// The initial sequence number.
        sequence_number: u64,
    },
}

impl Container {
    /// Writes a whole blob, in the place of any that has its name.
    ///
    /// # Errors
    /// A condition does not hold, or there is no room. The blob is as it was then.
    pub fn put(&self, name: &str, request: PutRequest, now: Now) -> Result<Version, BlobError> {
        self.change(name, Absent::Made, |change| {
            change.check_replace(&request.conditions, request.replacing, now)?;
            let (form, blocks) = match request.content {
                PutContent::Append => (BlobForm::Append { blocks: 0 }, Vec::new()),
                PutContent::Block(content) if content.is_empty() => (BlobForm::Block, Vec::new()),
                PutContent::Block(content) => (BlobForm::Block, vec![change.keep(content, None, now)?]),
                PutContent::Page { length, sequence_number } => {
                    let written = self.shared.next_version(now).etag.0;
                    let hole = Block::hole(length, written);
                    (BlobForm::Page { sequence_number }, if length > 0 { vec![hole] } else { Vec::new() })
                }
            };
            let new =
                NewBlob { form, description: request.description, blocks, staged: StagedBlocks::Dropped };
            Ok(change.publish(new, now)?.version)
        })
    }

    /// Puts other metadata in the place of all that the blob has.
    ///
    /// # Errors
    /// There is no such blob, a condition does not hold, or there is no room.
    pub fn set_metadata(
        &self,
        name: &str,
        metadata: Metadata,
        conditions: &Conditions,
        now: Now,
    ) -> Result<Version, BlobError> {
        self.change(name, Absent::Refused, |change| {
            change.changeable(conditions, now)?;
            change.check_tier()?;
            let mut new = change.unchanged()?;
            new.description.metadata = metadata;
            Ok(change.publish(new, now)?.version)
        })
    }

    /// Puts other tags in the place of all that the blob has. It stays the version that it is.
    ///
    /// # Errors
    /// There is no such blob, the lease id is wrong, the condition on tags does not hold, or there is no room.
    pub fn set_tags(
        &self,
        name: &str,
        tags: Tags,
        conditions: &Conditions,
        now: Now,
    ) -> Result<(), BlobError> {
        self.change(name, Absent::Refused, |change| {
            let current = change.existing()?;
            conditions.check_tags(&current.description.tags)?;
            change.check_lease(conditions, now)?;
            change.publish_tags(tags, now).map(drop)
        })
    }

    /// Deletes a blob that has no snapshots, and its blocks that wait to be committed.
    ///
    /// # Errors
    /// As [`delete_with`](Self::delete_with).
    pub fn delete(&self, name: &str, conditions: &Conditions, now: Now) -> Result<(), BlobError> {
        self.delete_with(name, DeletedSnapshots::None, conditions, now)
    }

    /// Deletes a blob with its blocks that wait to be committed, its snapshots, or both. Snapshots are deleted first, one by one.
    ///
    /// # Errors
    /// There is no such blob, it has snapshots that are to stay, a condition does not hold, or the disk does not let go of it.
    pub fn delete_with(
        &self,
        name: &str,
        snapshots: DeletedSnapshots,
        conditions: &Conditions,
        now: Now,
    ) -> Result<(), BlobError> {
        self.change(name, Absent::Refused, |change| {
            let current = change.changeable(conditions, now)?.clone();
            if snapshots == DeletedSnapshots::None && self.has_snapshots(name) {
                return Err(BlobError::SnapshotsPresent);
            }
            change.remove_snapshots()?;
            if snapshots == DeletedSnapshots::Only {
                return change.sync_names();
            }
            if let Some(folder) = &self.folder {
                folder.remove_blob(current.number)?;
            }
            *write(&change.slot.visible) = None;
            change.current = None;
            change.drop_staged(None);
            change.condemn_all_but(&current.blocks, None);
            change.sync_names()
        })
    }
}
