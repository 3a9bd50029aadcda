//! What each settlement does, and what a lost lock does.

use super::*;

#[test]
fn a_completed_message_is_gone_and_can_be_completed_once() {
    let (_store, queue) = queue(QueueOptions::default());
    send(&queue, 0, &["a", "b"]);
    let received = receive(&queue, 0, 2);
    settle(&queue, 0, &received[..1], &Settlement::Complete);
    let settled = queue.settle(at(0), &tokens(&received), &Settlement::Complete).unwrap();
    assert_eq!((settled.count, settled.refused), (1, tokens(&received[..1])));
    assert_eq!(queue.counts(), QueueCounts::default());
    assert_eq!(receive(&queue, LOCK, 10), []);
}

#[test]
fn foreign_and_malformed_tokens_settle_nothing() {
    let (store, queue) = queue(QueueOptions::default());
    let other = store.create_queue("other", QueueOptions::default()).unwrap();
    send(&queue, 0, &["a"]);
    send(&other, 0, &["a"]);
    let (own, foreign) = (receive(&queue, 0, 1), receive(&other, 0, 1));
    let wrong = [
        foreign[0].token.unwrap(),
        LockToken::from_bytes([0; 16]),
        LockToken::from_bytes([0xff; 16]),
        LockToken { nonce: 0, ..own[0].token.unwrap() },
        LockToken { sequence_number: 2, ..own[0].token.unwrap() },
    ];
    let settled = queue.settle(at(0), &wrong, &Settlement::Complete).unwrap();
    assert_eq!((settled.count, &settled.refused[..]), (0, &wrong[..]));
    let renewed = queue.renew_locks(at(0), &wrong);
    assert_eq!(renewed, [Err(QueueError::MessageLockLost); 5]);
    assert_eq!(queue.counts().active, 1);
}

#[test]
fn an_abandoned_message_comes_back_before_younger_ones_with_its_count_and_properties() {
    let (_store, queue) = queue(QueueOptions::default());
    send(&queue, 0, &["a", "b"]);
    let received = receive(&queue, 0, 1);
    let properties = [("why".to_owned(), Value::Int(1))];
    let abandon = Settlement::Abandon { properties: &properties };
    settle(&queue, 0, &received, &abandon);
    let mut deliveries = Deliveries::new();
    let request = request(ReceiveMode::PeekLock, 10);
    queue.receive(at(0), &request, &mut deliveries).unwrap();
    let again = seen(&deliveries);
    assert_eq!(texts(&again), ["a", "b"]);
    assert_eq!((again[0].count, again[1].count), (1, 0));
    let sections = deliveries.iter().next().unwrap().sections;
    assert_eq!(property(sections, "why"), Some(Value::Int(1)));
    settle(&queue, 0, &again, &abandon);
    settle(&queue, 0, &receive(&queue, 0, 10), &Settlement::Complete);
    assert_eq!(queue.counts(), QueueCounts::default());
}

#[test]
fn a_released_message_counts_no_failed_delivery() {
    let (_store, queue) = queue(QueueOptions::default());
    send(&queue, 0, &["a"]);
    for _ in 0..20 {
        let received = receive(&queue, 0, 1);
        assert_eq!(received[0].count, 0);
        settle(&queue, 0, &received, &Settlement::Release);
    }
}

#[test]
fn a_dead_letter_has_reason_description_properties_and_where_it_comes_from() {
    let (_store, queue) = queue(QueueOptions::default());
    send(&queue, 0, &["x", "a"]);
    let received = receive(&queue, 0, 2);
    let properties = [("more".to_owned(), Value::Boolean(true))];
    let settlement = Settlement::DeadLetter {
        reason: Some("hopeless"),
        description: Some("nobody can read it"),
        properties: &properties,
    };
    settle(&queue, 5, &received[1..], &settlement);
    assert_eq!(queue.counts().dead_letters, 1);
    let dead_letters = queue.dead_letters().unwrap();
    let deliveries = peek(dead_letters, 6);
    let letter = deliveries.iter().next().unwrap();
    assert_eq!(letter.sequence_number, 1, "numbers are given anew");
    assert_eq!(letter.enqueue_sequence_number, 2);
    assert_eq!(letter.enqueued_time, at(0));
    assert_eq!(letter.dead_letter_source, Some("orders"));
    let property = |name| property(letter.sections, name);
    assert_eq!(property("DeadLetterReason"), Some("hopeless".into()));
    assert_eq!(property("DeadLetterErrorDescription"), Some("nobody can read it".into()));
    assert_eq!(property("more"), Some(Value::Boolean(true)));
    // There it is received and settled as anywhere, and can't go further. Failures are not counted any more.
    let abandon = Settlement::Abandon { properties: &[] };
    for settlement in [&settlement, &abandon] {
        let received = receive(dead_letters, 6, 1);
        assert_eq!(received[0].count, 0);
        settle(dead_letters, 6, &received, settlement);
    }
    receive(dead_letters, 6, 1);
    let after_its_lock = 6 + LOCK;
    let received = receive(dead_letters, after_its_lock, 1);
    assert_eq!(received[0].count, 0);
    settle(dead_letters, after_its_lock, &received, &Settlement::Complete);
    assert_eq!(queue.counts().dead_letters, 0);
    assert!(peek(queue.transfer_dead_letters().unwrap(), after_its_lock).is_empty());
}

#[test]
fn after_the_last_failed_delivery_a_message_is_a_dead_letter() {
    let (_store, queue) = queue(QueueOptions { maximum_delivery_count: 3, ..QueueOptions::default() });
    send(&queue, 0, &["abandoned", "expired"]);
    for _ in 0..3 {
        let received = receive(&queue, 0, 1);
        settle(&queue, 0, &received, &ABANDON);
    }
    let received = receive(&queue, 0, 1);
    assert_eq!(texts(&received), ["expired"]);
    assert_eq!(receive(&queue, LOCK, 1)[0].count, 1);
    assert_eq!(receive(&queue, 2 * LOCK, 1)[0].count, 2);
    assert_eq!(receive(&queue, 3 * LOCK, 1), []);
    let reason = "MaxDeliveryCountExceeded".to_owned();
    let expected = [("abandoned".to_owned(), reason.clone()), ("expired".to_owned(), reason)];
    assert_eq!(dead_letters(&queue, 3 * LOCK), expected);
    assert_eq!(peek(queue.dead_letters().unwrap(), 0).iter().count(), 2);
}

#[test]
fn a_lock_is_lost_at_its_end_and_not_before() {
    let (store, queue) = queue(QueueOptions::default());
    send(&queue, 0, &["a"]);
    let first = receive(&queue, 0, 1);
    assert_eq!(store.advance(at(LOCK - 1)), Some(at(LOCK)));
    assert_eq!(receive(&queue, LOCK - 1, 1), []);
    let second = receive(&queue, LOCK, 1);
    assert_eq!(second[0].count, 1);
    let settled = queue.settle(at(LOCK), &tokens(&first), &Settlement::Complete).unwrap();
    assert_eq!((settled.count, settled.refused), (0, tokens(&first)));
    settle(&queue, LOCK, &second, &Settlement::Complete);
}

#[test]
fn a_renewed_lock_lasts_another_lock_duration() {
    let (_store, queue) = queue(QueueOptions::default());
    send(&queue, 0, &["a"]);
    let received = receive(&queue, 0, 1);
    for step in 1..4 {
        let now = step * (LOCK - 1);
        let renewed = queue.renew_locks(at(now), &tokens(&received));
        assert_eq!(renewed, [Ok(LockEnd::at(at(now + LOCK)))]);
    }
    let end = 3 * (LOCK - 1) + LOCK;
    assert_eq!(receive(&queue, end - 1, 1), []);
    let late = queue.renew_locks(at(end), &tokens(&received));
    assert_eq!(late, [Err(QueueError::MessageLockLost)]);
    assert_eq!(receive(&queue, end, 1).len(), 1);
}

#[test]
fn time_that_goes_back_stands_still() {
    let (_store, queue) = queue(QueueOptions::default());
    send(&queue, 1000, &["a"]);
    let mut deliveries = Deliveries::new();
    let request = request(ReceiveMode::PeekLock, 1);
    queue.receive(at(5), &request, &mut deliveries).unwrap();
    let lock = deliveries.iter().next().unwrap().lock.unwrap();
    assert_eq!(lock.until, LockEnd::at(at(1000 + LOCK)));
}

#[test]
fn many_messages_are_settled_in_any_order_and_any_pieces() {
    let (_store, queue) = queue(QueueOptions::default());
    let names: Vec<String> = (0..1000).map(|number| number.to_string()).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    send(&queue, 0, &names);
    let mut received = receive(&queue, 0, 1000);
    assert_eq!(texts(&received), names);
    // Every seventh first, backwards; then the rest.
    let mut sevenths: Vec<_> = received.extract_if(.., |seen| seen.number % 7 == 0).collect();
    sevenths.reverse();
    settle(&queue, 0, &sevenths, &Settlement::Complete);
    settle(&queue, 0, &received[..400], &Settlement::Release);
    let again = receive(&queue, 0, 1000);
    assert_eq!(texts(&again), texts(&received[..400]));
    settle(&queue, 0, &received[400..], &Settlement::Complete);
    settle(&queue, 0, &again, &Settlement::Complete);
    assert_eq!(queue.counts(), QueueCounts::default());
}
