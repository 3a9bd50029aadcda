//! Settled messages of one link, one after the other. Hot path.
//!
//! Messages that a reader gets from a log are all alike: settled, of one format, in one frame each. What is the same for all
//! of them is looked up and encoded once, and each costs a copy of that with its id and tag filled in.

use super::link::{Link, LinkId, LinkState};
use super::session::Session;
use super::{Connection, Stage};
use crate::performative::{Role, SettledTemplate};

/// A sending link, lent out by [`Connection::settled_run`] for as many messages as may be sent through it now.
#[derive(Debug)]
pub struct SettledRun<'a> {
    output: &'a mut Vec<u8>,
    /// How much of the output has been written by the driver.
    output_start: usize,
    session: &'a mut Session,
    link: &'a mut Link,
    template: SettledTemplate,
    /// Largest message that fits into one frame, in bytes.
    max_length: usize,
    sent: u32,
    /// How many messages credit and window allow in all.
    most: u32,
}

impl Connection {
    /// Starts a run of messages of `message_format`. `None` if the link cannot send now: it is gone or receives, has no credit,
    /// or the session's window is closed.
    #[inline]
    pub fn settled_run(&mut self, link: LinkId, message_format: u32) -> Option<SettledRun<'_>> {
        let is_open = self.stage == Stage::Open;
        let state = self.links.get_mut(link.index())?.as_deref_mut()?;
        if !is_open
            || state.generation != link.generation
            || state.role != Role::Sender
            || state.state != LinkState::Attached
        {
            return None;
        }
        let session = self.sessions.get_mut(usize::from(state.channel))?.as_deref_mut()?;
        let most = state.credit.min(session.remote_incoming_window);
        if session.end_sent || session.waiting.is_some() || most == 0 {
            return None;
        }
        let template = SettledTemplate::new(session.channel, state.handle, message_format);
        Some(SettledRun {
            max_length: (self.remote_max_frame_size as usize).saturating_sub(template.length()),
            output: &mut self.output,
            output_start: self.output_start,
            session,
            link: state,
            template,
            sent: 0,
            most,
        })
    }
}

impl SettledRun<'_> {
    /// Whether a message of at most `length` bytes can be sent in this run. One that is too long for a frame never can.
    #[inline]
    pub const fn takes(&self, length: usize) -> bool {
        self.sent < self.most && length <= self.max_length
    }

    /// How many bytes wait to be sent, those of the run included.
    #[inline]
    pub const fn output_len(&self) -> usize {
        self.output.len() - self.output_start
    }

    /// Sends a message that [`takes`](Self::takes) has room for; `encode` appends it.
    #[inline]
    pub fn send(&mut self, tag: [u8; 4], encode: impl FnOnce(&mut Vec<u8>)) {
        debug_assert!(self.sent < self.most, "the run was asked for room first");
        let id = self.session.next_delivery_id.wrapping_add(self.sent);
        self.template.encode(self.output, id, tag, encode);
        self.sent += 1;
    }
}

impl Drop for SettledRun<'_> {
    fn drop(&mut self) {
        self.session.next_delivery_id = self.session.next_delivery_id.wrapping_add(self.sent);
        self.session.count_outgoing(self.sent);
        self.link.delivery_count = self.link.delivery_count.wrapping_add(self.sent);
        self.link.credit -= self.sent;
    }
}
