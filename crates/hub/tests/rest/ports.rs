//! One address for all protocols, and HTTP/2.

use std::time::Duration;

use access::{DEVELOPMENT_KEY_VALUE, ROOT_KEY_NAME};
use amqp::connection::SaslClient;
use bytes::Bytes;
use http_body_util::{BodyExt as _, Full};
use hub::service::{Protocol, Service, ServiceConfig};
use hyper_util::rt::{TokioExecutor, TokioIo};
use test_peer::queue_client::QueueClient;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::rest::client::{Client, namespace, service, token, within};

#[tokio::test]
async fn one_port_answers_amqp_http_and_web_sockets() {
    let service = service().await;
    let address = service.amqp_address();
    let mut http = Client::connect(address).await;
    assert_eq!(http.ask("POST", "/orders/messages", "", b"over HTTP").await.status, 201);
    let mut amqp = QueueClient::connect_with_key(address, ROOT_KEY_NAME, DEVELOPMENT_KEY_VALUE).await;
    let link = amqp.receiver("orders", 1).await;
    assert_eq!(amqp.receive(link, 1).await[0].payload(), b"over HTTP");
    let stream = test_peer::Client::stream(address).await;
    let stream = amqp_tokio::connect_web_socket(stream, "localhost", address.port(), Duration::from_secs(10));
    let sasl = SaslClient::Plain { username: ROOT_KEY_NAME.into(), password: DEVELOPMENT_KEY_VALUE.into() };
    let over_web_socket = test_peer::Client::open(stream.await.unwrap(), sasl, None).await.unwrap();
    over_web_socket.close().await;
    amqp.close().await;
    service.stop().await;
}

#[tokio::test]
async fn a_web_socket_may_be_asked_for_by_a_whole_url() {
    let service = service().await;
    for target in ["/$servicebus/websocket", "https://a.example:5671/$servicebus/websocket"] {
        let mut socket = TcpStream::connect(service.amqp_address()).await.unwrap();
        let request = format!(
            "GET {target} HTTP/1.1\r\nHost: a.example\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
             Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\nSec-WebSocket-Protocol: AMQPWSB10\r\n\r\n"
        );
        socket.write_all(request.as_bytes()).await.unwrap();
        let mut answer = Vec::new();
        within("the answer", async {
            while !answer.ends_with(b"\r\n\r\n") {
                assert_ne!(socket.read_buf(&mut answer).await.unwrap(), 0);
            }
        })
        .await;
        let answer = String::from_utf8(answer).unwrap();
        assert!(answer.starts_with("HTTP/1.1 101 "), "{target}: {answer}");
    }
    service.stop().await;
}

#[tokio::test]
async fn first_bytes_may_come_one_by_one() {
    let service = service().await;
    for request in [
        "GET /$Resources/Queues HTTP/1.1\r\n",
        "GET http://localhost:5672/$Resources/Queues HTTP/1.1\r\n",
        "POST /orders/messages HTTP/1.1\r\n",
    ] {
        let mut client = Client::connect(service.amqp_address()).await;
        client.socket.set_nodelay(true).unwrap();
        let rest = format!("Host: h\r\nAuthorization: {}\r\nContent-Length: 0\r\n\r\n", token(""));
        for byte in request.bytes() {
            client.write(&[byte]).await;
            tokio::task::yield_now().await;
        }
        client.write(rest.as_bytes()).await;
        assert!(matches!(client.reply().await.status, 200 | 201), "{request}");
    }
    service.stop().await;
}

/// Sends requests over HTTP/2, all at once.
async fn sends_over_http_2(service: &Service, address: std::net::SocketAddr) {
    let socket = TokioIo::new(TcpStream::connect(address).await.unwrap());
    let executor = TokioExecutor::new();
    let (client, connection) = hyper::client::conn::http2::handshake(executor, socket).await.unwrap();
    let connection = tokio::spawn(connection);
    let before = service.namespace().counters().events_in;
    let bodies: Vec<Vec<u8>> = vec![b"small".to_vec(), vec![7; 300_000], Vec::new()];
    let sends = bodies.into_iter().map(|body| {
        let request = hyper::Request::post("http://localhost/events/messages")
            .header("authorization", token("events"))
            .header("x-own", "5")
            .body(Full::new(Bytes::from(body)))
            .unwrap();
        let mut client = client.clone();
        async move { client.send_request(request).await.unwrap().status().as_u16() }
    });
    let mut statuses = Vec::new();
    for send in sends.map(tokio::spawn).collect::<Vec<_>>() {
        statuses.push(within("the response", send).await.unwrap());
    }
    assert_eq!(statuses, [201, 201, 201]);
    assert_eq!(service.namespace().counters().events_in - before, 3);
    let nothing = hyper::Request::get("http://localhost/nothing").body(Full::new(Bytes::new())).unwrap();
    let refused = within("the refusal", client.clone().send_request(nothing)).await.unwrap();
    assert_eq!(refused.status(), 401);
    // Its body is not read.
    let upload = hyper::Request::post("http://localhost/events/messages");
    let upload = upload.body(Full::new(Bytes::from(vec![7; 3 << 20]))).unwrap();
    let refused = within("the refusal", client.clone().send_request(upload)).await.unwrap();
    assert_eq!(refused.status(), 401);
    let text = within("its text", refused.into_body().collect()).await.unwrap().to_bytes();
    assert!(text.starts_with(b"<Error><Code>401</Code>"), "{text:?}");
    drop(client);
    within("the end", connection).await.unwrap().unwrap();
}

#[tokio::test]
async fn http_2_is_served_where_http_1_is() {
    let service = service().await;
    sends_over_http_2(&service, service.amqp_address()).await;
    service.stop().await;
}

#[tokio::test]
async fn an_address_for_http_alone_serves_no_amqp() {
    let config = ServiceConfig::loopback(namespace()).and(Protocol::Rest);
    let service = Service::start(config).await.unwrap();
    let address = service.address(Protocol::Rest).unwrap();
    let mut http = Client::connect(address).await;
    assert_eq!(http.ask("POST", "/orders/messages", "", b"over HTTP").await.status, 201);
    sends_over_http_2(&service, address).await;
    let mut amqp = Client::connect(address).await;
    amqp.write(b"AMQP\x03\x01\x00\x00").await;
    assert!(amqp.is_over().await);
    service.stop().await;
}
