//! The part of the page that is about one case.

use super::course::Course;
use super::grid::{Grid, GridRow};
use super::overview::case_curve_chart;
use super::range_chart::range_figure;
use super::rate_chart::SearchSection;
use super::relay_section::RelaySection;
use super::stage_sum::stage_sum;
use crate::figure;
use crate::report::destinations;
use crate::results::{
    Bounds, Case, Delivery, Direction, LatencyPrecision, LatencySummary, Limit, Noun, Prices, RoleUsage,
    Stage, Trial,
};

/// Everything about one case, ready to be shown.
#[derive(Debug)]
pub(super) struct CaseSection {
    /// Where links lead.
    pub(super) anchor: String,
    pub(super) name: String,
    pub(super) status: &'static str,
    pub(super) parameters: Vec<(String, String)>,
    /// The search for the highest sustainable rate, where there was one.
    pub(super) search: Option<SearchSection>,
    pub(super) trials: Option<Grid>,
    /// The course of the trial with the median throughput.
    pub(super) course: Option<Course>,
    /// The courses of the others.
    pub(super) other_courses: Vec<Course>,
    /// The percentile curve and the stages, as HTML.
    pub(super) latency_charts: Vec<String>,
    pub(super) latencies: Option<Grid>,
    /// How the stages in one direction add up.
    pub(super) stage_sum: Option<String>,
    /// Our own relay's accounts.
    pub(super) relay: Option<RelaySection>,
    pub(super) delivery: Option<Grid>,
    /// The figures of each destination, where there are several.
    pub(super) destinations: Option<Grid>,
    /// What waited at the edges of the measured phase.
    pub(super) lag: Option<Grid>,
    pub(super) generator: Option<Grid>,
    pub(super) resources: Option<Grid>,
    pub(super) cost: Option<Grid>,
    /// What another system told of itself.
    pub(super) own_figures: Option<Grid>,
    pub(super) counters: Option<Grid>,
}

impl CaseSection {
    /// The section of the case with this index.
    pub(super) fn of((index, case): (usize, &Case), prices: Option<&Prices>) -> Self {
        let typical = typical_trial(case);
        let mut courses: Vec<Course> =
            case.trials.iter().filter_map(|trial| Course::of(case, trial)).collect();
        let first = courses
            .iter()
            .position(|course| typical.is_some_and(|trial| course.title == Course::title(case, trial)));
        let course = match first {
            Some(position) => Some(courses.remove(position)),
            None => (!courses.is_empty()).then(|| courses.remove(0)),
        };
        let stages: Vec<(String, &LatencySummary)> =
            case.stages.iter().map(|(stage, summary)| (stage_name(*stage), summary)).collect();
        let noun = case.shape().noun;
        Self {
            anchor: format!("case-{}", index + 1),
            name: case.name.clone(),
            status: case.status.name(),
            parameters: case.params.iter().map(|(path, value)| (path.clone(), parameter(value))).collect(),
            search: case.capacity.as_ref().map(SearchSection::of),
            trials: trials(case),
            course,
            other_courses: courses,
            latency_charts: [case_curve_chart(case), range_figure("Stages", &stages)]
                .into_iter()
                .flatten()
                .collect(),
            latencies: latencies(case),
            stage_sum: stage_sum(case),
            relay: RelaySection::of(case),
            delivery: delivery(case),
            destinations: destination_grid(case),
            lag: lag_grid(case, noun),
            generator: generator(case, noun),
            resources: typical.and_then(|trial| resources(trial, noun)),
            cost: cost(case, prices),
            own_figures: own_figures(case, noun),
            counters: typical.and_then(|trial| counters(trial, noun)),
        }
    }
}

/// The trial whose throughput is the median, or the lower of the middle two.
fn typical_trial(case: &Case) -> Option<&Trial> {
    let rate = |trial: &Trial| {
        trial.forwarded_per_s.or(trial.consumed_per_s).or(trial.received_per_s).unwrap_or(0.0)
    };
    let mut trials: Vec<&Trial> = case.completed_trials().collect();
    trials.sort_by(|one, other| rate(one).total_cmp(&rate(other)));
    trials.get(trials.len().saturating_sub(1) / 2).copied()
}

fn parameter(value: &serde_json::Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

fn trials(case: &Case) -> Option<Grid> {
    let headings = [
        "trial",
        "measured for",
        "offered/s",
        "received/s",
        "forwarded/s",
        "consumed/s",
        "CPU %",
        "memory peak",
        "p50",
        "p99",
        "p99.9",
        "maximum",
    ];
    let mut grid = Grid::new(headings);
    for trial in &case.trials {
        let usage = trial.roles.get(&case.measured_role);
        let latency = trial.latency_us.as_ref();
        let time = |figure: fn(&LatencySummary) -> Option<u64>| latency.and_then(figure).map(duration);
        let cells = [
            Some(format!("{:.0} s", trial.duration_s)),
            trial.offered_per_s.map(figure::rate),
            trial.received_per_s.map(figure::rate),
            trial.forwarded_per_s.map(figure::rate),
            trial.consumed_per_s.map(figure::rate),
            usage.map(|usage| figure::percent(usage.cpu_percent)),
            usage.map(|usage| figure::bytes(usage.memory_peak_bytes as f64)),
            time(|summary| summary.p50),
            time(|summary| summary.p99),
            time(|summary| summary.p999),
            time(|summary| summary.max),
        ];
        grid.push(trial.number.to_string(), cells);
        if let (true, Some(row)) = (trial.interrupted, grid.rows.last_mut()) {
            *row = GridRow { remark: "interrupted".to_owned(), class: "incomplete", ..std::mem::take(row) };
        }
    }
    grid.without_empty_columns()
}

fn latencies(case: &Case) -> Option<Grid> {
    let headings =
        ["time of", "samples", "minimum", "mean", "p50", "p75", "p95", "p99", "p99.9", "maximum", "negative"];
    let mut grid = Grid::new(headings);
    let one = case.shape().noun.one();
    let whole = [
        (format!("{one}, from its intended instant"), case.latency_us.as_ref()),
        (format!("{one}, from its real send"), case.uncorrected_latency_us.as_ref()),
    ];
    let whole = whole.into_iter().filter_map(|(name, summary)| Some((name, summary?)));
    let stages = case.stages.iter().map(|(stage, summary)| (stage_name(*stage), summary));
    for (name, summary) in whole.chain(stages) {
        let within = |bounds: fn(&LatencyPrecision) -> Option<Bounds>| {
            let Bounds { low, high } = bounds(summary.precision.as_ref()?)?;
            Some(format!("within {} – {}", duration(low), duration(high)))
        };
        let cells = [
            Some(figure::count(summary.count)),
            summary.min.map(duration),
            summary.mean.map(figure::duration_us),
            summary.p50.map(duration),
            summary.p75.map(duration),
            summary.p95.map(duration),
            summary.p99.map(duration),
            summary.p999.map(duration),
            summary.max.map(duration),
            summary
                .negative
                .map(|negative| format!("{}, down to {} µs", figure::count(negative.count), negative.min)),
        ];
        grid.push(name, cells);
        if let Some(row) = grid.rows.last_mut() {
            row.cells[3].spread = within(|precision| precision.p50).unwrap_or_default();
            row.cells[6].spread = within(|precision| precision.p99).unwrap_or_default();
        }
    }
    grid.without_empty_columns()
}

/// The stage with the direction that it goes.
fn stage_name(stage: Stage) -> String {
    match stage.direction() {
        Some(Direction::OneWay) => format!("→ {stage}"),
        Some(Direction::RoundTrip) => format!("⇄ {stage}"),
        None => stage.to_string(),
    }
}

fn delivery(case: &Case) -> Option<Grid> {
    let headings = [
        "trial",
        "sent",
        "acknowledged",
        "received",
        "done",
        "lost",
        "duplicated",
        "reordered",
        "corrupted",
        "unknown",
        "unexpected",
        "foreign",
        "misplaced",
        "partitions reached",
        "redelivered",
        "dead-lettered",
    ];
    let mut grid = Grid::new(headings);
    let trials = case.trials.iter().map(|trial| (trial.number.to_string(), trial.delivery));
    let all = (case.planned_trials > 1).then(|| ("all".to_owned(), case.delivery));
    for (name, counts) in trials.chain(all) {
        let Some(counts) = counts else { continue };
        grid.push(name, delivery_cells(&counts));
        let rare = [counts.corrupted, counts.unexpected, counts.foreign, counts.misplaced];
        let [corrupted, unexpected, foreign, misplaced] = rare.map(Option::unwrap_or_default);
        let damage = [(4, counts.lost), (7, corrupted), (9, unexpected), (10, foreign), (11, misplaced)];
        if let Some(row) = grid.rows.last_mut() {
            damage.into_iter().for_each(|(column, count)| row.cells[column].alarming = count > 0);
        }
    }
    grid.without_empty_columns()
}

fn destination_grid(case: &Case) -> Option<Grid> {
    let mut grid = Grid::new(destinations::HEADINGS);
    for row in destinations::rows(case) {
        let [name, cells @ ..] = row.cells;
        grid.push(name, cells.map(|cell| Some(cell).filter(|cell| !cell.is_empty())));
        for cell in grid.rows.last_mut().into_iter().flat_map(|row| &mut row.cells) {
            cell.alarming = row.alarming;
        }
    }
    grid.without_empty_columns()
}

fn delivery_cells(counts: &Delivery) -> [Option<String>; 15] {
    [
        Some(counts.sent),
        counts.acknowledged,
        counts.received,
        counts.done,
        Some(counts.lost),
        counts.duplicated,
        counts.reordered,
        counts.corrupted,
        counts.unknown,
        counts.unexpected,
        counts.foreign,
        counts.misplaced,
        counts.reached_partitions,
        counts.redelivered,
        counts.dead_lettered,
    ]
    .map(|count| count.map(figure::count))
}

fn lag_grid(case: &Case, noun: Noun) -> Option<Grid> {
    let waiting = |when: &str| format!("{noun} waiting {when}");
    let [begin, end, peak] = ["at the beginning", "at the end", "at most"].map(waiting);
    let mut grid = Grid::new(["trial", "offered/s", "carried/s", &begin, &end, &peak]);
    for trial in &case.trials {
        let Some(lag) = trial.lag else {
            continue;
        };
        let cells = [
            trial.offered_per_s.map(figure::rate),
            trial.forwarded_per_s.or(trial.consumed_per_s).map(figure::rate),
            Some(figure::count(lag.begin_events)),
            Some(figure::count(lag.end_events)),
            Some(figure::count(lag.peak_events)),
        ];
        grid.push(trial.number.to_string(), cells);
    }
    grid.without_empty_columns()
}

fn generator(case: &Case, noun: Noun) -> Option<Grid> {
    let late = format!("late {noun}");
    let headings = [
        "trial",
        "generator",
        &late,
        "held back",
        "never sent",
        "lateness p50",
        "lateness p99",
        "lateness maximum",
        "sink lag, peak",
    ];
    let mut grid = Grid::new(headings);
    for trial in &case.trials {
        let Some(health) = &trial.generator else {
            continue;
        };
        let lateness = health.lateness_us.as_ref();
        let cells = [
            Some(if health.healthy { "kept up" } else { "fell behind" }.to_owned()),
            health.late_events.map(figure::count),
            health.held_back_events.map(figure::count),
            health.never_sent_events.map(figure::count),
            lateness.and_then(|summary| summary.p50).map(duration),
            lateness.and_then(|summary| summary.p99).map(duration),
            lateness.and_then(|summary| summary.max).map(duration),
            health.sink_lag_peak_events.map(figure::count),
        ];
        grid.push(trial.number.to_string(), cells);
        if let Some(row) = grid.rows.last_mut() {
            row.cells[0].alarming = !health.healthy;
        }
    }
    grid.without_empty_columns()
}

fn resources(trial: &Trial, noun: Noun) -> Option<Grid> {
    let each = noun.one();
    let [cpu, bytes_in, bytes_out] =
        ["CPU", "bytes in", "bytes out"].map(|what| format!("{what} per {each}"));
    let headings = [
        "role",
        "CPU %",
        "CPU time",
        &cpu,
        "memory peak",
        "memory average",
        &bytes_in,
        &bytes_out,
        "connections opened",
        "system calls per million",
        "context switches per million",
        "cores",
        "memory limit",
        "enforced by",
    ];
    let mut grid = Grid::new(headings);
    for (role, usage) in &trial.roles {
        grid.push(role.to_string(), resource_cells(usage));
        let note = usage.limit.as_ref().and_then(|limit| limit.note.clone());
        if let (Some(note), Some(row)) = (note, grid.rows.last_mut()) {
            row.remark = note;
        }
    }
    grid.without_empty_columns()
}

fn resource_cells(usage: &RoleUsage) -> [Option<String>; 13] {
    let costs = usage.per_million_events.as_ref();
    let per_event = |bytes: f64| format!("{:.1}", bytes / 1e6);
    let rounded = |number: f64| figure::count(number.round() as u64);
    let limit: Option<&Limit> = usage.limit.as_ref();
    [
        Some(figure::percent(usage.cpu_percent)),
        Some(figure::duration_us(usage.cpu_seconds * 1e6)),
        costs.map(|costs| format!("{:.0} ns", costs.cpu_seconds * 1e3)),
        Some(figure::bytes(usage.memory_peak_bytes as f64)),
        usage.memory_average_bytes.map(|bytes| figure::bytes(bytes as f64)),
        costs.and_then(|costs| costs.bytes_received).map(per_event),
        costs.and_then(|costs| costs.bytes_sent).map(per_event),
        usage.connections_opened.filter(|opened| *opened > 0).map(figure::count),
        costs.and_then(|costs| costs.system_calls).map(rounded),
        costs.map(|costs| rounded(costs.context_switches)),
        limit.map(|limit| limit.cores.map_or_else(|| "all".to_owned(), |cores| cores.to_string())),
        limit.and_then(|limit| limit.memory_bytes).map(|bytes| figure::bytes(bytes as f64)),
        limit.map(|limit| limit.mechanism.to_string()),
    ]
}

/// What a million events cost, by role, for the service, and in all.
fn cost(case: &Case, prices: Option<&Prices>) -> Option<Grid> {
    let cost = case.cost.as_ref()?;
    let currency = prices.map_or("", |prices| &prices.currency);
    let headings = ["", "core-seconds", "GiB-seconds", "throughput unit-seconds", "operations", currency];
    let mut grid = Grid::new(headings);
    for (role, cost) in &cost.roles {
        let [core, gib] = [cost.core_seconds, cost.gib_seconds].map(|seconds| Some(figure::price(seconds)));
        grid.push(role.to_string(), [core, gib, None, None, cost.price.map(figure::price)]);
    }
    if let Some(service) = &cost.service {
        let units = service.throughput_unit_seconds.map(figure::price);
        let operations = Some(figure::count(service.operations.round() as u64));
        grid.push("service".to_owned(), [None, None, units, operations, service.price.map(figure::price)]);
    }
    if let Some(total) = cost.total {
        grid.push(
            format!("{} and service", case.measured_role),
            [None, None, None, None, Some(figure::price(total))],
        );
    }
    grid.without_empty_columns()
}

fn own_figures(case: &Case, noun: Noun) -> Option<Grid> {
    let mut grid =
        Grid::new(["trial", &format!("allocated per {}", noun.one()), "garbage collection", "heap"]);
    let bytes = |bytes: f64| figure::bytes(bytes);
    for trial in &case.trials {
        let Some(own) = &trial.own_figures else {
            continue;
        };
        let cells = [
            own.allocated_bytes_per_event.map(bytes),
            own.collecting_percent.map(|share| format!("{} % of the time", figure::percent(share))),
            own.heap_bytes.map(|heap| bytes(heap as f64)),
        ];
        grid.push(trial.number.to_string(), cells);
    }
    grid.without_empty_columns()
}

fn counters(trial: &Trial, noun: Noun) -> Option<Grid> {
    let [incoming, outgoing] = ["in", "out"].map(|way| format!("{noun} {way}"));
    let headings = [
        "entity",
        &incoming,
        &outgoing,
        "bytes in",
        "bytes out",
        "throttled",
        "completed",
        "deliveries failed",
        "dead-lettered",
    ];
    let mut grid = Grid::new(headings);
    let bytes = |bytes: Option<u64>| bytes.map(|bytes| figure::bytes(bytes as f64));
    for (entity, counters) in &trial.hub {
        let cells = [
            Some(figure::count(counters.incoming_events)),
            Some(figure::count(counters.outgoing_events)),
            bytes(counters.incoming_bytes),
            bytes(counters.outgoing_bytes),
            counters.throttled.map(figure::count),
            counters.completed.map(figure::count),
            counters.failed_deliveries.map(figure::count),
            counters.dead_lettered.map(figure::count),
        ];
        grid.push(entity.clone(), cells);
    }
    grid.without_empty_columns()
}

fn duration(microseconds: u64) -> String {
    figure::duration_us(microseconds as f64)
}
