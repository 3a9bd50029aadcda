//! Keys of events, which hubs need that keep the latest event of each key.

use amqp::codec::{DecodeError, Reader};
use amqp::performative::{DeliveryState, ErrorCondition};

use super::publish::PARTITION_KEY;
use crate::front::amqp::conditions::rejected;

/// Whether an event has a key, by its annotations: that of a Kafka record, or a partition key.
///
/// # Errors
/// The annotations can't be read.
pub(super) fn has_key(count: u32, annotations: &[u8]) -> Result<bool, DecodeError> {
    let mut reader = Reader::new(annotations);
    for _ in 0..count {
        let name = Reader::new(reader.raw()?).text()?;
        let value = reader.raw()?;
        if matches!(name, Some(PARTITION_KEY | KAFKA_KEY)) && value != NULL {
            return Ok(true);
        }
    }
    Ok(false)
}

/// The outcome of an event without a key.
#[cold]
pub(super) fn missing() -> DeliveryState {
    rejected(
        ErrorCondition::ARGUMENT_ERROR,
        "The hub is compacted (cleanup.policy), so that each event needs a partition key.",
    )
}

/// The annotation that has the key of a Kafka record.
const KAFKA_KEY: &str = "x-opt-kafka-key";

/// An encoded null.
const NULL: [u8; 1] = [0x40];
