//! The byte stream in WebSocket messages, against a peer that is written out byte by byte, and against our own other
//! side. Everything runs in memory.

#![expect(clippy::unwrap_used, reason = "what helpers of tests do not expect fails the test")]

use std::time::Duration;

use amqp::Connection;
use amqp::connection::{Config, Event, SaslClient, SaslServer};
use amqp_tokio::{Driver, Stream, accept_web_socket, connect_web_socket};
use std::sync::Arc;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, DuplexStream, duplex};
use tokio::time::Instant;

/// Longer than anything here takes.
const PATIENCE: Duration = Duration::from_secs(20);

/// What the pipe between both sides holds.
const PIPE: usize = 16 * 1024;

fn request(path: &str, protocol: &str) -> String {
    format!(
        "GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
         Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n{protocol}\r\n"
    )
}

async fn answer(socket: &mut DuplexStream) -> String {
    let mut answer = Vec::new();
    while !answer.ends_with(b"\r\n\r\n") {
        answer.push(socket.read_u8().await.unwrap());
    }
    String::from_utf8(answer).unwrap()
}

/// A server's stream and the raw socket of a client that has had its handshake.
async fn connected() -> (Stream, DuplexStream) {
    let (mut client, server) = duplex(PIPE);
    let request = request("/$servicebus/websocket/", "Sec-WebSocket-Protocol: AMQPWSB10\r\n");
    client.write_all(request.as_bytes()).await.unwrap();
    let server = accept_web_socket(Stream::Other(Box::new(server)), PATIENCE).await.unwrap();
    let answer = answer(&mut client).await;
    assert!(answer.starts_with("HTTP/1.1 101 "), "{answer}");
    assert!(answer.contains("s3pPLMBiTxaQ9kYGzzhZRbK+xOo=") && answer.contains("AMQPWSB10"), "{answer}");
    (server, client)
}

/// A client's frame. The mask of zeros leaves the payload as it is.
fn frame(first_byte: u8, payload: &[u8]) -> Vec<u8> {
    let mut frame = vec![first_byte, 0x80 | u8::try_from(payload.len()).unwrap()];
    frame.extend([0; 4]);
    frame.extend(payload);
    frame
}

const FINAL: u8 = 0x80;
const CONTINUATION: u8 = 0;
const TEXT: u8 = 1;
const BINARY: u8 = 2;
const CLOSE: u8 = 8;
const PING: u8 = 9;
const PONG: u8 = 10;

#[tokio::test]
async fn message_borders_fragments_and_pings_leave_no_trace_in_the_bytes() {
    let (mut server, mut client) = connected().await;
    let frames = [
        frame(FINAL | BINARY, b"one "),
        frame(FINAL | BINARY, b""),
        frame(BINARY, b"two "),
        frame(FINAL | PING, b"there?"),
        frame(CONTINUATION, b"three "),
        frame(FINAL | CONTINUATION, b"four "),
        frame(FINAL | PONG, b"nobody asked"),
        frame(FINAL | BINARY, b"five"),
    ];
    // Byte by byte: frames may come in any pieces.
    let sending = async {
        for byte in frames.concat() {
            client.write_all(&[byte]).await.unwrap();
            tokio::task::yield_now().await;
        }
    };
    let mut received = [0; 23];
    let (read, ()) = tokio::join!(server.read_exact(&mut received), sending);
    read.unwrap();
    assert_eq!(&received, b"one two three four five");
    server.write_all(b"answer").await.unwrap();
    server.flush().await.unwrap();
    let mut sent = [0; 8 + 8];
    client.read_exact(&mut sent).await.unwrap();
    assert_eq!(sent, *b"\x8a\x06there?\x82\x06answer");
}

#[tokio::test]
async fn other_requests_are_answered_with_what_is_served() {
    let named = "Sec-WebSocket-Protocol: AMQPWSB10\r\n";
    for (path, protocol, status) in [
        ("/", named, "404"),
        ("/$servicebus/websocket/more", named, "404"),
        ("/$servicebus/websocket", "", "400"),
        ("/$servicebus/websocket", "Sec-WebSocket-Protocol: mqtt, stomp\r\n", "400"),
    ] {
        let (mut client, server) = duplex(PIPE);
        let request = request(path, protocol);
        client.write_all(request.as_bytes()).await.unwrap();
        accept_web_socket(Stream::Other(Box::new(server)), PATIENCE).await.unwrap_err();
        let answer = answer(&mut client).await;
        assert!(answer.starts_with(&format!("HTTP/1.1 {status} ")), "{path}: {answer}");
    }
    for words in ["AMQP\u{0}\u{1}\u{0}\u{0}\r\n\r\n", "GET / HTTP/1.1\r\n\r\n", "POST / HTTP/1.1\r\n\r\n"] {
        let (mut client, server) = duplex(PIPE);
        client.write_all(words.as_bytes()).await.unwrap();
        accept_web_socket(Stream::Other(Box::new(server)), PATIENCE).await.unwrap_err();
    }
}

#[tokio::test]
async fn any_of_the_names_of_the_protocol_is_taken_in_any_letter_case() {
    for (asked, given) in [("amqp", "amqp"), ("AMQP, AMQPWSB10", "amqp"), ("mqtt, amqpwsb10", "AMQPWSB10")] {
        let (mut client, server) = duplex(PIPE);
        let request = request("/$ServiceBus/WebSocket", &format!("Sec-WebSocket-Protocol: {asked}\r\n"));
        client.write_all(request.as_bytes()).await.unwrap();
        accept_web_socket(Stream::Other(Box::new(server)), PATIENCE).await.unwrap();
        let answer = answer(&mut client).await;
        assert!(
            answer.to_ascii_lowercase().contains("sec-websocket-protocol:") && answer.contains(given),
            "{answer}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn a_client_that_says_nothing_is_given_up() {
    let (_client, server) = duplex(PIPE);
    let error = accept_web_socket(Stream::Other(Box::new(server)), PATIENCE).await.unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::TimedOut);
}

#[tokio::test]
async fn what_is_no_amqp_over_web_socket_ends_the_stream_with_an_error() {
    let mut unmasked = frame(FINAL | BINARY, b"data");
    unmasked[1] &= 0x7f;
    let huge = [&[FINAL | BINARY, 0xff], &(1_u64 << 40).to_be_bytes()[..], &[0; 4]].concat();
    let impossible = [&[FINAL | BINARY, 0xff], &u64::MAX.to_be_bytes()[..], &[0; 4]].concat();
    for (what, bytes) in [
        ("a text", frame(FINAL | TEXT, b"hello")),
        ("a frame without a mask", unmasked),
        ("a frame of a terabyte", huge),
        ("a frame that is longer than can be", impossible),
        ("a continuation of nothing", frame(FINAL | CONTINUATION, b"data")),
        ("an unknown kind of frame", frame(FINAL | 5, b"data")),
        ("a reserved bit", frame(FINAL | 0x40 | BINARY, b"data")),
        ("a ping in pieces", frame(PING, b"data")),
    ] {
        let (mut server, mut client) = connected().await;
        client.write_all(&bytes).await.unwrap();
        let error = server.read_u8().await.expect_err(what);
        assert_eq!(error.kind(), std::io::ErrorKind::InvalidData, "{what}");
    }
}

#[tokio::test]
async fn fragments_without_end_are_not_gathered_without_end() {
    let (mut server, mut client) = connected().await;
    let sending = async move {
        let fragment = [&[CONTINUATION, 0xfe, 0xff, 0xff, 0, 0, 0, 0][..], &vec![1; 0xffff][..]].concat();
        client.write_all(&frame(BINARY, b"")).await.unwrap();
        let mut sent = 0_usize;
        while client.write_all(&fragment).await.is_ok() {
            sent += fragment.len();
        }
        sent
    };
    let reading = async move { server.read_u8().await.unwrap_err().kind() };
    let (sent, error) = tokio::join!(sending, reading);
    assert_eq!(error, std::io::ErrorKind::InvalidData);
    assert!((15 << 20..18 << 20).contains(&sent), "{sent}");
}

#[tokio::test]
async fn a_close_is_the_end_of_the_stream_and_is_answered() {
    let (mut server, mut client) = connected().await;
    let words = [frame(FINAL | BINARY, b"last words"), frame(FINAL | CLOSE, &1000_u16.to_be_bytes())];
    client.write_all(&words.concat()).await.unwrap();
    let mut received = Vec::new();
    server.read_to_end(&mut received).await.unwrap();
    assert_eq!(received, b"last words");
    drop(server);
    let mut sent = Vec::new();
    client.read_to_end(&mut sent).await.unwrap();
    assert_eq!(sent, [FINAL | CLOSE, 2, 0x03, 0xe8]);
}

#[tokio::test]
async fn a_stream_that_is_shut_down_says_so() {
    let (mut server, mut client) = connected().await;
    server.write_all(b"bye").await.unwrap();
    server.shutdown().await.unwrap();
    drop(server);
    let mut sent = Vec::new();
    client.read_to_end(&mut sent).await.unwrap();
    assert_eq!(sent, b"\x82\x03bye\x88\x00");
}

#[tokio::test(start_paused = true)]
async fn a_peer_that_does_not_read_is_written_little() {
    let (mut server, _client) = connected().await;
    let mut written = 0;
    let chunk = vec![0; 256 * 1024];
    while let Ok(length) = tokio::time::timeout(PATIENCE, server.write(&chunk)).await {
        written += length.unwrap();
    }
    assert!(written <= PIPE + 4 * 64 * 1024, "{written}");
}

#[tokio::test]
async fn our_client_and_our_server_speak_amqp_over_it() {
    let (client, server) = duplex(PIPE);
    let serving = tokio::spawn(async move {
        let stream = accept_web_socket(Stream::Other(Box::new(server)), PATIENCE).await.unwrap();
        let verify = Arc::new(|_: &_| true);
        let engine = Connection::server(Config::default(), SaslServer { verify }, Instant::now().into_std());
        let mut driver = Driver::new(engine, stream);
        loop {
            match driver.next_event().await.unwrap() {
                Event::Closed(error) => break assert_eq!(error, None),
                _ => continue,
            }
        }
    });
    let stream =
        connect_web_socket(Stream::Other(Box::new(client)), "localhost", 443, PATIENCE).await.unwrap();
    let engine = Connection::client(Config::default(), SaslClient::Anonymous, Instant::now().into_std());
    let mut driver = Driver::new(engine, stream);
    assert!(matches!(driver.next_event().await, Ok(Event::Opened(_))));
    driver.connection().close(None);
    assert!(matches!(driver.next_event().await, Ok(Event::Closed(None))));
    serving.await.unwrap();
}

#[tokio::test]
async fn our_client_says_so_where_there_is_no_web_socket() {
    let (client, mut server) = duplex(PIPE);
    let refusing = async move {
        let mut request = [0; 4];
        server.read_exact(&mut request).await.unwrap();
        assert_eq!(&request, b"GET ");
        let refusal = b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n";
        server.write_all(refusal).await.unwrap();
    };
    let connecting = connect_web_socket(Stream::Other(Box::new(client)), "hubs.example", 443, PATIENCE);
    let (connected, ()) = tokio::join!(connecting, refusing);
    let error = connected.unwrap_err().to_string();
    assert!(
        error.starts_with("the WebSocket handshake with hubs.example:443 failed: ") && error.contains("404"),
        "{error}"
    );
}
