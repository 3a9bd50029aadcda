//! A comparison as text: for a terminal and for a document.

use std::fmt::Write as _;

use super::{ComparedFigure, Comparison};
use crate::figure::counted;
use crate::statistics::{Design, Interval, Verdict};

/// For a terminal: what was compared, a line per figure, what to do about what is open.
#[must_use]
pub fn table(comparison: &Comparison) -> String {
    let rows = rows(comparison);
    let widths: Vec<usize> = (0..TITLES.len())
        .map(|column| {
            let lengths = rows.iter().map(|row| row[column].chars().count());
            lengths.chain([TITLES[column].len()]).max().unwrap_or(0)
        })
        .collect();
    let mut text = headline(comparison);
    text.push('\n');
    let titles = TITLES.map(str::to_owned);
    for row in std::iter::once(&titles).chain(&rows) {
        let mut line = String::new();
        for (column, cell) in row.iter().enumerate() {
            let padding = " ".repeat(widths[column] - cell.chars().count());
            // Names and verdicts read from the left, figures align at their last digit.
            line.push_str(&match column {
                0 => format!("{cell}{padding}"),
                1 | VERDICT => format!("  {cell}{padding}"),
                _ => format!("  {padding}{cell}"),
            });
        }
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text.push_str(&remarks(comparison));
    text
}

/// For a document, in Markdown.
#[must_use]
pub fn markdown(comparison: &Comparison) -> String {
    let mut text = headline(comparison);
    text.push_str(&format!("\n| {} |\n", TITLES.join(" | ")));
    text.push_str("|---|---|---:|---:|---:|---:|---|\n");
    for row in rows(comparison) {
        let cells = row.map(|cell| cell.replace('|', "\\|"));
        text.push_str(&format!("| {} |\n", cells.join(" | ")));
    }
    text.push_str(&remarks(comparison));
    text
}

fn headline(comparison: &Comparison) -> String {
    let design = match comparison.design {
        Design::Independent => "trials of separate runs",
        Design::Paired => "trials in pairs, in alternating order",
    };
    format!(
        "{}: {} against the baseline {}; {design}\n",
        comparison.scenario, comparison.candidate, comparison.baseline
    )
}

fn rows(comparison: &Comparison) -> Vec<[String; TITLES.len()]> {
    let mut rows = Vec::new();
    for case in &comparison.cases {
        if let Some(reason) = case.obstacle() {
            let mut row = [const { String::new() }; TITLES.len()];
            row[0].clone_from(&case.name);
            row[VERDICT] = format!("not compared: {reason}");
            rows.push(row);
        }
        for (index, figure) in case.figures.iter().enumerate() {
            let name = match index {
                0 => case.name.clone(),
                _ => String::new(),
            };
            rows.push(row(name, figure, case.machine_in_doubt));
        }
    }
    rows
}

fn row(name: String, compared: &ComparedFigure, machine_in_doubt: bool) -> [String; TITLES.len()] {
    let ComparedFigure { figure, baseline, candidate, result } = compared;
    [
        name,
        figure.title(),
        figure.text(baseline.median),
        figure.text(candidate.median),
        signed(result.difference_percent),
        result.interval_percent.map_or_else(String::new, interval),
        match machine_in_doubt {
            true => "no verdict, see below".to_owned(),
            false => verdict(result.verdict),
        },
    ]
}

fn signed(percent: f64) -> String {
    format!("{:+.1} %", tenths(percent))
}

/// Rounded to tenths, and without the sign that a zero may have.
fn tenths(percent: f64) -> f64 {
    (percent * 10.0).round() / 10.0 + 0.0
}

fn interval(interval: Interval) -> String {
    format!(
        "{:+.1} … {:+.1} % ({:.0} %)",
        tenths(interval.low),
        tenths(interval.high),
        // Never more than it has.
        (interval.confidence * 100.0).floor()
    )
}

fn verdict(verdict: Verdict) -> String {
    match verdict {
        Verdict::Faster => "better".to_owned(),
        Verdict::Slower => "worse".to_owned(),
        Verdict::NoDifference => "no difference".to_owned(),
        Verdict::NoVerdict { more_trials } => {
            let more = counted(u64::from(more_trials), "more trial", "more trials");
            format!("no verdict, {more}")
        }
    }
}

fn remarks(comparison: &Comparison) -> String {
    let mut text = String::new();
    let mut in_doubt = comparison.cases.iter().filter(|case| case.machine_in_doubt).peekable();
    if in_doubt.peek().is_some() {
        text.push_str("\nNo verdict where a side shared the machine, or had less of it than the other:\n");
    }
    for case in in_doubt {
        let other_cpu = case.other_cpu.as_ref().map(ToString::to_string).unwrap_or_default();
        let _ = writeln!(text, "  {}: {other_cpu}", case.name);
    }
    if !comparison.differences.is_empty() {
        text.push_str("\nCompared although the conditions were not the same:\n");
        for difference in &comparison.differences {
            // Writing to a String cannot fail.
            let _ = writeln!(text, "  {difference}");
        }
    }
    text
}

const TITLES: [&str; 7] = ["case", "figure", "baseline", "candidate", "difference", "interval", "verdict"];

/// The column of the verdicts.
const VERDICT: usize = TITLES.len() - 1;
