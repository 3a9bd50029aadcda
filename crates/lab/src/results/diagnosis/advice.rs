//! What to do about each symptom: the setting to change.

use super::{Ahead, Symptom, WaitingFor};
use crate::results::{Occupancy, Subject};

impl Symptom {
    /// What to do about it, with the setting to change.
    #[must_use]
    pub fn advice(&self) -> String {
        match self {
            Self::LowUtilisation {
                subject,
                waiting_for,
                ..
            } => waiting_for.advice(subject),
            Self::BoundByConcurrency {
                occupancy: Occupancy {
                    messages: Some(_), ..
                },
                ..
            } => "raise relay.threads above relay.concurrency".to_owned(),
            Self::BoundByConcurrency {
                subject: Subject::Other(_),
                ..
            } => "raise relay.concurrency, and relay.threads with it".to_owned(),
            Self::BoundByConcurrency {
                prefetch: Some(0), ..
            } => "raise relay.concurrency; or relay.prefetch, so that the next message is there when one is done".to_owned(),
            Self::BoundByConcurrency { .. } => "raise relay.concurrency".to_owned(),
            Self::SmallBatches {
                wait,
                more_was_there: true,
                ..
            } => format!(
                "events were waiting: raise relay.prefetch to at least two batches, so that the next one is there in time{}",
                in_brackets(wait.as_deref())
            ),
            Self::SmallBatches { wait, .. } => format!(
                "lower relay.batch.wait{}, which only delays events while it waits in vain for a full batch",
                in_brackets(wait.as_deref())
            ),
            Self::SendTail { try_timeout, .. } => format!(
                "look at the CPU of the service and of the relay in the same seconds; on a fast network lower \
                 relay.try_timeout{} to a few seconds, since what has not been answered by then will not be",
                in_brackets(try_timeout.as_deref())
            ),
            Self::SendErrors { .. } => "see the relay's log for the service's reasons; relay.retry says how often and how \
                                        fast a send is tried again"
                .to_owned(),
            Self::ProcessingErrors { .. } => "raise relay.retry.attempts so that a passing error does not fail a batch, and \
                                              lower relay.restart_after so that a partition stands still for less time"
                .to_owned(),
            Self::SlowCheckpoints { .. } => "raise relay.ownership.expire, keep relay.ownership.renew well below it, or \
                                             checkpoint less often with relay.checkpoint={every: 1 s}"
                .to_owned(),
            Self::CheckpointErrors { .. } => "look at the checkpoint store; claims are renewed there as well, so partitions \
                                              are lost next"
                .to_owned(),
            Self::MemoryNearLimit { .. } => "lower relay.prefetch or relay.batch.events, or raise limits.relay.memory"
                .to_owned(),
            Self::DuplicatesAfterLoss { .. } => "raise relay.ownership.expire against relay.ownership.renew so that claims \
                                                 are not lost, and lower relay.prefetch so that less is under way when \
                                                 they are"
                .to_owned(),
            Self::MachineShared { .. } => "run it again while nothing else runs".to_owned(),
            Self::EventsMissed { .. } => "keep more in the source (embedded.log_per_hub, or the hub's retention), or offer less"
                .to_owned(),
            Self::GeneratorUnhealthy { .. } => {
                "offer less, or give the generator more cores".to_owned()
            }
            Self::BoundByQuota {
                full_log_throttles: true,
                ..
            } => "offer less, give the logs more room (embedded.log_per_hub) or let the oldest events go \
                  (embedded.when_full=retention), or measure where the quota is higher (embedded.profile)"
                .to_owned(),
            Self::BoundByQuota { .. } => {
                "offer less, or measure where the quota is higher (embedded.profile, throughput units)"
                    .to_owned()
            }
        }
    }
}

impl WaitingFor {
    /// A backlog can't be measured with a command that is not ours: it does not report when it has drained one.
    fn advice(&self, subject: &Subject) -> String {
        let or_backlog = match subject.is_ours() {
            true => ", or measure with load.mode=backlog",
            false => "",
        };
        match self {
            Self::Core { .. } | Self::Machine { .. } if subject.is_ours() => {
                "free cores for it: measure with load.mode=backlog, which runs neither generator nor sink meanwhile, or on a \
                 machine with more cores"
                    .to_owned()
            }
            Self::Core { .. } | Self::Machine { .. } => {
                "free cores for it: measure on a machine with more cores".to_owned()
            }
            Self::Service { .. } => {
                format!("give the service more cores (limits.hub.cores){or_backlog}")
            }
            Self::Generator { .. } => {
                format!("offer more (load.workers, load.in_flight){or_backlog}")
            }
            Self::Credit { ahead, .. } => match ahead {
                Ahead::Concurrency => {
                    "raise relay.concurrency, or relay.prefetch, so that more of them are on their way".to_owned()
                }
                Ahead::Events(events) => format!(
                    "raise relay.prefetch ({events}) so that events are there when a batch is done, and lower \
                     relay.batch.wait"
                ),
                Ahead::Adaptive => "lower relay.batch.wait, or give the source more partitions".to_owned(),
            },
            Self::Sends { ahead, .. } => match ahead {
                Ahead::Concurrency => "raise relay.concurrency".to_owned(),
                Ahead::Events(events) => {
                    format!("raise relay.prefetch ({events}), or give the source more partitions")
                }
                Ahead::Adaptive => "give the source or the destination more partitions".to_owned(),
            },
            Self::Destination { .. } => "give the destination more partitions or throughput, or lower relay.fan_out so that \
                                         sends are larger"
                .to_owned(),
            Self::Memory { .. } => "let it hold more, or lower relay.prefetch".to_owned(),
            Self::Partitions { .. } => "lower relay.restart_after, and look for why batches fail or partitions are lost"
                .to_owned(),
            Self::Checkpoints { .. } => "look at the checkpoint store: a partition is closed when it does not take a \
                                         checkpoint again and again"
                .to_owned(),
            Self::Unknown => "look at its own metrics: threads for the sends of a batch, connections, batch size, prefetch"
                .to_owned(),
        }
    }
}

/// A setting's present value, where it is known.
fn in_brackets(value: Option<&str>) -> String {
    value.map_or_else(String::new, |value| format!(" ({value})"))
}
