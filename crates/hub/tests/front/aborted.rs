//! Requests over HTTP/1.1 and HTTP/2, plain and over TLS, whose bodies break off, and connections that show no token.

use std::net::SocketAddr;
use std::sync::{Arc, mpsc};
use std::thread;

use amqp_tokio::{ClientTls, Stream};
use hub::identity::DevelopmentIdentityConfig;
use hub::service::{Protocol, Service, ServiceConfig};
use hub::tls;
use test_peer::{PATIENCE, within};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use crate::kafka_memory::usage;
use crate::rest::client::{Client, namespace, token};
use crate::tls_client::trusting;

/// An end of a request before its body is complete.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Abort {
    /// The client closes the connection.
    Close,
    /// The client resets the stream (HTTP/2).
    Reset,
    /// The body stands still until the service stops.
    Stall,
}

#[test]
fn aborted_bodies_over_http_1_leave_the_service_responsive() {
    serves_beside_aborted_bodies(http_1, &[Abort::Close, Abort::Stall], &HTTP_FRONTS);
}

#[test]
fn aborted_bodies_over_http_2_leave_the_service_responsive() {
    const ABORTS: [Abort; 3] = [Abort::Close, Abort::Reset, Abort::Stall];
    serves_beside_aborted_bodies(http_2, &ABORTS, &[Protocol::Amqp, Protocol::Rest]);
}

const HTTP_FRONTS: [Protocol; 6] = [
    Protocol::Amqp,
    Protocol::Rest,
    Protocol::Blob,
    Protocol::Identity,
    Protocol::Explorer,
    Protocol::Operations,
];

/// Breaks off a request in each way at each address of `fronts`, then requires an answer to another client and the end of
/// the service. The service has one thread: a task that does not yield would stop both. The test is on another thread.
fn serves_beside_aborted_bodies(
    request: fn(Abort) -> Vec<u8>,
    aborts: &'static [Abort],
    fronts: &'static [Protocol],
) {
    let (ended, end) = mpsc::channel();
    thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let directory = tempfile::tempdir().unwrap();
            let development = tls::development(directory.path(), "localhost").unwrap();
            let mut config = ServiceConfig::loopback(namespace());
            let lifetime = DevelopmentIdentityConfig { token_lifetime: PATIENCE };
            config.development_identity = fronts.contains(&Protocol::Identity).then_some(lifetime);
            for protocol in fronts {
                if *protocol != Protocol::Amqp {
                    config = config.and(*protocol);
                }
                if protocol.has_tls() {
                    config = config.and_tls(*protocol, Arc::clone(&development.server));
                }
            }
            let service = Service::start(config).await.unwrap();
            let tls = trusting(&development.authority);
            let mut stalled = Vec::new();
            for protocol in fronts {
                let plain = service.address(*protocol).map(|address| (address, None));
                let secure = service.tls_address(*protocol).map(|address| (address, Some(tls.clone())));
                for (address, tls) in plain.into_iter().chain(secure) {
                    for abort in aborts {
                        let mut stream = connect(address, tls.clone()).await;
                        within("the request", stream.write_all(&request(*abort))).await.unwrap();
                        within("the request", stream.flush()).await.unwrap();
                        if *abort == Abort::Close {
                            drop(stream);
                        } else {
                            stalled.push(stream);
                        }
                    }
                }
            }
            let mut other = Client::connect(service.amqp_address()).await;
            assert_eq!(other.ask("POST", "/orders/messages", "", b"served").await.status, 201);
            within("the end", service.stop()).await;
            for mut stream in stalled {
                let mut rest = Vec::new();
                // A reset is an end as well.
                let _ = within("the end of the connection", stream.read_to_end(&mut rest)).await;
            }
        });
        ended.send(()).unwrap();
    });
    end.recv_timeout(PATIENCE * 2).unwrap();
}

#[tokio::test]
async fn oldest_connections_without_a_token_make_room_over_http_2() {
    let service = Service::start(ServiceConfig::loopback(namespace())).await.unwrap();
    let address = service.amqp_address();
    let mut proven = connect(address, None).await;
    proven.write_all(&http_2_start()).await.unwrap();
    proven.write_all(&get(1)).await.unwrap();
    assert!(frame_arrives(&mut proven, HEADERS, 1).await);
    let mut unproven = Vec::new();
    // As many as there is room for, and one more.
    for _ in 0..129 {
        let mut stream = connect(address, None).await;
        stream.write_all(&http_2_start()).await.unwrap();
        assert!(frame_arrives(&mut stream, SETTINGS, 0).await);
        unproven.push(stream);
    }
    assert!(!frame_arrives(&mut unproven[0], HEADERS, 1).await, "it has ended");
    for stream in [&mut unproven[1], &mut proven] {
        stream.write_all(&get(3)).await.unwrap();
        assert!(frame_arrives(stream, HEADERS, 3).await);
    }
    service.stop().await;
}

#[tokio::test]
async fn heads_without_bodies_leave_the_memory_for_bodies_to_others() {
    let service = crate::rest::client::service().await;
    let address = service.amqp_address();
    let mut waiting = Vec::new();
    for _ in 0..3 {
        let mut stream = connect(address, None).await;
        let heads: Vec<u8> = (0..100).flat_map(|number| post(1 + 2 * number)).collect();
        stream.write_all(&[http_2_start(), heads].concat()).await.unwrap();
        waiting.push(stream);
    }
    for _ in 0..200 {
        let mut stream = connect(address, None).await;
        let head = http_1_head("/events/messages", 1_900_000, "Expect: 100-continue\r\n");
        stream.write_all(head.as_bytes()).await.unwrap();
        let mut reply = [0; 12];
        within("the reply", stream.read_exact(&mut reply)).await.unwrap();
        assert_eq!(&reply, b"HTTP/1.1 100");
        waiting.push(stream);
    }
    let mut other = Client::connect(address).await;
    assert_eq!(other.ask("POST", "/orders/messages", "", &[7; 100_000]).await.status, 201);
    assert_eq!(usage(&service, "rest-bodies").await, (0, 0));
    drop(waiting);
    service.stop().await;
}

/// Clients whose bodies lack their last byte, until no memory is left for one.
pub(crate) async fn bodies_that_do_not_end(service: &Service) -> Vec<Stream> {
    const LENGTH: usize = 2_000_000;
    let mut clients = Vec::new();
    while usage(service, "rest-bodies").await.1 == 0 {
        assert!(clients.len() < 200, "they would hold 380 MiB");
        let mut client = connect(service.amqp_address(), None).await;
        let request =
            [http_1_head("/events/messages", LENGTH, "").as_bytes(), &vec![b'x'; LENGTH - 1]].concat();
        // The one that is refused may be closed before it has sent everything.
        let _ = within("the request", client.write_all(&request)).await;
        clients.push(client);
    }
    clients
}

/// Whether a frame of this kind comes on a stream of a connection before the connection ends.
async fn frame_arrives(connection: &mut Stream, kind: u8, stream: u32) -> bool {
    loop {
        let mut head = [0; 9];
        if within("a frame", connection.read_exact(&mut head)).await.is_err() {
            return false;
        }
        let length = u32::from_be_bytes([0, head[0], head[1], head[2]]);
        let mut payload = vec![0; length as usize];
        connection.read_exact(&mut payload).await.unwrap();
        if head[3] == kind && u32::from_be_bytes(head[5..].try_into().unwrap()) == stream {
            return true;
        }
    }
}

fn http_2_start() -> Vec<u8> {
    [b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", &*frame(SETTINGS, 0, 0, &[])].concat()
}

/// A request with a token, on a stream of its own.
fn get(stream: u32) -> Vec<u8> {
    let authorization = token("");
    let fields = [
        (":method", "GET"),
        (":scheme", "http"),
        (":authority", "localhost"),
        (":path", "/orders"),
        ("authorization", &authorization),
    ];
    frame(HEADERS, END_HEADERS | END_STREAM, stream, &fields_block(&fields))
}

async fn connect(address: SocketAddr, tls: Option<ClientTls>) -> Stream {
    amqp_tokio::connect("127.0.0.1", address.port(), tls, PATIENCE).await.unwrap()
}

/// The first half of a request.
fn http_1(_abort: Abort) -> Vec<u8> {
    [http_1_head("/orders/messages", 1000, "").as_bytes(), &[b'x'; 500]].concat()
}

/// The head of a request with a body of this length, and with further fields.
fn http_1_head(path: &str, length: usize, fields: &str) -> String {
    let authorization = token("");
    format!(
        "POST {path} HTTP/1.1\r\nHost: localhost\r\nAuthorization: {authorization}\r\n\
         Content-Length: {length}\r\n{fields}\r\n"
    )
}

/// The first half of a request on stream 1, and `RST_STREAM` if that is how it breaks off (RFC 9113, section 6).
fn http_2(abort: Abort) -> Vec<u8> {
    let mut bytes = http_2_start();
    bytes.extend(post(1));
    bytes.extend(frame(DATA, 0, 1, &[b'x'; 500]));
    if abort == Abort::Reset {
        bytes.extend(frame(RST_STREAM, 0, 1, &CANCEL.to_be_bytes()));
    }
    bytes
}

/// The head of a request with a token, whose body is to follow on its stream.
fn post(stream: u32) -> Vec<u8> {
    let authorization = token("");
    let fields = [
        (":method", "POST"),
        (":scheme", "http"),
        (":authority", "localhost"),
        (":path", "/orders/messages"),
        ("authorization", &authorization),
    ];
    frame(HEADERS, END_HEADERS, stream, &fields_block(&fields))
}

/// Literal fields without indexing (RFC 7541, section 6.2.2).
fn fields_block(fields: &[(&str, &str)]) -> Vec<u8> {
    fields.iter().flat_map(|(name, value)| [&[0], &*string(name), &*string(value)].concat()).collect()
}

fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).unwrap().to_be_bytes();
    [&length[1..], &[kind, flags], &stream.to_be_bytes(), payload].concat()
}

/// A string literal that is not Huffman coded (RFC 7541, section 5.2).
fn string(text: &str) -> Vec<u8> {
    let mut bytes = Vec::new();
    match u8::try_from(text.len()) {
        Ok(length) if length < 127 => bytes.push(length),
        _ => {
            bytes.push(127);
            let mut rest = text.len() - 127;
            while rest >= 128 {
                bytes.push((rest % 128 + 128) as u8);
                rest /= 128;
            }
            bytes.push(rest as u8);
        }
    }
    bytes.extend_from_slice(text.as_bytes());
    bytes
}

const DATA: u8 = 0;
const HEADERS: u8 = 1;
const RST_STREAM: u8 = 3;
const SETTINGS: u8 = 4;
const END_HEADERS: u8 = 4;
const END_STREAM: u8 = 1;
const CANCEL: u32 = 8;
