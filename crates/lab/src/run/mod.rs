//! The run of a scenario: its cases and trials one after the other, each with fresh processes, and results that are
//! whole after every trial.
//!
//! * `plan` turns a case into the configuration of each role; `command` and `peers` do where a command is measured.
//! * `supervisor` starts the roles, speaks to them and hears them.
//! * `remote` is what is known of a role on another machine, `clock_track` how far its clock is ahead.
//! * `capacity` looks for the highest rate that a case sustains, a trial for each rate; `paced` measures the latency at a share
//!   of the rate that a saturating load found.
//! * `trial` leads them through the phases.
//! * `monitor` shows what happens meanwhile; `pipeline` knows where the figures of what is measured come from,
//!   `max_lag` how far a saturating load may be ahead of it.
//! * `collect`, `findings` and `agreement` make the record of what was found.
//!
//! A case that fails does not stop the others. A run that is cancelled stops where it is, ends its processes and leaves
//! the results that it has.

mod agreement;
mod bounds;
mod cancellation;
mod capacity;
mod case_plan;
mod clock_correction;
mod clock_track;
mod collect;
mod command;
mod delivery;
mod error;
mod findings;
mod goodput;
mod lag;
mod max_lag;
mod monitor;
mod paced;
mod passage;
mod peers;
mod pipeline;
mod plan;
mod remote;
mod shares;
mod supervisor;
mod trial;

pub use cancellation::{Cancellation, Canceller, cancellation};
pub use error::{NotStarted, TrialError};

use std::time::{Duration, SystemTime};

use self::{
    capacity::CapacitySearch,
    case_plan::case_plan,
    monitor::{Place, SECOND},
    paced::PacedTrial,
    peers::Peers,
    plan::{Course, TrialPlan},
    trial::{TrialContext, run_trial, trial_folder},
};
use crate::{
    clock::RunClock,
    limits::{Limiter, available_cores},
    probe::scheduling_delays,
    progress::Observer,
    report::{FolderError, ResultsFolder},
    results::{self, CasePlan, Environment, LatencySummary, Prices, Results, RunIdentity, TrialRecord},
    roles::process::RoleLauncher,
    scenario::{Case, LoadMode, Parameters},
};

/// What is to be run and where its results go.
#[derive(Debug)]
pub struct RunOptions {
    /// The scenario's name.
    pub scenario: String,
    /// One sentence that says what it does.
    pub description: Option<String>,
    /// What a core-hour and the like cost, if that is to be part of the results.
    pub prices: Option<Prices>,
    /// What this run is, for its results.
    pub identity: RunIdentity,
    /// The folder for results, reports and logs.
    pub folder: ResultsFolder,
}

/// What a run led to.
#[derive(Debug)]
pub struct RunOutcome {
    /// Everything that was found out.
    pub results: Results,
    /// Why not all of it is on disk.
    pub unwritten: Option<FolderError>,
    /// Whether it was ended early.
    pub was_cancelled: bool,
    /// Where the results are on disk.
    pub folder: ResultsFolder,
}

/// Runs every trial of every case. Must be called within a tokio runtime. When it returns, the processes that it
/// started have ended. A failed trial is a finding of its case. A full disk costs no measurement: the run goes on and has its
/// results in memory.
pub async fn run<L: RoleLauncher>(
    cases: &[Case],
    options: RunOptions,
    launcher: &L,
    limiter: &Limiter,
    observer: &dyn Observer,
    cancellation: Cancellation,
) -> RunOutcome {
    let mut environment = Environment::of_this_machine(options.identity);
    environment.scheduling_delay_us = delays_before(cases).await;
    let planned = cases.iter().map(|case| case.name.clone()).collect();
    let mut results = Results::new(&options.scenario, environment, planned);
    results.description = options.description;
    results.prices = options.prices;
    let peers = Peers::of_environment();
    let mut runner = Runner {
        cases: cases.len(),
        folder: options.folder,
        unwritten: None,
        results,
        clock: RunClock::starting_now(),
        run_number: first_run_number(),
        launcher,
        limiter,
        observer,
        cancellation,
    };
    let mut was_cancelled = false;
    for (index, case) in cases.iter().enumerate() {
        let plan = case_plan(case);
        let obstacle = case.obstacle(available_cores());
        if let Some(reason) = obstacle.or_else(|| peers.obstacle_of(&case.parameters)) {
            runner.keep(results::Case::skipped(&plan, reason));
            continue;
        }
        let ended = match case.parameters.load.mode {
            LoadMode::Capacity => runner.search(index + 1, case, &plan).await,
            _ => runner.trials(index + 1, case, &plan).await,
        };
        if ended == Ended::Cancelled {
            was_cancelled = true;
            break;
        }
    }
    runner.results.environment.finish();
    runner.write();
    let Runner { results, unwritten, folder, .. } = runner;
    RunOutcome { results, unwritten, was_cancelled, folder }
}

/// Watches the machine before the first trial, for a tenth of the shortest measured phase.
async fn delays_before(cases: &[Case]) -> Option<LatencySummary> {
    let shortest = cases.iter().map(|case| case.parameters.phases.measure).min()?;
    let length = (shortest / 10).min(LONGEST_WATCH);
    tokio::task::spawn_blocking(move || scheduling_delays(length)).await.ok()?
}

/// Enough to meet what happens a few times in a second.
const LONGEST_WATCH: Duration = Duration::from_secs(2);

/// What all trials of a run have in common, and the results that they lead to.
struct Runner<'a, L> {
    /// How many cases there are.
    cases: usize,
    folder: ResultsFolder,
    /// Why the results on disk are not those in memory.
    unwritten: Option<FolderError>,
    results: Results,
    clock: RunClock,
    run_number: u8,
    launcher: &'a L,
    limiter: &'a Limiter,
    observer: &'a dyn Observer,
    cancellation: Cancellation,
}

/// How the trials of a case ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ended {
    /// The next case has its turn.
    Done,
    /// The run is over.
    Cancelled,
}

impl<L: RoleLauncher> Runner<'_, L> {
    /// Looks for the highest rate, a trial for each.
    async fn search(&mut self, case_number: usize, case: &Case, plan: &CasePlan) -> Ended {
        let mut search = CapacitySearch::new(case, plan);
        while let Some(probe) = search.next() {
            if self.cancellation.is_wished() {
                return Ended::Cancelled;
            }
            let place = Place {
                tried_per_s: Some(probe.rate),
                least_remaining: Some(probe.least_remaining),
                ..self.place(case_number, case, probe.number, 0)
            };
            let (record, error) = self.trial(&probe.parameters, probe.course, place, probe.interval).await;
            search.record(record, error.as_ref());
            self.keep(search.case());
            if let Some(TrialError::Cancelled) = error {
                return Ended::Cancelled;
            }
        }
        Ended::Done
    }

    /// Repeats a case as often as it says.
    async fn trials(&mut self, case_number: usize, case: &Case, plan: &CasePlan) -> Ended {
        let mut records: Vec<TrialRecord> = Vec::new();
        for trial in 1..=plan.trials {
            if self.cancellation.is_wished() {
                return Ended::Cancelled;
            }
            let place = self.place(case_number, case, trial, plan.trials);
            let (record, error) = self.trial(&case.parameters, Course::default(), place, SECOND).await;
            records.push(record);
            self.keep(results::Case::from_trials(plan, &records));
            match error {
                Some(TrialError::Cancelled) => return Ended::Cancelled,
                Some(error) => {
                    tracing::error!(
                        case = case.name,
                        trial,
                        error = crate::roles::with_causes(&error),
                        "a trial failed"
                    );
                    // A second try of what does not work would cost the same time and fail in the same way.
                    return Ended::Done;
                }
                None => {}
            }
        }
        self.paced(case_number, case, plan, &records).await
    }

    /// Measures the latency at a share of the rate that the trials found, where the case asks for it.
    async fn paced(
        &mut self,
        case_number: usize,
        case: &Case,
        plan: &CasePlan,
        records: &[TrialRecord],
    ) -> Ended {
        let trials = results::Case::from_trials(plan, records);
        let Some(paced) = PacedTrial::after(case, &trials) else {
            return Ended::Done;
        };
        if self.cancellation.is_wished() {
            return Ended::Cancelled;
        }
        let last = plan.trials + 1;
        let place = Place { tried_per_s: Some(paced.rate), ..self.place(case_number, case, last, last) };
        let (record, error) = self.trial(&paced.parameters, Course::default(), place, SECOND).await;
        self.keep(trials.with_paced(plan, paced.share.percent(), paced.rate, &record));
        match error {
            Some(TrialError::Cancelled) => Ended::Cancelled,
            _ => Ended::Done,
        }
    }

    /// Where the run is in a trial that tries no rate of its own.
    fn place(&self, case_number: usize, case: &Case, trial: u32, trials: u32) -> Place {
        Place {
            case: case.name.clone(),
            case_number,
            cases: self.cases,
            trial,
            trials,
            tried_per_s: None,
            least_remaining: None,
        }
    }

    /// Runs one trial, whose record has its place in the results folder then.
    async fn trial(
        &mut self,
        parameters: &Parameters,
        course: Course,
        place: Place,
        interval: Duration,
    ) -> (TrialRecord, Option<TrialError>) {
        self.run_number = self.run_number.wrapping_add(1);
        let plan = TrialPlan::new(parameters, self.clock, self.run_number).with_course(course);
        let case = place.case.clone();
        let context = TrialContext {
            launcher: self.launcher,
            limiter: self.limiter,
            observer: self.observer,
            cancellation: self.cancellation.clone(),
            folder: trial_folder(self.folder.path(), &case, place.trial),
            place,
            interval,
        };
        let (record, error) = run_trial(&plan, context).await;
        self.folder.add_trial(&case, &record);
        (record, error)
    }

    /// Puts a case into the results, which are whole on disk then if the disk takes them.
    fn keep(&mut self, case: results::Case) {
        self.results.put(case);
        self.write();
    }

    fn write(&mut self) {
        let result = self.folder.write(&self.results);
        if let (Err(error), None) = (&result, &self.unwritten) {
            tracing::error!(%error, "the run goes on without its results on disk");
        }
        self.unwritten = result.err();
    }
}

/// Where the numbers of this run's trials begin. By the clock, so that what an earlier run left in a shared hub is most
/// likely to bear another number.
fn first_run_number() -> u8 {
    let since_epoch = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    (since_epoch.as_secs() / 10) as u8
}

#[cfg(test)]
mod tests;
