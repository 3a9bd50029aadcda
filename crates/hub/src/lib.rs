//! The embedded service: hubs whose partitions are logs, under one namespace.
//!
//! * [`log`] is the partition log: append, read, retention, wake-ups.
//! * [`blob`] is a storage account: containers and blobs.
//! * [`queue`] has queues and topics: messages that are locked, settled, deferred, dead-lettered.
//! * [`namespace`] is what exists and who may use it: hubs, partitions, consumer groups, keys, claims.
//! * [`front`] is what clients connect to: AMQP, blobs over HTTP, and HTTP for health and metrics.
//! * [`service`] puts it all on addresses; [`tls`] has the certificates for those that are encrypted.
//! * [`profile`] makes it as slow, stingy and unreliable as the real one, if asked to.
//! * [`clock`] tells the time of day, and when it jumps.
//! * [`counters`] say what passed through.
//!
//! Front ends translate a protocol to calls of these and nothing else. The store reads no clock: the present time
//! is an argument of every call that needs it, as [`UnixTime`] or, where tokens are verified, as `SystemTime`.

pub mod blob;
pub mod clock;
pub mod counters;
pub mod front;
pub mod log;
pub mod namespace;
mod owner_only;
pub mod profile;
pub mod queue;
pub mod service;
pub mod tls;
mod unix_time;

pub use unix_time::UnixTime;
