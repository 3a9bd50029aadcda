//! What a million events cost: in resources always, in money where the run was given prices.
//!
//! Resources are those of the measured phase, as medians over the trials. Memory is bought for the peak, so the peak counts for
//! all of the time that a million events take. What a cloud service bills is derived from the counters of the service that
//! the lab started, if it has any.

use std::collections::BTreeMap;

use hub::profile::{ProfileConfig, QuotaConfig};
use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize, de};

use super::{Case, EntityCounters, Figure, Role, Summary, Trial};
use crate::schema::by_name;

/// Prices, each without a default: they differ by provider, region and contract.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Prices {
    /// The currency of all prices, such as `EUR`.
    #[schemars(length(min = 1, max = 16))]
    #[serde(deserialize_with = "currency")]
    pub currency: String,
    /// A core (vCPU) for an hour.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "price")]
    #[schemars(range(min = 0.0))]
    pub core_hour: Option<f64>,
    /// 1 GiB of memory for an hour.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "price")]
    #[schemars(range(min = 0.0))]
    pub gib_hour: Option<f64>,
    /// A throughput unit of Event Hubs for an hour.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "price")]
    #[schemars(range(min = 0.0))]
    pub throughput_unit_hour: Option<f64>,
    /// A million operations of the service.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "price")]
    #[schemars(range(min = 0.0))]
    pub million_operations: Option<f64>,
}

/// What a million events of a case cost.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Cost {
    /// What the processes of each role use.
    #[schemars(schema_with = "by_name::<Role, RoleCost>")]
    pub roles: BTreeMap<Role, RoleCost>,
    /// What a cloud service would bill; absent where the service reports no counters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub service: Option<ServiceCost>,
    /// The price of the measured role and of what the service bills. Load and sink are part of the measurement and not of
    /// the pipeline. Absent without prices.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0.0))]
    pub total: Option<f64>,
}

/// What one role uses for a million events.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RoleCost {
    /// CPU time in seconds.
    #[schemars(range(min = 0.0))]
    pub core_seconds: f64,
    /// The peak of its memory in GiB, times the seconds that a million events take.
    #[schemars(range(min = 0.0))]
    pub gib_seconds: f64,
    /// Both in money; absent without a price for either.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0.0))]
    pub price: Option<f64>,
}

/// What a cloud service bills for a million events.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ServiceCost {
    /// Throughput units that the hubs need at the measured rate, in fractions, times the seconds that a million events take;
    /// absent without hubs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0.0))]
    pub throughput_unit_seconds: Option<f64>,
    /// Events that hubs accepted, and messages that queues accepted, delivered and completed.
    #[schemars(range(min = 0.0))]
    pub operations: f64,
    /// Both in money; absent without a price for either.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0.0))]
    pub price: Option<f64>,
}

impl Cost {
    /// What the trials of a case came to; `None` where nothing was carried.
    pub(super) fn of(case: &Case, prices: Option<&Prices>) -> Option<Self> {
        let roles: BTreeMap<Role, RoleCost> = Role::ALL
            .into_iter()
            .filter_map(|role| Some((role, RoleCost::of(case, role, prices)?)))
            .collect();
        let service = ServiceCost::of(case, prices);
        let measured = roles.get(&case.measured_role)?.price;
        let total = sum([measured, service.and_then(|service| service.price)]);
        Some(Self { roles, service, total })
    }
}

impl RoleCost {
    fn of(case: &Case, role: Role, prices: Option<&Prices>) -> Option<Self> {
        let median = |figure: &dyn Fn(&Trial) -> Option<f64>| -> Option<f64> {
            Some(Summary::of(case.completed_trials().filter_map(figure))?.median)
        };
        let core_seconds = median(&|trial| Some(trial.roles.get(&role)?.per_million_events?.cpu_seconds))?;
        let gib_seconds = median(&|trial| {
            let peak = trial.roles.get(&role)?.memory_peak_bytes as f64 / GIB;
            Some(peak * seconds_per_million(case, trial)?)
        })?;
        let price = sum([
            prices.and_then(|prices| Some(prices.core_hour? * core_seconds / HOUR)),
            prices.and_then(|prices| Some(prices.gib_hour? * gib_seconds / HOUR)),
        ]);
        Some(Self { core_seconds, gib_seconds, price })
    }
}

impl ServiceCost {
    fn of(case: &Case, prices: Option<&Prices>) -> Option<Self> {
        let costs: Vec<(Option<f64>, f64)> = case
            .completed_trials()
            .filter_map(|trial| billed(trial, seconds_per_million(case, trial)?))
            .collect();
        let operations = Summary::of(costs.iter().map(|(_, operations)| *operations))?.median;
        let units = Summary::of(costs.iter().filter_map(|(units, _)| *units));
        let throughput_unit_seconds = units.map(|units| units.median);
        let price = sum([
            prices.and_then(|prices| Some(prices.throughput_unit_hour? * throughput_unit_seconds? / HOUR)),
            prices.and_then(|prices| Some(prices.million_operations? * operations / MILLION)),
        ]);
        Some(Self { throughput_unit_seconds, operations, price })
    }
}

/// Throughput unit-seconds and operations of a million events in a trial.
fn billed(trial: &Trial, seconds_per_million: f64) -> Option<(Option<f64>, f64)> {
    if trial.hub.is_empty() || trial.duration_s <= 0.0 {
        return None;
    }
    // Of the entities of the service only queues and subscriptions settle.
    let (queues, hubs): (Vec<_>, Vec<_>) = trial.hub.values().partition(|entity| entity.completed.is_some());
    let per_s = |figure: &dyn Fn(&EntityCounters) -> u64| {
        hubs.iter().copied().map(figure).sum::<u64>() as f64 / trial.duration_s
    };
    let one_unit = ProfileConfig { throughput_units: Some(1), ..ProfileConfig::default() };
    let QuotaConfig { ingress_bytes_per_s, ingress_events_per_s, egress_bytes_per_s, egress_events_per_s } =
        one_unit.effective_quota().ok()?;
    let shares = [
        (per_s(&|hub| hub.incoming_bytes.unwrap_or(0)), ingress_bytes_per_s.map(|bytes| bytes.bytes())),
        (per_s(&|hub| hub.incoming_events), ingress_events_per_s.map(u64::from)),
        (per_s(&|hub| hub.outgoing_bytes.unwrap_or(0)), egress_bytes_per_s.map(|bytes| bytes.bytes())),
        (per_s(&|hub| hub.outgoing_events), egress_events_per_s.map(u64::from)),
    ];
    let units = shares.into_iter().filter_map(|(used, unit)| Some(used / unit? as f64)).fold(0.0, f64::max);
    let accepted: u64 = hubs.iter().map(|hub| hub.incoming_events).sum();
    let handled = queues
        .iter()
        .map(|queue| queue.incoming_events + queue.outgoing_events + queue.completed.unwrap_or(0));
    let operations = (accepted + handled.sum::<u64>()) as f64 / trial.duration_s * seconds_per_million;
    Some(((!hubs.is_empty()).then_some(units * seconds_per_million), operations))
}

/// How long a million events take at the rate of a trial.
fn seconds_per_million(case: &Case, trial: &Trial) -> Option<f64> {
    let rate = Figure::THROUGHPUT.into_iter().find_map(|figure| figure.of_trial(case, trial))?;
    (rate > 0.0).then_some(MILLION / rate)
}

/// What is known, together; `None` where nothing is.
fn sum(parts: [Option<f64>; 2]) -> Option<f64> {
    parts.into_iter().flatten().reduce(|sum, part| sum + part)
}

fn price<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<f64>, D::Error> {
    let price = f64::deserialize(deserializer)?;
    match price.is_finite() && price >= 0.0 {
        true => Ok(Some(price)),
        false => Err(de::Error::custom("a price is a number from 0 on")),
    }
}

fn currency<'de, D: Deserializer<'de>>(deserializer: D) -> Result<String, D::Error> {
    let text = String::deserialize(deserializer)?;
    match text.is_empty() || text.len() > 16 || text.chars().any(char::is_control) {
        false => Ok(text),
        true => Err(de::Error::custom("a currency is a short name, such as `EUR`")),
    }
}

const MILLION: f64 = 1e6;
const HOUR: f64 = 3600.0;
const GIB: f64 = (1_u64 << 30) as f64;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::sample;

    fn prices() -> Prices {
        Prices {
            currency: "EUR".to_owned(),
            core_hour: Some(36.0),
            gib_hour: Some(3.6),
            throughput_unit_hour: Some(0.036),
            million_operations: Some(0.5),
        }
    }

    fn case() -> Case {
        let mut case = sample::complete().cases.remove(0);
        case.trials.truncate(1);
        let trial = &mut case.trials[0];
        (trial.forwarded_per_s, trial.duration_s) = (Some(100_000.0), 10.0);
        let usage = trial.roles.get_mut(&Role::Relay).expect("a relay");
        usage.memory_peak_bytes = 1 << 29;
        usage.per_million_events.as_mut().expect("known").cpu_seconds = 2.5;
        let hub = EntityCounters {
            incoming_events: 1_000_000,
            incoming_bytes: Some(100_000_000),
            outgoing_events: 1_000_000,
            outgoing_bytes: Some(100_000_000),
            ..EntityCounters::default()
        };
        trial.hub = [("in".to_owned(), hub), ("out".to_owned(), hub)].into();
        case
    }

    #[test]
    fn a_million_events_cost_what_they_use_times_its_price() {
        let cost = Cost::of(&case(), Some(&prices())).expect("a cost");
        let relay = cost.roles[&Role::Relay];
        // 100,000 events/s: a million takes 10 s, in which half a GiB is held.
        assert_eq!((relay.core_seconds, relay.gib_seconds), (2.5, 5.0));
        assert!((relay.price.expect("priced") - (0.025 + 0.005)).abs() < 1e-12, "{relay:?}");
        // 200,000 events/s into both hubs: 200 units for 10 s, and 2 million operations.
        let service = cost.service.expect("counted");
        assert_eq!((service.throughput_unit_seconds, service.operations), (Some(2000.0), 2e6));
        assert!((service.price.expect("priced") - (0.02 + 1.0)).abs() < 1e-12, "{service:?}");
        assert!((cost.total.expect("priced") - 1.05).abs() < 1e-12, "load and sink cost nothing: {cost:?}");
    }

    #[test]
    fn queues_have_operations_and_no_throughput_units() {
        let mut case = case();
        let queue = EntityCounters {
            incoming_events: 1_000_000,
            outgoing_events: 1_000_500,
            completed: Some(1_000_000),
            ..EntityCounters::default()
        };
        case.trials[0].hub = [("jobs".to_owned(), queue)].into();
        let service = Cost::of(&case, None).and_then(|cost| cost.service).expect("counted");
        assert_eq!((service.throughput_unit_seconds, service.operations), (None, 3_000_500.0));
    }

    #[test]
    fn without_prices_there_is_no_money_and_without_counters_no_service() {
        let mut case = case();
        case.trials[0].hub.clear();
        let cost = Cost::of(&case, None).expect("a cost");
        assert_eq!((cost.total, cost.service, cost.roles[&Role::Relay].price), (None, None, None));
        let only_memory = Prices { core_hour: None, ..prices() };
        let cost = Cost::of(&case, Some(&only_memory)).expect("a cost");
        assert!((cost.total.expect("priced") - 0.005).abs() < 1e-12, "{cost:?}");
        case.trials[0].interrupted = true;
        assert_eq!(Cost::of(&case, None), None);
    }
}
