//! Runs whose figures depend on the machine: latencies, rates and quotas in real time.
//!
//! They follow one another, and `make test` starts this binary last, when nothing else runs. Those that fail on a machine that
//! does anything else besides are ignored here and belong to `make test-long`.

#![expect(clippy::unwrap_used, reason = "what panics in a test fails it, and says where")]

mod far_services;
mod kafka_latency;
#[path = "../running/mod.rs"]
mod running;
mod stalls;
mod throttling;

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Claims the machine for one test of this binary.
fn machine() -> MutexGuard<'static, ()> {
    static MACHINE: Mutex<()> = Mutex::new(());
    MACHINE.lock().unwrap_or_else(PoisonError::into_inner)
}
