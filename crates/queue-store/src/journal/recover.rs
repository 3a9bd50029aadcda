//! Reading a journal at the start.

use super::record::{MessageHead, Queues, Record};
use super::{Journal, LONGEST_BATCH};
use crate::changes::Effects;
use crate::entity::QUEUES_OF_ONE;
use crate::history::MessageIdDigest;
use crate::page::{NO_SESSION, Payload, Stage};
use crate::rules::RuleSet;
use crate::state::QueueState;
use crate::subscription_rules::{KeptRules, SubscriptionRules, decoded};
use amqp::message::MessageView;
use bytes::Bytes;
use partition_log::disk::{
    CommitNumber, Committer, Damage, DamageCause, OpenError, PartitionDirectory, Presence, RecoveryReport,
    Unavailable,
};
use partition_log::{
    AppendError, BlockPool, Cursor, Edge, LogLimits, NewRecord, PartitionLog, PositionError, Readiness,
    Start, Subscriber, UnixTime, WhenFull,
};
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};
use units::ByteSize;

/// Where a journal is, and who writes it.
#[derive(Clone, Debug)]
pub(crate) struct JournalPlace {
    pub(crate) path: PathBuf,
    pub(crate) presence: Presence,
    pub(crate) committer: Arc<Committer>,
    pub(crate) pool: Arc<BlockPool>,
    /// How much longer than twice of what is alive the journal may be.
    pub(crate) slack: ByteSize,
}

impl JournalPlace {
    /// The name of its folder.
    pub(crate) fn name(&self) -> Arc<str> {
        self.path.file_name().unwrap_or_default().to_string_lossy().into()
    }
}

/// A record that belongs to a journal and is found in another one, which is written ahead.
#[derive(Debug)]
pub(crate) struct PastRecord {
    pub(crate) transaction: u64,
    pub(crate) head: Vec<u8>,
    pub(crate) bytes: Vec<u8>,
}

/// Why a journal can't be used.
#[derive(Debug, thiserror::Error)]
pub(crate) enum JournalError {
    /// Its log can't be opened.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// It can't be read.
    #[error(transparent)]
    Read(#[from] PositionError),
    /// The system can't read a segment of it.
    #[error("{}: {damage}", path.display())]
    Damaged {
        /// The journal's directory.
        path: PathBuf,
        /// Where.
        damage: Damage,
    },
    /// A record makes no sense, although it is what was written.
    #[error("{}: record type {record} is unknown; a newer version may have written it", path.display())]
    Record {
        /// The journal's directory.
        path: PathBuf,
        /// Which.
        record: u64,
    },
    /// A transaction can't be completed.
    #[error("{}: a transaction that was interrupted can't be completed: {reason}", path.display())]
    Transaction {
        /// The journal's directory.
        path: PathBuf,
        /// What is wrong with the disk.
        reason: Unavailable,
    },
    /// What says which queues there are was lost, and there are messages of queues that nothing else names.
    #[error(
        "{}: the journal is damaged, and the assignment of its messages to subscriptions is lost; restore \
         the damaged file, or remove the folder to discard its messages", path.display()
    )]
    NoAccount {
        /// The journal's directory.
        path: PathBuf,
    },
    /// A message belongs to no session, and sessions are required now.
    #[error(
        "{}: message {number} belongs to no session, and could not be received from an entity that requires sessions", path.display()
    )]
    NoSession {
        /// The journal's directory.
        path: PathBuf,
        /// The number of the message.
        number: u64,
    },
    /// It is that of a queue and not of a topic, or the other way round.
    #[error("{}: is the journal of a {}", path.display(), kind(*is_topic))]
    OtherKind {
        /// The journal's directory.
        path: PathBuf,
        /// What it is the journal of.
        is_topic: bool,
    },
}

impl JournalError {
    /// Whether the journal is sound, and it is the declaration of the entity that does not fit it.
    pub(crate) const fn is_contradiction(&self) -> bool {
        matches!(self, Self::NoSession { .. } | Self::OtherKind { .. })
    }
}

/// What a journal tells.
#[derive(Debug, Default)]
struct Told {
    queues: Option<Queues>,
    /// The last transaction that was applied.
    applied: u64,
    /// By their ids.
    of_queues: HashMap<u32, ToldOfQueue>,
}

/// What it tells of one queue.
#[derive(Debug, Default)]
struct ToldOfQueue {
    messages: BTreeMap<u64, ToldMessage>,
    next_number: u64,
    /// With the instants at which they were set.
    session_states: BTreeMap<String, (Box<[u8]>, i64)>,
    identifiers: Vec<(i64, MessageIdDigest, u64)>,
    rules: Option<KeptRules>,
}

#[derive(Debug)]
struct ToldMessage {
    head: MessageHead,
    session: Option<String>,
    bytes: Bytes,
    record: u64,
}

impl Journal {
    /// Opens the journal at `place` for an entity whose queues have these names, and puts what it tells into `states`.
    /// What it tells of queues that are not named any longer is forgotten. `past` are the records of transactions, which it may
    /// lack: those are added.
    pub(crate) fn open(
        place: JournalPlace,
        names: &[String],
        is_topic: bool,
        past: &[PastRecord],
        states: &mut [QueueState],
        rules: &mut [SubscriptionRules],
    ) -> Result<(Self, RecoveryReport), JournalError> {
        let slack = place.slack.bytes();
        let name = place.name();
        let limits = LogLimits {
            // Cleaning bounds it, and retention must not.
            bytes: ByteSize::from_bytes(u64::MAX),
            when_full: WhenFull::Retention,
            retention: None,
        };
        let path = place.path.clone();
        let is_present = place.presence == Presence::Present;
        let directory =
            PartitionDirectory { path: place.path, presence: place.presence, committer: place.committer };
        let (log, mut report) = PartitionLog::open(limits, place.pool, directory)?;
        let mut told = Told::default();
        let damaged = read_all(&log, &path, |head, bytes, number| told.read(head, bytes, number))?;
        report.damaged.extend(damaged);
        complete(&log, &path, past, &mut told)?;
        if let Some(kept) = &told.queues
            && kept.is_topic != is_topic
        {
            return Err(JournalError::OtherKind { path, is_topic: kept.is_topic });
        }
        if !told.names_all(is_topic) {
            return Err(JournalError::NoAccount { path });
        }
        // Without any account, all that it was for may have been given numbers.
        let is_unknown = is_present && told.queues.is_none();
        let queues = declared(told.queues.take().unwrap_or_default(), names, is_topic);
        let id_of = |place: usize| {
            queues.ids[place / QUEUES_OF_ONE].0 * QUEUES_OF_ONE as u32 + (place % QUEUES_OF_ONE) as u32
        };
        let ids: Vec<u32> = (0..states.len()).map(id_of).collect();
        for (place, (state, id)) in states.iter_mut().zip(&ids).enumerate() {
            let told = told.of_queues.remove(id);
            if let Some(mut told) = told.or_else(|| is_unknown.then(ToldOfQueue::default)) {
                // The first three are the topic's own.
                let rules = (place / QUEUES_OF_ONE).checked_sub(1).and_then(|place| rules.get_mut(place));
                if let (Some(rules), Some(kept)) = (rules, told.rules.take()) {
                    rules.restore(kept);
                }
                told.restore(state)
                    .map_err(|number| JournalError::NoSession { path: path.clone(), number })?;
            }
        }
        let stats = log.stats();
        let mut journal = Self {
            next_record: stats.last_sequence_number.map_or(0, |last| last + 1),
            bytes: stats.bytes,
            log,
            last_commit: CommitNumber::DONE,
            queues,
            ids,
            name,
            applied: told.applied,
            account: 0,
            cleaned: VecDeque::new(),
            slack,
            is_untidy: true,
            seen: 0,
            tidied_at: i64::MIN,
        };
        let mut account = Vec::new();
        journal.give_account(states, rules, &mut account);
        // Without the disk it is given with the next cleaning.
        if journal.append(i64::MIN, states, &mut account, LONGEST_BATCH).is_err() {
            journal.account = 0;
        }
        Ok((journal, report))
    }
}

/// Adds the records of transactions that a journal lacks, each transaction as one batch, and notes what they tell.
fn complete(
    log: &Arc<PartitionLog>,
    path: &Path,
    past: &[PastRecord],
    told: &mut Told,
) -> Result<(), JournalError> {
    let applied = told.applied;
    let lacking = past.chunk_by(|a, b| a.transaction == b.transaction);
    for records in lacking.filter(|records| records[0].transaction > applied) {
        let first = log.stats().last_sequence_number.map_or(0, |last| last + 1);
        let appended = log.append::<std::convert::Infallible>(UnixTime::default(), |encoder| {
            for record in records {
                let sections: &[&[u8]] = &[&record.bytes];
                encoder.push(&NewRecord { annotation_count: 0, annotations: &record.head, sections });
            }
            Ok(())
        });
        if let Err(error) = appended {
            let reason = match error {
                AppendError::Unavailable(reason) => reason,
                _ => Unavailable::Failed(std::io::ErrorKind::FileTooLarge),
            };
            return Err(JournalError::Transaction { path: path.to_owned(), reason });
        }
        for (number, record) in (first..).zip(records) {
            told.read(&record.head, &record.bytes, number)
                .ok_or_else(|| JournalError::Record { path: path.to_owned(), record: number })?;
        }
        tracing::info!(
            journal = %path.display(),
            transaction = records[0].transaction,
            "a transaction is completed that the end of the process before has interrupted"
        );
    }
    Ok(())
}

/// The queues as they are declared now: known names keep their ids, and no id is given twice.
fn declared(kept: Queues, names: &[String], is_topic: bool) -> Queues {
    let mut next_id = kept.next_id;
    let ids = names.iter().map(|name| {
        let known = kept.ids.iter().find(|(_, kept)| kept == name);
        let id = known.map_or(next_id, |(id, _)| *id);
        next_id += u32::from(known.is_none());
        (id, name.clone())
    });
    let ids = ids.collect();
    Queues { is_topic, next_id, ids }
}

/// Gives `each` all records: what the log calls their annotations, their bytes, their numbers; `None` from it is a record that
/// makes no sense. Those that are damaged are left out and reported, and those behind them read all the same: they say
/// what became of messages that came before. Returns damage that was not known when the log was opened.
pub(crate) fn read_all(
    log: &Arc<PartitionLog>,
    path: &Path,
    mut each: impl FnMut(&[u8], &[u8], u64) -> Option<()>,
) -> Result<Vec<(PathBuf, Damage)>, JournalError> {
    let end = log.stats().last_sequence_number.map_or(0, |last| last + 1);
    let subscriber = Subscriber::new();
    let mut subscription = log.subscribe(&subscriber, 0);
    let mut cursor = log.position(Start::Earliest)?;
    let mut next = log.stats().begin_sequence_number;
    let mut damaged = Vec::new();
    let unknown = |record| JournalError::Record { path: path.to_owned(), record };
    while next < end {
        if let Some(chunk) = log.read(&mut cursor, usize::MAX) {
            for record in chunk.records() {
                let number = record.sequence_number;
                each(record.annotations, record.sections, number).ok_or_else(|| unknown(number))?;
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
            // It may be read another time: what it tells must not be forgotten.
            Readiness::Damaged(damage) if matches!(damage.cause, DamageCause::Read(_)) => {
                return Err(JournalError::Damaged { path: path.to_owned(), damage });
            }
            Readiness::Damaged(damage) => {
                let mut refused = None;
                let beyond = log.read_beyond_damage(next, |number, record| {
                    if each(record.annotations, record.sections, number).is_none() {
                        refused.get_or_insert(number);
                    }
                })?;
                if let Some(record) = refused {
                    return Err(unknown(record));
                }
                let beyond = beyond.unwrap_or_default();
                report_lost(path, &damage, &beyond.lost);
                damaged.push((path.to_owned(), damage));
                next = beyond.next_sequence_number.max(next + 1);
                if next < end {
                    cursor = position(log, next)?;
                }
            }
        }
    }
    Ok(damaged)
}

/// One line about what damage has cost a journal.
fn report_lost(path: &Path, damage: &Damage, lost: &[Range<u64>]) {
    let count: u64 = lost.iter().map(|lost| lost.end - lost.start).sum();
    tracing::error!(
        journal = %path.display(),
        %damage,
        lost_records = count,
        "records of a journal are lost: messages that they contained are gone, and messages whose completion they \
         recorded are delivered again"
    );
}

fn position(log: &PartitionLog, next: u64) -> Result<Cursor, PositionError> {
    log.position(Start::SequenceNumber(next, Edge::Inclusive))
}

/// Waits until the subscriber is told of something.
fn wait(subscriber: &Subscriber) {
    parked(|context| subscriber.poll_ready(context, &mut Vec::new()));
}

/// Parks the thread until `poll` is ready.
pub(crate) fn parked<R>(mut poll: impl FnMut(&mut Context<'_>) -> Poll<R>) -> R {
    struct Unpark(Thread);
    impl Wake for Unpark {
        fn wake(self: Arc<Self>) {
            self.0.unpark();
        }
    }
    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    let mut context = Context::from_waker(&waker);
    loop {
        match poll(&mut context) {
            Poll::Ready(result) => return result,
            Poll::Pending => thread::park(),
        }
    }
}

impl Told {
    /// Notes what the record with these bytes tells; `None` if that makes no sense.
    fn read(&mut self, head: &[u8], bytes: &[u8], number: u64) -> Option<()> {
        self.apply(Record::decode(head)?, bytes, number)
    }

    /// Whether it is known of which queue each message is. It always is, unless an account was lost; a queue has the
    /// first ids in any case.
    fn names_all(&self, is_topic: bool) -> bool {
        let is_named = |id: u32| match &self.queues {
            Some(queues) => id < queues.next_id,
            None => !is_topic,
        };
        self.of_queues
            .iter()
            .filter(|(_, queue)| !queue.messages.is_empty())
            .all(|(id, _)| is_named(id / QUEUES_OF_ONE as u32))
    }

    /// Notes what a record tells; `None` if that makes no sense.
    fn apply(&mut self, record: Record<'_>, bytes: &[u8], number: u64) -> Option<()> {
        match record {
            Record::Message { queue, sequence_number, head, session } => {
                let queue = self.queue(queue);
                queue.used(sequence_number);
                let message = ToldMessage {
                    head,
                    session: session.map(str::to_owned),
                    bytes: Bytes::copy_from_slice(bytes),
                    record: number,
                };
                queue.messages.insert(sequence_number, message);
            }
            Record::Removed { queue, first, last } => {
                let queue = self.queue(queue);
                queue.used(last);
                while let Some((&found, _)) = queue.messages.range(first..=last.max(first)).next() {
                    queue.messages.remove(&found);
                }
            }
            Record::Changed { queue, sequence_number, stage, delivery_count } => {
                if let Some(message) = self.queue(queue).messages.get_mut(&sequence_number) {
                    message.head.stage = stage;
                    message.head.delivery_count = delivery_count;
                }
            }
            Record::SessionState { queue, session, is_there, set_at } => {
                let states = &mut self.queue(queue).session_states;
                match is_there {
                    true => {
                        states.insert(session.to_owned(), (bytes.into(), set_at));
                    }
                    false => {
                        states.remove(session);
                    }
                }
            }
            Record::Identifier { queue, seen, digest, sequence_number } => {
                let identifiers = &mut self.queue(queue).identifiers;
                identifiers.push((seen, digest, sequence_number));
            }
            Record::NextNumber { queue, sequence_number } => {
                if let Some(last) = sequence_number.checked_sub(1) {
                    self.queue(queue).used(last);
                }
            }
            Record::RulesKept { queue, configured } => {
                let rules = &mut self.queue(queue).rules;
                // An account says again what is known.
                if rules.as_ref().map(|kept| kept.configured) != configured {
                    *rules = configured.map(|configured| KeptRules { configured, set: RuleSet::empty() });
                }
            }
            Record::RulePut { queue } => {
                let rule = decoded(bytes)?;
                if let Some(kept) = &mut self.queue(queue).rules
                    && kept.set.find(&rule.name) != Some(&rule)
                {
                    let _ = kept.set.remove(&rule.name);
                    kept.set.add(rule).ok()?;
                }
            }
            Record::RuleRemoved { queue, name } => {
                if let Some(kept) = &mut self.queue(queue).rules {
                    let _ = kept.set.remove(name);
                }
            }
            Record::Queues(queues) => self.queues = Some(queues),
            Record::Applied { transaction } => self.applied = self.applied.max(transaction),
        }
        Some(())
    }

    fn queue(&mut self, id: u32) -> &mut ToldOfQueue {
        self.of_queues.entry(id).or_default()
    }
}

impl ToldOfQueue {
    /// A number was given.
    fn used(&mut self, sequence_number: u64) {
        self.next_number = self.next_number.max(sequence_number.saturating_add(1));
    }

    /// Puts what is told into a queue that is empty.
    ///
    /// # Errors
    /// The number of a message that has no session where sessions are required.
    fn restore(mut self, state: &mut QueueState) -> Result<(), u64> {
        // Nobody is waiting yet, and nothing is to be written again.
        let mut effects = Effects::new(false);
        for (sequence_number, message) in self.messages {
            let mut slot = message.head.slot();
            slot.stage = slot.stage.unlocked();
            if state.ledger.policy.requires_session {
                // Sessions may not have been required when it came.
                let session = message.session.or_else(|| {
                    let sections = message.bytes.get(usize::from(slot.annotations_length)..)?;
                    session_id(sections)
                });
                let session = session.ok_or(sequence_number)?;
                slot.session = state.ledger.sessions.place_of(&session);
            }
            let is_ready = slot.stage == Stage::Ready && slot.session == NO_SESSION;
            let payload = Payload::Whole(&message.bytes);
            state.pages.push_at(sequence_number, slot, payload, is_ready);
            let (stage, session) = (slot.stage, slot.session);
            let size = message.bytes.len() as u64 + crate::MESSAGE_OVERHEAD;
            state.ledger.added(stage, size);
            if session != NO_SESSION {
                let ledger = &mut state.ledger;
                ledger.added_to_session(session, stage, sequence_number, &mut effects);
            }
            state.pages.set_record(sequence_number, message.record);
        }
        let next_number = self.next_number.max(state.pages.next_sequence_number());
        state.pages.skip_to(next_number + SKIPPED_NUMBERS);
        for (session, (bytes, set_at)) in self.session_states {
            let place = state.ledger.sessions.place_of(&session);
            let ledger = &mut state.ledger;
            ledger.set_session_state(place, Some(bytes), set_at, &mut effects);
        }
        if let Some(history) = &mut state.ledger.history {
            self.identifiers.sort_by_key(|(seen, ..)| *seen);
            for (seen, digest, sequence_number) in self.identifiers {
                history.forget(seen);
                history.note(seen, digest, sequence_number);
            }
        }
        Ok(())
    }
}

/// The session that a message says it belongs to.
fn session_id(sections: &[u8]) -> Option<String> {
    let properties = MessageView::parse(sections).ok()?.properties().ok()??;
    properties.group_id
}

/// Numbers that are left out at a start. A receiver may have seen messages that were not on disk when the process was
/// killed, and that nobody was told were accepted: their numbers are not given to others. The committer is never so many
/// messages behind.
pub(crate) const SKIPPED_NUMBERS: u64 = 1 << 20;

fn kind(is_topic: bool) -> &'static str {
    match is_topic {
        true => "topic",
        false => "queue",
    }
}
