//! Directories in which something is wrong.

use super::{Disk, SMALL, Service, flip_bit, records, rest, rest_into, try_append};
use partition_log::Start;
use partition_log::UnixTime;
use partition_log::disk::{Damage, DamageCause, OpenError, Problem, SyncPolicy, verify};
use partition_log::{Edge, batch::BatchHeader};
use std::fs;
use std::path::PathBuf;
use units::ByteSize;

const LENGTH: usize = 10_000;

/// A disk with several complete segments of 40 records.
fn filled() -> Disk {
    let disk = Disk { limits: *SMALL, ..Disk::new() };
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

/// What can be read from the beginning on, and what ends that, if it is not the end.
fn sound(service: &Service) -> (Vec<(u64, Vec<u8>)>, Option<Damage>) {
    let mut cursor = service.log.position(Start::Earliest).unwrap();
    let mut records = Vec::new();
    let damage = rest_into(&service.log, &mut cursor, &mut records).err();
    (records, damage)
}

/// All files, to be put back.
struct Snapshot(Vec<(PathBuf, Vec<u8>)>);

impl Snapshot {
    fn of(disk: &Disk) -> Self {
        let paths = [disk.segments(), disk.files_named("index")].concat();
        let with_content = |path: PathBuf| (path.clone(), fs::read(path).unwrap());
        Self(paths.into_iter().map(with_content).collect())
    }

    fn put_back(&self, disk: &Disk) {
        for path in [disk.segments(), disk.files_named("index")].concat() {
            fs::remove_file(path).unwrap();
        }
        for (path, content) in &self.0 {
            fs::write(path, content).unwrap();
        }
    }
}

/// A disk as `filled`, whose last segment has no sidecar since the process was killed.
fn killed() -> Disk {
    let disk = Disk { limits: *SMALL, ..Disk::new() };
    let service = disk.open();
    service.fill(40, LENGTH);
    service.crash();
    assert!(disk.files_named("index").len() < disk.segments().len());
    disk
}

#[test]
fn readers_get_what_is_sound_before_a_flipped_bit_and_then_an_error() {
    let disk = filled();
    flip_bit(&disk.segments()[1], 30_000);
    let service = disk.open();
    let (first, next) = (first_of(&disk, 1), first_of(&disk, 2));
    let (before, damage) = sound(&service);
    let damage = damage.unwrap();
    // Two whole batches come before the bit.
    assert!(before == records(0..first + 2, LENGTH));
    assert_eq!(damage.segment, first);
    assert!(damage.position > 20_000 && damage.position < 30_000);
    assert!(damage.to_string().contains("the checksum does not match"));
    assert_eq!(service.committer.counters().damaged_segments, 1);
    assert!(sound(&service) == (before, Some(damage)));
    let within = Start::SequenceNumber(first + 2, Edge::Inclusive);
    let mut cursor = service.log.position(within).unwrap();
    assert_eq!(rest(&service.log, &mut cursor).unwrap_err(), damage);
    assert_eq!(cursor.next_sequence_number(), first + 2);
    let after = Start::SequenceNumber(next, Edge::Inclusive);
    let mut cursor = service.log.position(after).unwrap();
    assert_eq!(rest(&service.log, &mut cursor).unwrap(), records(next..40, LENGTH));
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
    let (before, damage) = sound(&service);
    assert!(before == records(0..first + 2, LENGTH));
    assert_eq!(damage.unwrap().segment, first);
    assert_eq!(service.committer.counters().damaged_segments, 0, "it was reported at the start");
    let after = Start::SequenceNumber(next, Edge::Inclusive);
    let mut cursor = service.log.position(after).unwrap();
    assert_eq!(rest(&service.log, &mut cursor).unwrap(), records(next..40, LENGTH));
}

#[test]
fn whichever_file_is_missing_it_is_named_or_nothing_is_lost() {
    for disk in [filled(), killed()] {
        let files = Snapshot::of(&disk);
        let last = disk.segments().pop().unwrap();
        let has_sidecar = last.with_extension("index").exists();
        for (path, _) in &files.0 {
            fs::remove_file(path).unwrap();
            let name = path.file_stem().unwrap().to_str().unwrap();
            match disk.try_open() {
                Err(refused) => {
                    let refused = refused.to_string();
                    assert!(refused.contains(name) || refused.contains("are missing"), "{refused}");
                }
                // The only trace of the last segment was the segment.
                Ok(service) if *path == last && !has_sidecar => service.crash(),
                Ok(service) => {
                    assert!(path.extension().unwrap() == "index", "without {name}");
                    assert!(service.all() == records(0..40, LENGTH), "without {name}");
                    let appended = try_append(&service.log, 1, b"more").unwrap();
                    assert_eq!(appended.first_sequence_number, 40, "without {name}");
                    service.crash();
                }
            }
            files.put_back(&disk);
        }
    }
}

#[test]
fn whichever_file_is_cut_short_what_comes_before_is_served_and_numbers_go_on() {
    let disk = filled();
    let files = Snapshot::of(&disk);
    for (path, content) in &files.0 {
        for length in [0, content.len() / 2, content.len() - 1] {
            fs::write(path, &content[..length]).unwrap();
            let service = disk.open();
            let (before, damage) = sound(&service);
            let count = before.len() as u64;
            assert!(before == records(0..count, LENGTH));
            match path.extension().unwrap() == "index" {
                true => assert_eq!((count, damage), (40, None)),
                false => {
                    assert_eq!(service.report.damaged.len(), 1, "{}", service.report);
                    assert_eq!(&service.report.damaged[0].0, path);
                    assert_eq!(Some(service.report.damaged[0].1), damage);
                }
            }
            let appended = try_append(&service.log, 1, b"more").unwrap();
            assert_eq!(appended.first_sequence_number, 40);
            service.crash();
            files.put_back(&disk);
        }
    }
}

#[test]
fn whichever_bit_flips_what_comes_before_is_served_and_numbers_go_on() {
    for disk in [filled(), killed()] {
        let files = Snapshot::of(&disk);
        for (path, content) in &files.0 {
            for position in (0..content.len()).step_by(4_999) {
                flip_bit(path, position);
                let service = disk.open();
                let (before, damage) = sound(&service);
                let count = before.len() as u64;
                assert!(before == records(0..count, LENGTH));
                assert_eq!(count < 40, damage.is_some(), "{path:?} at {position}");
                let appended = try_append(&service.log, 1, b"more").unwrap();
                assert_eq!(appended.first_sequence_number, 40, "{path:?} at {position}");
                service.crash();
                files.put_back(&disk);
            }
        }
    }
}

#[test]
fn an_empty_file_in_the_place_of_a_missing_one_lets_the_rest_be_served() {
    let disk = filled();
    for path in disk.segments() {
        let content = fs::read(&path).unwrap();
        fs::remove_file(&path).unwrap();
        let refused = disk.try_open().map(|_| ()).unwrap_err().to_string();
        assert!(refused.contains("create an empty file"), "{refused}");
        fs::write(&path, b"").unwrap();
        let service = disk.open();
        assert_eq!(service.report.damaged.len(), 1);
        assert_eq!(service.log.stats().last_sequence_number, Some(39));
        service.close();
        fs::write(&path, content).unwrap();
    }
    assert_eq!(disk.open().all(), records(0..40, LENGTH));
}

#[test]
fn sidecars_that_are_missing_or_damaged_are_written_again() {
    let disk = filled();
    let sidecars = disk.files_named("index");
    let before: Vec<_> = sidecars.iter().map(|path| fs::read(path).unwrap()).collect();
    fs::remove_file(&sidecars[0]).unwrap();
    flip_bit(&sidecars[1], 20);
    fs::write(&sidecars[2], b"").unwrap();
    let service = disk.open();
    assert_eq!(service.report.rebuilt_sidecars, 3, "{}", service.report);
    assert_eq!(service.all(), records(0..40, LENGTH));
    let after: Vec<_> = sidecars.iter().map(|path| fs::read(path).unwrap()).collect();
    assert_eq!(before, after);
}

#[test]
fn a_sidecar_from_before_a_reboot_does_not_prove_what_was_not_synced() {
    let disk = Disk { limits: *SMALL, ..Disk::with(SyncPolicy::Os) };
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
    for (place, path) in disk.segments().iter().enumerate() {
        let end = disk.segments().len() - 1;
        let (first, next) = match place == end {
            true => (first_of(&disk, place), 40),
            false => (first_of(&disk, place), first_of(&disk, place + 1)),
        };
        let content = fs::read(path).unwrap();
        fs::remove_file(path).unwrap();
        let before = Snapshot::of(&disk);
        let Err(OpenError::MissingSegment { path: missing, events }) = disk.try_open().map(|_| ()) else {
            panic!("the gap was not noticed")
        };
        assert_eq!((&missing, events), (path, Some(first..next)));
        assert_eq!(Snapshot::of(&disk).0, before.0, "nothing was changed");
        fs::write(path, content).unwrap();
    }
}

#[test]
fn a_missing_segment_in_the_middle_is_noticed_without_its_sidecar_too() {
    let disk = filled();
    let (first, next) = (first_of(&disk, 1), first_of(&disk, 2));
    fs::remove_file(&disk.segments()[1]).unwrap();
    fs::remove_file(&disk.files_named("index")[1]).unwrap();
    let Err(OpenError::Missing { expected, found, .. }) = disk.try_open().map(|_| ()) else {
        panic!("the gap was not noticed")
    };
    assert_eq!((expected, found), (first, next));
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
    bytes[8] = 5;
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
    batches[28] = 3;
    let checksum = crc32c::crc32c(&batches[8..header.length as usize]);
    batches[4..8].copy_from_slice(&checksum.to_le_bytes());
    fs::write(&segment, &batches).unwrap();
    assert!(matches!(disk.try_open().map(|_| ()), Err(OpenError::NewerVersion { version: 3, .. })));
    assert_eq!(fs::read(&segment).unwrap(), batches);
}

#[test]
fn records_of_a_format_that_is_not_known_are_not_touched() {
    let disk = filled();
    fs::remove_file(disk.files_named("index").pop().unwrap()).unwrap();
    let segment = disk.segments().pop().unwrap();
    let mut batches = fs::read(&segment).unwrap();
    let header = BatchHeader::read(&batches).unwrap();
    batches[29] = 9;
    let checksum = crc32c::crc32c(&batches[8..header.length as usize]);
    batches[4..8].copy_from_slice(&checksum.to_le_bytes());
    fs::write(&segment, &batches).unwrap();
    let refused = disk.try_open().map(|_| ()).unwrap_err();
    assert!(matches!(refused, OpenError::UnknownFormat { format: 9, .. }));
    assert!(refused.to_string().contains("records of format 9"), "{refused}");
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
    assert_eq!(service.log.stats().last_append_time, Some(UnixTime::from_milliseconds(1)));
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
    let of = |path: &PathBuf| problems.iter().find(|(at, _)| at == path).map(|(_, it)| *it);
    assert!(matches!(of(&segments[1]), Some(Problem::Batch { position: 1.., .. })));
    assert_eq!(of(&sidecars[1]), Some(Problem::Contradiction));
    assert!(matches!(of(&segments[2]), Some(Problem::Gap { .. })));
    assert!(matches!(of(&sidecars[2]), Some(Problem::Sidecar(_))));
    assert_eq!(problems.len(), 4);
    assert_eq!(verify(disk.directory.path()).unwrap().problems, problems);

    let last = segments.last().unwrap();
    let cut = |length: u64| fs::OpenOptions::new().write(true).open(last).unwrap().set_len(length).unwrap();
    cut(fs::metadata(last).unwrap().len() - 1);
    let of_last =
        || verify(disk.directory.path()).unwrap().problems.into_iter().find(|(at, _)| at == last).unwrap().1;
    assert!(matches!(of_last(), Problem::Batch { .. }) && of_last().is_damage());
    let sidecar = sidecars.last().unwrap();
    let kept = fs::read(sidecar).unwrap();
    fs::remove_file(sidecar).unwrap();
    assert!(matches!(of_last(), Problem::TornTail { .. }) && !of_last().is_damage());
    fs::write(sidecar, kept).unwrap();

    fs::remove_file(last).unwrap();
    let problems = verify(disk.directory.path()).unwrap().problems;
    let missing = (sidecars.last().unwrap().clone(), Problem::MissingSegment);
    assert!(problems.contains(&missing));
}
