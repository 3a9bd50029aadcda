//! The directory of one partition: what is in it, and what can be wrong with it.
//!
//! ```text
//!  00000000000000000000.log      a segment: its batches as they are in memory; the name is its first sequence number
//!  00000000000000000000.index    its sidecar
//!  00000000000000048211.log      the next segment
//! ```
//!
//! When retention has taken everything, an empty segment file remains, whose name is the next sequence number.

use super::committer::Committer;
use crate::recovery::TornTail;
use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Where a durable log is kept, and who writes it.
#[derive(Clone, Debug)]
pub struct PartitionDirectory {
    /// The directory. It is made at the first append; its parent must exist then.
    pub path: PathBuf,
    /// Whether it is there now.
    pub presence: Presence,
    /// The service's committer.
    pub committer: Arc<Committer>,
}

/// What the listing of the parent directory said.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Presence {
    /// There is a directory to be recovered.
    Present,
    /// There is none, so that opening touches no file.
    Absent,
}

/// Why a log can't be opened. Nothing was changed.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// A file operation failed.
    #[error("{}: {error}", path.display())]
    Io {
        /// What was worked on.
        path: PathBuf,
        /// What the system said.
        error: io::Error,
    },
    /// A newer program wrote here.
    #[error("{}: written by a newer version (form {version}); this program would damage it", path.display())]
    NewerVersion {
        /// The segment or sidecar.
        path: PathBuf,
        /// The form it says it has.
        version: u32,
    },
    /// There are records of a form that this program can't read.
    #[error(
        "{}: holds records of format {format}, which this version does not support; nothing was changed: \
         use the version that wrote them",
        path.display()
    )]
    UnknownFormat {
        /// The segment.
        path: PathBuf,
        /// What the batch says.
        format: u8,
    },
    /// A sidecar is there, and its segment is not.
    #[error(
        "{}: this file is missing{}; nothing was changed: restore it, or create an empty file of that name \
         to continue without its content",
        path.display(), named(events.as_ref())
    )]
    MissingSegment {
        /// The segment.
        path: PathBuf,
        /// The sequence numbers of the events that were in it, if the sidecar can be read.
        events: Option<Range<u64>>,
    },
    /// A segment is not where it must be.
    #[error("{}: events from {expected} to before {found} are missing or duplicated: a segment file was removed, renamed or added", path.display())]
    Missing {
        /// The directory.
        path: PathBuf,
        /// The sequence number that had to come next.
        expected: u64,
        /// The first one of the next segment.
        found: u64,
    },
}

/// A segment whose bytes on disk are not what was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("segment {segment:020} is damaged at byte {position}: {cause}")]
pub struct Damage {
    /// The first sequence number of the segment, which is its file's name.
    pub segment: u64,
    /// Where in the file the damage was met.
    pub position: u64,
    /// What is wrong there.
    pub cause: DamageCause,
}

/// What is wrong with a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DamageCause {
    /// What is there is not the batch that was written.
    #[error(transparent)]
    Batch(TornTail),
    /// The file ends there, or goes on beyond its end.
    #[error("the file does not have the recorded length")]
    Length,
    /// The system can't read it. Another attempt may succeed.
    #[error("it can't be read: {0}")]
    Read(io::ErrorKind),
}

impl OpenError {
    pub(super) fn io(path: &Path) -> impl FnOnce(io::Error) -> Self {
        move |error| Self::Io { path: path.to_owned(), error }
    }
}

fn named(events: Option<&Range<u64>>) -> String {
    match events {
        Some(events) if !events.is_empty() => {
            format!(", with the events from {} to before {}, as its sidecar says", events.start, events.end)
        }
        _ => ", but its sidecar exists".to_owned(),
    }
}

/// The segment file that begins with this number.
pub(super) fn segment_path(directory: &Path, first_sequence_number: u64) -> PathBuf {
    directory.join(format!("{first_sequence_number:020}.{SEGMENT}"))
}

/// The sidecar of the segment that begins with this number.
pub(super) fn sidecar_path(directory: &Path, first_sequence_number: u64) -> PathBuf {
    directory.join(format!("{first_sequence_number:020}.{SIDECAR}"))
}

/// What a name in the directory stands for; `None` for what is not ours.
pub(super) fn parse_name(name: &str) -> Option<(u64, Kind)> {
    let (number, extension) = name.split_once('.')?;
    let kind = match extension {
        SEGMENT => Kind::Segment,
        SIDECAR => Kind::Sidecar,
        _ => return None,
    };
    let is_number = number.len() == 20 && number.bytes().all(|byte| byte.is_ascii_digit());
    Some((is_number.then(|| number.parse().ok())??, kind))
}

/// A kind of file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Segment,
    Sidecar,
}

const SEGMENT: &str = "log";
const SIDECAR: &str = "index";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_as_they_are_made_and_nothing_else_is() {
        let directory = Path::new("/d");
        for number in [0, 42, u64::MAX] {
            for (path, kind) in [
                (segment_path(directory, number), Kind::Segment),
                (sidecar_path(directory, number), Kind::Sidecar),
            ] {
                let name = path.file_name().unwrap().to_str().unwrap();
                assert_eq!(parse_name(name), Some((number, kind)));
            }
        }
        for name in [
            "",
            "0.log",
            "00000000000000000000.tmp",
            "00000000000000000000",
            "99999999999999999999.log",
            "+0000000000000000000.log",
        ] {
            assert_eq!(parse_name(name), None, "{name}");
        }
    }
}
