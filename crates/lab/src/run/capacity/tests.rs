//! Searches over the world in memory, whose pipeline has the capacity that the test gives it.

use std::{path::Path, sync::Mutex};

use super::*;
use crate::{
    limits::Limiter,
    progress::{Observer, Phase, Progress, Unobserved},
    report::ResultsFolder,
    results::{FindingKind, Results, RunIdentity, Status},
    roles::memory::{Faults, MemoryBackend, ThreadLauncher},
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
