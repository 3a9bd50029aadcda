//! The Event Hubs client against the embedded service: what is published is what is received, in order, once.

#![expect(clippy::unwrap_used, reason = "what helpers of tests do not expect fails the test")]

use std::collections::BTreeSet;
use std::future::poll_fn;
use std::time::Duration;

use connect::event::PartitionId;
use connect::event_hubs::{Destination, EventHubsOptions, EventHubsSource, ManagementClient, Publisher};
use connect::sink::{ErrorClass, SendToken};
use connect::source::{BatchOptions, Source, SourceEvent, SourceOptions, StartPosition};
use hub::namespace::{HubConfig, NamespaceConfig};
use hub::service::{Service, ServiceConfig};

async fn serve() -> (Service, EventHubsOptions) {
    serve_partitions(PARTITIONS as u16).await
}

async fn serve_partitions(count: u16) -> (Service, EventHubsOptions) {
    let namespace = NamespaceConfig::with_hubs(vec![HubConfig::new("events", count)]);
    let service = Service::start(ServiceConfig::loopback(namespace)).await.unwrap();
    let connection_string = service.connection_string(None);
    let options = EventHubsOptions::new(connection_string, Some("events")).unwrap();
    (service, options)
}

/// Publishes `count` events to each partition, in batches of `BATCH`. The payload is partition and number.
async fn publish(publisher: &mut Publisher, count: usize) {
    let mut sends = 0;
    for start in (0..count).step_by(BATCH) {
        for partition in 0..PARTITIONS {
            let fill = |index: usize, payload: &mut [u8]| {
                payload[..8].copy_from_slice(&u64::from(partition).to_be_bytes());
                payload[8..].copy_from_slice(&((start + index) as u64).to_be_bytes());
            };
            while publisher.publish_payloads(SendToken(0), partition, BATCH, 16, fill).is_err() {
                poll_fn(|context| publisher.poll_ready(context)).await.unwrap();
            }
            sends += 1;
        }
    }
    let mut outcomes = Vec::new();
    while outcomes.len() < sends {
        poll_fn(|context| publisher.poll_outcomes(context, &mut outcomes)).await.unwrap();
    }
    assert!(outcomes.iter().all(|outcome| outcome.result.is_ok()));
}

/// Receives from the open partitions until `total` events have come; checks that each partition's are the next ones.
async fn receive(source: &mut EventHubsSource, total: usize, next: &mut [u64; PARTITIONS as usize]) {
    let mut received = 0;
    while received < total {
        let batch = match poll_fn(|context| source.poll_batch(context)).await {
            Ok(SourceEvent::Batch(batch)) => batch,
            other => panic!("a batch, not {other:?}"),
        };
        let partition = batch.partition().0;
        for event in batch.events() {
            let expected = next[partition as usize];
            assert_eq!(event.sequence_number, expected.cast_signed());
            let (prefix, payload) = batch.message(event).split_at(5);
            assert_eq!(prefix, b"\x00\x53\x75\xa0\x10");
            assert_eq!(payload[..8], u64::from(partition).to_be_bytes());
            assert_eq!(payload[8..], expected.to_be_bytes());
            assert_eq!(batch.offset(event), Some(expected.to_string().as_bytes()));
            next[partition as usize] += 1;
        }
        received += batch.len();
        source.release(batch);
    }
}

#[tokio::test]
async fn what_is_published_is_received_once_and_in_order() {
    let (service, options) = serve().await;
    let both = async {
        let mut publisher = Publisher::connect(options.clone()).await.unwrap();
        publish(&mut publisher, 2_000).await;
        let source_options = SourceOptions {
            batch: BatchOptions { max_events: 128, max_wait: Duration::from_millis(1) },
            prefetch: 300,
        };
        let mut source = EventHubsSource::connect(options.clone(), "$Default", source_options).await.unwrap();
        for partition in source.partitions() {
            source.open(partition, StartPosition::Earliest);
        }
        let mut next = [0; PARTITIONS as usize];
        receive(&mut source, 2_000 * PARTITIONS as usize, &mut next).await;
        for partition in source.partitions() {
            source.close(partition);
            source.open(partition, StartPosition::AfterOffset("1499".into()));
        }
        next = [1_500; PARTITIONS as usize];
        receive(&mut source, 500 * PARTITIONS as usize, &mut next).await;
        Box::new(source).shut_down().await;
        publisher.shut_down().await;
    };
    tokio::time::timeout(PATIENCE, both).await.unwrap();
    service.stop().await;
}

#[tokio::test]
async fn equal_keys_go_to_one_partition_and_come_back_with_the_key() {
    let (service, options) = serve().await;
    let both = async {
        let mut publisher = Publisher::connect(options.clone()).await.unwrap();
        let mut outcomes = Vec::new();
        let event: &[u8] = b"\x00\x53\x75\xa0\x01x";
        for token in 0..8 {
            let destination = Destination::Key("customer-9");
            while publisher.publish(SendToken(token), destination, [event]).is_err() {
                poll_fn(|context| publisher.poll_ready(context)).await.unwrap();
            }
        }
        while outcomes.len() < 8 {
            poll_fn(|context| publisher.poll_outcomes(context, &mut outcomes)).await.unwrap();
        }
        let mut management = ManagementClient::connect(options.clone()).await.unwrap();
        let mut holders = Vec::new();
        for partition in management.hub_properties().await.unwrap().partition_ids {
            let properties = management.partition_properties(partition).await.unwrap();
            if !properties.is_empty {
                assert_eq!(properties.last_enqueued_sequence_number, 7);
                holders.push(partition);
            }
        }
        let [holder] = holders[..] else { panic!("one partition: {holders:?}") };
        let mut source =
            EventHubsSource::connect(options, "$Default", SourceOptions::default()).await.unwrap();
        source.open(holder, StartPosition::AtSequenceNumber(2));
        let mut keys = 0;
        while keys < 6 {
            let event = poll_fn(|context| source.poll_batch(context)).await.unwrap();
            let SourceEvent::Batch(batch) = event else { panic!("a batch") };
            for event in batch.events() {
                assert_eq!(batch.partition_key(event), Some(&b"customer-9"[..]));
                assert_eq!(batch.message(event), b"\x00\x53\x75\xa0\x01x");
                keys += 1;
            }
            source.release(batch);
        }
    };
    tokio::time::timeout(PATIENCE, both).await.unwrap();
    service.stop().await;
}

#[tokio::test]
async fn a_wrong_key_and_a_missing_hub_are_fatal() {
    let (service, options) = serve().await;
    let text = options.connection_string.reveal();
    let wrong = text.replace("SAS_KEY_VALUE", "another");
    assert_ne!(wrong, text);
    let wrong = EventHubsOptions::new(wrong.parse().unwrap(), Some("events")).unwrap();
    let refused = Publisher::connect(wrong).await.unwrap_err();
    assert_eq!((refused.class, refused.condition.as_str()), (ErrorClass::Fatal, "amqp:unauthorized-access"));
    let missing = EventHubsOptions::new(text.parse().unwrap(), Some("missing")).unwrap();
    let refused = Publisher::connect(missing).await.unwrap_err();
    assert_eq!((refused.class, refused.condition.as_str()), (ErrorClass::Fatal, "amqp:not-found"));
    let mut management = ManagementClient::connect(options).await.unwrap();
    let refused = management.partition_properties(PartitionId(99)).await;
    assert_eq!(refused.unwrap_err().class, ErrorClass::Fatal);
    service.stop().await;
}

#[tokio::test]
async fn a_service_that_stops_is_lost_to_source_and_publisher() {
    let (service, options) = serve().await;
    let mut source =
        EventHubsSource::connect(options.clone(), "$Default", SourceOptions::default()).await.unwrap();
    source.open(PartitionId(0), StartPosition::Latest);
    let closed = async {
        match poll_fn(|context| source.poll_batch(context)).await {
            Ok(SourceEvent::PartitionClosed { partition, error }) => {
                assert_eq!((partition, error.class), (PartitionId(0), ErrorClass::Retryable));
            }
            other => panic!("a closed partition, not {other:?}"),
        }
    };
    let both = async { tokio::join!(closed, service.stop()) };
    tokio::time::timeout(PATIENCE, both).await.unwrap();
}

/// Both ends take 1,024 links in a session.
#[tokio::test]
async fn partitions_beyond_the_links_of_a_session_are_published_to_and_received_from() {
    const MANY: u32 = 1_100;
    let (service, options) = serve_partitions(MANY as u16).await;
    let both = async {
        let mut publisher = Publisher::connect(options.clone()).await.unwrap();
        let mut outcomes = Vec::new();
        for partition in 0..MANY {
            let fill = |_: usize, payload: &mut [u8]| payload.copy_from_slice(&partition.to_be_bytes());
            let token = SendToken(partition.into());
            while publisher.publish_payloads(token, partition, 1, 4, fill).is_err() {
                poll_fn(|context| publisher.poll_ready(context)).await.unwrap();
            }
        }
        while outcomes.len() < MANY as usize {
            poll_fn(|context| publisher.poll_outcomes(context, &mut outcomes)).await.unwrap();
        }
        assert!(outcomes.iter().all(|outcome| outcome.result.is_ok()));
        let tokens: BTreeSet<u64> = outcomes.iter().map(|outcome| outcome.token.0).collect();
        assert_eq!((tokens.len(), publisher.waiting()), (MANY as usize, 0));

        let mut source =
            EventHubsSource::connect(options.clone(), "$Default", SourceOptions::default()).await.unwrap();
        let partitions = source.partitions();
        assert_eq!(partitions.len(), MANY as usize);
        for &partition in &partitions {
            source.open(partition, StartPosition::Earliest);
        }
        let mut received = BTreeSet::new();
        while received.len() < partitions.len() {
            let event = poll_fn(|context| source.poll_batch(context)).await.unwrap();
            let SourceEvent::Batch(batch) = event else { panic!("a batch, not {event:?}") };
            let partition = batch.partition();
            assert_eq!(batch.message(&batch.events()[0])[5..], partition.0.to_be_bytes());
            assert_eq!(batch.len(), 1);
            assert!(received.insert(partition), "one event in each partition");
            source.release(batch);
        }
        // A link that is closed leaves room for another, whatever its session.
        for partition in [PartitionId(0), PartitionId(MANY - 1)] {
            source.close(partition);
            source.open(partition, StartPosition::Earliest);
            let event = poll_fn(|context| source.poll_batch(context)).await.unwrap();
            assert!(matches!(event, SourceEvent::Batch(batch) if batch.partition() == partition));
        }
        Box::new(source).shut_down().await;
        publisher.shut_down().await;
    };
    tokio::time::timeout(PATIENCE, both).await.unwrap();
    service.stop().await;
}

#[tokio::test]
async fn partitions_beyond_the_links_of_a_connection_are_refused_at_the_start() {
    let (service, options) = serve_partitions(4_100).await;
    let refused = async {
        let refused = Publisher::connect(options.clone()).await.unwrap_err();
        assert!(refused.description.contains("at most 4096 links, one for each partition"), "{refused}");
        let mut source =
            EventHubsSource::connect(options.clone(), "$Default", SourceOptions::default()).await.unwrap();
        for partition in source.partitions() {
            source.open(partition, StartPosition::Earliest);
        }
        // The first of those for which there is no link. The others stay open.
        let event = poll_fn(|context| source.poll_batch(context)).await.unwrap();
        let SourceEvent::PartitionClosed { partition, error } = event else { panic!("{event:?}") };
        assert!(partition.0 > 4_000);
        assert!(error.to_string().contains("let more relays share the partitions"), "{error}");
    };
    tokio::time::timeout(PATIENCE, refused).await.unwrap();
    service.stop().await;
}

const PARTITIONS: u32 = 4;
const BATCH: usize = 50;
const PATIENCE: Duration = Duration::from_secs(30);
