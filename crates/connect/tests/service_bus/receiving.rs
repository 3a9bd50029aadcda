//! The source: credit, batches, settlements, renewals, and the end.

use std::future::poll_fn;
use std::task::Poll;
use std::time::Duration;

use amqp::performative::{DeliveryState, ReceiverSettleMode};
use connect::event::{EventBatch, PartitionId};
use connect::service_bus::{ReceiveOptions, ServiceBusSource};
use connect::source::{
    Settled, Settlement, SettlementResult, SettlingSource as _, Source, SourceError, SourceEvent,
    StartPosition,
};

use crate::service_bus::service::{Command, Report, Service, data, messages};
use test_peer::PATIENCE;

pub(crate) const ENTITY: PartitionId = PartitionId(0);

pub(crate) async fn source(service: &Service, concurrency: u32, prefetch: u32) -> ServiceBusSource {
    let receive = ReceiveOptions { concurrency, prefetch, lock_renewal: Duration::from_secs(300) };
    ServiceBusSource::connect(service.options("queue"), receive).await.unwrap()
}

pub(crate) async fn next(source: &mut ServiceBusSource) -> Result<SourceEvent, SourceError> {
    let event = poll_fn(|context| source.poll_batch(context));
    tokio::time::timeout(PATIENCE, event).await.expect("the source yields what the test waits for")
}

pub(crate) async fn batch(source: &mut ServiceBusSource) -> EventBatch {
    match next(source).await {
        Ok(SourceEvent::Batch(batch)) => batch,
        other => panic!("a batch, not {other:?}"),
    }
}

pub(crate) async fn settled(source: &mut ServiceBusSource) -> Settled {
    match next(source).await {
        Ok(SourceEvent::Settled(settled)) => settled,
        other => panic!("a settlement, not {other:?}"),
    }
}

/// Waits for something of the service, letting the source work meanwhile, which must yield nothing.
pub(crate) async fn while_quiet<T>(source: &mut ServiceBusSource, wait: impl Future<Output = T>) -> T {
    tokio::select! {
        done = wait => done,
        event = poll_fn(|context| source.poll_batch(context)) => panic!("nothing was to be yielded: {event:?}"),
    }
}

/// Lets the source work until nothing of it is waited for any more.
async fn finish(source: &mut ServiceBusSource) -> Vec<SourceEvent> {
    let mut events = Vec::new();
    let settled = poll_fn(|context| {
        while let Poll::Ready(event) = source.poll_batch(context) {
            events.push(event.unwrap());
        }
        match source.is_settled() {
            true => Poll::Ready(()),
            false => Poll::Pending,
        }
    });
    tokio::time::timeout(PATIENCE, settled).await.expect("everything is settled");
    events
}

fn numbers(batch: &EventBatch) -> Vec<i64> {
    batch.events().iter().map(|event| event.sequence_number).collect()
}

fn told(settled: Settled) -> (Settlement, u32, SettlementResult) {
    (settled.settlement, settled.messages, settled.result)
}

#[tokio::test]
async fn a_link_is_attached_at_once_and_gets_credit_when_the_source_is_opened() {
    let mut service = Service::start().await;
    service.put(messages(1));
    let mut source = source(&service, 8, 20).await;
    let attach = service.attached("queue").await;
    assert_eq!(attach.receiver_settle_mode, ReceiverSettleMode::Second);
    source.open(ENTITY, StartPosition::Earliest);
    let received = batch(&mut source).await;
    assert_eq!(service.credit().await, 28);
    assert_eq!(received.message(&received.events()[0]), data(b"000000000000"));
}

#[tokio::test]
async fn no_more_messages_are_in_work_than_allowed_until_the_service_has_confirmed() {
    let mut service = Service::start().await;
    service.put(messages(6));
    service.shared().answers = false;
    let mut source = source(&service, 4, 0).await;
    source.open(ENTITY, StartPosition::Earliest);
    let first = batch(&mut source).await;
    assert_eq!((numbers(&first), service.credit().await), (vec![0, 1, 2, 3], 4));
    source.settle(&first, &[2, 0, 1], Settlement::Complete);
    let outcome = while_quiet(&mut source, service.outcome()).await;
    assert_eq!(outcome, (0, 2, DeliveryState::Accepted), "told as one range");
    assert_eq!(service.locked(), 4, "nothing is asked for before the answer");
    service.shared().answers = true;
    service.command(Command::Answer);
    let confirmed = settled(&mut source).await;
    assert_eq!(told(confirmed), (Settlement::Complete, 3, SettlementResult::Confirmed));
    assert_eq!(numbers(&batch(&mut source).await), [4, 5]);
    assert_eq!(service.credit().await, 3, "the credit of all that was confirmed");
    assert_eq!(service.settled(), 3);
}

#[tokio::test]
async fn what_is_prefetched_waits_for_room_in_work() {
    let service = Service::start().await;
    service.put(messages(5));
    let mut source = source(&service, 2, 3).await;
    source.open(ENTITY, StartPosition::Earliest);
    let first = batch(&mut source).await;
    assert_eq!(numbers(&first), [0, 1]);
    source.settle(&first, &[0], Settlement::Complete);
    assert_eq!(settled(&mut source).await.messages, 1);
    assert_eq!(numbers(&batch(&mut source).await), [2]);
}

#[tokio::test]
async fn credit_is_given_back_only_when_there_is_not_plenty_left() {
    let mut service = Service::start().await;
    service.put(messages(2_000));
    let mut source = source(&service, 4_000, 0).await;
    source.open(ENTITY, StartPosition::Earliest);
    let mut confirmed = 0;
    let mut received = 0;
    while confirmed < 2_000 {
        match next(&mut source).await.unwrap() {
            SourceEvent::Batch(batch) => {
                received += batch.len();
                let all: Vec<u32> = (0..batch.len() as u32).collect();
                source.settle(&batch, &all, Settlement::Complete);
                source.release(batch);
            }
            SourceEvent::Settled(settled) => confirmed += settled.messages,
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(received, 2_000);
    assert_eq!(service.credit().await, 4_000);
    service.put(messages(100));
    while received < 2_100 {
        received += batch(&mut source).await.len();
    }
    let again = while_quiet(&mut source, service.credit()).await;
    assert!(
        (3_900..4_000).contains(&again),
        "more than half of it was used up, and then all is given: {again}"
    );
}

#[tokio::test]
async fn each_settlement_has_its_outcome_and_consecutive_ones_are_sent_together() {
    let mut service = Service::start().await;
    service.put(messages(6));
    let mut source = source(&service, 6, 0).await;
    source.open(ENTITY, StartPosition::Earliest);
    let batch = batch(&mut source).await;
    source.settle(&batch, &[5, 3], Settlement::Release);
    source.settle(&batch, &[0, 1], Settlement::Complete);
    source.settle(&batch, &[2], Settlement::Abandon);
    source.settle(&batch, &[4], Settlement::DeadLetter);
    source.release(batch);
    let mut outcomes = Vec::new();
    while outcomes.len() < 5 {
        let outcome = tokio::select! {
            outcome = service.outcome() => outcome,
            _ = next(&mut source) => continue,
        };
        outcomes.push(outcome);
    }
    assert_eq!(outcomes[0], (0, 1, DeliveryState::Accepted));
    assert!(matches!(outcomes[1], (2, 2, DeliveryState::Modified { undeliverable_here: false, .. })));
    assert_eq!(outcomes[2], (3, 3, DeliveryState::Released));
    let (4, 4, DeliveryState::Rejected(Some(error))) = &outcomes[3] else {
        panic!("a dead letter, not {:?}", outcomes[3])
    };
    assert_eq!(error.condition.as_str(), "com.microsoft:dead-letter");
    assert_eq!(outcomes[4], (5, 5, DeliveryState::Released));
}

#[tokio::test]
async fn a_lost_lock_is_reported_and_the_message_comes_again() {
    let service = Service::start().await;
    service.put(messages(3));
    let mut source = source(&service, 3, 0).await;
    source.open(ENTITY, StartPosition::Earliest);
    let first = batch(&mut source).await;
    service.expire_locks();
    source.settle(&first, &[0, 1, 2], Settlement::Complete);
    let lost = settled(&mut source).await;
    assert_eq!(told(lost), (Settlement::Complete, 3, SettlementResult::LockLost));
    let again = batch(&mut source).await;
    assert_eq!((numbers(&again), again.redelivered()), (vec![0, 1, 2], 3));
}

#[tokio::test]
async fn locks_of_messages_in_work_are_renewed_together_under_their_names() {
    let mut service = Service::start().await;
    service.shared().lock_duration = Duration::from_millis(300);
    service.put(messages(3));
    let mut source = source(&service, 3, 0).await;
    source.open(ENTITY, StartPosition::Earliest);
    let received = batch(&mut source).await;
    source.settle(&received, &[1], Settlement::Complete);
    assert_eq!(settled(&mut source).await.messages, 1);
    service.shared().lock_duration = Duration::from_secs(60);
    let Ok(SourceEvent::LocksRenewed { renewed, failed }) = next(&mut source).await else {
        panic!("locks are renewed")
    };
    assert_eq!((renewed, failed), (2, 0));
    let (operation, tokens) = service
        .report(|report| match report {
            Report::Managed(operation, None, tokens) => Some((operation, tokens)),
            _ => None,
        })
        .await;
    assert_eq!((operation.as_str(), tokens.len()), ("com.microsoft:renew-lock", 2));
}

#[tokio::test]
async fn a_lock_that_cannot_be_renewed_is_distinguished_from_the_others() {
    let service = Service::start().await;
    service.shared().lock_duration = Duration::from_millis(200);
    service.put(messages(2));
    let mut source = source(&service, 2, 0).await;
    source.open(ENTITY, StartPosition::Earliest);
    let _received = batch(&mut source).await;
    service.shared().lock_duration = Duration::from_secs(60);
    service.expire_locks();
    let (mut renewed, mut failed) = (0, 0);
    while failed < 2 {
        match next(&mut source).await {
            Ok(SourceEvent::LocksRenewed { renewed: more, failed: others }) => {
                renewed += more;
                failed += others;
            }
            other => panic!("renewals, not {other:?}"),
        }
    }
    assert_eq!((renewed, failed), (0, 2));
}

#[tokio::test]
async fn a_message_that_cannot_be_read_is_put_aside() {
    let mut service = Service::start().await;
    service.put([b"\x00\x53\x99nonsense".to_vec()]);
    service.put(messages(1));
    let mut source = source(&service, 2, 0).await;
    source.open(ENTITY, StartPosition::Earliest);
    assert_eq!(numbers(&batch(&mut source).await), [1]);
    let aside = settled(&mut source).await;
    assert_eq!(told(aside), (Settlement::DeadLetter, 1, SettlementResult::Confirmed));
    assert!(matches!(service.outcome().await, (0, 0, DeliveryState::Rejected(Some(_)))));
}

#[tokio::test]
async fn a_closed_source_gives_back_what_waits_and_asks_for_the_rest_of_its_credit() {
    let mut service = Service::start().await;
    service.put(messages(4));
    let mut source = source(&service, 2, 3).await;
    source.open(ENTITY, StartPosition::Earliest);
    let first = batch(&mut source).await;
    assert_eq!(numbers(&first), [0, 1]);
    source.close(ENTITY);
    assert!(!source.is_settled());
    source.settle(&first, &[0, 1], Settlement::Complete);
    let events = finish(&mut source).await;
    assert!(events.iter().all(|event| matches!(event, SourceEvent::Settled(_))), "{events:?}");
    assert_eq!((service.settled(), service.locked()), (2, 0));
    service.report(|report| matches!(report, Report::DrainRequested).then_some(())).await;
}

#[tokio::test]
async fn a_message_that_comes_after_the_source_was_closed_is_given_back() {
    let service = Service::start().await;
    let mut source = source(&service, 4, 0).await;
    source.open(ENTITY, StartPosition::Earliest);
    let mut service = service;
    while_quiet(&mut source, service.credit()).await;
    // The service answers the drain with what there is by then.
    service.put(messages(3));
    source.close(ENTITY);
    finish(&mut source).await;
    assert_eq!((service.settled(), service.locked()), (0, 0));
}
