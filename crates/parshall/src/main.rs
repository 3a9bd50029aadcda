//! The `parshall` binary: reads the command line, runs one command, prints its error if it has one, and picks the exit
//! status. Everything else is in the libraries.

mod administration;
mod bounded_log;
mod check;
mod command_line;
mod compare;
mod connection_advice;
mod descriptors;
mod diagnostics;
mod exit;
mod file_kind;
mod health;
mod hub;
mod lab;
mod list;
mod listening;
mod logging;
mod named_namespace;
mod open_telemetry;
mod operations;
mod output;
mod printed;
mod progress;
mod relay;
mod role;
mod run;
mod selection;
mod send;
mod serve;
mod service;
mod shipping;
mod show;
mod signals;
mod tail;
mod target;
mod terminal;
mod time;
mod wait;

use std::process::ExitCode;

use command_line::{Command, CommandLine, WithVariables};

fn main() -> ExitCode {
    descriptors::raise_limit();
    listen::declare_build(BUILD);
    let CommandLine { quiet, log_format, command } = CommandLine::of_this_process();
    logging::choose(log_format);
    let result = match command {
        Command::List(WithVariables(arguments)) => list::execute(arguments),
        Command::Show(WithVariables(arguments)) => show::execute(arguments),
        Command::Run(WithVariables(arguments)) => run::execute(arguments, quiet),
        Command::Compare(WithVariables(arguments)) => compare::execute(arguments, quiet),
        Command::Relay(WithVariables(arguments)) => relay::execute(arguments, quiet),
        Command::Role(arguments) => role::execute(arguments),
        Command::Serve(WithVariables(arguments)) => serve::execute(*arguments, quiet),
        Command::Hub(WithVariables(arguments)) => hub::execute(arguments),
        Command::Queue(WithVariables(arguments)) => administration::queue::execute(*arguments),
        Command::Topic(WithVariables(arguments)) => administration::topic::execute(*arguments),
        Command::Subscription(WithVariables(arguments)) => administration::subscription::execute(*arguments),
        Command::Rule(WithVariables(arguments)) => administration::rule::execute(arguments),
        Command::Time(WithVariables(arguments)) => time::execute(arguments),
        Command::Send(WithVariables(arguments)) => send::execute(*arguments, quiet),
        Command::Tail(WithVariables(arguments)) => tail::execute(*arguments),
        Command::Peek(WithVariables(arguments)) => tail::execute_peek(*arguments),
        Command::Check(WithVariables(arguments)) => check::execute(arguments),
        Command::Lab(WithVariables(arguments)) => lab::execute(arguments, quiet),
        Command::Health(WithVariables(arguments)) => health::execute(arguments),
        Command::Wait(WithVariables(arguments)) => wait::execute(arguments),
        Command::Completions(WithVariables(arguments)) => shipping::complete(arguments),
        Command::Man(WithVariables(arguments)) => shipping::write_man_pages(arguments),
    };
    bounded_log::report();
    match result {
        Ok(exit) => exit.into(),
        Err(error) => {
            diagnostics::print(&error);
            error.exit()
        }
    }
}

/// What the metrics tell of this program.
const BUILD: listen::Build = listen::Build {
    version: env!("CARGO_PKG_VERSION"),
    revision: env!("PARSHALL_REVISION"),
    features: if cfg!(feature = "librdkafka") { "librdkafka" } else { "" },
};
