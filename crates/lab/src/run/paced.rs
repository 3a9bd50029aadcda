//! The trial at a share of the rate that the trials before it found, for its latency.

use std::time::Duration;

use units::Rate;

use crate::{
    results,
    scenario::{Case, LoadMode, Parameters, Percent},
};

/// A trial that is still to be run.
pub(super) struct PacedTrial {
    pub(super) share: Percent,
    /// In events per second.
    pub(super) rate: f64,
    pub(super) parameters: Parameters,
}

impl PacedTrial {
    /// The trial that `case` asks for, at a share of what its trials came to. None where they came to nothing.
    pub(super) fn after(case: &Case, trials: &results::Case) -> Option<Self> {
        let share = case.parameters.load.latency_at?;
        let is_sought = trials.passed && trials.shape().always_offers_more();
        let rate = trials.throughput().filter(|_| is_sought)?.median * share.share();
        let offered = Rate::per_second(rate).ok()?;
        let mut parameters = case.parameters.clone();
        // The log is as large as before, and its memory as ready.
        parameters.embedded.log_per_hub = Some(case.parameters.log_per_hub());
        parameters.embedded.preallocate = case.parameters.preallocates();
        parameters.load.mode = LoadMode::Open;
        parameters.load.rate = Some(offered);
        // Each failure rests a partition for seconds: the percentiles would be those of the dice.
        parameters.relay.failure_ratio = 0.0;
        parameters.phases.measure = parameters.phases.measure.min(LONGEST);
        Some(Self { share, rate, parameters })
    }
}

/// Enough for a p99.9 at any rate worth measuring.
const LONGEST: Duration = Duration::from_secs(10);
