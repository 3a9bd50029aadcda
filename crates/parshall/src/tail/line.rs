//! An event as a line of JSON, and whether it is one that is asked for.

use std::borrow::Cow;

use amqp::Value;
use amqp::message::encode;
use clap::{Args, ValueEnum};
use connect::event::EnqueuedTime;
use convert::text::{BodyForm, Layout, MessageText, put_text, put_time, put_value};

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
    /// JSON objects and lists that stand on one line as they are, other text as text, and anything else in base64
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
        // What can't be read is shown as it is.
        let mut unreadable = Vec::new();
        let message = MessageText::read(shown.sections).unwrap_or_else(|_| {
            encode::data(&mut unreadable, shown.sections);
            MessageText::read(&unreadable).unwrap_or_default()
        });
        let key = shown.key.or_else(|| message.partition_key());
        let is_wanted = |(name, wanted): &(String, String)| {
            message.properties().any(|(known, value)| known == name && is_equal(value, wanted))
        };
        if self.key.as_deref().is_some_and(|wanted| key != Some(wanted))
            || !self.properties.iter().all(is_wanted)
        {
            return false;
        }
        if let Some(partition) = shown.partition {
            out.extend_from_slice(format!("{{\"partition\":{partition},").as_bytes());
        } else {
            out.push(b'{');
        }
        out.extend_from_slice(format!("\"sequence_number\":{}", shown.sequence_number).as_bytes());
        let mut member = |name: &str, put: &dyn Fn(&mut Vec<u8>)| {
            out.push(b',');
            put_text(out, name);
            out.push(b':');
            put(out);
        };
        if let Some(offset) = shown.offset {
            member("offset", &|out| put_text(out, offset));
        }
        if let Some(time) = shown.enqueued_time {
            member("enqueued_at", &|out| put_time(out, time.unix_ms()));
        }
        if let Some(key) = key {
            member("key", &|out| put_text(out, key));
        }
        message.put(Layout::Flat, out);
        message.put_body(self.body.form(), out);
        if matches!(self.body, Body::Auto | Body::Base64) {
            message.put_exact(out);
        }
        out.extend_from_slice(b"}\n");
        true
    }
}

impl Body {
    const fn form(self) -> BodyForm {
        match self {
            Self::Auto => BodyForm::Auto,
            Self::Text => BodyForm::Text,
            Self::Json => BodyForm::Json,
            Self::Base64 => BodyForm::Base64,
            Self::None => BodyForm::Nothing,
        }
    }
}

/// Whether a property has the value that was typed.
fn is_equal(value: &Value, wanted: &str) -> bool {
    let text = match value {
        Value::String(text) => Cow::Borrowed(text.as_str()),
        Value::Binary(bytes) => String::from_utf8_lossy(bytes),
        value => {
            let mut json = Vec::new();
            put_value(&mut json, value);
            String::from_utf8_lossy(json.trim_ascii_start()).trim_matches('"').to_owned().into()
        }
    };
    let as_number = || Some(text.parse::<f64>().ok()? == wanted.parse::<f64>().ok()?);
    text == wanted || !matches!(value, Value::String(_)) && as_number() == Some(true)
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
             \"types\":{\"message_id\":\"uuid\"},\"properties\":{\"region\":\"eu\",\"priority\":3},\"body\":\"words\"}\n";
        assert_eq!(line, expected);
    }

    #[test]
    fn a_body_is_printed_as_what_it_is_or_as_it_is_asked_for() {
        for (body, content, expected) in [
            (Body::Auto, &b"{\"a\": [1.10]}"[..], r#""body":{"a": [1.10]}}"#),
            // Line breaks could not be had again.
            (Body::Auto, b"{\"a\":\n[1]}", r#""body":"{\"a\":\n[1]}"}"#),
            (Body::Json, b"{\"a\":\n[1]}", r#""body":{"a": [1]}}"#),
            (Body::Auto, b"{no json", r#""body":"{no json"}"#),
            (Body::Auto, b"12", r#""body":"12"}"#),
            (Body::Auto, b"\xff", r#""body":"/w==","body_encoding":"base64"}"#),
            (Body::Json, b"12", r#""body":12}"#),
            (Body::Json, b"x", r#""body":"x"}"#),
            (Body::Text, b"{}", r#""body":"{}"}"#),
            (Body::Text, b"\xff", "\"body\":\"\u{fffd}\"}"),
            (Body::Base64, b"x", r#""body":"eA==","body_encoding":"base64"}"#),
            (Body::None, b"x", r#""priority":3}}"#),
        ] {
            let line = printed(&choice(body), &message(content)).unwrap();
            assert!(line.ends_with(&format!("{expected}\n")), "{body:?}: {line}");
            assert!(serde_json::from_str::<serde_json::Value>(&line).is_ok(), "{line}");
        }
        let mut value = Vec::new();
        encode::value(&mut value, &Value::List(vec![Value::Int(1), Value::Null]));
        let line = printed(&choice(Body::Auto), &value).unwrap();
        assert!(line.contains(r#""body":[1,null],"amqp":"AFN3"#), "{line}");
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
