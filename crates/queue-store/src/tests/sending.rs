//! What is accepted and what is refused.

use super::*;
use std::collections::BTreeSet;
use units::ByteSize;

#[test]
fn numbers_begin_with_one_and_ascend_and_the_time_is_that_of_the_call() {
    let (_store, queue) = queue(QueueOptions::default());
    send(&queue, 5, &["a", "b"]);
    send(&queue, 9, &["c"]);
    let deliveries = peek(&queue, 10);
    let all: Vec<_> = deliveries
        .iter()
        .map(|delivery| {
            let number = delivery.sequence_number;
            assert_eq!(delivery.enqueue_sequence_number, number);
            (number, delivery.enqueued_time.milliseconds())
        })
        .collect();
    assert_eq!(all, [(1, 5), (2, 5), (3, 9)]);
}

#[test]
fn annotations_and_sections_come_out_as_they_went_in_whatever_their_length() {
    let (_store, queue) = queue(QueueOptions::default());
    for length in [0, 1, 511, 512, 513, 100_000] {
        let sections = vec![7_u8; length];
        let (one, other) = sections.split_at(length / 2);
        let annotations = vec![9_u8; length.min(60_000)];
        let message = NewMessage {
            sections: &[one, other],
            annotation_count: 3,
            annotations: &annotations,
            ..NewMessage::default()
        };
        queue.enqueue(at(0), &[message, message]).unwrap();
        let mut deliveries = Deliveries::new();
        let request = request(ReceiveMode::ReceiveAndDelete, 10);
        queue.receive(at(0), &request, &mut deliveries).unwrap();
        assert_eq!(deliveries.len(), 2);
        for delivery in deliveries.iter() {
            assert_eq!(delivery.sections, sections);
            assert_eq!(delivery.annotations, annotations);
            assert_eq!(delivery.annotation_count, 3);
        }
    }
    assert_eq!(queue.counts(), QueueCounts::default());
}

#[test]
fn annotations_longer_than_any_client_has_are_left_out() {
    let (_store, queue) = queue(QueueOptions::default());
    let annotations = vec![0; 65_536];
    let message = NewMessage {
        sections: &[b"x"],
        annotation_count: 1,
        annotations: &annotations,
        ..NewMessage::default()
    };
    queue.enqueue(at(0), &[message]).unwrap();
    let deliveries = peek(&queue, 0);
    let delivery = deliveries.iter().next().unwrap();
    assert_eq!((delivery.annotation_count, delivery.annotations), (0, &b""[..]));
    assert_eq!(delivery.sections, b"x");
}

#[test]
fn a_batch_that_does_not_fit_leaves_everything_as_it_was() {
    let one = body("a").len() as u64 + MESSAGE_OVERHEAD;
    let (_store, queue) =
        queue(QueueOptions { size_limit: ByteSize::from_bytes(3 * one), ..QueueOptions::default() });
    send(&queue, 0, &["a", "b"]);
    let full = send_with(&queue, 0, &["c", "d"], |message| message);
    assert_eq!(
        full,
        Err(QueueError::Full {
            held: ByteSize::from_bytes(2 * one),
            batch: ByteSize::from_bytes(2 * one),
            bound: ByteSize::from_bytes(3 * one),
        })
    );
    assert_eq!(queue.counts().active, 2);
    send(&queue, 0, &["e"]);
    assert_eq!(queue.counts().bytes, 3 * one);
    let received = receive(&queue, 0, 10);
    assert_eq!(texts(&received), ["a", "b", "e"]);
    // Dead letters still take room, settled messages do not.
    let hopeless = Settlement::DeadLetter { reason: None, description: None, properties: &[] };
    settle(&queue, 0, &received[..1], &hopeless);
    assert!(send_with(&queue, 0, &["f"], |message| message).is_err());
    settle(&queue, 0, &received[1..], &Settlement::Complete);
    send(&queue, 0, &["f", "g"]);
}

#[test]
fn a_batch_beyond_any_bound_is_refused() {
    let (_store, queue) = queue(QueueOptions::default());
    let sections = vec![0; 33 << 20];
    let message = NewMessage { sections: &[&sections], ..NewMessage::default() };
    let refused = queue.enqueue(at(0), &[message]);
    assert_eq!(refused.unwrap_err(), QueueError::TooLong);
}

#[test]
fn duplicates_are_dropped_within_the_window_and_within_a_batch() {
    let (_store, queue) = queue(QueueOptions {
        duplicate_detection: Some(Duration::from_millis(100)),
        ..QueueOptions::default()
    });
    let id = |id: &'static [u8]| {
        move |message: NewMessage<'static>| NewMessage { message_id: Some(id), ..message }
    };
    let count = |enqueued: Result<Enqueued, QueueError>| {
        let enqueued = enqueued.unwrap();
        (enqueued.count, enqueued.duplicates)
    };
    assert_eq!(count(send_with(&queue, 0, &["a", "b"], id(b"1"))), (1, 1));
    assert_eq!(count(send_with(&queue, 99, &["c"], id(b"1"))), (0, 1));
    assert_eq!(count(send_with(&queue, 99, &["d"], id(b"2"))), (1, 0));
    let without = send_with(&queue, 99, &["e", "f"], |message| message);
    assert_eq!(count(without), (2, 0));
    // Forgotten, although the message still waits.
    assert_eq!(count(send_with(&queue, 100, &["g"], id(b"1"))), (1, 0));
    assert_eq!(texts(&receive(&queue, 100, 10)), ["a", "d", "e", "f", "g"]);
}

#[test]
fn a_history_of_identifiers_counts_and_is_given_back() {
    let (store, queue) = queue(QueueOptions {
        duplicate_detection: Some(Duration::from_millis(100)),
        ..QueueOptions::default()
    });
    let with_id = |message| NewMessage { message_id: Some(&b"1"[..]), ..message };
    send_with(&queue, 0, &["a"], with_id).unwrap();
    let received = receive(&queue, 0, 1);
    settle(&queue, 0, &received, &Settlement::Complete);
    assert!(queue.counts().bytes > 0);
    assert_eq!(store.advance(at(0)), Some(at(100)));
    store.advance(at(100));
    assert_eq!(queue.counts().bytes, 0);
}

#[test]
fn scheduled_messages_are_available_at_their_time_in_its_order() {
    let (store, queue) = queue(QueueOptions::default());
    let later = |time| {
        move |message: NewMessage<'static>| NewMessage { scheduled_enqueue_time: Some(at(time)), ..message }
    };
    send_with(&queue, 0, &["late"], later(300)).unwrap();
    send_with(&queue, 0, &["soon"], later(200)).unwrap();
    send_with(&queue, 0, &["past"], later(-5)).unwrap();
    send(&queue, 0, &["now"]);
    assert_eq!(queue.counts().scheduled, 2);
    assert_eq!(texts(&receive(&queue, 199, 10)), ["past", "now"]);
    assert_eq!(store.advance(at(199)), Some(at(200)));
    let received = receive(&queue, 300, 10);
    assert_eq!(texts(&received), ["soon", "late"]);
    // They are enqueued only then, and their first numbers are kept.
    let deliveries = peek(&queue, 300);
    let soon = deliveries.iter().nth(2).unwrap();
    assert_eq!(soon.sequence_number, 5);
    assert_eq!(soon.enqueue_sequence_number, 2);
    assert_eq!(soon.enqueued_time, at(300));
}

#[test]
fn scheduled_messages_are_cancelled_all_or_none() {
    let (_store, queue) = queue(QueueOptions::default());
    let sections = body("x");
    let message =
        NewMessage { sections: &[&sections], scheduled_enqueue_time: Some(at(100)), ..NewMessage::default() };
    let scheduled = queue.schedule(at(0), &[message; 3]).unwrap();
    assert_eq!(scheduled.sequence_numbers, [1, 2, 3]);
    for wrong in [&[1, 4][..], &[2, 2], &[0]] {
        let refused = queue.cancel_scheduled(at(0), wrong);
        assert!(matches!(refused, Err(QueueError::MessageNotFound { .. })));
    }
    queue.cancel_scheduled(at(0), &[3, 1]).unwrap();
    assert_eq!(queue.counts().scheduled, 1);
    // Then it is too late.
    let refused = queue.cancel_scheduled(at(100), &[2]);
    assert_eq!(refused, Err(QueueError::MessageNotFound { sequence_number: 2 }));
    assert_eq!(receive(&queue, 100, 10).len(), 1);
}

#[test]
fn nothing_is_sent_to_dead_letter_queues_or_what_is_switched_off() {
    let (store, queue) = queue(QueueOptions::default());
    let dead_letters = queue.dead_letters().unwrap();
    assert_eq!(dead_letters.name(), "orders/$DeadLetterQueue");
    let refused = send_with(dead_letters, 0, &["a"], |message| message);
    assert_eq!(refused, Err(QueueError::SendingNotAllowed));
    for status in [EntityStatus::Disabled, EntityStatus::SendDisabled] {
        let options = QueueOptions { status, ..QueueOptions::default() };
        let queue = store.create_queue(&format!("{status:?}"), options).unwrap();
        let refused = send_with(&queue, 0, &["a"], |message| message);
        assert_eq!(refused, Err(QueueError::Disabled(status)));
    }
}

#[test]
fn names_are_unique_whatever_the_letter_case_and_options_make_sense() {
    let (store, queue) = queue(QueueOptions::default());
    assert!(matches!(store.create_queue("Orders", QueueOptions::default()), Err(CreateError::Exists { .. })));
    let Some(Entity::Queue(found)) = store.entity("ORDERS") else {
        panic!("it is there");
    };
    assert!(Arc::ptr_eq(&found, &queue));
    assert!(matches!(store.create_queue("", QueueOptions::default()), Err(CreateError::Name { .. })));
    let options = QueueOptions { maximum_delivery_count: 0, ..QueueOptions::default() };
    assert!(matches!(store.create_queue("new", options), Err(CreateError::Option { .. })));
}

#[test]
fn each_name_has_a_folder_of_its_own_and_none_that_of_something_else() {
    let long = |last: &str| format!("{}{last}", "x".repeat(259));
    let names = ["a/b", "a~b", "a_b", "~transactions", "_deleted-a", "-_", ".a", &long("a"), &long("b")];
    let folders: BTreeSet<String> = names.iter().map(|name| QueueStore::folder(name)).collect();
    assert_eq!(folders.len(), names.len(), "{folders:?}");
    for folder in folders {
        assert!(folder.len() <= 255 && !folder.contains('/'), "{folder}");
        assert!(
            folder != QueueStore::TRANSACTIONS_FOLDER && !folder.starts_with(QueueStore::DELETED),
            "{folder}"
        );
    }
    assert_eq!(QueueStore::folder("Team/Orders"), QueueStore::folder("team/orders"));
    assert_eq!(QueueStore::folder("Team/Orders"), "team~orders");
}
