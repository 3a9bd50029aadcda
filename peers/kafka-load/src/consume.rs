//! All records of a topic, from the beginning, as fast as they come.

use std::time::{Duration, Instant};

use crate::arguments::Arguments;
use crate::librdkafka::{Client, Result};
use crate::produce::PATIENCE;
use crate::usage;

pub(crate) fn run(arguments: &Arguments) -> Result<String> {
    let records = arguments.number("records")?;
    let partitions = i32::try_from(arguments.number("partitions")?).map_err(|error| error.to_string())?;
    let settings = arguments.settings(&[("group.id", "kafka-load"), ("enable.auto.commit", "false")]);
    let client = Client::consumer(&settings, &arguments.topic, partitions, -2)?;
    let queue = client.queue();
    let (mut seen, mut bytes) = (0, 0);
    let mut count = |value: &[u8]| {
        seen += 1;
        bytes += value.len();
    };
    // Until the first record it connects, and asks where the partitions are.
    let begun = Instant::now();
    while !client.receive(Duration::from_secs(1), &mut count)? {
        if begun.elapsed() > PATIENCE {
            return Err("nothing came".to_owned());
        }
    }
    let (start, cpu) = (Instant::now(), usage::cpu_seconds());
    let (mut seen, mut bytes) = (seen, bytes);
    while seen < records {
        client.receive_many(&queue, Duration::from_millis(100), |value| {
            seen += 1;
            bytes += value.len();
        })?;
        if start.elapsed() > PATIENCE {
            return Err(format!("only {seen} of {records} records came"));
        }
    }
    let (seconds, cpu) = (start.elapsed().as_secs_f64(), usage::cpu_seconds() - cpu);
    Ok(format!(
        "{{\"records\":{seen},\"bytes\":{bytes},\"seconds\":{seconds:.6},\"client_cpu_seconds\":{cpu:.3}}}"
    ))
}
