//! Which cases of a scenario, and with what changes: the options that `run` and `show` share.

use clap::{Args, ValueEnum};
use lab::scenario::{CaseOptions, TargetName};

/// The options that choose and change the cases of a scenario.
#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = "Cases")]
pub(crate) struct Selection {
    /// Run the short form: the scenario's section `quick` overrides its parameters
    #[arg(long)]
    quick: bool,

    /// The service to measure [default: as in the scenario]
    ///
    /// `namespace` uses the scenario's connection string or, if it has none, the environment variable
    /// EVENT_HUBS_CONNECTION_STRING (for queues SERVICE_BUS_CONNECTION_STRING), or …_FULLY_QUALIFIED_NAMESPACE. Its hubs have the partitions that
    /// they have there, whatever the scenario says. Before it starts, the run prints what it will send and leave
    /// behind. Example: --target namespace
    #[arg(long, value_name = "NAME", value_enum)]
    target: Option<Target>,

    /// Set a parameter: a dotted path of the scenario file and a value in YAML. May be repeated; later ones win
    ///
    /// A list replaces the values of a path that the scenario sweeps. For any other parameter with a single value it is
    /// one more axis: each of its values with each case. Examples: --set load.mode=backlog,
    /// --set 'load.payload=1 KiB', --set 'relay.instances=[1, 2, 4]'
    #[arg(long, value_name = "PATH=VALUE")]
    set: Vec<String>,

    /// A table of the scenario by its name, or `all`. May be repeated [default: the first of the file]
    ///
    /// `parshall list` names them. Examples: --sweep batch, --sweep payload --sweep prefetch
    #[arg(long, value_name = "NAME")]
    sweep: Vec<String>,

    /// Only the cases whose name matches: `*` is any text, `?` any character [default: all]
    ///
    /// Applies to the sweeps that --sweep names. Without --sweep it applies to the first sweep or, if none of its
    /// cases matches, to all others: `--only 'batch=*'` needs no `--sweep batch`.
    /// Examples: --only 'fan_out=*', --only 'payload=1 KiB'
    #[arg(long, value_name = "GLOB")]
    only: Option<String>,

    /// Number of trials per case, from 1 to 100 [default: as in the scenario]
    ///
    /// Example: --trials 5
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=100))]
    trials: Option<u32>,
}

/// The names of targets.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum Target {
    /// The embedded service, in a separate process
    Embedded,
    /// An existing namespace that contains both hubs or queues
    Namespace,
}

impl Selection {
    /// The same for the library.
    pub(crate) fn case_options(&self) -> CaseOptions {
        CaseOptions {
            target: self.target.map(|target| match target {
                Target::Embedded => TargetName::Embedded,
                Target::Namespace => TargetName::Namespace,
            }),
            quick: self.quick,
            sweeps: self.sweep.clone(),
            only: self.only.clone(),
            set: self.set.clone(),
            trials: self.trials,
            found: Vec::new(),
        }
    }

    /// The options that make another program of ours choose and change the same cases, except for their trials.
    pub(crate) fn arguments(&self) -> Vec<String> {
        let mut arguments = Vec::new();
        if self.quick {
            arguments.push("--quick".to_owned());
        }
        if let Some(name) = self.target.and_then(|target| target.to_possible_value()) {
            arguments.extend(["--target".to_owned(), name.get_name().to_owned()]);
        }
        for setting in &self.set {
            arguments.extend(["--set".to_owned(), setting.clone()]);
        }
        for sweep in &self.sweep {
            arguments.extend(["--sweep".to_owned(), sweep.clone()]);
        }
        if let Some(glob) = &self.only {
            arguments.extend(["--only".to_owned(), glob.clone()]);
        }
        arguments
    }

    /// How often each case is repeated, if that was said.
    pub(crate) fn trials(&self) -> Option<u32> {
        self.trials
    }

    /// True where an option was given.
    pub(crate) fn is_given(&self) -> bool {
        self.quick
            || self.target.is_some()
            || !self.set.is_empty()
            || !self.sweep.is_empty()
            || self.only.is_some()
            || self.trials.is_some()
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Program {
        #[command(flatten)]
        selection: Selection,
    }

    #[test]
    fn another_program_gets_every_option_but_the_trials() {
        let typed = [
            "parshall",
            "--quick",
            "--target",
            "embedded",
            "--set",
            "load.mode=backlog",
            "--set",
            "relay.fan_out=[8, 16]",
            "--sweep",
            "batch",
            "--sweep",
            "payload",
            "--only",
            "*=1 KiB",
        ];
        let selection = |arguments: Vec<String>| Program::parse_from(arguments).selection;
        let own = selection(typed.map(str::to_owned).to_vec());
        let mut told = vec!["parshall".to_owned()];
        told.extend(own.arguments());
        assert_eq!(told, typed.map(str::to_owned));
        assert_eq!(format!("{:?}", selection(told).case_options()), format!("{:?}", own.case_options()));
    }
}
