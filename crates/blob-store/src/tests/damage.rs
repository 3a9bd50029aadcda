//! Bytes that change on the disk: nothing of what they belong to is given to anyone, and everything else is served.

use super::*;

/// The one file of the container that ends so.
fn file(directory: &TempDir, end: &str) -> PathBuf {
    let files = files(&directory.path().join("box"), end);
    assert_eq!(files.len(), 1, "{files:?}");
    files[0].clone()
}

/// Changes one bit of a file.
fn damage(path: &Path, position: usize) {
    let mut bytes = fs::read(path).unwrap();
    bytes[position] ^= 1;
    fs::write(path, bytes).unwrap();
}

fn read(container: &Container, name: &str, range: std::ops::Range<u64>) -> Result<Vec<u8>, BlobError> {
    let mut reader = container.blob(name)?.read(range);
    let mut bytes = Vec::new();
    while let Some(chunk) = reader.next_chunk(3)? {
        bytes.extend_from_slice(&chunk);
    }
    Ok(bytes)
}

#[test]
fn a_byte_that_changes_after_a_clean_stop_is_never_given_to_a_reader() {
    let text = b"0123456789";
    // The first byte of the content, one within, and the last one.
    for back in [10, 5, 1] {
        let directory = tempfile::tempdir().unwrap();
        let store = open(&directory);
        let container = store.create_container("box", Vec::new(), now()).unwrap();
        container.put("blob", put(text), now()).unwrap();
        store.close().unwrap();
        drop((store, container));
        let piece = file(&directory, ".piece");
        let length = fs::read(&piece).unwrap().len();
        damage(&piece, length - back);
        let store = open(&directory);
        let container = store.container("box").unwrap();
        container.put("other", put(b"good"), now()).unwrap();
        assert_eq!(store.figures().damaged_files, 0);
        // Whichever part is asked for, and however often.
        for range in [0..10, 0..1, 4..6, 9..10, 0..10] {
            let unread = read(&container, "blob", range.clone());
            assert_eq!(unread, Err(BlobError::Damaged), "{range:?}");
            let blob = container.blob("blob").unwrap();
            assert_eq!(blob.read(range).check(), Err(BlobError::Damaged));
        }
        assert_eq!(store.figures().damaged_files, 1, "it is counted once");
        assert_eq!(content(&container, "other").unwrap(), b"good");
        // Its writer can put it again.
        container.put("blob", put(text), now()).unwrap();
        assert_eq!(content(&container, "blob").unwrap(), text);
    }
}

#[test]
fn a_content_is_compared_with_its_checksum_once() {
    let directory = tempfile::tempdir().unwrap();
    let store = open(&directory);
    let container = store.create_container("box", Vec::new(), now()).unwrap();
    container.put("blob", put(b"0123456789"), now()).unwrap();
    let is_checked = |container: &Container| container.blob("blob").unwrap().read(2..4).is_checked();
    assert!(is_checked(&container), "this process wrote it");
    store.close().unwrap();
    drop((store, container));
    let store = open(&directory);
    let container = store.container("box").unwrap();
    assert!(!is_checked(&container));
    assert_eq!(read(&container, "blob", 2..4).unwrap(), b"23");
    assert!(is_checked(&container));
    drop((store, container));
    // After a process that was killed, the start has done it.
    let store = open(&directory);
    assert!(is_checked(&store.container("box").unwrap()));
}

#[test]
fn a_byte_that_changes_while_the_service_runs_spoils_the_read_of_the_whole() {
    let directory = tempfile::tempdir().unwrap();
    let store = open(&directory);
    let container = store.create_container("box", Vec::new(), now()).unwrap();
    container.put("blob", put(b"0123456789"), now()).unwrap();
    assert_eq!(content(&container, "blob").unwrap(), b"0123456789");
    let piece = file(&directory, ".piece");
    let length = fs::read(&piece).unwrap().len();
    damage(&piece, length - 7);
    assert_eq!(read(&container, "blob", 0..10), Err(BlobError::Damaged));
    assert_eq!(read(&container, "blob", 8..9), Err(BlobError::Damaged));
    assert_eq!(store.figures().damaged_files, 1);
}

#[test]
fn damage_of_one_block_spares_the_others() {
    let directory = tempfile::tempdir().unwrap();
    let store = open(&directory);
    let container = store.create_container("box", Vec::new(), now()).unwrap();
    for (id, text) in [("QUE=", b"first"), ("QUI=", b"other")] {
        let text = Bytes::from_static(text);
        container.put_block("blob", id, text, None, now()).unwrap();
    }
    commit(&container, "blob", &["QUE=", "QUI="]).unwrap();
    store.close().unwrap();
    drop((store, container));
    let mut pieces = files(&directory.path().join("box"), ".piece");
    pieces.sort();
    let length = fs::read(&pieces[0]).unwrap().len();
    damage(&pieces[0], length - 1);
    let store = open(&directory);
    let container = store.container("box").unwrap();
    assert_eq!(read(&container, "blob", 5..10).unwrap(), b"other");
    assert_eq!(read(&container, "blob", 0..10), Err(BlobError::Damaged));
}

#[test]
fn a_damaged_block_that_waits_is_not_committed_and_can_be_put_again() {
    let directory = tempfile::tempdir().unwrap();
    let store = open(&directory);
    let container = store.create_container("box", Vec::new(), now()).unwrap();
    let text = Bytes::from_static(b"waits");
    container.put_block("blob", "QUE=", text.clone(), None, now()).unwrap();
    store.close().unwrap();
    drop((store, container));
    let piece = file(&directory, ".piece");
    let length = fs::read(&piece).unwrap().len();
    damage(&piece, length - 1);
    let store = open(&directory);
    let container = store.container("box").unwrap();
    assert_eq!(commit(&container, "blob", &["QUE="]), Err(BlobError::Damaged));
    assert_eq!(container.blob("blob").unwrap_err(), BlobError::BlobNotFound);
    container.put_block("blob", "QUE=", text, None, now()).unwrap();
    commit(&container, "blob", &["QUE="]).unwrap();
    assert_eq!(content(&container, "blob").unwrap(), b"waits");
}

#[test]
fn nothing_is_appended_to_what_is_known_to_be_damaged_and_a_sound_log_grows_on() {
    for damaged in [false, true] {
        let directory = tempfile::tempdir().unwrap();
        let store = open(&directory);
        let container = store.create_container("box", Vec::new(), now()).unwrap();
        let log = PutRequest { content: PutContent::Append, ..put(b"") };
        container.put("log", log, now()).unwrap();
        append(&container, b"one ").unwrap();
        store.close().unwrap();
        drop((store, container));
        let piece = file(&directory, ".piece");
        if damaged {
            let length = fs::read(&piece).unwrap().len();
            damage(&piece, length - 1);
        }
        let store = open(&directory);
        let container = store.container("box").unwrap();
        // Before the file was read.
        append(&container, b"two").unwrap();
        if damaged {
            assert_eq!(read(&container, "log", 5..6), Err(BlobError::Damaged));
            assert_eq!(append(&container, b"!"), Err(BlobError::Damaged));
        } else {
            assert_eq!(content(&container, "log").unwrap(), b"one two");
            append(&container, b"!").unwrap();
            assert_eq!(content(&container, "log").unwrap(), b"one two!");
        }
    }
}

#[test]
fn a_content_that_breaks_off_while_the_service_runs_is_damaged_and_one_that_is_away_is_not() {
    let directory = tempfile::tempdir().unwrap();
    let store = open(&directory);
    let container = store.create_container("box", Vec::new(), now()).unwrap();
    container.put("blob", put(b"0123456789"), now()).unwrap();
    store.close().unwrap();
    drop((store, container));
    let store = open(&directory);
    let container = store.container("box").unwrap();
    let piece = file(&directory, ".piece");
    let aside = directory.path().join("aside");
    fs::rename(&piece, &aside).unwrap();
    let away = read(&container, "blob", 0..1);
    assert!(matches!(away, Err(BlobError::Unavailable(_))), "{away:?}");
    let whole = fs::read(&aside).unwrap();
    fs::write(&piece, &whole[..whole.len() - 1]).unwrap();
    assert_eq!(read(&container, "blob", 0..1), Err(BlobError::Damaged));
    assert_eq!(store.figures().damaged_files, 1);
}

#[test]
fn every_change_of_a_description_is_found_at_the_start() {
    let directory = tempfile::tempdir().unwrap();
    let store = open(&directory);
    let container = store.create_container("box", Vec::new(), now()).unwrap();
    let mut described = put(b"content");
    described.description.metadata = vec![("ownerid".to_owned(), "me".to_owned())];
    container.put("blob", described, now()).unwrap();
    store.close().unwrap();
    drop((store, container));
    let description = file(&directory, ".blob");
    let good = fs::read(&description).unwrap();
    for position in 0..good.len() {
        damage(&description, position);
        let store = open(&directory);
        let container = store.container("box").unwrap();
        match container.blob("blob") {
            // The letter case of a digit of the checksum makes no difference.
            Ok(blob) => assert_eq!(blob.description().metadata[0].1, "me", "{position}"),
            Err(error) => {
                assert_eq!(error, BlobError::BlobNotFound);
                assert!(store.figures().damaged_files > 0, "{position}");
                let folder = directory.path().join("box");
                for aside in files(&folder, ".damaged") {
                    let path = aside.to_string_lossy().into_owned();
                    fs::rename(&aside, path.trim_end_matches(".damaged")).unwrap();
                }
            }
        }
        store.close().unwrap();
        drop(store);
        fs::write(&description, &good).unwrap();
    }
}

#[test]
fn a_container_whose_description_is_damaged_or_missing_keeps_its_blobs() {
    for lost in ["damaged", "missing"] {
        let directory = tempfile::tempdir().unwrap();
        let store = open(&directory);
        let metadata = vec![("made".to_owned(), "by test".to_owned())];
        let container = store.create_container("box", metadata, now()).unwrap();
        container.put("blob", put(b"content"), now()).unwrap();
        store.close().unwrap();
        drop((store, container));
        let description = directory.path().join("box/container.json");
        match lost {
            "damaged" => damage(&description, 12),
            _ => fs::remove_file(&description).unwrap(),
        }
        let store = open(&directory);
        assert_eq!(store.figures().damaged_files, 1, "{lost}");
        // The configuration must not be able to make an empty one in its place.
        let again = store.create_container("box", Vec::new(), now());
        assert_eq!(again.unwrap_err(), BlobError::ContainerAlreadyExists);
        let container = store.container("box").unwrap();
        assert!(container.properties().metadata().is_empty());
        assert_eq!(content(&container, "blob").unwrap(), b"content");
        drop((store, container));
        let store = open(&directory);
        assert_eq!(store.figures().damaged_files, 0, "{lost}");
        let container = store.container("box").unwrap();
        assert_eq!(content(&container, "blob").unwrap(), b"content");
    }
}
