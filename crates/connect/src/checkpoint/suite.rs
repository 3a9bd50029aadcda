//! What every checkpoint store must do. Each store's tests run all of it: `suite::of_store!(expression)`, where the
//! expression makes an empty store and whatever must live as long as it.

use std::sync::Arc;
use std::time::Duration;

use super::{Checkpoint, CheckpointStore, Claimed, ConsumerGroup, ETag, Ownership, StoreError};
use crate::event::PartitionId;

/// One test per rule, each with a new store.
macro_rules! of_store {
    ($make:expr) => {
        $crate::checkpoint::suite::of_store!($make;
            an_empty_store_lists_nothing,
            the_last_checkpoint_of_a_partition_is_listed,
            checkpoints_are_listed_in_the_order_of_their_partitions,
            groups_do_not_see_one_another,
            a_replacement_needs_the_newest_etag,
            a_first_replacement_is_for_a_partition_without_a_checkpoint,
            who_took_over_is_not_overwritten_by_who_was_there_before,
            an_update_is_seen_by_a_replacement,
            replacements_of_many_at_once_are_won_by_one,
            names_with_separators_and_dots_are_kept_apart,
            a_checkpoint_may_lack_its_offset_or_its_sequence_number,
            a_checkpoint_keeps_the_id_of_its_log,
            a_first_claim_is_won_once,
            a_claim_needs_the_newest_etag,
            a_claim_with_an_etag_of_nothing_is_lost,
            a_lost_claim_does_not_harm_the_others,
            a_partition_can_be_given_back,
            who_asks_for_a_partition_is_seen_by_its_owner,
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
        log_id: None,
        etag: None,
    }
}

/// All checkpoints, without their ETags.
async fn list(store: &Store, group: &ConsumerGroup) -> Vec<Checkpoint> {
    let listed = store.list_checkpoints(group).await;
    let mut listed = listed.expect("the store works");
    for checkpoint in &mut listed {
        assert!(checkpoint.etag.is_some(), "what is stored has an ETag");
        checkpoint.etag = None;
    }
    listed
}

/// The checkpoint of partition 0 as it is stored.
async fn stored(store: &Store) -> Checkpoint {
    let listed = store.list_checkpoints(&group()).await;
    listed.expect("the store works").remove(0)
}

/// Replaces the checkpoint of partition 0; nothing if that is refused.
async fn replace(store: &Store, etag: Option<&ETag>, sequence_number: i64) -> Option<ETag> {
    let etag = etag.cloned();
    let replaced = store.replace_checkpoint(Checkpoint { etag, ..checkpoint(&group(), 0, sequence_number) });
    match replaced.await {
        Ok(etag) => Some(etag),
        Err(StoreError::NotOwner { partition }) => {
            assert_eq!(partition, PartitionId(0));
            None
        }
        Err(error) => panic!("the store works: {error}"),
    }
}

fn claim(partition: u32, owner_id: &str, etag: Option<ETag>) -> Ownership {
    Ownership { etag, ..Ownership::new(group(), PartitionId(partition), owner_id) }
}

/// The claims that are won. None may fail.
pub(super) async fn win_all(store: &dyn CheckpointStore, claims: Vec<Ownership>) -> Vec<Ownership> {
    let claimed = store.claim_ownership(claims, Duration::from_secs(5)).await;
    let Claimed { written, failed } = claimed.expect("the store works");
    assert!(failed.is_empty(), "{failed:?}");
    written
}

async fn win(store: &Store, claim: Ownership) -> Ownership {
    let mut won = win_all(store.as_ref(), vec![claim]).await;
    assert_eq!(won.len(), 1, "the claim was lost");
    won.remove(0)
}

async fn loses(store: &Store, claim: Ownership) -> bool {
    win_all(store.as_ref(), vec![claim]).await.is_empty()
}

pub(super) async fn an_empty_store_lists_nothing(store: Store) {
    assert_eq!(list(&store, &group()).await, []);
    assert_eq!(store.list_ownership(&group()).await.expect("the store works"), []);
}

pub(super) async fn the_last_checkpoint_of_a_partition_is_listed(store: Store) {
    for sequence_number in [5, 9, 130, -1, 7] {
        store.update_checkpoint(checkpoint(&group(), 3, sequence_number)).await.expect("the store works");
        let listed = list(&store, &group()).await;
        assert_eq!(listed, [checkpoint(&group(), 3, sequence_number)]);
    }
}

pub(super) async fn checkpoints_are_listed_in_the_order_of_their_partitions(store: Store) {
    for partition in [10, 2, 31, 0] {
        store.update_checkpoint(checkpoint(&group(), partition, 1)).await.expect("the store works");
    }
    let listed = list(&store, &group()).await;
    let partitions: Vec<u32> = listed.iter().map(|checkpoint| checkpoint.partition.0).collect();
    assert_eq!(partitions, [0, 2, 10, 31]);
}

pub(super) async fn a_replacement_needs_the_newest_etag(store: Store) {
    let first = replace(&store, None, 1).await.expect("nobody was there");
    let second = replace(&store, Some(&first), 2).await.expect("the newest");
    assert_ne!(first, second);
    assert_eq!(replace(&store, Some(&first), 3).await, None);
    assert_eq!(replace(&store, None, 3).await, None);
    assert_eq!(stored(&store).await.etag.as_ref(), Some(&second));
    assert_eq!(list(&store, &group()).await, [checkpoint(&group(), 0, 2)]);
    for sequence_number in 4..9 {
        let newest = stored(&store).await.etag;
        assert!(replace(&store, newest.as_ref(), sequence_number).await.is_some());
    }
    assert_eq!(list(&store, &group()).await, [checkpoint(&group(), 0, 8)]);
}

pub(super) async fn a_first_replacement_is_for_a_partition_without_a_checkpoint(store: Store) {
    let never = ETag("0-1".to_owned());
    assert_eq!(replace(&store, Some(&never), 1).await, None);
    assert_eq!(list(&store, &group()).await, []);
    // How far it got need not be known yet: the place of a new owner.
    let nowhere = Checkpoint { sequence_number: None, offset: None, ..checkpoint(&group(), 0, 0) };
    let etag = store.replace_checkpoint(nowhere.clone()).await;
    let etag = etag.expect("the store works");
    assert_eq!(list(&store, &group()).await, [nowhere]);
    assert!(replace(&store, Some(&etag), 5).await.is_some());
}

pub(super) async fn who_took_over_is_not_overwritten_by_who_was_there_before(store: Store) {
    let mine = replace(&store, None, 1).await.expect("nobody was there");
    let mine = replace(&store, Some(&mine), 7).await.expect("the newest");
    // The successor writes what it found, before anything else.
    let yours = stored(&store).await;
    assert_eq!(yours.etag.as_ref(), Some(&mine));
    let etag = replace(&store, yours.etag.as_ref(), 7).await;
    let etag = etag.expect("the newest");
    assert_eq!(replace(&store, Some(&mine), 9).await, None);
    assert_eq!(stored(&store).await.sequence_number, Some(7));
    assert!(replace(&store, Some(&etag), 8).await.is_some());
    assert_eq!(replace(&store, Some(&mine), 9).await, None);
    assert_eq!(stored(&store).await.sequence_number, Some(8));
}

pub(super) async fn an_update_is_seen_by_a_replacement(store: Store) {
    let update = |sequence_number| store.update_checkpoint(checkpoint(&group(), 0, sequence_number));
    update(1).await.expect("the store works");
    let first = stored(&store).await.etag;
    update(2).await.expect("the store works");
    assert_eq!(replace(&store, first.as_ref(), 3).await, None);
    let second = stored(&store).await.etag;
    assert!(replace(&store, second.as_ref(), 3).await.is_some());
    assert_eq!(list(&store, &group()).await, [checkpoint(&group(), 0, 3)]);
}

pub(super) async fn replacements_of_many_at_once_are_won_by_one(store: Store) {
    let mut etag = None;
    for round in 0..10 {
        let writers: Vec<_> = (0..8)
            .map(|writer| {
                let (store, etag) = (Arc::clone(&store), etag.clone());
                tokio::spawn(async move { replace(&store, etag.as_ref(), round * 8 + writer).await })
            })
            .collect();
        let mut won = Vec::new();
        for writer in writers {
            won.extend(writer.await.expect("the writer does not panic"));
        }
        assert_eq!(won.len(), 1, "round {round}");
        etag = won.pop();
        assert_eq!(stored(&store).await.etag, etag);
    }
}

pub(super) async fn groups_do_not_see_one_another(store: Store) {
    let others = [
        ConsumerGroup::new("other.servicebus.windows.net", "orders", "$Default"),
        ConsumerGroup::new("example.servicebus.windows.net", "payments", "$Default"),
        ConsumerGroup::new("example.servicebus.windows.net", "orders", "audit"),
    ];
    for (sequence_number, other) in (1..).zip(&others) {
        store.update_checkpoint(checkpoint(other, 0, sequence_number)).await.expect("the store works");
    }
    win(&store, claim(0, "me", None)).await;
    assert_eq!(list(&store, &group()).await, []);
    for (sequence_number, other) in (1..).zip(&others) {
        let listed = list(&store, other).await;
        assert_eq!(listed, [checkpoint(other, 0, sequence_number)]);
        assert_eq!(store.list_ownership(other).await.expect("the store works"), []);
    }
}

pub(super) async fn names_with_separators_and_dots_are_kept_apart(store: Store) {
    let groups = [("a/b", "c"), ("a", "b/c"), ("..", ".."), (".", "."), ("", ""), ("%", "%25")];
    let groups = groups.map(|(namespace, hub)| ConsumerGroup::new(namespace, hub, "../$Default"));
    for (sequence_number, group) in (0..).zip(&groups) {
        store.update_checkpoint(checkpoint(group, 0, sequence_number)).await.expect("the store works");
    }
    for (sequence_number, group) in (0..).zip(&groups) {
        let listed = list(&store, group).await;
        assert_eq!(listed, [checkpoint(group, 0, sequence_number)]);
    }
}

pub(super) async fn a_checkpoint_may_lack_its_offset_or_its_sequence_number(store: Store) {
    let without_offset = Checkpoint { offset: None, ..checkpoint(&group(), 0, 4) };
    let offset = Some("opaque text: with=signs\nand lines".to_owned());
    let without_number = Checkpoint { sequence_number: None, offset, ..checkpoint(&group(), 1, 0) };
    for checkpoint in [&without_offset, &without_number] {
        store.update_checkpoint(checkpoint.clone()).await.expect("the store works");
    }
    let listed = list(&store, &group()).await;
    assert_eq!(listed, [without_offset, without_number]);
}

pub(super) async fn a_checkpoint_keeps_the_id_of_its_log(store: Store) {
    let of_log = |id: Option<&str>, sequence_number| Checkpoint {
        offset: None,
        log_id: id.map(str::to_owned),
        ..checkpoint(&group(), 0, sequence_number)
    };
    for written in [of_log(Some("qrY_T-0sRUmwkHsCxRg2Gw"), 7), of_log(Some("an id"), 3), of_log(None, 4)] {
        store.update_checkpoint(written.clone()).await.expect("the store works");
        assert_eq!(list(&store, &group()).await, [written]);
    }
    let etag = stored(&store).await.etag;
    let replaced = store.replace_checkpoint(Checkpoint { etag, ..of_log(Some("another"), 0) });
    replaced.await.expect("nobody else has written");
    assert_eq!(list(&store, &group()).await, [of_log(Some("another"), 0)]);
}

pub(super) async fn a_first_claim_is_won_once(store: Store) {
    let won = win(&store, claim(0, "me", None)).await;
    assert_eq!(won.owner_id, "me");
    assert!(won.etag.is_some() && won.last_modified.is_some());
    assert!(loses(&store, claim(0, "you", None)).await);
    assert_eq!(store.list_ownership(&group()).await.expect("the store works"), [won]);
}

pub(super) async fn a_claim_needs_the_newest_etag(store: Store) {
    let first = win(&store, claim(0, "me", None)).await;
    let renewed = win(&store, claim(0, "me", first.etag.clone())).await;
    assert_ne!(first.etag, renewed.etag);
    assert!(loses(&store, claim(0, "you", first.etag)).await);
    let stolen = win(&store, claim(0, "you", renewed.etag)).await;
    assert_eq!(store.list_ownership(&group()).await.expect("the store works"), [stolen]);
}

pub(super) async fn a_claim_with_an_etag_of_nothing_is_lost(store: Store) {
    assert!(loses(&store, claim(0, "me", Some(ETag("0x1".to_owned())))).await);
    assert_eq!(store.list_ownership(&group()).await.expect("the store works"), []);
}

pub(super) async fn a_lost_claim_does_not_harm_the_others(store: Store) {
    win(&store, claim(1, "you", None)).await;
    let claims = (0..3).map(|partition| claim(partition, "me", None)).collect();
    let won = win_all(store.as_ref(), claims).await;
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
    let listed = store.list_ownership(&group()).await.expect("the store works");
    assert_eq!(listed, std::slice::from_ref(&released));
    assert_eq!(listed[0].owner_id, "");
    win(&store, claim(0, "you", released.etag)).await;
}

pub(super) async fn who_asks_for_a_partition_is_seen_by_its_owner(store: Store) {
    let own = win(&store, Ownership { yields: true, ..claim(0, "me", None) }).await;
    assert_eq!((own.yields, &own.asked_by), (true, &None));
    let asked = win(&store, Ownership { asked_by: Some("you, too".to_owned()), ..own }).await;
    let listed = store.list_ownership(&group()).await.expect("the store works");
    assert_eq!(listed, std::slice::from_ref(&asked));
    assert_eq!((listed[0].owner_id.as_str(), listed[0].yields), ("me", true));
    assert_eq!(listed[0].asked_by.as_deref(), Some("you, too"));
}

pub(super) async fn claims_of_many_at_once_are_won_by_one(store: Store) {
    let claimants: Vec<_> = (0..8)
        .map(|number| {
            let store = Arc::clone(&store);
            tokio::spawn(async move {
                let claims =
                    (0..16).map(|partition| claim(partition, &format!("claimant {number}"), None)).collect();
                win_all(store.as_ref(), claims).await
            })
        })
        .collect();
    let mut won = Vec::new();
    for claimant in claimants {
        won.extend(claimant.await.expect("the claimant does not panic"));
    }
    won.sort_by_key(|ownership| ownership.partition);
    assert_eq!(store.list_ownership(&group()).await.expect("the store works"), won);
    assert_eq!(won.len(), 16);
}
