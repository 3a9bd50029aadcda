//! The highest rate that a case sustains: an interval, and every rate that was tried for it.
//!
//! The figures of such a [`Case`] are those of its trials, as always, and its trials are the probes that held the
//! highest rate. A rate that failed is no failure of the case; it is what the search was for.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Case, CasePlan, Finding, FindingKind, Lead, Severity, Status, TrialRecord};
use crate::figure;

/// A search for the highest sustainable rate.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Capacity {
    /// The percentile of the latency that had to be within the bound, 50 to below 100.
    #[schemars(range(min = 50.0), extend("exclusiveMaximum" = 100))]
    pub percentile: f64,
    /// The bound in microseconds.
    pub bound_us: u64,
    /// How far apart the ends of the result may be, in percent of the lower.
    #[schemars(extend("exclusiveMinimum" = 0))]
    pub precision_percent: f64,
    /// How long a rate was to hold, in seconds.
    #[schemars(extend("exclusiveMinimum" = 0))]
    pub hold_s: f64,
    /// How often in a row.
    #[schemars(range(min = 1))]
    pub repeat: u32,
    /// How the search ended.
    pub conclusion: Conclusion,
    /// The highest rate that held, in events per second.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("exclusiveMinimum" = 0))]
    pub highest_passed_per_s: Option<f64>,
    /// The lowest rate that failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("exclusiveMinimum" = 0))]
    pub lowest_failed_per_s: Option<f64>,
    /// The lowest rate that the generator could not offer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("exclusiveMinimum" = 0))]
    pub lowest_not_offered_per_s: Option<f64>,
    /// Every rate that was tried, in order.
    pub probes: Vec<Probe>,
}

/// What a search came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Conclusion {
    /// It goes on, or was interrupted.
    Searching,
    /// The capacity lies between the highest rate that held and the lowest that failed.
    Enclosed,
    /// It is at least the highest rate that held: the generator could not offer more.
    LimitedByGenerator,
    /// It is at least the highest rate that held: no higher one was to be tried.
    LimitedByScenario,
    /// No rate held.
    NoneHeld,
}

/// One rate that was tried.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Probe {
    /// Counted from 1; the folder of its logs and its lines in the latency log have the same number.
    #[schemars(range(min = 1))]
    pub number: u32,
    /// What it was tried for.
    pub purpose: ProbePurpose,
    /// The rate that was asked for, in events per second.
    #[schemars(extend("exclusiveMinimum" = 0))]
    pub rate_per_s: f64,
    /// How long it was measured, in seconds.
    #[schemars(range(min = 0.0))]
    pub duration_s: f64,
    /// How its load began, if not at the rate.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lead: Option<Lead>,
    /// Where it passed and another probe was throttled: by how much of itself, in percent, the rate may be above the quota at
    /// most, as far as the burst credit can have carried it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0.0))]
    pub above_quota_percent: Option<f64>,
    /// Events that the load really offered per second.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub offered_per_s: Option<f64>,
    /// Events that the pipeline forwarded per second.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub achieved_per_s: Option<f64>,
    /// The median of the end-to-end latency in microseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub p50_us: Option<u64>,
    /// Its 99th percentile.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub p99_us: Option<u64>,
    /// The percentile that the bound is about; the maximum if the samples do not support it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bounded_us: Option<u64>,
    /// By how many events the lag grew per second.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lag_growth_per_s: Option<f64>,
    /// By how many at least, with a confidence of 99 %.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lag_growth_at_least_per_s: Option<f64>,
    /// Sends that the service refused because a quota was exhausted; absent if the service does not tell.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub throttled: Option<u64>,
    /// Acknowledged events that never arrived.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lost: Option<u64>,
    /// How it went; absent if it was interrupted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outcome: Option<ProbeOutcome>,
    /// Why it did not pass, a sentence each.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub reasons: Vec<String>,
}

/// What a rate is tried for, in the order of a search.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum ProbePurpose {
    /// To find a rate that passes and one that does not.
    Bracket,
    /// To bring them closer together.
    Bisect,
    /// To see whether the rate holds for longer, again and again.
    Hold,
}

/// How a rate did.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum ProbeOutcome {
    /// All conditions held.
    Passed,
    /// One of them did not.
    Failed,
    /// Generator or sink did not keep up, which says nothing about what is measured.
    GeneratorLimited,
}

impl Case {
    /// A case whose highest sustainable rate was looked for. `held` are the records of the probes that held the highest
    /// rate; or that of the role which failed before any rate had passed.
    #[must_use]
    pub fn from_search(plan: &CasePlan, held: &[TrialRecord], capacity: Capacity) -> Self {
        let plan = CasePlan { trials: capacity.repeat, ..plan.clone() };
        // Their numbers are those of probes; as trials of the case they count from 1.
        let held: Vec<TrialRecord> = (1..)
            .zip(held)
            .map(|(number, record)| {
                let mut record = record.clone();
                record.trial.number = number;
                record
            })
            .collect();
        let mut case = Self::from_trials(&plan, &held);
        case.findings.extend(capacity.finding().into_iter().chain(capacity.credit_finding()));
        if case.status != Status::Failed {
            case.status = match capacity.conclusion {
                Conclusion::Searching => Status::Incomplete,
                Conclusion::NoneHeld if capacity.lowest_failed_per_s.is_some() => Status::Failed,
                Conclusion::NoneHeld => Status::Invalid,
                Conclusion::Enclosed | Conclusion::LimitedByGenerator | Conclusion::LimitedByScenario => {
                    case.status
                }
            };
        }
        case.findings.sort_by_key(|finding| finding.severity);
        case.passed = case.status == Status::Passed;
        case.capacity = Some(capacity);
        case
    }
}

impl Capacity {
    /// Whether the search has come to its end.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        self.conclusion != Conclusion::Searching
    }

    /// The result in words, without a full stop.
    #[must_use]
    pub fn sentence(&self) -> String {
        let condition = format!(
            "p{} ≤ {}, no growing lag, nothing lost or throttled",
            self.percentile,
            figure::duration_us(self.bound_us as f64)
        );
        let rate = |rate: Option<f64>| figure::rate(rate.unwrap_or(0.0));
        let held = rate(self.highest_passed_per_s);
        // Burst credit makes a hold longer than what was asked for.
        let shortest = self.holds().map(|probe| probe.duration_s).reduce(f64::min);
        let seconds = shortest.unwrap_or(0.0).max(self.hold_s);
        let times = match self.repeat {
            1 => format!("held for {seconds:.0} s"),
            repeat => format!("held {repeat} times for {seconds:.0} s"),
        };
        match self.conclusion {
            Conclusion::Searching => match self.highest_passed_per_s {
                Some(_) => format!("the search has not ended; {held}/s {times} ({condition})"),
                None => format!("the search has not ended, and no rate has held yet ({condition})"),
            },
            Conclusion::Enclosed => format!(
                "the highest sustainable rate is between {held}/s, {times}, and {}/s, which failed ({condition})",
                rate(self.lowest_failed_per_s)
            ),
            Conclusion::LimitedByGenerator => format!(
                "the highest sustainable rate is at least {held}/s, {times}, limited by the generator, which could not \
                 offer {}/s ({condition})",
                rate(self.lowest_not_offered_per_s)
            ),
            Conclusion::LimitedByScenario => format!(
                "the highest sustainable rate is at least {held}/s, {times}; no higher one was to be tried ({condition})"
            ),
            Conclusion::NoneHeld => format!("no rate held ({condition})"),
        }
    }

    /// The probes that held the highest rate.
    fn holds(&self) -> impl Iterator<Item = &Probe> {
        let passed = Some(ProbeOutcome::Passed);
        self.probes.iter().filter(move |probe| {
            Some(probe.rate_per_s) == self.highest_passed_per_s
                && (probe.purpose, probe.outcome) == (ProbePurpose::Hold, passed)
        })
    }

    /// A credit that may have carried the result further than the precision.
    fn credit_finding(&self) -> Option<Finding> {
        let held = self.highest_passed_per_s?;
        let above = self.holds().filter_map(|probe| probe.above_quota_percent).reduce(f64::max)?;
        (above > self.precision_percent).then(|| {
            let message = format!(
                "the burst credit of a quota outlasts the hold: {}/s may be above the quota by up to {above:.0} %",
                figure::rate(held)
            );
            let advice = "hold longer (`load.capacity.hold`), or search less precisely (`load.capacity.precision`)";
            Finding::new(Severity::Warning, FindingKind::LimitedByQuota, message).with_hint(advice)
        })
    }

    fn finding(&self) -> Option<Finding> {
        let last_reason = || {
            let tried = self.probes.iter().rev();
            let mut reasons = tried.filter_map(|probe| Some((probe, probe.reasons.first()?)));
            reasons.next().map_or_else(String::new, |(probe, reason)| {
                format!("; at {}/s {reason}", figure::rate(probe.rate_per_s))
            })
        };
        let (severity, kind, message) = match self.conclusion {
            Conclusion::Searching | Conclusion::Enclosed => return None,
            Conclusion::LimitedByGenerator => (
                Severity::Warning,
                FindingKind::LimitedByGenerator,
                format!(
                    "the generator could not offer {}/s, so the rate found is a lower bound{}",
                    figure::rate(self.lowest_not_offered_per_s.unwrap_or(0.0)),
                    last_reason()
                ),
            ),
            Conclusion::LimitedByScenario => (
                Severity::Note,
                FindingKind::Other,
                "the highest rate of load.capacity.highest held, so the rate found is a lower bound"
                    .to_owned(),
            ),
            Conclusion::NoneHeld if self.lowest_failed_per_s.is_some() => {
                (Severity::Failure, FindingKind::Other, format!("no rate held{}", last_reason()))
            }
            Conclusion::NoneHeld => (
                Severity::Invalid,
                FindingKind::GeneratorOverloaded,
                format!("the generator could not offer any of the rates{}", last_reason()),
            ),
        };
        Some(Finding::new(severity, kind, message))
    }
}

impl ProbePurpose {
    /// The name that users read and that `results.json` uses.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Bracket => "bracket",
            Self::Bisect => "bisect",
            Self::Hold => "hold",
        }
    }
}

impl ProbeOutcome {
    /// The name that users read.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Passed => "passed",
            Self::Failed => "failed",
            Self::GeneratorLimited => "generator-limited",
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::report::sample;

    use super::*;

    #[test]
    fn a_result_that_burst_credit_may_have_carried_beyond_the_precision_is_a_warning_with_advice() {
        let mut capacity = sample::searched().cases[0].capacity.clone().unwrap();
        let hold = capacity.probes.iter_mut().rev().find(|probe| probe.outcome == Some(ProbeOutcome::Passed));
        let hold = hold.unwrap();
        (hold.duration_s, hold.above_quota_percent) = (300.4, Some(50.0));
        assert_eq!(capacity.credit_finding(), None, "that is the precision");
        assert!(capacity.sentence().contains("held for 300 s"), "{}", capacity.sentence());
        capacity.precision_percent = 5.0;
        let finding = capacity.credit_finding().unwrap();
        assert_eq!((finding.severity, finding.kind), (Severity::Warning, FindingKind::LimitedByQuota));
        assert!(finding.message.contains("up to 50 %"), "{}", finding.message);
        assert!(finding.hint.unwrap().contains("load.capacity.hold"));
    }
}
