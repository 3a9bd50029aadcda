//! Application properties as a person writes them and a file keeps them: names with values, in their order.
//!
//! Texts, booleans, integers and floats are written as such, and read as string, boolean, long and double. Every other
//! value, and a float of many digits, is written as `{amqp: "…"}`, its encoding in hexadecimal digits, so that whatever a client sent reads back as
//! it was.

use amqp::codec::{Reader, Value, write};
use serde::de::{Deserialize, Deserializer, Error as _, MapAccess, Visitor};
use serde::ser::{Serialize, SerializeMap as _, Serializer};
use std::fmt;

/// Properties, for formats of others that hold some.
#[derive(Clone, Debug, PartialEq, Default, serde::Deserialize)]
#[serde(transparent)]
pub struct PropertyList(#[serde(deserialize_with = "deserialize")] pub Vec<(String, Value)>);

pub(super) fn serialize<S: Serializer>(
    properties: &[(String, Value)],
    serializer: S,
) -> Result<S::Ok, S::Error> {
    let mut map = serializer.serialize_map(Some(properties.len()))?;
    for (name, value) in properties {
        map.serialize_entry(name, &Written(value))?;
    }
    map.end()
}

pub(super) fn deserialize<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Vec<(String, Value)>, D::Error> {
    deserializer.deserialize_map(ListVisitor)
}

/// A value on its way out.
struct Written<'a>(&'a Value);

impl Serialize for Written<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.0 {
            Value::String(text) => serializer.serialize_str(text),
            Value::Boolean(value) => serializer.serialize_bool(*value),
            Value::Long(number) => serializer.serialize_i64(*number),
            Value::Double(number) if is_short(*number) => serializer.serialize_f64(*number),
            other => {
                let mut bytes = Vec::new();
                write::value(&mut bytes, other);
                let digits: String = bytes
                    .into_iter()
                    .flat_map(|byte| [byte >> 4, byte & 15])
                    .map(|digit| char::from_digit(digit.into(), 16).expect("it is below 16"))
                    .collect();
                let mut map = serializer.serialize_map(Some(1))?;
                map.serialize_entry(ENCODED, &digits)?;
                map.end()
            }
        }
    }
}

struct ListVisitor;

impl<'de> Visitor<'de> for ListVisitor {
    type Value = Vec<(String, Value)>;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("names of properties with their values")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut access: A) -> Result<Self::Value, A::Error> {
        let mut list = Vec::new();
        while let Some((name, Read(value))) = access.next_entry()? {
            list.push((name, value));
        }
        Ok(list)
    }
}

/// A value on its way in.
struct Read(Value);

impl<'de> Deserialize<'de> for Read {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(ValueVisitor).map(Self)
    }
}

struct ValueVisitor;

impl<'de> Visitor<'de> for ValueVisitor {
    type Value = Value;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a string, a number or a boolean")
    }

    fn visit_str<E>(self, text: &str) -> Result<Value, E> {
        Ok(Value::String(text.to_owned()))
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(Value::Boolean(value))
    }

    fn visit_i64<E>(self, number: i64) -> Result<Value, E> {
        Ok(Value::Long(number))
    }

    fn visit_u64<E>(self, number: u64) -> Result<Value, E> {
        Ok(i64::try_from(number).map_or(Value::Ulong(number), Value::Long))
    }

    fn visit_f64<E>(self, number: f64) -> Result<Value, E> {
        Ok(Value::Double(number))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut access: A) -> Result<Value, A::Error> {
        let encoded = match access.next_entry::<String, String>()? {
            Some((key, digits)) if key == ENCODED => decoded(&digits),
            _ => None,
        };
        match (encoded, access.next_key::<String>()?) {
            (Some(value), None) => Ok(value),
            _ => Err(A::Error::custom("is not one encoded value under the key `amqp`")),
        }
    }
}

/// Whether a number has so few digits that whatever reads them gets exactly this number.
fn is_short(number: f64) -> bool {
    number.is_finite() && number.to_string().len() <= EXACT_DIGITS
}

fn decoded(digits: &str) -> Option<Value> {
    let bytes: Option<Vec<u8>> = digits
        .as_bytes()
        .chunks(2)
        .map(|pair| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok())
        .collect();
    let bytes = bytes?;
    let mut reader = Reader::new(&bytes);
    let value = reader.value().ok()?;
    reader.is_empty().then_some(value)
}

/// Decimal digits that any reader takes for the one number that is nearest.
const EXACT_DIGITS: usize = 15;

const ENCODED: &str = "amqp";
