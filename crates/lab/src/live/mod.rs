//! A run as others see it while it goes on: its metrics for monitoring, and a page for people.
//!
//! Both are observers of the run, keep what they saw last, and make something of it only when it is asked for, on a thread that gives
//! way to the run.

mod metrics;
mod page;

pub use metrics::LiveMetrics;
pub use page::{LivePage, LivePageParts};

/// Connections at once; a new one takes the place of the oldest.
const CONNECTIONS_MAX: u64 = 32;
