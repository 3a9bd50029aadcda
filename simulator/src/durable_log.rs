//! A partition log whose end may not be on disk yet: what a crash leaves of it is what was committed, and perhaps more.

use std::sync::Arc;

use bytes::Bytes;
use partition_log::UnixTime;
use partition_log::{BlockPool, Cursor, Edge, LogLimits, NewRecord, PartitionLog, Start};

/// One partition of a hub: the real log, and how much of it a crash cannot take.
#[derive(Debug)]
pub(crate) struct DurableLog {
    log: PartitionLog,
    pool: Arc<BlockPool>,
    /// The number of the first record that is not committed.
    committed: u64,
    /// The number of the next record.
    end: u64,
}

/// One record as a reader gets it.
#[derive(Clone, Debug)]
pub(crate) struct Stored {
    pub(crate) sequence_number: u64,
    pub(crate) message: Bytes,
}

impl DurableLog {
    pub(crate) fn new(pool: &Arc<BlockPool>) -> Self {
        Self {
            log: PartitionLog::new(LogLimits::default(), Arc::clone(pool)),
            pool: Arc::clone(pool),
            committed: 0,
            end: 0,
        }
    }

    /// Appends the messages as one batch, not committed yet.
    pub(crate) fn append<'a>(&mut self, now_ms: u64, messages: impl Iterator<Item = &'a [u8]>) {
        let appended = self
            .log
            .append::<()>(time(now_ms), |encoder| {
                for message in messages {
                    encoder.push(&NewRecord { annotation_count: 0, annotations: &[], sections: &[message] });
                }
                Ok(())
            })
            .expect("a history is far smaller than a log's limits");
        self.end += u64::from(appended.record_count);
    }

    /// The number of the next record.
    pub(crate) fn end(&self) -> u64 {
        self.end
    }

    /// The number of the first record that is not committed.
    pub(crate) fn committed(&self) -> u64 {
        self.committed
    }

    /// Everything before `end` is on disk. Returns the records that were not before.
    pub(crate) fn commit(&mut self, end: u64) -> Vec<Stored> {
        let before = self.committed;
        self.committed = before.max(end.min(self.end));
        self.records(before, self.committed)
    }

    /// Everything from `end` on is gone, which must not be committed.
    pub(crate) fn crash(&mut self, end: u64) {
        assert!((self.committed..=self.end).contains(&end), "a crash does not take what is committed");
        let kept = self.records(0, end);
        self.log = PartitionLog::new(LogLimits::default(), Arc::clone(&self.pool));
        self.end = 0;
        if !kept.is_empty() {
            self.append(0, kept.iter().map(|record| &record.message[..]));
        }
        assert_eq!(self.end, end, "all that is kept was read");
    }

    /// The records from `start` up to and without `end`.
    pub(crate) fn records(&self, start: u64, end: u64) -> Vec<Stored> {
        let mut records = Vec::new();
        if start >= end {
            return records;
        }
        let mut cursor: Cursor = self
            .log
            .position(Start::SequenceNumber(start, Edge::Inclusive))
            .expect("only records that are there are asked for");
        while let Some(chunk) = self.log.read(&mut cursor, READ_BYTES) {
            for record in chunk.records() {
                if record.sequence_number >= end {
                    return records;
                }
                records.push(Stored {
                    sequence_number: record.sequence_number,
                    message: Bytes::copy_from_slice(record.sections),
                });
            }
        }
        records
    }
}

fn time(now_ms: u64) -> UnixTime {
    UnixTime::from_milliseconds(i64::try_from(now_ms).unwrap_or(i64::MAX))
}

/// Small, so that a reading takes several chunks now and then.
const READ_BYTES: usize = 512;
