//! What takes too long, on a clock of its own.

use std::sync::Arc;

use listen::Places;
use partition_log::UnixTime;
use tokio::io::{DuplexStream, duplex};

use super::*;
use crate::front::http::rest::RestFront;
use crate::namespace::{HubConfig, Namespace, NamespaceConfig, SignaturePolicy};

/// A connection on which nothing is verified, and what stops it.
fn served() -> (DuplexStream, watch::Sender<bool>) {
    let mut config = NamespaceConfig::with_hubs(vec![HubConfig::new("hub", 1)]);
    config.signatures = SignaturePolicy::AcceptAny;
    let namespace = Namespace::new(&config, UnixTime::default()).unwrap();
    let front = RestFront::new(Arc::new(namespace));
    let place = Places::new(1).take().unwrap();
    let (client, stream) = duplex(64 * 1024);
    let (stop, stopped) = watch::channel(false);
    tokio::spawn(async move {
        let session = Session::new(front, place, None, false);
        serve(Stream::Other(Box::new(stream)), &session, stopped).await;
    });
    (client, stop)
}

/// What comes until the end, and how long that takes.
async fn rest(client: &mut DuplexStream) -> (String, Duration) {
    let started = Instant::now();
    let mut rest = String::new();
    client.read_to_string(&mut rest).await.unwrap();
    (rest, started.elapsed())
}

const EVENT: &str = "POST /hub/messages HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\n\r\nevent";

#[tokio::test(start_paused = true)]
async fn neither_a_head_nor_a_body_may_take_for_ever() {
    let (mut client, _stop) = served();
    client.write_all(EVENT.as_bytes()).await.unwrap();
    let (head, body) = EVENT.split_at(EVENT.len() - 5);
    client.write_all(&head.as_bytes()[..20]).await.unwrap();
    let (answers, lasted) = rest(&mut client).await;
    assert!(answers.starts_with("HTTP/1.1 201") && answers.contains("HTTP/1.1 408"), "{answers}");
    assert_eq!(lasted, HEAD_PATIENCE);
    let (mut client, _stop) = served();
    client.write_all(head.as_bytes()).await.unwrap();
    client.write_all(&body.as_bytes()[..4]).await.unwrap();
    let (answers, lasted) = rest(&mut client).await;
    assert!(answers.starts_with("HTTP/1.1 408"), "{answers}");
    assert_eq!(lasted, BODY_PATIENCE);
}

#[tokio::test(start_paused = true)]
async fn a_head_that_comes_byte_by_byte_has_no_more_time_than_one_that_stands_still() {
    let (mut client, _stop) = served();
    let started = Instant::now();
    while client.write_all(b"G").await.is_ok() && started.elapsed() < HEAD_PATIENCE * 3 {
        tokio::time::sleep(HEAD_PATIENCE / 4).await;
    }
    assert!(started.elapsed() <= HEAD_PATIENCE * 2, "{:?}", started.elapsed());
}

#[tokio::test(start_paused = true)]
async fn a_connection_may_rest_for_long_once_it_has_shown_something() {
    let (mut silent, _stop) = served();
    assert_eq!(rest(&mut silent).await, (String::new(), PROOF_PATIENCE));
    let (mut client, _stop) = served();
    client.write_all(EVENT.as_bytes()).await.unwrap();
    let (answers, lasted) = rest(&mut client).await;
    assert!(answers.starts_with("HTTP/1.1 201"), "{answers}");
    assert_eq!(lasted, IDLE);
}

#[tokio::test(start_paused = true)]
async fn stopping_ends_a_connection_that_rests_at_once() {
    let (mut client, stop) = served();
    stop.send_replace(true);
    assert_eq!(rest(&mut client).await, (String::new(), Duration::ZERO));
}
