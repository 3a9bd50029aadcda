//! The sink: single messages without waiting, batches, and refusals.

use std::future::poll_fn;

use amqp::message::{FORMAT_AMQP, FORMAT_BATCH, Sections};
use amqp::performative::{DeliveryState, Error, ErrorCondition};
use bytes::Bytes;
use connect::event::{EventBatch, PartitionId};
use connect::service_bus::ServiceBusSink;
use connect::sink::{ErrorClass, OutgoingBatch, SendOutcome, SendToken, SendUnit, Sink, SinkError};

use crate::service_bus::service::{Command, Report, Service, data};
use test_peer::PATIENCE;

async fn sink(service: &Service, unit: SendUnit) -> ServiceBusSink {
    ServiceBusSink::connect(service.options("forwarded"), unit).await.unwrap()
}

fn three() -> EventBatch {
    let mut batch = EventBatch::with_capacity(PartitionId(0), 3);
    for (number, text) in (0..).zip([b"one", b"two", b"six"]) {
        batch.push_message(&Bytes::from(data(text)), number);
    }
    batch
}

fn send(sink: &mut ServiceBusSink, token: u64, batch: &EventBatch, events: &[u32]) {
    let outgoing = OutgoingBatch::new(0, batch, events);
    sink.send(SendToken(token), outgoing).expect("there is credit");
}

async fn outcomes(sink: &mut ServiceBusSink, count: usize) -> Result<Vec<SendOutcome>, SinkError> {
    let mut outcomes = Vec::new();
    let all = async {
        while outcomes.len() < count {
            poll_fn(|context| sink.poll_outcomes(context, &mut outcomes)).await?;
        }
        Ok::<(), SinkError>(())
    };
    tokio::time::timeout(PATIENCE, all).await.expect("there are outcomes")?;
    Ok(outcomes)
}

async fn sent(service: &mut Service) -> (u32, Vec<u8>) {
    service
        .report(|report| match report {
            Report::Sent(format, message) => Some((format, message)),
            _ => None,
        })
        .await
}

#[tokio::test]
async fn single_messages_are_sent_one_after_the_other_and_each_has_its_outcome() {
    let mut service = Service::start().await;
    let refused = Error::new(ErrorCondition::RESOURCE_LIMIT_EXCEEDED, "the queue is full");
    service.shared().outcomes = vec![
        Some(DeliveryState::Accepted),
        Some(DeliveryState::Rejected(Some(refused))),
        Some(DeliveryState::Accepted),
    ];
    let mut sink = sink(&service, SendUnit::Event).await;
    assert_eq!((sink.send_unit(), sink.destinations()), (SendUnit::Event, 1));
    let batch = three();
    for event in 0..3 {
        send(&mut sink, u64::from(event), &batch, &[event]);
    }
    let outcomes = outcomes(&mut sink, 3).await.unwrap();
    let results: Vec<_> = outcomes
        .iter()
        .map(|outcome| {
            let error = outcome.result.as_ref().err();
            (outcome.token.0, error.map(|error| error.condition.as_str()))
        })
        .collect();
    assert_eq!(results, [(0, None), (1, Some("amqp:resource-limit-exceeded")), (2, None)]);
    for text in [b"one", b"two", b"six"] {
        assert_eq!(sent(&mut service).await, (FORMAT_AMQP, data(text)), "as it was received");
    }
}

#[tokio::test]
async fn a_batch_is_one_message_of_whole_messages() {
    let mut service = Service::start().await;
    let mut sink = sink(&service, SendUnit::Batch).await;
    send(&mut sink, 9, &three(), &[2, 0]);
    assert_eq!(outcomes(&mut sink, 1).await.unwrap()[0].token, SendToken(9));
    let (format, message) = sent(&mut service).await;
    assert_eq!(format, FORMAT_BATCH);
    let inner: Vec<_> =
        Sections::new(&message).map(|section| section.unwrap().data().unwrap().to_vec()).collect();
    assert_eq!(inner, [data(b"six"), data(b"one")]);
}

#[tokio::test]
async fn a_queue_that_is_deleted_ends_the_sink_instead_of_failing_every_message() {
    let mut service = Service::start().await;
    let mut sink = sink(&service, SendUnit::Event).await;
    service.attached("forwarded").await;
    let gone = Error::new(ErrorCondition::NOT_FOUND, "the queue is gone");
    service.shared().refusals.push(("forwarded".to_owned(), gone.clone()));
    service.shared().outcomes = vec![None];
    let batch = three();
    send(&mut sink, 0, &batch, &[0]);
    service.command(Command::Detach("forwarded".to_owned(), Some(gone)));
    let lost = outcomes(&mut sink, 1).await.unwrap();
    let error = lost[0].result.as_ref().unwrap_err();
    assert_eq!(error.class, ErrorClass::Fatal);
    // The next try attaches again, and is refused.
    let outgoing = OutgoingBatch::new(0, &batch, &[0]);
    assert!(sink.send(SendToken(1), outgoing).is_err());
    let ended = tokio::time::timeout(PATIENCE, poll_fn(|context| sink.poll_ready(context)));
    let error = ended.await.expect("the sink ends").unwrap_err();
    assert_eq!(error.condition, "amqp:not-found");
}
