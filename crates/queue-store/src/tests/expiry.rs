//! Times to live.

use super::*;

fn lasting(milliseconds: u64) -> impl Fn(NewMessage<'static>) -> NewMessage<'static> {
    move |message| NewMessage { time_to_live: Some(Duration::from_millis(milliseconds)), ..message }
}

#[test]
fn an_expired_message_is_dropped_or_becomes_a_dead_letter() {
    for dead_lettering_on_expiration in [false, true] {
        let (store, queue) = queue(QueueOptions { dead_lettering_on_expiration, ..QueueOptions::default() });
        send_with(&queue, 0, &["short"], lasting(10)).unwrap();
        send_with(&queue, 0, &["long"], lasting(20)).unwrap();
        let deliveries = peek(&queue, 9);
        let time_to_live = deliveries.iter().next().unwrap().time_to_live;
        assert_eq!(time_to_live, Some(Duration::from_millis(10)));
        assert_eq!(store.advance(at(9)), Some(at(10)));
        assert_eq!(texts(&receive(&queue, 10, 10)), ["long"]);
        let expected = match dead_lettering_on_expiration {
            true => vec![("short".to_owned(), "TTLExpiredException".to_owned())],
            false => vec![],
        };
        assert_eq!(dead_letters(&queue, 10), expected);
        assert_eq!(queue.counts().active, 1);
    }
}

#[test]
fn the_queue_bounds_the_time_to_live() {
    let (_store, queue) = queue(QueueOptions {
        default_time_to_live: Some(Duration::from_millis(100)),
        ..QueueOptions::default()
    });
    send_with(&queue, 0, &["longer"], lasting(1000)).unwrap();
    send_with(&queue, 0, &["shorter"], lasting(50)).unwrap();
    send(&queue, 0, &["none"]);
    assert_eq!(peek(&queue, 49).len(), 3);
    assert_eq!(texts(&seen(&peek(&queue, 50))), ["longer", "none"]);
    assert!(peek(&queue, 100).is_empty());
    assert_eq!(queue.counts(), QueueCounts::default());
}

#[test]
fn a_locked_message_does_not_expire_before_its_lock_ends() {
    let (_store, queue) =
        queue(QueueOptions { dead_lettering_on_expiration: true, ..QueueOptions::default() });
    send_with(&queue, 0, &["completed", "lost"], lasting(10)).unwrap();
    let received = receive(&queue, 0, 2);
    settle(&queue, 20, &received[..1], &Settlement::Complete);
    assert_eq!(queue.counts().locked, 1);
    assert_eq!(receive(&queue, LOCK, 10), []);
    let expected = [("lost".to_owned(), "TTLExpiredException".to_owned())];
    assert_eq!(dead_letters(&queue, LOCK), expected);
}

#[test]
fn a_deferred_message_expires_too() {
    let (_store, queue) = queue(QueueOptions::default());
    send_with(&queue, 0, &["a"], lasting(10)).unwrap();
    let received = receive(&queue, 0, 1);
    settle(&queue, 0, &received, &DEFER);
    let receive_deferred = |now| {
        let request = request(ReceiveMode::PeekLock, 1);
        queue.receive_deferred(at(now), &[1], &request, &mut Deliveries::new())
    };
    let gone = QueueError::MessageNotFound { sequence_number: 1 };
    assert_eq!(receive_deferred(10), Err(gone));
    assert_eq!(queue.counts(), QueueCounts::default());
}

#[test]
fn a_scheduled_message_lives_from_its_time_on() {
    let (_store, queue) = queue(QueueOptions::default());
    send_with(&queue, 0, &["a"], |message| NewMessage {
        time_to_live: Some(Duration::from_millis(10)),
        scheduled_enqueue_time: Some(at(100)),
        ..message
    })
    .unwrap();
    assert_eq!(peek(&queue, 99).len(), 1);
    let deliveries = peek(&queue, 105);
    let delivery = deliveries.iter().next().unwrap();
    assert_eq!(delivery.enqueued_time, at(105));
    assert_eq!(delivery.time_to_live, Some(Duration::from_millis(10)));
    assert_eq!(peek(&queue, 114).len(), 1);
    assert!(peek(&queue, 115).is_empty());
}

#[test]
fn dead_letters_do_not_expire() {
    let (_store, queue) = queue(QueueOptions {
        default_time_to_live: Some(Duration::from_millis(10)),
        dead_lettering_on_expiration: true,
        ..QueueOptions::default()
    });
    send(&queue, 0, &["a"]);
    assert_eq!(dead_letters(&queue, 10).len(), 1);
    assert_eq!(dead_letters(&queue, 1_000_000).len(), 1);
}

#[test]
fn more_than_one_operation_may_look_at_expires_all_the_same() {
    let (store, queue) = queue(QueueOptions::default());
    let names: Vec<String> = (0..20_000).map(|number| number.to_string()).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    send_with(&queue, 0, &names, lasting(10)).unwrap();
    send(&queue, 0, &["stays"]);
    // What was not looked at in time is not given to anyone.
    assert_eq!(texts(&receive(&queue, 10, 1)), ["stays"]);
    store.advance(at(10));
    assert_eq!(queue.counts().active, 1);
}
