//! The service as clients see it, over real sockets, with everyone else served all the while.
//!
//! What the service does for them:
//! * `receivers`: who may read a partition, who takes over from whom, what they are told of it.
//! * `publishers`: addresses of publishers, and producers that number their events.
//! * `leading`: events with a header or delivery annotations.
//! * `properties`: what is told of hubs and partitions, and under which host.
//! * `haste`: those that lose an answer that comes at once.
//! * `deletion`: links to what is deleted.
//! * `transactions`: what clients of Kafka write and may take back.
//! * `transports`: AMQP over WebSocket.
//! * `windows`: session windows and credit of one.
//!
//! And against those who mean no good, or are gone:
//! * `aborted`: requests over HTTP whose bodies break off.
//! * `bytes`: random streams and malformed frames.
//! * `greed`: clients that take without end, or take nothing.
//! * `intrusion`: wrong, expired and missing proof; what does not exist; what is too large; what is full.
//! * `rejections`: messages that are refused, as this side counts them.
//! * `silence`: clients that have stopped.
//! * `strangers`: clients that show nothing, what they can hold, and how long.
//!
//! No test waits for a time to pass: each waits for what must come, under a deadline that only a failure reaches.

#![expect(clippy::unwrap_used, reason = "what panics in a test fails it, and says where")]

pub(crate) mod aborted;
mod bytes;
pub(crate) mod client;
mod deletion;
pub(crate) mod greed;
mod haste;
mod intrusion;
mod leading;
mod properties;
mod publishers;
mod receivers;
mod rejections;
mod silence;
mod strangers;
mod transactions;
mod transports;
pub(crate) mod windows;
