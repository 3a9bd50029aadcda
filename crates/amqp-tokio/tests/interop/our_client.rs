//! A client of ours against an acceptor of `fe2o3-amqp`.

use std::time::{Duration, Instant};

use amqp::Connection;
use amqp::connection::{
    Config, ConnectionError, Event, LinkId, LinkOptions, NewDelivery, SaslClient, SessionId,
};
use amqp::message::{MessageView, encode};
use amqp::performative::{DeliveryState, SaslCode, SenderSettleMode, Source, Target};
use amqp_tokio::{Driver, connect};
use fe2o3_amqp::acceptor::{
    ConnectionAcceptor, LinkAcceptor, LinkEndpoint, ListenerConnectionHandle, ListenerSessionHandle,
    SaslPlainMechanism, SessionAcceptor,
};
use fe2o3_amqp::link::delivery::Sendable;
use fe2o3_amqp::types::definitions::{AmqpError, Error};
use fe2o3_amqp::types::messaging::{Data, Message, Outcome};
use fe2o3_amqp::types::primitives::Binary;
use tokio::net::{TcpListener, TcpStream};

use crate::interop::{large, soon};

async fn listen() -> (TcpListener, u16) {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port is free");
    let port = listener.local_addr().expect("it is bound").port();
    (listener, port)
}

async fn socket(listener: TcpListener) -> TcpStream {
    let (socket, _) = listener.accept().await.expect("a client comes");
    socket.set_nodelay(true).expect("the socket takes its options");
    socket
}

/// The acceptor's end of a connection with a session and a link.
async fn accept_link(
    listener: TcpListener,
) -> (ListenerConnectionHandle, ListenerSessionHandle, LinkEndpoint) {
    let acceptor = ConnectionAcceptor::builder().container_id("acceptor").max_frame_size(2_048u32).build();
    let mut connection = acceptor.accept(socket(listener).await).await.expect("it opens");
    let mut session = SessionAcceptor::new().accept(&mut connection).await.expect("it begins");
    let link = LinkAcceptor::new().accept(&mut session).await.expect("it attaches");
    (connection, session, link)
}

/// Our end of it.
struct Client {
    driver: Driver,
    session: SessionId,
    link: LinkId,
}

impl Client {
    async fn open(port: u16, sasl: SaslClient) -> (Driver, Event) {
        let stream =
            connect("127.0.0.1", port, None, Duration::from_secs(5)).await.expect("somebody listens");
        let config = Config { container_id: "client".to_owned(), ..Config::default() };
        let mut driver = Driver::new(Connection::client(config, sasl, Instant::now()), stream);
        let event = soon(driver.next_event()).await.expect("something happens");
        (driver, event)
    }

    async fn attach(port: u16, sends: bool) -> Self {
        let (mut driver, event) = Self::open(port, SaslClient::None).await;
        assert!(matches!(event, Event::Opened(_)), "{event:?}");
        let session = driver.connection().begin_session().expect("it is open");
        let options = LinkOptions {
            name: "link".to_owned(),
            source: Source::new("source"),
            target: Target::new("target"),
            sender_settle_mode: SenderSettleMode::Mixed,
            ..LinkOptions::default()
        };
        let link = if sends {
            driver.connection().attach_sender(session, options)
        } else {
            driver.connection().attach_receiver(session, options)
        };
        let link = link.expect("there is room");
        let mut client = Self { driver, session, link };
        client.until(|event| matches!(event, Event::LinkAttached { .. })).await;
        client
    }

    async fn until(&mut self, wanted: impl Fn(&Event) -> bool) -> Event {
        loop {
            let event = soon(self.driver.next_event()).await.expect("it is not over");
            if wanted(&event) {
                return event;
            }
        }
    }

    /// Sends, waiting for credit or the window if need be.
    async fn send(&mut self, payload: &[u8], settled: bool) -> u32 {
        let mut message = Vec::new();
        encode::data(&mut message, payload);
        let delivery = NewDelivery { tag: &[1, 2], format: 0, settled };
        loop {
            let mut sender = self.driver.connection().sender(self.link).expect("the link is there");
            if let Ok(id) = sender.send(&delivery, &[&message]) {
                return id;
            }
            self.until(|event| matches!(event, Event::Credit(_) | Event::WindowOpen(_))).await;
        }
    }

    async fn close(mut self) {
        self.driver.connection().close(None);
        let event = self.until(|event| matches!(event, Event::Closed(_))).await;
        assert!(matches!(event, Event::Closed(None)), "{event:?}");
        self.driver.shut_down(Duration::from_secs(1)).await;
    }
}

#[tokio::test]
async fn we_send_settled_and_unsettled_and_in_many_frames() {
    let (listener, port) = listen().await;
    let acceptor = tokio::spawn(async move {
        let (mut connection, session, link) = accept_link(listener).await;
        let LinkEndpoint::Receiver(mut receiver) = link else { panic!("the client sends") };
        let mut received = Vec::new();
        for index in 0..5 {
            let delivery = receiver.recv::<Data>().await.expect("it receives");
            received.push(delivery.body().0.to_vec());
            match index {
                1 => receiver.reject(&delivery, Error::new(AmqpError::NotAllowed, None, None)).await,
                2 => receiver.release(&delivery).await,
                _ => receiver.accept(&delivery).await,
            }
            .expect("it gives an outcome");
        }
        let closed = connection.on_close().await;
        drop((receiver, session));
        (received, closed)
    });
    let mut client = Client::attach(port, true).await;
    for payload in [&b"one"[..], b"two", b"three", &large()] {
        client.send(payload, false).await;
    }
    client.send(b"settled", true).await;
    let mut outcomes = Vec::new();
    while outcomes.len() < 4 {
        let Event::Outcome { first, last, state, .. } =
            client.until(|event| matches!(event, Event::Outcome { .. })).await
        else {
            unreachable!("it is an outcome")
        };
        outcomes.extend((first..=last).map(|id| (id, state.clone())));
    }
    assert_eq!(outcomes[0], (0, Some(DeliveryState::Accepted)));
    assert!(matches!(outcomes[1], (1, Some(DeliveryState::Rejected(Some(_))))), "{:?}", outcomes[1]);
    assert_eq!(outcomes[2], (2, Some(DeliveryState::Released)));
    assert_eq!(outcomes[3], (3, Some(DeliveryState::Accepted)));
    assert_eq!(client.driver.connection().unsettled_span(client.session), 0);
    client.close().await;
    let (received, _) = soon(acceptor).await.expect("the acceptor does not panic");
    assert!(received == [b"one".to_vec(), b"two".to_vec(), b"three".to_vec(), large(), b"settled".to_vec()]);
}

#[tokio::test]
async fn we_receive_within_our_credit_settled_and_unsettled_and_in_many_frames() {
    let (listener, port) = listen().await;
    let acceptor = tokio::spawn(async move {
        let (mut connection, session, link) = accept_link(listener).await;
        let LinkEndpoint::Sender(mut sender) = link else { panic!("the client receives") };
        for index in 0..30u8 {
            let message = Message::builder().data(Data(Binary::from(vec![index; 3]))).build();
            let sendable = Sendable::builder().message(message).settled(index % 3 == 0).build();
            sender.send(sendable).await.expect("it is sent");
        }
        let message = Message::builder().data(Data(Binary::from(large()))).build();
        let outcome = sender.send(message).await.expect("it is sent");
        let _ = connection.on_close().await;
        drop((sender, session));
        outcome
    });
    let mut client = Client::attach(port, false).await;
    let mut received = Vec::new();
    client.driver.connection().set_credit(client.link, 4);
    while received.len() < 31 {
        let Event::Deliveries(deliveries) = client.until(|event| matches!(event, Event::Deliveries(_))).await
        else {
            unreachable!("they are deliveries")
        };
        // The other end notes an unsettled delivery down only after it has sent it.
        tokio::time::sleep(Duration::from_millis(2)).await;
        for delivery in deliveries.items() {
            let view = MessageView::parse(deliveries.message(delivery)).expect("a message");
            received.push((
                view.data().expect("it can be read").expect("it has data").to_vec(),
                delivery.settled,
            ));
            if !delivery.settled {
                client.driver.connection().settle(
                    client.session,
                    delivery.id,
                    delivery.id,
                    DeliveryState::Accepted,
                );
            }
        }
        client.driver.connection().recycle(deliveries);
        if client.driver.connection().credit(client.link) == 0 {
            client.driver.connection().set_credit(client.link, 4);
        }
    }
    for (index, (payload, settled)) in received.iter().take(30).enumerate() {
        assert_eq!((payload, *settled), (&vec![index as u8; 3], index % 3 == 0));
    }
    assert!(received[30] == (large(), false));
    // The last outcome leaves with the close.
    client.close().await;
    let outcome = soon(acceptor).await.expect("the acceptor does not panic");
    assert!(matches!(outcome, Outcome::Accepted(_)), "{outcome:?}");
}

#[tokio::test]
async fn we_learn_with_what_error_our_link_was_detached() {
    let (listener, port) = listen().await;
    let acceptor = tokio::spawn(async move {
        let (mut connection, session, link) = accept_link(listener).await;
        let LinkEndpoint::Sender(sender) = link else { panic!("the client receives") };
        let error = Error::new(AmqpError::ResourceDeleted, Some("it is gone".to_owned()), None);
        sender.close_with_error(error).await.expect("we answer");
        let _ = connection.on_close().await;
        drop(session);
    });
    let mut client = Client::attach(port, false).await;
    let event = client.until(|event| matches!(event, Event::LinkDetached { .. })).await;
    let Event::LinkDetached { link, error: Some(error) } = event else { panic!("{event:?}") };
    assert_eq!(link, client.link);
    assert_eq!((error.condition.as_str(), &error.description[..]), ("amqp:resource-deleted", "it is gone"));
    client.close().await;
    soon(acceptor).await.expect("the acceptor does not panic");
}

#[tokio::test]
async fn plain_lets_us_in_with_the_right_password_only() {
    for (password, welcome) in [("right", true), ("wrong", false)] {
        let (listener, port) = listen().await;
        let acceptor = tokio::spawn(async move {
            let acceptor = ConnectionAcceptor::builder()
                .container_id("acceptor")
                .sasl_acceptor(SaslPlainMechanism::new("user", "right"))
                .build();
            let opened = acceptor.accept(socket(listener).await).await;
            let welcome = opened.is_ok();
            if let Ok(mut connection) = opened {
                let _ = connection.on_close().await;
            }
            welcome
        });
        let sasl = SaslClient::Plain { username: "user".to_owned(), password: password.to_owned() };
        let (mut driver, event) = Client::open(port, sasl).await;
        if welcome {
            assert!(matches!(event, Event::Opened(_)), "{event:?}");
            driver.connection().close(None);
            while !matches!(soon(driver.next_event()).await.expect("it is not over"), Event::Closed(None)) {}
        } else {
            let refused = ConnectionError::SaslRefused(SaslCode::Auth);
            assert!(matches!(&event, Event::Closed(Some(error)) if *error == refused), "{event:?}");
        }
        assert_eq!(soon(acceptor).await.expect("the acceptor does not panic"), welcome);
    }
}
