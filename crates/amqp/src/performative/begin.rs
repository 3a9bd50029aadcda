//! Begin: a session on a channel (specification section 2.7.2).

use crate::codec::{DecodeError, Reader, write};

/// Starts a session. Capabilities and properties are skipped: nothing defines any that we need.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Begin {
    /// The channel of the peer whose begin this answers; `None` in a first begin.
    pub remote_channel: Option<u16>,
    /// Transfer id of the first transfer that the sender of this will send.
    pub next_outgoing_id: u32,
    /// Transfers that the sender of this accepts now.
    pub incoming_window: u32,
    /// Transfers that the sender of this could send.
    pub outgoing_window: u32,
    /// Highest link handle.
    pub handle_max: u32,
}

impl Begin {
    /// Reads the fields, which stand behind the descriptor.
    pub fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let mut fields = super::fields(reader, "begin")?;
        Ok(Self {
            remote_channel: fields.field(Reader::ushort)?,
            next_outgoing_id: fields.required("begin.next-outgoing-id", Reader::uint)?,
            incoming_window: fields.required("begin.incoming-window", Reader::uint)?,
            outgoing_window: fields.required("begin.outgoing-window", Reader::uint)?,
            handle_max: fields.field(Reader::uint)?.unwrap_or(u32::MAX),
        })
    }

    /// Appends descriptor and fields.
    pub fn encode(&self, out: &mut Vec<u8>) {
        write::descriptor(out, super::descriptor::BEGIN);
        write::list(out, 8, |out| {
            write::option(out, self.remote_channel, write::ushort);
            write::uint(out, self.next_outgoing_id);
            write::uint(out, self.incoming_window);
            write::uint(out, self.outgoing_window);
            write::uint(out, self.handle_max);
            for _ in 0..3 {
                write::null(out);
            }
        });
    }
}
