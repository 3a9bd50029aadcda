//! One AMQP connection, either side of it, without any I/O.
//!
//! # How to drive it
//!
//! The methods of [`Connection`] are of four kinds:
//!
//! * `handle_*`: something happened. [`handle_input`](Connection::handle_input) takes bytes from the peer,
//!   [`handle_timeout`](Connection::handle_timeout) says that a deadline passed.
//! * `poll_*`: what to do now. Events first ([`poll_event`](Connection::poll_event), until `None`), then output
//!   ([`poll_output`](Connection::poll_output), written and then confirmed with
//!   [`consume_output`](Connection::consume_output)), then the next deadline
//!   ([`poll_timeout`](Connection::poll_timeout)).
//! * commands: begin, attach, accept, send, settle, close. They encode straight into the output.
//! * getters.
//!
//! # Files
//!
//! `handshake` brings the connection up, `sessions` begins and ends sessions, `linking` attaches and detaches links,
//! `owed` gathers what can wait, `output` holds what is to be sent. The two hot paths have files of their own: `sending`
//! (transfers out, outcomes in) and `receiving` (transfers in, outcomes out). `partial` are messages that come in several
//! frames. `probe` asks a silent peer whether it is there.
//!
//! # Invariants
//!
//! * After an error the connection is closed and stays so; the first error sticks.
//! * Nothing is sent beyond link credit or session window, nor on a channel after its end.
//! * What is held for a peer is bounded by [`Config`]: sessions, links and the bytes of unfinished
//!   messages.

mod config;
mod error;
mod event;
mod handshake;
mod link;
mod linking;
mod output;
mod owed;
mod partial;
mod probe;
mod receiving;
mod sending;
mod session;
mod sessions;
mod transfer_run;
mod unsettled;

use std::collections::VecDeque;
use std::io::IoSlice;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::{Bytes, BytesMut};

pub use config::{
    Config, Credentials, CreditOverrun, OutcomeAnswers, SaslClient, SaslServer, VerifyCredentials,
};
pub use error::{ConnectionError, SendError};
pub use event::{Deliveries, Delivery, Event};
pub use link::{LinkAcceptance, LinkId, LinkOptions};
pub use output::SHARED_MIN;
pub use partial::PartialBytes;
pub use sending::{NewDelivery, SenderMut, TransferWriter};
pub use transfer_run::TransferRun;
pub use unsettled::Unsettled;

use crate::codec::Reader;
use crate::frame::{self, FrameHeader};
use crate::performative::{Begin, Close, Disposition, End, Error, Flow, Open, descriptor};
use handshake::{Side, Stage};
use link::Link;
use output::Output;
use probe::Probe;
use session::Session;

/// A session, by our channel number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SessionId(pub(crate) u16);

impl SessionId {
    /// A small number, unique among the sessions of the connection at one time: for tables indexed by session.
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

/// One AMQP connection. See the [module](self) for how to drive it.
#[derive(Debug)]
pub struct Connection {
    config: Config,
    side: Side,
    stage: Stage,
    open_sent: bool,
    output: Output,
    events: VecDeque<Event>,
    /// Deliveries of the input that is being handled.
    deliveries: Deliveries,
    /// Emptied delivery lists, to be filled again.
    spare: Vec<Vec<Delivery>>,
    sessions: Vec<Option<Box<Session>>>,
    /// Our channel by the peer's.
    channels: Vec<Option<u16>>,
    links: Vec<Option<Box<Link>>>,
    free_links: Vec<u32>,
    next_generation: u32,
    /// What unfinished messages of this connection may hold.
    partial_bytes: Arc<PartialBytes>,
    /// Sessions that owe a flow or a disposition.
    dirty_sessions: Vec<u16>,
    /// Links that owe a flow.
    dirty_links: Vec<u32>,
    /// Largest frame that the peer takes.
    remote_max_frame_size: u32,
    remote_channel_max: u16,
    /// Highest handle of the session that the peer began or answered last.
    expected_handle_max: u32,
    remote_idle_timeout: Option<Duration>,
    remote_product: Option<String>,
    credentials: Option<Credentials>,
    started: Instant,
    last_input: Instant,
    probe: Probe,
    last_output: Instant,
    /// Since when the peer has taken nothing of the output that there is.
    output_waits_since: Option<Instant>,
    /// Since when our close has been out.
    closing_since: Option<Instant>,
}

impl Connection {
    fn new(config: Config, side: Side, stage: Stage, now: Instant) -> Self {
        Self {
            partial_bytes: PartialBytes::new(config.partial_bytes_max),
            config,
            side,
            stage,
            open_sent: false,
            output: Output::default(),
            events: VecDeque::new(),
            deliveries: Deliveries::default(),
            spare: Vec::new(),
            sessions: Vec::new(),
            channels: Vec::new(),
            links: Vec::new(),
            free_links: Vec::new(),
            next_generation: 0,
            dirty_sessions: Vec::new(),
            dirty_links: Vec::new(),
            remote_max_frame_size: frame::MIN_MAX_FRAME_SIZE,
            remote_channel_max: 0,
            expected_handle_max: u32::MAX,
            remote_idle_timeout: None,
            remote_product: None,
            credentials: None,
            started: now,
            last_input: now,
            probe: Probe::default(),
            last_output: now,
            output_waits_since: None,
            closing_since: None,
        }
    }

    /// The peer sent `input`. What is understood is taken from its front; an incomplete frame stays.
    ///
    /// An error has been reported to the peer as far as that is possible, and comes as [`Event::Closed`] too.
    pub fn handle_input(&mut self, now: Instant, input: &mut BytesMut) -> Result<(), ConnectionError> {
        if !input.is_empty() {
            self.last_input = now;
            if self.probe.waits() {
                self.probe.hear();
            }
        }
        let result = self.take_input(input);
        self.finish_deliveries();
        // Whoever owns the input can use its memory again as soon as the events are dealt with.
        self.deliveries.chunk = Bytes::new();
        result.inspect_err(|error| {
            input.clear();
            self.fail(error.clone());
        })
    }

    /// A deadline given by [`poll_timeout`](Self::poll_timeout) passed: sends a heartbeat or a question, gives memory
    /// back, or gives up.
    pub fn handle_timeout(&mut self, now: Instant) {
        if self.is_closed() {
            return;
        }
        if self.handshake_deadline().is_some_and(|deadline| now >= deadline) {
            return self.fail(ConnectionError::HandshakeTimeout);
        }
        if self.idle_deadline().is_some_and(|deadline| now >= deadline) {
            return self.fail(ConnectionError::IdleTimeout);
        }
        if self.output_deadline().is_some_and(|deadline| now >= deadline) {
            return self.fail(ConnectionError::OutputTimeout);
        }
        if self.rest_deadline().is_some_and(|deadline| now >= deadline) {
            self.rest();
        }
        if self.probe_deadline().is_some_and(|deadline| now >= deadline) && self.probe.pass(now) {
            self.write_probe();
        }
        if self.heartbeat_deadline().is_some_and(|deadline| now >= deadline) && self.output_len() == 0 {
            frame::write_frame(&mut self.output.bytes, frame::TYPE_AMQP, 0, |_| {});
        }
    }

    /// The next thing that happened.
    pub fn poll_event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    /// Bytes to send, after writing down all flows and dispositions that are owed. Empty when there are none. More may
    /// follow them: see [`output_slices`](Self::output_slices).
    pub fn poll_output(&mut self, now: Instant) -> &[u8] {
        self.write_owed();
        if self.output.len() > 0 {
            self.last_output = now;
            self.output_waits_since.get_or_insert(now);
        }
        if self.stage == Stage::CloseSent {
            self.closing_since.get_or_insert(now);
        }
        self.output.first()
    }

    /// The first `length` bytes of the output have been sent.
    pub fn consume_output(&mut self, length: usize) {
        if length > 0 {
            self.output_waits_since = None;
        }
        self.output.consume(length);
    }

    /// Whether there are payloads in the output that were not copied, so that
    /// [`output_slices`](Self::output_slices) has more than [`poll_output`](Self::poll_output).
    pub fn is_output_scattered(&self) -> bool {
        self.output.is_scattered()
    }

    /// Sets `slices` to the first pieces of the output, for a vectored write, and says how many there are. The first is what
    /// [`poll_output`](Self::poll_output) gives, which is to be called before.
    pub fn output_slices<'a>(&'a self, slices: &mut [IoSlice<'a>]) -> usize {
        self.output.fill(slices)
    }

    /// How many bytes wait to be sent: stop producing when it is more than you want to hold.
    pub const fn output_len(&self) -> usize {
        self.output.len()
    }

    /// When [`handle_timeout`](Self::handle_timeout) is to be called, if nothing happens before.
    pub fn poll_timeout(&self) -> Option<Instant> {
        if self.is_closed() {
            return None;
        }
        [
            self.handshake_deadline(),
            self.idle_deadline(),
            self.output_deadline(),
            self.heartbeat_deadline(),
            self.probe_deadline(),
            self.rest_deadline(),
        ]
        .into_iter()
        .flatten()
        .min()
    }

    /// Whether a flow or a disposition is still to be written down.
    pub const fn owes_output(&self) -> bool {
        !self.dirty_sessions.is_empty() || !self.dirty_links.is_empty()
    }

    /// Whether the connection is over, so that only remaining output is to be sent.
    pub const fn is_closed(&self) -> bool {
        matches!(self.stage, Stage::Closed)
    }

    /// Whether sessions can begin.
    pub const fn is_open(&self) -> bool {
        matches!(self.stage, Stage::Open)
    }

    /// Whether our open has been written. A client that is authenticated can go on without the peer's: begin its first session and
    /// attach links, so that all of it leaves in one write (specification section 2.4.5, the state `OPEN PIPE`).
    pub const fn has_sent_open(&self) -> bool {
        self.open_sent
    }

    /// Whether sessions and links can be spoken of.
    const fn takes_commands(&self) -> bool {
        self.is_open()
            || (self.open_sent
                && matches!(self.side, Side::Client(_))
                && matches!(self.stage, Stage::AmqpHeader | Stage::AwaitOpen))
    }

    /// Whether the peer has sent nothing for so long that it can't be reached, see [`Config::probe_after`].
    pub fn is_silent(&self) -> bool {
        self.probe.is_silent()
    }

    /// What the peer showed at the SASL layer, on a server.
    pub const fn credentials(&self) -> Option<&Credentials> {
        self.credentials.as_ref()
    }

    /// The product name in the peer's open: what clients call themselves.
    pub fn remote_product(&self) -> Option<&str> {
        self.remote_product.as_deref()
    }

    /// From now on unfinished messages may hold `maximum` bytes in all, and are charged to the shared bound `shared`.
    /// Messages that have begun stay charged where they are.
    pub fn set_partial_bytes(&mut self, maximum: usize, shared: Option<Arc<PartialBytes>>) {
        self.partial_bytes = PartialBytes::new(maximum);
        self.config.partial_bytes_max = maximum;
        self.config.partial_bytes = shared;
    }

    /// Takes back the buffers of an event whose deliveries have been dealt with.
    pub fn recycle(&mut self, deliveries: Deliveries) {
        if self.spare.len() < SPARE_LISTS {
            let mut items = deliveries.items;
            items.clear();
            self.spare.push(items);
        }
    }

    /// Closes the connection. [`Event::Closed`] follows when the peer has answered, or has not for as long as a
    /// handshake may take.
    pub fn close(&mut self, error: Option<Error>) {
        if self.is_open() || self.stage == Stage::AwaitOpen {
            self.write_owed();
            frame::write_frame(&mut self.output.bytes, frame::TYPE_AMQP, 0, |out| {
                Close { error }.encode(out)
            });
            self.stage = Stage::CloseSent;
        } else if self.stage != Stage::CloseSent && !self.is_closed() {
            self.stage = Stage::Closed;
            self.push(Event::Closed(None));
        }
    }

    /// The transport broke or ended: nothing can be sent any more.
    pub fn handle_disconnect(&mut self) {
        if !self.is_closed() {
            self.stage = Stage::Closed;
            self.push(Event::Closed(None));
        }
    }

    fn take_input(&mut self, input: &mut BytesMut) -> Result<(), ConnectionError> {
        loop {
            match self.stage {
                Stage::Closed => {
                    input.clear();
                    return Ok(());
                }
                stage if stage.expects_header() => {
                    // Other protocols may say less than a header: an alert of TLS has seven bytes.
                    if let Some(first) = input.first_chunk::<4>().filter(|first| *first != b"AMQP") {
                        return Err(self.on_other_protocol(*first));
                    }
                    let Some(header) = input.first_chunk::<8>().copied() else {
                        return Ok(());
                    };
                    self.on_protocol_header(header)?;
                    let _ = input.split_to(8);
                }
                stage if stage.expects_sasl() => {
                    let Some(header) = FrameHeader::parse(input, frame::MIN_MAX_FRAME_SIZE)? else {
                        return Ok(());
                    };
                    if input.len() < header.size {
                        return Ok(());
                    }
                    let bytes = input.split_to(header.size).freeze();
                    self.on_sasl_frame(&header, &bytes[header.body..])?;
                }
                _ => {
                    let complete = self.complete_frames(input)?;
                    if complete == 0 {
                        return Ok(());
                    }
                    let chunk = input.split_to(complete).freeze();
                    self.handle_frames(chunk)?;
                }
            }
        }
    }

    /// How many bytes at the front of `input` are whole frames. A bad header is an error once it is at the front.
    #[inline]
    fn complete_frames(&self, input: &[u8]) -> Result<usize, ConnectionError> {
        let mut end = 0;
        loop {
            match FrameHeader::parse(&input[end..], self.config.max_frame_size) {
                Ok(Some(header)) if input.len() - end >= header.size => end += header.size,
                Ok(_) => return Ok(end),
                Err(_) if end > 0 => return Ok(end),
                Err(error) => return Err(error.into()),
            }
        }
    }

    fn handle_frames(&mut self, chunk: Bytes) -> Result<(), ConnectionError> {
        self.finish_deliveries();
        self.deliveries.chunk = chunk.clone();
        let mut at = 0;
        loop {
            at = self.take_run(&chunk, at);
            let Some(header) = FrameHeader::parse(&chunk[at..], self.config.max_frame_size)? else {
                break;
            };
            let end = at + header.size;
            self.handle_frame(&header, &chunk, at + header.body, end)?;
            at = end;
            if self.is_closed() {
                break;
            }
        }
        Ok(())
    }

    fn handle_frame(
        &mut self,
        header: &FrameHeader,
        chunk: &[u8],
        start: usize,
        end: usize,
    ) -> Result<(), ConnectionError> {
        if header.kind != frame::TYPE_AMQP {
            return Err(ConnectionError::FrameType(header.kind));
        }
        if start == end {
            return Ok(());
        }
        let mut reader = Reader::new(&chunk[start..end]);
        let descriptor = reader.descriptor()?;
        if descriptor == descriptor::TRANSFER && self.stage == Stage::Open {
            return self.on_transfer(header.channel, chunk, end, &mut reader);
        }
        self.on_performative(header.channel, descriptor, &mut reader)
    }

    fn on_performative(
        &mut self,
        channel: u16,
        descriptor: u64,
        reader: &mut Reader<'_>,
    ) -> Result<(), ConnectionError> {
        match (self.stage, descriptor) {
            (Stage::AwaitOpen, descriptor::OPEN) => {
                let open = Open::decode(reader)?;
                self.on_open(open);
                Ok(())
            }
            (Stage::Open | Stage::CloseSent | Stage::AwaitOpen, descriptor::CLOSE) => {
                let close = Close::decode(reader)?;
                self.on_close(close);
                Ok(())
            }
            // After our close whatever comes before the peer's is of no interest.
            (Stage::CloseSent, _) => Ok(()),
            (Stage::Open, descriptor::BEGIN) => self.on_begin(channel, &Begin::decode(reader)?),
            (Stage::Open, descriptor::ATTACH) => self.on_attach(channel, reader),
            (Stage::Open, descriptor::FLOW) => self.on_flow(channel, &Flow::decode(reader)?),
            (Stage::Open, descriptor::DISPOSITION) => {
                self.on_disposition(channel, Disposition::decode(reader)?)
            }
            (Stage::Open, descriptor::DETACH) => self.on_detach(channel, reader),
            (Stage::Open, descriptor::END) => self.on_end(channel, End::decode(reader)?),
            (Stage::Open, _) => {
                Err(ConnectionError::UnexpectedPerformative { descriptor, place: "on an open connection" })
            }
            _ => Err(ConnectionError::UnexpectedPerformative { descriptor, place: "before open" }),
        }
    }

    fn on_close(&mut self, close: Close) {
        if self.stage != Stage::CloseSent {
            frame::write_frame(&mut self.output.bytes, frame::TYPE_AMQP, 0, |out| {
                Close { error: None }.encode(out)
            });
        }
        self.stage = Stage::Closed;
        self.push(Event::Closed(close.error.map(ConnectionError::ClosedByPeer)));
    }

    /// Writes a frame of a session, unless our close or the session's end has gone out: nothing may follow those.
    fn write_on(&mut self, local: u16, write: impl FnOnce(&mut Vec<u8>)) {
        let ended = self.session_mut(local).is_none_or(|session| session.end_sent);
        if self.takes_commands() && !ended {
            frame::write_frame(&mut self.output.bytes, frame::TYPE_AMQP, local, write);
        }
    }

    /// Ends the connection because of what the peer did.
    fn fail(&mut self, error: ConnectionError) {
        if self.is_closed() {
            return;
        }
        if matches!(self.stage, Stage::Open | Stage::AwaitOpen)
            && let Some(wire) = error.to_wire()
        {
            // A peer that has not had our open yet could not read a close before it.
            self.write_open_if_owed();
            frame::write_frame(&mut self.output.bytes, frame::TYPE_AMQP, 0, |out| {
                Close { error: Some(wire) }.encode(out)
            });
        }
        self.stage = Stage::Closed;
        self.push(Event::Closed(Some(error)));
    }

    fn push(&mut self, event: Event) {
        self.finish_deliveries();
        self.events.push_back(event);
    }

    /// Turns the deliveries gathered so far into an event.
    fn finish_deliveries(&mut self) {
        if self.deliveries.items.is_empty() {
            return;
        }
        let items = std::mem::replace(&mut self.deliveries.items, self.spare.pop().unwrap_or_default());
        let transactions = std::mem::take(&mut self.deliveries.transactions);
        let chunk = self.deliveries.chunk.clone();
        self.events.push_back(Event::Deliveries(Deliveries { chunk, items, transactions }));
    }

    #[inline]
    fn local_channel(&self, channel: u16) -> Result<u16, ConnectionError> {
        self.channels
            .get(usize::from(channel))
            .copied()
            .flatten()
            .ok_or(ConnectionError::UnknownChannel(channel))
    }

    fn session_mut(&mut self, local: u16) -> Option<&mut Session> {
        self.sessions.get_mut(usize::from(local))?.as_deref_mut()
    }

    #[inline]
    fn link_of_handle(&self, local: u16, handle: u32) -> Option<u32> {
        let session = self.sessions.get(usize::from(local))?.as_ref()?;
        session.remote_handles.get(handle as usize).copied().flatten()
    }

    fn handshake_deadline(&self) -> Option<Instant> {
        let since = match self.stage {
            Stage::Open | Stage::Closed => None,
            Stage::CloseSent => self.closing_since,
            _ => Some(self.started),
        };
        since.map(|since| since + self.config.handshake_timeout)
    }

    fn idle_deadline(&self) -> Option<Instant> {
        self.config.idle_timeout.map(|timeout| self.last_input + timeout * 2)
    }

    /// When a peer that takes nothing of what waits for it is given up. It may well send all the while.
    fn output_deadline(&self) -> Option<Instant> {
        let since = self.output_waits_since?;
        self.config.idle_timeout.map(|timeout| since + timeout * 2)
    }

    /// Returns the deadline for a question to a silent peer, or for its answer.
    fn probe_deadline(&self) -> Option<Instant> {
        let patience = self.config.probe_after.filter(|_| self.is_open())?;
        self.probe.deadline(self.last_input, patience)
    }

    /// When memory is given back that only a busy connection needs.
    fn rest_deadline(&self) -> Option<Instant> {
        let holds_memory = self.output.is_spare() || !self.spare.is_empty();
        holds_memory.then(|| self.last_input.max(self.last_output) + REST_AFTER)
    }

    fn rest(&mut self) {
        self.output.rest();
        self.spare = Vec::new();
        for session in self.sessions.iter_mut().flatten() {
            session.unsettled.shrink();
        }
        if self.events.is_empty() {
            self.events = VecDeque::new();
        }
    }

    fn heartbeat_deadline(&self) -> Option<Instant> {
        // Half of what the peer asked for, so that one late wake-up does no harm.
        self.remote_idle_timeout.filter(|_| self.is_open()).map(|timeout| self.last_output + timeout / 2)
    }
}

/// How long nothing must happen until a connection is at rest: so long that a busy one never is.
const REST_AFTER: Duration = Duration::from_secs(1);

/// Emptied delivery lists that are kept.
const SPARE_LISTS: usize = 8;
