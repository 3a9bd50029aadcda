//! A namespace with a data directory: what outlives the process, whose the directory is, and what is refused.

#![expect(clippy::unwrap_used, reason = "what panics in a test fails it, and says where")]

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use hub::namespace::{
    Bound, DataDirectoryError, EntityError, HubConfig, Namespace, NamespaceConfig, NamespaceError, Partition,
    QueueConfig, StorageConfig, TopicConfig, TopicSettings,
};
use partition_log::UnixTime;
use partition_log::disk::{StorageOptions, SyncPolicy};
use partition_log::{AppendError, LogLimits, NewRecord, ProduceError, Produced, ProducerStamp};
use queue_store::{Entity, NewMessage, QueueOptions};

fn config(directory: &Path, hubs: Vec<HubConfig>) -> NamespaceConfig {
    NamespaceConfig {
        storage: Some(StorageConfig {
            directory: directory.to_owned(),
            options: StorageOptions { sync: SyncPolicy::Os, ..StorageOptions::default() },
        }),
        ..NamespaceConfig::with_hubs(hubs)
    }
}

fn at(milliseconds: i64) -> UnixTime {
    UnixTime::from_milliseconds(milliseconds)
}

fn open(directory: &Path, hubs: Vec<HubConfig>) -> Result<Namespace, NamespaceError> {
    Namespace::new(&config(directory, hubs), at(1_000))
}

/// Why the directory can't be had.
fn refusal(directory: &Path, hubs: Vec<HubConfig>) -> DataDirectoryError {
    match open(directory, hubs).unwrap_err() {
        NamespaceError::DataDirectory { cause, .. } => cause,
        other => panic!("{other}"),
    }
}

fn append(partition: &Partition, count: usize) -> Result<(), AppendError> {
    let record = NewRecord { annotation_count: 0, annotations: &[], sections: &[b"an event"] };
    partition
        .append(at(2_000), |encoder| {
            (0..count).for_each(|_| encoder.push(&record));
            Ok(())
        })
        .map(drop)
}

fn names(namespace: &Namespace) -> Vec<String> {
    let hubs = namespace.hubs();
    hubs.iter().map(|hub| hub.name().to_owned()).collect()
}

fn groups(namespace: &Namespace, hub: &str) -> Vec<String> {
    let groups = namespace.hub(hub).unwrap().consumer_groups();
    groups.iter().map(|group| group.name().to_owned()).collect()
}

/// Every file and folder, by its path beneath the directory.
fn everything(directory: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut pending = vec![directory.to_owned()];
    while let Some(folder) = pending.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                pending.push(path.clone());
            }
            found.push(path.strip_prefix(directory).unwrap().to_owned());
        }
    }
    found.sort();
    found
}

#[test]
fn hubs_consumer_groups_and_events_outlive_the_process() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("made/on/demand");
    let declared =
        || vec![HubConfig { consumer_groups: vec!["billing".into()], ..HubConfig::new("Orders/2026", 3) }];
    let namespace = open(&path, declared()).unwrap();
    namespace.create_hub(&HubConfig::new("audit", 1), at(1_500)).unwrap();
    namespace.create_consumer_group("orders/2026", "Readers").unwrap();
    namespace.delete_consumer_group("orders/2026", "BILLING").unwrap();
    append(&namespace.hub("orders/2026").unwrap().partitions()[2], 5).unwrap();
    namespace.close().unwrap();
    drop(namespace);

    // Without a declaration everything is as it was left.
    let namespace = open(&path, vec![]).unwrap();
    assert_eq!(names(&namespace), ["Orders/2026", "audit"]);
    assert_eq!(groups(&namespace, "orders/2026"), ["$Default", "Readers"]);
    let hub = namespace.hub("orders/2026").unwrap();
    assert_eq!(hub.created_at(), at(1_000));
    assert_eq!(namespace.hub("audit").unwrap().created_at(), at(1_500));
    let stats = hub.partitions()[2].log().stats();
    assert_eq!((stats.begin_sequence_number, stats.last_sequence_number), (0, Some(4)));
    assert!(hub.partitions()[0].log().stats().is_empty);
    namespace.close().unwrap();
    drop((namespace, hub));

    // What is declared and missing is created, and nothing else changes.
    let mut hubs = declared();
    hubs.push(HubConfig::new("new", 2));
    let namespace = open(&path, hubs).unwrap();
    assert_eq!(names(&namespace), ["Orders/2026", "audit", "new"]);
    assert_eq!(groups(&namespace, "orders/2026"), ["$Default", "billing", "Readers"]);
}

#[test]
fn a_second_owner_gets_the_name_of_the_first() {
    let directory = tempfile::tempdir().unwrap();
    let first = open(directory.path(), vec![HubConfig::new("a", 1)]).unwrap();
    let error = refusal(directory.path(), vec![HubConfig::new("b", 1)]);
    assert_eq!(
        error.to_string(),
        format!(
            "the data directory {} is in use by process {}",
            directory.path().display(),
            std::process::id()
        )
    );
    drop(first);
    assert_eq!(names(&open(directory.path(), vec![]).unwrap()), ["a"]);
}

#[test]
fn the_version_is_raised_with_the_first_producer_that_numbers_its_events() {
    let directory = tempfile::tempdir().unwrap();
    let version = || fs::read_to_string(directory.path().join("VERSION")).unwrap();
    let namespace = open(directory.path(), vec![HubConfig::new("a", 1)]).unwrap();
    append(&namespace.hub("a").unwrap().partitions()[0], 1).unwrap();
    assert_eq!(version(), "parshall data directory, version 2\n");
    namespace.admit_producers().unwrap();
    assert_eq!(version(), "parshall data directory, version 3\n");
    let stamp = ProducerStamp::new(7, 0, 0).unwrap();
    let produce = |namespace: &Namespace| {
        let record = NewRecord { annotation_count: 0, annotations: &[], sections: &[b"an event"] };
        let hub = namespace.hub("a").unwrap();
        let produced: Result<_, ProduceError> =
            hub.partitions()[0].append_produced(at(2_000), &stamp, 1, |encoder| {
                encoder.push(&record);
                Ok(())
            });
        (produced.unwrap(), hub.counters())
    };
    assert!(matches!(produce(&namespace).0, Produced::Stored(_)));
    namespace.close().unwrap();
    drop(namespace);

    let namespace = open(directory.path(), vec![]).unwrap();
    assert_eq!(version(), "parshall data directory, version 3\n");
    let (produced, counters) = produce(&namespace);
    assert!(matches!(produced, Produced::Duplicate { first_sequence_number: 1, .. }), "{produced:?}");
    assert_eq!((counters.events_in, counters.events_duplicate), (0, 1));
}

#[test]
fn the_version_is_raised_with_the_first_record_batch_of_kafka() {
    let directory = tempfile::tempdir().unwrap();
    let version = || fs::read_to_string(directory.path().join("VERSION")).unwrap();
    let namespace = open(directory.path(), vec![HubConfig::new("a", 1)]).unwrap();
    for _ in 0..2 {
        namespace.admit_record_batches().unwrap();
        assert_eq!(version(), "parshall data directory, version 4\n");
    }
    namespace.admit_producers().unwrap();
    namespace.close().unwrap();
    drop(namespace);
    drop(open(directory.path(), vec![]).unwrap());
    assert_eq!(version(), "parshall data directory, version 4\n");
}

#[test]
fn the_version_is_raised_with_the_first_transaction_or_deletion() {
    let directory = tempfile::tempdir().unwrap();
    let version = || fs::read_to_string(directory.path().join("VERSION")).unwrap();
    let namespace = open(directory.path(), vec![HubConfig::new("a", 1)]).unwrap();
    for _ in 0..2 {
        namespace.admit_transactions().unwrap();
        namespace.admit_record_batches().unwrap();
        assert_eq!(version(), "parshall data directory, version 5\n");
    }
    namespace.close().unwrap();
    drop(namespace);
    drop(open(directory.path(), vec![]).unwrap());
    assert_eq!(version(), "parshall data directory, version 5\n");
}

#[test]
fn a_newer_version_is_refused_and_left_alone() {
    let directory = tempfile::tempdir().unwrap();
    drop(open(directory.path(), vec![HubConfig::new("a", 1)]).unwrap());
    let version = directory.path().join("VERSION");
    assert_eq!(fs::read_to_string(&version).unwrap(), "parshall data directory, version 2\n");
    fs::write(&version, "parshall data directory, version 8\n").unwrap();
    let before = everything(directory.path());
    let error = refusal(directory.path(), vec![HubConfig::new("b", 1)]);
    assert_eq!(
        error.to_string(),
        format!(
            "the data directory {} has version 8; this program supports versions up to 7",
            directory.path().display()
        )
    );
    assert_eq!(everything(directory.path()), before);
}

#[test]
fn a_directory_of_someone_else_is_refused_and_left_alone() {
    for (name, content) in [("thesis.tex", "important"), ("VERSION", "4.2"), ("manifest.json", "{}")] {
        let directory = tempfile::tempdir().unwrap();
        fs::write(directory.path().join(name), content).unwrap();
        let error = refusal(directory.path(), vec![]);
        assert_eq!(error, DataDirectoryError::Foreign { path: directory.path().to_owned() });
        assert_eq!(everything(directory.path()), [PathBuf::from(name)]);
    }
    // What a file system puts there, and what a first start that was cut short leaves, is nobody's.
    let directory = tempfile::tempdir().unwrap();
    fs::create_dir(directory.path().join("lost+found")).unwrap();
    fs::write(directory.path().join("LOCK"), "1\n").unwrap();
    fs::write(directory.path().join("VERSION.new"), "par").unwrap();
    assert!(open(directory.path(), vec![]).is_ok());
}

#[test]
fn what_is_declared_must_not_contradict_what_is_kept() {
    let directory = tempfile::tempdir().unwrap();
    drop(open(directory.path(), vec![HubConfig::new("Orders", 4)]).unwrap());
    let error =
        open(directory.path(), vec![HubConfig::new("new", 1), HubConfig::new("orders", 8)]).unwrap_err();
    assert_eq!(
        error,
        NamespaceError::DataDirectory {
            index: Some(1),
            cause: DataDirectoryError::PartitionCount {
                path: directory.path().to_owned(),
                hub: "Orders".into(),
                kept: 4,
                declared: 8,
            }
        }
    );
    let namespace = open(directory.path(), vec![]).unwrap();
    assert_eq!(names(&namespace), ["Orders"], "nothing was created");
}

#[test]
fn what_clients_have_changed_of_a_hub_is_kept_and_does_not_contradict_how_it_was_declared() {
    let directory = tempfile::tempdir().unwrap();
    let declared = || vec![HubConfig::new("Orders", 2)];
    let namespace = open(directory.path(), declared()).unwrap();
    append(&namespace.hub("orders").unwrap().partitions()[1], 3).unwrap();
    let hub = namespace.grow_hub("orders", 5).unwrap();
    append(&hub.partitions()[4], 2).unwrap();
    let limits = LogLimits { bytes: units::ByteSize::from_mebibytes(7), ..hub.limits() };
    let retention_bytes = Some(Bound::At(limits.bytes));
    let change = |_: &TopicSettings| {
        Ok::<_, EntityError>(TopicSettings { retention_bytes, ..TopicSettings::default() })
    };
    namespace.change_settings("orders", change).unwrap();
    drop(hub);
    namespace.close().unwrap();
    drop(namespace);
    for declared in [declared(), vec![HubConfig::new("orders", 5)], vec![]] {
        let namespace = open(directory.path(), declared).unwrap();
        let hub = namespace.hub("orders").unwrap();
        let ends: Vec<u64> = hub.partitions().iter().map(|it| it.log().end().next_sequence_number).collect();
        assert_eq!((ends, hub.limits()), (vec![0, 3, 0, 0, 2], limits));
        namespace.close().unwrap();
    }
    let error = refusal(directory.path(), vec![HubConfig::new("orders", 4)]);
    assert!(matches!(error, DataDirectoryError::PartitionCount { kept: 5, declared: 4, .. }), "{error}");
}

#[test]
fn a_file_in_the_way_and_a_manifest_that_is_none_are_reported_in_one_line() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("file");
    fs::write(&file, "").unwrap();
    let error = refusal(&file.join("beneath"), vec![]).to_string();
    assert!(error.ends_with("can't be used: it can't be made: Not a directory (os error 20)"), "{error}");

    let path = directory.path().join("data");
    drop(open(&path, vec![HubConfig::new("a", 1)]).unwrap());
    fs::write(path.join("manifest.json"), "{\"hubs\": 3}").unwrap();
    let error = refusal(&path, vec![]).to_string();
    assert!(error.contains("manifest.json can't be read: ") && error.lines().count() == 1, "{error}");
}

#[test]
fn a_deleted_hub_leaves_no_file_and_its_name_can_be_given_again() {
    let directory = tempfile::tempdir().unwrap();
    let namespace = open(directory.path(), vec![HubConfig::new("orders", 2)]).unwrap();
    let old = namespace.hub("orders").unwrap();
    append(&old.partitions()[1], 7).unwrap();
    namespace.delete_hub("ORDERS").unwrap();
    assert!(old.is_deleted() && old.partitions()[0].is_deleted());
    assert!(namespace.hub("orders").is_none());
    assert!(matches!(append(&old.partitions()[1], 1), Err(AppendError::Unavailable(_))));
    let folders = || fs::read_dir(directory.path().join("hubs")).unwrap().count();
    assert_eq!(folders(), 0);

    let created_at = old.created_at();
    let new = namespace.create_hub(&HubConfig::new("orders", 2), created_at).unwrap();
    let id = new.id();
    assert_ne!(id, old.id(), "another one, though no time has passed");
    append(&new.partitions()[1], 2).unwrap();
    namespace.close().unwrap();
    drop((namespace, old, new));
    let namespace = open(directory.path(), vec![]).unwrap();
    let hub = namespace.hub("orders").unwrap();
    assert_eq!((hub.id(), hub.created_at()), (id, created_at));
    assert_eq!(hub.partitions()[1].log().stats().last_sequence_number, Some(1));
    assert_eq!(folders(), 1, "of the one partition that has events");
}

#[test]
fn what_a_deletion_left_that_was_cut_short_is_removed_at_the_next_start() {
    let directory = tempfile::tempdir().unwrap();
    let namespace =
        open(directory.path(), vec![HubConfig::new("orders", 1), HubConfig::new("old", 1)]).unwrap();
    append(&namespace.hub("old").unwrap().partitions()[0], 3).unwrap();
    namespace.close().unwrap();
    let hubs = directory.path().join("hubs");
    let segment = hubs.join("old~2.0/00000000000000000000.log");
    let content = fs::read(&segment).unwrap();
    namespace.delete_hub("old").unwrap();
    // As if the process had ended before it came to the files of this hub, and half way through those of another.
    fs::create_dir(hubs.join("old~2.0")).unwrap();
    fs::write(&segment, content).unwrap();
    fs::create_dir(hubs.join("_deleted-older~1.7")).unwrap();
    fs::write(hubs.join("_deleted-older~1.7/00000000000000000000.log"), "x").unwrap();
    fs::write(directory.path().join("manifest.json.new"), "{\"last").unwrap();
    fs::write(hubs.join("notes"), "someone's").unwrap();
    fs::create_dir(hubs.join("backup~of mine")).unwrap();
    drop(namespace);
    let namespace = open(directory.path(), vec![]).unwrap();
    assert_eq!(names(&namespace), ["orders"]);
    let mut left: Vec<_> = fs::read_dir(&hubs).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    left.sort();
    assert_eq!(left, ["backup~of mine", "notes"]);
    // Once the folders are gone, the manifest forgets the hub.
    drop(namespace);
    drop(open(directory.path(), vec![]).unwrap());
    let manifest = fs::read_to_string(directory.path().join("manifest.json")).unwrap();
    assert!(!manifest.contains("deleted"), "{manifest}");
}

/// A directory with events in two hubs and with messages in a queue and in a topic's subscriptions, after a close.
fn filled() -> tempfile::TempDir {
    let directory = tempfile::tempdir().unwrap();
    let namespace = Namespace::new(&declared(directory.path()), at(1_000)).unwrap();
    for (hub, count) in [("a", 500), ("b", 400)] {
        append(&namespace.hub(hub).unwrap().partitions()[0], count).unwrap();
    }
    let message = NewMessage { sections: &[MESSAGE], ..NewMessage::default() };
    for name in ["Jobs", "team/news"] {
        match namespace.queue_or_topic(name).unwrap() {
            Entity::Queue(queue) => drop(queue.enqueue(at(2_000), &[message; 7]).unwrap()),
            Entity::Topic(topic) => drop(topic.enqueue(at(2_000), &[message; 7]).unwrap()),
        }
    }
    namespace.close().unwrap();
    directory
}

fn declared(directory: &Path) -> NamespaceConfig {
    let jobs = QueueConfig {
        name: "Jobs".into(),
        options: QueueOptions { lock_duration: Duration::from_secs(17), ..QueueOptions::default() },
    };
    NamespaceConfig {
        queues: vec![jobs],
        topics: vec![TopicConfig::new("team/news", ["all", "audit"])],
        ..config(directory, vec![HubConfig::new("a", 1), HubConfig::new("b", 1)])
    }
}

/// How much of what [`filled`] has put there is served.
fn served(namespace: &Namespace) -> Vec<(String, u64)> {
    let mut served = Vec::new();
    for hub in namespace.hubs().iter() {
        let stats = hub.partitions()[0].log().stats();
        let end = stats.last_sequence_number.map_or(0, |last| last + 1);
        let count = end - stats.begin_sequence_number;
        served.push((hub.name().to_owned(), count));
    }
    for entity in namespace.queues().entities() {
        match entity {
            Entity::Queue(queue) => served.push((queue.name().to_owned(), queue.counts().active)),
            Entity::Topic(topic) => served.extend(topic.subscriptions().iter().map(|each| {
                let name = format!("{}/{}", topic.name(), each.name());
                (name, each.queue().counts().active)
            })),
        }
    }
    served
}

fn everything_served() -> Vec<(String, u64)> {
    let all = [("a", 500), ("b", 400), ("Jobs", 7), ("team/news/all", 7), ("team/news/audit", 7)];
    all.map(|(name, count)| (name.to_owned(), count)).to_vec()
}

/// A body of one byte.
const MESSAGE: &[u8] = &[0x00, 0x53, 0x75, 0xa0, 0x01, b'x'];

#[test]
fn queues_and_topics_are_served_again_though_nothing_declares_them() {
    let directory = filled();
    let namespace = open(directory.path(), vec![]).unwrap();
    assert_eq!(served(&namespace), everything_served());
    let Some(Entity::Queue(jobs)) = namespace.queue_or_topic("jobs") else { panic!("there is no queue") };
    assert_eq!(jobs.options().lock_duration, Duration::from_secs(17));
    assert_eq!(namespace.queue_configs().len(), 1);
    drop((namespace, jobs));

    // What is declared counts, and what is left out stays.
    let declaration = NamespaceConfig {
        queues: vec![QueueConfig::new("new"), QueueConfig::new("JOBS")],
        topics: vec![TopicConfig::new("team/news", ["more", "all"])],
        ..config(directory.path(), vec![])
    };
    let namespace = Namespace::new(&declaration, at(3_000)).unwrap();
    let topics = namespace.topic_configs()[0].subscriptions.iter();
    let subscriptions: Vec<_> = topics.map(|each| each.name.as_str()).collect();
    assert_eq!(subscriptions, ["more", "all", "audit"]);
    let mut expected = everything_served();
    expected[2].0 = "JOBS".to_owned();
    expected.extend([("new".to_owned(), 0), ("team/news/more".to_owned(), 0)]);
    expected.sort();
    let mut found = served(&namespace);
    found.sort();
    assert_eq!(found, expected);
    drop(namespace);

    // One that is kept must not contradict one that is declared.
    let declaration = NamespaceConfig {
        topics: vec![TopicConfig::new("jobs", ["all"])],
        ..config(directory.path(), vec![])
    };
    let refused = Namespace::new(&declaration, at(3_000)).unwrap_err();
    assert_eq!(refused.to_string(), "topics[0].name: there is a queue with the name \"jobs\"");
    let hub = config(directory.path(), vec![HubConfig::new("jobs", 1)]);
    let refused = Namespace::new(&hub, at(3_000)).unwrap_err();
    assert!(matches!(refused, NamespaceError::KeptQueue { .. }), "{refused}");
}

#[test]
fn without_the_manifest_nothing_is_served_and_nothing_is_touched() {
    let directory = filled();
    let manifest = directory.path().join("manifest.json");
    let content = fs::read(&manifest).unwrap();
    fs::remove_file(&manifest).unwrap();
    let before = everything(directory.path());
    for hubs in [vec![], vec![HubConfig::new("a", 1)]] {
        let refused = refusal(directory.path(), hubs);
        assert!(matches!(refused, DataDirectoryError::Missing { .. }));
        let refused = refused.to_string();
        assert!(refused.starts_with("manifest.json is missing"), "{refused}");
    }
    assert_eq!(everything(directory.path()), before);
    for emptied in ["", "{}", "{\"last_number\": 1, \"hubs\": []}"] {
        fs::write(&manifest, emptied).unwrap();
        let refused = refusal(directory.path(), vec![]).to_string();
        let is_named = refused.contains("manifest.json");
        assert!(is_named, "{emptied}: {refused}");
    }
    fs::write(&manifest, content).unwrap();
    let namespace = open(directory.path(), vec![]).unwrap();
    assert_eq!(served(&namespace), everything_served());
}

#[test]
fn an_older_manifest_that_misses_what_has_data_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    drop(open(directory.path(), vec![HubConfig::new("a", 1)]).unwrap());
    let manifest = directory.path().join("manifest.json");
    let older = fs::read(&manifest).unwrap();
    let with_b = vec![HubConfig::new("a", 1), HubConfig::new("b", 1)];
    let namespace = open(directory.path(), with_b.clone()).unwrap();
    append(&namespace.hub("b").unwrap().partitions()[0], 5).unwrap();
    namespace.close().unwrap();
    drop(namespace);
    let newer = fs::read(&manifest).unwrap();
    fs::write(&manifest, &older).unwrap();
    let refused = refusal(directory.path(), vec![]).to_string();
    assert!(refused.contains("hubs/b~2.0 holds data of a hub"), "{refused}");
    fs::write(&manifest, newer).unwrap();
    let namespace = open(directory.path(), with_b).unwrap();
    let stats = namespace.hub("b").unwrap().partitions()[0].log().stats();
    assert_eq!(stats.last_sequence_number, Some(4));
    drop(namespace);

    let directory = filled();
    let manifest = directory.path().join("manifest.json");
    let text = fs::read_to_string(&manifest).unwrap();
    let mut json: serde_json::Value = serde_json::from_str(&text).unwrap();
    json.as_object_mut().unwrap().remove("topics").unwrap();
    fs::write(&manifest, json.to_string()).unwrap();
    let refused = refusal(directory.path(), vec![]).to_string();
    assert!(refused.contains("queues/team~news holds data"), "{refused}");
    let declared = Namespace::new(&declared(directory.path()), at(3_000)).unwrap();
    assert_eq!(served(&declared), everything_served());
}

/// A copy of a directory with everything in it.
fn copy(from: &Path) -> tempfile::TempDir {
    let to = tempfile::tempdir().unwrap();
    for name in everything(from) {
        match from.join(&name).is_dir() {
            true => fs::create_dir(to.path().join(&name)).unwrap(),
            false => drop(fs::copy(from.join(&name), to.path().join(&name)).unwrap()),
        }
    }
    to
}

#[test]
fn whichever_file_is_missing_it_is_named_or_everything_is_served() {
    let original = filled();
    let (mut refused, mut served_all) = (0, 0);
    for name in everything(original.path()) {
        let directory = copy(original.path());
        if directory.path().join(&name).is_dir() {
            continue;
        }
        fs::remove_file(directory.path().join(&name)).unwrap();
        match Namespace::new(&config(directory.path(), vec![]), at(3_000)) {
            Ok(namespace) => {
                assert_eq!(served(&namespace), everything_served(), "{}", name.display());
                served_all += 1;
            }
            Err(error) => {
                let named = name.file_name().unwrap().to_str().unwrap();
                assert!(error.to_string().contains(named), "{}: {error}", name.display());
                refused += 1;
            }
        }
    }
    // Manifest, version and four segments; their sidecars and the lock.
    assert_eq!((refused, served_all), (6, 5));
}

#[test]
fn a_directory_of_the_first_form_is_taken_over_unless_its_manifest_is_lost() {
    let first_form = |directory: &Path| {
        let version = "parshall data directory, version 1\n";
        fs::write(directory.join("VERSION"), version).unwrap();
    };
    // It had a manifest only if it had hubs.
    let directory = tempfile::tempdir().unwrap();
    first_form(directory.path());
    drop(open(directory.path(), vec![]).unwrap());
    assert!(directory.path().join("manifest.json").exists());
    let version = fs::read_to_string(directory.path().join("VERSION")).unwrap();
    assert!(version.ends_with("version 2\n"), "{version}");

    let directory = filled();
    first_form(directory.path());
    let manifest = fs::read(directory.path().join("manifest.json")).unwrap();
    fs::remove_file(directory.path().join("manifest.json")).unwrap();
    let refused = refusal(directory.path(), vec![]).to_string();
    assert!(refused.starts_with("manifest.json is missing"), "{refused}");
    fs::write(directory.path().join("manifest.json"), manifest).unwrap();
    let namespace = open(directory.path(), vec![]).unwrap();
    assert_eq!(served(&namespace), everything_served());
}

#[test]
fn what_is_written_is_for_its_owner_alone_and_the_directory_that_was_there_keeps_its_mode() {
    let parent = tempfile::tempdir().unwrap();
    let users = parent.path().join("users");
    fs::create_dir(&users).unwrap();
    fs::set_permissions(&users, fs::Permissions::from_mode(0o755)).unwrap();
    let path = users.join("made/here");
    let namespace = Namespace::new(&declared(&path), at(1_000)).unwrap();
    append(&namespace.hub("a").unwrap().partitions()[0], 5).unwrap();
    namespace.close().unwrap();
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&users), 0o755);
    assert_eq!((mode(&users.join("made")), mode(&path)), (0o700, 0o700));
    let made = everything(&path);
    assert!(made.len() >= 14, "{made:?}");
    for name in made {
        let expected = if path.join(&name).is_dir() { 0o700 } else { 0o600 };
        assert_eq!(mode(&path.join(&name)), expected, "{}", name.display());
    }
}

#[test]
fn a_change_that_cannot_be_kept_is_not_made() {
    let directory = tempfile::tempdir().unwrap();
    let namespace = open(directory.path(), vec![HubConfig::new("orders", 1)]).unwrap();
    // The new manifest can't be written where a folder has its name.
    fs::create_dir(directory.path().join("manifest.json.new")).unwrap();
    let refused = [
        namespace.create_hub(&HubConfig::new("new", 1), at(3_000)).map(drop),
        namespace.delete_hub("orders"),
        namespace.create_consumer_group("orders", "g").map(drop),
    ];
    for result in refused {
        assert!(matches!(result, Err(EntityError::Storage(_))), "{result:?}");
    }
    assert_eq!(names(&namespace), ["orders"]);
    assert_eq!(groups(&namespace, "orders"), ["$Default"]);
    assert!(!namespace.hub("orders").unwrap().is_deleted());
    assert!(append(&namespace.hub("orders").unwrap().partitions()[0], 1).is_ok());
    fs::remove_dir(directory.path().join("manifest.json.new")).unwrap();
    namespace.delete_hub("orders").unwrap();
    assert!(names(&namespace).is_empty());
}
