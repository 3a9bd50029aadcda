//! Systems beside one another: which one a case measures, and ours over it where both were measured in one run. A system is what
//! takes the place of our relay, or the client that takes the place of our producer.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Case, Figure, Summary};

/// The system that a case measures in the relay's place.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct MeasuredSystem {
    /// Its name in the scenario.
    #[schemars(length(min = 1))]
    pub name: String,
    /// Whether it is our relay, over another transport than usual.
    pub ours: bool,
    /// How it reached the service: `tcp`, `tls`, `web-socket` or `web-socket-tls` over AMQP, `kafka` or `kafka-tls`. Where its ends
    /// differ, `kafka to tcp` and the like.
    #[schemars(extend("pattern" = "^(tcp|tls|web-socket|web-socket-tls|kafka|kafka-tls)( to (tcp|tls|web-socket|web-socket-tls|kafka|kafka-tls))*$"))]
    pub transport: String,
}

/// Our relay over another system, or our producer over that of others: both were measured in one run, with the same load, hubs,
/// limits and transport.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ParshallRatio {
    /// The case of our relay, or of our producer.
    #[schemars(length(min = 1))]
    pub case: String,
    /// Its received events per second over the other's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0.0))]
    pub received: Option<f64>,
    /// Its forwarded events per second over the other's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0.0))]
    pub forwarded: Option<f64>,
    /// The least and the most of that ratio over their trials.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub forwarded_range: Option<RatioRange>,
    /// The events per second that it got acknowledged over the other's, where producers are measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0.0))]
    pub produced: Option<f64>,
    /// The least and the most of that ratio over their trials.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub produced_range: Option<RatioRange>,
    /// Its peak memory over the other's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0.0))]
    pub memory_peak: Option<f64>,
}

/// The ends of a ratio between the trials of two cases.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RatioRange {
    /// The lowest over the highest.
    #[schemars(range(min = 0.0))]
    pub low: f64,
    /// The highest over the lowest.
    #[schemars(range(min = 0.0))]
    pub high: f64,
}

/// Sets the ratios of all cases anew. A case of another system is compared with that of our relay in the same sweep
/// whose transport is the same and whose name differs in nothing but the system; so is one of another producer with ours.
pub(super) fn relate(cases: &mut [Case]) {
    let ratios: Vec<Option<ParshallRatio>> = cases
        .iter()
        .map(|case| {
            let ours = cases.iter().find(|other| is_our_side_of(other, case))?;
            let of_producer = case.shape().producer.is_some();
            let ratio = |figure: fn(&Case) -> Option<Summary>| {
                let (over, under) = (figure(ours)?.median, figure(case)?.median);
                (under > 0.0).then(|| over / under)
            };
            let range = |figure: Figure| {
                let (over, under) = (figure.summary(ours)?, figure.summary(case)?);
                let has_range = under.min > 0.0 && ours.trials.len() > 1 && case.trials.len() > 1;
                has_range.then(|| RatioRange { low: over.min / under.max, high: over.max / under.min })
            };
            let ratio = ParshallRatio {
                case: ours.name.clone(),
                received: ratio(|case| case.received_per_s),
                forwarded: ratio(|case| case.forwarded_per_s),
                forwarded_range: range(Figure::ForwardedPerS),
                produced: ratio(|case| case.produced_per_s).filter(|_| of_producer),
                produced_range: range(Figure::ProducedPerS).filter(|_| of_producer),
                memory_peak: ratio(|case| case.memory_peak_bytes),
            };
            let is_known = [ratio.received, ratio.forwarded, ratio.produced].iter().any(Option::is_some);
            is_known.then_some(ratio)
        })
        .collect();
    for (case, ratio) in cases.iter_mut().zip(ratios) {
        case.parshall_ratio = ratio;
    }
}

fn is_our_side_of(other: &Case, case: &Case) -> bool {
    if is_of_others(case) {
        let shape = other.shape();
        let is_ours = shape.producer.as_ref().is_some_and(|producer| producer.client.is_none());
        let is_alike = without(CLIENT_AXIS, &other.name) == without(CLIENT_AXIS, &case.name);
        return is_ours && other.sweep == case.sweep && is_alike;
    }
    let Some(system) = case.system.as_ref().filter(|system| !system.ours) else {
        return false;
    };
    let (is_ours, transport) = match &other.system {
        None => (true, PLAIN),
        Some(system) => (system.ours, system.transport.as_str()),
    };
    is_ours
        && transport == system.transport
        && other.sweep == case.sweep
        && without_system(&other.name) == without_system(&case.name)
}

/// Whether the producer of a case is not ours.
fn is_of_others(case: &Case) -> bool {
    case.shape().producer.as_ref().is_some_and(|producer| producer.client.is_some())
}

/// What a case's name says beside the system: `fan_out=32` of `sut=mine,fan_out=32`.
pub(crate) fn without_system(name: &str) -> Vec<&str> {
    without(AXIS, name)
}

fn without<'a>(axis: &str, name: &'a str) -> Vec<&'a str> {
    name.split(',').filter(|part| !part.starts_with(axis)).collect()
}

const AXIS: &str = "sut=";

/// The axis of producers.
const CLIENT_AXIS: &str = "client=";

/// The transport of a case that says nothing of its system.
const PLAIN: &str = "tcp";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::sample;
    use crate::results::{ProducerShape, Shape};

    fn case(name: &str, system: Option<(&str, bool, &str)>, forwarded: f64, memory: f64) -> Case {
        let system = system.map(|(name, ours, transport)| MeasuredSystem {
            name: name.to_owned(),
            ours,
            transport: transport.to_owned(),
        });
        Case {
            name: name.to_owned(),
            sweep: Some("sut".to_owned()),
            system,
            received_per_s: None,
            forwarded_per_s: Some(Summary::of_one(forwarded)),
            memory_peak_bytes: Some(Summary::of_one(memory)),
            ..sample::complete().cases.swap_remove(0)
        }
    }

    #[test]
    fn another_system_is_held_against_our_relay_over_the_same_transport() {
        let mut cases = [
            case("sut=parshall", None, 1_000.0, 10.0),
            case("sut=parshall-tls", Some(("parshall-tls", true, "tls")), 600.0, 12.0),
            case("sut=java", Some(("java", false, "tls")), 20.0, 96.0),
            case("sut=rust", Some(("rust", false, "tcp")), 100.0, 20.0),
        ];
        relate(&mut cases);
        let of = |case: &Case| {
            let ratio = case.parshall_ratio.clone()?;
            Some((ratio.case, ratio.forwarded?, ratio.memory_peak?, ratio.received))
        };
        assert_eq!((of(&cases[0]), of(&cases[1])), (None, None));
        assert_eq!(of(&cases[2]), Some(("sut=parshall-tls".to_owned(), 30.0, 0.125, None)));
        assert_eq!(of(&cases[3]), Some(("sut=parshall".to_owned(), 10.0, 0.5, None)));
    }

    #[test]
    fn another_producer_is_held_against_ours_that_sends_in_the_same_way() {
        let producing = |name: &str, client: Option<&str>, per_s: f64| {
            let producer = ProducerShape { client: client.map(str::to_owned), ..ProducerShape::default() };
            Case {
                shape: Some(Shape { producer: Some(producer), pipeline: None, ..Shape::default() }),
                produced_per_s: Some(Summary::of_one(per_s)),
                forwarded_per_s: None,
                ..case(name, None, 0.0, 10.0)
            }
        };
        let mut cases = [
            producing("way=pooled,client=native", None, 400_000.0),
            producing("way=pooled,client=java", Some("java"), 16_000.0),
            producing("way=isolated,client=java", Some("java"), 100.0),
        ];
        relate(&mut cases);
        let ratio = cases[1].parshall_ratio.as_ref().expect("ours is there");
        assert_eq!((ratio.case.as_str(), ratio.produced), ("way=pooled,client=native", Some(25.0)));
        assert!(cases[0].parshall_ratio.is_none() && cases[2].parshall_ratio.is_none());
    }

    #[test]
    fn cases_that_differ_in_more_than_the_system_are_not_compared() {
        let java = || Some(("java", false, "tcp"));
        let mut cases = [
            case("sut=parshall,fan_out=1", None, 1_000.0, 10.0),
            case("sut=java,fan_out=1", java(), 10.0, 10.0),
            case("sut=java,fan_out=32", java(), 10.0, 10.0),
            case("sut=java,fan_out=1", Some(("java", false, "tls")), 10.0, 10.0),
        ];
        relate(&mut cases);
        let has_ratio = cases.each_ref().map(|case| case.parshall_ratio.is_some());
        assert_eq!(has_ratio, [false, true, false, false]);
    }
}
