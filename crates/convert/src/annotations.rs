//! Message annotations that carry the parts of a Kafka record for which AMQP has no place.
//!
//! | annotation | value | if |
//! |---|---|---|
//! | `x-opt-kafka-key` | binary | the record has a key |
//! | `x-opt-kafka-tombstone` | `true` | it has no value |
//! | `x-opt-kafka-headers` | list: the name of each header, binary, and its value, binary or null | a name is there twice, or is no text |

use std::collections::HashSet;

use amqp::DecodeError;
use amqp::codec::{Reader, code, write};
use amqp::message::{SectionKind, Sections};
use amqp::performative::descriptor;
use kafka::record::{Header, Headers, Record};

/// The record parts of a message, borrowed from its annotations.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RecordAnnotations<'a> {
    /// The key, if there is one.
    pub key: Option<&'a [u8]>,
    /// Whether the record is a tombstone, which has no value.
    pub is_tombstone: bool,
    /// All headers in their order, if the application properties do not have them all.
    pub headers: Vec<Header<'a>>,
}

/// Whether an annotation with this name belongs to a record.
#[must_use]
pub fn is_of_record(name: &[u8]) -> bool {
    name.starts_with(PREFIX)
}

/// The owned form of [`RecordAnnotations`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OwnAnnotations {
    /// The key, if there is one.
    pub key: Option<Vec<u8>>,
    /// Whether there is no value.
    pub is_tombstone: bool,
    /// All headers in their order, if the application properties do not have them all.
    pub headers: Vec<(Vec<u8>, Option<Vec<u8>>)>,
}

impl OwnAnnotations {
    /// Appends the entries of the map of annotations, and returns how many there are.
    pub fn put(&self, out: &mut Vec<u8>) -> u32 {
        let own = Own {
            key: self.key.as_deref(),
            is_tombstone: self.is_tombstone,
            header_count: (!self.headers.is_empty()).then_some(self.headers.len() as u32),
        };
        own.put(out, || self.headers.iter().map(|(name, value)| (&name[..], value.as_deref())));
        own.count()
    }
}

/// Appends the entries of the map of annotations that a record has as a message, and returns how many there are.
pub fn put(out: &mut Vec<u8>, record: &Record<'_>) -> u32 {
    let own = Own::of(record);
    own.put(out, || record.headers.all());
    own.count()
}

/// Appends the section of annotations that a record has as a message; nothing if it has none.
pub fn put_section(out: &mut Vec<u8>, record: &Record<'_>) {
    let own = Own::of(record);
    if own.count() > 0 {
        write::descriptor(out, descriptor::MESSAGE_ANNOTATIONS);
        write::map(out, own.count(), |out| own.put(out, || record.headers.all()));
    }
}

/// Returns the key that a message has as a record, unless it is empty, if annotations are the first section. Hot path.
#[inline]
#[must_use]
pub fn key_of(message: &[u8]) -> Option<&[u8]> {
    match message {
        [code::DESCRIBED, code::SMALL_ULONG, 0x72, ..] => find_key(message),
        _ => None,
    }
}

#[cold]
fn find_key(message: &[u8]) -> Option<&[u8]> {
    of_message(message)?.key.filter(|key| !key.is_empty())
}

/// Parses the record annotations of a message. Returns `None` unless annotations are its first section and are well-formed.
#[must_use]
pub fn of_message(message: &[u8]) -> Option<RecordAnnotations<'_>> {
    let section = Sections::new(message).next()?.ok()?;
    if section.kind != SectionKind::MessageAnnotations {
        return None;
    }
    let mut map = Reader::new(section.value).map().ok()??;
    let mut found = RecordAnnotations::default();
    while let Some(reader) = map.entry() {
        let name = reader.text().ok()??;
        found.take(name, reader).ok()?;
    }
    Some(found)
}

/// Appends a section of so many annotations, whose names and values are encoded.
pub fn section(out: &mut Vec<u8>, count: u32, entries: &[u8]) {
    write::descriptor(out, descriptor::MESSAGE_ANNOTATIONS);
    write::map(out, count, |out| out.extend_from_slice(entries));
}

/// The annotations of one record, before they are encoded.
#[derive(Clone, Copy, Debug)]
struct Own<'a> {
    key: Option<&'a [u8]>,
    is_tombstone: bool,
    /// Number of headers; `None` if the application properties carry all of them.
    header_count: Option<u32>,
}

impl<'a> Own<'a> {
    fn of(record: &Record<'a>) -> Self {
        Self {
            key: record.key,
            is_tombstone: record.value.is_none(),
            header_count: (!are_a_map(&record.headers)).then(|| record.headers.total()),
        }
    }

    fn count(self) -> u32 {
        u32::from(self.key.is_some()) + u32::from(self.is_tombstone) + u32::from(self.header_count.is_some())
    }

    fn put<'h, I: Iterator<Item = Header<'h>>>(self, out: &mut Vec<u8>, headers: impl FnOnce() -> I) {
        if let Some(key) = self.key {
            write::symbol(out, KEY);
            write::binary(out, key);
        }
        if self.is_tombstone {
            write::symbol(out, TOMBSTONE);
            write::boolean(out, true);
        }
        if let Some(count) = self.header_count {
            write::symbol(out, HEADERS);
            write::list(out, count.saturating_mul(2), |out| {
                for (name, value) in headers() {
                    write::binary(out, name);
                    write::option(out, value, write::binary);
                }
            });
        }
    }
}

impl<'a> RecordAnnotations<'a> {
    /// Reads the value of the annotation `name` from `reader`, or skips it if it does not belong to a record.
    ///
    /// # Errors
    /// It is malformed.
    pub fn take(&mut self, name: &str, reader: &mut Reader<'a>) -> Result<(), DecodeError> {
        match name {
            KEY => self.key = reader.binary()?,
            TOMBSTONE => self.is_tombstone = reader.boolean()?.unwrap_or(false),
            HEADERS => {
                let Some(mut list) = reader.list()? else { return Ok(()) };
                while list.remaining() > 0 {
                    let name = list.field(Reader::binary)?.unwrap_or_default();
                    self.headers.push((name, list.field(Reader::binary)?));
                }
            }
            _ => reader.skip()?,
        }
        Ok(())
    }
}

/// Whether a map can represent the headers: every name is UTF-8 and occurs once.
fn are_a_map(headers: &Headers<'_>) -> bool {
    match headers.total() {
        0 => true,
        1 => headers.are_all_text(),
        total => {
            headers.are_all_text() && {
                let mut names = HashSet::with_capacity(total.min(MAP_MAX) as usize);
                headers.all().all(|(name, _)| names.insert(name))
            }
        }
    }
}

const PREFIX: &[u8] = b"x-opt-kafka-";
const KEY: &str = "x-opt-kafka-key";
const TOMBSTONE: &str = "x-opt-kafka-tombstone";
const HEADERS: &str = "x-opt-kafka-headers";

/// Initial capacity of the set of header names.
const MAP_MAX: u32 = 64;
