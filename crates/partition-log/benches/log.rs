//! What appending to and reading from the partition log costs, beside copying the same bytes.
//!
//! Each figure is processor time, the median of several rounds, with the smallest and largest, and is printed with the ratio to a
//! reference of the same run: a plain copy of the same record bytes, in pieces of the same size, into memory of the
//! same size that has been touched before. Pairs differ in one thing:
//!
//! * `append 4 x 16 B` and `append 64 x 16 B`, per batch: the 60 records between them give the cost of one.
//! * `append 1 x 1 KiB` and `append 16 x 1 KiB` the same where copying and the checksum dominate.
//! * `append 4 x 16 B, fresh memory` is the first case without recycled blocks.
//! * `read 16 B` and `read 1 KiB` take chunks of 64 KiB and look at every record, and at a byte of each.
//!
//! Batches go round 32 logs, as from a hub with 32 partitions. `cargo bench -p hub` runs it in full; under
//! `cargo test --benches`, or with `PARSHALL_BENCH_QUICK` set, it only shows that it works. A word
//! on the command line selects the cases that have it in their name.

#![expect(clippy::print_stdout, reason = "a benchmark prints its figures")]

use partition_log::UnixTime;
use partition_log::{BlockPool, LogLimits, NewRecord, PartitionLog, Start, WhenFull};
use rustix::time::{ClockId, clock_gettime};
use std::hint::black_box;
use std::sync::Arc;
use units::ByteSize;

const LOGS: usize = 32;
const NOW: UnixTime = UnixTime::from_milliseconds(1_000_000);
/// The encoded form of a data section's descriptor and length for a short payload.
const DATA_SECTION: [u8; 5] = [0x00, 0x53, 0x75, 0xa0, 16];

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let in_full = arguments.iter().any(|argument| argument == "--bench")
        && std::env::var_os("PARSHALL_BENCH_QUICK").is_none();
    let size = match in_full {
        true => Size { rounds: 7, record_bytes: 192 << 20, log_bytes: ByteSize::from_mebibytes(16) },
        false => Size { rounds: 1, record_bytes: 1 << 20, log_bytes: ByteSize::from_mebibytes(2) },
    };
    let wanted = arguments.into_iter().find(|argument| !argument.starts_with('-')).unwrap_or_default();
    println!("{:<32}{:>26}{:>14}{:>12}", "case", "ns [min-max]", "copy, ns", "ratio");
    for case in CASES.iter().filter(|case| case.name.contains(&wanted)) {
        match case.operation {
            Operation::Append(memory) => append(case, &size, memory),
            Operation::Read => read(case, &size),
        }
    }
}

/// One line of the output. Appends are per batch, reads per record.
struct Case {
    name: &'static str,
    operation: Operation,
    records_per_batch: usize,
    payload_bytes: usize,
}

enum Operation {
    Append(Memory),
    Read,
}

/// Where blocks come from.
#[derive(Clone, Copy, PartialEq)]
enum Memory {
    Recycled,
    Fresh,
}

const fn case(
    name: &'static str,
    operation: Operation,
    records_per_batch: usize,
    payload_bytes: usize,
) -> Case {
    Case { name, operation, records_per_batch, payload_bytes }
}

const CASES: [Case; 8] = [
    case("append 4 x 16 B", Operation::Append(Memory::Recycled), 4, 16),
    case("append 64 x 16 B", Operation::Append(Memory::Recycled), 64, 16),
    case("append 4 x 16 B, fresh memory", Operation::Append(Memory::Fresh), 4, 16),
    case("append 1 x 1 KiB", Operation::Append(Memory::Recycled), 1, 1024),
    case("append 16 x 1 KiB", Operation::Append(Memory::Recycled), 16, 1024),
    case("append 16 x 1 KiB, fresh memory", Operation::Append(Memory::Fresh), 16, 1024),
    case("read 16 B", Operation::Read, 4, 16),
    case("read 1 KiB", Operation::Read, 4, 1024),
];

struct Size {
    rounds: usize,
    /// Bytes of payload per round.
    record_bytes: usize,
    /// The bound of each log.
    log_bytes: ByteSize,
}

fn logs(size: &Size, memory: Memory) -> Vec<PartitionLog> {
    let pool = BlockPool::new(match memory {
        Memory::Recycled => ByteSize::from_mebibytes(512),
        Memory::Fresh => ByteSize::ZERO,
    });
    let limits = LogLimits { bytes: size.log_bytes, when_full: WhenFull::Retention, retention: None };
    (0..LOGS).map(|_| PartitionLog::new(limits, Arc::clone(&pool))).collect()
}

fn append_round(logs: &[PartitionLog], batches: usize, records: usize, payload: &[u8]) {
    let sections = [&DATA_SECTION[..], payload];
    let record = NewRecord { annotation_count: 0, annotations: &[], sections: &sections };
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

fn append(case: &Case, size: &Size, memory: Memory) {
    let payload = vec![7_u8; case.payload_bytes];
    let records = case.records_per_batch;
    let batch_length = records * (payload.len() + DATA_SECTION.len() + 3);
    let batches = size.record_bytes / batch_length;
    let recycled = logs(size, memory);
    if memory == Memory::Recycled {
        // Twice through the bound, so that every block has been touched and used again.
        append_round(&recycled, 2 * LOGS * size.log_bytes.as_usize() / batch_length, records, &payload);
    }
    let mut ring = vec![1_u8; LOGS * size.log_bytes.as_usize()];
    let mut own = Vec::new();
    let mut reference = Vec::new();
    for _ in 0..size.rounds {
        let fresh = (memory == Memory::Fresh).then(|| logs(size, memory));
        own.push(nanoseconds(batches, || {
            append_round(fresh.as_ref().unwrap_or(&recycled), batches, records, &payload)
        }));
        reference.push(nanoseconds(batches, || copy_round(&mut ring, batches, records, &payload)));
    }
    report(case.name, &mut own, &mut reference);
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

fn read(case: &Case, size: &Size) {
    let payload = vec![7_u8; case.payload_bytes];
    let records = case.records_per_batch;
    let logs = logs(size, Memory::Recycled);
    let batch_length = records * (payload.len() + DATA_SECTION.len() + 3);
    append_round(&logs, LOGS * size.log_bytes.as_usize() / batch_length, records, &payload);
    let mut own = Vec::new();
    let mut reference = Vec::new();
    let mut target = vec![0_u8; 64 * 1024];
    for _ in 0..size.rounds {
        let mut count = 0;
        let started = cpu_time_ns();
        for log in &logs {
            let mut cursor = log.position(Start::Earliest).expect("there always is an earliest");
            while let Some(chunk) = log.read(&mut cursor, target.len()) {
                for record in chunk.records() {
                    black_box(record.sections.last());
                    count += 1;
                }
            }
        }
        own.push((cpu_time_ns() - started) / f64::from(count));
        let started = cpu_time_ns();
        for log in &logs {
            let mut cursor = log.position(Start::Earliest).expect("there always is an earliest");
            while let Some(chunk) = log.read(&mut cursor, target.len()) {
                target[..chunk.bytes().len()].copy_from_slice(chunk.bytes());
                black_box(&target);
            }
        }
        reference.push((cpu_time_ns() - started) / f64::from(count));
    }
    report(case.name, &mut own, &mut reference);
}

fn nanoseconds(operations: usize, work: impl FnOnce()) -> f64 {
    let started = cpu_time_ns();
    work();
    (cpu_time_ns() - started) / operations as f64
}

/// What this thread has used of a processor. Unlike the wall clock it stands while something else runs.
fn cpu_time_ns() -> f64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.tv_sec as f64 * 1e9 + time.tv_nsec as f64
}

fn report(case: &str, own: &mut [f64], reference: &mut [f64]) {
    own.sort_by(f64::total_cmp);
    reference.sort_by(f64::total_cmp);
    let (median, copy) = (own[own.len() / 2], reference[reference.len() / 2]);
    let figure = format!("{median:.1} [{:.1}-{:.1}]", own[0], own[own.len() - 1]);
    println!("{case:<32}{figure:>26}{copy:>14.1}{:>11.1}x", median / copy);
}
