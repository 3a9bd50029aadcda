//! What a handful of trials proves: intervals, differences, and where there is no verdict.
//!
//! A case has 3 to 20 trials. That is too few to trust a normal distribution, and throughput under a scheduler is
//! rarely normal. Everything here therefore works with ranks:
//!
//! * [`median_interval`]: the interval of a median from order statistics. It assumes nothing but independent trials.
//! * [`compare`]: the difference of two builds as the Hodges–Lehmann shift of the logarithms, that is, as a ratio, with
//!   the interval that inverts the exact Wilcoxon test: of rank sums for trials that have no partners
//!   ([`Design::Independent`]), of signed ranks for trials that ran in pairs ([`Design::Paired`]).
//! * [`quantile_ranks`]: between which ranks of an independent sample the true percentile lies.
//! * [`quantile_shares`]: the same for samples that are not independent, such as the latencies of neighbouring events.
//! * [`Trend`]: whether readings over time grow, such as the lag of a relay; the one place that trusts a straight line.
//!
//! **What is assumed.** Trials are independent of one another. Independent trials of two builds have distributions of
//! one shape, shifted; pairs have differences that are symmetric, which holds by construction when the order within a
//! pair is random or alternates and the builds are equal. One outlier in either sample moves an interval by a rank, not
//! to infinity. Drift of the machine breaks the first assumption: interleave the builds and compare in pairs.
//!
//! **What few trials cannot give is not given.** The most that three and three trials can prove has an error of one in
//! ten, so at 95 % there is no interval and no verdict, only the number of trials that are missing. Since ranks come in
//! steps, the confidence that an interval states is the one it has, never below the one that was asked for.
//!
//! **Repeated looks.** The error holds for a number of trials that was fixed beforehand. Who adds trials until a
//! verdict falls gives chance several tries: take the number that [`Verdict::NoVerdict`] asks for in one go.

mod blocks;
mod compare;
mod order;
mod ranks;
mod trend;

pub use blocks::{Block, LEAST_BLOCKS, quantile_shares};
pub use compare::{
    Better, Comparison, Design, MOST_MORE_TRIALS, MOST_RANKED_TRIALS, NotComparable, Question, Verdict,
    compare,
};
pub use order::{Ranks, median_interval, quantile_ranks, trials_for_median_interval};
pub use trend::{LEAST_READINGS, TREND_CONFIDENCE, Trend};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A closed interval that covers the true value with a stated probability.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Interval {
    /// Its lower end.
    pub low: f64,
    /// Its upper end.
    pub high: f64,
    /// The probability with which such intervals cover the true value: at least what was asked for.
    #[schemars(range(min = 0.0, max = 1.0))]
    pub confidence: f64,
}

impl Interval {
    /// Whether `value` lies in it, ends included.
    #[must_use]
    pub fn contains(&self, value: f64) -> bool {
        (self.low..=self.high).contains(&value)
    }

    /// Half its length.
    #[must_use]
    pub fn half_width(&self) -> f64 {
        (self.high - self.low) / 2.0
    }
}

/// The confidence of all intervals in results and reports.
pub const CONFIDENCE: f64 = 0.95;

/// The smallest difference that the lab calls one, in percent, unless the user says otherwise: what layout of code and
/// memory alone can do to equal programs.
pub const FLOOR_PERCENT: f64 = 2.0;
