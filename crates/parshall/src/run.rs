//! `parshall run`: measures the cases of a scenario.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

use crate::selection::Selection;

/// The arguments of `run`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  parshall run fan-out --quick
  parshall run fan-out --only 'fan_out=32' --set load.mode=backlog --set relay.batch.events=256
  EVENT_HUBS_CONNECTION_STRING='Endpoint=sb://…' parshall run ./mine.yaml --target namespace")]
pub(crate) struct RunArguments {
    /// The name of a scenario (see `parshall list`) or the path of a file, such as `fan-out` or `./mine.yaml`
    pub(crate) scenario: String,

    #[command(flatten)]
    pub(crate) selection: Selection,

    /// The directory for results.json, results.csv, the latency logs and the HTML report; made if need be
    ///
    /// Example: --out results/monday
    #[arg(
        long,
        value_name = "DIR",
        default_value = "results",
        help_heading = "Results"
    )]
    pub(crate) out: PathBuf,

    /// What is printed on standard output
    ///
    /// Example: --format json > results.json
    #[arg(long, value_enum, default_value_t = Format::Table, help_heading = "Results")]
    pub(crate) format: Format,
}

/// Forms of the results on standard output.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// A table for a terminal, verdict first
    Table,
    /// Exactly the content of results.json
    Json,
    /// A table for a document
    Markdown,
}
