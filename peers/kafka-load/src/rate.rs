//! An open loop: records at a fixed rate, whatever becomes of them, and the time from when each was due to when it was
//! acknowledged.
//!
//! The first seconds, in which clients and brokers warm up, are a figure of their own.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use crate::arguments::Arguments;
use crate::librdkafka::{Client, Deliveries, Result};
use crate::produce::{self, PATIENCE};
use crate::quantiles::Durations;
use crate::usage;

/// When what arrived. One thread tells, so the lock is never waited for.
#[derive(Default)]
struct Arrivals {
    begun: Mutex<Option<Instant>>,
    /// The record's number and when it was acknowledged, in nanoseconds since the beginning.
    seen: Mutex<Vec<(usize, u64)>>,
    failed: AtomicU64,
}

impl Deliveries for Arrivals {
    fn delivered(&self, tag: usize, result: Result<()>) {
        let begun = *self.begun.lock().expect("no one panics with it");
        match (result, begun) {
            (Ok(()), Some(begun)) => {
                let at = u64::try_from(begun.elapsed().as_nanos()).unwrap_or(u64::MAX);
                self.seen.lock().expect("no one panics with it").push((tag, at));
            }
            (Ok(()), None) => {}
            (Err(error), _) => {
                self.failed.fetch_add(1, Ordering::Relaxed);
                eprintln!("kafka-load: a record failed: {error}");
            }
        }
    }
}

pub(crate) fn run(arguments: &Arguments) -> Result<String> {
    let per_second = arguments.number("per-second")?;
    let count = per_second * arguments.number("seconds")?;
    let warm_up = arguments.number_or("warm-up", 3) * per_second;
    let value = produce::value(arguments)?;
    let arrivals: &'static Arrivals = Box::leak(Box::default());
    let usual = [("acks", "1"), ("linger.ms", "5"), ("queue.buffering.max.messages", "10000000")];
    let client = Client::producer(&arguments.settings(&usual), arrivals)?;
    let topic = client.topic(&arguments.topic)?;
    // Connected, and told of the topic: else the first wait for that, whatever the broker.
    topic.send(0, &value, usize::MAX)?;
    client.flush(PATIENCE)?;
    arrivals.seen.lock().expect("no one panics with it").reserve(usize::try_from(count).unwrap_or(0));
    let due = |number: u64| Duration::from_nanos(number.saturating_mul(1_000_000_000) / per_second);
    let is_over = AtomicBool::new(false);
    let (begun, cpu) = (Instant::now(), usage::cpu_seconds());
    *arrivals.begun.lock().expect("no one panics with it") = Some(begun);
    let latest = thread::scope(|scope| {
        scope.spawn(|| {
            while !is_over.load(Ordering::Relaxed) {
                client.poll(Duration::from_millis(100));
            }
        });
        let sent = send_all(count, due, begun, |number| {
            topic.send(-1, &value, usize::try_from(number).unwrap_or(usize::MAX))
        });
        let flushed = client.flush(PATIENCE);
        while client.under_way() > 0 && begun.elapsed() < PATIENCE {
            client.poll(Duration::from_millis(10));
        }
        is_over.store(true, Ordering::Relaxed);
        flushed.and(sent)
    })?;
    let (seconds, cpu) = (begun.elapsed().as_secs_f64(), usage::cpu_seconds() - cpu);
    let seen = std::mem::take(&mut *arrivals.seen.lock().expect("no one panics with it"));
    let failed = arrivals.failed.load(Ordering::Relaxed);
    if failed > 0 || seen.len() as u64 != count {
        return Err(format!("of {count} records {} were acknowledged and {failed} failed", seen.len()));
    }
    let (mut first, mut steady) = (Durations::default(), Durations::default());
    for (number, at) in seen {
        let late = Duration::from_nanos(at).saturating_sub(due(number as u64));
        if (number as u64) < warm_up { first.record(late) } else { steady.record(late) }
    }
    Ok(format!(
        "{{\"records\":{count},\"seconds\":{seconds:.6},\"client_cpu_seconds\":{cpu:.3},\"latest_us\":{:.1},{},{}}}",
        latest.as_secs_f64() * 1e6,
        first.json("first_"),
        steady.json("")
    ))
}

/// Sends each when it is due, and says how late the latest was sent.
fn send_all(
    count: u64,
    due: impl Fn(u64) -> Duration,
    begun: Instant,
    mut send: impl FnMut(u64) -> Result<()>,
) -> Result<Duration> {
    let (mut number, mut latest) = (0, Duration::ZERO);
    while number < count {
        let now = begun.elapsed();
        while number < count && due(number) <= now {
            send(number)?;
            number += 1;
        }
        if let Some(last) = number.checked_sub(1) {
            latest = latest.max(now.saturating_sub(due(last)));
        }
        thread::sleep(TICK.saturating_sub(begun.elapsed() - now));
    }
    Ok(latest)
}

/// How often it is looked at what is due.
const TICK: Duration = Duration::from_millis(1);
