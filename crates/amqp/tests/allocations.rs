//! After a warm-up no transfer allocates: neither on its way out nor in, settled or not.

use std::sync::Arc;
use std::time::Instant;

use amqp::Connection;
use amqp::connection::{
    Config, Event, LinkAcceptance, LinkId, LinkOptions, NewDelivery, SaslClient, SaslServer, SessionId,
};
use amqp::message::encode;
use amqp::performative::DeliveryState;
use bytes::BytesMut;
use counting_allocator::{Usage, measure};

#[test]
fn settled_transfers_allocate_nothing() {
    let mut ends = Ends::new();
    ends.exchange(200, true);
    let (received, usage) = measure(|| ends.exchange(200, true));
    assert_eq!(received, 200 * BATCH);
    assert_eq!(usage.allocations, 0, "{usage:?}");
}

#[test]
fn unsettled_transfers_and_their_outcomes_allocate_nothing() {
    let mut ends = Ends::new();
    ends.exchange(200, false);
    let (received, usage) = measure(|| ends.exchange(200, false));
    assert_eq!(received, 200 * BATCH);
    assert_eq!(usage.allocations, 0, "{usage:?}");
    assert_eq!(ends.settled, 400 * BATCH);
}

#[test]
fn the_counter_counts() {
    let (kept, usage) = measure(|| vec![0u8; 1_000]);
    assert_eq!(usage, Usage { allocations: 1, peak_bytes: 1_000 });
    drop(kept);
}

/// A client that sends to a server through a buffer that is used again, as the driver's is.
struct Ends {
    now: Instant,
    client: Connection,
    server: Connection,
    to_server: BytesMut,
    to_client: BytesMut,
    sender: Option<LinkId>,
    receiver: Option<(LinkId, SessionId)>,
    message: Vec<u8>,
    settled: usize,
}

impl Ends {
    fn new() -> Self {
        let now = start();
        let mut message = Vec::new();
        encode::data(&mut message, &[7; 16]);
        let mut ends = Self {
            now,
            client: Connection::client(Config::default(), SaslClient::Anonymous, now),
            server: Connection::server(Config::default(), SaslServer { verify: Arc::new(|_| true) }, now),
            to_server: BytesMut::with_capacity(BUFFER),
            to_client: BytesMut::with_capacity(BUFFER),
            sender: None,
            receiver: None,
            message,
            settled: 0,
        };
        for _ in 0..10 {
            ends.turn();
        }
        assert!(ends.client.credit(ends.sender.expect("the link is attached")) > 0);
        ends
    }

    /// Sends so many batches, each through to its settlement; how many messages arrived.
    fn exchange(&mut self, batches: usize, settled: bool) -> usize {
        let link = self.sender.expect("the link is attached");
        let delivery = NewDelivery { tag: &[1, 2, 3, 4], format: 0, settled };
        let mut received = 0;
        for _ in 0..batches {
            let mut sender = self.client.sender(link).expect("the link is there");
            for _ in 0..BATCH {
                sender.send(&delivery, &[&self.message]).expect("there is credit");
            }
            received += self.turn();
        }
        received
    }

    /// Carries what there is both ways and handles it.
    fn turn(&mut self) -> usize {
        carry(self.now, &mut self.client, &mut self.server, &mut self.to_server);
        let mut received = 0;
        while let Some(event) = self.server.poll_event() {
            match event {
                Event::LinkRequested { link, session, .. } => {
                    self.server.accept_link(link, LinkAcceptance::default());
                    self.server.set_credit(link, CREDIT);
                    self.receiver = Some((link, session));
                }
                Event::Deliveries(deliveries) => {
                    let (link, session) = self.receiver.expect("the link is attached");
                    received += deliveries.items().len();
                    for delivery in deliveries.items() {
                        assert_eq!(deliveries.message(delivery), self.message);
                        if !delivery.settled {
                            self.server.settle(session, delivery.id, delivery.id, DeliveryState::Accepted);
                        }
                    }
                    self.server.recycle(deliveries);
                    if self.server.credit(link) < CREDIT / 2 {
                        self.server.set_credit(link, CREDIT);
                    }
                }
                _ => {}
            }
        }
        carry(self.now, &mut self.server, &mut self.client, &mut self.to_client);
        while let Some(event) = self.client.poll_event() {
            match event {
                Event::Opened(_) => {
                    let session = self.client.begin_session().expect("the connection is open");
                    let options = LinkOptions { name: "link".to_owned(), ..LinkOptions::default() };
                    self.sender = self.client.attach_sender(session, options);
                }
                Event::Outcome { first, last, state, .. } => {
                    assert_eq!(state, Some(DeliveryState::Accepted));
                    self.settled += (last - first) as usize + 1;
                }
                _ => {}
            }
        }
        received
    }
}

fn carry(now: Instant, from: &mut Connection, to: &mut Connection, buffer: &mut BytesMut) {
    let output = from.poll_output(now);
    assert!(output.len() <= BUFFER);
    if buffer.capacity() < output.len() {
        assert!(buffer.try_reclaim(BUFFER), "no one holds on to input that has been dealt with");
    }
    buffer.extend_from_slice(output);
    let length = output.len();
    from.consume_output(length);
    to.handle_input(now, buffer).expect("both ends keep the rules");
}

#[expect(clippy::disallowed_methods, reason = "an instant can be had from nowhere else")]
fn start() -> Instant {
    Instant::now()
}

/// Messages per turn.
const BATCH: usize = 500;

const CREDIT: u32 = 5_000;

const BUFFER: usize = 256 * 1024;
