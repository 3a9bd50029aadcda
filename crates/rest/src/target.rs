//! What the URL of a request names.
//!
//! ```text
//! HUB/messages                              a hub, to send to
//! HUB/partitions/N/messages                 a partition
//! HUB/publishers/NAME/messages              a publisher (`publisher` is the same)
//! ENTITY/messages                           a queue or a topic, to send to
//! ENTITY/messages/head                      the next message of a queue or a subscription
//! ENTITY/messages/ID/LOCK                   a message that is locked
//! ```
//!
//! Names may have slashes, and keywords any letter case, so the path is read from its end.

use std::borrow::Cow;

use percent_encoding::percent_decode_str;

/// The target of a request: its path, decoded, and its query, as it came.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Target<'a> {
    /// Without a slash at either end.
    pub path: Cow<'a, str>,
    query: &'a str,
}

/// What a path names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Resource<'a> {
    /// The messages of an entity.
    Messages {
        /// The path of the entity.
        entity: &'a str,
    },
    /// The next message of an entity.
    Head {
        /// The path of the entity.
        entity: &'a str,
    },
    /// A message that was received.
    Message {
        /// The path of the entity.
        entity: &'a str,
        /// The message's id, or its number.
        id: &'a str,
        /// The token of its lock.
        lock: &'a str,
    },
    /// Anything else.
    Other(&'a str),
}

impl<'a> Target<'a> {
    /// Reads the target of a request, relative or absolute. `None` if it is not text once it is decoded.
    #[must_use]
    pub fn parse(target: &'a str) -> Option<Self> {
        let (path, query) = target.split_once('?').unwrap_or((target, ""));
        let path = match path.split_once("://") {
            Some((scheme, rest)) if !scheme.contains('/') => {
                rest.split_once('/').map_or("", |(_host, path)| path)
            }
            _ => path,
        };
        let path = path.trim_matches('/');
        let path = match path.contains('%') {
            false => Cow::Borrowed(path),
            true => percent_decode_str(path).decode_utf8().ok()?,
        };
        Some(Self { path, query })
    }

    /// The query as it came, without its question mark; empty if there is none.
    #[must_use]
    pub const fn query(&self) -> &'a str {
        self.query
    }

    /// The value of a parameter of the query, as it came. Its name may be encoded: `%24skip` is `$skip`.
    #[must_use]
    pub fn parameter(&self, name: &str) -> Option<&'a str> {
        let is_named = |key: &str| match key.contains('%') {
            false => key.eq_ignore_ascii_case(name),
            true => percent_decode_str(key).decode_utf8_lossy().eq_ignore_ascii_case(name),
        };
        let pairs = self.query.split('&').filter_map(|pair| pair.split_once('='));
        pairs.into_iter().find(|(key, _)| is_named(key)).map(|(_, value)| value)
    }
}

impl<'a> Resource<'a> {
    /// Reads a path.
    #[must_use]
    pub fn of(path: &'a str) -> Self {
        let Some((before, last)) = path.rsplit_once('/') else {
            return Self::Other(path);
        };
        if is_messages(last) {
            return Self::Messages { entity: before };
        }
        let Some((before, middle)) = before.rsplit_once('/') else {
            return Self::Other(path);
        };
        if is_messages(middle) {
            return match last.eq_ignore_ascii_case("head") {
                true => Self::Head { entity: before },
                false => Self::Other(path),
            };
        }
        match before.rsplit_once('/') {
            Some((entity, keyword)) if is_messages(keyword) => {
                Self::Message { entity, id: middle, lock: last }
            }
            _ => Self::Other(path),
        }
    }
}

/// Splits `before/KEYWORD/after`, where `after` is one segment and neither is empty.
#[must_use]
pub fn split_at_keyword<'a>(path: &'a str, keyword: &str) -> Option<(&'a str, &'a str)> {
    let (rest, after) = path.rsplit_once('/')?;
    let (before, found) = rest.rsplit_once('/')?;
    (found.eq_ignore_ascii_case(keyword) && !before.is_empty() && !after.is_empty())
        .then_some((before, after))
}

fn is_messages(segment: &str) -> bool {
    segment.eq_ignore_ascii_case("messages")
}

/// A UUID from its text: 32 hexadecimal digits, with hyphens and braces or without.
#[must_use]
pub fn uuid(text: &str) -> Option<[u8; 16]> {
    let mut digits = text.trim_start_matches('{').trim_end_matches('}').chars().filter(|char| *char != '-');
    let mut bytes = [0; 16];
    for byte in &mut bytes {
        let (high, low) = (digits.next()?.to_digit(16)?, digits.next()?.to_digit(16)?);
        *byte = (high << 4 | low) as u8;
    }
    digits.next().is_none().then_some(bytes)
}

/// The text of a UUID.
#[must_use]
pub fn uuid_text(bytes: [u8; 16]) -> String {
    let number = u128::from_be_bytes(bytes);
    format!(
        "{:08x}-{:04x}-{:04x}-{:04x}-{:012x}",
        number >> 96,
        number >> 80 & 0xffff,
        number >> 64 & 0xffff,
        number >> 48 & 0xffff,
        number & 0xffff_ffff_ffff
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets_are_decoded_once_and_their_parameters_are_found() {
        for (target, path) in [
            ("/hub/messages", "hub/messages"),
            ("/hub/messages/?timeout=60", "hub/messages"),
            ("/team%2Fhub/messages", "team/hub/messages"),
            ("/a%252Fb", "a%2Fb"),
            ("http://ns.example.com:8080/hub/messages", "hub/messages"),
            ("https://ns.example.com", ""),
            ("/", ""),
        ] {
            assert_eq!(Target::parse(target).unwrap().path, path, "{target}");
        }
        assert_eq!(Target::parse("/%ff"), None);
        let target = Target::parse("/q/messages/head?api-version=2014-01&Timeout=5").unwrap();
        assert_eq!((target.parameter("timeout"), target.parameter("none")), (Some("5"), None));
    }

    #[test]
    fn paths_are_read_from_their_end() {
        for (path, expected) in [
            ("hub/messages", Resource::Messages { entity: "hub" }),
            ("team/hub/Partitions/0/MESSAGES", Resource::Messages { entity: "team/hub/Partitions/0" }),
            ("q/messages/head", Resource::Head { entity: "q" }),
            (
                "t/subscriptions/s/$DeadLetterQueue/Messages/Head",
                Resource::Head { entity: "t/subscriptions/s/$DeadLetterQueue" },
            ),
            ("q/messages/7/lock", Resource::Message { entity: "q", id: "7", lock: "lock" }),
            ("q/messages/7", Resource::Other("q/messages/7")),
            ("messages", Resource::Other("messages")),
            ("hub", Resource::Other("hub")),
            ("", Resource::Other("")),
        ] {
            assert_eq!(Resource::of(path), expected, "{path}");
        }
        assert_eq!(split_at_keyword("hub/PARTITIONS/3", "partitions"), Some(("hub", "3")));
        assert_eq!(split_at_keyword("hub/partitions/", "partitions"), None);
    }

    #[test]
    fn uuids_are_read_as_they_are_written() {
        let bytes = *b"\x00\x01\x02\x03\x04\x05\x06\x07\x08\x09\x0a\x0b\x0c\x0d\x0e\xff";
        let text = uuid_text(bytes);
        assert_eq!(text, "00010203-0405-0607-0809-0a0b0c0d0eff");
        for text in [&text[..], &text.to_uppercase(), &text.replace('-', ""), &format!("{{{text}}}")] {
            assert_eq!(uuid(text), Some(bytes), "{text}");
        }
        for text in ["", "00", "g0010203-0405-0607-0809-0a0b0c0d0eff", &format!("{text}00")] {
            assert_eq!(uuid(text), None, "{text}");
        }
    }
}
