//! The load of `make bench-kafka` (`compare.py` drives it): the same client for every broker, and the least broker there can be.
//!
//! ```text
//! kafka-load produce    ADDRESS TOPIC bytes=16 records=5000000 [librdkafka settings]   as fast as it goes
//! kafka-load consume    ADDRESS TOPIC partitions=32 records=5000000 [settings]         all there is, from the beginning
//! kafka-load round-trip ADDRESS TOPIC bytes=16 records=10000 [settings]                one record at a time, end to end
//! kafka-load rate       ADDRESS TOPIC bytes=16 per-second=100000 seconds=15 [settings] open loop, to the acknowledgement
//! kafka-load waiters    ADDRESS TOPIC connections=1000 seconds=10 offset=1             long polls in which nothing comes
//! kafka-load floor      PARTITIONS                                                     a broker that only answers
//! kafka-load version                                                                   that of librdkafka
//! ```
//!
//! The result is one line of JSON.

#![expect(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a program for scripts, which read what it prints"
)]

mod arguments;
mod consume;
mod floor;
mod librdkafka;
mod produce;
mod quantiles;
mod rate;
mod round_trip;
mod usage;
mod waiters;

use std::process::ExitCode;

use arguments::Arguments;

fn main() -> ExitCode {
    let mut words = std::env::args().skip(1);
    let command = words.next().unwrap_or_default();
    let result = match command.as_str() {
        "version" => Ok(librdkafka::version()),
        "floor" => floor::run(words.next().and_then(|it| it.parse().ok()).unwrap_or(1)),
        _ => Arguments::read(words).and_then(|arguments| match command.as_str() {
            "produce" => produce::run(&arguments),
            "consume" => consume::run(&arguments),
            "round-trip" => round_trip::run(&arguments),
            "rate" => rate::run(&arguments),
            "waiters" => waiters::run(&arguments),
            other => {
                Err(format!("there is no load {other:?}: produce, consume, round-trip, rate, waiters, floor"))
            }
        }),
    };
    match result {
        Ok(json) => {
            println!("{json}");
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("kafka-load: {error}");
            ExitCode::FAILURE
        }
    }
}
