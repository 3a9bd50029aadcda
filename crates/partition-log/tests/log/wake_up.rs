//! Readers at the end are woken, every time.

use super::{append, arc, log};
use partition_log::{Edge, Readiness, Start, Subscriber};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};

struct Counter(AtomicU64);

impl Wake for Counter {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

fn counter() -> (Arc<Counter>, Waker) {
    let counter = Arc::new(Counter(AtomicU64::new(0)));
    (Arc::clone(&counter), Waker::from(counter))
}

fn ready_keys(subscriber: &Subscriber, waker: &Waker) -> Option<Vec<u64>> {
    let mut keys = Vec::new();
    match subscriber.poll_ready(&mut Context::from_waker(waker), &mut keys) {
        Poll::Ready(()) => Some(keys),
        Poll::Pending => None,
    }
}

#[test]
fn a_task_with_many_links_is_woken_once_and_gets_all_their_keys() {
    let logs = [arc(log()), arc(log()), arc(log())];
    let subscriber = Subscriber::new();
    let (count, waker) = counter();
    let mut subscriptions: Vec<_> =
        (0..3).map(|link| logs[link].subscribe(&subscriber, link as u64 + 10)).collect();
    for (log, subscription) in logs.iter().zip(&mut subscriptions) {
        let end = log.position(Start::Latest(Edge::Exclusive)).unwrap();
        assert_eq!(subscription.arm(&end), Readiness::Waiting);
    }
    assert_eq!(ready_keys(&subscriber, &waker), None);
    append(&logs[2], 1, &[b"x"]);
    append(&logs[0], 1, &[b"x"]);
    append(&logs[0], 1, &[b"x"]);
    assert_eq!(count.0.load(Ordering::Relaxed), 1);
    assert_eq!(ready_keys(&subscriber, &waker), Some(vec![12, 10]));
    assert_eq!(ready_keys(&subscriber, &waker), None);
}

#[test]
fn arming_with_something_to_read_says_so_instead() {
    let log = arc(log());
    let subscriber = Subscriber::new();
    let (count, waker) = counter();
    let mut subscription = log.subscribe(&subscriber, 1);
    let mut cursor = log.position(Start::Earliest).unwrap();
    append(&log, 1, &[b"x"]);
    assert_eq!(subscription.arm(&cursor), Readiness::Ready);
    assert!(log.read(&mut cursor, 1).is_some());
    assert_eq!(subscription.arm(&cursor), Readiness::Waiting);
    assert_eq!(ready_keys(&subscriber, &waker), None);
    append(&log, 1, &[b"x"]);
    assert_eq!(count.0.load(Ordering::Relaxed), 1);
    assert_eq!(ready_keys(&subscriber, &waker), Some(vec![1]));
    append(&log, 1, &[b"x"]);
    assert_eq!(ready_keys(&subscriber, &waker), None, "it was not armed again");
}

#[test]
fn a_subscription_that_was_dropped_is_not_reported_and_its_subscriber_is_let_go() {
    let log = arc(log());
    let subscriber = Subscriber::new();
    let (count, waker) = counter();
    let end = log.position(Start::Earliest).unwrap();
    let mut dropped = log.subscribe(&subscriber, 1);
    let mut kept = log.subscribe(&subscriber, 2);
    assert_eq!(dropped.arm(&end), Readiness::Waiting);
    assert_eq!(kept.arm(&end), Readiness::Waiting);
    assert_eq!(ready_keys(&subscriber, &waker), None);
    drop(dropped);
    append(&log, 1, &[b"x"]);
    assert_eq!(ready_keys(&subscriber, &waker), Some(vec![2]));
    assert_eq!(count.0.load(Ordering::Relaxed), 1);
    drop(kept);
    assert_eq!(Arc::strong_count(&subscriber), 1);
}

#[test]
fn everyone_who_waits_is_woken_however_many_there_are() {
    let log = arc(log());
    let end = log.position(Start::Earliest).unwrap();
    let mut waiting: Vec<_> = (0..20)
        .map(|key| {
            let subscriber = Subscriber::new();
            let mut subscription = log.subscribe(&subscriber, key);
            assert_eq!(subscription.arm(&end), Readiness::Waiting);
            let (count, waker) = counter();
            assert_eq!(ready_keys(&subscriber, &waker), None);
            (subscriber, subscription, count)
        })
        .collect();
    append(&log, 1, &[b"x"]);
    for (key, (subscriber, _subscription, count)) in waiting.drain(..).enumerate() {
        assert_eq!(count.0.load(Ordering::Relaxed), 1);
        assert_eq!(ready_keys(&subscriber, Waker::noop()), Some(vec![key as u64]));
    }
}

struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// Two writers, two readers, four logs: a reader that parks for ever would hang the test, so a lost wake-up fails it.
#[test]
fn no_wake_up_is_lost_between_threads() {
    const BATCHES: u64 = 3000;
    let logs: [_; 4] = std::array::from_fn(|_| arc(log()));
    thread::scope(|scope| {
        for _reader in 0..2 {
            scope.spawn(|| {
                let waker = Waker::from(Arc::new(Unpark(thread::current())));
                let mut context = Context::from_waker(&waker);
                let subscriber = Subscriber::new();
                let mut links: Vec<_> = (0_u64..)
                    .zip(&logs)
                    .map(|(key, log)| {
                        (log.subscribe(&subscriber, key), log.position(Start::Earliest).unwrap())
                    })
                    .collect();
                let mut ready: Vec<u64> = (0..logs.len() as u64).collect();
                let mut read = 0;
                while read < 2 * BATCHES * logs.len() as u64 {
                    while let Some(key) = ready.pop() {
                        let (subscription, cursor) = &mut links[key as usize];
                        loop {
                            while let Some(chunk) = logs[key as usize].read(cursor, 300) {
                                read += chunk.records().count() as u64;
                            }
                            if subscription.arm(cursor) == Readiness::Waiting {
                                break;
                            }
                        }
                    }
                    if read < 2 * BATCHES * logs.len() as u64 {
                        while subscriber.poll_ready(&mut context, &mut ready).is_pending() {
                            thread::park();
                        }
                    }
                }
            });
        }
        for _writer in 0..2 {
            scope.spawn(|| {
                for batch in 0..BATCHES {
                    for log in &logs {
                        append(log, batch as i64, &[b"x"]);
                    }
                    if batch % 7 == 0 {
                        thread::yield_now();
                    }
                }
            });
        }
    });
    assert!(logs.iter().all(|log| log.stats().last_sequence_number == Some(2 * BATCHES - 1)));
}
