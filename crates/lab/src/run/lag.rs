//! Whether the measured phase was in a steady state: the lag at its edges, and what a lag that changed means.

use super::{collect::Rates, pipeline::Pipeline, plan::TrialPlan, supervisor::Supervisor};
use crate::{
    figure,
    results::{Finding, FindingKind, Lag, Role, Severity},
    roles::protocol::{Counters, Edge, RelayCounters},
    scenario::LoadMode,
};

/// The lag of the measured phase, as the roles counted at its edges; `None` where they did not, and for a backlog, which
/// is nothing but lag.
pub(super) fn lag(
    plan: &TrialPlan<'_>,
    supervisor: &Supervisor,
    pipeline: &Pipeline,
    peak_events: u64,
) -> Option<Lag> {
    if plan.mode() == LoadMode::Backlog {
        return None;
    }
    let begin_events = waiting_at(Edge::Begin, supervisor, pipeline)?;
    let end_events = waiting_at(Edge::End, supervisor, pipeline)?;
    let peak_events = peak_events.max(begin_events).max(end_events);
    Some(Lag { begin_events, end_events, peak_events })
}

fn waiting_at(edge: Edge, supervisor: &Supervisor, pipeline: &Pipeline) -> Option<u64> {
    let at = |role| {
        let members = supervisor.of(role);
        members.filter_map(move |(_, running)| Some(&running.marks.get(&edge)?.counters))
    };
    let acknowledged = at(Role::Load).find_map(Counters::load)?.events.acknowledged;
    if let Pipeline::Settling(address) = pipeline {
        let counted = at(Role::Service).find_map(Counters::service)?.get(address)?;
        let done = counted.completed? + counted.dead_lettered.unwrap_or(0);
        return Some(acknowledged.saturating_sub(done));
    }
    // The first sink is the one whose figures are those of the case.
    let sink = at(Role::Sink).find_map(Counters::sink)?;
    let done = match pipeline {
        Pipeline::Ours { .. } if !supervisor.has_killed(Role::Relay) => {
            let relays = at(Role::Relay).filter_map(Counters::relay);
            relays.fold(RelayCounters::default(), |sum, relay| sum.plus(relay)).done()
        }
        _ => sink.distinct,
    };
    Some(acknowledged.saturating_sub(done + sink.dead_lettered))
}

/// What a lag that changed in the phase did to its figures.
pub(super) fn steadiness_finding(plan: &TrialPlan<'_>, rates: &Rates, lag: Lag) -> Option<Finding> {
    let noun = plan.noun();
    let Lag { begin_events, end_events, .. } = lag;
    let offered_per_s = rates.offered_per_s.filter(|rate| *rate > 0.0)?;
    let carried_per_s = rates.throughput_per_s()?;
    let offered = offered_per_s * rates.duration_s;
    let counts = format!(
        "{} waited when the phase began, {} when it ended",
        noun.counted(begin_events),
        figure::count(end_events)
    );
    let worked_off = begin_events.saturating_sub(end_events) as f64;
    let grown = end_events.saturating_sub(begin_events) as f64;
    // A burst is on its way at an edge, or it is not.
    let burst = match plan.mode() {
        LoadMode::Burst => plan.parameters.load.burst_events(),
        _ => 0,
    };
    let is_more = |events: f64, seconds: f64| {
        events >= (offered * LEAST_SHARE).max(offered_per_s * seconds) + f64::from(burst)
    };
    if carried_per_s > offered_per_s && is_more(worked_off, LEAST_WORKED_OFF_S) {
        let message = format!(
            "more was carried than offered ({} of {}): {counts}",
            figure::rate(carried_per_s),
            noun.rate(offered_per_s)
        );
        let hint = "raise `phases.warm_up`, so that what waits at its end has gone through";
        return Some(Finding::new(Severity::Note, FindingKind::NotSteady, message).with_hint(hint));
    }
    (plan.mode().has_plan() && is_more(grown, LEAST_GROWN_S)).then(|| {
        let message =
            format!("the lag grew: {counts}, so latencies depend on how long the measured phase lasts");
        Finding::new(Severity::Warning, FindingKind::NotSteady, message).with_hint(
            "offer less (`load.rate`), or look for the highest sustainable rate (`load.mode=capacity`)",
        )
    })
}

/// A smaller part of what was offered shows in no figure.
const LEAST_SHARE: f64 = 0.01;

/// What is on its way at any moment differs by this much of the load from one edge to the other.
const LEAST_WORKED_OFF_S: f64 = 0.1;

/// The same where it becomes a warning: a batch that was held up just before the end is no trend.
const LEAST_GROWN_S: f64 = 0.25;
