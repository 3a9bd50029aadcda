//! Beginning and ending sessions, and the flows that come for them and their links (specification section 2.5).

use super::error::SessionViolation;
use super::link::{LinkId, LinkState};
use super::session::Session;
use super::{Connection, ConnectionError, Event, SessionId};
use crate::frame;
use crate::performative::{Begin, End, Error, Flow, Role};

impl Connection {
    /// Begins a session. Links may be attached before the peer has answered.
    ///
    /// `None` if the connection is not open or the peer takes no further session. A client may begin its first one as soon as it
    /// [has said open](Connection::has_sent_open).
    pub fn begin_session(&mut self) -> Option<SessionId> {
        if !self.takes_commands() {
            return None;
        }
        let channel = self.free_channel()?;
        let mut session = Session::new(channel, self.config.incoming_window);
        session.remote_handle_max = self.expected_handle_max;
        self.write_begin(&session);
        self.put_session(session);
        Some(SessionId(channel))
    }

    /// Ends a session and all its links. [`Event::SessionEnded`] follows when the peer has answered.
    pub fn end_session(&mut self, session: SessionId, error: Option<Error>) {
        self.flush_dispositions(session.0);
        let Some(state) = self.session_mut(session.0) else {
            return;
        };
        if state.end_sent {
            return;
        }
        state.end_reason.clone_from(&error);
        self.write_on(session.0, |out| End { error }.encode(out));
        if let Some(state) = self.session_mut(session.0) {
            state.end_sent = true;
            state.waiting = None;
        }
    }

    pub(super) fn on_begin(&mut self, channel: u16, begin: &Begin) -> Result<(), ConnectionError> {
        if channel > self.config.channel_max {
            return Err(ConnectionError::NumberTooLarge {
                what: "channel",
                number: channel.into(),
                maximum: self.config.channel_max.into(),
            });
        }
        if self.channels.get(usize::from(channel)).copied().flatten().is_some() {
            return Err(ConnectionError::InvalidBegin(channel));
        }
        let local = match begin.remote_channel {
            Some(local) => match self.session_mut(local) {
                Some(session) if session.remote_channel.is_none() => {
                    session.on_begin(channel, begin);
                    local
                }
                _ => return Err(ConnectionError::InvalidBegin(channel)),
            },
            None => {
                let local = self.free_channel().ok_or(ConnectionError::InvalidBegin(channel))?;
                let mut session = Session::new(local, self.config.incoming_window);
                session.on_begin(channel, begin);
                self.write_begin(&session);
                self.put_session(session);
                local
            }
        };
        self.expected_handle_max = begin.handle_max;
        let index = usize::from(channel);
        if self.channels.len() <= index {
            self.channels.resize(index + 1, None);
        }
        self.channels[index] = Some(local);
        self.push(Event::SessionBegan(SessionId(local)));
        if self.config.probe_after.is_some() && self.probe.begin() {
            self.write_probe();
        }
        Ok(())
    }

    pub(super) fn on_end(&mut self, channel: u16, end: End) -> Result<(), ConnectionError> {
        let local = self.local_channel(channel)?;
        let Some(session) = self.session_mut(local) else {
            return Ok(());
        };
        let reason = session.end_reason.take();
        self.write_on(local, |out| End { error: None }.encode(out));
        self.channels[usize::from(channel)] = None;
        self.sessions[usize::from(local)] = None;
        for index in 0..self.links.len() {
            if self.links[index].as_ref().is_some_and(|link| link.channel == local) {
                self.remove_link(index as u32);
            }
        }
        self.push(Event::SessionEnded { session: SessionId(local), error: end.error.or(reason) });
        Ok(())
    }

    pub(super) fn on_flow(&mut self, channel: u16, flow: &Flow) -> Result<(), ConnectionError> {
        let local = self.local_channel(channel)?;
        let Some(session) = self.sessions[usize::from(local)].as_mut() else {
            return Ok(());
        };
        if session.end_sent {
            return Ok(());
        }
        let opened = session.on_flow(flow);
        let sent = session.waiting.is_some() && self.send_waiting(local);
        if opened || sent {
            self.push(Event::WindowOpen(SessionId(local)));
        }
        match flow.handle {
            Some(handle) => self.on_link_flow(local, handle, flow),
            None => {
                if flow.echo {
                    self.owe_session_flow(local);
                } else if self.probe.take_session_flow() {
                    self.write_probe();
                }
                Ok(())
            }
        }
    }

    pub(super) fn on_link_flow(
        &mut self,
        local: u16,
        handle: u32,
        flow: &Flow,
    ) -> Result<(), ConnectionError> {
        let Some(index) = self.link_of_handle(local, handle) else {
            self.violate(local, SessionViolation::UnattachedHandle(handle));
            return Ok(());
        };
        let Some(link) = self.links[index as usize].as_mut() else {
            return Ok(());
        };
        let id = LinkId { index, generation: link.generation };
        if link.state.is_ending() {
            return Ok(());
        }
        let mut event = None;
        match link.role {
            Role::Sender => {
                if let Some(link_credit) = flow.link_credit {
                    let counted = flow.delivery_count.unwrap_or(0);
                    let in_flight = link.delivery_count.wrapping_sub(counted);
                    let credit = link_credit.saturating_sub(in_flight);
                    let had = std::mem::replace(&mut link.credit, credit);
                    link.drain = flow.drain;
                    if flow.drain {
                        event = Some(Event::DrainRequested(id));
                    } else if credit > had {
                        event = Some(Event::Credit(id));
                    }
                }
            }
            Role::Receiver => {
                if let Some(delivery_count) = flow.delivery_count {
                    link.skip_to(delivery_count);
                }
                if link.drain && link.credit == 0 {
                    link.drain = false;
                    event = Some(Event::Drained(id));
                }
            }
        }
        if flow.echo && matches!(link.state, LinkState::Attached | LinkState::AttachSent) {
            self.owe_link_flow(index);
        }
        if let Some(event) = event {
            self.push(event);
        }
        Ok(())
    }

    /// Ends a session because of what the peer did on it.
    pub(super) fn violate(&mut self, local: u16, violation: SessionViolation) {
        self.end_session(SessionId(local), Some(violation.to_wire()));
    }

    pub(super) fn free_channel(&self) -> Option<u16> {
        let most = self.config.channel_max.min(self.remote_channel_max);
        let free = self.sessions.iter().position(Option::is_none).unwrap_or(self.sessions.len());
        u16::try_from(free).ok().filter(|channel| *channel <= most)
    }

    pub(super) fn put_session(&mut self, session: Session) {
        let index = usize::from(session.channel);
        if self.sessions.len() <= index {
            self.sessions.resize_with(index + 1, || None);
        }
        self.sessions[index] = Some(Box::new(session));
    }

    pub(super) fn write_begin(&mut self, session: &Session) {
        let begin = session.begin(self.config.handle_max);
        frame::write_frame(&mut self.output.bytes, frame::TYPE_AMQP, session.channel, |out| {
            begin.encode(out)
        });
    }
}
