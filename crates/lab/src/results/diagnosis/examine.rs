//! The search for symptoms.

use super::thresholds::{
    BUSY_MACHINE_PERCENT, BUSY_SERVICE_PERCENT, CARRIED_PERCENT, CHECKPOINT_ERRORS_PERCENT,
    FULL_BATCH_PERCENT, LAG_BATCHES_PER_PARTITION, LEAST_COUNT, LEAST_SAMPLED_SECONDS, LEAST_TAIL_US,
    LOW_CPU_PERCENT, NEAR_MEMORY_PERCENT, REQUESTS_PER_RENEWAL, SEND_ERRORS_PERCENT, SHARED_MACHINE_PERCENT,
    STARVED_PERCENT, TAIL_RATIO, WAITING_PERCENT,
};
use super::{Ahead, Symptom, WaitingFor};
use crate::results::{
    FindingKind, MeasuredComponent, PipelineShape, RelayActivity, Role, RoleUsage, Severity, Shape, Size,
    SourceShape, Stage, Trial,
};

/// What stands out in the figures of a trial of `measured`. An interrupted one has figures of nothing but its generator.
/// Where the study has explained why CPU was left over (`is_explained`), nothing else is blamed for it.
#[must_use]
pub fn examine(
    shape: &Shape,
    measured: &MeasuredComponent,
    measured_role: Role,
    trial: &Trial,
    is_explained: bool,
) -> Vec<Symptom> {
    let mut symptoms: Vec<Symptom> = generator_unhealthy(trial).into_iter().collect();
    if trial.interrupted {
        return symptoms;
    }
    let usage = trial.roles.get(&measured_role);
    let quota = bound_by_quota(shape, trial);
    let is_throttled = quota.is_some();
    symptoms.extend(quota);
    symptoms.extend(machine_shared(trial));
    symptoms.extend(missed_events(trial));
    if is_throttled {
        // Whatever else stands out follows from that, and nothing is gained by raising anything.
        if let Some(relay) = &trial.relay {
            symptoms.extend(checkpoint_errors(relay));
            symptoms.extend(duplicates_after_loss(relay, trial));
        }
        return symptoms;
    }
    symptoms.extend(usage.and_then(|usage| memory_near_limit(measured, usage)));
    let pipeline = shape.pipeline.as_ref();
    if let Some((pipeline, usage)) = pipeline.zip(usage).filter(|_| !is_explained) {
        symptoms.extend(low_utilisation(shape, pipeline, measured, usage, trial));
    }
    symptoms.extend(send_tail(pipeline, trial));
    if let Some((pipeline, relay)) = pipeline.zip(trial.relay.as_ref()) {
        symptoms.extend(small_batches(pipeline, relay, trial));
        symptoms.extend(send_errors(relay));
        // Of a queue nothing stands still: what fails is abandoned, comes again, and is counted as redelivered.
        let stands_still = matches!(pipeline.source, SourceShape::Log { .. });
        symptoms.extend(processing_errors(relay).filter(|_| stands_still));
        symptoms.extend(slow_checkpoints(relay, trial));
        symptoms.extend(checkpoint_errors(relay));
        symptoms.extend(duplicates_after_loss(relay, trial));
    }
    symptoms
}

/// Unless the runner has already said why the figures are void.
fn generator_unhealthy(trial: &Trial) -> Option<Symptom> {
    let health = trial.generator.as_ref().filter(|health| !health.healthy)?;
    let is_explained = trial.findings.iter().any(|finding| finding.severity == Severity::Invalid);
    (!is_explained).then_some(Symptom::GeneratorUnhealthy {
        late: health.late_events,
        never_sent: health.never_sent_events,
    })
}

fn bound_by_quota(shape: &Shape, trial: &Trial) -> Option<Symptom> {
    let throttled = trial.throttled();
    (!throttled.is_empty()).then_some(Symptom::BoundByQuota {
        throttled,
        duration_s: trial.duration_s,
        full_log_throttles: shape.full_log_throttles,
    })
}

/// What retention took is missing at the destination, and the relay never had it.
fn missed_events(trial: &Trial) -> Option<Symptom> {
    let missed = trial.relay.as_ref()?.whole_trial.missed_events;
    (missed > 0).then_some(Symptom::EventsMissed { missed })
}

fn memory_near_limit(measured: &MeasuredComponent, usage: &RoleUsage) -> Option<Symptom> {
    let limit_bytes = usage.limit.as_ref()?.memory_bytes?;
    let peak_bytes = usage.memory_peak_bytes;
    let is_near = peak_bytes as f64 >= limit_bytes as f64 * NEAR_MEMORY_PERCENT / 100.0;
    (limit_bytes > 0 && is_near).then_some(Symptom::MemoryNearLimit {
        measured: measured.clone(),
        peak_bytes,
        limit_bytes,
    })
}

/// A quota explains spare CPU by itself, and so does a generator that never got ahead, unless the relay waited for
/// something else.
fn low_utilisation(
    shape: &Shape,
    pipeline: &PipelineShape,
    measured: &MeasuredComponent,
    usage: &RoleUsage,
    trial: &Trial,
) -> Option<Symptom> {
    let is_throttled = !trial.throttled().is_empty();
    if usage.cpu_percent >= LOW_CPU_PERCENT || is_throttled || !has_more(shape, trial) {
        return None;
    }
    let waiting_for = waiting_for(pipeline, usage, trial);
    let is_explained = trial.findings.iter().any(|finding| finding.kind == FindingKind::LimitedByGenerator)
        && matches!(waiting_for, WaitingFor::Generator { .. } | WaitingFor::Unknown);
    (!is_explained).then_some(Symptom::LowUtilisation {
        measured: measured.clone(),
        cpu_percent: usage.cpu_percent,
        forwarded_per_s: trial.forwarded_per_s,
        waiting_for,
    })
}

/// Whether there was more to be carried than was.
fn has_more(shape: &Shape, trial: &Trial) -> bool {
    let fell_short = || {
        let (Some(offered), Some(forwarded)) = (trial.offered_per_s, trial.forwarded_per_s) else {
            return false;
        };
        forwarded < offered * CARRIED_PERCENT / 100.0
    };
    shape.always_offers_more() || fell_short()
}

fn waiting_for(pipeline: &PipelineShape, usage: &RoleUsage, trial: &Trial) -> WaitingFor {
    let machine = || machine(trial);
    let Some(relay) = trial.relay.as_ref().filter(|relay| relay.watched_us > 0) else {
        return machine().or_else(|| service(trial)).unwrap_or(WaitingFor::Unknown);
    };
    let waits = relay.waiting_us;
    let slept: u64 = waits.named().iter().map(|(_, slept)| slept).sum();
    let runnable_percent = 100.0 - relay.waiting_percent(slept);
    let on_cpu_percent = usage.cpu_seconds * 1e6 * 100.0 / relay.watched_us as f64;
    if runnable_percent - on_cpu_percent >= STARVED_PERCENT {
        return WaitingFor::Core { runnable_percent };
    }
    if let Some(busy) = machine().or_else(|| service(trial)) {
        return busy;
    }
    let longest = waits.named().into_iter().max_by_key(|(_, slept)| *slept);
    let (cause, slept) = longest.unwrap_or_default();
    let percent = relay.waiting_percent(slept);
    if percent < WAITING_PERCENT {
        return WaitingFor::Unknown;
    }
    match cause {
        "source" => waiting_for_source(pipeline, trial, percent),
        "sends" => WaitingFor::Sends {
            percent,
            p50_us: trial.stages.get(&Stage::BatchSend).and_then(|send| send.p50),
            ahead: Ahead::of(pipeline),
        },
        "destination" => WaitingFor::Destination { percent },
        "memory" => WaitingFor::Memory { percent },
        _ if relay.closed.checkpoint > relay.closed.batch => {
            WaitingFor::Checkpoints { percent, closings: relay.closed.checkpoint }
        }
        _ => WaitingFor::Partitions { percent, restarts: relay.opened.rest },
    }
}

/// Whether events lay in the source decides what was missing: events, or the credit to send them.
fn waiting_for_source(pipeline: &PipelineShape, trial: &Trial, percent: f64) -> WaitingFor {
    match lag_events(trial) {
        Some(lag_events) if lag_events > usual_lag(pipeline) => {
            WaitingFor::Credit { percent, lag_events, ahead: Ahead::of(pipeline) }
        }
        lag_events => WaitingFor::Generator { percent, lag_events: lag_events.unwrap_or(0) },
    }
}

/// The lag in the middle of the seconds.
pub(crate) fn lag_events(trial: &Trial) -> Option<u64> {
    let mut lags: Vec<u64> = trial.intervals.iter().filter_map(|interval| interval.lag_events).collect();
    lags.sort_unstable();
    lags.get(lags.len() / 2).copied()
}

/// Events that are on their way, or under way in the relay, without anything being amiss.
const fn usual_lag(pipeline: &PipelineShape) -> u64 {
    match pipeline.source {
        SourceShape::Log { partitions, batch_events, in_flight, .. } => {
            partitions * batch_events * (in_flight + LAG_BATCHES_PER_PARTITION)
        }
        SourceShape::Queue { .. } => 1 + LAG_BATCHES_PER_PARTITION,
    }
}

/// Whether a core, the machine or the service was used up, which bounds any pipeline.
pub(crate) fn is_used_up(pipeline: &PipelineShape, usage: &RoleUsage, trial: &Trial) -> bool {
    matches!(
        waiting_for(pipeline, usage, trial),
        WaitingFor::Core { .. } | WaitingFor::Machine { .. } | WaitingFor::Service { .. }
    )
}

/// Whether the machine was used up: by all roles together, and whatever else ran on it.
fn machine(trial: &Trial) -> Option<WaitingFor> {
    let (seconds, cpus) = sampled(trial)?;
    let own: f64 = trial.roles.values().map(|usage| usage.cpu_seconds).sum();
    let all = own + trial.other_cpu_seconds.unwrap_or(0.0);
    // A quota may leave the run fewer cores than there are CPUs; what others use is no part of it.
    [(all, cpus), (own, cores(trial)?)].into_iter().find_map(|(used, cores)| {
        let used_cores = used / seconds;
        let is_used_up = used_cores >= cores * BUSY_MACHINE_PERCENT / 100.0;
        is_used_up.then_some(WaitingFor::Machine { used_cores, cores })
    })
}

/// Over how many seconds CPU time was counted, and on how many CPUs. For older results, the measured phase and all
/// cores are the best guess.
fn sampled(trial: &Trial) -> Option<(f64, f64)> {
    match trial.cpu_sampling {
        Some(sampling) => Some((sampling.seconds, f64::from(sampling.cpus))),
        None => Some((trial.duration_s, cores(trial)?)),
    }
}

/// How many cores the machine has; older results say it only by a role that may use all of them.
fn cores(trial: &Trial) -> Option<f64> {
    if trial.duration_s <= 0.0 {
        return None;
    }
    if let Some(cores) = trial.machine_cores {
        return Some(f64::from(cores));
    }
    trial.roles.values().find_map(|usage| {
        let has_all = usage.limit.as_ref().is_none_or(|limit| limit.cores.is_none());
        let share = usage.cpu_percent / 100.0;
        // From little CPU time the number of cores cannot be told exactly enough.
        (has_all && share > 0.02).then(|| (usage.cpu_seconds / trial.duration_s / share).round())
    })
}

/// What else ran on the machine took so much that the figures are of what it left.
fn machine_shared(trial: &Trial) -> Option<Symptom> {
    let (_, cores) = sampled(trial)?;
    let percent = trial.other_cpu_percent()?;
    (percent >= SHARED_MACHINE_PERCENT)
        .then_some(Symptom::MachineShared { other_cores: cores * percent / 100.0, cores })
}

impl Trial {
    /// How much of the machine other processes used, as far as that can be told.
    #[must_use]
    pub fn other_cpu_percent(&self) -> Option<f64> {
        let (seconds, cores) = sampled(self)?;
        let percent = self.other_cpu_seconds? / seconds / cores * 100.0;
        // In a short time, ticks of the kernel's clock are too coarse. More than there is can only be such a guess.
        (seconds >= LEAST_SAMPLED_SECONDS && percent <= 100.0).then_some(percent)
    }
}

fn service(trial: &Trial) -> Option<WaitingFor> {
    let cpu_percent = trial.roles.get(&Role::Service)?.cpu_percent;
    (cpu_percent >= BUSY_SERVICE_PERCENT).then_some(WaitingFor::Service { cpu_percent })
}

fn small_batches(pipeline: &PipelineShape, relay: &RelayActivity, trial: &Trial) -> Option<Symptom> {
    let SourceShape::Log { batch_events: full @ 2.., batch_wait_us, .. } = pipeline.source else {
        return None;
    };
    let batches = relay.sizes.get(&Size::BatchEvents)?;
    let is_small = batches.mean < full as f64 * FULL_BATCH_PERCENT / 100.0;
    (batches.count >= LEAST_COUNT && is_small).then(|| Symptom::SmallBatches {
        mean: batches.mean,
        full,
        wait_us: batch_wait_us,
        more_was_there: lag_events(trial).is_some_and(|lag| lag > usual_lag(pipeline)),
    })
}

fn send_tail(pipeline: Option<&PipelineShape>, trial: &Trial) -> Option<Symptom> {
    let send = trial.stages.get(&Stage::Send)?;
    let (p50_us, p99_us) = (send.p50?, send.p99?);
    let is_long = p99_us as f64 >= p50_us as f64 * TAIL_RATIO && p99_us >= LEAST_TAIL_US;
    (p50_us > 0 && is_long).then(|| Symptom::SendTail {
        p50_us,
        p99_us,
        try_timeout_us: pipeline.and_then(|pipeline| pipeline.try_timeout_us),
    })
}

fn send_errors(relay: &RelayActivity) -> Option<Symptom> {
    let is_high = relay.failed_sends_percent() >= SEND_ERRORS_PERCENT;
    (relay.sends.made >= LEAST_COUNT && is_high).then_some(Symptom::SendErrors {
        failed: relay.sends.failed,
        made: relay.sends.made,
        timed_out: relay.sends.timed_out,
    })
}

/// A scenario that injects failures has asked for them; each is one batch at most.
fn processing_errors(relay: &RelayActivity) -> Option<Symptom> {
    let failed = relay.batches.failed.saturating_sub(relay.sends.failed_on_purpose);
    (failed > 0).then_some(Symptom::ProcessingErrors {
        failed,
        batches: relay.batches.completed + relay.batches.failed,
        restarts: relay.opened.rest,
    })
}

/// The slower of a checkpoint and a request of a round of renewal, which go to the same store.
fn slow_checkpoints(relay: &RelayActivity, trial: &Trial) -> Option<Symptom> {
    let ownership = relay.ownership.as_ref().filter(|own| own.renew_us > 0)?;
    let p99 = |stage| {
        let summary = trial.stages.get(&stage)?;
        summary.p99.or(summary.max)
    };
    let checkpoint = p99(Stage::Checkpoint);
    let renewal = p99(Stage::Ownership).map(|round| round / ROUND_REQUESTS);
    let p99_us = checkpoint.into_iter().chain(renewal).max()?;
    (p99_us.saturating_mul(REQUESTS_PER_RENEWAL) >= ownership.renew_us).then_some(Symptom::SlowCheckpoints {
        p99_us,
        renew_us: ownership.renew_us,
        expire_us: ownership.expire_us,
    })
}

fn checkpoint_errors(relay: &RelayActivity) -> Option<Symptom> {
    let is_high = relay.failed_checkpoints_percent() >= CHECKPOINT_ERRORS_PERCENT;
    (relay.checkpoints.failed > 0 && is_high).then_some(Symptom::CheckpointErrors {
        failed: relay.checkpoints.failed,
        attempts: relay.checkpoints.failed + relay.checkpoints.written,
    })
}

fn duplicates_after_loss(relay: &RelayActivity, trial: &Trial) -> Option<Symptom> {
    let duplicated = trial.delivery.as_ref()?.duplicated?;
    let lost_partitions = relay.whole_trial.lost_partitions;
    (duplicated > 0 && lost_partitions > 0)
        .then_some(Symptom::DuplicatesAfterLoss { duplicated, lost_partitions })
}

/// A round of renewal reads once and writes once.
const ROUND_REQUESTS: u64 = 2;
