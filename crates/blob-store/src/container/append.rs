//! Blobs that grow at their end.

use bytes::Bytes;

use super::{Absent, Change, Container, NewBlob, StagedBlocks};
use crate::conditions::{Conditions, Version};
use crate::content::{Block, Piece};
use crate::disk::Health;
use crate::error::BlobError;
use crate::now::Now;
use crate::properties::BlobForm;

/// Bytes to be appended.
#[derive(Clone, Debug)]
pub struct AppendRequest {
    /// The bytes.
    pub content: Bytes,
    /// Where the blob must end before it.
    pub position: Option<u64>,
    /// How long the blob may become.
    pub maximum_length: Option<u64>,
    /// Upon which conditions.
    pub conditions: Conditions,
}

/// What appending came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Appended {
    /// The version with the bytes in it.
    pub version: Version,
    /// Where they begin.
    pub offset: u64,
    /// How many blocks were appended by now.
    pub blocks: u32,
}

impl Container {
    /// Appends to an append blob.
    ///
    /// # Errors
    /// There is no such blob, it is none that grows, a condition does not hold, or there is no room. The blob is as it
    /// was then.
    pub fn append(&self, name: &str, request: AppendRequest, now: Now) -> Result<Appended, BlobError> {
        self.change(name, Absent::Refused, |change| {
            let BlobForm::Append { blocks: before } = change.existing()?.form else {
                return Err(BlobError::InvalidBlobType);
            };
            let current = change.changeable(&request.conditions, now)?.clone();
            let offset = current.length;
            let length = offset + request.content.len() as u64;
            if request.position.is_some_and(|position| position != offset) {
                return Err(BlobError::AppendPosition);
            }
            if request.maximum_length.is_some_and(|maximum| length > maximum) {
                return Err(BlobError::MaximumSize);
            }
            if before as usize >= self.shared.limits.blocks {
                return Err(BlobError::TooManyBlocks);
            }
            let new = NewBlob {
                form: BlobForm::Append { blocks: before + 1 },
                description: current.description.clone(),
                blocks: longer(change, &current.blocks, request.content, now)?,
                staged: StagedBlocks::Kept,
            };
            let published = change.publish(new, now)?;
            Ok(Appended { version: published.version, offset, blocks: before + 1 })
        })
    }
}

/// The blocks of the blob with `content` at their end. In a file the content goes after what counts of it so far, so that an
/// attempt that failed is written over.
fn longer(change: &Change<'_>, blocks: &[Block], content: Bytes, now: Now) -> Result<Vec<Block>, BlobError> {
    let mut blocks = blocks.to_vec();
    if let Some(last) = blocks.last_mut()
        && let Piece::File(file) = &last.piece
    {
        // What is appended could not be read. That the file is sound is not asked for, which would read all of it.
        if file.health() == Health::Damaged {
            return Err(BlobError::Damaged);
        }
        file.write_at(last.length, &content)?;
        last.length += content.len() as u64;
        last.crc = crc32c::crc32c_append(last.crc, &content);
    } else if !content.is_empty() {
        blocks.push(change.keep(content, None, now)?);
    }
    Ok(blocks)
}
