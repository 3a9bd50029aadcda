//! What is wrong with a disk, in a form that travels with errors.

use std::io;

/// Why a durable log takes no appends at present. The next successful commit ends it, unless the log is closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unavailable {
    /// No space is left for what was appended before.
    #[error("the disk is full")]
    DiskFull,
    /// The file system takes no writes.
    #[error("the file system is read-only")]
    ReadOnly,
    /// Writing or syncing failed otherwise.
    #[error("the disk refuses writes: {0}")]
    Failed(io::ErrorKind),
    /// The service is stopping, or the log's hub was deleted.
    #[error("the log is closed")]
    Closed,
}

impl Unavailable {
    /// The kind of error that means this.
    pub(super) const fn kind(self) -> io::ErrorKind {
        match self {
            Self::DiskFull => io::ErrorKind::StorageFull,
            Self::ReadOnly => io::ErrorKind::ReadOnlyFilesystem,
            Self::Failed(kind) => kind,
            Self::Closed => io::ErrorKind::BrokenPipe,
        }
    }
}

impl From<&io::Error> for Unavailable {
    fn from(error: &io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => Self::DiskFull,
            io::ErrorKind::ReadOnlyFilesystem => Self::ReadOnly,
            kind => Self::Failed(kind),
        }
    }
}
