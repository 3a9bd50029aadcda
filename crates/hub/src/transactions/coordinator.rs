//! The coordinator of transactions, as a state machine: requests and the time in, replies out. What it has others do, and on what it
//! waits, goes through [`World`]; it knows no socket, no clock and no disk.
//!
//! A transaction ends in three steps, each of which waits until the one before it is on disk:
//!
//! 1. The decision is kept, with all partitions that the transaction has touched.
//! 2. Each of these partitions gets a marker.
//! 3. That it is complete is kept, and with it, as one, the offsets that it has brought.
//!
//! A restart in between goes on where the journal says. So there is no marker without a decision, and never a second decision.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use kafka::ErrorCode;

use super::owners::{Owner, Owners, Room};
use super::pending::{PendingOffsets, Place};
use super::state::TransactionState;
use super::transaction::{Producer, TopicPartition, Transaction};
use crate::journal::{OffsetRecord, Record};

/// What the coordinator has others do.
pub(super) trait World {
    /// What has to be waited for.
    type Commit: Copy + std::fmt::Debug;

    /// Keeps records, all or none. An error has changed nothing.
    fn keep(&mut self, records: &[Record<'_>]) -> Result<Self::Commit, NotDone>;

    /// Keeps the record that a transaction is complete, and has groups take its offsets, as one.
    /// Groups that these offsets create are `owner`'s.
    fn complete(
        &mut self,
        offsets: &[OffsetRecord<'_>],
        record: Record<'_>,
        owner: &Owner,
    ) -> Result<Self::Commit, NotDone>;

    /// Writes a marker, unless nothing is open there or there is no such partition any longer.
    fn mark(
        &mut self,
        partition: &TopicPartition,
        producer: Producer,
        commits: bool,
    ) -> Result<Option<Self::Commit>, NotDone>;

    /// Whether it is on disk.
    fn state_of(&self, commit: Self::Commit) -> Progress;
}

/// Something can't be done at present.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct NotDone;

/// How it stands with what was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Progress {
    Waiting,
    Done,
    /// It is not known to be there, and has to be written again.
    Failed,
}

/// A reply, which counts when this commit is done.
pub(super) type Reply<T, C> = Result<(T, Option<C>), ErrorCode>;

/// See the module.
#[derive(Debug)]
pub(super) struct Coordinator<C> {
    ids: BTreeMap<String, Entry<C>>,
    owners: Owners,
    /// Those that are ending.
    ending: BTreeSet<String>,
    /// Those that are open, by when they are aborted.
    deadlines: BTreeSet<(i64, String)>,
    /// How many open transactions have an offset for each place.
    unstable: HashMap<Place, u32>,
    /// Ids whose transaction has ended, or could not be, since they were taken: whether it has.
    ended: Vec<(String, bool)>,
    retry_at: Option<i64>,
    pub(super) totals: Totals,
}

/// How many transactions have ended how, since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Totals {
    pub(crate) committed: u64,
    pub(crate) aborted: u64,
    /// Of those aborted: because their time was over.
    pub(crate) timed_out: u64,
    /// Idle ids forgotten to make room for others.
    pub(crate) forgotten: u64,
    /// New ids refused because there was no room.
    pub(crate) refused: u64,
}

/// A transactional id, and the principal that names it.
#[derive(Clone, Debug)]
pub(super) struct Known<'a> {
    pub(super) id: &'a str,
    pub(super) owner: Owner,
}

#[derive(Debug)]
struct Entry<C> {
    owner: Owner,
    transaction: Transaction,
    pending: PendingOffsets,
    step: Step<C>,
}

/// How far the end of a transaction has come.
#[derive(Debug)]
enum Step<C> {
    /// It is not ending.
    None,
    /// The decision has to be on disk.
    Deciding(C),
    /// The decision has to be written once more.
    Undecided,
    /// Partitions get their markers, and then these have to be on disk.
    Marking { left: Vec<TopicPartition>, marked: Vec<(TopicPartition, C)> },
}

impl<C: Copy + std::fmt::Debug> Coordinator<C> {
    pub(super) fn new() -> Self {
        Self {
            ids: BTreeMap::new(),
            owners: Owners::default(),
            ending: BTreeSet::new(),
            deadlines: BTreeSet::new(),
            unstable: HashMap::new(),
            ended: Vec::new(),
            retry_at: None,
            totals: Totals::default(),
        }
    }

    /// Notes what the journal says, at the start.
    pub(super) fn apply(&mut self, record: &Record<'_>) {
        match record {
            Record::Transaction(record) => {
                let transaction = Transaction::of_record(record);
                let is_open =
                    transaction.state == TransactionState::Ongoing || transaction.state.is_prepared();
                let id = record.id.to_owned();
                if !is_open {
                    self.forget_pending(&id);
                }
                self.set(id, transaction, &None);
            }
            Record::TransactionRemoved { id } => {
                self.forget_pending(id);
                self.remove(id);
            }
            Record::PendingOffset { id, offset } => self.put_pending(id, &[*offset]),
            Record::TopicRemoved { topic } => drop(self.forget_topic(topic)),
            Record::Group { .. }
            | Record::GroupRemoved { .. }
            | Record::Offset(_)
            | Record::OffsetRemoved { .. }
            | Record::Generation(_)
            | Record::ConsumerGroup(_)
            | Record::ConsumerMember(_)
            | Record::ConsumerMemberRemoved { .. }
            | Record::UnreadableMembers { .. } => {}
        }
    }

    /// Goes on with what the journal has told: what was decided is brought to its end.
    pub(super) fn resume(&mut self) {
        for (id, entry) in &mut self.ids {
            if entry.transaction.state.is_prepared() {
                entry.step = Step::marking(&entry.transaction);
                self.ending.insert(id.clone());
            }
        }
    }

    /// The greatest id of a producer that is known.
    pub(super) fn greatest_producer_id(&self) -> Option<i64> {
        self.ids.values().map(|entry| entry.transaction.producer.id).max()
    }

    /// Who a producer is, having said who it was. What it had open is aborted first.
    pub(super) fn begin_producer<W: World<Commit = C>>(
        &mut self,
        now: i64,
        known_as: Known<'_>,
        timeout_ms: i32,
        claimed: Producer,
        new_id: impl FnOnce() -> i64,
        world: &mut W,
    ) -> Reply<Producer, C> {
        let Known { id, owner } = known_as;
        if !is_transactional_id(id) {
            return Err(ErrorCode::InvalidRequest);
        }
        if !(1..=TIMEOUT_MAX_MS).contains(&timeout_ms) {
            return Err(ErrorCode::InvalidTransactionTimeout);
        }
        let Some(entry) = self.ids.get(id) else {
            let forgotten = match self.owners.room(&owner) {
                Room::Free => None,
                Room::Forget(forgotten) => Some(forgotten),
                Room::None => {
                    self.totals.refused += 1;
                    return Err(ErrorCode::CoordinatorNotAvailable);
                }
            };
            let transaction = Transaction::new(now, Producer { id: new_id(), epoch: 0 }, timeout_ms);
            let removed = forgotten.iter().map(|id| Record::TransactionRemoved { id });
            let added = Record::Transaction(transaction.record(id));
            let records: Vec<Record<'_>> = removed.chain([added]).collect();
            let commit = world.keep(&records).map_err(|NotDone| ErrorCode::CoordinatorNotAvailable)?;
            if let Some(forgotten) = forgotten {
                self.remove(&forgotten);
                self.totals.forgotten += 1;
            }
            let producer = transaction.producer;
            self.set(id.to_owned(), transaction, &owner);
            return Ok((producer, Some(commit)));
        };
        entry.transaction.check_begin(claimed)?;
        if entry.transaction.state == TransactionState::Ongoing {
            let fenced = entry.transaction.fenced(now, claimed);
            self.decide(id, fenced, world)?;
            self.advance_id(now, id, world);
        }
        let transaction = &self.ids.get(id).ok_or(ErrorCode::UnknownServerError)?.transaction;
        if transaction.state.is_prepared() {
            return Err(ErrorCode::ConcurrentTransactions);
        }
        let begun = transaction.begun(now, claimed, timeout_ms, new_id);
        self.keep(id, begun, world).map(|(producer, commit)| (producer, Some(commit)))
    }

    /// The transaction touches partitions, or brings offsets of a group with it.
    pub(super) fn add<W: World<Commit = C>>(
        &mut self,
        now: i64,
        id: &str,
        producer: Producer,
        partitions: impl IntoIterator<Item = TopicPartition>,
        group: Option<&str>,
        world: &mut W,
    ) -> Reply<(), C> {
        let entry = self.ids.get(id).ok_or(ErrorCode::InvalidProducerIdMapping)?;
        entry.transaction.check(producer)?;
        match entry.transaction.with(now, partitions, group)? {
            None => Ok(((), None)),
            Some(next) => self.keep(id, next, world).map(|(_, commit)| ((), Some(commit))),
        }
    }

    /// The transaction brings these offsets of a group with it, which was added before.
    pub(super) fn add_offsets<W: World<Commit = C>>(
        &mut self,
        id: &str,
        producer: Producer,
        group: &str,
        offsets: &[OffsetRecord<'_>],
        world: &mut W,
    ) -> Reply<(), C> {
        let entry = self.ids.get(id).ok_or(ErrorCode::InvalidProducerIdMapping)?;
        entry.transaction.check(producer)?;
        if entry.transaction.state.is_prepared() {
            return Err(ErrorCode::ConcurrentTransactions);
        }
        if entry.transaction.state != TransactionState::Ongoing || !entry.transaction.groups.contains(group) {
            return Err(ErrorCode::InvalidTxnState);
        }
        entry.pending.check(offsets)?;
        let records: Vec<Record<'_>> =
            offsets.iter().map(|offset| Record::PendingOffset { id, offset: *offset }).collect();
        let commit = world.keep(&records).map_err(|NotDone| ErrorCode::CoordinatorNotAvailable)?;
        self.put_pending(id, offsets);
        Ok(((), Some(commit)))
    }

    /// The producer ends its transaction. True, if that is done; otherwise it will be, and is [told](Self::take_ended) then.
    pub(super) fn end<W: World<Commit = C>>(
        &mut self,
        now: i64,
        id: &str,
        producer: Producer,
        commits: bool,
        world: &mut W,
    ) -> Result<bool, ErrorCode> {
        let entry = self.ids.get(id).ok_or(ErrorCode::InvalidProducerIdMapping)?;
        entry.transaction.check(producer)?;
        let Some(next) = entry.transaction.ended(now, commits)? else {
            return Ok(true);
        };
        self.decide(id, next, world)?;
        self.advance_id(now, id, world);
        Ok(!self.ending.contains(id))
    }

    /// Whether a producer may write to a partition as part of its transaction.
    pub(super) fn check_produce(
        &self,
        id: &str,
        producer: Producer,
        topic: &str,
        index: i32,
    ) -> Result<(), ErrorCode> {
        let transaction = &self.ids.get(id).ok_or(ErrorCode::InvalidProducerIdMapping)?.transaction;
        if producer.id != transaction.producer.id {
            return Err(ErrorCode::InvalidProducerIdMapping);
        }
        if producer.epoch != transaction.producer.epoch {
            return Err(ErrorCode::InvalidProducerEpoch);
        }
        let is_in = transaction.state == TransactionState::Ongoing
            && transaction.partitions.iter().any(|(known, number)| *number == index && known == topic);
        if is_in { Ok(()) } else { Err(ErrorCode::InvalidTxnState) }
    }

    /// Whether an open transaction brings an offset for this place with it.
    pub(super) fn is_pending(&self, place: &Place) -> bool {
        self.unstable.contains_key(place)
    }

    /// Whether a producer has a transaction here that is not at its end.
    pub(super) fn knows(&self, producer_id: i64, partition: &TopicPartition) -> bool {
        self.ids.values().any(|Entry { transaction, .. }| {
            transaction.producer.id == producer_id
                && (transaction.state == TransactionState::Ongoing || transaction.state.is_prepared())
                && transaction.partitions.contains(partition)
        })
    }

    /// A topic is gone, and with it the offsets in it. Says whether there were any.
    pub(super) fn forget_topic(&mut self, topic: &str) -> bool {
        let mut were_any = false;
        for entry in self.ids.values_mut() {
            for place in entry.pending.remove_topic(topic) {
                release(&mut self.unstable, &place);
                were_any = true;
            }
        }
        were_any
    }

    /// Does what is due by `now`, and goes on with what is ending.
    pub(super) fn advance<W: World<Commit = C>>(&mut self, now: i64, world: &mut W) {
        self.retry_at = None;
        while let Some((_, id)) = self.deadlines.first().filter(|(deadline, _)| *deadline <= now).cloned() {
            let Some(entry) = self.ids.get(&id) else {
                break;
            };
            let fenced = entry.transaction.fenced(now, Producer::NONE);
            if self.decide(&id, fenced, world).is_err() {
                self.retry(now);
                break;
            }
            self.totals.timed_out += 1;
        }
        let ending: Vec<String> = self.ending.iter().cloned().collect();
        ending.iter().for_each(|id| self.advance_id(now, id, world));
    }

    /// Forgets ids that have not been used for long.
    pub(super) fn expire<W: World<Commit = C>>(&mut self, now: i64, world: &mut W) {
        let is_over = |transaction: &Transaction| {
            transaction.idle_since().is_some_and(|since| now.saturating_sub(since) >= EXPIRATION_MS)
        };
        let over = self.ids.iter().filter(|(_, entry)| is_over(&entry.transaction));
        let over: Vec<String> = over.map(|(id, _)| id.clone()).take(EXPIRED_AT_ONCE).collect();
        let records: Vec<Record<'_>> = over.iter().map(|id| Record::TransactionRemoved { id }).collect();
        if !over.is_empty() && world.keep(&records).is_ok() {
            over.iter().for_each(|id| self.remove(id));
        }
    }

    /// When there is something to be done next, besides what waits for commits.
    pub(super) fn next_deadline(&self) -> Option<i64> {
        let first = self.deadlines.first().map(|(deadline, _)| *deadline);
        // What could not be done is not tried again before it is time.
        self.retry_at.or(first)
    }

    /// Whether something waits for commits.
    pub(super) fn awaits_commits(&self) -> bool {
        !self.ending.is_empty()
    }

    /// The ids whose transactions have ended, or whose end is not certain, since the last time: whether they have ended.
    pub(super) fn take_ended(&mut self) -> Vec<(String, bool)> {
        std::mem::take(&mut self.ended)
    }

    /// How many ids there are.
    pub(super) fn id_count(&self) -> usize {
        self.ids.len()
    }

    /// How many transactions are open.
    pub(super) fn open_count(&self) -> usize {
        self.deadlines.len()
    }

    /// All ids.
    pub(super) fn ids(&self) -> impl Iterator<Item = (&str, &Transaction)> {
        self.ids.iter().map(|(id, entry)| (id.as_str(), &entry.transaction))
    }

    /// One of them.
    pub(super) fn find(&self, id: &str) -> Option<&Transaction> {
        self.ids.get(id).map(|entry| &entry.transaction)
    }

    /// All that holds.
    pub(super) fn account(&self) -> Vec<Record<'_>> {
        let mut records = Vec::new();
        for (id, entry) in &self.ids {
            records.push(Record::Transaction(entry.transaction.record(id)));
            records.extend(entry.pending.account(id));
        }
        records
    }

    /// Keeps how it will stand with an id, and has it so then.
    fn keep<W: World<Commit = C>>(
        &mut self,
        id: &str,
        next: Transaction,
        world: &mut W,
    ) -> Result<(Producer, C), ErrorCode> {
        let kept = world.keep(&[Record::Transaction(next.record(id))]);
        let commit = kept.map_err(|NotDone| ErrorCode::CoordinatorNotAvailable)?;
        let producer = next.producer;
        self.set(id.to_owned(), next, &None);
        Ok((producer, commit))
    }

    /// Keeps how a transaction ends.
    fn decide<W: World<Commit = C>>(
        &mut self,
        id: &str,
        prepared: Transaction,
        world: &mut W,
    ) -> Result<(), ErrorCode> {
        let (_, commit) = self.keep(id, prepared, world)?;
        if let Some(entry) = self.ids.get_mut(id) {
            entry.step = Step::Deciding(commit);
            self.ending.insert(id.to_owned());
        }
        Ok(())
    }

    /// Brings the end of a transaction as far as it goes at present.
    fn advance_id<W: World<Commit = C>>(&mut self, now: i64, id: &str, world: &mut W) {
        let Some(entry) = self.ids.get_mut(id) else {
            self.ending.remove(id);
            return;
        };
        if let Step::Undecided = entry.step {
            match world.keep(&[Record::Transaction(entry.transaction.record(id))]) {
                Ok(commit) => entry.step = Step::Deciding(commit),
                Err(NotDone) => return self.retry(now),
            }
        }
        if let Step::Deciding(commit) = entry.step {
            match world.state_of(commit) {
                Progress::Waiting => return,
                Progress::Done => entry.step = Step::marking(&entry.transaction),
                Progress::Failed => {
                    entry.step = Step::Undecided;
                    self.ended.push((id.to_owned(), false));
                    return self.retry(now);
                }
            }
        }
        let Step::Marking { left, marked } = &mut entry.step else {
            self.ending.remove(id);
            return;
        };
        let (producer, commits) =
            (entry.transaction.producer, entry.transaction.state == TransactionState::PrepareCommit);
        let mut unmarked = Vec::new();
        for (partition, commit) in std::mem::take(marked) {
            match world.state_of(commit) {
                Progress::Waiting => marked.push((partition, commit)),
                Progress::Done => {}
                Progress::Failed => unmarked.push(partition),
            }
        }
        for partition in std::mem::take(left) {
            match world.mark(&partition, producer, commits) {
                Ok(Some(commit)) => match world.state_of(commit) {
                    Progress::Waiting => marked.push((partition, commit)),
                    Progress::Done => {}
                    Progress::Failed => unmarked.push(partition),
                },
                Ok(None) => {}
                Err(NotDone) => unmarked.push(partition),
            }
        }
        *left = unmarked;
        if !left.is_empty() {
            return self.retry(now);
        }
        if !marked.is_empty() {
            return;
        }
        let complete = entry.transaction.complete(now);
        let offsets: Vec<OffsetRecord<'_>> = match commits {
            true => entry.pending.records().collect(),
            false => Vec::new(),
        };
        // Should this not stay on disk, a restart does the last two steps again, to the same end.
        if world.complete(&offsets, Record::Transaction(complete.record(id)), &entry.owner).is_err() {
            return self.retry(now);
        }
        entry.step = Step::None;
        self.ending.remove(id);
        self.forget_pending(id);
        self.set(id.to_owned(), complete, &None);
        match commits {
            true => self.totals.committed += 1,
            false => self.totals.aborted += 1,
        }
        self.ended.push((id.to_owned(), true));
    }

    fn retry(&mut self, now: i64) {
        self.retry_at = Some(now + RETRY_MS);
    }

    /// Has an id be as it is told. A new one is `owner`'s.
    fn set(&mut self, id: String, transaction: Transaction, owner: &Owner) {
        if let Some(deadline) = self.ids.get(&id).and_then(|entry| entry.transaction.deadline()) {
            self.deadlines.remove(&(deadline, id.clone()));
        }
        if let Some(deadline) = transaction.deadline() {
            self.deadlines.insert((deadline, id.clone()));
        }
        match self.ids.get_mut(&id) {
            Some(entry) => {
                let (before, since) = (entry.transaction.idle_since(), transaction.idle_since());
                self.owners.change(&entry.owner, &id, before, since);
                entry.transaction = transaction;
            }
            None => {
                self.owners.add(owner, &id, transaction.idle_since());
                let entry = Entry {
                    owner: owner.clone(),
                    transaction,
                    pending: PendingOffsets::default(),
                    step: Step::None,
                };
                self.ids.insert(id, entry);
            }
        }
    }

    fn remove(&mut self, id: &str) {
        if let Some(entry) = self.ids.remove(id) {
            self.owners.remove(&entry.owner, id, entry.transaction.idle_since());
            if let Some(deadline) = entry.transaction.deadline() {
                self.deadlines.remove(&(deadline, id.to_owned()));
            }
        }
        self.ending.remove(id);
    }

    fn put_pending(&mut self, id: &str, offsets: &[OffsetRecord<'_>]) {
        let Some(entry) = self.ids.get_mut(id) else {
            return;
        };
        for offset in offsets {
            if entry.pending.put(offset) {
                let place = (offset.group.to_owned(), offset.topic.to_owned(), offset.index);
                *self.unstable.entry(place).or_default() += 1;
            }
        }
    }

    fn forget_pending(&mut self, id: &str) {
        if let Some(entry) = self.ids.get_mut(id) {
            let pending = std::mem::take(&mut entry.pending);
            pending.places().for_each(|place| release(&mut self.unstable, place));
        }
    }
}

impl<C> Step<C> {
    fn marking(transaction: &Transaction) -> Self {
        Self::Marking { left: transaction.partitions.iter().cloned().collect(), marked: Vec::new() }
    }
}

fn release(unstable: &mut HashMap<Place, u32>, place: &Place) {
    if let Some(count) = unstable.get_mut(place) {
        *count -= 1;
        if *count == 0 {
            unstable.remove(place);
        }
    }
}

/// Whether an id can be called that.
pub(super) fn is_transactional_id(id: &str) -> bool {
    (1..=ID_MAX).contains(&id.len())
}

/// The longest transactional id, in bytes. Kafka has no bound; Kafka Streams makes them of names and numbers.
const ID_MAX: usize = 1_024;

/// The longest that a producer may have its transactions open (`transaction.max.timeout.ms`).
const TIMEOUT_MAX_MS: i32 = 15 * 60 * 1_000;

/// An id that is not used for so long is forgotten (`transactional.id.expiration.ms`).
const EXPIRATION_MS: i64 = 7 * 24 * 60 * 60 * 1_000;

/// Ids that are forgotten in one step.
const EXPIRED_AT_ONCE: usize = 10_000;

/// How long it takes until what could not be done is tried again.
const RETRY_MS: i64 = 500;
