//! One worker of the load: a schedule, a connection, and the ledger of what became of each send.

use std::{
    collections::VecDeque,
    future::poll_fn,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use connect::producer::Stages;
use connect::sink::{ErrorClass, OutgoingBatch, SendOutcome, SendToken, Sink};
use tokio::time::{Instant, Interval};

use super::encoder::Encoder;
use crate::{
    clock::{RunClock, RunTime},
    load::{Accounting, Attendance, LoadRecordings, PendingSend, Punctuality, Run, Schedule, Worker},
    record::LatencyRecording,
    roles::{
        RoleError,
        backend::{Backend, MessageCodec, OpenedSink, REPORT_EVERY, StageLog},
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
    pub(super) punctuality: Punctuality,
    pub(super) recordings: Option<LoadRecordings>,
}

pub(super) type Channel = WorkerChannel<WorkerCommand, WorkerEvent, WorkerOutcome>;

/// Connects, works, and gives account.
pub(super) async fn work<B: Backend>(
    backend: B,
    config: LoadConfig,
    mut channel: Channel,
) -> Result<WorkerOutcome, RoleError> {
    let opened = backend.open_sink(&config.source).await;
    let OpenedSink { sink, stages } = opened.map_err(RoleError::connect("connecting the load"))?;
    let plan = config.plan;
    let encoder =
        Encoder::new(backend.codec(&config.source), &config.payload, plan.seed, config.run, plan.streams)?;
    encoder.check(plan.batch, sink.as_ref())?;
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
                    punctuality: Punctuality::default(),
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
        accounting: Accounting::new(&plan),
        attendance: Attendance::default(),
        encoder,
        sink,
        stages,
        taken_stages: Vec::new(),
        channel,
        timer,
        ticks: tokio::time::interval(REPORT_EVERY),
        waiting: VecDeque::new(),
        released: Vec::new(),
        pending: Vec::new(),
        free: Vec::new(),
        outcomes: Vec::new(),
        stopped: None,
        never_sent: 0,
        latency_recording: config.latency_recording,
        answer_patience: config.answer_patience,
        paused_until: None,
        causes: Causes::default(),
    };
    let outcome = poll_fn(|context| generator.poll(context)).await?;
    // Whoever buffers sends what it still has.
    generator.sink.shut_down().await;
    Ok(outcome)
}

struct Generator<C> {
    clock: RunClock,
    schedule: Schedule,
    accounting: Accounting,
    attendance: Attendance,
    encoder: Encoder<C>,
    sink: Box<dyn Sink>,
    /// What its calls consisted of, if it tells.
    stages: Option<Arc<StageLog>>,
    /// Scratch: those that were answered together.
    taken_stages: Vec<(SendToken, Stages)>,
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
    stopped: Option<Stopped>,
    /// Events of the measured phase that will never leave.
    never_sent: u64,
    latency_recording: LatencyRecording,
    /// How long a stopped load waits for answers.
    answer_patience: Duration,
    /// Until when a load without a plan in time sends nothing, because the service asked to slow down.
    paused_until: Option<Instant>,
    causes: Causes,
}

/// A load that is to send nothing that becomes due later.
#[derive(Debug, Clone, Copy)]
struct Stopped {
    /// When it was stopped.
    at: RunTime,
    /// What was due by then still leaves. Otherwise the latencies of what a service held back would be missing.
    catches_up: bool,
    /// Until when it waits for answers.
    answers_until: Instant,
}

impl<C: MessageCodec> Generator<C> {
    fn poll(&mut self, context: &mut Context<'_>) -> Poll<Result<WorkerOutcome, RoleError>> {
        for _ in 0..ROUNDS_PER_POLL {
            let now = self.clock.now();
            self.attendance.awake(now);
            self.hear(context)?;
            while self.ticks.poll_tick(context).is_ready() {
                self.accounting.tick(now);
                if let Some(error) = self.sink.outage() {
                    self.causes.warn(&error.condition, error, "there is no connection");
                }
                self.channel.say(WorkerEvent::Progress(now, self.counters(now)));
                if self.stopped.is_some_and(|stopped| stopped.catches_up) && self.is_far_behind(now) {
                    self.give_up_plan();
                }
            }
            if self.stopped.is_some_and(|stopped| Instant::now() >= stopped.answers_until) {
                self.give_up_plan();
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
                        Edge::Begin => self.accounting.begin_measurement(now, self.latency_recording),
                        Edge::End => self.accounting.end_measurement(now),
                    }
                    self.channel.say(WorkerEvent::Marked(edge, now, self.counters(now)));
                }
                Some(WorkerCommand::Stop) if self.stopped.is_none() => self.stop(self.clock.now()),
                Some(WorkerCommand::Stop) => {}
                None => return Err(RoleError::Abandoned),
            }
        }
        Ok(())
    }

    fn stop(&mut self, now: RunTime) {
        self.stopped = Some(Stopped {
            at: now,
            catches_up: self.schedule.has_plan(),
            answers_until: Instant::now() + self.answer_patience,
        });
        if !self.schedule.has_plan() || self.is_far_behind(now) {
            self.give_up_plan();
        }
    }

    /// Whether what is due is late by the fault of this worker, and by so much that it is no longer worth sending.
    fn is_far_behind(&self, now: RunTime) -> bool {
        let own_us = self.oldest_unsent().map_or(0, |oldest| self.attendance.own_lateness_us(oldest, now));
        u128::from(own_us.unsigned_abs()) > FAR_BEHIND.as_micros()
    }

    /// When the oldest event of the plan that has not left is or was due.
    fn oldest_unsent(&self) -> Option<RunTime> {
        let has_plan = self.schedule.has_plan();
        let waiting = self.waiting.iter().filter(|_| has_plan).filter_map(|run| run.events().next());
        waiting.map(|(_, intended)| intended).chain(self.schedule.next_due()).min()
    }

    /// What has not left never will.
    fn give_up_plan(&mut self) {
        let Some(stopped) = self.stopped.as_mut().filter(|stopped| stopped.catches_up) else {
            self.waiting.clear();
            return;
        };
        stopped.catches_up = false;
        if let Some(window) = self.accounting.window() {
            let waiting = self.waiting.iter().flat_map(Run::events);
            let waiting = waiting.filter(|(_, intended)| window.contains(*intended)).count() as u64;
            self.never_sent = waiting + self.schedule.overdue(window.before(stopped.at));
        }
        self.waiting.clear();
    }

    /// Sends what is due. Returns whether anything left.
    fn send(&mut self, context: &mut Context<'_>, now: RunTime) -> Result<bool, RoleError> {
        if self.paused_until.is_some_and(|until| Instant::now() >= until) {
            self.paused_until = None;
        }
        let due_by = match self.stopped {
            None if self.paused_until.is_none() => Some(now),
            Some(Stopped { at, catches_up: true, .. }) => Some(at),
            _ => None,
        };
        if let Some(due_by) = due_by.filter(|_| self.waiting.is_empty()) {
            self.schedule.release(due_by, EVENTS_PER_ROUND, &mut self.released);
            self.waiting.extend(self.released.drain(..));
        }
        let mut sent = false;
        // A run that was divided into more sends than may be unanswered waits with its rest.
        while ((self.pending.len() - self.free.len()) as u64) < self.schedule.may_be_unanswered()
            && let Some(mut run) = self.waiting.pop_front()
        {
            let now = self.clock.now();
            self.attendance.awake(now);
            let token = self.free.pop().unwrap_or_else(|| {
                self.pending.push(None);
                self.pending.len() - 1
            });
            let destination = u32::from(run.stream) % self.sink.destinations();
            let (batch, events) = self.encoder.encode(&run, now, self.sink.as_ref(), destination);
            let outgoing = OutgoingBatch::new(destination, batch, events);
            let fitting = u32::try_from(events.len()).unwrap_or(u32::MAX);
            if self.sink.send(SendToken(token as u64), outgoing).is_ok() {
                if let Some(rest) = run.split_off(fitting) {
                    self.schedule.divided();
                    self.waiting.push_front(rest);
                }
                self.pending[token] = Some(self.accounting.sent(run, now, &self.attendance));
                self.attendance.send();
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
        if let Some(stages) = &self.stages {
            stages.take(&mut self.taken_stages);
            for (token, stages) in self.taken_stages.drain(..) {
                if let Some(pending) = self.pending.get(token.0 as usize).and_then(Option::as_ref) {
                    self.accounting.consisted_of(pending, &stages, now);
                }
            }
        }
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
        let now = self.clock.now();
        let may_leave =
            |due: &RunTime| self.stopped.is_none_or(|stopped| stopped.catches_up && *due <= stopped.at);
        let after = match (self.paused_until, self.oldest_unsent().filter(may_leave)) {
            (Some(until), _) => until.saturating_duration_since(Instant::now()).max(COALESCE),
            (None, None) => return Ok(Poll::Pending),
            (None, Some(due)) => {
                // A worker that looks for an answer now and then knows whether it could have seen one.
                let is_held_back = self.schedule.waits_for_answers() || !self.waiting.is_empty();
                let least = if is_held_back { ANSWERS_EXPECTED } else { COALESCE };
                let after = due.saturating_since(now).max(least);
                self.attendance.sleep(now, now.plus(after), due);
                after
            }
        };
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
        let is_over = match self.stopped {
            Some(Stopped { at, catches_up, .. }) => {
                !catches_up || self.schedule.next_due().is_none_or(|due| due > at)
            }
            None => self.schedule.is_exhausted(),
        };
        is_over && self.waiting.is_empty() && self.pending.len() == self.free.len()
    }

    fn give_account(&mut self) -> WorkerOutcome {
        let at = self.clock.now();
        WorkerOutcome {
            at,
            counters: self.counters(at),
            streams: self.accounting.streams().to_vec(),
            punctuality: Punctuality { never_sent: self.never_sent, ..self.accounting.punctuality() },
            recordings: self.accounting.take_recordings(at),
        }
    }

    fn counters(&self, now: RunTime) -> LoadCounters {
        let mut events = self.accounting.counts();
        events.throttled += self.sink.slowed_down();
        LoadCounters { events, held_us: self.schedule.held_us(now) }
    }
}

/// Rounds after which the event loop gets a turn.
const ROUNDS_PER_POLL: u32 = 64;

/// Events released per round, so that answers are booked between.
const EVENTS_PER_ROUND: u32 = 4_096;

/// A load that sends as fast as it can tries again after this when it was throttled. It gets all that the quota gives in
/// that way, since that is a share of a second's worth, and does not flood the service with sends that it refuses.
const THROTTLED_PAUSE: Duration = Duration::from_millis(10);

/// Events closer together than this leave together: each wake-up costs more than it.
const COALESCE: Duration = Duration::from_micros(50);

/// How often a worker that waits for answers, or for credit, wakes to see that there is none.
const ANSWERS_EXPECTED: Duration = Duration::from_millis(2);

/// A stopped generator that is further behind than this, by its own fault, does not catch up: the trial is invalid.
const FAR_BEHIND: Duration = Duration::from_millis(100);
