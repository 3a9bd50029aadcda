//! What holds for every value and for any bytes.

use amqp::codec::{Reader, write};
use amqp::message::{MessageView, Properties, SectionKind, Sections, encode};
use amqp::{Symbol, Value};
use proptest::collection::vec;
use proptest::prelude::*;

proptest! {
    #[test]
    fn a_value_comes_back_from_its_encoding(value in any_value()) {
        let bytes = encoded(&value);
        let mut reader = Reader::new(&bytes);
        let decoded = reader.value().expect("what we write can be read");
        prop_assert!(reader.is_empty());
        // Compared as bytes, since a NaN is not equal to itself.
        prop_assert_eq!(encoded(&decoded), bytes);
    }

    #[test]
    fn skipping_consumes_what_reading_consumes(value in any_value(), after in vec(any::<u8>(), 0..20)) {
        let mut bytes = encoded(&value);
        bytes.extend(&after);
        let mut reader = Reader::new(&bytes);
        reader.skip().expect("what we write can be skipped");
        prop_assert_eq!(reader.rest(), &after[..]);
        let mut reader = Reader::new(&bytes);
        let raw = reader.raw().expect("what we write can be passed on");
        prop_assert_eq!(raw, &bytes[..bytes.len() - after.len()]);
    }

    #[test]
    fn what_can_be_read_can_be_skipped(bytes in vaguely_encoded()) {
        let (mut read, mut skipped) = (Reader::new(&bytes), Reader::new(&bytes));
        if read.value().is_ok() {
            prop_assert_eq!(skipped.skip(), Ok(()));
            prop_assert_eq!(read.rest(), skipped.rest());
        }
    }

    #[test]
    fn every_accessor_survives_any_bytes(bytes in vaguely_encoded()) {
        let reader = Reader::new(&bytes);
        let consumed = |used: Reader<'_>| assert!(bytes.ends_with(used.rest()));
        macro_rules! each {
            ($($accessor:ident)*) => {$({
                let mut reader = reader;
                let _ = reader.$accessor();
                consumed(reader);
            })*};
        }
        each!(boolean ubyte ushort uint ulong int long timestamp binary string symbol text symbols list map array_of
            descriptor skip value raw);
        let mut map = Reader::new(&bytes);
        if let Ok(Some(map)) = map.map() {
            let _ = map.fields();
        }
        let mut array = Reader::new(&bytes);
        if let Ok(mut array) = array.array_of() {
            while let Ok(Some(_)) = array.next_value() {}
        }
    }

    #[test]
    fn sections_are_consecutive_pieces_of_their_message(bytes in vaguely_encoded()) {
        let mut at = 0;
        for section in Sections::new(&bytes) {
            let Ok(section) = section else { break };
            prop_assert_eq!(&bytes[at..at + section.encoded.len()], section.encoded);
            prop_assert!(section.encoded.ends_with(section.value));
            at += section.encoded.len();
            if section.kind == SectionKind::Data {
                let _ = section.data();
            }
        }
    }

    #[test]
    fn a_message_comes_back_from_its_encoding(
        annotations in vec(("[a-z-]{1,20}", any_value()), 0..4),
        application in vec(("\\PC{0,20}", any_value()), 0..4),
        id in any::<u64>(),
        payload in vec(any::<u8>(), 0..600),
    ) {
        let annotations: Vec<_> =
            annotations.into_iter().map(|(key, value)| (Symbol::from(key), value)).collect();
        let application: Vec<_> =
            application.iter().map(|(key, value)| (key.as_str(), value.clone())).collect();
        let properties = Properties { message_id: Some(Value::Ulong(id)), ..Properties::default() };
        let mut bytes = Vec::new();
        encode::message_annotations(&mut bytes, &annotations);
        properties.encode(&mut bytes);
        encode::application_properties(&mut bytes, &application);
        let overhead = bytes.len() + encode::data_overhead(payload.len());
        encode::data(&mut bytes, &payload);
        prop_assert_eq!(bytes.len(), overhead + payload.len());
        let view = MessageView::parse(&bytes).expect("what we write can be read");
        prop_assert_eq!(view.data(), Ok(Some(&payload[..])));
        prop_assert_eq!(view.properties(), Ok(Some(properties)));
        if let Some((key, value)) = application.first() {
            let found = view.application_properties().and_then(|all| all.find(key)).expect("it can be read");
            prop_assert_eq!(found.map(|found| encoded(&found)), Some(encoded(value)));
        }
        let read = view.message_annotations().and_then(|all| all.entries()).expect("it can be read");
        prop_assert_eq!(read.len(), annotations.len());
    }
}

fn encoded(value: &Value) -> Vec<u8> {
    let mut out = Vec::new();
    write::value(&mut out, value);
    out
}

fn any_value() -> impl Strategy<Value = Value> {
    primitive().prop_recursive(4, 32, 8, |inner| {
        prop_oneof![
            vec(inner.clone(), 0..8).prop_map(Value::List),
            vec((inner.clone(), inner.clone()), 0..4).prop_map(Value::Map),
            (inner.clone(), inner.clone()).prop_map(|both| Value::Described(Box::new(both))),
            // The elements of an array are alike.
            (inner, 0usize..8).prop_map(|(item, count)| Value::Array(match item {
                Value::Described(_) => Vec::new(),
                item => vec![item; count],
            })),
            vec(any::<i32>().prop_map(Value::Int), 0..8).prop_map(Value::Array),
            vec("\\PC{0,8}".prop_map(Value::String), 0..8).prop_map(Value::Array),
            vec(vec(any::<u64>().prop_map(Value::Ulong), 0..3).prop_map(Value::List), 0..4)
                .prop_map(Value::Array),
        ]
    })
}

fn primitive() -> impl Strategy<Value = Value> {
    prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::Boolean),
        any::<u8>().prop_map(Value::Ubyte),
        any::<u16>().prop_map(Value::Ushort),
        prop_oneof![0u32..300, any::<u32>()].prop_map(Value::Uint),
        prop_oneof![0u64..300, any::<u64>()].prop_map(Value::Ulong),
        any::<i8>().prop_map(Value::Byte),
        any::<i16>().prop_map(Value::Short),
        prop_oneof![-200i32..200, any::<i32>()].prop_map(Value::Int),
        prop_oneof![-200i64..200, any::<i64>()].prop_map(Value::Long),
        any::<u32>().prop_map(|bits| Value::Float(f32::from_bits(bits))),
        any::<u64>().prop_map(|bits| Value::Double(f64::from_bits(bits))),
        any::<[u8; 4]>().prop_map(Value::Decimal32),
        any::<[u8; 8]>().prop_map(Value::Decimal64),
        any::<[u8; 16]>().prop_map(Value::Decimal128),
        any::<u32>().prop_map(Value::Char),
        any::<i64>().prop_map(Value::Timestamp),
        any::<[u8; 16]>().prop_map(Value::Uuid),
        vec(any::<u8>(), 0..300).prop_map(Value::Binary),
        "\\PC{0,100}".prop_map(Value::String),
        "[ -~]{0,300}".prop_map(|text| Value::Symbol(text.into())),
    ]
}

/// Bytes of which many look like constructors, and values with a few bytes changed.
fn vaguely_encoded() -> impl Strategy<Value = Vec<u8>> {
    let constructors = vec![
        0x00, 0x40, 0x41, 0x43, 0x44, 0x45, 0x50, 0x52, 0x53, 0x54, 0x56, 0x60, 0x70, 0x80, 0x83, 0x94, 0x98,
        0xa0, 0xa1, 0xa3, 0xb0, 0xc0, 0xc1, 0xd0, 0xd1, 0xe0, 0xf0, 0x70, 0x72, 0x73, 0x74, 0x75, 0x77,
    ];
    let byte = prop_oneof![proptest::sample::select(constructors), 0u8..8, any::<u8>()];
    let falsified = (any_value(), vec((any::<proptest::sample::Index>(), any::<u8>()), 1..4)).prop_map(
        |(value, changes)| {
            let mut bytes = encoded(&value);
            for (at, byte) in changes {
                let at = at.index(bytes.len());
                bytes[at] = byte;
            }
            bytes
        },
    );
    prop_oneof![vec(byte, 0..80), falsified]
}
