//! What is there after the process has ended, in good order or not.

use std::fs;
use std::path::{Path, PathBuf};

use super::*;
use crate::blob::{AppendRequest, BlockChoice, BlockSource};

fn files(directory: &Path, end: &str) -> Vec<PathBuf> {
    let mut files: Vec<_> = fs::read_dir(directory)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.to_string_lossy().ends_with(end))
        .collect();
    files.sort();
    files
}

/// A container with one blob of each kind, and a block that waits.
fn fill(store: &BlobStore) {
    let metadata = vec![("made".to_owned(), "by test".to_owned())];
    let container = store.create_container("box", metadata, now()).unwrap();
    let mut described = put(b"whole");
    described.description.metadata = vec![("ownerid".to_owned(), String::new())];
    described.description.headers.content_type = Some("text/plain".to_owned());
    container.put("a/whole", described, now()).unwrap();
    container.put("empty", put(b""), now()).unwrap();
    let log = PutRequest {
        kind: BlobKind::Append,
        ..put(b"")
    };
    container.put("log", log, now()).unwrap();
    for line in [&b"one "[..], b"two"] {
        append(&container, line).unwrap();
    }
    for (id, content) in [("QUE=", &b"11"[..]), ("QUI=", b"22")] {
        let content = Bytes::from_static(content);
        container.put_block("blocks", id, content).unwrap();
    }
    commit(&container, &["QUI=", "QUE="]);
    let waiting = Bytes::from_static(b"waits");
    container.put_block("blocks", "QUM=", waiting).unwrap();
}

fn append(container: &Container, content: &'static [u8]) -> Result<u64, BlobError> {
    let request = AppendRequest {
        content: Bytes::from_static(content),
        position: None,
        maximum_length: None,
        conditions: Conditions::default(),
    };
    container
        .append("log", request, now())
        .map(|appended| appended.offset)
}

fn commit(container: &Container, ids: &[&str]) {
    let list: Vec<_> = ids
        .iter()
        .map(|id| BlockChoice {
            source: BlockSource::Latest,
            id: (*id).to_owned(),
        })
        .collect();
    container
        .put_block_list(
            "blocks",
            &list,
            Description::default(),
            &Conditions::default(),
            Replacing::Allowed,
            now(),
        )
        .unwrap();
}

fn check(store: &BlobStore) {
    let container = store.container("box").unwrap();
    assert_eq!(container.metadata()[0].1, "by test");
    assert_eq!(content(&container, "a/whole").unwrap(), b"whole");
    let whole = container.blob("a/whole").unwrap();
    let description = whole.description();
    assert_eq!(description.metadata, [("ownerid".into(), String::new())]);
    assert_eq!(
        description.headers.content_type.as_deref(),
        Some("text/plain")
    );
    assert_eq!(content(&container, "empty").unwrap(), b"");
    assert_eq!(content(&container, "log").unwrap(), b"one two");
    assert_eq!(content(&container, "blocks").unwrap(), b"2211");
    let lists = container.block_lists("blocks").unwrap();
    assert_eq!(lists.uncommitted.len(), 1);
}

#[test]
fn everything_outlives_the_process_that_closes_and_the_one_that_does_not() {
    let directory = tempfile::tempdir().unwrap();
    let store = open(&directory);
    fill(&store);
    check(&store);
    let etag = store
        .container("box")
        .unwrap()
        .blob("log")
        .unwrap()
        .version();
    store.close().unwrap();
    drop(store);
    let store = open(&directory);
    check(&store);
    // As if the process had been killed.
    drop(store);
    let store = open(&directory);
    check(&store);
    assert_eq!(store.figures().damaged_files, 0);
    let container = store.container("box").unwrap();
    assert_eq!(container.blob("log").unwrap().version(), etag);
    // And everything goes on from there.
    append(&container, b" three").unwrap();
    commit(&container, &["QUM=", "QUE="]);
    let later = container.blob("log").unwrap().version();
    assert!(later.etag > etag.etag);
    drop(store);
    let store = open(&directory);
    let container = store.container("box").unwrap();
    assert_eq!(content(&container, "log").unwrap(), b"one two three");
    assert_eq!(content(&container, "blocks").unwrap(), b"waits11");
    let lists = container.block_lists("blocks").unwrap();
    assert!(lists.uncommitted.is_empty());
}

#[test]
fn what_is_replaced_or_deleted_leaves_no_file() {
    let directory = tempfile::tempdir().unwrap();
    let store = open(&directory);
    fill(&store);
    let folder = directory.path().join("box");
    let container = store.container("box").unwrap();
    container.put("blocks", put(b"whole again"), now()).unwrap();
    container.put("a/whole", put(b""), now()).unwrap();
    assert_eq!(files(&folder, ".piece").len(), 2);
    for name in ["a/whole", "empty", "log", "blocks"] {
        container.delete(name, &Conditions::default()).unwrap();
    }
    assert!(files(&folder, ".piece").is_empty());
    assert!(files(&folder, ".blob").is_empty());
    store.delete_container("box").unwrap();
    assert!(!folder.exists());
}

#[test]
fn leftovers_of_what_was_not_acknowledged_are_removed() {
    let directory = tempfile::tempdir().unwrap();
    let store = open(&directory);
    fill(&store);
    drop(store);
    let folder = directory.path().join("box");
    // Killed while a description was written, and after a content and before its description.
    fs::write(folder.join("99.blob.new"), b"half").unwrap();
    fs::copy(&files(&folder, ".piece")[0], folder.join("98.piece")).unwrap();
    fs::create_dir(directory.path().join("half-made")).unwrap();
    fs::create_dir(directory.path().join("old~7")).unwrap();
    let store = open(&directory);
    check(&store);
    assert!(!folder.join("99.blob.new").exists());
    assert!(!folder.join("98.piece").exists());
    assert!(!directory.path().join("old~7").exists());
    assert_eq!(store.containers("").len(), 1);
    assert_eq!(store.figures().damaged_files, 0);
}

#[test]
fn torn_and_changed_files_are_found_and_the_rest_is_served() {
    let directory = tempfile::tempdir().unwrap();
    let store = open(&directory);
    let container = store.create_container("box", Vec::new(), now()).unwrap();
    for name in ["good", "torn", "changed", "undescribed"] {
        container.put(name, put(b"content"), now()).unwrap();
    }
    drop((store, container));
    let folder = directory.path().join("box");
    // In the order in which they were written.
    let mut pieces = files(&folder, ".piece");
    pieces.sort_by_key(|path| path.metadata().unwrap().modified().unwrap());
    let number = |path: &PathBuf| -> u64 {
        let name = path.file_stem().unwrap().to_str().unwrap();
        name.parse().unwrap()
    };
    pieces.sort_by_key(number);
    let torn = fs::read(&pieces[1]).unwrap();
    fs::write(&pieces[1], &torn[..torn.len() - 1]).unwrap();
    let mut changed = fs::read(&pieces[2]).unwrap();
    *changed.last_mut().unwrap() ^= 1;
    fs::write(&pieces[2], &changed).unwrap();
    let mut descriptions = files(&folder, ".blob");
    descriptions.sort_by_key(number);
    fs::write(&descriptions[3], b"").unwrap();
    let store = open(&directory);
    let container = store.container("box").unwrap();
    assert_eq!(content(&container, "good").unwrap(), b"content");
    for name in ["torn", "changed", "undescribed"] {
        assert_eq!(container.blob(name).unwrap_err(), BlobError::BlobNotFound);
        // Its place can be taken.
        container.put(name, put(b"again"), now()).unwrap();
    }
    assert!(store.figures().damaged_files >= 3);
    assert_eq!(files(&folder, ".blob.damaged").len(), 3);
    assert_eq!(files(&folder, ".piece.damaged").len(), 3);
    drop((store, container));
    let store = open(&directory);
    assert_eq!(store.figures().damaged_files, 0);
    assert_eq!(store.figures().blobs, 4);
}
