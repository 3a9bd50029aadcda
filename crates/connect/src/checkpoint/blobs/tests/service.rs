//! The store against a blob service: the suite of all stores, names, and refusals.
//!
//! `PARSHALL_TEST_STORAGE` is the connection string of the service to test against, such as Azurite's (`compat/azurite/run`).
//! Without it, it is the embedded one.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::UNIX_EPOCH;

use access::storage::StorageConnectionString;
use hub::namespace::NamespaceConfig;
use hub::service::{Protocol, Service, ServiceConfig};

use super::*;
use crate::checkpoint::suite::{self, win_all};

suite::of_store!(a_store().await);

#[tokio::test]
async fn names_are_spelled_as_those_that_were_written_last() {
    let (store, keep) = a_store().await;
    let shared = |group: &str| ConsumerGroup::new("example.net", "orders", group);
    let claim = |group: &ConsumerGroup, owner: &str| Ownership::new(group.clone(), PartitionId(0), owner);
    // As a processor in Python writes it, and then a relay that is told `$Default`.
    let python = reopened(&keep, Spelling::LowerCase).await;
    let won = win_all(&python, vec![claim(&shared("$Default"), "python")]).await;
    assert_eq!(won.len(), 1);
    let found = store.list_ownership(&shared("$Default")).await.expect("it answers");
    assert_eq!(found[0].owner_id, "python");
    let lost = win_all(&store, vec![claim(&shared("$Default"), "relay")]).await;
    assert!(lost.is_empty());
    // As a processor in Go writes it.
    let go = reopened(&keep, Spelling::AsGiven).await;
    let won = win_all(&go, vec![claim(&shared("Billing"), "go")]).await;
    assert_eq!(won.len(), 1);
    let found = store.list_ownership(&shared("Billing")).await.expect("it answers");
    assert_eq!(found[0].owner_id, "go");
    assert!(python.list_ownership(&shared("Billing")).await.expect("it answers").is_empty());
    // Where nothing is yet, in lower case.
    let won = win_all(&store, vec![claim(&shared("New"), "relay")]).await;
    assert_eq!(won.len(), 1);
    assert_eq!(python.list_ownership(&shared("New")).await.expect("it answers").len(), 1);
}

#[tokio::test]
async fn progress_is_found_in_whatever_namespace_and_spelling_it_was_written() {
    let (_store, keep) = a_store().await;
    let write =
        |namespace: &str, hub: &str, group: &str, partition: u32, sequence_number: Option<i64>| Checkpoint {
            group: ConsumerGroup::new(namespace, hub, group),
            partition: PartitionId(partition),
            sequence_number,
            offset: None,
            log_id: None,
            etag: None,
        };
    let lower = reopened(&keep, Spelling::LowerCase).await;
    let given = reopened(&keep, Spelling::AsGiven).await;
    for (store, checkpoint) in [
        (&lower, write("localhost", "Orders", "$Default", 0, Some(7))),
        (&given, write("127.0.0.1:5672", "Orders", "$Default", 3, Some(9))),
        (&given, write("localhost", "Orders", "Other", 1, Some(1))),
        (&given, write("localhost", "Others", "$Default", 1, Some(1))),
        (&given, write("localhost", "Orders", "$Default", 2, None)),
    ] {
        store.update_checkpoint(checkpoint).await.expect("it answers");
    }
    let claim = Ownership::new(ConsumerGroup::new("localhost", "Orders", "$Default"), PartitionId(5), "one");
    win_all(&given, vec![claim]).await;
    let mut progress = given.progress_of("Orders", "$Default").await.expect("it answers");
    progress.sort_unstable();
    assert_eq!(progress, [(PartitionId(0), 7), (PartitionId(3), 9)]);
}

#[tokio::test]
async fn a_container_that_is_missing_is_named_with_what_to_do() {
    let (_store, keep) = a_store().await;
    let options = BlobStoreOptions::new(keep.connection_string.clone(), unused_container());
    let refused = BlobCheckpointStore::open(options).await.expect_err("it is not there");
    assert!(matches!(refused, StoreError::NoContainer { .. }), "{refused}");
    let told = refused.to_string();
    assert!(told.contains("az storage container create") && told.contains("`create: true`"), "{told}");
}

#[tokio::test]
async fn a_wrong_key_is_refused_at_once() {
    let (_store, keep) = a_store().await;
    let endpoint = &keep.connection_string.blob_endpoint;
    let account = keep.connection_string.account().expect("it is known");
    let wrong = format!("AccountName={account};AccountKey=aHVzaA==;BlobEndpoint={endpoint}");
    let options = BlobStoreOptions::new(wrong.parse().expect("a connection string"), "checkpoints");
    let refused = BlobCheckpointStore::open(options).await.expect_err("the key is wrong");
    assert!(matches!(refused, StoreError::Refused { .. }), "{refused}");
    assert!(!refused.to_string().contains("aHVzaA"), "{refused}");
}

/// What a store needs to live as long as it.
pub(super) struct Keep {
    pub(super) connection_string: StorageConnectionString,
    pub(super) container: String,
    _service: Option<Service>,
}

/// A store with a container of its own.
pub(super) async fn a_store() -> (BlobCheckpointStore, Keep) {
    let (connection_string, service): (StorageConnectionString, _) =
        match std::env::var("PARSHALL_TEST_STORAGE") {
            Ok(text) => (text.parse().expect("a connection string of a storage account"), None),
            Err(_) => {
                let config = ServiceConfig::loopback(NamespaceConfig::with_hubs(Vec::new()));
                let service = Service::start(config.and(Protocol::Blob)).await.expect("it starts");
                let string = service.storage_connection_string();
                (string.expect("it serves blobs"), Some(service))
            }
        };
    let container = unused_container();
    let options = BlobStoreOptions {
        missing_container: MissingContainer::Create,
        ..BlobStoreOptions::new(connection_string.clone(), container.clone())
    };
    let store = BlobCheckpointStore::open(options).await.expect("it answers");
    let keep = Keep { connection_string, container, _service: service };
    (store, keep)
}

/// Another store on the same container.
async fn reopened(keep: &Keep, spelling: Spelling) -> BlobCheckpointStore {
    let options = BlobStoreOptions {
        spelling,
        ..BlobStoreOptions::new(keep.connection_string.clone(), keep.container.clone())
    };
    BlobCheckpointStore::open(options).await.expect("it answers")
}

/// No test has had it before, nor an earlier run against a service that goes on.
fn unused_container() -> String {
    static NUMBER: AtomicU32 = AtomicU32::new(0);
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    let since = SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970");
    format!("test-{}-{:x}-{number}", std::process::id(), since.as_nanos())
}
