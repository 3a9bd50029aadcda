//! One worker of the load: a schedule, a connection, and the ledger of what became of each send.

use std::{
    collections::VecDeque,
    future::poll_fn,
    task::{Context, Poll},
    time::Duration,
};

use connect::sink::{ErrorClass, OutgoingBatch, SendOutcome, SendToken, Sink};
use tokio::time::{Instant, Interval};

use super::encoder::Encoder;
use crate::{
    clock::{RunClock, RunTime},
    load::{Accounting, LATE_AFTER, LoadRecordings, PendingSend, Run, Schedule, Worker},
    record::LatencyRecording,
    roles::{
        RoleError,
        backend::{Backend, MessageCodec, REPORT_EVERY},
        causes::Causes,
        protocol::{Edge, LoadConfig, LoadCounters},
        timer::Timer,
        workers::WorkerChannel,
    },
    verify::StreamSends,
};

/// What the role asks of a worker.
#[derive(Debug, Clone)]
pub(super) enum WorkerCommand {
    /// The instant from which the plan counts.
    Start(RunTime),
    Allow(u64),
    Mark(Edge),
    Stop,
}

/// What a worker says to the role.
#[derive(Debug)]
pub(super) enum WorkerEvent {
    Ready,
    Progress(RunTime, LoadCounters),
    Marked(Edge, RunTime, LoadCounters),
}

/// What the work of a worker came to.
#[derive(Debug)]
pub(super) struct WorkerOutcome {
    pub(super) at: RunTime,
    pub(super) counters: LoadCounters,
    pub(super) streams: Vec<StreamSends>,
    pub(super) recordings: Option<LoadRecordings>,
}

pub(super) type Channel = WorkerChannel<WorkerCommand, WorkerEvent, WorkerOutcome>;

/// Connects, works, and gives account.
pub(super) async fn work<B: Backend>(
    backend: B,
    config: LoadConfig,
    mut channel: Channel,
) -> Result<WorkerOutcome, RoleError> {
    let sink = backend.open_sink(&config.source).await.map_err(RoleError::connect("connecting the load"))?;
    let plan = config.plan;
    let encoder = Encoder::new(
        backend.codec(config.source.protocol),
        &config.payload,
        plan.seed,
        config.run,
        plan.streams,
    )?;
    let needed = sink.encoded_len(encoder.longest_message()).saturating_mul(plan.batch as usize);
    let limit = sink.max_batch_bytes(0);
    if needed > limit {
        return Err(RoleError::BatchTooLarge { events: plan.batch, needed, limit });
    }
    channel.say(WorkerEvent::Ready);
    let start = loop {
        match channel.asks.recv().await {
            Some(WorkerCommand::Start(start)) => break start,
            Some(WorkerCommand::Mark(edge)) => {
                channel.say(WorkerEvent::Marked(edge, config.clock.now(), LoadCounters::default()))
            }
            Some(WorkerCommand::Allow(_)) => {}
            Some(WorkerCommand::Stop) | None => {
                return Ok(WorkerOutcome {
                    at: config.clock.now(),
                    counters: LoadCounters::default(),
                    streams: Vec::new(),
                    recordings: None,
                });
            }
        }
    };
    let worker = Worker { index: u16::try_from(channel.index).unwrap_or(u16::MAX), count: config.workers };
    let timer = Timer::new().map_err(|source| RoleError::System { what: "a timer", source })?;
    let mut generator = Generator {
        clock: config.clock,
        schedule: Schedule::new(plan, worker, start),
        accounting: Accounting::new(&plan, u64::try_from(LATE_AFTER.as_micros()).unwrap_or(u64::MAX)),
        encoder,
        sink,
        channel,
        timer,
        ticks: tokio::time::interval(REPORT_EVERY),
        waiting: VecDeque::new(),
        released: Vec::new(),
        pending: Vec::new(),
        free: Vec::new(),
        outcomes: Vec::new(),
        overdue_at_stop: None,
        latency_recording: config.latency_recording,
        answer_patience: config.answer_patience,
        answers_until: None,
        paused_until: None,
        causes: Causes::default(),
    };
    poll_fn(|context| generator.poll(context)).await
}

struct Generator<C> {
    clock: RunClock,
    schedule: Schedule,
    accounting: Accounting,
    encoder: Encoder<C>,
    sink: Box<dyn Sink>,
    channel: Channel,
    timer: Timer,
    ticks: Interval,
    /// Runs that were released and that the sink was too busy to take.
    waiting: VecDeque<Run>,
    released: Vec<Run>,
    /// Sends without an answer, by their token.
    pending: Vec<Option<PendingSend>>,
    /// Tokens that are free.
    free: Vec<usize>,
    outcomes: Vec<SendOutcome>,
    /// Set when the load was stopped: what was due then and had not left.
    overdue_at_stop: Option<u64>,
    latency_recording: LatencyRecording,
    /// How long a stopped load waits for answers.
    answer_patience: Duration,
    /// Until when it waits for them.
    answers_until: Option<Instant>,
    /// Until when a load without a plan in time sends nothing, because the service asked to slow down.
    paused_until: Option<Instant>,
    causes: Causes,
}

impl<C: MessageCodec> Generator<C> {
    fn poll(&mut self, context: &mut Context<'_>) -> Poll<Result<WorkerOutcome, RoleError>> {
        for _ in 0..ROUNDS_PER_POLL {
            self.hear(context)?;
            let now = self.clock.now();
            while self.ticks.poll_tick(context).is_ready() {
                self.accounting.tick(now);
                if let Some(error) = self.sink.outage() {
                    self.causes.warn(&error.condition, error, "there is no connection");
                }
                self.channel.say(WorkerEvent::Progress(now, self.counters(now)));
            }
            if self.answers_until.is_some_and(|until| Instant::now() >= until) {
                self.give_up_answers();
            }
            let sent = self.send(context, now)?;
            let answered = self.settle(context)?;
            if self.is_done() {
                return Poll::Ready(Ok(self.give_account()));
            }
            if !sent && !answered && self.sleep(context)?.is_pending() {
                return Poll::Pending;
            }
        }
        // The event loop needs a turn now and then, however much there is to do.
        context.waker().wake_by_ref();
        Poll::Pending
    }

    fn hear(&mut self, context: &mut Context<'_>) -> Result<(), RoleError> {
        while let Poll::Ready(ask) = self.channel.asks.poll_recv(context) {
            match ask {
                Some(WorkerCommand::Start(_)) => {}
                Some(WorkerCommand::Allow(events)) => self.schedule.allow(events),
                Some(WorkerCommand::Mark(edge)) => {
                    let now = self.clock.now();
                    match edge {
                        Edge::Begin if self.latency_recording == LatencyRecording::On => {
                            self.accounting.begin_measurement(now);
                        }
                        Edge::Begin => {}
                        Edge::End => self.accounting.end_measurement(now),
                    }
                    self.channel.say(WorkerEvent::Marked(edge, now, self.counters(now)));
                }
                Some(WorkerCommand::Stop) if self.overdue_at_stop.is_none() => {
                    self.overdue_at_stop = Some(self.overdue(self.clock.now()));
                    self.answers_until = Some(Instant::now() + self.answer_patience);
                    self.waiting.clear();
                }
                Some(WorkerCommand::Stop) => {}
                None => return Err(RoleError::Abandoned),
            }
        }
        Ok(())
    }

    /// Sends what is due. Returns whether anything left.
    fn send(&mut self, context: &mut Context<'_>, now: RunTime) -> Result<bool, RoleError> {
        if self.paused_until.is_some_and(|until| Instant::now() >= until) {
            self.paused_until = None;
        }
        let may_release = self.overdue_at_stop.is_none() && self.paused_until.is_none();
        if may_release && self.waiting.is_empty() {
            self.schedule.release(now, EVENTS_PER_ROUND, &mut self.released);
            self.waiting.extend(self.released.drain(..));
        }
        let mut sent = false;
        while let Some(run) = self.waiting.pop_front() {
            let now = self.clock.now();
            let token = self.free.pop().unwrap_or_else(|| {
                self.pending.push(None);
                self.pending.len() - 1
            });
            let destination = u32::from(run.stream) % self.sink.destinations();
            let (batch, events) = self.encoder.encode(&run, now);
            let outgoing = OutgoingBatch::new(destination, batch, events);
            if self.sink.send(SendToken(token as u64), outgoing).is_ok() {
                self.pending[token] = Some(self.accounting.sent(run, now));
                sent = true;
                continue;
            }
            self.free.push(token);
            self.waiting.push_front(run);
            match self.sink.poll_ready(context) {
                Poll::Ready(ready) => ready.map_err(RoleError::Send)?,
                Poll::Pending => break,
            }
        }
        Ok(sent)
    }

    /// Ledger the answers that have come. Returns whether there was any.
    fn settle(&mut self, context: &mut Context<'_>) -> Result<bool, RoleError> {
        let Poll::Ready(result) = self.sink.poll_outcomes(context, &mut self.outcomes) else {
            return Ok(false);
        };
        result.map_err(RoleError::Send)?;
        let now = self.clock.now();
        for outcome in self.outcomes.drain(..) {
            let token = outcome.token.0 as usize;
            let Some(pending) = self.pending.get_mut(token).and_then(Option::take) else {
                continue;
            };
            self.free.push(token);
            self.schedule.answered(1);
            match outcome.result {
                Ok(()) => self.accounting.acknowledged(&pending, now),
                Err(error) => {
                    self.accounting.refused(&pending, error.class);
                    let is_throttled = matches!(error.class, ErrorClass::Throttled { .. });
                    if is_throttled && !self.schedule.has_plan() {
                        self.paused_until = Some(Instant::now() + THROTTLED_PAUSE);
                    }
                    self.causes.warn(&error.condition, &error, "sends are refused");
                }
            }
        }
        Ok(true)
    }

    /// `Pending` until the next event is due or something else wakes the task.
    fn sleep(&mut self, context: &mut Context<'_>) -> Result<Poll<()>, RoleError> {
        let failed = |source| RoleError::System { what: "a timer", source };
        if self.overdue_at_stop.is_some() || !self.waiting.is_empty() {
            return Ok(Poll::Pending);
        }
        // Events closer together than this leave together: each wake-up costs more than it.
        let after = match (self.paused_until, self.schedule.next_due()) {
            (Some(until), _) => until.saturating_duration_since(Instant::now()),
            (None, Some(due)) => due.saturating_since(self.clock.now()),
            (None, None) => return Ok(Poll::Pending),
        };
        let after = after.max(COALESCE);
        self.timer.set(after).map_err(failed)?;
        match self.timer.poll_elapsed(context) {
            Poll::Ready(elapsed) => elapsed.map(Poll::Ready).map_err(failed),
            Poll::Pending => Ok(Poll::Pending),
        }
    }

    /// Stops waiting for answers: what became of these events stays unknown.
    fn give_up_answers(&mut self) {
        for (token, pending) in self.pending.iter_mut().enumerate() {
            if let Some(pending) = pending.take() {
                self.accounting.failed(&pending);
                self.schedule.answered(1);
                self.free.push(token);
            }
        }
    }

    fn is_done(&self) -> bool {
        (self.overdue_at_stop.is_some() || self.schedule.is_exhausted())
            && self.waiting.is_empty()
            && self.pending.len() == self.free.len()
    }

    fn give_account(&mut self) -> WorkerOutcome {
        let at = self.clock.now();
        WorkerOutcome {
            at,
            counters: self.counters(at),
            streams: self.accounting.streams().to_vec(),
            recordings: self.accounting.take_recordings(at),
        }
    }

    fn counters(&self, now: RunTime) -> LoadCounters {
        LoadCounters {
            events: self.accounting.counts(),
            overdue: self.overdue_at_stop.unwrap_or_else(|| self.overdue(now)),
            held_us: self.schedule.held_us(now),
        }
    }

    fn overdue(&self, now: RunTime) -> u64 {
        let waiting: u64 = self.waiting.iter().map(|run| u64::from(run.count())).sum();
        let is_planned = self.schedule.has_plan();
        self.schedule.overdue(now) + if is_planned { waiting } else { 0 }
    }
}

/// Rounds after which the event loop gets a turn.
const ROUNDS_PER_POLL: u32 = 64;

/// Events released per round, so that answers are booked between.
const EVENTS_PER_ROUND: u32 = 4_096;

/// A load that sends as fast as it can tries again after this when it was throttled. It gets all that the quota gives in
/// that way, since that is a share of a second's worth, and does not flood the service with sends that it refuses.
const THROTTLED_PAUSE: Duration = Duration::from_millis(10);

const COALESCE: Duration = Duration::from_micros(50);
