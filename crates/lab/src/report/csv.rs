//! `results.csv`: one row per case and one per trial, for spreadsheets and data frames.
//!
//! The columns are always the same, and units are in their names. In the row of a case the column `trial` is
//! empty and figures are medians over its trials; percentiles are of all samples; the interval of the median, the
//! ends of a search for the highest sustainable rate and ours over another system (`parshall_ratio_case` is the
//! case of our relay or producer), the latency at a share of the throughput (`paced_…`), and what a million events cost (of the measured role, and in
//! all where there are prices) are the case's alone. A figure that does not exist is an empty field. Quoting is that of RFC 4180.
//!
//! Where a case has several destinations, there is one more column, `destination`, and each row of that case and of its
//! trials is followed by a row per destination with the figures of its sink. The rows without a destination are those that
//! there would be anyway.

use std::fmt::Write as _;

use super::{Report, ReportError};
use crate::figure;
use crate::results::{Case, Destination, DestinationSummary, Figure, Lag, ParshallRatio, Results, Trial};

/// The content of `results.csv`.
#[derive(Debug, Clone, Copy, Default)]
pub struct CsvReport;

impl Report for CsvReport {
    fn render(&self, results: &Results) -> Result<String, ReportError> {
        let has_destinations = results.cases.iter().any(|case| !case.destinations.is_empty());
        let columns = &COLUMNS[..COLUMNS.len() - usize::from(!has_destinations)];
        let headings: Vec<String> = columns.iter().map(|column| column.heading()).collect();
        let mut text = format!("{}\n", headings.join(","));
        for row in results.cases.iter().flat_map(rows) {
            let fields: Vec<String> = columns.iter().map(|column| row.field(results, *column)).collect();
            writeln!(text, "{}", fields.join(",")).expect("writing to a String cannot fail");
        }
        Ok(text)
    }
}

/// A row of a case, or of one of its trials; or of one destination of either.
struct Row<'a> {
    case: &'a Case,
    trial: Option<&'a Trial>,
    /// Its name, and its figures.
    destination: Option<(&'a str, At<'a>)>,
}

/// The figures of a destination.
enum At<'a> {
    Case(&'a DestinationSummary),
    Trial(&'a Destination),
}

/// All rows of a case.
fn rows(case: &Case) -> Vec<Row<'_>> {
    let mut rows = vec![Row { case, trial: None, destination: None }];
    let of_case = case.destinations.iter().map(|(name, figures)| (name.as_str(), At::Case(figures)));
    rows.extend(of_case.map(|at| Row { case, trial: None, destination: Some(at) }));
    for trial in &case.trials {
        let trial_row = |destination| Row { case, trial: Some(trial), destination };
        rows.push(trial_row(None));
        let of_trial = trial.destinations.iter().map(|(name, figures)| (name.as_str(), At::Trial(figures)));
        rows.extend(of_trial.map(|at| trial_row(Some(at))));
    }
    rows
}

impl Row<'_> {
    fn field(&self, results: &Results, column: Column) -> String {
        let Self { case, trial, destination } = self;
        let of_case = trial.is_none() && destination.is_none();
        let published = |figure: Figure| {
            let published = case.published.as_ref().filter(|_| destination.is_none());
            number(published.and_then(|all| all.get(figure)))
        };
        let interval = || case.forwarded_per_s.and_then(|rate| rate.interval).filter(|_| of_case);
        let capacity = || case.capacity.as_ref().filter(|_| of_case);
        let ratio = || case.parshall_ratio.as_ref().filter(|_| of_case);
        let paced = || case.paced.as_ref().filter(|_| of_case);
        let cost = || case.cost.as_ref().filter(|_| of_case);
        let measured = || cost()?.roles.get(&case.measured_role);
        let ratio_of = |figure: fn(&ParshallRatio) -> Option<f64>| number(ratio().and_then(figure));
        match column {
            Column::Scenario => quoted(&results.scenario),
            Column::Case => quoted(&case.name),
            Column::Trial => trial.map_or_else(String::new, |trial| trial.number.to_string()),
            Column::Status => match trial {
                None => case.status.name(),
                Some(trial) if trial.interrupted => "interrupted",
                Some(_) => "completed",
            }
            .to_owned(),
            Column::Of(figure) => number(match (destination, trial) {
                (Some((_, At::Case(at))), _) => figure.of_case_at(at),
                (Some((_, At::Trial(at))), _) => figure.of_trial_at(at),
                (None, Some(trial)) => figure.of_trial(case, trial),
                (None, None) => figure.of_case(case),
            }),
            Column::Published(figure) => published(figure),
            Column::Sweep => quoted(case.sweep.as_deref().unwrap_or_default()),
            Column::IntervalLow => number(interval().map(|interval| interval.low)),
            Column::IntervalHigh => number(interval().map(|interval| interval.high)),
            Column::HighestPassed => number(capacity().and_then(|capacity| capacity.highest_passed_per_s)),
            Column::LowestFailed => number(capacity().and_then(|capacity| capacity.lowest_failed_per_s)),
            Column::RatioCase => quoted(ratio().map_or("", |ratio| &ratio.case)),
            Column::RatioReceived => ratio_of(|ratio| ratio.received),
            Column::RatioForwarded => ratio_of(|ratio| ratio.forwarded),
            Column::RatioProduced => ratio_of(|ratio| ratio.produced),
            Column::RatioMemory => ratio_of(|ratio| ratio.memory_peak),
            Column::PacedRate => number(paced().map(|paced| paced.rate_per_s)),
            Column::Paced(figure) => number(paced().and_then(|paced| figure.of_latency(paced.latency_us()?))),
            Column::Lag(figure) => {
                let lag = trial.and_then(|trial| trial.lag.as_ref()).filter(|_| destination.is_none());
                number(lag.map(|lag| figure.of(lag) as f64))
            }
            Column::CoreSeconds => number(measured().map(|cost| cost.core_seconds)),
            Column::GibSeconds => number(measured().map(|cost| cost.gib_seconds)),
            Column::CostTotal => cost().and_then(|cost| cost.total).map_or_else(String::new, figure::price),
            Column::Currency => {
                let prices = results.prices.as_ref().filter(|_| of_case);
                quoted(prices.map_or("", |prices| &prices.currency))
            }
            Column::Destination => quoted(destination.as_ref().map_or("", |(name, _)| name)),
        }
    }
}

/// What stands in a column.
#[derive(Debug, Clone, Copy)]
enum Column {
    Scenario,
    Case,
    Trial,
    Status,
    Of(Figure),
    Published(Figure),
    Sweep,
    IntervalLow,
    IntervalHigh,
    HighestPassed,
    LowestFailed,
    RatioCase,
    RatioReceived,
    RatioForwarded,
    RatioProduced,
    RatioMemory,
    PacedRate,
    Paced(Figure),
    Lag(LagFigure),
    CoreSeconds,
    GibSeconds,
    CostTotal,
    Currency,
    Destination,
}

/// Which reading of the lag of a trial.
#[derive(Debug, Clone, Copy)]
enum LagFigure {
    Begin,
    End,
    Peak,
}

impl LagFigure {
    const fn of(self, lag: &Lag) -> u64 {
        match self {
            Self::Begin => lag.begin_events,
            Self::End => lag.end_events,
            Self::Peak => lag.peak_events,
        }
    }
}

impl Column {
    fn heading(self) -> String {
        let fixed = match self {
            Self::Of(figure) => figure.definition().flat,
            Self::Paced(figure) => return format!("paced_{}", figure.definition().flat),
            Self::Published(figure) => return format!("published_{}", figure.definition().flat),
            Self::Scenario => "scenario",
            Self::Case => "case",
            Self::Trial => "trial",
            Self::Status => "status",
            Self::Sweep => "sweep",
            Self::IntervalLow => "forwarded_interval_low_per_s",
            Self::IntervalHigh => "forwarded_interval_high_per_s",
            Self::HighestPassed => "sustainable_passed_per_s",
            Self::LowestFailed => "sustainable_failed_per_s",
            Self::RatioCase => "parshall_ratio_case",
            Self::RatioReceived => "parshall_ratio_received",
            Self::RatioForwarded => "parshall_ratio_forwarded",
            Self::RatioProduced => "parshall_ratio_produced",
            Self::RatioMemory => "parshall_ratio_memory_peak",
            Self::PacedRate => "paced_per_s",
            Self::Lag(LagFigure::Begin) => "lag_begin_events",
            Self::Lag(LagFigure::End) => "lag_end_events",
            Self::Lag(LagFigure::Peak) => "lag_peak_events",
            Self::CoreSeconds => "core_seconds_per_million",
            Self::GibSeconds => "gib_seconds_per_million",
            Self::CostTotal => "cost_per_million",
            Self::Currency => "currency",
            Self::Destination => "destination",
        };
        fixed.to_owned()
    }
}

fn number(value: Option<f64>) -> String {
    value.map_or_else(String::new, |value| ((value * 1_000.0).round() / 1_000.0).to_string())
}

fn quoted(text: &str) -> String {
    if text.contains([',', '"', '\n', '\r']) {
        format!("\"{}\"", text.replace('"', "\"\""))
    } else {
        text.to_owned()
    }
}

/// All columns. New ones go to the end, so that programs which count them go on to work; the last one is only there if a
/// case has several destinations.
const COLUMNS: &[Column] = &[
    Column::Scenario,
    Column::Case,
    Column::Trial,
    Column::Status,
    Column::Of(Figure::OfferedPerS),
    Column::Of(Figure::ReceivedPerS),
    Column::Of(Figure::ForwardedPerS),
    Column::Of(Figure::CpuPercent),
    Column::Of(Figure::MemoryPeakBytes),
    Column::Of(Figure::LatencyMin),
    Column::Of(Figure::LatencyMean),
    Column::Of(Figure::LatencyP50),
    Column::Of(Figure::LatencyP75),
    Column::Of(Figure::LatencyP95),
    Column::Of(Figure::LatencyP99),
    Column::Of(Figure::LatencyP999),
    Column::Of(Figure::LatencyMax),
    Column::Of(Figure::Sent),
    Column::Of(Figure::Acknowledged),
    Column::Of(Figure::Received),
    Column::Of(Figure::Lost),
    Column::Of(Figure::Duplicated),
    Column::Of(Figure::Reordered),
    Column::Of(Figure::Corrupted),
    Column::Of(Figure::Unknown),
    Column::Published(Figure::ReceivedPerS),
    Column::Published(Figure::ForwardedPerS),
    Column::Sweep,
    Column::IntervalLow,
    Column::IntervalHigh,
    Column::HighestPassed,
    Column::LowestFailed,
    Column::RatioCase,
    Column::RatioReceived,
    Column::RatioForwarded,
    Column::RatioMemory,
    Column::Of(Figure::Redelivered),
    Column::Of(Figure::DeadLettered),
    Column::Of(Figure::ProducedPerS),
    Column::Of(Figure::ConsumedPerS),
    Column::Published(Figure::ProducedPerS),
    Column::Published(Figure::LatencyP99),
    Column::PacedRate,
    Column::Paced(Figure::LatencyP50),
    Column::Paced(Figure::LatencyP99),
    Column::Paced(Figure::LatencyP999),
    Column::Paced(Figure::LatencyMax),
    Column::Lag(LagFigure::Begin),
    Column::Lag(LagFigure::End),
    Column::Lag(LagFigure::Peak),
    Column::Of(Figure::Unexpected),
    Column::Of(Figure::Foreign),
    Column::Of(Figure::Misplaced),
    Column::Of(Figure::WithDuplicatesPerS),
    Column::CoreSeconds,
    Column::GibSeconds,
    Column::CostTotal,
    Column::Currency,
    Column::Of(Figure::FromSendMin),
    Column::Of(Figure::FromSendMean),
    Column::Of(Figure::FromSendP50),
    Column::Of(Figure::FromSendP75),
    Column::Of(Figure::FromSendP95),
    Column::Of(Figure::FromSendP99),
    Column::Of(Figure::FromSendP999),
    Column::Of(Figure::FromSendMax),
    Column::Published(Figure::OfferedPerS),
    Column::Published(Figure::LatencyMin),
    Column::Published(Figure::LatencyMean),
    Column::Published(Figure::LatencyP50),
    Column::Published(Figure::LatencyP75),
    Column::Published(Figure::LatencyP95),
    Column::Published(Figure::LatencyMax),
    Column::Of(Figure::CallMean),
    Column::Of(Figure::CallP50),
    Column::Of(Figure::CallP99),
    Column::Of(Figure::AnswerMean),
    Column::Of(Figure::AnswerP50),
    Column::Of(Figure::AnswerP99),
    Column::Of(Figure::ConnectionsOpened),
    Column::Of(Figure::BytesPerEvent),
    Column::Of(Figure::SystemCallsPerEvent),
    Column::RatioProduced,
    Column::Of(Figure::ForwardMean),
    Column::Of(Figure::ArchiveMean),
    Column::Of(Figure::CheckpointShareMean),
    Column::Of(Figure::TotalMean),
    Column::Destination,
];

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::super::sample;
    use super::*;
    use crate::results::{Delivery, LatencySummary, Summary};

    #[test]
    fn the_file_has_a_row_per_case_and_per_trial() {
        insta::assert_snapshot!(CsvReport.render(&sample::complete()).unwrap());
    }

    /// The fields of a row by their headings, without those that are empty.
    fn fields<'a>(text: &'a str, row: &'a str) -> BTreeMap<&'a str, &'a str> {
        let headings = text.lines().next().unwrap().split(',');
        headings.zip(row.split(',')).filter(|(_, field)| !field.is_empty()).collect()
    }

    #[test]
    fn each_of_several_destinations_has_a_row_of_its_own_after_that_of_its_case_and_trial() {
        let mut results = sample::complete();
        results.cases.truncate(2);
        let case = &mut results.cases[0];
        case.trials.truncate(1);
        let delivery = case.delivery.unwrap();
        let delivery = |lost| Delivery { lost, ..delivery };
        let whole = case.latency_us.clone().unwrap();
        let latency = |p50| LatencySummary { p50: Some(p50), ..whole.clone() };
        for (name, lost, p50) in [("out", 0, 900), ("audit", 7, 1_800)] {
            let summary = DestinationSummary {
                consumed_per_s: Summary::of([1_000.0, 3_000.0]),
                latency_us: Some(latency(p50)),
                delivery: Some(delivery(lost)),
            };
            let of_trial = Destination {
                consumed_per_s: Some(3_000.0),
                latency_us: Some(latency(p50 + 1)),
                delivery: Some(delivery(lost)),
            };
            case.destinations.insert(name.to_owned(), summary);
            case.trials[0].destinations.insert(name.to_owned(), of_trial);
        }
        let text = CsvReport.render(&results).unwrap();
        let rows: Vec<_> = text.lines().skip(1).map(|row| fields(&text, row)).collect();
        let names: Vec<_> = rows[..6].iter().map(|row| row.get("destination").copied()).collect();
        assert_eq!(names, [None, Some("audit"), Some("out")].repeat(2));
        let audit = &rows[1];
        assert_eq!((audit["consumed_per_s"], audit["latency_p50_us"], audit["lost"]), ("2000", "1800", "7"));
        assert_eq!((audit["case"], audit["status"]), (rows[0]["case"], rows[0]["status"]));
        let of_the_case = ["offered_per_s", "forwarded_per_s", "cpu_percent", "published_forwarded_per_s"];
        assert!(of_the_case.iter().all(|heading| !audit.contains_key(heading)), "{audit:?}");
        let of_trial = &rows[5];
        assert_eq!(
            (of_trial["trial"], of_trial["consumed_per_s"], of_trial["latency_p50_us"]),
            ("1", "3000", "901")
        );
        // A case with one destination has the rows that it always had, in the same file.
        assert!(rows[6..].iter().all(|row| !row.contains_key("destination")));

        // Without the new column and rows, the file is what it was.
        let before: Vec<_> = text.lines().filter_map(|line| line.strip_suffix(',')).collect();
        results.cases[0].destinations.clear();
        results.cases[0].trials[0].destinations.clear();
        let plain = CsvReport.render(&results).unwrap();
        assert_eq!(plain.lines().skip(1).collect::<Vec<_>>(), before);
        assert!(!plain.contains("destination"));
    }

    #[test]
    fn the_row_of_a_case_has_its_sweep_its_interval_and_the_ends_of_its_search() {
        let results = sample::repeated();
        let text = CsvReport.render(&results).unwrap();
        let row = fields(&text, text.lines().nth(1).unwrap());
        let interval = results.cases[0].forwarded_per_s.unwrap().interval.unwrap();
        let [low, high] = [interval.low, interval.high].map(|end| number(Some(end)));
        assert_eq!(row["sweep"], "fan_out");
        assert_eq!(
            (row["forwarded_interval_low_per_s"], row["forwarded_interval_high_per_s"]),
            (low.as_str(), high.as_str())
        );
        assert!(!row.contains_key("sustainable_passed_per_s"));
        let text = CsvReport.render(&sample::searched()).unwrap();
        let row = fields(&text, text.lines().nth(1).unwrap());
        assert_eq!((row["sustainable_passed_per_s"], row["sustainable_failed_per_s"]), ("28280", "40000"));
    }

    #[test]
    fn the_row_of_another_system_has_our_relay_over_it_and_those_of_its_trials_do_not() {
        let mut results = sample::complete();
        results.cases[0].parshall_ratio = Some(ParshallRatio {
            case: "sut=parshall".to_owned(),
            received: None,
            forwarded: Some(24.5),
            forwarded_range: None,
            produced: None,
            produced_range: None,
            memory_peak: Some(0.125),
        });
        let text = CsvReport.render(&results).unwrap();
        let row = fields(&text, text.lines().nth(1).unwrap());
        assert_eq!(
            (row["parshall_ratio_case"], row["parshall_ratio_forwarded"], row["parshall_ratio_memory_peak"]),
            ("sut=parshall", "24.5", "0.125")
        );
        assert!(!row.contains_key("parshall_ratio_received"));
        let of_trial = fields(&text, text.lines().nth(2).unwrap());
        assert!(!of_trial.keys().any(|heading| heading.starts_with("parshall_ratio")), "{of_trial:?}");
    }

    #[test]
    fn the_lag_at_both_edges_is_in_the_rows_of_trials() {
        let mut results = sample::complete();
        results.cases[0].trials[0].lag = Some(Lag { begin_events: 3, end_events: 0, peak_events: 7 });
        let text = CsvReport.render(&results).unwrap();
        let [of_case, of_trial] = [1, 2].map(|row| fields(&text, text.lines().nth(row).unwrap()));
        let names = ["lag_begin_events", "lag_end_events", "lag_peak_events"];
        assert_eq!(names.map(|name| of_trial[name]), ["3", "0", "7"]);
        assert!(names.iter().all(|name| !of_case.contains_key(name)));
    }

    #[test]
    fn every_row_has_a_field_per_column_even_if_names_contain_commas_and_quotes() {
        let mut results = sample::interrupted();
        results.scenario = "a".to_owned();
        results.cases[0].name = "x=\"1\",y".to_owned();
        let text = CsvReport.render(&results).unwrap();
        let columns = COLUMNS.len() - 1;
        for line in text.lines() {
            let line = line.replace("\"x=\"\"1\"\",y\"", "name");
            assert_eq!(line.split(',').count(), columns, "{line}");
        }
    }
}
