//! Reading the journal at the start.
//!
//! A decision that is lost could leave a transaction committed in one partition and aborted in the next, and an offset that is
//! lost makes a group read again what it has read. So what is damaged refuses the start, and says what can be done. What a crash
//! has left at the end was never acknowledged, and is cut off when the log is opened.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::task::{Context, Wake, Waker};
use std::thread::{self, Thread};

use partition_log::disk::Damage;
use partition_log::{PartitionLog, PositionError, Readiness, Start, Subscriber};

use super::record::Record;

/// Why a journal can't be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum JournalError {
    #[error(transparent)]
    Position(#[from] PositionError),
    #[error(
        "{}: {damage}; it has the offsets of Kafka's consumer groups and their transactions: restore the damaged file, or move \
         the folder away to begin without any", path.display()
    )]
    Damaged { path: PathBuf, damage: Damage },
    #[error("the data directory can't be made to hold it: {0}")]
    Admission(String),
    #[error("{}: record {record} is of an unknown type; a newer version may have written it", path.display())]
    Record { path: PathBuf, record: u64 },
}

/// Gives all records to `each`, in their order, a segment in memory at a time.
pub(super) fn read(
    log: &Arc<PartitionLog>,
    path: &Path,
    mut each: impl FnMut(Record<'_>),
) -> Result<(), JournalError> {
    let end = log.stats().last_sequence_number.map_or(0, |last| last + 1);
    let subscriber = Subscriber::new();
    let mut subscription = log.subscribe(&subscriber, 0);
    let mut cursor = log.position(Start::Earliest)?;
    let mut next = log.stats().begin_sequence_number;
    while next < end {
        if let Some(chunk) = log.read(&mut cursor, usize::MAX) {
            for record in chunk.records() {
                let number = record.sequence_number;
                let unknown = || JournalError::Record { path: path.to_owned(), record: number };
                each(Record::decode(record.sections).ok_or_else(unknown)?);
                next = number + 1;
            }
            // It was the whole rest of a segment.
            drop(chunk);
            log.release_memory();
            continue;
        }
        match subscription.arm(&cursor) {
            Readiness::Ready => {}
            Readiness::Waiting => wait(&subscriber),
            Readiness::Damaged(damage) => {
                return Err(JournalError::Damaged { path: path.to_owned(), damage });
            }
        }
    }
    Ok(())
}

/// Waits until the subscriber is told of something.
fn wait(subscriber: &Subscriber) {
    struct Unpark(Thread);
    impl Wake for Unpark {
        fn wake(self: Arc<Self>) {
            self.0.unpark();
        }
    }
    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    let mut context = Context::from_waker(&waker);
    while subscriber.poll_ready(&mut context, &mut Vec::new()).is_pending() {
        thread::park();
    }
}
