//! An event or a message as JSON: in short for a row of a list, or everything for a person who has chosen it.
//!
//! Numbers that JavaScript would round are texts, and so is everything that JSON has no type for; beside it stands its type.

use std::time::Duration;

use amqp::codec::{Reader, Value};
use amqp::message::{MessageView, SectionKind, Sections};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use rest::target::uuid_text;
use serde_json::{Map, Value as Json, json};

/// The sections of a message, and the annotations that stand beside them.
#[derive(Clone, Copy, Debug)]
pub(super) struct Message<'a> {
    pub(super) sections: &'a [u8],
    pub(super) annotations: &'a [u8],
    pub(super) annotation_count: u32,
}

/// What a message says.
enum Content<'a> {
    /// The bytes of a Data section, and whether more of them follow.
    Data(&'a [u8], bool),
    /// A value, or a list of a sequence.
    Value(&'static str, Value),
    /// Nothing.
    None,
    /// What can't be read.
    Unreadable(&'a [u8]),
}

impl<'a> Message<'a> {
    /// The partition key, or the key of a Kafka record.
    pub(super) fn key(&self) -> Option<String> {
        let mut reader = Reader::new(self.annotations);
        for _ in 0..self.annotation_count {
            let name = reader.text().ok()?;
            match name {
                Some("x-opt-partition-key" | "x-opt-kafka-key") => {
                    return Some(text_of(&reader.value().ok()?));
                }
                _ => reader.skip().ok()?,
            }
        }
        None
    }

    /// The value of an application property as text.
    pub(super) fn property(&self, name: &str) -> Option<String> {
        let view = MessageView::parse(self.sections).ok()?;
        view.application_properties().ok()?.find(name).ok()?.map(|value| text_of(&value))
    }

    /// The message id as text.
    pub(super) fn id(&self) -> Option<String> {
        let view = MessageView::parse(self.sections).ok()?;
        view.properties().ok()??.message_id.as_ref().map(text_of)
    }

    /// Whether the body has this text, whatever the letter case of ASCII letters in it. `lower` is in lower case.
    pub(super) fn has_text(&self, lower: &[u8]) -> bool {
        Sections::new(self.sections).map_while(Result::ok).any(|section| {
            let body = match section.kind {
                SectionKind::Data => section.data().unwrap_or_default(),
                SectionKind::Value | SectionKind::Sequence => section.value,
                _ => return false,
            };
            contains(body, lower)
        })
    }

    /// What a row of a list shows.
    pub(super) fn row(&self) -> Map<String, Json> {
        let mut row = Map::new();
        let mut put = |name: &str, text: Option<String>| {
            if let Some(text) = text {
                row.insert(name.to_owned(), shortened(text, CELL_CHARACTERS).into());
            }
        };
        put("key", self.key());
        let view = MessageView::parse(self.sections).ok();
        let standard = view.as_ref().and_then(|view| view.properties().ok()?);
        if let Some(standard) = standard {
            put("id", standard.message_id.as_ref().map(text_of));
            put("subject", standard.subject);
            put("session", standard.group_id);
        }
        let (text, bytes) = match self.content() {
            Content::Data(body, _) => (preview(body), self.sections.len()),
            Content::Value(_, value) => (shortened(text_of(&value), ROW_CHARACTERS), self.sections.len()),
            Content::None => (String::new(), self.sections.len()),
            Content::Unreadable(all) => (preview(all), all.len()),
        };
        row.insert("text".to_owned(), text.into());
        row.insert("bytes".to_owned(), bytes.into());
        row
    }

    /// Everything that there is to say of it.
    pub(super) fn details(&self) -> Map<String, Json> {
        let mut details = Map::new();
        let view = MessageView::parse(self.sections).ok();
        details.insert("bytes".to_owned(), self.sections.len().into());
        details.insert("annotations".to_owned(), self.annotation_list(view.as_ref()));
        details.insert("properties".to_owned(), standard_list(view.as_ref()));
        details.insert("application_properties".to_owned(), application_list(view.as_ref()));
        if let Some(Ok(Some(header))) = view.as_ref().map(MessageView::header)
            && let Some(time_to_live_ms) = header.time_to_live_ms
        {
            details.insert("header_time_to_live_ms".to_owned(), time_to_live_ms.into());
        }
        details.insert("body".to_owned(), self.body());
        details
    }

    fn content(&self) -> Content<'a> {
        let mut content = Content::None;
        for section in Sections::new(self.sections) {
            let Ok(section) = section else {
                return Content::Unreadable(self.sections);
            };
            let value = || Reader::new(section.value).value().ok();
            content = match (section.kind, content) {
                (SectionKind::Data, Content::Data(body, _)) => Content::Data(body, true),
                (SectionKind::Data, Content::None) => match section.data() {
                    Ok(body) => Content::Data(body, false),
                    Err(_) => return Content::Unreadable(self.sections),
                },
                (SectionKind::Value, Content::None) => match value() {
                    Some(value) => Content::Value("value", value),
                    None => return Content::Unreadable(self.sections),
                },
                (SectionKind::Sequence, Content::None) => match value() {
                    Some(value) => Content::Value("sequence", value),
                    None => return Content::Unreadable(self.sections),
                },
                (_, content) => content,
            };
        }
        content
    }

    fn body(&self) -> Json {
        match self.content() {
            Content::None => json!({"kind": "none"}),
            Content::Value(kind, value) => {
                let text = serde_json::to_string_pretty(&json_of(&value)).unwrap_or_default();
                let truncated = text.len() > BODY_BYTES;
                json!({"kind": kind, "type": type_of(&value), "text": shortened(text, BODY_BYTES), "truncated": truncated})
            }
            Content::Unreadable(all) => bytes_json("unreadable", all),
            Content::Data(first, false) => bytes_json("data", first),
            Content::Data(..) => {
                let sections = Sections::new(self.sections).map_while(Result::ok);
                let bodies = sections.filter(|section| section.kind == SectionKind::Data);
                let whole: Vec<u8> =
                    bodies.flat_map(|section| section.data().unwrap_or_default()).copied().collect();
                bytes_json("data", &whole)
            }
        }
    }

    fn annotation_list(&self, view: Option<&MessageView<'_>>) -> Json {
        let mut list = Vec::new();
        let mut reader = Reader::new(self.annotations);
        for _ in 0..self.annotation_count {
            let (Ok(name), Ok(value)) = (reader.value(), reader.value()) else { break };
            list.push(entry(&text_of(&name), &value));
        }
        let stored = view.and_then(|view| view.message_annotations().ok()?.entries().ok());
        list.extend(stored.into_iter().flatten().map(|(name, value)| entry(name.as_str(), &value)));
        list.into()
    }
}

/// A time to live, as a person reads it.
pub(super) fn milliseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

/// The text of a value.
pub(super) fn text_of(value: &Value) -> String {
    match json_of(value) {
        Json::String(text) => text,
        json => json.to_string(),
    }
}

/// A value of JSON as one of AMQP; `None` for what properties can't have.
pub(super) fn value_of(json: &Json) -> Option<Value> {
    Some(match json {
        Json::Null => Value::Null,
        Json::Bool(value) => Value::Boolean(*value),
        Json::String(text) => Value::String(text.clone()),
        Json::Number(number) => match (number.as_i64(), number.as_u64()) {
            (Some(number), _) => Value::Long(number),
            (None, Some(number)) => Value::Ulong(number),
            (None, None) => Value::Double(number.as_f64()?),
        },
        Json::Array(_) | Json::Object(_) => return None,
    })
}

/// A name, the type of its value, and the value.
pub(super) fn entry(name: &str, value: &Value) -> Json {
    json!([name, type_of(value), json_of(value)])
}

fn standard_list(view: Option<&MessageView<'_>>) -> Json {
    let Some(standard) = view.and_then(|view| view.properties().ok()?) else {
        return Json::Array(Vec::new());
    };
    let text = |text: Option<String>| text.map(Value::String);
    let symbol = |symbol: Option<amqp::codec::Symbol>| symbol.map(Value::Symbol);
    let fields = [
        ("message-id", standard.message_id),
        ("user-id", standard.user_id.map(Value::Binary)),
        ("to", text(standard.to)),
        ("subject", text(standard.subject)),
        ("reply-to", text(standard.reply_to)),
        ("correlation-id", standard.correlation_id),
        ("content-type", symbol(standard.content_type)),
        ("content-encoding", symbol(standard.content_encoding)),
        ("absolute-expiry-time", standard.absolute_expiry_time.map(Value::Timestamp)),
        ("creation-time", standard.creation_time.map(Value::Timestamp)),
        ("group-id", text(standard.group_id)),
        ("group-sequence", standard.group_sequence.map(Value::Uint)),
        ("reply-to-group-id", text(standard.reply_to_group_id)),
    ];
    fields.into_iter().filter_map(|(name, value)| Some(entry(name, &value?))).collect()
}

fn application_list(view: Option<&MessageView<'_>>) -> Json {
    let entries = view.and_then(|view| view.application_properties().ok()?.entries().ok());
    entries.into_iter().flatten().map(|(name, value)| entry(name.as_str(), &value)).collect()
}

fn json_of(value: &Value) -> Json {
    match value {
        Value::Null => Json::Null,
        Value::Boolean(is) => json!(is),
        Value::Float(number) if number.is_finite() => json!(number),
        Value::Double(number) if number.is_finite() => json!(number),
        Value::Float(number) => json!(number.to_string()),
        Value::Double(number) => json!(number.to_string()),
        Value::Ulong(number) if *number > EXACT_MAX => json!(number.to_string()),
        Value::Ulong(number) => json!(number),
        Value::Long(number) if number.unsigned_abs() > EXACT_MAX => json!(number.to_string()),
        Value::String(text) => json!(text),
        Value::Symbol(symbol) => json!(symbol.as_str()),
        Value::Uuid(bytes) => json!(uuid_text(*bytes)),
        Value::Char(code) => json!(char::from_u32(*code).map_or_else(|| code.to_string(), String::from)),
        Value::Binary(bytes) => match str::from_utf8(bytes) {
            Ok(text) => json!(text),
            Err(_) => json!(STANDARD.encode(bytes)),
        },
        Value::List(values) | Value::Array(values) => values.iter().map(json_of).collect(),
        Value::Map(entries) => {
            entries.iter().map(|(key, value)| (text_of(key), json_of(value))).collect::<Map<_, _>>().into()
        }
        Value::Described(described) => json!([json_of(&described.0), json_of(&described.1)]),
        other => match other.as_integer() {
            Some(number) => json!(number),
            None => json!(format!("{other:?}")),
        },
    }
}

const fn type_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Boolean(_) => "boolean",
        Value::Ubyte(_) => "ubyte",
        Value::Ushort(_) => "ushort",
        Value::Uint(_) => "uint",
        Value::Ulong(_) => "ulong",
        Value::Byte(_) => "byte",
        Value::Short(_) => "short",
        Value::Int(_) => "int",
        Value::Long(_) => "long",
        Value::Float(_) => "float",
        Value::Double(_) => "double",
        Value::Decimal32(_) => "decimal32",
        Value::Decimal64(_) => "decimal64",
        Value::Decimal128(_) => "decimal128",
        Value::Char(_) => "char",
        Value::Timestamp(_) => "timestamp",
        Value::Uuid(_) => "uuid",
        Value::Binary(_) => "binary",
        Value::String(_) => "string",
        Value::Symbol(_) => "symbol",
        Value::List(_) => "list",
        Value::Map(_) => "map",
        Value::Array(_) => "array",
        Value::Described(_) => "described",
    }
}

/// Bytes as they are, whatever they are; text too, where they are that.
fn bytes_json(kind: &str, bytes: &[u8]) -> Json {
    let truncated = bytes.len() > BODY_BYTES;
    let mut shown = &bytes[..bytes.len().min(BODY_BYTES)];
    let mut body = json!({"kind": kind, "bytes": bytes.len(), "truncated": truncated});
    let text = match str::from_utf8(shown) {
        Ok(text) => Some(text),
        // What is cut off may end within a character.
        Err(error) if truncated && error.error_len().is_none() => {
            shown = &shown[..error.valid_up_to()];
            str::from_utf8(shown).ok()
        }
        Err(_) => None,
    };
    match text {
        Some(text) => body["text"] = text.into(),
        None => body["base64"] = STANDARD.encode(shown).into(),
    }
    body
}

/// The beginning of a body on one line.
fn preview(body: &[u8]) -> String {
    let start = &body[..body.len().min(ROW_CHARACTERS * 2)];
    let text = match str::from_utf8(start) {
        Ok(text) => text,
        Err(error) if error.valid_up_to() > 0 && error.error_len().is_none() => {
            str::from_utf8(&start[..error.valid_up_to()]).unwrap_or_default()
        }
        Err(_) => {
            let digits = start.iter().take(ROW_CHARACTERS / 3).map(|byte| format!("{byte:02x}"));
            return digits.collect::<Vec<_>>().join(" ");
        }
    };
    text.chars().map(|it| if it.is_control() { ' ' } else { it }).take(ROW_CHARACTERS).collect()
}

fn shortened(text: String, characters: usize) -> String {
    match text.char_indices().nth(characters) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text,
    }
}

fn contains(body: &[u8], lower: &[u8]) -> bool {
    let Some(first) = lower.first() else {
        return true;
    };
    let starts =
        |start: &[u8]| start.len() >= lower.len() && start[..lower.len()].eq_ignore_ascii_case(lower);
    (0..body.len()).any(|at| body[at].to_ascii_lowercase() == *first && starts(&body[at..]))
}

/// Of a body, in a row.
const ROW_CHARACTERS: usize = 160;

/// Of another text, in a row.
const CELL_CHARACTERS: usize = 80;

/// The most of a body that is shown to a person.
const BODY_BYTES: usize = 256 * 1024;

/// The largest integer up to which JavaScript has all.
const EXACT_MAX: u64 = (1 << 53) - 1;

#[cfg(test)]
mod tests {
    use super::*;
    use amqp::codec::Symbol;
    use amqp::message::{Properties, encode};

    fn message(sections: &[u8]) -> Message<'_> {
        Message { sections, annotations: &[], annotation_count: 0 }
    }

    #[test]
    fn every_kind_of_body_is_shown_as_what_it_is() {
        let data = |bytes: &[u8]| {
            let mut sections = Vec::new();
            encode::data(&mut sections, bytes);
            message(&sections).details()["body"].clone()
        };
        assert_eq!(data(b"{}"), json!({"kind": "data", "bytes": 2, "truncated": false, "text": "{}"}));
        assert_eq!(data(b"\xff"), json!({"kind": "data", "bytes": 1, "truncated": false, "base64": "/w=="}));
        let long = data("é".repeat(BODY_BYTES).as_bytes());
        assert_eq!((&long["truncated"], &long["bytes"]), (&json!(true), &json!(2 * BODY_BYTES)));
        let mut sections = Vec::new();
        encode::value(&mut sections, &Value::List(vec![Value::Long(i64::MAX), Value::Null]));
        let body = message(&sections).details()["body"].clone();
        assert_eq!(body["text"], json!("[\n  \"9223372036854775807\",\n  null\n]"));
        assert_eq!(message(b"\x00\x53").details()["body"]["kind"], json!("unreadable"));
        assert_eq!(message(b"").details()["body"], json!({"kind": "none"}));
        let mut sections = Vec::new();
        encode::data(&mut sections, b"a");
        encode::data(&mut sections, b"b");
        assert_eq!(message(&sections).details()["body"]["text"], json!("ab"));
    }

    #[test]
    fn rows_are_short_and_on_one_line() {
        let mut sections = Vec::new();
        let properties = Properties {
            message_id: Some("m".repeat(500).as_str().into()),
            content_type: Some(Symbol::from_static("text/plain")),
            ..Properties::default()
        };
        properties.encode(&mut sections);
        encode::data(&mut sections, "line\nline ".repeat(100).as_bytes());
        let row = message(&sections).row();
        assert!(row["text"].as_str().unwrap().starts_with("line line"));
        assert_eq!(row["text"].as_str().unwrap().chars().count(), ROW_CHARACTERS);
        assert_eq!(row["id"].as_str().unwrap().chars().count(), CELL_CHARACTERS + 1);
        let mut binary = Vec::new();
        encode::data(&mut binary, &[0xff, 0x00]);
        assert_eq!(message(&binary).row()["text"], json!("ff 00"));
    }

    #[test]
    fn texts_are_found_whatever_their_letter_case() {
        let mut sections = Vec::new();
        encode::data(&mut sections, b"An ERROR here");
        assert!(message(&sections).has_text(b"error"));
        assert!(message(&sections).has_text(b""));
        assert!(!message(&sections).has_text(b"errors"));
    }
}
