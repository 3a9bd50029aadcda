//! Where a receiver wants to start: the selector filter of its source.

use amqp::Value;
use amqp::codec::Symbol;
use amqp::performative::Source;

use crate::front::amqp::links::terminus::FilterKind;
use partition_log::UnixTime;
use partition_log::{Edge, Start};

/// Why a filter is not understood: the text for the client.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "The filter '{0}' is not one of 'amqp.annotation.x-opt-offset', '-sequence-number' or '-enqueued-time' \
         compared by '>' or '>=' with a quoted value."
)]
pub(crate) struct FilterError(String);

/// The start that `source` asks for, and the filters that are applied for it; the oldest event without one.
pub(crate) fn start_of(source: &Source) -> Result<(Start, Vec<(Symbol, Value)>), FilterError> {
    let Some((place, selector)) = FilterKind::Selector.find(source) else {
        return Ok((Start::Earliest, Vec::new()));
    };
    let text = selector.as_text().ok_or_else(|| FilterError(String::new()))?;
    let start = parse(text).ok_or_else(|| FilterError(text.to_owned()))?;
    Ok((start, vec![source.filter[place].clone()]))
}

fn parse(selector: &str) -> Option<Start> {
    let (field, rest) = selector.trim().strip_prefix("amqp.annotation.")?.split_once('>')?;
    let (edge, rest) = match rest.strip_prefix('=') {
        Some(rest) => (Edge::Inclusive, rest),
        None => (Edge::Exclusive, rest),
    };
    let value = rest.trim();
    let value = value.strip_prefix('\'').and_then(|value| value.strip_suffix('\'')).unwrap_or(value);
    match (field.trim(), value) {
        ("x-opt-offset", "@latest") => Some(Start::Latest(edge)),
        // Before the first event, whichever the operator.
        ("x-opt-offset" | "x-opt-sequence-number", "-1") => Some(Start::Earliest),
        ("x-opt-offset" | "x-opt-sequence-number", number) => {
            Some(Start::SequenceNumber(number.parse().ok()?, edge))
        }
        ("x-opt-enqueued-time" | "x-opt-enqueuedtimeutc", milliseconds) => {
            Some(Start::AppendTime(UnixTime::from_milliseconds(milliseconds.parse().ok()?), edge))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_client_form_of_a_selector_is_read() {
        let time = UnixTime::from_milliseconds(1_700_000_000_123);
        for (selector, expected) in [
            ("amqp.annotation.x-opt-offset > '-1'", Some(Start::Earliest)),
            ("amqp.annotation.x-opt-offset >= '-1'", Some(Start::Earliest)),
            ("amqp.annotation.x-opt-offset > '@latest'", Some(Start::Latest(Edge::Exclusive))),
            ("amqp.annotation.x-opt-offset >= '@latest'", Some(Start::Latest(Edge::Inclusive))),
            ("amqp.annotation.x-opt-offset >'17'", Some(Start::SequenceNumber(17, Edge::Exclusive))),
            ("amqp.annotation.x-opt-sequence-number >= 5", Some(Start::SequenceNumber(5, Edge::Inclusive))),
            (
                "amqp.annotation.x-opt-enqueued-time > '1700000000123'",
                Some(Start::AppendTime(time, Edge::Exclusive)),
            ),
            (
                "amqp.annotation.x-opt-enqueuedtimeutc >= '1700000000123'",
                Some(Start::AppendTime(time, Edge::Inclusive)),
            ),
            ("amqp.annotation.x-opt-offset < '1'", None),
            ("amqp.annotation.x-opt-offset > 'a'", None),
            ("amqp.annotation.x-opt-other > '1'", None),
            ("", None),
        ] {
            assert_eq!(parse(selector), expected, "{selector:?}");
        }
    }

    #[test]
    fn no_filter_means_the_oldest_event() {
        assert_eq!(start_of(&Source::new("hub")), Ok((Start::Earliest, Vec::new())));
    }

    #[test]
    fn a_selector_is_applied_under_any_key_and_other_filters_are_not() {
        let described = |descriptor: &str, value: &str| {
            Value::Described(Box::new((Value::Symbol(descriptor.into()), Value::from(value))))
        };
        let selector = described("apache.org:selector-filter:string", "amqp.annotation.x-opt-offset > '3'");
        let no_local = described("apache.org:no-local-filter:list", "");
        let filter = vec![("no-local".into(), no_local), ("jms-selector".into(), selector)];
        let applied = vec![filter[1].clone()];
        let source = Source { filter, ..Source::new("hub") };
        assert_eq!(start_of(&source), Ok((Start::SequenceNumber(3, Edge::Exclusive), applied)));
    }
}
