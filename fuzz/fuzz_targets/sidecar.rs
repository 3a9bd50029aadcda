//! Any bytes as the file beside a log segment: decoding is total, and what it takes is what it would write.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| partition_log::disk::sidecar::check_any_bytes(bytes));
