//! How a program gets events into a hub: what a connection for each event costs, and what bounds callers that wait for a timer.

use super::Study;
use crate::figure::{count, duration_us, rate, ratio};
use crate::results::{Case, CrossCaseFinding, Figure, FindingKind, ProducerShape, Severity, Shape};
use crate::scenario::{Buffering, Connections};

/// The study; for every case in which a producer sends.
#[derive(Debug, Clone, Copy)]
pub(super) struct Ingestion;

impl Study for Ingestion {
    fn is_about(&self, shape: &Shape) -> bool {
        shape.producer.is_some()
    }

    /// Those of the callers: when an event arrives is another matter.
    fn latencies(&self) -> Option<&'static [Figure]> {
        const LATENCIES: [Figure; 3] = [Figure::CallMean, Figure::CallP50, Figure::CallP99];
        Some(&LATENCIES)
    }

    fn cross_case(&self, sweep: &str, cases: &[&Case]) -> Vec<CrossCaseFinding> {
        let known: Vec<Way<'_>> = cases.iter().filter_map(|case| Way::of(case)).collect();
        let timer = known.iter().filter_map(|way| timer(sweep, way, &known));
        let connections = known.iter().filter_map(|way| connection(sweep, way, &known));
        timer.chain(connections).collect()
    }
}

/// A case by how it sends and what came of it.
#[derive(Debug, Clone)]
struct Way<'a> {
    case: &'a Case,
    producer: ProducerShape,
    per_s: f64,
    call_mean_us: f64,
    call_p99_us: f64,
}

impl<'a> Way<'a> {
    fn of(case: &'a Case) -> Option<Self> {
        Some(Self {
            case,
            producer: case.shape().producer.clone().filter(|_| case.passed)?,
            per_s: Figure::ProducedPerS.of_case(case)?,
            call_mean_us: Figure::CallMean.of_case(case)?,
            call_p99_us: Figure::CallP99.of_case(case)?,
        })
    }

    /// Whether both send the same over the same protocol.
    fn is_beside(&self, other: &Self) -> bool {
        let load = |way: &Self| (way.producer.callers, way.producer.batch);
        let protocol = |way: &Self| way.case.params.get("topology.load.protocol").cloned();
        load(self) == load(other) && protocol(self) == protocol(other)
    }
}

/// Callers that wait until a timer lets their batch leave can't send more often than that, whatever the service does. What it is
/// where batches leave when the one before was answered, stands beside it.
fn timer(sweep: &str, way: &Way<'_>, all: &[Way<'_>]) -> Option<CrossCaseFinding> {
    let delay_us = way.producer.delay_us.filter(|_| way.producer.buffering == Buffering::Safe)? as f64;
    let bound_per_s = way.producer.callers as f64 * way.producer.batch as f64 / (delay_us / 1e6);
    let share = way.per_s / bound_per_s;
    if !(BOUND_FROM..=1.0 + (1.0 - BOUND_FROM)).contains(&share) {
        return None;
    }
    let mut message = format!(
        "a timer is the bound: {} callers whose events wait for {} each send at most {} events/s by Little's law, whatever the \
         service does; {} measured",
        count(way.producer.callers),
        duration_us(delay_us),
        rate(bound_per_s),
        rate(way.per_s),
    );
    let published = way.case.published.as_ref().and_then(|published| published.get(Figure::ProducedPerS));
    if let Some(published) = published.filter(|published| *published <= bound_per_s) {
        message += &format!(", {} published", rate(published));
    }
    let is_adaptive = |other: &&Way<'_>| {
        other.producer.buffering == Buffering::Safe
            && other.producer.delay_us.is_none()
            && other.is_beside(way)
    };
    let adaptive = all.iter().find(is_adaptive);
    if let Some(adaptive) = adaptive {
        message += &format!(
            ". Batches that leave when the one before was answered carry {} as many, with the same guarantee, at a p99 of {} \
             instead of {}",
            ratio(adaptive.per_s / way.per_s),
            duration_us(adaptive.call_p99_us),
            duration_us(way.call_p99_us),
        );
    }
    let cases = [way].into_iter().chain(adaptive).map(|way| way.case.name.clone()).collect();
    Some(CrossCaseFinding {
        severity: Severity::Note,
        kind: FindingKind::LimitedByConcurrency,
        sweep: sweep.to_owned(),
        cases,
        message,
        hint: Some("shorten `topology.load.producer.delay`, or write `adaptive`".to_owned()),
    })
}

/// What a call takes with a connection of its own, beside one over a connection that is kept.
fn connection(sweep: &str, way: &Way<'_>, all: &[Way<'_>]) -> Option<CrossCaseFinding> {
    let is_plain = |way: &Way<'_>| way.producer.buffering == Buffering::None;
    let is_kept = |other: &&Way<'_>| is_plain(other) && other.producer.connections != Connections::PerEvent;
    if way.producer.connections != Connections::PerEvent {
        return None;
    }
    let kept = all.iter().filter(|other| other.is_beside(way)).find(is_kept)?;
    let message = format!(
        "a connection for each event: a call takes {} on average instead of {} over connections that are kept, and {} events get \
         through per second instead of {} ({})",
        duration_us(way.call_mean_us),
        duration_us(kept.call_mean_us),
        rate(way.per_s),
        rate(kept.per_s),
        ratio(kept.per_s / way.per_s),
    );
    Some(CrossCaseFinding {
        severity: Severity::Note,
        kind: FindingKind::SettingMatters,
        sweep: sweep.to_owned(),
        cases: vec![way.case.name.clone(), kept.case.name.clone()],
        message,
        hint: None,
    })
}

/// A rate from this share of its bound on is explained by it.
const BOUND_FROM: f64 = 0.75;

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use serde_json::json;

    use super::*;
    use crate::report::sample;
    use crate::results::{LatencySummary, Published, Stage, Summary};

    fn case(name: &str, producer: ProducerShape, per_s: f64, call_us: f64) -> Case {
        let mut case = sample::quick().cases.swap_remove(0);
        name.clone_into(&mut case.name);
        case.published = None;
        case.shape = Some(Shape { producer: Some(producer), pipeline: None, ..Shape::default() });
        case.params = BTreeMap::from([("topology.load.protocol".to_owned(), json!("amqp"))]);
        case.produced_per_s = Some(Summary::of_one(per_s));
        let summary = case.latency_us.clone().unwrap_or_else(|| unreachable!("the sample has latencies"));
        let call = LatencySummary { mean: Some(call_us), p99: Some(call_us as u64 * 2), ..summary };
        case.stages.insert(Stage::Acknowledge, call);
        case
    }

    fn producer(buffering: Buffering, delay_us: Option<u64>) -> ProducerShape {
        ProducerShape { callers: 100, batch: 1, buffering, delay_us, ..ProducerShape::default() }
    }

    fn said(cases: &[Case]) -> Vec<String> {
        let found = Ingestion.cross_case("throughput", &cases.iter().collect::<Vec<_>>());
        found.into_iter().map(|finding| finding.message).collect()
    }

    #[test]
    fn callers_that_wait_for_a_timer_are_bound_by_it_and_adaptive_ones_stand_beside_them() {
        let mut waiting = case("safe", producer(Buffering::Safe, Some(100_000)), 974.0, 102_700.0);
        waiting.published = Some(Published::new("safe", [(Figure::ProducedPerS, 809.0)]));
        let adaptive = case("adaptive", producer(Buffering::Safe, None), 97_400.0, 1_000.0);
        assert_eq!(
            said(&[waiting.clone(), adaptive]),
            [
                "a timer is the bound: 100 callers whose events wait for 100 ms each send at most 1,000 events/s by Little's law, \
              whatever the service does; 974 measured, 809 published. Batches that leave when the one before was answered carry \
              100× as many, with the same guarantee, at a p99 of 2.00 ms instead of 205 ms"
            ]
        );
        waiting.produced_per_s = Some(Summary::of_one(500.0));
        assert!(said(&[waiting]).is_empty(), "something else is");
    }

    #[test]
    fn a_connection_for_each_event_is_compared_with_one_that_is_kept() {
        let isolated =
            ProducerShape { connections: Connections::PerEvent, ..producer(Buffering::None, None) };
        let cases = [
            case("isolated", isolated, 800.0, 125_000.0),
            case("pooled", producer(Buffering::None, None), 80_000.0, 1_250.0),
        ];
        assert_eq!(
            said(&cases),
            [
                "a connection for each event: a call takes 125 ms on average instead of 1.25 ms over connections that are kept, and \
              800 events get through per second instead of 80,000 (100×)"
            ]
        );
        let mut other = cases.clone();
        other[1].params.insert("topology.load.protocol".to_owned(), json!("kafka"));
        assert!(said(&other).is_empty());
    }
}
