//! Messages of which a part is sent from where it is, over every kind of stream.

use std::time::Duration;

use amqp_tokio::{Stream, accept, accept_tls, accept_web_socket, connect, connect_web_socket};
use bytes::Bytes;
use tokio::task::JoinHandle;

use crate::interop::tls::{identity, listen, receive_one, send_one, trusting};
use crate::interop::{large, soon};

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
    let shared = Bytes::from(large());
    let pieces = [shared.slice(..10_000), shared.slice(20_000..), shared.slice(1..2)];
    send_one(stream, |writer| {
        for piece in &pieces {
            writer.put(b"between");
            writer.put_shared(piece.clone());
        }
    })
    .await;
    let sent: Vec<u8> = pieces.iter().flat_map(|piece| [&b"between"[..], piece].concat()).collect();
    assert!(soon(server).await.expect("the server does not panic") == sent);
}
