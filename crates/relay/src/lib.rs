//! The engine of a pipeline: receive, route, send, checkpoint.
//!
//! A [`Relay`] takes batches from a [`Source`](connect::source::Source), regroups each one by destination, sends all
//! groups to one or several [`Sink`](connect::sink::Sink)s, and when every group of a batch has been accepted moves the
//! partition's [`watermark`] and writes it to a [`CheckpointStore`](connect::checkpoint::CheckpointStore). Delivery is
//! at least once: whatever happens at whatever instant, an event is either covered by a checkpoint that was written
//! after its acceptance, or it is read and sent again.
//!
//! Several relays can share the partitions of a hub by [`ownership`]. What a relay does can be counted ([`metrics`]) and traced ([`traces`]).
//!
//! One relay is one task on one thread. It shares nothing, locks nothing and, once its buffers have grown to their size,
//! allocates nothing but what a checkpoint takes.

mod dead_letters;
mod engine;
pub mod health;
pub mod metrics;
mod options;
pub mod ownership;
pub mod regroup;
pub mod route;
pub mod traces;
pub mod watermark;

pub use engine::{Ended, Relay, RelayError, Summary};
pub use options::{
    CheckpointPolicy, DispatchUnit, MissedEvents, Order, PoisonEvents, RelayOptions, SettlingOptions,
};
