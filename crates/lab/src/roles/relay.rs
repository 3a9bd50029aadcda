//! The relay role: one instance of the pipeline under measurement.

use std::{collections::BTreeMap, pin::pin};

use tokio::sync::oneshot;

use super::{
    RoleError,
    backend::{Backend, REPORT_EVERY, RelayMetrics as _, RelayPipeline, RelayReading},
    channel::RoleChannel,
    protocol::{Command, Counted, Counters, Edge, Outcome, Ready, RelayConfig, Report},
};
use crate::{
    clock::{RunClock, RunTime},
    record::{EncodedDistribution, Recording},
    results::{LatencyDistribution, RelayActivity},
};

/// Carries events from the start to the stop.
pub(super) async fn run<B: Backend>(
    backend: B,
    config: RelayConfig,
    channel: &mut RoleChannel,
) -> Result<Report, RoleError> {
    let clock = config.clock;
    let relay =
        backend.connect_relay(&config).await.map_err(RoleError::connect("connecting the pipeline"))?;
    channel.reporter.send(&Report::Ready(Ready::default()));
    let mut measurement = Measurement::default();
    // Before the start there is nothing to count, but marks may come.
    loop {
        match channel.next().await {
            Some(Command::Start) => break,
            Some(Command::Mark { edge }) => {
                let report = measurement.mark(edge, &RelayReading::default(), clock.now());
                channel.reporter.send(&report);
            }
            Some(Command::Stop) => {
                return Ok(measurement.finish(&RelayReading::default(), clock.now()));
            }
            Some(
                Command::Allow { .. }
                | Command::Expect { .. }
                | Command::Done { .. }
                | Command::Served { .. },
            ) => {}
            None => return Err(RoleError::Abandoned),
        }
    }
    carry(relay, clock, channel, measurement).await
}

async fn carry<R: RelayPipeline>(
    relay: R,
    clock: RunClock,
    channel: &mut RoleChannel,
    mut measurement: Measurement,
) -> Result<Report, RoleError> {
    let metrics = relay.metrics();
    let (stop, stopped) = oneshot::channel::<()>();
    let mut stop = Some(stop);
    let mut running = pin!(relay.run(async {
        // A dropped sender is a stop, too.
        let _ = stopped.await;
    }));
    let mut ticks = tokio::time::interval(REPORT_EVERY);
    loop {
        // The pipeline must be polled while its metrics are asked for: it is what answers.
        let wanted = tokio::select! {
            ended = &mut running => {
                let reading = ended.map_err(|error| RoleError::Pipeline(Box::new(error)))?;
                return if stop.is_none() {
                    Ok(measurement.finish(&reading, clock.now()))
                } else {
                    Err(RoleError::EndedEarly)
                };
            }
            command = channel.next() => match command {
                Some(Command::Mark { edge }) => Some(edge),
                Some(Command::Stop) => {
                    stop = None;
                    continue;
                }
                Some(
                    Command::Start
                    | Command::Allow { .. }
                    | Command::Expect { .. }
                    | Command::Done { .. }
                    | Command::Served { .. },
                ) => continue,
                None => return Err(RoleError::Abandoned),
            },
            _ = ticks.tick() => None,
        };
        let reading = tokio::select! {
            biased;
            reading = metrics.read() => reading,
            ended = &mut running => {
                let reading = ended.map_err(|error| RoleError::Pipeline(Box::new(error)))?;
                if let Some(edge) = wanted {
                    channel.reporter.send(&measurement.mark(edge, &reading, clock.now()));
                }
                return if stop.is_none() {
                    Ok(measurement.finish(&reading, clock.now()))
                } else {
                    Err(RoleError::EndedEarly)
                };
            }
        };
        let Some(mut reading) = reading else { continue };
        if let Some(text) = reading.page.take() {
            channel.reporter.send(&Report::Metrics { text });
        }
        measurement.note(&reading);
        let report = match wanted {
            Some(edge) => measurement.mark(edge, &reading, clock.now()),
            None => Report::Progress(counted(&reading, clock.now())),
        };
        channel.reporter.send(&report);
    }
}

/// What happened between the marks: the readings at the end less those at the beginning.
#[derive(Debug, Default)]
struct Measurement {
    began: Option<(RunTime, RelayReading)>,
    ended: Option<(RunTime, RelayReading)>,
    /// Partitions that were lost before the first event: nothing of them was under way.
    lost_before: u64,
}

impl Measurement {
    /// Looks at what the pipeline says in between.
    fn note(&mut self, reading: &RelayReading) {
        if let (0, Some(activity)) = (reading.counters.received, &reading.activity) {
            self.lost_before = activity.whole_trial.lost_partitions;
        }
    }

    fn mark(&mut self, edge: Edge, reading: &RelayReading, now: RunTime) -> Report {
        match edge {
            Edge::Begin => self.began = Some((now, reading.clone())),
            Edge::End => self.ended = Some((now, reading.clone())),
        }
        Report::Marked { edge, counted: counted(reading, now) }
    }

    fn finish(self, reading: &RelayReading, now: RunTime) -> Report {
        let (began_at, began) = self.began.unwrap_or_default();
        let (ended_at, ended) = self.ended.unwrap_or_default();
        let activity = ended.activity.map(|ended| {
            let began = began.activity.unwrap_or_default();
            let watched_us = ended_at.as_micros().saturating_sub(began_at.as_micros());
            let mut whole_trial = reading.activity.as_ref().unwrap_or(&ended).whole_trial;
            whole_trial.lost_partitions -= self.lost_before.min(whole_trial.lost_partitions);
            Box::new(RelayActivity { whole_trial, ..RelayActivity::between(&began, &ended, watched_us) })
        });
        let stages = grown(ended.stages, &began.stages).map(|(stage, total)| {
            let recording = Recording { total, intervals: Vec::new() };
            (stage, recording)
        });
        Report::Finished {
            outcome: Box::new(Outcome::Relay {
                stages: stages.collect(),
                sizes: grown(ended.sizes, &began.sizes).collect(),
                activity,
            }),
            counted: counted(reading, now),
        }
    }
}

/// The samples that came between two readings.
fn grown<K: Ord>(
    ended: BTreeMap<K, LatencyDistribution>,
    began: &BTreeMap<K, LatencyDistribution>,
) -> impl Iterator<Item = (K, EncodedDistribution)> {
    ended.into_iter().map(|(key, mut ended)| {
        if let Some(began) = began.get(&key) {
            // The later of two readings of one histogram holds all samples of the earlier.
            let _ = ended.histogram.subtract(&began.histogram);
        }
        (key, EncodedDistribution::of(&ended))
    })
}

fn counted(reading: &RelayReading, at: RunTime) -> Counted {
    Counted::new(at, Counters::Relay(reading.counters))
}
