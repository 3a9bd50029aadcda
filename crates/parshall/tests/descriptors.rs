//! `parshall serve` where file descriptors are few and idle sockets take all that they can get.

#![expect(clippy::unwrap_used, reason = "what panics in a test fails it, and says where")]

use std::future::poll_fn;
use std::net::TcpStream;
use std::time::Duration;

use crate::serving::Serving;
use access::ConnectionString;
use connect::event_hubs::{EventHubsOptions, Publisher};
use connect::sink::SendToken;
use rustix::process::{Pid, Resource, Rlimit, getrlimit, prlimit};

/// More than a process with 128 descriptors can hold, for each of its addresses.
const IDLE: usize = 200;

/// Where what is told under `label` is served.
fn address<'a>(serving: &'a Serving, label: &str) -> &'a str {
    let url = serving.announced(label);
    let rest = url.split_once("://").map_or(url, |(_, rest)| rest);
    rest.split_once('/').map_or(rest, |(address, _)| address)
}

fn connection_string(serving: &Serving) -> ConnectionString {
    serving.announced("namespace").parse().unwrap()
}

/// Where AMQP is served.
fn amqp(serving: &Serving) -> String {
    let string = serving.announced("namespace");
    let endpoint = string.split_once("//").unwrap().1;
    endpoint.split_once('/').unwrap().0.to_owned()
}

/// What the metric of this name shows.
fn metric(serving: &Serving, name: &str) -> u64 {
    let answer = serving.answer("Metrics");
    let figure = answer.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    figure.unwrap_or_else(|| panic!("no {name} in {answer}")).parse().unwrap()
}

/// Publishes to every partition and waits until all of it is stored.
async fn publish(connection_string: ConnectionString, sends: u64) {
    let options = EventHubsOptions::new(connection_string, Some("events")).unwrap();
    let mut publisher = Publisher::connect(options).await.unwrap();
    let (mut sent, mut stored) = (0, 0);
    let mut outcomes = Vec::new();
    while stored < sends {
        while sent < sends {
            let fill = |_: usize, payload: &mut [u8]| payload.fill(7);
            let partition = (sent % 4) as u32;
            let published = publisher.publish_payloads(SendToken(sent), partition, 5, 1_000, fill);
            if published.is_err() {
                break;
            }
            sent += 1;
        }
        poll_fn(|context| publisher.poll_outcomes(context, &mut outcomes)).await.unwrap();
        for outcome in outcomes.drain(..) {
            outcome.result.unwrap();
            stored += 1;
        }
    }
}

fn within<T>(what: &str, future: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime
        .block_on(async { tokio::time::timeout(Duration::from_secs(60), future).await })
        .unwrap_or_else(|_| panic!("{what} did not come"))
}

#[test]
fn idle_sockets_stop_neither_health_nor_new_clients_nor_durable_events() {
    let directory = tempfile::tempdir().unwrap();
    let data = directory.path().join("data");
    let arguments = [
        "--hub",
        "events:4",
        "--data-dir",
        data.to_str().unwrap(),
        "--sync",
        "always",
        "--blob",
        "127.0.0.1:0",
    ];
    let serving = Serving::start_within(128, &arguments);
    let health = address(&serving, "Health").to_owned();
    let blob = address(&serving, "Blobs").to_owned();
    let mut idle = Vec::new();
    for address in [amqp(&serving), health, blob] {
        for _ in 0..IDLE {
            idle.push(TcpStream::connect(&address).unwrap());
        }
    }
    let answer = serving.answer("Health");
    assert!(answer.ends_with(r#"{"status":"healthy","message":"Service is healthy."}"#), "{answer}");
    within("what was published", publish(connection_string(&serving), 400));
    assert_eq!(metric(&serving, "parshall_hub_storage_failures_total"), 0);
    assert_eq!(metric(&serving, "parshall_accept_failures_total"), 0);
    let maximum = metric(&serving, "parshall_amqp_connections_maximum");
    assert!((8..128).contains(&maximum), "{maximum} places");
    assert!(metric(&serving, "parshall_amqp_connections_evicted_total") > 0);
    drop(idle);
}

#[test]
fn the_soft_limit_is_raised_to_the_hard_one() {
    let serving = Serving::start(&[]);
    let limits = format!("/proc/{}/limits", serving.process_id());
    let limits = std::fs::read_to_string(limits).unwrap();
    let files = limits.lines().find(|line| line.starts_with("Max open files"));
    let limits: Vec<_> = files.unwrap().split_whitespace().skip(3).take(2).collect();
    assert_eq!(limits[0], limits[1], "soft and hard");
    let serving = Serving::start_within_soft(100, &[]);
    let maximum = metric(&serving, "parshall_amqp_connections_maximum");
    assert!(maximum > 100, "{maximum} places");
}

#[test]
fn a_process_out_of_descriptors_says_so_once_and_goes_on_when_there_are_some_again() {
    let mut serving = Serving::start_with_log(&[]);
    let pid = Pid::from_raw(serving.process_id().cast_signed());
    let set = |current| {
        let limit = Rlimit { current: Some(current), maximum: getrlimit(Resource::Nofile).maximum };
        prlimit(pid, Resource::Nofile, limit).unwrap()
    };
    let before = set(1);
    // The second one waits all the longer for somebody to spin.
    let waiting = [0; 2].map(|_| TcpStream::connect(amqp(&serving)).unwrap());
    let told = serving.log_until("connections can't be accepted");
    assert!(told.contains("protocol=\"AMQP\""), "{told}");
    prlimit(pid, Resource::Nofile, before).unwrap();
    serving.log_until("connections are accepted again");
    assert!(metric(&serving, "parshall_accept_failures_total") > 0);
    drop(waiting);
    let log = serving.end_with_log();
    assert!(!log.contains("can't be accepted"), "it was said once: {log}");
}
