//! Any bytes as the content of a log segment: recovery gives the valid prefix and says what is torn, and what it calls
//! valid can be read.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| partition_log::recovery::check_any_bytes(bytes));
