//! The terminal's report: verdict first, then the table, then what there is to know about it.
//!
//! On a terminal too narrow for the table, each case becomes a short list instead: no column is ever cut off
//! or left out.

use std::fmt::{self, Write as _};

use super::columns::{Cell, Column, columns, table_begins};
use super::destinations;
use super::search::{HEADINGS, rows};
use super::verdict::{Verdict, provenance, remarks};
use super::{Report, ReportError};
use crate::results::{Capacity, Case, Results, Severity, Status};

/// Verdict, table, findings and environment for a terminal or a log.
#[derive(Debug, Clone, Copy)]
pub struct TableReport {
    /// Columns of the terminal; `None` if the output is not a terminal and may be as wide as it likes.
    pub width: Option<usize>,
    /// Whether to emphasise.
    pub colour: Colour,
}

/// Whether the text may carry terminal colours.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Colour {
    /// Plain text.
    Never,
    /// ANSI escape sequences.
    Always,
}

impl Report for TableReport {
    fn render(&self, results: &Results) -> Result<String, ReportError> {
        let mut text = String::new();
        self.write(&mut text, results).expect("writing to a String cannot fail");
        Ok(text)
    }
}

impl TableReport {
    fn write(&self, text: &mut String, results: &Results) -> fmt::Result {
        self.write_verdict(text, results)?;
        if !results.cases.is_empty() {
            let columns = columns(results);
            let grid = Grid::of(results, &columns);
            writeln!(text)?;
            if self.width.is_none_or(|width| grid.width() <= width) {
                self.write_grid(text, &grid)?;
            } else {
                self.write_lists(text, results, &columns)?;
            }
        }
        for case in &results.cases {
            self.write_destinations(text, case)?;
            if let Some(capacity) = &case.capacity {
                self.write_search(text, &case.name, capacity)?;
            }
        }
        self.write_findings(text, results)?;
        writeln!(text)?;
        for line in provenance(results) {
            for line in wrapped(&single_line(&line), self.width) {
                writeln!(text, "{}", self.paint(&line, Emphasis::Faint))?;
            }
        }
        Ok(())
    }

    fn write_verdict(&self, text: &mut String, results: &Results) -> fmt::Result {
        let verdict = Verdict::on(results);
        let (mark, emphasis) = match verdict.status {
            Status::Passed => ("✓", Emphasis::Good),
            Status::Failed => ("✗", Emphasis::Bad),
            Status::Invalid | Status::Incomplete => ("!", Emphasis::Doubtful),
            Status::Skipped => ("–", Emphasis::Doubtful),
        };
        let headline = format!("{mark} {}: {}", results.scenario, verdict.headline);
        writeln!(text, "{}", self.paint(&single_line(&headline), emphasis))?;
        for line in verdict.delivery.iter().chain(&verdict.missing) {
            for line in wrapped(&single_line(line), self.width.map(|width| width.saturating_sub(2))) {
                writeln!(text, "  {line}")?;
            }
        }
        Ok(())
    }

    fn write_grid(&self, text: &mut String, grid: &Grid) -> fmt::Result {
        for line in &grid.lines {
            let mut row = String::new();
            for (index, cell) in line.iter().enumerate() {
                let width = grid.widths[index];
                let padding = " ".repeat(width - length(&cell.text));
                let painted = self.paint(&cell.text, cell.emphasis);
                // Names read from the left, figures align at their last digit.
                match index {
                    0 => write!(row, "{painted}{padding}")?,
                    _ => write!(row, "{GAP}{padding}{painted}")?,
                }
            }
            writeln!(text, "{}", row.trim_end())?;
        }
        Ok(())
    }

    fn write_lists(&self, text: &mut String, results: &Results, columns: &[Column]) -> fmt::Result {
        let titles: Vec<String> = columns.iter().map(|column| column.title()).collect();
        let width = titles.iter().map(|title| length(title)).max().unwrap_or(0);
        for (index, case) in results.cases.iter().enumerate() {
            if index > 0 {
                writeln!(text)?;
            }
            writeln!(text, "{}", self.paint(&single_line(&case.name), Emphasis::Strong))?;
            for (column, title) in columns.iter().zip(&titles) {
                let cell = &column.cells[index];
                if cell.value.is_empty() {
                    continue;
                }
                let value = self.paint(&cell.value, emphasis_of(cell));
                let spread = cell.spread.as_ref().map(|spread| format!("  [{spread}]"));
                let spread = self.paint(&spread.unwrap_or_default(), Emphasis::Faint);
                writeln!(text, "  {title:width$}  {value}{spread}")?;
                if let Some(interval) = &cell.interval {
                    let interval = self.paint(&format!("({interval})"), Emphasis::Faint);
                    writeln!(text, "  {:width$}  {interval}", "")?;
                }
            }
        }
        Ok(())
    }

    /// A line for each of several destinations; on a narrow terminal a sentence each.
    fn write_destinations(&self, text: &mut String, case: &Case) -> fmt::Result {
        let rows = destinations::rows(case);
        if rows.is_empty() {
            return Ok(());
        }
        let name = single_line(&format!("{}, each destination:", case.name));
        writeln!(text, "\n{}", self.paint(&name, Emphasis::Strong))?;
        let heading = destinations::HEADINGS.map(str::to_owned);
        let line = |cells: &[String], emphasis| {
            Grid::line(single_line(&cells[0]), cells[1..].iter().cloned(), emphasis)
        };
        let emphasis = |alarming| if alarming { Emphasis::Bad } else { Emphasis::None };
        let figures = rows.iter().map(|row| line(&row.cells, emphasis(row.alarming)));
        let grid = Grid::new(std::iter::once(line(&heading, Emphasis::None)).chain(figures).collect());
        if self.width.is_some_and(|width| grid.width() > width) {
            for row in &rows {
                let figures = heading.iter().zip(&row.cells).skip(1).filter(|(_, cell)| !cell.is_empty());
                let figures: Vec<String> =
                    figures.map(|(heading, cell)| format!("{heading} {cell}")).collect();
                let line = single_line(&format!("{}: {}", row.cells[0], figures.join(", ")));
                for line in wrapped(&line, self.width) {
                    writeln!(text, "{line}")?;
                }
            }
            return Ok(());
        }
        self.write_grid(text, &grid)
    }

    /// Every rate that was tried; on a narrow terminal a sentence each.
    fn write_search(&self, text: &mut String, case: &str, capacity: &Capacity) -> fmt::Result {
        writeln!(text)?;
        let sentence = single_line(&format!("{case}: {}", capacity.sentence()));
        for line in wrapped(&sentence, self.width) {
            writeln!(text, "{}", self.paint(&line, Emphasis::Strong))?;
        }
        let rows = rows(capacity);
        let widths: Vec<usize> = (0..HEADINGS.len())
            .map(|column| {
                let cells = rows.iter().map(|row| length(&row.cells[column]));
                cells.chain([length(HEADINGS[column])]).max().unwrap_or(0)
            })
            .collect();
        let total = widths.iter().sum::<usize>() + GAP.len() * widths.len() + LONGEST_VERDICT;
        let is_wide = self.width.is_none_or(|width| total <= width);
        let aligned = |cells: &[String]| {
            let cells = cells.iter().zip(&widths);
            let cells: Vec<_> = cells.map(|(cell, width)| format!("{cell:>width$}")).collect();
            cells.join(GAP)
        };
        if is_wide {
            let heading = format!("{}{GAP}verdict", aligned(&HEADINGS.map(str::to_owned)));
            writeln!(text, "{}", self.paint(&heading, Emphasis::Strong))?;
        }
        for row in &rows {
            let emphasis = if row.alarming { Emphasis::Bad } else { Emphasis::None };
            if is_wide {
                let verdict = self.paint(row.verdict, emphasis);
                writeln!(text, "{}{GAP}{verdict}", aligned(&row.cells))?;
            } else {
                let cells = HEADINGS.iter().zip(&row.cells).skip(2);
                let cells: Vec<_> = cells
                    .filter(|(_, cell)| !cell.is_empty())
                    .map(|(heading, cell)| format!("{heading} {cell}"))
                    .collect();
                let [number, purpose, ..] = &row.cells;
                let line = format!("{number} {purpose}, {}: {}", row.verdict, cells.join(", "));
                for line in wrapped(&line, self.width) {
                    writeln!(text, "{}", self.paint(&line, emphasis))?;
                }
            }
            let room = self.width.map(|width| width.saturating_sub(INDENT));
            let reason = single_line(&row.reason);
            for line in wrapped(&reason, room).iter().filter(|line| !line.is_empty()) {
                writeln!(text, "{:INDENT$}{}", "", self.paint(line, Emphasis::Faint))?;
            }
        }
        Ok(())
    }

    fn write_findings(&self, text: &mut String, results: &Results) -> fmt::Result {
        for (index, remark) in remarks(results).iter().enumerate() {
            if index == 0 {
                writeln!(text)?;
            }
            let emphasis = match remark.severity {
                Severity::Failure => Emphasis::Bad,
                Severity::Invalid | Severity::Warning => Emphasis::Doubtful,
                Severity::Note => Emphasis::Faint,
            };
            let label = format!("{:>7}", remark.severity.name());
            let line = single_line(&format!("{}: {}", remark.place, remark.message));
            let hint = remark.hint.iter().map(|hint| format!("→ {}", single_line(hint)));
            let room = self.width.map(|width| width.saturating_sub(INDENT));
            let lines = [line].into_iter().chain(hint).flat_map(|line| wrapped(&line, room));
            for (number, line) in lines.enumerate() {
                match number {
                    0 => writeln!(text, "{}  {line}", self.paint(&label, emphasis))?,
                    _ => writeln!(text, "{:INDENT$}{line}", "")?,
                }
            }
        }
        Ok(())
    }

    fn paint(&self, text: &str, emphasis: Emphasis) -> String {
        let code = match emphasis {
            _ if self.colour == Colour::Never || text.is_empty() => return text.to_owned(),
            Emphasis::None => return text.to_owned(),
            Emphasis::Strong => "1",
            Emphasis::Faint => "2",
            Emphasis::Good => "1;32",
            Emphasis::Bad => "1;31",
            Emphasis::Doubtful => "1;33",
        };
        format!("\u{1b}[{code}m{text}\u{1b}[0m")
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Emphasis {
    None,
    Strong,
    Faint,
    Good,
    Bad,
    Doubtful,
}

/// The table as lines of cells, every line as long as the widths.
struct Grid {
    lines: Vec<Vec<GridCell>>,
    widths: Vec<usize>,
}

struct GridCell {
    text: String,
    emphasis: Emphasis,
}

impl Grid {
    fn of(results: &Results, columns: &[Column]) -> Self {
        let mut lines = Vec::new();
        for line in 0..2 {
            let heading = columns.iter().map(|column| match &column.heading {
                // A heading of one line stands directly above its figures.
                [only, second] if second.is_empty() => {
                    if line == 0 {
                        String::new()
                    } else {
                        only.to_string()
                    }
                }
                both => both[line].to_string(),
            });
            let name = if line == 1 { "case" } else { "" };
            lines.push(Self::line(name.to_owned(), heading, Emphasis::Strong));
        }
        let begins = table_begins(results);
        for (index, case) in results.cases.iter().enumerate() {
            if index > 0 && begins[index] {
                lines.push(Self::line(String::new(), columns.iter().map(|_| String::new()), Emphasis::None));
            }
            let cells = columns.iter().map(|column| &column.cells[index]);
            let mut values = Self::line(
                single_line(&case.name),
                cells.clone().map(|cell| cell.value.clone()),
                Emphasis::None,
            );
            for (cell, shown) in cells.clone().zip(&mut values[1..]) {
                shown.emphasis = emphasis_of(cell);
            }
            if !case.passed {
                values[0].text.push_str(&format!(" ({})", case.status.name()));
            }
            lines.push(values);
            if cells.clone().any(|cell| cell.spread.is_some()) {
                let spreads = cells.clone().map(|cell| cell.spread.clone().unwrap_or_default());
                lines.push(Self::line(String::new(), spreads, Emphasis::Faint));
            }
            if cells.clone().any(|cell| cell.interval.is_some()) {
                let intervals = cells.map(|cell| {
                    let interval = cell.interval.as_ref();
                    interval.map_or_else(String::new, |range| format!("({range})"))
                });
                lines.push(Self::line(String::new(), intervals, Emphasis::Faint));
            }
        }
        Self::new(lines)
    }

    fn new(lines: Vec<Vec<GridCell>>) -> Self {
        let columns = lines.first().map_or(0, Vec::len);
        let widths = (0..columns)
            .map(|index| lines.iter().map(|line| length(&line[index].text)).max().unwrap_or(0))
            .collect();
        Self { lines, widths }
    }

    fn line(first: String, rest: impl Iterator<Item = String>, emphasis: Emphasis) -> Vec<GridCell> {
        [first].into_iter().chain(rest).map(|text| GridCell { text, emphasis }).collect()
    }

    fn width(&self) -> usize {
        self.widths.iter().sum::<usize>() + GAP.len() * (self.widths.len() - 1)
    }
}

fn emphasis_of(cell: &Cell) -> Emphasis {
    if cell.alarming { Emphasis::Bad } else { Emphasis::None }
}

/// Characters; all that the lab itself prints are one column wide.
fn length(text: &str) -> usize {
    text.chars().count()
}

/// Names come from users: a line feed or an escape sequence in one must not rearrange the terminal.
fn single_line(text: &str) -> String {
    text.chars().map(|character| if character.is_control() { ' ' } else { character }).collect()
}

/// Breaks a text at spaces; a word longer than the width keeps its length.
fn wrapped(text: &str, width: Option<usize>) -> Vec<String> {
    let Some(width) = width else {
        return vec![text.to_owned()];
    };
    let mut lines: Vec<String> = Vec::new();
    for word in text.split(' ') {
        match lines.last_mut() {
            Some(line) if length(line) + 1 + length(word) <= width => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines
}

const GAP: &str = "  ";
/// `generator-limited`.
const LONGEST_VERDICT: usize = 17;
/// Where the text of a finding begins, after its label.
const INDENT: usize = 9;

#[cfg(test)]
mod tests {
    use super::super::sample;
    use super::*;

    fn render(results: &Results, width: Option<usize>) -> String {
        TableReport { width, colour: Colour::Never }.render(results).unwrap()
    }

    #[test]
    fn a_complete_run_in_the_terminal() {
        insta::assert_snapshot!(render(&sample::complete(), None));
    }

    #[test]
    fn a_run_of_one_trial_in_the_terminal() {
        insta::assert_snapshot!(render(&sample::quick(), None));
    }

    #[test]
    fn a_failed_run_in_the_terminal() {
        insta::assert_snapshot!(render(&sample::failed(), Some(140)));
    }

    #[test]
    fn a_run_of_many_trials_in_the_terminal() {
        insta::assert_snapshot!(render(&sample::repeated(), None));
    }

    #[test]
    fn a_run_that_skips_cases_in_the_terminal() {
        insta::assert_snapshot!(render(&sample::skipping(), None));
    }

    #[test]
    fn a_run_in_which_every_case_was_skipped_has_not_passed() {
        let mut results = sample::skipping();
        results.cases.retain(|case| case.status == Status::Skipped);
        let text = render(&results, None);
        let expected =
            format!("– {}: 0 of 2 cases passed, 2 skipped: nothing was measured\n", results.scenario);
        assert!(text.starts_with(&expected), "{text}");
        assert!(!text.contains('✓') && !results.passed());
    }

    #[test]
    fn an_interrupted_run_in_a_narrow_terminal() {
        insta::assert_snapshot!(render(&sample::interrupted(), Some(60)));
    }

    #[test]
    fn a_search_for_the_highest_sustainable_rate_in_the_terminal() {
        insta::assert_snapshot!(render(&sample::searched(), Some(140)));
    }

    #[test]
    fn a_run_that_has_no_case_yet_says_what_is_missing() {
        insta::assert_snapshot!(render(&sample::begun(), None));
    }

    #[test]
    fn no_line_of_a_narrow_report_is_wider_than_the_terminal() {
        for results in sample::all() {
            for width in [60, 80, 100, 140] {
                let text = render(&results, Some(width));
                let widest = text.lines().map(length).max().unwrap();
                assert!(widest <= width, "{widest} > {width}:\n{text}");
            }
        }
    }

    #[test]
    fn colours_appear_only_on_request_and_change_no_character() {
        let coloured = TableReport { width: None, colour: Colour::Always };
        let coloured = coloured.render(&sample::failed()).unwrap();
        let plain = render(&sample::failed(), None);
        assert!(!plain.contains('\u{1b}'));
        let mut stripped = String::new();
        let mut rest = coloured.as_str();
        while let Some((before, after)) = rest.split_once('\u{1b}') {
            stripped.push_str(before);
            rest = after.split_once('m').unwrap().1;
        }
        stripped.push_str(rest);
        let trimmed = |text: &str| text.lines().map(str::trim_end).collect::<Vec<_>>().join("\n");
        assert_eq!(trimmed(&stripped), trimmed(&plain));
    }

    #[test]
    fn escape_sequences_in_names_do_not_reach_the_terminal() {
        let mut results = sample::complete();
        results.cases[0].name = "\u{1b}[2Jx\ny".to_owned();
        let text = render(&results, None);
        assert!(!text.contains('\u{1b}') && text.contains(" [2Jx y"));
    }
}
