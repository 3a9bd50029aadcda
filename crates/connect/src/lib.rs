//! What a pipeline connects to: sources that yield batches of events, sinks that accept them, and stores that
//! remember how far a consumer group got.
//!
//! The batch is the unit everywhere. A [`Source`](source::Source) yields an [`EventBatch`](event::EventBatch) whose
//! events are ranges in refcounted chunks: the bytes stay where the network put them. A [`Sink`](sink::Sink) encodes
//! the events that it is given straight into its output buffer and reports one outcome per send. Both are polled by one
//! thread; neither knows of retries, routes or checkpoints, which are the relay's.
//!
//! A namespace is reached with a key, or with tokens for an [`identity`].
//!
//! [`fakes`] holds a memory source, a scripted sink and more for tests of whatever is built on these traits.

mod alarm;
pub mod archive;
mod azure_transport;
pub mod batch_builder;
pub mod checkpoint;
pub mod dead_letter;
pub mod deadline_queue;
pub mod event;
pub mod event_hubs;
pub mod fakes;
mod http;
mod hyper_client;
pub mod identity;
pub mod kafka;
pub mod partition_subset;
pub mod producer;
pub mod retry;
mod server_clock;
pub mod service;
pub mod service_bus;
pub mod sink;
pub mod source;
pub mod trace_context;
pub mod transform;
