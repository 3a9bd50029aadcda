//! What the AMQP front costs per event, apart from its client: processor time of the thread that serves.
//!
//! * `deliver`: a client with one link per partition reads events that lie ready, 16 bytes and 1 KiB.
//! * `publish`: a client sends batches of four 16-byte events to 32 partitions in turn and waits for all outcomes.
//!
//! Server and client have a thread each and talk over loopback. The reference is a copy of the same payload bytes
//! through one socket. A first argument chooses the cases whose name contains it. Prints medians with minimum and maximum; `PARSHALL_BENCH_QUICK=1` runs a token amount.
#![expect(
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "a benchmark prints, and stops at the first surprise"
)]

use std::future::poll_fn;
use std::sync::Arc;
use std::task::Poll;
use std::time::{Duration, Instant};

use amqp::Connection;
use amqp::connection::{Config, Event, LinkId, LinkOptions, NewDelivery, SaslClient};
use amqp::message::{FORMAT_BATCH, encode};
use amqp::performative::{DeliveryState, SenderSettleMode, Source, Target};
use amqp_tokio::{Driver, connect};
use hub::front::amqp::AmqpFront;
use hub::front::listener::{Bound, Protocol};
use hub::namespace::{HubConfig, Namespace, NamespaceConfig, SignaturePolicy};
use partition_log::UnixTime;
use partition_log::{LogLimits, NewRecord};
use rustix::time::{ClockId, clock_gettime};
use tokio::net::TcpListener;
use tokio::sync::watch;
use units::ByteSize;

fn main() {
    let quick = std::env::var_os("PARSHALL_BENCH_QUICK").is_some();
    let (rounds, events) = if quick { (1, 32_000) } else { (5, 6_400_000) };
    println!(
        "AMQP front, medians [min-max] of {rounds}: events/s, and processor time of the serving thread per event"
    );
    let only = std::env::args().nth(1).filter(|argument| !argument.starts_with('-'));
    for (name, events, case) in [
        ("deliver 16 B", events, Case::Deliver { payload: 16 }),
        ("deliver 1 KiB", events / 8, Case::Deliver { payload: 1024 }),
        ("publish 4 x 16 B", events, Case::Publish { payload: 16, batch: 4 }),
        ("publish 1 x 16 B", events / 4, Case::Publish { payload: 16, batch: 1 }),
        ("publish 128 x 16 B", events, Case::Publish { payload: 16, batch: 128 }),
        ("publish 4 x 1 KiB", events / 8, Case::Publish { payload: 1024, batch: 4 }),
    ] {
        if only.as_ref().is_some_and(|only| !name.contains(only.as_str())) {
            continue;
        }
        let mut runs: Vec<(f64, f64)> = (0..rounds).map(|_| run(events, case)).collect();
        runs.sort_by(|a, b| a.0.total_cmp(&b.0));
        let median = runs[runs.len() / 2];
        let (min, max) = (runs[0].0, runs[runs.len() - 1].0);
        println!("  {name:<20} {:>10.0}/s [{min:.0}-{max:.0}]  {:>6.0} ns", median.0, median.1);
    }
}

#[derive(Clone, Copy)]
enum Case {
    Deliver { payload: usize },
    Publish { payload: usize, batch: usize },
}

/// Events per second, and nanoseconds of the serving thread per event.
fn run(events: usize, case: Case) -> (f64, f64) {
    let limits = LogLimits { bytes: ByteSize::from_mebibytes(1024), ..LogLimits::default() };
    let mut config = NamespaceConfig::with_hubs(vec![HubConfig {
        log: Some(limits),
        ..HubConfig::new("hub", PARTITIONS)
    }]);
    config.signatures = SignaturePolicy::AcceptAny;
    let namespace = Arc::new(Namespace::new(&config, UnixTime::from_milliseconds(0)).unwrap());
    if let Case::Deliver { payload } = case {
        let mut message = Vec::new();
        encode::data(&mut message, &vec![7; payload]);
        let sections: [&[u8]; 1] = [&message];
        let records = [NewRecord { annotation_count: 0, annotations: &[], sections: &sections }; 50];
        let hubs = namespace.hubs();
        for batch in 0..events / records.len() {
            let partition = &hubs[0].partitions()[batch % usize::from(PARTITIONS)];
            partition.log().append_records(UnixTime::from_milliseconds(1), &records).unwrap();
        }
    }
    let front = AmqpFront::new(namespace);
    let (stop, stopped) = watch::channel(false);
    let (port_out, port_in) = std::sync::mpsc::channel();
    let server = std::thread::spawn(move || {
        runtime().block_on(async {
            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            port_out.send(listener.local_addr().unwrap().port()).unwrap();
            let bound = Bound { listener, protocol: Protocol::Amqp, tls: None, tls_besides: None };
            front.serve(bound, stopped).await;
        });
        thread_time()
    });
    let port = port_in.recv().unwrap();
    let elapsed = runtime().block_on(async {
        match case {
            Case::Deliver { .. } => consume(port, events).await,
            Case::Publish { payload, batch } => publish(port, events / batch, payload, batch).await,
        }
    });
    stop.send(true).unwrap();
    let busy = server.join().unwrap();
    (events as f64 / elapsed.as_secs_f64(), busy.as_nanos() as f64 / events as f64)
}

async fn open(port: u16) -> Driver {
    let stream = connect("127.0.0.1", port, None, Duration::from_secs(5)).await.unwrap();
    let config = Config { incoming_window: 1 << 20, ..Config::default() };
    let mut driver = Driver::new(Connection::client(config, SaslClient::Anonymous, Instant::now()), stream);
    while !matches!(driver.next_event().await.unwrap(), Event::Opened(_)) {}
    driver
}

async fn consume(port: u16, events: usize) -> Duration {
    let mut driver = open(port).await;
    let session = driver.connection().begin_session().unwrap();
    for partition in 0..PARTITIONS {
        let address = format!("hub/ConsumerGroups/$Default/Partitions/{partition}");
        let options =
            LinkOptions { name: address.clone(), source: Source::new(address), ..LinkOptions::default() };
        let link = driver.connection().attach_receiver(session, options).unwrap();
        driver.connection().set_credit(link, CREDIT);
    }
    let started = Instant::now();
    let mut received = 0;
    poll_fn(|cx| {
        loop {
            let connection = driver.connection();
            while let Some(event) = connection.poll_event() {
                let Event::Deliveries(deliveries) = event else {
                    continue;
                };
                received += deliveries.items().len();
                for delivery in deliveries.items() {
                    if connection.credit(delivery.link) < CREDIT / 2 {
                        connection.set_credit(delivery.link, CREDIT);
                    }
                }
                connection.recycle(deliveries);
            }
            if received == events {
                return Poll::Ready(());
            }
            match driver.poll_drive(cx) {
                Poll::Ready(result) => result.unwrap(),
                Poll::Pending => return Poll::Pending,
            }
        }
    })
    .await;
    started.elapsed()
}

async fn publish(port: u16, batches: usize, payload: usize, batch: usize) -> Duration {
    let mut driver = open(port).await;
    let session = driver.connection().begin_session().unwrap();
    let mut links: Vec<LinkId> = Vec::new();
    for partition in 0..PARTITIONS {
        let address = format!("hub/Partitions/{partition}");
        let options = LinkOptions {
            name: address.clone(),
            target: Target::new(address),
            sender_settle_mode: SenderSettleMode::Unsettled,
            ..LinkOptions::default()
        };
        links.push(driver.connection().attach_sender(session, options).unwrap());
    }
    let mut message = Vec::new();
    let mut event = Vec::new();
    encode::data(&mut event, &vec![7; payload]);
    for _ in 0..batch {
        encode::data(&mut message, &event);
    }
    let mut waiting = links.len();
    while waiting > 0 {
        if matches!(driver.next_event().await.unwrap(), Event::Credit(_)) {
            waiting -= 1;
        }
    }
    let started = Instant::now();
    let delivery = NewDelivery { tag: &[0; 4], format: FORMAT_BATCH, settled: false };
    let (mut sent, mut accepted) = (0, 0);
    poll_fn(|cx| {
        loop {
            let connection = driver.connection();
            while let Some(event) = connection.poll_event() {
                if let Event::Outcome { first, last, state, .. } = event {
                    assert_eq!(state, Some(DeliveryState::Accepted));
                    accepted += last.wrapping_sub(first) as usize + 1;
                }
            }
            let before = sent;
            while sent < batches && sent - accepted < IN_FLIGHT && connection.output_len() < 128 * 1024 {
                let link = links[sent % links.len()];
                if connection.sender(link).unwrap().send(&delivery, &[&message]).is_err() {
                    break;
                }
                sent += 1;
            }
            if accepted == batches {
                return Poll::Ready(());
            }
            match driver.poll_drive(cx) {
                Poll::Ready(result) => result.unwrap(),
                Poll::Pending if sent > before && driver.connection().output_len() == 0 => {}
                Poll::Pending => return Poll::Pending,
            }
        }
    })
    .await;
    started.elapsed()
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap()
}

fn thread_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec.cast_unsigned(), time.tv_nsec as u32)
}

const PARTITIONS: u16 = 32;

/// Credit per link.
const CREDIT: u32 = 4_000;

/// Batches that wait for their outcome at most.
const IN_FLIGHT: usize = 4_000;
