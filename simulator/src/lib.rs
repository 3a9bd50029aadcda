//! Relays, hubs and a checkpoint store on virtual time, with everything going wrong that can.
//!
//! One history is one seed: the [`Config`] is drawn from it, and so is every delay, failure, crash and pause while it
//! runs. The relays are the real ones and so are the hubs' partition logs; the network, the store and the ends of the
//! pipeline are simulated, in one thread and on tokio's paused clock, so that an hour costs what happens in it and the
//! same seed gives the same history again.
//!
//! ```text
//!   producers ─▶ source hub ─▶ links ─▶ source ─┐                  ┌─▶ connections ─▶ destination hub
//!                PartitionLog  delays            │  relay::Relay ──▶│   delays, losses    PartitionLog
//!                crashes       detachments       └──── ▲ ───────────┘   duplicates        crashes
//!                                                      ▼
//!                                                checkpoint store: slow, failing, its answers lost
//! ```
//!
//! Of several sinks each has destinations of its own at the destination hub, numbered through. Beside them there may be an archive, which
//! stores later than it accepts.
//!
//! Events that a sink refuses for good go to a place of dead letters, the last of the destinations.
//!
//! [`simulate`] runs a history and says what the first broken invariant was. Which invariants there are stands in
//! `docs/simulator.md`; they are checked at every step by what is in `audit`, which draws nothing and changes nothing.

mod archive;
mod audit;
pub mod config;
mod defect;
mod durable_log;
mod history;
mod message;
mod process;
mod refusals;
mod sink;
mod source;
mod store;
mod trace;
mod world;

pub use audit::Violation;
pub use config::Config;
pub use defect::Defect;
pub use history::{Failure, Report, simulate};
pub use refusals::{DeadLetterSink, Refusals};
pub use trace::Line;

/// Numbers the streams of random numbers: one for each concern, so that a draw more for one does not shift the others.
mod concern {
    pub(crate) const CONFIG: u64 = 0x51_00;
    pub(crate) const NETWORK: u64 = 0x51_01;
    pub(crate) const HUB: u64 = 0x51_02;
    pub(crate) const STORE: u64 = 0x51_03;
    pub(crate) const LOAD: u64 = 0x51_04;
    pub(crate) const FAULTS: u64 = 0x51_05;
    pub(crate) const SCHEDULE: u64 = 0x51_06;
    pub(crate) const SHARING: u64 = 0x51_07;
    pub(crate) const REFUSALS: u64 = 0x51_09;
    pub(crate) const DISPATCH: u64 = 0x51_08;
    /// And those that follow, one for each process.
    pub(crate) const ARCHIVE: u64 = 0x52_00;
}
