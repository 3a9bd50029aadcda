//! What is there after the process has ended, in good order or not.

use std::os::unix::fs::MetadataExt as _;

use super::*;

/// A container with one blob of each kind, and a block that waits.
fn fill(store: &BlobStore) {
    let metadata = vec![("made".to_owned(), "by test".to_owned())];
    let container = store.create_container("box", metadata, now()).unwrap();
    let mut described = put(b"whole");
    described.description.metadata = vec![("ownerid".to_owned(), String::new())];
    described.description.headers.content_type = Some("text/plain".to_owned());
    container.put("a/whole", described, now()).unwrap();
    container.put("empty", put(b""), now()).unwrap();
    let log = PutRequest { content: PutContent::Append, ..put(b"") };
    container.put("log", log, now()).unwrap();
    for line in [&b"one "[..], b"two"] {
        append(&container, line).unwrap();
    }
    for (id, content) in [("QUE=", &b"11"[..]), ("QUI=", b"22")] {
        let content = Bytes::from_static(content);
        container.put_block("blocks", id, content, None, now()).unwrap();
    }
    commit(&container, "blocks", &["QUI=", "QUE="]).unwrap();
    let waiting = Bytes::from_static(b"waits");
    container.put_block("blocks", "QUM=", waiting, None, now()).unwrap();
}

fn check(store: &BlobStore) {
    let container = store.container("box").unwrap();
    assert_eq!(container.properties().metadata()[0].1, "by test");
    assert_eq!(content(&container, "a/whole").unwrap(), b"whole");
    let whole = container.blob("a/whole").unwrap();
    let description = whole.description();
    assert_eq!(description.metadata, [("ownerid".into(), String::new())]);
    assert_eq!(description.headers.content_type.as_deref(), Some("text/plain"));
    assert_eq!(content(&container, "empty").unwrap(), b"");
    assert_eq!(content(&container, "log").unwrap(), b"one two");
    assert_eq!(content(&container, "blocks").unwrap(), b"2211");
    let lists = container.block_lists("blocks", None, now()).unwrap();
    assert_eq!(lists.uncommitted.len(), 1);
}

#[test]
fn everything_outlives_the_process_that_closes_and_the_one_that_does_not() {
    let directory = tempfile::tempdir().unwrap();
    let store = open(&directory);
    fill(&store);
    check(&store);
    let etag = store.container("box").unwrap().blob("log").unwrap().version();
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
    commit(&container, "blocks", &["QUM=", "QUE="]).unwrap();
    let later = container.blob("log").unwrap().version();
    assert!(later.etag > etag.etag);
    drop(store);
    let store = open(&directory);
    let container = store.container("box").unwrap();
    assert_eq!(content(&container, "log").unwrap(), b"one two three");
    assert_eq!(content(&container, "blocks").unwrap(), b"waits11");
    let lists = container.block_lists("blocks", None, now()).unwrap();
    assert!(lists.uncommitted.is_empty());
}

#[test]
fn access_to_a_container_outlives_the_process() {
    use crate::{ContainerAccess, PublicAccess, StoredPolicy};
    let directory = tempfile::tempdir().unwrap();
    let store = open(&directory);
    let container = store.create_container_for("box", Vec::new(), Some(PublicAccess::Blob), now()).unwrap();
    let version = container.properties().version();
    let policy = StoredPolicy {
        id: "readers".into(),
        start: None,
        expiry: Some("2030-01-01".into()),
        permission: Some("r".into()),
    };
    let access = ContainerAccess { public: Some(PublicAccess::Container), policies: vec![policy] };
    let set = container.set_access(access.clone(), &Conditions::default(), now()).unwrap();
    assert_ne!(set, version);
    drop((container, store));
    let store = open(&directory);
    let container = store.container("box").unwrap();
    assert_eq!(container.properties().access(), &access);
    container.set_container_metadata(Vec::new(), &Conditions::default(), now()).unwrap();
    assert_eq!(container.properties().access(), &access);
}

#[test]
fn what_is_set_for_the_account_outlives_the_process() {
    let directory = tempfile::tempdir().unwrap();
    let store = open(&directory);
    assert!(!store.service_properties().logging.write);
    store.set_service_properties(|properties| properties.logging.write = true).unwrap();
    drop(store);
    let store = open(&directory);
    assert!(store.service_properties().logging.write);
    drop(store);
    fs::write(directory.path().join("account.json"), b"0 {}").unwrap();
    let store = open(&directory);
    assert!(!store.service_properties().logging.write);
    assert_eq!((store.figures().damaged_files, files(directory.path(), ".damaged").len()), (1, 1));
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
        container.delete(name, &Conditions::default(), now()).unwrap();
    }
    assert!(files(&folder, ".piece").is_empty());
    assert!(files(&folder, ".blob").is_empty());
    store.delete_container("box", &Conditions::default(), now()).unwrap();
    assert!(!folder.exists());
}

#[test]
fn files_of_what_was_replaced_are_written_again_and_hold_nothing_meanwhile() {
    let directory = tempfile::tempdir().unwrap();
    let store = open(&directory);
    let container = store.create_container("box", Vec::new(), now()).unwrap();
    let folder = directory.path().join("box");
    let inodes = || -> Vec<_> {
        let mut inodes: Vec<_> =
            files(&folder, "").iter().map(|path| fs::metadata(path).unwrap().ino()).collect();
        inodes.sort_unstable();
        inodes
    };
    container.put("a", put(b"first"), now()).unwrap();
    container.put("a", put(b"second"), now()).unwrap();
    let steady = inodes();
    for _ in 0..10 {
        container.put("a", put(b"again"), now()).unwrap();
        container.set_metadata("a", Vec::new(), &Conditions::default(), now()).unwrap();
        assert_eq!(inodes(), steady);
    }
    let names: Vec<_> = (0..100).map(|number| number.to_string()).collect();
    for name in &names {
        container.put(name, put(b"content"), now()).unwrap();
    }
    for name in &names {
        container.delete(name, &Conditions::default(), now()).unwrap();
    }
    let spare = files(&folder, ".new");
    assert!(!spare.is_empty() && spare.len() <= 64, "{}", spare.len());
    for path in spare {
        assert_eq!(fs::metadata(&path).unwrap().len(), 0, "{}", path.display());
    }
    // Whoever holds a blob that is replaced reads what it was.
    let held = container.blob("a").unwrap();
    for _ in 0..3 {
        container.put("a", put(b"other"), now()).unwrap();
    }
    assert_eq!(bytes(held.read(0..5)), b"again");
    drop((held, container, store));
    let store = open(&directory);
    assert_eq!(store.figures().damaged_files, 0);
    assert!(files(&folder, ".new").is_empty());
    assert_eq!(content(&store.container("box").unwrap(), "a").unwrap(), b"other");
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

/// Every file, by its path beneath the directory.
fn all_files(directory: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        match path.is_dir() {
            true => files.extend(all_files(&path)),
            false => files.push(path),
        }
    }
    files
}

/// The contents of all blobs of a store.
fn contents(store: &BlobStore) -> Vec<(String, Vec<u8>)> {
    let container = store.container("box").unwrap();
    let names = ["a", "b", "empty"].into_iter();
    names.filter_map(|name| Some((name.to_owned(), content(&container, name).ok()?))).collect()
}

#[test]
fn whichever_file_is_missing_the_rest_is_served_and_nothing_else_is_removed() {
    let filled = || {
        let directory = tempfile::tempdir().unwrap();
        let store = open(&directory);
        let container = store.create_container("box", Vec::new(), now()).unwrap();
        for (name, content) in [("a", &b"one"[..]), ("b", b"two"), ("empty", b"")] {
            container.put(name, put(content), now()).unwrap();
        }
        drop(container);
        let all = contents(&store);
        store.close().unwrap();
        (directory, all)
    };
    let count = all_files(filled().0.path()).len();
    assert!(count >= 6, "{count} files");
    for place in 0..count {
        let (directory, all) = filled();
        let mut files = all_files(directory.path());
        files.sort();
        let missing = files.remove(place);
        fs::remove_file(&missing).unwrap();
        let store = open(&directory);
        let served = contents(&store);
        let name = missing.display();
        assert!(served.iter().all(|blob| all.contains(blob)), "without {name}");
        let is_container = missing.ends_with("container.json");
        let expected = if is_container { all.len() } else { all.len() - 1 };
        assert_eq!(served.len(), expected, "without {name}");
        // Of an empty blob its description was all that there was.
        let is_traceless = served.len() < all.len() && served.iter().all(|(name, _)| name != "empty");
        let is_reported = store.figures().damaged_files > 0;
        assert!(is_reported || is_traceless, "without {name}");
        for path in files {
            let aside = PathBuf::from(format!("{}.damaged", path.display()));
            assert!(path.exists() || aside.exists(), "{} without {name}", path.display());
        }
        // New files take the place of none that was set aside.
        let container = store.container("box").unwrap();
        for blob in ["c", "d", "e", "f"] {
            container.put(blob, put(b"new"), now()).unwrap();
        }
        store.close().unwrap();
        drop((store, container));
        let again = open(&directory);
        assert_eq!(again.figures().damaged_files, 0, "without {name}");
        assert_eq!(contents(&again), served, "without {name}");
    }
}

#[test]
fn what_someone_else_put_there_stays() {
    let directory = tempfile::tempdir().unwrap();
    let store = open(&directory);
    store.create_container("box", Vec::new(), now()).unwrap();
    drop(store);
    let box_folder = directory.path().join("box");
    fs::create_dir(directory.path().join("box~backup")).unwrap();
    let theirs =
        [directory.path().join("box~backup/notes"), box_folder.join("notes.new"), box_folder.join("notes")];
    for path in &theirs {
        fs::write(path, "mine").unwrap();
    }
    drop(open(&directory));
    for path in theirs {
        assert!(path.exists(), "{}", path.display());
    }
}

#[test]
fn files_and_folders_are_for_their_owner_alone() {
    use std::os::unix::fs::PermissionsExt as _;
    let parent = tempfile::tempdir().unwrap();
    let directory = parent.path().join("blob");
    let store = BlobStore::open(&directory, SyncPolicy::Os, MEMORY, LIMITS).unwrap();
    fill(&store);
    let mode = |path: &Path| path.metadata().unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&directory), 0o700);
    assert_eq!(mode(&directory.join("box")), 0o700);
    for path in all_files(&directory) {
        assert_eq!(mode(&path), 0o600, "{}", path.display());
    }
}
