//! Any text as a bearer token and as a set of keys: reading it ends, and what can be read is verified without a panic.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| access::token::check_any_text(text));
