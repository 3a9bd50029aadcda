//! What is offered, when, and what became of it.
//!
//! ```text
//! LoadPlan ── one per run: streams, seed, pace
//!    └─ Schedule ── one per worker: time in, runs of due events out
//!          └─ a send per run
//!                └─ Accounting: sent, acknowledged, late (with Attendance: by whose fault), unknown
//!                      └─ judge: did the generator do its work?
//! ```
//!
//! A stream goes to one source partition and its events carry consecutive sequence numbers; by default
//! there is one stream per source partition. A worker owns whole streams.

mod accounting;
mod attendance;
mod health;
mod isolated;
mod plan;
mod schedule;

pub use accounting::{Accounting, LoadCounts, LoadRecordings, PendingSend, Punctuality};
pub use attendance::Attendance;
pub use health::{LATE_AFTER, LoadFacts, judge};
pub use isolated::IsolatedCalls;
pub use plan::{Arrivals, Lead, LoadPlan, Pace, StreamPlan, Worker};
pub use schedule::{Run, Schedule};
