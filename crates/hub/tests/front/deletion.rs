//! Links to what is deleted while they are there.

use amqp::performative::DeliveryState;
use hub::namespace::HubConfig;
use hub::service::Service;

use crate::front::client::{Client, service_with, within};

async fn two_hubs() -> Service {
    let group = HubConfig { consumer_groups: vec!["billing".into()], ..HubConfig::new("doomed", 2) };
    service_with(vec![HubConfig::new("events", 2), group]).await
}

#[tokio::test]
async fn links_to_a_hub_that_is_deleted_are_ended_and_no_others() {
    let service = two_hubs().await;
    let mut client = Client::connect(service.amqp_address()).await;
    let mut links = Vec::new();
    for address in ["doomed", "doomed/Partitions/1", "doomed/Publishers/device-7"] {
        let link = client.attach_sender(address).await.unwrap();
        links.push((link, address));
    }
    // With credit and without, at the end of the log and before it.
    assert_eq!(client.send(links[1].0, b"event").await, DeliveryState::Accepted);
    for (address, credit) in [
        ("doomed/ConsumerGroups/$Default/Partitions/0", 10),
        ("doomed/ConsumerGroups/$Default/Partitions/1", 0),
        ("doomed/ConsumerGroups/billing/Partitions/1", 10),
    ] {
        let link = client.attach_receiver(address, credit).await.unwrap();
        links.push((link, address));
    }
    service.namespace().delete_hub("doomed").unwrap();
    while !links.is_empty() {
        let (link, error) = client
            .until("the detach", |event| match event {
                amqp::connection::Event::LinkDetached { link, error } => Some((link, error?)),
                _ => None,
            })
            .await;
        let place = links.iter().position(|(ours, _)| *ours == link).unwrap();
        let (_, address) = links.swap_remove(place);
        assert_eq!(error.condition.as_str(), "amqp:not-found");
        assert_eq!(
            error.description,
            format!("The messaging entity 'sb://localhost/{address}' could not be found.")
        );
    }
    for address in ["doomed", "doomed/Partitions/0"] {
        let error = client.attach_sender(address).await.unwrap_err();
        assert_eq!(error.condition.as_str(), "amqp:not-found");
    }
    client.prove_service(b"others are served").await;
}

#[tokio::test]
async fn a_publisher_that_never_pauses_is_notified_as_well() {
    let service = two_hubs().await;
    let mut client = Client::connect(service.amqp_address()).await;
    let sender = client.attach_sender("doomed/Partitions/0").await.unwrap();
    let namespace = std::sync::Arc::clone(service.namespace());
    let deleting = tokio::task::spawn_blocking(move || namespace.delete_hub("doomed"));
    within("the end", async {
        // Whichever comes first.
        while client.connection().is_attached(sender) {
            match client.try_send(sender, b"event").await {
                Some(DeliveryState::Accepted) => {}
                Some(DeliveryState::Rejected(Some(error))) => {
                    assert_eq!(error.condition.as_str(), "amqp:not-found");
                }
                Some(other) => panic!("{other:?}"),
                None => return,
            }
        }
    })
    .await;
    deleting.await.unwrap().unwrap();
}

#[tokio::test]
async fn readers_of_a_consumer_group_that_is_deleted_are_ended_alone() {
    let service = two_hubs().await;
    let mut client = Client::connect(service.amqp_address()).await;
    let of_the_group =
        client.attach_receiver("doomed/ConsumerGroups/billing/Partitions/0", 10).await.unwrap();
    let of_another = client.attach_receiver("doomed/ConsumerGroups/$Default/Partitions/0", 10).await.unwrap();
    service.namespace().delete_consumer_group("doomed", "billing").unwrap();
    let error = client.detached(of_the_group).await;
    assert_eq!(error.condition.as_str(), "amqp:not-found");
    let sender = client.attach_sender("doomed/Partitions/0").await.unwrap();
    assert_eq!(client.send(sender, b"for the other").await, DeliveryState::Accepted);
    client.receive(of_another, 1).await;
}
