//! What the files look like.
//!
//! ```text
//!  blob/
//!    account.json         what is set for the whole account
//!    OPEN                 there while a process has the account open: what is found beside it is read with suspicion
//!    orders/              a container
//!      container.json     when it was made, and its metadata
//!      7.blob             a blob: name, headers, metadata, and of which pieces it consists
//!      6.piece            the bytes of a blob, or of a block that is not committed yet
//!      8.copy             another name of a piece, for a copy of its blob
//! ```
//!
//! Every description is one line of JSON after its CRC-32C in hexadecimal digits. In a piece the content follows the line.
//! A file gets its name when it is complete; before, it ends with `.new`.

use std::fs::File;
use std::io::{self, BufRead as _, BufReader, Read as _};
use std::path::Path;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::piece::PieceName;
use crate::lease::Lease;
use crate::properties::{BlobKind, ContentHeaders, CopyState, Metadata, TierSetting};
use crate::public_access::ContainerAccess;
use crate::tags::Tags;

/// `container.json`
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct KeptContainer {
    pub(crate) etag: u64,
    pub(crate) modified_unix_s: u64,
    pub(crate) metadata: Metadata,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) lease: Option<Lease>,
    #[serde(default, skip_serializing_if = "ContainerAccess::is_none")]
    pub(crate) access: ContainerAccess,
}

/// `<number>.blob`
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct KeptBlob {
    pub(crate) name: String,
    pub(crate) kind: BlobKind,
    pub(crate) etag: u64,
    pub(crate) created_unix_s: u64,
    pub(crate) modified_unix_s: u64,
    pub(crate) headers: ContentHeaders,
    pub(crate) metadata: Metadata,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) tags: Tags,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) tier: Option<TierSetting>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) copy: Option<CopyState>,
    /// Blocks appended.
    pub(crate) appended_blocks: u32,
    #[serde(default, skip_serializing_if = "is_zero")]
    pub(crate) sequence_number: u64,
    /// Uncommitted blocks in pieces up to this number are void.
    pub(crate) staged_after: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) lease: Option<Lease>,
    /// The time of the snapshot that it is, if it is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) snapshot: Option<u64>,
    pub(crate) blocks: Vec<KeptBlock>,
}

/// A block of a blob.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct KeptBlock {
    pub(crate) id: String,
    pub(crate) length: u64,
    pub(crate) crc: u32,
    /// The number of the piece; 0 for a hole.
    piece: u64,
    /// Whether the piece is another name of that of another blob.
    #[serde(default, skip_serializing_if = "is_false")]
    is_copy: bool,
    /// Number of the version that wrote an extent of a page blob.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub(crate) written: u64,
}

/// The storage of the bytes of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum KeptPlace {
    Piece(PieceName),
    /// None: all bytes are zero.
    Hole,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes references")]
const fn is_false(flag: &bool) -> bool {
    !*flag
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes references")]
const fn is_zero(number: &u64) -> bool {
    *number == 0
}

impl KeptBlock {
    pub(crate) fn new(id: String, length: u64, crc: u32, place: KeptPlace, written: u64) -> Self {
        let (piece, is_copy) = match place {
            KeptPlace::Piece(name) => (name.number, name.is_copy),
            KeptPlace::Hole => (0, false),
        };
        Self { id, length, crc, piece, is_copy, written }
    }

    /// Returns the storage of the bytes. No piece has the number 0.
    pub(crate) const fn place(&self) -> KeptPlace {
        match self.piece {
            0 => KeptPlace::Hole,
            number => KeptPlace::Piece(PieceName { number, is_copy: self.is_copy }),
        }
    }
}

/// The line at the beginning of a piece.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct PieceHead {
    /// The blob.
    pub(crate) blob: String,
    /// The block that this is and that waits to be committed, if it is one.
    pub(crate) block: Option<StagedHead>,
}

/// A block that waits to be committed.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct StagedHead {
    pub(crate) id: String,
    pub(crate) length: u64,
    pub(crate) crc: u32,
    /// When it came; 0 in files of versions that did not keep it.
    #[serde(default)]
    pub(crate) staged_unix_s: u64,
}

/// The line of a description, with the line feed at its end.
pub(super) fn line(description: &impl Serialize) -> io::Result<Vec<u8>> {
    let json = serde_json::to_vec(description)?;
    let mut line = format!("{:08x} ", crc32c::crc32c(&json)).into_bytes();
    line.extend_from_slice(&json);
    line.push(b'\n');
    Ok(line)
}

/// Reads the line at the beginning of a file: what it describes, and how many bytes it has.
pub(super) fn read_line<T: DeserializeOwned>(path: &Path) -> io::Result<(T, u64)> {
    let mut line = Vec::new();
    BufReader::new(File::open(path)?.take(LONGEST_LINE)).read_until(b'\n', &mut line)?;
    let damaged = |what| io::Error::new(io::ErrorKind::InvalidData, what);
    let json = line.strip_suffix(b"\n").ok_or_else(|| damaged("its first line is truncated"))?;
    let (crc, json) = json.split_at_checked(9).ok_or_else(|| damaged("its first line is too short"))?;
    let crc = str::from_utf8(crc)
        .ok()
        .and_then(|text| u32::from_str_radix(text.trim_end(), 16).ok())
        .ok_or_else(|| damaged("its first line has no checksum"))?;
    if crc != crc32c::crc32c(json) {
        return Err(damaged("the checksum of its first line does not match"));
    }
    Ok((serde_json::from_slice(json)?, line.len() as u64))
}

/// 50,000 blocks with the longest ids, and then some.
const LONGEST_LINE: u64 = 32 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_comes_back_and_is_refused_when_cut_or_changed_anywhere() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("x");
        let head = PieceHead { blob: "a\nb".to_owned(), block: None };
        let mut bytes = line(&head).unwrap();
        bytes.extend_from_slice(b"content");
        std::fs::write(&path, &bytes).unwrap();
        let (read, length): (PieceHead, u64) = read_line(&path).unwrap();
        assert_eq!(read.blob, "a\nb");
        assert_eq!(&bytes[length as usize..], b"content");
        for cut in 0..length as usize {
            std::fs::write(&path, &bytes[..cut]).unwrap();
            assert!(read_line::<PieceHead>(&path).is_err(), "cut at {cut}");
        }
        for position in 0..length as usize {
            let mut changed = bytes.clone();
            changed[position] ^= 0x04;
            std::fs::write(&path, &changed).unwrap();
            if let Ok((read, _)) = read_line::<PieceHead>(&path) {
                assert_eq!(read.blob, "a\nb", "changed at {position}");
            }
        }
    }
}
