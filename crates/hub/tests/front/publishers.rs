//! Addresses of publishers, and producers that number their events.

use access::DEVELOPMENT_KEY_VALUE;
use amqp::Value;
use amqp::codec::Symbol;
use amqp::connection::{LinkId, LinkOptions};
use amqp::message::{FORMAT_BATCH, MessageView, encode};
use amqp::performative::{Attach, DeliveryState, Error};

use crate::front::client::{Client, service, token};

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

const CAPABILITY: &str = "com.microsoft:idempotent-producer";
const PARTITION: &str = "events/Partitions/0";

/// The names of id, epoch and number of a producer.
fn names() -> [Symbol; 3] {
    ["id", "epoch", "sequence-number"].map(|name| Symbol::from(&*format!("com.microsoft:producer-{name}")))
}

/// Asks for a link of a producer that numbers its events.
async fn ask(client: &mut Client, values: [Value; 3]) -> Result<(LinkId, Attach), Error> {
    let ask = |options: &mut LinkOptions| {
        options.desired_capabilities = vec![Symbol::from(CAPABILITY)];
        options.properties = names().into_iter().zip(values).collect();
    };
    client.ask_to_send(PARTITION, ask).await
}

/// The same of a client that knows these values.
async fn known(client: &mut Client, id: i64, epoch: i16, number: i32) -> Result<(LinkId, Attach), Error> {
    ask(client, [Value::Long(id), Value::Short(epoch), Value::Int(number)]).await
}

/// Id, epoch and number as the service has answered them.
fn answered(attach: &Attach) -> [Value; 3] {
    assert_eq!(attach.offered_capabilities, [Symbol::from(CAPABILITY)]);
    names().map(|name| attach.property(name.as_str()).cloned().unwrap())
}

fn numbered(number: i32) -> Vec<u8> {
    event(&[("com.microsoft:producer-sequence-number", Value::Int(number))])
}

fn condition(outcome: &DeliveryState) -> &str {
    match outcome {
        DeliveryState::Rejected(Some(error)) => error.condition.as_str(),
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn an_idempotent_producer_gets_its_first_sequence_number() {
    let service = service().await;
    let mut client = Client::connect(service.amqp_address()).await;
    let mut ids = Vec::new();
    for _ in 0..2 {
        let (_link, answer) = ask(&mut client, [Value::Null, Value::Null, Value::Null]).await.unwrap();
        let [id, epoch, number] = answered(&answer);
        assert_eq!((epoch, number), (Value::Short(0), Value::Int(-1)), "its first event has 0");
        ids.push(id);
    }
    assert!(matches!(ids[0], Value::Long(0..0x20_0000_0000_0000)) && ids[0] != ids[1], "{ids:?}");
    let (link, answer) = known(&mut client, 77, 3, 500).await.unwrap();
    assert_eq!(answered(&answer), [Value::Long(77), Value::Short(3), Value::Int(500)]);
    assert_eq!(client.send_message(link, &numbered(501)).await, DeliveryState::Accepted);
    // What it leaves open is what the partition knows.
    let (_link, answer) = ask(&mut client, [Value::Long(77), Value::Null, Value::Null]).await.unwrap();
    assert_eq!(answered(&answer), [Value::Long(77), Value::Short(3), Value::Int(501)]);
    let (_plain, answer) = client.ask_to_send("events", |_| {}).await.unwrap();
    assert_eq!((answer.offered_capabilities, answer.properties), (Vec::new(), Vec::new()));
}

#[tokio::test]
async fn an_event_that_a_producer_sends_again_is_accepted_and_stored_once() {
    let service = service().await;
    let mut client = Client::connect(service.amqp_address()).await;
    let (link, _) = known(&mut client, 7, 0, 0).await.unwrap();
    for number in [1, 2, 2, 1] {
        assert_eq!(client.send_message(link, &numbered(number)).await, DeliveryState::Accepted);
    }
    // The connection is lost, and with it the answer to the second event.
    let mut client = Client::connect(service.amqp_address()).await;
    let (link, answer) = known(&mut client, 7, 0, 1).await.unwrap();
    assert_eq!(answered(&answer)[2], Value::Int(1));
    for number in [2, 3] {
        assert_eq!(client.send_message(link, &numbered(number)).await, DeliveryState::Accepted);
    }
    let outcome = client.send_message(link, &numbered(5)).await;
    assert_eq!(condition(&outcome), "com.microsoft:out-of-order-sequence");
    let numbers = annotations(&mut client, "com.microsoft:producer-sequence-number", [3, 0]).await;
    assert_eq!(numbers, [1, 2, 3].map(|number| Some(Value::Int(number))));
    let counters = service.namespace().hub("events").unwrap().counters();
    assert_eq!((counters.events_in, counters.events_duplicate, counters.batches_out_of_order), (3, 3, 1));
}

#[tokio::test]
async fn a_producer_of_a_newer_epoch_takes_over() {
    let service = service().await;
    let mut client = Client::connect(service.amqp_address()).await;
    let (first, _) = known(&mut client, 7, 0, 0).await.unwrap();
    assert_eq!(client.send_message(first, &numbered(1)).await, DeliveryState::Accepted);
    let mut other = Client::connect(service.amqp_address()).await;
    let (second, _) = known(&mut other, 7, 1, 1).await.unwrap();
    let outcome = client.send_message(first, &numbered(2)).await;
    assert_eq!(condition(&outcome), "com.microsoft:producer-epoch-stolen");
    assert_eq!(other.send_message(second, &numbered(2)).await, DeliveryState::Accepted);
    let refusal = known(&mut client, 7, 0, 1).await.unwrap_err();
    assert_eq!(refusal.condition.as_str(), "com.microsoft:producer-epoch-stolen");
}

#[tokio::test]
async fn a_producer_with_senseless_numbers_is_refused() {
    let service = service().await;
    let mut client = Client::connect(service.amqp_address()).await;
    let senseless = [
        [Value::Null, Value::Short(-1), Value::Null],
        [Value::Long(1 << 53), Value::Null, Value::Null],
        [Value::Null, Value::Null, Value::from("one")],
        [Value::Null, Value::Null, Value::Int(-2)],
    ];
    for values in senseless {
        let error = ask(&mut client, values).await.unwrap_err();
        assert_eq!(error.condition.as_str(), "com.microsoft:argument-out-of-range");
    }
}

async fn send_batch(client: &mut Client, link: LinkId, batch: &[u8]) -> DeliveryState {
    let id = client.begin_message(link, FORMAT_BATCH, batch).await;
    client.outcome(id).await
}

fn desiring(options: &mut LinkOptions) {
    options.desired_capabilities = vec![Symbol::from(CAPABILITY)];
}

/// An event of this producer.
fn numbered_by(id: &Value, epoch: i16, number: i32) -> Vec<u8> {
    event(&[
        ("com.microsoft:producer-id", id.clone()),
        ("com.microsoft:producer-epoch", Value::Short(epoch)),
        ("com.microsoft:producer-sequence-number", Value::Int(number)),
    ])
}

#[tokio::test]
async fn a_producer_may_have_a_link_to_the_hub_as_a_whole_and_number_nothing_there() {
    let service = service().await;
    let mut client = Client::connect(service.amqp_address()).await;
    let (link, answer) = client.ask_to_send("events", desiring).await.unwrap();
    assert_eq!(answer.max_message_size, Some(1 << 20));
    assert!(answer.offered_capabilities.is_empty(), "it can't be used here");
    assert_eq!(client.send(link, b"plain").await, DeliveryState::Accepted);
    for message in [numbered(0), numbered_by(&Value::Long(1), 0, 0)] {
        assert_eq!(condition(&client.send_message(link, &message).await), "amqp:not-allowed");
    }
    let mut batch = Vec::new();
    encode::data(&mut batch, &event(&[]));
    encode::data(&mut batch, &numbered(0));
    let outcome = send_batch(&mut client, link, &batch).await;
    assert_eq!(condition(&outcome), "amqp:not-allowed");
    assert_eq!(service.namespace().hub("events").unwrap().counters().events_in, 1);
}

#[tokio::test]
async fn a_producer_goes_on_over_a_link_that_names_no_id() {
    let service = service().await;
    let mut client = Client::connect(service.amqp_address()).await;
    let (link, answer) = client.ask_to_send(PARTITION, desiring).await.unwrap();
    let [id, ..] = answered(&answer);
    for number in [0, 1] {
        let outcome = client.send_message(link, &numbered_by(&id, 0, number)).await;
        assert_eq!(outcome, DeliveryState::Accepted);
    }
    // After the connection was lost, with the answer to the second event.
    let mut client = Client::connect(service.amqp_address()).await;
    let (link, answer) = client.ask_to_send(PARTITION, desiring).await.unwrap();
    assert_ne!(answered(&answer)[0], id);
    for number in [1, 2] {
        let outcome = client.send_message(link, &numbered_by(&id, 0, number)).await;
        assert_eq!(outcome, DeliveryState::Accepted);
    }
    let outcome = client.send_message(link, &numbered_by(&id, 0, 4)).await;
    assert_eq!(condition(&outcome), "com.microsoft:out-of-order-sequence");
    // The events of one batch are those of one producer.
    let mut batch = Vec::new();
    encode::data(&mut batch, &numbered_by(&id, 0, 3));
    encode::data(&mut batch, &numbered_by(&answered(&answer)[0], 0, 4));
    assert_eq!(condition(&send_batch(&mut client, link, &batch).await), "com.microsoft:argument-error");
    assert_eq!(service.namespace().hub("events").unwrap().counters().events_in, 3);
    // A link that names an id is for that one.
    let (link, _) = known(&mut client, 77, 0, 0).await.unwrap();
    let outcome = client.send_message(link, &numbered_by(&id, 0, 3)).await;
    assert_eq!(condition(&outcome), "com.microsoft:argument-error");
}
