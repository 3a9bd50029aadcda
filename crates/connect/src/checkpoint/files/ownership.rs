//! Ownership of partitions in files.
//!
//! A claim looks and then writes, so all claims of all processes take turns through one lock. The file itself is
//! replaced by renaming, so those who only read never see half of one and need no lock.

use std::fs::{File, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use super::{Folder, file_error, names, partition_files};
use crate::checkpoint::{ConsumerGroup, ETag, Ownership, StoreError};
use crate::event::PartitionId;

impl Folder {
    pub(super) fn list_ownership(
        &self,
        group: &ConsumerGroup,
    ) -> Result<Vec<Ownership>, StoreError> {
        partition_files(&self.group_folder(group).join(OWNERSHIP_FOLDER))?
            .into_iter()
            .filter_map(|(partition, path)| read(group, partition, &path).transpose())
            .collect()
    }

    pub(super) fn claim_ownership(
        &self,
        claims: Vec<Ownership>,
    ) -> Result<Vec<Ownership>, StoreError> {
        let lock = self.open_lock()?;
        lock.lock()
            .map_err(|source| file_error("lock", &self.lock_path(), source))?;
        // Closing the file gives the lock back, as does the end of the process.
        claims
            .into_iter()
            .filter_map(|claim| self.claim(claim).transpose())
            .collect()
    }

    fn claim(&self, claim: Ownership) -> Result<Option<Ownership>, StoreError> {
        let folder = self.group_folder(&claim.group).join(OWNERSHIP_FOLDER);
        let path = folder.join(claim.partition.to_string());
        let current = read(&claim.group, claim.partition, &path)?;
        let current_etag = current.and_then(|current| current.etag);
        if claim.etag != current_etag {
            return Ok(None);
        }
        std::fs::create_dir_all(&folder).map_err(|source| file_error("create", &folder, source))?;
        let since_epoch = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .unwrap_or_default();
        let modified_ms = since_epoch.as_millis();
        let etag = next_etag(current_etag.as_ref(), since_epoch);
        let text = format!(
            "owner_id={}\netag={}\nlast_modified_ms={modified_ms}\n",
            names::word(&claim.owner_id),
            names::word(&etag.0)
        );
        // The lock is held, so nobody else writes the same temporary file; one left behind by a crash is overwritten.
        let temporary = folder.join(format!(".{}", claim.partition));
        std::fs::write(&temporary, text)
            .map_err(|source| file_error("write", &temporary, source))?;
        std::fs::rename(&temporary, &path)
            .map_err(|source| file_error("replace", &path, source))?;
        let last_modified = u64::try_from(modified_ms).ok().and_then(at_unix_ms);
        Ok(Some(Ownership {
            etag: Some(etag),
            last_modified,
            ..claim
        }))
    }

    pub(super) fn open_lock(&self) -> Result<File, StoreError> {
        let path = self.lock_path();
        let lock = OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(false)
            .open(&path);
        lock.map_err(|source| file_error("write", &path, source))
    }

    fn lock_path(&self) -> PathBuf {
        self.path.join(".lock")
    }
}

fn read(
    group: &ConsumerGroup,
    partition: PartitionId,
    path: &Path,
) -> Result<Option<Ownership>, StoreError> {
    let text = match std::fs::read_to_string(path) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(source) => return Err(file_error("read", path, source)),
    };
    let damaged = |reason| StoreError::Damaged {
        path: path.to_owned(),
        reason,
    };
    let mut ownership = Ownership {
        group: group.clone(),
        partition,
        owner_id: String::new(),
        etag: None,
        last_modified: None,
    };
    for line in text.lines() {
        let (field, value) = line
            .split_once('=')
            .ok_or_else(|| damaged("a line is not `field=value`"))?;
        let value = names::text(value).ok_or_else(|| damaged("a value is not UTF-8"))?;
        match field {
            "owner_id" => ownership.owner_id = value,
            "etag" => ownership.etag = Some(ETag(value)),
            "last_modified_ms" => ownership.last_modified = value.parse().ok().and_then(at_unix_ms),
            _ => return Err(damaged("a field is not known")),
        }
    }
    if ownership.etag.is_none() || ownership.last_modified.is_none() {
        return Err(damaged("the ETag or the time is missing"));
    }
    Ok(Some(ownership))
}

/// An ETag that the partition never had before: the time, or one more than the last where the clock stands or went back.
fn next_etag(current: Option<&ETag>, since_epoch: Duration) -> ETag {
    let last = current.and_then(|etag| u128::from_str_radix(etag.0.strip_prefix("0x")?, 16).ok());
    let next = last
        .map_or(0, |last| last.saturating_add(1))
        .max(since_epoch.as_nanos());
    ETag(format!("0x{next:X}"))
}

fn at_unix_ms(unix_ms: u64) -> Option<SystemTime> {
    UNIX_EPOCH.checked_add(Duration::from_millis(unix_ms))
}

/// As in the blob layout of the official SDKs.
const OWNERSHIP_FOLDER: &str = "ownership";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_etag_is_new_even_if_the_clock_goes_back() {
        let first = next_etag(None, Duration::from_nanos(0x10));
        let second = next_etag(Some(&first), Duration::from_nanos(0x05));
        let third = next_etag(Some(&second), Duration::from_nanos(0x11));
        let later = next_etag(Some(&third), Duration::from_nanos(0x1000));
        assert_eq!(
            [first.0, second.0, third.0, later.0],
            ["0x10", "0x11", "0x12", "0x1000"]
        );
    }
}
