//! Accepting connections without letting idle or hostile peers use up the process.
//!
//! * [`Acceptor`] accepts through failures: a process without file descriptors waits, says so once, and goes on.
//! * [`Places`] bound how many connections there are. When all places are taken, the oldest connection that has proven
//!   nothing makes room for a new one.
//! * [`MetricsWriter`] is what collectors write metrics with.
//! * [`serve_http`] is a small HTTP server for health and metrics, in which no peer can hold a connection for long.

mod acceptor;
mod http;
mod metrics;
mod places;

pub use acceptor::{AcceptFailures, Acceptor};
pub use http::{Page, serve_http};
pub use metrics::{MetricsWriter, open_metrics};
pub use places::{Place, Places};
