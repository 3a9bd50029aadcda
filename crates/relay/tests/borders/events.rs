//! Events with whatever they may have at a place, the same in each run.

use amqp::Value;
use amqp::codec::{Symbol, write};
use amqp::message::{Header, Properties, encode};
use amqp::performative::descriptor;
use convert::annotations::OwnAnnotations;
use convert::text::ReadEvent;
use proptest::prelude::*;
use proptest::strategy::ValueTree as _;
use proptest::test_runner::TestRunner;

use super::places::Place;

/// An event as its place takes it.
#[derive(Clone, Debug)]
pub(super) enum Event {
    Message(ReadEvent),
    /// Time in milliseconds, and key, value and headers.
    Record(i64, Vec<u8>),
}

pub(super) fn generate(place: Place, count: usize) -> Vec<Event> {
    let mut runner = TestRunner::deterministic();
    let strategy = match place {
        Place::Hub => message(false).boxed(),
        Place::Queue => message(true).boxed(),
        Place::Topic => record().boxed(),
    };
    (0..count)
        .map(|number| {
            let event = strategy.new_tree(&mut runner).unwrap().current();
            numbered(event, &format!("#{number:06}"))
        })
        .collect()
}

/// What is generated, before it has its number.
#[derive(Clone, Debug)]
struct Parts {
    key: Option<String>,
    header: Option<Header>,
    own: OwnAnnotations,
    standard: Properties,
    application: Vec<(String, Value)>,
    body: Body,
    has_footer: bool,
    timestamp_ms: i64,
}

#[derive(Clone, Debug)]
enum Body {
    Data(Vec<u8>),
    Pieces(Vec<u8>),
    Value,
    Sequence,
    Record,
}

fn numbered(parts: Parts, number: &str) -> Event {
    let Parts { key, header, mut own, standard, application, body, has_footer, timestamp_ms } = parts;
    if let Body::Record = body {
        let mut key = own.key;
        if own.is_tombstone {
            key.get_or_insert_default().extend_from_slice(number.as_bytes());
        }
        let value = (!own.is_tombstone).then(|| [key.as_deref().unwrap_or(b"v"), number.as_bytes()].concat());
        let mut tail = Vec::new();
        let headers = own.headers.iter().map(|(name, value)| (&name[..], value.as_deref()));
        kafka::record::encode_tail(&mut tail, key.as_deref(), value.as_deref(), headers);
        return Event::Record(timestamp_ms, tail);
    }
    own.is_tombstone = false;
    let mut event = ReadEvent { key, ..ReadEvent::default() };
    if let Some(header) = header {
        event.header = header.encode().as_slice().to_vec();
    }
    event.annotation_count = own.put(&mut event.annotations);
    let out = &mut event.sections;
    standard.encode(out);
    let mut application = application;
    // What the annotation says of headers is of those that are properties as well.
    for (name, value) in &own.headers {
        let Ok(name) = String::from_utf8(name.clone()) else { continue };
        application.retain(|(known, _)| *known != name);
        application.push((name, value.clone().map_or(Value::Null, Value::Binary)));
    }
    if !application.is_empty() {
        let entries: Vec<_> =
            application.iter().map(|(name, value)| (name.as_str(), value.clone())).collect();
        encode::application_properties(out, &entries);
    }
    let text = number.as_bytes();
    match body {
        Body::Data(content) => encode::data(out, &[&content[..], text].concat()),
        Body::Pieces(content) => {
            encode::data(out, &content);
            encode::data(out, text);
        }
        Body::Value => encode::value(out, &Value::from(number)),
        Body::Sequence => {
            write::descriptor(out, descriptor::AMQP_SEQUENCE);
            write::list(out, 2, |out| {
                write::int(out, 7);
                write::string(out, number);
            });
        }
        Body::Record => {}
    }
    if has_footer {
        // A map of one entry: "x" is 1.
        out.extend_from_slice(b"\x00\x53\x78\xc1\x06\x02\xa3\x01x\x54\x01");
    }
    Event::Message(event)
}

fn bytes() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        proptest::collection::vec(any::<u8>(), 0..40),
        Just(b"{\"n\": 1.10, \"n\":1e400}".to_vec()),
        "[a-z]{0,9}".prop_map(String::into_bytes),
        proptest::collection::vec(any::<u8>(), 2_000..3_000),
    ]
}

fn short_bytes() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![proptest::collection::vec(any::<u8>(), 0..9), "[a-z]{0,9}".prop_map(String::into_bytes)]
}

fn text() -> impl Strategy<Value = String> {
    prop_oneof!["[a-zA-Z ]{1,9}", "\\PC{1,6}"]
}

/// A value of a type that a service takes for a property, NaN left out, which is not equal to itself.
fn value() -> impl Strategy<Value = Value> {
    prop_oneof![
        Just(Value::Null),
        short_bytes().prop_map(Value::Binary),
        any::<bool>().prop_map(Value::Boolean),
        any::<u8>().prop_map(Value::Ubyte),
        any::<u64>().prop_map(Value::Ulong),
        any::<i32>().prop_map(Value::Int),
        any::<i64>().prop_map(Value::Long),
        any::<f64>().prop_map(Value::Double),
        any::<f32>().prop_map(Value::Float),
        any::<char>().prop_map(|character| Value::Char(character.into())),
        // Up to the end of the year 9999.
        (0..253_402_300_800_000_i64).prop_map(Value::Timestamp),
        any::<[u8; 16]>().prop_map(Value::Uuid),
        text().prop_map(Value::String),
        "[a-z]{1,9}".prop_map(|text| Value::Symbol(Symbol::from(text.as_str()))),
    ]
}

/// A name that is not there twice becomes a property, and one that is, or is no text, an annotation.
fn headers() -> impl Strategy<Value = Vec<(Vec<u8>, Option<Vec<u8>>)>> {
    let name = prop_oneof!["own[ab]".prop_map(String::into_bytes), Just(b"\xff".to_vec())];
    proptest::collection::vec((name, proptest::option::of(short_bytes())), 0..4)
}

prop_compose! {
    fn own()(key in proptest::option::of(short_bytes()), is_tombstone: bool, headers in headers()) -> OwnAnnotations {
        OwnAnnotations { key, is_tombstone, headers }
    }
}

prop_compose! {
    fn standard()(
        message_id in prop_oneof![
            text().prop_map(Value::String),
            any::<[u8; 16]>().prop_map(Value::Uuid),
        ],
        texts in proptest::collection::vec(proptest::option::of(text()), 5),
        symbols in proptest::collection::vec(proptest::option::of("[a-z]{1,9}"), 2),
        user_id in proptest::option::of(short_bytes()),
    ) -> Properties {
        let [to, subject, reply_to, correlation_id, reply_to_group_id] = texts.try_into().unwrap();
        let mut symbols = symbols.into_iter().map(|text| text.map(|text| Symbol::from(text.as_str())));
        Properties {
            message_id: Some(message_id),
            user_id,
            to,
            subject,
            reply_to,
            correlation_id: correlation_id.map(Value::String),
            content_type: symbols.next().flatten(),
            content_encoding: symbols.next().flatten(),
            reply_to_group_id,
            ..Properties::default()
        }
    }
}

prop_compose! {
    fn message(has_header: bool)(
        key in proptest::option::of("[a-z\u{e9}]{1,20}"),
        header in proptest::option::of((any::<bool>(), 0_u8..10, 60_000_u32..900_000_000)),
        own in own(),
        has_own in prop_oneof![2 => Just(false), 1 => Just(true)],
        standard in standard(),
        application in proptest::collection::btree_map("own[c-z]{0,5}", value(), 0..5),
        body in prop_oneof![
            6 => bytes().prop_map(Body::Data),
            1 => bytes().prop_map(Body::Pieces),
            1 => Just(Body::Value),
            1 => Just(Body::Sequence),
        ],
        has_footer in prop_oneof![4 => Just(false), 1 => Just(true)],
    ) -> Parts {
        let header = header.filter(|_| has_header).map(|(durable, priority, time_to_live_ms)| Header {
            durable: Some(durable),
            priority: Some(priority),
            time_to_live_ms: Some(time_to_live_ms),
            ..Header::default()
        });
        let own = if has_own { repeated(own) } else { OwnAnnotations::default() };
        Parts { key, header, own, standard, application: application.into_iter().collect(), body, has_footer, timestamp_ms: 0 }
    }
}

/// The annotation of headers is there if the properties don't say them all.
fn repeated(mut own: OwnAnnotations) -> OwnAnnotations {
    let names: std::collections::BTreeSet<_> = own.headers.iter().map(|(name, _)| name.clone()).collect();
    if names.len() == own.headers.len() && names.iter().all(|name| str::from_utf8(name).is_ok()) {
        own.headers.clear();
    }
    own
}

prop_compose! {
    fn record()(own in own(), timestamp_ms in 1_500_000_000_000_i64..1_700_000_000_000) -> Parts {
        Parts {
            key: None,
            header: None,
            own,
            standard: Properties::default(),
            application: Vec::new(),
            body: Body::Record,
            has_footer: false,
            timestamp_ms,
        }
    }
}
