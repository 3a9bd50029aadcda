//! `parshall lab`: what concerns the lab itself.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use clap::{Args, Subcommand, ValueEnum};
use lab::limits::Limiter;
use lab::report::ResultsFolder;
use lab::results::RunIdentity;
use lab::self_check::saboteur::{self, Fault};
use lab::self_check::{SelfCheck, self_check};

use crate::exit::{CommandError, Exit};
use crate::progress::ProgressDisplay;
use crate::signals::{self, StopSignals};
use crate::terminal::Terminal;
use crate::{logging, output};

/// The arguments of `lab`.
#[derive(Debug, Args)]
pub(crate) struct LabArguments {
    /// What to do
    #[command(subcommand)]
    command: LabCommand,
}

/// The commands of `lab`.
#[derive(Debug, Subcommand)]
enum LabCommand {
    /// Check on this machine that the lab finds known damage and known pauses, in about a minute
    #[command(after_help = "\
A saboteur takes the relay's place: it drops, duplicates, flips, swaps or invents events and counts them. Then each process is
stopped for a second. The lab must find exactly that. Exit status 0 if it does, 1 if not.

Example:
  parshall lab check")]
    Check(CheckArguments),
    /// Forward events and damage some of them, started by `lab check`
    #[command(hide = true)]
    Saboteur(SaboteurArguments),
}

#[derive(Debug, Args)]
struct CheckArguments {
    /// The directory for the results of the runs; it must not hold results yet [default: results/lab-check/<time>]
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,

    /// What is printed on standard output
    #[arg(long, value_enum, default_value_t = Format::Table)]
    format: Format,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Format {
    /// A table of what was expected and observed
    Table,
    /// The same as JSON
    Json,
}

#[derive(Debug, Args)]
struct SaboteurArguments {
    /// What to do to every fiftieth event
    #[arg(long, value_parser = fault)]
    fault: Fault,

    /// The file for the count of what was done
    #[arg(long, value_name = "FILE")]
    tally: PathBuf,
}

fn fault(name: &str) -> Result<Fault, String> {
    Fault::named(name).ok_or_else(|| format!("one of {}", Fault::ALL.map(Fault::name).join(", ")))
}

/// Runs one of the commands.
pub(crate) fn execute(arguments: LabArguments, quiet: bool) -> Result<Exit, CommandError> {
    logging::start(quiet)?;
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(CommandError::System)?;
    match arguments.command {
        LabCommand::Check(arguments) => runtime.block_on(check(&arguments, quiet)),
        LabCommand::Saboteur(arguments) => runtime.block_on(sabotage(&arguments)),
    }
}

async fn check(arguments: &CheckArguments, quiet: bool) -> Result<Exit, CommandError> {
    let folder = match &arguments.out {
        Some(folder) => ResultsFolder::create(folder)?,
        None => ResultsFolder::create_dated(Path::new("results/lab-check"), SystemTime::now())?,
    };
    let cancellation = signals::cancellation()?;
    let program = std::env::current_exe().map_err(CommandError::System)?;
    let identity = RunIdentity {
        version: env!("PARSHALL_VERSION").to_owned(),
        command: "parshall lab check".to_owned(),
        target: "embedded".to_owned(),
        seed: 1,
    };
    let display = ProgressDisplay::start(Terminal::of_stderr(), quiet || logging::is_json())
        .map_err(CommandError::System)?;
    let found = self_check(&program, folder, identity, &Limiter::detect(), &display, cancellation).await;
    drop(display);
    let found = found.map_err(|error| CommandError::Unavailable { message: error.to_string() })?;
    output::print(&match arguments.format {
        Format::Table => table(&found),
        Format::Json => {
            format!("{:#}\n", serde_json::json!({"passed": found.passed(), "checks": found.checks}))
        }
    })?;
    Ok(match found.passed() {
        true => Exit::Passed,
        false if !found.missing.is_empty() => Exit::Interrupted,
        false => Exit::Failed,
    })
}

fn table(found: &SelfCheck) -> String {
    let mut text = String::new();
    let passed = found.checks.iter().filter(|check| check.passed).count();
    let mark = if found.passed() { "✓" } else { "✗" };
    let all = found.checks.len() + found.missing.len();
    let mut write = || -> std::fmt::Result {
        writeln!(text, "{mark} lab check: {passed} of {all} checks passed\n")?;
        for check in &found.checks {
            let mark = if check.passed { "✓" } else { "✗" };
            writeln!(text, "{mark} {:<16} expected  {}", check.name, check.expected)?;
            writeln!(text, "  {:<16} observed  {}", "", check.observed)?;
        }
        for name in &found.missing {
            writeln!(text, "! {name:<16} interrupted")?;
        }
        writeln!(text, "\nThe runs: {}", found.folder.display())
    };
    write().expect("writing to a string cannot fail");
    text
}

async fn sabotage(arguments: &SaboteurArguments) -> Result<Exit, CommandError> {
    let mut signals = StopSignals::listen()?;
    let ready = || {
        // The lab waits for this line. Without a reader there is nothing to forward for.
        let _ = output::print("ready\n");
    };
    let stop = async {
        signals.next().await;
    };
    saboteur::run(arguments.fault, &arguments.tally, ready, stop)
        .await
        .map_err(|error| CommandError::Unavailable { message: error.to_string() })?;
    Ok(Exit::Passed)
}
