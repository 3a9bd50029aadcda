//! Sources and a sink that do what a test tells them to.
//!
//! [`MemorySource`] yields what is appended to its [`MemoryLog`], [`QueueSource`] what is put into its [`MemoryQueue`],
//! under locks; [`ScriptedSink`] accepts, delays, refuses or ignores
//! sends as its [`SinkScript`] says and remembers every one. Both keep the contracts of their traits and take the time
//! from tokio, so under paused time a test of minutes runs in milliseconds and to the exact instant. [`EndlessSource`] and [`NullSink`]
//! do as little as can be, to measure the rest. A checkpoint store for tests is [`MemoryCheckpointStore`](crate::checkpoint::MemoryCheckpointStore).

mod memory_queue;
mod memory_source;
mod null;
mod scripted_sink;

pub use memory_queue::{MemoryQueue, MessageState, QueueSource};
pub use memory_source::{MemoryLog, MemorySource};
pub use null::{Accepted, EndlessSource, NullSink};
pub use scripted_sink::{Reply, ScriptedSink, SinkScript, Write};
