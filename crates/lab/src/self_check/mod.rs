//! The lab against itself: does it find, on this very machine, what is known to have happened?
//!
//! Each check is a case of a small run with the real processes. In some a [`saboteur`] takes the relay's place, which damages
//! single events and keeps an account of it; the lab has to find exactly as many. In others one process is stopped for a second
//! (`stopping`); the events that were due meanwhile have to be late by what is left of it, and only a generator that was stopped makes
//! a case invalid. `judge` holds what was found against what must have been.

pub mod saboteur;

mod judge;
mod stopping;

use std::path::{Path, PathBuf};

use serde::Serialize;

use self::saboteur::{Fault, Tally};
use self::stopping::{Stopper, StoppingLauncher};
use crate::limits::Limiter;
use crate::progress::Observer;
use crate::report::ResultsFolder;
use crate::results::{Role, RunIdentity};
use crate::roles::process::ProcessLauncher;
use crate::run::{Cancellation, RunOptions, run};
use crate::scenario::{CaseOptions, Scenario, ScenarioError};

/// What one check expected and what the lab found.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Check {
    /// Its name, such as `drop` or `stopped relay`.
    pub name: String,
    /// What was done, and what the lab has to find.
    pub expected: String,
    /// What it found.
    pub observed: String,
    /// Whether that is the same.
    pub passed: bool,
}

/// What all checks came to.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct SelfCheck {
    /// Each check, in the order in which they ran.
    pub checks: Vec<Check>,
    /// The checks that did not run, because they were interrupted.
    pub missing: Vec<String>,
    /// Where the results of the runs are.
    pub folder: PathBuf,
}

/// Why the checks could not be made.
#[derive(Debug, thiserror::Error)]
pub enum SelfCheckError {
    /// The scenario of the checks can't be read: a path of this machine does not fit into it.
    #[error(transparent)]
    Scenario(#[from] ScenarioError),
}

impl SelfCheck {
    /// Whether every check was made and found what it had to.
    #[must_use]
    pub fn passed(&self) -> bool {
        self.missing.is_empty() && self.checks.iter().all(|check| check.passed)
    }
}

/// Runs all checks. `program` knows `role <name>` and `lab saboteur`. Results go to `folder`.
///
/// # Errors
/// [`SelfCheckError`]. A check that failed is no error.
pub async fn self_check(
    program: &Path,
    folder: ResultsFolder,
    identity: RunIdentity,
    limiter: &Limiter,
    observer: &dyn Observer,
    cancellation: Cancellation,
) -> Result<SelfCheck, SelfCheckError> {
    let path = folder.path().to_owned();
    let scenario = Scenario::parse("lab-check", &scenario(program, &path)).map_err(ScenarioError::from)?;
    let cases = scenario.cases(&CaseOptions::default())?;
    let launcher = StoppingLauncher::new(ProcessLauncher::of(program.to_owned()));
    let stopper = Stopper::new(observer, launcher.processes());
    let options = RunOptions {
        scenario: scenario.name().to_owned(),
        description: Some(scenario.description().to_owned()),
        identity,
        folder,
        prices: None,
    };
    let outcome = run(&cases, options, &launcher, limiter, &stopper, cancellation).await;
    let pauses = stopper.finish();
    let mut check = SelfCheck { checks: Vec::new(), missing: Vec::new(), folder: path.clone() };
    let tally = |fault: Fault| -> Option<Tally> {
        serde_json::from_slice(&std::fs::read(tally_file(&path, fault)).ok()?).ok()
    };
    for subject in subjects() {
        let case = outcome.results.cases.iter().find(|case| case.name == subject.case());
        match case.filter(|case| case.trials.iter().all(|trial| !trial.interrupted) || !outcome.was_cancelled)
        {
            Some(case) => check.checks.push(match subject {
                Subject::Fault(fault) => judge::fault(fault, tally(fault), case),
                Subject::Stopped(role) => judge::stopped(role, pauses.get(&role).copied(), case),
            }),
            None => check.missing.push(subject.name()),
        }
    }
    Ok(check)
}

/// What a check is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Subject {
    Fault(Fault),
    Stopped(Role),
}

impl Subject {
    /// The name of the system that its case measures.
    fn system(self) -> String {
        match self {
            Self::Fault(fault) => fault.name().to_owned(),
            Self::Stopped(role) => format!("{STOPPED}{}", role.name()),
        }
    }

    fn case(self) -> String {
        format!("sut={}", self.system())
    }

    fn name(self) -> String {
        self.system().replace('-', " ")
    }
}

fn subjects() -> impl Iterator<Item = Subject> {
    let roles = [Role::Service, Role::Load, Role::Relay, Role::Sink];
    Fault::ALL.into_iter().map(Subject::Fault).chain(roles.into_iter().map(Subject::Stopped))
}

/// A system under test for each check, one after the other.
fn scenario(program: &Path, folder: &Path) -> String {
    let text = |path: &Path| serde_json::Value::from(path.to_string_lossy()).to_string();
    let program = text(program);
    let systems = subjects().map(|subject| match subject {
        Subject::Stopped(_) => format!("  {}: {{transport: tcp}}\n", subject.system()),
        Subject::Fault(fault) => {
            let (name, tally) = (fault.name(), text(&tally_file(folder, fault)));
            format!(
                "  {name}: {{command: [{program}, lab, saboteur, --fault, {name}, --tally, {tally}], ready: {{line: ready}}}}\n"
            )
        }
    });
    let names: Vec<String> = subjects().map(Subject::system).collect();
    format!(
        "{SCENARIO}suts:\n{}sweeps: {{checks: {{sut: [{}]}}}}\n",
        systems.collect::<String>(),
        names.join(", ")
    )
}

fn tally_file(folder: &Path, fault: Fault) -> PathBuf {
    folder.join(format!("{}.tally.json", fault.name()))
}

/// Slow enough for any machine: what counts is that all of it is accounted for. The phase is three times as long as a process
/// is stopped: the closed form of the latencies has a percentile to be read at, and the pause lies within the phase though
/// it may begin late on a busy machine.
const SCENARIO: &str = "\
scenario: lab-check
description: Damage that is known and processes that are stopped, to be found by the lab
hubs: {source: {partitions: 4}, destination: {partitions: 4}}
embedded: {log_per_hub: 64 MiB}
load: {mode: open, rate: 2000/s, payload: 24 B, batch: 20}
relay: {fan_out: 4, route: same-partition, batch: {events: 64, wait: 2 ms}}
phases: {warm_up: 300 ms, measure: 3 s, drain: 10 s}
trials: 1
";

/// What the systems are called whose processes are stopped.
const STOPPED: &str = "stopped-";
