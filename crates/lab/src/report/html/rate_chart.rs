//! Latency over rate: where a pipeline that follows its load becomes one that falls behind.

use super::grid::{Grid, GridCell, GridRow};
use super::line_chart::{LineChart, Series};
use super::scale::Scale;
use crate::figure;
use crate::report::search::{HEADINGS, rows};
use crate::results::{Capacity, Probe, ProbeOutcome};

/// The search of a case, ready to be shown.
#[derive(Debug)]
pub(super) struct SearchSection {
    pub(super) sentence: String,
    pub(super) chart: Option<String>,
    pub(super) probes: Option<Grid>,
}

impl SearchSection {
    pub(super) fn of(capacity: &Capacity) -> Self {
        Self { sentence: capacity.sentence(), chart: chart(capacity), probes: probes(capacity) }
    }
}

fn chart(capacity: &Capacity) -> Option<String> {
    let mut probes: Vec<&Probe> = capacity.probes.iter().collect();
    probes.sort_by(|one, other| one.rate_per_s.total_cmp(&other.rate_per_s));
    let points = |figure: fn(&Probe) -> Option<u64>, is_shown: fn(&Probe) -> bool| -> Vec<(f64, f64)> {
        let shown = probes.iter().filter(|probe| is_shown(probe));
        shown.filter_map(|probe| Some((probe.rate_per_s, (figure(probe)? as f64).max(1.0)))).collect()
    };
    let has_passed = |probe: &Probe| probe.outcome == Some(ProbeOutcome::Passed);
    let p50 = points(|probe| probe.p50_us, |_| true);
    let p99 = points(|probe| probe.p99_us, has_passed);
    let failed = points(|probe| probe.p99_us, |probe| probe.outcome != Some(ProbeOutcome::Passed));
    let all = || p50.iter().chain(&p99).chain(&failed);
    let ends = all().map(|(rate, _)| *rate);
    let (lowest, highest) = ends.fold(None, |ends: Option<(f64, f64)>, rate| {
        let (low, high) = ends.unwrap_or((rate, rate));
        Some((low.min(rate), high.max(rate)))
    })?;
    let bound = (capacity.bound_us as f64).max(1.0);
    let series = |name: &str, class: &str, points| Series {
        name: name.to_owned(),
        class: class.to_owned(),
        is_scattered: true,
        points,
    };
    let values = all().map(|(_, latency)| *latency);
    let vertical = Scale::logarithmic(values.chain([bound]).collect::<Vec<_>>());
    let horizontal = Scale::logarithmic([lowest, highest]);
    LineChart {
        caption: "Latency over rate",
        unit: "end to end; both axes logarithmic; a point per probe",
        horizontal_ticks: horizontal.ticks().into_iter().map(|tick| (tick, figure::compact(tick))).collect(),
        horizontal,
        horizontal_unit: "events/s offered",
        place_format: |rate| format!("{}/s", figure::rate(rate)),
        vertical,
        axis_format: figure::compact_duration_us,
        value_format: figure::duration_us,
        series: vec![
            series("p99", "s1", p99),
            series("p99 of a probe that did not pass", "s5", failed),
            series("p50", "s2", p50),
            Series {
                name: format!("bound of p{}", capacity.percentile),
                class: "s0 dashed".to_owned(),
                is_scattered: false,
                points: vec![(lowest, bound), (highest, bound)],
            },
        ],
    }
    .figure()
}

fn probes(capacity: &Capacity) -> Option<Grid> {
    let mut grid = Grid::new(HEADINGS.into_iter().chain(["verdict"]));
    for row in rows(capacity) {
        let plain = |value: &String| GridCell { value: value.clone(), ..GridCell::default() };
        let verdict = GridCell {
            value: row.verdict.to_owned(),
            spread: row.reason.clone(),
            alarming: row.alarming,
            ..GridCell::default()
        };
        let [number, cells @ ..] = &row.cells;
        grid.rows.push(GridRow {
            name: number.clone(),
            cells: cells.iter().map(plain).chain([verdict]).collect(),
            ..GridRow::default()
        });
    }
    grid.without_empty_columns()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::sample;

    #[test]
    fn the_section_shows_every_rate_and_the_bound() {
        let results = sample::searched();
        let section = SearchSection::of(results.cases[0].capacity.as_ref().unwrap());
        let grid = section.probes.unwrap();
        assert_eq!(grid.rows.len(), 5);
        assert!(grid.rows[2].cells.last().unwrap().alarming);
        let chart = section.chart.unwrap();
        assert!(chart.contains("Latency over rate") && chart.contains("bound of p99"));
        let points = |class: &str| chart.matches(&format!("<circle class=\"point {class}\"")).count();
        assert_eq!(
            (points("s1"), points("s5"), points("s2")),
            (4, 1, 5),
            "one per probe, and those that failed apart"
        );
        assert_eq!(chart.matches("<polyline").count(), 1, "only the bound is a line");
    }
}
