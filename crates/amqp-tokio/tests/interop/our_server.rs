//! `fe2o3-amqp` as client of a server of ours.

use std::sync::Arc;
use std::time::{Duration, Instant};

use amqp::Connection;
use amqp::connection::{
    Config, ConnectionError, Credentials, Event, LinkAcceptance, LinkId, NewDelivery, SaslServer, SessionId,
};
use amqp::message::{MessageView, encode};
use amqp::performative::{DeliveryState, Error, ErrorCondition, Role, SaslCode};
use amqp_tokio::{Driver, accept};
use fe2o3_amqp::link::delivery::Sendable;
use fe2o3_amqp::link::receiver::CreditMode;
use fe2o3_amqp::sasl_profile::SaslProfile;
use fe2o3_amqp::types::messaging::{Body, Data, Message, Outcome};
use fe2o3_amqp::types::primitives::{Binary, Value};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

use crate::interop::{large, soon};

/// What the server has seen by the time that the connection is over.
#[derive(Debug, Default)]
struct Seen {
    messages: Vec<(Vec<u8>, bool)>,
    credentials: Option<Credentials>,
    outcomes: u32,
    closed: Option<Option<ConnectionError>>,
}

/// A server that takes what is sent to `in`, refuses links to `nowhere`, and sends [`COUNT`] messages from `out`,
/// as many from `settled`, a large one from `large`, and detaches links from `short` with an error.
struct Server {
    driver: Driver,
    seen: Seen,
    /// Outcomes held back for a moment: `fe2o3-amqp` drops a disposition that comes before it has noted down what it
    /// sent.
    outcomes_due: Vec<(SessionId, u32, DeliveryState)>,
    supplies: Vec<Supply>,
}

/// What is still to be sent on a link.
struct Supply {
    link: LinkId,
    left: u32,
    message: Vec<u8>,
    settled: bool,
}

/// Starts a server for one connection; its address and what it will have seen.
async fn serve(config: Config) -> (String, JoinHandle<Seen>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port is free");
    let address = format!("127.0.0.1:{}", listener.local_addr().expect("it is bound").port());
    let task = tokio::spawn(async move {
        let (socket, _) = listener.accept().await.expect("a client comes");
        let verify = |credentials: &Credentials| match credentials {
            Credentials::Anonymous => true,
            Credentials::Plain { username, password } => username == "user" && password == "right",
        };
        let engine = Connection::server(config, SaslServer { verify: Arc::new(verify) }, Instant::now());
        let stream = accept(socket).expect("the socket takes its options");
        Server {
            driver: Driver::new(engine, stream),
            seen: Seen::default(),
            outcomes_due: Vec::new(),
            supplies: Vec::new(),
        }
        .run()
        .await
    });
    (address, task)
}

impl Server {
    async fn run(mut self) -> Seen {
        let mut moment = tokio::time::interval(Duration::from_millis(2));
        loop {
            tokio::select! {
                event = self.driver.next_event() => match event {
                    Ok(event) => self.react(event),
                    Err(_) => break,
                },
                _ = moment.tick() => self.give_outcomes(),
            }
        }
        self.seen.credentials = self.driver.connection().credentials().cloned();
        self.driver.shut_down(Duration::from_secs(1)).await;
        self.seen
    }

    fn react(&mut self, event: Event) {
        let connection = self.driver.connection();
        match event {
            Event::LinkRequested { link, attach, .. } => {
                let address = match attach.role {
                    Role::Sender => attach.target.as_ref().and_then(|target| target.address.clone()),
                    Role::Receiver => attach.source.as_ref().and_then(|source| source.address.clone()),
                };
                let address = address.unwrap_or_default();
                if address == "nowhere" {
                    return connection
                        .refuse_link(link, Error::new(ErrorCondition::NOT_FOUND, "no such node"));
                }
                let limit = LinkAcceptance { max_message_size: Some(1 << 20), ..LinkAcceptance::default() };
                connection.accept_link(link, limit);
                match attach.role {
                    Role::Sender => connection.set_credit(link, 100),
                    Role::Receiver => self.supply(link, &address),
                }
            }
            Event::Credit(_) | Event::WindowOpen(_) => {}
            Event::Deliveries(deliveries) => {
                for delivery in deliveries.items() {
                    let view = MessageView::parse(deliveries.message(delivery)).expect("a message");
                    let payload = view.data().expect("it can be read").expect("it has data").to_vec();
                    let outcome = if payload == b"reject" {
                        DeliveryState::Rejected(Some(Error::new(ErrorCondition::NOT_ALLOWED, "not this")))
                    } else {
                        DeliveryState::Accepted
                    };
                    let session = connection.session_of(delivery.link).expect("the link is there");
                    if !delivery.settled {
                        self.outcomes_due.push((session, delivery.id, outcome));
                    }
                    self.seen.messages.push((payload, delivery.settled));
                    if connection.credit(delivery.link) < 50 {
                        connection.set_credit(delivery.link, 100);
                    }
                }
                connection.recycle(deliveries);
            }
            Event::Outcome { first, last, state, .. } => {
                assert_eq!(state, Some(DeliveryState::Accepted));
                self.seen.outcomes += last - first + 1;
            }
            Event::Closed(reason) => self.seen.closed = Some(reason),
            _ => {}
        }
        self.send();
    }

    fn supply(&mut self, link: LinkId, address: &str) {
        if address == "short" {
            let error = Error::new(ErrorCondition::DETACH_FORCED, "closing time");
            return self.driver.connection().detach_link(link, Some(error));
        }
        let mut message = Vec::new();
        encode::data(&mut message, &if address == "large" { large() } else { b"supplied".to_vec() });
        self.supplies.push(Supply {
            link,
            left: if address == "large" { 1 } else { COUNT },
            message,
            settled: address == "settled",
        });
    }

    fn send(&mut self) {
        for supply in &mut self.supplies {
            let Some(mut sender) = self.driver.connection().sender(supply.link) else {
                continue;
            };
            let delivery = NewDelivery { tag: b"t", format: 0, settled: supply.settled };
            while supply.left > 0 && sender.send(&delivery, &[&supply.message]).is_ok() {
                supply.left -= 1;
            }
        }
    }

    fn give_outcomes(&mut self) {
        for (session, id, outcome) in self.outcomes_due.drain(..) {
            self.driver.connection().settle(session, id, id, outcome);
        }
    }
}

type Client = (fe2o3_amqp::connection::ConnectionHandle<()>, fe2o3_amqp::session::SessionHandle<()>);

async fn client(address: &str) -> Client {
    let mut connection = soon(fe2o3_amqp::Connection::open("client", format!("amqp://{address}").as_str()))
        .await
        .expect("it opens");
    let session = soon(fe2o3_amqp::Session::begin(&mut connection)).await.expect("it begins");
    (connection, session)
}

async fn finish((mut connection, mut session): Client, server: JoinHandle<Seen>) -> Seen {
    soon(session.end()).await.expect("it ends");
    soon(connection.close()).await.expect("it closes");
    let seen = soon(server).await.expect("the server does not panic");
    assert_eq!(seen.closed, Some(None));
    seen
}

fn data(payload: &[u8]) -> Message<Data> {
    Message::builder().data(Data(Binary::from(payload.to_vec()))).build()
}

#[tokio::test]
async fn it_sends_settled_and_unsettled_and_learns_the_outcomes() {
    let (address, server) = serve(Config::default()).await;
    let mut client = client(&address).await;
    let mut sender = soon(fe2o3_amqp::Sender::attach(&mut client.1, "s", "in")).await.expect("it attaches");
    for _ in 0..150 {
        let outcome = soon(sender.send(data(b"fine"))).await.expect("it is sent");
        assert!(matches!(outcome, Outcome::Accepted(_)), "{outcome:?}");
    }
    let outcome = soon(sender.send(data(b"reject"))).await.expect("it is sent");
    let Outcome::Rejected(rejected) = outcome else { panic!("{outcome:?}") };
    assert_eq!(rejected.error.expect("with a reason").description.as_deref(), Some("not this"));
    let settled = Sendable::builder().message(data(b"settled")).settled(true).build();
    soon(sender.send(settled)).await.expect("it is sent");
    soon(sender.close()).await.expect("it closes");
    let seen = finish(client, server).await;
    assert_eq!(seen.messages.len(), 152);
    assert_eq!(seen.messages[151], (b"settled".to_vec(), true));
    assert_eq!(seen.credentials, Some(Credentials::Anonymous));
}

#[tokio::test]
async fn it_sends_a_message_of_many_frames() {
    let config = Config { max_frame_size: 4_096, incoming_window: 8, ..Config::default() };
    let (address, server) = serve(config).await;
    let mut client = client(&address).await;
    let mut sender = soon(fe2o3_amqp::Sender::attach(&mut client.1, "s", "in")).await.expect("it attaches");
    soon(sender.send(data(&large()))).await.expect("it is sent");
    soon(sender.close()).await.expect("it closes");
    let seen = finish(client, server).await;
    assert!(seen.messages == [(large(), false)]);
}

#[tokio::test]
async fn a_message_that_is_too_large_is_kept_or_rejected_and_the_link_goes_on() {
    let (address, server) = serve(Config::default()).await;
    let mut client = client(&address).await;
    let mut sender = soon(fe2o3_amqp::Sender::attach(&mut client.1, "s", "in")).await.expect("it attaches");
    assert_eq!(sender.max_message_size(), Some(1 << 20), "it knows the limit");
    let result = soon(sender.send(data(&vec![0; (1 << 20) + 1]))).await;
    assert!(!matches!(result, Ok(Outcome::Accepted(_))), "{result:?}");
    soon(sender.send(data(b"after"))).await.expect("the link goes on");
    soon(sender.close()).await.expect("it closes");
    let seen = finish(client, server).await;
    assert_eq!(seen.messages, [(b"after".to_vec(), false)]);
}

#[tokio::test]
async fn it_receives_settled_and_unsettled_within_its_credit() {
    for address_of_node in ["out", "settled"] {
        let (address, server) = serve(Config::default()).await;
        let mut client = client(&address).await;
        let mut receiver = soon(
            fe2o3_amqp::Receiver::builder()
                .name("r")
                .source(address_of_node)
                .credit_mode(CreditMode::Manual)
                .attach(&mut client.1),
        )
        .await
        .expect("it attaches");
        let mut received = 0;
        while received < COUNT {
            soon(receiver.set_credit(7)).await.expect("it has credit to give");
            for _ in 0..7.min(COUNT - received) {
                let delivery = soon(receiver.recv::<Body<Value>>()).await.expect("it receives");
                if address_of_node == "out" {
                    soon(receiver.accept(&delivery)).await.expect("it accepts");
                }
                received += 1;
            }
        }
        soon(receiver.close()).await.expect("it closes");
        let seen = finish(client, server).await;
        assert_eq!(seen.outcomes, if address_of_node == "out" { COUNT } else { 0 });
    }
}

#[tokio::test]
async fn it_receives_a_message_of_many_frames() {
    let (address, server) = serve(Config::default()).await;
    let mut connection = soon(
        fe2o3_amqp::Connection::builder()
            .container_id("client")
            .max_frame_size(1_024u32)
            .open(format!("amqp://{address}").as_str()),
    )
    .await
    .expect("it opens");
    let mut session = soon(fe2o3_amqp::Session::builder().incoming_window(16).begin(&mut connection))
        .await
        .expect("it begins");
    let mut receiver =
        soon(fe2o3_amqp::Receiver::attach(&mut session, "r", "large")).await.expect("it attaches");
    let delivery = soon(receiver.recv::<Data>()).await.expect("it receives");
    assert!(delivery.body().0[..] == large()[..]);
    soon(receiver.accept(&delivery)).await.expect("it accepts");
    soon(receiver.close()).await.expect("it closes");
    let seen = finish((connection, session), server).await;
    assert_eq!(seen.outcomes, 1);
}

#[tokio::test]
async fn it_understands_a_refusal_and_can_attach_elsewhere() {
    let (address, server) = serve(Config::default()).await;
    let mut client = client(&address).await;
    // A session of its own for each attempt: fe2o3-amqp detaches a refused link twice, and with the detach on the heels
    // of the attach it may lose track of the handle, or report an illegal state in place of the error.
    for receives in [false, true] {
        let mut session = soon(fe2o3_amqp::Session::begin(&mut client.0)).await.expect("it begins");
        if receives {
            let refused = soon(fe2o3_amqp::Receiver::attach(&mut session, "r", "nowhere")).await;
            refused.expect_err("the link is refused");
        } else {
            let refused = soon(fe2o3_amqp::Sender::attach(&mut session, "s", "nowhere")).await;
            refused.expect_err("the link is refused");
        }
        soon(session.end()).await.expect("the session has not ended before");
    }
    let mut sender = soon(fe2o3_amqp::Sender::attach(&mut client.1, "s", "in")).await.expect("it attaches");
    soon(sender.send(data(b"here"))).await.expect("it is sent");
    soon(sender.close()).await.expect("it closes");
    assert_eq!(finish(client, server).await.messages.len(), 1);
}

#[tokio::test]
async fn it_learns_with_what_error_its_link_was_detached() {
    let (address, server) = serve(Config::default()).await;
    let mut client = client(&address).await;
    let mut receiver =
        soon(fe2o3_amqp::Receiver::attach(&mut client.1, "r", "short")).await.expect("it attaches");
    let error = soon(receiver.recv::<Body<Value>>()).await.expect_err("the link is detached");
    assert!(format!("{error:?}").contains("closing time"), "{error:?}");
    drop(receiver);
    soon(client.1.end()).await.ok();
    soon(client.0.close()).await.ok();
    soon(server).await.expect("the server does not panic");
}

#[tokio::test]
async fn plain_lets_it_in_with_the_right_password_only() {
    for (password, welcome) in [("right", true), ("wrong", false)] {
        let (address, server) = serve(Config::default()).await;
        let profile = SaslProfile::Plain { username: "user".to_owned(), password: password.to_owned() };
        let opened = soon(
            fe2o3_amqp::Connection::builder()
                .container_id("client")
                .sasl_profile(profile)
                .open(format!("amqp://{address}").as_str()),
        )
        .await;
        assert_eq!(opened.is_ok(), welcome, "{opened:?}");
        if let Ok(mut connection) = opened {
            soon(connection.close()).await.expect("it closes");
        }
        let seen = soon(server).await.expect("the server does not panic");
        if welcome {
            let expected = Credentials::Plain { username: "user".to_owned(), password: "right".to_owned() };
            assert_eq!((seen.credentials, seen.closed), (Some(expected), Some(None)));
        } else {
            assert_eq!(seen.closed, Some(Some(ConnectionError::SaslRefused(SaslCode::Auth))));
        }
    }
}

/// Messages supplied by the nodes `out` and `settled`.
const COUNT: u32 = 40;
