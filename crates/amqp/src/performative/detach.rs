//! Detach: a link leaves its session (specification section 2.7.7).

use super::Error;
use crate::codec::{DecodeError, Reader, write};

/// Detaches a link.
#[derive(Debug, Clone, PartialEq)]
pub struct Detach {
    /// The sender's handle of the link.
    pub handle: u32,
    /// Whether the link is closed for good.
    pub closed: bool,
    /// Why.
    pub error: Option<Error>,
}

impl Detach {
    /// Reads the fields, which stand behind the descriptor.
    pub fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let mut fields = super::fields(reader, "detach")?;
        Ok(Self {
            handle: fields.required("detach.handle", Reader::uint)?,
            closed: fields.field(Reader::boolean)?.unwrap_or(false),
            error: fields.field(Error::decode_optional)?,
        })
    }

    /// Appends descriptor and fields.
    pub fn encode(&self, out: &mut Vec<u8>) {
        write::descriptor(out, super::descriptor::DETACH);
        write::list(out, 3, |out| {
            write::uint(out, self.handle);
            write::boolean(out, self.closed);
            Error::encode_optional(self.error.as_ref(), out);
        });
    }
}
