//! Receiving and sending allocate nothing per event.
//!
//! Allocations are counted per thread, and the service has another thread. Buffers are
//! allocated now and then, by the hundred kilobytes, hence a bound that is one in a thousand events and not zero.

#![expect(clippy::unwrap_used, reason = "what helpers of tests do not expect fails the test")]

use std::future::poll_fn;
use std::time::Duration;

use connect::event_hubs::{EventHubsOptions, EventHubsSource, Publisher};
use connect::sink::SendToken;
use connect::source::{BatchOptions, Source, SourceEvent, SourceOptions, StartPosition};
use counting_allocator::allocations;
use hub::namespace::{HubConfig, NamespaceConfig};
use hub::service::{Service, ServiceConfig};

#[test]
fn receiving_and_sending_allocate_nothing_per_event() {
    let (started, starts) = std::sync::mpsc::channel();
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let service = std::thread::spawn(move || {
        runtime().block_on(async {
            let hubs = vec![HubConfig::new("events", PARTITIONS)];
            let namespace = NamespaceConfig::with_hubs(hubs);
            let service = Service::start(ServiceConfig::loopback(namespace)).await.unwrap();
            started.send(service.connection_string(Some("events"))).unwrap();
            let _ = stopped.await;
            service.stop().await;
        });
    });
    let options = EventHubsOptions::new(starts.recv().unwrap(), None).unwrap();
    let both = async {
        let mut publisher = Publisher::connect(options.clone()).await.unwrap();
        let mut outcomes = Vec::new();
        send(&mut publisher, &mut outcomes, WARM_UP).await;
        let before = allocations();
        send(&mut publisher, &mut outcomes, EVENTS).await;
        let sending = allocations() - before;

        let mut source = open(options).await;
        receive(&mut source, WARM_UP).await;
        let before = allocations();
        // Less than there is, since a batch may go beyond what was asked for.
        receive(&mut source, EVENTS - 1_000).await;
        let receiving = allocations() - before;
        (sending, receiving)
    };
    let (sending, receiving) =
        runtime().block_on(async { tokio::time::timeout(Duration::from_secs(60), both).await }).unwrap();
    let most = EVENTS / 1_000;
    assert!(sending < most, "{sending} allocations to send {EVENTS} events");
    assert!(receiving < most, "{receiving} allocations to receive {EVENTS} events");
    drop(stop);
    service.join().unwrap();
}

async fn send(publisher: &mut Publisher, outcomes: &mut Vec<connect::sink::SendOutcome>, events: u64) {
    let mut answered = 0;
    for batch in 0..events / BATCH {
        let destination = (batch % u64::from(PARTITIONS)) as u32;
        while publisher
            .publish_payloads(SendToken(batch), destination, BATCH as usize, 16, |_, _| {})
            .is_err()
        {
            poll_fn(|context| publisher.poll_ready(context)).await.unwrap();
        }
    }
    while answered < events / BATCH {
        poll_fn(|context| publisher.poll_outcomes(context, outcomes)).await.unwrap();
        answered += outcomes.len() as u64;
        outcomes.clear();
    }
}

async fn open(options: EventHubsOptions) -> EventHubsSource {
    let source_options = SourceOptions {
        batch: BatchOptions { max_events: 128, max_wait: Duration::from_millis(1) },
        prefetch: 300,
    };
    let mut source = EventHubsSource::connect(options, "$Default", source_options).await.unwrap();
    for partition in source.partitions() {
        source.open(partition, StartPosition::Earliest);
    }
    source
}

async fn receive(source: &mut EventHubsSource, events: u64) {
    let mut received = 0;
    while received < events {
        let event = poll_fn(|context| source.poll_batch(context)).await.unwrap();
        let SourceEvent::Batch(batch) = event else { panic!("a batch, not {event:?}") };
        received += batch.len() as u64;
        source.release(batch);
    }
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap()
}

const PARTITIONS: u16 = 8;
const BATCH: u64 = 4;
const WARM_UP: u64 = 20_000;
const EVENTS: u64 = 100_000;
