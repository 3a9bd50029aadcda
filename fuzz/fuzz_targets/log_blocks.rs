//! Appends to an in-memory log, reads it and keeps chunks in any order, while blocks are written on and reused. A chunk holds the
//! records appended at its sequence numbers, when it is read and as long as it is kept.
//!
//! Blocks are the only unsafe code of a log. This target runs it under AddressSanitizer.
#![no_main]

use std::collections::VecDeque;
use std::convert::Infallible;

use libfuzzer_sys::fuzz_target;
use partition_log::{BlockPool, LogChunk, LogLimits, NewRecord, PartitionLog, Start, UnixTime, WhenFull};
use units::ByteSize;

fuzz_target!(|steps: Vec<[u8; 3]>| {
    let limits =
        LogLimits { bytes: ByteSize::from_kibibytes(256), when_full: WhenFull::Retention, retention: None };
    let log = PartitionLog::new(limits, BlockPool::new(ByteSize::from_kibibytes(256)));
    let mut cursor = log.position(Start::Earliest).expect("every log has a beginning");
    // Length of each record in bytes, by sequence number.
    let mut lengths: Vec<usize> = Vec::new();
    let mut kept: VecDeque<LogChunk> = VecDeque::new();
    for [action, first, second] in steps {
        let (first, second) = (usize::from(first), usize::from(second));
        match action % 6 {
            // Short records, long ones, and one that may outgrow a block.
            0 => append(&log, &mut lengths, first % 16, |index| (second + index) % 48),
            1 => append(&log, &mut lengths, first % 4, |index| second * 16 + index),
            2 => append(&log, &mut lengths, 1, |_| first * second),
            3 => refuse(&log, first),
            4 => {
                if let Some(chunk) = log.read(&mut cursor, first * 64) {
                    check(&chunk, &lengths);
                    kept.push_back(chunk);
                    while kept.len() > KEPT_MAX {
                        kept.pop_front();
                    }
                }
            }
            _ if second % 2 == 0 => drop(kept.remove(first % KEPT_MAX)),
            _ => cursor = log.position(Start::Earliest).expect("every log has a beginning"),
        }
    }
    drop(log);
    kept.iter().for_each(|chunk| check(chunk, &lengths));
});

const KEPT_MAX: usize = 8;

fn append(log: &PartitionLog, lengths: &mut Vec<usize>, count: usize, length: impl Fn(usize) -> usize) {
    let bodies: Vec<Vec<u8>> =
        (0..count).map(|index| body((lengths.len() + index) as u64, length(index))).collect();
    lengths.extend(bodies.iter().map(Vec::len));
    let appended = log.append::<Infallible>(UnixTime::MIN, |encoder| {
        for body in &bodies {
            encoder.push(&NewRecord { annotation_count: 0, annotations: &[], sections: &[body] });
        }
        Ok(())
    });
    assert!(appended.is_ok(), "{appended:?}");
}

/// Abandons a batch that was partly written.
fn refuse(log: &PartitionLog, length: usize) {
    let body = vec![0xff; length * 16];
    let refused = log.append(UnixTime::MIN, |encoder| {
        encoder.push(&NewRecord { annotation_count: 0, annotations: &[], sections: &[&body] });
        Err(())
    });
    assert!(refused.is_err());
}

fn check(chunk: &LogChunk, lengths: &[usize]) {
    for record in chunk.records() {
        let expected = body(record.sequence_number, lengths[record.sequence_number as usize]);
        assert_eq!(record.sections, expected, "record {}", record.sequence_number);
    }
}

/// Returns the bytes of a record, which differ from those of its neighbours.
fn body(sequence_number: u64, length: usize) -> Vec<u8> {
    (0..length).map(|at| (sequence_number as usize * 31 + at) as u8).collect()
}
