//! Receivers that wait.

use super::*;
use partition_log::Subscriber;
use std::task::{Context, Poll, Waker};

/// The keys that were reported since the last time.
pub(super) fn keys(subscriber: &Subscriber) -> Vec<u64> {
    let mut keys = Vec::new();
    let _ = subscriber.poll_ready(&mut Context::from_waker(Waker::noop()), &mut keys);
    keys
}

#[test]
fn a_waiter_is_woken_once_for_the_next_message_and_not_if_there_is_one() {
    let (_store, queue) = queue(QueueOptions::default());
    let subscriber = Subscriber::new();
    let mut waiter = queue.waiter(&subscriber, 7);
    send(&queue, 0, &["a"]);
    assert_eq!(waiter.arm(at(0), Awaited::Message), Found::Something);
    let received = receive(&queue, 0, 1);
    assert_eq!(waiter.arm(at(0), Awaited::Message), Found::Nothing);
    assert!(keys(&subscriber).is_empty());
    send(&queue, 0, &["b"]);
    send(&queue, 0, &["c"]);
    assert_eq!(keys(&subscriber), [7]);
    // What comes back counts as well.
    assert_eq!(receive(&queue, 0, 9).len(), 2);
    assert_eq!(waiter.arm(at(0), Awaited::Message), Found::Nothing);
    settle(&queue, 0, &received, &ABANDON);
    assert_eq!(keys(&subscriber), [7]);
    assert!(Arc::ptr_eq(waiter.queue(), &queue));
    drop(waiter);
    send(&queue, 0, &["d"]);
    assert!(keys(&subscriber).is_empty());
}

#[test]
fn a_waiter_that_looks_is_woken_by_what_comes_after_what_it_has_seen() {
    let (_store, queue) = queue(QueueOptions::default());
    let subscriber = Subscriber::new();
    let mut waiter = queue.waiter(&subscriber, 7);
    send(&queue, 0, &["a", "b"]);
    assert_eq!(waiter.arm(at(0), Awaited::NumberFrom(2)), Found::Something);
    assert_eq!(waiter.arm(at(0), Awaited::NumberFrom(3)), Found::Nothing);
    send(&queue, 0, &["c"]);
    assert_eq!(keys(&subscriber), [7]);
    assert_eq!(waiter.arm(at(0), Awaited::NumberFrom(3)), Found::Something);
    let received = receive(&queue, 0, 3);
    assert_eq!(waiter.arm(at(0), Awaited::NumberFrom(3)), Found::Something, "locked, but there");
    settle(&queue, 0, &received, &Settlement::Complete);
    assert_eq!(waiter.arm(at(0), Awaited::NumberFrom(3)), Found::Nothing);
}

#[test]
fn a_waiter_is_woken_for_messages_that_become_due() {
    let (store, queue) = queue(QueueOptions::default());
    let subscriber = Subscriber::new();
    let mut waiter = queue.waiter(&subscriber, 1);
    send_with(&queue, 0, &["a"], |message| NewMessage { scheduled_enqueue_time: Some(at(10)), ..message })
        .unwrap();
    assert_eq!(waiter.arm(at(0), Awaited::Message), Found::Nothing);
    store.advance(at(10));
    assert_eq!(keys(&subscriber), [1]);
    receive(&queue, 10, 1);
    assert_eq!(waiter.arm(at(10), Awaited::Message), Found::Nothing);
    store.advance(at(10 + LOCK));
    assert_eq!(keys(&subscriber), [1]);
}

#[test]
fn dead_letters_wake_those_who_wait_for_them() {
    let (_store, queue) = queue(QueueOptions::default());
    let subscriber = Subscriber::new();
    let mut waiter = queue.dead_letters().unwrap().waiter(&subscriber, 3);
    assert_eq!(waiter.arm(at(0), Awaited::Message), Found::Nothing);
    send(&queue, 0, &["a"]);
    let hopeless = Settlement::DeadLetter { reason: None, description: None, properties: &[] };
    settle(&queue, 0, &receive(&queue, 0, 1), &hopeless);
    assert_eq!(keys(&subscriber), [3]);
}

#[test]
fn sessions_wake_those_who_wait_for_one_and_those_who_have_it() {
    let (store, queue) = queue(QueueOptions { requires_session: true, ..QueueOptions::default() });
    let send_to = |session: &'static str| {
        send_with(&queue, 0, &["x"], |message| NewMessage { session_id: Some(session), ..message }).unwrap();
    };
    let subscriber = Subscriber::new();
    let mut next = queue.waiter(&subscriber, 1);
    let mut holder = queue.waiter(&subscriber, 2);
    assert_eq!(next.arm(at(0), Awaited::NextSession), Found::Nothing);
    send_to("one");
    assert_eq!(keys(&subscriber), [1]);
    let lock = queue.accept_session(at(0), None).unwrap().unwrap();
    assert_eq!(next.arm(at(0), Awaited::NextSession), Found::Nothing);
    let in_session = Awaited::InSession(&lock);
    assert_eq!(holder.arm(at(0), in_session), Found::Something);
    let request = ReceiveRequest { session: Some(&lock), ..request(ReceiveMode::PeekLock, 1) };
    queue.receive(at(0), &request, &mut Deliveries::new()).unwrap();
    assert_eq!(holder.arm(at(0), in_session), Found::Nothing);
    send_to("one");
    assert_eq!(keys(&subscriber), [2], "it is locked for others");
    queue.receive(at(0), &request, &mut Deliveries::new()).unwrap();
    assert_eq!(holder.arm(at(0), in_session), Found::Nothing);
    // The holder loses it, and others may have it.
    store.advance(at(LOCK));
    let mut told = keys(&subscriber);
    told.sort_unstable();
    assert_eq!(told, [1, 2]);
    assert_eq!(holder.arm(at(LOCK), in_session), Found::Something);
}

#[test]
fn the_driver_of_the_store_is_notified_of_earlier_deadlines() {
    let (store, queue) = queue(QueueOptions::default());
    let mut context = Context::from_waker(Waker::noop());
    assert_eq!(store.advance(at(0)), None);
    assert_eq!(store.poll_earlier(&mut context), Poll::Pending);
    send(&queue, 0, &["a"]);
    assert_eq!(store.poll_earlier(&mut context), Poll::Pending);
    receive(&queue, 0, 1);
    assert_eq!(store.poll_earlier(&mut context), Poll::Ready(()));
    assert_eq!(store.advance(at(1)), Some(at(LOCK)));
    assert_eq!(store.poll_earlier(&mut context), Poll::Pending);
    send_with(&queue, 1, &["b"], |message| NewMessage { scheduled_enqueue_time: Some(at(100)), ..message })
        .unwrap();
    assert_eq!(store.poll_earlier(&mut context), Poll::Ready(()));
    assert_eq!(store.advance(at(1)), Some(at(100)));
}
