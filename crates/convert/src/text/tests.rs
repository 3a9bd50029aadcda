use amqp::Value;
use amqp::codec::{Symbol, write};
use amqp::message::{Header, MessageView, Properties, SectionKind, Sections, encode};
use proptest::prelude::*;

use super::read::annotated;
use super::*;
use crate::annotations::{self, OwnAnnotations};

/// The line of a message.
fn line(sections: &[u8], layout: Layout, form: BodyForm) -> String {
    let mut out = b"{\"partition\":1".to_vec();
    let text = MessageText::read(sections).unwrap();
    if let Some(key) = text.partition_key() {
        out.extend_from_slice(b",\"key\":");
        put_text(&mut out, key);
    }
    text.put(layout, &mut out);
    text.put_body(form, &mut out);
    text.put_exact(&mut out);
    out.push(b'}');
    assert!(!out.contains(&b'\n'));
    String::from_utf8(out).unwrap()
}

/// A section: the entries of a map, or its bytes.
type Part = (SectionKind, Vec<(String, Value)>, Vec<u8>);

/// The parts of a message that have to be the same, however they are encoded.
fn parts(sections: &[u8]) -> Vec<Part> {
    let mut parts: Vec<_> = Sections::new(sections)
        .map(|section| {
            let section = section.unwrap();
            let view = MessageView::parse(section.encoded).unwrap();
            let (mut entries, mut bytes) = (Vec::new(), section.value.to_vec());
            match section.kind {
                SectionKind::Header => {
                    bytes = format!("{:?}", Header::decode(section.value)).into_bytes();
                }
                SectionKind::MessageAnnotations => {
                    entries = view.message_annotations().unwrap().entries().unwrap();
                    bytes.clear();
                }
                SectionKind::Properties => bytes = format!("{:?}", view.properties()).into_bytes(),
                SectionKind::ApplicationProperties => {
                    entries = view.application_properties().unwrap().entries().unwrap();
                    bytes.clear();
                }
                _ => {}
            }
            entries.sort_by(|one, other| one.0.as_str().cmp(other.0.as_str()));
            let entries = entries.into_iter().map(|(name, value)| (name.as_str().to_owned(), value));
            (section.kind, entries.collect::<Vec<_>>(), bytes)
        })
        .collect();
    parts.retain(|(kind, entries, _)| *kind != SectionKind::ApplicationProperties || !entries.is_empty());
    parts
}

fn text() -> impl Strategy<Value = String> {
    prop_oneof!["[a-z]{0,5}", "\\PC{0,5}", Just("a\"b\\\n\u{0}\u{e9}\u{1f600}".to_owned())]
}

fn bytes() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![proptest::collection::vec(any::<u8>(), 0..20), text().prop_map(String::into_bytes)]
}

fn symbol() -> impl Strategy<Value = Symbol> {
    "[ -~]{0,6}".prop_map(|text| Symbol::from(text.as_str()))
}

fn scalar() -> impl Strategy<Value = Value> {
    prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::Boolean),
        any::<u8>().prop_map(Value::Ubyte),
        any::<u16>().prop_map(Value::Ushort),
        any::<u32>().prop_map(Value::Uint),
        any::<u64>().prop_map(Value::Ulong),
        any::<i8>().prop_map(Value::Byte),
        any::<i16>().prop_map(Value::Short),
        any::<i32>().prop_map(Value::Int),
        any::<i64>().prop_map(Value::Long),
        any::<u32>().prop_map(|bits| Value::Float(f32::from_bits(bits))),
        any::<u64>().prop_map(|bits| Value::Double(f64::from_bits(bits))),
        any::<[u8; 16]>().prop_map(Value::Decimal128),
        any::<u32>().prop_map(Value::Char),
        any::<char>().prop_map(|character| Value::Char(character.into())),
        any::<i64>().prop_map(Value::Timestamp),
        (0_i64..260_000_000_000_000).prop_map(Value::Timestamp),
        any::<[u8; 16]>().prop_map(Value::Uuid),
        bytes().prop_map(Value::Binary),
        text().prop_map(Value::String),
        symbol().prop_map(Value::Symbol),
    ]
}

fn value() -> impl Strategy<Value = Value> {
    prop_oneof![
        9 => scalar(),
        1 => proptest::collection::vec(scalar(), 0..3).prop_map(Value::List),
        1 => proptest::collection::vec((scalar(), scalar()), 0..3).prop_map(Value::Map),
        1 => scalar().prop_map(|value| Value::Described(Box::new((Value::Symbol(Symbol::from_static("own:type")), value)))),
    ]
}

/// NaN is not equal to itself, and two of them are two encodings.
fn has_nan(value: &Value) -> bool {
    format!("{value:?}").contains("NaN")
}

prop_compose! {
    fn properties()(
        message_id in proptest::option::of(prop_oneof![
            text().prop_map(Value::String),
            any::<u64>().prop_map(Value::Ulong),
            any::<[u8; 16]>().prop_map(Value::Uuid),
            bytes().prop_map(Value::Binary),
        ]),
        user_id in proptest::option::of(bytes()),
        texts in proptest::collection::vec(proptest::option::of(text()), 5),
        symbols in proptest::collection::vec(proptest::option::of(symbol()), 2),
        times in proptest::collection::vec(proptest::option::of(any::<i64>()), 2),
        group_sequence: Option<u32>,
    ) -> Properties {
        let [to, subject, reply_to, group_id, reply_to_group_id] = texts.try_into().unwrap();
        let [content_type, content_encoding] = symbols.try_into().unwrap();
        Properties {
            message_id: message_id.clone(),
            user_id,
            to,
            subject,
            reply_to,
            correlation_id: message_id,
            content_type,
            content_encoding,
            absolute_expiry_time: times[0],
            creation_time: times[1],
            group_id,
            group_sequence,
            reply_to_group_id,
        }
    }
}

prop_compose! {
    fn header()(durable: Option<bool>, priority: Option<u8>, time_to_live_ms: Option<u32>) -> Header {
        Header { durable, priority, time_to_live_ms, first_acquirer: None, delivery_count: None }
    }
}

fn body() -> impl Strategy<Value = Vec<u8>> {
    let data = |content: &[u8]| {
        let mut section = Vec::new();
        encode::data(&mut section, content);
        section
    };
    let json = [
        "{\"n\": 1.10}",
        "{\"big\":123456789012345678901234567890}",
        "{\"a\":1,\"a\":2}",
        "\"quoted\"",
        "5",
        "null",
        " {\"a\":1}",
        "{\"a\":1}\n",
        "{\"b\":1,\"a\":2}",
        "{\"f\":1e400}",
        "{\"x\":1.0}",
        "[1, 2]",
        "[1,\n2]",
        "line1\nline2",
        "",
        "{\"s\":\"\\u00e9\\/\\ud800\"}",
    ];
    prop_oneof![
        4 => proptest::sample::select(json.to_vec()).prop_map(move |content| data(content.as_bytes())),
        4 => bytes().prop_map(move |content| data(&content)),
        1 => (bytes(), bytes()).prop_map(move |(one, other)| [data(&one), data(&other)].concat()),
        1 => value().prop_map(|value| { let mut out = Vec::new(); encode::value(&mut out, &value); out }),
        1 => Just(Vec::new()),
    ]
}

prop_compose! {
    /// A message with whatever is had again from its line.
    fn message()(
        header in proptest::option::of(header()),
        key in proptest::option::of(bytes()),
        record_headers in proptest::collection::vec((bytes(), proptest::option::of(bytes())), 0..3),
        scheduled in proptest::option::of(any::<i64>()),
        properties in proptest::option::of(properties()),
        application in proptest::collection::btree_map(text(), value(), 0..5),
        body in body(),
        footer: bool,
    ) -> Vec<u8> {
        let mut out = Vec::new();
        if let Some(header) = header.filter(|header| *header != Header::default()) {
            out.extend_from_slice(header.encode().as_slice());
        }
        let mut entries = Vec::new();
        let own = OwnAnnotations { key, is_tombstone: false, headers: record_headers };
        let mut count = own.put(&mut entries);
        if let Some(scheduled) = scheduled {
            write::symbol(&mut entries, SCHEDULED_TIME);
            write::timestamp(&mut entries, scheduled);
            count += 1;
        }
        if count > 0 {
            annotations::section(&mut out, count, &entries);
        }
        if let Some(properties) = properties.filter(|properties| *properties != Properties::default()) {
            properties.encode(&mut out);
        }
        if !application.is_empty() {
            let application: Vec<(&str, Value)> = application.iter().map(|(name, value)| (name.as_str(), value.clone())).collect();
            encode::application_properties(&mut out, &application);
        }
        out.extend_from_slice(&body);
        if footer && !body.is_empty() {
            out.extend_from_slice(b"\x00\x53\x78\xc1\x01\x00");
        }
        out
    }
}

proptest! {
    #[test]
    fn a_line_is_the_event_that_was_written(message in message(), is_nested: bool) {
        let (layout, form) = match is_nested {
            true => (Layout::Nested, BodyForm::TextOrBase64),
            false => (Layout::Flat, BodyForm::Auto),
        };
        let line = line(&message, layout, form);
        let read = read(line.as_bytes(), Extra::default()).unwrap();
        let (found, expected) = (parts(&annotated(&read)), parts(&message));
        let is_comparable = expected.iter().flat_map(|part| &part.1).all(|(_, value)| !has_nan(value));
        if is_comparable {
            prop_assert_eq!(found, expected, "{}", line);
        } else {
            prop_assert_eq!(format!("{found:?}"), format!("{expected:?}"), "{}", line);
        }
    }

    #[test]
    fn whatever_a_line_is_reading_it_ends(line in "\\PC{0,60}") {
        let _ = read(line.as_bytes(), Extra::default());
        let _ = read(format!("{{\"body\":{line},\"properties\":{{\"a\":{line}}}}}").as_bytes(), Extra::default());
    }
}

#[test]
fn tombstones_and_repeated_headers_come_back() {
    let own = OwnAnnotations {
        key: Some(b"\xff\x00".to_vec()),
        is_tombstone: true,
        headers: vec![(b"a".to_vec(), Some(b"1".to_vec())), (b"a".to_vec(), None)],
    };
    let mut entries = Vec::new();
    let count = own.put(&mut entries);
    let mut message = Vec::new();
    annotations::section(&mut message, count, &entries);
    encode::data(&mut message, b"");
    let line = line(&message, Layout::Flat, BodyForm::Auto);
    assert_eq!(
        line,
        r#"{"partition":1,"kafka_key_base64":"/wA=","kafka_headers":[["YQ==","MQ=="],["YQ==",null]],"tombstone":true}"#
    );
    assert_eq!(annotated(&read(line.as_bytes(), Extra::default()).unwrap()), message);
}

#[test]
fn what_is_the_same_for_all_events_is_added_even_to_what_is_taken_as_it_is() {
    let mut message = Vec::new();
    let list = Value::List(vec![Value::Long(1)]);
    encode::application_properties(&mut message, &[("list", list.clone()), ("source", Value::from("old"))]);
    encode::data(&mut message, b"body");
    let line = line(&message, Layout::Flat, BodyForm::Auto);
    assert!(line.contains("\"amqp\":"), "{line}");
    let properties = [("source".to_owned(), "import".to_owned())];
    let extra = Extra { content_type: Some("text/plain"), properties: &properties };
    let read = read(line.as_bytes(), extra).unwrap();
    let view = MessageView::parse(&read.sections).unwrap();
    assert_eq!(view.properties().unwrap().unwrap().content_type.unwrap().as_str(), "text/plain");
    let application = view.application_properties().unwrap();
    assert_eq!(application.find("source").unwrap(), Some(Value::from("import")));
    assert_eq!(application.find("list").unwrap(), Some(list));
    assert_eq!(application.entries().unwrap().len(), 2);
    assert_eq!(view.data().unwrap(), Some(&b"body"[..]));
}

#[test]
fn lines_of_earlier_versions_and_by_hand_are_read() {
    let line = br#"{"partition":1,"key":7,"body":{"a":1},"properties":{"n":0.5,"t":"x"},"message_id":"m","label":"l","session_id":null}"#;
    let event = read(line, Extra::default()).unwrap();
    assert_eq!(event.key.as_deref(), Some("7"));
    let view = MessageView::parse(&event.sections).unwrap();
    let properties = view.properties().unwrap().unwrap();
    assert_eq!(properties.message_id, Some(Value::from("m")));
    assert_eq!((properties.subject.as_deref(), properties.group_id), (Some("l"), None));
    assert_eq!(view.application_properties().unwrap().find("n").unwrap(), Some(Value::Double(0.5)));
    assert_eq!(view.data().unwrap(), Some(&br#"{"a":1}"#[..]));
    let archived =
        br#"{"hub":"h","partition_key":"k","system":{"message_id":7,"user_id":"/wA="},"body_base64":"aGk="}"#;
    let event = read(archived, Extra::default()).unwrap();
    let view = MessageView::parse(&event.sections).unwrap();
    let properties = view.properties().unwrap().unwrap();
    assert_eq!(properties.message_id, Some(Value::from("7")));
    assert_eq!(properties.user_id, Some(b"\xff\x00".to_vec()));
    assert_eq!((event.key.as_deref(), view.data().unwrap()), (Some("k"), Some(&b"hi"[..])));
}

#[test]
fn a_line_that_is_no_event_says_why() {
    for (line, reason) in [
        (r#"{"a":}"#, "expected value at column 6"),
        ("[1]", "it is no object"),
        ("{}", "there is no field `body`"),
        (
            r#"{"body":"?","body_encoding":"base64"}"#,
            "the field `body` is not base64: Invalid symbol 63, offset 0.",
        ),
        (r#"{"body":1,"key":[]}"#, "the field `key` has to be text or a number"),
        (
            r#"{"body":1,"properties":{"a":[]}}"#,
            "the property `a` is not text, a number, true, false or null",
        ),
        (
            r#"{"body":1,"properties":{"a":"x"},"property_types":{"a":"uuid"}}"#,
            "the property `a` is not uuid",
        ),
        (r#"{"body":1,"amqp":"AAAA"}"#, "the field `amqp` is not a message of AMQP"),
        (
            r#"{"condition":"c","message":"AAAA","records":3}"#,
            "it is a dead letter of records that can't be read, which can't be sent",
        ),
    ] {
        assert_eq!(read(line.as_bytes(), Extra::default()).unwrap_err().to_string(), reason, "{line}");
    }
}
