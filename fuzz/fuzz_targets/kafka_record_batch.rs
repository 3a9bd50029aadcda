//! Any bytes as a record batch of a Kafka client. A batch that passes the check has as many records as it says, if it is not
//! compressed; unpacking and reading the records ends within its bound, whatever is in them.
#![no_main]

use kafka::control_batch::TransactionMarker;
use kafka::record::Records;
use kafka::record_batch::RecordBatch;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let mut bytes = bytes.to_vec();
    // No fuzzer guesses a checksum.
    if let Some(checked) = bytes.get(CHECKED..) {
        let checksum = crc32c::crc32c(checked).to_be_bytes();
        bytes[CHECKSUM..CHECKED].copy_from_slice(&checksum);
    }
    if let Ok(batch) = RecordBatch::read(&bytes) {
        let _marker = TransactionMarker::read(&batch);
    }
    let Ok(batch) = RecordBatch::check(&bytes) else {
        return;
    };
    let Ok(records) = batch.unpacked(UNPACKED_MAX) else {
        return;
    };
    assert!(records.len() <= UNPACKED_MAX.max(bytes.len()));
    let read = Records::of(&records).take_while(Result::is_ok).count();
    assert!(read <= records.len(), "a record has a byte at least");
});

/// Where the checksum is, and where what it covers begins.
const CHECKSUM: usize = 17;
const CHECKED: usize = 21;

const UNPACKED_MAX: usize = 1024 * 1024;
