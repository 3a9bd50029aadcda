//! Whole messages, which have every section between them.

use super::{Meaning, Vector, vector};
use amqp::Value;
use amqp::message::SectionKind;

pub(super) fn vectors() -> Vec<Vector> {
    let map = |key: Value, value: Value| Value::Map(vec![(key, value)]);
    vec![
        vector(
            "message with every section but the other bodies",
            &[
                "00 53 70 c0 < 02 41 50 05 >",         // header (3.2.1)
                "00 53 71 c1 < 02 a3 < 'd' > 54 ff >", // delivery-annotations (3.2.2)
                "00 53 72 d1 << 00 00 00 02 a3 < 'x-opt-partition-key' > a1 < 'k' > >>", // message-annotations (3.2.3)
                "00 53 73 c0 < 06 98 00 01 02 03 04 05 06 07 08 09 0a 0b 0c 0d 0e 0f",   // properties (3.2.4)
                "40 40 40 40 80 00 00 00 00 00 00 01 00 >", //   … correlation-id 256
                "00 53 74 c1 < 02 a1 < 'a' > 83 00 00 01 94 00 00 00 00 >", // application-properties (3.2.5)
                "00 53 75 a0 < 'one' >",                    // data (3.2.6)
                "00 80 00 00 00 00 00 00 00 75 b0 << 'two' >>", // data, everything in full length
                "00 53 78 c1 < 00 >",                       // footer (3.2.9)
            ],
            Meaning::Message(vec![
                (SectionKind::Header, Value::List(vec![Value::Boolean(true), Value::Ubyte(5)])),
                (SectionKind::DeliveryAnnotations, map(Value::Symbol("d".into()), Value::Int(-1))),
                (
                    SectionKind::MessageAnnotations,
                    map(Value::Symbol("x-opt-partition-key".into()), Value::from("k")),
                ),
                (
                    SectionKind::Properties,
                    Value::List(vec![
                        Value::Uuid([0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15]),
                        Value::Null,
                        Value::Null,
                        Value::Null,
                        Value::Null,
                        Value::Ulong(256),
                    ]),
                ),
                (
                    SectionKind::ApplicationProperties,
                    map(Value::from("a"), Value::Timestamp(0x194_0000_0000)),
                ),
                (SectionKind::Data, Value::Binary(b"one".to_vec())),
                (SectionKind::Data, Value::Binary(b"two".to_vec())),
                (SectionKind::Footer, Value::Map(Vec::new())),
            ]),
        ),
        vector(
            "message with a sequence, sections out of order",
            &[
                "00 53 76 45", // amqp-sequence (3.2.7)
                "00 a3 < 'amqp:amqp-sequence:list' > c0 < 01 41 >",
                "00 53 71 c1 < 00 >", // delivery-annotations at the end, as Python has it
            ],
            Meaning::Message(vec![
                (SectionKind::Sequence, Value::List(Vec::new())),
                (SectionKind::Sequence, Value::List(vec![Value::Boolean(true)])),
                (SectionKind::DeliveryAnnotations, Value::Map(Vec::new())),
            ]),
        ),
        vector(
            "message with a value",
            &["00 53 77 40"], // amqp-value (3.2.8)
            Meaning::Message(vec![(SectionKind::Value, Value::Null)]),
        ),
    ]
}
