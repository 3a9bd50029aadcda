//! Publisher and sink: what goes over the wire, outcomes, credit, and links and connections that end.

use std::future::poll_fn;
use std::task::Poll;
use std::time::Duration;

use amqp::message::{FORMAT_AMQP, FORMAT_BATCH, SectionKind, Sections};
use amqp::performative::{DeliveryState, Error, ErrorCondition};
use bytes::Bytes;
use connect::event::{EnqueuedTime, EventBatch, EventParts, PartitionId};
use connect::event_hubs::{Destination, EventHubsSink, Publisher};
use connect::sink::{ErrorClass, OutgoingBatch, SendOutcome, SendToken, Sink, SinkBusy};

use crate::event_hubs::service::{Command, Report, Service, send_address};
use test_peer::PATIENCE;

async fn publisher(service: &Service) -> Publisher {
    Publisher::connect(service.options()).await.unwrap()
}

/// Publishes, waiting while it is busy.
async fn publish(publisher: &mut Publisher, token: u64, destination: Destination<'_>, messages: &[&[u8]]) {
    let published = async {
        while publisher.publish(SendToken(token), destination, messages.iter().copied()).is_err() {
            poll_fn(|context| publisher.poll_ready(context)).await.unwrap();
        }
    };
    tokio::time::timeout(PATIENCE, published).await.expect("the publisher does not stay busy");
}

/// The next `count` outcomes: token and class of the error.
async fn outcomes(publisher: &mut Publisher, count: usize) -> Vec<(u64, Option<ErrorClass>)> {
    let mut outcomes: Vec<SendOutcome> = Vec::new();
    let all = async {
        while outcomes.len() < count {
            poll_fn(|context| publisher.poll_outcomes(context, &mut outcomes)).await.unwrap();
        }
    };
    tokio::time::timeout(PATIENCE, all).await.expect("every send has an outcome");
    outcomes
        .into_iter()
        .map(|outcome| (outcome.token.0, outcome.result.err().map(|error| error.class)))
        .collect()
}

/// Drives the publisher until it has nothing left to do.
async fn flush(publisher: &mut Publisher) {
    let mut none = Vec::new();
    assert!(poll_fn(|context| Poll::Ready(publisher.poll_outcomes(context, &mut none))).await.is_pending());
}

const EVENT: &[u8] = b"\x00\x53\x75\xa0\x05event";

#[tokio::test]
async fn a_send_is_one_transfer_of_data_sections_that_hold_whole_messages() {
    let mut service = Service::start(2).await;
    let mut publisher = publisher(&service).await;
    let long = [&b"\x00\x53\x75\xb0\x00\x00\x01\x2c"[..], &[7; 300]].concat();
    publish(&mut publisher, 1, Destination::Partition(1), &[EVENT, &long]).await;
    assert_eq!(outcomes(&mut publisher, 1).await, [(1, None)]);
    let (_, message) = service.batch().await;
    let expected = [&b"\x00\x53\x75\xa0\x0a"[..], EVENT, b"\x00\x53\x75\xb0\x00\x00\x01\x34", &long].concat();
    assert_eq!(message, expected);
    assert_eq!(
        message.len(),
        [EVENT, &long].map(|event| Publisher::encoded_len(event.len())).iter().sum::<usize>()
    );
}

#[tokio::test]
async fn a_single_event_is_sent_as_it_is_and_several_as_a_batch() {
    let key = b"\x00\x53\x72\xc1\x1b\x02\xa3\x13x-opt-partition-key\xa1\x03key";
    let keyed_event = [&key[..], EVENT].concat();
    let wrapped = |event: &[u8]| [&[0, 0x53, 0x75, 0xa0, event.len() as u8], event].concat();
    let mut service = Service::start(1).await;
    let mut publisher = publisher(&service).await;
    let partition = Destination::Partition(0);
    let by_key = Destination::Key("key");
    let cases = [
        (partition, 1, FORMAT_AMQP, EVENT.to_vec()),
        (partition, 2, FORMAT_BATCH, wrapped(EVENT).repeat(2)),
        (by_key, 1, FORMAT_AMQP, keyed_event.clone()),
        (by_key, 2, FORMAT_BATCH, [&key[..], &wrapped(&keyed_event).repeat(2)].concat()),
    ];
    for (destination, events, format, expected) in cases {
        publish(&mut publisher, 1, destination, &vec![EVENT; events]).await;
        assert_eq!(outcomes(&mut publisher, 1).await, [(1, None)]);
        let address = match destination {
            Destination::Partition(_) => "hub/Partitions/0",
            Destination::Key(_) | Destination::Any => "hub",
        };
        let sent = service.transfer().await;
        assert_eq!(sent, (address.to_owned(), format, expected));
    }
}

#[tokio::test]
async fn a_sink_that_keeps_keys_lets_the_service_choose_by_them() {
    let mut service = Service::start(2).await;
    let mut sink = EventHubsSink::connect(service.options()).await.unwrap();
    assert!(!sink.sends_by_key());
    sink.keep_keys();
    assert!(sink.sends_by_key());
    let mut batch = EventBatch::with_capacity(PartitionId(0), 2);
    for (key, message) in [(&b"key"[..], EVENT), (b"", EVENT)] {
        let chunk = Bytes::from([key, message].concat());
        let key_end = key.len() as u32;
        let parts = EventParts {
            message: key_end..chunk.len() as u32,
            partition_key: 0..key_end,
            offset: 0..0,
            sequence_number: 0,
            enqueued_time: EnqueuedTime::default(),
        };
        batch.push(&chunk, &parts);
    }
    for (event, address) in [(0, "hub"), (1, "hub/Partitions/1")] {
        loop {
            let events = [event];
            let outgoing = OutgoingBatch::new(1, &batch, &events);
            if sink.send(SendToken(0), outgoing).is_ok() {
                break;
            }
            poll_fn(|context| sink.poll_ready(context)).await.unwrap();
        }
        let mut outcomes = Vec::new();
        poll_fn(|context| sink.poll_outcomes(context, &mut outcomes)).await.unwrap();
        assert!(outcomes[0].result.is_ok());
        assert_eq!(service.transfer().await.0, address);
    }
    Box::new(sink).shut_down().await;
}

#[tokio::test]
async fn payloads_are_wrapped_into_messages() {
    let mut service = Service::start(1).await;
    let mut publisher = publisher(&service).await;
    for (count, length) in [(3, 16), (2, 255), (1, 300)] {
        let fill = |index: usize, payload: &mut [u8]| payload.fill(index as u8);
        publisher.publish_payloads(SendToken(0), 0, count, length, fill).unwrap();
        flush(&mut publisher).await;
        let (_, message) = service.batch().await;
        let events: Vec<_> =
            Sections::new(&message).map(|section| section.unwrap().data().unwrap()).collect();
        assert_eq!(events.len(), count);
        for (index, event) in events.into_iter().enumerate() {
            let sections: Vec<_> = Sections::new(event).map(Result::unwrap).collect();
            assert_eq!(sections.len(), 1);
            assert_eq!(sections[0].data().unwrap(), vec![index as u8; length]);
        }
        outcomes(&mut publisher, 1).await;
    }
}

#[tokio::test]
async fn a_partition_key_is_on_the_batch_and_on_every_event() {
    let mut service = Service::start(1).await;
    let mut publisher = publisher(&service).await;
    publish(&mut publisher, 1, Destination::Key("key-9"), &[EVENT, EVENT]).await;
    assert_eq!(outcomes(&mut publisher, 1).await, [(1, None)]);
    assert_eq!(service.attached("hub").await.target.unwrap().address.as_deref(), Some("hub"));
    let (_, message) = service.batch().await;
    let sections: Vec<_> = Sections::new(&message).map(Result::unwrap).collect();
    assert_eq!(sections.len(), 3);
    assert_eq!(sections[0].kind, SectionKind::MessageAnnotations);
    let view = amqp::message::MessageView::parse(&message).unwrap();
    let key = view.message_annotations().unwrap().find("x-opt-partition-key").unwrap();
    assert_eq!(key, Some(amqp::Value::from("key-9")));
    for event in &sections[1..] {
        assert_eq!(event.data().unwrap(), [sections[0].encoded, EVENT].concat());
    }
}

#[tokio::test]
async fn outcomes_find_their_sends_and_say_what_can_be_done() {
    let service = Service::start(2).await;
    let rejected = |condition| Some(DeliveryState::Rejected(Some(Error::new(condition, "as the test says"))));
    service.script(|script| {
        script.outcomes.extend([
            Some(DeliveryState::Accepted),
            rejected(ErrorCondition::SERVER_BUSY),
            rejected(ErrorCondition::MESSAGE_SIZE_EXCEEDED),
            rejected(ErrorCondition::UNAUTHORIZED_ACCESS),
            Some(DeliveryState::Released),
            Some(DeliveryState::Rejected(None)),
        ]);
    });
    let mut publisher = publisher(&service).await;
    for token in 10..17 {
        publish(&mut publisher, token, Destination::Partition((token % 2) as u32), &[EVENT]).await;
    }
    assert_eq!(publisher.waiting(), 7);
    let throttled = ErrorClass::Throttled { retry_after: Duration::from_secs(4) };
    let expected = [
        (10, None),
        (11, Some(throttled)),
        (12, Some(ErrorClass::TooLarge)),
        (13, Some(ErrorClass::Fatal)),
        (14, Some(ErrorClass::Retryable)),
        (15, Some(ErrorClass::Fatal)),
        (16, None),
    ];
    assert_eq!(outcomes(&mut publisher, 7).await, expected);
    assert_eq!(publisher.waiting(), 0);
}

#[tokio::test]
async fn outcomes_may_come_late_in_ranges_and_out_of_order() {
    let mut service = Service::start(1).await;
    service.script(|script| script.outcomes.extend([const { None }; 5]));
    let mut publisher = publisher(&service).await;
    for token in 0..5 {
        publish(&mut publisher, token, Destination::Partition(0), &[EVENT]).await;
    }
    flush(&mut publisher).await;
    let mut ids = Vec::new();
    for _ in 0..5 {
        ids.push(service.batch().await.0);
    }
    service.command(Command::Settle { first: ids[3], last: ids[4], outcome: DeliveryState::Accepted });
    assert_eq!(outcomes(&mut publisher, 2).await, [(3, None), (4, None)]);
    service.command(Command::Settle { first: ids[0], last: ids[2], outcome: DeliveryState::Accepted });
    assert_eq!(outcomes(&mut publisher, 3).await, [(0, None), (1, None), (2, None)]);
}

#[tokio::test]
async fn without_credit_it_is_busy_until_there_is_some() {
    let service = Service::start(1).await;
    service.script(|script| script.credit = 0);
    let mut publisher = publisher(&service).await;
    let refused = publisher.publish(SendToken(1), Destination::Partition(0), [EVENT]);
    assert_eq!(refused, Err(SinkBusy));
    assert!(poll_fn(|context| Poll::Ready(publisher.poll_ready(context))).await.is_pending());
    service.command(Command::Grant(send_address(0), 1));
    publish(&mut publisher, 1, Destination::Partition(0), &[EVENT]).await;
    assert_eq!(outcomes(&mut publisher, 1).await, [(1, None)]);
    assert_eq!(publisher.publish(SendToken(2), Destination::Partition(0), [EVENT]), Err(SinkBusy));
}

#[tokio::test]
async fn output_that_is_not_written_is_bounded() {
    let service = Service::start(1).await;
    service.script(|script| script.credit = 10_000);
    let mut publisher = publisher(&service).await;
    let event = vec![0; 10_000];
    let mut sent = 0;
    while publisher.publish(SendToken(sent), Destination::Partition(0), [&event[..]]).is_ok() {
        sent += 1;
    }
    assert!((26..40).contains(&sent), "{sent} sends of 10 KB are 256 KiB and one more");
    let ready = poll_fn(|context| publisher.poll_ready(context));
    tokio::time::timeout(PATIENCE, ready).await.expect("the socket takes the output").unwrap();
    publish(&mut publisher, sent, Destination::Partition(0), &[EVENT]).await;
    assert_eq!(outcomes(&mut publisher, sent as usize + 1).await.len(), sent as usize + 1);
}

#[tokio::test]
async fn a_detached_link_fails_its_sends_alone_and_is_attached_for_the_next() {
    let mut service = Service::start(2).await;
    service.script(|script| script.outcomes.extend([const { None }; 2]));
    let mut publisher = publisher(&service).await;
    publish(&mut publisher, 1, Destination::Partition(0), &[EVENT]).await;
    publish(&mut publisher, 2, Destination::Partition(1), &[EVENT]).await;
    flush(&mut publisher).await;
    let (_, (second, _)) = (service.batch().await, service.batch().await);
    service
        .command(Command::Detach(send_address(0), Some(Error::new(ErrorCondition::DETACH_FORCED, "idle"))));
    assert_eq!(outcomes(&mut publisher, 1).await, [(1, Some(ErrorClass::Retryable))]);
    service.command(Command::Settle { first: second, last: second, outcome: DeliveryState::Accepted });
    assert_eq!(outcomes(&mut publisher, 1).await, [(2, None)]);
    publish(&mut publisher, 3, Destination::Partition(0), &[EVENT]).await;
    assert_eq!(outcomes(&mut publisher, 1).await, [(3, None)]);
}

#[tokio::test]
async fn a_link_that_is_refused_answers_a_send_with_the_reason() {
    let service = Service::start(1).await;
    let mut publisher = publisher(&service).await;
    let disabled = Error::new(ErrorCondition::ENTITY_DISABLED, "disabled");
    service.script(|script| {
        script.refused.insert("hub".into(), disabled);
    });
    publish(&mut publisher, 1, Destination::Any, &[EVENT]).await;
    assert_eq!(outcomes(&mut publisher, 1).await, [(1, Some(ErrorClass::Fatal))]);
    service.script(|script| script.refused.clear());
    publish(&mut publisher, 2, Destination::Any, &[EVENT]).await;
    assert_eq!(outcomes(&mut publisher, 1).await, [(2, None)]);
}

#[tokio::test]
async fn a_refused_partition_is_an_error_at_once() {
    let service = Service::start(2).await;
    let missing = Error::new(ErrorCondition::UNAUTHORIZED_ACCESS, "'Send' claim(s) are required");
    service.script(|script| {
        script.refused.insert(send_address(1), missing);
    });
    let refused = Publisher::connect(service.options()).await.unwrap_err();
    assert_eq!((refused.class, refused.condition.as_str()), (ErrorClass::Fatal, "amqp:unauthorized-access"));
}

#[tokio::test]
async fn a_lost_connection_fails_what_has_no_outcome_and_is_made_again() {
    let mut service = Service::start(2).await;
    service.script(|script| script.outcomes.extend([const { None }; 3]));
    let mut publisher = publisher(&service).await;
    for token in 0..3 {
        publish(&mut publisher, token, Destination::Partition(0), &[EVENT]).await;
    }
    flush(&mut publisher).await;
    for _ in 0..3 {
        service.batch().await;
    }
    service.command(Command::Disconnect);
    let lost = Some(ErrorClass::Retryable);
    assert_eq!(outcomes(&mut publisher, 3).await, [(0, lost), (1, lost), (2, lost)]);
    publish(&mut publisher, 9, Destination::Partition(1), &[EVENT]).await;
    assert_eq!(outcomes(&mut publisher, 1).await, [(9, None)]);
}

#[tokio::test]
async fn attempts_to_reconnect_end_where_the_options_say() {
    let service = Service::start(1).await;
    let mut options = service.options();
    options.reconnect.attempts = 3;
    let mut publisher = Publisher::connect(options).await.unwrap();
    service.script(|script| script.token_status = 500);
    service.command(Command::Disconnect);
    let mut none = Vec::new();
    let ended = poll_fn(|context| publisher.poll_outcomes(context, &mut none)).await.unwrap_err();
    assert_eq!((ended.class, ended.condition.as_str()), (ErrorClass::Fatal, "connection:lost"));
}

#[tokio::test]
async fn a_sink_sends_the_events_of_a_batch_to_the_partition() {
    let mut service = Service::start(2).await;
    service.script(|script| script.max_message_size = 262_144);
    let mut sink = EventHubsSink::connect(service.options()).await.unwrap();
    assert_eq!(sink.destinations(), 2);
    assert_eq!(sink.max_batch_bytes(1), 262_144 - 1_024);
    assert_eq!(sink.encoded_len(255) - 255, 5);
    assert_eq!(sink.encoded_len(256) - 256, 8);
    let mut batch = EventBatch::with_capacity(PartitionId(0), 3);
    for message in [&b"zero"[..], b"one", b"two"] {
        batch.push_message(&Bytes::from_static(message), 0);
    }
    let outgoing = OutgoingBatch::new(1, &batch, &[2, 0]);
    sink.send(SendToken(4), outgoing).unwrap();
    let mut outcomes = Vec::new();
    poll_fn(|context| sink.poll_outcomes(context, &mut outcomes)).await.unwrap();
    assert!(matches!(outcomes[..], [SendOutcome { token: SendToken(4), result: Ok(()) }]));
    let (address, message) = service
        .report(|report| match report {
            Report::Transfer { address, message, .. } => Some((address, message)),
            _ => None,
        })
        .await;
    assert_eq!(address, "hub/Partitions/1");
    assert_eq!(message, b"\x00\x53\x75\xa0\x03two\x00\x53\x75\xa0\x04zero");
    Box::new(sink).shut_down().await;
}
