//! What to do about each symptom: the setting to change.

use std::time::Duration;

use super::{Ahead, Symptom, WaitingFor};
use crate::results::{MeasuredComponent, Noun};

impl Symptom {
    /// What to do about it, with the setting to change.
    #[must_use]
    pub fn advice(&self, noun: Noun) -> String {
        match self {
            Self::LowUtilisation { measured, waiting_for, .. } => waiting_for.advice(measured, noun),
            Self::SmallBatches { wait_us, more_was_there: true, .. } => format!(
                "{noun} were waiting: raise `relay.prefetch` to at least two batches, so that the next one is there in \
                 time{}",
                in_brackets(Some(*wait_us))
            ),
            Self::SmallBatches { wait_us, .. } => format!(
                "lower `relay.batch.wait`{}: it only adds latency while batches do not fill up",
                in_brackets(Some(*wait_us))
            ),
            Self::SendTail { try_timeout_us, .. } => format!(
                "check the CPU of service and relay in the same seconds; on a fast network lower `relay.try_timeout`{} to a \
                 few seconds",
                in_brackets(*try_timeout_us)
            ),
            Self::SendErrors { .. } => "see the relay's log for the service's reasons; `relay.retry` sets how often and how \
                                        fast sends are retried"
                .to_owned(),
            Self::ProcessingErrors { .. } => "raise `relay.retry.attempts` so that transient errors do not fail a batch, and \
                                              lower `relay.restart_after` to shorten the pause"
                .to_owned(),
            Self::SlowCheckpoints { .. } => "raise `relay.ownership.expire`, keep `relay.ownership.renew` well below it, or \
                                             checkpoint less often with `relay.checkpoint={every: 1 s}`"
                .to_owned(),
            Self::CheckpointErrors { .. } => {
                "check the checkpoint store: claims are renewed there too, so partitions are lost next".to_owned()
            }
            Self::MemoryNearLimit { .. } => {
                "lower `relay.prefetch` or `relay.batch.events`, or raise `limits.relay.memory`".to_owned()
            }
            Self::DuplicatesAfterLoss { .. } => "raise `relay.ownership.expire` relative to `relay.ownership.renew` so that \
                                                 claims are kept, and lower `relay.prefetch` so that less is in flight when \
                                                 one is lost"
                .to_owned(),
            Self::MachineShared { .. } => "repeat the run on an idle machine".to_owned(),
            Self::EventsMissed { .. } => {
                "keep more in the source (`embedded.log_per_hub`, or the hub's retention), or offer less".to_owned()
            }
            Self::GeneratorUnhealthy { .. } => "offer less, or give the generator more cores".to_owned(),
            Self::BoundByQuota { full_log_throttles: true, .. } => {
                "offer less, enlarge the logs (`embedded.log_per_hub`), drop the oldest events \
                 (`embedded.when_full=retention`), or measure with a higher quota (`embedded.profile`)"
                    .to_owned()
            }
            Self::BoundByQuota { .. } => {
                "offer less, or measure with a higher quota (`embedded.profile`, throughput units)".to_owned()
            }
        }
    }
}

impl WaitingFor {
    /// A backlog can't be measured with a command that is not ours: it does not report when it has drained one.
    fn advice(&self, measured: &MeasuredComponent, noun: Noun) -> String {
        let or_backlog = match measured.is_ours() {
            true => ", or measure with `load.mode=backlog`",
            false => "",
        };
        match self {
            Self::Core { .. } | Self::Machine { .. } if measured.is_ours() => {
                "free up cores: measure with `load.mode=backlog`, which stops generator and sink meanwhile, or on a machine \
                 with more cores"
                    .to_owned()
            }
            Self::Core { .. } | Self::Machine { .. } => "measure on a machine with more cores".to_owned(),
            Self::Service { .. } => {
                format!("give the service more cores (`limits.hub.cores`){or_backlog}")
            }
            Self::Generator { .. } => {
                format!("offer more (`load.workers`, `load.in_flight`){or_backlog}")
            }
            Self::Credit { ahead, .. } => match ahead {
                Ahead::Concurrency => format!(
                    "raise `relay.concurrency` or `relay.prefetch`, so that more {noun} are on their way"
                ),
                Ahead::Events(events) => {
                    format!("raise `relay.prefetch` ({events}) and lower `relay.batch.wait`")
                }
                Ahead::Adaptive => "lower `relay.batch.wait`, or add source partitions".to_owned(),
            },
            Self::Sends { ahead, .. } => match ahead {
                Ahead::Concurrency => "raise `relay.concurrency`".to_owned(),
                Ahead::Events(events) => {
                    format!("raise `relay.prefetch` ({events}) or add source partitions")
                }
                Ahead::Adaptive => "add source or destination partitions".to_owned(),
            },
            Self::Destination { .. } => "add destination partitions or throughput, or lower `relay.fan_out` so that sends are \
                                         larger"
                .to_owned(),
            Self::Memory { .. } => "raise its memory bound, or lower `relay.prefetch`".to_owned(),
            Self::Partitions { .. } => {
                "lower `relay.restart_after`, and find out why batches fail or partitions are lost".to_owned()
            }
            Self::Checkpoints { .. } => {
                "check the checkpoint store: partitions close when it keeps refusing checkpoints".to_owned()
            }
            Self::Unknown => {
                "check its own metrics: threads for sending, connections, batch size, prefetch".to_owned()
            }
        }
    }
}

/// A setting's present value, where it is known.
fn in_brackets(microseconds: Option<u64>) -> String {
    microseconds.map_or_else(String::new, |microseconds| {
        format!(" ({})", units::duration::text(Duration::from_micros(microseconds)))
    })
}
