//! Apache Kafka, the Kafka endpoint of Event Hubs, or the embedded service over Kafka's protocol.
//!
//! Source and sink are set up by [`Properties`], whose names are those that librdkafka and its users know: what is written
//! for one client holds for the other ([`Client`]). A topic is named by [`KafkaOptions`]; its partitions are those of the
//! source, and the destinations of the sink.
//!
//! The message of an event is what [`Encoding::Kafka`](crate::event::Encoding::Kafka) says: the tail of a record, which goes
//! from one broker to another without anyone looking into it.

mod options;
mod properties;
mod settings;

pub use options::{Client, KafkaOptions, UnknownClient};
pub use properties::{Properties, PropertyError};
