//! What the relay's bookkeeping costs, isolated from any network.
//!
//! Three legs carry the same events, made by the same source, and copy the same bytes:
//!
//! * `copy`: the events of each batch are copied to an output buffer in their order. The reference: no fan-out, no
//!   outcome, no checkpoint.
//! * `regroup`: each batch is routed and regrouped, then copied destination by destination.
//! * `relay`: the whole engine, with a send and an outcome per destination, or per event where they go one by one.
//!
//! The last cases have messages with properties, once as they are and once through a filter and a rename.
//!
//! The relay's bookkeeping is its time beyond `regroup`. Legs alternate, the first round is thrown away, medians are
//! printed with their spread. `PARSHALL_BENCH_QUICK=1` runs tiny rounds, to see that it still works.

#![expect(clippy::print_stdout, reason = "a benchmark prints its result")]

use std::future::poll_fn;
use std::hint::black_box;
use std::sync::Arc;
use std::task::Poll;
use std::time::{Duration, Instant};

use bytes::Bytes;
use connect::checkpoint::{CheckpointStore, ConsumerGroup, FileCheckpointStore, MemoryCheckpointStore};
use connect::event::Encoding;
use connect::fakes::{EndlessSource, NullSink};
use connect::source::{BatchOptions, Source, SourceEvent, SourceOptions, StartPosition};
use relay::regroup::Regroup;
use relay::route::{Route, Router};
use relay::{CheckpointPolicy, DispatchUnit, Relay, RelayOptions};
use transform::{Program, Step, Transformer};
use units::partition_key::Partitioner;

#[derive(Clone, Copy)]
struct Case {
    name: &'static str,
    fan_out: u32,
    batch: usize,
    message_len: u16,
    store: Store,
    unit: DispatchUnit,
    messages: Messages,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Messages {
    /// Bytes that mean nothing, as many as the case says.
    Opaque,
    /// Messages of 16 bytes with three properties.
    WithProperties,
    /// The same, which the relay takes through a filter and a rename.
    Transformed,
}

#[derive(Clone, Copy)]
enum Store {
    /// Never written while it is measured.
    Never,
    /// A file write per batch, or fewer where they coalesce.
    Files,
}

fn main() {
    let quick =
        std::env::var_os("PARSHALL_BENCH_QUICK").is_some() || std::env::args().any(|arg| arg == "--test");
    let (events, rounds) = if quick { (1 << 15, 2) } else { (1 << 23, 6) };
    let cases = [
        Case {
            name: "fan-out 1, batch 128, 16 B",
            fan_out: 1,
            batch: 128,
            message_len: 16,
            store: Store::Never,
            unit: DispatchUnit::Batch,
            messages: Messages::Opaque,
        },
        Case {
            name: "fan-out 32, batch 128, 16 B",
            fan_out: 32,
            batch: 128,
            message_len: 16,
            store: Store::Never,
            unit: DispatchUnit::Batch,
            messages: Messages::Opaque,
        },
        Case {
            name: "same, checkpoints in files",
            fan_out: 32,
            batch: 128,
            message_len: 16,
            store: Store::Files,
            unit: DispatchUnit::Batch,
            messages: Messages::Opaque,
        },
        Case {
            name: "fan-out 100, batch 128, 16 B",
            fan_out: 100,
            batch: 128,
            message_len: 16,
            store: Store::Never,
            unit: DispatchUnit::Batch,
            messages: Messages::Opaque,
        },
        Case {
            name: "fan-out 1, events one by one",
            fan_out: 1,
            batch: 128,
            message_len: 16,
            store: Store::Never,
            unit: DispatchUnit::Event,
            messages: Messages::Opaque,
        },
        Case {
            name: "fan-out 32, batch 128, 1 KiB",
            fan_out: 32,
            batch: 128,
            message_len: 1024,
            store: Store::Never,
            unit: DispatchUnit::Batch,
            messages: Messages::Opaque,
        },
        Case {
            name: "fan-out 32, with properties",
            fan_out: 32,
            batch: 128,
            message_len: 0,
            store: Store::Never,
            unit: DispatchUnit::Batch,
            messages: Messages::WithProperties,
        },
        Case {
            name: "same, a filter and a rename",
            fan_out: 32,
            batch: 128,
            message_len: 0,
            store: Store::Never,
            unit: DispatchUnit::Batch,
            messages: Messages::Transformed,
        },
    ];
    println!("median ns per event [min-max] of {} rounds of {events} events", rounds - 1);
    println!(
        "{:<30} {:>18} {:>18} {:>18} {:>11} {:>9}",
        "", "copy", "regroup", "relay", "bookkeeping", "ns/send"
    );
    for case in cases {
        let mut legs = [Vec::new(), Vec::new(), Vec::new()];
        let mut sends_per_event = 0.0;
        for _ in 0..rounds {
            legs[0].push(copied(case, events));
            legs[1].push(regrouped(case, events));
            let (elapsed, sends) = relayed(case, events);
            legs[2].push(elapsed);
            sends_per_event = sends as f64 / events as f64;
        }
        let [copy, regroup, relay] = legs.map(|rounds| Figure::of(&rounds[1..], events));
        let bookkeeping = relay.median - regroup.median;
        println!(
            "{:<30} {copy:>18} {regroup:>18} {relay:>18} {bookkeeping:>11.1} {:>9.1}   relay / copy = {:.1}",
            case.name,
            bookkeeping / sends_per_event,
            relay.median / copy.median,
        );
    }
}

fn source(case: Case, events: u64) -> EndlessSource {
    let batch = BatchOptions { max_events: case.batch, max_wait: Duration::ZERO };
    let source =
        EndlessSource::new(PARTITIONS, SourceOptions { batch, prefetch: 300 }, case.message_len, events);
    match case.messages {
        Messages::Opaque => source,
        Messages::WithProperties | Messages::Transformed => {
            source.of_messages(Bytes::from_static(WITH_PROPERTIES), Encoding::Amqp)
        }
    }
}

/// A filter that lets all pass, and a rename that changes each message.
fn transformer() -> Transformer {
    let filter = Step::Filter("properties.region == \"eu\"".to_owned());
    let rename = Step::Rename([("device_id".to_owned(), "device".to_owned())].into());
    let program = Program::compile("transform", &[filter, rename], &[]).expect("the expression is right");
    Transformer::new(Arc::new(program.expect("there are steps")))
}

/// Takes every batch that the source has, and times it.
fn timed(case: Case, events: u64, mut take: impl FnMut(&connect::event::EventBatch)) -> Duration {
    let mut source = source(case, events);
    for partition in source.partitions() {
        source.open(partition, StartPosition::Earliest);
    }
    let begin = Instant::now();
    let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
    runtime.block_on(poll_fn(|context| {
        while let Poll::Ready(Ok(SourceEvent::Batch(batch))) = source.poll_batch(context) {
            take(&batch);
            source.release(batch);
        }
        Poll::Ready(())
    }));
    begin.elapsed()
}

fn copied(case: Case, events: u64) -> Duration {
    let mut output = Vec::new();
    timed(case, events, |batch| {
        output.clear();
        for event in batch.events() {
            output.extend_from_slice(batch.message(event));
        }
        black_box(&output);
    })
}

fn regrouped(case: Case, events: u64) -> Duration {
    let router =
        Router { route: Route::Random, fan_out: case.fan_out, seed: 1, partitioner: Partitioner::EventHubs };
    let mut regroup = Regroup::new(case.fan_out);
    let (mut destinations, mut order, mut groups) = (Vec::new(), Vec::new(), Vec::new());
    let mut output = Vec::new();
    timed(case, events, |batch| {
        output.clear();
        router.assign(batch, &mut destinations);
        order.clear();
        groups.clear();
        regroup.group(&destinations, 0, &mut order, &mut groups);
        for group in &groups {
            for &index in &order[group.start as usize..group.end as usize] {
                output.extend_from_slice(batch.message(&batch.events()[index as usize]));
            }
        }
        black_box(&output);
    })
}

/// Also returns how many sends there were.
fn relayed(case: Case, events: u64) -> (Duration, u64) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().expect("a runtime");
    let folder = tempfile::tempdir().expect("a temporary folder");
    let (store, checkpoint): (Arc<dyn CheckpointStore>, _) = match case.store {
        Store::Never => {
            (Arc::new(MemoryCheckpointStore::new()), CheckpointPolicy::Every(Duration::from_secs(3_600)))
        }
        Store::Files => {
            let store = FileCheckpointStore::open(folder.path()).expect("a folder that can be written");
            (Arc::new(store), CheckpointPolicy::EachBatch)
        }
    };
    runtime.block_on(async {
        let (sink, accepted) = NullSink::new(case.fan_out);
        let group = ConsumerGroup::new("localhost", "source", "$Default");
        let events_at_once = match case.unit {
            DispatchUnit::Batch => usize::MAX,
            DispatchUnit::Event => 64,
        };
        let options = RelayOptions {
            fan_out: case.fan_out,
            seed: 1,
            checkpoint,
            dispatch_unit: case.unit,
            events_at_once,
            ..RelayOptions::new(group)
        };
        let mut relay = Relay::new(options, Box::new(source(case, events)), vec![Box::new(sink)], store)
            .expect("enough destinations");
        if case.messages == Messages::Transformed {
            relay.transform_by(Box::new(transformer()));
        }
        let begin = Instant::now();
        let summary = relay.run(accepted.at_least(events)).await.expect("neither end fails");
        let elapsed = begin.elapsed();
        assert_eq!(summary.metrics.forwarded_events, events, "every event is carried");
        (elapsed, summary.metrics.sends)
    })
}

/// Nanoseconds per event.
struct Figure {
    median: f64,
    min: f64,
    max: f64,
}

impl Figure {
    fn of(rounds: &[Duration], events: u64) -> Self {
        let mut figures: Vec<f64> =
            rounds.iter().map(|round| round.as_nanos() as f64 / events as f64).collect();
        figures.sort_by(f64::total_cmp);
        Self { median: figures[figures.len() / 2], min: figures[0], max: figures[figures.len() - 1] }
    }
}

impl std::fmt::Display for Figure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(&format!("{:.1} [{:.1}-{:.1}]", self.median, self.min, self.max))
    }
}

/// The properties `region: eu`, `device_id: d-1234` and `debug: true`, and a body of 16 bytes.
const WITH_PROPERTIES: &[u8] =
    b"\x00\x53\x74\xc1\x28\x06\xa1\x06region\xa1\x02eu\xa1\x09device_id\xa1\x06d-1234\xa1\x05debug\x41\
      \x00\x53\x75\xa0\x100123456789abcdef";

const PARTITIONS: u32 = 32;
