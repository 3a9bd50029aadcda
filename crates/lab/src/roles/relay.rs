//! The relay role: one instance of the pipeline under measurement.

use std::{collections::BTreeMap, pin::pin};

use tokio::sync::oneshot;

use super::{
    RoleError,
    channel::RoleChannel,
    fabric::{Fabric, REPORT_EVERY, RelayMetrics as _, RelayPipeline, RelayReading},
    protocol::{Command, Counted, Counters, Edge, Outcome, Ready, RelayConfig, Report},
};
use crate::{
    clock::{RunClock, RunTime},
    record::{EncodedDistribution, Recording},
    results::{LatencyDistribution, Stage},
};

/// Carries events from the start to the stop.
pub(super) async fn run<F: Fabric>(
    fabric: F,
    config: RelayConfig,
    channel: &mut RoleChannel,
) -> Result<Report, RoleError> {
    let clock = config.clock;
    let relay = fabric
        .connect_relay(&config)
        .await
        .map_err(RoleError::connect("connecting the pipeline"))?;
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
            Some(Command::Allow { .. } | Command::Expect { .. }) => {}
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
                Some(Command::Start | Command::Allow { .. } | Command::Expect { .. }) => continue,
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
        let Some(reading) = reading else { continue };
        let report = match wanted {
            Some(edge) => measurement.mark(edge, &reading, clock.now()),
            None => Report::Progress(counted(&reading, clock.now())),
        };
        channel.reporter.send(&report);
    }
}

/// The distributions between the marks: those at the end less those at the beginning.
#[derive(Debug, Default)]
struct Measurement {
    began: Option<BTreeMap<Stage, LatencyDistribution>>,
    ended: Option<BTreeMap<Stage, LatencyDistribution>>,
}

impl Measurement {
    fn mark(&mut self, edge: Edge, reading: &RelayReading, now: RunTime) -> Report {
        match edge {
            Edge::Begin => self.began = Some(reading.stages.clone()),
            Edge::End => self.ended = Some(reading.stages.clone()),
        }
        Report::Marked {
            edge,
            counted: counted(reading, now),
        }
    }

    fn finish(self, reading: &RelayReading, now: RunTime) -> Report {
        let began = self.began.unwrap_or_default();
        let stages = self
            .ended
            .unwrap_or_default()
            .into_iter()
            .map(|(stage, mut ended)| {
                if let Some(began) = began.get(&stage) {
                    // The later of two readings of one histogram holds all samples of the earlier.
                    let _ = ended.histogram.subtract(&began.histogram);
                }
                let recording = Recording {
                    total: EncodedDistribution::of(&ended),
                    intervals: Vec::new(),
                };
                (stage, recording)
            });
        Report::Finished {
            outcome: Box::new(Outcome::Relay {
                stages: stages.collect(),
            }),
            counted: counted(reading, now),
        }
    }
}

fn counted(reading: &RelayReading, at: RunTime) -> Counted {
    Counted::new(at, Counters::Relay(reading.counters))
}
