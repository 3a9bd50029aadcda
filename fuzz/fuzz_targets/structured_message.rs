//! Any bytes as a structured message, in parts of any size: what comes out is the content that was announced, or an error.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: (u16, u8, &[u8])| {
    let (content_length, part_bytes, bytes) = input;
    blob_store::structured::check_any_message(bytes, content_length.into(), part_bytes.into());
});
