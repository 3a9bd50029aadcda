//! Whether it is the number of messages worked on at once that bounds what passes between queues.

use super::examine::{lag_events, waiting_for};
use super::thresholds::{FULL_CPU_PERCENT, LITTLE_PERCENT, LOW_CPU_PERCENT};
use super::{Settings, Symptom, WaitingFor};
use crate::results::{Occupancy, RoleUsage, Subject, Trial};

/// The places are the bound if they account for what passed, and nothing else was used up: not the CPU of what is measured, not
/// the service, not the machine, not the messages.
pub(super) fn bound_by_concurrency(
    settings: &Settings,
    subject: &Subject,
    usage: &RoleUsage,
    trial: &Trial,
) -> Option<Symptom> {
    let occupancy = Occupancy::of(
        settings,
        subject.is_ours(),
        &trial.stages,
        trial.received_per_s,
        trial.forwarded_per_s,
    )?;
    let is_used_up = matches!(
        waiting_for(settings, usage, trial),
        WaitingFor::Core { .. } | WaitingFor::Machine { .. } | WaitingFor::Service { .. }
    );
    if is_used_up || lag_events(trial).is_some_and(|lag| lag < occupancy.places) {
        return None;
    }
    let most_cpu_percent = match subject.is_ours() {
        true => FULL_CPU_PERCENT,
        // Its garbage collector and its compiler leave no process quite idle.
        false => LOW_CPU_PERCENT,
    };
    let is_accounted_for = occupancy.off_percent().is_none_or(|off| off <= LITTLE_PERCENT);
    (usage.cpu_percent < most_cpu_percent && is_accounted_for).then(|| Symptom::BoundByConcurrency {
        subject: subject.clone(),
        cpu_percent: usage.cpu_percent,
        occupancy,
        prefetch: settings.prefetch,
    })
}
