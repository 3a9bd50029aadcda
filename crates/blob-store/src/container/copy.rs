//! Blobs that are made of others.

use std::sync::Arc;

use super::{Absent, Blob, Change, Container, NewBlob, Replacing, StagedBlocks};
use crate::conditions::{Conditions, Version};
use crate::content::{Block, ContentReader, Piece};
use crate::error::BlobError;
use crate::now::Now;
use crate::properties::{AccessTier, BlobForm, BlobKind, Description, TierSetting};

/// A blob to be copied to another place of the account.
#[derive(Clone, Debug)]
pub struct CopyRequest {
    /// The version of the blob that is copied.
    pub source: Arc<Blob>,
    /// The headers, metadata and so on of the copy.
    pub description: Description,
    /// Upon which conditions the copy takes its place.
    pub conditions: Conditions,
    /// Whether it may take another one's place.
    pub replacing: Replacing,
    /// The form of the copy.
    pub form: CopyForm,
}

/// The form of a copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CopyForm {
    /// A blob of the same kind, in the place of none of another kind, with the same blocks.
    Same,
    /// A blob that might have been put as a whole.
    Whole,
}

impl Container {
    /// Copies a blob, in the place of any that has the name. Blocks keep their ids, and are not stored a second time.
    ///
    /// # Errors
    /// A condition does not hold, there is a blob of another kind, the source is damaged, or there is no room. The blob is as it was
    /// then.
    pub fn copy(&self, name: &str, request: CopyRequest, now: Now) -> Result<Version, BlobError> {
        let CopyRequest { source, description, conditions, replacing, form } = request;
        let copied_form = match form {
            CopyForm::Same => source.form,
            CopyForm::Whole => BlobForm::Block,
        };
        let kind = copied_form.kind();
        self.change(name, Absent::Made, |change| {
            change.check_replace(&conditions, replacing, now)?;
            let is_of_another_kind = change.current.as_ref().is_some_and(|current| current.kind() != kind);
            if form == CopyForm::Same && is_of_another_kind {
                return Err(BlobError::InvalidBlobType);
            }
            let mut blocks = Vec::with_capacity(source.blocks.len());
            for block in &source.blocks {
                if let Err(error) = copied(change, kind, block, now, &mut blocks) {
                    change.condemn_all_but(&blocks, change.current.as_deref());
                    return Err(error);
                }
            }
            if form == CopyForm::Whole {
                // Blocks without ids are none to those who ask.
                blocks.iter_mut().for_each(|block| block.id.clear());
            }
            let written = match kind {
                BlobKind::Page => self.shared.next_version(now).etag.0,
                BlobKind::Block | BlobKind::Append => 0,
            };
            blocks.iter_mut().for_each(|block| block.written = written);
            let new = NewBlob { form: copied_form, description, blocks, staged: StagedBlocks::Dropped };
            Ok(change.publish(new, now)?.version)
        })
    }

    /// Chooses another tier for a block blob, and returns the one that it had. The blob stays the version that it is.
    ///
    /// # Errors
    /// There is no such blob, it is none of blocks, the lease id is wrong, or there is no room.
    pub fn set_tier(
        &self,
        name: &str,
        tier: AccessTier,
        conditions: &Conditions,
        now: Now,
    ) -> Result<Option<AccessTier>, BlobError> {
        self.change(name, Absent::Refused, |change| {
            let current = change.existing()?.clone();
            change.check_lease(conditions, now)?;
            current.check_read(conditions, now)?;
            if current.kind() != BlobKind::Block {
                return Err(BlobError::TierOfOtherKind);
            }
            let setting = TierSetting::new(tier, now.time_of_day);
            change.publish_tier(setting, now)?;
            Ok(current.description.tier.map(|before| before.tier))
        })
    }
}

/// Adds the block that a block of another blob becomes in a copy.
fn copied(
    change: &Change<'_>,
    kind: BlobKind,
    block: &Block,
    now: Now,
    blocks: &mut Vec<Block>,
) -> Result<(), BlobError> {
    match (kind, &block.piece) {
        (BlobKind::Block | BlobKind::Page, _) | (_, Piece::Memory(..) | Piece::Hole) => {
            linked(change, block, now, blocks)
        }
        // Bytes that are appended to the copy would be written into the file of both.
        (BlobKind::Append, Piece::File(_)) => rewritten(change, block, now, blocks),
    }
}

/// Adds a block with the same content, which never changes, under another name.
pub(super) fn linked(
    change: &Change<'_>,
    block: &Block,
    now: Now,
    blocks: &mut Vec<Block>,
) -> Result<(), BlobError> {
    match (&block.piece, change.container.folder()) {
        (Piece::Memory(..), None) | (Piece::Hole, _) => {
            blocks.push(block.clone());
            return Ok(());
        }
        (Piece::File(file), Some(folder)) => match folder.link_piece(file) {
            Ok(link) => {
                blocks.push(Block { piece: Piece::File(link), ..block.clone() });
                return Ok(());
            }
            // Not every file system has links, and a file has only so many.
            Err(error) => tracing::debug!(%error, "the content of a blob can't be linked, and is copied"),
        },
        _ => {}
    }
    rewritten(change, block, now, blocks)
}

/// Adds blocks with the same content, which is stored again. A block with an id stays one block.
fn rewritten(change: &Change<'_>, block: &Block, now: Now, blocks: &mut Vec<Block>) -> Result<(), BlobError> {
    let most = if block.id.is_empty() { CHUNK } else { usize::MAX };
    let mut reader = ContentReader::new(std::slice::from_ref(block), 0..block.length);
    while let Some(chunk) = reader.next_chunk(most)? {
        let kept = change.keep(chunk, None, now)?;
        blocks.push(Block { id: block.id.clone(), ..kept });
    }
    Ok(())
}

/// Bytes of a block without an id that are copied at once.
const CHUNK: usize = 8 << 20;
