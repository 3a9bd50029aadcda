//! Conditions and actions in files: as the text that they were read from, with what its parameters stand for.

use super::super::property_list;
use super::{SqlAction, SqlError, SqlFilter};
use amqp::codec::Value;
use serde::de::value::MapAccessDeserializer;
use serde::de::{Error, MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::fmt;

impl Serialize for SqlFilter {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        write(serializer, self.text(), self.parameters())
    }
}

impl Serialize for SqlAction {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        write(serializer, self.text(), self.parameters())
    }
}

/// A text alone where there are no parameters, else a map of both.
fn write<S: Serializer>(
    serializer: S,
    text: &str,
    parameters: &[(String, Value)],
) -> Result<S::Ok, S::Error> {
    match parameters.is_empty() {
        true => serializer.serialize_str(text),
        false => {
            WithParameters { text: text.to_owned(), parameters: parameters.to_vec() }.serialize(serializer)
        }
    }
}

/// A text with what its parameters stand for.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct WithParameters {
    text: String,
    #[serde(with = "property_list")]
    parameters: Vec<(String, Value)>,
}

impl<'de> Deserialize<'de> for SqlFilter {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(TextVisitor {
            what: "a condition, such as \"color = 'red'\"",
            parse: |text, parameters| Self::with_parameters(text, parameters),
        })
    }
}

impl<'de> Deserialize<'de> for SqlAction {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(TextVisitor {
            what: "an action, such as \"SET color = 'red'\"",
            parse: |text, parameters| Self::with_parameters(text, parameters),
        })
    }
}

/// Reads while the value is visited, so that a mistake is told at the place of the value.
struct TextVisitor<T> {
    what: &'static str,
    parse: Parse<T>,
}

/// From a text and the values of its parameters.
type Parse<T> = fn(String, Vec<(String, Value)>) -> Result<T, SqlError>;

impl<'de, T> Visitor<'de> for TextVisitor<T> {
    type Value = T;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.what)
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<T, E> {
        (self.parse)(text.to_owned(), Vec::new()).map_err(E::custom)
    }

    fn visit_map<A: MapAccess<'de>>(self, access: A) -> Result<T, A::Error> {
        let WithParameters { text, parameters } =
            WithParameters::deserialize(MapAccessDeserializer::new(access))?;
        (self.parse)(text, parameters).map_err(A::Error::custom)
    }
}
