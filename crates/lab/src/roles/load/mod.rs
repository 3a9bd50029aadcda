//! The load role: offers the plan of a run to the source hub and keeps the ledger of its sends.

mod encoder;
mod worker;

use self::worker::{WorkerCommand, WorkerEvent, WorkerOutcome};
use super::{
    RoleError,
    backend::Backend,
    channel::RoleChannel,
    protocol::{Command, Counted, Counters, Edge, LoadConfig, LoadCounters, Outcome, Ready, Report},
    workers::{Answer, Workers},
};
use crate::{
    clock::{RunClock, RunTime},
    load::{LoadRecordings, Punctuality},
    verify::StreamSends,
};

/// Offers the plan from the start until it is exhausted or stopped.
pub(super) async fn run<B: Backend>(
    backend: B,
    config: LoadConfig,
    channel: &mut RoleChannel,
) -> Result<Report, RoleError> {
    let clock = config.clock;
    let count = usize::from(config.workers.max(1));
    let mut ledger = Ledger::new(clock, count, usize::from(config.plan.streams));
    let mut workers =
        Workers::start(count, move |channel| worker::work(backend.clone(), config.clone(), channel))?;
    loop {
        tokio::select! {
            command = channel.next() => match command {
                // One start for all: the plan counts from it, however the streams are divided.
                Some(Command::Start) => workers.ask(&WorkerCommand::Start(clock.now())),
                Some(Command::Allow { events }) => workers.ask(&WorkerCommand::Allow(events)),
                Some(Command::Mark { edge }) => {
                    workers.ask(&WorkerCommand::Mark(edge));
                    // A worker that has ended can't be asked; its last counters stand.
                    ledger.begin_mark(edge);
                    ledger.report_mark(channel);
                }
                Some(Command::Stop) => workers.ask(&WorkerCommand::Stop),
                Some(Command::Expect { .. } | Command::Done { .. } | Command::Served { .. }) => {}
                None => return Err(RoleError::Abandoned),
            },
            answer = workers.next() => match answer {
                Some((worker, Answer::Event(said))) => ledger.hear(worker, said, channel),
                Some((worker, Answer::Ended(done))) => {
                    ledger.close(worker, done?);
                    ledger.report_mark(channel);
                    if ledger.all_closed() {
                        return Ok(ledger.finish());
                    }
                }
                None => return Err(RoleError::WorkerPanicked),
            },
        }
    }
}

/// What is known of all workers together.
#[derive(Debug)]
struct Ledger {
    clock: RunClock,
    ready: usize,
    latest: Vec<LoadCounters>,
    ended: Vec<bool>,
    progress_heard: usize,
    mark: Option<PendingMark>,
    streams: Vec<StreamSends>,
    punctuality: Punctuality,
    recordings: Option<LoadRecordings>,
}

/// An edge that not all workers have come to.
#[derive(Debug)]
struct PendingMark {
    edge: Edge,
    answers: Vec<Option<(RunTime, LoadCounters)>>,
}

impl Ledger {
    fn new(clock: RunClock, workers: usize, streams: usize) -> Self {
        Self {
            clock,
            ready: 0,
            latest: vec![LoadCounters::default(); workers],
            ended: vec![false; workers],
            progress_heard: 0,
            mark: None,
            streams: vec![StreamSends::default(); streams],
            punctuality: Punctuality::default(),
            recordings: None,
        }
    }

    fn hear(&mut self, worker: usize, said: WorkerEvent, channel: &RoleChannel) {
        match said {
            WorkerEvent::Ready => {
                self.ready += 1;
                if self.ready == self.latest.len() {
                    channel.reporter.send(&Report::Ready(Ready::default()));
                }
            }
            WorkerEvent::Progress(at, counters) => {
                self.latest[worker] = counters;
                self.progress_heard += 1;
                // One report per round of all workers.
                if self.progress_heard >= self.ended.iter().filter(|ended| !**ended).count() {
                    self.progress_heard = 0;
                    channel.reporter.send(&Report::Progress(counted(at, sum(&self.latest))));
                }
            }
            WorkerEvent::Marked(edge, at, counters) => {
                self.latest[worker] = counters;
                if let Some(mark) = self.mark.as_mut().filter(|mark| mark.edge == edge) {
                    mark.answers[worker] = Some((at, counters));
                }
                self.report_mark(channel);
            }
        }
    }

    fn begin_mark(&mut self, edge: Edge) {
        self.mark = Some(PendingMark { edge, answers: vec![None; self.latest.len()] });
    }

    /// Reports the mark once every worker that lives has answered.
    fn report_mark(&mut self, channel: &RoleChannel) {
        let is_complete = self.mark.as_ref().is_some_and(|mark| {
            mark.answers.iter().zip(&self.ended).all(|(answer, ended)| answer.is_some() || *ended)
        });
        if !is_complete {
            return;
        }
        let Some(mark) = self.mark.take() else { return };
        // Workers answer within microseconds of each other; the last of them is the moment of the whole.
        let at = mark.answers.iter().flatten().map(|(at, _)| *at).max();
        let counters: Vec<_> = mark
            .answers
            .iter()
            .zip(&self.latest)
            .map(|(answer, latest)| answer.map_or(*latest, |(_, counters)| counters))
            .collect();
        channel.reporter.send(&Report::Marked {
            edge: mark.edge,
            counted: counted(at.unwrap_or_else(|| self.clock.now()), sum(&counters)),
        });
    }

    fn close(&mut self, worker: usize, done: WorkerOutcome) {
        tracing::debug!(worker, at = ?done.at, "a worker has ended");
        self.ended[worker] = true;
        self.latest[worker] = done.counters;
        self.punctuality += done.punctuality;
        for (own, sends) in self.streams.iter_mut().zip(done.streams) {
            // Every stream belongs to one worker; the others know nothing of it.
            if sends.sent > 0 {
                *own = sends;
            }
        }
        match (&mut self.recordings, done.recordings) {
            (_, None) => {}
            (None, recordings) => self.recordings = recordings,
            (Some(own), Some(recordings)) => {
                own.merge(recordings).expect("workers of this process write recordings that can be read");
            }
        }
    }

    fn all_closed(&self) -> bool {
        self.ended.iter().all(|ended| *ended)
    }

    fn finish(self) -> Report {
        let counters = sum(&self.latest);
        Report::Finished {
            counted: counted(self.clock.now(), counters),
            outcome: Box::new(Outcome::Load {
                streams: self.streams,
                punctuality: self.punctuality,
                recordings: self.recordings,
            }),
        }
    }
}

fn counted(at: RunTime, counters: LoadCounters) -> Counted {
    Counted::new(at, Counters::Load(counters))
}

fn sum(workers: &[LoadCounters]) -> LoadCounters {
    workers.iter().fold(LoadCounters::default(), |mut sum, worker| {
        sum.events += worker.events;
        // Held as a whole for as long as the one that was held longest.
        sum.held_us = sum.held_us.max(worker.held_us);
        sum
    })
}
