//! Transfers out and their outcomes in. Hot path.
//!
//! A message is encoded straight into the connection's output by a
//! [`TransferWriter`]: the frame's size and its `more` flag are patched when the
//! payload is complete, and a message that outgrows the peer's frame size is cut
//! on the way. What the session window does not let through is kept, one message
//! per session at most, and goes out as the window opens.

use bytes::Bytes;

use super::link::{Link, LinkId, LinkState};
use super::output::{Mark, Output};
use super::session::{Session, WaitingMessage};
use super::{Connection, ConnectionError, Event, OutcomeAnswers, SendError, SessionId, Stage};
use crate::TransactionId;
use crate::codec::write;
use crate::frame;
use crate::message::encode;
use crate::performative::{DeliveryState, Disposition, Role, TransferHeader};

/// A message about to be sent.
#[derive(Debug, Clone, Copy)]
pub struct NewDelivery<'a> {
    /// The sender's name for the delivery, at most 32 bytes.
    pub tag: &'a [u8],
    /// Message format.
    pub format: u32,
    /// Whether no outcome is wanted.
    pub settled: bool,
}

/// A sending link that has credit, in a session whose window is open, and where its messages go.
#[derive(Debug)]
pub(super) struct Sending<'a> {
    pub(super) output: &'a mut Output,
    pub(super) session: &'a mut Session,
    pub(super) link: &'a mut Link,
    /// Largest frame that the peer takes, in bytes.
    pub(super) max_frame_size: usize,
}

/// A sending link, lent out by [`Connection::sender`].
#[derive(Debug)]
pub struct SenderMut<'a> {
    connection: &'a mut Connection,
    link: LinkId,
}

impl Connection {
    /// A link through which we send; `None` if it is gone or receives.
    #[inline]
    pub fn sender(&mut self, link: LinkId) -> Option<SenderMut<'_>> {
        match self.link(link) {
            Some(state) if state.role == Role::Sender => Some(SenderMut { connection: self, link }),
            _ => None,
        }
    }

    /// What is needed to send through a link, if it may send now.
    // Always, as with `SenderMut::begin`.
    #[inline(always)]
    pub(super) fn sending(&mut self, id: LinkId) -> Result<Sending<'_>, SendError> {
        let link = self.links.get_mut(id.index()).and_then(Option::as_deref_mut);
        let Some(link) = link.filter(|link| link.generation == id.generation && link.role == Role::Sender)
        else {
            return Err(SendError::NotAttached);
        };
        let Some(session) = self.sessions[usize::from(link.channel)].as_mut() else {
            return Err(SendError::NotAttached);
        };
        if link.state != LinkState::Attached || session.end_sent || self.stage != Stage::Open {
            return Err(SendError::NotAttached);
        }
        if link.credit == 0 {
            return Err(SendError::NoCredit);
        }
        if session.remote_incoming_window == 0 || session.waiting.is_some() {
            return Err(SendError::WindowClosed);
        }
        Ok(Sending {
            output: &mut self.output,
            session,
            link,
            max_frame_size: self.remote_max_frame_size as usize,
        })
    }

    /// Transfers that the peer accepts on the session now; a message takes one for each frame that it fills.
    #[inline]
    pub fn remote_window(&self, session: SessionId) -> u32 {
        self.sessions
            .get(usize::from(session.0))
            .and_then(Option::as_ref)
            .map_or(0, |s| s.remote_incoming_window)
    }

    /// Ids between the oldest and the newest delivery of the session that awaits an outcome.
    pub fn unsettled_span(&self, session: SessionId) -> usize {
        self.sessions.get(usize::from(session.0)).and_then(Option::as_ref).map_or(0, |s| s.unsettled.span())
    }

    pub(super) fn on_disposition(
        &mut self,
        channel: u16,
        disposition: Disposition,
    ) -> Result<(), ConnectionError> {
        let local = self.local_channel(channel)?;
        let Disposition { role, first, last, settled, state } = disposition;
        let terminal = state.as_ref().is_some_and(DeliveryState::is_outcome);
        if role == Role::Sender {
            let session = SessionId(local);
            match state {
                state if settled => self.push(Event::SettledBySender { session, first, last, state }),
                Some(state) if terminal => self.push(Event::TakenBySender { session, first, last, state }),
                _ => {}
            }
            return Ok(());
        }
        if !settled && !terminal {
            return Ok(());
        }
        // Only what is not settled yet needs an answer, and it has a state.
        let Some(state) = state else {
            self.settle_sent(local, first, last, None);
            return Ok(());
        };
        if settled || self.config.outcome_answers == OutcomeAnswers::Echo {
            let any = self.settle_sent(local, first, last, Some(&state));
            if any && !settled {
                // The receiver settles after us: tell it that we have.
                self.dispose(Role::Sender, SessionId(local), first, last, state, true);
            }
        } else {
            self.propose_sent(local, first, last, &state);
        }
        Ok(())
    }

    /// Answers outcomes of [`Event::OutcomeProposed`]: what has really become of the deliveries from `first` to `last`,
    /// which are then settled at both ends. Consecutive calls with consecutive ids become one frame.
    #[inline]
    pub fn answer_outcome(&mut self, session: SessionId, first: u32, last: u32, outcome: DeliveryState) {
        self.dispose(Role::Sender, session, first, last, outcome, true);
    }

    /// Accepts transactional outcomes of [`Event::OutcomeProposed`] without settling: the deliveries from `first`
    /// to `last` stay unsettled until [`settle_taken`](Self::settle_taken) or until the receiver gives them another outcome
    /// (specification section 4.4.2).
    pub fn take_outcome(&mut self, session: SessionId, first: u32, last: u32, outcome: DeliveryState) {
        self.dispose(Role::Sender, session, first, last, outcome, false);
    }

    /// Settles the deliveries from `first` to `last` that are still unsettled, after their transaction has ended or has refused their
    /// outcome.
    pub fn settle_taken(&mut self, session: SessionId, first: u32, last: u32, outcome: DeliveryState) {
        let Some(state) = self.sessions.get_mut(usize::from(session.0)).and_then(Option::as_mut) else {
            return;
        };
        let mut runs = Vec::new();
        state.take_runs(first, last, usize::MAX, |first, last| runs.push((first, last)));
        for (first, last) in runs {
            self.dispose(Role::Sender, session, first, last, outcome.clone(), true);
        }
    }

    /// Reports the outcome of those deliveries of a range that wait for one, and says whether there are any.
    fn settle_sent(&mut self, local: u16, first: u32, last: u32, state: Option<&DeliveryState>) -> bool {
        // Deliveries that came before this frame must be reported before it.
        self.finish_deliveries();
        let Some(session) = self.sessions[usize::from(local)].as_mut() else {
            return false;
        };
        let events = &mut self.events;
        let mut any = false;
        let report = |first, last| {
            any = true;
            events.push_back(Event::Outcome {
                session: SessionId(local),
                first,
                last,
                state: state.cloned(),
            });
        };
        session.take_runs(first, last, state.map_or(usize::MAX, runs_max), report);
        any
    }

    /// Reports a proposed outcome: for the runs of deliveries that wait for one, and for what lies between.
    fn propose_sent(&mut self, local: u16, first: u32, last: u32, state: &DeliveryState) {
        self.finish_deliveries();
        let Some(session) = self.sessions[usize::from(local)].as_mut() else {
            return;
        };
        let length = last.wrapping_sub(first);
        if length.cast_signed() < 0 {
            // The range is back to front, or wider than ids can be apart.
            return;
        }
        let events = &mut self.events;
        let mut push = |first, last, is_known| {
            events.push_back(Event::OutcomeProposed {
                session: SessionId(local),
                first,
                last,
                state: state.clone(),
                is_known,
            });
        };
        // How many ids from `first` on have been reported.
        let mut reported = 0u32;
        let report = |run_first: u32, run_last: u32| {
            let start = run_first.wrapping_sub(first);
            if start > reported {
                push(first.wrapping_add(reported), run_first.wrapping_sub(1), false);
            }
            push(run_first, run_last, true);
            reported = run_last.wrapping_sub(first) + 1;
        };
        match state {
            // It may never come to be.
            DeliveryState::Transactional { .. } => {
                session.look_at_runs(first, last, runs_max(state), report);
            }
            _ => session.take_runs(first, last, runs_max(state), report),
        }
        if reported <= length {
            push(first.wrapping_add(reported), last, false);
        }
    }

    /// Sends what waits for the session window, as far as it is open. Says whether all of it went.
    pub(super) fn send_waiting(&mut self, local: u16) -> bool {
        let Some(session) = self.sessions[usize::from(local)].as_mut() else {
            return false;
        };
        let Some(mut waiting) = session.waiting.take() else {
            return false;
        };
        let channel = session.channel;
        while session.remote_incoming_window > 0 {
            let output = &mut self.output.bytes;
            let start = output.len();
            let header = TransferHeader {
                channel,
                handle: waiting.handle,
                delivery: None,
                settled: waiting.settled,
                aborted: waiting.aborted,
            };
            let more_at = header.encode(output);
            let rest = if waiting.aborted { &[][..] } else { &waiting.bytes[waiting.position..] };
            let room = self.remote_max_frame_size as usize - (output.len() - start);
            let part = &rest[..rest.len().min(room)];
            output.extend_from_slice(part);
            waiting.position += part.len();
            let last = part.len() == rest.len();
            output[more_at] = more_flag(!last);
            frame::patch_size(output, start, 0);
            session.count_outgoing(1);
            if last {
                return true;
            }
        }
        session.waiting = Some(waiting);
        false
    }
}

/// How many runs of deliveries an outcome is reported for one by one. Each is told all of it, and one frame may give tens of
/// thousands of scattered deliveries an outcome with kilobytes of annotations.
fn runs_max(state: &DeliveryState) -> usize {
    match state {
        DeliveryState::Rejected(Some(_)) => LONG_OUTCOME_RUNS_MAX,
        DeliveryState::Modified { annotations, .. } if !annotations.is_empty() => LONG_OUTCOME_RUNS_MAX,
        DeliveryState::Transactional { outcome: Some(outcome), .. } => runs_max(outcome),
        _ => usize::MAX,
    }
}

impl<'a> SenderMut<'a> {
    /// How many deliveries may be sent now.
    #[inline]
    pub fn credit(&self) -> u32 {
        self.connection.link(self.link).map_or(0, |link| link.credit)
    }

    /// Sends a message given as parts that follow one another. Returns its delivery id on the session.
    #[inline]
    pub fn send(&mut self, delivery: &NewDelivery<'_>, message: &[&[u8]]) -> Result<u32, SendError> {
        let mut writer = self.begin(delivery)?;
        for part in message {
            writer.put(part);
        }
        Ok(writer.finish())
    }

    /// Starts a message that is written piece by piece. Dropping the writer unfinished takes it back.
    // Always: where it is a call, the writer goes through memory and is read before the stores to it have settled, which
    // costs more than everything that happens here.
    #[inline(always)]
    pub fn begin(&mut self, delivery: &NewDelivery<'_>) -> Result<TransferWriter<'_>, SendError> {
        self.begin_with(delivery, |header, out| header.encode(out))
    }

    /// Starts a message that is part of a transaction.
    pub fn begin_in(
        &mut self,
        transaction: &TransactionId,
        delivery: &NewDelivery<'_>,
    ) -> Result<TransferWriter<'_>, SendError> {
        self.begin_with(delivery, |header, out| header.encode_in(transaction, out))
    }

    /// Starts a message whose first frame begins with what `encode` appends.
    #[inline(always)]
    fn begin_with(
        &mut self,
        delivery: &NewDelivery<'_>,
        encode: impl FnOnce(&TransferHeader<'_>, &mut Vec<u8>) -> usize,
    ) -> Result<TransferWriter<'_>, SendError> {
        let Sending { output, session, link, max_frame_size } = self.connection.sending(self.link)?;
        if delivery.tag.len() > MAX_TAG {
            return Err(SendError::TagTooLong);
        }
        let start = output.mark();
        let header = TransferHeader {
            channel: session.channel,
            handle: link.handle,
            delivery: Some((session.next_delivery_id, delivery.tag, delivery.format)),
            settled: delivery.settled,
            aborted: false,
        };
        let more_at = encode(&header, &mut output.bytes);
        Ok(TransferWriter {
            output,
            link_index: self.link.index,
            session,
            link,
            max_frame_size,
            settled: delivery.settled,
            message_start: start,
            frame_start: start.at,
            frame_end: start.at + max_frame_size,
            more_at,
            frames: 0,
            done: false,
        })
    }

    /// Calls off the message that waits for the session window, if it is this link's, and says whether there was one.
    /// The receiver is told once the window opens; no outcome follows.
    pub fn abort_waiting(&mut self) -> bool {
        let Some(channel) = self.connection.link(self.link).map(|link| link.channel) else {
            return false;
        };
        let index = self.link.index;
        let Some(session) = self.connection.session_mut(channel) else {
            return false;
        };
        match session.waiting.as_mut() {
            Some(waiting) if waiting.link == index && !waiting.aborted => {
                waiting.aborted = true;
                waiting.bytes = Vec::new();
                waiting.position = 0;
                // No outcome comes for what was called off.
                let id = waiting.id;
                session.unsettled.take(id, id, |_, _| {});
                true
            }
            _ => false,
        }
    }

    /// Answers a drain: there is nothing more to send, so the credit left counts as used.
    pub fn drained(&mut self) {
        let Some(link) = self.connection.link_mut(self.link) else {
            return;
        };
        if link.drain {
            link.delivery_count = link.delivery_count.wrapping_add(link.credit);
            link.credit = 0;
            self.connection.owe_link_flow(self.link.index);
        }
    }
}

/// A message being written into the output.
#[derive(Debug)]
pub struct TransferWriter<'a> {
    output: &'a mut Output,
    session: &'a mut Session,
    link: &'a mut Link,
    link_index: u32,
    max_frame_size: usize,
    settled: bool,
    /// Where the first frame starts.
    message_start: Mark,
    /// Where the current frame starts.
    frame_start: usize,
    /// Where the encoded part of it must end at the latest. What it shares takes from that.
    frame_end: usize,
    more_at: usize,
    /// Frames that are complete.
    frames: u32,
    done: bool,
}

impl TransferWriter<'_> {
    /// Appends to the message.
    #[inline]
    pub fn put(&mut self, bytes: &[u8]) {
        if self.output.bytes.len() + bytes.len() <= self.frame_end && self.session.waiting.is_none() {
            write::bytes(&mut self.output.bytes, bytes);
        } else {
            self.put_across_frames(bytes);
        }
    }

    /// Appends `bytes` to the message without copying them: their memory is held until they are sent. That pays from
    /// [`SHARED_MIN`](super::SHARED_MIN) on.
    pub fn put_shared(&mut self, mut bytes: Bytes) {
        loop {
            if let Some(waiting) = &mut self.session.waiting {
                waiting.bytes.extend_from_slice(&bytes);
                return;
            }
            let room = self.frame_end - self.output.bytes.len();
            let part = bytes.split_to(bytes.len().min(room));
            self.frame_end -= part.len();
            self.output.share(part);
            if bytes.is_empty() {
                return;
            }
            self.next_frame();
        }
    }

    /// Appends the descriptor and length of a Data section whose payload of `length` bytes follows.
    #[inline]
    pub fn put_data_prefix(&mut self, length: u32) {
        let (prefix, prefix_length) = encode::data_prefix_bytes(length);
        self.put_encoded(prefix.len(), |out| write::few(out, &prefix, prefix_length));
    }

    /// Lets `encode` append up to `length_max` bytes to the message, straight into the output where they fit.
    #[inline]
    pub fn put_encoded(&mut self, length_max: usize, encode: impl FnOnce(&mut Vec<u8>)) {
        if self.output.bytes.len() + length_max <= self.frame_end && self.session.waiting.is_none() {
            encode(&mut self.output.bytes);
            debug_assert!(self.output.bytes.len() <= self.frame_end, "no more was appended than said");
        } else {
            let mut bytes = Vec::with_capacity(length_max);
            encode(&mut bytes);
            self.put_across_frames(&bytes);
        }
    }

    /// Completes the message and returns its delivery id on the session.
    #[inline]
    pub fn finish(mut self) -> u32 {
        self.done = true;
        if self.session.waiting.is_none() {
            self.patch_size();
            self.session.count_outgoing(1);
        }
        let id = self.session.next_delivery_id;
        self.session.next_delivery_id = id.wrapping_add(1);
        self.link.delivery_count = self.link.delivery_count.wrapping_add(1);
        self.link.credit -= 1;
        if !self.settled {
            self.session.unsettled.push(id, self.link_index);
        }
        id
    }

    /// Sets the size of the current frame, which is complete.
    #[inline]
    fn patch_size(&mut self) {
        let shared = self.frame_start + self.max_frame_size - self.frame_end;
        frame::patch_size(&mut self.output.bytes, self.frame_start, shared);
    }

    #[cold]
    fn put_across_frames(&mut self, mut bytes: &[u8]) {
        loop {
            if let Some(waiting) = &mut self.session.waiting {
                waiting.bytes.extend_from_slice(bytes);
                return;
            }
            let room = self.frame_end - self.output.bytes.len();
            let (part, rest) = bytes.split_at(bytes.len().min(room));
            self.output.bytes.extend_from_slice(part);
            if rest.is_empty() {
                return;
            }
            bytes = rest;
            self.next_frame();
        }
    }

    /// Completes the current frame and starts the next, or lets the rest of the message wait for the window.
    fn next_frame(&mut self) {
        self.output.bytes[self.more_at] = more_flag(true);
        self.patch_size();
        self.session.count_outgoing(1);
        self.frames += 1;
        if self.session.remote_incoming_window == 0 {
            self.session.waiting = Some(WaitingMessage {
                link: self.link_index,
                handle: self.link.handle,
                id: self.session.next_delivery_id,
                settled: self.settled,
                aborted: false,
                bytes: Vec::new(),
                position: 0,
            });
            return;
        }
        self.frame_start = self.output.bytes.len();
        self.frame_end = self.frame_start + self.max_frame_size;
        let header = TransferHeader {
            channel: self.session.channel,
            handle: self.link.handle,
            delivery: None,
            settled: self.settled,
            aborted: false,
        };
        self.more_at = header.encode(&mut self.output.bytes);
    }
}

impl Drop for TransferWriter<'_> {
    fn drop(&mut self) {
        if !self.done {
            self.output.take_back(self.message_start);
            self.session.uncount_outgoing(self.frames);
            self.session.waiting = None;
        }
    }
}

#[inline]
const fn more_flag(more: bool) -> u8 {
    if more { crate::codec::code::TRUE } else { crate::codec::code::FALSE }
}

/// Longest delivery tag (specification section 2.8.7).
const MAX_TAG: usize = 32;

/// How many runs of deliveries a long outcome is told for.
const LONG_OUTCOME_RUNS_MAX: usize = 32;
