//! Batches of one protocol for readers of another. Whoever reads what its own protocol wrote does not come here.
//!
//! What becomes of each part of an event says the crate `convert`. Here are the logs' chunks: sequence numbers are offsets, and the
//! time at which an event was appended is the timestamp of a record, and its enqueued time. The timestamp of a Kafka producer stays
//! in its batch.

mod from_amqp;
mod from_kafka;

pub(crate) use from_amqp::record_batches;
pub(crate) use from_kafka::{AmqpBatch, ConvertError, UNPACKED_MAX, UnpackingBatch, amqp_batch};

#[cfg(test)]
mod tests;
