//! What keeping logs on disk costs, and what sharing syncs and sidecars save.
//!
//! Each line has a reference of the same run and the ratio to it:
//!
//! * `append`: one thread fills 32 logs, with up to 32 MiB not yet acknowledged, until all is acknowledged. The
//!   reference is the same with logs in memory, whose appends are acknowledged at once. Wall clock, since other threads work for it.
//! * `always, 32 producers`: each producer sends an event when its last one is acknowledged. The reference is one producer.
//!   `one log` and `a log each` differ in how many files a sync has to cover.
//! * `start`: opening 32 logs with a gibibyte in all. The reference is reading the same files from end to end; both with the files
//!   in the page cache.
//!
//! `cargo bench -p partition-log --bench durable` runs it in full, in the directory for temporary files or the one that
//! `PARSHALL_BENCH_DIRECTORY` names; under `cargo test --benches`, or with `PARSHALL_BENCH_QUICK` set, it only
//! shows that it works. A word on the command line selects the cases that have it in their name.

#![expect(clippy::print_stdout, reason = "a benchmark prints its figures")]

use partition_log::UnixTime;
use partition_log::disk::{
    CommitNumber, CommitState, CommitWatch, Committer, PartitionDirectory, Presence, StorageOptions,
    SyncPolicy, SystemFiles,
};
use partition_log::{BlockPool, LogLimits, NewRecord, PartitionLog, WhenFull};
use std::collections::VecDeque;
use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::task::{Context, Wake, Waker};
use std::thread::{self, Thread};
use std::time::{Duration, Instant};
use tempfile::TempDir;
use units::ByteSize;

const LOGS: usize = 32;
const NOW: UnixTime = UnixTime::from_milliseconds(1_000_000);
const WINDOW_BYTES: usize = 32 << 20;

struct Size {
    rounds: usize,
    append_bytes: usize,
    produce_for: Duration,
    stored_bytes: usize,
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let in_full = arguments.iter().any(|argument| argument == "--bench")
        && std::env::var_os("PARSHALL_BENCH_QUICK").is_none();
    let size = match in_full {
        true => Size {
            rounds: 5,
            append_bytes: 512 << 20,
            produce_for: Duration::from_secs(2),
            stored_bytes: 1 << 30,
        },
        false => Size {
            rounds: 1,
            append_bytes: 1 << 20,
            produce_for: Duration::from_millis(20),
            stored_bytes: 1 << 20,
        },
    };
    let wanted = arguments.into_iter().find(|argument| !argument.starts_with('-')).unwrap_or_default();
    println!("{:<44}{:>26}{:>26}{:>9}", "case", "own [min-max]", "reference", "ratio");
    let is_wanted = |name: &str| name.contains(&wanted);
    for (records, payload_bytes) in [(16, 1024), (64, 16)] {
        for (policy, sync) in
            [("os", SyncPolicy::Os), ("interval", SyncPolicy::default()), ("always", SyncPolicy::Always)]
        {
            let name = format!("append {records} x {payload_bytes} B, {policy}, MB/s");
            if is_wanted(&name) {
                append(&name, &size, sync, records, payload_bytes);
            }
        }
    }
    for (name, logs) in
        [("always, 32 producers, one log, events/s", 1), ("always, 32 producers, a log each, events/s", LOGS)]
    {
        if is_wanted(name) {
            produce(name, &size, logs);
        }
    }
    for (name, end) in [("start after a close, ms", End::Close), ("start after a crash, ms", End::Crash)] {
        if is_wanted(name) {
            start(name, &size, end);
        }
    }
}

/// Logs in a directory of their own.
struct Store {
    committer: Arc<Committer>,
    logs: Vec<Arc<PartitionLog>>,
}

impl Store {
    fn open(directory: &Path, sync: SyncPolicy, limits: LogLimits) -> Self {
        let options = StorageOptions { sync, ..StorageOptions::default() };
        let committer = Committer::start(options, Arc::new(SystemFiles)).expect("threads can be started");
        let pool = BlockPool::new(ByteSize::from_mebibytes(512));
        let open = |id: usize| {
            let path = directory.join(id.to_string());
            let presence = match path.exists() {
                true => Presence::Present,
                false => Presence::Absent,
            };
            let place = PartitionDirectory { path, presence, committer: Arc::clone(&committer) };
            let (log, report) = PartitionLog::open(limits, Arc::clone(&pool), place)
                .expect("nobody else touched the directory");
            assert!(report.torn.is_empty() && report.damaged.is_empty());
            log
        };
        let logs = (0..LOGS).map(open).collect();
        Self { committer, logs }
    }
}

fn directory() -> TempDir {
    match std::env::var_os("PARSHALL_BENCH_DIRECTORY") {
        Some(parent) => TempDir::new_in(parent),
        None => TempDir::new(),
    }
    .expect("there is a place for temporary files")
}

fn limits(bytes: ByteSize) -> LogLimits {
    LogLimits { bytes, when_full: WhenFull::Retention, retention: None }
}

fn append(name: &str, size: &Size, sync: SyncPolicy, records: usize, payload_bytes: usize) {
    let limits = limits(ByteSize::from_mebibytes(16));
    let batch_bytes = records * payload_bytes;
    let batches = size.append_bytes / batch_bytes;
    let directory = directory();
    let durable = Store::open(directory.path(), sync, limits);
    let pool = BlockPool::new(ByteSize::from_mebibytes(768));
    let memory: Vec<_> = (0..LOGS).map(|_| Arc::new(PartitionLog::new(limits, Arc::clone(&pool)))).collect();
    let (mut own, mut reference) = (Vec::new(), Vec::new());
    let megabytes = (batches * batch_bytes) as f64 / 1e6;
    // The first round makes the blocks that the others use again.
    for round in 0..=size.rounds {
        let started = Instant::now();
        fill(&durable.logs, Some(&durable.committer), batches, records, payload_bytes);
        let durable_rate = megabytes / started.elapsed().as_secs_f64();
        let started = Instant::now();
        fill(&memory, None, batches, records, payload_bytes);
        let memory_rate = megabytes / started.elapsed().as_secs_f64();
        if round > 0 {
            own.push(durable_rate);
            reference.push(memory_rate);
        }
    }
    report(name, &mut own, &mut reference);
    durable.committer.close().expect("the disk has room");
}

fn fill(
    logs: &[Arc<PartitionLog>],
    committer: Option<&Arc<Committer>>,
    batches: usize,
    records: usize,
    payload_bytes: usize,
) {
    let payload = vec![7_u8; payload_bytes];
    let sections = [&payload[..]];
    let record = NewRecord { annotation_count: 0, annotations: &[], sections: &sections };
    let mut wait = committer.map(Wait::new);
    let mut unacknowledged = VecDeque::new();
    let mut bytes = 0;
    for batch in 0..batches {
        let appended = logs[batch % LOGS]
            .append::<()>(NOW, |encoder| {
                (0..records).for_each(|_| encoder.push(&record));
                Ok(())
            })
            .expect("a log with retention is never full");
        if let Some(wait) = &mut wait {
            unacknowledged.push_back((appended.commit, appended.bytes));
            bytes += appended.bytes;
            while bytes > WINDOW_BYTES
                && let Some((commit, length)) = unacknowledged.pop_front()
            {
                wait.until_settled(commit);
                bytes -= length;
            }
        }
    }
    if let Some(wait) = &mut wait {
        unacknowledged.into_iter().for_each(|(commit, _)| wait.until_settled(commit));
    }
}

fn produce(name: &str, size: &Size, logs: usize) {
    let directory = directory();
    let store = Store::open(directory.path(), SyncPolicy::Always, limits(ByteSize::from_mebibytes(64)));
    let (mut own, mut reference) = (Vec::new(), Vec::new());
    for _ in 0..size.rounds {
        own.push(producers(&store, LOGS, logs, size.produce_for));
        reference.push(producers(&store, 1, 1, size.produce_for));
    }
    report(name, &mut own, &mut reference);
    store.committer.close().expect("the disk has room");
}

/// Events per second of `count` producers over the first `logs` logs.
fn producers(store: &Store, count: usize, logs: usize, produce_for: Duration) -> f64 {
    let is_over = AtomicBool::new(false);
    let events = AtomicU64::new(0);
    let payload = [7_u8; 100];
    let started = Instant::now();
    thread::scope(|scope| {
        for producer in 0..count {
            let (is_over, events) = (&is_over, &events);
            scope.spawn(move || {
                let mut wait = Wait::new(&store.committer);
                let record = NewRecord { annotation_count: 0, annotations: &[], sections: &[&payload] };
                while !is_over.load(Ordering::Relaxed) {
                    let appended = store.logs[producer % logs]
                        .append_records(NOW, &[record])
                        .expect("a log with retention is never full");
                    wait.until_settled(appended.commit);
                    events.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
        thread::sleep(produce_for);
        is_over.store(true, Ordering::Relaxed);
    });
    events.into_inner() as f64 / started.elapsed().as_secs_f64()
}

#[derive(Clone, Copy, PartialEq)]
enum End {
    Close,
    Crash,
}

fn start(name: &str, size: &Size, end: End) {
    let directory = directory();
    let limits = limits(ByteSize::from_mebibytes(256));
    let store = Store::open(directory.path(), SyncPolicy::Os, limits);
    let batches = size.stored_bytes / (16 * 1024);
    fill(&store.logs, Some(&store.committer), batches, 16, 1024);
    if end == End::Close {
        store.committer.close().expect("the disk has room");
    }
    drop(store);
    let (mut own, mut reference) = (Vec::new(), Vec::new());
    for round in 0..size.rounds {
        let started = Instant::now();
        let store = Store::open(directory.path(), SyncPolicy::default(), limits);
        own.push(started.elapsed().as_secs_f64() * 1e3);
        let stored: u64 = store.logs.iter().map(|log| log.stats().bytes).sum();
        assert!(stored >= (batches * 16 * 1024) as u64);
        let started = Instant::now();
        let read = read_all(directory.path());
        reference.push(started.elapsed().as_secs_f64() * 1e3);
        assert!(read >= stored);
        if end == End::Crash && round + 1 < size.rounds {
            // What was scanned has its sidecar now; the last segments lose theirs again.
            drop(store);
            remove_last_sidecars(directory.path());
        }
    }
    report(name, &mut own, &mut reference);
}

fn read_all(directory: &Path) -> u64 {
    let mut bytes = 0;
    for entry in fs::read_dir(directory).expect("it was just written") {
        let path = entry.expect("as above").path();
        match path.is_dir() {
            true => bytes += read_all(&path),
            false => bytes += fs::read(&path).expect("as above").len() as u64,
        }
    }
    bytes
}

fn remove_last_sidecars(directory: &Path) {
    for entry in fs::read_dir(directory).expect("it was just written") {
        let partition = entry.expect("as above").path();
        let sidecars = fs::read_dir(&partition)
            .expect("as above")
            .map(|entry| entry.expect("as above").path())
            .filter(|path| path.extension().is_some_and(|extension| extension == "index"));
        if let Some(last) = sidecars.max() {
            fs::remove_file(last).expect("nobody else touches it");
        }
    }
}

/// A thread that waits for commits.
struct Wait {
    watch: CommitWatch,
    waker: Waker,
}

struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

impl Wait {
    fn new(committer: &Arc<Committer>) -> Self {
        Self { watch: committer.subscribe(), waker: Waker::from(Arc::new(Unpark(thread::current()))) }
    }

    fn until_settled(&mut self, commit: CommitNumber) {
        let mut context = Context::from_waker(&self.waker);
        loop {
            match self.watch.state_of(commit) {
                CommitState::Done => return,
                CommitState::Failed => panic!("the disk failed"),
                CommitState::Waiting => {}
            }
            if self.watch.poll_committed(&mut context).is_pending() {
                thread::park();
            }
        }
    }
}

fn report(name: &str, own: &mut [f64], reference: &mut [f64]) {
    own.sort_by(f64::total_cmp);
    reference.sort_by(f64::total_cmp);
    let figure = |values: &[f64]| {
        let median = values[values.len() / 2];
        format!("{median:.0} [{:.0}-{:.0}]", values[0], values[values.len() - 1])
    };
    println!(
        "{name:<44}{:>26}{:>26}{:>8.2}x",
        figure(own),
        figure(reference),
        own[own.len() / 2] / reference[reference.len() / 2]
    );
}
