//! Page blobs: random access in pages of 512 bytes.
//!
//! A page blob is a sequence of extents: immutable contents, like those of blocks, and holes, which read as zeros. A write replaces the
//! extents that it covers. It cuts an extent that it covers in part, and merges with a small extent beside it, so that many small
//! writes do not create many contents. Each change is one new description, as with blocks, and a snapshot shares its contents with
//! the blob.
//!
//! Each extent has the number of the version that wrote it. Snapshots are numbered in the same sequence, so the pages that differ
//! from a snapshot are those with a higher number.

use std::ops::Range;

use bytes::{Bytes, BytesMut};

use super::{Absent, Blob, Change, Container, NewBlob, SnapshotTime, StagedBlocks, read};
use crate::conditions::{Conditions, Version};
use crate::content::{Block, ContentReader, Piece};
use crate::error::BlobError;
use crate::now::Now;
use crate::properties::{BlobForm, ContentHeaders};

/// A write to pages, or their clearing.
#[derive(Clone, Debug)]
pub struct PageRequest {
    /// The byte range of the pages.
    pub range: Range<u64>,
    /// The new content of the pages.
    pub change: PageChange,
    /// Conditions on the sequence number of the blob.
    pub sequence: SequenceConditions,
    /// Conditions on version, lease and tags of the blob.
    pub conditions: Conditions,
}

/// The new content of pages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PageChange {
    /// These bytes, as many as the range has.
    Update(Bytes),
    /// Zeros, which take no space.
    Clear,
}

/// Conditions on the sequence number of a page blob, all of which must hold.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SequenceConditions {
    /// The highest number that is accepted.
    pub at_most: Option<u64>,
    /// The lowest number that is not accepted.
    pub below: Option<u64>,
    /// The only number that is accepted.
    pub equal: Option<u64>,
}

/// A change of the sequence number of a page blob.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SequenceAction {
    /// Sets this number.
    Update(u64),
    /// Sets this number, unless the present one is higher.
    Maximum(u64),
    /// Adds one.
    Increment,
}

/// Changes to the properties of a blob.
#[derive(Clone, Debug, Default)]
pub struct PropertiesRequest {
    /// The headers that replace all present ones.
    pub headers: Option<ContentHeaders>,
    /// The new length of a page blob. It is truncated, or extended with zeros.
    pub length: Option<u64>,
    /// A change of the sequence number of a page blob.
    pub sequence: Option<SequenceAction>,
}

/// A range of adjacent pages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PageRange {
    /// The byte range of the pages.
    pub range: Range<u64>,
    /// Whether the pages were cleared; otherwise they were written.
    pub is_cleared: bool,
}

impl SequenceConditions {
    fn check(self, number: u64) -> Result<(), BlobError> {
        let is_met = self.at_most.is_none_or(|at_most| number <= at_most)
            && self.below.is_none_or(|below| number < below)
            && self.equal.is_none_or(|equal| number == equal);
        match is_met {
            true => Ok(()),
            false => Err(BlobError::SequenceNumber),
        }
    }
}

impl SequenceAction {
    const fn apply(self, number: u64) -> u64 {
        match self {
            Self::Update(new) => new,
            Self::Maximum(new) if new > number => new,
            Self::Maximum(_) => number,
            Self::Increment => number.saturating_add(1),
        }
    }
}

impl Container {
    /// Writes or clears pages. Returns the new version and the sequence number of the blob.
    ///
    /// # Errors
    /// The blob does not exist, is no page blob or has not all of the pages, a condition does not hold, or there is no space. The
    /// blob is unchanged then.
    pub fn write_pages(
        &self,
        name: &str,
        request: PageRequest,
        now: Now,
    ) -> Result<(Version, u64), BlobError> {
        self.change(name, Absent::Refused, |change| {
            let BlobForm::Page { sequence_number } = change.existing()?.form else {
                return Err(BlobError::InvalidBlobType);
            };
            let current = change.changeable(&request.conditions, now)?.clone();
            request.sequence.check(sequence_number)?;
            let content = match request.change {
                PageChange::Update(content) => Some(content),
                PageChange::Clear => None,
            };
            let is_whole = is_of_pages(&request.range)
                && request.range.end <= current.length
                && content
                    .as_ref()
                    .is_none_or(|content| content.len() as u64 == request.range.end - request.range.start);
            if !is_whole {
                return Err(BlobError::InvalidPageRange);
            }
            let extents = change.spliced(&current.blocks, request.range, content, now)?;
            let new = NewBlob {
                form: current.form,
                description: current.description.clone(),
                blocks: extents,
                staged: StagedBlocks::Kept,
            };
            Ok((change.publish(new, now)?.version, sequence_number))
        })
    }

    /// Sets headers, length and sequence number. Returns the new version, and the sequence number of a page blob.
    ///
    /// # Errors
    /// The blob does not exist, is archived, or is no page blob although a length or sequence number is set; a condition does not
    /// hold, or there is no space.
    pub fn set_properties(
        &self,
        name: &str,
        request: PropertiesRequest,
        conditions: &Conditions,
        now: Now,
    ) -> Result<(Version, Option<u64>), BlobError> {
        self.change(name, Absent::Refused, |change| {
            let current = change.changeable(conditions, now)?.clone();
            change.check_tier()?;
            let mut new = change.unchanged()?;
            if let Some(headers) = request.headers {
                new.description.headers = headers;
            }
            match &mut new.form {
                BlobForm::Page { sequence_number } => {
                    let action = request.sequence;
                    *sequence_number =
                        action.map_or(*sequence_number, |action| action.apply(*sequence_number));
                    if let Some(length) = request.length {
                        new.blocks = change.resized(&current, length, now)?;
                    }
                }
                BlobForm::Block | BlobForm::Append { .. }
                    if request.length.is_some() || request.sequence.is_some() =>
                {
                    return Err(BlobError::InvalidBlobType);
                }
                BlobForm::Block | BlobForm::Append { .. } => {}
            }
            let published = change.publish(new, now)?;
            Ok((published.version, published.sequence_number()))
        })
    }
}

impl Blob {
    /// Returns the sequence number of a page blob, or `None` for other kinds.
    #[must_use]
    pub const fn sequence_number(&self) -> Option<u64> {
        match self.form {
            BlobForm::Page { sequence_number } => Some(sequence_number),
            BlobForm::Block | BlobForm::Append { .. } => None,
        }
    }

    /// Returns the pages in `part` that are written; with `since`, those that were written or cleared after that snapshot.
    ///
    /// # Errors
    /// The blob is no page blob.
    pub fn page_ranges(
        &self,
        part: Range<u64>,
        since: Option<SnapshotTime>,
    ) -> Result<Vec<PageRange>, BlobError> {
        if self.sequence_number().is_none() {
            return Err(BlobError::InvalidBlobType);
        }
        let mut ranges: Vec<PageRange> = Vec::new();
        let mut start = 0;
        for extent in &self.blocks {
            let end = start + extent.length;
            let range = part.start.max(start)..part.end.min(end);
            start = end;
            let is_cleared = matches!(extent.piece, Piece::Hole);
            let is_told = match since {
                None => !is_cleared,
                Some(time) => extent.written > time.0,
            };
            if range.start >= range.end || !is_told {
                continue;
            }
            match ranges.last_mut() {
                Some(last) if last.range.end == range.start && last.is_cleared == is_cleared => {
                    last.range.end = range.end;
                }
                _ => ranges.push(PageRange { range, is_cleared }),
            }
        }
        Ok(ranges)
    }
}

/// The part of an extent outside of a write.
struct Rest {
    extent: Block,
    part: Range<u64>,
}

impl Rest {
    fn length(&self) -> u64 {
        self.part.end - self.part.start
    }

    fn is_hole(&self) -> bool {
        matches!(self.extent.piece, Piece::Hole)
    }

    fn bytes(&self) -> Result<Bytes, BlobError> {
        ContentReader::new(std::slice::from_ref(&self.extent), self.part.clone()).read_to_end()
    }
}

impl Change<'_> {
    /// Returns the extents of a page blob with `content` in `range`, or a hole there. If it fails, new contents are removed.
    fn spliced(
        &self,
        extents: &[Block],
        range: Range<u64>,
        content: Option<Bytes>,
        now: Now,
    ) -> Result<Vec<Block>, BlobError> {
        let written = self.container.shared.next_version(now).etag.0;
        let (mut before, mut after) = (Vec::with_capacity(extents.len() + 2), Vec::new());
        let (mut left, mut right) = (None, None);
        let mut start = 0;
        for extent in extents {
            let end = start + extent.length;
            if end <= range.start {
                before.push(extent.clone());
            } else if start >= range.end {
                after.push(extent.clone());
            } else {
                if start < range.start {
                    left = Some(Rest { extent: extent.clone(), part: 0..range.start - start });
                }
                if end > range.end {
                    right = Some(Rest { extent: extent.clone(), part: range.end - start..extent.length });
                }
            }
            start = end;
        }
        let whole = |extent: Block| Rest { part: 0..extent.length, extent };
        left = left.or_else(|| before.pop().map(whole));
        if right.is_none() && !after.is_empty() {
            right = Some(whole(after.remove(0)));
        }
        let length = range.end - range.start;
        let is_joined = |rest: &Rest| {
            let is_of_kind = rest.is_hole() == content.is_none();
            let is_small = rest.is_hole() || rest.length() + length <= JOINED_BYTES;
            is_of_kind && is_small && !self.has_snapshot_between(rest.extent.written, written)
        };
        let join =
            |rest: &mut Option<Rest>| if rest.as_ref().is_some_and(is_joined) { rest.take() } else { None };
        let (joined_left, joined_right) = (join(&mut left), join(&mut right));
        let spliced = (|| {
            before.extend(left.map(|rest| self.kept_rest(rest, now)).transpose()?);
            let joined = joined_left.iter().chain(&joined_right).map(Rest::length).sum::<u64>() + length;
            before.push(match &content {
                None => Block::hole(joined, written),
                Some(content) => {
                    let mut bytes = BytesMut::with_capacity(joined as usize);
                    bytes.extend_from_slice(&joined_left.as_ref().map_or(Ok(Bytes::new()), Rest::bytes)?);
                    bytes.extend_from_slice(content);
                    bytes.extend_from_slice(&joined_right.as_ref().map_or(Ok(Bytes::new()), Rest::bytes)?);
                    Block { written, ..self.keep(bytes.freeze(), None, now)? }
                }
            });
            before.extend(right.map(|rest| self.kept_rest(rest, now)).transpose()?);
            before.append(&mut after);
            match before.len() > self.container.shared.limits.extents {
                true => Err(BlobError::TooManyBlocks),
                false => Ok(()),
            }
        })();
        match spliced {
            Ok(()) => Ok(before),
            Err(error) => {
                self.condemn_all_but(&before, self.current.as_deref());
                Err(error)
            }
        }
    }

    /// Returns the extents of a page blob of another length.
    fn resized(&self, current: &Blob, length: u64, now: Now) -> Result<Vec<Block>, BlobError> {
        if !length.is_multiple_of(PAGE_BYTES) || length > PAGE_BLOB_BYTES {
            return Err(BlobError::InvalidPageRange);
        }
        let mut extents = Vec::with_capacity(current.blocks.len() + 1);
        let mut start = 0;
        for extent in &current.blocks {
            let end = start + extent.length;
            if start < length {
                let rest = Rest { extent: extent.clone(), part: 0..end.min(length) - start };
                extents.push(self.kept_rest(rest, now)?);
            }
            start = end;
        }
        if length > start {
            let written = self.container.shared.next_version(now).etag.0;
            extents.push(Block::hole(length - start, written));
        }
        Ok(extents)
    }

    /// Stores the rest of an extent as an extent of its own.
    fn kept_rest(&self, rest: Rest, now: Now) -> Result<Block, BlobError> {
        if rest.length() == rest.extent.length {
            return Ok(rest.extent);
        }
        let written = rest.extent.written;
        match rest.extent.piece {
            Piece::Hole => Ok(Block::hole(rest.length(), written)),
            Piece::Memory(..) | Piece::File(_) => {
                Ok(Block { written, ..self.keep(rest.bytes()?, None, now)? })
            }
        }
    }

    /// Whether a snapshot lies between two writes, so that they differ in comparisons with it.
    fn has_snapshot_between(&self, earlier: u64, later: u64) -> bool {
        let snapshots = read(&self.slot.snapshots);
        snapshots.range(SnapshotTime(earlier)..SnapshotTime(later.max(earlier))).next().is_some()
    }
}

/// Whether a range consists of whole pages, at least one.
#[must_use]
pub const fn is_of_pages(range: &Range<u64>) -> bool {
    range.start < range.end && range.start.is_multiple_of(PAGE_BYTES) && range.end.is_multiple_of(PAGE_BYTES)
}

/// Bytes of a page.
pub const PAGE_BYTES: u64 = 512;

/// Maximum length of a page blob, in bytes, as in the service.
pub const PAGE_BLOB_BYTES: u64 = 8 << 40;

/// Maximum size of an extent and a write that are merged, in bytes. It bounds the bytes that a write of one page copies.
const JOINED_BYTES: u64 = 64 * 1024;
