//! What holds in memory and on a disk alike.

use super::*;
use crate::{EtagCondition, ListRequest, Listed, ListedBlock};

/// Runs a test with an account in memory, and with one on a disk.
pub(super) fn everywhere(test: impl Fn(&BlobStore)) {
    test(&BlobStore::in_memory(MEMORY, LIMITS));
    let directory = tempfile::tempdir().unwrap();
    test(&open(&directory));
}

#[test]
fn containers_come_and_go_with_their_blobs() {
    everywhere(|store| {
        let missing = store.container("box").unwrap_err();
        assert_eq!(missing, BlobError::ContainerNotFound);
        let first = store.create_container("box", Vec::new(), now()).unwrap();
        let again = store.create_container("box", Vec::new(), now());
        assert_eq!(again.unwrap_err(), BlobError::ContainerAlreadyExists);
        first.put("a", put(b"1"), now()).unwrap();
        assert_eq!(store.figures().blobs, 1);
        store.delete_container("box", &Conditions::default(), now()).unwrap();
        let gone = store.delete_container("box", &Conditions::default(), now()).unwrap_err();
        assert_eq!(gone, BlobError::ContainerNotFound);
        // Who has it still can't write into the one that has its name now.
        let second = store.create_container("box", Vec::new(), now()).unwrap();
        let late = first.put("a", put(b"2"), now()).unwrap_err();
        assert_eq!(late, BlobError::ContainerNotFound);
        assert_eq!(second.blob("a").unwrap_err(), BlobError::BlobNotFound);
        assert!(second.properties().version().etag > first.properties().version().etag);
    });
}

#[test]
fn a_blob_is_read_as_a_whole_and_in_part_and_every_version_has_its_tag() {
    everywhere(|store| {
        let container = store.create_container("box", Vec::new(), now()).unwrap();
        let first = container.put("a", put(b"0123456789"), now()).unwrap();
        let blob = container.blob("a").unwrap();
        assert_eq!(bytes(blob.read(2..6)), b"2345");
        assert_eq!(bytes(blob.read(8..99)), b"89");
        assert_eq!(bytes(blob.read(10..99)), b"");
        let metadata = vec![("ownerid".to_owned(), String::new())];
        let conditions =
            Conditions { if_match: Some(EtagCondition::OneOf(vec![first.etag])), ..Conditions::default() };
        let second = container.set_metadata("a", metadata.clone(), &conditions, now()).unwrap();
        assert!(second.etag > first.etag);
        let stale = container.set_metadata("a", metadata.clone(), &conditions, now());
        assert_eq!(stale.unwrap_err(), BlobError::ConditionNotMet);
        assert_eq!(container.blob("a").unwrap().description().metadata, metadata);
        assert_eq!(content(&container, "a").unwrap(), b"0123456789");
        container.put("a", put(b"new"), now()).unwrap();
        let replaced = container.blob("a").unwrap();
        assert!(replaced.description().metadata.is_empty());
        // Whoever reads goes on with the version that was there.
        assert_eq!(bytes(blob.read(0..10)), b"0123456789");
        container.delete("a", &Conditions::default(), now()).unwrap();
        let gone = container.delete("a", &Conditions::default(), now());
        assert_eq!(gone.unwrap_err(), BlobError::BlobNotFound);
        let missing = container.set_metadata("a", metadata, &conditions, now());
        assert_eq!(missing.unwrap_err(), BlobError::BlobNotFound);
    });
}

#[test]
fn who_may_only_create_does_not_replace() {
    everywhere(|store| {
        let container = store.create_container("box", Vec::new(), now()).unwrap();
        let create = || PutRequest { replacing: Replacing::Forbidden, ..put(b"1") };
        container.put("a", create(), now()).unwrap();
        let again = container.put("a", create(), now()).unwrap_err();
        assert_eq!(again, BlobError::MayNotReplace);
    });
}

#[test]
fn blocks_become_a_blob_in_the_order_of_their_list() {
    everywhere(|store| {
        let container = store.create_container("box", Vec::new(), now()).unwrap();
        for (id, content) in [("QUE=", b"11"), ("QUI=", b"22"), ("QUM=", b"33")] {
            let content = Bytes::from_static(content);
            container.put_block("blob", id, content, None, now()).unwrap();
        }
        // Nothing is to be seen before it is committed, unless it is asked for.
        assert_eq!(container.blob("blob").unwrap_err(), BlobError::BlobNotFound);
        assert_eq!(container.list(&EVERYTHING).entries.len(), 0);
        let uncommitted = ListRequest { with_uncommitted: true, ..EVERYTHING };
        let listed = container.list(&uncommitted).entries;
        assert!(matches!(&listed[..], [Listed::Uncommitted { name, .. }] if name == "blob"), "{listed:?}");
        let fourth = container.put_block("blob", "QUQ=", Bytes::new(), None, now());
        assert_eq!(fourth.unwrap_err(), BlobError::TooManyBlocks);
        assert_eq!(commit(&container, "blob", &["QUX="]), Err(BlobError::InvalidBlockList));
        commit(&container, "blob", &["QUM=", "QUE=", "QUM="]).unwrap();
        assert_eq!(content(&container, "blob").unwrap(), b"331133");
        assert!(matches!(&container.list(&uncommitted).entries[..], [Listed::Blob { .. }]));
        // What was not in the list is gone; what is committed can be taken again.
        assert_eq!(commit(&container, "blob", &["QUI="]), Err(BlobError::InvalidBlockList));
        container.put_block("blob", "QUE=", Bytes::from_static(b"newer"), None, now()).unwrap();
        let listed = |id: &str, length| ListedBlock { id: id.to_owned(), length };
        let lists = container.block_lists("blob", None, now()).unwrap();
        let expected = [listed("QUM=", 2), listed("QUE=", 2), listed("QUM=", 2)];
        assert_eq!(lists.committed, expected);
        assert_eq!(lists.uncommitted, [listed("QUE=", 5)]);
        commit(&container, "blob", &["QUE=", "QUM="]).unwrap();
        assert_eq!(content(&container, "blob").unwrap(), b"newer33");
        assert_eq!(commit(&container, "blob", &["QUE="; 5]), Err(BlobError::TooManyBlocks));
        for id in ["", "?", "QUEQ", &"QUFB".repeat(22)] {
            let wrong = container.put_block("blob", id, Bytes::new(), None, now());
            if id != "QUEQ" {
                assert_eq!(wrong.unwrap_err(), BlobError::InvalidBlockId, "{id}");
            }
        }
        let mixed = container.put_block("blob", "QUFBQUFB", Bytes::new(), None, now());
        assert_eq!(mixed.unwrap_err(), BlobError::InvalidBlockId);
    });
}

#[test]
fn what_is_appended_is_at_the_end_and_conditions_are_of_the_moment() {
    everywhere(|store| {
        let container = store.create_container("box", Vec::new(), now()).unwrap();
        let append = |content: &'static [u8], position, maximum_length| {
            let request = AppendRequest { position, maximum_length, ..appended(content) };
            container.append("log", request, now())
        };
        assert_eq!(append(b"1", None, None), Err(BlobError::BlobNotFound));
        let empty = PutRequest { content: PutContent::Append, ..put(b"") };
        container.put("log", empty, now()).unwrap();
        assert_eq!(append(b"one ", None, None).unwrap().offset, 0);
        let second = append(b"two", Some(4), Some(7)).unwrap();
        assert_eq!((second.offset, second.blocks), (4, 2));
        assert_eq!(append(b"x", Some(4), None), Err(BlobError::AppendPosition));
        assert_eq!(append(b"x", None, Some(7)), Err(BlobError::MaximumSize));
        assert_eq!(content(&container, "log").unwrap(), b"one two");
        let block = container.put_block("log", "QUE=", Bytes::new(), None, now());
        assert_eq!(block.unwrap_err(), BlobError::InvalidBlobType);
        append(b"!", None, None).unwrap();
        append(b"!", None, None).unwrap();
        assert_eq!(append(b"!", None, None), Err(BlobError::TooManyBlocks));
        container.put("plain", put(b"1"), now()).unwrap();
        let wrong = container.append("plain", appended(b"2"), now());
        assert_eq!(wrong, Err(BlobError::InvalidBlobType));
    });
}

#[test]
fn memory_is_bounded_and_given_back() {
    let store = BlobStore::in_memory(MEMORY, LIMITS);
    let container = store.create_container("box", Vec::new(), now()).unwrap();
    let before = store.figures().memory_bytes;
    let mebibyte = vec![7; 1 << 20];
    for name in ["a", "b", "c"] {
        container.put(name, put(&mebibyte), now()).unwrap();
    }
    let full = BlobError::OutOfMemory { limit: MEMORY };
    assert_eq!(container.put("d", put(&mebibyte), now()), Err(full));
    let waiting = Bytes::from(mebibyte.clone());
    assert_eq!(container.put_block("e", "QUE=", waiting, None, now()), Err(full));
    assert_eq!(container.blob("d").unwrap_err(), BlobError::BlobNotFound);
    for name in ["a", "b", "c"] {
        container.delete(name, &Conditions::default(), now()).unwrap();
    }
    assert_eq!(store.figures().memory_bytes, before);
    let mut names = (0..).map(|number| format!("blob-{number}"));
    let refused = names.find(|name| container.put(name, put(b""), now()).is_err());
    assert!(refused.is_some(), "empty blobs take memory too");
}

#[test]
fn of_many_writers_with_one_tag_one_wins() {
    everywhere(|store| {
        let container = store.create_container("box", Vec::new(), now()).unwrap();
        let mut etag = container.put("a", put(b""), now()).unwrap().etag;
        for round in 0..20 {
            let winners: Vec<_> = std::thread::scope(|scope| {
                let threads: Vec<_> = (0..4)
                    .map(|owner| {
                        let container = &container;
                        scope.spawn(move || {
                            let metadata = vec![("ownerid".to_owned(), owner.to_string())];
                            let conditions = Conditions {
                                if_match: Some(EtagCondition::OneOf(vec![etag])),
                                ..Conditions::default()
                            };
                            container
                                .set_metadata("a", metadata, &conditions, now())
                                .map(|version| (owner, version.etag))
                        })
                    })
                    .collect();
                threads.into_iter().filter_map(|thread| thread.join().unwrap().ok()).collect()
            });
            let [(owner, won)] = winners[..] else {
                panic!("{} won round {round}", winners.len());
            };
            let blob = container.blob("a").unwrap();
            assert_eq!(blob.description().metadata[0].1, owner.to_string());
            etag = won;
        }
    });
}

#[test]
fn of_many_creators_one_wins() {
    everywhere(|store| {
        let container = store.create_container("box", Vec::new(), now()).unwrap();
        for round in 0..20 {
            let name = format!("blob-{round}");
            let created = std::thread::scope(|scope| {
                let threads: Vec<_> = (0..4)
                    .map(|_| {
                        let (container, name) = (&container, &name);
                        scope.spawn(move || {
                            let request = PutRequest {
                                conditions: Conditions {
                                    if_none_match: Some(EtagCondition::Any),
                                    ..Conditions::default()
                                },
                                ..put(b"1")
                            };
                            container.put(name, request, now()).is_ok()
                        })
                    })
                    .collect();
                threads.into_iter().map(|thread| thread.join().unwrap()).filter(|created| *created).count()
            });
            assert_eq!(created, 1);
        }
    });
}

#[test]
fn listings_are_cut_at_delimiters() {
    everywhere(|store| {
        let container = store.create_container("box", Vec::new(), now()).unwrap();
        for name in ["a", "a/1", "a/2", "a/b/1", "a0", "b/1"] {
            container.put(name, put(b""), now()).unwrap();
        }
        let listed = |prefix, from: Option<&(String, crate::ListStart)>| {
            let from = from.map(|(name, start)| (name.as_str(), *start));
            let request = ListRequest { prefix, delimiter: Some("/"), from, maximum: 2, ..EVERYTHING };
            let listing = container.list(&request);
            let names: Vec<String> = listing
                .entries
                .into_iter()
                .map(|entry| match entry {
                    Listed::Blob { name, .. } => name,
                    Listed::Uncommitted { name, .. } => format!("{name}?"),
                    Listed::Prefix(prefix) => format!("{prefix}*"),
                })
                .collect();
            (names, listing.next)
        };
        let (names, next) = listed("", None);
        assert_eq!(names, ["a", "a/*"]);
        let (names, next) = listed("", next.as_ref());
        assert_eq!(names, ["a0", "b/*"]);
        assert_eq!(next, None);
        let (names, next) = listed("a/", None);
        assert_eq!(names, ["a/1", "a/2"]);
        assert_eq!(listed("a/", next.as_ref()).0, ["a/b/*"]);
        assert!(listed("c", None).0.is_empty());
    });
}

#[test]
fn tags_are_no_part_of_a_version_and_find_blobs() {
    everywhere(|store| {
        let tags = |pairs: &[(&str, &str)]| -> crate::Tags {
            pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
        };
        let none = Conditions::default();
        for (container, name, year) in [("box", "a", "2025"), ("box", "b", "2026"), ("other", "c", "2026")] {
            let container = store
                .container(container)
                .or_else(|_| store.create_container(container, Vec::new(), now()))
                .unwrap();
            let mut request = put(b"1");
            request.description.tags = tags(&[("year", year)]);
            container.put(name, request, now()).unwrap();
        }
        let container = store.container("box").unwrap();
        let version = container.blob("a").unwrap().version();
        container.set_tags("a", tags(&[("kind", "log"), ("year", "2026")]), &none, now()).unwrap();
        assert_eq!(container.blob("a").unwrap().version(), version);
        let expression = crate::TagExpression::parse("year = '2026'").unwrap();
        let find = |container, from, maximum| {
            let (found, next) = store.find(container, &expression, from, maximum);
            let names: Vec<_> =
                found.iter().map(|found| format!("{}/{}", found.container, found.name)).collect();
            (names.join(" "), next.map(|(container, name)| format!("{container}/{name}")))
        };
        assert_eq!(find(None, None, 9), ("box/a box/b other/c".to_owned(), None));
        assert_eq!(find(Some("other"), None, 9), ("other/c".to_owned(), None));
        assert_eq!(find(None, None, 1), ("box/a".to_owned(), Some("box/b".to_owned())));
        assert_eq!(find(None, Some(("box", "b")), 9).0, "box/b other/c");
        // Of its tags, those that the expression names.
        let (found, _) = store.find(Some("box"), &expression, None, 1);
        assert_eq!(found[0].tags, tags(&[("year", "2026")]));
        // A condition on tags is one of the blob that is there.
        let wanted =
            |text| Conditions { if_tags: crate::TagExpression::parse(text), ..Conditions::default() };
        let refused = container.delete("a", &wanted("kind = 'none'"), now());
        assert_eq!(refused, Err(BlobError::ConditionNotMet));
        let refused = container.set_tags("a", Vec::new(), &wanted("kind = 'none'"), now());
        assert_eq!(refused, Err(BlobError::ConditionNotMet));
        container.set_metadata("a", Vec::new(), &wanted("kind = 'log'"), now()).unwrap();
        assert_eq!(container.blob("a").unwrap().description().tags.len(), 2);
        // What is written anew has its own tags.
        container.put("a", put(b"2"), now()).unwrap();
        assert!(container.blob("a").unwrap().description().tags.is_empty());
    });
}
