//! The results of commands that administer a service: a table for a person, JSON for a program.

use std::fmt::Write as _;

use clap::ValueEnum;

/// Forms of a result.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum Format {
    /// For a person
    Table,
    /// For a program
    Json,
}

/// A result in either form.
pub(crate) trait Printed {
    /// For a person, with a line feed at the end.
    fn table(&self) -> String;

    /// For a program.
    fn json(&self) -> serde_json::Value;
}

impl Format {
    /// The text of a result.
    pub(crate) fn text(self, result: &impl Printed) -> String {
        match self {
            Self::Table => result.table(),
            Self::Json => json(&result.json()),
        }
    }
}

/// A value as a program reads it.
pub(crate) fn json(value: &serde_json::Value) -> String {
    format!("{value:#}\n")
}

/// Columns as wide as they need to be; the first and the last lean to the left, numbers between them to the right.
pub(crate) fn table<const N: usize>(heading: [&str; N], rows: impl Iterator<Item = [String; N]>) -> String {
    let mut lines = vec![heading.map(str::to_owned)];
    lines.extend(rows);
    let mut widths = [0; N];
    for line in &lines {
        for (width, cell) in widths.iter_mut().zip(line) {
            *width = cell.chars().count().max(*width);
        }
    }
    let mut text = String::new();
    for line in lines {
        for (column, (cell, width)) in line.iter().zip(widths).enumerate() {
            let written = match column {
                0 => write!(text, "{cell:width$}"),
                last if last + 1 == N => write!(text, "  {cell}"),
                _ => write!(text, "  {cell:>width$}"),
            };
            written.expect("a string takes everything");
        }
        text.push('\n');
    }
    text
}
