//! `parshall show`: a scenario as its file, or as the cases that `run` would run.

use clap::Args;
use serde_json::{Value, json};

use crate::exit::{CommandError, Exit};
use crate::selection::Selection;
use crate::{file_kind, output};

/// The arguments of `show`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  parshall show fan-out > mine.yaml                       a file to change
  parshall show fan-out --quick --set load.mode=backlog   what `run` would run with these options
  parshall show fan-out --sweep all                       the cases of every sweep")]
pub(crate) struct ShowArguments {
    /// The name of a scenario (see `parshall list`) or the path of a file, such as `fan-out` or `./mine.yaml`
    scenario: String,

    /// Print the resolved cases as JSON instead of the file. Any option below implies it
    #[arg(long)]
    cases: bool,

    #[command(flatten)]
    selection: Selection,
}

/// Prints the file as it is, or the cases as a JSON array. Either way the scenario is checked as a whole.
pub(crate) fn execute(arguments: ShowArguments) -> Result<Exit, CommandError> {
    let scenario = file_kind::scenario(&arguments.scenario)?;
    if !arguments.cases && !arguments.selection.is_given() {
        return output::print(scenario.text());
    }
    let cases = scenario.cases(&arguments.selection.case_options())?;
    let cases: Vec<Value> = cases
        .iter()
        .map(|case| {
            let mut shown = json!({ "name": case.name, "params": case.params() });
            if let Some(sweep) = &case.sweep {
                shown["sweep"] = json!(sweep);
            }
            if let Some(published) = &case.published {
                shown["published"] = json!(published);
            }
            shown
        })
        .collect();
    let json = serde_json::to_string_pretty(&cases).expect("cases have text keys, so they are always JSON");
    output::print(&format!("{json}\n"))
}
