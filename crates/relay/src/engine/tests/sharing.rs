//! Relays that share partitions: a group of them over one log and one store, each with a sink of its own, in virtual
//! time. The store checks that what is covered was accepted, and that no checkpoint goes back.

use connect::fakes::MemoryLog;
use connect::sink::ErrorClass;
use tokio::sync::{oneshot, watch};
use tokio::task::JoinHandle;

use super::*;
use crate::metrics::Metrics;
use crate::ownership::OwnershipOptions;

const PARTITIONS: u32 = 8;
pub(super) const RENEW: Duration = Duration::from_secs(10);
pub(super) const EXPIRE: Duration = Duration::from_secs(60);

/// What relays share.
#[derive(Clone)]
pub(super) struct Group {
    pub(super) log: MemoryLog,
    pub(super) store: MemoryCheckpointStore,
    /// Whether the store does not answer about claims until it is false again.
    pub(super) is_silent: watch::Sender<bool>,
    scripts: Arc<Mutex<Vec<SinkScript>>>,
    appended: Arc<Mutex<u64>>,
    start: Instant,
}

/// One relay that runs.
pub(super) struct Running {
    metrics: MetricsHandle,
    stop: Option<oneshot::Sender<()>>,
    pub(super) task: JoinHandle<Result<Summary, RelayError>>,
    pub(super) script: SinkScript,
}

/// A store whose checkpoints are looked at before they are written.
#[derive(Debug)]
struct GroupStore {
    store: MemoryCheckpointStore,
    is_silent: watch::Sender<bool>,
    scripts: Arc<Mutex<Vec<SinkScript>>>,
}

impl Group {
    pub(super) fn new() -> Self {
        Self {
            log: MemoryLog::new(PARTITIONS),
            store: MemoryCheckpointStore::new(),
            is_silent: watch::Sender::new(false),
            scripts: Arc::default(),
            appended: Arc::default(),
            start: Instant::now(),
        }
    }

    pub(super) fn append(&self, events: u64) {
        let mut appended = self.appended.lock().expect("no test panics and goes on");
        for _ in 0..events {
            let partition = PartitionId((*appended % u64::from(PARTITIONS)) as u32);
            self.log.append(partition, b"event");
            *appended += 1;
        }
    }

    pub(super) fn relay(&self, identity: &str) -> Running {
        self.relay_with(identity, |_| {})
    }

    pub(super) fn relay_with(&self, identity: &str, change: impl FnOnce(&mut RelayOptions)) -> Running {
        let batch = BatchOptions { max_events: 4, max_wait: ms(1) };
        let source_options = SourceOptions { batch, prefetch: 12 };
        let source = MemorySource::owning(&self.log, source_options);
        let (sink, script) = ScriptedSink::new(1);
        script.reply_by_default(Reply::Accept(ms(5)));
        self.scripts.lock().expect("no test panics and goes on").push(script.clone());
        let store = Arc::new(GroupStore {
            store: self.store.clone(),
            is_silent: self.is_silent.clone(),
            scripts: Arc::clone(&self.scripts),
        });
        let mut options = RelayOptions {
            restart_after: ms(500),
            ownership: Some(OwnershipOptions {
                renew: RENEW,
                expire: EXPIRE,
                ..OwnershipOptions::new(identity)
            }),
            ..RelayOptions::new(group())
        };
        change(&mut options);
        let relay = Relay::new(options, Box::new(source), vec![Box::new(sink)], store)
            .expect("options that are in order");
        let metrics = relay.metrics_handle();
        let (stop, stopped) = oneshot::channel::<()>();
        let task = tokio::spawn(relay.run(async {
            let _ = stopped.await;
        }));
        Running { metrics, stop: Some(stop), task, script }
    }

    /// Who owns each partition, as the store says; nobody is the empty name.
    async fn owners(&self) -> BTreeMap<u32, String> {
        let listed = self.store.list_ownership(&super::group()).await;
        let listed = listed.expect("the store works").into_iter();
        listed.map(|ownership| (ownership.partition.0, ownership.owner_id)).collect()
    }

    async fn shares(&self) -> BTreeMap<String, usize> {
        let mut shares = BTreeMap::new();
        for owner in self.owners().await.into_values() {
            *shares.entry(owner).or_default() += 1;
        }
        shares
    }

    pub(super) async fn until_shares_are(&self, expected: &[(&str, usize)]) {
        let expected: BTreeMap<_, _> =
            expected.iter().map(|&(owner, count)| (owner.to_owned(), count)).collect();
        for _ in 0..10_000 {
            if self.shares().await == expected {
                return;
            }
            tokio::time::sleep(ms(10)).await;
        }
        panic!("{:?} instead of {expected:?}", self.shares().await);
    }

    /// Waits until everything appended is covered by checkpoints.
    pub(super) async fn until_done(&self) {
        for _ in 0..100_000 {
            if self.covered() == *self.appended.lock().expect("no test panics and goes on") {
                return;
            }
            tokio::time::sleep(ms(10)).await;
        }
        panic!("only {} events are covered", self.covered());
    }

    pub(super) fn covered(&self) -> u64 {
        (0..PARTITIONS)
            .filter_map(|id| {
                let checkpoint = self.store.checkpoint(&group(), PartitionId(id))?;
                Some((checkpoint.sequence_number? + 1).cast_unsigned())
            })
            .sum()
    }

    /// Checks that every event was accepted by some destination; tells how many more were.
    pub(super) fn duplicates(&self) -> u64 {
        let scripts = self.scripts.lock().expect("no test panics and goes on");
        let mut all = 0;
        let mut distinct = HashSet::new();
        for script in scripts.iter() {
            for event in script.accepted(0) {
                all += 1;
                distinct.insert(event);
            }
        }
        let appended = *self.appended.lock().expect("no test panics and goes on");
        assert_eq!(distinct.len() as u64, appended, "events were lost");
        all - appended
    }
}

impl Running {
    pub(super) async fn metrics(&self) -> Metrics {
        self.metrics.metrics().await.expect("it runs")
    }

    pub(super) async fn stop(mut self) -> Summary {
        drop(self.stop.take());
        let summary = self.task.await.expect("no panic").expect("neither end fails");
        check_accounts(&summary.metrics);
        summary
    }

    /// Ends it in the middle of whatever it does.
    fn kill(self) {
        self.task.abort();
    }
}

impl GroupStore {
    /// Ready when the store answers.
    fn answers(&self) -> impl Future<Output = ()> + Send + use<> {
        let mut is_silent = self.is_silent.subscribe();
        async move {
            is_silent.wait_for(|is_silent| !is_silent).await.expect("the sender is kept");
        }
    }
}

impl CheckpointStore for GroupStore {
    fn list_checkpoints(&self, group: &ConsumerGroup) -> StoreFuture<Vec<Checkpoint>> {
        self.store.list_checkpoints(group)
    }

    fn update_checkpoint(&self, checkpoint: Checkpoint) -> StoreFuture<()> {
        panic!("{checkpoint:?} is written without regard to its owner")
    }

    fn replace_checkpoint(&self, checkpoint: Checkpoint) -> StoreFuture<ETag> {
        if let Some(last) = checkpoint.sequence_number {
            let scripts = self.scripts.lock().expect("no test panics and goes on");
            let accepted: HashSet<_> = scripts
                .iter()
                .flat_map(|script| script.accepted(0))
                .filter(|(partition, _)| *partition == checkpoint.partition)
                .map(|(_, sequence_number)| sequence_number)
                .collect();
            assert!(
                (0..=last).all(|sequence_number| accepted.contains(&sequence_number)),
                "{checkpoint:?} covers what was not accepted"
            );
        }
        let store = self.store.clone();
        Box::pin(async move {
            let before = store.checkpoint(&checkpoint.group, checkpoint.partition);
            let etag = store.replace_checkpoint(checkpoint.clone()).await?;
            let before = before.and_then(|before| before.sequence_number);
            assert!(before <= checkpoint.sequence_number, "{before:?} → {checkpoint:?}");
            Ok(etag)
        })
    }

    fn list_ownership(&self, group: &ConsumerGroup) -> StoreFuture<Vec<Ownership>> {
        let (answers, store, group) = (self.answers(), self.store.clone(), group.clone());
        Box::pin(async move {
            answers.await;
            store.list_ownership(&group).await
        })
    }

    fn claim_ownership(&self, claims: Vec<Ownership>, within: Duration) -> StoreFuture<Claimed> {
        let (answers, store) = (self.answers(), self.store.clone());
        Box::pin(async move {
            answers.await;
            store.claim_ownership(claims, within).await
        })
    }

    fn now(&self) -> SystemTime {
        self.store.now()
    }
}

#[tokio::test(start_paused = true)]
async fn one_relay_claims_everything_at_once_and_carries_it() {
    let group = Group::new();
    group.append(400);
    let relay = group.relay("a");
    group.until_done().await;
    assert!(group.start.elapsed() < RENEW, "no cycle had to be waited for");
    assert_eq!(group.shares().await, [("a".to_owned(), 8)].into());
    let metrics = relay.metrics().await;
    assert_eq!((metrics.owned_partitions, metrics.claimed_partitions), (8, 8));
    assert_eq!((metrics.claimed_free_partitions, metrics.opened_after_claim), (8, 8));
    assert_eq!((metrics.stolen_partitions, metrics.lost_partitions), (0, 0));
    assert_eq!((metrics.ownership_renew_us, metrics.ownership_expire_us), (10_000_000, 60_000_000));
    let summary = relay.stop().await;
    assert_eq!(summary.ended, Ended::Finished);
    assert_eq!(summary.metrics.returned_partitions, 8);
    assert_eq!(group.shares().await, [(String::new(), 8)].into());
    assert_eq!(group.duplicates(), 0);
}

#[tokio::test(start_paused = true)]
async fn two_more_have_their_shares_within_two_renewals_and_nothing_is_lost() {
    let group = Group::new();
    group.append(1_600);
    let first = group.relay("a");
    group.until_shares_are(&[("a", 8)]).await;
    tokio::time::sleep(ms(100)).await;
    let began = Instant::now();
    let second = group.relay("b");
    let third = group.relay("c");
    // Who of them has two is for chance to say.
    loop {
        let shares = group.shares().await;
        let mut counts: Vec<_> = shares.values().copied().collect();
        counts.sort_unstable();
        if counts == [2, 3, 3] {
            break;
        }
        assert!(began.elapsed() <= 2 * RENEW, "{shares:?}");
        tokio::time::sleep(ms(10)).await;
    }
    group.until_done().await;
    group.append(800);
    group.until_done().await;
    assert!(first.metrics().await.returned_partitions >= 5, "it is asked, not stolen from");
    for relay in [first, second, third] {
        let metrics = relay.stop().await.metrics;
        assert_eq!((metrics.stolen_partitions, metrics.lost_partitions), (0, 0));
    }
    assert_eq!(group.duplicates(), 0, "everything was finished before it moved");
}

#[tokio::test(start_paused = true)]
async fn who_does_not_give_back_what_it_is_asked_for_is_stolen_from_when_a_claim_would_have_expired() {
    let group = Group::new();
    let first = group.relay_with("a", |options| options.retry.try_timeout = 10 * EXPIRE);
    group.until_shares_are(&[("a", 8)]).await;
    // One batch of each partition that is under way for longer than a claim lasts.
    first.script.reply_by_default(Reply::Accept(5 * EXPIRE));
    group.append(80);
    tokio::time::sleep(ms(100)).await;
    let began = Instant::now();
    let second = group.relay("b");
    group.until_shares_are(&[("a", 4), ("b", 4)]).await;
    assert!(began.elapsed() > EXPIRE && began.elapsed() < EXPIRE + 2 * RENEW, "{:?}", began.elapsed());
    let metrics = second.metrics().await;
    assert_eq!((metrics.asked_partitions, metrics.stolen_partitions), (4, 4));
    first.kill();
    group.until_done().await;
    second.stop().await;
    group.duplicates();
}

#[tokio::test(start_paused = true)]
async fn a_claim_that_fails_alone_neither_loses_its_partition_nor_keeps_the_others_from_being_renewed() {
    let group = Group::new();
    let relay = group.relay("a");
    group.until_shares_are(&[("a", 8)]).await;
    // A cycle lists once and renews eight claims.
    group.store.fail_each(5);
    tokio::time::sleep(20 * RENEW).await;
    let metrics = relay.metrics().await;
    assert_eq!((metrics.owned_partitions, metrics.lost_partitions), (8, 0));
    assert!(metrics.failed_renewals >= 20, "{}", metrics.failed_renewals);
    assert!(metrics.health.is_ready(), "{:?}", metrics.health.reasons);
    group.append(80);
    group.until_done().await;
    relay.stop().await;
    assert_eq!(group.duplicates(), 0);
}

#[tokio::test(start_paused = true)]
async fn who_leaves_gives_its_partitions_to_the_next_cycle_of_the_others() {
    let group = Group::new();
    let first = group.relay("a");
    group.until_shares_are(&[("a", 8)]).await;
    let second = group.relay("b");
    group.until_shares_are(&[("a", 4), ("b", 4)]).await;
    tokio::time::sleep(3 * RENEW).await;
    group.append(400);
    group.until_done().await;
    let summary = second.stop().await;
    assert_eq!(summary.metrics.returned_partitions, 4);
    let began = Instant::now();
    let cycles = first.metrics().await.ownership_cycles;
    group.until_shares_are(&[("a", 8)]).await;
    assert_eq!(first.metrics().await.ownership_cycles, cycles + 1);
    assert!(began.elapsed() <= RENEW);
    group.append(400);
    group.until_done().await;
    first.stop().await;
    assert_eq!(group.duplicates(), 0, "everything was finished before it moved");
}

#[tokio::test(start_paused = true)]
async fn who_dies_is_succeeded_when_its_claims_have_expired() {
    let group = Group::new();
    let first = group.relay("a");
    group.until_shares_are(&[("a", 8)]).await;
    let second = group.relay("b");
    group.until_shares_are(&[("a", 4), ("b", 4)]).await;
    group.append(1_600);
    tokio::time::sleep(ms(20)).await;
    second.kill();
    let began = Instant::now();
    group.until_shares_are(&[("a", 8)]).await;
    assert!(began.elapsed() > EXPIRE - RENEW && began.elapsed() <= EXPIRE + RENEW);
    group.until_done().await;
    first.stop().await;
    assert!(group.duplicates() <= 4 * 12, "what its partitions had fetched");
}

#[tokio::test(start_paused = true)]
async fn a_relay_whose_renewals_fail_stops_before_others_may_begin() {
    let group = Group::new();
    let relay = group.relay("a");
    group.until_shares_are(&[("a", 8)]).await;
    // From now on the store does not answer, and time goes on.
    group.store.fail_claims(u32::MAX);
    tokio::time::sleep(EXPIRE - RENEW).await;
    group.append(8);
    group.until_done().await;
    assert_eq!(relay.metrics().await.owned_partitions, 8, "its time is not over");
    tokio::time::sleep(RENEW).await;
    let metrics = relay.metrics().await;
    assert_eq!((metrics.owned_partitions, metrics.open_partitions), (0, 0));
    assert_eq!((metrics.lost_partitions, metrics.expired_partitions), (8, 8));
    assert_eq!(metrics.closed_after_loss, 8);
    assert!(metrics.failed_renewals >= 8);
    group.append(8);
    tokio::time::sleep(RENEW).await;
    assert_eq!(relay.metrics().await.received_events, 8, "nothing is taken in any more");
    // What bears its name is its own again.
    group.store.fail_claims(0);
    group.until_done().await;
    let metrics = relay.stop().await.metrics;
    assert_eq!((metrics.claimed_free_partitions, metrics.claimed_own_partitions), (8, 8));
    assert_eq!(group.duplicates(), 0);
}

#[tokio::test(start_paused = true)]
async fn who_wakes_up_after_its_time_writes_nothing_over_its_successor() {
    let group = Group::new();
    group.append(80);
    // Its sends are accepted, and it hears of that only long after its time.
    let sleeper = group.relay("a");
    sleeper.script.reply_by_default(Reply::Accept(ms(90_000)));
    group.until_shares_are(&[("a", 8)]).await;
    group.store.fail_claims(u32::MAX);
    tokio::time::sleep(EXPIRE).await;
    assert_eq!(sleeper.metrics().await.owned_partitions, 0);
    group.store.fail_claims(0);
    let successor = group.relay("b");
    group.until_done().await;
    let metrics = sleeper.metrics().await;
    assert_eq!(metrics.checkpoints, 0);
    assert!(metrics.doubtful_events > 0, "what was under way was given up");
    tokio::time::sleep(ms(90_000)).await;
    assert_eq!(sleeper.metrics().await.checkpoints, 0);
    // It has joined again.
    group.until_shares_are(&[("a", 4), ("b", 4)]).await;
    for relay in [sleeper, successor] {
        relay.stop().await;
    }
    group.duplicates();
}

#[tokio::test(start_paused = true)]
async fn a_checkpoint_on_its_way_when_the_partition_is_lost_is_refused() {
    let group = Group::new();
    group.store.delay_updates(ms(200));
    let first = group.relay("a");
    group.until_shares_are(&[("a", 8)]).await;
    tokio::time::sleep(ms(300)).await;
    group.append(16);
    tokio::time::sleep(ms(100)).await;
    // The checkpoints are on their way. Another takes all of the partitions and fences them at once.
    let ownership = group.store.list_ownership(&super::group()).await;
    let ownership = ownership.expect("the store works").into_iter();
    let thief = ownership.map(|own| Ownership { owner_id: "thief".to_owned(), ..own });
    let stolen = group.store.claim_ownership(thief.collect(), Duration::ZERO).await;
    assert_eq!(stolen.expect("the store works").written.len(), 8);
    group.store.delay_updates(Duration::ZERO);
    let found = group.store.list_checkpoints(&super::group()).await;
    for checkpoint in found.expect("the store works") {
        let fenced = group.store.replace_checkpoint(checkpoint).await;
        fenced.expect("the newest writing");
    }
    tokio::time::sleep(ms(200)).await;
    let metrics = first.metrics().await;
    assert_eq!((metrics.checkpoints, metrics.refused_checkpoints), (0, 8));
    assert_eq!((metrics.lost_partitions, metrics.owned_partitions), (8, 0));
    assert_eq!(metrics.taken_partitions, 8);
    assert_eq!(group.covered(), 0);
    // The thief never renews.
    group.until_shares_are(&[("a", 8)]).await;
    group.until_done().await;
    first.stop().await;
    group.duplicates();
}

#[tokio::test(start_paused = true)]
async fn a_link_that_is_stolen_is_a_lost_partition_and_one_that_breaks_is_not() {
    let group = Group::new();
    let relay = group.relay("a");
    group.until_shares_are(&[("a", 8)]).await;
    tokio::time::sleep(ms(10)).await;
    let error = |condition: &str| SourceError {
        class: ErrorClass::Retryable,
        condition: condition.to_owned(),
        description: "told to".to_owned(),
    };
    group.log.fail_partition(PartitionId(1), error("amqp:link:detach-forced"));
    group.log.fail_partition(PartitionId(2), error("amqp:link:stolen"));
    tokio::time::sleep(ms(10)).await;
    let metrics = relay.metrics().await;
    assert_eq!((metrics.owned_partitions, metrics.open_partitions), (7, 6));
    assert_eq!((metrics.lost_partitions, metrics.closed_partitions), (1, 2));
    assert_eq!((metrics.closed_after_loss, metrics.closed_by_service), (1, 1));
    // The one rests and is opened again; the other is still in its name, and claimed again in a while.
    tokio::time::sleep(ms(600)).await;
    let metrics = relay.metrics().await;
    assert_eq!((metrics.owned_partitions, metrics.open_partitions), (7, 7));
    group.append(80);
    group.until_done().await;
    relay.stop().await;
    assert_eq!(group.duplicates(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_partition_that_breaks_while_its_fence_fails_starts_again() {
    let group = Group::new();
    group.append(80);
    // Longer than the rest of the partition: the fence fails only after that.
    group.store.delay_updates(ms(2_000));
    group.store.fail_updates(PARTITIONS);
    let relay = group.relay("a");
    group.until_shares_are(&[("a", 8)]).await;
    tokio::time::sleep(ms(10)).await;
    let error = SourceError {
        class: ErrorClass::Retryable,
        condition: "amqp:link:detach-forced".to_owned(),
        description: "told to".to_owned(),
    };
    group.log.fail_partition(PartitionId(1), error);
    group.until_done().await;
    relay.stop().await;
    assert_eq!(group.duplicates(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_long_stop_keeps_what_it_has_not_finished_and_gives_back_the_rest() {
    let group = Group::new();
    let relay = group.relay_with("a", |options| {
        options.stop_timeout = Duration::from_secs(1_000);
        options.retry.try_timeout = Duration::from_secs(1_000);
    });
    group.until_shares_are(&[("a", 8)]).await;
    tokio::time::sleep(ms(10)).await;
    // One batch that takes much longer than a claim lasts.
    relay.script.reply_by_default(Reply::Accept(3 * EXPIRE));
    group.append(1);
    tokio::time::sleep(ms(10)).await;
    let mut relay = relay;
    drop(relay.stop.take());
    group.until_shares_are(&[("a", 1), ("", 7)]).await;
    let other = group.relay("b");
    group.until_shares_are(&[("a", 1), ("b", 7)]).await;
    tokio::time::sleep(2 * EXPIRE).await;
    assert_eq!(group.owners().await[&0], "a", "it is renewed until it is finished");
    let summary = relay.task.await.expect("no panic").expect("neither end fails");
    assert_eq!((summary.ended, summary.metrics.lost_partitions), (Ended::Finished, 0));
    assert_eq!(group.covered(), 1);
    group.until_shares_are(&[("b", 8)]).await;
    other.stop().await;
    assert_eq!(group.duplicates(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_store_that_does_not_answer_at_the_start_ends_the_relay() {
    let group = Group::new();
    group.store.fail_claims(1);
    let relay = group.relay("a");
    let ended = relay.task.await.expect("no panic");
    assert!(matches!(ended, Err(RelayError::Store(_))), "{ended:?}");
}
