//! The source: positions, batches, credit, and partitions that end.

use std::future::poll_fn;
use std::task::Poll;
use std::time::Duration;

use amqp::Value;
use amqp::performative::{Error, ErrorCondition};
use connect::event::{EnqueuedTime, EventBatch, PartitionId};
use connect::event_hubs::EventHubsSource;
use connect::sink::ErrorClass;
use connect::source::{BatchOptions, Source, SourceError, SourceEvent, SourceOptions, StartPosition};

use crate::event_hubs::service::{Command, Report, Service, delivered, receive_address};
use test_peer::PATIENCE;

const ZERO: PartitionId = PartitionId(0);
const ONE: PartitionId = PartitionId(1);

async fn source(
    service: &Service,
    max_events: usize,
    prefetch: usize,
    max_wait: Duration,
) -> EventHubsSource {
    let batch = BatchOptions { max_events, max_wait };
    let options = SourceOptions { batch, prefetch };
    EventHubsSource::connect(service.options(), "$Default", options).await.unwrap()
}

async fn next(source: &mut EventHubsSource) -> Result<SourceEvent, SourceError> {
    let event = poll_fn(|context| source.poll_batch(context));
    tokio::time::timeout(PATIENCE, event).await.expect("the source yields what the test waits for")
}

async fn batch(source: &mut EventHubsSource) -> EventBatch {
    match next(source).await {
        Ok(SourceEvent::Batch(batch)) => batch,
        other => panic!("a batch, not {other:?}"),
    }
}

async fn closed(source: &mut EventHubsSource) -> (PartitionId, SourceError) {
    match next(source).await {
        Ok(SourceEvent::PartitionClosed { partition, error }) => (partition, error),
        other => panic!("a closed partition, not {other:?}"),
    }
}

/// Waits for something of the service, letting the source work meanwhile, which must yield nothing.
async fn while_quiet<T>(source: &mut EventHubsSource, wait: impl Future<Output = T>) -> T {
    tokio::select! {
        done = wait => done,
        event = poll_fn(|context| source.poll_batch(context)) => panic!("nothing was to be yielded: {event:?}"),
    }
}

fn numbers(batch: &EventBatch) -> Vec<i64> {
    batch.events().iter().map(|event| event.sequence_number).collect()
}

fn events(numbers: std::ops::Range<i64>) -> Vec<Vec<u8>> {
    numbers.map(|number| delivered(number, None, b"0123456789abcdef")).collect()
}

const SOON: Duration = Duration::from_millis(1);
const NEVER: Duration = Duration::from_secs(1_000);

#[tokio::test]
async fn a_partition_is_opened_by_its_address_with_a_selector_and_the_whole_window() {
    let mut service = Service::start(2).await;
    let mut source = source(&service, 10, 77, SOON).await;
    assert_eq!(source.partitions(), [ZERO, ONE]);
    source.open(ONE, StartPosition::AfterSequenceNumber(41));
    let address = receive_address(1);
    let attach = while_quiet(&mut source, service.attached(&address)).await;
    let filter = attach.source.unwrap().filter;
    let [(name, Value::Described(described))] = &filter[..] else { panic!("one filter: {filter:?}") };
    assert_eq!(name.as_str(), "apache.org:selector-filter:string");
    let selector = Value::from("amqp.annotation.x-opt-sequence-number > '41'");
    assert_eq!(**described, (Value::Ulong(0x0000_468c_0000_0004), selector));
    assert_eq!(while_quiet(&mut source, service.credit(&address)).await, 77);
}

/// Lets the source work, which must yield nothing, until it says that there is an outage, or that there is none.
async fn outage(source: &mut EventHubsSource, is_out: bool) -> Option<String> {
    poll_fn(|context| {
        let event = source.poll_batch(context);
        assert!(event.is_pending(), "nothing was to be yielded: {event:?}");
        match source.outage() {
            outage if outage.is_some() == is_out => Poll::Ready(outage.map(ToString::to_string)),
            _ => Poll::Pending,
        }
    })
    .await
}

#[tokio::test]
async fn a_service_that_answers_no_more_counts_as_out_of_reach_until_it_does_again() {
    const PROBE_AFTER: Duration = Duration::from_millis(20);
    let service = Service::start(1).await;
    let mut options = service.options();
    options.probe_after = PROBE_AFTER;
    let mut source = EventHubsSource::connect(options, "$Default", SourceOptions::default()).await.unwrap();
    source.open(ZERO, StartPosition::Earliest);
    let told = async {
        loop {
            service.command(Command::Pause);
            if let Ok(told) = tokio::time::timeout(4 * PROBE_AFTER, outage(&mut source, true)).await {
                break told.unwrap();
            }
            // It has not been seen to answer often enough.
            service.command(Command::Resume);
            let _ = tokio::time::timeout(4 * PROBE_AFTER, outage(&mut source, true)).await;
        }
    };
    let told = tokio::time::timeout(PATIENCE, told).await.expect("silence shows");
    assert!(told.contains("the service has sent nothing for 40ms"), "{told}");
    service.command(Command::Resume);
    let over = tokio::time::timeout(PATIENCE, outage(&mut source, false)).await;
    assert_eq!(over.expect("its answers are heard"), None);
}

#[tokio::test]
async fn an_owner_level_is_sent_when_a_partition_is_opened_if_there_is_one() {
    let mut service = Service::start(2).await;
    let mut source = source(&service, 10, 77, SOON).await;
    let epoch = |attach: &amqp::performative::Attach| {
        let mut properties = attach.properties.iter();
        properties.find(|(name, _)| name.as_str() == "com.microsoft:epoch").map(|(_, value)| value.clone())
    };
    source.open(ZERO, StartPosition::Earliest);
    let attach = while_quiet(&mut source, service.attached(&receive_address(0))).await;
    assert_eq!(epoch(&attach), None);
    source.set_owner_level(0);
    source.open(ONE, StartPosition::Earliest);
    let attach = while_quiet(&mut source, service.attached(&receive_address(1))).await;
    assert_eq!(epoch(&attach), Some(Value::Long(0)));
}

#[tokio::test]
async fn events_come_in_batches_with_what_the_service_said_of_them() {
    let mut service = Service::start(1).await;
    let mut source = source(&service, 3, 100, SOON).await;
    source.open(ZERO, StartPosition::Earliest);
    let address = receive_address(0);
    while_quiet(&mut source, service.attached(&address)).await;
    let keyed = delivered(7, Some("key"), b"keyed");
    service.command(Command::Deliver(address, [vec![keyed], events(8..12)].concat()));
    let first = batch(&mut source).await;
    assert_eq!(numbers(&first), [7, 8, 9]);
    let event = &first.events()[0];
    assert_eq!(first.message(event), b"\x00\x53\x75\xa0\x05keyed");
    assert_eq!(first.partition_key(event), Some(&b"key"[..]));
    assert_eq!(first.offset(event), Some(&b"o7"[..]));
    assert_eq!(event.enqueued_time, EnqueuedTime::from_unix_ms(1_700_000_000_007));
    let rest = batch(&mut source).await;
    assert_eq!(numbers(&rest), [10, 11]);
    assert_eq!(rest.partition_key(&rest.events()[0]), None);
    assert_eq!(rest.message(&rest.events()[1]), b"\x00\x53\x75\xa0\x100123456789abcdef");
}

#[tokio::test]
async fn no_more_is_granted_than_the_window_leaves_in_halves_until_the_service_ran_out() {
    let mut service = Service::start(1).await;
    let mut source = source(&service, 5, 20, NEVER).await;
    source.open(ZERO, StartPosition::Earliest);
    let address = receive_address(0);
    assert_eq!(while_quiet(&mut source, service.credit(&address)).await, 20);
    service.command(Command::Deliver(address.clone(), events(0..15)));
    let mut held = Vec::new();
    for _ in 0..3 {
        held.push(batch(&mut source).await);
    }
    // A quarter that comes back is not granted yet, a half is.
    source.release(held.remove(0));
    assert!(poll_fn(|context| Poll::Ready(source.poll_batch(context))).await.is_pending());
    source.release(held.remove(0));
    assert_eq!(while_quiet(&mut source, service.credit(&address)).await, 15);
    service.command(Command::Deliver(address.clone(), events(15..30)));
    for _ in 0..3 {
        held.push(batch(&mut source).await);
    }
    assert_eq!(held.iter().flat_map(numbers).collect::<Vec<_>>(), (10..30).collect::<Vec<_>>());
    // Everything is out, and each batch that comes back is granted at once.
    for granted in [5, 10, 15, 20] {
        source.release(held.remove(0));
        assert_eq!(while_quiet(&mut source, service.credit(&address)).await, granted);
    }
}

#[tokio::test]
async fn a_window_that_ran_out_of_credit_doubles_as_long_as_its_bytes_allow() {
    let mut service = Service::start(1).await;
    let mut source = source(&service, 5, 20, NEVER).await;
    // Room for 50 messages of 21 bytes.
    source.adapt_prefetch(50 * 21);
    source.open(ZERO, StartPosition::Earliest);
    let address = receive_address(0);
    assert_eq!(while_quiet(&mut source, service.credit(&address)).await, 20);
    let mut next_number = 0;
    // Of 50 events the last 5 are not granted yet: that is less than an eighth.
    for (delivered, granted) in [(20, 40), (40, 45)] {
        let numbers = next_number..next_number + delivered;
        next_number = numbers.end;
        service.command(Command::Deliver(address.clone(), events(numbers)));
        for _ in 0..delivered / 5 {
            let batch = batch(&mut source).await;
            source.release(batch);
        }
        let mut credit = 0;
        while credit < granted {
            credit = while_quiet(&mut source, service.credit(&address)).await;
        }
        assert_eq!(credit, granted);
    }
}

#[tokio::test]
async fn deliveries_that_await_an_outcome_are_accepted_as_a_range() {
    let mut service = Service::start(1).await;
    service.script(|script| script.unsettled = true);
    let mut source = source(&service, 4, 100, NEVER).await;
    source.open(ZERO, StartPosition::Earliest);
    let address = receive_address(0);
    while_quiet(&mut source, service.attached(&address)).await;
    service.command(Command::Deliver(address, events(0..4)));
    batch(&mut source).await;
    let outcome = service.report(|report| match report {
        Report::Outcome { first, last } => Some((first, last)),
        _ => None,
    });
    let (first, last) = while_quiet(&mut source, outcome).await;
    assert_eq!(last - first, 3);
}

#[tokio::test]
async fn a_detached_link_closes_its_partition_and_no_other() {
    let mut service = Service::start(2).await;
    let mut source = source(&service, 1, 100, SOON).await;
    for partition in [ZERO, ONE] {
        source.open(partition, StartPosition::Earliest);
        while_quiet(&mut source, service.attached(&receive_address(partition.0))).await;
    }
    let idle = Error::new(ErrorCondition::DETACH_FORCED, "idle for ten minutes");
    service.command(Command::Detach(receive_address(0), Some(idle)));
    let (partition, error) = closed(&mut source).await;
    assert_eq!((partition, error.class), (ZERO, ErrorClass::Retryable));
    assert_eq!(error.to_string(), "amqp:link:detach-forced: idle for ten minutes");
    service.command(Command::Deliver(receive_address(1), events(0..1)));
    assert_eq!(batch(&mut source).await.partition(), ONE);
    source.open(ZERO, StartPosition::AfterOffset("o5".into()));
    while_quiet(&mut source, service.attached(&receive_address(0))).await;
}

#[tokio::test]
async fn a_refused_link_closes_its_partition_with_the_reason() {
    let service = Service::start(2).await;
    let missing = Error::new(ErrorCondition::NOT_FOUND, "no such consumer group");
    service.script(|script| {
        script.refused.insert(receive_address(0), missing);
    });
    let mut source = source(&service, 1, 100, SOON).await;
    source.open(ZERO, StartPosition::Earliest);
    let (partition, error) = closed(&mut source).await;
    assert_eq!((partition, error.class), (ZERO, ErrorClass::Fatal));
    source.open(PartitionId(2), StartPosition::Earliest);
    let (partition, error) = closed(&mut source).await;
    assert_eq!((partition, error.class), (PartitionId(2), ErrorClass::Fatal));
}

#[tokio::test]
async fn a_partition_that_was_closed_yields_nothing_more() {
    let mut service = Service::start(1).await;
    let mut source = source(&service, 1, 100, SOON).await;
    let address = receive_address(0);
    source.open(ZERO, StartPosition::Earliest);
    while_quiet(&mut source, service.attached(&address)).await;
    service.command(Command::Deliver(address.clone(), events(0..3)));
    let first = batch(&mut source).await;
    source.close(ZERO);
    source.release(first);
    let detached = service.report(|report| match report {
        Report::Detached { address: of } if of == address => Some(()),
        _ => None,
    });
    while_quiet(&mut source, detached).await;
    source.open(ZERO, StartPosition::AtSequenceNumber(1));
    while_quiet(&mut source, service.attached(&address)).await;
    service.command(Command::Deliver(address, events(1..2)));
    assert_eq!(numbers(&batch(&mut source).await), [1]);
}

#[tokio::test]
async fn a_lost_connection_closes_every_partition_and_opening_one_makes_it_again() {
    let mut service = Service::start(3).await;
    let mut source = source(&service, 1, 100, SOON).await;
    for partition in [ZERO, ONE] {
        source.open(partition, StartPosition::Earliest);
        while_quiet(&mut source, service.attached(&receive_address(partition.0))).await;
    }
    service.command(Command::Disconnect);
    for expected in [ZERO, ONE] {
        let (partition, error) = closed(&mut source).await;
        assert_eq!((partition, error.class), (expected, ErrorClass::Retryable), "{error}");
    }
    source.open(ONE, StartPosition::AtSequenceNumber(5));
    while_quiet(&mut source, service.attached(&receive_address(1))).await;
    service.command(Command::Deliver(receive_address(1), events(5..6)));
    assert_eq!(numbers(&batch(&mut source).await), [5]);
}

#[tokio::test]
async fn an_event_that_cannot_be_read_closes_its_partition() {
    let mut service = Service::start(1).await;
    let mut source = source(&service, 1, 100, SOON).await;
    source.open(ZERO, StartPosition::Earliest);
    while_quiet(&mut source, service.attached(&receive_address(0))).await;
    service.command(Command::Deliver(receive_address(0), vec![b"\x00\x53\x75\xa0\x01x".to_vec()]));
    let (partition, error) = closed(&mut source).await;
    assert_eq!(
        (partition, error.class, error.condition.as_str()),
        (ZERO, ErrorClass::Fatal, "amqp:decode-error")
    );
}
