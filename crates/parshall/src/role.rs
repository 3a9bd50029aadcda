//! `parshall role`: one process of a measurement, started by `run` and by nobody else.
//!
//! Its configuration is one line of JSON on standard input; progress and results are lines of JSON on standard output;
//! the end of standard input means stop.

use std::io::{self, BufReader};

use clap::{Args, ValueEnum};
use lab::results::Role;
use lab::roles::network::Network;
use lab::roles::run_role;

use crate::exit::{CommandError, Exit};
use crate::logging;

/// The arguments of `role`.
#[derive(Debug, Args)]
#[command(about = "One process of a measurement, started by `run`")]
pub(crate) struct RoleArguments {
    /// Which one
    #[arg(value_enum)]
    role: RoleName,
}

/// The roles of a measurement.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum RoleName {
    /// The embedded service
    Hub,
    /// The load generator
    Load,
    /// The relay
    Relay,
    /// The receiver that checks every event
    Sink,
}

/// Does the work of a role until it is done or told to stop.
pub(crate) fn execute(arguments: RoleArguments) -> Result<Exit, CommandError> {
    logging::start(false)?;
    let role = match arguments.role {
        RoleName::Hub => Role::Service,
        RoleName::Load => Role::Load,
        RoleName::Relay => Role::Relay,
        RoleName::Sink => Role::Sink,
    };
    // A failure has been told to the orchestrator, which has the words for it.
    Ok(match run_role(role, Network, BufReader::new(io::stdin()), io::stdout()) {
        Ok(()) => Exit::Passed,
        Err(error) => {
            tracing::error!(%error, "the role failed");
            Exit::Failed
        }
    })
}
