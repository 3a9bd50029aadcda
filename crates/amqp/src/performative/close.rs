//! Close: the connection is over (specification section 2.7.9).

use super::Error;
use crate::codec::{DecodeError, Reader, write};

/// Closes the connection.
#[derive(Debug, Clone, PartialEq)]
pub struct Close {
    /// Why, if something went wrong.
    pub error: Option<Error>,
}

impl Close {
    /// Reads the fields, which stand behind the descriptor.
    pub fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let mut fields = super::fields(reader, "close")?;
        Ok(Self { error: fields.field(Error::decode_optional)? })
    }

    /// Appends descriptor and fields.
    pub fn encode(&self, out: &mut Vec<u8>) {
        write::descriptor(out, super::descriptor::CLOSE);
        write::list(out, 1, |out| Error::encode_optional(self.error.as_ref(), out));
    }
}
