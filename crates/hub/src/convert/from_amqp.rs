//! AMQP messages as batches of Kafka.

use convert::{HeaderForm, Message};
use kafka::record;
use kafka::record_batch::{self, RecordBatch};
use partition_log::{LEADER_EPOCH, LogChunk};

/// Appends the batches of `chunk`, which is of AMQP, as record batches to `out`, one for each: whole, so that the first may begin
/// before the record that the reader wants.
pub(crate) fn record_batches(chunk: &LogChunk, out: &mut Vec<u8>) {
    for batch in chunk.batches() {
        let start = out.len();
        out.resize(start + RecordBatch::HEADER_LENGTH, 0);
        for (delta, record) in (0..).zip(batch.records()) {
            let message = Message {
                key: None,
                annotation_count: record.annotation_count,
                annotations: record.annotations,
                sections: record.sections,
                header_form: HeaderForm::Encoded,
            };
            push(out, delta, &message);
        }
        let (number, time) = (batch.first_sequence_number.cast_signed(), batch.append_time.milliseconds());
        record_batch::complete(&mut out[start..], number, LEADER_EPOCH, batch.record_count, time);
    }
}

fn push(out: &mut Vec<u8>, delta: u32, message: &Message<'_>) {
    if let Some(value) = message.plain_value() {
        return record::encode(out, delta, None, Some(value), std::iter::empty());
    }
    let parts = message.record_parts();
    record::encode(out, delta, parts.key, parts.value.as_deref(), parts.headers());
}
