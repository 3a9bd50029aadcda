//! The figures of a case by name: one table for results, published figures, columns, the CSV file and comparisons.
//!
//! A figure's name is its path in `results.json` and ends in its unit (`latency_us.p99`); where paths can't be written,
//! as in the heading of a CSV file, it has a flat form (`latency_p99_us`).

use std::borrow::Cow;
use std::collections::BTreeMap;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

use super::{
    Case, Delivery, Destination, DestinationSummary, LatencySummary, RoleUsage, Stage, Summary, Trial,
};
use crate::figure;
use crate::statistics::Better;

/// A figure that cases have, and trials.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[expect(missing_docs, reason = "the table of definitions says what each is")]
pub enum Figure {
    OfferedPerS,
    ReceivedPerS,
    ForwardedPerS,
    ProducedPerS,
    ConsumedPerS,
    CpuPercent,
    MemoryPeakBytes,
    CpuUsPerEvent,
    LatencyMin,
    LatencyMean,
    LatencyP50,
    LatencyP75,
    LatencyP95,
    LatencyP99,
    LatencyP999,
    LatencyMax,
    Sent,
    Acknowledged,
    Received,
    Lost,
    Duplicated,
    Reordered,
    Corrupted,
    Unknown,
    Redelivered,
    DeadLettered,
    Unexpected,
    Foreign,
    Misplaced,
    WithDuplicatesPerS,
    FromSendMin,
    FromSendMean,
    FromSendP50,
    FromSendP75,
    FromSendP95,
    FromSendP99,
    FromSendP999,
    FromSendMax,
    CallMean,
    CallP50,
    CallP99,
    AnswerMean,
    AnswerP50,
    AnswerP99,
    ForwardMean,
    ArchiveMean,
    CheckpointShareMean,
    TotalMean,
    ConnectionsOpened,
    BytesPerEvent,
    SystemCallsPerEvent,
}

/// What the values of a figure are, which decides how they are written and read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Quantity {
    /// Events or messages per second.
    PerSecond,
    /// Of a hundred.
    Percent,
    /// Bytes.
    Bytes,
    /// A time in microseconds.
    Microseconds,
    /// CPU time in microseconds, most of them fractions.
    MicrosecondsEach,
    /// How many.
    Count,
    /// How many for each event, most of them fractions.
    CountEach,
}

/// What is known of a figure before it is measured.
#[derive(Debug, Clone, Copy)]
pub struct Definition {
    figure: Figure,
    /// Its path in `results.json`, with its unit.
    pub name: &'static str,
    /// The same without a dot.
    pub flat: &'static str,
    /// Its heading in tables, in one or two lines.
    pub heading: [&'static str; 2],
    /// What its values are.
    pub quantity: Quantity,
    /// Which of two values is the better one.
    pub better: Better,
}

const fn define(
    figure: Figure,
    [name, flat]: [&'static str; 2],
    heading: [&'static str; 2],
    quantity: Quantity,
    better: Better,
) -> Definition {
    Definition { figure, name, flat, heading, quantity, better }
}

/// A latency end to end.
const fn latency(figure: Figure, names: [&'static str; 2], heading: [&'static str; 2]) -> Definition {
    define(figure, names, heading, Microseconds, Lower)
}

const fn same(name: &'static str) -> [&'static str; 2] {
    [name, name]
}

use Better::{Higher, Lower};
use Quantity::{Bytes, Count, CountEach, Microseconds, MicrosecondsEach, PerSecond, Percent};

/// Every figure, in the order of its variants.
const DEFINITIONS: [Definition; 51] = [
    // What the load offered, what the pipeline received and forwarded, in the measured phase.
    define(Figure::OfferedPerS, same("offered_per_s"), ["offered/s", ""], PerSecond, Higher),
    define(Figure::ReceivedPerS, same("received_per_s"), ["received/s", ""], PerSecond, Higher),
    define(Figure::ForwardedPerS, same("forwarded_per_s"), ["forwarded/s", ""], PerSecond, Higher),
    // Where no pipeline is between them: what the service acknowledged to the load, what the sink received.
    define(Figure::ProducedPerS, same("produced_per_s"), ["produced/s", ""], PerSecond, Higher),
    define(Figure::ConsumedPerS, same("consumed_per_s"), ["consumed/s", ""], PerSecond, Higher),
    // Of the measured role.
    define(Figure::CpuPercent, same("cpu_percent"), ["CPU %", ""], Percent, Lower),
    define(Figure::MemoryPeakBytes, same("memory_peak_bytes"), ["memory", "peak"], Bytes, Lower),
    define(Figure::CpuUsPerEvent, same("cpu_us_per_event"), ["CPU", "per event"], MicrosecondsEach, Lower),
    // End to end, from each event's intended instant to the sink.
    define(Figure::LatencyMin, ["latency_us.min", "latency_min_us"], ["latency", "min"], Microseconds, Lower),
    define(
        Figure::LatencyMean,
        ["latency_us.mean", "latency_mean_us"],
        ["latency", "mean"],
        Microseconds,
        Lower,
    ),
    define(Figure::LatencyP50, ["latency_us.p50", "latency_p50_us"], ["latency", "p50"], Microseconds, Lower),
    define(Figure::LatencyP75, ["latency_us.p75", "latency_p75_us"], ["latency", "p75"], Microseconds, Lower),
    define(Figure::LatencyP95, ["latency_us.p95", "latency_p95_us"], ["latency", "p95"], Microseconds, Lower),
    define(Figure::LatencyP99, ["latency_us.p99", "latency_p99_us"], ["latency", "p99"], Microseconds, Lower),
    define(
        Figure::LatencyP999,
        ["latency_us.p999", "latency_p999_us"],
        ["latency", "p99.9"],
        Microseconds,
        Lower,
    ),
    define(Figure::LatencyMax, ["latency_us.max", "latency_max_us"], ["latency", "max"], Microseconds, Lower),
    // What became of the events.
    define(Figure::Sent, ["delivery.sent", "sent"], ["sent", ""], Count, Higher),
    define(
        Figure::Acknowledged,
        ["delivery.acknowledged", "acknowledged"],
        ["acknowledged", ""],
        Count,
        Higher,
    ),
    define(Figure::Received, ["delivery.received", "received"], ["received", ""], Count, Higher),
    define(Figure::Lost, ["delivery.lost", "lost"], ["lost", ""], Count, Lower),
    define(Figure::Duplicated, ["delivery.duplicated", "duplicated"], ["duplicated", ""], Count, Lower),
    define(Figure::Reordered, ["delivery.reordered", "reordered"], ["reordered", ""], Count, Lower),
    define(Figure::Corrupted, ["delivery.corrupted", "corrupted"], ["corrupted", ""], Count, Lower),
    define(Figure::Unknown, ["delivery.unknown", "unknown"], ["unknown", ""], Count, Lower),
    define(Figure::Redelivered, ["delivery.redelivered", "redelivered"], ["redelivered", ""], Count, Lower),
    define(
        Figure::DeadLettered,
        ["delivery.dead_lettered", "dead_lettered"],
        ["dead-lettered", ""],
        Count,
        Lower,
    ),
    define(Figure::Unexpected, ["delivery.unexpected", "unexpected"], ["unexpected", ""], Count, Lower),
    define(Figure::Foreign, ["delivery.foreign", "foreign"], ["foreign", ""], Count, Lower),
    define(Figure::Misplaced, ["delivery.misplaced", "misplaced"], ["misplaced", ""], Count, Lower),
    // Beside a throughput that counts each event once.
    define(
        Figure::WithDuplicatesPerS,
        same("with_duplicates_per_s"),
        ["with", "duplicates/s"],
        PerSecond,
        Lower,
    ),
    // End to end, from the instant at which each event really left: what a stall does to those that are not sent meanwhile is
    // not in it.
    latency(
        Figure::FromSendMin,
        ["uncorrected_latency_us.min", "uncorrected_latency_min_us"],
        ["from send", "min"],
    ),
    latency(
        Figure::FromSendMean,
        ["uncorrected_latency_us.mean", "uncorrected_latency_mean_us"],
        ["from send", "mean"],
    ),
    latency(
        Figure::FromSendP50,
        ["uncorrected_latency_us.p50", "uncorrected_latency_p50_us"],
        ["from send", "p50"],
    ),
    latency(
        Figure::FromSendP75,
        ["uncorrected_latency_us.p75", "uncorrected_latency_p75_us"],
        ["from send", "p75"],
    ),
    latency(
        Figure::FromSendP95,
        ["uncorrected_latency_us.p95", "uncorrected_latency_p95_us"],
        ["from send", "p95"],
    ),
    latency(
        Figure::FromSendP99,
        ["uncorrected_latency_us.p99", "uncorrected_latency_p99_us"],
        ["from send", "p99"],
    ),
    latency(
        Figure::FromSendP999,
        ["uncorrected_latency_us.p999", "uncorrected_latency_p999_us"],
        ["from send", "p99.9"],
    ),
    latency(
        Figure::FromSendMax,
        ["uncorrected_latency_us.max", "uncorrected_latency_max_us"],
        ["from send", "max"],
    ),
    // From the send to the service's answer, which is how long a program's call takes.
    latency(Figure::CallMean, ["stages.acknowledge.mean", "acknowledge_mean_us"], ["call", "mean"]),
    latency(Figure::CallP50, ["stages.acknowledge.p50", "acknowledge_p50_us"], ["call", "p50"]),
    latency(Figure::CallP99, ["stages.acknowledge.p99", "acknowledge_p99_us"], ["call", "p99"]),
    // The same from the intended instant, where there is a plan: a program that is late with its calls makes them longer.
    latency(Figure::AnswerMean, ["stages.answer.mean", "answer_mean_us"], ["due to answer", "mean"]),
    latency(Figure::AnswerP50, ["stages.answer.p50", "answer_p50_us"], ["due to answer", "p50"]),
    latency(Figure::AnswerP99, ["stages.answer.p99", "answer_p99_us"], ["due to answer", "p99"]),
    // A pipeline's stopwatches, where an archive is one of its destinations.
    latency(Figure::ForwardMean, ["stages.forward.mean", "forward_mean_us"], ["forward", "mean"]),
    latency(Figure::ArchiveMean, ["stages.archive.mean", "archive_mean_us"], ["archive", "mean"]),
    latency(
        Figure::CheckpointShareMean,
        ["stages.checkpoint_share.mean", "checkpoint_share_mean_us"],
        ["checkpoint", "share"],
    ),
    latency(Figure::TotalMean, ["stages.total.mean", "total_mean_us"], ["total", "mean"]),
    // Of the measured role: what its way of sending costs beside CPU and memory.
    define(Figure::ConnectionsOpened, same("connections_opened"), ["connections", "opened"], Count, Lower),
    define(Figure::BytesPerEvent, same("bytes_per_event"), ["bytes", "per event"], Bytes, Lower),
    define(
        Figure::SystemCallsPerEvent,
        same("system_calls_per_event"),
        ["system calls", "per event"],
        CountEach,
        Lower,
    ),
];

/// The paths of all figures, for messages.
pub(super) const NAMES: [&str; DEFINITIONS.len()] = {
    let mut names = [""; DEFINITIONS.len()];
    let mut index = 0;
    while index < names.len() {
        assert!(DEFINITIONS[index].figure as usize == index, "definitions are in the order of the variants");
        names[index] = DEFINITIONS[index].name;
        index += 1;
    }
    names
};

impl Figure {
    /// By which two runs are compared, the main one first. A case lacks some of them.
    pub const COMPARED: [Self; 7] = [
        Self::ForwardedPerS,
        Self::ProducedPerS,
        Self::ConsumedPerS,
        Self::CpuUsPerEvent,
        Self::MemoryPeakBytes,
        Self::LatencyP50,
        Self::LatencyP99,
    ];

    /// How much a case carried per second: the first that it has is its throughput.
    pub const THROUGHPUT: [Self; 4] =
        [Self::ForwardedPerS, Self::ReceivedPerS, Self::ProducedPerS, Self::ConsumedPerS];

    /// Name, heading, quantity.
    #[must_use]
    pub const fn definition(self) -> &'static Definition {
        &DEFINITIONS[self as usize]
    }

    /// Every figure.
    pub(super) fn all() -> impl Iterator<Item = Self> {
        DEFINITIONS.iter().map(|definition| definition.figure)
    }

    /// The figure with this path, or with this flat form of it.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        let mut definitions = DEFINITIONS.iter();
        let found = definitions.find(|definition| [definition.name, definition.flat].contains(&name))?;
        Some(found.figure)
    }

    /// The heading in one line.
    #[must_use]
    pub fn title(self) -> String {
        self.definition().heading.join(" ").trim_end().to_owned()
    }

    /// A value for a person to read.
    #[must_use]
    pub fn text(self, value: f64) -> String {
        match self.definition().quantity {
            Quantity::PerSecond => figure::rate(value),
            Quantity::Percent => figure::percent(value),
            Quantity::Bytes => figure::bytes(value),
            Quantity::Microseconds => figure::duration_us(value),
            Quantity::MicrosecondsEach => format!("{:.0} ns", value * 1e3),
            Quantity::Count => figure::count(value as u64),
            Quantity::CountEach => figure::significant(value),
        }
    }

    /// Its value in a trial of the case.
    #[must_use]
    pub fn of_trial(self, case: &Case, trial: &Trial) -> Option<f64> {
        let usage = || trial.roles.get(&case.measured_role);
        match self {
            Self::OfferedPerS => trial.offered_per_s,
            Self::ReceivedPerS => trial.received_per_s,
            Self::ForwardedPerS => trial.forwarded_per_s,
            Self::WithDuplicatesPerS => trial.with_duplicates_per_s,
            Self::ProducedPerS => trial.produced_per_s,
            Self::ConsumedPerS => trial.consumed_per_s,
            Self::CpuPercent => Some(usage()?.cpu_percent),
            Self::MemoryPeakBytes => Some(usage()?.memory_peak_bytes as f64),
            Self::CpuUsPerEvent => cpu_us_per_event(usage()?),
            Self::ConnectionsOpened => Some(usage()?.connections_opened? as f64),
            Self::BytesPerEvent => {
                let each = usage()?.per_million_events?;
                Some((each.bytes_received? + each.bytes_sent?) / 1e6)
            }
            Self::SystemCallsPerEvent => Some(usage()?.per_million_events?.system_calls? / 1e6),
            Self::CallMean
            | Self::CallP50
            | Self::CallP99
            | Self::AnswerMean
            | Self::AnswerP50
            | Self::AnswerP99
            | Self::ForwardMean
            | Self::ArchiveMean
            | Self::CheckpointShareMean
            | Self::TotalMean => self.of_stages(&trial.stages),
            _ => {
                let latencies = [trial.latency_us.as_ref(), trial.uncorrected_latency_us.as_ref()];
                self.of_distributions(latencies, trial.delivery.as_ref())
            }
        }
    }

    /// Its value at one of several destinations of a case.
    #[must_use]
    pub fn of_case_at(self, destination: &DestinationSummary) -> Option<f64> {
        match self {
            Self::ConsumedPerS => Some(destination.consumed_per_s?.median),
            _ => {
                self.of_distributions([destination.latency_us.as_ref(), None], destination.delivery.as_ref())
            }
        }
    }

    /// Its value at one of several destinations of a trial.
    #[must_use]
    pub fn of_trial_at(self, destination: &Destination) -> Option<f64> {
        match self {
            Self::ConsumedPerS => destination.consumed_per_s,
            _ => {
                self.of_distributions([destination.latency_us.as_ref(), None], destination.delivery.as_ref())
            }
        }
    }

    /// Its values in the trials of a case that reached their end; `None` if one of them has none.
    #[must_use]
    pub fn of_trials(self, case: &Case) -> Option<Vec<f64>> {
        case.completed_trials().map(|trial| self.of_trial(case, trial)).collect()
    }

    /// Median and spread of a figure that cases summarise over their trials, as rates, CPU and memory are.
    #[must_use]
    pub fn summary(self, case: &Case) -> Option<Summary> {
        match self {
            Self::OfferedPerS => case.offered_per_s,
            Self::ReceivedPerS => case.received_per_s,
            Self::ForwardedPerS => case.forwarded_per_s,
            Self::WithDuplicatesPerS => case.with_duplicates_per_s,
            Self::ProducedPerS => case.produced_per_s,
            Self::ConsumedPerS => case.consumed_per_s,
            Self::CpuPercent => case.cpu_percent,
            Self::MemoryPeakBytes => case.memory_peak_bytes,
            Self::CpuUsPerEvent
            | Self::ConnectionsOpened
            | Self::BytesPerEvent
            | Self::SystemCallsPerEvent => self.over_trials(case),
            _ => None,
        }
    }

    /// Its value in the case: the median over the trials, or of all samples together.
    #[must_use]
    pub fn of_case(self, case: &Case) -> Option<f64> {
        let latencies = [case.latency_us.as_ref(), case.uncorrected_latency_us.as_ref()];
        let of_stages = || self.of_stages(&case.stages);
        let of_all = || self.of_distributions(latencies, case.delivery.as_ref()).or_else(of_stages);
        self.summary(case).map(|summary| summary.median).or_else(of_all)
    }

    /// Median and spread over the trials of a case.
    #[must_use]
    pub fn over_trials(self, case: &Case) -> Option<Summary> {
        case.over_trials(|trial| self.of_trial(case, trial))
    }

    /// Its value in a distribution of latencies, if it is one of them.
    #[must_use]
    pub fn of_latency(self, latency: &LatencySummary) -> Option<f64> {
        self.of_distributions([Some(latency), None], None)
    }

    /// Its value in a stage, if it is of one.
    fn of_stages(self, stages: &BTreeMap<Stage, LatencySummary>) -> Option<f64> {
        let call = || stages.get(&Stage::Acknowledge);
        let answer = || stages.get(&Stage::Answer);
        match self {
            Self::CallMean => call()?.mean,
            Self::CallP50 => call()?.p50.map(|value| value as f64),
            Self::CallP99 => call()?.p99.map(|value| value as f64),
            Self::AnswerMean => answer()?.mean,
            Self::AnswerP50 => answer()?.p50.map(|value| value as f64),
            Self::AnswerP99 => answer()?.p99.map(|value| value as f64),
            Self::ForwardMean => stages.get(&Stage::Forward)?.mean,
            Self::ArchiveMean => stages.get(&Stage::Archive)?.mean,
            Self::CheckpointShareMean => stages.get(&Stage::CheckpointShare)?.mean,
            Self::TotalMean => stages.get(&Stage::Total)?.mean,
            _ => None,
        }
    }

    /// Its value in what was recorded: the latency from the intended instant and the one from the send, the delivery.
    fn of_distributions(
        self,
        [latency, from_send]: [Option<&LatencySummary>; 2],
        delivery: Option<&Delivery>,
    ) -> Option<f64> {
        let time = |figure: fn(&LatencySummary) -> Option<u64>| Some(figure(latency?)? as f64);
        let time_from_send = |figure: fn(&LatencySummary) -> Option<u64>| Some(figure(from_send?)? as f64);
        let count = |figure: fn(&Delivery) -> Option<u64>| Some(figure(delivery?)? as f64);
        match self {
            Self::LatencyMin => time(|summary| summary.min),
            Self::LatencyMean => latency?.mean,
            Self::LatencyP50 => time(|summary| summary.p50),
            Self::LatencyP75 => time(|summary| summary.p75),
            Self::LatencyP95 => time(|summary| summary.p95),
            Self::LatencyP99 => time(|summary| summary.p99),
            Self::LatencyP999 => time(|summary| summary.p999),
            Self::LatencyMax => time(|summary| summary.max),
            Self::FromSendMin => time_from_send(|summary| summary.min),
            Self::FromSendMean => from_send?.mean,
            Self::FromSendP50 => time_from_send(|summary| summary.p50),
            Self::FromSendP75 => time_from_send(|summary| summary.p75),
            Self::FromSendP95 => time_from_send(|summary| summary.p95),
            Self::FromSendP99 => time_from_send(|summary| summary.p99),
            Self::FromSendP999 => time_from_send(|summary| summary.p999),
            Self::FromSendMax => time_from_send(|summary| summary.max),
            Self::Sent => count(|delivery| Some(delivery.sent)),
            Self::Acknowledged => count(|delivery| delivery.acknowledged),
            Self::Received => count(|delivery| delivery.received),
            Self::Lost => count(|delivery| Some(delivery.lost)),
            Self::Duplicated => count(|delivery| delivery.duplicated),
            Self::Reordered => count(|delivery| delivery.reordered),
            Self::Corrupted => count(|delivery| delivery.corrupted),
            Self::Unknown => count(|delivery| delivery.unknown),
            Self::Redelivered => count(|delivery| delivery.redelivered),
            Self::DeadLettered => count(|delivery| delivery.dead_lettered),
            Self::Unexpected => count(|delivery| delivery.unexpected),
            Self::Foreign => count(|delivery| delivery.foreign),
            Self::Misplaced => count(|delivery| delivery.misplaced),
            Self::OfferedPerS
            | Self::ReceivedPerS
            | Self::ForwardedPerS
            | Self::WithDuplicatesPerS
            | Self::ProducedPerS
            | Self::ConsumedPerS
            | Self::CpuPercent
            | Self::MemoryPeakBytes
            | Self::CpuUsPerEvent
            | Self::CallMean
            | Self::CallP50
            | Self::CallP99
            | Self::AnswerMean
            | Self::AnswerP50
            | Self::AnswerP99
            | Self::ForwardMean
            | Self::ArchiveMean
            | Self::CheckpointShareMean
            | Self::TotalMean
            | Self::ConnectionsOpened
            | Self::BytesPerEvent
            | Self::SystemCallsPerEvent => None,
        }
    }
}

/// Seconds per million are microseconds for each.
fn cpu_us_per_event(usage: &RoleUsage) -> Option<f64> {
    Some(usage.per_million_events?.cpu_seconds)
}

impl Serialize for Figure {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.definition().flat)
    }
}

impl JsonSchema for Figure {
    fn schema_name() -> Cow<'static, str> {
        "Figure".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        let names: Vec<&str> = DEFINITIONS.iter().map(|definition| definition.flat).collect();
        json_schema!({"description": "A figure of a case, by its name with the unit.", "type": "string", "enum": names})
    }
}

impl<'de> Deserialize<'de> for Figure {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let name = String::deserialize(deserializer)?;
        Self::named(&name).ok_or_else(|| de::Error::unknown_variant(&name, &NAMES))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::sample;

    #[test]
    fn the_name_of_a_figure_is_its_path_in_the_results() {
        let case = &sample::complete().cases[0];
        let json = serde_json::to_value(case).unwrap();
        for Definition { figure, name, .. } in DEFINITIONS {
            let at = json.pointer(&format!("/{}", name.replace('.', "/")));
            let written = at.map(|at| at.get("median").unwrap_or(at).as_f64().unwrap());
            // What roles used is in their own figures.
            let is_of_role = matches!(
                figure,
                Figure::CpuUsPerEvent
                    | Figure::ConnectionsOpened
                    | Figure::BytesPerEvent
                    | Figure::SystemCallsPerEvent
            );
            if !is_of_role {
                assert_eq!(written, figure.of_case(case), "{name}");
            }
        }
    }

    #[test]
    fn both_forms_of_a_name_are_read_and_no_two_figures_share_one() {
        for Definition { figure, name, flat, .. } in DEFINITIONS {
            assert_eq!((Figure::named(name), Figure::named(flat)), (Some(figure), Some(figure)));
        }
        assert_eq!(Figure::named("latency"), None);
        let written = serde_json::to_string(&Figure::LatencyP99).unwrap();
        assert_eq!(written, "\"latency_p99_us\"");
        assert_eq!(serde_json::from_str::<Figure>(&written).unwrap(), Figure::LatencyP99);
    }
}
