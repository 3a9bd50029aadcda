//! `parshall run` through the processes, limits and reports of real runs.
//!
//! Runs share the machine with one another: how fast they are does not matter here. Asserted is that nothing is lost or damaged,
//! and that the results say what happened. Runs whose figures depend on the machine are in the binary `alone`.

#![expect(clippy::unwrap_used, reason = "what panics in a test fails it, and says where")]

mod consumer_strategies;
mod external_systems;
mod full_disk;
mod honesty;
mod ingestion;
mod kafka;
mod kafka_faults;
mod kafka_relay;
mod lab_check;
mod queue_forward;
mod relay_restarts;
mod remote_roles;
mod run;
#[path = "../running/mod.rs"]
mod running;
#[path = "../serving/mod.rs"]
mod serving;
#[path = "../stop_signals/mod.rs"]
mod stop_signals;
mod sweeps;
