//! Ownership of partitions in files.
//!
//! Each claim that is won is a new version of its file (see [`versions`]): made as a whole, never changed. So those who
//! only read never see half of one, and those who claim need no lock.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use super::durability::Sync;
use super::{Folder, durability, file_error, names, versions};
use crate::checkpoint::{Claimed, ConsumerGroup, ETag, FailedClaim, Ownership, StoreError};
use crate::event::PartitionId;

/// The versions in one folder as they were before the claims, or after them.
type Seen = BTreeMap<PathBuf, BTreeMap<PartitionId, versions::Versions>>;

impl Folder {
    pub(super) fn list_ownership(&self, group: &ConsumerGroup) -> Result<Vec<Ownership>, StoreError> {
        let folder = self.ownership_folder(group);
        let mut listed = Vec::new();
        for (partition, versions) in versions::of_folder(&folder)? {
            let Some(version) = versions.newest else {
                continue;
            };
            let read = |path: &Path| read(group, partition, path);
            let (_, ownership) = versions::read_newest(&folder, partition, version, read)?;
            listed.push(ownership);
        }
        Ok(listed)
    }

    pub(super) fn claim_ownership(&self, claims: Vec<Ownership>) -> Result<Claimed, StoreError> {
        let mut before = Seen::new();
        let mut written = Vec::with_capacity(claims.len());
        let mut failed = Vec::new();
        for claim in claims {
            let folder = self.ownership_folder(&claim.group);
            let seen = match before.entry(folder.clone()) {
                Entry::Occupied(entry) => entry.into_mut(),
                Entry::Vacant(entry) => {
                    durability::make_folder(&folder)?;
                    entry.insert(versions::of_folder(&folder)?)
                }
            };
            let partition = claim.partition;
            match write(&folder, seen.get(&partition), claim) {
                Ok(made) => written.extend(made.map(|(version, ownership)| (folder, version, ownership))),
                Err(error) => failed.push(FailedClaim { partition, error }),
            }
        }
        let mut after = Seen::new();
        for folder in before.keys() {
            after.insert(folder.clone(), versions::of_folder(folder)?);
        }
        let mut won = Vec::with_capacity(written.len());
        for (folder, version, ownership) in written {
            let partition = ownership.partition;
            if !versions::is_newest(&folder, partition, version, &after[&folder]) {
                continue;
            }
            if let Some(seen) = before[&folder].get(&partition) {
                versions::remove_remains(seen, &folder, partition);
            }
            won.push(ownership);
        }
        Ok(Claimed { written: won, failed })
    }

    fn ownership_folder(&self, group: &ConsumerGroup) -> PathBuf {
        self.group_folder(group).join(OWNERSHIP_FOLDER)
    }
}

/// Makes the next version, if the newest is the one that the claim is about.
fn write(
    folder: &Path,
    seen: Option<&versions::Versions>,
    claim: Ownership,
) -> Result<Option<(u64, Ownership)>, StoreError> {
    let current = match seen.and_then(|seen| seen.newest) {
        None => None,
        Some(version) => {
            let path = versions::path(folder, claim.partition, version);
            match read(&claim.group, claim.partition, &path)? {
                Some(current) => current.etag,
                // Replaced since it was seen.
                None => return Ok(None),
            }
        }
    };
    if claim.etag != current {
        return Ok(None);
    }
    let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let modified_ms = since_epoch.as_millis();
    let etag = next_etag(current.as_ref(), since_epoch);
    let text = format!(
        "owner_id={}\netag={}\nlast_modified_ms={modified_ms}\nyields={}\nasked_by={}\n",
        names::word(&claim.owner_id),
        names::word(&etag.0),
        claim.yields,
        names::word(claim.asked_by.as_deref().unwrap_or_default()),
    );
    // No claim outlives a power cut: the processes that share the folder do not either.
    let made = versions::make_next(folder, claim.partition, seen, text.as_bytes(), Sync::Later, || Ok(true))?;
    let last_modified = u64::try_from(modified_ms).ok().and_then(at_unix_ms);
    Ok(made.map(|version| {
        let ownership = Ownership { etag: Some(etag), last_modified, ..claim };
        (version, ownership)
    }))
}

/// One version; nothing if it has been removed, which means that there is a newer one.
fn read(group: &ConsumerGroup, partition: PartitionId, path: &Path) -> Result<Option<Ownership>, StoreError> {
    let text = match std::fs::read_to_string(path) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(source) => return Err(file_error("read", path, source)),
    };
    let damaged = |reason| StoreError::Damaged { path: path.to_owned(), reason };
    let mut ownership = Ownership::new(group.clone(), partition, String::new());
    if text.is_empty() {
        // A power cut took what the system had not written yet, and its owner with it.
        ownership.etag = Some(ETag(String::new()));
        ownership.last_modified = Some(UNIX_EPOCH);
        return Ok(Some(ownership));
    }
    for line in text.lines() {
        let (field, value) = line.split_once('=').ok_or_else(|| damaged("a line is not `field=value`"))?;
        let value = names::text(value).ok_or_else(|| damaged("a value is not UTF-8"))?;
        match field {
            "owner_id" => ownership.owner_id = value,
            "etag" => ownership.etag = Some(ETag(value)),
            "last_modified_ms" => ownership.last_modified = value.parse().ok().and_then(at_unix_ms),
            "yields" => ownership.yields = value == "true",
            "asked_by" => ownership.asked_by = Some(value).filter(|identity| !identity.is_empty()),
            _ => return Err(damaged("a field is unknown")),
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
    let next = last.map_or(0, |last| last.saturating_add(1)).max(since_epoch.as_nanos());
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
        assert_eq!([first.0, second.0, third.0, later.0], ["0x10", "0x11", "0x12", "0x1000"]);
    }
}
