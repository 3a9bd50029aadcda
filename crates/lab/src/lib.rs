//! The lab: what a scenario says, measured and proven.
//!
//! ```text
//! scenario ──▶ cases ──▶ run ──▶ roles (processes: hub, load, relay, sink) ──▶ results ──▶ report
//!                         │        ├ load, payload: what is offered, by a seeded plan
//!                         │        └ record, verify: when it arrived, and whether all of it did; statistics: what that proves
//!                         └ limits, probe: what a role may use of the machine, and what it used
//! studies: what belongs to single studies, their columns and findings
//! live: a run as monitoring and people see it while it goes on
//! self_check: whether the lab finds damage and pauses that are known
//! ```
//!
//! The lab drives hub and relay as a user would, as processes of their own, and believes neither: the service's counters,
//! the clients' and the sink's verdict on every event must agree.

pub mod clock;
pub mod comparison;
pub mod figure;
pub mod limits;
pub mod live;
pub mod load;
pub mod payload;
pub mod probe;
pub mod progress;
pub mod record;
pub mod report;
pub mod results;
pub mod roles;
pub mod run;
pub mod scenario;
pub mod schema;
pub mod self_check;
pub mod statistics;
pub mod studies;
pub mod verify;
