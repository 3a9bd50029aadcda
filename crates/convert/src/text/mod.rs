//! The JSON form of events: printed by `tail` and `peek`, stored in archives and dead-letter files, read by `send`.
//!
//! ```text
//!   {…,"message_id":"7","types":{"message_id":"ulong"},"properties":{"region":"eu","size":3},"property_types":{"size":"int"},"body":{"a": 1.10}}
//! ```
//!
//! Reading a line returns the event that was written, to the byte of its body. JSON has fewer types than AMQP, so those that it does
//! not imply (text, truth, null, whole numbers of 64 bits, numbers of double precision) are named beside the values. A body is a text,
//! or the JSON that it is if it can stand in a line as it is, or base64. Where that is not enough (values made of others, bodies
//! that are no bytes or in several pieces, footers) the line has all sections in `amqp`, in base64, and these count: to change such an
//! event, remove the member.
//!
//! Not included are delivery annotations and message annotations, except those of records and the scheduled enqueue time.

mod members;
mod read;
mod types;
mod write;

pub use read::{BadLine, Extra, ReadEvent, read};
pub use types::{put_base64, put_value};
pub use write::{BodyForm, Layout, MessageText, put_headers, put_members, put_text, put_time};

/// Member names of both layouts.
mod names {
    pub(super) const AMQP: &str = "amqp";
    pub(super) const KAFKA_HEADERS: &str = "kafka_headers";
    pub(super) const KAFKA_KEY: &str = "kafka_key";
    pub(super) const KAFKA_KEY_BASE64: &str = "kafka_key_base64";
    pub(super) const PROPERTIES: &str = "properties";
    pub(super) const PROPERTY_TYPES: &str = "property_types";
    pub(super) const SCHEDULED: &str = "scheduled_enqueue_time";
    pub(super) const SYSTEM: &str = "system";
    pub(super) const TOMBSTONE: &str = "tombstone";
    pub(super) const TYPES: &str = "types";
}

/// The annotation with the scheduled enqueue time.
const SCHEDULED_TIME: &str = "x-opt-scheduled-enqueue-time";

#[cfg(test)]
mod tests;
