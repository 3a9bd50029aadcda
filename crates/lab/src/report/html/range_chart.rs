//! Where the samples of several stages lie: from the shortest to the longest, on one logarithmic axis.

use super::drawing::Area;
use super::row_chart::RowChart;
use super::scale::Scale;
use crate::figure;
use crate::results::LatencySummary;

/// One row per stage: a thin line from minimum to maximum, a bar from p50 to p99, a mark at p50.
pub(super) fn range_figure(caption: &str, rows: &[(String, &LatencySummary)]) -> Option<String> {
    let rows: Vec<_> = rows
        .iter()
        .filter_map(|(name, summary)| Some((name, *summary, summary.min?, summary.max?)))
        .collect();
    if rows.is_empty() {
        return None;
    }
    // The axis cannot show zero: whatever takes less than a microsecond lies at its start.
    let shown = |latency: u64| (latency as f64).max(1.0);
    let ends = |(.., min, max): &(_, _, u64, u64)| [shown(*min), shown(*max)];
    let scale = Scale::logarithmic(rows.iter().flat_map(ends));
    let chart = RowChart::new(scale, LEFT);
    let names: Vec<&str> = rows.iter().map(|(name, ..)| name.as_str()).collect();
    let label = figure::compact_duration_us;
    let mut drawing = chart.drawing(caption, &description(&rows), &names, label);
    let x = |value: f64| chart.x(value);
    for (index, (name, summary, min, max)) in rows.iter().enumerate() {
        let y = RowChart::y(index);
        drawing.line("range s1", (x(shown(*min)), y), (x(shown(*max)), y));
        if let Some(median) = summary.p50 {
            let median = x(median as f64);
            if let Some(p99) = summary.p99 {
                let area =
                    Area { x: median, y: y - 6.0, width: (x(p99 as f64) - median).max(1.0), height: 12.0 };
                drawing.rectangle("bar s1", area, &hint(name, summary));
            }
            drawing.line("median", (median, y - 9.0), (median, y + 9.0));
        }
    }
    Some(drawing.figure(caption, "line: minimum to maximum; bar: p50 to p99", &[]))
}

fn hint(name: &str, summary: &LatencySummary) -> String {
    let time =
        |value: Option<u64>| value.map_or_else(|| "–".to_owned(), |value| figure::duration_us(value as f64));
    format!("{name}: p50 {}, p99 {}, max {}", time(summary.p50), time(summary.p99), time(summary.max))
}

fn description(rows: &[(&String, &LatencySummary, u64, u64)]) -> String {
    rows.iter().map(|(name, summary, ..)| hint(name, summary)).collect::<Vec<_>>().join("; ")
}

const LEFT: f64 = 96.0;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::LatencyDistribution;

    #[test]
    fn a_stage_of_less_than_a_microsecond_has_its_row() {
        let mut distribution = LatencyDistribution::new();
        distribution.record_many(0, 200);
        let summary = distribution.summary().unwrap();
        let figure = range_figure("Stages", &[("send".to_owned(), &summary)]).unwrap();
        assert!(figure.contains("send: p50 0 µs, p99 0 µs, max 0 µs"));
        assert!(!figure.contains("NaN") && !figure.contains("inf"));
    }

    #[test]
    fn no_stages_are_no_chart() {
        assert_eq!(range_figure("Stages", &[]), None);
    }
}
