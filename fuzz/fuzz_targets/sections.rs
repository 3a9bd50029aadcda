//! Any bytes, read as a message.
#![no_main]

#[path = "../../crates/amqp/tests/hostile/streams.rs"]
#[allow(dead_code, reason = "other targets use the rest of it")]
mod streams;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| streams::sections(bytes));
