//! Files of a partition that come one after the other, so that processes can take turns without a lock.
//!
//! ```text
//!   7          the first version for partition 7
//!   7.1  7.2   its successors; the highest is the one that counts, those below are removed by its maker
//! ```
//!
//! A version is made whole under a hidden name and then given its own name by a hard link, which fails where the name is
//! taken: of those who saw version 4 exactly one makes version 5. Whoever is paused in the middle keeps nobody waiting,
//! as it would with a lock in its hands, and when it goes on it finds that the name is taken or that there is a higher one.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::io;
use std::path::{Path, PathBuf};
use std::process;
use std::sync::atomic::{AtomicU64, Ordering};

use super::durability::Sync;
use super::{durability, file_error};
use crate::checkpoint::StoreError;
use crate::event::PartitionId;

/// What a folder has for one partition.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Versions {
    /// The highest version, if there is any.
    pub(super) newest: Option<u64>,
    /// What the maker of the next version removes: lower versions, and hidden files of makers that were interrupted.
    remains: Vec<PathBuf>,
}

/// All versions in a folder, in the order of the partitions; none if there is no folder. Files with other names are left
/// alone.
pub(super) fn of_folder(folder: &Path) -> Result<BTreeMap<PartitionId, Versions>, StoreError> {
    let mut partitions = BTreeMap::<PartitionId, Versions>::new();
    let entries = match std::fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(partitions),
        Err(source) => return Err(file_error("read", folder, source)),
    };
    for entry in entries {
        let entry = entry.map_err(|source| file_error("read", folder, source))?;
        match parse(&entry.file_name()) {
            Some((partition, Some(version))) => {
                let versions = partitions.entry(partition).or_default();
                let older = match versions.newest {
                    Some(newest) if newest > version => Some(version),
                    newest => {
                        versions.newest = Some(version);
                        newest
                    }
                };
                let older = older.map(|older| path(folder, partition, older));
                versions.remains.extend(older);
            }
            Some((partition, None)) => {
                let versions = partitions.entry(partition).or_default();
                versions.remains.push(entry.path());
            }
            None => {}
        }
    }
    Ok(partitions)
}

/// Where a version is.
pub(super) fn path(folder: &Path, partition: PartitionId, version: u64) -> PathBuf {
    folder.join(match version {
        0 => partition.to_string(),
        version => format!("{partition}.{version}"),
    })
}

/// Reads the newest version with `read`, which gives nothing where there is no such file. The version that was seen may
/// have been replaced since; then there is a higher one.
pub(super) fn read_newest<T>(
    folder: &Path,
    partition: PartitionId,
    seen: u64,
    mut read: impl FnMut(&Path) -> Result<Option<T>, StoreError>,
) -> Result<(u64, T), StoreError> {
    for version in (seen..=u64::MAX).take(REPLACED_MAX) {
        if let Some(content) = read(&path(folder, partition, version))? {
            return Ok((version, content));
        }
    }
    Err(StoreError::Unavailable {
        reason: format!("the file of partition {partition} is replaced faster than it can be read"),
    })
}

/// Makes the version after those that were `seen`, with this content, and returns which it is; nothing if another process was
/// faster, or if what the content follows from does not hold any more. That is asked last, since writing the content may
/// take as long as the disk likes. That the version has become the highest is for [`is_newest`] to say.
pub(super) fn make_next(
    folder: &Path,
    partition: PartitionId,
    seen: Option<&Versions>,
    content: &[u8],
    sync: Sync,
    still_holds: impl FnOnce() -> Result<bool, StoreError>,
) -> Result<Option<u64>, StoreError> {
    let next = seen.and_then(|seen| seen.newest).map_or(0, |newest| newest.saturating_add(1));
    let number = MADE.fetch_add(1, Ordering::Relaxed);
    let hidden = folder.join(format!(".{partition}.{}-{number}", process::id()));
    durability::write_new(&hidden, content, sync)?;
    let path = path(folder, partition, next);
    let holds = still_holds();
    if !matches!(holds, Ok(true)) {
        let _ = std::fs::remove_file(&hidden);
        return holds.map(|_| None);
    }
    let linked = std::fs::hard_link(&hidden, &path);
    // It may have been taken for the remains of one that was interrupted.
    let _ = std::fs::remove_file(&hidden);
    match linked {
        Ok(()) => Ok(Some(next)),
        Err(error) if matches!(error.kind(), io::ErrorKind::AlreadyExists | io::ErrorKind::NotFound) => {
            Ok(None)
        }
        Err(source) => Err(file_error("write", &path, source)),
    }
}

/// Whether the version just made is the highest by now. If not, others had gone past it before it was made, and it is
/// removed.
pub(super) fn is_newest(
    folder: &Path,
    partition: PartitionId,
    version: u64,
    now: &BTreeMap<PartitionId, Versions>,
) -> bool {
    let newest = now.get(&partition).and_then(|versions| versions.newest);
    if newest == Some(version) {
        return true;
    }
    let _ = std::fs::remove_file(path(folder, partition, version));
    false
}

/// Removes what the maker of a version had found before it.
pub(super) fn remove_remains(seen: &Versions, folder: &Path, partition: PartitionId) {
    let newest = seen.newest.map(|newest| path(folder, partition, newest));
    for path in seen.remains.iter().chain(&newest) {
        // Whatever stays is below the highest version, and is tried again by the maker of the next.
        let _ = std::fs::remove_file(path);
    }
}

/// Partition and version of a name; no version for a hidden file.
fn parse(name: &OsStr) -> Option<(PartitionId, Option<u64>)> {
    let name = name.to_str()?;
    let partition = |text: &str| {
        let id: u32 = text.parse().ok()?;
        // One name per partition: neither `+7` nor `07`.
        (id.to_string() == text).then_some(PartitionId(id))
    };
    if let Some(hidden) = name.strip_prefix('.') {
        return Some((partition(hidden.split_once('.')?.0)?, None));
    }
    match name.split_once('.') {
        None => Some((partition(name)?, Some(0))),
        Some((id, version)) => Some((partition(id)?, Some(version.parse().ok()?))),
    }
}

/// How often a file may be replaced between the reading of its folder and its own.
const REPLACED_MAX: usize = 100;

/// Numbers the hidden files of this process.
static MADE: AtomicU64 = AtomicU64::new(0);

#[cfg(test)]
mod tests {
    use super::*;

    const PARTITION: PartitionId = PartitionId(7);

    fn names(folder: &Path) -> Vec<String> {
        let entries = std::fs::read_dir(folder).expect("a folder");
        let mut names: Vec<_> = entries
            .map(|entry| entry.expect("an entry").file_name())
            .map(|name| name.into_string().expect("text"))
            .collect();
        names.sort_unstable();
        names
    }

    #[test]
    fn of_two_that_saw_the_same_version_one_makes_the_next() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let folder = folder.path();
        let make = |seen: &BTreeMap<PartitionId, Versions>, content: &[u8]| {
            make_next(folder, PARTITION, seen.get(&PARTITION), content, Sync::Later, || Ok(true))
                .expect("written")
        };
        let nothing = of_folder(folder).expect("read");
        assert_eq!(make(&nothing, b"a"), Some(0));
        assert_eq!(make(&nothing, b"b"), None);
        let first = of_folder(folder).expect("read");
        assert_eq!(make(&first, b"c"), Some(1));
        assert_eq!(make(&first, b"d"), None);
        remove_remains(&first[&PARTITION], folder, PARTITION);
        assert_eq!(names(folder), ["7.1"]);
        assert_eq!(std::fs::read(path(folder, PARTITION, 1)).expect("read"), b"c");
    }

    #[test]
    fn who_was_paused_while_others_went_two_versions_ahead_finds_out() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let folder = folder.path();
        std::fs::write(folder.join("7"), "").expect("written");
        let paused = of_folder(folder).expect("read");
        for _ in 0..2 {
            let seen = of_folder(folder).expect("read");
            make_next(folder, PARTITION, seen.get(&PARTITION), b"new", Sync::Later, || Ok(true))
                .expect("written")
                .expect("no other store has it");
            remove_remains(&seen[&PARTITION], folder, PARTITION);
        }
        let version = make_next(folder, PARTITION, paused.get(&PARTITION), b"old", Sync::Later, || Ok(true))
            .expect("written")
            .expect("the name is free again");
        let now = of_folder(folder).expect("read");
        assert!(!is_newest(folder, PARTITION, version, &now));
        assert_eq!(names(folder), ["7.2"]);
    }

    #[test]
    fn other_names_are_left_alone() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let folder = folder.path();
        for name in ["README", "07", "+7", "7.x", "7.1.2", ".hidden", ".7"] {
            std::fs::write(folder.join(name), "").expect("written");
        }
        assert_eq!(of_folder(folder).expect("read"), BTreeMap::new());
        std::fs::write(folder.join("7.3"), "").expect("written");
        std::fs::write(folder.join(".7.123-4"), "interrupted").expect("written");
        let seen = of_folder(folder).expect("read");
        assert_eq!(seen[&PARTITION].newest, Some(3));
        assert_eq!(seen[&PARTITION].remains, [folder.join(".7.123-4")]);
    }
}
