//! What checkpoints cost a relay, by where they are kept.
//!
//! 32 partitions, batches of 128 events of 16 bytes, a fan-out of 32, a checkpoint after each batch: the relay itself,
//! between a source and a sink that cost next to nothing, so that the price of checkpoints is as high a part of the whole as
//! it can be. Three legs:
//!
//! * `none`: no checkpoint is written while it is measured.
//! * `files`: the reference; two system calls each.
//! * `blobs`: requests over loopback to the embedded blob service, which has a thread of its own.
//!
//! Legs alternate, the first round is thrown away, medians are printed with their spread, and how many checkpoints were
//! written: they coalesce. `PARSHALL_BENCH_QUICK=1` runs tiny rounds, to see that it still works.

#![expect(clippy::print_stdout, reason = "a benchmark prints its result")]

use std::sync::Arc;
use std::time::{Duration, Instant};

use access::storage::StorageConnectionString;
use connect::checkpoint::blobs::{BlobStoreOptions, MissingContainer};
use connect::checkpoint::{
    BlobCheckpointStore, CheckpointStore, ConsumerGroup, FileCheckpointStore, MemoryCheckpointStore,
};
use connect::fakes::{EndlessSource, NullSink};
use connect::source::{BatchOptions, SourceOptions};
use hub::namespace::NamespaceConfig;
use hub::service::{Protocol, Service, ServiceConfig};
use relay::ownership::OwnershipOptions;
use relay::{CheckpointPolicy, Relay, RelayOptions};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Store {
    None,
    Files,
    Blobs,
}

/// What one round showed.
#[derive(Clone, Copy)]
struct Round {
    events_per_s: f64,
    checkpoints: u64,
}

fn main() {
    let quick =
        std::env::var_os("PARSHALL_BENCH_QUICK").is_some() || std::env::args().any(|arg| arg == "--test");
    let (events, rounds) = if quick { (1 << 17, 2) } else { (1 << 25, 6) };
    let service = BlobService::start();
    let legs = [Store::None, Store::Files, Store::Blobs];
    for shared in [false, true] {
        let mut measured = [Vec::new(), Vec::new(), Vec::new()];
        for round in 0..rounds {
            for (leg, measured) in legs.iter().zip(&mut measured) {
                let result = carry(*leg, shared, events, &service, round);
                if round > 0 {
                    measured.push(result);
                }
            }
        }
        let owned = if shared { "shared by ownership" } else { "alone" };
        println!(
            "{PARTITIONS} partitions, {owned}: million events/s, median [min-max] of {} rounds of {events} events; \
             checkpoints",
            rounds - 1
        );
        let mut medians = Vec::new();
        for (leg, measured) in legs.iter().zip(&mut measured) {
            measured.sort_by(|one, other| one.events_per_s.total_cmp(&other.events_per_s));
            let median = measured[measured.len() / 2];
            let million = |round: Round| round.events_per_s / 1e6;
            println!(
                "  {:<6} {:>6.2} [{:.2}-{:.2}]  {:>8}",
                format!("{leg:?}").to_lowercase(),
                million(median),
                million(measured[0]),
                million(measured[measured.len() - 1]),
                median.checkpoints,
            );
            medians.push(median.events_per_s);
        }
        println!("  blobs / files = {:.2}", medians[2] / medians[1]);
    }
    service.stop();
}

fn carry(leg: Store, shared: bool, events: u64, service: &BlobService, round: u32) -> Round {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    let folder = tempfile::tempdir().expect("a temporary folder");
    runtime.block_on(async {
        let store: Arc<dyn CheckpointStore> = match leg {
            Store::None => Arc::new(MemoryCheckpointStore::new()),
            Store::Files => {
                Arc::new(FileCheckpointStore::open(folder.path()).expect("a folder that can be written"))
            }
            Store::Blobs => {
                let container = format!("bench-{}-{round}", u8::from(shared));
                let store = BlobCheckpointStore::open(BlobStoreOptions {
                    missing_container: MissingContainer::Create,
                    ..BlobStoreOptions::new(service.connection_string.clone(), container)
                });
                Arc::new(store.await.expect("the service answers"))
            }
        };
        let batch = BatchOptions { max_events: 128, max_wait: Duration::ZERO };
        let options = SourceOptions { batch, prefetch: 300 };
        let source = EndlessSource::new(PARTITIONS, options, 16, events);
        let (sink, accepted) = NullSink::new(FAN_OUT);
        let group = ConsumerGroup::new("localhost", "source", "$Default");
        let options = RelayOptions {
            fan_out: FAN_OUT,
            seed: 1,
            checkpoint: match leg {
                Store::None => CheckpointPolicy::Every(Duration::from_secs(3_600)),
                Store::Files | Store::Blobs => CheckpointPolicy::EachBatch,
            },
            ownership: shared.then(|| OwnershipOptions::new("bench")),
            ..RelayOptions::new(group)
        };
        let relay =
            Relay::new(options, Box::new(source), vec![Box::new(sink)], store).expect("enough destinations");
        let begin = Instant::now();
        let summary = relay.run(accepted.at_least(events)).await;
        let elapsed = begin.elapsed();
        let summary = summary.expect("neither end fails");
        assert_eq!(summary.metrics.forwarded_events, events, "every event is carried");
        assert_eq!(summary.metrics.failed_checkpoints, 0);
        Round {
            events_per_s: events as f64 / elapsed.as_secs_f64(),
            checkpoints: summary.metrics.checkpoints,
        }
    })
}

/// The embedded blob service on a thread of its own.
struct BlobService {
    connection_string: StorageConnectionString,
    runtime: tokio::runtime::Runtime,
    service: Service,
}

impl BlobService {
    fn start() -> Self {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .expect("a runtime");
        let service = runtime.block_on(Service::start(
            ServiceConfig::loopback(NamespaceConfig::with_hubs(Vec::new())).and(Protocol::Blob),
        ));
        let service = service.expect("it starts");
        let connection_string = service.storage_connection_string();
        Self { connection_string: connection_string.expect("it serves blobs"), runtime, service }
    }

    fn stop(self) {
        self.runtime.block_on(self.service.stop());
    }
}

const PARTITIONS: u32 = 32;
const FAN_OUT: u32 = 32;
