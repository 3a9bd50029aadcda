//! Whether a rate was sustained: the conditions, all of which a probe has to meet.
//!
//! Three groups, in this order:
//!
//! 1. What damns a rate however the generator did: an event that was lost or damaged, a send that was throttled (which
//!    is what delays a generator, too), counters that disagree, a role that died under a load that others survived.
//! 2. A generator or sink that did not keep up. The rate is not judged then.
//! 3. The latency bound, the lag, what was forwarded of what was offered, and sends without an answer.

use std::time::Duration;

use super::search::{Attempt, Outcome};
use crate::{
    figure,
    results::{Case, CasePlan, FindingKind, Probe, Severity, TrialRecord},
    statistics::Trend,
};

/// What is asked of the latency.
#[derive(Debug, Clone, Copy)]
pub(super) struct LatencyBound {
    /// 0 to 100.
    pub(super) percentile: f64,
    pub(super) bound: Duration,
}

/// A probe, and whether what came of it may be the machine's doing.
#[derive(Debug)]
pub(super) struct Judged {
    pub(super) probe: Probe,
    pub(super) is_doubtful: bool,
}

/// The figures of a probe and whether it passed. `error` is what kept the trial from its end.
pub(super) fn judge(
    attempt: Attempt,
    latency_bound: LatencyBound,
    plan: &CasePlan,
    record: &TrialRecord,
    error: Option<String>,
) -> Judged {
    let trial = &record.trial;
    let trend = trial_trend(record);
    let delivery = trial.delivery.as_ref();
    let told = trial.hub.values().any(|hub| hub.throttled.is_some());
    let throttled = trial.throttled().iter().map(|(_, sends)| sends).sum();
    let throttled = (told || throttled > 0).then_some(throttled);
    let latency = trial.latency_us.as_ref();
    let bounded = bounded_us(latency_bound.percentile, record);
    let mut probe = Probe {
        number: trial.number,
        purpose: attempt.purpose,
        rate_per_s: attempt.rate,
        duration_s: trial.duration_s,
        offered_per_s: trial.offered_per_s,
        achieved_per_s: trial.forwarded_per_s.or(trial.consumed_per_s),
        p50_us: latency.and_then(|latency| latency.p50),
        p99_us: latency.and_then(|latency| latency.p99),
        bounded_us: bounded.map(|(latency, _)| latency),
        lag_growth_per_s: trend.map(|trend| trend.slope),
        lag_growth_at_least_per_s: trend.map(|trend| trend.at_least),
        throttled,
        lost: delivery.map(|_| trial.deliveries().map(|(_, delivery)| delivery.lost).sum()),
        outcome: None,
        reasons: Vec::new(),
        lead: trial.lead,
        above_quota_percent: None,
    };

    let mut damning: Vec<String> = error.into_iter().collect();
    if let Some(throttled) = throttled.filter(|throttled| *throttled > 0) {
        damning.push(format!("the service throttled {}", figure::counted(throttled, "send", "sends")));
    }
    let case = Case::from_trials(plan, std::slice::from_ref(record));
    let findings = &case.findings;
    let messages = |severity| {
        let findings = findings.iter().filter(move |finding| finding.severity == severity);
        findings.map(|finding| finding.message.clone())
    };
    if damning.is_empty() || !trial.interrupted {
        damning.extend(messages(Severity::Failure));
    }
    let mut unfit: Vec<String> = messages(Severity::Invalid).collect();
    let unclear = findings.iter().filter(|finding| finding.kind == FindingKind::ClockUncertain);
    unfit.extend(unclear.map(|finding| finding.message.clone()));
    let mut slow = slowness(attempt, latency_bound, record, trend, bounded);
    let held_back = findings
        .iter()
        .find(|finding| (finding.kind, finding.severity) == (FindingKind::LoadHeldBack, Severity::Warning));
    if let Some(finding) = held_back.filter(|_| !slow.is_empty()) {
        slow.push(format!(
            "{} (`load.in_flight` and `load.workers` limit how many sends may be unanswered)",
            finding.message
        ));
    }
    if trend.is_none() && slow.is_empty() {
        unfit.push("there are too few readings of the lag to decide whether it grew".to_owned());
    }
    (probe.outcome, probe.reasons) = if !damning.is_empty() {
        damning.append(&mut slow);
        (Some(Outcome::Failed), damning)
    } else if !unfit.is_empty() {
        (Some(Outcome::GeneratorLimited), unfit)
    } else if !slow.is_empty() {
        (Some(Outcome::Failed), slow)
    } else {
        (Some(Outcome::Passed), Vec::new())
    };
    Judged { probe, is_doubtful: case.has(FindingKind::MachineShared) }
}

fn slowness(
    attempt: Attempt,
    LatencyBound { percentile, bound }: LatencyBound,
    record: &TrialRecord,
    trend: Option<Trend>,
    bounded: Option<(u64, bool)>,
) -> Vec<String> {
    let mut reasons = Vec::new();
    match bounded {
        None => reasons.push("no latency was measured".to_owned()),
        Some((latency, is_percentile)) if u128::from(latency) > bound.as_micros() => {
            let name = match is_percentile {
                true => format!("p{percentile}"),
                false => format!("the maximum (there are too few events for p{percentile})"),
            };
            reasons.push(format!(
                "{name} was {}, above {}",
                figure::duration_us(latency as f64),
                units::duration::text(bound)
            ));
        }
        Some(_) => {}
    }
    if let Some(trend) = trend.filter(|trend| trend.is_growth(attempt.rate)) {
        reasons.push(format!(
            "the lag grew by {} events/s (at least {})",
            figure::rate(trend.slope),
            figure::rate(trend.at_least)
        ));
    }
    reasons.extend(shortfall(record));
    let delivery = record.trial.delivery.as_ref();
    let unknown = delivery.and_then(|delivery| delivery.unknown).unwrap_or(0);
    if unknown > 0 {
        reasons.push(format!("{} never acknowledged", figure::counted(unknown, "event was", "events were")));
    }
    reasons
}

/// What a lag that was read too unevenly for a trend can't hide: less was forwarded than offered.
fn shortfall(record: &TrialRecord) -> Option<String> {
    let trial = &record.trial;
    let (offered, achieved) = (trial.offered_per_s?, trial.forwarded_per_s.or(trial.consumed_per_s)?);
    let missing = offered - achieved;
    let is_short = missing > offered * LEAST_SHORTFALL && missing * trial.duration_s > UNEVEN_EVENTS;
    is_short.then(|| {
        format!(
            "only {} of the {} events/s offered were forwarded",
            figure::rate(achieved),
            figure::rate(offered)
        )
    })
}

impl Trend {
    /// Whether a lag with this trend can't go on: it grows for certain, and by a part of the rate that matters.
    fn is_growth(&self, rate: f64) -> bool {
        self.at_least > 0.0 && self.slope > rate * LEAST_GROWTH
    }
}

fn trial_trend(record: &TrialRecord) -> Option<Trend> {
    let intervals = record.trial.intervals.iter();
    let readings = intervals.filter_map(|each| Some((each.at_s, each.lag_events? as f64)));
    Trend::of(&readings.collect::<Vec<_>>())
}

/// The latency at a percentile, or the maximum where the samples are too few for it, and which of both it is.
fn bounded_us(percentile: f64, record: &TrialRecord) -> Option<(u64, bool)> {
    let histogram = &record.distributions.latency.histogram;
    let beyond = 1.0 - percentile / 100.0;
    if histogram.is_empty() {
        None
    } else if histogram.len() as f64 * beyond >= 1.0 - 1e-9 {
        Some((histogram.value_at_percentile(percentile), true))
    } else {
        Some((histogram.max(), false))
    }
}

/// A lag that grows by less than this share of the rate takes minutes to add up to a latency that anyone bounds, and is
/// no more than the unevenness of batches.
const LEAST_GROWTH: f64 = 0.005;

/// The counters at the edges of a short probe are those of whole batches, at slightly different instants. This share is
/// more than that.
const LEAST_SHORTFALL: f64 = 0.05;

/// At low rates a few batches are a large share.
const UNEVEN_EVENTS: f64 = 100.0;

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::{super::search::Purpose, *};
    use crate::results::{
        Delivery, Distributions, EntityCounters, Finding, FindingKind, Interval, OrderExpectation, Refusals,
        Role, Trial,
    };

    fn record(latencies: impl IntoIterator<Item = i64>, lag_growth: u64) -> TrialRecord {
        let mut distributions = Distributions::default();
        latencies.into_iter().for_each(|latency| distributions.latency.record(latency));
        let intervals = (1..=10).map(|second| Interval {
            at_s: second as f64,
            lag_events: Some(500 + second * lag_growth + second % 2),
            ..Interval::default()
        });
        let trial = Trial {
            number: 3,
            duration_s: 10.0,
            delivery: Some(Delivery { sent: 10_000, received: Some(10_000), ..Delivery::default() }),
            intervals: intervals.collect(),
            ..Trial::default()
        };
        TrialRecord::new(trial, distributions)
    }

    fn verdict(record: &TrialRecord, error: Option<&str>) -> (Outcome, String) {
        let plan = CasePlan {
            name: "small".to_owned(),
            sweep: None,
            params: BTreeMap::new(),
            shape: crate::results::Shape::default(),
            system: None,
            measured_role: Role::Relay,
            trials: 1,
            published: None,
            order: OrderExpectation::Kept,
        };
        let attempt = Attempt { rate: 1_000.0, purpose: Purpose::Bisect };
        let bound = LatencyBound { percentile: 99.0, bound: Duration::from_millis(100) };
        let Judged { probe, .. } = judge(attempt, bound, &plan, record, error.map(str::to_owned));
        (probe.outcome.unwrap(), probe.reasons.join("; "))
    }

    fn overloaded(mut record: TrialRecord) -> TrialRecord {
        record.trial.findings.push(Finding::new(
            Severity::Invalid,
            FindingKind::GeneratorOverloaded,
            "the generator did not keep to its plan",
        ));
        record
    }

    #[test]
    fn a_rate_passes_when_every_condition_holds() {
        assert_eq!(verdict(&record([900; 1_000], 0), None), (Outcome::Passed, String::new()));
    }

    #[test]
    fn a_latency_above_the_bound_fails_a_rate_at_the_percentile_and_not_beyond_it() {
        let late = |count| {
            let latencies = std::iter::repeat_n(900, 1_000 - count);
            record(latencies.chain(std::iter::repeat_n(200_000, count)), 0)
        };
        assert_eq!(verdict(&late(9), None).0, Outcome::Passed);
        let (outcome, reason) = verdict(&late(12), None);
        assert_eq!((outcome, &*reason), (Outcome::Failed, "p99 was 200 ms, above 100 ms"));
        let (outcome, reason) = verdict(&record([900, 200_000], 0), None);
        assert_eq!(outcome, Outcome::Failed);
        assert!(reason.starts_with("the maximum (there are too few events"), "{reason}");
    }

    #[test]
    fn a_lag_that_grows_fails_a_rate_while_latencies_are_still_low() {
        let (outcome, reason) = verdict(&record([900; 1_000], 40), None);
        assert_eq!(outcome, Outcome::Failed);
        assert!(reason.starts_with("the lag grew by 40.0 events/s"), "{reason}");
        assert_eq!(
            verdict(&record([900; 1_000], 4), None).0,
            Outcome::Passed,
            "less than half a percent of the rate"
        );
    }

    #[test]
    fn a_pipeline_that_forwards_less_than_is_offered_fails_a_rate_however_uneven_its_lag_is() {
        let mut short = record([900; 1_000], 0);
        (short.trial.offered_per_s, short.trial.forwarded_per_s) = (Some(1_000.0), Some(960.0));
        assert_eq!(verdict(&short, None).0, Outcome::Passed);
        short.trial.forwarded_per_s = Some(940.0);
        let (outcome, reason) = verdict(&short, None);
        let expected = "only 940 of the 1,000 events/s offered were forwarded";
        assert_eq!((outcome, &*reason), (Outcome::Failed, expected));
    }

    #[test]
    fn loss_throttling_and_dead_roles_fail_a_rate_however_the_generator_did() {
        let mut lossy = overloaded(record([900; 1_000], 0));
        lossy.trial.delivery.as_mut().unwrap().lost = 1;
        assert_eq!(verdict(&lossy, None).0, Outcome::Failed);
        let mut throttled = overloaded(record([900; 1_000], 0));
        let counters = EntityCounters { throttled: Some(7), ..EntityCounters::default() };
        throttled.trial.hub.insert("source".to_owned(), counters);
        let (outcome, reason) = verdict(&throttled, None);
        assert_eq!((outcome, &*reason), (Outcome::Failed, "the service throttled 7 sends"));
        let mut elsewhere = overloaded(record([900; 1_000], 0));
        let refusals = Refusals { refused: 9, throttled: 9, total: Some(10_000) };
        elsewhere.trial.refusals.insert(Role::Load, refusals);
        let (outcome, reason) = verdict(&elsewhere, None);
        assert_eq!(
            (outcome, &*reason),
            (Outcome::Failed, "the service throttled 9 sends"),
            "a service that tells nothing of itself"
        );
        let dead = verdict(&overloaded(record([], 0)), Some("the relay failed"));
        assert_eq!(dead.0, Outcome::Failed);
    }

    #[test]
    fn an_overloaded_generator_fails_no_rate_whatever_the_latency_was() {
        let (outcome, reason) = verdict(&overloaded(record([900_000; 1_000], 400)), None);
        assert_eq!(outcome, Outcome::GeneratorLimited);
        assert_eq!(reason, "the generator did not keep to its plan");
    }

    #[test]
    fn a_late_rate_whose_load_waited_for_answers_says_so_and_a_timely_one_does_not() {
        let held_back = |mut record: TrialRecord, severity| {
            let message = "the service held the load back: 4,800 of 10,000 events left late";
            record.trial.findings.push(Finding::new(severity, FindingKind::LoadHeldBack, message));
            verdict(&record, None)
        };
        let (outcome, reason) = held_back(record([200_000; 1_000], 0), Severity::Warning);
        assert_eq!(outcome, Outcome::Failed);
        assert!(
            reason.starts_with("p99 was 200 ms, above 100 ms; the service held the load back"),
            "{reason}"
        );
        assert!(reason.contains("`load.in_flight` and `load.workers`"), "{reason}");
        assert!(!held_back(record([200_000; 1_000], 0), Severity::Note).1.contains("held"));
        assert_eq!(held_back(record([900; 1_000], 0), Severity::Warning), (Outcome::Passed, String::new()));
    }

    #[test]
    fn unanswered_sends_fail_a_rate() {
        let mut unanswered = record([900; 1_000], 0);
        unanswered.trial.delivery.as_mut().unwrap().unknown = Some(2);
        let (outcome, reason) = verdict(&unanswered, None);
        assert_eq!((outcome, &*reason), (Outcome::Failed, "2 events were never acknowledged"));
    }

    #[test]
    fn a_lag_that_was_hardly_read_passes_and_fails_nothing() {
        let mut short = record([900; 1_000], 0);
        short.trial.intervals.truncate(3);
        assert_eq!(verdict(&short, None).0, Outcome::GeneratorLimited);
    }
}
