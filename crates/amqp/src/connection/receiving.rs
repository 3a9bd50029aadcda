//! Transfers in and their outcomes out. Hot path.
//!
//! A message that comes in one frame is reported as a range of the input buffer;
//! only one that spans frames is put together in a buffer of its own. One that
//! exceeds the link's maximum message size is read to its end without being
//! held, and rejected.

use bytes::Bytes;

use super::error::SessionViolation;
use super::link::LinkId;
use super::partial::{PartialDelivery, Refusal};
use super::{Connection, ConnectionError, CreditOverrun, Deliveries, Delivery, Event, SessionId, Stage};
use crate::TransactionId;
use crate::codec::{DecodeError, Reader};
use crate::performative::{
    DeliveryState, Error, ErrorCondition, FrameShape, Role, TAG_MAX, Transfer, WholeTransfer,
};

impl Connection {
    /// Sets the credit of a receiving link: how many deliveries may come from now on. It is announced with the
    /// next output.
    pub fn set_credit(&mut self, link: LinkId, credit: u32) {
        let Some(state) = self.link_mut(link) else {
            return;
        };
        if state.role == Role::Receiver {
            state.grant(credit);
            state.drain = false;
            self.owe_link_flow(link.index);
        }
    }

    /// The credit that a link has left: deliveries that may still come, or be sent.
    pub fn credit(&self, link: LinkId) -> u32 {
        self.link(link).map_or(0, |state| state.credit)
    }

    /// Asks the sender to use up the credit now; [`Event::Drained`] follows.
    pub fn drain(&mut self, link: LinkId) {
        let Some(state) = self.link_mut(link) else {
            return;
        };
        if state.role == Role::Receiver {
            state.drain = true;
            self.owe_link_flow(link.index);
        }
    }

    /// Gives the outcome of the received deliveries from `first` to `last` and settles them. Consecutive calls
    /// with consecutive ids become one frame.
    #[inline]
    pub fn settle(&mut self, session: SessionId, first: u32, last: u32, outcome: DeliveryState) {
        self.dispose(Role::Receiver, session, first, last, outcome, true);
    }

    /// Writes down the outcomes given so far on a session, so that they precede what is sent next.
    pub fn write_outcomes(&mut self, session: SessionId) {
        self.flush_dispositions(session.0);
    }

    /// Gives an outcome without settling, for links whose receiver settles second; [`Event::SettledBySender`]
    /// follows.
    pub fn propose_outcome(&mut self, session: SessionId, first: u32, last: u32, outcome: DeliveryState) {
        self.dispose(Role::Receiver, session, first, last, outcome, false);
    }

    #[inline]
    pub(super) fn dispose(
        &mut self,
        role: Role,
        session: SessionId,
        first: u32,
        last: u32,
        outcome: DeliveryState,
        settled: bool,
    ) {
        let Some(state) = self.sessions.get_mut(usize::from(session.0)).and_then(Option::as_mut) else {
            return;
        };
        let finished = state.dispose(role, first, last, outcome, settled);
        if !state.dirty {
            state.dirty = true;
            self.dirty_sessions.push(session.0);
        }
        if let Some(finished) = finished {
            self.write_on(session.0, |out| finished.encode(out));
        }
    }

    /// Takes the frames of `chunk` from `at` on, as long as each has a whole message for the same link and nothing stands in
    /// its way, and returns where it stopped: `at` where the first one is not such a frame. What every message of a link
    /// would find the same is looked at once for all of them.
    #[inline]
    pub(super) fn take_run(&mut self, chunk: &[u8], at: usize) -> usize {
        let Some(first) = WholeTransfer::read(&chunk[at..]) else {
            return at;
        };
        let Some(Some(local)) = self.channels.get(usize::from(first.channel)).copied() else {
            return at;
        };
        let Some(session) = self.sessions[usize::from(local)].as_mut() else {
            return at;
        };
        let Some(&Some(index)) = session.remote_handles.get(first.handle as usize) else {
            return at;
        };
        let Some(link) = self.links[index as usize].as_mut() else {
            return at;
        };
        let takes = self.stage == Stage::Open
            && !session.end_sent
            && link.role == Role::Receiver
            && !link.state.is_ending()
            && link.partial.is_none();
        let most = session.incoming_window().min(link.credit);
        if !takes || most == 0 {
            return at;
        }
        let id = LinkId { index, generation: link.generation };
        let shape = FrameShape::of(&chunk[at..], &first);
        let delivery_of = |frame_at: usize, transfer: &WholeTransfer<'_>| Delivery {
            link: id,
            id: transfer.delivery_id,
            format: transfer.message_format,
            start: (frame_at + transfer.size - transfer.payload.len()) as u32,
            end: (frame_at + transfer.size) as u32,
            tag_start: offset_in(chunk, transfer.delivery_tag),
            tag_length: transfer.delivery_tag.len() as u8,
            settled: transfer.settled,
        };
        let of_shape = delivery_of(at, &first);
        let mut delivery = of_shape;
        let (mut next, mut count) = (at, 0);
        while u64::from(delivery.end - delivery.start) <= link.max_message_size {
            self.deliveries.items.push(delivery);
            next = delivery.end as usize;
            count += 1;
            if count == most {
                break;
            }
            let rest = &chunk[next..];
            if let Some(frame) = shape.as_ref().and_then(|shape| shape.read(rest)) {
                // The frame before may have been of another shape: of another format, or with another tag.
                delivery = Delivery {
                    id: frame.delivery_id,
                    start: (next + frame.payload_at) as u32,
                    end: (next + frame.size) as u32,
                    tag_start: (next + frame.tag_at) as u32,
                    ..of_shape
                };
                continue;
            }
            let same_link =
                |other: &WholeTransfer<'_>| (other.channel, other.handle) == (first.channel, first.handle);
            let Some(other) = WholeTransfer::read(rest).filter(same_link) else {
                break;
            };
            delivery = delivery_of(next, &other);
        }
        link.credit -= count;
        link.delivery_count = link.delivery_count.wrapping_add(count);
        let is_within = session.on_transfers(count).is_ok();
        debug_assert!(is_within, "the window was asked first");
        if session.flow_due && !session.dirty {
            session.dirty = true;
            self.dirty_sessions.push(local);
        }
        next
    }

    /// A transfer frame that ends at `end` of `chunk`; `reader` stands behind its descriptor.
    pub(super) fn on_transfer(
        &mut self,
        channel: u16,
        chunk: &[u8],
        end: usize,
        reader: &mut Reader<'_>,
    ) -> Result<(), ConnectionError> {
        let transfer = Transfer::decode(reader)?;
        let local = self.local_channel(channel)?;
        let Some(session) = self.sessions[usize::from(local)].as_mut() else {
            return Ok(());
        };
        if session.end_sent {
            return Ok(());
        }
        if session.on_transfers(1).is_err() {
            self.violate(local, SessionViolation::Window);
            return Ok(());
        }
        if session.flow_due && !session.dirty {
            session.dirty = true;
            self.dirty_sessions.push(local);
        }
        let Some(index) = session.remote_handles.get(transfer.handle as usize).copied().flatten() else {
            self.violate(local, SessionViolation::UnattachedHandle(transfer.handle));
            return Ok(());
        };
        let Some(link) = self.links[index as usize].as_mut() else {
            return Ok(());
        };
        if link.role != Role::Receiver {
            self.violate(local, SessionViolation::WrongRole);
            return Ok(());
        }
        if link.state.is_ending() {
            return Ok(());
        }
        let start = end - reader.rest().len();
        let first = link.partial.is_none();
        if first {
            if link.credit == 0 && self.config.credit_overrun == CreditOverrun::Detach && link.is_overrun() {
                let link = LinkId { index, generation: link.generation };
                self.refuse_overrun(link);
                return Ok(());
            }
            link.credit = link.credit.saturating_sub(1);
            link.delivery_count = link.delivery_count.wrapping_add(1);
        }
        if first && !transfer.more && !transfer.aborted {
            let Some(id) = transfer.delivery_id else {
                self.violate(local, SessionViolation::NoDeliveryId);
                return Ok(());
            };
            let (tag_start, tag_length) = match transfer.delivery_tag {
                Some(tag) => (offset_in(chunk, tag), tag_length(tag)?),
                None => (0, 0),
            };
            let settled = transfer.settled.unwrap_or(false);
            if (end - start) as u64 > link.max_message_size {
                self.reject_too_large(local, index, id, (end - start) as u64, settled);
                return Ok(());
            }
            if let Some(transaction) = transfer.transaction {
                let place = self.deliveries.items.len() as u32;
                self.deliveries.transactions.push((place, transaction));
            }
            self.deliveries.items.push(Delivery {
                link: LinkId { index, generation: link.generation },
                id,
                format: transfer.message_format.unwrap_or(0),
                start: start as u32,
                end: end as u32,
                tag_start,
                tag_length,
                settled,
            });
            return Ok(());
        }
        self.on_partial(local, index, &transfer, &chunk[start..end])
    }

    #[cold]
    fn on_partial(
        &mut self,
        local: u16,
        index: u32,
        transfer: &Transfer<'_>,
        payload: &[u8],
    ) -> Result<(), ConnectionError> {
        let Some(link) = self.links[index as usize].as_mut() else {
            return Ok(());
        };
        if transfer.aborted {
            link.partial = None;
            return Ok(());
        }
        let partial = match &mut link.partial {
            Some(partial) => partial,
            none => {
                let Some(id) = transfer.delivery_id else {
                    self.violate(local, SessionViolation::NoDeliveryId);
                    return Ok(());
                };
                let tag = transfer.delivery_tag.unwrap_or_default();
                none.insert(Box::new(PartialDelivery::new(
                    (id, transfer.message_format.unwrap_or(0)),
                    tag,
                    tag_length(tag)?,
                    &self.partial_bytes,
                    self.config.partial_bytes.as_ref(),
                )))
            }
        };
        partial.settled |= transfer.settled.unwrap_or(false);
        partial.transaction = transfer.transaction.or(partial.transaction);
        partial.extend(payload, link.max_message_size.min(u64::from(u32::MAX / 2)))?;
        if transfer.more {
            return Ok(());
        }
        let Some(partial) = link.partial.take() else {
            return Ok(());
        };
        let link = LinkId { index, generation: link.generation };
        match partial.refusal {
            None => {}
            Some(Refusal::TooLarge) => {
                self.reject_too_large(local, index, partial.id, partial.size, partial.settled);
                return Ok(());
            }
            Some(Refusal::NoRoom) => {
                let error = Error::new(ErrorCondition::SERVER_BUSY, NO_ROOM);
                self.refuse_delivery(local, link, partial.id, partial.settled, error);
                return Ok(());
            }
        }
        self.finish_deliveries();
        let length = partial.bytes.len() as u32;
        let delivery = Delivery {
            link,
            id: partial.id,
            format: partial.format,
            start: u32::from(partial.tag_length),
            end: length,
            tag_start: 0,
            tag_length: partial.tag_length,
            settled: partial.settled,
        };
        self.push_alone(partial.bytes.freeze(), delivery, partial.transaction);
        Ok(())
    }

    fn push_alone(&mut self, chunk: Bytes, delivery: Delivery, transaction: Option<TransactionId>) {
        let mut items = self.spare.pop().unwrap_or_default();
        items.push(delivery);
        let transactions = transaction.map(|transaction| (0, transaction)).into_iter().collect();
        self.events.push_back(Event::Deliveries(Deliveries { chunk, items, transactions }));
    }

    #[cold]
    fn reject_too_large(&mut self, local: u16, index: u32, id: u32, size: u64, settled: bool) {
        let Some(link) = self.links[index as usize].as_ref() else {
            return;
        };
        let limit = link.max_message_size;
        let text = format!(
            "The received message (delivery-id:{id}, size:{size} bytes) exceeds the limit ({limit} bytes) currently \
             allowed on the link."
        );
        let error = Error::new(ErrorCondition::MESSAGE_SIZE_EXCEEDED, text);
        let link = LinkId { index, generation: link.generation };
        self.refuse_delivery(local, link, id, settled, error);
    }

    /// Refuses a message that has come completely. The link stays usable, unless the sender wants no outcome: it would
    /// not learn otherwise that the message is gone.
    #[cold]
    fn refuse_delivery(&mut self, local: u16, link: LinkId, id: u32, settled: bool, error: Error) {
        self.push(Event::DeliveryRefused { link, error: Box::new(error.clone()) });
        if settled {
            return self.detach_link(link, Some(error));
        }
        self.settle(SessionId(local), id, id, DeliveryState::Rejected(Some(error)));
    }

    #[cold]
    fn refuse_overrun(&mut self, link: LinkId) {
        self.detach_link(
            link,
            Some(Error::new(
                ErrorCondition::TRANSFER_LIMIT_EXCEEDED,
                "a transfer arrived without link credit",
            )),
        );
    }
}

/// Where `part`, a slice of `whole`, starts in it.
#[inline]
fn offset_in(whole: &[u8], part: &[u8]) -> u32 {
    (part.as_ptr() as usize - whole.as_ptr() as usize) as u32
}

/// The length of a tag of at most [`TAG_MAX`] bytes.
#[inline]
fn tag_length(tag: &[u8]) -> Result<u8, ConnectionError> {
    match u8::try_from(tag.len()) {
        Ok(length) => Ok(length),
        Err(_) => {
            Err(DecodeError::InvalidValue { field: "delivery-tag length", value: tag.len() as u64 }.into())
        }
    }
}

/// In the words by which clients know that they are to wait.
const NO_ROOM: &str = "Incomplete messages of all connections have reached their memory limit. Please wait 4 seconds and \
                       try again. Error code : 50002.";

const _: () = assert!(TAG_MAX == u8::MAX as usize, "the length of a tag has one byte");
