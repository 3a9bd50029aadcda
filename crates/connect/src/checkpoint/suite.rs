//! What every checkpoint store must do. Each store's tests run all of it: `suite::of_store!(expression)`, where the
//! expression makes an empty store and whatever must live as long as it.

use std::sync::Arc;

use super::{Checkpoint, CheckpointStore, ConsumerGroup, ETag, Ownership};
use crate::event::PartitionId;

/// One test per rule, each with a new store.
macro_rules! of_store {
    ($make:expr) => {
        $crate::checkpoint::suite::of_store!($make;
            an_empty_store_lists_nothing,
            the_last_checkpoint_of_a_partition_is_listed,
            checkpoints_are_listed_in_the_order_of_their_partitions,
            groups_do_not_see_one_another,
            names_with_separators_and_dots_are_kept_apart,
            a_checkpoint_may_lack_its_offset_or_its_sequence_number,
            a_first_claim_is_won_once,
            a_claim_needs_the_newest_etag,
            a_claim_with_an_etag_of_nothing_is_lost,
            a_lost_claim_does_not_harm_the_others,
            a_partition_can_be_given_back,
            claims_of_many_at_once_are_won_by_one,
        );
    };
    ($make:expr; $($rule:ident),* $(,)?) => {
        $(
            #[tokio::test]
            async fn $rule() {
                let (store, _keep) = $make;
                $crate::checkpoint::suite::$rule(std::sync::Arc::new(store)).await;
            }
        )*
    };
}
pub(super) use of_store;

type Store = Arc<dyn CheckpointStore>;

fn group() -> ConsumerGroup {
    ConsumerGroup::new("example.servicebus.windows.net", "orders", "$Default")
}

fn checkpoint(group: &ConsumerGroup, partition: u32, sequence_number: i64) -> Checkpoint {
    Checkpoint {
        group: group.clone(),
        partition: PartitionId(partition),
        sequence_number: Some(sequence_number),
        offset: Some(sequence_number.to_string()),
    }
}

fn claim(partition: u32, owner_id: &str, etag: Option<ETag>) -> Ownership {
    let owner_id = owner_id.to_owned();
    Ownership {
        group: group(),
        partition: PartitionId(partition),
        owner_id,
        etag,
        last_modified: None,
    }
}

async fn win(store: &Store, claim: Ownership) -> Ownership {
    let mut won = store
        .claim_ownership(vec![claim])
        .await
        .expect("the store works");
    assert_eq!(won.len(), 1, "the claim was lost");
    won.remove(0)
}

async fn loses(store: &Store, claim: Ownership) -> bool {
    store
        .claim_ownership(vec![claim])
        .await
        .expect("the store works")
        .is_empty()
}

pub(super) async fn an_empty_store_lists_nothing(store: Store) {
    assert_eq!(
        store
            .list_checkpoints(&group())
            .await
            .expect("the store works"),
        []
    );
    assert_eq!(
        store
            .list_ownership(&group())
            .await
            .expect("the store works"),
        []
    );
}

pub(super) async fn the_last_checkpoint_of_a_partition_is_listed(store: Store) {
    for sequence_number in [5, 9, 130, -1, 7] {
        store
            .update_checkpoint(checkpoint(&group(), 3, sequence_number))
            .await
            .expect("the store works");
        let listed = store
            .list_checkpoints(&group())
            .await
            .expect("the store works");
        assert_eq!(listed, [checkpoint(&group(), 3, sequence_number)]);
    }
}

pub(super) async fn checkpoints_are_listed_in_the_order_of_their_partitions(store: Store) {
    for partition in [10, 2, 31, 0] {
        store
            .update_checkpoint(checkpoint(&group(), partition, 1))
            .await
            .expect("the store works");
    }
    let listed = store
        .list_checkpoints(&group())
        .await
        .expect("the store works");
    let partitions: Vec<u32> = listed
        .iter()
        .map(|checkpoint| checkpoint.partition.0)
        .collect();
    assert_eq!(partitions, [0, 2, 10, 31]);
}

pub(super) async fn groups_do_not_see_one_another(store: Store) {
    let others = [
        ConsumerGroup::new("other.servicebus.windows.net", "orders", "$Default"),
        ConsumerGroup::new("example.servicebus.windows.net", "payments", "$Default"),
        ConsumerGroup::new("example.servicebus.windows.net", "orders", "audit"),
    ];
    for (sequence_number, other) in (1..).zip(&others) {
        store
            .update_checkpoint(checkpoint(other, 0, sequence_number))
            .await
            .expect("the store works");
    }
    win(&store, claim(0, "me", None)).await;
    assert_eq!(
        store
            .list_checkpoints(&group())
            .await
            .expect("the store works"),
        []
    );
    for (sequence_number, other) in (1..).zip(&others) {
        let listed = store
            .list_checkpoints(other)
            .await
            .expect("the store works");
        assert_eq!(listed, [checkpoint(other, 0, sequence_number)]);
        assert_eq!(
            store.list_ownership(other).await.expect("the store works"),
            []
        );
    }
}

pub(super) async fn names_with_separators_and_dots_are_kept_apart(store: Store) {
    let groups = [
        ("a/b", "c"),
        ("a", "b/c"),
        ("..", ".."),
        (".", "."),
        ("", ""),
        ("%", "%25"),
    ];
    let groups = groups.map(|(namespace, hub)| ConsumerGroup::new(namespace, hub, "../$Default"));
    for (sequence_number, group) in (0..).zip(&groups) {
        store
            .update_checkpoint(checkpoint(group, 0, sequence_number))
            .await
            .expect("the store works");
    }
    for (sequence_number, group) in (0..).zip(&groups) {
        let listed = store
            .list_checkpoints(group)
            .await
            .expect("the store works");
        assert_eq!(listed, [checkpoint(group, 0, sequence_number)]);
    }
}

pub(super) async fn a_checkpoint_may_lack_its_offset_or_its_sequence_number(store: Store) {
    let without_offset = Checkpoint {
        offset: None,
        ..checkpoint(&group(), 0, 4)
    };
    let offset = Some("opaque text: with=signs\nand lines".to_owned());
    let without_number = Checkpoint {
        sequence_number: None,
        offset,
        ..checkpoint(&group(), 1, 0)
    };
    for checkpoint in [&without_offset, &without_number] {
        store
            .update_checkpoint(checkpoint.clone())
            .await
            .expect("the store works");
    }
    let listed = store
        .list_checkpoints(&group())
        .await
        .expect("the store works");
    assert_eq!(listed, [without_offset, without_number]);
}

pub(super) async fn a_first_claim_is_won_once(store: Store) {
    let won = win(&store, claim(0, "me", None)).await;
    assert_eq!(won.owner_id, "me");
    assert!(won.etag.is_some() && won.last_modified.is_some());
    assert!(loses(&store, claim(0, "you", None)).await);
    assert_eq!(
        store
            .list_ownership(&group())
            .await
            .expect("the store works"),
        [won]
    );
}

pub(super) async fn a_claim_needs_the_newest_etag(store: Store) {
    let first = win(&store, claim(0, "me", None)).await;
    let renewed = win(&store, claim(0, "me", first.etag.clone())).await;
    assert_ne!(first.etag, renewed.etag);
    assert!(loses(&store, claim(0, "you", first.etag)).await);
    let stolen = win(&store, claim(0, "you", renewed.etag)).await;
    assert_eq!(
        store
            .list_ownership(&group())
            .await
            .expect("the store works"),
        [stolen]
    );
}

pub(super) async fn a_claim_with_an_etag_of_nothing_is_lost(store: Store) {
    assert!(loses(&store, claim(0, "me", Some(ETag("0x1".to_owned())))).await);
    assert_eq!(
        store
            .list_ownership(&group())
            .await
            .expect("the store works"),
        []
    );
}

pub(super) async fn a_lost_claim_does_not_harm_the_others(store: Store) {
    win(&store, claim(1, "you", None)).await;
    let claims = (0..3)
        .map(|partition| claim(partition, "me", None))
        .collect();
    let won = store
        .claim_ownership(claims)
        .await
        .expect("the store works");
    let partitions: Vec<u32> = won.iter().map(|ownership| ownership.partition.0).collect();
    assert_eq!(partitions, [0, 2]);
    let owners: Vec<String> = store
        .list_ownership(&group())
        .await
        .expect("the store works")
        .into_iter()
        .map(|ownership| ownership.owner_id)
        .collect();
    assert_eq!(owners, ["me", "you", "me"]);
}

pub(super) async fn a_partition_can_be_given_back(store: Store) {
    let won = win(&store, claim(0, "me", None)).await;
    let released = win(&store, claim(0, "", won.etag)).await;
    let listed = store
        .list_ownership(&group())
        .await
        .expect("the store works");
    assert_eq!(listed, std::slice::from_ref(&released));
    assert_eq!(listed[0].owner_id, "");
    win(&store, claim(0, "you", released.etag)).await;
}

pub(super) async fn claims_of_many_at_once_are_won_by_one(store: Store) {
    let claimants: Vec<_> = (0..8)
        .map(|number| {
            let store = Arc::clone(&store);
            tokio::spawn(async move {
                let claims = (0..16)
                    .map(|partition| claim(partition, &format!("claimant {number}"), None))
                    .collect();
                store
                    .claim_ownership(claims)
                    .await
                    .expect("the store works")
            })
        })
        .collect();
    let mut won = Vec::new();
    for claimant in claimants {
        won.extend(claimant.await.expect("the claimant does not panic"));
    }
    won.sort_by_key(|ownership| ownership.partition);
    assert_eq!(
        store
            .list_ownership(&group())
            .await
            .expect("the store works"),
        won
    );
    assert_eq!(won.len(), 16);
}
