//! Leases in the store: what they lock, what they leave alone, and that they outlive the process.

use super::*;
use crate::{
    EtagCondition, LeaseAction, LeaseDuration, LeaseError, LeaseId, LeaseState, Leased, PropertiesRequest,
    state_of,
};

fn after(seconds: u64) -> Now {
    (now().time_of_day + Duration::from_secs(seconds)).into()
}

fn id(text: &str) -> LeaseId {
    LeaseId::parse(&text.repeat(32)).unwrap()
}

fn acquire(duration: LeaseDuration) -> LeaseAction {
    LeaseAction::Acquire { duration, proposed: Some(id("a")) }
}

const FIXED: LeaseDuration = LeaseDuration::Fixed(30);

fn with(lease: Option<LeaseId>) -> Conditions {
    Conditions { lease, ..Conditions::default() }
}

fn lease(container: &Container, action: LeaseAction, at: Now) -> Result<(), BlobError> {
    let done = container.lease_blob("blob", action, &Conditions::default(), at);
    done.map(drop)
}

fn state(container: &Container, at: Now) -> LeaseState {
    state_of(container.blob("blob").unwrap().lease(), at.lease_time)
}

fn put_with(container: &Container, lease: Option<LeaseId>, at: Now) -> Result<(), BlobError> {
    let request = PutRequest { conditions: with(lease), ..put(b"new") };
    container.put("blob", request, at).map(drop)
}

/// A container with a blob of each kind, in memory and on a disk.
fn everywhere(test: impl Fn(&BlobStore, &Container)) {
    let directory = tempfile::tempdir().unwrap();
    for store in [BlobStore::in_memory(MEMORY, LIMITS), open(&directory)] {
        let container = store.create_container("box", Vec::new(), now()).unwrap();
        container.put("blob", put(b"content"), now()).unwrap();
        let log = PutRequest { content: PutContent::Append, ..put(b"") };
        container.put("log", log, now()).unwrap();
        test(&store, &container);
    }
}

#[test]
fn a_lease_locks_every_write_and_no_read() {
    everywhere(|_, container| {
        let action = acquire(LeaseDuration::Infinite);
        let before = container.blob("blob").unwrap().version();
        for name in ["blob", "log"] {
            let leased = container.lease_blob(name, action, &Conditions::default(), now());
            assert_eq!(leased.unwrap().1.id, Some(id("a")));
        }
        let writes = |lease: Option<LeaseId>| {
            let conditions = with(lease);
            let append = AppendRequest { conditions: conditions.clone(), ..appended(b"x") };
            let block = Bytes::from_static(b"block");
            let list = latest(&["QUE="]);
            let headers = PropertiesRequest { headers: Some(Default::default()), ..Default::default() };
            [
                put_with(container, lease, now()),
                container.set_metadata("blob", Vec::new(), &conditions, now()).map(drop),
                container.set_properties("blob", headers, &conditions, now()).map(drop),
                container.append("log", append, now()).map(drop),
                container.put_block("blob", "QUE=", block, lease, now()),
                container
                    .put_block_list(
                        "blob",
                        &list,
                        Description::default(),
                        &conditions,
                        Replacing::Allowed,
                        now(),
                    )
                    .map(drop),
                container.delete("blob", &conditions, now()),
            ]
        };
        let missing = BlobError::Lease(LeaseError::IdMissing(Leased::Blob));
        assert_eq!(writes(None), [Err(missing); 7]);
        let mismatch = BlobError::Lease(LeaseError::IdMismatch(Leased::Blob));
        assert_eq!(writes(Some(id("b"))), [Err(mismatch); 7]);
        let blob = container.blob("blob").unwrap();
        assert_eq!(blob.version(), before, "leases make no version");
        for (lease, expected) in [(None, Ok(())), (Some(id("a")), Ok(())), (Some(id("b")), Err(mismatch))] {
            assert_eq!(blob.check_read(&with(lease), now()), expected);
            let lists = container.block_lists("blob", lease, now());
            assert_eq!(lists.map(drop), expected);
        }
        assert_eq!(content(container, "blob").unwrap(), b"content");
        // The lock comes before what else the request says, as in the service.
        let create = PutRequest {
            conditions: Conditions { if_none_match: Some(EtagCondition::Any), ..Conditions::default() },
            ..put(b"new")
        };
        assert_eq!(container.put("blob", create, now()), Err(missing));
        assert_eq!(writes(Some(id("a"))), [Ok(()); 7]);
        assert_eq!(container.blob("blob").unwrap_err(), BlobError::BlobNotFound);
        // It is gone with its blob.
        container.put("blob", put(b"next"), now()).unwrap();
        assert_eq!(state(container, now()), LeaseState::Available);
    });
}

#[test]
fn a_lease_that_has_ended_is_renewed_unless_the_blob_was_written_since() {
    everywhere(|_, container| {
        lease(container, acquire(FIXED), now()).unwrap();
        put_with(container, Some(id("a")), after(1)).unwrap();
        assert_eq!(state(container, after(29)), LeaseState::Leased);
        assert_eq!(state(container, after(30)), LeaseState::Expired);
        let lost = BlobError::Lease(LeaseError::Lost(Leased::Blob));
        assert_eq!(put_with(container, Some(id("a")), after(30)), Err(lost));
        lease(container, LeaseAction::Renew(id("a")), after(30)).unwrap();
        assert_eq!(state(container, after(59)), LeaseState::Leased);
        put_with(container, None, after(60)).unwrap();
        assert_eq!(state(container, after(60)), LeaseState::Available);
        let refused = lease(container, LeaseAction::Renew(id("a")), after(60));
        let mismatch = BlobError::Lease(LeaseError::ActionIdMismatch);
        assert_eq!(refused, Err(mismatch));
    });
}

#[test]
fn only_blobs_that_are_there_are_leased_and_only_upon_conditions() {
    everywhere(|_, container| {
        let waiting = Bytes::from_static(b"waits");
        let nothing = Conditions::default();
        container.put_block("waiting", "QUE=", waiting, None, now()).unwrap();
        for name in ["missing", "waiting"] {
            let refused = container.lease_blob(name, acquire(FIXED), &nothing, now());
            assert_eq!(refused.unwrap_err(), BlobError::BlobNotFound, "{name}");
        }
        let other = Conditions { if_match: Some(EtagCondition::OneOf(Vec::new())), ..Conditions::default() };
        let refused = container.lease_blob("blob", acquire(FIXED), &other, now());
        assert_eq!(refused.unwrap_err(), BlobError::ConditionNotMet);
        let none = BlobError::Lease(LeaseError::NotPresent(Leased::Blob));
        assert_eq!(put_with(container, Some(id("a")), now()), Err(none));
    });
}

#[test]
fn of_many_that_want_a_lease_one_gets_it() {
    everywhere(|_, container| {
        let action = LeaseAction::Acquire { duration: FIXED, proposed: None };
        let got = std::thread::scope(|scope| {
            let threads: Vec<_> =
                (0..4).map(|_| scope.spawn(|| lease(container, action, now()).is_ok())).collect();
            let joined = threads.into_iter().map(|thread| thread.join().unwrap());
            joined.filter(|got| *got).count()
        });
        assert_eq!(got, 1);
    });
}

#[test]
fn a_leased_container_is_deleted_by_its_holder_alone_and_its_blobs_are_written_by_anyone() {
    everywhere(|store, container| {
        let nothing = Conditions::default();
        let before = container.properties().version();
        let leased = container.lease(acquire(FIXED), &nothing, now());
        assert_eq!(leased.unwrap(), (before, crate::LeaseOutcome { id: Some(id("a")), remaining_s: None }));
        container.put("blob", put(b"new"), now()).unwrap();
        let metadata = vec![("made".to_owned(), "anew".to_owned())];
        let set = container.set_container_metadata(metadata.clone(), &nothing, now());
        let version = set.unwrap();
        assert!(version.etag > before.etag);
        assert_eq!(container.properties().metadata(), &metadata);
        let refused = |lease| {
            let error = store.delete_container("box", &with(lease), now());
            error.unwrap_err()
        };
        let missing = LeaseError::IdMissing(Leased::Container);
        assert_eq!(refused(None), BlobError::Lease(missing));
        let mismatch = BlobError::Lease(LeaseError::IdMismatch(Leased::Container));
        assert_eq!(refused(Some(id("b"))), mismatch);
        let set = container.set_container_metadata(Vec::new(), &with(Some(id("b"))), now());
        assert_eq!(set, Err(mismatch));
        assert_eq!(container.properties().version(), version);
        store.delete_container("box", &with(Some(id("a"))), now()).unwrap();
        let late = container.lease(acquire(FIXED), &nothing, now());
        assert_eq!(late.unwrap_err(), BlobError::ContainerNotFound);
    });
}

#[test]
fn leases_and_the_metadata_of_containers_outlive_the_process() {
    for closes in [true, false] {
        let directory = tempfile::tempdir().unwrap();
        let store = open(&directory);
        let container = store.create_container("box", Vec::new(), now()).unwrap();
        let nothing = Conditions::default();
        for (name, duration) in [("infinite", LeaseDuration::Infinite), ("fixed", FIXED)] {
            container.put(name, put(b"content"), now()).unwrap();
            container.lease_blob(name, acquire(duration), &nothing, now()).unwrap();
        }
        let metadata = vec![("made".to_owned(), "anew".to_owned())];
        let version = container.set_container_metadata(metadata.clone(), &nothing, now()).unwrap();
        container.lease(acquire(LeaseDuration::Infinite), &nothing, now()).unwrap();
        if closes {
            store.close().unwrap();
        }
        drop((store, container));
        let store = open(&directory);
        assert_eq!(store.figures().damaged_files, 0);
        let container = store.container("box").unwrap();
        let properties = container.properties();
        assert_eq!(properties.metadata(), &metadata);
        assert_eq!(properties.version(), version);
        let leased = LeaseState::Leased;
        assert_eq!(state_of(properties.lease(), after(1 << 30).lease_time), leased);
        let state = |name, at: Now| state_of(container.blob(name).unwrap().lease(), at.lease_time);
        assert_eq!(state("infinite", after(1 << 30)), leased);
        // It ends when it would have ended.
        assert_eq!(state("fixed", after(29)), leased);
        assert_eq!(state("fixed", after(30)), LeaseState::Expired);
        let missing = BlobError::Lease(LeaseError::IdMissing(Leased::Blob));
        let written = container.put("infinite", put(b"new"), after(99));
        assert_eq!(written, Err(missing));
        assert_eq!(content(&container, "infinite").unwrap(), b"content");
    }
}

#[test]
fn a_lease_that_cannot_be_kept_is_not_given() {
    let directory = tempfile::tempdir().unwrap();
    let store = open(&directory);
    let container = store.create_container("box", Vec::new(), now()).unwrap();
    container.put("blob", put(b"content"), now()).unwrap();
    let (folder, aside) = (directory.path().join("box"), directory.path().join("aside"));
    std::fs::rename(&folder, &aside).unwrap();
    for refused in [
        lease(&container, acquire(FIXED), now()),
        container.lease(acquire(FIXED), &Conditions::default(), now()).map(drop),
    ] {
        assert!(matches!(refused, Err(BlobError::Unavailable(_))), "{refused:?}");
    }
    std::fs::rename(&aside, &folder).unwrap();
    assert_eq!(state(&container, now()), LeaseState::Available);
    assert!(container.properties().lease().is_none());
    assert_eq!(content(&container, "blob").unwrap(), b"content");
    lease(&container, acquire(FIXED), now()).unwrap();
}

#[test]
fn blocks_that_wait_have_the_time_of_the_first_of_them_over_a_restart() {
    let directory = tempfile::tempdir().unwrap();
    let store = open(&directory);
    let container = store.create_container("box", Vec::new(), now()).unwrap();
    for (id, seconds) in [("QUE=", 0), ("QUI=", 100)] {
        let block = Bytes::from_static(b"block");
        container.put_block("blob", id, block, None, after(seconds)).unwrap();
    }
    let commit = |container: &Container, since: u64| {
        let conditions =
            Conditions { if_modified_since: Some(after(since).time_of_day), ..Conditions::default() };
        let list = latest(&["QUE=", "QUI="]);
        let (described, replacing) = (Description::default(), Replacing::Allowed);
        container.put_block_list("blob", &list, described, &conditions, replacing, after(200)).map(drop)
    };
    assert_eq!(commit(&container, 50), Err(BlobError::ConditionNotMet));
    store.close().unwrap();
    drop((store, container));
    let store = open(&directory);
    let container = store.container("box").unwrap();
    assert_eq!(commit(&container, 50), Err(BlobError::ConditionNotMet));
    // An instant before they came.
    let conditions = Conditions {
        if_modified_since: Some(now().time_of_day - Duration::from_secs(1)),
        ..Conditions::default()
    };
    let taken = PutRequest { conditions, ..put(b"whole") };
    container.put("blob", taken, after(200)).unwrap();
}
