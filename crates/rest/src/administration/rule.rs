//! What is said of a rule: its filter, its action and its name.

use std::fmt::Write as _;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use amqp::codec::Value;
use quick_xml::escape::escape;
use units::date::{iso_date, parse_iso_date, parse_iso_instant, xml_date_time};
use units::iso_duration;

use super::TYPES;
use super::atom::Description;
use super::document::Element;
use super::entity::InvalidValue;

/// What is said of a rule.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RuleDescription {
    /// Its name; not said where the path says it.
    pub name: Option<String>,
    /// Which messages it matches.
    pub filter: Option<FilterDescription>,
    /// What is done to a copy of each.
    pub action: Option<SqlDescription>,
    /// When it was made.
    pub created_at: Option<SystemTime>,
}

/// Which messages a rule matches.
#[derive(Clone, Debug, PartialEq)]
pub enum FilterDescription {
    /// All.
    True,
    /// None.
    False,
    /// Those for which a condition holds.
    Sql(SqlDescription),
    /// Those with certain properties.
    Correlation(CorrelationDescription),
}

/// A condition or an action.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SqlDescription {
    /// Its text.
    pub expression: String,
    /// What its parameters stand for, by their names with `@`.
    pub parameters: Vec<(String, Value)>,
}

/// Which properties have to have which values.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct CorrelationDescription {
    /// The properties of the message itself, by the names of their elements.
    pub system: Vec<(&'static str, String)>,
    /// Application properties.
    pub properties: Vec<(String, Value)>,
}

impl RuleDescription {
    /// The element that describes a rule.
    pub const ELEMENT: &'static str = "RuleDescription";

    /// Reads the element that describes a rule.
    ///
    /// # Errors
    /// A value is none, or the filter or the action is of another type than those that there are.
    pub fn read(element: &Element) -> Result<Self, InvalidValue> {
        let filter = element.child("Filter").map(FilterDescription::read).transpose()?;
        let action = element.child("Action").map_or(Ok(None), read_action)?;
        Ok(Self {
            name: element.text_of("Name").filter(|name| !name.is_empty()).map(str::to_owned),
            filter,
            action,
            created_at: element.text_of("CreatedAt").and_then(|text| parse_iso_instant(text.trim())),
        })
    }

    /// Writes it.
    #[must_use]
    pub fn written(&self) -> Description {
        let mut content = String::new();
        if let Some(filter) = &self.filter {
            filter.write(&mut content);
        }
        match &self.action {
            None => content.push_str(r#"<Action i:type="EmptyRuleAction"/>"#),
            Some(action) => {
                content.push_str(r#"<Action i:type="SqlRuleAction">"#);
                action.write(&mut content);
                content.push_str("</Action>");
            }
        }
        let mut description = Description::new(Self::ELEMENT);
        description.put_written(&content);
        description
            .with_some("CreatedAt", self.created_at.map(xml_date_time))
            .with_some("Name", self.name.as_ref())
    }
}

/// Reads an action; none of the empty type, and of an element without type and content.
fn read_action(action: &Element) -> Result<Option<SqlDescription>, InvalidValue> {
    match action.type_name.as_deref() {
        Some("SqlRuleAction") => {
            Ok(Some(SqlDescription::read(action)?).filter(|action| !action.expression.is_empty()))
        }
        Some("EmptyRuleAction") => Ok(None),
        None if action.children.is_empty() => Ok(None),
        other => Err(InvalidValue {
            element: "the type of Action".to_owned(),
            value: other.unwrap_or_default().to_owned(),
        }),
    }
}

impl FilterDescription {
    fn read(element: &Element) -> Result<Self, InvalidValue> {
        Ok(match element.type_name.as_deref().unwrap_or_default() {
            "TrueFilter" => Self::True,
            "FalseFilter" => Self::False,
            "SqlFilter" => Self::Sql(SqlDescription::read(element)?),
            "CorrelationFilter" => Self::Correlation(CorrelationDescription::read(element)?),
            other => {
                return Err(InvalidValue {
                    element: "the type of Filter".to_owned(),
                    value: other.to_owned(),
                });
            }
        })
    }

    fn write(&self, out: &mut String) {
        let sql = |out: &mut String, kind: &str, sql: &SqlDescription| {
            let _ = write!(out, r#"<Filter i:type="{kind}">"#);
            sql.write(out);
            out.push_str("</Filter>");
        };
        match self {
            // They have conditions as well, which clients look for.
            Self::True => sql(out, "TrueFilter", &SqlDescription::of("1=1")),
            Self::False => sql(out, "FalseFilter", &SqlDescription::of("1=0")),
            Self::Sql(filter) => sql(out, "SqlFilter", filter),
            Self::Correlation(filter) => filter.write(out),
        }
    }
}

impl SqlDescription {
    /// A text without parameters.
    #[must_use]
    pub fn of(expression: &str) -> Self {
        Self { expression: expression.to_owned(), parameters: Vec::new() }
    }

    fn read(element: &Element) -> Result<Self, InvalidValue> {
        Ok(Self {
            expression: element.text_of("SqlExpression").unwrap_or_default().to_owned(),
            parameters: element.child("Parameters").map_or(Ok(Vec::new()), read_values)?,
        })
    }

    fn write(&self, out: &mut String) {
        let expression = escape(&self.expression);
        let _ = write!(out, "<SqlExpression>{expression}</SqlExpression>");
        let _ = write!(out, "<CompatibilityLevel>{COMPATIBILITY_LEVEL}</CompatibilityLevel>");
        if !self.parameters.is_empty() {
            write_values(out, "Parameters", &self.parameters);
        }
    }
}

impl CorrelationDescription {
    fn read(element: &Element) -> Result<Self, InvalidValue> {
        let text = |name: &'static str| {
            let text = element.text_of(name).filter(|text| !text.is_empty())?;
            Some((name, text.to_owned()))
        };
        Ok(Self {
            system: CORRELATION.iter().copied().filter_map(text).collect(),
            properties: element.child("Properties").map_or(Ok(Vec::new()), read_values)?,
        })
    }

    fn write(&self, out: &mut String) {
        out.push_str(r#"<Filter i:type="CorrelationFilter">"#);
        for (name, value) in &self.system {
            let _ = write!(out, "<{name}>{}</{name}>", escape(value));
        }
        write_values(out, "Properties", &self.properties);
        out.push_str("</Filter>");
    }
}

fn read_values(element: &Element) -> Result<Vec<(String, Value)>, InvalidValue> {
    let mut values = Vec::new();
    for entry in element.children.iter().filter(|child| child.name == "KeyValueOfstringanyType") {
        let name = entry.child("Key").map(|key| key.text.clone()).unwrap_or_default();
        let invalid =
            |value: &str| InvalidValue { element: format!("the property '{name}'"), value: value.to_owned() };
        let value = entry.child("Value").ok_or_else(|| invalid(""))?;
        let read = value_of(value).ok_or_else(|| invalid(&value.text))?;
        values.push((name, read));
    }
    Ok(values)
}

/// A value by the type that it says it has; without one it is a text.
fn value_of(element: &Element) -> Option<Value> {
    let text = element.text.trim();
    Some(match element.type_name.as_deref().unwrap_or("string") {
        "string" => Value::String(element.text.clone()),
        "int" => Value::Int(text.parse().ok()?),
        "long" => Value::Long(text.parse().ok()?),
        "short" => Value::Short(text.parse().ok()?),
        "double" | "float" | "decimal" => Value::Double(text.parse().ok()?),
        "boolean" => match text {
            "true" | "True" | "1" => Value::Boolean(true),
            "false" | "False" | "0" => Value::Boolean(false),
            _ => return None,
        },
        "dateTime" => written_time(text)?,
        "duration" => {
            let ticks = iso_duration::parse(text)?.as_nanos() / 100;
            let ticks = Value::Long(i64::try_from(ticks).ok()?);
            Value::Described(Box::new((Value::Symbol(TIME_SPAN.into()), ticks)))
        }
        "guid" => Value::Uuid(crate::target::uuid(text)?),
        _ => return None,
    })
}

/// A time. What a timestamp can't say, that it is of no zone or has a part of a millisecond, is kept beside it, so that clients read
/// what they wrote.
fn written_time(text: &str) -> Option<Value> {
    let time_at = text.find('T')?;
    let zone_at = text[time_at..].find(['Z', 'z', '+', '-']).map(|place| time_at + place);
    let (local, zone) = text.split_at(zone_at.unwrap_or(text.len()));
    let minutes_east = match zone {
        "" | "Z" | "z" => 0,
        _ => {
            let (hours, minutes) = zone[1..].split_once(':')?;
            let minutes = i64::from(hours.parse::<u8>().ok()?) * 60 + i64::from(minutes.parse::<u8>().ok()?);
            if zone.starts_with('-') { -minutes } else { minutes }
        }
    };
    let since = parse_iso_date(&format!("{local}Z"))?.duration_since(UNIX_EPOCH).ok()?;
    let fraction = local.split_once('.').map_or("", |(_, digits)| digits.trim_end_matches('0'));
    let fraction = &fraction[..fraction.len().min(TICK_DIGITS)];
    let milliseconds: i64 = format!("{fraction:0<3}")[..3].parse().ok()?;
    let seconds = i64::try_from(since.as_secs()).ok()? - minutes_east * 60;
    let timestamp = Value::Timestamp(seconds * 1_000 + milliseconds);
    if !zone.is_empty() && fraction.len() <= 3 {
        return Some(timestamp);
    }
    let seconds = iso_date(UNIX_EPOCH + Duration::from_secs(u64::try_from(seconds).ok()?));
    let fraction = if fraction.is_empty() { String::new() } else { format!(".{fraction}") };
    let zone = if zone.is_empty() { "" } else { "Z" };
    let text = Value::String(format!("{}{fraction}{zone}", seconds.trim_end_matches('Z')));
    let both = Value::List(vec![timestamp, text]);
    Some(Value::Described(Box::new((Value::Symbol(WRITTEN_TIME.into()), both))))
}

/// The text of a timestamp.
fn time_text(milliseconds: i64) -> String {
    xml_date_time(UNIX_EPOCH + Duration::from_millis(u64::try_from(milliseconds).unwrap_or(0)))
}

fn write_values(out: &mut String, element: &str, values: &[(String, Value)]) {
    let _ = write!(out, "<{element}>");
    for (name, value) in values {
        let (kind, text) = value_text(value);
        let _ = write!(
            out,
            "<KeyValueOfstringanyType><Key>{}</Key>\
             <Value i:type=\"d6p1:{kind}\" xmlns:d6p1=\"{TYPES}\">{}</Value></KeyValueOfstringanyType>",
            escape(name),
            escape(&text)
        );
    }
    let _ = write!(out, "</{element}>");
}

/// The type of a value and its text. Types that clients have no name for are told by their texts.
fn value_text(value: &Value) -> (&'static str, String) {
    let text = |kind, text: &dyn ToString| (kind, text.to_string());
    match value {
        Value::Boolean(value) => text("boolean", value),
        Value::Byte(number) => text("int", number),
        Value::Ubyte(number) => text("int", number),
        Value::Short(number) => text("int", number),
        Value::Ushort(number) => text("int", number),
        Value::Int(number) => text("int", number),
        Value::Uint(number) => text("long", number),
        Value::Long(number) => text("long", number),
        Value::Ulong(number) => text("long", number),
        Value::Float(number) => text("double", number),
        Value::Double(number) => text("double", number),
        Value::Timestamp(milliseconds) => ("dateTime", time_text(*milliseconds)),
        Value::Uuid(bytes) => ("guid", crate::target::uuid_text(*bytes)),
        Value::Described(described) => match &**described {
            (Value::Symbol(kind), Value::Long(ticks)) if kind.as_str() == TIME_SPAN => {
                let ticks = u64::try_from(*ticks).unwrap_or(0);
                let span = Duration::from_secs(ticks / TICKS_PER_SECOND);
                let rest = (ticks % TICKS_PER_SECOND) as u32 * 100;
                ("duration", iso_duration::text(span + Duration::from_nanos(rest.into())))
            }
            (Value::Symbol(kind), Value::List(parts)) if kind.as_str() == WRITTEN_TIME => {
                let text = parts.get(1).and_then(Value::as_text).unwrap_or_default();
                ("dateTime", text.to_owned())
            }
            (_, inner) => ("string", inner.as_text().unwrap_or_default().to_owned()),
        },
        other => ("string", other.as_text().unwrap_or_default().to_owned()),
    }
}

/// What a correlation filter can ask for, in the order in which it is written.
pub const CORRELATION: [&str; 8] =
    ["CorrelationId", "MessageId", "To", "ReplyTo", "Label", "SessionId", "ReplyToSessionId", "ContentType"];

/// The version of the SQL that the service states.
const COMPATIBILITY_LEVEL: u32 = 20;

/// How clients of the service describe a length of time, in ticks of 100 nanoseconds.
const TIME_SPAN: &str = "com.microsoft:timespan";
const TICKS_PER_SECOND: u64 = 10_000_000;

/// How many digits the part of a second has that they say at most.
const TICK_DIGITS: usize = 7;

/// What describes a time as a client has written it: a list of a timestamp and a text.
const WRITTEN_TIME: &str = "parshall:written-time";

#[cfg(test)]
mod tests {
    use super::super::atom::{self, read_entry};
    use super::*;

    fn read(text: &str) -> Result<RuleDescription, InvalidValue> {
        RuleDescription::read(&read_entry(text).unwrap().unwrap().description)
    }

    fn values() -> Vec<(String, Value)> {
        let span = Value::Described(Box::new((Value::Symbol(TIME_SPAN.into()), Value::Long(36_005_000_000))));
        [
            ("text", Value::from("a <b>")),
            ("int", Value::Int(-1)),
            ("long", Value::Long(1 << 40)),
            ("double", Value::Double(0.5)),
            ("flag", Value::Boolean(true)),
            ("time", Value::Timestamp(1_700_000_000_000)),
            ("span", span),
        ]
        .map(|(name, value)| (name.to_owned(), value))
        .to_vec()
    }

    #[test]
    fn rules_of_every_kind_read_back_as_they_were_written() {
        let sql = SqlDescription { expression: "\ta < @b ".into(), parameters: values() };
        let correlation = CorrelationDescription {
            system: vec![("MessageId", "m".into()), ("Label", " & ".into())],
            properties: values(),
        };
        for filter in [
            FilterDescription::True,
            FilterDescription::False,
            FilterDescription::Sql(sql.clone()),
            FilterDescription::Correlation(correlation),
        ] {
            for action in [None, Some(SqlDescription::of("SET a = 1")), Some(sql.clone())] {
                let name = Some("rule".to_owned());
                let rule = RuleDescription { name, filter: Some(filter.clone()), action, created_at: None };
                assert_eq!(read(&atom::request(&rule.written())), Ok(rule));
            }
        }
    }

    #[test]
    fn times_read_back_as_clients_wrote_them_and_are_of_utc_without_a_zone() {
        for (text, milliseconds, told) in [
            ("1970-01-01T00:00:01", 1_000, "1970-01-01T00:00:01"),
            ("1970-01-01T00:00:01.2500", 1_250, "1970-01-01T00:00:01.25"),
            ("1970-01-01T00:00:01.1234567Z", 1_123, "1970-01-01T00:00:01.1234567Z"),
            ("1970-01-01T00:00:01.5Z", 1_500, "1970-01-01T00:00:01.5Z"),
            ("1970-01-01T00:00:01Z", 1_000, "1970-01-01T00:00:01Z"),
            ("1970-01-01T02:00:01+02:00", 1_000, "1970-01-01T00:00:01Z"),
            ("1970-01-01T00:00:00.00012345-00:30", 1_800_000, "1970-01-01T00:30:00.0001234Z"),
        ] {
            let value = written_time(text).unwrap();
            let timestamp = match &value {
                Value::Described(described) => {
                    let Value::List(parts) = &described.1 else { panic!("{value:?}") };
                    parts[0].clone()
                }
                other => other.clone(),
            };
            assert_eq!(timestamp, Value::Timestamp(milliseconds), "{text}");
            assert_eq!(value_text(&value), ("dateTime", told.to_owned()), "{text}");
        }
        for text in ["1970-01-01", "1970-01-01T00:00:00+2", "soonT+", "1970-01-01T00:00:00.1\u{e9}", "T"] {
            assert_eq!(written_time(text), None, "{text}");
        }
    }

    #[test]
    fn prefixes_are_the_clients_own() {
        let text = r#"<entry xmlns="http://www.w3.org/2005/Atom"><content>
            <ns0:RuleDescription xmlns:ns0="http://schemas.microsoft.com/netservices/2010/10/servicebus/connect"
              xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance">
            <ns0:Filter xsi:type="ns0:CorrelationFilter"><ns0:Properties>
            <ns1:KeyValueOfstringanyType xmlns:ns1="http://schemas.microsoft.com/2003/10/Serialization/Arrays">
            <ns1:Key>key</ns1:Key><ns1:Value xsi:type="l28:int" xmlns:l28="http://www.w3.org/2001/XMLSchema">7</ns1:Value>
            </ns1:KeyValueOfstringanyType></ns0:Properties></ns0:Filter><ns0:Name>n</ns0:Name></ns0:RuleDescription>
            </content></entry>"#;
        let rule = read(text).unwrap();
        let Some(FilterDescription::Correlation(filter)) = rule.filter else { panic!("{rule:?}") };
        assert_eq!(filter.properties, [("key".to_owned(), Value::Int(7))]);
    }

    #[test]
    fn a_value_that_is_none_of_its_type_is_named() {
        let value = |kind: &str, value: &str| {
            let text = format!(
                r#"<entry xmlns:i="http://www.w3.org/2001/XMLSchema-instance"><content><RuleDescription><Filter i:type="CorrelationFilter">
                <Properties><KeyValueOfstringanyType><Key>key</Key><Value i:type="{kind}">{value}</Value></KeyValueOfstringanyType>
                </Properties></Filter></RuleDescription></content></entry>"#
            );
            read(&text)
        };
        assert!(value("int", "5").is_ok());
        for (kind, text) in [("int", "five"), ("boolean", "perhaps"), ("dateTime", "now"), ("colour", "red")]
        {
            let invalid = value(kind, text).unwrap_err();
            assert_eq!(invalid.to_string(), format!("the value '{text}' of the property 'key' is not valid"));
        }
        for content in [
            "<Filter/>",
            r#"<Action i:type="Unheard"/>"#,
            "<Action><SqlExpression>SET a = 1</SqlExpression></Action>",
        ] {
            let text = format!(
                r#"<entry xmlns:i="http://www.w3.org/2001/XMLSchema-instance"><content><RuleDescription>{content}</RuleDescription></content></entry>"#
            );
            assert!(read(&text).is_err(), "{content}");
        }
        for content in ["<Action/>", r#"<Action i:type="EmptyRuleAction"/>"#] {
            let text = format!(
                r#"<entry xmlns:i="http://www.w3.org/2001/XMLSchema-instance"><content><RuleDescription>{content}</RuleDescription></content></entry>"#
            );
            assert_eq!(read(&text), Ok(RuleDescription::default()), "{content}");
        }
    }
}
