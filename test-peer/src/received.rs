//! Messages that arrived.

use std::ops::Deref;

use amqp::Value;
use amqp::codec::Reader;
use amqp::connection::LinkId;
use amqp::message::{MessageView, Properties, SectionKind, Sections};

/// A message that arrived. Dereferences to its encoded sections.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Received {
    /// The link that it came on.
    pub link: LinkId,
    /// Its delivery id.
    pub id: u32,
    /// Its delivery tag.
    pub tag: Vec<u8>,
    /// Whether it needs no outcome.
    pub settled: bool,
    /// Its encoded sections.
    pub bytes: Vec<u8>,
}

impl Received {
    fn view(&self) -> MessageView<'_> {
        MessageView::parse(&self.bytes).unwrap()
    }

    /// The content of its Data section.
    #[must_use]
    pub fn payload(&self) -> Vec<u8> {
        payload(&self.bytes).to_vec()
    }

    /// A message annotation.
    #[must_use]
    pub fn annotation(&self, name: &str) -> Option<Value> {
        self.view().message_annotations().unwrap().find(name).unwrap()
    }

    /// An application property.
    #[must_use]
    pub fn application_property(&self, name: &str) -> Option<Value> {
        self.view().application_properties().unwrap().find(name).unwrap()
    }

    /// Its properties.
    #[must_use]
    pub fn properties(&self) -> Properties {
        self.view().properties().unwrap().unwrap()
    }

    /// The number that the service gave it.
    #[must_use]
    pub fn sequence_number(&self) -> i64 {
        self.annotation("x-opt-sequence-number").and_then(|number| number.as_integer()).unwrap()
    }

    /// The last field of its header.
    #[must_use]
    pub fn delivery_count(&self) -> u32 {
        let header = Sections::new(&self.bytes).next().unwrap().unwrap();
        assert_eq!(header.kind, SectionKind::Header);
        match Reader::new(header.value).value().unwrap() {
            Value::List(fields) => match fields[4] {
                Value::Uint(count) => count,
                ref other => panic!("{other:?}"),
            },
            other => panic!("{other:?}"),
        }
    }

    /// The lock token, which is the delivery tag in the byte order of .NET, in the order of a UUID.
    #[must_use]
    pub fn lock_token(&self) -> Value {
        let mut bytes: [u8; 16] = self.tag[..].try_into().unwrap();
        bytes[..4].reverse();
        bytes[4..6].reverse();
        bytes[6..8].reverse();
        Value::Uuid(bytes)
    }
}

impl Deref for Received {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.bytes
    }
}

/// The payload of a message with one Data section.
#[must_use]
pub fn payload(message: &[u8]) -> &[u8] {
    MessageView::parse(message).unwrap().data().unwrap().unwrap()
}
