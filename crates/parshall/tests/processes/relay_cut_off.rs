//! What `/ready` of `parshall relay` says while neither end nor the store can be reached: services that are frozen, so that connections stay
//! and are accepted but nothing is answered, and services that are gone.
//!
//! Nothing waits for a time: everything waits for what the relays say.

use std::future::poll_fn;
use std::path::Path;
use std::time::Duration;

use connect::event_hubs::{EventHubsOptions, Publisher};
use connect::sink::SendToken;
use rustix::process::{Pid, Signal, kill_process};

use super::relay_health::Relaying;
use crate::serving::{Serving, serve};

const PARTITIONS: u32 = 4;

/// `parshall serve` with everything that relays use, at these addresses.
fn start_service(folder: &Path, [amqp, kafka, blob]: &[String; 3]) -> Serving {
    let mut command = serve(&["--amqp", amqp, "--kafka", kafka, "--blob", blob, "--http", "127.0.0.1:0"]);
    command.args(["--hub", "source:4", "--hub", "shared:4", "--hub", "destination:4"]);
    command.args(["--queue", "jobs", "--queue", "done"]);
    command.arg("--data-dir").arg(folder.join("data"));
    Serving::of(command)
}

fn signal(serving: &Serving, signal: Signal) {
    let id = i32::try_from(serving.process_id()).unwrap();
    kill_process(Pid::from_raw(id).unwrap(), signal).unwrap();
}

/// The pipelines of relays of every kind.
fn pipelines(serving: &Serving) -> [(&'static str, String); 5] {
    let namespace = serving.announced("namespace");
    let storage = serving.announcement.lines().find_map(|line| line.split_once("  DefaultEndpoints"));
    let storage = format!("DefaultEndpoints{}", storage.unwrap().1);
    let hubs = |source: &str| {
        format!(
            "source: {{event_hubs: {{connection_string: '{namespace}', hub: {source}}}}}\n\
             sink: {{event_hubs: {{connection_string: '{namespace}', hub: destination}}}}\n"
        )
    };
    let properties = "request.timeout.ms: 3000, session.timeout.ms: 6000, heartbeat.interval.ms: 1000";
    let bootstrap = serving.announced("Kafka ");
    let topics = |properties: &str| {
        format!(
            "source: {{kafka: {{bootstrap: '{bootstrap}', topic: source, group: mirror, \
             properties: {{{properties}}}}}}}\n\
             sink: {{kafka: {{bootstrap: '{bootstrap}', topic: destination}}}}\n"
        )
    };
    let queues = format!(
        "source: {{service_bus: {{connection_string: '{namespace}', queue: jobs}}}}\n\
         sink: {{service_bus: {{connection_string: '{namespace}', queue: done}}}}\n"
    );
    let blobs = format!(
        "checkpoint: {{store: {{blob: {{connection_string: '{storage}', container: kept, create: true}}}}}}"
    );
    let files = "checkpoint: {store: {files: ./checkpoints}}\n";
    let with = |ends: &str, more: &str| format!("{ends}{more}metrics: 127.0.0.1:0\n");
    [
        ("hubs", with(&hubs("source"), files)),
        (
            "shared hubs",
            with(
                &hubs("shared"),
                &format!("{blobs}\nownership: {{mode: greedy, renew: 500 ms, expire: 4 s}}\n"),
            ),
        ),
        ("topics", with(&topics("request.timeout.ms: 3000"), files)),
        (
            "shared topics",
            with(&topics(properties), "checkpoint: {store: group}\nownership: {mode: group}\n"),
        ),
        ("queues", with(&queues, "")),
    ]
}

/// Keeps the connections of all relays that read events busy.
async fn publish(serving: &Serving, hub: &str, rounds: u64) {
    let connection_string = serving.announced("namespace").parse().unwrap();
    let options = EventHubsOptions::new(connection_string, Some(hub)).unwrap();
    let mut publisher = Publisher::connect(options).await.unwrap();
    for _ in 0..rounds {
        let mut outcomes = Vec::new();
        for partition in 0..PARTITIONS {
            while publisher.publish_payloads(SendToken(0), partition, 4, 16, |_, _| {}).is_err() {
                poll_fn(|context| publisher.poll_ready(context)).await.unwrap();
            }
        }
        while outcomes.len() < PARTITIONS as usize {
            poll_fn(|context| publisher.poll_outcomes(context, &mut outcomes)).await.unwrap();
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    publisher.shut_down().await;
}

async fn until_unready(relays: &[(&str, Relaying)]) {
    for (_, relay) in relays {
        relay.until("ready", |answer| answer.starts_with("HTTP/1.1 503")).await;
    }
}

async fn until_ready(relays: &[(&str, Relaying)]) {
    for (_, relay) in relays {
        relay.until_ready().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn relays_of_every_kind_are_not_ready_until_services_that_were_frozen_or_gone_answer_again() {
    let folder = tempfile::tempdir().unwrap();
    let any = ["127.0.0.1:0"; 3].map(str::to_owned);
    let serving = start_service(folder.path(), &any);
    let addresses = ["AMQP ", "Kafka ", "Blobs"].map(|label| {
        let address = serving.announced(label);
        let address = address.strip_prefix("http://").unwrap_or(address);
        address.split('/').next().unwrap().to_owned()
    });
    let test = async {
        let mut relays = Vec::new();
        for (name, pipeline) in pipelines(&serving) {
            let folder = folder.path().join(name.replace(' ', "-"));
            std::fs::create_dir(&folder).unwrap();
            relays.push((name, Relaying::start(&folder, &pipeline).await));
        }
        until_ready(&relays).await;
        tokio::join!(publish(&serving, "source", 50), publish(&serving, "shared", 50));

        signal(&serving, Signal::STOP);
        until_unready(&relays).await;
        // Claims and sessions end, connections are given up and tried again: nothing of that makes it any better.
        for (_, relay) in relays.iter().filter(|(name, _)| name.starts_with("shared")) {
            let is_lost = |answer: &str| answer.contains("\nparshall_relay_owned_partitions 0\n");
            relay.until("metrics", is_lost).await;
        }
        for _ in 0..20 {
            for (name, relay) in &relays {
                let answer = relay.get("ready").await;
                assert!(answer.starts_with("HTTP/1.1 503"), "{name}: {answer}");
            }
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
        signal(&serving, Signal::CONT);
        until_ready(&relays).await;

        assert_eq!(serving.end(Signal::KILL), None);
        until_unready(&relays).await;
        let serving = start_service(folder.path(), &addresses);
        until_ready(&relays).await;
        for (_, relay) in relays {
            relay.stop().await;
        }
        drop(serving);
    };
    tokio::time::timeout(Duration::from_secs(180), test).await.unwrap();
}
