//! An event as a line of JSON, and whether it is one that is asked for.

use std::time::{Duration, UNIX_EPOCH};

use amqp::Value;
use amqp::message::MessageView;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use clap::{Args, ValueEnum};
use connect::event::EnqueuedTime;
use serde::de::IgnoredAny;
use serde_json::{Map, json};
use units::date::iso_date;

/// What is known of an event.
#[derive(Clone, Copy, Debug)]
pub(super) struct Shown<'a> {
    pub(super) partition: Option<u32>,
    pub(super) sequence_number: i64,
    pub(super) offset: Option<&'a str>,
    pub(super) enqueued_time: Option<EnqueuedTime>,
    pub(super) key: Option<&'a str>,
    /// Its encoded sections.
    pub(super) sections: &'a [u8],
}

/// How bodies are printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Body {
    /// JSON objects and lists as they are, other text as text, and anything else in base64
    Auto,
    /// As text; what is not UTF-8 is replaced
    Text,
    /// As the JSON that it is; what is not is text
    Json,
    /// In base64
    Base64,
    /// Not at all
    None,
}

/// Which events are asked for, and what of them.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Events")]
pub(super) struct Choice {
    /// Only events with this partition key
    #[arg(long, value_name = "TEXT")]
    key: Option<String>,

    /// Only events with this property; all of them, if repeated
    ///
    /// Example: --property region=eu
    #[arg(long = "property", value_name = "NAME=TEXT", value_parser = property)]
    properties: Vec<(String, String)>,

    /// How bodies are printed
    #[arg(long, value_enum, default_value_t = Body::Auto)]
    body: Body,
}

impl Choice {
    /// Appends the line of an event, if it is asked for.
    pub(super) fn print(&self, shown: &Shown<'_>, out: &mut Vec<u8>) -> bool {
        let view = MessageView::parse(shown.sections).ok();
        let annotation = |name: &str| {
            let found = view.as_ref()?.message_annotations().ok()?.find(name).ok()??;
            found.as_text().map(str::to_owned)
        };
        let key = shown.key.map(str::to_owned).or_else(|| annotation("x-opt-partition-key"));
        if self.key.is_some() && key != self.key {
            return false;
        }
        let properties = view.as_ref().and_then(|view| view.application_properties().ok()?.entries().ok());
        let properties: Map<String, serde_json::Value> = properties
            .unwrap_or_default()
            .into_iter()
            .map(|(name, value)| (name.as_str().to_owned(), json_of(&value)))
            .collect();
        let has = |(name, wanted): &(String, String)| match properties.get(name) {
            Some(serde_json::Value::String(text)) => text == wanted,
            Some(value) => {
                serde_json::from_str::<serde_json::Value>(wanted).is_ok_and(|wanted| wanted == *value)
            }
            None => false,
        };
        if !self.properties.iter().all(has) {
            return false;
        }
        let mut line = Line { out, is_first: true };
        line.value("partition", &shown.partition.map(|partition| json!(partition)));
        line.value("sequence_number", &Some(json!(shown.sequence_number)));
        line.text("offset", shown.offset);
        line.text("enqueued_at", shown.enqueued_time.map(instant).as_deref());
        line.text("key", key.as_deref());
        if let Some(standard) = view.as_ref().and_then(|view| view.properties().ok()?) {
            line.value("message_id", &standard.message_id.as_ref().map(json_of));
            line.value("correlation_id", &standard.correlation_id.as_ref().map(json_of));
            line.text("content_type", standard.content_type.as_ref().map(amqp::Symbol::as_str));
            line.text("subject", standard.subject.as_deref());
            line.text("session_id", standard.group_id.as_deref());
        }
        if !properties.is_empty() {
            line.value("properties", &Some(serde_json::Value::Object(properties)));
        }
        self.body.print(view.as_ref(), shown.sections, &mut line);
        line.end();
        true
    }
}

impl Body {
    fn print(self, view: Option<&MessageView<'_>>, sections: &[u8], line: &mut Line<'_>) {
        let value = view.and_then(|view| view.value().ok()?);
        let body = match view.and_then(|view| view.data().ok()?) {
            Some(body) => body,
            None => match &value {
                Some(Value::Binary(bytes)) => bytes.as_slice(),
                Some(Value::String(text)) => text.as_bytes(),
                Some(value) if self != Self::None => {
                    return line.value("body", &Some(json_of(value)));
                }
                // What can't be read is shown as it is.
                _ => {
                    if view.is_some() {
                        b""
                    } else {
                        sections
                    }
                }
            },
        };
        let is_json = || serde_json::from_slice::<IgnoredAny>(body).is_ok();
        let is_structured = || matches!(body.trim_ascii_start().first(), Some(b'{' | b'['));
        match self {
            Self::None => {}
            Self::Json if is_json() => line.raw("body", body),
            Self::Auto if is_structured() && is_json() => line.raw("body", body),
            Self::Auto => match str::from_utf8(body) {
                Ok(text) => line.text("body", Some(text)),
                Err(_) => line.base64(body),
            },
            Self::Json | Self::Text => line.text("body", Some(&String::from_utf8_lossy(body))),
            Self::Base64 => line.base64(body),
        }
    }
}

/// A JSON object that is being written.
struct Line<'a> {
    out: &'a mut Vec<u8>,
    is_first: bool,
}

impl Line<'_> {
    fn name(&mut self, name: &str) {
        self.out.extend_from_slice(if std::mem::take(&mut self.is_first) { b"{\"" } else { b",\"" });
        self.out.extend_from_slice(name.as_bytes());
        self.out.extend_from_slice(b"\":");
    }

    fn value(&mut self, name: &str, value: &Option<serde_json::Value>) {
        if let Some(value) = value {
            self.name(name);
            self.out.extend_from_slice(value.to_string().as_bytes());
        }
    }

    fn text(&mut self, name: &str, text: Option<&str>) {
        if let Some(text) = text {
            self.name(name);
            self.out.extend_from_slice(json!(text).to_string().as_bytes());
        }
    }

    /// JSON as it is, but on one line: a line break in JSON is never part of a text.
    fn raw(&mut self, name: &str, json: &[u8]) {
        self.name(name);
        self.out.extend(json.iter().map(|byte| if matches!(byte, b'\n' | b'\r') { b' ' } else { *byte }));
    }

    fn base64(&mut self, body: &[u8]) {
        self.text("body", Some(&STANDARD.encode(body)));
        self.text("body_encoding", Some("base64"));
    }

    fn end(self) {
        self.out.extend_from_slice(b"}\n");
    }
}

/// A value of AMQP as JSON; what JSON does not have, as text.
fn json_of(value: &Value) -> serde_json::Value {
    match value {
        Value::Null => serde_json::Value::Null,
        Value::Boolean(is) => json!(is),
        Value::Float(number) => json!(number),
        Value::Double(number) => json!(number),
        Value::Ulong(number) => json!(number),
        Value::String(text) => json!(text),
        Value::Symbol(symbol) => json!(symbol.as_str()),
        Value::Timestamp(unix_ms) => json!(instant(EnqueuedTime::from_unix_ms(*unix_ms))),
        Value::Uuid(bytes) => json!(uuid(bytes)),
        Value::Binary(bytes) => match str::from_utf8(bytes) {
            Ok(text) => json!(text),
            Err(_) => json!(STANDARD.encode(bytes)),
        },
        Value::List(values) | Value::Array(values) => values.iter().map(json_of).collect(),
        Value::Map(entries) => {
            let name = |key: &Value| key.as_text().map_or_else(|| json_of(key).to_string(), str::to_owned);
            entries.iter().map(|(key, value)| (name(key), json_of(value))).collect::<Map<_, _>>().into()
        }
        other => match other.as_integer() {
            Some(number) => json!(number),
            None => json!(format!("{other:?}")),
        },
    }
}

fn uuid(bytes: &[u8; 16]) -> String {
    let hex = |part: &[u8]| part.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    [&bytes[..4], &bytes[4..6], &bytes[6..8], &bytes[8..10], &bytes[10..]].map(hex).join("-")
}

/// An instant with its milliseconds.
fn instant(time: EnqueuedTime) -> String {
    let unix_ms = time.unix_ms();
    let Ok(since) = u64::try_from(unix_ms) else { return unix_ms.to_string() };
    let whole = iso_date(UNIX_EPOCH + Duration::from_secs(since / 1_000));
    format!("{}.{:03}Z", whole.trim_end_matches('Z'), since % 1_000)
}

fn property(text: &str) -> Result<(String, String), String> {
    let (name, value) = text.split_once('=').ok_or("it is not NAME=TEXT")?;
    Ok((name.to_owned(), value.to_owned()))
}

#[cfg(test)]
mod tests {
    use amqp::Symbol;
    use amqp::message::{Properties, encode};

    use super::*;

    fn choice(body: Body) -> Choice {
        Choice { key: None, properties: Vec::new(), body }
    }

    fn message(body: &[u8]) -> Vec<u8> {
        let mut message = Vec::new();
        let properties = Properties {
            message_id: Some(Value::Uuid([0xab; 16])),
            content_type: Some(Symbol::from_static("text/plain")),
            ..Properties::default()
        };
        properties.encode(&mut message);
        let application = [("region", Value::from("eu")), ("priority", Value::Long(3))];
        encode::application_properties(&mut message, &application);
        encode::data(&mut message, body);
        message
    }

    fn printed(choice: &Choice, sections: &[u8]) -> Option<String> {
        let shown = Shown {
            partition: Some(1),
            sequence_number: 7,
            offset: Some("7"),
            enqueued_time: Some(EnqueuedTime::from_unix_ms(1_700_000_000_123)),
            key: Some("k"),
            sections,
        };
        let mut out = Vec::new();
        choice.print(&shown, &mut out).then(|| String::from_utf8(out).unwrap())
    }

    #[test]
    fn a_line_has_all_that_is_known() {
        let line = printed(&choice(Body::Auto), &message(b"words")).unwrap();
        let expected = "{\"partition\":1,\"sequence_number\":7,\"offset\":\"7\",\
             \"enqueued_at\":\"2023-11-14T22:13:20.123Z\",\"key\":\"k\",\
             \"message_id\":\"abababab-abab-abab-abab-abababababab\",\"content_type\":\"text/plain\",\
             \"properties\":{\"priority\":3,\"region\":\"eu\"},\"body\":\"words\"}\n";
        assert_eq!(line, expected);
    }

    #[test]
    fn a_body_is_printed_as_what_it_is_or_as_it_is_asked_for() {
        for (body, content, expected) in [
            (Body::Auto, &b"{\"a\":\n[1]}"[..], r#""body":{"a": [1]}}"#),
            (Body::Auto, b"{no json", r#""body":"{no json"}"#),
            (Body::Auto, b"12", r#""body":"12"}"#),
            (Body::Auto, b"\xff", r#""body":"/w==","body_encoding":"base64"}"#),
            (Body::Json, b"12", r#""body":12}"#),
            (Body::Json, b"x", r#""body":"x"}"#),
            (Body::Text, b"{}", r#""body":"{}"}"#),
            (Body::Text, b"\xff", "\"body\":\"\u{fffd}\"}"),
            (Body::Base64, b"x", r#""body":"eA==","body_encoding":"base64"}"#),
            (Body::None, b"x", r#""region":"eu"}}"#),
        ] {
            let line = printed(&choice(body), &message(content)).unwrap();
            assert!(line.ends_with(&format!("{expected}\n")), "{body:?}: {line}");
            assert!(serde_json::from_str::<serde_json::Value>(&line).is_ok(), "{line}");
        }
        let mut value = Vec::new();
        encode::value(&mut value, &Value::List(vec![Value::Int(1), Value::Null]));
        assert!(printed(&choice(Body::Auto), &value).unwrap().contains(r#""body":[1,null]"#));
        assert!(printed(&choice(Body::Auto), b"nothing of AMQP").unwrap().contains("nothing of AMQP"));
    }

    #[test]
    fn only_what_is_asked_for_is_printed() {
        let of = |key: Option<&str>, properties: &[(&str, &str)]| {
            let properties =
                properties.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
            let choice = Choice { key: key.map(str::to_owned), properties, body: Body::None };
            printed(&choice, &message(b"")).is_some()
        };
        assert!(of(Some("k"), &[("region", "eu"), ("priority", "3")]));
        assert!(!of(Some("other"), &[]));
        assert!(!of(None, &[("region", "us")]));
        assert!(!of(None, &[("missing", "")]));
    }
}
