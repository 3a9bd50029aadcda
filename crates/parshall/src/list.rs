//! `parshall list`: the scenarios of this program.

use std::fmt::Write as _;

use clap::Args;
use lab::scenario::{CaseOptions, Scenario};

use crate::exit::{CommandError, Exit};
use crate::output;

/// `list` has no arguments.
#[derive(Debug, Args)]
pub(crate) struct ListArguments {}

/// Prints each scenario's name, what it shows, and the names of its cases.
pub(crate) fn execute(_: ListArguments) -> Result<Exit, CommandError> {
    let mut text = String::new();
    for name in Scenario::names() {
        let scenario = Scenario::load(name)?;
        let cases: Vec<String> = scenario
            .cases(&CaseOptions::default())?
            .into_iter()
            .map(|case| case.name)
            .collect();
        let mut paragraph = || -> std::fmt::Result {
            writeln!(text, "{name}")?;
            for line in scenario.description().lines() {
                writeln!(text, "    {line}")?;
            }
            writeln!(text, "    cases: {}", cases.join(" "))
        };
        paragraph().expect("writing to a string cannot fail");
    }
    output::print(&text)
}
