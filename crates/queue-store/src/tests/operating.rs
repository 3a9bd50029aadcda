//! What operators do to queues.

use super::*;

fn kill(queue: &Queue, now: i64, count: usize) {
    let messages = receive(queue, now, count);
    let hopeless =
        Settlement::DeadLetter { reason: Some("broken"), description: Some("really"), properties: &[] };
    settle(queue, now, &messages, &hopeless);
}

#[test]
fn messages_are_found_by_how_many_are_before_them() {
    let (_store, queue) = queue(QueueOptions::default());
    let bodies: Vec<String> = (0..300).map(|number| number.to_string()).collect();
    send(&queue, 0, &bodies.iter().map(String::as_str).collect::<Vec<_>>());
    let first = queue.number_at(0).unwrap();
    settle(&queue, 0, &receive(&queue, 0, 150), &Settlement::Complete);
    assert_eq!(queue.number_at(0), Some(first + 150));
    assert_eq!(queue.number_at(149), Some(first + 299));
    assert_eq!(queue.number_at(150), None);
}

#[test]
fn what_is_removed_is_gone_and_what_is_locked_stays() {
    let (_store, queue) = queue(QueueOptions::default());
    send(&queue, 0, &["locked", "a", "b"]);
    let locked = receive(&queue, 0, 1);
    let first = locked[0].number;
    assert_eq!(queue.locks([first, first + 1, 99]), [Some(LockEnd::at(at(LOCK))), None, None]);
    let removed = queue.remove(at(0), &[first, first + 1, 99]).unwrap();
    assert_eq!((removed.count, removed.refused), (1, vec![first, 99]));
    assert_eq!(texts(&receive(&queue, 0, 9)), ["b"]);
    settle(&queue, 0, &locked, &Settlement::Complete);
}

#[test]
fn a_purge_goes_step_by_step_up_to_where_it_began_and_spares_locked_messages() {
    let (_store, queue) = queue(QueueOptions::default());
    send(&queue, 0, &["locked", "a", "b", "c"]);
    let locked = receive(&queue, 0, 1);
    let end = locked[0].number + 4;
    send(&queue, 0, &["later"]);
    let step = queue.purge(at(0), 0, end, 3).unwrap();
    assert_eq!((step.count, step.locked, step.next), (2, 1, Some(end - 1)));
    let step = queue.purge(at(0), end - 1, end, 3).unwrap();
    assert_eq!((step.count, step.locked, step.next), (1, 0, None));
    assert_eq!((queue.counts().active, queue.counts().locked), (2, 1));
    assert_eq!(texts(&receive(&queue, 0, 9)), ["later"]);
}

#[test]
fn dead_letters_are_sent_again_without_their_reason_and_are_no_duplicates() {
    let hour = Some(Duration::from_secs(3600));
    let (_store, queue) = queue(QueueOptions { duplicate_detection: hour, ..QueueOptions::default() });
    let with_id = |message| NewMessage { message_id: Some(&b"\xa1\x01m"[..]), ..message };
    send_with(&queue, 0, &["x"], with_id).unwrap();
    kill(&queue, 0, 1);
    assert_eq!(dead_letters(&queue, 0), [("x".to_owned(), "broken".to_owned())]);
    let letters = queue.dead_letters().unwrap();
    let number = letters.number_at(0).unwrap();
    let sent = letters.resubmit(at(0), &[number, number, 77]).unwrap();
    assert_eq!((sent.count, sent.refused), (1, vec![number, 77]));
    assert_eq!(dead_letters(&queue, 0), []);
    let again = peek(&queue, 0);
    let again = again.iter().next().unwrap();
    assert_eq!((text(again.sections).as_str(), property(again.sections, "DeadLetterReason")), ("x", None));
    assert_eq!(queue.resubmit(at(0), &[1]), Err(QueueError::SendingNotAllowed));
}

#[test]
fn dead_letters_that_do_not_fit_stay_where_they_are() {
    let (_store, queue) =
        queue(QueueOptions { size_limit: units::ByteSize::from_bytes(280), ..QueueOptions::default() });
    send(&queue, 0, &["first"]);
    kill(&queue, 0, 1);
    send(&queue, 0, &["second"]);
    let letters = queue.dead_letters().unwrap();
    let number = letters.number_at(0).unwrap();
    assert!(matches!(letters.resubmit(at(0), &[number]), Err(QueueError::Full { .. })));
    assert_eq!(dead_letters(&queue, 0).len(), 1);
}

#[test]
fn sessions_are_described_as_they_stand_and_lose_messages_that_are_removed() {
    let (_store, queue) = queue(QueueOptions { requires_session: true, ..QueueOptions::default() });
    for id in ["a", "b"] {
        send_with(&queue, 0, &["x", "y"], |message| NewMessage { session_id: Some(id), ..message }).unwrap();
    }
    let lock = queue.accept_session(at(0), Some("b")).unwrap().unwrap();
    queue.set_session_state(at(0), "b", Some(b"state")).unwrap();
    let request = ReceiveRequest { session: Some(&lock), ..request(ReceiveMode::PeekLock, 1) };
    let mut received = Deliveries::new();
    queue.receive(at(0), &request, &mut received).unwrap();
    let locked = received.iter().next().unwrap().sequence_number;
    assert_eq!(queue.locks([locked]), [Some(LockEnd::at(at(LOCK)))]);
    let description = |id: &str, available, locked_until, state_bytes| SessionDescription {
        id: id.to_owned(),
        messages: 2,
        available,
        locked_until,
        state_bytes,
    };
    let [a, b] = [description("a", 2, None, None), description("b", 1, Some(LockEnd::at(at(LOCK))), Some(5))];
    assert_eq!(queue.describe_sessions(0, 9), [a, b.clone()]);
    assert_eq!(queue.describe_sessions(1, 9), [b]);
    let purged = queue.purge(at(0), 0, u64::MAX, 9).unwrap();
    assert_eq!((purged.count, purged.locked), (3, 1));
    assert_eq!(queue.describe_sessions(0, 9).iter().map(|it| it.id.as_str()).collect::<Vec<_>>(), ["b"]);
}
