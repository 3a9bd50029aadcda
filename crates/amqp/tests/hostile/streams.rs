//! Hostile input as plain functions of bytes, which the tests here and the fuzz targets call alike.
//!
//! Whatever comes, a server does not panic; what it holds stays within a bound; and if it gives up, its last words name a
//! condition.

use std::sync::Arc;
use std::time::{Duration, Instant};

use amqp::Connection;
use amqp::codec::Reader;
use amqp::connection::{Config, ConnectionError, Event, LinkAcceptance, NewDelivery, SaslServer};
use amqp::message::{MessageView, SectionKind, Sections};
use amqp::performative::{DeliveryState, Role};
use bytes::BytesMut;

/// Reads `bytes` as a value in every way there is.
pub(crate) fn decode(bytes: &[u8]) {
    let mut read = Reader::new(bytes);
    if read.value().is_ok() {
        let mut skipped = Reader::new(bytes);
        assert_eq!(skipped.skip(), Ok(()));
        assert_eq!(skipped.rest(), read.rest(), "skipping consumes what reading consumes");
    }
    if let Ok(Some(map)) = Reader::new(bytes).map() {
        let _ = map.fields();
    }
    let _ = Reader::new(bytes).symbols();
    let _ = Reader::new(bytes).descriptor();
}

/// Reads `bytes` as a message.
pub(crate) fn sections(bytes: &[u8]) {
    let mut at = 0;
    for section in Sections::new(bytes) {
        let Ok(section) = section else { break };
        assert_eq!(&bytes[at..at + section.encoded.len()], section.encoded, "sections are consecutive");
        at += section.encoded.len();
        if section.kind == SectionKind::Data
            && let Ok(payload) = section.data()
        {
            assert!(payload.len() < section.encoded.len());
        }
    }
    if let Ok(view) = MessageView::parse(bytes) {
        let _ = (view.properties(), view.data(), view.value());
        for entries in
            [view.message_annotations(), view.delivery_annotations(), view.application_properties()]
        {
            let _ = entries.map(|entries| (entries.find("x-opt-partition-key"), entries.entries()));
        }
    }
}

/// How a server fared.
#[derive(Debug)]
pub(crate) struct Fate {
    /// Whether the connection came to its end, and why.
    pub(crate) closed: Option<Option<ConnectionError>>,
    /// What the server said.
    pub(crate) output: Vec<u8>,
    /// Events that it reported.
    pub(crate) events: usize,
}

/// Feeds `stream` to a server in pieces whose lengths follow `stride`, with an application that takes whatever comes:
/// accepts links, gives credit, sends as long as it has credit, settles, and tires of a link now and then.
pub(crate) fn serve(start: Instant, stream: &[u8], stride: usize) -> Fate {
    let config = Config {
        max_frame_size: MAX_FRAME_SIZE,
        channel_max: 7,
        handle_max: 15,
        links_max: 32,
        incoming_window: 64,
        ..Config::default()
    };
    let mut server = Connection::server(config, SaslServer { verify: Arc::new(|_| true) }, start);
    let mut fate = Fate { closed: None, output: Vec::new(), events: 0 };
    let mut input = BytesMut::new();
    let mut now = start;
    for piece in stream.chunks(stride.max(1)) {
        now += Duration::from_millis(1);
        input.extend_from_slice(piece);
        let _ = server.handle_input(now, &mut input);
        assert!(input.len() <= MAX_FRAME_SIZE as usize, "no more than one frame waits for its rest");
        while let Some(event) = server.poll_event() {
            assert!(fate.closed.is_none(), "{event:?} after the end");
            fate.events += 1;
            react(&mut server, event, &mut fate);
        }
        if server.poll_timeout().is_some_and(|deadline| deadline <= now) {
            server.handle_timeout(now);
        }
        let output = server.poll_output(now);
        if fate.output.len() < OUTPUT_KEPT {
            fate.output.extend_from_slice(output);
        }
        let length = output.len();
        server.consume_output(length);
    }
    assert_eq!(server.is_closed(), fate.closed.is_some(), "the end is reported");
    fate
}

fn react(server: &mut Connection, event: Event, fate: &mut Fate) {
    match event {
        Event::LinkRequested { link, attach, .. } => {
            let acceptance =
                LinkAcceptance { max_message_size: Some(MAX_MESSAGE_SIZE), ..LinkAcceptance::default() };
            server.accept_link(link, acceptance);
            if attach.role == Role::Sender {
                server.set_credit(link, 10);
            }
        }
        Event::Credit(link) | Event::DrainRequested(link) => {
            for settled in [true, false, false] {
                let delivery = NewDelivery { tag: b"tag", format: 0, settled };
                if let Some(mut sender) = server.sender(link) {
                    let _ = sender.send(&delivery, &[&[0x55; 700]]);
                }
            }
            if let Some(mut sender) = server.sender(link) {
                sender.drained();
            }
        }
        Event::Deliveries(deliveries) => {
            for delivery in deliveries.items() {
                sections(deliveries.message(delivery));
                let session = server.session_of(delivery.link);
                if let Some(session) = session.filter(|_| !delivery.settled) {
                    server.settle(session, delivery.id, delivery.id, DeliveryState::Accepted);
                }
                if delivery.id % 7 == 6 {
                    server.detach_link(delivery.link, None);
                }
            }
            server.recycle(deliveries);
        }
        Event::Closed(reason) => fate.closed = Some(reason),
        _ => {}
    }
}

/// Largest frame that the server takes, in bytes: small, so that random sizes are often within it.
pub(crate) const MAX_FRAME_SIZE: u32 = 4_096;

/// Largest message that its links take, in bytes.
pub(crate) const MAX_MESSAGE_SIZE: u64 = 16_384;

/// Output of which more is not looked at, in bytes.
const OUTPUT_KEPT: usize = 1 << 20;
