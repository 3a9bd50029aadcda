//! Appending to logs and reading them allocates nothing per event, and neither does a queue per message.
//!
//! The log takes its memory in blocks, hence the bound: none at all while a block lasts, a few per block beyond.

use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use counting_allocator::measure;
use partition_log::UnixTime;
use partition_log::{BlockPool, LogLimits, NewRecord, PartitionLog, Readiness, Start, Subscriber, WhenFull};
use queue_store::{
    Deliveries, LockToken, NewMessage, QueueOptions, QueueStore, ReceiveMode, ReceiveRequest, Settlement,
};
use units::ByteSize;

fn allocations_of(work: impl FnOnce()) -> u64 {
    measure(work).1.allocations
}

#[test]
fn a_queue_allocates_nothing_per_message() {
    const NOW: UnixTime = UnixTime::from_milliseconds(1);
    const MESSAGES: usize = 64;
    let queue = QueueStore::in_memory().create_queue("orders", QueueOptions::default()).unwrap();
    let pieces = [&[0x00, 0x53, 0x75, 0xa0, 12][..], &[7; 12]];
    let message = NewMessage { sections: &pieces, ..NewMessage::default() };
    let request =
        ReceiveRequest { mode: ReceiveMode::PeekLock, session: None, messages: MESSAGES, bytes: usize::MAX };
    let mut deliveries = Deliveries::new();
    let mut tokens = Vec::new();
    let mut through = |batches: u64| {
        for _ in 0..batches {
            queue.enqueue(NOW, &[message; MESSAGES]).unwrap();
            deliveries.clear();
            queue.receive(NOW, &request, &mut deliveries).unwrap();
            tokens.clear();
            tokens.extend(deliveries.iter().filter_map(|delivery| delivery.lock));
            let settled: Vec<LockToken> = tokens.iter().map(|lock| lock.token).collect();
            let settled = queue.settle(NOW, &settled, &Settlement::Complete).unwrap();
            assert_eq!(settled.count, MESSAGES);
        }
    };
    for _ in 0..2_000 {
        queue.enqueue(NOW, &[message; MESSAGES]).unwrap();
    }
    through(4_000);
    // The list of tokens above, and now and then an ordered set of pages.
    let allocations = allocations_of(|| through(4_000));
    assert!(allocations <= 3 * 4_000, "{allocations} allocations for {} messages", 4_000 * MESSAGES);
}

#[test]
fn appending_and_reading_allocate_nothing_per_event() {
    const RECORDS: u64 = 16;
    let limits =
        LogLimits { bytes: ByteSize::from_mebibytes(4), when_full: WhenFull::Retention, retention: None };
    let log = Arc::new(PartitionLog::new(limits, BlockPool::new(ByteSize::from_mebibytes(8))));
    let payload = [7; 16];
    let sections = [&[0x00, 0x53, 0x75, 0xa0, 16][..], &payload];
    let record = NewRecord { annotation_count: 1, annotations: b"\xa3\x01k\xa1\x01v", sections: &sections };
    let append_batches = |batches: u64| {
        for _ in 0..batches {
            let appended = log.append::<()>(UnixTime::from_milliseconds(1), |encoder| {
                (0..RECORDS).for_each(|_| encoder.push(&record));
                Ok(())
            });
            assert_eq!(appended.unwrap().record_count, RECORDS as u32);
        }
    };

    // Warm up until retention drops segments, so that blocks are recycled.
    append_batches(20_000);
    let before = log.stats();
    assert!(before.begin_sequence_number > 0);

    // A whole turn of the log: about eight segments of half a mebibyte, each with a reference count of its own.
    let segments = 20_000 * RECORDS * 32 / (512 * 1024) + 2;
    let appending = allocations_of(|| append_batches(20_000));
    assert!(appending <= 2 * segments, "{appending} allocations for {} events", 20_000 * RECORDS);

    // Within a block, none at all.
    let mut least = u64::MAX;
    for _ in 0..4 {
        least = least.min(allocations_of(|| append_batches(500)));
    }
    assert_eq!(least, 0);

    let mut cursor = log.position(Start::Earliest).unwrap();
    let mut read = 0;
    let reading = allocations_of(|| {
        while let Some(chunk) = log.read(&mut cursor, 64 * 1024) {
            read += chunk.records().map(|record| record.sections.len() as u64 & 1).sum::<u64>();
        }
    });
    assert!(read > 50_000, "{read}");
    assert_eq!(reading, 0);

    // Waiting and being woken, once the lists have their size.
    let subscriber = Subscriber::new();
    let mut subscription = log.subscribe(&subscriber, 5);
    let mut keys = Vec::new();
    let mut wait_and_wake = || {
        assert_eq!(subscription.arm(&cursor), Readiness::Waiting);
        let mut context = Context::from_waker(Waker::noop());
        assert_eq!(subscriber.poll_ready(&mut context, &mut keys), Poll::Pending);
        append_batches(1);
        assert_eq!(subscriber.poll_ready(&mut context, &mut keys), Poll::Ready(()));
        assert_eq!(keys, [5]);
        keys.clear();
        while log.read(&mut cursor, usize::MAX).is_some() {}
    };
    wait_and_wake();
    assert_eq!(allocations_of(|| (0..100).for_each(|_| wait_and_wake())), 0);
}
