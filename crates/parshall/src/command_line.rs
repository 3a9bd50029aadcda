//! The command line: every option with its help, unit, default and an example.

use clap::{Parser, Subcommand};

use crate::check::CheckArguments;
use crate::compare::CompareArguments;
use crate::hub::HubArguments;
use crate::lab::LabArguments;
use crate::list::ListArguments;
use crate::relay::RelayArguments;
use crate::role::RoleArguments;
use crate::run::RunArguments;
use crate::send::SendArguments;
use crate::serve::ServeArguments;
use crate::shipping::{CompletionsArguments, ManArguments};
use crate::show::ShowArguments;
use crate::tail::{PeekArguments, TailArguments};

/// What a person types.
#[derive(Debug, Parser)]
#[command(
    name = "parshall",
    version = env!("PARSHALL_VERSION"),
    about = "Carries event streams and measures them: throughput, latency, cost, and the delivery of every event.",
    help_expected = true,
    max_term_width = 100,
    propagate_version = true,
    subcommand_required = true,
    arg_required_else_help = true,
    after_help = EXIT_STATUS
)]
pub(crate) struct CommandLine {
    /// Show no progress, and log only warnings and errors
    #[arg(short, long, global = true)]
    pub(crate) quiet: bool,

    /// What to do.
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// The commands.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Run the cases of a scenario and report throughput, latency, cost, and the delivery of every event
    Run(RunArguments),
    /// Compare two runs, or two builds trial by trial: the difference, its interval, and whether it is proven
    Compare(CompareArguments),
    /// List the built-in scenarios and their cases
    List(ListArguments),
    /// Print a scenario's file, or the cases that result from it
    Show(ShowArguments),
    /// Serve hubs, queues and topics to the unmodified clients of Event Hubs and Service Bus, until interrupted
    Serve(Box<ServeArguments>),
    /// Create, list, show and delete the hubs of a running service
    Hub(HubArguments),
    /// Send the lines of a file or of standard input to a hub, queue or topic
    Send(Box<SendArguments>),
    /// Print the events of a hub, topic, queue, subscription or dead-letter queue, and go on with what comes
    Tail(Box<TailArguments>),
    /// Print the messages of a queue or subscription as they lie there
    Peek(Box<PeekArguments>),
    /// Verify a data directory and name every damaged file, without changing anything
    Check(CheckArguments),
    /// Check that the lab finds known damage on this machine
    Lab(LabArguments),
    /// Run one pipeline until interrupted: read from a hub or queue, route, and send to another
    Relay(RelayArguments),
    /// Print the completions of a shell: commands, options and their values
    Completions(CompletionsArguments),
    /// Write the man pages to a directory
    Man(ManArguments),
    /// One process of a measurement, started by `run`
    #[command(hide = true)]
    Role(RoleArguments),
}

const EXIT_STATUS: &str = "\
Results go to standard output, everything else to standard error.

Exit status:
  0    everything passed
  1    a case failed: an event was lost or damaged, or a process ended early; or no case could be run
  2    the command line or a file is wrong
  3    the service can't be reached or refuses, a port is taken, a directory can't be used
  130  interrupted";
