//! What is no request, too much or too slow, and that others are served all the while.

use hub::service::{Protocol, Service};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::rest::client::{Client, service, token, within};

fn head(rest: &str) -> String {
    let token = token("");
    format!("POST /events/partitions/0/messages HTTP/1.1\r\nHost: h\r\nAuthorization: {token}\r\n{rest}\r\n")
}

/// Whoever behaves is served.
async fn prove_service(service: &Service) {
    let mut client = Client::connect(service.amqp_address()).await;
    assert_eq!(client.ask("POST", "/events/partitions/1/messages", "", b"event").await.status, 201);
}

async fn metric(service: &Service, name: &str) -> u64 {
    let mut socket = TcpStream::connect(service.address(Protocol::Operations).unwrap()).await.unwrap();
    socket.write_all(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n").await.unwrap();
    let mut answer = String::new();
    within("the metrics", socket.read_to_string(&mut answer)).await.unwrap();
    let figure = answer.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    figure.unwrap_or_else(|| panic!("no {name} in {answer}")).parse().unwrap()
}

#[tokio::test]
async fn what_can_be_read_in_two_ways_ends_the_connection_and_nothing_behind_it_is_carried_out() {
    let service = service().await;
    let smuggled = head("Content-Length: 8\r\n") + "smuggled";
    for (request, status) in [
        (head("Content-Length: 5\r\nTransfer-Encoding: chunked\r\n") + "0\r\n\r\n", 400),
        (head("Transfer-Encoding: chunked\r\nContent-Length: 5\r\n") + "0\r\n\r\n", 400),
        (head("Content-Length: 5\r\nContent-Length: 5\r\n") + "event", 400),
        (head("Content-Length: 5, 5\r\n") + "event", 400),
        (head("Content-Length: -5\r\n") + "event", 400),
        (head("Transfer-Encoding: identity, chunked\r\n") + "0\r\n\r\n", 501),
        (head("Transfer-Encoding: chunked\r\n") + "x\r\n", 400),
        (head("Transfer-Encoding: chunked\r\n") + "1\r\nab\r\n", 400),
        (head("Expect: miracles\r\nContent-Length: 0\r\n"), 417),
        (head("Host: other\r\nContent-Length: 0\r\n"), 400),
        (head("X : y\r\nContent-Length: 0\r\n"), 400),
        (head("X: y\n\r\nContent-Length: 0\r\n"), 400),
        ("POST /events/messages\r\n\r\n".to_owned(), 400),
        ("GET  /events HTTP/1.1\r\n\r\n".to_owned(), 400),
        (format!("GET /{} HTTP/1.1\r\nHost: h\r\n\r\n", "x".repeat(64 * 1024)), 431),
        (format!("GET / HTTP/1.1\r\nHost: h\r\n{}\r\n", "X: y\r\n".repeat(100)), 431),
    ] {
        let mut client = Client::connect(service.amqp_address()).await;
        client.write(format!("{request}{smuggled}").as_bytes()).await;
        let reply = client.reply().await;
        assert_eq!((reply.status, reply.field("Connection")), (status, Some("close")), "{request:.300}");
        assert!(reply.text().contains(&format!("<Code>{status}</Code>")), "{}", reply.text());
        assert!(client.is_over().await, "{request:.300}");
    }
    assert_eq!(service.namespace().counters().events_in, 0);
    prove_service(&service).await;
    service.stop().await;
}

#[tokio::test]
async fn bodies_come_in_chunks_and_after_a_hundred_too() {
    let service = service().await;
    let mut client = Client::connect(service.amqp_address()).await;
    let chunked =
        head("Transfer-Encoding: chunked\r\n") + "5;x=y\r\nfirst\r\n6\r\nsecond\r\n0\r\nTrailer: x\r\n\r\n";
    for piece in chunked.as_bytes().chunks(7) {
        client.write(piece).await;
    }
    assert_eq!(client.reply().await.status, 201);
    client.write(head("Expect: 100-continue\r\nContent-Length: 5\r\n").as_bytes()).await;
    assert_eq!(client.reply().await.status, 100);
    client.write(b"third").await;
    assert_eq!(client.reply().await.status, 201);
    // Two at once, the second of which comes in two pieces.
    let plain = head("Content-Length: 6\r\n") + "fourth";
    client.write(format!("{chunked}{}", &plain[..plain.len() - 3]).as_bytes()).await;
    assert_eq!(client.reply().await.status, 201);
    client.write(b"rth").await;
    assert_eq!(client.reply().await.status, 201);
    assert_eq!(service.namespace().counters().events_in, 4);
    let before_token =
        "POST /events/messages HTTP/1.1\r\nHost: h\r\nExpect: 100-continue\r\nContent-Length: 5\r\n\r\n";
    client.write(before_token.as_bytes()).await;
    assert_eq!(client.reply().await.status, 401, "nothing is asked for that is not wanted");
    assert!(client.is_over().await);
    service.stop().await;
}

#[tokio::test]
async fn whoever_breaks_off_leaves_nothing_behind() {
    let service = service().await;
    let whole = head("Content-Length: 5\r\n") + "event";
    for end in [1, 20, whole.len() - 6, whole.len() - 1] {
        let mut client = Client::connect(service.amqp_address()).await;
        client.write(&whole.as_bytes()[..end]).await;
    }
    let chunked = head("Transfer-Encoding: chunked\r\n") + "5\r\neve";
    Client::connect(service.amqp_address()).await.write(chunked.as_bytes()).await;
    prove_service(&service).await;
    assert_eq!(service.namespace().counters().events_in, 1);
    service.stop().await;
}

#[tokio::test]
async fn bodies_of_strangers_are_not_read() {
    let service = service().await;
    let mut stranger = Client::connect_with(service.amqp_address(), "SharedAccessSignature").await;
    let head = "POST /events/messages HTTP/1.1\r\nHost: h\r\nContent-Length: 1000000\r\n\r\n";
    stranger.write(head.as_bytes()).await;
    let reply = stranger.reply().await;
    assert_eq!((reply.status, reply.field("Connection")), (401, Some("close")));
    assert_eq!(metric(&service, "parshall_rest_requests_total{operation=\"send\",status=\"401\"}").await, 1);
    prove_service(&service).await;
    let sent = "parshall_rest_requests_total{operation=\"send\",status=\"201\"}";
    assert_eq!(metric(&service, sent).await, 1);
    service.stop().await;
}

#[tokio::test]
async fn stopping_ends_connections_that_rest_and_those_that_wait() {
    let service = service().await;
    let mut resting = Client::connect(service.amqp_address()).await;
    assert_eq!(resting.ask("POST", "/orders/messages", "", b"message").await.status, 201);
    let mut waiting = Client::connect(service.amqp_address()).await;
    waiting.send("POST", "/news/subscriptions/all/messages/head", "", b"").await;
    service.stop().await;
    assert!(resting.is_over().await && waiting.is_over().await);
}
