//! Directories in which something is wrong.

use super::{Disk, SMALL, flip_bit, records, rest};
use hub::UnixTime;
use hub::log::Start;
use hub::log::disk::{DamageCause, OpenError, Problem, SyncPolicy, verify};
use hub::log::{Edge, batch::BatchHeader};
use std::fs;
use std::path::PathBuf;
use units::ByteSize;

const LENGTH: usize = 10_000;

/// A disk with several complete segments of 40 records.
fn filled() -> Disk {
    let disk = Disk {
        limits: *SMALL,
        ..Disk::new()
    };
    let service = disk.open();
    service.fill(40, LENGTH);
    service.close();
    assert!(disk.segments().len() > 3);
    disk
}

/// The first sequence number of the segment at `place`.
fn first_of(disk: &Disk, place: usize) -> u64 {
    let name = disk.segments()[place].file_stem().unwrap().to_owned();
    name.to_str().unwrap().parse().unwrap()
}

#[test]
fn a_flipped_bit_is_told_to_the_reader_and_never_skipped() {
    let disk = filled();
    flip_bit(&disk.segments()[1], 30_000);
    let service = disk.open();
    let (first, next) = (first_of(&disk, 1), first_of(&disk, 2));
    let mut cursor = service.log.position(Start::Earliest).unwrap();
    let damage = rest(&service.log, &mut cursor).unwrap_err();
    assert_eq!(cursor.next_sequence_number(), first);
    assert_eq!(damage.segment, first);
    assert!(damage.position > 0 && damage.position < 30_000);
    assert!(damage.to_string().contains("the checksum does not match"));
    assert_eq!(service.committer.counters().damaged_segments, 1);
    assert_eq!(rest(&service.log, &mut cursor).unwrap_err(), damage);
    let after = Start::SequenceNumber(next, Edge::Inclusive);
    let mut cursor = service.log.position(after).unwrap();
    assert_eq!(
        rest(&service.log, &mut cursor).unwrap(),
        records(next..40, LENGTH)
    );
}

#[test]
fn a_damaged_segment_whose_sidecar_is_missing_is_found_at_the_start() {
    let disk = filled();
    flip_bit(&disk.segments()[1], 30_000);
    fs::remove_file(&disk.files_named("index")[1]).unwrap();
    let service = disk.open();
    let (first, next) = (first_of(&disk, 1), first_of(&disk, 2));
    assert_eq!(service.report.damaged.len(), 1);
    assert!(service.report.torn.is_empty());
    assert_eq!(service.log.stats().last_sequence_number, Some(39));
    let mut cursor = service.log.position(Start::Earliest).unwrap();
    assert_eq!(rest(&service.log, &mut cursor).unwrap_err().segment, first);
    let after = Start::SequenceNumber(next, Edge::Inclusive);
    let mut cursor = service.log.position(after).unwrap();
    assert_eq!(
        rest(&service.log, &mut cursor).unwrap(),
        records(next..40, LENGTH)
    );
}

#[test]
fn sidecars_that_are_missing_or_damaged_are_written_again() {
    let disk = filled();
    let sidecars = disk.files_named("index");
    let before: Vec<_> = sidecars
        .iter()
        .map(|path| fs::read(path).unwrap())
        .collect();
    fs::remove_file(&sidecars[0]).unwrap();
    flip_bit(&sidecars[1], 20);
    fs::write(&sidecars[2], b"").unwrap();
    let service = disk.open();
    assert_eq!(service.report.rebuilt_sidecars, 3, "{}", service.report);
    assert_eq!(service.all(), records(0..40, LENGTH));
    let after: Vec<_> = sidecars
        .iter()
        .map(|path| fs::read(path).unwrap())
        .collect();
    assert_eq!(before, after);
}

#[test]
fn a_sidecar_of_another_run_of_the_system_does_not_vouch_for_what_was_not_synced() {
    let disk = Disk {
        limits: *SMALL,
        ..Disk::with(SyncPolicy::Os)
    };
    let service = disk.open();
    service.fill(40, LENGTH);
    service.crash();
    disk.files.cut_power(|most| most);
    let again = disk.open();
    assert_eq!(again.report.scanned_bytes, again.report.bytes);
    assert_eq!(again.all(), records(0..40, LENGTH));
}

#[test]
fn a_segment_that_is_missing_is_named_and_the_start_refused() {
    let disk = filled();
    let (first, next) = (first_of(&disk, 1), first_of(&disk, 2));
    fs::remove_file(&disk.segments()[1]).unwrap();
    let before = disk.files.state().operations;
    let Err(OpenError::Missing {
        expected, found, ..
    }) = disk.try_open().map(|_| ())
    else {
        panic!("the gap was not noticed")
    };
    assert_eq!((expected, found), (first, next));
    assert!(disk.files.state().operations > before);
    assert_eq!(
        disk.files_named("index").len(),
        disk.segments().len() + 1,
        "nothing was changed"
    );
}

#[test]
fn a_segment_file_of_another_length_is_noticed() {
    let disk = filled();
    let path = &disk.segments()[1];
    let bytes = fs::read(path).unwrap();
    for other in [&bytes[..bytes.len() - 1], &[&bytes[..], b"x"].concat()] {
        fs::write(path, other).unwrap();
        let service = disk.open();
        assert_eq!(service.report.damaged.len(), 1);
        assert_eq!(service.log.stats().last_sequence_number, Some(39));
    }
}

#[test]
fn a_segment_file_that_shrinks_after_the_start_is_damage() {
    let disk = filled();
    let service = disk.open();
    let path = &disk.segments()[1];
    let bytes = fs::read(path).unwrap();
    fs::write(path, &bytes[..5000]).unwrap();
    let mut cursor = service.log.position(Start::Earliest).unwrap();
    let damage = rest(&service.log, &mut cursor).unwrap_err();
    assert_eq!((damage.position, damage.cause), (5000, DamageCause::Length));
}

#[test]
fn a_segment_that_could_not_be_read_is_tried_again_for_the_next_reader() {
    let disk = filled();
    let service = disk.open();
    disk.files.state().reads_fail = true;
    let mut cursor = service.log.position(Start::Earliest).unwrap();
    let damage = rest(&service.log, &mut cursor).unwrap_err();
    assert!(matches!(damage.cause, DamageCause::Read(_)));
    disk.files.state().reads_fail = false;
    assert_eq!(service.all(), records(0..40, LENGTH));
}

#[test]
fn what_a_newer_version_wrote_is_not_touched() {
    let disk = filled();
    let path = disk.files_named("index").pop().unwrap();
    let mut bytes = fs::read(&path).unwrap();
    bytes[8] = 2;
    let checksum = crc32c::crc32c(&bytes[8..]);
    bytes[4..8].copy_from_slice(&checksum.to_le_bytes());
    bytes.truncate(72);
    fs::write(&path, &bytes).unwrap();
    let refused = disk.try_open().map(|_| ()).unwrap_err();
    assert!(refused.to_string().contains("newer version"), "{refused}");
    assert_eq!(fs::read(&path).unwrap(), bytes);

    fs::remove_file(&path).unwrap();
    let segment = disk.segments().pop().unwrap();
    let mut batches = fs::read(&segment).unwrap();
    let header = BatchHeader::read(&batches).unwrap();
    batches[28] = 2;
    let checksum = crc32c::crc32c(&batches[8..header.length as usize]);
    batches[4..8].copy_from_slice(&checksum.to_le_bytes());
    fs::write(&segment, &batches).unwrap();
    assert!(matches!(
        disk.try_open().map(|_| ()),
        Err(OpenError::NewerVersion { version: 2, .. })
    ));
    assert_eq!(fs::read(&segment).unwrap(), batches);
}

#[test]
fn files_that_are_not_ours_are_left_alone() {
    let disk = filled();
    let foreign = disk.path().join("notes.log");
    fs::write(&foreign, b"mine").unwrap();
    let service = disk.open();
    assert_eq!(service.all(), records(0..40, LENGTH));
    assert_eq!(fs::read(&foreign).unwrap(), b"mine");
}

#[test]
fn a_whole_segment_in_memory_is_not_affected_by_what_happens_to_its_file() {
    let mut disk = Disk::new();
    disk.limits = *SMALL;
    disk.options.resident = ByteSize::from_mebibytes(16);
    let service = disk.open();
    service.fill(40, LENGTH);
    flip_bit(&disk.segments()[0], 100);
    assert_eq!(service.all(), records(0..40, LENGTH));
    assert_eq!(
        service.log.stats().last_append_time,
        Some(UnixTime::from_milliseconds(1))
    );
}

#[test]
fn verifying_reads_everything_names_each_problem_and_changes_nothing() {
    let disk = filled();
    let whole = verify(disk.directory.path()).unwrap();
    assert_eq!((whole.records, &whole.problems[..]), (40, &[][..]));
    assert_eq!(whole.segments, disk.segments().len() as u64);

    let (segments, sidecars) = (disk.segments(), disk.files_named("index"));
    flip_bit(&segments[1], 30_000);
    flip_bit(&sidecars[2], 30);
    let problems = verify(disk.directory.path()).unwrap().problems;
    let of = |path: &PathBuf| {
        problems
            .iter()
            .find(|(at, _)| at == path)
            .map(|(_, it)| *it)
    };
    assert!(matches!(
        of(&segments[1]),
        Some(Problem::Batch { position: 1.., .. })
    ));
    assert_eq!(of(&sidecars[1]), Some(Problem::Contradiction));
    assert!(matches!(of(&segments[2]), Some(Problem::Gap { .. })));
    assert!(matches!(of(&sidecars[2]), Some(Problem::Sidecar(_))));
    assert_eq!(problems.len(), 4);
    assert_eq!(verify(disk.directory.path()).unwrap().problems, problems);
}
