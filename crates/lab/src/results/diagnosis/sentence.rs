//! What each symptom says: one sentence with the figures that it was found by.

use super::{Ahead, Symptom, WaitingFor};
use crate::figure::{bytes, count, counted, duration_us, percent, rate};

impl Symptom {
    /// One sentence with the figures, without a full stop.
    #[must_use]
    pub fn sentence(&self) -> String {
        match self {
            Self::LowUtilisation { subject, cpu_percent, forwarded_per_s, waiting_for } => {
                let forwarded =
                    forwarded_per_s.map(|forwarded| format!(" and forwarded {} events/s", rate(forwarded)));
                format!(
                    "{subject} used {} % of its CPU{}, with more to be carried: {}",
                    percent(*cpu_percent),
                    forwarded.unwrap_or_default(),
                    waiting_for.clause()
                )
            }
            Self::BoundByConcurrency { subject, cpu_percent, occupancy, .. } => match &occupancy.parts {
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
            Self::SendErrors { failed, made, timed_out } => format!(
                "{} of {} sends failed ({} %), {} of them without an outcome in time",
                count(*failed),
                count(*made),
                percent(*failed as f64 * 100.0 / *made as f64),
                count(*timed_out)
            ),
            Self::ProcessingErrors { failed, batches, restarts } => format!(
                "{} of {} failed, and partitions stood still until they were opened again {}",
                count(*failed),
                counted(*batches, "batch", "batches"),
                counted(*restarts, "time", "times")
            ),
            Self::SlowCheckpoints { p99_us, renew_us, expire_us } => format!(
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
            Self::MemoryNearLimit { subject, peak_bytes, limit_bytes } => format!(
                "the memory of {subject} reached {} of {} ({} %)",
                bytes(*peak_bytes as f64),
                bytes(*limit_bytes as f64),
                percent(*peak_bytes as f64 * 100.0 / *limit_bytes as f64)
            ),
            Self::DuplicatesAfterLoss { duplicated, lost_partitions } => format!(
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
                late.map_or_else(|| "some".to_owned(), |late| counted(late, "event", "events")),
                count(never_sent.unwrap_or(0))
            ),
            Self::EventsMissed { missed } => format!(
                "the source's retention took {} before the relay read {}",
                counted(*missed, "event", "events"),
                if *missed == 1 { "it" } else { "them" }
            ),
            Self::BoundByQuota { throttled, duration_s, full_log_throttles } => {
                let all = throttled.iter().map(|(_, throttled)| throttled).sum();
                let places =
                    throttled.iter().map(|(name, throttled)| format!("{name}: {}", count(*throttled)));
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
            Self::Generator { percent: share, lag_events } => format!(
                "for {} % of the time nothing had come, and only {} lay in the source",
                percent(*share),
                counted(*lag_events, "event", "events")
            ),
            Self::Credit { percent: share, lag_events, .. } => format!(
                "for {} % of the time nothing had come, though {} lay in the source",
                percent(*share),
                counted(*lag_events, "event", "events")
            ),
            Self::Sends { percent: share, p50_us, ahead } => {
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
            Self::Destination { percent: share } => {
                format!("for {} % of the time the destination took no more", percent(*share))
            }
            Self::Memory { percent: share } => {
                format!("for {} % of the time it held as many bytes as it may", percent(*share))
            }
            Self::Partitions { percent: share, restarts } => format!(
                "for {} % of the time no partition was open; {} were opened again after a rest",
                percent(*share),
                count(*restarts)
            ),
            Self::Checkpoints { percent: share, closings } => format!(
                "for {} % of the time no partition was open; {} were closed because a checkpoint could not be written",
                percent(*share),
                count(*closings)
            ),
            Self::Unknown => "from the outside nothing tells what it waits for".to_owned(),
        }
    }
}

fn time(microseconds: u64) -> String {
    duration_us(microseconds as f64)
}
