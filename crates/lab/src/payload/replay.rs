//! Real data as load: the events of an NDJSON file, one JSON value per line.
//!
//! Each line is checked to be one JSON value and kept byte for byte as it stands in the file (without
//! its line end). Blank lines are skipped. The events are sent in turn, from the first again after
//! the last.

use std::{
    io::{self, BufRead as _, BufReader, Read as _},
    path::{Path, PathBuf},
};

use serde::de::IgnoredAny;

/// The events of a replay file, in memory.
#[derive(Debug, Clone)]
pub struct Replay {
    /// All events, one after the other.
    bytes: Box<[u8]>,
    /// Where each event ends in `bytes`.
    ends: Box<[u32]>,
    longest: LongestLine,
}

/// The longest event of a replay file.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct LongestLine {
    /// Its line, from 1.
    pub line: u64,
    /// Its bytes.
    pub bytes: usize,
}

impl Replay {
    /// Reads the events of the file at `path`.
    ///
    /// # Errors
    /// [`ReplayError`] when the file can't be read, is larger than 256 MiB, holds no
    /// event, or has a line that is not one JSON value.
    pub fn open(path: &Path) -> Result<Self, ReplayError> {
        let unreadable = |source| ReplayError::Unreadable { path: path.to_owned(), source };
        let file = std::fs::File::open(path).map_err(unreadable)?;
        // One byte more than allowed tells a file at the limit from one that exceeds it.
        let mut reader = BufReader::new(file.take(MAXIMUM_FILE_BYTES + 1));
        let mut read = 0_u64;
        let mut bytes = Vec::new();
        let mut ends = Vec::new();
        let mut line = Vec::new();
        let mut longest = LongestLine::default();
        for number in 1_u64.. {
            line.clear();
            let length = reader.read_until(b'\n', &mut line).map_err(unreadable)?;
            if length == 0 {
                break;
            }
            read += length as u64;
            if read > MAXIMUM_FILE_BYTES {
                return Err(ReplayError::TooLarge { path: path.to_owned() });
            }
            let value = line.trim_ascii();
            if value.is_empty() {
                continue;
            }
            serde_json::from_slice::<IgnoredAny>(value).map_err(|source| ReplayError::NotJson {
                path: path.to_owned(),
                line: number,
                source,
            })?;
            if value.len() > longest.bytes {
                longest = LongestLine { line: number, bytes: value.len() };
            }
            bytes.extend_from_slice(value);
            ends.push(u32::try_from(bytes.len()).expect("the file's limit is below 4 GiB"));
        }
        if ends.is_empty() {
            return Err(ReplayError::Empty { path: path.to_owned() });
        }
        Ok(Self { bytes: bytes.into(), ends: ends.into(), longest })
    }

    /// How many events the file holds.
    #[must_use]
    pub const fn count(&self) -> usize {
        self.ends.len()
    }

    /// The longest event.
    #[must_use]
    pub const fn longest(&self) -> LongestLine {
        self.longest
    }

    /// The payload of event `number`, which may exceed [`Self::count`]: the file starts again.
    #[must_use]
    pub fn payload(&self, number: u64) -> &[u8] {
        let index = (number % self.ends.len() as u64) as usize;
        let start = index.checked_sub(1).map_or(0, |before| self.ends[before]);
        &self.bytes[start as usize..self.ends[index] as usize]
    }
}

/// Why a file can't be replayed.
#[derive(Debug, thiserror::Error)]
pub enum ReplayError {
    /// The file can't be opened or read.
    #[error("cannot read {path}")]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The file is larger than the lab keeps in memory.
    #[error("{path} is larger than {MAXIMUM_FILE_BYTES} bytes, the most that is replayed from memory")]
    TooLarge {
        /// The file.
        path: PathBuf,
    },
    /// A line is not exactly one JSON value.
    #[error("{path}, line {line}: not one JSON value")]
    NotJson {
        /// The file.
        path: PathBuf,
        /// The line, from 1.
        line: u64,
        /// What is wrong with it.
        source: serde_json::Error,
    },
    /// There is nothing to send.
    #[error("{path} holds no event: one JSON value per line is expected")]
    Empty {
        /// The file.
        path: PathBuf,
    },
}

/// The largest file that is replayed: it stays in the load role's memory for the whole run.
pub(super) const MAXIMUM_FILE_BYTES: u64 = 256 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    fn file_with(text: &[u8]) -> tempfile::NamedTempFile {
        let file = tempfile::NamedTempFile::new().expect("a temporary file");
        std::fs::write(file.path(), text).expect("it can be written");
        file
    }

    #[test]
    fn events_are_kept_verbatim_and_start_again_after_the_last() {
        let file = file_with(b"{\"a\" : 1}\r\n\n  [1,  2]\n\"\xc3\xa9\"");
        let replay = Replay::open(file.path()).expect("three events");
        assert_eq!(replay.count(), 3);
        assert_eq!(replay.longest(), LongestLine { line: 1, bytes: 9 });
        let texts: Vec<_> = (0..5).map(|number| replay.payload(number)).collect();
        let expected: [&[u8]; 5] =
            [b"{\"a\" : 1}", b"[1,  2]", "\"é\"".as_bytes(), b"{\"a\" : 1}", b"[1,  2]"];
        assert_eq!(texts, expected);
    }

    #[test]
    fn a_line_that_is_not_one_value_is_refused_with_its_number() {
        for text in [&b"1\n\n{\n"[..], b"1\n2\n3 4\n", b"1\n2\n\xff\n"] {
            let file = file_with(text);
            let error = Replay::open(file.path()).expect_err("a broken third line");
            assert!(matches!(error, ReplayError::NotJson { line: 3, .. }), "{error}");
        }
    }

    #[test]
    fn a_file_without_events_and_a_missing_one_are_refused() {
        let file = file_with(b"\n \n");
        assert!(matches!(Replay::open(file.path()), Err(ReplayError::Empty { .. })));
        assert!(matches!(Replay::open(Path::new("/nonexistent")), Err(ReplayError::Unreadable { .. })));
    }
}
