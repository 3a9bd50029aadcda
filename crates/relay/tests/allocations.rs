//! Once its buffers have grown to their size, a relay allocates nothing: neither per event nor per send nor per batch.
//! Only a checkpoint takes some memory of its own, for its way into the store.

use std::sync::Arc;
use std::time::Duration;

use connect::checkpoint::{ConsumerGroup, MemoryCheckpointStore};
use connect::fakes::{EndlessSource, NullSink};
use connect::source::{BatchOptions, SourceOptions};
use counting_allocator::allocations;
use relay::traces::{SendOperation, Tracing};
use relay::{CheckpointPolicy, DispatchUnit, Relay, RelayOptions};
use telemetry::fakes::SpanRecorder;
use telemetry::span::{Kind, Operation};

/// Allocations while a relay carries the second half of `events`.
fn allocations_of(
    events: u64,
    checkpoint: CheckpointPolicy,
    dispatch_unit: DispatchUnit,
    tracing: Option<Tracing>,
) -> u64 {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().expect("a runtime");
    runtime.block_on(async {
        let batch = BatchOptions { max_events: 128, max_wait: Duration::ZERO };
        let source = EndlessSource::new(32, SourceOptions { batch, prefetch: 300 }, 16, events);
        let (sink, accepted) = NullSink::new(32);
        let group = ConsumerGroup::new("localhost", "source", "$Default");
        let events_at_once = match dispatch_unit {
            DispatchUnit::Batch => usize::MAX,
            DispatchUnit::Event => 64,
        };
        let options = RelayOptions {
            fan_out: 32,
            checkpoint,
            dispatch_unit,
            events_at_once,
            ..RelayOptions::new(group)
        };
        let relay = Relay::new(
            options,
            Box::new(source),
            vec![Box::new(sink)],
            Arc::new(MemoryCheckpointStore::new()),
        )
        .expect("destinations");
        let relay = match tracing {
            Some(tracing) => relay.traced(tracing),
            None => relay,
        };
        let mut at_half = 0;
        let shutdown = async {
            accepted.at_least(events / 2).await;
            at_half = allocations();
            accepted.at_least(events).await;
        };
        let mut at_end = 0;
        let counted = async {
            shutdown.await;
            at_end = allocations();
        };
        relay.run(counted).await.expect("neither end fails");
        at_end - at_half
    })
}

/// Traces of which none is sampled.
fn unsampled() -> Tracing {
    let operation = Operation { name: "traced".to_owned(), kind: Kind::Client, attributes: Vec::new() };
    let operation = Arc::new(operation);
    let send = SendOperation { operation: Arc::clone(&operation), to_partitions: true };
    let tracer = SpanRecorder::new(0.0).tracer();
    Tracing { tracer, process: Arc::clone(&operation), sends: vec![send], checkpoint: operation }
}

#[test]
fn a_relay_allocates_for_checkpoints_and_for_nothing_else() {
    let events = 128 * 32 * 64;
    let batches = events / 2 / 128;
    let seldom = CheckpointPolicy::Every(Duration::from_secs(3_600));
    let without = allocations_of(events, seldom, DispatchUnit::Batch, None);
    // The histograms of durations may meet a longer one than before and grow.
    assert!(without <= 4, "{without} allocations for {batches} batches");
    let unsampled = allocations_of(events, seldom, DispatchUnit::Batch, Some(unsampled()));
    assert!(unsampled <= 4, "{unsampled} allocations for {batches} batches that are not sampled");
    let by_event = allocations_of(events, seldom, DispatchUnit::Event, None);
    // Far more durations than before, some of them longer.
    assert!(by_event <= 16, "{by_event} allocations for {} events one by one", events / 2);
    let with = allocations_of(events, CheckpointPolicy::EachBatch, DispatchUnit::Batch, None);
    assert!(with <= batches * 4, "{with} allocations for {batches} batches with a checkpoint each");
}
