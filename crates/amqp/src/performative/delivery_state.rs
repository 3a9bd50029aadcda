//! Delivery states and outcomes (specification section 3.4).

use super::{Error, descriptor};
use crate::codec::{DecodeError, Reader, Symbol, Value, code, write};

/// The state of a delivery. All but [`DeliveryState::Received`] are outcomes.
#[derive(Debug, Clone, PartialEq)]
pub enum DeliveryState {
    /// Part of the message has arrived: of interest to resumed links only.
    Received,
    /// Taken.
    Accepted,
    /// Invalid; sending it again would not help unless the error says so.
    Rejected(Option<Error>),
    /// Not taken and not looked at.
    Released,
    /// Not taken, with changes to be made to the message.
    Modified {
        /// Whether this counts as a failed delivery.
        delivery_failed: bool,
        /// Whether it must not come to this receiver again.
        undeliverable_here: bool,
        /// Annotations to merge into the message's.
        annotations: Vec<(Symbol, Value)>,
    },
}

impl DeliveryState {
    /// Reads a state: null, or one of those above. An unknown state is refused.
    pub(crate) fn decode_optional(reader: &mut Reader<'_>) -> Result<Option<Self>, DecodeError> {
        if reader.peek()? == code::NULL {
            reader.skip()?;
            return Ok(None);
        }
        let descriptor = reader.descriptor()?;
        let mut fields = super::fields(reader, "delivery-state")?;
        Ok(Some(match descriptor {
            descriptor::RECEIVED => Self::Received,
            descriptor::ACCEPTED => Self::Accepted,
            descriptor::REJECTED => Self::Rejected(fields.field(Error::decode_optional)?),
            descriptor::RELEASED => Self::Released,
            descriptor::MODIFIED => Self::Modified {
                delivery_failed: fields.field(Reader::boolean)?.unwrap_or(false),
                undeliverable_here: fields.field(Reader::boolean)?.unwrap_or(false),
                annotations: match fields.field(Reader::map)? {
                    Some(map) => map.fields()?,
                    None => Vec::new(),
                },
            },
            other => return Err(DecodeError::UnexpectedDescriptor(other)),
        }))
    }

    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        match self {
            Self::Received => {
                write::descriptor(out, descriptor::RECEIVED);
                write::list(out, 2, |out| {
                    write::uint(out, 0);
                    write::ulong(out, 0);
                });
            }
            Self::Accepted => out.extend_from_slice(&ACCEPTED),
            Self::Rejected(error) => {
                write::descriptor(out, descriptor::REJECTED);
                write::list(out, 1, |out| Error::encode_optional(error.as_ref(), out));
            }
            Self::Released => out.extend_from_slice(&[0x00, 0x53, 0x26, code::LIST_0]),
            Self::Modified { delivery_failed, undeliverable_here, annotations } => {
                write::descriptor(out, descriptor::MODIFIED);
                write::list(out, 3, |out| {
                    write::boolean(out, *delivery_failed);
                    write::boolean(out, *undeliverable_here);
                    write::fields(out, annotations);
                });
            }
        }
    }
}

/// `accepted` has no fields, so it is always these bytes.
pub(crate) const ACCEPTED: [u8; 4] = [code::DESCRIBED, code::SMALL_ULONG, 0x24, code::LIST_0];
