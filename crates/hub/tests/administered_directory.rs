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
    let changes = fs::read(directory.path().join("manifest.changes")).unwrap();
    let manifest = fs::read(directory.path().join("manifest.json")).unwrap();
    closed(namespace);
    fs::write(directory.path().join("manifest.changes"), changes).unwrap();
    fs::write(directory.path().join("manifest.json"), manifest).unwrap();
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

#[test]
fn a_change_is_a_line_behind_the_manifest_which_is_written_with_the_next_start_or_hub() {
    let directory = tempfile::tempdir().unwrap();
    let file = |name: &str| fs::read_to_string(directory.path().join(name)).unwrap();
    let namespace = open(directory.path(), vec![], vec![]);
    let manifest = file("manifest.json");
    for number in 0..5 {
        let config = QueueConfig::new(format!("queue-{number}"));
        namespace.create_queue(&config, EntityFacts::of(at(1_500))).unwrap();
    }
    namespace.delete_queue_or_topic("queue-4").unwrap();
    assert_eq!(file("manifest.json"), manifest);
    assert_eq!(file("manifest.changes").lines().count(), 6);
    assert_eq!(file("VERSION"), "parshall data directory, version 6\n");
    namespace.create_hub(&hub::namespace::HubConfig::new("hub", 1), at(1_600)).unwrap();
    assert_eq!(file("manifest.changes"), "");
    assert!(file("manifest.json").contains("queue-3"));
    namespace.create_queue(&QueueConfig::new("later"), EntityFacts::of(at(1_700))).unwrap();
    let kept = file("manifest.changes");
    assert!(kept.contains("later"));
    closed(namespace);
    assert!(file("manifest.json").contains("later"));
    assert_eq!(file("manifest.changes"), "");
    let namespace = open(directory.path(), vec![], vec![]);
    assert_eq!(namespace.facts("later").created_at(), at(1_700));
    closed(namespace);
    // As if the machine had ended before the log was emptied.
    fs::write(directory.path().join("manifest.changes"), kept).unwrap();
    let namespace = open(directory.path(), vec![], vec![]);
    let names: Vec<String> =
        namespace.queues().entities().iter().map(|entity| entity.name().to_owned()).collect();
    assert_eq!(names, ["later", "queue-0", "queue-1", "queue-2", "queue-3"]);
}

#[test]
fn of_those_who_create_the_same_name_at_the_same_time_one_does_and_all_is_kept() {
    let directory = tempfile::tempdir().unwrap();
    let namespace = open(directory.path(), vec![], vec![]);
    namespace.create_topic(&TopicConfig::new("news", []), EntityFacts::default()).unwrap();
    let created: usize = std::thread::scope(|scope| {
        let workers: Vec<_> = (0..8)
            .map(|_| {
                scope.spawn(|| {
                    let facts = || EntityFacts::of(at(1_500));
                    let queues = (0..20).map(|number| QueueConfig::new(format!("queue-{number}")));
                    let queues =
                        queues.filter(|config| namespace.create_queue(config, facts()).is_ok()).count();
                    let config = SubscriptionConfig::new("all");
                    let subscription = namespace.create_subscription("news", &config, facts(), at(1_500));
                    queues + usize::from(subscription.is_ok())
                })
            })
            .collect();
        workers.into_iter().map(|worker| worker.join().unwrap()).sum()
    });
    assert_eq!(created, 21);
    closed(namespace);
    let namespace = open(directory.path(), vec![], vec![]);
    assert_eq!(namespace.queues().entities().len(), 21);
    assert_eq!(namespace.topic("news").unwrap().subscriptions().len(), 1);
}

#[test]
fn what_the_disk_does_not_take_is_not_there_and_can_be_made_once_it_does() {
    let directory = tempfile::tempdir().unwrap();
    let namespace = open(directory.path(), vec![], vec![]);
    let in_the_way = directory.path().join("manifest.changes");
    fs::create_dir(&in_the_way).unwrap();
    let refused = namespace.create_queue(&QueueConfig::new("orders"), EntityFacts::default()).unwrap_err();
    assert!(refused.to_string().contains("manifest.changes can't be written: "), "{refused}");
    assert!(namespace.queue_or_topic("orders").is_none());
    fs::remove_dir(&in_the_way).unwrap();
    namespace.create_queue(&QueueConfig::new("orders"), EntityFacts::default()).unwrap();
    closed(namespace);
    assert!(open(directory.path(), vec![], vec![]).queue_or_topic("orders").is_some());
}

/// A body of one byte.
const MESSAGE: &[u8] = &[0x00, 0x53, 0x75, 0xa0, 0x01, b'x'];

#[test]
fn every_name_keeps_what_is_its_own() {
    let directory = tempfile::tempdir().unwrap();
    let long = |last: &str| format!("{}{last}", "x".repeat(259));
    let names = ["a/b", "a~b", "_deleted-a", "~transactions", ".a", "b--", &long("y"), &long("z")];
    let namespace = open(directory.path(), vec![], vec![]);
    for (index, name) in names.into_iter().enumerate() {
        let config = QueueConfig { name: name.to_owned(), options: options(1 + index as u32) };
        let made = namespace.create_queue(&config, EntityFacts::of(at(1_500))).unwrap();
        (0..=index).for_each(|_| send(&made));
    }
    closed(namespace);
    let namespace = open(directory.path(), vec![], vec![]);
    for (index, name) in names.into_iter().enumerate() {
        assert_eq!(queue(&namespace, name).counts().active, 1 + index as u64, "{name}");
    }
    namespace.delete_queue_or_topic("a~b").unwrap();
    closed(namespace);
    let namespace = open(directory.path(), vec![], vec![]);
    assert!(namespace.queue_or_topic("a~b").is_none());
    assert_eq!(queue(&namespace, "a/b").counts().active, 1);
}
