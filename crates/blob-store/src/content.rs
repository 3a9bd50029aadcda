//! The bytes of a blob: pieces in memory or in files, and how they are read.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;

use bytes::{Bytes, BytesMut};

use super::budget::Charge;
use super::disk::{Health, PieceFile};
use super::error::BlobError;

/// A block of a blob. A blob that was put as a whole has one, without an id; so has an append blob in a file. A page blob has one for each
/// of its extents.
#[derive(Clone, Debug)]
pub(super) struct Block {
    /// As its writer spells it, in base64.
    pub(super) id: String,
    pub(super) length: u64,
    /// CRC-32C of the content; 0 in memory.
    pub(super) crc: u32,
    pub(super) piece: Piece,
    /// Number of the version that wrote an extent of a page blob; 0 for other blobs.
    pub(super) written: u64,
}

/// Where bytes are.
#[derive(Clone, Debug)]
pub(super) enum Piece {
    Memory(Bytes, #[expect(dead_code, reason = "held for its drop")] Arc<Charge>),
    File(Arc<PieceFile>),
    /// Nowhere: all bytes are zero.
    Hole,
}

/// Reads a range of a blob as it was when the reader was made, whatever happens to the blob meanwhile.
///
/// Nothing is given of a content on the disk whose checksum is wrong. The checksum is of a whole block, so the first read of
/// any part of a block that an earlier process wrote reads all of it.
#[derive(Debug)]
pub struct ContentReader {
    /// What is still to be read of each piece.
    parts: VecDeque<Part>,
}

/// What is to be read of one block.
#[derive(Debug)]
struct Part {
    block: Block,
    range: Range<u64>,
    /// The checksum of what has been read, if the part is the whole block.
    read: Option<u32>,
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
                let is_whole = part == (0..block.length);
                parts.push_back(Part { block: block.clone(), range: part, read: is_whole.then_some(0) });
            }
            start = end;
        }
        Self { parts }
    }

    /// Whether the [next bytes](Self::next_chunk) are in memory, so that reading them waits for nothing.
    #[must_use]
    pub fn has_next_in_memory(&self) -> bool {
        self.parts.front().is_none_or(|part| !matches!(part.block.piece, Piece::File(_)))
    }

    /// Whether [`check`](Self::check) would have nothing to do.
    #[must_use]
    pub fn is_checked(&self) -> bool {
        self.parts.iter().all(|part| match &part.block.piece {
            Piece::Memory(..) | Piece::Hole => true,
            Piece::File(file) => file.health() == Health::Sound,
        })
    }

    /// Compares everything of which a part is to be read with its checksum, unless that was done since the start. May wait
    /// for the disk, and for long if the blob is large.
    ///
    /// # Errors
    /// Something is damaged, or the disk does not give it.
    pub fn check(&self) -> Result<(), BlobError> {
        self.parts.iter().try_for_each(|part| part.block.check())
    }

    /// Reads all that is left. May wait for the disk. Allocates as much as is read, unless it is one piece in memory.
    ///
    /// # Errors
    /// As [`next_chunk`](Self::next_chunk).
    pub fn read_to_end(mut self) -> Result<Bytes, BlobError> {
        let length: u64 = self.parts.iter().map(|part| part.range.end - part.range.start).sum();
        let mut bytes = BytesMut::new();
        while let Some(chunk) = self.next_chunk(usize::MAX)? {
            if chunk.len() as u64 == length {
                return Ok(chunk);
            }
            bytes.reserve(length as usize - bytes.len());
            bytes.extend_from_slice(&chunk);
        }
        Ok(bytes.freeze())
    }

    /// The next bytes, at most `most` of them; `None` at the end. May wait for the disk.
    ///
    /// # Errors
    /// The disk does not give what it should have, or what it gives is damaged.
    pub fn next_chunk(&mut self, most: usize) -> Result<Option<Bytes>, BlobError> {
        let Some(part) = self.parts.front_mut() else {
            return Ok(None);
        };
        let range = part.range.start..part.range.end.min(part.range.start.saturating_add(most as u64));
        part.block.check()?;
        let chunk = match &part.block.piece {
            Piece::Memory(bytes, _) => bytes.slice(range.start as usize..range.end as usize),
            Piece::Hole => {
                Bytes::from_static(&ZEROS[..(range.end - range.start).min(ZEROS.len() as u64) as usize])
            }
            Piece::File(file) => {
                let chunk = file.read(range.clone())?;
                part.read = part.read.map(|crc| crc32c::crc32c_append(crc, &chunk));
                let is_last = range.end == part.range.end;
                // Changed on the disk since it was checked.
                if is_last && part.read.is_some_and(|crc| crc != part.block.crc) {
                    file.set_damaged();
                    return Err(BlobError::Damaged);
                }
                chunk
            }
        };
        part.range.start += chunk.len() as u64;
        if part.range.is_empty() {
            self.parts.pop_front();
        }
        Ok(Some(chunk))
    }
}

impl Block {
    /// Creates an extent of a page blob that was never written, or was cleared.
    pub(super) const fn hole(length: u64, written: u64) -> Self {
        Self { id: String::new(), length, crc: 0, piece: Piece::Hole, written }
    }

    /// Compares it with its checksum, unless that was done since the start.
    ///
    /// # Errors
    /// It is damaged, or the disk does not give it.
    pub(super) fn check(&self) -> Result<(), BlobError> {
        match &self.piece {
            Piece::Memory(..) | Piece::Hole => Ok(()),
            Piece::File(file) => file.check(self.length, self.crc),
        }
    }
}

/// The content of holes. A longer hole is read in chunks of this size.
static ZEROS: [u8; 64 * 1024] = [0; 64 * 1024];
