//! What is told of hubs and partitions, and under which name of the host.

use access::DEVELOPMENT_KEY_VALUE;
use amqp::Value;
use amqp::connection::{Config, SaslClient};
use amqp::message::{FORMAT_AMQP, FORMAT_BATCH, MessageView, encode};
use amqp::performative::DeliveryState;

use crate::front::client::{Client, service, token};

fn read(name: &str, partition: &str) -> [(&'static str, Value); 4] {
    let kind = "com.microsoft:partition";
    [("operation", "READ"), ("type", kind), ("name", name), ("partition", partition)]
        .map(|(name, text)| (name, Value::from(text)))
}

#[tokio::test]
async fn a_partition_that_was_never_written_begins_and_ends_before_its_first_event() {
    let service = service().await;
    let mut client = Client::connect(service.amqp_address()).await;
    let sender = client.attach_sender("events/Partitions/1").await.unwrap();
    assert_eq!(client.send(sender, b"event").await, DeliveryState::Accepted);
    for (partition, number, is_empty) in [("0", -1, true), ("1", 0, false)] {
        let reply = client.exchange("$management", &read("events", partition), &Value::Null).await;
        let body = MessageView::parse(&reply.bytes).unwrap().value().unwrap().unwrap();
        for name in ["begin_sequence_number", "last_enqueued_sequence_number"] {
            assert_eq!(body.get(name), Some(&Value::Long(number)), "{partition} {name}");
        }
        assert_eq!(body.get("is_partition_empty"), Some(&Value::Boolean(is_empty)));
    }
}

#[tokio::test]
async fn what_is_not_there_is_refused_with_the_condition_that_clients_look_for() {
    let service = service().await;
    let mut client = Client::connect(service.amqp_address()).await;
    for (hub, partition, status, condition) in [
        ("events", "2", 400, "com.microsoft:argument-out-of-range"),
        ("events", "x", 400, "com.microsoft:argument-out-of-range"),
        ("nothing", "0", 404, "amqp:not-found"),
    ] {
        let reply = client.exchange("$management", &read(hub, partition), &Value::Null).await;
        assert_eq!(test_peer::status_and_description(&reply).0, status, "{hub} {partition}");
        let told = reply.application_property("error-condition");
        assert_eq!(told, Some(Value::Symbol(condition.into())), "{hub} {partition}");
    }
}

#[tokio::test]
async fn errors_name_the_host_that_the_client_has_opened() {
    let service = service().await;
    for (hostname, named) in [
        (Some("parshall.test:5672"), "parshall.test"),
        (Some("<nonsense>"), "localhost"),
        (None, "localhost"),
    ] {
        let config = Config { hostname: hostname.map(str::to_owned), ..Config::default() };
        let stream = test_peer::Client::stream(service.amqp_address()).await;
        let mut client = test_peer::Client::open_with(stream, SaslClient::Anonymous, config).await.unwrap();
        let denied = client.ask_to_send("events", |_| {}).await.unwrap_err();
        assert!(denied.description.contains(&format!("'sb://{named}/events'")), "{denied}");
        let token = token(DEVELOPMENT_KEY_VALUE, "sb://localhost/", 3600);
        let put = [
            ("operation", Value::from("put-token")),
            ("type", Value::from("servicebus.windows.net:sastoken")),
            ("name", Value::from("sb://localhost/")),
        ];
        let reply = client.exchange("$cbs", &put, &Value::String(token)).await;
        assert_eq!(test_peer::status_and_description(&reply).0, 202);
        for address in ["nothing", "nothing/$DeadLetterQueue"] {
            let missing = client.ask_to_send(address, |_| {}).await.unwrap_err();
            assert!(missing.description.contains(&format!("'sb://{named}/{address}'")), "{missing}");
        }
        let reply = client.exchange("$management", &read("nothing", "0"), &Value::Null).await;
        let (_, description) = test_peer::status_and_description(&reply);
        assert!(description.contains(&format!("'sb://{named}/nothing'")), "{description}");
    }
}

#[tokio::test]
async fn partition_keys_are_as_long_as_the_service_takes_them() {
    let service = service().await;
    let mut client = Client::connect(service.amqp_address()).await;
    let event = |length: usize| {
        let mut event = Vec::new();
        let key =
            (amqp::codec::Symbol::from_static("x-opt-partition-key"), Value::String("ä".repeat(length)));
        encode::message_annotations(&mut event, &[key]);
        encode::data(&mut event, b"event");
        event
    };
    for address in ["events", "events/Partitions/0"] {
        let sender = client.attach_sender(address).await.unwrap();
        for (length, is_taken) in [(128, true), (129, false)] {
            let mut batch = Vec::new();
            encode::data(&mut batch, &event(length));
            for (format, message) in [(FORMAT_AMQP, event(length)), (FORMAT_BATCH, batch)] {
                let id = client.begin_message(sender, format, &message).await;
                match client.outcome(id).await {
                    DeliveryState::Accepted => assert!(is_taken, "{address} {length} {format}"),
                    DeliveryState::Rejected(Some(error)) => {
                        assert!(!is_taken, "{error}");
                        assert_eq!(error.condition.as_str(), "com.microsoft:argument-out-of-range");
                    }
                    other => panic!("{other:?}"),
                }
            }
        }
    }
}
