//! Entities that change, come and go while they are used.

use super::waking::keys as reported;
use super::*;
use crate::rules::RuleSet;
use partition_log::Subscriber;

fn topic(store: &QueueStore, subscriptions: &[&str]) -> Arc<Topic> {
    let subscriptions = subscriptions.iter().map(|name| new_subscription(name)).collect();
    store.create_topic("news", TopicOptions::default(), subscriptions).unwrap()
}

fn new_subscription(name: &str) -> NewSubscription {
    NewSubscription { name: name.to_owned(), options: QueueOptions::default(), rules: RuleSet::default() }
}

fn subscription_queue(topic: &Topic, name: &str) -> Arc<Queue> {
    Arc::clone(topic.subscription(name).unwrap().queue())
}

fn update(store: &QueueStore, queue: &Arc<Queue>, options: QueueOptions) {
    store.update_queue(queue, QueueStore::check_update(queue, options).unwrap(), at(0));
}

#[test]
fn what_is_changed_holds_for_what_comes_next() {
    let (store, queue) = queue(QueueOptions::default());
    send(&queue, 0, &["a", "b", "c"]);
    assert_eq!(receive(&queue, 0, 1).len(), 1);
    let options = QueueOptions {
        lock_duration: Duration::from_secs(5),
        maximum_delivery_count: 1,
        default_time_to_live: Some(Duration::from_secs(100)),
        size_limit: units::ByteSize::from_bytes(1_000),
        ..QueueOptions::default()
    };
    update(&store, &queue, options.clone());
    assert_eq!(*queue.options(), options);
    assert_eq!(receive(&queue, 0, 1).len(), 1);
    // The second lock is the shorter one, and one failure is too many now.
    store.advance(at(5_000));
    let counts = queue.counts();
    assert_eq!((counts.dead_letters, counts.locked, counts.active), (1, 1, 2));
    send(&queue, 5_000, &["d"]);
    store.advance(at(105_000));
    // What was there before stays for ever.
    assert_eq!(queue.counts().active, 1);
    let long = "x".repeat(2_000);
    let refused = send_with(&queue, 105_000, &[&long], |message| message);
    assert!(matches!(refused, Err(QueueError::Full { .. })), "{refused:?}");
}

#[test]
fn a_status_holds_at_once_and_wakes_who_waits() {
    let (store, queue) = queue(QueueOptions::default());
    let subscriber = Subscriber::new();
    let mut waiter = queue.waiter(&subscriber, 7);
    assert_eq!(waiter.arm(at(0), Awaited::Message), Found::Nothing);
    let set = |status| update(&store, &queue, QueueOptions { status, ..QueueOptions::default() });
    set(EntityStatus::ReceiveDisabled);
    assert_eq!(reported(&subscriber), [7]);
    send(&queue, 0, &["a"]);
    let refused = queue.receive(at(0), &one(), &mut Deliveries::new());
    assert_eq!(refused, Err(QueueError::Disabled(EntityStatus::ReceiveDisabled)));
    set(EntityStatus::Disabled);
    let refused = send_with(&queue, 0, &["b"], |message| message);
    assert_eq!(refused, Err(QueueError::Disabled(EntityStatus::Disabled)));
    set(EntityStatus::Active);
    assert_eq!(receive(&queue, 0, 9).len(), 1);
}

#[test]
fn forwarding_begins_goes_elsewhere_and_ends_as_the_options_say() {
    let (store, queue) = queue(QueueOptions::default());
    let first = store.create_queue("first", QueueOptions::default()).unwrap();
    let second = store.create_queue("second", QueueOptions::default()).unwrap();
    send(&queue, 0, &["a"]);
    let forward = |target: Option<&str>| {
        let options = QueueOptions { forward_to: target.map(str::to_owned), ..QueueOptions::default() };
        update(&store, &queue, options);
        store.advance(at(0));
    };
    forward(Some("first"));
    assert_eq!((queue.counts().active, first.counts().active), (0, 1));
    assert_eq!(queue.receive(at(0), &one(), &mut Deliveries::new()), Err(QueueError::ReceivingNotAllowed));
    forward(Some("second"));
    send(&queue, 0, &["b"]);
    store.advance(at(0));
    assert_eq!((first.counts().active, second.counts().active), (1, 1));
    forward(None);
    send(&queue, 0, &["c"]);
    store.advance(at(0));
    assert_eq!((queue.counts().active, first.counts().active, second.counts().active), (1, 1, 1));
    assert_eq!(receive(&queue, 0, 9).len(), 1);
}

#[test]
fn what_messages_depend_on_can_not_be_changed() {
    let (_store, queue) = queue(QueueOptions::default());
    for options in [
        QueueOptions { requires_session: true, ..QueueOptions::default() },
        QueueOptions { duplicate_detection: Some(Duration::from_secs(60)), ..QueueOptions::default() },
    ] {
        let refused = QueueStore::check_update(&queue, options);
        assert!(matches!(refused, Err(CreateError::Option { .. })), "{refused:?}");
    }
}

#[test]
fn a_deleted_queue_refuses_whoever_still_holds_it() {
    let (store, queue) = queue(QueueOptions::default());
    let subscriber = Subscriber::new();
    let mut waiter = queue.waiter(&subscriber, 3);
    send(&queue, 0, &["a"]);
    assert!(store.delete("ORDERS").is_some());
    assert!(store.delete("orders").is_none());
    assert_eq!(reported(&subscriber), [3]);
    assert!(queue.is_deleted() && queue.dead_letters().unwrap().is_deleted());
    assert_eq!(send_with(&queue, 0, &["b"], |message| message), Err(QueueError::Deleted));
    assert_eq!(queue.receive(at(0), &one(), &mut Deliveries::new()), Err(QueueError::Deleted));
    assert_eq!(waiter.arm(at(0), Awaited::Message), Found::Something);
    assert_eq!(queue.counts(), QueueCounts::default());
    // Another one may have its name.
    let other = store.create_queue("orders", QueueOptions::default()).unwrap();
    send(&other, 0, &["c"]);
    drop(waiter);
    assert_eq!((other.counts().active, queue.counts().active), (1, 0));
}

#[test]
fn subscriptions_come_and_go_and_get_what_is_sent_while_they_are_there() {
    let store = QueueStore::in_memory();
    let topic = topic(&store, &["first"]);
    let publish = |text: &str| {
        let body = body(text);
        let sections = [&body[..]];
        topic.enqueue(at(0), &[NewMessage { sections: &sections, ..NewMessage::default() }]).unwrap();
    };
    publish("a");
    store.create_subscription(&topic, new_subscription("second"), at(0)).unwrap();
    let twice = store.create_subscription(&topic, new_subscription("SECOND"), at(0));
    assert!(matches!(twice, Err(CreateError::Exists { .. })), "{twice:?}");
    publish("b");
    let (first, second) = (subscription_queue(&topic, "first"), subscription_queue(&topic, "second"));
    assert_eq!((first.counts().active, second.counts().active), (2, 1));
    let held = topic.bytes();
    assert!(store.delete_subscription(&topic, "First", at(0)).is_some());
    assert!(store.delete_subscription(&topic, "first", at(0)).is_none());
    assert_eq!(topic.bytes(), held / 3);
    // The next one takes its place, and nothing of what was there.
    let third = store.create_subscription(&topic, new_subscription("third"), at(0)).unwrap();
    publish("c");
    assert_eq!(first.counts(), QueueCounts::default());
    assert_eq!(receive_error(&first), Some(QueueError::Deleted));
    assert_eq!((second.counts().active, third.queue().counts().active), (2, 1));
    let names: Vec<String> = topic.subscriptions().iter().map(|each| each.name().to_owned()).collect();
    assert_eq!(names, ["second", "third"]);
}

#[test]
fn use_is_what_clients_do_and_waiting_is_use() {
    let (store, queue) = queue(QueueOptions::default());
    store.advance(at(10));
    assert_eq!(queue.used_at(at(20)), None);
    send(&queue, 30, &["a"]);
    assert_eq!(queue.used_at(at(40)), Some(at(30)));
    assert_eq!(receive(&queue, 50, 1).len(), 1);
    assert_eq!(queue.used_at(at(60)), Some(at(50)));
    let mut waiter = queue.waiter(&Subscriber::new(), 0);
    assert_eq!(waiter.arm(at(60), Awaited::Message), Found::Nothing);
    assert_eq!(queue.used_at(at(70)), Some(at(70)));
    drop(waiter);
    assert_eq!(queue.used_at(at(80)), Some(at(60)));
}

fn receive_error(queue: &Queue) -> Option<QueueError> {
    queue.receive(at(0), &one(), &mut Deliveries::new()).err()
}

fn one() -> ReceiveRequest<'static> {
    request(ReceiveMode::PeekLock, 1)
}
