//! A disk that is full, or takes no writes: nothing is acknowledged, nothing is lost, and afterwards everything goes on.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use super::*;
use crate::Metadata;
use crate::disk::BlobFiles;
use partition_log::disk::Unavailable;
use partition_log::durable_file::{FileOperations, Safety, SystemFiles};

/// The system's files until a number of operations has been done; from then on a full disk.
#[derive(Debug)]
struct FullAfter {
    left: Arc<AtomicI64>,
}

impl FullAfter {
    fn spend(&self) -> io::Result<()> {
        match self.left.fetch_sub(1, Ordering::Relaxed) > 0 {
            true => Ok(()),
            false => Err(io::ErrorKind::StorageFull.into()),
        }
    }
}

impl BlobFiles for FullAfter {
    fn link(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.spend()?;
        SystemFiles.link(from, to)
    }

    fn write_at(&self, path: &Path, position: u64, bytes: &[u8], safety: Safety) -> io::Result<()> {
        if let Err(full) = self.spend() {
            SystemFiles.write_at(path, position, &bytes[..bytes.len() / 2], safety)?;
            return Err(full);
        }
        SystemFiles.write_at(path, position, bytes, safety)
    }

    fn exchange(&self, one: &Path, other: &Path) -> io::Result<()> {
        self.spend()?;
        SystemFiles.exchange(one, other)
    }
}

impl FileOperations for FullAfter {
    fn write(&self, path: &Path, parts: &[&[u8]], safety: Safety) -> io::Result<()> {
        if let Err(full) = self.spend() {
            // A part of it fits still.
            SystemFiles.write(path, &[&parts[0][..parts[0].len() / 2]], safety)?;
            return Err(full);
        }
        SystemFiles.write(path, parts, safety)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.spend()?;
        SystemFiles.rename(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        SystemFiles.remove(path)
    }

    fn sync_directory(&self, path: &Path) -> io::Result<()> {
        self.spend()?;
        SystemFiles.sync_directory(path)
    }
}

/// One change of each kind; the first that fails ends it. Returns how many were made before, and its error.
fn changes(container: &Container, marker: &str) -> Result<(), (usize, BlobError)> {
    let metadata: Metadata = vec![("marker".to_owned(), marker.to_owned())];
    container.put("a", put(marker.as_bytes()), now()).map_err(|error| (0, error))?;
    container.set_metadata("a", metadata, &Conditions::default(), now()).map_err(|error| (1, error))?;
    append(container, b"+").map_err(|error| (2, error))?;
    let block = Bytes::copy_from_slice(marker.as_bytes());
    container.put_block("b", "QUE=", block, None, now()).map_err(|error| (3, error))
}

#[test]
fn whenever_the_disk_is_full_each_blob_is_the_one_before_or_the_one_after() {
    // Each change takes a few operations; the disk fills up at each of them in turn.
    for (sync, operations) in [SyncPolicy::Always, SyncPolicy::Os]
        .into_iter()
        .flat_map(|sync| (0..24).map(move |left| (sync, left)))
    {
        let directory = tempfile::tempdir().unwrap();
        let left = Arc::new(AtomicI64::new(i64::MAX));
        let files = FullAfter { left: Arc::clone(&left) };
        let store = BlobStore::open_with(Box::new(files), directory.path(), sync, MEMORY, LIMITS).unwrap();
        let container = store.create_container("box", Vec::new(), now()).unwrap();
        let log = PutRequest { content: PutContent::Append, ..put(b"") };
        container.put("log", log, now()).unwrap();
        changes(&container, "old").unwrap();
        left.store(operations, Ordering::Relaxed);
        let changed = changes(&container, "new");
        if changed.is_ok() {
            assert!(operations > 8, "{sync:?} {operations}");
        } else {
            assert!(store.figures().storage_failures > 0);
        }
        let seen = |container: &Container| {
            let blob = container.blob("a").unwrap();
            let marker = blob.description().metadata.first().cloned();
            let text = content(container, "a").unwrap();
            let log = content(container, "log").unwrap();
            (text, marker, log)
        };
        let (text, marker, log) = seen(&container);
        let is_made = [text == b"new", marker == Some(("marker".to_owned(), "new".to_owned())), log == b"++"];
        for (change, is_made) in is_made.into_iter().enumerate() {
            let is_answered = match &changed {
                Err((failed, error)) if *failed == change => match error {
                    BlobError::Unavailable(Unavailable::DiskFull) => !is_made,
                    BlobError::OutcomeUnknown(Unavailable::DiskFull) => true,
                    _ => false,
                },
                Err((failed, _)) => is_made == (change < *failed),
                Ok(()) => is_made,
            };
            assert!(is_answered, "{operations}: {change} is made: {is_made}, {changed:?}");
        }
        // The process ends here; what was to be seen is there.
        drop((store, container));
        let store = open(&directory);
        assert_eq!(store.figures().damaged_files, 0, "{operations}");
        let container = store.container("box").unwrap();
        assert_eq!(seen(&container), (text, marker, log), "{operations}");
        // There is room again.
        changes(&container, "newest").unwrap();
        assert_eq!(content(&container, "a").unwrap(), b"newest");
    }
}

#[test]
fn a_container_that_was_refused_is_not_there_after_a_restart() {
    for operations in 0..3 {
        let directory = tempfile::tempdir().unwrap();
        let left = Arc::new(AtomicI64::new(operations));
        let files = FullAfter { left: Arc::clone(&left) };
        let store =
            BlobStore::open_with(Box::new(files), directory.path(), SyncPolicy::Always, MEMORY, LIMITS)
                .unwrap();
        let refused = store.create_container("box", Vec::new(), now()).unwrap_err();
        assert_eq!(refused, BlobError::Unavailable(Unavailable::DiskFull), "{operations}");
        drop(store);
        let store = open(&directory);
        assert!(store.container("box").is_err(), "{operations}");
        store.create_container("box", Vec::new(), now()).unwrap();
    }
}

#[test]
fn a_directory_that_is_gone_refuses_changes_until_it_is_back() {
    let directory = tempfile::tempdir().unwrap();
    let store = open(&directory);
    let container = store.create_container("box", Vec::new(), now()).unwrap();
    container.put("a", put(b"first"), now()).unwrap();
    let (folder, aside) = (directory.path().join("box"), directory.path().join("aside"));
    std::fs::rename(&folder, &aside).unwrap();
    let refused = container.put("a", put(b"second"), now()).unwrap_err();
    assert!(matches!(refused, BlobError::Unavailable(_)), "{refused}");
    let unread = container.blob("a").unwrap().read(0..5).next_chunk(9);
    assert!(matches!(unread, Err(BlobError::Unavailable(_))));
    std::fs::rename(&aside, &folder).unwrap();
    assert_eq!(content(&container, "a").unwrap(), b"first");
    container.put("a", put(b"second"), now()).unwrap();
    assert_eq!(content(&container, "a").unwrap(), b"second");
}
