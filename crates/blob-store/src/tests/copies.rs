//! Blobs that are made of others, and their tiers.

use super::suite::everywhere;
use super::*;
use crate::{AccessTier, CopyForm, CopyRequest, CopyState, EtagCondition, TierSetting};

/// Copies a blob to a name of `to`, described as itself.
fn copy(from: &Container, source: &str, to: &Container, name: &str) -> Result<(), BlobError> {
    let source = from.blob(source)?;
    let state =
        CopyState { id: "1".into(), source: "url".into(), length: source.length(), completed_unix_s: 7 };
    let request = CopyRequest {
        description: Description { copy: Some(state), ..source.description().clone() },
        source,
        conditions: Conditions::default(),
        replacing: Replacing::Allowed,
        form: CopyForm::Same,
    };
    to.copy(name, request, now()).map(drop)
}

/// Two containers. The first has a blob of blocks, one that was put as a whole, and one that was appended to.
fn fill(store: &BlobStore) -> (std::sync::Arc<Container>, std::sync::Arc<Container>) {
    let first = store.create_container("first", Vec::new(), now()).unwrap();
    let second = store.create_container("second", Vec::new(), now()).unwrap();
    for (id, content) in [("QUE=", &b"11"[..]), ("QUI=", b"22")] {
        first.put_block("blocks", id, Bytes::from_static(content), None, now()).unwrap();
    }
    commit(&first, "blocks", &["QUI=", "QUE=", "QUI="]).unwrap();
    let mut whole = put(b"whole");
    whole.description.metadata = vec![("Key".to_owned(), "value".to_owned())];
    first.put("whole", whole, now()).unwrap();
    first.put("log", PutRequest { content: PutContent::Append, ..put(b"") }, now()).unwrap();
    append(&first, b"one ").unwrap();
    (first, second)
}

#[test]
fn a_copy_lives_on_whatever_becomes_of_its_source() {
    everywhere(|store| {
        let (first, second) = fill(store);
        for name in ["blocks", "whole", "log"] {
            copy(&first, name, &second, name).unwrap();
            copy(&first, name, &first, &format!("{name} beside")).unwrap();
            copy(&first, name, &first, name).unwrap();
        }
        append(&first, b"source").unwrap();
        append(&second, b"copy").unwrap();
        assert_eq!(content(&first, "log").unwrap(), b"one source");
        assert_eq!(content(&second, "log").unwrap(), b"one copy");
        for name in ["blocks", "whole", "log"] {
            first.delete(name, &Conditions::default(), now()).unwrap();
        }
        assert_eq!(content(&second, "blocks").unwrap(), b"221122");
        assert_eq!(content(&second, "whole").unwrap(), b"whole");
        assert_eq!(content(&first, "log beside").unwrap(), b"one ");
        let lists = second.block_lists("blocks", None, now()).unwrap();
        let ids: Vec<_> = lists.committed.iter().map(|block| block.id.as_str()).collect();
        assert_eq!(ids, ["QUI=", "QUE=", "QUI="]);
        // Its blocks can be committed again, as those of any blob.
        commit(&second, "blocks", &["QUE="]).unwrap();
        assert_eq!(content(&second, "blocks").unwrap(), b"11");
        let whole = second.blob("whole").unwrap();
        assert_eq!(whole.description().metadata[0].0, "Key");
        assert_eq!(whole.description().copy.as_ref().map(|copy| copy.length), Some(5));
    });
}

#[test]
fn a_copy_takes_the_place_of_a_blob_of_its_kind_upon_its_conditions() {
    everywhere(|store| {
        let (first, second) = fill(store);
        second.put("log", put(b"no log"), now()).unwrap();
        assert_eq!(copy(&first, "log", &second, "log"), Err(BlobError::InvalidBlobType));
        second.put("blocks", put(b"here before"), now()).unwrap();
        let request = |conditions, replacing| CopyRequest {
            source: first.blob("blocks").unwrap(),
            description: Description::default(),
            conditions,
            replacing,
            form: CopyForm::Same,
        };
        let absent = Conditions { if_none_match: Some(EtagCondition::Any), ..Conditions::default() };
        let refused = second.copy("blocks", request(absent, Replacing::Allowed), now());
        assert_eq!(refused, Err(BlobError::BlobAlreadyExists));
        let refused = second.copy("blocks", request(Conditions::default(), Replacing::Forbidden), now());
        assert_eq!(refused, Err(BlobError::MayNotReplace));
        assert_eq!(content(&second, "blocks").unwrap(), b"here before");
        copy(&first, "blocks", &second, "blocks").unwrap();
        assert_eq!(content(&second, "blocks").unwrap(), b"221122");
    });
}

#[test]
fn a_copy_can_be_a_blob_without_blocks_whatever_its_source_is() {
    everywhere(|store| {
        let (first, second) = fill(store);
        second.put("log", put(b"no log"), now()).unwrap();
        for name in ["blocks", "log"] {
            let request = CopyRequest {
                source: first.blob(name).unwrap(),
                description: Description::default(),
                conditions: Conditions::default(),
                replacing: Replacing::Allowed,
                form: CopyForm::Whole,
            };
            second.copy(name, request, now()).unwrap();
            assert_eq!(second.blob(name).unwrap().kind(), BlobKind::Block);
            assert!(second.block_lists(name, None, now()).unwrap().committed.is_empty());
        }
        append(&first, b"two").unwrap();
        assert_eq!(content(&second, "blocks").unwrap(), b"221122");
        assert_eq!(content(&second, "log").unwrap(), b"one ");
    });
}

#[test]
fn copies_are_stored_once_and_leave_no_file() {
    let directory = tempfile::tempdir().unwrap();
    let store = open(&directory);
    let (first, second) = fill(&store);
    copy(&first, "blocks", &second, "blocks").unwrap();
    copy(&first, "log", &second, "log").unwrap();
    let folder = directory.path().join("second");
    // A block that is there twice has a name for each.
    assert_eq!((files(&folder, ".copy").len(), files(&folder, ".piece").len()), (3, 1));
    for name in ["blocks", "log"] {
        second.delete(name, &Conditions::default(), now()).unwrap();
    }
    assert!(files(&folder, ".copy").is_empty() && files(&folder, ".piece").is_empty());
    assert_eq!(content(&first, "blocks").unwrap(), b"221122");
}

#[test]
fn copies_outlive_the_process_and_one_cut_short_leaves_nothing() {
    let directory = tempfile::tempdir().unwrap();
    let store = open(&directory);
    let (first, second) = fill(&store);
    copy(&first, "blocks", &second, "blocks").unwrap();
    copy(&first, "log", &second, "log").unwrap();
    first.delete("blocks", &Conditions::default(), now()).unwrap();
    drop((first, second, store));
    let folder = directory.path().join("second");
    // Killed between a link and the description that would have named it.
    fs::hard_link(&files(&folder, ".copy")[0], folder.join("99.copy")).unwrap();
    for _ in 0..2 {
        let store = open(&directory);
        let second = store.container("second").unwrap();
        assert_eq!(content(&second, "blocks").unwrap(), b"221122");
        assert_eq!(content(&second, "log").unwrap(), b"one ");
        assert!(second.blob("blocks").unwrap().description().copy.is_some());
        assert!(!folder.join("99.copy").exists());
        let first = store.container("first").unwrap();
        assert_eq!(first.block_lists("blocks", None, now()).unwrap_err(), BlobError::BlobNotFound);
        assert_eq!(store.figures().damaged_files, 0);
    }
}

#[test]
fn a_tier_is_of_blobs_of_blocks_and_makes_no_new_version() {
    everywhere(|store| {
        let (first, _) = fill(store);
        let none = Conditions::default();
        let version = first.blob("whole").unwrap().version();
        assert_eq!(first.set_tier("whole", AccessTier::Cool, &none, now()), Ok(None));
        assert_eq!(first.set_tier("whole", AccessTier::Archive, &none, now()), Ok(Some(AccessTier::Cool)));
        let blob = first.blob("whole").unwrap();
        let setting = TierSetting { tier: AccessTier::Archive, changed_unix_s: 1_795_213_063 };
        assert_eq!((blob.version(), blob.description().tier), (version, Some(setting)));
        assert_eq!(content(&first, "whole").unwrap(), b"whole");
        let wrong = first.set_tier("log", AccessTier::Cool, &none, now());
        assert_eq!(wrong, Err(BlobError::TierOfOtherKind));
        let missing = first.set_tier("missing", AccessTier::Cool, &none, now());
        assert_eq!(missing, Err(BlobError::BlobNotFound));
        // What is archived is neither replaced nor described, but has tags and can be deleted.
        let archived = Err(BlobError::Archived);
        assert_eq!(first.put("whole", put(b"new"), now()), archived);
        assert_eq!(first.set_metadata("whole", Vec::new(), &none, now()), archived);
        first.set_tags("whole", Vec::new(), &none, now()).unwrap();
        first.set_tier("whole", AccessTier::Hot, &none, now()).unwrap();
        // Another content is in the tier of the account again.
        first.put("whole", put(b"new"), now()).unwrap();
        assert_eq!(first.blob("whole").unwrap().description().tier, None);
    });
}
