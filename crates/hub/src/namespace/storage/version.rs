//! The file VERSION of a data directory: that it is one, and of which form.

use std::fs;
use std::io;
use std::path::Path;

use partition_log::durable_file;

/// Whether the directory says that it is one of ours.
pub(super) fn is_marked(path: &Path) -> io::Result<bool> {
    match fs::read(path.join(VERSION_FILE)) {
        Ok(text) => Ok(text.starts_with(MARK.as_bytes())),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error),
    }
}

/// The version that the directory says it has.
pub(super) fn version(path: &Path) -> io::Result<Option<u32>> {
    match fs::read_to_string(path.join(VERSION_FILE)) {
        Ok(text) => text
            .strip_prefix(MARK)
            .and_then(|number| number.trim().parse().ok())
            .map(Some)
            .ok_or_else(|| io::Error::other(format!("`{}` is not a version", text.trim()))),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

pub(super) fn write_version(path: &Path, version: u32) -> io::Result<()> {
    let text = format!("{MARK}{version}\n");
    Ok(durable_file::replace(&path.join(VERSION_FILE), text.as_bytes())?)
}

/// The newest form of data directories that this program reads.
pub(super) const VERSION: u32 = FIRST_WITH_TOPIC_SETTINGS;

/// From this form on the manifest names queues and topics, and is always there. A new directory has it.
pub(super) const FIRST_WITH_MANIFEST: u32 = 2;

/// From this form on logs may hold batches that bear the stamp of a producer. A directory gets it with the first one.
pub(super) const FIRST_WITH_PRODUCERS: u32 = 3;

/// From this form on logs may hold record batches of Kafka. A directory gets it with the first one.
pub(super) const FIRST_WITH_RECORD_BATCHES: u32 = 4;

/// From this form on there may be a journal of what coordinators of Kafka's groups and transactions decide. Older programs would
/// neither keep to its decisions nor know its offsets. A directory gets it with the first record.
pub(super) const FIRST_WITH_COORDINATORS: u32 = 5;

/// From this form on logs may hold transactions, and may start behind records that were deleted: older programs would show what
/// was aborted, and what was deleted. A directory gets it with the first of either.
pub(super) const FIRST_WITH_TRANSACTIONS: u32 = 5;

/// From this form on there may be a log of what clients did to queues and topics since the manifest was written. Older programs would
/// not know of it. A directory gets it with the first such change.
pub(super) const FIRST_WITH_CHANGES: u32 = 6;

/// From this form on the manifest may have settings that clients have given to hubs. Older programs would delete by other limits. A
/// directory gets it with the first setting.
pub(super) const FIRST_WITH_TOPIC_SETTINGS: u32 = 7;

/// What the file of the version begins with.
const MARK: &str = "parshall data directory, version ";

pub(super) const VERSION_FILE: &str = "VERSION";
pub(super) const NEW_VERSION_FILE: &str = "VERSION.new";
