//! Hubs and queues over AMQP and HTTP.

use std::time::Duration;

use amqp::connection::SaslClient;
use amqp::performative::ErrorCondition;
use hub::service::{Protocol, Service};
use test_peer::Client;

use crate::identity::issuer::{EVENT_HUBS, Issuer, Wanted, refused};
use crate::identity::request::ask;

async fn client(service: &Service) -> Client {
    let stream = Client::stream(service.amqp_address()).await;
    Client::open(stream, SaslClient::Anonymous, None).await.unwrap()
}

#[tokio::test]
async fn a_token_opens_links_by_its_roles() {
    let issuer = Issuer::new();
    let service = issuer.service().await;
    for audience in
        [EVENT_HUBS, "https://eventhubs.azure.net//", "https://servicebus.azure.net", "https://localhost"]
    {
        let mut owner = client(&service).await;
        let token = issuer.token(&Wanted { audience, ..Wanted::default() });
        assert_eq!(owner.present_token("sb://localhost/events", &token).await.0, 202, "{audience}");
        owner.ask_to_send("events", |_| {}).await.unwrap();
        owner.ask_to_send("orders", |_| {}).await.unwrap();
    }
    let mut sender = client(&service).await;
    let token = issuer.token(&Wanted { roles: &["EventHubs.Data.Sender"], ..Wanted::default() });
    assert_eq!(sender.present_token("sb://localhost/events", &token).await.0, 202);
    sender.ask_to_send("events", |_| {}).await.unwrap();
    let error =
        sender.ask_to_receive("events/ConsumerGroups/$Default/Partitions/0", |_| {}).await.unwrap_err();
    assert_eq!(error.condition, ErrorCondition::UNAUTHORIZED_ACCESS);
    assert!(error.description.contains("'Listen' claim(s) are required"));
    service.stop().await;
}

#[tokio::test]
async fn a_role_with_a_scope_is_worth_nothing_beside_it() {
    let issuer = Issuer::new();
    let service = issuer.service().await;
    let mut reader = client(&service).await;
    let token = issuer.token(&Wanted { principal: "reader", roles: &[], ..Wanted::default() });
    for hub in ["audit", "events"] {
        assert_eq!(reader.present_token(&format!("sb://localhost/{hub}"), &token).await.0, 202);
    }
    reader.ask_to_receive("audit/ConsumerGroups/$Default/Partitions/0", |_| {}).await.unwrap();
    for hub in ["audit", "events"] {
        let error = reader.ask_to_send(hub, |_| {}).await.unwrap_err();
        assert_eq!(error.condition, ErrorCondition::UNAUTHORIZED_ACCESS);
    }
    reader.ask_to_receive("events/ConsumerGroups/$Default/Partitions/0", |_| {}).await.unwrap_err();
    service.stop().await;
}

#[tokio::test]
async fn what_is_no_good_token_is_refused_in_the_words_of_the_service_and_counted() {
    let issuer = Issuer::new();
    let service = issuer.service().await;
    let kinds =
        ["InvalidIssuer", "InvalidSignature", "InvalidAudience", "ExpiredToken", "Unauthorized access"];
    for ((token, part), kind) in refused(&issuer, EVENT_HUBS).into_iter().zip(kinds) {
        let mut stranger = client(&service).await;
        let (status, text) = stranger.present_token("sb://localhost/events", &token).await;
        assert_eq!(status, 401, "{text}");
        assert!(text.starts_with(kind) && text.contains(part), "{text}");
        stranger.ask_to_send("events", |_| {}).await.unwrap_err();
        let bearer = format!("Authorization: Bearer {token}");
        let reply = ask(service.amqp_address(), "POST", "/events/messages", &[&bearer], "event").await;
        assert_eq!(reply.status, 401);
        assert!(reply.body.contains(kind) && reply.body.contains("TrackingId:"), "{}", reply.body);
    }
    let metrics = ask(service.address(Protocol::Operations).unwrap(), "GET", "/metrics", &[], "").await.body;
    for reason in ["issuer", "key", "audience", "expired", "role"] {
        let line = format!("parshall_hub_bearer_tokens_refused_total{{reason=\"{reason}\"}} 2\n");
        assert!(metrics.contains(&line), "{line}{metrics}");
    }
    assert_eq!(service.namespace().counters().events_in, 0);
    service.stop().await;
}

#[tokio::test]
async fn a_bearer_token_is_good_for_requests_over_http() {
    let issuer = Issuer::new();
    let service = issuer.service().await;
    let sender = issuer.token(&Wanted { roles: &["ServiceBus.Data.Sender"], ..Wanted::default() });
    let headers = [format!("Authorization: Bearer {sender}")];
    let headers = [headers[0].as_str()];
    let address = service.amqp_address();
    assert_eq!(ask(address, "POST", "/events/messages", &headers, "event").await.status, 201);
    assert_eq!(ask(address, "POST", "/orders/messages", &headers, "order").await.status, 201);
    let reply = ask(address, "DELETE", "/orders/messages/head?timeout=0", &headers, "").await;
    assert_eq!(reply.status, 401);
    assert!(reply.body.contains("'Listen' claim(s) are required"), "{}", reply.body);
    service.stop().await;
}

#[tokio::test]
async fn links_go_when_their_token_ends() {
    let issuer = Issuer::new();
    let service = issuer.service().await;
    let mut client = client(&service).await;
    let short = issuer.token(&Wanted { seconds: 60, ..Wanted::default() });
    assert_eq!(client.present_token("sb://localhost/events", &short).await.0, 202);
    let (link, _) = client.ask_to_send("events", |_| {}).await.unwrap();
    // One that lasts longer takes its place.
    let long = issuer.token(&Wanted { seconds: 3600, ..Wanted::default() });
    assert_eq!(client.present_token("sb://localhost/events", &long).await.0, 202);
    service.namespace().clock().jump(Duration::from_secs(120));
    client.ask_to_send("events", |_| {}).await.unwrap();
    service.namespace().clock().jump(Duration::from_secs(3600));
    assert_eq!(client.detached(link).await.condition, ErrorCondition::UNAUTHORIZED_ACCESS);
    service.stop().await;
}

#[tokio::test]
async fn shared_access_signatures_go_on_beside_tokens() {
    let issuer = Issuer::new();
    let service = issuer.service().await;
    let key = access::SharedAccessKey::new(access::ROOT_KEY_NAME, access::DEVELOPMENT_KEY_VALUE);
    let token = key.sign("sb://localhost/", std::time::SystemTime::now() + Duration::from_secs(60));
    let mut client = client(&service).await;
    assert_eq!(client.present_token("sb://localhost/", &token).await.0, 202);
    client.ask_to_send("events", |_| {}).await.unwrap();
    service.stop().await;
}
