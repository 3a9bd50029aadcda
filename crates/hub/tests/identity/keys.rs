//! Keys that come by HTTP.

use hub::service::Protocol;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;

use crate::identity::issuer::{Issuer, Wanted, issuer, start};
use crate::identity::request::ask;

/// Answers requests, one after the other, with what `answers` has; the last one again and again.
async fn publish(listener: TcpListener, answers: Vec<(u16, String)>) {
    for number in 0.. {
        let (mut socket, _) = listener.accept().await.unwrap();
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            head.push(socket.read_u8().await.unwrap());
        }
        let (status, body) = &answers[answers.len().min(number + 1) - 1];
        let length = body.len();
        let reply = format!(
            "HTTP/1.1 {status} Status\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{body}"
        );
        socket.write_all(reply.as_bytes()).await.unwrap();
    }
}

#[tokio::test]
async fn tokens_are_put_off_until_the_keys_of_their_issuer_have_come() {
    let own = Issuer::new();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let service = start(issuer(&format!("http://{address}/keys"))).await;
    let bearer = format!("Authorization: Bearer {}", own.token(&Wanted::default()));
    let headers = [bearer.as_str()];
    let send = || ask(service.amqp_address(), "POST", "/events/messages", &headers, "event");
    // Nobody answers yet.
    let reply = send().await;
    assert_eq!(reply.status, 503, "{}", reply.body);
    assert!(reply.head.contains("retry-after: "), "{}", reply.head);
    let ready = || async {
        let operations = service.address(Protocol::Operations).unwrap();
        ask(operations, "GET", "/ready", &[], "").await
    };
    let waiting = ready().await;
    assert_eq!(waiting.status, 503);
    assert!(
        waiting.body.contains("identity: the keys of the issuer https://sts.example/tenant/"),
        "{}",
        waiting.body
    );
    let publishing = tokio::spawn(publish(listener, vec![(200, own.keys())]));
    test_peer::within("the keys", async {
        while send().await.status != 201 {
            tokio::task::yield_now().await;
        }
    })
    .await;
    // A key that nobody knows is refused for good: the keys have just come.
    let other = format!("Authorization: Bearer {}", Issuer::new().token(&Wanted::default()));
    let refused = ask(service.amqp_address(), "POST", "/events/messages", &[&other], "event").await;
    assert_eq!(refused.status, 401);
    publishing.abort();
    service.stop().await;
}
