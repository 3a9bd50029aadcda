//! `parshall relay` where its source or its checkpoints are not what they were: events that retention took, a hub that was
//! created again, a checkpoint that was damaged, a second relay on the same checkpoints. And the largest event there is.

use std::future::poll_fn;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use connect::event_hubs::{Destination, EventHubsOptions, Publisher};
use connect::sink::SendToken;
use hub::namespace::{HubConfig, NamespaceConfig};
use hub::service::{Service, ServiceConfig};
use partition_log::LogLimits;
use partition_log::UnixTime;
use rustix::process::{Pid, Signal, kill_process};
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, BufReader};
use tokio::process::{Child, Command};
use units::ByteSize;

/// A service with the hubs `source`, whose log holds little, and `destination`; and a pipeline between them.
struct Rig {
    service: Service,
    publisher: Publisher,
    folder: tempfile::TempDir,
}

/// How a relay ended.
struct Ended {
    status: Option<i32>,
    said: String,
}

impl Rig {
    async fn start() -> Self {
        let hubs = vec![source_hub(), HubConfig::new("destination", 1)];
        let config = ServiceConfig::loopback(NamespaceConfig::with_hubs(hubs));
        let service = Service::start(config).await.unwrap();
        let options = EventHubsOptions::new(service.connection_string(None), Some("source"));
        Self {
            publisher: Publisher::connect(options.unwrap()).await.unwrap(),
            service,
            folder: tempfile::tempdir().unwrap(),
        }
    }

    /// Writes the pipeline, with these lines besides.
    fn pipeline(&self, more: &str) {
        let connection_string = self.service.connection_string(None);
        let text = format!(
            "source:\n  event_hubs: {{connection_string: '{0}', hub: source}}\n\
             sink:\n  event_hubs: {{connection_string: '{0}', hub: destination}}\n\
             checkpoint: {{store: {{files: ./checkpoints}}}}\nrestart_after: 10 ms\n{more}",
            connection_string.reveal()
        );
        std::fs::write(self.folder.path().join("mine.yaml"), text).unwrap();
    }

    fn command(&self) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_parshall"));
        command
            .args(["relay", "mine.yaml"])
            .current_dir(self.folder.path())
            .env_clear()
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true);
        command
    }

    /// Starts a relay, and waits until it runs.
    async fn relay(&self) -> Child {
        let mut child = self.command().spawn().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        while lines.next_line().await.unwrap().unwrap() != "Running." {}
        child
    }

    /// Publishes events of so many bytes, one at a time.
    async fn publish(&mut self, events: usize, bytes: usize) {
        let payload = vec![b'x'; bytes];
        let mut message = Vec::new();
        amqp::message::encode::data(&mut message, &payload);
        let mut outcomes = Vec::new();
        for number in 0..events {
            while self.publisher.publish(SendToken(0), Destination::Partition(0), [&message[..]]).is_err() {
                poll_fn(|context| self.publisher.poll_ready(context)).await.unwrap();
            }
            while outcomes.len() <= number {
                poll_fn(|context| self.publisher.poll_outcomes(context, &mut outcomes)).await.unwrap();
            }
        }
        assert!(outcomes.iter().all(|outcome| outcome.result.is_ok()));
    }

    fn events(&self, hub: &str) -> u64 {
        let hub = self.service.namespace().hub(hub).unwrap();
        hub.counters().events_in
    }

    /// Waits until the destination has had so many events.
    async fn arrived(&self, events: u64) {
        while self.events("destination") < events {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    }

    fn checkpoint(&self) -> PathBuf {
        let host = self.service.connection_string(None);
        let group = self.folder.path().join("checkpoints");
        group.join(host.endpoint.host()).join("source/$Default/checkpoint/0")
    }
}

fn source_hub() -> HubConfig {
    HubConfig {
        log: Some(LogLimits { bytes: ByteSize::from_mebibytes(2), ..LogLimits::default() }),
        ..HubConfig::new("source", 1)
    }
}

async fn ended(mut child: Child) -> Ended {
    let mut said = String::new();
    let mut stderr = child.stderr.take().unwrap();
    stderr.read_to_string(&mut said).await.unwrap();
    let status = child.wait().await.unwrap().code();
    Ended { status, said }
}

async fn stop(child: Child) -> Ended {
    let id = i32::try_from(child.id().unwrap()).unwrap();
    kill_process(Pid::from_raw(id).unwrap(), Signal::TERM).unwrap();
    ended(child).await
}

fn number(said: &str, before: &str, after: &str) -> u64 {
    let rest = said.split_once(before).unwrap_or_else(|| panic!("{said}")).1;
    rest.split_once(after).unwrap().0.trim().parse().unwrap()
}

#[tokio::test]
async fn what_retention_took_is_reported_and_not_completed_or_stops_the_relay() {
    let mut rig = Rig::start().await;
    rig.pipeline("missed_events: stop\n");
    let relay = rig.relay().await;
    rig.publish(10, 100).await;
    rig.arrived(10).await;
    let first = stop(relay).await;
    assert_eq!(first.status, Some(0), "{}", first.said);
    assert!(first.said.contains("missed       0 events"), "{}", first.said);
    rig.publish(100, 64 << 10).await;
    let stopped = ended(rig.command().spawn().unwrap()).await;
    assert_eq!(stopped.status, Some(3), "{}", stopped.said);
    assert!(stopped.said.contains("event 10 was expected, "), "{}", stopped.said);
    assert_eq!(rig.events("destination"), 10);
    rig.pipeline("");
    let relay = rig.relay().await;
    // The newest event is still there, whatever went before it.
    rig.publish(1, 100).await;
    let hub = rig.service.namespace().hub("source").unwrap();
    let log = hub.partitions()[0].log();
    let left = log.stats().begin_sequence_number;
    rig.arrived(10 + 111 - left).await;
    let reported = stop(relay).await;
    assert_eq!(reported.status, Some(0), "{}", reported.said);
    let missed = number(&reported.said, "missed       ", " events");
    let completed = number(&reported.said, "completed    ", " events");
    assert!(missed > 0, "{}", reported.said);
    assert_eq!(10 + missed + completed, 111, "{}", reported.said);
    assert_eq!(rig.events("destination"), 10 + completed);
    assert!(reported.said.contains("events are missing"), "{}", reported.said);
    rig.service.stop().await;
}

#[tokio::test]
async fn the_largest_event_that_a_hub_takes_reaches_another_once_with_those_around_it() {
    let mut rig = Rig::start().await;
    rig.pipeline("");
    let relay = rig.relay().await;
    rig.publish(5, 100).await;
    // With the 8 bytes of its section it has the size that links allow.
    rig.publish(1, (1 << 20) - 8).await;
    rig.publish(5, 100).await;
    rig.arrived(11).await;
    let ended = stop(relay).await;
    assert_eq!(ended.status, Some(0), "{}", ended.said);
    assert!(!ended.said.contains("poison"), "{}", ended.said);
    assert_eq!(rig.events("destination"), 11);
    rig.service.stop().await;
}

#[tokio::test]
async fn a_hub_that_was_created_again_is_read_from_its_first_event() {
    let mut rig = Rig::start().await;
    rig.pipeline("");
    let relay = rig.relay().await;
    rig.publish(50, 100).await;
    rig.arrived(50).await;
    rig.service.namespace().delete_hub("source").unwrap();
    rig.service.namespace().create_hub(&source_hub(), UnixTime::from_milliseconds(0)).unwrap();
    let options = EventHubsOptions::new(rig.service.connection_string(None), Some("source"));
    rig.publisher = Publisher::connect(options.unwrap()).await.unwrap();
    rig.publish(7, 100).await;
    rig.arrived(57).await;
    let ended = stop(relay).await;
    assert_eq!(ended.status, Some(0), "{}", ended.said);
    assert!(ended.said.contains("restarted    1 partitions"), "{}", ended.said);
    let relay = rig.relay().await;
    rig.publish(1, 100).await;
    rig.arrived(58).await;
    let again = stop(relay).await;
    assert!(!again.said.contains("restarted"), "{}", again.said);
    rig.service.stop().await;
}

#[tokio::test]
async fn an_empty_checkpoint_is_refused_by_name_and_skips_nothing() {
    let mut rig = Rig::start().await;
    rig.pipeline("start: latest\n");
    let relay = rig.relay().await;
    while rig.events("destination") == 0 {
        rig.publish(1, 100).await;
    }
    stop(relay).await;
    let checkpoint = rig.checkpoint();
    std::fs::write(&checkpoint, "").unwrap();
    let refused = ended(rig.command().spawn().unwrap()).await;
    assert_eq!(refused.status, Some(3), "{}", refused.said);
    let end = Path::new("source/$Default/checkpoint/0 is damaged: it is empty");
    assert!(refused.said.contains(end.to_str().unwrap()), "{}", refused.said);
    rig.service.stop().await;
}

#[tokio::test]
async fn a_second_relay_on_the_same_checkpoints_is_refused_unless_both_share_or_split_them() {
    let rig = Rig::start().await;
    rig.pipeline("");
    let first = rig.relay().await;
    let refused = ended(rig.command().spawn().unwrap()).await;
    assert_eq!(refused.status, Some(3), "{}", refused.said);
    let process = format!("in use by process {} ", first.id().unwrap());
    assert!(refused.said.contains(&process), "{}", refused.said);
    assert!(refused.said.contains("ownership"), "{}", refused.said);
    stop(first).await;
    rig.pipeline("ownership: {mode: greedy}\n");
    let shared = [rig.relay().await, rig.relay().await];
    for relay in shared {
        assert_eq!(stop(relay).await.status, Some(0));
    }
    rig.service.stop().await;
}
