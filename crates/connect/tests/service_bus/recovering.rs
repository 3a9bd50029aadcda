//! Links and connections that break, and entities that are gone.

use std::future::poll_fn;
use std::task::Poll;
use std::time::Duration;

use amqp::performative::{Error, ErrorCondition};
use connect::service_bus::{ReceiveOptions, ServiceBusSource};
use connect::sink::ErrorClass;
use connect::source::{
    Settlement, SettlementResult, SettlingSource as _, Source, SourceEvent, StartPosition,
};

use crate::service_bus::receiving::{ENTITY, batch, next, settled, source, while_quiet};
use crate::service_bus::service::{Command, Report, Service, messages};

#[tokio::test]
async fn a_message_whose_connection_broke_is_settled_through_the_management_node() {
    let mut service = Service::start().await;
    service.put(messages(2));
    let mut source = source(&service, 2, 0).await;
    source.open(ENTITY, StartPosition::Earliest);
    let received = batch(&mut source).await;
    service.command(Command::Disconnect);
    let disconnected = service.report(|report| matches!(report, Report::Disconnected).then_some(()));
    while_quiet(&mut source, disconnected).await;
    while_quiet(&mut source, service.attached("queue")).await;
    source.settle(&received, &[0], Settlement::Complete);
    source.settle(&received, &[1], Settlement::Abandon);
    source.release(received);
    for expected in [Settlement::Complete, Settlement::Abandon] {
        let done = settled(&mut source).await;
        assert_eq!((done.settlement, done.messages, done.result), (expected, 1, SettlementResult::Confirmed));
    }
    assert_eq!(service.settled(), 1);
    service.command(Command::Deliver);
    assert_eq!(batch(&mut source).await.len(), 1, "the other one comes again");
}

#[tokio::test]
async fn a_settlement_that_was_sent_and_not_answered_is_sent_again_on_a_new_connection() {
    let mut service = Service::start().await;
    service.put(messages(1));
    service.shared().answers = false;
    let mut source = source(&service, 1, 0).await;
    source.open(ENTITY, StartPosition::Earliest);
    let received = batch(&mut source).await;
    source.settle(&received, &[0], Settlement::Complete);
    while_quiet(&mut source, service.outcome()).await;
    service.command(Command::Disconnect);
    let done = settled(&mut source).await;
    assert_eq!((done.messages, done.result), (1, SettlementResult::Confirmed));
    assert_eq!(service.settled(), 1);
}

#[tokio::test]
async fn a_service_that_does_not_answer_a_settlement_is_asked_on_a_new_connection() {
    let service = Service::start().await;
    service.put(messages(1));
    service.shared().answers = false;
    let mut options = service.options("queue");
    options.connect_timeout = Duration::from_millis(200);
    let receive = ReceiveOptions { concurrency: 1, ..ReceiveOptions::default() };
    let mut source = ServiceBusSource::connect(options, receive).await.unwrap();
    source.open(ENTITY, StartPosition::Earliest);
    let received = batch(&mut source).await;
    source.settle(&received, &[0], Settlement::Complete);
    source.release(received);
    let done = settled(&mut source).await;
    assert_eq!((done.messages, done.result), (1, SettlementResult::Confirmed));
    assert_eq!(service.settled(), 1);
}

#[tokio::test]
async fn locks_that_the_service_no_longer_holds_are_reported_as_lost() {
    let mut service = Service::start().await;
    service.put(messages(1));
    let mut source = source(&service, 1, 0).await;
    source.open(ENTITY, StartPosition::Earliest);
    let received = batch(&mut source).await;
    service.command(Command::Disconnect);
    let disconnected = service.report(|report| matches!(report, Report::Disconnected).then_some(()));
    while_quiet(&mut source, disconnected).await;
    service.expire_locks();
    source.settle(&received, &[0], Settlement::Complete);
    assert_eq!(settled(&mut source).await.result, SettlementResult::LockLost);
}

#[tokio::test]
async fn a_detached_link_is_attached_again_on_the_same_connection() {
    let mut service = Service::start().await;
    let mut source = source(&service, 2, 0).await;
    source.open(ENTITY, StartPosition::Earliest);
    service.attached("queue").await;
    while_quiet(&mut source, service.credit()).await;
    let busy = Error::new(ErrorCondition::SERVER_BUSY, "later");
    service.command(Command::Detach("queue".to_owned(), Some(busy)));
    while_quiet(&mut source, service.attached("queue")).await;
    service.put(messages(1));
    assert_eq!(batch(&mut source).await.len(), 1);
}

#[tokio::test]
async fn an_entity_that_is_deleted_is_waited_for() {
    let mut service = Service::start().await;
    let mut source = source(&service, 2, 0).await;
    source.open(ENTITY, StartPosition::Earliest);
    while_quiet(&mut source, service.credit()).await;
    let gone = Error::new(ErrorCondition::NOT_FOUND, "the queue is gone");
    service.command(Command::Detach("queue".to_owned(), Some(gone)));
    poll_fn(|context| {
        assert!(source.poll_batch(context).is_pending());
        match source.outage() {
            Some(_) => Poll::Ready(()),
            None => Poll::Pending,
        }
    })
    .await;
    let outage = source.outage().unwrap();
    assert_eq!(outage.condition, "amqp:not-found");
    while_quiet(&mut source, service.credit()).await;
    assert!(source.outage().is_none(), "it is there again");
}

#[tokio::test]
async fn an_entity_that_is_not_there_is_an_error_at_once() {
    let service = Service::start().await;
    let gone = Error::new(ErrorCondition::NOT_FOUND, "there is no such queue");
    service.shared().refusals.push(("missing".to_owned(), gone));
    let options = service.options("missing");
    let error = ServiceBusSource::connect(options, ReceiveOptions::default()).await.unwrap_err();
    assert_eq!(error.class, ErrorClass::Fatal);
}

#[tokio::test]
async fn a_management_node_that_refuses_its_links_costs_the_renewal_and_nothing_else() {
    let service = Service::start().await;
    service.shared().lock_duration = std::time::Duration::from_millis(100);
    let refused = Error::new(ErrorCondition::UNAUTHORIZED_ACCESS, "not for you");
    service.shared().refusals.push(("queue/$management".to_owned(), refused));
    service.put(messages(2));
    let mut source = source(&service, 2, 0).await;
    source.open(ENTITY, StartPosition::Earliest);
    let received = batch(&mut source).await;
    assert!(matches!(next(&mut source).await, Ok(SourceEvent::LocksRenewed { renewed: 0, failed: 2 })));
    source.settle(&received, &[0, 1], Settlement::Complete);
    assert_eq!(settled(&mut source).await.messages, 2);
}
