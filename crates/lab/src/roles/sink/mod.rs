//! The sink role: receives what the pipeline forwarded, and verifies every event.
//!
//! The verifiers of its workers stay where they are: they are asked how many of the acknowledged events they have
//! seen, and merged once at the end. The orchestrator gets counts and a verdict, never the bits.
//!
//! Between queues the first worker looks into the dead-letter queue of the source as well: a message that the service
//! has put there has not arrived, and is not lost.
//!
//! An archive is read when everything has been sent, blob by blob: what arrived in it, and not when.
//!
//! Where a consumer is measured that forwards nothing, a sink reads what that reads, by a consumer group of its own, and an
//! event arrives when the consumer has done it.

mod checkpoints;
mod dead_letters;
mod undone;
mod worker;

use std::sync::Arc;

use tokio::sync::mpsc;

use self::checkpoints::Checkpoints;
use self::worker::{WorkerCommand, WorkerCounters, WorkerEvent, WorkerOutcome};
use super::{
    RoleError,
    backend::Backend,
    channel::RoleChannel,
    protocol::{
        Command, Counted, Counters, DoneBy, DoneMark, Edge, Outcome, Ready, Report, SinkConfig, SinkCounters,
    },
    workers::{Answer, Workers},
};
use crate::{
    clock::RunClock,
    record::{ReadRecords, Recording},
    verify::{Delivery, StreamSends, StreamVerifier},
};

/// Receives from the start to the stop.
pub(super) async fn run<B: Backend>(
    backend: B,
    config: SinkConfig,
    channel: &mut RoleChannel,
) -> Result<Report, RoleError> {
    let count = usize::from(config.workers.max(1));
    let mut watch = Watch {
        clock: config.clock,
        ready: 0,
        latest: vec![WorkerCounters::default(); count],
        marked: vec![None; count],
        progress_heard: 0,
        expected: None,
        done: Vec::new(),
    };
    let checkpoints = match &config.done_by {
        Some(DoneBy::Checkpoints { storage, hub, consumer_group }) => {
            let (hub, consumer_group) = (hub.clone(), consumer_group.clone());
            Some(Checkpoints::open(storage, hub, consumer_group, config.clock).await?)
        }
        Some(DoneBy::Reports) | None => None,
    };
    let (find, mut found) = mpsc::channel(1);
    if let Some(checkpoints) = checkpoints.clone() {
        tokio::spawn(checkpoints.watch(find));
    }
    let mut workers =
        Workers::start(count, move |channel| worker::work(backend.clone(), config.clone(), channel))?;
    loop {
        tokio::select! {
            command = channel.next() => match command {
                Some(Command::Start) => workers.ask(&WorkerCommand::Start),
                Some(Command::Mark { edge }) => workers.ask(&WorkerCommand::Mark(edge)),
                Some(Command::Expect { streams }) => {
                    let streams = Arc::new(streams);
                    watch.expected = Some(Arc::clone(&streams));
                    workers.ask(&WorkerCommand::Expect(streams));
                }
                Some(Command::Done { mark }) => workers.ask(&WorkerCommand::Done(mark)),
                Some(Command::Stop) => {
                    // The consumer has ended: these are its last ones.
                    if let Some(checkpoints) = &checkpoints {
                        note_done(&workers, &checkpoints.marks().await?);
                    }
                    workers.ask(&WorkerCommand::Stop);
                }
                Some(Command::Allow { .. } | Command::Served { .. }) => {}
                None => return Err(RoleError::Abandoned),
            },
            Some(marks) = found.recv() => note_done(&workers, &marks?),
            answer = workers.next() => match answer {
                Some((worker, Answer::Event(said))) => watch.hear(worker, said, channel),
                Some((_, Answer::Ended(done))) => {
                    watch.done.push(done?);
                    if watch.done.len() == workers.count() {
                        return Ok(watch.conclude());
                    }
                }
                None => return Err(RoleError::WorkerPanicked),
            },
        }
    }
}

fn note_done(workers: &Workers<WorkerCommand, WorkerEvent, WorkerOutcome>, marks: &[DoneMark]) {
    marks.iter().for_each(|mark| workers.ask(&WorkerCommand::Done(*mark)));
}

/// What is known of all workers together.
#[derive(Debug)]
struct Watch {
    clock: RunClock,
    ready: usize,
    latest: Vec<WorkerCounters>,
    marked: Vec<Option<(Edge, WorkerCounters)>>,
    progress_heard: usize,
    expected: Option<Arc<Vec<StreamSends>>>,
    done: Vec<WorkerOutcome>,
}

impl Watch {
    fn hear(&mut self, worker: usize, said: WorkerEvent, channel: &RoleChannel) {
        match said {
            WorkerEvent::Ready => {
                self.ready += 1;
                if self.ready == self.latest.len() {
                    channel.reporter.send(&Report::Ready(Ready::default()));
                }
            }
            WorkerEvent::Progress(counters) => {
                self.latest[worker] = counters;
                self.progress_heard += 1;
                // One report per round of all workers.
                if self.progress_heard >= self.latest.len() - self.done.len() {
                    self.progress_heard = 0;
                    channel.reporter.send(&Report::Progress(self.counted(&self.latest)));
                }
            }
            WorkerEvent::Marked(edge, counters) => {
                self.latest[worker] = counters;
                self.marked[worker] = Some((edge, counters));
                let all: Option<Vec<_>> = self
                    .marked
                    .iter()
                    .map(|marked| marked.filter(|(known, _)| *known == edge).map(|(_, counters)| counters))
                    .collect();
                if let Some(all) = all {
                    channel.reporter.send(&Report::Marked { edge, counted: self.counted(&all) });
                }
            }
        }
    }

    /// The counters of all workers, as of the latest of them.
    fn counted(&self, workers: &[WorkerCounters]) -> Counted {
        let mut sum = SinkCounters::default();
        let mut seen = Some(0);
        for worker in workers {
            sum.events += worker.counters.events;
            sum.distinct += worker.counters.distinct;
            sum.opened += worker.counters.opened;
            sum.dead_lettered += worker.counters.dead_lettered;
            sum.throttled += worker.counters.throttled;
            sum.closed += worker.counters.closed;
            sum.missed += worker.counters.missed;
            sum.undone += worker.counters.undone;
            sum.ahead += worker.counters.ahead;
            sum.reads_at_the_end |= worker.counters.reads_at_the_end;
            seen = seen.zip(worker.acknowledged_seen).map(|(sum, seen)| sum + seen);
        }
        sum.missing = self.expected.as_ref().zip(seen).map(|(streams, seen)| {
            let acknowledged: u64 = streams.iter().map(|stream| stream.acknowledged.count()).sum();
            acknowledged.saturating_sub(seen)
        });
        let at = workers.iter().map(|worker| worker.at).max();
        Counted::new(at.unwrap_or_default(), Counters::Sink(sum))
    }

    fn conclude(self) -> Report {
        let mut verifier: Option<StreamVerifier> = None;
        let mut dead_letters = Vec::new();
        let known_repetitions: u64 = self.done.iter().map(|done| done.verifier.counts().duplicated).sum();
        let (mut latency, mut uncorrected_latency) = (None, None);
        let (mut to_destination, mut delivery_time) = (None, None);
        let mut reads: Vec<ReadRecords> = Vec::new();
        for done in self.done {
            dead_letters.extend(done.dead_letters);
            // Every partition belongs to one worker.
            reads.extend(done.reads);
            match &mut verifier {
                None => verifier = Some(done.verifier),
                Some(verifier) => verifier.merge(done.verifier),
            }
            Recording::merge_option(&mut latency, done.latency)
                .and_then(|()| Recording::merge_option(&mut uncorrected_latency, done.uncorrected_latency))
                .and_then(|()| Recording::merge_option(&mut to_destination, done.to_destination))
                .and_then(|()| Recording::merge_option(&mut delivery_time, done.delivery_time))
                .expect("workers of this process write recordings that can be read");
        }
        let streams = self.expected.as_deref();
        // What was received and what is in the dead-letter queue, together.
        let accounted =
            (!dead_letters.is_empty()).then(|| verifier.clone()).flatten().map(|mut accounted| {
                for &(stream, sequence) in &dead_letters {
                    accounted.account_for(stream, sequence);
                }
                accounted
            });
        let accounted = accounted.as_ref().or(verifier.as_ref());
        let delivery = verifier.as_ref().zip(accounted).zip(streams);
        let delivery = delivery.map(|((verifier, accounted), streams)| {
            let rest = accounted.conclude(streams);
            Delivery {
                lost: rest.lost,
                lost_examples: rest.lost_examples,
                dead_lettered: dead_letters.len() as u64,
                duplicated_between_workers: verifier.counts().duplicated - known_repetitions,
                ..verifier.conclude(streams)
            }
        });
        let counters = verifier.as_ref().map_or_else(SinkCounters::default, |verifier| SinkCounters {
            events: verifier.counts(),
            distinct: verifier.distinct(),
            opened: self.latest.iter().map(|worker| worker.counters.opened).sum(),
            dead_lettered: dead_letters.len() as u64,
            throttled: self.latest.iter().map(|worker| worker.counters.throttled).sum(),
            closed: self.latest.iter().map(|worker| worker.counters.closed).sum(),
            missed: self.latest.iter().map(|worker| worker.counters.missed).sum(),
            undone: self.latest.iter().map(|worker| worker.counters.undone).sum(),
            ahead: self.latest.iter().map(|worker| worker.counters.ahead).sum(),
            reads_at_the_end: self.latest.iter().any(|worker| worker.counters.reads_at_the_end),
            missing: accounted.zip(streams).map(|(accounted, streams)| accounted.missing(streams)),
        });
        Report::Finished {
            counted: Counted::new(self.clock.now(), Counters::Sink(counters)),
            outcome: Box::new(Outcome::Sink {
                delivery,
                latency,
                uncorrected_latency,
                to_destination,
                delivery_time,
                reads: if reads.iter().all(ReadRecords::is_whole) { reads } else { Vec::new() },
            }),
        }
    }
}
