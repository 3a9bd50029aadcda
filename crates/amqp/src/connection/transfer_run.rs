//! Messages of one link, one after the other. Hot path.
//!
//! Messages that a reader gets from a log or a queue are all alike: of one format, in one frame each, with tags of one length,
//! and all of them settled or none. What is the same for all of them is looked up and encoded once, and each costs a copy of
//! that with its id and tag filled in.

use bytes::Bytes;

use super::sending::Sending;
use super::{Connection, LinkId};
use crate::performative::TransferTemplate;

/// A sending link, lent out by [`Connection::transfer_run`] for as many messages as may be sent through it now.
#[derive(Debug)]
pub struct TransferRun<'a, const TAG: usize> {
    sending: Sending<'a>,
    template: TransferTemplate<TAG>,
    link: LinkId,
    settled: bool,
    sent: u32,
    /// How many messages credit and window allow in all.
    most: u32,
}

impl Connection {
    /// Starts a run of messages of `message_format` with tags of `TAG` bytes. `None` if the link cannot send now: it is gone or
    /// receives, has no credit, or the session's window is closed.
    #[inline]
    pub fn transfer_run<const TAG: usize>(
        &mut self,
        link: LinkId,
        message_format: u32,
        settled: bool,
    ) -> Option<TransferRun<'_, TAG>> {
        let sending = self.sending(link).ok()?;
        let (channel, handle) = (sending.session.channel, sending.link.handle);
        let template = TransferTemplate::new(channel, handle, message_format, settled);
        let most = sending.link.credit.min(sending.session.remote_incoming_window);
        Some(TransferRun { sending, template, link, settled, sent: 0, most })
    }
}

impl<const TAG: usize> TransferRun<'_, TAG> {
    /// Whether a message of at most `length` bytes can be sent in this run. One that is too long for a frame never can.
    #[inline]
    pub const fn takes(&self, length: usize) -> bool {
        self.sent < self.most && self.template.length() + length <= self.sending.max_frame_size
    }

    /// How many bytes wait to be sent, those of the run included.
    #[inline]
    pub const fn output_len(&self) -> usize {
        self.sending.output.len()
    }

    /// The delivery id of the next message.
    #[inline]
    pub const fn next_id(&self) -> u32 {
        self.sending.session.next_delivery_id.wrapping_add(self.sent)
    }

    /// Sends a message that [`takes`](Self::takes) has room for; `encode` appends it.
    #[inline]
    pub fn send(&mut self, tag: [u8; TAG], encode: impl FnOnce(&mut Vec<u8>)) {
        debug_assert!(self.sent < self.most, "the run was asked for room first");
        let id = self.next_id();
        self.template.encode(&mut self.sending.output.bytes, id, tag, 0, encode);
        self.sent += 1;
    }

    /// The same, of a message that ends with `shared`, which is not copied: its memory is held until it is sent.
    pub fn send_shared(&mut self, tag: [u8; TAG], encode: impl FnOnce(&mut Vec<u8>), shared: Bytes) {
        debug_assert!(self.sent < self.most, "the run was asked for room first");
        let id = self.next_id();
        self.template.encode(&mut self.sending.output.bytes, id, tag, shared.len(), encode);
        self.sending.output.share(shared);
        self.sent += 1;
    }
}

impl<const TAG: usize> Drop for TransferRun<'_, TAG> {
    fn drop(&mut self) {
        let Sending { session, link, .. } = &mut self.sending;
        if !self.settled && self.sent > 0 {
            let links = std::iter::repeat_n(self.link.index, self.sent as usize);
            session.unsettled.extend(session.next_delivery_id, links);
        }
        session.next_delivery_id = session.next_delivery_id.wrapping_add(self.sent);
        session.count_outgoing(self.sent);
        link.delivery_count = link.delivery_count.wrapping_add(self.sent);
        link.credit -= self.sent;
    }
}
