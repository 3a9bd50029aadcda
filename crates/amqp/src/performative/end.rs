//! End: a session is over (specification section 2.7.8).

use super::Error;
use crate::codec::{DecodeError, Reader, write};

/// Ends a session.
#[derive(Debug, Clone, PartialEq)]
pub struct End {
    /// Why, if something went wrong.
    pub error: Option<Error>,
}

impl End {
    /// Reads the fields, which stand behind the descriptor.
    pub fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let mut fields = super::fields(reader, "end")?;
        Ok(Self { error: fields.field(Error::decode_optional)? })
    }

    /// Appends descriptor and fields.
    pub fn encode(&self, out: &mut Vec<u8>) {
        write::descriptor(out, super::descriptor::END);
        write::list(out, 1, |out| Error::encode_optional(self.error.as_ref(), out));
    }
}
