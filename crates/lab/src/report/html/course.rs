//! A trial second by second: how fast, how late and at what cost it went on. The live page of a run draws the same charts while the
//! trial goes on.

use super::line_chart::{LineChart, Series};
use super::scale::Scale;
use crate::figure;
use crate::results::{Case, Interval, LatencyInterval, Noun, Role, Trial};

/// The course of one trial.
#[derive(Debug)]
pub(super) struct Course {
    pub(super) title: String,
    /// The charts, as HTML.
    pub(super) charts: Vec<String>,
}

impl Course {
    pub(super) fn of(case: &Case, trial: &Trial) -> Option<Self> {
        let noun = case.shape().noun;
        let intervals = &trial.intervals;
        // Where nothing forwards, what comes through is consumed.
        let received = if trial.consumed_per_s.is_some() { "consumed" } else { "received" };
        let charts: Vec<String> = [
            throughput(intervals, noun, received),
            lag(intervals, noun),
            latency(trial),
            cpu(intervals),
            memory(intervals),
        ]
        .into_iter()
        .flatten()
        .collect();
        (!charts.is_empty()).then(|| Self { title: Self::title(case, trial), charts })
    }

    pub(super) fn title(case: &Case, trial: &Trial) -> String {
        let interrupted = if trial.interrupted { ", interrupted" } else { "" };
        format!("Trial {} of {}{interrupted}", trial.number, case.planned_trials)
    }
}

/// The charts of a trial that goes on, as HTML: what is known of it before its records are read. None without intervals.
pub(crate) fn course_so_far(intervals: &[Interval], noun: Noun) -> Vec<String> {
    [throughput(intervals, noun, "received"), lag(intervals, noun), cpu(intervals), memory(intervals)]
        .into_iter()
        .flatten()
        .collect()
}

fn throughput(intervals: &[Interval], noun: Noun, received: &str) -> Option<String> {
    let series = [
        ("offered", "s0 dashed", (|interval| interval.offered_per_s) as fn(&Interval) -> Option<f64>),
        (received, "s2", |interval| interval.received_per_s),
        ("forwarded", "s1", |interval| interval.forwarded_per_s),
    ];
    let series = series.into_iter().map(|(name, class, figure)| over_time(intervals, name, class, figure));
    time_chart(
        intervals,
        "Throughput",
        &format!("{noun} per second"),
        figure::compact,
        figure::rate,
        series.collect(),
    )
}

fn lag(intervals: &[Interval], noun: Noun) -> Option<String> {
    let peak = |interval: &Interval| Some(interval.lag_peak_events.or(interval.lag_events)? as f64);
    let series = vec![over_time(intervals, "most in the second", "s3", peak)];
    let whole = |events: f64| figure::count(events as u64);
    let unit = format!("{noun} waiting, most in each second");
    time_chart(intervals, "Lag", &unit, figure::compact, whole, series)
}

/// The latencies of what arrived in each second. The last seconds may lie behind the end of the phase.
fn latency(trial: &Trial) -> Option<String> {
    let intervals = &trial.latency_intervals;
    let series = |name: &str, class: &str, value: fn(&LatencyInterval) -> Option<u64>| {
        let points = intervals.iter().filter_map(|each| Some((each.at_s, (value(each)? as f64).max(1.0))));
        Series {
            name: name.to_owned(),
            class: class.to_owned(),
            is_scattered: false,
            points: points.collect(),
        }
    };
    let series = vec![
        series("maximum", "s0 dashed", |interval| Some(interval.max_us)),
        series("p99", "s1", |interval| interval.p99_us),
        series("p50", "s2", |interval| interval.p50_us),
    ];
    let horizontal = Scale::exactly(0.0, intervals.last()?.at_s);
    LineChart {
        caption: "Latency over time",
        unit: "end to end, of what arrived in each second; logarithmic",
        horizontal,
        horizontal_ticks: second_ticks(horizontal),
        horizontal_unit: "seconds",
        place_format: |second| format!("{} s", figure::compact(second)),
        vertical: Scale::logarithmic(
            series.iter().flat_map(|series| &series.points).map(|(_, value)| *value).collect::<Vec<_>>(),
        ),
        axis_format: figure::compact_duration_us,
        value_format: figure::duration_us,
        series,
    }
    .figure()
}

fn second_ticks(horizontal: Scale) -> Vec<(f64, String)> {
    horizontal.ticks().into_iter().map(|tick| (tick, figure::compact(tick))).collect()
}

fn cpu(intervals: &[Interval]) -> Option<String> {
    let series = Role::ALL.into_iter().map(|role| {
        over_time(intervals, role.name(), colour(role), |interval| interval.cpu_percent.get(&role).copied())
    });
    let format = |value: f64| format!("{} %", figure::compact(value));
    time_chart(intervals, "CPU", "of what each role may use", format, format, series.collect())
}

fn memory(intervals: &[Interval]) -> Option<String> {
    let series = Role::ALL.into_iter().map(|role| {
        let memory =
            |interval: &Interval| interval.memory_bytes.get(&role).map(|bytes| *bytes as f64 / MEBIBYTE);
        over_time(intervals, role.name(), colour(role), memory)
    });
    // In MiB, so that ticks at powers of ten are round numbers of something.
    let full = |mebibytes: f64| figure::bytes(mebibytes * MEBIBYTE);
    time_chart(intervals, "Memory", "resident, MiB", figure::compact, full, series.collect())
}

/// The same colour for a role wherever it is drawn.
fn colour(role: Role) -> &'static str {
    match role {
        Role::Relay => "s1",
        Role::Load => "s2",
        Role::Sink => "s3",
        Role::Service => "s4",
    }
}

fn over_time(
    intervals: &[Interval],
    name: &str,
    class: &str,
    value: impl Fn(&Interval) -> Option<f64>,
) -> Series {
    let points = intervals.iter().filter_map(|interval| Some((interval.at_s, value(interval)?)));
    Series { name: name.to_owned(), class: class.to_owned(), is_scattered: false, points: points.collect() }
}

fn time_chart(
    intervals: &[Interval],
    caption: &str,
    unit: &str,
    axis_format: fn(f64) -> String,
    value_format: fn(f64) -> String,
    series: Vec<Series>,
) -> Option<String> {
    let last = intervals.last()?.at_s;
    let horizontal = Scale::exactly(0.0, last);
    LineChart {
        caption,
        unit,
        horizontal,
        horizontal_ticks: second_ticks(horizontal),
        horizontal_unit: "seconds",
        place_format: |second| format!("{} s", figure::compact(second)),
        vertical: Scale::from_zero(series.iter().flat_map(|series| &series.points).map(|(_, value)| *value)),
        axis_format,
        value_format,
        series,
    }
    .figure()
}

const MEBIBYTE: f64 = 1_048_576.0;
