//! `parshall run` through the processes, limits and reports of real runs.
//!
//! Runs follow one another, since each wants the machine for itself. How fast they are does not matter here; that nothing is
//! lost or damaged, and that the results say what happened, does.

#![expect(clippy::unwrap_used, reason = "what panics in a test fails it, and says where")]

mod consumer_strategies;
mod external_systems;
mod far_services;
mod full_disk;
mod honesty;
mod ingestion;
mod kafka;
mod kafka_faults;
mod kafka_latency;
mod kafka_relay;
mod lab_check;
mod queue_forward;
mod relay_restarts;
mod remote_roles;
mod run;
#[path = "../serving/mod.rs"]
mod serving;
#[path = "../stop_signals/mod.rs"]
mod stop_signals;
mod sweeps;

use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use serde_json::Value;

/// The variable for a log that names each phase of a run as it begins.
const NAMING_PHASES: [(&str, &str); 1] = [("PARSHALL_LOG", "info,parshall::progress=debug")];

/// The machine, for one run at a time.
fn machine() -> MutexGuard<'static, ()> {
    static MACHINE: Mutex<()> = Mutex::new(());
    MACHINE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The results of the latest run in this folder, all runs in it being of one scenario.
fn results_folder(folder: &Path) -> PathBuf {
    let results = folder.join("results");
    let entries =
        std::fs::read_dir(&results).unwrap_or_else(|error| panic!("{}: {error}", results.display()));
    let scenarios: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
    let [scenario] = scenarios.as_slice() else { panic!("{scenarios:?}") };
    scenario.join("latest")
}

/// The `results.json` of the latest run in this folder, which is in order by its schema.
fn results_in(folder: &Path) -> Value {
    let path = results_folder(folder).join("results.json");
    let text = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let results = serde_json::from_str(&text).unwrap();
    assert_valid(&results);
    results
}

fn assert_valid(results: &Value) {
    let schema = include_str!("../../../../schema/results.schema.json");
    let validator = jsonschema::validator_for(&serde_json::from_str(schema).unwrap()).unwrap();
    let mistakes = validator.iter_errors(results);
    let mistakes: Vec<String> = mistakes.map(|error| format!("{}: {error}", error.instance_path())).collect();
    assert!(mistakes.is_empty(), "{mistakes:#?}");
}
