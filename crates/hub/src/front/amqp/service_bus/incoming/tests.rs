//! What is read of messages, and what is refused.

use amqp::Value;
use amqp::codec::Symbol;
use amqp::message::{MessageView, Properties, encode};
use proptest::prelude::*;

use super::*;

fn parse(message: &[u8]) -> Result<IncomingMessage<'_>, MessageError> {
    IncomingMessage::parse(message, &mut MessageIds::new())
}

fn kept(message: &[u8]) -> Vec<u8> {
    parse(message).unwrap().kept().concat()
}

fn properties(kept: &[u8]) -> Properties {
    let view = MessageView::parse(kept).unwrap();
    view.properties().unwrap().unwrap()
}

#[test]
fn what_has_an_identifier_is_kept_to_the_byte_from_the_properties_on() {
    let mut sections = Vec::new();
    let own = Properties {
        message_id: Some(Value::Ulong(7)),
        group_id: Some("session".to_owned()),
        ..Properties::default()
    };
    own.encode(&mut sections);
    encode::application_properties(&mut sections, &[("key", Value::Int(1))]);
    encode::data(&mut sections, b"payload");
    // An empty footer, as the Java client writes it.
    sections.extend_from_slice(&[0x00, 0x53, 0x78, 0xc1, 0x01, 0x00]);
    let mut message = vec![0x00, 0x53, 0x70, 0xc0, 0x08, 0x03, 0x41, 0x40, 0x70, 0, 0, 0xea, 0x60];
    let annotations = [
        (Symbol::from_static("x-opt-partition-key"), Value::from("p")),
        (Symbol::from_static(SCHEDULED_ENQUEUE_TIME), Value::Timestamp(1_700_000_000_000)),
    ];
    encode::message_annotations(&mut message, &annotations);
    message.extend_from_slice(&sections);
    let parsed = parse(&message).unwrap();
    assert_eq!(parsed.kept()[1], sections);
    assert_eq!(parsed.time_to_live, Some(Duration::from_secs(60)));
    assert_eq!(parsed.session_id, Some("session"));
    assert_eq!(parsed.message_id, Some(&[0x53, 7][..]));
    assert_eq!(parsed.annotation_count, 2);
    let time = UnixTime::from_milliseconds(1_700_000_000_000);
    assert_eq!(parsed.scheduled_enqueue_time, Some(time));
}

#[test]
fn partition_keys_have_at_most_128_characters() {
    for name in ["x-opt-partition-key", "x-opt-via-partition-key"] {
        for (key, is_taken) in [
            (Value::String("ä".repeat(128)), true),
            (Value::String("ä".repeat(129)), false),
            (Value::Binary(vec![0; 500]), true),
            (Value::Null, true),
        ] {
            let mut message = Vec::new();
            encode::message_annotations(&mut message, &[(Symbol::from_static(name), key)]);
            encode::data(&mut message, b"payload");
            match parse(&message) {
                Ok(parsed) => assert!(is_taken && parsed.annotation_count == 1, "{name}"),
                Err(error) => {
                    assert!(!is_taken && matches!(error, MessageError::LongPartitionKey), "{error}")
                }
            }
        }
    }
}

proptest! {
    #[test]
    fn the_usual_shape_is_read_as_any_other(
        id in prop::option::of("[a-zé]{0,4}|[0-9a-f]{32}"),
        payload in prop::collection::vec(any::<u8>(), 0..300),
        change in prop::option::of((0_usize..60, any::<u8>())),
    ) {
        let mut message = Vec::new();
        let is_ascii = id.as_ref().is_none_or(|id| id.is_ascii());
        if let Some(id) = id {
            message.extend_from_slice(b"\x00\x53\x73\xc0");
            message.extend_from_slice(&[id.len() as u8 + 3, 1, code::STRING_8, id.len() as u8]);
            message.extend_from_slice(id.as_bytes());
        }
        encode::data(&mut message, &payload);
        if let Some((at, byte)) = change && let Some(changed) = message.get_mut(at) {
            *changed = byte;
        }
        let mut ids = MessageIds::new();
        let mut same_ids = MessageIds { ..ids };
        if let Some(usual) = IncomingMessage::parse_usual(&message, &mut ids) {
            let any = IncomingMessage::parse_any(&message, &mut same_ids).unwrap();
            prop_assert_eq!(usual.kept().concat(), any.kept().concat());
            prop_assert_eq!(usual.message_id, any.message_id);
            prop_assert_eq!((usual.session_id, usual.annotation_count), (any.session_id, any.annotation_count));
        } else {
            prop_assert!(payload.len() > 255 || change.is_some() || !is_ascii);
        }
    }
}

#[test]
fn what_has_no_identifier_is_given_one_and_keeps_the_rest() {
    let mut bare = Vec::new();
    encode::data(&mut bare, b"payload");
    let given = properties(&kept(&bare));
    let Some(Value::String(id)) = &given.message_id else { panic!("{given:?}") };
    assert!(id.len() == 32 && id.bytes().all(|digit| digit.is_ascii_hexdigit()));
    assert!(kept(&bare).ends_with(&bare));

    for length in [3, 200, 300] {
        let own = Properties {
            subject: Some("s".repeat(length)),
            group_id: Some("session".to_owned()),
            ..Properties::default()
        };
        let mut message = Vec::new();
        own.encode(&mut message);
        encode::data(&mut message, b"payload");
        let given = properties(&kept(&message));
        assert!(given.message_id.is_some());
        let rest = Properties { message_id: None, ..given };
        assert_eq!(rest, own);
        let view_of = kept(&message);
        let view = MessageView::parse(&view_of).unwrap();
        assert_eq!(view.data().unwrap(), Some(&b"payload"[..]));
    }
}

#[test]
fn identifiers_differ() {
    let mut ids = MessageIds::new();
    let mut others = MessageIds::new();
    let [one, two, other] = [ids.assign(), ids.assign(), others.assign()];
    assert!(one != two && one != other && two != other);
}

#[test]
fn annotations_of_the_service_are_dropped() {
    let mut message = Vec::new();
    let annotations = [
        (Symbol::from_static("x-opt-sequence-number"), Value::Long(7)),
        (Symbol::from_static("mine"), Value::from("kept")),
        (Symbol::from_static("x-opt-locked-until"), Value::Timestamp(1)),
    ];
    encode::message_annotations(&mut message, &annotations);
    encode::data(&mut message, b"payload");
    let parsed = parse(&message).unwrap();
    assert_eq!(parsed.annotation_count, 1);
    assert_eq!(&parsed.annotations[..], b"\xa3\x04mine\xa1\x04kept");
}

#[test]
fn what_could_not_be_delivered_is_refused() {
    let mut properties = Vec::new();
    Properties::default().encode(&mut properties);
    let mut footer = Vec::new();
    footer.extend_from_slice(&[0x00, 0x53, 0x78, 0xc1, 0x01, 0x00]);
    let mut value = Vec::new();
    encode::value(&mut value, &Value::Null);
    for section in [&properties, &footer, &value, &full_header(), &annotated()] {
        let twice = [&section[..], section].concat();
        assert_eq!(parse(&twice).unwrap_err(), MessageError::Repeated);
    }
    for malformed in [
        // A Data section that is cut, a header whose priority is an int, delivery annotations that are no map.
        &b"\x00\x53\x75\xa0\x05abc"[..],
        b"\x00\x53\x70\xc0\x04\x02\x41\x54\x05",
        b"\x00\x53\x71\xa1\x01a",
        b"\x00\x53\x71\xc1\x04\x02\xa3\x05m",
    ] {
        let refused = parse(malformed);
        assert!(matches!(refused, Err(MessageError::Malformed(_))), "{malformed:?}");
    }
    let mut long = Vec::new();
    let own = Properties { group_id: Some("s".repeat(129)), ..Properties::default() };
    own.encode(&mut long);
    encode::data(&mut long, b"payload");
    assert_eq!(parse(&long).unwrap_err(), MessageError::LongSessionId);
}

#[test]
fn a_message_may_be_without_a_body_or_without_anything() {
    let mut only_properties = Vec::new();
    let own = Properties { message_id: Some("mine".into()), ..Properties::default() };
    own.encode(&mut only_properties);
    assert_eq!(kept(&only_properties), only_properties);
    for message in [&b""[..], &full_header(), &annotated()] {
        let kept = kept(message);
        let given = properties(&kept);
        assert!(given.message_id.is_some());
        let kinds = kinds(&kept);
        assert_eq!(kinds.last(), Some(&SectionKind::Properties), "{kinds:?}");
    }
}

#[test]
fn header_fields_and_delivery_annotations_are_kept_in_front_wherever_they_came() {
    let mut sections = Vec::new();
    let own = Properties {
        message_id: Some("mine".into()),
        group_id: Some("session".to_owned()),
        ..Properties::default()
    };
    own.encode(&mut sections);
    encode::application_properties(&mut sections, &[("key", Value::Int(1))]);
    encode::data(&mut sections, b"one");
    encode::data(&mut sections, b"two");
    sections.extend_from_slice(&[0x00, 0x53, 0x78, 0xc1, 0x01, 0x00]);
    let expected_header = Header { durable: Some(true), priority: Some(7), ..Header::default() };
    let expected_header = expected_header.encode();
    let expected = [expected_header.as_slice(), &annotated(), &sections].concat();
    let in_order = [&full_header()[..], &annotated(), &sections].concat();
    // Python puts the delivery annotations last.
    let at_the_end = [&full_header()[..], &sections, &annotated()].concat();
    let all_behind = [&sections[..], &annotated(), &full_header()].concat();
    for message in [&in_order, &at_the_end, &all_behind] {
        let parsed = parse(message).unwrap();
        assert_eq!(parsed.kept().concat(), expected);
        assert_eq!(parsed.session_id, Some("session"));
        assert_eq!(parsed.time_to_live, Some(Duration::from_secs(60)));
    }

    // The same of a message that is given an identifier.
    let mut bare = Vec::new();
    encode::data(&mut bare, b"payload");
    bare.extend(annotated());
    let bare = kept(&bare);
    assert!(properties(&bare).message_id.is_some());
    let expected = [SectionKind::DeliveryAnnotations, SectionKind::Properties, SectionKind::Data];
    assert_eq!(kinds(&bare), expected);
}

#[test]
fn sections_in_any_order_are_put_into_theirs() {
    let mut properties = Vec::new();
    let own = Properties { subject: Some("label".to_owned()), ..Properties::default() };
    own.encode(&mut properties);
    let mut body = Vec::new();
    encode::data(&mut body, b"payload");
    let mut annotations = Vec::new();
    let entry = (Symbol::from_static("mine"), Value::from("kept"));
    encode::message_annotations(&mut annotations, &[entry]);
    let message = [&body[..], &properties, &annotations].concat();
    let parsed = parse(&message).unwrap();
    assert_eq!(parsed.annotation_count, 1);
    let kept = parsed.kept().concat();
    assert_eq!(kinds(&kept), [SectionKind::Properties, SectionKind::Data]);
    let given = self::properties(&kept);
    assert!(given.message_id.is_some());
    assert_eq!(given.subject.as_deref(), Some("label"));
}

#[test]
fn the_lock_of_another_delivery_is_not_kept() {
    let mut message = Vec::new();
    let entries = [
        (Symbol::from_static(LOCK_TOKEN), Value::Uuid([7; 16])),
        (Symbol::from_static("mine"), Value::Int(1)),
    ];
    encode::delivery_annotations(&mut message, &entries);
    let kept = kept(&message);
    let view = MessageView::parse(&kept).unwrap();
    let found = view.delivery_annotations().unwrap().entries().unwrap();
    assert_eq!(found, [(Symbol::from_static("mine"), Value::Int(1))]);
}

fn kinds(message: &[u8]) -> Vec<SectionKind> {
    Sections::new(message).map(|section| section.unwrap().kind).collect()
}

/// A durable message of priority 7, to be delivered within a minute.
fn full_header() -> Vec<u8> {
    let header = Header {
        durable: Some(true),
        priority: Some(7),
        time_to_live_ms: Some(60_000),
        delivery_count: Some(3),
        ..Header::default()
    };
    header.encode().as_slice().to_vec()
}

/// A section of delivery annotations.
fn annotated() -> Vec<u8> {
    let mut section = Vec::new();
    let entry = (Symbol::from_static("delivery"), Value::from("kept"));
    encode::delivery_annotations(&mut section, &[entry]);
    section
}

#[test]
fn a_batch_is_its_messages_and_an_empty_one_is_none() {
    let mut batch = Vec::new();
    encode::data(&mut batch, b"one");
    encode::data(&mut batch, b"two");
    let mut messages = Vec::new();
    let mut push = |message| {
        messages.push(message);
        Ok::<(), MessageError>(())
    };
    each_message(FORMAT_BATCH, &batch, &mut push).unwrap();
    each_message(0, b"three", &mut push).unwrap();
    assert_eq!(each_message(FORMAT_BATCH, b"", &mut push), Err(MessageError::EmptyBatch));
    assert_eq!(messages, [&b"one"[..], b"two", b"three"]);
}
/// Some message with everything that is looked at.
fn full_message() -> Vec<u8> {
    let mut message = vec![0x00, 0x53, 0x70, 0xc0, 0x08, 0x03, 0x41, 0x40, 0x70, 0, 0, 0xea, 0x60];
    let annotations = [
        (Symbol::from_static("x-opt-locked-until"), Value::Timestamp(1)),
        (Symbol::from_static(SCHEDULED_ENQUEUE_TIME), Value::Timestamp(2)),
    ];
    encode::message_annotations(&mut message, &annotations);
    let own = Properties {
        subject: Some("label".to_owned()),
        group_id: Some("session".to_owned()),
        ..Properties::default()
    };
    own.encode(&mut message);
    encode::application_properties(&mut message, &[("key", Value::Int(1))]);
    encode::data(&mut message, b"payload");
    message.extend(annotated());
    message
}

proptest! {
    /// Whatever comes is a message whose kept part can be read, or is refused.
    #[test]
    fn no_bytes_do_any_harm(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        if let Ok(parsed) = parse(&bytes) {
            let kept = parsed.kept().concat();
            prop_assert!(MessageView::parse(&kept).is_ok());
        }
    }

    #[test]
    fn no_change_to_a_message_does_any_harm(at in 0usize..200, byte: u8, cut in 0usize..200) {
        let mut message = full_message();
        let length = message.len();
        message[at % length] = byte;
        message.truncate(length - cut % length);
        if let Ok(parsed) = parse(&message) {
            let kept = parsed.kept().concat();
            prop_assert!(MessageView::parse(&kept).is_ok());
        }
    }
}
