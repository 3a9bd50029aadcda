//! What readers over AMQP see of transactions that clients of Kafka write: what is committed, and nothing else.

use std::sync::Arc;
use std::time::SystemTime;

use amqp::Value;
use amqp::message::MessageView;
use hub::service::Service;
use kafka::record;
use kafka::record_batch::{self, RecordBatch};
use partition_log::{PartitionLog, TransactionEnd, TransactionMarker};
use test_peer::Received;

use crate::front::client::{Client, service};

fn log(service: &Service) -> Arc<PartitionLog> {
    Arc::clone(service.namespace().hub("events").unwrap().partitions()[0].log())
}

/// Appends records of a producer: in a transaction, if it has an id.
fn write(log: &PartitionLog, producer: Option<(i64, i32)>, values: &[&[u8]]) {
    let mut bytes = vec![0; RecordBatch::HEADER_LENGTH];
    for (delta, value) in (0..).zip(values) {
        record::encode(&mut bytes, delta, None, Some(value), std::iter::empty());
    }
    record_batch::complete(&mut bytes, 0, -1, values.len() as u32, 1_700_000_000_000);
    if let Some((id, sequence)) = producer {
        bytes[22] = 0b1_0000;
        bytes[43..51].copy_from_slice(&id.to_be_bytes());
        bytes[51..53].copy_from_slice(&0_i16.to_be_bytes());
        bytes[53..57].copy_from_slice(&sequence.to_be_bytes());
        let checksum = crc32c::crc32c(&bytes[21..]);
        bytes[17..21].copy_from_slice(&checksum.to_be_bytes());
    }
    log.append_record_batch(SystemTime::now().into(), &RecordBatch::check(&bytes).unwrap()).unwrap();
}

fn end(log: &PartitionLog, id: i64, end: TransactionEnd) {
    let marker = TransactionMarker { producer_id: id, producer_epoch: 0, end, coordinator_epoch: 0 };
    log.end_transaction(SystemTime::now().into(), &marker).unwrap().unwrap();
}

/// Number and body of an event.
fn numbered(event: &Received) -> (i64, Vec<u8>) {
    (event.sequence_number(), event.payload())
}

/// The last number that a client is told of.
async fn last_enqueued(client: &mut Client) -> i64 {
    let properties = [
        ("operation", "READ".into()),
        ("type", "com.microsoft:partition".into()),
        ("name", "events".into()),
        ("partition", "0".into()),
    ];
    let reply = client.exchange("$management", &properties, &Value::Null).await;
    let Some(Value::Map(attributes)) = MessageView::parse(&reply.bytes).unwrap().value().unwrap() else {
        panic!("attributes");
    };
    let last = attributes.iter().find(|(name, _)| name.as_text() == Some("last_enqueued_sequence_number"));
    last.unwrap().1.as_integer().unwrap()
}

const READER: &str = "events/ConsumerGroups/$Default/Partitions/0";

#[tokio::test]
async fn a_reader_waits_for_the_end_of_a_transaction_and_passes_over_what_was_aborted() {
    let service = service().await;
    let log = log(&service);
    let mut client = Client::connect(service.amqp_address()).await;
    let reader = client.attach_receiver(READER, 1000).await.unwrap();
    write(&log, None, &[b"0"]);
    write(&log, Some((7, 0)), &[b"1", b"2"]);
    write(&log, Some((9, 0)), &[b"3"]);
    write(&log, None, &[b"4"]);
    let mut events = client.received(reader, 1).await;
    assert_eq!(last_enqueued(&mut client).await, 0);
    assert_eq!(client.waiting(reader), 0, "an answer that came later did not come behind an event");

    end(&log, 9, TransactionEnd::Abort);
    end(&log, 7, TransactionEnd::Commit);
    write(&log, Some((9, 1)), &[b"7"]);
    end(&log, 9, TransactionEnd::Abort);
    write(&log, None, &[b"9"]);
    events.extend(client.received(reader, 4).await);
    let numbered: Vec<_> = events.iter().map(numbered).collect();
    let expected = [(0, b"0"), (1, b"1"), (2, b"2"), (4, b"4"), (9, b"9")];
    assert_eq!(numbered, expected.map(|(number, body)| (number, body.to_vec())));
    assert_eq!(last_enqueued(&mut client).await, 9);
    service.stop().await;
}

#[tokio::test]
async fn a_reader_finds_events_behind_more_markers_and_aborted_records_than_it_looks_at_in_one_go() {
    let service = service().await;
    let log = log(&service);
    for sequence in 0..40 {
        write(&log, Some((7, sequence)), &[&[0; 60_000]]);
        end(&log, 7, TransactionEnd::Abort);
    }
    write(&log, Some((7, 40)), &[b"committed"]);
    end(&log, 7, TransactionEnd::Commit);
    let mut client = Client::connect(service.amqp_address()).await;
    let reader = client.attach_receiver(READER, 1).await.unwrap();
    let events = client.received(reader, 1).await;
    assert_eq!(numbered(&events[0]), (80, b"committed".to_vec()));
    service.stop().await;
}
