//! Flows and dispositions that are owed: put off until output is asked for, so that many become one.

use super::Connection;
use super::link::LinkState;
use super::session::Session;
use crate::performative::{Flow, Role};

impl Connection {
    /// Writes the flows and dispositions that have been put off so that they come in ranges.
    pub(super) fn write_owed(&mut self) {
        while let Some(index) = self.dirty_links.pop() {
            self.write_link_flow(index);
        }
        while let Some(local) = self.dirty_sessions.pop() {
            self.flush_dispositions(local);
            let Some(session) = self.sessions[usize::from(local)].as_mut() else {
                continue;
            };
            session.dirty = false;
            let is_asked = std::mem::take(&mut session.echo_due);
            if (session.flow_due || is_asked) && !session.end_sent {
                let flow = session.flow();
                self.write_on(local, |out| flow.encode(out));
            }
        }
    }

    /// Asks the peer for its state on a session, if there is one that both ends have begun.
    pub(super) fn write_probe(&mut self) {
        let begun = |session: &&mut Box<Session>| session.remote_channel.is_some() && !session.end_sent;
        if let Some(session) = self.sessions.iter_mut().flatten().find(begun) {
            let (local, flow) = (session.channel, Flow { echo: true, ..session.flow() });
            self.write_on(local, |out| flow.encode(out));
        }
    }

    pub(super) fn owe_session_flow(&mut self, local: u16) {
        if let Some(session) = self.session_mut(local) {
            session.echo_due = true;
            self.mark_dirty(local);
        }
    }

    pub(super) fn owe_link_flow(&mut self, index: u32) {
        if let Some(link) = self.links[index as usize].as_mut()
            && !link.flow_due
        {
            link.flow_due = true;
            self.dirty_links.push(index);
        }
    }

    pub(super) fn mark_dirty(&mut self, local: u16) {
        if let Some(session) = self.sessions.get_mut(usize::from(local)).and_then(Option::as_mut)
            && !session.dirty
        {
            session.dirty = true;
            self.dirty_sessions.push(local);
        }
    }

    pub(super) fn write_link_flow(&mut self, index: u32) {
        let Some(link) = self.links[index as usize].as_mut() else {
            return;
        };
        link.flow_due = false;
        if !matches!(link.state, LinkState::Attached | LinkState::AttachSent) {
            return;
        }
        let Some(session) = self.sessions[usize::from(link.channel)].as_mut() else {
            return;
        };
        if session.end_sent {
            return;
        }
        let flow = Flow {
            handle: Some(link.handle),
            // A receiver that has not seen the sender's attach does not know the count yet.
            delivery_count: Some(link.delivery_count)
                .filter(|_| link.role == Role::Sender || link.remote_handle.is_some()),
            link_credit: Some(link.credit),
            drain: link.drain,
            ..session.flow()
        };
        let channel = session.channel;
        self.write_on(channel, |out| flow.encode(out));
    }

    pub(super) fn flush_dispositions(&mut self, local: u16) {
        let Some(session) = self.session_mut(local) else {
            return;
        };
        let pending = [session.pending_outcomes.take(), session.pending_answers.take()];
        // Nothing is written on a session that has ended.
        for disposition in pending.into_iter().flatten() {
            self.write_on(local, |out| disposition.encode(out));
        }
    }
}
