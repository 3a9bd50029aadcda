//! Searches over the world in memory, whose pipeline has the capacity that the test gives it.

use std::{path::Path, sync::Mutex};

use super::{super::case_plan::case_plan, *};
use crate::{
    limits::Limiter,
    progress::{Observer, Phase, Progress, Unobserved},
    report::ResultsFolder,
    results::{
        Distributions, FindingKind, Interval, Lead, Refusals, Results, Role, RunIdentity, Status, Trial,
    },
    roles::memory::{Faults, MemoryBackend, Quota, ThreadLauncher},
    run::{self, Canceller, RunOptions, RunOutcome, cancellation},
    scenario::{CaseOptions, Scenario},
};

const SCENARIO: &str = "\
scenario: small
description: a test
hubs:
  source: {name: source, partitions: 4}
  destination: {name: destination}
load:
  mode: capacity
  payload: 24 B
  batch: 10
  in_flight: 4
  capacity:
    {bound: 200 ms, start: 5000/s, highest: 40000/s, precision: 20 %, probe: 600 ms, hold: 800 ms, repeat: 2}
relay: {fan_out: 3, batch: {events: 32, wait: 1 ms}}
phases: {warm_up: 100 ms, measure: 300 ms, drain: 5 s}
";

async fn search(
    set: &[&str],
    faults: Faults,
    folder: &Path,
    observer: &dyn Observer,
    cancellation: run::Cancellation,
) -> RunOutcome {
    let options =
        CaseOptions { set: set.iter().map(|&set| set.to_owned()).collect(), ..CaseOptions::default() };
    let scenario = Scenario::parse("small.yaml", SCENARIO).expect("a scenario");
    let cases = scenario.cases(&options).expect("cases");
    let launcher = ThreadLauncher { backend: MemoryBackend::new(faults) };
    let options = RunOptions {
        scenario: "small".to_owned(),
        description: None,
        prices: None,
        identity: RunIdentity {
            version: "0".to_owned(),
            command: "parshall run small".to_owned(),
            target: "embedded".to_owned(),
            seed: 1,
        },
        folder: ResultsFolder::create(folder).expect("the folder can be written"),
    };
    let limiter = Limiter::affinity_only("roles are threads here");
    run::run(&cases, options, &launcher, &limiter, observer, cancellation).await
}

#[tokio::test]
async fn a_pipeline_of_known_capacity_is_never_said_to_sustain_more() {
    const CAPACITY: f64 = 12_000.0;
    let folder = tempfile::tempdir().expect("a temporary directory");
    let faults = Faults { capacity_per_s: Some(CAPACITY), ..Faults::default() };
    let (_canceller, cancellation) = cancellation();
    let outcome = search(&[], faults, folder.path(), &Unobserved, cancellation).await;
    let text = std::fs::read_to_string(folder.path().join("results.json")).expect("on disk");
    let read: Results = serde_json::from_str(&text).expect("our own text");
    assert_eq!(read, outcome.results);
    let case = &read.cases[0];
    let capacity = case.capacity.as_ref().expect("a search");
    assert!(read.complete, "{capacity:?}");
    let tried = |rate: f64| capacity.probes.iter().filter(move |probe| probe.rate_per_s == rate);
    for probe in &capacity.probes {
        let outcome = probe.outcome.expect("none was interrupted");
        if probe.rate_per_s > CAPACITY * 1.1 {
            assert_ne!(outcome, Outcome::Passed, "{probe:?}");
        }
        assert_eq!(outcome == Outcome::Passed, probe.reasons.is_empty(), "{probe:?}");
        assert_eq!(probe.throttled, None, "this world has no quota");
    }
    // A machine that is busy with something else may fail rates, or hold the generator up. It never passes any.
    if let Some(held) = capacity.highest_passed_per_s {
        assert!(held <= CAPACITY * 1.1);
        assert_eq!(case.status, Status::Passed, "{:?}", case.findings);
        assert_eq!(case.trials.len(), 2, "as often as it had to hold");
        let holds = tried(held).filter(|probe| probe.purpose == Purpose::Hold);
        assert!(holds.count() >= 2);
        assert!(case.forwarded_per_s.is_some_and(|rate| rate.median <= CAPACITY * 1.2));
    }
}

fn case(capacity: &str) -> Case {
    let set = vec![format!("load.capacity={capacity}")];
    let scenario = Scenario::parse("small.yaml", SCENARIO).expect("a scenario");
    scenario.cases(&CaseOptions { set, ..CaseOptions::default() }).expect("cases").remove(0)
}

/// The next probe: a trial of so many seconds in which everything went well, but for what was throttled so long after its
/// start.
fn try_next(search: &mut CapacitySearch<'_>, duration_s: f64, throttled_after_s: Option<f64>) {
    let lead = search.next().and_then(|probe| probe.course.lead);
    let mut distributions = Distributions::default();
    (0..1_000).for_each(|_| distributions.latency.record(900));
    let reading =
        |second: u32| Interval { at_s: f64::from(second), lag_events: Some(3), ..Interval::default() };
    let mut trial = Trial {
        duration_s,
        lead: lead.map(|lead| Lead {
            rate_per_s: lead.rate.events_per_second(),
            length_s: lead.length.as_secs_f64(),
        }),
        throttled_after_s,
        intervals: (1..=10).map(reading).collect(),
        ..Trial::default()
    };
    if throttled_after_s.is_some() {
        trial.refusals.insert(Role::Load, Refusals { refused: 3, throttled: 3, total: None });
    }
    search.record(TrialRecord::new(trial, distributions), None);
}

#[test]
fn a_throttled_probe_gives_those_after_it_a_lead_and_the_time_to_use_up_the_rest() {
    let case = case("{start: 1000/s, highest: 8000/s, precision: 50 %, probe: 2 s, hold: 3 s, repeat: 1}");
    let plan = case_plan(&case);
    let mut search = CapacitySearch::new(&case, &plan);
    let first = search.next().expect("a probe");
    assert_eq!((first.course.lead, first.parameters.phases.measure), (None, Duration::from_secs(2)));
    try_next(&mut search, 2.0, None);
    assert_eq!(search.probes[0].above_quota_percent, None, "no quota is known");
    try_next(&mut search, 2.0, Some(1.25));
    let again = search.next().expect("a probe");
    assert_eq!(again.rate, 1_000.0, "what passed has to pass again");
    let lead = again.course.lead.expect("a credit is known");
    assert_eq!((lead.rate.events_per_second(), lead.length), (2_000.0, Duration::from_millis(900)));
    // A lead that was throttled says nothing of the rate, whatever the trial looked like.
    try_next(&mut search, 2.0, Some(1.0));
    let shorter = search.next().expect("a probe");
    assert_eq!((shorter.rate, shorter.course.lead.map(|lead| lead.length)), (1_000.0, Some(lead.length / 2)));
    assert_eq!(search.case().capacity.expect("a search").lowest_failed_per_s, Some(2_000.0));
    // Up to 0.8 s of 2,000/s are left over: 1,000/s takes 2.4 s to be within half of the quota.
    assert_eq!(shorter.parameters.phases.measure, Duration::from_millis(2_400));
    assert_eq!(shorter.course.throttled_ends_after, Some(Duration::from_secs(2)));
    try_next(&mut search, 2.4, None);
    assert_eq!(search.probes.last().and_then(|probe| probe.above_quota_percent).map(f64::round), Some(50.0));
    let bisect = search.next().expect("a probe");
    assert_eq!((bisect.rate, self::purpose(&search)), (1_414.0, Some(Purpose::Bisect)));
    try_next(&mut search, 2.0, Some(2.5));
    let hold = search.next().expect("a probe");
    assert_eq!((hold.rate, self::purpose(&search)), (1_000.0, Some(Purpose::Hold)));
    assert_eq!(hold.course.lead, shorter.course.lead, "it was throttled after its lead, which tells no time");
    // Within a tenth: eleven times as long.
    assert_eq!(hold.parameters.phases.measure, Duration::from_millis(8_800));
}

fn purpose(search: &CapacitySearch<'_>) -> Option<Purpose> {
    search.search.next().map(|attempt| attempt.purpose)
}

#[test]
fn a_credit_that_outlasts_ten_holds_bounds_the_time_and_is_stated() {
    let case = case("{start: 1000/s, highest: 1500/s, precision: 50 %, probe: 2 s, hold: 2 s, repeat: 1}");
    let plan = case_plan(&case);
    let mut search = CapacitySearch::new(&case, &plan);
    try_next(&mut search, 2.0, None);
    try_next(&mut search, 100.0, Some(100.25));
    let hold = search.next().expect("a probe");
    assert_eq!((hold.rate, self::purpose(&search)), (1_000.0, Some(Purpose::Hold)));
    assert_eq!(hold.parameters.phases.measure, Duration::from_secs(20));
    try_next(&mut search, 20.0, None);
    let case = search.case();
    assert_eq!(case.capacity.as_ref().map(|capacity| capacity.conclusion), Some(Conclusion::Enclosed));
    let is_told = case
        .findings
        .iter()
        .any(|finding| finding.kind == FindingKind::LimitedByQuota && finding.message.contains("up to 53 %"));
    assert!(is_told, "{:?}", case.findings);
}

#[tokio::test]
#[ignore = "long tier: a machine that is busy fails rates before the quota does"]
async fn the_burst_credit_of_a_quota_is_not_capacity_though_it_outlasts_the_hold() {
    const QUOTA: f64 = 8_000.0;
    let folder = tempfile::tempdir().expect("a temporary directory");
    // The credit carries 9,600/s for 2.5 s, which is longer than probe and hold.
    let quota = Quota { events_per_s: QUOTA, credit: 4_000.0 };
    let faults = Faults { quota: Some(quota), ..Faults::default() };
    let set = [
        "load.capacity={bound: 2 s, start: 9600/s, highest: 14400/s, precision: 50 %, probe: 900 ms, hold: 900 ms, repeat: 1}",
    ];
    let (_canceller, cancellation) = cancellation();
    let outcome = search(&set, faults, folder.path(), &Unobserved, cancellation).await;
    let capacity = outcome.results.cases[0].capacity.as_ref().expect("a search");
    let probes = &capacity.probes;
    let first = probes.iter().position(|probe| probe.throttled > Some(0)).expect("14,400/s is throttled");
    for probe in &probes[first + 1..] {
        assert!(probe.lead.is_some(), "{probe:?}");
        if probe.rate_per_s > QUOTA * 1.1 {
            assert_ne!(probe.outcome, Some(Outcome::Passed), "{probe:?}");
        }
        assert_eq!(probe.above_quota_percent.is_some(), probe.outcome == Some(Outcome::Passed), "{probe:?}");
    }
    // A machine that is busy with something else may fail any rate. The credit passes none.
    assert!(capacity.highest_passed_per_s.is_none_or(|held| held <= QUOTA * 1.1), "{capacity:?}");
}

#[tokio::test]
async fn a_role_that_can_not_work_at_all_ends_the_search_at_once() {
    let folder = tempfile::tempdir().expect("a temporary directory");
    let faults = Faults { fail_after: Some(100), ..Faults::default() };
    let (_canceller, cancellation) = cancellation();
    let outcome = search(&[], faults, folder.path(), &Unobserved, cancellation).await;
    let case = &outcome.results.cases[0];
    assert_eq!(case.status, Status::Failed);
    assert!(
        case.findings.iter().any(|finding| finding.kind == FindingKind::RoleFailed),
        "{:?}",
        case.findings
    );
    assert_eq!(case.capacity.as_ref().map(|capacity| capacity.probes.len()), Some(1));
}

#[tokio::test]
async fn a_rate_at_which_events_get_lost_does_not_pass_and_loss_at_every_rate_fails_the_case() {
    let folder = tempfile::tempdir().expect("a temporary directory");
    let faults = Faults { forget_every: Some(20), ..Faults::default() };
    let set = ["load.capacity.start=512/s", "phases.drain=100 ms", "load.capacity.probe=500 ms"];
    let (_canceller, cancellation) = cancellation();
    let outcome = search(&set, faults, folder.path(), &Unobserved, cancellation).await;
    let case = &outcome.results.cases[0];
    let capacity = case.capacity.as_ref().expect("a search");
    let first = &capacity.probes[0];
    assert_eq!(first.outcome, Some(Outcome::Failed));
    assert!(first.lost > Some(0), "{first:?}");
}

/// Cancels the run in the measured phase of its second probe.
struct CancelSecond {
    canceller: Canceller,
    rates: Mutex<Vec<f64>>,
}

impl Observer for CancelSecond {
    fn progress(&self, progress: &Progress) {
        let rate = progress.tried_per_s.expect("every probe shows its rate");
        self.rates.lock().expect("no panic").push(rate);
        if (progress.trial, progress.phase) == (2, Phase::Measuring) {
            self.canceller.cancel();
        }
    }
}

#[tokio::test]
async fn an_interrupted_search_leaves_what_it_tried() {
    let folder = tempfile::tempdir().expect("a temporary directory");
    let (canceller, cancellation) = cancellation();
    let observer = CancelSecond { canceller, rates: Mutex::default() };
    let outcome = search(&[], Faults::default(), folder.path(), &observer, cancellation).await;
    assert!(outcome.was_cancelled && !outcome.results.complete);
    let text = std::fs::read_to_string(folder.path().join("results.json")).expect("on disk");
    let read: Results = serde_json::from_str(&text).expect("our own text");
    let case = &read.cases[0];
    assert_eq!(case.status, Status::Incomplete);
    let capacity = case.capacity.as_ref().expect("a search");
    assert_eq!(capacity.conclusion, Conclusion::Searching);
    assert_eq!(capacity.probes.len(), 2);
    assert!(capacity.probes[0].outcome.is_some() && capacity.probes[1].outcome.is_none());
    assert!(observer.rates.lock().expect("no panic").contains(&5_000.0));
}
