//! A server that is spoken to in frames made by hand.

use std::sync::Arc;
use std::time::Instant;

use amqp::Connection;
use amqp::connection::{Config, SaslServer};
use amqp::performative::{
    Attach, Begin, Close, Error, Flow, Open, ReceiverSettleMode, Role, SenderSettleMode, Source, Target,
};

use crate::list::{Meaning, assemble, read_performative, write};
use crate::pair::{End, Happening, start};

/// The server, and the client's pen.
#[derive(Debug)]
pub(crate) struct Wire {
    pub(crate) server: End,
    now: Instant,
}

impl Wire {
    /// Nothing has been said yet.
    pub(crate) fn new(config: Config) -> Self {
        let now = start();
        let sasl = SaslServer { verify: Arc::new(|_| true) };
        Self { server: End::new(Connection::server(config, sasl, now)), now }
    }

    /// Open at both ends.
    pub(crate) fn open(config: Config) -> Self {
        let mut wire = Self::new(config);
        wire.say_bytes(b"AMQP\x00\x01\x00\x00");
        wire.say(0, &Meaning::Open(Open { container_id: "hand".to_owned(), ..Open::default() }));
        assert_eq!(wire.server.next(), Some(Happening::Opened));
        assert_eq!(&wire.raw_reply()[..8], b"AMQP\x00\x01\x00\x00");
        wire
    }

    /// Open, with a session on channel 0 whose incoming window is `window`.
    pub(crate) fn begin(config: Config, window: u32) -> Self {
        let mut wire = Self::open(config);
        wire.say(0, &first_begin(window));
        assert!(matches!(wire.server.next(), Some(Happening::SessionBegan(_))));
        let reply = wire.reply();
        assert!(
            matches!(&reply[..], [(0, Meaning::Begin(Begin { remote_channel: Some(0), .. }))]),
            "{reply:?}"
        );
        wire
    }

    pub(crate) fn say(&mut self, channel: u16, meaning: &Meaning<'_>) {
        let body = write(meaning).expect("a performative that can be written");
        self.say_body(channel, &body);
    }

    /// A frame whose body is given in the notation of the vectors.
    pub(crate) fn say_notation(&mut self, channel: u16, notation: &str) {
        self.say_body(channel, &assemble(notation));
    }

    pub(crate) fn say_body(&mut self, channel: u16, body: &[u8]) {
        self.say_bytes(&frame(channel, body));
    }

    pub(crate) fn say_bytes(&mut self, bytes: &[u8]) {
        self.server.hear(self.now, bytes);
    }

    /// What the server answered.
    pub(crate) fn reply(&mut self) -> Vec<(u16, Meaning<'static>)> {
        frames(self.raw_reply())
    }

    pub(crate) fn raw_reply(&mut self) -> Vec<u8> {
        let bytes = self.server.connection.poll_output(self.now).to_vec();
        self.server.connection.consume_output(bytes.len());
        bytes
    }

    /// The condition with which the server closed the connection; its frame must be the only reply.
    pub(crate) fn close_condition(&mut self) -> String {
        let reply = self.reply();
        match &reply[..] {
            [(0, Meaning::Close(Close { error: Some(Error { condition, .. }) }))] => condition.to_string(),
            _ => panic!("{reply:?} in place of a close with an error"),
        }
    }
}

/// A frame of `channel` around `body`.
pub(crate) fn frame(channel: u16, body: &[u8]) -> Vec<u8> {
    let size = u32::try_from(body.len() + 8).expect("a short frame");
    let mut frame = size.to_be_bytes().to_vec();
    frame.extend([2, 0]);
    frame.extend(channel.to_be_bytes());
    frame.extend(body);
    frame
}

/// The performatives in `bytes`, which live as long as the test.
pub(crate) fn frames(bytes: Vec<u8>) -> Vec<(u16, Meaning<'static>)> {
    let mut rest: &'static [u8] = bytes.leak();
    let mut frames = Vec::new();
    while !rest.is_empty() {
        let size = u32::from_be_bytes(rest[..4].try_into().expect("four bytes")) as usize;
        assert_eq!(rest[4..6], [2, 0], "data offset and frame type");
        let channel = u16::from_be_bytes([rest[6], rest[7]]);
        if size > 8 {
            frames.push((
                channel,
                read_performative(&rest[8..size]).expect("the server writes what can be read"),
            ));
        }
        rest = &rest[size..];
    }
    frames
}

/// A begin that answers none.
pub(crate) fn first_begin(incoming_window: u32) -> Meaning<'static> {
    Meaning::Begin(Begin {
        remote_channel: None,
        next_outgoing_id: 0,
        incoming_window,
        outgoing_window: 100,
        handle_max: u32::MAX,
    })
}

/// An attach by one who sends (or receives) under that name.
pub(crate) fn attach(name: &str, handle: u32, role: Role) -> Meaning<'static> {
    Meaning::Attach(Box::new(Attach {
        name: name.to_owned(),
        handle,
        role,
        sender_settle_mode: SenderSettleMode::Mixed,
        receiver_settle_mode: ReceiverSettleMode::First,
        source: Some(Source::new("here")),
        target: Some(Target::new("there")),
        initial_delivery_count: (role == Role::Sender).then_some(0),
        max_message_size: None,
        offered_capabilities: Vec::new(),
        desired_capabilities: Vec::new(),
        properties: Vec::new(),
    }))
}

/// A flow that gives credit to the link `handle`.
pub(crate) fn credit(handle: u32, link_credit: u32) -> Meaning<'static> {
    Meaning::Flow(Flow {
        next_incoming_id: Some(1),
        incoming_window: 1_000,
        next_outgoing_id: 0,
        outgoing_window: 1_000,
        handle: Some(handle),
        delivery_count: Some(0),
        link_credit: Some(link_credit),
        ..Flow::default()
    })
}

/// The body of a transfer frame: a whole delivery, or its first or last part.
pub(crate) fn transfer(handle: u8, id: Option<u8>, more: bool, payload: &[u8]) -> Vec<u8> {
    let id = id.map_or_else(|| "40".to_owned(), |id| format!("52 {id:02x}"));
    let more = if more { "41" } else { "42" };
    let mut body = assemble(&format!("00 53 14 c0 < 06 52 {handle:02x} {id} a0 < 01 > 43 42 {more} >"));
    body.extend(payload);
    body
}
