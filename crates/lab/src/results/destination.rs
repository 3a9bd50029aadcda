//! The figures of single destinations, where every event goes to several.
//!
//! Each destination has a sink of its own, and so a verdict of its own. The other figures of a trial or case are of its
//! first destination, except what the pipeline itself counts.

use std::collections::{BTreeMap, BTreeSet};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Delivery, LatencyDistribution, LatencySummary, Summary, Trial};

/// What the sink of one destination saw in a trial.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Destination {
    /// Different events that its sink received per second.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0.0))]
    pub consumed_per_s: Option<f64>,
    /// End to end, from each event's intended instant to its sink.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub latency_us: Option<LatencySummary>,
    /// What became of the events there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delivery: Option<Delivery>,
}

/// The same over the trials of a case.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct DestinationSummary {
    /// Different events that its sink received per second.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub consumed_per_s: Option<Summary>,
    /// End to end, over all trials.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub latency_us: Option<LatencySummary>,
    /// What became of the events there, over all trials.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delivery: Option<Delivery>,
}

impl DestinationSummary {
    /// The destinations of a case: their trials, and the latencies that were recorded in all of them.
    pub(super) fn of_trials(
        trials: &[&Trial],
        latencies: &BTreeMap<String, LatencyDistribution>,
    ) -> BTreeMap<String, Self> {
        let names: BTreeSet<&String> = trials.iter().flat_map(|trial| trial.destinations.keys()).collect();
        let summary = |name: &String| {
            let of_trials = || trials.iter().filter_map(|trial| trial.destinations.get(name));
            Self {
                consumed_per_s: Summary::of(of_trials().filter_map(|trial| trial.consumed_per_s)),
                latency_us: latencies.get(name).and_then(LatencyDistribution::summary),
                delivery: Delivery::sum(of_trials().filter_map(|trial| trial.delivery.as_ref())),
            }
        };
        names.into_iter().map(|name| (name.clone(), summary(name))).collect()
    }
}

impl Trial {
    /// What became of the events: at every destination, by its name, or at the only one, without.
    pub fn deliveries(&self) -> impl Iterator<Item = (Option<&str>, &Delivery)> {
        let only = self.delivery.as_ref().filter(|_| self.destinations.is_empty());
        let each = self.destinations.iter();
        let each = each.filter_map(|(name, figures)| Some((Some(name.as_str()), figures.delivery.as_ref()?)));
        only.map(|delivery| (None, delivery)).into_iter().chain(each)
    }
}
