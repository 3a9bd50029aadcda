//! Two runs of one scenario, figure by figure: what differs, by how much, and whether the trials prove it.
//!
//! ```text
//! results of A ─┐ conditions: the same machine, cases, parameters, limits?
//!               ├──────────────▶ figures of each trial ──▶ statistics::compare ──▶ difference, interval, verdict
//! results of B ─┘
//! ```
//!
//! A is the baseline, B the candidate. Results that were not taken under the same conditions are refused, with each
//! difference named: a faster machine is not a faster build.

mod conditions;
mod gather;
mod machine;
mod table;

pub use conditions::{Difference, differences};
pub use gather::gathered;
pub use machine::OtherCpu;
pub use table::{markdown, table};

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::figure;
use crate::results::{Capacity, Case, Figure, Quantity, Results, Status, Summary};
use crate::statistics::{self, Design, NotComparable, Question, Verdict};

/// The answer of a comparison; what `parshall compare --format json` prints.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Comparison {
    /// Version of this format: always [`Comparison::SCHEMA`].
    #[schemars(extend("const" = Comparison::SCHEMA))]
    pub schema: u32,
    /// Name of the scenario.
    #[schemars(length(min = 1))]
    pub scenario: String,
    /// Where the baseline comes from.
    pub baseline: String,
    /// Where the candidate comes from.
    pub candidate: String,
    /// How their trials belong together.
    pub design: Design,
    /// What was different although it should not have been, and was let pass.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub differences: Vec<Difference>,
    /// The cases that both have, in the baseline's order.
    pub cases: Vec<ComparedCase>,
}

/// One case of both.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ComparedCase {
    /// Its name, such as `fan_out=32`.
    #[schemars(length(min = 1))]
    pub name: String,
    /// The baseline's verdict on it.
    pub baseline_status: Status,
    /// The candidate's.
    pub candidate_status: Status,
    /// What each side found, the baseline first, where the highest sustainable rate was looked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub searches: Option<[RateRange; 2]>,
    /// What other processes used of the machine meanwhile, where both sides know it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub other_cpu: Option<OtherCpu>,
    /// The sides did not have the machine to the same extent, so that no difference between their figures proves
    /// anything.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub machine_in_doubt: bool,
    /// The figures that both have; none if a side did not pass, which proves nothing about its speed, and none of a
    /// search: it is one observation, and the trials in it are of the rate that it happened to end at.
    pub figures: Vec<ComparedFigure>,
}

/// Between which rates the highest sustainable one lies, in events per second.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RateRange {
    /// The highest that held; absent if none did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("exclusiveMinimum" = 0))]
    pub highest_passed_per_s: Option<f64>,
    /// The lowest that failed; absent if none did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("exclusiveMinimum" = 0))]
    pub lowest_failed_per_s: Option<f64>,
}

/// One figure of a case.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ComparedFigure {
    /// Which.
    pub figure: Figure,
    /// Over the baseline's trials.
    pub baseline: Summary,
    /// Over the candidate's.
    pub candidate: Summary,
    /// The difference, and what it proves.
    pub result: statistics::Comparison,
}

/// Two sets of results with nothing to compare.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ComparisonError {
    /// Another scenario.
    #[error("{baseline} is of the scenario {baseline_scenario}, {candidate} of {candidate_scenario}")]
    Scenario {
        /// Where the baseline comes from.
        baseline: String,
        /// Its scenario.
        baseline_scenario: String,
        /// Where the candidate comes from.
        candidate: String,
        /// Its scenario.
        candidate_scenario: String,
    },
    /// No case in common.
    #[error("{baseline} and {candidate} have no case in common")]
    NoCommonCase {
        /// Where the baseline comes from.
        baseline: String,
        /// Where the candidate comes from.
        candidate: String,
    },
}

/// Results and where they come from.
#[derive(Debug, Clone, Copy)]
pub struct Side<'a> {
    /// What the user calls it: a folder, a program.
    pub name: &'a str,
    /// What was measured.
    pub results: &'a Results,
}

impl Comparison {
    /// The version of the format that this build writes.
    pub const SCHEMA: u32 = 1;

    /// Compares the cases that both sides have. Whether the conditions were the same is asked elsewhere
    /// ([`differences`]); what is given here was let pass.
    ///
    /// # Errors
    /// When they are of different scenarios or have no case in common.
    pub fn of(
        baseline: Side<'_>,
        candidate: Side<'_>,
        design: Design,
        let_pass: Vec<Difference>,
    ) -> Result<Self, ComparisonError> {
        if baseline.results.scenario != candidate.results.scenario {
            return Err(ComparisonError::Scenario {
                baseline: baseline.name.to_owned(),
                baseline_scenario: baseline.results.scenario.clone(),
                candidate: candidate.name.to_owned(),
                candidate_scenario: candidate.results.scenario.clone(),
            });
        }
        let cases: Vec<ComparedCase> = common_cases(baseline.results, candidate.results)
            .map(|(before, after)| ComparedCase::of(before, after, design))
            .collect();
        if cases.is_empty() {
            return Err(ComparisonError::NoCommonCase {
                baseline: baseline.name.to_owned(),
                candidate: candidate.name.to_owned(),
            });
        }
        Ok(Self {
            schema: Self::SCHEMA,
            scenario: baseline.results.scenario.clone(),
            baseline: baseline.name.to_owned(),
            candidate: candidate.name.to_owned(),
            design,
            differences: let_pass,
            cases,
        })
    }

    /// Whether the candidate is proven to be worse in one of these figures, in any case. One that failed a case (lost
    /// events, say) is worse in every figure of it.
    #[must_use]
    pub fn is_worse_in(&self, figures: &[Figure]) -> bool {
        let has_failed = |case: &ComparedCase| case.candidate_status == Status::Failed;
        let is_slower = |case: &ComparedCase| {
            let asked = case.figures.iter();
            asked
                .filter(|compared| figures.contains(&compared.figure))
                .any(|compared| compared.result.verdict == Verdict::Slower)
        };
        let mut cases = self.cases.iter();
        !figures.is_empty() && cases.any(|case| has_failed(case) || is_slower(case))
    }

    /// Whether there are figures, but this one in none of the cases.
    #[must_use]
    pub fn lacks(&self, figure: Figure) -> bool {
        let mut figures = self.cases.iter().flat_map(|case| &case.figures).peekable();
        figures.peek().is_some() && figures.all(|compared| compared.figure != figure)
    }

    /// The cases without a verdict in one of these figures, or in their main figure if none is given.
    #[must_use]
    pub fn undecided(&self, figures: &[Figure]) -> Vec<&str> {
        let is_open = |case: &&ComparedCase| {
            let asked = |compared: &&ComparedFigure| figures.contains(&compared.figure);
            let mut of_case = match figures {
                [] => case.figures.iter().take(1).collect::<Vec<_>>(),
                _ => case.figures.iter().filter(asked).collect(),
            }
            .into_iter();
            let is_decided =
                |compared: &ComparedFigure| !matches!(compared.result.verdict, Verdict::NoVerdict { .. });
            // A candidate that failed is worse in everything, which is a verdict.
            case.candidate_status != Status::Failed && (of_case.len() == 0 || !of_case.all(is_decided))
        };
        self.cases.iter().filter(is_open).map(|case| case.name.as_str()).collect()
    }

    /// How many more trials would decide the main figure of every case; `None` if all of them are decided.
    #[must_use]
    pub fn more_trials(&self) -> Option<u32> {
        let main = self.cases.iter().filter_map(|case| case.figures.first());
        main.filter_map(|figure| match figure.result.verdict {
            Verdict::NoVerdict { more_trials } => Some(more_trials),
            Verdict::Faster | Verdict::Slower | Verdict::NoDifference => None,
        })
        .max()
    }
}

impl ComparedCase {
    fn of(baseline: &Case, candidate: &Case, design: Design) -> Self {
        let figures = Figure::COMPARED
            .iter()
            .filter_map(|figure| ComparedFigure::of(*figure, baseline, candidate, design));
        let searches = [baseline, candidate].map(|case| case.capacity.as_ref().map(RateRange::of));
        let mut compared = Self {
            name: baseline.name.clone(),
            baseline_status: baseline.status,
            candidate_status: candidate.status,
            searches: match searches {
                [None, None] => None,
                searches => Some(searches.map(Option::unwrap_or_default)),
            },
            other_cpu: OtherCpu::of(baseline, candidate),
            machine_in_doubt: false,
            figures: Vec::new(),
        };
        if compared.obstacle().is_none() {
            compared.figures = figures.collect();
        }
        // In alternating pairs, both sides suffer alike.
        let is_in_doubt = compared.other_cpu.as_ref().is_some_and(OtherCpu::is_in_doubt);
        if design == Design::Independent && is_in_doubt {
            compared.machine_in_doubt = true;
            for figure in &mut compared.figures {
                figure.result.verdict = Verdict::NoVerdict { more_trials: 0 };
            }
        }
        compared
    }

    /// Why its figures are not compared; `None` if they are.
    #[must_use]
    pub fn obstacle(&self) -> Option<String> {
        let statuses = [self.baseline_status, self.candidate_status];
        let found =
            ["baseline", "candidate"].into_iter().zip(statuses).filter_map(|(side, status)| match status {
                Status::Passed | Status::Incomplete => None,
                Status::Failed => Some(format!("the {side} failed")),
                Status::Invalid => Some(format!("the {side} is invalid")),
                Status::Skipped => Some(format!("the {side} was skipped")),
            });
        let found: Vec<String> = found.collect();
        if !found.is_empty() {
            return Some(found.join(", "));
        }
        let [baseline, candidate] = self.searches?;
        Some(format!(
            "a search is one observation each; the baseline sustains {baseline}, the candidate {candidate}"
        ))
    }
}

impl RateRange {
    fn of(capacity: &Capacity) -> Self {
        Self {
            highest_passed_per_s: capacity.highest_passed_per_s,
            lowest_failed_per_s: capacity.lowest_failed_per_s,
        }
    }
}

impl fmt::Display for RateRange {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let rate = figure::rate;
        match (self.highest_passed_per_s, self.lowest_failed_per_s) {
            (Some(passed), Some(failed)) => {
                write!(formatter, "{} to {}/s", rate(passed), rate(failed))
            }
            (Some(passed), None) => write!(formatter, "at least {}/s", rate(passed)),
            (None, Some(failed)) => write!(formatter, "less than {}/s", rate(failed)),
            (None, None) => formatter.write_str("an unknown rate"),
        }
    }
}

impl ComparedFigure {
    /// `None` where a trial of either side lacks the figure, or has none above zero: there is no ratio then. Nor are
    /// latencies compared where the load keeps the pipeline busy: there they are the time that events wait for their
    /// turn, which differs from run to run by more than builds do.
    fn of(figure: Figure, baseline: &Case, candidate: &Case, design: Design) -> Option<Self> {
        let is_latency = figure.definition().quantity == Quantity::Microseconds;
        if is_latency && [baseline, candidate].into_iter().any(is_kept_busy) {
            return None;
        }
        let (mut before, mut after) = (figure.of_trials(baseline)?, figure.of_trials(candidate)?);
        if design == Design::Paired {
            // An interruption may have cost one side its last trial.
            let pairs = before.len().min(after.len());
            before.truncate(pairs);
            after.truncate(pairs);
        }
        let question = Question { better: figure.definition().better, ..Question::of_throughput(design) };
        let result = match statistics::compare(&before, &after, &question) {
            Ok(result) => result,
            Err(
                NotComparable::NoTrials | NotComparable::NotPositive { .. } | NotComparable::Unpaired { .. },
            ) => return None,
        };
        Some(Self { figure, baseline: Summary::of(before)?, candidate: Summary::of(after)?, result })
    }
}

/// Whether the load of a case is as much as the pipeline takes.
fn is_kept_busy(case: &Case) -> bool {
    case.shape().always_offers_more()
}

/// The cases of both, by name, in the baseline's order.
fn common_cases<'a>(
    baseline: &'a Results,
    candidate: &'a Results,
) -> impl Iterator<Item = (&'a Case, &'a Case)> {
    baseline.cases.iter().filter_map(|before| {
        let after = candidate.cases.iter().find(|after| after.name == before.name)?;
        Some((before, after))
    })
}

#[cfg(test)]
mod tests;
