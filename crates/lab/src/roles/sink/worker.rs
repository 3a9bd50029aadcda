//! One worker of the sink: a connection, its share of the partitions, and a verifier of its own.

use std::{
    collections::{BTreeMap, HashMap},
    future::poll_fn,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use connect::{
    event::{EnqueuedTime, EventBatch, PartitionId},
    sink::ErrorClass,
    source::{
        AnySource, BatchOptions, Settled, Settlement, SettlementResult, SourceEvent, SourceOptions,
        StartPosition,
    },
};
use tokio::time::{Instant, Interval};

use super::dead_letters::DeadLetters;
use super::undone::{ReadEvent, Undone};
use crate::{
    clock::{RunTime, WallClock},
    payload::{Corrupted, Header, sent_time},
    record::{LatencyRecording, ReadRecords, Recorder, Recording, Window},
    roles::{
        RoleError,
        backend::{Backend, MessageCodec, REPORT_EVERY},
        causes::Causes,
        protocol::{DoneMark, Edge, ReadFrom, SinkConfig, SinkCounters},
        workers::WorkerChannel,
    },
    scenario::{Payload, Protocol},
    verify::{StreamSends, StreamVerifier},
};

/// What the role asks of a worker.
#[derive(Debug, Clone)]
pub(super) enum WorkerCommand {
    Start,
    Mark(Edge),
    Expect(Arc<Vec<StreamSends>>),
    Done(DoneMark),
    Stop,
}

/// What a worker says to the role.
#[derive(Debug)]
pub(super) enum WorkerEvent {
    Ready,
    Progress(WorkerCounters),
    Marked(Edge, WorkerCounters),
}

/// What a worker counts. `missing` is the role's to tell.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct WorkerCounters {
    pub(super) at: RunTime,
    pub(super) counters: SinkCounters,
    /// Acknowledged events that this worker has seen, once it knows which those are.
    pub(super) acknowledged_seen: Option<u64>,
}

/// What the work of a worker came to.
#[derive(Debug)]
pub(super) struct WorkerOutcome {
    pub(super) verifier: StreamVerifier,
    /// Stream and sequence number of each different message of the dead-letter queue.
    pub(super) dead_letters: Vec<(u16, u32)>,
    pub(super) latency: Option<Recording>,
    pub(super) uncorrected_latency: Option<Recording>,
    pub(super) to_destination: Option<Recording>,
    pub(super) delivery_time: Option<Recording>,
    pub(super) reads: Vec<ReadRecords>,
}

pub(super) type Channel = WorkerChannel<WorkerCommand, WorkerEvent, WorkerOutcome>;

/// Connects, receives, and gives account.
pub(super) async fn work<B: Backend>(
    backend: B,
    config: SinkConfig,
    channel: Channel,
) -> Result<WorkerOutcome, RoleError> {
    let options = SourceOptions {
        // Events are looked at as they come: nothing is gained by waiting for more.
        batch: BatchOptions {
            max_events: config.prefetch.clamp(1, EVENTS_PER_BATCH) as usize,
            max_wait: Duration::ZERO,
        },
        prefetch: config.prefetch as usize,
    };
    let opened = backend
        .open_source(&config.destination, options, config.read_from)
        .await
        .map_err(RoleError::connect("connecting the sink"))?;
    let workers = u32::from(config.workers.max(1));
    let index = u32::try_from(channel.index).unwrap_or(u32::MAX);
    let own = opened.positions.into_iter().filter(|(partition, _)| partition.0 % workers == index);
    let dead_letters = match config.dead_letters.as_ref().filter(|_| index == 0) {
        Some(endpoint) => {
            let payload = config.payload.clone();
            Some(DeadLetters::open(&backend, endpoint, config.expectation, payload).await?)
        }
        None => None,
    };
    channel.say(WorkerEvent::Ready);
    let mut receiver = Receiver {
        codec: backend.codec(&config.destination),
        dead_letters,
        undone: config.done_by.is_some().then(|| Undone::of_one_worker(config.workers)),
        is_stamped: opened.is_stamped,
        source: opened.source,
        positions: own.collect(),
        channel,
        ticks: tokio::time::interval(REPORT_EVERY),
        verifier: StreamVerifier::new(config.expectation).with_plan(&config.plan),
        recorders: None,
        reopen: Vec::new(),
        is_started: false,
        opened: 0,
        closed: 0,
        throttled: 0,
        missed: 0,
        causes: Causes::default(),
        expected: None,
        completed: Vec::new(),
        quiet: None,
        config,
    };
    poll_fn(|context| receiver.poll(context)).await
}

struct Receiver<C> {
    config: SinkConfig,
    codec: C,
    source: AnySource,
    /// Whether the source says when events arrived.
    is_stamped: bool,
    dead_letters: Option<DeadLetters<C>>,
    /// What a consumer has before it, where one is watched.
    undone: Option<Undone>,
    /// Where each partition of this worker is to be opened, or opened again.
    positions: HashMap<PartitionId, StartPosition>,
    channel: Channel,
    ticks: Interval,
    verifier: StreamVerifier,
    recorders: Option<Recorders>,
    /// Partitions that were closed, and when to try them again.
    reopen: Vec<(Instant, PartitionId)>,
    is_started: bool,
    /// Partitions opened, those opened again included.
    opened: u64,
    /// Partitions that the service closed.
    closed: u64,
    /// Those of them that it closed because a quota was exhausted.
    throttled: u64,
    /// Events that were gone before they could be read.
    missed: u64,
    causes: Causes,
    expected: Option<Arc<Vec<StreamSends>>>,
    /// Scratch: the events of a batch, by their indices, where each is to be completed.
    completed: Vec<u32>,
    /// Set when the sink is to stop: when it has been without an event for long enough.
    quiet: Option<Instant>,
}

/// The latencies of the events that were meant for the measured phase.
struct Recorders {
    window: Window,
    latency: Recorder,
    uncorrected_latency: Option<Recorder>,
    appends: Appends,
    /// By partition.
    reads: BTreeMap<u32, ReadRecords>,
}

/// How long events took until their append to the log that is read, and from there to the sink. Events that lie side by
/// side in a log were appended together. A service that gives no dates gives the first of all.
struct Appends {
    until: Recorder,
    from: Recorder,
    enqueued: EnqueuedTime,
    /// When that was; `None` where the service gives no dates.
    at: Option<RunTime>,
    /// Events in hand that were appended then.
    count: u64,
}

impl Recorders {
    /// Records when an event arrived, if it was meant for the measured phase, and says then when it left the load. `sent` knows
    /// that, and is asked only where it is recorded.
    #[inline]
    fn record(
        &mut self,
        intended: RunTime,
        at: RunTime,
        sent: impl FnOnce() -> Option<RunTime>,
    ) -> Option<Option<RunTime>> {
        if !self.window.contains(intended) {
            return None;
        }
        self.latency.record(intended, at);
        let recorder = self.uncorrected_latency.as_mut();
        let sent = recorder.and_then(|recorder| {
            let sent = sent()?;
            recorder.record(sent, at);
            Some(sent)
        });
        Some(sent)
    }
}

impl<C: MessageCodec> Receiver<C> {
    fn poll(&mut self, context: &mut Context<'_>) -> Poll<Result<WorkerOutcome, RoleError>> {
        for _ in 0..BATCHES_PER_POLL {
            self.hear(context)?;
            while self.ticks.poll_tick(context).is_ready() {
                self.tick();
                if self.quiet.is_some_and(|quiet| Instant::now() >= quiet) {
                    return Poll::Ready(Ok(self.give_account()));
                }
            }
            let is_waiting = match &mut self.dead_letters {
                Some(dead_letters) => match dead_letters.poll(context) {
                    Poll::Ready(result) => {
                        result?;
                        false
                    }
                    Poll::Pending => true,
                },
                None => true,
            };
            let Poll::Ready(event) = self.source.poll_batch(context) else {
                match is_waiting {
                    true => return Poll::Pending,
                    false => continue,
                }
            };
            match event.map_err(RoleError::Receive)? {
                SourceEvent::Batch(batch) => self.look_at(batch)?,
                SourceEvent::PartitionClosed { partition, error } => {
                    if error.class == ErrorClass::Fatal {
                        return Poll::Ready(Err(RoleError::Receive(error)));
                    }
                    self.closed += 1;
                    self.throttled += u64::from(matches!(error.class, ErrorClass::Throttled { .. }));
                    self.causes.warn(&error.condition, &error, "a partition was closed and will be reopened");
                    self.reopen.push((Instant::now() + REOPEN_AFTER, partition));
                }
                SourceEvent::Settled(settled) => log_failure(&settled),
                SourceEvent::LocksRenewed { .. } => {}
            }
        }
        // The event loop needs a turn now and then, however much there is to receive.
        context.waker().wake_by_ref();
        Poll::Pending
    }

    fn hear(&mut self, context: &mut Context<'_>) -> Result<(), RoleError> {
        while let Poll::Ready(ask) = self.channel.asks.poll_recv(context) {
            match ask {
                Some(WorkerCommand::Start) if self.reads_at_the_end() => {}
                Some(WorkerCommand::Start) => self.start(),
                Some(WorkerCommand::Mark(edge)) => self.mark(edge),
                Some(WorkerCommand::Expect(streams)) => {
                    self.expected = Some(streams);
                    if self.reads_at_the_end() {
                        self.start();
                    }
                }
                Some(WorkerCommand::Done(mark)) => self.note_done(mark)?,
                Some(WorkerCommand::Stop) => self.quiet = Some(Instant::now() + QUIET),
                None => return Err(RoleError::Abandoned),
            }
        }
        Ok(())
    }

    /// Opens its partitions, unless it has.
    fn start(&mut self) {
        if self.is_started {
            return;
        }
        self.is_started = true;
        for (partition, position) in &self.positions {
            self.opened += 1;
            self.source.open(*partition, position.clone());
        }
    }

    /// Whether it reads only once everything has been sent. When something arrived, it can't know then.
    const fn reads_at_the_end(&self) -> bool {
        self.config.destination.entity.is_archive()
    }

    fn tick(&mut self) {
        let now = self.config.clock.now();
        if let Some(recorders) = &mut self.recorders {
            recorders.latency.tick(now);
            if let Some(recorder) = &mut recorders.uncorrected_latency {
                recorder.tick(now);
            }
            recorders.appends.tick(now);
        }
        let due = Instant::now();
        let (positions, source, opened) = (&self.positions, &mut self.source, &mut self.opened);
        self.reopen.retain(|(at, partition)| {
            let is_due = *at <= due;
            if let Some(position) = positions.get(partition).filter(|_| is_due) {
                *opened += 1;
                source.open(*partition, position.clone());
            }
            !is_due
        });
        self.channel.say(WorkerEvent::Progress(self.counters(now)));
    }

    fn mark(&mut self, edge: Edge) {
        let now = self.config.clock.now();
        match edge {
            Edge::Begin
                if self.config.latency_recording == LatencyRecording::On && !self.reads_at_the_end() =>
            {
                self.recorders = Some(Recorders {
                    window: Window::beginning_at(now),
                    latency: Recorder::starting_at(now),
                    uncorrected_latency: self.knows_sent_time().then(|| Recorder::starting_at(now)),
                    appends: Appends::starting_at(now),
                    reads: BTreeMap::new(),
                });
            }
            Edge::Begin => {}
            Edge::End => {
                if let Some(recorders) = &mut self.recorders {
                    recorders.window.end_at(now);
                }
            }
        }
        self.channel.say(WorkerEvent::Marked(edge, self.counters(now)));
    }

    fn look_at(&mut self, batch: EventBatch) -> Result<(), RoleError> {
        if let Some(quiet) = &mut self.quiet {
            *quiet = Instant::now() + QUIET;
        }
        // One reading for all of them: they have been here since the same read of the socket.
        let now = match self.is_stamped {
            true => RunTime::from_micros(batch.receipt().0),
            false => self.config.clock.now(),
        };
        let wall = WallClock::at(now);
        let partition = batch.partition();
        let destination = u16::try_from(partition.0).unwrap_or(u16::MAX);
        let is_beside = self.config.payload.is_identified_beside();
        // Records of Kafka have the date of whoever sent them.
        let is_dated = self.config.destination.protocol == Protocol::Amqp;
        let mut reads = ReadRecords::of(partition.0);
        if let Some(recorders) = &self.recorders {
            reads = recorders.reads.get(&partition.0).copied().unwrap_or(reads);
        }
        for event in batch.events() {
            let decoded = self.codec.decode(batch.message(event));
            let parsed = match decoded {
                None => Err(Corrupted::NoPayload),
                Some(message) if is_beside => match message.header {
                    None => Err(Corrupted::NoProperty),
                    Some(header) => Header::parse_detached(header, message.payload),
                },
                Some(message) => Header::parse(message.payload),
            };
            if let (Some(undone), Ok(header)) = (&mut self.undone, parsed) {
                let sent = decoded.and_then(|message| sent_time(message.payload));
                let sequence_number = event.sequence_number;
                undone.read(partition, ReadEvent { sequence_number, header, sent })?;
                continue;
            }
            let Some(header) = self.verifier.observe(parsed, destination) else {
                continue;
            };
            let sent = || decoded.and_then(|message| sent_time(message.payload));
            if let Some(recorders) = &mut self.recorders
                && let Some(sent) = recorders.record(header.intended, now, sent)
            {
                let enqueued_time = if is_dated { event.enqueued_time } else { EnqueuedTime::default() };
                recorders.appends.record(header.intended, enqueued_time, now, wall);
                if let Some(sent) = sent {
                    reads.note(event.sequence_number.cast_unsigned(), [header.intended, sent, now]);
                }
            }
        }
        if let Some(recorders) = &mut self.recorders {
            recorders.appends.complete(now);
            if reads.records > 0 {
                recorders.reads.insert(partition.0, reads);
            }
        }
        self.missed += self.missing_before(&batch);
        if let Some(last) = last_number(&batch) {
            self.positions.insert(partition, StartPosition::AfterSequenceNumber(last));
            if let Some(undone) = &mut self.undone {
                undone.read_to(partition, last);
                self.settle(partition);
            }
        }
        if self.source.settles() {
            self.completed.clear();
            self.completed.extend((0_u32..).take(batch.len()));
            self.source.settle(&batch, &self.completed, Settlement::Complete);
        }
        self.source.release(batch);
        Ok(())
    }

    /// A consumer has done events, perhaps of a partition of this worker.
    fn note_done(&mut self, mark: DoneMark) -> Result<(), RoleError> {
        let partition = PartitionId(mark.partition);
        if let Some(undone) = self.undone.as_mut().filter(|_| self.positions.contains_key(&partition)) {
            undone.mark(mark)?;
            self.settle(partition);
        }
        Ok(())
    }

    /// Takes what a consumer has done of a partition for what arrives.
    fn settle(&mut self, partition: PartitionId) {
        let Some(undone) = &mut self.undone else {
            return;
        };
        let destination = u16::try_from(partition.0).unwrap_or(u16::MAX);
        let (verifier, recorders) = (&mut self.verifier, &mut self.recorders);
        undone.settle(partition, |event, at| {
            if let Some(header) = verifier.observe(Ok(event.header), destination)
                && let Some(recorders) = recorders
            {
                recorders.record(header.intended, at, || event.sent);
            }
        });
    }

    /// How many events are missing between those of its partition that were read before and the end of a batch.
    fn missing_before(&self, batch: &EventBatch) -> u64 {
        if self.source.settles() || !self.source.has_contiguous_numbers() {
            return 0;
        }
        let expected = match self.positions.get(&batch.partition()) {
            Some(StartPosition::AfterSequenceNumber(before)) => before.saturating_add(1),
            Some(StartPosition::Earliest) if self.config.read_from == ReadFrom::Beginning => 0,
            _ => batch.first_sequence_number().unwrap_or(0),
        };
        let end = last_number(batch).map_or(expected, |last| last.saturating_add(1));
        let numbers = end.saturating_sub(expected).max(0).cast_unsigned();
        let vacant = batch.vacant_numbers().iter();
        let vacant = vacant.map(|numbers| numbers.end.saturating_sub(numbers.start.max(expected)).max(0));
        numbers.saturating_sub(batch.len() as u64).saturating_sub(vacant.sum::<i64>().cast_unsigned())
    }

    fn counters(&self, at: RunTime) -> WorkerCounters {
        WorkerCounters {
            at,
            counters: SinkCounters {
                events: self.verifier.counts(),
                distinct: self.verifier.distinct(),
                opened: self.opened,
                dead_lettered: self.dead_letters().len() as u64,
                throttled: self.throttled + self.source.slowed_down(),
                closed: self.closed,
                missed: self.missed,
                undone: self.undone.as_ref().map_or(0, Undone::events),
                ahead: self.undone.as_ref().map_or(0, Undone::ahead),
                reads_at_the_end: self.reads_at_the_end(),
                missing: None,
            },
            acknowledged_seen: self
                .expected
                .as_ref()
                .map(|streams| self.verifier.acknowledged_seen(streams) + self.acknowledged_dead(streams)),
        }
    }

    fn dead_letters(&self) -> &[(u16, u32)] {
        self.dead_letters.as_ref().map_or(&[], DeadLetters::found)
    }

    /// Acknowledged messages that are in the dead-letter queue and have not arrived here. A queue is one partition, so
    /// this worker is the one that would have seen them.
    fn acknowledged_dead(&self, streams: &[StreamSends]) -> u64 {
        let dead = self.dead_letters().iter();
        let missing = dead.filter(|&&(stream, sequence)| {
            let sends = streams.get(usize::from(stream));
            let is_acknowledged = sends.is_some_and(|sends| sends.acknowledged.contains(sequence));
            is_acknowledged && !self.verifier.has_seen(stream, sequence)
        });
        missing.count() as u64
    }

    fn knows_sent_time(&self) -> bool {
        matches!(self.config.payload, Payload::Size(size) if size.bytes() >= 24)
    }

    fn give_account(&mut self) -> WorkerOutcome {
        let now = self.config.clock.now();
        let mut done = WorkerOutcome {
            verifier: self.verifier.clone(),
            dead_letters: self.dead_letters().to_vec(),
            latency: None,
            uncorrected_latency: None,
            to_destination: None,
            delivery_time: None,
            reads: Vec::new(),
        };
        if let Some(recorders) = self.recorders.take() {
            let uncorrected = recorders.uncorrected_latency;
            done.latency = Some(recorders.latency.finish(now));
            done.uncorrected_latency = uncorrected.map(|recorder| recorder.finish(now));
            done.to_destination = Some(recorders.appends.until.finish(now));
            done.delivery_time = Some(recorders.appends.from.finish(now));
            done.reads = recorders.reads.into_values().collect();
        }
        done
    }
}

impl Appends {
    fn starting_at(now: RunTime) -> Self {
        Self {
            until: Recorder::starting_at(now),
            from: Recorder::starting_at(now),
            enqueued: EnqueuedTime::default(),
            at: None,
            count: 0,
        }
    }

    fn tick(&mut self, now: RunTime) {
        self.until.tick(now);
        self.from.tick(now);
    }

    /// An event of the batch in hand.
    #[inline]
    fn record(&mut self, intended: RunTime, enqueued: EnqueuedTime, now: RunTime, wall: WallClock) {
        if enqueued != self.enqueued {
            self.complete(now);
            self.enqueued = enqueued;
        }
        if self.count == 0 {
            let is_dated = enqueued != EnqueuedTime::default();
            self.at = is_dated.then(|| wall.run_time(enqueued.unix_ms()));
        }
        self.count += 1;
        if let Some(at) = self.at {
            // The date is rounded down to the millisecond. That alone does not put an append before the event.
            let is_rounded = at < intended && intended.saturating_since(at) < DATE_RESOLUTION;
            self.until.record(intended, if is_rounded { intended } else { at });
        }
    }

    /// There are no more in hand that were appended together with the last one.
    fn complete(&mut self, now: RunTime) {
        let count = std::mem::take(&mut self.count);
        if let Some(at) = self.at
            && count > 0
        {
            self.from.record_many(at, now, count);
        }
    }
}

/// The last number of a batch, whether or not an event has it.
fn last_number(batch: &EventBatch) -> Option<i64> {
    let vacant = batch.vacant_numbers().last().map(|numbers| numbers.end.saturating_sub(1));
    batch.last_sequence_number().max(vacant)
}

/// What is not completed comes again, and is counted as a duplicate then.
fn log_failure(settled: &Settled) {
    if settled.result != SettlementResult::Confirmed {
        let (messages, result) = (settled.messages, settled.result);
        tracing::warn!(messages, ?result, "messages could not be completed");
    }
}

/// Large enough that the work per batch does not count.
const EVENTS_PER_BATCH: u32 = 4_096;

/// Batches after which the event loop gets a turn.
const BATCHES_PER_POLL: u32 = 64;

const REOPEN_AFTER: Duration = Duration::from_millis(200);

/// Of the dates that services give.
const DATE_RESOLUTION: Duration = Duration::from_millis(1);

/// How long nothing may arrive until a sink that was told to stop believes that nothing more will.
const QUIET: Duration = Duration::from_millis(300);
