//! Brokers that lead a partition no longer, or not yet, and brokers that want to be left alone: a client goes on.

use connect::event::{Encoding, PartitionId};
use connect::kafka::{Client, KafkaOptions, connect_sink, connect_source};
use connect::sink::ErrorClass;
use connect::source::{BatchOptions, SourceOptions, StartPosition};
use hub::namespace::HubConfig;
use kafka::ApiKey;

use crate::kafka::proxy::Proxy;
use crate::kafka::service::{
    PARTITIONS, TOPIC, closed, publish, receive, records, serve, sink, source, values, within,
};

const LEADER_NOT_AVAILABLE: i16 = 5;
const NOT_LEADER_OR_FOLLOWER: i16 = 6;
const COORDINATOR_LOADS: i16 = 14;
const COORDINATOR_NOT_AVAILABLE: i16 = 15;

/// So that nothing goes on because a request is overdue: what has to be done has to be done by itself.
const PATIENT: [(&str, &str); 1] = [("request.timeout.ms", "300000")];

#[tokio::test]
async fn a_sink_sends_again_what_a_broker_refused_that_does_not_lead() {
    let service = serve().await;
    let proxy = Proxy::start(&service).await;
    let mut to = within(connect_sink(&proxy.options(&service, &PATIENT))).await.unwrap();
    for error in [NOT_LEADER_OR_FOLLOWER, LEADER_NOT_AVAILABLE, NOT_LEADER_OR_FOLLOWER] {
        proxy.change(|changes| changes.produce_errors.push_back(error));
        publish(&mut *to, 1, &records(&values(10, 16))).await;
    }
    assert!(proxy.is_done(), "every refusal was said");
    let mut from = source(&service, &[], &StartPosition::Earliest).await;
    let received = receive(&mut *from, 30).await;
    assert!(received.iter().map(|(_, number, _)| *number).eq(0..30), "once and in order: {received:?}");
    service.stop().await;
}

#[tokio::test]
async fn a_broker_that_has_just_started_is_asked_again_for_a_producer_id() {
    let service = serve().await;
    let proxy = Proxy::start(&service).await;
    proxy.change(|changes| changes.producer_errors.extend([COORDINATOR_LOADS, COORDINATOR_NOT_AVAILABLE]));
    let mut to = within(connect_sink(&proxy.options(&service, &[]))).await.unwrap();
    publish(&mut *to, 0, &records(&values(10, 16))).await;
    assert!(proxy.is_done(), "every refusal was said");

    // Not for ever.
    let hasty = proxy.options(&service, &[("socket.connection.setup.timeout.ms", "1000")]);
    proxy.change(|changes| changes.producer_errors.extend([COORDINATOR_LOADS; 1_000]));
    let error = within(connect_sink(&hasty)).await.unwrap_err();
    assert_eq!(error.condition, "COORDINATOR_LOAD_IN_PROGRESS", "{error}");
    service.stop().await;
}

#[tokio::test]
async fn a_source_goes_on_where_it_was_when_a_broker_does_not_lead() {
    let service = serve().await;
    let proxy = Proxy::start(&service).await;
    let mut to = sink(&service, &[]).await;
    let batch = BatchOptions { max_events: 50, max_wait: std::time::Duration::from_millis(1) };
    let options = proxy.options(&service, &PATIENT);
    let connecting = connect_source(&options, SourceOptions { batch, prefetch: 200 }, Encoding::Kafka);
    let mut from = within(connecting).await.unwrap();
    for partition in from.partitions() {
        from.open(partition, StartPosition::Earliest);
    }
    let mut next = 0;
    for error in [NOT_LEADER_OR_FOLLOWER, LEADER_NOT_AVAILABLE, NOT_LEADER_OR_FOLLOWER] {
        proxy.change(|changes| changes.fetch_errors.push_back(error));
        publish(&mut *to, 0, &records(&values(10, 16))).await;
        let received = receive(&mut *from, 10).await;
        assert!(received.iter().map(|(_, number, _)| *number).eq(next..next + 10), "{received:?}");
        next += 10;
    }
    assert!(proxy.is_done(), "every refusal was said");
    service.stop().await;
}

#[tokio::test]
async fn a_topic_that_was_created_again_closes_its_partitions_and_has_another_id() {
    let service = serve().await;
    let mut to = sink(&service, &[]).await;
    publish(&mut *to, 0, &records(&values(10, 16))).await;
    let mut from = source(&service, &[], &StartPosition::Earliest).await;
    assert_eq!(receive(&mut *from, 10).await.len(), 10);
    let before = from.log_id().unwrap().to_owned();
    assert_eq!(before.len(), 22, "as Kafka's tools show it");

    let namespace = service.namespace();
    namespace.delete_hub(TOPIC).unwrap();
    let config = HubConfig::new(TOPIC, PARTITIONS as u16);
    namespace.create_hub(&config, namespace.clock().unix_time()).unwrap();
    // More than there were, so that no offset tells.
    let mut to = sink(&service, &[]).await;
    publish(&mut *to, 0, &records(&values(30, 16))).await;
    for _ in 0..PARTITIONS {
        let (_, error) = closed(&mut *from).await;
        assert_eq!((&*error.condition, error.class), ("TOPIC_RECREATED", ErrorClass::Retryable));
    }
    assert_ne!(from.log_id(), Some(&*before));
    from.open(PartitionId(0), StartPosition::Earliest);
    let received = receive(&mut *from, 30).await;
    assert!(received.iter().map(|(_, number, _)| *number).eq(0..30), "{received:?}");
    service.stop().await;
}

#[tokio::test]
async fn answers_with_wrong_correlation_ids_lose_and_double_nothing() {
    let service = serve().await;
    let proxy = Proxy::start(&service).await;
    let options = proxy.options(&service, &PATIENT);
    let mut to = within(connect_sink(&options)).await.unwrap();
    let batch = BatchOptions { max_events: 50, max_wait: std::time::Duration::from_millis(1) };
    let connecting = connect_source(&options, SourceOptions { batch, prefetch: 200 }, Encoding::Kafka);
    let mut from = within(connecting).await.unwrap();
    for partition in from.partitions() {
        from.open(partition, StartPosition::Earliest);
    }
    for round in 0..4 {
        proxy.change(|changes| changes.wrong_ids = vec![ApiKey::Fetch, ApiKey::Produce, ApiKey::ListOffsets]);
        publish(&mut *to, 0, &records(&values(10, 16))).await;
        let received = receive(&mut *from, 10).await;
        let numbers = received.iter().map(|(_, number, _)| *number);
        assert!(numbers.eq(round * 10..round * 10 + 10), "{received:?}");
        proxy.change(|changes| assert!(!changes.wrong_ids.contains(&ApiKey::Produce), "the id was wrong"));
    }
    service.stop().await;
}

#[tokio::test]
async fn a_broker_that_wants_to_be_left_alone_is_and_it_is_counted() {
    let service = serve().await;
    let proxy = Proxy::start(&service).await;
    let mut to = within(connect_sink(&proxy.options(&service, &[]))).await.unwrap();
    assert_eq!((to.slowed_down(), to.outage()), (0, None));
    proxy.change(|changes| changes.throttle_ms.extend([50, 50]));
    let began = tokio::time::Instant::now();
    for _ in 0..3 {
        publish(&mut *to, 0, &records(&values(10, 16))).await;
    }
    assert!(began.elapsed().as_millis() >= 100, "{:?}", began.elapsed());
    assert_eq!(to.slowed_down(), 2);
    proxy.change(|changes| changes.throttle_ms.push_back(10_000));
    publish(&mut *to, 0, &records(&values(10, 16))).await;
    let outage = to.outage().unwrap();
    assert!(matches!(outage.class, ErrorClass::Throttled { .. }), "{outage}");
    service.stop().await;
}

#[tokio::test]
async fn whichever_client_is_asked_to_leave_a_broker_alone_counts_it() {
    for &client in Client::ALL {
        let service = serve().await;
        let proxy = Proxy::start(&service).await;
        // One of them says it in its reports alone.
        let reports = [("sasl.mechanism", "PLAIN"), ("statistics.interval.ms", "100")];
        let more = if client == Client::Native { &[][..] } else { &reports };
        let options = KafkaOptions { client, ..proxy.options(&service, more) };
        let mut to = within(connect_sink(&options)).await.unwrap();
        assert_eq!(to.slowed_down(), 0, "{client}");
        proxy.change(|changes| changes.throttle_ms.extend([1, 1]));
        within(async {
            while to.slowed_down() < 2 {
                publish(&mut *to, 0, &records(&values(1, 16))).await;
            }
        })
        .await;
        assert!(proxy.is_done(), "{client}");

        let source = SourceOptions { batch: BatchOptions::default(), prefetch: 200 };
        let mut from = within(connect_source(&options, source, Encoding::Kafka)).await.unwrap();
        from.open(PartitionId(1), StartPosition::Earliest);
        proxy.change(|changes| changes.throttle_ms.extend([1, 1]));
        // Not through the broker that asks for it.
        let mut to = sink(&service, &[]).await;
        within(async {
            while from.slowed_down() < 2 {
                publish(&mut *to, 1, &records(&values(1, 16))).await;
                receive(&mut *from, 1).await;
            }
        })
        .await;
        service.stop().await;
    }
}
