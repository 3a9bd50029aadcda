//! One record at a time: sent, and received again, before the next.

use std::time::{Duration, Instant};

use crate::arguments::Arguments;
use crate::librdkafka::{Client, Deliveries, Result};
use crate::produce::{self, PATIENCE};
use crate::quantiles::Durations;
use crate::usage;

/// Nothing is asked of the acknowledgement: a record that is not stored does not come.
struct Unheard;

impl Deliveries for Unheard {
    fn delivered(&self, _tag: usize, result: Result<()>) {
        if let Err(error) = result {
            eprintln!("kafka-load: a record failed: {error}");
        }
    }
}

pub(crate) fn run(arguments: &Arguments) -> Result<String> {
    let records = arguments.number("records")?;
    let warm_up = arguments.number_or("warm-up", records / 4);
    let mut value = produce::value(arguments)?;
    let usual = [("acks", "1"), ("linger.ms", "0"), ("delivery.report.only.error", "true")];
    let consuming = [("group.id", "kafka-load"), ("enable.auto.commit", "false")];
    let producer = Client::producer(&arguments.settings(&usual), &Unheard)?;
    let topic = producer.topic(&arguments.topic)?;
    // The first record says that the consumer is where it has to be.
    topic.send(0, &value, 0)?;
    producer.flush(PATIENCE)?;
    let consumer = Client::consumer(&arguments.settings(&consuming), &arguments.topic, 1, -2)?;
    let mut trip = |number: u64| -> Result<Duration> {
        let length = value.len().min(8);
        value[..length].copy_from_slice(&number.to_le_bytes()[..length]);
        let start = Instant::now();
        if number > 0 {
            topic.send(0, &value, 0)?;
        }
        loop {
            let mut is_it = number == 0;
            let came = consumer.receive(Duration::from_secs(1), |seen| is_it |= seen == value)?;
            if came && is_it {
                return Ok(start.elapsed());
            }
            if start.elapsed() > PATIENCE {
                return Err(format!("record {number} does not come"));
            }
        }
    };
    for number in 0..=warm_up {
        trip(number)?;
    }
    let mut durations = Durations::default();
    let (start, cpu) = (Instant::now(), usage::cpu_seconds());
    for number in 0..records {
        durations.record(trip(warm_up + 1 + number)?);
    }
    let (seconds, cpu) = (start.elapsed().as_secs_f64(), usage::cpu_seconds() - cpu);
    Ok(format!(
        "{{\"records\":{records},\"trips\":{},\"seconds\":{seconds:.6},\"client_cpu_seconds\":{cpu:.3},{}}}",
        records + warm_up + 1,
        durations.json("")
    ))
}
