//! Delivery states and outcomes (specification sections 3.4, 4.5.5 and 4.5.8).

use super::{Error, descriptor};
use crate::TransactionId;
use crate::codec::{DecodeError, Reader, Symbol, Value, code, write};

/// The state of a delivery. All are outcomes but [`DeliveryState::Received`], and [`DeliveryState::Transactional`] without one.
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
    /// The answer of a coordinator: it has opened a transaction.
    Declared(TransactionId),
    /// Part of a transaction: a message that is sent in it, or an outcome that counts if the transaction is committed.
    Transactional {
        /// The transaction.
        transaction: TransactionId,
        /// The outcome, which is itself not transactional.
        outcome: Option<Box<Self>>,
    },
}

impl DeliveryState {
    /// Whether this is final: an outcome, be it one that depends on a transaction.
    pub fn is_outcome(&self) -> bool {
        !matches!(self, Self::Received | Self::Transactional { outcome: None, .. })
    }

    /// The transaction that it is part of, if it is.
    pub fn transaction(&self) -> Option<TransactionId> {
        match self {
            Self::Transactional { transaction, .. } => Some(*transaction),
            _ => None,
        }
    }

    /// Reads a state: null, or one of those above. An unknown state is refused.
    pub(crate) fn decode_optional(reader: &mut Reader<'_>) -> Result<Option<Self>, DecodeError> {
        if reader.peek()? == code::NULL {
            reader.skip()?;
            return Ok(None);
        }
        let descriptor = reader.descriptor()?;
        if descriptor != descriptor::TRANSACTIONAL_STATE {
            return Self::decode_plain(descriptor, reader).map(Some);
        }
        let mut fields = super::fields(reader, "transactional-state")?;
        let transaction = fields.required("transactional-state.txn-id", TransactionId::decode)?;
        let outcome = fields.field(|reader| {
            if reader.peek()? == code::NULL {
                reader.skip()?;
                return Ok(None);
            }
            let descriptor = reader.descriptor()?;
            Self::decode_plain(descriptor, reader).map(Some)
        })?;
        Ok(Some(Self::Transactional { transaction, outcome: outcome.map(Box::new) }))
    }

    /// Reads a state that is part of no transaction; its descriptor has been read.
    fn decode_plain(descriptor: u64, reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let mut fields = super::fields(reader, "delivery-state")?;
        Ok(match descriptor {
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
            descriptor::DECLARED => {
                Self::Declared(fields.required("declared.txn-id", TransactionId::decode)?)
            }
            other => return Err(DecodeError::UnexpectedDescriptor(other)),
        })
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
            Self::Declared(transaction) => {
                write::descriptor(out, descriptor::DECLARED);
                write::list(out, 1, |out| write::binary(out, transaction.as_bytes()));
            }
            Self::Transactional { transaction, outcome } => {
                encode_transactional(out, transaction, outcome.as_deref());
            }
        }
    }
}

/// Appends the state of a delivery in a transaction.
pub(super) fn encode_transactional(
    out: &mut Vec<u8>,
    transaction: &TransactionId,
    outcome: Option<&DeliveryState>,
) {
    write::descriptor(out, descriptor::TRANSACTIONAL_STATE);
    write::list(out, 2, |out| {
        write::binary(out, transaction.as_bytes());
        write::option(out, outcome, |out, outcome| outcome.encode(out));
    });
}

/// `accepted` has no fields, so it is always these bytes.
pub(crate) const ACCEPTED: [u8; 4] = [code::DESCRIBED, code::SMALL_ULONG, 0x24, code::LIST_0];
