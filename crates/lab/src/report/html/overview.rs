//! The part of the page that is about all cases: the figures at a glance, the table, throughput, latency.

use super::bar_chart::{Bar, BarChart, Group};
use super::grid::{Grid, GridCell, GridRow};
use super::line_chart::{LineChart, Series};
use super::scale::Scale;
use crate::figure;
use crate::report::columns::{columns, table_begins};
use crate::results::{Case, CurvePoint, Delivery, Figure, PublishedRatio, Results, Summary};

/// One figure at a glance.
#[derive(Debug)]
pub(super) struct Card {
    pub(super) value: String,
    pub(super) label: String,
    /// `good`, `bad` or empty.
    pub(super) class: &'static str,
}

/// The figures that sum the run up.
pub(super) fn cards(results: &Results) -> Vec<Card> {
    let cases = &results.cases;
    let noun = results.shape().noun;
    // Only figures that can be believed are put into such large letters.
    let passed = || cases.iter().filter(|case| case.passed);
    let fastest = passed().filter_map(|case| Some((case, case.throughput()?.median)));
    let fastest = fastest.max_by(|one, other| one.1.total_cmp(&other.1)).map(|(case, rate)| Card {
        value: figure::compact(rate),
        label: format!("{noun}/s in the fastest case, {}", case.name),
        class: "",
    });
    let ratios = ratio_to_peers(passed()).or_else(|| ratio_to_published(passed()));
    let delivery = Delivery::sum(cases.iter().filter_map(|case| case.delivery.as_ref()));
    let lost = delivery.map(|delivery| {
        let harmed = delivery.lost + delivery.corrupted.unwrap_or(0);
        let harm = if delivery.corrupted.is_some() { "lost or corrupted" } else { "lost" };
        Card {
            value: figure::count(harmed),
            label: format!("{noun} {harm} of {}", figure::compact(delivery.sent as f64)),
            class: if harmed == 0 { "good" } else { "bad" },
        }
    });
    let generators =
        || cases.iter().flat_map(Case::completed_trials).filter_map(|trial| trial.generator.as_ref());
    let kept_up = generators().all(|health| health.healthy);
    let generator = generators().next().map(|_| Card {
        value: if kept_up { "kept up" } else { "fell behind" }.to_owned(),
        label: "the load generator".to_owned(),
        class: if kept_up { "good" } else { "bad" },
    });
    [fastest, ratios, lost, generator].into_iter().flatten().collect()
}

/// Ours over the other systems that were measured on the same machine.
fn ratio_to_peers<'a>(cases: impl Iterator<Item = &'a Case>) -> Option<Card> {
    let ratios = cases.filter_map(|case| {
        let ratio = case.parshall_ratio.as_ref()?;
        let (median, range) = match ratio.produced {
            Some(produced) => (produced, ratio.produced_range),
            None => (ratio.forwarded?, ratio.forwarded_range),
        };
        Some((range.map_or(median, |range| range.low), range.map_or(median, |range| range.high)))
    });
    let (low, high) = ratios.reduce(|one, other| (one.0.min(other.0), one.1.max(other.1)))?;
    Some(ratio_card(low, high, "the other systems, measured on this machine".to_owned()))
}

/// The ratio to what was published, with its condition; none where the cases differ in that.
fn ratio_to_published<'a>(cases: impl Iterator<Item = &'a Case>) -> Option<Card> {
    let ratios: Vec<PublishedRatio<'_>> = cases.filter_map(Case::ratio_to_published).collect();
    let source = ratios.first()?.source;
    let all = Summary::of(ratios.iter().map(|each| each.ratio))?;
    let is_one = ratios.iter().all(|each| each.source == source);
    is_one.then(|| ratio_card(all.min, all.max, format!("the published throughput ({source})")))
}

fn ratio_card(low: f64, high: f64, label: String) -> Card {
    let value = match (figure::ratio(low), figure::ratio(high)) {
        (low, high) if low == high => high,
        (low, high) => format!("{}–{high}", low.trim_end_matches('×')),
    };
    Card { value, label, class: "" }
}

/// The result table; `None` before the first case.
pub(super) fn table(results: &Results) -> Option<Grid> {
    let columns = columns(results);
    let titles: Vec<String> = columns.iter().map(|column| column.title()).collect();
    let mut grid = Grid::new(["case"].into_iter().chain(titles.iter().map(String::as_str)));
    let begins = table_begins(results);
    for (index, case) in results.cases.iter().enumerate() {
        let cells = columns.iter().map(|column| {
            let cell = &column.cells[index];
            GridCell {
                value: cell.value.clone(),
                spread: cell.spread.clone().unwrap_or_default(),
                interval: cell.interval.clone().unwrap_or_default(),
                alarming: cell.alarming,
            }
        });
        grid.rows.push(GridRow {
            name: case.name.clone(),
            remark: if case.passed { String::new() } else { case.status.name().to_owned() },
            class: case.status.name(),
            begins: begins[index],
            cells: cells.collect(),
        });
    }
    (!grid.rows.is_empty()).then_some(grid)
}

/// Throughput beside the published figures, and the percentile curves.
pub(super) fn charts(results: &Results) -> Vec<String> {
    [throughput_chart(results), curve_chart(results)].into_iter().flatten().collect()
}

fn throughput_chart(results: &Results) -> Option<String> {
    let groups = results.cases.iter().map(|case| {
        let measured = case.throughput().map(|value| Bar { name: "measured", class: "s1", value });
        let published = case.published.as_ref().and_then(|figures| {
            let value = Figure::THROUGHPUT.into_iter().find_map(|figure| figures.get(figure))?;
            let value = Summary::of_one(value);
            Some(Bar { name: "published", class: "s0", value })
        });
        Group { name: case.name.clone(), bars: measured.into_iter().chain(published).collect() }
    });
    let throughput = |case| Figure::THROUGHPUT.into_iter().find(|figure| figure.summary(case).is_some());
    let heading =
        results.cases.iter().find_map(throughput).unwrap_or(Figure::ForwardedPerS).definition().heading[0];
    let done = heading.trim_end_matches("/s");
    BarChart {
        caption: "Throughput",
        unit: &format!("{} {done} per second", results.shape().noun),
        value_format: figure::rate,
        groups: groups.filter(|group| !group.bars.is_empty()).collect(),
    }
    .figure()
}

fn curve_chart(results: &Results) -> Option<String> {
    let series = results.cases.iter().enumerate().map(|(index, case)| {
        curve(case.name.clone(), format!("s{}", index % COLOURS + 1), &case.latency_curve)
    });
    curve_figure(series.collect())
}

/// The percentile curves of one case: from the intended instants, and from the real sends.
pub(super) fn case_curve_chart(case: &Case) -> Option<String> {
    curve_figure(vec![
        curve("from the intended instant".to_owned(), "s1".to_owned(), &case.latency_curve),
        curve("from the real send".to_owned(), "s0 dashed".to_owned(), &case.uncorrected_latency_curve),
    ])
}

fn curve(name: String, class: String, points: &[CurvePoint]) -> Series {
    let points = points.iter().map(|point| (nines(point.percentile), (point.latency_us as f64).max(1.0)));
    Series { name, class, is_scattered: false, points: points.collect() }
}

fn curve_figure(series: Vec<Series>) -> Option<String> {
    let points = || series.iter().flat_map(|series| &series.points);
    let last = points().map(|(nines, _)| *nines).fold(1.0, f64::max);
    LineChart {
        caption: "Latency percentiles",
        unit: "end to end; both axes logarithmic",
        horizontal: Scale::exactly(0.0, last),
        horizontal_ticks: (0..=last.floor() as i32)
            .map(|nines| (f64::from(nines), percentile_name(f64::from(nines))))
            .chain([(-(0.5_f64.log10()), "50".to_owned())])
            .collect(),
        horizontal_unit: "percentile",
        place_format: |nines| format!("p{}", percentile_name(nines)),
        vertical: Scale::logarithmic(points().map(|(_, latency)| *latency)),
        axis_format: figure::compact_duration_us,
        value_format: figure::duration_us,
        series,
    }
    .figure()
}

/// Where a percentile lies on the axis: the number of nines, so 99 is 2 and 99.9 is 3.
fn nines(percentile: f64) -> f64 {
    -(1.0 - percentile / 100.0).log10()
}

/// The percentile with so many nines, with as many decimals as it takes.
fn percentile_name(nines: f64) -> String {
    let percentile = 100.0 - 100.0 * 10_f64.powf(-nines);
    let decimals = (nines.ceil() as usize).saturating_sub(2).max(usize::from(nines.fract() != 0.0));
    format!("{percentile:.decimals$}")
}

/// Colours that the style sheet has for series; more series begin again.
const COLOURS: usize = 6;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_named_with_their_nines() {
        assert_eq!([0.0, 1.0, 2.0, 3.0, 4.0].map(percentile_name), ["0", "90", "99", "99.9", "99.99"]);
        assert_eq!(percentile_name(nines(50.0)), "50.0");
        assert!((nines(99.0) - 2.0).abs() < 1e-9);
    }
}
