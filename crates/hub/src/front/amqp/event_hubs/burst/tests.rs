use std::sync::Arc;

use amqp::codec::{Symbol, Value};
use amqp::connection::LinkAcceptance;
use amqp::message::{FORMAT_AMQP, FORMAT_BATCH, encode};

use super::*;
use crate::namespace::{
    CleanupPolicy, EntityError, Hub, HubConfig, Namespace, NamespaceConfig, TopicSettings,
};
use partition_log::{LogLimits, Start, Subscriber, WhenFull};
use units::ByteSize;

const NOW: UnixTime = UnixTime::from_milliseconds(7);

fn hub(partitions: u16, log: LogLimits) -> Arc<Hub> {
    namespace(vec![HubConfig { log: Some(log), ..HubConfig::new("hub", partitions) }]).hub("hub").unwrap()
}

fn namespace(hubs: Vec<HubConfig>) -> Namespace {
    Namespace::new(&NamespaceConfig::with_hubs(hubs), NOW).unwrap()
}

fn link(hub: &Hub, partition: usize) -> PublishLink {
    PublishLink::to_partition(hub, Arc::clone(&hub.partitions()[partition]), &Subscriber::new(), 0)
}

fn event(payload: &[u8]) -> Vec<u8> {
    let mut message = Vec::new();
    encode::data(&mut message, payload);
    message
}

fn batch(payloads: &[&[u8]]) -> Vec<u8> {
    payloads.iter().flat_map(|payload| event(&event(payload))).collect()
}

/// Stores transfers, each given by the place of its link, its format and its bytes.
fn store(burst: &mut Burst, links: &[PublishLink], transfers: &[(usize, u32, Vec<u8>)]) {
    burst.store(transfers.iter().map(|(link, format, message)| (&links[*link], *format, &message[..])), NOW);
}

/// The batches of a partition, each with the payloads of its events.
fn stored(hub: &Hub, partition: usize) -> Vec<Vec<Vec<u8>>> {
    let log = hub.partitions()[partition].log();
    let mut cursor = log.position(Start::Earliest).unwrap();
    let mut batches = Vec::new();
    while let Some(chunk) = log.read(&mut cursor, 0) {
        // A Data section of few bytes has a head of five.
        batches.push(chunk.records().map(|record| record.sections[5..].to_vec()).collect());
    }
    batches
}

fn payloads(texts: &[&str]) -> Vec<Vec<u8>> {
    texts.iter().map(|text| text.as_bytes().to_vec()).collect()
}

#[test]
fn transfers_of_interleaved_links_are_one_batch_per_partition_in_their_order() {
    let hub = hub(70, LogLimits::default());
    let links = [link(&hub, 0), link(&hub, 1), link(&hub, 1), link(&hub, 65)];
    let mut burst = Burst::default();
    let transfers = [
        (0, FORMAT_AMQP, event(b"a1")),
        (1, FORMAT_AMQP, event(b"b1")),
        // In the place of partition 1 among those that are found at once.
        (3, FORMAT_AMQP, event(b"c1")),
        (0, FORMAT_BATCH, batch(&[b"a2", b"a3"])),
        (2, FORMAT_AMQP, event(b"b2")),
        (3, FORMAT_AMQP, event(b"c2")),
        (1, FORMAT_AMQP, event(b"b3")),
    ];
    store(&mut burst, &links, &transfers);
    assert_eq!(stored(&hub, 0), [payloads(&["a1", "a2", "a3"])]);
    assert_eq!(stored(&hub, 1), [payloads(&["b1", "b2", "b3"])]);
    assert_eq!(stored(&hub, 65), [payloads(&["c1", "c2"])]);
    assert_eq!(burst.stored.commits, [CommitNumber::DONE; 7]);
    assert!(burst.stored.refused.is_empty());
    let counted = hub.counters();
    assert_eq!((counted.batches_in, counted.events_in), (7, 8), "as the clients sent them");
}

#[test]
fn what_cannot_be_read_is_refused_alone_and_leaves_nothing_behind() {
    let hub = hub(1, LogLimits::default());
    let links = [link(&hub, 0)];
    let mut burst = Burst::default();
    let mut cut = batch(&[b"x1", b"x2"]);
    cut.pop();
    let transfers = [
        (0, FORMAT_AMQP, event(b"first")),
        (0, FORMAT_BATCH, cut),
        (0, FORMAT_BATCH, Vec::new()),
        (0, FORMAT_AMQP, event(b"second")),
    ];
    for _ in 0..2 {
        store(&mut burst, &links, &transfers);
        let refused: Vec<usize> = burst.stored.refused.iter().map(|(place, _)| *place).collect();
        assert_eq!(refused, [1, 2]);
        assert_eq!(burst.stored.commits.len(), 4);
    }
    assert_eq!(stored(&hub, 0), [payloads(&["first", "second"]), payloads(&["first", "second"])]);
}

#[test]
fn a_full_log_takes_what_fits_and_refuses_the_others_one_by_one() {
    let bytes = ByteSize::from_mebibytes(2);
    let hub = hub(1, LogLimits { bytes, when_full: WhenFull::Throttle, retention: None });
    let links = [link(&hub, 0)];
    let mut burst = Burst::default();
    // Leaves room for 350 bytes.
    store(&mut burst, &links, &[(0, FORMAT_AMQP, event(&vec![0; bytes.as_usize() - 395]))]);
    assert!(burst.stored.refused.is_empty());
    let transfers = [
        (0, FORMAT_AMQP, event(&[1; 100])),
        (0, FORMAT_AMQP, event(&[2; 200])),
        (0, FORMAT_AMQP, event(&[3; 60])),
    ];
    store(&mut burst, &links, &transfers);
    let refused: Vec<usize> = burst.stored.refused.iter().map(|(place, _)| *place).collect();
    assert_eq!(refused, [1]);
    assert_eq!(stored(&hub, 0)[1..], [[vec![1; 100]], [vec![3; 60]]]);
    let counted = hub.counters();
    assert_eq!((counted.batches_in, counted.batches_refused), (3, 1));
}

#[test]
fn event_without_a_key_is_refused_by_a_compacted_hub() {
    let namespace = namespace(vec![HubConfig::new("compacted", 1)]);
    let compact = |_: &TopicSettings| {
        let cleanup_policy = Some(CleanupPolicy::CompactDelete);
        Ok::<_, EntityError>(TopicSettings { cleanup_policy, ..TopicSettings::default() })
    };
    namespace.change_settings("compacted", compact).unwrap();
    let hub = namespace.hub("compacted").unwrap();
    let links = [link(&hub, 0)];
    let keyed = |name, key: &Value| {
        let mut message = Vec::new();
        encode::message_annotations(&mut message, &[(Symbol::from_static(name), key.clone())]);
        encode::data(&mut message, b"keyed");
        message
    };
    let in_batch =
        |messages: &[Vec<u8>]| messages.iter().flat_map(|message| event(message)).collect::<Vec<u8>>();
    let (key, null) = (Value::from("key"), Value::Null);
    let partition_key = || keyed("x-opt-partition-key", &key);
    let transfers = [
        (0, FORMAT_AMQP, event(b"no key")),
        (0, FORMAT_AMQP, partition_key()),
        (0, FORMAT_AMQP, keyed("x-opt-kafka-key", &key)),
        (0, FORMAT_AMQP, keyed("x-opt-partition-key", &null)),
        (0, FORMAT_BATCH, in_batch(&[partition_key(), partition_key()])),
        (0, FORMAT_BATCH, in_batch(&[partition_key(), event(b"no key")])),
    ];
    let mut burst = Burst::default();
    store(&mut burst, &links, &transfers);
    let refused: Vec<usize> = burst.stored.refused.iter().map(|(place, _)| *place).collect();
    assert_eq!(refused, [0, 3, 5]);
    assert_eq!(hub.counters().events_in, 4);
}

#[test]
fn a_deleted_hub_refuses_all_of_its_own_and_no_other() {
    let namespace = namespace(vec![HubConfig::new("deleted", 2), HubConfig::new("other", 1)]);
    let [deleted, other] = ["deleted", "other"].map(|name| namespace.hub(name).unwrap());
    let links = [link(&deleted, 0), link(&other, 0), link(&deleted, 1)];
    namespace.delete_hub("deleted").unwrap();
    let mut burst = Burst::default();
    let transfers = [0, 1, 2, 0].map(|link| (link, FORMAT_AMQP, event(b"event")));
    store(&mut burst, &links, &transfers);
    let refused: Vec<usize> = burst.stored.refused.iter().map(|(place, _)| *place).collect();
    assert_eq!(refused, [0, 2, 3]);
    assert_eq!(stored(&other, 0), [payloads(&["event"])]);
    assert!(stored(&deleted, 0).is_empty());
}

#[test]
fn a_run_is_appended_in_batches_of_a_bounded_size() {
    let hub = hub(1, LogLimits::default());
    let links = [link(&hub, 0)];
    let mut burst = Burst::default();
    let sizes = [40_000, 20_000, 30_000, 200_000, 10, 10];
    let transfers = sizes.map(|size| (0, FORMAT_AMQP, event(&vec![1; size])));
    store(&mut burst, &links, &transfers);
    let counts: Vec<usize> = stored(&hub, 0).iter().map(Vec::len).collect();
    assert_eq!(counts, [2, 1, 1, 2]);
    assert_eq!(hub.counters().batches_in, 6);
}

#[test]
fn to_a_hub_as_a_whole_each_message_goes_to_the_partition_of_its_turn() {
    let hub = hub(2, LogLimits::default());
    let links = [PublishLink::to_hub(Arc::clone(&hub), &Subscriber::new(), 0)];
    let mut burst = Burst::default();
    let transfers = ["a", "b", "c", "d"].map(|text| (0, FORMAT_AMQP, event(text.as_bytes())));
    store(&mut burst, &links, &transfers);
    assert_eq!(stored(&hub, 0), [payloads(&["a", "c"])]);
    assert_eq!(stored(&hub, 1), [payloads(&["b", "d"])]);
}

#[test]
fn bytes_that_are_made_here_belong_to_their_own_event() {
    let hub = hub(1, LogLimits::default());
    let links = [PublishLink::of_publisher(&hub, "device-1", &Subscriber::new(), 0), link(&hub, 0)];
    let mut burst = Burst::default();
    // A header, which is stored in another form than it may come in.
    let with_header = [b"\x00\x53\x70\xc0\x02\x01\x41", &event(b"b")[..]].concat();
    let transfers = [
        (0, FORMAT_AMQP, event(b"a")),
        (1, FORMAT_AMQP, with_header),
        (0, FORMAT_BATCH, batch(&[b"c", b"d"])),
        (1, FORMAT_AMQP, event(b"e")),
    ];
    store(&mut burst, &links, &transfers);
    assert!(burst.stored.refused.is_empty(), "{:?}", burst.stored.refused);
    let log = hub.partitions()[0].log();
    let mut cursor = log.position(Start::Earliest).unwrap();
    let chunk = log.read(&mut cursor, usize::MAX).unwrap();
    let of_publisher = |annotations: &[u8]| annotations.ends_with(b"device-1");
    let found: Vec<_> = chunk
        .records()
        .map(|record| {
            let section_starts =
                record.sections.windows(3).filter(|bytes| bytes[..2] == [0x00, 0x53]).count();
            let last = record.sections.last().copied().unwrap();
            (record.annotation_count, of_publisher(record.annotations), section_starts, char::from(last))
        })
        .collect();
    let expected =
        [(1, true, 1, 'a'), (0, false, 2, 'b'), (1, true, 1, 'c'), (1, true, 1, 'd'), (0, false, 1, 'e')];
    assert_eq!(found, expected);
}

/// A link of a producer that numbers its events.
fn numbered_link(hub: &Hub, partition: usize, id: i64) -> PublishLink {
    let request = idempotent::Request { id: Some(id), ..idempotent::Request::default() };
    let mut acceptance = LinkAcceptance::default();
    let producer = NumberedProducer::admit(&request, &hub.partitions()[partition], NOW, &mut acceptance);
    let mut link = link(hub, partition);
    link.numbering = Numbering::OfProducer(producer.unwrap());
    link
}

fn numbered(number: i32, payload: &[u8]) -> Vec<u8> {
    let mut message = Vec::new();
    let name = Symbol::from("com.microsoft:producer-sequence-number");
    encode::message_annotations(&mut message, &[(name, Value::Int(number))]);
    encode::data(&mut message, payload);
    message
}

fn numbered_batch(first: i32, payloads: &[&[u8]]) -> Vec<u8> {
    (first..).zip(payloads).flat_map(|(number, payload)| event(&numbered(number, payload))).collect()
}

fn condition(outcome: &DeliveryState) -> &str {
    match outcome {
        DeliveryState::Rejected(Some(error)) => error.condition.as_str(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn transfers_of_numbered_producers_are_batches_of_their_own_and_stored_once() {
    let hub = hub(1, LogLimits::default());
    let links = [link(&hub, 0), numbered_link(&hub, 0, 7), numbered_link(&hub, 0, 8)];
    let mut burst = Burst::default();
    let transfers = [
        (1, FORMAT_BATCH, numbered_batch(1, &[b"a1", b"a2"])),
        (0, FORMAT_AMQP, event(b"x1")),
        (1, FORMAT_AMQP, numbered(3, b"a3")),
        (2, FORMAT_BATCH, numbered_batch(1, &[b"b1"])),
        (0, FORMAT_AMQP, event(b"x2")),
        (1, FORMAT_BATCH, numbered_batch(1, &[b"a1", b"a2"])),
    ];
    store(&mut burst, &links, &transfers);
    assert!(burst.stored.refused.is_empty(), "{:?}", burst.stored.refused);
    let expected = [&["x1", "x2"][..], &["a1", "a2"], &["a3"], &["b1"]].map(payloads).to_vec();
    assert_eq!(stored(&hub, 0), expected);
    let counted = hub.counters();
    assert_eq!((counted.events_in, counted.batches_in, counted.events_duplicate), (6, 5, 2));
    store(&mut burst, &links, &transfers[2..]);
    assert_eq!(hub.counters().events_duplicate, 6);
}

#[test]
fn what_a_numbered_producer_may_not_send_is_refused_by_its_place() {
    let hub = hub(1, LogLimits::default());
    let links = [numbered_link(&hub, 0, 7)];
    let mut burst = Burst::default();
    let with_other_id = {
        let mut message = Vec::new();
        let name = |name: &str| Symbol::from(&*format!("com.microsoft:producer-{name}"));
        let annotations = [(name("id"), Value::Long(9)), (name("sequence-number"), Value::Int(1))];
        encode::message_annotations(&mut message, &annotations);
        encode::data(&mut message, b"other");
        message
    };
    let uneven = [numbered(1, b"a1"), numbered(3, b"a3")].iter().flat_map(|inner| event(inner)).collect();
    let transfers = [
        (0, FORMAT_AMQP, numbered(2, b"a2")),
        (0, FORMAT_AMQP, event(b"unnumbered")),
        (0, FORMAT_AMQP, numbered(1, b"a1")),
        (0, FORMAT_BATCH, uneven),
        (0, FORMAT_AMQP, with_other_id),
        (0, FORMAT_AMQP, numbered(-1, b"negative")),
    ];
    store(&mut burst, &links, &transfers);
    let refused: Vec<_> =
        burst.stored.refused.iter().map(|(place, outcome)| (*place, condition(outcome))).collect();
    let out_of_order = "com.microsoft:out-of-order-sequence";
    let argument = "com.microsoft:argument-error";
    let expected = [(0, out_of_order), (1, argument), (3, out_of_order), (4, argument), (5, argument)];
    assert_eq!(refused, expected);
    assert_eq!(stored(&hub, 0), [payloads(&["a1"])]);
    // Of those that came to the log.
    assert_eq!(hub.counters().batches_out_of_order, 1);

    let newer = ErrorCondition::PRODUCER_EPOCH_STOLEN;
    hub.partitions()[0].log().claim_producer(NOW, 7, Some(1), None).unwrap();
    store(&mut burst, &links, &[(0, FORMAT_AMQP, numbered(2, b"a2"))]);
    assert_eq!(condition(&burst.stored.refused[0].1), newer.as_str());
    assert_eq!(hub.counters().batches_of_older_epoch, 1);
}
