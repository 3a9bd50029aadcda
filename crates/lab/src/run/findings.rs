//! What the runner itself notices of a trial: limits that are not in force, what kept the figures from being higher, and a
//! sink that did not keep up.

use std::collections::BTreeMap;

use super::collect::Rates;
use super::plan::TrialPlan;
use crate::{
    figure,
    limits::RoleGroup,
    load::LATE_AFTER,
    results::{
        Distributions, Finding, FindingKind, LatencyDistribution, Role, RoleUsage, Severity, Stage, Subject,
    },
    scenario::LoadMode,
};

pub(super) fn limit_findings(subject: &Subject, groups: &BTreeMap<Role, RoleGroup>) -> Vec<Finding> {
    let notes = groups.iter().filter_map(|(role, group)| Some((role, group.limit().note.as_ref()?)));
    notes
        .map(|(role, note)| {
            Finding::new(
                Severity::Warning,
                FindingKind::LimitNotEnforced,
                format!("the limits of {} are not in force as asked: {note}", subject.called(*role, role)),
            )
        })
        .collect()
}

/// What a reader has to know of figures that were taken from the outside.
pub(super) fn outside_findings(plan: &TrialPlan<'_>, was_killed: bool) -> Vec<Finding> {
    let sut = &plan.parameters.sut;
    if sut.is_ours() {
        return Vec::new();
    }
    let basis = match plan.is_embedded() {
        true => "received is what the service handed out, forwarded what it accepted into the destination",
        false => "forwarded is what reached the sink, and what was received is not known",
    };
    let message = format!(
        "measured from the outside: {basis}; that nothing was lost or changed is checked for every event, and counters \
         of its own there are none to compare"
    );
    let mut findings = vec![Finding::new(Severity::Note, FindingKind::Other, message)];
    if was_killed {
        findings.push(Finding::new(
            Severity::Warning,
            FindingKind::Other,
            format!(
                "{} did not end within {} of SIGTERM and was killed; its figures had been taken by then",
                sut.name,
                units::duration::text(sut.stop_within)
            ),
        ));
    }
    findings
}

/// What kept the figures from being higher: classes of their own, which the report tells apart.
pub(super) fn what_limited(
    plan: &TrialPlan<'_>,
    rates: &Rates,
    roles: &BTreeMap<Role, RoleUsage>,
    distributions: &Distributions,
) -> Vec<Finding> {
    let mut findings = Vec::new();
    let note = |kind, message| Finding::new(Severity::Note, kind, message);
    if let Some(relay) = roles.get(&Role::Relay).filter(|relay| relay.cpu_percent >= BUSY_CPU_PERCENT) {
        findings.push(note(
            FindingKind::LimitedByClient,
            format!("{} used {:.0} % of the CPU that it may use", plan.subject(), relay.cpu_percent),
        ));
    }
    if plan.mode() == LoadMode::Closed
        && let Some(mean_us) = distributions
            .stages
            .get(&Stage::Acknowledge)
            .and_then(LatencyDistribution::summary)
            .and_then(|summary| summary.mean)
            .filter(|mean_us| *mean_us > 0.0)
    {
        let load = &plan.parameters.load;
        let bound = f64::from(load.workers) * f64::from(load.batch) / (mean_us / 1e6);
        findings.push(note(
            FindingKind::LimitedByConcurrency,
            format!(
                "{} workers with one send of {} events each, answered after {mean_us:.0} µs on average, can offer \
                 {bound:.0} events/s at most (offered: {:.0})",
                load.workers,
                load.batch,
                rates.offered_per_s.unwrap_or(0.0),
            ),
        ));
    }
    if plan.mode() == LoadMode::Open
        && let Some(late) = distributions.stages.get(&Stage::Lateness).and_then(LatencyDistribution::summary)
        && let Some(p99) = late.p99.filter(|p99| u128::from(*p99) > LATE_AFTER.as_micros())
    {
        findings.push(Finding::new(
            Severity::Warning,
            FindingKind::GeneratorOverloaded,
            format!("one in a hundred events left {p99} µs late or more, which its latency includes"),
        ));
    }
    findings
}

/// Whether the sink was behind by more than a moment's work. In an open load its delay is part of every latency, so the
/// figures are void; a saturating load was held back for it, so they are a lower bound.
pub(super) fn sink_finding(plan: &TrialPlan<'_>, rates: &Rates, lag_peak: u64) -> Option<Finding> {
    let forwarded = rates.forwarded_per_s.unwrap_or(0.0);
    let (severity, tolerated) = match plan.mode() {
        LoadMode::Open => (Severity::Invalid, (forwarded * OPEN_SINK_LAG_S).max(LEAST_SINK_LAG)),
        LoadMode::Saturate => (Severity::Warning, plan.parameters.lag_limit() as f64),
        LoadMode::Closed | LoadMode::Backlog | LoadMode::Capacity => return None,
    };
    (lag_peak as f64 > tolerated).then(|| {
        Finding::new(
            severity,
            FindingKind::SinkOverloaded,
            format!("the sink did not keep up: {lag_peak} forwarded events waited for it"),
        )
        .with_hint(match plan.is_external() {
            true => "give the sink more cores",
            false => "give the sink more cores, or measure with load.mode=backlog",
        })
    })
}

/// What the destination's retention took before the sink read it counts as lost, and what is measured is not to blame.
pub(super) fn missed_by_sink(missed: u64) -> Option<Finding> {
    (missed > 0).then(|| {
        Finding::new(
            Severity::Invalid,
            FindingKind::SinkOverloaded,
            format!(
                "the destination's retention took {} before the sink read {}: counted as lost, though forwarded",
                figure::counted(missed, "event", "events"),
                if missed == 1 { "it" } else { "them" }
            ),
        )
        .with_hint(
            "keep more in the destination (embedded.log_per_hub, or the hub's retention), give the sink more cores, or offer \
             less",
        )
    })
}

/// So many seconds' worth of events may wait for the sink in an open load: its readings are 0.1 s old.
const OPEN_SINK_LAG_S: f64 = 0.5;

/// At low rates a single batch is more than that.
const LEAST_SINK_LAG: f64 = 1_000.0;

/// A process above this has nothing left.
const BUSY_CPU_PERCENT: f64 = 95.0;
