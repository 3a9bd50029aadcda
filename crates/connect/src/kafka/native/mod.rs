//! The client of this crate: one connection per broker, polled by whoever uses it, with no task, channel or lock, and no copy
//! between the socket and the batch.

mod cluster;
mod connection;
mod coordinator;
mod endpoint;
mod ends;
mod error;
mod fetched;
mod find_coordinator;
mod login;
mod membership;
mod produce_request;
mod producer;
mod receive_buffer;
mod sent;
mod sink;
mod source;
mod topics;
mod transaction;

pub(crate) use coordinator::{Committer, Coordinator};
pub(crate) use endpoint::Endpoint;
pub use ends::PartitionExtent;
pub(crate) use ends::{Ends, ends};
pub(crate) use error::refused;
pub(crate) use sink::KafkaSink;
pub(crate) use source::KafkaSource;
pub(crate) use topics::topics;
pub use transaction::TransactionOptions;
pub(crate) use transaction::TransactionalSink;
