//! What becomes of requests whose connection breaks.

use tokio::io::AsyncWriteExt as _;
use tokio::net::{TcpListener, TcpStream};

use super::*;
use crate::kafka::settings::Settings;
use crate::sink::ErrorClass;

/// A connection on which three requests are under way, whose tags are their correlation ids, and its peer.
async fn asked(timeout_ms: &str) -> (Connection<u32>, TcpStream) {
    let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    let address = listener.local_addr().unwrap();
    let properties = [("bootstrap.servers", &*address.to_string()), ("request.timeout.ms", timeout_ms)];
    let settings = Settings::read(&properties.into_iter().collect()).unwrap();
    let endpoint = Endpoint::new(settings, "orders").unwrap();
    let stream = endpoint.dial(&address.ip().to_string(), address.port()).await.unwrap();
    let mut connection = Connection::new(endpoint, stream);
    for tag in 0..3 {
        let timeout = connection.patience();
        connection.submit_whole(ApiKey::Heartbeat, 0, timeout, tag, |writer| writer.i32(7));
    }
    (connection, listener.accept().await.unwrap().0)
}

/// An answer without an error.
fn answer(correlation_id: u8) -> [u8; 10] {
    [0, 0, 0, 6, 0, 0, 0, correlation_id, 0, 0]
}

/// The tags that were answered, and the error that ended the connection.
async fn ended(connection: &mut Connection<u32>) -> (Vec<u32>, ServiceError) {
    let mut answered = Vec::new();
    loop {
        match poll_fn(|context| connection.poll_done(context)).await {
            Ok(Done::Answered(tag, _)) => answered.push(tag),
            Ok(Done::Written(tag)) => panic!("{tag} has an answer"),
            Err(error) => return (answered, error),
        }
    }
}

#[tokio::test]
async fn connection_that_breaks_returns_everything_that_was_asked_on_it() {
    let (first, frame) = (answer(0), |length: u32| length.to_be_bytes());
    let after_first = |bytes: &[u8]| [&first[..], bytes].concat();
    // What the peer says before it closes the connection, and how many requests that answers.
    let said = [
        ("nothing", Vec::new(), 0),
        ("an answer with another id", answer(7).to_vec(), 0),
        ("an answer to the second request", answer(1).to_vec(), 0),
        ("an answer twice", after_first(&first), 1),
        ("half an answer", after_first(&answer(1)[..7]), 1),
        ("a frame without an id", after_first(&[0, 0, 0, 2, 0, 0]), 1),
        ("a negative length", after_first(&frame(u32::MAX)), 1),
        ("a length beyond any answer", after_first(&frame(i32::MAX.cast_unsigned())), 1),
        ("an alert of TLS, in the middle", after_first(b"\x15\x03\x01\x00\x02\x02\x0a"), 1),
        ("a page, in the middle", after_first(b"HTTP/1.1 400 Bad Request\r\n\r\n"), 1),
    ];
    for (what, bytes, count) in said {
        let (mut connection, mut peer) = asked("30000").await;
        peer.write_all(&bytes).await.unwrap();
        peer.shutdown().await.unwrap();
        let (mut tags, error) = ended(&mut connection).await;
        assert_eq!((tags.len(), error.class), (count, ErrorClass::Retryable), "{what}: {error}");
        tags.extend(connection.into_tags());
        assert_eq!(tags, [0, 1, 2], "{what}");
    }
}

#[tokio::test]
async fn peer_that_does_not_answer_in_time_ends_the_connection() {
    let (mut connection, mut peer) = asked("50").await;
    peer.write_all(&answer(0)).await.unwrap();
    let (mut tags, error) = ended(&mut connection).await;
    assert_eq!((&tags[..], &*error.condition, error.class), (&[0][..], TIMEOUT, ErrorClass::Retryable));
    tags.extend(connection.into_tags());
    assert_eq!(tags, [0, 1, 2]);
}

#[tokio::test]
async fn peer_that_does_not_read_in_time_ends_the_connection() {
    let (mut connection, mut peer) = asked("50").await;
    for id in 0..3 {
        peer.write_all(&answer(id)).await.unwrap();
    }
    // More than the buffers of both ends take, without an answer.
    let writer = connection.begin(Vec::new(), ApiKey::Produce, 3);
    let mut bytes = writer.finish();
    bytes.resize(64 << 20, 0);
    frame::end(&mut bytes, 0, 0);
    connection.submit(ApiKey::Produce, 3, None, 3, [Bytes::from(bytes)]);
    let (answered, error) = ended(&mut connection).await;
    assert_eq!((&answered[..], &*error.condition), (&[0, 1, 2][..], TIMEOUT));
    assert!(error.description.contains("did not read"), "{error}");
    assert_eq!(connection.into_tags().collect::<Vec<_>>(), [3]);
}
