//! `parshall role`: one process of a measurement, started by `run` and by nobody else.
//!
//! Its configuration is one line of JSON on standard input; progress and results are lines of JSON on standard output;
//! the end of standard input means stop.

use clap::{Args, ValueEnum};

/// The arguments of `role`.
#[derive(Debug, Args)]
pub(crate) struct RoleArguments {
    /// Which one
    #[arg(value_enum)]
    pub(crate) role: RoleName,
}

/// The roles of a measurement.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum RoleName {
    /// The embedded service
    Hub,
    /// The load generator
    Load,
    /// The relay
    Relay,
    /// The receiver that checks every event
    Sink,
}
