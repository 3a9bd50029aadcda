//! What calls with a connection of their own consist of.
//!
//! Means alone: the mean of a sum is the sum of the means, so that the parts add up to the mean of the call, which percentiles
//! never do. A call is measured by its caller, from handing the event over to seeing the answer, and its stages by the
//! producer. What is left between the two is the caller's turn: others were worked on in its thread.

use std::collections::BTreeMap;

use connect::producer::{Stage as Part, Stages};
use serde::{Deserialize, Serialize};

use crate::results::{Mean, Stage};

/// Sums over the calls of the measured phase that were answered.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct IsolatedCalls {
    /// How many they are.
    pub calls: u64,
    /// From the hand-over to the answer, in microseconds.
    pub total_us: u64,
    /// Each part in its order, in nanoseconds: some take less than a microsecond.
    pub parts_ns: [u64; Part::ALL.len()],
}

impl IsolatedCalls {
    /// One more call, which took `total_us` for its caller.
    pub fn note(&mut self, stages: &Stages, total_us: u64) {
        self.calls += 1;
        self.total_us = self.total_us.saturating_add(total_us);
        for (sum, part) in self.parts_ns.iter_mut().zip(Part::ALL) {
            let nanoseconds = u64::try_from(stages.of(part).as_nanos()).unwrap_or(u64::MAX);
            *sum = sum.saturating_add(nanoseconds);
        }
    }

    /// The mean of each part that took any time, and of what is left of the call.
    #[must_use]
    pub fn means(&self) -> BTreeMap<Stage, Mean> {
        let parts = self.parts_ns.iter().map(|nanoseconds| nanoseconds / 1_000);
        let within: u64 = parts.clone().sum();
        let turn = (Stage::Turn, self.total_us.saturating_sub(within));
        let parts = Part::ALL.map(stage_of).into_iter().zip(parts);
        parts
            .chain([turn])
            .filter(|(_, total_us)| *total_us > 0)
            .map(|(stage, total_us)| (stage, Mean { records: self.calls, total_us }))
            .collect()
    }
}

impl std::ops::AddAssign for IsolatedCalls {
    fn add_assign(&mut self, other: Self) {
        self.calls += other.calls;
        self.total_us = self.total_us.saturating_add(other.total_us);
        for (sum, part) in self.parts_ns.iter_mut().zip(other.parts_ns) {
            *sum = sum.saturating_add(part);
        }
    }
}

/// What the results call a part.
const fn stage_of(part: Part) -> Stage {
    match part {
        Part::Connect => Stage::Connect,
        Part::Tls => Stage::Tls,
        Part::Sasl => Stage::Sasl,
        Part::Open => Stage::Open,
        Part::Claims => Stage::Claims,
        Part::Attach => Stage::Attach,
        Part::Send => Stage::Send,
        Part::Close => Stage::Close,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_means_of_the_parts_and_the_turn_add_up_to_that_of_the_call() {
        let mut parts_ns = [0; Part::ALL.len()];
        parts_ns[Part::Connect as usize] = 300_000;
        parts_ns[Part::Send as usize] = 500_000;
        let mut calls = IsolatedCalls { calls: 3, total_us: 1_100, parts_ns };
        calls += IsolatedCalls { calls: 1, total_us: 100, parts_ns: [0; Part::ALL.len()] };
        let means = calls.means();
        let mean = |stage: Stage| means.get(&stage).and_then(|mean| mean.mean_us());
        assert_eq!(mean(Stage::Connect), Some(75.0));
        assert_eq!(mean(Stage::Send), Some(125.0));
        assert_eq!(mean(Stage::Turn), Some(100.0));
        assert_eq!(mean(Stage::Tls), None, "it had none");
        let sum: f64 = Stage::OF_ISOLATED_CALL.into_iter().filter_map(mean).sum();
        assert!((sum - 300.0).abs() < 1e-9, "{sum}");
    }

    #[test]
    fn a_call_is_noted_with_all_of_its_parts() {
        let mut calls = IsolatedCalls::default();
        calls.note(&Stages::default(), 7);
        assert_eq!((calls.calls, calls.total_us), (1, 7));
        assert_eq!(calls.means(), BTreeMap::from([(Stage::Turn, Mean { records: 1, total_us: 7 })]));
        assert_eq!(IsolatedCalls::default().means(), BTreeMap::new());
    }
}
