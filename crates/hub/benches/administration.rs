//! How fast queues are created over HTTP, and how long a page of 100 of them takes, in memory and with a data directory.
//!
//! * `create, memory` against `create, durable`: the same requests, which differ in that each queue is on the device before it is
//!   answered. What the disk alone could do is beside it: a line appended and synced, one after the other.
//! * `page of many` against `page of 100`: what it costs a list that there are others besides.
//!
//! Requests come over 16 connections, each with one on the way. A first argument chooses the cases whose name contains it. Durable cases run
//! beneath `PARSHALL_BENCH_DIRECTORY`, otherwise where temporary files go. Prints medians with minimum and maximum, and ratios;
//! `PARSHALL_BENCH_QUICK=1` runs a token amount.
#![expect(
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "a benchmark prints, and stops at the first surprise"
)]

use std::fs::File;
use std::io::Write as _;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant, SystemTime};

use access::Credential;
use hub::namespace::{NamespaceConfig, StorageConfig};
use hub::service::{Service, ServiceConfig};
use partition_log::disk::StorageOptions;
use tempfile::TempDir;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::task::JoinSet;

fn main() {
    let quick = std::env::var_os("PARSHALL_BENCH_QUICK").is_some();
    let (rounds, queues, pages) = if quick { (1, 200, 5) } else { (3, 10_000, 50) };
    println!("{queues} queues over HTTP/1.1, {CONNECTIONS} connections, medians [min-max] of {rounds}");
    let only = std::env::args().nth(1).filter(|argument| !argument.starts_with('-')).unwrap_or_default();
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    let mut medians = Vec::new();
    for (name, is_durable) in [("memory", false), ("durable", true)] {
        if !name.contains(&only) {
            continue;
        }
        let (mut rates, mut many, mut few) = (Vec::new(), Vec::new(), Vec::new());
        for _ in 0..rounds {
            let directory = is_durable.then(directory);
            let directory = directory.as_ref().map(TempDir::path);
            let measured = runtime.block_on(measure(directory, queues, pages));
            rates.push(measured.created_per_second);
            many.push(measured.page_of_many.as_secs_f64() * 1e3);
            few.push(measured.page_of_few.as_secs_f64() * 1e3);
        }
        medians.push(report(&format!("create, {name}"), "queues/s", &mut rates));
        let many = report(&format!("page of {queues}, {name}"), "ms", &mut many);
        let few = report(&format!("page of {PAGE}, {name}"), "ms", &mut few);
        println!("  {:<24} ratio {:.2} of the time", format!("page, {name}"), many / few);
    }
    if let [memory, durable] = medians[..] {
        println!("  {:<24} ratio {:.2} of the rate", "create, durable", durable / memory);
        let mut alone: Vec<f64> = (0..rounds).map(|_| appends_per_second(queues.min(500))).collect();
        let alone = report("the disk alone", "appends/s", &mut alone);
        println!("  {:<24} ratio {:.2} of the rate", "create, to the disk", durable / alone);
    }
}

struct Measured {
    created_per_second: f64,
    /// The medians of a page in the middle.
    page_of_many: Duration,
    page_of_few: Duration,
}

fn report(name: &str, unit: &str, values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    let median = values[values.len() / 2];
    let (min, max) = (values[0], values[values.len() - 1]);
    println!("  {name:<24} {median:>10.2} {unit} [{min:.2}-{max:.2}]");
    median
}

fn directory() -> TempDir {
    match std::env::var_os("PARSHALL_BENCH_DIRECTORY") {
        Some(parent) => TempDir::new_in(parent),
        None => TempDir::new(),
    }
    .unwrap()
}

async fn measure(directory: Option<&Path>, queues: usize, pages: usize) -> Measured {
    let storage = directory
        .map(|path| StorageConfig { directory: path.to_owned(), options: StorageOptions::default() });
    let config = NamespaceConfig { storage, ..NamespaceConfig::with_hubs(Vec::new()) };
    let service = Service::start(ServiceConfig::loopback(config)).await.unwrap();
    let Credential::Key(key) = service.connection_string(None).credential else {
        panic!("services have keys")
    };
    let token = key.sign("http://localhost/", SystemTime::now() + Duration::from_secs(3_600));
    let address = service.amqp_address();
    create(address, &token, 0..PAGE).await;
    let page_of_few = page(address, &token, 0, pages).await;
    let started = Instant::now();
    create(address, &token, PAGE..queues).await;
    let created_per_second = (queues - PAGE) as f64 / started.elapsed().as_secs_f64();
    let page_of_many = page(address, &token, queues / 2, pages).await;
    service.stop().await;
    Measured { created_per_second, page_of_many, page_of_few }
}

/// Creates the queues with these numbers, over all connections.
async fn create(address: SocketAddr, token: &str, numbers: std::ops::Range<usize>) {
    let next = Arc::new(AtomicUsize::new(numbers.start));
    let mut creating = JoinSet::new();
    for _ in 0..CONNECTIONS {
        let (next, token, end) = (Arc::clone(&next), token.to_owned(), numbers.end);
        let mut socket = connect(address).await;
        creating.spawn(async move {
            let mut reply = Vec::new();
            loop {
                let number = next.fetch_add(1, Ordering::Relaxed);
                if number >= end {
                    return;
                }
                let length = BODY.len();
                let request = format!(
                    "PUT /queue-{number:05}?api-version=2021-05 HTTP/1.1\r\nHost: localhost\r\nAuthorization: {token}\r\n\
                     Content-Type: application/atom+xml;type=entry;charset=utf-8\r\nContent-Length: {length}\r\n\r\n{BODY}"
                );
                ask(&mut socket, request.as_bytes(), &mut reply).await;
                assert!(reply.starts_with(b"HTTP/1.1 201"), "{}", String::from_utf8_lossy(&reply));
            }
        });
    }
    while let Some(created) = creating.join_next().await {
        created.unwrap();
    }
}

/// The median of the time that a page behind the first `skip` queues takes.
async fn page(address: SocketAddr, token: &str, skip: usize, pages: usize) -> Duration {
    let mut socket = connect(address).await;
    let request = format!(
        "GET /$Resources/queues?$skip={skip}&$top={PAGE} HTTP/1.1\r\nHost: localhost\r\nAuthorization: {token}\r\n\r\n"
    );
    let mut reply = Vec::new();
    let mut times = Vec::new();
    for _ in 0..pages {
        let started = Instant::now();
        ask(&mut socket, request.as_bytes(), &mut reply).await;
        times.push(started.elapsed());
        assert_eq!(String::from_utf8_lossy(&reply).matches("<entry>").count(), PAGE);
    }
    times.sort_unstable();
    times[times.len() / 2]
}

async fn connect(address: SocketAddr) -> TcpStream {
    let socket = TcpStream::connect(address).await.unwrap();
    socket.set_nodelay(true).unwrap();
    socket
}

/// Sends a request and reads the whole reply.
async fn ask(socket: &mut TcpStream, request: &[u8], reply: &mut Vec<u8>) {
    socket.write_all(request).await.unwrap();
    reply.clear();
    let head = loop {
        assert!(socket.read_buf(reply).await.unwrap() > 0);
        if let Some(end) = reply.windows(4).position(|window| window == b"\r\n\r\n") {
            break end + 4;
        }
    };
    let text = std::str::from_utf8(&reply[..head]).unwrap();
    let length = text.lines().find_map(|line| line.strip_prefix("Content-Length: ")).unwrap();
    let length = head + length.parse::<usize>().unwrap();
    while reply.len() < length {
        assert!(socket.read_buf(reply).await.unwrap() > 0);
    }
}

/// How often a second a disk takes something as long as a change, one after the other.
fn appends_per_second(appends: usize) -> f64 {
    let directory = directory();
    let mut file = File::create(directory.path().join("log")).unwrap();
    let started = Instant::now();
    for _ in 0..appends {
        file.write_all(&[b'x'; 600]).unwrap();
        file.sync_data().unwrap();
    }
    appends as f64 / started.elapsed().as_secs_f64()
}

/// What the clients of the service send for a queue with a few options.
const BODY: &str = r#"<entry xmlns="http://www.w3.org/2005/Atom"><content type="application/xml"><QueueDescription xmlns="http://schemas.microsoft.com/netservices/2010/10/servicebus/connect"><LockDuration>PT30S</LockDuration><MaxDeliveryCount>5</MaxDeliveryCount></QueueDescription></content></entry>"#;

/// As many as a client that creates in parallel has.
const CONNECTIONS: usize = 16;

/// Entries of a page.
const PAGE: usize = 100;
