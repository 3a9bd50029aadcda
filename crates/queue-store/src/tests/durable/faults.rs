//! A disk that is full: nothing is acknowledged, nothing is lost, and afterwards everything goes on.

use super::*;
use partition_log::disk::sidecar::BootId;
use partition_log::disk::{Access, DiskFile, FileSystem, Unavailable};
use std::ffi::OsString;
use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

/// The system's files, on a disk that can be full.
#[derive(Clone, Debug, Default)]
struct FullDisk {
    is_full: Arc<AtomicBool>,
}

#[derive(Debug)]
struct FileOnFullDisk {
    file: Arc<dyn DiskFile>,
    is_full: Arc<AtomicBool>,
}

impl DiskFiles for FullDisk {
    fn list(&self, directory: &Path) -> io::Result<Vec<OsString>> {
        SystemFiles.list(directory)
    }

    fn create_directory(&self, directory: &Path) -> io::Result<()> {
        SystemFiles.create_directory(directory)
    }

    fn sync_directory(&self, directory: &Path) -> io::Result<()> {
        SystemFiles.sync_directory(directory)
    }

    fn sync_file_system(&self, directory: &Path) -> io::Result<()> {
        SystemFiles.sync_file_system(directory)
    }

    fn file_system(&self, _directory: &Path) -> Option<Arc<dyn FileSystem>> {
        None
    }

    fn open(&self, path: &Path, access: Access) -> io::Result<Arc<dyn DiskFile>> {
        Ok(Arc::new(FileOnFullDisk {
            file: SystemFiles.open(path, access)?,
            is_full: Arc::clone(&self.is_full),
        }))
    }

    fn length(&self, path: &Path) -> io::Result<u64> {
        SystemFiles.length(path)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        SystemFiles.remove(path)
    }

    fn boot_id(&self) -> Option<BootId> {
        SystemFiles.boot_id()
    }
}

impl DiskFile for FileOnFullDisk {
    fn read_at(&self, bytes: &mut [u8], position: u64) -> io::Result<usize> {
        self.file.read_at(bytes, position)
    }

    fn write_at(&self, bytes: &[u8], position: u64) -> io::Result<usize> {
        match self.is_full.load(Ordering::SeqCst) {
            true => Err(io::ErrorKind::StorageFull.into()),
            false => self.file.write_at(bytes, position),
        }
    }

    fn truncate(&self, length: u64) -> io::Result<()> {
        self.file.truncate(length)
    }

    fn sync(&self) -> io::Result<()> {
        self.file.sync()
    }
}

#[test]
fn a_full_disk_refuses_everything_until_there_is_room_and_loses_nothing() {
    let files = FullDisk::default();
    let disk = Disk::with(Arc::new(files.clone()));
    let running = disk.start();
    let queue = running.queue("orders", QueueOptions::default());
    send(&queue, 0, &["a", "b"]);
    let received = receive(&queue, 0, 1);
    running.safe(&queue);
    files.is_full.store(true, Ordering::SeqCst);
    let unknown = send_with(&queue, 0, &["c"], |message| message).unwrap();
    assert_eq!(running.outcome(unknown.commit), CommitState::Failed);
    let full = QueueError::Unavailable(Unavailable::DiskFull);
    let refused = send_with(&queue, 0, &["d"], |message| message);
    assert_eq!(refused, Err(full));
    let refused = queue.settle(at(0), &tokens(&received), &Settlement::Complete);
    assert_eq!(refused, Err(full));
    let plain = request(ReceiveMode::PeekLock, 1);
    let refused = queue.receive(at(0), &plain, &mut Deliveries::new());
    assert_eq!(refused, Err(full));
    // Time stands still for it meanwhile, and it is looked at again.
    let again = running.store.advance(at(2 * LOCK));
    assert_eq!(again, Some(at(2 * LOCK + 1_000)));
    files.is_full.store(false, Ordering::SeqCst);
    // The committer tries again by itself.
    while queue.receive(at(0), &plain, &mut Deliveries::new()).is_err() {
        thread::yield_now();
    }
    drop(queue);
    running.close();
    let running = disk.start();
    let queue = running.queue("orders", QueueOptions::default());
    assert_eq!(texts(&seen(&peek(&queue, 0))), ["a", "b", "c"]);
    assert_eq!(seen(&peek(&queue, 0))[0].count, 1, "its lock has expired");
}
