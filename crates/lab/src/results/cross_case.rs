//! What cases show only beside one another: findings about a sweep.
//!
//! A finding of a case is about that case alone. Where several cases of a sweep have one for the same reason, or where
//! the reason shows in the difference of two of them, one sentence about the sweep says more than one for each case.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Case, FindingKind, Severity};
use crate::studies;

/// One remark about several cases of a sweep.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CrossCaseFinding {
    /// What it means for the verdict.
    pub severity: Severity,
    /// The class of the finding, for programs. Reports show it in place of those of its cases of the same class.
    pub kind: FindingKind,
    /// The sweep that the cases are points of.
    pub sweep: String,
    /// The names of the cases.
    pub cases: Vec<String>,
    /// One sentence with the figures, for people.
    pub message: String,
    /// What the reader can do.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
}

/// The findings about each sweep, in the order of the cases.
pub(super) fn findings(cases: &[Case]) -> Vec<CrossCaseFinding> {
    let mut sweeps: Vec<(&str, Vec<&Case>)> = Vec::new();
    for case in cases {
        let Some(name) = case.sweep.as_deref() else {
            continue;
        };
        match sweeps.iter_mut().find(|(known, _)| *known == name) {
            Some((_, cases)) => cases.push(case),
            None => sweeps.push((name, vec![case])),
        }
    }
    let of_sweep = |(name, cases): (&str, Vec<&Case>)| {
        let first = cases.first().map(|case| case.shape().into_owned()).unwrap_or_default();
        studies::of(&first).flat_map(|study| study.cross_case(name, &cases)).collect::<Vec<_>>()
    };
    sweeps.into_iter().flat_map(of_sweep).collect()
}
