//! What clients of Kafka cost the service that wait, and what many partitions cost.
//!
//! The service runs in a process of its own, with events in its partitions. Consumers connect, each of which asks for events of
//! one partition that has none, with a wait of minutes. The memory of the service is read three times:
//!
//! * before anyone is connected;
//! * `waiting`: all wait, and none has had an event;
//! * `after a burst`: each has fetched 256 KiB, and waits again.
//!
//! The differences to the first, divided by the number of connections, are printed beside the bound that holds for them, and
//! what the service used of a processor while all waited. Then the metadata of 10,000 partitions is asked for.
//! `PARSHALL_BENCH_QUICK=1` runs a token amount.
#![expect(
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "a benchmark prints, and stops at the first surprise"
)]

use std::io::{BufRead as _, BufReader, Read as _};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant, SystemTime};

use hub::namespace::{HubConfig, NamespaceConfig};
use hub::service::{Protocol, Service, ServiceConfig};
use kafka::ApiKey;
use kafka::record;
use kafka::record_batch::{self, RecordBatch};
use kafka_protocol::messages::fetch_request::{FetchPartition, FetchTopic};
use kafka_protocol::messages::{
    FetchRequest, FetchResponse, MetadataRequest, MetadataResponse, RequestHeader, TopicName,
};
use kafka_protocol::protocol::{Decodable, Encodable, StrBytes};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use units::ByteSize;

fn main() {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    if std::env::args().any(|argument| argument == SERVE) {
        return runtime.block_on(serve());
    }
    let quick = std::env::var_os("PARSHALL_BENCH_QUICK").is_some();
    let (connections, rest) = if quick { (50, REST / 4) } else { (1000, REST) };
    runtime.block_on(async {
        wait(connections, rest).await;
        describe(if quick { 10 } else { 100 }).await;
    });
}

/// The service's process: tells its port, and ends with its input.
async fn serve() {
    let hubs = vec![HubConfig::new("empty", 200), HubConfig::new("full", 1)];
    let config = ServiceConfig::loopback(NamespaceConfig::with_hubs(hubs)).and(Protocol::Kafka);
    let service = Service::start(config).await.unwrap();
    let full = service.namespace().hub("full").unwrap();
    service.namespace().admit_record_batches().unwrap();
    for _ in 0..BURST / EVENT {
        let mut batch = vec![0; RecordBatch::HEADER_LENGTH];
        record::encode(&mut batch, 0, None, Some(&[7; EVENT]), std::iter::empty());
        record_batch::complete(&mut batch, 0, -1, 1, 0);
        let batch = RecordBatch::check(&batch).unwrap();
        full.partitions()[0].append_record_batch(SystemTime::now().into(), &batch).unwrap();
    }
    println!("{}", service.address(Protocol::Kafka).unwrap().port());
    tokio::task::spawn_blocking(|| std::io::stdin().read_to_end(&mut Vec::new())).await.unwrap().unwrap();
}

async fn wait(connections: usize, rest: Duration) {
    let mut service = Command::new(std::env::current_exe().unwrap())
        .arg(SERVE)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    BufReader::new(service.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let port = line.trim().parse().unwrap();
    tokio::time::sleep(rest).await;
    let before = resident(&service);
    let mut clients = Vec::new();
    for number in 0..connections {
        let mut client = Client::connect(port).await;
        let _: MetadataResponse = client.ask(ApiKey::Metadata, 12, &MetadataRequest::default()).await;
        client.send(ApiKey::Fetch, 12, &fetch("empty", (number % 200) as i32, LONG)).await;
        clients.push(client);
    }
    tokio::time::sleep(rest).await;
    let waiting = resident(&service);
    let (used, since) = (processor_time(&service), Instant::now());
    tokio::time::sleep(rest).await;
    let used = processor_time(&service).saturating_sub(used);
    println!("{connections} consumers that wait; the service without them: {}", ByteSize::from_bytes(before));
    print_each("waiting", waiting.saturating_sub(before), connections);
    println!("  used {used:?} of a processor in {:?}", since.elapsed());

    // The wait is over when the client is gone; each comes again.
    drop(clients);
    let mut clients = Vec::new();
    for number in 0..connections {
        let mut client = Client::connect(port).await;
        let answer: FetchResponse = client.ask(ApiKey::Fetch, 12, &fetch("full", 0, LONG)).await;
        assert!(answer.responses[0].partitions[0].records.as_ref().unwrap().len() > BURST);
        client.send(ApiKey::Fetch, 12, &fetch("empty", (number % 200) as i32, LONG)).await;
        clients.push(client);
    }
    tokio::time::sleep(rest).await;
    print_each("after a burst", resident(&service).saturating_sub(before), connections);
    drop(service.stdin.take());
    service.wait().unwrap();
}

/// Starts a service with 10,000 partitions, and asks for all of them.
async fn describe(times: usize) {
    let hubs = (0..100).map(|number| HubConfig::new(format!("hub{number}"), 100)).collect();
    let started = Instant::now();
    let config = ServiceConfig::loopback(NamespaceConfig::with_hubs(hubs)).and(Protocol::Kafka);
    let service = Service::start(config).await.unwrap();
    let started = started.elapsed();
    let mut client = Client::connect(service.address(Protocol::Kafka).unwrap().port()).await;
    let mut took = Vec::new();
    let mut bytes = 0;
    for _ in 0..times {
        let asked = Instant::now();
        client.send(ApiKey::Metadata, 12, &MetadataRequest::default().with_topics(None)).await;
        bytes = client.frame().await.len();
        took.push(asked.elapsed());
    }
    took.sort_unstable();
    println!("10,000 partitions in 100 hubs in memory: started in {started:?} (bound: 1 s)");
    println!(
        "  metadata of {bytes} bytes: median {:?}, longest {:?} (bound: 20 ms)",
        took[times / 2],
        took[times - 1]
    );
    service.stop().await;
}

fn print_each(name: &str, bytes: u64, connections: usize) {
    let each = bytes as f64 / connections as f64 / 1024.0;
    let ratio = each * 1024.0 / BOUND.bytes() as f64;
    println!("  {name:<14} {each:>8.1} KiB each, {ratio:.2} of the bound of {BOUND}");
}

struct Client {
    stream: TcpStream,
}

impl Client {
    async fn connect(port: u16) -> Self {
        Self { stream: TcpStream::connect(("127.0.0.1", port)).await.unwrap() }
    }

    async fn send(&mut self, key: ApiKey, version: i16, request: &impl Encodable) {
        let mut frame = bytes::BytesMut::new();
        let header = RequestHeader::default()
            .with_request_api_key(key.number())
            .with_request_api_version(version)
            .with_client_id(Some(StrBytes::from_static_str("benchmark")));
        header.encode(&mut frame, if key.is_flexible(version) { 2 } else { 1 }).unwrap();
        request.encode(&mut frame, version).unwrap();
        let size = u32::try_from(frame.len()).unwrap().to_be_bytes();
        self.stream.write_all(&[&size[..], &frame].concat()).await.unwrap();
    }

    async fn frame(&mut self) -> Vec<u8> {
        let size = self.stream.read_u32().await.unwrap();
        let mut frame = vec![0; size as usize];
        self.stream.read_exact(&mut frame).await.unwrap();
        frame
    }

    async fn ask<T: Decodable>(&mut self, key: ApiKey, version: i16, request: &impl Encodable) -> T {
        self.send(key, version, request).await;
        let mut frame = self.frame().await;
        let header = if key.has_flexible_response_header(version) { 5 } else { 4 };
        T::decode(&mut bytes::Bytes::from(frame.split_off(header)), version).unwrap()
    }
}

fn fetch(name: &'static str, index: i32, wait: Duration) -> FetchRequest {
    let partition = FetchPartition::default()
        .with_partition(index)
        .with_fetch_offset(0)
        .with_partition_max_bytes(1 << 20);
    let topic = FetchTopic::default()
        .with_topic(TopicName(StrBytes::from_static_str(name)))
        .with_partitions(vec![partition]);
    FetchRequest::default()
        .with_max_wait_ms(i32::try_from(wait.as_millis()).unwrap())
        .with_min_bytes(1)
        .with_max_bytes(50 << 20)
        .with_topics(vec![topic])
}

/// Resident memory of a process, in bytes.
fn resident(process: &Child) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{}/status", process.id())).unwrap();
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() * 1024
}

/// What a process has used of processors, in whole hundredths of a second.
fn processor_time(process: &Child) -> Duration {
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", process.id())).unwrap();
    let fields = stat.rsplit_once(')').unwrap().1;
    let ticks = fields.split_whitespace().skip(11).take(2).map(|field| field.parse::<u64>().unwrap());
    Duration::from_millis(10 * ticks.sum::<u64>())
}

/// The argument that makes this program the service.
const SERVE: &str = "--serve";

/// What a consumer that waits may cost at most.
const BOUND: ByteSize = ByteSize::from_kibibytes(32);

/// Value of a record, in bytes.
const EVENT: usize = 1024;

/// What a consumer fetches, in bytes.
const BURST: usize = 256 * 1024;

/// How long a consumer waits.
const LONG: Duration = Duration::from_secs(300);

/// How long nothing happens before the memory is read.
const REST: Duration = Duration::from_secs(3);
