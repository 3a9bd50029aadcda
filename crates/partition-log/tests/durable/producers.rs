//! What is known of producers after a restart, whatever ended the process before.

use super::{Disk, SMALL, Service, flip_bit, settle, wait_until};
use kafka::record_batch::{self, RecordBatch};
use partition_log::disk::{CommitNumber, CommitState, SyncPolicy, verify};
use partition_log::{
    Appended, Cursor, Edge, LogChunk, NewRecord, ProduceError, Produced, ProducerError, ProducerPosition,
    ProducerStamp, Readiness, Start, Subscriber, UnixTime, WhenFull,
};
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::fs;
use std::time::Duration;
use units::{ByteSize, Random};

const NOW: UnixTime = UnixTime::from_milliseconds(1);

/// A batch whose records say which they are.
fn produce(
    service: &Service,
    id: i64,
    first_sequence: i32,
    count: u32,
    length: usize,
) -> Result<Produced, ProduceError> {
    let stamp = ProducerStamp::new(id, 0, first_sequence).unwrap();
    service.log.append_produced(NOW, &stamp, count, |encoder| {
        for sequence in first_sequence.. {
            if encoder.record_count() == count {
                break;
            }
            let (head, rest) = (named(id, sequence), vec![7; length]);
            encoder.push(&NewRecord { annotation_count: 0, annotations: &[], sections: &[&head, &rest] });
        }
        Ok(())
    })
}

fn named(id: i64, sequence: i32) -> [u8; 12] {
    let mut bytes = [0; 12];
    bytes[..8].copy_from_slice(&id.to_le_bytes());
    bytes[8..].copy_from_slice(&sequence.to_le_bytes());
    bytes
}

/// Stores a batch and waits until it is settled.
fn store(service: &Service, id: i64, first_sequence: i32, count: u32, length: usize) {
    match produce(service, id, first_sequence, count, length).unwrap() {
        Produced::Stored(Appended { commit, .. }) => {
            assert_eq!(settle(&service.committer, commit), CommitState::Done);
        }
        duplicate => panic!("{duplicate:?}"),
    }
}

#[track_caller]
fn assert_is_known(service: &Service, id: i64, first_sequence: i32, count: u32, number: u64) {
    let again = produce(service, id, first_sequence, count, 10).unwrap();
    assert_eq!(again, Produced::Duplicate { first_sequence_number: number, commit: CommitNumber::DONE });
}

/// Which sequences of which producers are in the log, in their order.
fn stored(service: &Service) -> BTreeMap<i64, Vec<i32>> {
    let mut stored: BTreeMap<i64, Vec<i32>> = BTreeMap::new();
    for (_, sections) in service.all() {
        let id = i64::from_le_bytes(sections[..8].try_into().unwrap());
        let sequence = i32::from_le_bytes(sections[8..12].try_into().unwrap());
        stored.entry(id).or_default().push(sequence);
    }
    stored
}

#[test]
fn a_retry_is_acknowledged_no_earlier_than_what_it_repeats() {
    let disk = Disk::new();
    let service = disk.open();
    service.fill(1, 10);
    disk.files.state().gate_closed = true;
    let Ok(Produced::Stored(first)) = produce(&service, 7, 0, 2, 10) else { panic!() };
    disk.files.wait_for_sync();
    let Ok(Produced::Duplicate { first_sequence_number: 1, commit }) = produce(&service, 7, 0, 2, 10) else {
        panic!()
    };
    for commit in [first.commit, commit] {
        assert_eq!(service.committer.state_of(commit), CommitState::Waiting);
    }
    disk.files.open_gate();
    assert_eq!(settle(&service.committer, commit), CommitState::Done);
    assert_eq!(service.committer.state_of(first.commit), CommitState::Done);
    assert_is_known(&service, 7, 0, 2, 1);
}

#[test]
fn producers_are_known_after_a_close_and_after_a_crash() {
    for policy in [SyncPolicy::Always, SyncPolicy::default(), SyncPolicy::Os] {
        let disk = Disk { limits: *SMALL, ..Disk::with(policy) };
        let mut service = disk.open();
        for batch in 0..30 {
            store(&service, 7, batch * 2, 2, 5_000);
            store(&service, 100 + i64::from(batch), 1_000, 1, 10);
            if batch % 5 == 4 {
                match batch % 2 {
                    0 => service.close(),
                    _ => service.crash(),
                }
                service = disk.open();
                for known in batch - 4..=batch {
                    assert_is_known(&service, 7, known * 2, 2, known as u64 * 3);
                    assert_is_known(&service, 100 + i64::from(known), 1_000, 1, known as u64 * 3 + 2);
                }
                let gap = ProducerError::OutOfOrder { expected: batch * 2 + 2, found: batch * 2 + 3 };
                assert_eq!(produce(&service, 7, batch * 2 + 3, 1, 10), Err(gap.into()), "{policy}");
            }
        }
    }
}

#[test]
fn a_log_without_producers_has_sidecars_that_older_programs_read() {
    let disk = Disk { limits: *SMALL, ..Disk::new() };
    let service = disk.open();
    service.fill(40, 10_000);
    service.close();
    let sidecars = disk.files_named("index");
    assert!(sidecars.iter().all(|path| {
        let bytes = fs::read(path).unwrap();
        bytes.len() == 72 && bytes[8] == 1
    }));
    let service = disk.open();
    store(&service, 7, 0, 1, 10);
    service.close();
    let last = disk.files_named("index").pop().unwrap();
    assert_eq!(fs::read(last).unwrap()[8], 2);
    let verification = verify(&disk.path()).unwrap();
    assert_eq!((verification.records, verification.problems), (41, Vec::new()));
}

#[test]
fn producers_are_known_when_retention_has_taken_all_that_they_stored() {
    let mut disk = Disk { limits: *SMALL, ..Disk::new() };
    disk.limits.retention = Some(Duration::from_secs(1));
    let service = disk.open();
    store(&service, 7, 0, 3, 10);
    let late = UnixTime::from_milliseconds(10_000);
    super::wait_for(|| {
        service.log.enforce_retention(late);
        service.log.stats().is_empty
    });
    service.close();
    let service = disk.open();
    assert!(service.log.stats().is_empty);
    assert_is_known(&service, 7, 0, 3, 0);
    // What comes next is written into the file that kept the number, which has no sidecar of its own after a crash.
    service.append(b"next");
    service.crash();
    let service = disk.open();
    assert_is_known(&service, 7, 0, 3, 0);
}

#[test]
fn a_missing_sidecar_is_made_up_for_by_the_one_before() {
    let disk = Disk { limits: *SMALL, ..Disk::new() };
    let service = disk.open();
    store(&service, 1, 0, 1, 10);
    for batch in 0..20 {
        store(&service, 7, batch, 1, 10_000);
    }
    service.close();
    let sidecars = disk.files_named("index");
    assert!(sidecars.len() > 2);
    let before = fs::read(sidecars.last().unwrap()).unwrap();
    fs::remove_file(sidecars.last().unwrap()).unwrap();
    fs::remove_file(&sidecars[1]).unwrap();
    let service = disk.open();
    assert_is_known(&service, 7, 19, 1, 20);
    assert_is_known(&service, 1, 0, 1, 0);
    service.close();
    assert_eq!(fs::read(sidecars.last().unwrap()).unwrap(), before);
}

#[test]
fn nothing_is_known_where_damage_has_taken_batches() {
    let disk = Disk { limits: *SMALL, ..Disk::new() };
    let service = disk.open();
    for batch in 0..8 {
        store(&service, 7, batch, 1, 4_000);
    }
    service.crash();
    flip_bit(&disk.segments()[0], 10_000);
    let service = disk.open();
    assert_eq!(service.report.damaged.len(), 1);
    // A state of before the damage would refuse the producer for ever.
    store(&service, 7, 8, 1, 10);
}

#[test]
fn a_claimed_epoch_holds_after_a_close() {
    let disk = Disk::new();
    let service = disk.open();
    store(&service, 7, 0, 5, 10);
    let position = ProducerPosition { epoch: 3, last_sequence: 4 };
    assert_eq!(service.log.claim_producer(NOW, 7, Some(3), None), Ok(position));
    service.close();
    let service = disk.open();
    let older = ProducerError::OlderEpoch { current: 3, found: 0 };
    assert_eq!(produce(&service, 7, 5, 1, 10), Err(older.into()));
}

#[derive(Clone, Debug)]
enum Operation {
    Send { producer: usize, count: u32, length: usize },
    Settle,
    Kill,
    CutPower { seed: u64 },
    Close,
}

/// Producers that send again what they have no answer to, as clients do.
struct Model {
    disk: Disk,
    service: Option<Service>,
    producers: [Client; 3],
}

#[derive(Default)]
struct Client {
    next: i32,
    /// First sequence, count, length and commit of batches without an answer: no more than are recognised.
    waiting: Vec<(i32, u32, usize, CommitNumber)>,
}

impl Model {
    fn service(&self) -> &Service {
        self.service.as_ref().expect("only absent within a crash")
    }

    fn apply(&mut self, operation: &Operation) {
        match *operation {
            Operation::Send { producer, count, length } => {
                if self.producers[producer].waiting.len() == 5 {
                    self.settle();
                }
                let first = self.producers[producer].next;
                let produced = produce(self.service(), producer as i64, first, count, length);
                let Ok(Produced::Stored(Appended { commit, .. })) = produced else { panic!("{produced:?}") };
                self.producers[producer].next += count as i32;
                self.producers[producer].waiting.push((first, count, length, commit));
            }
            Operation::Settle => self.settle(),
            Operation::Kill => self.restart(None),
            Operation::CutPower { seed } => self.restart(Some(seed)),
            Operation::Close => {
                self.settle();
                self.service().committer.close().unwrap();
                self.restart(None);
            }
        }
    }

    fn settle(&mut self) {
        let service = self.service.as_ref().unwrap();
        for (first, count, length, commit) in self.producers.iter_mut().flat_map(|it| it.waiting.drain(..)) {
            let state = settle(&service.committer, commit);
            assert_eq!(state, CommitState::Done, "{first} {count} {length}");
        }
    }

    fn restart(&mut self, power_cut: Option<u64>) {
        self.service.take().unwrap().crash();
        if let Some(seed) = power_cut {
            let mut random = Random::from_seed(seed);
            self.disk.files.cut_power(|most| match random.chance(0.3) {
                true => most,
                false => random.below(most + 1),
            });
        }
        let service = self.disk.open();
        assert!(service.report.damaged.is_empty(), "{:?}", service.report);
        for (id, producer) in self.producers.iter_mut().enumerate() {
            for (first, count, length, commit) in &mut producer.waiting {
                *commit = match produce(&service, id as i64, *first, *count, *length).unwrap() {
                    Produced::Stored(Appended { commit, .. }) | Produced::Duplicate { commit, .. } => commit,
                };
            }
        }
        self.service = Some(service);
        self.settle();
        for (id, sequences) in stored(self.service()) {
            let expected: Vec<i32> = (0..self.producers[id as usize].next).collect();
            assert_eq!(sequences, expected, "producer {id}");
        }
    }
}

fn operation() -> impl Strategy<Value = Operation> {
    prop_oneof![
        8 => (0_usize..3, 1_u32..4, prop_oneof![0_usize..200, 0_usize..20_000])
            .prop_map(|(producer, count, length)| Operation::Send { producer, count, length }),
        2 => Just(Operation::Settle),
        1 => Just(Operation::Kill),
        1 => any::<u64>().prop_map(|seed| Operation::CutPower { seed }),
        1 => Just(Operation::Close),
    ]
}

fn model(sync: SyncPolicy) -> Model {
    let mut disk = Disk::with(sync);
    disk.limits.bytes = ByteSize::from_mebibytes(4);
    disk.limits.when_full = WhenFull::Throttle;
    let service = Some(disk.open());
    Model { disk, service, producers: Default::default() }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 32, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn retries_after_any_crash_store_every_record_once_and_in_order(
        operations in proptest::collection::vec(operation(), 1..40),
    ) {
        let mut model = model(SyncPolicy::Always);
        operations.iter().for_each(|operation| model.apply(operation));
        model.restart(None);
    }

    #[test]
    fn so_they_do_after_a_kill_under_the_other_policies(
        operations in proptest::collection::vec(operation(), 1..40),
        never_synced: bool,
    ) {
        let policy = match never_synced {
            true => SyncPolicy::Os,
            false => SyncPolicy::Interval(Duration::from_millis(1)),
        };
        let mut model = model(policy);
        for operation in &operations {
            match operation {
                Operation::CutPower { .. } => model.restart(None),
                operation => model.apply(operation),
            }
        }
        model.restart(None);
    }
}

#[test]
fn what_a_producer_stored_can_be_read_back_from_disk() {
    let disk = Disk { limits: *SMALL, ..Disk::new() };
    let service = disk.open();
    for batch in 0..20 {
        store(&service, 7, batch * 2, 2, 5_000);
    }
    service.close();
    let service = disk.open();
    assert_eq!(stored(&service), BTreeMap::from([(7, (0..40).collect::<Vec<i32>>())]));
    assert_eq!(service.log.position(Start::Earliest).unwrap().next_sequence_number(), 0);
}

/// A record batch of Kafka, of a producer that numbers its records.
fn record_batch(id: i64, first_sequence: i32, values: &[&[u8]]) -> Vec<u8> {
    let mut batch = vec![0; RecordBatch::HEADER_LENGTH];
    for (delta, value) in (0..).zip(values) {
        kafka::record::encode(&mut batch, delta, None, Some(value), std::iter::empty());
    }
    record_batch::complete(&mut batch, 0, -1, values.len() as u32, 1);
    batch[43..51].copy_from_slice(&id.to_be_bytes());
    batch[51..53].copy_from_slice(&0_i16.to_be_bytes());
    batch[53..57].copy_from_slice(&first_sequence.to_be_bytes());
    let checksum = crc32c::crc32c(&batch[21..]);
    batch[17..21].copy_from_slice(&checksum.to_be_bytes());
    batch
}

#[test]
fn record_batches_and_their_producers_are_there_after_a_close_and_after_a_crash() {
    let disk = Disk { limits: *SMALL, ..Disk::new() };
    for (round, ends_well) in [(0, true), (1, false), (2, true), (3, false)] {
        let service = disk.open();
        service.fill(3, 5_000);
        let batch = record_batch(7, 2 * round, &[b"one", &[9; 40_000]]);
        let batch = RecordBatch::check(&batch).unwrap();
        let Ok(Produced::Stored(appended)) = service.log.append_record_batch(NOW, &batch) else { panic!() };
        assert_eq!(settle(&service.committer, appended.commit), CommitState::Done);
        match ends_well {
            true => service.close(),
            false => service.crash(),
        }
        if round == 2 {
            // What the sidecars knew is read from the batches.
            disk.files_named("index").iter().for_each(|path| fs::remove_file(path).unwrap());
        }
        let service = disk.open();
        let again = service.log.append_record_batch(NOW, &batch).unwrap();
        let number = appended.first_sequence_number;
        assert_eq!(again, Produced::Duplicate { first_sequence_number: number, commit: CommitNumber::DONE });
        let mut cursor = service.log.position(Start::SequenceNumber(number, Edge::Inclusive)).unwrap();
        let chunk = read(&service, &mut cursor);
        let stored = chunk.batches().next().unwrap();
        assert_eq!((stored.bytes.len(), chunk.record_count()), (batch.bytes().len(), 2));
        assert_eq!(stored.bytes[16..], batch.bytes()[16..]);
        service.close();
    }
    assert_eq!(verify(&disk.path()).unwrap().problems, Vec::new());
}

/// What is at `cursor`, waiting for it to be loaded.
fn read(service: &Service, cursor: &mut Cursor) -> LogChunk {
    let subscriber = Subscriber::new();
    let mut subscription = service.log.subscribe(&subscriber, 0);
    loop {
        if let Some(chunk) = service.log.read(cursor, 100_000) {
            return chunk;
        }
        if subscription.arm(cursor) == Readiness::Waiting {
            let mut keys = Vec::new();
            wait_until(|context| subscriber.poll_ready(context, &mut keys));
        }
    }
}
