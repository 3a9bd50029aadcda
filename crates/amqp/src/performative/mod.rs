//! The performatives (specification part 2) and SASL frames (part 5), one file each.
//!
//! Every composite is decoded with its defaults for missing and null fields and
//! encoded with *all* fields present: some clients index fields without looking
//! at the count. Each type has `decode(&mut Reader)`, which expects the descriptor
//! to have been read, and `encode(&mut Vec<u8>)`, which writes it.

mod attach;
mod begin;
mod close;
mod delivery_state;
mod detach;
mod disposition;
mod end;
mod error;
mod flow;
mod open;
mod sasl;
mod terminus;
mod transfer;

pub use attach::{Attach, ReceiverSettleMode, SenderSettleMode};
pub use begin::Begin;
pub use close::Close;
pub use delivery_state::DeliveryState;
pub use detach::Detach;
pub use disposition::Disposition;
pub use end::End;
pub use error::{Error, ErrorCondition};
pub use flow::Flow;
pub use open::Open;
pub use sasl::{SaslCode, SaslInit, SaslMechanisms, SaslOutcome};
pub use terminus::{Source, Target};
pub(crate) use transfer::{FrameShape, TAG_MAX, TransferTemplate, WholeTransfer};
pub use transfer::{Transfer, TransferHeader};

use crate::codec::DecodeError;

/// Which end of a link, or which direction of a disposition (specification section 2.8.1).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Role {
    /// The end that sends messages.
    Sender,
    /// The end that receives messages.
    Receiver,
}

impl Role {
    /// The other end.
    pub const fn opposite(self) -> Self {
        match self {
            Self::Sender => Self::Receiver,
            Self::Receiver => Self::Sender,
        }
    }

    pub(crate) const fn from_wire(receiver: bool) -> Self {
        if receiver { Self::Receiver } else { Self::Sender }
    }

    pub(crate) const fn to_wire(self) -> bool {
        matches!(self, Self::Receiver)
    }
}

/// Numeric descriptors of the types in this crate.
#[expect(missing_docs, reason = "the names are the specification's own")]
pub mod descriptor {
    pub const OPEN: u64 = 0x10;
    pub const BEGIN: u64 = 0x11;
    pub const ATTACH: u64 = 0x12;
    pub const FLOW: u64 = 0x13;
    pub const TRANSFER: u64 = 0x14;
    pub const DISPOSITION: u64 = 0x15;
    pub const DETACH: u64 = 0x16;
    pub const END: u64 = 0x17;
    pub const CLOSE: u64 = 0x18;
    pub const ERROR: u64 = 0x1d;
    pub const RECEIVED: u64 = 0x23;
    pub const ACCEPTED: u64 = 0x24;
    pub const REJECTED: u64 = 0x25;
    pub const RELEASED: u64 = 0x26;
    pub const MODIFIED: u64 = 0x27;
    pub const SOURCE: u64 = 0x28;
    pub const TARGET: u64 = 0x29;
    pub const COORDINATOR: u64 = 0x30;
    pub const DECLARE: u64 = 0x31;
    pub const DISCHARGE: u64 = 0x32;
    pub const DECLARED: u64 = 0x33;
    pub const TRANSACTIONAL_STATE: u64 = 0x34;
    pub const SASL_MECHANISMS: u64 = 0x40;
    pub const SASL_INIT: u64 = 0x41;
    pub const SASL_OUTCOME: u64 = 0x44;
    pub const HEADER: u64 = 0x70;
    pub const DELIVERY_ANNOTATIONS: u64 = 0x71;
    pub const MESSAGE_ANNOTATIONS: u64 = 0x72;
    pub const PROPERTIES: u64 = 0x73;
    pub const APPLICATION_PROPERTIES: u64 = 0x74;
    pub const DATA: u64 = 0x75;
    pub const AMQP_SEQUENCE: u64 = 0x76;
    pub const AMQP_VALUE: u64 = 0x77;
    pub const FOOTER: u64 = 0x78;
}

/// The numeric descriptor for a symbolic one, which the specification allows in its place.
pub(crate) fn descriptor_of(name: &str) -> Option<u64> {
    Some(match name {
        "amqp:open:list" => descriptor::OPEN,
        "amqp:begin:list" => descriptor::BEGIN,
        "amqp:attach:list" => descriptor::ATTACH,
        "amqp:flow:list" => descriptor::FLOW,
        "amqp:transfer:list" => descriptor::TRANSFER,
        "amqp:disposition:list" => descriptor::DISPOSITION,
        "amqp:detach:list" => descriptor::DETACH,
        "amqp:end:list" => descriptor::END,
        "amqp:close:list" => descriptor::CLOSE,
        "amqp:error:list" => descriptor::ERROR,
        "amqp:received:list" => descriptor::RECEIVED,
        "amqp:accepted:list" => descriptor::ACCEPTED,
        "amqp:rejected:list" => descriptor::REJECTED,
        "amqp:released:list" => descriptor::RELEASED,
        "amqp:modified:list" => descriptor::MODIFIED,
        "amqp:source:list" => descriptor::SOURCE,
        "amqp:target:list" => descriptor::TARGET,
        "amqp:coordinator:list" => descriptor::COORDINATOR,
        "amqp:declare:list" => descriptor::DECLARE,
        "amqp:discharge:list" => descriptor::DISCHARGE,
        "amqp:declared:list" => descriptor::DECLARED,
        "amqp:transactional-state:list" => descriptor::TRANSACTIONAL_STATE,
        "amqp:sasl-mechanisms:list" => descriptor::SASL_MECHANISMS,
        "amqp:sasl-init:list" => descriptor::SASL_INIT,
        "amqp:sasl-outcome:list" => descriptor::SASL_OUTCOME,
        "amqp:header:list" => descriptor::HEADER,
        "amqp:delivery-annotations:map" => descriptor::DELIVERY_ANNOTATIONS,
        "amqp:message-annotations:map" => descriptor::MESSAGE_ANNOTATIONS,
        "amqp:properties:list" => descriptor::PROPERTIES,
        "amqp:application-properties:map" => descriptor::APPLICATION_PROPERTIES,
        "amqp:data:binary" => descriptor::DATA,
        "amqp:amqp-sequence:list" => descriptor::AMQP_SEQUENCE,
        "amqp:amqp-value:*" => descriptor::AMQP_VALUE,
        "amqp:footer:map" => descriptor::FOOTER,
        _ => return None,
    })
}

/// Reads the list of a composite; a null composite is an error here.
pub(crate) fn fields<'a>(
    reader: &mut crate::codec::Reader<'a>,
    name: &'static str,
) -> Result<crate::codec::List<'a>, DecodeError> {
    reader.list()?.ok_or(DecodeError::MissingField(name))
}
