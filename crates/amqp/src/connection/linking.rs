//! Attaching and detaching links (specification section 2.6). Cold path.

use super::error::SessionViolation;
use super::link::{Link, LinkAcceptance, LinkId, LinkOptions, LinkState};
use super::{Connection, ConnectionError, Event, SessionId};
use crate::codec::{Reader, Symbol, Value};
use crate::frame::HEADER_SIZE;
use crate::performative::{Attach, Detach, Error, ErrorCondition, Role};

impl Connection {
    /// Attaches a link through which we send. [`Event::LinkAttached`] or [`Event::LinkDetached`] follows.
    ///
    /// `None` if there is no such session, or no room for another link in it.
    pub fn attach_sender(&mut self, session: SessionId, options: LinkOptions) -> Option<LinkId> {
        self.attach(session, Role::Sender, options)
    }

    /// Attaches a link through which we receive; grant it credit at once or later.
    ///
    /// `None` if there is no such session, or no room for another link in it.
    pub fn attach_receiver(&mut self, session: SessionId, options: LinkOptions) -> Option<LinkId> {
        self.attach(session, Role::Receiver, options)
    }

    /// Accepts the link of an [`Event::LinkRequested`].
    pub fn accept_link(&mut self, link: LinkId, acceptance: LinkAcceptance) {
        let Some(state) = self.link_mut(link) else {
            return;
        };
        let Some(request) = state.request.take() else {
            return;
        };
        state.state = LinkState::Attached;
        if state.role == Role::Receiver {
            state.max_message_size = acceptance.max_message_size.filter(|size| *size > 0).unwrap_or(u64::MAX);
        }
        let request = *request;
        let reply = Attach {
            handle: state.handle,
            role: state.role,
            initial_delivery_count: (state.role == Role::Sender).then_some(0),
            max_message_size: acceptance.max_message_size,
            offered_capabilities: acceptance.offered_capabilities,
            desired_capabilities: Vec::new(),
            properties: acceptance.properties,
            source: acceptance.source.or(request.source),
            target: acceptance.target.or(request.target),
            ..request
        };
        let (channel, credit) = (state.channel, state.credit);
        self.write_attach_reply(channel, reply, request.properties);
        if credit > 0 {
            // Credit granted before was not announced: the peer did not know the link yet.
            self.owe_link_flow(link.index);
        }
    }

    /// Refuses the link of an [`Event::LinkRequested`]: an attach without source and target, then a detach with
    /// the error. The link's id is gone.
    pub fn refuse_link(&mut self, link: LinkId, error: Error) {
        if self.link(link).is_some_and(|state| state.state == LinkState::Requested) {
            self.detach_link(link, Some(error));
        }
    }

    /// Closes a link; one that is not decided on is refused. What the peer still sends on it is discarded;
    /// [`Event::LinkDetached`] follows when it has answered.
    pub fn detach_link(&mut self, link: LinkId, error: Option<Error>) {
        let Some(state) = self.link_mut(link) else {
            return;
        };
        if state.state == LinkState::DetachSent {
            return;
        }
        self.write_refusal(link.index);
        let Some(state) = self.link_mut(link) else {
            return;
        };
        state.state = LinkState::DetachSent;
        state.partial = None;
        if state.remote_handle.is_some() {
            // The peer knows it by its handle from here on, and may take for ever to answer.
            state.name = String::new();
        }
        let (channel, handle) = (state.channel, state.handle);
        self.flush_dispositions(channel);
        if let Some(session) = self.session_mut(channel)
            && session.waiting.as_ref().is_some_and(|waiting| waiting.link == link.index)
        {
            session.waiting = None;
        }
        let detach = Detach { handle, closed: true, error };
        self.write_on(channel, |out| detach.encode(out));
    }

    /// Answers a request that is not decided on with an attach to nothing: the peer must have seen our handle before
    /// the detach that refers to it.
    fn write_refusal(&mut self, index: u32) {
        let Some(state) = self.links[index as usize].as_mut() else {
            return;
        };
        let Some(mut request) = state.request.take() else {
            return;
        };
        let asked = std::mem::take(&mut request.properties);
        let reply = Attach {
            handle: state.handle,
            role: state.role,
            source: None,
            target: None,
            initial_delivery_count: (state.role == Role::Sender).then_some(0),
            offered_capabilities: Vec::new(),
            desired_capabilities: Vec::new(),
            properties: Vec::new(),
            ..*request
        };
        let channel = state.channel;
        self.write_attach_reply(channel, reply, asked);
    }

    /// Writes the answer to an attach, with the link properties that were `asked` for beside those that it has, if they fit
    /// into a frame of the peer.
    fn write_attach_reply(&mut self, channel: u16, mut reply: Attach, asked: Vec<(Symbol, Value)>) {
        let own = reply.properties.len();
        let echoed = asked.into_iter().filter(|(name, _)| reply.property(name.as_str()).is_none());
        let echoed: Vec<_> = echoed.collect();
        reply.properties.extend(echoed);
        let mut performative = Vec::new();
        reply.encode(&mut performative);
        if performative.len() + HEADER_SIZE > self.remote_max_frame_size as usize {
            reply.properties.truncate(own);
        }
        self.write_on(channel, |out| reply.encode(out));
    }

    /// Whether a link is attached at both ends.
    pub fn is_attached(&self, link: LinkId) -> bool {
        self.link(link).is_some_and(|state| state.state == LinkState::Attached)
    }

    /// The session of a link.
    pub fn session_of(&self, link: LinkId) -> Option<SessionId> {
        self.link(link).map(|state| SessionId(state.channel))
    }

    /// The name of a link, by which both ends know it.
    pub fn link_name(&self, link: LinkId) -> Option<&str> {
        self.link(link).map(|state| state.name.as_str())
    }

    pub(super) fn link(&self, link: LinkId) -> Option<&Link> {
        self.links.get(link.index as usize)?.as_deref().filter(|state| state.generation == link.generation)
    }

    pub(super) fn link_mut(&mut self, link: LinkId) -> Option<&mut Link> {
        self.links
            .get_mut(link.index as usize)?
            .as_deref_mut()
            .filter(|state| state.generation == link.generation)
    }

    /// Whether a session has room for another link: both ends bound its handles, and we bound the links of all sessions. Until the
    /// peer has answered the begin, it is expected to take as many handles as in the session that it answered last.
    pub fn has_room(&self, session: SessionId) -> bool {
        let Some(state) = self.sessions.get(usize::from(session.0)).and_then(Option::as_ref) else {
            return false;
        };
        // The peer answers each of our links with one of its own handles.
        let handle_max = state.remote_handle_max.min(self.config.handle_max);
        self.takes_commands()
            && !state.end_sent
            && state.free_handle() <= handle_max as usize
            && self.links_free() > 0
    }

    /// Returns the number of links that we allow beyond those that there are, over all sessions.
    pub fn links_free(&self) -> usize {
        self.config.links_max.saturating_sub(self.links.len() - self.free_links.len())
    }

    fn attach(&mut self, session: SessionId, role: Role, options: LinkOptions) -> Option<LinkId> {
        if !self.has_room(session) {
            return None;
        }
        let link = self.new_link(session.0, role, options.name.clone(), LinkState::AttachSent)?;
        let handle = self.link(link)?.handle;
        if let Some(state) = self.link_mut(link)
            && role == Role::Receiver
        {
            state.max_message_size = options.max_message_size.filter(|size| *size > 0).unwrap_or(u64::MAX);
        }
        let attach = Attach {
            name: options.name,
            handle,
            role,
            sender_settle_mode: options.sender_settle_mode,
            receiver_settle_mode: options.receiver_settle_mode,
            source: Some(options.source),
            target: Some(options.target),
            initial_delivery_count: (role == Role::Sender).then_some(0),
            max_message_size: options.max_message_size,
            offered_capabilities: Vec::new(),
            desired_capabilities: options.desired_capabilities,
            properties: options.properties,
        };
        self.write_on(session.0, |out| attach.encode(out));
        Some(link)
    }

    pub(super) fn on_attach(&mut self, channel: u16, reader: &mut Reader<'_>) -> Result<(), ConnectionError> {
        let local = self.local_channel(channel)?;
        let attach = Attach::decode(reader)?;
        if attach.name.len() > LINK_NAME_MAX {
            return Err(ConnectionError::LongLinkName { length: attach.name.len(), maximum: LINK_NAME_MAX });
        }
        if attach.handle > self.config.handle_max {
            return Err(ConnectionError::NumberTooLarge {
                what: "handle",
                number: attach.handle.into(),
                maximum: self.config.handle_max.into(),
            });
        }
        if self.session_mut(local).is_none_or(|session| session.end_sent) {
            return Ok(());
        }
        if self.link_of_handle(local, attach.handle).is_some() {
            self.violate(local, SessionViolation::HandleInUse(attach.handle));
            return Ok(());
        }
        match self.find_link(local, &attach.name, attach.role.opposite()) {
            Some(index)
                if self.links[index as usize].as_ref().is_some_and(|link| link.remote_handle.is_none()) =>
            {
                self.on_attach_reply(local, index, attach);
                Ok(())
            }
            existing => {
                if let Some(index) = existing {
                    self.steal(index);
                }
                self.on_attach_request(local, attach)
            }
        }
    }

    fn on_attach_reply(&mut self, local: u16, index: u32, attach: Attach) {
        self.map_remote_handle(local, attach.handle, index);
        let Some(link) = self.links[index as usize].as_mut() else {
            return;
        };
        link.remote_handle = Some(attach.handle);
        if link.state == LinkState::DetachSent {
            return;
        }
        // The end that matters to us comes back null where the peer refuses; its detach says why.
        let refused = match link.role {
            Role::Sender => attach.target.is_none(),
            Role::Receiver => attach.source.is_none(),
        };
        if refused {
            link.state = LinkState::Refused;
            return;
        }
        link.state = LinkState::Attached;
        if link.role == Role::Receiver {
            link.count_from(attach.initial_delivery_count.unwrap_or(0));
        }
        let owes_credit = link.role == Role::Receiver && link.credit > 0;
        let link = LinkId { index, generation: link.generation };
        if owes_credit {
            // Credit granted before the count was known was counted from zero.
            self.owe_link_flow(index);
        }
        self.push(Event::LinkAttached { link, attach: Box::new(attach) });
    }

    fn on_attach_request(&mut self, local: u16, attach: Attach) -> Result<(), ConnectionError> {
        let role = attach.role.opposite();
        let Some(link) = self.new_link(local, role, attach.name.clone(), LinkState::Requested) else {
            return Err(ConnectionError::TooManyLinks(self.config.links_max));
        };
        self.map_remote_handle(local, attach.handle, link.index);
        if let Some(state) = self.link_mut(link) {
            state.remote_handle = Some(attach.handle);
            if role == Role::Receiver {
                state.count_from(attach.initial_delivery_count.unwrap_or(0));
            }
            state.request = Some(Box::new(attach.clone()));
        }
        self.push(Event::LinkRequested { link, session: SessionId(local), attach: Box::new(attach) });
        Ok(())
    }

    /// A second attach under the name of a live link takes it over.
    fn steal(&mut self, index: u32) {
        let Some(link) = self.links[index as usize].as_ref() else {
            return;
        };
        let id = LinkId { index, generation: link.generation };
        if link.state == LinkState::DetachSent {
            return;
        }
        let name = link.name.clone();
        self.detach_link(
            id,
            Some(Error::new(
                ErrorCondition::STOLEN,
                format!("link '{name}' was attached again on this session"),
            )),
        );
    }

    pub(super) fn on_detach(&mut self, channel: u16, reader: &mut Reader<'_>) -> Result<(), ConnectionError> {
        let local = self.local_channel(channel)?;
        let detach = Detach::decode(reader)?;
        if self.session_mut(local).is_none_or(|session| session.end_sent) {
            return Ok(());
        }
        let Some(index) = self.link_of_handle(local, detach.handle) else {
            // fe2o3 detaches a refused link twice, and a peer whose detach crossed ours may answer ours all the same:
            // not worth the session.
            return Ok(());
        };
        let Some(link) = self.links[index as usize].as_ref() else {
            return Ok(());
        };
        let id = LinkId { index, generation: link.generation };
        if link.state != LinkState::DetachSent {
            let reply = Detach { handle: link.handle, closed: detach.closed, error: None };
            self.write_refusal(index);
            self.flush_dispositions(local);
            self.write_on(local, |out| reply.encode(out));
        }
        self.remove_link(index);
        self.push(Event::LinkDetached { link: id, error: detach.error });
        Ok(())
    }

    fn new_link(&mut self, local: u16, role: Role, name: String, state: LinkState) -> Option<LinkId> {
        if self.links_free() == 0 {
            return None;
        }
        let index = self.free_links.pop().unwrap_or(self.links.len() as u32);
        let generation = self.next_generation;
        self.next_generation = self.next_generation.wrapping_add(1);
        let session = self.session_mut(local)?;
        let handle = session.free_handle();
        if handle == session.local_handles.len() {
            session.local_handles.push(None);
        }
        session.local_handles[handle] = Some(index);
        let link = Box::new(Link {
            generation,
            name,
            role,
            channel: local,
            handle: handle as u32,
            remote_handle: None,
            state,
            delivery_count: 0,
            credit: 0,
            credit_limit: 0,
            drain: false,
            flow_due: false,
            max_message_size: u64::MAX,
            partial: None,
            request: None,
        });
        match self.links.get_mut(index as usize) {
            Some(slot) => *slot = Some(link),
            None => self.links.push(Some(link)),
        }
        Some(LinkId { index, generation })
    }

    pub(super) fn remove_link(&mut self, index: u32) {
        let Some(link) = self.links[index as usize].take() else {
            return;
        };
        self.free_links.push(index);
        if link.flow_due {
            self.dirty_links.retain(|dirty| *dirty != index);
        }
        let Some(session) = self.session_mut(link.channel) else {
            return;
        };
        session.local_handles[link.handle as usize] = None;
        if let Some(handle) = link.remote_handle {
            session.remote_handles[handle as usize] = None;
        }
        if link.role == Role::Sender {
            session.unsettled.retain(|link| *link != index);
        }
        if session.waiting.as_ref().is_some_and(|waiting| waiting.link == index) {
            session.waiting = None;
        }
    }

    fn map_remote_handle(&mut self, local: u16, handle: u32, index: u32) {
        let Some(session) = self.session_mut(local) else {
            return;
        };
        let handle = handle as usize;
        if session.remote_handles.len() <= handle {
            session.remote_handles.resize(handle + 1, None);
        }
        session.remote_handles[handle] = Some(index);
    }

    /// The link of that name and role that an attach of the peer can mean: the oldest that it has not answered, or one
    /// that is in use.
    fn find_link(&self, local: u16, name: &str, role: Role) -> Option<u32> {
        let session = self.sessions.get(usize::from(local))?.as_ref()?;
        session
            .local_handles
            .iter()
            .copied()
            .flatten()
            .filter_map(|index| Some((index, self.links[index as usize].as_ref()?)))
            .filter(|(_, link)| link.role == role && link.name == name)
            .filter(|(_, link)| link.remote_handle.is_none() || link.state != LinkState::DetachSent)
            .min_by_key(|(_, link)| (link.remote_handle.is_some(), link.generation))
            .map(|(index, _)| index)
    }
}

/// Longest name of a link, in bytes. Clients use an identifier, or an address with an identifier behind it.
const LINK_NAME_MAX: usize = 2_048;
