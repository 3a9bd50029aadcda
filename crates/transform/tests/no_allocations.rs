//! Once its buffers have grown to their size, a transform without the library allocates nothing, however many events there are.

use std::sync::Arc;

use amqp::codec::Value;
use amqp::message::encode;
use bytes::Bytes;
use connect::event::{Encoding, EventBatch, PartitionId};
use connect::transform::{Selection, Transform};
use transform::{Program, Step, Transformer};

#[global_allocator]
static ALLOCATOR: counting_allocator::CountingAllocator = counting_allocator::CountingAllocator;

#[test]
fn a_batch_costs_no_memory_once_there_was_one_like_it() {
    let mut message = Vec::new();
    let text = |text: &str| Value::String(text.to_owned());
    let properties = [("region", text("eu")), ("device_id", text("d-1")), ("debug", Value::Boolean(true))];
    encode::application_properties(&mut message, &properties);
    encode::data(&mut message, &[7; 16]);
    let message = Bytes::from(message);
    let map = |name: &str, value: &str| [(name.to_owned(), value.to_owned())].into();
    let steps = [
        Step::Filter("properties.region == \"eu\" && sequence_number != 5".to_owned()),
        Step::Rename(map("device_id", "device")),
        Step::Set(map("copy", "properties.device")),
        Step::Drop(vec!["debug".to_owned()]),
    ];
    let program = Program::compile("transform", &steps, &[]).unwrap().unwrap();
    let mut transformer = Transformer::new(Arc::new(program));
    let (mut batch, mut selection) = (EventBatch::default(), Selection::default());
    let mut once = || {
        batch.clear(PartitionId(0));
        batch.set_encoding(Encoding::Amqp);
        (0..100).for_each(|number| batch.push_message(&message, number));
        let ((), usage) = counting_allocator::measure(|| transformer.apply(&mut batch, &mut selection));
        assert!(selection.contains(4, 0) && !selection.contains(5, 0) && selection.refused().is_empty());
        usage.allocations
    };
    assert!(once() > 0, "the allocator counts");
    assert_eq!(once(), 0);
}
