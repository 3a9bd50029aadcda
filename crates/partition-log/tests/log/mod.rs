//! The partition log through its public face: append and read, positions, limits, wake-ups, and a model.

mod append_and_read;
mod limits;
mod model;
mod position;
mod producers;
mod record_batches;
mod transactions;
mod wake_up;

use partition_log::UnixTime;
use partition_log::{Appended, BlockPool, Cursor, LogLimits, NewRecord, PartitionLog, WhenFull};
use std::sync::Arc;
use units::ByteSize;

/// A log of 64 MiB.
fn log() -> PartitionLog {
    limited(LogLimits::default())
}

fn limited(limits: LogLimits) -> PartitionLog {
    PartitionLog::new(limits, BlockPool::new(ByteSize::from_mebibytes(1)))
}

fn limits(bytes: ByteSize, when_full: WhenFull) -> LogLimits {
    LogLimits { bytes, when_full, retention: None }
}

fn at(milliseconds: i64) -> UnixTime {
    UnixTime::from_milliseconds(milliseconds)
}

/// Appends one batch of records with these sections and no annotations.
fn append(log: &PartitionLog, milliseconds: i64, records: &[&[u8]]) -> Appended {
    let result = log.append::<()>(at(milliseconds), |encoder| {
        for sections in records {
            encoder.push(&NewRecord { annotation_count: 0, annotations: &[], sections: &[sections] });
        }
        Ok(())
    });
    result.expect("there is room")
}

/// The number and sections of every record from `cursor` to the end.
fn rest(log: &PartitionLog, cursor: &mut Cursor) -> Vec<(u64, Vec<u8>)> {
    let mut records = Vec::new();
    while let Some(chunk) = log.read(cursor, 1000) {
        records.extend(chunk.records().map(|record| (record.sequence_number, record.sections.to_vec())));
    }
    records
}

fn arc(log: PartitionLog) -> Arc<PartitionLog> {
    Arc::new(log)
}
