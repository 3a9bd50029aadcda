//! The journal of transactions that span several entities.
//!
//! ```text
//!  part       1 │ transaction u64 │ entity │ a record of the entity's journal     and the bytes beside that
//!  forgotten  2 │ entity
//! ```
//!
//! Numbers are little-endian, `entity` is the name of its folder: its length as u32 and its bytes. What is drawn here is what the
//! log calls annotations of a record. A transaction is one batch.
//!
//! It is made with the first such transaction, and the committer writes it ahead of the entities' journals. At the start it is
//! read as a whole, and each entity, when it is opened, gets the records that it lacks. A segment goes when all that its
//! transactions did is on disk in the entities' own journals.

use super::Locked;
use crate::error::QueueError;
use crate::journal::{Journal, JournalError, PastRecord, Reader, put_text, read_all};
use crate::queue_store::QueueStore;
use partition_log::disk::{CommitNumber, Committer, PartitionDirectory, Presence, Unavailable};
use partition_log::{
    AppendError, BatchEncoder, BlockPool, LogLimits, NewRecord, PartitionLog, UnixTime, WhenFull,
};
use std::collections::{BTreeMap, HashSet, VecDeque};
use std::ffi::{OsStr, OsString};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Weak};
use units::ByteSize;

/// See the module.
#[derive(Debug)]
pub(crate) struct TransactionJournal {
    path: PathBuf,
    committer: Arc<Committer>,
    pool: Arc<BlockPool>,
    /// There is none before the first transaction.
    log: Option<Arc<PartitionLog>>,
    /// The number of the last transaction.
    last: u64,
    /// What was found at the start, by the folders of the entities that have not been opened yet.
    unclaimed: BTreeMap<String, Vec<PastRecord>>,
    /// Transactions whose parts may not be on disk, oldest first.
    written: VecDeque<Written>,
}

/// A transaction in the journal.
#[derive(Debug)]
struct Written {
    /// The number after its last record.
    end: u64,
    parts: Vec<WrittenPart>,
}

/// What a transaction did to one entity, in the journal of that.
#[derive(Debug)]
pub(super) struct WrittenPart {
    /// Of an entity that may be deleted, which nothing here is to keep.
    log: Weak<PartitionLog>,
    /// The number after the last record of it.
    end: u64,
    /// Whether it is there: what the disk does not take is written with what comes next.
    is_written: bool,
}

impl WrittenPart {
    /// What was just done to the entity of this journal.
    pub(super) fn new(journal: &Journal, is_written: bool) -> Self {
        let (log, end) = journal.end();
        Self { log: Arc::downgrade(&log), end, is_written }
    }

    /// Whether nothing of it is to be added at a start. That of an entity that was deleted isn't, either.
    fn is_on_disk(&mut self) -> bool {
        let Some(log) = self.log.upgrade().filter(|log| log.unavailable() != Some(Unavailable::Closed))
        else {
            return true;
        };
        if !self.is_written {
            let end = end_of(&log);
            self.is_written = end > self.end;
            self.end = end;
        }
        self.is_written && log.on_disk_before() >= self.end
    }

    /// Completes the segment that it is in.
    fn complete(&self) {
        if let Some(log) = self.log.upgrade() {
            log.complete_last();
        }
    }
}

impl TransactionJournal {
    /// The journal in the directory of a store, in which these are `present`.
    ///
    /// # Errors
    /// It can't be read.
    pub(crate) fn open(
        directory: &Path,
        present: &HashSet<OsString>,
        committer: &Arc<Committer>,
        pool: &Arc<BlockPool>,
    ) -> Result<Self, JournalError> {
        let mut journal = Self {
            path: directory.join(QueueStore::TRANSACTIONS_FOLDER),
            committer: Arc::clone(committer),
            pool: Arc::clone(pool),
            log: None,
            last: 0,
            unclaimed: BTreeMap::new(),
            written: VecDeque::new(),
        };
        if present.contains(OsStr::new(QueueStore::TRANSACTIONS_FOLDER)) {
            let log = journal.open_log(Presence::Present)?;
            let path = journal.path.clone();
            read_all(&log, &path, |head, bytes, _number| journal.read(head, bytes))?;
            journal.log = Some(log);
        }
        Ok(journal)
    }

    fn open_log(&self, presence: Presence) -> Result<Arc<PartitionLog>, JournalError> {
        let limits = LogLimits {
            // Its own rules bound it, and retention must not.
            bytes: ByteSize::from_bytes(u64::MAX),
            when_full: WhenFull::Retention,
            retention: None,
        };
        let committer = Arc::clone(&self.committer);
        let directory = PartitionDirectory { path: self.path.clone(), presence, committer };
        let (log, report) = PartitionLog::open(limits, Arc::clone(&self.pool), directory)?;
        if !report.torn.is_empty() || !report.damaged.is_empty() {
            tracing::warn!("{report}");
        }
        let is_ahead = self.committer.write_ahead(&log);
        debug_assert!(is_ahead, "a committer has one store of queues");
        Ok(log)
    }

    /// Notes what a record tells; `None` if it makes no sense.
    fn read(&mut self, head: &[u8], bytes: &[u8]) -> Option<()> {
        let mut reader = Reader(head);
        match reader.byte()? {
            PART => {
                let transaction = reader.u64()?;
                let entity = reader.text()?.to_owned();
                self.last = self.last.max(transaction);
                let record = PastRecord { transaction, head: reader.0.to_vec(), bytes: bytes.to_vec() };
                self.unclaimed.entry(entity).or_default().push(record);
            }
            FORGOTTEN => {
                self.unclaimed.remove(reader.text()?);
            }
            _ => return None,
        }
        Some(())
    }

    /// The records of transactions before the start for the journal of this name, which may lack them.
    pub(crate) fn claim(&mut self, entity: &str) -> Vec<PastRecord> {
        self.unclaimed.remove(entity).unwrap_or_default()
    }

    /// A journal was opened, and has what it lacked. If it `is_new`, it is of another entity than any of its name before.
    ///
    /// # Errors
    /// That can't be written.
    pub(crate) fn opened(&mut self, journal: &Journal, is_new: bool) -> Result<(), Unavailable> {
        self.last = self.last.max(journal.applied());
        if is_new {
            return self.forget(std::iter::once(&**journal.name()), UnixTime::default()).map(|_commit| ());
        }
        if let Some(log) = &self.log {
            let end = end_of(log);
            self.written.push_back(Written { end, parts: vec![WrittenPart::new(journal, true)] });
        }
        Ok(())
    }

    /// Entities for which nobody has asked until the service runs are not there any more: those that get their names are
    /// others.
    pub(crate) fn forget_unclaimed(&mut self, now: UnixTime) {
        if self.unclaimed.is_empty() {
            return;
        }
        let unclaimed = std::mem::take(&mut self.unclaimed);
        // What the disk does not take now is found again, and forgotten, at the next start.
        if let Err(error) = self.forget(unclaimed.keys().map(String::as_str), now) {
            tracing::warn!(%error, "the journal of transactions can't be written");
        }
    }

    /// Notes that an entity was deleted: one that is made under its name gets nothing of what comes before. The commit of that.
    ///
    /// # Errors
    /// That can't be written.
    pub(crate) fn forget_deleted(&self, entity: &str) -> Result<CommitNumber, Unavailable> {
        self.forget(std::iter::once(entity), UnixTime::default())
    }

    fn forget<'a>(
        &self,
        entities: impl Iterator<Item = &'a str>,
        now: UnixTime,
    ) -> Result<CommitNumber, Unavailable> {
        let Some(log) = &self.log else {
            return Ok(CommitNumber::DONE);
        };
        append(log, now, |encoder| {
            for entity in entities {
                let mut head = vec![FORGOTTEN];
                put_text(&mut head, entity);
                encoder.push(&NewRecord { annotation_count: 0, annotations: &head, sections: &[] });
            }
        })
    }

    /// Has `apply` do a transaction, whose number it gets, and writes down what that changes. Gives the commit of that.
    ///
    /// # Errors
    /// It can't be written, and nothing was done.
    pub(super) fn write(
        &mut self,
        locked: &mut [Locked<'_>],
        apply: impl FnOnce(&mut [Locked<'_>], Option<u64>),
    ) -> Result<Option<CommitNumber>, QueueError> {
        let log = match &self.log {
            Some(log) => Arc::clone(log),
            None => {
                let opened = self.open_log(Presence::Absent).map_err(|error| {
                    tracing::error!(%error, "the journal of transactions can't be made");
                    Unavailable::Failed(io::ErrorKind::Other)
                })?;
                Arc::clone(self.log.insert(opened))
            }
        };
        let transaction = self.last + 1;
        let now = locked.iter().map(|entity| entity.now).max().unwrap_or_default();
        // It is done where it is certain that it can be written.
        let commit = append(&log, UnixTime::from_milliseconds(now), |encoder| {
            apply(&mut *locked, Some(transaction));
            for Locked { state, .. } in locked.iter_mut() {
                let state = &mut **state;
                if let Some(journal) = &state.journal {
                    let mut prefix = vec![PART];
                    prefix.extend_from_slice(&transaction.to_le_bytes());
                    put_text(&mut prefix, journal.name());
                    journal.describe(&mut state.queues, &state.effects.changes.list, &prefix, encoder);
                }
            }
        })?;
        self.last = transaction;
        Ok(Some(commit))
    }

    /// Notes where the parts of the last transaction are, and drops what is not needed any more.
    pub(super) fn note_parts(&mut self, parts: Vec<WrittenPart>) {
        let Some(log) = &self.log else {
            return;
        };
        // Others may have followed meanwhile: it is dropped no earlier than they are.
        self.written.push_back(Written { end: end_of(log), parts });
        let begin = log.stats().begin_sequence_number;
        let Some(segment) = log.complete_segment(begin) else {
            return;
        };
        while let Some(first) = self.written.front_mut()
            && first.end <= segment.next_sequence_number
        {
            if !first.parts.iter_mut().all(WrittenPart::is_on_disk) {
                // Nothing else may complete the segments that they are in.
                return first.parts.iter().for_each(WrittenPart::complete);
            }
            self.written.pop_front();
        }
        log.drop_before(segment.next_sequence_number);
        log.release_memory();
    }
}

/// The number of the next record.
fn end_of(log: &PartitionLog) -> u64 {
    log.stats().last_sequence_number.map_or(0, |last| last + 1)
}

fn append(
    log: &PartitionLog,
    now: UnixTime,
    encode: impl FnOnce(&mut BatchEncoder<'_>),
) -> Result<CommitNumber, Unavailable> {
    let appended = log.append::<std::convert::Infallible>(now, |encoder| {
        encode(encoder);
        Ok(())
    });
    match appended {
        Ok(appended) => Ok(appended.commit),
        Err(AppendError::Unavailable(reason)) => Err(reason),
        Err(_) => Err(Unavailable::Failed(io::ErrorKind::FileTooLarge)),
    }
}

const PART: u8 = 1;
const FORGOTTEN: u8 = 2;
