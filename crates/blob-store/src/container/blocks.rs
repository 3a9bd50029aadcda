//! Blobs that are put together from blocks.

use std::collections::HashMap;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;

use super::{Absent, Blob, Change, Container, NewBlob, Replacing, StagedBlocks, lock, read};
use crate::conditions::{Conditions, Version};
use crate::content::Block;
use crate::error::BlobError;
use crate::lease::{self, LeaseId, Leased};
use crate::limits::BLOCK_ID_BYTES;
use crate::now::Now;
use crate::properties::{BlobForm, BlobKind, Description, whole_seconds};

/// Where a block of a list is looked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BlockSource {
    /// In the blob that is there.
    Committed,
    /// Among those that wait.
    Uncommitted,
    /// Among those that wait, and otherwise in the blob that is there.
    Latest,
}

/// An entry of a block list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BlockChoice {
    /// Where it is.
    pub source: BlockSource,
    /// The block's id, base64.
    pub id: String,
}

/// The blocks of a blob.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BlockLists {
    /// Those that it consists of.
    pub committed: Vec<ListedBlock>,
    /// Those that wait, in the order of their ids.
    pub uncommitted: Vec<ListedBlock>,
    /// The blob, if there is one.
    pub blob: Option<(Version, u64)>,
}

/// A block that is there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListedBlock {
    /// Its id, base64.
    pub id: String,
    /// Its bytes.
    pub length: u64,
}

impl Container {
    /// Takes a block that can be committed from then on, in the place of any of its id that waits.
    ///
    /// # Errors
    /// The id makes no sense, the blob is none of blocks, a lease locks it, or there is no room.
    pub fn put_block(
        &self,
        name: &str,
        id: &str,
        content: Bytes,
        lease: Option<LeaseId>,
        now: Now,
    ) -> Result<(), BlobError> {
        let is_id = STANDARD.decode(id).is_ok_and(|bytes| !bytes.is_empty() && bytes.len() <= BLOCK_ID_BYTES);
        if !is_id {
            return Err(BlobError::InvalidBlockId);
        }
        self.change(name, Absent::Made, |change| {
            if let Some(current) = &change.current
                && current.kind() != BlobKind::Block
            {
                return Err(BlobError::InvalidBlobType);
            }
            let conditions = Conditions { lease, ..Conditions::default() };
            change.check_lease(&conditions, now)?;
            let waiting = &change.staged.blocks;
            if waiting.keys().next().is_some_and(|other| other.len() != id.len()) {
                return Err(BlobError::InvalidBlockId);
            }
            if waiting.len() >= self.shared.limits.uncommitted_blocks && !waiting.contains_key(id) {
                return Err(BlobError::TooManyBlocks);
            }
            let block = change.keep(content, Some(id), now)?;
            let staged = &mut change.staged;
            staged.since = staged.since.or_else(|| Some(whole_seconds(now.time_of_day)));
            let replaced = change.staged.blocks.insert(id.to_owned(), block);
            change.slot.note_staged(&change.staged);
            if let Some(replaced) = replaced {
                let current = change.current.clone();
                change.condemn_all_but(&[replaced], current.as_deref());
            }
            Ok(())
        })
    }

    /// Makes a blob of blocks, in the place of any that has its name. Blocks that wait and are not in the list are dropped.
    ///
    /// # Errors
    /// A block is not there or damaged, a condition does not hold, or there is no room. Nothing has changed then.
    pub fn put_block_list(
        &self,
        name: &str,
        list: &[BlockChoice],
        description: Description,
        conditions: &Conditions,
        replacing: Replacing,
        now: Now,
    ) -> Result<Version, BlobError> {
        if list.len() > self.shared.limits.blocks {
            return Err(BlobError::TooManyBlocks);
        }
        self.change(name, Absent::Made, |change| {
            change.check_replace(conditions, replacing, now)?;
            if change.current.as_ref().is_some_and(|current| current.kind() != BlobKind::Block) {
                return Err(BlobError::InvalidBlobType);
            }
            let blocks = chosen(change, list)?;
            let new = NewBlob { form: BlobForm::Block, description, blocks, staged: StagedBlocks::Dropped };
            Ok(change.publish(new, now)?.version)
        })
    }

    /// Which blocks a blob has.
    ///
    /// # Errors
    /// There are neither blob nor blocks of this name, the blob is none of blocks, or the lease id is wrong.
    pub fn block_lists(&self, name: &str, lease: Option<LeaseId>, now: Now) -> Result<BlockLists, BlobError> {
        let slot = read(&self.slots).get(name).cloned();
        let slot = slot.ok_or(BlobError::BlobNotFound)?;
        let staged = lock(&slot.staged);
        let lists = match slot.blob() {
            Some(blob) => {
                let lists = blob.block_lists()?;
                lease::check_read(blob.lease(), lease, Leased::Blob, now.lease_time)?;
                lists
            }
            None if staged.blocks.is_empty() => return Err(BlobError::BlobNotFound),
            None => {
                lease::check_read(None, lease, Leased::Blob, now.lease_time)?;
                BlockLists::default()
            }
        };
        Ok(BlockLists { uncommitted: staged.blocks.values().map(listed).collect(), ..lists })
    }
}

impl Blob {
    /// Returns the committed blocks.
    ///
    /// # Errors
    /// The blob is no block blob.
    pub fn block_lists(&self) -> Result<BlockLists, BlobError> {
        if self.kind() != BlobKind::Block {
            return Err(BlobError::InvalidBlobType);
        }
        // What was put as a whole has no blocks to those who ask.
        let committed = self.blocks.iter().filter(|block| !block.id.is_empty()).map(listed).collect();
        Ok(BlockLists { committed, uncommitted: Vec::new(), blob: Some((self.version, self.length)) })
    }
}

fn listed(block: &Block) -> ListedBlock {
    ListedBlock { id: block.id.clone(), length: block.length }
}

/// The blocks that a list names.
fn chosen(change: &Change<'_>, list: &[BlockChoice]) -> Result<Vec<Block>, BlobError> {
    let current = change.current.as_ref();
    let committed: HashMap<&str, &Block> = current
        .map_or(&[][..], |blob| &blob.blocks)
        .iter()
        .filter(|block| !block.id.is_empty())
        .map(|block| (block.id.as_str(), block))
        .collect();
    let waiting = &change.staged.blocks;
    let found = |choice: &BlockChoice| {
        let id = choice.id.as_str();
        let block = match choice.source {
            BlockSource::Committed => committed.get(id).copied(),
            BlockSource::Uncommitted => waiting.get(id),
            BlockSource::Latest => waiting.get(id).or_else(|| committed.get(id).copied()),
        };
        let block = block.ok_or(BlobError::InvalidBlockList)?;
        // Its writer still has it, and can put it again. What is committed already is found when it is read.
        if waiting.get(id).is_some_and(|waiting| std::ptr::eq(waiting, block)) {
            block.check()?;
        }
        Ok(block.clone())
    };
    list.iter().map(found).collect()
}
