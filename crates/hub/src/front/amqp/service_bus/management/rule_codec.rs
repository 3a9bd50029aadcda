//! Rules as requests describe them (maps with text keys) and as replies do (described lists).
//!
//! | described list | code | elements |
//! |---|---|---|
//! | rule | `0x137_0000_0004` | filter, action, name |
//! | no action | `0x137_0000_0005` | |
//! | SQL action | `0x137_0000_0006` | expression, 20 |
//! | SQL filter | `0x13_7000_0006` | expression, 20 |
//! | true, false filter | `0x13_7000_0007`, `…8` | |
//! | correlation filter | `0x13_7000_0009` | correlation id … content type, properties |
//!
//! The codes of filters have a digit fewer than those of rules and actions: that is no mistake of ours.

use amqp::Value;

use super::arguments::{Arguments, invalid, mistyped};
use crate::front::amqp::links::requests::Answer;
use queue_store::rules::{CorrelationFilter, Filter, Rule, SqlAction, SqlFilter, without_text};

/// The rule of this name that a request describes.
///
/// # Errors
/// What makes no sense in it.
pub(super) fn read(name: &str, description: &Value) -> Result<Rule, Answer> {
    if !matches!(description, Value::Map(_)) {
        return Err(mistyped("rule-description", "a map"));
    }
    let part = |name: &str| description.get(name).filter(|part| **part != Value::Null);
    let filter = if let Some(filter) = part("sql-filter") {
        let text = expression(filter, "sql-filter")?;
        Filter::Sql(SqlFilter::parse(text).map_err(|error| invalid(format!("{error}.")))?)
    } else if let Some(filter) = part("correlation-filter") {
        Filter::Correlation(correlation(filter)?)
    } else if part("false-filter").is_some() {
        Filter::False
    } else if part("true-filter").is_some() {
        Filter::True
    } else {
        return Err(invalid("'rule-description' has no filter."));
    };
    // An action without expression is none.
    let action = match part("sql-rule-action") {
        Some(action) => Some(expression(action, "sql-rule-action")?).filter(|text| !text.is_empty()),
        None => None,
    };
    let action = action.map(SqlAction::parse).transpose().map_err(|error| invalid(format!("{error}.")))?;
    Ok(Rule { name: name.to_owned(), filter, action, created_at_unix_ms: None })
}

/// A rule as a described list.
pub(super) fn describe(rule: &Rule) -> Value {
    let filter = match &rule.filter {
        Filter::True => described(TRUE_FILTER, Vec::new()),
        Filter::False => described(FALSE_FILTER, Vec::new()),
        Filter::Sql(filter) => described(SQL_FILTER, sql(filter.text())),
        Filter::Correlation(filter) => described(CORRELATION_FILTER, correlation_fields(filter)),
    };
    let action = match &rule.action {
        None => described(EMPTY_ACTION, Vec::new()),
        Some(action) => described(SQL_ACTION, sql(action.text())),
    };
    let name = Value::from(rule.name.as_str());
    described(RULE, vec![filter, action, name])
}

fn expression<'a>(part: &'a Value, name: &str) -> Result<&'a str, Answer> {
    match part.get("expression") {
        None | Some(Value::Null) => Ok(""),
        Some(text) => text.as_text().ok_or_else(|| mistyped(name, "a map with a string as 'expression'")),
    }
}

fn correlation(filter: &Value) -> Result<CorrelationFilter, Answer> {
    let fields = Arguments::new(filter.clone());
    let text = |name| Ok::<_, Answer>(fields.optional_text(name)?.map(str::to_owned));
    Ok(CorrelationFilter {
        correlation_id: text("correlation-id")?,
        message_id: text("message-id")?,
        to: text("to")?,
        reply_to: text("reply-to")?,
        label: text("label")?,
        session_id: text("session-id")?,
        reply_to_session_id: text("reply-to-session-id")?,
        content_type: text("content-type")?,
        properties: fields.properties("properties")?,
    })
}

fn correlation_fields(filter: &CorrelationFilter) -> Vec<Value> {
    let text = |text: &Option<String>| text.as_deref().map_or(Value::Null, Value::from);
    let properties = filter.properties.iter();
    let properties =
        properties.map(|(name, value)| (Value::from(name.as_str()), without_text(value).into_owned()));
    vec![
        text(&filter.correlation_id),
        text(&filter.message_id),
        text(&filter.to),
        text(&filter.reply_to),
        text(&filter.label),
        text(&filter.session_id),
        text(&filter.reply_to_session_id),
        text(&filter.content_type),
        Value::Map(properties.collect()),
    ]
}

fn sql(text: &str) -> Vec<Value> {
    vec![Value::from(text), Value::Int(COMPATIBILITY_LEVEL)]
}

fn described(code: u64, fields: Vec<Value>) -> Value {
    Value::Described(Box::new((Value::Ulong(code), Value::List(fields))))
}

const RULE: u64 = 0x0137_0000_0004;
const EMPTY_ACTION: u64 = 0x0137_0000_0005;
const SQL_ACTION: u64 = 0x0137_0000_0006;
const SQL_FILTER: u64 = 0x0013_7000_0006;
const TRUE_FILTER: u64 = 0x0013_7000_0007;
const FALSE_FILTER: u64 = 0x0013_7000_0008;
const CORRELATION_FILTER: u64 = 0x0013_7000_0009;

/// The version of the SQL that the service states.
const COMPATIBILITY_LEVEL: i32 = 20;

#[cfg(test)]
mod tests {
    use super::*;

    fn map(entries: &[(&str, Value)]) -> Value {
        let entries = entries.iter();
        Value::Map(entries.map(|(key, value)| (Value::from(*key), value.clone())).collect())
    }

    #[test]
    fn codes_are_those_that_clients_look_for() {
        assert_eq!(RULE, 1_335_734_829_060);
        assert_eq!(SQL_FILTER, 83_483_426_822);
        assert_eq!(CORRELATION_FILTER, 83_483_426_825);
    }

    #[test]
    fn rules_are_read_from_maps() {
        let description = map(&[
            ("sql-filter", map(&[("expression", "color = 'red'".into())])),
            ("sql-rule-action", map(&[("expression", "SET size = 1".into())])),
        ]);
        let rule = read("red", &description).unwrap();
        assert_eq!(rule.filter, Filter::Sql(SqlFilter::parse("color = 'red'").unwrap()));
        assert!(rule.action.is_some());
        let description = map(&[
            (
                "correlation-filter",
                map(&[
                    ("label", "urgent".into()),
                    ("to", Value::Null),
                    ("properties", map(&[("size", Value::Int(3))])),
                ]),
            ),
            ("sql-rule-action", Value::Null),
        ]);
        let rule = read("urgent", &description).unwrap();
        let Filter::Correlation(filter) = &rule.filter else { panic!("{rule:?}") };
        assert_eq!(filter.label.as_deref(), Some("urgent"));
        assert_eq!(filter.properties, [("size".to_owned(), Value::Int(3))]);
        let Value::Described(described) = describe(&rule) else { panic!("it is described") };
        assert_eq!(described.0, Value::Ulong(RULE));
    }

    #[test]
    fn descriptions_that_make_no_sense_are_refused() {
        for description in [
            Value::Null,
            map(&[]),
            map(&[("sql-filter", map(&[("expression", Value::Int(1))]))]),
            map(&[("sql-filter", map(&[("expression", "color =".into())]))]),
            map(&[("correlation-filter", map(&[("label", Value::Int(1))]))]),
        ] {
            assert_eq!(read("rule", &description).unwrap_err().status, 400, "{description:?}");
        }
    }
}
