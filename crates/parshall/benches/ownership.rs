//! How long partitions are without an owner when relays come and go, under load, with real processes.
//!
//! * `scale out`: one relay carries; two more are started. Until every partition is open again and the shares are equal,
//!   counted from the start of the processes and from the moment at which the later one says that it is running.
//! * `leave`: one of three is stopped in good order. Until its partitions are open elsewhere, counted from the signal and
//!   from its end.
//! * `kill`: one of three is killed. Until its partitions are open elsewhere; no sooner than its claims expire.
//!
//! The reference is the renewal interval: the goal for the first two is twice that. Prints medians with minimum and maximum.
//! `PARSHALL_BENCH_QUICK=1` makes one round with short intervals.
#![expect(
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "a benchmark prints, and stops at the first surprise"
)]

use std::future::poll_fn;
use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};

use connect::event_hubs::{EventHubsOptions, Publisher};
use connect::sink::SendToken;
use hub::namespace::{HubConfig, NamespaceConfig};
use hub::service::{Service, ServiceConfig};
use rustix::process::{Pid, Signal, kill_process};
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::TcpStream;
use tokio::process::{Child, Command};

#[tokio::main(flavor = "multi_thread", worker_threads = 2)]
async fn main() {
    let quick = std::env::var_os("PARSHALL_BENCH_QUICK").is_some();
    let (rounds, renew) = if quick { (1, Duration::from_millis(200)) } else { (5, Duration::from_secs(1)) };
    let expire = renew * 5;
    println!(
        "{PARTITIONS} partitions under load, greedy, renewed every {renew:?}, expiring after {expire:?}; medians [min-max] of \
         {rounds}"
    );
    let mut times: [Vec<Duration>; 5] = Default::default();
    for number in 0..rounds {
        // Relays leave at different moments of the others' cycles, long after the last change.
        let quiet = renew * 2 + renew * number / rounds;
        let round = round(renew, expire, quiet).await;
        for (times, time) in times.iter_mut().zip(round) {
            times.push(time);
        }
    }
    let names = [
        "scale out 1 → 3, from the start",
        "scale out 1 → 3, from running",
        "leave 3 → 2, from the signal",
        "leave 3 → 2, from the end",
        "kill 3 → 2",
    ];
    for (name, times) in names.iter().zip(&mut times) {
        times.sort_unstable();
        let median = times[times.len() / 2];
        println!(
            "{name:34} {:7.0} ms [{:.0}-{:.0}], {:.2} renewals",
            ms(median),
            ms(times[0]),
            ms(times[times.len() - 1]),
            median.div_duration_f64(renew),
        );
    }
}

/// A service, a publisher and relays that come and go.
async fn round(renew: Duration, expire: Duration, quiet: Duration) -> [Duration; 5] {
    let hubs = ["source", "destination"].map(|name| HubConfig::new(name, PARTITIONS));
    let config = ServiceConfig::loopback(NamespaceConfig::with_hubs(hubs.into()));
    let service = Service::start(config).await.unwrap();
    let connection_string = service.connection_string(None);
    let options = EventHubsOptions::new(connection_string.clone(), Some("source")).unwrap();
    let publishing = tokio::spawn(publish(options));
    let folder = tempfile::tempdir().unwrap();
    let pipeline = format!(
        "source:\n  event_hubs: {{connection_string: '{0}', hub: source}}\n\
         sink:\n  event_hubs: {{connection_string: '{0}', hub: destination}}\n\
         checkpoint: {{store: {{files: ./checkpoints}}}}\n\
         ownership: {{mode: greedy, renew: {1} ms, expire: {2} ms}}\n\
         metrics: 127.0.0.1:0\n",
        connection_string.reveal(),
        renew.as_millis(),
        expire.as_millis(),
    );
    std::fs::write(folder.path().join("pipeline.yaml"), pipeline).unwrap();

    let mut relays = vec![Relay::start(folder.path())];
    until_shared(&mut relays).await;
    tokio::time::sleep(quiet).await;

    let started = Instant::now();
    relays.extend([Relay::start(folder.path()), Relay::start(folder.path())]);
    for relay in &mut relays {
        relay.address().await;
    }
    let running = Instant::now();
    until_shared(&mut relays).await;
    let (from_start, from_running) = (started.elapsed(), running.elapsed());

    tokio::time::sleep(quiet).await;
    let mut leaving = relays.remove(1);
    let signalled = Instant::now();
    leaving.send(Signal::TERM);
    leaving.child.wait().await.unwrap();
    let ended = Instant::now();
    until_shared(&mut relays).await;
    let (from_signal, from_end) = (signalled.elapsed(), ended.elapsed());

    relays.push(Relay::start(folder.path()));
    until_shared(&mut relays).await;
    tokio::time::sleep(quiet).await;
    let mut killed = relays.remove(0);
    let began = Instant::now();
    killed.child.kill().await.unwrap();
    until_shared(&mut relays).await;
    let from_kill = began.elapsed();

    for mut relay in relays {
        relay.send(Signal::TERM);
        relay.child.wait().await.unwrap();
    }
    publishing.abort();
    service.stop().await;
    [from_start, from_running, from_signal, from_end, from_kill]
}

/// Waits until all partitions are open, in shares that differ by one at most.
async fn until_shared(relays: &mut [Relay]) {
    loop {
        let mut open = Vec::new();
        for relay in &mut *relays {
            open.push(relay.open_partitions().await);
        }
        let (least, most) = (open.iter().min().unwrap(), open.iter().max().unwrap());
        if open.iter().sum::<u64>() == u64::from(PARTITIONS) && most - least <= 1 {
            return;
        }
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}

struct Relay {
    child: Child,
    address: Option<String>,
}

impl Relay {
    fn start(folder: &Path) -> Self {
        let child = Command::new(env!("CARGO_BIN_EXE_parshall"))
            .args(["relay", "pipeline.yaml"])
            .current_dir(folder)
            .env_clear()
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .kill_on_drop(true)
            .spawn()
            .unwrap();
        Self { child, address: None }
    }

    /// Where its metrics are, once it runs.
    async fn address(&mut self) -> String {
        if let Some(address) = &self.address {
            return address.clone();
        }
        let mut lines = BufReader::new(self.child.stdout.take().unwrap()).lines();
        loop {
            let line = lines.next_line().await.unwrap().unwrap();
            if let Some((_, url)) = line.split_once("http://") {
                let address = url.trim_end_matches("/metrics").to_owned();
                self.address = Some(address.clone());
                return address;
            }
        }
    }

    async fn open_partitions(&mut self) -> u64 {
        let mut stream = TcpStream::connect(self.address().await).await.unwrap();
        let request = b"GET /metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
        stream.write_all(request).await.unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.unwrap();
        let mut lines = answer.lines();
        let value = lines.find_map(|line| line.strip_prefix("parshall_relay_open_partitions "));
        value.unwrap().trim().parse().unwrap()
    }

    fn send(&self, signal: Signal) {
        let id = i32::try_from(self.child.id().unwrap()).unwrap();
        kill_process(Pid::from_raw(id).unwrap(), signal).unwrap();
    }
}

/// Sends batches to all partitions, a round every few milliseconds, for ever.
async fn publish(options: EventHubsOptions) {
    let mut publisher = Publisher::connect(options).await.unwrap();
    let mut outcomes = Vec::new();
    loop {
        let mut sent = 0;
        for partition in 0..u32::from(PARTITIONS) {
            let fill = |_index: usize, payload: &mut [u8]| payload.fill(0xa5);
            let token = SendToken(u64::from(partition));
            if publisher.publish_payloads(token, partition, 20, 100, fill).is_ok() {
                sent += 1;
            }
        }
        while outcomes.len() < sent {
            poll_fn(|context| publisher.poll_outcomes(context, &mut outcomes)).await.unwrap();
        }
        outcomes.clear();
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

fn ms(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1e3
}

const PARTITIONS: u16 = 32;
