//! The command line: every option with its help, unit, default and an example.
//!
//! Every option can be given by an environment variable as well, which is called after command and option:
//! `PARSHALL_SERVE_DATA_DIR` is `serve --data-dir`. An option on the command line comes first.
//!
//! The options of a command are defined when it is known that they are asked for: those of all commands took a good part of the
//! time and of the memory in which a service starts.

use clap::builder::{BoolishValueParser, Resettable};
use clap::{Arg, ArgAction, ArgMatches, Args, CommandFactory as _, FromArgMatches, Id, Parser, Subcommand};

use crate::administration::queue::QueueArguments;
use crate::administration::rule::RuleArguments;
use crate::administration::subscription::SubscriptionArguments;
use crate::administration::topic::TopicArguments;
use crate::check::CheckArguments;
use crate::compare::CompareArguments;
use crate::health::HealthArguments;
use crate::hub::HubArguments;
use crate::lab::LabArguments;
use crate::list::ListArguments;
use crate::logging::LogFormat;
use crate::relay::RelayArguments;
use crate::role::RoleArguments;
use crate::run::RunArguments;
use crate::send::SendArguments;
use crate::serve::ServeArguments;
use crate::shipping::{CompletionsArguments, ManArguments};
use crate::show::ShowArguments;
use crate::tail::{PeekArguments, TailArguments};
use crate::time::TimeArguments;
use crate::wait::WaitArguments;

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

    /// The form of the log on standard error
    #[arg(long, global = true, value_enum, value_name = "text|json", hide_possible_values = true, default_value_t = LogFormat::Text)]
    pub(crate) log_format: LogFormat,

    /// What to do.
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// The commands.
#[derive(Debug, Subcommand)]
#[command(defer = true)]
pub(crate) enum Command {
    /// Run the cases of a scenario and report throughput, latency, cost, and the delivery of every event
    Run(WithVariables<RunArguments>),
    /// Compare two runs, or two builds trial by trial: the difference, its interval, and whether it is proven
    Compare(WithVariables<CompareArguments>),
    /// List the built-in scenarios and their cases
    List(WithVariables<ListArguments>),
    /// Print a scenario's file, or the cases that result from it
    Show(WithVariables<ShowArguments>),
    /// Serve hubs, queues and topics to the unmodified clients of Event Hubs and Service Bus, until interrupted
    Serve(WithVariables<Box<ServeArguments>>),
    /// Create, list, show and delete the hubs of a running service
    Hub(WithVariables<HubArguments>),
    /// Create, list, show, change and delete the queues of a running service
    Queue(WithVariables<Box<QueueArguments>>),
    /// Create, list, show, change and delete the topics of a running service
    Topic(WithVariables<Box<TopicArguments>>),
    /// Create, list, show, change and delete the subscriptions of a topic
    Subscription(WithVariables<Box<SubscriptionArguments>>),
    /// Create, list, change and delete the rules of a subscription
    Rule(WithVariables<RuleArguments>),
    /// Show and advance the time of a service that runs with --time-control
    Time(WithVariables<TimeArguments>),
    /// Send the lines of a file or of standard input to a hub, queue or topic
    Send(WithVariables<Box<SendArguments>>),
    /// Print the events of a hub, topic, queue, subscription or dead-letter queue, and go on with what comes
    Tail(WithVariables<Box<TailArguments>>),
    /// Print the messages of a queue or subscription as they lie there
    Peek(WithVariables<Box<PeekArguments>>),
    /// Verify a data directory and name every damaged file, without changing anything
    Check(WithVariables<CheckArguments>),
    /// Check that the lab finds known damage on this machine
    Lab(WithVariables<LabArguments>),
    /// Run one pipeline until interrupted: read from a hub or queue, route, and send to another
    Relay(WithVariables<RelayArguments>),
    /// Ask a running service or relay whether it is ready, for probes of containers
    Health(WithVariables<HealthArguments>),
    /// Wait until interrupted: keeps a container running for commands that are started in it
    Wait(WithVariables<WaitArguments>),
    /// Print the completions of a shell: commands, options and their values
    Completions(WithVariables<CompletionsArguments>),
    /// Write the man pages to a directory
    Man(WithVariables<ManArguments>),
    /// One process of a measurement, started by `run`
    #[command(hide = true)]
    Role(RoleArguments),
}

/// The arguments of a command whose options can be given by variables: all but `role`, since what the lab starts is nobody's to
/// set.
#[derive(Debug)]
pub(crate) struct WithVariables<T>(pub(crate) T);

impl CommandLine {
    /// What this process was started with. If it can't be understood, the process ends here and says why.
    pub(crate) fn of_this_process() -> Self {
        let matches = command().get_matches();
        Self::from_arg_matches(&matches).unwrap_or_else(|error| error.exit())
    }
}

/// The command line's definition. That of a command's options follows when it is built.
pub(crate) fn command() -> clap::Command {
    CommandLine::command().mut_args(|argument| with_variable(argument, PREFIX))
}

impl<T: Args> Args for WithVariables<T> {
    fn group_id() -> Option<Id> {
        T::group_id()
    }

    fn augment_args(command: clap::Command) -> clap::Command {
        // The description of the arguments' type would replace that of the command.
        let about = Resettable::from(command.get_about().cloned());
        with_variables(T::augment_args(command).about(about), PREFIX)
    }

    fn augment_args_for_update(command: clap::Command) -> clap::Command {
        let about = Resettable::from(command.get_about().cloned());
        with_variables(T::augment_args_for_update(command).about(about), PREFIX)
    }
}

impl<T: FromArgMatches> FromArgMatches for WithVariables<T> {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        T::from_arg_matches(matches).map(Self)
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        self.0.update_from_arg_matches(matches)
    }
}

fn with_variables(command: clap::Command, prefix: &str) -> clap::Command {
    let prefix = format!("{prefix}_{}", variable_part(command.get_name()));
    let command = command.mut_args(|argument| with_variable(argument, &prefix));
    command.mut_subcommands(|command| with_variables(command, &prefix))
}

fn with_variable(argument: Arg, prefix: &str) -> Arg {
    // The options of all commands come into each of them with the variables that they have.
    let Some(name) = argument.get_long().filter(|_| argument.get_env().is_none()) else {
        return argument;
    };
    let variable = format!("{prefix}_{}", variable_part(name));
    let argument = match argument.get_action() {
        ArgAction::SetTrue => argument.value_parser(BoolishValueParser::new()),
        _ => argument,
    };
    // Values can be secrets.
    argument.env(variable).hide_env_values(true)
}

fn variable_part(name: &str) -> String {
    name.replace('-', "_").to_uppercase()
}

const PREFIX: &str = "PARSHALL";

const EXIT_STATUS: &str = "\
Results go to standard output, everything else to standard error. Options can be given by environment variables, which their help
names; a flag by 1, true, yes or on.

Exit status:
  0    everything passed
  1    a case failed: an event was lost or damaged, or a process ended early; or no case could be run
  2    the command line or a file is wrong
  3    the service can't be reached or refuses, a port is taken, a directory can't be used
  130  interrupted";

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    fn built() -> clap::Command {
        let mut command = command();
        command.build();
        command
    }

    /// The options that are defined here, not by the library.
    fn options(command: &clap::Command) -> impl Iterator<Item = &Arg> {
        command.get_arguments().filter(|argument| {
            argument.get_long().is_some()
                && !matches!(
                    argument.get_action(),
                    ArgAction::Help | ArgAction::HelpLong | ArgAction::Version
                )
        })
    }

    fn variables(command: &clap::Command, path: &str, all: &mut BTreeMap<String, String>) {
        let is_first = all.is_empty();
        for argument in options(command).filter(|argument| is_first || !argument.is_global_set()) {
            let option = format!("{path} --{}", argument.get_long().unwrap_or_default());
            let variable = argument.get_env().unwrap_or_else(|| panic!("{option} has no variable"));
            let variable = variable.to_str().unwrap().to_owned();
            assert!(argument.is_hide_env_values_set(), "{option}");
            let other = all.insert(variable, option.clone());
            assert_eq!(other, None, "{option}");
        }
        for command in command.get_subcommands().filter(|command| !command.is_hide_set()) {
            variables(command, &format!("{path} {}", command.get_name()), all);
        }
    }

    #[test]
    fn every_option_has_a_variable_of_its_own() {
        let mut all = BTreeMap::new();
        variables(&built(), "parshall", &mut all);
        for (variable, option) in [
            ("PARSHALL_QUIET", "parshall --quiet"),
            ("PARSHALL_LOG_FORMAT", "parshall --log-format"),
            ("PARSHALL_SERVE_TIME_CONTROL", "parshall serve --time-control"),
            ("PARSHALL_SERVE_DATA_DIR", "parshall serve --data-dir"),
            ("PARSHALL_HUB_CREATE_PARTITIONS", "parshall hub create --partitions"),
        ] {
            assert_eq!(all.get(variable).map(String::as_str), Some(option));
        }
        // These are read elsewhere, and say something else.
        for taken in ["PARSHALL_LOG", "PARSHALL_CONNECTION_STRING", "PARSHALL_TIME_URL", "PARSHALL_COMMIT"] {
            assert!(!all.contains_key(taken), "{taken}");
        }
    }

    #[test]
    fn the_processes_of_the_lab_take_nothing_from_the_environment() {
        let command = built();
        let role = command.find_subcommand("role").unwrap();
        let mut own = role.get_arguments().filter(|argument| !argument.is_global_set());
        assert!(own.all(|argument| argument.get_env().is_none()));
    }
}
