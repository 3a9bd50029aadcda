//! Containers that were found in a data directory.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::SystemTime;

use super::{Blob, Container, NewProperties, Shared, SnapshotTime, lock, write};
use crate::content::{Block, Piece};
use crate::disk::{FoundContainer, RecoveredBlob};
use crate::error::BlobError;
use crate::limits::ENTRY_BYTES;
use crate::properties::{BlobForm, BlobKind, Description, Metadata, from_unix_s, version};
use crate::public_access::ContainerAccess;

impl Container {
    /// The container that was found.
    ///
    /// # Errors
    /// Its descriptions don't fit into memory, or one that is missing can't be written.
    pub(crate) fn load(found: FoundContainer, shared: Arc<Shared>) -> Result<Self, BlobError> {
        let seen = |etag| shared.last_etag.fetch_max(etag, Ordering::Relaxed);
        for RecoveredBlob { kept, .. } in &found.blobs {
            seen(kept.etag);
            kept.blocks.iter().for_each(|block| {
                seen(block.written);
            });
        }
        let properties = match found.kept {
            Some(kept) => {
                seen(kept.etag);
                NewProperties {
                    version: version(kept.etag, kept.modified_unix_s),
                    metadata: kept.metadata,
                    lease: kept.lease,
                    access: kept.access,
                }
            }
            None => {
                let made_anew = NewProperties {
                    version: shared.next_version(SystemTime::now().into()),
                    metadata: Metadata::new(),
                    lease: None,
                    access: ContainerAccess::default(),
                };
                found.folder.write_container(&made_anew.kept())?;
                found.folder.sync_names()?;
                made_anew
            }
        };
        let container = Self::new(found.name, properties, Arc::clone(&shared), Some(found.folder))?;
        for blob in found.blobs {
            let name = blob.kept.name.clone();
            let blob = Arc::new(container.loaded(blob)?);
            if let Some(time) = blob.snapshot {
                shared.last_etag.fetch_max(time.0, Ordering::Relaxed);
            }
            let slot = container.slot(&name, super::Absent::Made)?;
            match blob.snapshot {
                Some(time) => drop(write(&slot.snapshots).insert(time, blob)),
                None => *write(&slot.visible) = Some(blob),
            }
        }
        for (name, head, piece) in found.staged {
            let slot = container.slot(&name, super::Absent::Made)?;
            let block = Block {
                id: head.id.clone(),
                length: head.length,
                crc: head.crc,
                piece: Piece::File(piece),
                written: 0,
            };
            let mut staged = lock(&slot.staged);
            let staged_at = from_unix_s(head.staged_unix_s);
            staged.since = Some(staged.since.map_or(staged_at, |since| since.min(staged_at)));
            // The earlier one was about to go when the process ended.
            if let Some(Block { piece: Piece::File(earlier), .. }) = staged.blocks.insert(head.id, block) {
                earlier.condemn();
            }
            slot.note_staged(&staged);
        }
        Ok(container)
    }

    fn loaded(&self, blob: RecoveredBlob) -> Result<Blob, BlobError> {
        let RecoveredBlob { number, kept, pieces } = blob;
        let description = Description {
            headers: kept.headers,
            metadata: kept.metadata,
            tags: kept.tags,
            tier: kept.tier,
            copy: kept.copy,
        };
        let blocks: Vec<Block> = kept
            .blocks
            .into_iter()
            .zip(pieces)
            .map(|(block, piece)| Block {
                id: block.id,
                length: block.length,
                crc: block.crc,
                piece: piece.map_or(Piece::Hole, Piece::File),
                written: block.written,
            })
            .collect();
        let bytes = ENTRY_BYTES
            + kept.name.len() as u64
            + description.bytes()
            + blocks.len() as u64 * size_of::<Block>() as u64;
        Ok(Blob {
            number,
            form: match kept.kind {
                BlobKind::Block => BlobForm::Block,
                BlobKind::Append => BlobForm::Append { blocks: kept.appended_blocks },
                BlobKind::Page => BlobForm::Page { sequence_number: kept.sequence_number },
            },
            version: version(kept.etag, kept.modified_unix_s),
            created_at: from_unix_s(kept.created_unix_s),
            description,
            length: blocks.iter().map(|block| block.length).sum(),
            staged_after: kept.staged_after,
            lease: kept.lease,
            snapshot: kept.snapshot.map(SnapshotTime),
            blocks,
            _charge: self.shared.budget.charge(bytes)?,
        })
    }
}
