//! The lab against a world whose truth is known: what it says must be what happened.
//!
//! The roles, the orchestrator and the pipes between them are the real ones; hubs and pipeline are in memory
//! (`lab::roles::memory`), do wrong as wished, and keep a tally of it. What a test expects comes from that tally, from a
//! model, or from a distribution that is known; never from how fast anything was.

#![expect(clippy::unwrap_used, reason = "what panics in a test fails it, and says where")]

mod counters;
mod delay;
mod omission;
mod percentiles;
mod plan;
mod statistics;
mod tampering;

use lab::limits::Limiter;
use lab::progress::Unobserved;
use lab::report::ResultsFolder;
use lab::results::{Case, Results, RunIdentity};
use lab::roles::memory::{Faults, MemoryBackend, ThreadLauncher};
use lab::run::{RunOptions, cancellation, run};
use lab::scenario::{CaseOptions, Scenario};

/// Runs the one case that `set` makes of a small scenario, and gives it with the world that it ran in.
async fn measured(set: &[&str], faults: Faults) -> (Case, MemoryBackend) {
    measured_in(SCENARIO, set, faults).await
}

/// The same of another scenario.
async fn measured_in(scenario: &str, set: &[&str], faults: Faults) -> (Case, MemoryBackend) {
    let folder = tempfile::tempdir().unwrap();
    let options =
        CaseOptions { set: set.iter().map(|&set| set.to_owned()).collect(), ..CaseOptions::default() };
    let cases = Scenario::parse("small.yaml", scenario).unwrap().cases(&options).unwrap();
    let backend = MemoryBackend::new(faults);
    let launcher = ThreadLauncher { backend: backend.clone() };
    let (_canceller, cancellation) = cancellation();
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
        folder: ResultsFolder::create(folder.path()).unwrap(),
    };
    let limiter = Limiter::affinity_only("roles are threads here");
    run(&cases, options, &launcher, &limiter, &Unobserved, cancellation).await;
    // What is on disk is what a user gets.
    let text = std::fs::read_to_string(folder.path().join("results.json")).unwrap();
    let results: Results = serde_json::from_str(&text).unwrap();
    (results.cases.into_iter().next().unwrap(), backend)
}

const SCENARIO: &str = "\
scenario: small
description: a test
hubs:
  source: {name: source, partitions: 4}
  destination: {name: destination}
load: {payload: 24 B, batch: 10, in_flight: 4, max_lag: 5000, backlog: 20003, rate: 20000/s}
relay: {fan_out: 3, batch: {events: 64, wait: 1 ms}}
phases: {warm_up: 100 ms, measure: 300 ms, drain: 2 s}
trials: 1
";
