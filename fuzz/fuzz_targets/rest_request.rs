//! Any bytes as a request over HTTP, cut anywhere: reading ends, with the same head and body whatever the cut, or an error, and what is
//! taken in can be read back as AMQP.
#![no_main]

use amqp::message::MessageView;
use libfuzzer_sys::fuzz_target;
use rest::batch::Batch;
use rest::broker_properties::{BrokerProperties, ReceivedProperties};
use rest::chunked::Decoder;
use rest::head::{EMPTY_FIELD, FIELDS_MAX, Framing, Head};
use rest::message;
use rest::target::{Resource, Target};

fuzz_target!(|input: (u8, &[u8])| {
    let (step, bytes) = input;
    let mut fields = [EMPTY_FIELD; FIELDS_MAX];
    let Ok(Some(head)) = Head::parse(bytes, &mut fields) else {
        as_batch(bytes);
        return;
    };
    if let Some(target) = Target::parse(head.target) {
        // What it names is all there is to know.
        let _named = Resource::of(&target.path);
    }
    let rest = &bytes[head.length..];
    let body = match head.framing {
        Framing::Length(length) => rest[..rest.len().min(length as usize)].to_vec(),
        Framing::Chunked => dechunked(rest, step.max(1).into()),
    };
    let mut event = Vec::new();
    message::event_head(&mut event, rest::head::field(head.fields, "content-type"), head.fields, body.len());
    event.extend_from_slice(&body);
    let view = MessageView::parse(&event).expect("an event can be read");
    assert_eq!(view.data().expect("it has a body"), Some(&body[..]));
    view.application_properties().and_then(|own| own.entries()).expect("they can be read");
    if let Some(broker) = rest::head::field(head.fields, "brokerproperties")
        && let Ok(broker) = BrokerProperties::parse(broker)
    {
        let mut message = Vec::new();
        message::message_head(&mut message, &broker, None, |_| {}, 0).expect("the properties were checked");
        rest::answer::content(&message, &mut ReceivedProperties::default()).expect("a message can be read");
    }
    as_batch(&body);
});

/// The content of chunks, which does not depend on how they are cut.
fn dechunked(bytes: &[u8], step: usize) -> Vec<u8> {
    let (mut whole, mut content) = (Decoder::new(MOST), Vec::new());
    let outcome = whole.read(bytes, &mut content);
    let (mut cut, mut pieces) = (Decoder::new(MOST), Vec::new());
    let by_pieces = bytes.chunks(step).try_for_each(|piece| cut.read(piece, &mut pieces).map(drop));
    if outcome.is_ok() {
        assert_eq!((by_pieces, cut.is_done()), (Ok(()), whole.is_done()));
        assert_eq!(content, pieces);
    }
    assert!(content.len() <= MOST);
    content
}

fn as_batch(bytes: &[u8]) {
    let mut batch = Batch::default();
    if batch.parse(bytes, MOST).is_err() {
        return;
    }
    for element in batch.elements() {
        let mut message = Vec::new();
        let none = BrokerProperties::default();
        let own = |out: &mut Vec<u8>| message::application_properties(out, element.property_count, element.properties);
        message::message_head(&mut message, element.broker.unwrap_or(&none), None, own, element.body.len())
            .expect("the properties were checked");
        message.extend_from_slice(element.body);
        let view = MessageView::parse(&message).expect("a message can be read");
        assert_eq!(view.data().expect("it has a body"), Some(element.body));
    }
}

const MOST: usize = 1 << 20;
