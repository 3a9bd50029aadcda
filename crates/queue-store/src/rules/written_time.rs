//! Times as clients have written them in rules.
//!
//! A client that administers over HTTP may write a time without a zone, or with parts of a millisecond, and reads it back so. Such a
//! time is kept with its text, and is a timestamp to whoever compares it.

use amqp::codec::Value;
use std::borrow::Cow;

/// What describes such a time: a list of the timestamp, in UTC, and the text.
const WRITTEN_TIME: &str = "parshall:written-time";

/// The value of a rule as other clients know it: such a time as a timestamp, and everything else as it is.
#[must_use]
pub fn without_text(value: &Value) -> Cow<'_, Value> {
    match value {
        Value::Described(described) => milliseconds(&described.0, &described.1)
            .map_or(Cow::Borrowed(value), |milliseconds| Cow::Owned(Value::Timestamp(milliseconds))),
        _ => Cow::Borrowed(value),
    }
}

/// The milliseconds since 1970 of what is described, if it is such a time.
pub(super) fn milliseconds(descriptor: &Value, value: &Value) -> Option<i64> {
    match (descriptor.as_text(), value) {
        (Some(WRITTEN_TIME), Value::List(parts)) => match parts[..] {
            [Value::Timestamp(milliseconds), Value::String(_)] => Some(milliseconds),
            _ => None,
        },
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::super::{ApplicationProperties, CorrelationFilter, MessageProperties, SqlFilter};
    use super::*;

    #[test]
    fn a_time_with_a_text_is_compared_as_a_timestamp() {
        let parts = Value::List(vec![Value::Timestamp(1_250), "1970-01-01T00:00:01.25".into()]);
        let written = Value::Described(Box::new((Value::Symbol(WRITTEN_TIME.into()), parts)));
        assert_eq!(*without_text(&written), Value::Timestamp(1_250));
        let message = |milliseconds| MessageProperties {
            application: ApplicationProperties::of(vec![("at".to_owned(), Value::Timestamp(milliseconds))]),
            ..MessageProperties::default()
        };
        let correlation = CorrelationFilter {
            properties: vec![("at".to_owned(), written.clone())],
            ..CorrelationFilter::default()
        };
        let sql = SqlFilter::with_parameters("at >= @least", vec![("@least".to_owned(), written)]).unwrap();
        assert!(correlation.matches(&message(1_250)) && !correlation.matches(&message(1_251)));
        assert!(sql.matches(&message(1_250)) && !sql.matches(&message(1_249)));
    }
}
