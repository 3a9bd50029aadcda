//! What `parshall relay` says of itself when something is wrong: exit status and reason where it can't mend itself, and
//! otherwise readiness, lag and one line of the log per cause.
//!
//! Nothing waits for a time: everything waits for what the relay says, over HTTP or in its log.

use std::future::poll_fn;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use access::TransportSecurity;
use connect::event_hubs::{EventHubsOptions, Publisher};
use connect::sink::SendToken;
use hub::namespace::{HubConfig, NamespaceConfig, RightConfig, RuleConfig};
use hub::service::{Protocol, Service, ServiceConfig};
use rustix::process::{Pid, Signal, kill_process};
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader, Lines};
use tokio::net::TcpStream;
use tokio::process::{Child, ChildStderr, Command};

use crate::switch::Switch;

const PARTITIONS: u16 = 4;

/// A service with the hubs `source` and `destination`, and keys that may only send or only listen.
async fn service() -> Service {
    let hubs = ["source", "destination"].map(|name| HubConfig::new(name, PARTITIONS));
    let mut namespace = NamespaceConfig::with_hubs(hubs.into());
    for (name, right) in [("sender", RightConfig::Send), ("listener", RightConfig::Listen)] {
        namespace.authorization_rules.push(RuleConfig {
            name: name.to_owned(),
            key: "its key".into(),
            rights: vec![right],
        });
    }
    Service::start(ServiceConfig::loopback(namespace)).await.unwrap()
}

fn connection_string(service: &Service) -> String {
    service.connection_string(None).reveal()
}

/// The connection string with another key.
fn with_key(connection_string: &str, name: &str, key: &str) -> String {
    let parts = connection_string.split(';').map(|part| {
        if part.starts_with("SharedAccessKeyName=") {
            format!("SharedAccessKeyName={name}")
        } else if part.starts_with("SharedAccessKey=") {
            format!("SharedAccessKey={key}")
        } else {
            part.to_owned()
        }
    });
    parts.collect::<Vec<_>>().join(";")
}

fn pipeline(source: &str, sink: &str, more: &str) -> String {
    format!(
        "source:\n  event_hubs: {{connection_string: '{source}', hub: source}}\n\
         sink:\n  event_hubs: {{connection_string: '{sink}', hub: destination}}\n\
         checkpoint: {{store: {{files: ./checkpoints}}}}\n{more}"
    )
}

pub(crate) fn command(folder: &Path, pipeline: &str) -> Command {
    std::fs::write(folder.join("mine.yaml"), pipeline).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_parshall"));
    command
        .args(["relay", "mine.yaml"])
        .current_dir(folder)
        .env_clear()
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true);
    command
}

/// A relay that serves its metrics.
pub(crate) struct Relaying {
    child: Child,
    metrics: String,
    log: Lines<BufReader<ChildStderr>>,
    said: Vec<String>,
}

impl Relaying {
    pub(crate) async fn start(folder: &Path, pipeline: &str) -> Self {
        let mut child = command(folder, pipeline).spawn().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let address = |line: &str| {
            let line = line.strip_prefix("metrics ")?.trim();
            let address = line.strip_prefix("http://")?.strip_suffix("/metrics")?;
            Some(address.to_owned())
        };
        let metrics = loop {
            let line = lines.next_line().await.unwrap().unwrap();
            if let Some(address) = address(&line) {
                break address;
            }
        };
        Self { log: BufReader::new(child.stderr.take().unwrap()).lines(), child, metrics, said: Vec::new() }
    }

    /// Status line and content of an answer.
    pub(crate) async fn get(&self, path: &str) -> String {
        let mut stream = TcpStream::connect(&self.metrics).await.unwrap();
        let request = format!("GET /{path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.unwrap();
        answer
    }

    /// Asks until the answer is as it should be.
    pub(crate) async fn until(&self, path: &str, enough: impl Fn(&str) -> bool) -> String {
        loop {
            let answer = self.get(path).await;
            if enough(&answer) {
                return answer;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    pub(crate) async fn until_ready(&self) {
        self.until("ready", |answer| answer.starts_with("HTTP/1.1 200")).await;
    }

    /// Waits for a line of the log.
    pub(crate) async fn until_said(&mut self, text: &str) {
        loop {
            let line = self.log.next_line().await.unwrap().unwrap();
            let is_it = line.contains(text);
            self.said.push(line);
            if is_it {
                return;
            }
        }
    }

    /// Stops it in good order; gives all that it said.
    pub(crate) async fn stop(mut self) -> Vec<String> {
        let id = i32::try_from(self.child.id().unwrap()).unwrap();
        kill_process(Pid::from_raw(id).unwrap(), Signal::TERM).unwrap();
        while let Some(line) = self.log.next_line().await.unwrap() {
            self.said.push(line);
        }
        assert_eq!(self.child.wait().await.unwrap().code(), Some(0));
        self.said
    }
}

/// The sum of a metric over its labels.
fn sum(answer: &str, name: &str) -> Option<f64> {
    let values = answer.lines().filter_map(|line| {
        let rest = line.strip_prefix(name)?.strip_prefix('{')?;
        rest.split_once("} ")?.1.parse::<f64>().ok()
    });
    let values: Vec<f64> = values.collect();
    (values.len() == usize::from(PARTITIONS)).then(|| values.iter().sum())
}

fn warnings(said: &[String]) -> Vec<&String> {
    said.iter().filter(|line| line.contains(" WARN ")).collect()
}

async fn publish(service: &Service, events_per_partition: usize) {
    let options = EventHubsOptions::new(service.connection_string(None), Some("source")).unwrap();
    let mut publisher = Publisher::connect(options).await.unwrap();
    let mut outcomes = Vec::new();
    for partition in 0..u32::from(PARTITIONS) {
        while publisher
            .publish_payloads(SendToken(u64::from(partition)), partition, events_per_partition, 16, |_, _| {})
            .is_err()
        {
            poll_fn(|context| publisher.poll_ready(context)).await.unwrap();
        }
    }
    while outcomes.len() < usize::from(PARTITIONS) {
        poll_fn(|context| publisher.poll_outcomes(context, &mut outcomes)).await.unwrap();
    }
    assert!(outcomes.iter().all(|outcome| outcome.result.is_ok()));
    publisher.shut_down().await;
}

async fn in_time(test: impl Future<Output = ()>) {
    tokio::time::timeout(Duration::from_secs(120), test).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_can_not_mend_itself_ends_it_with_the_entity_the_reason_and_what_to_do() {
    in_time(async {
        let service = service().await;
        let full = connection_string(&service);
        let [sender, listener] = ["sender", "listener"].map(|name| with_key(&full, name, "its key"));
        let wrong = with_key(&full, "sender", "another key");
        let group = full.clone();
        let cases = [
            (
                pipeline(&full, &full, "").replace("hub: source", "hub: source, consumer_group: nosuch"),
                ["amqp:not-found", "hub source, consumer group nosuch", "source.event_hubs"],
            ),
            (
                pipeline(&sender, &full, ""),
                ["amqp:unauthorized-access", "hub source", "have the listen right"],
            ),
            (
                pipeline(&full, &listener, ""),
                ["amqp:unauthorized-access", "hub destination", "have the send right"],
            ),
            (pipeline(&full, &wrong, ""), ["amqp:unauthorized-access", "the key sender", "sink.event_hubs"]),
            (
                pipeline(&full, &group, "").replace("hub: destination", "hub: nosuch"),
                ["amqp:not-found", "hub nosuch", "sink.event_hubs"],
            ),
        ];
        for (pipeline, expected) in cases {
            let folder = tempfile::tempdir().unwrap();
            let output = command(folder.path(), &pipeline).output().await.unwrap();
            let said = String::from_utf8(output.stderr).unwrap();
            assert_eq!(output.status.code(), Some(3), "{said}");
            for text in expected {
                assert!(said.contains(text), "{text} is not in {said}");
            }
            assert!(!said.contains(" WARN "), "{said}");
            let told = String::from_utf8(output.stdout).unwrap();
            assert!(!told.contains("Running"), "it never did: {told}");
            assert_eq!(said.lines().count(), 2, "reason and advice: {said}");
        }
        service.stop().await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_its_sink_it_is_alive_but_not_ready_and_reports_its_lag_and_the_cause_once() {
    in_time(async {
        let service = service().await;
        let full = connection_string(&service);
        let mut way = Switch::to(service.amqp_address());
        let by_way = full.replace(
            &service.amqp_address().port().to_string(),
            &way.address().port().to_string(),
        );
        let folder = tempfile::tempdir().unwrap();
        let pipeline = pipeline(&full, &by_way, "metrics: 127.0.0.1:0\n");
        let mut relay = Relaying::start(folder.path(), &pipeline).await;
        publish(&service, 25).await;
        relay.until_ready().await;
        let lag = "parshall_relay_lag_events";
        relay
            .until("metrics", |answer| sum(answer, lag) == Some(0.0))
            .await;

        way.turn_off().await;
        let unready = relay
            .until("ready", |answer| answer.starts_with("HTTP/1.1 503"))
            .await;
        assert!(unready.contains("not ready\nsink: connection:"), "{unready}");
        assert!(relay.get("health").await.starts_with("HTTP/1.1 200"));
        publish(&service, 10).await;
        let behind = relay
            .until("metrics", |answer| {
                sum(answer, lag) == Some(40.0)
            })
            .await;
        for line in [
            "parshall_relay_connected{side=\"source\"} 1.0",
            "parshall_relay_connected{side=\"sink\"} 0.0",
            "parshall_relay_ready 0.0",
            "parshall_relay_position_sequence_number{partition=\"0\"} 24.0",
            "parshall_relay_last_error_timestamp_seconds{place=\"sink\",class=\"retryable\",condition=\"connection:",
            "parshall_build_info{version=",
        ] {
            assert!(behind.contains(line), "{line} is not in {behind}");
        }
        let age = sum(&behind, "parshall_relay_lag_seconds").unwrap();
        assert!(age > 0.0 && age < 4.0 * 120.0, "{age}");

        way.turn_on();
        relay.until_ready().await;
        relay
            .until("metrics", |answer| {
                sum(answer, "parshall_relay_position_sequence_number") == Some(4.0 * 34.0)
            })
            .await;
        relay.until_said("over after").await;
        let said = relay.stop().await;
        let warnings = warnings(&said);
        assert!((1..=2).contains(&warnings.len()), "{said:#?}");
        for condition in ["connection:lost", "connection:unreachable"] {
            let of = |line: &&&String| line.contains(&format!("condition=\"{condition}\""));
            assert!(warnings.iter().filter(of).count() <= 1, "{said:#?}");
        }
        service.stop().await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_lag_of_a_topic_is_reported_while_its_events_can_not_be_sent() {
    in_time(async {
        let hubs = ["source", "destination"].map(|name| HubConfig::new(name, PARTITIONS));
        let namespace = NamespaceConfig::with_hubs(hubs.into());
        let service = Service::start(ServiceConfig::loopback(namespace).and(Protocol::Kafka)).await.unwrap();
        let mut way = Switch::to(service.amqp_address());
        let [port, by_way] =
            [service.amqp_address(), way.address()].map(|address| address.port().to_string());
        let sink = connection_string(&service).replace(&port, &by_way);
        let of_kafka = service.connection_string_over(Protocol::Kafka, TransportSecurity::Plain, None);
        let pipeline = format!(
            "source:\n  kafka: {{connection_string: '{}', topic: source}}\n\
             sink:\n  event_hubs: {{connection_string: '{sink}', hub: destination}}\n\
             checkpoint: {{store: group}}\nownership: {{mode: group}}\nmetrics: 127.0.0.1:0\n",
            of_kafka.unwrap().reveal()
        );
        publish(&service, 25).await;
        let folder = tempfile::tempdir().unwrap();
        let relay = Relaying::start(folder.path(), &pipeline).await;
        relay.until_ready().await;
        let lag = "parshall_relay_lag_events";
        let even = relay.until("metrics", |answer| sum(answer, lag) == Some(0.0)).await;
        assert_eq!(sum(&even, "parshall_relay_lag_seconds"), Some(0.0));
        way.turn_off().await;
        relay.until("ready", |answer| answer.starts_with("HTTP/1.1 503")).await;
        publish(&service, 10).await;
        let behind = relay.until("metrics", |answer| sum(answer, lag) == Some(40.0)).await;
        assert_eq!(sum(&behind, "parshall_relay_last_enqueued_sequence_number"), Some(4.0 * 34.0));
        let age = sum(&behind, "parshall_relay_lag_seconds").unwrap();
        assert!(age > 0.0 && age < 4.0 * 120.0, "{age}");
        way.turn_on();
        relay.until("metrics", |answer| sum(answer, lag) == Some(0.0)).await;
        relay.stop().await;
        service.stop().await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn relays_that_share_partitions_as_they_should_warn_of_nothing() {
    in_time(async {
        let service = service().await;
        let full = connection_string(&service);
        let folder = tempfile::tempdir().unwrap();
        let pipeline = pipeline(
            &full,
            &full,
            "metrics: 127.0.0.1:0\nownership: {mode: balanced, renew: 200 ms, expire: 20 s}\n",
        );
        let owns = |count: u16| {
            move |answer: &str| answer.contains(&format!("\nparshall_relay_owned_partitions {count}\n"))
        };
        let first = Relaying::start(folder.path(), &pipeline).await;
        first.until("metrics", owns(PARTITIONS)).await;
        first.until_ready().await;
        let second = Relaying::start(folder.path(), &pipeline).await;
        for relay in [&first, &second] {
            relay.until("metrics", owns(PARTITIONS / 2)).await;
            relay.until_ready().await;
        }
        for relay in [first, second] {
            let said = relay.stop().await;
            assert!(warnings(&said).is_empty(), "{said:#?}");
        }
        service.stop().await;
    })
    .await;
}
