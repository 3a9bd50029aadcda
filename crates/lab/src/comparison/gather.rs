//! Runs of one trial each, put together as if they had been one run of many.

use crate::results::{Case, Results, Status};

/// Puts the trials of `runs`, which are of one program and one selection of cases, into one. Only the trials and the
/// verdicts of the cases are of all runs; their other figures remain those of the first. `None` without runs.
#[must_use]
pub fn gathered(runs: impl IntoIterator<Item = Results>) -> Option<Results> {
    let mut runs = runs.into_iter();
    let mut all = runs.next()?;
    for run in runs {
        all.complete &= run.complete;
        for case in run.cases {
            match all.cases.iter_mut().find(|known| known.name == case.name) {
                Some(known) => add(known, case),
                None => all.cases.push(case),
            }
        }
    }
    Some(all)
}

fn add(all: &mut Case, case: Case) {
    if weight(case.status) > weight(all.status) {
        all.status = case.status;
        all.passed = case.passed;
    }
    all.planned_trials += case.planned_trials;
    for mut trial in case.trials {
        trial.number = all.trials.len() as u32 + 1;
        all.trials.push(trial);
    }
}

/// The heaviest verdict is the one of all.
const fn weight(status: Status) -> u8 {
    match status {
        Status::Skipped => 0,
        Status::Passed => 1,
        Status::Incomplete => 2,
        Status::Invalid => 3,
        Status::Failed => 4,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::sample;

    #[test]
    fn trials_are_numbered_on_and_the_heaviest_verdict_counts() {
        let runs = || [sample::complete(), sample::complete(), sample::complete()];
        let trials = sample::complete().cases[0].trials.len();
        let all = gathered(runs()).expect("there are runs");
        let numbers = all.cases[0].trials.iter().map(|trial| trial.number);
        assert!(numbers.eq(1..=3 * trials as u32));
        assert_eq!(all.cases[0].status, Status::Passed);
        let mut runs = runs();
        runs[1].cases[0].status = Status::Failed;
        runs[2].cases[0].status = Status::Invalid;
        let all = gathered(runs).expect("there are runs");
        assert_eq!(all.cases[0].status, Status::Failed);
        assert_eq!(all.cases[1].status, Status::Passed);
        assert_eq!(gathered([]), None);
    }
}
