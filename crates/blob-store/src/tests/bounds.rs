//! As much as there can be.

use super::*;
use crate::{ListRequest, ListStart, Listed};

#[test]
fn a_blob_of_as_many_blocks_as_there_can_be_takes_no_more_memory_than_their_names() {
    let directory = tempfile::tempdir().unwrap();
    let limits = BlobLimits::default();
    let memory = ByteSize::from_mebibytes(16);
    let disk = BlobStore::open(directory.path(), SyncPolicy::Os, memory, limits).unwrap();
    for store in [BlobStore::in_memory(memory, limits), disk] {
        let container = store.create_container("box", Vec::new(), now()).unwrap();
        let block = Bytes::from((0..4_000_000_u32).map(|number| number as u8).collect::<Vec<_>>());
        container.put_block("large", "QUE=", block, None, now()).unwrap();
        commit(&container, "large", &vec!["QUE="; 50_000]).unwrap();
        let blob = container.blob("large").unwrap();
        assert_eq!(blob.length(), 200_000_000_000);
        // Across the border of two blocks.
        let border = 123_456_000_000;
        let bytes = blob.read(border - 2..border + 2).read_to_end().unwrap();
        assert_eq!(*bytes, [(3_999_998 % 256) as u8, (3_999_999 % 256) as u8, 0, 1]);
        let block_bytes = 4_000_000;
        assert!(store.figures().memory_bytes < block_bytes + 8_000_000, "{:?}", store.figures());
    }
}

#[test]
fn names_that_stay_are_listed_once_while_others_come_and_go() {
    let store = BlobStore::in_memory(ByteSize::from_mebibytes(256), BlobLimits::default());
    let container = store.create_container("box", Vec::new(), now()).unwrap();
    let stays = |number: u32| format!("{:03}/{number:06}", number % 331);
    for number in 0..100_000 {
        container.put(&stays(number), put(b""), now()).unwrap();
    }
    let (mut listed, mut from): (Vec<String>, Option<(String, ListStart)>) = (Vec::new(), None);
    let mut page = 0;
    loop {
        let listing = container.list(&ListRequest {
            from: from.as_ref().map(|(name, start)| (name.as_str(), *start)),
            ..EVERYTHING
        });
        assert!(listing.entries.len() <= 5_000);
        listed.extend(listing.entries.into_iter().filter_map(|entry| match entry {
            Listed::Blob { name, .. } => Some(name).filter(|name| !name.ends_with('x')),
            other => panic!("{other:?}"),
        }));
        let Some(next) = listing.next else { break };
        // Where the next page begins, before and after it.
        for changed in [format!("{}x", next.0), format!("000/{page:06}x"), format!("330/{page:06}x")] {
            container.put(&changed, put(b""), now()).unwrap();
            if page % 2 == 0 {
                container.delete(&changed, &Conditions::default(), now()).unwrap();
            }
        }
        page += 1;
        from = Some(next);
    }
    let mut expected: Vec<String> = (0..100_000).map(stays).collect();
    expected.sort();
    assert_eq!(listed.len(), expected.len());
    assert!(listed == expected);
    let folders = container.list(&ListRequest { delimiter: Some("/"), ..EVERYTHING });
    assert_eq!((folders.entries.len(), folders.next), (331, None));
}
