//! Page blobs against a plain list of pages.

use std::ops::Range;

use proptest::prelude::*;

use super::suite::everywhere;
use super::*;
use crate::{
    BlobForm, PAGE_BYTES, PageChange, PageRange, PageRequest, PropertiesRequest, SequenceAction,
    SequenceConditions, SnapshotTime,
};

fn pages(length: u64) -> PutRequest {
    PutRequest { content: PutContent::Page { length, sequence_number: 7 }, ..put(b"") }
}

fn write(range: Range<u64>, byte: u8) -> PageRequest {
    let content = vec![byte; (range.end - range.start) as usize];
    PageRequest {
        range,
        change: PageChange::Update(content.into()),
        sequence: SequenceConditions::default(),
        conditions: Conditions::default(),
    }
}

fn clear(range: Range<u64>) -> PageRequest {
    PageRequest { change: PageChange::Clear, ..write(range, 0) }
}

fn resize(container: &Container, length: u64) -> Result<(), BlobError> {
    let request = PropertiesRequest { length: Some(length), ..PropertiesRequest::default() };
    container.set_properties("disk", request, &Conditions::default(), now()).map(drop)
}

#[test]
fn pages_are_written_and_cleared_in_their_place_and_in_no_other() {
    everywhere(|store| {
        let container = store.create_container("box", Vec::new(), now()).unwrap();
        container.put("disk", pages(2048), now()).unwrap();
        assert_eq!(content(&container, "disk").unwrap(), vec![0; 2048]);
        let (version, number) = container.write_pages("disk", write(512..1536, 1), now()).unwrap();
        assert_eq!((version, number), (container.blob("disk").unwrap().version(), 7));
        container.write_pages("disk", clear(1024..1536), now()).unwrap();
        let expected = [vec![0; 512], vec![1; 512], vec![0; 1024]].concat();
        assert_eq!(content(&container, "disk").unwrap(), expected);
        let told = container.blob("disk").unwrap().page_ranges(0..2048, None).unwrap();
        assert_eq!(told, [PageRange { range: 512..1024, is_cleared: false }]);
        for wrong in [write(0..100, 1), write(1..513, 1), write(1536..2560, 1), write(512..512, 1)] {
            let refused = container.write_pages("disk", wrong, now()).unwrap_err();
            assert_eq!(refused, BlobError::InvalidPageRange);
        }
        let short = PageRequest { range: 0..1024, ..write(0..512, 1) };
        assert_eq!(container.write_pages("disk", short, now()).unwrap_err(), BlobError::InvalidPageRange);
        assert_eq!(content(&container, "disk").unwrap(), expected);
        container.put("text", put(b"text"), now()).unwrap();
        let other = container.write_pages("text", write(0..512, 1), now()).unwrap_err();
        assert_eq!(other, BlobError::InvalidBlobType);
        assert_eq!(container.blob("text").unwrap().page_ranges(0..4, None), Err(BlobError::InvalidBlobType));
    });
}

#[test]
fn sequence_numbers_are_set_and_are_conditions() {
    everywhere(|store| {
        let container = store.create_container("box", Vec::new(), now()).unwrap();
        container.put("disk", pages(512), now()).unwrap();
        let holds = |sequence| {
            let request = PageRequest { sequence, ..clear(0..512) };
            match container.write_pages("disk", request, now()) {
                Ok(_) => true,
                Err(BlobError::SequenceNumber) => false,
                Err(error) => panic!("{error}"),
            }
        };
        let none = SequenceConditions::default();
        for (value, at_most, below, equal) in
            [(6, false, false, false), (7, true, false, true), (8, true, true, false)]
        {
            assert_eq!(holds(SequenceConditions { at_most: Some(value), ..none }), at_most, "{value}");
            assert_eq!(holds(SequenceConditions { below: Some(value), ..none }), below, "{value}");
            assert_eq!(holds(SequenceConditions { equal: Some(value), ..none }), equal, "{value}");
        }
        for (action, number) in [
            (SequenceAction::Increment, 8),
            (SequenceAction::Maximum(3), 8),
            (SequenceAction::Maximum(12), 12),
            (SequenceAction::Update(2), 2),
        ] {
            let request = PropertiesRequest { sequence: Some(action), ..PropertiesRequest::default() };
            let set = container.set_properties("disk", request, &Conditions::default(), now()).unwrap();
            assert_eq!(set.1, Some(number));
            assert_eq!(container.blob("disk").unwrap().form(), BlobForm::Page { sequence_number: number });
        }
        container.put("text", put(b"text"), now()).unwrap();
        let request =
            PropertiesRequest { sequence: Some(SequenceAction::Increment), ..PropertiesRequest::default() };
        let refused = container.set_properties("text", request, &Conditions::default(), now());
        assert_eq!(refused.unwrap_err(), BlobError::InvalidBlobType);
    });
}

#[test]
fn a_blob_has_so_many_extents_and_no_more() {
    everywhere(|store| {
        let container = store.create_container("box", Vec::new(), now()).unwrap();
        container.put("disk", pages(1 << 40), now()).unwrap();
        let before = store.figures().memory_bytes;
        // With holes before, between and after them.
        container.write_pages("disk", write(1024..2048, 1), now()).unwrap();
        container.write_pages("disk", write(1 << 30..(1 << 30) + 512, 2), now()).unwrap();
        let refused = container.write_pages("disk", write(1 << 35..(1 << 35) + 512, 3), now());
        assert_eq!(refused.unwrap_err(), BlobError::TooManyBlocks);
        let told = container.blob("disk").unwrap().page_ranges(0..1 << 40, None).unwrap();
        assert_eq!(told.len(), 2);
        assert!(store.figures().memory_bytes < before + 16 * 1024);
    });
}

#[test]
fn what_is_not_kept_any_longer_has_no_file() {
    let directory = tempfile::tempdir().unwrap();
    let store = open(&directory);
    let container = store.create_container("box", Vec::new(), now()).unwrap();
    container.put("disk", pages(8192), now()).unwrap();
    for round in 0..16 {
        container.write_pages("disk", write(round * 512..(round + 1) * 512, 1), now()).unwrap();
    }
    // Side by side, they are one content.
    assert_eq!(files(&directory.path().join("box"), ".piece").len(), 1);
    container.write_pages("disk", clear(0..8192), now()).unwrap();
    assert_eq!(files(&directory.path().join("box"), ".piece").len(), 0);
}

/// One operation on a page blob, in pages.
#[derive(Clone, Debug)]
enum Step {
    Write(Range<u64>, u8),
    Clear(Range<u64>),
    Resize(u64),
    Snapshot,
    Restart,
    Copy,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let range = || (0_u64..400, 1_u64..200).prop_map(|(start, length)| start..(start + length).min(400));
    let small = || (0_u64..400).prop_map(|start| start..start + 1);
    let step = prop_oneof![
        4 => (small(), 1_u8..).prop_map(|(range, byte)| Step::Write(range, byte)),
        4 => (range(), 1_u8..).prop_map(|(range, byte)| Step::Write(range, byte)),
        2 => small().prop_map(Step::Clear),
        2 => range().prop_map(Step::Clear),
        1 => (0_u64..400).prop_map(Step::Resize),
        2 => Just(Step::Snapshot),
        1 => Just(Step::Restart),
        1 => Just(Step::Copy),
    ];
    proptest::collection::vec(step, 1..30)
}

/// The byte that fills a page, and the step that changed it last.
type Page = (u8, usize);

fn read(blob: &crate::Blob) -> Vec<u8> {
    let all = blob.read(0..blob.length()).read_to_end().unwrap();
    assert!(all.chunks(PAGE_BYTES as usize).all(|page| page.iter().all(|byte| *byte == page[0])));
    all.chunks(PAGE_BYTES as usize).map(|page| page[0]).collect()
}

/// The listed pages: written (`false`), cleared (`true`) or not listed.
fn told(blob: &crate::Blob, since: Option<SnapshotTime>) -> Vec<Option<bool>> {
    let mut pages = vec![None; (blob.length() / PAGE_BYTES) as usize];
    for told in blob.page_ranges(0..blob.length(), since).unwrap() {
        for page in told.range.start / PAGE_BYTES..told.range.end / PAGE_BYTES {
            pages[page as usize] = Some(told.is_cleared);
        }
    }
    pages
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 32, ..ProptestConfig::default() })]

    #[test]
    fn a_page_blob_is_what_was_written_to_it(steps in steps()) {
        let directory = tempfile::tempdir().unwrap();
        let limits = BlobLimits::default();
        let open = || BlobStore::open(directory.path(), SyncPolicy::Os, ByteSize::from_mebibytes(64), limits);
        let mut store = open().unwrap();
        let mut container = store.create_container("box", Vec::new(), now()).unwrap();
        container.put("disk", pages(400 * PAGE_BYTES), now()).unwrap();
        let mut model: Vec<Page> = vec![(0, 0); 400];
        let mut snapshots: Vec<(SnapshotTime, usize, Vec<Page>)> = Vec::new();
        for (number, step) in steps.into_iter().enumerate() {
            let number = number + 1;
            match step {
                Step::Write(range, byte) if range.end <= model.len() as u64 => {
                    let bytes = range.start * PAGE_BYTES..range.end * PAGE_BYTES;
                    container.write_pages("disk", write(bytes, byte), now()).unwrap();
                    model[range.start as usize..range.end as usize].fill((byte, number));
                }
                Step::Clear(range) if range.end <= model.len() as u64 => {
                    let bytes = range.start * PAGE_BYTES..range.end * PAGE_BYTES;
                    container.write_pages("disk", clear(bytes), now()).unwrap();
                    model[range.start as usize..range.end as usize].fill((0, number));
                }
                Step::Write(..) | Step::Clear(_) => {}
                Step::Resize(length) => {
                    resize(&container, length * PAGE_BYTES).unwrap();
                    model.resize(length as usize, (0, number));
                }
                Step::Snapshot => {
                    let made = container.create_snapshot("disk", Vec::new(), &Conditions::default(), now());
                    snapshots.push((made.unwrap().1, number, model.clone()));
                }
                Step::Restart => {
                    store.close().unwrap();
                    drop((container, store));
                    store = open().unwrap();
                    container = store.container("box").unwrap();
                }
                Step::Copy => {
                    let copied = crate::CopyRequest {
                        source: container.blob("disk").unwrap(),
                        description: Description::default(),
                        conditions: Conditions::default(),
                        replacing: Replacing::Allowed,
                        form: crate::CopyForm::Same,
                    };
                    container.copy("copy", copied, now()).unwrap();
                    let blob = container.blob("copy").unwrap();
                    prop_assert_eq!(read(&blob), model.iter().map(|page| page.0).collect::<Vec<_>>());
                }
            }
            let blob = container.blob("disk").unwrap();
            prop_assert_eq!(read(&blob), model.iter().map(|page| page.0).collect::<Vec<_>>());
            let written: Vec<_> = model.iter().map(|page| (page.0 > 0).then_some(false)).collect();
            prop_assert_eq!(told(&blob, None), written);
        }
        let blob = container.blob("disk").unwrap();
        for (time, at, then) in &snapshots {
            let snapshot = container.snapshot("disk", *time).unwrap();
            prop_assert_eq!(read(&snapshot), then.iter().map(|page| page.0).collect::<Vec<_>>());
            let changed: Vec<_> =
                model.iter().map(|page| (page.1 > *at).then_some(page.0 == 0)).collect();
            prop_assert_eq!(told(&blob, Some(*time)), changed);
        }
    }
}
