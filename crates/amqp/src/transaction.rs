//! Transactions (specification part 4): their ids, and what a controller says to a coordinator.
//!
//! ```text
//!  controller                                  resource
//!    attach ─ target: coordinator ──────────────▶
//!    transfer ─ declare ────────────────────────▶
//!            ◀──────────────────── disposition ─ declared(id)
//!    transfer ─ state: transactional(id) ───────▶          a message that is sent in the transaction
//!    disposition ─ transactional(id, outcome) ──▶          an outcome that is given in it
//!    transfer ─ discharge(id, fail) ────────────▶
//!            ◀──────────────────── disposition ─ accepted, or rejected where it was rolled back
//! ```
//!
//! Requests are messages whose body is one value. Ids are at most 32 bytes long (4.5.7), so they are kept in place.

use crate::codec::{DecodeError, Reader, code, write};
use crate::message::{SectionKind, Sections};
use crate::performative::{descriptor, fields};

/// The id of a transaction, as its coordinator gave it.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct TransactionId {
    length: u8,
    bytes: [u8; Self::LENGTH_MAX],
}

/// What a controller asks of a coordinator.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CoordinatorRequest {
    /// Open a transaction; answered by [`Declared`](crate::performative::DeliveryState::Declared).
    Declare {
        /// Whether it is to be a branch of a global transaction, which few coordinators can do.
        is_global: bool,
    },
    /// End a transaction.
    Discharge {
        /// Which.
        transaction: TransactionId,
        /// Whether it is to be rolled back.
        fail: bool,
    },
}

impl TransactionId {
    /// Longest id, in bytes.
    pub const LENGTH_MAX: usize = 32;

    /// The id of these bytes; `None` if they are too many.
    pub fn new(id: &[u8]) -> Option<Self> {
        let mut bytes = [0; Self::LENGTH_MAX];
        bytes.get_mut(..id.len())?.copy_from_slice(id);
        Some(Self { length: id.len() as u8, bytes })
    }

    /// The bytes of the id.
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes[..usize::from(self.length)]
    }

    pub(crate) fn decode(reader: &mut Reader<'_>) -> Result<Option<Self>, DecodeError> {
        let Some(id) = reader.binary()? else {
            return Ok(None);
        };
        let too_long = DecodeError::InvalidValue { field: "txn-id length", value: id.len() as u64 };
        Self::new(id).map(Some).ok_or(too_long)
    }
}

impl std::fmt::Debug for TransactionId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("TransactionId(")?;
        self.as_bytes().iter().try_for_each(|byte| write!(f, "{byte:02x}"))?;
        f.write_str(")")
    }
}

impl CoordinatorRequest {
    /// Reads the request of an encoded message.
    ///
    /// # Errors
    /// The message is malformed, or its body is neither request.
    pub fn decode(message: &[u8]) -> Result<Self, DecodeError> {
        for section in Sections::new(message) {
            let section = section?;
            if section.kind == SectionKind::Value {
                return Self::decode_value(&mut Reader::new(section.value));
            }
        }
        Err(DecodeError::MissingField("amqp-value"))
    }

    fn decode_value(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        match reader.descriptor()? {
            descriptor::DECLARE => {
                let mut fields = fields(reader, "declare")?;
                let is_global = fields.remaining() > 0 && {
                    let global_id = fields.field(|reader| reader.raw().map(Some))?;
                    global_id.is_some_and(|global_id| global_id != [code::NULL])
                };
                Ok(Self::Declare { is_global })
            }
            descriptor::DISCHARGE => {
                let mut fields = fields(reader, "discharge")?;
                let transaction = fields.required("discharge.txn-id", TransactionId::decode)?;
                let fail = fields.field(Reader::boolean)?.unwrap_or(false);
                Ok(Self::Discharge { transaction, fail })
            }
            other => Err(DecodeError::UnexpectedDescriptor(other)),
        }
    }

    /// Appends a message with this request.
    pub fn encode(&self, out: &mut Vec<u8>) {
        write::descriptor(out, descriptor::AMQP_VALUE);
        match self {
            Self::Declare { is_global } => {
                debug_assert!(!is_global, "a global transaction has an id, which is not written");
                write::descriptor(out, descriptor::DECLARE);
                write::list(out, 1, write::null);
            }
            Self::Discharge { transaction, fail } => {
                write::descriptor(out, descriptor::DISCHARGE);
                write::list(out, 2, |out| {
                    write::binary(out, transaction.as_bytes());
                    write::boolean(out, *fail);
                });
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_read_in_every_form_that_the_specification_allows() {
        let id = TransactionId::new(&[1, 2, 3]).unwrap();
        let read = |bytes: &[u8]| CoordinatorRequest::decode(bytes);
        let declare = CoordinatorRequest::Declare { is_global: false };
        // amqp-value (3.2.8), declare (4.5.2): an empty list, a list of null, named by symbol.
        assert_eq!(read(b"\x00\x53\x77\x00\x53\x31\x45"), Ok(declare));
        assert_eq!(read(b"\x00\x53\x77\x00\x53\x31\xc0\x02\x01\x40"), Ok(declare));
        assert_eq!(read(b"\x00\x53\x77\x00\xa3\x11amqp:declare:list\x45"), Ok(declare));
        let global = CoordinatorRequest::Declare { is_global: true };
        assert_eq!(read(b"\x00\x53\x77\x00\x53\x31\xc0\x04\x01\xa0\x01\x07"), Ok(global));
        // discharge (4.5.3): the id alone, and with the flag; behind a header.
        let commit = CoordinatorRequest::Discharge { transaction: id, fail: false };
        assert_eq!(read(b"\x00\x53\x77\x00\x53\x32\xc0\x06\x01\xa0\x03\x01\x02\x03"), Ok(commit));
        let rollback = CoordinatorRequest::Discharge { transaction: id, fail: true };
        let bytes = b"\x00\x53\x70\x45\x00\x53\x77\x00\x53\x32\xc0\x07\x02\xa0\x03\x01\x02\x03\x41";
        assert_eq!(read(bytes), Ok(rollback));
        for request in [declare, commit, rollback] {
            let mut written = Vec::new();
            request.encode(&mut written);
            assert_eq!(read(&written), Ok(request));
            for length in 0..written.len() {
                assert!(read(&written[..length]).is_err(), "{request:?} cut at {length}");
            }
        }
    }

    #[test]
    fn what_is_no_request_is_refused() {
        let long = [&b"\x00\x53\x77\x00\x53\x32\xc0\x24\x01\xa0\x21"[..], &[7; 33]].concat();
        for bytes in [
            &b""[..],
            b"\x00\x53\x75\xa0\x00",         // a Data section
            b"\x00\x53\x77\x40",             // a value that is not described
            b"\x00\x53\x77\x00\x53\x33\x45", // declared, which is an outcome
            b"\x00\x53\x77\x00\x53\x32\x45", // a discharge of nothing
            b"\x00\x53\x77\x00\x53\x32\xc0\x02\x01\x40",
            &long,
        ] {
            assert!(CoordinatorRequest::decode(bytes).is_err(), "{bytes:?}");
        }
        assert_eq!(TransactionId::new(&[7; 33]), None);
        assert_eq!(TransactionId::new(&[7; 32]).map(|id| id.as_bytes().len()), Some(32));
    }
}
