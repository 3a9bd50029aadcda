//! A client and a server that talk through memory, in virtual time.
//!
//! The pair moves bytes from one end's output to the other's input, a flight at a time: all that an end has to say at
//! once. A [`Cut`] says how flights are divided on their way; whatever it is, the same must come of it.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use amqp::connection::{
    Config, ConnectionError, Credentials, Event, LinkAcceptance, LinkId, LinkOptions, NewDelivery,
    SaslClient, SaslServer, SendError, SessionId,
};
use amqp::performative::{Attach, DeliveryState, Error, Source, Target};
use amqp::{Connection, TransactionId};
use bytes::BytesMut;

/// How the bytes of a conversation are divided.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Cut {
    /// Each flight arrives whole.
    Nowhere,
    /// Every byte arrives on its own.
    Everywhere,
    /// What the client sends is cut before this byte, counted from the start of the conversation.
    ToServer(usize),
    /// The same for what the server sends.
    ToClient(usize),
}

/// What the two ends are made of.
#[derive(Debug, Clone)]
pub(crate) struct Setup {
    pub(crate) client: Config,
    pub(crate) server: Config,
    pub(crate) sasl: SaslClient,
}

impl Default for Setup {
    fn default() -> Self {
        Self {
            client: Config { container_id: "client".to_owned(), ..Config::default() },
            server: Config { container_id: "server".to_owned(), ..Config::default() },
            sasl: SaslClient::Anonymous,
        }
    }
}

/// The password that the server of a pair accepts.
pub(crate) const PASSWORD: &str = "open sesame";

/// One end, with what it has been told and has not looked at.
#[derive(Debug)]
pub(crate) struct End {
    pub(crate) connection: Connection,
    /// What happened and has not been asked for yet.
    happened: VecDeque<Happening>,
    /// Everything that ever happened, in words.
    log: Vec<String>,
    input: BytesMut,
    received: usize,
}

/// An event taken apart, so that it does not depend on how input was divided.
#[derive(Debug, PartialEq)]
pub(crate) enum Happening {
    Opened,
    SessionBegan(SessionId),
    SessionEnded(SessionId, Option<Error>),
    LinkRequested(LinkId, Box<Attach>),
    LinkAttached(LinkId, Box<Attach>),
    LinkDetached(LinkId, Option<Error>),
    Credit(LinkId),
    WindowOpen(SessionId),
    DrainRequested(LinkId),
    Drained(LinkId),
    Message(Message),
    DeliveryRefused(Error),
    Outcome(u32, u32, Option<DeliveryState>),
    /// Whether the deliveries are known comes last.
    OutcomeProposed(u32, u32, DeliveryState, bool),
    SettledBySender(u32, u32, Option<DeliveryState>),
    TakenBySender(u32, u32, DeliveryState),
    Closed(Option<ConnectionError>),
}

/// A message that arrived.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Message {
    pub(crate) link: LinkId,
    pub(crate) id: u32,
    pub(crate) format: u32,
    pub(crate) tag: Vec<u8>,
    pub(crate) bytes: Vec<u8>,
    pub(crate) settled: bool,
    pub(crate) transaction: Option<TransactionId>,
}

#[derive(Debug)]
pub(crate) struct Pair {
    pub(crate) client: End,
    pub(crate) server: End,
    pub(crate) now: Instant,
    cut: Cut,
}

impl Pair {
    pub(crate) fn new(setup: &Setup, cut: Cut) -> Self {
        let now = start();
        let verify = SaslServer {
            verify: Arc::new(|credentials| match credentials {
                Credentials::Anonymous => true,
                Credentials::Plain { password, .. } => password == PASSWORD,
            }),
        };
        Self {
            client: End::new(Connection::client(setup.client.clone(), setup.sasl.clone(), now)),
            server: End::new(Connection::server(setup.server.clone(), verify, now)),
            now,
            cut,
        }
    }

    /// Lets both ends talk until neither has anything more to say.
    pub(crate) fn talk(&mut self) {
        for _ in 0..1_000 {
            let cut = match self.cut {
                Cut::ToServer(offset) => Cut::ToServer(offset),
                Cut::Everywhere => Cut::Everywhere,
                _ => Cut::Nowhere,
            };
            let to_server = carry(self.now, &mut self.client, &mut self.server, cut);
            let cut = match self.cut {
                Cut::ToClient(offset) => Cut::ToServer(offset),
                Cut::Everywhere => Cut::Everywhere,
                _ => Cut::Nowhere,
            };
            let to_client = carry(self.now, &mut self.server, &mut self.client, cut);
            if !to_server && !to_client {
                return;
            }
        }
        panic!("the two ends talk without end");
    }

    /// Carries what one end has to say to the other, and no answer back.
    pub(crate) fn carry(&mut self, from_client: bool) {
        let (from, to) = if from_client {
            (&mut self.client, &mut self.server)
        } else {
            (&mut self.server, &mut self.client)
        };
        carry(self.now, from, to, Cut::Nowhere);
    }

    /// Lets time pass, keeping every deadline on the way.
    pub(crate) fn pass(&mut self, duration: Duration) {
        let end = self.now + duration;
        self.talk();
        loop {
            let deadlines = [self.client.connection.poll_timeout(), self.server.connection.poll_timeout()];
            let Some(next) = deadlines.into_iter().flatten().min().filter(|next| *next <= end) else {
                break;
            };
            self.now = self.now.max(next);
            for peer in [&mut self.client, &mut self.server] {
                if peer.connection.poll_timeout().is_some_and(|deadline| deadline <= self.now) {
                    peer.connection.handle_timeout(self.now);
                    peer.look();
                }
            }
            self.talk();
        }
        self.now = end;
    }

    /// Lets time pass for the client alone: nothing that it says arrives, and nothing reaches it.
    pub(crate) fn pass_apart(&mut self, duration: Duration) {
        self.now += duration;
        for peer in [&mut self.client, &mut self.server] {
            peer.connection.handle_timeout(self.now);
            peer.look();
        }
    }

    /// Brings the connection up, and forgets what happened on the way.
    pub(crate) fn open(&mut self) {
        self.talk();
        assert_eq!(self.client.next(), Some(Happening::Opened));
        assert_eq!(self.server.next(), Some(Happening::Opened));
    }

    /// Opens, and begins a session of the client. Both ends' ids of it.
    pub(crate) fn begin(&mut self) -> (SessionId, SessionId) {
        self.open();
        let session = self.client.connection.begin_session().expect("the connection is open");
        self.talk();
        assert_eq!(self.client.next(), Some(Happening::SessionBegan(session)));
        match self.server.next() {
            Some(Happening::SessionBegan(theirs)) => (session, theirs),
            other => panic!("{other:?} in place of a session"),
        }
    }

    /// Opens, begins, and attaches a link by which the client sends. Both ends' ids of it.
    pub(crate) fn attach_sender(&mut self, acceptance: LinkAcceptance) -> (LinkId, LinkId) {
        let (session, _) = self.begin();
        let link = self.client.connection.attach_sender(session, options("link")).expect("there is room");
        (link, self.accept(link, acceptance))
    }

    /// Opens, begins, and attaches a link by which the client receives. Both ends' ids of it.
    pub(crate) fn attach_receiver(&mut self, options: LinkOptions) -> (LinkId, LinkId) {
        let (session, _) = self.begin();
        let link = self.client.connection.attach_receiver(session, options).expect("there is room");
        (link, self.accept(link, LinkAcceptance::default()))
    }

    /// Lets the server accept the link that the client has asked for.
    pub(crate) fn accept(&mut self, link: LinkId, acceptance: LinkAcceptance) -> LinkId {
        self.talk();
        let (theirs, _) = self.server.requested();
        self.server.connection.accept_link(theirs, acceptance);
        self.talk();
        match self.client.next() {
            Some(Happening::LinkAttached(attached, _)) if attached == link => theirs,
            other => panic!("{other:?} in place of {link:?} being attached"),
        }
    }
}

impl End {
    pub(crate) fn new(connection: Connection) -> Self {
        Self { connection, happened: VecDeque::new(), log: Vec::new(), input: BytesMut::new(), received: 0 }
    }

    /// The next thing that happened.
    pub(crate) fn next(&mut self) -> Option<Happening> {
        self.look();
        self.happened.pop_front()
    }

    /// Everything that happened since it was last asked for.
    pub(crate) fn all(&mut self) -> Vec<Happening> {
        self.look();
        self.happened.drain(..).collect()
    }

    /// The messages among what happened; the rest is forgotten.
    pub(crate) fn messages(&mut self) -> Vec<Message> {
        self.all()
            .into_iter()
            .filter_map(|happening| match happening {
                Happening::Message(message) => Some(message),
                _ => None,
            })
            .collect()
    }

    /// The link that the peer asked for, which must be what happened next.
    pub(crate) fn requested(&mut self) -> (LinkId, Attach) {
        match self.next() {
            Some(Happening::LinkRequested(link, attach)) => (link, *attach),
            other => panic!("{other:?} in place of a link request"),
        }
    }

    /// Sends a message with an empty tag.
    pub(crate) fn send(&mut self, link: LinkId, message: &[u8], settled: bool) -> Result<u32, SendError> {
        let delivery = NewDelivery { tag: b"tag", format: 0, settled };
        self.connection.sender(link).ok_or(SendError::NotAttached)?.send(&delivery, &[message])
    }

    /// Hands `bytes` to the connection as if the peer had sent them.
    pub(crate) fn hear(&mut self, now: Instant, bytes: &[u8]) {
        self.received += bytes.len();
        self.input.extend_from_slice(bytes);
        let _ = self.connection.handle_input(now, &mut self.input);
    }

    /// Takes the events apart and writes them down.
    pub(crate) fn look(&mut self) {
        while let Some(event) = self.connection.poll_event() {
            self.look_at(event);
        }
    }

    fn look_at(&mut self, event: Event) {
        let happening = match event {
            Event::Opened(_) => Happening::Opened,
            Event::SessionBegan(session) => Happening::SessionBegan(session),
            Event::SessionEnded { session, error } => Happening::SessionEnded(session, error),
            Event::LinkRequested { link, attach, .. } => Happening::LinkRequested(link, attach),
            Event::LinkAttached { link, attach } => Happening::LinkAttached(link, attach),
            Event::LinkDetached { link, error } => Happening::LinkDetached(link, error),
            Event::Credit(link) => Happening::Credit(link),
            Event::WindowOpen(session) => Happening::WindowOpen(session),
            Event::DrainRequested(link) => Happening::DrainRequested(link),
            Event::Drained(link) => Happening::Drained(link),
            Event::Outcome { first, last, state, .. } => Happening::Outcome(first, last, state),
            Event::OutcomeProposed { first, last, state, is_known, .. } => {
                Happening::OutcomeProposed(first, last, state, is_known)
            }
            Event::SettledBySender { first, last, state, .. } => {
                Happening::SettledBySender(first, last, state)
            }
            Event::DeliveryRefused { error, .. } => Happening::DeliveryRefused(*error),
            Event::TakenBySender { first, last, state, .. } => Happening::TakenBySender(first, last, state),
            Event::Closed(error) => Happening::Closed(error),
            Event::Deliveries(deliveries) => {
                for (place, delivery) in deliveries.items().iter().enumerate() {
                    let message = Message {
                        link: delivery.link,
                        id: delivery.id,
                        format: delivery.format,
                        tag: deliveries.tag(delivery).to_vec(),
                        bytes: deliveries.message(delivery).to_vec(),
                        settled: delivery.settled,
                        transaction: deliveries.transaction(place),
                    };
                    self.note(Happening::Message(message));
                }
                self.connection.recycle(deliveries);
                return;
            }
        };
        self.note(happening);
    }

    fn note(&mut self, happening: Happening) {
        self.log.push(format!("{happening:?}"));
        self.happened.push_back(happening);
    }
}

/// Carries what `from` has to say to `to`. Says whether there was anything.
fn carry(now: Instant, from: &mut End, to: &mut End, cut: Cut) -> bool {
    let flight = from.connection.poll_output(now).to_vec();
    from.connection.consume_output(flight.len());
    if flight.is_empty() {
        return false;
    }
    let start = to.received;
    match cut {
        Cut::Everywhere => flight.chunks(1).for_each(|byte| to.hear(now, byte)),
        Cut::ToServer(offset) if (start + 1..start + flight.len()).contains(&offset) => {
            let (before, after) = flight.split_at(offset - start);
            to.hear(now, before);
            to.hear(now, after);
        }
        _ => to.hear(now, &flight),
    }
    to.look();
    true
}

/// The time at which a conversation starts. Only the distance from it matters.
#[expect(clippy::disallowed_methods, reason = "an instant can be had from nowhere else")]
pub(crate) fn start() -> Instant {
    Instant::now()
}

/// Options for a link of that name between two nodes.
pub(crate) fn options(name: &str) -> LinkOptions {
    LinkOptions {
        name: name.to_owned(),
        source: Source::new("source"),
        target: Target::new("target"),
        ..LinkOptions::default()
    }
}

/// Holds a conversation whole, byte by byte, and cut at every offset in either direction. Each time the same must
/// happen; long conversations are cut at a sample of their offsets.
pub(crate) fn converse(setup: &Setup, script: impl Fn(&mut Pair)) {
    let hold = |cut| {
        let mut pair = Pair::new(setup, cut);
        script(&mut pair);
        pair.client.look();
        pair.server.look();
        pair
    };
    let whole = hold(Cut::Nowhere);
    let check = |cut| {
        let pair = hold(cut);
        assert_eq!(pair.client.log, whole.client.log, "what the client saw with {cut:?}");
        assert_eq!(pair.server.log, whole.server.log, "what the server saw with {cut:?}");
    };
    check(Cut::Everywhere);
    for offset in offsets(whole.server.received) {
        check(Cut::ToServer(offset));
    }
    for offset in offsets(whole.client.received) {
        check(Cut::ToClient(offset));
    }
}

/// Every offset, or about [`OFFSETS_MAX`] of them that do not fall into step with anything.
fn offsets(length: usize) -> impl Iterator<Item = usize> {
    let stride = match length / OFFSETS_MAX {
        0 => 1,
        stride => stride | 1,
    };
    (1..length).step_by(stride)
}

const OFFSETS_MAX: usize = 1_000;
