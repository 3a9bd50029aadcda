//! Whether the generator did its work, and whether it is what limited the figures.
//!
//! A generator that did not keep to its plan makes a trial invalid: it must neither flatter nor blame
//! what is measured. One that had to wait for answers did its work: latencies count from the intended
//! instant, so they show what the service did. And one that kept to its plan but could not offer more
//! than was carried is another matter: the figures stand, as a lower bound, and the report says so.

use std::time::Duration;

use super::Punctuality;
use crate::{
    figure,
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
    /// How it kept to its plan in the measured phase.
    pub punctuality: Punctuality,
    /// How late events were; `None` without a schedule.
    pub lateness: Option<LatencySummary>,
    /// CPU over the measured phase; 100 is everything that the load may use.
    pub cpu_percent: f64,
    /// How long it stood still because it was far enough ahead.
    pub held: Duration,
    /// A quota refused sends, of whichever role.
    pub is_throttled: bool,
    /// The most events that waited for the sink at the end of a second.
    pub sink_lag_peak: Option<u64>,
}

/// The verdict on a generator, with what a reader of the figures has to know about it.
#[must_use]
pub fn judge(facts: &LoadFacts) -> (GeneratorHealth, Vec<Finding>) {
    let mut findings = Vec::new();
    let is_planned = facts.mode.has_plan();
    let Punctuality { sent, late, held_back, held_back_longest_us, never_sent } = facts.punctuality;
    let planned = sent + never_sent;
    let late_percent = percent(late, planned);
    let never_sent_percent = percent(never_sent, planned);
    let held_back_percent = percent(held_back, planned);
    let is_late = late_percent > TOLERATED_LATE_PERCENT;
    let is_short = never_sent_percent > TOLERATED_NEVER_SENT_PERCENT;
    let is_busy = facts.cpu_percent >= BUSY_CPU_PERCENT;
    let healthy = !(is_planned && (is_late || is_short));
    if !healthy {
        findings.push(
            Finding::new(
                Severity::Invalid,
                FindingKind::GeneratorOverloaded,
                format!(
                    "the load generator fell behind its schedule: {late_percent:.1} % of the {} of the measured phase left \
                     more than {} ms late by its own fault, {never_sent_percent:.1} % were never sent (its CPU: {:.0} %)",
                    facts.noun,
                    LATE_AFTER.as_millis(),
                    facts.cpu_percent,
                ),
            )
            .with_hint("lower `load.rate`, raise `load.in_flight`, or give the load more cores"),
        );
    }
    if is_planned && held_back_percent > UNREMARKABLE_PERCENT {
        // To be held back is what such a loop is about.
        let severity = match held_back_percent > TOLERATED_LATE_PERCENT && facts.mode != LoadMode::Burst {
            true => Severity::Warning,
            false => Severity::Note,
        };
        let included = match facts.mode {
            LoadMode::Burst => {
                "those from the intended instant include it, those from the send leave it out (coordinated omission)"
            }
            _ => "latencies count from the intended instant, so they include it",
        };
        let finding = Finding::new(
            severity,
            FindingKind::LoadHeldBack,
            format!(
                "the service held the load back: {} of {} ({held_back_percent:.1} %) left more than {} ms late because \
                 earlier sends were unanswered, the latest {} late; {included}",
                figure::count(held_back),
                facts.noun.counted(planned),
                LATE_AFTER.as_millis(),
                figure::duration_us(held_back_longest_us as f64),
            ),
        );
        let advice = "find out what kept the service from answering; if it always answers that slowly, raise \
                      `load.in_flight` or `load.workers`";
        let is_explained = facts.is_throttled || facts.mode == LoadMode::Burst;
        findings.push(if is_explained { finding } else { finding.with_hint(advice) });
    }
    // A generator that a quota holds back would have offered more.
    let is_limit = !facts.is_throttled
        && match facts.mode {
            LoadMode::Saturate => facts.held.is_zero(),
            LoadMode::Closed => is_busy,
            LoadMode::Open | LoadMode::Burst | LoadMode::Backlog | LoadMode::Capacity => false,
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
        late_events: is_planned.then_some(late),
        held_back_events: is_planned.then_some(held_back),
        held_back_longest_us: (is_planned && held_back > 0).then_some(held_back_longest_us),
        never_sent_events: is_planned.then_some(never_sent),
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

/// One in a thousand: up to here neither p99 nor p99.9 are of events that were held back.
const UNREMARKABLE_PERCENT: f64 = 0.1;

/// A process above this has nothing left for a burst.
const BUSY_CPU_PERCENT: f64 = 95.0;

#[cfg(test)]
mod tests {
    use super::*;

    fn open(punctuality: Punctuality) -> LoadFacts {
        LoadFacts { punctuality, ..facts(LoadMode::Open) }
    }

    fn facts(mode: LoadMode) -> LoadFacts {
        LoadFacts {
            mode,
            noun: Noun::Events,
            measured: MeasuredComponent::Relay,
            punctuality: Punctuality { sent: 100_000, ..Punctuality::default() },
            lateness: None,
            cpu_percent: 40.0,
            held: Duration::from_secs(1),
            is_throttled: false,
            sink_lag_peak: None,
        }
    }

    #[test]
    fn a_plan_is_kept_up_to_one_late_event_in_a_hundred_and_not_one_more() {
        let late = |late| open(Punctuality { sent: 100_000, late, ..Punctuality::default() });
        assert!(judge(&late(1_000)).0.healthy);
        let (health, findings) = judge(&late(1_001));
        assert!(!health.healthy);
        assert_eq!(findings[0].severity, Severity::Invalid);
        assert_eq!(findings[0].kind, FindingKind::GeneratorOverloaded);
    }

    #[test]
    fn events_that_never_left_break_the_plan_however_punctual_the_others_were() {
        let short = open(Punctuality { sent: 90_000, never_sent: 10_000, ..Punctuality::default() });
        let (health, _) = judge(&short);
        assert!(!health.healthy);
        assert_eq!(health.never_sent_events, Some(10_000));
    }

    #[test]
    fn a_load_that_waited_for_answers_did_its_work_and_the_finding_says_how_long() {
        let held_back = |held_back| {
            let punctuality = Punctuality {
                sent: 10_000,
                held_back,
                held_back_longest_us: 512_000,
                ..Punctuality::default()
            };
            judge(&open(punctuality))
        };
        assert_eq!(held_back(10).1, []);
        assert_eq!(held_back(11).1[0].severity, Severity::Note);
        let (health, findings) = held_back(4_800);
        assert!(health.healthy);
        assert_eq!((findings.len(), findings[0].severity), (1, Severity::Warning));
        assert_eq!(findings[0].kind, FindingKind::LoadHeldBack);
        let message = &findings[0].message;
        assert!(
            message.contains("4,800 of 10,000 events (48.0 %)") && message.contains("512 ms"),
            "{message}"
        );
    }

    #[test]
    fn a_loop_that_was_held_back_did_what_it_is_for_and_the_finding_says_which_latency_hides_it() {
        let punctuality = Punctuality { sent: 10_000, held_back: 4_800, ..Punctuality::default() };
        let (health, findings) = judge(&LoadFacts { punctuality, ..facts(LoadMode::Burst) });
        assert!(health.healthy && health.held_back_events == Some(4_800));
        assert_eq!((findings[0].severity, findings[0].kind), (Severity::Note, FindingKind::LoadHeldBack));
        assert!(findings[0].message.contains("coordinated omission"), "{}", findings[0].message);
        let late = Punctuality { sent: 10_000, late: 101, ..Punctuality::default() };
        assert!(!judge(&LoadFacts { punctuality: late, ..facts(LoadMode::Burst) }).0.healthy);
    }

    #[test]
    fn a_saturating_load_that_was_never_held_is_named_as_the_limit() {
        let (health, findings) = judge(&facts(LoadMode::Saturate));
        assert!(health.healthy && findings.is_empty());
        let never_held = LoadFacts { held: Duration::ZERO, ..facts(LoadMode::Saturate) };
        let (health, findings) = judge(&never_held);
        assert!(health.healthy);
        assert_eq!(findings[0].kind, FindingKind::LimitedByGenerator);
        assert_eq!(judge(&LoadFacts { is_throttled: true, ..never_held }).1, [], "the quota is the limit");
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
