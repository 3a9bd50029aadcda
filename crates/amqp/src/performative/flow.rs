//! Flow: session windows and link credit (specification section 2.7.4).

use crate::codec::{DecodeError, Reader, write};

/// Updates the flow state of a session, and of one of its links if a handle is given.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Flow {
    /// Next transfer id that the sender of this expects; absent before it has seen a begin.
    pub next_incoming_id: Option<u32>,
    /// Transfers that the sender of this accepts now.
    pub incoming_window: u32,
    /// Next transfer id that the sender of this assigns.
    pub next_outgoing_id: u32,
    /// Transfers that the sender of this could send.
    pub outgoing_window: u32,
    /// The link meant by the fields below.
    pub handle: Option<u32>,
    /// Deliveries sent on the link so far, as the sender of this knows it.
    pub delivery_count: Option<u32>,
    /// Deliveries that the receiver accepts beyond `delivery_count`.
    pub link_credit: Option<u32>,
    /// Messages waiting at the sender.
    pub available: Option<u32>,
    /// Use up the credit now: send what there is, then advance the delivery count.
    pub drain: bool,
    /// The peer wants a flow in return.
    pub echo: bool,
}

impl Flow {
    /// Reads the fields, which stand behind the descriptor.
    pub fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let mut fields = super::fields(reader, "flow")?;
        Ok(Self {
            next_incoming_id: fields.field(Reader::uint)?,
            incoming_window: fields.required("flow.incoming-window", Reader::uint)?,
            next_outgoing_id: fields.required("flow.next-outgoing-id", Reader::uint)?,
            outgoing_window: fields.required("flow.outgoing-window", Reader::uint)?,
            handle: fields.field(Reader::uint)?,
            delivery_count: fields.field(Reader::uint)?,
            link_credit: fields.field(Reader::uint)?,
            available: fields.field(Reader::uint)?,
            drain: fields.field(Reader::boolean)?.unwrap_or(false),
            echo: fields.field(Reader::boolean)?.unwrap_or(false),
        })
    }

    /// Appends descriptor and fields.
    pub fn encode(&self, out: &mut Vec<u8>) {
        write::descriptor(out, super::descriptor::FLOW);
        write::list(out, 11, |out| {
            write::option(out, self.next_incoming_id, write::uint);
            write::uint(out, self.incoming_window);
            write::uint(out, self.next_outgoing_id);
            write::uint(out, self.outgoing_window);
            write::option(out, self.handle, write::uint);
            write::option(out, self.delivery_count, write::uint);
            write::option(out, self.link_credit, write::uint);
            write::option(out, self.available, write::uint);
            write::boolean(out, self.drain);
            write::boolean(out, self.echo);
            write::null(out);
        });
    }
}
