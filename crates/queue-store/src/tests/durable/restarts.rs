//! What is there after the process has ended, in good order or not.

use super::super::super::journal::SKIPPED_NUMBERS;
use super::super::super::rules::RuleSet;
use super::*;
use amqp::message::Properties;
use std::collections::BTreeSet;

fn whole(message: NewMessage<'static>) -> NewMessage<'static> {
    NewMessage { annotation_count: 1, annotations: b"\xa3\x01k\xa1\x01v", ..message }
}

#[test]
fn a_folder_in_which_nothing_is_yet_is_that_of_a_new_queue() {
    let disk = Disk::new();
    fs::create_dir_all(disk.directory.path().join("queues/jobs")).unwrap();
    let running = disk.start();
    let queue = running.queue("jobs", QueueOptions::default());
    send_with(&queue, 1, &["first"], |message| message).unwrap();
    let numbers: Vec<_> = seen(&peek(&queue, 2)).into_iter().map(|seen| seen.number).collect();
    assert_eq!(numbers, [1], "no number was given before");
    running.close();
}

#[test]
fn messages_come_back_as_they_stood_without_their_locks() {
    for end in [Running::close, Running::kill] {
        let disk = Disk::new();
        let running = disk.start();
        let queue = running.queue("Orders/2026", QueueOptions::default());
        let long = "long".repeat(500);
        let names = ["completed", "locked", "abandoned", "deferred", "dead", &long];
        send_with(&queue, 5, &names, whole).unwrap();
        send_with(&queue, 6, &["scheduled"], |message| NewMessage {
            scheduled_enqueue_time: Some(at(1_000)),
            time_to_live: Some(Duration::from_millis(500)),
            ..message
        })
        .unwrap();
        let received = receive(&queue, 7, 5);
        settle(&queue, 7, &received[..1], &Settlement::Complete);
        settle(&queue, 7, &received[2..3], &ABANDON);
        settle(&queue, 7, &received[3..4], &DEFER);
        let hopeless = Settlement::DeadLetter { reason: Some("no"), description: None, properties: &[] };
        settle(&queue, 7, &received[4..5], &hopeless);
        running.safe(&queue);
        let counts = queue.counts();
        drop(queue);
        end(running);

        let running = disk.start();
        let queue = running.queue("orders/2026", QueueOptions::default());
        let deliveries = peek(&queue, 8);
        let all: Vec<_> = seen(&deliveries)
            .into_iter()
            .map(|seen| (seen.number, seen.text, seen.count, seen.state))
            .collect();
        let expected = [
            (2, "locked".to_owned(), 0, MessageState::Active),
            (3, "abandoned".to_owned(), 1, MessageState::Active),
            (4, "deferred".to_owned(), 0, MessageState::Deferred),
            (6, long, 0, MessageState::Active),
            (7, "scheduled".to_owned(), 0, MessageState::Scheduled),
        ];
        assert_eq!(all, expected);
        let first = deliveries.iter().next().unwrap();
        assert_eq!(first.annotations, b"\xa3\x01k\xa1\x01v");
        assert_eq!(first.enqueued_time, at(5));
        let letters = [("dead".to_owned(), "no".to_owned())];
        assert_eq!(dead_letters(&queue, 8), letters);
        let letters = peek(queue.dead_letters().unwrap(), 8);
        assert_eq!(letters.iter().next().unwrap().enqueue_sequence_number, 5);
        assert_eq!(queue.counts(), QueueCounts { locked: 0, ..counts });
        // And all goes on: numbers, times.
        send(&queue, 9, &["new"]);
        assert_eq!(seen(&peek(&queue, 9)).last().unwrap().number, 8 + SKIPPED_NUMBERS);
        assert_eq!(running.store.advance(at(9)), Some(at(1_000)));
        assert_eq!(texts(&receive(&queue, 1_000, 9)).last(), Some(&"scheduled"));
    }
}

#[test]
fn numbers_are_never_given_twice_though_nothing_is_left() {
    let disk = Disk::new();
    for round in 0..5 {
        let running = disk.start();
        let queue = running.queue("orders", QueueOptions::default());
        send(&queue, 0, &["a", "b"]);
        let received = receive(&queue, 0, 2);
        assert_eq!(received[0].number, round * (2 + SKIPPED_NUMBERS) + 1);
        settle(&queue, 0, &received, &Settlement::Complete);
        running.safe(&queue);
        drop(queue);
        running.kill();
    }
}

#[test]
fn what_a_burst_took_on_disk_is_given_back_though_nothing_happens_after_it() {
    let disk = Disk::new();
    let running = disk.start();
    let options =
        QueueOptions { default_time_to_live: Some(Duration::from_millis(100)), ..QueueOptions::default() };
    let queue = running.queue("orders", options.clone());
    let text = "x".repeat(100_000);
    for _ in 0..40 {
        send(&queue, 0, &[&*text; 10]);
    }
    running.safe(&queue);
    assert!(disk.bytes("orders") > 40_000_000);
    running.store.advance(at(100));
    assert_eq!(queue.counts().active, 0);
    running.safe(&queue);
    // Whoever drives the store is asked to look again, until all is done.
    let mut next = running.store.advance(at(101));
    while let Some(at) = next {
        thread::yield_now();
        next = running.store.advance(at);
    }
    drop(queue);
    running.close();
    let left = disk.bytes("orders");
    assert!(left < 8_500_000, "{left} bytes of an empty queue");
    let running = disk.start();
    assert_eq!(peek(&running.queue("orders", options), 101).len(), 0);
}

#[test]
fn a_number_that_was_seen_before_it_was_safe_is_not_given_to_another_message() {
    let disk = Disk::new();
    let running = disk.start();
    let queue = running.queue("orders", QueueOptions::default());
    send(&queue, 0, &["a", "b"]);
    let seen = receive(&queue, 0, 2).pop().unwrap().number;
    running.safe(&queue);
    drop(queue);
    running.kill();
    // As if the process had been killed before the committer came to it, or to anything.
    cut_at_every_byte(&disk, "orders", 0, |running, length| {
        let queue = running.queue("orders", QueueOptions::default());
        send(&queue, 0, &["new"]);
        let new = receive(&queue, 0, 9).pop().unwrap().number;
        assert!(new > seen, "cut at {length}: {new}");
    });
}

#[test]
fn sessions_keep_their_messages_and_states() {
    let disk = Disk::new();
    let options = QueueOptions { requires_session: true, ..QueueOptions::default() };
    let running = disk.start();
    let queue = running.queue("orders", options.clone());
    for session in ["one", "two"] {
        send_with(&queue, 0, &["a", "b"], |message| NewMessage { session_id: Some(session), ..message })
            .unwrap();
    }
    let lock = queue.accept_session(at(0), Some("two")).unwrap().unwrap();
    queue.set_session_state(at(7), "two", Some(b"state")).unwrap();
    let empty = queue.accept_session(at(0), Some("empty")).unwrap().unwrap();
    queue.set_session_state(at(0), "empty", Some(b"gone")).unwrap();
    queue.set_session_state(at(0), "empty", None).unwrap();
    queue.release_session(at(0), &empty);
    assert_eq!(lock.id(), "two");
    let bytes = queue.counts().bytes;
    running.safe(&queue);
    drop(queue);
    running.kill();

    let running = disk.start();
    let queue = running.queue("orders", options);
    assert_eq!(queue.sessions(0, 9), ["one", "two"]);
    assert_eq!(queue.counts().bytes, bytes);
    assert_eq!(queue.sessions_by_state(at(6), 0, 9), ["two"]);
    assert_eq!(queue.sessions_by_state(at(7), 0, 9), Vec::<String>::new());
    let lock = queue.accept_session(at(1), Some("two")).unwrap().unwrap();
    let state = queue.session_state(at(1), "two").unwrap();
    assert_eq!(state.as_deref(), Some(&b"state"[..]));
    let request = ReceiveRequest { session: Some(&lock), ..request(ReceiveMode::PeekLock, 9) };
    let mut deliveries = Deliveries::new();
    queue.receive(at(1), &request, &mut deliveries).unwrap();
    assert_eq!(texts(&seen(&deliveries)), ["a", "b"]);
}

#[test]
fn identifiers_of_messages_that_are_gone_are_still_known() {
    let disk = Disk::new();
    let options =
        QueueOptions { duplicate_detection: Some(Duration::from_millis(100)), ..QueueOptions::default() };
    let with_id = |message| NewMessage { message_id: Some(&b"1"[..]), ..message };
    let running = disk.start();
    let queue = running.queue("orders", options.clone());
    send_with(&queue, 0, &["a"], with_id).unwrap();
    let received = receive(&queue, 0, 1);
    settle(&queue, 0, &received, &Settlement::Complete);
    running.safe(&queue);
    drop(queue);
    running.kill();
    let running = disk.start();
    let queue = running.queue("orders", options);
    let again = send_with(&queue, 99, &["a"], with_id).unwrap();
    assert_eq!((again.count, again.duplicates), (0, 1));
    let again = send_with(&queue, 100, &["a"], with_id).unwrap();
    assert_eq!((again.count, again.duplicates), (1, 0));
}

fn subscriptions(names: &[&str]) -> Vec<NewSubscription> {
    let all = names.iter().map(|name| NewSubscription {
        name: (*name).to_owned(),
        options: QueueOptions::default(),
        rules: RuleSet::default(),
    });
    all.collect()
}

#[test]
fn subscriptions_are_known_by_their_names_whatever_is_declared_beside_them() {
    let disk = Disk::new();
    let publish = |topic: &Topic, text: &str| {
        let sections = body(text);
        let message = NewMessage { sections: &[&sections], ..NewMessage::default() };
        topic.enqueue(at(0), &[message]).unwrap();
    };
    let create = |running: &Running, names: &[&str]| {
        let subscriptions = subscriptions(names);
        let options = TopicOptions::default();
        running.store.create_topic("news", options, subscriptions).unwrap()
    };
    let there = |topic: &Topic, name: &str| {
        let queue = &Arc::clone(topic.subscription(name).unwrap().queue());
        let seen = seen(&peek(queue, 0));
        seen.into_iter().map(|seen| seen.text).collect::<Vec<_>>()
    };
    let running = disk.start();
    let topic = create(&running, &["a", "b", "c"]);
    publish(&topic, "1");
    running.safe(&topic.queue);
    drop(topic);
    running.kill();

    let running = disk.start();
    let topic = create(&running, &["new", "C", "a"]);
    publish(&topic, "2");
    assert_eq!(there(&topic, "new"), ["2"]);
    assert_eq!(there(&topic, "c"), ["1", "2"]);
    assert_eq!(there(&topic, "a"), ["1", "2"]);
    running.safe(&topic.queue);
    drop(topic);
    running.kill();

    let running = disk.start();
    let topic = create(&running, &["b", "a", "c", "new"]);
    assert_eq!(there(&topic, "b"), Vec::<String>::new(), "it is another one");
    assert_eq!(there(&topic, "c"), ["1", "2"]);
    assert_eq!(there(&topic, "new"), ["2"]);
    drop(topic);
    running.close();

    let running = disk.start();
    let refused = running.store.create_queue("news", QueueOptions::default());
    let error = refused.unwrap_err().to_string();
    assert!(error.ends_with("is the journal of a topic"), "{error}");
}

#[test]
fn a_journal_stays_short_whatever_goes_through_and_an_old_message_stays() {
    let disk = Disk::new();
    let running = disk.start();
    let queue = running.queue("orders", QueueOptions::default());
    send(&queue, 0, &["old", "young"]);
    let old = receive(&queue, 0, 1);
    settle(&queue, 0, &old, &DEFER);
    let text = "x".repeat(1000);
    let texts: Vec<&str> = (0..100).map(|_| &*text).collect();
    let mut longest = 0;
    for _ in 0..250 {
        send(&queue, 0, &texts);
        let received = receive(&queue, 0, 100);
        settle(&queue, 0, &received, &Settlement::Complete);
        running.safe(&queue);
        longest = longest.max(disk.bytes("orders"));
    }
    // Some 26 MB went through. A segment, at most 4 MiB, is being written, and one is to be dropped after it.
    assert!(longest < 12_000_000, "{longest} bytes");
    let next = queue.entity.lock().queues[0].pages.next_sequence_number();
    drop(queue);
    running.kill();
    let running = disk.start();
    let queue = running.queue("orders", QueueOptions::default());
    let left: Vec<_> = seen(&peek(&queue, 0));
    assert_eq!(left[0].text, "old");
    assert_eq!(left[0].state, MessageState::Deferred);
    assert_eq!(queue.entity.lock().queues[0].pages.next_sequence_number(), next + SKIPPED_NUMBERS);
}

#[test]
fn a_message_is_not_forwarded_more_often_for_being_kept_in_between() {
    let disk = Disk::new();
    let forwarding = |to: &str| QueueOptions { forward_to: Some(to.to_owned()), ..QueueOptions::default() };
    let settle_down = |store: &QueueStore| while store.advance(at(0)) == Some(at(0)) {};
    let running = disk.start();
    let one = running.queue("one", forwarding("two"));
    let two = running.queue("two", QueueOptions::default());
    send(&one, 0, &["a"]);
    while two.counts().active == 0 {
        settle_down(&running.store);
    }
    running.safe(&two);
    drop((one, two));
    running.kill();

    // To `one`, to `two`, to `one` again.
    let running = disk.start();
    let two = running.queue("two", forwarding("one"));
    let one = running.queue("one", forwarding("two"));
    while one.counts().transfer_dead_letters == 0 {
        assert_eq!(two.counts().transfer_dead_letters, 0);
        running.store.advance(at(0));
    }
}

#[test]
fn sessions_can_be_required_later_of_messages_that_have_one() {
    let disk = Disk::new();
    let requiring = QueueOptions { requires_session: true, ..QueueOptions::default() };
    let running = disk.start();
    let queue = running.queue("orders", QueueOptions::default());
    let mut sections = Vec::new();
    Properties { group_id: Some("one".into()), ..Properties::default() }.encode(&mut sections);
    sections.extend_from_slice(&body("a"));
    let message = NewMessage { sections: &[&sections], ..NewMessage::default() };
    queue.enqueue(at(0), &[message]).unwrap();
    running.safe(&queue);
    drop(queue);
    running.kill();

    let running = disk.start();
    let queue = running.queue("orders", requiring.clone());
    assert_eq!(queue.sessions(0, 9), ["one"]);
    drop(queue);
    running.kill();

    let running = disk.start();
    let queue = running.queue("orders", QueueOptions::default());
    send(&queue, 0, &["of none"]);
    running.safe(&queue);
    drop(queue);
    running.kill();
    let running = disk.start();
    let error = running.store.create_queue("orders", requiring).unwrap_err();
    assert!(error.to_string().contains("belongs to no session"), "{error}");
}

#[test]
fn receiving_from_an_empty_queue_completes_no_segments() {
    let disk = Disk::new();
    let running = disk.start();
    let queue = running.queue("jobs", QueueOptions::default());
    let long = "x".repeat(1_000);
    let mut segments = BTreeSet::new();
    // Enough for many cleanings, a millisecond apart, each with receives that find nothing.
    for now in 1..=3_000 {
        send_with(&queue, now, &[&long], whole).unwrap();
        let received = receive(&queue, now, 1);
        settle(&queue, now, &received, &Settlement::Complete);
        for _ in 0..3 {
            assert!(receive(&queue, now, 1).is_empty());
        }
        running.safe(&queue);
        segments.extend(disk.segments("jobs"));
    }
    // Some 3 MB were written. A segment holds at least as much as the slack.
    assert!(segments.len() < 60, "{} segments", segments.len());
    running.close();
}
