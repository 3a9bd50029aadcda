//! What a transform costs, isolated from relay and network.
//!
//! Each leg takes batches of the same messages (16 bytes of body, three properties): `copy` copies them to an output, which is what a
//! sink does with them and the reference; the others apply a program first. Legs alternate, the first round is thrown away, medians are
//! printed with their ratio to `copy`. `PARSHALL_BENCH_QUICK=1` runs tiny rounds, to see that it still works.

#![expect(clippy::print_stdout, reason = "a benchmark prints its result")]

use std::collections::BTreeMap;
use std::hint::black_box;
use std::sync::Arc;
use std::time::{Duration, Instant};

use amqp::codec::Value;
use amqp::message::encode;
use bytes::Bytes;
use connect::event::{Encoding, EventBatch, PartitionId};
use connect::transform::{Selection, Transform};
use transform::{Program, Step, Transformer};

fn main() {
    let quick =
        std::env::var_os("PARSHALL_BENCH_QUICK").is_some() || std::env::args().any(|arg| arg == "--test");
    let (batches, rounds) = if quick { (20, 2) } else { (20_000, 8) };
    let filter = |text: &str| Step::Filter(text.to_owned());
    let rename = Step::Rename(BTreeMap::from([("device_id".to_owned(), "device".to_owned())]));
    let legs = [
        ("copy", vec![]),
        ("filter, all pass", vec![filter("properties.region == \"eu\"")]),
        ("filter, none passes", vec![filter("properties.region != \"eu\"")]),
        ("rename", vec![rename.clone()]),
        ("filter and rename", vec![filter("properties.region == \"eu\" && key != \"test\""), rename]),
        ("filter by the library", vec![filter("size(properties.region) == 2")]),
        ("set", vec![Step::Set(BTreeMap::from([("pipeline".to_owned(), "\"orders\"".to_owned())]))]),
        ("drop", vec![Step::Drop(vec!["debug".to_owned()])]),
    ];
    let mut times = vec![Vec::new(); legs.len()];
    for _ in 0..rounds {
        for ((_, steps), times) in legs.iter().zip(&mut times) {
            times.push(carried(steps, batches));
        }
    }
    let events = batches * EVENTS;
    let median = |times: &mut Vec<Duration>| {
        times.remove(0);
        times.sort();
        times[times.len() / 2].as_secs_f64() * 1e9 / events as f64
    };
    let medians: Vec<f64> = times.iter_mut().map(median).collect();
    println!("median ns per event of {} rounds of {events} events", rounds - 1);
    for ((name, _), ns) in legs.iter().zip(&medians) {
        println!("{name:<24} {ns:>8.1}   {name} / copy = {:.2}", ns / medians[0]);
    }
}

fn carried(steps: &[Step], batches: usize) -> Duration {
    let message = message();
    let program = Program::compile("transform", steps, &[]).expect("the expressions are right");
    let mut transformer = program.map(|program| Transformer::new(Arc::new(program)));
    let (mut batch, mut selection, mut out) = (EventBatch::default(), Selection::default(), Vec::new());
    let mut elapsed = Duration::ZERO;
    for _ in 0..batches {
        batch.clear(PartitionId(0));
        batch.set_encoding(Encoding::Amqp);
        for number in 0..EVENTS as i64 {
            batch.push_message(&message, number);
        }
        let began = Instant::now();
        if let Some(transformer) = &mut transformer {
            transformer.apply(&mut batch, &mut selection);
        }
        out.clear();
        for (index, event) in (0..).zip(batch.events()) {
            if selection.contains(index, 0) {
                out.extend_from_slice(batch.message(event));
            }
        }
        black_box(&out);
        elapsed += began.elapsed();
    }
    elapsed
}

fn message() -> Bytes {
    let mut message = Vec::new();
    let text = |text: &str| Value::String(text.to_owned());
    let properties = [("region", text("eu")), ("device_id", text("d-1234")), ("debug", Value::Boolean(true))];
    encode::application_properties(&mut message, &properties);
    encode::data(&mut message, &[7; 16]);
    message.into()
}

const EVENTS: usize = 128;
