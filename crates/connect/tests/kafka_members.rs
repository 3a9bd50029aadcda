//! Stores that are members of a consumer group, against the embedded service as its coordinator.

#![expect(clippy::unwrap_used, reason = "what helpers of tests do not expect fails the test")]

use std::time::Duration;

use connect::checkpoint::{Checkpoint, CheckpointStore, ConsumerGroup, ETag, Ownership, StoreError};
use connect::event::PartitionId;
use connect::kafka::{GroupOffsetStore, KafkaOptions, Properties};
use hub::namespace::{HubConfig, NamespaceConfig};
use hub::service::{Protocol, Service, ServiceConfig};
use tokio::sync::watch;

const PARTITIONS: u16 = 4;

async fn serve() -> (Service, KafkaOptions) {
    let hubs = vec![HubConfig::new("orders", PARTITIONS)];
    let config = ServiceConfig::loopback(NamespaceConfig::with_hubs(hubs)).and(Protocol::Kafka);
    let service = Service::start(config).await.unwrap();
    let properties = Properties::default()
        .with("bootstrap.servers", service.address(Protocol::Kafka).unwrap().to_string())
        .with("security.protocol", "SASL_PLAINTEXT")
        .with("sasl.username", "$ConnectionString")
        .with("sasl.password", service.connection_string(None).reveal())
        .with("session.timeout.ms", "6000")
        .with("heartbeat.interval.ms", "50");
    (service, KafkaOptions::new("orders", properties))
}

fn group() -> ConsumerGroup {
    ConsumerGroup::new("cluster", "orders", "relay")
}

/// A store, and what tells that something has changed.
struct Member {
    store: GroupOffsetStore,
    changes: watch::Receiver<u64>,
}

impl Member {
    async fn join(options: &KafkaOptions) -> Self {
        let store = GroupOffsetStore::open_as_member(options, "relay").await.unwrap();
        let changes = store.ownership_changes().unwrap();
        Self { store, changes }
    }

    async fn listed(&self) -> Vec<Ownership> {
        self.store.list_ownership(&group()).await.unwrap()
    }

    /// Waits until what is listed is as it should be.
    async fn until(&mut self, enough: impl Fn(&[Ownership]) -> bool) -> Vec<Ownership> {
        loop {
            let listed = self.listed().await;
            if enough(&listed) {
                return listed;
            }
            self.changes.changed().await.unwrap();
        }
    }

    async fn until_has(&mut self, count: usize) -> Vec<Ownership> {
        self.until(|listed| listed.len() == count && asked_back(listed).is_empty()).await
    }

    async fn commit(&self, of: &Ownership, sequence_number: i64) -> Result<ETag, StoreError> {
        let checkpoint = Checkpoint {
            group: group(),
            partition: of.partition,
            sequence_number: Some(sequence_number),
            offset: None,
            log_id: None,
            etag: of.etag.clone(),
        };
        self.store.replace_checkpoint(checkpoint).await
    }

    /// Gives back whatever is asked back, until it has so many.
    async fn give_back_until_has(&mut self, count: usize) -> Vec<Ownership> {
        loop {
            let listed = self.until(|listed| !asked_back(listed).is_empty() || listed.len() == count).await;
            let back = asked_back(&listed);
            if back.is_empty() {
                return listed;
            }
            let claimed = self.store.claim_ownership(back.clone(), Duration::ZERO).await.unwrap();
            assert_eq!(claimed.written.len(), back.len());
            self.changes.changed().await.unwrap();
        }
    }
}

fn asked_back(listed: &[Ownership]) -> Vec<Ownership> {
    listed.iter().filter(|ownership| ownership.owner_id.is_empty()).cloned().collect()
}

fn of(listed: &[Ownership], partition: PartitionId) -> Option<&Ownership> {
    listed.iter().find(|ownership| ownership.partition == partition)
}

async fn in_time(test: impl Future<Output = ()>) {
    tokio::time::timeout(Duration::from_secs(60), test).await.unwrap();
}

#[tokio::test]
async fn what_one_gives_back_is_the_others_and_its_late_commits_are_refused() {
    in_time(async {
        let (service, options) = serve().await;
        let mut first = Member::join(&options).await;
        let all = first.until_has(4).await;
        for ownership in &all {
            let etag = first.commit(ownership, 9).await.unwrap();
            assert_eq!(Some(etag), ownership.etag, "the same having");
        }
        let mut second = Member::join(&options).await;
        second.listed().await;
        let kept = first.give_back_until_has(2).await;
        let given = second.until_has(2).await;
        let mut partitions: Vec<_> = kept.iter().chain(&given).map(|one| one.partition.0).collect();
        partitions.sort_unstable();
        assert_eq!(partitions, [0, 1, 2, 3]);
        for ownership in &kept {
            assert_eq!(of(&all, ownership.partition).unwrap().etag, ownership.etag, "as it was had before");
            first.commit(ownership, 19).await.unwrap();
        }
        let listed = second.store.list_checkpoints(&group()).await.unwrap();
        assert_eq!(listed.len(), 2, "its own");
        for (checkpoint, ownership) in listed.iter().zip(&given) {
            assert_eq!((checkpoint.partition, &checkpoint.etag), (ownership.partition, &ownership.etag));
            assert_eq!(checkpoint.sequence_number, Some(9), "what its owner before has committed");
            second.commit(ownership, 29).await.unwrap();
            let late = first.commit(of(&all, ownership.partition).unwrap(), 10).await.unwrap_err();
            assert!(matches!(late, StoreError::NotOwner { .. }), "{late}");
        }
        let claims = given.clone();
        let claimed = first.store.claim_ownership(claims, Duration::ZERO).await.unwrap();
        assert_eq!(claimed.written, [], "claims have no say");
        service.stop().await;
    })
    .await;
}

#[tokio::test]
async fn who_leaves_leaves_everything_to_the_others_at_once() {
    in_time(async {
        let (service, options) = serve().await;
        let mut first = Member::join(&options).await;
        first.until_has(4).await;
        let mut second = Member::join(&options).await;
        second.listed().await;
        first.give_back_until_has(2).await;
        second.until_has(2).await;
        first.store.leave().await.unwrap();
        second.until_has(4).await;
        // Once more, and now the last one goes: those who are no members may commit again.
        second.store.leave().await.unwrap();
        let nobody = GroupOffsetStore::open(&options, "relay").await.unwrap();
        let checkpoint = Checkpoint {
            group: group(),
            partition: PartitionId(0),
            sequence_number: Some(5),
            offset: None,
            log_id: None,
            etag: None,
        };
        nobody.update_checkpoint(checkpoint).await.unwrap();
        service.stop().await;
    })
    .await;
}

#[tokio::test]
async fn where_there_is_no_checkpoint_yet_there_is_a_place_to_fence() {
    in_time(async {
        let (service, options) = serve().await;
        let mut member = Member::join(&options).await;
        assert_eq!(member.store.list_checkpoints(&group()).await.unwrap(), [], "nothing is its own yet");
        member.until_has(4).await;
        let listed = member.store.list_checkpoints(&group()).await.unwrap();
        assert_eq!(listed.len(), 4);
        for checkpoint in listed {
            assert_eq!((checkpoint.sequence_number, checkpoint.etag.is_some()), (None, true));
            let etag = member.store.replace_checkpoint(checkpoint.clone()).await.unwrap();
            assert_eq!(checkpoint.etag, Some(etag));
            let unmarked = Checkpoint { etag: None, ..checkpoint };
            let refused = member.store.replace_checkpoint(unmarked).await.unwrap_err();
            assert!(matches!(refused, StoreError::NotOwner { .. }), "{refused}");
        }
        service.stop().await;
    })
    .await;
}

#[tokio::test]
async fn one_that_keeps_its_name_comes_back_to_what_it_had() {
    in_time(async {
        let (service, mut options) = serve().await;
        let mut other = Member::join(&options).await;
        other.until_has(4).await;
        options.properties.set("group.instance.id", "one");
        let mut named = Member::join(&options).await;
        named.listed().await;
        other.give_back_until_has(2).await;
        let had: Vec<_> = named.until_has(2).await.into_iter().map(|one| one.partition).collect();
        // It does not leave, and so nobody else has to change anything.
        named.store.leave().await.unwrap();
        drop(named);
        let mut named = Member::join(&options).await;
        let has: Vec<_> = named.until_has(2).await.into_iter().map(|one| one.partition).collect();
        assert_eq!(has, had);
        service.stop().await;
    })
    .await;
}

#[tokio::test]
async fn who_divides_in_another_way_is_not_let_in_and_told_so() {
    in_time(async {
        let (service, mut options) = serve().await;
        let mut first = Member::join(&options).await;
        first.until_has(4).await;
        options.properties.set("partition.assignment.strategy", "range");
        let second = GroupOffsetStore::open_as_member(&options, "relay").await.unwrap();
        let refused = second.list_ownership(&group()).await.unwrap_err().to_string();
        for expected in
            ["the consumer group relay", "INCONSISTENT_GROUP_PROTOCOL", "partition.assignment.strategy"]
        {
            assert!(refused.contains(expected), "{refused}");
        }
        // Who knows both is.
        options.properties.set("partition.assignment.strategy", "range,cooperative-sticky");
        let mut third = Member::join(&options).await;
        third.listed().await;
        first.give_back_until_has(2).await;
        third.until_has(2).await;
        service.stop().await;
    })
    .await;
}
