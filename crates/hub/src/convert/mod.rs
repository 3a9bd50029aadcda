//! Events of one protocol for readers of another. Whoever reads what its own protocol wrote does not come here.
//!
//! What becomes of each part, as the service has it (`event-hubs-exchange-events-different-protocols` in its documentation, and
//! what was observed of it):
//!
//! | Kafka | AMQP | |
//! |---|---|---|
//! | value | body, one Data section | a tombstone is an empty body |
//! | key | annotation `x-opt-kafka-key`, binary | not the partition key: Kafka's clients hash keys in their own ways |
//! | header | application property, binary | of several headers of one name, the last one |
//! | header of the value's AMQP encoding | application property | |
//! | header of the text | `message-id`, `content-type` and the other properties | under their names |
//! | header `x-opt-partition-key` | partition key | |
//! | offset | sequence number | |
//! | timestamp | enqueued time | of what came over AMQP; a Kafka producer's own stays in the batch |
//!
//! Bodies that are not bytes (a value, a sequence) are records whose value is their AMQP encoding.

mod from_amqp;
mod from_kafka;

pub(crate) use from_amqp::record_batches;
pub(crate) use from_kafka::{UNPACKED_MAX, amqp_batch};

/// The annotation that has the key of a Kafka record.
const KAFKA_KEY: &str = "x-opt-kafka-key";

/// The annotation, and the header, that has the partition key.
const PARTITION_KEY: &str = "x-opt-partition-key";

#[cfg(test)]
mod tests;
