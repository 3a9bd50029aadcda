//! Forwarding from queue to queue, message by message, as the published study did: 12-byte messages are received under
//! locks, each is sent by itself, and each is completed once the other queue has it.
//!
//! The embedded service has a thread of its own and the relay has this one, so that on two cores the relay has one. Printed
//! are messages per second by the wall clock, what the relay's thread takes of the processor per message, and the ratio of
//! that to the bare socket: a thread that reads and writes as many bytes in pieces of 64 KiB.
//!
//! By Little's law, `concurrency / rate` is the time that a message is in work; it stands beside the rate.
//!
//! Medians of rounds, the first thrown away. `PARSHALL_BENCH_QUICK=1` runs tiny rounds, to see that it still works.

#![expect(clippy::print_stdout, reason = "a benchmark prints its result")]

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::time::{Duration, Instant};

use access::ConnectionString;
use bytes::Bytes;
use connect::event::{EventBatch, PartitionId};
use connect::service::ClientOptions;
use connect::service_bus::{ReceiveOptions, ServiceBusSink, ServiceBusSource};
use connect::sink::{OutgoingBatch, SendToken, SendUnit, Sink};
use hub::namespace::{NamespaceConfig, QueueConfig};
use hub::service::{Service, ServiceConfig};
use relay::{Relay, SettlingOptions};
use rustix::time::{ClockId, clock_gettime};

fn main() {
    let quick =
        std::env::var_os("PARSHALL_BENCH_QUICK").is_some() || std::env::args().any(|arg| arg == "--test");
    let (messages, rounds) = if quick { (1 << 13, 2) } else { (1 << 20, 6) };
    let bare: Vec<f64> =
        (0..rounds).map(|_| per_message(socket(messages * BYTES_PER_MESSAGE), messages)).collect();
    let bare = Figure::of(&bare[1..]);
    println!(
        "{messages} messages of 12 bytes, median [min-max] of {} rounds; bare socket: {bare} ns per message",
        rounds - 1
    );
    println!(
        "{:>11} {:>28} {:>12} {:>26} {:>14}",
        "concurrency", "messages/s", "in work, us", "relay's ns per message", "to bare socket"
    );
    for concurrency in [8, 64, 256, 1_024] {
        // A small concurrency waits for the other thread most of the time.
        let messages = if concurrency < 64 { messages / 8 } else { messages };
        let mut rates = Vec::new();
        let mut costs = Vec::new();
        for _ in 0..rounds {
            let (elapsed, cost) = round(messages, concurrency);
            rates.push(messages as f64 / elapsed.as_secs_f64());
            costs.push(per_message(cost, messages));
        }
        let (rate, cost) = (Figure::of(&rates[1..]), Figure::of(&costs[1..]));
        println!(
            "{concurrency:>11} {rate:>28} {:>12.1} {cost:>26} {:>13.1}x",
            f64::from(concurrency) / rate.median * 1e6,
            cost.median / bare.median
        );
    }
}

/// Fills a queue and forwards its messages: how long that took, and what the relay's thread has used of the processor.
fn round(messages: u64, concurrency: u32) -> (Duration, Duration) {
    let (started, starts) = std::sync::mpsc::channel();
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let thread = std::thread::Builder::new().name("service".to_owned());
    let service = thread.spawn(move || {
        runtime().block_on(async {
            let namespace = NamespaceConfig {
                queues: vec![QueueConfig::new(SOURCE), QueueConfig::new(DESTINATION)],
                ..NamespaceConfig::with_hubs(Vec::new())
            };
            let service =
                Service::start(ServiceConfig::loopback(namespace)).await.expect("a service on a free port");
            started.send(service.connection_string(None)).expect("the benchmark waits for it");
            // Ends when the benchmark drops its half, too.
            let _ = stopped.await;
            service.stop().await;
        });
    });
    let service = service.expect("a thread");
    let connection_string = starts.recv().expect("the service starts");
    let times = runtime().block_on(async {
        fill(&connection_string, messages).await;
        forward(&connection_string, messages, concurrency).await
    });
    drop(stop);
    service.join().expect("the service ends");
    times
}

/// Sends so many messages in batches.
async fn fill(connection_string: &ConnectionString, messages: u64) {
    let options = ClientOptions::new(connection_string.clone(), SOURCE);
    let mut sink = ServiceBusSink::connect(options, SendUnit::Batch).await.expect("a connection to send");
    // A Data section of 12 bytes.
    let message = Bytes::from_static(b"\x00\x53\x75\xa0\x0c0123456789ab");
    let mut batch = EventBatch::with_capacity(PartitionId(0), FILLED_AT_ONCE);
    for number in 0..FILLED_AT_ONCE as i64 {
        batch.push_message(&message, number);
    }
    assert_eq!(messages % FILLED_AT_ONCE as u64, 0, "whole batches");
    let events: Vec<u32> = (0..FILLED_AT_ONCE as u32).collect();
    let mut outcomes = Vec::new();
    for token in 0..messages / FILLED_AT_ONCE as u64 {
        let outgoing = OutgoingBatch::new(0, &batch, &events);
        sink.send(SendToken(token), outgoing).expect("one batch at a time finds room");
        std::future::poll_fn(|context| sink.poll_outcomes(context, &mut outcomes))
            .await
            .expect("the connection lasts");
        assert!(outcomes.drain(..).all(|outcome| outcome.result.is_ok()));
    }
    Box::new(sink).shut_down().await;
}

async fn forward(
    connection_string: &ConnectionString,
    messages: u64,
    concurrency: u32,
) -> (Duration, Duration) {
    let client = |entity| ClientOptions::new(connection_string.clone(), entity);
    let receive = ReceiveOptions { concurrency, ..ReceiveOptions::default() };
    let source = ServiceBusSource::connect(client(SOURCE), receive).await.expect("a connection to receive");
    let sink =
        ServiceBusSink::connect(client(DESTINATION), SendUnit::Event).await.expect("a connection to send");
    let relay = Relay::settling(SettlingOptions::default(), Box::new(source), vec![Box::new(sink)])
        .expect("a destination");
    let handle = relay.metrics_handle();
    let all = async {
        while let Some(metrics) = handle.metrics().await {
            if metrics.confirmed_events >= messages {
                return;
            }
            // So seldom that it is not part of the figure; so short that its end is not either.
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    };
    let (begin, begin_cost) = (Instant::now(), processor_time());
    let mut times = (Duration::ZERO, Duration::ZERO);
    let shutdown = async {
        all.await;
        times = (begin.elapsed(), processor_time() - begin_cost);
    };
    let summary = relay.run(shutdown).await.expect("neither end fails");
    assert_eq!(summary.metrics.confirmed_events, messages);
    assert_eq!(summary.metrics.redelivered_events, 0);
    times
}

/// Reads so many bytes from one socket and writes a fifth of them to another; the processor time of that.
fn socket(bytes: u64) -> Duration {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = listener.local_addr().expect("a bound address");
    let peer = std::thread::spawn(move || {
        let (mut socket, _) = listener.accept().expect("a connection");
        let mut written = socket.try_clone().expect("a second handle");
        // Neither direction may wait for the other.
        let drain = std::thread::spawn(move || {
            let mut piece = vec![0; PIECE];
            while written.read(&mut piece).expect("bytes") > 0 {}
        });
        let piece = vec![7; PIECE];
        let mut left = bytes;
        while left > 0 {
            let part = left.min(PIECE as u64) as usize;
            socket.write_all(&piece[..part]).expect("a reader");
            left -= part as u64;
        }
        socket.shutdown(std::net::Shutdown::Write).expect("an open socket");
        drain.join().expect("the drain ends");
    });
    let mut socket = TcpStream::connect(address).expect("a listener");
    let mut piece = vec![0; PIECE];
    let begin = processor_time();
    let mut owed = 0;
    loop {
        let read = socket.read(&mut piece).expect("bytes");
        if read == 0 {
            break;
        }
        owed += read;
        if owed / SENT_PART > PIECE {
            socket.write_all(&piece).expect("a reader");
            owed -= PIECE * SENT_PART;
        }
    }
    let cost = processor_time() - begin;
    drop(socket);
    peer.join().expect("the peer ends");
    cost
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime")
}

/// What this thread has used of the processor.
fn processor_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

fn per_message(time: Duration, messages: u64) -> f64 {
    time.as_nanos() as f64 / messages as f64
}

struct Figure {
    median: f64,
    min: f64,
    max: f64,
}

impl Figure {
    fn of(rounds: &[f64]) -> Self {
        let mut figures = rounds.to_vec();
        figures.sort_by(f64::total_cmp);
        Self { median: figures[figures.len() / 2], min: figures[0], max: figures[figures.len() - 1] }
    }
}

impl std::fmt::Display for Figure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(&format!("{:.0} [{:.0}-{:.0}]", self.median, self.min, self.max))
    }
}

const SOURCE: &str = "queue1";
const DESTINATION: &str = "queue2";

/// Messages of one batch while the queue is filled.
const FILLED_AT_ONCE: usize = 512;

/// What a 12-byte message is on the wire: received with header and annotations, and sent.
const BYTES_PER_MESSAGE: u64 = 280;

/// One byte is sent for so many that are received.
const SENT_PART: usize = 5;

const PIECE: usize = 64 * 1024;
