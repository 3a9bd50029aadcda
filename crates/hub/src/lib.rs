//! The embedded service: hubs whose partitions are logs, queues, topics and blobs, under one namespace.
//!
//! The stores are crates of their own: [`partition_log`], [`queue_store`] and [`blob_store`].
//!
//! * [`namespace`] is what exists and who may use it: hubs, partitions, consumer groups, keys, claims.
//! * [`front`] is what clients connect to: AMQP, blobs over HTTP, and health and metrics for operators.
//! * [`service`] puts it all on addresses; [`tls`] has the certificates for those that are encrypted.
//! * [`profile`] makes it as slow, stingy and unreliable as the real one, if asked to.
//! * [`identity`] verifies bearer tokens of Microsoft Entra ID and the like, and issues some for development.
//! * `groups` are the consumer groups of Kafka's clients, `transactions` those of its producers; both write to `journal`.
//! * `aside` keeps long work off the threads that serve connections.
//! * `memory` has the budgets that all connections share.
//! * `refusals` counts what clients are refused, and has it logged once a minute.
//! * `convert` turns events of one protocol into those of another, for readers that speak that.
//! * [`clock`] is the time of a service, which tests can advance.
//! * [`counters`] say what passed through.
//!
//! Front ends translate a protocol to calls of these and nothing else. The stores read no clock: the present time
//! is an argument of every call that needs it, as [`UnixTime`](partition_log::UnixTime) or, where tokens are verified, as
//! `SystemTime`.

mod aside;
pub mod clock;
mod convert;
pub mod counters;
pub mod front;
mod groups;
pub mod identity;
mod journal;
mod memory;
pub mod namespace;
pub mod profile;
mod refusals;
pub mod service;
pub mod tls;
mod transactions;
