//! Messages of AMQP as records of Kafka, and records as messages: for the service, whose logs are read over both protocols, and for
//! the relay, whose ends may speak different ones. Whoever reads what its own protocol wrote does not come here.
//!
//! What becomes of each part, as Event Hubs has it (`event-hubs-exchange-events-different-protocols` in its documentation, and
//! what was observed of it):
//!
//! | Kafka | AMQP | |
//! |---|---|---|
//! | value | body, one Data section | a tombstone is an empty body with the annotation `x-opt-kafka-tombstone` |
//! | key | annotation `x-opt-kafka-key`, binary | not the partition key: Kafka's clients hash keys in their own ways |
//! | header | application property, binary | of several headers of one name, the last one |
//! | headers that are no map of texts | annotation `x-opt-kafka-headers` besides: a list of names and values, in turn | |
//! | header of the value's AMQP encoding | application property | of bytes the bytes themselves, as [`HeaderForm`] says |
//! | header of the text | `message-id`, `content-type` and the other properties | under their names |
//! | header `x-opt-partition-key` | partition key | |
//!
//! The annotations of a record make a record that is read over AMQP and written to Kafka again the one that it was. Event Hubs itself
//! has the one of the key alone.
//!
//! Bodies that are not bytes (a value, a sequence) are records whose value is their AMQP encoding. Offsets, sequence numbers and
//! timestamps are the caller's.
//!
//! A message that is one Data section, and a record without headers, are converted without taking memory.

pub mod annotations;
mod message;
mod record;
pub mod text;

pub use message::{message, message_head};
pub use record::{HeaderForm, Message, RecordParts};

/// The annotation, and the header, that has the partition key.
const PARTITION_KEY: &str = "x-opt-partition-key";
