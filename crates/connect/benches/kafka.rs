//! What the native client of Kafka costs the thread that it runs on: processor time per record sent and received, with
//! everything that belongs to it (system calls, protocol, checksums, batches), and how many records that is in a second of it.
//!
//! * `produce`: batches of 16-byte or 1 KiB records to 32 partitions of the embedded service, which has a thread of its own, so
//!   that its speed is not part of the processor time.
//! * `consume`: the same records again.
//! * beside each the bare socket: the same number of bytes read or written by a thread, in pieces of 64 KiB.
//!
//! Medians of rounds, the first thrown away. `PARSHALL_BENCH_QUICK=1` runs tiny rounds, to see that it still works.

#![expect(clippy::print_stdout, reason = "a benchmark prints its result")]

mod bare_socket;

use std::future::poll_fn;
use std::hint::black_box;
use std::task::{Poll, ready};
use std::time::{Duration, Instant};

use bare_socket::{Direction, processor_time, socket};
use bytes::Bytes;
use connect::event::{Encoding, EnqueuedTime, EventBatch, EventParts};
use connect::kafka::{KafkaOptions, Properties, connect_sink, connect_source};
use connect::sink::{OutgoingBatch, SendToken};
use connect::source::{BatchOptions, SourceEvent, SourceOptions, StartPosition};
use hub::namespace::{HubConfig, NamespaceConfig};
use hub::service::{Protocol, Service, ServiceConfig};

fn main() {
    let quick = std::env::var_os("PARSHALL_BENCH_QUICK").is_some();
    for (payload, records) in [(16, 1 << 22), (1024, 1 << 18)] {
        let (records, rounds) = if quick { (1 << 12, 2) } else { (records, 5) };
        let (mut producing, mut consuming) = (Vec::new(), Vec::new());
        for _ in 0..rounds {
            let (produced, consumed) = round(payload, records);
            producing.push(produced);
            consuming.push(consumed);
        }
        // A record is its payload behind 8 to 11 bytes; headers of batches and requests hardly show.
        let bytes = records * (payload as u64 + 10);
        print("produce", payload, records, &producing, bytes, Direction::Write, rounds);
        print("consume", payload, records, &consuming, bytes, Direction::Read, rounds);
    }
}

/// What a leg took.
#[derive(Clone, Copy)]
struct Took {
    processor: Duration,
    wall: Duration,
}

fn print(
    name: &str,
    payload: usize,
    records: u64,
    legs: &[Took],
    bytes: u64,
    direction: Direction,
    rounds: usize,
) {
    let per_record = |time: Duration| time.as_nanos() as f64 / records as f64;
    let leg = median(legs[1..].iter().map(|took| per_record(took.processor)));
    let wall = median(legs[1..].iter().map(|took| per_record(took.wall)));
    let bare = median((0..rounds).map(|_| per_record(socket(bytes, direction))).skip(1));
    println!(
        "{name} {payload} B: {leg:.1} ns of processor time a record ({:.2} M records per processor second, {:.2} M/s), \
         bare socket: {bare:.1} ns, ratio {:.1}",
        1e3 / leg,
        1e3 / wall,
        leg / bare
    );
}

fn median(rounds: impl Iterator<Item = f64>) -> f64 {
    let mut rounds: Vec<_> = rounds.collect();
    rounds.sort_by(f64::total_cmp);
    rounds[rounds.len() / 2]
}

/// Sends records to a service and receives them again.
fn round(payload: usize, records: u64) -> (Took, Took) {
    let (started, starts) = std::sync::mpsc::channel();
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let thread = std::thread::Builder::new().name("service".to_owned());
    let service = thread.spawn(move || {
        runtime().block_on(async {
            let mut hub = HubConfig::new("events", PARTITIONS as u16);
            hub.log.get_or_insert_default().bytes = units::ByteSize::from_mebibytes(64);
            let config = ServiceConfig::loopback(NamespaceConfig::with_hubs(vec![hub])).and(Protocol::Kafka);
            let service = Service::start(config).await.expect("a service on a free port");
            let address = service.address(Protocol::Kafka).expect("it speaks Kafka");
            let password = service.connection_string(None).reveal();
            started.send((address, password)).expect("the benchmark waits for it");
            // Ends when the benchmark drops its half, too.
            let _ = stopped.await;
            service.stop().await;
        });
    });
    let service = service.expect("a thread");
    let (address, password) = starts.recv().expect("the service starts");
    let properties = [
        ("bootstrap.servers", address.to_string()),
        ("security.protocol", "sasl_plaintext".to_owned()),
        ("sasl.username", "$ConnectionString".to_owned()),
        ("sasl.password", password),
    ];
    let options = KafkaOptions::new("events", Properties::from_iter(properties));
    let times = runtime().block_on(async {
        let produced = produce(&options, payload, records).await;
        (produced, consume(&options, records).await)
    });
    drop(stop);
    service.join().expect("the service ends");
    times
}

async fn produce(options: &KafkaOptions, payload: usize, records: u64) -> Took {
    let mut sink = connect_sink(options).await.expect("a connection to send");
    let batch = batch(payload, (BATCH_BYTES / payload).min(BATCH));
    let events: Vec<u32> = (0..batch.len() as u32).collect();
    let batches = records / batch.len() as u64;
    let mut outcomes = Vec::new();
    let (mut sent, mut answered) = (0, 0);
    let (start, wall) = (processor_time(), Instant::now());
    poll_fn(|context| {
        loop {
            while sent < batches {
                let destination = (sent % u64::from(PARTITIONS)) as u32;
                let outgoing = OutgoingBatch::new(destination, &batch, &events);
                if sink.send(SendToken(sent), outgoing).is_err() {
                    break;
                }
                sent += 1;
            }
            let polled = sink.poll_outcomes(context, &mut outcomes);
            answered += outcomes.len() as u64;
            assert!(outcomes.drain(..).all(|outcome| outcome.result.is_ok()));
            if answered == batches {
                return Poll::Ready(());
            }
            match polled {
                Poll::Ready(polled) => polled.expect("the connection lasts"),
                Poll::Pending if sent == batches => return Poll::Pending,
                Poll::Pending => ready!(sink.poll_ready(context)).expect("the connection lasts"),
            }
        }
    })
    .await;
    Took { processor: processor_time() - start, wall: wall.elapsed() }
}

async fn consume(options: &KafkaOptions, records: u64) -> Took {
    let batch = BatchOptions { max_events: BATCH, max_wait: Duration::from_millis(10) };
    let source_options = SourceOptions { batch, prefetch: 4 * BATCH };
    let connecting = connect_source(options, source_options, Encoding::Kafka);
    let mut source = connecting.await.expect("a connection to receive");
    for partition in source.partitions() {
        source.open(partition, StartPosition::Earliest);
    }
    let mut received = 0;
    let (start, wall) = (processor_time(), Instant::now());
    while received < records {
        match poll_fn(|context| source.poll_batch(context)).await {
            Ok(SourceEvent::Batch(batch)) => {
                received += batch.len() as u64;
                source.release(black_box(batch));
            }
            other => panic!("a batch, not {other:?}"),
        }
    }
    Took { processor: processor_time() - start, wall: wall.elapsed() }
}

/// Records without key and headers, as they come from a source.
fn batch(payload: usize, count: usize) -> EventBatch {
    let mut tail = Vec::new();
    kafka::record::encode_tail(&mut tail, None, Some(&vec![7; payload]), std::iter::empty());
    let chunk = Bytes::from(tail.repeat(count));
    let length = tail.len() as u32;
    let mut batch = EventBatch::default();
    batch.extend(
        &chunk,
        (0..count as u32).map(|number| EventParts {
            message: number * length..(number + 1) * length,
            partition_key: 0..0,
            offset: 0..0,
            sequence_number: number.into(),
            enqueued_time: EnqueuedTime::from_unix_ms(1_700_000_000_000 + i64::from(number / 100)),
        }),
    );
    batch.set_encoding(Encoding::Kafka);
    batch
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime")
}

const PARTITIONS: u32 = 32;
/// Records of a batch, and bytes that it has at the most.
const BATCH: usize = 1_024;
const BATCH_BYTES: usize = 512 * 1024;
