//! Accepting connections without letting idle or hostile peers use up the process.
//!
//! * [`Acceptor`] accepts through failures: a process without file descriptors waits, says so once, and goes on.
//! * [`Places`] bound how many connections there are. When all places are taken, the oldest connection that has proven
//!   nothing makes room for a new one.
//! * [`MetricsWriter`] is what collectors write metrics with, [`Exposition`] what scrapers get, [`ProcessMetrics`] what there
//!   is to say of any process, and [`Recent`] what keeps those who ask from costing those who work.
//! * [`http`] serves a connection over HTTP within bounds of memory and time, and small pages for health and metrics.

pub mod http;

mod acceptor;
mod exposition;
mod merged;
mod metrics;
mod places;
mod process;
mod recent;

pub use acceptor::{AcceptFailures, Acceptor};
pub use exposition::Exposition;
pub use merged::merged;
pub use metrics::{MetricsWriter, open_metrics};
pub use places::{Place, Places};
pub use process::{Build, ProcessMetrics, WritePart, declare_build, declare_part};
pub use recent::Recent;
