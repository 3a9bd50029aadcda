//! What durable logs do with files, behind traits, so that tests can put faults in between.

use super::sidecar::BootId;
use crate::{durable_file, owner_only};
use std::ffi::OsString;
use std::fmt;
use std::fs::{self, File};
use std::io;
use std::path::Path;
use std::sync::Arc;

/// Operations on paths. Called by the committer's threads, and while logs are opened.
pub trait DiskFiles: fmt::Debug + Send + Sync {
    /// The names in a directory, in no particular order.
    fn list(&self, directory: &Path) -> io::Result<Vec<OsString>>;

    /// Makes a directory whose parent exists. It is no error if it exists itself.
    fn create_directory(&self, directory: &Path) -> io::Result<()>;

    /// Brings the entries of a directory to the device, as they were made and removed.
    fn sync_directory(&self, directory: &Path) -> io::Result<()>;

    /// Brings everything that was written to the file system of `directory` to the device.
    fn sync_file_system(&self, directory: &Path) -> io::Result<()>;

    /// The file system of `directory`, where syncing all of it says as much as syncing each file does: that what was
    /// written is with the device, or that some of it is not. `None` elsewhere.
    fn file_system(&self, directory: &Path) -> Option<Arc<dyn FileSystem>>;

    /// Opens a file.
    fn open(&self, path: &Path, access: Access) -> io::Result<Arc<dyn DiskFile>>;

    /// How many bytes a file has.
    fn length(&self, path: &Path) -> io::Result<u64>;

    /// Removes a file. Whoever has it open may go on.
    fn remove(&self, path: &Path) -> io::Result<()>;

    /// The run of the system that keeps what was written and not synced, if runs can be told apart.
    fn boot_id(&self) -> Option<BootId>;
}

/// Operations on an open file.
pub trait DiskFile: fmt::Debug + Send + Sync {
    /// Reads up to `bytes.len()` bytes at `position`; 0 at the end of the file.
    fn read_at(&self, bytes: &mut [u8], position: u64) -> io::Result<usize>;

    /// Writes the beginning of `bytes` at `position` and says how many that were.
    fn write_at(&self, bytes: &[u8], position: u64) -> io::Result<usize>;

    /// Cuts the file to `length` bytes.
    fn truncate(&self, length: u64) -> io::Result<()>;

    /// Brings what was written to the device, and so much about the file as is needed to read it again.
    fn sync(&self) -> io::Result<()>;
}

/// A file system in use.
pub trait FileSystem: fmt::Debug + Send + Sync {
    /// Brings everything that was written to it to the device. Fails if any of it did not get there since this was opened
    /// or last called.
    fn sync(&self) -> io::Result<()>;
}

/// What a file is opened for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Reading; it must exist.
    Read,
    /// Reading and writing; made if it does not exist, and otherwise left as it is.
    Write,
}

/// The files of the operating system.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemFiles;

#[derive(Debug)]
struct SystemFile(File);

impl DiskFiles for SystemFiles {
    fn list(&self, directory: &Path) -> io::Result<Vec<OsString>> {
        fs::read_dir(directory)?.map(|entry| entry.map(|entry| entry.file_name())).collect()
    }

    fn create_directory(&self, directory: &Path) -> io::Result<()> {
        match owner_only::create_directory(directory) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
            result => result,
        }
    }

    fn sync_directory(&self, directory: &Path) -> io::Result<()> {
        durable_file::sync_folder(directory)
    }

    #[cfg(target_os = "linux")]
    fn sync_file_system(&self, directory: &Path) -> io::Result<()> {
        Ok(rustix::fs::syncfs(File::open(directory)?)?)
    }

    #[cfg(not(target_os = "linux"))]
    fn sync_file_system(&self, _directory: &Path) -> io::Result<()> {
        rustix::fs::sync();
        Ok(())
    }

    #[cfg(target_os = "linux")]
    fn file_system(&self, directory: &Path) -> Option<Arc<dyn FileSystem>> {
        let directory = File::open(directory).ok()?;
        let kind = u64::try_from(rustix::fs::fstatfs(&directory).ok()?.f_type).ok()?;
        let release = rustix::system::uname();
        let reports = reports_lost_writes(release.release().to_str().ok()?);
        (JOURNALING.contains(&kind) && reports)
            .then(|| Arc::new(LinuxFileSystem(directory)) as Arc<dyn FileSystem>)
    }

    #[cfg(not(target_os = "linux"))]
    fn file_system(&self, _directory: &Path) -> Option<Arc<dyn FileSystem>> {
        None
    }

    fn open(&self, path: &Path, access: Access) -> io::Result<Arc<dyn DiskFile>> {
        let mut options = owner_only::options();
        options.read(true);
        if access == Access::Write {
            options.write(true).create(true).truncate(false);
        }
        Ok(Arc::new(SystemFile(options.open(path)?)))
    }

    fn length(&self, path: &Path) -> io::Result<u64> {
        Ok(fs::metadata(path)?.len())
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        fs::remove_file(path)
    }

    fn boot_id(&self) -> Option<BootId> {
        BootId::parse(&fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?)
    }
}

impl DiskFile for SystemFile {
    fn read_at(&self, bytes: &mut [u8], position: u64) -> io::Result<usize> {
        std::os::unix::fs::FileExt::read_at(&self.0, bytes, position)
    }

    fn write_at(&self, bytes: &[u8], position: u64) -> io::Result<usize> {
        std::os::unix::fs::FileExt::write_at(&self.0, bytes, position)
    }

    fn truncate(&self, length: u64) -> io::Result<()> {
        self.0.set_len(length)
    }

    fn sync(&self) -> io::Result<()> {
        self.0.sync_data()
    }
}

/// By a directory in it, open all the time: the system notes for it which errors it has been told of.
#[cfg(target_os = "linux")]
#[derive(Debug)]
struct LinuxFileSystem(File);

#[cfg(target_os = "linux")]
impl FileSystem for LinuxFileSystem {
    fn sync(&self) -> io::Result<()> {
        Ok(rustix::fs::syncfs(&self.0)?)
    }
}

/// Whether this release of Linux has `syncfs` tell of pages that were lost (5.8) and of a journal that failed (5.17).
#[cfg(target_os = "linux")]
fn reports_lost_writes(release: &str) -> bool {
    let mut numbers = release.split(['.', '-']).map_while(|part| part.parse::<u32>().ok());
    let version = (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0));
    version >= (5, 17)
}

/// File systems of local devices: `ext4` (and its forebears), `xfs`, `btrfs`, `f2fs`. Of others it is not certain what `syncfs`
/// waits for.
#[cfg(target_os = "linux")]
const JOURNALING: [u64; 4] = [0xEF53, 0x5846_5342, 0x9123_683E, 0xF2F5_2010];

/// Reads until `bytes` is full or the file ends; how many bytes that were.
pub(super) fn read_fully(file: &dyn DiskFile, bytes: &mut [u8], position: u64) -> io::Result<usize> {
    let mut done = 0;
    while done < bytes.len() {
        match file.read_at(&mut bytes[done..], position + done as u64) {
            Ok(0) => break,
            Ok(count) => done += count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(done)
}

/// Writes all of `bytes`.
pub(super) fn write_fully(file: &dyn DiskFile, bytes: &[u8], position: u64) -> io::Result<()> {
    let mut done = 0;
    while done < bytes.len() {
        match file.write_at(&bytes[done..], position + done as u64) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(count) => done += count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}
