//! Writing messages as members of a JSON object.

use std::borrow::Cow;

use amqp::DecodeError;
use amqp::codec::{Reader, Value};
use amqp::message::{Header, MessageView, Properties, SectionKind, Sections};
use serde::de::IgnoredAny;
use units::date::CivilTime;

use super::types::{Written, name_of_bytes, put_base64, put_bytes, put_value, written};
use super::{SCHEDULED_TIME, names};
use crate::PARTITION_KEY;
use crate::annotations::RecordAnnotations;

/// The place of the AMQP properties section in a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Layout {
    /// Members of the line itself.
    Flat,
    /// In a member `system`.
    Nested,
}

/// The form of the body in a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BodyForm {
    /// JSON objects and lists as they are, other text as text, and anything else in base64.
    Auto,
    /// As text; what is not UTF-8 is replaced.
    Text,
    /// As the JSON that it is; what is not is text.
    Json,
    /// In base64.
    Base64,
    /// As text, or as a member of another name in base64.
    TextOrBase64,
    /// Omitted.
    Nothing,
}

/// A parsed message, ready to be written.
#[derive(Clone, Debug, Default)]
pub struct MessageText<'a> {
    /// All sections behind the annotations.
    content: &'a [u8],
    header: Option<Header>,
    of_record: RecordAnnotations<'a>,
    partition_key: Option<&'a str>,
    scheduled_ms: Option<i64>,
    standard: Option<Properties>,
    application: Vec<(String, Value)>,
    body: Body<'a>,
    /// Whether the members contain the whole message.
    is_exact: bool,
}

#[derive(Clone, Debug)]
enum Body<'a> {
    Bytes(Cow<'a, [u8]>),
    Value(Value),
}

impl Default for Body<'_> {
    fn default() -> Self {
        Self::Bytes(Cow::default())
    }
}

impl<'a> MessageText<'a> {
    /// Reads a message.
    ///
    /// # Errors
    /// It is none.
    pub fn read(sections: &'a [u8]) -> Result<Self, DecodeError> {
        let mut read = Self { is_exact: true, ..Self::default() };
        let mut bodies = 0;
        let mut content_at = 0;
        for section in Sections::new(sections) {
            let section = section?;
            if read.is_in_front(section.kind) && bodies == 0 {
                content_at += section.encoded.len();
            }
            match section.kind {
                SectionKind::Header => read.header = Some(Header::decode(section.value)?),
                SectionKind::DeliveryAnnotations => {}
                SectionKind::MessageAnnotations => read.take_annotations(section.value)?,
                SectionKind::Properties => {
                    read.standard = MessageView::parse(section.encoded)?.properties()?
                }
                SectionKind::ApplicationProperties => {
                    let entries = MessageView::parse(section.encoded)?.application_properties()?.entries()?;
                    read.application =
                        entries.into_iter().map(|(name, value)| (name.as_str().to_owned(), value)).collect();
                }
                SectionKind::Data => {
                    bodies += 1;
                    let data = section.data()?;
                    match &mut read.body {
                        Body::Bytes(bytes) if bodies > 1 => bytes.to_mut().extend_from_slice(data),
                        body => *body = Body::Bytes(data.into()),
                    }
                }
                SectionKind::Value => {
                    (read.body, read.is_exact) = (Body::of(Reader::new(section.value).value()?), false);
                }
                SectionKind::Sequence => {
                    (read.body, read.is_exact) = (Body::Value(Reader::new(section.value).value()?), false);
                }
                SectionKind::Footer => read.is_exact = false,
            }
        }
        read.content = &sections[content_at..];
        read.is_exact &= bodies == 1 && read.has_only_scalars() && !has_equal_names(&read.application);
        Ok(read)
    }

    /// Whether every value can be recovered from its JSON.
    fn has_only_scalars(&self) -> bool {
        let standard = self.standard.iter();
        let ids = standard.flat_map(|standard| [&standard.message_id, &standard.correlation_id]).flatten();
        let mut values = ids.chain(self.application.iter().map(|(_, value)| value));
        values.all(|value| written(value) != Written::Inexact)
    }

    /// Whether a section precedes the content.
    fn is_in_front(&self, kind: SectionKind) -> bool {
        let is_annotation = matches!(
            kind,
            SectionKind::Header | SectionKind::DeliveryAnnotations | SectionKind::MessageAnnotations
        );
        is_annotation && self.standard.is_none() && self.application.is_empty()
    }

    fn take_annotations(&mut self, section: &'a [u8]) -> Result<(), DecodeError> {
        let Some(mut map) = Reader::new(section).map()? else { return Ok(()) };
        while let Some(reader) = map.entry() {
            let name = match reader.value()? {
                Value::String(name) => name,
                Value::Symbol(name) => name.as_str().to_owned(),
                _ => String::new(),
            };
            match name.as_str() {
                PARTITION_KEY => match reader.peek()? {
                    amqp::codec::code::STRING_8 | amqp::codec::code::STRING_32 => {
                        self.partition_key = reader.string()?
                    }
                    _ => reader.skip()?,
                },
                SCHEDULED_TIME => self.scheduled_ms = reader.value()?.as_integer(),
                name => self.of_record.take(name, reader)?,
            }
        }
        Ok(())
    }

    /// The partition key, if the annotations are there and have one.
    #[must_use]
    pub const fn partition_key(&self) -> Option<&'a str> {
        self.partition_key
    }

    /// The application properties.
    pub fn properties(&self) -> impl Iterator<Item = (&str, &Value)> {
        self.application.iter().map(|(name, value)| (name.as_str(), value))
    }

    /// Appends the members in front of the body, each behind a comma.
    pub fn put(&self, layout: Layout, out: &mut Vec<u8>) {
        self.put_record(out);
        self.put_header(out);
        match layout {
            Layout::Flat => self.put_standard(out),
            Layout::Nested => {
                let mut members = Vec::new();
                self.put_standard(&mut members);
                if let Some(members) = members.strip_prefix(b",") {
                    begin(out, names::SYSTEM);
                    out.push(b'{');
                    out.extend_from_slice(members);
                    out.push(b'}');
                }
            }
        }
        let properties = self.application.iter().map(|(name, value)| (name.as_str(), value));
        put_named(out, names::PROPERTIES, properties.clone(), put_value);
        let types = properties.filter_map(|(name, value)| match written(value) {
            Written::As(of) => Some((name, of)),
            Written::Implied | Written::Inexact => None,
        });
        put_named(out, names::PROPERTY_TYPES, types, put_text);
    }

    /// Appends the body.
    pub fn put_body(&self, form: BodyForm, out: &mut Vec<u8>) {
        let body = match &self.body {
            Body::Bytes(_) if self.of_record.is_tombstone => return,
            Body::Bytes(bytes) => &**bytes,
            Body::Value(_) if form == BodyForm::Nothing => return,
            Body::Value(value) => return put_member(out, BODY, value, put_value),
        };
        let is_json = || serde_json::from_slice::<IgnoredAny>(body).is_ok();
        // What stands beside a value in JSON is no part of it, and a line break would end the line.
        let fits =
            || !body.contains(&b'\n') && !body.contains(&b'\r') && body.trim_ascii().len() == body.len();
        let is_structured = || matches!(body.first(), Some(b'{' | b'['));
        match form {
            BodyForm::Nothing => {}
            BodyForm::Json if is_json() => {
                let on_one_line =
                    body.iter().map(|byte| if matches!(byte, b'\n' | b'\r') { b' ' } else { *byte });
                begin(out, BODY);
                out.extend(on_one_line);
            }
            BodyForm::Auto if is_structured() && fits() && is_json() => {
                begin(out, BODY);
                out.extend_from_slice(body);
            }
            BodyForm::Auto => match str::from_utf8(body) {
                Ok(text) => put_member(out, BODY, text, put_text),
                Err(_) => put_body_base64(out, body),
            },
            BodyForm::Json | BodyForm::Text => {
                put_member(out, BODY, &*String::from_utf8_lossy(body), put_text);
            }
            BodyForm::Base64 => put_body_base64(out, body),
            BodyForm::TextOrBase64 => match str::from_utf8(body) {
                Ok(text) => put_member(out, BODY, text, put_text),
                Err(_) => put_member(out, "body_base64", body, put_base64),
            },
        }
    }

    /// Appends the sections as the member `amqp` if the other members do not contain the whole message.
    pub fn put_exact(&self, out: &mut Vec<u8>) {
        if !self.is_exact {
            begin(out, names::AMQP);
            put_base64(out, self.content);
        }
    }

    fn put_record(&self, out: &mut Vec<u8>) {
        let RecordAnnotations { key, is_tombstone, headers } = &self.of_record;
        if let Some(key) = key {
            match str::from_utf8(key) {
                Ok(key) => put_member(out, names::KAFKA_KEY, key, put_text),
                Err(_) => put_member(out, names::KAFKA_KEY_BASE64, *key, put_base64),
            }
        }
        if !headers.is_empty() {
            begin(out, names::KAFKA_HEADERS);
            put_headers(out, headers);
        }
        if *is_tombstone {
            put_member(out, names::TOMBSTONE, &Value::Boolean(true), put_value);
        }
    }

    fn put_header(&self, out: &mut Vec<u8>) {
        let Header { durable, priority, time_to_live_ms, .. } = self.header.unwrap_or_default();
        let members = [
            ("durable", durable.map(Value::Boolean)),
            ("priority", priority.map(Value::Ubyte)),
            ("time_to_live_ms", time_to_live_ms.map(Value::Uint)),
            (names::SCHEDULED, self.scheduled_ms.map(Value::Timestamp)),
        ];
        for (name, value) in members {
            if let Some(value) = value {
                put_member(out, name, &value, put_value);
            }
        }
    }

    fn put_standard(&self, out: &mut Vec<u8>) {
        let Some(standard) = &self.standard else { return };
        let text = |value: &Option<String>| value.clone().map(Value::String);
        let symbol = |value: &Option<amqp::Symbol>| value.clone().map(Value::Symbol);
        let members = [
            ("message_id", standard.message_id.clone()),
            ("correlation_id", standard.correlation_id.clone()),
            ("content_type", symbol(&standard.content_type)),
            ("content_encoding", symbol(&standard.content_encoding)),
            ("subject", text(&standard.subject)),
            ("to", text(&standard.to)),
            ("reply_to", text(&standard.reply_to)),
            ("session_id", text(&standard.group_id)),
            ("session_sequence", standard.group_sequence.map(Value::Uint)),
            ("reply_to_session_id", text(&standard.reply_to_group_id)),
            ("absolute_expiry_time", standard.absolute_expiry_time.map(Value::Timestamp)),
            ("creation_time", standard.creation_time.map(Value::Timestamp)),
        ];
        for (name, value) in &members {
            if let Some(value) = value {
                put_member(out, name, value, put_value);
            }
        }
        if let Some(user) = &standard.user_id {
            put_member(out, "user_id", user.as_slice(), put_bytes);
        }
        let ids = members[..2].iter().filter_map(|(name, value)| match written(value.as_ref()?) {
            Written::As(of) => Some((*name, of)),
            Written::Implied | Written::Inexact => None,
        });
        let user = standard.user_id.iter().map(|user| ("user_id", name_of_bytes(user)));
        put_named(out, names::TYPES, ids.chain(user), put_text);
    }
}

fn put_body_base64(out: &mut Vec<u8>, body: &[u8]) {
    put_member(out, BODY, body, put_base64);
    put_member(out, "body_encoding", "base64", put_text);
}

impl Body<'_> {
    fn of(value: Value) -> Self {
        match value {
            Value::Binary(bytes) => Self::Bytes(bytes.into()),
            Value::String(text) => Self::Bytes(text.into_bytes().into()),
            other => Self::Value(other),
        }
    }
}

/// Appends headers as a list of their names and values, in base64.
pub fn put_headers(out: &mut Vec<u8>, headers: &[kafka::record::Header<'_>]) {
    out.push(b'[');
    for (place, (name, value)) in headers.iter().enumerate() {
        out.extend_from_slice(if place == 0 { b"[" } else { b",[" });
        put_base64(out, name);
        out.push(b',');
        match value {
            Some(value) => put_base64(out, value),
            None => out.extend_from_slice(b"null"),
        }
        out.push(b']');
    }
    out.push(b']');
}

/// Whether two entries have the same name.
fn has_equal_names(entries: &[(String, Value)]) -> bool {
    let mut names: Vec<_> = entries.iter().map(|(name, _)| name).collect();
    names.sort_unstable();
    names.windows(2).any(|pair| pair[0] == pair[1])
}

/// Appends an object of members, as the member `name` of another; nothing if there are none.
fn put_named<'m, T: ?Sized + 'm, P>(
    out: &mut Vec<u8>,
    name: &str,
    members: impl Iterator<Item = (&'m str, &'m T)>,
    put: P,
) where
    P: Fn(&mut Vec<u8>, &T),
{
    let mut members = members.peekable();
    if members.peek().is_some() {
        begin(out, name);
        put_members(out, members, put);
    }
}

/// Appends an object.
pub fn put_members<'m, T: ?Sized + 'm>(
    out: &mut Vec<u8>,
    members: impl Iterator<Item = (&'m str, &'m T)>,
    put: impl Fn(&mut Vec<u8>, &T),
) {
    out.push(b'{');
    for (place, (name, value)) in members.enumerate() {
        if place > 0 {
            out.push(b',');
        }
        put_text(out, name);
        out.push(b':');
        put(out, value);
    }
    out.push(b'}');
}

fn put_member<T: ?Sized>(out: &mut Vec<u8>, name: &str, value: &T, put: impl Fn(&mut Vec<u8>, &T)) {
    begin(out, name);
    put(out, value);
}

/// Appends the name of a further member.
fn begin(out: &mut Vec<u8>, name: &str) {
    out.push(b',');
    put_text(out, name);
    out.push(b':');
}

/// Appends a text, in its quotes.
pub fn put_text(out: &mut Vec<u8>, text: &str) {
    out.push(b'"');
    let mut clean = 0;
    for (place, byte) in text.bytes().enumerate() {
        if byte >= b' ' && byte != b'"' && byte != b'\\' {
            continue;
        }
        out.extend_from_slice(&text.as_bytes()[clean..place]);
        clean = place + 1;
        match byte {
            b'"' | b'\\' => out.extend_from_slice(&[b'\\', byte]),
            b'\n' => out.extend_from_slice(b"\\n"),
            b'\r' => out.extend_from_slice(b"\\r"),
            b'\t' => out.extend_from_slice(b"\\t"),
            other => {
                let digit = |value: u8| b"0123456789abcdef"[usize::from(value & 15)];
                out.extend_from_slice(&[b'\\', b'u', b'0', b'0', digit(other >> 4), digit(other)]);
            }
        }
    }
    out.extend_from_slice(&text.as_bytes()[clean..]);
    out.push(b'"');
}

/// Appends an instant as RFC 3339 has it, with milliseconds; one that it can't have, before 1970 or after 9999, as the number of milliseconds
/// since 1970.
pub fn put_time(out: &mut Vec<u8>, unix_ms: i64) {
    if !(0..=LAST_MS).contains(&unix_ms) {
        return out.extend_from_slice(unix_ms.to_string().as_bytes());
    }
    let time = CivilTime::of_unix_ms(unix_ms);
    let mut text = *b"\"0000-00-00T00:00:00.000Z\"";
    let mut put = |place: usize, digits: usize, value: u16| {
        let mut value = value;
        for digit in (place..place + digits).rev() {
            text[digit] = b'0' + (value % 10) as u8;
            value /= 10;
        }
    };
    put(1, 4, time.year);
    put(6, 2, time.month.into());
    put(9, 2, time.day.into());
    put(12, 2, time.hour.into());
    put(15, 2, time.minute.into());
    put(18, 2, time.second.into());
    put(21, 3, time.millisecond);
    out.extend_from_slice(&text);
}

const BODY: &str = "body";

/// The last millisecond of the year 9999.
const LAST_MS: i64 = 253_402_300_799_999;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_text_may_not_hold_is_escaped() {
        let mut out = Vec::new();
        put_text(&mut out, "a\"b\\c\n\r\t\u{1}\u{1f}\u{e9}");
        assert_eq!(String::from_utf8(out).unwrap(), "\"a\\\"b\\\\c\\n\\r\\t\\u0001\\u001f\u{e9}\"");
    }
}
