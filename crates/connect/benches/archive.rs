//! What an archive of many events per file costs the thread that it runs on: processor time per event of 100 bytes, and how many events that
//! is in a second of it. Into a folder, by batches of 1,000, until everything is stored; threads that write are not counted.
//!
//! Medians of rounds, the first thrown away. `PARSHALL_BENCH_QUICK=1` runs tiny rounds, to see that it still works.

#![expect(clippy::print_stdout, reason = "a benchmark prints its result")]

use std::future::poll_fn;
use std::task::Poll;
use std::time::Duration;

use amqp::message::encode;
use bytes::Bytes;
use connect::archive::{self, ArchiveFiles, ArchiveOptions, ArchiveSource, FileFormat, Place, Rolling};
use connect::event::{EnqueuedTime, EventBatch, EventParts, PartitionId};
use connect::sink::{OutgoingBatch, SendToken, Sink};
use rustix::time::{ClockId, clock_gettime};
use units::ByteSize;

fn main() {
    let quick = std::env::var_os("PARSHALL_BENCH_QUICK").is_some();
    let (batches, rounds) = if quick { (3, 2) } else { (2_000, 6) };
    for (name, format) in
        [("ndjson", FileFormat::Ndjson), ("avro", FileFormat::Avro), ("parquet", FileFormat::Parquet)]
    {
        let mut took: Vec<f64> =
            (0..rounds).map(|_| round(format, batches).as_nanos() as f64).skip(1).collect();
        took.sort_by(f64::total_cmp);
        let each = took[took.len() / 2] / (batches * EVENTS) as f64;
        println!("{name}: {each:.0} ns per event, {:.2} M events/s of a core", 1_000.0 / each);
    }
}

/// Archives so many batches, and says how much processor time that took.
fn round(format: FileFormat, batches: i64) -> Duration {
    let folder = tempfile::tempdir().expect("a folder");
    let rolling = Rolling { format, size: ByteSize::from_mebibytes(64), ..Rolling::default() };
    let options = ArchiveOptions {
        files: ArchiveFiles::Rolled(rolling),
        ..ArchiveOptions::new(Place::Folder(folder.path().to_owned()))
    };
    let source = ArchiveSource { namespace: "localhost".to_owned(), hub: "orders".to_owned() };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(async {
        let mut sink = archive::connect(&options, &source).await.expect("a folder can be written to");
        let all: Vec<u32> = (0..EVENTS as u32).collect();
        let mut batch = EventBatch::with_capacity(PartitionId(0), all.len());
        let mut took = Duration::ZERO;
        for number in 0..batches {
            fill(&mut batch, number * EVENTS);
            let began = processor_time();
            send(&mut *sink, OutgoingBatch::new(0, &batch, &all)).await;
            took += processor_time() - began;
        }
        sink.flush(PartitionId(0));
        let began = processor_time();
        let mut through = 0;
        poll_fn(|context| {
            let mut stored = Vec::new();
            assert!(sink.poll_outcomes(context, &mut Vec::new()).is_pending(), "nothing is under way");
            sink.take_stored(&mut stored);
            if let Some(last) = stored.pop() {
                through = last.result.expect("a folder can be written to").sequence_number;
            }
            if through == batches * EVENTS - 1 { Poll::Ready(()) } else { Poll::Pending }
        })
        .await;
        took + (processor_time() - began)
    })
}

async fn send(sink: &mut dyn Sink, outgoing: OutgoingBatch<'_>) {
    while sink.send(SendToken(0), outgoing).is_err() {
        poll_fn(|context| sink.poll_ready(context)).await.expect("a folder can be written to");
    }
    let mut outcomes = Vec::new();
    poll_fn(|context| sink.poll_outcomes(context, &mut outcomes)).await.expect("a folder can be written to");
    assert!(outcomes[0].result.is_ok(), "every event can be read");
}

/// Fills a batch as a source does: bodies of 100 bytes, with the offsets of the service.
fn fill(batch: &mut EventBatch, first: i64) {
    batch.clear(PartitionId(0));
    let mut chunk = b"1234567890".to_vec();
    encode::data(&mut chunk, &[b'x'; 100]);
    let message = 10..chunk.len() as u32;
    let chunk = Bytes::from(chunk);
    for number in first..first + EVENTS {
        let parts = EventParts {
            message: message.clone(),
            partition_key: 0..0,
            offset: 0..10,
            sequence_number: number,
            enqueued_time: EnqueuedTime::from_unix_ms(1_795_213_063_000 + number / 100),
        };
        batch.push(&chunk, &parts);
    }
}

fn processor_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

const EVENTS: i64 = 1_000;
