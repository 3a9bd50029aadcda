//! Who may read a partition, which reader replaces which, and what a reader learns about the partition.

use amqp::Value;
use amqp::codec::Symbol;
use amqp::connection::{LinkId, LinkOptions};
use amqp::message::MessageView;
use amqp::performative::{DeliveryState, Error};

use crate::front::client::{Client, payload, service, within};

const ADDRESS: &str = "events/ConsumerGroups/$Default/Partitions/0";
const METRICS: &str = "com.microsoft:enable-receiver-runtime-metric";

/// A receiver of the first partition with this epoch and name, and plenty of credit.
async fn receive(client: &mut Client, epoch: Option<i64>, name: Option<&str>) -> Result<LinkId, Error> {
    let ask = |options: &mut LinkOptions| {
        let epoch = epoch.map(|epoch| ("com.microsoft:epoch", Value::Long(epoch)));
        let name = name.map(|name| ("com.microsoft:receiver-name", Value::from(name)));
        options.properties =
            epoch.into_iter().chain(name).map(|(key, value)| (Symbol::from(key), value)).collect();
    };
    let (link, _answer) = client.ask_to_receive(ADDRESS, ask).await?;
    client.connection().set_credit(link, 1000);
    Ok(link)
}

fn condition_and_text(error: &Error) -> (&str, &str) {
    (error.condition.as_str(), &error.description)
}

async fn send(client: &mut Client, body: &[u8]) {
    let sender = client.attach_sender("events/Partitions/0").await.unwrap();
    assert_eq!(client.send(sender, body).await, DeliveryState::Accepted);
}

#[tokio::test]
async fn an_epoch_that_is_not_lower_takes_the_link_over_from_another_connection() {
    let service = service().await;
    let mut first = Client::connect(service.amqp_address()).await;
    let mut second = Client::connect(service.amqp_address()).await;
    for (earlier, later) in [(0, 0), (0, 7)] {
        let displaced = receive(&mut first, Some(earlier), Some("first")).await.unwrap();
        let successor = receive(&mut second, Some(later), None).await.unwrap();
        let error = first.detached(displaced).await;
        assert_eq!(
            condition_and_text(&error),
            (
                "amqp:link:stolen",
                &*format!(
                    "New receiver 'nil' with higher epoch of '{later}' is created hence current receiver 'first' with \
                     epoch '{earlier}' is getting disconnected. If you are recreating the receiver, make sure a higher \
                     epoch is used."
                )
            )
        );
        send(&mut first, b"for the successor").await;
        let events = second.receive(successor, 1).await;
        assert_eq!(payload(&events[0]), b"for the successor");
        assert_eq!(first.waiting(displaced), 0);
        second.connection().detach_link(successor, None);
        // The next attach on this session comes after the detach.
        let without = receive(&mut second, None, None).await.unwrap();
        second.connection().detach_link(without, None);
        second.attach_sender("events").await.unwrap();
    }
}

#[tokio::test]
async fn a_link_can_be_taken_over_within_its_connection_and_again_and_again() {
    let service = service().await;
    let mut client = Client::connect(service.amqp_address()).await;
    let mut current = receive(&mut client, Some(1), None).await.unwrap();
    for _ in 0..20 {
        let next = receive(&mut client, Some(1), None).await.unwrap();
        assert_eq!(client.detached(current).await.condition.as_str(), "amqp:link:stolen");
        current = next;
    }
    send(&mut client, b"event").await;
    client.receive(current, 1).await;
}

#[tokio::test]
async fn a_lower_epoch_and_none_are_refused_while_there_is_a_higher_one() {
    let service = service().await;
    let mut holder = Client::connect(service.amqp_address()).await;
    let mut other = Client::connect(service.amqp_address()).await;
    let held = receive(&mut holder, Some(5), Some("holder")).await.unwrap();
    let lower = receive(&mut other, Some(4), Some("other")).await.unwrap_err();
    assert_eq!(
        condition_and_text(&lower),
        (
            "amqp:link:stolen",
            "Receiver 'holder' with a higher epoch '5' already exists. Receiver 'other' with epoch 4 cannot be created. \
             Make sure you are creating receiver with increasing epoch value to ensure connectivity, or ensure all old \
             epoch receivers are closed or disconnected."
        )
    );
    let without = receive(&mut other, None, None).await.unwrap_err();
    assert_eq!(
        condition_and_text(&without),
        (
            "amqp:link:stolen",
            "At least one receiver for the endpoint is created with epoch of '5', and so non-epoch receiver is not \
             allowed. Either reconnect with a higher epoch, or make sure all epoch receivers are closed or disconnected."
        )
    );
    // Another group, another partition: nobody is in the way.
    other.attach_receiver("events/ConsumerGroups/$Default/Partitions/1", 0).await.unwrap();
    send(&mut holder, b"still there").await;
    holder.receive(held, 1).await;
    // A refusal for another reason displaces nobody.
    let beyond = other
        .ask_to_receive(ADDRESS, |options| {
            options.properties = vec![(Symbol::from("com.microsoft:epoch"), Value::Long(9))];
            let selector = Value::from("amqp.annotation.x-opt-offset > '1000'");
            let name = Symbol::from("apache.org:selector-filter:string");
            options.source.filter = vec![(name, selector)];
        })
        .await
        .unwrap_err();
    assert_eq!(beyond.condition.as_str(), "com.microsoft:argument-error");
    send(&mut holder, b"undisturbed").await;
    holder.receive(held, 1).await;
}

#[tokio::test]
async fn an_epoch_ends_every_receiver_without_one() {
    let service = service().await;
    let mut without = Client::connect(service.amqp_address()).await;
    let mut with = Client::connect(service.amqp_address()).await;
    let mut displaced = Vec::new();
    for _ in 0..5 {
        displaced.push(receive(&mut without, None, None).await.unwrap());
    }
    receive(&mut with, Some(0), None).await.unwrap();
    for _ in 0..displaced.len() {
        let (link, error) = without
            .until("the detach", |event| match event {
                amqp::connection::Event::LinkDetached { link, error } => Some((link, error?)),
                _ => None,
            })
            .await;
        displaced.retain(|other| *other != link);
        assert_eq!(error.condition.as_str(), "amqp:link:stolen");
    }
    assert_eq!(displaced, []);
}

#[tokio::test]
async fn the_sixth_receiver_is_refused_until_one_of_the_five_has_gone() {
    let service = service().await;
    let mut five = Vec::new();
    for number in 0..5 {
        let mut client = Client::connect(service.amqp_address()).await;
        let name = format!("reader-{number}");
        receive(&mut client, None, Some(&name)).await.unwrap();
        five.push(client);
    }
    let mut sixth = Client::connect(service.amqp_address()).await;
    let error = receive(&mut sixth, None, None).await.unwrap_err();
    assert_eq!(
        condition_and_text(&error),
        (
            "amqp:resource-limit-exceeded",
            "Exceeded the maximum number of allowed receivers per partition in a consumer group which is 5. List of \
             connected receivers - reader-0, reader-1, reader-2, reader-3, reader-4."
        )
    );
    // A socket that breaks is as good as a detach, once the service has noticed.
    five.pop();
    within("a place", async {
        while let Err(error) = receive(&mut sixth, None, None).await {
            assert_eq!(error.condition.as_str(), "amqp:resource-limit-exceeded");
        }
    })
    .await;
}

#[tokio::test]
async fn a_receiver_gets_the_end_of_the_partition_if_it_asks() {
    let service = service().await;
    let mut client = Client::connect(service.amqp_address()).await;
    for body in [b"a", b"b", b"c"] {
        send(&mut client, body).await;
    }
    let (asking, answer) = client
        .ask_to_receive(ADDRESS, |options| {
            let georeplication = Symbol::from("com.microsoft:georeplication");
            options.desired_capabilities = vec![Symbol::from(METRICS), georeplication];
        })
        .await
        .unwrap();
    assert_eq!(answer.offered_capabilities, [Symbol::from(METRICS)]);
    client.connection().set_credit(asking, 10);
    for event in client.receive(asking, 3).await {
        let view = MessageView::parse(&event).unwrap();
        let told = view.delivery_annotations().unwrap();
        let last = view.message_annotations().unwrap();
        assert_eq!(told.find("last_enqueued_sequence_number").unwrap(), Some(Value::Long(2)));
        assert_eq!(told.find("last_enqueued_offset").unwrap(), Some(Value::from("2")));
        let Some(Value::Timestamp(enqueued)) = told.find("last_enqueued_time_utc").unwrap() else {
            panic!("{event:?}")
        };
        let Some(Value::Timestamp(own)) = last.find("x-opt-enqueued-time").unwrap() else {
            panic!("{event:?}")
        };
        let retrieved = told.find("runtime_info_retrieval_time_utc").unwrap();
        assert!(matches!(retrieved, Some(Value::Timestamp(now)) if now >= enqueued && enqueued >= own));
    }
    let (plain, answer) = client.ask_to_receive(ADDRESS, |_| {}).await.unwrap();
    assert!(answer.offered_capabilities.is_empty());
    client.connection().set_credit(plain, 10);
    for event in client.receive(plain, 3).await {
        let view = MessageView::parse(&event).unwrap();
        let told = view.delivery_annotations().unwrap();
        assert_eq!(told.find("last_enqueued_offset").unwrap(), None);
    }
}

#[tokio::test]
async fn a_selector_is_applied_whatever_its_key_and_nothing_else_is_in_the_answer() {
    let service = service().await;
    let mut client = Client::connect(service.amqp_address()).await;
    for body in [b"a", b"b", b"c"] {
        send(&mut client, body).await;
    }
    let described = |descriptor: Value, value: &str| Value::Described(Box::new((descriptor, value.into())));
    let selector = "amqp.annotation.x-opt-offset > '1'";
    for (key, descriptor) in [
        ("selector", Value::Symbol("apache.org:selector-filter:string".into())),
        ("jms-selector", Value::Ulong(0x0000_468c_0000_0004)),
    ] {
        let applied = (Symbol::from(key), described(descriptor, selector));
        let other = (Symbol::from("x:y"), described(Value::Symbol("x:y".into()), "z"));
        let (link, answer) = client
            .ask_to_receive(ADDRESS, |options| {
                options.source.filter = vec![other, applied.clone()];
                options.source.distribution_mode = Some("copy".into());
            })
            .await
            .unwrap();
        let source = answer.source.unwrap();
        assert_eq!(source.filter, [applied], "{key}");
        assert_eq!(source.distribution_mode, Some("copy".into()), "readers take nothing from each other");
        client.connection().set_credit(link, 10);
        let events = client.receive(link, 1).await;
        assert_eq!(payload(&events[0]), b"c");
        client.detach(link).await;
    }
}
