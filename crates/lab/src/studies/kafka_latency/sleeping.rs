//! Idle cores: a record passes from thread to thread, and a thread that slept has to be woken, on a core that slept as well. The
//! more rarely something is sent, the deeper both sleep.

use super::{differences, note};
use crate::figure::{duration_us, percent, rate, ratio};
use crate::results::{Case, CrossCaseFinding, Figure, FindingKind, Summary};
use crate::scenario::LoadMode;

/// Cases that differ in their rate, of which the slower load has the longer latencies though the machine has nothing to do.
pub(super) fn finding(sweep: &str, cases: &[&Case]) -> Option<CrossCaseFinding> {
    let mut widest: Option<(Side<'_>, Side<'_>)> = None;
    let sides: Vec<Side<'_>> = cases.iter().filter_map(|case| Side::of(case)).collect();
    for rare in &sides {
        for frequent in &sides {
            let is_pair = differences(rare.case, frequent.case) == ["load.rate"] && rare.rate < frequent.rate;
            let is_wider = widest.is_none_or(|(one, other)| rare.over(frequent) > one.over(&other));
            if is_pair && rare.is_idle() && rare.over(frequent) >= SLOWER && is_wider {
                widest = Some((*rare, *frequent));
            }
        }
    }
    let (rare, frequent) = widest?;
    let used =
        rare.busy_percent.map(|busy| format!(", when the run used {} % of the machine", percent(busy)));
    let message = format!(
        "sleeping cores: a record takes {} on average at {}/s and {} at {}/s ({}){}. Between records threads and cores sleep, and \
         each of the hand-overs on its way waits until one is awake",
        duration_us(rare.mean_us),
        rate(rare.rate),
        duration_us(frequent.mean_us),
        rate(frequent.rate),
        ratio(rare.over(&frequent)),
        used.unwrap_or_default(),
    );
    Some(note(FindingKind::SleepingCores, sweep, [rare.case, frequent.case], message))
}

#[derive(Debug, Clone, Copy)]
struct Side<'a> {
    case: &'a Case,
    rate: f64,
    mean_us: f64,
    /// Of the machine, by the processes of the run.
    busy_percent: Option<f64>,
}

impl<'a> Side<'a> {
    /// Only where each record comes by itself: a burst is larger the higher the rate is.
    fn of(case: &'a Case) -> Option<Self> {
        if case.shape().load != LoadMode::Open {
            return None;
        }
        let busy = case.over_trials(|trial| {
            let used: f64 = trial.roles.values().map(|usage| usage.cpu_seconds).sum();
            let available = trial.duration_s * f64::from(trial.machine_cores?);
            (available > 0.0).then(|| used / available * 100.0)
        });
        Some(Self {
            case,
            rate: case.offered_per_s.map(|rate: Summary| rate.median)?,
            mean_us: Figure::LatencyMean.of_case(case)?,
            busy_percent: busy.map(|busy| busy.median),
        })
    }

    fn over(&self, other: &Self) -> f64 {
        self.mean_us / other.mean_us
    }

    fn is_idle(&self) -> bool {
        self.busy_percent.is_none_or(|busy| busy < IDLE_PERCENT)
    }
}

/// A longer mean at less load than this is no accident.
const SLOWER: f64 = 1.2;

/// A machine with more to do than this is not idle between records.
const IDLE_PERCENT: f64 = 50.0;
