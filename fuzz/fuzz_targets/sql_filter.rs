//! Any text as a condition and as an action of a rule: reading it ends, and what was read survives being printed.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| queue_store::rules::check_any_text(text));
