//! The run of a scenario: its cases and trials one after the other, each with fresh processes, and results that are
//! whole after every trial.
//!
//! * `plan` turns a case into what each role is told; `command` and `peers` do where a command is measured.
//! * `crew` starts the roles, speaks to them and hears them.
//! * `capacity` looks for the highest rate that a case sustains, a trial for each rate.
//! * `trial` leads them through the phases.
//! * `monitor` shows what happens meanwhile; `pipeline` knows where the figures of what is measured come from, `lead` how
//!   far a saturating load may be ahead of it.
//! * `collect` and `agreement` make the record of what was found.
//!
//! A case that fails does not stop the others. A run that is cancelled stops where it is, ends its processes and leaves
//! the results that it has.

mod agreement;
mod cancellation;
mod capacity;
mod collect;
mod command;
mod crew;
mod error;
mod lead;
mod monitor;
mod peers;
mod pipeline;
mod plan;
mod trial;

pub use cancellation::{Cancellation, Canceller, cancellation};
pub use error::{RunError, TrialError};

use std::{path::PathBuf, time::SystemTime};

use self::{
    capacity::CapacitySearch,
    monitor::{Place, SECOND},
    peers::Peers,
    plan::{TrialPlan, case_plan},
    trial::{TrialContext, machine_cores, run_trial, trial_folder},
};
use crate::{
    clock::RunClock,
    limits::Limiter,
    progress::Observer,
    report::ResultsFolder,
    results::{self, Environment, Results, RunIdentity, TrialRecord},
    roles::process::RoleLauncher,
    scenario::{Case, LoadMode},
};

/// What is to be run and where its results go.
#[derive(Debug, Clone)]
pub struct RunOptions {
    /// The scenario's name.
    pub scenario: String,
    /// One sentence that says what it does.
    pub description: Option<String>,
    /// What this run is, for its results.
    pub identity: RunIdentity,
    /// The folder for results, reports and logs.
    pub folder: PathBuf,
}

/// What a run led to.
#[derive(Debug)]
pub struct RunOutcome {
    /// Everything that was found out. Also on disk.
    pub results: Results,
    /// Whether it was ended early.
    pub was_cancelled: bool,
    /// Where the results are on disk.
    pub folder: ResultsFolder,
}

/// Runs every trial of every case. Must be called within a tokio runtime. When it returns, the processes that it
/// started have ended.
///
/// # Errors
/// [`RunError`] when the results can't be written. A failed trial is not an error but a finding of its case.
pub async fn run<L: RoleLauncher>(
    cases: &[Case],
    options: RunOptions,
    launcher: &L,
    limiter: &Limiter,
    observer: &dyn Observer,
    cancellation: Cancellation,
) -> Result<RunOutcome, RunError> {
    // First of all: a bad folder must not cost the time of a measurement.
    let mut folder = ResultsFolder::create(&options.folder)?;
    let environment = Environment::of_this_machine(options.identity);
    let planned = cases.iter().map(|case| case.name.clone()).collect();
    let mut results = Results::new(&options.scenario, environment, planned);
    results.description = options.description;
    let clock = RunClock::starting_now();
    let mut run_number = first_run_number();
    let mut was_cancelled = false;
    let peers = Peers::of_environment();
    'cases: for (index, case) in cases.iter().enumerate() {
        let plan = case_plan(case);
        let obstacle = case.obstacle(machine_cores());
        if let Some(reason) = obstacle.or_else(|| peers.obstacle(&case.parameters.sut)) {
            results.put(results::Case::skipped(&plan, reason));
            folder.write(&results)?;
            continue;
        }
        if case.parameters.load.mode == LoadMode::Capacity {
            let mut search = CapacitySearch::new(case, &plan);
            while let Some(probe) = search.next() {
                if cancellation.is_wished() {
                    was_cancelled = true;
                    break 'cases;
                }
                run_number = run_number.wrapping_add(1);
                let trial_plan = TrialPlan {
                    parameters: &probe.parameters,
                    clock,
                    run: run_number,
                };
                let context = TrialContext {
                    launcher,
                    limiter,
                    observer,
                    cancellation: cancellation.clone(),
                    place: Place {
                        case: case.name.clone(),
                        case_number: index + 1,
                        cases: cases.len(),
                        trial: probe.number,
                        trials: 0,
                        tried_per_s: Some(probe.rate),
                    },
                    interval: probe.interval,
                    folder: trial_folder(&options.folder, &case.name, probe.number),
                };
                let (record, error) = run_trial(&trial_plan, context).await;
                folder.add_trial(&case.name, &record);
                search.record(record, error.as_ref());
                results.put(search.case());
                folder.write(&results)?;
                if let Some(TrialError::Cancelled) = error {
                    was_cancelled = true;
                    break 'cases;
                }
            }
            continue;
        }
        let mut records: Vec<TrialRecord> = Vec::new();
        for trial in 1..=plan.trials {
            if cancellation.is_wished() {
                was_cancelled = true;
                break 'cases;
            }
            run_number = run_number.wrapping_add(1);
            let own_folder = trial_folder(&options.folder, &case.name, trial);
            let trial_plan = TrialPlan {
                parameters: &case.parameters,
                clock,
                run: run_number,
            };
            let context = TrialContext {
                launcher,
                limiter,
                observer,
                cancellation: cancellation.clone(),
                place: Place {
                    case: case.name.clone(),
                    case_number: index + 1,
                    cases: cases.len(),
                    trial,
                    trials: plan.trials,
                    tried_per_s: None,
                },
                interval: SECOND,
                folder: own_folder,
            };
            let (record, error) = run_trial(&trial_plan, context).await;
            folder.add_trial(&case.name, &record);
            records.push(record);
            results.put(results::Case::from_trials(&plan, &records));
            folder.write(&results)?;
            match error {
                Some(TrialError::Cancelled) => {
                    was_cancelled = true;
                    break 'cases;
                }
                Some(error) => {
                    tracing::error!(
                        case = case.name,
                        trial,
                        error = crate::roles::with_causes(&error),
                        "a trial failed"
                    );
                    // A second try of what does not work would cost the same time and fail in the same way.
                    break;
                }
                None => {}
            }
        }
    }
    results.environment.finish();
    folder.write(&results)?;
    Ok(RunOutcome {
        results,
        was_cancelled,
        folder,
    })
}

/// Where the numbers of this run's trials begin. By the clock, so that what an earlier run left in a shared hub is most
/// likely to bear another number.
fn first_run_number() -> u8 {
    let since_epoch = SystemTime::now()
        .duration_since(SystemTime::UNIX_EPOCH)
        .unwrap_or_default();
    (since_epoch.as_secs() / 10) as u8
}

#[cfg(test)]
mod tests;
