//! The journal of the coordinators of groups and transactions: offsets, members, and transactions.
//!
//! ```text
//!  groups ────────┐  records   ┌─────────────┐
//!                 ├───────────▶│ PartitionLog │──▶ committer ──▶ segments in `kafka/`
//!  transactions ──┘            └─────────────┘
//!                     account: what holds, all of it ──▶ a segment of its own; then those before it go
//! ```
//!
//! The log is the one that hubs have, with the same committer, policies of syncing and recovery. It is read at the start only,
//! and its memory let go of. What is appended at once is one batch: after a crash all of it is there or nothing.
//!
//! Most of what is told is soon told again. When the journal is longer than twice what holds, and a slack, the coordinators
//! give an account: they write again all that holds. As each record stands for itself, a crash in between is harmless. What
//! comes before the account is dropped when the account is on disk. Where nothing is kept on disk, nothing is written.

mod consumer_group;
mod generation;
mod reading;
mod record;
#[cfg(test)]
mod tests;

use std::convert::Infallible;
use std::fmt;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use partition_log::disk::{CommitNumber, Unavailable};
use partition_log::{AppendError, NewRecord, PartitionLog, UnixTime};

pub(crate) use consumer_group::{ConsumerGroupRecord, ConsumerMemberRecord, MemberProgress};
pub(crate) use generation::{GenerationRecord, GenerationState, MemberRecord};
pub(crate) use reading::JournalError;
pub(crate) use record::{OffsetRecord, Record, TransactionRecord};

/// See the module.
#[derive(Debug)]
pub(crate) struct Journal {
    kept: Option<Kept>,
}

/// The log of a journal, and what it takes to use it.
#[derive(Debug)]
pub(crate) struct JournalLog {
    pub(crate) log: Arc<PartitionLog>,
    /// Where it is.
    pub(crate) path: PathBuf,
    /// What has to be done before the first record is written.
    pub(crate) admission: Admission,
    /// How much longer than twice of what holds the journal may be, in bytes.
    pub(crate) slack: u64,
}

/// Lets a data directory hold the journal. Once that is so, this costs nothing.
pub(crate) struct Admission(pub(crate) Box<dyn Fn() -> Result<(), String> + Send + Sync>);

#[derive(Debug)]
struct Kept {
    place: JournalLog,
    /// The number of the next record. The log itself says only what is committed.
    next_record: AtomicU64,
    account: Mutex<Account>,
}

/// How it stands with accounts.
#[derive(Debug, Default)]
struct Account {
    /// Bytes of the last one.
    bytes: u64,
    /// One that is written and may not be on disk yet: the number of its first record, and the one after its last.
    written: Option<(u64, u64)>,
}

/// An account that is being given.
#[derive(Debug)]
#[must_use]
pub(crate) struct AccountBegun {
    begin: u64,
}

/// Why nothing was written.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Refused {
    #[error(transparent)]
    Unavailable(Unavailable),
    #[error("the data directory can't be made to hold it: {0}")]
    Admission(String),
    #[error("it is longer than a batch can be")]
    TooLong,
}

impl Journal {
    /// One that keeps nothing.
    pub(crate) const fn in_memory() -> Self {
        Self { kept: None }
    }

    /// The journal at `place`, with everything that it tells given to `each`, in order.
    ///
    /// # Errors
    /// It is damaged, or a newer version has written it.
    pub(crate) fn open(place: JournalLog, each: impl FnMut(Record<'_>)) -> Result<Self, JournalError> {
        reading::read(&place.log, &place.path, each)?;
        let last = place.log.stats().last_sequence_number;
        if last.is_some() {
            (place.admission.0)().map_err(JournalError::Admission)?;
        }
        let next_record = AtomicU64::new(last.map_or(0, |last| last + 1));
        Ok(Self { kept: Some(Kept { place, next_record, account: Mutex::default() }) })
    }

    /// Has the data directory hold the journal. To be called before anything new is written, and not while someone waits who deletes
    /// a hub.
    pub(crate) fn admit(&self) -> Result<(), Refused> {
        match &self.kept {
            Some(kept) => (kept.place.admission.0)().map_err(Refused::Admission),
            None => Ok(()),
        }
    }

    /// Writes these records as one. It was [admitted](Self::admit).
    pub(crate) fn append(&self, now: UnixTime, records: &[Record<'_>]) -> Result<CommitNumber, Refused> {
        let Some(kept) = &self.kept else {
            return Ok(CommitNumber::DONE);
        };
        if records.is_empty() {
            return Ok(CommitNumber::DONE);
        }
        let mut bytes = Vec::with_capacity(128);
        let appended = kept.place.log.append::<Infallible>(now, |encoder| {
            for record in records {
                bytes.clear();
                record.encode(&mut bytes);
                encoder.push(&NewRecord { annotation_count: 0, annotations: &[], sections: &[&bytes] });
            }
            Ok(())
        });
        match appended {
            Ok(appended) => {
                let next = appended.first_sequence_number + u64::from(appended.record_count);
                kept.next_record.fetch_max(next, Ordering::Relaxed);
                Ok(appended.commit)
            }
            Err(AppendError::Unavailable(reason)) => Err(Refused::Unavailable(reason)),
            Err(AppendError::TooLong | AppendError::Full { .. } | AppendError::TotalReached { .. }) => {
                Err(Refused::TooLong)
            }
            Err(AppendError::Encoding(never)) => match never {},
        }
    }

    /// Writes these records in batches of a bounded size: for those that need not stand or fall together.
    pub(crate) fn append_each(&self, now: UnixTime, records: &[Record<'_>]) -> Result<(), Refused> {
        let is_alone =
            |record: &Record<'_>| matches!(record, Record::Generation(_) | Record::ConsumerMember(_));
        records
            .chunk_by(|a, b| !is_alone(a) && !is_alone(b))
            .flat_map(|records| records.chunks(RECORDS_AT_ONCE))
            .try_for_each(|records| self.append(now, records).map(drop))
    }

    /// Bytes that it has on disk, or will have.
    pub(crate) fn bytes(&self) -> u64 {
        self.kept.as_ref().map_or(0, |kept| kept.place.log.stats().bytes)
    }

    /// Drops what an account has made superfluous, lets go of memory, and begins an account if it is time for one. The
    /// coordinators then give it, and [end](Self::end_account) it.
    pub(crate) fn tidy(&self) -> Option<AccountBegun> {
        let kept = self.kept.as_ref()?;
        let log = &kept.place.log;
        log.release_memory();
        let mut account = kept.lock();
        if let Some((begin, end)) = account.written {
            if log.on_disk_before() < end {
                return None;
            }
            log.drop_before(begin);
            account.written = None;
        }
        let is_long = log.stats().bytes > 2 * account.bytes + kept.place.slack;
        is_long.then(|| {
            let begin = kept.next_record();
            // So that the account is in segments of its own.
            log.complete_last();
            AccountBegun { begin }
        })
    }

    /// The account is given: everything that holds was written since it was begun.
    pub(crate) fn end_account(&self, begun: &AccountBegun) {
        if let Some(kept) = &self.kept {
            let log = &kept.place.log;
            // What was written besides while the account was given counts with it, which makes the next one later.
            let bytes = log.bytes_since(begun.begin);
            let end = kept.next_record();
            // So that it is on disk as a whole, although nothing may follow.
            log.complete_last();
            *kept.lock() = Account { bytes, written: Some((begun.begin, end)) };
        }
    }
}

impl Kept {
    fn next_record(&self) -> u64 {
        self.next_record.load(Ordering::Relaxed)
    }

    fn lock(&self) -> MutexGuard<'_, Account> {
        // Locked sections assign whole values.
        self.account.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Admission {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Admission")
    }
}

/// Records of an account that make one batch: some hundred kilobytes.
const RECORDS_AT_ONCE: usize = 4_096;

/// How much longer than twice of what holds a journal may be: some tens of thousands of commits.
pub(crate) const SLACK: u64 = 4 * 1024 * 1024;
