//! `parshall list`: the scenarios of this program, with their sweeps.

use std::fmt::Write as _;

use clap::Args;
use lab::scenario::Scenario;

use crate::exit::{CommandError, Exit};
use crate::output;

/// `list` has no arguments.
#[derive(Debug, Args)]
pub(crate) struct ListArguments {}

/// Prints each scenario's name, what it shows, and the names of its sweeps and their cases.
pub(crate) fn execute(_: ListArguments) -> Result<Exit, CommandError> {
    let mut text = String::new();
    for name in Scenario::names() {
        let scenario = Scenario::load(name)?;
        let mut paragraph = || -> std::fmt::Result {
            writeln!(text, "{name}")?;
            for line in scenario.description().lines() {
                writeln!(text, "    {line}")?;
            }
            for (index, (sweep, cases)) in scenario.sweeps().iter().enumerate() {
                let chosen = match index {
                    0 => " (default)",
                    _ => "",
                };
                writeln!(text, "    sweep {sweep}{chosen}: {}", cases.join("  "))?;
            }
            Ok(())
        };
        paragraph().expect("writing to a string cannot fail");
    }
    output::print(&text)
}
