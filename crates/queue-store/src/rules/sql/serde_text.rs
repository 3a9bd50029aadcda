//! Conditions and actions in files: as the text that they were read from.

use super::{SqlAction, SqlError, SqlFilter};
use serde::de::{Deserialize, Deserializer, Error, Visitor};
use serde::ser::{Serialize, Serializer};
use std::fmt;

impl Serialize for SqlFilter {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.text())
    }
}

impl Serialize for SqlAction {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.text())
    }
}

impl<'de> Deserialize<'de> for SqlFilter {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_str(TextVisitor {
            what: "a condition, such as \"color = 'red'\"",
            parse: |text| Self::parse(text),
        })
    }
}

impl<'de> Deserialize<'de> for SqlAction {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_str(TextVisitor {
            what: "an action, such as \"SET color = 'red'\"",
            parse: |text| Self::parse(text),
        })
    }
}

/// Reads while the value is visited, so that a mistake is told at the place of the value.
struct TextVisitor<T> {
    what: &'static str,
    parse: fn(&str) -> Result<T, SqlError>,
}

impl<T> Visitor<'_> for TextVisitor<T> {
    type Value = T;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.what)
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<T, E> {
        (self.parse)(text).map_err(E::custom)
    }
}
