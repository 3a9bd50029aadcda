//! Relays that are told which partitions are theirs, by a store that hears of it: given, asked back, and taken away.

use connect::checkpoint::StoreError;
use connect::fakes::MemoryLog;
use tokio::sync::{oneshot, watch};
use tokio::task::JoinHandle;

use super::*;
use crate::metrics::Metrics;
use crate::ownership::{OwnershipMode, OwnershipOptions};

const PARTITIONS: u32 = 4;

/// Far more than any of these takes: what is changed is seen at once, not at the next cycle.
const RENEW: Duration = Duration::from_secs(600);

/// Who has which partition, and which having of it this is.
#[derive(Debug, Default)]
struct Table {
    havings: u64,
    /// With whether it is asked back.
    owners: BTreeMap<PartitionId, (String, u64, bool)>,
    refuses: bool,
    left: Vec<String>,
}

/// What all relays see of the table.
#[derive(Clone, Debug)]
struct Board {
    table: Arc<Mutex<Table>>,
    changes: watch::Sender<u64>,
}

/// The store of one relay.
#[derive(Debug)]
struct AssigningStore {
    name: String,
    board: Board,
    store: MemoryCheckpointStore,
}

impl Board {
    fn new() -> Self {
        Self { table: Arc::default(), changes: watch::Sender::new(0) }
    }

    fn change<T>(&self, change: impl FnOnce(&mut Table) -> T) -> T {
        let changed = change(&mut self.table.lock().expect("no test panics and goes on"));
        self.changes.send_modify(|count| *count += 1);
        changed
    }

    /// Gives partitions to a relay, whoever had them.
    fn give(&self, partitions: impl IntoIterator<Item = u32>, name: &str) {
        self.change(|table| {
            for partition in partitions {
                table.havings += 1;
                table.owners.insert(PartitionId(partition), (name.to_owned(), table.havings, false));
            }
        });
    }

    fn ask_back(&self, partitions: impl IntoIterator<Item = u32>) {
        self.change(|table| {
            for partition in partitions {
                table.owners.get_mut(&PartitionId(partition)).expect("somebody has it").2 = true;
            }
        });
    }

    fn has(&self, name: &str) -> usize {
        let table = self.table.lock().expect("no test panics and goes on");
        table.owners.values().filter(|(owner, ..)| owner == name).count()
    }
}

impl AssigningStore {
    fn etag(&self, partition: PartitionId) -> Option<ETag> {
        let table = self.board.table.lock().expect("no test panics and goes on");
        let (owner, having, _) = table.owners.get(&partition)?;
        (*owner == self.name).then(|| ETag(having.to_string()))
    }
}

impl CheckpointStore for AssigningStore {
    fn list_checkpoints(&self, group: &ConsumerGroup) -> StoreFuture<Vec<Checkpoint>> {
        let own = (0..PARTITIONS).map(PartitionId).filter_map(|partition| {
            let stored = self.store.checkpoint(group, partition);
            Some(Checkpoint {
                group: group.clone(),
                partition,
                sequence_number: stored.as_ref().and_then(|stored| stored.sequence_number),
                log_id: stored.as_ref().and_then(|stored| stored.log_id.clone()),
                offset: stored.and_then(|stored| stored.offset),
                etag: Some(self.etag(partition)?),
            })
        });
        Box::pin(std::future::ready(Ok(own.collect())))
    }

    fn update_checkpoint(&self, checkpoint: Checkpoint) -> StoreFuture<()> {
        panic!("{checkpoint:?} is written without regard to its owner")
    }

    fn replace_checkpoint(&self, checkpoint: Checkpoint) -> StoreFuture<ETag> {
        let partition = checkpoint.partition;
        let etag = self.etag(partition).filter(|etag| checkpoint.etag.as_ref() == Some(etag));
        let Some(etag) = etag else {
            return Box::pin(std::future::ready(Err(StoreError::NotOwner { partition })));
        };
        let before = self.store.checkpoint(&checkpoint.group, partition);
        let before = before.and_then(|before| before.sequence_number);
        assert!(before <= checkpoint.sequence_number, "{before:?} → {checkpoint:?}");
        let updated = self.store.update_checkpoint(checkpoint);
        Box::pin(async move { updated.await.map(|()| etag) })
    }

    fn list_ownership(&self, group: &ConsumerGroup) -> StoreFuture<Vec<Ownership>> {
        let table = self.board.table.lock().expect("no test panics and goes on");
        let own = table.owners.iter().filter(|(_, (owner, ..))| *owner == self.name);
        let own = own.map(|(&partition, (owner, having, is_asked_back))| Ownership {
            etag: Some(ETag(having.to_string())),
            ..Ownership::new(group.clone(), partition, if *is_asked_back { "" } else { owner })
        });
        let listed = match table.refuses {
            false => Ok(own.collect()),
            true => Err(StoreError::Membership { group_id: "group".to_owned(), reason: "no".to_owned() }),
        };
        Box::pin(std::future::ready(listed))
    }

    fn claim_ownership(&self, claims: Vec<Ownership>, _: Duration) -> StoreFuture<Claimed> {
        let mut claims = claims;
        claims.retain(|claim| claim.etag.is_some() && claim.etag == self.etag(claim.partition));
        if claims.iter().any(|claim| claim.owner_id.is_empty()) {
            self.board.change(|table| {
                for claim in claims.iter().filter(|claim| claim.owner_id.is_empty()) {
                    table.owners.remove(&claim.partition);
                }
            });
        }
        Box::pin(std::future::ready(Ok(claims.into())))
    }

    fn ownership_changes(&self) -> Option<watch::Receiver<u64>> {
        Some(self.board.changes.subscribe())
    }

    fn leave(&self) -> StoreFuture<()> {
        self.board.change(|table| table.left.push(self.name.clone()));
        Box::pin(std::future::ready(Ok(())))
    }
}

/// What relays share.
struct Group {
    log: MemoryLog,
    board: Board,
    store: MemoryCheckpointStore,
    scripts: Vec<SinkScript>,
    appended: u64,
}

/// One relay that runs.
struct Running {
    metrics: MetricsHandle,
    stop: Option<oneshot::Sender<()>>,
    task: JoinHandle<Result<Summary, RelayError>>,
    script: SinkScript,
}

impl Group {
    fn new() -> Self {
        Self {
            log: MemoryLog::new(PARTITIONS),
            board: Board::new(),
            store: MemoryCheckpointStore::new(),
            scripts: Vec::new(),
            appended: 0,
        }
    }

    fn append(&mut self, events: u64) {
        for _ in 0..events {
            self.log.append(PartitionId((self.appended % u64::from(PARTITIONS)) as u32), b"event");
            self.appended += 1;
        }
    }

    fn relay(&mut self, name: &str, checkpoint: CheckpointPolicy) -> Running {
        let batch = BatchOptions { max_events: 4, max_wait: ms(1) };
        let source = MemorySource::new(&self.log, SourceOptions { batch, prefetch: 12 });
        let (sink, script) = ScriptedSink::new(1);
        script.reply_by_default(Reply::Accept(ms(5)));
        self.scripts.push(script.clone());
        let board = self.board.clone();
        let store = AssigningStore { name: name.to_owned(), board, store: self.store.clone() };
        let options = RelayOptions {
            checkpoint,
            ownership: Some(OwnershipOptions {
                mode: OwnershipMode::Assigned,
                renew: RENEW,
                expire: 3 * RENEW,
                ..OwnershipOptions::new(name)
            }),
            ..RelayOptions::new(group())
        };
        let relay = Relay::new(options, Box::new(source), vec![Box::new(sink)], Arc::new(store))
            .expect("options that are in order");
        let metrics = relay.metrics_handle();
        let (stop, stopped) = oneshot::channel::<()>();
        let task = tokio::spawn(relay.run(async {
            let _ = stopped.await;
        }));
        Running { metrics, stop: Some(stop), task, script }
    }

    fn covered(&self) -> u64 {
        let of = |id| self.store.checkpoint(&group(), PartitionId(id))?.sequence_number;
        (0..PARTITIONS).filter_map(of).map(|number| (number + 1).cast_unsigned()).sum()
    }

    async fn until(&self, holds: impl AsyncFn(&Self) -> bool) {
        for _ in 0..10_000 {
            if holds(self).await {
                return;
            }
            tokio::time::sleep(ms(10)).await;
        }
        panic!("{} of {} events are covered, {:?}", self.covered(), self.appended, self.board);
    }

    async fn until_done(&self) {
        self.until(async |group| group.covered() == group.appended).await;
    }

    /// Checks that every event was accepted; tells how many more were.
    fn duplicates(&self) -> u64 {
        let accepted: Vec<_> = self.scripts.iter().flat_map(|script| script.accepted(0)).collect();
        let distinct: HashSet<_> = accepted.iter().copied().collect();
        assert_eq!(distinct.len() as u64, self.appended, "events were lost");
        accepted.len() as u64 - self.appended
    }
}

impl Running {
    async fn metrics(&self) -> Metrics {
        self.metrics.metrics().await.expect("it runs")
    }

    async fn stop(mut self) -> Summary {
        drop(self.stop.take());
        let summary = self.task.await.expect("no panic").expect("neither end fails");
        check_accounts(&summary.metrics);
        summary
    }
}

const ONCE_AN_HOUR: CheckpointPolicy = CheckpointPolicy::Every(Duration::from_secs(3_600));

#[tokio::test(start_paused = true)]
async fn what_is_given_is_carried_at_once_and_what_is_not_is_left_alone() {
    let mut group = Group::new();
    group.append(400);
    let relay = group.relay("a", CheckpointPolicy::EachBatch);
    tokio::time::sleep(ms(500)).await;
    assert_eq!((group.covered(), relay.metrics().await.owned_partitions), (0, 0));
    group.board.give(0..2, "a");
    group.until(async |group| group.covered() == 200).await;
    group.board.give(2..4, "a");
    group.until_done().await;
    let metrics = relay.metrics().await;
    assert_eq!((metrics.owned_partitions, metrics.claimed_assigned_partitions), (4, 4));
    assert!(metrics.health.is_ready(), "{:?}", metrics.health.reasons);
    let summary = relay.stop().await;
    assert_eq!((summary.ended, summary.metrics.returned_partitions), (Ended::Finished, 4));
    assert_eq!(group.board.change(|table| table.left.clone()), ["a"]);
    assert_eq!(group.duplicates(), 0);
}

#[tokio::test(start_paused = true)]
async fn what_is_asked_back_is_finished_and_written_before_it_is_given_back() {
    let mut group = Group::new();
    group.append(40_000);
    // No checkpoint is written by the clock while this runs.
    let first = group.relay("a", ONCE_AN_HOUR);
    let second = group.relay("b", ONCE_AN_HOUR);
    group.board.give(0..4, "a");
    tokio::time::sleep(ms(200)).await;
    group.board.ask_back(1..4);
    group.until(async |group| group.board.has("a") == 1).await;
    assert_eq!(first.metrics().await.owned_partitions, 1);
    assert!(group.covered() > 0, "what was finished of them is written");
    group.board.give(1..4, "b");
    tokio::time::sleep(ms(200)).await;
    group.board.ask_back(2..3);
    group.until(async |group| group.board.has("b") == 2).await;
    group.board.give(2..3, "a");
    group
        .until(async |_| {
            first.metrics().await.completed_events + second.metrics().await.completed_events >= 40_000
        })
        .await;
    let metrics = first.metrics().await;
    assert_eq!((metrics.returned_partitions, metrics.lost_partitions), (3, 0));
    for relay in [first, second] {
        assert_eq!(relay.stop().await.ended, Ended::Finished);
    }
    group.until_done().await;
    assert_eq!(group.duplicates(), 0);
}

#[tokio::test(start_paused = true)]
async fn what_can_not_be_finished_is_lost_when_it_is_taken_and_nothing_is_lost_of_it() {
    let mut group = Group::new();
    group.append(400);
    let first = group.relay("a", CheckpointPolicy::EachBatch);
    let second = group.relay("b", CheckpointPolicy::EachBatch);
    first.script.reply_by_default(Reply::Lose);
    group.board.give(0..4, "a");
    tokio::time::sleep(ms(200)).await;
    group.board.ask_back(0..2);
    tokio::time::sleep(ms(2_000)).await;
    assert_eq!((group.board.has("a"), first.metrics().await.lost_partitions), (4, 0), "it is still tried");
    // Whoever waits for them has waited long enough.
    group.board.give(0..4, "b");
    group.until_done().await;
    let metrics = first.metrics().await;
    assert_eq!((metrics.owned_partitions, metrics.lost_partitions, metrics.returned_partitions), (0, 4, 0));
    assert!(metrics.health.is_ready(), "{:?}", metrics.health.reasons);
    for relay in [first, second] {
        relay.stop().await;
    }
    group.duplicates();
}

#[tokio::test(start_paused = true)]
async fn what_was_anothers_in_between_is_begun_anew() {
    let mut group = Group::new();
    group.append(4_000);
    let relay = group.relay("a", CheckpointPolicy::EachBatch);
    group.board.give(0..4, "a");
    tokio::time::sleep(ms(200)).await;
    // Both changes before the relay looks.
    group.board.give(0..4, "b");
    group.board.give(0..4, "a");
    group.until_done().await;
    let metrics = relay.metrics().await;
    assert_eq!((metrics.lost_partitions, metrics.claimed_assigned_partitions), (4, 8));
    relay.stop().await;
    group.duplicates();
}

#[tokio::test(start_paused = true)]
async fn who_is_not_let_in_any_more_ends_with_the_reason() {
    let mut group = Group::new();
    group.append(40);
    let relay = group.relay("a", CheckpointPolicy::EachBatch);
    group.board.give(0..4, "a");
    group.until_done().await;
    group.board.change(|table| table.refuses = true);
    let ended = relay.task.await.expect("no panic");
    assert!(matches!(ended, Err(RelayError::Sharing(StoreError::Membership { .. }))), "{ended:?}");
}
