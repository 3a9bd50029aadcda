//! `parshall relay`: one pipeline on its own.

use std::path::PathBuf;

use clap::Args;

/// The arguments of `relay`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  parshall relay pipeline.yaml --check
  parshall relay pipeline.yaml")]
pub(crate) struct RelayArguments {
    /// The file that describes the pipeline: source, route, destination, checkpoints
    pub(crate) pipeline: PathBuf,

    /// Read the file, check everything that can be checked without connecting, and say what would be run
    #[arg(long)]
    pub(crate) check: bool,
}
