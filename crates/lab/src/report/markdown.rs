//! The result table as Markdown, to paste into a page or a discussion.

use std::fmt::Write as _;

use super::columns::{Cell, columns, table_begins};
use super::destinations;
use super::search::{HEADINGS, rows};
use super::verdict::{Verdict, provenance, remarks};
use super::{Report, ReportError};
use crate::results::{Capacity, Case, Results, Status};

/// Verdict, table, findings and environment as Markdown.
#[derive(Debug, Clone, Copy, Default)]
pub struct MarkdownReport;

impl Report for MarkdownReport {
    fn render(&self, results: &Results) -> Result<String, ReportError> {
        let mut text = String::new();
        write(&mut text, results).expect("writing to a String cannot fail");
        Ok(text)
    }
}

fn write(text: &mut String, results: &Results) -> std::fmt::Result {
    let verdict = Verdict::on(results);
    writeln!(text, "**{}: {}**", escaped(&results.scenario), escaped(&verdict.headline))?;
    if let Some(delivery) = &verdict.delivery {
        writeln!(text, "{delivery}")?;
    }
    if let Some(missing) = &verdict.missing {
        writeln!(text, "\n{}", escaped(missing))?;
    }
    if !results.cases.is_empty() {
        writeln!(text)?;
        write_table(text, results)?;
    }
    for case in &results.cases {
        write_destinations(text, case)?;
        if let Some(capacity) = &case.capacity {
            write_search(text, &case.name, capacity)?;
        }
    }
    for (index, remark) in remarks(results).iter().enumerate() {
        if index == 0 {
            writeln!(text)?;
        }
        let hint = remark.hint.as_deref().map(|hint| format!(" ({hint})")).unwrap_or_default();
        let line = format!("{}: {}{hint}", remark.place, remark.message);
        writeln!(text, "- **{}** {}", remark.severity.name(), escaped(&line))?;
    }
    writeln!(text)?;
    for line in provenance(results) {
        writeln!(text, "{}  ", escaped(&line))?;
    }
    writeln!(text, "`{}`", results.environment.command.replace('`', "'"))
}

fn write_destinations(text: &mut String, case: &Case) -> std::fmt::Result {
    let rows = destinations::rows(case);
    if rows.is_empty() {
        return Ok(());
    }
    writeln!(text, "\n{}, each destination:\n", escaped(&case.name))?;
    writeln!(text, "| {} |", destinations::HEADINGS.join(" | "))?;
    writeln!(text, "|---|{}", "---:|".repeat(destinations::HEADINGS.len() - 1))?;
    for row in rows {
        let cells: Vec<String> = row.cells.iter().map(|cell| escaped(cell)).collect();
        writeln!(text, "| {} |", cells.join(" | "))?;
    }
    Ok(())
}

fn write_search(text: &mut String, case: &str, capacity: &Capacity) -> std::fmt::Result {
    let sentence = format!("{case}: {}", capacity.sentence());
    writeln!(text, "\n{}.\n", escaped(&sentence))?;
    writeln!(text, "| {} | verdict |", HEADINGS.join(" | "))?;
    writeln!(text, "|---:|---|{}---|", "---:|".repeat(HEADINGS.len() - 2))?;
    for row in rows(capacity) {
        let verdict = [row.verdict.to_owned(), row.reason];
        let verdict: Vec<_> = verdict.into_iter().filter(|part| !part.is_empty()).collect();
        writeln!(text, "| {} | {} |", row.cells.join(" | "), escaped(&verdict.join(": ")))?;
    }
    Ok(())
}

fn write_table(text: &mut String, results: &Results) -> std::fmt::Result {
    let columns = columns(results);
    let titles: Vec<String> = columns.iter().map(|column| column.title()).collect();
    let begins = table_begins(results);
    for (index, case) in results.cases.iter().enumerate() {
        if begins[index] {
            if index > 0 {
                writeln!(text)?;
            }
            writeln!(text, "| case | {} |", titles.join(" | "))?;
            writeln!(text, "|---|{}", "---:|".repeat(columns.len()))?;
        }
        let cells: Vec<String> = columns.iter().map(|column| cell(&column.cells[index])).collect();
        let status = match case.status {
            Status::Passed => String::new(),
            other => format!(" ({})", other.name()),
        };
        writeln!(text, "| {}{status} | {} |", escaped(&case.name), cells.join(" | "))?;
    }
    Ok(())
}

fn cell(cell: &Cell) -> String {
    let spread = cell.spread.iter().map(|spread| format!(" [{spread}]"));
    let interval = cell.interval.iter().map(|range| format!(" ({range})"));
    let spread: String = spread.chain(interval).collect();
    if cell.alarming { format!("**{}**{spread}", cell.value) } else { format!("{}{spread}", cell.value) }
}

/// Names come from users: what Markdown or HTML would take as markup is taken literally.
fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '\n' | '\r' => escaped.push(' '),
            '<' => escaped.push_str("&lt;"),
            '|' | '*' | '`' | '[' | ']' | '\\' => escaped.extend(['\\', character]),
            other => escaped.push(other),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::super::sample;
    use super::*;

    #[test]
    fn a_complete_run_as_markdown() {
        insta::assert_snapshot!(MarkdownReport.render(&sample::complete()).unwrap());
    }

    #[test]
    fn a_failed_run_says_why_as_markdown() {
        insta::assert_snapshot!(MarkdownReport.render(&sample::failed()).unwrap());
    }

    #[test]
    fn skipped_cases_and_intervals_are_in_the_markdown() {
        let text = MarkdownReport.render(&sample::skipping()).unwrap();
        assert!(text.contains("2 of 4 cases passed, 2 skipped"), "{text}");
        assert!(text.contains("| fan_out=64 (skipped) |"), "{text}");
        assert!(text.contains("the relay needs 4 cores"), "{text}");
        let text = MarkdownReport.render(&sample::repeated()).unwrap();
        let row = text.lines().find(|line| line.starts_with("| fan_out=1 |"));
        assert!(row.unwrap().contains("] ("), "{text}");
        assert!(text.contains("The true median is in its interval"), "{text}");
    }

    #[test]
    fn names_cannot_break_out_of_the_table() {
        let mut results = sample::complete();
        results.cases[0].name = "a|b<script>\nc".to_owned();
        let text = MarkdownReport.render(&results).unwrap();
        assert!(text.contains("| a\\|b&lt;script> c |"), "{text}");
    }
}
