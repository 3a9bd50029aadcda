//! As many records as are wanted, as fast as they go.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use crate::arguments::Arguments;
use crate::librdkafka::{Client, Deliveries, Result};
use crate::usage;

/// Counts what failed. Nothing else is told, so that nothing is done for a record that is stored.
struct Failures(AtomicU64);

impl Deliveries for Failures {
    fn delivered(&self, _tag: usize, result: Result<()>) {
        if let Err(error) = result {
            self.0.fetch_add(1, Ordering::Relaxed);
            eprintln!("kafka-load: a record failed: {error}");
        }
    }
}

static FAILURES: Failures = Failures(AtomicU64::new(0));

pub(crate) fn run(arguments: &Arguments) -> Result<String> {
    let records = arguments.number("records")?;
    let value = value(arguments)?;
    let settings = arguments.settings(&[
        ("acks", "1"),
        ("delivery.report.only.error", "true"),
        ("queue.buffering.max.messages", "1000000"),
    ]);
    let client = Client::producer(&settings, &FAILURES)?;
    let topic = client.topic(&arguments.topic)?;
    // Connected, and told of the topic.
    topic.send(0, &value, 0)?;
    client.flush(PATIENCE)?;
    let (start, cpu) = (Instant::now(), usage::cpu_seconds());
    for record in 1..records {
        topic.send(-1, &value, 0)?;
        if record % 100_000 == 0 {
            client.poll(Duration::ZERO);
        }
    }
    client.flush(PATIENCE)?;
    let (seconds, cpu) = (start.elapsed().as_secs_f64(), usage::cpu_seconds() - cpu);
    match FAILURES.0.load(Ordering::Relaxed) {
        0 => {
            Ok(format!("{{\"records\":{records},\"seconds\":{seconds:.6},\"client_cpu_seconds\":{cpu:.3}}}"))
        }
        failed => Err(format!("{failed} of {records} records were not stored")),
    }
}

/// A value that does not compress to nothing.
pub(crate) fn value(arguments: &Arguments) -> Result<Vec<u8>> {
    let bytes = arguments.number("bytes")?;
    Ok((0..bytes).map(|index| (index.wrapping_mul(2_654_435_761) >> 7) as u8).collect())
}

/// How long anything may take.
pub(crate) const PATIENCE: Duration = Duration::from_secs(120);
