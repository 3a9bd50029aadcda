//! Transactions of Kafka's producers: what readers of committed records see of them, and when.

use super::record_batches::batch;
use super::{append, arc, at, limits, log};
use kafka::record_batch::RecordBatch;
use partition_log::{
    AbortedTransaction, Cursor, DeleteError, Edge, KnownProducer, OpenTransaction, PartitionLog,
    ProduceError, Produced, ProducerError, Protocol, Readiness, Start, Subscriber, TransactionEnd,
    TransactionMarker, WhenFull,
};
use std::task::{Context, Poll, Waker};
use units::ByteSize;

/// A batch of a transaction: one record, of this producer and sequence.
pub(crate) fn transactional(id: i64, epoch: i16, sequence: i32, value: &[u8]) -> Vec<u8> {
    let mut bytes = batch(Some((id, epoch, sequence)), &[value]);
    bytes[22] |= 0b1_0000;
    let checksum = crc32c::crc32c(&bytes[21..]);
    bytes[17..21].copy_from_slice(&checksum.to_be_bytes());
    bytes
}

fn produce(log: &PartitionLog, batch: &[u8]) -> Result<u64, ProduceError> {
    match log.append_record_batch(at(1), &RecordBatch::check(batch).expect("a good batch"))? {
        Produced::Stored(appended) => Ok(appended.first_sequence_number),
        Produced::Duplicate { first_sequence_number, .. } => Ok(first_sequence_number),
    }
}

fn marker(id: i64, epoch: i16, end: TransactionEnd) -> TransactionMarker {
    TransactionMarker { producer_id: id, producer_epoch: epoch, end, coordinator_epoch: 4 }
}

fn end(log: &PartitionLog, id: i64, end: TransactionEnd) -> Option<u64> {
    let appended = log.end_transaction(at(2), &marker(id, 0, end)).expect("there is room");
    appended.map(|appended| appended.first_sequence_number)
}

const COMMIT: TransactionEnd = TransactionEnd::Commit;
const ABORT: TransactionEnd = TransactionEnd::Abort;

/// The first and last number of each batch from `cursor` to its end.
fn batches(log: &PartitionLog, cursor: &mut Cursor) -> Vec<u64> {
    let mut numbers = Vec::new();
    while let Some(chunk) = log.read(cursor, 1000) {
        numbers.extend(chunk.batches().map(|batch| batch.first_sequence_number));
        assert_eq!(*cursor, chunk.end());
    }
    numbers
}

fn stable_end(log: &PartitionLog) -> (u64, u64) {
    let end = log.end();
    (end.stable_sequence_number, end.next_sequence_number)
}

#[test]
fn readers_of_committed_records_wait_at_the_oldest_open_transaction() {
    let log = log();
    append(&log, 1, &[b"0", b"1"]);
    produce(&log, &transactional(7, 0, 0, b"2")).unwrap();
    produce(&log, &batch(None, &[b"3"])).unwrap();
    produce(&log, &transactional(9, 0, 0, b"4")).unwrap();
    produce(&log, &transactional(7, 0, 1, b"5")).unwrap();
    assert_eq!(stable_end(&log), (2, 6));
    let mut committed = log.position_committed(Start::Earliest).unwrap();
    let mut all = log.position(Start::Earliest).unwrap();
    assert_eq!(batches(&log, &mut committed), [0]);
    assert_eq!(batches(&log, &mut all), [0, 2, 3, 4, 5]);

    assert_eq!(end(&log, 7, COMMIT), Some(6));
    assert_eq!(stable_end(&log), (4, 7));
    assert_eq!(batches(&log, &mut committed), [2, 3]);
    assert_eq!(batches(&log, &mut committed), [0; 0]);
    append(&log, 3, &[b"7"]);
    assert_eq!(end(&log, 9, ABORT), Some(8));
    assert_eq!(stable_end(&log), (9, 9));
    assert_eq!(batches(&log, &mut committed), [4, 5, 6, 7, 8]);
    assert_eq!(batches(&log, &mut all), [6, 7, 8]);

    let aborted = AbortedTransaction { producer_id: 9, first_sequence_number: 4, marker_sequence_number: 8 };
    assert_eq!(log.aborted_transactions(0..9), [aborted]);
    assert_eq!(log.aborted_transactions(0..4), []);
    assert!(log.is_aborted(9, 4) && !log.is_aborted(7, 5) && !log.is_aborted(9, 9));
    assert_eq!(end(&log, 7, COMMIT), None, "it has ended");
    assert_eq!(stable_end(&log), (9, 9), "and nothing was written");
}

#[test]
fn a_cursor_keeps_its_isolation_wherever_it_goes() {
    let log = log();
    append(&log, 1, &[b"0", b"1", b"2"]);
    produce(&log, &transactional(7, 0, 0, b"3")).unwrap();
    let mut cursor = log.position_committed(Start::SequenceNumber(1, Edge::Inclusive)).unwrap();
    let chunk = log.read(&mut cursor, 1000).unwrap();
    let mut records = chunk.records();
    records.next();
    for mut cursor in [cursor, chunk.end(), records.cursor(), chunk.starting_at(2).unwrap().end()] {
        assert_ne!(batches(&log, &mut cursor), [3], "{cursor:?}");
    }
    for (start, committed, uncommitted) in [
        (Start::Latest(Edge::Exclusive), 3, 4),
        (Start::Latest(Edge::Inclusive), 2, 3),
        (Start::AppendTime(at(1), Edge::Inclusive), 0, 0),
        (Start::AppendTime(at(1), Edge::Exclusive), 4, 4),
        // What waits for its end is there all the same.
        (Start::SequenceNumber(3, Edge::Exclusive), 4, 4),
    ] {
        let found = log.position_committed(start).unwrap();
        assert_eq!(found.next_sequence_number(), committed, "{start:?}");
        assert_eq!(found, found.committed());
        assert_eq!(log.position(start).unwrap().next_sequence_number(), uncommitted, "{start:?}");
    }
}

#[test]
fn a_reader_of_committed_records_is_woken_by_the_marker_and_by_nothing_before() {
    let log = arc(log());
    produce(&log, &transactional(7, 0, 0, b"0")).unwrap();
    let subscriber = Subscriber::new();
    let mut subscriptions = [log.subscribe(&subscriber, 1), log.subscribe(&subscriber, 2)];
    let ready = || {
        let mut keys = Vec::new();
        match subscriber.poll_ready(&mut Context::from_waker(Waker::noop()), &mut keys) {
            Poll::Ready(()) => keys,
            Poll::Pending => Vec::new(),
        }
    };
    let committed = log.position_committed(Start::Earliest).unwrap();
    let all = log.position(Start::Latest(Edge::Exclusive)).unwrap();
    assert_eq!(subscriptions[0].arm(&committed), Readiness::Waiting);
    assert_eq!(subscriptions[1].arm(&all), Readiness::Waiting);
    append(&log, 1, &[b"1"]);
    assert_eq!(ready(), [2]);
    append(&log, 1, &[b"2"]);
    assert_eq!(ready(), [0; 0]);
    end(&log, 7, COMMIT);
    assert_eq!(ready(), [1]);
    assert_eq!(subscriptions[0].arm(&committed), Readiness::Ready);
    assert_eq!(subscriptions[1].arm(&all), Readiness::Ready);
}

#[test]
fn a_batch_that_does_not_fit_the_transaction_is_refused() {
    let log = log();
    produce(&log, &transactional(7, 1, 0, b"0")).unwrap();
    let plain = produce(&log, &batch(Some((7, 1, 1)), &[b"1"]));
    assert_eq!(plain, Err(ProduceError::Producer(ProducerError::InTransaction)));
    // What was stored is answered as it was, whatever has happened since.
    assert_eq!(produce(&log, &transactional(7, 1, 0, b"0")), Ok(0));
    assert_eq!(log.end_transaction(at(1), &marker(7, 0, ABORT)), Ok(None), "it comes late");
    assert!(log.end_transaction(at(1), &marker(7, 1, ABORT)).unwrap().is_some());
    assert_eq!(produce(&log, &transactional(7, 1, 0, b"0")), Ok(0));
    assert_eq!(log.open_transactions(), []);
    assert_eq!(produce(&log, &batch(Some((7, 1, 1)), &[b"1"])), Ok(2));
}

#[test]
fn a_newer_epoch_in_a_marker_fences_the_producer() {
    let log = log();
    produce(&log, &transactional(7, 0, 0, b"0")).unwrap();
    let fencing = marker(7, 1, ABORT);
    assert!(log.end_transaction(at(1), &fencing).unwrap().is_some());
    let fenced = Err(ProduceError::Producer(ProducerError::OlderEpoch { current: 1, found: 0 }));
    assert_eq!(produce(&log, &transactional(7, 0, 1, b"late")), fenced);
    assert_eq!(produce(&log, &transactional(7, 1, 0, b"new")), Ok(2));
    // Where it had no transaction yet, too: its first batch may be on the way.
    assert_eq!(log.end_transaction(at(1), &marker(8, 3, ABORT)), Ok(None));
    let fenced = Err(ProduceError::Producer(ProducerError::OlderEpoch { current: 3, found: 2 }));
    assert_eq!(produce(&log, &transactional(8, 2, 0, b"late")), fenced);
    assert_eq!(produce(&log, &transactional(8, 3, 0, b"new")), Ok(3));
    // One that commits goes on.
    assert_eq!(log.end_transaction(at(1), &marker(9, 0, COMMIT)), Ok(None));
    assert_eq!(produce(&log, &transactional(9, 0, 5, b"more")), Ok(4));
}

#[test]
fn what_is_known_of_producers_and_of_their_transactions_is_told() {
    let log = log();
    produce(&log, &transactional(9, 2, 0, b"0")).unwrap();
    produce(&log, &batch(Some((7, 0, 3)), &[b"1", b"2"])).unwrap();
    log.end_transaction(at(5), &marker(8, 3, ABORT)).unwrap();
    let known = |id, epoch, last_sequence| KnownProducer {
        id,
        epoch,
        last_sequence,
        last_timestamp: at(1),
        transaction_start: None,
        coordinator_epoch: -1,
    };
    let expected = [
        known(7, 0, 4),
        KnownProducer { last_timestamp: at(5), coordinator_epoch: 4, ..known(8, 3, -1) },
        KnownProducer { transaction_start: Some(0), ..known(9, 2, 0) },
    ];
    assert_eq!(log.producers(), expected);
    let open = OpenTransaction { producer_id: 9, producer_epoch: 2, first_sequence_number: 0, since: at(1) };
    assert_eq!(log.open_transactions(), [open]);
}

#[test]
fn the_number_of_open_transactions_is_bounded() {
    let log = log();
    let mut id = 0;
    let refused = loop {
        match produce(&log, &transactional(id, 0, 0, b"x")) {
            Ok(_) => id += 1,
            Err(refused) => break refused,
        }
    };
    let maximum = 4096;
    assert_eq!(refused, ProduceError::Producer(ProducerError::TooManyTransactions { maximum }));
    assert_eq!(log.open_transactions().len(), maximum);
    assert_eq!(produce(&log, &transactional(0, 0, 1, b"y")), Ok(maximum as u64), "it is open");
    end(&log, 1, COMMIT);
    produce(&log, &transactional(id, 0, 0, b"x")).unwrap();
    assert_eq!(stable_end(&log).0, 0);
}

#[test]
fn a_full_log_takes_a_marker_all_the_same() {
    let log = super::limited(limits(ByteSize::from_kibibytes(1), WhenFull::Throttle));
    let mut sequence = 0;
    while produce(&log, &transactional(7, 0, sequence, &[0; 100])).is_ok() {
        sequence += 1;
    }
    assert!(end(&log, 7, COMMIT).is_some());
    assert_eq!(stable_end(&log).0, stable_end(&log).1);
}

#[test]
fn an_open_transaction_is_not_waited_for_where_retention_has_taken_it() {
    let log = arc(super::limited(limits(ByteSize::from_kibibytes(256), WhenFull::Retention)));
    produce(&log, &transactional(7, 0, 0, b"0")).unwrap();
    produce(&log, &transactional(9, 0, 0, b"1")).unwrap();
    end(&log, 9, ABORT);
    assert_eq!(log.aborted_transactions(0..3).len(), 1);
    let subscriber = Subscriber::new();
    let mut subscription = log.subscribe(&subscriber, 1);
    let mut cursor = log.position_committed(Start::Earliest).unwrap();
    assert_eq!(subscription.arm(&cursor), Readiness::Waiting);
    while log.stats().begin_sequence_number == 0 {
        append(&log, 1, &[&[0; 10_000]]);
    }
    let begin = log.stats().begin_sequence_number;
    assert_eq!(stable_end(&log).0, begin);
    assert_eq!(subscription.arm(&cursor), Readiness::Waiting);
    assert_eq!(log.aborted_transactions(0..begin), []);
    end(&log, 7, COMMIT);
    let chunk = log.read(&mut cursor, 1000).unwrap();
    assert_eq!(chunk.skipped(), begin);
    // All of it can go, too.
    produce(&log, &transactional(9, 0, 1, b"x")).unwrap();
    assert_eq!(log.delete_before(stable_end(&log).1).unwrap(), stable_end(&log).1);
    assert_eq!(stable_end(&log).0, stable_end(&log).1);
    assert!(log.stats().is_empty);
    assert_eq!(log.open_transactions().len(), 1);
}

#[test]
fn deleted_records_are_not_read_any_more() {
    let log = log();
    append(&log, 1, &[b"0", b"1", b"2"]);
    produce(&log, &batch(None, &[b"3", b"4"])).unwrap();
    let error = log.delete_before(6).unwrap_err();
    assert!(matches!(error, DeleteError::BeyondEnd { requested: 6, end: 5 }));
    assert_eq!(log.delete_before(1).unwrap(), 1);
    assert_eq!(log.delete_before(0).unwrap(), 1, "it is gone");
    assert_eq!(log.stats().begin_sequence_number, 1);
    let mut cursor = log.position(Start::Earliest).unwrap();
    let chunk = log.read(&mut cursor, 10).unwrap();
    let numbers: Vec<_> = chunk.records().map(|record| record.sequence_number).collect();
    assert_eq!((numbers, chunk.skipped()), (vec![1, 2], 0));
    assert_eq!(log.delete_before(4).unwrap(), 4);
    let mut cursor = log.position(Start::SequenceNumber(2, Edge::Inclusive)).unwrap();
    let chunk = log.read(&mut cursor, 10).unwrap();
    // The batch is whole; clients of Kafka skip what they did not ask for.
    assert_eq!((chunk.protocol(), chunk.record_count()), (Protocol::Kafka, 1));
    assert_eq!(log.delete_before(5).unwrap(), 5);
    assert!(log.stats().is_empty && log.stats().bytes == 0);
    append(&log, 1, &[b"5"]);
    let mut cursor = log.position(Start::Earliest).unwrap();
    assert_eq!(super::rest(&log, &mut cursor), [(5, b"5".to_vec())]);
}
