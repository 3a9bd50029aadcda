//! Queues and subscriptions whose messages go on by themselves.

use super::super::rules::RuleSet;
use super::*;
use amqp::message::Properties;
use std::task::{Context, Poll, Waker};
use units::ByteSize;

fn forwarding(to: &str) -> QueueOptions {
    QueueOptions { forward_to: Some(to.to_owned()), ..QueueOptions::default() }
}

#[test]
fn messages_go_on_with_all_that_they_have() {
    let store = QueueStore::in_memory();
    let source = store.create_queue("source", forwarding("Target")).unwrap();
    let target = store.create_queue("target", QueueOptions::default()).unwrap();
    store.advance(at(0));
    send_with(&source, 0, &["a", "b"], |message| NewMessage {
        annotation_count: 1,
        annotations: b"\xa3\x01k\xa1\x01v",
        time_to_live: Some(Duration::from_millis(100)),
        ..message
    })
    .unwrap();
    let mut context = Context::from_waker(Waker::noop());
    assert_eq!(store.poll_earlier(&mut context), Poll::Ready(()));
    store.advance(at(40));
    assert_eq!(source.counts(), QueueCounts::default());
    let deliveries = peek(&target, 40);
    assert_eq!(texts(&seen(&deliveries)), ["a", "b"]);
    let delivery = deliveries.iter().next().unwrap();
    assert_eq!(delivery.annotations, b"\xa3\x01k\xa1\x01v");
    assert_eq!(delivery.time_to_live, Some(Duration::from_millis(60)));
}

#[test]
fn what_is_not_taken_waits_and_is_tried_again() {
    let store = QueueStore::in_memory();
    let source = store.create_queue("source", forwarding("target")).unwrap();
    send(&source, 0, &["a"]);
    assert_eq!(store.advance(at(0)), Some(at(1_000)), "there is no target");
    let options =
        QueueOptions { size_limit: ByteSize::from_bytes(MESSAGE_OVERHEAD + 20), ..QueueOptions::default() };
    let target = store.create_queue("target", options).unwrap();
    store.advance(at(1_000));
    send(&source, 1_000, &["b"]);
    store.advance(at(2_000));
    assert_eq!(target.counts().active, 1, "there is room for one");
    assert_eq!(source.counts().active, 1);
    assert_eq!(seen(&peek(&source, 2_000))[0].count, 0);
    settle(&target, 2_000, &receive(&target, 2_000, 1), &Settlement::Complete);
    store.advance(at(3_000));
    assert_eq!(texts(&receive(&target, 3_000, 1)), ["b"]);
}

#[test]
fn sessions_of_the_target_come_from_the_messages_themselves() {
    let store = QueueStore::in_memory();
    let source = store.create_queue("source", forwarding("target")).unwrap();
    let options = QueueOptions { requires_session: true, ..QueueOptions::default() };
    let target = store.create_queue("target", options).unwrap();
    let mut sections = Vec::new();
    Properties { group_id: Some("one".into()), ..Properties::default() }.encode(&mut sections);
    sections.extend_from_slice(&body("a"));
    let message = NewMessage { sections: &[&sections], ..NewMessage::default() };
    source.enqueue(at(0), &[message]).unwrap();
    store.advance(at(0));
    assert_eq!(target.sessions(0, 9), ["one"]);
}

#[test]
fn subscriptions_and_dead_letters_go_on_as_well() {
    let store = QueueStore::in_memory();
    let subscription =
        NewSubscription { name: "s".to_owned(), options: forwarding("target"), rules: RuleSet::default() };
    let options = TopicOptions::default();
    let topic = store.create_topic("news", options, vec![subscription]).unwrap();
    let target = QueueOptions {
        forward_dead_lettered_messages_to: Some("graveyard".to_owned()),
        ..QueueOptions::default()
    };
    let target = store.create_queue("target", target).unwrap();
    let graveyard = store.create_queue("graveyard", QueueOptions::default()).unwrap();
    let sections = body("a");
    let message = NewMessage { sections: &[&sections], ..NewMessage::default() };
    topic.enqueue(at(0), &[message]).unwrap();
    store.advance(at(0));
    let received = receive(&target, 0, 1);
    assert_eq!(texts(&received), ["a"]);
    let hopeless = Settlement::DeadLetter { reason: Some("no"), description: None, properties: &[] };
    settle(&target, 0, &received, &hopeless);
    store.advance(at(0));
    let deliveries = peek(&graveyard, 0);
    let buried = deliveries.iter().next().unwrap();
    assert_eq!(property(buried.sections, "DeadLetterReason"), Some("no".into()));
    assert_eq!(target.counts().dead_letters, 0);
}

/// Lets everything happen that is due now; each look takes messages a step further.
fn settle_down(store: &QueueStore) {
    while store.advance(at(0)).is_some_and(|next| next <= at(0)) {}
}

/// The bodies and the reasons of what could not be forwarded.
fn stranded(queue: &Queue) -> Vec<(String, String)> {
    let deliveries = peek(queue.transfer_dead_letters().unwrap(), 0);
    let one = |delivery: Delivery<'_>| {
        let reason = property(delivery.sections, "DeadLetterReason").unwrap();
        (text(delivery.sections), reason.as_text().unwrap().to_owned())
    };
    deliveries.iter().map(one).collect()
}

const TOO_FAR: &str = "MaxTransferHopCountExceeded";

#[test]
fn in_a_circle_messages_go_four_steps_and_no_further() {
    let store = QueueStore::in_memory();
    let one = store.create_queue("one", forwarding("two")).unwrap();
    let two = store.create_queue("two", forwarding("one")).unwrap();
    send(&two, 0, &["other"]);
    store.advance(at(0));
    send(&one, 0, &["a", "b"]);
    settle_down(&store);
    let expected = ["other"].map(|text| (text.to_owned(), TOO_FAR.to_owned()));
    assert_eq!(stranded(&two), expected);
    let expected = ["a", "b"].map(|text| (text.to_owned(), TOO_FAR.to_owned()));
    assert_eq!(stranded(&one), expected);
    let counts = one.counts();
    assert_eq!((counts.active, counts.dead_letters), (0, 0));
    assert_eq!(counts.transfer_dead_letters, 2);
    assert!(counts.bytes > 2 * MESSAGE_OVERHEAD);
    let deliveries = peek(one.transfer_dead_letters().unwrap(), 0);
    let first = deliveries.iter().next().unwrap();
    assert_eq!(first.enqueue_sequence_number, 2, "as in its first queue");
    assert_eq!(first.dead_letter_source, Some("one"));
}

#[test]
fn a_chain_of_four_steps_ends_where_it_leads() {
    let store = QueueStore::in_memory();
    let chain = |from: usize| format!("queue{from}");
    for from in 0..4 {
        let options = forwarding(&chain(from + 1));
        store.create_queue(&chain(from), options).unwrap();
    }
    let end = store.create_queue(&chain(4), QueueOptions::default()).unwrap();
    let Some(Entity::Queue(first)) = store.entity("queue0") else { panic!("it was created") };
    send(&first, 0, &["a"]);
    settle_down(&store);
    assert_eq!(texts(&receive(&end, 0, 1)), ["a"]);
}

#[test]
fn dead_letters_that_come_back_as_dead_letters_end_as_well() {
    let store = QueueStore::in_memory();
    let subscription = NewSubscription {
        name: "s".to_owned(),
        options: QueueOptions {
            requires_session: true,
            forward_dead_lettered_messages_to: Some("news".to_owned()),
            ..QueueOptions::default()
        },
        rules: RuleSet::default(),
    };
    let options = TopicOptions::default();
    let topic = store.create_topic("news", options, vec![subscription]).unwrap();
    let sections = body("of no session");
    let message = NewMessage { sections: &[&sections], ..NewMessage::default() };
    topic.enqueue(at(0), &[message]).unwrap();
    settle_down(&store);
    let queue = &Arc::clone(topic.subscription("s").unwrap().queue());
    let expected = [("of no session".to_owned(), TOO_FAR.to_owned())];
    assert_eq!(stranded(queue), expected);
    assert_eq!(queue.lifecycle_counters().dead_lettered, 5);
}

#[test]
fn a_message_that_never_will_be_taken_holds_up_no_other() {
    let store = QueueStore::in_memory();
    let source = store.create_queue("source", forwarding("target")).unwrap();
    let options = QueueOptions { requires_session: true, ..QueueOptions::default() };
    let target = store.create_queue("target", options).unwrap();
    let mut with_session = Vec::new();
    Properties { group_id: Some("one".into()), ..Properties::default() }.encode(&mut with_session);
    with_session.extend_from_slice(&body("good"));
    let without = body("bad");
    let message = |sections| NewMessage { sections, ..NewMessage::default() };
    let (good, bad): ([&[u8]; 1], [&[u8]; 1]) = ([&with_session], [&without]);
    let batch = [&good, &good, &bad, &good].map(|sections| message(&sections[..]));
    source.enqueue(at(0), &batch).unwrap();
    settle_down(&store);
    assert_eq!(target.counts().active, 3);
    let expected = [("bad".to_owned(), "Session ID is null".to_owned())];
    assert_eq!(stranded(&source), expected);
}

/// Returns the annotations of the first available message, sorted by name.
fn annotations(queue: &Queue, now: i64) -> Vec<(String, Value)> {
    let deliveries = peek(queue, now);
    let delivery = deliveries.iter().next().unwrap();
    let mut section = vec![0x00, 0x53, 0x72];
    amqp::codec::write::map(&mut section, delivery.annotation_count.into(), |out| {
        out.extend_from_slice(delivery.annotations);
    });
    let view = MessageView::parse(&section).unwrap();
    let entries = view.message_annotations().unwrap().entries().unwrap();
    entries.into_iter().map(|(name, value)| (name.as_str().to_owned(), value)).collect()
}

#[test]
fn forwarded_dead_letter_keeps_its_source() {
    let store = QueueStore::in_memory();
    let dead_letters_to = |to: &str| QueueOptions {
        forward_dead_lettered_messages_to: Some(to.to_owned()),
        ..QueueOptions::default()
    };
    let source = store.create_queue("source", dead_letters_to("second")).unwrap();
    let second = store.create_queue("second", dead_letters_to("third")).unwrap();
    let third = store.create_queue("third", QueueOptions::default()).unwrap();
    send_with(&source, 0, &["a"], |message| NewMessage {
        annotation_count: 1,
        annotations: b"\xa3\x01k\xa1\x01v",
        ..message
    })
    .unwrap();
    let dead = Settlement::DeadLetter { reason: Some("why"), description: None, properties: &[] };
    for (queue, next, name) in [(&source, &second, "source"), (&second, &third, "second")] {
        settle(queue, 0, &receive(queue, 0, 1), &dead);
        store.advance(at(0));
        let expected = [("k", "v"), ("x-opt-deadletter-source", name)];
        let expected = expected.map(|(name, value)| (name.to_owned(), Value::from(value)));
        assert_eq!(annotations(next, 0), expected);
    }
    // In a queue of dead letters, that queue says so.
    settle(&third, 0, &receive(&third, 0, 1), &dead);
    let expected = [("k".to_owned(), Value::from("v"))];
    assert_eq!(annotations(third.dead_letters().unwrap(), 0), expected);
}
