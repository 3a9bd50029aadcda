//! The correlation filter: properties that have to have certain values, all of them.
//!
//! Comparison is by type and value and respects letter case. Integers of all widths count as one type, and so do floats,
//! since clients in different languages send one number with different widths. Identifiers are texts in a filter; a
//! message's identifier that is a number, a UUID or bytes is compared by its text.

use amqp::codec::{Value, write};
use serde::{Deserialize, Serialize};
use std::borrow::Cow;

use super::message::MessageProperties;
use super::property_list;
use super::written_time::without_text;

/// Which properties have to have which values; those that are `None` may have any.
#[derive(Clone, Debug, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct CorrelationFilter {
    /// The correlation identifier.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub correlation_id: Option<String>,
    /// The message identifier.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message_id: Option<String>,
    /// Where the message is to go.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub to: Option<String>,
    /// Where answers go.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reply_to: Option<String>,
    /// The label, which newer clients call subject; files may say either.
    #[serde(alias = "subject", skip_serializing_if = "Option::is_none")]
    pub label: Option<String>,
    /// The session.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub session_id: Option<String>,
    /// The session that answers belong to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reply_to_session_id: Option<String>,
    /// The type of the body.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub content_type: Option<String>,
    /// Application properties by name.
    #[serde(with = "property_list", skip_serializing_if = "Vec::is_empty")]
    pub properties: Vec<(String, Value)>,
}

impl CorrelationFilter {
    /// Whether it demands nothing, so that every message matches.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// How many bytes everything is that is demanded.
    pub(super) fn length(&self) -> usize {
        let texts = [
            &self.correlation_id,
            &self.message_id,
            &self.to,
            &self.reply_to,
            &self.label,
            &self.session_id,
            &self.reply_to_session_id,
            &self.content_type,
        ];
        let texts = texts.iter().map(|text| text.as_ref().map_or(0, String::len));
        let mut properties = Vec::new();
        for (name, value) in &self.properties {
            write::string(&mut properties, name);
            write::value(&mut properties, value);
        }
        texts.sum::<usize>() + properties.len()
    }

    /// Whether a message has all that is demanded.
    #[must_use]
    pub fn matches(&self, message: &MessageProperties) -> bool {
        let standard = &message.standard;
        let is_id = |wanted: &Option<String>, found: &Option<Value>| {
            wanted
                .as_ref()
                .is_none_or(|wanted| found.as_ref().is_some_and(|found| text_of_id(found) == wanted.as_str()))
        };
        let is_text =
            |wanted: &Option<String>, found: Option<&str>| wanted.is_none() || wanted.as_deref() == found;
        is_id(&self.correlation_id, &standard.correlation_id)
            && is_id(&self.message_id, &standard.message_id)
            && is_text(&self.to, standard.to.as_deref())
            && is_text(&self.reply_to, standard.reply_to.as_deref())
            && is_text(&self.label, standard.subject.as_deref())
            && is_text(&self.session_id, standard.group_id.as_deref())
            && is_text(&self.reply_to_session_id, standard.reply_to_group_id.as_deref())
            && is_text(&self.content_type, standard.content_type.as_ref().map(|text| text.as_str()))
            && self
                .properties
                .iter()
                .all(|(name, wanted)| message.find(name).is_some_and(|found| is_same_value(found, wanted)))
    }
}

/// A message's identifier as a text, which it is for nearly all clients.
pub(super) fn text_of_id(id: &Value) -> Cow<'_, str> {
    match id {
        Value::String(text) => Cow::Borrowed(text),
        Value::Symbol(symbol) => Cow::Borrowed(symbol.as_str()),
        Value::Ulong(number) => Cow::Owned(number.to_string()),
        Value::Uuid(bytes) => Cow::Owned(text_of_uuid(*bytes)),
        Value::Binary(bytes) => String::from_utf8_lossy(bytes),
        _ => Cow::Borrowed(""),
    }
}

fn text_of_uuid(bytes: [u8; 16]) -> String {
    let mut text = String::with_capacity(36);
    for (index, byte) in bytes.into_iter().enumerate() {
        if matches!(index, 4 | 6 | 8 | 10) {
            text.push('-');
        }
        for digit in [byte >> 4, byte & 15] {
            text.push(char::from_digit(digit.into(), 16).expect("a digit is below 16"));
        }
    }
    text
}

fn is_same_value(one: &Value, other: &Value) -> bool {
    match (Simple::of(one), Simple::of(other)) {
        (Some(one), Some(other)) => one == other,
        (None, None) => without_text(one) == without_text(other),
        _ => false,
    }
}

/// A value without the width that it has on the wire.
#[derive(PartialEq)]
enum Simple<'a> {
    Text(&'a str),
    Integer(i128),
    Double(f64),
}

impl<'a> Simple<'a> {
    fn of(value: &'a Value) -> Option<Self> {
        Some(match *value {
            Value::Ulong(number) => Self::Integer(number.into()),
            Value::Float(number) => Self::Double(number.into()),
            Value::Double(number) => Self::Double(number),
            // A time is an integer to this function, and no integer here.
            Value::Timestamp(_) => return None,
            _ => match value.as_integer() {
                Some(number) => Self::Integer(number.into()),
                None => Self::Text(value.as_text()?),
            },
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::application::ApplicationProperties;
    use super::*;
    use amqp::message::Properties;

    fn message() -> MessageProperties {
        MessageProperties {
            standard: Properties {
                correlation_id: Some("high".into()),
                subject: Some("red".into()),
                reply_to: Some("johndoe@contoso.com".into()),
                ..Properties::default()
            },
            application: ApplicationProperties::of(vec![
                ("color".into(), "Red".into()),
                ("size".into(), Value::Int(10)),
            ]),
            ..MessageProperties::default()
        }
    }

    #[test]
    fn a_filter_with_nothing_matches_everything() {
        assert!(CorrelationFilter::default().matches(&MessageProperties::default()));
    }

    #[test]
    fn all_that_is_given_has_to_be_equal() {
        let both = CorrelationFilter {
            label: Some("red".into()),
            correlation_id: Some("high".into()),
            ..CorrelationFilter::default()
        };
        assert!(both.matches(&message()));
        let one_wrong = CorrelationFilter { correlation_id: Some("low".into()), ..both.clone() };
        assert!(!one_wrong.matches(&message()));
        let one_absent = CorrelationFilter { session_id: Some("s".into()), ..both };
        assert!(!one_absent.matches(&message()));
    }

    #[test]
    fn letter_case_of_values_counts_and_of_names_does_not() {
        let filter = |name: &str, value: Value| CorrelationFilter {
            properties: vec![(name.to_owned(), value)],
            ..CorrelationFilter::default()
        };
        assert!(filter("Color", "Red".into()).matches(&message()));
        assert!(!filter("color", "red".into()).matches(&message()));
        assert!(filter("size", Value::Int(10)).matches(&message()));
        assert!(!filter("size", Value::Int(11)).matches(&message()));
        assert!(!filter("size", "10".into()).matches(&message()));
        assert!(!filter("shape", Value::Null).matches(&message()));
    }

    #[test]
    fn numbers_are_compared_whatever_their_width() {
        assert!(is_same_value(&Value::Int(10), &Value::Long(10)));
        assert!(is_same_value(&Value::Ubyte(10), &Value::Ulong(10)));
        assert!(is_same_value(&Value::Float(0.5), &Value::Double(0.5)));
        assert!(!is_same_value(&Value::Int(1), &Value::Double(1.0)));
        assert!(!is_same_value(&Value::Long(1), &Value::Timestamp(1)));
        assert!(!is_same_value(&Value::Long(1), &Value::Boolean(true)));
        assert!(is_same_value(&Value::Timestamp(1), &Value::Timestamp(1)));
    }

    #[test]
    fn a_filter_reads_back_from_what_it_is_written_as() {
        let uuid = Value::Uuid([7; 16]);
        let filter = CorrelationFilter {
            label: Some("red".into()),
            properties: vec![
                ("color".into(), "Red".into()),
                ("size".into(), Value::Long(-10)),
                ("weight".into(), Value::Double(0.5)),
                ("urgent".into(), Value::Boolean(true)),
                ("key".into(), uuid),
                ("narrow".into(), Value::Int(7)),
                ("odd".into(), Value::Double(f64::INFINITY)),
                ("many digits".into(), Value::Double(0.1 + 0.2)),
                ("far".into(), Value::Double(1e300)),
            ],
            ..CorrelationFilter::default()
        };
        let text = serde_json::to_string(&filter).unwrap();
        assert!(text.starts_with(
            r#"{"label":"red","properties":{"color":"Red","size":-10,"weight":0.5,"urgent":true,"key":{"amqp":"98"#
        ));
        assert_eq!(serde_json::from_str::<CorrelationFilter>(&text).unwrap(), filter);
        let subject = serde_json::from_str::<CorrelationFilter>(r#"{"subject": " red "}"#).unwrap();
        assert_eq!(subject.label.as_deref(), Some(" red "));
        let refused = |text| serde_json::from_str::<CorrelationFilter>(text).unwrap_err();
        assert!(refused(r#"{"theme": "red"}"#).to_string().contains("theme"));
        assert!(refused(r#"{"subject": "red", "label": "red"}"#).to_string().contains("duplicate"));
        let list = refused(r#"{"properties": {"a": [1]}}"#).to_string();
        assert!(list.contains("a string, a number or a boolean"), "{list}");
    }

    #[test]
    fn identifiers_that_are_no_texts_are_compared_by_their_texts() {
        let matches = |id: Value, text: &str| {
            let filter =
                CorrelationFilter { message_id: Some(text.to_owned()), ..CorrelationFilter::default() };
            filter.matches(&MessageProperties {
                standard: Properties { message_id: Some(id), ..Properties::default() },
                ..MessageProperties::default()
            })
        };
        let uuid =
            [0x00, 0x11, 0x22, 0x33, 0x44, 0x55, 0x66, 0x77, 0x88, 0x99, 0xaa, 0xbb, 0xcc, 0xdd, 0xee, 0xff];
        assert!(matches(Value::Uuid(uuid), "00112233-4455-6677-8899-aabbccddeeff"));
        assert!(matches(Value::Ulong(7), "7"));
        assert!(matches(Value::Binary(b"seven".to_vec()), "seven"));
        assert!(!matches(Value::Ulong(7), "8"));
    }
}
