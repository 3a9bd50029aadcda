//! Programs on batches.

use std::collections::BTreeMap;
use std::sync::Arc;

use amqp::codec::Value;
use amqp::message::{MessageView, encode};
use bytes::Bytes;
use connect::event::{Encoding, EnqueuedTime, EventBatch, EventParts, PartitionId};
use connect::transform::{Selection, Transform};
use proptest::prelude::*;

use crate::{Condition, Mistake, Program, Step, Transformer};

fn message(properties: &[(&str, Value)]) -> Vec<u8> {
    let mut message = Vec::new();
    encode::application_properties(&mut message, properties);
    encode::data(&mut message, b"body");
    message
}

fn batch(messages: &[Vec<u8>]) -> EventBatch {
    let mut batch = EventBatch::with_capacity(PartitionId(2), messages.len());
    batch.set_encoding(Encoding::Amqp);
    for (number, message) in (0..).zip(messages) {
        let chunk = Bytes::from([b"key", &message[..]].concat());
        let parts = EventParts {
            message: 3..chunk.len() as u32,
            partition_key: 0..3,
            offset: 0..0,
            sequence_number: number,
            enqueued_time: EnqueuedTime::from_unix_ms(number),
        };
        batch.push(&chunk, &parts);
    }
    batch
}

fn map(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
    pairs.iter().map(|(one, other)| ((*one).to_owned(), (*other).to_owned())).collect()
}

fn applied(steps: &[Step], conditions: &[Option<Condition<'_>>], batch: &mut EventBatch) -> Selection {
    let program = Program::compile("transform", steps, conditions).unwrap().unwrap();
    let mut selection = Selection::default();
    Transformer::new(Arc::new(program)).apply(batch, &mut selection);
    selection
}

fn properties(batch: &EventBatch, event: usize) -> Vec<(String, Value)> {
    let view = MessageView::parse(batch.message(&batch.events()[event])).unwrap();
    assert_eq!(view.data().unwrap(), Some(&b"body"[..]));
    let entries = view.application_properties().unwrap().entries().unwrap();
    entries.into_iter().map(|(name, value)| (name.as_str().to_owned(), value)).collect()
}

fn text(text: &str) -> Value {
    Value::String(text.to_owned())
}

#[test]
fn steps_follow_one_another_and_conditions_see_what_they_have_made() {
    let eu =
        message(&[("region", text("eu")), ("device_id", Value::Int(7)), ("debug", Value::Boolean(true))]);
    let us = message(&[("region", text("us"))]);
    let mut batch = batch(&[eu, us, message(&[])]);
    let steps = [
        Step::Filter("properties.region != \"us\"".to_owned()),
        Step::Rename(map(&[("device_id", "device"), ("absent", "present")])),
        Step::Set(map(&[
            ("pipeline", "\"orders\""),
            ("copy", "properties.device"),
            ("place", "string(partition) + \"/\" + string(sequence_number) + \"/\" + key"),
            ("nothing", "properties.absent"),
        ])),
        Step::Drop(vec!["debug".to_owned(), "unheard-of".to_owned()]),
    ];
    let orders = Condition { path: "sinks[0].when", text: "properties.device == 7" };
    let rest = Condition { path: "sinks[1].when", text: "!has(properties.device)" };
    let selection = applied(&steps, &[Some(orders), Some(rest), None], &mut batch);
    let sinks = |event| (0..3).map(|sink| selection.contains(event, sink)).collect::<Vec<_>>();
    assert_eq!(sinks(0), [true, false, true]);
    assert_eq!(sinks(1), [false, false, false]);
    assert_eq!(sinks(2), [false, true, true]);
    assert!(selection.refused().is_empty());
    assert_eq!(
        properties(&batch, 0),
        [
            ("region".to_owned(), text("eu")),
            ("device".to_owned(), Value::Int(7)),
            ("copy".to_owned(), Value::Int(7)),
            ("pipeline".to_owned(), text("orders")),
            ("place".to_owned(), text("2/0/key")),
        ]
    );
    assert_eq!(
        properties(&batch, 1),
        [("region".to_owned(), text("us"))],
        "what goes nowhere stays as it is"
    );
    assert_eq!(batch.partition_key(&batch.events()[0]), Some(&b"key"[..]));
    assert_eq!(batch.events()[0].enqueued_time, EnqueuedTime::from_unix_ms(0));
}

#[test]
fn an_event_for_which_an_expression_fails_is_refused_and_stays_as_it_is() {
    let small = message(&[("size", Value::Int(1))]);
    let none = message(&[]);
    let mut batch = batch(&[small, none.clone(), b"no sections".to_vec()]);
    let steps = [Step::Drop(vec!["x".to_owned()]), Step::Filter("properties.size > 0".to_owned())];
    let selection = applied(&steps, &[], &mut batch);
    let [missing, unreadable] = selection.refused() else { panic!("two: {selection:?}") };
    assert_eq!((missing.event, unreadable.event), (1, 2));
    assert!(missing.reason.starts_with("transform[1].filter: "), "{missing:?}");
    assert_eq!(unreadable.reason, "the message can't be read");
    assert_eq!(batch.message(&batch.events()[1]), none);
    assert!(selection.contains(0, 0) && !selection.contains(1, 0) && !selection.contains(2, 0));
}

#[test]
fn headers_of_kafka_are_properties() {
    let mut record = vec![6, b'k', b'e', b'y', 2, b'v', 2];
    record.extend_from_slice(&[12]);
    record.extend_from_slice(b"region\x04eu");
    let mut batch = batch(&[record]);
    batch.set_encoding(Encoding::Kafka);
    let steps = [
        Step::Filter("properties.region == 'eu'".to_owned()),
        Step::Set(map(&[("number", "sequence_number + 41")])),
        Step::Rename(map(&[("region", "r")])),
    ];
    let selection = applied(&steps, &[], &mut batch);
    assert!(selection.is_everything());
    assert_eq!(batch.message(&batch.events()[0]), b"\x06key\x02v\x04\x02r\x04eu\x0cnumber\x0441");
}

#[test]
fn mistakes_of_steps_name_the_value_that_they_are_in() {
    let mistake = |step: Step| -> Mistake { Program::compile("transform", &[step], &[]).unwrap_err() };
    for (step, path, reason) in [
        (Step::Rename(map(&[("a", "a")])), "transform[0].rename.a", "`a` is the name that it has"),
        (
            Step::Rename(map(&[("a", "c"), ("b", "c")])),
            "transform[0].rename.b",
            "two properties would become `c`",
        ),
        (Step::Rename(map(&[])), "transform[0].rename", "the step does nothing"),
        (Step::Drop(vec![]), "transform[0].drop", "the step does nothing"),
        (Step::Drop(vec![String::new()]), "transform[0].drop", "the name of a property has 1 to 1024 bytes"),
        (Step::Set(map(&[("a", "orders")])), "transform[0].set.a", "`orders` is nothing of an event"),
        (Step::Set(map(&[("a", "[1]")])), "transform[0].set.a", "a property can't be of type list"),
        (
            Step::Filter("1".to_owned()),
            "transform[0].filter",
            "this is of type int, and a condition is true or false",
        ),
    ] {
        let found = mistake(step);
        assert_eq!((&*found.path, &*found.reason), (path, reason));
    }
    let names = (0..300).map(|number| format!("p{number}")).collect();
    assert!(mistake(Step::Drop(names)).reason.contains("256 different properties"));
    assert!(Program::compile("transform", &[], &[None]).unwrap().is_none());
}

/// Takes any bytes through each kind of step: a message that can be read is written as one that can, with what was set.
fn check_any_message(encoding: Encoding, message: &[u8]) {
    let map = |from: &str, to: &str| [(from.to_owned(), to.to_owned())].into();
    let change = [
        Step::Filter("properties.a != \"x\" && key == null && subject != \"y\"".to_owned()),
        Step::Rename(map("a", "b")),
        Step::Set(map("set", "properties.b == null ? \"none\" : \"one\"")),
        Step::Drop(vec!["c".to_owned()]),
    ];
    let read =
        [Step::Filter("properties.a == null && properties.c == null && has(properties.set)".to_owned())];
    let mut batch = EventBatch::with_capacity(PartitionId(0), 1);
    batch.set_encoding(encoding);
    batch.push_message(&message.to_vec().into(), 0);
    let mut selection = Selection::default();
    let mut apply = |steps: &[Step]| {
        let program = Program::compile("transform", steps, &[]).expect("the steps are right");
        let program = program.expect("there are steps");
        Transformer::new(Arc::new(program)).apply(&mut batch, &mut selection);
        (selection.refused().is_empty(), selection.contains(0, 0))
    };
    if apply(&change) == (true, true) {
        assert_eq!(
            apply(&read),
            (true, true),
            "{message:x?} is written as {:x?}",
            batch.message(&batch.events()[0])
        );
    }
}

proptest! {
    #[test]
    fn any_bytes_are_rewritten_or_refused(
        bytes: Vec<u8>,
        properties in proptest::collection::vec(("[abcd]", proptest::option::of(any::<i64>())), 0..6),
        cut in 0_usize..100,
    ) {
        let value = |value: Option<i64>| value.map_or(Value::Null, Value::Long);
        let list: Vec<_> = properties.iter().map(|(name, of)| (&**name, value(*of))).collect();
        let whole = message(&list);
        for encoding in [Encoding::Amqp, Encoding::Kafka] {
            check_any_message(encoding, &bytes);
            check_any_message(encoding, &[&[0, 0x53, 0x74], &bytes[..]].concat());
            check_any_message(encoding, &[&[1, 1, 2, 2], &bytes[..]].concat());
            check_any_message(encoding, &whole);
            check_any_message(encoding, &whole[..whole.len().min(cut)]);
        }
    }
}
