//! How it is carried out what the coordinator decides.

use kafka::control_batch::{TransactionEnd, TransactionMarker};
use partition_log::disk::{CommitNumber, CommitState, CommitWatch};
use partition_log::{PartitionLog, UnixTime};

use super::coordinator::{NotDone, Progress, World};
use super::owners::Owner;
use super::transaction::{Producer, TopicPartition};
use crate::groups::Groups;
use crate::journal::{Journal, OffsetRecord, Record, Refused};
use crate::namespace::Namespace;

/// The service at one moment.
#[derive(Debug)]
pub(super) struct Service<'s> {
    pub(super) now: UnixTime,
    pub(super) namespace: &'s Namespace,
    pub(super) journal: &'s Journal,
    pub(super) groups: &'s Groups,
    pub(super) commits: Option<&'s CommitWatch>,
}

impl World for Service<'_> {
    type Commit = CommitNumber;

    fn keep(&mut self, records: &[Record<'_>]) -> Result<CommitNumber, NotDone> {
        self.journal.append(self.now, records).map_err(not_done)
    }

    fn complete(
        &mut self,
        offsets: &[OffsetRecord<'_>],
        record: Record<'_>,
        owner: &Owner,
    ) -> Result<CommitNumber, NotDone> {
        self.groups.complete_transaction(offsets, record, owner.as_ref()).map_err(not_done)
    }

    fn mark(
        &mut self,
        (topic, index): &TopicPartition,
        producer: Producer,
        commits: bool,
    ) -> Result<Option<CommitNumber>, NotDone> {
        let Some(hub) = self.namespace.hub(topic).filter(|hub| hub.name() == topic) else {
            return Ok(None);
        };
        let partition = usize::try_from(*index).ok().and_then(|index| hub.partitions().get(index));
        let Some(partition) = partition.filter(|partition| !partition.is_deleted()) else {
            return Ok(None);
        };
        let end = if commits { TransactionEnd::Commit } else { TransactionEnd::Abort };
        match mark(partition.log(), self.now, producer, end) {
            Ok(commit) => Ok(commit),
            // It was deleted just now.
            Err(_) if partition.is_deleted() => Ok(None),
            Err(not_done) => Err(not_done),
        }
    }

    fn state_of(&self, commit: CommitNumber) -> Progress {
        match self.commits.map(|commits| commits.state_of(commit)) {
            None | Some(CommitState::Done) => Progress::Done,
            Some(CommitState::Waiting) => Progress::Waiting,
            Some(CommitState::Failed) => Progress::Failed,
        }
    }
}

/// Aborts what is open in logs and not `known`: its producer has no coordinator that would ever end it, and readers would wait for
/// it for ever.
pub(super) fn abort_unknown(
    namespace: &Namespace,
    now: UnixTime,
    known: impl Fn(i64, &TopicPartition) -> bool,
) {
    for hub in namespace.hubs().iter() {
        for (index, partition) in (0..).zip(hub.partitions()) {
            for open in partition.log().open_transactions() {
                if known(open.producer_id, &(hub.name().to_owned(), index)) {
                    continue;
                }
                let producer = Producer { id: open.producer_id, epoch: open.producer_epoch };
                let marked = mark(partition.log(), now, producer, TransactionEnd::Abort);
                tracing::warn!(
                    hub = hub.name(),
                    partition = index,
                    producer = open.producer_id,
                    is_aborted = marked.is_ok(),
                    "a transaction that no coordinator knows of is aborted"
                );
            }
        }
    }
}

fn mark(
    log: &PartitionLog,
    now: UnixTime,
    producer: Producer,
    end: TransactionEnd,
) -> Result<Option<CommitNumber>, NotDone> {
    let Producer { id: producer_id, epoch: producer_epoch } = producer;
    let marker = TransactionMarker { producer_id, producer_epoch, end, coordinator_epoch: COORDINATOR_EPOCH };
    match log.end_transaction(now, &marker) {
        Ok(appended) => Ok(appended.map(|appended| appended.commit)),
        Err(error) => {
            tracing::debug!(%error, "a marker of a transaction can't be written yet");
            Err(NotDone)
        }
    }
}

#[expect(clippy::needless_pass_by_value, reason = "it is a function for `map_err`")]
fn not_done(refused: Refused) -> NotDone {
    tracing::warn!(%refused, "how it stands with a transaction can't be stored");
    NotDone
}

/// There is one coordinator, and never was another.
const COORDINATOR_EPOCH: i32 = 0;
