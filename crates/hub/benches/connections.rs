//! What a connection costs the service while nothing happens on it: resident memory.
//!
//! The service runs in a process of its own, with events in its partitions. Clients connect, each with a session and
//! two links, a sender and a receiver, as the official clients do. The memory of the service is read three times:
//!
//! * before anyone is connected;
//! * `new`: all are connected, and none has had any credit for events;
//! * `after a burst`: each has sent 16 KiB and received 256 KiB, and then nothing for a while.
//!
//! The differences to the first, divided by the number of connections, are printed beside the bound that holds for
//! them. `PARSHALL_BENCH_QUICK=1` runs a token amount.
#![expect(
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "a benchmark prints, and stops at the first surprise"
)]

use std::io::{BufRead as _, BufReader, Read as _};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use amqp::Connection;
use amqp::connection::{Config, Event, LinkId, LinkOptions, NewDelivery, SaslClient};
use amqp::message::{FORMAT_AMQP, encode};
use amqp::performative::{Source, Target};
use amqp_tokio::{Driver, connect};
use hub::namespace::{HubConfig, NamespaceConfig, SignaturePolicy};
use hub::service::{Service, ServiceConfig};
use tokio::task::JoinSet;
use units::ByteSize;

fn main() {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    if std::env::args().any(|argument| argument == SERVE) {
        return runtime.block_on(serve());
    }
    let quick = std::env::var_os("PARSHALL_BENCH_QUICK").is_some();
    let (connections, rest) = if quick { (50, REST / 4) } else { (1000, REST) };
    runtime.block_on(measure(connections, rest));
}

/// The service's process: tells its port, and ends with its input.
async fn serve() {
    let mut namespace = NamespaceConfig::with_hubs(vec![
        HubConfig::new("read", READ_PARTITIONS),
        HubConfig::new("written", 1),
    ]);
    namespace.signatures = SignaturePolicy::AcceptAny;
    let service = Service::start(ServiceConfig::loopback(namespace)).await.unwrap();
    println!("{}", service.amqp_address().port());
    tokio::task::spawn_blocking(|| std::io::stdin().read_to_end(&mut Vec::new())).await.unwrap().unwrap();
}

async fn measure(connections: usize, rest: Duration) {
    let mut service = Command::new(std::env::current_exe().unwrap())
        .arg(SERVE)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    BufReader::new(service.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let port = line.trim().parse().unwrap();

    fill(port).await;
    tokio::time::sleep(rest).await;
    let before = resident(&service);
    let mut clients = Vec::new();
    for number in 0..connections {
        clients.push(Client::open(port, number).await);
    }
    tokio::time::sleep(rest).await;
    let new = resident(&service);
    let mut bursts = JoinSet::new();
    for client in clients.drain(..) {
        bursts.spawn(client.burst());
    }
    while let Some(client) = bursts.join_next().await {
        clients.push(client.unwrap());
    }
    tokio::time::sleep(rest).await;
    let after = resident(&service);

    println!(
        "{connections} connections with 2 links each; the service without them: {}",
        ByteSize::from_bytes(before)
    );
    for (name, bytes) in [("new", new), ("after a burst", after)] {
        let each = bytes.saturating_sub(before) / connections as u64;
        let ratio = each as f64 / BOUND.bytes() as f64;
        println!("  {name:<14} {:>8.1} KiB each, {ratio:.2} of the bound of {BOUND}", each as f64 / 1024.0);
    }
    drop(service.stdin.take());
    service.wait().unwrap();
}

/// Puts the events into the partitions that all will read.
async fn fill(port: u16) {
    let mut driver = dial(port).await;
    let session = driver.connection().begin_session().unwrap();
    let mut message = Vec::new();
    encode::data(&mut message, &[7; EVENT]);
    for partition in 0..READ_PARTITIONS {
        let options = LinkOptions {
            name: partition.to_string(),
            target: Target::new(format!("read/Partitions/{partition}")),
            ..LinkOptions::default()
        };
        let link = driver.connection().attach_sender(session, options).unwrap();
        send(&mut driver, link, &message, BURST_IN / EVENT).await;
    }
}

struct Client {
    driver: Driver,
    sender: LinkId,
    receiver: LinkId,
}

impl Client {
    async fn open(port: u16, number: usize) -> Self {
        let mut driver = dial(port).await;
        let session = driver.connection().begin_session().unwrap();
        let sends = LinkOptions {
            name: "sends".into(),
            target: Target::new("written/Partitions/0"),
            ..LinkOptions::default()
        };
        let partition = number % usize::from(READ_PARTITIONS);
        let receives = LinkOptions {
            name: "receives".into(),
            source: Source::new(format!("read/ConsumerGroups/$Default/Partitions/{partition}")),
            target: Target::new("here"),
            ..LinkOptions::default()
        };
        let sender = driver.connection().attach_sender(session, sends).unwrap();
        let receiver = driver.connection().attach_receiver(session, receives).unwrap();
        let mut attached = 0;
        while attached < 2 {
            match driver.next_event().await.unwrap() {
                Event::LinkAttached { .. } => attached += 1,
                Event::LinkDetached { error, .. } => panic!("{error:?}"),
                _ => {}
            }
        }
        Self { driver, sender, receiver }
    }

    async fn burst(mut self) -> Self {
        let mut message = Vec::new();
        encode::data(&mut message, &[7; EVENT]);
        send(&mut self.driver, self.sender, &message, BURST_OUT / EVENT).await;
        let expected = BURST_IN / EVENT;
        self.driver.connection().set_credit(self.receiver, expected as u32);
        let mut received = 0;
        while received < expected {
            if let Event::Deliveries(deliveries) = self.driver.next_event().await.unwrap() {
                received += deliveries.items().len();
                self.driver.connection().recycle(deliveries);
            }
        }
        self
    }
}

async fn dial(port: u16) -> Driver {
    let stream = connect("127.0.0.1", port, None, Duration::from_secs(10)).await.unwrap();
    let config = Config { container_id: "benchmark".into(), ..Config::default() };
    let engine = Connection::client(config, SaslClient::Anonymous, Instant::now());
    let mut driver = Driver::new(engine, stream);
    while !matches!(driver.next_event().await.unwrap(), Event::Opened(_)) {}
    driver
}

/// Sends an event as often, and waits until all have their outcome.
async fn send(driver: &mut Driver, link: LinkId, message: &[u8], count: usize) {
    let (mut sent, mut settled) = (0, 0);
    while settled < count {
        while sent < count {
            let delivery = NewDelivery { tag: &[0], format: FORMAT_AMQP, settled: false };
            let sender = driver.connection().sender(link);
            if sender.is_none_or(|mut sender| sender.send(&delivery, &[message]).is_err()) {
                break;
            }
            sent += 1;
        }
        if let Event::Outcome { first, last, .. } = driver.next_event().await.unwrap() {
            settled += (last - first + 1) as usize;
        }
    }
}

/// Resident memory of a process, in bytes.
fn resident(process: &Child) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{}/status", process.id())).unwrap();
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() * 1024
}

/// The argument that makes this program the service.
const SERVE: &str = "--serve";

/// What a connection may cost at most.
const BOUND: ByteSize = ByteSize::from_kibibytes(64);

/// Five receivers may share a partition.
const READ_PARTITIONS: u16 = 200;

/// Payload of an event, in bytes.
const EVENT: usize = 1024;

/// What a client sends, in bytes.
const BURST_OUT: usize = 16 * 1024;

/// What a client receives, in bytes.
const BURST_IN: usize = 256 * 1024;

/// How long nothing happens before the memory is read.
const REST: Duration = Duration::from_secs(3);
