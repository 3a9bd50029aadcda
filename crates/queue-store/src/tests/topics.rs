//! Topics: who gets what.

use super::super::rules::{Filter, Rule, RuleSet, SqlAction, SqlFilter};
use super::*;
use units::ByteSize;

fn sql(name: &str, filter: &str, action: Option<&str>) -> Rule {
    Rule {
        name: name.to_owned(),
        filter: Filter::Sql(SqlFilter::parse(filter).unwrap()),
        action: action.map(|action| SqlAction::parse(action).unwrap()),
        created_at_unix_ms: None,
    }
}

fn subscription(name: &str, rules: RuleSet) -> NewSubscription {
    NewSubscription { name: name.to_owned(), options: QueueOptions::default(), rules }
}

fn topic(options: TopicOptions, subscriptions: Vec<NewSubscription>) -> (Arc<QueueStore>, Arc<Topic>) {
    let store = QueueStore::in_memory();
    let topic = store.create_topic("news", options, subscriptions).unwrap();
    (store, topic)
}

/// A message with this body and an application property `color`.
fn colored(text: &str, color: &str) -> Vec<u8> {
    let mut sections = Vec::new();
    encode::application_properties(&mut sections, &[("color", color.into())]);
    encode::data(&mut sections, text.as_bytes());
    sections
}

fn publish(topic: &Topic, now: i64, sections: &[Vec<u8>]) -> Result<Enqueued, QueueError> {
    let pieces: Vec<[&[u8]; 1]> = sections.iter().map(|sections| [&sections[..]]).collect();
    let messages: Vec<_> =
        pieces.iter().map(|sections| NewMessage { sections, ..NewMessage::default() }).collect();
    topic.enqueue(at(now), &messages)
}

fn received(topic: &Topic, name: &str, now: i64) -> Vec<Seen> {
    receive(topic.subscription(name).unwrap().queue(), now, 100)
}

#[test]
fn each_subscription_gets_what_its_rules_say_and_settles_for_itself() {
    let red = RuleSet::of([sql("red", "color = 'red'", None)]).unwrap();
    let (_store, topic) = topic(
        TopicOptions::default(),
        vec![
            subscription("all", RuleSet::default()),
            subscription("red", red),
            subscription("none", RuleSet::empty()),
        ],
    );
    let long = "long".repeat(1000);
    let batch = [colored("a", "blue"), colored("b", "red"), colored(&long, "red")];
    let enqueued = publish(&topic, 0, &batch).unwrap();
    assert_eq!(enqueued.count, 3);
    let all = received(&topic, "ALL", 0);
    assert_eq!(texts(&all), ["a", "b", &long]);
    let red = received(&topic, "red", 0);
    assert_eq!(texts(&red), ["b", &long]);
    // Numbers are each subscription's own; the topic's is kept beside.
    assert_eq!((red[0].number, red[1].number), (1, 2));
    let queue = &Arc::clone(topic.subscription("red").unwrap().queue());
    assert_eq!(queue.name(), "news/Subscriptions/red");
    let deliveries = peek(queue, 0);
    let numbers: Vec<_> = deliveries.iter().map(|delivery| delivery.enqueue_sequence_number).collect();
    assert_eq!(numbers, [2, 3]);
    assert_eq!(received(&topic, "none", 0), []);
    settle(queue, 0, &red, &Settlement::Complete);
    let all_queue = &Arc::clone(topic.subscription("all").unwrap().queue());
    assert_eq!(all_queue.counts().locked, 3);
    let hopeless = Settlement::DeadLetter { reason: Some("no"), description: None, properties: &[] };
    settle(all_queue, 0, &all[..1], &hopeless);
    let letters = peek(all_queue.dead_letters().unwrap(), 0);
    let letter = letters.iter().next().unwrap();
    assert_eq!(letter.dead_letter_source, Some("news/Subscriptions/all"));
}

#[test]
fn actions_change_copies_and_leave_the_message_alone() {
    let rules =
        RuleSet::of([sql("plain", "1=1", None), sql("paint", "color = 'red'", Some("SET color = 'green'"))])
            .unwrap();
    let (_store, topic) = topic(
        TopicOptions::default(),
        vec![subscription("painted", rules), subscription("plain", RuleSet::default())],
    );
    publish(&topic, 0, &[colored("a", "red"), colored("b", "blue")]).unwrap();
    let colors = |name: &str| -> Vec<_> {
        let deliveries = peek(topic.subscription(name).unwrap().queue(), 0);
        deliveries
            .iter()
            .map(|delivery| {
                let color = property(delivery.sections, "color").unwrap();
                let rule = property(delivery.sections, "RuleName");
                (text(delivery.sections), color, rule)
            })
            .collect()
    };
    let painted = [
        ("a".to_owned(), "red".into(), None),
        ("a".to_owned(), "green".into(), Some("paint".into())),
        ("b".to_owned(), "blue".into(), None),
    ];
    assert_eq!(colors("painted"), painted);
    assert_eq!(colors("plain").len(), 2);
}

#[test]
fn rules_come_and_go_for_what_is_sent_from_then_on() {
    let (_store, topic) = topic(TopicOptions::default(), vec![subscription("s", RuleSet::default())]);
    let subscription = topic.subscription("s").unwrap();
    publish(&topic, 0, &[colored("a", "blue")]).unwrap();
    subscription.remove_rule(at(0), "$Default").unwrap();
    publish(&topic, 0, &[colored("b", "blue")]).unwrap();
    subscription.add_rule(at(0), sql("red", "color = 'red'", None)).unwrap();
    assert_eq!(subscription.rules().len(), 1);
    assert!(Arc::ptr_eq(&subscription.rules(), &subscription.rules()));
    assert!(Arc::ptr_eq(&subscription.rule("RED").unwrap(), &subscription.rules()[0]));
    assert_eq!(subscription.rule("$Default"), None);
    assert_eq!(subscription.rule_counts().all, 1);
    publish(&topic, 0, &[colored("c", "red"), colored("d", "blue")]).unwrap();
    assert_eq!(texts(&received(&topic, "s", 0)), ["a", "c"]);
}

#[test]
fn a_batch_that_does_not_fit_reaches_no_subscription() {
    let sections = colored("a", "red");
    let one = sections.len() as u64 + MESSAGE_OVERHEAD;
    let (_store, topic) = topic(
        TopicOptions { size_limit: ByteSize::from_bytes(3 * one), ..TopicOptions::default() },
        vec![subscription("x", RuleSet::default()), subscription("y", RuleSet::default())],
    );
    publish(&topic, 0, std::slice::from_ref(&sections)).unwrap();
    let full = publish(&topic, 0, std::slice::from_ref(&sections));
    assert!(matches!(full, Err(QueueError::Full { .. })));
    assert_eq!(topic.bytes(), 2 * one);
    let x = received(&topic, "x", 0);
    assert_eq!(x.len(), 1);
    settle(topic.subscription("x").unwrap().queue(), 0, &x, &Settlement::Complete);
    publish(&topic, 0, &[sections]).unwrap();
    assert_eq!(received(&topic, "y", 0).len(), 2);
}

#[test]
fn what_is_scheduled_waits_in_the_topic_and_is_judged_at_its_time() {
    let (_store, topic) = topic(TopicOptions::default(), vec![subscription("s", RuleSet::default())]);
    let sections = colored("a", "red");
    let message = NewMessage {
        sections: &[&sections],
        annotation_count: 1,
        annotations: b"\xa3\x01a\x41",
        time_to_live: Some(Duration::from_millis(50)),
        scheduled_enqueue_time: Some(at(10)),
        ..NewMessage::default()
    };
    let scheduled = topic.schedule(at(0), &[message, message]).unwrap();
    topic.cancel_scheduled(at(0), &scheduled.sequence_numbers[1..]).unwrap();
    assert_eq!(topic.scheduled(), 1);
    let queue = &Arc::clone(topic.subscription("s").unwrap().queue());
    assert!(peek(queue, 9).is_empty());
    let deliveries = peek(queue, 12);
    let delivery = deliveries.iter().next().unwrap();
    assert_eq!(delivery.annotations, b"\xa3\x01a\x41");
    assert_eq!(delivery.time_to_live, Some(Duration::from_millis(50)));
    assert_eq!(topic.scheduled(), 0);
}

#[test]
fn the_shortest_time_to_live_counts() {
    let short = NewSubscription {
        options: QueueOptions {
            default_time_to_live: Some(Duration::from_millis(10)),
            ..QueueOptions::default()
        },
        ..subscription("short", RuleSet::default())
    };
    let (_store, topic) = topic(
        TopicOptions { default_time_to_live: Some(Duration::from_millis(20)), ..TopicOptions::default() },
        vec![short, subscription("long", RuleSet::default())],
    );
    publish(&topic, 0, &[colored("a", "red")]).unwrap();
    let is_there = |name: &str, now| !peek(topic.subscription(name).unwrap().queue(), now).is_empty();
    assert!(is_there("short", 9) && !is_there("short", 10));
    assert!(is_there("long", 19) && !is_there("long", 20));
}

#[test]
fn a_message_without_session_is_a_dead_letter_where_sessions_are_required() {
    let with_sessions = NewSubscription {
        options: QueueOptions { requires_session: true, ..QueueOptions::default() },
        ..subscription("sessions", RuleSet::default())
    };
    let (_store, topic) = topic(TopicOptions::default(), vec![with_sessions]);
    publish(&topic, 0, &[colored("a", "red")]).unwrap();
    let queue = &Arc::clone(topic.subscription("sessions").unwrap().queue());
    let expected = [("a".to_owned(), "Session ID is null".to_owned())];
    assert_eq!(dead_letters(queue, 0), expected);
    let sections = colored("b", "red");
    let message = NewMessage { sections: &[&sections], session_id: Some("one"), ..NewMessage::default() };
    topic.enqueue(at(0), &[message]).unwrap();
    let lock = queue.accept_session(at(0), None).unwrap().unwrap();
    assert_eq!(lock.id(), "one");
}

#[test]
fn the_topic_drops_duplicates_for_all() {
    let (_store, topic) = topic(
        TopicOptions { duplicate_detection: Some(Duration::from_secs(1)), ..TopicOptions::default() },
        vec![subscription("s", RuleSet::default())],
    );
    let sections = colored("a", "red");
    let message = NewMessage { sections: &[&sections], message_id: Some(b"1"), ..NewMessage::default() };
    let enqueued = topic.enqueue(at(0), &[message, message]).unwrap();
    assert_eq!((enqueued.count, enqueued.duplicates), (1, 1));
    let enqueued = topic.enqueue(at(1), &[message]).unwrap();
    assert_eq!((enqueued.count, enqueued.duplicates), (0, 1));
    assert_eq!(received(&topic, "s", 1).len(), 1);
}

#[test]
fn nothing_is_sent_to_a_subscription() {
    let (_store, topic) = topic(TopicOptions::default(), vec![subscription("s", RuleSet::default())]);
    let queue = &Arc::clone(topic.subscription("s").unwrap().queue());
    let refused = send_with(queue, 0, &["a"], |message| message);
    assert_eq!(refused, Err(QueueError::SendingNotAllowed));
}

fn schedule(topic: &Topic, now: i64, text: &str) -> Result<Scheduled, QueueError> {
    let sections = colored(text, "red");
    let message = NewMessage {
        sections: &[&sections],
        scheduled_enqueue_time: Some(at(now + 10)),
        ..NewMessage::default()
    };
    topic.schedule(at(now), &[message])
}

#[test]
fn what_is_scheduled_takes_the_room_of_all_its_copies_from_the_start() {
    let one = colored("a", "red").len() as u64 + MESSAGE_OVERHEAD;
    let (_store, topic) = topic(
        TopicOptions { size_limit: ByteSize::from_bytes(5 * one), ..TopicOptions::default() },
        vec![subscription("x", RuleSet::default()), subscription("y", RuleSet::default())],
    );
    schedule(&topic, 0, "a").unwrap();
    assert_eq!(topic.bytes(), 2 * one);
    schedule(&topic, 0, "b").unwrap();
    let refused = schedule(&topic, 0, "c");
    assert!(matches!(refused, Err(QueueError::Full { .. })));
    for name in ["x", "y"] {
        assert_eq!(texts(&received(&topic, name, 10)), ["a", "b"]);
    }
    assert_eq!(topic.bytes(), 4 * one);
}

#[test]
fn a_scheduled_message_of_which_rules_make_too_much_waits_until_there_is_room() {
    let one = colored("a", "red").len() as u64 + MESSAGE_OVERHEAD;
    let rules = RuleSet::of([sql("one", "1=1", Some("SET a = 1")), sql("two", "1=1", Some("SET a = 2"))]);
    let (store, topic) = topic(
        TopicOptions { size_limit: ByteSize::from_bytes(one + 60), ..TopicOptions::default() },
        vec![subscription("s", rules.unwrap())],
    );
    schedule(&topic, 0, "a").unwrap();
    assert_eq!(received(&topic, "s", 10), []);
    assert_eq!(topic.scheduled(), 1);
    let again = store.advance(at(10)).unwrap();
    assert!(again > at(10));
    let subscription = topic.subscription("s").unwrap();
    subscription.remove_rule(at(11), "two").unwrap();
    store.advance(again);
    assert_eq!(topic.scheduled(), 0);
    let taken = receive(subscription.queue(), again.milliseconds(), 9);
    assert_eq!(texts(&taken), ["a"]);
}
