//! Our client and our server over TLS, with a certificate made for the test.

use std::sync::Arc;
use std::time::{Duration, Instant};

use amqp::Connection;
use amqp::connection::{
    Config, Event, LinkAcceptance, LinkOptions, NewDelivery, SaslClient, SaslServer, TransferWriter,
};
use amqp::performative::DeliveryState;
use amqp_tokio::{ClientTls, ConnectError, DriveError, Driver, Stream, accept_tls, connect};
use rustls::pki_types::{PrivatePkcs8KeyDer, ServerName};
use rustls::{ClientConfig, RootCertStore, ServerConfig};
use tokio::net::TcpListener;

use crate::interop::{large, soon};

/// A server's configuration for `localhost`, and that of a client which trusts it.
pub(crate) fn identity() -> (Arc<ServerConfig>, Arc<ClientConfig>) {
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).expect("a certificate");
    let certificate = made.cert.der().clone();
    let key = PrivatePkcs8KeyDer::from(made.signing_key.serialize_der());
    let server = ServerConfig::builder()
        .with_no_client_auth()
        .with_single_cert(vec![certificate.clone()], key.into())
        .expect("the key fits");
    let mut roots = RootCertStore::empty();
    roots.add(certificate).expect("it can be trusted");
    let client = ClientConfig::builder().with_root_certificates(roots).with_no_client_auth();
    (Arc::new(server), Arc::new(client))
}

pub(crate) async fn listen() -> (TcpListener, u16) {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port is free");
    let port = listener.local_addr().expect("it is bound").port();
    (listener, port)
}

pub(crate) fn trusting(config: Arc<ClientConfig>, name: &'static str) -> Option<ClientTls> {
    Some(ClientTls { config, server_name: ServerName::try_from(name).expect("a name") })
}

const PATIENCE: Duration = Duration::from_secs(10);

#[tokio::test]
async fn a_large_message_and_its_outcome_cross_tls() {
    let (server_config, client_config) = identity();
    let (listener, port) = listen().await;
    let server = tokio::spawn(async move {
        let (socket, _) = listener.accept().await.expect("a client comes");
        let stream = accept_tls(socket, server_config, PATIENCE).await.expect("the handshake succeeds");
        receive_one(stream).await
    });
    let stream = connect("127.0.0.1", port, trusting(client_config, "localhost"), PATIENCE).await;
    let message = large();
    send_one(stream.expect("the handshake succeeds"), |writer| writer.put(&message)).await;
    assert!(soon(server).await.expect("the server does not panic") == message);
}

/// Sends a message, which `write` writes, and waits until it is accepted and the connection closed.
pub(crate) async fn send_one(stream: Stream, write: impl Fn(&mut TransferWriter<'_>)) {
    let engine = Connection::client(Config::default(), SaslClient::Anonymous, Instant::now());
    let mut driver = Driver::new(engine, stream);
    loop {
        match soon(driver.next_event()).await.expect("it is not over") {
            Event::Opened(_) => {
                let session = driver.connection().begin_session().expect("it is open");
                driver.connection().attach_sender(session, LinkOptions::default()).expect("there is room");
            }
            Event::Credit(link) => {
                let delivery = NewDelivery { tag: b"t", format: 0, settled: false };
                let mut sender = driver.connection().sender(link).expect("the link is there");
                let mut writer = sender.begin(&delivery).expect("there is credit");
                write(&mut writer);
                writer.finish();
            }
            Event::Outcome { state, .. } => {
                assert_eq!(state, Some(DeliveryState::Accepted));
                driver.connection().close(None);
            }
            Event::Closed(reason) => {
                assert_eq!(reason, None);
                break;
            }
            _ => {}
        }
    }
    driver.shut_down(PATIENCE).await;
}

pub(crate) async fn receive_one(stream: Stream) -> Vec<u8> {
    let sasl = SaslServer { verify: Arc::new(|_| true) };
    let mut driver = Driver::new(Connection::server(Config::default(), sasl, Instant::now()), stream);
    let mut received = Vec::new();
    loop {
        match soon(driver.next_event()).await {
            Ok(Event::LinkRequested { link, .. }) => {
                driver.connection().accept_link(link, LinkAcceptance::default());
                driver.connection().set_credit(link, 1);
            }
            Ok(Event::Deliveries(deliveries)) => {
                let delivery = deliveries.items()[0];
                received = deliveries.message(&delivery).to_vec();
                let session = driver.connection().session_of(delivery.link).expect("the link is there");
                driver.connection().settle(session, delivery.id, delivery.id, DeliveryState::Accepted);
            }
            Ok(Event::Closed(reason)) => assert_eq!(reason, None),
            Ok(_) => {}
            Err(DriveError::Closed) => break,
            Err(error) => panic!("{error}"),
        }
    }
    driver.shut_down(PATIENCE).await;
    received
}

#[tokio::test]
async fn a_server_with_another_name_or_an_untrusted_certificate_is_refused() {
    let (server_config, client_config) = identity();
    let (_, distrustful) = identity();
    for (config, name) in [(client_config, "elsewhere"), (distrustful, "localhost")] {
        let (listener, port) = listen().await;
        let server_config = Arc::clone(&server_config);
        let server = tokio::spawn(async move {
            let (socket, _) = listener.accept().await.expect("a client comes");
            accept_tls(socket, server_config, PATIENCE).await.map(|_| ())
        });
        let refused = connect("127.0.0.1", port, trusting(config, name), PATIENCE).await;
        assert!(matches!(refused, Err(ConnectError::Tls { .. })), "{refused:?}");
        soon(server).await.expect("the server does not panic").expect_err("the client went away");
    }
}

#[tokio::test]
async fn a_closed_port_and_a_silent_server_are_distinguished() {
    let (listener, port) = listen().await;
    drop(listener);
    let refused = connect("127.0.0.1", port, None, PATIENCE).await;
    assert!(matches!(refused, Err(ConnectError::Unreachable { .. })), "{refused:?}");
    let (_listener, port) = listen().await;
    let (_, config) = identity();
    let silent = connect("127.0.0.1", port, trusting(config, "localhost"), Duration::from_millis(50)).await;
    assert!(matches!(silent, Err(ConnectError::Timeout { .. })), "{silent:?}");
}
