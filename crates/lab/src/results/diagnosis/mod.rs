//! What the figures of a trial mean for whoever wants to change them.
//!
//! The published study of the fan-out ends with what to look at when throughput, latency or duplicates are not what one
//! expects. [`examine`] looks at just that: a pure function of a trial and the case's settings. A [`Symptom`] is a figure
//! that stands out, with the figures it was found by; it has a severity, a sentence and an advice that names the setting
//! to change. What is not known, as of a system that is measured from the outside, is not guessed.

mod concurrency;
mod examine;
mod settings;
#[cfg(test)]
mod tests;
mod thresholds;

pub use examine::examine;
pub use settings::{Ahead, Settings};

use super::{Finding, FindingKind, Occupancy, Severity, Subject};
use crate::figure::{bytes, count, counted, duration_us, percent, rate};

/// A figure that stands out, with those by which it was found.
#[derive(Debug, Clone, PartialEq)]
pub enum Symptom {
    /// CPU was left over though there was more to be carried.
    LowUtilisation {
        /// Whose CPU.
        subject: Subject,
        /// CPU of the measured role; 100 is all that it may use.
        cpu_percent: f64,
        /// What it forwarded, where that is known.
        forwarded_per_s: Option<f64>,
        /// What kept it from doing more.
        waiting_for: WaitingFor,
    },
    /// Between queues: as many messages were worked on as may be, all the time.
    BoundByConcurrency {
        /// Who worked on them.
        subject: Subject,
        /// Its CPU; 100 is all that it may use.
        cpu_percent: f64,
        /// The places that there are, and how long each message took one.
        occupancy: Occupancy,
        /// Messages fetched ahead.
        prefetch: Option<u64>,
    },
    /// Batches were far from full.
    SmallBatches {
        /// Events per batch received, on average.
        mean: f64,
        /// Events of a full batch.
        full: u64,
        /// How long a batch waits to be full, as the scenario has it.
        wait: Option<String>,
        /// Whether events lay in the source meanwhile.
        more_was_there: bool,
    },
    /// The slowest sends took far longer than most.
    SendTail {
        /// The median of a send.
        p50_us: u64,
        /// The 99th percentile.
        p99_us: u64,
        /// How long a try may take, as the scenario has it.
        try_timeout: Option<String>,
    },
    /// Sends failed.
    SendErrors {
        /// How many.
        failed: u64,
        /// Of how many.
        made: u64,
        /// Those without an outcome in time.
        timed_out: u64,
    },
    /// Batches failed, other than on purpose.
    ProcessingErrors {
        /// How many.
        failed: u64,
        /// Of how many.
        batches: u64,
        /// How often partitions stood still and were opened again.
        restarts: u64,
    },
    /// Checkpoints take so long that claims may not be renewed in time.
    SlowCheckpoints {
        /// The 99th percentile of a checkpoint, or of a round of renewal divided by its requests if that is longer.
        p99_us: u64,
        /// How often claims are renewed.
        renew_us: u64,
        /// When a claim expires.
        expire_us: u64,
    },
    /// Checkpoints could not be written.
    CheckpointErrors {
        /// How many.
        failed: u64,
        /// Of how many.
        attempts: u64,
    },
    /// The measured role came close to its memory limit.
    MemoryNearLimit {
        /// Whose memory.
        subject: Subject,
        /// The most that it held.
        peak_bytes: u64,
        /// What it may hold.
        limit_bytes: u64,
    },
    /// Events arrived more than once, and partitions changed hands.
    DuplicatesAfterLoss {
        /// How many events.
        duplicated: u64,
        /// How many partitions were lost in the trial.
        lost_partitions: u64,
    },
    /// Something that is not of the run used the machine as well.
    MachineShared {
        /// Cores that it used on average.
        other_cores: f64,
        /// Cores that there are.
        cores: f64,
    },
    /// The generator did not keep to its plan.
    GeneratorUnhealthy {
        /// Events that left too late.
        late: Option<u64>,
        /// Events that never left.
        never_sent: Option<u64>,
    },
    /// The source's retention took events before the relay read them.
    EventsMissed {
        /// How many.
        missed: u64,
    },
    /// The service refused sends because a quota was used up.
    BoundByQuota {
        /// Refused sends by entity.
        throttled: Vec<(String, u64)>,
        /// Seconds of the measured phase.
        duration_s: f64,
        /// Whether a full log refuses sends, too.
        full_log_throttles: bool,
    },
}

/// What a pipeline with CPU to spare waited for.
#[derive(Debug, Clone, PartialEq)]
pub enum WaitingFor {
    /// A core: it had something to do for longer than it had a CPU to do it on.
    Core {
        /// For how much of the time it had something to do.
        runnable_percent: f64,
    },
    /// The machine: all roles together, and what else ran there, used it up.
    Machine {
        /// Cores that were used on average.
        used_cores: f64,
        /// Cores that there are.
        cores: f64,
    },
    /// The embedded service, which used all that it may.
    Service {
        /// Its CPU.
        cpu_percent: f64,
    },
    /// Something to carry.
    Generator {
        /// For how much of the time.
        percent: f64,
        /// Events that lay in the source, in the middle of the seconds of the trial.
        lag_events: u64,
    },
    /// Events that were in the source and had not come.
    Credit {
        /// For how much of the time.
        percent: f64,
        /// Events that lay in the source, in the middle of the seconds of the trial.
        lag_events: u64,
        /// What bounds how many are on their way.
        ahead: Ahead,
    },
    /// Outcomes of sends, while as much was under way as may be.
    Sends {
        /// For how much of the time.
        percent: f64,
        /// How long all sends of a batch took in the middle.
        p50_us: Option<u64>,
        /// What bounds how many are in flight.
        ahead: Ahead,
    },
    /// A destination that took no more.
    Destination {
        /// For how much of the time.
        percent: f64,
    },
    /// Room for further batches.
    Memory {
        /// For how much of the time.
        percent: f64,
    },
    /// A partition that was open.
    Partitions {
        /// For how much of the time.
        percent: f64,
        /// How often one was opened again after a failure.
        restarts: u64,
    },
    /// Checkpoints that could not be written, which kept partitions closed.
    Checkpoints {
        /// For how much of the time.
        percent: f64,
        /// How often a partition was closed for that.
        closings: u64,
    },
    /// Nothing that can be seen from the outside.
    Unknown,
}

impl Symptom {
    /// The class of the finding, which does not change.
    #[must_use]
    pub const fn kind(&self) -> FindingKind {
        match self {
            Self::LowUtilisation { .. } => FindingKind::LowUtilisation,
            Self::BoundByConcurrency { .. } => FindingKind::LimitedByConcurrency,
            Self::SmallBatches { .. } => FindingKind::SmallBatches,
            Self::SendTail { .. } => FindingKind::SendTail,
            Self::SendErrors { .. } => FindingKind::SendErrors,
            Self::ProcessingErrors { .. } => FindingKind::ProcessingErrors,
            Self::SlowCheckpoints { .. } => FindingKind::SlowCheckpoints,
            Self::CheckpointErrors { .. } => FindingKind::CheckpointErrors,
            Self::MemoryNearLimit { .. } => FindingKind::MemoryNearLimit,
            Self::DuplicatesAfterLoss { .. } => FindingKind::DuplicatesAfterLoss,
            Self::GeneratorUnhealthy { .. } => FindingKind::GeneratorOverloaded,
            Self::BoundByQuota { .. } => FindingKind::LimitedByQuota,
            Self::EventsMissed { .. } => FindingKind::EventsMissed,
            Self::MachineShared { .. } => FindingKind::MachineShared,
        }
    }

    /// What it means for the verdict.
    #[must_use]
    pub const fn severity(&self) -> Severity {
        match self {
            Self::EventsMissed { .. } => Severity::Failure,
            Self::GeneratorUnhealthy { .. } => Severity::Invalid,
            Self::SendErrors { .. }
            | Self::ProcessingErrors { .. }
            | Self::SlowCheckpoints { .. }
            | Self::CheckpointErrors { .. }
            | Self::MemoryNearLimit { .. }
            | Self::MachineShared { .. }
            | Self::DuplicatesAfterLoss { .. } => Severity::Warning,
            Self::LowUtilisation { .. }
            | Self::BoundByConcurrency { .. }
            | Self::SmallBatches { .. }
            | Self::SendTail { .. }
            | Self::BoundByQuota { .. } => Severity::Note,
        }
    }

    /// One sentence with the figures, without a full stop.
    #[must_use]
    pub fn sentence(&self) -> String {
        match self {
            Self::LowUtilisation {
                subject,
                cpu_percent,
                forwarded_per_s,
                waiting_for,
            } => {
                let forwarded = forwarded_per_s
                    .map(|forwarded| format!(" and forwarded {} events/s", rate(forwarded)));
                format!(
                    "{subject} used {} % of its CPU{}, with more to be carried: {}",
                    percent(*cpu_percent),
                    forwarded.unwrap_or_default(),
                    waiting_for.clause()
                )
            }
            Self::BoundByConcurrency {
                subject,
                cpu_percent,
                occupancy,
                ..
            } => match &occupancy.parts {
                Some(parts) => format!(
                    "concurrency is the bound: {subject} works on {} at once, and each takes its place for {} ({}); by \
                     Little's law {}",
                    counted(occupancy.places, "message", "messages"),
                    duration_us(parts.whole_us()),
                    parts.sentence(),
                    occupancy.equation()
                ),
                None => {
                    let places = match occupancy.messages {
                        Some(messages) => format!(
                            "{} for {}",
                            counted(occupancy.places, "thread", "threads"),
                            counted(messages, "message", "messages")
                        ),
                        None => counted(occupancy.places, "message", "messages"),
                    };
                    format!(
                        "concurrency may be the bound: {subject} used {} % of its CPU; if it has {places} at once all the \
                         time, by Little's law {}",
                        percent(*cpu_percent),
                        occupancy.equation()
                    )
                }
            },
            Self::SmallBatches { mean, full, .. } => format!(
                "batches had {mean:.1} of {full} events on average ({} % full)",
                percent(mean * 100.0 / *full as f64)
            ),
            Self::SendTail { p50_us, p99_us, .. } => format!(
                "one send in a hundred took {} or more, {:.0} times as long as the median of {}",
                time(*p99_us),
                *p99_us as f64 / *p50_us as f64,
                time(*p50_us)
            ),
            Self::SendErrors {
                failed,
                made,
                timed_out,
            } => format!(
                "{} of {} sends failed ({} %), {} of them without an outcome in time",
                count(*failed),
                count(*made),
                percent(*failed as f64 * 100.0 / *made as f64),
                count(*timed_out)
            ),
            Self::ProcessingErrors {
                failed,
                batches,
                restarts,
            } => format!(
                "{} of {} failed, and partitions stood still until they were opened again {}",
                count(*failed),
                counted(*batches, "batch", "batches"),
                counted(*restarts, "time", "times")
            ),
            Self::SlowCheckpoints {
                p99_us,
                renew_us,
                expire_us,
            } => format!(
                "one request in a hundred to the checkpoint store took {} or more, and claims are renewed there every {} \
                 and expire after {}",
                time(*p99_us),
                time(*renew_us),
                time(*expire_us)
            ),
            Self::CheckpointErrors { failed, attempts } => format!(
                "{} of {} checkpoints could not be written ({} %)",
                count(*failed),
                count(*attempts),
                percent(*failed as f64 * 100.0 / *attempts as f64)
            ),
            Self::MemoryNearLimit {
                subject,
                peak_bytes,
                limit_bytes,
            } => format!(
                "the memory of {subject} reached {} of {} ({} %)",
                bytes(*peak_bytes as f64),
                bytes(*limit_bytes as f64),
                percent(*peak_bytes as f64 * 100.0 / *limit_bytes as f64)
            ),
            Self::DuplicatesAfterLoss {
                duplicated,
                lost_partitions,
            } => format!(
                "{} came more than once, and {} changed hands while their batches were under way",
                counted(*duplicated, "event", "events"),
                counted(*lost_partitions, "partition", "partitions")
            ),
            Self::MachineShared { other_cores, cores } => format!(
                "what is not of this run used {other_cores:.1} of the machine's {cores:.0} cores meanwhile: the figures are \
                 those of what it left"
            ),
            Self::GeneratorUnhealthy { late, never_sent } => format!(
                "the generator did not keep to its plan ({} too late, {} never sent): the figures are not those of the \
                 pipeline",
                late.map_or_else(
                    || "some".to_owned(),
                    |late| counted(late, "event", "events")
                ),
                count(never_sent.unwrap_or(0))
            ),
            Self::EventsMissed { missed } => format!(
                "the source's retention took {} before the relay read {}",
                counted(*missed, "event", "events"),
                if *missed == 1 { "it" } else { "them" }
            ),
            Self::BoundByQuota {
                throttled,
                duration_s,
                full_log_throttles,
            } => {
                let all = throttled.iter().map(|(_, throttled)| throttled).sum();
                let places = throttled
                    .iter()
                    .map(|(name, throttled)| format!("{name}: {}", count(*throttled)));
                format!(
                    "the service throttled {} in {duration_s:.0} s ({}): {} limits the figures",
                    counted(all, "send", "sends"),
                    places.collect::<Vec<_>>().join(", "),
                    match full_log_throttles {
                        true => "its quota, or a log that is full,",
                        false => "its quota",
                    }
                )
            }
        }
    }

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

impl From<Symptom> for Finding {
    fn from(symptom: Symptom) -> Self {
        Self::new(symptom.severity(), symptom.kind(), symptom.sentence())
            .with_hint(symptom.advice())
    }
}

impl WaitingFor {
    fn clause(&self) -> String {
        match self {
            Self::Core { runnable_percent } => format!(
                "it had something to do for {} % of the time and waited for a core",
                percent(*runnable_percent)
            ),
            Self::Machine { used_cores, cores } => format!(
                "the machine was used up ({used_cores:.1} of {cores:.0} cores), and it waited for the others"
            ),
            Self::Service { cpu_percent } => format!(
                "it waited for the embedded service, which used {} % of its CPU",
                percent(*cpu_percent)
            ),
            Self::Generator {
                percent: share,
                lag_events,
            } => format!(
                "for {} % of the time nothing had come, and only {} lay in the source",
                percent(*share),
                counted(*lag_events, "event", "events")
            ),
            Self::Credit {
                percent: share,
                lag_events,
                ..
            } => format!(
                "for {} % of the time nothing had come, though {} lay in the source",
                percent(*share),
                counted(*lag_events, "event", "events")
            ),
            Self::Sends {
                percent: share,
                p50_us,
                ahead,
            } => {
                let took = p50_us.map(|p50_us| format!(", {} per batch", time(p50_us)));
                let most = match *ahead {
                    Ahead::Events(events) => Some(format!(
                        ", with all of the {} in flight that relay.prefetch allows per partition",
                        counted(events, "event", "events")
                    )),
                    Ahead::Adaptive | Ahead::Concurrency => None,
                };
                format!(
                    "it waited for sends {} % of the time{}{}",
                    percent(*share),
                    took.unwrap_or_default(),
                    most.unwrap_or_default()
                )
            }
            Self::Destination { percent: share } => format!(
                "for {} % of the time the destination took no more",
                percent(*share)
            ),
            Self::Memory { percent: share } => format!(
                "for {} % of the time it held as many bytes as it may",
                percent(*share)
            ),
            Self::Partitions {
                percent: share,
                restarts,
            } => format!(
                "for {} % of the time no partition was open; {} were opened again after a rest",
                percent(*share),
                count(*restarts)
            ),
            Self::Checkpoints {
                percent: share,
                closings,
            } => format!(
                "for {} % of the time no partition was open; {} were closed because a checkpoint could not be written",
                percent(*share),
                count(*closings)
            ),
            Self::Unknown => "from the outside nothing tells what it waits for".to_owned(),
        }
    }

    /// A backlog can't be measured with a command that is not ours: nobody tells when it has drained one.
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

fn time(microseconds: u64) -> String {
    duration_us(microseconds as f64)
}

/// A setting's present value, where it is known.
fn in_brackets(value: Option<&str>) -> String {
    value.map_or_else(String::new, |value| format!(" ({value})"))
}
