//! The bytes of a blob: pieces in memory or in files, and how they are read.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;

use super::budget::Charge;
use super::disk::PieceFile;
use super::error::BlobError;

/// A block of a blob. A blob that was put as a whole has one, without an id; so has an append blob in a file.
#[derive(Clone, Debug)]
pub(super) struct Block {
    /// As its writer spells it, in base64.
    pub(super) id: String,
    pub(super) length: u64,
    /// CRC-32C of the content; 0 in memory.
    pub(super) crc: u32,
    pub(super) piece: Piece,
}

/// Where bytes are.
#[derive(Clone, Debug)]
pub(super) enum Piece {
    Memory(
        Bytes,
        #[expect(dead_code, reason = "held for its drop")] Arc<Charge>,
    ),
    File(Arc<PieceFile>),
}

/// Reads a range of a blob as it was when the reader was made, whatever happens to the blob meanwhile.
#[derive(Debug)]
pub struct ContentReader {
    /// What is still to be read of each piece.
    parts: VecDeque<(Piece, Range<u64>)>,
}

impl ContentReader {
    /// A reader of `range` of what `blocks` are together.
    pub(super) fn new(blocks: &[Block], range: Range<u64>) -> Self {
        let mut parts = VecDeque::new();
        let mut start = 0;
        for block in blocks {
            let end = start + block.length;
            let wanted = range.start.max(start)..range.end.min(end);
            if wanted.start < wanted.end {
                let part = wanted.start - start..wanted.end - start;
                parts.push_back((block.piece.clone(), part));
            }
            start = end;
        }
        Self { parts }
    }

    /// Whether everything that is still to be read is in memory, so that reading waits for nothing.
    #[must_use]
    pub fn is_in_memory(&self) -> bool {
        self.parts
            .iter()
            .all(|(piece, _)| matches!(piece, Piece::Memory(..)))
    }

    /// The next bytes, at most `most` of them; `None` at the end. May wait for the disk.
    ///
    /// # Errors
    /// The disk does not give what it should have.
    pub fn next_chunk(&mut self, most: usize) -> Result<Option<Bytes>, BlobError> {
        let Some((piece, range)) = self.parts.front_mut() else {
            return Ok(None);
        };
        let end = range.end.min(range.start.saturating_add(most as u64));
        let chunk = match piece {
            Piece::Memory(bytes, _) => bytes.slice(range.start as usize..end as usize),
            Piece::File(file) => file.read(range.start..end)?,
        };
        range.start = end;
        if range.is_empty() {
            self.parts.pop_front();
        }
        Ok(Some(chunk))
    }
}
