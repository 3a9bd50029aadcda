//! The columns of the result table, in the order of the published studies, for every report that has one.

use crate::figure;
use crate::results::{Carried, Case, Delivery, Results, Summary, Trial};

/// A column with one cell per case. Columns in which no case has a value are not made.
#[derive(Debug, Clone)]
pub(super) struct Column {
    /// The heading, in one or two lines.
    pub(super) heading: [&'static str; 2],
    /// Cells in the order of the cases.
    pub(super) cells: Vec<Cell>,
}

/// One value of the table.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Cell {
    /// The value, or empty if the case does not have it.
    pub(super) value: String,
    /// Lowest and highest over the trials, if they differ.
    pub(super) spread: Option<String>,
    /// Where the true median lies, if there are trials enough to tell.
    pub(super) interval: Option<String>,
    /// Whether the value speaks against the case.
    pub(super) alarming: bool,
}

impl Column {
    /// The heading in one line.
    pub(super) fn title(&self) -> String {
        self.heading.join(" ").trim().to_owned()
    }
}

/// All columns except the first, which is the name of the case.
pub(super) fn columns(results: &Results) -> Vec<Column> {
    let of_delivery = |figure: fn(&Delivery) -> u64, alarming: bool| {
        move |case: &Case| {
            let value = figure(case.delivery.as_ref()?);
            Some(Cell { alarming: alarming && value > 0, ..plain(figure::count(value)) })
        }
    };
    // Damage that no case has is told once, in the verdict.
    let damage = |title: &'static str, figure: fn(&Delivery) -> u64, alarming: bool| {
        let counts = results.cases.iter().filter_map(|case| case.delivery.as_ref());
        let is_there = counts.map(figure).any(|count| count > 0);
        is_there.then(|| column(results, [title, ""], of_delivery(figure, alarming))).flatten()
    };
    [
        column(results, ["received/s", ""], |case| Some(rate(case.received_per_s?))),
        column(results, ["forwarded/s", ""], |case| Some(rate(case.forwarded_per_s?))),
        column(results, ["CPU %", ""], |case| Some(summary(case.cpu_percent?, figure::percent))),
        column(results, ["memory", "peak"], |case| Some(summary(case.memory_peak_bytes?, figure::bytes))),
        column(results, ["latency", "p50"], |case| {
            latency(case, case.latency_us.as_ref()?.p50?, |trial| trial.latency_us.as_ref()?.p50)
        }),
        column(results, ["latency", "p99"], |case| {
            latency(case, case.latency_us.as_ref()?.p99?, |trial| trial.latency_us.as_ref()?.p99)
        }),
        column(results, ["lost", ""], of_delivery(|delivery| delivery.lost, true)),
        column(results, ["duplicated", ""], of_delivery(|delivery| delivery.duplicated, false)),
        damage("reordered", |delivery| delivery.reordered, results.carried() == Carried::Events),
        damage("corrupted", |delivery| delivery.corrupted, true),
        damage("redelivered", |delivery| delivery.redelivered.unwrap_or(0), false),
        damage("dead-lettered", |delivery| delivery.dead_lettered.unwrap_or(0), true),
        column(results, ["published", "forwarded/s"], |case| {
            Some(plain(figure::rate(case.published.as_ref()?.forwarded_per_s?)))
        }),
        column(results, ["ratio", ""], |case| Some(plain(figure::ratio(case.ratio_to_published()?)))),
        column(results, ["Parshall ÷ it", "forwarded/s"], |case| {
            let ratio = case.parshall_ratio.as_ref()?.forwarded?;
            Some(plain(figure::ratio(ratio)))
        }),
        column(results, ["Parshall ÷ it", "memory"], |case| {
            let ratio = case.parshall_ratio.as_ref()?.memory_peak?;
            Some(plain(figure::ratio(ratio)))
        }),
    ]
    .into_iter()
    .flatten()
    .collect()
}

/// Which cases, by their index, are the first of their sweep: cases of one sweep make one table.
pub(super) fn table_begins(results: &Results) -> Vec<bool> {
    let mut before: Option<&Case> = None;
    let is_first = |case| {
        let before = before.replace(case);
        before.is_none_or(|before: &Case| before.sweep != case.sweep)
    };
    results.cases.iter().map(is_first).collect()
}

fn column(
    results: &Results,
    heading: [&'static str; 2],
    cell: impl Fn(&Case) -> Option<Cell>,
) -> Option<Column> {
    let cells: Vec<Option<Cell>> = results.cases.iter().map(cell).collect();
    cells
        .iter()
        .any(Option::is_some)
        .then(|| Column { heading, cells: cells.into_iter().map(Option::unwrap_or_default).collect() })
}

fn plain(value: String) -> Cell {
    Cell { value, ..Cell::default() }
}

fn summary(summary: Summary, format: fn(f64) -> String) -> Cell {
    Cell { value: format(summary.median), ..spreads(&summary, format) }
}

/// A rate in full with its spread in short: `2,918,479` and `2.87–2.97 M`.
fn rate(rate: Summary) -> Cell {
    Cell { value: figure::rate(rate.median), ..spreads(&rate, figure::compact) }
}

/// A percentile over all trials, with the lowest and highest of the trials' own.
fn latency(case: &Case, merged: u64, of_trial: fn(&Trial) -> Option<u64>) -> Option<Cell> {
    let over_trials = case.over_trials(|trial| of_trial(trial).map(|value| value as f64));
    let spreads = over_trials.map(|summary| spreads(&summary, figure::duration_us));
    Some(Cell { value: figure::duration_us(merged as f64), ..spreads.unwrap_or_default() })
}

/// Everything about a summary but its median.
fn spreads(summary: &Summary, format: fn(f64) -> String) -> Cell {
    let spread =
        (format(summary.min) != format(summary.max)).then(|| range(summary.min, summary.max, format));
    let interval = summary
        .interval
        .filter(|_| spread.is_some())
        .map(|interval| range(interval.low, interval.high, format));
    Cell { spread, interval, ..Cell::default() }
}

/// `low–high`. A shared unit is written once, and what prints alike is.
fn range(low: f64, high: f64, format: fn(f64) -> String) -> String {
    let (low, high) = (format(low), format(high));
    match (low.split_once(' '), high.split_once(' ')) {
        _ if low == high => high,
        (Some((value, unit)), Some((_, other))) if unit == other => format!("{value}–{high}"),
        _ => format!("{low}–{high}"),
    }
}
