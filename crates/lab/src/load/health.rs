//! Whether the generator did its work, and whether it is what limited the figures.
//!
//! A generator that did not keep to its plan makes a trial invalid: it must neither flatter nor blame
//! what is measured. A generator that kept to its plan but could not offer more than was carried is
//! another matter: the figures stand, as a lower bound, and the report says so.

use std::time::Duration;

use crate::{
    results::{Finding, FindingKind, GeneratorHealth, LatencySummary, MeasuredComponent, Noun, Severity},
    scenario::LoadMode,
};

/// What is known of a generator after a trial.
#[derive(Debug, Clone, PartialEq)]
pub struct LoadFacts {
    /// How its pace was determined.
    pub mode: LoadMode,
    /// What it offered.
    pub noun: Noun,
    /// What the load was for.
    pub measured: MeasuredComponent,
    /// Events that it sent.
    pub sent: u64,
    /// Those of them that left later than intended by more than [`LATE_AFTER`].
    pub late: u64,
    /// Events of the plan that were due and never left.
    pub never_sent: u64,
    /// As many as the plan has in [`LATE_AFTER`]: those that were due that shortly before the load was stopped were not
    /// late yet.
    pub due_last: u64,
    /// How late events were; `None` without a schedule.
    pub lateness: Option<LatencySummary>,
    /// CPU over the measured phase; 100 is everything that the load may use.
    pub cpu_percent: f64,
    /// How long it stood still because it was far enough ahead.
    pub held: Duration,
    /// The most events that waited for the sink at the end of a second.
    pub sink_lag_peak: Option<u64>,
}

/// The verdict on a generator, with what a reader of the figures has to know about it.
#[must_use]
pub fn judge(facts: &LoadFacts) -> (GeneratorHealth, Vec<Finding>) {
    let mut findings = Vec::new();
    let is_planned = facts.mode == LoadMode::Open;
    let planned = facts.sent + facts.never_sent;
    let late_percent = percent(facts.late, planned);
    let never_sent_percent = percent(facts.never_sent, planned);
    let is_late = late_percent > TOLERATED_LATE_PERCENT;
    let is_short = facts.never_sent > facts.due_last && never_sent_percent > TOLERATED_NEVER_SENT_PERCENT;
    let is_busy = facts.cpu_percent >= BUSY_CPU_PERCENT;
    let healthy = !(is_planned && (is_late || is_short));
    if !healthy {
        findings.push(
            Finding::new(
                Severity::Invalid,
                FindingKind::GeneratorOverloaded,
                format!(
                    "the load generator fell behind its schedule: {late_percent:.1} % of the {} left more than {} ms late, \
                     {never_sent_percent:.1} % were never sent (its CPU: {:.0} %)",
                    facts.noun,
                    LATE_AFTER.as_millis(),
                    facts.cpu_percent,
                ),
            )
            .with_hint("lower `load.rate`, raise `load.in_flight`, or give the load more cores"),
        );
    }
    let is_limit = match facts.mode {
        LoadMode::Saturate => facts.held.is_zero(),
        LoadMode::Closed => is_busy,
        LoadMode::Open | LoadMode::Backlog | LoadMode::Capacity => false,
    };
    if is_limit {
        findings.push(
            Finding::new(
                Severity::Warning,
                FindingKind::LimitedByGenerator,
                format!(
                    "load-bound: the generator never got as far ahead as allowed (its CPU: {:.0} %), so more could have been \
                     carried",
                    facts.cpu_percent,
                ),
            )
            .with_hint(match facts.measured {
                MeasuredComponent::Relay => "measure with `load.mode=backlog`, which isolates the relay from the generator",
                MeasuredComponent::Other(_) | MeasuredComponent::Part(_) => "offer more with `load.workers` and `load.in_flight`",
            }),
        );
    }
    let health = GeneratorHealth {
        healthy,
        late_events: is_planned.then_some(facts.late),
        never_sent_events: is_planned.then_some(facts.never_sent),
        lateness_us: facts.lateness.clone(),
        sink_lag_peak_events: facts.sink_lag_peak,
    };
    (health, findings)
}

fn percent(part: u64, whole: u64) -> f64 {
    if whole == 0 {
        return 0.0;
    }
    part as f64 * 100.0 / whole as f64
}

/// An event that leaves this much after its intended instant is late: well above what a timer and one
/// full send need, well below what a user would call a delay.
pub const LATE_AFTER: Duration = Duration::from_millis(10);

/// One in a hundred: beyond it the p99 of the end-to-end latency would be the generator's.
const TOLERATED_LATE_PERCENT: f64 = 1.0;

/// What a last send may leave behind when the load ends.
const TOLERATED_NEVER_SENT_PERCENT: f64 = 0.1;

/// A process above this has nothing left for a burst.
const BUSY_CPU_PERCENT: f64 = 95.0;

#[cfg(test)]
mod tests {
    use super::*;

    fn facts(mode: LoadMode) -> LoadFacts {
        LoadFacts {
            mode,
            noun: Noun::Events,
            measured: MeasuredComponent::Relay,
            sent: 100_000,
            late: 0,
            never_sent: 0,
            due_last: 200,
            lateness: None,
            cpu_percent: 40.0,
            held: Duration::from_secs(1),
            sink_lag_peak: None,
        }
    }

    #[test]
    fn a_plan_is_kept_up_to_one_late_event_in_a_hundred_and_not_one_more() {
        let at_the_limit = LoadFacts { late: 1_000, ..facts(LoadMode::Open) };
        assert!(judge(&at_the_limit).0.healthy);
        let beyond = LoadFacts { late: 1_001, ..at_the_limit };
        let (health, findings) = judge(&beyond);
        assert!(!health.healthy);
        assert_eq!(findings[0].severity, Severity::Invalid);
        assert_eq!(findings[0].kind, FindingKind::GeneratorOverloaded);
    }

    #[test]
    fn events_that_never_left_break_the_plan_however_punctual_the_others_were() {
        let short = LoadFacts { sent: 90_000, never_sent: 10_000, ..facts(LoadMode::Open) };
        let (health, _) = judge(&short);
        assert!(!health.healthy);
        assert_eq!(health.never_sent_events, Some(10_000));
    }

    #[test]
    fn events_that_were_due_in_the_last_moment_break_no_plan_however_short_it_was() {
        let stopped = LoadFacts { sent: 10_000, never_sent: 200, ..facts(LoadMode::Open) };
        assert!(judge(&stopped).0.healthy);
        let behind = LoadFacts { never_sent: 201, ..stopped };
        assert!(!judge(&behind).0.healthy);
    }

    #[test]
    fn a_saturating_load_that_was_never_held_is_named_as_the_limit() {
        let (health, findings) = judge(&facts(LoadMode::Saturate));
        assert!(health.healthy && findings.is_empty());
        let never_held = LoadFacts { held: Duration::ZERO, ..facts(LoadMode::Saturate) };
        let (health, findings) = judge(&never_held);
        assert!(health.healthy);
        assert_eq!(findings[0].kind, FindingKind::LimitedByGenerator);
        assert_eq!(health.late_events, None, "there is no plan to be late for");
    }

    #[test]
    fn the_advice_is_one_that_what_is_measured_can_follow() {
        let hint = |measured| {
            let never_held = LoadFacts { measured, held: Duration::ZERO, ..facts(LoadMode::Saturate) };
            judge(&never_held).1.swap_remove(0).hint.expect("an advice")
        };
        assert!(hint(MeasuredComponent::Relay).contains("backlog"));
        assert!(!hint(MeasuredComponent::Other("mine".to_owned())).contains("backlog"));
    }

    #[test]
    fn a_backlog_is_filled_before_anything_is_measured_and_limits_nothing() {
        let busy = LoadFacts { cpu_percent: 100.0, held: Duration::ZERO, ..facts(LoadMode::Backlog) };
        assert!(judge(&busy).1.is_empty());
        let closed = LoadFacts { mode: LoadMode::Closed, ..busy };
        assert_eq!(judge(&closed).1[0].kind, FindingKind::LimitedByGenerator);
    }
}
