//! One transactional id: who its producer is, and what its transaction has touched. Each step gives what it will be afterwards, and
//! changes nothing: it counts when it is kept.

use std::collections::BTreeSet;

use kafka::ErrorCode;

use super::state::TransactionState;
use crate::journal::TransactionRecord;

/// A partition, by its topic and number.
pub(super) type TopicPartition = (String, i32);

/// How it stands with a transactional id.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Transaction {
    pub(super) producer: Producer,
    /// What the producer had before, and may still say that it has, not having heard of the new one.
    pub(super) last: Producer,
    pub(super) timeout_ms: i32,
    pub(super) state: TransactionState,
    /// In milliseconds since 1970; -1 if there is none.
    pub(super) started_at: i64,
    pub(super) updated_at: i64,
    pub(super) partitions: BTreeSet<TopicPartition>,
    /// The groups whose offsets it brings with it.
    pub(super) groups: BTreeSet<String>,
}

/// Who writes: an id, and how often it has begun anew.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Producer {
    pub(crate) id: i64,
    pub(crate) epoch: i16,
}

impl Producer {
    /// No one.
    pub(crate) const NONE: Self = Self { id: -1, epoch: -1 };

    /// Whether there is no epoch left for this id. The last one is for the marker that fences the producer.
    const fn is_exhausted(self) -> bool {
        self.epoch >= i16::MAX - 1
    }

    const fn next_epoch(self) -> Self {
        Self { id: self.id, epoch: self.epoch.saturating_add(1) }
    }
}

impl Transaction {
    /// For an id that was not known.
    pub(super) fn new(now: i64, producer: Producer, timeout_ms: i32) -> Self {
        Self {
            producer,
            last: Producer::NONE,
            timeout_ms,
            state: TransactionState::Empty,
            started_at: -1,
            updated_at: now,
            partitions: BTreeSet::new(),
            groups: BTreeSet::new(),
        }
    }

    /// Returns since when nothing is open or ending, in milliseconds since 1970; `None` if something is.
    pub(super) fn idle_since(&self) -> Option<i64> {
        let is_idle = self.state != TransactionState::Ongoing && !self.state.is_prepared();
        is_idle.then_some(self.updated_at)
    }

    /// Whether a producer that begins anew may do so, having said who it was: no one, or the one it is, or was last.
    pub(super) fn check_begin(&self, claimed: Producer) -> Result<(), ErrorCode> {
        let is_known = claimed.id < 0 || claimed == self.producer || claimed == self.last;
        if is_known { Ok(()) } else { Err(ErrorCode::ProducerFenced) }
    }

    /// The producer begins anew, when nothing is open.
    pub(super) fn begun(
        &self,
        now: i64,
        claimed: Producer,
        timeout_ms: i32,
        new_id: impl FnOnce() -> i64,
    ) -> Self {
        if claimed.id >= 0 && claimed == self.last && claimed != self.producer {
            // It has not heard the answer the last time.
            return Self { timeout_ms, updated_at: now, ..self.clone() };
        }
        let producer = match self.producer.is_exhausted() {
            true => Producer { id: new_id(), epoch: 0 },
            false => self.producer.next_epoch(),
        };
        let last = if claimed.id >= 0 { self.producer } else { Producer::NONE };
        Self { last, ..Self::new(now, producer, timeout_ms) }
    }

    /// Whether the one who asks is the producer of this id.
    pub(super) fn check(&self, producer: Producer) -> Result<(), ErrorCode> {
        if producer.id != self.producer.id {
            return Err(ErrorCode::InvalidProducerIdMapping);
        }
        if producer.epoch != self.producer.epoch {
            return Err(ErrorCode::ProducerFenced);
        }
        Ok(())
    }

    /// Partitions and groups are added; `None` if they are there already.
    pub(super) fn with(
        &self,
        now: i64,
        partitions: impl IntoIterator<Item = TopicPartition>,
        group: Option<&str>,
    ) -> Result<Option<Self>, ErrorCode> {
        let mut next = match self.state {
            TransactionState::PrepareCommit | TransactionState::PrepareAbort => {
                return Err(ErrorCode::ConcurrentTransactions);
            }
            TransactionState::Ongoing => self.clone(),
            TransactionState::Empty | TransactionState::CompleteCommit | TransactionState::CompleteAbort => {
                Self {
                    state: TransactionState::Ongoing,
                    started_at: now,
                    partitions: BTreeSet::new(),
                    groups: BTreeSet::new(),
                    ..self.clone()
                }
            }
        };
        let before = next.partitions.len() + next.groups.len();
        next.partitions.extend(partitions);
        next.groups.extend(group.map(str::to_owned));
        if next.groups.len() > GROUPS_MAX {
            return Err(ErrorCode::InvalidRequest);
        }
        next.updated_at = now;
        let has_more = next.partitions.len() + next.groups.len() > before;
        Ok((has_more || self.state != TransactionState::Ongoing).then_some(next))
    }

    /// The producer ends it; `None` if that has happened already.
    pub(super) fn ended(&self, now: i64, commits: bool) -> Result<Option<Self>, ErrorCode> {
        match (self.state, commits) {
            (TransactionState::Ongoing, _) => Ok(Some(self.prepared(now, commits))),
            (TransactionState::CompleteCommit, true) | (TransactionState::CompleteAbort, false) => Ok(None),
            (TransactionState::PrepareCommit, true) | (TransactionState::PrepareAbort, false) => {
                Err(ErrorCode::ConcurrentTransactions)
            }
            _ => Err(ErrorCode::InvalidTxnState),
        }
    }

    /// It is aborted without its producer, which may not write any longer. One that has just said that it is the producer may
    /// say so again.
    pub(super) fn fenced(&self, now: i64, claimed: Producer) -> Self {
        let last = if claimed.id >= 0 { self.producer } else { Producer::NONE };
        Self { producer: self.producer.next_epoch(), last, ..self.prepared(now, false) }
    }

    fn prepared(&self, now: i64, commits: bool) -> Self {
        let state = match commits {
            true => TransactionState::PrepareCommit,
            false => TransactionState::PrepareAbort,
        };
        Self { state, updated_at: now, ..self.clone() }
    }

    /// Its end has been told everywhere.
    pub(super) fn complete(&self, now: i64) -> Self {
        let state = match self.state {
            TransactionState::PrepareCommit => TransactionState::CompleteCommit,
            _ => TransactionState::CompleteAbort,
        };
        Self { state, updated_at: now, partitions: BTreeSet::new(), groups: BTreeSet::new(), ..self.clone() }
    }

    /// When it is aborted, if it is open.
    pub(super) fn deadline(&self) -> Option<i64> {
        let is_open = self.state == TransactionState::Ongoing;
        is_open.then(|| self.started_at.saturating_add(i64::from(self.timeout_ms)))
    }

    pub(super) fn record<'a>(&'a self, id: &'a str) -> TransactionRecord<'a> {
        TransactionRecord {
            id,
            producer_id: self.producer.id,
            producer_epoch: self.producer.epoch,
            last_producer_id: self.last.id,
            last_producer_epoch: self.last.epoch,
            timeout_ms: self.timeout_ms,
            state: self.state,
            started_at: self.started_at,
            updated_at: self.updated_at,
            partitions: self.partitions.iter().map(|(topic, index)| (topic.as_str(), *index)).collect(),
            groups: self.groups.iter().map(String::as_str).collect(),
        }
    }

    pub(super) fn of_record(record: &TransactionRecord<'_>) -> Self {
        Self {
            producer: Producer { id: record.producer_id, epoch: record.producer_epoch },
            last: Producer { id: record.last_producer_id, epoch: record.last_producer_epoch },
            timeout_ms: record.timeout_ms,
            state: record.state,
            started_at: record.started_at,
            updated_at: record.updated_at,
            partitions: record
                .partitions
                .iter()
                .map(|(topic, index)| ((*topic).to_owned(), *index))
                .collect(),
            groups: record.groups.iter().map(|group| (*group).to_owned()).collect(),
        }
    }
}

/// Groups whose offsets one transaction may bring with it: far more than any application reads as.
const GROUPS_MAX: usize = 1_000;
