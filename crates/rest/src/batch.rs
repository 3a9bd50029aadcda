//! Several events or messages in one body: an array of JSON. Hot path.
//!
//! ```text
//! [{"Body": "text"},
//!  {"Body": "AAEC", "IsBodyBase64": true, "BrokerProperties": {"PartitionKey": "k"}, "UserProperties": {"n": 1}}]
//! ```
//!
//! A body without escapes stays where it arrived; others are written once, unescaped, into memory of the batch that is used again for
//! the next one. Nothing is allocated for an element of the usual kind.

use std::fmt;
use std::ops::Range;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::de::{DeserializeSeed, Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};
use units::recycled::{bounded, emptied};

use crate::broker_properties::{BrokerProperties, PropertiesError};
use crate::property::Members;

/// The elements of a body.
#[derive(Debug, Default)]
pub struct Batch<'a> {
    elements: Vec<Parsed<'a>>,
    broker: Vec<BrokerProperties<'a>>,
    /// Bytes that did not come like that.
    own: Vec<u8>,
    /// What all elements count.
    bytes: usize,
    most: usize,
}

/// One of them.
#[derive(Debug, Clone, Copy)]
pub struct Element<'b> {
    /// What it carries.
    pub body: &'b [u8],
    /// The properties that mean something, if it has any.
    pub broker: Option<&'b BrokerProperties<'b>>,
    /// How many others it has.
    pub property_count: u32,
    /// These, as entries of a map of AMQP.
    pub properties: &'b [u8],
}

/// Why a body is not taken. None of its elements is.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BatchError {
    /// It is no array of elements.
    #[error("the body is not a batch: {0}")]
    Malformed(String),
    /// There is nothing in it.
    #[error("the batch is empty")]
    Empty,
    /// Its elements are too much together.
    #[error("the batch is larger than {most} bytes")]
    TooLarge {
        /// What they may have.
        most: usize,
    },
    /// The properties of an element make no sense.
    #[error("element {index} of the batch: {cause}")]
    Properties {
        /// Its place, from 0.
        index: usize,
        /// What is wrong.
        cause: PropertiesError,
    },
}

#[derive(Debug)]
struct Parsed<'a> {
    body: Piece<'a>,
    /// Within [`Batch::own`].
    properties: Range<u32>,
    property_count: u32,
    /// Its place in [`Batch::broker`].
    broker: Option<u32>,
}

#[derive(Debug, Clone)]
enum Piece<'a> {
    /// As it came.
    Received(&'a [u8]),
    /// Within [`Batch::own`].
    Own(Range<u32>),
}

impl<'a> Batch<'a> {
    /// Reads a body of fewer than 4 GiB, whose elements count at most `most` bytes.
    ///
    /// # Errors
    /// It is none.
    pub fn parse(&mut self, body: &'a [u8], most: usize) -> Result<(), BatchError> {
        self.most = most;
        let mut deserializer = serde_json::Deserializer::from_slice(body);
        let parsed = deserializer.deserialize_seq(Elements(&mut *self)).and_then(|()| deserializer.end());
        if self.bytes > most {
            return Err(BatchError::TooLarge { most });
        }
        parsed.map_err(|error| BatchError::Malformed(error.to_string()))?;
        if self.elements.is_empty() {
            return Err(BatchError::Empty);
        }
        for (index, element) in self.elements().enumerate().filter(|(_, element)| element.broker.is_some()) {
            let checked = element.broker.map_or(Ok(()), BrokerProperties::check);
            checked.map_err(|cause| BatchError::Properties { index, cause })?;
        }
        Ok(())
    }

    /// How many there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.elements.len()
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.elements.is_empty()
    }

    /// What the elements count: their bodies and properties, and [`OVERHEAD`] for each.
    #[must_use]
    pub const fn bytes(&self) -> usize {
        self.bytes
    }

    /// Whether any element has properties that mean something.
    #[must_use]
    pub fn has_broker_properties(&self) -> bool {
        !self.broker.is_empty()
    }

    /// The elements, in their order.
    pub fn elements(&self) -> impl Iterator<Item = Element<'_>> {
        (0..self.elements.len()).map(|place| self.element(place))
    }

    /// The element at a place, from 0 on.
    ///
    /// # Panics
    /// There are not so many.
    #[inline]
    #[must_use]
    pub fn element(&self, place: usize) -> Element<'_> {
        let element = &self.elements[place];
        Element {
            body: element.body.bytes(&self.own),
            broker: element.broker.and_then(|place| self.broker.get(place as usize)),
            property_count: element.property_count,
            properties: &self.own[element.properties.start as usize..element.properties.end as usize],
        }
    }

    /// The memory for another body, if it is not too much of it.
    #[must_use]
    pub fn emptied<'b>(mut self) -> Batch<'b> {
        self.own.clear();
        Batch {
            elements: bounded(emptied(self.elements), KEPT_ELEMENTS),
            broker: bounded(emptied(self.broker), KEPT_ELEMENTS / 4),
            own: bounded(self.own, KEPT_BYTES),
            bytes: 0,
            most: 0,
        }
    }

    fn own_since(&self, start: usize) -> Range<u32> {
        // Unescaped text is no longer than the body, which has fewer than 4 GiB.
        start as u32..self.own.len() as u32
    }

    fn take(&mut self, element: Parsed<'a>) -> Result<(), &'static str> {
        let properties = (element.properties.end - element.properties.start) as usize;
        self.bytes += element.body.bytes(&self.own).len() + properties + OVERHEAD;
        self.elements.push(element);
        match self.bytes > self.most {
            true => Err("too large"),
            false => Ok(()),
        }
    }
}

impl Piece<'_> {
    fn bytes<'b>(&'b self, own: &'b [u8]) -> &'b [u8] {
        match self {
            Self::Received(bytes) => bytes,
            Self::Own(range) => &own[range.start as usize..range.end as usize],
        }
    }
}

/// The array.
struct Elements<'b, 'a>(&'b mut Batch<'a>);

impl<'a> Visitor<'a> for Elements<'_, 'a> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an array of events or messages")
    }

    fn visit_seq<A: SeqAccess<'a>>(self, mut sequence: A) -> Result<(), A::Error> {
        while sequence.next_element_seed(OneElement(&mut *self.0))?.is_some() {}
        Ok(())
    }
}

/// An object in it.
struct OneElement<'b, 'a>(&'b mut Batch<'a>);

impl<'a> DeserializeSeed<'a> for OneElement<'_, 'a> {
    type Value = ();

    fn deserialize<D: Deserializer<'a>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'a> Visitor<'a> for OneElement<'_, 'a> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object with a Body")
    }

    fn visit_map<A: MapAccess<'a>>(self, mut map: A) -> Result<(), A::Error> {
        let batch = self.0;
        let (mut body, mut is_base64) = (None, false);
        let (mut properties, mut property_count, mut broker) = (0..0, 0, None);
        while let Some(member) = map.next_key_seed(MemberName)? {
            match member {
                Member::Body => body = Some(map.next_value_seed(Body(&mut batch.own))?),
                Member::IsBodyBase64 => is_base64 = map.next_value::<Option<bool>>()?.unwrap_or(false),
                Member::BrokerProperties => {
                    if let Some(given) = map.next_value::<Option<BrokerProperties<'a>>>()? {
                        broker = Some(batch.broker.len() as u32);
                        batch.broker.push(given);
                    }
                }
                Member::UserProperties => {
                    let start = batch.own.len();
                    property_count = map.next_value_seed(Members(&mut batch.own))?;
                    properties = batch.own_since(start);
                }
                Member::Other => drop(map.next_value::<IgnoredAny>()?),
            }
        }
        let mut body = body.ok_or_else(|| A::Error::missing_field("Body"))?;
        if is_base64 {
            body = batch.decoded(&body).map_err(A::Error::custom)?;
        }
        batch.take(Parsed { body, properties, property_count, broker }).map_err(A::Error::custom)
    }
}

impl<'a> Batch<'a> {
    fn decoded(&mut self, text: &Piece<'a>) -> Result<Piece<'a>, String> {
        let refused = |error| format!("Body is not base64: {error}");
        let start = self.own.len();
        match text {
            Piece::Received(text) => STANDARD.decode_vec(text, &mut self.own).map_err(refused)?,
            Piece::Own(range) => {
                let decoded = STANDARD.decode(&self.own[range.start as usize..range.end as usize]);
                self.own.extend_from_slice(&decoded.map_err(refused)?);
            }
        }
        Ok(Piece::Own(self.own_since(start)))
    }
}

enum Member {
    Body,
    IsBodyBase64,
    BrokerProperties,
    UserProperties,
    Other,
}

struct MemberName;

impl<'a> DeserializeSeed<'a> for MemberName {
    type Value = Member;

    fn deserialize<D: Deserializer<'a>>(self, deserializer: D) -> Result<Member, D::Error> {
        deserializer.deserialize_str(self)
    }
}

impl Visitor<'_> for MemberName {
    type Value = Member;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the name of a member")
    }

    fn visit_str<E: Error>(self, name: &str) -> Result<Member, E> {
        Ok(match name {
            "Body" => Member::Body,
            "IsBodyBase64" => Member::IsBodyBase64,
            "BrokerProperties" => Member::BrokerProperties,
            "UserProperties" => Member::UserProperties,
            _ => Member::Other,
        })
    }
}

struct Body<'o>(&'o mut Vec<u8>);

impl<'a> DeserializeSeed<'a> for Body<'_> {
    type Value = Piece<'a>;

    fn deserialize<D: Deserializer<'a>>(self, deserializer: D) -> Result<Piece<'a>, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'a> Visitor<'a> for Body<'_> {
    type Value = Piece<'a>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a string as Body")
    }

    fn visit_borrowed_str<E: Error>(self, text: &'a str) -> Result<Piece<'a>, E> {
        Ok(Piece::Received(text.as_bytes()))
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Piece<'a>, E> {
        let start = self.0.len() as u32;
        self.0.extend_from_slice(text.as_bytes());
        Ok(Piece::Own(start..self.0.len() as u32))
    }

    fn visit_unit<E: Error>(self) -> Result<Piece<'a>, E> {
        Ok(Piece::Received(&[]))
    }
}

/// What an element counts beside its body and its properties: what its message has around them, and what a log or a queue has to
/// keep beside it.
pub const OVERHEAD: usize = 16;

/// Elements for which memory is kept.
const KEPT_ELEMENTS: usize = 1024;

/// Bytes of its own that are kept.
const KEPT_BYTES: usize = 256 * 1024;

#[cfg(test)]
mod tests {
    use amqp::Value;
    use amqp::codec::Reader;

    use super::*;

    fn refusal(text: &str) -> BatchError {
        Batch::default().parse(text.as_bytes(), 1000).unwrap_err()
    }

    #[test]
    fn elements_have_their_bodies_and_properties_whatever_the_order_of_members() {
        let text = r#" [{"Body": "plain", "Unknown": {"a": [1]}},
            {"UserProperties": {"n": 1, "big": 18446744073709551615, "f": 1.5, "t": "x\ny", "b": true, "z": null},
             "Body": "a\"\u00e9", "BrokerProperties": {"PartitionKey": "key"}},
            {"IsBodyBase64": true, "Body": "AAH/"}, {"Body": "\u0041AH\/", "IsBodyBase64": true}, {"Body": null}] "#;
        let mut batch = Batch::default();
        batch.parse(text.as_bytes(), 1000).unwrap();
        let elements: Vec<Element<'_>> = batch.elements().collect();
        let bodies: Vec<&[u8]> = elements.iter().map(|element| element.body).collect();
        assert_eq!(bodies, [b"plain", "a\"é".as_bytes(), b"\x00\x01\xff", b"\x00\x01\xff", b""]);
        assert_eq!(elements[1].broker.unwrap().partition_key().as_deref(), Some("key"));
        assert_eq!(elements[1].property_count, 6);
        let mut reader = Reader::new(elements[1].properties);
        let mut values = Vec::new();
        while !reader.rest().is_empty() {
            values.push((reader.value().unwrap().as_text().unwrap().to_owned(), reader.value().unwrap()));
        }
        let expected = [
            ("n", Value::Long(1)),
            ("big", Value::Ulong(u64::MAX)),
            ("f", Value::Double(1.5)),
            ("t", Value::from("x\ny")),
            ("b", Value::Boolean(true)),
            ("z", Value::Null),
        ];
        assert_eq!(values, expected.map(|(name, value)| (name.to_owned(), value)));
        let again = batch.emptied();
        assert!(again.is_empty() && again.bytes() == 0);
    }

    #[test]
    fn what_is_no_batch_is_refused_with_its_reason() {
        for text in [
            "",
            "null",
            "{}",
            "[1]",
            "[{}]",
            r#"[{"Body": 1}]"#,
            r#"[{"Body": {"a": 1}}]"#,
            r#"[{"Body": "a"}"#,
            r#"[{"Body": "a"}] x"#,
            r#"[{"Body": "*", "IsBodyBase64": true}]"#,
            r#"[{"Body": "a", "UserProperties": {"a": {}}}]"#,
            "[{\"Body\": \"\u{0}\"}]",
            &"[".repeat(100_000),
            &format!("[{{\"x\": {}", "[".repeat(100_000)),
        ] {
            assert!(matches!(refusal(text), BatchError::Malformed(_)), "{text:.40}");
        }
        assert_eq!(refusal("[]"), BatchError::Empty);
        let properties = r#"[{"Body": ""}, {"Body": "", "BrokerProperties": {"TimeToLive": 0}}]"#;
        assert!(matches!(refusal(properties), BatchError::Properties { index: 1, .. }));
        assert!(Batch::default().parse(b"[{\"Body\": \"\xff\"}]", 1000).is_err());
    }

    #[test]
    fn the_bound_holds_for_bodies_and_for_many_empty_ones() {
        let of = |length: usize| format!("[{{\"Body\": \"{}\"}}]", "x".repeat(length));
        let (text, mut batch) = (of(984), Batch::default());
        batch.parse(text.as_bytes(), 1000).unwrap();
        assert_eq!(batch.bytes(), 1000);
        assert_eq!(refusal(&of(985)), BatchError::TooLarge { most: 1000 });
        let many = format!("[{}{{}}]", "{\"Body\":\"\"},".repeat(1000 / OVERHEAD + 1));
        assert_eq!(refusal(&many), BatchError::TooLarge { most: 1000 });
    }
}
