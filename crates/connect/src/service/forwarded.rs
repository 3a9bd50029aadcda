//! What of a received message goes on to where it is forwarded.
//!
//! Header and annotations are for this hop only and are left behind, as the official clients do when a message that they
//! received is sent on. The rest is forwarded as it is.

use amqp::DecodeError;
use amqp::message::{SectionKind, Sections};

/// Whether a section goes on.
pub(crate) const fn is_forwarded(kind: SectionKind) -> bool {
    match kind {
        SectionKind::Header
        | SectionKind::DeliveryAnnotations
        | SectionKind::MessageAnnotations => false,
        SectionKind::Properties
        | SectionKind::ApplicationProperties
        | SectionKind::Data
        | SectionKind::Sequence
        | SectionKind::Value
        | SectionKind::Footer => true,
    }
}

/// Appends the sections that go on, for messages in which something else lies in their midst.
///
/// # Errors
/// When the message is malformed.
#[cold]
pub(crate) fn copy_forwarded(message: &[u8], copy: &mut Vec<u8>) -> Result<(), DecodeError> {
    for section in Sections::new(message) {
        let section = section?;
        if is_forwarded(section.kind) {
            copy.extend_from_slice(section.encoded);
        }
    }
    Ok(())
}
