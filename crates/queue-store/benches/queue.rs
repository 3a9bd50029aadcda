//! What a message costs on its way through a queue, and that it costs the same however many wait.
//!
//! Each line is the processor time of one message: enqueued, received with a lock, and completed, in batches of the size
//! in its name, while so many messages wait behind it. The figures are the median of several rounds with the smallest
//! and largest; rounds with few and with many waiting alternate. The last column is the ratio of many to few.
//!
//! * `n x 12 B` moves batches of n messages whose payload is 12 bytes.
//! * `n x 4 KiB` the same with messages that are too long to be kept among others.
//! * `backwards` completes what it received in descending order, one call per message.
//! * `abandoned` abandons each message once before it is completed.
//!
//! `cargo bench -p queue-store --bench queue` runs it in full; under `cargo test --benches`, or with `PARSHALL_BENCH_QUICK` set, it only
//! shows that it works. A word on the command line selects the cases that have it in their name.

#![expect(clippy::print_stdout, reason = "a benchmark prints its figures")]

use partition_log::UnixTime;
use queue_store::{
    Deliveries, LockToken, NewMessage, Queue, QueueOptions, QueueStore, ReceiveMode, ReceiveRequest,
    Settlement,
};
use rustix::time::{ClockId, clock_gettime};
use std::hint::black_box;
use std::sync::Arc;
use units::ByteSize;

const NOW: UnixTime = UnixTime::from_milliseconds(1_000_000);

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let in_full = arguments.iter().any(|argument| argument == "--bench")
        && std::env::var_os("PARSHALL_BENCH_QUICK").is_none();
    let (rounds, messages, many) = match in_full {
        true => (7, 1_000_000, 1_000_000),
        false => (1, 10_000, 10_000),
    };
    let wanted = arguments.into_iter().find(|argument| !argument.starts_with('-')).unwrap_or_default();
    println!("{:<24}{:>26}{:>26}{:>8}", "ns per message", "1,000 waiting", "1,000,000 waiting", "ratio");
    for case in CASES.iter().filter(|case| case.name.contains(&wanted)) {
        // Long messages: as many bytes as short ones, roughly.
        let scale = 1 + case.payload_bytes / 100;
        let mut few = Bench::new(case, 1_000);
        let mut crowd = Bench::new(case, many / scale);
        let (mut of_few, mut of_many) = (Vec::new(), Vec::new());
        for _ in 0..rounds {
            of_few.push(few.round(messages / scale));
            of_many.push(crowd.round(messages / scale));
        }
        report(case.name, &mut of_few, &mut of_many);
    }
}

/// One line of the output.
struct Case {
    name: &'static str,
    batch: usize,
    payload_bytes: usize,
    manner: Manner,
}

/// How messages are settled.
#[derive(Clone, Copy, PartialEq)]
enum Manner {
    InOrder,
    Backwards,
    AbandonedOnce,
}

const fn case(name: &'static str, batch: usize, payload_bytes: usize, manner: Manner) -> Case {
    Case { name, batch, payload_bytes, manner }
}

const CASES: [Case; 7] = [
    case("1 x 12 B", 1, 12, Manner::InOrder),
    case("8 x 12 B", 8, 12, Manner::InOrder),
    case("64 x 12 B", 64, 12, Manner::InOrder),
    case("256 x 12 B", 256, 12, Manner::InOrder),
    case("64 x 4 KiB", 64, 4096, Manner::InOrder),
    case("64 x 12 B, backwards", 64, 12, Manner::Backwards),
    case("64 x 12 B, abandoned", 64, 12, Manner::AbandonedOnce),
];

struct Bench {
    queue: Arc<Queue>,
    batch: usize,
    manner: Manner,
    sections: Vec<u8>,
    deliveries: Deliveries,
    tokens: Vec<LockToken>,
}

impl Bench {
    /// A queue with so many messages waiting.
    fn new(case: &Case, waiting: usize) -> Self {
        let options = QueueOptions { size_limit: ByteSize::from_mebibytes(4096), ..QueueOptions::default() };
        let queue = QueueStore::in_memory().create_queue("bench", options).expect("it is the only one");
        let mut sections = vec![0x00, 0x53, 0x75, 0xa0, case.payload_bytes as u8];
        sections.resize(5 + case.payload_bytes, 7);
        let mut bench = Self {
            queue,
            batch: case.batch,
            manner: case.manner,
            sections,
            deliveries: Deliveries::new(),
            tokens: Vec::new(),
        };
        for _ in 0..waiting / 100 {
            bench.enqueue(100);
        }
        // Once through a part of them, so that memory is touched.
        bench.round(20_000);
        bench
    }

    fn enqueue(&mut self, count: usize) {
        let pieces = [&self.sections[..]];
        let messages = [NewMessage { sections: &pieces, ..NewMessage::default() }; 256];
        let enqueued = self.queue.enqueue(NOW, black_box(&messages[..count]));
        enqueued.expect("there is room");
    }

    fn receive(&mut self) {
        let request = ReceiveRequest {
            mode: ReceiveMode::PeekLock,
            session: None,
            messages: self.batch,
            bytes: usize::MAX,
        };
        self.deliveries.clear();
        let received = self.queue.receive(NOW, &request, &mut self.deliveries);
        received.expect("it is enabled");
        self.tokens.clear();
        for delivery in self.deliveries.iter() {
            black_box(delivery.sections.last());
            self.tokens.extend(delivery.lock.map(|lock| lock.token));
        }
    }

    fn settle(&mut self, settlement: &Settlement<'_>) {
        let settled = self.queue.settle(NOW, &self.tokens, settlement);
        let settled = settled.expect("it is in memory");
        assert_eq!(settled.count, self.batch);
    }

    /// Nanoseconds per message.
    fn round(&mut self, messages: usize) -> f64 {
        let batches = messages.div_ceil(self.batch);
        let started = cpu_time_ns();
        for _ in 0..batches {
            self.enqueue(self.batch);
            self.receive();
            if self.manner == Manner::AbandonedOnce {
                self.settle(&Settlement::Abandon { properties: &[] });
                self.receive();
            }
            match self.manner {
                Manner::InOrder | Manner::AbandonedOnce => self.settle(&Settlement::Complete),
                Manner::Backwards => {
                    for token in self.tokens.iter().rev() {
                        let one = std::slice::from_ref(token);
                        let settled = self.queue.settle(NOW, one, &Settlement::Complete);
                        assert_eq!(settled.expect("it is in memory").count, 1);
                    }
                }
            }
        }
        (cpu_time_ns() - started) / (batches * self.batch) as f64
    }
}

/// What this thread has used of a processor. Unlike the wall clock it stands while something else runs.
fn cpu_time_ns() -> f64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.tv_sec as f64 * 1e9 + time.tv_nsec as f64
}

fn report(case: &str, few: &mut [f64], many: &mut [f64]) {
    let figure = |samples: &mut [f64]| {
        samples.sort_by(f64::total_cmp);
        let median = samples[samples.len() / 2];
        let text = format!("{median:.1} [{:.1}-{:.1}]", samples[0], samples[samples.len() - 1]);
        (median, text)
    };
    let (few, few_text) = figure(few);
    let (many, many_text) = figure(many);
    println!("{case:<24}{few_text:>26}{many_text:>26}{:>7.2}x", many / few);
}
