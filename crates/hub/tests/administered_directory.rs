//! Queues, topics and subscriptions that clients have made, changed and deleted: what of them a data directory keeps.

#![expect(clippy::unwrap_used, reason = "what panics in a test fails it, and says where")]

use std::fs;
use std::path::Path;
use std::time::Duration;

use hub::namespace::{
    EntityFacts, Namespace, NamespaceConfig, QueueConfig, StorageConfig, SubscriptionConfig, TopicConfig,
};
use partition_log::UnixTime;
use partition_log::disk::StorageOptions;
use queue_store::{Entity, NewMessage, Queue, QueueOptions, TopicOptions};

fn at(milliseconds: i64) -> UnixTime {
    UnixTime::from_milliseconds(milliseconds)
}

fn open(directory: &Path, queues: Vec<QueueConfig>, topics: Vec<TopicConfig>) -> Namespace {
    let storage = StorageConfig { directory: directory.to_owned(), options: StorageOptions::default() };
    let config =
        NamespaceConfig { queues, topics, storage: Some(storage), ..NamespaceConfig::with_hubs(Vec::new()) };
    Namespace::new(&config, at(1_000)).unwrap()
}

fn closed(namespace: Namespace) {
    namespace.close().unwrap();
}

fn queue(namespace: &Namespace, name: &str) -> std::sync::Arc<Queue> {
    let Some(Entity::Queue(queue)) = namespace.queue_or_topic(name) else {
        panic!("there is no queue {name}")
    };
    queue
}

fn send(queue: &Queue) {
    queue.enqueue(at(2_000), &[NewMessage { sections: &[MESSAGE], ..NewMessage::default() }]).unwrap();
}

fn options(maximum_delivery_count: u32) -> QueueOptions {
    QueueOptions { maximum_delivery_count, ..QueueOptions::default() }
}

#[test]
fn what_clients_made_is_there_again_with_what_was_said_of_it() {
    let directory = tempfile::tempdir().unwrap();
    let namespace = open(directory.path(), vec![], vec![]);
    assert!(!directory.path().join("queues").exists());
    let mut facts = EntityFacts::of(at(1_500));
    facts.user_metadata = Some("mine".into());
    facts.auto_delete_on_idle = Some(Duration::from_secs(600));
    let config = QueueConfig { name: "Team/Orders".into(), options: options(3) };
    send(&namespace.create_queue(&config, facts.clone()).unwrap());
    namespace.create_topic(&TopicConfig::new("news", ["first"]), EntityFacts::of(at(1_500))).unwrap();
    for name in ["second", "gone"] {
        let config = SubscriptionConfig { options: options(4), ..SubscriptionConfig::new(name) };
        namespace.create_subscription("NEWS", &config, EntityFacts::of(at(1_600)), at(1_600)).unwrap();
    }
    namespace.delete_subscription("news", "Gone", at(1_700)).unwrap();
    let topic = namespace.topic("news").unwrap();
    topic.enqueue(at(2_000), &[NewMessage { sections: &[MESSAGE], ..NewMessage::default() }]).unwrap();
    drop(topic);
    closed(namespace);

    let namespace = open(directory.path(), vec![], vec![]);
    let orders = queue(&namespace, "team/orders");
    assert_eq!((&*orders.options(), orders.counts().active), (&options(3), 1));
    assert_eq!(namespace.facts("team/ORDERS"), facts);
    let topic = namespace.topic("news").unwrap();
    let subscriptions: Vec<_> = topic
        .subscriptions()
        .iter()
        .map(|each| {
            (
                each.name().to_owned(),
                each.queue().options().maximum_delivery_count,
                each.queue().counts().active,
            )
        })
        .collect();
    assert_eq!(subscriptions, [("first".to_owned(), 10, 1), ("second".to_owned(), 4, 1)]);
}

#[test]
fn what_was_changed_holds_until_it_is_declared_otherwise() {
    let directory = tempfile::tempdir().unwrap();
    let declared = |count| {
        let queue = QueueConfig { name: "jobs".into(), options: options(count) };
        let mut topic = TopicConfig::new("news", ["all"]);
        topic.subscriptions[0].options = options(count);
        topic.options.default_time_to_live = Some(Duration::from_secs(count.into()));
        open(directory.path(), vec![queue], vec![topic])
    };
    let seen = |namespace: &Namespace| {
        let (topic, all) = namespace.subscription("news", "all").unwrap();
        let jobs = queue(namespace, "jobs").options().maximum_delivery_count;
        let life = topic.options().default_time_to_live.unwrap().as_secs();
        (jobs, all.queue().options().maximum_delivery_count, life)
    };
    let namespace = declared(5);
    for count in [6, 7] {
        let facts = EntityFacts::default();
        namespace.update_queue("JOBS", options(count), facts.clone(), at(2_000)).unwrap();
        namespace.update_subscription("news", "all", options(count), facts.clone(), at(2_000)).unwrap();
        let life = Some(Duration::from_secs(count.into()));
        let changed = TopicOptions { default_time_to_live: life, ..TopicOptions::default() };
        namespace.update_topic("news", &changed, facts, at(2_000)).unwrap();
    }
    assert_eq!(namespace.facts("jobs").updated_at(), at(2_000));
    closed(namespace);
    for (declaration, expected) in [(5, 7), (5, 7), (8, 8), (5, 5)] {
        let namespace = declared(declaration);
        assert_eq!(seen(&namespace), (expected, expected, expected.into()), "declared with {declaration}");
        closed(namespace);
    }
}

#[test]
fn what_was_deleted_leaves_nothing_and_its_name_can_be_given_again() {
    let directory = tempfile::tempdir().unwrap();
    let namespace = open(directory.path(), vec![], vec![]);
    let config = QueueConfig::new("orders");
    for _ in 0..2 {
        let made = namespace.create_queue(&config, EntityFacts::default()).unwrap();
        assert_eq!(made.counts().active, 0);
        send(&made);
        namespace.delete_queue_or_topic("Orders").unwrap();
        assert_eq!(fs::read_dir(directory.path().join("queues")).unwrap().count(), 0);
    }
    namespace.create_queue(&config, EntityFacts::default()).unwrap();
    closed(namespace);
    let namespace = open(directory.path(), vec![], vec![]);
    assert_eq!(queue(&namespace, "orders").counts().active, 0);
}

#[test]
fn what_a_deletion_left_that_was_cut_short_is_removed_at_the_next_start() {
    let directory = tempfile::tempdir().unwrap();
    let namespace = open(directory.path(), vec![], vec![]);
    send(&namespace.create_queue(&QueueConfig::new("orders"), EntityFacts::default()).unwrap());
    closed(namespace);
    let folder = directory.path().join("queues/orders");
    let kept = directory.path().join("queues/_deleted-orders");
    let namespace = open(directory.path(), vec![], vec![]);
    // As if it had ended between the manifest and the folder, and before that within the removal of a folder.
    let saved = tempfile::tempdir().unwrap();
    for file in fs::read_dir(&folder).unwrap() {
        let file = file.unwrap();
        fs::copy(file.path(), saved.path().join(file.file_name())).unwrap();
    }
    namespace.delete_queue_or_topic("orders").unwrap();
    closed(namespace);
    for again in [&folder, &kept] {
        fs::create_dir(again).unwrap();
        for file in fs::read_dir(saved.path()).unwrap() {
            let file = file.unwrap();
            fs::copy(file.path(), again.join(file.file_name())).unwrap();
        }
    }
    // Declared again, it begins empty.
    let namespace = open(directory.path(), vec![QueueConfig::new("orders")], vec![]);
    assert!(!kept.exists());
    assert_eq!(queue(&namespace, "orders").counts().active, 0);
}

#[test]
fn what_forwards_to_something_that_was_deleted_or_in_a_circle_does_not_stop_the_next_start() {
    let directory = tempfile::tempdir().unwrap();
    let namespace = open(directory.path(), vec![], vec![]);
    let forwarding = |name: &str, to: &str| QueueConfig {
        name: name.into(),
        options: QueueOptions { forward_to: Some(to.into()), ..QueueOptions::default() },
    };
    namespace.create_queue(&QueueConfig::new("target"), EntityFacts::default()).unwrap();
    for config in [forwarding("source", "target"), forwarding("round", "ROUND")] {
        namespace.create_queue(&config, EntityFacts::default()).unwrap();
    }
    namespace.create_queue(&forwarding("lost", "nowhere"), EntityFacts::default()).unwrap_err();
    namespace.delete_queue_or_topic("target").unwrap();
    closed(namespace);
    let namespace = open(directory.path(), vec![], vec![]);
    assert_eq!(queue(&namespace, "source").options().forward_to.as_deref(), Some("target"));
    assert!(namespace.queue_or_topic("lost").is_none());
}

/// A body of one byte.
const MESSAGE: &[u8] = &[0x00, 0x53, 0x75, 0xa0, 0x01, b'x'];
