//! Any sequence of what two well-behaved ends may do, held against a model.
#![no_main]

#[path = "../../crates/amqp/tests/conversations/operations.rs"]
mod operations;
#[path = "../../crates/amqp/tests/pair.rs"]
#[allow(dead_code, reason = "the tests use the rest of it")]
mod pair;

libfuzzer_sys::fuzz_target!(|script: &[u8]| operations::run(script));
