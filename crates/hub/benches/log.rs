//! What appending to and reading from the partition log costs, beside copying the same bytes.
//!
//! Each figure is the median of several rounds, with the smallest and largest, and is printed with the ratio to a
//! reference of the same run: a plain copy of the same record bytes, in pieces of the same size, into memory of the
//! same size that has been touched before. Pairs differ in one thing:
//!
//! * `append 4 x 16 B` and `append 64 x 16 B` give the cost of a batch and of one more record in it.
//! * `append 1 x 1 KiB` and `append 16 x 1 KiB` the same where copying and the checksum dominate.
//! * `append 4 x 16 B, fresh memory` is the first case without recycled blocks.
//! * `read 16 B` and `read 1 KiB` take chunks of 64 KiB and look at every record, and at a byte of each.
//!
//! Batches go round 32 logs, as from a hub with 32 partitions. `cargo bench -p hub` runs it in full; under
//! `cargo test --benches`, or with `PARSHALL_BENCH_QUICK` set, it only shows that it works.

#![expect(clippy::print_stdout, reason = "a benchmark prints its figures")]

use hub::UnixTime;
use hub::log::{BlockPool, LogLimits, NewRecord, PartitionLog, Start, WhenFull};
use std::hint::black_box;
use std::sync::Arc;
use std::time::Instant;
use units::ByteSize;

const LOGS: usize = 32;
const NOW: UnixTime = UnixTime::from_milliseconds(1_000_000);
/// The encoded form of a data section's descriptor and length for a short payload.
const DATA_SECTION: [u8; 5] = [0x00, 0x53, 0x75, 0xa0, 16];

fn main() {
    let in_full = std::env::args().any(|argument| argument == "--bench")
        && std::env::var_os("PARSHALL_BENCH_QUICK").is_none();
    let size = match in_full {
        true => Size {
            rounds: 7,
            record_bytes: 192 << 20,
            log_bytes: ByteSize::from_mebibytes(8),
        },
        false => Size {
            rounds: 1,
            record_bytes: 1 << 20,
            log_bytes: ByteSize::from_mebibytes(2),
        },
    };
    println!(
        "{:<32}{:>26}{:>14}{:>12}",
        "case", "ns [min-max]", "copy, ns", "ratio"
    );
    let small_batch = append("append 4 x 16 B, per batch", &size, 4, 16, Memory::Recycled);
    let large_batch = append(
        "append 64 x 16 B, per batch",
        &size,
        64,
        16,
        Memory::Recycled,
    );
    println!(
        "{:<32}{:>26.1}",
        "  one more 16 B record",
        (large_batch - small_batch) / 60.0
    );
    append("append 4 x 16 B, fresh memory", &size, 4, 16, Memory::Fresh);
    append(
        "append 1 x 1 KiB, per batch",
        &size,
        1,
        1024,
        Memory::Recycled,
    );
    append(
        "append 16 x 1 KiB, per batch",
        &size,
        16,
        1024,
        Memory::Recycled,
    );
    append(
        "append 16 x 1 KiB, fresh memory",
        &size,
        16,
        1024,
        Memory::Fresh,
    );
    read("read 16 B, per record", &size, 4, 16);
    read("read 1 KiB, per record", &size, 4, 1024);
}

struct Size {
    rounds: usize,
    /// Bytes of payload per round.
    record_bytes: usize,
    /// The bound of each log.
    log_bytes: ByteSize,
}

/// Where blocks come from.
#[derive(Clone, Copy, PartialEq)]
enum Memory {
    Recycled,
    Fresh,
}

fn logs(size: &Size, memory: Memory) -> Vec<PartitionLog> {
    let pool = BlockPool::new(match memory {
        Memory::Recycled => ByteSize::from_mebibytes(256),
        Memory::Fresh => ByteSize::ZERO,
    });
    let limits = LogLimits {
        bytes: size.log_bytes,
        when_full: WhenFull::Retention,
        retention: None,
    };
    (0..LOGS)
        .map(|_| PartitionLog::new(limits, Arc::clone(&pool)))
        .collect()
}

fn append_round(logs: &[PartitionLog], batches: usize, records: usize, payload: &[u8]) {
    let sections = [&DATA_SECTION[..], payload];
    let record = NewRecord {
        annotation_count: 0,
        annotations: &[],
        sections: &sections,
    };
    for batch in 0..batches {
        let appended = logs[batch % LOGS].append::<()>(NOW, |encoder| {
            for _ in 0..records {
                encoder.push(black_box(&record));
            }
            Ok(())
        });
        black_box(appended).expect("a log with retention is never full");
    }
}

fn append(case: &str, size: &Size, records: usize, payload: usize, memory: Memory) -> f64 {
    let payload = vec![7_u8; payload];
    let record_length = payload.len() + DATA_SECTION.len() + 3;
    let batches = size.record_bytes / (record_length * records);
    let recycled = logs(size, memory);
    if memory == Memory::Recycled {
        append_round(
            &recycled,
            batches.max(LOGS * size.log_bytes.as_usize() / record_length / records),
            records,
            &payload,
        );
    }
    let mut ring = vec![1_u8; LOGS * size.log_bytes.as_usize()];
    let mut own = Vec::new();
    let mut reference = Vec::new();
    for _ in 0..size.rounds {
        let fresh = (memory == Memory::Fresh).then(|| logs(size, memory));
        own.push(nanoseconds(batches, || {
            append_round(
                fresh.as_ref().unwrap_or(&recycled),
                batches,
                records,
                &payload,
            )
        }));
        reference.push(nanoseconds(batches, || {
            copy_round(&mut ring, batches, records, &payload)
        }));
    }
    report(case, &mut own, &mut reference)
}

/// Copies what `append_round` appends, into a place in the ring for each log.
fn copy_round(ring: &mut [u8], batches: usize, records: usize, payload: &[u8]) {
    let record_length = payload.len() + DATA_SECTION.len() + 3;
    let each = ring.len() / LOGS;
    let mut positions = [0; LOGS];
    for batch in 0..batches {
        let log = batch % LOGS;
        if positions[log] + records * record_length > each {
            positions[log] = 0;
        }
        for _ in 0..records {
            let at = log * each + positions[log];
            ring[at..at + DATA_SECTION.len()].copy_from_slice(black_box(&DATA_SECTION));
            ring[at + 8..at + 8 + payload.len()].copy_from_slice(black_box(payload));
            positions[log] += record_length;
        }
    }
    black_box(ring);
}

fn read(case: &str, size: &Size, records: usize, payload: usize) {
    let payload = vec![7_u8; payload];
    let logs = logs(size, Memory::Recycled);
    let record_length = payload.len() + DATA_SECTION.len() + 3;
    append_round(
        &logs,
        LOGS * size.log_bytes.as_usize() / record_length / records,
        records,
        &payload,
    );
    let mut own = Vec::new();
    let mut reference = Vec::new();
    let mut target = vec![0_u8; 64 * 1024];
    for _ in 0..size.rounds {
        let mut count = 0;
        let started = Instant::now();
        for log in &logs {
            let mut cursor = log
                .position(Start::Earliest)
                .expect("there always is an earliest");
            while let Some(chunk) = log.read(&mut cursor, target.len()) {
                for record in chunk.records() {
                    black_box(record.sections.last());
                    count += 1;
                }
            }
        }
        own.push(started.elapsed().as_nanos() as f64 / f64::from(count));
        let started = Instant::now();
        for log in &logs {
            let mut cursor = log
                .position(Start::Earliest)
                .expect("there always is an earliest");
            while let Some(chunk) = log.read(&mut cursor, target.len()) {
                target[..chunk.bytes().len()].copy_from_slice(chunk.bytes());
                black_box(&target);
            }
        }
        reference.push(started.elapsed().as_nanos() as f64 / f64::from(count));
    }
    report(case, &mut own, &mut reference);
}

fn nanoseconds(operations: usize, work: impl FnOnce()) -> f64 {
    let started = Instant::now();
    work();
    started.elapsed().as_nanos() as f64 / operations as f64
}

fn report(case: &str, own: &mut [f64], reference: &mut [f64]) -> f64 {
    own.sort_by(f64::total_cmp);
    reference.sort_by(f64::total_cmp);
    let (median, copy) = (own[own.len() / 2], reference[reference.len() / 2]);
    let figure = format!("{median:.1} [{:.1}-{:.1}]", own[0], own[own.len() - 1]);
    println!("{case:<32}{figure:>26}{copy:>14.1}{:>11.1}x", median / copy);
    median
}
