//! Whether two runs were made under the same conditions.
//!
//! What must be the same: the machine, what bounded it, the target, the seed, the cases, their parameters and the
//! limits of the measured role. What may differ, since it is what is compared: version and build. The number of trials
//! may, too, since more of them may be needed for a verdict. When each ran, and how busy the machine was then, does not
//! count: a design with pairs is the answer to drift.

use std::collections::BTreeSet;
use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::common_cases;
use crate::results::{Case, Limit, Results};

/// Something that is not the same on both sides.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Difference {
    /// What: `processor`, `fan_out=32: relay.batch.events`.
    pub what: String,
    /// The baseline's.
    pub baseline: String,
    /// The candidate's.
    pub candidate: String,
}

impl fmt::Display for Difference {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { what, baseline, candidate } = self;
        write!(formatter, "{what}: {baseline} and {candidate}")
    }
}

/// All differences of condition between the two; empty if they may be compared.
#[must_use]
pub fn differences(baseline: &Results, candidate: &Results) -> Vec<Difference> {
    let mut found = Differences(Vec::new());
    let (before, after) = (&baseline.environment, &candidate.environment);
    found.note("processor", &before.cpu_model, &after.cpu_model);
    found.note("cores", &before.cores, &after.cores);
    found.note("memory in bytes", &before.memory_bytes, &after.memory_bytes);
    found.note("system", &before.kernel, &after.kernel);
    found.note("target", &before.target, &after.target);
    found.note("seed", &before.seed, &after.seed);
    let text = |text: &Option<String>| text.clone().unwrap_or_else(|| UNKNOWN.to_owned());
    found.note("huge pages", &text(&before.huge_pages), &text(&after.huge_pages));
    found.note("clock source", &text(&before.clock_source), &text(&after.clock_source));
    found.note("limits of the whole run", &format!("{:?}", before.limits), &format!("{:?}", after.limits));
    found.note("cases", &names(baseline), &names(candidate));
    for (before, after) in common_cases(baseline, candidate) {
        found.note_case(before, after);
    }
    found.0
}

struct Differences(Vec<Difference>);

impl Differences {
    fn note<T: PartialEq + fmt::Display>(&mut self, what: impl Into<String>, baseline: &T, candidate: &T) {
        if baseline != candidate {
            self.0.push(Difference {
                what: what.into(),
                baseline: baseline.to_string(),
                candidate: candidate.to_string(),
            });
        }
    }

    fn note_case(&mut self, before: &Case, after: &Case) {
        let paths: BTreeSet<&String> = before.params.keys().chain(after.params.keys()).collect();
        for path in paths.into_iter().filter(|path| *path != TRIALS) {
            let value = |case: &Case| {
                let value = case.params.get(path);
                value.map_or_else(|| UNKNOWN.to_owned(), ToString::to_string)
            };
            let what = format!("{}: {path}", before.name);
            self.note(what, &value(before), &value(after));
        }
        let (before_limit, after_limit) = (limit(before), limit(after));
        if let (Some(before_limit), Some(after_limit)) = (before_limit, after_limit) {
            let what = format!("{}: limits of the {}", before.name, before.measured_role);
            self.note(what, &bounds(before_limit), &bounds(after_limit));
        }
    }
}

/// The limits of the measured role in the first trial; those of the others are the same.
fn limit(case: &Case) -> Option<&Limit> {
    let trial = case.trials.first()?;
    trial.roles.get(&case.measured_role)?.limit.as_ref()
}

fn bounds(limit: &Limit) -> String {
    let number = |number: Option<String>| number.unwrap_or_else(|| "all".to_owned());
    format!(
        "{} cores and {} bytes of memory by {}",
        number(limit.cores.map(|cores| cores.to_string())),
        number(limit.memory_bytes.map(|bytes| bytes.to_string())),
        limit.mechanism
    )
}

fn names(results: &Results) -> String {
    let names: Vec<&str> = results.cases.iter().map(|case| &*case.name).collect();
    names.join(", ")
}

/// The one parameter of a case that says nothing about its trials.
const TRIALS: &str = "trials";
const UNKNOWN: &str = "unknown";
