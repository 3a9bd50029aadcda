//! Snapshots: blobs as they were at a moment, which can be read and deleted and do not change.
//!
//! A snapshot has a description and pieces of its own, like a copy, and shares the content with its blob. It is named by its time, and
//! lasts until it is deleted by itself or with its blob, whatever is written in the place of the blob.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, UNIX_EPOCH};

use units::date::{iso_date, parse_iso_date};

use super::copy::linked;
use super::{Absent, Blob, Container, TICKS_TO_1970, read, write};
use crate::conditions::{Conditions, Version};
use crate::error::BlobError;
use crate::lease::{self, Leased};
use crate::limits::ENTRY_BYTES;
use crate::now::Now;
use crate::properties::{AccessTier, BlobKind, Description, Metadata, TierSetting};

/// The time of a snapshot, which tells it from the others of its blob.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SnapshotTime(pub(crate) u64);

/// Snapshots that are deleted with a blob.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DeletedSnapshots {
    /// None. A blob that has some stays.
    #[default]
    None,
    /// All of them.
    Included,
    /// All of them, and the blob stays.
    Only,
}

impl SnapshotTime {
    /// Parses a time as it stands in the query of an URL, such as `2026-11-30T22:59:02.1234567Z`.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let (seconds, fraction) = text.strip_suffix('Z')?.split_once('.')?;
        let is_fraction = fraction.len() == DIGITS && fraction.bytes().all(|byte| byte.is_ascii_digit());
        let fraction: u64 = fraction.parse().ok().filter(|_| is_fraction)?;
        let since = parse_iso_date(&format!("{seconds}Z"))?.duration_since(UNIX_EPOCH).ok()?;
        Some(Self(TICKS_TO_1970 + since.as_secs() * TICKS_PER_SECOND + fraction))
    }
}

impl fmt::Display for SnapshotTime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ticks = self.0.saturating_sub(TICKS_TO_1970);
        let seconds = iso_date(UNIX_EPOCH + Duration::from_secs(ticks / TICKS_PER_SECOND));
        let fraction = ticks % TICKS_PER_SECOND;
        write!(f, "{}.{fraction:0DIGITS$}Z", seconds.trim_end_matches('Z'))
    }
}

impl Container {
    /// Returns a snapshot of a blob.
    ///
    /// # Errors
    /// There is none of this time.
    pub fn snapshot(&self, name: &str, time: SnapshotTime) -> Result<Arc<Blob>, BlobError> {
        let slot = read(&self.slots).get(name).cloned().ok_or(BlobError::BlobNotFound)?;
        let found = read(&slot.snapshots).get(&time).cloned();
        found.ok_or(BlobError::BlobNotFound)
    }

    /// Makes a snapshot of a blob, with its metadata unless there is other `metadata`. Returns the version of the blob, which stays
    /// as it is.
    ///
    /// # Errors
    /// There is no such blob, a condition does not hold, or there is no room.
    pub fn create_snapshot(
        &self,
        name: &str,
        metadata: Metadata,
        conditions: &Conditions,
        now: Now,
    ) -> Result<(Version, SnapshotTime), BlobError> {
        self.change(name, Absent::Refused, |change| {
            let current = change.existing()?.clone();
            lease::check_read(current.lease.as_ref(), conditions.lease, Leased::Blob, now.lease_time)?;
            conditions.check_tags(&current.description.tags)?;
            conditions.check_change(current.version)?;
            let time = SnapshotTime(self.shared.next_version(now).etag.0);
            let mut blocks = Vec::with_capacity(current.blocks.len());
            let description = match metadata.is_empty() {
                true => current.description.clone(),
                false => Description { metadata, ..current.description.clone() },
            };
            let made = current.blocks.iter().try_for_each(|block| linked(change, block, now, &mut blocks));
            let made = made.and_then(|()| {
                let bytes = ENTRY_BYTES + name.len() as u64 + description.bytes();
                let charge = self.shared.budget.charge(bytes)?;
                let disk = self.folder.as_ref().map(|folder| folder.disk());
                let snapshot = Blob {
                    number: disk.map_or(0, |disk| disk.next_number()),
                    form: current.form,
                    version: current.version,
                    created_at: current.created_at,
                    description,
                    length: current.length,
                    staged_after: 0,
                    lease: None,
                    snapshot: Some(time),
                    blocks: blocks.clone(),
                    _charge: charge,
                };
                if let Some(folder) = &self.folder {
                    folder.write_blob(snapshot.number, &snapshot.kept(name))?;
                }
                Ok(snapshot)
            });
            let snapshot = match made {
                Ok(snapshot) => snapshot,
                Err(error) => {
                    change.condemn_all_but(&blocks, None);
                    return Err(error);
                }
            };
            write(&change.slot.snapshots).insert(time, Arc::new(snapshot));
            change.sync_names()?;
            Ok((current.version, time))
        })
    }

    /// Deletes a snapshot.
    ///
    /// # Errors
    /// There is none of this time, or the disk does not let go of it.
    pub fn delete_snapshot(&self, name: &str, time: SnapshotTime) -> Result<(), BlobError> {
        self.change(name, Absent::Refused, |change| {
            change.remove_snapshot(time)?;
            change.sync_names()
        })
    }

    /// Sets the access tier of a snapshot and returns the previous one.
    ///
    /// # Errors
    /// The snapshot does not exist, is archived or of no block blob, a condition does not hold, or there is no space.
    pub fn set_snapshot_tier(
        &self,
        name: &str,
        time: SnapshotTime,
        tier: AccessTier,
        conditions: &Conditions,
        now: Now,
    ) -> Result<Option<AccessTier>, BlobError> {
        self.change(name, Absent::Refused, |change| {
            let snapshot = self.snapshot(name, time)?;
            snapshot.check_read(conditions, now)?;
            if snapshot.kind() != BlobKind::Block {
                return Err(BlobError::TierOfOtherKind);
            }
            if snapshot.is_archived() {
                return Err(BlobError::Archived);
            }
            let mut description = snapshot.description.clone();
            let before = description.tier.replace(TierSetting::new(tier, now.time_of_day));
            let bytes = ENTRY_BYTES + name.len() as u64 + description.bytes();
            let replaced = Blob {
                description,
                blocks: snapshot.blocks.clone(),
                _charge: self.shared.budget.charge(bytes)?,
                ..*snapshot
            };
            if let Some(folder) = &self.folder {
                folder.write_blob(replaced.number, &replaced.kept(name))?;
            }
            write(&change.slot.snapshots).insert(time, Arc::new(replaced));
            change.sync_names()?;
            Ok(before.map(|before| before.tier))
        })
    }

    /// Whether a blob has snapshots.
    pub(crate) fn has_snapshots(&self, name: &str) -> bool {
        read(&self.slots).get(name).is_some_and(|slot| !read(&slot.snapshots).is_empty())
    }
}

impl super::Change<'_> {
    /// Removes all snapshots, the oldest first.
    pub(super) fn remove_snapshots(&mut self) -> Result<(), BlobError> {
        let times: Vec<SnapshotTime> = read(&self.slot.snapshots).keys().copied().collect();
        times.into_iter().try_for_each(|time| self.remove_snapshot(time))
    }

    fn remove_snapshot(&mut self, time: SnapshotTime) -> Result<(), BlobError> {
        let snapshot = read(&self.slot.snapshots).get(&time).cloned().ok_or(BlobError::BlobNotFound)?;
        if let Some(folder) = self.container.folder() {
            folder.remove_blob(snapshot.number)?;
        }
        write(&self.slot.snapshots).remove(&time);
        self.condemn_all_but(&snapshot.blocks, None);
        Ok(())
    }
}

/// Digits of a fraction of a second.
const DIGITS: usize = 7;

const TICKS_PER_SECOND: u64 = 10_000_000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_come_back_as_text() {
        for ticks in [TICKS_TO_1970, TICKS_TO_1970 + 17_952_130_631_234_567, TICKS_TO_1970 + 1] {
            let time = SnapshotTime(ticks);
            assert_eq!(SnapshotTime::parse(&time.to_string()), Some(time));
        }
        let time = SnapshotTime(TICKS_TO_1970 + 17_952_130_630_000_007);
        assert_eq!(time.to_string(), "2026-11-20T22:17:43.0000007Z");
        for wrong in [
            "",
            "2026-11-20T22:17:43Z",
            "2026-11-20T22:17:43.1Z",
            "2026-11-20T22:17:43.+000007Z",
            "x.0000007Z",
        ] {
            assert_eq!(SnapshotTime::parse(wrong), None, "{wrong}");
        }
    }
}
