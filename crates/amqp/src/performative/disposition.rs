//! Disposition: outcomes and settlement of a range of deliveries (specification section 2.7.6).

use super::{DeliveryState, Role};
use crate::codec::{DecodeError, Reader, write};

/// Tells the state of the deliveries from `first` to `last`, both included.
#[derive(Debug, Clone, PartialEq)]
pub struct Disposition {
    /// The role of the sender of this: [`Role::Receiver`] for outcomes of deliveries that it got.
    pub role: Role,
    /// First delivery id.
    pub first: u32,
    /// Last delivery id.
    pub last: u32,
    /// Whether the sender of this has forgotten the deliveries.
    pub settled: bool,
    /// Their state.
    pub state: Option<DeliveryState>,
}

impl Disposition {
    /// Reads the fields, which stand behind the descriptor.
    pub fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let mut fields = super::fields(reader, "disposition")?;
        let role = Role::from_wire(fields.required("disposition.role", Reader::boolean)?);
        let first = fields.required("disposition.first", Reader::uint)?;
        let last = fields.field(Reader::uint)?.unwrap_or(first);
        let settled = fields.field(Reader::boolean)?.unwrap_or(false);
        let state = fields.field(DeliveryState::decode_optional)?;
        Ok(Self { role, first, last, settled, state })
    }

    /// Appends descriptor and fields.
    pub fn encode(&self, out: &mut Vec<u8>) {
        write::descriptor(out, super::descriptor::DISPOSITION);
        write::list(out, 6, |out| {
            write::boolean(out, self.role.to_wire());
            write::uint(out, self.first);
            write::uint(out, self.last);
            write::boolean(out, self.settled);
            write::option(out, self.state.as_ref(), |out, state| state.encode(out));
            write::null(out);
        });
    }
}
