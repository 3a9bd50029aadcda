//! `results.csv`: one row per case and one per trial, for spreadsheets and data frames.
//!
//! The columns are always the same, and units are in their names. In the row of a case the column `trial` is
//! empty and figures are medians over its trials; percentiles are of all samples; the interval of the median, the
//! ends of a search for the highest sustainable rate and our relay over another system (`parshall_ratio_case` is the
//! case of our relay) are the case's alone. A figure that does not exist is an empty field. Quoting is that of RFC 4180.

use std::fmt::Write as _;

use super::{Report, ReportError};
use crate::results::{Case, Delivery, LatencySummary, ParshallRatio, Results, Summary, Trial};
use crate::statistics::Interval;

/// The content of `results.csv`.
#[derive(Debug, Clone, Copy, Default)]
pub struct CsvReport;

impl Report for CsvReport {
    fn render(&self, results: &Results) -> Result<String, ReportError> {
        let mut text = format!("{HEADER}\n");
        for case in &results.cases {
            row(&mut text, results, case, &of_case(case));
            for trial in &case.trials {
                row(&mut text, results, case, &of_trial(case, trial));
            }
        }
        Ok(text)
    }
}

/// The figures of one row.
struct Row<'a> {
    trial: String,
    status: &'static str,
    rates: [Option<f64>; 3],
    cpu_percent: Option<f64>,
    memory_peak_bytes: Option<f64>,
    latency: Option<&'a LatencySummary>,
    delivery: Option<&'a Delivery>,
    forwarded_interval: Option<Interval>,
    sustainable: [Option<f64>; 2],
    parshall_ratio: Option<&'a ParshallRatio>,
}

fn of_case(case: &Case) -> Row<'_> {
    let median = |summary: Option<Summary>| summary.map(|summary| summary.median);
    Row {
        trial: String::new(),
        status: case.status.name(),
        rates: [case.offered_per_s, case.received_per_s, case.forwarded_per_s].map(median),
        cpu_percent: median(case.cpu_percent),
        memory_peak_bytes: median(case.memory_peak_bytes),
        latency: case.latency_us.as_ref(),
        delivery: case.delivery.as_ref(),
        forwarded_interval: case.forwarded_per_s.and_then(|rate| rate.interval),
        sustainable: case
            .capacity
            .as_ref()
            .map_or([None; 2], |capacity| [capacity.highest_passed_per_s, capacity.lowest_failed_per_s]),
        parshall_ratio: case.parshall_ratio.as_ref(),
    }
}

fn of_trial<'a>(case: &Case, trial: &'a Trial) -> Row<'a> {
    let usage = trial.roles.get(&case.measured_role);
    Row {
        trial: trial.number.to_string(),
        status: if trial.interrupted { "interrupted" } else { "completed" },
        rates: [trial.offered_per_s, trial.received_per_s, trial.forwarded_per_s],
        cpu_percent: usage.map(|usage| usage.cpu_percent),
        memory_peak_bytes: usage.map(|usage| usage.memory_peak_bytes as f64),
        latency: trial.latency_us.as_ref(),
        delivery: trial.delivery.as_ref(),
        forwarded_interval: None,
        sustainable: [None; 2],
        parshall_ratio: None,
    }
}

fn row(text: &mut String, results: &Results, case: &Case, row: &Row<'_>) {
    let latency = |figure: fn(&LatencySummary) -> Option<f64>| number(row.latency.and_then(figure));
    let delivery = |figure: fn(&Delivery) -> Option<u64>| {
        row.delivery.and_then(figure).map_or_else(String::new, |value| value.to_string())
    };
    let published = case.published.as_ref();
    let fields = [
        quoted(&results.scenario),
        quoted(&case.name),
        row.trial.clone(),
        row.status.to_owned(),
        number(row.rates[0]),
        number(row.rates[1]),
        number(row.rates[2]),
        number(row.cpu_percent),
        number(row.memory_peak_bytes),
        latency(|summary| summary.min.map(|value| value as f64)),
        latency(|summary| summary.mean),
        latency(|summary| summary.p50.map(|value| value as f64)),
        latency(|summary| summary.p75.map(|value| value as f64)),
        latency(|summary| summary.p95.map(|value| value as f64)),
        latency(|summary| summary.p99.map(|value| value as f64)),
        latency(|summary| summary.p999.map(|value| value as f64)),
        latency(|summary| summary.max.map(|value| value as f64)),
        delivery(|counts| Some(counts.sent)),
        delivery(|counts| counts.acknowledged),
        delivery(|counts| Some(counts.received)),
        delivery(|counts| Some(counts.lost)),
        delivery(|counts| Some(counts.duplicated)),
        delivery(|counts| Some(counts.reordered)),
        delivery(|counts| Some(counts.corrupted)),
        delivery(|counts| counts.unknown),
        number(published.and_then(|figures| figures.received_per_s)),
        number(published.and_then(|figures| figures.forwarded_per_s)),
        quoted(case.sweep.as_deref().unwrap_or_default()),
        number(row.forwarded_interval.map(|interval| interval.low)),
        number(row.forwarded_interval.map(|interval| interval.high)),
        number(row.sustainable[0]),
        number(row.sustainable[1]),
        quoted(row.parshall_ratio.map_or("", |ratio| &ratio.case)),
        number(row.parshall_ratio.and_then(|ratio| ratio.received)),
        number(row.parshall_ratio.and_then(|ratio| ratio.forwarded)),
        number(row.parshall_ratio.and_then(|ratio| ratio.memory_peak)),
        delivery(|counts| counts.redelivered),
        delivery(|counts| counts.dead_lettered),
    ];
    writeln!(text, "{}", fields.join(",")).expect("writing to a String cannot fail");
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

const HEADER: &str = "scenario,case,trial,status,offered_per_s,received_per_s,forwarded_per_s,cpu_percent,\
    memory_peak_bytes,latency_min_us,latency_mean_us,latency_p50_us,latency_p75_us,latency_p95_us,\
    latency_p99_us,latency_p999_us,latency_max_us,sent,acknowledged,received,lost,duplicated,reordered,\
    corrupted,unknown,published_received_per_s,published_forwarded_per_s,sweep,forwarded_interval_low_per_s,\
    forwarded_interval_high_per_s,sustainable_passed_per_s,sustainable_failed_per_s,parshall_ratio_case,\
    parshall_ratio_received,parshall_ratio_forwarded,parshall_ratio_memory_peak,redelivered,dead_lettered";

#[cfg(test)]
mod tests {
    use super::super::sample;
    use super::*;

    #[test]
    fn the_file_has_a_row_per_case_and_per_trial() {
        insta::assert_snapshot!(CsvReport.render(&sample::complete()).unwrap());
    }

    /// The fields of the first case under the last `count` headings.
    fn last_fields(results: &Results, count: usize) -> Vec<String> {
        let text = CsvReport.render(results).unwrap();
        let line = text.lines().nth(1).unwrap();
        let mut fields: Vec<String> = line.rsplitn(count + 1, ',').map(str::to_owned).collect();
        fields.truncate(count);
        fields.reverse();
        fields
    }

    #[test]
    fn the_row_of_a_case_has_its_sweep_its_interval_and_the_ends_of_its_search() {
        let repeated = last_fields(&sample::repeated(), 11);
        assert_eq!(repeated[0], "fan_out");
        let interval = sample::repeated().cases[0].forwarded_per_s.unwrap().interval.unwrap();
        assert_eq!(
            repeated[1..5],
            [number(Some(interval.low)), number(Some(interval.high)), String::new(), String::new()]
        );
        let searched = sample::searched();
        let capacity = searched.cases[0].capacity.clone().unwrap();
        let ends = [capacity.highest_passed_per_s, capacity.lowest_failed_per_s].map(number);
        assert_eq!(last_fields(&searched, 8)[..2], ends);
    }

    #[test]
    fn the_row_of_another_system_has_our_relay_over_it_and_those_of_its_trials_do_not() {
        let mut results = sample::complete();
        results.cases[0].parshall_ratio = Some(ParshallRatio {
            case: "sut=parshall".to_owned(),
            received: None,
            forwarded: Some(24.5),
            memory_peak: Some(0.125),
        });
        assert_eq!(last_fields(&results, 6)[..4], ["sut=parshall", "", "24.5", "0.125"]);
        let text = CsvReport.render(&results).unwrap();
        let of_trial = text.lines().nth(2).unwrap();
        assert!(of_trial.ends_with(",,,,,,"), "{of_trial}");
    }

    #[test]
    fn every_row_has_a_field_per_column_even_if_names_contain_commas_and_quotes() {
        let mut results = sample::interrupted();
        results.scenario = "a".to_owned();
        results.cases[0].name = "x=\"1\",y".to_owned();
        let text = CsvReport.render(&results).unwrap();
        let columns = HEADER.split(',').count();
        for line in text.lines() {
            let line = line.replace("\"x=\"\"1\"\",y\"", "name");
            assert_eq!(line.split(',').count(), columns, "{line}");
        }
    }
}
