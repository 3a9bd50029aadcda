//! The `parshall` binary: reads the command line, runs one command, prints its error if it has one, and picks the exit
//! status. Everything else is in the libraries.

mod administration;
mod check;
mod command_line;
mod compare;
mod connection_advice;
mod descriptors;
mod diagnostics;
mod exit;
mod file_kind;
mod hub;
mod lab;
mod list;
mod listening;
mod logging;
mod named_namespace;
mod open_telemetry;
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

use std::process::ExitCode;

use command_line::{Command, CommandLine};

fn main() -> ExitCode {
    descriptors::raise_limit();
    listen::declare_build(BUILD);
    let CommandLine { quiet, log_format, command } = CommandLine::of_this_process();
    logging::choose(log_format);
    let result = match command {
        Command::List(arguments) => list::execute(arguments),
        Command::Show(arguments) => show::execute(arguments),
        Command::Run(arguments) => run::execute(arguments, quiet),
        Command::Compare(arguments) => compare::execute(arguments, quiet),
        Command::Relay(arguments) => relay::execute(arguments, quiet),
        Command::Role(arguments) => role::execute(arguments),
        Command::Serve(arguments) => serve::execute(*arguments, quiet),
        Command::Hub(arguments) => hub::execute(arguments),
        Command::Queue(arguments) => administration::queue::execute(*arguments),
        Command::Topic(arguments) => administration::topic::execute(*arguments),
        Command::Subscription(arguments) => administration::subscription::execute(*arguments),
        Command::Rule(arguments) => administration::rule::execute(arguments),
        Command::Time(arguments) => time::execute(arguments),
        Command::Send(arguments) => send::execute(*arguments, quiet),
        Command::Tail(arguments) => tail::execute(*arguments),
        Command::Peek(arguments) => tail::execute_peek(*arguments),
        Command::Check(arguments) => check::execute(arguments),
        Command::Lab(arguments) => lab::execute(arguments, quiet),
        Command::Completions(arguments) => shipping::complete(arguments),
        Command::Man(arguments) => shipping::write_man_pages(arguments),
    };
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
