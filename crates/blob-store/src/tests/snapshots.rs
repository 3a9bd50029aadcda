//! Blobs as they were.

use super::suite::everywhere;
use super::*;
use crate::{DeletedSnapshots, ListRequest, ListStart, Listed, SnapshotTime};

fn snapshot(container: &Container, name: &str) -> SnapshotTime {
    container.create_snapshot(name, Vec::new(), &Conditions::default(), now()).unwrap().1
}

fn content_of(container: &Container, name: &str, time: SnapshotTime) -> Result<Vec<u8>, BlobError> {
    let blob = container.snapshot(name, time)?;
    Ok(bytes(blob.read(0..blob.length())))
}

/// Names and whether each is a snapshot, in pages of `maximum`.
fn listed(container: &Container, maximum: usize) -> Vec<(String, bool)> {
    let (mut all, mut from): (Vec<_>, Option<(String, ListStart)>) = (Vec::new(), None);
    loop {
        let listing = container.list(&ListRequest {
            from: from.as_ref().map(|(name, start)| (name.as_str(), *start)),
            with_snapshots: true,
            maximum,
            ..EVERYTHING
        });
        assert!(listing.entries.len() <= maximum);
        all.extend(listing.entries.into_iter().map(|entry| match entry {
            Listed::Blob { name, blob } => (name, blob.snapshot().is_some()),
            other => panic!("{other:?}"),
        }));
        match listing.next {
            Some(next) => from = Some(next),
            None => return all,
        }
    }
}

#[test]
fn snapshots_stay_as_they_are_until_they_are_deleted() {
    everywhere(|store| {
        let container = store.create_container("box", Vec::new(), now()).unwrap();
        container.put("a", put(b"first"), now()).unwrap();
        let first = snapshot(&container, "a");
        let version = container.blob("a").unwrap().version();
        assert_eq!(container.snapshot("a", first).unwrap().version(), version);
        container.put("a", put(b"second"), now()).unwrap();
        let metadata = vec![("of".to_owned(), "snapshot".to_owned())];
        let (_, second) = container.create_snapshot("a", metadata, &Conditions::default(), now()).unwrap();
        assert!(second > first);
        assert_eq!(container.snapshot("a", second).unwrap().description().metadata.len(), 1);
        assert!(container.blob("a").unwrap().description().metadata.is_empty());
        container.put("log", PutRequest { content: PutContent::Append, ..put(b"") }, now()).unwrap();
        append(&container, b"one").unwrap();
        let of_log = snapshot(&container, "log");
        append(&container, b" two").unwrap();
        assert_eq!(content_of(&container, "log", of_log).unwrap(), b"one");
        assert_eq!(content(&container, "log").unwrap(), b"one two");
        container.put("b", put(b""), now()).unwrap();
        let all: Vec<_> =
            [("a", true), ("a", true), ("a", false), ("b", false), ("log", true), ("log", false)]
                .map(|(name, is_snapshot)| (name.to_owned(), is_snapshot))
                .to_vec();
        for maximum in [1, 2, 4, 9] {
            assert_eq!(listed(&container, maximum), all, "{maximum}");
        }
        let none = Conditions::default();
        assert_eq!(container.delete("a", &none, now()), Err(BlobError::SnapshotsPresent));
        container.delete_snapshot("a", first).unwrap();
        assert_eq!(container.delete_snapshot("a", first), Err(BlobError::BlobNotFound));
        assert_eq!(content_of(&container, "a", first), Err(BlobError::BlobNotFound));
        assert_eq!(content_of(&container, "a", second).unwrap(), b"second");
        container.delete_with("log", DeletedSnapshots::Only, &none, now()).unwrap();
        assert_eq!(content(&container, "log").unwrap(), b"one two");
        container.delete_with("a", DeletedSnapshots::Included, &none, now()).unwrap();
        assert_eq!(container.blob("a").unwrap_err(), BlobError::BlobNotFound);
        assert_eq!(content_of(&container, "a", second), Err(BlobError::BlobNotFound));
        assert_eq!(listed(&container, 9).len(), 2);
    });
}

#[test]
fn snapshots_outlive_the_process_and_leave_no_file() {
    let directory = tempfile::tempdir().unwrap();
    let store = open(&directory);
    let container = store.create_container("box", Vec::new(), now()).unwrap();
    for (id, content) in [("QUE=", &b"11"[..]), ("QUI=", b"22")] {
        container.put_block("a", id, Bytes::from_static(content), None, now()).unwrap();
    }
    commit(&container, "a", &["QUI=", "QUE="]).unwrap();
    let time = snapshot(&container, "a");
    container.put_block("a", "QUM=", Bytes::from_static(b"33"), None, now()).unwrap();
    drop((container, store));
    for _ in 0..2 {
        let store = open(&directory);
        let container = store.container("box").unwrap();
        assert_eq!(content_of(&container, "a", time).unwrap(), b"2211");
        assert_eq!(container.block_lists("a", None, now()).unwrap().uncommitted.len(), 1);
        assert_eq!((store.figures().damaged_files, store.figures().blobs), (0, 1));
    }
    let store = open(&directory);
    let container = store.container("box").unwrap();
    assert!(snapshot(&container, "a") > time, "no two have one time");
    container.delete_with("a", DeletedSnapshots::Included, &Conditions::default(), now()).unwrap();
    let folder = directory.path().join("box");
    for end in [".piece", ".copy", ".blob"] {
        assert!(files(&folder, end).is_empty(), "{end}");
    }
}
