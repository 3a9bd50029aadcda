//! Receiving and peeking.

use super::*;

#[test]
fn messages_are_received_oldest_first_as_many_as_wanted_and_each_once() {
    let (_store, queue) = queue(QueueOptions::default());
    send(&queue, 0, &["a", "b", "c"]);
    assert_eq!(texts(&receive(&queue, 0, 2)), ["a", "b"]);
    assert_eq!(texts(&receive(&queue, 0, 2)), ["c"]);
    assert_eq!(receive(&queue, 0, 2), []);
    assert_eq!(receive(&queue, 0, 0), []);
    let counts = queue.counts();
    assert_eq!((counts.active, counts.locked), (3, 3));
}

#[test]
fn a_lock_has_an_expiry_and_a_token_of_its_own() {
    let (_store, queue) = queue(QueueOptions::default());
    send(&queue, 0, &["a", "b"]);
    let mut deliveries = Deliveries::new();
    let request = request(ReceiveMode::PeekLock, 10);
    queue.receive(at(7), &request, &mut deliveries).unwrap();
    let locks: Vec<_> = deliveries.iter().filter_map(|delivery| delivery.lock).collect();
    assert!(locks.iter().all(|lock| lock.until == LockEnd::at(at(7 + LOCK))));
    assert_ne!(locks[0].token, locks[1].token);
    let first = seen(&deliveries);
    settle(&queue, 8, &first, &Settlement::Release);
    let second = receive(&queue, 9, 10);
    assert_eq!(texts(&second), ["a", "b"]);
    assert!(first.iter().all(|one| second.iter().all(|two| one.token != two.token)));
}

#[test]
fn bytes_are_bounded_and_yet_one_message_is_given() {
    let (_store, queue) = queue(QueueOptions::default());
    let long = "x".repeat(2000);
    send(&queue, 0, &[&long, "a", "b", &long, "c"]);
    let receive = |bytes| {
        let mut deliveries = Deliveries::new();
        let request = ReceiveRequest { bytes, ..request(ReceiveMode::PeekLock, 10) };
        queue.receive(at(0), &request, &mut deliveries).unwrap();
        deliveries.len()
    };
    assert_eq!(receive(0), 1);
    assert_eq!(receive(500), 2);
    assert_eq!(receive(usize::MAX), 2);
}

#[test]
fn what_is_received_and_deleted_is_gone() {
    let (_store, queue) = queue(QueueOptions::default());
    send(&queue, 0, &["a", "b"]);
    let mut deliveries = Deliveries::new();
    let request = request(ReceiveMode::ReceiveAndDelete, 1);
    queue.receive(at(0), &request, &mut deliveries).unwrap();
    assert_eq!(texts(&seen(&deliveries)), ["a"]);
    assert_eq!(deliveries.iter().next().unwrap().lock, None);
    assert_eq!(queue.counts().active, 1);
    queue.receive(at(0), &request, &mut deliveries).unwrap();
    assert_eq!(texts(&seen(&deliveries)), ["a", "b"], "they are added");
    assert_eq!(queue.counts(), QueueCounts::default());
    deliveries.clear();
    assert!(deliveries.is_empty());
}

#[test]
fn peeking_shows_every_state_and_changes_none() {
    let (_store, queue) = queue(QueueOptions::default());
    send(&queue, 0, &["locked", "deferred", "ready"]);
    send_with(&queue, 0, &["scheduled"], |message| NewMessage {
        scheduled_enqueue_time: Some(at(50)),
        ..message
    })
    .unwrap();
    let received = receive(&queue, 0, 2);
    settle(&queue, 0, &received[1..], &DEFER);
    let states: Vec<_> =
        seen(&peek(&queue, 1)).iter().map(|seen| (seen.text.clone(), seen.state, seen.token)).collect();
    let expected = [
        ("locked".to_owned(), MessageState::Active, None),
        ("deferred".to_owned(), MessageState::Deferred, None),
        ("ready".to_owned(), MessageState::Active, None),
        ("scheduled".to_owned(), MessageState::Scheduled, None),
    ];
    assert_eq!(states, expected);
    let mut some = Deliveries::new();
    queue.peek(at(1), 2, 2, usize::MAX, None, &mut some);
    assert_eq!(texts(&seen(&some)), ["deferred", "ready"]);
    let mut short = Deliveries::new();
    queue.peek(at(1), 3, 9, 0, None, &mut short);
    assert_eq!(texts(&seen(&short)), ["ready"]);
    queue.peek(at(1), u64::MAX, 9, 9, None, &mut short);
    assert_eq!(short.len(), 1);
    assert_eq!(texts(&receive(&queue, 1, 10)), ["ready"]);
}

#[test]
fn deferred_messages_are_received_by_number_all_or_none_and_stay_deferred_until_completed() {
    let (_store, queue) = queue(QueueOptions::default());
    send(&queue, 0, &["a", "b", "c"]);
    let received = receive(&queue, 0, 2);
    settle(&queue, 0, &received, &DEFER);
    assert_eq!(queue.counts().deferred, 2);
    let receive_deferred = |numbers: &[u64], mode, now| {
        let mut deliveries = Deliveries::new();
        let request = request(mode, 0);
        let result = queue.receive_deferred(at(now), numbers, &request, &mut deliveries);
        result.map(|_| seen(&deliveries))
    };
    for wrong in [&[1, 3][..], &[1, 1], &[9], &[0]] {
        let refused = receive_deferred(wrong, ReceiveMode::PeekLock, 0);
        assert!(matches!(refused, Err(QueueError::MessageNotFound { .. })));
    }
    let again = receive_deferred(&[2, 1], ReceiveMode::PeekLock, 0).unwrap();
    assert_eq!(texts(&again), ["b", "a"]);
    assert!(receive_deferred(&[1], ReceiveMode::PeekLock, 0).is_err());
    settle(&queue, 0, &again[..1], &Settlement::Complete);
    // The other lock ends, and the message is as deferred as before, one failure more.
    let again = receive_deferred(&[1], ReceiveMode::PeekLock, LOCK).unwrap();
    assert_eq!((again[0].count, again[0].state), (1, MessageState::Deferred));
    settle(&queue, LOCK, &again, &ABANDON);
    let last = receive_deferred(&[1], ReceiveMode::ReceiveAndDelete, LOCK).unwrap();
    assert_eq!(last[0].count, 2);
    assert_eq!(texts(&receive(&queue, LOCK, 10)), ["c"]);
}

#[test]
fn nothing_is_received_from_what_is_switched_off_or_forwards() {
    let store = QueueStore::in_memory();
    let create = |name: &str, options| store.create_queue(name, options).unwrap();
    let received = |queue: &Queue| {
        let request = request(ReceiveMode::PeekLock, 1);
        queue.receive(at(0), &request, &mut Deliveries::new())
    };
    let status = EntityStatus::ReceiveDisabled;
    let off = create("off", QueueOptions { status, ..QueueOptions::default() });
    assert_eq!(received(&off), Err(QueueError::Disabled(status)));
    let forwarding =
        create("forwarding", QueueOptions { forward_to: Some("off".to_owned()), ..QueueOptions::default() });
    assert_eq!(received(&forwarding), Err(QueueError::ReceivingNotAllowed));
    assert!(received(forwarding.dead_letters().unwrap()).is_ok());
    assert!(received(forwarding.transfer_dead_letters().unwrap()).is_ok());
}
