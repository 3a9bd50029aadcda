//! Sessions: locks, order, states.

use super::*;

fn sessions() -> (Arc<QueueStore>, Arc<Queue>) {
    queue(QueueOptions { requires_session: true, ..QueueOptions::default() })
}

fn send_to(queue: &Queue, now: i64, session: &'static str, texts: &[&str]) {
    send_with(queue, now, texts, |message| NewMessage { session_id: Some(session), ..message }).unwrap();
}

fn accept(queue: &Queue, now: i64, session: Option<&str>) -> SessionLock {
    queue.accept_session(at(now), session).unwrap().unwrap()
}

fn receive_in(queue: &Queue, now: i64, lock: &SessionLock, messages: usize) -> Result<Vec<Seen>, QueueError> {
    let mut deliveries = Deliveries::new();
    let request = ReceiveRequest { session: Some(lock), ..request(ReceiveMode::PeekLock, messages) };
    queue.receive(at(now), &request, &mut deliveries)?;
    Ok(seen(&deliveries))
}

#[test]
fn messages_come_session_by_session_in_their_order() {
    let (_store, queue) = sessions();
    send_to(&queue, 0, "one", &["a", "b"]);
    send_to(&queue, 0, "two", &["c"]);
    send_to(&queue, 0, "one", &["d"]);
    let one = accept(&queue, 0, None);
    let two = accept(&queue, 0, None);
    assert_eq!((one.id(), two.id()), ("one", "two"));
    assert!(queue.accept_session(at(0), None).unwrap().is_none());
    assert_eq!(texts(&receive_in(&queue, 0, &one, 2).unwrap()), ["a", "b"]);
    assert_eq!(texts(&receive_in(&queue, 0, &two, 9).unwrap()), ["c"]);
    let rest = receive_in(&queue, 0, &one, 9).unwrap();
    assert_eq!(texts(&rest), ["d"]);
    settle(&queue, 0, &rest, &ABANDON);
    let again = receive_in(&queue, 0, &one, 9).unwrap();
    assert_eq!((texts(&again), again[0].count), (vec!["d"], 1));
}

#[test]
fn a_session_is_locked_by_one_receiver_until_released() {
    let (_store, queue) = sessions();
    let lock = accept(&queue, 0, Some("empty"));
    assert_eq!(lock.locked_until(), LockEnd::at(at(LOCK)));
    let refused = queue.accept_session(at(0), Some("empty"));
    assert_eq!(refused.unwrap_err(), QueueError::SessionCannotBeLocked);
    send_to(&queue, 0, "empty", &["a"]);
    let received = receive_in(&queue, 0, &lock, 1).unwrap();
    queue.release_session(at(0), &lock);
    assert_eq!(receive_in(&queue, 0, &lock, 1), Err(QueueError::SessionLockLost));
    let settled = queue.settle(at(0), &tokens(&received), &Settlement::Complete).unwrap();
    assert_eq!(settled.refused, tokens(&received));
    // What was locked with it is available at once, as if never received.
    let next = accept(&queue, 0, None);
    assert_eq!(receive_in(&queue, 0, &next, 1).unwrap()[0].count, 0);
    queue.release_session(at(0), &lock);
    assert!(receive_in(&queue, 0, &next, 1).is_ok(), "not released by another");
}

#[test]
fn the_end_of_a_session_lock_is_a_failed_delivery_of_what_was_locked() {
    let (store, queue) = sessions();
    send_to(&queue, 0, "one", &["a", "b"]);
    let lock = accept(&queue, 0, None);
    let received = receive_in(&queue, 0, &lock, 1).unwrap();
    // Messages have no lock of their own.
    assert_eq!(queue.renew_session_lock(at(LOCK - 1), "one"), Ok(LockEnd::at(at(2 * LOCK - 1))));
    let renewed = queue.renew_locks(at(LOCK), &tokens(&received));
    assert_eq!(renewed, [Ok(LockEnd::at(at(2 * LOCK - 1)))]);
    assert_eq!(store.advance(at(LOCK)), Some(at(2 * LOCK - 1)));
    let lost = queue.renew_locks(at(2 * LOCK - 1), &tokens(&received));
    assert_eq!(lost, [Err(QueueError::SessionLockLost)]);
    let refused = queue.renew_session_lock(at(2 * LOCK - 1), "one");
    assert_eq!(refused, Err(QueueError::SessionLockLost));
    let lock = accept(&queue, 2 * LOCK, Some("one"));
    let again = receive_in(&queue, 2 * LOCK, &lock, 9).unwrap();
    assert_eq!((again[0].count, again[1].count), (1, 0));
    settle(&queue, 2 * LOCK, &again, &Settlement::Complete);
    queue.release_session(at(2 * LOCK), &lock);
    assert_eq!(queue.counts(), QueueCounts::default());
    assert_eq!(queue.sessions(0, 9), Vec::<String>::new());
}

#[test]
fn a_state_is_kept_with_its_session_and_counts() {
    let (_store, queue) = sessions();
    let refused = queue.set_session_state(at(0), "s", Some(b"x"));
    assert_eq!(refused, Err(QueueError::SessionLockLost));
    let lock = accept(&queue, 0, Some("s"));
    assert_eq!(queue.session_state(at(0), "s"), Ok(None));
    queue.set_session_state(at(0), "s", Some(b"state")).unwrap();
    queue.release_session(at(0), &lock);
    let refused = queue.session_state(at(0), "s");
    assert_eq!(refused, Err(QueueError::SessionLockLost));
    assert_eq!(queue.sessions(0, 9), ["s"]);
    assert_eq!(queue.counts().bytes, 6 + MESSAGE_OVERHEAD);
    let lock = accept(&queue, 0, Some("s"));
    assert_eq!(queue.session_state(at(0), "s"), Ok(Some(b"state".to_vec())));
    queue.set_session_state(at(0), "s", None).unwrap();
    queue.release_session(at(0), &lock);
    assert_eq!(queue.counts().bytes, 0);
    assert_eq!(queue.sessions(0, 9), Vec::<String>::new());
}

#[test]
fn sessions_are_listed_in_pages_and_peeked_by_name() {
    let (_store, queue) = sessions();
    for session in ["c", "a", "b"] {
        send_to(&queue, 0, session, &["first", session]);
    }
    assert_eq!(queue.sessions(1, 1), ["b"]);
    assert_eq!(queue.sessions(0, 9), ["a", "b", "c"]);
    let mut deliveries = Deliveries::new();
    queue.peek(at(0), 2, 9, usize::MAX, Some("b"), &mut deliveries);
    assert_eq!(texts(&seen(&deliveries)), ["first", "b"]);
    let mut none = Deliveries::new();
    queue.peek(at(0), 0, 9, usize::MAX, Some("d"), &mut none);
    assert!(none.is_empty());
}

#[test]
fn deferred_messages_belong_to_their_session() {
    let (_store, queue) = sessions();
    send_to(&queue, 0, "one", &["a"]);
    send_to(&queue, 0, "two", &["b"]);
    let (one, two) = (accept(&queue, 0, Some("one")), accept(&queue, 0, Some("two")));
    let received = receive_in(&queue, 0, &one, 1).unwrap();
    settle(&queue, 0, &received, &DEFER);
    let receive_deferred = |lock: &SessionLock| {
        let mut deliveries = Deliveries::new();
        let request = ReceiveRequest { session: Some(lock), ..request(ReceiveMode::PeekLock, 0) };
        let result = queue.receive_deferred(at(0), &[1], &request, &mut deliveries);
        result.map(|_| seen(&deliveries))
    };
    assert!(receive_deferred(&two).is_err());
    let received = receive_deferred(&one).unwrap();
    queue.release_session(at(0), &one);
    let one = accept(&queue, 0, Some("one"));
    assert!(receive_in(&queue, 0, &one, 9).unwrap().is_empty(), "still deferred");
    let settled = queue.settle(at(0), &tokens(&received), &Settlement::Complete).unwrap();
    assert_eq!(settled.count, 0);
    settle(&queue, 0, &receive_deferred(&one).unwrap(), &Settlement::Complete);
}

#[test]
fn sessions_and_queues_without_them_do_not_mix() {
    let (_store, queue) = sessions();
    let refused = send_with(&queue, 0, &["a"], |message| message);
    assert_eq!(refused, Err(QueueError::SessionIdMissing { index: 0 }));
    send_to(&queue, 0, "one", &["a"]);
    let plain = request(ReceiveMode::PeekLock, 1);
    let refused = queue.receive(at(0), &plain, &mut Deliveries::new());
    assert_eq!(refused, Err(QueueError::SessionRequired));
    let lock = accept(&queue, 0, None);
    let (_store, other) = super::queue(QueueOptions::default());
    let refused = other.accept_session(at(0), None);
    assert_eq!(refused.unwrap_err(), QueueError::NoSessions);
    assert_eq!(receive_in(&other, 0, &lock, 1), Err(QueueError::NoSessions));
    // Dead letters have none.
    let received = receive_in(&queue, 0, &lock, 1).unwrap();
    let hopeless = Settlement::DeadLetter { reason: None, description: None, properties: &[] };
    settle(&queue, 0, &received, &hopeless);
    assert_eq!(receive(queue.dead_letters().unwrap(), 0, 1).len(), 1);
}

#[test]
fn scheduled_messages_come_to_their_session() {
    let (_store, queue) = sessions();
    send_with(&queue, 0, &["a"], |message| NewMessage {
        session_id: Some("one"),
        scheduled_enqueue_time: Some(at(10)),
        ..message
    })
    .unwrap();
    assert!(queue.accept_session(at(9), None).unwrap().is_none());
    let lock = accept(&queue, 10, None);
    assert_eq!(lock.id(), "one");
    assert_eq!(receive_in(&queue, 10, &lock, 9).unwrap().len(), 1);
}

#[test]
fn a_session_whose_lock_has_ended_can_be_had_by_name_however_many_ended_with_it() {
    let (_store, queue) = queue(QueueOptions {
        requires_session: true,
        lock_duration: Duration::from_millis(100),
        ..QueueOptions::default()
    });
    let names: Vec<String> = (0..100).map(|number| format!("{number:03}")).collect();
    for name in &names {
        queue.accept_session(at(0), Some(name)).unwrap().unwrap();
    }
    for name in names.iter().rev() {
        let early = queue.accept_session(at(99), Some(name));
        assert_eq!(early.unwrap_err(), QueueError::SessionCannotBeLocked);
    }
    for name in names.iter().rev() {
        let lock = queue.accept_session(at(100), Some(name)).unwrap().unwrap();
        assert_eq!(lock.id(), name);
    }
}

#[test]
fn missing_message_keeps_session_lock() {
    let (store, queue) = sessions();
    send_to(&queue, 0, "one", &["a", "b"]);
    let lock = accept(&queue, 0, None);
    let received = receive_in(&queue, 0, &lock, 2).unwrap();
    let tokens = tokens(&received);
    settle(&queue, 0, &received[..1], &Settlement::Complete);
    let (gone, there) = (&tokens[0], &tokens[1]);
    let why = |now, token, session| queue.why_lost(at(now), token, session);
    for session in [None, Some(&lock)] {
        assert_eq!(why(0, gone, session), QueueError::MessageLockLost);
    }
    // The lock of the session is over, and of what was locked with it.
    assert_eq!(why(LOCK, gone, Some(&lock)), QueueError::SessionLockLost);
    assert_eq!(why(LOCK, there, Some(&lock)), QueueError::SessionLockLost);
    assert_eq!(why(LOCK, there, None), QueueError::SessionLockLost);
    let work = Work::Settle { queue: &queue, tokens: &tokens[..1], settlement: Settlement::Complete };
    assert_eq!(store.commit(at(0), &[work]), Err(QueueError::MessageLockLost));
}

#[test]
fn session_message_lock_expires_in_year_9999() {
    let (_store, queue) = sessions();
    send_to(&queue, 0, "one", &["a"]);
    let lock = accept(&queue, 0, None);
    let mut deliveries = Deliveries::new();
    let request = ReceiveRequest { session: Some(&lock), ..request(ReceiveMode::PeekLock, 1) };
    queue.receive(at(0), &request, &mut deliveries).unwrap();
    let until = |deliveries: &Deliveries| deliveries.iter().next().unwrap().lock.unwrap().until;
    assert_eq!(until(&deliveries), LockEnd::WITH_ITS_SESSION);
    let number = deliveries.iter().next().unwrap().sequence_number;
    settle(&queue, 0, &seen(&deliveries), &DEFER);
    deliveries.clear();
    queue.renew_session_lock(at(LOCK - 1), "one").unwrap();
    queue.receive_deferred(at(LOCK), &[number], &request, &mut deliveries).unwrap();
    assert_eq!(until(&deliveries), LockEnd::WITH_ITS_SESSION);
    settle(&queue, LOCK, &seen(&deliveries), &Settlement::Complete);
}
