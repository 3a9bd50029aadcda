//! What is sent is what is received.

use std::future::poll_fn;
use std::sync::Arc;

use connect::event::{Encoding, EnqueuedTime, EventBatch, PartitionId};
use connect::kafka::{PartitionExtent, TopicExtents, connect_sink, connect_source, ends};
use connect::sink::{ErrorClass, OutgoingBatch, SendToken};
use connect::source::{SourceEvent, SourceOptions, StartPosition};
use hub::namespace::{HubConfig, NamespaceConfig};
use hub::service::{Protocol, Service, ServiceConfig};
use rustls::ServerConfig;
use rustls::pki_types::PrivateKeyDer;

use crate::kafka::service::{
    PARTITIONS, TOPIC, options, outcomes, publish, receive, records, send, serve, sink, source, values,
    within,
};

/// Sends batches of several lengths to all partitions with these properties, receives them with those, and compares.
async fn carry(sending: &[(&str, &str)], receiving: &[(&str, &str)]) {
    let service = serve().await;
    let mut sink = sink(&service, sending).await;
    let batches = [values(1, 16), values(40, 16), values(300, 100), values(20, 5_000), values(3, 0)];
    let mut sends = 0;
    for batch in &batches {
        for partition in 0..PARTITIONS {
            send(&mut *sink, sends, partition, &records(batch)).await;
            sends += 1;
        }
    }
    let outcomes = outcomes(&mut *sink, sends as usize).await;
    assert!(outcomes.iter().all(|outcome| outcome.result.is_ok()), "{sending:?}: {outcomes:?}");
    let expected = batches.concat();
    let mut source = source(&service, receiving, &StartPosition::Earliest).await;
    let received = receive(&mut *source, expected.len() * PARTITIONS as usize).await;
    for partition in 0..PARTITIONS {
        let of_it = received.iter().filter(|(from, ..)| *from == partition);
        for ((_, number, value), (at, expected)) in of_it.zip((0..).zip(&expected)) {
            assert!((*number, value) == (at, expected), "{sending:?} {receiving:?}: {number} is not {at}");
        }
    }
    service.stop().await;
}

#[tokio::test]
async fn every_acknowledgement_goes_with_every_compression() {
    for acks in ["0", "1", "all"] {
        for compression in ["none", "gzip", "snappy", "lz4", "zstd"] {
            carry(&[("acks", acks), ("compression.type", compression)], &[]).await;
        }
    }
}

#[tokio::test]
async fn settings_of_sending_go_with_one_another() {
    let in_flight = "max.in.flight.requests.per.connection";
    for properties in [
        &[("enable.idempotence", "false")][..],
        &[(in_flight, "1"), ("linger.ms", "3")],
        &[(in_flight, "1"), ("acks", "0"), ("linger.ms", "3")],
        &[("linger.ms", "5"), ("batch.size", "20000"), ("compression.type", "lz4")],
        &[("batch.num.messages", "50"), ("message.max.bytes", "200000")],
        &[(in_flight, "100"), ("acks", "1")],
    ] {
        carry(properties, &[]).await;
    }
}

#[tokio::test]
async fn settings_of_receiving_go_with_one_another() {
    for properties in [
        &[("fetch.max.bytes", "1"), ("max.partition.fetch.bytes", "1")][..],
        &[("fetch.max.bytes", "20000")],
        &[("max.partition.fetch.bytes", "3000"), ("isolation.level", "read_uncommitted")],
        &[("fetch.wait.max.ms", "0"), ("client.id", "reader")],
        &[("fetch.min.bytes", "100000"), ("fetch.wait.max.ms", "10")],
    ] {
        carry(&[("compression.type", "lz4")], properties).await;
    }
}

#[tokio::test]
async fn positions_are_where_they_say() {
    let service = serve().await;
    let mut to = sink(&service, &[]).await;
    publish(&mut *to, 1, &records(&values(10, 16))).await;
    publish(&mut *to, 1, &records(&values(5, 16))).await;
    assert_eq!(ends(&options(&service, &[])).await.unwrap(), [(PartitionId(1), 14)]);
    for (start, first) in [
        (StartPosition::Earliest, 0),
        (StartPosition::AtSequenceNumber(13), 13),
        (StartPosition::AfterSequenceNumber(3), 4),
        (StartPosition::AfterOffset("11".to_owned()), 12),
        (StartPosition::AtEnqueuedTime(EnqueuedTime::from_unix_ms(0)), 0),
    ] {
        let mut source = source(&service, &[], &start).await;
        assert_eq!(receive(&mut *source, 1).await[0].1, first, "{start:?}");
    }
    let mut latest = source(&service, &[], &StartPosition::Latest).await;
    // It is at the end once a broker has let it read from there.
    let attached = poll_fn(|context| {
        let polled = latest.poll_batch(context);
        assert!(polled.is_pending(), "{polled:?}");
        match latest.is_attached(PartitionId(1)) {
            true => std::task::Poll::Ready(()),
            false => std::task::Poll::Pending,
        }
    });
    within(attached).await;
    publish(&mut *to, 1, &records(&values(1, 16))).await;
    assert_eq!(receive(&mut *latest, 1).await[0].1, 15);
    service.stop().await;
}

#[tokio::test]
async fn a_record_keeps_its_time_and_is_a_message_of_amqp_on_demand() {
    let service = serve().await;
    let mut to = sink(&service, &[]).await;
    publish(&mut *to, 0, &records(&values(3, 4))).await;
    let options = options(&service, &[]);
    let connecting = connect_source(&options, SourceOptions::default(), Encoding::Amqp);
    let mut source = within(connecting).await.unwrap();
    source.open(PartitionId(0), StartPosition::Earliest);
    let SourceEvent::Batch(batch) = within(poll_fn(|context| source.poll_batch(context))).await.unwrap()
    else {
        panic!("a batch");
    };
    let last = &batch.events()[2];
    assert_eq!(last.enqueued_time.unix_ms(), 1_700_000_000_002);
    assert!(batch.message(last).ends_with(b"\x00\x53\x75\xa0\x04\0\0\0\x02"));

    // And back again: the sink makes records of the messages.
    let events = [0, 1, 2];
    to.send(SendToken(1), OutgoingBatch::new(2, &batch, &events)).unwrap();
    assert!(outcomes(&mut *to, 1).await[0].result.is_ok());
    let connecting = connect_source(&options, SourceOptions::default(), Encoding::Kafka);
    let mut again = within(connecting).await.unwrap();
    again.open(PartitionId(2), StartPosition::Earliest);
    let SourceEvent::Batch(copied) = within(poll_fn(|context| again.poll_batch(context))).await.unwrap()
    else {
        panic!("a batch");
    };
    let copy = &copied.events()[2];
    assert_eq!(copied.partition_key(copy), Some(&b"key"[..]));
    assert_eq!(copy.enqueued_time, last.enqueued_time);
    assert!(copied.message(copy).windows(4).any(|part| part == [0, 0, 0, 2]));
    service.stop().await;
}

#[tokio::test]
async fn what_is_not_released_is_all_that_comes() {
    let service = serve().await;
    let mut to = sink(&service, &[]).await;
    publish(&mut *to, 0, &records(&values(1_000, 16))).await;
    let mut source = source(&service, &[], &StartPosition::Earliest).await;
    let mut held: Vec<EventBatch> = Vec::new();
    while held.iter().map(EventBatch::len).sum::<usize>() < 200 {
        match within(poll_fn(|context| source.poll_batch(context))).await.unwrap() {
            SourceEvent::Batch(batch) => held.push(batch),
            other => panic!("a batch, not {other:?}"),
        }
    }
    poll_fn(|context| {
        assert!(source.poll_batch(context).is_pending(), "the prefetch count is 200");
        std::task::Poll::Ready(())
    })
    .await;
    let mut next = 200;
    while next < 1_000 {
        source.release(held.remove(0));
        let SourceEvent::Batch(batch) = within(poll_fn(|context| source.poll_batch(context))).await.unwrap()
        else {
            panic!("a batch");
        };
        assert_eq!(batch.first_sequence_number(), Some(next));
        next += batch.len() as i64;
        held.push(batch);
    }
    service.stop().await;
}

#[tokio::test]
async fn a_record_of_a_mebibyte_gets_through_and_one_beyond_the_limit_is_too_large() {
    let service = serve().await;
    let mut to = sink(&service, &[("message.max.bytes", "8000000")]).await;
    let large = values(1, 1_000_000);
    publish(&mut *to, 0, &records(&large)).await;
    let mut from = source(&service, &[], &StartPosition::Earliest).await;
    assert!(receive(&mut *from, 1).await[0].2 == large[0]);
    send(&mut *to, 1, 0, &records(&values(1, 6_000_000))).await;
    let outcome = outcomes(&mut *to, 1).await.remove(0);
    assert_eq!(outcome.result.unwrap_err().class, ErrorClass::TooLarge);
    // What follows goes on with the numbers of the one that was refused.
    publish(&mut *to, 0, &records(&values(2, 16))).await;
    assert_eq!(receive(&mut *from, 2).await.last().unwrap().1, 2);
    service.stop().await;
}

#[tokio::test]
async fn tls_trusts_the_given_authority_and_no_other() {
    let names = ["localhost".to_owned(), "127.0.0.1".to_owned()];
    let certified = rcgen::generate_simple_self_signed(names.clone()).unwrap();
    let key = PrivateKeyDer::try_from(certified.signing_key.serialize_der()).unwrap();
    let config = ServerConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![certified.cert.der().clone()], key)
        .unwrap();
    let namespace = NamespaceConfig::with_hubs(vec![HubConfig::new(TOPIC, 1)]);
    let config =
        ServiceConfig::loopback(namespace).and(Protocol::Kafka).and_tls(Protocol::Kafka, Arc::new(config));
    let service = Service::start(config).await.unwrap();
    let folder = tempfile::tempdir().unwrap();
    let authority = folder.path().join("authority.pem");
    std::fs::write(&authority, certified.cert.pem()).unwrap();
    let mut options = options(&service, &[]);
    options.properties.set("bootstrap.servers", service.tls_address(Protocol::Kafka).unwrap().to_string());
    options.properties.set("security.protocol", "sasl_ssl");
    options.properties.set("ssl.ca.location", authority.to_str().unwrap());
    let mut to = within(connect_sink(&options)).await.unwrap();
    publish(&mut *to, 0, &records(&values(2_000, 100))).await;
    let connecting = connect_source(&options, SourceOptions::default(), Encoding::Kafka);
    let mut from = within(connecting).await.unwrap();
    from.open(PartitionId(0), StartPosition::Earliest);
    assert_eq!(receive(&mut *from, 2_000).await.len(), 2_000);

    let other = rcgen::generate_simple_self_signed(names).unwrap();
    std::fs::write(&authority, other.cert.pem()).unwrap();
    let refused = within(connect_sink(&options)).await.unwrap_err();
    assert!(refused.condition.starts_with("connection:"), "{refused}");
    options.properties.set("security.protocol", "sasl_plaintext");
    let refused = within(connect_sink(&options)).await.unwrap_err();
    assert!(refused.to_string().contains("TLS"), "{refused}");
    service.stop().await;
}

#[tokio::test]
async fn how_far_partitions_reach_and_how_far_they_were_read_is_known() {
    let service = serve().await;
    let mut extents = TopicExtents::of(options(&service, &[]));
    let empty = |extent: &PartitionExtent| (extent.start, extent.end, extent.last_time) == (0, 0, None);
    assert!(within(extents.ask()).await.unwrap().iter().all(empty));
    let mut to = sink(&service, &[]).await;
    publish(&mut *to, 1, &records(&values(6, 16))).await;
    let found = within(extents.ask()).await.unwrap();
    assert_eq!(found.iter().map(|extent| extent.partition.0).collect::<Vec<_>>(), [0, 1, 2]);
    assert_eq!((found[1].start, found[1].end), (0, 6));
    assert!(found[1].last_time.is_some() && empty(&found[0]) && empty(&found[2]), "{found:?}");

    let mut source = source(&service, &[], &StartPosition::Earliest).await;
    let partition = PartitionId(1);
    assert_eq!(source.next_number(partition), None, "nothing was asked yet");
    let SourceEvent::Batch(batch) = within(poll_fn(|context| source.poll_batch(context))).await.unwrap()
    else {
        panic!("a batch");
    };
    assert_eq!((batch.partition(), batch.len()), (partition, 6));
    assert_eq!(source.next_number(partition), None, "somebody has it");
    source.release(batch);
    assert_eq!(source.next_number(partition), Some(6));
    source.close(partition);
    assert_eq!(source.next_number(partition), None);
    service.stop().await;
}
