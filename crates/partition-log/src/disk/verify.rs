//! Reading everything in a data directory and saying what is wrong with it, without changing anything.
//!
//! Only for a directory that no service writes to: a segment that is being written looks torn.

use super::directory::{Kind, parse_name, segment_path, sidecar_path};
use super::files::SystemFiles;
use super::recover::{describe, read_segment, read_sidecar};
use super::sidecar::{Sidecar, SidecarError};
use crate::knowledge::Knowledge;
use crate::recovery::TornTail;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// What was read, and what is wrong with it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Verification {
    /// Segment files read.
    pub segments: u64,
    /// Bytes of whole batches.
    pub bytes: u64,
    /// Records in them.
    pub records: u64,
    /// What is wrong, by file.
    pub problems: Vec<(PathBuf, Problem)>,
}

/// What can be wrong with a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Problem {
    /// The last segment of a partition, which has no sidecar yet, ends in something else than a whole batch: the tail that a
    /// crash leaves.
    #[error("incomplete from byte {position} on ({cause}), as after a crash; the next start cuts it off")]
    TornTail {
        /// Where the last whole batch ends.
        position: u64,
        /// What is wrong there.
        cause: TornTail,
    },
    /// The segment holds something else than batches from `position` on.
    #[error("damaged at byte {position}: {cause}")]
    Batch {
        /// Where the last whole batch ends.
        position: u64,
        /// What is wrong there.
        cause: TornTail,
    },
    /// The segment does not begin where the one before it ends.
    #[error("starts with sequence number {found} instead of {expected}")]
    Gap {
        /// The number after the last one before.
        expected: u64,
        /// The number of the file.
        found: u64,
    },
    /// The sidecar is there, and its segment is not.
    #[error("its segment is missing")]
    MissingSegment,
    /// The sidecar can't be read.
    #[error("not a sidecar: {0}")]
    Sidecar(SidecarError),
    /// The sidecar says something else than the segment.
    #[error("does not describe its segment")]
    Contradiction,
}

impl Problem {
    /// Whether something that was acknowledged may be lost. A crash alone leaves no such problem.
    #[must_use]
    pub const fn is_damage(&self) -> bool {
        match self {
            Self::TornTail { .. } => false,
            Self::Batch { .. }
            | Self::Gap { .. }
            | Self::MissingSegment
            | Self::Sidecar(_)
            | Self::Contradiction => true,
        }
    }
}

/// Reads all segments in `directory` and in the directories in it, at any depth.
///
/// # Errors
/// If something can't be read at all.
pub fn verify(directory: &Path) -> io::Result<Verification> {
    let mut verification = Verification::default();
    let mut directories = vec![directory.to_owned()];
    while let Some(directory) = directories.pop() {
        let (mut segments, mut sidecars) = (Vec::new(), Vec::new());
        for entry in fs::read_dir(&directory)? {
            let entry = entry?;
            if entry.file_type()?.is_dir() {
                directories.push(entry.path());
                continue;
            }
            match entry.file_name().to_str().and_then(parse_name) {
                Some((number, Kind::Segment)) => segments.push(number),
                Some((number, Kind::Sidecar)) => sidecars.push(number),
                None => {}
            }
        }
        segments.sort_unstable();
        sidecars.sort_unstable();
        sidecars.retain(|number| segments.binary_search(number).is_err());
        let orphans = sidecars.iter().map(|number| sidecar_path(&directory, *number));
        let orphans = orphans.map(|path| (path, Problem::MissingSegment));
        verification.problems.extend(orphans);
        verification.add_partition(&directory, &segments)?;
    }
    Ok(verification)
}

impl Verification {
    fn add_partition(&mut self, directory: &Path, segments: &[u64]) -> io::Result<()> {
        let mut expected = segments.first().copied().unwrap_or_default();
        for &number in segments {
            let path = segment_path(directory, number);
            if number != expected {
                let found = number;
                self.problems.push((path.clone(), Problem::Gap { expected, found }));
            }
            let (bytes, file_length) = read_segment(&SystemFiles, &path)?;
            let (found, torn) = describe(&bytes, number, file_length);
            self.segments += 1;
            self.bytes += found.length;
            self.records += found.records();
            expected = found.next_sequence_number;
            let sidecar = sidecar_path(directory, number);
            if let Some(cause) = torn {
                let position = found.length;
                let is_tail = segments.last() == Some(&number) && !sidecar.exists();
                let problem = match is_tail {
                    true => Problem::TornTail { position, cause },
                    false => Problem::Batch { position, cause },
                };
                self.problems.push((path, problem));
            }
            self.add_sidecar(sidecar, &found)?;
        }
        Ok(())
    }

    fn add_sidecar(&mut self, path: PathBuf, found: &Sidecar) -> io::Result<()> {
        let problem = match read_sidecar(&SystemFiles, &path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            Err(error) => return Err(error),
            Ok(Err(error)) => Problem::Sidecar(error),
            // Neither assurance nor what was known matters here, nor do the times of a segment without records. A sidecar of an
            // older version says nothing of timestamps.
            Ok(Ok(sidecar)) => {
                let known = Knowledge::default();
                let mut described = Sidecar { assurance: found.assurance, known, ..sidecar };
                if !described.has_timestamp() {
                    described.latest_timestamp = found.latest_timestamp;
                }
                if described == *found || (found.length == 0 && described.length == 0) {
                    return Ok(());
                }
                Problem::Contradiction
            }
        };
        self.problems.push((path, problem));
        Ok(())
    }
}
