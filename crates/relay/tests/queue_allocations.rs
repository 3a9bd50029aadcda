//! Once its buffers have grown to their size, a relay between queues allocates nothing per message: not to receive it, nor
//! to send it, nor to settle it.
//!
//! Allocations are counted per thread, and the service has another thread. Buffers are
//! allocated now and then, by the hundred kilobytes, hence a bound that is one in a thousand messages and not zero.

#![expect(clippy::unwrap_used, reason = "what helpers of tests do not expect fails the test")]

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use access::ConnectionString;
use connect::service::ClientOptions;
use connect::service_bus::{ReceiveOptions, ServiceBusSink, ServiceBusSource};
use connect::sink::SendUnit;
use counting_allocator::allocations;
use hub::namespace::{NamespaceConfig, QueueConfig};
use hub::service::{Service, ServiceConfig};
use queue_store::{Entity, NewMessage, Queue};
use relay::{Relay, SettlingOptions};

#[test]
fn forwarding_and_settling_allocate_nothing_per_message() {
    let (started, starts) = std::sync::mpsc::channel();
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let service = std::thread::spawn(move || {
        runtime().block_on(async {
            let namespace = NamespaceConfig {
                queues: vec![QueueConfig::new("queue1"), QueueConfig::new("queue2")],
                ..NamespaceConfig::with_hubs(Vec::new())
            };
            let service = Service::start(ServiceConfig::loopback(namespace)).await.unwrap();
            let queue = filled(&service);
            started.send((service.connection_string(None), queue)).unwrap();
            let _ = stopped.await;
            service.stop().await;
        });
    });
    let (connection_string, queue) = starts.recv().unwrap();
    let allocations = async { allocations_of_the_second_half(&connection_string, &queue).await };
    let allocations = runtime()
        .block_on(async { tokio::time::timeout(Duration::from_secs(60), allocations).await })
        .unwrap();
    let most = MESSAGES / 2 / 1_000;
    assert!(allocations < most, "{allocations} allocations for {} messages", MESSAGES / 2);
    drop(stop);
    service.join().unwrap();
}

/// The source queue, with all messages in it.
fn filled(service: &Service) -> Arc<Queue> {
    let Some(Entity::Queue(queue)) = service.namespace().queue_or_topic("queue1") else {
        panic!("it is declared")
    };
    // A Data section of 12 bytes.
    let sections: [&[u8]; 1] = [b"\x00\x53\x75\xa0\x0c0123456789ab"];
    let message = NewMessage { sections: &sections, ..NewMessage::default() };
    let now = SystemTime::now().into();
    for _ in 0..MESSAGES / AT_ONCE {
        queue.enqueue(now, &[message; AT_ONCE as usize]).unwrap();
    }
    queue
}

/// Forwards all messages, and counts while the second half of them is completed.
async fn allocations_of_the_second_half(connection_string: &ConnectionString, queue: &Queue) -> u64 {
    let client = |entity| ClientOptions::new(connection_string.clone(), entity);
    let source = ServiceBusSource::connect(client("queue1"), ReceiveOptions::default()).await.unwrap();
    let sink = ServiceBusSink::connect(client("queue2"), SendUnit::Event).await.unwrap();
    let relay = Relay::settling(SettlingOptions::default(), Box::new(source), vec![Box::new(sink)]).unwrap();
    let completed = async |messages| {
        while queue.lifecycle_counters().completed < messages {
            // The service has its own thread, so that nothing here says when.
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        allocations()
    };
    let mut allocations = 0;
    let shutdown = async {
        let at_half = completed(MESSAGES / 2).await;
        allocations = completed(MESSAGES).await - at_half;
    };
    let summary = relay.run(shutdown).await.unwrap();
    assert_eq!(summary.metrics.forwarded_events, MESSAGES);
    allocations
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap()
}

const MESSAGES: u64 = 100_000;

/// Messages that are put into the queue by one call.
const AT_ONCE: u64 = 500;
