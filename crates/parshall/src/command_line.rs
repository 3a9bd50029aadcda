//! The command line: every option with its help, unit, default and an example.

use clap::{Parser, Subcommand};

use crate::check::CheckArguments;
use crate::compare::CompareArguments;
use crate::hub::HubArguments;
use crate::list::ListArguments;
use crate::relay::RelayArguments;
use crate::role::RoleArguments;
use crate::run::RunArguments;
use crate::serve::ServeArguments;
use crate::show::ShowArguments;

/// What a person types.
#[derive(Debug, Parser)]
#[command(
    name = "parshall",
    version,
    about = "Carries event streams, and measures how fast, how late, how costly, and whether every event arrived.",
    help_expected = true,
    max_term_width = 100,
    propagate_version = true,
    subcommand_required = true,
    arg_required_else_help = true,
    after_help = EXIT_STATUS
)]
pub(crate) struct CommandLine {
    /// What to do.
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// The commands.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Run the cases of a scenario, and report how fast, how late, how costly, and whether every event arrived
    Run(RunArguments),
    /// Compare two runs, or two builds trial by trial: the difference, its interval, and whether it is proven
    Compare(CompareArguments),
    /// List the scenarios of this program with their cases
    List(ListArguments),
    /// Print a scenario's file, to be read or copied; or the cases that follow from it
    Show(ShowArguments),
    /// Serve hubs, queues and topics to the unmodified clients of Event Hubs and Service Bus, until interrupted
    Serve(Box<ServeArguments>),
    /// Create, list, show and delete the hubs of a running service
    Hub(HubArguments),
    /// Read a data directory as a whole and name every damaged file, without changing anything
    Check(CheckArguments),
    /// Run one pipeline on its own: read from a hub or queue, route, send to another, until interrupted
    Relay(RelayArguments),
    /// One process of a measurement, started by `run`
    #[command(hide = true)]
    Role(RoleArguments),
}

const EXIT_STATUS: &str = "\
Results go to standard output, everything else to standard error.

Exit status:
  0    everything passed
  1    a case failed: an event was lost or damaged, or a process ended early
  2    the command line or a file is wrong
  3    the service can't be reached or refuses, a port is taken, a directory can't be used
  130  interrupted";
