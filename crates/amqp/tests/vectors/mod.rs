//! One vector per performative, SASL frame, section, outcome and type, put through three loops: it means what it
//! should and comes back from our own encoding; cut anywhere it is an error; with any byte falsified it does no harm.

use crate::list::{Meaning, read, vectors, write};
use amqp::codec::{MAX_BODILESS_ELEMENTS, MAX_DEPTH, MAX_ELEMENTS, Reader};
use amqp::message::MessageView;
use amqp::{DecodeError, Value};
use counting_allocator::measure;

#[test]
fn every_vector_means_what_it_should_and_comes_back_from_our_encoding() {
    for vector in vectors() {
        let meaning = read(&vector.meaning, &vector.bytes);
        assert_eq!(meaning.as_ref(), Ok(&vector.meaning), "{}", vector.name);
        if let Some(ours) = write(&vector.meaning) {
            assert_eq!(read(&vector.meaning, &ours), Ok(vector.meaning), "{} as we write it", vector.name);
        }
    }
}

#[test]
fn a_vector_cut_anywhere_is_an_error() {
    for vector in vectors() {
        if matches!(vector.meaning, Meaning::Message(_)) {
            continue; // a message may end after any section
        }
        for length in 0..vector.bytes.len() {
            let meaning = read(&vector.meaning, &vector.bytes[..length]);
            assert!(meaning.is_err(), "{} cut at {length} is {meaning:?}", vector.name);
        }
    }
}

#[test]
fn a_message_cut_within_a_section_is_an_error() {
    for vector in vectors() {
        let Meaning::Message(sections) = &vector.meaning else {
            continue;
        };
        let whole = (0..vector.bytes.len())
            .filter(|length| {
                let cut = &vector.bytes[..*length];
                let _ = MessageView::parse(cut).map(exercise);
                read(&vector.meaning, cut).is_ok()
            })
            .count();
        assert_eq!(whole, sections.len(), "{} is whole before each section only", vector.name);
    }
}

#[test]
fn a_falsified_byte_does_no_harm() {
    for vector in vectors() {
        for position in 0..vector.bytes.len() {
            let original = vector.bytes[position];
            for falsified in (0..=u8::MAX).filter(|byte| *byte != original) {
                let mut bytes = vector.bytes.clone();
                bytes[position] = falsified;
                let (_, usage) = measure(|| {
                    let meaning = read(&vector.meaning, &bytes);
                    let _ = MessageView::parse(&bytes).map(exercise);
                    drop(meaning);
                });
                assert!(
                    usage.peak_bytes <= HARMLESS_BYTES,
                    "{} with {falsified:#04x} at {position} took {} bytes",
                    vector.name,
                    usage.peak_bytes
                );
            }
        }
    }
}

#[test]
fn values_nest_to_the_limit_and_no_deeper() {
    let nested = |depth: u32| {
        let mut value = Value::Null;
        for _ in 0..depth {
            value = Value::List(vec![value]);
        }
        encoded(&value)
    };
    assert!(Reader::new(&nested(MAX_DEPTH)).value().is_ok());
    assert_eq!(Reader::new(&nested(MAX_DEPTH + 1)).value(), Err(DecodeError::TooDeep));
    let described: Vec<u8> = [0x00, 0x43].repeat(1 << 16).into_iter().chain([0x40]).collect();
    assert_eq!(Reader::new(&described).value(), Err(DecodeError::TooDeep));
    assert_eq!(Reader::new(&described).skip(), Ok(()), "skipping does not recurse");
    let array = [&[0xf0, 0, 2, 0, 9, 0, 0, 0, 1][..], &[0x00, 0x43].repeat(1 << 16), &[0x50, 7]].concat();
    assert!(Reader::new(&array).value().is_err());
}

#[test]
fn a_value_has_as_many_elements_as_the_limit_allows_and_no_more() {
    let list = |count: u32| encoded(&Value::List(vec![Value::Null; count as usize]));
    assert!(Reader::new(&list(MAX_ELEMENTS)).value().is_ok());
    assert_eq!(Reader::new(&list(MAX_ELEMENTS + 1)).value(), Err(DecodeError::TooManyElements));
    let half = Value::List(vec![Value::Null; MAX_ELEMENTS as usize / 2]);
    let twice = encoded(&Value::List(vec![half.clone(), half]));
    assert_eq!(Reader::new(&twice).value(), Err(DecodeError::TooManyElements), "nested elements count too");
}

#[test]
fn an_array_has_as_many_elements_without_a_body_as_the_limit_allows_and_no_more() {
    let array = |count: u32| [&[0xf0, 0, 0, 0, 5][..], &count.to_be_bytes(), &[0x40]].concat();
    let limit = Reader::new(&array(MAX_BODILESS_ELEMENTS)).value();
    assert_eq!(limit, Ok(Value::Array(vec![Value::Null; MAX_BODILESS_ELEMENTS as usize])));
    for count in [MAX_BODILESS_ELEMENTS + 1, u32::MAX] {
        assert_eq!(Reader::new(&array(count)).value(), Err(DecodeError::TooManyElements));
    }
}

#[test]
fn arrays_of_arrays_of_nothing_are_bounded() {
    // Each inner array is three bytes and holds 32 values.
    let inner = [2, 32, 0x45].repeat(20_000);
    let size = u32::try_from(inner.len() + 5).expect("it is short");
    let bytes = [&[0xf0][..], &size.to_be_bytes(), &20_000u32.to_be_bytes(), &[0xe0], &inner].concat();
    let (value, usage) = measure(|| Reader::new(&bytes).value());
    assert_eq!(value, Err(DecodeError::TooManyElements));
    assert!(usage.peak_bytes < 8 << 20, "{} bytes", usage.peak_bytes);
}

#[test]
fn an_array_of_described_values_has_its_descriptor_once() {
    let item = |number| Value::Described(Box::new((Value::Symbol("m".into()), Value::Uint(number))));
    let bytes = encoded(&Value::Array(vec![item(1), item(2)]));
    assert_eq!(bytes, crate::list::assemble("f0 << 00 00 00 02 00 a3 < 'm' > 70 00 00 00 01 00 00 00 02 >>"));
}

#[test]
fn text_is_checked() {
    assert_eq!(Reader::new(&[0xa1, 1, 0xff]).value(), Err(DecodeError::InvalidText("UTF-8")));
    assert_eq!(Reader::new(&[0xa3, 1, 0xe9]).value(), Err(DecodeError::InvalidText("ASCII")));
    assert_eq!(Reader::new(&[0xa3, 1, 0xe9]).symbol(), Err(DecodeError::InvalidText("ASCII")));
}

fn encoded(value: &Value) -> Vec<u8> {
    let mut out = Vec::new();
    amqp::codec::write::value(&mut out, value);
    out
}

/// Looks at everything in a message.
fn exercise(view: MessageView<'_>) {
    let _ = view.properties();
    let _ = view.data();
    let _ = view.value();
    for entries in [view.message_annotations(), view.delivery_annotations(), view.application_properties()] {
        let _ = entries.map(|entries| (entries.find("k"), entries.entries()));
    }
}

/// Far more than any vector needs, far less than what a falsified length could claim.
const HARMLESS_BYTES: u64 = 64 * 1024;
