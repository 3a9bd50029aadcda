//! What is known of transactions after a restart, whatever ended the process before: against a list of everything that was
//! acknowledged.

use super::{Disk, SMALL, Service, flip_bit, settle, wait_for, wait_until};
use kafka::record_batch::{self, RecordBatch};
use partition_log::disk::{CommitState, SyncPolicy, verify};
use partition_log::{
    AbortedTransaction, Appended, Cursor, LogChunk, Produced, Readiness, Start, Subscriber, TransactionEnd,
    TransactionMarker, UnixTime, WhenFull,
};
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::fs;
use std::time::Duration;
use units::{ByteSize, Random};

const NOW: UnixTime = UnixTime::from_milliseconds(1);
const COMMIT: TransactionEnd = TransactionEnd::Commit;
const ABORT: TransactionEnd = TransactionEnd::Abort;

/// A batch of one record of this length, in a transaction if it has a producer and a sequence.
fn batch(producer: Option<(i64, i32)>, length: usize) -> Vec<u8> {
    let mut batch = vec![0; RecordBatch::HEADER_LENGTH];
    kafka::record::encode(&mut batch, 0, None, Some(&vec![7; length]), std::iter::empty());
    record_batch::complete(&mut batch, 0, -1, 1, 1);
    if let Some((id, sequence)) = producer {
        batch[22] |= 0b1_0000;
        batch[43..51].copy_from_slice(&id.to_be_bytes());
        batch[51..53].copy_from_slice(&0_i16.to_be_bytes());
        batch[53..57].copy_from_slice(&sequence.to_be_bytes());
        let checksum = crc32c::crc32c(&batch[21..]);
        batch[17..21].copy_from_slice(&checksum.to_be_bytes());
    }
    batch
}

fn append(service: &Service, producer: Option<(i64, i32)>, length: usize) -> Appended {
    let batch = batch(producer, length);
    match service.log.append_record_batch(NOW, &RecordBatch::check(&batch).unwrap()) {
        Ok(Produced::Stored(appended)) => appended,
        other => panic!("{other:?}"),
    }
}

fn end(service: &Service, id: i64, end: TransactionEnd) -> Option<Appended> {
    let marker = TransactionMarker { producer_id: id, producer_epoch: 0, end, coordinator_epoch: 0 };
    service.log.end_transaction(NOW, &marker).unwrap()
}

fn store(service: &Service, producer: Option<(i64, i32)>, length: usize) -> u64 {
    let appended = append(service, producer, length);
    assert_eq!(settle(&service.committer, appended.commit), CommitState::Done);
    appended.first_sequence_number
}

fn store_end(service: &Service, id: i64, how: TransactionEnd) -> u64 {
    let appended = end(service, id, how).unwrap();
    assert_eq!(settle(&service.committer, appended.commit), CommitState::Done);
    appended.first_sequence_number
}

fn open(service: &Service) -> Vec<(i64, u64)> {
    let open = service.log.open_transactions();
    open.iter().map(|open| (open.producer_id, open.first_sequence_number)).collect()
}

fn aborted(producer_id: i64, first: u64, marker: u64) -> AbortedTransaction {
    AbortedTransaction { producer_id, first_sequence_number: first, marker_sequence_number: marker }
}

/// What is at `cursor`, waiting for it to be loaded; `None` at the end, which is the number `end`.
fn read(service: &Service, cursor: &mut Cursor, end: u64) -> Option<LogChunk> {
    let subscriber = Subscriber::new();
    let mut subscription = service.log.subscribe(&subscriber, 0);
    loop {
        if let Some(chunk) = service.log.read(cursor, 100_000) {
            return Some(chunk);
        }
        if cursor.next_sequence_number() >= end {
            return None;
        }
        if subscription.arm(cursor) == Readiness::Waiting {
            let mut keys = Vec::new();
            wait_until(|context| subscriber.poll_ready(context, &mut keys));
        }
    }
}

/// The numbers of the records that a reader of committed records gets: those before the stable end that were not aborted, and
/// are no markers.
fn committed(service: &Service) -> Vec<u64> {
    let stable = service.log.end().stable_sequence_number;
    let mut cursor = service.log.position_committed(Start::Earliest).unwrap();
    let mut numbers = Vec::new();
    while let Some(chunk) = read(service, &mut cursor, stable) {
        for batch in chunk.batches() {
            let number = batch.first_sequence_number;
            let stored = RecordBatch::read(batch.bytes).unwrap();
            let producer = stored.producer().filter(|_| stored.is_transactional());
            let is_aborted = producer.is_some_and(|producer| service.log.is_aborted(producer.id, number));
            if !stored.is_control() && !is_aborted {
                numbers.push(number);
            }
        }
    }
    numbers
}

#[test]
fn readers_see_the_end_of_a_transaction_when_its_marker_is_committed() {
    let disk = Disk::new();
    let service = disk.open();
    let first = store(&service, Some((7, 0)), 10);
    disk.files.state().gate_closed = true;
    let marker = end(&service, 7, COMMIT).unwrap();
    disk.files.wait_for_sync();
    assert_eq!((open(&service), service.log.end().stable_sequence_number), (vec![], first));
    // Who asks again waits for the same.
    let again = end(&service, 7, COMMIT).unwrap();
    assert_eq!(again.first_sequence_number, marker.first_sequence_number);
    assert_eq!(service.committer.state_of(again.commit), CommitState::Waiting);
    disk.files.open_gate();
    assert_eq!(settle(&service.committer, again.commit), CommitState::Done);
    assert_eq!(service.log.end().stable_sequence_number, 2);
    assert_eq!(end(&service, 7, COMMIT), None);
}

#[test]
fn transactions_are_known_after_a_close_and_after_a_crash() {
    for policy in [SyncPolicy::Always, SyncPolicy::default(), SyncPolicy::Os] {
        let disk = Disk { limits: *SMALL, ..Disk::with(policy) };
        let mut service = disk.open();
        let long = store(&service, Some((1, 0)), 10);
        let mut expected = Vec::new();
        for round in 0..30 {
            let first = store(&service, Some((7, round)), 5_000);
            store(&service, None, 3_000);
            let end = if round % 3 == 0 { ABORT } else { COMMIT };
            let marker = store_end(&service, 7, end);
            if end == ABORT {
                expected.push(aborted(7, first, marker));
            }
            if round % 5 == 4 {
                match round % 2 {
                    0 => service.close(),
                    _ => service.crash(),
                }
                service = disk.open();
                assert_eq!(open(&service), [(1, long)], "{policy}, round {round}");
                assert_eq!(service.log.end().stable_sequence_number, long);
                assert_eq!(service.log.aborted_transactions(0..u64::MAX), expected, "{policy}");
            }
        }
        assert!(disk.segments().len() > 2, "an older one has aborted transactions, too");
        store_end(&service, 1, ABORT);
        let end = service.log.end();
        assert_eq!(end.stable_sequence_number, end.next_sequence_number);
        service.close();
        assert_eq!(verify(&disk.path()).unwrap().problems, Vec::new());
        // What the sidecars knew is in the batches, too.
        disk.files_named("index").iter().for_each(|path| fs::remove_file(path).unwrap());
        let service = disk.open();
        expected.insert(0, aborted(1, long, end.next_sequence_number - 1));
        assert_eq!(service.log.aborted_transactions(0..u64::MAX), expected, "{policy}");
        assert_eq!(open(&service), []);
    }
}

#[test]
fn a_log_that_had_no_transactions_goes_on_with_them() {
    let disk = Disk { limits: *SMALL, ..Disk::new() };
    let service = disk.open();
    for _ in 0..30 {
        store(&service, None, 10_000);
    }
    service.close();
    let old: Vec<_> = disk.files_named("index").iter().map(|path| fs::read(path).unwrap()).collect();
    assert!(old.iter().all(|bytes| bytes[8] == 1), "older programs read them");
    let service = disk.open();
    assert_eq!((open(&service), service.log.aborted_transactions(0..100)), (vec![], vec![]));
    let first = store(&service, Some((7, 0)), 10);
    service.close();
    let last = disk.files_named("index").pop().unwrap();
    assert_eq!(fs::read(last).unwrap()[8], 3);
    assert_eq!(open(&disk.open()), [(7, first)]);
}

#[test]
fn an_open_transaction_is_known_when_retention_has_taken_all_of_the_log() {
    let mut disk = Disk { limits: *SMALL, ..Disk::new() };
    disk.limits.retention = Some(Duration::from_secs(1));
    let service = disk.open();
    store(&service, Some((7, 0)), 10);
    let late = UnixTime::from_milliseconds(10_000);
    wait_for(|| {
        service.log.enforce_retention(late);
        service.log.stats().is_empty
    });
    service.close();
    let service = disk.open();
    assert_eq!(open(&service), [(7, 0)]);
    assert_eq!(service.log.end().stable_sequence_number, 1, "what is gone is not waited for");
    let marker = store_end(&service, 7, COMMIT);
    service.crash();
    let service = disk.open();
    assert_eq!((open(&service), service.log.end().stable_sequence_number), (vec![], marker + 1));
}

#[test]
fn what_was_open_where_the_end_is_damaged_counts_as_aborted() {
    let disk = Disk { limits: *SMALL, ..Disk::new() };
    let service = disk.open();
    let first = store(&service, Some((7, 0)), 10);
    for _ in 0..8 {
        store(&service, None, 4_000);
    }
    service.crash();
    flip_bit(&disk.segments()[0], 10_000);
    let service = disk.open();
    assert_eq!(service.report.damaged.len(), 1);
    let end = service.log.end();
    assert_eq!((open(&service), end.stable_sequence_number), (vec![], end.next_sequence_number));
    assert!(service.log.is_aborted(7, first));
}

#[test]
fn deleted_records_stay_deleted_after_a_crash() {
    let disk = Disk { limits: *SMALL, ..Disk::new() };
    let service = disk.open();
    for _ in 0..30 {
        store(&service, None, 10_000);
    }
    let segments = disk.segments().len();
    assert!(segments > 2);
    assert_eq!(service.log.delete_before(15).unwrap(), 15);
    wait_for(|| disk.segments().len() < segments);
    service.crash();
    let service = disk.open();
    assert_eq!(service.log.stats().begin_sequence_number, 15);
    assert_eq!(committed(&service), (15..30).collect::<Vec<_>>());
    // To the last one, and on.
    assert_eq!(service.log.delete_before(30).unwrap(), 30);
    service.crash();
    let service = disk.open();
    assert!(service.log.stats().is_empty);
    assert_eq!(store(&service, None, 10), 30);
    service.close();
    let service = disk.open();
    assert_eq!(committed(&service), [30]);
    service.close();
    assert_eq!(verify(&disk.path()).unwrap().problems, Vec::new());
}

#[test]
fn numbers_that_are_given_again_are_not_deleted() {
    let disk = Disk::with(SyncPolicy::Os);
    let service = disk.open();
    for _ in 0..10 {
        store(&service, None, 1_000);
    }
    assert_eq!(service.log.delete_before(9).unwrap(), 9);
    service.crash();
    disk.files.cut_power(|_| 0);
    let service = disk.open();
    let end = service.log.end().next_sequence_number;
    assert!(end < 9, "the power cut took the end of the log");
    for _ in 0..3 {
        store(&service, None, 10);
    }
    service.close();
    let service = disk.open();
    assert_eq!(committed(&service), (end..end + 3).collect::<Vec<_>>());
}

#[derive(Clone, Debug)]
enum Operation {
    Write { producer: i64, length: usize },
    Plain { length: usize },
    End { producer: i64, end: TransactionEnd },
    Delete { share: u64 },
    Settle,
    Kill,
    Tear { bytes: u64 },
    CutPower { seed: u64 },
    Close,
}

/// What was written, as a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Written {
    Plain,
    Of(i64),
    End(i64, TransactionEnd),
}

struct Model {
    disk: Disk,
    service: Option<Service>,
    written: Vec<Written>,
    sequences: BTreeMap<i64, i32>,
    /// The number before which records were deleted.
    deleted: u64,
    last: Option<Appended>,
}

impl Model {
    fn new(sync: SyncPolicy) -> Self {
        let mut disk = Disk::with(sync);
        // Retention takes segments of the longer histories.
        disk.limits.bytes = ByteSize::from_kibibytes(256);
        disk.limits.when_full = WhenFull::Retention;
        let service = Some(disk.open());
        Self { disk, service, written: Vec::new(), sequences: BTreeMap::new(), deleted: 0, last: None }
    }

    fn service(&self) -> &Service {
        self.service.as_ref().expect("only absent within a crash")
    }

    fn push(&mut self, appended: Appended, written: Written) {
        assert_eq!(appended.first_sequence_number, self.written.len() as u64);
        self.written.push(written);
        self.last = Some(appended);
    }

    fn apply(&mut self, operation: &Operation) {
        match *operation {
            Operation::Write { producer, length } => {
                let sequence = self.sequences.get(&producer).copied().unwrap_or(0);
                let appended = append(self.service(), Some((producer, sequence)), length);
                self.sequences.insert(producer, sequence + 1);
                self.push(appended, Written::Of(producer));
            }
            Operation::Plain { length } => {
                let appended = append(self.service(), None, length);
                self.push(appended, Written::Plain);
            }
            Operation::End { producer, end: how } => {
                let is_open = self.open_since(producer, 0).is_some();
                let must_be_known = self.open_since(producer, self.begin()).is_some();
                let before = self.written.len() as u64;
                match end(self.service(), producer, how) {
                    // One that was written before and is not committed is waited for again.
                    Some(again) if again.first_sequence_number < before => assert!(!is_open),
                    Some(appended) => {
                        assert!(is_open);
                        self.push(appended, Written::End(producer, how));
                    }
                    None => assert!(!must_be_known),
                }
            }
            Operation::Delete { share } => {
                self.settle();
                let number = self.written.len() as u64 * share / 8;
                let begin = self.service().log.delete_before(number).unwrap();
                assert!(begin >= number);
                self.deleted = self.deleted.max(number);
            }
            Operation::Settle => self.settle(),
            Operation::Kill => self.restart(|_| {}),
            Operation::Tear { bytes } => {
                // Only what is not acknowledged can be torn: something that was being written.
                self.settle();
                self.restart(|disk| {
                    let path = disk.segments().pop();
                    let is_last = |path: &std::path::PathBuf| !path.with_extension("index").exists();
                    if let Some(path) = path.filter(is_last) {
                        let mut content = fs::read(&path).unwrap();
                        content.extend((0..bytes).map(|byte| byte as u8));
                        fs::write(&path, content).unwrap();
                    }
                });
            }
            Operation::CutPower { seed } => self.restart(|disk| {
                let mut random = Random::from_seed(seed);
                disk.files.cut_power(|most| match random.chance(0.3) {
                    true => most,
                    false => random.below(most + 1),
                });
            }),
            Operation::Close => {
                self.settle();
                self.service().committer.close().unwrap();
                self.restart(|_| {});
            }
        }
        self.check();
    }

    fn settle(&mut self) {
        if let Some(last) = self.last.take() {
            assert_eq!(settle(&self.service().committer, last.commit), CommitState::Done);
        }
    }

    /// Ends the process, and takes what it left for true: at least what was acknowledged.
    fn restart(&mut self, between: impl FnOnce(&Disk)) {
        self.service.take().unwrap().crash();
        between(&self.disk);
        let service = self.disk.open();
        assert!(service.report.damaged.is_empty(), "{:?}", service.report);
        let kept = service.log.end().next_sequence_number as usize;
        assert!(kept <= self.written.len());
        assert!(self.last.is_some() || kept == self.written.len(), "all was acknowledged");
        self.written.truncate(kept);
        self.last = None;
        self.sequences.clear();
        for written in &self.written {
            if let Written::Of(producer) = written {
                *self.sequences.entry(*producer).or_insert(0) += 1;
            }
        }
        self.service = Some(service);
        self.check();
    }

    fn begin(&self) -> u64 {
        self.service().log.stats().begin_sequence_number
    }

    /// The first record from this number on of the transaction that the producer has open.
    fn open_since(&self, producer: i64, from: u64) -> Option<u64> {
        let ended = self.written.iter().rposition(|it| matches!(it, Written::End(id, _) if *id == producer));
        let from = ended.map_or(0, |at| at + 1).max(from as usize);
        let first = self.written.get(from..)?.iter().position(|it| *it == Written::Of(producer))?;
        Some((from + first) as u64)
    }

    /// How the transaction ends that a record belongs to.
    fn outcome(&self, number: usize) -> Option<TransactionEnd> {
        let Written::Of(producer) = self.written[number] else { return Some(COMMIT) };
        self.written[number..].iter().find_map(|it| match it {
            Written::End(id, end) if *id == producer => Some(*end),
            _ => None,
        })
    }

    /// What a transaction wrote that is gone may be forgotten with the segments that knew it: of such a one it is enough to know
    /// the records that are left.
    fn check(&self) {
        let log = &self.service().log;
        let (begin, end) = (self.begin(), log.end());
        let open: BTreeMap<i64, u64> = open(self.service()).into_iter().collect();
        for producer in 0..PRODUCERS {
            match (open.get(&producer), self.open_since(producer, 0), self.open_since(producer, begin)) {
                (Some(found), Some(first), left) => {
                    assert!(
                        (first..=left.unwrap_or(u64::MAX)).contains(found),
                        "{producer}: {found}, {left:?}"
                    );
                }
                (None, _, None) => {}
                other => panic!("{producer}: {other:?}"),
            }
        }
        assert!(begin >= self.deleted.min(end.next_sequence_number));
        // What is not committed is not seen.
        if self.last.is_some() {
            return;
        }
        let first_open = open.values().copied().min().unwrap_or(u64::MAX);
        let stable = first_open.max(begin).min(self.written.len() as u64);
        assert_eq!(
            (end.stable_sequence_number, end.next_sequence_number),
            (stable, self.written.len() as u64)
        );
        let visible = (begin as usize..stable as usize).filter(|number| {
            !matches!(self.written[*number], Written::End(..)) && self.outcome(*number) == Some(COMMIT)
        });
        assert_eq!(committed(self.service()), visible.map(|number| number as u64).collect::<Vec<_>>());
        self.check_aborted(begin);
    }

    fn check_aborted(&self, begin: u64) {
        let found = self.service().log.aborted_transactions(begin..u64::MAX);
        assert!(found.is_sorted_by_key(|aborted| aborted.first_sequence_number));
        let mut found: BTreeMap<u64, AbortedTransaction> =
            found.into_iter().map(|aborted| (aborted.marker_sequence_number, aborted)).collect();
        // The first record of each transaction, and the first that is left.
        let mut firsts: BTreeMap<i64, (u64, Option<u64>)> = BTreeMap::new();
        for (number, written) in (0..).zip(&self.written) {
            match *written {
                Written::Plain => {}
                Written::Of(id) => {
                    let (_, left) = firsts.entry(id).or_insert((number, None));
                    *left = left.or((number >= begin).then_some(number));
                }
                Written::End(id, end) => {
                    let (first, left) = firsts.remove(&id).unwrap();
                    match found.remove(&number) {
                        Some(aborted) => {
                            assert_eq!((end, aborted.producer_id), (ABORT, id));
                            let possible = first..=left.unwrap_or(u64::MAX);
                            assert!(
                                possible.contains(&aborted.first_sequence_number),
                                "{aborted:?} {possible:?}"
                            );
                        }
                        None => assert!(end == COMMIT || left.is_none(), "{number}"),
                    }
                }
            }
        }
        assert_eq!(found, BTreeMap::new());
    }
}

const PRODUCERS: i64 = 3;

fn operation() -> impl Strategy<Value = Operation> {
    let length = || prop_oneof![0_usize..200, 0_usize..30_000];
    let end = prop_oneof![Just(COMMIT), Just(ABORT)];
    prop_oneof![
        8 => (0..PRODUCERS, length()).prop_map(|(producer, length)| Operation::Write { producer, length }),
        3 => length().prop_map(|length| Operation::Plain { length }),
        6 => (0..PRODUCERS, end).prop_map(|(producer, end)| Operation::End { producer, end }),
        1 => (0_u64..8).prop_map(|share| Operation::Delete { share }),
        2 => Just(Operation::Settle),
        1 => Just(Operation::Kill),
        1 => (1_u64..100).prop_map(|bytes| Operation::Tear { bytes }),
        1 => any::<u64>().prop_map(|seed| Operation::CutPower { seed }),
        1 => Just(Operation::Close),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn what_is_open_aborted_and_committed_is_what_was_written_whatever_happens_in_between(
        operations in proptest::collection::vec(operation(), 1..80),
    ) {
        let mut model = Model::new(SyncPolicy::Always);
        operations.iter().for_each(|operation| model.apply(operation));
        model.settle();
        model.check();
    }

    #[test]
    fn so_it_is_after_a_kill_under_the_other_policies(
        operations in proptest::collection::vec(operation(), 1..80),
        never_synced: bool,
    ) {
        let policy = match never_synced {
            true => SyncPolicy::Os,
            false => SyncPolicy::Interval(Duration::from_millis(1)),
        };
        let mut model = Model::new(policy);
        for operation in &operations {
            match operation {
                Operation::CutPower { .. } => model.apply(&Operation::Kill),
                operation => model.apply(operation),
            }
        }
        model.settle();
        model.check();
    }
}
