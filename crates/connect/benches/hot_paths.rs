//! What a source pays per event, and a checkpoint in a file costs.
//!
//! * `push`: an event into its batch, through the builder, the partitions taking turns and eight events in a row from
//!   each chunk; beside it the plain loop that copies the same 40 bytes per event, as the reference.
//! * `update_checkpoint`: one writing in a file, the partitions taking turns; beside it a bare `pwrite` of as many bytes.
//!
//! Medians of rounds, the first thrown away. `PARSHALL_BENCH_QUICK=1` runs tiny rounds, to see that it still works.

#![expect(clippy::print_stdout, reason = "a benchmark prints its result")]

use std::hint::black_box;
use std::os::unix::fs::FileExt;
use std::time::{Duration, Instant};

use bytes::Bytes;
use connect::batch_builder::BatchBuilder;
use connect::checkpoint::{Checkpoint, CheckpointStore, ConsumerGroup, FileCheckpointStore};
use connect::event::{EnqueuedTime, EventParts, PartitionId};
use connect::source::BatchOptions;

fn main() {
    let quick = std::env::var_os("PARSHALL_BENCH_QUICK").is_some();
    let (events, writings, rounds) = if quick { (1 << 12, 64, 2) } else { (1 << 23, 40_000, 6) };
    print("push", "copy of 40 bytes", rounds, events, pushed, copied);
    print("update_checkpoint", "pwrite of 256 bytes", rounds, writings, checkpointed, written);
}

fn print(
    name: &str,
    reference: &str,
    rounds: usize,
    count: u64,
    leg: fn(u64) -> Duration,
    bare: fn(u64) -> Duration,
) {
    let (mut legs, mut bares) = (Vec::new(), Vec::new());
    for _ in 0..rounds {
        legs.push(leg(count).as_nanos() as f64 / count as f64);
        bares.push(bare(count).as_nanos() as f64 / count as f64);
    }
    let (leg, bare) = (median(&mut legs[1..]), median(&mut bares[1..]));
    println!("{name}: {leg:.1} ns, {reference}: {bare:.1} ns, ratio {:.1}", leg / bare);
}

fn median(rounds: &mut [f64]) -> f64 {
    rounds.sort_by(f64::total_cmp);
    rounds[rounds.len() / 2]
}

fn parts(number: u64) -> EventParts {
    // Sixteen bytes of message in a chunk of eight events.
    let start = (number % 8) as u32 * 16;
    EventParts {
        message: start..start + 16,
        partition_key: 0..0,
        offset: 0..0,
        sequence_number: number as i64,
        enqueued_time: EnqueuedTime::from_unix_ms(number as i64),
    }
}

fn pushed(events: u64) -> Duration {
    let options = BatchOptions { max_events: 128, max_wait: Duration::from_millis(10) };
    let mut builder = BatchBuilder::new(options, PARTITIONS);
    let chunks: Vec<Bytes> = (0..64).map(|_| Bytes::from(vec![1; 128])).collect();
    let now = Instant::now();
    let begin = Instant::now();
    for number in 0..events {
        let run = number / 8;
        let chunk = &chunks[run as usize % chunks.len()];
        builder.push(now, PartitionId(run as u32 % PARTITIONS), chunk, &parts(number));
        while let Some(batch) = builder.pop_sealed() {
            builder.recycle(black_box(batch));
        }
    }
    begin.elapsed()
}

fn copied(events: u64) -> Duration {
    let mut batches: Vec<Vec<[u64; 5]>> = (0..PARTITIONS).map(|_| Vec::with_capacity(128)).collect();
    let begin = Instant::now();
    for number in 0..events {
        let batch = &mut batches[(number / 8) as usize % PARTITIONS as usize];
        if batch.len() == 128 {
            black_box(&*batch);
            batch.clear();
        }
        batch.push(black_box([number; 5]));
    }
    begin.elapsed()
}

fn checkpointed(writings: u64) -> Duration {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let store = FileCheckpointStore::open(folder.path()).expect("a folder that can be written");
    let group = ConsumerGroup::new("example.servicebus.windows.net", "orders", "$Default");
    let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
    runtime.block_on(async {
        let begin = Instant::now();
        for number in 0..writings {
            let checkpoint = Checkpoint {
                group: group.clone(),
                partition: PartitionId(number as u32 % PARTITIONS),
                sequence_number: Some(number as i64),
                offset: Some(number.to_string()),
                log_id: None,
                etag: None,
            };
            store.update_checkpoint(checkpoint).await.expect("written");
        }
        begin.elapsed()
    })
}

fn written(writings: u64) -> Duration {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let file = std::fs::File::create(folder.path().join("file")).expect("a file that can be written");
    let begin = Instant::now();
    for number in 0..writings {
        file.write_all_at(&[b' '; 256], number % 2 * 256).expect("written");
    }
    begin.elapsed()
}

const PARTITIONS: u32 = 32;
