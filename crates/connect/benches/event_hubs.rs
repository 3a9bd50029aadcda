//! What the Event Hubs client costs the thread that it runs on: processor time per event received and per batch sent, with
//! everything that belongs to it (system calls, engine, tokens, credit, batches).
//!
//! * `receive`: 16-byte events that wait in the 32 partitions of the embedded service, which has a thread of its own, so
//!   that its speed is not part of the figure.
//! * `send`: batches of four 16-byte events to 32 partitions, as many under way as there is credit for.
//! * beside each the bare socket: the same number of bytes read or written by a thread, in pieces of 64 KiB.
//!
//! Medians of rounds, the first thrown away. `PARSHALL_BENCH_QUICK=1` runs tiny rounds, to see that it still works.

#![expect(clippy::print_stdout, reason = "a benchmark prints its result")]

mod bare_socket;

use std::future::poll_fn;
use std::hint::black_box;
use std::task::{Poll, ready};
use std::time::Duration;

use bare_socket::{Direction, processor_time, socket};
use connect::event_hubs::{EventHubsOptions, EventHubsSource, Publisher};
use connect::sink::SendToken;
use connect::source::{BatchOptions, Source, SourceEvent, SourceOptions, StartPosition};
use hub::namespace::{HubConfig, NamespaceConfig};
use hub::service::{Service, ServiceConfig};

fn main() {
    let quick = std::env::var_os("PARSHALL_BENCH_QUICK").is_some();
    let (events, rounds) = if quick { (1 << 12, 2) } else { (1 << 21, 6) };
    let (mut receiving, mut sending) = (Vec::new(), Vec::new());
    for _ in 0..rounds {
        let (received, sent) = round(events);
        receiving.push(received.as_nanos() as f64 / events as f64);
        sending.push(sent.as_nanos() as f64 / (events / BATCH) as f64);
    }
    let mut reading: Vec<_> = (0..rounds)
        .map(|_| socket(events * RECEIVED_BYTES, Direction::Read))
        .map(|time| time.as_nanos() as f64 / events as f64)
        .collect();
    let mut writing: Vec<_> = (0..rounds)
        .map(|_| socket(events / BATCH * SENT_BYTES, Direction::Write))
        .map(|time| time.as_nanos() as f64 / (events / BATCH) as f64)
        .collect();
    print("receive, per event", &mut receiving, &mut reading);
    print("send, per batch of 4", &mut sending, &mut writing);
}

fn print(name: &str, legs: &mut [f64], bares: &mut [f64]) {
    let (leg, bare) = (median(&mut legs[1..]), median(&mut bares[1..]));
    println!("{name}: {leg:.1} ns, bare socket: {bare:.1} ns, ratio {:.1}", leg / bare);
}

fn median(rounds: &mut [f64]) -> f64 {
    rounds.sort_by(f64::total_cmp);
    rounds[rounds.len() / 2]
}

/// Sends `events` to a service and receives them again; the processor time of receiving and of sending.
fn round(events: u64) -> (Duration, Duration) {
    let (started, starts) = std::sync::mpsc::channel();
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let thread = std::thread::Builder::new().name("service".to_owned());
    let service = thread.spawn(move || {
        runtime().block_on(async {
            let hubs = vec![HubConfig::new("events", PARTITIONS as u16)];
            let config = ServiceConfig::loopback(NamespaceConfig::with_hubs(hubs));
            let service = Service::start(config).await.expect("a service on a free port");
            started.send(service.connection_string(Some("events"))).expect("the benchmark waits for it");
            // Ends when the benchmark drops its half, too.
            let _ = stopped.await;
            service.stop().await;
        });
    });
    let service = service.expect("a thread");
    let connection_string = starts.recv().expect("the service starts");
    let options = EventHubsOptions::new(connection_string, None).expect("it names the hub");
    let times = runtime().block_on(async {
        let sent = send(options.clone(), events / BATCH).await;
        (receive(options, events).await, sent)
    });
    drop(stop);
    service.join().expect("the service ends");
    times
}

async fn send(options: EventHubsOptions, batches: u64) -> Duration {
    let mut publisher = Publisher::connect(options).await.expect("a connection to send");
    let mut outcomes = Vec::new();
    let (mut sent, mut answered) = (0, 0);
    let start = processor_time();
    poll_fn(|context| {
        loop {
            while sent < batches {
                let destination = (sent % u64::from(PARTITIONS)) as u32;
                let fill = |index: usize, payload: &mut [u8]| payload.fill(index as u8);
                let token = SendToken(sent);
                if publisher.publish_payloads(token, destination, BATCH as usize, 16, fill).is_err() {
                    break;
                }
                sent += 1;
            }
            let polled = publisher.poll_outcomes(context, &mut outcomes);
            answered += outcomes.len() as u64;
            assert!(outcomes.drain(..).all(|outcome| outcome.result.is_ok()));
            if answered == batches {
                return Poll::Ready(());
            }
            match polled {
                Poll::Ready(polled) => polled.expect("the connection lasts"),
                Poll::Pending if sent == batches => return Poll::Pending,
                Poll::Pending => ready!(publisher.poll_ready(context)).expect("the connection lasts"),
            }
        }
    })
    .await;
    processor_time() - start
}

async fn receive(options: EventHubsOptions, events: u64) -> Duration {
    let batch = BatchOptions { max_events: 128, max_wait: Duration::from_millis(10) };
    let source_options = SourceOptions { batch, prefetch: 1_000 };
    let mut source =
        EventHubsSource::connect(options, "$Default", source_options).await.expect("a connection to receive");
    for partition in source.partitions() {
        source.open(partition, StartPosition::Earliest);
    }
    let mut received = 0;
    let start = processor_time();
    while received < events {
        match poll_fn(|context| source.poll_batch(context)).await {
            Ok(SourceEvent::Batch(batch)) => {
                received += batch.len() as u64;
                source.release(black_box(batch));
            }
            other => panic!("a batch, not {other:?}"),
        }
    }
    processor_time() - start
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime")
}

const PARTITIONS: u32 = 32;
const BATCH: u64 = 4;

/// Frame, annotations and Data section of a delivered 16-byte event.
const RECEIVED_BYTES: u64 = 34 + 96 + 21;

/// Frame and four events of a batch.
const SENT_BYTES: u64 = 38 + 4 * 26;
