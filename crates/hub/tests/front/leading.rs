//! Events with a header or delivery annotations, which most have not: both come out as they went in.

use amqp::Value;
use amqp::codec::Symbol;
use amqp::connection::NewDelivery;
use amqp::message::{FORMAT_BATCH, Header, MessageView, SectionKind, Sections, encode};
use amqp::performative::DeliveryState;

use crate::front::client::{Client, service};

const ADDRESS: &str = "events/ConsumerGroups/$Default/Partitions/0";

fn header() -> Header {
    Header {
        durable: Some(true),
        priority: Some(7),
        time_to_live_ms: Some(60_000),
        first_acquirer: Some(false),
        delivery_count: Some(3),
    }
}

/// A section of delivery annotations, one of them under a name that the service uses.
fn annotations() -> Vec<u8> {
    let mut section = Vec::new();
    let entries = [
        (Symbol::from_static("mine"), Value::from("kept")),
        (Symbol::from_static("last_enqueued_offset"), Value::from("mine")),
    ];
    encode::delivery_annotations(&mut section, &entries);
    section
}

fn body() -> Vec<u8> {
    let mut body = Vec::new();
    let own = (Symbol::from_static("x-own"), Value::Int(1));
    encode::message_annotations(&mut body, &[own]);
    encode::data(&mut body, b"payload");
    body
}

fn kinds(event: &[u8]) -> Vec<SectionKind> {
    Sections::new(event).map(|section| section.unwrap().kind).collect()
}

#[tokio::test]
async fn header_and_delivery_annotations_come_out_as_they_went_in_in_front_of_all_else() {
    let service = service().await;
    let mut client = Client::connect(service.amqp_address()).await;
    let sender = client.attach_sender("events/Partitions/0").await.unwrap();
    let header_section = header().encode();
    let header_section = header_section.as_slice();
    // In the order of the specification, and with the delivery annotations last, as the Python client has them.
    let events = [
        [header_section, &annotations(), &body()].concat(),
        [header_section, &body(), &annotations()].concat(),
    ];
    for event in &events {
        let outcome = client.send_message(sender, event).await;
        assert_eq!(outcome, DeliveryState::Accepted);
    }
    let mut batch = Vec::new();
    for event in &events {
        encode::data(&mut batch, event);
    }
    let delivery = NewDelivery { tag: b"tag", format: FORMAT_BATCH, settled: true };
    let mut link = client.connection().sender(sender).unwrap();
    link.send(&delivery, &[&batch]).unwrap();
    // Each alone, and neither.
    for event in [[header_section, &body()].concat(), [&annotations()[..], &body()].concat(), body()] {
        client.send_message(sender, &event).await;
    }

    let plain = client.attach_receiver(ADDRESS, 10).await.unwrap();
    let received = client.receive(plain, 7).await;
    for (number, event) in received.iter().enumerate() {
        let (has_header, has_annotations) = (number < 5, number < 4 || number == 5);
        let mut expected = Vec::new();
        expected.extend(has_header.then_some(SectionKind::Header));
        expected.extend(has_annotations.then_some(SectionKind::DeliveryAnnotations));
        expected.extend([SectionKind::MessageAnnotations, SectionKind::Data]);
        assert_eq!(kinds(event), expected, "event {number}");
        let view = MessageView::parse(event).unwrap();
        assert_eq!(view.header().unwrap(), has_header.then(header));
        let annotations = view.delivery_annotations().unwrap();
        let mine = |name| annotations.find(name).unwrap();
        assert_eq!(mine("mine"), has_annotations.then(|| "kept".into()));
        assert_eq!(mine("last_enqueued_offset"), has_annotations.then(|| "mine".into()));
        let own = view.message_annotations().unwrap().find("x-own").unwrap();
        assert_eq!(own, Some(Value::Int(1)));
        assert_eq!(view.data().unwrap(), Some(&b"payload"[..]));
    }
}

#[tokio::test]
async fn what_the_service_reports_of_the_partition_stands_beside_what_the_sender_said() {
    let service = service().await;
    let mut client = Client::connect(service.amqp_address()).await;
    let sender = client.attach_sender("events/Partitions/0").await.unwrap();
    let header = header().encode();
    for front in [&annotations()[..], header.as_slice(), b""] {
        let outcome = client.send_message(sender, &[front, &body()].concat()).await;
        assert_eq!(outcome, DeliveryState::Accepted);
    }
    let (asking, _) = client
        .ask_to_receive(ADDRESS, |options| {
            let metrics = Symbol::from("com.microsoft:enable-receiver-runtime-metric");
            options.desired_capabilities = vec![metrics];
        })
        .await
        .unwrap();
    client.connection().set_credit(asking, 10);
    for (number, event) in client.receive(asking, 3).await.iter().enumerate() {
        let annotated = kinds(event).into_iter().filter(|kind| *kind == SectionKind::DeliveryAnnotations);
        assert_eq!(annotated.count(), 1);
        let view = MessageView::parse(event).unwrap();
        let told = view.delivery_annotations().unwrap();
        let mine = (number == 0).then(|| Value::from("kept"));
        assert_eq!(told.find("mine").unwrap(), mine);
        assert_eq!(told.find("last_enqueued_offset").unwrap(), Some("2".into()));
        let last = told.find("last_enqueued_sequence_number").unwrap();
        assert_eq!(last, Some(Value::Long(2)));
        assert_eq!(told.entries().unwrap().len(), 4 + usize::from(number == 0));
    }
}

#[tokio::test]
async fn a_header_that_is_none_is_refused() {
    let service = service().await;
    let mut client = Client::connect(service.amqp_address()).await;
    let sender = client.attach_sender("events/Partitions/0").await.unwrap();
    // A priority that is a text, and delivery annotations that end within an entry.
    for front in [&b"\x00\x53\x70\xc0\x05\x02\x41\xa1\x01a"[..], b"\x00\x53\x71\xc1\x04\x02\xa3\x05m"] {
        let outcome = client.send_message(sender, &[front, &body()].concat()).await;
        let DeliveryState::Rejected(Some(error)) = outcome else { panic!("{outcome:?}") };
        assert_eq!(error.condition.as_str(), "amqp:decode-error");
    }
    assert_eq!(client.send(sender, b"sound").await, DeliveryState::Accepted);
}
