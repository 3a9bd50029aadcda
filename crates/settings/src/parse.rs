//! From YAML text to a tree with places.

use std::fmt;

use serde::de::{Deserialize, Deserializer, Error as _, MapAccess, SeqAccess, Visitor};
use serde_saphyr::{DuplicateKeyPolicy, Location, MessageFormatter as _, Spanned, UserMessageFormatter};

use crate::comments::without_comments;
use crate::error::{MistakeKind, SettingsError};
use crate::node::{Content, Entry, Node};
use crate::place::Place;

/// Reads the YAML that stands at `place`: a whole file or the value of an argument.
pub(crate) fn parse(place: &Place) -> Result<Node, SettingsError> {
    let text = place.text();
    if text.len() > LARGEST_TEXT {
        let kind = MistakeKind::BeyondLimit { limit: "a string of 1 MiB" };
        return Err(SettingsError::at(place.part(0, 0), "", kind));
    }
    let is_json = place.name().to_ascii_lowercase().ends_with(".json");
    let text = if is_json { without_comments(text) } else { text.into() };
    let options = serde_saphyr::options! {
        budget: serde_saphyr::budget! {
            max_depth: DEEPEST,
            max_nodes: MOST_NODES,
            max_events: 4 * MOST_NODES,
            max_aliases: MOST_ALIASES,
            max_anchors: MOST_ALIASES,
            max_documents: 1,
        },
        alias_limits: serde_saphyr::alias_limits! { max_total_replayed_events: MOST_NODES },
        duplicate_keys: DuplicateKeyPolicy::Error,
        strict_booleans: true,
        with_snippet: false,
    };
    let raw: Spanned<Raw> = serde_saphyr::from_str_with_options(&text, options).map_err(|error| {
        let at = error.location().map_or_else(|| place.part(0, 0), |location| located(place, &location));
        let message = UserMessageFormatter.format_message(&error).into_owned();
        SettingsError::at(at.first_line(), "", MistakeKind::Syntax { message })
    })?;
    Ok(node(place, raw))
}

/// A value before its place is known as ours.
enum Raw {
    Null,
    Boolean(bool),
    Integer(i128),
    Float(f64),
    Text(String),
    List(Vec<Spanned<Self>>),
    Mapping(Vec<(Spanned<String>, Spanned<Self>)>),
}

impl<'de> Deserialize<'de> for Raw {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(RawVisitor)
    }
}

struct RawVisitor;

impl<'de> Visitor<'de> for RawVisitor {
    type Value = Raw;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a value")
    }

    fn visit_unit<E>(self) -> Result<Raw, E> {
        Ok(Raw::Null)
    }

    fn visit_none<E>(self) -> Result<Raw, E> {
        Ok(Raw::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Raw, E> {
        Ok(Raw::Boolean(value))
    }

    fn visit_i64<E>(self, number: i64) -> Result<Raw, E> {
        Ok(Raw::Integer(number.into()))
    }

    fn visit_u64<E>(self, number: u64) -> Result<Raw, E> {
        Ok(Raw::Integer(number.into()))
    }

    fn visit_i128<E>(self, number: i128) -> Result<Raw, E> {
        Ok(Raw::Integer(number))
    }

    fn visit_u128<E: serde::de::Error>(self, number: u128) -> Result<Raw, E> {
        i128::try_from(number).map(Raw::Integer).map_err(|_| E::custom("a number beyond 128 bits"))
    }

    fn visit_f64<E>(self, number: f64) -> Result<Raw, E> {
        Ok(Raw::Float(number))
    }

    fn visit_str<E>(self, text: &str) -> Result<Raw, E> {
        Ok(Raw::Text(text.to_owned()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut access: A) -> Result<Raw, A::Error> {
        // What the access announces is not reserved: it is what the file claims.
        let mut list = Vec::new();
        while let Some(element) = access.next_element()? {
            list.push(element);
        }
        Ok(Raw::List(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut access: A) -> Result<Raw, A::Error> {
        let mut mapping = Vec::new();
        while let Some(entry) = access.next_entry()? {
            if mapping.len() == MOST_NODES {
                return Err(A::Error::custom("too many keys"));
            }
            mapping.push(entry);
        }
        Ok(Raw::Mapping(mapping))
    }
}

fn node(text: &Place, raw: Spanned<Raw>) -> Node {
    let place = located(text, &raw.referenced);
    let content = match raw.value {
        Raw::Null => Content::Null,
        Raw::Boolean(value) => Content::Boolean(value),
        Raw::Integer(number) => Content::Integer(number),
        Raw::Float(number) => Content::Float(number),
        Raw::Text(text) => Content::Text(text),
        Raw::List(list) => Content::List(list.into_iter().map(|raw| node(text, raw)).collect()),
        Raw::Mapping(mapping) => {
            let entry = |(key, value): (Spanned<String>, Spanned<Raw>)| Entry {
                key_place: located(text, &key.referenced),
                key: key.value,
                value: node(text, value),
            };
            Content::Mapping(mapping.into_iter().map(entry).collect())
        }
    };
    Node::new(place, content)
}

/// The place of a location in `text`.
fn located(text: &Place, location: &Location) -> Place {
    let bytes = |count: u64| usize::try_from(count).unwrap_or(usize::MAX);
    let span = location.span();
    if let (Some(offset), Some(length)) = (span.byte_offset(), span.byte_len()) {
        return text.part(bytes(offset), bytes(length));
    }
    // Some errors of the parser only know line and column.
    let (line, column) = (bytes(location.line().max(1)), bytes(location.column().max(1)));
    let before: usize = text.text().split_inclusive('\n').take(line - 1).map(str::len).sum();
    let rest = text.text().get(before..).unwrap_or_default();
    let within: usize = rest.chars().take(column - 1).map(char::len_utf8).sum();
    text.part(before + within, rest.lines().next().map_or(0, |line| line.len().saturating_sub(within)))
}

/// Far above any file that a person writes, in bytes.
const LARGEST_TEXT: usize = 1 << 20;
/// Nested lists and mappings. The parser recurses and takes up to 40 KiB of stack per level in an unoptimised build, of
/// which a thread may have no more than 2 MiB; settings are five levels deep.
const DEEPEST: usize = 24;
/// Values in a document, those repeated by aliases included.
const MOST_NODES: usize = 20_000;
/// Anchors, and aliases to them.
const MOST_ALIASES: usize = 100;
