//! Addresses of publishers, and producers that number their events.

use access::DEVELOPMENT_KEY_VALUE;
use amqp::Value;
use amqp::codec::Symbol;
use amqp::connection::LinkOptions;
use amqp::message::{MessageView, encode};
use amqp::performative::DeliveryState;

use crate::client::{Client, service, token};

/// What the events of both partitions have under this annotation.
async fn annotations(client: &mut Client, name: &str, count: [usize; 2]) -> Vec<Option<Value>> {
    let mut found = Vec::new();
    for (partition, count) in count.into_iter().enumerate() {
        let address = format!("events/ConsumerGroups/$Default/Partitions/{partition}");
        let receiver = client.attach_receiver(&address, 100).await.unwrap();
        for event in client.receive(receiver, count).await {
            let view = MessageView::parse(&event).unwrap();
            found.push(view.message_annotations().unwrap().find(name).unwrap());
        }
    }
    found
}

fn event(annotations: &[(&'static str, Value)]) -> Vec<u8> {
    let annotations: Vec<_> =
        annotations.iter().map(|(name, value)| (Symbol::from_static(name), value.clone())).collect();
    let mut message = Vec::new();
    encode::message_annotations(&mut message, &annotations);
    encode::data(&mut message, b"event");
    message
}

#[tokio::test]
async fn events_of_a_publisher_bear_its_name_and_share_a_partition() {
    let service = service().await;
    let mut client = Client::connect(service.amqp_address()).await;
    let sender = client.attach_sender("amqps://localhost/events/publishers/device-7").await.unwrap();
    let forged = ("x-opt-publisher", Value::from("someone-else"));
    let own = ("x-own", Value::from("kept"));
    for message in [event(&[]), event(std::slice::from_ref(&own)), event(&[forged.clone(), own.clone()])] {
        let outcome = client.send_message(sender, &message).await;
        assert_eq!(outcome, DeliveryState::Accepted);
    }
    // "device-7" belongs to one of them, and the others are for nobody.
    let hub = service.namespace().hub("events").unwrap();
    let partition = hub.partition_for_key("device-7").id();
    let count = if partition == 0 { [3, 0] } else { [0, 3] };
    let device = Some(Value::from("device-7"));
    assert_eq!(
        annotations(&mut client, "x-opt-publisher", count).await,
        [device.clone(), device.clone(), device]
    );
    let kept = Some(Value::from("kept"));
    assert_eq!(annotations(&mut client, "x-own", count).await, [None, kept.clone(), kept]);
}

#[tokio::test]
async fn only_a_publisher_can_give_events_its_name() {
    let service = service().await;
    let mut client = Client::connect(service.amqp_address()).await;
    let sender = client.attach_sender("events/Partitions/0").await.unwrap();
    let forged = event(&[("x-opt-publisher", Value::from("device-7"))]);
    assert_eq!(client.send_message(sender, &forged).await, DeliveryState::Accepted);
    assert_eq!(annotations(&mut client, "x-opt-publisher", [1, 0]).await, [None]);
}

#[tokio::test]
async fn a_token_for_one_publisher_is_for_that_one_alone() {
    let service = service().await;
    let mut client = Client::connect_unauthorized(service.amqp_address()).await;
    let resource = "sb://localhost/events/publishers/device-7";
    let signed = token(DEVELOPMENT_KEY_VALUE, resource, 3600);
    assert_eq!(client.put_token_for(resource, &signed).await, 202);
    client.attach_sender("events/Publishers/device-7").await.unwrap();
    for other in ["events/Publishers/device-8", "events/Publishers/device-77", "events"] {
        let error = client.attach_sender(other).await.unwrap_err();
        assert_eq!(error.condition.as_str(), "amqp:unauthorized-access", "{other}");
    }
}

#[tokio::test]
async fn a_publisher_of_an_unknown_hub_is_not_found() {
    let service = service().await;
    let mut client = Client::connect(service.amqp_address()).await;
    let error = client.attach_sender("nowhere/Publishers/device-7").await.unwrap_err();
    assert_eq!(error.condition.as_str(), "amqp:not-found");
}

#[tokio::test]
async fn an_idempotent_producer_gets_its_first_sequence_number() {
    let service = service().await;
    let mut client = Client::connect(service.amqp_address()).await;
    let capability = Symbol::from("com.microsoft:idempotent-producer");
    let names = ["id", "epoch", "sequence-number"]
        .map(|name| Symbol::from(&*format!("com.microsoft:producer-{name}")));
    let ask = |values: [Value; 3]| {
        let (capability, names) = (capability.clone(), names.clone());
        move |options: &mut LinkOptions| {
            options.desired_capabilities = vec![capability];
            options.properties = names.into_iter().zip(values).collect();
        }
    };
    let nothing = [Value::Null, Value::Null, Value::Null];
    let mut ids = Vec::new();
    for _ in 0..2 {
        let (_link, answer) = client.ask_to_send("events/Partitions/0", ask(nothing.clone())).await.unwrap();
        assert_eq!(answer.offered_capabilities, std::slice::from_ref(&capability));
        ids.push(answer.property("com.microsoft:producer-id").cloned());
        assert_eq!(answer.property("com.microsoft:producer-epoch"), Some(&Value::Short(0)));
        assert_eq!(answer.property("com.microsoft:producer-sequence-number"), Some(&Value::Int(0)));
    }
    assert!(matches!(ids[0], Some(Value::Long(_))) && ids[0] != ids[1], "{ids:?}");
    let given = [Value::Long(77), Value::Short(3), Value::Int(500)];
    let (link, answer) = client.ask_to_send("events/Partitions/0", ask(given.clone())).await.unwrap();
    for (name, value) in names.iter().zip(given) {
        assert_eq!(answer.property(name.as_str()), Some(&value));
    }
    let numbered = event(&[("com.microsoft:producer-sequence-number", Value::Int(501))]);
    assert_eq!(client.send_message(link, &numbered).await, DeliveryState::Accepted);
    let (_plain, answer) = client.ask_to_send("events", |_| {}).await.unwrap();
    assert_eq!((answer.offered_capabilities, answer.properties), (Vec::new(), Vec::new()));
}
