//! Memory of a whole process while each budget that connections share is used up.
//!
//! Each purpose has a process of its own, so that memory of other tests is not counted: this binary, with the name of the purpose in
//! its environment. Memory of the clients in that process counts.

#![expect(clippy::unwrap_used, reason = "what panics in a test fails it, and says where")]

use std::any::Any;
use std::process::Command;

use amqp::connection::Event;
use hub::service::{Protocol, Service};
use kafka::ApiKey;
use kafka_protocol::messages::fetch_request::{FetchPartition, FetchTopic};
use kafka_protocol::messages::join_group_request::JoinGroupRequestProtocol;
use kafka_protocol::messages::{FetchRequest, GroupId, JoinGroupRequest, JoinGroupResponse};
use kafka_protocol::protocol::StrBytes;
use test_peer::within;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::front::client::Client;
use crate::front::windows::{self, Deaf};
use crate::front::{self, aborted, greed};
use crate::kafka_memory::{
    figure, guarded, readers_of_converted_events, readers_of_removed_events, small_log, unfinished_requests,
    usage,
};
use crate::kafka_peer::{self, Peer};
use crate::service_bus::transactions;

/// The variable with the purpose of a process.
const PURPOSE: &str = "PARSHALL_TEST_PURPOSE";

/// Memory of logs, clients and the allocator, in bytes.
const SLACK: u64 = 96 << 20;

#[test]
fn a_process_takes_no_more_memory_than_a_budget_that_is_used_up() {
    let runtime = || tokio::runtime::Runtime::new().unwrap();
    if let Ok(purpose) = std::env::var(PURPOSE) {
        return runtime().block_on(use_up(&purpose));
    }
    let purposes = runtime().block_on(async {
        let metrics = kafka_peer::service().await.metrics().open_metrics().await;
        let series = metrics.lines().filter_map(|line| {
            let (purpose, _) =
                line.strip_prefix("parshall_memory_shared_limit_bytes{purpose=\"")?.split_once('"')?;
            Some(purpose.to_owned())
        });
        series.collect::<Vec<_>>()
    });
    assert!(!purposes.is_empty());
    for purpose in purposes {
        let name = std::thread::current().name().unwrap().to_owned();
        let mut process = Command::new(std::env::current_exe().unwrap());
        let output = process.args(["--exact", &name, "--nocapture"]).env(PURPOSE, &purpose).output().unwrap();
        assert!(output.status.success(), "{purpose}: {}", String::from_utf8_lossy(&output.stderr));
    }
}

/// Uses up the budget of a purpose, and asserts that the process stays within it.
async fn use_up(purpose: &str) {
    let service = match purpose {
        "kafka-logins" => guarded().await,
        "queue-transactions" => transactions::queues().await,
        "amqp-logins" => front::client::service().await,
        "amqp-replies" => windows::service_with_long_message().await,
        "amqp-output" => greed::service_with_backlog().await,
        "rest-bodies" => crate::rest::client::service().await,
        _ => small_log().await,
    };
    let before = resident();
    let clients: Box<dyn Any> = match purpose {
        "kafka-logins" => Box::new(unfinished_requests(&service, 300, 120 * 1024).await),
        "kafka-requests" => Box::new(long_requests(&service).await),
        "kafka-fetches" => Box::new(fetch_sessions(&service).await),
        "kafka-answers" => Box::new(readers_of_converted_events(&service).await),
        "reader-events" => Box::new(readers_of_removed_events(&service).await),
        "kafka-groups" => Box::new(members_of_groups(&service).await),
        "amqp-logins" => Box::new(strangers(&service).await),
        "amqp-replies" => Box::new(clients_that_take_no_replies(&service).await),
        "rest-bodies" => Box::new(aborted::bodies_that_do_not_end(&service).await),
        "amqp-output" => Box::new(greed::readers_of_nothing(&service).await),
        "queue-transactions" => Box::new(transactions::open_transactions(&service).await),
        other => panic!("nothing here uses up the budget for {other}"),
    };
    let refused = async {
        while usage(&service, purpose).await.1 == 0 {
            tokio::task::yield_now().await;
        }
    };
    within("a refusal", refused).await;
    let (used, _) = usage(&service, purpose).await;
    let metrics = service.metrics().open_metrics().await;
    let limit = figure(&metrics, "parshall_memory_shared_limit_bytes", purpose);
    let more = resident().saturating_sub(before);
    assert!(used <= limit, "{used} of {limit} bytes are in use");
    assert!(more <= limit + SLACK, "the process has taken {} MiB more", more >> 20);
    drop(clients);
    service.stop().await;
}

/// Clients in the middle of requests that are as long as requests may be, until one is closed.
async fn long_requests(service: &Service) -> Vec<TcpStream> {
    let address = service.address(Protocol::Kafka).unwrap();
    let part = vec![0; 1 << 20];
    let mut clients = Vec::new();
    while usage(service, "kafka-requests").await.1 == 0 {
        assert!(clients.len() < 20, "they would hold a gibibyte");
        let mut client = TcpStream::connect(address).await.unwrap();
        let mut sent = client.write_all(&(100_u32 << 20).to_be_bytes()).await;
        for _ in 0..60 {
            sent = match sent {
                Ok(()) => within("the service takes it", client.write_all(&part)).await,
                closed => closed,
            };
        }
        clients.push(client);
    }
    clients
}

/// Clients with fetch sessions of as many partitions as a request can name, until one is closed.
async fn fetch_sessions(service: &Service) -> Vec<Peer> {
    let partition = |index| FetchPartition::default().with_partition(index).with_partition_max_bytes(1 << 20);
    let topic = FetchTopic::default()
        .with_topic(kafka_peer::topic("Events"))
        .with_partitions((0..60_000).map(partition).collect());
    let request = FetchRequest::default().with_session_epoch(0).with_topics(vec![topic]);
    let mut clients = Vec::new();
    while usage(service, "kafka-fetches").await.1 == 0 {
        assert!(clients.len() < 20, "they would hold 300 MiB");
        let mut client = Peer::new(service).await;
        client.send(ApiKey::Fetch, 12, &request).await;
        // The answer, or the end of the connection.
        let _ = within("the service takes it", client.stream.read_u32()).await;
        clients.push(client);
    }
    clients
}

/// Members of groups of their own that say much of themselves, until one is refused.
async fn members_of_groups(service: &Service) -> Vec<Peer> {
    let protocol = JoinGroupRequestProtocol::default()
        .with_name(StrBytes::from_static_str("range"))
        .with_metadata(vec![7; 3 << 20].into());
    let mut members = Vec::new();
    let mut error = 0;
    while error == 0 {
        assert!(members.len() < 100, "they would hold 300 MiB");
        let mut member = Peer::new(service).await;
        let request = JoinGroupRequest::default()
            .with_group_id(GroupId(format!("group-{}", members.len()).into()))
            .with_session_timeout_ms(300_000)
            .with_rebalance_timeout_ms(300_000)
            .with_protocol_type(StrBytes::from_static_str("consumer"))
            .with_protocols(vec![protocol.clone()]);
        let joined: JoinGroupResponse = member.ask(ApiKey::JoinGroup, 3, &request).await;
        error = joined.error_code;
        members.push(member);
    }
    assert_eq!(error, 15, "COORDINATOR_NOT_AVAILABLE");
    members
}

/// Clients without a token that do not receive their replies, until one is closed.
async fn strangers(service: &Service) -> Vec<Client> {
    let mut clients = Vec::new();
    while usage(service, "amqp-logins").await.1 == 0 {
        assert!(clients.len() < 400, "they would hold 36 MB");
        let (mut client, request) = greed::strangers_requests(service, 9).await;
        let is_done = |event| matches!(event, Event::Outcome { last, .. } if last == request);
        // Or it is closed.
        while client.next_event().await.is_ok_and(|event| !is_done(event)) {}
        clients.push(client);
    }
    clients
}

/// Clients with long replies that they do not receive, until one is closed.
async fn clients_that_take_no_replies(service: &Service) -> Vec<Deaf> {
    let mut clients = Vec::new();
    while usage(service, "amqp-replies").await.1 == 0 {
        assert!(clients.len() < 40, "they would hold 400 MiB");
        clients.push(Deaf::connect(service).await);
    }
    clients
}

/// Returns the resident memory of this process, in bytes.
fn resident() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() * 1024
}
