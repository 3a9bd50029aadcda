//! What nearly every message and record is like is converted without taking memory.

use amqp::message::encode;
use convert::{Message, message};
use counting_allocator::{CountingAllocator, measure};
use kafka::record::{self, Records};

#[global_allocator]
static ALLOCATOR: CountingAllocator = CountingAllocator;

#[test]
fn plain_messages_and_records_take_no_memory() {
    let mut sections = Vec::new();
    encode::data(&mut sections, &[7; 300]);
    let plain = Message { key: Some(b"key"), ..Message::of(&sections) };
    let mut records = Vec::with_capacity(1 << 20);
    let mut messages = Vec::with_capacity(1 << 20);
    let ((), usage) = measure(|| {
        for delta in 0..1_000 {
            let parts = plain.record_parts();
            record::encode(&mut records, delta, parts.key, parts.value.as_deref(), parts.headers());
        }
        for record in Records::of(&records).flatten() {
            message(&mut messages, &record);
        }
    });
    assert_eq!(usage.allocations, 0);
    // The key is an annotation.
    assert!(messages.len() > 1_000 * sections.len());
    assert_eq!(record::check(&records, 1_000), Ok(()));
}
