//! The engine between a memory source, a scripted sink and a store that checks every checkpoint, under paused time.

use std::collections::{BTreeMap, HashSet};
use std::sync::Mutex;
use std::time::{Duration, SystemTime};

use connect::checkpoint::{
    CheckpointStore, Claimed, ConsumerGroup, ETag, MemoryCheckpointStore, Ownership, StoreFuture,
};
use connect::fakes::{MemoryLog, MemorySource, Reply, ScriptedSink, SinkScript, Write};
use connect::retry::{RetryMode, RetryPolicy};
use connect::sink::SinkError;
use connect::source::{BatchOptions, SourceError, SourceOptions, StartPosition};
use tokio::time::Instant;

use super::*;
use crate::route::Route;

mod assigned;
mod delivery;
mod ending;
mod events;
mod failure;
mod gaps;
mod health;
mod metrics;
mod outage;
mod poison;
mod progress;
mod settlement;
mod sharing;
mod sinks;
mod stop;
mod storage;
mod traces;
mod transforming;

/// A log, a sink and a store, through which any number of relays run one after the other.
struct Pipe {
    log: MemoryLog,
    script: SinkScript,
    sink: Option<ScriptedSink>,
    /// Sinks beside that one.
    others: Vec<SinkScript>,
    store: MemoryCheckpointStore,
    source_options: SourceOptions,
    options: RelayOptions,
    appended: u64,
    start: Instant,
}

/// A store that fails the test when a checkpoint covers an event that a sink has not accepted.
#[derive(Debug)]
struct AuditedStore {
    store: MemoryCheckpointStore,
    sinks: Vec<(SinkScript, Mutex<Accepted>)>,
}

/// What the sink has accepted, as far as its writes were looked at.
#[derive(Debug, Default)]
struct Accepted {
    looked_at: usize,
    events: HashSet<(PartitionId, i64)>,
}

impl Pipe {
    fn new(partitions: u32, destinations: u32) -> Self {
        let (sink, script) = ScriptedSink::new(destinations);
        let batch = BatchOptions { max_events: 4, max_wait: ms(1) };
        Self {
            log: MemoryLog::new(partitions),
            script,
            sink: Some(sink),
            others: Vec::new(),
            store: MemoryCheckpointStore::new(),
            source_options: SourceOptions { batch, prefetch: 12 },
            options: RelayOptions {
                route: Route::RoundRobin,
                fan_out: destinations,
                seed: 7,
                retry: RetryPolicy {
                    attempts: 3,
                    mode: RetryMode::Exponential,
                    delay: ms(100),
                    max_delay: ms(1_000),
                    try_timeout: ms(1_000),
                    jitter: 0.0,
                    seed: 0,
                },
                restart_after: ms(500),
                ..RelayOptions::new(group())
            },
            appended: 0,
            start: Instant::now(),
        }
    }

    /// Appends to each partition in turn.
    fn append(&mut self, events: u64) {
        let partitions = u64::from(self.partitions());
        for _ in 0..events {
            let partition = PartitionId((self.appended % partitions) as u32);
            self.log.append(partition, format!("event {}", self.appended).as_bytes());
            self.appended += 1;
        }
    }

    fn partitions(&self) -> u32 {
        MemorySource::new(&self.log, self.source_options).partitions().len() as u32
    }

    /// Adds a sink with so many destinations.
    fn add_sink(&mut self, destinations: u32) -> SinkScript {
        let (_, script) = ScriptedSink::new(destinations);
        self.others.push(script.clone());
        script
    }

    fn try_relay(&mut self) -> Result<Relay, RelayError> {
        let source = MemorySource::new(&self.log, self.source_options);
        let sink = self.sink.take().unwrap_or_else(|| self.script.sink());
        let mut sinks: Vec<Box<dyn Sink>> = vec![Box::new(sink)];
        sinks.extend(self.others.iter().map(|script| Box::new(script.sink()) as Box<dyn Sink>));
        let scripts = std::iter::once(&self.script).chain(&self.others);
        let audited = scripts.map(|script| (script.clone(), Mutex::default())).collect();
        let store = Arc::new(AuditedStore { store: self.store.clone(), sinks: audited });
        Relay::new(self.options.clone(), Box::new(source), sinks, store)
    }

    fn relay(&mut self) -> Relay {
        self.try_relay().expect("as many destinations as the fan-out")
    }

    /// A relay whose store is not audited: what is missing, or was put aside, was never accepted.
    fn unaudited(&mut self) -> Relay {
        let source = MemorySource::new(&self.log, self.source_options);
        let sink = self.sink.take().unwrap_or_else(|| self.script.sink());
        let store = Arc::new(self.store.clone());
        Relay::new(self.options.clone(), Box::new(source), vec![Box::new(sink)], store)
            .expect("as many destinations as the fan-out")
    }

    /// Runs a relay until the condition holds, and stops it gracefully.
    async fn run_until(&mut self, condition: impl Fn(&Self) -> bool) -> Summary {
        let relay = self.relay();
        let pipe = &*self;
        let summary =
            relay.run(async { pipe.wait_until(|| condition(pipe)).await }).await.expect("neither end fails");
        check_accounts(&summary.metrics);
        summary
    }

    /// Runs a relay until everything appended has been accepted and is covered by checkpoints.
    async fn run_to_the_end(&mut self) -> Summary {
        self.run_until(|pipe| pipe.is_done()).await
    }

    /// Runs a relay while batches of four events are appended, one every `pause`, until all of them are done.
    async fn run_while_appending(&mut self, batches: u32, pause: Duration) -> Summary {
        let relay = self.relay();
        let shutdown = async {
            for _ in 0..batches {
                self.append(4);
                tokio::time::sleep(pause).await;
            }
            self.wait_until(|| self.is_done()).await;
        };
        let summary = relay.run(shutdown).await.expect("neither end fails");
        check_accounts(&summary.metrics);
        summary
    }

    /// Lets the source fetch one batch at a time.
    fn fetch_single_batches(&mut self) {
        self.source_options.prefetch = 4;
    }

    /// Waits in virtual time; a condition that never holds fails the test.
    async fn wait_until(&self, condition: impl Fn() -> bool) {
        for _ in 0..1_000_000 {
            if condition() {
                return;
            }
            tokio::time::sleep(ms(1)).await;
        }
        panic!("nothing happened for 1000 s");
    }

    /// The store checks that what is covered was accepted.
    fn is_done(&self) -> bool {
        let partitions = u64::from(self.partitions());
        (0..self.appended.min(partitions)).all(|partition| {
            let last = (self.appended - 1 - partition) / partitions;
            self.checkpoint(partition as u32) == Some(last as i64)
        })
    }

    /// Per destination: partition and sequence number of what was accepted, in order.
    fn accepted(&self) -> BTreeMap<u32, Vec<(PartitionId, i64)>> {
        (0..self.options.fan_out)
            .map(|destination| (destination, self.script.accepted(destination)))
            .collect()
    }

    fn accepted_count(&self) -> u64 {
        self.script.with_writes(|writes| {
            let accepted = writes.iter().filter(|write| write.is_accepted());
            accepted.map(|write| write.sequence_numbers.len() as u64).sum()
        })
    }

    fn checkpoint(&self, partition: u32) -> Option<i64> {
        self.store.checkpoint(&group(), PartitionId(partition))?.sequence_number
    }

    /// The sequence numbers of the checkpoints that were written, in order.
    fn written(&self) -> Vec<i64> {
        let updates = self.store.updates();
        let written = updates.iter().filter_map(|update| update.sequence_number);
        written.collect()
    }

    /// The sequence numbers of each send, in order.
    fn sent(&self) -> Vec<Vec<i64>> {
        let writes = self.script.writes().into_iter();
        writes.map(|write| write.sequence_numbers).collect()
    }

    /// Milliseconds since the test began at which each send was made.
    fn sent_at(&self) -> Vec<u128> {
        self.script.writes().iter().map(|write| (write.sent_at - self.start).as_millis()).collect()
    }

    /// Checks that every event was accepted, that what a destination saw of a partition for the first time was in order,
    /// and returns how many events came more than once.
    fn check_delivery(&self) -> u64 {
        let mut seen = HashSet::new();
        let mut duplicates = 0;
        for (destination, events) in self.accepted() {
            let mut newest: BTreeMap<PartitionId, i64> = BTreeMap::new();
            for (partition, sequence_number) in events {
                if !seen.insert((partition, sequence_number)) {
                    duplicates += 1;
                    continue;
                }
                let before = newest.insert(partition, sequence_number);
                assert!(
                    before.is_none_or(|before| before < sequence_number),
                    "destination {destination}: {sequence_number} of partition {partition} came after {before:?}"
                );
            }
        }
        assert_eq!(seen.len() as u64, self.appended, "events were lost");
        duplicates
    }
}

/// Checks that what is counted by cause adds up, and that whatever was opened has been closed.
fn check_accounts(metrics: &Metrics) {
    let opened = metrics.opened_at_start + metrics.opened_after_rest + metrics.opened_after_claim;
    assert_eq!(metrics.opened_partitions, opened);
    assert_eq!(metrics.taking_partitions(), 0, "{metrics:?}");
    let claimed = metrics.claimed_free_partitions
        + metrics.claimed_expired_partitions
        + metrics.claimed_own_partitions
        + metrics.claimed_assigned_partitions
        + metrics.stolen_partitions;
    assert_eq!(metrics.claimed_partitions, claimed);
    let lost = metrics.taken_partitions + metrics.expired_partitions;
    assert_eq!(metrics.lost_partitions, lost);
    assert_eq!(metrics.checkpoints, metrics.checkpoint_us.len());
    assert_eq!(metrics.failed_checkpoints, metrics.failed_checkpoint_us.len());
    assert_eq!(metrics.failed_sends, metrics.failed_send_us.len());
    assert_eq!(metrics.send_us.len(), metrics.send_events.len());
    assert_eq!(metrics.batch_events.len(), metrics.received_batches);
    assert_eq!(metrics.ownership_cycles, metrics.ownership_cycle_us.len());
}

impl CheckpointStore for AuditedStore {
    fn list_checkpoints(&self, group: &ConsumerGroup) -> StoreFuture<Vec<Checkpoint>> {
        self.store.list_checkpoints(group)
    }

    fn update_checkpoint(&self, checkpoint: Checkpoint) -> StoreFuture<()> {
        self.audit(&checkpoint);
        self.store.update_checkpoint(checkpoint)
    }

    fn replace_checkpoint(&self, checkpoint: Checkpoint) -> StoreFuture<ETag> {
        if checkpoint.sequence_number.is_some() {
            self.audit(&checkpoint);
        }
        self.store.replace_checkpoint(checkpoint)
    }

    fn list_ownership(&self, group: &ConsumerGroup) -> StoreFuture<Vec<Ownership>> {
        self.store.list_ownership(group)
    }

    fn claim_ownership(&self, claims: Vec<Ownership>, within: Duration) -> StoreFuture<Claimed> {
        self.store.claim_ownership(claims, within)
    }

    fn now(&self) -> SystemTime {
        self.store.now()
    }

    fn pace(&self) -> Duration {
        self.store.pace()
    }
}

impl AuditedStore {
    fn audit(&self, checkpoint: &Checkpoint) {
        let last = checkpoint.sequence_number.expect("the memory source numbers its events");
        assert_eq!(checkpoint.offset, Some((last * 10).to_string()), "the offset is of the same event");
        for (script, accepted) in &self.sinks {
            let mut accepted = accepted.lock().expect("no test panics and goes on");
            script.with_writes(|writes| accepted.look_at(writes));
            // What was covered before has been checked before.
            let covered =
                (0..=last).rev().take(1_000).map(|sequence_number| (checkpoint.partition, sequence_number));
            for event in covered {
                assert!(
                    accepted.events.contains(&event),
                    "{event:?} is covered by {last} and was not accepted"
                );
            }
        }
    }
}

impl Accepted {
    fn look_at(&mut self, writes: &[Write]) {
        for write in writes[self.looked_at..].iter().filter(|write| write.is_accepted()) {
            self.events.extend(write.sequence_numbers.iter().map(|&number| (write.partition, number)));
        }
        self.looked_at = writes.len();
    }
}

fn group() -> ConsumerGroup {
    ConsumerGroup::new("localhost", "source", "$Default")
}

const fn ms(milliseconds: u64) -> Duration {
    Duration::from_millis(milliseconds)
}
