//! What makes an entity durable: a log of everything that happened to its messages.
//!
//! ```text
//!  operation ──► changes ──► one batch of records ──► PartitionLog ──► committer ──► segment files
//!                                                         ▲
//!                              what still holds of the oldest segment (cleaning.rs)
//! ```
//!
//! The log is the one that hubs have: batches with checksums, one committer for all, the same policies of syncing, the
//! same recovery of a torn end. It is read at the start only (`recover.rs`), and its memory is let go of once it is on disk:
//! what is alive is in the pages.
//!
//! An operation is one batch, so after a crash it has happened or it has not; only what is longer than a batch can be takes
//! several. Locks are not written: after a start nobody has any.

mod cleaning;
mod record;
mod recover;

pub(super) use cleaning::TIDY_MS;
pub(super) use record::{Queues, Reader, put_text};
#[cfg(test)]
pub(super) use recover::SKIPPED_NUMBERS;
pub(super) use recover::{JournalError, JournalPlace, PastRecord, parked, read_all};

use super::changes::{Change, Changes};
use super::entity::QUEUES_OF_ONE;
use super::page::Page;
use super::pages::{join, split};
use super::sessions::Sessions;
use super::state::QueueState;
use super::subscription_rules::SubscriptionRules;
use cleaning::Cleaned;
use partition_log::UnixTime;
use partition_log::disk::{CommitNumber, Unavailable};
use partition_log::{AppendError, BatchEncoder, NewRecord, PartitionLog};
use record::{MessageHead, Record};
use std::collections::VecDeque;
use std::io;
use std::sync::Arc;

/// See the module.
#[derive(Debug)]
pub(super) struct Journal {
    log: Arc<PartitionLog>,
    /// The number of the next record.
    next_record: u64,
    /// Bytes of the log's batches, apart from segments that are to be dropped.
    bytes: u64,
    last_commit: CommitNumber,
    queues: Queues,
    /// The ids of the entity's queues, by their places.
    ids: Vec<u32>,
    /// The name of its folder.
    name: Arc<str>,
    /// The last transaction on several entities of which the part that concerns this one was done.
    applied: u64,
    /// Where the last complete account of everything but messages begins.
    account: u64,
    /// Segments that nothing in holds any more, oldest first.
    cleaned: VecDeque<Cleaned>,
    slack: u64,
    /// There may be something to clean or to drop, though nothing be written.
    is_untidy: bool,
    /// The number of the next record at the last [`tidy`](Self::tidy).
    seen: u64,
    /// The time of the last [`tidy`](Self::tidy), in milliseconds since 1970.
    tidied_at: i64,
}

/// How far a list of changes is written.
#[derive(Clone, Copy, Debug, Default)]
struct Progress {
    change: usize,
    /// The next number within the change.
    sequence_number: Option<u64>,
}

/// What encodes changes into one batch.
struct Encoding<'a, 'log> {
    encoder: &'a mut BatchEncoder<'log>,
    ids: &'a [u32],
    head: Vec<u8>,
    /// What all records begin with that are written for another journal; nothing in the entity's own.
    prefix: &'a [u8],
    next_record: u64,
    /// Bytes so far.
    length: usize,
    /// From how many bytes on nothing more is added.
    longest: usize,
}

impl Journal {
    /// Why nothing can be written at present, if it can't.
    pub(super) fn unavailable(&self) -> Option<Unavailable> {
        self.log.unavailable()
    }

    /// What everything that was written has to wait for.
    pub(super) fn last_commit(&self) -> CommitNumber {
        self.last_commit
    }

    /// Gives the queues from `place` on, within the entity, to the subscription of this name, which is new.
    pub(super) fn add_subscription(&mut self, place: usize, name: String, changes: &mut Changes) {
        let id = self.queues.next_id;
        self.queues.next_id += 1;
        self.queues.ids.push((id, name));
        let ids = (0..QUEUES_OF_ONE as u32).map(|beside| id * QUEUES_OF_ONE as u32 + beside);
        match self.ids.get_mut(place..place + QUEUES_OF_ONE) {
            Some(vacant) => vacant.iter_mut().zip(ids).for_each(|(vacant, id)| *vacant = id),
            None => self.ids.extend(ids),
        }
        changes.push(Change::Queues(self.queues.clone()));
    }

    /// Forgets the queues of the subscription of this name. Its messages are not told of any longer.
    pub(super) fn remove_subscription(&mut self, name: &str, changes: &mut Changes) {
        self.queues.ids.retain(|(_, kept)| kept != name);
        changes.push(Change::Queues(self.queues.clone()));
    }

    /// Writes nothing any longer: its entity was deleted.
    pub(super) fn retire(&self) {
        self.log.retire();
    }

    /// The name of its folder, which no other journal has.
    pub(super) fn name(&self) -> &Arc<str> {
        &self.name
    }

    /// The last transaction on several entities of which the part that concerns this one was done.
    pub(super) fn applied(&self) -> u64 {
        self.applied
    }

    /// Notes that the changes that follow are those of this transaction, so that they are not made twice.
    pub(super) fn apply(&mut self, transaction: u64, changes: &mut Changes) {
        self.applied = transaction;
        changes.push(Change::Applied { transaction });
    }

    /// Adds the records of changes that are to be written to a journal that is read before this one: each begins with `prefix`.
    pub(super) fn describe(
        &self,
        queues: &mut [QueueState],
        changes: &[Change],
        prefix: &[u8],
        encoder: &mut BatchEncoder<'_>,
    ) {
        let mut encoding = Encoding {
            encoder,
            ids: &self.ids,
            head: Vec::with_capacity(64),
            prefix,
            next_record: 0,
            length: 0,
            longest: usize::MAX,
        };
        if self.queues.is_topic {
            // Whatever is lost of its own account, it is known of which subscription each message is.
            encoding.push(&Record::Queues(self.queues.clone()));
        }
        for change in changes {
            encoding.change(queues, change, None);
        }
    }

    /// The log, and the number of its next record.
    pub(super) fn end(&self) -> (Arc<PartitionLog>, u64) {
        (Arc::clone(&self.log), self.next_record)
    }

    /// The number of the oldest record that is there.
    #[cfg(test)]
    pub(super) fn begin(&self) -> u64 {
        self.log.stats().begin_sequence_number
    }

    /// Whether it may be made shorter when it is looked at again, though nothing happen until then.
    pub(super) fn is_untidy(&self) -> bool {
        self.is_untidy
    }

    /// Writes what has changed, and keeps the journal short. After an error the changes that remain are to be written later.
    pub(super) fn write(
        &mut self,
        now: i64,
        queues: &mut [QueueState],
        rules: &[SubscriptionRules],
        changes: &mut Changes,
    ) -> Result<CommitNumber, Unavailable> {
        if changes.list.is_empty() {
            self.tidy(now, queues, rules);
            return Ok(CommitNumber::DONE);
        }
        let longest = match changes.are_one {
            true => usize::MAX,
            false => LONGEST_BATCH,
        };
        self.append(now, queues, &mut changes.list, longest)?;
        changes.are_one = false;
        let commit = self.last_commit;
        // If the disk does not take that, it is done with a later change.
        let _ = self.clean(now, queues, rules);
        Ok(commit)
    }

    /// Appends these changes in batches that end where they are longer than `longest`, and removes those from the list that were.
    fn append(
        &mut self,
        now: i64,
        queues: &mut [QueueState],
        changes: &mut Vec<Change>,
        longest: usize,
    ) -> Result<(), Unavailable> {
        let mut progress = Progress::default();
        while progress.change < changes.len() {
            let mut end = progress;
            let appended =
                self.log.append::<std::convert::Infallible>(UnixTime::from_milliseconds(now), |encoder| {
                    let mut encoding = Encoding {
                        encoder,
                        ids: &self.ids,
                        head: Vec::with_capacity(64),
                        prefix: &[],
                        next_record: self.next_record,
                        length: 0,
                        longest,
                    };
                    while end.change < changes.len() && encoding.length < longest {
                        let change = &changes[end.change];
                        end.sequence_number = encoding.change(queues, change, end.sequence_number);
                        end.change += usize::from(end.sequence_number.is_none());
                    }
                    Ok(())
                });
            match appended {
                Ok(appended) => {
                    self.next_record += u64::from(appended.record_count);
                    self.bytes += appended.bytes as u64;
                    if appended.record_count > 0 {
                        self.last_commit = appended.commit;
                    }
                }
                Err(error) => {
                    changes.drain(..progress.change);
                    return Err(match error {
                        AppendError::Unavailable(reason) => reason,
                        _ => Unavailable::Failed(io::ErrorKind::FileTooLarge),
                    });
                }
            }
            progress = end;
        }
        changes.clear();
        Ok(())
    }
}

impl Encoding<'_, '_> {
    /// Adds the records of a change, from a number on if it is a range; the number to go on with, if it became too long.
    fn change(&mut self, queues: &mut [QueueState], change: &Change, from: Option<u64>) -> Option<u64> {
        match change {
            Change::Put { queue, first, last } => {
                let id = self.id(*queue);
                let QueueState { pages, ledger, .. } = &mut queues[*queue as usize];
                let mut next = from.unwrap_or(*first);
                while next <= *last {
                    if self.length >= self.longest {
                        return Some(next);
                    }
                    let (number, _) = split(next);
                    let end = join(number + 1, 0).min(*last + 1);
                    let Some(page) = pages.page_mut(number) else {
                        next = end;
                        continue;
                    };
                    while next < end && self.length < self.longest {
                        self.message(page, &ledger.sessions, id, next);
                        next += 1;
                    }
                }
            }
            Change::Removed { queue, first, last } => {
                self.push(&Record::Removed { queue: self.id(*queue), first: *first, last: *last })
            }
            Change::Changed { queue, sequence_number, stage, delivery_count } => {
                self.push(&Record::Changed {
                    queue: self.id(*queue),
                    sequence_number: *sequence_number,
                    stage: *stage,
                    delivery_count: *delivery_count,
                })
            }
            Change::SessionState { queue, id, state, set_at } => {
                let record = Record::SessionState {
                    queue: self.id(*queue),
                    session: id,
                    is_there: state.is_some(),
                    set_at: *set_at,
                };
                self.push_with(&record, state.as_deref().unwrap_or_default());
            }
            Change::Seen { queue, time, digest, sequence_number } => self.push(&Record::Identifier {
                queue: self.id(*queue),
                seen: *time,
                digest: *digest,
                sequence_number: *sequence_number,
            }),
            Change::NextNumber { queue, sequence_number } => {
                self.push(&Record::NextNumber { queue: self.id(*queue), sequence_number: *sequence_number })
            }
            Change::RulesKept { queue, configured } => {
                self.push(&Record::RulesKept { queue: self.id(*queue), configured: *configured })
            }
            Change::RulePut { queue, rule } => {
                let queue = self.id(*queue);
                self.push_with(&Record::RulePut { queue }, rule);
            }
            Change::RuleRemoved { queue, name } => {
                self.push(&Record::RuleRemoved { queue: self.id(*queue), name })
            }
            Change::Queues(queues) => self.push(&Record::Queues(queues.clone())),
            Change::Applied { transaction } => self.push(&Record::Applied { transaction: *transaction }),
        }
        None
    }

    /// Adds a message, if it is still there, and notes in its page where.
    fn message(&mut self, page: &mut Page, sessions: &Sessions, queue: u32, sequence_number: u64) {
        let (_, position) = split(sequence_number);
        if !page.holds(position) {
            return;
        }
        let slot = *page.slot(position);
        let session = sessions.get(slot.session);
        let record = Record::Message {
            queue,
            sequence_number,
            head: MessageHead::of(&slot),
            session: session.map(|session| &*session.id),
        };
        let number = self.next_record;
        self.push_with(&record, page.bytes(&slot).as_slice());
        if self.prefix.is_empty() {
            page.set_record(position, number);
        }
    }

    fn id(&self, queue: u32) -> u32 {
        self.ids[queue as usize]
    }

    fn push(&mut self, record: &Record<'_>) {
        self.push_with(record, &[]);
    }

    #[inline]
    fn push_with(&mut self, record: &Record<'_>, bytes: &[u8]) {
        self.head.clear();
        self.head.extend_from_slice(self.prefix);
        record.encode(&mut self.head);
        self.encoder.push(&NewRecord { annotation_count: 0, annotations: &self.head, sections: &[bytes] });
        self.length += self.head.len() + bytes.len();
        self.next_record += 1;
    }
}

/// From here on a batch is written as it is and another one begun: well below what a batch of the log can have, and one
/// more message fits always.
const LONGEST_BATCH: usize = 16 * 1024 * 1024;
