//! A case whose highest sustainable rate is looked for.
//!
//! * `search` decides which rate comes next; it knows nothing of trials.
//! * `verdict` decides whether a rate passed.
//! * `credit` makes sure that it was not the burst credit of a quota that carried it.
//! * This module runs a trial for each of them: an open load at the rate, with processes of its own.
//!
//! After each probe the case is whole, as after each trial of another case. An interruption leaves what was tried.

mod credit;
mod search;
mod verdict;

use std::time::Duration;

use self::{
    credit::Credit,
    search::{Outcome, Purpose, Search, SearchSettings},
    verdict::{Judged, LatencyBound, judge},
};
use super::{error::TrialError, plan::Course};
use crate::{
    results::{self, CasePlan, Conclusion, Probe, TrialRecord},
    roles::with_causes,
    scenario::{Case, LoadMode, Parameters},
};

/// The search of one case, probe by probe.
pub(super) struct CapacitySearch<'a> {
    parameters: &'a Parameters,
    plan: CasePlan,
    search: Search,
    credit: Credit,
    probes: Vec<Probe>,
    /// The records of the probes that held the highest rate so far, and of those that hold the present one.
    held: Vec<TrialRecord>,
    holding: Vec<TrialRecord>,
    /// Nothing can be measured here.
    is_broken: bool,
}

/// The next probe.
#[derive(Debug, Clone)]
pub(super) struct NextProbe {
    /// Counted from 1.
    pub(super) number: u32,
    /// In events per second.
    pub(super) rate: f64,
    /// What its trial is run with.
    pub(super) parameters: Parameters,
    /// How its load begins, and when it may end early.
    pub(super) course: Course,
    /// How many follow it at least.
    pub(super) least_remaining: u32,
    /// How often its course is read: a lag needs several readings, however short the probe is.
    pub(super) interval: Duration,
}

impl<'a> CapacitySearch<'a> {
    /// The search that `case` asks for. `plan` is the case's.
    pub(super) fn new(case: &'a Case, plan: &CasePlan) -> Self {
        let wanted = &case.parameters.load.capacity;
        Self {
            parameters: &case.parameters,
            plan: CasePlan { trials: 1, ..plan.clone() },
            search: Search::new(SearchSettings {
                start: wanted.start.events_per_second(),
                highest: wanted.highest.events_per_second(),
                precision: wanted.precision.share(),
                repeat: wanted.repeat,
            }),
            credit: Credit::new(),
            probes: Vec::new(),
            held: Vec::new(),
            holding: Vec::new(),
            is_broken: false,
        }
    }

    /// What is to be tried next; `None` when the search is over.
    pub(super) fn next(&self) -> Option<NextProbe> {
        let attempt = self.search.next().filter(|_| !self.is_broken)?;
        let wanted = &self.parameters.load.capacity;
        let length = match attempt.purpose {
            Purpose::Bracket | Purpose::Bisect => wanted.probe,
            Purpose::Hold => wanted.hold,
        };
        let spending = self.credit.spending(attempt.rate);
        let needed = spending.map(|spending| spending.length(attempt.rate, self.excess(attempt.purpose)));
        let longest = wanted.hold.saturating_mul(MOST_EXTENDED);
        let mut parameters = self.parameters.clone();
        parameters.load.mode = LoadMode::Open;
        parameters.load.rate = units::Rate::per_second(attempt.rate).ok();
        parameters.phases.measure = length.max(needed.unwrap_or_default().min(longest));
        Some(NextProbe {
            number: u32::try_from(self.probes.len() + 1).unwrap_or(u32::MAX),
            rate: attempt.rate,
            parameters,
            course: Course {
                lead: spending.and_then(|spending| spending.lead),
                throttled_ends_after: Some(length),
            },
            least_remaining: self.search.least_remaining(),
            interval: (length / READINGS).clamp(SHORTEST_INTERVAL, LONGEST_INTERVAL),
        })
    }

    /// Takes note of how [`CapacitySearch::next`] went.
    pub(super) fn record(&mut self, record: TrialRecord, error: Option<&TrialError>) {
        let Some(attempt) = self.search.next() else {
            return;
        };
        let wanted = &self.parameters.load.capacity;
        let bound = LatencyBound { percentile: wanted.percentile, bound: wanted.bound };
        let Judged { mut probe, is_doubtful } =
            judge(attempt, bound, &self.plan, &record, error.map(|error| with_causes(error)));
        let has_passed = self.probes.iter().any(|probe| probe.outcome == Some(Outcome::Passed));
        match error {
            Some(TrialError::Cancelled) => {
                (probe.outcome, probe.reasons) = (None, vec!["it was interrupted".to_owned()]);
                self.probes.push(probe);
                return;
            }
            // Whoever fails before any rate has passed fails for another reason than the rate.
            Some(error) if !has_passed && !error.is_slowness(&record) => {
                self.is_broken = true;
                self.probes.push(probe);
                self.held = vec![record];
                return;
            }
            _ => {}
        }
        let outcome = probe.outcome.unwrap_or(Outcome::Failed);
        let throttled_after =
            record.trial.throttled_after_s.and_then(|s| Duration::try_from_secs_f64(s).ok());
        let spending = self.credit.spending(attempt.rate);
        if spending.zip(throttled_after).is_some_and(|(spending, after)| spending.may_have_met(after)) {
            self.credit.overspent();
            probe.reasons.push("its lead was throttled, so it is tried again after a shorter one".to_owned());
            self.probes.push(probe);
            return;
        }
        if let Some(spending) = spending.filter(|_| outcome == Outcome::Passed) {
            probe.above_quota_percent = Some(spending.excess(attempt.rate, probe.duration_s) * 100.0);
        }
        let tries_again = self.search.tries_again(outcome, is_doubtful);
        if tries_again {
            probe.reasons.push("the lab or the machine may be the cause, so it is tried again".to_owned());
        }
        let shows_credit = outcome == Outcome::Failed && probe.lead.is_none() && self.has_whole_credit();
        self.probes.push(probe);
        let held_before = self.search.bounds().held;
        self.search.record(outcome, is_doubtful);
        match (attempt.purpose, outcome) {
            (Purpose::Hold, Outcome::Passed) => self.holding.push(record),
            // It stands beside those that held.
            _ if tries_again => {}
            _ => self.holding.clear(),
        }
        if self.search.bounds().held != held_before {
            self.held = std::mem::take(&mut self.holding);
        }
        if let Some(after) = throttled_after.filter(|_| shows_credit) {
            if !self.credit.is_known() {
                self.search.distrust();
                (self.held, self.holding) = Default::default();
            }
            self.credit.note(attempt.rate, after);
        }
    }

    /// Whether the next probe begins with as much credit as a quota gives: an own service is a new one, another needs time to
    /// give it anew.
    fn has_whole_credit(&self) -> bool {
        let is_throttled = |probe: &Probe| probe.throttled > Some(0);
        self.parameters.target.is_started() || !self.probes.last().is_some_and(is_throttled)
    }

    /// The share by which a rate that passes may be above a quota. A short probe needs no more than the precision.
    fn excess(&self, purpose: Purpose) -> f64 {
        let precision = self.parameters.load.capacity.precision.share();
        match purpose {
            Purpose::Bracket | Purpose::Bisect => precision,
            Purpose::Hold => precision / 5.0,
        }
    }

    /// The case as it is known so far.
    pub(super) fn case(&self) -> results::Case {
        let wanted = &self.parameters.load.capacity;
        let bounds = self.search.bounds();
        let by_generator =
            bounds.not_offered.is_some_and(|limit| bounds.failed.is_none_or(|failed| limit < failed));
        let conclusion = match (self.search.next().is_none(), bounds.held, bounds.failed) {
            _ if self.is_broken => Conclusion::NoneHeld,
            (false, ..) => Conclusion::Searching,
            (true, None, _) => Conclusion::NoneHeld,
            (true, Some(_), _) if by_generator => Conclusion::LimitedByGenerator,
            (true, Some(_), Some(_)) => Conclusion::Enclosed,
            (true, Some(_), None) => Conclusion::LimitedByScenario,
        };
        let capacity = results::Capacity {
            percentile: wanted.percentile,
            bound_us: u64::try_from(wanted.bound.as_micros()).unwrap_or(u64::MAX),
            precision_percent: wanted.precision.percent(),
            hold_s: wanted.hold.as_secs_f64(),
            repeat: wanted.repeat,
            conclusion,
            highest_passed_per_s: bounds.held,
            lowest_failed_per_s: bounds.failed,
            lowest_not_offered_per_s: bounds.not_offered,
            probes: self.probes.clone(),
        };
        // Until a rate has held, the figures are those of the rate that is being held.
        let records = if self.held.is_empty() { &self.holding } else { &self.held };
        results::Case::from_search(&self.plan, records, capacity)
    }
}

impl TrialError {
    /// Whether a load was measured that could then not be brought to its end in time.
    fn is_slowness(&self, record: &TrialRecord) -> bool {
        matches!(self, Self::TimedOut { .. }) && record.trial.duration_s > 0.0
    }
}

/// How many times `load.capacity.hold` a probe lasts at most to use up a credit.
const MOST_EXTENDED: u32 = 10;

/// Readings of the lag that a probe should have.
const READINGS: u32 = 10;

/// Roles tell their counters no more often than this.
const SHORTEST_INTERVAL: Duration = Duration::from_millis(100);

/// As in every other trial.
const LONGEST_INTERVAL: Duration = Duration::from_secs(1);

#[cfg(test)]
mod tests;
