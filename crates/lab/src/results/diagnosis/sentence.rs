//! What each symptom says: one sentence with the figures that it was found by.

use super::{Ahead, Symptom, WaitingFor};
use crate::figure::{bytes, count, counted, duration_us, percent};
use crate::results::Noun;

impl Symptom {
    /// One sentence with the figures, without a full stop.
    #[must_use]
    pub fn sentence(&self, noun: Noun) -> String {
        match self {
            Self::LowUtilisation { measured, cpu_percent, forwarded_per_s, waiting_for } => {
                let forwarded = forwarded_per_s.map(|rate| format!(" at {}", noun.rate(rate)));
                format!(
                    "{measured} used only {} % of its CPU{}; {}",
                    percent(*cpu_percent),
                    forwarded.unwrap_or_default(),
                    waiting_for.clause(noun)
                )
            }
            Self::SmallBatches { mean, full, .. } => format!(
                "batches held {mean:.1} of {full} {noun} on average ({} % full)",
                percent(mean * 100.0 / *full as f64)
            ),
            Self::SendTail { p50_us, p99_us, .. } => format!(
                "send p99 is {}, {:.0} times the median of {}",
                time(*p99_us),
                *p99_us as f64 / *p50_us as f64,
                time(*p50_us)
            ),
            Self::SendErrors { failed, made, timed_out } => format!(
                "{} of {} sends failed ({} %), {} of them by time-out",
                count(*failed),
                count(*made),
                percent(*failed as f64 * 100.0 / *made as f64),
                count(*timed_out)
            ),
            Self::ProcessingErrors { failed, batches, restarts } => format!(
                "{} of {} failed; partitions were restarted {}",
                count(*failed),
                counted(*batches, "batch", "batches"),
                counted(*restarts, "time", "times")
            ),
            Self::SlowCheckpoints { p99_us, renew_us, expire_us } => format!(
                "checkpoint store p99 is {}, but claims are renewed there every {} and expire after {}",
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
            Self::MemoryNearLimit { measured, peak_bytes, limit_bytes } => format!(
                "{measured} used {} of its memory limit of {} ({} %)",
                bytes(*peak_bytes as f64),
                bytes(*limit_bytes as f64),
                percent(*peak_bytes as f64 * 100.0 / *limit_bytes as f64)
            ),
            Self::DuplicatesAfterLoss { duplicated, lost_partitions } => format!(
                "{} arrived more than once; {} changed owner with batches in flight",
                noun.counted(*duplicated),
                counted(*lost_partitions, "partition", "partitions")
            ),
            Self::MachineShared { other_cores, cores } => format!(
                "other processes used {other_cores:.1} of the machine's {cores:.0} cores during the measurement"
            ),
            Self::GeneratorUnhealthy { late, never_sent } => format!(
                "the load generator fell behind its schedule: {} late, {} never sent",
                late.map_or_else(|| format!("some {noun}"), |late| noun.counted(late)),
                count(never_sent.unwrap_or(0))
            ),
            Self::EventsMissed { missed } => format!(
                "retention removed {} from the source before the relay read {}",
                noun.counted(*missed),
                if *missed == 1 { "it" } else { "them" }
            ),
            Self::BoundByQuota { throttled, duration_s, full_log_throttles } => {
                let all = throttled.iter().map(|(_, throttled)| throttled).sum();
                let places =
                    throttled.iter().map(|(name, throttled)| format!("{name}: {}", count(*throttled)));
                format!(
                    "the service throttled {} in {duration_s:.0} s ({}): the figures are those of its quota{}",
                    counted(all, "send", "sends"),
                    places.collect::<Vec<_>>().join(", "),
                    if *full_log_throttles { " or of a full log" } else { "" }
                )
            }
        }
    }
}

impl WaitingFor {
    fn clause(&self, noun: Noun) -> String {
        match self {
            Self::Core { runnable_percent } => {
                format!("starved of CPU, runnable {} % of the time", percent(*runnable_percent))
            }
            Self::Machine { used_cores, cores } => {
                format!("the machine was saturated ({used_cores:.1} of {cores:.0} cores)")
            }
            Self::Service { cpu_percent } => {
                format!("service-bound, as the embedded service used {} % of its CPU", percent(*cpu_percent))
            }
            Self::Generator { percent: share, lag_events } => format!(
                "load-bound {} % of the time, with only {} in the source",
                percent(*share),
                noun.counted(*lag_events)
            ),
            Self::Credit { percent: share, lag_events, .. } => format!(
                "receive-bound {} % of the time, with {} waiting in the source",
                percent(*share),
                noun.counted(*lag_events)
            ),
            Self::Sends { percent: share, p50_us, ahead } => {
                let in_flight = match *ahead {
                    Ahead::Events(events) => {
                        Some(format!("{} in flight per partition", noun.counted(events)))
                    }
                    Ahead::Adaptive | Ahead::Concurrency => None,
                };
                let each = p50_us.map(|p50_us| format!("{} per batch", time(p50_us)));
                let details: Vec<String> = in_flight.into_iter().chain(each).collect();
                let details = match details.is_empty() {
                    true => String::new(),
                    false => format!(": {}", details.join(", ")),
                };
                format!("send-bound {} % of the time{details}", percent(*share))
            }
            Self::Destination { percent: share } => {
                format!("blocked by the destination {} % of the time", percent(*share))
            }
            Self::Memory { percent: share } => {
                format!("at its memory bound {} % of the time", percent(*share))
            }
            Self::Partitions { percent: share, restarts } => format!(
                "no partition open {} % of the time, {} after a failure",
                percent(*share),
                counted(*restarts, "restart", "restarts")
            ),
            Self::Checkpoints { percent: share, closings } => format!(
                "no partition open {} % of the time, {} because a checkpoint could not be written",
                percent(*share),
                counted(*closings, "closing", "closings")
            ),
            Self::Unknown => "the cause is not visible from outside".to_owned(),
        }
    }
}

fn time(microseconds: u64) -> String {
    duration_us(microseconds as f64)
}
