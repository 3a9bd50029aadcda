//! The file that says where a log starts since records were deleted from its beginning.
//!
//! ```text
//!  start    one line: "start 48211"
//! ```
//!
//! Deletion reaches into segments, and those are never changed, so the number is kept apart. Retention needs no such file: it takes
//! whole segments. The file is replaced as a whole and synced before anyone hears of the deletion, whatever the policy says,
//! and is there only if records were ever deleted. Programs that do not know it show what is still in the first segment again.

use crate::durable_file::{self, ReplaceError};
use std::fs;
use std::io;
use std::path::Path;

/// The number that the log in `directory` starts with; `None` if no records were deleted.
pub(super) fn read_start(directory: &Path) -> io::Result<Option<u64>> {
    let text = match fs::read_to_string(directory.join(FILE)) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        text => text?,
    };
    let number = text.strip_prefix(MARK).and_then(|number| number.strip_suffix('\n')?.parse().ok());
    number
        .map(Some)
        .ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, "the file `start` says no number"))
}

/// Makes the log in `directory` start with this number from now on.
pub(crate) fn write_start(directory: &Path, number: u64) -> Result<(), ReplaceError> {
    durable_file::replace(&directory.join(FILE), format!("{MARK}{number}\n").as_bytes())
}

const FILE: &str = "start";
const MARK: &str = "start ";
