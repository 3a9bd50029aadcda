//! What an event is in a line of the input.

use std::borrow::Cow;
use std::fmt;

use convert::text::{self, Extra};

use clap::{Args, ValueEnum};
use connect::producer::{NewEvent, PropertyValue};
use serde::Deserializer as _;
use serde::de::{self, IgnoredAny, MapAccess, Visitor};
use serde_json::Value;

/// How the input is divided into events.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Format {
    /// Each line is a JSON value, which is the body as it stands there; blank lines are left out
    Json,
    /// Each line is an event as `parshall tail` and `peek` print it, or as archives of JSON and files of dead letters have it; blank lines
    /// are left out
    Events,
    /// Each line is a body, whatever it is
    Lines,
    /// All of the input is one body
    Raw,
}

/// What events have besides their body.
#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = "Events")]
pub(super) struct Fields {
    /// The field of a line that is the partition key
    ///
    /// Example: --key-field customer
    #[arg(long, value_name = "NAME", conflicts_with = "key")]
    key_field: Option<String>,

    /// The field of a line that is the message id
    #[arg(long, value_name = "NAME")]
    id_field: Option<String>,

    /// The field of a line that is the session id, for queues with sessions
    #[arg(long, value_name = "NAME")]
    session_field: Option<String>,

    /// A field of a line that is a property of the event as well. May be repeated
    ///
    /// Example: --property-field region --property-field priority
    #[arg(long = "property-field", value_name = "NAME")]
    property_fields: Vec<String>,

    /// The partition key of all events
    #[arg(long, value_name = "TEXT")]
    key: Option<String>,

    /// A property of all events. May be repeated
    ///
    /// Example: --property source=import
    #[arg(long = "property", value_name = "NAME=TEXT", value_parser = property)]
    properties: Vec<(String, String)>,

    /// The partition of all events, of a hub or a topic of Kafka
    #[arg(long, value_name = "N", conflicts_with_all = ["key", "key_field"])]
    partition: Option<u32>,

    /// The content type of all events
    ///
    /// Example: --content-type application/json
    #[arg(long, value_name = "TEXT")]
    content_type: Option<String>,
}

/// Why a line is no event.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum BadLine {
    /// It is not what the format says.
    #[error("{0}")]
    Json(String),
    /// A field has a value that it can't have.
    #[error("the field `{0}` has to be text or a number")]
    Field(String),
    /// It is not what `tail` prints.
    #[error(transparent)]
    Event(#[from] text::BadLine),
}

/// Reads lines as one format.
#[derive(Debug)]
pub(super) struct RecordReader {
    format: Format,
    fields: Fields,
}

impl Fields {
    /// Whether a field of the line is asked for.
    fn are_read(&self) -> bool {
        self.key_field.is_some()
            || self.id_field.is_some()
            || self.session_field.is_some()
            || !self.property_fields.is_empty()
    }
}

impl RecordReader {
    pub(super) const fn new(format: Format, fields: Fields) -> Self {
        Self { format, fields }
    }

    pub(super) fn is_whole(&self) -> bool {
        self.format == Format::Raw
    }

    /// Calls `send` with the event of a line, unless the line is left out. What it returns is given back.
    ///
    /// # Errors
    /// When the line is no event.
    pub(super) fn read<T>(
        &self,
        line: &[u8],
        send: impl FnOnce(&NewEvent<'_>) -> T,
    ) -> Result<Option<T>, BadLine> {
        let line = match self.format {
            Format::Raw => line,
            Format::Json | Format::Events | Format::Lines => line.strip_suffix(b"\r").unwrap_or(line),
        };
        match self.format {
            Format::Raw => Ok(Some(self.send_constant(line, send))),
            Format::Lines if !self.fields.are_read() => Ok(Some(self.send_constant(line, send))),
            Format::Json | Format::Events if line.iter().all(u8::is_ascii_whitespace) => Ok(None),
            Format::Json if !self.fields.are_read() => {
                serde_json::from_slice::<IgnoredAny>(line).map_err(|error| bad(&error))?;
                Ok(Some(self.send_constant(line, send)))
            }
            Format::Json | Format::Lines => self.send_with_fields(line, send).map(Some),
            Format::Events => self.send_printed(line, send).map(Some),
        }
    }

    fn send_constant<T>(&self, body: &[u8], send: impl FnOnce(&NewEvent<'_>) -> T) -> T {
        let properties: Vec<_> = self.constant_properties().collect();
        send(&NewEvent { body, properties: &properties, ..self.constant() })
    }

    fn constant(&self) -> NewEvent<'_> {
        NewEvent {
            key: self.fields.key.as_deref(),
            partition: self.fields.partition,
            content_type: self.fields.content_type.as_deref(),
            ..NewEvent::default()
        }
    }

    fn constant_properties(&self) -> impl Iterator<Item = (&str, PropertyValue<'_>)> {
        let properties = self.fields.properties.iter();
        properties.map(|(name, value)| (name.as_str(), PropertyValue::Text(value)))
    }

    /// The body is the whole line, and some of its fields say more.
    fn send_with_fields<T>(&self, line: &[u8], send: impl FnOnce(&NewEvent<'_>) -> T) -> Result<T, BadLine> {
        let Fields { key_field, id_field, session_field, property_fields, .. } = &self.fields;
        let names = [key_field, id_field, session_field].into_iter().flatten().chain(property_fields);
        let names: Vec<&str> = names.map(String::as_str).collect();
        let found = find(line, &names)?;
        let value = |name: &str| found.iter().find(|(known, _)| *known == name).map(|(_, value)| value);
        let text = |name: &Option<String>| {
            let Some(name) = name else { return Ok(None) };
            value(name).map_or(Ok(None), |value| text_of(name, value))
        };
        let (key, id, session) = (text(key_field)?, text(id_field)?, text(session_field)?);
        let mut properties: Vec<_> = self.constant_properties().collect();
        for name in property_fields {
            if let Some(value) = value(name).and_then(|value| property_of(name, value).transpose()) {
                properties.push((name, value?));
            }
        }
        Ok(send(&NewEvent {
            body: line,
            key: key.as_deref().or(self.fields.key.as_deref()),
            message_id: id.as_deref(),
            session: session.as_deref(),
            properties: &properties,
            ..self.constant()
        }))
    }

    /// The line is what `tail` prints.
    fn send_printed<T>(&self, line: &[u8], send: impl FnOnce(&NewEvent<'_>) -> T) -> Result<T, BadLine> {
        let constant = self.constant();
        let extra = Extra { content_type: constant.content_type, properties: &self.fields.properties };
        let read = text::read(line, extra)?;
        let key = constant.key.or(read.key.as_deref()).filter(|_| constant.partition.is_none());
        Ok(send(&NewEvent { key, encoded: Some(&read), ..constant }))
    }
}

/// The values of these members of a JSON object.
fn find<'n>(line: &[u8], names: &[&'n str]) -> Result<Vec<(&'n str, Value)>, BadLine> {
    let mut deserializer = serde_json::Deserializer::from_slice(line);
    let found = deserializer.deserialize_map(Members { names }).map_err(|error| bad(&error))?;
    deserializer.end().map_err(|error| bad(&error))?;
    Ok(found)
}

/// Reads the members that are wanted, and passes over the others.
struct Members<'a, 'n> {
    names: &'a [&'n str],
}

impl<'de, 'n> Visitor<'de> for Members<'_, 'n> {
    type Value = Vec<(&'n str, Value)>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut found = Vec::new();
        while let Some(wanted) = map.next_key_seed(OneOf(self.names))? {
            match wanted {
                Some(name) => found.push((name, map.next_value()?)),
                None => drop(map.next_value::<IgnoredAny>()?),
            }
        }
        Ok(found)
    }
}

/// Which of the names a member has, if it has one of them. Nothing is allocated for those that have not.
struct OneOf<'a, 'n>(&'a [&'n str]);

impl<'de, 'n> de::DeserializeSeed<'de> for OneOf<'_, 'n> {
    type Value = Option<&'n str>;

    fn deserialize<D: de::Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_str(self)
    }
}

impl<'n> Visitor<'_> for OneOf<'_, 'n> {
    type Value = Option<&'n str>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a name")
    }

    fn visit_str<E: de::Error>(self, name: &str) -> Result<Self::Value, E> {
        Ok(self.0.iter().find(|wanted| **wanted == name).copied())
    }
}

fn bad(error: &serde_json::Error) -> BadLine {
    // There is but one line, and its number is another one.
    let text = error.to_string();
    let text = text.split(" at line ").next().unwrap_or_default();
    BadLine::Json(match error.column() {
        0 => text.to_owned(),
        column => format!("{text} at column {column}"),
    })
}

fn text_of<'v>(name: &str, value: &'v Value) -> Result<Option<Cow<'v, str>>, BadLine> {
    match value {
        Value::Null => Ok(None),
        Value::String(text) => Ok(Some(Cow::Borrowed(text))),
        Value::Number(number) => Ok(Some(Cow::Owned(number.to_string()))),
        Value::Bool(is) => Ok(Some(Cow::Borrowed(if *is { "true" } else { "false" }))),
        Value::Array(_) | Value::Object(_) => Err(BadLine::Field(name.to_owned())),
    }
}

fn property_of<'v>(name: &str, value: &'v Value) -> Result<Option<PropertyValue<'v>>, BadLine> {
    Ok(Some(match value {
        Value::Null => return Ok(None),
        Value::String(text) => PropertyValue::Text(text),
        Value::Bool(is) => PropertyValue::Boolean(*is),
        Value::Number(number) => match number.as_i64() {
            Some(number) => PropertyValue::Integer(number),
            None => PropertyValue::Float(number.as_f64().unwrap_or_default()),
        },
        Value::Array(_) | Value::Object(_) => return Err(BadLine::Field(name.to_owned())),
    }))
}

fn property(text: &str) -> Result<(String, String), String> {
    let (name, value) = text.split_once('=').ok_or("it is not NAME=TEXT")?;
    Ok((name.to_owned(), value.to_owned()))
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Program {
        #[command(flatten)]
        fields: Fields,
    }

    /// What an event of a line is, as text.
    fn read(format: Format, arguments: &[&str], line: &str) -> Result<Option<String>, BadLine> {
        let typed = ["parshall"].iter().chain(arguments);
        let reader = RecordReader::new(format, Program::parse_from(typed).fields);
        reader.read(line.as_bytes(), |event| {
            let NewEvent { body, key, message_id, session, properties, content_type, .. } = event;
            let named = [("key", key), ("id", message_id), ("session", session), ("type", content_type)];
            let mut text = String::from_utf8(body.to_vec()).unwrap();
            for (name, value) in named {
                text.extend(value.map(|value| format!(" {name}={value}")));
            }
            for (name, value) in *properties {
                text += &format!(" {name}:{value:?}");
            }
            text
        })
    }

    #[test]
    fn a_line_of_json_is_the_body_and_its_fields_say_more() {
        let line = r#"{"id":7,"customer":"a\"b","deep":{"id":1},"region":"eu","vip":true,"none":null}"#;
        let ignored = read(Format::Json, &[], line).unwrap().unwrap();
        assert_eq!(ignored, line, "to the byte");
        let arguments = [
            "--key-field=customer",
            "--id-field=id",
            "--session-field=none",
            "--property-field=region",
            "--property-field=vip",
            "--property-field=missing",
            "--property=source=import",
        ];
        let event = read(Format::Json, &arguments, line).unwrap().unwrap();
        let expected = r#" key=a"b id=7 source:Text("import") region:Text("eu") vip:Boolean(true)"#;
        assert_eq!(event.strip_prefix(line), Some(expected));
    }

    #[test]
    fn what_tail_prints_is_sent_as_it_was() {
        let line = r#"{"partition":1,"key":"k","body":{"a": 1.10},"properties":{"n":0.5},"message_id":"m"}"#;
        let reader =
            RecordReader::new(Format::Events, Program::parse_from(["parshall", "--partition=2"]).fields);
        let sent = reader.read(line.as_bytes(), |event| {
            let encoded = event.encoded.unwrap();
            (event.key.map(str::to_owned), event.partition, encoded.sections.ends_with(br#"{"a": 1.10}"#))
        });
        assert_eq!(sent, Ok(Some((None, Some(2), true))), "a partition takes the place of the key");
        assert_eq!(read(Format::Events, &[], "{}"), Err(BadLine::Event(text::BadLine::NoBody)));
    }

    #[test]
    fn a_line_that_is_no_event_says_why() {
        for (format, arguments, line, reason) in [
            (Format::Json, &[][..], "{\"a\":}", "expected value at column 6"),
            (Format::Json, &[], "{} {}", "trailing characters at column 4"),
            (
                Format::Json,
                &["--key-field=a"],
                "[1]",
                "invalid type: sequence, expected an object at column 0",
            ),
            (Format::Json, &["--key-field=a"], r#"{"a":[]}"#, "the field `a` has to be text or a number"),
        ] {
            let error = read(format, arguments, line).unwrap_err().to_string();
            assert!(error.starts_with(reason.trim_end_matches(" at column 0")), "{error}");
        }
    }

    #[test]
    fn blank_lines_are_events_only_where_lines_are_anything() {
        assert_eq!(read(Format::Json, &[], "  ").unwrap(), None);
        assert_eq!(read(Format::Lines, &[], "").unwrap().as_deref(), Some(""));
        assert_eq!(read(Format::Lines, &[], "not json\r").unwrap().as_deref(), Some("not json"));
        assert_eq!(read(Format::Raw, &[], "two\nlines\r").unwrap().as_deref(), Some("two\nlines\r"));
    }
}
