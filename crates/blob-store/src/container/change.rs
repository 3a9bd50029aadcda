//! One change of one blob: what is written for it, what becomes visible, and what is let go of.

use std::collections::HashSet;
use std::sync::{Arc, MutexGuard};

use bytes::Bytes;

use super::{Blob, Container, Slot, Staged, write};
use crate::conditions::Conditions;
use crate::container::Replacing;
use crate::content::{Block, Piece};
use crate::disk::{Folder, PieceHead, PieceName, StagedHead};
use crate::error::BlobError;
use crate::lease::{self, Lease, Leased};
use crate::limits::ENTRY_BYTES;
use crate::now::Now;
use crate::properties::{BlobForm, Description, TierSetting, unix_s};
use crate::tags::Tags;

/// One change of one blob.
pub(super) struct Change<'a> {
    pub(super) container: &'a Container,
    pub(super) name: &'a str,
    pub(super) staged: MutexGuard<'a, Staged>,
    pub(super) slot: &'a Slot,
    pub(super) current: Option<Arc<Blob>>,
}

/// What is to become visible.
pub(super) struct NewBlob {
    pub(super) form: BlobForm,
    pub(super) description: Description,
    pub(super) blocks: Vec<Block>,
    /// What becomes of the blocks that wait to be committed.
    pub(super) staged: StagedBlocks,
}

/// What a change is about, besides what becomes visible.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Subject {
    /// The blob, which gets a new version.
    Blob,
    /// Its lease, of which versions know nothing.
    Lease(Option<Lease>),
    /// A property that is not part of a version.
    Unversioned,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum StagedBlocks {
    Kept,
    Dropped,
}

impl Change<'_> {
    /// The blob that is there.
    pub(super) fn existing(&self) -> Result<&Arc<Blob>, BlobError> {
        self.current.as_ref().ok_or(BlobError::BlobNotFound)
    }

    /// The blob that is there, if it may be changed.
    pub(super) fn changeable(&self, conditions: &Conditions, now: Now) -> Result<&Arc<Blob>, BlobError> {
        let current = self.existing()?;
        self.check_lease(conditions, now)?;
        conditions.check_tags(&current.description.tags)?;
        conditions.check_change(current.version)?;
        Ok(current)
    }

    /// Whether the lease of the blob, if there is one, lets it be written. It comes before all other conditions, as in the
    /// service.
    pub(super) fn check_lease(&self, conditions: &Conditions, now: Now) -> Result<(), BlobError> {
        let lease = self.current.as_ref().and_then(|blob| blob.lease.as_ref());
        lease::check_write(lease, conditions.lease, Leased::Blob, now.lease_time)?;
        Ok(())
    }

    /// Checks that the blob is not archived.
    pub(super) fn check_tier(&self) -> Result<(), BlobError> {
        match &self.current {
            Some(blob) if blob.is_archived() => Err(BlobError::Archived),
            _ => Ok(()),
        }
    }

    /// Whether a whole blob may be written.
    pub(super) fn check_replace(
        &self,
        conditions: &Conditions,
        replacing: Replacing,
        now: Now,
    ) -> Result<(), BlobError> {
        self.check_lease(conditions, now)?;
        let current = self.current.as_ref().map(|blob| blob.version);
        conditions.check_tags(self.current.as_ref().map_or(&[], |blob| &blob.description.tags))?;
        conditions.check_replace(current, self.staged.since)?;
        match (current, replacing) {
            (Some(_), Replacing::Forbidden) => Err(BlobError::MayNotReplace),
            _ => self.check_tier(),
        }
    }

    /// Keeps bytes, as those of a block that waits to be committed if it has an `id`. They go again unless a blob or a
    /// list of waiting blocks names them.
    pub(super) fn keep(&self, content: Bytes, id: Option<&str>, now: Now) -> Result<Block, BlobError> {
        let length = content.len() as u64;
        let (crc, piece) = match &self.container.folder {
            None => {
                let charge = self.container.shared.budget.charge(length + ENTRY_BYTES)?;
                (0, Piece::Memory(content, Arc::new(charge)))
            }
            Some(folder) => {
                let crc = crc32c::crc32c(&content);
                let staged = |id: &str| StagedHead {
                    id: id.to_owned(),
                    length,
                    crc,
                    staged_unix_s: unix_s(now.time_of_day),
                };
                let head = PieceHead { blob: self.name.to_owned(), block: id.map(staged) };
                (crc, Piece::File(folder.write_piece(&head, &content)?))
            }
        };
        Ok(Block { id: id.unwrap_or_default().to_owned(), length, crc, piece, written: 0 })
    }

    /// Puts a blob in the place of the one that is there, and lets go of what is not part of it any longer.
    pub(super) fn publish(&mut self, new: NewBlob, now: Now) -> Result<Arc<Blob>, BlobError> {
        self.publish_for(Subject::Blob, new, now)
    }

    /// Gives the blob another lease, or none. It stays the version that it is.
    pub(super) fn publish_lease(&mut self, lease: Option<Lease>, now: Now) -> Result<Arc<Blob>, BlobError> {
        let new = self.unchanged()?;
        self.publish_for(Subject::Lease(lease), new, now)
    }

    /// Gives the blob another tier. It stays the version that it is.
    pub(super) fn publish_tier(&mut self, tier: TierSetting, now: Now) -> Result<Arc<Blob>, BlobError> {
        let mut new = self.unchanged()?;
        new.description.tier = Some(tier);
        self.publish_for(Subject::Unversioned, new, now)
    }

    /// Gives the blob other tags. It stays the version that it is.
    pub(super) fn publish_tags(&mut self, tags: Tags, now: Now) -> Result<Arc<Blob>, BlobError> {
        let mut new = self.unchanged()?;
        new.description.tags = tags;
        self.publish_for(Subject::Unversioned, new, now)
    }

    /// The blob that is there, to be changed in part.
    pub(super) fn unchanged(&self) -> Result<NewBlob, BlobError> {
        let current = self.existing()?;
        Ok(NewBlob {
            form: current.form,
            description: current.description.clone(),
            blocks: current.blocks.clone(),
            staged: StagedBlocks::Kept,
        })
    }

    fn publish_for(&mut self, subject: Subject, new: NewBlob, now: Now) -> Result<Arc<Blob>, BlobError> {
        let published = self.prepare(subject, new, now);
        let (blob, staged) = match published {
            Ok(published) => published,
            Err((error, blocks)) => {
                // What was written for it is nobody's, unless the blob that is there has it as well.
                self.condemn_all_but(&blocks, self.current.as_deref());
                return Err(error);
            }
        };
        *write(&self.slot.visible) = Some(Arc::clone(&blob));
        if let Some(old) = self.current.replace(Arc::clone(&blob)) {
            self.condemn_all_but(&old.blocks, Some(&blob));
        }
        if staged == StagedBlocks::Dropped {
            self.drop_staged(Some(&blob));
        }
        self.sync_names()?;
        Ok(blob)
    }

    /// Comes last: the change is there, whatever this comes to, and whoever asked for it is told if it may not last.
    pub(super) fn sync_names(&self) -> Result<(), BlobError> {
        match &self.container.folder {
            Some(folder) => folder.sync_names().map_err(BlobError::unknown),
            None => Ok(()),
        }
    }

    fn prepare(
        &self,
        subject: Subject,
        new: NewBlob,
        now: Now,
    ) -> Result<(Arc<Blob>, StagedBlocks), (BlobError, Vec<Block>)> {
        let shared = &self.container.shared;
        let bytes = ENTRY_BYTES
            + self.name.len() as u64
            + new.description.bytes()
            + new.blocks.len() as u64 * size_of::<Block>() as u64;
        let charge = match shared.budget.charge(bytes) {
            Ok(charge) => charge,
            Err(error) => return Err((error, new.blocks)),
        };
        let disk = self.container.folder.as_ref().map(Folder::disk);
        let current = self.current.as_deref();
        let number = match (current, disk) {
            (Some(current), _) => current.number,
            (None, Some(disk)) => disk.next_number(),
            (None, None) => 0,
        };
        let present = current.and_then(|current| current.lease.as_ref());
        let (version, lease) = match (subject, current) {
            (Subject::Lease(lease), Some(current)) => (current.version, lease),
            (Subject::Unversioned, Some(current)) => (current.version, current.lease),
            (Subject::Blob | Subject::Lease(_) | Subject::Unversioned, _) => {
                (shared.next_version(now), lease::after_write(present, now.lease_time))
            }
        };
        let blob = Blob {
            number,
            form: new.form,
            version,
            created_at: current.map_or(version.modified_at, |current| current.created_at),
            description: new.description,
            length: new.blocks.iter().map(|block| block.length).sum(),
            staged_after: match (new.staged, disk) {
                (StagedBlocks::Dropped, Some(disk)) => disk.last_number(),
                _ => current.map_or(0, |current| current.staged_after),
            },
            lease,
            snapshot: None,
            blocks: new.blocks,
            _charge: charge,
        };
        if let Some(folder) = &self.container.folder
            && let Err(error) = folder.write_blob(number, &blob.kept(self.name))
        {
            return Err((error.into(), blob.blocks));
        }
        Ok((Arc::new(blob), new.staged))
    }

    /// Lets go of the blocks that wait to be committed, except for those that are part of `blob`.
    pub(super) fn drop_staged(&mut self, blob: Option<&Blob>) {
        let dropped: Vec<Block> = std::mem::take(&mut self.staged.blocks).into_values().collect();
        self.staged.since = None;
        self.slot.note_staged(&self.staged);
        self.condemn_all_but(&dropped, blob);
    }

    /// Condemns the pieces of `blocks` that neither are part of `blob` nor wait to be committed.
    pub(super) fn condemn_all_but(&self, blocks: &[Block], blob: Option<&Blob>) {
        let name = |block: &Block| match &block.piece {
            Piece::File(file) => Some(file.name()),
            Piece::Memory(..) | Piece::Hole => None,
        };
        let kept: HashSet<PieceName> = blob
            .map_or(&[][..], |blob| &blob.blocks)
            .iter()
            .chain(self.staged.blocks.values())
            .filter_map(name)
            .collect();
        for block in blocks {
            if let Piece::File(file) = &block.piece
                && !kept.contains(&file.name())
            {
                file.condemn();
            }
        }
    }
}
