//! Whole blobs: written, described anew, deleted.

use bytes::Bytes;

use super::{Absent, Container, DeletedSnapshots, NewBlob, StagedBlocks, write};
use crate::conditions::{Conditions, Version};
use crate::error::BlobError;
use crate::now::Now;
use crate::properties::{BlobKind, ContentHeaders, Description, Metadata};
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
    /// Which kind. Append blobs begin empty.
    pub kind: BlobKind,
    /// All of its bytes.
    pub content: Bytes,
    /// Its headers and metadata.
    pub description: Description,
    /// Upon which conditions.
    pub conditions: Conditions,
    /// Whether it may take another one's place.
    pub replacing: Replacing,
}

impl Container {
    /// Writes a whole blob, in the place of any that has its name.
    ///
    /// # Errors
    /// A condition does not hold, or there is no room. The blob is as it was then.
    pub fn put(&self, name: &str, request: PutRequest, now: Now) -> Result<Version, BlobError> {
        self.change(name, Absent::Made, |change| {
            change.check_replace(&request.conditions, request.replacing, now)?;
            let blocks = match request.content.is_empty() {
                true => Vec::new(),
                false => vec![change.keep(request.content, None, now)?],
            };
            let new = NewBlob {
                kind: request.kind,
                description: request.description,
                blocks,
                appended_blocks: 0,
                staged: StagedBlocks::Dropped,
            };
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
        self.describe(name, conditions, now, |description| {
            description.metadata = metadata;
        })
    }

    /// Puts other headers in the place of all that the blob has.
    ///
    /// # Errors
    /// As [`set_metadata`](Self::set_metadata).
    pub fn set_headers(
        &self,
        name: &str,
        headers: ContentHeaders,
        conditions: &Conditions,
        now: Now,
    ) -> Result<Version, BlobError> {
        self.describe(name, conditions, now, |description| {
            description.headers = headers;
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

    fn describe(
        &self,
        name: &str,
        conditions: &Conditions,
        now: Now,
        describe: impl FnOnce(&mut Description),
    ) -> Result<Version, BlobError> {
        self.change(name, Absent::Refused, |change| {
            let current = change.changeable(conditions, now)?;
            let mut description = current.description.clone();
            describe(&mut description);
            let new = NewBlob {
                kind: current.kind,
                description,
                blocks: current.blocks.clone(),
                appended_blocks: current.appended_blocks,
                staged: StagedBlocks::Kept,
            };
            Ok(change.publish(new, now)?.version)
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
