//! Transactions of Kafka's producers: what a producer writes to several partitions, and how far a group has come with it, counts
//! as a whole or not at all.
//!
//! * `coordinator` decides: a state machine of all transactional ids, in which `transaction` is one of them, and `pending` the offsets
//!   that it brings with it.
//! * [`Transactions`] gives each request its turn, carries out what the coordinator decides, and has time pass for it.
//! * `world` is how it is carried out: in the journal, in the logs of partitions, in groups.
//!
//! Everything that a client was told is in the journal, which partitions belong to a transaction as well. So after a restart a
//! transaction goes on as if there had been none, or ends when its time is over. Should a log have one open of which the
//! coordinator does not know, as after a power cut, or if a client did not wait for answers, it is aborted at the start.
//!
//! Locks are taken in this order: those of hubs, this one, that of groups, that of a log.

mod coordinator;
mod owners;
mod pending;
mod producer_ids;
mod state;
#[cfg(test)]
mod tests;
mod transaction;
mod world;

use std::collections::HashMap;
use std::future::{pending, poll_fn};
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};
use std::time::Duration;

use kafka::ErrorCode;
use kafka::messages::offset_commit::CommittedOffset;
use kafka::messages::producer_id::InitProducerIdRequest;
use kafka::messages::transaction_admin::{DescribedTransaction, ListTransactionsRequest, ListedTransaction};
use kafka::messages::transactions::{TransactionRef, TransactionalOffsetsRequest};
use partition_log::UnixTime;
use partition_log::disk::{CommitNumber, CommitWatch};
use tokio::sync::{Notify, oneshot, watch};

pub(crate) use coordinator::Totals;
pub(crate) use state::TransactionState;
pub(crate) use transaction::Producer;

use crate::groups::{Changed, Groups, check_offset};
use crate::journal::{Journal, OffsetRecord, Record, Refused};
use crate::namespace::{Namespace, Principal};
use coordinator::{Coordinator, Known};
use producer_ids::ProducerIds;
use world::Service;

/// The transactions of a namespace.
#[derive(Debug)]
pub(crate) struct Transactions {
    state: RwLock<State>,
    journal: Arc<Journal>,
    groups: Arc<Groups>,
    namespace: Arc<Namespace>,
    commits: Option<CommitWatch>,
    producer_ids: ProducerIds,
    /// There may be something to be done earlier.
    changed: Notify,
}

#[derive(Debug)]
struct State {
    coordinator: Coordinator<CommitNumber>,
    /// Who waits for the end of the transaction of an id.
    waiting: HashMap<String, Vec<oneshot::Sender<bool>>>,
}

/// Numbers of transactional ids and their transactions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TransactionCounts {
    pub(crate) ids: u64,
    pub(crate) open: u64,
    pub(crate) totals: Totals,
}

/// What the journal tells of transactions.
#[derive(Debug)]
pub(crate) struct KeptTransactions(Coordinator<CommitNumber>);

/// Nothing changes while a producer writes, so that nothing is written to a transaction that has ended.
#[derive(Debug)]
pub(crate) struct Producing<'t>(RwLockReadGuard<'t, State>);

/// Which offsets open transactions may yet replace.
#[derive(Debug)]
pub(crate) struct Unstable<'t>(RwLockReadGuard<'t, State>);

/// How a request to end a transaction is answered.
#[derive(Debug)]
pub(crate) enum Ended {
    /// It has ended.
    Done,
    /// It will have when this is told, or it is not known whether it will.
    Waits(oneshot::Receiver<bool>),
}

impl KeptTransactions {
    /// Nothing so far.
    pub(crate) fn new() -> Self {
        Self(Coordinator::new())
    }

    /// Notes what a record says of transactions, if it does.
    pub(crate) fn apply(&mut self, record: &Record<'_>) {
        self.0.apply(record);
    }
}

impl Transactions {
    /// Those that are kept from before. What was decided of them is brought to its end, and what no one knows of is aborted.
    pub(crate) fn new(
        namespace: Arc<Namespace>,
        journal: Arc<Journal>,
        groups: Arc<Groups>,
        kept: KeptTransactions,
    ) -> Arc<Self> {
        let KeptTransactions(mut coordinator) = kept;
        coordinator.resume();
        world::abort_unknown(&namespace, namespace.clock().unix_time(), |producer_id, partition| {
            coordinator.knows(producer_id, partition)
        });
        let producer_ids = ProducerIds::after(coordinator.greatest_producer_id());
        let commits = namespace.watch_commits();
        let state = RwLock::new(State { coordinator, waiting: HashMap::new() });
        let changed = Notify::new();
        Arc::new(Self { state, journal, groups, namespace, commits, producer_ids, changed })
    }

    /// Has transactions end that are to, until `stop` becomes true.
    pub(crate) async fn drive(self: Arc<Self>, mut stop: watch::Receiver<bool>) {
        let mut commits = self.namespace.watch_commits();
        let mut expire_at = tokio::time::Instant::now() + EXPIRING_PERIOD;
        let mut advances = self.namespace.clock().advances();
        loop {
            let now = self.namespace.clock().unix_time();
            let next = self.act(now);
            if tokio::time::Instant::now() >= expire_at {
                self.expire(now);
                expire_at = tokio::time::Instant::now() + EXPIRING_PERIOD;
            }
            let awaits = self.read().coordinator.awaits_commits();
            let until = next.map_or(LONGEST_SLEEP, |next| {
                let milliseconds = next.milliseconds().saturating_sub(now.milliseconds());
                // The system's clock may be set: what is far away is looked at again before.
                Duration::from_millis(u64::try_from(milliseconds).unwrap_or(0)).min(LONGEST_SLEEP)
            });
            let committed = async {
                match &mut commits {
                    Some(commits) if awaits => poll_fn(|cx| commits.poll_committed(cx)).await,
                    _ => pending().await,
                }
            };
            tokio::select! {
                () = tokio::time::sleep(until) => {}
                () = committed => {}
                () = self.changed.notified() => {}
                _ = advances.changed() => {}
                _ = stop.wait_for(|stop| *stop) => return,
            }
        }
    }

    /// Has transactions end whose time is over at `now`, and goes on with those that are at their end. Returns when the next one's is.
    pub(crate) fn act(&self, now: UnixTime) -> Option<UnixTime> {
        let mut state = self.write();
        state.coordinator.advance(now.milliseconds(), &mut self.world(now));
        state.tell();
        state.coordinator.next_deadline().map(UnixTime::from_milliseconds)
    }

    /// Forgets ids that have not been used for long.
    pub(crate) fn expire(&self, now: UnixTime) {
        let mut state = self.write();
        state.coordinator.expire(now.milliseconds(), &mut self.world(now));
        state.tell();
    }

    /// Who a producer is: one without transactions, or the one of a transactional id, whose open transaction is aborted.
    pub(crate) fn begin_producer(
        &self,
        request: &InitProducerIdRequest<'_>,
        principal: &Principal,
    ) -> Changed<Result<Producer, ErrorCode>> {
        let claimed = Producer { id: request.producer_id, epoch: request.producer_epoch };
        let Some(id) = request.transactional_id else {
            let producer = self.producer_ids.without_transactions(claimed);
            return Changed { results: Ok(producer), commit: CommitNumber::DONE };
        };
        let timeout_ms = request.transaction_timeout_ms;
        let new_id = || self.producer_ids.next();
        self.change(|coordinator, now, world| {
            let known_as = Known { id, owner: Some(principal.clone()) };
            coordinator.begin_producer(now, known_as, timeout_ms, claimed, new_id, world)
        })
    }

    /// A transaction is going to write to these partitions, which exist.
    pub(crate) fn add_partitions(
        &self,
        transaction: &TransactionRef<'_>,
        partitions: &[(&str, i32)],
    ) -> Changed<Result<(), ErrorCode>> {
        let partitions = partitions.iter().map(|(topic, index)| ((*topic).to_owned(), *index));
        self.change(|coordinator, now, world| {
            let id = transaction.transactional_id;
            coordinator.add(now, id, producer_of(transaction), partitions, None, world)
        })
    }

    /// A transaction is going to bring offsets of this group with it.
    pub(crate) fn add_group(
        &self,
        transaction: &TransactionRef<'_>,
        group_id: &str,
    ) -> Changed<Result<(), ErrorCode>> {
        self.change(|coordinator, now, world| {
            let id = transaction.transactional_id;
            coordinator.add(now, id, producer_of(transaction), None, Some(group_id), world)
        })
    }

    /// A transaction brings these offsets with it. `exists` says whether the client may use a partition of a topic.
    pub(crate) fn add_offsets(
        &self,
        request: &TransactionalOffsetsRequest<'_>,
        principal: &Principal,
        exists: impl Fn(&str, i32) -> Result<(), ErrorCode>,
    ) -> Changed<Vec<ErrorCode>> {
        let all =
            |error| Changed { results: vec![error; request.partitions.len()], commit: CommitNumber::DONE };
        if let Err(error) = self.groups.check_transactional(&request.member, &request.partitions, principal) {
            return all(error);
        }
        let check = |committed: &CommittedOffset<'_>| {
            let checked = exists(committed.topic, committed.index).and_then(|()| check_offset(committed));
            checked.err().unwrap_or(ErrorCode::None)
        };
        let errors: Vec<ErrorCode> = request.partitions.iter().map(check).collect();
        let committed_at = self.namespace.clock().unix_time().milliseconds();
        let (group, transaction) = (request.member.group_id, &request.transaction);
        let taken = request.partitions.iter().zip(&errors).filter(|(_, error)| **error == ErrorCode::None);
        let taken: Vec<OffsetRecord<'_>> = taken
            .map(|(it, _)| OffsetRecord {
                group,
                topic: it.topic,
                index: it.index,
                offset: it.offset,
                leader_epoch: it.leader_epoch,
                committed_at,
                metadata: it.metadata,
            })
            .collect();
        let Changed { results, commit } = self.change(|coordinator, _now, world| {
            let id = transaction.transactional_id;
            coordinator.add_offsets(id, producer_of(transaction), group, &taken, world)
        });
        match results {
            Ok(()) => Changed { results: errors, commit },
            Err(error) => all(error),
        }
    }

    /// A producer ends its transaction.
    pub(crate) fn end(&self, transaction: &TransactionRef<'_>, commits: bool) -> Result<Ended, ErrorCode> {
        let now = self.namespace.clock().unix_time();
        let mut state = self.write();
        let id = transaction.transactional_id;
        let producer = producer_of(transaction);
        let mut world = self.world(now);
        let is_done = state.coordinator.end(now.milliseconds(), id, producer, commits, &mut world)?;
        state.tell();
        if is_done {
            return Ok(Ended::Done);
        }
        let (sender, receiver) = oneshot::channel();
        state.waiting.entry(id.to_owned()).or_default().push(sender);
        drop(state);
        self.changed.notify_one();
        Ok(Ended::Waits(receiver))
    }

    /// For a producer that writes.
    pub(crate) fn producing(&self) -> Producing<'_> {
        Producing(self.read())
    }

    /// For whoever asks how far a group has come.
    pub(crate) fn unstable(&self) -> Unstable<'_> {
        Unstable(self.read())
    }

    /// A topic is gone, and with it the offsets in it. Says whether there were any.
    pub(crate) fn forget_topic(&self, topic: &str) -> bool {
        self.write().coordinator.forget_topic(topic)
    }

    /// What there is to say of a transactional id. `may_know` says of which topics.
    pub(crate) fn describe(
        &self,
        id: &str,
        may_know: impl Fn(&str) -> bool,
    ) -> Result<DescribedTransaction, ErrorCode> {
        let state = self.read();
        let transaction = state.coordinator.find(id).ok_or(ErrorCode::TransactionalIdNotFound)?;
        let is_open = transaction.state == TransactionState::Ongoing || transaction.state.is_prepared();
        Ok(DescribedTransaction {
            state: transaction.state.name(),
            timeout_ms: transaction.timeout_ms,
            started_at: if is_open { transaction.started_at } else { -1 },
            producer_id: transaction.producer.id,
            producer_epoch: transaction.producer.epoch,
            partitions: transaction.partitions.iter().filter(|(topic, _)| may_know(topic)).cloned().collect(),
        })
    }

    /// The ids that are asked for.
    pub(crate) fn list(&self, request: &ListTransactionsRequest<'_>) -> Vec<ListedTransaction> {
        let now = self.namespace.clock().unix_time().milliseconds();
        let state = self.read();
        let listed = state.coordinator.ids().filter(|(_, it)| {
            let in_state = request.states.is_empty() || request.states.contains(&it.state.name());
            let is_open = it.state == TransactionState::Ongoing || it.state.is_prepared();
            let is_old = request.duration_ms < 0
                || (is_open && now.saturating_sub(it.started_at) > request.duration_ms);
            let of_producer =
                request.producer_ids.is_empty() || request.producer_ids.contains(&it.producer.id);
            in_state && is_old && of_producer
        });
        let listed = listed.map(|(id, it)| ListedTransaction {
            transactional_id: id.to_owned(),
            producer_id: it.producer.id,
            state: it.state.name(),
        });
        listed.collect()
    }

    /// How many transactional ids there are, how many transactions are open, and how many have ended how.
    pub(crate) fn counts(&self) -> TransactionCounts {
        let state = self.read();
        TransactionCounts {
            ids: state.coordinator.id_count() as u64,
            open: state.coordinator.open_count() as u64,
            totals: state.coordinator.totals,
        }
    }

    /// Writes all that holds of transactions.
    pub(crate) fn give_account(&self) -> Result<(), Refused> {
        // Not only read: what changes meanwhile would have to come behind it.
        let state = self.write();
        self.journal.append_each(self.namespace.clock().unix_time(), &state.coordinator.account())
    }

    /// Has the coordinator change something, which counts when it is on disk.
    fn change<T>(
        &self,
        change: impl FnOnce(
            &mut Coordinator<CommitNumber>,
            i64,
            &mut Service<'_>,
        ) -> coordinator::Reply<T, CommitNumber>,
    ) -> Changed<Result<T, ErrorCode>> {
        if let Err(refused) = self.journal.admit() {
            tracing::error!(%refused, "transactions can't be stored");
            let results = Err(ErrorCode::CoordinatorNotAvailable);
            return Changed { results, commit: CommitNumber::DONE };
        }
        let now = self.namespace.clock().unix_time();
        let mut state = self.write();
        let reply = change(&mut state.coordinator, now.milliseconds(), &mut self.world(now));
        state.tell();
        drop(state);
        // A deadline may have come nearer.
        self.changed.notify_one();
        match reply {
            Ok((result, commit)) => {
                Changed { results: Ok(result), commit: commit.unwrap_or(CommitNumber::DONE) }
            }
            Err(error) => Changed { results: Err(error), commit: CommitNumber::DONE },
        }
    }

    fn world(&self, now: UnixTime) -> Service<'_> {
        Service {
            now,
            namespace: &self.namespace,
            journal: &self.journal,
            groups: &self.groups,
            commits: self.commits.as_ref(),
        }
    }

    fn read(&self) -> RwLockReadGuard<'_, State> {
        self.state.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, State> {
        // What a panic leaves behind is a transaction that ends when its time is over, or after a restart.
        self.state.write().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// Tells those who wait what has become of their transactions.
    fn tell(&mut self) {
        for (id, has_ended) in self.coordinator.take_ended() {
            for sender in self.waiting.remove(&id).into_iter().flatten() {
                // Who has gone hears nothing.
                let _ = sender.send(has_ended);
            }
        }
    }
}

impl Producing<'_> {
    /// Whether a producer may write to a partition as part of the transaction of this id.
    pub(crate) fn check(
        &self,
        id: &str,
        producer: Producer,
        topic: &str,
        index: i32,
    ) -> Result<(), ErrorCode> {
        self.0.coordinator.check_produce(id, producer, topic, index)
    }
}

impl Unstable<'_> {
    /// Whether an open transaction brings an offset of this group with it.
    pub(crate) fn is_pending(&self, group: &str, topic: &str, index: i32) -> bool {
        self.0.coordinator.is_pending(&(group.to_owned(), topic.to_owned(), index))
    }
}

const fn producer_of(transaction: &TransactionRef<'_>) -> Producer {
    Producer { id: transaction.producer_id, epoch: transaction.producer_epoch }
}

/// How often it is looked for ids that have not been used for long.
const EXPIRING_PERIOD: Duration = Duration::from_secs(10 * 60);

const LONGEST_SLEEP: Duration = Duration::from_secs(60);
