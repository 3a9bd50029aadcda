//! Any bytes, sent to a server; the first says in pieces of what length.
#![no_main]

#[path = "../../crates/amqp/tests/hostile/streams.rs"]
#[allow(dead_code, reason = "other targets use the rest of it")]
mod streams;

use std::time::Instant;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    if let Some((stride, stream)) = bytes.split_first() {
        let _ = streams::serve(Instant::now(), stream, usize::from(*stride) * 16 + 1);
    }
});
