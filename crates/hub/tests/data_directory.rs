//! A namespace with a data directory: what outlives the process, whose the directory is, and what is refused.

#![expect(
    clippy::unwrap_used,
    reason = "what panics in a test fails it, and says where"
)]

use std::fs;
use std::path::{Path, PathBuf};

use hub::UnixTime;
use hub::log::disk::{StorageOptions, SyncPolicy};
use hub::log::{AppendError, NewRecord};
use hub::namespace::{
    DataDirectoryError, EntityError, HubConfig, Namespace, NamespaceConfig, NamespaceError,
    Partition, StorageConfig,
};

fn config(directory: &Path, hubs: Vec<HubConfig>) -> NamespaceConfig {
    NamespaceConfig {
        storage: Some(StorageConfig {
            directory: directory.to_owned(),
            options: StorageOptions {
                sync: SyncPolicy::Os,
                ..StorageOptions::default()
            },
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
    let record = NewRecord {
        annotation_count: 0,
        annotations: &[],
        sections: &[b"an event"],
    };
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
    let declared = || {
        vec![HubConfig {
            consumer_groups: vec!["billing".into()],
            ..HubConfig::new("Orders/2026", 3)
        }]
    };
    let namespace = open(&path, declared()).unwrap();
    namespace
        .create_hub(&HubConfig::new("audit", 1), at(1_500))
        .unwrap();
    namespace
        .create_consumer_group("orders/2026", "Readers")
        .unwrap();
    namespace
        .delete_consumer_group("orders/2026", "BILLING")
        .unwrap();
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
    assert_eq!(
        (stats.begin_sequence_number, stats.last_sequence_number),
        (0, Some(4))
    );
    assert!(hub.partitions()[0].log().stats().is_empty);
    namespace.close().unwrap();
    drop((namespace, hub));

    // What is declared and missing is created, and nothing else changes.
    let mut hubs = declared();
    hubs.push(HubConfig::new("new", 2));
    let namespace = open(&path, hubs).unwrap();
    assert_eq!(names(&namespace), ["Orders/2026", "audit", "new"]);
    assert_eq!(
        groups(&namespace, "orders/2026"),
        ["$Default", "billing", "Readers"]
    );
}

#[test]
fn a_second_owner_is_told_who_has_the_directory() {
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
fn a_newer_version_is_refused_and_left_alone() {
    let directory = tempfile::tempdir().unwrap();
    drop(open(directory.path(), vec![HubConfig::new("a", 1)]).unwrap());
    let version = directory.path().join("VERSION");
    assert_eq!(
        fs::read_to_string(&version).unwrap(),
        "parshall data directory, version 1\n"
    );
    fs::write(&version, "parshall data directory, version 2\n").unwrap();
    let before = everything(directory.path());
    let error = refusal(directory.path(), vec![HubConfig::new("b", 1)]);
    assert_eq!(
        error.to_string(),
        format!(
            "the data directory {} has version 2; this program knows versions up to 1",
            directory.path().display()
        )
    );
    assert_eq!(everything(directory.path()), before);
}

#[test]
fn a_directory_of_someone_else_is_refused_and_left_alone() {
    for (name, content) in [
        ("thesis.tex", "important"),
        ("VERSION", "4.2"),
        ("manifest.json", "{}"),
    ] {
        let directory = tempfile::tempdir().unwrap();
        fs::write(directory.path().join(name), content).unwrap();
        let error = refusal(directory.path(), vec![]);
        assert_eq!(
            error,
            DataDirectoryError::Foreign {
                path: directory.path().to_owned()
            }
        );
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
    let error = open(
        directory.path(),
        vec![HubConfig::new("new", 1), HubConfig::new("orders", 8)],
    )
    .unwrap_err();
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
fn a_file_in_the_way_and_a_manifest_that_is_none_are_told_in_one_line() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("file");
    fs::write(&file, "").unwrap();
    let error = refusal(&file.join("beneath"), vec![]).to_string();
    assert!(
        error.ends_with("can't be used: it can't be made: Not a directory (os error 20)"),
        "{error}"
    );

    let path = directory.path().join("data");
    drop(open(&path, vec![HubConfig::new("a", 1)]).unwrap());
    fs::write(path.join("manifest.json"), "{\"hubs\": 3}").unwrap();
    let error = refusal(&path, vec![]).to_string();
    assert!(
        error.contains("manifest.json can't be read: ") && error.lines().count() == 1,
        "{error}"
    );
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
    assert!(matches!(
        append(&old.partitions()[1], 1),
        Err(AppendError::Unavailable(_))
    ));
    let folders = || fs::read_dir(directory.path().join("hubs")).unwrap().count();
    assert_eq!(folders(), 0);

    let new = namespace
        .create_hub(&HubConfig::new("orders", 2), at(3_000))
        .unwrap();
    append(&new.partitions()[1], 2).unwrap();
    namespace.close().unwrap();
    drop((namespace, old, new));
    let namespace = open(directory.path(), vec![]).unwrap();
    let hub = namespace.hub("orders").unwrap();
    assert_eq!(hub.created_at(), at(3_000));
    assert_eq!(
        hub.partitions()[1].log().stats().last_sequence_number,
        Some(1)
    );
    assert_eq!(folders(), 1, "of the one partition that has events");
}

#[test]
fn what_a_creation_or_deletion_left_that_was_cut_short_is_removed_at_the_next_start() {
    let directory = tempfile::tempdir().unwrap();
    drop(open(directory.path(), vec![HubConfig::new("orders", 1)]).unwrap());
    let hubs = directory.path().join("hubs");
    for leftover in ["orders~9.0", "_deleted-orders~7.0", "orders~1.1"] {
        fs::create_dir_all(hubs.join(leftover)).unwrap();
        fs::write(hubs.join(leftover).join("00000000000000000000.log"), "x").unwrap();
    }
    fs::write(directory.path().join("manifest.json.new"), "{\"last").unwrap();
    fs::write(hubs.join("notes"), "someone's").unwrap();
    let namespace = open(directory.path(), vec![]).unwrap();
    assert_eq!(names(&namespace), ["orders"]);
    let left: Vec<_> = fs::read_dir(&hubs)
        .unwrap()
        .map(|entry| entry.unwrap().file_name())
        .collect();
    assert_eq!(left, ["notes"]);
}

#[test]
fn a_change_that_cannot_be_kept_is_not_made() {
    let directory = tempfile::tempdir().unwrap();
    let namespace = open(directory.path(), vec![HubConfig::new("orders", 1)]).unwrap();
    // The new manifest can't be written where a folder has its name.
    fs::create_dir(directory.path().join("manifest.json.new")).unwrap();
    let refused = [
        namespace
            .create_hub(&HubConfig::new("new", 1), at(3_000))
            .map(drop),
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
