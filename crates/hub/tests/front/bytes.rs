//! Bytes that are no AMQP, or almost.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use units::Random;

use super::client::{Client, RawClient, frame, service, within};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ten_thousand_random_streams_end_and_disturb_no_other_client() {
    let service = service().await;
    let address = service.amqp_address();
    let panics = count_panics();
    let next = Arc::new(AtomicUsize::new(0));
    let mut attackers = tokio::task::JoinSet::new();
    for _ in 0..ATTACKERS {
        let next = Arc::clone(&next);
        attackers.spawn(async move {
            loop {
                let number = next.fetch_add(1, Ordering::Relaxed);
                if number >= STREAMS {
                    return;
                }
                attack(address, &stream(number as u64)).await;
            }
        });
    }
    let mut witness = Client::connect(address).await;
    let mut rounds = 0_u32;
    while next.load(Ordering::Relaxed) < STREAMS || rounds == 0 {
        witness.prove_service(&rounds.to_be_bytes()).await;
        rounds += 1;
    }
    within("the end of all streams", async {
        while let Some(result) = attackers.join_next().await {
            result.unwrap();
        }
    })
    .await;
    assert_eq!(panics.load(Ordering::Relaxed), 0, "the service panicked");
}

#[tokio::test]
async fn the_conversation_that_the_streams_damage_is_a_good_one() {
    let service = service().await;
    let mut socket = TcpStream::connect(service.amqp_address()).await.unwrap();
    socket.write_all(&conversation()).await.unwrap();
    socket.shutdown().await.unwrap();
    let mut answer = Vec::new();
    within("the end", socket.read_to_end(&mut answer)).await.unwrap();
    // Open, begin, attach, flow with credit, disposition.
    for performative in [0x10, 0x11, 0x12, 0x13, 0x15] {
        let descriptor = [0x00, 0x53, performative];
        assert!(
            answer.windows(3).any(|bytes| bytes == descriptor),
            "{performative:#x} is missing in {answer:02x?}"
        );
    }
}

#[tokio::test]
async fn a_malformed_frame_closes_the_connection_with_its_condition() {
    let service = service().await;
    let address = service.amqp_address();
    for (what, bytes, condition) in [
        ("a frame larger than agreed", b"\x00\x01\x00\x01\x02\x00\x00\x00".to_vec(), FRAMING_ERROR),
        ("the largest frame there can be", vec![0xff; 8], FRAMING_ERROR),
        ("a frame smaller than its header", b"\x00\x00\x00\x07\x02\x00\x00\x00".to_vec(), FRAMING_ERROR),
        ("a data offset within the header", b"\x00\x00\x00\x08\x01\x00\x00\x00".to_vec(), FRAMING_ERROR),
        ("a data offset behind the frame", b"\x00\x00\x00\x08\x03\x00\x00\x00".to_vec(), FRAMING_ERROR),
        ("an unknown frame type", b"\x00\x00\x00\x0b\x02\x07\x00\x00\x00\x53\x11".to_vec(), FRAMING_ERROR),
        ("a body that is no performative", frame(0, b"hello"), DECODE_ERROR),
        ("a list that ends early", frame(0, b"\x00\x53\x11\xc0\xff\x05\x40"), DECODE_ERROR),
        (
            "a list with more fields than bytes",
            frame(0, b"\x00\x53\x11\xd0\x00\x00\x00\x05\xff\xff\xff\xff\x40"),
            DECODE_ERROR,
        ),
        ("a field of the wrong type", frame(0, b"\x00\x53\x11\xc0\x04\x02\x40\xa1\x00"), DECODE_ERROR),
        ("a performative that does not exist", frame(0, b"\x00\x53\x99\x45"), "amqp:not-allowed"),
        ("a second open", frame(0, b"\x00\x53\x10\xc0\x04\x01\xa1\x01a"), "amqp:not-allowed"),
        ("a transfer without a session", frame(0, TRANSFER), FRAMING_ERROR),
        ("a channel beyond the maximum", frame(60_000, BEGIN), FRAMING_ERROR),
        ("two sessions on one channel", [frame(3, BEGIN), frame(3, BEGIN)].concat(), "amqp:not-allowed"),
        (
            "a handle beyond the maximum",
            [frame(0, BEGIN), frame(0, ATTACH_HANDLE_4096)].concat(),
            FRAMING_ERROR,
        ),
        ("lists nested without end", frame(0, &nested_lists(6_000)), DECODE_ERROR),
    ] {
        let closed_with = RawClient::connect(address).await.closed_with_after(what, &bytes).await;
        assert_eq!(closed_with, condition, "{what}");
    }
    Client::connect(address).await.prove_service(b"still there").await;
}

#[tokio::test]
async fn a_client_that_does_not_speak_amqp_gets_the_supported_protocol_and_is_disconnected() {
    let service = service().await;
    for hello in
        [&b"hello, who is there?"[..], b"AMQP\x00\x00\x09\x01", b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc"]
    {
        let mut socket = TcpStream::connect(service.amqp_address()).await.unwrap();
        socket.write_all(hello).await.unwrap();
        let mut answer = Vec::new();
        // A reset is an end as well: it comes where bytes were left unread.
        let _ = within("the end", socket.read_to_end(&mut answer)).await;
        assert_eq!(answer, b"AMQP\x03\x01\x00\x00", "{hello:?}");
    }
}

/// Writes a stream and reads whatever comes until the server ends the connection.
async fn attack(address: SocketAddr, stream: &[u8]) {
    let mut socket = TcpStream::connect(address).await.unwrap();
    let (mut reading, mut writing) = socket.split();
    let write = async {
        // The server is free to hang up in the middle.
        let _ = writing.write_all(stream).await;
        let _ = writing.shutdown().await;
    };
    let read = async {
        let mut scratch = [0; 4096];
        while matches!(reading.read(&mut scratch).await, Ok(1..)) {}
    };
    within("the end of a stream", async { tokio::join!(write, read) }).await;
}

/// The stream of this number: noise, noise behind a good beginning, or a good conversation with a few bytes changed.
fn stream(number: u64) -> Vec<u8> {
    let mut random = Random::for_concern(SEED, number);
    let mut noise = vec![0; random.below(2_000) as usize + 1];
    random.fill(&mut noise);
    match number % 4 {
        0 => noise,
        1 => [&conversation()[..8], &noise].concat(),
        2 => {
            // Frames of noise, so that it is the bodies that are read.
            let mut stream = conversation();
            for body in noise.chunks(random.below(100) as usize + 1) {
                let channel = random.below(3) as u16;
                let descriptor = [0x00, 0x53, 0x10 + random.below(9) as u8, 0xc0];
                stream.extend(frame(channel, &[&descriptor, body].concat()));
            }
            stream
        }
        _ => {
            let mut stream = conversation();
            for _ in 0..=random.below(4) {
                let at = random.below(stream.len() as u64) as usize;
                stream[at] = random.next_u64() as u8;
            }
            stream
        }
    }
}

/// A begin whose first field is a list in a list in a list, each of the length that is left.
fn nested_lists(depth: u32) -> Vec<u8> {
    let mut body = b"\x00\x53\x11\xd0".to_vec();
    let length = |level: u32| 9 * (depth - level) + 4;
    for level in 0..depth {
        body.extend_from_slice(&length(level).to_be_bytes());
        body.extend_from_slice(&1_u32.to_be_bytes());
        body.push(0xd0);
    }
    body.extend_from_slice(&[0, 0, 0, 4, 0, 0, 0, 0]);
    body
}

/// Counts the panics of this process from now on, except those by which tests fail. A task of the service that panics is heard of in no other way.
fn count_panics() -> Arc<AtomicUsize> {
    let count = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&count);
    let report = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        let of_the_test = panic.location().is_some_and(|location| location.file().contains("tests/front"));
        counted.fetch_add(usize::from(!of_the_test), Ordering::Relaxed);
        report(panic);
    }));
    count
}

/// Header, open, begin, a link to `$cbs`, and a request on it that is none.
fn conversation() -> Vec<u8> {
    let frames = [OPEN, BEGIN, ATTACH_CBS, TRANSFER].map(|body| frame(0, body));
    [b"AMQP\x00\x01\x00\x00".to_vec(), frames.concat()].concat()
}

/// Container id `test`.
const OPEN: &[u8] = b"\x00\x53\x10\xc0\x07\x01\xa1\x04test";
/// Next outgoing id 1, windows of 4096 and 100, no maximum of handles.
const BEGIN: &[u8] = b"\x00\x53\x11\xc0\x0c\x05\x40\x52\x01\x70\x00\x00\x10\x00\x52\x64\x40";
/// Name `cbs`, handle 0, the sender of this sends, to `$cbs`, initial delivery count 0.
const ATTACH_CBS: &[u8] = b"\x00\x53\x12\xc0\x1d\x0a\xa1\x03cbs\x43\x42\x40\x40\x00\x53\x28\x45\
    \x00\x53\x29\xc0\x07\x01\xa1\x04$cbs\x40\x40\x43";
const ATTACH_HANDLE_4096: &[u8] = b"\x00\x53\x12\xc0\x0a\x03\xa1\x01a\x70\x00\x00\x10\x00\x42";
/// Handle 0, delivery id 0, tag `a`, format 0, unsettled, and an amqp-value as message.
const TRANSFER: &[u8] = b"\x00\x53\x14\xc0\x08\x05\x43\x43\xa0\x01a\x43\x42\x00\x53\x77\xa1\x02hi";

const FRAMING_ERROR: &str = "amqp:connection:framing-error";
const DECODE_ERROR: &str = "amqp:decode-error";

const STREAMS: usize = 10_000;
const ATTACKERS: usize = 32;
const SEED: u64 = 0x7a11_0c8e;
