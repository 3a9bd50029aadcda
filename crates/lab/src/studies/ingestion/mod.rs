//! How a program gets events into a hub: what a connection for each event costs, what bounds callers that wait for a timer, and the
//! published study's recommendations.
//!
//! Only callers that send again when they were answered are compared: a rate that was chosen says nothing.

mod advice;
mod set_up;
#[cfg(test)]
mod tests;

use super::{Study, StudyColumn, connection_ports, note, published_twin};
use crate::figure::{compact_duration_us, count, counted, duration_us, rate, ratio, significant};
use crate::results::{Case, CrossCaseFinding, Figure, FindingKind, ProducerShape, Shape};
use crate::scenario::{Buffering, Connections, LoadMode};

/// The study; for every case in which a producer sends.
#[derive(Debug, Clone, Copy)]
pub(super) struct Ingestion;

impl Study for Ingestion {
    fn is_about(&self, shape: &Shape) -> bool {
        shape.producer.is_some()
    }

    /// Those of the callers: when an event arrives is another matter.
    fn latencies(&self) -> Option<&'static [Figure]> {
        const LATENCIES: [Figure; 6] = [
            Figure::CallMean,
            Figure::CallP50,
            Figure::CallP99,
            Figure::AnswerMean,
            Figure::AnswerP50,
            Figure::AnswerP99,
        ];
        Some(&LATENCIES)
    }

    fn columns(&self) -> &'static [StudyColumn] {
        const COLUMNS: [StudyColumn; 3] = [
            StudyColumn { figure: Figure::ConnectionsOpened, is_alarming: false },
            StudyColumn { figure: Figure::BytesPerEvent, is_alarming: false },
            StudyColumn { figure: Figure::SystemCallsPerEvent, is_alarming: false },
        ];
        &COLUMNS
    }

    fn cross_case(&self, sweep: &str, cases: &[&Case]) -> Vec<CrossCaseFinding> {
        let known: Vec<Way<'_>> = cases.iter().filter_map(|case| Way::of(case)).collect();
        let timer = known.iter().filter_map(|way| timer(sweep, way, &known));
        let connections = known.iter().filter_map(|way| connection(sweep, way, &known));
        let mut findings: Vec<CrossCaseFinding> = timer.chain(connections).collect();
        findings.extend(advice::findings(sweep, &known));
        findings.extend(set_up::finding(sweep, &known));
        findings.extend(payload(sweep, &known));
        findings.extend(connection_ports::findings(sweep, cases));
        findings.extend(published_twin::finding(sweep, cases));
        findings
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

/// What is spoken, by its name in the scenario.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct SpokenProtocol<'a>(&'a str);

impl<'a> SpokenProtocol<'a> {
    /// For people.
    fn name(self) -> &'a str {
        match self.0 {
            "amqp" => "AMQP",
            "http" => "HTTP",
            "kafka" => "Kafka",
            other => other,
        }
    }
}

impl<'a> Way<'a> {
    fn of(case: &'a Case) -> Option<Self> {
        let shape = case.shape();
        Some(Self {
            case,
            producer: shape.producer.clone().filter(|_| case.passed && shape.load == LoadMode::Closed)?,
            per_s: Figure::ProducedPerS.of_case(case)?,
            call_mean_us: Figure::CallMean.of_case(case)?,
            call_p99_us: Figure::CallP99.of_case(case)?,
        })
    }

    /// Whether both send the same over the same protocol.
    fn is_beside(&self, other: &Self) -> bool {
        self.is_like(other) && self.producer.batch == other.producer.batch
    }

    /// The same but for the size of what is sent.
    fn is_like(&self, other: &Self) -> bool {
        self.producer.callers == other.producer.callers
            && self.producer.client == other.producer.client
            && self.protocol() == other.protocol()
    }

    /// Whether our producer sends.
    const fn is_ours(&self) -> bool {
        self.producer.client.is_none()
    }

    /// What is spoken, and by which program.
    fn over(&self) -> String {
        match &self.producer.client {
            None => self.protocol().name().to_owned(),
            Some(client) => format!("{} ({client})", self.protocol().name()),
        }
    }

    fn protocol(&self) -> SpokenProtocol<'a> {
        SpokenProtocol(self.text("topology.load.protocol").unwrap_or("amqp"))
    }

    fn payload(&self) -> Option<&'a str> {
        self.text("load.payload")
    }

    fn text(&self, path: &str) -> Option<&'a str> {
        self.case.params.get(path)?.as_str()
    }

    /// Whether a send is what the caller hands over, be it one event or a batch of its own.
    fn is_plain(&self) -> bool {
        self.producer.buffering == Buffering::None
    }

    /// Whether each call has a connection of its own.
    fn is_isolated(&self) -> bool {
        self.producer.connections == Connections::PerEvent
    }

    /// What callers can send at most, where what they send is about that: they wait for a timer. What others make of a delay, only
    /// they know.
    fn timer_bound_per_s(&self) -> Option<f64> {
        let is_safe = self.is_ours() && self.producer.buffering == Buffering::Safe;
        let delay_us = self.producer.delay_us.filter(|_| is_safe)?;
        let per_s = (self.producer.callers * self.producer.batch) as f64 / (delay_us as f64 / 1e6);
        let share = self.per_s / per_s;
        (BOUND_FROM..=1.0 + (1.0 - BOUND_FROM)).contains(&share).then_some(per_s)
    }

    /// Whether it is the other with more callers, or with a shorter wait.
    fn lifts(&self, other: &Self) -> bool {
        let (Some(delay_us), Some(other_us)) = (self.producer.delay_us, other.producer.delay_us) else {
            return false;
        };
        let (callers, others) = (self.producer.callers, other.producer.callers);
        let producer = ProducerShape { callers: others, delay_us: Some(other_us), ..self.producer.clone() };
        let is_same = producer == other.producer
            && self.protocol() == other.protocol()
            && self.payload() == other.payload();
        is_same && (callers > others && delay_us == other_us || callers == others && delay_us < other_us)
    }
}

/// Callers that wait until a timer lets their batch leave can't send more often than that, whatever the service does. What it is
/// where batches leave when the one before was answered, stands beside it.
fn timer(sweep: &str, way: &Way<'_>, all: &[Way<'_>]) -> Option<CrossCaseFinding> {
    let bound_per_s = way.timer_bound_per_s()?;
    let delay_us = way.producer.delay_us? as f64;
    let is_bound = |other: &&Way<'_>| other.timer_bound_per_s().is_some();
    if all.iter().filter(is_bound).any(|other| way.lifts(other) || is_said_of(other, way)) {
        return None;
    }
    let mut message = format!(
        "a timer is the bound: {} callers whose events wait for {} each send at most {} events/s by Little's law, whatever the \
         service does; {} measured over {}",
        count(way.producer.callers),
        duration_us(delay_us),
        rate(bound_per_s),
        rate(way.per_s),
        way.protocol().name(),
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
    let levers: Vec<&Way<'_>> = all.iter().filter(|other| other.lifts(way)).collect();
    if !levers.is_empty() {
        let lifted: Vec<String> = levers.iter().map(|lever| lifted(lever, way)).collect();
        message += &format!(". Measured beside it: {}", lifted.join("; "));
    }
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
    let cases = [way].into_iter().chain(levers).chain(adaptive).map(|way| way.case);
    Some(CrossCaseFinding {
        hint: Some("shorten `topology.load.producer.delay`, or write `adaptive`".to_owned()),
        ..note(FindingKind::LimitedByConcurrency, sweep, cases, message)
    })
}

/// Whether what is said of one case holds for another, which differs in its payload alone.
fn is_said_of(one: &Way<'_>, other: &Way<'_>) -> bool {
    one.producer == other.producer
        && one.protocol() == other.protocol()
        && one.payload() != other.payload()
        && other.payload() == Some(NOTHING)
}

/// `400 callers 3,990 events/s (3.99×) at a p99 of 102 ms`.
fn lifted(lever: &Way<'_>, way: &Way<'_>) -> String {
    let what = match lever.producer.delay_us.filter(|_| lever.producer.callers == way.producer.callers) {
        Some(delay_us) => format!("a delay of {}", compact_duration_us(delay_us as f64)),
        None => counted(lever.producer.callers, "caller", "callers"),
    };
    format!(
        "{what} {} events/s ({}) at a p99 of {}",
        rate(lever.per_s),
        ratio(lever.per_s / way.per_s),
        duration_us(lever.call_p99_us)
    )
}

/// What events without a payload change, as the buffer of the published study sends them.
fn payload(sweep: &str, all: &[Way<'_>]) -> Option<CrossCaseFinding> {
    let mut cases = Vec::new();
    let mut differs = false;
    let mut sentences = Vec::new();
    for nothing in all.iter().filter(|way| way.payload() == Some(NOTHING)) {
        let Some(full) = all.iter().find(|other| is_said_of(other, nothing)) else {
            continue;
        };
        let change = nothing.per_s / full.per_s;
        differs |= !(1.0 / DIFFERENCE_FROM..=DIFFERENCE_FROM).contains(&change);
        let over = nothing.protocol();
        sentences.push(format!(
            "{} events/s instead of {} over {}",
            rate(nothing.per_s),
            rate(full.per_s),
            over.name()
        ));
        cases.extend([nothing, full].map(|way| way.case));
    }
    let kind = if differs { FindingKind::SettingMatters } else { FindingKind::SettingWithoutEffect };
    let message = format!(
        "events without a payload, as the buffer of the published study sends them, {}: {}",
        if differs { "get through at another rate" } else { "are no faster" },
        sentences.join(", ")
    );
    (!sentences.is_empty()).then(|| note(kind, sweep, cases, message))
}

/// What a call takes with a connection of its own, beside one over a connection that is kept.
fn connection(sweep: &str, way: &Way<'_>, all: &[Way<'_>]) -> Option<CrossCaseFinding> {
    let is_kept = |other: &&Way<'_>| other.is_plain() && !other.is_isolated();
    if !way.is_isolated() {
        return None;
    }
    let kept = all.iter().filter(|other| other.is_beside(way)).find(is_kept)?;
    let message = format!(
        "a connection for each event over {}: a call takes {} on average instead of {} over connections that are kept, and {} events get \
         through per second instead of {} ({}): to open and close it takes as long as {} calls",
        way.over(),
        duration_us(way.call_mean_us),
        duration_us(kept.call_mean_us),
        rate(way.per_s),
        rate(kept.per_s),
        ratio(kept.per_s / way.per_s),
        significant((way.call_mean_us / kept.call_mean_us - 1.0).max(0.0)),
    );
    Some(note(FindingKind::SettingMatters, sweep, [way.case, kept.case], message))
}

/// A rate from this share of its bound on is explained by it.
const BOUND_FROM: f64 = 0.75;

/// Rates of single runs that differ by less are the same.
const DIFFERENCE_FROM: f64 = 1.15;

/// The payload of events that have none.
const NOTHING: &str = "nothing";
