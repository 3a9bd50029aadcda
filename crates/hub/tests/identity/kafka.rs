//! SASL OAUTHBEARER.

use std::time::Duration;

use bytes::Bytes;
use hub::service::Service;
use kafka::ApiKey;
use kafka_protocol::messages::{
    MetadataRequest, SaslAuthenticateRequest, SaslAuthenticateResponse, SaslHandshakeRequest,
    SaslHandshakeResponse,
};
use kafka_protocol::protocol::StrBytes;

use crate::identity::issuer::{EVENT_HUBS, Issuer, Wanted, refused};
use crate::kafka_peer::{Peer, batch, produce};

async fn shake_hands(peer: &mut Peer) {
    let request = SaslHandshakeRequest::default().with_mechanism(StrBytes::from_static_str("OAUTHBEARER"));
    let answer: SaslHandshakeResponse = peer.ask(ApiKey::SaslHandshake, 1, &request).await;
    assert_eq!(answer.error_code, 0);
    assert_eq!(answer.mechanisms, ["PLAIN", "OAUTHBEARER"].map(StrBytes::from_static_str));
}

async fn say(peer: &mut Peer, message: impl Into<Bytes>) -> SaslAuthenticateResponse {
    let request = SaslAuthenticateRequest::default().with_auth_bytes(message.into());
    peer.ask(ApiKey::SaslAuthenticate, 2, &request).await
}

async fn log_in(peer: &mut Peer, token: &str) -> SaslAuthenticateResponse {
    say(peer, format!("n,,\u{1}auth=Bearer {token}\u{1}\u{1}")).await
}

async fn connect(service: &Service) -> Peer {
    let mut peer = Peer::new(service).await;
    shake_hands(&mut peer).await;
    peer
}

#[tokio::test]
async fn a_token_logs_a_client_in_until_it_ends_and_another_one_prolongs_that() {
    let issuer = Issuer::new();
    let service = issuer.service().await;
    let mut peer = connect(&service).await;
    let token = issuer.token(&Wanted { seconds: 60, ..Wanted::default() });
    let answer = log_in(&mut peer, &token).await;
    assert_eq!(answer.error_code, 0, "{:?}", answer.error_message);
    assert!((1..=60_000).contains(&answer.session_lifetime_ms), "{}", answer.session_lifetime_ms);
    assert_eq!(peer.produce(&produce("events", 0, batch(&[b"first"]))).await.0, 0);

    shake_hands(&mut peer).await;
    let token = issuer.token(&Wanted { seconds: 3600, ..Wanted::default() });
    assert_eq!(log_in(&mut peer, &token).await.error_code, 0);
    service.namespace().clock().jump(Duration::from_secs(120));
    assert_eq!(peer.produce(&produce("events", 0, batch(&[b"second"]))).await.0, 0);
    service.namespace().clock().jump(Duration::from_secs(3600));
    peer.send(ApiKey::Metadata, 9, &MetadataRequest::default()).await;
    assert!(peer.is_closed().await);
    assert_eq!(service.namespace().counters().events_in, 2);
    service.stop().await;
}

#[tokio::test]
async fn a_token_that_is_refused_is_told_so_in_json_and_then_by_the_error() {
    let issuer = Issuer::new();
    let service = issuer.service().await;
    for (token, part) in refused(&issuer, EVENT_HUBS) {
        let mut peer = connect(&service).await;
        let answer = log_in(&mut peer, &token).await;
        assert_eq!(answer.error_code, 0);
        let challenge: serde_json::Value = serde_json::from_slice(&answer.auth_bytes).unwrap();
        let status = if part == "has no role here" { "insufficient_scope" } else { "invalid_token" };
        assert_eq!(challenge["status"], status);
        assert!(challenge["error_description"].as_str().unwrap().contains(part), "{challenge}");
        let answer = say(&mut peer, &b"\x01"[..]).await;
        assert_eq!(answer.error_code, SASL_AUTHENTICATION_FAILED);
        assert!(answer.error_message.unwrap().contains(part));
        peer.send(ApiKey::Metadata, 9, &MetadataRequest::default()).await;
        assert!(peer.is_closed().await);
    }
    let mut peer = connect(&service).await;
    assert_eq!(say(&mut peer, &b"let me in"[..]).await.error_code, SASL_AUTHENTICATION_FAILED);
    service.stop().await;
}

#[tokio::test]
async fn a_role_for_sending_writes_and_does_not_read() {
    let issuer = Issuer::new();
    let service = issuer.service().await;
    let mut peer = connect(&service).await;
    let token = issuer.token(&Wanted { roles: &["EventHubs.Data.Sender"], ..Wanted::default() });
    assert_eq!(log_in(&mut peer, &token).await.error_code, 0);
    assert_eq!(peer.produce(&produce("events", 0, batch(&[b"event"]))).await.0, 0);
    let (error, _) = peer.fetch(&crate::kafka_peer::fetch(0, 0, 0)).await;
    assert_eq!(error, TOPIC_AUTHORIZATION_FAILED);
    service.stop().await;
}

const SASL_AUTHENTICATION_FAILED: i16 = 58;
const TOPIC_AUTHORIZATION_FAILED: i16 = 29;
