//! How long `parshall serve` takes until clients can connect, with 10,000 partitions declared.
//!
//! Measured from outside: from the start of the process to its line "Ready.". The reference is the same program with
//! one hub of one partition in memory, which is what a process takes anyway. `memory` and `data directory` differ in
//! `--data-dir` alone; `restart` cases differ in what the directory holds: no events, one event per partition, and the same
//! after a process that did not close it, so that every partition's last segment must be scanned (one trial).
//!
//! At the end many services are started at the same moment, as the workers of a test suite do it: the time until the last one
//! is ready, and how much memory one of them takes then: its share, in which the pages of the program count once for all of them, and
//! what is resident of the largest one with all of these pages.
//!
//! Prints medians with minimum and maximum. `PARSHALL_BENCH_QUICK=1` runs a token amount.
#![expect(
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "a benchmark prints, and stops at the first surprise"
)]

use std::cell::Cell;
use std::fmt::Write as _;
use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant, SystemTime};

use hub::namespace::{HubConfig, Namespace, NamespaceConfig, StorageConfig};
use partition_log::NewRecord;
use partition_log::disk::{CommitState, StorageOptions, SyncPolicy};
use rustix::process::{Pid, Signal, kill_process};

fn main() {
    let quick = std::env::var_os("PARSHALL_BENCH_QUICK").is_some();
    let trials = if quick { 1 } else { 7 };
    println!("parshall serve until it is ready; medians [min-max] of {trials}");
    let floor = report("1 partition in memory (reference)", None, trials, |_| {
        start(&["--hub".into(), "one:1".into()])
    });
    let shapes: &[(usize, u16)] = if quick { &[(2, 5)] } else { &[(10, 1000), (1000, 10)] };
    for &(hubs, partitions) in shapes {
        let shape = format!("{hubs} hubs of {partitions} partitions");
        let declared = |directory: &Path| {
            let file = directory.join("namespace.yaml");
            let mut text = "hubs:\n".to_owned();
            for number in 0..hubs {
                let hub = format!("  - {{name: hub{number}, partitions: {partitions}}}");
                writeln!(text, "{hub}").unwrap();
            }
            std::fs::write(&file, text).unwrap();
            vec!["--config".to_owned(), file.to_str().unwrap().to_owned()]
        };
        let with_data = |directory: &Path| {
            let data = directory.join("data").to_str().unwrap().to_owned();
            [declared(directory), vec!["--data-dir".to_owned(), data]].concat()
        };
        report(&format!("{shape}, memory"), Some(floor), trials, |directory| start(&declared(directory)));
        report(&format!("{shape}, data directory, first start"), Some(floor), trials, |directory| {
            start(&with_data(directory))
        });
        // Filled once, since making ten thousand folders takes longer than anything here.
        let kept = tempfile::tempdir().unwrap();
        fill(&kept.path().join("data"), (hubs, partitions), 0, true);
        let restart = |name: &str, trials, directory: &Path| {
            let name = format!("{shape}, restart, {name}");
            report(&name, Some(floor), trials, |_| start(&with_data(directory)));
        };
        restart("without events", trials, kept.path());
        let filled = tempfile::tempdir().unwrap();
        fill(&filled.path().join("data"), (hubs, partitions), 1, true);
        restart("an event in each", trials, filled.path());
        // The first start mends it, so there is one.
        let broken = tempfile::tempdir().unwrap();
        fill(&broken.path().join("data"), (hubs, partitions), 1, false);
        restart("an event in each, not closed", 1, broken.path());
    }
    let services = if quick { 4 } else { 100 };
    let (share, largest) = (Cell::new(0), Cell::new(0));
    report(&format!("{services} services at the same moment, all ready"), Some(floor), trials, |_| {
        let (took, memory) = start_together(services);
        share.set(memory.share.max(share.get()));
        largest.set(memory.largest.max(largest.get()));
        took
    });
    println!(
        "{:60} {:7.1} MB",
        "memory of each, its share of the program included",
        share.get() as f64 / 1e6
    );
    println!(
        "{:60} {:7.1} MB",
        "resident of the largest, with all of the program",
        largest.get() as f64 / 1e6
    );
}

/// Makes a data directory as a process leaves it.
fn fill(directory: &Path, (hubs, partitions): (usize, u16), events: usize, closed: bool) {
    let hubs = (0..hubs).map(|number| HubConfig::new(format!("hub{number}"), partitions));
    let config = NamespaceConfig {
        storage: Some(StorageConfig {
            directory: directory.to_owned(),
            options: StorageOptions { sync: SyncPolicy::Os, ..StorageOptions::default() },
        }),
        ..NamespaceConfig::with_hubs(hubs.collect())
    };
    let now = SystemTime::now().into();
    let namespace = Namespace::new(&config, now).unwrap();
    let record = NewRecord { annotation_count: 0, annotations: &[], sections: &[&[7; 16]] };
    let mut commits = namespace.watch_commits().unwrap();
    let mut last = None;
    for hub in &*namespace.hubs() {
        for partition in hub.partitions() {
            for _ in 0..events {
                let appended = partition.append(now, |encoder| {
                    encoder.push(&record);
                    Ok::<_, std::convert::Infallible>(())
                });
                last = Some(appended.unwrap().commit);
            }
        }
    }
    if closed {
        namespace.close().unwrap();
    } else if let Some(last) = last {
        // What is written is on the disk; nobody says that it is all.
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(std::future::poll_fn(|context| {
            while commits.poll_committed(context).is_ready() {}
            match commits.state_of(last) {
                CommitState::Waiting => std::task::Poll::Pending,
                _ => std::task::Poll::Ready(()),
            }
        }));
    }
}

/// The time until a service is ready, which is then ended.
fn start(arguments: &[String]) -> Duration {
    let began = Instant::now();
    let mut child = spawn(arguments);
    wait_until_ready(&mut child);
    let took = began.elapsed();
    end(child);
    took
}

/// What services take that run at the same time, in bytes.
struct Memory {
    /// The mean of their proportional set sizes: a page that several processes have is divided among them.
    share: u64,
    /// The highest peak of a resident set.
    largest: u64,
}

/// The time until the last of so many services is ready that are started one after the other without waiting, and their memory then.
fn start_together(services: usize) -> (Duration, Memory) {
    let began = Instant::now();
    let mut children: Vec<Child> = (0..services).map(|_| spawn(&[])).collect();
    children.iter_mut().for_each(wait_until_ready);
    let took = began.elapsed();
    let of_each = |file: &str, field: &str| -> Vec<u64> {
        children
            .iter()
            .map(|child| kilobytes(&format!("/proc/{}/{file}", child.id()), field) * 1024)
            .collect()
    };
    let share = of_each("smaps_rollup", "Pss:").iter().sum::<u64>() / services as u64;
    let largest = of_each("status", "VmHWM:").into_iter().max().unwrap();
    children.into_iter().for_each(end);
    (took, Memory { share, largest })
}

/// A field of a file that the system has of a process, which is in kB.
fn kilobytes(path: &str, field: &str) -> u64 {
    let text = std::fs::read_to_string(path).unwrap();
    let value = text.lines().find_map(|line| line.strip_prefix(field)).unwrap();
    value.trim().trim_end_matches(" kB").parse().unwrap()
}

fn spawn(arguments: &[String]) -> Child {
    Command::new(env!("CARGO_BIN_EXE_parshall"))
        .args(["serve", "--amqp", "127.0.0.1:0", "--http", "127.0.0.1:0"])
        .args(arguments)
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap()
}

fn wait_until_ready(child: &mut Child) {
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    assert!(lines.any(|line| line.unwrap() == "Ready."), "it ended before it was ready");
}

fn end(mut child: Child) {
    kill_process(Pid::from_child(&child), Signal::TERM).unwrap();
    child.wait().unwrap();
}

/// Prints a case and gives its median. Each trial has a directory of its own.
fn report(name: &str, floor: Option<Duration>, trials: usize, run: impl Fn(&Path) -> Duration) -> Duration {
    let mut times: Vec<Duration> = (0..trials)
        .map(|_| {
            let directory = tempfile::tempdir().unwrap();
            run(directory.path())
        })
        .collect();
    times.sort_unstable();
    let median = times[trials / 2];
    let [least, middle, most] = [times[0], median, times[trials - 1]].map(|time| time.as_secs_f64() * 1e3);
    let ratio = floor.map_or_else(String::new, |floor| {
        format!("  {:6.1} x the reference", median.as_secs_f64() / floor.as_secs_f64())
    });
    println!("{name:60} {middle:7.1} ms [{least:.1}-{most:.1}]{ratio}");
    median
}
