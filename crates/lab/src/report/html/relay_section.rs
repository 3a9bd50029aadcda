//! Inside the relay: what it counted of its own work, how large its batches and sends were, and what it waited for.

use super::drawing::{Area, LegendEntry};
use super::grid::Grid;
use super::row_chart::RowChart;
use super::scale::Scale;
use crate::figure;
use crate::results::{Case, RelayActivity, Size, SizeSummary, WaitingTimes};

/// What the page shows of a relay's own accounts.
#[derive(Debug)]
pub(super) struct RelaySection {
    /// Batches, sends and checkpoints of each trial.
    pub(super) work: Option<Grid>,
    /// Openings, closings, claims and losses of partitions.
    pub(super) partitions: Option<Grid>,
    /// Sizes of batches and sends.
    pub(super) sizes: Option<Grid>,
    /// What the loops waited for, as HTML.
    pub(super) waiting: Option<String>,
    /// What the case's figures say, sentence and advice.
    pub(super) findings: Vec<(String, String)>,
}

impl RelaySection {
    /// The section of a case; `None` if nothing is known of the inside.
    pub(super) fn of(case: &Case) -> Option<Self> {
        let all = case.relay.as_ref()?;
        Some(Self {
            work: work(case),
            partitions: partitions(all),
            sizes: sizes(all),
            waiting: waiting(case),
            findings: findings(case),
        })
    }
}

/// The trials with what their relays did.
fn activities(case: &Case) -> impl Iterator<Item = (String, &RelayActivity)> {
    case.trials.iter().filter_map(|trial| Some((trial.number.to_string(), trial.relay.as_ref()?)))
}

fn work(case: &Case) -> Option<Grid> {
    let mut grid = Grid::new([
        "trial",
        "batches received",
        "batches failed",
        "sends",
        "sends failed",
        "timed out",
        "throttled",
        "injected failures",
        "checkpoints",
        "checkpoints failed",
        "checkpoints refused",
    ]);
    for (trial, relay) in activities(case) {
        let rare = |count: u64| (count > 0).then(|| figure::count(count));
        let share = |count: u64, percent: f64| {
            let count = figure::count(count);
            Some(format!("{count} ({percent:.2} %)"))
        };
        let cells = [
            Some(figure::count(relay.batches.received)),
            share(relay.batches.failed, relay.failed_batches_percent()),
            Some(figure::count(relay.sends.made)),
            share(relay.sends.failed, relay.failed_sends_percent()),
            rare(relay.sends.timed_out),
            rare(relay.sends.throttled),
            rare(relay.sends.failed_on_purpose),
            Some(figure::count(relay.checkpoints.written)),
            share(relay.checkpoints.failed, relay.failed_checkpoints_percent()),
            rare(relay.checkpoints.refused),
        ];
        grid.push(trial, cells);
    }
    grid.without_empty_columns()
}

/// A row for each kind of change: how often in the measured phases, with the reasons that occurred, and in the trials
/// as a whole, to which the opening of all partitions at the start and their closing at the end belong.
fn partitions(all: &RelayActivity) -> Option<Grid> {
    let mut grid = Grid::new(["partitions", "while measured", "reasons", "whole trials"]);
    let mut row = |name: &str, reasons: &[(&str, u64)], whole: Option<u64>| {
        let total: u64 = reasons.iter().map(|(_, count)| count).sum();
        let occurred = reasons.iter().filter(|(_, count)| *count > 0);
        let occurred: Vec<String> =
            occurred.map(|(reason, count)| format!("{reason} {}", figure::count(*count))).collect();
        if total > 0 || whole.is_some_and(|whole| whole > 0) {
            let cells = [
                Some(figure::count(total)),
                Some(occurred.join(", ")).filter(|occurred| !occurred.is_empty()),
                whole.map(figure::count),
            ];
            grid.push(name, cells);
        }
    };
    let whole = all.whole_trial;
    row("opened", &all.opened.named(), Some(whole.opened_partitions));
    row("closed", &all.closed.named(), Some(whole.closed_partitions));
    if let Some(ownership) = &all.ownership {
        let (gained, lost) = (whole.gained_partitions, whole.lost_partitions);
        row("gained", &ownership.gained.named(), Some(gained));
        row("lost", &ownership.lost.named(), Some(lost));
        row("rounds of renewal", &ownership.rounds.named(), None);
        if let Some(rebalances) = ownership.rebalances {
            row("changes of the group", &[("rebalances", rebalances)], None);
        }
    }
    grid.without_empty_columns()
}

fn sizes(all: &RelayActivity) -> Option<Grid> {
    let mut grid = Grid::new(["size", "number", "minimum", "mean", "p50", "p95", "p99", "maximum"]);
    for (size, summary) in &all.sizes {
        grid.push(size.name(), size_cells(*size, summary));
    }
    grid.without_empty_columns()
}

fn size_cells(size: Size, summary: &SizeSummary) -> [Option<String>; 7] {
    let shown = |value: u64| match size {
        Size::BatchEvents | Size::SendEvents => figure::count(value),
        Size::BatchBytes | Size::SendBytes => figure::bytes(value as f64),
    };
    let mean = match size {
        Size::BatchEvents | Size::SendEvents => format!("{:.1}", summary.mean),
        Size::BatchBytes | Size::SendBytes => figure::bytes(summary.mean),
    };
    [
        Some(figure::count(summary.count)),
        Some(shown(summary.min)),
        Some(mean),
        summary.p50.map(shown),
        summary.p95.map(shown),
        summary.p99.map(shown),
        Some(shown(summary.max)),
    ]
}

/// What the lab reads from the case's figures, each class once.
fn findings(case: &Case) -> Vec<(String, String)> {
    let mut advised = Vec::new();
    let mut findings = Vec::new();
    for finding in &case.findings {
        if let (Some(hint), false) = (&finding.hint, advised.contains(&finding.kind)) {
            advised.push(finding.kind);
            findings.push((finding.message.clone(), hint.clone()));
        }
    }
    findings
}

/// One bar per trial: the shares of the time in which the loop slept, by cause. The rest it had something to do.
fn waiting(case: &Case) -> Option<String> {
    let rows: Vec<_> = activities(case).filter(|(_, relay)| relay.watched_us > 0).collect();
    if rows.is_empty() {
        return None;
    }
    let description = rows.iter().map(|(trial, relay)| {
        let shares = shares(relay);
        let shares = shares.map(|(cause, _, percent)| format!("{cause} {percent:.1} %"));
        format!("trial {trial}: {}", shares.join(", "))
    });
    let description = description.collect::<Vec<_>>().join("; ");
    let chart = RowChart::new(Scale::exactly(0.0, 100.0), LEFT);
    let names: Vec<String> = rows.iter().map(|(trial, _)| format!("trial {trial}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let label = |percent: f64| format!("{percent:.0} %");
    let mut drawing = chart.drawing(CAPTION, &description, &names, label);
    for (index, (_, relay)) in rows.iter().enumerate() {
        let mut begin = 0.0;
        for (cause, class, percent) in shares(relay) {
            let area = Area {
                x: chart.x(begin),
                y: RowChart::y(index) - HALF,
                width: chart.x(begin + percent) - chart.x(begin),
                height: 2.0 * HALF,
            };
            begin += percent;
            if percent > 0.0 {
                let hint = format!("{cause}: {percent:.1} %");
                drawing.rectangle(&format!("bar {class}"), area, &hint);
            }
        }
    }
    let legend = CAUSES.map(|(cause, class)| LegendEntry { class: class.to_owned(), name: cause.to_owned() });
    Some(drawing.figure(CAPTION, "of the time; it was busy for the rest", &legend))
}

/// Cause, class and percent, in the order of [`CAUSES`].
fn shares(relay: &RelayActivity) -> [(&'static str, &'static str, f64); 5] {
    let WaitingTimes { source, sends, destination, memory, partitions } = relay.waiting_us;
    let mut times = [source, sends, destination, memory, partitions].into_iter();
    CAUSES.map(|(cause, class)| {
        let slept = times.next().unwrap_or(0);
        (cause, class, relay.waiting_percent(slept).clamp(0.0, 100.0))
    })
}

const CAPTION: &str = "What its loop waited for";

/// What the page calls the causes, with their colours.
const CAUSES: [(&str, &str); 5] = [
    ("the source", "s1"),
    ("sends", "s2"),
    ("the destination", "s3"),
    ("memory", "s4"),
    ("open partitions", "s0"),
];

const LEFT: f64 = 60.0;

/// Half of a bar's height.
const HALF: f64 = 11.0;

#[cfg(test)]
mod tests {
    use super::super::super::sample;
    use super::*;

    #[test]
    fn a_relay_that_reports_its_activity_has_all_parts() {
        let results = sample::complete();
        let section = RelaySection::of(&results.cases[0]).expect("a relay of our own");
        let work = section.work.expect("batches were counted");
        assert_eq!(work.rows.len(), 3);
        assert!(work.headings.iter().all(|heading| heading != "timed out"));
        let partitions = section.partitions.expect("partitions were opened");
        let names: Vec<&str> = partitions.rows.iter().map(|row| &*row.name).collect();
        assert_eq!(names, ["opened", "closed", "gained", "lost", "rounds of renewal"]);
        assert_eq!(partitions.rows[2].cells[1].value, "stolen 9");
        assert_eq!(partitions.rows[2].cells[2].value, "9");
        assert_eq!(section.sizes.expect("sizes were recorded").rows.len(), 2);
        let waiting = section.waiting.expect("the loop slept");
        assert!(waiting.contains("the source: 3.1 %"), "{waiting}");
        assert!(!waiting.contains("memory: "), "{waiting}");
    }

    #[test]
    fn a_system_seen_from_the_outside_has_no_inside() {
        let mut results = sample::complete();
        results.cases[0].relay = None;
        assert!(RelaySection::of(&results.cases[0]).is_none());
    }
}
