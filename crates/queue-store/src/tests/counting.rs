//! What queues count, each thing once.

use super::*;

#[test]
fn each_thing_that_happens_is_counted_once() {
    let (_store, queue) = queue(QueueOptions { maximum_delivery_count: 2, ..QueueOptions::default() });
    send(&queue, 0, &["completed", "abandoned", "deferred", "lost", "hopeless"]);
    let received = receive(&queue, 0, 5);
    settle(&queue, 0, &received[..1], &Settlement::Complete);
    settle(&queue, 0, &received[1..2], &ABANDON);
    settle(&queue, 0, &received[2..3], &DEFER);
    let hopeless = Settlement::DeadLetter { reason: None, description: None, properties: &[] };
    settle(&queue, 0, &received[4..], &hopeless);
    // The lock of one message ends, and both are delivered once more, which is once too often.
    let again = receive(&queue, LOCK, 5);
    assert_eq!(texts(&again), ["abandoned", "lost"]);
    settle(&queue, LOCK, &again, &ABANDON);
    let expected = QueueCounters {
        enqueued: 5,
        delivered: 7,
        completed: 1,
        abandoned: 3,
        deferred: 1,
        dead_lettered: 3,
        expired: 0,
        lock_expirations: 1,
        ..QueueCounters::default()
    };
    assert_eq!(queue.lifecycle_counters(), expected);
    let dead_letters = queue.dead_letters().unwrap().lifecycle_counters();
    assert_eq!((dead_letters.enqueued, dead_letters.delivered), (3, 0));
}

#[test]
fn a_scheduled_message_counts_when_it_becomes_available_and_an_expired_one_when_it_expires() {
    let (_store, queue) = queue(QueueOptions::default());
    let scheduled = |message| NewMessage {
        scheduled_enqueue_time: Some(at(100)),
        time_to_live: Some(Duration::from_millis(50)),
        ..message
    };
    send_with(&queue, 0, &["later"], scheduled).unwrap();
    assert_eq!(queue.lifecycle_counters(), QueueCounters::default());
    receive(&queue, 100, 0);
    let counters = queue.lifecycle_counters();
    assert_eq!((counters.enqueued, counters.scheduled_due), (1, 1));
    assert_eq!(receive(&queue, 150, 1), []);
    let counters = queue.lifecycle_counters();
    assert_eq!((counters.expired, counters.dead_lettered), (1, 0));
}

#[test]
fn what_is_received_and_deleted_is_delivered_and_not_completed() {
    let (_store, queue) = queue(QueueOptions::default());
    send(&queue, 0, &["a", "b"]);
    let mut deliveries = Deliveries::new();
    let request = request(ReceiveMode::ReceiveAndDelete, 2);
    queue.receive(at(0), &request, &mut deliveries).unwrap();
    let counters = queue.lifecycle_counters();
    assert_eq!((counters.delivered, counters.completed), (2, 0));
}
