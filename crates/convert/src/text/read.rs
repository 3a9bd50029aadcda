//! Reading events from lines.

use amqp::codec::{Reader, Symbol, Value, write};
use amqp::message::{Header, MessageView, Properties, SectionKind, Sections, encode};
use amqp::performative::descriptor;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use kafka::record::Record;
use kafka::record_tail::RecordTail;

use super::members::{Members, NoObject, find, members};
use super::types::{read_time, read_value};
use super::{SCHEDULED_TIME, names};
use crate::annotations::{self, OwnAnnotations};
use crate::message_head;

/// An event that was read from a line.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReadEvent {
    /// The partition key.
    pub key: Option<String>,
    /// The encoded header section; empty if there is none.
    pub header: Vec<u8>,
    /// Number of annotations, without the partition key.
    pub annotation_count: u32,
    /// Encoded names and values of the annotations.
    pub annotations: Vec<u8>,
    /// All sections behind the annotations.
    pub sections: Vec<u8>,
}

/// Values that apply to every event.
#[derive(Clone, Copy, Debug, Default)]
pub struct Extra<'a> {
    /// The content type, in the place of the line's.
    pub content_type: Option<&'a str>,
    /// Application properties, in front of the line's.
    pub properties: &'a [(String, String)],
}

/// Error reading a line.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadLine {
    /// The line is not JSON.
    #[error("{0}")]
    Json(String),
    /// The line is not an object.
    #[error("it is no object")]
    NoObject,
    /// A field has a value that it can't have.
    #[error("the field `{0}` has to be text or a number")]
    Field(String),
    /// A value is not of its type.
    #[error("the property `{name}` is not {}", of.as_deref().unwrap_or("text, a number, true, false or null"))]
    Value {
        /// The name of the property.
        name: String,
        /// The type, if it is named.
        of: Option<String>,
    },
    /// The body is missing.
    #[error("there is no field `body`")]
    NoBody,
    /// A field is not base64.
    #[error("the field `{field}` is not base64: {reason}")]
    Base64 {
        /// Its name.
        field: &'static str,
        /// What is wrong.
        reason: String,
    },
    /// The bytes of a field are not of the expected format.
    #[error("the field `{field}` is not {expected}")]
    Content {
        /// Its name.
        field: &'static str,
        /// What it should be.
        expected: &'static str,
    },
    /// The line is a dead letter of unreadable records.
    #[error("it is a dead letter of records that can't be read, which can't be sent")]
    Unreadable,
}

/// Reads a line that `tail` or `peek` has printed, or that is in an archive or a file of dead letters.
///
/// # Errors
/// The line is not an event.
pub fn read(line: &[u8], extra: Extra<'_>) -> Result<ReadEvent, BadLine> {
    let text = str::from_utf8(line).map_err(|error| BadLine::Json(error.to_string()))?;
    let members = members(text).map_err(|error| match error {
        NoObject::Json(error) => json(&error),
        NoObject::Other => BadLine::NoObject,
    })?;
    let line = Line { members: &members };
    match line.find("condition").and_then(|_| line.find("message")) {
        Some(message) => line.dead_letter(message, extra),
        None => line.event(extra),
    }
}

/// Converts a JSON error. The line number is omitted, because the text is a single line.
#[must_use]
pub(super) fn json(error: &serde_json::Error) -> BadLine {
    let text = error.to_string();
    let text = text.split(" at line ").next().unwrap_or_default();
    BadLine::Json(match error.column() {
        0 => text.to_owned(),
        column => format!("{text} at column {column}"),
    })
}

#[derive(Clone, Copy)]
struct Line<'a> {
    members: &'a Members<'a>,
}

impl<'a> Line<'a> {
    fn find(self, name: &str) -> Option<&'a str> {
        find(self.members, name)
    }

    fn event(self, extra: Extra<'_>) -> Result<ReadEvent, BadLine> {
        let mut read = ReadEvent { key: self.key()?, header: self.header()?, ..ReadEvent::default() };
        let own = self.own_annotations()?;
        read.annotation_count = own.put(&mut read.annotations);
        if let Some(time) = self.find(names::SCHEDULED).filter(|json| *json != "null") {
            let time = read_time(time).ok_or_else(|| BadLine::Field(names::SCHEDULED.to_owned()))?;
            write::symbol(&mut read.annotations, SCHEDULED_TIME);
            write::timestamp(&mut read.annotations, time);
            read.annotation_count += 1;
        }
        if let Some(sections) = self.base64(names::AMQP)? {
            read.take(&sections, names::AMQP, extra)?;
            return Ok(read);
        }
        let body = match self.body()? {
            Some(body) => body,
            None if own.is_tombstone => Vec::new(),
            None => return Err(BadLine::NoBody),
        };
        let system = self.object(names::SYSTEM)?;
        let standard = Line { members: system.as_ref().unwrap_or(self.members) }.standard()?;
        put_parts(&mut read.sections, standard, self.properties()?, extra);
        encode::data(&mut read.sections, &body);
        Ok(read)
    }

    /// Reads the event of a dead-letter file, whose sections are in `message`.
    fn dead_letter(self, message: &str, extra: Extra<'_>) -> Result<ReadEvent, BadLine> {
        const FIELD: &str = "message";
        if self.find("records").is_some() {
            return Err(BadLine::Unreadable);
        }
        let mut read = ReadEvent { key: self.key()?, ..ReadEvent::default() };
        let message = decoded(FIELD, message)?;
        if self.text("encoding")?.as_deref() == Some("kafka") {
            let RecordTail { key, value, headers } = RecordTail::read(&message)
                .map_err(|_| BadLine::Content { field: FIELD, expected: "a record of Kafka" })?;
            let record = Record { timestamp_delta: 0, offset_delta: 0, key, value, headers };
            read.key = None;
            read.annotation_count = annotations::put(&mut read.annotations, &record);
            message_head(&mut read.sections, &record);
            read.sections.extend_from_slice(value.unwrap_or_default());
            return Ok(read);
        }
        read.take(&message, FIELD, extra)?;
        Ok(read)
    }

    fn key(self) -> Result<Option<String>, BadLine> {
        Ok(self.text("key")?.or(self.text("partition_key")?))
    }

    /// Returns a text, number or boolean as text.
    fn text(self, name: &str) -> Result<Option<String>, BadLine> {
        self.find(name).map_or(Ok(None), |json| text_of(name, json))
    }

    fn base64(self, name: &'static str) -> Result<Option<Vec<u8>>, BadLine> {
        self.find(name).map(|json| decoded(name, json)).transpose()
    }

    /// Returns the members of a member that is an object.
    fn object(self, name: &str) -> Result<Option<Members<'a>>, BadLine> {
        match self.find(name) {
            None | Some("null") => Ok(None),
            Some(json) => members(json).map(Some).map_err(|_| BadLine::Field(name.to_owned())),
        }
    }

    fn body(self) -> Result<Option<Vec<u8>>, BadLine> {
        if let Some(body) = self.base64("body_base64")? {
            return Ok(Some(body));
        }
        let Some(body) = self.find("body") else { return Ok(None) };
        if self.text("body_encoding")?.as_deref() == Some("base64") {
            return decoded("body", body).map(Some);
        }
        Ok(Some(match body.starts_with('"') {
            true => unquoted("body", body)?.into_bytes(),
            false => body.as_bytes().to_vec(),
        }))
    }

    fn header(self) -> Result<Vec<u8>, BadLine> {
        let number = |name: &str| -> Result<Option<u32>, BadLine> {
            let value = self.text(name)?.map(|text| text.parse());
            value.transpose().map_err(|_| BadLine::Field(name.to_owned()))
        };
        let durable = self.text("durable")?.map(|text| text == "true");
        let priority = number("priority")?.map(|priority| u8::try_from(priority).unwrap_or(u8::MAX));
        let time_to_live_ms = number("time_to_live_ms")?;
        if durable.is_none() && priority.is_none() && time_to_live_ms.is_none() {
            return Ok(Vec::new());
        }
        let header =
            Header { durable, priority, time_to_live_ms, first_acquirer: None, delivery_count: None };
        Ok(header.encode().as_slice().to_vec())
    }

    /// Reads the record parts.
    fn own_annotations(self) -> Result<OwnAnnotations, BadLine> {
        let key = match self.base64(names::KAFKA_KEY_BASE64)? {
            Some(key) => Some(key),
            None => self.text(names::KAFKA_KEY)?.map(String::into_bytes),
        };
        let is_tombstone = self.find(names::TOMBSTONE) == Some("true");
        let mut headers = Vec::new();
        if let Some(json) = self.find(names::KAFKA_HEADERS) {
            let wrong =
                || BadLine::Content { field: names::KAFKA_HEADERS, expected: "a list of names and values" };
            let pairs: Vec<(String, Option<String>)> = serde_json::from_str(json).map_err(|_| wrong())?;
            for (name, value) in pairs {
                let bytes = |text: String| STANDARD.decode(text).map_err(|_| wrong());
                headers.push((bytes(name)?, value.map(bytes).transpose()?));
            }
        }
        Ok(OwnAnnotations { key, is_tombstone, headers })
    }

    fn standard(self) -> Result<Properties, BadLine> {
        let types = self.object(names::TYPES)?.unwrap_or_default();
        let id = |name: &str| -> Result<Option<Value>, BadLine> {
            match find(&types, name) {
                None => Ok(self.text(name)?.map(Value::String)),
                Some(of) => self.find(name).map(|json| typed(name, json, Some(of))).transpose(),
            }
        };
        let symbol = |name| Ok(self.text(name)?.map(|text| Symbol::from(text.as_str())));
        let time = |name: &str| -> Result<Option<i64>, BadLine> {
            let json = self.find(name).filter(|json| *json != "null");
            json.map(|json| read_time(json).ok_or_else(|| BadLine::Field(name.to_owned()))).transpose()
        };
        // Archives of earlier versions have it in base64, whatever it is.
        let user = match id("user_id")? {
            Some(Value::Binary(user)) => Some(user),
            Some(Value::String(user)) => Some(STANDARD.decode(&user).unwrap_or_else(|_| user.into_bytes())),
            _ => None,
        };
        // What older clients call it.
        let subject = self.text("subject")?.or(self.text("label")?);
        let sequence = self.text("session_sequence")?.map(|text| text.parse());
        Ok(Properties {
            message_id: id("message_id")?,
            user_id: user,
            to: self.text("to")?,
            subject,
            reply_to: self.text("reply_to")?,
            correlation_id: id("correlation_id")?,
            content_type: symbol("content_type")?,
            content_encoding: symbol("content_encoding")?,
            absolute_expiry_time: time("absolute_expiry_time")?,
            creation_time: time("creation_time")?,
            group_id: self.text("session_id")?,
            group_sequence: sequence
                .transpose()
                .map_err(|_| BadLine::Field("session_sequence".to_owned()))?,
            reply_to_group_id: self.text("reply_to_session_id")?,
        })
    }

    fn properties(self) -> Result<Vec<(String, Value)>, BadLine> {
        let types = self.object(names::PROPERTY_TYPES)?.unwrap_or_default();
        let properties = self.object(names::PROPERTIES)?.unwrap_or_default();
        let types: std::collections::HashMap<&str, &str> =
            types.iter().map(|(name, of)| (name.as_str(), *of)).collect();
        let value = |(name, json): (String, &str)| {
            let value = typed(&name, json, types.get(name.as_str()).copied())?;
            Ok((name, value))
        };
        properties.into_iter().map(value).collect()
    }
}

impl ReadEvent {
    /// Sets the event to encoded sections.
    fn take(&mut self, sections: &[u8], field: &'static str, extra: Extra<'_>) -> Result<(), BadLine> {
        let wrong = |_| BadLine::Content { field, expected: "a message of AMQP" };
        let mut content = Vec::new();
        for section in Sections::new(sections) {
            let section = section.map_err(wrong)?;
            // Brokers differ in what they take for properties.
            Reader::new(section.value).validate().map_err(wrong)?;
            match section.kind {
                SectionKind::MessageAnnotations => {
                    let map = Reader::new(section.value).map().map_err(wrong)?;
                    if let Some(map) = map {
                        self.annotation_count = self.annotation_count.saturating_add(map.remaining());
                        self.annotations.extend_from_slice(map.rest());
                    }
                }
                SectionKind::Header | SectionKind::DeliveryAnnotations => {}
                _ => content.extend_from_slice(section.encoded),
            }
        }
        if extra.content_type.is_none() && extra.properties.is_empty() {
            self.sections = content;
            return Ok(());
        }
        let view = MessageView::parse(&content).map_err(wrong)?;
        let standard = view.properties().map_err(wrong)?.unwrap_or_default();
        let entries = view.application_properties().and_then(|entries| entries.entries()).map_err(wrong)?;
        let entries = entries.into_iter().map(|(name, value)| (name.as_str().to_owned(), value)).collect();
        put_parts(&mut self.sections, standard, entries, extra);
        for section in Sections::new(&content).flatten() {
            if !matches!(section.kind, SectionKind::Properties | SectionKind::ApplicationProperties) {
                self.sections.extend_from_slice(section.encoded);
            }
        }
        Ok(())
    }
}

/// Appends the sections between annotations and body.
fn put_parts(
    out: &mut Vec<u8>,
    mut standard: Properties,
    application: Vec<(String, Value)>,
    extra: Extra<'_>,
) {
    if let Some(content_type) = extra.content_type {
        standard.content_type = Some(Symbol::from(content_type));
    }
    if standard != Properties::default() {
        standard.encode(out);
    }
    let is_own = |(name, _): &&(String, Value)| extra.properties.iter().all(|(known, _)| known != name);
    let own: Vec<_> = application.iter().filter(is_own).collect();
    let count = extra.properties.len() + own.len();
    if count == 0 {
        return;
    }
    write::descriptor(out, descriptor::APPLICATION_PROPERTIES);
    // More than fit into memory would be needed for a larger number.
    write::map(out, count as u32, |out| {
        for (name, value) in extra.properties {
            write::string(out, name);
            write::string(out, value);
        }
        for (name, value) in own {
            write::string(out, name);
            write::value(out, value);
        }
    });
}

fn typed(name: &str, json: &str, of: Option<&str>) -> Result<Value, BadLine> {
    let of = of.map(|of| unquoted(name, of)).transpose()?;
    read_value(json, of.as_deref()).ok_or_else(|| BadLine::Value { name: name.to_owned(), of })
}

fn text_of(name: &str, json: &str) -> Result<Option<String>, BadLine> {
    match json.as_bytes().first() {
        Some(b'n') => Ok(None),
        Some(b'"') => unquoted(name, json).map(Some),
        Some(b'{' | b'[') | None => Err(BadLine::Field(name.to_owned())),
        Some(_) => Ok(Some(json.to_owned())),
    }
}

/// Parses a JSON string.
fn unquoted(name: &str, json: &str) -> Result<String, BadLine> {
    serde_json::from_str(json).map_err(|_| BadLine::Field(name.to_owned()))
}

fn decoded(field: &'static str, json: &str) -> Result<Vec<u8>, BadLine> {
    let text = unquoted(field, json)?;
    STANDARD.decode(text).map_err(|error| BadLine::Base64 { field, reason: error.to_string() })
}

/// Encodes an event as one message, for round-trip tests.
#[cfg(test)]
pub(super) fn annotated(read: &ReadEvent) -> Vec<u8> {
    let mut out = read.header.clone();
    if read.annotation_count > 0 {
        annotations::section(&mut out, read.annotation_count, &read.annotations);
    }
    out.extend_from_slice(&read.sections);
    out
}
