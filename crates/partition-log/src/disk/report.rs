//! What opening durable logs found, for logs and people.

use super::directory::Damage;
use crate::recovery::TornTail;
use std::fmt;
use std::path::PathBuf;
use units::ByteSize;

/// What opening durable logs found. Reports of several partitions can be added up.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RecoveryReport {
    /// Segments that were kept.
    pub segments: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Their records.
    pub records: u64,
    /// Bytes that had to be scanned, because they had no usable sidecar.
    pub scanned_bytes: u64,
    /// Sidecars that were written anew.
    pub rebuilt_sidecars: u64,
    /// What was cut off at the end.
    pub torn: Vec<Torn>,
    /// What is damaged before the end: these events can't be read.
    pub damaged: Vec<(PathBuf, Damage)>,
}

/// The end of a segment file that was cut off.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Torn {
    /// The file; it is gone, if nothing of it was kept.
    pub path: PathBuf,
    /// Where it was cut.
    pub position: u64,
    /// How many bytes went.
    pub bytes: u64,
    /// What was wrong with them.
    pub cause: TornTail,
}

impl RecoveryReport {
    /// Adds what was found elsewhere.
    pub fn add(&mut self, other: Self) {
        self.segments += other.segments;
        self.bytes += other.bytes;
        self.records += other.records;
        self.scanned_bytes += other.scanned_bytes;
        self.rebuilt_sidecars += other.rebuilt_sidecars;
        self.torn.extend(other.torn);
        self.damaged.extend(other.damaged);
    }
}

/// One line: what was kept, and what was not.
impl fmt::Display for RecoveryReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let size = |bytes| ByteSize::from_bytes(bytes).approximate();
        write!(f, "kept {} records in {} segments ({})", self.records, self.segments, size(self.bytes))?;
        if self.scanned_bytes > 0 {
            write!(f, ", scanned {}", size(self.scanned_bytes))?;
        }
        if self.rebuilt_sidecars > 0 {
            write!(f, ", rebuilt {} sidecars", self.rebuilt_sidecars)?;
        }
        for torn in &self.torn {
            write!(
                f,
                ", cut {} bytes off {} at {} ({})",
                torn.bytes,
                torn.path.display(),
                torn.position,
                torn.cause
            )?;
        }
        for (path, damage) in &self.damaged {
            write!(f, ", found {} damaged ({damage})", path.display())?;
        }
        Ok(())
    }
}
