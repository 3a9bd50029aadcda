//! The producer against the scripted service: what it sends, and what it says of events when answers are lost or refuse.

use std::sync::Arc;
use std::time::Duration;

use amqp::message::{FORMAT_AMQP, FORMAT_BATCH};
use amqp::performative::{DeliveryState, Error, ErrorCondition};
use connect::producer::{
    BatchDelay, Batching, Buffering, Connections, Fate, NewEvent, Producer, ProducerOptions, ProducerTarget,
    Stage,
};
use connect::retry::RetryPolicy;
use test_peer::within;

use crate::event_hubs::service::{Command, Report, Service};

fn once() -> ProducerOptions {
    ProducerOptions {
        retry: RetryPolicy { attempts: 1, ..RetryPolicy::default() },
        ..ProducerOptions::default()
    }
}

fn again() -> ProducerOptions {
    let retry = RetryPolicy { attempts: 3, delay: Duration::from_millis(1), ..RetryPolicy::default() };
    ProducerOptions { retry, ..ProducerOptions::default() }
}

async fn producer(service: &Service, options: ProducerOptions) -> Arc<Producer> {
    let target = ProducerTarget::EventHubs(service.options());
    Arc::new(within("the connection", Producer::connect(target, options)).await.unwrap())
}

fn rejected(condition: ErrorCondition) -> Option<DeliveryState> {
    Some(DeliveryState::Rejected(Some(Error::new(condition, "no"))))
}

/// Sends these bodies at the same time, and gives what became of each.
async fn send_all(
    producer: &Arc<Producer>,
    bodies: &[&'static [u8]],
) -> Vec<tokio::task::JoinHandle<Result<(), connect::producer::SendFailure>>> {
    let send = |body: &'static [u8]| {
        let producer = Arc::clone(producer);
        tokio::spawn(async move { producer.send(&NewEvent::new(body)).await })
    };
    bodies.iter().map(|body| send(body)).collect()
}

#[tokio::test]
async fn events_leave_one_by_one_and_each_is_answered_for_itself() {
    let mut service = Service::start(1).await;
    let producer = producer(&service, once()).await;
    service.script(|script| {
        script.outcomes.extend([Some(DeliveryState::Accepted), rejected(ErrorCondition::NOT_ALLOWED)]);
    });
    let sends = send_all(&producer, &[b"one", b"two", b"three"]).await;
    let mut fates = Vec::new();
    for send in sends {
        fates.push(within("an answer", send).await.unwrap().err().map(|failure| failure.fate));
    }
    assert_eq!(fates, [None, Some(Fate::Refused), None]);
    for body in [&b"one"[..], b"two", b"three"] {
        let (address, format, message) = service.transfer().await;
        assert_eq!((address.as_str(), format), ("hub", FORMAT_AMQP));
        assert!(message.ends_with(body));
    }
    assert_eq!(producer.statistics().acknowledged, 2);
}

#[tokio::test]
async fn what_comes_together_is_one_batch_and_what_comes_meanwhile_the_next() {
    let mut service = Service::start(1).await;
    let options = ProducerOptions { buffering: Buffering::Safe(Batching::default()), ..once() };
    let producer = producer(&service, options).await;
    service.script(|script| script.outcomes.push_back(None));
    let first = send_all(&producer, &[b"one", b"two"]).await;
    let (id, message) = service.batch().await;
    assert!(message.ends_with(b"two"));
    // They wait for the answer to the batch before them.
    let second = send_all(&producer, &[b"three", b"four", b"five"]).await;
    service.command(Command::Settle { first: id, last: id, outcome: DeliveryState::Accepted });
    let (_, format, message) = service.transfer().await;
    assert_eq!(format, FORMAT_BATCH);
    assert!(message.ends_with(b"five"));
    for send in first.into_iter().chain(second) {
        within("an answer", send).await.unwrap().unwrap();
    }
    let statistics = producer.statistics();
    assert_eq!((statistics.acknowledged, statistics.sends), (5, 2));
}

#[tokio::test]
async fn a_full_batch_leaves_at_once_and_one_with_a_key_has_it_outside_and_inside() {
    let mut service = Service::start(1).await;
    let delay = BatchDelay::After(Duration::from_secs(3_600));
    let batching = Batching { max_events: 2, delay, ..Batching::default() };
    let options = ProducerOptions { buffering: Buffering::Safe(batching), ..once() };
    let producer = producer(&service, options).await;
    let send = |body: &'static [u8], key: &'static str| {
        let producer = Arc::clone(&producer);
        let event = NewEvent { key: Some(key), ..NewEvent::new(body) };
        tokio::spawn(async move { producer.send(&event).await })
    };
    let sends = [send(b"one", "a"), send(b"two", "b"), send(b"three", "a")];
    let (_, format, message) = service.transfer().await;
    assert_eq!(format, FORMAT_BATCH);
    let keys = message.windows(19).filter(|bytes| bytes == b"x-opt-partition-key").count();
    assert_eq!(keys, 3, "one of the batch, and one of each event");
    let [one, two, three] = sends;
    within("an answer", one).await.unwrap().unwrap();
    within("an answer", three).await.unwrap().unwrap();
    assert!(!two.is_finished(), "its batch is not full");
    within("the rest", producer.flush()).await;
    within("an answer", two).await.unwrap().unwrap();
}

#[tokio::test]
async fn an_answer_that_is_lost_with_its_connection_leaves_the_event_unknown() {
    for buffering in [Buffering::None, Buffering::Safe(Batching::default())] {
        let mut service = Service::start(1).await;
        let producer = producer(&service, ProducerOptions { buffering, ..once() }).await;
        service.script(|script| script.outcomes.push_back(None));
        let lost = send_all(&producer, &[b"lost"]).await;
        service.batch().await;
        service.command(Command::Disconnect);
        for send in lost {
            let failure = within("an answer", send).await.unwrap().unwrap_err();
            assert_eq!(failure.fate, Fate::Unknown, "{failure}");
        }
        within("the next", producer.send(&NewEvent::new(b"next"))).await.unwrap();
        assert_eq!(producer.statistics().acknowledged, 1, "nothing is counted that was not acknowledged");
    }
}

#[tokio::test]
async fn a_send_is_made_again_when_that_is_allowed_and_can_help() {
    for buffering in [Buffering::None, Buffering::Safe(Batching::default())] {
        let mut service = Service::start(1).await;
        let producer = producer(&service, ProducerOptions { buffering, ..again() }).await;
        service.script(|script| {
            script
                .outcomes
                .extend([rejected(ErrorCondition::INTERNAL_ERROR), rejected(ErrorCondition::TIMEOUT)]);
        });
        within("an answer", producer.send(&NewEvent::new(b"third time"))).await.unwrap();
        for _ in 0..3 {
            assert!(service.batch().await.1.ends_with(b"third time"));
        }
        service.script(|script| script.outcomes.push_back(rejected(ErrorCondition::NOT_ALLOWED)));
        let failure = within("an answer", producer.send(&NewEvent::new(b"never"))).await.unwrap_err();
        assert_eq!((failure.fate, failure.condition.as_str()), (Fate::Refused, "amqp:not-allowed"));
        let statistics = producer.statistics();
        assert_eq!((statistics.acknowledged, statistics.retries), (1, 2));
    }
}

#[tokio::test]
async fn what_nobody_waits_for_is_counted_when_it_is_lost() {
    let mut service = Service::start(1).await;
    let options = ProducerOptions { buffering: Buffering::Unsafe(Batching::default()), ..once() };
    let producer = producer(&service, options).await;
    service.script(|script| {
        script.outcomes.extend([rejected(ErrorCondition::NOT_ALLOWED), None]);
    });
    producer.send(&NewEvent::new(b"refused")).await.unwrap();
    within("the answer", producer.flush()).await;
    for body in [&b"lost"[..], b"as well"] {
        producer.send(&NewEvent::new(body)).await.unwrap();
    }
    service.batch().await;
    service.batch().await;
    service.command(Command::Disconnect);
    within("the end", producer.flush()).await;
    producer.send(&NewEvent::new(b"arrives")).await.unwrap();
    let producer = Arc::into_inner(producer).unwrap();
    let statistics = within("the end", producer.close()).await;
    assert_eq!(statistics.acknowledged, 1);
    let lost: Vec<_> = statistics.lost.iter().map(|loss| (loss.fate, loss.events)).collect();
    assert_eq!(lost, [(Fate::Refused, 1), (Fate::Unknown, 2)]);
}

#[tokio::test]
async fn events_wait_for_room_and_for_no_longer_than_they_may() {
    let service = Service::start(1).await;
    service.script(|script| script.credit = 0);
    let options = ProducerOptions { max_waiting_bytes: 8, timeout: Duration::from_millis(50), ..once() };
    let producer = producer(&service, options).await;
    let failure = within("the time-out", producer.send(&NewEvent::new(b"a body"))).await.unwrap_err();
    assert_eq!((failure.fate, failure.condition.as_str()), (Fate::NotSent, "connection:timeout"));
    assert_eq!(producer.pending(), 0);
}

#[tokio::test]
async fn an_isolated_send_has_a_connection_of_its_own_and_knows_its_stages() {
    let mut service = Service::start(1).await;
    let options = ProducerOptions { connections: Connections::PerEvent, ..once() };
    let producer = producer(&service, options).await;
    let event = NewEvent { partition: Some(0), ..NewEvent::new(b"alone") };
    let stages = within("an answer", producer.send_isolated(&event)).await.unwrap();
    assert_eq!(stages.of(Stage::Tls), Duration::ZERO);
    assert_eq!(stages.total(), Stage::ALL.iter().map(|stage| stages.of(*stage)).sum::<Duration>());
    assert!(stages.of(Stage::Send) > Duration::ZERO);
    let (address, _, message) = service.transfer().await;
    assert_eq!(address, "hub/Partitions/0");
    assert!(message.ends_with(b"alone"));
    service.report(|report| matches!(report, Report::Disconnected).then_some(())).await;

    service.script(|script| script.token_status = 401);
    let failed = within("an answer", producer.send_isolated(&event)).await.unwrap_err();
    assert_eq!((failed.stage, failed.failure.fate), (Stage::Claims, Fate::NotSent));
    service.script(|script| {
        script.token_status = 202;
        script.outcomes.push_back(rejected(ErrorCondition::SERVER_BUSY));
    });
    let failed = within("an answer", producer.send_isolated(&event)).await.unwrap_err();
    assert_eq!((failed.stage, failed.failure.fate), (Stage::Close, Fate::Refused));
    service.script(|script| script.outcomes.push_back(None));
    let cut = {
        let producer = Arc::clone(&producer);
        tokio::spawn(async move { producer.send_isolated(&NewEvent::new(b"cut")).await })
    };
    while !service.batch().await.1.ends_with(b"cut") {}
    service.command(Command::Disconnect);
    let failed = within("an answer", cut).await.unwrap().unwrap_err();
    assert_eq!((failed.stage, failed.failure.fate), (Stage::Send, Fate::Unknown));
    assert_eq!(producer.statistics().isolated_connections, 4);
}
