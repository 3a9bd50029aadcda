//! Memory that all Kafka clients share: what happens at the bounds, and that everyone else is served meanwhile.

use std::io::ErrorKind;

use hub::namespace::{HubConfig, NamespaceConfig, RightConfig, RuleConfig};
use hub::service::Protocol;
use kafka::ApiKey;
use kafka_protocol::messages::{ApiVersionsRequest, ApiVersionsResponse};
use test_peer::within;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::kafka_peer::{Peer, start};

/// A frame that announces `length` bytes and has all but one of them.
fn unfinished(length: u32) -> Vec<u8> {
    let mut frame = length.to_be_bytes().to_vec();
    frame.resize(frame.len() + length as usize - 1, 0);
    frame
}

#[tokio::test]
async fn unfinished_requests_without_login_are_bounded_together() {
    let mut namespace = NamespaceConfig::with_hubs(vec![HubConfig::new("events", 1)]);
    // With keys of its own, a namespace requires a login.
    namespace.authorization_rules =
        vec![RuleConfig { name: "all".into(), key: "secret".into(), rights: vec![RightConfig::Manage] }];
    let service = start(namespace).await;
    let address = service.address(Protocol::Kafka).unwrap();
    let frame = unfinished(120 * 1024);
    let mut strangers = Vec::new();
    // 300 of them would hold 36 MiB.
    for _ in 0..300 {
        let mut stranger = TcpStream::connect(address).await.unwrap();
        // One that is refused may be closed before it has sent everything.
        let _ = within("the request", stranger.write_all(&frame)).await;
        strangers.push(stranger);
    }
    for refused in &mut strangers[200..] {
        // A reset is an end as well.
        assert!(!matches!(within("the end", refused.read(&mut [0])).await, Ok(1..)));
    }
    let mut witness = Peer::new(&service).await;
    let versions: ApiVersionsResponse =
        witness.ask(ApiKey::ApiVersions, 3, &ApiVersionsRequest::default()).await;
    assert_eq!(versions.error_code, 0);
    for waiting in &strangers[..100] {
        let read = waiting.try_read(&mut [0]);
        assert!(read.is_err_and(|error| error.kind() == ErrorKind::WouldBlock), "it is still served");
    }
    service.stop().await;
}
