//! The client for namespaces against the embedded service: entities come and go, and what cannot be done is said.

#![expect(clippy::unwrap_used, reason = "what helpers of tests do not expect fails the test")]

use connect::event::PartitionId;
use connect::event_hubs::{EventHubsOptions, NamespaceClient};
use connect::service::ServiceError;
use connect::sink::ErrorClass;
use hub::namespace::{HubConfig, NamespaceConfig, RightConfig, RuleConfig};
use hub::service::{Service, ServiceConfig};

async fn serve(config: NamespaceConfig) -> (Service, NamespaceClient) {
    let service = Service::start(ServiceConfig::loopback(config)).await.unwrap();
    let options = EventHubsOptions::for_namespace(service.connection_string(None));
    let client = NamespaceClient::connect(options).await.unwrap();
    (service, client)
}

async fn names(client: &mut NamespaceClient) -> Vec<String> {
    let hubs = client.hubs().await.unwrap();
    hubs.into_iter().map(|hub| hub.name).collect()
}

/// A refusal that trying again does not change, with its status.
fn assert_refused<T: std::fmt::Debug>(result: Result<T, ServiceError>, status: u16, text: &str) {
    let error = result.unwrap_err();
    assert_eq!(error.class, ErrorClass::Fatal, "{error}");
    assert!(
        error.description.contains(text) && error.description.ends_with(&format!("(status {status})")),
        "{error}"
    );
}

#[tokio::test]
async fn hubs_are_created_listed_shown_and_deleted() {
    let (service, mut client) = serve(NamespaceConfig::with_hubs(vec![])).await;
    assert!(names(&mut client).await.is_empty());
    let groups = ["billing".to_owned()];
    let created = client.create_hub("Orders", 3, &groups).await.unwrap();
    assert_eq!((created.name.as_str(), created.partition_ids.len()), ("Orders", 3));
    client.create_hub("audit/2026", 1, &[]).await.unwrap();
    let listed = client.hubs().await.unwrap();
    assert_eq!((listed[0].name.as_str(), listed[0].partition_count), ("Orders", 3));
    assert_eq!(listed[0].created_at_unix_ms, created.created_at_unix_ms);
    assert_eq!(listed[1].name, "audit/2026");
    assert_eq!(client.hub("orders").await.unwrap(), created);
    assert_eq!(client.consumer_groups("orders").await.unwrap(), ["$Default", "billing"]);
    let partition = client.partition("orders", PartitionId(2)).await.unwrap();
    assert!(partition.is_empty);

    client.delete_hub("ORDERS").await.unwrap();
    assert_eq!(names(&mut client).await, ["audit/2026"]);
    assert!(service.namespace().hub("orders").is_none());
    client.close().await;
    service.stop().await;
}

#[tokio::test]
async fn consumer_groups_come_and_go() {
    let config = NamespaceConfig::with_hubs(vec![HubConfig::new("orders", 1)]);
    let (service, mut client) = serve(config).await;
    client.create_consumer_group("orders", "Billing").await.unwrap();
    assert_eq!(client.consumer_groups("orders").await.unwrap(), ["$Default", "Billing"]);
    assert_refused(
        client.create_consumer_group("orders", "billing").await,
        409,
        "already has a consumer group 'billing'",
    );
    client.delete_consumer_group("orders", "BILLING").await.unwrap();
    assert_refused(
        client.delete_consumer_group("orders", "billing").await,
        404,
        "The messaging entity 'sb://localhost/orders/ConsumerGroups/billing' could not be found.",
    );
    assert_refused(client.delete_consumer_group("orders", "$default").await, 400, "can't be deleted");
    service.stop().await;
}

#[tokio::test]
async fn what_cannot_be_created_or_deleted_is_refused_with_the_reason() {
    let config = NamespaceConfig::with_hubs(vec![HubConfig::new("orders", 1)]);
    let (service, mut client) = serve(config).await;
    assert_refused(client.create_hub("ORDERS", 1, &[]).await, 409, "The hub 'orders' exists already.");
    for (name, partitions, group, reason) in [
        ("a b", 1, "g", "is not a valid name for a hub"),
        ("a", 0, "g", "is not from 1 to 32768"),
        ("a", 70_000, "g", "'partition_count' is not a number"),
        ("a", 1, "g/h", "is not a valid name for a consumer group"),
        ("a", 1, "$Default", "need not be listed"),
    ] {
        let groups = [group.to_owned()];
        let refused = client.create_hub(name, partitions, &groups).await;
        assert_refused(refused, 400, reason);
    }
    let missing = "The messaging entity 'sb://localhost/missing' could not be found.";
    assert_refused(client.delete_hub("missing").await, 404, missing);
    assert_refused(client.hub("missing").await, 404, missing);
    assert_refused(client.consumer_groups("missing").await, 404, missing);
    assert_refused(client.create_consumer_group("missing", "g").await, 404, missing);
    assert_eq!(names(&mut client).await, ["orders"]);
    service.stop().await;
}

#[tokio::test]
async fn who_may_not_manage_may_look_only() {
    let mut config = NamespaceConfig::with_hubs(vec![HubConfig::new("orders", 1)]);
    config.authorization_rules =
        vec![RuleConfig { name: "reader".into(), key: "value".into(), rights: vec![RightConfig::Listen] }];
    let (service, mut client) = serve(config).await;
    assert_eq!(names(&mut client).await, ["orders"]);
    let text = "'Manage' claim(s) are required";
    assert_refused(client.create_hub("a", 1, &[]).await, 401, text);
    assert_refused(client.delete_hub("orders").await, 401, text);
    assert_refused(client.create_consumer_group("orders", "g").await, 401, text);
    service.stop().await;
}

#[tokio::test]
async fn a_long_list_comes_in_pages() {
    let hubs = (0..1201).map(|number| HubConfig::new(format!("hub{number:04}"), 1));
    let (service, mut client) = serve(NamespaceConfig::with_hubs(hubs.collect())).await;
    let names = names(&mut client).await;
    assert_eq!(names.len(), 1201);
    assert!(names.is_sorted());
    service.stop().await;
}

#[tokio::test]
async fn clients_beyond_the_limit_get_an_error_and_there_is_room_again_when_one_leaves() {
    let mut config = NamespaceConfig::with_hubs(vec![]);
    config.maximum_connections = std::num::NonZeroU32::MIN;
    let (service, client) = serve(config).await;
    let options = || {
        let mut options = EventHubsOptions::for_namespace(service.connection_string(None));
        options.connect_timeout = std::time::Duration::from_secs(20);
        options
    };
    let refused = NamespaceClient::connect(options()).await.unwrap_err();
    assert_eq!(refused.condition, "amqp:resource-limit-exceeded");
    assert_eq!(refused.description, "The namespace has reached its maximum number of connections: 1.");
    client.close().await;
    // The service notices the end of a connection in its own time.
    let second = loop {
        match NamespaceClient::connect(options()).await {
            Ok(client) => break client,
            Err(error) => assert_eq!(error.condition, "amqp:resource-limit-exceeded"),
        }
    };
    second.close().await;
    service.stop().await;
}
