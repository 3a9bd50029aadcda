//! What the runner itself notices of a trial: limits that are not in force, what kept the figures from being higher,
//! and a sink that did not keep up.

use std::collections::BTreeMap;

use super::collect::Rates;
use super::monitor::sinks_counters;
use super::plan::TrialPlan;
use super::supervisor::Supervisor;
use crate::{
    figure,
    limits::RoleGroup,
    payload::{HEADER_PROPERTY, Header},
    results::{
        Distributions, Finding, FindingKind, LatencyDistribution, MeasuredComponent, Role, RoleUsage,
        Severity, Stage,
    },
    roles::protocol::CHECKPOINTS_EVERY,
    scenario::{Done, End, LoadMode},
    verify::Delivery,
};

pub(super) fn limit_findings(
    measured: &MeasuredComponent,
    groups: &BTreeMap<Role, RoleGroup>,
) -> Vec<Finding> {
    let notes = groups.iter().filter_map(|(role, group)| Some((role, group.limit().note.as_ref()?)));
    notes
        .map(|(role, note)| {
            Finding::new(
                Severity::Warning,
                FindingKind::LimitNotEnforced,
                format!(
                    "the limits of {} could not be enforced as requested: {note}",
                    measured.called(*role, role)
                ),
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
    let checked = format!(
        "Loss and corruption are checked for every {}; it has no counters to cross-check",
        plan.noun().one()
    );
    let one = plan.noun().one();
    let unseen = format!(
        "How often, in what order and with what content it does each {one} is not seen: only loss is checked"
    );
    let basis = match (plan.done(), plan.is_embedded()) {
        (Some(Done::Line), _) => {
            format!("an event is done when the lab has read a line of its output that covers it. {unseen}")
        }
        (Some(Done::Checkpoint), _) => format!(
            "an event is done when a checkpoint covers it. Checkpoints are read every {}, and latencies are too long by up to \
             that. {unseen}",
            units::duration::text(CHECKPOINTS_EVERY)
        ),
        (Some(Done::Settlement), _) => {
            format!(
                "a message is done when it is completed, which the service counts: there are no latencies. {unseen}"
            )
        }
        (None, true) => format!(
            "received is what the service delivered to it, forwarded what the service accepted from it. {checked}"
        ),
        (None, false) => {
            format!("forwarded is what reached the sink; what was received is unknown. {checked}")
        }
    };
    let message = format!("measured from outside: {basis}");
    let mut findings = vec![Finding::new(Severity::Note, FindingKind::Other, message)];
    if was_killed {
        findings.push(Finding::new(
            Severity::Warning,
            FindingKind::Other,
            format!(
                "{} did not exit within {} of SIGTERM and was killed, after its figures had been taken",
                sut.name,
                units::duration::text(sut.stop_within)
            ),
        ));
    }
    findings
}

/// Events that arrived without the field that says which they are: counted as corrupted, and as lost.
pub(super) fn unidentified_finding(plan: &TrialPlan<'_>, supervisor: &Supervisor) -> Option<Finding> {
    let (message, hint) = unidentified(plan, supervisor)?;
    Some(Finding::new(Severity::Failure, FindingKind::EventsUnidentified, message).with_hint(hint))
}

/// How many events have arrived without identity so far, and what a forwarder has to do about it; `None` if there are
/// none.
pub(super) fn unidentified(plan: &TrialPlan<'_>, supervisor: &Supervisor) -> Option<(String, String)> {
    let sinks = sinks_counters(supervisor);
    let count = sinks.iter().map(|sink| sink.events.unidentified).sum::<u64>();
    let noun = plan.noun();
    let (missing, copy) = match plan.parameters.load.payload.is_identified_beside() {
        true => (
            format!("the application property `{HEADER_PROPERTY}` is missing"),
            "forward the application properties with the body".to_owned(),
        ),
        false => (
            format!("the body is shorter than the {} bytes that it begins with", Header::LENGTH),
            "forward the body byte for byte".to_owned(),
        ),
    };
    (count > 0).then(|| {
        (
            format!(
                "{} arrived without the identity that the load gave them: {missing}",
                noun.counted(count)
            ),
            format!("{copy}; see “What a command must copy” in docs/external-systems.md"),
        )
    })
}

/// What kept the figures from being higher: classes of their own, which the report tells apart.
pub(super) fn what_limited(
    plan: &TrialPlan<'_>,
    rates: &Rates,
    roles: &BTreeMap<Role, RoleUsage>,
    distributions: &Distributions,
) -> Vec<Finding> {
    let noun = plan.noun();
    let mut findings = Vec::new();
    let note = |kind, message| Finding::new(Severity::Note, kind, message);
    let measured = roles.get(&plan.topology.measured_role());
    if let Some(usage) = measured.filter(|usage| usage.cpu_percent >= BUSY_CPU_PERCENT) {
        findings.push(note(
            FindingKind::LimitedByClient,
            format!("CPU-bound: {} used {:.0} % of its CPU limit", plan.measured(), usage.cpu_percent),
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
        let callers = u64::from(load.workers) * u64::from(load.callers);
        let bound = callers as f64 * f64::from(load.batch) / (mean_us / 1e6);
        findings.push(note(
            FindingKind::LimitedByConcurrency,
            format!(
                "{} with one send of {} in flight each, answered after {} on average, can offer at most {} (offered: {:.0})",
                figure::counted(callers, "caller", "callers"),
                noun.counted(load.batch.into()),
                figure::duration_us(mean_us),
                noun.rate(bound),
                rates.offered_per_s.unwrap_or(0.0),
            ),
        ));
    }
    findings
}

/// Whether the sink was behind by more than a moment's work. In an open load its delay is part of every latency, so the
/// figures are void; a saturating load was held back for it, so they are a lower bound.
pub(super) fn sink_finding(plan: &TrialPlan<'_>, rates: &Rates, lag_peak: u64) -> Option<Finding> {
    let forwarded = rates.carried_per_s();
    let (severity, tolerated) = match plan.mode() {
        LoadMode::Open => (Severity::Invalid, (forwarded * OPEN_SINK_LAG_S).max(LEAST_SINK_LAG)),
        // All of a burst may be on its way at a reading.
        LoadMode::Burst => {
            let burst = f64::from(plan.parameters.load.burst_events());
            (Severity::Invalid, (forwarded * OPEN_SINK_LAG_S).max(LEAST_SINK_LAG) + burst)
        }
        LoadMode::Saturate => (Severity::Warning, plan.parameters.lag_limit() as f64),
        LoadMode::Closed | LoadMode::Backlog | LoadMode::Capacity => return None,
    };
    (lag_peak as f64 > tolerated).then(|| {
        Finding::new(
            severity,
            FindingKind::SinkOverloaded,
            format!("the sink fell behind by {}", plan.noun().counted(lag_peak)),
        )
        .with_hint(match plan.is_external() || plan.topology.pipeline.is_none() {
            true => "give the sink more cores",
            false => "give the sink more cores, or measure with `load.mode=backlog`",
        })
    })
}

/// Events that no one of this run sent, and partitions that no event came to: `delivery` is that of one of the sinks.
pub(super) fn placement_findings(plan: &TrialPlan<'_>, end: &End, delivery: &Delivery) -> Vec<Finding> {
    let place = match plan.topology.sinks.len() {
        0 | 1 => String::new(),
        _ => format!("at `{end}`: "),
    };
    let foreign = (delivery.counts.foreign > 0).then(|| {
        // Nothing else can write there.
        let (severity, origin) = match plan.is_embedded() {
            true => (
                Severity::Failure,
                "only this run writes there, so that they were damaged or invented on the way",
            ),
            false => (Severity::Warning, "something else writes there, or an earlier run has left them"),
        };
        let foreign = plan.noun().counted(delivery.counts.foreign);
        let message =
            format!("{place}{foreign} of another run arrived, and are left out of every figure: {origin}");
        Finding::new(severity, FindingKind::EventsForeign, message)
    });
    let reachable = plan.reachable_partitions(end, delivery.distinct);
    let few = reachable.filter(|reachable| delivery.reached < *reachable).map(|reachable| {
        let message = format!(
            "{place}reached {} of {}: {} at random would have reached all of them",
            delivery.reached,
            figure::counted(u64::from(reachable), "partition", "partitions"),
            plan.noun().counted(delivery.distinct),
        );
        let advice = "let it choose a partition for each event or batch, or set `relay.fan_out` to as many as it is to use";
        let finding = Finding::new(Severity::Warning, FindingKind::FewPartitions, message);
        if plan.is_external() { finding.with_hint(advice) } else { finding }
    });
    foreign.into_iter().chain(few).collect()
}

/// A consumer says that it has done more than there is, or than the sink could read in time.
pub(super) fn ahead_finding(plan: &TrialPlan<'_>, supervisor: &Supervisor) -> Option<Finding> {
    let partitions: u64 = sinks_counters(supervisor).iter().map(|sink| sink.ahead).sum();
    (partitions > 0).then(|| {
        let message = format!(
            "{} says of {} that it has done more than the lab has read there",
            plan.measured(),
            figure::counted(partitions, "partition", "partitions")
        );
        let advice = "what is done is named by the sequence number of the last event that is done, not of the next one";
        Finding::new(Severity::Failure, FindingKind::CountersDisagree, message).with_hint(advice)
    })
}

/// What retention took before the sink read it counts as lost, and what is measured is not to blame.
pub(super) fn missed_by_sink(missed: u64, plan: &TrialPlan<'_>) -> Option<Finding> {
    (missed > 0).then(|| {
        let (from, fate) = match plan.done() {
            None => ("the destination", "though forwarded"),
            Some(_) => ("the source", "though it may be done"),
        };
        Finding::new(
            Severity::Invalid,
            FindingKind::SinkOverloaded,
            format!(
                "retention removed {} from {from} before the sink read {}: counted as lost, {fate}",
                plan.noun().counted(missed),
                if missed == 1 { "it" } else { "them" }
            ),
        )
        .with_hint(
            "keep more in the destination (`embedded.log_per_hub`, or the hub's retention), give the sink more cores, or \
             offer less",
        )
    })
}

/// So many seconds' worth of events may wait for the sink in an open load: its readings are 0.1 s old.
const OPEN_SINK_LAG_S: f64 = 0.5;

/// At low rates a single batch is more than that.
const LEAST_SINK_LAG: f64 = 1_000.0;

/// A process above this has nothing left.
const BUSY_CPU_PERCENT: f64 = 95.0;
