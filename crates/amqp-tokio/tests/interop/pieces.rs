//! Messages of which a part is sent from where it is, over every kind of stream.

use std::time::{Duration, Instant};

use amqp::Connection;
use amqp::connection::{Config, Event, LinkOptions, NewDelivery, SaslClient};
use amqp_tokio::{Driver, Stream, accept, accept_tls, accept_web_socket, connect, connect_web_socket};
use bytes::Bytes;
use tokio::task::JoinHandle;

use crate::tls::{identity, listen, receive_one, trusting};
use crate::{large, soon};

const PATIENCE: Duration = Duration::from_secs(10);

#[tokio::test]
async fn they_cross_tcp_in_one_piece() {
    let (listener, port) = listen().await;
    let server = tokio::spawn(async move {
        let (socket, _) = listener.accept().await.expect("a client comes");
        receive_one(accept(socket).expect("it is connected")).await
    });
    send(connect("127.0.0.1", port, None, PATIENCE).await.expect("it is connected"), server).await;
}

#[tokio::test]
async fn they_cross_tls_in_one_piece() {
    let (server_config, client_config) = identity();
    let (listener, port) = listen().await;
    let server = tokio::spawn(async move {
        let (socket, _) = listener.accept().await.expect("a client comes");
        receive_one(accept_tls(socket, server_config, PATIENCE).await.expect("the handshake succeeds")).await
    });
    let stream = connect("127.0.0.1", port, trusting(client_config, "localhost"), PATIENCE).await;
    send(stream.expect("the handshake succeeds"), server).await;
}

#[tokio::test]
async fn they_cross_a_web_socket_in_one_piece() {
    let (client, server) = tokio::io::duplex(16 * 1024);
    let server = tokio::spawn(async move {
        let stream = accept_web_socket(Stream::Other(Box::new(server)), PATIENCE).await;
        receive_one(stream.expect("the handshake succeeds")).await
    });
    let stream = connect_web_socket(Stream::Other(Box::new(client)), "localhost", 443, PATIENCE).await;
    send(stream.expect("the handshake succeeds"), server).await;
}

/// Sends one message in pieces, and compares what arrived.
async fn send(stream: Stream, server: JoinHandle<Vec<u8>>) {
    let engine = Connection::client(Config::default(), SaslClient::Anonymous, Instant::now());
    let mut driver = Driver::new(engine, stream);
    let shared = Bytes::from(large());
    let pieces = [shared.slice(..10_000), shared.slice(20_000..), shared.slice(1..2)];
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
                for piece in &pieces {
                    writer.put(b"between");
                    writer.put_shared(piece.clone());
                }
                writer.finish();
            }
            Event::Outcome { .. } => driver.connection().close(None),
            Event::Closed(reason) => {
                assert_eq!(reason, None);
                break;
            }
            _ => {}
        }
    }
    driver.shut_down(PATIENCE).await;
    let sent: Vec<u8> = pieces.iter().flat_map(|piece| [&b"between"[..], piece].concat()).collect();
    assert!(soon(server).await.expect("the server does not panic") == sent);
}
