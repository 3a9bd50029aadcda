//! From the tree to types, with serde: each error gets the place and the dotted key of the value it is about.

use std::fmt;

use serde::de::{
    self, DeserializeOwned, DeserializeSeed, Deserializer, EnumAccess, IntoDeserializer, MapAccess,
    SeqAccess, VariantAccess, Visitor,
};
use serde::forward_to_deserialize_any;

use crate::error::{Mistake, MistakeKind, SettingsError};
use crate::node::{Content, Entry, Node, shortened};
use crate::place::Place;

/// `root` as a value of type `T`.
pub(crate) fn typed<T: DeserializeOwned>(root: &Node) -> Result<T, SettingsError> {
    let value = Value { node: root, name: None, path: Path::Root };
    T::deserialize(value).map_err(|failure| match failure {
        Failure::Placed(mistake) => SettingsError::Mistake(mistake),
        Failure::Unplaced(kind) => SettingsError::at(root.place.part(0, 0), "", kind),
    })
}

/// A mistake on its way out: first only what is wrong, then, from the innermost value that it passes, where.
#[derive(Debug)]
enum Failure {
    Unplaced(MistakeKind),
    Placed(Box<Mistake>),
}

/// The way from the top to a value, kept on the stack.
#[derive(Clone, Copy)]
enum Path<'a> {
    Root,
    Key(&'a Self, &'a str),
    Index(&'a Self, usize),
}

/// A value that serde reads.
#[derive(Clone, Copy)]
struct Value<'a> {
    node: &'a Node,
    /// Where its key stands.
    name: Option<&'a Place>,
    path: Path<'a>,
}

impl Value<'_> {
    /// Says where a failure is, unless something further inside already did.
    fn locate(&self, failure: Failure) -> Failure {
        let Failure::Unplaced(kind) = failure else {
            return failure;
        };
        // Whoever reports a wrong value does not know how the file spells it.
        let kind = match kind {
            MistakeKind::WrongType { expected, .. } => {
                MistakeKind::WrongType { found: self.node.description(), expected }
            }
            MistakeKind::UnknownChoice { .. } if self.node.filled_in => MistakeKind::WrongType {
                found: self.node.description(),
                expected: "one of the known choices".to_owned(),
            },
            MistakeKind::Invalid { reason, advice } => {
                let secret = self.filled_in().filter(|secret| !secret.is_empty());
                let reason = secret.map_or_else(|| reason.clone(), |secret| reason.replace(secret, "***"));
                MistakeKind::Invalid { reason, advice }
            }
            kind => kind,
        };
        let place = match (&kind, self.name) {
            // What is missing has no place; the key under which it is missing has.
            (MistakeKind::MissingKey { .. }, Some(name)) => name.clone(),
            (MistakeKind::MissingKey { .. }, None) => self.node.place.part(0, 0),
            _ => self.node.place.first_line(),
        };
        Failure::Placed(Box::new(Mistake { place, key: self.path.to_string(), kind }))
    }

    /// The text that a variable was filled into, if this is one.
    fn filled_in(&self) -> Option<&str> {
        match &self.node.content {
            Content::Text(text) if self.node.filled_in => Some(text),
            _ => None,
        }
    }

    /// A number, which a variable may have given as text.
    fn number<'de, V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Failure> {
        let Some(text) = self.filled_in() else {
            return self.deserialize_any(visitor);
        };
        let result = match (text.parse::<u64>(), text.parse::<f64>()) {
            (Ok(number), _) => visitor.visit_u64(number),
            (_, Ok(number)) if number.is_finite() => visitor.visit_f64(number),
            _ => return self.deserialize_any(visitor),
        };
        result.map_err(|failure| self.locate(failure))
    }

    fn wrong_type(&self, expected: impl Into<String>) -> Failure {
        let kind = MistakeKind::WrongType { found: String::new(), expected: expected.into() };
        self.locate(Failure::Unplaced(kind))
    }
}

impl<'de> Deserializer<'de> for Value<'_> {
    type Error = Failure;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Failure> {
        let result = match &self.node.content {
            Content::Null => visitor.visit_unit(),
            Content::Boolean(value) => visitor.visit_bool(*value),
            Content::Integer(number) => match (u64::try_from(*number), i64::try_from(*number)) {
                (Ok(number), _) => visitor.visit_u64(number),
                (_, Ok(number)) => visitor.visit_i64(number),
                _ => visitor.visit_i128(*number),
            },
            Content::Float(number) => visitor.visit_f64(*number),
            Content::Text(text) => visitor.visit_str(text),
            Content::List(elements) => visitor.visit_seq(Elements { value: self, elements, next: 0 }),
            Content::Mapping(entries) => visitor.visit_map(Entries { value: self, entries, next: 0 }),
        };
        result.map_err(|failure| self.locate(failure))
    }

    fn deserialize_bool<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Failure> {
        match self.filled_in().and_then(|text| text.parse().ok()) {
            Some(value) => visitor.visit_bool(value).map_err(|failure| self.locate(failure)),
            None => self.deserialize_any(visitor),
        }
    }

    fn deserialize_u64<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Failure> {
        self.number(visitor)
    }

    fn deserialize_u32<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Failure> {
        self.number(visitor)
    }

    fn deserialize_u16<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Failure> {
        self.number(visitor)
    }

    fn deserialize_f64<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Failure> {
        self.number(visitor)
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Failure> {
        let result = match self.node.content {
            Content::Null => visitor.visit_none(),
            _ => visitor.visit_some(self),
        };
        result.map_err(|failure| self.locate(failure))
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        _name: &'static str,
        visitor: V,
    ) -> Result<V::Value, Failure> {
        visitor.visit_newtype_struct(self).map_err(|failure| self.locate(failure))
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _name: &'static str,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Failure> {
        match self.node.content {
            Content::Mapping(_) => self.deserialize_any(visitor),
            _ => {
                Err(self
                    .wrong_type(format!("a mapping with keys such as `{}`", fields.first().unwrap_or(&""))))
            }
        }
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _name: &'static str,
        variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Failure> {
        let result = match &self.node.content {
            Content::Text(text) => visitor.visit_enum(text.as_str().into_deserializer()),
            Content::Mapping(entries) => match entries.as_slice() {
                [entry] => visitor.visit_enum(Variant { value: self, entry }),
                _ => {
                    return Err(
                        self.wrong_type(format!("a mapping with one key of: {}", variants.join(", ")))
                    );
                }
            },
            _ => return Err(self.wrong_type(format!("one of: {}", variants.join(", ")))),
        };
        result.map_err(|failure| self.locate(failure))
    }

    forward_to_deserialize_any! {
        i8 i16 i32 i64 i128 u8 u128 f32 char str string bytes byte_buf unit unit_struct seq tuple
        tuple_struct map identifier ignored_any
    }
}

struct Elements<'a> {
    value: Value<'a>,
    elements: &'a [Node],
    next: usize,
}

impl<'de> SeqAccess<'de> for Elements<'_> {
    type Error = Failure;

    fn next_element_seed<T: DeserializeSeed<'de>>(&mut self, seed: T) -> Result<Option<T::Value>, Failure> {
        let Some(node) = self.elements.get(self.next) else {
            return Ok(None);
        };
        let path = Path::Index(&self.value.path, self.next);
        self.next += 1;
        seed.deserialize(Value { node, name: None, path }).map(Some)
    }
}

struct Entries<'a> {
    value: Value<'a>,
    entries: &'a [Entry],
    next: usize,
}

impl<'de> MapAccess<'de> for Entries<'_> {
    type Error = Failure;

    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>, Failure> {
        let Some(entry) = self.entries.get(self.next) else {
            return Ok(None);
        };
        key(&self.value, entry, seed).map(Some)
    }

    fn next_value_seed<T: DeserializeSeed<'de>>(&mut self, seed: T) -> Result<T::Value, Failure> {
        let entry = self.entries.get(self.next).expect("a value is asked for only after its key");
        self.next += 1;
        let path = Path::Key(&self.value.path, &entry.key);
        seed.deserialize(Value { node: &entry.value, name: Some(&entry.key_place), path })
    }
}

/// A choice that carries a value: a mapping with the choice as its only key.
struct Variant<'a> {
    value: Value<'a>,
    entry: &'a Entry,
}

impl<'a, 'de> EnumAccess<'de> for Variant<'a> {
    type Error = Failure;
    type Variant = Self;

    fn variant_seed<T: DeserializeSeed<'de>>(self, seed: T) -> Result<(T::Value, Self), Failure> {
        key(&self.value, self.entry, seed).map(|choice| (choice, self))
    }
}

impl<'de> VariantAccess<'de> for Variant<'_> {
    type Error = Failure;

    fn unit_variant(self) -> Result<(), Failure> {
        let path = Path::Key(&self.value.path, &self.entry.key);
        let value = Value { node: &self.entry.value, name: Some(&self.entry.key_place), path };
        match self.entry.value.content {
            Content::Null => Ok(()),
            _ => Err(value.wrong_type("omitted: this choice takes no value")),
        }
    }

    fn newtype_variant_seed<T: DeserializeSeed<'de>>(self, seed: T) -> Result<T::Value, Failure> {
        let path = Path::Key(&self.value.path, &self.entry.key);
        seed.deserialize(Value { node: &self.entry.value, name: Some(&self.entry.key_place), path })
    }

    fn tuple_variant<V: Visitor<'de>>(self, _length: usize, visitor: V) -> Result<V::Value, Failure> {
        let path = Path::Key(&self.value.path, &self.entry.key);
        Value { node: &self.entry.value, name: Some(&self.entry.key_place), path }.deserialize_any(visitor)
    }

    fn struct_variant<V: Visitor<'de>>(
        self,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Failure> {
        let path = Path::Key(&self.value.path, &self.entry.key);
        let value = Value { node: &self.entry.value, name: Some(&self.entry.key_place), path };
        value.deserialize_struct("", fields, visitor)
    }
}

/// Reads the key of `entry`, which lies in `parent`.
fn key<'de, T: DeserializeSeed<'de>>(
    parent: &Value<'_>,
    entry: &Entry,
    seed: T,
) -> Result<T::Value, Failure> {
    let key: de::value::StrDeserializer<'_, Failure> = entry.key.as_str().into_deserializer();
    seed.deserialize(key).map_err(|failure| match failure {
        Failure::Placed(_) => failure,
        Failure::Unplaced(kind) => {
            let path = Path::Key(&parent.path, &entry.key);
            Failure::Placed(Box::new(Mistake { place: entry.key_place.clone(), key: path.to_string(), kind }))
        }
    })
}

impl de::Error for Failure {
    fn custom<T: fmt::Display>(message: T) -> Self {
        Self::Unplaced(MistakeKind::Invalid { reason: message.to_string(), advice: String::new() })
    }

    fn invalid_type(_: de::Unexpected<'_>, expected: &dyn de::Expected) -> Self {
        Self::Unplaced(MistakeKind::WrongType {
            found: String::new(),
            expected: plain(&expected.to_string()),
        })
    }

    fn invalid_value(unexpected: de::Unexpected<'_>, expected: &dyn de::Expected) -> Self {
        Self::invalid_type(unexpected, expected)
    }

    fn invalid_length(length: usize, expected: &dyn de::Expected) -> Self {
        Self::custom(format_args!("{length} elements; must be {expected}"))
    }

    fn unknown_variant(variant: &str, expected: &'static [&'static str]) -> Self {
        let allowed = expected.iter().map(ToString::to_string).collect();
        Self::Unplaced(MistakeKind::UnknownChoice { found: shortened(variant), allowed })
    }

    fn unknown_field(_: &str, expected: &'static [&'static str]) -> Self {
        Self::Unplaced(MistakeKind::UnknownKey {
            allowed: expected.iter().map(ToString::to_string).collect(),
        })
    }

    fn missing_field(field: &'static str) -> Self {
        Self::Unplaced(MistakeKind::MissingKey { missing: field.to_owned() })
    }

    fn duplicate_field(field: &'static str) -> Self {
        Self::custom(format_args!("`{field}` is given twice"))
    }
}

impl std::error::Error for Failure {}

impl fmt::Display for Failure {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unplaced(kind) => write!(formatter, "{kind:?}"),
            Self::Placed(mistake) => mistake.fmt(formatter),
        }
    }
}

impl fmt::Display for Path<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Root => Ok(()),
            Self::Key(Path::Root, key) => formatter.write_str(key),
            Self::Key(parent, key) => write!(formatter, "{parent}.{key}"),
            Self::Index(parent, index) => write!(formatter, "{parent}[{index}]"),
        }
    }
}

/// What serde expects, in words that need no knowledge of Rust.
fn plain(expected: &str) -> String {
    match expected {
        "u8" => "a whole number from 0 to 255".to_owned(),
        "u16" => "a whole number from 0 to 65535".to_owned(),
        "u32" => "a whole number from 0 to 4294967295".to_owned(),
        "u64" | "usize" => "a whole number from 0 on".to_owned(),
        "i8" | "i16" | "i32" | "i64" | "isize" => "a whole number".to_owned(),
        "f32" | "f64" => "a number".to_owned(),
        "a string" => "a string (quoted if it looks like another type)".to_owned(),
        "a boolean" => "`true` or `false`".to_owned(),
        "a sequence" => "a list".to_owned(),
        "a map" => "a mapping".to_owned(),
        other => other.to_owned(),
    }
}
