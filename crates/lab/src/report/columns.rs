//! The columns of the result table, in the order of the published studies, for every report that has one.

use std::borrow::Cow;

use crate::figure;
use crate::results::{Case, Figure, Quantity, Results, SourceShape, Summary};
use crate::scenario::LoadMode;
use crate::studies::{self, StudyColumn};

/// A column with one cell per case. Columns in which no case has a value are not made.
#[derive(Debug, Clone)]
pub(super) struct Column {
    /// The heading, in one or two lines.
    pub(super) heading: [Cow<'static, str>; 2],
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
    let shape = results.shape();
    // Messages of a queue that are worked on at once overtake one another.
    let keeps_order = !matches!(shape.source(), Some(SourceShape::Queue { .. }));
    let of = |figure: Figure| {
        column(results, figure.definition().heading, |case| {
            // How long an event waits in a queue that the load keeps is the load's doing.
            let is_latency = figure.definition().quantity == Quantity::Microseconds;
            let is_chosen = is_latency && case.shape().always_offers_more();
            measured(figure, case).filter(|_| !is_chosen)
        })
    };
    let count = |figure: Figure, is_alarming: bool| {
        column(results, figure.definition().heading, |case| {
            let value = figure.of_case(case)?;
            Some(Cell { alarming: is_alarming && value > 0.0, ..plain(figure.text(value)) })
        })
    };
    // Damage that no case has is told once, in the verdict.
    let damage = |StudyColumn { figure, is_alarming }| {
        let mut values = results.cases.iter().filter_map(|case| figure.of_case(case));
        values.any(|count| count > 0.0).then(|| count(figure, is_alarming)).flatten()
    };
    let general = [
        StudyColumn { figure: Figure::Reordered, is_alarming: keeps_order },
        StudyColumn { figure: Figure::Corrupted, is_alarming: true },
        StudyColumn { figure: Figure::Unexpected, is_alarming: true },
        StudyColumn { figure: Figure::Foreign, is_alarming: true },
        StudyColumn { figure: Figure::Misplaced, is_alarming: true },
    ];
    let of_studies = studies::of(&shape).flat_map(|study| study.columns()).copied();
    let latencies = studies::of(&shape).find_map(|study| study.latencies()).unwrap_or(&LATENCIES);
    let mut columns: Vec<Option<Column>> = MEASURED.into_iter().map(of).collect();
    columns.extend(latencies.iter().copied().map(of));
    // A loop that was held up shows in the difference of the two.
    let from_send = |figure: Figure| {
        column(results, figure.definition().heading, |case| {
            let is_loop = case.shape().load == LoadMode::Burst;
            measured(figure, case).filter(|_| is_loop)
        })
    };
    columns.extend(FROM_SEND.into_iter().map(from_send));
    // Only where something came twice is there another rate than the one that counts each event once.
    columns.push(of(Figure::WithDuplicatesPerS));
    columns.extend(PACED.into_iter().map(|figure| paced(results, figure)));
    columns.extend([count(Figure::Lost, true), count(Figure::Duplicated, false)]);
    columns.extend(general.into_iter().chain(of_studies).map(damage));
    columns.push(results.prices.as_ref().and_then(|prices| {
        column(results, ["cost of", "a million"], |case| {
            let total = case.cost.as_ref()?.total?;
            Some(plain(format!("{} {}", figure::price(total), prices.currency)))
        })
    }));
    columns.extend(PUBLISHED.into_iter().map(|figure| {
        column(results, published_heading(figure), |case| {
            // Where there is a ratio, it says of what.
            let is_in_ratio = case.ratio_to_published().is_some_and(|ratio| ratio.figure == figure);
            let published = case.published.as_ref().filter(|_| !is_in_ratio)?;
            Some(plain(figure.text(published.get(figure)?)))
        })
    }));
    columns.extend([
        column(results, ["Parshall ÷ it", "forwarded/s"], |case| {
            let ratio = case.parshall_ratio.as_ref()?;
            let trials = ratio.forwarded_range.filter(|trials| trials.low < trials.high);
            let spread = trials.map(|each| range(each.low, each.high, &figure::ratio));
            Some(Cell { spread, ..plain(figure::ratio(ratio.forwarded?)) })
        }),
        column(results, ["Parshall ÷ it", "produced/s"], |case| {
            let ratio = case.parshall_ratio.as_ref()?;
            let trials = ratio.produced_range.filter(|trials| trials.low < trials.high);
            let spread = trials.map(|each| range(each.low, each.high, &figure::ratio));
            Some(Cell { spread, ..plain(figure::ratio(ratio.produced?)) })
        }),
        column(results, ["Parshall ÷ it", "memory"], |case| {
            let ratio = case.parshall_ratio.as_ref()?.memory_peak?;
            Some(plain(figure::ratio(ratio)))
        }),
    ]);
    columns.into_iter().flatten().collect()
}

/// The figures of every table, as far as a case has them.
const MEASURED: [Figure; 6] = [
    Figure::ReceivedPerS,
    Figure::ForwardedPerS,
    Figure::ProducedPerS,
    Figure::ConsumedPerS,
    Figure::CpuPercent,
    Figure::MemoryPeakBytes,
];

/// The latencies of every table but those of studies that are about more of them.
const LATENCIES: [Figure; 2] = [Figure::LatencyP50, Figure::LatencyP99];

/// What a loop that sends in bursts would say itself.
const FROM_SEND: [Figure; 3] = [Figure::FromSendMean, Figure::FromSendP99, Figure::FromSendMax];

/// The figures at a share of the throughput.
const PACED: [Figure; 2] = [Figure::LatencyP50, Figure::LatencyP99];

/// The published figures that stand beside them.
const PUBLISHED: [Figure; 15] = [
    Figure::ForwardedPerS,
    Figure::ProducedPerS,
    Figure::ConsumedPerS,
    Figure::LatencyMin,
    Figure::LatencyMean,
    Figure::LatencyP50,
    Figure::LatencyP75,
    Figure::LatencyP95,
    Figure::LatencyP99,
    Figure::LatencyMax,
    Figure::CallMean,
    Figure::ForwardMean,
    Figure::ArchiveMean,
    Figure::CheckpointShareMean,
    Figure::TotalMean,
];

const fn published_heading(figure: Figure) -> [&'static str; 2] {
    let definition = figure.definition();
    match (definition.quantity, figure) {
        // What says which they are comes first.
        (_, Figure::ForwardMean | Figure::ArchiveMean | Figure::CheckpointShareMean | Figure::TotalMean) => {
            ["published", definition.heading[0]]
        }
        // `latency`, `p99`.
        (Quantity::Microseconds, _) => ["published", definition.heading[1]],
        _ => ["published", definition.heading[0]],
    }
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

/// The latency at a share of the throughput, under a heading that says which.
fn paced(results: &Results, figure: Figure) -> Option<Column> {
    let share = results.cases.iter().find_map(|case| Some(case.paced.as_ref()?.share_percent))?;
    let column = column(results, ["", ""], |case| {
        let paced = case.paced.as_ref().filter(|paced| paced.share_percent == share)?;
        Some(plain(figure.text(figure.of_latency(paced.latency_us()?)?)))
    });
    let heading = [figure.title().into(), format!("at {share} %").into()];
    column.map(|column| Column { heading, ..column })
}

fn column(
    results: &Results,
    heading: [&'static str; 2],
    cell: impl Fn(&Case) -> Option<Cell>,
) -> Option<Column> {
    let cells: Vec<Option<Cell>> = results.cases.iter().map(cell).collect();
    cells.iter().any(Option::is_some).then(|| Column {
        heading: heading.map(Cow::Borrowed),
        cells: cells.into_iter().map(Option::unwrap_or_default).collect(),
    })
}

fn plain(value: String) -> Cell {
    Cell { value, ..Cell::default() }
}

/// A figure over all trials, with the lowest and highest of the trials' own.
fn measured(figure: Figure, case: &Case) -> Option<Cell> {
    let value = figure.of_case(case)?;
    let over_trials = figure.summary(case).or_else(|| figure.over_trials(case));
    // A rate in full with its spread in short: `2,918,479` and `2.87–2.97 M`.
    let spread = |summary: &Summary| match figure.definition().quantity {
        Quantity::PerSecond => spreads(summary, figure::compact),
        _ => spreads(summary, |value| figure.text(value)),
    };
    Some(Cell { value: figure.text(value), ..over_trials.as_ref().map(spread).unwrap_or_default() })
}

/// Everything about a summary but its median.
fn spreads(summary: &Summary, format: impl Fn(f64) -> String) -> Cell {
    let spread =
        (format(summary.min) != format(summary.max)).then(|| range(summary.min, summary.max, &format));
    let interval = summary
        .interval
        .filter(|_| spread.is_some())
        .map(|interval| range(interval.low, interval.high, &format));
    Cell { spread, interval, ..Cell::default() }
}

/// `low–high`. A shared unit is written once, and what prints alike is.
fn range(low: f64, high: f64, format: &dyn Fn(f64) -> String) -> String {
    let (low, high) = (format(low), format(high));
    match (low.split_once(' '), high.split_once(' ')) {
        _ if low == high => high,
        (Some((value, unit)), Some((_, other))) if unit == other => format!("{value}–{high}"),
        _ => format!("{low}–{high}"),
    }
}

#[cfg(test)]
mod tests {
    use super::super::sample;
    use super::*;
    use crate::results::{Prices, Shape};

    fn titles(results: &Results) -> Vec<String> {
        columns(results).iter().map(Column::title).collect()
    }

    #[test]
    fn the_latency_of_a_queue_that_the_load_keeps_is_not_beside_the_throughput() {
        let mut results = sample::quick();
        let has_latency = |results: &Results| titles(results).contains(&"latency p99".to_owned());
        assert!(!has_latency(&results), "{:?}", titles(&results));
        for case in &mut results.cases {
            case.shape = Some(Shape { load: LoadMode::Open, ..case.shape().into_owned() });
        }
        assert!(has_latency(&results), "{:?}", titles(&results));
        assert!(
            titles(&results).contains(&"published forwarded/s".to_owned()),
            "there is no ratio that would say it"
        );
    }

    #[test]
    fn a_latency_beside_a_throughput_says_at_what_share_of_it() {
        let columns = columns(&sample::complete());
        let column = columns.iter().find(|column| column.title() == "latency p99 at 50 %").unwrap();
        assert!(column.cells.iter().all(|cell| !cell.value.is_empty()));
    }

    #[test]
    fn a_cost_has_a_column_only_where_there_are_prices() {
        let mut results = sample::complete();
        let has_cost = |results: &Results| {
            columns(results).into_iter().find(|column| column.title() == "cost of a million")
        };
        assert!(has_cost(&results).is_none());
        results.prices = Some(Prices {
            currency: "EUR".to_owned(),
            core_hour: Some(0.04),
            gib_hour: None,
            throughput_unit_hour: None,
            million_operations: None,
        });
        for case in results.cases.clone() {
            results.put(case);
        }
        let column = has_cost(&results).expect("priced");
        assert!(column.cells.iter().all(|cell| cell.value.ends_with(" EUR")), "{column:?}");
    }
}
